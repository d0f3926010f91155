"""Does a run keep what its method keeps to rounding?  Looked at on a stride; what looks wrong is replayed step by step.

Every update rounds a number z by about 0.42 half ulps, at random: after n steps a charge F has walked by
0.42 eps sqrt(n sum((z dF/dz)**2)), and a look beyond WIDE such walks is suspicious. Roundings may have a bias, so that is no
proof: the stretch since the last look is done again, bit for bit, and the run stops at the first step that moved F by more
than JUMP times what rounding moves it in one step. That is taken from the operations, and measured in the first steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tinyphysics.charge import EXACT, Charge
from tinyphysics.ir import UOp
from tinyphysics.plan import Goal
from tinyphysics.planner.methods.catalog import method_of
from tinyphysics.runtime.measure.charges import conserved, found_in
from tinyphysics.runtime.measure.checked import (
    EPS,
    FEW,
    FORCES,
    OF_FORCES,
    ROUNDED,
    SPREAD,
    WIDE,
    updates_in_a_step,
    walks,
)
from tinyphysics.runtime.measure.integrity import Injured, injury, not_reproduced
from tinyphysics.runtime.measure.part_again import begun_at, every_step, part_of, started
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.run import Found, Run, Watch
from tinyphysics.system import System
from tinyphysics.trajectory import Stop

JUMP = 20.0  # roundings of one step: beyond it is none
CALM = 32  # steps at the beginning whose roundings are measured
BIASED = 4.0  # of the roundings of a step, where they have a bias and add up
ROOM = 1 << 24  # numbers of a replay that are kept together
NAMES = ("momentum", "angular_momentum", "norm")  # kinds of charges that are watched
MANY_LOOKS = 8  # from which on they tell how large the roundings of a component are
SEEN = 2.0**-53  # relative rounding of what is seen, which is float64
MOVED, FORCED = " moved", " forced"


@lru_cache(maxsize=64)
def charges_to_watch(system: System, goal: Goal, method: str) -> tuple[tuple[Charge, UOp, UOp], ...]:
    """Charges that the method keeps to rounding, whatever the parameters are; and what roundings do to them."""
    seen = system.seen
    conditional = {f.name for f in found_in(seen) if f.condition}
    return tuple(
        (c, around[0], around[1])
        for c in conserved(system, goal, method)
        if c.kept == EXACT and c.name.partition("[")[0] in NAMES and c.name not in conditional
        for around in [walks(c, seen)]
    )


@dataclass(eq=False)
class WatchedCharges:
    """The charges of one run, and what was seen of them so far."""

    run: Run
    setup: Setup
    watched: Sequence[tuple[Charge, UOp, UOp]]
    begun: dict[int, dict[str, Any]] = field(
        default_factory=dict
    )  # what was seen first, until it is looked at
    firsts: dict[str, Any] = field(default_factory=dict)  # by charge, of every member
    variance: dict[str, Any] = field(default_factory=dict)  # sums over looks of the variance of a step
    moved: dict[str, Any] = field(
        default_factory=dict
    )  # by charge, how far roundings moved it at the beginning
    looks: int = 0  # so far, and the step of the last
    looked_at: int = -1
    floor: dict[str, float] = field(default_factory=dict)  # the largest rounding of a step that was measured
    biased: dict[str, Any] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)  # of band
    last: dict[str, dict[int, float]] = field(
        default_factory=dict
    )  # of members that looked wrong: as they were seen

    def __post_init__(self) -> None:
        members = self.run.given.members
        rows = np.zeros(
            (len(self.charges), 3, members)
        )  # one array: of many members it lies in few, large pages
        for c, own in zip(self.charges, rows):
            self.firsts[c.name], self.variance[c.name], self.moved[c.name] = own
            self.biased[c.name], self.floor[c.name] = np.zeros(members, bool), 0.0
            self.largest[c.name], self.last[c.name] = 0.0, {}

    @property
    def charges(self) -> list[Charge]:
        return [c for c, *_ in self.watched]

    @cached_property
    def names(self) -> list[str]:
        return [c.name for c in self.charges]

    @property
    def precision(self) -> str:
        return self.setup.goal.precision

    @cached_property
    def updates(self) -> int:
        return updates_in_a_step(self.setup.compiled.known.method)

    @cached_property
    def bodies(self) -> int:
        return max((q.shape[0] for q in self.run.system.seen.q if q.ndim > 1), default=0)

    @cached_property
    def numbers(self) -> int:
        return sum(s.var.size for s in self.run.system.seen.states)

    @cached_property
    def values(self) -> dict[str, UOp]:
        out: dict[str, UOp] = {}
        for c, moved, forced in self.watched:
            out |= {c.name: c.expression, c.name + MOVED: moved}
            if self.bodies or OF_FORCES[self.precision] > EPS[self.precision]:
                out[c.name + FORCED] = forced
        return out

    @cached_property
    def families(self) -> dict[str, list[str]]:
        """By charge, those that are its components in other directions, and itself."""
        return {a: [b for b in self.names if b.partition("[")[0] == a.partition("[")[0]] for a in self.names}

    def mean(self, name: str, sums: Mapping[str, Any]) -> Any:
        """The variance of a step by what was seen at looks, `sums` over them by charge; a bound while they are few.

        One component of a tilted orbit has none at some places, and a few looks may hit them. That of all directions
        together does not vanish: it is that of each at the first looks, and no component ever has less than its share of it.
        """
        family = self.families[name]
        share = max(1.0 / len(family), min(1.0, 10.0 ** (0.25 * (MANY_LOOKS - self.looks))))
        together = sum(sums[other] for other in family)
        one = np.maximum(sums[name], share * together) / (self.looks + 1)
        return one * (1.0 + FEW / max(self.looks, 1))

    def of_a_step(self, name: str, seen: Mapping[str, Any]) -> Any:
        """The variance of a charge by the roundings of one step."""
        out = self.updates * seen[name + MOVED] * (SPREAD * EPS[self.precision]) ** 2
        if name + FORCED in seen:
            out = out + max(self.bodies, 1) * seen[name + FORCED] * (FORCES * OF_FORCES[self.precision]) ** 2
        return out

    def band(self, name: str, n: Any, mean: Any, moved: Any, biased: Any) -> Any:
        """How far a charge may be from where it began after n steps."""
        one = np.sqrt(mean)
        size = np.sqrt(self.numbers * moved)  # no less than the sum of |z dF/dz|
        walk = np.where(biased, BIASED * n * np.maximum(one, self.floor[name]), WIDE * np.sqrt(n) * one)
        return walk + ROUNDED * max(EPS[self.precision], SEEN) * size

    # --- on the stride ------------------------------------------------------------------------------
    def begin(self, part: slice, first: Mapping[str, Any]) -> None:
        """What was seen is written down at the first look: if that is the last one, of a few members only."""
        names = [name + end for name in self.names for end in ("", MOVED, FORCED)]
        self.begun[part.start] = {name: first[name] for name in names if name in first}

    def bad(self, part: slice, now: Mapping[str, Any], n: int) -> Any:
        out = np.zeros(part.stop - part.start, bool)
        if n != self.looked_at:  # all members are looked at together
            self.looks, self.looked_at = self.looks + 1, n
        first = self.begun.pop(part.start, None)
        firsts, moveds, sums = (
            {name: v[part] for name, v in rows.items()} for rows in (self.firsts, self.moved, self.variance)
        )
        if first is not None:
            firsts, moveds = ({name: first[name + end] for name in self.names} for end in ("", MOVED))
            sums = {name: self.of_a_step(name, first) for name in self.names}
        with np.errstate(all="ignore"):
            sums = {name: v + self.of_a_step(name, now) for name, v in sums.items()}
            for name in self.names:
                moved = np.maximum(moveds[name], now[name + MOVED])
                band = self.band(name, n, self.mean(name, sums), moved, self.biased[name][part])
                off = np.abs(now[name] - firsts[name])
                out |= ~(off <= band) & np.isfinite(off)
                share = np.where(band > 0, off / np.where(band > 0, band, 1.0), 0.0)
                self.largest[name] = max(self.largest[name], float(np.max(share, initial=0.0)))
        # after the last look nothing is asked but of those that look wrong: fresh memory takes as long as a hundred steps
        some = np.flatnonzero(out) if n >= self.run.schedule.steps else slice(None)
        for rows, v in ((self.firsts, firsts), (self.moved, moveds), (self.variance, sums)):
            for name in self.names:
                rows[name][part][some] = v[name][some]
        for j in np.flatnonzero(out).tolist():
            for c in self.charges:
                self.last[c.name][part.start + j] = now[c.name][j]
        return out

    # --- by replay ----------------------------------------------------------------------------------
    def find(self, members: Sequence[int], good: int, n: int) -> Found:
        rows = (n - good + 1) * len(self.values)
        size = max(1, ROOM // rows)
        out: dict[int, tuple[Stop, Mapping[str, Any]]] = {}
        for k in range(0, len(members), size):
            out |= self.found(list(members[k : k + size]), good, n)
        return out

    def found(self, members: list[int], good: int, n: int) -> dict[int, tuple[Stop, Mapping[str, Any]]]:
        part = part_of(self.run, members)
        self.calibrate(part)
        begun = begun_at(part, good)
        seen = every_step(begun, n, self.values)
        injured: dict[int, Injured] = {}
        with np.errstate(all="ignore"):
            for c in self.charges:
                self.judge(c, members, seen, good, injured)
        out = {members[j]: injury(x, part_of(begun, [j]), members[j]) for j, x in injured.items()}
        for j, k in enumerate(members) if self.setup.goal.math == "exact" else ():
            same = all(np.array_equal(seen[n][-1, j], v[k], equal_nan=True) for n, v in self.last.items())
            if not same:
                out[k] = not_reproduced(part_of(begun, [j]), good, n, k)
        return out

    def calibrate(self, part: Run) -> None:
        """How far the roundings of one step move each charge, in the first steps of some members."""
        fresh = started(part)
        seen = every_step(fresh, min(CALM, max(self.run.schedule.steps, 1)), self.values)
        for c in self.charges:
            moved = np.abs(np.diff(seen[c.name], axis=0))
            largest = float(np.max(moved[np.isfinite(moved)], initial=0.0))
            self.floor[c.name] = max(self.floor[c.name], largest)

    def judge(
        self, c: Charge, members: list[int], seen: Mapping[str, Any], good: int, injured: dict[int, Injured]
    ) -> None:
        """The first step of each member that moved a charge by more than rounding does."""
        name, value = c.name, seen[c.name]
        one = np.sqrt(np.maximum(*both(self.of_a_step(name, seen))))
        limit = JUMP * np.maximum(one, self.floor[name])
        jumps = np.abs(np.diff(value, axis=0))
        steps = good + np.arange(1, len(value))
        mean = self.mean(name, {other: v[members] for other, v in self.variance.items()})
        moved = np.maximum(*both(seen[name + MOVED]))
        bands = self.band(name, steps[:, None], mean, moved, self.biased[name][members])
        off = np.abs(value[1:] - self.firsts[name][members])
        passed = (~(off <= bands) & np.isfinite(off)).any(axis=0)
        wrong = (jumps > limit) & np.isfinite(value[1:]) & passed
        for j in np.flatnonzero(wrong.any(axis=0)).tolist():
            at = int(np.argmax(wrong[:, j]))
            if j not in injured or injured[j].step > steps[at]:
                smallest = float(max(bands[at, j], limit[at, j]))
                injured[j] = Injured(
                    name, c.expression, int(steps[at]), float(jumps[at, j]), float(bands[at, j]), smallest
                )
        if (only_far := passed & ~wrong.any(axis=0)).any():
            far = jumps[:, only_far]
            self.floor[name] = max(self.floor[name], float(np.max(far[np.isfinite(far)], initial=0.0)))
            self.biased[name][np.array(members)[only_far]] = True


def both(v: Any) -> tuple[Any, Any]:
    """At the beginning and at the end of each step."""
    return v[:-1], v[1:]


def refusal(setup: Setup, r: Run) -> str:
    """Why the charges of a run are not watched; empty if they are."""
    goal, method = setup.goal, method_of(setup.compiled.known.method)
    if r.system.energy is None or not r.system.seen.pairs:
        return "it has no energy, whose symmetries would be known"
    if goal.precision not in EPS:
        return f"no band is known in precision={goal.precision!r}"
    if r.jump is not None or method.adaptive or r.gridless or r.series is not None:
        return "it has no steps of one length"
    if r.system.clock is not None:
        return "it is stepped in a time of its own"
    if any(a.since is None and not a.inside for a in r.acts):
        return "acts change its state"
    if goal.approximate is not None or goal.project:
        return "its forces are approximate, or its steps are projected"
    if not r.given.members or not math.isfinite(r.dt):
        return "it has no members"
    return ""


def watch_charges(setup: Setup, r: Run, every: int) -> tuple[WatchedCharges, Watch] | None:
    if refusal(setup, r):
        return None
    watched = charges_to_watch(r.system, setup.goal, setup.compiled.known.method)
    if not watched:
        return None
    one = WatchedCharges(r, setup, watched)
    told = tuple(c.name for c, *_ in watched)
    return one, Watch("charges", one.values, every, one.begin, one.bad, "integrity", one.find, told)
