"""Why may a method not be used for a system?  One question for each word that the catalogue uses under `needs`."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyphysics.analysis.apart import apart
from tinyphysics.facts import Facts
from tinyphysics.ir import Ops, toposort
from tinyphysics.planner.catalog import Method
from tinyphysics.synth.timing import in_three_parts
from tinyphysics.system import System

Reason = str | None  # why not, or None
HIERARCHY = "orbits"  # the fact that analysis/hierarchy.py gives


@dataclass(frozen=True)
class Need:
    means: str
    lacking: Callable[[Method, System, Facts], Reason]


def not_split(m: Method, system: System, facts: Facts) -> Reason:
    if system.kind != "hamiltonian" or facts["separable"]:
        return None  # forces of positions alone are a kick by definition
    return f"H is not shown to be separable: {facts['separable'].because}"


def two_clocks(m: Method, system: System, facts: Facts) -> Reason:
    if system.kind != "hamiltonian":
        return None
    time = facts["explicit time"]
    if time and len(time.inside) > 1 and not (m.sequence and in_three_parts(m.sequence(), m.processor is not None)):
        return "T and V both depend on t; then time is a third part, and only compositions of leapfrogs have three"
    return None


def is_quadratic(system: System, facts: Facts) -> bool:
    """Forces of position come with T = p**2/2m."""
    return system.kind == "forces" or "T quadratic" in facts and bool(facts["T quadratic"])


def not_quadratic(m: Method, system: System, facts: Facts) -> Reason:
    if "T quadratic" not in facts or facts["T quadratic"]:
        return None  # what does not split has no T, and another need says so
    return f"T is not shown to be quadratic in p: {facts['T quadratic'].because}"


def no_gradients(m: Method, system: System, facts: Facts) -> Reason:
    if system.kind != "hamiltonian":
        return "the gradient of a force is that of an energy, and none is given"
    if facts["separable"] and any(u.op is Ops.NEAR for u in toposort([facts["separable"].V])):
        return "a list of neighbours gives forces, not their derivatives along a direction"
    return None


def one_pace(m: Method, system: System, facts: Facts) -> Reason:
    return None if system.levels else "no part of it was said to be fast or slow: tp.fast(a) + tp.slow(b)"


def kinetic_clock(m: Method, system: System, facts: Facts) -> Reason:
    if system.time is None or "separable" not in facts or not facts["separable"]:
        return None
    return "T depends on t, and time advances in the drifts" if system.time in facts["separable"].T.leaves else None


def no_orbits(m: Method, system: System, facts: Facts) -> Reason:
    if HIERARCHY not in facts:
        return "no bodies on orbits are shown: not looked for"
    return None if facts[HIERARCHY] else f"no bodies on orbits are shown: {facts[HIERARCHY].because}"


def no_energy(m: Method, system: System, facts: Facts) -> Reason:
    return None if system.energy is not None else "it is not given by an energy"


def all_mixed(m: Method, system: System, facts: Facts) -> Reason:
    if system.energy is None:
        return None  # and another need says so
    if system.time is not None:
        return "the energy depends on t"
    found = apart(system)
    return None if found else f"no potential stands apart: {found.because}"


def splits(system: System, facts: Facts) -> bool:
    """Has it a kick and a drift?"""
    return system.kind != "hamiltonian" or bool(facts["separable"])


# fmt: off
NEEDS: dict[str, Need] = {
    "separable": Need("the energy is T(p) + V(q), or a force depends on positions alone", not_split),
    "one clock": Need("t occurs in T or in V; in both only for compositions of leapfrogs", two_clocks),
    "quadratic T": Need("T is quadratic in p, with masses that may be parameters", not_quadratic),
    "force gradients": Need("an energy without lists of neighbours: forces are differentiated once more", no_gradients),
    "still T": Need("t does not occur in T", kinetic_clock),
    "orbits": Need("bodies that attract each other as 1/r, and a state in which they go almost on Kepler orbits", no_orbits),
    "an energy": Need("a system given by its energy", no_energy),
    "a potential apart": Need("some terms of the energy hold no momenta, and none holds t", all_mixed),
    "levels": Need("a sum of parts that are said to be fast and slow", one_pace),
}
# fmt: on


def objection(m: Method, system: System, facts: Facts) -> Reason:
    """Why a method does not apply, or None."""
    reasons = (NEEDS[need].lacking(m, system, facts) for need in m.requires)
    return next((why for why in reasons if why), None)
