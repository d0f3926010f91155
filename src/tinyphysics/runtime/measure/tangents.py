"""How do directions move beside a state?  A system with directions among its states, orthonormal again every so many steps.

A direction moves by the derivative of the step that runs, so states have the bits of a run without directions. Between two
steps, after a stride, the directions are made orthonormal again on what the loop carries; what they have grown by is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, PlanError
from tinyphysics.ir import UOp
from tinyphysics.physics.draws import normal
from tinyphysics.pipeline import BESIDE, TANGENTS
from tinyphysics.rules.identities.real import simplify
from tinyphysics.runtime.stages.execute import clock_of
from tinyphysics.runtime.stages.momenta_of_velocities import given_momenta
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.acts import Act
from tinyphysics.runtime.state.ensemble import inputs, sizes_from
from tinyphysics.runtime.state.from_frame import opened
from tinyphysics.system import SizedFamily, State, System
from tinyphysics.tpir.program.lower import DIRECTION, ways_of
from tinyphysics.trajectory import Trajectory
from tinyphysics.util import plural

Vector = list[UOp]  # a direction: one array for each state
GROWTH, NORMS, MIX, MEANS = "tangent_growth", "tangent_norms", "tangent_mix", "tangent_means"
STREAM = 0x7A6E  # of the first directions, apart from those of users' random numbers
ACT = "renormalise"


@dataclass(frozen=True)
class Wanted:
    """Which directions are moved, and what is kept of them beside their growth."""

    count: int = 1
    volumes: bool = False  # of the directions as they were given: GALI and SALI
    means: bool = False  # over the time: MEGNO
    by: tuple[str, ...] = ()  # parameters that have directions, too

    def __or__(self, other: Wanted) -> Wanted:
        by = tuple(dict.fromkeys((*self.by, *other.by)))
        return Wanted(
            max(self.count, other.count), self.volumes or other.volumes, self.means or other.means, by
        )


def with_directions(system: System, w: Wanted) -> System:
    """The system with directions, and with what they have grown by, among its states."""
    shapes = {DIRECTION.format(k, s.name): s.var.shape for k in range(w.count) for s in system.states}
    parameters = {p.name: p.var.shape for p in system.parameters}
    shapes |= {DIRECTION.format(k, name): parameters[name] for k in range(w.count) for name in w.by}
    shapes[GROWTH] = (
        w.count,
        2,
    )  # a whole number and a part of one: float32 would lose the digits of a long sum
    if w.volumes:
        shapes |= {NORMS: (w.count,), MIX: (w.count, w.count)}
    if w.means:
        shapes[MEANS] = (4,)
    taken = {s.name for s in system.states} | {p.name for p in system.parameters}
    if both := next((name for name in shapes if name in taken), None):
        raise InputError(
            f"`{system.name}` has a `{both}`, which is the name of a direction here",
            fix=f'Rename it: {system.name}.rename({both}="{both}_").',
        )
    more = tuple(State(name, UOp.var(name, shape), BESIDE) for name, shape in shapes.items())
    return replace(system, states=(*system.states, *more), axes={})


# --- the algebra ------------------------------------------------------------------------------------
def of_linear_growth(x: UOp) -> UOp:
    """The mean of ln d over a time in which d grows from 1 to exp(x) along a line: x/(1 - exp(-x)) - 1.

    A first direction grows so, and much: a mean of its ends would leave a trace in MEGNO for as long as a run is.
    """
    small = abs(x) < UOp.const(1e-6)
    safe = small.where(UOp.const(1.0), x)
    return small.where(UOp.const(0.5) * x, safe / (UOp.const(1.0) - (-safe).exp()) - UOp.const(1.0))


def dot(a: Sequence[UOp], b: Sequence[UOp]) -> UOp:
    return UOp.sum_of([(x * y).sum() if x.shape else x * y for x, y in zip(a, b)])


def scaled(a: Vector, factor: UOp) -> Vector:
    return [x * factor.expand(x.shape) for x in a]


def orthonormal(vectors: Sequence[Vector]) -> tuple[list[Vector], list[list[UOp]]]:
    """(Q, R) by the modified Gram-Schmidt process: vectors[k] is the sum over j <= k of Q[j] R[j][k]."""
    zero = UOp.const(0.0)
    Q: list[Vector] = []
    R = [[zero] * len(vectors) for _ in vectors]
    for k, v in enumerate(vectors):
        for j, unit in enumerate(Q):
            R[j][k] = along = dot(unit, v)
            v = [x - along.expand(x.shape) * y for x, y in zip(v, unit)]
        R[k][k] = size = dot(v, v).sqrt()
        Q.append(scaled(v, UOp.const(1.0) / size))
    return Q, R


@dataclass(frozen=True, eq=False)
class Beside:
    """The directions of a system and their sums, as expressions, now and after they are made orthonormal."""

    system: System
    time: UOp

    @property
    def known(self) -> dict[str, UOp]:
        return {s.name: s.var for s in self.system.states}

    @property
    def own(self) -> list[State]:
        return [s for s in self.system.states if s.role != BESIDE]

    @property
    def vectors(self) -> list[Vector]:
        return [list(way.values()) for way in ways_of(self.own, self.system.states)]

    @property
    def growth(self) -> list[UOp]:
        """The logarithm of what each has grown by since the beginning, before the last stride ended."""
        var = self.known[GROWTH]
        return [var[k, 0] + var[k, 1] for k in range(var.shape[0])]

    def grown(self, R: Sequence[Sequence[UOp]]) -> list[UOp]:
        return [g + row[k].log() for k, (g, row) in enumerate(zip(self.growth, R))]

    def mixed(self, R: Sequence[Sequence[UOp]]) -> tuple[list[UOp], list[list[UOp]]]:
        """(logarithms of the lengths, columns) of the directions as they were given, in the frame of Q."""
        norms, mix, n = self.known[NORMS], self.known[MIX], len(R)
        lengths, columns = [], []
        for k in range(n):
            column = [UOp.sum_of([R[i][j] * mix[j, k] for j in range(i, k + 1)]) for i in range(k + 1)]
            size = UOp.sum_of([x * x for x in column]).sqrt()
            lengths.append(norms[k] + size.log())
            columns.append([x / size for x in column])
        return lengths, columns

    def means(self, now: UOp) -> tuple[UOp, UOp, UOp]:
        """(the integral of the logarithm of the growth, that of Y, Y) at this time, where the growth is `now`."""
        var = self.known[MEANS]
        area, of_y, last, first = (var[k] for k in range(4))
        before, half, one = self.growth[0], UOp.const(0.5), UOp.const(1.0)
        span, gone, so_far = self.time - last, last - first, self.time - first
        new = area + span * gone.eq(UOp.const(0.0)).where(of_linear_growth(now), half * (before + now))

        def y(growth: UOp, area: UOp, time: UOp) -> UOp:
            began = time.eq(UOp.const(0.0))
            mean = began.where(UOp.const(0.0), area / began.where(one, time))
            return UOp.const(2.0) * (growth - mean)

        late = y(now, new, so_far)
        return new, of_y + half * span * (y(before, area, gone) + late), late

    def renormalising(self) -> System:
        """The map that makes the directions orthonormal and adds up what they had grown by."""
        Q, R = orthonormal(self.vectors)
        names = [DIRECTION.format(k, s.name) for k in range(len(Q)) for s in self.own]
        new = dict(zip(names, (x for v in Q for x in v)))
        grown = self.grown(R)
        sums = []
        for k in range(len(Q)):
            whole, part = (self.known[GROWTH][k, i] for i in range(2))
            more = part + R[k][k].log()
            sums += [whole + more.floor(), more - more.floor()]
        new[GROWTH] = UOp.stack(sums, (len(Q), 2))
        if NORMS in self.known:
            lengths, columns = self.mixed(R)
            n, zero = len(R), UOp.const(0.0)
            rows = [columns[k][i] if i <= k else zero for i in range(n) for k in range(n)]
            new |= {NORMS: UOp.stack(lengths, (n,)), MIX: UOp.stack(rows, (n, n))}
        if MEANS in self.known:
            area, of_y, _ = self.means(grown[0])
            new[MEANS] = UOp.stack([area, of_y, self.time, self.known[MEANS][3]], (4,))
        states = tuple(State(name, self.known[name], "field") for name in new)
        return System(ACT, "map", states, (), time=self.time, update=tuple(simplify(list(new.values()))))


# --- a run ------------------------------------------------------------------------------------------
def first_directions(system: System, w: Wanted, members: int, seed: int, t0: float) -> dict[str, Any]:
    """Orthonormal and pseudo-random, others for each member: axes may lie in a torus, and then show wrong powers."""
    n = sum(s.var.size for s in system.states)
    drawn = np.ravel(normal(members * n * w.count, seed, STREAM))[: members * n * w.count].reshape(
        members, w.count, n
    )
    for k in range(w.count):  # number after number: the same bits everywhere
        for j in range(k):
            drawn[:, k] -= in_order(drawn[:, j], drawn[:, k])[:, None] * drawn[:, j]
        drawn[:, k] /= np.sqrt(in_order(drawn[:, k], drawn[:, k]))[:, None]
    out: dict[str, Any] = {}
    for k in range(w.count):
        at = 0
        for s in system.states:
            out[DIRECTION.format(k, s.name)] = drawn[:, k, at : at + s.var.size].reshape(
                members, *s.var.shape
            )
            at += s.var.size
    return out | first_sums(w, members, t0)


def first_sums(w: Wanted, members: int, t0: float) -> dict[str, Any]:
    out: dict[str, Any] = {GROWTH: np.zeros((members, w.count, 2))}
    if w.volumes:
        unit = np.broadcast_to(np.eye(w.count), (members, w.count, w.count))
        out |= {NORMS: np.zeros((members, w.count)), MIX: unit}
    if w.means:
        out[MEANS] = np.broadcast_to([0.0, 0.0, t0, t0], (members, 4))
    return out


def in_order(a: Any, b: Any) -> Any:
    out = np.zeros(len(a))
    for i in range(a.shape[1]):
        out += a[:, i] * b[:, i]
    return out


@dataclass(frozen=True, eq=False)
class Run:
    """A simulation with directions, the state that it begins with, and how long it is."""

    setup: Setup  # with directions
    plain: Setup
    wanted: Wanted
    given: Mapping[str, Any]  # states, parameters, directions
    members: int
    is_ensemble: bool
    t0: float

    @property
    def beside(self) -> Beside:
        return Beside(self.setup.system, clock_of(self.setup.system))

    @property
    def dt(self) -> float:
        """The time of a step: 1 of a map."""
        return 1.0 if self.plain.system.kind == "map" else float(self.given.get("dt", self.setup.goal.dt))

    def some(self, most: int) -> Run:
        """The same of some members."""
        if self.members <= most:
            return self
        which = np.linspace(0, self.members - 1, most).astype(int)
        system = self.setup.system
        shapes = {s.name: s.var.shape for s in system.states} | {
            p.name: p.var.shape for p in system.parameters
        }
        given = {
            name: np.asarray(v)[which] if np.ndim(v) > len(shapes.get(name, ())) else v
            for name, v in self.given.items()
        }
        return replace(self, given=given, members=most)

    def act(self, every: int) -> dict[str, Act]:
        return {ACT: Act(every, self.renormalising)}

    @cached_property
    def renormalising(self) -> System:
        return self.beside.renormalising()

    def evolve(self, every: int, **more: Any) -> Trajectory:
        """A run whose directions are made orthonormal every so many steps."""
        return self.setup.evolve(**{**self.given, **more}, t0=self.t0, acts=self.act(every))


def run_with_directions(
    setup: Setup,
    w: Wanted,
    given: Mapping[str, Any],
    t0: Any,
    seed: int,
    what: str,
    first: Mapping[str, Any] | None = None,
) -> Run:
    """Everything decided that a first state decides; directions are random unless they are given as `first`."""
    setup.in_own_time(what)
    given, t0 = opened(setup.own_names, given, t0)
    if isinstance(setup.source, SizedFamily):
        setup.bind(setup.source, sizes_from(setup.source, given))
    setup.decide_at(given)
    check_directions(setup, what)
    step = {name: v for name, v in given.items() if name == "dt"}
    own = given_momenta(setup.system, {name: v for name, v in given.items() if name != "dt"})
    i = inputs(setup.system, own)
    numbers = sum(s.var.size for s in setup.system.states)
    if w.count > numbers:
        raise InputError(
            f"{w.count} directions are asked for, and the state of `{setup.system.name}` has {numbers} numbers",
            fix=f"Ask for at most {numbers}.",
        )
    system = setup.system
    if first is None:
        more = first_directions(system, w, i.members, int(seed), float(t0))
    else:
        each = {s.name: s.var.shape for s in system.states} | {p.name: p.var.shape for p in system.parameters}
        shapes = {DIRECTION.format(k, n): shape for k in range(w.count) for n, shape in each.items()}
        for n, v in first.items():
            if v.ndim > len(shapes[n]) and len(v) not in (1, i.members):
                raise InputError(
                    f"a tangent has {len(v)} rows, and the run has {plural(i.members, 'member')}",
                    fix="A tangent has the shape of its state, or one row for each member.",
                )
        more = {n: np.broadcast_to(v, (i.members, *shapes[n])) for n, v in first.items()}
        more |= first_sums(w, i.members, float(t0))
    if not i.is_ensemble:
        more = {name: v[0] for name, v in more.items()}
    return Run(simulation(setup, w), setup, w, {**own, **step, **more}, i.members, i.is_ensemble, float(t0))


def check_directions(setup: Setup, what: str) -> None:
    goal, system = setup.goal, setup.system
    if not all(s.var.dtype.is_float for s in system.states):
        raise PlanError(
            f"{what} needs directions beside the states, and `{system.name}` has whole numbers as states",
            fix="Write the map with float states.",
        )
    if goal.precision == "lattice":
        raise PlanError(
            f"{what} needs directions beside the states, and a lattice has none",
            fix='Measure it with precision="float64": the map is the same up to rounding.',
        )
    if system.bath == "nose_poincare":
        raise PlanError(
            f"{what} needs directions beside the states, and `eta` begins with the energy of the first state, "
            "whose derivative is not followed",
            fix="Choose bath=tp.nose_hoover().",
        )
    if system.clock is not None:
        raise PlanError(
            f"{what} needs directions beside the states, and that of the momentum of time= is not there yet",
            fix="Compile it without time=; sim.grad and sim.vjp go with it.",
        )
    if goal.project:
        raise PlanError(
            f"{what} cannot be combined with project=, which gives neighbours the invariants of the first state",
            fix="Leave project= out.",
        )
    if goal.scale == "auto":
        raise PlanError(
            f'{what} cannot be combined with scale="auto": directions are in the units of the states',
            fix="Leave scale= out.",
        )


def simulation(setup: Setup, w: Wanted) -> Setup:
    """The simulation with directions, made once."""
    goal = setup.goal
    if goal.decision is not None:
        goal = goal.by_method(goal.decision.method, dt=goal.decision.dt)
    key = w, goal, setup.checks
    if key not in setup._beside:
        with_them = goal.given(**{TANGENTS: (w.count, w.volumes, w.means, *w.by)})
        setup._beside[key] = type(setup)(
            with_directions(setup.system, w), with_them, setup.requested, setup.checks
        )
    made: Setup = setup._beside[key]
    return made
