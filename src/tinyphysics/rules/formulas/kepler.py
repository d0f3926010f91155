"""Where is a body on its Kepler orbit after a time h?  The exact flow of v**2/2 - mu/r, for orbits of every kind.

In the universal variable X, dX = dt/r, Kepler's equation is r0 X + eta G2 + zeta G3 = h with eta = x.v,
beta = 2 mu/r0 - v**2, zeta = mu - beta r0 and Gk = X**k ck(beta X**2), ck the functions of Stumpff; ellipse, parabola and
hyperbola are one formula (Stiefel & Scheifele 1971). What is added to x and v is computed, not what they become: so the
state is rounded once a step, to nearest, and its error has no direction (Rein & Tamayo 2015, MNRAS 452, 376).

A step that is a small part of an orbit has a fast path: a series in h, then a correction of fourth order and one of third.
Whether they have arrived is seen by the second; where not, whole periods are taken off h and the root is enclosed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.digits.floats import magnitude, polynomial

Triple = tuple[UOp, UOp, UOp]

TERMS = 9
LARGEST = 1.25  # |beta X**2| up to which so many terms are enough: the next one is below 2**-58 of the first
C2 = [Fraction((-1) ** k, math.factorial(2 * k + 2)) for k in range(TERMS)]
C3 = [Fraction((-1) ** k, math.factorial(2 * k + 3)) for k in range(TERMS)]
ROUGH = 6  # terms before the last correction
# a correction that is this part of X leaves nothing: its third power is far below the rounding
ARRIVED = 2.0**-20
QUARTERS = 5  # of the argument, on the slow path: 4**5 * LARGEST is a hyperbola seen from e**35 away
ROUNDS = 9  # on the slow path; seven were enough for 200,000 orbits, e from 0 to 11, h from 1e-3 to 1e4 (r = mu = 1)


@dataclass(frozen=True, eq=False)
class Orbit:
    """What Kepler's equation needs to know."""

    mu: UOp
    r0: UOp
    eta: UOp
    beta: UOp
    zeta: UOp
    v2: UOp

    def time(self, X: UOp, G: Sequence[UOp], h: UOp) -> UOp:
        """By how much the time at X is beyond h."""
        return self.zeta.fma(G[3], self.eta.fma(G[2], self.r0.fma(X, -h)))

    def radius(self, G: Sequence[UOp]) -> UOp:
        """dt/dX."""
        return self.zeta.fma(G[2], self.eta.fma(G[1], self.r0))


def dot(a: Triple, b: Triple) -> UOp:
    return a[2].fma(b[2], a[1].fma(b[1], a[0] * b[0]))


def orbit(x: Triple, v: Triple, mu: UOp) -> tuple[Orbit, UOp]:
    """The orbit through a point, and 1/r0."""
    r0 = dot(x, x).sqrt()
    inverse, v2 = 1.0 / r0, dot(v, v)
    beta = (2.0 * mu).fma(inverse, -v2)
    return Orbit(mu, r0, dot(x, v), beta, beta.fma(-r0, mu), v2), inverse


# --- the functions G -------------------------------------------------------------------------------
def unbiased(c: Sequence[Fraction], z: UOp) -> UOp:
    """The sum of c[k] z**k, the first two coefficients to twice the precision.

    1/6 as a float is too small by 2**-56: that is little, but the same at every step, and the energy would drift by it.
    """
    rest = polynomial([float(x) for x in c[2:]], z)
    for k in (1, 0):
        low = float(c[k] - Fraction(float(c[k])))
        rest = z.fma(rest, low) + float(c[k]) if low else z.fma(rest, float(c[k]))
    return rest


def from_c(beta: UOp, X: UOp, c2: UOp, c3: UOp) -> list[UOp]:
    square = X * X
    g2, g3 = square * c2, (square * X) * c3
    return [beta.fma(-g2, 1.0), beta.fma(-g3, X), g2, g3]


def series(beta: UOp, X: UOp) -> list[UOp]:
    """G0 to G3 for small arguments."""
    z = beta * (X * X)
    return from_c(beta, X, unbiased(C2, z), unbiased(C3, z))


def rough(beta: UOp, X: UOp) -> list[UOp]:
    """The same to 1e-11: what comes before a last correction need not be better."""
    z = beta * (X * X)
    c2, c3 = (polynomial([float(x) for x in c[:ROUGH]], z) for c in (C2, C3))
    return from_c(beta, X, c2, c3)


def quartered(beta: UOp, X: UOp) -> list[UOp]:
    """G0 to G3 from those of a quarter of the argument, and so on."""
    z = (beta * (X * X)) * 4.0**-QUARTERS
    c2, c3 = unbiased(C2, z), unbiased(C3, z)
    for _ in range(QUARTERS):
        c0, c1 = z.fma(-c2, 1.0), z.fma(-c3, 1.0)
        c3 = c0.fma(c3, c2) * 0.25
        c2 = (c1 * c1) * 0.5
        z = z * 4.0
    return from_c(beta, X, c2, c3)


def moved(beta: UOp, G: Sequence[UOp], d: UOp) -> list[UOp]:
    """G1 to G3 at X + d for a d that is very small: two terms of their series."""
    half = 0.5 * (d * d)
    return [
        G[1] + d.fma(G[0], half * (beta * -G[1])),
        G[2] + d.fma(G[1], half * G[0]),
        G[3] + d.fma(G[2], half * G[1]),
    ]


# --- solving ---------------------------------------------------------------------------------------
def correction(o: Orbit, X: UOp, G: Sequence[UOp], h: UOp) -> UOp:
    """To the root of the first four terms of the series about X, itself to fourth order."""
    r = o.radius(G)
    over = 1.0 / r
    a = (0.5 * over) * o.zeta.fma(G[1], o.eta * G[0])
    b = (over * (1 / 6)) * o.zeta.fma(G[0], (o.beta * -o.eta) * G[1])
    d = -o.time(X, G, h) * over
    cubic = (2.0 * a).fma(a, -b)
    return (d * d).fma(d.fma(cubic, -a), d)


