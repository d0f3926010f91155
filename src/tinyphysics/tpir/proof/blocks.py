"""Which updates does a program make, and what does each depend on?  Its updates, in blocks that commute.

One step is read for all: what it finds in registers must be the same function of the state whether
`init` or another step went before. Then n steps do n times what one does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from fractions import Fraction

from tinyphysics.errors import VerifyError
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, substitute
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.equality.probe import seen_to_be_something
from tinyphysics.rules.formulas.gyration import WAYS, gyrated
from tinyphysics.tpir.program.isa import Instruction, Operand, Program, Register, Type, Word
from tinyphysics.tpir.program.liveness import reads_before_writing
from tinyphysics.tpir.program.symbolic import Symbolic, at_clock, clocks, state_of, state_var, version_of
from tinyphysics.tpir.proof.components import numbers
from tinyphysics.tpir.proof.force_gradient import Even, even
from tinyphysics.tpir.proof.heated import Heated, heated
from tinyphysics.tpir.proof.together import GROUPS, Together
from tinyphysics.tpir.proof.units import DT, added, check_undone, is_scaled, moving, rate, rescale
from tinyphysics.tpir.proof.walk import Walk, check_type
from tinyphysics.tpir.proof.weights import Applied, Update


@dataclass
class Group:
    """Consecutive updates that do not read what they write and share one h: one sub-flow."""

    updates: list[Update] = field(default_factory=list)

    @property
    def written(self) -> list[int]:
        return [u.state for u in self.updates]


@dataclass(frozen=True)
class Turned:
    """A momentum that turned about t, an expression of the states as they were."""

    update: Update
    about: UOp
    way: str


class Blocks:
    """A well-formed program as its declared terms and the groups of its updates."""

    name, refusal = "", "is an explicit map"

    def __init__(self, program: Program, shifts: bool = False) -> None:
        self.program, self.shifts = program, shifts  # are maps taken that only add to a state?
        self.scaled = is_scaled(program)
        self.groups: list[Group] = []
        self.relaxed: list[Update] = []  # by friction; each ends a group
        self.rates: dict[int, UOp] = {}  # those that it declares, by the number of its line
        self.heated: list[Heated] = []  # by a bath
        self.together = Together(program)  # by a bath that changes all states of a kind at once
        self.turned: list[Turned] = []  # about magnetic fields
        self.ended = False
        self.maps: list[str] = []
        self.mixing: str = ""  # a position added to a momentum
        self.unsettled: str = ""  # a register that differs from step to step
        self.forced: dict[Operand, bool] = {}
        self.left: dict[str, dict[Register, UOp]] = {}  # what a section leaves to a step or to `final`
        self.walk = Walk(program)
        self.normal, self.terms = self.walk.normal, self.walk.terms
        self.walk.read(self)
        if self.walk.trouble:
            self.maps.append(self.walk.trouble)
        self.maps += self.together.maps

    @property
    def updates(self) -> list[Update]:
        return [u for g in self.groups for u in g.updates]

    def besides(self, known: Collection[str]) -> str:
        """Why a reader that knows shears and these lines has no rule for another that moves a state; empty if it has."""
        others = [
            *self.relaxed,
            *(h.update for h in self.heated),
            *(t.update for t in self.turned),
            *(m.update for m in self.together.moves),
        ]
        found = [u for u in others if u.instruction.op not in known]
        first = min(found, key=lambda u: u.number, default=None)
        return (
            f"{first}: no rule is known for {first.instruction.op} beside {', '.join(known) or 'shears'}"
            if first
            else ""
        )

    def close(self, walk: Walk) -> None:
        """What a section leaves in registers, as functions of the state it leaves."""
        symbolic, out = walk.symbolic, {}
        steps = symbolic.steps + (walk.section == "step")
        for r in reads_before_writing((*self.program.step, *self.program.final)):
            if r.kind != "S" and r in symbolic.env:
                u = symbolic.env[r]
                table = {
                    v: state_var(self.program, k, version_of(v) - symbolic.version[k])
                    for v in u.leaves
                    if (k := state_of(v)) is not None
                }
                (u,) = substitute([u], table)
                for t in clocks(u) if steps else []:
                    u = at_clock(u, t, t - steps)
                out[r] = u
        self.left[walk.section] = out
        if walk.section == "final":
            for r, u in self.left["init"].items():
                if self.left["step"][r] is not u:
                    self.unsettled = (
                        f"{r} is carried from step to step, and is not the same function of the "
                        "state after a step as after `init`"
                    )

    def take(self, walk: Walk, i: Instruction) -> bool:
        symbolic, where = walk.symbolic, walk.where
        match i.row.numbers:
            case "by_flow" | "by_sum":
                self.update(walk, i)
            case "units":
                rescale(symbolic, i, where, self.normal)
            case "by_value" if i.row.reader == "friction":
                self.relax(walk, i)
            case "by_value" if i.op == "BATH":
                self.heat(walk, i)
            case "by_value" if i.op in GROUPS:
                self.together.take(walk, i)
                self.ended = True
            case "by_value" if i.row.reader == "pushers":
                self.gyrate(walk, i)
            case "by_value" if self.shifts and i.op == "MAP":
                self.shift(walk, i)
            case "by_value" | "turn" if isinstance(i.dst, Register) and i.row.kind == "update":
                check_type(symbolic.read(i.args[0], i.type, where), i, where)
                self.maps.append(f"{where} is an explicit map")
                symbolic.load(i.dst.index)
            case "whole":
                if i.row.run == "series":
                    self.maps.append(f"{where} follows a solution, to a tolerance")
                for k in range(len(self.program.states)):
                    symbolic.load(k)
            case "kept" | "watched" if not isinstance(i.dst, Register):
                symbolic.read(i.args[0], i.type, where)
                check_undone(symbolic, i, where)
            case how:
                self.forced[i.dst] = how == "flow" and i.args[1] == Word("force")
                self.check_mixing(symbolic, i, where)
                return False
        return True

    def relax(self, walk: Walk, i: Instruction) -> None:
        """A state times a factor: an update whose flow is that of the declared rate, and whose h is what the factor says."""
        symbolic, where, dst = walk.symbolic, walk.where, i.dst
        assert isinstance(dst, Register)
        value, own = symbolic.read(i.args[0], i.type, where), symbolic.read(dst, i.type, where)
        check_type(value, i, where)
        rate = symbolic.read(i.args[1], Type(i.type.dtype), where)
        h = decayed(value, own, rate, self.normal)
        if h is None or moving(h) or moving(rate):
            self.maps.append(
                f"{where} is not shown to be {dst} times exp(-rate*h) with a rate and an h that no state enters"
            )
        else:
            flow = -(rate.expand(own.shape) * state_var(self.program, dst.index, 0))
            self.relaxed.append(walk.update(i, flow, h))
            self.rates[walk.number] = rate
        self.ended = True
        symbolic.load(dst.index)

    def heat(self, walk: Walk, i: Instruction) -> None:
        """A momentum in a bath."""
        found = heated(walk, i)
        if isinstance(found, str):
            self.maps.append(found)
        else:
            self.heated.append(found)
        self.ended = True

    def gyrate(self, walk: Walk, i: Instruction) -> None:
        """A momentum turned about an axis that stays where it is while it turns."""
        symbolic, where, dst = walk.symbolic, walk.where, i.dst
        assert isinstance(dst, Register)
        value, own = symbolic.read(i.args[0], i.type, where), symbolic.read(dst, i.type, where)
        check_type(value, i, where)
        about = symbolic.read(i.args[2], i.type, where)
        way = str(i.args[1])
        if way not in WAYS or value is not gyrated(own, about, way):
            self.maps.append(f"{where} is not shown to be {dst} turned about {i.args[2]}")
        else:
            p = state_var(self.program, dst.index, 0)
            now = {
                state_var(self.program, k, v): state_var(self.program, k, 0)
                for k, v in symbolic.version.items()
            }
            if any(state_of(v) is not None and v not in now for v in about.leaves):
                self.maps.append(f"{where} turns about what is no longer so")
            (t,) = substitute([about], now)
            self.turned.append(Turned(walk.update(i, p, DT), t, way))
        self.ended = True
        symbolic.load(dst.index)

    def shift(self, walk: Walk, i: Instruction) -> None:
        """A state plus what it does not enter."""
        symbolic, where, dst = walk.symbolic, walk.where, i.dst
        assert isinstance(dst, Register)
        value, own = symbolic.read(i.args[0], i.type, where), symbolic.read(dst, i.type, where)
        check_type(value, i, where)
        version = state_var(self.program, dst.index, symbolic.version[dst.index])
        if added(value, own, version, self.normal) is None:
            self.maps.append(f"{where} is not shown to add to {dst} what {dst} does not enter")
        self.ended = True
        symbolic.load(dst.index)

    def check_mixing(self, symbolic: Symbolic, i: Instruction, where: str) -> None:
        """A position added to a momentum: a type error in a program that claims to be symplectic.

        In other units a momentum may well be what its position moves by.
        """
        summands: tuple[Operand, ...] = ()
        if i.op == "ELEM" and i.args[0] in (Word("add"), Word("sub")):
            summands = i.args[1:]
        if i.op == "FMA" and any(isinstance(x, float) for x in i.args[:2]):  # a multiple is of the same kind
            summands = i.args
        roles = [
            (self.program.states[r.index].role, r)
            for r in summands
            if isinstance(r, Register) and r.kind == "S" and r.index not in symbolic.units
        ]
        if len({role for role, _ in roles}) > 1 and not self.mixing:
            (a, x), (b, y) = roles[:2]
            self.mixing = f"{where} adds {a} {x} and {b} {y}"

    def update(self, walk: Walk, i: Instruction) -> None:
        symbolic, where, began = walk.symbolic, walk.where, walk.began
        assert isinstance(i.dst, Register)
        own = symbolic.read(i.dst, i.type, where)
        flow = symbolic.read(i.args[0], i.type, where)
        h = UOp.const(1.0)
        if i.row.numbers == "by_flow":
            h = symbolic.read(i.args[1], Type(i.type.dtype), where)
        if i.row.numbers == "by_sum":
            check_type(flow, i, where)
            sum_ = added(
                flow, own, state_var(self.program, i.dst.index, symbolic.version[i.dst.index]), self.normal
            )
            if sum_ is None:
                self.maps.append(f"{where} is not shown to add to {i.dst} what {i.dst} does not enter")
                symbolic.load(i.dst.index)
                return
            flow = sum_
        if h.shape:
            raise VerifyError(
                f"{where} has an h of shape {h.shape}",
                fix="h is one number: the components of a state move together.",
            )
        stale = ""
        for k in symbolic.version:
            old = [
                version_of(v) for v in flow.leaves if state_of(v) == k and version_of(v) < symbolic.version[k]
            ]
            if old:
                stale = (
                    f"{where} uses {i.args[0]}, computed from {state_var(self.program, k, min(old))}; "
                    f"S{k} is now S{k}@{symbolic.version[k]}"
                )
        gathered = h is not DT and DT in h.leaves and self.normal.ratio(h, DT) is None  # dt times parameters
        if (self.scaled or gathered) and not moving(h):
            moved = flow * h.expand(flow.shape)
            unit = symbolic.units.get(i.dst.index)
            flow, h = rate(moved if unit is None else moved / unit, self.normal)
        u = walk.update(i, symbolic.base(flow, began), symbolic.base(h, began))
        u.stale, u.force = stale, self.forced.get(i.args[0], False)
        self.join(u)
        if stale and walk.stale is None:
            walk.stale = u
        symbolic.load(i.dst.index)

    def apart(self, *updates: Update) -> bool:
        """Does none of them read a number that one of them moves?  Asked where a state moves by others of its numbers."""
        if any(u.stale for u in updates) or not any(u.state in moving(u.flow) for u in updates):
            return False
        ways: tuple[Callable[[UOp], bool], ...] = (
            seen_to_be_something,  # one number that is seen to move itself is enough for a no
            lambda x: not self.normal.is_zero(x),
        )
        for moves in ways:
            found = [numbers(self.program, u.state, u.flow, moves) for u in updates]
            known = [x for x in found if x is not None]
            read = frozenset(x for _, numbers_read in known for x in numbers_read)
            if len(known) < len(found) or any(moved & read for moved, _ in known):
                return False
        return True

    def join(self, u: Update) -> None:
        last = self.groups[-1] if self.groups and not self.ended else None
        self.ended = False
        independent = last is not None and all(
            v.section == u.section
            and v.h is u.h
            and v.state != u.state
            and (v.state not in moving(u.flow) and u.state not in moving(v.flow) or self.apart(u, v))
            for v in last.updates
        )
        if last is not None and independent:
            last.updates.append(u)
        else:
            self.groups.append(Group([u]))


def decayed(value: UOp, own: UOp, rate: UOp, normal: Normal) -> UOp | None:
    """The h with value = own * exp(-rate*h); None where that is not seen."""
    factors = [u for u in value.src if u is not own] if value.op is Ops.MUL and own in value.src else []
    factor = factors[0] if len(factors) == 1 else None
    while factor is not None and factor.op is Ops.EXPAND:
        (factor,) = factor.src
    if factor is None or factor.op is not Ops.EXP:
        return None
    whole = rate.expand(factor.shape) * DT.expand(factor.shape)
    weight = normal.ratio(factor.src[0], -whole)
    return None if weight is None else UOp.const(float(weight)) * DT


# --- parts: blocks that are multiples of one another ---------------------------------------------
@dataclass
class FlowPart:
    """What blocks are multiples of: flows by state, and what comes with dt**2 if anything does."""

    limit: dict[int, UOp]
    square: dict[int, Even]

    def weights(
        self, limit: dict[int, UOp], square: dict[int, Even], normal: Normal
    ) -> tuple[Fraction, Fraction] | None:
        """By which two numbers a block is this part; a part without dt**2 takes the block's."""
        w = multiple(limit, self.limit, normal)
        w = Fraction(0) if w is None and not limit else w
        if w is None or not (limit or self.square):
            return None
        if not square:
            return w, Fraction(0)
        if not self.square:
            self.square = square
        if square.keys() != self.square.keys():
            return None
        ratios = {x.over(self.square[s], normal) for s, x in square.items()}
        v = ratios.pop() if len(ratios) == 1 else None
        return None if v is None else (w, v)


