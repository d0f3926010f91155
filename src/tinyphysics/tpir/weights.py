"""How much of each part does a step apply, in which order, and at which times?"""
from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from tinyphysics.ir.uop import UOp
from tinyphysics.rules.normal import Normal
from tinyphysics.tpir.blocks import STEPS_DONE, Blocks, Update
from tinyphysics.tpir.units import DT

TOL = Fraction(1, 2**46)  # weights are sums of a few rounded coefficients


@dataclass(frozen=True)
class SubFlow:
    """A block by what it does: which part it is a multiple of, by which weight, at which time."""

    part: int
    weight: Fraction
    time: float | None  # in steps since the run began
    update: Update = field(compare=False, repr=False)


def is_literal(blocks: Blocks) -> bool:
    """Is the step written as a number, rather than as $dt?"""
    return all(DT not in u.h.leaves for u in blocks.updates)


def length(u: Update, normal: Normal, literal: bool) -> Fraction | None:
    """h as a multiple of dt, or of 1 where the program writes its step as a number."""
    return normal.ratio(u.h, UOp.const(1.0) if literal else DT)


def sub_flows(blocks: Blocks, normal: Normal) -> tuple[list[SubFlow], str]:
    """The blocks of a run of one step by what they do, and what keeps them from being named.

    Blocks that are multiples of one another are one part.
    """
    parts: list[dict[int, UOp]] = []
    out: list[SubFlow] = []
    literal = is_literal(blocks)
    for g in blocks.groups:
        flows = {u.state: u.timeless for u in g.updates if normal.form(u.flow)}
        if not flows:
            continue
        u = g.updates[0]
        h, times = length(u, normal, literal), {t for v in g.updates for t in v.times}
        if h is None:
            return [], f"{u}: h is not shown to be a multiple of dt"
        if any(DT in f.leaves for f in flows.values()):
            return [], f"{u}: the flow itself depends on dt"
        if len(times) > 1:
            return [], f"{u} reads more than one time"
        found = ((k, r) for k, known in enumerate(parts) if (r := multiple(flows, known, normal)) is not None)
        part, ratio = next(found, (len(parts), Fraction(1)))
        if part == len(parts):
            parts.append(flows)
        out.append(SubFlow(part, ratio * h, next(iter(times), None), u))
    return out, ""


def multiple(flows: dict[int, UOp], known: dict[int, UOp], normal: Normal) -> Fraction | None:
    """The number r with flows = r * known, state by state."""
    if flows.keys() != known.keys():
        return None
    ratios = {normal.ratio(f, known[s]) for s, f in flows.items()}
    return ratios.pop() if len(ratios) == 1 else None


def merged(flows: list[SubFlow]) -> list[SubFlow]:
    """Neighbours of one part and one time added, and what adds to nothing left out."""
    out: list[SubFlow] = []
    for f in flows:
        if out and (out[-1].part, out[-1].time) == (f.part, f.time):
            f = SubFlow(f.part, f.weight + out.pop().weight, f.time, f.update)
        if abs(f.weight) > TOL:
            out.append(f)
    return out


def uneven(flows: list[SubFlow]) -> str:
    """Why n steps are not n times one step; empty if they are."""
    final, init = ([SubFlow(f.part, f.weight, None if f.time is None else f.time - STEPS_DONE[name], f.update)
                    for f in flows if f.update.section == name] for name in ("final", "init"))  # fmt: skip
    if merged([*final, *init]):
        return "what `final` does is not undone by `init`, so that n steps are not n times one step"
    return ""


def is_palindrome(flows: list[SubFlow]) -> bool:
    once = merged(flows)
    return all(a.part == b.part and abs(a.weight - b.weight) <= TOL for a, b in zip(once, reversed(once)))


def clock_trouble(flows: list[SubFlow]) -> str:
    """Time must advance inside exactly one part: what the clocked blocks see is the weight of that part."""
    clocked = {f.part for f in flows if f.time is not None}
    if not clocked:
        return ""
    ticking = [*dict.fromkeys(f.part for f in flows if f.part not in clocked)] or [-1]
    reasons = [off_the_clock(flows, part) for part in ticking]
    return "" if "" in reasons else reasons[0]


def off_the_clock(flows: list[SubFlow], ticking: int) -> str:
    """The first block that sees another time than one part has reached."""
    now = step = Fraction(0)
    for f in flows:
        if f.time is not None and abs(Fraction(f.time) - now) > TOL:
            return (f"{f.update} sees the time {f.time:g} steps in, "
                    f"where the other part stands at {float(now):g}")  # fmt: skip
        now += f.weight if f.part == ticking else 0
        step += f.weight if f.part == ticking and f.update.section == "step" else 0
    return "" if abs(step - 1) <= TOL else f"time would advance by {float(step):g} steps a step"
