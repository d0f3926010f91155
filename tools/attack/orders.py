"""Does the error at a fixed time fall with dt as the plan says?  Slopes against SciPy's DOP853.

A slope that is too low is measured again in double-double, with steps so short that nothing but the leading term is left;
float64 and the reference round before that. The limit of those steps must be the reference's end.

A method that chooses its own steps has a tolerance instead of dt: its error falls with the number of steps that it took.
"""

from __future__ import annotations

import re

import numpy as np

import tinyphysics as tp
from attack.findings import Tally
from attack.subject import Subject, usable
from attack.truth import Unknown

SPAN = 1.2
COUNTS = (2, 4, 8, 16, 32, 64)
LEAST, MOST = (
    3e-11,
    0.03,
)  # errors between which slopes are looked at: above rounding and the reference's tolerance
BELOW = 0.5  # how far below its order a slope may lie
STEADY = 0.25  # between two slopes in a row, for a range that is asymptotic
# in double-double
SHORTER = tuple(16 * 2**k for k in range(9))  # steps
FINE = 1e-25  # differences below may be rounding
FINE_IN_FLOAT64 = 1e-12  # the same, where there is no double-double
AGREES = 1e-8  # between the limit and the reference, whose own differences leave 2e-11
# of methods that choose their own steps
OWN_SPAN = 3.0  # a step of order 8 is long
TOLERANCES = (1e-3, 1e-5, 1e-7, 1e-9, 1e-11)
OWN_BELOW = 1.0  # steps are few, and their lengths not in proportion
MORE = 1.5  # times as many steps, from which on a slope is looked at
GROWTH = 100.0  # from the errors of the steps, all added up, to the error at the end


def claimed(s: Subject) -> int | None:
    """The order that the plan states without a condition, for a system that is said to be smooth."""
    row = s.row("plan", "order")
    if not isinstance(row, dict):
        return None
    text = str(row.get("verdict", ""))
    if s.truth.system.kind in ("hamiltonian", "lagrangian") and not s.says("facts", "smooth"):
        return None
    found = re.fullmatch(r"(\d+)", text.strip())
    return int(found[1]) if found else None


def slopes_of(errors: list[float]) -> list[float]:
    """Slopes between neighbouring counts whose errors lie in the range."""
    out = []
    for a, b in zip(errors, errors[1:]):
        if LEAST < b < MOST and LEAST < a < MOST:
            out.append(float(np.log2(a / b)))
    return out


def check(s: Subject, t: Tally) -> None:
    order = claimed(s)
    if order is None or order < 1 or s.eps > 1e-12 or s.truth.size > 12 or s.is_map:
        return
    if s.row("plan", "tolerance") is not None:
        own_steps(s, order, t)
        return
    case, span = s.case, SPAN * np.sign(s.case.dt)
    low, name = [], f"order {order}"
    for salt in (20, 21):
        z = case.start(salt=salt) * 0.8
        try:
            end = s.truth.flow(z, case.t0, span)
        except Unknown:
            continue
        ends = [s.run(z, n, span / n) for n in COUNTS]
        if not usable(np.array([end, *ends])).all():
            continue
        slopes = slopes_of([float(np.abs(x - end).max()) for x in ends])
        if len(slopes) < 2 or abs(slopes[-1] - slopes[-2]) > STEADY:
            continue
        found = slopes[-1] if slopes[-1] >= order - BELOW else again(s, order, z, span, end, slopes[-1])
        low.append(found)
        if found >= order - BELOW:
            break  # one steady slope that is right is enough; a wrong one is looked at twice
    if not low:
        t.unclear["order"] += 1
        return
    t.check(
        case.seed, "order", max(low) < order - BELOW, name, f"slopes {', '.join(f'{x:.2f}' for x in low)}"
    )


