"""How far did a value go over all steps?  A kernel that keeps the largest change beside the state, and stores no row.

The loop carries the first value, the largest distance from it and the largest scale. They are maxima, so they have the
bits that a table of every step would give. Distances and scales have no sign, so they are compared as whole numbers: that
is one operation where a comparison and a choice are two, and what is not finite is larger than all numbers and stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tinyphysics.ir.dtype import f64, i64
from tinyphysics.ir.uop import UOp, substitute
from tinyphysics.tpir.kernels.kernel import NEAREST, NOW, Kernel, Tail

# Registers of the loop, after its own. REST is there where values have two words; WORST or SCALE is not finite from the
# first value on that is not.
FIRST, REST, WORST, SCALE = "first", "rest", "worst", "scale"


@dataclass(frozen=True)
class ExtremesOf:
    """The names of what is looked at: a value, what it is measured by, and its second word where it has one."""

    value: str
    scale: str
    rest: str | None = None


def keeping_extremes(k: Kernel, probe: Kernel, of: ExtremesOf) -> Kernel | None:
    """The kernel with the extremes of some of the probe's values; None where its loop cannot carry them.

    It cannot if its numbers are not float64, if more than one expression lies between a step and what is seen of it, if it
    ends by itself, or if a step is inexact where what is looked at is exact.
    """
    plain = k.going is None and k.seed is None and not k.has("leave")
    if not plain or any(v.dtype is not f64 for v in k.carried):
        return None
    names = [name for name in (of.value, of.rest, of.scale) if name is not None]
    order = list(probe.outputs)  # of single numbers

    def seen(state: Sequence[UOp]) -> list[UOp]:
        loaded = dict(zip(probe.carried, substitute(probe.functions["init"], dict(zip(probe.inputs, state)))))
        return substitute([probe.functions["final"][order.index(name)] for name in names], loaded)

    kept = [FIRST, *([] if of.rest is None else [REST]), WORST, SCALE]
    own = tuple(UOp.var(name, (), f64) for name in kept)

    looked_at = substitute(seen(k.functions["final"]), {NOW: NOW + 1.0})

    def after(state: Sequence[UOp]) -> tuple[UOp, ...]:
        """What becomes of them at the end of a step."""
        *values, terms = substitute(looked_at, dict(zip(k.carried, state)))
        *firsts, worst, most = own
        parts = [v - first for v, first in zip(values, firsts)]
        off = parts[0] + parts[1] if of.rest is not None else parts[0]
        return (*firsts, larger(worst, off), larger(most, terms))

    *values, terms = seen(k.inputs)
    begin = (*values, abs(values[0] * 0.0), abs(terms))
    functions = dict(k.functions) | {"init": (*k.functions["init"], *begin)}
    tails = tuple(Tail(t.period, (*t.roots, *own)) for t in k.tails)
    if k.stages == 1:
        functions["step"] = (*k.functions["step"], *after(k.functions["step"]))
    else:
        functions["step"] = (*k.functions["step"], *own)
        tails = (*tails, Tail(k.stages, (*k.carried, *after(k.carried))))
    params = tuple(dict.fromkeys((*k.params, *probe.params)))
    return replace(k, params=params, carried=(*k.carried, *own), functions=functions, tails=tails, _cache={})


def larger(size: UOp, x: UOp) -> UOp:
    """The size or |x|; infinity is larger than a number, and NaN than that."""
    a, b = size.bitcast(i64), abs(x).bitcast(i64)
    return (a < b).where(b, a).bitcast(f64)


def own_numbers(carried: Sequence[UOp]) -> int:
    """How many numbers the loop carries for its states, before the extremes."""
    beside = (at for at, v in enumerate(carried) if v.arg == FIRST or str(v.arg).startswith(f"{NEAREST}."))
    return next(beside, len(carried))
