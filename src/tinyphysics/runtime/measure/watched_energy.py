"""Is the energy of a run where it belongs?  It is looked at on a stride; where it moved too far, a replay finds the step.

Of leapfrog the shadow energy H + dt**2 H2 is watched: it moves by dt**4 H4, the next term of its series, at the states met
so far, and by rounding. Of other methods, and of large systems, only jumps of H are looked into. What looks wrong is done
again from the look before: a drift that passed a pole stops the member there ("singularity"), and so does what is no step
and moved the shadow energy further than the next term anywhere in that stretch ("integrity"): a fault, or a run that is not
reproduced. A step may do so by itself, where it is too long for the series: that is no fault, and the run goes on, unless the
step has moved it by a hundredth of the terms of H for good and checks were asked for: unasked, a warning at the end says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.runtime.measure.checked import EPS, FEW, OF_FORCES, ROUNDED, SPREAD, WIDE, WORDS
from tinyphysics.runtime.measure.integrity import Injured, injury, not_reproduced
from tinyphysics.runtime.measure.part_again import begun_at, every_step, part_of
from tinyphysics.runtime.measure.pole_stops import looks_for_poles, met
from tinyphysics.runtime.measure.shadow import first_term, next_term, refusal, sequence_of
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.stages.terms import addends
from tinyphysics.runtime.state.run import Found, Run, Watch
from tinyphysics.trajectory import Stop

FAR = 1e-2  # of the largest sum of |terms of H|: an energy that jumps further from one look to the next is looked into
ODD = 50.0  # times the largest jump before it
SEEN = 4  # looks, from which on jumps are compared
LEAST = 1e-6  # of that sum, below which no jump is looked into
TRIES, FEW_TRIES = 16, 4  # replays of a member in which nothing was found: by FAR, by ODD
SAFE = 4.0  # of the next term: both ends of a stretch have it, and the series goes on
TOLD = (
    1e-4  # of |shadow energy - H| beside that sum: what is smaller is not told of (shadow_glance.THRESHOLD)
)
JUMP = 20.0  # roundings of one step: beyond it is none
BROKEN = 1e-2  # of the largest sum of |terms of H|: a step by itself that moves the shadow energy further has broken it
LOST = 0.1  # the same of H itself, where the series says nothing any more
LASTING = 32  # steps over which it is seen whether it stays there
ENERGY, SCALE, NEXT, MOVED, PLAIN = "energy", "energy scale", "energy next", "energy moved", "energy plain"
ROUGH = {
    Ops.ABS,
    Ops.MIN,
    Ops.MAX,
    Ops.WHERE,
    Ops.FLOOR,
    Ops.SIGN,
    Ops.LT,
    Ops.LE,
    Ops.IMAGE,
    Ops.CUSTOM,
    Ops.NEIGHBOURS,
}


def shadow_of(setup: Setup, r: Run) -> tuple[UOp, UOp] | None:
    """(H + dt**2 H2, |dt**4 H4|) of a small smooth system that leapfrog steps."""
    goal, method, system = setup.goal, setup.compiled.known.method, r.system
    if setup.compiled.look is None or goal.precision not in EPS or goal.precision in WORDS:
        return None
    if (
        system.is_open
        or any(a.since is None and not a.inside for a in r.acts)
        or refusal(system, goal, method)
    ):
        return None
    parts = tuple(part for part, _ in sequence_of(method))
    assert system.energy is not None
    if any(u.op in ROUGH for u in toposort([system.energy])):
        return None
    shadow, after = first_term(system, parts, r.dt), next_term(system, parts, r.dt)
    return None if shadow is None or after is None else (shadow, abs(after))


@dataclass(frozen=True)
class Seen:
    """What looks have seen of some members."""

    reference: Any  # where the energy was when it was last known to be well
    plain: Any  # H at the look before
    scale: Any  # the largest sum of |terms of H|
    largest: Any  # jump so far; of a shadow energy, next term
    variance: Any  # sums over looks of what the roundings of a step do


@dataclass(eq=False)
class WatchedEnergy:
    """The energy of one run, and what was seen of it so far; arrays are by member."""

    run: Run
    setup: Setup
    shadow: tuple[UOp, UOp] | None
    poles: bool
    breaks: bool = False  # is a step that breaks the energy by itself looked for?
    begun: dict[int, dict[str, Any]] = field(
        default_factory=dict
    )  # what was seen first, until it is looked at
    reference: Any = None  # as in Seen
    since: Any = None  # the step of that
    plain: Any = None
    scale: Any = None
    largest: Any = None
    variance: Any = None
    last: dict[int, float] = field(default_factory=dict)  # by member that looked wrong: as it was seen
    looks: int = 0  # so far, and the step of the last
    looked_at: int = -1
    tries: Any = None
    gap: Any = (
        None  # the largest |shadow energy - H| of the largest sum of |terms of H| so far, over all looks
    )
    gap_at: Any = None  # the step of it
    pending: Any = None  # a step that may have broken it for good; 0: none

    def __post_init__(self) -> None:
        members = self.run.given.members
        # rows of two arrays: of many members they lie in few, large pages
        self.reference, self.plain, self.scale, self.largest, self.variance, self.gap = np.zeros((6, members))
        self.gap_at, self.since, self.tries, self.pending = np.zeros((4, members), int)

    @cached_property
    def values(self) -> dict[str, UOp]:
        system = self.run.system.seen
        H = system.energy
        assert H is not None
        sizes = UOp.sum_of(abs(x) for x in addends(H))
        if self.shadow is None and not self.breaks:
            return {ENERGY: H, SCALE: sizes}
        states = [*system.q, *system.p]
        own = [z * g for z, g in zip(states, gradient(H, states))]
        moved = UOp.sum_of((x * x).sum() for x in own)
        if self.shadow is None:
            return {ENERGY: H, SCALE: sizes, MOVED: moved}
        return {ENERGY: self.shadow[0], SCALE: sizes, NEXT: self.shadow[1], MOVED: moved, PLAIN: H}

    @cached_property
    def eps(self) -> float:
        return max(EPS[self.setup.goal.precision], OF_FORCES[self.setup.goal.precision])

    # --- on the stride ------------------------------------------------------------------------------
    def begin(self, part: slice, first: Mapping[str, Any]) -> None:
        """What was seen is written down at the first look: if that is the last one, of a few members only."""
        self.begun[part.start] = {name: first[name] for name in self.values}

    def seen_first(self, part: slice) -> Seen:
        """What is known of members from the looks before."""
        first = self.begun.pop(part.start, None)
        if first is None:
            rows = self.reference, self.plain, self.scale, self.largest, self.variance
            return Seen(*(v[part] for v in rows))
        energy, none = first[ENERGY], np.zeros(part.stop - part.start)
        after = (first[NEXT], first[MOVED]) if self.shadow is not None else (none, none)
        return Seen(energy, first.get(PLAIN, energy), first[SCALE], *after)

    def bad(self, part: slice, now: Mapping[str, Any], n: int) -> Any:
        if n != self.looked_at:  # all members are looked at together
            self.looks, self.looked_at = self.looks + 1, n
        own, wrong = self.seen_first(part), np.zeros(part.stop - part.start, bool)
        with np.errstate(all="ignore"):
            scale, plain = np.fmax(own.scale, now[SCALE]), now.get(PLAIN, now[ENERGY])
            seen = Seen(own.reference, plain, scale, own.largest, own.variance)
            if self.by_jumps:
                jump = np.abs(plain - own.plain)
                wrong = self.jumped(part, jump, scale, n)
                if self.shadow is None:
                    wrong |= self.odd(part, jump, seen)
                    seen = replace(seen, largest=np.fmax(own.largest, jump))
            if self.shadow is not None:
                largest, variance = np.fmax(own.largest, now[NEXT]), own.variance + now[MOVED]
                seen = replace(seen, largest=largest, variance=variance)
                gap = np.abs(now[ENERGY] - plain) / scale
                wider = np.flatnonzero((gap > self.gap[part]) & (gap > TOLD))
                self.gap[part][wider], self.gap_at[part][wider] = gap[wider], n
                wrong |= ~(np.abs(now[ENERGY] - own.reference) <= self.band(part, seen, n))
        wrong &= self.tries[part] < TRIES
        # after the last look nothing is asked but of those that look wrong: fresh memory takes as long as a hundred steps
        some = np.flatnonzero(wrong | (self.gap[part] > 0.0)) if n >= self.run.schedule.steps else slice(None)
        for rows, v in (
            (self.reference, seen.reference),
            (self.plain, seen.plain if self.by_jumps else None),
            (self.scale, seen.scale),
            (self.largest, seen.largest),
            (self.variance, seen.variance),
        ):
            if v is not None:
                rows[part][some] = v[some]
        for j in np.flatnonzero(wrong).tolist():
            self.last[part.start + j] = now[ENERGY][j]
        return wrong

    @property
    def by_jumps(self) -> bool:
        """Is H compared with what it was at the look before?"""
        return self.poles or self.breaks or self.shadow is None

    def jumped(self, part: slice, jump: Any, scale: Any, n: int) -> Any:
        """Members whose H has moved far since the look before."""
        wrong = ~(jump <= FAR * scale) & self.poles
        if self.breaks:
            wrong |= jump > LOST * scale
            wrong |= (self.pending[part] > 0) & (n >= self.pending[part] + LASTING)
        return wrong

    def odd(self, part: slice, jump: Any, seen: Seen) -> Any:
        """Jumps that are far above all before them."""
        few = self.tries[part] < FEW_TRIES
        found = (self.looks > SEEN) & (jump > ODD * seen.largest) & (jump > LEAST * seen.scale) & few
        return found & self.poles

    def band(self, part: slice, seen: Seen, n: int) -> Any:
        """How far a shadow energy may be from where it was."""
        one = SPREAD * self.eps * np.sqrt(seen.variance / (self.looks + 1) * (1.0 + FEW / self.looks))
        walk = WIDE * one * np.sqrt(np.maximum(n - self.since[part], 1))
        return SAFE * seen.largest + walk + ROUNDED * self.eps * seen.scale

    def gaps(self) -> tuple[Any, Any, Any]:
        return self.gap, self.gap_at, self.scale

    # --- by replay ----------------------------------------------------------------------------------
    def find(self, members: Sequence[int], good: int, n: int) -> Found:
        out: dict[int, tuple[Stop, Mapping[str, Any]]] = {}
        first = 0 if self.run.begun is None else self.run.begun.step
        for k in members:
            earlier = max(first, min(good, self.pending[k] or good) - LASTING)  # what was not known to last
            earlier = earlier if self.breaks else good
            begun = begun_at(part_of(self.run, [k]), earlier)
            found = met(self.setup, self.run, begun, k, n) if self.poles else None
            if found is None and self.shadow is not None:
                found = self.moved(begun, k, good, earlier, n)
            elif found is None and self.breaks:
                found = self.broken(begun, k, earlier, n)
            if found is not None and self.run.poles is not None:  # a pole is the better word for it
                pole = self.run.poles.find([k], earlier, n).get(k, found)
                found = pole if pole[0].step <= found[0].step else found
            if found is None:
                self.tries[k] += 1
            else:
                out[k] = found
        return out

    def broken(self, begun: Run, k: int, first: int, n: int) -> tuple[Stop, Mapping[str, Any]] | None:
        """The stop of a member whose energy one step has broken for good, of a method whose shadow energy is not known."""
        seen = {name: v[:, 0] for name, v in every_step(begun, n, self.values).items()}
        energy, steps = seen[ENERGY], np.arange(first + 1, n + 1)
        with np.errstate(all="ignore"):
            least = LOST * np.fmax(np.fmax.accumulate(seen[SCALE])[1:], self.scale[k]) + self.rounded(seen)
            moves = np.abs(np.diff(energy))
        far = moves > least
        stops = np.array([bool(b) and lasting(energy, j, least[j]) for j, b in enumerate(far)], bool)
        late = steps[far & (steps > n - LASTING)]
        self.pending[k] = late[0] if len(late) and n < self.run.schedule.steps else 0
        if not stops.any():
            return None
        H, at = self.run.system.seen.energy, int(np.argmax(stops))
        assert H is not None
        return injury(
            Injured("energy", H, int(steps[at]), float(moves[at]), float(least[at]), float(least[at])),
            begun,
            k,
        )

    def rounded(self, seen: Mapping[str, Any]) -> Any:
        """What roundings may move H by: where its terms cancel, or all of them vanish, a tenth of them is less."""
        return WIDE * ROUNDED * self.eps * np.sqrt(np.fmax.accumulate(seen[MOVED])[1:])

    def moved(
        self, begun: Run, k: int, good: int, first: int, n: int
    ) -> tuple[Stop, Mapping[str, Any]] | None:
        """The stop of a member whose shadow energy one step has moved; else it is well where it is now."""
        seen = {name: v[:, 0] for name, v in every_step(begun, n, self.values).items()}
        energy, after = seen[ENERGY], np.fmax.accumulate(seen[NEXT])
        with np.errstate(all="ignore"):
            jumps = np.abs(np.diff(energy))
            largest = np.fmax(after[1:], self.largest[k])
            one = SPREAD * self.eps * np.sqrt(np.fmax(seen[MOVED][1:], seen[MOVED][:-1]))
            limit = SAFE * largest + JUMP * one + ROUNDED * self.eps * self.scale[k]
            wrong = (jumps > limit) & np.isfinite(jumps)
        if self.setup.goal.math == "exact" and not np.array_equal(energy[-1], self.last[k], equal_nan=True):
            return not_reproduced(begun, good, n, k)
        steps = np.arange(first + 1, first + len(energy))
        acts = np.array([any(a.due(int(m)) for a in self.run.acts) for m in steps], bool) & (steps > good)
        # a step by itself may be too long for the series: that is no fault, unless the energy is broken by it for good
        plain, scale = seen[PLAIN], np.fmax(np.fmax.accumulate(seen[SCALE])[1:], self.scale[k])
        with np.errstate(all="ignore"):
            moves = np.abs(np.diff(plain))
            by_series, by_itself = wrong & (jumps > BROKEN * scale), moves > LOST * scale
        least = np.where(by_series, BROKEN, LOST) * scale + self.rounded(seen)
        broken = (by_series | by_itself) & self.breaks
        lasts = np.array([bool(b) and lasting(plain, j, least[j]) for j, b in enumerate(broken)], bool)
        stops = wrong & acts | lasts
        if not stops.any():
            late = steps[broken & (steps > n - LASTING)]  # it is not known yet whether that lasts
            self.pending[k] = late[0] if len(late) and n < self.run.schedule.steps else 0
            if not self.pending[k]:
                self.reference[k], self.since[k], self.largest[k] = energy[-1], n, largest[-1]
            return None
        H = self.run.system.seen.energy
        assert H is not None
        at = int(np.argmax(stops))
        name, size, within = "shadow energy", float(jumps[at]), float(limit[at])
        if not acts[at] and not (by_series[at] and size > within):
            name, size, within = "energy", float(moves[at]), float(least[at])
        return injury(Injured(name, H, int(steps[at]), size, within, within), begun, k)


def lasting(energy: Any, at: int, least: float) -> bool:
    """Is H elsewhere for good after a step?  Beside a turning point, or in a coarse vibration, it comes back."""
    before, after = energy[max(0, at + 1 - LASTING) : at + 1], energy[at + 1 : at + 1 + LASTING]
    if min(len(before), len(after)) < LASTING // 2 or not np.isfinite(after).all():
        return False
    (low, high), (down, up) = (np.quantile(x, (0.25, 0.75)) for x in (before, after))
    return bool(max(down - high, low - up) > least)


def may_break(setup: Setup, r: Run) -> bool:
    """Is H of a small system smooth and kept, so that no step may move it by a tenth for good?"""
    H = r.system.energy
    if H is None or setup.compiled.look is None or not r.keeps_energy or r.system.clock is not None:
        return False
    if setup.goal.precision not in EPS:
        return False
    meant = any(a.since is None and not a.inside for a in r.acts) or r.system.is_open or r.system.driven
    return not meant and not any(u.op in ROUGH for u in toposort([H]))


def watch_energy(setup: Setup, r: Run, every: int, asked: bool) -> Watch | None:
    poles, fixed = looks_for_poles(setup, r), r.jump is None and not r.adaptive and not r.gridless
    shadow = shadow_of(setup, r) if fixed and r.system.energy is not None else None
    # unasked, only long runs are watched: what stops one must be no step, or its pieces would go on where the whole stops
    breaks = asked and (shadow is not None or fixed and may_break(setup, r))
    if not poles and not breaks and shadow is None:
        return None
    one = WatchedEnergy(
        r, setup, shadow, poles and r.poles is None, breaks
    )  # else the loop looks at every drift
    told = ("shadow energy",) if shadow is not None else ("energy",) if breaks else ()
    told = (*told, "poles") if poles else told
    return Watch(
        "energy",
        one.values,
        every,
        one.begin,
        one.bad,
        "integrity",
        one.find,
        told,
        None if shadow is None else one.gaps,
    )
