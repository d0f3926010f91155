"""How do the numbers that a user gives become those that a run keeps, and those that it shows?

A run keeps each state as one array or as several words, in the formats of its precision and in the order of its
program; frames, files, hashes and checkpoints hold them so. What a user reads is their value.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tinyphysics.device.host import NUMPY_DTYPE
from tinyphysics.tpir.precision import LOW, PRECISIONS, Precision
from tinyphysics.trajectory import Words

Arrays = Mapping[str, Any]


class Encoding:
    def __init__(self, precision: Precision) -> None:
        self.precision = precision

    @property
    def plain(self) -> bool:
        """Is what is kept what is shown?"""
        return self.precision.low is None and self.precision.state.is_float

    def stored(self, name: str, x: Any) -> dict[str, Any]:
        """A state as it is kept, from a float64 array: the nearest number, then what is nearest to the rest."""
        own = NUMPY_DTYPE[self.precision.state.name]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            high = x.astype(own, copy=False)
            if self.precision.low is None:
                return {name: high}
            rest = (x - high.astype(np.float64)).astype(NUMPY_DTYPE[self.precision.low.name])
        return dict(zip(self.precision.names(name), (high, rest)))

    def shown(self, name: str, kept: Arrays) -> Any:
        """The value of a state, from all that is kept: of one word that word, of two their sum in float64."""
        high, *low = (kept[n] for n in self.precision.names(name))
        return high.astype(np.float64) + low[0].astype(np.float64) if low else high

    def values(self, kept: Arrays) -> dict[str, Any]:
        """Every state, by its name."""
        return {name: self.shown(name, kept) for name in kept if owner(name) == name}

    def words(self, name: str, kept: Arrays) -> Words:
        return Words({n: kept[n] for n in self.precision.names(name)})


FLOAT64 = Encoding(PRECISIONS["float64"])


def owner(name: str) -> str:
    """The state that a word belongs to."""
    return name.removesuffix(LOW)
