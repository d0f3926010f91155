"""Is a gradient right?  Three opinions at the user's own inputs: tangents, differences in double-double, every past.

Cotangents and tangents are computed by programs of their own, so that <w, M v> = <M^T w, v> would show an error of either.
Differences are taken of runs of the same method in 106 bits, extrapolated from two steps; they know nothing of derivatives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, PlanError, TinyPhysicsError, VerifyError
from tinyphysics.given import number
from tinyphysics.physics.draws import normal
from tinyphysics.runtime.measure.act_past import ActPast
from tinyphysics.runtime.measure.along_own_steps import moved_starts
from tinyphysics.runtime.measure.cotangent_words import rounding_of
from tinyphysics.runtime.measure.differentiate import looked_at, prepared, value_and_grad, vjp
from tinyphysics.runtime.measure.forward_mode import pushed
from tinyphysics.runtime.measure.gradients import Gradients, Readings, value_of
from tinyphysics.runtime.measure.jump_gradients import look
from tinyphysics.runtime.measure.loss_function import FINAL, FRAMES, TIMES, traced_loss
from tinyphysics.runtime.measure.velocities import in_momenta
from tinyphysics.runtime.stages.constraints import anywhere
from tinyphysics.runtime.stages.momenta_of_velocities import with_momenta
from tinyphysics.runtime.stages.resolve import Request
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.from_frame import opened

H = (
    2.0**-15
)  # the first step of differences, relative to the size of a number; what is left is of fourth order
DUAL, ALIKE = 1e-10, 1e-9  # how far two exact derivatives may be apart: rounding, as cotangents grow
ROUNDINGS = 2.0**11  # of forces, which they may be apart where those are float32
STREAM = 0x6AD1
MET = "met"
STEP = "dt"
LOSSES = 64  # roundings of a loss, that differences may show
FINER, FINEST = 2.0**-8, 2.0**-31  # by which steps get shorter where a run is far from straight along them
AGREE = 0.25  # of their distance from a gradient: two lengths of steps whose differences are as near see it as wrong
STRAIGHT = 1e-3  # how far the change in two steps may be from twice that in one: its square is left


@dataclass(frozen=True)
class GradCheck:
    """How far several ways to a gradient are apart, relative to its size along the direction that was tried."""

    duality: float | None  # <w, M v> against <M^T w, v>; None where tangents are not known
    differences: (
        float | None
    )  # against central differences; None where these say nothing: the run bends within any step
    in_double_double: bool  # or in the precision of the run, where that has no double-double
    pasts: Mapping[str, float]  # against the past that was chosen
    tolerance: float
    rounding: float = 2.0**-53  # of the forces
    met: str = ""  # of walls and events: where runs next to this one meet another number of them

    @property
    def passed(self) -> bool:
        least = ROUNDINGS * self.rounding
        dual = self.duality is None or self.duality <= max(DUAL, least)
        alike = all(v <= max(ALIKE, least) for v in self.pasts.values())
        if self.differences is None:
            return dual and alike and self.duality is not None
        return dual and alike and self.differences <= max(self.tolerance, least)

    def __str__(self) -> str:
        dual = "not known" if self.duality is None else f"{self.duality:.1e}"
        where = "double-double" if self.in_double_double else "the precision of the run"
        pasts = ", ".join(f"{name} {v:.1e}" for name, v in self.pasts.items()) or "of one jump"
        apart = "not decisive" if self.differences is None else f"{self.differences:.1e}"
        apart = f"differences in {where} {apart}{f' ({self.met})' if self.met else ''}"
        verdict = "passed" if self.passed else "FAILED"
        return f"gradcheck {verdict}: duality {dual}; {apart}; past {pasts}"

    __repr__ = __str__


def gradcheck(setup: Setup, loss: Any, request: Request, wrt: Any, tolerance: float, seed: int) -> GradCheck:
    """An error if two opinions differ by more than rounding explains."""
    tolerance = number("tolerance", tolerance, "tolerance=1e-7")
    if tolerance <= 0.0:
        raise InputError(f"tolerance={tolerance:g} is not above 0", fix="Pass tolerance=1e-7.")
    _, grads = value_and_grad(setup, loss, request, wrt, "auto", None, None, False, "gradcheck")
    setup = setup.settled()  # other states are compared with the steps of this one
    course, names, frames = prepared(setup, request, [n for n in grads if n != STEP], "gradcheck")
    if course.run.given.is_ensemble:
        raise PlanError("gradcheck looks at one run", fix="Call it for some members.")
    shown = course.shown(course.first())
    shown = {**shown, **course.velocities}
    at = {n: shown[n][0] if n in shown else np.asarray(course.run.given.params[n][0], float) for n in names}
    known, by_step = dict(at), [STEP] if STEP in grads else []
    at |= {n: np.float64(course.run.dt) for n in by_step}
    tried, dd, h, met = list[float](), False, H, list[str]()
    while h >= FINEST:
        off, dd, straight, visible = along_one(
            setup, loss, request, grads, at, h, frames, tolerance, seed, met
        )
        if tried and not visible:  # shorter steps show rounding alone
            break
        tried += [off] if straight else []
        if straight and abs(off) <= tolerance:
            break
        h *= FINER if dd else 1.0 / 32
    found = agreed(tried, tolerance, 0.0 if dd else STRAIGHT)
    pasts = {
        past: apart(
            value_and_grad(setup, loss, request, [*names, *by_step], past, None, None, False)[1],
            grads,
            [*names, *by_step],
        )
        for past in (() if course.run.jump is not None else ("store", "checkpoint"))
    }
    dual = duality(setup, request, names, known, seed, frames) if names else None
    rounding = rounding_of(setup.goal.precision) if setup.goal.precision != "lattice" else 0.0
    out = GradCheck(dual, found, dd, pasts, tolerance, rounding, met[-1] if met and not tried else "")
    if not out.passed:
        raise VerifyError(f"{out}", fix="Report it: the gradient of these steps is not what it should be.")
    return out


def agreed(tried: list[float], tolerance: float, alone: float = 0.0) -> float | None:
    """How far differences with steps of several lengths are from a gradient; None where they say nothing.

    In the precision of a run, short steps show its rounding, which is of any sign and grows as they get shorter; long ones
    show what bends, which falls with their fourth power. Two lengths that follow each other and agree show neither: where
    those see a gradient as wrong, it is. A single one is believed from the distance `alone` on.
    """
    off = min(map(abs, tried), default=None)
    if off is None or off <= tolerance or len(tried) == 1 and off >= alone:
        return off
    pairs = [(a, b) for a, b in zip(tried, tried[1:]) if abs(a - b) <= AGREE * min(abs(a), abs(b))]
    return min((abs(x) for pair in pairs for x in pair), default=None)


def along_one(
    setup: Setup,
    loss: Any,
    request: Request,
    grads: Gradients,
    at: Mapping[str, Any],
    h: float,
    frames: bool,
    tolerance: float,
    seed: int,
    met: list[str],
) -> tuple[float, bool, bool, bool]:
    """How far differences along a direction are from a gradient; were they in double-double?

    And was the run straight along the step, and what was subtracted further apart than its rounding?
    """
    signs = {n: np.sign(draw(np.shape(v), seed, k)) for k, (n, v) in enumerate(at.items())}
    steps = {n: h * sizes_of(at[n]) * signs[n] for n in at}
    roles = {s.name: s.role for s in setup.system.seen.states}
    moved = {
        k: {n: of_its_length(roles.get(n, ""), at[n] + k * steps[n]) for n in at} for k in (-2, -1, 1, 2)
    }
    along = {n: change_of({k: moved[k][n] for k in moved}) for n in at}  # as it is after rounding
    want = sum(float(np.sum(np.asarray(grads[n]) * along[n])) for n in at)
    sizes = sum(float(np.sum(np.abs(np.asarray(grads[n]) * along[n]))) for n in at) or 1.0
    found, bent, dd, size = differences(setup, loss, request, moved, frames, met)
    # a gradient that is zero but for rounding is as large as that
    lost = LOSSES * rounding_of(setup.goal.precision, setup.goal.lattice) * size * (h if dd else 1.0)
    scale = max(sizes, lost / tolerance)
    return (
        (found - want) / scale,
        dd,
        bent <= STRAIGHT * max(sizes, lost / STRAIGHT),
        sizes >= lost / tolerance,
    )


def sizes_of(x: Any) -> Any:
    """How large each number is, for a step: masses of 1 and 1e9 may stand in one array. A zero counts as a thousandth."""
    return np.maximum(np.abs(x), 1e-3 * (min(np.abs(x).max(initial=0.0), 1.0) or 1.0))


def change_of(values: Mapping[int, Any]) -> Any:
    """The change per step of what was measured one and two steps to both sides, but for the fourth order."""
    return (8 * (values[1] - values[-1]) - (values[2] - values[-2])) / 12


def of_its_length(role: str, value: Any) -> Any:
    """A state that is a unit vector, a unit quaternion or a rotation stays one."""
    if role == "rotation":
        u, _, v = np.linalg.svd(value)
        return u @ v
    return value / np.sqrt((value**2).sum(axis=-1, keepdims=True)) if role in ("rotor", "axis") else value


def draw(shape: tuple[int, ...], seed: int, stream: int) -> Any:
    size = int(np.prod(shape))
    return np.ravel(normal(max(size, 1), seed, STREAM + stream))[:size].reshape(shape)


def apart(one: Gradients, other: Gradients, names: list[str]) -> float:
    """How far two gradients are apart, relative to the larger one."""
    worst = 0.0
    for n in names:
        (a, ea), (b, eb) = one.words(n), other.words(n)
        a = np.ldexp(np.asarray(a), int(ea) - int(eb))
        scale = np.abs(b).max(initial=0.0)
        worst = max(worst, float(np.abs(a - b).max(initial=0.0) / (scale or 1.0)))
    return worst


def duality(
    setup: Setup, request: Request, names: list[str], at: Mapping[str, Any], seed: int, frames: bool
) -> float | None:
    states = {s.name: s.var.shape for s in setup.system.seen.states}
    v = {n: draw(np.shape(at[n]), seed, 100 + k) for k, n in enumerate(names)}
    plain = replace(request, observe=None)
    try:
        moved = pushed(setup, *in_momenta(setup, v, plain))
    except TinyPhysicsError:  # tangents of this run are not known
        return None
    w = {n: draw(np.shape(moved[n]), seed, 200 + k) for k, n in enumerate(states)}
    pulled = vjp(setup, w, plain, names, "auto", None, None, False)
    terms = [np.sum(w[n] * moved[n]) for n in states]
    other = [np.sum(np.asarray(pulled[n]) * v[n]) for n in names]
    scale = sum(float(np.sum(np.abs(w[n] * moved[n]))) for n in states) or 1.0
    return float(abs(sum(terms) - sum(other)) / scale)


def differences(
    setup: Setup,
    loss: Any,
    request: Request,
    moved: Mapping[int, Mapping[str, Any]],
    frames: bool,
    met: list[str],
) -> tuple[float, float, bool, float]:
    """(the derivative along the step, by differences; how far the run bends; in double-double?; what was subtracted).

    Where neighbouring runs meet another number of walls or events, `met` is called: no step is short enough there.
    """
    slopes = slopes_at(setup, loss, request, frames)
    other, dd = setup, setup.goal.precision == "dd" and not setup.compiled.adaptive
    if setup.compiled.adaptive:  # of first words alone
        ends = {k: run_at_own_steps(setup, request, given, frames) for k, given in moved.items()}
    elif not dd and setup.compiled.jump is None:  # double-double has steps, which are another map than a jump
        try:
            other = setup.variant(replace(setup.goal, precision="dd", lattice=()))
            run(other, replace(request, steps=0, until=None, save_every=None, save_at=None), moved[1], False)
            dd = True
        except TinyPhysicsError:  # of an act that only reads a state, too
            other = setup
    if not setup.compiled.adaptive:
        ends = {k: run(other, request, given, frames) for k, given in moved.items()}

    def change(k: int) -> float:
        total = 0.0
        for key, slope in slopes.items():
            one, two = ends[k][key], ends[-k][key]
            total += float(np.sum(slope * sum(a - b for a, b in zip(one, two))))
        return total

    size = sum(float(np.sum(np.abs(slope * ends[1][key][0]))) for key, slope in slopes.items())
    one, two = change(1), change(2)
    bent = abs(two - 2 * one)
    for c in setup.system.crossings:
        counts = sorted({len(ends[k][f"{MET}.{c.name}"]) for k in ends})
        if len(counts) > 1:
            met.append(f"runs next to this one meet `{c.name}` {counts[0]} to {counts[-1]} times")
            bent = np.inf
    return (8 * one - two) / 12, bent, dd, size


def run(setup: Setup, request: Request, given: Mapping[str, Any], frames: bool) -> dict[str, tuple[Any, ...]]:
    """Words of what a loss reads, of one run."""
    kept = {
        k: getattr(request, k) for k in ("steps", "until", "save_every", "save_at", "frames", "acts", "seed")
    }
    if not frames:
        kept["frames"] = 2
    own = {**request.given, **given}
    if not isinstance(request.t0, type(None)):
        kept["t0"] = request.t0
    with anywhere():
        out = setup.evolve(**own, **{k: v for k, v in kept.items() if v is not None}, progress=False)
    names = [s.name for s in setup.system.seen.states]
    found = {f"{FINAL}.{n}": tuple(out.final.words(n)) for n in names}
    if frames:
        found |= {f"{FRAMES}.{n}": tuple(out.words(n)) for n in names}
        found[TIMES] = (np.asarray(out.t),)
    return found | {f"{MET}.{c.name}": tuple(out.events(c.name).t) for c in setup.system.crossings}


def run_at_own_steps(
    setup: Setup, request: Request, given: Mapping[str, Any], frames: bool
) -> dict[str, tuple[Any, ...]]:
    """The same from another beginning, at the steps that the user's run chose."""
    course, _, _ = prepared(setup, request, [], "gradcheck")
    own = {s.name for s in setup.system.seen.states}
    if course.velocities:
        own_given, t0 = opened(setup.own_names, {**request.given, **given}, request.t0)
        given = {n: v for n, v in with_momenta(setup.system, own_given, t0).items() if n in own or n in given}
    states = {n: np.asarray(v, float)[None] for n, v in given.items() if n in own}
    params = {n: np.asarray(v, float)[None] for n, v in given.items() if n not in own}
    first = {n: np.asarray(v) for n, v in course.run.given.states.items()}
    keys = [course.last, *(course.frames if frames else ())]
    seen = moved_starts(course, keys, {**first, **states}, params)
    found = {f"{FINAL}.{n}": (seen[course.last][n][0],) for n in own}
    if frames:
        found |= {f"{FRAMES}.{n}": (np.stack([seen[key][n][0] for key in course.frames]),) for n in own}
    return found


def slopes_at(setup: Setup, loss: Any, request: Request, frames: bool) -> dict[str, Any]:
    """The derivatives of a loss by what it reads, at the user's own inputs."""
    course, _, _ = prepared(setup, request, [], "gradcheck")
    looks = looked_at(course, frames)
    if course.run.adaptive:
        looks.along()
    elif course.run.jump is not None:
        look(course, looks)
    elif course.run.acts:
        ActPast(course, "auto", None, None).forward(looks)
    else:
        looks.go(course.begin(), 0, course.steps)
    readings = Readings(course, looks)
    if readings.values:
        raise PlanError(
            "gradcheck of observables is not there yet", fix="Write them in the loss, of frames: out.q."
        )
    traced = traced_loss(loss, readings.symbols(frames))
    _, by = value_of(traced, readings)
    clocked = setup.system.clock is not None or course.run.adaptive
    kinds = (FINAL, FRAMES) if clocked else (FINAL, FRAMES, TIMES)
    return {n: d[0] for n, d in by.items() if n.partition(".")[0] in kinds}
