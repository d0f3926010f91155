"""Is the traced graph the user's function?  And does everything that cannot be traced say what to write instead?"""

from __future__ import annotations

import functools
import inspect
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.errors import InputError, ShapeError, TinyPhysicsError, TraceError
from tinyphysics.front.trace import observable
from tinyphysics.ir import Ops, UOp, evaluate
from tinyphysics.ir.spec import LOWERED, SHAPED, UNROLLED, check
from tinyphysics.rules.identities.fuse import fuse
from tinyphysics.rules.identities.real import simplify
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.system import SizedFamily

HERE = Path(__file__)
SRC = HERE.parents[2] / "src"


def flat(a):
    a = np.asarray(a, float)
    return a.ravel().tolist() if a.ndim else float(a)


def shaped(function, *shapes):
    """The function with its first arguments annotated as arrays of these shapes."""
    names = list(inspect.signature(function).parameters)
    function.__annotations__ = {n: tp.Array[s] for n, s in zip(names, shapes) if s}
    return function


# --- the same function -----------------------------------------------------------------------------
def K(p):
    return (p * p).sum() / 2 if getattr(p, "shape", ()) else p * p / 2


A = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.25], [0.0, 0.25, 3.0]])
V3 = ((3,), (3,))
M = ((2, 3), (2, 3))
S = ((), ())

