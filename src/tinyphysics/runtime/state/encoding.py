"""How do the numbers that a user gives become those that a run keeps, and those that it shows?

A run keeps each state as one array or as several words, in the formats of its precision and in the order of its
program; frames, files, hashes and checkpoints hold them so. What a user reads is their value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import DeviceArray
from tinyphysics.device.numbers import LOST, NUMPY_DTYPE
from tinyphysics.runtime.state import device_arrays
from tinyphysics.tpir.precision.lattice import RANGE
from tinyphysics.tpir.precision.precision import LOW, PRECISIONS, Precision
from tinyphysics.trajectory import Words

Arrays = Mapping[str, Any]


class Encoding:
    def __init__(self, precision: Precision, solves: bool = False) -> None:
        self.precision = precision
        self.solves = solves  # has a step equations that may have no solution near?

    @property
    def plain(self) -> bool:
        """Is what is kept what is shown?"""
        return self.precision.low is None and self.precision.state.is_float

    @property
    def failure(self) -> str:
        """Why a run stops whose numbers are none any more."""
        if self.solves:
            return "not solved"
        return "not finite" if self.precision.state.is_float else "overflow"

    def stored(self, name: str, x: Any) -> dict[str, Any]:
        """A state as it is kept, from a float64 array: the nearest number, then what is nearest to the rest."""
        if isinstance(x, DeviceArray):
            return device_arrays.stored(self.precision, name, x)
        if not self.precision.state.is_float:
            return {name: self.whole(name, x)}
        own = NUMPY_DTYPE[self.precision.state.name]
        if self.precision.low is None and x.dtype == own:
            return {name: x}
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            high = x.astype(own, copy=False)
            if self.precision.low is None:
                return {name: high}
            rest = (x - high.astype(np.float64)).astype(NUMPY_DTYPE[self.precision.low.name])
        return dict(zip(self.precision.names(name), (high, rest)))

    def shown(self, name: str, kept: Arrays) -> Any:
        """The value of a state, from all that is kept: of one word that word, of two their sum in float64."""
        if not self.precision.state.is_float:
            n = kept[name]
            if isinstance(n, DeviceArray):
                return device_arrays.valued(n, self.precision.unit(name))
            value = n * self.precision.unit(name)
            # of a store opened elsewhere it is an array of another library's
            if isinstance(n, (np.ndarray, np.generic)):
                return np.where(n == LOST, np.nan, value)
            return value.where(n != LOST)
        high, *low = (kept[n] for n in self.precision.names(name))
        if low and isinstance(high, DeviceArray):
            return device_arrays.total(high, low[0])
        return high.astype(np.float64) + low[0].astype(np.float64) if low else high

    def whole(self, name: str, x: Any) -> Any:
        """The nearest whole number of units; where there is none, one that stands for no number."""
        with np.errstate(over="ignore", invalid="ignore"):
            units = np.rint(x / self.precision.unit(name))
            there = np.abs(units) < RANGE
            return np.where(there, np.where(there, units, 0.0).astype(np.int64), LOST)

    def beyond(self, name: str) -> str:
        """What a whole number is that is none."""
        if self.precision.state.is_float:
            return ""
        unit = self.precision.unit(name)
        return f"not finite, or beyond the lattice: {RANGE:.0f} units of 2**{math.log2(unit):.0f}, which is {RANGE * unit:g}"

    def rounding(self, given: Arrays) -> dict[str, Any]:
        """The units of the states, and how much the first step had to round what it was given."""
        lost = {}
        for name, x in given.items():
            if x is None or isinstance(x, Words):  # from a run on the same lattice
                lost[name] = 0.0
            else:
                value = np.asarray(x, np.float64)
                lost[name] = float(
                    np.max(np.abs(self.shown(name, self.stored(name, value)) - value), initial=0.0)
                )
        return {"unit": {name: self.precision.unit(name) for name in given}, "initial_rounding": lost}

    def values(self, kept: Arrays) -> dict[str, Any]:
        """Every state, by its name."""
        return {name: self.shown(name, kept) for name in kept if owner(name) == name}

    def words(self, name: str, kept: Arrays) -> Words:
        return Words({n: kept[n] for n in self.precision.names(name)})


FLOAT64 = Encoding(PRECISIONS["float64"])


def owner(name: str) -> str:
    """The state that a word belongs to."""
    return name.removesuffix(LOW)
