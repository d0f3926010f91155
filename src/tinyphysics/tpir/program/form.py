"""Is a listing well formed?  Declarations, operands and memory, before anything is said about physics."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

from tinyphysics.errors import ShapeError, VerifyError
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.spec import SHAPED
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.program.isa import (
    ISA,
    JUMPS,
    ROLES,
    SECTIONS,
    Instruction,
    Operand,
    Param,
    Pointer,
    Program,
    Register,
    StateDecl,
    Word,
)
from tinyphysics.util import one_of

DECLARES = ("plain", "moved", "summed", "listed", "clock")  # what an energy is written with
# where an instruction may stand, why it may not elsewhere, and what to write; JACOBI only where it changes a state
# fmt: off
PLACES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "LOAD":   (("init",), ": it would take the state back to where it began", "LOAD belongs in `init:`."),
    "STORE":  (("final",), "", "STORE belongs in `final:`."),
    "SCALE":  (("init", "final"), ": units are chosen for a whole run",
               "SCALE belongs in `init:`, and in `final:` the other way."),
    "JACOBI": (("energy", "init", "final"), ": coordinates are chosen for a whole run",
               "A state is changed in `init:`, and back in `final:`; use a T register here."),
}
# fmt: on
ONCE = ("watched", "drawn", "listed")  # what is done once in a step


def check_form(program: Program) -> None:
    """A VerifyError that names the first line that cannot mean anything."""
    check_declarations(program)
    for number, section, i in program.numbered():
        check_operands(program, i, f"step {number} `{i}`")
        check_place(program, i, section, f"step {number} `{i}`")
    check_memory(program)
    check_jump(program)
    check_solves(program)


# --- declarations ---------------------------------------------------------------------------------
def check_declarations(program: Program) -> None:
    names = [s.name for s in program.states], [p.name for p in program.params]
    for declared in names:
        twice = next((n for n in declared if declared.count(n) > 1), None)
        if twice is not None:
            raise VerifyError(f"`{twice}` is declared twice", fix="One name is one state or one parameter.")
    for i, s in enumerate(program.states):
        if s.role not in ROLES:
            raise VerifyError(f"`{s.name}` is a `{s.role}`", fix=f"A state is a {one_of(ROLES)}.")
        if s.role == "error":
            check_word(program, i, s)
        elif s.role == "momentum":
            check_pair(program, i, s)
        elif s.conjugate is not None:
            raise VerifyError(
                f"`{s.name}` is a {s.role} of S{s.conjugate}",
                fix="Only a momentum names its partner: state S1 p f64[] momentum of S0.",
            )


def check_word(program: Program, i: int, s: StateDecl) -> None:
    """An error word stands directly after its array and is like it: hashes and files have them in that order."""
    q = program.states[s.low_of] if s.low_of is not None and s.low_of < i else None
    if q is None or s.low_of != i - 1 or q.role == "error":
        raise VerifyError(
            f"the error word `{s.name}` does not stand after its state",
            fix=f"Write: state S{i} q.low {s.type} error of S{i - 1}, where S{i - 1} is no error word.",
        )
    if q.type != s.type:
        raise VerifyError(
            f"`{q.name}` is {q.type}, its error word `{s.name}` is {s.type}",
            fix="A state and its error word have one type.",
        )


def check_pair(program: Program, i: int, s: StateDecl) -> None:
    k = s.conjugate
    if k is None or k >= len(program.states) or program.states[k].role != "position":
        raise VerifyError(
            f"the momentum `{s.name}` has no position",
            fix=f"Write: state S{i} {s.name} {s.type} momentum of S0, where S0 is a position.",
        )
    q = program.states[k]
    if q.type != s.type:
        raise VerifyError(
            f"`{q.name}` is {q.type}, its momentum `{s.name}` is {s.type}",
            fix="A position and its momentum have one type.",
        )
    if sum(x.conjugate == k for x in program.states) > 1:
        raise VerifyError(f"`{q.name}` has two momenta", fix="A position has one momentum.")


# --- instructions ---------------------------------------------------------------------------------
def letter(x: Operand) -> str:
    match x:
        case Register() | Param():
            return "r"
        case Pointer():
            return "&"
        case Word():
            return "w"
        case tuple():
            return "n"
    return "c"


def check_operands(program: Program, i: Instruction, where: str) -> None:
    row = i.row
    if not re.fullmatch(row.form, "".join(map(letter, i.args))):
        raise VerifyError(f"{where} has the wrong operands", fix=f"{i.op} takes {row.operands}.")
    kind = i.dst.kind if isinstance(i.dst, Register) else letter(i.dst)
    if kind not in row.writes:
        allowed = ", ".join(name for name, r in ISA.items() if kind in r.writes)
        raise VerifyError(
            f"{where} writes {i.dst}",
            fix=f"{kind} registers are written by {allowed}." if allowed else f"{i.op} takes {row.operands}.",
        )
    for x in i.operands:
        if isinstance(x, Register) and x.kind in "SGF" and x.index >= len(program.states):
            raise VerifyError(
                f"{where} names {x}, but there is no state S{x.index}",
                fix="Declare it: state S0 q f64[] position.",
            )
        if isinstance(x, Param) and all(p.name != x.name for p in program.params):
            raise VerifyError(
                f"{where} reads {x}, which is not declared", fix=f"Declare it: param {x} f64[]."
            )
    if isinstance(i.dst, Register) and i.dst.kind in "SGF":
        declared = program.states[i.dst.index].type
        if i.type != declared:
            raise VerifyError(
                f"{where} has type {i.type}, the state S{i.dst.index} has {declared}",
                fix=f"Write {i.op} {i.dst}:{declared}, ...",
            )


def check_place(program: Program, i: Instruction, section: str, where: str) -> None:
    """Memory is read where a run begins and written where someone looks; an energy changes nothing."""
    if section != "energy" and isinstance(i.dst, Register) and i.dst.kind == "B":
        raise VerifyError(
            f"{where} writes {i.dst} in `{section}:`", fix="A bracket is declared in `energy:`."
        )
    if section == "energy" and i.row.numbers not in DECLARES:
        terms = "An energy is declared with ELEM, FMA, SUM, MOVE and TIME, terms in E0, E1, ..."
        raise VerifyError(f"{where} stands in `energy:`", fix=terms)
    sections, why, fix = PLACES.get(i.op, (SECTIONS, "", ""))
    moves_state = i.op != "JACOBI" or isinstance(i.dst, Register) and i.dst.kind == "S"
    if section not in sections and moves_state:
        raise VerifyError(f"{where} stands in `{section}:`{why}", fix=fix)
    if i.op == "OBSERVE" and isinstance(i.dst, Pointer) and any(s.name == i.dst.name for s in program.states):
        raise VerifyError(
            f"{where} writes over the state `{i.dst.name}`", fix="Give the observable another name."
        )


def check_jump(program: Program) -> None:
    """A PROPAGATE is all that a program does: it stands for every step."""
    jumps = [(number, section, i) for number, section, i in program.numbered() if i.op == "PROPAGATE"]
    terms = [i.dst for i in program.energy if isinstance(i.dst, Register) and i.dst.kind == "E"]
    for number, section, i in jumps:
        where = f"step {number} `{i}`"
        trouble = {
            f"stands in `{section}:`": section != "final",
            "is one too many": len(jumps) > 1,
            f"writes {i.dst}": i.dst != Register("S", 0),
        }
        for what in (what for what, holds in trouble.items() if holds):
            raise VerifyError(f"{where} {what}", fix="One PROPAGATE S0, ... in `final:` moves all states.")
        if i.args[0] not in [Word(way) for way in JUMPS]:
            raise VerifyError(f"{where} goes the way `{i.args[0]}`", fix=f"The way is {one_of(JUMPS)}.")
        for e in i.args[1::2]:
            if e not in terms:
                raise VerifyError(
                    f"{where} reads {e}, which is no term of the energy",
                    fix="Declare it: ELEM E0, ... in `energy:`.",
                )
        for n, name, other in program.numbered():
            if name != "energy" and other.op not in ("LOAD", "STORE", "PROPAGATE"):
                raise VerifyError(
                    f"step {n} `{other}` beside a PROPAGATE, which stands for all steps",
                    fix="Leave one of them out.",
                )


def check_solves(program: Program) -> None:
    """A SOLVE and its UNTIL stand in one section, one inside the other or one after the other, and move no state."""
    for name in SECTIONS:
        inside: list[int] = []
        lines = program.section(name)
        for at, i in enumerate(lines):
            if i.row.kind == "open":
                inside.append(at)
            elif i.row.kind == "close":
                if not inside or lines[inside[-1]].dst != i.dst:
                    raise VerifyError(
                        f"`{i}` does not end the last SOLVE", fix=f"Write SOLVE {i.dst}, start before it."
                    )
                check_rounds(lines[inside.pop() + 1 : at])
            elif inside and (i.row.numbers in ONCE or isinstance(i.dst, Register) and i.dst.kind in "SE"):
                raise VerifyError(
                    f"`{i}` stands between a SOLVE and its UNTIL, where lines are done more than once",
                    fix="Between them only T, G and F registers are written, from what is known.",
                )
        if inside:
            raise VerifyError(
                f"`{lines[inside[-1]]}` has no UNTIL in `{name}:`",
                fix="End it: UNTIL x, residual, scale, (50,).",
            )


def check_rounds(lines: Sequence[Instruction]) -> None:
    """A VerifyError if a round reads what the round before has left, but for the unknown itself."""
    later = {i.dst for i in lines}
    for i in lines:
        for x in i.sources:
            if isinstance(x, Register) and x in later:
                raise VerifyError(
                    f"`{i}` reads {x} before it is written, between a SOLVE and its UNTIL: in later rounds "
                    "it is what the round before has left",
                    fix=f"Write {x} first, or before the SOLVE.",
                )
        later.discard(i.dst)


# --- memory ---------------------------------------------------------------------------------------
def check_memory(program: Program) -> None:
    """Every state is loaded once and stored once, from its own memory and when nothing moves it any more."""
    loaded: dict[Operand, None] = {}
    for number, _, i in program.numbered():
        if i.op == "LOAD":
            assert isinstance(i.dst, Register)
            own = Pointer(program.states[i.dst.index].name)
            if i.args[0] != own or i.dst in loaded:
                again = "a second time" if i.args[0] == own else f"from the memory of {i.args[0]}"
                raise VerifyError(
                    f"step {number} `{i}` loads {i.dst} {again}", fix=f"LOAD {i.dst}, {own}, once."
                )
            loaded[i.dst] = None
    stored: dict[Operand, Operand] = {}
    for number, section, i in program.numbered():
        if section == "final" and i.dst in stored.values():
            raise VerifyError(
                f"step {number} `{i}` changes {i.dst} after it was stored", fix="STORE comes last."
            )
        if i.op == "STORE":
            if all(i.dst != Pointer(s.name) for s in program.states):
                raise VerifyError(f"step {number} `{i}` stores into no state", fix="STORE takes &name, S.")
            stored[i.dst] = i.args[0]
    for k, s in enumerate(program.states):
        own, register = Pointer(s.name), Register("S", k)
        if register not in loaded:
            raise VerifyError(
                f"S{k} is not loaded: nothing brings `{s.name}` into the program",
                fix=f"Write LOAD S{k}, {own} in `init:`.",
            )
        if stored.get(own) != register:
            found = f"{stored[own]} is stored there" if own in stored else "nothing is stored there"
            raise VerifyError(
                f"`{s.name}` is not given back: {found}", fix=f"Write STORE {own}, S{k} in `final:`."
            )
    check_terms(program)


def check_terms(program: Program) -> None:
    for kind, what in (("E", "the terms of the energy"), ("B", "what the bracket is made of")):
        written = [i.dst.index for i in program.energy if isinstance(i.dst, Register) and i.dst.kind == kind]
        if written != list(range(len(written))):
            shown = "are" if kind == "E" else "is"
            raise VerifyError(
                f"{what} {shown} not {kind}0, {kind}1, ... in order, each written once",
                fix="Use T registers for what is not a term.",
            )


# --- values ---------------------------------------------------------------------------------------
@cache
def shape_rows(op: Ops) -> tuple[tuple[Callable[[UOp], bool], str], ...]:
    """(what must hold, what to say if it does not) of one operation."""
    return tuple((holds, what) for ops, holds, what in SHAPED if op in ops)


def check_node(u: UOp, where: str) -> UOp:
    """u, if its sources, shape and numbers fit together."""
    try:
        trouble = next((what for holds, what in shape_rows(u.op) if not holds(u)), "")
    except (ShapeError, IndexError, TypeError, ValueError):
        trouble = "operands that do not fit"
    if trouble:
        shapes = " and ".join(f"{s.dtype}{list(s.shape)}" for s in u.src) or "nothing"
        raise VerifyError(
            f"{where} has {trouble}: it makes {u.dtype}{list(u.shape)} from {shapes}",
            fix="Operands have the type of the result; expand first: MOVE T1:f64[3], expand, T0.",
        )
    return u
