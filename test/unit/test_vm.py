"""Does the virtual machine do what the instructions say?  Against Python written by hand, bit for bit."""

import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import mpmath
import pytest

import tinyphysics as tp
from tinyphysics.errors import InputError, ShapeError, TinyPhysicsError, VerifyError
from tinyphysics.ir import evaluate
from tinyphysics.ir.ops import ELEMENTWISE, Ops
from tinyphysics.rules.calculus.partials import PARTIALS
from tinyphysics.tpir import parse, verify, vm
from tinyphysics.tpir.kernels.kernel import build_kernel
from tinyphysics.tpir.program.values import FUNCTIONS

SRC = Path(tp.__file__).parents[1]


def fma(a, b, c):
    """a*b + c with one rounding, through rational numbers."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return exact.numerator / exact.denominator if exact else a * b + c


# --- systems by hand --------------------------------------------------------------------------------
@tp.hamiltonian
def oscillator(q, p):
    return p**2 / 2 + q**2 / 2


@pytest.mark.requirement("S3-02", "S3-14")
def test_symplectic_euler_on_the_oscillator_is_two_fma_a_step():
    program = tp.compile(oscillator, dt=0.01, method="symplectic_euler").tpir
    q, p, dt = 1.0, 0.25, 0.01
    for _ in range(200):
        q = fma(p, dt, q)
        p = fma(-q, dt, p)
    assert vm.run(program, {"q": 1.0, "p": 0.25}, 200, dt=0.01) == {"q": q, "p": p}


@pytest.mark.requirement("S3-02")
def test_leapfrog_on_the_oscillator_merges_its_kicks_and_takes_half_of_the_last_one_back():
    program = tp.compile(oscillator, dt=0.01, method="leapfrog").tpir
    q, p, dt = 1.0, 0.25, 0.01
    p = fma(-q, 0.5 * dt, p)
    for _ in range(200):
        q = fma(p, dt, q)
        p = fma(-q, dt, p)
    p = fma(-q, -0.5 * dt, p)
    assert vm.run(program, {"q": 1.0, "p": 0.25}, 200, dt=0.01) == {"q": q, "p": p}


KEPLER = """
program kepler
state S0 q f64[2] position
state S1 p f64[2] momentum of S0
param $dt
param $mu
init:
  LOAD S0:f64[2], &q
  LOAD S1:f64[2], &p
step:
  GRAD_INIT G1:f64[2], S1
  POISSON_J F0:f64[2], G1, pass
  SYMP_STEP S0:f64[2], F0, $dt
  ELEM T0:f64[2], sq, S0
  SUM T1, T0, (0,)
  ELEM T2, sqrt, T1
  ELEM T3, mul, T1, T2
  ELEM T4, div, $mu, T3
  MOVE T5:f64[2], expand, T4
  ELEM T6:f64[2], mul, S0, T5
  GRAD_INIT G0:f64[2], T6
  POISSON_J F1:f64[2], G0, negate
  SYMP_STEP S1:f64[2], F1, $dt
final:
  STORE &q, S0
  STORE &p, S1
"""


@pytest.mark.requirement("S3-02", "S3-06", "S3-07", "S3-10")
def test_kepler_with_arrays_sums_roots_and_divisions():
    q, p, dt, mu = [1.0, 0.1], [0.05, 1.2], 0.02, 1.1
    for _ in range(150):
        q = [fma(x, dt, y) for x, y in zip(p, q)]
        r2 = q[0] * q[0] + q[1] * q[1]
        factor = mu / (r2 * math.sqrt(r2))
        p = [fma(-(x * factor), dt, y) for x, y in zip(q, p)]
    out = vm.run(parse(KEPLER), {"q": [1.0, 0.1], "p": [0.05, 1.2]}, 150, {"mu": mu}, dt=dt)
    assert out == {"q": q, "p": p}
    assert verify(parse(KEPLER)).symplectic


HENON_HEILES = """
program henon_heiles
state S0 x position
state S1 px momentum of S0
state S2 y position
state S3 py momentum of S2
param $dt
init:
  LOAD S0, &x
  LOAD S1, &px
  LOAD S2, &y
  LOAD S3, &py
