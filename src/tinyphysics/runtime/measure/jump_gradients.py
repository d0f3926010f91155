"""How are gradients pulled back through a loop that was deleted?  In one jump back, and one along each parameter.

The flow of a quadratic energy is z(t) = P z(0) + c, and P is symplectic: P^T = J P(-t) J^-1, a jump backward in time. How
z(t) moves with a parameter is the flow of a quadratic energy too, H'(z) dz + dH/dtheta, of twice as many states: its jump is
the Frechet derivative of the matrix exponential, in double-double like every jump. With friction: damped_gradients.py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from tinyphysics.errors import PlanError
from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.affine import NotAffine
from tinyphysics.rules.calculus.matrices import TooMany
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.formulas.friction import dissipation
from tinyphysics.rules.identities.real import simplify
from tinyphysics.runtime.measure.course import Course, Key
from tinyphysics.runtime.measure.damped_gradients import DampedJump, by_matrix, underived
from tinyphysics.runtime.measure.loss_function import evaluate
from tinyphysics.runtime.measure.past import Looks
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.system import Parameter, State, System
from tinyphysics.tpir.program.free_bodies import jacobian_of_bodies

LOG = logging.getLogger("tinyphysics")
Bars = Mapping[str, Any]  # cotangents of states, (members, shape...)
ALONG = "{}__way"  # a direction of a state or a parameter
MOST = 256  # numbers of parameters, each of which takes a jump
WORK, TOLD = 12 * 64**3, 24**3  # pairs**3 of exponentials in whole numbers: some 10 s for 64 pairs


def look(course: Course, looks: Looks) -> None:
    """The states at the steps that are looked at: every one is a jump of its own."""
    for key in looks.wanted:
        out = jumped(course.setup, course, given_of(course), key)
        looks.seen[key] = {name: np.asarray(v) for name, v in out.items()}


def given_of(course: Course) -> dict[str, Any]:
    return {name: np.asarray(v) for name, v in course.run.given.states.items()}


def jumped(
    setup: Setup, course: Course, states: Mapping[str, Any], key: Key, sign: int = 1, **more: Any
) -> dict[str, Any]:
    """States (members, shape...) so many steps later, or before; to a time between two steps in one."""
    r = course.run
    n, dt = (1, key[1] - r.t0) if isinstance(key, tuple) else (key, r.dt)
    own = {name: v if len(v) > 1 else v[0] for name, v in r.given.own.items()}
    out = setup.evolve(**states, **{**own, **more}, steps=n, dt=sign * dt, frames=2, progress=False)
    if out.stopped is not None:
        raise PlanError(f"the jump stopped: {out.stopped.cause}", fix="Choose another state.")
    return {name: np.asarray(v) for name, v in out.final.states.items()}


def pull_back(course: Course, seeds: Mapping[Key, Bars], wrt: Sequence[str]) -> dict[str, Any]:
    """Gradients by the first state and by parameters, (members, shape...)."""
    system, members = course.setup.system, course.members
    check_exact(course.setup)
    if system.structure.turning:
        return of_bodies(course, seeds, wrt)
    if system.friction:
        names = [few_enough(p).name for p in system.parameters if p.name in wrt]
        out = by_matrix(course, seeds, names, given_of(course))
        return out | ({"dt": by_step(course, seeds)} if "dt" in wrt else {})
    pairs = [(str(q.arg), str(p.arg)) for q, p in zip(system.q, system.p)]
    shapes = {s.name: s.var.shape for s in system.states}
    out = {s: np.zeros((members, *shapes[s])) for s in shapes}
    zero = {s: np.zeros((members, *shapes[s])) for s in shapes}
    for n, bars in seeds.items():
        w = {**zero, **bars}
        turned = {q: -w[p] for q, p in pairs} | {p: w[q] for q, p in pairs}
        there, shift = (jumped(course.setup, course, x, n, -1) for x in (turned, zero))
        for q, p in pairs:
            out[q] += there[p] - shift[p]
            out[p] -= there[q] - shift[q]
    names = [x for x in wrt if x not in shapes]
    if "dt" in names:
        out["dt"] = by_step(course, seeds)
    parameters = {p.name: p for p in system.parameters}
    for name in (x for x in names if x != "dt"):
        out[name] = by_parameter(course, seeds, parameters[name])
    return out


def of_bodies(course: Course, seeds: Mapping[Key, Bars], wrt: Sequence[str]) -> dict[str, Any]:
    """Of free bodies: by the derivatives of the jump itself, number by number and member by member."""
    system, members, run = course.setup.system, course.members, course.run
    states, named = {s.name: s.var for s in system.states}, {p.name: p.var for p in system.parameters}
    names = [x for x in wrt if x in named]
    numbers: list[tuple[UOp | str, int]] = [(x, k) for x in states.values() for k in range(x.size)]
    numbers += [(x, k) for x in names for k in range(named[x].size)]
    if len(numbers) > MOST:
        raise PlanError(
            f"the gradient by each of {len(numbers)} numbers is a jump of its own",
            fix='Ask for fewer by wrt=, or compile with propagator="loop".',
        )
    assert system.energy is not None
    total = np.zeros((members, len(numbers)))
    for k in range(members):
        now = {x: np.ravel(np.asarray(run.given.states[name])[k]).tolist() for name, x in states.items()}
        own = {name: np.ravel(v[k if len(v) > 1 else 0]).tolist() for name, v in run.given.own.items()}
        for key, bars in seeds.items():
            n, between = (key, None) if isinstance(key, int) else key
            t = n * Fraction(run.dt) if between is None else Fraction(between) - Fraction(run.t0)
            columns = jacobian_of_bodies(system.structure.turning, system.energy, now, own, t, numbers)
            w = [np.ravel(bars[name][k]) if name in bars else np.zeros(x.size) for name, x in states.items()]
            total[k] += np.array([[float(x) for x in column] for column in columns]) @ np.concatenate(w)
    out, at = {}, 0
    for name, x in {**states, **{name: named[name] for name in names}}.items():
        out[name] = total[:, at : at + x.size].reshape(members, *x.shape)
        at += x.size
    for s in system.states:
        if s.role == "rotor":  # as in steps, which keep the length of a quaternion at 1
            first, bar = np.asarray(run.given.states[s.name]), out[s.name]
            out[s.name] = bar - first * (bar * first).sum(-1, keepdims=True)
    return out | ({"dt": by_step(course, seeds)} if "dt" in wrt else {})


def by_step(course: Course, seeds: Mapping[Key, Bars]) -> Any:
    """z(n*dt) moves with dt by n times its rate."""
    system, total = course.setup.system, np.zeros(course.members)
    assert system.energy is not None
    slopes = simplify(gradient(system.energy, [s.var for s in system.states]))
    rates = system.structure.rates(dict(zip((s.var for s in system.states), slopes)))
    if system.friction:
        lost = gradient(dissipation(system.p, system.friction), list(system.p))
        rates |= {p: rates[p] - slope for p, slope in zip(system.p, lost)}
    for n, bars in seeds.items():
        assert isinstance(n, int), "a gradient by dt is that of a number of steps"
        now = course.shown(course.first() if n == 0 else jumped(course.setup, course, given_of(course), n))
        env = {
            **now,
            **{
                p: np.broadcast_to(v, (course.members, *np.shape(v)[1:]))
                for p, v in course.run.given.own.items()
            },
        }
        found = evaluate({str(x.arg): u for x, u in rates.items()}, env, course.members)
        for name, w in bars.items():
            total += n * (w * found[name]).reshape(course.members, -1).sum(axis=1)
    return total


def push_forward(course: Course, keys: Sequence[Key], tangents: Bars) -> dict[Key, dict[str, Any]]:
    """How the states at some steps move along tangents of the first state and of parameters, (members, shape...)."""
    setup, system = course.setup, course.setup.system
    check_exact(setup)
    if system.structure.turning or system.friction:
        kind = "friction" if system.friction else "free bodies"
        raise PlanError(
            f"jvp: the jump of a system with {kind} has no tangent yet",
            fix='Compile it with propagator="loop", or take sim.vjp.',
        )
    shapes = {s.name: (course.members, *s.var.shape) for s in system.states}
    zero = {name: np.zeros(shape) for name, shape in shapes.items()}
    ways = zero | {name: v for name, v in tangents.items() if name in shapes}
    states, out = given_of(course), dict[Key, dict[str, Any]]()
    first = states | {ALONG.format(n): v for n, v in zero.items()}
    for key in keys:
        out[key] = dict(ways)
        if key == 0:
            continue
        there, shift = (jumped(setup, course, x, key) for x in (ways, zero))
        out[key] = {name: there[name] - shift[name] for name in shapes}
        for p in (p for p in system.parameters if p.name in tangents):
            if by_matrix_alone(course, first, p):
                check_work(course, p, len(keys), course.members)
                with exactly_derived(system.name):
                    moved = DampedJump(course).tangent(key, p.var, tangents[p.name], states)
            else:
                own = {ALONG.format(p.name): tangents[p.name]}
                found = jumped(with_direction_of(setup, p), course, first, key, 1, **own)
                moved = {name: found[ALONG.format(name)] for name in shapes}
            out[key] = {name: v + moved[name] for name, v in out[key].items()}
    return out


def by_matrix_alone(course: Course, first: Mapping[str, Any], p: Parameter) -> bool:
    """Is there no jump of a state and its derivative?  Of so many pairs of q and p, as a rule; tried once."""
    setup = course.setup
    known, key = setup._beside, ("no jump along", p.name)
    if key not in known:
        known[key] = False
        way = {ALONG.format(p.name): np.zeros(p.var.shape) if p.var.shape else 0.0}
        try:
            jumped(with_direction_of(setup, p), course, first, 1, 1, **way)
        except PlanError as error:
            if "cannot jump" not in str(error):
                raise
            known[key] = True
    return bool(known[key])


@contextmanager
def exactly_derived(name: str) -> Iterator[None]:
    try:
        yield
    except (NotAffine, TooMany) as error:
        raise underived(name, error) from error


def check_work(course: Course, p: Parameter, frames: int, numbers: int) -> None:
    """Exponentials in whole numbers take the third power of their size: a line says so, or an error."""
    system = course.setup.system
    pairs = sum(q.size for q in system.q)
    count = frames * numbers
    if pairs**3 * count > WORK:
        raise PlanError(
            f"the gradient by `{p.name}` of the deleted loop of `{system.name}` is {count} exponentials of a matrix of "
            f"{4 * pairs + 2} rows in whole numbers, which would take minutes",
            fix='Leave it out of wrt, ask for fewer frames, or compile with propagator="loop".',
        )
    if pairs**3 * count > TOLD:
        LOG.warning(
            "%s: the derivative of the jump by `%s` is computed in whole numbers, %d times: this takes some seconds "
            "(Ctrl-C ends it)",
            system.name,
            p.name,
            count,
        )


def check_exact(setup: Setup) -> None:
    if setup.compiled.known.way != "exact":
        raise PlanError(
            'the loop is deleted by propagator="method", and the power of a step has no derivative yet',
            fix='Compile it with propagator="exact" or propagator="loop".',
        )


def with_direction_of(setup: Setup, p: Parameter) -> Setup:
    """The simulation whose jump is that of a state and of its derivative by a parameter."""
    way = "jump along", p.name
    if way not in setup._beside:
        goal = replace(setup.goal, propagator="exact")
        setup._beside[way] = type(setup)(with_way(setup.system, p), goal, setup.requested, "off")
    found: Setup = setup._beside[way]
    return found


def by_parameter(course: Course, seeds: Mapping[Key, Bars], p: Parameter) -> Any:
    """Number by number: the flow of a state and of its derivative by the parameter, together."""
    setup, members = course.setup, course.members
    few_enough(p)
    states = given_of(course)
    first = states | {ALONG.format(n): np.zeros_like(v) for n, v in states.items()}
    if by_matrix_alone(course, first, p):
        check_work(course, p, len(seeds), p.var.size * members)
        zero = {s.name: np.zeros((members, *s.var.shape)) for s in setup.system.states}
        with exactly_derived(setup.system.name):
            return DampedJump(course).parameter(
                {key: {**zero, **w} for key, w in seeds.items()}, p.var, states
            )
    along = with_direction_of(setup, p)
    out = np.zeros((members, p.var.size))
    for k, unit in enumerate(np.eye(p.var.size)):
        unit_way = {ALONG.format(p.name): unit.reshape(p.var.shape) if p.var.shape else float(unit[0])}
        for n, bars in seeds.items():
            moved = jumped(along, course, first, n, 1, **unit_way)
            for name, w in bars.items():
                out[:, k] += (w * moved[ALONG.format(name)]).reshape(members, -1).sum(axis=1)
    return out.reshape(members, *p.var.shape)


def few_enough(p: Parameter) -> Parameter:
    if p.var.size > MOST:
        raise PlanError(
            f"`{p.name}` has {p.var.size} numbers, and the gradient by each is a jump of its own",
            fix='Leave it out of wrt, or compile with propagator="loop".',
        )
    return p


def with_way(system: System, *by: Parameter, along: str = ALONG) -> System:
    """The energy whose motion is that of a state and of its derivative along parameters: q goes with dp, dq with p."""
    energy = system.energy
    assert energy is not None
    ways = {s.var: UOp.var(along.format(s.name), s.var.shape) for s in system.states}
    steps = {p.var: UOp.var(along.format(p.name), p.var.shape) for p in by}
    slopes = gradient(energy, [*ways, *steps])
    moved = (*ways.values(), *steps.values())
    terms = [(a * b).sum() if a.shape else a * b for a, b in zip(slopes, moved)]
    states: list[State] = []
    for q, momentum in zip(system.q, system.p):
        states += [
            State(str(q.arg), q, "position"),
            State(str(ways[momentum].arg), ways[momentum], "momentum"),
            State(str(ways[q].arg), ways[q], "position"),
            State(str(momentum.arg), momentum, "momentum"),
        ]
    more = tuple(Parameter(str(v.arg), v, None) for v in steps.values())
    (total,) = simplify([UOp.sum_of(terms)])
    return System(
        "_along_".join((system.name, *(p.name for p in by))),
        "hamiltonian",
        tuple(states),
        (*system.parameters, *more),
        energy=total,
    )
