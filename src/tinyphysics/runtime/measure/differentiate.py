"""What do sim.value_and_grad, sim.vjp and their kin do?  A call becomes a course, a past is chosen, cotangents go back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, PlanError
from tinyphysics.given import names as names_given
from tinyphysics.given import shown
from tinyphysics.runtime.measure.act_past import ActPast
from tinyphysics.runtime.measure.beginnings import check_beginning
from tinyphysics.runtime.measure.course import Course, course_of
from tinyphysics.runtime.measure.gradients import Gradients, Readings, swept, value_of
from tinyphysics.runtime.measure.loss_function import FINAL, FRAMES, SEEN, TIMES, traced_loss
from tinyphysics.runtime.measure.no_gradient import check_gradient
from tinyphysics.runtime.measure.own_steps import OwnPast
from tinyphysics.runtime.measure.past import Looks
from tinyphysics.runtime.measure.plan_past import TOLD, Past, choose_past
from tinyphysics.runtime.measure.round_past import RoundPast
from tinyphysics.runtime.measure.sweep_file import SweepFile
from tinyphysics.runtime.measure.velocities import check_momenta, velocities
from tinyphysics.runtime.stages.resolve import Request
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import sizes_from
from tinyphysics.runtime.state.from_frame import opened
from tinyphysics.runtime.state.indices import used
from tinyphysics.step import DT
from tinyphysics.system import SizedFamily
from tinyphysics.util import did_you_mean, one_of

HVP = "hvp"
# arguments of evolve that a gradient does not have
LEFT_OUT = {
    "events": "events change nothing, and a loss cannot read them",
    "save": "a gradient keeps no frames in files",
    "checkpoint": "only value_and_grad, grad and vjp are kept in a file",
    "resume": "only value_and_grad, grad and vjp go on from a file",
}


def prepared(setup: Setup, request: Request, wrt: Any, what: str) -> tuple[Course, list[str], bool]:
    """(the course, the names of what is differentiated by, are frames asked for?)."""
    frames = any(x is not None for x in (request.save_every, request.save_at, request.frames))
    given, _ = opened(setup.own_names, request.given, request.t0)
    for name, why in LEFT_OUT.items():
        if name in given and name not in setup.own_names:
            raise PlanError(f"{what} with {name}=: {why}", fix=f"Leave {name}= out.")
    if isinstance(setup.source, SizedFamily):
        setup.bind(setup.source, sizes_from(setup.source, given))
    if setup._compiled is None or setup.goal.is_accurate and setup.goal.decision is None:
        setup.evolve(**request.given, steps=0, frames=2)
    check_gradient(setup, request, what)
    check_beginning(setup, given, what)
    fast = velocities(setup.system, given)
    names = wanted_names(setup, wrt, fast)
    if "dt" in names and (request.until is not None or request.save_at is not None):
        raise PlanError(
            f'{what}: a gradient by "dt" is that of a number of steps, and this run asks for times',
            fix="Pass steps= and save_every=, or leave dt out.",
        )
    own = {s.name for s in setup.system.states} | {*fast}
    if not frames:
        request = Request(**{**vars(request), "frames": 2})
    course = course_of(setup, request, [n for n in names if n not in own], what)
    if fast:
        assert setup.system.motion is not None
        shapes = {str(v.arg): v.shape for v in setup.system.motion.v}
        rows = {
            n: np.broadcast_to(np.asarray(v, float), (course.members, *shapes[n])) for n, v in fast.items()
        }
        course = replace(course, velocities=rows)
    return course, names, frames


def wanted_names(setup: Setup, wrt: Any, fast: Mapping[str, Any] | None = None) -> list[str]:
    """What is differentiated by: states and parameters of real numbers, if nothing is said.

    A run that begins with velocities has them in the place of its momenta.
    """
    system = setup.system
    floats = [s.name for s in system.seen.states if s.var.dtype.is_float]
    if fast:
        assert system.motion is not None
        by = {str(p.arg): str(v.arg) for p, v in zip(system.p, system.motion.v)}
        floats = [by.get(name, name) for name in floats]
    taken = {p.name for p in system.parameters}
    chosen = {str(v.arg) for _, index, _ in used(system.equations, frozenset(taken)) for v in index.leaves}
    floats += [p.name for p in system.parameters if p.dtype.is_float and p.name not in chosen]
    if wrt is None:
        return floats
    wrt = names_given("wrt", wrt, 'wrt=["q", "mu"]')
    if fast:
        check_momenta(system, wrt, "wrt names")
    known = [*floats, *(["dt"] if system.kind != "map" else [])]
    every = {s.name for s in system.seen.states} | {p.name for p in system.parameters}
    for name in wrt:
        if name in known:
            continue
        if name in every:
            raise InputError(
                f"wrt names `{name}`, which is a whole number or an index: nothing changes smoothly with it",
                fix=f"It may have {one_of(known)}.",
            )
        raise InputError(
            f"wrt names {shown(name)}, which `{system.name}` does not have",
            fix=f"{did_you_mean(str(name), known)}It may have {one_of(known)}.",
        )
    return list(dict.fromkeys(wrt))


def decide_past(
    course: Course, past: Any, memory: Any, snapshots: Any
) -> Past | OwnPast | RoundPast | ActPast:
    """Kept for explain(), too."""
    if course.run.acts and course.steps:
        choose_past(course.setup, course.steps, course.bytes, past, memory, snapshots)  # or an error
        return ActPast(course, past, memory, snapshots)
    if course.run.system.crossings:
        check_round_past(course, past)
        return RoundPast(course, past, memory, snapshots)
    if course.run.adaptive:
        check_own_past(course, past)
        return OwnPast(course, past, memory, snapshots)
    found = choose_past(course.setup, course.steps, course.bytes, past, memory, snapshots)
    course.setup._beside[TOLD] = found
    return found


def check_own_past(course: Course, past: Any) -> None:
    if past == "reverse":
        raise PlanError(
            f'past="reverse": the steps of this run cannot be taken back: `{course.setup.compiled.known.method}` '
            "chooses their lengths",
            fix='Pass past="checkpoint".',
        )
    if any(v is DT for v in course.wrt):
        raise PlanError(
            f'wrt names "dt", and `{course.setup.compiled.known.method}` chooses its own steps: dt is only when one looks',
            fix="Leave dt out of wrt.",
        )


def check_round_past(course: Course, past: Any) -> None:
    names = one_of([c.name for c in course.run.system.crossings], "and")
    if past == "reverse":
        raise PlanError(
            f'past="reverse": steps that are cut at {names} cannot be taken back',
            fix='Pass past="checkpoint".',
        )


def looked_at(course: Course, frames: bool) -> Looks:
    keys = {course.last, *course.observed, *(course.frames if frames else ())}
    return Looks(course, {key for key in keys if key != 0} | ({course.steps} - {0}))


def value_and_grad(
    setup: Setup,
    loss: Callable[..., Any],
    request: Request,
    wrt: Any,
    past: Any,
    memory: Any,
    snapshots: Any,
    per_member: bool,
    what: str = "value_and_grad",
) -> tuple[Any, Gradients]:
    request, file = kept_in(request)
    course, names, frames = prepared(setup, request, wrt, what)
    if not names:
        raise InputError(f"{what}: wrt names nothing to differentiate by", fix='Pass wrt=["q", "mu"].')
    chosen = decide_past(course, past, memory, snapshots)
    check_file(course, file, what)
    readings = Readings(course, looked_at(course, frames))
    traced = loss(readings.symbols(frames)) if what == HVP else traced_loss(loss, readings.symbols(frames))
    reads = [str(v.arg) for v in traced.reads]
    if not frames and any(r == TIMES or r.startswith(f"{FRAMES}.") for r in reads):
        raise InputError(
            "the loss reads frames, and this run keeps none",
            fix="Pass save_every=, save_at= or frames=, or read out.final.",
        )
    value: list[Any] = []

    def slopes() -> dict[str, Any]:
        found, by = value_of(traced, readings)
        value.append(found)
        for name, d in by.items():
            if isinstance(d, np.ndarray) and not np.isfinite(d).all():
                read = name.removeprefix(f"{FRAMES}.").removeprefix(f"{SEEN}.")
                raise InputError(
                    f"the derivative of the loss by out.{read} is not finite at this run",
                    fix="Write it without roots, logarithms and quotients of what may be zero.",
                )
        return by

    grads = swept(course, readings, slopes, chosen, names, per_member, file)
    return (value[0] if course.run.given.is_ensemble else float(value[0][0])), grads


def vjp(
    setup: Setup,
    cotangents: Any,
    request: Request,
    wrt: Any,
    past: Any,
    memory: Any,
    snapshots: Any,
    per_member: bool,
) -> Gradients:
    """Cotangents are of the last state; where frames are asked for, of the frames."""
    request, file = kept_in(request)
    course, names, frames = prepared(setup, request, wrt, "vjp")
    chosen = decide_past(course, past, memory, snapshots)
    check_file(course, file, "vjp")
    readings = Readings(course, looked_at(course, frames))
    slopes = {}
    if not isinstance(cotangents, Mapping) or not cotangents:
        raise InputError(
            "cotangents are a dict of states", fix='Pass {"q": ...}, of the shape of out.final.q.'
        )
    shapes = {s.name: s.var.shape for s in setup.system.seen.states}
    members, ensemble = course.members, course.run.given.is_ensemble
    for name, value in cotangents.items():
        if name not in shapes:
            raise InputError(
                f"cotangents have `{name}`, which is no state",
                fix=f"{did_you_mean(str(name), shapes)}States: {', '.join(shapes)}.",
            )
        shape = (*((len(course.frames),) if frames else ()), *((members,) if ensemble else ()), *shapes[name])
        a = np.asarray(value, float)
        if a.shape != shape:
            raise InputError(
                f"the cotangent of `{name}` has shape {a.shape}",
                fix=f"It has the shape of {'out' if frames else 'out.final'}.{name}: {shape}.",
            )
        if not ensemble:
            a = np.expand_dims(a, 1 if frames else 0)
        slopes[f"{FRAMES if frames else FINAL}.{name}"] = np.moveaxis(a, 1, 0) if frames else a
    return swept(course, readings, lambda: slopes, chosen, names, per_member, file)


def kept_in(request: Request) -> tuple[Request, SweepFile]:
    """(the request of the run alone, the file that keeps a sweep): they are not those of a run."""
    return replace(request, checkpoint=None, resume=None), SweepFile(request.checkpoint, request.resume)


def check_file(course: Course, file: SweepFile, what: str) -> None:
    if file.path is None and file.source is None:
        return
    name = "checkpoint" if file.path is not None else "resume"
    why = "the loop is deleted, and nothing takes long" if course.run.jump is not None else ""
    if course.run.system.crossings:
        why = "a sweep back through walls and events is not kept yet"
    if course.run.acts:
        why = "a sweep back through acts is not kept yet"
    if course.run.adaptive:
        why = f"`{course.setup.compiled.known.method}` chooses its own steps, whose sweep is not kept yet"
    if why:
        raise PlanError(f"{what} with {name}=: {why}", fix=f"Leave {name}= out.")
