"""Products of matrices: one kind of nest, tiled, with the bits of the VM on every backend and in every form that it is written in."""

from __future__ import annotations

import numpy as np
import pytest
from loops_on_numbers import LoopsOnNumbers
from ptx_on_host import OnHost
from test_loops import loops

import tinyphysics as tp
from tinyphysics.errors import ShapeError
from tinyphysics.ir import Ops, UOp
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.identities.fuse import long_dots
from tinyphysics.rules.identities.real import simplify
from tinyphysics.runtime.engines.loaders import CLoops, LlvmLoops, numpy_loops
from tinyphysics.tpir.kernels.loops import build_loops


@tp.map
def on_vector(z: tp.Vec["d"], A: tp.Array["d", "d"]):
    return A @ z


@tp.map
def from_left(z: tp.Vec["d"], A: tp.Array["d", "d"]):
    return z @ A


@tp.map
def of_matrices(z: tp.Array["d", "n"], A: tp.Array["d", "d"]):
    return A @ z


@tp.map
def transposed(z: tp.Array["d", "n"], A: tp.Array["d", "d"]):
    return A.T @ z


@tp.map
def batched(z: tp.Array["b", "d", "n"], A: tp.Array["b", "d", "d"]):
    return A @ z


@tp.map
def of_points(z: tp.Array["d", 3], A: tp.Array["d", "d"]):
    return A @ z


@tp.map
def of_two(z: tp.Vec["d"], A: tp.Array["d", "d"]):
    """Two products over the same indices, one behind the other."""
    return A @ z + A @ (z * z)


@tp.map
def to_one_number(z: tp.Vec["d"], A: tp.Vec["d"]):
    return z * (0.5 + (A @ z) * 0.01)


SHAPES = {
    on_vector: ("d", "dd"),
    from_left: ("d", "dd"),
    of_matrices: ("dn", "dd"),
    transposed: ("dn", "dd"),
    batched: ("bdn", "bdd"),
    of_points: ("d3", "dd"),
    of_two: ("d", "dd"),
    to_one_number: ("d", "d"),
}
SYSTEMS = list(SHAPES)
LOADERS = {
    "llvm": LlvmLoops,
    "scalar": lambda: LlvmLoops(width=1),
    "two": lambda: LlvmLoops(width=2),
    "four": lambda: LlvmLoops(width=4),
    "eight": lambda: LlvmLoops(width=8),
    "c": CLoops,
    "gpu threads": OnHost,
}


def case(system, d, n=37, b=33):
    sizes = {"d": d, "n": n, "b": b, "3": 3}
    rng = np.random.default_rng(d)
    state, matrix = ([sizes[c] for c in axes] for axes in SHAPES[system])
    named = {c: sizes[c] for axes in SHAPES[system] for c in axes if c != "3"}
    sim = tp.compile(system, sizes=named, backend="python")
    return sim, dict(z=rng.normal(size=state)), dict(A=rng.normal(size=matrix) / d**0.5)


def kinds(sim):
    return [n.kind for n in build_loops(sim.tpir).sections["step"].nests]


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda s: s.name)
def test_a_sum_of_products_is_recognised(system):
    """Where a factor is one of several sums; without that, a tile has nothing to keep."""
    assert ("product" in kinds(case(system, 40)[0])) == (system is not to_one_number)


@pytest.mark.parametrize("system", [on_vector, from_left, of_points, to_one_number], ids=lambda s: s.name)
def test_a_product_has_the_bits_of_the_vm(system):
    sim, state, params = case(system, 37)
    expected = sim.evolve(**state, **params, steps=2).final.z
    assert np.array_equal(loops(sim, numpy_loops(), state, params, 2)["z"], expected)


@pytest.mark.thin(rows=14)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda s: s.name)
@pytest.mark.parametrize("d", [33, 64, 77])
@pytest.mark.parametrize("loader", LOADERS)
def test_every_form_of_a_product_has_the_same_bits(system, d, loader):
    sim, state, params = case(system, d)
    expected = loops(sim, numpy_loops(), state, params, 2)["z"]
    assert np.array_equal(loops(sim, LOADERS[loader](), state, params, 2)["z"], expected)


@pytest.mark.parametrize("loader", ["eight", "four"])
def test_blocks_of_terms_and_columns_change_no_bit(loader):
    """More terms than a block has, more columns than a block of tiles has, and some left over of both."""
    sim, state, params = case(of_matrices, 263, 131)
    expected = loops(sim, numpy_loops(), state, params, 1)["z"]
    assert np.array_equal(loops(sim, LOADERS[loader](), state, params, 1)["z"], expected)


def test_threads_of_a_processor_share_the_rows_of_a_product():
    sim, state, params = case(of_matrices, 263, 131)
    one, three = (loops(sim, LlvmLoops(), state, params, 1, threads)["z"] for threads in (1, 3))
    assert np.array_equal(one, three)


