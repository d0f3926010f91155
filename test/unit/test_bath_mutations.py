"""Printed programs of every bath, changed: what is no longer the step of a bath is not said to keep its law."""

from __future__ import annotations

import re
from functools import cache

import pytest

import tinyphysics as tp
from tinyphysics.errors import VerifyError
from tinyphysics.tpir import parse, verify
from tinyphysics.tpir.program.bare import needed

pytestmark = [
    pytest.mark.requirement("S2-59"),
    pytest.mark.filterwarnings("ignore:.*alone is not ergodic"),
]


@tp.hamiltonian
def trap(q: tp.Vec[2], p: tp.Vec[2], m: float = 1.5):
    return p @ p / (2 * m) + (q[0] ** 2 - 1) ** 2 / 4 + 0.7 * q[1] ** 2 + 0.2 * q[0] * q[1]


@tp.hamiltonian
def free(q: tp.Array[3, 1], p: tp.Array[3, 1], m: float = 1.5):
    return (p**2).sum() / (2 * m) + ((q[1:] - q[:-1]) ** 4).sum() / 4


@tp.hamiltonian
def body(q: tp.Vec[3], p: tp.Vec[3], R: tp.Rotor, L: tp.Vec[3]):
    turned = R[0] ** 2 + 0.5 * R[1] * R[2] + 0.3 * R[3] * R[0] + 0.2 * R[1] ** 2
    return p @ p / 2 + L @ L / 2 + q @ q / 2 + turned * (1 + q[0])


LAW = "canonical"
BATHS = {  # system, options, the verdicts that say what the bath keeps
    "langevin": (trap, {}, (LAW,)),
    "obabo": (trap, {"method": "obabo"}, (LAW,)),
    "andersen": (trap, {"bath": "andersen"}, (LAW,)),
    "bussi": (trap, {"bath": "bussi"}, (LAW,)),
    "bussi, free": (free, {"bath": "bussi"}, (LAW,)),
    "nose_hoover": (trap, {"bath": tp.nose_hoover(length=2)}, (LAW, "measure-preserving")),
    "nose_hoover, free": (free, {"bath": tp.nose_hoover(length=2)}, (LAW, "measure-preserving")),
    "nose_hoover, bodies": (body, {"bath": tp.nose_hoover(length=2)}, (LAW,)),
    "nose_poincare": (trap, {"bath": "nose_poincare"}, ("symplectic",)),
    "nose_poincare, free": (free, {"bath": "nose_poincare"}, ("symplectic",)),
    "gle": (trap, {"bath": tp.gle(kernel=[(2.0, 0.5)])}, (LAW,)),
    "brownian": (trap, {"bath": "brownian"}, (LAW,)),
}
TELL = re.compile(r"  (BATH|THERMO|MEMORY|DIFFUSE) ")


@cache
def listing(name: str) -> tuple[str, ...]:
    system, options, _ = BATHS[name]
    text = str(tp.compile(system, 0.1, temperature=0.8, **options).tpir)
    return tuple(line.split("  ;")[0] for line in text.splitlines() if not line.startswith("claim"))


def shown(name: str, lines: list[str] | tuple[str, ...]) -> dict[str, str]:
    """Which of its verdicts about the bath a listing still has; a listing that is malformed has none."""
    try:
        found = verify(parse("\n".join(lines)))
    except VerifyError:
        return {}
    return {law: found[law].because for law in BATHS[name][2] if found.get(law)}


def section(lines: list[str] | tuple[str, ...], name: str) -> tuple[int, int]:
    begin = lines.index(f"{name}:")
    end = next((k for k in range(begin + 1, len(lines)) if not lines[k].startswith("  ")), len(lines))
    return begin, end


def of_bath(lines: list[str] | tuple[str, ...]) -> list[int]:
    return [k for k, line in enumerate(lines) if TELL.match(line)]


@pytest.mark.parametrize("name", BATHS)
def test_a_listing_has_the_verdicts_of_its_bath(name):
    assert set(shown(name, listing(name))) == set(BATHS[name][2])