# fmt: off
ENERGIES = {  # name: (shapes of q and p, energy)
    "pendulum":        (S, lambda q, p: p**2 / 2 - np.cos(q)),
    "trigonometry":    (S, lambda q, p: K(p) + np.sin(q) * np.tan(q / 3) + np.arctan(q)),
    "inverse":         (S, lambda q, p: K(p) + np.arcsin(q / 4) + np.arccos(q / 4) * np.arctan2(q, 2.0)),
    "hyperbolic":      (S, lambda q, p: K(p) + np.sinh(q) / np.cosh(q) - np.tanh(q)),
    "exponentials":    (S, lambda q, p: K(p) + np.exp(-q) + np.expm1(q) + np.log(q + 5) + np.log1p(q * q)),
    "roots":           (S, lambda q, p: np.sqrt(1 + p * p) + np.cbrt(q) + np.hypot(q, 2.0)),
    "signs":           (S, lambda q, p: K(p) + np.abs(q) + np.sign(q) * q + abs(q - 1)),
    "extremes":        (S, lambda q, p: K(p) + np.minimum(q, 0.3) - np.maximum(q, p)),
    "branches":        (S, lambda q, p: K(p) + np.where(q > 0, q**2, -q) + np.where((q > -1) & (q < 1), 1.0, 0.0)),
    "clip":            (S, lambda q, p: K(p) + np.clip(q, -0.5, 0.5)),
    "powers":          (S, lambda q, p: p**2 / 2 + q**4 + 2**q + q**-2 + (q * q + 1) ** 0.5 + np.power(q, 3) + np.float_power(2, q)),
    "operators":       (S, lambda q, p: +p * p / 2 - (-q) + (1 - q) / (2 + q * q) - 3 / (4 + q * q) + q % 1.5 + 2.5 % (q + 9)),
    "comparisons":     (S, lambda q, p: K(p) + 1.0 * (q < 0) + 2.0 * (q <= 0) + 3.0 * (q >= 1) + (q == 2) * 1.0 + (q != 2) * 0.5),
    "logic":           (S, lambda q, p: K(p) + 1.0 * np.logical_and(q > 0, p > 0) + 1.0 * np.logical_or(q > 0, ~(p > 0))),
    "conditions":      (S, lambda q, p: K(p) + (q > 0) * (p > 0) * q**2),
    "dot":             (V3, lambda q, p: p @ p / 2 + np.dot(q, q) + q @ A @ q + np.dot(A, q) @ p),
    "vdot, inner":     (M, lambda q, p: K(p) + np.vdot(q, p) + np.inner(q, p).sum() + np.inner(q, p)[0, 1] + np.vecdot(q, p)[1]),
    "norm":            (V3, lambda q, p: K(p) - 1 / np.linalg.norm(q) + np.linalg.norm(q, 2)),
    "norms of rows":   (M, lambda q, p: K(p) + np.linalg.norm(q, axis=1).sum() + np.linalg.norm(q)),
    "cross":           (V3, lambda q, p: K(p) + np.cross(q, p) @ A[0] + np.cross(A[1], q)[2]),
    "cross in 2d":     (((2,), (2,)), lambda q, p: K(p) + q[0] * p[1] - q[1] * p[0]),
    "outer":           (V3, lambda q, p: K(p) + (np.outer(q, q) * A).sum()),
    "einsum":          (V3, lambda q, p: K(p) + np.einsum("i,ij,j->", q, A, q) + np.einsum("i,i", q, p) + np.einsum("ij->ji", A) @ q @ p),
    "einsum 2":        (M, lambda q, p: K(p) + np.einsum("ij,kj->ik", q, q)[0, 1] + np.einsum("ij->i", q)[1] + np.einsum("ba", q)[2, 1]),
    "sums":            (M, lambda q, p: K(p) + q.sum() + np.sum(q, axis=0)[1] + np.sum(q, axis=(0, 1)) + q.sum(axis=1, keepdims=True)[1, 0]),
    "reduced":         (M, lambda q, p: K(p) + np.add.reduce(q)[2] + np.add.reduce(q, axis=1)[0] + np.add.reduce(q, axis=None)),
    "mean, prod":      (M, lambda q, p: K(p) + np.mean(q) + np.mean(q, axis=1)[0] + np.prod(q) + np.prod(q, axis=0)[1] + np.prod(q, -1)[1]),
    "largest":         (M, lambda q, p: K(p) + np.max(q) - np.min(q, axis=1)[0] + q.max(axis=0)[2] + np.amax(q, 1)[0]),
    "counting":        (V3, lambda q, p: K(p) + (q > 0).sum() + np.mean(q > 0)),
    "stack":           (V3, lambda q, p: K(p) + np.stack([q, p]).sum(axis=1)[0] + np.stack([q[0], 2.0, q[1]]) @ p + np.stack([q, p], axis=1)[2, 1]),
    "concatenate":     (V3, lambda q, p: K(p) + (np.concatenate([q, p, [1.0, 2.0]]) ** 2)[1:7].sum()),
    "concatenate 2":   (M, lambda q, p: K(p) + np.concatenate([q, p], axis=1)[0, 4] + np.concatenate([q, p])[3, 1] + np.concatenate([q, p], axis=None)[7]),
    "reshape":         (M, lambda q, p: K(p) + np.reshape(q, (3, 2))[2, 0] + q.reshape(-1)[4] + q.reshape(3, -1)[1, 1] + q.reshape((6,))[5]),
    "transpose":       (M, lambda q, p: K(p) + (q.T @ p).sum() + np.transpose(q)[2, 1] + q.transpose(1, 0)[0, 1] + np.transpose(q, (1, 0))[1, 0]),
    "roll":            (V3, lambda q, p: K(p) + ((np.roll(q, 1) - q) ** 2).sum() + np.roll(q, -2)[0]),
    "roll 2":          (M, lambda q, p: K(p) + np.roll(q, 1, axis=1)[0, 0] + np.roll(q, 1)[1, 0] + np.roll(q, 1, axis=(0, 1))[0, 1] + np.roll(q, (1, 2), axis=(1, 0))[1, 2]),
    "diff":            (V3, lambda q, p: K(p) + (np.diff(q) ** 2).sum() + (np.diff(q, prepend=0, append=0) ** 2).sum() + np.diff(q, n=2)[0]),
    "diff 2":          (M, lambda q, p: K(p) + np.diff(q, axis=0)[0, 1] + np.diff(q)[1, 1]),
    "clip 2":          (V3, lambda q, p: K(p) + np.clip(q, a_min=-0.2, a_max=0.3).sum() + np.clip(q, 0, None).sum() + np.clip(q, None, 0.1).sum()),
    "indexing":        (M, lambda q, p: K(p) + q[0, 1] + q[1][2] + q[-1, ::-1][0] + q[:, None, 1][1, 0] + q[..., 0].sum() + q[0:1, 1:].sum()),
    "python":          (V3, lambda q, p: sum(x * x for x in p) / 2 + sum(q[i] * q[(i + 1) % 3] for i in range(3)) + len(q) + q.shape[0] + q.size),
    "unpacking":       (V3, lambda q, p: K(p) + (lambda a, b, c: a * b - c)(*q)),
    "matrices":        (M, lambda q, p: K(p) + (q @ A)[1, 2] + (q @ q.T)[0, 1] + np.matmul(A, q[0])[1] + (A @ q.T)[0, 1]),
    "broadcasting":    (M, lambda q, p: K(p) + (q + q[0]).sum() + (q[:, None, :] - q[None, :, :]).sum() + (q * np.array([[1.0], [2.0]])).sum()),
    "planets":         (((4, 3), (4, 3)), lambda q, p: K(p) - sum(1 / np.linalg.norm(q[i] - q[j]) for i in range(4) for j in range(i))),
    "lattice":         (((5,), (5,)), lambda q, p: np.sum(p**2) / 2 + np.sum((q - np.roll(q, 1)) ** 2 / 2 + q**4 / 4)),
    "numpy on left":   (V3, lambda q, p: K(p) + (np.float64(2.0) * q).sum() + (np.arange(3) * q).sum() + (A[0] - q).sum() + (A[0] / (q + 9)).sum()),
    "ufuncs":          (V3, lambda q, p: K(p) + np.add(q, 1).sum() + np.subtract(1, q)[0] + np.multiply(q, p)[1] + np.divide(q, 2)[0] + np.square(q)[1] + np.negative(q)[2] + np.reciprocal(q + 9)[0] + np.fabs(q)[0] + np.positive(q)[1]),
    "relations":       (V3, lambda q, p: K(p) + 1.0 * np.less(q, 0)[0] + 1.0 * np.greater_equal(q, p)[1] + 1.0 * np.equal(q, q)[2] + 1.0 * np.not_equal(q, p)[0] + 1.0 * np.logical_not(q > 0)[1]),
    "floor":           (S, lambda q, p: K(p) + np.floor(q * 3) + np.remainder(q, 0.7)),
    "tp on symbols":   (V3, lambda q, p: tp.sum(p * p) / 2 + tp.norm(q) + tp.sqrt(tp.abs(q)).sum() + tp.where(q > 0, q, tp.exp(q)).sum() + tp.dot(q, p) + tp.erf(0.0)),
    "constants":       (S, lambda q, p: K(p) + q * np.pi + np.sin(1.0) + math.sin(1.0) + tp.sin(1.0) + float(np.float32(0.5)) * q),
    "array of one":    (((1,), (1,)), lambda q, p: p[0] ** 2 / 2 + q[0] ** 2 + q.sum()),
    "three axes":      (((2, 2, 2), (2, 2, 2)), lambda q, p: K(p) + q[1, 0, 1] * q[0, 1, 1] + np.sum(q, axis=(0, 2))[1] + np.transpose(q, (2, 0, 1))[1, 0, 1] + np.roll(q, 1, 2)[0, 0, 0]),
}
# fmt: on

FUNCTIONS = """sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh exp expm1 log log1p sqrt cbrt hypot abs sign minimum
maximum where sum prod mean dot cross outer einsum linalg.norm stack concatenate reshape transpose roll diff clip""".split()


