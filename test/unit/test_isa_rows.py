"""Is every row of the table of instructions right?  Each against numbers worked out by hand.

Machines that read one row agree about it whatever it says, so that comparing them shows nothing.
"""

import math
from collections import Counter

import pytest

from tinyphysics.errors import PlanError, TinyPhysicsError
from tinyphysics.ir.value import evaluate
from tinyphysics.philox import philox4x32, unit_interval
from tinyphysics.planner.cost.cost import operations
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.functions.transcendental import lower as lowered
from tinyphysics.tpir import parse, vm
from tinyphysics.tpir.kernels.kernel import Meaning
from tinyphysics.tpir.kernels.loops import updates
from tinyphysics.tpir.kernels.stages import with_tails
from tinyphysics.tpir.precision.linear import Reach, in_full
from tinyphysics.tpir.precision.precision import in_precision, out_of_range
from tinyphysics.tpir.program.form import check_place, check_solves
from tinyphysics.tpir.program.isa import ISA, Pointer, Register
from tinyphysics.tpir.program.liveness import reads_before_writing
from tinyphysics.tpir.program.symbolic import Symbolic
from tinyphysics.tpir.program.written import lines
from tinyphysics.tpir.verifier import reader_of


def program(step, shape="", init="", final="", energy="", params=()):
    """A position S0 and its momentum S1 of some shape, and a step; lines are separated by `;`."""

    def body(text):
        return "\n".join(f"  {line.strip()}" for line in text.split(";") if line.strip())

    return parse(f"""program row
state S0 q f64[{shape}] position
state S1 p f64[{shape}] momentum of S0
{chr(10).join(f"param {p}" for p in params)}
energy:
{body(energy)}
init:
  LOAD S0:f64[{shape}], &q
  LOAD S1:f64[{shape}], &p
{body(init)}
step:
{body(step)}
final:
{body(final)}
  STORE &q, S0
  STORE &p, S1
""")


def seen(step, q, p, watched, shape="", steps=1, dt=2.0, t0=10.0, params=(), given=None, **sections):
    """What a register holds after some steps on the virtual machine, flat."""
    sections["final"] = f"{sections.get('final', '')}; OBSERVE &seen, {watched}"
    machine = vm.Machine(program(step, shape, params=params, **sections))
    address = {"seed:low": 0, "seed:high": 0, "member:low": 0, "member:high": 0}
    loop = machine.start({"q": q, "p": p}, address | (given or {}), dt, t0)
    machine.advance(loop, steps)
    return machine.final(loop)["seen"]


# fmt: off
TRIPLE = dict(shape="3", q=[1.0, 2.0, 4.0], p=[8.0, 16.0, 32.0])
TABLE = dict(shape="3, 3", q=[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]], p=[[0.0] * 3] * 3)
BODIES = dict(shape="2, 3", q=[[0.0, 0.0, 0.0], [4.0, 0.0, 0.0]], p=[[2.0, 0.0, 0.0], [3.0, 0.0, 0.0]],
              params=["$m f64[2]"], given={"m": [1.0, 3.0]})
ALONG = dict(shape="1, 1, 3", q=[[[1.0, 2.0, 2.0]]], p=[[[1.0, 1.0, 1.0]]])
POINTS = dict(shape="3, 1", q=[[4.0], [1.0], [2.0]], p=[[0.0]] * 3)
PLAIN = dict(q=3.0, p=5.0)
FIRST = ((0x6627E8D5 >> 5) * 2**26 + (0xE169C58D >> 6)) * 2.0**-53  # the known answer of Philox4x32-10 for zeros

