"""How near did a run come to a pole?  A kernel that keeps the least distance of every step's way beside the state.

A pole is where some linear functions of the positions, a vector x, are all zero. A step goes from a to b on a straight way.
The point of it that is nearest to the pole lies within a distance R only if one of |a|**2, |b|**2 and a.b is at most R**2:
where that point is inside the way, a = f + s u and b = f - t u with f orthogonal to u, so that a.b = |f|**2 - s t |u|**2. The
least of them is kept.

Where a step is one drift, the least |b|**2 and the largest |b - a|**2 may be kept instead: the smaller of s and t is at most
half of the way, so that the square of no distance on it is below |b|**2 - |b - a|**2/4. A force has |b|**2 already. Of the
lengths a loop may look at one in SAMPLED, where it is known how much faster the steps between can be (by_length).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.ir.dtype import f64, i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, substitute
from tinyphysics.tpir.kernels.kernel import LONGEST, NEAREST, Kernel, Tail

BEFORE = "before"  # registers after NEAREST where a step is done in stages: what was seen when it began


@dataclass(frozen=True)
class NearestOf:
    """The names of what is zero at each pole, among the values of a probe."""

    poles: tuple[tuple[str, ...], ...]
    by_length: bool = False  # are ends of ways and the longest way enough?


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
        after = dict(zip(order, substitute(list(shown.values()), dict(zip(k.carried, k.functions["step"])))))
        found = [length([shown[x] for x in names], [after[x] for x in names]) for names in of.poles]
        ways = [way for way in found if way is not None]
        if of.by_length and len(ways) == len(found):
            far = tuple(UOp.var(f"{LONGEST}.{n}", (), f64) for n in range(len(of.poles)))
            ends = (dot(y, y) for y in ([after[name] for name in names] for names in of.poles))
            near = (smaller(least, end) for least, end in zip(own, ends))
            functions["step"] = (*functions["step"], *near, *map(larger, far, ways))
            own = (*own, *far)
            begin += [UOp.const(0.0)] * len(far)
        else:
            functions["step"] = (*functions["step"], *kept(shown, after))
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


def length(a: Sequence[UOp], b: Sequence[UOp]) -> UOp | None:
    """The square of the way from a to b where it is one drift: velocities times a time."""
    found = [drift(x, y) for x, y in zip(a, b)]
    moves = [f for f in found if f is not None]
    if len(moves) < len(found) or len({time for _, time in moves}) > 1:
        return None
    speeds, time = [v for v, _ in moves], moves[0][1]
    return dot(speeds, speeds) * (time * time)


def drift(x: UOp, y: UOp) -> tuple[UOp, UOp] | None:
    """(v, h) where y = x + h v, as drifts and differences of positions that drift are written."""
    if y.op is Ops.FMA and y.src[2] is x and y.src[1].op is Ops.VAR:
        return y.src[0], y.src[1]
    if x.op is y.op and y.op in (Ops.ADD, Ops.SUB):
        fixed = [k for k in (0, 1) if x.src[k] is y.src[k]]
        both = [drift(p, q) for p, q in zip(x.src, y.src)]
        if len(fixed) == 1 and (move := both[1 - fixed[0]]) is not None:
            return move  # its sign does not matter
        if (one := both[0]) is not None and (other := both[1]) is not None and one[1] is other[1]:
            return (one[0] + other[0] if y.op is Ops.ADD else one[0] - other[0]), one[1]
    return None


def larger(a: UOp, b: UOp) -> UOp:
    """The larger of two numbers that are not negative; what is no number is larger than all."""
    x, y = a.bitcast(i64), b.bitcast(i64)
    return (x < y).where(y, x).bitcast(f64)


def dot(a: Sequence[UOp], b: Sequence[UOp]) -> UOp:
    """As forces have it that divide by a distance: the square of that is then computed once."""
    out = a[0] * b[0]
    for x, y in zip(a[1:], b[1:]):
        out = x.fma(y, out)
    return out


def smaller(a: UOp, b: UOp) -> UOp:
    """The smaller of the least number so far and another; what is no number is larger than all.

    Of two floats, by one instruction of their own: whole numbers wait for the unit that divides (3 % of Kepler's steps).
    """
    return (b < a).where(b, a)