@pytest.mark.requirement("S0-21")
@pytest.mark.parametrize("name", ENERGIES)
def test_the_graph_is_the_function(name):
    shapes, energy = ENERGIES[name]
    system = tp.hamiltonian(shaped(energy, *shapes))
    r = np.random.default_rng(list(ENERGIES).index(name))
    for _ in range(5):
        q, p = (r.uniform(-1.5, 1.5, shape) for shape in shapes)
        want = energy(q if shapes[0] else np.float64(q), p if shapes[1] else np.float64(p))
        (got,) = evaluate([system.energy], {"q": flat(q), "p": flat(p)})
        assert got == pytest.approx(float(want), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", ENERGIES)
def test_its_derivative_is_that_of_the_function_and_every_pass_keeps_the_spec(name):
    shapes, energy = ENERGIES[name]
    system = tp.hamiltonian(shaped(energy, *shapes))
    (q, p), r, h = (*system.q, *system.p), np.random.default_rng(7), 1e-6
    at = [r.uniform(-1.4, 1.4, shape) for shape in shapes]
    slopes = gradient(system.energy, [q, p])
    short = simplify(slopes)
    fused = fuse(short)
    scalars = [u for group in unroll(fused) for u in group]
    for roots, spec in (
        (slopes, SHAPED),
        (short, SHAPED),
        (fused, SHAPED),
        (scalars, UNROLLED),
        (lower(fused), LOWERED),
    ):
        check(roots, spec)
    found = evaluate(fused, {"q": flat(at[0]), "p": flat(at[1])})
    for k, values in enumerate(found):
        for i, value in enumerate(np.ravel(values)):
            ends = []
            for sign in (1, -1):
                moved = [a.copy() if a.ndim else np.array(a) for a in at]
                moved[k].flat[i] += sign * h
                ends.append(float(energy(*(a if a.ndim else np.float64(a) for a in moved))))
            assert value == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6, abs=1e-7)


def test_every_function_of_the_list_is_in_the_table_above():
    text = HERE.read_text().split("ENERGIES = {")[1].split("# fmt: on")[0]
    assert [f for f in FUNCTIONS if f"np.{f}(" not in text] == []


def test_functions_of_tp_give_numbers_on_numbers():
    assert tp.sin(0.5) == math.sin(0.5) and tp.hypot(3, 4) == 5.0 and tp.where(True, 1, 2) == 1.0
    assert tp.norm([3.0, 4.0]) == 5.0 and tp.sum([1, 2, 3]) == 6.0 and tp.stack([1.0, 2.0]) == [1.0, 2.0]
    assert isinstance(tp.sin(np.array([0.0, 1.0])), np.ndarray)
    assert tp.cross([1, 0, 0], [0, 1, 0]) == [0.0, 0.0, 1.0]
    assert tp.outer([1.0, 2.0], [3.0, 4.0]) == [[3.0, 4.0], [6.0, 8.0]]


def test_the_function_is_called_exactly_once():
    calls = []

    @tp.hamiltonian
    def spring(q, p, k=2.0):
        calls.append((q, p, k))
        return p**2 / 2 + k * q**2 / 2

    assert len(calls) == 1 and all(isinstance(x, UOp) for x in calls[0])
    tp.compile(spring, dt=0.1, backend="python").evolve(q=1.0, p=0.0, steps=3)
    assert len(calls) == 1


def test_each_node_knows_its_line():
    @tp.hamiltonian
    def two_lines(q, p):
        kinetic = p**2 / 2
        potential = tp.cos(q)  # the line of the cosine
        return kinetic - potential

    (cosine,) = [u for u in two_lines.sites if u.op is Ops.COS]
    assert two_lines.sites[cosine].text.endswith("# the line of the cosine")
    assert Path(two_lines.site.file).name == "test_trace.py"


# --- what is refused -------------------------------------------------------------------------------
def lines(function):
    """Line numbers marked `# wrong` inside a function."""
    source, start = inspect.getsourcelines(function)
    return [start + i for i, line in enumerate(source) if "# wrong" in line]


def energy_of(*shapes):
    return lambda function: tp.hamiltonian(shaped(function, *shapes))


def an_if_on_a_symbol():
    @tp.hamiltonian
    def H(q, p):
        if q > 0:  # wrong
            return p**2 / 2
        return p**2


def a_while_on_a_symbol():
    @tp.hamiltonian
    def H(q, p):
        while q > 0:  # wrong
            q = q - 1
        return p**2 / 2 + q


def an_and_of_conditions():
    @tp.hamiltonian
    def H(q, p):
        return p**2 / 2 + tp.where(q > 0 and q < 1, q, 0)  # wrong


def a_chained_comparison():
    @tp.hamiltonian
    def H(q, p):
        return p**2 / 2 + tp.where(0 < q < 1, q, 0)  # wrong


def pythons_min():
    energy_of((2,), (2,))(lambda q, p: p @ p / 2 + min(q[0], q[1]))  # wrong


def sorting():
    energy_of((2,), (2,))(lambda q, p: p @ p / 2 + sorted([q[0], q[1]])[0])  # wrong


def membership():
    tp.hamiltonian(lambda q, p: p**2 / 2 + (1.0 if q in [1.0, 2.0] else 0.0))  # wrong


def the_math_module():
    @tp.hamiltonian
    def H(q, p):
        return p**2 / 2 - math.cos(q)  # wrong


def a_float():
    tp.hamiltonian(lambda q, p: p**2 / 2 + float(q))  # wrong


def an_int():
    tp.hamiltonian(lambda q, p: p**2 / 2 + int(q))  # wrong


def rounding():
    tp.hamiltonian(lambda q, p: p**2 / 2 + round(q, 2))  # wrong


def a_range_over_a_symbol():
    tp.hamiltonian(lambda q, p: p**2 / 2 + sum(k for k in range(q)))  # wrong


def writing_into_a_symbol():
    @energy_of((2,), (2,))
    def H(q, p):
        q[0] = 1.0  # wrong
        return p @ p / 2


def adding_in_place():
    @energy_of((2,), (2,))
    def H(q, p):
        q[0] += 1.0  # wrong
        return p @ p / 2


def filling_an_array():
    @energy_of((2,), (2,))
    def H(q, p):
        force = np.zeros(2)
        force[0] = q[0]  # wrong
        return p @ p / 2 + force @ q


