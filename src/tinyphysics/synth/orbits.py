"""How is a system of bodies stepped that go almost on Kepler orbits?  Orbit, kick, orbit, ..., in Jacobi coordinates.

H = A + eps B: A is the Kepler orbit of each body about the mass within, B what they do to each other besides. Both are
done exactly, so that every product of them is symplectic, and the error has the small factor eps in all its terms
(Wisdom & Holman 1991). B depends on positions alone. An order such as (8, 4) means an error of eps h**8 + eps**2 h**4.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from tinyphysics.facts import Fact
from tinyphysics.ir import UOp
from tinyphysics.rules.jacobi import cumulated
from tinyphysics.step import Block, Frame, Orbits, Part, Shear, Step, Term
from tinyphysics.synth.derivative import derivative
from tinyphysics.system import System

Weights = tuple[tuple[float, ...], tuple[float, ...]]  # of the orbits, one more than of the kicks between them


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
        4: ([s * math.sqrt(3 / 7 + t * 2 / 7 * math.sqrt(6 / 5)) for s, t in ((-1, 1), (-1, -1), (1, -1), (1, 1))],
            [(18 - t * math.sqrt(30)) / 36 for t in (1, -1, -1, 1)]),
    }  # fmt: skip
    nodes, weights = table[stages]
    places = [-1.0, *nodes, 1.0]
    return tuple((b - a) / 2 for a, b in zip(places, places[1:])), tuple(w / 2 for w in weights)


def mirrored(a: Sequence[str], b: Sequence[str]) -> Weights:
    """A palindrome from the first halves, each coefficient rounded once; the longer half has the middle one."""
    first, second = ([float(Fraction(x)) for x in half] for half in (a, b))
    if len(a) == len(b):  # as many different orbits as kicks: a kick is in the middle
        return (*first, *reversed(first)), (*second, *reversed(second[:-1]))
    return (*first, *reversed(first[:-1])), (*second, *reversed(second))


# Blanes, Casas, Farrés, Laskar, Makazaga & Murua 2013, Appl. Numer. Math. 68, 58; Farrés, Laskar, Blanes et al. 2013,
# Celest. Mech. 116, 141. The orders (8,4), (8,6,4), (10,4), (10,6,4); a second number is that of eps**2 h**n, and so on.
SEEDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "aba84": (
        ("0.07534696026989288842", "0.51791685468825678230", "-0.09326381495814967072"),
        ("0.19022593937367661925", "0.84652407044352625706", "-1.07350001963440575260"),
    ),
    "aba864": (
        ("0.0711334264982231177779387300061549964174", "0.241153427956640098736487795326289649618",
         "0.521411761772814789212136078067994229991", "-0.333698616227678005726562603400438876027"),
        ("0.183083687472197221961703757166430291072", "0.310782859898574869507522291054262796375",
         "-0.0265646185119588006972121379164987592663", "0.0653961422823734184559721793911134363710"),
    ),
    "aba104": (
        ("0.04706710064597250612947887637243678556564", "0.1847569354170881069247376193702560968574",
         "0.2827060056798362053243616565541452479160", "-0.01453004174289681837857815229683813033908"),
        ("0.1188819173681970199453503950853885936957", "0.2410504605515015657441667865901651105675",
         "-0.2732866667053238060543113981664559460630", "0.8267085775712504407295884329818044835997"),
    ),
    "aba1064": (
        ("0.03809449742241219545697532230863756534060", "0.1452987161169137492940200726606637497442",
         "0.2076276957255412507162056113249882065158", "0.4359097036515261592231548624010651844006",
         "-0.6538612258327867093807117373907094120024"),
        ("0.09585888083707521061077150377145884776921", "0.2044461531429987806805077839164344779763",
         "0.2170703479789911017143385924306336714532", "-0.01737538195906509300561788011852699719871"),
    ),
}  # fmt: skip
NEAR_INTEGRABLE: dict[str, Weights] = {
    "wisdom_holman": gauss(1),
    "saba2": gauss(2), "saba3": gauss(3), "saba4": gauss(4),
    **{name: mirrored(a, b) for name, (a, b) in SEEDS.items()},
}  # fmt: skip


def residuals(weights: Weights, order: int) -> list[float]:
    """What is missing to an error of eps h**order: to first order in eps, kicks are a quadrature over the orbits.

    >>> max(map(abs, residuals(NEAR_INTEGRABLE["aba104"], 10))) < 1e-15
    True
    """
    orbits, kicks = ([Fraction(x) for x in part] for part in weights)
    times = [sum(orbits[: k + 1], Fraction(0)) for k in range(len(kicks))]
    return [float(sum(b * c**k for b, c in zip(kicks, times)) - Fraction(1, k + 1)) for k in range(order)]


def orbit_step(name: str, system: System, T: UOp, V: UOp, bodies: Fact, order: tuple[int, ...], weights: Weights) -> Step:
    """The step for bodies in an order; `bodies` is what analysis/hierarchy.py has found."""
    (q,), (p,) = system.q, system.p
    _, within = cumulated(bodies.masses, order)
    gm = UOp.stack([bodies.G * M for M in within])
    (slope,) = derivative(V, [q])

    def kick(weight: float) -> Block:
        return Block((Shear(p, slope, "negate", weight),))

    orbits, kicks = weights
    first = orbits[0]
    body: list[Part] = []
    for k, w in enumerate(kicks):
        last = k + 1 == len(kicks)
        body += [kick(w), Orbits(orbits[k + 1] + (first if last else 0.0))]
    return Step(
        name, system.states, system.parameters, system.time, (Term("T", T), Term("V", V)),
        ("symplectic", "consistent", "symmetric"),
        init=(Orbits(first),), body=tuple(body), final=(Orbits(-first),),
        evaluations=len(kicks), frame=Frame(q, p, bodies.masses, order, gm),
    )  # fmt: skip