step:
  GRAD_INIT G1, S1
  POISSON_J F0, G1, pass
  GRAD_INIT G3, S3
  POISSON_J F2, G3, pass
  SYMP_STEP S0, F0, $dt
  SYMP_STEP S2, F2, $dt
  ELEM T0, mul, S0, S2
  FMA G0, T0, 2.0, S0
  ELEM T1, neg, S2
  FMA T2, T1, S2, S2
  FMA G2, S0, S0, T2
  POISSON_J F1, G0, negate
  POISSON_J F3, G2, negate
  SYMP_STEP S1, F1, $dt
  SYMP_STEP S3, F3, $dt
final:
  STORE &x, S0
  STORE &px, S1
  STORE &y, S2
  STORE &py, S3
"""


@pytest.mark.requirement("S3-02", "S3-08")
def test_henon_heiles_with_explicit_fma():
    x, px, y, py, dt = 0.1, 0.35, -0.2, 0.3, 0.05
    for _ in range(300):
        x, y = fma(px, dt, x), fma(py, dt, y)
        gx = fma(x * y, 2.0, x)
        gy = fma(x, x, fma(-y, y, y))
        px, py = fma(-gx, dt, px), fma(-gy, dt, py)
    start = {"x": 0.1, "px": 0.35, "y": -0.2, "py": 0.3}
    assert vm.run(parse(HENON_HEILES), start, 300, dt=dt) == {"x": x, "px": px, "y": y, "py": py}
    assert verify(parse(HENON_HEILES)).symplectic


@pytest.mark.requirement("S3-08")
def test_fma_rounds_once():
    program = parse(
        "program f\nstate S0 x field\ninit:\nLOAD S0, &x\nstep:\nFMA T0, S0, S0, -1.0\nMAP S0, T0\nfinal:\nSTORE &x, S0"
    )
    x = 1.0 + 2.0**-30
    assert vm.run(program, {"x": x}, 1)["x"] == 2.0**-29 + 2.0**-60 != x * x - 1.0


def test_compiled_henon_heiles_agrees_with_numbers_by_hand():
    @tp.hamiltonian
    def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
        return (p @ p + q @ q) / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3

    program = tp.compile(henon_heiles, dt=0.05, method="symplectic_euler").tpir
    by_hand = vm.run(parse(HENON_HEILES), {"x": 0.1, "px": 0.35, "y": -0.2, "py": 0.3}, 100, dt=0.05)
    out = vm.run(program, {"q": [0.1, -0.2], "p": [0.35, 0.3]}, 100, dt=0.05)
    assert out["q"] == pytest.approx([by_hand["x"], by_hand["y"]], rel=1e-13)
    assert out["p"] == pytest.approx([by_hand["px"], by_hand["py"]], rel=1e-13)


# --- instructions one by one --------------------------------------------------------------------------
def field_program(step, states="x y", types=""):
    """A program that maps fields; `step` ends in MAP."""
    names = states.split()
    return parse(
        "\n".join(
            [
                "program fields",
                *(f"state S{k} {n}{' ' + types if types else ''} field" for k, n in enumerate(names)),
                "param $dt",
                "init:",
                *(f"LOAD S{k}{':' + types if types else ''}, &{n}" for k, n in enumerate(names)),
                "step:",
                step,
                "final:",
                *(f"STORE &{n}, S{k}" for k, n in enumerate(names)),
            ]
        )
    )


@pytest.mark.requirement("S3-09")
def test_sq_is_sugar_for_a_product():
    once = field_program("ELEM T0, sq, S0\nMAP S0, T0")
    twice = field_program("ELEM T0, mul, S0, S0\nMAP S0, T0")
    start = {"x": 1.1, "y": 0.0}
    assert vm.run(once, start, 3, dt=1.0) == vm.run(twice, start, 3, dt=1.0)
    assert vm.run(once, start, 1, dt=1.0)["x"] == 1.1 * 1.1


@pytest.mark.parametrize(
    "test, chosen", [("lt, 0.001, 7.25", 2.0), ("eq, 1.0, 0.1", 3.0), ("ne, 5.0, 7.0", 2.0)]
)
def test_two_constants_are_compared_as_numbers(test, chosen):
    program = field_program(f"ELEM T0:bool[], {test}\nELEM T1, where, T0, 2.0, 3.0\nMAP S0, T1")
    assert vm.run(program, {"x": 0.0, "y": 0.0}, 1, dt=1.0)["x"] == chosen
    (root,) = [u for u in build_kernel(program).section("step").roots if u.op is not Ops.VAR]
    assert evaluate([root], {}) == [chosen]


def test_map_is_simultaneous_only_if_written_so():
    """Semantics are eager: a register holds what was computed when its instruction ran."""
    swapped = field_program("ELEM T0, mul, S1, 1.0\nELEM T1, mul, S0, 1.0\nMAP S0, T0\nMAP S1, T1")
    in_turn = field_program("MAP S0, S1\nMAP S1, S0")
    assert vm.run(swapped, {"x": 1.0, "y": 2.0}, 1, dt=1.0) == {"x": 2.0, "y": 1.0}
    assert vm.run(in_turn, {"x": 1.0, "y": 2.0}, 1, dt=1.0) == {"x": 2.0, "y": 2.0}


def test_an_explicit_map_of_the_compiler_is_simultaneous():
    @tp.map
    def swap(x, y):
        return y, x

    assert vm.run(tp.compile(swap).tpir, {"x": 1.0, "y": 2.0}, 1) == {"x": 2.0, "y": 1.0}


def test_time_is_t0_plus_n_dt_from_the_integer_n():
    program = field_program("TIME T0, 0.5\nMAP S0, T0\nTIME T1, 1.0\nMAP S1, T1")
    dt, t0 = 0.1, 0.3
    for n in (1, 2, 10, 1000):
        out = vm.run(program, {"x": 0.0, "y": 0.0}, n, dt=dt, t0=t0)
        assert out == {"x": fma(n - 1 + 0.5, dt, t0), "y": fma(float(n), dt, t0)}


def test_time_in_init_is_the_start_and_in_final_the_end():
    text = (
        "program p\nstate S0 x field\nstate S1 y field\nparam $dt\ninit:\nLOAD S0, &x\nLOAD S1, &y\nTIME T0, 0.0\nMAP S0, T0\n"
        "step:\nfinal:\nTIME T1, 0.0\nMAP S1, T1\nSTORE &x, S0\nSTORE &y, S1"
    )
    assert vm.run(parse(text), {"x": 9.0, "y": 9.0}, 3, dt=0.5, t0=1.0) == {"x": 1.0, "y": 2.5}


ARRAYS = [  # one instruction on x = [[1, 2, 3], [4, 5, 6]], y = 10*x
    ("ELEM T0:f64[2, 3], add, S0, S1", [[11, 22, 33], [44, 55, 66]]),
    ("ELEM T0:f64[2, 3], mul, S0, 2.0", [[2, 4, 6], [8, 10, 12]]),
    ("MOVE T0:f64[2, 3], flip, S0, (1,)", [[3, 2, 1], [6, 5, 4]]),
    ("MOVE T0:f64[2, 3], roll, S0, ((1,1),)", [[3, 1, 2], [6, 4, 5]]),
    ("MOVE T1:f64[3, 2], permute, S0, (1,0)\nMOVE T0:f64[2, 3], reshape, T1", [[1, 4, 2], [5, 3, 6]]),
    (
        "MOVE T1:f64[1, 2], slice, S0, ((1,2,1),(0,3,2))\nMOVE T0:f64[2, 3], pad, T1, ((1,0,0),(0,1,0))",
        [[0, 0, 0], [4, 6, 0]],
    ),
    ("SUM T1:f64[3], S0, (0,)\nMOVE T0:f64[2, 3], expand, T1", [[5, 7, 9], [5, 7, 9]]),
    ("SUM T1, S0, (0,1)\nMOVE T0:f64[2, 3], expand, T1", [[21] * 3] * 2),
    (
        "MAX T1:f64[2], S0, (1,)\nMOVE T2:f64[2, 1], reshape, T1\nMOVE T0:f64[2, 3], expand, T2",
        [[3] * 3, [6] * 3],
    ),
    ("MIN T1, S0, (0,1)\nMOVE T0:f64[2, 3], expand, T1", [[1] * 3] * 2),
    (
        "MOVE T1, element, S0, (4,)\nMOVE T0:f64[2, 3], stack, T1, 0.0, T1, 1.0, T1, T1",
        [[5, 0, 5], [1, 5, 5]],
    ),
    (
        "MOVE T1:f64[1, 3], slice, S1, ((0,1,1),(0,3,1))\nMOVE T2:f64[1, 3], slice, S0, ((0,1,1),(0,3,1))\n"
        "MOVE T0:f64[2, 3], concat, T1, T2, (0,)",
        [[10, 20, 30], [1, 2, 3]],
    ),
    (
        "MOVE T1:f64[1, 3], expand, 7.0\nMOVE T2:f64[1, 3], slice, S0, ((0,1,1),(0,3,1))\n"
        "MOVE T0:f64[2, 3], concat, T1, T2, (0,)",
        [[7, 7, 7], [1, 2, 3]],
    ),
    ("ELEM T1:bool[2, 3], lt, S0, 3.5\nELEM T0:f64[2, 3], where, T1, S0, -1.0", [[1, 2, 3], [-1, -1, -1]]),
]


@pytest.mark.requirement("S3-10")
@pytest.mark.parametrize(
    "step, result", ARRAYS, ids=[s.split(",")[1].strip() + str(k) for k, (s, _) in enumerate(ARRAYS)]
)
def test_arrays_are_nested_lists_in_and_out(step, result):
    program = field_program(step + "\nMAP S0:f64[2, 3], T0", types="f64[2, 3]")
    verify(program)
    x = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    out = vm.run(program, {"x": x, "y": [[10 * v for v in row] for row in x]}, 1, dt=1.0)
    assert out["x"] == result


@pytest.mark.requirement("S3-10")
def test_a_long_sum_has_one_order_chosen_from_its_length():
    """Up to 32 from left to right; more in 32 strided lanes, folded in halves."""
    values = [10.0 ** (k % 19 - 9) * (-1) ** k for k in range(77)]
    program = field_program(
        "SUM T0, S0, (0,)\nMOVE T1:f64[77], expand, T0\nMAP S0:f64[77], T1", states="x", types="f64[77]"
    )
    lanes = values[:32]
    for k in range(32, 77):
        lanes[k % 32] += values[k]
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [lanes[k] + lanes[k + half] for k in range(half)]
    assert vm.run(program, {"x": values}, 1, dt=1.0)["x"][0] == lanes[0] != sum(values)


# --- gradients ---------------------------------------------------------------------------------------
POINTS = {  # where each function is smooth, and what it is
    "neg": ((0.7,), lambda x: -x),
    "abs": ((-0.7,), mpmath.fabs),
    "sign": ((-0.7,), mpmath.sign),
    "floor": ((1.3,), mpmath.floor),
    "rint": ((1.3,), mpmath.nint),
    "image": ((0.7, 1.9, 0.4), lambda x, y, s: x - y - s),
    "sqrt": ((0.7,), mpmath.sqrt),
    "rsqrt": ((0.7,), lambda x: 1 / mpmath.sqrt(x)),
    "cbrt": ((0.7,), mpmath.cbrt),
    "sin": ((0.7,), mpmath.sin),
    "cos": ((0.7,), mpmath.cos),
    "tan": ((0.7,), mpmath.tan),
    "asin": ((0.7,), mpmath.asin),
    "acos": ((0.7,), mpmath.acos),
    "atan": ((0.7,), mpmath.atan),
    "sinh": ((0.7,), mpmath.sinh),
    "cosh": ((0.7,), mpmath.cosh),
    "tanh": ((0.7,), mpmath.tanh),
    "exp": ((0.7,), mpmath.exp),
    "expm1": ((0.7,), mpmath.expm1),
    "log": ((0.7,), mpmath.log),
    "log1p": ((0.7,), mpmath.log1p),
    "erf": ((0.7,), mpmath.erf),
    "add": ((0.7, 1.9), lambda x, y: x + y),
    "sub": ((0.7, 1.9), lambda x, y: x - y),
    "mul": ((0.7, 1.9), lambda x, y: x * y),
    "div": ((0.7, 1.9), lambda x, y: x / y),
    "pow": ((0.7, 1.9), mpmath.power),
    "atan2": ((0.7, 1.9), mpmath.atan2),
    "hypot": ((0.7, 1.9), mpmath.hypot),
    "turn": ((0.7, 1.9), lambda x, y: x),
    "turn_low": ((0.7, 1.9), lambda x, y: y),
    "min": ((0.7, 1.9), min),
    "max": ((0.7, 1.9), max),
    "fma": ((0.7, 1.9, 0.4), lambda x, y, z: x * y + z),
    "sq": ((0.7,), lambda x: x * x),
}
OF_OSCILLATORS = {"arc_kick", "arc_drift", "arc_lag", "arc_sign"}  # test_oscillator_slopes.py has those
NOT_NUMBERS = {"cast", "where"}  # a conversion, and a choice by a condition that is not a number


def test_the_table_covers_every_element_wise_function_with_a_derivative():
    functions = {op.value for op in PARTIALS if op in ELEMENTWISE}
    assert functions - NOT_NUMBERS - OF_OSCILLATORS == set(POINTS) - {"sq"}


def slope(name, at, k):
    """d name/d source k by ACC_GRAD on the VM, with upstream 1."""
    step = f"GRAD_INIT G0, 0.0\nACC_GRAD G0, 1.0, {name}, {k}, {', '.join(f'S{j}' for j in range(len(at)))}\nMAP S0, G0"
    names = "xyz"[: len(at)]
    return vm.run(field_program(step, " ".join(names)), dict(zip(names, at)), 1, dt=1.0)["x"]


@pytest.mark.requirement("S3-11", "S3-12")
@pytest.mark.parametrize("name", POINTS)
def test_acc_grad_is_the_derivative_of_every_function(name):
    at, f = POINTS[name]
    for k in range(len(at)):
        with mpmath.workdps(40):
            h = mpmath.mpf(10) ** -15
            ends = [f(*(mpmath.mpf(x) + s * h * (j == k) for j, x in enumerate(at))) for s in (1, -1)]
            expected = float((ends[0] - ends[1]) / (2 * h))
        assert slope(name, at, k) == pytest.approx(expected, rel=1e-14, abs=1e-15)


@pytest.mark.requirement("S3-12")
def test_a_choice_passes_the_derivative_to_the_branch_that_was_taken():
    step = (
        "ELEM T0:bool[], lt, S0, S1\nGRAD_INIT G0, 0.0\nACC_GRAD G0, 3.0, where, {k}, T0, S0, S1\nMAP S0, G0"
    )
    for x, y, expected in ((1.0, 2.0, {1: 3.0, 2: 0.0}), (2.0, 1.0, {1: 0.0, 2: 3.0})):
        for k, value in expected.items():
            assert vm.run(field_program(step.format(k=k)), {"x": x, "y": y}, 1, dt=1.0)["x"] == value


REVERSE = """
GRAD_INIT G0, 0.0
GRAD_INIT G1, 0.0
ELEM T0, mul, S0, S1
ELEM T1, sin, T0
ELEM T2, exp, S0
ELEM T3, div, T2, S1
ELEM T4, add, T1, T3
ELEM T5, sq, T4
GRAD_INIT G0.5, 1.0
GRAD_INIT G0.4, 0.0
ACC_GRAD G0.4, G0.5, sq, 0, T4
GRAD_INIT G0.3, 0.0
ACC_GRAD G0.3, G0.4, add, 1, T1, T3
GRAD_INIT G0.1, 0.0
ACC_GRAD G0.1, G0.4, add, 0, T1, T3
GRAD_INIT G0.2, 0.0
ACC_GRAD G0.2, G0.3, div, 0, T2, S1
ACC_GRAD G1, G0.3, div, 1, T2, S1
ACC_GRAD G0, G0.2, exp, 0, S0
GRAD_INIT G0.6, 0.0
ACC_GRAD G0.6, G0.1, sin, 0, T0
ACC_GRAD G0, G0.6, mul, 0, S0, S1
ACC_GRAD G1, G0.6, mul, 1, S0, S1
MAP S0, G0
MAP S1, G1
"""


@pytest.mark.requirement("S3-11", "S3-12")
def test_a_reverse_pass_of_acc_grad_alone_is_the_gradient():
    """(sin(x*y) + exp(x)/y)**2: seed 1, all others 0, contributions added."""
    out = vm.run(field_program(REVERSE), {"x": 0.4, "y": 1.3}, 1, dt=1.0)
    with mpmath.workdps(30):

        def f(x, y):
            return (mpmath.sin(x * y) + mpmath.exp(x) / y) ** 2

        expected = [float(mpmath.diff(f, (0.4, 1.3), order)) for order in ((1, 0), (0, 1))]
    assert [out["x"], out["y"]] == pytest.approx(expected, rel=1e-14)


@pytest.mark.requirement("S3-12")
def test_a_gradient_accumulated_in_a_program_is_understood_by_the_verifier():
    text = """