def filling_an_array_with_arrays():
    @energy_of((2,), (2,))
    def H(q, p):
        force = np.zeros((2, 2))
        force[0] = q  # wrong
        return p @ p / 2 + (force @ q).sum()


def adding_to_an_array():
    @energy_of((2,), (2,))
    def H(q, p):
        total = np.zeros(2)
        total += q  # wrong
        return p @ p / 2 + total.sum()


def a_numpy_array_of_symbols_as_whole_numbers():
    energy_of((2,), (2,))(lambda q, p: p @ p / 2 + np.array([q[0], q[1]], dtype=int).sum())  # wrong


def a_numpy_sum_of_a_list():
    energy_of((2,), (2,))(lambda q, p: p @ p / 2 + np.sum([q[0], q[1]]))  # wrong


def a_complex_energy():
    energy_of((4,), (4,))(lambda q, p: p @ p / 2 + np.sin(1j * q).sum())  # wrong


def an_unknown_function():
    energy_of((4,), (4,))(lambda q, p: p @ p / 2 + np.sort(q)[0])  # wrong


def an_unknown_reduction():
    energy_of((4,), (4,))(lambda q, p: p @ p / 2 + np.multiply.reduce(q))  # wrong


def an_argument_that_is_not_supported():
    energy_of((4,), (4,))(lambda q, p: p @ p / 2 + np.sum(q, where=[True, False, True, True]))  # wrong


def an_output_argument():
    energy_of((4,), (4,))(lambda q, p: p @ p / 2 + np.sin(q, out=np.zeros(4)).sum())  # wrong


def a_spectral_norm():
    energy_of((2, 2), (2, 2))(lambda q, p: (p * p).sum() / 2 + np.linalg.norm(q, 2))  # wrong


def another_norm():
    energy_of((2,), (2,))(lambda q, p: p @ p / 2 + np.linalg.norm(q, 1))  # wrong


def a_trace_by_einsum():
    energy_of((2, 2), (2, 2))(lambda q, p: (p * p).sum() / 2 + np.einsum("ii->", q))  # wrong


def a_diagonal_by_einsum():
    energy_of((2,), (2,))(lambda q, p: p @ p / 2 + np.einsum("i->ii", q).sum())  # wrong


def an_unknown_letter_in_einsum():
    energy_of((2,), (2,))(lambda q, p: p @ p / 2 + np.einsum("i->ij", q).sum())  # wrong


def shapes_that_do_not_fit():
    energy_of((2,), (2,))(lambda q, p: p @ p / 2 + (q * np.array([1.0, 2.0, 3.0])).sum())  # wrong


def a_product_with_a_scalar():
    tp.hamiltonian(lambda q, p: p @ p / 2 + q**2)  # wrong


def a_stack_of_different_shapes():
    energy_of((2,), (2,))(lambda q, p: p @ p / 2 + np.stack([q, q[0]]).sum())  # wrong


def a_concatenation_of_scalars():
    energy_of((2,), (2,))(lambda q, p: p @ p / 2 + np.concatenate([q[0], q[1]]).sum())  # wrong


def a_concatenation_that_does_not_fit():
    energy_of((2, 3), (2, 3))(lambda q, p: (p * p).sum() / 2 + np.concatenate([q, p.T]).sum())  # wrong


def a_cross_product_of_fours():
    energy_of((4,), (4,))(lambda q, p: p @ p / 2 + np.cross(q, p).sum())  # wrong


def a_reshape_that_does_not_fit():
    energy_of((4,), (4,))(lambda q, p: p @ p / 2 + q.reshape(3).sum())  # wrong


def an_axis_that_is_not_there():
    energy_of((4,), (4,))(lambda q, p: p @ p / 2 + q.sum(axis=1).sum())  # wrong


def a_stack_along_an_axis_that_is_not_there():
    energy_of((4,), (4,))(lambda q, p: p @ p / 2 + np.stack([q, p], axis=5).sum())  # wrong


def a_concatenation_along_an_axis_that_is_not_there():
    energy_of((4,), (4,))(lambda q, p: p @ p / 2 + np.concatenate([q, p], axis=3).sum())  # wrong


def a_difference_along_an_axis_that_is_not_there():
    energy_of((4,), (4,))(lambda q, p: p @ p / 2 + np.diff(q, axis=2).sum())  # wrong


def a_product_along_an_axis_that_is_not_there():
    energy_of((4,), (4,))(lambda q, p: p @ p / 2 + np.prod(q, axis=1))  # wrong


def a_dot_of_three_axes():
    energy_of((2, 2, 2), (2, 2, 2))(lambda q, p: (p * p).sum() / 2 + np.dot(q, p).sum())  # wrong


def an_index_out_of_range():
    energy_of((2,), (2,))(lambda q, p: p @ p / 2 + q[5])  # wrong


def an_index_into_a_scalar():
    tp.hamiltonian(lambda q, p: p**2 / 2 + q[0])  # wrong


def an_index_that_is_a_list_of_fractions():
    energy_of((2,), (2,))(lambda q, p: p @ p / 2 + q[[0.5, 1.5]].sum())  # wrong


def an_index_that_is_a_mask():
    energy_of((2,), (2,))(lambda q, p: p @ p / 2 + q[q > 0].sum())  # wrong


def an_index_that_is_a_float():
    energy_of((2,), (2,))(lambda q, p: p @ p / 2 + q[2 / 2])  # wrong


def iterating_a_scalar():
    tp.hamiltonian(lambda q, p: p**2 / 2 + sum(x for x in q))  # wrong


def the_length_of_a_scalar():
    tp.hamiltonian(lambda q, p: p**2 / 2 + len(q))  # wrong


def bits_of_numbers():
    tp.hamiltonian(lambda q, p: p**2 / 2 + tp.where(q & p, 1.0, 0.0))  # wrong


def a_caret_for_a_power():
    tp.hamiltonian(lambda q, p: p**2 / 2 + q ^ 2)  # wrong


def adding_conditions():
    tp.hamiltonian(lambda q, p: p**2 / 2 + ((q > 0) + (p > 0)) * 1.0)  # wrong


