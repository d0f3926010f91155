"""Which sub-flows does a sequence of parts ask for, and what time does each of them see?

Parts are letters: T a drift, V a kick, F friction, W the kick of [V, [T, V]], which is a function of the positions as V is
and carries dt**3 where the others carry dt. Time advances inside exactly one part (numerics: 13). Where T and V both
depend on it, it is a part of its own: then each leapfrog is a palindrome of three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

Sequence_ = list[tuple[str, float]]  # (part, weight): ("V", 0.5) is half a kick
FRICTION = "F"
EXACT = 1e-12  # weights are sums of a few rounded coefficients


def palindrome(outer: str, inner: str, weights: Sequence[float]) -> Sequence_:
    """outer(w/2) inner(w) outer(w/2) for each weight, neighbouring outers merged.

    >>> palindrome("V", "T", [1.0])
    [('V', 0.5), ('T', 1.0), ('V', 0.5)]
    """
    out: Sequence_ = [(outer, weights[0] / 2)]
    for i, w in enumerate(weights):
        following = weights[i + 1] if i + 1 < len(weights) else 0.0
        out += [(inner, w), (outer, w / 2 + following / 2)]
    return out


@dataclass(frozen=True)
class TimedPart:
    """One sub-flow: a drift, or a kick of `weight` dt V and `gradient` dt**3 [V, [T, V]] together."""

    part: str
    weight: float
    gradient: float = 0.0
    clock: float = 0.0  # what it sees, in steps after the beginning of the step

    @property
    def undone(self) -> TimedPart:
        return replace(self, weight=-self.weight, gradient=-self.gradient)

    def before(self, last: TimedPart) -> TimedPart:
        """The last sub-flow of a step with this one, which begins the next."""
        return replace(last, weight=last.weight + self.weight, gradient=last.gradient + self.gradient)


def joined(sequence: Sequence_) -> list[TimedPart]:
    """The sub-flows of a sequence: V and W side by side commute, and are one kick.

    >>> joined([("V", 0.5), ("W", 0.01), ("T", 1.0)])
    [TimedPart(part='V', weight=0.5, gradient=0.01, clock=0.0), TimedPart(part='T', weight=1.0, gradient=0.0, clock=0.0)]
    """
    out: list[TimedPart] = []
    for part, weight in sequence:
        kick = TimedPart("V", 0.0, weight) if part == "W" else TimedPart(part, weight)
        if out and out[-1].part == kick.part:
            kick = out.pop().before(kick)
        out.append(kick)
    return out


def timed(flows: Sequence[TimedPart], inside: Sequence[str]) -> list[TimedPart]:
    """The sub-flows with their clocks; `inside` are the parts that depend on t.

    What the one part sees is the sum of the other's weights.
    """
    if len(inside) != 1:
        return list(flows)  # nothing reads the time, or `composed` has said what it is
    (clocked,), now, out = inside, 0.0, []
    for f in flows:
        out.append(replace(f, clock=whole(now)) if f.part == clocked else f)
        now += f.weight if f.part not in (clocked, FRICTION) else 0.0
    return out


def whole(clock: float) -> float:
    """A clock that should read 1, or 0, after the weights are added in floating point reads it."""
    return float(round(clock)) if abs(clock - round(clock)) < EXACT else clock


def leapfrogs(sequence: Sequence_) -> tuple[str, str, list[float]] | None:
    """(outer, inner, weights) of which a sequence is the palindrome: leapfrogs one after the other."""
    parts = [part for part, _ in sequence]
    if len(sequence) % 2 == 0 or len(sequence) < 3 or set(parts) != {"T", "V"}:
        return None
    outer, inner = parts[:2]
    if any(part != (inner if k % 2 else outer) for k, part in enumerate(parts)):
        return None
    weights = [w for _, w in sequence[1::2]]
    halves = [Fraction(w) / 2 for w in (0.0, *weights, 0.0)]
    expected = [a + b for a, b in zip(halves, halves[1:])]
    shown = all(abs(Fraction(w) - e) < EXACT for (_, w), e in zip(sequence[::2], expected))
    return (outer, inner, weights) if shown else None


def in_three_parts(sequence: Sequence_, processed: bool = False) -> bool:
    """Can a method be applied where both parts depend on t?  Leapfrogs, and what does each part once."""
    once = len({part for part, _ in sequence}) == len(sequence)
    return not processed and (once or leapfrogs(sequence) is not None)


def composed(sequence: Sequence_) -> list[TimedPart]:
    """The sub-flows of a composition of leapfrogs where both parts depend on t, so that time is a third part C.

    With kicks outside, V T C T V, whose kicks merge; with drifts outside, C T V T C. Either way the force is
    evaluated once for each leapfrog. Parts that occur once each are all evaluated at the beginning.
    """
    found = leapfrogs(sequence)
    if found is None:
        assert in_three_parts(sequence), "planner/choice/choose.py turns it down"
        return joined(sequence)
    outer, inner, weights = found
    now, out = 0.0, list[TimedPart]()
    for w in weights:
        middle, after = whole(now + w / 2), whole(now + w)
        if inner == "V":
            three = [
                TimedPart("T", w / 2, 0.0, middle),
                TimedPart("V", w, 0.0, middle),
                TimedPart("T", w / 2, 0.0, middle),
            ]
        else:
            three = [
                TimedPart("V", w / 2, 0.0, now),
                TimedPart("T", w / 2, 0.0, now),
                TimedPart("T", w / 2, 0.0, after),
                TimedPart("V", w / 2, 0.0, after),
            ]
        if out and (out[-1].part, out[-1].clock) == (three[0].part, three[0].clock):
            three[0] = out.pop().before(three[0])
        out += three
        now = after
    return out


def damped(sequence: Sequence_) -> Sequence_ | None:
    """A sequence of two parts with friction as a third, of the same order; None where that is not known.

    Leapfrogs have half of the friction at both ends. Any other sequence T(a1) V(b1) T(a2) ... whose weights meet the
    order conditions of two parts is a product of first-order steps and their adjoints, by a1, b1 - a1, a2 - (b1 - a1), ...;
    the product has the same order for steps of more parts (McLachlan 1995), and friction stands between drift and kick.

    >>> damped([("V", 0.5), ("T", 1.0), ("V", 0.5)])
    [('F', 0.5), ('V', 0.5), ('T', 1.0), ('V', 0.5), ('F', 0.5)]
    >>> damped([("T", 1.0), ("V", 1.0)])
    [('F', 1.0), ('T', 1.0), ('V', 1.0)]
    """
    if any(part not in "TV" for part, _ in sequence):
        return None
    if len(sequence) == 2:
        return [(FRICTION, 1.0), *sequence]
    out: Sequence_ = []
    if (found := leapfrogs(sequence)) is not None:
        outer, inner, weights = found
        for w in weights:
            before = w / 2 + out.pop()[1] if out else w / 2
            out += [(FRICTION, before), (outer, w / 2), (inner, w), (outer, w / 2), (FRICTION, w / 2)]
        return out
    rest = 0.0  # of the weight of a part, what the step before it has not used
    for k, (part, weight) in enumerate(sequence):
        rest = weight - rest
        out += [(part, weight), (FRICTION, rest)] if k + 1 < len(sequence) else [(part, weight)]
    return out if abs(rest) < EXACT else None
