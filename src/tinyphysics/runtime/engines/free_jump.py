"""A run of free rigid bodies without a loop: every frame is a jump from the first state, of all members together.

A body whose phases double-double does not know well enough, such as one near the separatrix, is computed by itself, in
decimal numbers of as many digits as that takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyphysics.analysis.free_bodies import free_bodies
from tinyphysics.device.linear.bounded import Bounded
from tinyphysics.device.linear.double_double import DD
from tinyphysics.device.linear.free_bodies import FreeBodies, carried_by
from tinyphysics.device.linear.modes import at_times
from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.laurent import Laurent
from tinyphysics.runtime.engines.few import evaluated
from tinyphysics.runtime.engines.jump import Jumped
from tinyphysics.system import System
from tinyphysics.tpir.program.free_bodies import moved_bodies
from tinyphysics.turning import Turning

if TYPE_CHECKING:
    from tinyphysics.runtime.state.run import Run


@dataclass(frozen=True, eq=False)
class Group:
    """The bodies of one momentum of a system, each after the other and members innermost."""

    kind: Turning
    momentum: UOp
    held: UOp | None
    known: Any  # (members,): which coefficients double-double has
    bodies: FreeBodies  # of all of them

    @property
    def count(self) -> int:
        return self.momentum.size // 3


@dataclass(eq=False)
class FreeJumps:
    """How free bodies jump."""

    system: System
    quick = True

    @cached_property
    def coefficients(self) -> tuple[Laurent, ...]:
        found = free_bodies(self.system)
        assert not isinstance(found, str), found
        return found

    def flows(self, params: Mapping[str, Any], dt: float) -> bool:
        return True

    def groups(self, m: Jumped) -> list[Group]:
        out, first = [], 0
        seen: dict[Any, Bounded] = {}
        for kind in self.system.structure.turning:
            for L, x in kind.bodies:
                n = L.size // 3
                high, low = np.zeros((2, 3, n, m.members))
                known = np.ones(m.members, bool)
                with np.errstate(all="ignore"):
                    for k in range(L.size):
                        value = evaluated(self.coefficients[first + k], m.params, seen)
                        known &= np.broadcast_to(
                            value.known | (value.value.high == 0.0) & (value.off == 0.0), m.members
                        )
                        high[k % 3, k // 3], low[k % 3, k // 3] = (
                            kind.sign * value.value.high,
                            kind.sign * value.value.low,
                        )
                flat = m.start[str(L.arg)].reshape(m.members, n, 3).transpose(2, 1, 0).reshape(3, -1)
                a = DD(high.reshape(3, -1), low.reshape(3, -1))
                out.append(Group(kind, L, x, known, FreeBodies(a, np.ascontiguousarray(flat))))
                first += L.size
        return out

    def frames(self, m: Jumped, steps: Sequence[int | Fraction]) -> dict[str, Any]:
        if m.modes is None:
            m.modes = self.groups(m)
        t = at_times(m.dt, steps)
        out = {name: np.empty((len(steps), *v.shape), v.dtype) for name, v in m.start.items()}
        taken = np.ones((len(steps), m.members), bool)
        with np.errstate(all="ignore"):
            for g in m.modes:
                taken &= g.known & g.bodies.taken(t.high).reshape(len(steps), g.count, m.members).all(axis=1)
                L, turn = g.bodies.at(t)
                shape = len(steps), 3, g.count, m.members
                name = str(g.momentum.arg)
                out[name][...] = L.reshape(shape).transpose(0, 3, 2, 1).reshape(out[name].shape)
                if g.held is not None:
                    self.carry(g, m, turn, out)
        for k in np.flatnonzero(~taken.all(axis=0)).tolist():
            rows = np.flatnonzero(~taken[:, k])
            self.alone(m, k, [steps[f] for f in rows.tolist()], rows, out)
        return out

    def carry(self, g: Group, m: Jumped, turn: Any, out: dict[str, Any]) -> None:
        """What bodies carry: attitudes, or rows of vectors."""
        assert g.held is not None
        name, width = str(g.held.arg), 4 if g.kind.half else 3
        rows = g.held.size // (g.count * width)
        first = m.start[name].reshape(m.members, g.count, rows, width).transpose(2, 3, 1, 0)
        moved = [carried_by(g.kind.half, x.reshape(width, -1), turn) for x in first]
        frames = len(turn)
        new = np.stack(moved, axis=1).reshape(frames, rows, width, g.count, m.members)
        out[name][...] = new.transpose(0, 4, 3, 1, 2).reshape(out[name].shape)

    def alone(
        self, m: Jumped, k: int, steps: Sequence[int | Fraction], rows: Any, out: dict[str, Any]
    ) -> None:
        """One member at some steps, in decimal numbers."""
        own = {
            name: [float(x) for x in v[k if len(v) > 1 else 0].reshape(-1)] for name, v in m.params.items()
        }
        now = {s.var: [float(x) for x in m.start[s.name][k].reshape(-1)] for s in self.system.states}
        if not all(np.isfinite(v).all() for v in (*own.values(), *now.values())):
            for v in out.values():
                v[rows, k] = np.nan  # as a loop would have it
            return
        assert self.system.energy is not None
        kinds = self.system.structure.turning
        for n, row in zip(steps, rows.tolist()):
            new = moved_bodies(kinds, self.system.energy, now, own, n * Fraction(m.dt))
            for var, numbers in new.items():
                name = str(var.arg)
                out[name][row, k] = np.reshape([float(x) for x in numbers], out[name].shape[2:])

    def told(self, r: Run, n: int) -> dict[str, Any]:
        """What is known of a jump of the first member of a run."""
        start = {name: np.asarray(v)[:1] for name, v in r.given.states.items()}
        params = {name: np.asarray(v)[:1] for name, v in r.given.own.items()}
        groups = self.groups(Jumped(start, params, 1, r.dt))
        t = at_times(r.dt, [n]).high
        with np.errstate(all="ignore"):
            taken = all(g.known.all() and g.bodies.taken(t).all() for g in groups)
            error = max(float((g.bodies.error * np.abs(t)).max()) for g in groups)
        bodies = sum(g.count for g in groups)
        digits = "double-double" if taken else "decimals"
        return {"by": "bodies", "bodies": bodies, "digits": digits, "phase_error": error if taken else 0.0}
