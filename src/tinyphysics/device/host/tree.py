"""What do many masses pull at each other?  A tree of a run: built at every evaluation, walked by groups of eight.

The opening angle is chosen once in a run, at its first evaluation: the widest of a ladder with which the forces on a
sample of points are within the budget. It is kept with the run, and so is the error that was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from tinyphysics.device.host.threads import spread
from tinyphysics.device.host.tree_back import pulled_back
from tinyphysics.device.host.tree_nodes import STACK, Functions, Tree, in_turn, planted, root_of
from tinyphysics.errors import InputError, PlanError
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import toposort
from tinyphysics.ir.value import evaluate
from tinyphysics.tpir.kernels.tree import BACK, COTANGENTS, GROUP, MASSES, POINTS, TreeSpec

Array = Any
SAMPLE = 256  # points whose force is summed directly
SMALL = 0.1  # of the rms force: the error of a weaker one is relative to this
NARROWEST = 0.05
PARTS_PER_THREAD = 4
WORTH_A_THREAD = 2048  # points


def angles() -> list[float]:
    """The opening angles that are tried, from wide to narrow."""
    out = [1.0]
    while out[-1] > NARROWEST:
        out.append(out[-1] * 0.875)
    return out


def softening_of(spec: TreeSpec, params: Mapping[str, Any], member: int) -> float:
    """The square of the softening in one member."""
    env = {}
    for v in toposort([spec.softening]):
        if v.op is Ops.VAR:
            given = params[str(v.arg)[1:]]
            env[str(v.arg)] = float(given[member if len(given) > 1 else 0])
    square = float(evaluate([spec.softening], env)[0])
    if not square >= 0.0:
        raise InputError(
            f"the square of the softening is {square:g}", fix="With approximate= it must be zero or positive."
        )
    return square


class TreePull:
    """The tree of one member, in buffers that its nests read."""

    def __init__(
        self, spec: TreeSpec, softening: float, own: dict[str, Array], f: Functions, threads: int
    ) -> None:
        self.spec, self.softening, self.own, self.f, self.threads = spec, softening, own, f, threads
        self.angle = 0.0  # not chosen yet
        self.error = (0.0, 0.0)  # rms and largest, as they were measured
        self.met = 0  # nodes and points that a group met in the last evaluation, summed

    def copy(self, own: dict[str, Array]) -> Self:
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__ | {"own": own})
        return new

    @property
    def chosen(self) -> tuple[float, float, float]:
        return self.angle, *self.error

    @chosen.setter
    def chosen(self, numbers: Sequence[float]) -> None:
        self.angle, *error = map(float, numbers)
        self.error = error[0], error[1]

    def planes(self, name: str) -> Array:
        a, rows = self.own[name], 1 if name == MASSES else 3
        return a.reshape(rows, -1)[:, : self.spec.shape[0]]

    def grown(self) -> Tree:
        """The tree over the points as they were stored; its angle is chosen when there is none yet."""
        q, m = self.planes(POINTS), self.planes(MASSES)[0]
        if (m < 0.0).any():
            i = int(np.flatnonzero(m < 0.0)[0])
            raise InputError(
                f"the mass of body {i} is {m[i]:g}",
                fix="The tree code needs masses that are not negative: leave approximate= out.",
            )
        with np.errstate(all="ignore"):  # a number that is not finite stops the run, later
            tree = planted(q, m, self.f)
            if self.angle == 0.0:
                self.choose(tree)
        return tree

    def make(self, into: str) -> None:
        """The pull on the points as they were stored."""
        tree = self.grown()
        out, self.met = self.walked(tree, np.arange(tree.points.shape[1] // GROUP), self.angle)
        self.planes(into)[:, tree.order] = out[:, : self.spec.shape[0]]

    def make_back(self, into: str) -> None:
        """What points, masses and the softening hand back, of the cotangents of their pull, with the angle of the run."""
        assert self.angle > 0.0, "a run chooses its angle before it is differentiated"
        tree = self.grown()
        bars = self.own[COTANGENTS].reshape(3, -1)[:, : self.spec.shape[0]]
        with np.errstate(all="ignore"):
            found = pulled_back(tree, bars, self.angle, self.softening, self.f)
        self.own[into].reshape(BACK, -1)[:, : self.spec.shape[0]] = found

    def walked(self, tree: Tree, groups: Array, angle: float) -> tuple[Array, int]:
        """(the pull on the points of some groups, in the order of the tree; what they met)."""
        room, wide = tree.points.shape[1], tree.nodes.shape[1]
        out = np.zeros((3, room))
        workers = min(self.threads, len(groups) * GROUP // WORTH_A_THREAD)
        parts = max(1, workers * PARTS_PER_THREAD) if workers > 1 else 1
        cuts = [len(groups) * k // parts for k in range(parts + 1)]

        def part(k: int) -> int:
            stack, whole, opened = (
                np.empty(size, np.int64) for size in (STACK, wide + GROUP, tree.leaves + GROUP)
            )
            return self.f.walk(
                tree.points.ctypes.data,
                room,
                tree.nodes.ctypes.data,
                wide,
                tree.leaves,
                root_of(tree),
                tree.kids.ctypes.data,
                angle * angle,
                self.softening,
                groups.ctypes.data,
                cuts[k],
                cuts[k + 1],
                out.ctypes.data,
                stack.ctypes.data,
                whole.ctypes.data,
                opened.ctypes.data,
            )

        if parts == 1:
            return out, part(0)
        return out, sum(spread(part, parts, workers))

    # --- the error ----------------------------------------------------------------------------
    def choose(self, tree: Tree) -> None:
        """The widest angle within the budget; a PlanError if none is."""
        error = self.errors(tree)
        for angle in angles():
            rms, most = error(angle)
            if (
                rms <= self.spec.budget or not rms < np.inf
            ):  # a force that is not finite will stop the run, which says where
                self.angle, self.error = angle, (rms, most)
                return
        raise PlanError(
            f"approximate={self.spec.budget:g} cannot be met: with an opening angle of {angle:.2g} the forces "
            f"are off by {rms:.1e}",
            fix="Allow a larger error, or leave approximate= out for the direct sum.",
        )

    def errors(self, tree: Tree) -> Callable[[float], tuple[float, float]]:
        """The error with an opening angle, rms and largest, of the forces on a sample of points."""
        n = self.spec.shape[0]
        who = np.arange(min(n, SAMPLE)) * n // min(n, SAMPLE)  # by index
        at = np.empty(n, np.int64)
        at[tree.order] = np.arange(n)
        places = at[who]
        exact = self.summed(tree, places)
        strength = np.sqrt(in_turn(exact * exact))
        typical = np.sqrt(in_turn(strength * strength) / len(strength))
        scale = np.maximum(strength, SMALL * typical)
        scale = np.where(scale > 0.0, scale, 1.0)
        groups = np.unique(places // GROUP)

        def error(angle: float) -> tuple[float, float]:
            found, _ = self.walked(tree, groups, angle)
            off = found[:, places] - exact
            relative = np.sqrt(in_turn(off * off)) / scale
            return float(np.sqrt(in_turn(relative * relative) / len(relative))), float(relative.max())

        return error

    def measured(self) -> dict[str, float]:
        """The angle, and the errors at the first evaluation and at the last one."""
        with np.errstate(all="ignore"):
            tree = planted(self.planes(POINTS), self.planes(MASSES)[0], self.f)
            rms, most = self.errors(tree)(self.angle)
        return {
            "angle": self.angle,
            "rms": self.error[0],
            "max": self.error[1],
            "last_rms": rms,
            "last_max": most,
        }

    def summed(self, tree: Tree, places: Array) -> Array:
        """The pull on the points at some places, by every other: (3, places)."""
        n, room = self.spec.shape[0], -(-len(places) // GROUP) * GROUP
        ids = np.full(room, places[-1])
        ids[: len(places)] = places
        targets = np.ascontiguousarray(tree.points[:3, ids])
        out = np.empty((3, room))
        self.f.direct(
            tree.points.ctypes.data,
            tree.points.shape[1],
            n,
            targets.ctypes.data,
            ids.ctypes.data,
            room,
            room // GROUP,
            self.softening,
            out.ctypes.data,
        )
        return out[:, : len(places)]
