"""What is found in a system, and what is done then?  The routes that are built, as data; the first that holds is taken.

The planner takes the reason for its default from here, the docs print the table, and a golden test runs some
systems through it. A row of the second table says how the sums of a program are evaluated.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyphysics.facts import Facts
from tinyphysics.planner.target import approximates, by_lists, in_loops
from tinyphysics.system import System
from tinyphysics.tpir.isa import Program


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
    Route("forces", "forces of positions", "kicks and drifts", "volume-preserving; symplectic where the force is curl-free",
          lambda s, f: s.kind == "forces", "the default for forces of position"),
    Route("driven", "H = T(p) + V(q), t in one of them", "kicks and drifts; time advances in the other part",
          "symplectic; the full order with explicit time",
          lambda s, f: bool(f["separable"]) and bool(f["explicit time"]), "the default where H splits"),
    Route("separable", "H = T(p) + V(q)", "kicks and drifts", "symplectic, explicit",
          lambda s, f: bool(f["separable"]), "the default where H splits"),
    Route("mixed", "a term mixes q and p", "the stages of Gauss, solved for in every step", "symplectic to the residual",
          lambda s, f: True, "the default where a term mixes q and p"),
)
FORMS: tuple[Form, ...] = (
    Form("tree", "forces of 1/r and approximate=", "a tree, its error measured where a run begins",
         "N log N; symplectic no more", approximates),
    Form("lists", "a pair sum with a cutoff", "lists of neighbours, made again when somebody has moved too far",
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

