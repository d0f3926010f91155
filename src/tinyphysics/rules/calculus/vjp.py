"""How does a scalar change with its inputs?  Reverse mode, as a graph: one rule per op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tinyphysics.errors import PlanError
from tinyphysics.ir.ops import ELEMENTWISE, Ops
from tinyphysics.ir.uop import RECORD, UOp, substitute, toposort
from tinyphysics.rules.calculus import mesh
from tinyphysics.rules.calculus.elliptic import check_moving, elliptic, names
from tinyphysics.rules.calculus.partials import partials, times
from tinyphysics.util import prod

Cotangents = tuple[UOp | None, ...]


def expand(u: UOp, g: UOp) -> Cotangents:
    old = u.src[0].shape
    new = len(u.shape) - len(old)
    axes = (*range(new), *(new + i for i, n in enumerate(old) if n == 1 and u.shape[new + i] != 1))
    return (g.sum(axes).reshape(old) if axes else g.reshape(old),)


def permute(u: UOp, g: UOp) -> Cotangents:
    inverse = sorted(range(len(u.arg)), key=lambda i: int(u.arg[i]))
    return (g.permute(inverse),)


def take(u: UOp, g: UOp) -> Cotangents:
    widths = []
    for (start, _, step), n, m in zip(u.arg, u.src[0].shape, u.shape):
        last = start + (m - 1) * step
        widths.append((start, n - 1 - last, step - 1) if m else (n, 0, 0))
    return (g.pad(widths),)


def pad(u: UOp, g: UOp) -> Cotangents:
    bounds = []
    for (lo, _, between), n in zip(u.arg, u.src[0].shape):
        bounds.append((lo, lo + (n - 1) * (between + 1) + 1 if n else lo, between + 1))
    return (g.slice(bounds),)


def roll(u: UOp, g: UOp) -> Cotangents:
    for shift, axis in u.arg:
        g = g.roll(-shift, axis)
    return (g,)


def concat(u: UOp, g: UOp) -> Cotangents:
    out, start = [], 0
    for s in u.src:
        bounds = [(0, n, 1) for n in s.shape]
        bounds[u.arg] = (start, start + s.shape[u.arg], 1)
        out.append(g.slice(bounds))
        start += s.shape[u.arg]
    return tuple(out)


def element(u: UOp, g: UOp) -> Cotangents:
    size = prod(u.src[0].shape)
    flat = g.reshape(1).pad([(u.arg, size - 1 - u.arg, 0)])
    return (flat.reshape(u.src[0].shape),)


def reduce(u: UOp, g: UOp) -> Cotangents:
    kind, axes, *pairs = u.arg
    x = u.src[0]
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    spread = g.reshape(kept).expand(x.shape)
    if kind in ("sum", "pairs"):
        return (spread.triu(*pairs[0]) if pairs else spread,)
    # the extreme elements share the derivative equally
    best = x.eq(u.reshape(kept).expand(x.shape))
    zero, one = UOp.const(0.0, u.dtype, x.shape), UOp.const(1.0, u.dtype, x.shape)
    share = best.where(one, zero)
    return (share * spread / share.sum(axes).reshape(kept).expand(x.shape),)


def transformed(u: UOp, g: UOp) -> Cotangents:
    """The real part is sum a cos - sign b sin, the imaginary part sum b cos + sign a sin."""
    part, sign, axis = u.arg
    zero = UOp.const(0.0, g.dtype, g.shape)
    re, im = (UOp(Ops.FOURIER, g.dtype, g.shape, (g, zero), (k, sign, axis)) for k in (0, 1))
    return (im, re) if part else (re, -im)


def solved(u: UOp, g: UOp) -> Cotangents:
    """By an adjoint solve: A is symmetric, and v = A⁻¹ g says what f weighs; all else weighs minus the sum of v A u."""
    e = elliptic(u)
    v = replace(e, f=g).node
    if not any(s.op is not Ops.CONST for s in u.src[1:]):
        return (v, *(None for _ in u.src[1:]))
    free = names(u)
    total = -elliptic(u.replace((e.f, *free))).form(u, v)
    return (v, *substitute(vjp([total], [UOp.const(1.0, u.dtype)], free), dict(zip(free, u.src[1:]))))


def inverse(order: UOp) -> UOp:
    """Where each point is in the order of a list; of that, the order again."""
    what, *rest = order.arg
    return UOp(
        Ops.NEIGHBOURS,
        order.dtype,
        order.shape,
        order.src,
        ({"order": "inverse", "inverse": "order"}[what], *rest),
    )


def gather(u: UOp, g: UOp) -> Cotangents:
    indices = u.src[1:]
    if indices[0].op is Ops.NEIGHBOURS:  # an order has an inverse
        return g.gather((inverse(indices[0]),)), None
    return (g.scatter(indices, u.src[0].shape[: len(indices)]), *(None for _ in indices))


def pulled(u: UOp, g: UOp) -> Cotangents:
    """By the same tree, whose nodes are taken as they were: the derivative of the approximate pull."""
    if len(u.src) > 3:
        raise PlanError(
            "the second derivative of a sum through a tree is not there yet", fix="Leave approximate= out."
        )
    n = u.shape[0]
    found = UOp(u.op, u.dtype, (n, 5), (*u.src, g), u.arg)
    places, rest = found[:, :3], found[:, 3:]
    return places, rest[:, 0], rest[:, 1].sum()


# fmt: off
VJP: dict[Ops, Callable[[UOp, UOp], Cotangents]] = {
    Ops.RESHAPE:  lambda u, g: (g.reshape(u.src[0].shape),),
    Ops.EXPAND:   expand,
    Ops.PERMUTE:  permute,
    Ops.SLICE:    take,
    Ops.PAD:      pad,
    Ops.FLIP:     lambda u, g: (g.flip(u.arg),),
    Ops.ROLL:     roll,
    Ops.CONCAT:   concat,
    Ops.STACK:    lambda u, g: tuple(g.element(i) for i in range(len(u.src))),
    Ops.ELEMENT:  element,
    Ops.REDUCE:   reduce,
    Ops.FOURIER:  transformed,
    Ops.ELLIPTIC: solved,
    Ops.MESH:     mesh.pulled,
    Ops.TRIU:     lambda u, g: (g.triu(*u.arg),),
    Ops.GATHER:   gather,
    Ops.NEIGHBOURS:     lambda u, g: tuple(None for _ in u.src),  # an order jumps, and images with it
    Ops.TREE:     pulled,
    Ops.SCATTER:  lambda u, g: (g.gather(u.src[1:]), *(None for _ in u.src[1:])),
}
# fmt: on


def pull(u: UOp, g: UOp) -> Cotangents:
    """The cotangents of u's sources, given that of u."""
    if u.op in ELEMENTWISE:
        return tuple(None if d is None else times(g, d) for d in partials(u))
    return VJP[u.op](u, g)


