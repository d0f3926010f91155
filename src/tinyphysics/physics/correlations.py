"""What do the frames of a run tell together?  Displacements, correlations in time, and distances between bodies.

Frames have shape (frames, bodies, dimensions), with any axes between for the members of an ensemble; averages are taken over
bodies, members and origins of time. Positions are unwrapped, as a run gives them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.physics.cells import cell, nearest_image, volume, widths

ROWS = 1 << 21  # differences of positions that are held at once


def as_frames(x: Any, what: str, dimensions: int | None) -> Any:
    """(frames, bodies of all members, dimensions)."""
    a = np.asarray(x, float)
    if a.ndim < 1 or len(a) < 1 or a.size == 0:
        raise InputError(
            f"{what} of shape {a.shape} has no frames", fix="Pass out.q, of a run with save_every=."
        )
    d = dimensions or (a.shape[-1] if a.ndim >= 3 or a.ndim == 2 and a.shape[1] in (2, 3) else 1)
    if not np.isfinite(a).all():
        raise InputError(
            f"{what} is not finite: a member of the run stopped",
            fix="Leave out that member, or the frames after it stopped.",
        )
    if a[0].size % d:
        raise InputError(
            f"{what} of shape {a.shape} cannot be split into bodies of {d} coordinates",
            fix="Pass dimensions=.",
        )
    return a.reshape(len(a), -1, d)


def autocorrelation(x: Any) -> Any:
    """The sum over origins of x(t) x(t + lag), along the first axis and for every lag, by FFT."""
    n = len(x)
    size = 1 << (2 * n - 1).bit_length()  # zeros behind, so that the end does not meet the beginning
    spectrum = np.fft.rfft(x, size, axis=0)
    return np.fft.irfft(spectrum * spectrum.conj(), size, axis=0)[:n]


def msd(q: Any, origins: str = "all", dimensions: int | None = None) -> Any:
    """The mean of |q(t0 + lag) - q(t0)|**2 for every lag, in frames that are evenly spaced.

    Over all origins t0 by FFT (Kneller & al. 1995), or from the first frame only.

    >>> msd(np.arange(4.0)[:, None, None] * [3.0, 4.0, 0.0]).round(9)
    array([  0.,  25., 100., 225.])
    """
    a = as_frames(q, "q", dimensions)
    if origins == "first":
        return ((a - a[0]) ** 2).sum(-1).mean(-1)
    if origins != "all":
        raise InputError(f"origins={origins!r}", fix='origins is "all" or "first".')
    a = a - a.mean(0)  # the difference of two large squares follows
    n = len(a)
    square = (a**2).sum((1, 2))
    ends = np.concatenate([[0.0], np.cumsum(square)])
    # squares at t0 and at t0 + lag, over the origins of each lag
    both = ends[n] - ends[:n] + ends[n - np.arange(n)]
    out = (both - 2 * autocorrelation(a).sum((1, 2))) / (n - np.arange(n)) / a.shape[1]
    out[0] = 0.0
    return np.maximum(out, 0.0)


def vacf(v: Any, normalise: bool = False, dimensions: int | None = None) -> Any:
    """The mean of v(t0).v(t0 + lag) for every lag, over all origins; divided by its value at 0 if asked."""
    a = as_frames(v, "v", dimensions)
    out = autocorrelation(a).sum((1, 2)) / (len(a) - np.arange(len(a))) / a.shape[1]
    return out / out[0] if normalise else out


def structure_factor(q: Any, k: Any, dimensions: int | None = None) -> Any:
    """|sum of exp(i k.q)|**2/n of every frame, (frames, waves); for frames of one member."""
    a, waves = as_frames(q, "q", dimensions), np.atleast_2d(np.asarray(k, float))
    if waves.shape[1:] != a.shape[2:]:
        raise InputError(
            f"k has shape {np.shape(k)}; a body has {a.shape[2]} coordinates",
            fix=f"Pass wave vectors of shape (count, {a.shape[2]}).",
        )
    return np.stack([np.abs(np.exp(1j * (frame @ waves.T)).sum(0)) ** 2 / a.shape[1] for frame in a])


def radial_distribution(
    q: Any,
    box: Any = None,
    bins: int = 100,
    longest: float | None = None,
    volume_of_all: float | None = None,
    between: tuple[Any, Any] | None = None,
) -> tuple[Any, Any]:
    """Returns (r, g), the radial distribution function: pairs at a distance relative to an ideal gas, averaged over frames.

    q is (frames, bodies, d), or one frame (bodies, d). In a box distances are those of nearest images, and go to
    half of its smallest width. Without one they need `longest`, and the volume that is meant. `between` are the
    numbers of two kinds of bodies, which have none in common: pairs of one of each are counted.
    """
    a = np.asarray(q, float)
    a = a[None] if a.ndim == 2 else a
    if a.ndim != 3 or a.shape[2] not in (1, 2, 3) or a.shape[1] < 2 or not np.isfinite(a).all():
        raise InputError(
            f"q of shape {np.shape(q)} is not frames of bodies, or not finite",
            fix="Pass out.q of shape (frames, bodies, 3); of an ensemble, out.q[:, member].",
        )
    frames, n, d = a.shape
    edges = None if box is None else cell(box, d)
    if edges is None and (longest is None or volume_of_all is None):
        raise InputError(
            "g(r) without a box needs its longest distance and a volume",
            fix="Pass box=, or longest= and volume_of_all=.",
        )
    half = np.inf if edges is None else float(widths(edges).min()) / 2
    reach = half if longest is None else float(longest)
    if not 0 < reach <= half * (1 + 1e-12):
        raise InputError(
            f"longest={reach:g} is not between 0 and half of the smallest width of the box, {half:g}",
            fix="Beyond that, a body and its periodic image would both be counted.",
        )
    at = np.linspace(0.0, reach, bins + 1)
    counts = np.zeros(bins)
    one, two = (np.arange(n), None) if between is None else two_kinds(between, n)
    for frame in a:
        counts += histogram(frame[one], None if two is None else frame[two], edges, at)
    shell = {1: 2 * at, 2: np.pi * at**2, 3: 4 / 3 * np.pi * at**3}[d]
    space = volume_of_all if edges is None else volume(edges)
    pairs = n * (n - 1) / 2 if two is None else len(one) * len(two)
    expected = frames * pairs * np.diff(shell) / space
    return (at[1:] + at[:-1]) / 2, counts / expected


def two_kinds(between: Any, n: int) -> tuple[Any, Any]:
    one, two = (np.unique(np.asarray(k, int)) for k in between)
    bad = len(one) == 0 or len(two) == 0 or min(one[0], two[0]) < 0 or max(one[-1], two[-1]) >= n
    if bad or len(np.intersect1d(one, two)):
        raise InputError(
            "between= has an empty list, an index out of range, or the same body on both sides",
            fix="Pass two lists of body numbers, counted from 0; for one kind of body, pass only those: q[:, which].",
        )
    return one, two


def histogram(one: Any, two: Any, edges: Any, at: Any) -> Any:
    """How many pairs have a distance in each bin: i < j of one kind, or one of each of two kinds.

    Some rows at a time, so that memory stays small.
    """
    n, out = len(one), np.zeros(len(at) - 1)
    step = max(1, ROWS // ((n if two is None else len(two)) * one.shape[1]))
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        others = one[start:] if two is None else two
        apart = one[rows, None] - others[None, :]
        if edges is not None:
            apart = nearest_image(apart, edges)
        distance = np.sqrt((apart**2).sum(-1))
        if two is None:
            distance = distance[rows[:, None] < np.arange(start, n)[None, :]]
        out += np.histogram(distance, at)[0]
    return out
