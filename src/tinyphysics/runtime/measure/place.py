"""What do the energy and the forces of a system do at one state?  Values, the fastest vibration, terms with their lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.errors import TinyPhysicsError
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.physics.draws import normal
from tinyphysics.planner.methods.families.rates import kinetic
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.unroll import stays_whole, unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify
from tinyphysics.runtime.stages.in_numpy import numbers
from tinyphysics.runtime.stages.terms import addends
from tinyphysics.system import System

MOST = 48  # numbers of a state whose vibrations are looked at
MOST_NODES = 2_000  # of its slopes, written out
WORK = 20_000_000  # numbers that are computed for one look at an expression
MOST_WORK = 200_000_000  # and for all of a frequency
ROUNDS = 24  # of a power iteration
SHORT = 1e-6  # of the state: the length of a difference

Env = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Subject:
    """A system as it is examined: its expressions and their derivatives, made once."""

    system: System
    derivatives: dict[Any, tuple[list[str], list[UOp]]] = field(default_factory=dict)

    @cached_property
    def energy(self) -> UOp | None:
        """The energy; of forces, the kinetic part alone is known."""
        return self.system.energy

    @cached_property
    def pulls(self) -> list[UOp]:
        """dH/dq, or the forces with a minus; of other systems, what they are given by."""
        s = self.system
        if s.energy is not None:
            return simplify(gradient(s.energy, list(s.q)))
        return [-f for f in s.forces] if s.kind == "forces" else list(s.update)

    @cached_property
    def moves(self) -> list[UOp]:
        """dH/dp."""
        s = self.system
        if s.energy is not None:
            return simplify(gradient(s.energy, list(s.p)))
        return simplify(gradient(kinetic(s), list(s.p))) if s.kind == "forces" else []

    @cached_property
    def roots(self) -> list[UOp]:
        return [*([] if self.energy is None else [self.energy]), *self.pulls, *self.moves]

    @cached_property
    def slopes(self) -> tuple[list[UOp], list[UOp]]:
        """dV/dq and dT/dp with sums over pairs written out: a particle and itself are no pair, also in derivatives."""
        s = self.system
        if s.energy is None:
            return self.pulls, self.moves
        whole = stays_whole(toposort([s.energy]))
        H = simplify([s.energy] if whole else unroll([s.energy])[0])[0]
        return gradient(H, list(s.q)), gradient(H, list(s.p))

    @cached_property
    def is_small(self) -> bool:
        """May all its second derivatives be written out?"""
        if self.numbers > MOST or self.listed or stays_whole(toposort(self.roots)):
            return False
        return len(toposort([*self.slopes[0], *self.slopes[1]])) <= MOST_NODES

    def along(self, of: tuple[UOp, ...], by: tuple[UOp, ...]) -> tuple[list[str], list[UOp]]:
        """Derivatives along directions that are variables of these names."""
        key = (of, by)
        if key not in self.derivatives:
            names = [f"{x.arg}.way" for x in by]
            ways = [UOp.var(name, x.shape) for name, x in zip(names, by)]
            self.derivatives[key] = names, jvp(list(of), list(by), ways)
        return self.derivatives[key]

    @cached_property
    def work(self) -> int:
        return sum(u.size for u in toposort(self.roots))

    @cached_property
    def listed(self) -> bool:
        """Are there sums over lists of neighbours, which are not written out?"""
        return any(u.op is Ops.NEIGHBOURS for u in toposort(self.roots))

    @property
    def numbers(self) -> int:
        return sum(s.var.size for s in self.system.states)

    @property
    def terms(self) -> list[UOp]:
        """The addends of the energy, or of the forces."""
        s = self.system
        return (
            addends(s.energy)
            if s.energy is not None
            else [x for f in (*s.forces, *s.update) for x in addends(f)]
        )


@dataclass(frozen=True, eq=False)
class Place:
    """A subject at one state."""

    subject: Subject
    env: Env  # states, parameters and t: numbers, or flat lists
    dt: float
    limit: float  # of the method, of dt times a frequency

    @property
    def system(self) -> System:
        return self.subject.system

    def value(self, u: UOp) -> Any:
        return np.ravel(np.asarray(numbers([u], self.env)[0], float))

    def moved(self, by: Mapping[str, Any]) -> Place:
        """The same with other states, which are given as arrays."""
        new = {n: np.ravel(v).tolist() if np.ndim(v) else float(v) for n, v in by.items()}
        return replace(self, env={**self.env, **new})

    def state(self, u: UOp) -> Any:
        return np.reshape(np.asarray(self.env[str(u.arg)], float), u.shape)

    # --- vibrations --------------------------------------------------------------------------------
    @cached_property
    def modes(self) -> tuple[Any, Any] | None:
        """(squares of frequencies, directions of q) at the state; None where they are not known."""
        if not self.system.q or not self.subject.is_small:
            return None
        try:
            pulls, moves = self.subject.slopes
            with np.errstate(all="ignore"):
                product = self.matrix(moves, self.system.p) @ self.matrix(pulls, self.system.q)
            if not np.isfinite(product).all():
                return np.array([math.inf]), np.zeros((len(product), 1))
            found, ways = np.linalg.eig(product)
        except (TinyPhysicsError, ArithmeticError, np.linalg.LinAlgError):
            return None
        return found.real, ways.real

    @property
    def omega(self) -> float:
        """The frequency of the fastest vibration; NaN where it is not known."""
        square = self.by_powers[0] if self.modes is None else float(self.modes[0].max())
        return math.nan if math.isnan(square) else math.sqrt(square) if square > 0 else 0.0

    @property
    def fastest(self) -> Any:
        """The direction of the fastest vibration, all numbers of q; None where it is not known."""
        if self.modes is None:
            return self.by_powers[1]
        return self.modes[1][:, int(self.modes[0].argmax())]

    @property
    def velocities(self) -> list[Any]:
        return [self.value(u) for u in self.subject.moves]

    @property
    def accelerations(self) -> list[Any]:
        pushes = [-self.value(u).reshape(u.shape) for u in self.subject.pulls]
        return [np.ravel(x) for x in self.change(self.subject.moves, self.system.p, pushes, 1.0)]

    @cached_property
    def by_powers(self) -> tuple[float, Any]:
        """(square of the fastest frequency, its direction) of a large system, from differences of its slopes."""
        q, p = self.system.q, self.system.p
        if not q or len(q) != len(p) or 2 * ROUNDS * self.subject.work > MOST_WORK:
            return math.nan, None
        size = max(1e-3, *(float(np.abs(self.state(x)).max(initial=0.0)) for x in q))
        way = [normal(x.size, 5)[:, 0].reshape(x.shape) for x in q]
        square = 0.0
        for _ in range(ROUNDS):
            long = math.sqrt(sum(float((w * w).sum()) for w in way))
            if not 0.0 < long < math.inf:
                return (0.0 if long == 0.0 else math.nan), None
            way = [w / long for w in way]
            bends = self.change(self.subject.pulls, q, way, SHORT * size)
            moves = self.change(self.subject.moves, p, bends, 1.0)
            square = sum(float((w * m).sum()) for w, m in zip(way, moves))
            way = moves
        return square, np.concatenate([np.ravel(w) for w in way])

    def change(self, of: Sequence[UOp], by: Sequence[UOp], way: Sequence[Any], h: float) -> list[Any]:
        """Derivatives along a direction, as a difference."""
        ends = [self.moved({str(x.arg): self.state(x) + s * h * w for x, w in zip(by, way)}) for s in (1, -1)]
        return [(ends[0].value(u) - ends[1].value(u)).reshape(u.shape) / (2 * h) for u in of]

    @property
    def pace(self) -> float:
        return abs(self.dt) * self.omega

    def matrix(self, of: Sequence[UOp], by: Sequence[UOp]) -> Any:
        """Derivatives of some expressions by states, a row for each number of the expressions."""
        names, along = self.subject.along(tuple(of), tuple(by))
        columns = []
        for k in range(sum(x.size for x in by)):
            unit, at = {}, 0
            for name, x in zip(names, by):
                row = [float(at + i == k) for i in range(x.size)]
                unit[name] = row if x.shape else row[0]
                at += x.size
            columns.append(np.concatenate([np.ravel(v) for v in numbers(along, {**self.env, **unit})]))
        return np.array(columns, float).T

    # --- terms and their lines ---------------------------------------------------------------------
    def shown(self, u: UOp) -> str:
        return as_written(u, self.system.sites)

    def term_of(self, u: UOp) -> str:
        """The addend that an operation is in, with its line."""
        for x in self.subject.terms:
            if u in dict.fromkeys(toposort([x])):
                return self.shown(x)
        near = [x for x in self.subject.terms if u.leaves & self.moving <= x.leaves & self.moving]
        return self.shown(near[0]) if near else ""

    @property
    def moving(self) -> frozenset[UOp]:
        return frozenset(s.var for s in self.system.states)

    @property
    def steepest(self) -> str:
        """The addend whose slope is the largest."""
        best, found = -1.0, ""
        for x in self.subject.terms:
            if not x.leaves & {*self.system.q}:
                continue
            slopes = gradient(x, list(self.system.q)) if self.system.energy is not None else [x]
            size = max(float(np.abs(self.value(s)).max(initial=0.0)) for s in slopes)
            if not size <= best:
                best, found = size, self.shown(x)
        return found


def as_written(u: UOp, sites: Mapping[UOp, Any]) -> str:
    """An expression, with the line of the user's file where it was written."""
    site = next((sites[x] for x in reversed(toposort([u])) if x in sites), None)
    text = f"{u}"
    text = text if len(text) <= 160 else f"{text[:157]}..."
    return text + (f" ({site})" if site is not None else "")
