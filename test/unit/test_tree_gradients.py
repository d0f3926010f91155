"""Is the gradient through a tree that of the approximate force?  Differences of runs, every past, the same bits everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.device.host.tree import TreePull
from tinyphysics.device.host.tree_back import pulled_back
from tinyphysics.device.host.tree_nodes import GROUP, planted
from tinyphysics.physics.particles import gravity, plummer
from tinyphysics.runtime.engines.loaders import tree_functions

pytestmark = pytest.mark.requirement("S2-40")
START = plummer(40, seed=1)
ASKED = dict(**START, softening=0.2, steps=7)


def loss(out):
    return (out.final.q**3).sum() + (out.final.p * out.final.q).sum()


def compiled(**options):
    return tp.compile(gravity, **{"dt": 0.02, "approximate": 1e-2, "backend": "llvm", **options})


def pull(q, m, square, angle):
    """The pull of a tree with an opening angle, in the order of the points."""
    tree = planted(q.T.copy(), m, tree_functions())
    walker = object.__new__(TreePull)
    walker.softening, walker.f, walker.threads = square, tree_functions(), 1
    found, _ = walker.walked(tree, np.arange(tree.points.shape[1] // GROUP), angle)
    out = np.empty((len(q), 3))
    out[tree.order] = found[:, : len(q)].T
    return out


@pytest.mark.parametrize("square", (0.0, 0.01))
@pytest.mark.parametrize("n", (1, 2, 7, 9, 65, 300))
def test_cotangents_are_the_derivative_of_the_walk(n, square):
    """Along a direction, by differences of fourth order; by places, by masses, and by the square of the softening."""
    rng = np.random.default_rng(n)
    q, m = rng.normal(size=(n, 3)), rng.uniform(0.5, 2.0, n) / n
    g, v, u = rng.normal(size=(n, 3)), rng.normal(size=(n, 3)), rng.normal(size=n) * m
    tree = planted(q.T.copy(), m, tree_functions())
    back = pulled_back(tree, g.T.copy(), 0.8, square, tree_functions())
    h = 1e-5

    def slope(moved):
        f = {k: (g * pull(*moved(k * h), 0.8)).sum() for k in (-2, -1, 1, 2)}
        return (8 * (f[1] - f[-1]) - (f[2] - f[-2])) / (12 * h)

    by_place = slope(lambda t: (q + t * v, m, square))
    by_mass = slope(lambda t: (q, m + t * u, square))
    size = max(np.abs(back).max(), 1.0)
    assert by_place == pytest.approx((back[:3].T * v).sum(), abs=1e-8 * size * n)
    assert by_mass == pytest.approx(back[3] @ u, abs=1e-8 * size)
    if square:
        by_square = slope(lambda t: (q, m, square * (1 + t)))
        assert by_square == pytest.approx(square * back[4].sum(), abs=1e-8 * size)


@pytest.mark.parametrize("method", ["leapfrog", "yoshida4"])
def test_a_gradient_through_a_tree_is_that_of_the_steps_that_ran(method):
    found = compiled(method=method).gradcheck(loss, **ASKED)
    assert found.passed and found.duality is None and found.differences < 1e-9


def test_every_past_and_every_backend_has_the_same_bits():
    grads = [
        compiled(backend=backend).grad(loss, **ASKED, past=past, **more)
        for backend in ("llvm", "c", "numpy")
        for past, more in (("store", {}), ("checkpoint", {"snapshots": 3}))
    ]
    assert all(np.array_equal(g[name], grads[0][name]) for g in grads for name in g)
    back = compiled().grad(loss, **ASKED, past="reverse")
    assert all(np.allclose(back[name], grads[0][name], rtol=1e-12, atol=1e-13) for name in back)


def test_the_angle_is_that_of_the_run_wherever_cotangents_begin():
    """A cluster that collapses: at its end another angle would be chosen than at its beginning."""
    start = plummer(200, seed=1)
    start["p"] = -0.6 * start["q"] * start["m"][:, None]
    asked, sim = dict(**start, softening=0.05, steps=30), compiled(approximate=1e-3)

    def angle(q):
        return sim.evolve(**start | {"q": q}, softening=0.05, steps=1).metrics["approximate"]["angle"]

    assert angle(sim.evolve(**asked).final.q) > 1.2 * angle(start["q"])
    way, h = np.random.default_rng(2).normal(size=(200, 3)), 1e-6
    ends = [loss(sim.evolve(**asked | {"q": start["q"] + s * h * way})) for s in (1, -1)]
    for past in ("store", "checkpoint", "reverse"):
        grads = sim.grad(loss, **asked, past=past, wrt=["q"])
        assert (grads["q"] * way).sum() == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6)


def test_members_frames_and_an_end_between_two_steps():
    sim, rng = compiled(), np.random.default_rng(3)
    q = START["q"] + 0.01 * rng.normal(size=(2, 40, 3))
    given = dict(p=START["p"], m=START["m"], softening=0.2, until=0.11, save_at=[0.05, 0.11])

    def seen(out):
        return (out.q**2).sum() + (out.final.p * out.final.q).sum()

    both = sim.grad(seen, q=q, **given)
    alone = [sim.grad(seen, q=x, **given) for x in q]
    assert all(np.array_equal(both["q"][k], g["q"]) for k, g in enumerate(alone))
    assert np.allclose(both["m"], alone[0]["m"] + alone[1]["m"], rtol=1e-13)
    assert sim.gradcheck(seen, q=q[0], **given).differences < 1e-9


def test_tangents_and_second_derivatives_are_refused_by_name():
    sim = compiled()
    with pytest.raises(tp.PlanError, match="tree has no tangents"):
        sim.jvp({"q": START["q"]}, **ASKED)
    with pytest.raises(tp.PlanError, match="tree"):
        sim.hvp(loss, {"q": START["q"]}, **ASKED)
    kick = tp.act(every=3, map=lambda p: 0.9 * p)
    with pytest.raises(tp.PlanError, match="with the angle that the run chose"):
        sim.grad(loss, **ASKED, acts={"kick": kick})


def test_the_program_of_cotangents_prints_and_parses_back():
    sim = compiled(sizes={"n": 40})
    text = sim.adjoint(wrt=["q", "p", "m"]).ir("tpir")
    assert text.count("= TREE") + text.count("TREE ") >= 2 and str(tp.tpir.parse(text)) == text
