"""How many steps, and where does a run have to look?  Integers only: time follows from the step number."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.device.host.arrays import fma64
from tinyphysics.errors import InputError
from tinyphysics.given import number, shown
from tinyphysics.given import whole as whole
from tinyphysics.ir.value import fma

COUNTED = 2**53  # steps: beyond, t0 + n*dt is not the time of step n
YEAR = 365.25 * 86400  # seconds
FEW = 32  # times that are sooner computed one by one


def time_at(step: int, dt: float, t0: float) -> float:
    """t0 + step*dt, rounded once: what the program's own clock reads."""
    return fma(float(step), dt, t0)


def times_at(steps: Any, dt: float, t0: float) -> Any:
    """The times of some steps, as an array."""
    if len(steps) < FEW:
        return np.array([time_at(n, dt, t0) for n in steps], np.float64)
    if t0 == 0.0:  # the product is rounded once already; the sum makes a zero of -0.0
        return np.array(steps, np.float64) * dt + 0.0
    return fma64(np.array(steps, np.float64), dt, t0)


def checked_time(value: Any, example: str = "t0=0.0") -> float:
    return number(example.partition("=")[0], value, example, "time")


def counted(name: str, value: Any, n: int) -> int:
    """The number of steps of a run, which float64 has to tell from the next: t is t0 + n*dt."""
    if abs(n) > COUNTED:
        took = f": at 3 ns each, {n * 3e-9 / YEAR:.2g} years" if n < 10**300 else ""
        raise InputError(
            f"{name}={shown(value)} is more than 2**53 steps, which float64 cannot count{took}",
            fix="Pass fewer steps, or a longer dt.",
        )
    return n


@dataclass(frozen=True, eq=False)
class Marks:
    """Frames at times of their own, in their order: after which step, and when, if that is between two steps."""

    steps: Any  # (rows,) whole numbers
    times: Any  # (rows,); NaN: the step itself

    @cached_property
    def whole(self) -> Any:
        """The steps that have a frame of their own."""
        return self.steps[np.isnan(self.times)]

    def row(self, n: int) -> int:
        """The number of the frame at step n, or of the first one after it."""
        return int(np.searchsorted(self.steps, n))

    def between(self, n: int) -> Any:
        """The numbers of the frames between step n and the next one."""
        rows = np.arange(self.row(n), self.row(n + 1))
        return rows[~np.isnan(self.times[rows])]

    @cached_property
    def most_between(self) -> int:
        """The most frames between two steps."""
        inside = self.steps[~np.isnan(self.times)]
        return int(np.unique(inside, return_counts=True)[1].max()) if len(inside) else 0


