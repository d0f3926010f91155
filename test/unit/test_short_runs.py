"""A call that is like one before it is done by a pattern: what it returns, warns of and refuses is what it always was."""

from __future__ import annotations

import copy
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.errors import PhysicsWarning, TinyPhysicsError
from tinyphysics.runtime.stages import evolve as stage
from tinyphysics.runtime.stages.short_runs import again
from tinyphysics.trajectory import Trajectory

TIMES = {"seconds", "ns_per_step", "steps_per_s", "peak_memory"}  # of the process: another run may have more


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):  # type: ignore[no-untyped-def]
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def pendulum(q, p, k=1.0):  # type: ignore[no-untyped-def]
    return p**2 / 2 - k * tp.cos(q)


@tp.hamiltonian
def driven(q, p, t, w: tp.Vec[2] = (1.0, 2.0)):  # type: ignore[no-untyped-def]
    return p**2 / 2 + q**4 / 4 - w[0] * q * tp.sin(w[1] * t)


@tp.map
def standard(q, p, K=0.9):  # type: ignore[no-untyped-def]
    p = p + K * tp.sin(q)
    return q + p, p


ONE = dict(q=[1.0, 0.0], p=[0.0, 1.1])
MANY = dict(q=np.linspace([0.9, 0.0], [1.1, 0.1], 5), p=np.linspace([0.0, 0.9], [0.1, 1.2], 5))


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each call that has a pattern: was it done by it?"""
    out: list[bool] = []

    def watched(*given: Any) -> Trajectory | None:
        found = again(*given)
        out.append(found is not None)
        return found

    monkeypatch.setattr(stage, "again", watched)
    return out


def ordinary(sim: Any, **call: Any) -> Trajectory:
    for _ in range(2):  # the code of the second is there
        sim._forms.clear()
        out: Trajectory = sim.evolve(**call)
    return out


def warm(sim: Any, **call: Any) -> Trajectory:
    """By a pattern, made of calls with other numbers."""
    sim._forms.clear()
    other = {n: 0.99 * np.asarray(v) if n in sim.own_names else v for n, v in call.items()}
    for _ in range(2):
        sim.evolve(**other)
    out: Trajectory = sim.evolve(**call)
    return out


def same(a: Trajectory, b: Trajectory) -> None:
    assert a.hash == b.hash
    for name in a.frames:
        assert a.frames[name].tobytes() == b.frames[name].tobytes()
        assert a.frames[name].shape == b.frames[name].shape and not b.frames[name].flags.writeable
        assert type(a.final.states[name]) is type(b.final.states[name])
        assert type(a.final.kept[name]) is type(b.final.kept[name])
        assert a.final.states[name].tobytes() == b.final.states[name].tobytes()
        assert a.final.states[name].shape == b.final.states[name].shape
    for x, y in ((a.t, b.t), (a.steps, b.steps)):
        assert np.array_equal(x, y) and x.dtype == y.dtype and x.flags.writeable == y.flags.writeable
    assert list(a.metrics) == list(b.metrics)
    assert {n: v for n, v in a.metrics.items() if n not in TIMES} == {
        n: v for n, v in b.metrics.items() if n not in TIMES
    }
    assert a.metrics["seconds"].keys() == b.metrics["seconds"].keys()
    assert repr(a) == repr(b) and repr(a.final) == repr(b.final)
    assert a.final.t == b.final.t and type(a.final.t) is type(b.final.t)
    assert a.final.given.keys() == b.final.given.keys()
    assert a.losses == b.losses and a.stops == b.stops
    assert vars(a).keys() == vars(b).keys()


CALLS = [
    dict(ONE, steps=10),
    dict(ONE, steps=3),
    dict(ONE, steps=1),
    dict(ONE, steps=10, frames=2),
    dict(ONE, steps=12, save_every=4),
    dict(ONE, until=0.5, t0=0.25, mu=1.1),
    dict(ONE, until=1),
    dict(ONE, steps=10, mu=1.0, progress=False, threads=1, seed=3),
    dict(MANY, steps=10),
    dict(MANY, steps=8, frames=2, mu=0.9),
]


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_short_run_is_what_the_ordinary_one_is(
    backend: str, call: dict[str, Any], taken: list[bool]
) -> None:
    sim = tp.compile(kepler, dt=0.01, backend=backend)
    expected, found = ordinary(sim, **call), warm(sim, **call)
    assert taken == [True]
    same(expected, found)
    assert np.array_equal(expected.energy, found.energy)
    assert np.array_equal(expected.drift("energy"), found.drift("energy"))


@pytest.mark.parametrize(
    ("system", "start"),
    [
        (pendulum, dict(q=1.0, p=0.2)),
        (pendulum, dict(q=1, p=0, k=2)),
        (driven, dict(q=0.5, p=0.0, w=[0.3, 1.5])),
        (standard, dict(q=0.5, p=0.1)),
    ],
)
def test_scalars_parameters_time_and_maps(system: Any, start: dict[str, Any], taken: list[bool]) -> None:
    sim = tp.compile(system, **({} if system.kind == "map" else {"dt": 0.02}))
    expected, found = ordinary(sim, **start, steps=9), warm(sim, **start, steps=9)
    assert taken == [True]
    same(expected, found)


def test_what_follows_from_a_run_follows_from_a_short_one(taken: list[bool]) -> None:
    sim = tp.compile(kepler, dt=0.01)
    expected, found = ordinary(sim, **ONE, mu=1.2, steps=10), warm(sim, **ONE, mu=1.2, steps=10)
    assert taken == [True]
    assert sim.evolve(resume=found, steps=5).hash == sim.evolve(resume=expected, steps=5).hash
    assert sim.evolve(**found.final, steps=5).hash == sim.evolve(**expected.final, steps=5).hash
    assert sim.rewind(found, 3).hash == sim.rewind(expected, 3).hash
    assert pickle.loads(pickle.dumps(found)).hash == found.hash
    assert copy.copy(sim)._forms == {} and pickle.loads(pickle.dumps(sim))._forms == {}
    assert {n: v.tolist() for n, v in found.final.given.items()} == {"mu": 1.2}


def test_what_was_given_may_be_changed_afterwards() -> None:
    sim = tp.compile(kepler, dt=0.01)
    q, p = (np.array(ONE[name]) for name in "qp")
    expected = ordinary(sim, q=q, p=p, steps=10).drift("energy")
    out = warm(sim, q=q, p=p, steps=10)
    q[:], p[:] = 7.0, 7.0
    assert np.array_equal(out.q[0], ONE["q"]) and out.drift("energy") == expected


WRONG = [
    dict(q=[1.0], p=[0.0, 1.0]),
    dict(q=[1.0, np.nan], p=[0.0, 1.0]),
    dict(q=["a", "b"], p=[0.0, 1.0]),
    dict(q=[True, False], p=[0.0, 1j]),
    dict(q=[1.0, 0.0], p=[0.0, np.inf]),
    dict(q=[1.0, 0.0], p=[0.0, 1.0], mu=np.inf),
    dict(q=[1.0, 0.0], p=[0.0, 1.0], mu=[[1.0, 2.0]]),
    dict(q=[1.0, 0.0], p=[0.0, 1.0], mu=None),
    dict(q=[1.0, 0.0]),
    dict(q=[1.0, 0.0], p=[0.0, 1.0], nu=1.0),
    dict(q=[1.0, 0.0], p=[0.0, 1.0], steps=True),
    dict(q=[1.0, 0.0], p=[0.0, 1.0], steps=10, until=1.0),
    dict(q=[1.0, 0.0], p=[0.0, 1.0], steps=10, progress="perhaps"),
]


@pytest.mark.parametrize("call", WRONG, ids=str)
def test_a_wrong_call_is_refused_with_the_same_words(call: dict[str, Any]) -> None:
    sim = tp.compile(kepler, dt=0.01)
    call = {"steps": 10, **call}

    def told() -> str:
        with pytest.raises(TinyPhysicsError) as error:
            sim.evolve(**call)
        return f"{type(error.value).__name__}: {error.value}"

    first = told()
    for _ in range(3):
        sim.evolve(**ONE, steps=10)
        sim.evolve(**ONE, mu=1.0, steps=10)
    assert told() == first


@tp.hamiltonian
def pit(q, p):  # type: ignore[no-untyped-def]
    return p**2 / 2 - q**4


def test_a_run_that_fails_is_found_out_by_the_ordinary_way(taken: list[bool]) -> None:
    sim = tp.compile(pit, dt=0.1, checks="off")
    expected, found = ordinary(sim, q=3.0, p=5.0, steps=10), None
    sim._forms.clear()
    for _ in range(3):
        assert sim.evolve(q=0.1, p=0.0, steps=10).stopped is None
    found = sim.evolve(q=3.0, p=5.0, steps=10)
    assert taken == [True, False] and found.stopped == expected.stopped is not None
    assert found.hash == expected.hash


def test_a_pattern_of_a_run_that_failed_serves_those_that_do_not(taken: list[bool]) -> None:
    sim = tp.compile(pit, dt=0.1, checks="off")
    expected = ordinary(sim, q=0.1, p=0.0, steps=10)
    sim._forms.clear()
    for _ in range(2):
        assert sim.evolve(q=3.0, p=5.0, steps=10).stopped is not None
    same(expected, sim.evolve(q=0.1, p=0.0, steps=10))
    assert taken == [True]


def test_a_form_that_has_no_pattern_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []
    monkeypatch.setattr(stage, "pattern_of", lambda *given: tried.append(given))
    sim = tp.compile(pendulum, dt=0.01)
    for _ in range(5):
        sim.evolve(q=1.0, p=0.0, steps=4)
    assert len(tried) == 1


def test_a_run_that_looks_wrong_is_warned_of() -> None:
    sim = tp.compile(pendulum, dt=2.5)
    for _ in range(3):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            out = sim.evolve(q=1.0, p=0.0, steps=10)
        assert [w.category for w in seen] == [PhysicsWarning] and seen[0].filename == __file__
        assert out._warned and out._warned[0] in out.metrics["notes"]


def test_a_simulation_that_has_changed_has_no_use_for_old_patterns(taken: list[bool]) -> None:
    sim = tp.compile(kepler, dt=0.01)
    for _ in range(3):
        sim.evolve(**ONE, steps=10)
    assert taken == [True]
    sim.monitor(lambda q: q @ q, name="r2")
    assert len(sim.evolve(**ONE, steps=10)["r2"]) == 11
    sim.monitors.clear()
    sim.checks = "off"
    sim.evolve(**ONE, steps=10)
    assert taken == [True]
    sim.evolve(**ONE, steps=10)
    assert taken == [True, True]


def test_acts_of_the_last_run_are_forgotten(taken: list[bool]) -> None:
    sim = tp.compile(kepler, dt=0.01)
    for _ in range(3):
        sim.evolve(**ONE, steps=10)
    sim.evolve(**ONE, steps=10, acts={"turn": tp.act(every=5, map=lambda p: -p)})
    assert sim._acts and "turn" in str(sim.explain("full"))
    sim.evolve(**ONE, steps=10)
    assert taken == [True] and not sim._acts
    a, b = sim.evolve(**ONE, steps=10), sim.evolve(**ONE, steps=10)
    assert taken == [True] * 3
    mutable = ("hashes", "metrics", "observed", "found", "_cache", "_acts", "frames", "kept")
    assert not any(getattr(a, name) is getattr(b, name) for name in mutable)


def test_forms_are_forgotten_before_they_are_many() -> None:
    from tinyphysics.runtime.stages.forms import MOST

    sim = tp.compile(pendulum, dt=0.01)
    for steps in range(1, 2 * MOST):
        sim.evolve(q=1.0, p=0.0, steps=steps)
    assert 0 < len(sim._forms) <= MOST


@pytest.mark.parametrize("start", [ONE, MANY], ids=["one", "many"])
def test_blocks_that_are_used_again_leave_what_was_returned(start: dict[str, Any], taken: list[bool]) -> None:
    sim = tp.compile(kepler, dt=0.01)
    runs = [sim.evolve(**start, mu=mu, steps=10, frames=2) for mu in (1.0, 1.0, 1.1, 1.2, 1.1)]
    assert taken == [True, True, True]
    for mu, out in zip((1.0, 1.0, 1.1, 1.2, 1.1), runs):
        alone = tp.compile(kepler, dt=0.01).evolve(**start, mu=mu, steps=10, frames=2)
        assert out.hash == alone.hash and np.array_equal(out.q, alone.q)
        np.testing.assert_array_equal(out.q[0], start["q"])


def test_threads_that_run_one_simulation_have_blocks_of_their_own() -> None:
    sim = tp.compile(kepler, dt=0.01)
    own = [dict(q=[1.0 + 0.01 * k, 0.0], p=[0.0, 1.0]) for k in range(8)]
    alone = [sim.evolve(**x, steps=300, frames=2).hash for x in own]
    with ThreadPoolExecutor(4) as pool:
        assert (
            list(pool.map(lambda k: sim.evolve(**own[k % 8], steps=300, frames=2).hash, range(200)))
            == alone * 25
        )
