"""Which lines of a program are one move of a bath?  Those that change all states of a kind at once, by one formula.

Their values are functions of the states as they were before the first of the lines, and are compared with what the formula
of the bath gives for those.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import isqrt

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.formulas.memory import GLE, Rows, remembered
from tinyphysics.rules.formulas.overdamped import diffused
from tinyphysics.rules.formulas.thermostats import Thermostat, together
from tinyphysics.tpir.program.isa import Instruction, Program, Register, Type
from tinyphysics.tpir.proof.units import DT, moving
from tinyphysics.tpir.proof.walk import Walk, check_type
from tinyphysics.tpir.proof.weights import Update

GROUPS = ("THERMO", "DIFFUSE", "MEMORY")
WHAT = "is not shown to be a part of what a bath makes of all momenta"


@dataclass(frozen=True)
class Line:
    update: Update
    own: UOp  # the state as it was
    value: UOp
    told: tuple[object, ...]  # numbers and words of the line, and what its registers hold


@dataclass(frozen=True)
class Moved:
    """One move of a bath, by all of its lines."""

    lines: tuple[Line, ...]
    way: str
    weight: float
    kT: UOp
    drawn: tuple[UOp, ...]
    bath: Thermostat | None = None
    inverse: tuple[UOp, ...] = ()  # of the momenta, in the order of the states
    rates: tuple[UOp, ...] = ()
    forces: tuple[UOp, ...] = ()
    matrices: tuple[Rows, Rows] | None = None

    @property
    def update(self) -> Update:
        return self.lines[0].update


@dataclass
class Together:
    """The moves of a program, as its lines are read."""

    program: Program
    moves: list[Moved] = field(default_factory=list)
    maps: list[str] = field(default_factory=list)
    open: list[Line] = field(default_factory=list)
    turning: tuple[int, ...] = ()  # angular momenta, which are momenta too

    @property
    def momenta(self) -> list[int]:
        return [k for k, s in enumerate(self.program.states) if s.role == "momentum" or k in self.turning]

    def wanted(self, op: str) -> list[int]:
        """The states that one move of such lines changes, in the order of the lines."""
        states, momenta = list(enumerate(self.program.states)), self.momenta
        if op == "THERMO":
            return [*momenta, *(k for k, s in states if s.role == "field")]
        if op == "MEMORY":  # each momentum, and the numbers beside it, which follow in its order
            fields = [k for k, s in states if s.role == "field"]
            each = len(fields) // len(momenta)
            return [x for j, k in enumerate(momenta) for x in (k, *fields[j * each : (j + 1) * each])]
        pairs = [(self.program.conjugate(k), k) for k in momenta]
        return [k for pair in pairs for k in pair if k is not None]

    @property
    def incomplete(self) -> str:
        """Why lines at the end are no move: others of them are missing."""
        return f"{self.open[0].update} {WHAT}" if self.open else ""

    def take(self, walk: Walk, i: Instruction) -> None:
        symbolic, where, dst = walk.symbolic, walk.where, i.dst
        assert isinstance(dst, Register)
        value, own = symbolic.read(i.args[0], i.type, where), symbolic.read(dst, i.type, where)
        check_type(value, i, where)
        number = Type(i.type.dtype)
        registers = {"THERMO": i.args[3:6], "DIFFUSE": i.args[1:4], "MEMORY": i.args[2:4]}[i.op]
        told: list[object] = [symbolic.read(x, number, where) for x in registers]
        if i.op == "THERMO":
            told += [str(i.args[1]), i.args[2], i.args[6], i.args[7]]
        elif i.op == "DIFFUSE":
            told.append(symbolic.read(i.args[4], i.type, where))
        else:
            told += [i.args[1], i.args[4], i.args[5]]
        order, k = self.wanted(i.op), len(self.open)
        if (
            k < len(order)
            and order[k] == dst.index
            and all(x.update.instruction.op == i.op for x in self.open)
        ):
            weight = {"THERMO": i.args[2], "DIFFUSE": 1.0, "MEMORY": i.args[1]}[i.op]
            assert isinstance(weight, float)
            self.open.append(Line(walk.update(i, own, UOp.const(weight) * DT), own, value, tuple(told)))
        else:
            self.maps.append(f"{where} {WHAT}")
        if len(self.open) == len(order):
            lines, self.open = tuple(self.open), []
            how = {"THERMO": thermostat, "DIFFUSE": brownian, "MEMORY": memory}
            found = how[i.op](len(self.momenta), lines)
            if found is None:
                self.maps.append(f"{lines[0].update} {WHAT}")
            else:
                self.moves.append(found)
        symbolic.load(dst.index)


def drawn_in(values: list[UOp]) -> tuple[UOp, ...]:
    """The random numbers of a move, by their streams."""
    found = {u for u in toposort(values) if u.op is Ops.RANDOM}
    return tuple(sorted(found, key=lambda u: int(u.arg[1])))


def thermostat(count: int, lines: tuple[Line, ...]) -> Moved | None:
    """Of so many momenta, and what the bath has besides."""
    kT, tau, _, way, weight, g, axes = lines[0].told
    if any(x.told[0] is not kT or x.told[1] is not tau or x.told[3:] != lines[0].told[3:] for x in lines):
        return None
    assert isinstance(kT, UOp) and isinstance(tau, UOp) and isinstance(g, float) and isinstance(axes, tuple)
    assert isinstance(weight, float) and isinstance(way, str)
    inverse = tuple(x.told[2] for x in lines[:count])
    owns = [x.own for x in lines]
    bath = Thermostat(tuple(owns[:count]), inverse, tuple(owns[count:]), kT, tau, g, axes)  # type: ignore[arg-type]
    drawn = drawn_in([x.value for x in lines])
    if any(map(moving, (kT, tau, *inverse))):  # type: ignore[arg-type]
        return None
    meant = together(way, bath, weight, drawn, DT)
    if meant is None or any(x.value is not meant.get(x.own) for x in lines):
        return None
    return Moved(lines, way, weight, kT, drawn, bath, inverse)  # type: ignore[arg-type]


def rows_of(entries: object) -> Rows | None:
    """A square matrix of the numerators and denominators of a line."""
    assert isinstance(entries, tuple)
    n = isqrt(len(entries))
    fine = n * n == len(entries) and all(isinstance(x, tuple) and len(x) == 2 and x[1] > 0 for x in entries)
    if not n or not fine:
        return None
    return tuple(tuple(Fraction(*entries[n * i + j]) for j in range(n)) for i in range(n))


def memory(count: int, lines: tuple[Line, ...]) -> Moved | None:
    kT, _, weight, *both = lines[0].told
    A, C = map(rows_of, both)
    each = len(lines) // count
    if A is None or C is None or len(A) != each or len(C) != each:
        return None
    assert isinstance(kT, UOp) and isinstance(weight, float)
    inverse: list[object] = []
    drawn: list[UOp] = []
    for k in range(count):
        group = lines[each * k : each * (k + 1)]
        w = group[0].told[1]
        same = all(x.told[0] is kT and x.told[1] is w and x.told[2:] == lines[0].told[2:] for x in group)
        own = drawn_in([x.value for x in group])
        if not same or len(own) != each or moving(kT) or moving(w):  # type: ignore[arg-type]
            return None
        meant = remembered([x.own for x in group], kT, w, A, C, weight, own, DT)  # type: ignore[arg-type]
        if any(x.value is not u for x, u in zip(group, meant)):
            return None
        inverse.append(w)
        drawn += own
    return Moved(lines, GLE, weight, kT, tuple(drawn), None, tuple(inverse), matrices=(A, C))  # type: ignore[arg-type]


def brownian(count: int, lines: tuple[Line, ...]) -> Moved | None:
    drawn = drawn_in([x.value for x in lines])
    pairs = list(zip(lines[::2], lines[1::2]))
    if len(drawn) != len(pairs):
        return None
    for q, p in pairs:
        kT, w, rate, force = q.told
        own = next((u for u in drawn if u in set(toposort([p.value]))), None)
        if own is None or any(a is not b for a, b in zip(q.told[:3], p.told)) or kT is not lines[0].told[0]:
            return None
        if any(map(moving, (kT, w, rate))):  # type: ignore[arg-type]
            return None
        meant = diffused(q.own, p.own, force, kT, w, rate, own, DT)  # type: ignore[arg-type]
        if q.value is not meant[0] or p.value is not meant[1]:
            return None
    kinds = [tuple(x.told[k] for x, _ in pairs) for k in (1, 2, 3)]
    return Moved(lines, "brownian", 1.0, lines[0].told[0], drawn, None, *kinds)  # type: ignore[arg-type]
