"""Half of a double sum over i and j is a sum over pairs, where that is shown; where not, it stays what it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyphysics as tp
from tinyphysics.ir import Ops, UOp, as_uop, evaluate, toposort
from tinyphysics.ir.spec import SHAPED, check
from tinyphysics.ir.text import dump, parse
from tinyphysics.rules.equality.pairs import with_pair_sums
from tinyphysics.tpir.kernels.loops import build_loops

BACKENDS = ("python", "numpy", "c", "llvm")


def with_potential(f):
    """Unit masses between which f of (q, m, j) acts, and what NumPy makes of f."""

    @tp.hamiltonian
    def system(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"], j: tp.Array["n", "n"]):
        return (p**2).sum() / 2 + f(q, m, j)

    return system


def r2(q):
    return ((q[:, None] - q[None, :]) ** 2).sum(-1)


def soft(q):
    return np.sqrt(r2(q) + 0.01)


def eye(q):
    return np.eye(q.shape[0])


def apart(q):
    return ~np.eye(q.shape[0], dtype=bool)


# fmt: off
GRAVITY = {  # sums of m m / r without the diagonal, in the words of many
    "where":        lambda q, m, j: 0.5 * np.where(eye(q), 0, m[:, None] * m / np.sqrt(r2(q))).sum(),
    "where not":    lambda q, m, j: np.where(apart(q), m[:, None] * m / np.sqrt(r2(q)), 0.0).sum() / 2,
    "mask":         lambda q, m, j: ((1 - eye(q)) * m[:, None] * m[None] / np.sqrt(r2(q))).sum() / 2,
    "filled":       lambda q, m, j: ((1 - eye(q)) * m * m[:, None] / (np.sqrt(r2(q)) + eye(q))).sum() / 2,
    "infinite":     lambda q, m, j: (m[:, None] * m / np.where(eye(q) > 0, np.inf, np.sqrt(r2(q)))).sum() / 2,
    "two sums":     lambda q, m, j: 0.5 * (m * np.where(eye(q), 0, m / np.sqrt(r2(q))).sum(1)).sum(),
    "matrix":       lambda q, m, j: (m @ np.where(eye(q), 0, 1 / np.sqrt(r2(q))) @ m) / 2,
    "einsum":       lambda q, m, j: np.einsum("i,j,ij->", m, m, np.where(eye(q), 0, 1 / np.sqrt(r2(q)))) / 2,
    "r > 0":        lambda q, m, j: 0.5 * np.where(r2(q) > 0, m[:, None] * m / np.sqrt(r2(q)), 0).sum(),
}
SYMMETRIC = {  # nothing between a particle and itself
    "springs":      lambda q, m, j: r2(q).sum() / 4,
    "sheets":       lambda q, m, j: abs(q[:, None, 0] - q[None, :, 0]).sum() / 2,
    "rotors":       lambda q, m, j: (1 - np.cos(q[:, None] - q[None, :])[..., 1]).sum() / 20,
    "all axes":     lambda q, m, j: np.where(eye(q)[..., None], 0, (q[:, None] - q[None, :]) ** 4).sum(),
    "powers":       lambda q, m, j: np.where(eye(q), 0, 4 * ((1 / r2(q)) ** 6 - (1 / r2(q)) ** 3)).sum() * 1e-9,
}
WITH_THEMSELVES = {
    "self energy":  lambda q, m, j: (m[:, None] * m / soft(q)).sum() / 2,
    "products":     lambda q, m, j: (q[:, None, 0] * q[None, :, 0]).sum() / 2,
    "filled with":  lambda q, m, j: np.where(eye(q), (q**2).sum(-1), 1 / soft(q)).sum() / 2,
}
OTHERS = {  # a sum over pairs would be something else, or nobody has shown that it is not
    "one sided":    lambda q, m, j: np.where(eye(q), 0, m[:, None] / np.sqrt(r2(q))).sum() / 2,
    "any matrix":   lambda q, m, j: np.where(eye(q), 0, j / np.sqrt(r2(q))).sum() / 2,
    "odd":          lambda q, m, j: ((q[:, None] - q[None, :])[..., 0] ** 3 * m * soft(q)).sum() / 2,
    "diagonal":     lambda q, m, j: (eye(q) * (q @ q.T)).sum() / 2,
    "shifted":      lambda q, m, j: (eye(q) * (q @ q.T) + r2(q)).sum() / 2,
    "off by one":   lambda q, m, j: np.roll(np.where(eye(q), 0, 1 / soft(q)), 1, 0)[0].sum(),
    "rows":         lambda q, m, j: (np.where(eye(q), 0, 1 / soft(q)).sum(1) ** 2).sum() / 2,
    "row by row":   lambda q, m, j: (r2(q).sum(1) * r2(q).sum(1)).sum() / 200,
}
# fmt: on
ALL = GRAVITY | SYMMETRIC | WITH_THEMSELVES | OTHERS


def bodies(n):
    rng = np.random.default_rng(n)
    return dict(
        q=rng.normal(size=(n, 3)),
        p=rng.normal(size=(n, 3)) / 10,
        m=rng.uniform(1, 2, n),
        j=rng.normal(size=(n, n)),
    )


def pairs_of(energy):
    return [u for u in toposort([energy]) if u.op is Ops.TRIU]


@pytest.mark.parametrize("name", ALL)
def test_what_is_shown_to_be_a_sum_over_pairs_becomes_one(name):
    energy = with_potential(ALL[name]).bind({"n": 5}).energy
    check([energy], SHAPED)
    assert len(pairs_of(energy)) == (name not in OTHERS)


@pytest.mark.parametrize("name", ALL)
def test_the_energy_is_that_of_numpy_and_bits_do_not_depend_on_the_backend(name):
    n = 4
    start = bodies(n)
    runs = {
        b: tp.compile(with_potential(ALL[name]), dt=1e-4, sizes={"n": n}, backend=b).evolve(**start, steps=3)
        for b in BACKENDS
    }
    assert len({out.hash for out in runs.values()}) == 1
    out = runs["llvm"]
    with np.errstate(all="ignore"):
        plain = (start["p"] ** 2).sum() / 2 + ALL[name](*(start[k] for k in "qmj"))
    assert out.stopped is None
    assert out.energy[0] == pytest.approx(plain, rel=1e-13) or np.isnan(plain) and name in ("mask", "matrix")
    assert out.drift("energy") < 1e-4


@pytest.mark.parametrize("name", ALL)
def test_no_array_of_all_pairs_is_stored(name):
    n = 80
    start = bodies(n)
    sim = tp.compile(with_potential(ALL[name]), dt=1e-5, sizes={"n": n}, backend="c")
    kernel = build_loops(sim.tpir)
    assert max(b.size for b in kernel.buffers.values() if b.name != "$j") < n * n
    assert ("pairs" in [nest.kind for nest in kernel.sections["step"].nests]) == (name not in OTHERS)
    other = tp.compile(with_potential(ALL[name]), dt=1e-5, sizes={"n": n}, backend="llvm")
    assert sim.evolve(**start, steps=2).hash == other.evolve(**start, steps=2).hash


@pytest.mark.parametrize("name", ["where", "where not", "mask", "filled", "infinite"])
def test_half_of_a_double_sum_has_the_bits_of_a_pair_sum(name):
    same = with_potential(lambda q, m, j: tp.pair_sum(m[:, None] * m / np.sqrt(r2(q))))
    start = bodies(6)
    runs = [
        tp.compile(s, dt=1e-3, sizes={"n": 6}).evolve(**start, steps=20)
        for s in (same, with_potential(GRAVITY[name]))
    ]
    if name in ("where", "where not"):
        assert runs[0].hash == runs[1].hash
    assert np.allclose(runs[0].final.q, runs[1].final.q, rtol=1e-12, atol=1e-12)


def test_a_report_says_which_sums_are_over_pairs_and_why_others_are_not():
    def row(name):
        report = tp.compile(with_potential(ALL[name]), dt=0.1, sizes={"n": 5}).explain("full")
        return next((r for s in report.sections for r in s.rows if r.name == "pairs"), None)

    assert row("where").verdict == "yes" and "10 pairs" in row("where").because
    assert row("one sided").verdict == "no" and "can be exchanged" in row("one sided").because
    assert "test_double_sums.py" in row("one sided").where


def test_a_field_on_a_square_is_no_double_sum():
    @tp.hamiltonian
    def sheet(u: tp.Array[6, 6], v: tp.Array[6, 6]):
        return (v**2).sum() / 2 + ((np.roll(u, 1, 0) - u) ** 2).sum() / 2 + (u**4).sum()

    assert "double sum" not in str(tp.compile(sheet, dt=0.1).explain("full"))


@pytest.mark.parametrize(
    "f",
    [
        lambda q, m, j: -(m[:, None] * m / np.sqrt(r2(q))).sum() / 2,
        lambda q, m, j: np.log(r2(q)).sum(),
        lambda q, m, j: 2 * (r2(q) ** -6 - r2(q) ** -3).sum(),
        lambda q, m, j: 0.5 * (m * (m / np.sqrt(r2(q))).sum(1)).sum(),
    ],
)
@pytest.mark.requirement("C-14")
def test_a_sum_that_takes_in_what_is_infinite_is_an_error_with_a_line(f):
    with pytest.raises(tp.TraceError, match="of each particle with itself") as caught:
        with_potential(f).bind({"n": 4})
    assert "tp.pair_sum" in caught.value.fix and caught.value.site.file.endswith("test_double_sums.py")


def random_energy(rng, q, m, v):
    """Sums of what pairs, rows and columns of three make of each other: symmetric, one-sided, masked, or none of it."""
    eye3 = np.eye(3)
    leaves = [
        q[:, None] - q[None, :],
        q[None] - q[:, None],
        m[:, None] * m,
        m[:, None] + m[None],
        q[:, None] * m,
        v,
        v.T,
        v[:, None, :].sum(-1) - v.sum(-1),
        ((v[:, None] - v) ** 2).sum(-1),
        1 - eye3,
        eye3,
    ]

    def pick(items):
        return items[rng.integers(len(items))]

    def pair(depth):
        if depth == 0:
            return pick(leaves)
        x, y = pair(depth - 1), pick(leaves)
        return pick(
            [
                lambda: x * y,
                lambda: x + y,
                lambda: x - y,
                lambda: x * x,
                lambda: np.cos(x) * y,
                lambda: abs(x),
                lambda: x / (2.5 + np.cos(y)),
                lambda: np.where(eye3, 0, x),
                lambda: np.where(y > 0, x, 0.0),
                lambda: np.sin(x),
                lambda: -x,
                lambda: np.swapaxes(x, 0, 1) * y,
                lambda: x[:, ::-1],
                lambda: x @ y,
            ]
        )()

    def row():
        return pair(rng.integers(3)).sum(int(rng.integers(2)))

    return pick(
        [
            lambda: pair(rng.integers(1, 4)).sum(),
            lambda: (row() * row()).sum(),
            lambda: (m * row()).sum() / 2,
            lambda: (row() / (3 + np.sin(m)) * row()).sum(),
            lambda: (lambda r: (r * r).sum())(row()),
            lambda: (m @ pair(2) @ m) / 2,
            lambda: (pair(2)[..., None] * v).sum(),
        ]
    )()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9))
def test_whatever_is_recognised_is_the_sum(seed):
    q, m, v = UOp.var("q", (3,)), UOp.var("m", (3,)), UOp.var("v", (3, 3))
    values = np.random.default_rng(seed).normal(size=(5, 3))
    plain = random_energy(np.random.default_rng(seed), values[0], values[1], values[2:])
    energy = with_pair_sums(as_uop(random_energy(np.random.default_rng(seed), q, m, v)))  # it may be a number
    given = {"q": values[0].tolist(), "m": values[1].tolist(), "v": values[2:].ravel().tolist()}
    assert evaluate([energy], given)[0] == pytest.approx(plain, rel=1e-11, abs=1e-11)


# --- np.eye ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "make",
    [
        np.eye,
        lambda n: 1 - np.eye(n),
        lambda n: -np.eye(n),
        lambda n: np.eye(n, dtype=bool),
        lambda n: ~np.eye(n, dtype=bool),
        lambda n: np.eye(n, dtype=int) * 7,
        lambda n: np.zeros((n, n)),
        lambda n: np.eye(n, dtype=np.float32).T,
    ],
)
def test_a_diagonal_of_numpy_is_an_index_comparison(make):
    u = as_uop(make(40))
    check([u], SHAPED)
    assert len(toposort([u])) < 10
    assert parse(dump([u]))[0] is u
    (value,) = evaluate([u], {})
    assert np.array_equal(np.reshape(value, (40, 40)), make(40))
    assert np.array_equal(
        np.signbit(np.reshape(value, (40, 40)).astype(float)), np.signbit(make(40).astype(float))
    )


def test_what_is_nearly_a_diagonal_is_not_one():
    signed = np.zeros((4, 4))
    signed[1, 2] = -0.0
    for x in (
        np.eye(4) + np.eye(4, k=1),
        np.diag([1.0, 2.0, 3.0]),
        signed,
        np.full((3, 3), 2.0),
        np.ones((3, 4)) * 0,
        np.array([[2.0, -1.0], [-1.0, 2.0]]),
    ):
        (value,) = evaluate([as_uop(x)], {})
        assert np.array_equal(np.reshape(value, x.shape), x)
        assert np.array_equal(np.signbit(value), np.signbit(x).ravel())
        assert as_uop(x).op is Ops.STACK


def test_it_prints_as_what_it_is():
    q = UOp.var("q", (3,))
    assert str(np.where(np.eye(3, dtype=bool), 0, q[:, None] * q)) == "where(eye(3), 0, q*q)"
