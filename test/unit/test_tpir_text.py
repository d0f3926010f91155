"""Does a listing say all there is?  Text that reads back, and errors that say how to mend it."""

import os
import random
import re
import subprocess
import sys

import pytest

import tinyphysics as tp
from tinyphysics.errors import VerifyError
from tinyphysics.planner.methods.catalog import METHODS
from tinyphysics.target import BUILT
from tinyphysics.tpir import Program, parse, verify, vm
from tinyphysics.tpir.program.isa import ISA, SECTIONS


@tp.hamiltonian
def oscillator(q, p, k=1.0):
    return p**2 / 2 + k * q**2 / 2


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def driven(q, p, t, a=0.3):
    return p**2 / 2 - tp.cos(q) - a * q * tp.sin(t)


@tp.hamiltonian
def lattice(q: tp.Array[3, 2], p: tp.Array[3, 2], mass: tp.Vec[3] = (1.0, 2.0, 3.0)):
    bond = tp.roll(q, 1, 0) - q
    return (p**2 / (2 * mass[:, None])).sum() + (bond**4).sum() + tp.maximum(q[0, 0], -q[2, 1]) ** 2


@tp.hamiltonian
def walls(q: tp.Vec[3], p: tp.Vec[3]):
    return p @ p / 2 + (tp.diff(q, prepend=0.0, append=0.0) ** 2).sum() + tp.where(q[0] < 1e-300, q[0], 0.0)


@tp.hamiltonian(pairs=[("x", "px"), ("θ", "pθ")])
def greek(x, px, θ, pθ, ω=2.0):
    return px**2 / 2 + pθ**2 / 2 + ω * x**2 * tp.sin(θ)


@tp.forces
def field(q: tp.Vec[2], mass=2.0):
    return tp.stack([-q[0], q[0] * 1e-17])


@tp.map
def henon(x, y, a=1.4, b=0.3):
    return 1 - a * x**2 + y, b * x


@tp.hamiltonian
def mixed(q, p):
    return p**2 * (1 + q**2) / 2 + q**2


SPLIT = [oscillator, kepler, driven, lattice, walls, greek, field]
PROGRAMS = [
    (s, m.name) for s in SPLIT for m in METHODS if m.stages < 5 and m.family.kind != "orbits" and not m.needs
] + [
    (henon, "auto"),
    (mixed, "rk4"),
    (mixed, "euler"),
]


def compiled(system, method) -> Program:
    dt = None if system.kind == "map" else 0.1
    return tp.compile(system, dt, method=method).tpir


# --- there and back ---------------------------------------------------------------------------------
@pytest.mark.requirement("S3-01")
@pytest.mark.parametrize("system, method", PROGRAMS, ids=[f"{s.name}-{m}" for s, m in PROGRAMS])
def test_a_program_reads_back_from_its_text(system, method):
    program = compiled(system, method)
    again = parse(str(program))
    assert again == program
    assert str(again) == str(program) and again.hash == program.hash
    assert verify(again) == verify(program)


@pytest.mark.requirement("S3-01")
def test_sim_ir_and_sim_tpir_are_the_same_listing():
    sim = tp.compile(kepler, dt=0.1)
    assert sim.ir("tpir") == str(sim.tpir) and parse(sim.ir()) == sim.tpir


def test_numbers_of_every_size_and_sign_read_back():
    numbers = [
        0.1,
        -0.0,
        0.0,
        1e-300,
        5e-324,
        -1.7976931348623157e308,
        1 / 3,
        float("inf"),
        float("-inf"),
        1e16,
        123456789.0,
    ]
    lines = "\n".join(f"ELEM T{k}, add, {x!r}, 1.0" for k, x in enumerate(numbers))
    program = parse(f"program numbers\nstep:\n{lines}\n")
    assert parse(str(program)) == program
    back = [i.args[1] for i in program.step]
    assert [x.hex() for x in back] == [x.hex() for x in numbers]


def test_comments_blank_lines_and_spaces_are_dropped():
    plain = "program a\nclaim symplectic\nstate S0 q position\nstate S1 p momentum of S0\nparam $k\nstep:\nELEM T0, mul, S0, $k\n"
    dressed = """
    ; a comment before everything
    program a   ; its name
      claim symplectic   ; what it says

    state S0 q f64[] position
      state S1 p f64[] momentum of S0
    param $k f64[]     ; a spring

    step:
          ELEM   T0 , mul ,S0,   $k   ; T0 = k*q ; and more
    """
    a, b = parse(plain), parse(dressed)
    assert a == b and a.hash == b.hash
    assert b.step[0].note == "T0 = k*q ; and more"


