"""Are gradients through equations of whole arrays exact?  Transposed solutions against tangents, differences and other backends."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.flows.solvers import products

pytestmark = pytest.mark.requirement("S2-40")
N = 100


@tp.hamiltonian
def ring(q: tp.Vec["n"], p: tp.Vec["n"], a: float = 0.3):
    d = tp.roll(q, 1) - q
    return p @ p / 2 + (d**2 / 2 + a * d**4).sum()


@tp.hamiltonian
def coupled(q: tp.Vec["n"], p: tp.Vec["n"], a: float = 0.3):
    d = tp.roll(q, 1) - q
    return p @ p / 2 + (d**2 / 2 + a * d**4).sum() + 0.1 * (p**2 * q**2).sum()


def start(n=N):
    rng = np.random.default_rng(1)
    return dict(q=0.3 * rng.normal(size=n), p=0.3 * rng.normal(size=n), a=0.3)


def loss(out):
    return (out.final.q**2).sum() + (out.final.q * out.final.p).sum()


ROWS = [
    ("ring", ring, "implicit_midpoint"),
    pytest.param("ring", ring, "gauss4", marks=pytest.mark.all),
    pytest.param("coupled", coupled, "implicit_midpoint", marks=pytest.mark.all),
]


@pytest.mark.parametrize("name, system, method", ROWS)
def test_equations_of_arrays_are_solved_backward_to_rounding(name, system, method):
    sim, given, rng = tp.compile(system, dt=0.05, method=method), start(), np.random.default_rng(2)
    v = {n: rng.normal(size=np.shape(x)) for n, x in given.items()}
    w = {n: rng.normal(size=N) for n in ("q", "p")}
    moved = sim.jvp(v, **given, steps=8)
    forward = sum(np.sum(w[n] * moved[n]) for n in w)
    scale = sum(np.sum(np.abs(w[n] * moved[n])) for n in w)
    for past in ("store", "checkpoint"):
        pulled = sim.vjp(w, **given, steps=8, past=past, snapshots=3)
        assert abs(sum(np.sum(pulled[n] * v[n]) for n in v) - forward) < 1e-13 * scale
    grads, h = sim.grad(loss, **given, steps=8), 1e-5
    ends = [loss(sim.evolve(**{n: given[n] + s * h * v[n] for n in v}, steps=8)) for s in (1, -1)]
    along = sum(np.sum(grads[n] * v[n]) for n in v)
    assert along == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-7)


@pytest.mark.all
@pytest.mark.parametrize("method", ["implicit_midpoint", "gauss4"])
def test_every_backend_has_the_bits_of_the_virtual_machine(method):
    found = []
    for backend in ("python", "numpy", "llvm", "c"):
        sim = tp.compile(ring, dt=0.05, method=method, backend=backend)
        found.append(sim.grad(loss, **start(), steps=3))
    assert all(np.array_equal(found[0][n], g[n]) for g in found for n in g)


def test_equations_that_are_written_out_and_too_many_are_refused_by_name():
    sim = tp.compile(coupled, dt=0.05, method="implicit_midpoint")
    with pytest.raises(
        tp.PlanError, match="40 equations of it are written out number by number, and 24 at most"
    ):
        sim.grad(loss, **start(20), steps=3)


def test_transposed_equations_that_are_not_solved_are_said(monkeypatch):
    """They give no number, where the run itself is finite."""
    monkeypatch.setattr(products, "ROUNDS", 1)
    with pytest.warns(
        tp.PhysicsWarning, match="gradient by `q`, `p` and `a` is not a number: the transposed equations"
    ):
        _, grads = tp.compile(ring, dt=0.3, method="implicit_midpoint").value_and_grad(
            loss, **start(), steps=4
        )
    assert np.isnan(grads["q"]).any()
    with pytest.raises(tp.PlanError, match="is not a number"):
        tp.compile(ring, dt=0.3, method="implicit_midpoint", checks="strict").grad(loss, **start(), steps=4)
