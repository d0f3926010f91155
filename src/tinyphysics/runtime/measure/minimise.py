"""Where is the energy of a system lowest, near a given state?  The compiled gradient, followed by runtime/measure/descent.py.

Momenta stay as they are. Particles that overlap are pushed apart instead of away, since no coordinate moves further
than `move` at once; the result has the same bits on every backend, and a member of an ensemble those that it has alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.device.host.threads import spread
from tinyphysics.errors import InputError, PlanError
from tinyphysics.ir import UOp
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.measure.descent import Evaluate, largest, search, total
from tinyphysics.runtime.stages.execute import clock_of
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import Inputs, inputs
from tinyphysics.runtime.state.schedule import whole
from tinyphysics.runtime.state.tiles import cut
from tinyphysics.synth.methods.derivative import derivative
from tinyphysics.tpir.precision.probe import probe
from tinyphysics.trajectory import StatesByName
from tinyphysics.util import one_of


@dataclass(frozen=True, eq=False)
class Minimum(StatesByName):
    """What was found: `found.q`, and `sim.evolve(**found.states, ...)` goes on from there.

    Of an ensemble, energy, force, evaluations and converged have an entry for each member.
    """

    states: Mapping[str, Any]
    energy: Any
    force: Any  # the largest component that is left
    evaluations: Any  # of energy and force
    converged: Any
    wanted: float  # the force that was asked for

    def __str__(self) -> str:
        done, energy, force, count = map(
            np.atleast_1d, (self.converged, self.energy, self.force, self.evaluations)
        )
        after = f"{int(np.max(count, initial=0))} evaluations"
        if done.all():
            found = f"energy {energy[0]:.10g}" if len(done) == 1 else f"{len(done)} members"
            return f"converged to {self.wanted:g} in {after}: {found}"
        who = "" if len(done) == 1 else f"{int((~done).sum())} of {len(done)} members "
        return f"{who}not converged after {after}: the largest force is {force[~done].max():.3g}, not {self.wanted:g}"

    __repr__ = __str__


# --- the energy, compiled -----------------------------------------------------------------------------
def evaluator(sim: Setup, i: Inputs, names: list[str], t0: float) -> Evaluate:
    """Energies and gradients of positions, by a program of their own on the backend of the simulation."""
    system, state = sim.system, dict(i.states)
    assert system.energy is not None
    values: dict[str, UOp] = {"energy": system.energy}
    values |= {f"slope.{n}": u for n, u in zip(names, derivative(system.energy, system.q))}
    program = probe(system.states, system.parameters, clock_of(system), values)
    engine = engine_for(sim.target, program, None, None, sim.compiled.in_loops(i.members))
    dt = 1.0 if sim.goal.dt is None else sim.goal.dt

    def evaluate(who: Any, x: Any) -> tuple[Any, Any]:
        energy, slopes, at = np.empty(len(who)), np.empty_like(x), 0
        here = {name: v[who] for name, v in state.items()}
        params = {name: v[who] if len(v) > 1 else v for name, v in i.params.items()}
        places = {}
        for name, q in zip(names, system.q):
            size = q.size
            places[name] = slice(at, at + size)
            here[name], at = np.ascontiguousarray(x[:, at : at + size]).reshape(here[name].shape), at + size
        parts = cut(len(who), engine.numbers, 8, engine.room, engine.workers)

        def one(k: int) -> None:
            p = parts[k]
            own = {name: v[p] if len(v) > 1 else v for name, v in params.items()}
            states, threads = {n: v[p] for n, v in here.items()}, None if len(parts) == 1 else 1
            m = engine.start(states, own, p.stop - p.start, dt, t0, threads)
            out = engine.synchronised(m)
            energy[p] = out["energy"]
            for name, place in places.items():
                slopes[p, place] = out[f"slope.{name}"].reshape(p.stop - p.start, -1)

        spread(one, len(parts), engine.workers)
        return energy, slopes

    return evaluate


def reach(x: Any) -> Any:
    """A tenth of how far coordinates are spread, for each member."""
    n = max(x.shape[1], 1)
    around = x - (total(x) / n)[:, None]
    out, size = np.sqrt(total(around * around) / n), largest(x)
    return 0.1 * np.where(out > 0, out, np.where(size > 0, size, 1.0))


def positive(name: str, value: Any) -> float:
    try:
        x = float(value)
    except (TypeError, ValueError):
        x = np.nan
    if not 0 < x < np.inf:
        raise InputError(f"{name}={value!r} is not a positive number", fix=f"Pass {name}=1e-6.")
    return x


def minimise(
    sim: Setup, given: dict[str, Any], steps: int, force: float, move: float | None, t0: float
) -> Minimum:
    """From what `sim.minimise` was given to what it returns."""
    system = sim.system
    if system.energy is None:
        raise PlanError(
            f"`{system.name}` is given by its {system.kind}: it has no known energy to minimise",
            fix="Write it as a Hamiltonian.",
        )
    if not system.q:
        raise PlanError(
            f"`{system.name}` has no positions that a minimum could be looked for in",
            fix="Its states turn: minimise the energy of an angle that you write as q.",
        )
    if system.crossings:
        met = one_of([c.name for c in system.crossings], "and")
        raise PlanError(
            f"minimise follows forces alone, and {met} of `{system.name}` would not stop it",
            fix="Compile the energy without them, or let friction bring it to rest in a run.",
        )
    most, tolerance = whole("steps", steps, 0), positive("force", force)
    for p in system.p:  # at rest, if nothing else is said
        given.setdefault(str(p.arg), np.zeros(p.shape))
    # of a bath: a state that begins where the energy of the start says is no part of a minimum
    follows = [s.name for s in system.states if system.heat and s.role == "field" and s.start is None]
    i = inputs(system, {**dict.fromkeys(follows, 0.0), **given})
    names = [str(q.arg) for q in system.q]
    x = np.concatenate([i.states[str(q.arg)].reshape(i.members, q.size) for q in system.q], axis=1)
    furthest = reach(x) if move is None else np.full(i.members, positive("move", move))
    found, energy, left, count = search(x, furthest, evaluator(sim, i, names, t0), most, tolerance)
    states, at = {}, 0
    for s in (s for s in system.states if s.name not in follows):
        a = np.array(i.states[s.name])
        if s.name in names:
            a, at = found[:, at : at + s.var.size].reshape(a.shape), at + s.var.size
        states[s.name] = a if i.is_ensemble else a[0]
    numbers = (energy, left, count, left <= tolerance)
    energy, left, count, done = numbers if i.is_ensemble else (a[0].item() for a in numbers)
    return Minimum(states, energy, left, count, done, tolerance)
