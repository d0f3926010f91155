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

SPAN = 2.0
FACTOR = 2.0  # by how much an estimate may be too small
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
        energies = frames(case, truth, out)
        if not np.isfinite(energies).all():
            found, false = "an energy is not finite", True
        else:
            scale = max(np.abs(energies).max(), float(size_of(case, truth, out)))
            drift = float(np.abs(energies - energies[0]).max() / scale)
            found, false = f"energy drift {drift:.1e}", drift > FACTOR * goals["energy_drift"]
        t.check(case.seed, "goal energy_drift", false, f"met: {said['energy_drift']}", found)
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


def frames(case: Case, truth: Truth, out: Any) -> np.ndarray:
    """The user's energy of each frame."""
    return np.array([float(truth.energy(z, when)) for z, when in zip(rows(case, out), np.asarray(out.t))])


def rows(case: Case, out: Any) -> np.ndarray:
    parts = [np.asarray(getattr(out, name), float).reshape(len(out.t), n) for name, _, n, _ in case.layout]
    return np.concatenate(parts, 1)


def size_of(case: Case, truth: Truth, out: Any) -> float:
    """Half the largest kinetic energy and |H|: no larger than the sum of the sizes of all terms."""
    worst = 0.0
    for z, when in zip(rows(case, out), np.asarray(out.t)):
        still = z.copy()
        still[truth.indices("momentum")] = 0.0
        h, v = float(truth.energy(z, when)), float(truth.energy(still, when))
        worst = max(worst, abs(v) + abs(h - v))
    return worst
