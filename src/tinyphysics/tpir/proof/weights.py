"""How much of each part does a step apply, in which order, and at which times?  Symmetric and even are read off that."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.program.isa import Instruction
from tinyphysics.tpir.program.symbolic import at_clock, clocks
from tinyphysics.tpir.proof.certificate import Verdict

TOL = Fraction(1, 2**46)  # weights are sums of a few rounded coefficients
TIME = -1  # as a part: what advances the clock, where all others read it
NOTHING: frozenset[int] = frozenset()


STEPS_DONE = {"init": 0, "step": 0, "final": 1}  # when each section begins, in a run of one step


@dataclass
class Update:
    """One shear, with its flow as an expression of the states at version 0."""

    number: int
    instruction: Instruction
    section: str
    state: int
    flow: UOp
    h: UOp
    stale: str = ""  # why the flow is not fresh
    force: bool = False  # made by `POISSON_J ... force`: no energy is known for it

    def __str__(self) -> str:
        return f"step {self.number} `{self.instruction}`"

    @property
    def times(self) -> list[float]:
        """The times that its flow reads, in steps since the run began."""
        return clocks(self.flow)

    @property
    def timeless(self) -> UOp:
        """The flow with its clock at 0."""
        return at_clock(self.flow, self.times[0], 0.0) if len(self.times) == 1 else self.flow


@dataclass(frozen=True)
class Applied:
    """A block by what it does: which part it is a multiple of, by which weight, at which time."""

    part: int
    weight: Fraction
    time: float | None  # in steps since the run began
    update: Update = field(compare=False, repr=False)
    moves: frozenset[int]  # the states that it updates
    reads: frozenset[int]  # those that it depends on
    square: Fraction = Fraction(0)  # the weight of what comes with dt**2, a function of the same positions

    def plus(self, other: Applied) -> Applied:
        return replace(self, weight=self.weight + other.weight, square=self.square + other.square)

    def commutes(self, other: Applied) -> bool:
        """Two kicks do: neither reads what the other moves. What advances the time, which kicks may read, does not.

        What moves a state other than by adding to it reads that state.
        """
        crossed = self.moves & other.reads or other.moves & self.reads
        return TIME not in (self.part, other.part) and not crossed

    @property
    def idle(self) -> bool:
        return abs(self.weight) <= TOL and abs(self.square) <= TOL

    def same(self, other: Applied) -> bool:
        """At whatever time."""
        return (
            self.part == other.part
            and abs(self.weight - other.weight) <= TOL
            and abs(self.square - other.square) <= TOL
        )


def merged(flows: list[Applied]) -> list[Applied]:
    """Those of one part and one time added where only what commutes is between them, and what adds to nothing left out.

    What commutes comes in the order of its parts, so that equal products are equal lists.
    """
    out: list[Applied] = []
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


def uneven(flows: list[Applied]) -> str:
    """Why n steps are not n times one step; empty if they are."""
    ends = [f for name in ("final", "init") for f in flows if f.update.section == name]
    done = [None if f.time is None else f.time - STEPS_DONE[f.update.section] for f in ends]
    if merged([replace(f, time=time) for f, time in zip(ends, done)]):
        return "what `final` does is not undone by `init`, so that n steps are not n times one step"
    return ""


def is_palindrome(flows: list[Applied]) -> bool:
    """Is a step its own adjoint?  That has the sub-flows in reverse, and what was seen at the time c is seen at 1 - c."""
    if time_is_a_part(flows):
        whole = with_time(flows)
        there, back = merged(whole), merged(whole[::-1])
        return len(there) == len(back) and all(a.same(b) for a, b in zip(there, back))
    adjoint = [f if f.time is None else replace(f, time=float(1 - Fraction(f.time))) for f in reversed(flows)]
    there, back = merged(flows), merged(adjoint)
    return len(there) == len(back) and all(a.same(b) and at_once(a.time, b.time) for a, b in zip(there, back))


def time_is_a_part(flows: list[Applied]) -> bool:
    """Do all parts read the time?  Then it advances in none of them, but between them."""
    return {f.part for f in flows if f.time is None} <= {TIME} and any(f.time is not None for f in flows)


def with_time(flows: list[Applied]) -> list[Applied]:
    """The sub-flows of one step from 0 to 1, with those that advance time between two that see different ones."""
    out: list[Applied] = []
    now = Fraction(0)
    for f in flows:
        assert f.time is not None
        out += [Applied(TIME, Fraction(f.time) - now, None, f.update, NOTHING, NOTHING), f]
        now = Fraction(f.time)
    return [*out, Applied(TIME, 1 - now, None, flows[-1].update, NOTHING, NOTHING)]


def clock_trouble(flows: list[Applied]) -> str:
    """Time must advance inside exactly one part: what the clocked blocks see is the weight of that part.

    Where every part reads it, it is a part of its own, and the palindrome is one of three parts.
    """
    clocked = {f.part for f in flows if f.time is not None}
    if not clocked or time_is_a_part(flows):
        return ""
    ticking = [*dict.fromkeys(f.part for f in flows if f.part not in clocked)] or [-1]
    reasons = [off_the_clock(flows, part) for part in ticking]
    return "" if "" in reasons else reasons[0]


def off_the_clock(flows: list[Applied], ticking: int) -> str:
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


# --- what follows from them ---------------------------------------------------------------------
def symmetric(flows: list[Applied], trouble: str = "") -> Verdict:
    """Are n steps n times one step, which is its own adjoint?"""
    why = trouble or uneven(flows) or clock_trouble(flows)
    if not why and not is_palindrome(flows):
        why = "its sub-flows are not a palindrome"
    return Verdict(not why, why or "init, step, final is a palindrome of sub-flows")


def in_a_step(flows: list[Applied], parts: set[int]) -> Fraction:
    """The weight with which some parts enter a step."""
    return sum((f.weight for f in flows if f.part in parts and f.update.section == "step"), Fraction(0))


def off_weight(name: str, total: Fraction, by: Fraction = TOL) -> str:
    """Why a step is not one of the declared energy; empty if a part enters it as it should."""
    if abs(total - 1) <= by:
        return ""
    return f"{name} enters with total weight {float(total):g} instead of 1"


def not_symmetric(symmetric: Verdict) -> str:
    return f"not shown to be symmetric: {symmetric.because}"
