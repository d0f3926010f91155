"""How is the past of a run known when cotangents go back through it?  Stored, taken back, or computed again.

`store` keeps the loop state of every step. `reverse` takes steps back by their inverses: exactly on a lattice, elsewhere from
anchors, at which what was taken back is compared. `checkpoint` keeps some loop states and runs again from them, by the
schedule that needs the fewest steps (Griewank and Walther 2000).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import comb
from typing import Any, Protocol

import numpy as np

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.runtime.measure.cotangent_words import TOLERANCES, pairs, range_of
from tinyphysics.runtime.measure.course import Course, Key, Pullback
from tinyphysics.runtime.measure.snapshots import Snapshots
from tinyphysics.runtime.measure.sweep_file import SweepFile, identity

Arrays = Mapping[str, Any]
STRETCH = 1024  # steps after which cotangents are first looked at; as long as they grow little, later
LONGEST = 1 << 16
SAMPLES = 8  # loop states that tell how large numbers are
ANCHORS = 32  # loop states that are kept in a run, and in each stretch that is run again
STORED = 64  # steps of a stretch that is short enough to be stored
PASTS = ("auto", "reverse", "checkpoint", "store")


@dataclass
class Report:
    """How the past of a gradient run was known, and what that took."""

    past: str
    snapshots: int = 0  # loop states that were kept at a time, the first one included
    forward_steps: int = 0  # the first run and what was run again, without what a step back computes itself
    anchors: int = 0  # with which states that were taken back were compared
    miss: float = 0.0  # the largest difference there, relative to the largest number of the state
    bytes: int = 0  # of the loop states that were kept
    on_disk: int = 0  # bytes of those that did not fit in memory=
    approximate: float = 0.0  # through a tree: the rms of the relative errors of its first forces
    own_steps: int = 0  # of a method that chose their lengths, which are held: of all members

    def __str__(self) -> str:
        kept = f"{self.snapshots:,} states kept ({self.bytes:,} bytes)"
        told = f"past={self.past!r}: {self.forward_steps:,} steps forward, {kept}"
        if self.on_disk:
            told += f", {self.on_disk:,} bytes of them on disk"
        if self.approximate:
            told += f"; through a tree, of its forces, which are off by {self.approximate:.1e}"
        if self.own_steps:
            told += f"; at the {self.own_steps:,} steps that the method chose, with their lengths held"
        return told + (f", {self.anchors} anchors, missed by {self.miss:.1e}" if self.anchors else "")


# --- the schedule ---------------------------------------------------------------------------------
def cost(steps: int, snapshots: int) -> int:
    """The fewest steps forward from which so many steps can be taken back, one after the other."""
    if steps <= 1:
        return 0
    if snapshots == 1:
        return steps * (steps - 1) // 2
    r = repetitions(steps, snapshots)
    return r * steps - comb(snapshots + r, r - 1)


def repetitions(steps: int, snapshots: int) -> int:
    """How often a step is done at most."""
    r = 1
    while comb(snapshots + r, r) < steps:
        r += 1
    return r


def split(steps: int, snapshots: int) -> int:
    """After how many steps the next snapshot is kept, the first state being one."""

    def total(m: int) -> int:
        return m + cost(m, snapshots) + cost(steps - m, snapshots - 1)

    low, high = 1, steps - 1  # the sum is convex
    while low < high:
        middle = (low + high) // 2
        if total(middle + 1) >= total(middle):
            high = middle
        else:
            low = middle + 1
    return low


Action = tuple[str, int, int]


def actions(steps: int, snapshots: int) -> Iterator[Action]:
    """("run", a, b): from the last state that was kept, or where it is, from a to b; ("keep", n, _); ("drop", n, _);
    ("turn", n, _): at the end; ("back", n, _): through the step that begins at n."""
    kept, end, turned = [0], steps, False
    while end > 0:
        at = kept[-1]
        yield "from", at, 0
        while end - at > 1 and len(kept) < snapshots:
            to = at + split(end - at, snapshots - len(kept) + 1)
            yield "run", at, to
            yield "keep", to, 0
            kept.append(to)
            at = to
        if end - 1 > at:
            yield "run", at, end - 1
        if not turned:
            yield "turn", end - 1, end
            turned = True
        yield "back", end - 1, 0
        end -= 1
        if end and kept[-1] == end:
            yield "drop", end, 0
            kept.pop()


# --- going ------------------------------------------------------------------------------------------
class Seer(Protocol):
    """What looks at a loop every so many steps."""

    stride: int

    def see(self, m: Any, n: int) -> None: ...


class Every:
    """Keeps every loop state."""

    def __init__(self, course: Course, m: Any) -> None:
        self.course, self.states, self.stride = course, [course.kept(m)], 1

    def see(self, m: Any, n: int) -> None:
        self.states.append(self.course.kept(m))


@dataclass
class Looks:
    """The states that users see at some steps, word by word."""

    course: Course
    wanted: set[Key]
    seen: dict[Key, dict[str, Any]] = field(default_factory=dict)

    @property
    def steps(self) -> set[int]:
        """At which the loop stops: those, and those before a time between two."""
        return {key[0] if isinstance(key, tuple) else key for key in self.wanted}

    @cached_property
    def parts(self) -> dict[int, list[tuple[int, float]]]:
        """The times between a step and the next one."""
        out: dict[int, list[tuple[int, float]]] = {}
        for key in self.wanted:
            if isinstance(key, tuple):
                out.setdefault(key[0], []).append(key)
        return out

    def along(self) -> None:
        """Of a run whose steps have their own lengths: time after time."""
        c, m, n = self.course, self.course.begin(), 0
        for key in sorted(self.wanted, key=c.time):
            if isinstance(key, tuple):
                words = c.engine.between(m, key[1])
            else:
                c.advance(m, key - n)
                n = key
                c.check(m, n)
                words = c.engine.synchronised(m)
            self.seen[key] = {name: np.array(here(v)) for name, v in words.items()}
            c.check_values(self.seen[key], key)

    def go(self, m: Any, a: int, b: int, seer: Seer | None = None) -> None:
        """From step a to b, stopping where values are read, and where a seer wants to see the loop."""
        if a == 0:
            self.look_between(0)
        stops = sorted(n for n in self.steps if a < n <= b and n not in self.seen)
        n, k = a, 0
        while n < b:
            while k < len(stops) and stops[k] <= n:
                k += 1
            to = stops[k] if k < len(stops) else b
            if seer is not None:
                to = min(to, n + seer.stride - (n - a) % seer.stride)
            self.course.advance(m, to - n)
            n = to
            if n in self.steps and n not in self.seen:
                self.look(m, n)
            if seer is not None:
                seer.see(m, n)

    def look(self, m: Any, n: int) -> None:
        self.course.check(m, n)
        self.seen[n] = self.course.seen(m)
        self.look_between(n)

    def look_between(self, n: int) -> None:
        """By shorter steps from a step that was looked at, which are not fed back."""
        for key in (key for key in self.parts.get(n, ()) if key not in self.seen):
            c = self.course
            one = c.between(c.first() if n == 0 else self.seen[n], *key)
            c.engine.advance(one, 1)
            self.seen[key] = c.seen(one)
            c.check_values(self.seen[key], key)


Seeds = Callable[[], Mapping[int, Arrays]]  # made when the run is at its end: cotangents at some steps


class Backward:
    """Cotangents on their way back through the steps, with those that join them."""

    def __init__(self, course: Course, reverse: bool, looks: Looks, file: SweepFile | None = None) -> None:
        self.course, self.looks, self.file = course, looks, file or SweepFile(None, None)
        self.pull = course.adjoint(reverse)
        self.size = STRETCH  # steps after which cotangents are looked at
        self.seeds: dict[int, Arrays] = {}

    def turn(self, state: Arrays, seeds: Mapping[int, Arrays]) -> None:
        """At the end of the run."""
        last = self.course.steps
        words = self.looks.seen[last]
        members = self.course.members
        shapes = {x.name: (members, *x.var.shape) for x in self.course.setup.system.states}
        nothing = {n: np.broadcast_to(0.0, shape) for n, shape in shapes.items()}
        self.pull.begin(state, words, {**nothing, **seeds.get(last, {})})
        self.seeds = {n: {**nothing, **bars} for n, bars in seeds.items() if 0 < n < last}
        self.end = last
        if self.file.is_none:
            return
        if (mark := self.file.begins(self.told(seeds))) is not None:
            self.end = mark.n
            self.pull.resume(mark)
            self.seeds = {n: bars for n, bars in self.seeds.items() if n < mark.n}

    def told(self, seeds: Mapping[int, Arrays]) -> str:
        """What a sweep is of, as the file that keeps it knows it."""
        r, c = self.course.run, self.course
        own = [self.pull.program.hash, *(str(v.arg) for v in c.wrt), str(c.steps), repr((r.dt, r.t0))]
        given = {**r.given.states, **r.given.params}
        parts = [x for n in sorted(given) for x in (n, np.asarray(here(given[n])))]
        parts += [x for n in sorted(seeds) for k in sorted(seeds[n]) for x in (f"{n} {k}", here(seeds[n][k]))]
        return identity([*own, *parts])

    def mark(self, n: int) -> None:
        """The sweep has come to step n, and joined what there is."""
        if self.file.path is not None:
            self.file.mark(n, self.pull.kept())

    def joins(self, n: int) -> None:
        """The cotangents of what is looked at there; the states are in the loop."""
        self.pull.seen(n)
        if (bars := self.seeds.pop(n, None)) is not None:
            self.pull.add(self.pull.seeded(self.pull.taken_back(), self.looks.seen[n], bars, n))

    def next_seed(self, n: int) -> int:
        """The last step before n with cotangents of its own."""
        return max((k for k in self.seeds if k < n), default=0)


def stored(course: Course, looks: Looks, seeds: Seeds, report: Report, file: SweepFile) -> Pullback:
    """Every loop state is kept."""
    m = course.begin()
    every = Every(course, m)
    looks.go(m, 0, course.steps, every)
    past = every.states
    report.forward_steps, report.snapshots = course.steps, course.steps + 1
    report.bytes = course.bytes * report.snapshots
    on_lattice = course.precision == "lattice"
    back = Backward(course, on_lattice, looks, file)
    back.turn(past[-1], seeds())
    through_stored(back, past[: back.end + 1], 0)
    return back.pull


def through_stored(back: Backward, past: list[dict[str, Any]], first: int) -> None:
    """From the last of some loop states to the first, which is at step `first`."""
    on_lattice = back.course.precision == "lattice"
    for k in range(len(past) - 2, -1, -1):
        # on a lattice a step is taken back, from where it ended: the same whole numbers
        back.pull.put(past[k + 1] if on_lattice else past[k])
        back.pull.step(first + k)
        back.pull.scale()
        back.joins(first + k)
        back.mark(first + k)


def checkpointed(
    course: Course, looks: Looks, seeds: Seeds, report: Report, snapshots: int, room: int, file: SweepFile
) -> Pullback:
    """Some loop states are kept, in memory as long as they fit in `room`; between them the run is done again."""
    on_lattice = course.precision == "lattice"
    back, kept = Backward(course, on_lattice, looks, file), Snapshots(room)
    m, first, steps = course.begin(), True, course.steps
    kept[0] = course.kept(m)
    if file.read is not None:  # the run once more, for what the loss reads; then what is left of the sweep
        looks.go(m, 0, steps)
        report.forward_steps += steps
        back.turn(course.kept(m), seeds())
        m, steps = course.begin(), back.end
    report.snapshots = min(snapshots, steps)
    report.bytes = min(course.bytes * report.snapshots, max(room, course.bytes))
    for what, a, b in actions(steps, snapshots):
        if what == "from" and not first:
            m = course.at(kept[a], a)
        elif what == "run":
            looks.go(m, a, b)
            report.forward_steps += b - a
        elif what == "keep":
            kept[a] = course.kept(m)
        elif what == "drop":
            del kept[a]
        elif what == "turn" and file.read is None:
            state = course.kept(m)
            looks.go(m, a, b)
            report.forward_steps += 1
            back.turn(course.kept(m), seeds())
            m = course.at(state, a)
        elif what == "back":
            if on_lattice:  # a step is taken back from where it ended
                course.advance(m, 1)
            back.pull.put(course.kept(m))
            back.pull.step(a)
            back.pull.scale()
            back.joins(a)
            back.mark(a)
        first = False
    report.on_disk = kept.on_disk
    return back.pull


def reversed_(course: Course, looks: Looks, seeds: Seeds, report: Report, file: SweepFile) -> Pullback:
    """Steps are taken back; elsewhere than on a lattice what comes back is compared with anchors."""
    exact = course.precision == "lattice"
    m = course.begin()
    anchors = Anchors(course, 0, course.steps, course.kept(m), not exact)
    looks.go(m, 0, course.steps, anchors)
    report.forward_steps = course.steps
    back = Backward(course, True, looks, file)
    back.turn(course.kept(m), seeds())
    report.snapshots = len(anchors.kept)
    back_through(back, anchors, back.end, report, marks=True)
    report.bytes = course.bytes * (report.snapshots + 1)
    return back.pull


class Anchors:
    """Loop states of some steps, evenly spaced, ANCHORS or fewer."""

    def __init__(
        self,
        course: Course,
        first: int,
        end: int,
        state: Arrays,
        many: bool,
        every: int = 0,
        sizes: Mapping[str, Any] | None = None,
    ) -> None:
        self.course, self.first, self.end, self.many = course, first, end, many
        steps = end - first
        self.every = self.stride = every or max(-(-steps // ANCHORS), min(STRETCH, -(-steps // SAMPLES)), 1)
        self.kept: dict[int, Arrays] = {first: state}
        known = {} if sizes is None else sizes  # the largest numbers so far
        self.sizes = {name: course.numbers.largest([v], known.get(name)) for name, v in state.items()}
        if not many:
            self.stride = max(end - first, 1)

    def see(self, m: Any, n: int) -> None:
        if not self.many:
            return
        state = self.course.kept(m)
        of = self.course.numbers
        self.sizes = {name: of.largest([state[name]], so_far) for name, so_far in self.sizes.items()}
        if n == self.end or (n - self.first) % self.every:
            return
        self.kept[n] = state


def back_through(back: Backward, anchors: Anchors, end: int, report: Report, marks: bool = False) -> None:
    """From step `end` to the first anchor. A stretch that misses its anchor is run again from there."""
    kept = {n: state for n, state in anchors.kept.items() if n < end}
    while kept:
        begin = max(kept)
        anchor = kept.pop(begin)
        before = back.pull.now, dict(back.seeds)
        take_back(back, begin, end, marks and not anchors.many)
        found = back.pull.taken_back()
        missed = back.pull.numbers.apart(pairs(found, anchor, back.course.words, anchors.sizes))
        report.anchors += 1
        if missed > TOLERANCES[back.course.precision] and anchors.many:
            back.pull.now, back.seeds = before
            again(back, anchor, begin, end, report, anchors.sizes)
        else:
            report.miss = max(report.miss, missed)
        if missed:
            back.pull.put(anchor)
        end = begin
        if marks:
            back.mark(begin)


def again(
    back: Backward, state: Arrays, begin: int, end: int, report: Report, sizes: Mapping[str, Any]
) -> None:
    """A stretch once more, with anchors closer to each other, or stored where it is short."""
    course = back.course
    m = course.at(state, begin)
    report.forward_steps += end - begin
    if end - begin <= STORED:
        past = [course.kept(m)]
        for _ in range(end - begin):
            course.advance(m, 1)
            past.append(course.kept(m))
        for k in range(len(past) - 2, -1, -1):
            back.pull.put(past[k + 1])  # the step back itself loses a rounding
            back.pull.step(begin + k)
            back.pull.scale()
            back.joins(begin + k)
        return
    closer = Anchors(course, begin, end, state, True, -(-(end - begin) // ANCHORS), sizes)
    Looks(course, set()).go(m, begin, end, closer)
    report.snapshots = max(report.snapshots, len(closer.kept) + ANCHORS)
    back_through(back, closer, end, report)


def take_back(back: Backward, begin: int, end: int, marks: bool = False) -> None:
    """By inverse steps, in pieces after which cotangents are scaled; `marks` where none of them is ever repeated."""
    n, size, pull = end, back.size, back.pull
    few = range_of(back.course.precision)
    while n > begin:
        to = max(n - size, begin, back.next_seed(n))
        before, was = pull.state, pull.largest
        pull.step(to, n - to)
        if pull.overflowed and n - to > 1:
            pull.state, size = before, max((n - to) // 2, 1)
            continue
        quotient = pull.numbers.growth(pull.largest, was)
        grown = math.log2(quotient) if quotient > 0 else 0.0
        if n - to == size:
            longer, shorter = min(2 * size, LONGEST), max(size // 2, 1)
            size = longer if grown < few.little else shorter if grown > few.much else size
        pull.scale()
        n, back.size = to, size
        back.joins(n)
        if marks:
            back.mark(n)
