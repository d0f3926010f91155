"""How is a system of bodies stepped that go almost on Kepler orbits?  Orbit, kick, orbit, ..., in Jacobi coordinates.

H = A + eps B: A is the Kepler orbit of each body about the mass within, B what they do to each other besides. Both are
done exactly, so that every product of them is symplectic, and the error has the small factor eps in all its terms
(Wisdom & Holman 1991). B depends on positions alone. An order such as (8, 4) means an error of eps h**8 + eps**2 h**4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial

from tinyphysics.facts import Fact
from tinyphysics.flows.kepler import JacobiCoordinates, KeplerFlow
from tinyphysics.flows.shears import ShearFlow, along
from tinyphysics.ir import UOp
from tinyphysics.rules.formulas.jacobi import cumulated
from tinyphysics.step import Step, SubFlow, Term
from tinyphysics.synth.coefficients.schemes import sequence
from tinyphysics.synth.methods.derivative import derivative
from tinyphysics.system import System

# of the orbits, one more than of the kicks between them
Weights = tuple[tuple[float, ...], tuple[float, ...]]


def gauss(stages: int) -> Weights:
    """Kicks at the nodes of Gauss and Legendre, by their weights: order (2 stages, 2).

    Laskar & Robutel 2001, Celest. Mech. 80, 39; McLachlan 1995.

    >>> gauss(1)
    ((0.5, 0.5), (1.0,))
    """
    table: dict[int, tuple[list[float], list[float]]] = {  # nodes in [-1, 1] and weights
        1: ([0.0], [2.0]),
        2: ([-math.sqrt(1 / 3), math.sqrt(1 / 3)], [1.0, 1.0]),
        3: ([-math.sqrt(3 / 5), 0.0, math.sqrt(3 / 5)], [5 / 9, 8 / 9, 5 / 9]),
        4: (
            [
                s * math.sqrt(3 / 7 + t * 2 / 7 * math.sqrt(6 / 5))
                for s, t in ((-1, 1), (-1, -1), (1, -1), (1, 1))
            ],
            [(18 - t * math.sqrt(30)) / 36 for t in (1, -1, -1, 1)],
        ),
    }
    nodes, weights = table[stages]
    places = [-1.0, *nodes, 1.0]
    return tuple((b - a) / 2 for a, b in zip(places, places[1:])), tuple(w / 2 for w in weights)


@cache
def solved(name: str) -> Weights:
    """Orbits and kicks of a scheme of synth/coefficients/schemes.py; a second order is that of eps**2 h**n, and so on."""
    moves = sequence(name)
    return tuple(w for move, w in moves if move == "A"), tuple(w for move, w in moves if move == "B")


NEAR_INTEGRABLE: dict[str, Callable[[], Weights]] = {
    "wisdom_holman": partial(gauss, 1),
    "saba2": partial(gauss, 2),
    "saba3": partial(gauss, 3),
    "saba4": partial(gauss, 4),
    **{name: partial(solved, name) for name in ("aba84", "aba864", "aba104", "aba1064")},
}


def residuals(weights: Weights, order: int) -> list[float]:
    """What is missing to an error of eps h**order: to first order in eps, kicks are a quadrature over the orbits.

    >>> max(map(abs, residuals(NEAR_INTEGRABLE["aba104"](), 10))) < 1e-15
    True
    """
    orbits, kicks = ([Fraction(x) for x in part] for part in weights)
    times = [sum(orbits[: k + 1], Fraction(0)) for k in range(len(kicks))]
    return [float(sum(b * c**k for b, c in zip(kicks, times)) - Fraction(1, k + 1)) for k in range(order)]


# --- correctors ------------------------------------------------------------------------------------
APART = Fraction(7, 40)  # the square of the time, in steps, between the kicks of a corrector


def leapfrog_error(terms: int) -> list[Fraction]:
    """g1, g3, ... of g(x) = (1 - f(x))/x with f(x) = (x/2)/sinh(x/2).

    To first order in eps, half an orbit, a kick and half an orbit are the flow of A + eps f(h ad_A) B; a change of
    variables by eps g(h ad_A) B takes that to A + eps B (Wisdom, Holman & Touma 1996, Fields Inst. Comm. 10, 217).

    >>> leapfrog_error(2)
    [Fraction(1, 24), Fraction(-7, 5760)]
    """
    # of (sinh x/2)/(x/2), in x**2
    half_sinh = [Fraction(1, 4**k * math.factorial(2 * k + 1)) for k in range(terms + 1)]
    f = [Fraction(1)]
    for k in range(1, terms + 1):
        f.append(-sum((half_sinh[j] * f[k - j] for j in range(1, k + 1)), Fraction(0)))
    return [-x for x in f[1:]]


def corrector_kicks(pairs: int) -> list[Fraction]:
    """c1, c2, ...: the kicks at k times sqrt(APART), each times sqrt(APART), so that they are rational.

    Kicks b before and -b after a time a k are 2 b sinh(a k x) B, and all is done twice: sum 4 b_k sinh(a k x) = g(x).

    >>> corrector_kicks(2)
    [Fraction(5, 288), Fraction(-1, 288)]
    """
    g = leapfrog_error(pairs)
    rows = [
        [Fraction(4 * k ** (2 * j + 1), math.factorial(2 * j + 1)) * APART**j for k in range(1, pairs + 1)]
        + [g[j]]
        for j in range(pairs)
    ]
    for i in range(pairs):  # Gauss and Jordan, exactly
        pivot = next(r for r in range(i, pairs) if rows[r][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for r in range(pairs):
            if r != i:
                rows[r] = [x - rows[r][i] * y for x, y in zip(rows[r], rows[i])]
    return [row[-1] for row in rows]


CORRECTORS = {3: 1, 5: 2, 7: 3, 11: 5, 17: 8}  # order: pairs of kicks


def corrector(order: int) -> tuple[list[float], list[float]]:
    """(orbits, kicks) with one orbit more, one after the other: from the user's variables to those of the loop."""
    a = math.sqrt(APART)
    parts = sorted(
        (sign * k, sign * k * a, sign * float(c) / a)
        for k, c in enumerate(corrector_kicks(CORRECTORS[order]), 1)
        for sign in (-1, 1)
    )
    orbits, kicks = [0.0], []
    for _, time, b in parts:
        orbits[-1] += time
        kicks += [-b, b]
        orbits += [-2 * time, time]
    return orbits, kicks


