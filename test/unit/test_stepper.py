"""A loop of the caller's: its steps are those of evolve, bit for bit, and it says what cannot be done."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.device.engines.engine import LaneEngine
from tinyphysics.errors import InputError, PlanError, StoreError, TinyPhysicsError

BACKENDS = ["python", "numpy", "llvm", "c"]
PARTS = (1, 2, 0, 5, 1, 8)  # steps of each call


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):  # type: ignore[no-untyped-def]
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def driven(q, p, t, w=1.5):  # type: ignore[no-untyped-def]
    return p**2 / 2 + q**4 / 4 - 0.3 * q * tp.sin(w * t)


@tp.hamiltonian
def chain(q: tp.Array["n"], p: tp.Array["n"], k: float = 1.0):  # type: ignore[no-untyped-def]  # noqa: F821
    d = q[1:] - q[:-1]
    return (p @ p + k * (d @ d)) / 2 + (d**4).sum() / 4


@tp.hamiltonian
def spring(q, p, k=2.0):  # type: ignore[no-untyped-def]
    return p**2 / 2 + k * q**2 / 2


@tp.map
def standard(q, p, K=0.9):  # type: ignore[no-untyped-def]
    p = p + K * tp.sin(q) + 0.01 * tp.random.normal()
    return q + p, p


@tp.ode
def lotka(x, y, a=1.5):  # type: ignore[no-untyped-def]
    return a * x - x * y, x * y - 3 * y


ONE = dict(q=[1.0, 0.0], p=[0.0, 1.1])
MANY = dict(q=np.linspace([0.9, 0.0], [1.1, 0.1], 5), p=np.linspace([0.0, 0.9], [0.1, 1.2], 5))
ROW = dict(q=np.linspace(0.0, 1.0, 80), p=np.zeros(80))

# fmt: off
RUNS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "one":          (kepler,   {"dt": 0.01}, ONE),
    "a parameter":  (kepler,   {"dt": 0.01}, {**ONE, "mu": 1.2, "t0": 0.5}),
    "an ensemble":  (kepler,   {"dt": 0.01}, MANY),
    "own values":   (kepler,   {"dt": 0.01}, {**ONE, "mu": [0.9, 1.0, 1.1]}),
    "of time":      (driven,   {"dt": 0.05}, {"q": 0.5, "p": 0.0, "t0": 1.0}),
    "order 4":      (kepler,   {"dt": 0.01, "method": "yoshida4"}, ONE),
    "an array":     (chain,    {"dt": 0.02}, ROW),
    "a map":        (standard, {}, {"q": 0.5, "p": 0.1, "seed": 3}),
    "rates":        (lotka,    {"dt": 0.01, "method": "rk4"}, {"x": 1.0, "y": 2.0}),
    "own steps":    (lotka,    {"dt": 0.1, "tolerance": 1e-9}, {"x": 1.0, "y": 2.0}),
    "a jump":       (spring,   {"dt": 0.1}, {"q": 1.0, "p": 0.0}),
    "own time":     (kepler,   {"dt": 0.01, "time": "logarithmic"}, ONE),
    "dd":           (kepler,   {"dt": 0.01, "precision": "dd"}, ONE),
    "float32":      (kepler,   {"dt": 0.01, "precision": "float32"}, MANY),
    "compensated":  (kepler,   {"dt": 0.01, "precision": "compensated"}, ONE),
    "lattice":      (kepler,   {"dt": 0.01, "precision": "lattice"}, ONE),
    "a projection": (kepler,   {"dt": 0.01, "method": "rk4", "project": "energy"}, ONE),
}
# fmt: on
SLOW_IN_PYTHON = {"an array", "own steps", "a projection"}


@pytest.mark.thin(strength=1)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", RUNS)
def test_steps_have_the_bits_of_evolve_however_they_are_divided(name: str, backend: str) -> None:
    if backend == "python" and name in SLOW_IN_PYTHON:
        pytest.skip("the other backends are compared")
    system, options, start = RUNS[name]
    sim = tp.compile(system, backend=backend, checks="off", **options)
    s, n = sim.stepper(**start), 0
    for part in PARTS:
        s.step(part)
        n += part
        if n in (0, 1, 8, 17):
            final = sim.evolve(**start, steps=n).final
            assert (s.steps, s.t) == (n, final.t)
            for state, v in final.states.items():
                assert s[state].tobytes() == v.tobytes() and s[state].shape == v.shape
                assert not s[state].flags.writeable
            for word, v in final.kept.items():
                assert np.asarray(s.frame.kept[word]).tobytes() == np.asarray(v).tobytes()


def test_an_ensemble_of_many_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LaneEngine, "room", 1 << 10)
    start = dict(q=np.linspace([0.9, 0.0], [1.1, 0.1], 20_000), p=np.linspace([0.0, 0.9], [0.1, 1.2], 20_000))
    sim = tp.compile(kepler, dt=0.01)
    s = sim.stepper(**start)
    assert len(s._loop.loop.tiles) > 1
    s.step(3)
    s.step(4)
    final = sim.evolve(**start, steps=7).final
    assert np.array_equal(s.q, final.q) and np.array_equal(s.p, final.p)


def test_many_steps_at_once_are_done_as_a_run_does_them() -> None:
    sim = tp.compile(kepler, dt=0.01)
    s = sim.stepper(**ONE)
    s.step()
    s.step(s._loop.short.most + 1)
    s.step(2)
    assert np.array_equal(s.q, sim.evolve(**ONE, steps=s.steps).final.q)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_parameter_and_a_state_may_change_between_steps(backend: str) -> None:
    sim = tp.compile(kepler, dt=0.01, backend=backend)
    s = sim.stepper(**ONE)
    s.step(4)
    s.mu = 1.3
    assert s.mu == 1.3 and s.steps == 4
    s.step(3)
    first = sim.evolve(**ONE, steps=4)
    assert np.array_equal(s.q, sim.evolve(**first.final, mu=1.3, steps=3).final.q)
    kick = {"kick": tp.act(every=4, map=lambda p: 1.5 * p)}
    s = sim.stepper(**ONE)
    s.step(4)
    s.p = 1.5 * s.p
    assert np.array_equal(s.p, 1.5 * first.final.p)
    s.step(3)
    assert np.array_equal(s.q, sim.evolve(**ONE, steps=7, acts=kick).final.q)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_clock_goes_on_when_something_changes(backend: str) -> None:
    sim = tp.compile(driven, dt=0.05, backend=backend)
    kick = {"kick": tp.act(every=5, map=lambda p: p + 0.25)}
    s = sim.stepper(q=0.5, p=0.0, t0=0.3)
    for _ in range(2):
        s.step(5)
        s["p"] = s["p"] + 0.25
    s.step(2)
    out = sim.evolve(q=0.5, p=0.0, t0=0.3, steps=12, acts=kick)
    assert s.q == out.final.q and s.t == out.final.t


def test_words_go_on_when_a_parameter_changes() -> None:
    sim = tp.compile(kepler, dt=0.01, precision="dd")
    s = sim.stepper(**ONE)
    s.step(4)
    low = s.frame.words("q")
    s.mu = 1.0
    s.step(0)
    assert [v.tobytes() for v in s.frame.words("q")] == [v.tobytes() for v in low]


def test_what_it_shows_is_a_copy() -> None:
    s = tp.compile(kepler, dt=0.01).stepper(**ONE)
    first = s.q
    s.step()
    assert np.array_equal(first, ONE["q"]) and not np.array_equal(s.q, first)
    with pytest.raises(ValueError, match="read-only"):
        s.q[0] = 1.0


@tp.hamiltonian
def pit(q, p):  # type: ignore[no-untyped-def]
    return p**2 / 2 - q**4


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_failure_is_data_and_nothing_goes_on_after_it(backend: str) -> None:
    sim = tp.compile(pit, dt=0.1, backend=backend, checks="off")
    out = sim.evolve(q=3.0, p=5.0, steps=20)
    s = sim.stepper(q=3.0, p=5.0)
    for _ in range(20):
        s.step()
    assert s.stopped == out.stopped is not None
    assert (s.steps, s.t) == (out.final.step, out.final.t) and s.q == out.final.q
    assert "stopped: not finite at step" in repr(s)
    s.q, s.p = 0.1, 0.0
    s.step()
    assert s.stopped is None and s.steps == out.final.step + 1


@pytest.mark.parametrize("parts", [(20,), (1,) * 20])
def test_a_member_that_fails_stops_and_the_others_go_on(parts: tuple[int, ...]) -> None:
    sim = tp.compile(pit, dt=0.1, checks="off")
    start = dict(q=[0.1, 3.0, 0.2], p=[0.0, 5.0, 0.0])
    out, s = sim.evolve(**start, steps=20), sim.stepper(**start)
    for n in parts:
        s.step(n)
    assert s.steps == 20 and s.stops == out.stops and s.stopped.member == 1
    assert np.array_equal(s.q, out.final.q) and np.array_equal(s.p, out.final.p)


def test_a_guard_that_fires_is_done_carefully() -> None:
    @tp.map
    def turns(q, w=1e9):  # type: ignore[no-untyped-def]
        return tp.sin(q * w) + q

    sim = tp.compile(turns)
    s = sim.stepper(q=[0.5, 2.5], w=3e15)
    for _ in range(5):
        s.step()
    assert np.array_equal(s.q, sim.evolve(q=[0.5, 2.5], w=3e15, steps=5).final.q)


def test_a_frame_of_it_begins_other_runs() -> None:
    sim = tp.compile(driven, dt=0.05)
    s = sim.stepper(q=0.5, p=0.0, w=2.0)
    s.step(6)
    out = sim.evolve(**s.frame, steps=4)
    assert out.t[0] == s.t and out.origin.run.given.params["w"] == 2.0
    other = sim.stepper(**s.frame)
    other.step(4)
    assert other.q == out.final.q


def test_sizes_and_names_of_its_own() -> None:
    sim = tp.compile(chain, dt=0.01)
    s = sim.stepper(**ROW)
    s.step()
    assert s.q.shape == (80,)

    @tp.map
    def names(steps, t_=1.0):  # type: ignore[no-untyped-def]
        return steps + 1

    s = tp.compile(names).stepper(steps=5.0)
    s.step(2)
    assert s.steps == 2 and s["steps"] == 7.0
    s["steps"] = 1.0
    s.step()
    assert s["steps"] == 2.0 and "steps" in dir(s)


def told(call: Any) -> str:
    with pytest.raises(TinyPhysicsError) as error:
        call()
    return str(error.value)


def test_wrong_use_says_what_to_write() -> None:
    sim = tp.compile(kepler, dt=0.01)
    s = sim.stepper(**ONE)
    assert "Write s.step(1000)." in told(lambda: sim.stepper(**ONE, steps=10))
    assert "while s.t < 10.0: s.step()" in told(lambda: sim.stepper(**ONE, until=1.0))
    assert "sim.evolve(..., observe=...)" in told(lambda: sim.stepper(**ONE, observe={}))
    assert "has no state or parameter `nu`" in told(lambda: sim.stepper(**ONE, nu=1.0))
    assert "the initial `p` is missing" in told(lambda: sim.stepper(q=[1.0, 0.0]))
    assert "n=-1 is less than 0" in told(lambda: s.step(-1))
    assert "n=1.5 is not a whole number" in told(lambda: s.step(1.5))  # type: ignore[arg-type]
    assert "n=True is not a whole number" in told(lambda: s.step(True))
    s.step(2.0)  # type: ignore[arg-type]
    assert s.steps == 2
    assert "has no `nu`" in told(lambda: setattr(s, "nu", 1.0))
    assert "has no `nu`" in told(lambda: s["nu"])
    with pytest.raises(AttributeError, match="has no `nu`"):
        s.nu  # noqa: B018
    assert "s = sim.stepper(**s.frame, dt=0.02)" in told(lambda: setattr(s, "dt", 0.02))
    assert "s = sim.stepper(**s.frame, t0=1.0)" in told(lambda: setattr(s, "t", 1.0))
    assert "counts its own steps" in told(lambda: setattr(s, "steps", 1))


def test_a_wrong_value_is_refused_where_it_is_used_and_changes_nothing() -> None:
    s = tp.compile(kepler, dt=0.01).stepper(**ONE)
    s.step(3)
    before = s.q
    for name, value in (("q", [1.0]), ("q", [np.nan, 1.0]), ("mu", "heavy"), ("mu", None)):
        s[name] = value
        assert told(s.step)
        assert np.array_equal(s.q, before) and s.steps == 3
    s.step()
    assert s.steps == 4


@pytest.mark.parametrize("name", ["own steps", "a jump", "own time", "a projection"])
def test_what_cannot_change_between_steps_says_how_to_begin_anew(name: str) -> None:
    system, options, start = RUNS[name]
    s = tp.compile(system, **options).stepper(**start)
    (parameter, *_) = (p.name for p in system.parameters)
    with pytest.raises(PlanError, match=rf"s = sim.stepper\(\*\*s.frame, {parameter}=2.0\)"):
        s[parameter] = 2.0


def test_what_has_no_step_yet_says_what_to_pass() -> None:
    with pytest.raises(InputError, match="sim.stepper"):
        tp.compile(lotka, tolerance=1e-9).stepper(x=1.0, y=2.0)
    sim = tp.compile(kepler, error=1e-3)
    with pytest.raises(InputError, match="pilot="):
        sim.stepper(**ONE)
    with pytest.raises(InputError, match="dt is missing"):
        tp.compile(kepler).stepper(**ONE)
    assert tp.compile(kepler).stepper(**ONE, dt=0.02).dt == 0.02


def test_it_cannot_be_copied_or_pickled() -> None:
    s = tp.compile(kepler, dt=0.01).stepper(**ONE)
    for use in (copy.copy, pickle.dumps):
        with pytest.raises(StoreError, match="Keep s.frame"):
            use(s)  # type: ignore[operator]


def test_a_seed_that_is_no_number_is_refused():
    noise = tp.map(lambda x: 0.5 * x + tp.random.normal())
    with pytest.raises(tp.InputError, match="seed='a' is not a whole number"):
        tp.compile(noise).stepper(x=0.1, seed="a")
