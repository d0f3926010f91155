"""How are slices of time run side by side?  A coarse run guesses where they begin, sweeps of fine ones correct it.

U[n+1] <- F(U[n] of the last sweep) + (G(U[n] of this sweep) - G(U[n] of the last sweep)). Written so, the bracket
is exactly zero for a slice whose beginning did not change: after k sweeps the first k slices have the bits of fine slices
that run one after the other, and after as many sweeps as slices all have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tinyphysics.cluster.machines import on as machines
from tinyphysics.cluster.mpi import OnRanks
from tinyphysics.cluster.pays import explained
from tinyphysics.cluster.slices import Slices, slices_of
from tinyphysics.errors import InputError, PlanError
from tinyphysics.given import number, shown, whole
from tinyphysics.options import heeds
from tinyphysics.runtime.api.simulation import Simulation
from tinyphysics.runtime.stages.outcome import sealed
from tinyphysics.runtime.stages.resolve import Request
from tinyphysics.runtime.state.digest import BITS, state_hash
from tinyphysics.runtime.state.from_frame import BEGINS
from tinyphysics.trajectory import Frame, Stop, Trajectory

SLICES = 16
REFUSED = (
    "save_every", "save_at", "frames", "observe", "hash_every", "save", "checkpoint", "checkpoint_every", "resume", "events",
    "acts", "exchange", "speculate", "verify",
)  # fmt: skip


@dataclass(frozen=True)
class Parareal:
    """How a run is cut in time: `evolve(..., parallel=tp.Parareal(slices=20, coarse={"dt": 0.1}))`.

    `slices` is how many parts there are. `coarse` is a Simulation of the same system, or options of compile for one; without
    it the method of the run takes a hundred of its steps at once. It ends when no slice moves by more than `tolerance`, or
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
        return explained(slices_of(self.slices, self.coarse, sim, steps, given), steps, given)


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
    x = slices_of(plan.slices, plan.coarse, sim, request.steps, given)
    first = {n: np.asarray(given[n], np.float64) for n in x.names if n in given}
    for s in sim.system.states:
        if s.name in first and first[s.name].shape != s.var.shape:
            raise PlanError(
                f"parallel= cuts one run into slices, and `{s.name}` has shape {first[s.name].shape}",
                fix="Run the members of an ensemble side by side: leave parallel= out.",
            )
    where = None if request.on is None else machines(request.on)
    if isinstance(where, OnRanks):
        raise PlanError(
            "parallel= runs slices of time apart, and on='mpi' one step together", fix="Pass on=client."
        )
    where = None if where is None else replace(where, blocks=x.count)
    t0 = 0.0 if request.t0 is BEGINS else float(request.t0)
    return sweep(plan, x, first, where, t0, request.threads)


State = dict[str, Any]


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
    given: State = {n: np.stack([s[n] for s in starts]) for n in names}
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
