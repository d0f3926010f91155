"""How are gradients pulled back through a jump by its matrix?  With friction, and by parameters of more than 12 pairs.

With friction a jump is z(t) = P z(0) + c as well, but P is not symplectic: a jump backward in time would grow. P is made in
whole numbers instead, as exp(A t), and transposed. Of twice as many rows, exp([[A, A'], [0, A]] t) = [[P, P'], [0, P]] has
the derivative P' by a parameter that A moves with by A', be it in the energy or the rate of friction itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tinyphysics.device.linear.double_double import of_fraction
from tinyphysics.errors import PlanError
from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.affine import NotAffine
from tinyphysics.rules.calculus.hessian import hessian
from tinyphysics.rules.calculus.matrices import Fixed, Matrix, TooMany, exponential
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.formulas.friction import dissipation
from tinyphysics.runtime.engines.propagators import flat, halves, unflat
from tinyphysics.runtime.measure.course import Course, Key
from tinyphysics.tpir.program.propagate import slowed

SMALLEST = 1280  # bits after the point: what is less is 0 as a float
SURE = 64  # bits that an entry is right to
LOOP = 'Compile it with propagator="loop".'
UNIT = "{}__way"


class DampedJump:
    """The matrices of one run: members with the same parameters share theirs."""

    def __init__(self, course: Course) -> None:
        self.course, self.system = course, course.setup.system
        assert self.system.energy is not None
        self.terms = self.system.energy, dissipation(self.system.p, self.system.friction)
        alike: dict[Any, list[int]] = {}
        for k in range(course.members):
            alike.setdefault(tuple((n, tuple(v)) for n, v in self.own(k).items()), []).append(k)
        self.groups = [(self.generator(self.terms, self.own(g[0])), g) for g in alike.values()]

    def own(self, member: int) -> dict[str, list[float]]:
        given = self.course.run.given.own
        return {n: np.ravel(v[member if len(v) > 1 else 0]).tolist() for n, v in given.items()}

    def generator(self, terms: Sequence[UOp], own: Mapping[str, Sequence[float]]) -> list[list[Fraction]]:
        energy, lost = (hessian(u, self.system.q, self.system.p, own) for u in terms)
        return slowed(energy.generator(), lost)

    def time(self, key: Key) -> Fraction:
        run = self.course.run
        return Fraction(key[1]) - Fraction(run.t0) if isinstance(key, tuple) else key * Fraction(run.dt)

    def states(self, key: Key, bars: Mapping[str, Any]) -> dict[str, Any]:
        """Cotangents of the first state from those of the state at `key`, (members, shape...)."""
        w = np.concatenate(flat(self.system, bars))
        out = np.zeros_like(w)
        for a, group in self.groups:
            m = exact(a, self.time(key))
            back = [list(column[:-1]) for column in zip(*m.rows)][:-1]
            for k in group:
                out[:, k] = [rounded(x, m) for x in product(back, exactly(w[:, k]))]
        return unflat(self.system, halves(out))

    def parameter(self, seeds: Mapping[Key, Mapping[str, Any]], var: UOp, first: Mapping[str, Any]) -> Any:
        """The gradient by a parameter, (members, shape...)."""
        unit, moved = self.moved_terms(var)
        z = np.concatenate([*flat(self.system, first), np.ones((1, self.course.members))])
        out = np.zeros((self.course.members, var.size))
        w = {key: np.concatenate(flat(self.system, bars)) for key, bars in seeds.items()}
        for k, one in enumerate(np.eye(var.size).tolist()):
            for a, group in self.groups:
                along = self.generator(moved, {**self.own(group[0]), str(unit.arg): one})
                if not any(map(any, along)):
                    continue
                for key, bars in w.items():
                    corner, m = self.corner(a, along, key)
                    for i in group:
                        (x,) = product([product(corner, exactly(z[:, i]))], exactly(bars[:, i]))
                        out[i, k] += rounded(x, m)
        return out.reshape(self.course.members, *var.shape)

    def tangent(self, key: Key, var: UOp, way: Any, first: Mapping[str, Any]) -> dict[str, Any]:
        """How the state at `key` moves along a way of a parameter, (members, shape...)."""
        unit, moved = self.moved_terms(var)
        z = np.concatenate([*flat(self.system, first), np.ones((1, self.course.members))])
        out = np.zeros((len(z) - 1, self.course.members))
        for a, group in self.groups:
            for i in group:
                one = np.ravel(way[i if len(way) > 1 else 0]).tolist()
                along = self.generator(moved, {**self.own(i), str(unit.arg): one})
                if any(map(any, along)):
                    corner, m = self.corner(a, along, key)
                    out[:, i] = [rounded(x, m) for x in product(corner, exactly(z[:, i]))]
        return unflat(self.system, halves(out))

    def moved_terms(self, var: UOp) -> tuple[UOp, list[UOp]]:
        """(a way of a parameter, how energy and dissipation change along it)."""
        unit = UOp.var(UNIT.format(var.arg), var.shape)
        return unit, [
            (s * unit).sum() if var.shape else s * unit for u in self.terms for s in gradient(u, [var])
        ]

    def corner(self, a: Matrix, along: Matrix, key: Key) -> tuple[list[list[int]], Fixed]:
        """The derivative of exp(a t) along a change of a, in units of the second."""
        size = len(a)
        both = [[*x, *y] for x, y in zip(a, along)] + [[Fraction(0)] * size + [*x] for x in a]
        m = exact(both, self.time(key))
        return [row[size:] for row in m.rows[: size - 1]], m


def exact(a: Matrix, t: Fraction) -> Fixed:
    """exp(a t), every entry right to 64 bits of its own, or to 2**-1280: what is less is 0 as a float."""
    m = exponential(a, t)
    return m if sure(m, a) else exponential(a, t, SMALLEST)


def exactly(numbers: Any) -> list[Fraction]:
    return [Fraction(x) for x in numbers.tolist()]


def product(rows: Sequence[Sequence[Any]], v: Sequence[Fraction]) -> list[Fraction]:
    """Not rounded: in a flow that grows, terms may cancel."""
    return [sum((c * x for c, x in zip(row, v) if c and x), Fraction(0)) for row in rows]


def rounded(x: Fraction, m: Fixed) -> float:
    return of_fraction(x / (1 << m.bits))[0]


def sure(m: Fixed, a: Matrix) -> bool:
    """Are all entries far above their error, but those that are 0 because nothing leads there?"""
    reach = np.array([[x != 0 for x in row] for row in a]) | np.eye(len(a), dtype=bool)
    for _ in range(len(a).bit_length()):
        reach = reach @ reach
    return all(
        abs(x) >> SURE > m.error for row, there in zip(m.rows, reach) for x, is_ in zip(row, there) if is_
    )


def by_matrix(
    course: Course, seeds: Mapping[Key, Mapping[str, Any]], names: Sequence[str], first: Mapping[str, Any]
) -> dict[str, Any]:
    """Gradients by the first state, and by the parameters of these names."""
    system = course.setup.system
    zero = {s.name: np.zeros((course.members, *s.var.shape)) for s in system.states}
    whole = {key: {**zero, **bars} for key, bars in seeds.items()}
    if not all(np.isfinite(v).all() for bars in whole.values() for v in bars.values()):
        raise PlanError(
            f"a cotangent of `{system.name}` is not finite", fix="Choose a loss with finite slopes."
        )
    parameters, out = {p.name: p.var for p in system.parameters}, dict(zero)
    try:
        jump = DampedJump(course)
        for key, bars in whole.items():
            out = {name: out[name] + v for name, v in jump.states(key, bars).items()}
        return out | {name: jump.parameter(whole, parameters[name], first) for name in names}
    except (NotAffine, TooMany) as error:
        raise underived(system.name, error) from error


def underived(name: str, error: Exception) -> PlanError:
    return PlanError(f"the jump of `{name}` has no exact derivative: {error}", fix=LOOP)
