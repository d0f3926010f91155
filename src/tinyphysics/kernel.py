"""One step as a function: `compile(H)` gives (q, p) -> (q_new, p_new).

For whole runs `tp.compile` is the better tool: it merges the last kick of a step with the first of the
next. Here a step is complete in itself, and has the bits of one written by hand with fused multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyphysics.errors import InputError, PlanError
from tinyphysics.flows.shears import whole
from tinyphysics.options import HELD
from tinyphysics.pipeline import build
from tinyphysics.plan import Goal
from tinyphysics.planner.cost.target import checked
from tinyphysics.planner.methods.catalog import is_adaptive
from tinyphysics.runtime.api.compile import energy_of
from tinyphysics.runtime.api.simulation import Simulation
from tinyphysics.runtime.engines.backend import engine_for, resolved
from tinyphysics.runtime.stages.resolve import checked_step
from tinyphysics.runtime.state.ensemble import inputs, shaped
from tinyphysics.runtime.state.schedule import checked_time
from tinyphysics.system import System
from tinyphysics.tpir.program.lower import lower
from tinyphysics.tpir.verifier import verify


def traced(H: Any) -> System:
    """A system as it is; a plain function as a Hamiltonian."""
    source = H if hasattr(H, "bind") else energy_of(H) if callable(H) else None
    if source is None:
        raise InputError(f"cannot compile a {type(H).__name__}", fix="Pass def H(q, p): return p**2/2 + ...")
    system: System = source.bind()
    return system


def compile(
    H: Any, method: str = "leapfrog", dt: float = 0.01, backend: str = "auto"
) -> Callable[..., tuple[Any, ...]]:
    """One step of a Hamiltonian: a function of the states, returning the new ones.

    H is what `tp.compile` takes: a system, or a plain function, which is read as an energy. Parameters of H, the time `t` and
    another `dt` are keywords of the step; one more axis than declared is an ensemble. As in `tp.compile`, a number in the
    second place is dt.

    >>> step = compile(lambda q, p: p**2/2 + q**2/2, method="leapfrog", dt=0.5)
    >>> q, p = step(1.0, 0.0)
    >>> float(q), float(p)
    (0.875, -0.46875)
    """
    if isinstance(method, (int, float)) and not isinstance(method, bool):
        method, dt = dt if isinstance(dt, str) else "leapfrog", method
    if (held := HELD.get()) is not None:
        held("step", (H, dt), {})
    system, h = traced(H), checked_step(dt)
    if is_adaptive(system.kind, method):
        raise PlanError(
            f"`{method}` chooses its own steps, so it has no single step of dt",
            fix='Run it: tp.compile(H, method="taylor").evolve(..., until=dt).',
        )
    built = build(system, Goal(h, method), resolved(checked(backend)))
    program = lower(whole(built.step), system.sites)
    verify(program)
    engine = engine_for(built.target, program)
    names = [s.name for s in system.states]

    def step(*states: Any, t: float = 0.0, dt: float = h, **parameters: Any) -> tuple[Any, ...]:
        if len(states) != len(names):
            raise InputError(
                f"a step of `{system.name}` takes {', '.join(names)}; {len(states)} were given",
                fix=f"{', '.join(names)} = step({', '.join(names)})",
            )
        given = inputs(system, {**dict(zip(names, states)), **parameters})
        m = engine.start(given.states, given.params, given.members, checked_step(dt), checked_time(t))
        engine.advance(m, 1)
        new = shaped(given)(engine.synchronised(m))
        return tuple(new[n] for n in names)

    step.__name__ = f"{system.name}_step"
    goal = Goal(h, method, propagator="loop")
    step.certificate = built.certificate  # type: ignore[attr-defined]
    step.simulation = lambda: Simulation(system, goal, resolved(checked(backend)))  # type: ignore[attr-defined]
    step.__doc__ = f"One step of {method}, dt = {h:g}: ({', '.join(names)}) -> the new ones."
    return step
