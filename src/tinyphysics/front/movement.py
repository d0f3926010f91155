"""Which of NumPy's rearrangements may an energy use?  Those that a change of indices can follow."""

from __future__ import annotations

from typing import Any

from tinyphysics.errors import ShapeError, TraceError
from tinyphysics.front.functions import _concatenate, on_symbols
from tinyphysics.ir import UOp, as_uop
from tinyphysics.ir.uop import NUMPY, axis_of


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    return tuple(axis_of(a, ndim) for a in (axis if isinstance(axis, tuple) else (axis,)))


@on_symbols
def ravel(x: Any) -> UOp:
    """All numbers in a row."""
    u: UOp = as_uop(x)
    return u.ravel()


@on_symbols
def flip(x: Any, axis: Any = None) -> UOp:
    """The order reversed along an axis, or along all."""
    u: UOp = as_uop(x)
    return u.flip(tuple(range(u.ndim)) if axis is None else axes_of(axis, u.ndim))


@on_symbols
def squeeze(x: Any, axis: Any = None) -> UOp:
    """Without its axes of length 1."""
    u: UOp = as_uop(x)
    gone = [a for a, n in enumerate(u.shape) if n == 1] if axis is None else axes_of(axis, u.ndim)
    if any(u.shape[a] != 1 for a in gone):
        raise ShapeError.here(
            f"squeeze of shape {u.shape} along {axis}", "Only axes of length 1 can be removed."
        )
    return u.reshape(tuple(n for a, n in enumerate(u.shape) if a not in gone))


@on_symbols
def expand_dims(x: Any, axis: Any) -> UOp:
    """With new axes of length 1."""
    u: UOp = as_uop(x)
    given = axis if isinstance(axis, tuple) else (axis,)
    new = axes_of(axis, u.ndim + len(given))
    sizes = iter(u.shape)
    return u.reshape(tuple(1 if a in new else next(sizes) for a in range(u.ndim + len(given))))


@on_symbols
def broadcast_to(x: Any, shape: Any) -> UOp:
    """The same numbers along more axes; nothing is copied."""
    u: UOp = as_uop(x)
    new = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    old = (1,) * (len(new) - u.ndim) + u.shape
    if len(old) > len(new) or any(n not in (1, m) for n, m in zip(old, new)):
        raise ShapeError.here(
            f"broadcast_to: shape {u.shape} does not fit {new}",
            "Sizes must be equal or 1, aligned from the right.",
        )
    return u.expand(new)


@on_symbols
def swapaxes(x: Any, axis1: int, axis2: int) -> UOp:
    u: UOp = as_uop(x)
    order = list(range(u.ndim))
    a, b = axis_of(axis1, u.ndim), axis_of(axis2, u.ndim)
    order[a], order[b] = b, a
    return u.permute(order)


@on_symbols
def moveaxis(x: Any, source: Any, destination: Any) -> UOp:
    u: UOp = as_uop(x)
    taken, places = axes_of(source, u.ndim), axes_of(destination, u.ndim)
    order = [a for a in range(u.ndim) if a not in taken]
    for place, a in sorted(zip(places, taken)):
        order.insert(place, a)
    return u.permute(order)


@on_symbols
def repeat(x: Any, repeats: int, axis: int | None = None) -> UOp:
    """Each item several times: a a b b."""
    u: UOp = as_uop(x)
    u, axis = (u.reshape(-1), 0) if axis is None else (u, axis)
    if not isinstance(repeats, int) or repeats < 1:
        raise TraceError.here(
            f"repeat({repeats!r} times)", "Every item must be repeated the same number of times."
        )
    a = axis_of(axis, u.ndim)
    before, n, after = u.shape[:a], u.shape[a], u.shape[a + 1 :]
    return (
        u.reshape(*before, n, 1, *after)
        .expand((*before, n, repeats, *after))
        .reshape(*before, n * repeats, *after)
    )


@on_symbols
def tile(x: Any, reps: Any) -> UOp:
    """The whole array several times: a b a b."""
    u: UOp = as_uop(x)
    times = tuple(reps) if isinstance(reps, (tuple, list)) else (reps,)
    shape = (1,) * (len(times) - u.ndim) + u.shape
    times = (1,) * (len(shape) - len(times)) + times
    apart = tuple(n for size in shape for n in (1, size))
    spread = tuple(n for k, size in zip(times, shape) for n in (k, size))
    return u.reshape(apart).expand(spread).reshape(tuple(k * size for k, size in zip(times, shape)))


@on_symbols
def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: float = 0.0) -> UOp:
    """Zeros, the last item ("edge") or the other end ("wrap") before and after; walls, free ends and rings."""
    u: UOp = as_uop(x)
    rows = pad_width if isinstance(pad_width, (tuple, list)) else (pad_width,)
    rows = rows if isinstance(rows[0], (tuple, list)) else (rows,)
    pairs = [(r[0], r[-1]) for r in (rows * u.ndim if len(rows) == 1 else rows)]
    if len(pairs) != u.ndim or mode not in ("constant", "edge", "wrap") or any(min(p) < 0 for p in pairs):
        raise TraceError.here(
            f"np.pad(..., {pad_width}, mode={mode!r}) of shape {u.shape}",
            'Widths are (before, after) for each axis; modes are "constant", "edge" and "wrap".',
        )
    if mode == "constant" and not isinstance(constant_values, UOp) and constant_values == 0:
        return u.pad([(*p, 0) for p in pairs])
    for a, (low, high) in enumerate(pairs):
        if mode == "wrap" and max(low, high) > u.shape[a]:
            raise ShapeError.here(
                f"np.pad wraps {max(low, high)} of {u.shape[a]} items", "It can wrap around once at most."
            )
        u = padded(u, a, low, high, mode, constant_values)
    return u


def padded(x: UOp, a: int, low: int, high: int, mode: str, value: Any) -> UOp:
    """With items before and after along one axis."""
    n, before = x.shape[a], (slice(None),) * a

    def edge(cut: slice, count: int) -> UOp:
        inside = as_uop(value) if mode == "constant" else x[(*before, cut)]
        return inside.expand((*x.shape[:a], count, *x.shape[a + 1 :]))

    first = edge(slice(0, 1) if mode == "edge" else slice(n - low, n), low) if low else None
    last = edge(slice(n - 1, n) if mode == "edge" else slice(0, high), high) if high else None
    parts = [p for p in (first, x, last) if p is not None]
    return _concatenate(parts, a) if len(parts) > 1 else x


@on_symbols
def hstack(items: Any) -> UOp:
    rows = [as_uop(x) for x in items]
    return _concatenate(rows, 0 if rows[0].ndim == 1 else 1)


@on_symbols
def vstack(items: Any) -> UOp:
    rows = [as_uop(x) for x in items]
    return _concatenate([r.reshape(1, -1) if r.ndim == 1 else r for r in rows], 0)


BY_THEIR_NAMES = (ravel, flip, squeeze, expand_dims, broadcast_to, swapaxes, moveaxis, repeat, tile, pad)
NUMPY.update({f.__name__: f for f in (*BY_THEIR_NAMES, hstack, vstack)})
NUMPY.update({"flipud": lambda x: flip(x, 0), "fliplr": lambda x: flip(x, 1)})
