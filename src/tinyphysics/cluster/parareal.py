"""How are slices of time run side by side?  Parareal: a coarse run guesses where slices begin, sweeps of fine ones correct it.

U[n+1] <- F(U[n] of the last sweep) + (G(U[n] of this sweep) - G(U[n] of the last sweep)). Written so, the bracket is exactly zero
for a slice whose beginning did not change: after k sweeps the first k slices have the bits of fine slices that run one
after the other, and after as many sweeps as slices all have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tinyphysics.cluster.on import on as machines
from tinyphysics.constrained import BRACKET as CONSTRAINED
from tinyphysics.errors import InputError, PlanError
from tinyphysics.given import number, shown, whole
from tinyphysics.options import heeds
from tinyphysics.plan import Goal
from tinyphysics.runtime.api.compile import compile as compiled
from tinyphysics.runtime.api.simulation import Simulation
from tinyphysics.runtime.stages.outcome import sealed
from tinyphysics.runtime.stages.resolve import Request
from tinyphysics.runtime.state.digest import BITS, state_hash
from tinyphysics.runtime.state.from_frame import BEGINS
from tinyphysics.trajectory import Frame, Stop, Trajectory

SLICES = 16
CHEAP = 100  # fine steps in a coarse one, where nothing is said
WIDER = (8, 16)  # times the step of the fine method: what its error is estimated from
REFUSED = (
    "save_every", "save_at", "frames", "observe", "hash_every", "save", "checkpoint", "checkpoint_every", "resume", "events",
    "acts", "exchange", "speculate", "verify",
)  # fmt: skip


@dataclass(frozen=True)
class Parareal:
    """How a run is cut in time: `evolve(..., parallel=tp.Parareal(slices=20, coarse={"dt": 0.1}))`.

    `slices` is how many parts there are. `coarse` is a Simulation of the same system, or options of compile for one; without it
    the method of the run takes a hundred of its steps at once. It ends when no slice moves by more than `tolerance`, or
    after `sweeps`. `print(plan.explain(sim, q=..., p=..., steps=...))` says before a run whether it pays.
    """

    slices: int = SLICES
    coarse: Any = None
    tolerance: float = 1e-9
    sweeps: int | None = None

    def __post_init__(self) -> None:
        whole("slices", self.slices, 1)
        if not number("tolerance", self.tolerance, "1e-9") >= 0:
            raise InputError(f"tolerance={self.tolerance!r} is negative", fix="Pass tolerance=1e-9.")
        if self.sweeps is not None:
            whole("sweeps", self.sweeps, 0)
        if self.coarse is not None and not isinstance(self.coarse, (Simulation, Mapping)):
            raise InputError(
                f"coarse={shown(self.coarse)} is neither a simulation nor a dict of options",
                fix='Pass coarse={"dt": 0.1}, or coarse=tp.compile(system, dt=0.1).',
            )

    @heeds("explain", "plan.explain(sim, q=..., p=..., steps=20_000)")
    def explain(self, sim: Simulation, *, steps: int, **given: Any) -> str:
        """Returns what a run would gain, in words: the model, and the cheapest method that takes no slices."""
        return explained(self, sim, steps, given)


@dataclass(frozen=True, eq=False)
class Slices:
    """A run in slices: its fine and its coarse steps."""

    fine: Simulation
    coarse: Simulation
    count: int
    steps: int  # of the fine method in a slice
    wide: int  # of the coarse one
    names: tuple[str, ...]
    params: Mapping[str, Any]

    @property
    def ratio(self) -> float:
        """The cost of a coarse slice over that of a fine one, by counts of operations."""
        return self.wide * self.coarse.compiled.step_seconds / (self.steps * self.fine.compiled.step_seconds)

    def speedup(self, sweeps: int) -> float:
        n = self.count
        return n / (sweeps + n * (sweeps + 1) * self.ratio)


def slices_of(plan: Parareal, sim: Simulation, steps: Any, given: Mapping[str, Any]) -> Slices:
    """The two simulations of a run, or why there are none."""
    if steps is None:
        raise InputError("parallel= needs steps=", fix="Pass steps=, a multiple of the number of slices.")
    steps, count = whole("steps", steps, 1), plan.slices
    if steps % count:
        below, above = steps - steps % count, steps - steps % count + count
        near = f"{above}" if not below else f"{below} or {above}"
        raise InputError(
            f"parallel=: {steps:,} steps are not divided by {count} slices", fix=f"Pass steps={near}."
        )
    system = sim.system
    reason = (
        f"`{system.name}` is a map" if system.kind == "map"
        else "it has constraints, off which a sum of states leads" if system.bracket == CONSTRAINED
        else f"`{system.name}` depends on t" if sim.compiled.known.timed or system.clock is not None
        else "its steps draw random numbers" if sim.compiled.known.draws
        else "it has walls or events that change the motion" if system.guards
        else f"precision={sim.goal.precision!r} has no sums of states" if not sim.compiled.encoding.plain
        else next((f"`{s.name}` is {'a direction' if s.role == 'axis' else 'an attitude'}" for s in system.states
                   if s.role in ("rotor", "rotation", "axis")), "")
    )  # fmt: skip
    if reason:
        raise PlanError(f"parallel= cannot be used here: {reason}", fix="Leave parallel= out.")
    if sim.goal.dt is None:
        raise InputError("parallel= needs a dt", fix="Compile with dt=0.001.")
    length = steps // count
    coarse = coarse_of(plan, sim, length)
    wide = length * sim.goal.dt / float(coarse.goal.dt or 0)
    if abs(wide - round(wide)) > 1e-9 * wide or round(wide) < 1:
        raise InputError(
            f"parallel=: a slice of {length * sim.goal.dt:g} is not a whole number of coarse steps of {coarse.goal.dt:g}",
            fix=f"Pass coarse={{'dt': {length * sim.goal.dt / max(1, round(wide)):g}}}.",
        )
    names = tuple(s.name for s in system.states)
    own = {k: v for k, v in given.items() if k not in names}
    return Slices(sim, coarse, count, length, round(wide), names, own)


def coarse_of(plan: Parareal, sim: Simulation, length: int) -> Simulation:
    if isinstance(plan.coarse, Simulation):
        mine = [(s.name, s.var.shape) for s in plan.coarse.system.states]
        if mine != [(s.name, s.var.shape) for s in sim.system.states]:
            raise InputError("coarse= has other states", fix="Compile it of the same system.")
        return plan.coarse
    if plan.coarse is not None:
        found: Simulation = compiled(sim.system.seen, **plan.coarse)
        return found
    assert sim.goal.dt is not None
    every = max(k for k in range(1, min(CHEAP, length) + 1) if length % k == 0)
    return Simulation(
        sim.system,
        Goal(every * sim.goal.dt, method=sim.compiled.known.method, propagator="loop"),
        "auto",
        "off",
    )


def evolve_in_slices(sim: Simulation, request: Request, parallel: Any) -> Trajectory:
    """The run that was asked for, whose frames are the ends of its slices."""
    plan = Parareal() if parallel is True else parallel
    if not isinstance(plan, Parareal):
        raise InputError(
            f"parallel={shown(parallel)} is not a plan", fix="Pass parallel=tp.Parareal(slices=16), or True."
        )
    for name in REFUSED:
        if getattr(request, name) not in (None, {}):
            raise PlanError(
                f"{name}= cannot be combined with parallel=: its frames are the ends of its slices",
                fix=f"Leave {name}= out.",
            )
    given = dict(request.given)
    x = slices_of(plan, sim, request.steps, given)
    first = {n: np.asarray(given[n], np.float64) for n in x.names if n in given}
    for s in sim.system.states:
        if s.name in first and first[s.name].shape != s.var.shape:
            raise PlanError(
                f"parallel= cuts one run into slices, and `{s.name}` has shape {first[s.name].shape}",
                fix="Run the members of an ensemble side by side: leave parallel= out.",
            )
    where = None if request.on is None else replace(machines(request.on), blocks=x.count)
    t0 = 0.0 if request.t0 is BEGINS else float(request.t0)
    return sweep(plan, x, first, where, t0, request.threads)


State = Mapping[str, Any]


def sweep(plan: Parareal, x: Slices, first: State, where: Any, t0: float, threads: int | None) -> Trajectory:
    quiet: dict[str, Any] = {"progress": False, "frames": 2, "threads": threads, **x.params}
    fine = partial(ends_of, x.fine, x.steps, x.names, quiet | {"on": where})
    ends: list[State] = [first]
    guess: list[State] = []
    stops: tuple[Stop, ...] = ()
    for _ in range(x.count):
        guess.append(end_of(x.coarse, x.wide, x.names, quiet, ends[-1]))
        ends.append(guess[-1])
    changes: list[float] = []
    k = 0
    try:
        while k < min(x.count, x.count if plan.sweeps is None else plan.sweeps):
            found = fine(ends[k:-1])
            new = [*ends[: k + 1], found[0]]
            for n in range(k + 1, x.count):
                again = end_of(x.coarse, x.wide, x.names, quiet, new[n])
                new.append({s: found[n - k][s] + (again[s] - guess[n][s]) for s in x.names})
                guess[n] = again
            changes.append(largest_change(ends, new))
            ends, k = new, k + 1
            if changes[-1] <= plan.tolerance:
                break
    except KeyboardInterrupt as stop:
        stops = (Stop("interrupted", k * x.steps, t0 + k * x.steps * (x.fine.goal.dt or 0), error=stop),)
    return told(x, ends, changes, k, t0, stops)


def end_of(sim: Simulation, steps: int, names: Sequence[str], more: Mapping[str, Any], at: State) -> State:
    out = quiet_copy(sim).evolve(**at, steps=steps, **more)
    check(out, sim)
    return {n: np.asarray(getattr(out.final, n)) for n in names}


def ends_of(
    sim: Simulation, steps: int, names: Sequence[str], more: Mapping[str, Any], starts: Sequence[State]
) -> list[State]:
    """Where several slices end, which are the members of one ensemble."""
    given = {n: np.stack([s[n] for s in starts]) for n in names}
    out = quiet_copy(sim).evolve(**given, steps=steps, **more)
    check(out, sim)
    return [{n: np.asarray(getattr(out.final, n))[k] for n in names} for k in range(len(starts))]


def check(out: Trajectory, sim: Simulation) -> None:
    if out.stopped is not None:
        error = out.stopped.error
        if isinstance(error, KeyboardInterrupt):
            raise error
        raise PlanError(
            f"parallel=: a slice of `{sim.system.name}` stopped at step {out.stopped.step:,} ({out.stopped.cause})",
            fix="Take a shorter coarse dt, or leave parallel= out.",
        )


def quiet_copy(sim: Simulation) -> Simulation:
    """A simulation that says nothing of its slices: a coarse one is meant to be inaccurate."""
    out = sim.__copy__()
    out.checks = "off"
    return out


def largest_change(old: Sequence[State], new: Sequence[State]) -> float:
    out = max(
        (float(np.max(np.abs(a[n] - b[n]), initial=0.0)) for a, b in zip(old, new) for n in a), default=0.0
    )
    return out if math.isfinite(out) else math.inf


def told(
    x: Slices,
    ends: Sequence[State],
    changes: Sequence[float],
    sweeps: int,
    t0: float,
    stops: tuple[Stop, ...],
) -> Trajectory:
    dt = x.fine.goal.dt or 0.0
    steps = np.arange(x.count + 1) * x.steps
    frames = {n: sealed(np.stack([s[n] for s in ends])) for n in x.names}
    last = {n: sealed(v[-1]) for n, v in frames.items()}
    final = Frame(last, int(steps[-1]), float(t0 + steps[-1] * dt), last, {})
    out = Trajectory(
        t0 + steps * dt, steps, frames, final, partial(state_hash, last), stops=stops, kept=frames
    )
    out.metrics["program"], out.metrics["bits"] = x.fine.compiled.known.program, BITS
    exact = (
        x.count if changes and changes[-1] == 0.0 else sweeps
    )  # nothing moved: every slice goes on from its own
    out.metrics["parareal"] = {
        "slices": x.count,
        "sweeps": sweeps,
        "changes": list(changes),  # the largest of each sweep
        "final": exact,  # slices that have the bits of slices one after the other
        "certificate": "that of its steps" if exact == x.count else "none",
        "speedup": {"model": x.speedup(sweeps), "workers": x.count, "coarse/fine": x.ratio},
    }
    return out


# --- does it pay? -------------------------------------------------------------------------------------
def explained(plan: Parareal, sim: Simulation, steps: int, given: Mapping[str, Any]) -> str:
    x = slices_of(plan, sim, steps, given)
    dt = sim.goal.dt or 0.0
    error, order = serial_error(x, given), sim.compiled.built.plan.order or 1
    lines = [
        f"{sim.system.name}: {x.count} slices of {x.steps:,} steps; a coarse slice costs {x.ratio:.2g} of a fine one"
    ]
    lines += [
        f"  after {k} sweeps at most {x.speedup(k):.3g} times faster on {x.count} workers"
        for k in sorted({1, 2, 3, max(1, x.count // 2), x.count})
        if k <= x.count
    ]
    whole_cost = forces(sim) * steps
    if error is None:
        return "\n".join([*lines, "  the error of the fine method could not be estimated"])
    lines.append(
        f"  fine method   {sim.compiled.known.method}, order {order}, {whole_cost:,} forces: error about {error:.1e} at t = {steps * dt:g}"
    )
    other = cheapest(sim, given, steps * dt, error)
    if other is None:
        return "\n".join([*lines, "  no other method was found at that error"])
    method, step, count, found = other
    best = max(x.speedup(k) for k in range(1, x.count + 1))
    says = f"{method} at dt={step:.3g} alone needs {count:,} forces for an error of {found:.1e}"
    if count * best < whole_cost:
        return "\n".join([f"slices do not pay: {says}, where the fine steps need {whole_cost:,}", *lines])
    return "\n".join([*lines, f"  one after the other: {says}"])


def forces(sim: Simulation) -> int:
    """Force evaluations of a step."""
    return int(max(1, sim.built.step.evaluations))


def serial_error(x: Slices, given: Mapping[str, Any]) -> float | None:
    """Of the fine method over the whole run, relative to the state: from two runs with longer steps, by its order."""
    order = x.fine.compiled.built.plan.order
    if not order:
        return None
    found = []
    for times in WIDER:
        n = x.count * x.steps // times
        sim = x.fine.variant(replace(x.fine.goal, dt=x.count * x.steps * (x.fine.goal.dt or 0) / max(n, 1)))
        out = sim.evolve(**given, steps=max(n, 1), frames=2, progress=False)
        if out.stopped is not None:
            return None
        found.append({s: np.asarray(getattr(out.final, s)) for s in x.names})
    size = max(float(np.max(np.abs(v))) for v in found[0].values()) or 1.0
    apart = max(float(np.max(np.abs(found[0][s] - found[1][s]))) for s in x.names) / size
    return apart / (WIDER[1] ** order - WIDER[0] ** order)


def cheapest(
    sim: Simulation, given: Mapping[str, Any], until: float, error: float
) -> tuple[str, float, int, float] | None:
    """(method, dt, forces, error) of the catalogue at that error, as the planner finds it for a goal."""
    goal = replace(sim.goal, dt=None, method="auto", order=None, error=max(error, 1e-13))
    try:
        other = Simulation(sim.system.seen, goal, "auto")
        out = other.evolve(**given, until=until, frames=2, progress=False)
    except PlanError:
        return None
    found = other.goal.decision
    if found is None or found.dt is None or out.stopped is not None:
        return None
    return found.method, found.dt, math.ceil(until / found.dt) * forces(other), float(found.error or error)
