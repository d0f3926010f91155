"""Are gradients those of the steps that run?  Differences of fourth order of the same run in double-double.

Where a method has no double-double, differences in float64 with long steps: they show six digits less.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import tinyphysics as tp
from attack import other_gradients
from attack.certificates import STENCIL
from attack.findings import Tally
from attack.subject import BOUND, Subject
from attack.truth import WIDE
from tinyphysics.runtime.measure.along_own_steps import walked
from tinyphysics.runtime.measure.differentiate import prepared
from tinyphysics.runtime.stages.resolve import Request

STEPS = 12
LARGEST = 1e6  # derivatives beyond are not judged
STEEP = 1e2  # gradients beyond are not judged
SHORT = 1e-3  # of the longest step: a pass of a pole, where rounding itself is amplified
# methods that choose their own steps, with tolerances that some hundred of these meet
OWN = {
    "taylor": 1e-9,
    "dop853": 1e-9,
    "dopri5": 1e-6,
    "radau": 1e-6,
    "rodas": 1e-5,
    "rkc": 1e-3,
    "rock4": 1e-5,
}
PASTS = ("auto", "auto", "store", "checkpoint", "reverse")


def loss(names: list[str], w: dict[str, np.ndarray]) -> Any:
    """A sum of squares and products of the last state, as a function that is traced."""

    def of(out: Any) -> Any:
        total = 0.0
        for name in names:
            x = out.final[name] * w[name]
            total = total + (x * x).sum() / 2 + x.sum() if np.ndim(w[name]) else total + x * x / 2 + x
        return total

    return of


def by_words(out: Any, names: list[str], w: dict[str, np.ndarray], members: int) -> np.ndarray:
    """The same of every member, from all words of its last state."""
    total = np.zeros(members, WIDE)
    for name in names:
        words = [np.asarray(x, WIDE) for x in out.final.words(name)]
        x = sum(words[1:], words[0]) * w[name]
        x = x.reshape(members, -1)
        total = total + (x * x).sum(-1) / 2 + x.sum(-1)
    return total


def check(s: Subject, t: Tally) -> None:
    case = s.case
    rng = random.Random(f"slopes {case.seed}")
    names = [name for name, *_ in case.layout]
    z = case.start(salt=66) * 0.7
    given = {**case.given(z), **case.params, "t0": case.t0}
    weights = np.random.default_rng([case.seed, 67])
    w = {name: np.asarray(weights.uniform(-1, 1, shape)) for name, shape, *_ in case.layout}
    past = rng.choice(PASTS)
    f = loss(names, w)
    own = own_steps(s, rng)
    if own is not None:
        at_own_steps(s, own, f, given, rng, t)
        return
    length = length_of(s, rng)
    free = {k: np.array(v, float) for k, v in given.items() if k != "t0"}
    _, grads = s.sim.value_and_grad(f, **given, **length, past=past)
    t.shares["slopes"] += 1
    plain = s.sim.evolve(**given, **length, progress=False)
    if plain.stopped is not None or not np.abs(case.flat(plain)).max() < BOUND:
        t.unclear["slopes"] += 1
        return
    # the jump of a deleted loop is another map than the loop that double-double has; and how many fast kicks a step has
    # is measured where the first run of a simulation begins
    wide = grads.report.past != "jump" and "paces" not in plain.metrics
    own = s.sim if "paces" in plain.metrics else s.compiled
    own, wide = in_double_double(s, own, wide)
    true, off, exact = differences(s, own, free, names, w, wide, length)
    mine = np.concatenate([np.ravel(np.asarray(grads[name], float)) for name in free])
    size = max(1.0, float(np.abs(true).max()))
    if not np.isfinite(true).all() or size > LARGEST or not off < (1e-9 if exact else 1e-6) * size:
        t.unclear["slopes"] += 1  # a kink, or numbers that are too large
        return
    close = (1e-8 if exact else 1e-5) if s.eps < 1e-12 else 2e-2
    wrong = float(np.abs(mine - true).max()) / size
    where = list(free)
    t.check(
        case.seed,
        "slopes" if exact else "slopes in float64",
        not wrong < close,
        f"the gradient by {where}, past = {past} ({grads.report.past})",
        f"differences are off by {wrong:.1e} of {size:.2g}",
    )
    tangents(s, given, free, mine, names, w, plain, length, t)
    if "paces" not in plain.metrics:
        asked = other_gradients.Asked(s, f, given, length, mine, t)
        other_gradients.check(asked, grads.report.past, own, wide, names, w, by_words)


def length_of(s: Subject, rng: random.Random) -> dict[str, Any]:
    """Whole steps, or an end between two."""
    if s.is_map or s.precision == "lattice" or rng.random() < 0.7:
        return {"steps": STEPS}
    return {"until": s.case.t0 + (STEPS - rng.uniform(0.1, 0.9)) * s.case.dt}


def own_steps(s: Subject, rng: random.Random) -> Any:
    """The simulation, if its method chooses its own steps; of some others one that does, of the same system."""
    if s.sim.compiled.adaptive:
        return s.sim
    small = sum(n for _, _, n, _ in s.case.layout) <= 6
    if s.is_map or not small or s.precision != "float64" or rng.random() < 0.8:
        return None
    method = rng.choice(list(OWN))
    tolerance = OWN[method] * rng.choice([1.0, 10.0, 30.0])
    try:
        return tp.compile(s.system, dt=s.case.dt, backend="llvm", method=method, tolerance=tolerance)
    except tp.TinyPhysicsError:
        return None


def at_own_steps(s: Subject, sim: Any, f: Any, given: dict[str, Any], rng: random.Random, t: Tally) -> None:
    """Differences of other runs have other steps; gradcheck takes them at those that ran."""
    length = {"until": s.case.t0 + STEPS * abs(s.case.dt) * rng.uniform(0.3, 1.0)}
    given = {**given, "dt": abs(s.case.dt)}
    t.shares["slopes"] += 1
    plain = sim.evolve(**given, **length, progress=False)
    rough = {"kink", "jump", "wild"} & set(s.case.groups)
    if plain.stopped is not None or not np.abs(s.case.flat(plain)).max() < BOUND or rough:
        t.unclear["slopes"] += 1
        return
    largest = max(float(np.abs(v).max(initial=0.0)) for v in sim.grad(f, **given, **length).values())
    if not largest < STEEP or shortest(sim, given, length) < SHORT:
        t.unclear["slopes"] += 1
        return
    try:
        told = str(found := sim.gradcheck(f, **given, **length))
        if found.differences is None:
            t.unclear["slopes"] += 1
    except tp.VerifyError as error:
        told = error.what
    says = f"a gradient at the steps of {sim.compiled.known.method}"
    t.check(s.case.seed, "slopes at own steps", "FAILED" in told, says, told)


def shortest(sim: Any, given: dict[str, Any], length: dict[str, Any]) -> float:
    """The shortest step of a run, as a part of its longest."""
    own = {k: v for k, v in given.items() if k != "t0"}
    course, _, _ = prepared(sim, Request(given=own, t0=given["t0"], **length), [], "grad")
    steps = [float(row.length[0]) for row in walked(course, [course.last]).rows or () if row.length[0] > 0]
    return min(steps, default=1.0) / max(steps, default=1.0)


def tangents(
    s: Subject,
    given: dict[str, Any],
    free: dict[str, np.ndarray],
    mine: np.ndarray,
    names: list[str],
    w: dict[str, np.ndarray],
    plain: Any,
    length: dict[str, Any],
    t: Tally,
) -> None:
    """A tangent along all of them, against the gradient: two programs."""
    draw = np.random.default_rng([s.case.seed, 68])
    v = {name: draw.normal(size=x.shape) for name, x in free.items()}
    try:
        moved = s.sim.jvp(v, **given, **length)
    except tp.TinyPhysicsError as error:
        t.refused[f"tangents: {type(error).__name__}"] += 1
        return
    along = 0.0
    for name in names:
        x = np.asarray(plain.final[name], float) * w[name]
        along += float(((x + 1.0) * w[name] * np.asarray(moved[name], float)).sum())
    other = float(mine @ np.concatenate([np.ravel(v[name]) for name in free]))
    size = float(np.abs(mine) @ np.abs(np.concatenate([np.ravel(v[name]) for name in free]))) + 1.0
    close = 1e-11 if s.eps < 1e-12 else 2e-2
    t.check(
        s.case.seed,
        "tangents",
        not abs(along - other) < close * size,
        "a tangent, and a cotangent of the same run",
        f"they differ by {abs(along - other) / size:.1e}",
    )


def in_double_double(s: Subject, sim: Any, wide: bool) -> tuple[Any, bool]:
    """(what differences are taken of, is it in double-double?)."""
    if wide and s.precision in ("float64", "lattice", "dd"):
        try:
            return tp.compile(s.system, **{**s.options, "precision": "dd", "backend": "llvm"}), True
        except tp.TinyPhysicsError:
            pass
    return sim, False


def differences(
    s: Subject,
    sim: Any,
    free: dict[str, np.ndarray],
    names: list[str],
    w: dict[str, np.ndarray],
    exact: bool,
    length: dict[str, Any],
) -> tuple[np.ndarray, float, bool]:
    """(the gradient, how far two steps are apart, was it in double-double?)."""
    found = [slopes(s, sim, free, names, w, h, length) for h in ((2e-5, 1e-5) if exact else (4e-3, 2e-3))]
    return found[1], float(np.abs(found[1] - found[0]).max()), exact


def slopes(
    s: Subject,
    sim: Any,
    free: dict[str, np.ndarray],
    names: list[str],
    w: dict[str, np.ndarray],
    h: float,
    length: dict[str, Any],
) -> np.ndarray:
    flat = np.concatenate([np.ravel(x) for x in free.values()])
    rows = np.array([flat + k * h * e for e in np.eye(len(flat)) for k, _ in STENCIL])
    true_h = np.array([[rows[len(STENCIL) * j + i, j] - flat[j] for i in range(4)] for j in range(len(flat))])
    given, at = {}, 0
    for name, x in free.items():
        given[name] = rows[:, at : at + x.size].reshape(len(rows), *x.shape)
        at += x.size
    out = sim.evolve(**given, **length, t0=s.case.t0, progress=False, frames=2)
    if out.stops:
        return np.full(len(flat), np.nan)
    values = by_words(out, names, w, len(rows)).reshape(len(flat), len(STENCIL))
    # the steps as they are after rounding: exact in binary but for the last bit of flat + k h
    c = np.array([c for _, c in STENCIL], WIDE)
    shift = np.array([k for k, _ in STENCIL], WIDE)
    mean = (true_h.astype(WIDE) / shift).mean(1)
    return np.asarray((values @ c) / mean, float)
