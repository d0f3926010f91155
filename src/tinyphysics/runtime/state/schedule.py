"""How many steps, and where does a run have to look?  Integers only: time follows from the step number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
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


def times_at(steps: Sequence[int], dt: float, t0: float) -> Any:
    """The times of some steps, as an array."""
    if len(steps) < FEW:
        return np.array([time_at(n, dt, t0) for n in steps], np.float64)
    return fma64(np.array(steps, np.float64), dt, t0)


def checked_time(value: Any, example: str = "t0=0.0") -> float:
    return number(example.partition("=")[0], value, example, "time")


def counted(name: str, value: Any, n: int) -> int:
    """The number of steps of a run, which float64 has to tell from the next: t is t0 + n*dt."""
    if abs(n) > COUNTED:
        took = f": at 3 ns each, {n * 3e-9 / YEAR:.2g} years" if n < 10**300 else ""
        raise InputError(
            f"{name}={shown(value)} asks for more than 2**53 steps, which float64 cannot count{took}",
            fix="Pass fewer steps, or a longer dt.",
        )
    return n


def count_steps(steps: Any, until: Any, dt: float, t0: float) -> int:
    if (steps is None) == (until is None):
        raise InputError(
            "give either steps= or until=", fix="evolve(..., steps=1000) or evolve(..., until=10.0)."
        )
    if steps is not None:
        return counted("steps", steps, whole("steps", steps, 0))
    end = checked_time(until, "until=10.0")
    exact = (end - t0) / dt
    n = counted("until", until, round(exact) if math.isfinite(exact) else 10**300)
    if n < 0:
        raise InputError(
            f"until={end:g} lies before t0={t0:g}", fix="Time runs forward; use a negative dt to go back."
        )
    if abs(exact - n) > 1e-9 * max(1, abs(n) * 1e-6):
        below = math.floor(exact)
        raise InputError(
            f"until={end:g} is not a whole number of steps of dt={dt:g} from t0={t0:g}",
            fix=f"The neighbours are until={time_at(below, dt, t0)!r} (steps={below}) and "
            f"until={time_at(below + 1, dt, t0)!r} (steps={below + 1}).",
        )
    return n


@dataclass(frozen=True)
class Schedule:
    """Where a run begins, ends and looks. A run that goes on from step `first` has the strides of the whole."""

    steps: int  # the last step
    save_every: int | None
    observe_every: int | None  # None: nothing is observed
    hash_every: int | None
    first: int = 0
    checkpoint_every: int | None = None

    def saves(self, n: int) -> bool:
        return n in (self.first, self.steps) or self.save_every is not None and n % self.save_every == 0

    def last_saved(self, n: int) -> int:
        """The last step up to n whose frame there is."""
        return max(
            self.first, n if self.saves(n) else 0 if self.save_every is None else n - n % self.save_every
        )

    def hashes(self, n: int) -> bool:
        return self.hash_every is not None and n > 0 and n % self.hash_every == 0

    def checkpoints(self, n: int) -> bool:
        return self.checkpoint_every is not None and n % self.checkpoint_every == 0

    def frames(self, n: int) -> list[int]:
        """The steps of the frames of a run that ends at step n."""
        every = self.save_every or n + 1
        regular = range(self.first - self.first % every + every, n + 1, every)
        return [*dict.fromkeys([self.first, *regular, n])]

    def slot(self, n: int) -> int:
        """The number of the frame at step n."""
        if n == self.first:
            return 0
        return -(-n // self.save_every) - self.first // self.save_every if self.save_every is not None else 1

    def complete(self, n: int) -> int:
        """How many frames there are when step n is done."""
        return self.slot(n) + self.saves(n)

    def steps_of(self, begin: int, end: int) -> Any:
        """The steps of some frames, by their numbers: the inverse of `slot`."""
        every = self.save_every or self.steps
        out = np.minimum((self.first // max(every, 1) + np.arange(begin, end)) * every, self.steps)
        return np.where(np.arange(begin, end) == 0, self.first, out)

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
        return min([self.steps, *(n - n % s + s for s in strides if s is not None)])