def vjp(outputs: Sequence[UOp], seeds: Sequence[UOp], inputs: Sequence[UOp]) -> list[UOp]:
    """The seeds times the Jacobian of the outputs, for each input; zeros where nothing depends on it."""
    wanted = dict.fromkeys(inputs)
    order = toposort(outputs)
    needed: dict[UOp, bool] = {}
    for u in order:
        needed[u] = u in wanted or any(needed[s] for s in u.src)
    cotangent: dict[UOp, UOp] = {}

    sites = RECORD.get()

    def accumulate(u: UOp, g: UOp) -> None:
        if sites is not None and u in cotangent:  # a sum of what several nodes give comes from all of them
            sites.current = None
        cotangent[u] = cotangent[u] + g if u in cotangent else g

    for u, g in zip(outputs, seeds):
        accumulate(u, g)
    for u in reversed(order):
        if u not in cotangent or not needed[u] or not u.src:
            continue
        if u.op is Ops.ELLIPTIC:
            check_moving(u, [needed[s] for s in u.src])
        if sites is not None:
            sites.current = sites.table.get(u)
        for s, part in zip(u.src, pull(u, cotangent[u])):
            if part is not None and needed[s]:
                accumulate(s, part)
    if sites is not None:
        sites.current = None
    return [cotangent.get(x, UOp.const(0.0, x.dtype, x.shape)) for x in inputs]


def gradient(scalar: UOp, inputs: Sequence[UOp]) -> list[UOp]:
    """The partial derivatives of a scalar.

    >>> q = UOp.var("q")
    >>> gradient(q.sin(), [q])
    [1*cos(q)]
    """
    return vjp([scalar], [UOp.const(1.0, scalar.dtype)], inputs)
