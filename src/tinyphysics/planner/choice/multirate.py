"""How many fast kicks go into a slow one, and which parts are fast?  Decided by how fast each part of an energy vibrates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tinyphysics.errors import PlanError
from tinyphysics.planner.choice.multirate_resonance import NEAR
from tinyphysics.report import Row

# omega*h that faster levels are stepped with: as the slowest is by dt, but no finer and no coarser than these. The energy
# of a leapfrog swings by (omega*h)**2/8 of itself: 0.1 % and 2 %.
FINEST, COARSEST = 0.1, 0.4
MOST_KICKS = 1000  # of the fastest level in a step
STILL = 1e-3  # of the fastest: what is slower than that does not differ in pace
APART = 3.0  # times as fast: what is nearer than that gains little from a pace of its own


def kicks(name: str, frequencies: Sequence[float], dt: float) -> tuple[int, ...]:
    """For each level but the slowest, its kicks in one of the next slower; the fastest comes first.

    >>> kicks("chain", [200.0, 10.0], 0.01)
    (20,)
    """
    aim = min(max(frequencies[-1] * abs(dt), FINEST), COARSEST)
    out, h = [], abs(dt)
    for omega in reversed(frequencies[:-1]):
        out.append(max(1, math.ceil(omega * h / aim * (1 - 1e-9))))
        h /= out[-1]
    if math.prod(out) > MOST_KICKS:
        fastest = max(frequencies)  # usually of the first; a part that was called faster may be at rest
        raise PlanError(
            f"the fastest part of `{name}` vibrates with omega = {fastest:.4g} and would need "
            f"{math.prod(out):,} kicks in a step of {abs(dt):g}",
            fix=f"Shorten dt below {NEAR * math.pi / fastest:.2g}, where no resonance is near; "
            "or choose inner= yourself.",
        )
    return tuple(reversed(out))


@dataclass(frozen=True)
class Piece:
    """A term of an energy, or a part of a sum, and how fast it is at a state."""

    name: str
    frequency: float  # one over the shortest time in which something happens by it alone


@dataclass(frozen=True)
class Split:
    """Which terms are fast and which slow, and what to write; nothing is changed by it."""

    fast: tuple[Piece, ...]
    slow: tuple[Piece, ...]
    dt: float
    inner: int
    in_parts: bool  # of a sum of systems; else of one energy, whose terms are to be written as systems first

    @property
    def pays(self) -> bool:
        """Is anything so much slower that a pace of its own helps?"""
        return bool(self.slow)

    @property
    def expression(self) -> str:
        """What to compile."""
        if not self.pays:
            return ""
        if not self.in_parts:
            return f"tp.compile(tp.fast(fast_part) + tp.slow(slow_part), dt={self.dt:g}, inner={self.inner})"
        told = [*(f"tp.fast({p.name})" for p in self.fast), *(f"tp.slow({p.name})" for p in self.slow)]
        return f"tp.compile({' + '.join(told)}, dt={self.dt:g}, inner={self.inner})"

    def __str__(self) -> str:
        lines = [
            f"  {word}  omega = {p.frequency:.4g}  {p.name}"
            for word, group in (("fast", self.fast), ("slow", self.slow))
            for p in group
        ]
        if not self.pays:
            return "\n".join(
                [f"one pace: nothing is slow enough for one of its own, {APART:g} times slower", *lines]
            )
        if not self.in_parts:
            fast = "fast_part: the kinetic energy and the fast terms, as a @tp.hamiltonian"
            lines.append(f"  {fast}; slow_part: the others, as a @tp.potential")
        return "\n".join(["two paces", *lines, f"  {self.expression}"])


def proposed(pieces: Sequence[Piece], dt: float | None, in_parts: bool) -> Split:
    """The split at the widest gap between frequencies.

    The fast step is the one that all forces have now, if it resolves the fast motion; the slow one is as many of them as the
    slow motion and a resonance allow.
    """
    order = sorted(pieces, key=lambda p: -p.frequency)
    top = order[0].frequency
    h = COARSEST / 2 / top if top else 1.0
    if dt is not None:
        h = min(abs(dt), 2 * h) if top else abs(dt)
    felt = [max(p.frequency, STILL * top) for p in order]
    ratios = [a / b if b else 1.0 for a, b in pairwise(felt)]
    widest = max(ratios, default=1.0)
    if widest < APART:
        return Split(tuple(order), (), h, 1, in_parts)
    cut = ratios.index(widest) + 1
    slowest = order[cut].frequency
    longest = NEAR * math.pi / top
    if slowest:
        longest = min(longest, max(COARSEST / slowest, h))
    inner = max(int(longest / h * (1 + 1e-9)), 1)
    if inner == 1:
        return Split(tuple(order), (), h, 1, in_parts)
    return Split(tuple(order[:cut]), tuple(order[cut:]), float(f"{inner * h:.6g}"), inner, in_parts)


def split_rows(split: Split) -> list[Row]:
    """For explain(): parts by pace, and what to write."""
    told = "; ".join(f"{p.name}: omega = {p.frequency:.4g}" for p in (*split.fast, *split.slow))
    return [
        Row("paces", "two", f"{told}; proposed: {split.expression}")
        if split.pays
        else Row("paces", "one", told)
    ]
