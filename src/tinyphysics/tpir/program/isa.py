"""The instructions of TP-IR: one table, which the parser, the proofs, the precisions, the costs and the docs read.

A program has four sections over typed registers. `energy` declares the scalars that the program claims
to split, and in B registers what its bracket is made of; it is run only where an energy is asked for.
A run of n steps is `init`, `step` n times, `final` on a copy of the registers. Semantics are eager: a
register holds the value computed when its instruction ran, whatever is rewritten later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from tinyphysics.ir.dtype import DType, f64
from tinyphysics.ir.uop import Shape, UOp
from tinyphysics.structure import CLAIMS as CLAIMS
from tinyphysics.structure import ROLES as ROLES
from tinyphysics.structure import WORDS as WORDS_OF_POISSON_J
from tinyphysics.tpir.program import values
from tinyphysics.tpir.program.values import FRAMES as FRAMES
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

    @property
    def row(self) -> InstructionRow:
        return ISA[self.op]

    @property
    def sources(self) -> tuple[Operand, ...]:
        """What it reads: its destination too, if it adds to that."""
        return self.operands if self.row.reads_own else self.args

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

    @property
    def counts(self) -> bool:
        """Is it made of whole numbers or conditions, all of which are good?  Those of a lattice are no fields."""
        return self.role == "field" and not self.type.dtype.is_float


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
    bracket: str = field(
        default="", kw_only=True
    )  # the word of its structure, where the roles of states do not say it

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

    @property
    def draws(self) -> bool:
        """Does it draw random numbers?"""
        return any(i.row.numbers == "drawn" for _, _, i in self.numbered())

    def conjugate(self, index: int) -> int | None:
        """The other half of a canonical pair."""
        own = self.states[index].conjugate
        if own is not None:
            return own
        return next((i for i, s in enumerate(self.states) if s.conjugate == index), None)

    def __str__(self) -> str:
        return self.text(notes=True)

    def text(self, notes: bool) -> str:
        """The listing; without notes and defaults it is what the hash is made of."""
        lines = [f"program {self.name}"]
        if self.claims:
            lines.append(f"claim {' '.join(self.claims)}")
        if self.bracket:
            lines.append(f"bracket {self.bracket}")
        if self.math != "exact":
            lines.append(f"math {self.math}")
        for i, s in enumerate(self.states):
            other = s.conjugate if s.low_of is None else s.low_of
            of = f" of S{other}" if other is not None else ""
            lines.append(f"state S{i} {s.name} {s.type} {s.role}{of}")
        lines += [str(p) if notes else str(replace(p, default=None)) for p in self.params]
        for section in SECTIONS:
            body = self.section(section)
            if body or section == "step":
                lines.append(f"{section}:")
                lines += [f"  {i}" + (f"  ; {i.note}" if notes and i.note else "") for i in body]
        return "\n".join(lines) + "\n"

    def __hash__(self) -> int:
        return self._number

    @cached_property
    def _number(self) -> int:
        """Every cache asks for it, and it is made of all instructions."""
        return hash(
            (self.name, self.claims, self.states, self.init, self.step, self.final, self.math, self.bracket)
        )

    def __getstate__(self) -> dict[str, Any]:
        """Without what another process would count in another way."""
        return {name: value for name, value in self.__dict__.items() if name != "_number"}

    @cached_property
    def hash(self) -> str:
        """Of the text without its notes and defaults: the identity of a program, whatever runs it."""
        return digest(self.text(notes=False).encode())


Kind = Literal[
    "value",  # computes what its destination becomes
    "update",  # moves one state
    "all states",  # moves all of them at once
    "memory",  # between a state and memory
    "probe",  # for whoever watches
    "open",  # begins the rounds of a solution
    "close",  # ends them
]
Behaviour = Literal[
    "plain", "moved", "summed", "listed", "tree", "line", "clock", "drawn",  # temporaries
    "gradient", "added", "flow",  # derivatives, and what is made of them
    "by_flow", "by_sum", "by_value", "units",  # updates: s + h*f, s plus something, anything, times a factor
    "orbit", "turn", "solved", "whole",  # what a method computes in a way of its own
    "kept", "watched",
]  # fmt: skip
# what depends on more than the registers as they are
History = Literal["list", "tree", "rounds", "jump", "series"]
Proof = Literal[
    "friction", "baths", "pushers", "exact", "maps", "orbits", "stages", "turns", "rotations", "constraints"
]  # of tpir/proof/readers/; the other one reads shears


@dataclass(frozen=True)
class InstructionRow:
    """An instruction: its operands, the register kinds it may write, its meaning; and what the stages ask about it."""

    operands: str
    writes: str  # kinds of the destination; & is memory, - is nothing
    meaning: str
    form: str  # the operands after it, as a pattern: r register or $parameter, c number, w word, n numbers
    value: Callable[[values.Operands], UOp] | None = None  # what the destination becomes, as one node
    run: History | None = None  # how the virtual machine runs it, if not by its value
    kind: Kind = "value"
    numbers: Behaviour = "plain"  # how a precision rewrites it
    cost: str = "free"  # the name under which its operations are counted; "function": that of its word
    written: bool = False  # is it one operation of a kernel for each number?
    reads_own: bool = False  # is its destination a source?
    rolls: bool = True  # may a step with it be a loop over stages?
    reader: Proof | None = None  # the proof that a program with it needs
    no_part_of: tuple[Proof, ...] = ()  # the proofs that do not follow it


# fmt: off
ISA: dict[str, InstructionRow] = {
    "LOAD":      InstructionRow("S, &name", "S", "state from memory into a register", "&",
        kind="memory", numbers="kept"),
    "STORE":     InstructionRow("&name, S", "&", "state back to memory, after every read of the old one", "r",
        kind="memory", numbers="kept"),
    "ELEM":      InstructionRow("dst, func, src...", "TEB", "element-wise function; a number is a constant array", "w[rc]+",
        value=values.function, cost="function"),
    "FMA":       InstructionRow("dst, a, b, c", "TEGB", "a*b + c with one rounding", "[rc]{3}",
        value=values.multiply_add, cost="fma", written=True),
    "SUM":       InstructionRow("dst, src, axes", "TEB", "sum along axes, in the order that the sizes prescribe", "rn",
        value=values.reduced, numbers="summed", cost="add"),
    "DOT":       InstructionRow("dst, a, b, axis", "TEB",
        "sum of a*b along an axis, in that order; each product joins with one rounding", "rrn",
        value=values.dotted, numbers="summed", cost="fma"),
    "PAIRS":     InstructionRow("dst, src, axis, (a, b)", "TEB", "sum along a or b over the pairs with index a < index b",
        "rnn", value=values.reduced, numbers="summed", cost="add"),
    "NEAR":      InstructionRow("dst, what, points, cutoff, skin, [cell], (list, [way])", "T",
        "a part of a neighbour list (order, inverse, images), rebuilt when a point has moved by half the skin",
        "w[rc]{3,4}n", value=values.listed, run="list", numbers="listed", no_part_of=("orbits", "stages")),
    "TREE":      InstructionRow("dst, points, masses, e2, [cotangents], error", "T",
        "the gradient of the sum of m/sqrt(r*r + e2) over the other points, by a tree, to a relative error; "
        "of its cotangents those of points (3), masses and e2",
        "[rc]{3,4}c", value=values.tree, run="tree", numbers="tree", cost="TREE", no_part_of=("orbits", "stages", "turns")),
    "LINE":      InstructionRow("dst, low, own, high, right, (low mask, high mask)", "T",
        "block tridiagonal equations along the third axis, solved place by place: what eliminates them, then the solution",
        "r{4}n", value=values.line, numbers="line", cost="fma", no_part_of=("maps", "orbits", "stages", "turns")),
    "MAX":       InstructionRow("dst, src, axes", "TEB", "largest element along axes", "rn",
        value=values.reduced, numbers="summed", cost="MAX"),
    "MIN":       InstructionRow("dst, src, axes", "TEB", "smallest element along axes", "rn",
        value=values.reduced, numbers="summed", cost="MIN"),
    "FOURIER":   InstructionRow("dst, re, im, (part, sign, axis)", "TEB",
        "the real (0) or imaginary (1) part of the Fourier transform along an axis, not divided by its length",
        "[rc]{2}n", value=values.transformed, cost="FOURIER"),
    "ELLIPTIC":  InstructionRow("dst, f, s, w..., [k], tolerance, (end..., method, cycles, smoother)", "TEB",
        "the u with -div(k grad u) + s*u = f on a grid, w = 1/h**2 (or k/h**2) along each axis; "
        "ends 0 periodic, 1 zero, 2 no flux; by 0 transforms, 1 multigrid",
        "[rc]{3,6}cn", value=values.elliptic, cost="ELLIPTIC"),
    "MESH":      InstructionRow("dst, what, x, y, (order, derivative..., nodes...)", "TEB",
        "particles on a periodic mesh: spread places x and charges y, interpolate nodes y at places x, convolve nodes x with "
        "a number for each wave y, half_square of that, or spectrum of nodes x and y",
        "wrrn", value=values.meshed, cost="MESH"),
    "MOVE":      InstructionRow("dst, func, [src...], [numbers]", "TEB", "the same numbers in another arrangement",
        "w([rc]+n?)?", value=values.function, numbers="moved"),
    "TIME":      InstructionRow("dst, c, [e, word]", "T",
        "t0 + (n + c)*dt in float64, then rounded; n steps were done when the section began; "
        "with e, the high or low word of t0 + (n + c + e)*dt as a pair of float64",
        "c(cw)?", value=lambda o: o.time(), numbers="clock", no_part_of=("orbits",)),
    "NOISE":     InstructionRow("dst, kind, index, (stream, count)", "T",
        "random numbers of this step, `count` for each member", "w[rc]n",
        value=values.noise, numbers="drawn", cost="random", no_part_of=("orbits", "stages", "turns")),
    "GRAD_INIT": InstructionRow("g, value", "G", "set an accumulator: 1 to seed, 0 to clear, or a derivative", "[rc]",
        value=values.source, numbers="gradient"),
    "ACC_GRAD":  InstructionRow("g, up, func, k, src...", "G", "g += up * d func(src...)/d src[k]", "[rc]wc[rc]+",
        value=values.accumulated, numbers="added", cost="ACC_GRAD", written=True, reads_own=True),
    "POISSON_J": InstructionRow("f, g, type", "F",
        "gradient to flow: pass dH/dp, negate dH/dq; bracket, P(z) dH, and force as they are", "rw",
        value=values.flow, numbers="flow"),
    "LIE_CROSS": InstructionRow("f, l, g", "F",
        "l x g: what moves an angular momentum that its body sees; POISSON_J f, g, lie is read as this", "rr",
        value=values.crossed, numbers="turn", cost="cross", no_part_of=("maps", "orbits", "stages", "turns")),
    "SYMP_STEP": InstructionRow("s, f, h", "S", "s + h*f with one rounding: a shear", "r[rc]",
        value=values.moved, kind="update", numbers="by_flow", cost="fma", written=True, reads_own=True,
        no_part_of=("maps",)),
    "SHIFT":     InstructionRow("s, value", "S", "s := value, which is s plus what s does not enter: a shear", "r",
        value=values.source, kind="update", numbers="by_sum", no_part_of=("maps", "orbits", "stages", "turns")),
    "SCALE":     InstructionRow("s, way, factor", "S", "s in other units: times the factor, or over it", "w[rc]",
        value=values.scaled, kind="update", numbers="units", cost="mul", written=True, reads_own=True,
        no_part_of=("maps", "orbits", "stages", "turns")),
    "JACOBI":    InstructionRow("dst, way, src, masses, order", "STF",
        "rows of bodies as seen from the centre of mass of the bodies inside, or back; its row 0 is that of all",
        "wrrn", value=values.jacobi, numbers="orbit", cost="fma", reader="orbits", no_part_of=("maps", "turns")),
    "KEPLER":    InstructionRow("dst, q, v, gm, h, (part,)", "T",
        "Jacobi positions (0) or velocities (1) a time h later: row 0 straight on, the others on Kepler orbits",
        "rrr[rc]n", value=values.kepler, numbers="orbit", cost="orbit", reader="orbits", no_part_of=("maps", "turns")),
    "KEPLER_ALONG": InstructionRow("dst, q, v, gm, h, dq, dv, dgm, (part,)", "T",
        "how positions (0) or velocities (1) of KEPLER change along a direction of q, v and gm",
        "rrr[rc]{4}n", value=values.kepler_along, numbers="orbit", cost="orbit", reader="orbits",
        no_part_of=("maps", "turns")),
    "PULL":      InstructionRow("f, a, q, gm", "F",
        "accelerations in Jacobi coordinates without the part that KEPLER accounts for", "rrr",
        value=values.pull, numbers="orbit", cost="pull", reader="orbits", no_part_of=("turns",)),
    "ORBIT":     InstructionRow("s, value", "S", "s := its part of a flow that is exact, with its conjugate", "r",
        value=values.source, kind="update", numbers="orbit", rolls=False, reader="orbits",
        no_part_of=("maps", "stages", "turns")),
    "SOLVE":     InstructionRow("x, start", "T", "an unknown; the lines from here to its UNTIL are repeated", "[rc]",
        run="rounds", kind="open", numbers="solved", rolls=False, reader="stages", no_part_of=("maps", "turns")),
    "UNTIL":     InstructionRow("x, residual, [matrix or correction], scale, (rounds,)", "T",
        "x := x - residual, or x - matrix times residual, or x - correction; repeated until that no longer gets smaller; "
        "scale is one over the size of x; NaN if that takes more rounds",
        "r{1,2}[rc]n", run="rounds", kind="close", numbers="solved", rolls=False, no_part_of=("maps", "turns")),
    "FLOW":      InstructionRow("dst, $matrix, energy, h", "T",
        "the matrix of the flow of an energy of degree 2 or less for a time h, "
        "passed in as two words for each entry",
        "rr[rc]", value=values.source, numbers="turn", no_part_of=("maps", "stages")),
    "FLOW_ALONG": InstructionRow("dst, $matrix, energy, h, $by, (number,)", "T",
        "how the matrix of FLOW changes with a number of a parameter, passed in as two words for each entry",
        "rr[rc]rn", value=values.source, numbers="turn", no_part_of=("maps", "orbits", "stages", "turns")),
    "ROTATE":    InstructionRow("s, value", "S",
        "s := its part of the exact flow of a quadratic energy, with all other states", "r",
        value=values.source, kind="update", numbers="turn", written=True, reader="turns",
        no_part_of=("maps", "orbits", "stages")),
    "TURN":      InstructionRow("s, value", "S",
        "s := its part of an exact turn of bodies about one of their axes, or a unit vector brought back to length 1", "r",
        value=values.source, kind="update", numbers="by_value", written=True, reader="rotations",
        no_part_of=("maps", "orbits", "stages", "turns")),
    "MAP":       InstructionRow("s, value", "S",
        "s := value: an explicit map; of pairs it is symplectic where its Jacobian is shown to be", "[rc]",
        value=values.source, kind="update", numbers="by_value", reader="maps", no_part_of=("orbits", "turns")),
    "RELAX":     InstructionRow("s, value, rate", "S",
        "s := value, which is s times exp(-rate*h): the flow of s' = -rate*s for a time h", "r[rc]",
        value=values.source, kind="update", numbers="by_value", reader="friction",
        no_part_of=("maps", "orbits", "stages", "turns")),
    "BATH":      InstructionRow("s, value, way, weight, kT, w, rate", "S",
        "s := value, what a bath at the thermal energy kT makes of the momentum s with masses 1/w in the time weight*dt: "
        "langevin, exp(-rate*h) s and noise; andersen, drawn anew with the probability 1 - exp(-rate*h)",
        "rwc[rc]{3,}",
        value=values.source, kind="update", numbers="by_value", reader="baths",
        no_part_of=("maps", "orbits", "stages", "turns", "rotations", "exact")),
    "THERMO":    InstructionRow("s, value, way, weight, kT, tau, w, g, (axis,)", "S",
        "s := value, its part of what a bath makes of all momenta together, with masses 1/w, in the time weight*dt: bussi, "
        "one random factor; nose_hoover, a chain, whose states are among them; g degrees of freedom, one less for each axis",
        "rwc[rc]{3}cn",
        value=values.source, kind="update", numbers="by_value", reader="baths",
        no_part_of=("maps", "orbits", "stages", "turns", "rotations", "exact")),
    "DIFFUSE":   InstructionRow("s, value, kT, w, rate, force", "S",
        "s := value, a Brownian step of a position under a force, or the noise that its momentum with the mass 1/w keeps",
        "r[rc]{4}",
        value=values.source, kind="update", numbers="by_value", reader="baths",
        no_part_of=("maps", "orbits", "stages", "turns", "rotations", "exact")),
    "MEMORY":    InstructionRow("s, value, weight, kT, w, (A,), (C,)", "S",
        "s := value, a momentum with the mass 1/w, or a number beside it, after weight*dt in a bath (p, s)' = -A(p, s) "
        "+ noise, whose law has the matrix C; entries of both are (numerator, denominator)",
        "rc[rc]{2}nn",
        value=values.source, kind="update", numbers="by_value", reader="baths",
        no_part_of=("maps", "orbits", "stages", "turns", "rotations", "exact")),
    "GYRATE":    InstructionRow("s, value, way, t", "S",
        "s := value, which is s turned about t along the last axis: by 2 atan of its length (cayley), or twice that (exact)",
        "rwr",
        value=values.source, kind="update", numbers="by_value", reader="pushers",
        no_part_of=("maps", "orbits", "stages", "turns")),
    "EXACT":     InstructionRow("s, value, h, (term,)", "S",
        "s := its part of the exact flow of a term of the energy for a time h, with the lines beside it", "r[rc]n",
        value=values.source, kind="update", numbers="by_value", reader="exact",
        no_part_of=("maps", "orbits", "stages", "turns", "rotations")),
    "CONSTRAIN": InstructionRow("s, value", "S",
        "s := its part of a drift along what B registers keep zero, or a momentum without its part across that", "r",
        value=values.source, kind="update", numbers="by_value", reader="constraints",
        no_part_of=("maps", "orbits", "stages", "turns", "rotations", "exact")),
    "PROPAGATE": InstructionRow("s, way, [energy, weight]...", "S",
        "all states after n steps: the flow of the energies for n*dt, that of free bodies, or the n-th power of flows",
        "w(rc)+", run="jump", kind="all states", numbers="whole", no_part_of=("maps", "stages", "turns")),
    "SERIES":    InstructionRow("s, rate..., (order,)", "S",
        "all states along the Taylor series of the solution with these derivatives, "
        "as far as its last terms allow",
        "[rc]+n", run="series", kind="all states", numbers="whole", no_part_of=("maps", "orbits", "stages", "turns")),
    "OBSERVE":   InstructionRow("&name, value", "&", "the value of an observable; never read back", "[rc]",
        kind="probe", numbers="watched"),
}
# fmt: on

# what a step may observe: where it holds for no member, a step changes nothing and a loop may end
GOING = "going"
WORDS = ("high", "low")
POISSON_TYPES = WORDS_OF_POISSON_J
JUMPS = ("flow", "damped", "power", "bodies")
MATHS = ("exact", "fast")


def kept_name(k: int) -> str:
    """Of the parameter that an invariant is held at."""
    return f"{KEPT}{k}"
