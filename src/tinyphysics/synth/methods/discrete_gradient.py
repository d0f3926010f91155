"""How is an energy kept to the last digits?  By a discrete gradient: G(y, z).(z - y) = H(z) - H(y), and z = y + h J G(y, z).

Then H(z) = H(y), since J is skew, and the end z of a step is what is solved for. That is all that is kept: such a step is of
order 2 and symmetric, but not symplectic. Three of them are written here. The mean of the gradient along the way (AVF) needs
no division, but a quadrature that is exact, so a polynomial. That of Gonzalez is the gradient at the middle, mended along the
way. That of Itoh and Abe has a difference quotient for each number, here the mean of the two orders in which they can be
taken. A quotient is written as the slope at the middle and what is missing to it: where the way is too short to divide by it,
what is missing is nothing beside rounding, and the slope is left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinyphysics.flows.shears import Shear, ShearFlow
from tinyphysics.ir import Ops, UOp, elements, substitute
from tinyphysics.poisson import BRACKET
from tinyphysics.rules.calculus.degree import degrees
from tinyphysics.rules.calculus.linear import ONE, ZERO, less, times
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, Step, Term
from tinyphysics.synth.methods.implicit import BY_NEWTON, TINY, VectorField, largest_of, solving
from tinyphysics.system import System
from tinyphysics.user_bracket import UserBracket

Numbers = Sequence[UOp]
# h |H|/|z| times it: on a shorter way the rounding of H, over its length, would be more than 2**-40 or 2**-48 of z
SLOW, STILL = 2.0**-13, 2.0**-5
# of a difference of slopes: on a shorter way what is missing, which is its square, is rounding
SHORTEST = 2.0**-24
# at which the slope between two numbers is looked at, where they may come close: all but (z - y)**7
PLACES = 3
# for terms of a high degree or none, whose quotients are held on longer ways: all but (z - y)**11
MORE_PLACES = 5


def points(degree: int) -> int:
    """Of a quadrature of Gauss that is exact for the gradient of a polynomial H of this degree along a line.

    >>> [points(d) for d in (2, 3, 4, 6, 8)]
    [1, 2, 2, 3, 4]
    """
    return max(1, (degree + 1) // 2)


def quadrature(n: int) -> list[tuple[float, float]]:
    """(place, weight) of Gauss and Legendre in (0, 1), exact to degree 2n - 1; mirrored places add up to 1.

    >>> quadrature(1)
    [(0.5, 1.0)]
    """
    found = []
    for k in range(n):
        x = math.cos(math.pi * (k + 0.75) / (n + 0.5))
        for _ in range(50):
            p, before = 1.0, 0.0
            for j in range(n):
                p, before = ((2 * j + 1) * x * p - j * before) / (j + 1), p
            slope = n * (x * p - before) / (x * x - 1.0)
            x -= p / slope
        found.append((x, 1.0 / ((1.0 - x * x) * slope * slope)))
    out = []
    for k in range(n):
        (x, w), (y, v) = found[k], found[n - 1 - k]
        out.append((0.5 - 0.25 * (x - y), 0.5 * (w + v)))
    return out


class StepEnds:
    """An energy as terms of numbers, and the two ends of a step: y, which is known, and z, which is not."""

    def __init__(self, system: System, flow: VectorField, z: Numbers) -> None:
        assert system.energy is not None
        ((energy,),) = unroll([system.energy])
        self.flow, self.y, self.z = flow, flow.z, list(z)
        self.terms = terms_of(energy)
        self.energy = energy
        self.way = [b - a for a, b in zip(self.y, self.z)]
        self.middle = [0.5 * (a + b) for a, b in zip(self.y, self.z)]

    def at(self, roots: Numbers, z: Numbers) -> list[UOp]:
        return substitute(list(roots), dict(zip(self.y, z)))

    def mean(self, terms: Numbers) -> list[UOp]:
        """The mean of their gradient along the way: exact for polynomials of degree 2*PLACES, else but for its length**7."""
        slopes = simplify(gradient(UOp.sum_of(terms), self.y))
        seen = [
            (w, self.at(slopes, [a + c * d for a, d in zip(self.y, self.way)])) for c, w in quadrature(PLACES)
        ]
        return [UOp.sum_of([w * g[k] for w, g in seen]) for k in range(len(self.y))]

    def largest(self, states: Sequence[UOp]) -> UOp:
        return largest_of([abs(x) for k in self.flow.places(states) for x in (self.y[k], self.z[k])])


def terms_of(u: UOp) -> list[UOp]:
    """What an energy is a sum of."""
    if u.op is Ops.NEG:
        return [-t for t in terms_of(u.src[0])]
    if u.op is Ops.SUB:
        return [*terms_of(u.src[0]), *(-t for t in terms_of(u.src[1]))]
    return [t for s in u.src for t in terms_of(s)] if u.op is Ops.ADD else [u]


def missing(terms: tuple[Numbers, Numbers], slope: UOp, square: UOp, beside: UOp, slow: float) -> UOp:
    """What is missing to the slope of terms along the way, which are given at both ends: per length squared of the way.

    The difference is that of each term, not of their sum: what does not change leaves no rounding. `beside` is the size of
    what it moves.
    """
    difference = UOp.sum_of([b - a for a, b in zip(*terms)])
    return (difference - slope) / held(terms, square, beside, slow)


def held(terms: tuple[Numbers, Numbers], square: UOp, beside: UOp, slow: float) -> UOp:
    """The length squared of the way to divide by: not shorter than what the rounding of some terms at its ends allows."""
    size = UOp.sum_of([abs(a) + abs(b) for a, b in zip(*terms)])
    short = (slow * abs(DT)) * size / beside.maximum(2.0**-200)
    return square.maximum(short * short).maximum(TINY)


def mean_gradient(ends: StepEnds, degree: int) -> list[UOp]:
    """The mean of the gradient along the line between the ends, of an energy that is a polynomial."""
    slopes = simplify(gradient(ends.energy, ends.y))
    seen = [
        (w, ends.at(slopes, [a + c * d for a, d in zip(ends.y, ends.way)]))
        for c, w in quadrature(points(degree))
    ]
    return [UOp.sum_of([w * g[k] if w != 1.0 else g[k] for w, g in seen]) for k in range(len(ends.y))]


def mended_midpoint(ends: StepEnds) -> list[UOp]:
    """The gradient at the middle, and along the way what is missing to H(z) - H(y): nothing for terms of degree 2."""
    states = frozenset(ends.flow.states)
    slopes = ends.at(simplify(gradient(ends.energy, ends.y)), ends.middle)
    rest = [t for t in ends.terms if not within(2, t, states)]
    if not rest:
        return slopes
    own = ends.at(simplify(gradient(UOp.sum_of(rest), ends.y)), ends.middle)
    # what is missing is the mean slope less that at the middle: a difference of slopes, which is right on the shortest way
    # too. H(z) - H(y) is not: beside its rounding nothing is left of the way cubed, long before that is nothing
    square = UOp.sum_of([d * d for d in ends.way])
    mean = ends.mean(rest)
    along = UOp.sum_of([(m - g) * d for m, g, d in zip(mean, own, ends.way)])
    system = ends.flow.system
    beside = (
        ends.largest(system.q).minimum(ends.largest(system.p)) if system.p else ends.largest(ends.flow.states)
    )
    more = along / held((ends.at(rest, ends.y), ends.at(rest, ends.z)), square, beside, SHORTEST)
    steep = [t for t in rest if not within(2 * PLACES, t, states)]
    if steep:
        total = UOp.sum_of([g * d for g, d in zip(ends.mean(steep), ends.way)])
        both = ends.at(steep, ends.y), ends.at(steep, ends.z)
        more = more + missing(both, total, square, beside, SLOW)
    return [g + more * d for g, d in zip(slopes, ends.way)]


def increments(ends: StepEnds) -> list[UOp]:
    """A difference quotient for each number, those before it at one end and those after it at the other; and the reverse."""
    out = []
    flow = ends.flow
    q, p = flow.system.q, flow.system.p
    beside = {k: ends.largest(other) for other, own in ((q, p), (p, q)) for k in flow.places(own)}
    for k in range(len(ends.y)):
        one, other = (
            quotient(ends, k, [*a[:k], ends.y[k], *b[k + 1 :]], beside[k])
            for a, b in ((ends.z, ends.y), (ends.y, ends.z))
        )
        out.append(one if one is other else 0.5 * (one + other))
    return out


def quotient(ends: StepEnds, k: int, others: Numbers, beside: UOp) -> UOp:
    """(H at z_k - H at y_k)/(z_k - y_k), the other numbers as they are given."""
    number = UOp.var("number")
    terms = [t for t in ends.at(ends.terms, [*others[:k], number, *others[k + 1 :]]) if number in t.leaves]
    if not terms:
        return ZERO

    def at(roots: Numbers, x: UOp) -> list[UOp]:
        return substitute(list(roots), {number: x})

    own, way = frozenset({number}), ends.way[k]
    straight = [t for t in terms if within(2, t, own)]
    steep = [t for t in terms if not within(2 * PLACES, t, own)]
    bent = [t for t in terms if within(2 * PLACES, t, own) and not within(2, t, own)]

    def slopes(roots: Numbers, places: int) -> UOp:
        (slope,) = simplify(gradient(UOp.sum_of(roots), [number]))
        return UOp.sum_of([w * at([slope], ends.y[k] + c * way)[0] for c, w in quadrature(places)])

    out = at(simplify(gradient(UOp.sum_of(straight), [number])), ends.middle[k]) if straight else []
    if bent:
        out.append(slopes(bent, PLACES))
    if steep:
        mean, both = slopes(steep, MORE_PLACES), (at(steep, ends.y[k]), at(steep, ends.z[k]))
        out += [mean, missing(both, mean * way, way * way, beside, STILL) * way]
    return UOp.sum_of(out)


def within(degree: int, term: UOp, states: frozenset[UOp]) -> bool:
    """Is a term shown to be a polynomial of this degree at most?"""
    found = degrees(term, states)[term]
    return found is not None and found <= degree


def energy_step(name: str, system: System, degree: int | None) -> Step:
    """A step by one of the discrete gradients; the degree is that of H, where it is a polynomial."""
    assert system.energy is not None
    flow = VectorField(system, system.energy)
    n = len(flow.z)
    unknown = UOp.var("?end", (n,))
    z = elements(unknown)
    ends = StepEnds(system, flow, z)
    if name == "avf":
        assert degree is not None
        slopes = mean_gradient(ends, degree)
    else:
        slopes = mended_midpoint(ends) if name == "gonzalez" else increments(ends)
    shears, residuals = moved(flow, slopes, ends)
    f = flow.at(flow.z)
    ahead = [a + (0.5 * DT) * v for a, v in zip(flow.z, f)]
    start = [a + DT * v for a, v in zip(flow.z, flow.at(ahead))]
    rows, second = None, None
    # the slopes of G by z are half those of the gradient, at the middle and up to what is mended
    if n <= BY_NEWTON:
        second = [flow.moved(row, ahead, 0.0) for row in flow.jacobian()]
        rows = [
            [less(ONE if k == m else ZERO, times(second[k][m], 0.5 * DT)) for m in range(n)] for k in range(n)
        ]
    sizes = flow.sizes([flow.z, ahead, start, flow.shaken(DT, second)])
    solve = solving(unknown, start, residuals, sizes, ShearFlow(tuple(shears)), rows)
    looks = {"avf": points(degree or 0), "gonzalez": 1 + PLACES, "itoh_abe": 2}[name]
    return Step.of(system, name, (Term("H", system.energy),), (), looks, body=(solve,))


def moved(flow: VectorField, slopes: Numbers, ends: StepEnds) -> tuple[list[Shear], list[UOp]]:
    """By what each state moves, J times a gradient; and what is left of the way then, number by number."""
    if isinstance(flow.system.structure, UserBracket):
        return in_bracket(flow.system.structure, slopes, ends)
    gradients, way, at = {}, {}, 0
    for s in flow.states:
        gradients[s], way[s] = list(slopes[at : at + s.size]), ends.way[at : at + s.size]
        at += s.size
    moves = {state: (own, word) for state, own, word in flow.system.structure.flow(gradients)}
    shears, left = [], []
    for s in flow.states:
        own, word = moves[s]
        shears.append(Shear(s, UOp.stack(own, s.shape) if s.shape else own[0], word, 1.0))
        left += [d + DT * g if word == "negate" else d - DT * g for d, g in zip(way[s], own)]
    return shears, left


def in_bracket(structure: UserBracket, slopes: Numbers, ends: StepEnds) -> tuple[list[Shear], list[UOp]]:
    """The same with J of the state, at the middle of the way: it is skew there, which is all that the energy asks for."""
    J = structure.matrix(ends.middle)
    own = simplify([UOp.sum_of([a * g for a, g in zip(row, slopes)]) for row in J])
    shear = Shear(structure.z, UOp.stack(own, structure.z.shape), BRACKET, 1.0)
    return [shear], [d - DT * g for d, g in zip(ends.way, own)]
