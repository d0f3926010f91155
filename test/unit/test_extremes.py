"""The drift of a run: the loop keeps the extremes of its energies, with the bits of a look at every step."""

from __future__ import annotations

import numpy as np
import pytest
from here import need

import tinyphysics as tp
from tinyphysics.device.engines.engine import LaneEngine
from tinyphysics.tpir.kernels.rows import kernel_of
from tinyphysics.ir import UOp
from tinyphysics.ir.value import evaluate
from tinyphysics.runtime.engines import backend as engines
from tinyphysics.runtime.stages import origin
from tinyphysics.runtime.stages.execute import observer_program
from tinyphysics.runtime.state.run import made
from tinyphysics.target import PORTABLE
from tinyphysics.tpir.kernels.extremes import ExtremesOf, larger
from tinyphysics.tpir.kernels.kernel import build_kernel
from tinyphysics.tpir.kernels.pressure import kinds


@tp.hamiltonian
def pendulum(q: float, p: float):
    return p**2 / 2 - tp.cos(q)


@tp.hamiltonian
def driven(q: float, p: float, t):
    return p**2 / 2 - tp.cos(q) + 0.1 * q * tp.sin(t)


@tp.hamiltonian
def spring(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + 50 * (q @ q)


@tp.potential
def bend(q: tp.Vec[2], c: float = 0.2):
    return c * q[0] ** 2 * q[1]


@tp.hamiltonian
def root(q: float, p: float):
    return p**2 / 2 + tp.sqrt(q)


@tp.hamiltonian
def cliff(q: float, p: float):
    return p**2 / 2 + tp.where(q > 0, q, tp.log(q - 1))


def both(out, monkeypatch, kept=True):
    """The drift as it is found, and by a look at every step; `kept` says which way the first is found."""
    ways = []
    real = origin.kept_in_the_loop
    monkeypatch.setattr(origin, "kept_in_the_loop", lambda *a: ways.append(real(*a)) or ways[-1])
    found = out.origin.drift("energy")
    assert [way is not None for way in ways] == [kept]
    monkeypatch.setattr(origin, "kept_in_the_loop", lambda *a: None)
    table = out.origin.drift("energy")
    assert np.array_equal(found.drift, table.drift, equal_nan=True)
    assert np.array_equal(found.scale, table.scale, equal_nan=True) and found.note == table.note
    return found


some = np.linspace(-1.5, 1.5, 11)

# fmt: off
ROWS = {
    "leapfrog":      (pendulum, dict(dt=0.1), dict(q=some, p=0.3)),
    "one member":    (pendulum, dict(dt=0.1), dict(q=1.0, p=0.3)),
    "stages":        (pendulum, dict(dt=0.1, order=4), dict(q=some, p=0.3)),
    "a solution":    (pendulum, dict(dt=0.1, method="midpoint"), dict(q=some, p=0.3)),
    "runge-kutta":   (pendulum, dict(dt=0.1, method="rk4"), dict(q=some, p=0.3)),
    "pairs":         (pendulum, dict(dt=0.1, precision="dd"), dict(q=some, p=0.3)),
    "explicit time": (driven, dict(dt=0.1), dict(q=some, p=0.3)),
    "two paces":     (tp.fast(spring) + tp.slow(bend), dict(dt=0.1, inner=4), dict(q=np.ones((5, 2)), p=np.arange(10.0).reshape(5, 2))),
}
# fmt: on


@pytest.mark.parametrize("row", ROWS)
def test_extremes_are_those_of_every_step(row, monkeypatch):
    system, asked, start = ROWS[row]
    out = tp.compile(system, **asked).evolve(**start, steps=40)
    assert both(out, monkeypatch).drift.max() > 0


@pytest.mark.parametrize("precision", ["float32", "compensated"])
def test_other_numbers_are_looked_at_step_by_step(precision, monkeypatch):
    out = tp.compile(pendulum, dt=0.1, precision=precision).evolve(q=some, p=0.3, steps=20)
    both(out, monkeypatch, kept=False)


EVERY = ["numpy", *(pytest.param(b, marks=pytest.mark.all) for b in ("c", "opencl"))]


@pytest.mark.parametrize("backend", EVERY)
def test_every_backend_keeps_them(backend, monkeypatch):
    need(backend)
    out = tp.compile(pendulum, dt=0.1, backend=backend).evolve(q=some, p=0.3, steps=20)
    here = tp.compile(pendulum, dt=0.1).evolve(q=some, p=0.3, steps=20)
    assert np.array_equal(both(out, monkeypatch).drift, here.drift())


def test_what_is_not_finite_is_larger_than_all_numbers_and_stays():
    size, x = UOp.var("size"), UOp.var("x")
    rows = [
        (1, -3, 3),
        (2, 1, 2),
        (2, -np.inf, np.inf),
        (2, -np.nan, np.nan),
        (np.inf, 9, np.inf),
        (np.nan, 9, np.nan),
    ]
    for old, new, wanted in (*rows, (0, -0.0, 0)):
        (found,) = evaluate([larger(size, x)], {"size": float(old), "x": float(new)})
        assert np.array_equal(found, wanted, equal_nan=True) and not np.signbit(found)


def test_the_loop_does_the_energy_and_nothing_beside_it():
    """Products, fused or not, are what bounds it: a step, the half kick to where one looks, p**2/2 and a cosine."""
    out = tp.compile(pendulum, dt=0.1).evolve(q=some, p=0.3, steps=2)
    run, values = out.origin.replayed("energy"), out.origin.watched("energy")
    step = made(run.program)
    alone = kinds(build_kernel(step).section("step"))
    kernel = kernel_of(step, made(observer_program(run, values)), PORTABLE, ExtremesOf("value", "scale"))
    whole = kinds(kernel.section("step"))

    @tp.map
    def cosine(q: float):
        return tp.cos(q)

    more = kinds(build_kernel(made(tp.compile(cosine).built.program)).section("step"))
    assert (alone["fma"] + alone["mul"], more["fma"] + more["mul"]) == (18, 18)
    assert whole["fma"] + whole["mul"] == 18 + 18 + 3


def test_members_that_stop_are_looked_at_apart(monkeypatch):
    q = np.full(9, 100.0)
    q[4] = 1.0
    out = tp.compile(root, dt=0.1).evolve(q=q, p=0.0, steps=30)
    (stop,) = out.stops
    assert stop.member == 4
    found = both(out, monkeypatch)
    assert np.isfinite(found.drift).all() and found.bad is None


def test_an_energy_that_is_no_number_is_found_with_its_step(monkeypatch):
    q = np.full(9, 100.0)
    q[2] = 1.0
    out = tp.compile(cliff, dt=0.1, method="leapfrog").evolve(q=q, p=0.0, steps=40)
    found = both(out, monkeypatch)
    assert np.flatnonzero(np.isnan(found.drift)).tolist() == [2] and found.bad == 15


def test_an_ensemble_of_many_tiles_keeps_them_too(monkeypatch):
    monkeypatch.setattr(LaneEngine, "room", 1 << 13)
    engines.engine_for.cache_clear()
    q = np.linspace(-1.5, 1.5, 9001)
    out = tp.compile(pendulum, dt=0.1).evolve(q=q, p=0.3, steps=150)
    both(out, monkeypatch)
    engines.engine_for.cache_clear()
