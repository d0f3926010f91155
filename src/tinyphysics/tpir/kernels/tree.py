"""What do loops need of a tree?  Buffers for its points, their masses and the pull on each, and what fills them.

A nest of kind "tree" stores points and masses and calls; the k-th of a section finds the answer in a buffer of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinyphysics.ir.dtype import f64, i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import Shape, UOp, toposort
from tinyphysics.tpir.kernels.nests import Buffer

BITS = 20  # of a coordinate, in a key along the curve
# the planes of nodes: centre of mass, mass, three times the second moments, 3/2 of their trace, the square of the size,
# and the box, low and high
MASS, MOMENTS, TRACE, SIZE, BOX, PLANES = 3, 4, 10, 11, 12, 18
POINTS, MASSES = "tree.points", "tree.masses"
COTANGENTS = "tree.cotangents"
BACK = 5  # numbers for each point, of the cotangents of a pull
NUMBERS = (
    "tree.numbers"  # the squares of the opening angle and of the softening: a buffer of its own on a GPU
)
SECOND = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))  # the moments, by their axes
NOWHERE = 1e200  # of points that fill the last leaf up: their distance from anything is infinite, and their pull zero
GROUP = 8  # points of a leaf, children of a node


@dataclass(frozen=True, eq=False)
class TreeSpec:
    shape: Shape  # of the points
    softening: UOp  # its square, an expression of parameters
    budget: float
    count: int  # of evaluations in the longest section
    back: int = 0  # of those of cotangents

    def buffers(self) -> list[Buffer]:
        n = self.shape[0]
        out = [Buffer(POINTS, 3, (n,), f64), Buffer(MASSES, 1, (n,), f64)]
        for k in range(self.count):
            out += [Buffer(pull_of(k), 3, (n,), f64), Buffer(call_of(k), 1, (), i64)]
        for k in range(self.back):
            out += [Buffer(back_of(k), BACK, (n,), f64), Buffer(back_call_of(k), 1, (), i64)]
        return out + ([Buffer(COTANGENTS, 3, (n,), f64)] if self.back else [])


def levels_of(n: int) -> list[tuple[int, int]]:
    """(where the nodes of a level begin, how many there are) from the leaves to the root, which is no leaf."""
    out: list[tuple[int, int]] = []
    begin, count = 0, n
    while len(out) < 2 or count > 1:
        count = -(-count // GROUP)
        out.append((begin, count))
        begin += -(-count // GROUP) * GROUP
    return out


def pull_of(evaluation: int) -> str:
    return f"tree.pull{evaluation}"


def evaluation_in(buffer: str) -> int:
    return int(buffer.removeprefix("tree.pull"))


def call_of(evaluation: int) -> str:
    return f"tree.call{evaluation}"


def back_of(evaluation: int) -> str:
    return f"tree.back{evaluation}"


def back_in(buffer: str) -> int:
    return int(buffer.removeprefix("tree.back"))


def back_call_of(evaluation: int) -> str:
    return f"tree.backcall{evaluation}"


def goes_back(u: UOp) -> bool:
    """Is it asked for cotangents?"""
    return u.op is Ops.TREE and len(u.src) > 3


def tree_of(sections: Sequence[Sequence[UOp]]) -> TreeSpec | None:
    """The tree that the expressions of a program ask, if there is one."""
    found = [[u for u in toposort(roots) if u.op is Ops.TREE] for roots in sections]
    first = next((u for nodes in found for u in nodes), None)
    if first is None:
        return None
    q, _, softening, *_ = first.src
    assert all(u.arg == first.arg and u.src[2] is softening for nodes in found for u in nodes), "two trees"
    back = max(sum(map(goes_back, nodes)) for nodes in found)
    forward = max(sum(not goes_back(u) for u in nodes) for nodes in found)
    return TreeSpec(q.shape, softening, first.arg[0], forward, back)
