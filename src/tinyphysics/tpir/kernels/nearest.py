"""How near did a run come to a pole?  A kernel that keeps the least distance of every step's way beside the state.

A pole is where some linear functions of the positions, a vector x, are all zero. A step goes from a to b on a straight way.
The point of it that is nearest to the pole lies within a distance R only if one of |a|**2, |b|**2 and a.b is at most R**2:
where that point is inside the way, a = f + s u and b = f - t u with f orthogonal to u, so that a.b = |f|**2 - s t |u|**2. The
least of them is kept. They are compared as whole numbers: what is negative is less than all that is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tinyphysics.ir.dtype import f64, i64
from tinyphysics.ir.uop import UOp, substitute
from tinyphysics.tpir.kernels.kernel import Kernel

NEAREST = "nearest"  # registers of the loop, after its own: one for each pole, as nearest.0


@dataclass(frozen=True)
class NearestOf:
    """The names of what is zero at each pole, among the values of a probe."""

    poles: tuple[tuple[str, ...], ...]


def keeping_nearest(k: Kernel, probe: Kernel, of: NearestOf) -> Kernel | None:
    """The kernel with the least distances; None where its loop cannot carry them.

    It cannot if its numbers are not float64, if a step is several stages or ends by itself, or if more than one expression
    lies between a step and what is seen of it.
    """
    plain = k.going is None and k.seed is None and k.stages == 1 and not k.tails and not k.has("leave")
    if not plain or any(v.dtype is not f64 for v in k.carried):
        return None
    order = list(probe.outputs)

    def seen(state: Sequence[UOp]) -> dict[str, UOp]:
        loaded = dict(zip(probe.carried, substitute(probe.functions["init"], dict(zip(probe.inputs, state)))))
        return dict(zip(order, substitute(probe.functions["final"], loaded)))

    shown = list(seen(k.functions["final"]).values())
    before = dict(zip(order, shown))
    after = dict(zip(order, substitute(shown, dict(zip(k.carried, k.functions["step"])))))
    start = seen(k.inputs)
    own = tuple(UOp.var(f"{NEAREST}.{n}", (), f64) for n in range(len(of.poles)))
    kept, begin = [], []
    for least, names in zip(own, of.poles):
        a, b = [before[name] for name in names], [after[name] for name in names]
        kept.append(smaller(smaller(least, dot(b, b)), dot(a, b)))
        x = [start[name] for name in names]
        begin.append(dot(x, x))
    functions = dict(k.functions)
    functions |= {"init": (*functions["init"], *begin), "step": (*functions["step"], *kept)}
    params = tuple(dict.fromkeys((*k.params, *probe.params)))
    return replace(k, params=params, carried=(*k.carried, *own), functions=functions, _cache={})


def dot(a: Sequence[UOp], b: Sequence[UOp]) -> UOp:
    """As forces have it that divide by a distance: the square of that is then computed once."""
    out = a[0] * b[0]
    for x, y in zip(a[1:], b[1:]):
        out = x.fma(y, out)
    return out


def smaller(a: UOp, b: UOp) -> UOp:
    """The smaller of two numbers; of two that are negative either. What is no number is larger than all."""
    x, y = a.bitcast(i64), b.bitcast(i64)
    return (y < x).where(y, x).bitcast(f64)
