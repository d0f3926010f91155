"""Members that change together, on workers: the decisions, the memory and the bits of one process."""

import numpy as np
import pytest
from in_process import InProcess

import tinyphysics as tp
from tinyphysics.cluster.machines import Spread
from tinyphysics.errors import BackendError


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
