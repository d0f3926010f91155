"""TP-IR as text that reads back: one instruction a line, `;` starts a comment."""

from __future__ import annotations

import ast
import re
from typing import Any

from tinyphysics.errors import VerifyError
from tinyphysics.ir.dtype import DTYPES
from tinyphysics.structure import BRACKETS
from tinyphysics.tpir.program.bare import bare_lines, bare_program
from tinyphysics.tpir.program.isa import (
    CLAIMS,
    ISA,
    MATHS,
    SECTIONS,
    Instruction,
    Operand,
    Param,
    ParamDecl,
    Pointer,
    Program,
    Register,
    StateDecl,
    Type,
    Word,
)
from tinyphysics.util import did_you_mean, one_of

REGISTER = re.compile(r"([SGFTEB])(\d+)(?:\.(\d+))?$")
TYPE = re.compile(r"(\w+)\[([\d, ]*)\]$")
STATE = re.compile(r"state S(\d+) ([\w.]+)(?: (\w+\[[\d, ]*\]))? (\w+)(?: of S(\d+))?$")
PARAM = re.compile(r"param \$(\w+)(?: (\w+\[[\d, ]*\]))?(?: = (.+))?$")


def read_type(text: str | None, line: str) -> Type:
    if text is None:
        return Type()
    found = TYPE.match(text)
    if found is None or found[1] not in DTYPES:
        raise VerifyError(f"`{text}` is not a type in `{line}`", fix="Write f64[] or f64[3, 2].")
    return Type(DTYPES[found[1]], tuple(int(n) for n in found[2].split(",") if n.strip()))


def read_default(text: str | None, line: str) -> Any:
    try:
        return None if text is None else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise VerifyError(f"`{text}` is not a number or a list in `{line}`") from None


def split_operands(text: str) -> list[str]:
    """At commas outside brackets."""
    out, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "([" or -(c in ")]")
        if c == "," and depth == 0:
            out.append(text[start:i].strip())
            start = i + 1
    return [*out, text[start:].strip()]


def read_operand(text: str, line: str) -> Operand:
    if found := REGISTER.match(text):
        return Register(found[1], int(found[2]), int(found[3] or 0))
    if re.fullmatch(r"\$\w+", text):
        return Param(text[1:])
    if re.fullmatch(r"&[\w.]+", text):
        return Pointer(text[1:])
    if text.startswith("("):
        return read_numbers(text, line)
    try:
        return float(text)
    except ValueError:
        pass
    if re.fullmatch(r"[A-Za-z_][\w.]*", text):
        return Word(text)
    raise VerifyError(
        f"`{text}` is not an operand in `{line}`",
        fix="Operands: registers S G F T E B, $parameter, &memory, numbers, words.",
    )


def read_numbers(text: str, line: str) -> Operand:
    """`(0,1)` or `((0,2,1),(1,3,1))`."""
    if re.fullmatch(r"[-\d,() ]*", text):
        try:
            numbers: Operand = ast.literal_eval(text)
        except (SyntaxError, ValueError):
            numbers = 0.0
        if isinstance(numbers, tuple):
            return numbers
    raise VerifyError(
        f"`{text}` is not a list of whole numbers in `{line.strip()}`",
        fix="Write (0,1) or ((0,2,1),), with a comma after a single one.",
    )


def read_instruction(line: str) -> Instruction:
    code, _, note = line.partition(";")
    op, _, rest = code.strip().partition(" ")
    if op not in ISA:
        raise VerifyError(
            f"`{op}` is not an instruction in `{line.strip()}`",
            fix=f"{did_you_mean(op, ISA)}Known: {', '.join(ISA)}.",
        )
    first, *others = split_operands(rest)
    name, _, type_text = first.partition(":")
    operands = (read_operand(name, line), *(read_operand(x, line) for x in others))
    if op == "POISSON_J" and operands[-1] == Word("lie"):
        op, operands, note = lie_cross(operands, note, line)
    return Instruction(op, operands, read_type(type_text or None, line), note.strip())