# instruction, lines of a step, where the states begin, what is watched, what it is then
VALUES = [
    ("LOAD",      "",                                                PLAIN,  "S0",  3.0),
    ("OBSERVE",   "",                                                PLAIN,  "S1",  5.0),
    ("ELEM",      "ELEM T0, sub, S0, S1",                            PLAIN,  "T0",  -2.0),
    ("ELEM",      "ELEM T0, sq, S1",                                 PLAIN,  "T0",  25.0),
    ("ELEM",      "ELEM T0:f64[3], mul, S0, 2.0",                    TRIPLE, "T0",  [2.0, 4.0, 8.0]),
    ("FMA",       "FMA T0, S0, S1, 1.0",                             PLAIN,  "T0",  16.0),
    ("SUM",       "SUM T0, S0, (0,)",                                TRIPLE, "T0",  7.0),
    ("SUM",       "SUM T0:f64[3], S0, (1,)",                         TABLE,  "T0",  [6.0, 15.0, 24.0]),
    ("DOT",       "DOT T0, S0, S1, (0,)",                            TRIPLE, "T0",  168.0),            # 8 + 32 + 128
    ("DOT",       "DOT T0:f64[3], S0, S0, (1,)",                     TABLE,  "T0",  [14.0, 77.0, 194.0]),
    ("MAX",       "MAX T0, S0, (0,)",                                TRIPLE, "T0",  4.0),
    ("MIN",       "MIN T0, S1, (0,)",                                TRIPLE, "T0",  8.0),
    ("PAIRS",     "PAIRS T0:f64[3], S0, (1,), (0,1)",                TABLE,  "T0",  [5.0, 6.0, 0.0]),  # 2+3, 6, none
    ("PAIRS",     "PAIRS T0:f64[3], S0, (0,), (0,1)",                TABLE,  "T0",  [0.0, 2.0, 9.0]),  # none, 2, 3+6
    ("NEAR",      "NEAR T0:i64[3], order, S0, 9.0, 1.0, (0,)",       POINTS, "T0",  [1, 2, 0]),        # 1, 2, 4
    ("NEAR",      "NEAR T0:i64[3], inverse, S0, 9.0, 1.0, (0,)",     POINTS, "T0",  [2, 0, 1]),
    # x + y = 1, x + 2y + z = 1, y + 2z = 1 leaves G = 1, 1, 1, then z = 1, y = -1, x = 2
    ("LINE",      "LINE T0:f64[1, 2, 3], S1, S0, S1, S1, (1,1)",     ALONG,  "T0",  [1.0, 1.0, 1.0, 2.0, -1.0, 1.0]),
    # what is not in the masks is not there: two places on their own, and one that knows the place behind it
    ("LINE",      "LINE T0:f64[1, 2, 3], S1, S0, S1, S1, (0,1)",     ALONG,  "T0",  [1.0, 0.5, 0.5, 0.75, 0.25, 0.5]),
    ("MOVE",      "MOVE T0:f64[2], slice, S0, ((1,3,1),)",           TRIPLE, "T0",  [2.0, 4.0]),
    ("MOVE",      "MOVE T0:f64[3], expand, 7.0",                     TRIPLE, "T0",  [7.0, 7.0, 7.0]),
    ("FOURIER",   "FOURIER T0:f64[3], S0, S1, (0,-1,0)",             TRIPLE, "T0",  [7.0, -2.0 - 8 * 3**0.5, -2.0 + 8 * 3**0.5]),
    ("FOURIER",   "FOURIER T0:f64[3], S0, S1, (1,1,0)",              TRIPLE, "T0",  [56.0, -16.0 - 3**0.5, -16.0 + 3**0.5]),
    # 2u - v = 1, -u + 2v - w = 2, -v + 2w = 4, and with 1 added to the diagonal: 3, 3, 3 and the same right side
    ("ELLIPTIC",  "ELLIPTIC T0:f64[3], S0, 0.0, 1.0, 0.0, (1,0,0,0)", TRIPLE, "T0", pytest.approx([2.75, 4.5, 4.25], 1e-15)),
    ("ELLIPTIC",  "ELLIPTIC T0:f64[3], S0, 1.0, 1.0, 0.0, (1,0,0,0)", TRIPLE, "T0", pytest.approx([6 / 7, 11 / 7, 13 / 7], 1e-15)),
    # splines of order 1: a node has the charges of the particles behind it, which see all of it
    ("MESH",      "SUM T1:f64[2], S1, (1,); MESH T0:f64[2, 1, 1], spread, S0, T1, (1,0,0,0,2,1,1)", BODIES, "T0", [5.0, 0.0]),
    ("MESH",      "SUM T1:f64[2], S1, (1,); MESH T2:f64[2, 1, 1], spread, S0, T1, (1,0,0,0,2,1,1); "
                  "MESH T0:f64[2], interpolate, S0, T2, (1,0,0,0,2,1,1)", BODIES, "T0", [5.0, 5.0]),
    ("TIME",      "TIME T0, 0.5",                                    PLAIN,  "T0",  11.0),             # 10 + 0.5*2
    ("TIME",      "TIME T0, 0.5, 0.0, high",                         PLAIN,  "T0",  11.0),
    ("TIME",      "TIME T0, 0.5, 0.0, low",                          PLAIN,  "T0",  0.0),
    ("NOISE",     "NOISE T0, uniform, 0.0, (0,1)",                   PLAIN,  "T0",  FIRST),
    ("GRAD_INIT", "GRAD_INIT G0, 2.5",                               PLAIN,  "G0",  2.5),
    ("ACC_GRAD",  "GRAD_INIT G0, 1.0; ACC_GRAD G0, 2.0, mul, 0.0, S0, S1", PLAIN, "G0", 11.0),         # 1 + 2*5
    ("POISSON_J", "GRAD_INIT G0, S0; POISSON_J F1, G0, negate",      PLAIN,  "F1",  -3.0),
    ("POISSON_J", "GRAD_INIT G1, S1; POISSON_J F0, G1, pass",        PLAIN,  "F0",  5.0),
    ("POISSON_J", "GRAD_INIT G0, S0; POISSON_J F1, G0, force",       PLAIN,  "F1",  3.0),
    ("LIE_CROSS", "GRAD_INIT G0:f64[3], S1; LIE_CROSS F0:f64[3], S0, G0", TRIPLE, "F0", [0.0, 0.0, 0.0]),
    ("LIE_CROSS", "ELEM T0:f64[3], mul, S0, S0; LIE_CROSS F0:f64[3], S0, T0", TRIPLE, "F0", [16.0, -12.0, 2.0]),
    ("SYMP_STEP", "GRAD_INIT G1, S1; POISSON_J F0, G1, pass; SYMP_STEP S0, F0, 0.5", PLAIN, "S0", 5.5),
    ("SYMP_STEP", "GRAD_INIT G1:f64[3], S1; POISSON_J F0:f64[3], G1, pass; SYMP_STEP S0:f64[3], F0, 0.5",
                                                                     TRIPLE, "S0",  [5.0, 10.0, 20.0]),
    # (1 + e)(1 - e) - 1 = -e*e, which two roundings make 0
    ("SYMP_STEP", f"GRAD_INIT G1, S1; POISSON_J F0, G1, pass; SYMP_STEP S0, F0, {1 - 2.0**-30!r}",
                                              dict(q=-1.0, p=1 + 2.0**-30), "S0", -(2.0**-60)),
    ("FMA",       f"FMA T0, S1, {1 - 2.0**-30!r}, S0", dict(q=-1.0, p=1 + 2.0**-30), "T0", -(2.0**-60)),
    ("SHIFT",     "ELEM T0, add, S0, S1; SHIFT S0, T0",              PLAIN,  "S0",  8.0),
    ("SCALE",     "SCALE S0, times, 4.0",                            PLAIN,  "S0",  12.0),
    ("SCALE",     "SCALE S0, over, 4.0",                             PLAIN,  "S0",  0.75),
    ("SCALE",     "SCALE S0:f64[3], over, S1",                       TRIPLE, "S0",  [0.125, 0.125, 0.125]),
    ("MAP",       "ELEM T0, mul, S0, S1; MAP S0, T0",                PLAIN,  "S0",  15.0),
    ("MAP",       "MAP S1, 4.0",                                     PLAIN,  "S1",  4.0),
    ("RELAX",     "ELEM T0, mul, S1, 0.5; RELAX S1, T0, 0.25",       PLAIN,  "S1",  2.5),
    ("BATH",      "ELEM T0, mul, S1, 0.5; BATH S1, T0, langevin, 1.0, 0.5, 1.0, 2.0", PLAIN, "S1", 2.5),
    ("THERMO",    "ELEM T0, mul, S1, 0.5; THERMO S1, T0, bussi, 1.0, 0.5, 2.0, 1.0, 3.0, (0,)", PLAIN, "S1", 2.5),
    ("DIFFUSE",   "ELEM T0, mul, S1, 0.5; DIFFUSE S1, T0, 0.5, 1.0, 2.0, T0", PLAIN, "S1", 2.5),
    ("MEMORY",    "ELEM T0, mul, S1, 0.5; MEMORY S1, T0, 1.0, 0.5, 1.0, ((1,1),), ((1,1),)", PLAIN, "S1", 2.5),
    ("GYRATE",    "ELEM T0, mul, S1, 0.5; GYRATE S1, T0, cayley, S0", PLAIN, "S1",  2.5),
    ("EXACT",     "ELEM T0, mul, S1, 0.5; EXACT S1, T0, 0.25, (0,)", PLAIN,  "S1",  2.5),
    ("CONSTRAIN", "ELEM T0, mul, S1, 0.5; CONSTRAIN S1, T0",         PLAIN,  "S1",  2.5),
    ("ORBIT",     "ELEM T0, mul, S0, S1; ORBIT S0, T0",              PLAIN,  "S0",  15.0),
    ("ROTATE",    "ELEM T0, mul, S0, S1; ROTATE S1, T0",             PLAIN,  "S1",  15.0),
    ("TURN",      "ELEM T0, mul, S0, S1; TURN S1, T0",               PLAIN,  "S1",  15.0),
    # masses 1 and 3: the centre of 0 and 4 is 3, and the outer body is 4 away
    ("JACOBI",    "JACOBI T0:f64[2, 3], positions, S0, $m, (0,1)",   BODIES, "T0",  [3.0, 0, 0, 4.0, 0, 0]),
    # (2 + 3)/4, and 3/3 - 2/1
    ("JACOBI",    "JACOBI T0:f64[2, 3], velocities, S1, $m, (0,1)",  BODIES, "T0",  [1.25, 0, 0, -1.0, 0, 0]),
    # centre 0, distance 4: the bodies are at -3 and 1
    ("JACOBI",    "JACOBI T0:f64[2, 3], places, S0, $m, (0,1)",      BODIES, "T0",  [-3.0, 0, 0, 1.0, 0, 0]),
    # 2 with a distance of velocities of 3: -0.25 and 2.75, times the masses
    ("JACOBI",    "JACOBI T0:f64[2, 3], momenta, S1, $m, (0,1)",     BODIES, "T0",  [-0.25, 0, 0, 8.25, 0, 0]),
    # gm/r**3 = 3/64: 3 + 4*3/64
    ("PULL",      "GRAD_INIT G0:f64[2, 3], S1; POISSON_J F1:f64[2, 3], G0, force; PULL F1.1:f64[2, 3], F1, S0, $m",
                                                                     BODIES, "F1.1", [2.0, 0, 0, 3.1875, 0, 0]),
    ("FLOW",      "FLOW T0:f64[2], $m, E0, $dt", BODIES | dict(params=["$m f64[2]", "$dt f64[]"], given={"m": [1.0, 3.0], "dt": 2.0}), "T0", [1.0, 3.0]),
    ("FLOW_ALONG", "FLOW_ALONG T0:f64[2], $m, E0, $dt, $k, (0,)", BODIES | dict(params=["$m f64[2]", "$dt f64[]", "$k f64[]"], given={"m": [1.0, 3.0], "dt": 2.0, "k": 1.0}), "T0", [1.0, 3.0]),
]
# fmt: on


