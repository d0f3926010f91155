"""Which sums over pairs show that a fast path was not allowed?  Then not every pair has to be tested.

The fast path of x**-1.5 is infinite or NaN where it is not for x. Products and sums keep that, so that a force has
it, and the sum over the force's row: one look at each row, where the sum is read, instead of one at each pair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.functions.power import is_inverse_cube
from tinyphysics.tpir.kernels.nests import Nest

KEEP = frozenset({Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.FMA})  # infinite or NaN if an operand is
Plane = tuple[str, int]  # of a buffer


def kept_by(root: UOp, fails: Callable[[UOp], bool] = is_inverse_cube) -> list[UOp]:
    """The inverse cubes without which the root is not finite."""
    reached, waiting = {root: None}, [root]
    while waiting:
        u = waiting.pop()
        for s in u.src if u.op in KEEP else ():
            if s not in reached:
                reached[s] = None
                waiting.append(s)
    return [u for u in reached if fails(u)]


def sums_that_show_failure(
    nests: Sequence[Nest], fails: Callable[[UOp], bool] = is_inverse_cube
) -> dict[Plane, list[UOp]]:
    """For each plane of sums that is looked at afterwards, the inverse cubes whose failure it shows.

    `fails` says which nodes are infinite or NaN where their fast path is not allowed.
    """
    out: dict[Plane, list[UOp]] = {}
    for k, nest in enumerate(nests):
        if nest.kind != "pairs":
            continue
        (piece,) = nest.pieces
        values = dict(zip(piece.stores, inline([s.value for s in piece.stores])))
        left = dict.fromkeys(u for u in toposort(list(values.values())) if fails(u))
        for s, value in values.items():
            plane = (s.buffer, s.plane)
            # not a list: == of nodes makes a node
            shown = dict.fromkeys(u for u in kept_by(value, fails) if u in left)
            if (
                shown
                and s.combine is Ops.ADD
                and s.index[0] is nest.variables[0]
                and is_read(nests[k + 1 :], plane, nest)
            ):
                out[plane] = list(shown)
                left = {u: None for u in left if u not in shown}
    return out


def is_read(nests: Sequence[Nest], plane: Plane, pairs: Nest) -> bool:
    """Does a map look at every row of a plane?"""
    maps = [n for n in nests if n.kind == "map" and n.sizes == pairs.sizes]
    return any(
        all(any(u.arg == plane and u.src[0] is n.variables[0] for u in p.loads()) for p in n.pieces)
        for n in maps
    )
