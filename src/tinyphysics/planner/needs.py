"""Why may a method not be used for a system?  One question for each word that the catalogue uses under `needs`."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyphysics.facts import Facts
from tinyphysics.planner.catalog import Method
from tinyphysics.system import System

Reason = str | None  # why not, or None


@dataclass(frozen=True)
class Need:
    means: str
    lacking: Callable[[System, Facts], Reason]


def not_split(system: System, facts: Facts) -> Reason:
    if system.kind != "hamiltonian" or facts["separable"]:
        return None  # forces of positions alone are a kick by definition
    return f"H is not shown to be separable: {facts['separable'].because}"


def two_clocks(system: System, facts: Facts) -> Reason:
    if system.kind != "hamiltonian":
        return None
    time = facts["explicit time"]
    if time and len(time.inside) > 1:
        return "T and V both depend on t; a splitting advances time inside exactly one of them"
    return None


def is_quadratic(system: System, facts: Facts) -> bool:
    """Forces of position come with T = p**2/2m."""
    return system.kind == "forces" or "T quadratic" in facts and bool(facts["T quadratic"])


def not_quadratic(system: System, facts: Facts) -> Reason:
    if "T quadratic" not in facts or facts["T quadratic"]:
        return None  # what does not split has no T, and another need says so
    return f"T is not shown to be quadratic in p: {facts['T quadratic'].because}"


def one_pace(system: System, facts: Facts) -> Reason:
    return None if system.levels else "no part of it was said to be fast or slow: tp.fast(a) + tp.slow(b)"


def kinetic_clock(system: System, facts: Facts) -> Reason:
    if system.time is None or "separable" not in facts or not facts["separable"]:
        return None
    return "T depends on t, and time advances in the drifts" if system.time in facts["separable"].T.leaves else None


# fmt: off
NEEDS: dict[str, Need] = {
    "separable": Need("the energy is T(p) + V(q), or a force depends on positions alone", not_split),
    "one clock": Need("t occurs in T or in V, not in both",                              two_clocks),
    "quadratic T": Need("T is quadratic in p, with masses that may be parameters",          not_quadratic),
    "still T": Need("t does not occur in T",                                               kinetic_clock),
    "levels": Need("a sum of parts that are said to be fast and slow",                     one_pace),
}
# fmt: on


def objection(m: Method, system: System, facts: Facts) -> Reason:
    """Why a method does not apply, or None."""
    reasons = (NEEDS[need].lacking(system, facts) for need in m.requires)
    return next((why for why in reasons if why), None)
