"""A sum over bodies or pairs as a physicist would write it: sum_{i<j} m[i]*m[j]/|q[i] - q[j]|."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tinyphysics.ir.ops import Ops

Part = tuple[str, float]  # a text, and how tightly it holds together
Names = tuple[str, ...]  # a letter for each axis: FREE for a component, ONE for an axis that is not there
FREE, ONE = ":", "1"
TERM = 4.5  # of a sum: looser than a product, tighter than a difference
ATOM = 9
MOST = 60  # nodes of a summand: a longer one is not easier to read with its letters


class Unwritten(Exception):
    """An array operation that letters do not make shorter."""


def indexed_sum(u: Any, render: Callable[[Any, list[Part]], Part]) -> Part | None:
    """The sum u with letters for its axes; None where it reads well without, or cannot be written so."""
    kind, axes, *_ = u.arg
    body = u.src[0]
    if kind != "sum" or len(axes) != body.ndim or body.ndim > 2:
        return None
    pairs = body.op is Ops.TRIU and len(body.arg) == 2
    if not pairs and (body.op is Ops.TRIU or not _mixes_axes(body)):
        return None
    names = ("i", "j")[: body.ndim]
    below = "i" if body.ndim == 1 else "{i<j}" if pairs else "{i,j}"
    writer, summand = _Writer(render), body.src[0] if pairs else body
    try:
        if pairs and (near := _within_a_cutoff(summand)) is not None:
            distance, cutoff, summand = near
            apart = writer.of(distance, names)[0].removesuffix("**2")
            below = f"{{i<j, {apart} < {writer.of(cutoff, names)[0]}}}"
        text, level = writer.of(summand, names)
    except Unwritten:
        return None
    return f"sum_{below} {text if level >= TERM + 0.4 else f'({text})'}", TERM


def _mixes_axes(body: Any) -> bool:
    """Is there a sum over components, or an array spread along an axis that it does not have?"""
    stack, seen = [body], set()
    while stack:
        x = stack.pop()
        if id(x) in seen:
            continue
        seen.add(id(x))
        if len(seen) > MOST:
            return False
        if x.op is Ops.REDUCE or (x.op is Ops.EXPAND and x.src[0].size > 1):
            return True
        stack.extend(x.src)
    return False


def _within_a_cutoff(u: Any) -> tuple[Any, Any, Any] | None:
    """(r**2, the cutoff, what is summed) of where(r**2 < cutoff**2, x, 0), as `tp.pair_distance2` writes it."""
    if u.op is not Ops.WHERE or u.src[0].op is not Ops.LT or not _is(u.src[2], 0.0):
        return None
    distance, square = u.src[0].src
    while square.op in (Ops.EXPAND, Ops.RESHAPE):
        square = square.src[0]
    if square.op is not Ops.WHERE or square.src[1].op is not Ops.MUL or not _is(square.src[2], math.nan):
        return None
    one, other = square.src[1].src
    squared = distance.op is Ops.REDUCE and one is other
    return (distance, one, u.src[1]) if squared else None


class _Writer:
    def __init__(self, render: Callable[[Any, list[Part]], Part]) -> None:
        self.render, self.count = render, 0

    def of(self, u: Any, names: Names) -> Part:
        self.count += 1
        if self.count > MOST:
            raise Unwritten
        match u.op:
            case Ops.CONST:
                return self.render(u, [])
            case Ops.VAR:
                return _subscripted(u.arg, names), ATOM
            case Ops.CAST:
                return self.of(u.src[0], names)
            case Ops.EXPAND:
                wide = zip(u.src[0].shape, u.shape, names)
                return self.of(u.src[0], tuple(ONE if n == 1 < m else a for n, m, a in wide))
            case Ops.RESHAPE:
                return self.of(u.src[0], _moved(u, names))
            case Ops.REDUCE:
                return self.reduced(u, names)
            case Ops.SQRT:
                text, level = self.of(u.src[0], names)
                if text.startswith("|") and text.endswith("|**2") and text.count("|") == 2:
                    return text.removesuffix("**2"), ATOM
                return self.render(u, [(text, level)])
        if not u.src or any(s.shape != u.shape for s in u.src):
            raise Unwritten
        return self.render(u, [self.of(s, names) for s in u.src])

    def reduced(self, u: Any, names: Names) -> Part:
        kind, axes, *_ = u.arg
        body, left = u.src[0], iter(names)
        inner = tuple(FREE if a in axes else next(left) for a in range(body.ndim))
        if inner.count(FREE) != 1 or kind != "sum":
            raise Unwritten
        x = body.src[0] if body.src else None
        square = (body.op is Ops.MUL and x is body.src[1]) or (
            body.op is Ops.POW and body.src[1].op in (Ops.CONST, Ops.EXPAND) and _is(body.src[1], 2)
        )
        if square:
            return f"|{self.of(x, inner)[0]}|**2", 7
        return f"sum({self.of(body, inner)[0]})", ATOM


def _is(u: Any, number: float) -> bool:
    while u.op in (Ops.EXPAND, Ops.RESHAPE):
        u = u.src[0]
    return bool(u.op is Ops.CONST and (u.arg == number or number != number and u.arg != u.arg))


def _moved(u: Any, names: Names) -> Names:
    """The letters of what was reshaped, where only axes of length 1 came or went."""
    old, new = u.src[0].shape, u.shape
    kept = [a for n, a in zip(new, names) if n != 1]
    if [n for n in old if n != 1] != [n for n in new if n != 1]:
        raise Unwritten
    left = iter(kept)
    return tuple(ONE if n == 1 else next(left) for n in old)


def _subscripted(name: str, names: Names) -> str:
    if ONE in names and len(names) > 1 or names == (ONE,):
        raise Unwritten
    shown = list(names)
    while shown and shown[-1] == FREE:
        shown.pop()
    return f"{name}[{', '.join(shown)}]" if shown else name
