"""Where are the poles of an energy?  Where linear functions of the positions are all zero: a point, a line, a plane.

How fast a system vibrates beside such a pole is a function of these numbers, if the terms that have the pole depend on the
positions through them alone. A pole of which that is not shown has no forms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tinyphysics.ir import Ops, UOp, elements, substitute, toposort
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.ranges import ranges_of
from tinyphysics.rules.identities.real import simplify
from tinyphysics.runtime.stages.energies import Function, written
from tinyphysics.runtime.stages.terms import addends, poles_of
from tinyphysics.system import System

MOST = 6  # poles: each is a register of the loop
SAME = 1e-9  # of the largest slope: rounding
FACTORS = tuple(
    2.0 ** (k / 2) for k in range(24)
)  # of a distance, where a vibration may be faster further away
Places = tuple[tuple[UOp, ...], ...]  # poles, each as the linear functions that are zero there


@dataclass(frozen=True, eq=False)
class Forms:
    """A pole, by what is zero there: numbers x = A q + b, with A the same everywhere."""

    term: UOp  # of the energy, as it is written
    values: tuple[UOp, ...]  # x, of the user's variables
    slopes: Any  # A: (numbers, positions)
    pair: tuple[int, int] | None  # the particles that meet there
    # x, and (d V'' d)(d T'' d)/|d|**4 of the terms that have the pole, where d is how the distance |x| changes: functions of
    # the numbers of a state and of the parameters
    numbers: tuple[Function, Function]
    square: tuple[Function, Function]
    places: list[int]  # of the positions among these
    count: int  # of them
    pull: tuple[Function, Function] | None = (
        None  # the square of how fast x is pulled, where it is by these terms alone
    )

    @property
    def alone(self) -> bool:
        """Does nothing else move it?"""
        return self.pull is not None

    def pulls(self, rows: Any, distances: Any) -> Any:
        """How fast x is pulled at some distances, of members (rows, numbers), all else as it is."""
        assert self.pull is not None
        x = np.stack([np.broadcast_to(y, len(rows)) for y in self.numbers[1](*rows.T)])
        way = np.zeros_like(x)
        way[0] = 1.0  # it is the same in all directions
        there = np.repeat(rows.T, len(distances) // len(rows), axis=1)
        there[self.places] += self.back @ (distances * way - x)
        return np.sqrt(np.broadcast_to(self.pull[1](*there)[0], len(distances)))

    @cached_property
    def back(self) -> Any:
        """(positions, numbers): how positions move on the shortest way where x moves."""
        return np.linalg.pinv(self.slopes)

    @cached_property
    def by_distance(self) -> bool:
        """Is the vibration the faster the smaller |x| is, in whichever direction?  At some values of the parameters."""
        draw, n = np.random.default_rng(2), len(self.values)
        distances = np.geomspace(1e-5, 10.0, 61)
        for scale in (0.01, 0.1, 1.0, 10.0):
            state = np.exp(draw.normal(size=self.count)) * scale
            ways = draw.normal(size=(6, n))
            found = self.at(state, ways / np.linalg.norm(ways, axis=1)[:, None], distances)
            if not (np.diff(found, axis=1) <= 0).all() or not np.allclose(
                found, found[:1], rtol=1e-6, atol=0.0
            ):
                return False
        return True

    def at(self, state: Any, ways: Any, distances: Any) -> Any:
        """(ways, distances) the square of omega there, all else as it is."""
        with np.errstate(all="ignore"):
            x = np.array([float(y) for y in self.numbers[1](*state)])
            rows = np.repeat(state[:, None], len(ways) * len(distances), axis=1)
            there = (ways[:, None, :] * distances[None, :, None]).reshape(-1, len(x))
            rows[self.places] += self.back @ (there - x).T
            return np.broadcast_to(self.square[1](*rows)[0], len(there)).reshape(len(ways), len(distances))

    @cached_property
    def directions(self) -> Any:
        """Of x, along which the fastest vibration is looked for beside that of the first state: (directions, numbers)."""
        eye = np.eye(len(self.values))
        return eye[:0] if self.by_distance else np.concatenate([eye, -eye])

    @property
    def factors(self) -> Sequence[float]:
        """Times the least distance, where it is looked for."""
        return (1.0,) if self.by_distance else FACTORS


def linear(u: UOp, q: Sequence[UOp]) -> bool:
    return bool(u.leaves & frozenset(q)) and all(s.op is Ops.CONST for s in simplify(gradient(u, list(q))))


def zeros(u: UOp, q: Sequence[UOp]) -> Places | None:
    """The places where u is zero; None if one of them may be none where linear functions are zero."""
    lowest, highest = ranges_of([u], {})[u]
    if lowest > 0.0 or highest < 0.0 or not u.leaves & frozenset(q):
        return ()
    match u.op, u.src:
        case ((Ops.SQRT | Ops.CBRT | Ops.ABS | Ops.NEG | Ops.CAST), (a,)):
            return zeros(a, q)
        case Ops.POW, (a, e) if e.op is Ops.CONST and e.arg > 0:
            return zeros(a, q)
        case Ops.DIV, (a, _):
            return zeros(a, q)
        case Ops.MUL, (a, b):
            both = zeros(a, q), zeros(b, q)
            return None if both[0] is None or both[1] is None else tuple(dict.fromkeys((*both[0], *both[1])))
        case Ops.HYPOT, (a, b):
            return together(zeros(a, q), zeros(b, q))
    if linear(u, q):
        return ((u,),)
    if (forms := squares(u, q)) is not None:
        return (forms,)
    if u.op is Ops.ADD and all(r[0] >= 0.0 for r in (ranges_of([s], {})[s] for s in u.src)):
        return together(*(zeros(s, q) for s in u.src))
    return None


def squares(u: UOp, q: Sequence[UOp]) -> tuple[UOp, ...] | None:
    """Linear functions whose squares add up to u."""
    match u.op, u.src:
        case Ops.ADD, (a, b):
            left, right = squares(a, q), squares(b, q)
            return None if left is None or right is None else (*left, *right)
        case Ops.POW, (a, e) if e.op is Ops.CONST and e.arg == 2 and linear(a, q):
            return (a,)
        case Ops.MUL, (a, b) if a.op is Ops.CONST or b.op is Ops.CONST:
            factor, rest = (float(a.arg), b) if a.op is Ops.CONST else (float(b.arg), a)
            inner = squares(rest, q)
            if inner is None or not factor > 0.0:
                return None
            return tuple(simplify([x * math.sqrt(factor) for x in inner]))
        case Ops.MUL, (a, b) if a is b and linear(a, q):
            return (a,)
        case Ops.MUL, (a, b) if linear(a, q) and linear(b, q):
            slopes = [[float(s.arg) for s in simplify(gradient(x, list(q)))] for x in (a, b)]
            at = int(np.argmax(np.abs(slopes[1])))
            ratio = slopes[0][at] / slopes[1][at]
            (rest,) = simplify([a - b * ratio])
            return (b * math.sqrt(ratio),) if ratio > 0.0 and rest.op is Ops.CONST and rest.arg == 0 else None
    return None


def together(a: Places | None, b: Places | None) -> Places | None:
    """Where both of two functions are zero."""
    if a is None or b is None:
        return None
    if not a or not b:
        return ()
    if len(a) != 1 or len(b) != 1:
        return a if set(a) == set(b) else None
    return (tuple(dict.fromkeys((*a[0], *b[0]))),)


@lru_cache(maxsize=256)
def forms_of(system: System) -> tuple[Forms, ...]:
    """Of all poles of an energy; none if there is one that is no such place, or too many."""
    assert system.energy is not None
    variables = [
        e for x in (*(s.var for s in system.states), *(p.var for p in system.parameters)) for e in elements(x)
    ]
    single = [UOp.var(f"x{k}") for k in range(len(variables))]
    table, q, p = (
        dict(zip(variables, single)),
        single_of(system.q, variables, single),
        single_of(system.p, variables, single),
    )
    found: dict[tuple[Any, ...], Forms] = {}
    (H,) = written_out(inline([system.energy]), table)
    terms = addends(H)
    for term, zero in poles_of(system):
        for z in written_out(inline([zero]), table):
            (plain,) = simplify([z])
            places = zeros(plain, q)
            if places is None:
                return ()
            for values in places:
                slopes = np.array([[float(s.arg) for s in simplify(gradient(v, q))] for v in values])
                name = key_of(values, slopes, q)
                if name in found:
                    continue
                if (
                    len(found) == MOST
                    or (made := one(system, term, values, slopes, terms, (single, q, p))) is None
                ):
                    return ()
                found[name] = made
    return tuple(found.values())


def single_of(xs: Sequence[UOp], variables: Sequence[UOp], single: Sequence[UOp]) -> list[UOp]:
    places = {e: k for k, e in enumerate(variables)}
    return [single[places[e]] for x in xs for e in elements(x)]


def written_out(roots: Sequence[UOp], table: dict[UOp, UOp]) -> list[UOp]:
    return substitute([u for group in unroll(roots) for u in group], table)


def key_of(values: Sequence[UOp], slopes: Any, q: Sequence[UOp]) -> tuple[Any, ...]:
    """The same for the same place, whichever sign its functions have."""
    at_zero = simplify(substitute(list(values), {x: UOp.const(0.0) for x in q}))
    signs = [1.0 if row[np.flatnonzero(row)[0]] > 0 else -1.0 for row in slopes]
    offsets = simplify([u * s for u, s in zip(at_zero, signs)])
    return tuple(sorted({(*(s * row + 0.0).tolist(), repr(u)) for s, row, u in zip(signs, slopes, offsets)}))


def one(
    system: System,
    term: UOp,
    values: Sequence[UOp],
    slopes: Any,
    terms: Sequence[UOp],
    of: tuple[list[UOp], ...],
) -> Forms | None:
    """A pole, with the terms of the energy that have it; None where these depend on more than what is zero there."""
    single, q, p = of
    own = UOp.sum_of(x for x in terms if has_pole(x, key_of(values, slopes, q), q))
    along = [UOp.var(f"d{k}") for k in range(len(q))]
    T = UOp.sum_of(x for x in terms if x.leaves & frozenset(p))
    bent, light = (jvp(jvp([u], z, along), z, along)[0] for u, z in ((own, q), (T, p)))
    if simplify([light])[0].leaves & frozenset([*q, *p]):
        return None  # a mass that changes
    if not only_across(written(gradient(own, q), single), slopes, len(single)):
        return None
    outward = [UOp.sum_of(v * float(a) for v, a in zip(values, column)) for column in slopes.T]
    length = UOp.sum_of(d * d for d in outward)
    (square,) = substitute([bent * light], dict(zip(along, outward)))
    numbers, both = written(values, single), written([abs(square) / (length * length)], single)
    if numbers is None or both is None:
        return None
    named = dict(
        zip(
            single,
            (
                e
                for x in (*(s.var for s in system.states), *(r.var for r in system.parameters))
                for e in elements(x)
            ),
        )
    )
    own_names = tuple(substitute(list(values), named))
    order = {x: k for k, x in enumerate(single)}
    places = [order[x] for x in q]
    pull = None
    if not any(x.leaves & frozenset(q) for x in terms if not has_pole(x, key_of(values, slopes, q), q)):
        kicked = jvp(gradient(T, p), p, gradient(own, q))
        moved = [UOp.sum_of(v * float(a) for v, a in zip(kicked, row)) for row in slopes]
        pull = written([UOp.sum_of(v * v for v in moved)], single)
    return Forms(term, own_names, slopes, particles(system, slopes), numbers, both, places, len(single), pull)


def only_across(slopes_of: tuple[Function, Function] | None, slopes: Any, count: int) -> bool:
    """Does a function of the positions change with the numbers x alone?  Its slopes at some states are sums of rows of A."""
    if slopes_of is None:
        return False
    states = np.random.default_rng(1).uniform(0.3, 1.7, (4, count))
    with np.errstate(all="ignore"):
        found = np.array([slopes_of[1](*map(np.float64, state)) for state in states], float)
    across = found @ np.linalg.pinv(slopes) @ slopes
    return bool((np.abs(found - across) <= SAME * np.abs(found).max(axis=1, keepdims=True)).all())


def has_pole(x: UOp, name: tuple[Any, ...], q: Sequence[UOp]) -> bool:
    """Is what is zero at a pole in a term?  By its place."""
    for u in toposort([x]):
        if u.leaves & frozenset(q) and u.op in (Ops.DIV, Ops.RSQRT, Ops.LOG, Ops.POW):
            zero = u.src[1] if u.op is Ops.DIV else u.src[0]
            places = zeros(simplify([zero])[0], q) or ()
            for values in places:
                slopes = np.array([[float(s.arg) for s in simplify(gradient(v, q))] for v in values])
                if key_of(values, slopes, q) == name:
                    return True
    return False


def particles(system: System, slopes: Any) -> tuple[int, int] | None:
    """The two rows of the positions that meet where these numbers are zero."""
    if len(system.q) != 1 or len(system.q[0].shape) != 2 or not system.pairs:
        return None
    rows = np.flatnonzero(np.abs(slopes).reshape(len(slopes), *system.q[0].shape).sum(axis=(0, 2)))
    return (int(rows[0]), int(rows[1])) if len(rows) == 2 else None