@dataclass(frozen=True)
class Schedule:
    """Where a run begins, ends and looks. A run that goes on from step `first` has the strides of the whole."""

    steps: int  # the last whole step
    save_every: int | None
    observe_every: int | None  # None: nothing is observed
    hash_every: int | None
    first: int = 0
    checkpoint_every: int | None = None
    # instead of save_every: all frames, the first and the last among them
    marks: Marks | None = field(default=None, compare=False)
    end: float | None = None  # where a run ends between two steps; its frame is the last one
    told_every: bool = True  # is save_every what the user gave?
    # the numbers of the frames that a user asked for; None: all
    shown: Any = field(default=None, compare=False)

    def saves(self, n: int) -> bool:
        if n in (self.first, self.steps):
            return True
        if self.marks is not None:
            whole = self.marks.whole
            k = int(np.searchsorted(whole, n))
            return k < len(whole) and int(whole[k]) == n
        return self.save_every is not None and n % self.save_every == 0

    def last_saved(self, n: int) -> int:
        """The last step up to n whose frame there is."""
        if self.marks is not None:
            return int(self.marks.whole[np.searchsorted(self.marks.whole, n, "right") - 1])
        return max(
            self.first, n if self.saves(n) else 0 if self.save_every is None else n - n % self.save_every
        )

    def hashes(self, n: int) -> bool:
        return self.hash_every is not None and n > 0 and n % self.hash_every == 0

    def checkpoints(self, n: int) -> bool:
        return self.checkpoint_every is not None and n % self.checkpoint_every == 0

    def frames(self, n: int, since: int = 0) -> tuple[Any, Any]:
        """(steps, times) of the frames of a run that ends at step n, from a number on.

        A time is NaN, but of a frame between two steps: its step is the one before it. None: there are no such frames.
        """
        count = self.kept(n)
        steps, times = self.steps_of(since, count), self.between_of(since, count)
        if (last := self.slot(n) - since) >= 0:
            steps[last] = n
            if times is not None:
                times[last] = math.nan
        return steps, times

    def slot(self, n: int) -> int:
        """The number of the frame at step n."""
        if n == self.first:
            return 0
        if self.marks is not None:
            return self.marks.row(n)
        return -(-n // self.save_every) - self.first // self.save_every if self.save_every is not None else 1

    def between(self, n: int) -> list[tuple[int, float]]:
        """(number, time) of the frames between step n and the next one."""
        if self.marks is not None:
            return [(int(k), float(self.marks.times[k])) for k in self.marks.between(n)]
        return [(self.slot(n) + 1, self.end)] if self.end is not None and n == self.steps else []

    def complete(self, n: int) -> int:
        """How many frames there are when step n is done; those between it and the next one are made with that."""
        return self.slot(n) + self.saves(n) + (len(self.between(n)) if n == self.steps else 0)

    def kept(self, n: int) -> int:
        """How many frames a run has that ends at step n, where it has one in any case."""
        return self.complete(n) + (not self.saves(n))

    @property
    def most_between(self) -> int:
        """The most frames between two steps."""
        return int(self.end is not None) if self.marks is None else self.marks.most_between

    def steps_of(self, begin: int, end: int) -> Any:
        """The steps of some frames, by their numbers: the inverse of `slot`."""
        if self.marks is not None:
            return np.array(self.marks.steps[begin:end])
        every = self.save_every or self.steps
        if end - begin < FEW:
            base = self.first // max(every, 1)
            few = [self.first if k == 0 else min((base + k) * every, self.steps) for k in range(begin, end)]
            return np.array(few, np.int64)
        out = np.minimum((self.first // max(every, 1) + np.arange(begin, end)) * every, self.steps)
        return np.where(np.arange(begin, end) == 0, self.first, out)

    def between_of(self, begin: int, end: int) -> Any:
        """The times of some frames, by their numbers, where they lie between two steps; else NaN, or None for all."""
        if not self.most_between:
            return None
        if self.marks is not None:
            return np.array(self.marks.times[begin:end])
        out = np.full(end - begin, math.nan)
        if self.end is not None and begin <= (last := self.slot(self.steps) + 1) < end:
            out[last - begin] = self.end
        return out

    def observed(self, n: int) -> range:
        """The steps of a run to step n at which something is observed."""
        if self.observe_every is None:
            return range(0)
        return range(-(-self.first // self.observe_every) * self.observe_every, n + 1, self.observe_every)

    def next_stop(self, n: int) -> int:
        """The first step after n at which a block has to end."""
        return self.next_of(n, self.hash_every, self.checkpoint_every)

    def next_look(self, n: int) -> int:
        """The first step after n at which the state itself is looked at."""
        return self.next_of(n, self.save_every, self.hash_every, self.checkpoint_every)

    def next_of(self, n: int, *strides: int | None) -> int:
        out = min([self.steps, *(n - n % s + s for s in strides if s is not None)])
        if self.marks is not None and (k := self.marks.row(n + 1)) < len(self.marks.steps):
            out = min(out, int(self.marks.steps[k]))
        return out


def times_of(frames: tuple[Any, Any], dt: float, t0: float) -> Any:
    """The times of frames at some steps, or between them and the next ones."""
    steps, times = frames
    whole = times_at(steps, dt, t0)
    return whole if times is None else np.where(np.isnan(times), whole, times)
