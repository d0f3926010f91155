"""Does a tape show one step as it ran?  Values and cotangents operation by operation, with lines, the same bytes every time."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp

pytestmark = pytest.mark.requirement("S2-13")


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    r = tp.norm(q)
    return p @ p / 2 - mu / r


@tp.hamiltonian
def stiff(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + 50 * q[0] ** 2


@tp.potential
def soft(q: tp.Vec[2], a: float = 1.0):
    return a * q[0] ** 4 + q[1] ** 4


@tp.ode
def lorenz(x: tp.Vec[3], rho: float = 28.0):
    return np.stack([10 * (x[1] - x[0]), x[0] * (rho - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]])


ORBIT = dict(q=[1.0, 0.0], p=[0.0, 1.2])


@pytest.mark.parametrize("precision", ["float64", "lattice", "float32", "dd"])
def test_the_cotangents_of_a_tape_are_those_of_the_step(precision):
    sim = tp.compile(kepler, dt=0.01, method="leapfrog", precision=precision)
    seeds = dict(q=[1.0, -0.5], p=[0.25, 2.0])
    tape = sim.tape(step=0, cotangents=seeds, **ORBIT)
    want = sim.vjp(seeds, **ORBIT, steps=1)
    assert all(np.array_equal(tape.cotangents[n], want[n]) for n in ("q", "p", "mu"))
    end = sim.evolve(**ORBIT, steps=4).final
    later = sim.tape(step=3, **ORBIT)
    # the last write of q is the state of the run: kicks at both ends of a step do not move it
    if precision == "float64":
        (q,) = [o.value for o in later.forward[0].operations if o.text.startswith("SYMP_STEP S0")]
        assert np.array_equal(q, end.q)


def test_a_tape_has_the_lines_of_the_energy_and_the_same_bytes():
    sim = tp.compile(kepler, dt=0.01, method="leapfrog")
    first, again = (str(sim.tape(step=3, **ORBIT)) for _ in range(2))
    other = str(tp.compile(kepler, dt=0.01, method="leapfrog", backend="numpy").tape(step=3, **ORBIT))
    assert first == again == other
    drift, kick = sim.tape(step=3, **ORBIT).forward
    assert len(drift.lines) == 1 and len(kick.lines) == 2 and drift.lines[0] in kick.lines
    assert all(x.startswith("test_tape.py:") for x in kick.lines)
    assert "ACC_GRAD" in first and "SYMP_STEP" in first and "cotangents before the step" in first


def test_micro_steps_of_a_fast_part_are_one_entry_that_opens():
    sim = tp.compile(tp.fast(stiff) + tp.slow(soft), dt=0.1, inner=4)
    tape = sim.tape(step=2, q=[1.0, 1.0], p=[0.0, 0.0])
    frame, kick = tape.forward
    assert "frame of 4 micro-steps" in str(frame) and len(frame.inside) == 8 and not kick.inside
    assert frame.open().count("writes q") == 4 and "writes q" not in str(frame)


def test_a_tape_of_an_equation_and_of_a_map():
    tape = tp.compile(lorenz, dt=0.01, method="rk4").tape(step=1, x=[1.0, 2.0, 20.0])
    assert tape.forward and tape.backward and set(tape.cotangents) == {"x", "rho"}


def test_wrong_calls():
    sim = tp.compile(kepler, dt=0.01, method="leapfrog")
    wrong = [
        (lambda: sim.tape(**ORBIT), "step"),
        (lambda: sim.tape(step=-1, **ORBIT), "step=-1"),
        (lambda: sim.tape(step=1, cotangents={"r": 1.0}, **ORBIT), "no state"),
        (lambda: sim.tape(step=1, cotangents={"q": 1.0}, **ORBIT), "has shape"),
        (lambda: sim.tape(step=1, q=np.ones((3, 2)), p=np.ones((3, 2))), "one run"),
    ]
    for call, word in wrong:
        with pytest.raises(tp.TinyPhysicsError, match=word):
            call()
