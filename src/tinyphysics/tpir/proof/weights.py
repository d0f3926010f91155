"""How much of each part does a step apply, in which order, and at which times?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

from tinyphysics.ir.uop import UOp
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.tpir.program.symbolic import state_of
from tinyphysics.tpir.proof.blocks import STEPS_DONE, Blocks, Update
from tinyphysics.tpir.proof.force_gradient import Even, even
from tinyphysics.tpir.proof.units import DT

TOL = Fraction(1, 2**46)  # weights are sums of a few rounded coefficients
TIME = -1  # as a part: what advances the clock, where all others read it
NOTHING: frozenset[int] = frozenset()


@dataclass(frozen=True)
class SubFlow:
    """A block by what it does: which part it is a multiple of, by which weight, at which time."""

    part: int
    weight: Fraction
    time: float | None  # in steps since the run began
    update: Update = field(compare=False, repr=False)
    moves: frozenset[int]  # the states that it updates
    reads: frozenset[int]  # those that it depends on
    square: Fraction = Fraction(0)  # the weight of what comes with dt**2, a function of the same positions

    def plus(self, other: SubFlow) -> SubFlow:
        return replace(self, weight=self.weight + other.weight, square=self.square + other.square)

    def commutes(self, other: SubFlow) -> bool:
        """Two kicks do: neither reads what one of them moves. What advances the time, which kicks may read, does not."""
        return TIME not in (self.part, other.part) and not (self.moves | other.moves) & (
            self.reads | other.reads
        )

    @property
    def idle(self) -> bool:
        return abs(self.weight) <= TOL and abs(self.square) <= TOL

    def same(self, other: SubFlow) -> bool:
        """At whatever time."""
        return (
            self.part == other.part
            and abs(self.weight - other.weight) <= TOL
            and abs(self.square - other.square) <= TOL
        )


@dataclass
class Part:
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


def sub_flows(blocks: Blocks, normal: Normal) -> tuple[list[SubFlow], str]:
    """The blocks of a run of one step by what they do, and what keeps them from being named.

    Blocks that are multiples of one another are one part.
    """
    parts: list[Part] = []
    out: list[SubFlow] = []
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
            parts.append(Part(limit, square))
        reads = frozenset(k for f in flows.values() for v in f.leaves if (k := state_of(v)) is not None)
        out.append(SubFlow(part, w * h, next(iter(times), None), u, frozenset(flows), reads, v * h))
    return out, ""


def multiple(flows: dict[int, UOp], known: dict[int, UOp], normal: Normal) -> Fraction | None:
    """The number r with flows = r * known, state by state."""
    if flows.keys() != known.keys():
        return None
    ratios = {normal.ratio(f, known[s]) for s, f in flows.items()}
    return ratios.pop() if len(ratios) == 1 else None


def merged(flows: list[SubFlow]) -> list[SubFlow]:
    """Those of one part and one time added where only what commutes is between them, and what adds to nothing left out.

    What commutes comes in the order of its parts, so that equal products are equal lists.
    """
    out: list[SubFlow] = []
    for f in flows:
        k = len(out)
        while (
            k and out[k - 1].commutes(f) and (out[k - 1].part, out[k - 1].time or 0) > (f.part, f.time or 0)
        ):
            k -= 1
        if k and out[k - 1].part == f.part and at_once(out[k - 1].time, f.time):
            k -= 1
            f = f.plus(out.pop(k))
        if not f.idle:
            out.insert(k, f)
    return out


def at_once(a: float | None, b: float | None) -> bool:
    return a is b if a is None or b is None else abs(Fraction(a) - Fraction(b)) <= TOL


def uneven(flows: list[SubFlow]) -> str:
    """Why n steps are not n times one step; empty if they are."""
    final, init = (
        [
            replace(f, time=None if f.time is None else f.time - STEPS_DONE[name])
            for f in flows
            if f.update.section == name
        ]
        for name in ("final", "init")
    )
    if merged([*final, *init]):
        return "what `final` does is not undone by `init`, so that n steps are not n times one step"
    return ""


def is_palindrome(flows: list[SubFlow]) -> bool:
    """Is a step its own adjoint?  That has the sub-flows in reverse, and what was seen at the time c is seen at 1 - c."""
    if time_is_a_part(flows):
        whole = with_time(flows)
        there, back = merged(whole), merged(whole[::-1])
        return len(there) == len(back) and all(a.same(b) for a, b in zip(there, back))
    adjoint = [f if f.time is None else replace(f, time=float(1 - Fraction(f.time))) for f in reversed(flows)]
    there, back = merged(flows), merged(adjoint)
    return len(there) == len(back) and all(a.same(b) and at_once(a.time, b.time) for a, b in zip(there, back))


def time_is_a_part(flows: list[SubFlow]) -> bool:
    """Do all parts read the time?  Then it advances in none of them, but between them."""
    return {f.part for f in flows if f.time is None} <= {TIME} and any(f.time is not None for f in flows)


def with_time(flows: list[SubFlow]) -> list[SubFlow]:
    """The sub-flows of one step from 0 to 1, with those that advance time between two that see different ones."""
    out: list[SubFlow] = []
    now = Fraction(0)
    for f in flows:
        assert f.time is not None
        out += [SubFlow(TIME, Fraction(f.time) - now, None, f.update, NOTHING, NOTHING), f]
        now = Fraction(f.time)
    return [*out, SubFlow(TIME, 1 - now, None, flows[-1].update, NOTHING, NOTHING)]


def clock_trouble(flows: list[SubFlow]) -> str:
    """Time must advance inside exactly one part: what the clocked blocks see is the weight of that part.

    Where every part reads it, it is a part of its own, and the palindrome is one of three parts.
    """
    clocked = {f.part for f in flows if f.time is not None}
    if not clocked or time_is_a_part(flows):
        return ""
    ticking = [*dict.fromkeys(f.part for f in flows if f.part not in clocked)] or [-1]
    reasons = [off_the_clock(flows, part) for part in ticking]
    return "" if "" in reasons else reasons[0]


def off_the_clock(flows: list[SubFlow], ticking: int) -> str:
    """The first block that sees another time than one part has reached."""
    now = step = Fraction(0)
    for f in flows:
        if f.time is not None and abs(Fraction(f.time) - now) > TOL:
            return (
                f"{f.update} sees the time {f.time:g} steps in, where the other part stands at {float(now):g}"
            )
        now += f.weight if f.part == ticking else 0
        step += f.weight if f.part == ticking and f.update.section == "step" else 0
    return "" if abs(step - 1) <= TOL else f"time would advance by {float(step):g} steps a step"