def is_literal(blocks: Blocks) -> bool:
    """Is the step written as a number, rather than as $dt?"""
    return all(DT not in u.h.leaves for u in blocks.updates)


def length(u: Update, normal: Normal, literal: bool) -> Fraction | None:
    """h as a multiple of dt, or of 1 where the program writes its step as a number."""
    return normal.ratio(u.h, UOp.const(1.0) if literal else DT)


def idle(u: Update, normal: Normal) -> bool:
    """Is its flow shown to be nothing?"""
    return DT not in u.flow.leaves and normal.is_zero(u.flow)


def applied(blocks: Blocks, normal: Normal) -> tuple[list[Applied], str]:
    """The blocks of a run of one step by what they do, and what keeps them from being named.

    Blocks that are multiples of one another are one part.
    """
    parts: list[FlowPart] = []
    out: list[Applied] = []
    literal = is_literal(blocks)
    fixed = literal or any(DT in term.leaves for term in blocks.terms)  # then dt going to 0 says nothing
    for g in blocks.groups:
        flows = {u.state: u.timeless for u in g.updates if not idle(u, normal)}
        if not flows:
            continue
        u = g.updates[0]
        h, times = length(u, normal, literal), {t for v in g.updates for t in v.times}
        if h is None:
            return [], f"{u}: h is not shown to be a multiple of dt"
        parted = {s: x for s, f in flows.items() if (x := even(f, normal)) is not None}
        if len(parted) < len(flows) or fixed and any(DT in f.leaves for f in flows.values()):
            return [], f"{u}: the flow itself depends on dt"
        if len(times) > 1:
            return [], f"{u} reads more than one time"
        limit = {s: x.limit for s, x in parted.items() if not normal.is_zero(x.limit)}
        square = {s: x for s, x in parted.items() if x.square is not None}
        found = (
            (k, both) for k, x in enumerate(parts) if (both := x.weights(limit, square, normal)) is not None
        )
        part, (w, v) = next(found, (len(parts), (Fraction(bool(limit)), Fraction(bool(square)))))
        if part == len(parts):
            parts.append(FlowPart(limit, square))
        reads = frozenset(k for f in flows.values() for v in f.leaves if (k := state_of(v)) is not None)
        out.append(Applied(part, w * h, next(iter(times), None), u, frozenset(flows), reads, v * h))
    return out, ""


def multiple(flows: dict[int, UOp], known: dict[int, UOp], normal: Normal) -> Fraction | None:
    """The number r with flows = r * known, state by state."""
    if flows.keys() != known.keys():
        return None
    ratios = {normal.ratio(f, known[s]) for s, f in flows.items()}
    return ratios.pop() if len(ratios) == 1 else None
