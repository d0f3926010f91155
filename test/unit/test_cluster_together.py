"""Members that change together, on workers: the decisions, the memory and the bits of one process."""

import numpy as np
import pytest
from in_process import InProcess

import tinyphysics as tp
from tinyphysics.cluster.machines import Spread
from tinyphysics.errors import BackendError, InputError


@tp.hamiltonian
def well(q: tp.Vec[2], p: tp.Vec[2], k: float = 1.0):
    return p @ p / 2 + k * (q @ q - 1) ** 2


def spread(blocks=3, **how):
    return Spread(lambda: InProcess(**how), blocks)


def start(replicas, seed=0):
    rng = np.random.default_rng(seed)
    return {"q": rng.normal(size=(replicas, 2)), "p": rng.normal(size=(replicas, 2))}


def same(a, b):
    assert a.hash == b.hash and a.hashes == b.hashes
    for name in a.frames:
        assert np.array_equal(a.frames[name], b.frames[name])
    for name in a.observed:
        assert np.array_equal(a[name], b[name], equal_nan=True)
    assert np.array_equal(a.exchange.walker, b.exchange.walker) and np.array_equal(
        a.exchange.accepted, b.exchange.accepted
    )


CASES = {
    "temperatures": ({"temperature": 1.0}, {"temperature": [1.0, 1.5, 2.2, 3.0, 4.0], "exchange": 10}),
    "a parameter": ({"temperature": 1.0}, {"k": [1.0, 2.0, 4.0, 6.0, 9.0], "exchange": tp.exchange("k", every=7)}),
    "another bath": (
        {"temperature": 1.0, "bath": "bussi"}, {"temperature": [1.0, 1.5, 2.2, 3.0, 4.0], "exchange": 10}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_replicas_exchange_as_they_do_here(case):
    options, call = CASES[case]
    sim = tp.compile(well, dt=0.05, **options)
    call = (
        start(5)
        | call
        | {"steps": 95, "save_every": 8, "hash_every": 20, "seed": 4, "observe": {"r": lambda q: q @ q}}
    )
    whole = sim.evolve(**call)
    for blocks in (2, 5, None):
        same(whole, sim.evolve(**call, on=spread(blocks)))


def test_a_run_of_replicas_goes_on_from_its_checkpoint(tmp_path):
    sim = tp.compile(well, dt=0.05, temperature=1.0)
    call = start(4) | {"temperature": [1.0, 1.5, 2.2, 3.0], "exchange": 10, "seed": 4}
    whole = sim.evolve(**call, steps=80)
    sim.evolve(**call, steps=45, checkpoint=tmp_path / "c", on=spread())
    out = sim.evolve(resume=tmp_path / "c", steps=35, on=spread(2))
    assert out.hash == whole.hash


def test_a_replica_that_fails_stops_where_it_does_here():
    sim = tp.compile(well, dt=0.05, temperature=1.0, checks="off")
    call = start(4) | {
        "temperature": [1.0, 1.5, 2.2, 3.0],
        "exchange": 10,
        "seed": 4,
        "steps": 60,
        "save_every": 5,
    }
    call["q"][2] = 1e5
    whole, parts = sim.evolve(**call), sim.evolve(**call, on=spread(2))
    assert len(whole.stops) == 1
    assert [(s.cause, s.step, s.member) for s in whole.stops] == [
        (s.cause, s.step, s.member) for s in parts.stops
    ]
    assert parts.hash == whole.hash


def test_a_wrong_worker_changes_no_decision():
    sim = tp.compile(well, dt=0.05, temperature=1.0)
    call = start(6) | {"temperature": [1.0, 1.5, 2.2, 3.0, 4.0, 5.0], "exchange": 10, "seed": 4, "steps": 40}
    out = sim.evolve(**call, on=spread(6, names="abcd", wrong="b"), verify=1)
    assert out.metrics["cluster"]["liars"] == ["b"]
    same(sim.evolve(**call), out)


def test_workers_that_are_lost_end_the_run_with_what_there_was():
    class Going(InProcess):
        def submit(self, number, block, only=()):
            if block.stretch is not None and block.stretch.step >= 20:
                self.dying = set(self.names)
            super().submit(number, block, only)

    sim = tp.compile(well, dt=0.05, temperature=1.0)
    call = start(4) | {
        "temperature": [1.0, 1.5, 2.2, 3.0],
        "exchange": 10,
        "seed": 4,
        "steps": 60,
        "save_every": 10,
    }
    whole, out = sim.evolve(**call), sim.evolve(**call, on=Spread(Going, 2))
    assert out.stopped.cause == "device" and isinstance(out.stopped.error, BackendError)
    assert np.array_equal(out.q, whole.q[: len(out.q)]) and len(out.q) == 3


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + q @ q / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3


class Counted(InProcess):
    """How many blocks were run."""

    count = 0

    def submit(self, number, block, only=()):
        Counted.count += 1
        super().submit(number, block, only)


def small(members):
    rng = np.random.default_rng(3)
    return {"q": rng.uniform(-0.2, 0.2, (members, 2)), "p": rng.uniform(-0.2, 0.2, (members, 2))}


def test_goals_are_met_by_the_same_method_and_step(monkeypatch):
    monkeypatch.setattr("tinyphysics.runtime.stages.pilot_cache.recall", lambda name: None)
    monkeypatch.setattr("tinyphysics.runtime.measure.accuracy.recall", lambda name: None, raising=False)
    call = small(20) | {"until": 20.0, "frames": 3}
    whole = tp.compile(henon_heiles, energy_drift=1e-7, error=1e-5).evolve(**call)
    Counted.count = 0
    parts = tp.compile(henon_heiles, energy_drift=1e-7, error=1e-5).evolve(**call, on=Spread(Counted, 4))
    assert Counted.count > 4  # trial runs too
    assert parts.hash == whole.hash and parts.metrics["program"] == whole.metrics["program"]
    assert parts.final.step == whole.final.step


def test_a_step_is_suggested_as_it_is_here(tmp_path):
    sim, Counted.count = tp.compile(henon_heiles, dt=0.1), 0
    here = sim.suggest_dt(**small(20), error=1e-5)
    kept = Spread(Counted, 4, keep=tmp_path)
    assert sim.suggest_dt(**small(20), error=1e-5, on=kept) == here
    assert Counted.count and not [*tmp_path.iterdir()]


def test_hills_are_heaped_by_this_process():
    hills = tp.metadynamics(lambda q: q, width=0.1, height=0.5, every=10, grid=(-2, 2, 80))

    @tp.hamiltonian
    def double(q: float, p: float):
        return p**2 / 2 + (q**2 - 1) ** 2

    sim = tp.compile(double, dt=0.02, temperature=0.2, bias=hills)
    call = {"q": np.full(6, -1.0), "p": np.zeros(6), "steps": 60, "seed": 2, "save_every": 9}
    whole, parts = sim.evolve(**call), sim.evolve(**call, on=spread(3))
    assert whole.hash == parts.hash and np.array_equal(whole.q, parts.q)


@pytest.mark.parametrize(
    "what",
    [
        lambda sim: sim.evolve(**small(3), steps=300, observe={"Y": tp.chaos.megno})["Y"],
        lambda sim: tp.compile(pendulum, dt=0.05).evolve(theta=np.ones(4), omega=np.zeros(4), steps=9),
        lambda sim: sim.grad(lambda out: (out.final.q**2).sum(), q=[0.1, 0.0], p=[0.0, 0.3], steps=20),
        lambda sim: sim.grad(lambda out: (out.final.q**2).sum(), **small(3), steps=20),
        lambda sim: sim.suggest_dt(q=[0.1, 0.0], p=[0.0, 0.3], error=1e-5),
        lambda sim: sim.lyapunov(**small(3), until=30.0),
        lambda sim: sim.evolve(**small(3), steps=30).drift("energy"),
        lambda sim: sim.rewind(sim.evolve(**small(3), steps=30), 10),
    ],
)
def test_measurements_inside_machines_have_the_same_result(what):
    sim = tp.compile(henon_heiles, dt=0.05)
    here = what(sim)
    with spread(3):
        there = what(sim)
    assert flat(here) == flat(there)


@tp.lagrangian
def pendulum(theta: float, omega: float):
    return omega**2 / 2 + tp.cos(theta)


def test_a_lagrangian_travels():
    sim, call = (
        tp.compile(pendulum, dt=0.05),
        {"theta": np.linspace(0, 1, 9), "omega": np.zeros(9), "steps": 40},
    )
    whole, parts = sim.evolve(**call), sim.evolve(**call, on=spread(3))
    assert whole.hash == parts.hash and np.array_equal(whole.theta, parts.theta)


def test_directions_beside_the_states_do_not_travel():
    sim = tp.compile(henon_heiles, dt=0.05)
    with pytest.raises(InputError, match="directions"):
        sim.evolve(**small(3), steps=300, observe={"Y": tp.chaos.megno}, on=spread(3))


def flat(x):
    """Any result, so that bits can be compared."""
    if isinstance(x, dict):
        return {k: flat(v) for k, v in x.items()}
    if isinstance(x, (tuple, list)):
        return [flat(v) for v in x]
    if hasattr(x, "hash") and isinstance(x.hash, str):
        return x.hash
    if isinstance(x, (float, int, str, np.ndarray, np.generic)):
        return np.asarray(x).tobytes()
    return (
        {k: flat(v) for k, v in vars(x).items() if not k.startswith("_")}
        if hasattr(x, "__dict__")
        else repr(x)
    )
