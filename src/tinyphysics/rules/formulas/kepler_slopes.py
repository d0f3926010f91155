"""How does a place on a Kepler orbit change with where the body was, how fast it went, and what it goes around?

Kepler's equation is r0 X + eta G2 + zeta G3 = h, with G as in kepler.py. It says how X changes with the orbit, without
a search; with beta the functions change by dGk/dbeta = (k G(k+2) - X G(k+1))/2. X and G3 are those of the whole time
here: periods that were taken off it are longer on another orbit.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tinyphysics.ir.uop import UOp
from tinyphysics.rules.digits.floats import magnitude, polynomial
from tinyphysics.rules.formulas.kepler import LARGEST, TERMS, Triple, dot, solved

C4 = [float(Fraction((-1) ** k, math.factorial(2 * k + 4))) for k in range(TERMS)]
C5 = [float(Fraction((-1) ** k, math.factorial(2 * k + 5))) for k in range(TERMS)]


def higher(beta: UOp, X: UOp, G2: UOp, G3: UOp) -> tuple[UOp, UOp]:
    """G4 and G5: by their series, or from X**2/2 = G2 + beta G4 where nothing cancels."""
    square = X * X
    z = beta * square
    small = magnitude(z) <= LARGEST
    over = 1.0 / small.where(z.lift(1.0), beta)
    near = small.where(z, z.lift(0.0))
    return (
        small.where((square * square) * polynomial(C4, near), (0.5 * square - G2) * over),
        small.where((square * square) * X * polynomial(C5, near), (square * X * (1 / 6) - G3) * over),
    )


def flow_along(
    x: Triple, v: Triple, mu: UOp, h: UOp, dx: Triple, dv: Triple, dmu: UOp
) -> tuple[list[UOp], list[UOp]]:
    """How (x, v) after a time h change along a direction of x, v and mu."""
    o, inverse, (G1, G2, G3, t) = solved(x, v, mu, h)
    periods = (h - t) / mu
    X = o.beta.fma(G3, G1) + o.beta * periods
    G3 = G3 + periods
    G0 = o.beta.fma(-G2, 1.0)
    G4, G5 = higher(o.beta, X, G2, G3)
    by_beta = 0.5 * (G3 - X * G2), G4 - 0.5 * (X * G3), 1.5 * G5 - 0.5 * (X * G4)

    dr0 = dot(x, dx) * inverse
    deta = dot(x, dv) + dot(v, dx)
    dbeta = 2.0 * (inverse * (dmu - mu * inverse * dr0) - dot(v, dv))
    dzeta = dmu - o.beta * dr0 - o.r0 * dbeta
    over = 1.0 / o.zeta.fma(G2, o.eta.fma(G1, o.r0))  # 1/r at the end
    of_beta = o.eta * by_beta[1] + o.zeta * by_beta[2]
    dX = -(dr0 * X + deta * G2 + dzeta * G3 + dbeta * of_beta) * over
    dG1, dG2, dG3 = (g * dX + b * dbeta for g, b in zip((G0, G1, G2), by_beta))
    dr = dr0 + deta * G1 + o.eta * dG1 + dzeta * G2 + o.zeta * dG2

    pull, dpull = mu * G2, dmu * G2 + mu * dG2
    f, g = -(pull * inverse), h - mu * G3
    df = (pull * inverse * dr0 - dpull) * inverse
    dg = -(dmu * G3 + mu * dG3)
    slow, slower = (mu * G1) * (inverse * over), pull * over
    turned = (slow * (dr0 * inverse + dr * over)) - (dmu * G1 + mu * dG1) * (inverse * over)
    dslower = (slower * dr - dpull) * over
    return (
        [a + f * a + g * b + df * c + dg * d for a, b, c, d in zip(dx, dv, x, v)],
        [b - slow * a - slower * b + turned * c + dslower * d for a, b, c, d in zip(dx, dv, x, v)],
    )