def last_correction(o: Orbit, X: UOp, G: Sequence[UOp], h: UOp) -> UOp:
    """The same to third order, where it is very small."""
    over = 1.0 / o.radius(G)
    a = (0.5 * over) * o.zeta.fma(G[1], o.eta * G[0])
    d = -o.time(X, G, h) * over
    return d.fma(d * -a, d)


def guess(o: Orbit, inverse: UOp, h: UOp) -> UOp:
    """The series of X in h to fourth order: h/r0 - a u**2 + ..., Kepler's equation inverted."""
    u = h * inverse
    a = (0.5 * u) * (o.eta * inverse)
    b = (u * u) * (o.zeta * inverse) * (1 / 6)
    c = (u * u) * (u * (o.beta * (-1 / 24))) * (o.eta * inverse)
    third = (2.0 * a).fma(a, -b)
    fourth = (5.0 * a).fma(b - a * a, -c)
    return u * (((third + fourth) - a) + 1.0)


def near(o: Orbit, inverse: UOp, h: UOp) -> tuple[list[UOp], UOp]:
    """(G1, G2, G3, h), and where they must not be used."""
    X = guess(o, inverse, h)
    X = X + correction(o, X, rough(o.beta, X), h)
    G = series(o.beta, X)
    d = last_correction(o, X, G, h)
    z = magnitude(o.beta * (X * X))
    # not so where one of them is no number
    arrived = (magnitude(d) <= magnitude(X) * ARRIVED) & (z <= LARGEST)
    return [*moved(o.beta, G, d), h], UOp(Ops.NOT, arrived.dtype, arrived.shape, (arrived,))


def far(known: Sequence[UOp]) -> list[UOp]:
    """The same for any h; NaN where even this has not arrived."""
    *of_orbit, h = known
    o = Orbit(*of_orbit)
    zero = h.lift(0.0)
    bound = zero < o.beta
    w = magnitude(o.beta).sqrt()
    period = bound.where((2 * math.pi) * o.mu / (w * o.beta), zero.lift(math.inf))
    turns = bound.where((h / period).rint(), zero)
    h = bound.where(turns.fma(-period, h), h)
    back = h < 0.0
    t, eta = magnitude(h), back.where(-o.eta, o.eta)
    forth = replace(o, eta=eta)
    pull = (o.zeta * o.zeta + o.beta * (eta * eta)).maximum(1e-300).sqrt()  # mu times the eccentricity
    closest = (o.r0 * o.r0 * o.v2 - eta * eta).maximum(0.0) / (o.mu + pull)
    # r >= closest + c X**2, X from the pericentre, bounds the time from below: t >= closest X and t >= c X**3/12
    low = zero
    high = (t / closest).minimum((bound.where((6 * math.pi**2) * t / pull, 24.0 * t / o.mu)).cbrt())
    high = high.minimum(bound.where(zero.lift(2 * math.pi), zero.lift(35.0)) / w)
    open_ = (2.0 * t * (w * w) / (eta + o.zeta / w)).log1p() / w
    X = bound.where(o.beta * t / o.mu, open_)
    X = (X <= high).where(X, high)  # a parabola's is not a number
    for _ in range(ROUNDS):  # Laguerre's method, within what encloses the root
        G = quartered(o.beta, X)
        f, r = forth.time(X, G, t), forth.radius(G)
        less = f < 0.0
        low, high = less.where(X, low), less.where(high, X)
        bend = o.zeta.fma(G[1], eta * G[0])
        root = magnitude(r.fma(16.0 * r, (-20.0 * f) * bend)).sqrt()
        new = X - (5.0 * f) / (r + root)
        X = ((low <= new) & (new <= high)).where(new, 0.5 * (low + high))
    G = quartered(o.beta, X)
    d = last_correction(forth, X, G, t)
    arrived = magnitude(d) <= magnitude(X) * ARRIVED
    g1, g2, g3 = (arrived.where(g, zero.lift(math.nan)) for g in moved(o.beta, G, d))
    return [back.where(-g1, g1), g2, back.where(-g3, g3), h]


def solved(x: Triple, v: Triple, mu: UOp, h: UOp) -> tuple[Orbit, UOp, list[UOp]]:
    """(the orbit, 1/r0, (G1, G2, G3, the time without whole periods)) after a time h."""
    o, inverse = orbit(x, v, mu)
    fast, lost = near(o, inverse, h)
    known = (o.mu, o.r0, o.eta, o.beta, o.zeta, o.v2, h)
    slow = [UOp(Ops.KEPLER_SLOW, h.dtype, h.shape, known, k) for k in range(4)]
    return o, inverse, [UOp(Ops.WHERE_RARELY, a.dtype, a.shape, (lost, b, a)) for a, b in zip(fast, slow)]


def flow(x: Triple, v: Triple, mu: UOp, h: UOp) -> tuple[list[UOp], list[UOp]]:
    """(x, v) after a time h: three components each, bodies along whatever axes they have."""
    o, inverse, (G1, G2, G3, t) = solved(x, v, mu, h)
    over = 1.0 / o.zeta.fma(G2, o.eta.fma(G1, o.r0))
    pull = mu * G2
    f, g = -(pull * inverse), mu.fma(-G3, t)
    df, dg = -((mu * G1) * inverse) * over, -(pull * over)
    return (
        [a + f.fma(a, g * b) for a, b in zip(x, v)],
        [b + df.fma(a, dg * b) for a, b in zip(x, v)],
    )
