"""How does an array lie over planes and loops?  Components are planes, long axes are loops; a shift is a place to store."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import Shape, UOp
from tinyphysics.tpir.kernels.at_index import Home, Places, is_component
from tinyphysics.tpir.kernels.index import Place


def long_axes(shape: Shape, components: int) -> tuple[int, ...]:
    return tuple(n for n in shape if not is_component(n, components))


def component_places(shape: Shape, components: int, at: Sequence[Place]) -> list[tuple[int, Places]]:
    """(plane, index) for every combination of components, the long axes at the given places."""
    short = [range(n) for n in shape if is_component(n, components)]
    out = []
    for plane, combination in enumerate(product(*short)):
        own, rest = iter(combination), iter(at)
        out.append((plane, tuple(next(own) if is_component(n, components) else next(rest) for n in shape)))
    return out


def peeled(u: UOp, where: Places, homes: dict[UOp, Home]) -> tuple[UOp, Places, dict[int, int]]:
    """The node that a plane of u is a shifted copy of, its index, and by how much each loop is shifted.

    Storing at a shifted place costs nothing, computing at many shifted places would.
    """
    shifts: dict[int, int] = {}
    places = list(where)
    while u not in homes:
        match u.op:
            case Ops.CONCAT if isinstance(places[u.arg], int):
                k, i = 0, places[u.arg]
                while i >= u.src[k].shape[u.arg]:
                    i -= u.src[k].shape[u.arg]
                    k += 1
                places[u.arg] = i
                u = u.src[k]
            case Ops.RESHAPE if sorted(n for n in u.shape if n != 1) == sorted(
                n for n in u.src[0].shape if n != 1
            ):
                kept = [i for i, n in zip(places, u.shape) if n != 1]
                inner = iter(kept)
                if [n for n in u.shape if n != 1] != [n for n in u.src[0].shape if n != 1]:
                    break
                places = [0 if n == 1 else next(inner) for n in u.src[0].shape]
                u = u.src[0]
            case Ops.SLICE if all(
                isinstance(i, int) or b == (0, n, 1) for i, b, n in zip(places, u.arg, u.src[0].shape)
            ):
                places = [b[0] + i * b[2] if isinstance(i, int) else i for i, b in zip(places, u.arg)]
                u = u.src[0]
            case Ops.ROLL:
                for shift, a in u.arg:
                    i = places[a]
                    if isinstance(i, int):
                        places[a] = (i - shift) % u.shape[a]
                    else:
                        loop = next(
                            k for k, j in enumerate(p for p in where if not isinstance(p, int)) if j is i
                        )
                        shifts[loop] = (shifts.get(loop, 0) + shift) % u.shape[a]
                u = u.src[0]
            case _:
                break
    return u, tuple(places), {k: s for k, s in shifts.items() if s}