@pytest.mark.parametrize(("op", "step", "given", "watched", "expected"), VALUES)
def test_an_instruction_computes_what_a_hand_does(op, step, given, watched, expected):
    found = seen(step, watched=watched, **given)
    assert [*found] == expected if isinstance(expected, list) else found == expected


def numbers(u, env):
    """What an expression is where its variables have these values, flat."""
    found = evaluate(lowered(inline(unroll([u])[0])), env)
    return found if u.shape else found[0]


def start(given):
    """The variables that stand for the start of a run, by the names that kernels and proofs have for them."""

    def flat(x):
        return [v for row in x for v in flat(row)] if isinstance(x, list) else [x]

    whole = {name: flat(x) if isinstance(x, list) else x for name, x in given.get("given", {}).items()}
    q, p = (flat(given[name]) if isinstance(given[name], list) else given[name] for name in "qp")
    run = {"n": 0.0, "$dt": 2.0, "$t0": 10.0, "clock@0.5": 11.0}
    zeros = dict.fromkeys(("$seed:low", "$seed:high", "$member:low", "$member:high"), 0.0)
    zeros |= dict.fromkeys(("@seed", "@seed.high", "@step", "@member"), 0)
    return run | zeros | {"&q": q, "&p": p, "S0@0": q, "S1@0": p} | {f"${k}": v for k, v in whole.items()}


@pytest.mark.parametrize(
    ("op", "step", "given", "watched", "expected"), [row for row in VALUES if row[0] not in ("NEAR", "MESH")]
)
def test_a_kernel_computes_what_a_hand_does(op, step, given, watched, expected):
    whole = program(
        step, given.get("shape", ""), params=given.get("params", ()), final=f"OBSERVE &seen, {watched}"
    )
    meaning = Meaning(whole)
    out = [meaning.run(whole.section(name)) for name in ("init", "step", "final")][-1]
    assert numbers(out[Pointer("seen")], start(given)) == expected


@pytest.mark.parametrize(
    ("op", "step", "given", "watched", "expected"),
    [
        row
        for row in VALUES
        if row[3][0] in "TGF" and row[0] not in ("NEAR", "JACOBI", "PULL", "ELLIPTIC", "MESH")
    ],
)
def test_a_proof_reads_what_a_hand_computes(op, step, given, watched, expected):
    whole = program(step, given.get("shape", ""), params=given.get("params", ()))
    symbolic = Symbolic(whole)
    for k in range(2):
        symbolic.load(k)
    for i in whole.step:
        symbolic.env[i.dst] = symbolic.value(i, "here")
    env = {str(r): u for r, u in symbolic.env.items()}
    assert numbers(env[watched], start(given)) == expected


def test_what_has_no_value_has_a_history_or_is_memory():
    without = {op for op, row in ISA.items() if row.value is None}
    assert without == {"LOAD", "STORE", "OBSERVE", "SOLVE", "UNTIL", "PROPAGATE", "SERIES"}
    assert {op for op, row in ISA.items() if row.run is not None} == {
        *("NEAR", "TREE", "SOLVE", "UNTIL", "PROPAGATE", "SERIES")
    }


def test_an_update_has_no_value_for_a_proof_to_pass_over():
    """A reader that took an update for a number would believe that the state is still what it was."""
    for op in (
        "SYMP_STEP",
        "MAP",
        "SHIFT",
        "SCALE",
        "RELAX",
        "BATH",
        "THERMO",
        "DIFFUSE",
        "MEMORY",
        "GYRATE",
        "EXACT",
        "CONSTRAIN",
        "ORBIT",
        "ROTATE",
        "LOAD",
        "STORE",
        "OBSERVE",
    ):
        line = next(line for name, line, _, *_ in COUNTED if name == op).replace(":f64[3]", "")
        whole = program(f"GRAD_INIT G1, S1; POISSON_J F0, G1, pass; ELEM T0, add, S0, S1; {line}")
        symbolic = Symbolic(whole)
        for k in range(2):
            symbolic.load(k)
        *before, last = whole.step
        for i in before:
            symbolic.env[i.dst] = symbolic.value(i, "here")
        assert symbolic.value(last, "here") is None, op


def test_a_clock_counts_the_steps_that_were_done():
    assert seen("TIME T0, 0.5", 0.0, 0.0, "T0", steps=3) == 10.0 + 2.5 * 2.0


def test_random_numbers_are_others_in_the_next_step():
    # stream 0, index 0, step 1: the counter (0, 1, 0, 0)
    a, b, _, _ = philox4x32((0, 1, 0, 0), (0, 0))
    assert seen("NOISE T0, uniform, 0.0, (0,1)", 0.0, 0.0, "T0", steps=2) == unit_interval(a, b)


