"""Are energies, their drift, and "keeps the energy" what the user's own energy says along the run?"""

from __future__ import annotations

import numpy as np

from attack.findings import Tally
from attack.subject import BOUND, Subject
from attack.truth import WIDE, Truth

STEPS = 24
KEPT = 1e-10  # relative to the sizes of all terms, over the steps of a run that is said to keep the energy
FACTOR = 20.0  # between two ways to take the scale of a drift: the compiler's terms are not the user's


def sizes(truth: Truth, rows: np.ndarray, times: np.ndarray) -> float:
    """The largest sum of the sizes of the user's terms in the run; of a Lagrangian, of T and V."""
    case = truth.case
    if truth.system.kind == "lagrangian":
        return max(kinetic_and_potential(truth, z, when) for z, when in zip(rows, times))
    parts = [Truth(case.without(terms=(x,), tail="")) for x in case.terms] if case.form == "sum" else [truth]
    added = range(len(truth.system.parts))
    return max(
        sum(abs(float(part.energy(np.asarray(z, WIDE), when))) for part in parts)
        + sum(abs(float(truth.part_energy(k, z, when))) for k in added)
        for z, when in zip(rows, times)
    )


def kinetic_and_potential(truth: Truth, z: np.ndarray, when: float) -> float:
    still = np.array(z, WIDE)
    still[truth.indices("momentum")] = 0.0
    h, v = float(truth.energy(z, when)), float(truth.energy(still, when))
    return abs(v) + abs(h - v)


def check(s: Subject, t: Tally) -> None:
    case = s.case
    if s.truth.system.kind != "hamiltonian" or s.truth.size > 12 or case.options.get("propagator") == "exact":
        return
    z = case.start(salt=70)
    out = s.sim.evolve(**case.given(z), **case.params, steps=STEPS, save_every=1, t0=case.t0, progress=False)
    told = np.asarray(out.energy, float)
    times = np.asarray(out.t, float)
    rows = np.concatenate(
        [np.asarray(getattr(out, n), float).reshape(len(times), k) for n, _, k, _ in case.layout], 1
    )
    own = np.array([float(s.truth.energy(x, when)) for x, when in zip(rows, times)])
    drift = float(out.drift("energy"))
    t.shares["energies"] += 1
    if not np.isfinite(told).all() or not np.isfinite(own[np.abs(rows).max(axis=1) < BOUND]).all():
        t.check(
            case.seed,
            "drift of energies that are not finite",
            np.isfinite(drift),
            f"drift {drift:.1e}",
            "NaN",
        )
        return
    if np.abs(rows).max() > BOUND:
        t.unclear["drift"] += 1
        return
    scale = max(sizes(s.truth, rows, times), 1e-300)
    off = float(np.abs(told - own).max() / scale)
    t.check(case.seed, "energies of frames", off > 1e4 * s.eps, "out.energy", f"they differ by {off:.1e}")
    if "timed" in case.groups:
        return
    moved = float(np.abs(own - own[0]).max() / scale)
    if (
        max(moved, drift) > 1e6 * s.eps and not case.tail
    ):  # the terms of a sum of systems are not told apart here
        false = not moved / FACTOR < drift < moved * FACTOR
        t.check(case.seed, "drift", false, f"drift {drift:.1e}", f"the energy moves by {moved:.1e}")
    row = s.row("plan", "keeps")
    if isinstance(row, dict) and row.get("verdict") == "the energy" and s.precision in ("float64", "dd"):
        t.check(case.seed, "keeps the energy", moved > KEPT, row["because"], f"it moves by {moved:.1e}")
