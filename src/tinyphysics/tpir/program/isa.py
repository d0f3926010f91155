"""The instructions of TP-IR: one table, from which the parser, the verifier and the docs are made.

A program has four sections over typed registers. `energy` declares the scalars that the program claims
to split; it is run only where an energy is asked for. A run of n steps is `init`, `step` n times,
`final` on a copy of the registers. Semantics are eager: a register holds the value computed when its
instruction ran, whatever is rewritten later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tinyphysics.ir.dtype import DType, f64
from tinyphysics.ir.uop import Shape
from tinyphysics.util import digest


@dataclass(frozen=True)
class Register:
    """`S0`, `G1`, `F1.2`, `T14`: a kind, an index, and for G and F which computation of it.

    G and F carry the index of the state that they belong to: G1 is a derivative with respect to S1,
    F1 the flow of S1.
    """

    kind: str
    index: int
    version: int = 0

    def __str__(self) -> str:
        return f"{self.kind}{self.index}" + (f".{self.version}" if self.version else "")


@dataclass(frozen=True)
class Param:
    """`$mu`: a run-time value that no state changes."""

    name: str

    def __str__(self) -> str:
        return f"${self.name}"


@dataclass(frozen=True)
class Pointer:
    """`&q`: memory outside the program."""

    name: str

    def __str__(self) -> str:
        return f"&{self.name}"


@dataclass(frozen=True)
class Word:
    """`mul`, `pass`: a function or a mode."""

    text: str

    def __str__(self) -> str:
        return self.text


Numbers = tuple[int, ...] | tuple[tuple[int, ...], ...]
Operand = Register | Param | Pointer | Word | float | Numbers


@dataclass(frozen=True)
class Type:
    dtype: DType = f64
    shape: Shape = ()

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


SCALAR = Type()


@dataclass(frozen=True)
class Instruction:
    op: str
    operands: tuple[Operand, ...]  # the destination first
    type: Type = SCALAR  # of the destination
    note: str = field(default="", compare=False)

    @property
    def dst(self) -> Operand:
        return self.operands[0]

    @property
    def args(self) -> tuple[Operand, ...]:
        return self.operands[1:]

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        first, *rest = self.operands
        typed = f"{first}:{self.type}" if self.type != SCALAR else f"{first}"
        return f"{self.op} {', '.join([typed, *map(operand_text, rest)])}"


def operand_text(x: Operand) -> str:
    if isinstance(x, float):
        return repr(x)
    if isinstance(x, tuple):
        return str(x).replace(" ", "")
    return str(x)


@dataclass(frozen=True)
class StateDecl:
    name: str
    role: str  # one of ROLES
    type: Type = SCALAR
    conjugate: int | None = None  # of a momentum: the index of its position
    low_of: int | None = None  # of an error word: the index of the state, just before it, that it is added to


@dataclass(frozen=True)
class ParamDecl:
    """`param $mu f64[] = 1.0`; the default is for runs that give no other, and not part of the program."""

    name: str
    type: Type = SCALAR
    default: Any = field(default=None, compare=False)

    def __str__(self) -> str:
        value = "" if self.default is None else f" = {self.default!r}"
        return f"param ${self.name} {self.type}{value}"


SECTIONS = ("energy", "init", "step", "final")
# the parameters that a program with NOISE reads without declaring them: 64 bits of the seed, and which member it is
ADDRESS = ("seed:low", "seed:high", "member:low", "member:high")
FLOW = "flow__"  # the parameters that FLOW reads begin so: they are computed where a run begins
KEPT = f"{FLOW}kept"  # so are what invariants are held at
MEMBER_BITS = 16  # in its low word, so that both words are exact in float32 too


@dataclass(frozen=True)
class Program:
    name: str
    claims: tuple[str, ...]
    states: tuple[StateDecl, ...]
    params: tuple[ParamDecl, ...]
    energy: tuple[Instruction, ...] = ()
    init: tuple[Instruction, ...] = ()
    step: tuple[Instruction, ...] = ()
    final: tuple[Instruction, ...] = ()
    # or "fast": kernels may differ from what it says by the errors that rules/functions/fast.py states
    math: str = field(default="exact", kw_only=True)
    bare: bool = field(default=False, kw_only=True, compare=False)  # read from lines without declarations

    def section(self, name: str) -> tuple[Instruction, ...]:
        out: tuple[Instruction, ...] = getattr(self, name)
        return out

    def numbered(self) -> Iterator[tuple[int, str, Instruction]]:
        """(number, section, instruction), counted from 1 as in the listing."""
        number = 0
        for section in SECTIONS:
            for instruction in self.section(section):
                number += 1
                yield number, section, instruction

    def conjugate(self, index: int) -> int | None:
        """The other half of a canonical pair."""
        own = self.states[index].conjugate
        if own is not None:
            return own
        return next((i for i, s in enumerate(self.states) if s.conjugate == index), None)

    def __str__(self) -> str:
        lines = [f"program {self.name}"]
        if self.claims:
            lines.append(f"claim {' '.join(self.claims)}")
        if self.math != "exact":
            lines.append(f"math {self.math}")
        for i, s in enumerate(self.states):
            other = s.conjugate if s.low_of is None else s.low_of
            of = f" of S{other}" if other is not None else ""
            lines.append(f"state S{i} {s.name} {s.type} {s.role}{of}")
        lines += [str(p) for p in self.params]
        for section in SECTIONS:
            body = self.section(section)
            if body or section == "step":
                lines.append(f"{section}:")
                lines += [f"  {i}" + (f"  ; {i.note}" if i.note else "") for i in body]
        return "\n".join(lines) + "\n"

    def __hash__(self) -> int:
        return self._number

    @cached_property
    def _number(self) -> int:
        """Every cache asks for it, and it is made of all instructions."""
        return hash((self.name, self.claims, self.states, self.init, self.step, self.final, self.math))

    def __getstate__(self) -> dict[str, Any]:
        """Without what another process would count in another way."""
        return {name: value for name, value in self.__dict__.items() if name != "_number"}

    @cached_property
    def hash(self) -> str:
        """Of the text without its notes and defaults: the identity of a program, whatever runs it."""
        return digest(re.sub(r"\s+;.*|(?<=\]) = .*", "", str(self)).encode())


@dataclass(frozen=True)
class Row:
    """An instruction: its operands, the register kinds it may write, and its meaning."""

    operands: str
    writes: str  # kinds of the destination; & is memory, - is nothing
    meaning: str
    form: str  # the operands after it, as a pattern: r register or $parameter, c number, w word, n numbers


ISA: dict[str, Row] = {
    "LOAD": Row("S, &name", "S", "state from memory into a register", "&"),
    "STORE": Row("&name, S", "&", "state back to memory, after every read of the old one", "r"),
    "ELEM": Row("dst, func, src...", "TE", "element-wise function; a number is a constant array", "w[rc]+"),
    "FMA": Row("dst, a, b, c", "TEG", "a*b + c with one rounding", "[rc]{3}"),
    "SUM": Row("dst, src, axes", "TE", "sum along axes, in the order that the sizes prescribe", "rn"),
    "PAIRS": Row(
        "dst, src, axis, (a, b)", "TE", "sum along a or b over the pairs with index a < index b", "rnn"
    ),
    "NEAR": Row(
        "dst, what, points, cutoff, skin, [cell], (list, [way])",
        "T",
        "a part of a neighbour list (order, inverse, images), rebuilt when a point has moved by half the skin",
        "w[rc]{3,4}n",
    ),
    "TREE": Row(
        "dst, points, masses, e2, error",
        "T",
        "the gradient of the sum of m/sqrt(r*r + e2) over the other points, by a tree, to a relative error",
        "[rc]{3}c",
    ),
    "MAX": Row("dst, src, axes", "TE", "largest element along axes", "rn"),
    "MIN": Row("dst, src, axes", "TE", "smallest element along axes", "rn"),
    "MOVE": Row(
        "dst, func, [src...], [numbers]", "TE", "the same numbers in another arrangement", "w([rc]+n?)?"
    ),
    "TIME": Row(
        "dst, c, [e, word]",
        "T",
        "t0 + (n + c)*dt in float64, then rounded; n steps were done when the section began; "
        "with e, the high or low word of t0 + (n + c + e)*dt as a pair of float64",
        "c(cw)?",
    ),
    "NOISE": Row(
        "dst, kind, index, (stream, count)",
        "T",
        "random numbers of this step, `count` for each member",
        "w[rc]n",
    ),
    "GRAD_INIT": Row("g, value", "G", "set an accumulator: 1 to seed, 0 to clear, or a derivative", "[rc]"),
    "ACC_GRAD": Row("g, up, func, k, src...", "G", "g += up * d func(src...)/d src[k]", "[rc]wc[rc]+"),
    "POISSON_J": Row("f, g, type", "F", "gradient to flow: pass dH/dp, negate dH/dq, force as it is", "rw"),
    "SYMP_STEP": Row("s, f, h", "S", "s + h*f with one rounding: a shear", "r[rc]"),
    "SHIFT": Row("s, value", "S", "s := value, which is s plus what s does not enter: a shear", "r"),
    "SCALE": Row("s, way, factor", "S", "s in other units: times the factor, or over it", "w[rc]"),
    "JACOBI": Row(
        "dst, way, src, masses, order",
        "STF",
        "rows of bodies as seen from the centre of mass of the bodies inside, or back; its row 0 is that of all",
        "wrrn",
    ),
    "KEPLER": Row(
        "dst, q, v, gm, h, (part,)",
        "T",
        "Jacobi positions (0) or velocities (1) a time h later: row 0 straight on, the others on Kepler orbits",
        "rrr[rc]n",
    ),
    "PULL": Row(
        "f, a, q, gm",
        "F",
        "accelerations in Jacobi coordinates without the part that KEPLER accounts for",
        "rrr",
    ),
    "ORBIT": Row("s, value", "S", "s := its part of a flow that is exact, with its conjugate", "r"),
    "SOLVE": Row("x, start", "T", "an unknown; the lines from here to its UNTIL are repeated", "[rc]"),
    "UNTIL": Row(
        "x, residual, [matrix], scale, (rounds,)",
        "T",
        "x := x - residual, or x - matrix times residual; repeated until the correction no longer gets smaller; "
        "scale is one over the size of x; NaN if that takes more rounds",
        "r{1,2}[rc]n",
    ),
    "FLOW": Row(
        "dst, $matrix, energy, h",
        "T",
        "the matrix of the flow of an energy of degree 2 or less for a time h, passed in as two words for each entry",
        "rr[rc]",
    ),
    "ROTATE": Row(
        "s, value", "S", "s := its part of the exact flow of a quadratic energy, with all other states", "r"
    ),
    "MAP": Row(
        "s, value",
        "S",
        "s := value: an explicit map; of pairs it is symplectic where its Jacobian is shown to be",
        "[rc]",
    ),
    "PROPAGATE": Row(
        "s, way, [energy, weight]...",
        "S",
        "all states after n steps: the flow of the energies for n*dt, or the n-th power of their flows in turn",
        "w(rc)+",
    ),
    "SERIES": Row(
        "s, rate..., (order,)",
        "S",
        "all states along the Taylor series of the solution with these derivatives, as far as its last terms allow",
        "[rc]+n",
    ),
    "OBSERVE": Row("&name, value", "&", "the value of an observable; never read back", "[rc]"),
}

GOING = (
    "going"  # what a step may observe: where it holds for nobody a step changes nothing, and a loop may end
)
FRAMES = ("positions", "velocities", "places", "momenta")
ROLES = ("position", "momentum", "field", "auxiliary", "error")
WORDS = ("high", "low")
POISSON_TYPES = ("pass", "negate", "force")
WAYS = ("times", "over")
JUMPS = ("flow", "power")
LISTED = ("order", "inverse", "images")
MATHS = ("exact", "fast")
CLAIMS = ("symplectic", "volume-preserving", "symmetric", "reversible", "consistent")


def kept_name(k: int) -> str:
    """Of the parameter that an invariant is held at."""
    return f"{KEPT}{k}"
