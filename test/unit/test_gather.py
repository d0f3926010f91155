"""x[i] with arrays of whole numbers: NumPy's meaning, exact derivatives, sums in order, the same bits everywhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
from test_loops import LOADERS, loops

import tinyphysics as tp
from tinyphysics.ir import Ops, UOp, evaluate
from tinyphysics.ir.dtype import i64
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.tpir.kernels.loops import build_loops

BACKENDS = ("python", "numpy", "c", "llvm")
LIST = np.random.default_rng(5).integers(0, 40, (50, 2))


@tp.hamiltonian
def molecule(
    q: tp.Array["n", 3], p: tp.Array["n", 3], bonds: tp.Array["m", 2], k: tp.Vec["m"], r0: float = 1.0
):
    r = np.sqrt(((q[bonds[:, 0]] - q[bonds[:, 1]]) ** 2).sum(-1))
    return (p**2).sum() / 2 + (k * (r - r0) ** 2).sum() / 2


@tp.hamiltonian
def mixture(q: tp.Array["n", 3], p: tp.Array["n", 3], kind: tp.Vec["n"], eps: tp.Array["t", "t"]):
    r2 = ((q[:, None] - q[None, :]) ** 2).sum(-1) + 0.1
    return (p**2).sum() / 2 + tp.pair_sum(eps[kind[:, None], kind[None, :]] / r2**3)


@tp.hamiltonian
def listed(q: tp.Array["n", 3], p: tp.Array["n", 3]):
    """A list of constants, longer than what is written into a loop."""
    return (p**2).sum() / 2 + ((q[LIST[:, 0]] - q[LIST[:, 1]]) ** 4).sum() / 4


@tp.hamiltonian
def ends(q: tp.Array["n", 3], p: tp.Array["n", 3], bonds: tp.Array["m", 2], kind: tp.Vec["m"], c: tp.Vec[5]):
    """An index with a short axis behind its long one, and one with a short axis before it."""
    x, y = q[bonds], q[bonds.T]
    return (p**2).sum() / 2 + (c[kind][:, None] * np.sin(x[:, 0] - x[:, 1])).sum() + (y**4).sum()


@tp.map
def cells(x: tp.Vec["m"], rho: tp.Vec["n"], few: tp.Vec[4]):
    """An index that the state decides."""
    cell = np.floor(x * 10) % rho.shape[0]
    return x + 0.01 * rho[cell], np.roll(rho, 1), few + few[cell % 4].sum()


def start_of(system, n, m, t=2):
    rng = np.random.default_rng([n, m])
    if system is cells:
        return (
            dict(x=rng.uniform(0, 5, m), rho=rng.uniform(size=n), few=rng.uniform(size=4)),
            {},
            {"n": n, "m": m},
        )
    state = dict(q=rng.normal(size=(n, 3)), p=rng.normal(size=(n, 3)))
    bonds = rng.integers(-n, n, (m, 2)).astype(float)
    bonds[:, 1] = (bonds[:, 0] + 1 + rng.integers(0, n - 1, m)) % n
    params, sizes = {
        "molecule": (dict(bonds=bonds, k=rng.uniform(1, 2, m), r0=1.0), {"n": n, "m": m}),
        "mixture": (
            dict(kind=rng.integers(0, t, n).astype(float), eps=rng.uniform(1, 2, (t, t))),
            {"n": n, "t": t},
        ),
        "listed": ({}, {"n": n}),
        "ends": (
            dict(bonds=bonds, kind=rng.integers(-5, 5, m).astype(float), c=rng.uniform(size=5)),
            {"n": n, "m": m},
        ),
    }[system.name]
    return state, params, sizes


def compiled(system, sizes, backend="auto"):
    return tp.compile(system, **({} if system is cells else {"dt": 0.01}), sizes=sizes, backend=backend)


# --- NumPy's meaning --------------------------------------------------------------------------------
INDEXING = {
    "rows": lambda x, k: x[k],
    "an axis behind": lambda x, k: x[:, k],
    "two that broadcast": lambda x, k: x[k[:, None], k[None, :]],
    "apart, with an integer": lambda x, k: x[0, :, k % 3],
    "together, with an integer": lambda x, k: x[:, 0, k % 3],
    "a new axis between": lambda x, k: x[k, None, np.array([[1], [2]]), 1:],
    "constants": lambda x, k: x[..., np.array([2, 0, 2])],
    "constants evenly spaced": lambda x, k: x[:, np.array([4, 2, 0])],
    "a list": lambda x, k: x[[0, 3]],
    "a mask of constants": lambda x, k: x[np.array([True, False, True, True])],
    "take": lambda x, k: tp.take(x, k, axis=1) if isinstance(x, UOp) else np.take(x, k, axis=1),
}


@pytest.mark.parametrize("name", INDEXING)
@pytest.mark.parametrize("k", [[0, 3, -1], [2, 2, -4]])
def test_indexing_is_that_of_numpy(name, k):
    x, index = np.random.default_rng(1).normal(size=(4, 5, 3)), np.array(k)
    u = INDEXING[name](UOp.var("x", x.shape), UOp.var("k", index.shape))
    expected = INDEXING[name](x, index)
    env = {"x": x.ravel().tolist(), "k": [float(i) for i in k]}
    assert u.shape == expected.shape
    assert np.array_equal(np.reshape(evaluate([u], env)[0], u.shape), expected)
    assert [evaluate([e], env)[0] for e in unroll([u])[0]] == expected.ravel().tolist()


def test_evenly_spaced_constants_are_a_slice():
    q = UOp.var("q", (9,))
    assert q[np.arange(8)] is q[:8] and q[np.array([7, 5, 3])] is q[7:2:-2]


def test_what_is_outside_or_no_whole_number_is_nan():
    x = UOp.var("x", (3,))[UOp.var("k", (6,))]
    (values,) = evaluate([x], {"x": [1.0, 2.0, 3.0], "k": [3.0, -4.0, 0.5, math.nan, math.inf, 1e300]})
    assert all(map(math.isnan, values))


@pytest.mark.parametrize(
    "key, told",
    [
        (np.array([0, 3]), "out of range"),
        (np.array([0.0]), "whole numbers"),
        ([0.5], "whole numbers"),
        (UOp.var("x", (3,)) > 0, "tp.where"),
    ],
)
def test_a_wrong_key_is_an_error_where_it_is_written(key, told):
    with pytest.raises((tp.ShapeError, tp.TraceError), match=told):
        UOp.var("x", (3,))[key]


def test_it_prints_as_it_was_written():
    q, bonds = UOp.var("q", (9, 3)), UOp.var("bonds", (4, 2))
    assert str(q[bonds[:, 0]]) == "q[bonds[:, 0]]"


# --- derivatives and order --------------------------------------------------------------------------
def places(*k):
    return UOp.stack([UOp.const(i, i64) for i in k])


def test_a_scatter_adds_one_after_the_other_from_zero():
    v = UOp.var("v", (5,))
    values = [1e16, 1.0, 3.0, -1e16, -0.0]
    u = v.scatter([places(1, 1, 0, 1, 2)], (4,))
    expected = [0.0 + 3.0, ((0.0 + 1e16) + 1.0) + -1e16, 0.0, 0.0]
    assert evaluate([u], {"v": values})[0] == expected
    assert [evaluate([e], {"v": values})[0] for e in unroll([u])[0]] == expected
    assert math.copysign(1, evaluate([u], {"v": values})[0][2]) == 1


def test_an_index_outside_makes_the_first_number_of_a_scatter_nan():
    k = UOp.var("k", (2,), i64)
    u = UOp.var("v", (2,)).scatter([k], (3,))
    for each in ([u], unroll([u])[0]):
        flat = np.ravel([evaluate([e], {"v": [1.0, 2.0], "k": [2, 3]})[0] for e in each])
        assert math.isnan(flat[0]) and flat[1:].tolist() == [0.0, 1.0]


def test_gather_and_scatter_are_each_others_transpose():
    rng = np.random.default_rng(2)
    x, w, k = UOp.var("x", (4, 2)), UOp.var("w", (6, 2)), UOp.var("k", (6,))
    gathered = x[k]
    env = {
        "x": rng.normal(size=8).tolist(),
        "w": rng.normal(size=12).tolist(),
        "k": [0.0, 3.0, -1.0, 2.0, 2.0, 0.0],
    }
    (slope,) = gradient((w * gathered).sum(), [x])
    expected = np.zeros((4, 2))
    np.add.at(expected, np.array(env["k"]).astype(int), np.reshape(env["w"], (6, 2)))
    assert np.array_equal(np.reshape(evaluate([slope], env)[0], (4, 2)), expected)
    (back,) = gradient((slope * x).sum(), [w])
    assert evaluate([back], env) == evaluate([gathered], env)
    (forward,) = jvp([gathered], [x], [UOp.var("dx", (4, 2))])
    assert forward is UOp.var("dx", (4, 2))[k]
    (none,) = gradient((w * gathered).sum(), [k])
    assert none.op is Ops.CONST and none.arg == 0


def test_forces_are_those_of_the_textbook():
    state, params, sizes = start_of(molecule, 7, 9)
    dt = 2.0**-10
    out = tp.compile(molecule, dt=dt, sizes=sizes).evolve(**state, **params, steps=1)

    def force(q):
        f = np.zeros_like(q)
        for (i, j), k in zip(params["bonds"].astype(int), params["k"]):
            d = q[i] - q[j]
            r = np.sqrt(d @ d)
            f[i] -= k * (r - 1) * d / r
            f[j] += k * (r - 1) * d / r
        return f

    expected = (force(state["q"]) + force(out.final.q)) / 2
    assert np.abs((out.final.p - state["p"]) / dt - expected).max() <= 1e-11 * np.abs(expected).max()


# --- the same bits everywhere -----------------------------------------------------------------------
@pytest.mark.thin(rows=3)
@pytest.mark.parametrize("system", [molecule, mixture, ends, cells], ids=lambda s: s.name)
@pytest.mark.parametrize("n, m", [(5, 6), (12, 11)])
def test_every_backend_has_the_same_bits(system, n, m):
    state, params, sizes = start_of(system, n, m)
    hashes = {b: compiled(system, sizes, b).evolve(**state, **params, steps=3).hash for b in BACKENDS}
    assert len(set(hashes.values())) == 1, hashes


CASES = [
    (molecule, 40, 50, 2),
    (molecule, 40, 5, 2),
    (mixture, 40, 1, 2),
    (mixture, 33, 1, 9),
    (listed, 40, 1, 2),
    (ends, 33, 41, 2),
    (ends, 20, 12, 2),
    (cells, 40, 50, 2),
]


@pytest.mark.thin(rows=4)
@pytest.mark.parametrize("system, n, m, t", CASES, ids=lambda x: getattr(x, "name", str(x)))
def test_every_rendering_of_loops_has_the_bits_of_the_vm(system, n, m, t):
    state, params, sizes = start_of(system, n, m, t)
    sim = compiled(system, sizes, "python")
    expected = sim.evolve(**state, **params, steps=2, t0=0.25).final
    for name, loader in LOADERS.items():
        out = loops(sim, loader(), state, params, 2)
        for k in state:
            assert np.array_equal(out[k], getattr(expected, k)), (name, k)


def test_two_ends_of_a_bond_are_one_loop_and_a_small_table_costs_no_memory():
    _, _, sizes = start_of(molecule, 40, 50)
    assert [n.kind for n in build_loops(compiled(molecule, sizes).tpir).sections["step"].nests] == [
        "map",
        "scatter",
        "map",
    ]
    few, many = (build_loops(compiled(mixture, {"n": 40, "t": t}).tpir) for t in (2, 9))
    assert not few.flat and many.flat == {"eps": "flat.eps"}


def test_an_observable_may_choose_what_the_run_does_not():
    state, params, sizes = start_of(mixture, 40, 1, 9)
    look = {
        "a": lambda q: q[np.array([0, 5, 1])].sum(),
        "e": lambda eps, kind: eps[kind, 0].sum(),
        "energy": "energy",
    }
    runs = {b: compiled(mixture, sizes, b).evolve(**state, **params, steps=4, observe=look) for b in BACKENDS}
    for name in look:
        assert len({runs[b].observed[name][1].tobytes() for b in BACKENDS}) == 1
    assert runs["llvm"].hash == compiled(mixture, sizes).evolve(**state, **params, steps=4).hash


@pytest.mark.parametrize("system", [molecule, mixture, listed, ends], ids=lambda s: s.name)
@pytest.mark.parametrize("n", [20, 40])
def test_it_is_certified(system, n):
    if system is listed and n < 40:
        pytest.skip("its list goes to 40")
    c = compiled(system, start_of(system, n, 12)[2]).certificate
    assert c.symplectic and c.consistent and c.symmetric and c.reversible


# --- indices that choose nothing --------------------------------------------------------------------
@pytest.mark.parametrize("bad", [20.0, -21.0, 1.5])
def test_a_parameter_that_points_nowhere_is_an_error_before_the_run(bad):
    state, params, sizes = start_of(molecule, 20, 12)
    params["bonds"][3, 1] = bad
    with pytest.raises(tp.InputError, match=r"`bonds\[:, 1\]` holds .*`q` has length 20 there(.|\n)*0 to 19"):
        compiled(molecule, sizes).evolve(**state, **params, steps=1)


def test_one_member_that_points_nowhere_is_named():
    state, params, sizes = start_of(molecule, 20, 12)
    params["bonds"] = np.stack([params["bonds"]] * 3)
    params["bonds"][2, 0, 0] = 99
    with pytest.raises(tp.InputError, match="holds 99 of member 2"):
        compiled(molecule, sizes).evolve(**state, **params, steps=1)


@pytest.mark.parametrize("m", [3, 40])
def test_a_state_that_points_nowhere_stops_the_run(m):
    table = np.linspace(0, 1, 7)

    @tp.map
    def walk(x: tp.Vec["m"]):
        return x + tp.take(table, np.floor(x))

    start = np.linspace(0.1, 5, m)
    runs = {b: tp.compile(walk, sizes={"m": m}, backend=b).evolve(x=start, steps=10) for b in BACKENDS}
    assert {(r.stopped.cause, r.stopped.step, r.stopped.where, r.hash) for r in runs.values()} == {
        ("not finite", 4, runs["c"].stopped.where, runs["c"].hash)
    }