program reverse
claim symplectic consistent
state S0 q position
state S1 p momentum of S0
param $dt
energy:
  ELEM T0, sq, S1
  ELEM E0, mul, T0, 0.5
  ELEM T1, cos, S0
  ELEM E1, neg, T1
init:
  LOAD S0, &q
  LOAD S1, &p
step:
  GRAD_INIT G1, 0.0
  ACC_GRAD G1, 0.5, sq, 0, S1
  POISSON_J F0, G1, pass
  SYMP_STEP S0, F0, $dt
  GRAD_INIT G0, 0.0
  ACC_GRAD G0, -1.0, cos, 0, S0
  POISSON_J F1, G0, negate
  SYMP_STEP S1, F1, $dt
final:
  STORE &q, S0
  STORE &p, S1
"""
    assert verify(parse(text)).symplectic
    with pytest.raises(VerifyError, match="total weight -1"):
        verify(parse(text.replace("ACC_GRAD G0, -1.0", "ACC_GRAD G0, 1.0")))


def test_acc_grad_of_a_users_operation():
    tp.op("vm_cube", lambda x: x * x * x, lambda x: (3.0 * x * x,))
    assert slope("custom.vm_cube", (0.7,), 0) == pytest.approx(3 * 0.49, rel=1e-15)


# --- runs ----------------------------------------------------------------------------------------------
def test_no_step_returns_the_input_itself():
    program = tp.compile(oscillator, dt=0.1).tpir
    assert vm.run(program, {"q": 0.1, "p": 0.3}, 0, dt=0.1) == {"q": 0.1, "p": 0.3}


def test_looking_at_a_loop_does_not_move_it():
    machine = vm.Machine(tp.compile(oscillator, dt=0.1, method="yoshida4").tpir)
    watched, alone = (machine.start({"q": 1.0, "p": 0.0}, {}, 0.1) for _ in range(2))
    for _ in range(10):
        machine.advance(watched, 1)
        machine.final(watched)
        machine.energies(watched)
    machine.advance(alone, 10)
    assert machine.final(watched) == machine.final(alone) and watched.slots == alone.slots


def test_energies_are_the_terms_that_the_program_declares():
    machine = vm.Machine(tp.compile(oscillator, dt=0.1, method="symplectic_euler").tpir)
    assert machine.energies(machine.start({"q": 3.0, "p": 2.0}, {}, 0.1)) == [2.0, 4.5]


@pytest.mark.parametrize(
    "call, kind, what",
    [
        (lambda p: vm.run(p, {"q": 1.0}, 1, dt=0.1), InputError, "`p` is missing"),
        (
            lambda p: vm.run(parse(HENON_HEILES), {"x": 1.0, "px": 0.0, "y": 0.0, "py": 0.0}, 1),
            InputError,
            "parameter `dt`",
        ),
        (lambda p: vm.run(p, {"q": [1.0], "p": 0.0}, 1, dt=0.1), ShapeError, "`q` is a scalar"),
        (lambda p: vm.run(p, {"q": 1.0, "p": 0.0}, -1, dt=0.1), InputError, "steps=-1"),
        (
            lambda p: vm.run(parse(KEPLER), {"q": [1.0, 2.0, 3.0], "p": [0.0, 1.0]}, 1, {"mu": 1.0}, dt=0.1),
            ShapeError,
            "`q` has 3 numbers",
        ),
        (
            lambda p: vm.run(parse(KEPLER), {"q": [1.0, 2.0], "p": [0.0, 1.0]}, 1, dt=0.1),
            InputError,
            "`mu` is missing",
        ),
    ],
)
def test_what_a_run_lacks_is_named(call, kind, what):
    with pytest.raises(TinyPhysicsError, match=what) as caught:
        call(tp.compile(oscillator, dt=0.1).tpir)
    assert isinstance(caught.value, kind)


WITHOUT_NUMPY = """
import sys, types
sys.modules["numpy"] = None
{stub}
from tinyphysics.front.trace import hamiltonian
from tinyphysics.front.functions import sin
from tinyphysics.tpir import parse, verify, vm
from tinyphysics.tpir.kernels.kernel import build_kernel
@hamiltonian
def pendulum(q, p):
    return p**2/2 + sin(q)**2