def orbit_step(
    name: str,
    system: System,
    T: UOp,
    V: UOp,
    bodies: Fact,
    order: tuple[int, ...],
    weights: Weights,
    corrected: int = 0,
) -> Step:
    """The step for bodies in an order; `bodies` is what analysis/hierarchy.py has found.

    `corrected` is the order of a corrector, in `init`, and the other way in `final`; 0 is none.
    """
    (q,), (p,) = system.q, system.p
    _, within = cumulated(bodies.masses, order)
    gm = UOp.stack([bodies.G * M for M in within])
    moves = system.structure.flow(dict(zip([q], derivative(V, [q]))))

    coordinates = JacobiCoordinates(q, p, bodies.masses, order, gm)

    def kick(weight: float) -> SubFlow:
        return ShearFlow(along(moves, weight))

    def orbit(weight: float) -> SubFlow:
        return KeplerFlow(weight, coordinates)

    orbits, kicks = weights
    first = orbits[0]
    body: list[SubFlow] = []
    for k, w in enumerate(kicks):
        last = k + 1 == len(kicks)
        body += [kick(w), orbit(orbits[k + 1] + (first if last else 0.0))]
    init: list[SubFlow] = [orbit(first)]
    final: list[SubFlow] = [orbit(-first)]
    if corrected:
        times, by = corrector(corrected)
        there = [*times[:-1], times[-1] + first]
        # a first kick of nothing, so that all stages are alike
        init = [x for a, b in zip(there, [0.0, *by]) for x in (kick(b), orbit(a))]
        final = [x for a, b in zip(reversed(there), [0.0, *reversed(by)]) for x in (kick(-b), orbit(-a))]
    terms, claims = (Term("T", T), Term("V", V)), ("symplectic", "consistent", "symmetric")
    flows = map(tuple, (init, body, final))
    return Step.of(system, name, terms, claims, len(kicks), *flows, coordinates=coordinates)
