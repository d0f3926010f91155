"""What is found in a system, and what is done then?  The routes that are built, as data; the first that holds is taken.

The planner takes the reason for its default from here, the docs print the table, and a golden test runs some
systems through it. A row of the second table says how the sums of a program are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyphysics.analysis.interaction import NAME as QUADRATIC_PART
from tinyphysics.analysis.phases import NAME as PHASES
from tinyphysics.facts import Facts
from tinyphysics.planner.cost.target import approximates, by_lists, in_loops
from tinyphysics.system import System
from tinyphysics.tpir.program.isa import Program


@dataclass(frozen=True)
class Route:
    """From a finding about a system to the way it is stepped."""

    name: str
    finding: str
    action: str
    effect: str
    holds: Callable[[System, Facts], bool]
    default: str = ""  # why the default method is what it is


@dataclass(frozen=True)
class RouteRequest:
    """What is done only where it was asked for, since a finding alone does not decide it."""

    name: str
    finding: str
    action: str
    effect: str


@dataclass(frozen=True)
class Form:
    """From a program to the way it is evaluated."""

    name: str
    finding: str
    action: str
    effect: str
    holds: Callable[[Program], bool]


# fmt: off
ROUTES: tuple[Route, ...] = (
    Route("map", "an explicit map", "it is run as it is written", "no method, no dt",
          lambda s, f: s.kind == "map", "an explicit map is run as it is written"),
    Route("ode", "derivatives of states", "Taylor series that choose their own steps", "nothing is certified; to rounding",
          lambda s, f: s.kind == "ode", "the default for derivatives"),
    Route("forces", "forces that depend on positions", "kicks and drifts",
          "volume-preserving; symplectic where the force is curl-free",
          lambda s, f: s.kind == "forces", "the default for forces of position"),
    Route("stiff", "an oscillator for each number of q, too fast for leapfrog at this dt, and a rest that depends on q",
          "the oscillators are solved, the rest kicks", "symplectic; omega*dt may be large, and is kept off k pi",
          lambda s, f: QUADRATIC_PART in f and bool(f[QUADRATIC_PART]), "the default where leapfrog is shown to be unstable"),
    Route("waves", "complex fields whose waves and phases turn", "waves turn in Fourier space, numbers in space, in turn",
          "symplectic, explicit; the norm is kept to rounding", lambda s, f: PHASES in f and bool(f[PHASES]),
          "the default where waves and phases turn"),
    Route("driven", "H = T(p) + V(q), t in one of them or in both",
          "kicks and drifts; time advances in the part without t, or as a third part",
          "symplectic; the full order with explicit time",
          lambda s, f: bool(f["separable"]) and bool(f["explicit time"]), "the default where H splits"),
    Route("separable", "H = T(p) + V(q)", "kicks and drifts", "symplectic, explicit",
          lambda s, f: bool(f["separable"]), "the default where H splits"),
    Route("shears", "a term mixes q and p, and every term is a shear", "the parts one after the other and back",
          "symplectic, explicit; the size of its commutators is reported after the first run",
          lambda s, f: "shears" in f and bool(f["shears"]) and not f["explicit time"],
          "the default where a term mixes q and p and all are shears"),
    Route("mixed", "a term mixes q and p", "Gauss collocation: its stages are solved in every step",
          "symplectic to the residual",
          lambda s, f: True, "the default where a term mixes q and p"),
)
REQUESTS: tuple[RouteRequest, ...] = (
    RouteRequest("paces", "parts marked as fast and slow: tp.fast(a) + tp.slow(b)",
            "slow kicks, and between them many fast ones", "symplectic; slow forces are evaluated once a step"),
    RouteRequest("corners", 'derivatives with corners, and method="dop853"', "an explicit method that chooses its own steps",
            "nothing is certified; to a tolerance"),
    RouteRequest("stiff rates", 'derivatives, some of which settle fast, and method="radau"',
            "Radau collocation that chooses its own steps",
            "not certified; motion that has settled does not shorten the steps"),
    RouteRequest("orbits", 'bodies that attract as 1/r, a state that is a hierarchy, and a method such as "aba104"',
            "Kepler orbits in Jacobi coordinates, and kicks by the rest", "symplectic; the error has the factor eps"),
    RouteRequest("jump", 'H of degree 2 at most, and propagator="exact" or "method"; "exact" by default if small or mixed',
            "one jump instead of the loop", "any number of steps at once"),
)
FORMS: tuple[Form, ...] = (
    Form("series", "Taylor series of many numbers", "loops over their coefficients, four sums of products to a vector",
         "short code for any order", lambda p: any(i.op == "SERIES" for i in p.step)),
    Form("tree", "forces of 1/r and approximate=", "a tree, its error measured where a run begins",
         "N log N; no longer symplectic", approximates),
    Form("lists", "a pair sum with a cutoff", "lists of neighbours, rebuilt when a particle has moved too far",
         "N neighbours instead of N*N; exact", by_lists),
    Form("pairs", "a sum over pairs of many", "tiles of 8 x 8 with both halves of each pair", "half of the pairs; exact",
         lambda p: in_loops(p, 1) and any(i.op == "PAIRS" for i in p.step)),
    Form("loops", "arrays with a long axis", "loop nests along the axes", "short code for any size",
         lambda p: in_loops(p, 1)),
    Form("written", "few numbers", "written out one by one; members of an ensemble fill the lanes of vectors",
         "the state stays in registers", lambda p: True),
)
# fmt: on


def route_of(system: System, facts: Facts) -> Route:
    return next(r for r in ROUTES if r.holds(system, facts))


def form_of(program: Program) -> Form:
    return next(f for f in FORMS if f.holds(program))
