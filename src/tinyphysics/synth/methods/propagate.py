"""How are n steps done at once?  As the flow of an energy of degree 2 or of free bodies, or as the power of a splitting."""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.facts import Fact
from tinyphysics.flows.propagator import FreeBodyPropagator, LinearPropagator
from tinyphysics.rules.formulas.friction import dissipation
from tinyphysics.step import Claims, Step, Term
from tinyphysics.system import System

FLOW = "exact_flow"
Parts = tuple[tuple[int, float], ...]  # (number of the term, weight)


def flow_step(system: System, split: Fact) -> Step:
    """exp(n dt J H''), of the terms of H as they split, or of H as it is."""
    assert system.energy is not None
    terms = (Term("T", split.T), Term("V", split.V)) if split else (Term("H", system.energy),)
    if system.friction:
        terms = (*terms, Term("F", dissipation(system.p, system.friction)))
    parts = tuple((k, 1.0) for k in range(len(terms)))
    if system.friction:
        return jump(FLOW, system, terms, system.structure.claims, "damped", parts)
    claims = ("symplectic", "consistent", "symmetric")
    return jump(FLOW, system, terms, claims, "flow", parts)


def bodies_step(system: System) -> Step:
    """Free rigid bodies, at any time."""
    assert system.energy is not None
    claims = ("poisson", "casimirs", "symmetric", "reversible", "consistent")
    all_ = FreeBodyPropagator(system.structure, system.energy)
    return Step.of(system, FLOW, (Term("H", system.energy),), claims, 0, final=(all_,))


def power_step(
    name: str, system: System, split: Fact, sequence: Sequence[tuple[str, float]], symmetric: bool
) -> Step:
    """The n-th power of the kicks and drifts of a splitting, in their order."""
    terms = (Term("T", split.T), Term("V", split.V))
    parts = tuple(("TV".index(part), weight) for part, weight in sequence)
    claims = ("symplectic", "consistent", "symmetric") if symmetric else ("symplectic", "consistent")
    return jump(name, system, terms, claims, "power", parts)


def jump(name: str, system: System, terms: tuple[Term, ...], claims: Claims, way: str, parts: Parts) -> Step:
    all_ = LinearPropagator(way, parts, tuple(system.pairs), tuple(t.energy for t in terms))
    return Step.of(system, name, terms, claims, 0, final=(all_,))
