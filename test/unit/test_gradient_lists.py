"""Are gradients through lists of neighbours those of all pairs?  In boxes, on every backend, without a table of all pairs."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.measure import past as past_of_a_run

pytestmark = pytest.mark.requirement("S2-40")


@tp.hamiltonian
def argon(
    q: tp.Array["n", 3],
    p: tp.Array["n", 3],
    box: tp.Vec[3] = (8.0, 8.0, 8.0),
    rc: float = 2.5,
    eps: float = 1.0,
):
    s6 = 1 / tp.pair_distance2(q, box=box, cutoff=rc) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * eps * (s6 * s6 - s6))


@tp.hamiltonian
def all_pairs(
    q: tp.Array["n", 3],
    p: tp.Array["n", 3],
    box: tp.Vec[3] = (8.0, 8.0, 8.0),
    rc: float = 2.5,
    eps: float = 1.0,
):
    d = q[:, None] - q[None, :]
    d = d - box * tp.floor(d / box + 0.5)
    r2 = (d**2).sum(-1)
    s6 = 1 / r2**3
    return (p**2).sum() / 2 + tp.pair_sum(tp.where(r2 < rc * rc, 4 * eps * (s6 * s6 - s6), 0.0))


@tp.hamiltonian
def tilted(q: tp.Array["n", 3], p: tp.Array["n", 3], cell: tp.Array[3, 3], eps: float = 1.0):
    r2 = tp.pair_distance2(q, box=cell, cutoff=2.5)  # smooth where pairs come and go, so that differences are
    return (p**2).sum() / 2 + tp.pair_sum(eps * tp.exp(-r2) * (1 - r2 / 6.25) ** 4)


@tp.hamiltonian
def charged(q: tp.Array["n", 2], p: tp.Array["n", 2], z: tp.Array["n"], rc: float = 3.0):
    r2 = tp.pair_distance2(q, cutoff=rc)
    return (p**2).sum() / 2 + tp.pair_sum(z[:, None] * z[None, :] * tp.exp(-r2) * (1 - r2 / rc**2) ** 4)


def liquid(n, size=8.0, seed=0):
    """Points that keep a distance, with velocities that make lists old soon."""
    rng = np.random.default_rng(seed)
    m = int(np.ceil(n ** (1 / 3)))
    grid = np.stack(np.meshgrid(*[np.arange(m)] * 3, indexing="ij"), -1).reshape(-1, 3)[
        rng.permutation(m**3)[:n]
    ]
    q = (grid + rng.uniform(-0.07, 0.07, (n, 3))) * (size / m)
    return dict(q=q, p=1.5 * rng.normal(size=(n, 3)))


def loss(out):
    return (out.final.q**2).sum() + out.final.p[:, 0].sum()


@pytest.mark.parametrize("past", ["reverse", "store", "checkpoint"])
def test_lists_have_the_gradient_of_all_pairs(past):
    given = dict(**liquid(100), steps=100, wrt=["q", "p", "box", "rc", "eps"], past=past, snapshots=12)
    near, every = (tp.compile(s, dt=0.004, method="leapfrog").grad(loss, **given) for s in (argon, all_pairs))
    assert np.abs(1.5 * 0.4 * given["p"]).max() > 1.0  # points pass the skin of a list
    for name in ("q", "p", "box", "eps"):
        assert np.allclose(near[name], every[name], rtol=1e-11, atol=1e-11 * np.abs(every[name]).max())
    assert near["rc"] == 0.0  # it decides which pairs are there, and pairs come and go in jumps


def cells():
    yield "tilted", tilted, dict(**liquid(30), cell=[[8.0, 0, 0], [3.0, 7.5, 0], [-2.0, 2.5, 9.0]])
    rng = np.random.default_rng(5)
    yield (
        "open",
        charged,
        dict(q=rng.normal(size=(40, 2)) * 2, p=rng.normal(size=(40, 2)), z=rng.normal(size=40)),
    )


CELLS = [
    pytest.param(*row, id=row[0], marks=pytest.mark.all if row[0] == "tilted" else ()) for row in cells()
]


@pytest.mark.parametrize("name, system, given", CELLS)
def test_oblique_cells_and_open_space_pass_their_check(name, system, given):
    found = tp.compile(system, dt=0.01, method="leapfrog").gradcheck(loss, **given, steps=20, wrt=[*given])
    assert found.passed and found.in_double_double and found.duality < 1e-13


PRECISIONS = ("float64", "float32", "mixed", "compensated", "lattice")
ROWS = [
    pytest.param(past, p, marks=() if (past, p) == ("reverse", "float64") else pytest.mark.all)
    for past in ("reverse", "store")
    for p in PRECISIONS
]


@pytest.mark.parametrize("past, precision", ROWS)
def test_every_backend_has_the_bits_of_the_virtual_machine(past, precision):
    given, found = dict(**liquid(20, 6.0), box=[6.0] * 3, steps=8, wrt=["q", "p", "eps", "box"]), []
    for backend in ("python", "numpy", "llvm", "c"):
        sim = tp.compile(argon, dt=0.02, method="leapfrog", precision=precision, backend=backend)
        found.append(sim.grad(loss, **given, past=past))
    assert all(np.array_equal(found[0][n], g[n]) for g in found for n in g)


def test_a_gpu_has_the_bits_of_the_processor(fake_cuda):
    given = dict(**liquid(20, 6.0), box=[6.0] * 3, steps=2, wrt=["q", "p", "eps"])
    a, b = (
        tp.compile(argon, dt=0.02, method="leapfrog", backend=x).grad(loss, **given) for x in ("llvm", "cuda")
    )
    assert fake_cuda.launches and all(np.array_equal(a[n], b[n]) for n in a)


def test_on_a_lattice_states_come_back_and_cotangents_are_not_rounded():
    sim = tp.compile(argon, dt=0.004, method="leapfrog", precision="lattice")
    start = liquid(64)
    given, steps = dict(**start, steps=150), 150
    back = sim.grad(loss, **given, wrt=["q", "p", "eps"])
    plain = tp.compile(argon, dt=0.004, method="leapfrog").grad(loss, **given, wrt=["q", "p", "eps"])
    for name in ("q", "p", "eps"):
        assert np.allclose(back[name], plain[name], rtol=1e-8, atol=1e-8 * np.abs(plain[name]).max())
    first = sim.evolve(**start, steps=0, frames=2).final
    for name in ("q", "p"):
        (words,) = first.words(name)
        assert np.array_equal(back.start[name][0], words)
    # a force that large would leave the lattice; a cotangent may be as large as it is
    large = sim.vjp({"q": np.full((64, 3), 2.0**80)}, **start, steps=steps, wrt=["q"])["q"]
    small = sim.vjp({"q": np.full((64, 3), 1.0)}, **start, steps=steps, wrt=["q"])["q"]
    assert np.array_equal(large, np.ldexp(small, 80))


def test_there_is_no_table_of_all_pairs():
    n = 2000
    start = liquid(n, 13.6)
    sim = tp.compile(argon, dt=0.004, method="leapfrog")
    given = dict(**start, box=[13.6] * 3, wrt=["q", "p"], steps=3)
    sim.grad(loss, **given)
    tracemalloc.start()
    sim.grad(loss, **given)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n * n / 4


@pytest.mark.parametrize("past", ["store", "checkpoint", "reverse"])
@pytest.mark.parametrize("precision", ["float64", "compensated"])
def test_the_bytes_that_are_told_before_are_those_that_are_kept(monkeypatch, past, precision):
    """Loop states hold the points that a list was made of, too."""
    sizes, real = [], past_of_a_run.Course.kept

    def counted(self, m):
        found = real(self, m)
        sizes.append(sum(v.nbytes for v in found.values()))
        return found

    monkeypatch.setattr(past_of_a_run.Course, "kept", counted)
    sim = tp.compile(argon, dt=0.004, method="leapfrog", precision=precision)
    grads = sim.grad(loss, **liquid(20, 6.0), box=[6.0] * 3, steps=40, past=past, snapshots=5)
    told = sim.estimate(steps=40, gradient=True, past=past, snapshots=5)
    assert len(set(sizes)) == 1 and grads.report.bytes % sizes[0] == 0
    if past == "reverse":  # fewer anchors than there is room for
        assert (
            grads.report.bytes <= told["bytes"] and told["forward_steps"] == grads.report.forward_steps == 40
        )
    else:
        assert told["bytes"] == grads.report.bytes == sizes[0] * (41 if past == "store" else 5)
        assert told["forward_steps"] == grads.report.forward_steps
