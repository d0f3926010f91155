"""Products of matrices: one kind of nest, tiled, with the bits of the VM on every backend and in every form that it is written in."""

from __future__ import annotations

import numpy as np
import pytest
from loops_on_numbers import LoopsOnNumbers
from ptx_on_host import OnHost
from test_loops import loops

import tinyphysics as tp
from tinyphysics.errors import ShapeError
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
def to_one_number(z: tp.Vec["d"], A: tp.Vec["d"]):
    return z * (0.5 + (A @ z) * 0.01)


SHAPES = {
    on_vector: ("d", "dd"),
    from_left: ("d", "dd"),
    of_matrices: ("dn", "dd"),
    transposed: ("dn", "dd"),
    batched: ("bdn", "bdd"),
    of_points: ("d3", "dd"),
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
    assert "product" in kinds(case(system, 40)[0])


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