def a_floor_division():
    tp.hamiltonian(lambda q, p: p**2 / 2 + q // 2)  # wrong


def an_attribute_that_is_not_there():
    energy_of((2,), (2,))(lambda q, p: p @ p / 2 + q.cumsum()[0])  # wrong


def a_name_that_is_not_there():
    tp.hamiltonian(lambda q, p: p**2 / 2 + stiffness * q**2)  # wrong  # noqa: F821


def an_error_of_the_users_own():
    @tp.hamiltonian
    def H(q, p):
        raise RuntimeError("not yet")  # wrong


def a_complex_number():
    tp.hamiltonian(lambda q, p: p**2 / 2 + 1j * q)  # wrong


def a_string():
    tp.hamiltonian(lambda q, p: p**2 / 2 + "q")  # wrong


def formatting_a_symbol():
    tp.hamiltonian(lambda q, p: p**2 / 2 + len(f"{q:.3f}"))  # wrong


def changing_a_symbol():
    @tp.hamiltonian
    def H(q, p):
        q.mass = 3.0  # wrong
        return p**2 / 2


def calling_a_system():
    other = tp.hamiltonian(lambda q, p: p**2 / 2)
    tp.hamiltonian(lambda q, p: other(q, p) + q**2)  # wrong


# errors that belong to the definition: the line is that of the function
def an_energy_that_is_an_array():
    @energy_of((2,), (2,))  # wrong
    def H(q, p):
        return p**2 / 2


def an_energy_that_is_a_pair():
    @tp.hamiltonian  # wrong
    def H(q, p):
        return p**2 / 2, q**2


def an_energy_that_is_nothing():
    @tp.hamiltonian  # wrong
    def H(q, p):
        p**2 / 2


def an_energy_that_is_a_condition():
    @tp.hamiltonian  # wrong
    def H(q, p):
        return p**2 < q


def an_energy_that_is_a_text():
    @tp.hamiltonian  # wrong
    def H(q, p):
        return "p**2/2"


def an_energy_that_ignores_p():
    @tp.hamiltonian  # wrong
    def H(q, p):
        return q**2 / 2


def an_energy_that_ignores_part_of_p():
    @energy_of((3,), (3,))  # wrong
    def H(q, p):
        return p[0] ** 2 / 2 + p[2] ** 2 / 2 + q @ q


def an_energy_that_ignores_the_second_momentum():
    @tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])  # wrong
    def H(x, px, y, py):
        return px**2 / 2 + x**2 + y**2


def one_argument():
    @tp.hamiltonian  # wrong
    def H(q):
        return q**2


def arguments_without_names():
    @tp.hamiltonian  # wrong
    def H(q, p, *rest):
        return p**2 / 2


def keywords_without_names():
    @tp.hamiltonian  # wrong
    def H(q, p, **rest):
        return p**2 / 2


def an_annotation_that_is_no_shape():
    @tp.hamiltonian  # wrong
    def H(q: list, p: list):
        return p**2 / 2


def a_complex_state():
    @tp.hamiltonian
    def H(q: complex, p: complex):
        return p**2 / 2  # wrong


def an_annotation_that_cannot_be_read():
    @tp.hamiltonian  # wrong
    def H(q: Nowhere[3], p: Nowhere[3]):  # noqa: F821
        return p @ p / 2


def an_annotation_with_an_impossible_size():
    @tp.hamiltonian  # wrong
    def H(q: tp.Vec[0], p: tp.Vec[0]):
        return p @ p / 2


def a_size_that_is_none():
    tp.Vec[-1]  # wrong


def a_size_that_is_a_truth_value():
    tp.Array[True, 3]  # wrong


def a_size_that_is_a_fraction():
    tp.Array[2.5, 3]  # wrong


def a_momentum_of_another_shape():
    @energy_of((2,), (3,))  # wrong
    def H(q, p):
        return p @ p / 2


def pairs_that_are_not_there():
    @tp.hamiltonian(pairs=[("x", "y")])  # wrong
    def H(q, p):
        return p**2 / 2


def pairs_that_name_one_argument_twice():
    @tp.hamiltonian(pairs=[("x", "px"), ("y", "px")])  # wrong
    def H(x, px, y):
        return px**2 / 2 + x**2 + y**2


def pairs_that_are_no_pairs():
    @tp.hamiltonian(pairs=["x"])  # wrong
    def H(x, px):
        return px**2 / 2 + x**2


def time_as_a_state():
    @tp.hamiltonian  # wrong
    def H(t, q, p):
        return p**2 / 2 + t * q


def the_step_as_a_parameter():
    @tp.hamiltonian  # wrong
    def H(q, p, dt=0.1):
        return p**2 / 2 + dt * q


def a_run_option_as_a_parameter():
    @tp.hamiltonian  # wrong
    def H(q, p, seed=1.0):
        return p**2 / 2 + seed * q


def a_default_of_another_shape():
    @tp.hamiltonian  # wrong
    def H(q, p, k: tp.Vec[3] = [1.0, 2.0]):  # noqa: B006
        return p**2 / 2 + k @ k * q


def a_default_without_its_annotation():
    @tp.hamiltonian  # wrong
    def H(q, p, k=[1.0, 2.0]):  # noqa: B006
        return p**2 / 2 + k * q


def a_default_that_is_a_text():
    @tp.hamiltonian  # wrong
    def H(q, p, k="stiff"):
        return p**2 / 2 + q


def a_ragged_default():
    @tp.hamiltonian  # wrong
    def H(q, p, k: tp.Array[2, 2] = [[1.0, 2.0], [3.0]]):  # noqa: B006
        return p**2 / 2 + k.sum() * q


def something_that_is_no_function():
    tp.hamiltonian(3)  # wrong


def a_partial_function():
    tp.hamiltonian(functools.partial(lambda q, p, k: p**2 / 2 + k * q, k=2.0))  # wrong


