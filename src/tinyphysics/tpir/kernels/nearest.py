"""How near did a run come to a pole?  A kernel that keeps the least distance of every step's way beside the state.

A pole is where some linear functions of the positions, a vector x, are all zero. A step goes from a to b on a straight way.
The point of it that is nearest to the pole lies within a distance R only if one of |a|**2, |b|**2 and a.b is at most R**2:
where that point is inside the way, a = f + s u and b = f - t u with f orthogonal to u, so that a.b = |f|**2 - s t |u|**2. The
least of them is kept. They are compared as whole numbers: what is negative is less than all that is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.ir.dtype import f64, i64
from tinyphysics.ir.uop import UOp, substitute
from tinyphysics.tpir.kernels.kernel import Kernel, Tail

# Registers of the loop, after its own: one for each pole, as nearest.0; where a step is done in stages, then what was seen
# when it began
NEAREST, BEFORE = "nearest", "before"


@dataclass(frozen=True)
class NearestOf:
    """The names of what is zero at each pole, among the values of a probe."""

    poles: tuple[tuple[str, ...], ...]


def keeping_nearest(k: Kernel, probe: Kernel, of: NearestOf) -> Kernel | None:
    """The kernel with the least distances; None where its loop cannot carry them.

    It cannot if its numbers are not float64, if a step ends by itself, or if more than one expression lies between a step
    and what is seen of it.
    """
    plain = k.going is None and k.seed is None and not k.has("leave") and not k.has("enter")
    if not plain or any(v.dtype is not f64 for v in k.carried):
        return None
    order = list(probe.outputs)

    def seen(state: Sequence[UOp]) -> dict[str, UOp]:
        loaded = dict(zip(probe.carried, substitute(probe.functions["init"], dict(zip(probe.inputs, state)))))
        return dict(zip(order, substitute(probe.functions["final"], loaded)))

    shown, start = seen(k.functions["final"]), seen(k.inputs)
    own = tuple(UOp.var(f"{NEAREST}.{n}", (), f64) for n in range(len(of.poles)))

    def kept(a: Mapping[str, UOp], b: Mapping[str, UOp]) -> list[UOp]:
        """What becomes of the least distances where a step goes from a to b."""
        out = []
        for least, names in zip(own, of.poles):
            x, y = [a[name] for name in names], [b[name] for name in names]
            out.append(smaller(smaller(least, dot(y, y)), dot(x, y)))
        return out

    begin = [dot(x, x) for x in ([start[name] for name in names] for names in of.poles)]
    functions, tails, weights = dict(k.functions), k.tails, k.weights
    if k.stages == 1 and not k.tails:
        after = substitute(list(shown.values()), dict(zip(k.carried, k.functions["step"])))
        functions["step"] = (*functions["step"], *kept(shown, dict(zip(order, after))))
    else:
        held = {name: UOp.var(f"{BEFORE}.{name}", (), f64) for name in order}
        first = UOp.var("first_stage", (), f64)
        weights = {**weights, first: tuple(UOp.const(float(n == 0)) for n in range(k.stages))}
        now = ((0.5 < first).where(shown[name], old) for name, old in held.items())
        functions["step"] = (*functions["step"], *own, *now)
        tails = tuple(Tail(t.period, (*t.roots, *own, *held.values())) for t in tails)
        tails = (*tails, Tail(k.stages, (*k.carried, *kept(held, shown), *held.values())))
        own = (*own, *held.values())
        begin += [start[name] for name in order]
    functions["init"] = (*functions["init"], *begin)
    params = tuple(dict.fromkeys((*k.params, *probe.params)))
    return replace(
        k,
        params=params,
        carried=(*k.carried, *own),
        functions=functions,
        tails=tails,
        weights=weights,
        _cache={},
    )


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
