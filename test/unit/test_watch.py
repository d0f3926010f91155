"""Is a run looked at inside, stopped where a watch says so, and else left as it is?"""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.api import simulation
from tinyphysics.runtime.measure.diagnostics import DIAGNOSTICS
from tinyphysics.runtime.stages.diagnose import Diagnostic
from tinyphysics.runtime.stages.observed import traced
from tinyphysics.runtime.state.run import Watch

EVERY = 7


@tp.hamiltonian
def falling(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + q[1]


def L(q, p):
    """At q = (1, ...), p = (0, ...) it is -t: the weight at arm's length 1."""
    return q[0] * p[1] - q[1] * p[0]


@pytest.fixture
def bound(monkeypatch):
    """Puts a diagnostic into the table that stops members whose L has changed by more than this."""

    def put(within: float) -> None:
        def watches(setup, run):
            firsts = {}
            begin = lambda here, first: firsts.update({here.start: first["L"]})  # noqa: E731
            bad = lambda here, now, n: np.abs(now["L"] - firsts[here.start]) > within  # noqa: E731
            return [Watch("L", {"L": traced(setup.system, L, "L")}, EVERY, begin, bad, "L is not kept")]

        monkeypatch.setattr(simulation, "DIAGNOSTICS", (*DIAGNOSTICS, Diagnostic("charge", watch=watches)))

    return put


@pytest.mark.parametrize("backend", ["python", "numpy", "llvm"])
def test_a_run_stops_at_the_first_look_that_is_bad(bound, backend):
    sim = tp.compile(falling, dt=0.01, method="leapfrog", propagator="loop", backend=backend)
    whole = sim.evolve(q=[1.0, 0.0], p=[0.0, 0.0], steps=56)
    bound(0.5005)
    out = sim.evolve(q=[1.0, 0.0], p=[0.0, 0.0], steps=200)
    assert (
        out.stopped.cause == "L is not kept" and out.stopped.step == 57
    )  # 56 is the first multiple of 7 above 50.05
    assert out.stopped.where[0] == "L" and out.stopped.where[1] == pytest.approx(-0.56)
    assert (out.final.p == whole.final.p).all() and (out.final.q == whole.final.q).all()


@pytest.mark.parametrize("options", [{}, {"save_every": 3}, {"hash_every": 10}])
def test_a_watch_changes_no_bit(bound, options):
    sim = tp.compile(falling, dt=0.01, method="leapfrog", propagator="loop")
    alone = sim.evolve(q=[1.0, 0.0], p=[0.0, 0.3], steps=100, **options)
    bound(10.0)
    out = sim.evolve(q=[1.0, 0.0], p=[0.0, 0.3], steps=100, **options)
    assert out.stopped is None and out.hash == alone.hash
    assert [np.array_equal(out.q, alone.q), out.hashes == alone.hashes] == [True, True]


def test_members_stop_one_by_one(bound):
    arms = np.array([0.5, 1.0, 2.0])
    bound(0.5005)
    sim = tp.compile(falling, dt=0.01, method="leapfrog", propagator="loop")
    out = sim.evolve(q=np.stack([arms, 0 * arms], -1), p=np.zeros((3, 2)), steps=80)
    assert [(s.member, s.step) for s in out.stops] == [
        (2, 29),
        (1, 57),
    ]  # 28 > 25.02, 56 > 50.05; 0.4 stays below