def test_defaults_read_back_and_are_not_part_of_the_program():
    text = str(compiled(kepler, "leapfrog"))
    assert "param $dt f64[] = 0.1\n" in text and "param $mu f64[] = 1.0\n" in text
    assert str(parse(text)) == text
    bare = parse(text.replace(" = 0.1\n", "\n").replace(" = 1.0\n", " = 2.5\n"))
    assert bare == parse(text) and bare.hash == parse(text).hash and str(bare) != text


def test_the_hash_ignores_notes_and_defaults_and_nothing_else():
    program = compiled(kepler, "leapfrog")
    assert any(i.note for i in program.energy)
    bare = parse(re.sub(r"  ;.*", "", str(program)))
    assert not any(i.note for _, _, i in bare.numbered())
    assert bare.hash == program.hash and bare == program
    others = [
        str(program).replace("param $mu", "param $nu").replace("$mu", "$nu"),
        str(program).replace("-0.5", "-0.25"),
        str(program).replace("claim symplectic consistent symmetric", "claim symplectic"),
        str(program).replace("program leapfrog_kdk", "program mine"),
    ]
    assert len({parse(x).hash for x in others} | {program.hash}) == 5


@pytest.mark.requirement("S0-10")
def test_the_program_is_the_same_whatever_backend_runs_it():
    hashes = set()
    for backend in ("auto", *BUILT):
        try:
            hashes.add(tp.compile(kepler, dt=0.1, backend=backend).tpir.hash)
        except tp.BackendError:  # a compiler that is not installed here
            continue
    assert len(hashes) == 1


def test_the_program_does_not_depend_on_dt_or_on_defaults():
    @tp.hamiltonian
    def other(q: tp.Vec[2], p: tp.Vec[2], mu: float = 3.0):
        return p @ p / 2 - mu / tp.norm(q)

    assert (
        tp.compile(kepler, dt=0.1).tpir.hash
        == tp.compile(kepler, dt=-0.7).tpir.hash
        == tp.compile(other, dt=1.0).tpir.hash
    )


PRINT_ALL = """
import tinyphysics as tp
@tp.hamiltonian
def lattice(q: tp.Array[3, 2], p: tp.Array[3, 2], mass: tp.Vec[3] = (1.0, 2.0, 3.0)):
    bond = tp.roll(q, 1, 0) - q
    pull = sum(1 / tp.norm(q[i] - q[j]) for i in range(3) for j in range(i))
    return (p**2 / (2 * mass[:, None])).sum() + (bond**4).sum() + tp.sin(q[0, 0]) * tp.cos(q[1, 1]) - pull
for method in ("symplectic_euler", "leapfrog", "yoshida4", "rk4"):
    sim = tp.compile(lattice, dt=0.1, method=method, backend="python")
    print(sim.tpir, sim.explain("full"))
"""