# --- what a line declares -------------------------------------------------------------------------------------
def declared(lines: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """Each operand that the first line of a bath declares, in all its lines replaced by another."""
    at = of_bath(lines)
    operands = re.split(r", (?![^(]*\))", lines[at[0]])
    out = []
    for k, old in enumerate(operands[1:], 1):
        numbers = re.fullmatch(r"-?\d+\.\d+", old)
        if numbers:
            new = repr(float(old) + 0.5)
        elif old in ("$temperature", "$friction", "$tau"):
            new = {"$temperature": "1.0", "$friction": "2.0", "$tau": "2.0"}[old]
        elif old == "()":
            new = "(0)"
        elif old == "(0)":
            new = "()"
        else:
            continue
        changed = list(lines)
        for j in at:
            own = re.split(r", (?![^(]*\))", changed[j])
            own[k] = new
            changed[j] = ", ".join(own)
        out.append((f"{old} -> {new}", changed))
    return out


@pytest.mark.parametrize("name", BATHS)
def test_another_number_in_what_a_bath_declares_takes_its_law_away(name):
    found = declared(listing(name))
    assert found
    for what, lines in found:
        assert lines != list(listing(name)) and not shown(name, lines), what


# --- what it computes -----------------------------------------------------------------------------------------
OTHER = {
    "add": "sub", "sub": "add", "mul": "add", "div": "mul", "neg": "abs", "sqrt": "abs", "exp": "expm1", "expm1": "exp",
    "log1p": "expm1", "lt": "le", "abs": "neg", "log": "exp", "cos": "sin", "sin": "cos",
}  # fmt: skip


def changed_operations(name: str) -> list[tuple[int, list[str]]]:
    """Each operation that the numbers of a bath are made of, exchanged for another."""
    lines = listing(name)
    program = parse("\n".join(lines))
    tells = [i for i in program.step if i.op in ("BATH", "THERMO", "MEMORY", "DIFFUSE")]
    every = [*program.init, *program.step]
    mine = needed(every, tells)
    first = {"init": section(lines, "init")[0] + 1, "step": section(lines, "step")[0] + 1}
    out = []
    for k in sorted(mine):
        at = first["init"] + k if k < len(program.init) else first["step"] + k - len(program.init)
        if (found := re.match(r"  ELEM \S+, (\w+),", lines[at])) and found[1] in OTHER:
            changed = list(lines)
            changed[at] = lines[at].replace(f", {found[1]},", f", {OTHER[found[1]]},", 1)
            out.append((at, changed))
    return out


def left(name: str, at: int, lines: list[str]) -> set[str]:
    """The verdicts that a changed line leaves; a chain keeps its measure whatever shears stand before it."""
    own = listing(name)
    before = any("SYMP_STEP" in line for line in own[at : of_bath(own)[0]])
    return set(shown(name, lines)) - ({"measure-preserving"} if before else set())


@pytest.mark.parametrize("name", BATHS)
def test_another_operation_in_what_a_bath_computes_takes_its_law_away(name):
    """Two dozen of each bath; `--tier all` takes them all."""
    found = changed_operations(name)
    assert len(found) > 3
    for at, lines in found[:: max(len(found) // 24, 1)]:
        assert not left(name, at, lines), lines[at]


@pytest.mark.all("all operations of chains")
@pytest.mark.parametrize("name", BATHS)
def test_every_other_operation_takes_the_law_away(name):
    for at, lines in changed_operations(name):
        assert not left(name, at, lines), lines[at]


# --- what stands beside it ------------------------------------------------------------------------------------
def beside(name: str, own: list[str], where: str = "step") -> list[str]:
    lines = list(listing(name))
    end = section(lines, where)[1]
    first_store = next((k for k in range(*section(lines, where)) if "  STORE" in lines[k]), end)
    return [*lines[:first_store], *own, *lines[first_store:]]


def of_shape(name: str) -> str:
    """The type of a momentum, as registers write it."""
    return ":f64[2]" if BATHS[name][0] is trap else ":f64[3, 1]"


FOREIGN = {
    "friction": ["  ELEM T901, mul, -0.5, $dt", "  ELEM T902, exp, T901", "  MOVE T903{t}, expand, T902",
                 "  ELEM T904{t}, mul, S1, T903", "  RELAX S1{t}, T904, 0.5"],
    "friction of positions": ["  ELEM T901, mul, -0.5, $dt", "  ELEM T902, exp, T901", "  MOVE T903{t}, expand, T902",
                              "  ELEM T904{t}, mul, S0, T903", "  RELAX S0{t}, T904, 0.5"],
    "a map": ["  ELEM T904{t}, mul, S1, S1", "  MAP S1{t}, T904"],
    "a second bath": ["  ELEM T904{t}, mul, S1, S1", "  BATH S1{t}, T904, langevin, 1.0, $temperature, 1.0, 1.0"],
    "momenta that are scaled": ["  SCALE S1{t}, times, 2.0"],
}  # fmt: skip


@pytest.mark.parametrize("where", ["init", "step", "final"])
@pytest.mark.parametrize("what", FOREIGN)
def test_a_line_of_another_kind_beside_a_bath_takes_its_law_away(what, where):
    for name in BATHS:
        own = [line.replace("{t}", of_shape(name)) for line in FOREIGN[what]]
        assert not shown(name, beside(name, own, where)), name


def bath_again(lines: tuple[str, ...]) -> list[str]:
    """The last lines of the bath, once more."""
    at = of_bath(lines)
    return [*lines[: at[-1] + 1], *[lines[k] for k in at], *lines[at[-1] + 1 :]]


def without_it(lines: tuple[str, ...]) -> list[str]:
    """The declared lines as plain maps."""
    return [
        re.sub(r"  (?:BATH|THERMO|DIFFUSE|MEMORY) (\S+), (\S+),.*", r"  MAP \1, \2", line) for line in lines
    ]


def half_missing(lines: tuple[str, ...]) -> list[str]:
    """No drift after the bath: kick, drift, bath, kick is of order one."""
    begin, end = section(lines, "step")
    after = of_bath(lines)[0]
    drift = next((k for k in range(max(begin, after), end) if lines[k].startswith("  SYMP_STEP S0")), None)
    return [line for k, line in enumerate(lines) if k != drift]


def in_init(lines: tuple[str, ...]) -> list[str]:
    """The lines of the bath before the loop, too."""
    end = section(lines, "init")[1]
    return [*lines[:end], *[lines[k] for k in of_bath(lines)], *lines[end:]]


@pytest.mark.parametrize("change", [bath_again, without_it, in_init], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", BATHS)
def test_a_bath_twice_or_before_the_loop_or_as_a_map_has_no_law(name, change):
    assert not shown(name, change(listing(name)))


@pytest.mark.parametrize("name", [name for name in BATHS if name not in ("brownian", "obabo")])
def test_a_step_without_its_second_drift_is_not_canonical(name):
    """What is left of a chain keeps its measure still; of the law nothing is said."""
    lines = half_missing(listing(name))
    assert len(lines) == len(listing(name)) - 1
    found = shown(name, lines)
    assert LAW not in found and ("symplectic" not in found)


@pytest.mark.parametrize("name", ["langevin", "obabo", "andersen", "gle", "brownian"])
def test_numbers_that_are_drawn_twice_are_not_independent(name):
    """Each component is to have a number of its own: the stream of one line is that of another."""
    text = "\n".join(listing(name))
    streams = sorted({x for x in re.findall(r"NOISE T\d+\S*, \w+, (\d+)", text)})
    if len(streams) > 1:
        assert not shown(name, text.replace(streams[1], streams[0]).splitlines())
    lines = re.sub(r"(MOVE T\d+:i64\[2\]), range", r"\1, expand, 0", text)
    assert lines == text or not shown(name, lines.splitlines())


@tp.hamiltonian
def two(q: tp.Array[2, 3], p: tp.Array[2, 3]):
    return (p**2).sum() / 2 + 0.3 * q[0, 2] + (q**2).sum() / 2


@tp.constraint
def rod(q: tp.Array[2, 3]):
    d = q[1] - q[0]
    return d @ d - 1


SEVERAL = {
    "a chain": (trap, tp.nose_hoover(length=2)),
    "a chain along rods": (two + rod, tp.nose_hoover(length=2)),
    "bodies": (body, "bussi"),
    "a chain of bodies": (body, tp.nose_hoover(length=2)),
    "one thermostat": (trap, "nose_poincare"),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_lines_of_a_bath_of_which_one_is_missing_are_no_bath(name):
    """What follows of a move is nothing then: not its law, and not that a step is a palindrome."""
    system, bath = SEVERAL[name]
    text = str(tp.compile(system, 0.1, temperature=0.8, bath=bath).tpir)
    lines = [line.split("  ;")[0] for line in text.splitlines() if not line.startswith("claim")]
    at = of_bath(lines)
    assert len(at) > 1
    for k in at:
        left = verify(parse("\n".join(line for j, line in enumerate(lines) if j != k)))
        assert not any(
            left.get(law) for law in (LAW, "measure-preserving", "symplectic", "symmetric", "reversible")
        )


def test_two_pieces_of_a_chain_with_two_times_have_no_law():
    sim = tp.compile(trap, 0.1, temperature=0.8, bath=tp.nose_hoover(length=2), method="obabo")
    text = "\n".join(line for line in str(sim.tpir).splitlines() if not line.startswith("claim"))
    assert verify(parse(text)).canonical
    step = text.index("step:")
    at = text.index("THERMO", step)
    other = "param $tau f64[] = 1.0\nparam $other f64[] = 2.0"
    late = text[:at] + text[at:].replace("$tau", "$tau", 1)
    # its second piece, and all that it computes, by another parameter
    pieces = [m.start() for m in re.finditer("THERMO", late)]
    middle = late.index("SYMP_STEP", pieces[0])
    changed = late[:middle] + late[middle:].replace("$tau", "$other")
    changed = changed.replace("param $tau f64[] = 1.0", other)
    assert not verify(parse(changed)).canonical


def test_a_force_of_before_the_loop_is_no_brownian_step():
    """A position that is read once, before the loop, is stale in every later step."""
    lines = list(listing("brownian"))
    begin, end = section(lines, "step")
    reads = [k for k in range(begin, end) if re.match(r"  MOVE T\d+, element, S0", lines[k])]
    assert reads
    moved = [lines[k] for k in reads]
    rest = [line for k, line in enumerate(lines) if k not in reads]
    at = rest.index("step:")
    assert not shown("brownian", [*rest[:at], *moved, *rest[at:]])