def a_builtin_function():
    tp.hamiltonian(np.hypot)  # wrong


def forces_that_are_nothing():
    @tp.forces  # wrong
    def F(q):
        -q


def forces_of_another_shape():
    @tp.forces  # wrong
    def F(q: tp.Vec[2]):
        return tp.stack([q[0], q[1], q[0]])


def forces_that_are_conditions():
    @tp.forces  # wrong
    def F(q):
        return q > 0


def forces_without_a_position():
    @tp.forces  # wrong
    def F():
        return 0.0


def a_map_that_returns_too_much():
    @tp.map  # wrong
    def step(x):
        return x + 1, x


def a_map_that_returns_nothing():
    @tp.map  # wrong
    def step(x):
        x + 1


def a_map_of_another_shape():
    @tp.map  # wrong
    def step(x: tp.Vec[2]):
        return tp.stack([x[0], x[1], x[0]])


def a_map_that_returns_a_component_for_a_vector():
    @tp.map  # wrong
    def step(x: tp.Vec[2], k=1.0):
        return [x[1], k * x[0]]


def a_model_without_an_energy():
    class Empty(tp.PhysicsSystem):
        pass

    Empty().bind()  # wrong


def a_model_without_a_momentum():
    class Half(tp.PhysicsSystem):
        def energy(self, q):  # wrong
            return q**2

    Half().bind()


def a_model_that_changes_itself():
    class Counter(tp.PhysicsSystem):
        def energy(self, q, p):
            self.calls = 1  # wrong
            return p**2 / 2

    Counter().bind()


def a_model_with_an_attribute_named_as_its_state():
    class Twice(tp.PhysicsSystem):
        def __init__(self):
            self.p = 3.0

        def energy(self, q, p):  # wrong
            return p**2 / 2 + self.p * q

    Twice().bind()


def a_model_with_an_attribute_named_as_the_time():
    class Hot(tp.PhysicsSystem):
        t = 300.0

        def energy(self, q, p):  # wrong
            return p**2 / 2 + self.t * q

    Hot().bind()


WRONG = [
    f
    for name, f in list(globals().items())
    if inspect.isfunction(f)
    and f.__module__ == __name__
    and not inspect.signature(f).parameters
    and "# wrong" in inspect.getsource(f)
    and name != "lines"
]


def test_the_table_of_wrong_inputs_is_long():
    assert len(WRONG) >= 80


@pytest.mark.parametrize("function", WRONG, ids=lambda f: f.__name__)
def test_what_cannot_be_traced_says_where_and_what_to_write(function):
    with pytest.raises((TraceError, ShapeError, InputError)) as caught:
        function()
    error = caught.value
    (line,) = lines(function)
    assert error.site is not None, str(error)
    assert f"({HERE.name}:{line})" in str(error), str(error)
    assert error.fix and error.fix in str(error), f"no remedy: {error}"
    assert "\n" not in error.what and error.what[-1] not in ".!"


@pytest.mark.parametrize(
    ("function", "remedy"),
    [
        (an_if_on_a_symbol, "tp.where"),
        (the_math_module, "np.sin"),
        (writing_into_a_symbol, "np.stack"),
        (a_numpy_array_of_symbols_as_whole_numbers, "np.stack"),
        (filling_an_array, "np.stack"),
        (adding_to_an_array, "np.stack"),
        (an_energy_that_is_an_array, "sum"),
        (an_energy_that_ignores_p, "/ 2"),
        (pythons_min, "np.minimum"),
        (a_chained_comparison, "&"),
        (an_index_into_a_scalar, "tp.Vec[3]"),
        (a_caret_for_a_power, "q**2"),
        (an_unknown_function, "Did you mean `sqrt`?"),
        (an_annotation_that_cannot_be_read, "tp.Vec[3]"),
        (a_partial_function, "def"),
    ],
)
def test_the_remedy_is_the_line_to_write(function, remedy):
    with pytest.raises(TinyPhysicsError) as caught:
        function()
    assert remedy in caught.value.fix


def test_the_error_names_the_file_of_the_function_and_not_of_a_library(tmp_path):
    path = tmp_path / "my_energy.py"
    path.write_text(
        "import math\nimport tinyphysics as tp\n\n\n@tp.hamiltonian\ndef H(q, p):\n    return p*p/2 + math.exp(q)\n"
    )
    out = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
    )
    assert "TraceError" in out.stderr and "(my_energy.py:7)" in out.stderr


def test_a_family_that_is_not_bound_says_how_to_bind_it():
    chain = tp.hamiltonian(shaped(lambda q, p: p @ p / 2, ("n",), ("n",)))
    with pytest.raises(ShapeError, match="`n`") as caught:
        chain.bind({})
    assert "sizes={'n': 16}" in caught.value.fix


# --- the front ends --------------------------------------------------------------------------------
def test_the_first_two_arguments_are_the_pair_t_is_time_and_the_rest_are_parameters():
    @tp.hamiltonian
    def driven(angle, momentum, t, k: float = 2.0, *, amplitude=0.5):
        return momentum**2 / 2 + k * angle**2 / 2 + amplitude * angle * tp.cos(t)

    assert [(s.name, s.role) for s in driven.states] == [("angle", "position"), ("momentum", "momentum")]
    assert driven.time is UOp.var("t") and driven.kind == "hamiltonian" and driven.level == 1
    assert [(x.name, x.default) for x in driven.parameters] == [("k", 2.0), ("amplitude", 0.5)]


def test_positional_arguments_and_decorated_functions_are_traced():
    @tp.hamiltonian
    def positional(q, p, /, k=1.0):
        return p**2 / 2 + k * q**2

    def logged(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    @tp.hamiltonian
    @logged
    def wrapped(q, p, k=1.0):
        return p**2 / 2 + k * q**2

    assert positional.energy is wrapped.energy
    assert [x.default for x in wrapped.parameters] == [1.0]


def test_more_pairs_by_name():
    @tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])
    def plane(x, y: tp.Vec[2], px, py: tp.Vec[2], k=1.0):
        return px**2 / 2 + py @ py / 2 + k * x * y[0] + y[1] ** 2

    assert [s.name for s in plane.states] == ["x", "px", "y", "py"]
    assert [(q.arg, p.arg, q.shape) for q, p in plane.pairs] == [("x", "px", ()), ("y", "py", (2,))]


