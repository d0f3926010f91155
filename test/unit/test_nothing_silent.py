"""Is nothing that a user gives or asks for lost without a word?"""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.trajectory import Metrics


@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - tp.cos(q)


def found_later():
    return {"rounds": 3}


# --- masks ------------------------------------------------------------------------------------------
def sites(n):
    return np.arange(n) % 2 == 0


# fmt: off
CONDITIONS = [
    ("mask & symbol",    lambda m, s: m & (s > 0)),
    ("symbol & mask",    lambda m, s: (s > 0) & m),
    ("mask | symbol",    lambda m, s: m | (s > 0)),
    ("symbol | mask",    lambda m, s: (s > 0) | m),
    ("mask ^ symbol",    lambda m, s: m ^ (s > 0)),
    ("~mask & ~symbol",  lambda m, s: ~m & ~(s > 0)),
    ("logical_and",      lambda m, s: np.logical_and(m, s > 0)),
    ("logical_or",       lambda m, s: np.logical_or(s > 0, m)),
    ("logical_xor",      lambda m, s: np.logical_xor(m, s > 0)),
    ("logical_not",      lambda m, s: np.logical_not(s > 0)),
    ("bitwise_and",      lambda m, s: np.bitwise_and(m, s > 0)),
    ("invert",           lambda m, s: np.invert(s > 0)),
]
# fmt: on


@pytest.mark.parametrize("backend", ["python", "numpy", "llvm"])
@pytest.mark.parametrize("condition", [f for _, f in CONDITIONS], ids=[name for name, _ in CONDITIONS])
def test_a_mask_and_a_condition_on_symbols_go_together(condition, backend):
    m, start = sites(6), np.array([1.0, 2.0, -3.0, -4.0, 5.0, -6.0])

    @tp.map
    def flip(s: tp.Vec[6]):
        return np.where(condition(m, s), -s, s)

    out = tp.compile(flip, backend=backend).evolve(s=start, steps=1)
    assert out.final.s.tolist() == np.where(condition(m, start), -start, start).tolist()


# --- what is found when it is read --------------------------------------------------------------------
def test_metrics_that_cost_time_are_there_before_they_are_read():
    solved = tp.compile(pendulum, dt=0.1, method="implicit_midpoint").evolve(q=1.0, p=0.0, steps=5)
    assert "solver" in solved.metrics and "solver" in list(solved.metrics)
    assert solved.metrics.get("solver") is not None
    again = tp.compile(pendulum, dt=0.1, method="implicit_midpoint").evolve(q=1.0, p=0.0, steps=5)
    assert dict(again.metrics)["solver"] == again.metrics["solver"] == solved.metrics["solver"]


def metrics():
    return Metrics({"steps": 5}, later={"solver": found_later})


@pytest.mark.parametrize(
    "read",
    [
        dict,
        lambda m: {**m},
        lambda m: m | {},
        lambda m: {} | m,
        lambda m: m.copy(),
        lambda m: dict(m.items()),
        lambda m: dict(zip(m.keys(), m.values())),
        lambda m: {name: m[name] for name in m},
        lambda m: {name: m.get(name) for name in m},
        lambda m: json.loads(json.dumps(m)),
        lambda m: dict(pickle.loads(pickle.dumps(m))),
        lambda m: dict(copy.copy(m)),
        lambda m: eval(repr(m)),
    ],
)
def test_every_way_to_read_metrics_finds_all_of_them(read):
    assert read(metrics()) == {"steps": 5, "solver": {"rounds": 3}}
    assert len(metrics()) == 2 and metrics() == {"steps": 5, "solver": {"rounds": 3}}


def test_metrics_are_found_once_and_not_before():
    calls = []
    m = Metrics({"steps": 5}, later={"solver": lambda: calls.append(1)})
    assert "solver" in m and len(m) == 2 and calls == []
    m["solver"], m.get("solver"), dict(m)
    assert calls == [1]
    assert m.get("nothing", 7) == 7
    with pytest.raises(KeyError):
        m["nothing"]


# --- errors -----------------------------------------------------------------------------------------
def test_an_integrity_error_keeps_its_run_in_another_process():
    @tp.hamiltonian
    def steep(q, p):
        return p**2 / 2 - q**6

    with pytest.raises(tp.PhysicsIntegrityError) as found:
        tp.compile(steep, dt=0.5, checks="strict").evolve(q=2.0, p=3.0, steps=50)
    again = pickle.loads(pickle.dumps(found.value))
    assert str(again) == str(found.value) and again.fix == found.value.fix
    assert again.out.stopped == found.value.out.stopped and again.out.hash == found.value.out.hash


@pytest.mark.parametrize("kind", tp.errors.ERRORS)
def test_every_error_keeps_its_words_when_it_is_pickled(kind):
    error = kind("what happened", fix="Write this.")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


# --- monitors ---------------------------------------------------------------------------------------
def test_a_monitor_given_again_under_its_name_is_the_new_one():
    sim = tp.compile(pendulum, dt=0.1)
    sim.monitor(lambda q: q, name="angle")
    sim.monitor(lambda q: -q, name="angle")
    out = sim.evolve(q=1.0, p=0.0, steps=1)
    assert out["angle"][0] == -1.0


def test_masked_arrays_without_a_masked_number_are_arrays():
    sim = tp.compile(pendulum, dt=0.1)
    plain = sim.evolve(q=[1.0, 2.0], p=0.0, steps=3)
    assert sim.evolve(q=np.ma.masked_array([1.0, 2.0]), p=0.0, steps=3).hash == plain.hash


@pytest.mark.parametrize("order", [4, np.int64(4), np.int32(4)])
def test_whole_numbers_of_numpy_are_orders(order):
    assert tp.compile(pendulum, dt=0.1, order=order).explain("full").to_dict()
