"""How does a run change along a direction?  Tangents beside the states, and the Jacobian row by row or column by column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, PlanError
from tinyphysics.given import names as names_given
from tinyphysics.ir import Ops, toposort
from tinyphysics.runtime.measure.act_ways import with_ways
from tinyphysics.runtime.measure.along_own_steps import put_beside, with_direction
from tinyphysics.runtime.measure.along_own_steps import tangents as tangents_at
from tinyphysics.runtime.measure.beginnings import course_momenta
from tinyphysics.runtime.measure.course import Course
from tinyphysics.runtime.measure.differentiate import (
    HVP,
    check_own_past,
    looked_at,
    prepared,
    value_and_grad,
    vjp,
    wanted_names,
)
from tinyphysics.runtime.measure.gradients import Gradients, Readings, swept, value_of
from tinyphysics.runtime.measure.jump_gradients import push_forward
from tinyphysics.runtime.measure.jump_hvp import jump_hvp
from tinyphysics.runtime.measure.loss_function import Loss, Symbols, along, loss_of, traced_loss
from tinyphysics.runtime.measure.own_steps import OwnPast
from tinyphysics.runtime.measure.round_past import warn_of_grazes
from tinyphysics.runtime.measure.tangents import Run, Wanted, run_with_directions
from tinyphysics.runtime.measure.velocities import bound, in_momenta, velocities
from tinyphysics.runtime.stages.resolve import Request
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import number_array, sizes_from
from tinyphysics.runtime.state.from_frame import opened
from tinyphysics.system import SizedFamily
from tinyphysics.tpir.program.lower import DIRECTION
from tinyphysics.util import did_you_mean, one_of

ROWS = 4096  # cotangents side by side
DT_ALONE = "a direction of dt goes with the end of a jvp alone"


def beside(setup: Setup, tangents: Any, request: Request, what: str) -> tuple[Run, Any]:
    """The run with a direction beside its states, and its acts, which move that, too."""
    by, first = along_of(setup, tangents, request, what)
    if setup.compiled.jump is not None:
        raise PlanError(
            f"{what}: the loop of `{setup.system.name}` is deleted, and a jump has no tangent yet",
            fix='Compile it with propagator="loop".',
        )
    r = run_with_directions(setup, Wanted(by=by), request.given, request.t0, 0, what, first)
    return r, with_ways(setup.system, request.acts, by, what)


def along_of(
    setup: Setup, tangents: Any, request: Request, what: str
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """(the parameters that have one, the direction of every state and of those), checked."""
    if not isinstance(tangents, Mapping) or not tangents:
        raise InputError(
            "tangents are a dict of states and parameters", fix='Pass {"q": ...}, of the shape of q.'
        )
    given, _ = opened(setup.own_names, request.given, request.t0)
    if isinstance(setup.source, SizedFamily):
        setup.bind(setup.source, sizes_from(setup.source, given))
    if setup._compiled is None:
        setup.evolve(**request.given, steps=0, frames=2)
    system = setup.system
    if "dt" in tangents and system.kind != "map":
        raise PlanError(f"{what}: {DT_ALONE}", fix="Leave dt out; sim.grad has wrt=['dt'].")
    shapes = {s.name: s.var.shape for s in system.states}
    parameters = {p.name: p.var.shape for p in system.parameters if p.dtype.is_float}
    known = {**shapes, **parameters}
    for name in tangents:
        if name not in known:
            raise InputError(
                f"tangents have `{name}`, which `{system.name}` does not have",
                fix=f"{did_you_mean(str(name), known)}They may have {one_of(list(known))}.",
            )
    by = tuple(name for name in parameters if name in tangents)
    first = {}
    for name in (*shapes, *by):
        value = np.asarray(
            number_array(f'tangents["{name}"]', tangents.get(name, np.zeros(known[name]))), float
        )
        if value.shape[-len(known[name]) or value.ndim :] != known[name] or value.ndim > len(known[name]) + 1:
            raise InputError(
                f"the tangent of `{name}` has shape {value.shape}",
                fix=f"It has the shape of `{name}`: {known[name]}.",
            )
        first[DIRECTION.format(0, name)] = value
    return by, first


def jvp(setup: Setup, tangents: Any, request: Request) -> dict[str, Any]:
    """By steps that move a tangent; where there are none, by the rows of the Jacobian."""
    tangents, request = in_momenta(setup, tangents, request)
    frames = any(x is not None for x in (request.save_every, request.save_at, request.frames))
    if not frames and is_pulled_alone(setup, tangents, request):
        return from_rows(setup, tangents, request)
    return pushed(setup, tangents, request)


def is_pulled_alone(setup: Setup, tangents: Any, request: Request) -> bool:
    """Are there cotangents of its steps and no tangents?"""
    if isinstance(setup.source, SizedFamily) and setup._compiled is None:
        setup.bind(
            setup.source, sizes_from(setup.source, opened(setup.own_names, request.given, request.t0)[0])
        )
    by_dt = isinstance(tangents, Mapping) and "dt" in tangents and setup.system.kind != "map"
    return by_dt or bool(setup.goal.project) or setup.system.clock is not None


def from_rows(setup: Setup, tangents: Any, request: Request) -> dict[str, Any]:
    """As many cotangents as the state has numbers, times the tangent."""
    moved = {name: v for name, v in tangents.items() if name != "dt"}
    first = along_of(setup, moved, request, "jvp")[1] if moved else {}
    if "dt" in tangents:
        value = np.asarray(number_array('tangents["dt"]', tangents["dt"]), float)
        if value.shape:
            raise InputError(f"the tangent of `dt` has shape {value.shape}", fix="It is one number.")
        first[DIRECTION.format(0, "dt")] = value
    if (size := sum(s.var.size for s in setup.system.states)) > ROWS:
        raise PlanError(
            f"jvp with time=, project= or dt takes a cotangent for each of the {size:,} numbers of a state, {ROWS:,} at most",
            fix="Take sim.vjp or sim.grad, which go back once.",
        )
    rows = jacobian(setup, None, list(tangents), "auto", request, "jvp with time=, project= or dt")
    out: dict[str, Any] = {}
    for name, by in rows.items():
        terms = [
            np.tensordot(d, first[DIRECTION.format(0, x)], np.ndim(first[DIRECTION.format(0, x)]))
            for x, d in by.items()
        ]
        out[name] = np.asarray(sum(terms))
    return out


def pushed(setup: Setup, tangents: Any, request: Request) -> dict[str, Any]:
    """The end of a run moved along a direction by a program of its own."""
    if is_adaptive(setup, request) or setup._compiled is not None and setup.compiled.jump is not None:
        return own_jvp(setup, tangents, request)
    r, acts = beside(setup, tangents, request, "jvp")
    shapes = {s.name: s.var.shape for s in setup.system.states}
    kept = {
        k: getattr(request, k)
        for k in ("steps", "until", "save_every", "save_at", "frames", "seed", "threads")
    }
    frames = any(kept[k] is not None for k in ("save_every", "save_at", "frames"))
    if not frames:
        kept["frames"] = 2
    kept["acts"] = acts
    out = r.setup.evolve(**r.given, t0=r.t0, **{k: v for k, v in kept.items() if v is not None})
    if out.stopped is not None:
        s = out.stopped
        raise InputError(
            f"the run stopped at step {s.step} (t = {s.t:g}): {s.cause}",
            fix="Shorten dt, or choose another state.",
        )
    if setup.system.crossings:
        met = out.metrics
        warn_of_grazes(setup.system, met["grazes"], met["ties"], np.ndim(met["grazes"]) > 0)
    states = out.frames if frames else out.final.states
    return {name: np.asarray(states[DIRECTION.format(0, name)]) for name in shapes}


def is_adaptive(setup: Setup, request: Request) -> bool:
    if setup._compiled is None and not isinstance(setup.source, SizedFamily):
        return False  # what is compiled at its first state has steps of one length
    if isinstance(setup.source, SizedFamily) and setup._compiled is None:
        given, _ = opened(setup.own_names, request.given, request.t0)
        setup.bind(setup.source, sizes_from(setup.source, given))
    return setup._compiled is not None and setup.compiled.adaptive


def own_course(
    setup: Setup, tangents: Any, request: Request, wrt: Any, what: str
) -> tuple[Course, list[str], bool, dict[str, Any]]:
    """(the course, names, are frames asked for?, the direction) of a run that chooses its own steps."""
    by, first = along_of(setup, tangents, request, what)
    course, names, frames = prepared(setup, request, wrt, what)
    shapes = {s.name: s.var.shape for s in setup.system.states} | {
        p.name: p.var.shape for p in setup.system.parameters
    }
    own = {DIRECTION.format(0, n): shape for n, shape in shapes.items()}
    wide = {n: np.array(np.broadcast_to(v, (course.members, *own[n]))) for n, v in first.items()}
    return course, names, frames, wide


def own_jvp(setup: Setup, tangents: Any, request: Request) -> dict[str, Any]:
    """Of a run that chooses its own steps, or jumps over all of them."""
    course, _, frames, first = own_course(setup, tangents, request, [], "jvp")
    keys = course.frames if frames else [course.last]
    if course.run.jump is not None:
        named = {s.name for s in setup.system.states} | set(tangents)
        own = {n: first[DIRECTION.format(0, n)] for n in named}
        found = {
            key: {DIRECTION.format(0, n): v for n, v in moved.items()}
            for key, moved in push_forward(course, keys, own).items()
        }
    else:
        looked_at(course, frames).along()  # a run that has failed has no tangent
        found = tangents_at(course, keys, first)
    out = {}
    for s in setup.system.states:
        rows = np.stack([found[key][DIRECTION.format(0, s.name)] for key in keys])
        rows = rows if course.run.given.is_ensemble else rows[:, 0]
        out[s.name] = rows if frames else rows[0]
    return out


def own_hvp(
    setup: Setup,
    loss: Any,
    tangents: Any,
    request: Request,
    wrt: Any,
    past: Any,
    memory: Any,
    snapshots: Any,
    per_member: bool,
) -> Gradients:
    course, names, frames, first = own_course(setup, tangents, request, wrt, HVP)
    if past == "checkpoint":
        raise PlanError(
            f'hvp: past="checkpoint" is not there yet for `{setup.compiled.known.method}`, which chooses its own steps',
            fix="Leave past= out: every step is kept.",
        )
    check_own_past(course, past)
    along_it = with_direction(course, first)
    looks = looked_at(course, frames)
    looks.along()
    ways = {s.name: DIRECTION.format(0, s.name) for s in setup.system.states}
    for key, way in tangents_at(course, list(looks.wanted), first).items():
        if key != 0:
            looks.seen[key].update(way)
    readings = Readings(along_it, looks)
    symbols = readings.symbols(frames)
    own = replace(symbols, states={n: symbols.states[n] for n in ways})
    derived = loss_of(along(traced_loss(loss, own), ways))
    fill = partial(put_beside, along_it, {w: first[w] for w in ways.values()})
    chosen = OwnPast(along_it, past, memory, snapshots, fill)
    return swept(along_it, readings, lambda: value_of(derived, readings)[1], chosen, names, per_member)


def jacobian(
    setup: Setup, of: Any, wrt: Any, past: Any, request: Request, what: str = "jacobian"
) -> dict[str, dict[str, Any]]:
    """Row by row, by cotangents, all rows as members of one ensemble."""
    course, names, _ = prepared(setup, request, wrt, what)
    if course.run.given.is_ensemble:
        raise PlanError(f"{what} is that of one run", fix="Call it for each member.")
    shapes = {s.name: s.var.shape for s in setup.system.seen.states}
    wanted = list(shapes) if of is None else names_given("of", of, 'of=["q"]')
    for name in wanted:
        if name not in shapes:
            raise InputError(
                f"of names `{name}`, which is no state",
                fix=f"{did_you_mean(str(name), shapes)}States: {', '.join(shapes)}.",
            )
    sizes = {name: int(np.prod(shapes[name])) for name in wanted}
    rows, at, cotangents = sum(sizes.values()), 0, {}
    for name in wanted:
        seeds = np.zeros((rows, sizes[name]))
        seeds[at : at + sizes[name]] = np.eye(sizes[name])
        cotangents[name], at = seeds.reshape(rows, *shapes[name]), at + sizes[name]
    given = dict(request.given)
    if course.velocities:
        given |= {n: np.broadcast_to(v[0], (rows, *v.shape[1:])) for n, v in course.velocities.items()}
    for name, shape in shapes.items():
        if name in course_momenta(course):
            continue
        value = course.shown(course.first())[name]
        given[name] = np.broadcast_to(value[0] if value.ndim > len(shape) else value, (rows, *shape))
    if course.ends_in_time or draws(course):  # each of them by itself: members draw other numbers
        every = [
            vjp(setup, {n: v[k] for n, v in cotangents.items()}, request, names, past, None, None, False)
            for k in range(rows)
        ]
        grads: Mapping[str, Any] = {x: np.stack([g[x] for g in every]) for x in names}
    else:
        grads = vjp(setup, cotangents, replace(request, given=given), names, past, None, None, True)
    out: dict[str, dict[str, Any]] = {}
    at = 0
    for name in wanted:
        part = slice(at, at + sizes[name])
        out[name] = {
            x: np.asarray(grads[x])[part].reshape((*shapes[name], *np.asarray(grads[x]).shape[1:]))
            for x in names
        }
        at += sizes[name]
    return out


def draws(course: Course) -> bool:
    """Are there random numbers in its steps or in its acts?"""
    maps = [u for a in course.run.acts for u in a.system.equations]
    return course.setup.compiled.known.draws or any(u.op is Ops.RANDOM for u in toposort(maps))


def hvp(
    setup: Setup,
    loss: Any,
    directions: Any,
    request: Request,
    wrt: Any,
    past: Any,
    memory: Any,
    snapshots: Any,
    per_member: bool,
) -> Gradients:
    """The gradient of the derivative of a loss along a direction: the adjoint of the steps that move it, too."""
    given, _ = opened(setup.own_names, request.given, request.t0)
    if velocities(bound(setup, given), given):
        raise PlanError(
            "hvp: the momenta of this run follow from its velocities, and second derivatives by these are not there yet",
            fix="Pass the momenta: p=...",
        )
    if is_adaptive(setup, request):
        return own_hvp(setup, loss, directions, request, wrt, past, memory, snapshots, per_member)
    by, first = along_of(setup, directions, request, HVP)
    if setup.compiled.jump is not None:
        ways = {n: first[DIRECTION.format(0, n)] for n in (*(s.name for s in setup.system.states), *by)}
        return jump_hvp(setup, loss, ways, request, wrt, per_member)
    r, acts = beside(setup, directions, request, HVP)
    names = wanted_names(setup, wrt)
    if "dt" in names:
        raise PlanError("hvp: second derivatives by dt are not there yet", fix="Leave dt out of wrt.")
    ways = {s.name: DIRECTION.format(0, s.name) for s in setup.system.states}

    def derived(symbols: Symbols) -> Loss:
        own = replace(symbols, states={n: symbols.states[n] for n in ways})
        return loss_of(along(traced_loss(loss, own), ways))

    request = replace(request, given=r.given, t0=r.t0, acts=acts)
    chosen = (past, memory, snapshots, per_member)
    return value_and_grad(r.setup, derived, request, names, *chosen, HVP)[1]
