"""Where does a function change its sign?  Many brackets at once, each to the last digits of its place.

Interpolation, truncated and projected: Oliveira and Takahashi 2020. It takes at most twelve rounds more than halving, and
about eight where the function is smooth. Every operation is one of NumPy's on float64, so what is found depends on the
values alone, and not on who else is searched for beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

FINE = 2.0**-52  # of a bracket: two places that are nearer are one
HALVINGS = 52  # from all of it to that
SLACK = 12  # rounds more than halving would need: used up early by a function that is far from straight
BENT = 0.2  # of the square of a bracket's width: how far a guess is moved towards the middle

Values = Callable[[Any], Any]  # of some brackets, at a place in each
Among = Callable[[Any], Values]  # for the brackets with these numbers


def first_places(among: Among, at_a: Any, at_b: Any, positive: Any) -> Any:
    """Of brackets from a = 0 to b = 1, the first place found at which the sign is no longer that of a.

    `positive` says what it is at a; a value that is not a number counts as not positive. Where half of the brackets are
    narrow enough, only the others are looked at.
    """
    a: Any = np.zeros(len(at_a))
    b, left = a + 1.0, np.arange(len(at_a))
    out = b.copy()
    values = among(left)
    for k in range(HALVINGS + SLACK + 1):
        middle = a + 0.5 * (b - a)
        open_ = (FINE < b - a) & (a < middle) & (middle < b)
        count = np.count_nonzero(open_)
        if not count:
            break
        if 2 * count <= len(left):
            out[left] = b
            now: list[Any] = [x[open_] for x in (a, b, at_a, at_b, positive, left, middle)]
            a, b, at_a, at_b, positive, left, middle = now
            values, open_ = among(left), open_[open_]
        x = np.where(open_, guess(a, b, at_a, at_b, middle, k), b)
        found = values(x)
        before = open_ & ((found > 0.0) == positive)
        after = open_ & ~before
        a, at_a = np.where(before, x, a), np.where(before, found, at_a)
        b, at_b = np.where(after, x, b), np.where(after, found, at_b)
    out[left] = b
    return out


def guess(a: Any, b: Any, at_a: Any, at_b: Any, middle: Any, k: int) -> Any:
    """The next place to look at: a secant, moved a little towards the middle, and no further off it than halving allows."""
    width = b - a
    with np.errstate(all="ignore"):
        secant = a + width * (at_a / (at_a - at_b))
    secant = np.where((a <= secant) & (secant <= b), secant, middle)
    to = np.sign(middle - secant)
    bent = np.maximum(BENT * width * width, 2.0 * FINE)
    x = np.where(bent <= np.abs(middle - secant), secant + to * bent, middle)
    room = 2.0 ** (HALVINGS + SLACK - k) * (0.5 * FINE) - 0.5 * width
    x = np.where(np.abs(x - middle) <= room, x, middle - to * np.maximum(room, 0.0))
    return np.where((a < x) & (x < b), x, middle)
