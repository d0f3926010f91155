"""A listing of numbered instructions without declarations, as papers and slides print them: read as the program it means.

    01 LOAD      S0, ptr_q              &q
    03 ELEM      T0, S0, sq             ELEM T0, sq, S0
    07 GRAD_INIT G1                     GRAD_INIT G1, 0.0
    08 FMA       G1, S1, 1.0            FMA G1, S1, 1.0, G1: it adds to what is there
    11 POISSON_J F0, G1, type=PASS      POISSON_J F0, G1, pass

States are what is loaded; POISSON_J says which are pairs, and SYMP_STEP that the program claims to be symplectic. Lines
are put into sections: what is loaded into `init`, what is stored into `final`, what only an energy reads into `energy`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tinyphysics.errors import VerifyError
from tinyphysics.tpir.program.isa import (
    ISA,
    Instruction,
    Operand,
    Param,
    ParamDecl,
    Pointer,
    Program,
    Register,
    StateDecl,
    Word,
)

NUMBER = re.compile(r"\s*\d+[.:)]?\s+")
ACCUMULATORS = "GTE"


def bare_lines(text: str) -> list[str] | None:
    """The instructions of a listing that declares nothing, in the spelling of TP-IR; None if it is another text."""
    lines = [
        NUMBER.sub("", raw.partition(";")[0].partition("#")[0], count=1).strip() for raw in text.splitlines()
    ]
    lines = [line for line in lines if line]
    if not lines or lines[0].split()[0] not in ISA:
        return None
    return [spelt(line) for line in lines if line.split()[0] in ISA or re.match(r"[A-Z_]{3,} ", line)]


def spelt(line: str) -> str:
    """An instruction with its operands in the one order and spelling that there is."""
    op, _, rest = line.partition(" ")
    operands = [word(x.strip()) for x in rest.split(",") if x.strip()]
    is_word = [re.fullmatch(r"[a-z][a-z0-9_]*", x) is not None for x in operands]
    if op == "ELEM" and len(operands) > 2 and is_word[-1] and not is_word[1]:
        operands = [operands[0], operands[-1], *operands[1:-1]]
    if op == "FMA" and len(operands) == 3 and operands[0][:1] in ACCUMULATORS:
        operands.append(operands[0])
    if op == "GRAD_INIT" and len(operands) == 1:
        operands.append("0.0")
    return f"{op} {', '.join(operands)}"


def word(operand: str) -> str:
    """`ptr_q` is `&q`, `type=PASS` is `pass`."""
    if operand.startswith("ptr_"):
        return f"&{operand.removeprefix('ptr_')}"
    return operand.removeprefix("type=").lower() if operand.startswith("type=") else operand


def bare_program(instructions: Sequence[Instruction]) -> Program:
    """The program that a list of instructions means."""
    loads = [i for i in instructions if i.op == "LOAD"]
    stores = [i for i in instructions if i.op == "STORE"]
    body = [i for i in instructions if i.row.kind != "memory"]
    energy, step = parted(body)
    claims = ("symplectic",) if any(i.row.numbers == "by_flow" for i in body) else ()
    # in the order in which they are read
    params = {x.name: None for i in instructions for x in i.args if isinstance(x, Param)}
    return Program(
        "listing",
        claims,
        declared(loads, body),
        tuple(ParamDecl(name) for name in params),
        tuple(energy),
        tuple(loads),
        tuple(step),
        tuple(stores),
        bare=True,
    )


def declared(loads: Sequence[Instruction], body: Iterable[Instruction]) -> tuple[StateDecl, ...]:
    """The states, in the order of their numbers; `POISSON_J F0, G1, pass` makes S1 the momentum of S0."""
    names = {i.dst.index: i.args[0] for i in loads if isinstance(i.dst, Register)}
    if sorted(names) != list(range(len(names))):
        raise VerifyError(
            f"the listing loads {', '.join(f'S{k}' for k in sorted(names)) or 'nothing'}",
            fix="States are S0, S1, ..., each loaded once.",
        )
    position_of: dict[int, int] = {}
    for i in body:
        if i.op == "POISSON_J" and isinstance(i.dst, Register) and isinstance(i.args[0], Register):
            f, g = i.dst.index, i.args[0].index
            q, p = (f, g) if i.args[1] == Word("pass") else (g, f)
            if i.args[1] != Word("force") and {q, p} <= names.keys():
                position_of[p] = q
    out = []
    for k in sorted(names):
        pointer = names[k]
        assert isinstance(pointer, Pointer)
        role = "momentum" if k in position_of else "position" if k in position_of.values() else "field"
        out.append(StateDecl(pointer.name, role, conjugate=position_of.get(k)))
    return tuple(out)


def reads(i: Instruction) -> list[Operand]:
    return [x for x in i.args if isinstance(x, Register)]


def parted(body: Sequence[Instruction]) -> tuple[list[Instruction], list[Instruction]]:
    """(energy, step): what an energy alone needs, and the rest. A sum that another energy reads on is no term of its own."""
    in_step = needed(body, [i for i in body if is_kind(i.dst, "SGF")])
    in_energy = needed(body, [i for i in body if is_kind(i.dst, "E")])
    read_on = {x for k in in_energy for x in reads(body[k]) if is_kind(x, "E")}
    taken = (
        max((i.dst.index for i in body if isinstance(i.dst, Register) and i.dst.kind == "T"), default=-1) + 1
    )
    name = {x: Register("T", taken + n) for n, x in enumerate(sorted(read_on, key=str))}
    whole = [
        body[k].dst for k in sorted(in_energy) if is_kind(body[k].dst, "E") and body[k].dst not in read_on
    ]
    name |= {x: Register("E", n) for n, x in enumerate(dict.fromkeys(whole)) if isinstance(x, Register)}
    terms = [
        replace(
            body[k],
            operands=tuple(name.get(x, x) if isinstance(x, Register) else x for x in body[k].operands),
        )
        for k in sorted(in_energy)
    ]
    return terms, [i for k, i in enumerate(body) if k in in_step or k not in in_energy]


def is_kind(x: Operand, kinds: str) -> bool:
    return isinstance(x, Register) and x.kind in kinds


def needed(body: Sequence[Instruction], wanted: Sequence[Instruction]) -> set[int]:
    """The places of some instructions, and of all that they read the results of."""
    found: set[int] = set()
    waiting = [k for k, i in enumerate(body) if any(i is w for w in wanted)]
    while waiting:
        k = waiting.pop()
        if k in found:
            continue
        found.add(k)
        for x in reads(body[k]):
            before = [j for j in range(k) if body[j].dst == x]
            waiting += before[-1:]
    return found