def test_a_kepler_orbit_of_a_quarter_turn():
    rows = dict(shape="2, 3", q=[[1.0, 2.0, 3.0], [1.0, 0.0, 0.0]], p=[[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    rows |= dict(params=["$gm f64[2]"], given={"gm": [0.0, 1.0]})
    h = math.pi / 2
    for part, expected in ((0, [1 + 2 * h, 2.0, 3.0, 0.0, 1.0, 0.0]), (1, [2.0, 0.0, 0.0, -1.0, 0.0, 0.0])):
        found = seen(f"KEPLER T0:f64[2, 3], S0, S1, $gm, {h!r}, ({part},)", watched="T0", **rows)
        assert found == pytest.approx(expected, abs=1e-15)


def test_how_a_quarter_turn_changes_with_its_size_and_with_the_mass():
    """Of an orbit l times as large the times are l**1.5 times as long; twice the pull at speeds that go with it is twice the pace."""
    place, speed = [[1.0, 2.0, 3.0], [1.0, 0.0, 0.0]], [[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    rows = dict(shape="2, 3", q=place, p=speed, params=["$gm f64[2]"], given={"gm": [0.0, 1.0]})
    h = math.pi / 2
    larger = f"ELEM T1:f64[2, 3], mul, S1, -0.5; KEPLER_ALONG T0:f64[2, 3], S0, S1, $gm, {h!r}, S0, T1, 0.0"
    faster = f"ELEM T1:f64[2, 3], mul, S1, 0.5; KEPLER_ALONG T0:f64[2, 3], S0, S1, $gm, {h!r}, 0.0, T1, $gm"
    for line, part, expected in (
        (larger, 0, [1 - h, 2.0, 3.0, 1.5 * h, 1.0, 0.0]),
        (larger, 1, [-1.0, 0.0, 0.0, 0.5, 1.5 * h, 0.0]),
        (faster, 0, [h, 0.0, 0.0, -h / 2, 0.0, 0.0]),
        (faster, 1, [1.0, 0.0, 0.0, -0.5, -h / 2, 0.0]),
    ):
        found = seen(f"{line}, ({part},)", watched="T0", **rows)
        assert found == pytest.approx(expected, abs=3e-15)


# x = 1 + x/4 in rounds, and 4x = 8 in one, with the inverse of its matrix
ROUNDS = "SOLVE T0:f64[1], S0; FMA T1:f64[1], T0, -0.25, -1.0; ELEM T2:f64[1], add, T0, T1; UNTIL T0:f64[1], T2, S1, (50,)"
NEWTON = (
    "MOVE T3:f64[1, 1], expand, 0.25; SOLVE T0:f64[1], S0; FMA T1:f64[1], T0, 4.0, -8.0; "
    "UNTIL T0:f64[1], T1, T3, S1, (50,)"
)
FEW = ROUNDS.replace("(50,)", "(3,)")


def test_an_unknown_is_found_in_rounds():
    one = dict(shape="1", q=[0.0], p=[1.0], watched="T0")
    assert seen(ROUNDS, **one) == pytest.approx([4 / 3], abs=1e-15)
    assert seen(NEWTON, **one) == [2.0]
    assert all(math.isnan(x) for x in seen(FEW, **one))  # rounds that are not enough


def test_a_propagator_stands_for_all_steps():
    half = "ELEM T0, mul, S0, S0; ELEM T1, mul, S1, S1; ELEM T2, add, T0, T1; ELEM E0, mul, T2, 0.5"
    given = dict(q=1.0, p=0.0, energy=half, steps=4, dt=math.pi / 8, params=["$dt f64[]"])
    for k, expected in enumerate((0.0, -1.0)):  # a quarter turn
        found = seen("", watched=f"S{k}", final="PROPAGATE S0, flow, E0, 1.0", **given)
        assert found == pytest.approx(expected, abs=1e-15)


# fmt: off
@pytest.mark.parametrize(("line", "why"), [
    ("TREE T0:f64[3, 1], S0, $m, 0.01, 0.001", "does not support tree codes"),
    ("SERIES S0:f64[3, 1], S1, S0, (4,)",      "does not run Taylor series"),
])
# fmt: on
def test_two_instructions_are_not_run_by_the_virtual_machine(line, why):
    with pytest.raises(PlanError, match=why):
        vm.Machine(program(line, "3, 1", params=["$m f64[3]"]))


# --- cost, sources, lines -------------------------------------------------------------------------------
# fmt: off
# the last line of a step: operations that are counted, the lines that are written, whether it reads its destination
COUNTED = [
    ("LOAD",      "LOAD S0, &q",                                       "",        {},              0, False),
    ("STORE",     "STORE &q, S0",                                      "",        {},              0, False),
    ("OBSERVE",   "OBSERVE &e, S0",                                    "",        {},              0, False),
    ("ELEM",      "ELEM T0, sub, S0, S1",                              "",        {"sub": 1},      1, False),
    ("ELEM",      "ELEM T0:f64[3], neg, S0",                           "3",       {},              3, False),
    ("ELEM",      "ELEM T0:f64[3], sqrt, S0",                          "3",       {"sqrt": 3},     3, False),
    ("FMA",       "FMA T0:f64[3], S0, S1, 1.0",                        "3",       {"fma": 3},      3, False),
    ("SUM",       "SUM T0, S0, (0,)",                                  "3",       {"add": 2},      3, False),
    ("DOT",       "DOT T0, S0, S1, (0,)",                              "3",       {"fma": 2},      3, False),
    ("PAIRS",     "PAIRS T0:f64[3], S0, (1,), (0,1)",                  "3, 3",    {"add": 6},      9, False),
    ("MAX",       "MAX T0, S0, (0,)",                                  "3",       {"MAX": 2},      3, False),
    ("MIN",       "MIN T0, S0, (0,)",                                  "3",       {"MIN": 2},      3, False),
    ("NEAR",      "NEAR T0:i64[3], order, S0, 9.0, 1.0, (0,)",         "3, 1",    {},              0, False),
    ("TREE",      "TREE T0:f64[3, 2], S0, $m, 0.01, 0.001",            "3, 2",    {"TREE": 6},     0, False),
    ("LINE",      "LINE T0:f64[1, 2, 3], S1, S0, S1, S1, (1,1)",       "1, 1, 3", {"fma": 12},     12, False),
    ("MOVE",      "MOVE T0:f64[2], slice, S0, ((1,3,1),)",             "3",       {},              0, False),
    ("MOVE",      "MOVE T0:f64[2], gather, S0, T9",                    "3",       {"where": 6},    0, False),
    ("FOURIER",   "FOURIER T0:f64[4], S0, S1, (0,-1,0)",               "4",       {"FOURIER": 8}, 8, False),
    ("ELLIPTIC",  "ELLIPTIC T0:f64[4], S0, 0.0, 1.0, 0.0, (0,0,0,0)",  "4",       {"ELLIPTIC": 120}, 120, False),
    ("MESH",      "MESH T0:f64[1], interpolate, S0, T1, (2,0,0,0,4,4,4)", "3",    {"MESH": 16}, 200, False),
    ("TIME",      "TIME T0, 0.5",                                      "",        {},              0, False),
    ("GRAD_INIT", "GRAD_INIT G0:f64[3], S0",                           "3",       {},              0, False),
    ("ACC_GRAD",  "ACC_GRAD G0:f64[3], 2.0, mul, 0.0, S0, S1",         "3",       {"ACC_GRAD": 3}, 3, True),
    ("POISSON_J", "POISSON_J F1:f64[3], G0, negate",                   "3",       {},              0, False),
    ("SYMP_STEP", "SYMP_STEP S0:f64[3], F0, 0.5",                      "3",       {"fma": 3},      3, True),
    ("SHIFT",     "SHIFT S0:f64[3], T0",                               "3",       {},              0, False),
    ("SCALE",     "SCALE S0:f64[3], times, 4.0",                       "3",       {"mul": 3},      3, True),
    ("SCALE",     "SCALE S0:f64[3], over, 4.0",                        "3",       {"div": 3},      3, True),
    ("JACOBI",    "JACOBI T0:f64[2, 3], positions, S0, $m, (0,1)",     "2, 3",    {"fma": 6},      0, False),
    ("KEPLER",    "KEPLER T0:f64[5, 3], S0, S1, $m, 0.5, (0,)",        "5, 3",    {"orbit": 4},    0, False),
    ("KEPLER",    "KEPLER T0:f64[5, 3], S0, S1, $m, 0.5, (1,)",        "5, 3",    {},              0, False),
    ("KEPLER_ALONG", "KEPLER_ALONG T0:f64[5, 3], S0, S1, $m, 0.5, S0, S1, 0.0, (0,)", "5, 3", {"orbit": 4}, 0, False),
    ("PULL",      "PULL F1.1:f64[5, 3], F1, S0, $m",                   "5, 3",    {"pull": 4},     0, False),
    ("ORBIT",     "ORBIT S0:f64[3], T0",                               "3",       {},              0, False),
    ("SOLVE",     "SOLVE T0:f64[3], S0",                               "3",       {},              0, False),
    ("UNTIL",     "UNTIL T0:f64[3], T1, T2, (9,)",                     "3",       {},              0, False),
    ("FLOW",      "FLOW T0:f64[3], $m, E0, $dt",                       "3",       {},              0, False),
    ("FLOW_ALONG", "FLOW_ALONG T0:f64[3], $m, E0, $dt, $k, (0,)",       "3",       {},              0, False),
    ("ROTATE",    "ROTATE S0:f64[3], T0",                              "3",       {},              3, False),
    ("TURN",      "TURN S0:f64[3], T0",                                "3",       {},              3, False),
    ("LIE_CROSS", "LIE_CROSS F0:f64[3], S0, G0",                       "3",       {"mul": 6, "sub": 3}, 0, False),
    ("MAP",       "MAP S0:f64[3], T0",                                 "3",       {},              0, False),
    ("RELAX",     "RELAX S0:f64[3], T0, 0.25",                         "3",       {},              0, False),
    ("BATH",      "BATH S0:f64[3], T0, langevin, 1.0, 0.5, 1.0, 2.0",  "3",       {},              0, False),
    ("THERMO",    "THERMO S0:f64[3], T0, bussi, 1.0, 0.5, 2.0, 1.0, 3.0, (0,)", "3", {},          0, False),
    ("DIFFUSE",   "DIFFUSE S0:f64[3], T0, 0.5, 1.0, 2.0, T0",          "3",       {},              0, False),
    ("MEMORY",    "MEMORY S0:f64[3], T0, 1.0, 0.5, 1.0, ((1,1),), ((1,1),)", "3",  {},             0, False),
    ("GYRATE",    "GYRATE S0:f64[3], T0, cayley, T0",                  "3",       {},              0, False),
    ("EXACT",     "EXACT S0:f64[3], T0, 0.25, (0,)",                   "3",       {},              0, False),
    ("CONSTRAIN", "CONSTRAIN S0:f64[3], T0",                           "3",       {},              0, False),
    ("PROPAGATE", "PROPAGATE S0:f64[3], flow, E0, 1.0",                "3",       {},              0, False),
    ("SERIES",    "SERIES S0:f64[3], S1, T0, (4,)",                    "3",       {},              0, False),
    ("NOISE",     "NOISE T0:f64[3], uniform, 0.0, (0,3)",              "3",       {"random": 3}, None, False),
]
# fmt: on


def test_every_instruction_is_counted():
    assert {op for op, *_ in COUNTED} == set(ISA)


@pytest.mark.parametrize(("op", "line", "shape", "cost", "written", "own"), COUNTED)
def test_what_an_instruction_costs_and_reads(op, line, shape, cost, written, own):
    whole = program(line, shape, params=["$m f64[3]"])
    (i,) = whole.step
    assert i.op == op and operations(whole.step, whole) == Counter(cost)
    assert written is None or lines(whole, whole.step) == written
    if op != "NOISE":
        assert (i.dst in reads_before_writing(whole.step)) is own
        assert {x for x in i.args if isinstance(x, Register)} <= set(reads_before_writing(whole.step))


def test_a_random_number_is_many_operations():
    drawn = program("NOISE T0:f64[3], uniform, 0.0, (0,3)", "3")
    one = program("NOISE T0, uniform, 0.0, (0,1)")
    assert (
        lines(drawn, drawn.step) == 3 * lines(one, one.step) > 3 * 60
    )  # ten rounds of six operations and more


# --- places ---------------------------------------------------------------------------------------------
# fmt: off
ENERGY = {"ELEM", "FMA", "FOURIER", "ELLIPTIC", "MESH", "SUM", "DOT", "PAIRS", "MAX", "MIN", "MOVE", "NEAR", "TIME"}  # what an energy is written with
WITHIN = {"OBSERVE", "NOISE", "NEAR"}                                           # not in rounds, whatever it writes
WHOLE = {"ORBIT", "SOLVE", "UNTIL"}                                             # a step with it is no loop over stages
MARKED = {"SYMP_STEP", "MAP", "SHIFT", "SCALE", "RELAX", "BATH", "THERMO", "DIFFUSE", "MEMORY", "GYRATE", "EXACT", "CONSTRAIN", "ROTATE", "TURN", "ORBIT"}  # moves a state in a nest of loops
# fmt: on


@pytest.mark.parametrize("op", ISA)
def test_where_an_instruction_may_stand(op):
    line, shape = next((line, shape) for name, line, shape, *_ in COUNTED if name == op)
    whole = program(line, shape, params=["$m f64[3]"])
    try:
        check_place(whole, whole.step[0], "energy", "here")
        declares = True
    except TinyPhysicsError:
        declares = False
    assert declares == (op in ENERGY)
    if op not in ("SOLVE", "UNTIL"):
        moves = isinstance(whole.step[0].dst, Register) and whole.step[0].dst.kind in "SE"
        inside = program(
            f"SOLVE T7:f64[1], T6; {line}; UNTIL T7:f64[1], T6, T6, (9,)", shape, params=["$m f64[3]"]
        )
        if op == "ACC_GRAD":  # reads what the round before has left
            inside = program(
                f"SOLVE T7:f64[1], T6; GRAD_INIT G0:f64[3], 0.0; {line}; UNTIL T7:f64[1], T6, T6, (9,)", shape
            )
        try:
            check_solves(inside)
            again = True
        except TinyPhysicsError as error:
            again = False
            assert "stands between a SOLVE and its UNTIL" in str(error)
        assert again == (op not in WITHIN and not moves)


def test_a_gradient_that_is_added_to_must_be_set_in_the_same_round():
    line = "ACC_GRAD G0, 2.0, mul, 0.0, S0, S1"
    with pytest.raises(TinyPhysicsError, match="reads G0 before it is written"):
        check_solves(program(f"SOLVE T7:f64[1], T6; {line}; UNTIL T7:f64[1], T6, T6, (9,)"))


SHEAR = "GRAD_INIT G1, S1; POISSON_J F0, G1, pass; SYMP_STEP S0, F0, 0.5; "
KICKS = "GRAD_INIT G0, S0; POISSON_J F1, G0, negate; SYMP_STEP S1, F1, 0.25"


@pytest.mark.parametrize("op", ["ORBIT", "SOLVE", "UNTIL", "MAP", "SHIFT", "ROTATE", "NOISE", "TIME"])
def test_which_steps_are_a_loop_over_stages(op):
    line = {
        "NOISE": "NOISE T0, uniform, 0.0, (0,1)",
        "TIME": "TIME T0, 0.5",
        "SOLVE": "SOLVE T0, S0",
        "UNTIL": "UNTIL T0, T0, T0, (9,)",
    }.get(op, f"{op} S1, S0")
    fold = with_tails(program(f"{SHEAR * 8}; {KICKS}; {line}").step, lambda r: False)
    assert (fold is None) == (op in WHOLE)


@pytest.mark.parametrize("op", sorted(MARKED | {"ELEM", "GRAD_INIT"}))
def test_which_instructions_move_a_state_in_a_nest_of_loops(op):
    line = next(line for name, line, _, *_ in COUNTED if name == op)
    whole = program(line.replace(":f64[3]", ""))
    meaning = Meaning(whole)
    meaning.run(whole.init)
    for name in ("T0", "F0"):
        meaning.env[Register(name[0], 0)] = meaning.env[Register("S", 0)] * 2.0
    marks, _ = updates(meaning, whole.step)
    assert [name for name, _ in marks] == (["S0"] if op in MARKED else [])


# --- precision ------------------------------------------------------------------------------------------
# fmt: off
UNSUPPORTED, SHEARS, UNITS = "does not support", "is not a shear", "states in other units are"
# a step, and what it becomes: the instructions that are no arithmetic, or why it is refused; None: does not get so far
PRECISE = [
    #                                                                           mixed          compensated      lattice           dd
    ("ELEM",      "ELEM T0, sub, S0, S1; MAP S0, T0",                           "MAP",         "MAP MAP",       SHEARS,           "MAP MAP"),
    ("FMA",       "FMA T0, S0, 2.0, S1; MAP S0, T0",                            "MAP",         "MAP MAP",       SHEARS,           "MAP MAP"),
    ("MOVE",      "MOVE T0, reshape, S1; MAP S0, T0",                           "MAP",         "MAP MAP",       SHEARS,           "MAP MAP"),
    ("MAP",       "MAP S0, S1",                                                 "MAP",         "MAP MAP",       SHEARS,           "MAP MAP"),
    ("RELAX",     "ELEM T0, mul, S0, 0.5; RELAX S0, T0, 0.25",                  "RELAX",       "MAP MAP",       SHEARS,           "MAP MAP"),
    ("BATH",      "ELEM T0, mul, S0, 0.5; BATH S0, T0, langevin, 1.0, 0.5, 1.0, 2.0", "BATH",  "MAP MAP",       SHEARS,           "MAP MAP"),
    ("THERMO",    "ELEM T0, mul, S0, 0.5; THERMO S0, T0, bussi, 1.0, 0.5, 2.0, 1.0, 3.0, (0,)", "THERMO", "MAP MAP", SHEARS, "MAP MAP"),
    ("DIFFUSE",   "ELEM T0, mul, S0, 0.5; DIFFUSE S0, T0, 0.5, 1.0, 2.0, T0",   "DIFFUSE",     "MAP MAP",       SHEARS,           "MAP MAP"),
    ("MEMORY",    "ELEM T0, mul, S0, 0.5; MEMORY S0, T0, 1.0, 0.5, 1.0, ((1,1),), ((1,1),)", "MEMORY", "MAP MAP",   SHEARS,           "MAP MAP"),
    ("GYRATE",    "ELEM T0, mul, S0, 0.5; GYRATE S0, T0, cayley, S1",           "GYRATE",      "MAP MAP",       SHEARS,           "MAP MAP"),
    ("EXACT",     "ELEM T0, mul, S0, 0.5; EXACT S0, T0, 0.25, (0,)",            "EXACT",       "MAP MAP",       SHEARS,           "MAP MAP"),
    ("CONSTRAIN", "ELEM T0, mul, S0, 0.5; CONSTRAIN S0, T0",                    "CONSTRAIN",   "MAP MAP",       SHEARS,           "MAP MAP"),
    ("SHIFT",     "SHIFT S0, S1",                                               "SHIFT",       "MAP MAP",       SHEARS,           UNITS),
    ("SCALE",     "SCALE S0, times, 4.0",                                       "SCALE",       "MAP MAP",       SHEARS,           UNITS),
    ("GRAD_INIT", "GRAD_INIT G0, S0",                                           "GRAD_INIT",   "",              "",               ""),
    ("POISSON_J", "GRAD_INIT G0, S0; POISSON_J F1, G0, negate",                 "GRAD_INIT POISSON_J", "",      "",               ""),
    ("SYMP_STEP", "GRAD_INIT G1, S1; POISSON_J F0, G1, pass; SYMP_STEP S0, F0, $dt",
                                                                   "GRAD_INIT POISSON_J SYMP_STEP", "MAP MAP",  "SHIFT",          "MAP MAP"),
    ("ACC_GRAD",  "GRAD_INIT G1, S1; ACC_GRAD G1, S0, mul, 0.0, S0, S1",        "GRAD_INIT ACC_GRAD", "",        SHEARS,           ""),
    ("ORBIT",     "ORBIT S0, S1",                                               "ORBIT",       UNSUPPORTED,     SHEARS,           "`ORBIT` is not supported"),
    ("ROTATE",    "ROTATE S0, S1",                                              "ROTATE",      UNSUPPORTED,     SHEARS,           "`ROTATE` is not supported"),
    ("TURN",      "TURN S0, S1",                                                "TURN",        "MAP MAP",       SHEARS,           "MAP MAP"),
    ("LIE_CROSS", "LIE_CROSS F0:f64[3], S0, S1",                                None,          None,            None,             None),
    ("SERIES",    "SERIES S0, S1, S0, (4,)",                                    "SERIES",      UNSUPPORTED,     SHEARS,           "`SERIES` is not supported"),
    ("PROPAGATE", "PROPAGATE S0, flow, E0, 1.0",                                "PROPAGATE",   "PROPAGATE",     SHEARS,           "`PROPAGATE` is not supported"),
    ("NOISE",     "NOISE T0, uniform, 0.0, (0,1); MAP S0, T0",                  "NOISE MAP",   "NOISE MAP MAP", "random numbers", "NOISE MAP MAP"),
    ("TIME",      "TIME T0, 0.5; MAP S0, T0",                                   "TIME MAP",    "TIME MAP MAP",  SHEARS,           "TIME TIME MAP MAP"),
    ("SOLVE",     "SOLVE T0, S0; UNTIL T0, S1, S1, (9,)",                       UNSUPPORTED,   UNSUPPORTED,     None,             None),
    ("FLOW",      "FLOW T0:f64[1], $m, E0, $dt; MAP S0, S1",                    "FLOW MAP",    "MAP MAP",       SHEARS,           "MAP MAP"),
    ("FLOW_ALONG", "FLOW_ALONG T0:f64[1], $m, E0, $dt, $k, (0,); MAP S0, S1", "FLOW_ALONG MAP", "MAP MAP",   SHEARS,           "MAP MAP"),
    ("OBSERVE",   "OBSERVE &e, S0",                                             "OBSERVE",     UNSUPPORTED,     "OBSERVE",        None),
    ("FOURIER",   "FOURIER T0:f64[2], S0, S1, (0,-1,0)",                        "FOURIER",     "",              "FOURIER",        "fourier"),
    ("ELLIPTIC",  "ELLIPTIC T0:f64[2], S0, 0.0, 1.0, 0.0, (0,0,0,0)",           "ELLIPTIC",    "",              "ELLIPTIC",       "equation is not defined"),
    ("MESH",      "SUM T1:f64[1], S1, (1,); MESH T0:f64[1, 1, 1], spread, S0, T1, (1,0,0,0,1,1,1)", "SUM MESH", "", "SUM MESH", "mesh"),
    ("SUM",       "SUM T0:f64[1], S0, (1,)",                                    "SUM",         "",              "SUM",            ""),
    ("DOT",       "DOT T0:f64[1], S0, S1, (1,)",                                "DOT",         UNSUPPORTED,     "DOT",            ""),
    ("PAIRS",     "PAIRS T0:f64[1], S0, (1,), (0,1)",                           "PAIRS",       "",              "PAIRS",          ""),
    ("MAX",       "MAX T0:f64[1], S0, (1,)",                                    "MAX",         "",              "MAX",            "MAX MAX"),
    ("MIN",       "MIN T0:f64[1], S0, (1,)",                                    "MIN",         "",              "MIN",            "MIN MIN"),
    ("NEAR",      "NEAR T0:i64[1], order, S0, 9.0, 1.0, (0,)",                  "NEAR",        "",              "NEAR",           "NEAR"),
    ("TREE",      "TREE T0:f64[1, 1], S0, $m, 0.01, 0.001",                     UNSUPPORTED,   UNSUPPORTED,     "approximate=",   "sums with a tree code are"),
    ("LINE",      "LINE T0:f64[1, 2, 1], S0, S1, S0, S1, (1,1)",                UNSUPPORTED,   UNSUPPORTED,     "along a line",   "equations along a line are"),
    ("JACOBI",    "JACOBI T0:f64[1, 1], positions, S0, $m, (0,)",               UNSUPPORTED,   UNSUPPORTED,     None,             None),
    ("KEPLER",    "KEPLER T0:f64[1, 1], S0, S1, $m, 0.5, (0,)",                 UNSUPPORTED,   UNSUPPORTED,     None,             None),
    ("KEPLER_ALONG", "KEPLER_ALONG T0:f64[1, 1], S0, S1, $m, 0.5, S0, S1, $m, (0,)", UNSUPPORTED, UNSUPPORTED, None,         None),
    ("PULL",      "GRAD_INIT G0:f64[1, 1], S0; POISSON_J F1:f64[1, 1], G0, force; PULL F1.1:f64[1, 1], F1, S0, $m",
                                                                        "GRAD_INIT POISSON_J PULL", UNSUPPORTED, None,            None),
]
ARRAYS = ("SUM", "DOT", "PAIRS", "MAX", "MIN", "NEAR", "TREE", "JACOBI", "KEPLER", "KEPLER_ALONG", "PULL")
# fmt: on
CASES = [
    (way, op, step, expected)
    for op, step, *outcomes in PRECISE
    for way, expected in zip(("mixed", "compensated", "lattice", "dd"), outcomes)
    if expected is not None
]


def test_every_instruction_is_tried_in_every_precision():
    assert {op for op, *_ in PRECISE} == set(ISA) - {"LOAD", "STORE", "UNTIL"}  # which stand in all of them


@pytest.mark.parametrize(("way", "op", "step", "expected"), CASES)
def test_what_an_instruction_becomes_in_a_precision(way, op, step, expected):
    whole = program(
        step,
        "2"
        if op in ("FOURIER", "ELLIPTIC")
        else "1, 3"
        if op == "MESH"
        else "1, 1, 1"
        if op == "LINE"
        else "1, 1"
        if op in ARRAYS
        else "",
        params=["$dt f64[]", "$m f64[1]"],
    )
    if expected and not expected[0].isupper():
        with pytest.raises(PlanError, match=expected):
            in_precision(whole, "dd") if way == "dd" else in_precision(whole, way)
        return
    short = in_precision(whole, "dd") if way == "dd" else in_precision(whole, way)
    assert " ".join(i.op for i in short.step if i.op not in ("ELEM", "FMA", "MOVE")) == expected
    words = {"mixed": 1, "compensated": 2, "lattice": 1, "dd": 2}[way]
    assert [len(short.init) >= 2 * words, len(short.final)] == [True, 2 * words]


def test_in_float32_everything_is_in_float32_but_what_is_stored():
    short = in_precision(program("ELEM T0, sub, S0, S1; NOISE T1, uniform, 0.0, (0,1)"), "float32")
    assert {str(i.type.dtype) for i in (*short.init, *short.step)} == {"f32"}
    assert {str(i.type.dtype) for i in short.final} == {"f64"}


# fmt: off
@pytest.mark.parametrize(("line", "found"), [
    ("ELEM T0:f32[], add, S0, 1e300",              [1e300]),
    ("FMA T0:f32[], S0, 1e300, 1e-300",            [1e300, 1e-300]),
    ("MAP S0:f32[], 1e300",                        [1e300]),
    ("TIME T0:f32[], 1e300",                       []),  # counts steps
    ("NOISE T0:f32[], uniform, 1e300, (0,1)",      []),  # counts numbers
    ("ACC_GRAD G0:f32[], S0, mul, 1e300, S0, S1",  []),  # counts sources
])
# fmt: on
def test_which_numbers_must_fit_a_format(line, found):
    assert [x for _, x in out_of_range(program(line))] == found


def test_the_clock_and_random_numbers_do_not_move_with_the_states():
    reach = Reach(program("ELEM T0, sub, S0, S1; TIME T1, 0.5; NOISE T2, uniform, T0, (0,1); ELEM T3, sin, S0"))
    assert [reach.free(Register("T", k)) for k in range(4)] == [False, True, True, False]
    assert Register("T", 0) in reach.wide and Register("T", 3) not in reach.wide


@pytest.mark.parametrize(("op", "full"), [("MAP", True), ("SHIFT", True), ("ROTATE", False), ("ORBIT", False)])
def test_which_updates_need_all_digits_of_a_sum(op, full):
    whole = program(f"ELEM T0, mul, S0, 2.0; {op} S1, T0")
    assert (Register("T", 0) in in_full(whole, Reach(whole))) is full


# --- proofs ---------------------------------------------------------------------------------------------
HALF = "ELEM T90, mul, S0, S0; ELEM T91, mul, S1, S1; ELEM T92, add, T90, T91; ELEM E0, mul, T92, 0.5"
ROWS = (
    "ELEM T90:f64[2, 3], mul, S0, S0; ELEM T91:f64[2, 3], mul, S1, S1; ELEM T92:f64[2, 3], add, T90, T91; "
    "SUM E0, T92, (0,1)"
)
# fmt: off
LINES = {
    "SHIFT": "SHIFT S0, T9", "MAP": "MAP S0, T9", "ROTATE": "ROTATE S0, T9", "SERIES": "SERIES S0, S1, S0, (4,)",
    "NOISE": "NOISE T0, uniform, 0.0, (0,1)", "TIME": "TIME T0, 0.5", "FLOW": "FLOW T0:f64[2], $m, E0, $dt",
    "FLOW_ALONG": "FLOW_ALONG T0:f64[2], $m, E0, $dt, $m, (0,)",
    "TREE": "TREE T0:f64[2, 3], $x, $m, 0.01, 0.001", "NEAR": "NEAR T0:i64[2], order, $x, 9.0, 1.0, (0,)",
    "ELEM": "ELEM T0, add, S0, 1.0", "FMA": "FMA T0, S0, 2.0, 1.0", "OBSERVE": "OBSERVE &e, S0",
    "SYMP_STEP": "GRAD_INIT G1, S1; POISSON_J F0, G1, pass; SYMP_STEP S0, F0, 0.5",
    "ACC_GRAD": "GRAD_INIT G1, S1; ACC_GRAD G1, 2.0, mul, 0.0, S0, S1",
}
NO_PART = {
    "OscillatorReader":    {"SHIFT", "MAP", "NOISE", "TREE", "SERIES", "FLOW_ALONG"},
    "KeplerReader":     {"SHIFT", "MAP", "NOISE", "TREE", "NEAR", "TIME", "ROTATE", "SERIES", "FLOW_ALONG"},
    "CollocationReader": {"SHIFT", "NOISE", "TREE", "NEAR", "SERIES", "ROTATE", "FLOW", "FLOW_ALONG"},
    "MapReader":     {"SHIFT", "SERIES", "FLOW", "FLOW_ALONG", "SYMP_STEP"},  # another proof then reads it
}
WITH = {
    "OscillatorReader":    "ROTATE S0, S1; ROTATE S1, S0",
    "KeplerReader":     "ORBIT S0, S0; ORBIT S1, S1",
    "CollocationReader": "MOVE T8:f64[1], reshape, S0; SOLVE T7:f64[1], T8; UNTIL T7:f64[1], T7, T8, (9,)",
    "MapReader":     "MAP S1, S0",
}
SAID = {"OscillatorReader": "no part of a step that turns", "KeplerReader": "no part of a step on Kepler", "CollocationReader": "not one of the stages"}
PROOFS = [
    (reader, op) for reader in WITH for op in LINES
    if (reader, op) not in {("OscillatorReader", "ROTATE"), ("CollocationReader", "MAP"), ("MapReader", "ROTATE")}
]
# fmt: on


@pytest.mark.parametrize(("reader", "op"), PROOFS)
def test_of_which_proofs_an_instruction_is_no_part(reader, op):
    shape = "2, 3" if reader == "KeplerReader" else ""
    line = LINES[op]
    if shape:
        line = line.replace("T0,", "T0:f64[2, 3],") if op in ("ELEM", "FMA") else line
        for name in ("S0,", "G1,", "F0,"):
            for word in (
                "SHIFT",
                "MAP",
                "ROTATE",
                "SERIES",
                "GRAD_INIT",
                "ACC_GRAD",
                "POISSON_J",
                "SYMP_STEP",
            ):
                line = line.replace(f"{word} {name}", f"{word} {name[:-1]}:f64[2, 3],")
    first = "" if op not in ("SHIFT", "MAP", "ROTATE") else f"ELEM T9:f64[{shape}], add, S1, 1.0; "
    params = ["$dt f64[]", "$m f64[2]", "$x f64[2, 3]"]
    given = WITH[reader]
    if shape:
        given = given.replace("ORBIT S0", "ORBIT S0:f64[2, 3]").replace("ORBIT S1", "ORBIT S1:f64[2, 3]")
    energy = "" if reader == "MapReader" else ROWS if shape else HALF
    found = reader_of(program(f"{first}{line}; {given}", shape, energy=energy, params=params))
    refused = op in NO_PART[reader]
    if reader == "MapReader":
        assert (type(found).__name__ == "MapReader") is not refused
    else:
        assert type(found).__name__ == reader and (SAID[reader] in found.walk.trouble) is refused


def test_states_in_other_units_are_no_part_of_three_proofs():
    for reader in ("OscillatorReader", "CollocationReader"):
        whole = program(WITH[reader], init="SCALE S0, times, 4.0", final="SCALE S0, over, 4.0", energy=HALF)
        assert SAID[reader] in reader_of(whole).walk.trouble
    rows = (
        WITH["KeplerReader"]
        .replace("ORBIT S0", "ORBIT S0:f64[2, 3]")
        .replace("ORBIT S1", "ORBIT S1:f64[2, 3]")
    )
    whole = program(rows, "2, 3", init="SCALE S0:f64[2, 3], times, 4.0", energy=ROWS)
    assert SAID["KeplerReader"] in reader_of(whole).walk.trouble