# of a 3x3 matrix times a vector, and of the vector product that it is
MATRIX_FLOPS, CROSS_FLOPS = 15, 9


def lie_cross(operands: tuple[Operand, ...], note: str, line: str) -> tuple[str, tuple[Operand, ...], str]:
    """P(L) of an angular momentum is no matrix to be filled: 9 products and 6 sums become 6 and 3."""
    flow, gradient, *_ = operands
    if not isinstance(flow, Register) or len(operands) != 3:
        raise VerifyError(
            f"`{line.strip()}` has the wrong operands", fix="Write POISSON_J F0:f64[3], G0, lie."
        )
    told = f"P(L) as a vector product: {MATRIX_FLOPS} -> {CROSS_FLOPS} flops a row"
    return "LIE_CROSS", (flow, Register("S", flow.index), gradient), note or told


def parse(text: str) -> Program:
    """The program that a listing describes; `parse(str(program)) == program`."""
    if not isinstance(text, str):
        raise VerifyError(
            f"a listing is text, not a {type(text).__name__}", fix="Pass the listing as a string."
        )
    if (lines := bare_lines(text)) is not None:
        return bare_program([read_instruction(line) for line in lines])
    name, math, bracket = "", "exact", ""
    claims: list[str] = []
    states: list[StateDecl] = []
    params: list[ParamDecl] = []
    sections: dict[str, list[Instruction]] = {s: [] for s in SECTIONS}
    current: str | None = None
    for raw in text.splitlines():
        line = raw.partition(";")[0].strip()
        if not line:
            continue
        if line.endswith(":") and line[:-1] in SECTIONS:
            current = line[:-1]
        elif current is not None:
            sections[current].append(read_instruction(raw))
        elif line.startswith("program "):
            name = line.removeprefix("program ").strip()
        elif line.split()[0] == "claim":
            claims += line.split()[1:]
            for c in claims:
                if c not in CLAIMS:
                    raise VerifyError(f"`{c}` is not a claim", fix=f"A program may claim {one_of(CLAIMS)}.")
        elif line.split()[0] == "bracket":
            bracket = line.removeprefix("bracket").strip()
            if bracket not in BRACKETS:
                raise VerifyError(
                    f"`{bracket}` is no bracket in `{line}`", fix=f"Write bracket {one_of(BRACKETS)}."
                )
        elif line.split()[0] == "math":
            math = line.removeprefix("math").strip()
            if math not in MATHS:
                raise VerifyError(
                    f"`{math}` is no way to compute in `{line}`", fix=f"Write math {one_of(MATHS)}."
                )
        elif found := STATE.match(line):
            if int(found[1]) != len(states):
                raise VerifyError(
                    f"`{line}`: states are declared in order", fix=f"The next is S{len(states)}."
                )
            of = int(found[5]) if found[5] else None
            pair, low_of = (None, of) if found[4] == "error" else (of, None)
            states.append(StateDecl(found[2], found[4], read_type(found[3], line), pair, low_of))
        elif found := PARAM.match(line):
            params.append(ParamDecl(found[1], read_type(found[2], line), read_default(found[3], line)))
        elif line.split()[0] in ("state", "param"):
            raise VerifyError(
                f"`{line}` is not a declaration",
                fix="Write `state S1 p f64[] momentum of S0` or `param $mu f64[]`.",
            )
        else:
            raise VerifyError(
                f"`{line}` is outside a section",
                fix="Begin with program, claim, math, state and param lines, then `init:`, "
                "`step:`, `final:`.",
            )
    if not name:
        raise VerifyError(
            "the listing has no name",
            fix="It begins with `program <name>`; a listing of instructions alone begins with LOAD.",
        )
    return Program(
        name,
        tuple(claims),
        tuple(states),
        tuple(params),
        *(tuple(sections[s]) for s in SECTIONS),
        math=math,
        bracket=bracket,
    )
