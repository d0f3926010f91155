"""No verdict comes from an empty set: what says yes was looked at, and what is measured agrees."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics import tpir


@tp.hamiltonian
def even(q: float, p: float):
    return p**2 / 2 + q**2 / 2 + q**2 * p**2 / 10


@tp.hamiltonian
def cubic(q: float, p: float):
    return p**2 / 2 + 0.3 * p**3 + q**2 / 2


@tp.hamiltonian
def crossed(q: float, p: float):
    return p**2 / 2 + q**4 / 4 + 0.3 * q * p


@tp.lagrangian
def magnetic(q: tp.Vec[2], v: tp.Vec[2]):
    return v @ v / 2 - q @ q / 2 + 0.4 * (q[0] * v[1] - q[1] * v[0])


ONE = {"q": 0.5, "p": 0.4}
TWO = {"q": [0.5, -0.2], "p": [0.4, 0.3]}
METHODS = [
    "extended_phase_space",
    "extended_phase_space4",
    "extended_phase_space6",
    "implicit_midpoint",
    "gauss4",
    "auto",
]


def missed(sim, start):
    """By how much three steps and back with the momenta turned round miss the start."""
    there = sim.evolve(**start, steps=3).final
    back = sim.evolve(q=there.q, p=-np.asarray(there.p), steps=3).final
    return max(np.abs(back.q - np.asarray(start["q"])).max(), np.abs(back.p + np.asarray(start["p"])).max())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("system", "start"), [(even, ONE), (cubic, ONE), (crossed, ONE), (magnetic, TWO)])
def test_what_is_certified_reversible_returns(system, start, method):
    sim = tp.compile(system, dt=0.1, method=method)
    verdict, off = sim.certificate.reversible, missed(sim, start)
    assert (off < 1e-12) == (system is even)
    assert verdict.holds == (system is even), verdict.because


STILL = """program still
state S0 q f64[] position
state S1 p f64[] momentum of S0
param $dt f64[] = 0.1
init:
  LOAD S0, &q
  LOAD S1, &p
step:
final:
  STORE &q, S0
  STORE &p, S1
"""


def test_a_program_without_energy_and_motion_is_consistent_with_nothing():
    certificate = parse_and_verify(STILL)
    assert not certificate.consistent
    assert certificate.reversible.because == "nothing moves"


def test_a_solution_that_moves_no_state_shows_nothing():
    lines = str(tp.compile(even, dt=0.1, method="implicit_midpoint").tpir).splitlines()
    unmoved = "\n".join(
        x for x in lines if "SYMP_STEP" not in x and "POISSON_J" not in x and "claim" not in x
    )
    certificate = parse_and_verify(unmoved)
    assert not any(verdict for _, verdict in certificate.items())


def parse_and_verify(text):
    return tpir.verify(tpir.parse(text))