@pytest.mark.thin(rows=4)
@pytest.mark.parametrize("system", [on_vector, from_left, of_points], ids=lambda s: s.name)
@pytest.mark.parametrize("form", ["ranged", "tiled", "threaded"])
def test_the_statements_of_a_product_mean_what_numpy_computes(system, form):
    """By an interpreter of LoopIR on plain numbers, which shares nothing with the printers."""
    sim, state, params = case(system, 35)
    expected = loops(sim, numpy_loops(), state, params, 1)["z"]
    assert np.array_equal(loops(sim, LoopsOnNumbers(form), state, params, 1)["z"], expected)


# --- a network as an energy -------------------------------------------------------------------------------
@tp.hamiltonian
def network(
    q: tp.Vec["n"],
    p: tp.Vec["n"],
    A: tp.Array["m", "n"],
    B: tp.Array["m", "m"],
    c: tp.Vec["m"],
):
    """Three layers: weights are parameters, and the force goes through all of them."""
    return p @ p / 2 + q @ q / 2 + c @ np.tanh(B @ np.tanh(A @ q))


def network_case(n=40, m=48):
    rng = np.random.default_rng(5)
    params = dict(
        A=rng.normal(size=(m, n)) / n**0.5, B=rng.normal(size=(m, m)) / m**0.5, c=rng.normal(size=m)
    )
    sim = tp.compile(network, dt=0.05, sizes={"n": n, "m": m}, backend="python")
    return sim, dict(q=rng.normal(size=n), p=rng.normal(size=n)), params


def test_the_force_of_a_network_is_made_of_products():
    """Two forward, two back: vjp of a product is a product with the matrix from the other side."""
    sim, _, _ = network_case()
    assert kinds(sim).count("product") == 4
    assert sim.tpir.step and sum(i.op == "DOT" for i in sim.tpir.step) == 4


@pytest.mark.parametrize("loader", ["llvm", "c", "gpu threads"])
def test_a_network_has_the_same_bits_everywhere(loader):
    sim, state, params = network_case()
    expected = loops(sim, numpy_loops(), state, params, 3)
    out = loops(sim, LOADERS[loader](), state, params, 3)
    assert all(np.array_equal(out[k], expected[k]) for k in state)


def test_the_force_of_a_network_is_that_of_finite_differences():
    sim, state, params = network_case()
    given = {k: v for k, v in params.items()}

    def potential(q):
        return q @ q / 2 + given["c"] @ np.tanh(given["B"] @ np.tanh(given["A"] @ q))

    q, h = state["q"], 1e-6
    force = -np.array([(potential(q + e) - potential(q - e)) / (2 * h) for e in np.eye(len(q)) * h])
    dt, still = 0.05, dict(q=q, p=np.zeros_like(q))
    moved = tp.compile(network, dt=dt, sizes={"n": 40, "m": 48}, backend="llvm", method="leapfrog").evolve(
        **still, **params, steps=1
    )
    # kick, drift, kick from rest: q moves by dt**2/2 times the force
    assert np.allclose((moved.final.q - q) * 2 / dt**2, force, rtol=1e-7, atol=1e-7)


def test_a_tangent_of_a_product_is_a_product():
    z, d, A = UOp.var("z", (40,)), UOp.var("d", (40,)), UOp.var("A", (40, 40))
    for f in (A @ z, z @ A):
        (tangent,) = long_dots(simplify(jvp([f], [z], [d])))
        assert tangent.op is Ops.REDUCE and tangent.arg[0] == "dot"


def test_each_term_of_a_product_is_rounded_once():
    """-1 + (1 + e)*(1 - e) in one accumulator is -e*e; with two roundings it would be 0."""
    e = 2.0**-30

    @tp.map
    def square(z: tp.Vec[40], y: tp.Vec[40]):
        return z * 0 + z @ y, y

    z, y = np.zeros(40), np.zeros(40)
    z[0], y[0], z[32], y[32] = -1.0, 1.0, 1 + e, 1 - e
    for name in ("python", "llvm"):
        assert tp.compile(square, backend=name).evolve(z=z, y=y, steps=1).final.z[0] == -e * e


def test_a_sum_with_functions_in_it_is_no_product():
    @tp.map
    def waves(z: tp.Vec["d"], A: tp.Array["d", "d"]):
        return (np.sin(A * z) * A).sum(1)

    assert "product" not in kinds(tp.compile(waves, sizes={"d": 40}, backend="python"))


def test_wrong_shapes_name_both_and_the_line():
    with pytest.raises(ShapeError) as error:

        @tp.map
        def wrong(z: tp.Vec[4], A: tp.Array[5, 3]):
            return A @ z

    assert "(5, 3)" in str(error.value) and "(4,)" in str(error.value)
    assert "test_products.py" in str(error.value)
    assert "3 and 4 differ" in str(error.value)
