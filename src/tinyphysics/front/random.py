"""Random numbers inside a map or an observable: calls that return symbols, each with its own stream.

`tp.random.normal(q.shape)` inside a map or an observable is a node of the graph: the number at the address
(seed, stream, step, index), whatever computes it. The seed is that of the run, the index counts the numbers of the
call, member after member. Streams are numbered in the order of the calls, from 2**31 on; `stream=` chooses another.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from operator import index as whole
from typing import Any

from tinyphysics.errors import InputError, ShapeError, TraceError
from tinyphysics.ir import UOp, as_uop
from tinyphysics.options import heeds
from tinyphysics.rules.functions import random as rules

AUTOMATIC = 1 << 31  # streams below are the user's own, and those of initial conditions
OBSERVED = AUTOMATIC + (1 << 30)  # those of observables: a part for each name
EACH = 1 << 8  # calls in an observable


@dataclass
class Draws:
    """The calls of one function that is being traced."""

    first: int = AUTOMATIC
    most: int = OBSERVED - AUTOMATIC
    refused: str = ""  # why this function must not draw
    count: int = 0

    def stream(self) -> int:
        if self.count == self.most:
            raise TraceError.here(
                f"more than {self.most} draws in one function", "Draw arrays: tp.random.normal((n, 3))."
            )
        self.count += 1
        return self.first + self.count - 1


DRAWS: ContextVar[Draws | None] = ContextVar("DRAWS", default=None)
IN_ENERGY = "an energy is a function of the state, and a force its derivative"
IN_RATES = "a method evaluates a derivative several times in a step, and expects the same one"
IN_FORCES = "a method evaluates a force several times in a step, and expects the same one"


def of_observable(name: str) -> Draws:
    """Streams by its name: other observables, or none, do not change what it draws."""
    return Draws(OBSERVED + zlib.crc32(name.encode()) % ((1 << 30) // EACH) * EACH, EACH)


@contextmanager
def drawing(draws: Draws) -> Iterator[None]:
    token = DRAWS.set(draws)
    try:
        yield
    finally:
        DRAWS.reset(token)


def _draw(kind: str, shape: Any, stream: int | None) -> UOp:
    draws = DRAWS.get()
    if draws is None:
        raise TraceError.here(
            "random numbers can only be drawn inside a function that tinyphysics traces",
            "Draw inside a @tp.map or an observable; outside, "
            "tinyphysics.physics.draws.normal(n, seed=1) gives the same bits.",
        )
    if draws.refused:
        raise TraceError.here(
            f"random numbers cannot be drawn here: {draws.refused}",
            "Noise belongs in a time step: write the step as a @tp.map, and draw there.",
        )
    if stream is None:
        stream = draws.stream()
    elif isinstance(stream, bool) or not hasattr(stream, "__index__") or not 0 <= whole(stream) < AUTOMATIC:
        raise InputError(
            f"stream={stream!r} is not a stream number", fix="A stream is a whole number from 0 to 2**31 - 1."
        )
    try:
        sizes = tuple(whole(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    except TypeError:
        raise ShapeError.here(
            f"a draw of shape {shape!r}", "Pass a shape, for example q.shape, (n, 3) or ()."
        ) from None
    if min(sizes, default=1) < 1:
        raise ShapeError.here(f"a draw of shape {sizes}", "Sizes are 1 or more.")
    return rules.draw(kind, whole(stream), sizes)


def _is(x: Any, number: float) -> bool:
    return isinstance(x, (int, float)) and x == number


def _shifted(by: Any, x: UOp) -> UOp:
    return x if _is(by, 0.0) else as_uop(by) + x


@heeds("random.uniform", "tp.random.uniform((3,), low=0.0, high=1.0)")
def uniform(shape: Any = (), *, low: Any = 0.0, high: Any = 1.0, stream: int | None = None) -> UOp:
    """Numbers u in [0, 1), multiples of 2**-53 (float32: 2**-24); with bounds, low + (high - low)*u."""
    u = _draw("uniform", shape, stream)
    return _shifted(low, u if _is(low, 0.0) and _is(high, 1.0) else (as_uop(high) - low) * u)


@heeds("random.normal", "tp.random.normal((3,), mean=0.0, std=1.0)")
def normal(shape: Any = (), *, mean: Any = 0.0, std: Any = 1.0, stream: int | None = None) -> UOp:
    """Numbers x with mean 0 and variance 1, the first of a pair of Box & Muller; with arguments, mean + std*x."""
    x = _draw("normal", shape, stream)
    return _shifted(mean, x if _is(std, 1.0) else as_uop(std) * x)


@heeds("random.integers", "tp.random.integers(0, 6, (3,))")
def integers(low: Any, high: Any, shape: Any = (), *, stream: int | None = None) -> UOp:
    """Whole numbers from low to high - 1, as floats: low + floor((high - low)*u)."""
    return _shifted(low, ((as_uop(high) - low) * _draw("uniform", shape, stream)).floor())