def test_units_are_carried():
    @tp.hamiltonian
    def falling(
        q: Annotated[tp.Vec[3], "m"],
        p: Annotated[tp.Vec[3], "kg m/s"],
        m: Annotated[float, "kg"] = 2.0,
        g=9.81,
    ):
        return p @ p / (2 * m) + m * g * q[2]

    assert [s.unit for s in falling.states] == ["m", "kg m/s"]
    assert [(x.name, x.unit) for x in falling.parameters] == [("m", "kg"), ("g", None)]


def test_defaults_may_be_arrays_integers_and_missing():
    @tp.hamiltonian
    def chain(q: tp.Vec[2], p: tp.Vec[2], m: tp.Vec[2] = np.array([1, 2]), n=3, k=None, s: tp.Vec[2] = 1.0):
        return (p * p / (2 * m)).sum() + n * k * q @ q + s @ q

    assert [(x.name, x.default) for x in chain.parameters] == [
        ("m", [1, 2]),
        ("n", 3),
        ("k", None),
        ("s", 1.0),
    ]
    assert chain.parameters[0].var.shape == (2,)


def test_letters_make_a_family_bound_by_sizes():
    calls = []

    @tp.hamiltonian
    def gas(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"] = 1.0):
        calls.append(q.shape)
        return (p * p).sum() / 2 + (m * (q * q).sum(axis=1)).sum() / q.shape[0]

    assert isinstance(gas, SizedFamily) and gas.letters == ("n",) and not calls
    system = gas.bind({"n": 4})
    assert (
        calls == [(4, 3)] and system.states[0].var.shape == (4, 3) and system.parameters[0].var.shape == (4,)
    )
    sim = tp.compile(gas, dt=0.1, sizes={"n": 2}, backend="python")
    assert sim.evolve(q=np.ones((2, 3)), p=np.zeros((2, 3)), steps=1).q.shape == (2, 2, 3)


def test_a_family_may_use_a_function_that_is_defined_after_it():
    @tp.hamiltonian
    def late(q: tp.Vec["n"], p: tp.Vec["n"]):
        return p @ p / 2 + potential(q)

    def potential(q):
        return (q**4).sum()

    assert late.bind({"n": 2}).energy is not None


@pytest.mark.requirement("S2-49")
def test_forces_make_a_system_without_an_energy():
    @tp.forces
    def spring(q: tp.Vec[2], t, k=3.0, mass=2.0):
        return [-k * q[0], -k * q[1] + t]

    assert spring.kind == "forces" and spring.level == 0 and spring.energy is None
    assert [(s.name, s.role, s.var.shape) for s in spring.states] == [
        ("q", "position", (2,)),
        ("p", "momentum", (2,)),
    ]
    (value,) = evaluate(list(spring.forces), {"q": [1.0, 2.0], "t": 0.5, "k": 3.0})
    assert value == [-3.0, -5.5]
    (constant,) = tp.forces(shaped(lambda x: -9.81, (3,))).forces
    assert constant.shape == (3,)


def test_maps_take_states_first_and_return_as_many():
    @tp.map
    def standard(theta, p, t, K=1.0):
        new = p + K * tp.sin(theta) * (t + 1)
        return theta + new, new

    assert standard.kind == "map" and [s.role for s in standard.states] == ["field", "field"]
    assert [x.name for x in standard.parameters] == ["K"] and standard.time is UOp.var("t")
    assert evaluate(list(standard.update), {"theta": 0.5, "p": 0.1, "t": 0, "K": 2.0})[
        1
    ] == 0.1 + 2 * math.sin(0.5)
    single = tp.map(shaped(lambda x, a=0.5: a * x, (3,)))
    assert [s.name for s in single.states] == ["x"] and single.update[0].shape == (3,)


@pytest.mark.requirement("S2-28", "S0-21")
def test_a_class_is_a_system_and_its_attributes_are_parameters():
    class Galaxy(tp.PhysicsSystem):
        softening = 0.1

        def __init__(self):
            self.G = 2.0
            self.mass = np.array([1.0, 2.0, 3.0])
            self.n = 3
            self.name = "milky way"
            self.labels = ["a", "b", "c"]
            self._hidden = 5.0

        def pair(self, q, i, j):
            d = q[i] - q[j]
            return self.G * self.mass[i] * self.mass[j] / tp.sqrt(d @ d + self.softening**2)

        def energy(self, q: tp.Array[3, 2], p: tp.Array[3, 2], t=None, drag=0.0):
            kinetic = ((p * p).sum(axis=1) / self.mass).sum() / 2
            return (
                kinetic
                - sum(self.pair(q, i, j) for i in range(self.n) for j in range(i))
                + drag * self._hidden
            )

    system = Galaxy().bind()
    assert system.name == "galaxy" and system.kind == "hamiltonian"
    assert {x.name: x.default for x in system.parameters} == {
        "drag": 0.0,
        "G": 2.0,
        "mass": [1.0, 2.0, 3.0],
        "softening": 0.1,
    }
    env = {
        "q": [0.0, 0.0, 1.0, 0.0, 0.0, 2.0],
        "p": [1.0] * 6,
        "G": 2.0,
        "mass": [1.0, 2.0, 3.0],
        "softening": 0.1,
        "drag": 1.0,
        "t": 0.0,
    }
    want = (
        (2 / 1 + 2 / 2 + 2 / 3) / 2
        - 2 * (2 / math.sqrt(1.01) + 3 / math.sqrt(4.01) + 6 / math.sqrt(5.01))
        + 5.0
    )
    assert evaluate([system.energy], env)[0] == pytest.approx(want, rel=1e-14)


@pytest.mark.requirement("S2-28")
def test_a_class_inherits_parameters_computes_properties_and_calls_super():
    class Spring(tp.PhysicsSystem):
        k = 4.0

        def __init__(self):
            self.m = 2.0

        @property
        def omega(self):
            return tp.sqrt(self.k / self.m)

        @staticmethod
        def square(x):
            return x * x

        def energy(self, q, p):
            return self.square(p) / (2 * self.m) + self.m * self.omega**2 * self.square(q) / 2

    class Stiffer(Spring):
        extra = 1.0

        def energy(self, q, p):
            return super().energy(q, p) + self.extra * q**4

    system = Stiffer().bind()
    assert {x.name: x.default for x in system.parameters} == {"k": 4.0, "m": 2.0, "extra": 1.0}
    env = {"q": 0.5, "p": 1.0, "k": 8.0, "m": 2.0, "extra": 3.0}
    assert evaluate([system.energy], env)[0] == pytest.approx(1 / 4 + 8 * 0.25 / 2 + 3 / 16, rel=1e-14)


def test_a_model_is_left_as_it_was():
    class Spring(tp.PhysicsSystem):
        def __init__(self):
            self.k = 4.0

        def energy(self, q, p):
            return p**2 / 2 + self.k * q**2

    model = Spring()
    model.bind()
    assert vars(model) == {"k": 4.0} and type(model) is Spring
    model.k = 5.0
    assert model.bind().parameters[0].default == 5.0


@pytest.mark.requirement("S2-28")
def test_the_call_of_the_source_document_works():
    class Galaxy(tp.PhysicsSystem):
        def energy(self, q: tp.Array[3, 2], p: tp.Array[3, 2]):
            return 0.5 * tp.sum(p**2) - sum(1 / tp.norm(q[i] - q[j]) for i in range(3) for j in range(i))

    sim = Galaxy().compile(dt=0.01, backend="python", method="symplectic")
    out = sim.evolve(q=[[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], p=np.zeros((3, 2)), steps=2)
    assert out.q.shape == (3, 3, 2)
    for wrong in ({"backend": "abacus"}, {"precision": "float128"}, {"method": "magic"}):
        with pytest.raises(TinyPhysicsError) as caught:
            Galaxy().compile(dt=0.01, **wrong)
        assert caught.value.fix


@pytest.mark.requirement("S0-10")
def test_the_program_does_not_depend_on_the_backend():
    system = tp.hamiltonian(lambda q, p, k=2.0: p**2 / 2 + k * tp.cos(q))
    programs = {name: tp.compile(system, dt=0.1, backend=name).tpir for name in ("python", "numpy", "llvm")}
    assert len({str(p) for p in programs.values()}) == 1 and len({p.hash for p in programs.values()}) == 1


def test_observables_are_matched_by_name():
    known = {"q": UOp.var("q", (2,)), "p": UOp.var("p", (2,)), "t": UOp.var("t")}
    assert observable(lambda p, q: q[0] * p[1] - q[1] * p[0], known, "L").shape == ()
    assert observable(lambda q: [q[0], q[1] * 2], known, "pair").shape == (2,)
    assert observable(lambda q: q, known, "all").shape == (2,)
    assert observable(lambda t: 3.0, known, "three").op is Ops.CONST
    assert (
        str(observable(lambda q, i=1: q[i], known, "second")) == "q[1]"
    )  # the usual way to name one in a loop
    for wrong in (lambda velocity: velocity, 3):
        with pytest.raises(InputError) as caught:
            observable(wrong, known, "L")
        assert caught.value.fix
    with pytest.raises(TraceError, match=r"test_trace\.py"):
        observable(lambda q: math.sin(q[0]), known, "bad")


# --- without NumPy ---------------------------------------------------------------------------------
BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numpy", "rich", "llvmlite", "scipy"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocker())
STUB
import tinyphysics.front.functions as fn
import tinyphysics.front.trace as trace
from tinyphysics.analysis.analyse import facts_of
from tinyphysics.front.spaces import Vec
from tinyphysics.synth.methods.splitting import split_step
from tinyphysics.synth.coefficients.clocks import palindrome
from tinyphysics.tpir import lower, parse, verify, vm

@trace.hamiltonian
def kepler(q: Vec[2], p: Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / fn.norm(q)

@trace.map_
def standard(theta, p, K=1.0):
    new = p + K * fn.sin(theta)
    return theta + new, new

fact = facts_of(kepler)["separable"]
step = split_step("leapfrog", kepler, fact.T, fact.V, palindrome("V", "T", [1.0]), ("symplectic",))
program = lower(step, kepler.sites)
assert parse(str(program)) == program
print(verify(program))
out = vm.run(program, {"q": [1.0, 0.0], "p": [0.0, 1.2]}, 1000, {"mu": 1.0}, dt=0.02)
q, p = out["q"], out["p"]
energy = (p[0] ** 2 + p[1] ** 2) / 2 - 1 / (q[0] ** 2 + q[1] ** 2) ** 0.5
assert abs(energy + 0.28) < 1e-3, energy
assert fn.total([1, 2, 3]) == 6.0 and fn.stack([1.0, 2.0]) == [1.0, 2.0]
assert not any(name.split(".")[0] == "numpy" for name in sys.modules)
print("done")
"""
STUB = f"""
import types
package = types.ModuleType("tinyphysics")  # without its __init__
package.__path__ = [{str(SRC / "tinyphysics")!r}]
sys.modules["tinyphysics"] = package
"""


def run_blocked(stub):
    code = BLOCKED.replace("STUB", stub)
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)


@pytest.mark.requirement("S0-03")
def test_tracing_proving_and_running_need_the_standard_library_alone():
    out = run_blocked(STUB)
    assert out.returncode == 0 and "symplectic" in out.stdout and out.stdout.endswith("done\n"), out.stderr


@pytest.mark.requirement("S0-03")
def test_the_package_itself_imports_without_numpy():
    out = run_blocked("")
    assert out.returncode == 0, out.stderr