def again(s: Subject, order: int, z: np.ndarray, span: float, end: np.ndarray, low: float) -> float:
    """The slope with shorter steps of the same method in double-double; the lower one where that shows nothing better.

    A method that has no form in double-double is run in float64, as long as its runs differ by more than rounding.
    """
    # other units change the rounding alone, and double-double has none
    dropped = ("order", "method", "precision", "backend", "scale")
    given = {k: v for k, v in s.options.items() if k not in dropped}
    method = s.sim.compiled.known.method
    fine = FINE
    try:
        sim = tp.compile(s.system, **given, method=method, precision="dd", backend="llvm")
    except tp.TinyPhysicsError:
        sim, fine = tp.compile(s.system, **given, method=method, backend="llvm"), FINE_IN_FLOAT64
    case, ends, slopes = s.case, [], [low]
    for n in SHORTER:
        out = sim.evolve(
            **case.given(z), **case.params, steps=n, dt=span / n, t0=case.t0, save_every=n, progress=False
        )
        words = [[np.ravel(w) for w in out.final.words(name)] for name, *_ in case.layout]
        high, rest = (np.concatenate([w[k] if k < len(w) else 0.0 * w[0] for w in words]) for k in (0, 1))
        if out.stopped or not usable(high[None]).all():
            return low
        ends.append((high, rest))
        moved = [float(np.abs((a - c) + (b - d)).max()) for (a, b), (c, d) in zip(ends, ends[1:])]
        if moved and moved[-1] < fine:
            break
        slopes = [float(np.log2(a / b)) for a, b in zip(moved, moved[1:])]
    # the last two, of the shortest steps: a small error of low order shows late
    agrees = np.abs(ends[-1][0] - end).max() <= AGREES
    return min(slopes[-2:]) if agrees and len(slopes) > 1 else low


def own_steps(s: Subject, order: int, t: Tally) -> None:
    """Of a method with a tolerance: the slope of its error over its steps, and the error beside the tolerance.

    A low slope is measured from a second start too, and the higher one counts: the error of few steps may be small by chance
    (seed 1501573).
    """
    says, slopes = f"order {order}", []
    for salt in (20, 21):
        worst, slope = slope_of_own_steps(s, salt)
        if worst:
            wrong = f"{worst:.1e} of what its steps may add up to"
            t.check(s.case.seed, "tolerance", worst > GROWTH, says, wrong)
        if slope is None:
            break
        slopes.append(slope)
        if slope >= order - OWN_BELOW:
            break
    if not slopes:
        t.unclear["order"] += 1
        return
    low = max(slopes) < order - OWN_BELOW
    t.check(s.case.seed, "order", low, says, f"slope {max(slopes):.2f} over its own steps")


def slope_of_own_steps(s: Subject, salt: int) -> tuple[float, float | None]:
    """(the error beside the tolerances at worst, its slope over the steps; None where there are too few)."""
    case, span = s.case, OWN_SPAN * np.sign(s.case.dt)
    z = case.start(salt=salt) * 0.8
    try:
        end = s.truth.flow(z, case.t0, span)
    except Unknown:
        return 0.0, None
    found, worst = [], 0.0
    for tolerance in TOLERANCES:
        sim = tp.compile(s.system, **{**s.options, "backend": "llvm", "tolerance": tolerance})
        out = sim.evolve(**case.given(z), **case.params, steps=1, dt=span, t0=case.t0, progress=False)
        last = case.flat(out)
        if out.stopped or not usable(np.array([end, last])).all():
            continue
        error, count = float(np.abs(last - end).max()), int(np.sum(out.metrics["substeps"]))
        if LEAST < error:
            worst = max(worst, error / (tolerance * count * max(1.0, float(np.abs(end).max()))))
        if LEAST < error < MOST:
            found.append((count, error))
    if len(found) < 2 or found[-1][0] < MORE * found[0][0]:
        return worst, None
    (few, first), (many, last_error) = found[0], found[-1]
    return worst, float(np.log(first / last_error) / np.log(many / few))