assert str(pendulum.energy) == "p**2/2 + sin(q)**2"
program = parse('''{text}''')
assert verify(program).symplectic
print(vm.run(program, {{"x": 0.1, "px": 0.35, "y": -0.2, "py": 0.3}}, 3, dt=0.05))
"""


def without_numpy(stub):
    code = WITHOUT_NUMPY.format(stub=stub, text=HENON_HEILES)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(SRC)}
    )


def test_tracing_tpir_and_the_vm_need_no_numpy():
    stub = f"package = types.ModuleType('tinyphysics'); package.__path__ = [{str(SRC / 'tinyphysics')!r}]; sys.modules['tinyphysics'] = package"
    done = without_numpy(stub)
    expected = vm.run(parse(HENON_HEILES), {"x": 0.1, "px": 0.35, "y": -0.2, "py": 0.3}, 3, dt=0.05)
    assert done.stdout.strip() == str(expected), done.stderr


def test_the_package_itself_can_be_imported_without_numpy():
    done = without_numpy("")
    assert done.returncode == 0, done.stderr


def test_functions_have_ieee_answers_and_raise_on_nothing():
    program = field_program("ELEM T0, log, S0\nELEM T1, div, 1.0, S1\nMAP S0, T0\nMAP S1, T1")
    assert vm.run(program, {"x": 0.0, "y": 0.0}, 1, dt=1.0) == {"x": -math.inf, "y": math.inf}
    assert math.isnan(vm.run(program, {"x": -1.0, "y": -0.0}, 1, dt=1.0)["x"])
    assert vm.run(program, {"x": 1.0, "y": -0.0}, 1, dt=1.0)["y"] == -math.inf


def test_unknown_instructions_do_not_run():
    assert Ops.SIN.value in FUNCTIONS
    with pytest.raises(VerifyError):
        vm.run(
            parse(
                "program p\nstate S0 x field\ninit:\nLOAD S0, &x\nstep:\nELEM T0, sinn, S0\nfinal:\nSTORE &x, S0"
            ),
            {"x": 1.0},
            1,
        )
