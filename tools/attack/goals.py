"""Is a goal that is said to be met really met?  The run beside SciPy's DOP853 and the user's own energy."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import tinyphysics as tp
from attack.case import Case
from attack.findings import Tally
from attack.subject import built
from attack.truth import Truth, Unknown
from attack.watched import sizes

SPAN = 2.0
FACTOR = 2.0  # by how much an estimate may be too small
SCALES = 20.0  # between two ways to take the scale of a drift: the compiler's terms are not the user's
MOST_FRAMES = 300  # at which the user's energy is evaluated
KINDS = ("separable", "timed", "mixed", "quadratic", "lagrangian", "sum", "several", "operation", "chain")


def asked(case: Case) -> dict[str, Any]:
    """The goals of a case, instead of its method and step."""
    rng = random.Random(f"goals {case.seed}")
    out: dict[str, Any] = {"error": rng.choice([1e-2, 1e-3, 1e-4, 1e-5, 1e-6])}
    if rng.random() < 0.5 and "timed" not in case.groups:
        out["energy_drift"] = rng.choice([1e-3, 1e-5, 1e-7])
        if rng.random() < 0.4:
            del out["error"]
    if rng.random() < 0.3:
        out["dt"] = rng.choice([0.2, 0.05])
    return out


def check(case: Case, t: Tally) -> None:
    if case.kind not in KINDS or sum(n for _, _, n, _ in case.layout) > 12:
        return
    goals, truth, z = asked(case), Truth(case), case.start(salt=30) * 0.8
    t.shares["goals"] += 1
    sim = tp.compile(built(case), **goals)
    out = sim.evolve(
        **case.given(z), **case.params, until=case.t0 + SPAN, t0=case.t0, progress=False, save_every=1
    )
    said = out.metrics.get("goals", {})
    if not said.get("met") or out.stopped:
        t.refused["goal not met"] += 1
        return
    if "energy_drift" in goals:
        energy_drift(case, truth, out, float(goals["energy_drift"]), said["energy_drift"], t)
    if "error" not in said:
        return
    try:
        end = truth.flow(z, case.t0, SPAN)
    except Unknown:
        t.unclear["goal error"] += 1
        return
    limit = float(said["error"]["asked"])
    worst, at = 0.0, 0
    final = case.flat(out)
    for name, _, n, _ in case.layout:
        seen = np.abs(np.asarray(getattr(out, name), float)).max()
        worst = max(worst, float(np.abs(final[at : at + n] - end[at : at + n]).max() / max(seen, 1e-300)))
        at += n
    t.check(
        case.seed, "goal error", worst > FACTOR * limit, f"met: {said['error']}", f"the error is {worst:.1e}"
    )
    if (
        (row := getattr(sim, "certificate", None)) is not None
        and not row.consistent
        and "symplectic" in sim.explain("full").to_dict().get("certificate", {})
    ):
        t.shares["goal met, not shown consistent"] += 1


def energy_drift(case: Case, truth: Truth, out: Any, asked: float, said: Any, t: Tally) -> None:
    """The user's own energy over the scale that is told; and is that the sum of the sizes of the user's terms?"""
    out.drift("energy")
    told = float(out.metrics["drift"]["scale"])
    states, times = looked_at(case, out)
    energies = np.array([float(truth.energy(z, when)) for z, when in zip(states, times)])
    if not np.isfinite(energies).all():
        t.check(case.seed, "goal energy_drift", True, f"met: {said}", "an energy is not finite")
        return
    drift = float(np.abs(energies - energies[0]).max() / told)
    found = f"energy drift {drift:.1e} of {told:.3g}"
    t.check(case.seed, "goal energy_drift", drift > FACTOR * asked, f"met: {said}", found)
    own = sizes(truth, states, times)
    cancels = truth.system.kind == "lagrangian"  # T and V, whose terms are not told apart here
    off = not own / SCALES < told < (np.inf if cancels else own * SCALES)
    t.check(case.seed, "scale of a drift", off, f"relative to {told:.3g}", f"the terms have {own:.3g}")


def looked_at(case: Case, out: Any) -> tuple[np.ndarray, np.ndarray]:
    """(states, times) of some hundred frames: at even distances, and where the told energy is furthest from the first."""
    times, told = np.asarray(out.t, float), np.asarray(out.energy, float)
    parts = [np.asarray(getattr(out, name), float).reshape(len(times), n) for name, _, n, _ in case.layout]
    at = np.linspace(0, len(times) - 1, min(len(times), MOST_FRAMES)).round().astype(int)
    at = np.unique([*at, np.nanargmax(told), np.nanargmin(told)])
    return np.concatenate(parts, 1)[at], times[at]