@pytest.mark.slow("hashes rest on it")
def test_listings_and_reports_are_the_same_under_every_hash_seed():
    texts = []
    for seed in ("0", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", PRINT_ALL],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        texts.append(done.stdout)
    assert texts[0] == texts[1] and len(texts[0]) > 5000


def test_every_instruction_of_the_table_parses_in_the_form_that_it_states():
    examples = {
        "LOAD": "LOAD S0, &q",
        "STORE": "STORE &q, S0",
        "ELEM": "ELEM T0, atan2, S0, 1.0",
        "FMA": "FMA T0, S0, S0, 1.0",
        "SUM": "SUM T0, T1, (0,)",
        "DOT": "DOT T0, T1, T2, (0,)",
        "MAX": "MAX T0, T1, (0,1)",
        "MIN": "MIN T0:f64[2], T1, (1,)",
        "MOVE": "MOVE T0:f64[2, 1], slice, T1, ((0,2,1),(1,2,1))",
        "TIME": "TIME T0, 0.5",
        "NOISE": "NOISE T0:f64[3], normal, T1, (7,3)",
        "PAIRS": "PAIRS T0:f64[3], T1, (1,), (0,1)",
        "NEAR": "NEAR T0:i64[9], order, S0, 2.5, 0.3, (0,)",
        "TREE": "TREE T0:f64[9, 3], S0, $m, 0.01, 0.001",
        "LINE": "LINE T0:f64[2, 3, 40], T1, T2, T3, T4, (9,9)",
        "GRAD_INIT": "GRAD_INIT G0, 1.0",
        "ACC_GRAD": "ACC_GRAD G0, 1.0, mul, 0.0, S0, S1",
        "POISSON_J": "POISSON_J F1, G0, negate",
        "SYMP_STEP": "SYMP_STEP S1, F1.2, $dt",
        "SHIFT": "SHIFT S1, T4",
        "SCALE": "SCALE S1, over, $dt",
        "MAP": "MAP S0, T3",
        "TURN": "TURN S0, T3",
        "FOURIER": "FOURIER T0:f64[8], S0, 0.0, (1,-1,0)",
        "ELLIPTIC": "ELLIPTIC T0:f64[8, 4], S0, 0.0, 1.0, $w, T1, 1e-10, (0,1,1,3,0)",
        "MESH": "MESH T0:f64[9], interpolate, S0, T1, (4,0,0,1,8,8,8)",
        "LIE_CROSS": "LIE_CROSS F0:f64[3], S0, G0",
        "RELAX": "RELAX S1, T3, $gamma",
        "BATH": "BATH S1, T3, langevin, 1.0, $kT, 1.0, $gamma",
        "THERMO": "THERMO S1, T3, bussi, 1.0, $kT, $tau, 1.0, 3.0, (0,)",
        "DIFFUSE": "DIFFUSE S1, T3, $kT, 1.0, $gamma, T4",
        "MEMORY": "MEMORY S1, T3, 1.0, $kT, 1.0, ((1,2),), ((1,1),)",
        "GYRATE": "GYRATE S1, T3, cayley, T4",
        "EXACT": "EXACT S1, T3, $dt, (1,)",
        "CONSTRAIN": "CONSTRAIN S1, T3",
        "SOLVE": "SOLVE T4:f64[2], T3",
        "UNTIL": "UNTIL T4:f64[2], T5, T6, T7, (50,)",
        "ORBIT": "ORBIT S0, T3",
        "ROTATE": "ROTATE S0, T3",
        "FLOW": "FLOW T0:f64[2, 2, 3], $m, E0, $dt",
        "FLOW_ALONG": "FLOW_ALONG T0:f64[2, 2, 3], $m, E0, $dt, $m, (0,)",
        "JACOBI": "JACOBI S0:f64[3, 3], positions, S0, $m, (0,2,1)",
        "KEPLER": "KEPLER T0:f64[3, 3], S0, S1, T1, $dt, (0,)",
        "KEPLER_ALONG": "KEPLER_ALONG T2:f64[3, 3], S0, S1, T1, $dt, S2, S3, 0.0, (1,)",
        "PULL": "PULL F1.1:f64[3, 3], F1, S0, T1",
        "OBSERVE": "OBSERVE &energy, E0",
        "PROPAGATE": "PROPAGATE S0, power, E1, 0.5, E0, 1.0, E1, 0.5",
        "SERIES": "SERIES S0, S1, T3, (20,)",
    }
    assert set(examples) == set(ISA)
    for op, line in examples.items():
        (instruction,) = parse(f"program p\nstep:\n{line}").step
        assert instruction.op == op and str(instruction) == line


# --- listings that cannot be read ------------------------------------------------------------------------
# fmt: off
MALFORMED = [
    ("step:\n",                                                     "no name",                       "program <name>"),
    ("program p\nLOAD S0, &q",                                      "outside a section",             "`init:`"),
    ("program p\nclaims symplectic\nstep:\n",                       "outside a section",             "claim"),
    ("program p\nclaimsymplectic\nstep:\n",                         "outside a section",             "claim"),
    ("program p\nclaim energy\nstep:\n",                            "`energy` is not a claim",       "`symplectic`"),
    ("program p\nclaim symplectic, symmetric\nstep:\n",             "`symplectic,` is not a claim",  "`symplectic`"),
    ("program p\nstate q position\nstep:\n",                        "not a declaration",             "state S1 p f64[] momentum of S0"),
    ("program p\nstate S0 q f64[\nstep:\n",                         "not a declaration",             "state S1 p f64[] momentum of S0"),
    ("program p\nstate S1 q position\nstep:\n",                     "declared in order",             "The next is S0"),
    ("program p\nstate S0 q f80[] position\nstep:\n",               "`f80[]` is not a type",         "f64[]"),
    ("program p\nparam mu\nstep:\n",                                "not a declaration",             "param $mu"),
    ("program p\nparam $mu f80[]\nstep:\n",                         "`f80[]` is not a type",         "f64[]"),
    ("program p\nstep:\nELEN T0, sin, S0",                          "`ELEN` is not an instruction",  "Did you mean `ELEM`?"),
    ("program p\nstep:\nstate S0 q position",                       "`state` is not an instruction", "Known: LOAD"),
    ("program p\nstep:\nELEM",                                      "`` is not an operand",          "registers S G F T E"),
    ("program p\nstep:\nELEM T0, sin, S0 S1",                       "`S0 S1` is not an operand",     "registers S G F T E"),
    ("program p\nstep:\nELEM T0, sin, @S0",                         "`@S0` is not an operand",       "registers S G F T E"),
    ("program p\nstep:\nELEM T0, mul, $, S0",                       "`$` is not an operand",         "registers S G F T E"),
    ("program p\nstep:\nLOAD S0, &",                                "`&` is not an operand",         "registers S G F T E"),
    ("program p\nstep:\nPOISSON_J F0, G1, type=PASS",               "`type=PASS` is not an operand", "registers S G F T E"),
    ("program p\nstep:\nSUM T0, T1, (0",                            "`(0` is not a list",            "(0,1)"),
    ("program p\nstep:\nSUM T0, T1, (0)",                           "`(0)` is not a list",           "a comma after a single one"),
    ("program p\nstep:\nSUM T0, T1, ('a',)",                        "not a list of whole numbers",   "(0,1)"),
    ("program p\nstep:\nSUM T0, T1, (__import__,)",                 "not a list of whole numbers",   "(0,1)"),
    ("program p\nstep:\nELEM T0:f80[2], sin, S0",                   "`f80[2]` is not a type",        "f64[3, 2]"),
    ("program p\nstep:\nELEM T0:f64, sin, S0",                      "`f64` is not a type",           "f64[3, 2]"),
]
# fmt: on


@pytest.mark.requirement("S3-09")
@pytest.mark.parametrize("text, what, fix", MALFORMED, ids=[f"{k}" for k in range(len(MALFORMED))])
def test_a_malformed_listing_says_what_to_write(text, what, fix):
    with pytest.raises(VerifyError) as caught:
        parse(text)
    message = str(caught.value)
    assert what in message.partition("\n")[0] and fix in message.partition("\n")[2]


def test_two_claim_lines_claim_both():
    assert parse("program p\nclaim symplectic\nclaim symmetric\nstep:\n").claims == (
        "symplectic",
        "symmetric",
    )


def test_no_damage_to_a_listing_escapes_as_anything_but_a_verify_error():
    """Characters and lines of real listings are dropped, doubled, swapped: a program, or a VerifyError."""
    rng = random.Random(3)
    texts = [
        str(compiled(s, m))
        for s, m in (
            (oscillator, "leapfrog"),
            (kepler, "symplectic_euler"),
            (henon, "auto"),
            (driven, "leapfrog"),
            (field, "leapfrog"),
        )
    ]
    words = [
        "S0",
        "S9",
        "G1",
        "F0",
        "T0",
        "T1:f64[2]",
        "&q",
        "$dt",
        "0.5",
        "-1",
        "(0,)",
        "((0,1,1),)",
        "mul",
        "sq",
        "where",
        "pass",
        "force",
        "STORE",
        "ELEM",
        "SUM",
        "MOVE",
        "ACC_GRAD",
        "step:",
        "final:",
        "energy:",
        "momentum",
        ",",
    ]
    programs = 0
    for _ in range(600):
        text = rng.choice(texts)
        for _ in range(rng.randint(1, 3)):
            lines = text.splitlines()
            k = rng.randrange(len(lines))
            match rng.randrange(5):
                case 0:
                    del lines[k]
                case 1:
                    lines.insert(rng.randrange(len(lines)), lines[k])
                case 2:
                    at = rng.randrange(max(len(lines[k]), 1))
                    lines[k] = lines[k][:at] + lines[k][at + 1 :]
                case _:
                    parts = lines[k].split(" ")
                    parts[rng.randrange(len(parts))] = rng.choice(words)
                    lines[k] = " ".join(parts)
            text = "\n".join(lines)
        try:
            program = parse(text)
            assert parse(str(program)) == program
            verify(program)
        except VerifyError:
            continue
        programs += 1
        size = {s.name: s.type.shape for s in (*program.states, *program.params)}
        given = {n: [0.7] * shape[0] if shape else 0.7 for n, shape in size.items()}
        vm.run(program, given, 2, given, dt=0.1)  # what verifies runs
    assert programs > 20


def test_sections_are_printed_in_the_order_in_which_they_count():
    numbers = list(compiled(oscillator, "leapfrog").numbered())
    assert [n for n, _, _ in numbers] == list(range(1, len(numbers) + 1))
    assert [s for s in SECTIONS if any(s == section for _, section, _ in numbers)] == list(
        dict.fromkeys(s for _, s, _ in numbers)
    )
