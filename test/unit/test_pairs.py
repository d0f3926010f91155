"""Sums over pairs: each once, the diagonal never, forces by the third law, the same bits everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import nest_engine
from tinyphysics.ir import Ops, UOp, evaluate, f32, toposort
from tinyphysics.ir.reduction import CHUNK, LANES, fold, long_sum, slabs, trees
from tinyphysics.runtime.engines.loaders import LlvmLoops
from tinyphysics.tpir.kernels.loops import build_loops
from tinyphysics.tpir.kernels.failure_sums import kept_by

BACKENDS = ("python", "numpy", "c", "llvm")


@tp.hamiltonian
def cluster(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"], eps: float = 0.0):
    d = q[:, None] - q[None, :]
    r = np.sqrt((d**2).sum(-1) + eps**2)
    return ((p**2).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r)


def bodies(n, seed=0):
    rng = np.random.default_rng(seed)
    return dict(q=rng.normal(size=(n, 3)), p=rng.normal(size=(n, 3)), m=rng.uniform(1, 2, n))


def plain_forces(q, m, eps=0.0):
    """What a textbook says, pair by pair, in NumPy."""
    out = np.zeros_like(q)
    for i in range(len(q)):
        for j in range(len(q)):
            if i != j:
                d = q[j] - q[i]
                out[i] += m[i] * m[j] * d / (d @ d + eps**2) ** 1.5
    return out


def test_pair_sum_is_the_sum_above_the_diagonal():
    x = np.arange(25.0).reshape(5, 5)
    assert tp.pair_sum(x) == np.triu(x, 1).sum()
    assert tp.pair_sum(np.where(np.eye(5) > 0, np.nan, 1.0)) == 10.0  # the diagonal is never looked at


@pytest.mark.parametrize("n", [2, 3, 8, 9, 40, 300])
def test_forces_are_those_of_the_textbook(n):
    """From rest, the momentum after one step is the mean of the forces at its two ends, times dt."""
    start = bodies(n) | {"p": np.zeros((n, 3))}
    dt = 2.0**-10
    out = tp.compile(cluster, dt=dt, sizes={"n": n}).evolve(**start, steps=1)
    expected = (plain_forces(start["q"], start["m"]) + plain_forces(out.final.q, start["m"])) / 2
    assert np.abs(out.final.p / dt - expected).max() <= 1e-13 * np.abs(expected).max()


def test_it_is_certified_symplectic_and_conserves_momentum():
    sim = tp.compile(cluster, dt=1e-3, sizes={"n": 6})
    assert sim.certificate.symplectic and sim.certificate.consistent
    start = bodies(6)
    out = sim.evolve(**start, steps=200, eps=0.3)
    assert np.abs(out.final.p.sum(0) - start["p"].sum(0)).max() < 1e-13
    assert out.drift("energy") < 1e-5


@pytest.mark.parametrize("n", [2, 5, 9])
def test_every_backend_has_the_same_bits(n):
    start = bodies(n)
    hashes = {
        b: tp.compile(cluster, dt=0.01, sizes={"n": n}, backend=b).evolve(**start, steps=20).hash
        for b in BACKENDS
    }
    assert len(set(hashes.values())) == 1, hashes


def test_forces_are_sums_over_pairs_of_their_own():
    sim = tp.compile(cluster, dt=0.01, sizes={"n": 6})
    assert "PAIRS" in sim.ir() and "triu" not in sim.ir()


def test_numpys_triu_means_the_same():
    @tp.hamiltonian
    def other(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"], eps: float = 0.0):
        d = q[:, None] - q[None, :]
        r = np.sqrt((d**2).sum(-1) + eps**2)
        return ((p**2).sum(-1) / (2 * m)).sum() - np.triu(m[:, None] * m[None, :] / r, 1).sum()

    start = bodies(5)
    runs = [tp.compile(s, dt=0.01, sizes={"n": 5}).evolve(**start, steps=10) for s in (cluster, other)]
    assert runs[0].hash == runs[1].hash


@pytest.mark.parametrize("n", [6, 60])
def test_what_is_no_pair_never_reaches_a_force(n):
    """Sums and constants of a potential that is infinite on the diagonal."""

    @tp.hamiltonian
    def lj(q: tp.Array["n", 3], p: tp.Array["n", 3], shift: float = 0.1):
        d = q[:, None] - q[None, :]
        s6 = 1 / ((d**2).sum(-1)) ** 3
        near = tp.where(s6 > 0.1, s6 - 0.1, 0.0)
        return (
            (p**2).sum() / 2 + tp.pair_sum(4 * (s6**2 - s6) - 3 * s6 / 7 + shift + near) - tp.pair_sum(s6) / 9
        )

    q = 1.2 * np.stack(np.meshgrid(*[np.arange(4)] * 3), -1).reshape(-1, 3)[:n]
    sim = tp.compile(lj, dt=0.002)
    out = sim.evolve(q=q, p=0.1 * np.random.default_rng(2).normal(size=q.shape), steps=100)
    assert out.stopped is None and out.drift("energy") < 1e-4
    assert sim.certificate.symplectic


# fmt: off
POTENTIALS = {
    "yukawa":  lambda r: np.exp(-r) / r,           "morse":   lambda r: (1 - np.exp(-(r - 1))) ** 2,
    "powers":  lambda r: 4 * (r**-12 - r**-6),     "log":     lambda r: -np.log(r),
    "cut":     lambda r: tp.where(r < 1.5, (1.5 - r) ** 2 / r, 0.0),
    "sum":     lambda r: 1 / r + 2 / r**3 - 0.5 * (1 / r**2) + 0.1,
    "signs":   lambda r: -(1 / r) - (-1 / r**2),   "inside":  lambda r: np.sqrt(1 / r + 1 / r**2),
    "larger":  lambda r: np.maximum(1 / r, 0.5),   "size":    lambda r: abs(1 / r - 1),
    "product": lambda r: (1 / r) * (1 / r**2 - 1), "roots":   lambda r: r**-1.5 + r**2.5,
}
# fmt: on


@pytest.mark.parametrize("name", POTENTIALS)
def test_forces_are_the_slopes_of_the_energy(name):
    """On the diagonal all of these are infinite or undefined; sums, factors and branches must not let that through."""
    f, n, h = POTENTIALS[name], 5, 1e-5

    @tp.hamiltonian
    def system(q: tp.Array[5, 3], p: tp.Array[5, 3], k: float = 0.7):
        d = q[:, None] - q[None, :]
        r = np.sqrt((d**2).sum(-1))
        return (
            (p**2).sum() / 2
            + tp.pair_sum(k * f(r) + 1 / r**2)
            - 2 * tp.pair_sum(1 / r) / 3
            - (q**2).sum() / 10
        )

    def potential(q):
        r = np.linalg.norm(q[:, None] - q[None, :], axis=-1)[np.triu_indices(n, 1)]
        return sum(0.7 * float(f(x)) + 1 / x**2 - 2 / (3 * x) for x in r) - (q**2).sum() / 10

    q = np.random.default_rng(4).normal(size=(n, 3)) * 1.3
    sim = tp.compile(system, dt=1e-6)
    out = sim.evolve(q=q, p=np.zeros((n, 3)), steps=1)
    moved = h * np.eye(3 * n).reshape(-1, n, 3)
    slopes = np.array([potential(q + e) - potential(q - e) for e in moved]).reshape(n, 3) / (2 * h)
    assert out.stopped is None and sim.certificate.symplectic
    assert np.abs(out.final.p / 1e-6 + slopes).max() < 1e-5 * np.abs(slopes).max()


@pytest.mark.parametrize("shape", [(3,), (3, 4)])
def test_what_is_no_square_is_an_error(shape):
    with pytest.raises(tp.ShapeError, match="pair_sum of shape"):
        tp.pair_sum(np.ones(shape))


# --- the order of a sum -----------------------------------------------------------------------------
def test_a_sum_over_pairs_takes_the_order_that_is_written_down():
    n, rng = 21, np.random.default_rng(1)
    x = rng.normal(size=(n, n)) * 10.0 ** rng.integers(-8, 8, (n, n))
    square = UOp.var("x", (n, n))
    rows, columns = (
        evaluate(
            [UOp(Ops.REDUCE, square.dtype, (n,), (square,), ("pairs", (a,), (0, 1)))],
            {"x": x.ravel().tolist()},
        )[0]
        for a in (1, 0)
    )
    for i in range(n):
        lanes = [-0.0] * 8
        for j in range(i + 1, n):
            lanes[j % 8] += x[i, j]
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = [lanes[k] + lanes[k + half] for k in range(half)]
        assert rows[i] == lanes[0]
        total = -0.0
        for k in range(i):
            total += x[k, i]
        assert columns[i] == total


def test_slabs_cover_all_rows_and_have_about_equal_area():
    for n in (1, 7, 255, 256, 512, 4096, 65_536):
        cuts = slabs(n)
        assert cuts[0] == 0 and cuts[-1] == n and cuts == sorted(set(cuts))
        assert all(c % 8 == 0 for c in cuts[:-1])
    area = [sum(4096 - i for i in range(a, b)) for a, b in zip(slabs(4096), slabs(4096)[1:])]
    assert max(area) < 1.2 * min(area)


def test_a_long_sum_is_summed_in_chunks_of_strided_accumulators():
    items = list(range(3 * CHUNK + 5))
    value = fold(long_sum(items), lambda a, b: a + b, lambda k: k)
    assert value == sum(items)
    how, parts = long_sum(items)
    assert how == "one by one" and len(parts) == 4 and len(parts[0][1]) == LANES


def test_the_axis_that_runs_in_parallel_decides():
    tall, wide = UOp.var("x", (100, 3)), UOp.var("x", (100, 40))
    assert trees(tall.sum(0))[0][0] == "in halves"  # nothing long behind it
    assert trees(wide.sum(0))[0][0] == "one by one"
    assert trees(wide.sum(1))[0][0] == "in halves"


# --- two at one place -------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n", [2, 9, 40])
def test_two_at_one_place_at_the_start_are_named(n, backend):
    start = bodies(n)
    start["q"][n - 1] = start["q"][n // 2 - 1]
    out = tp.compile(cluster, dt=0.01, sizes={"n": n}, backend=backend).evolve(**start, steps=3)
    assert (out.stopped.cause, out.stopped.step, out.stopped.where) == ("not finite", 1, (n // 2 - 1, n - 1))
    assert np.array_equal(out.final.q, start["q"])


@pytest.mark.parametrize("n", [3, 40, 300])
def test_two_that_meet_later_are_named_where_they_met(n):
    q, p, m = np.zeros((n, 3)), np.zeros((n, 3)), np.full(n, 2.0**-500)  # too light to pull on each other
    q[:, 0] = 100.0 * np.arange(n)
    q[2, :2] = q[0, 0], 0.5
    p[2, 1] = -m[2]
    out = tp.compile(cluster, dt=2.0**-4, sizes={"n": n}).evolve(q=q, p=p, m=m, steps=20)
    assert out.stopped.where == (0, 2) and out.stopped.step == 8
    assert out.final.q[2, 1] == 2.0**-4


def test_a_member_that_stops_names_its_own_pair():
    starts = [bodies(9, seed) for seed in range(5)]
    starts[2]["q"][7] = starts[2]["q"][4]
    given = {k: np.stack([s[k] for s in starts]) for k in starts[0]}
    stops = tp.compile(cluster, dt=1e-4, sizes={"n": 9}).evolve(**given, steps=3).stops
    assert [(s.member, s.where) for s in stops] == [(2, (4, 7))]
    with pytest.raises(tp.PhysicsIntegrityError, match="between particles 4 and 7"):
        tp.compile(cluster, dt=1e-4, sizes={"n": 9}, checks="strict").evolve(**given, steps=3)


def test_what_stops_for_another_reason_names_its_number():
    @tp.hamiltonian
    def falling(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"]):
        d = q[:, None] - q[None, :]
        r = np.sqrt((d**2).sum(-1) + 1.0)
        return (
            ((p**2).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r) - (q**4).sum() * 1e6
        )

    out = tp.compile(falling, dt=0.1, sizes={"n": 4}).evolve(**bodies(4), steps=100)
    assert out.stopped.cause == "not finite" and out.stopped.where[0] in ("q", "p")


# --- r**-3 by float32, where there are many pairs ------------------------------------------------------
def step_of(n, precision="float64"):
    return (
        build_loops(tp.compile(cluster, dt=2.0**-10, sizes={"n": n}, precision=precision).tpir)
        .sections["step"]
        .nests
    )


def test_many_pairs_take_no_root_and_no_division_of_doubles():
    pairs, *_ = [nest for nest in step_of(40) if nest.kind == "pairs"]
    slow = [u.dtype for p in pairs.pieces for u in toposort(p.roots) if u.op in (Ops.SQRT, Ops.DIV)]
    assert slow == [f32, f32] and not any(p.guards for p in pairs.pieces)


def test_what_is_not_finite_is_looked_for_in_the_sums():
    nests = step_of(40)
    kick = nests[[nest.kind for nest in nests].index("pairs") + 1]
    assert kick.kind == "map" and all(len(p.guards) == 1 for p in kick.pieces)


def test_only_products_and_sums_show_that_a_number_is_not_finite():
    x, y = UOp.var("x"), UOp.var("y")
    cube = x**-1.5
    for shows in (cube, -(cube * y) + y, cube.fma(y, x), y - x * (y * cube)):
        assert [u is cube for u in kept_by(shows)] == [True]
    for hides in (1.0 / cube, (x < y).where(cube, y), cube.minimum(y), y / (cube + 1.0), (cube * y).exp()):
        assert kept_by(hides) == []


def test_float32_has_one_root_and_one_division():
    pairs, *_ = [nest for nest in step_of(40, "float32") if nest.kind == "pairs"]
    work = [u.op for p in pairs.pieces for u in toposort(p.roots)]
    assert work.count(Ops.SQRT) == 1 and work.count(Ops.DIV) == 1 and Ops.CAST not in work


@pytest.mark.parametrize("far", [1e-25, 1e-30, 1e19, 1e25, 1e60], ids=str)
def test_distances_out_of_the_range_of_float32_are_right_to_the_bit(far):
    n = 40
    start = bodies(n) | {"p": np.zeros((n, 3))}
    start["q"][7] = start["q"][30] + [far, 0, 0] if far > 1 else [0, 0, 0]
    if far < 1:
        start["q"][30] = [far, 0, 0]
    dt = 1e-60 if far < 1 else 2.0**-10
    finals = [
        tp.compile(cluster, dt=dt, sizes={"n": n}, backend=b).evolve(**start, steps=1).final for b in BACKENDS
    ]
    assert all(np.array_equal(f.p, finals[0].p) and np.array_equal(f.q, finals[0].q) for f in finals)
    expected = plain_forces(start["q"], start["m"])
    assert np.isfinite(expected).all()
    assert np.allclose(finals[0].p / dt, expected, rtol=1e-6 if far < 1 else 1e-2, atol=0)


@pytest.mark.parametrize("n", [33, 41, 70])
def test_rows_that_go_together_have_the_bits_of_single_ones(n):
    """Four at a time where eight columns are one vector, one at a time elsewhere; some are left at the end."""
    start = bodies(n)
    program = tp.compile(cluster, dt=2.0**-10, sizes={"n": n}).tpir
    found = []
    for width in (1, 2, 4, 8):
        engine = nest_engine(program, LlvmLoops(width=width), 1)
        given = {"m": start["m"][None], "eps": np.array([0.1])}
        m = engine.start({k: start[k][None] for k in "qp"}, given, 1, 2.0**-10, 0.0)
        engine.advance(m, 3)
        found.append(engine.synchronised(m))
    assert all(np.array_equal(f[k], found[0][k]) for f in found for k in "qp")
