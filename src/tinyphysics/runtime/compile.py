"""tp.compile: what may be asked for, and what is said about what may not be asked for yet."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tinyphysics.errors import InputError, PlanError
from tinyphysics.front.trace import PhysicsSystem
from tinyphysics.plan import Goal
from tinyphysics.planner.catalog import CHOICES
from tinyphysics.planner.choose import named
from tinyphysics.planner.goals import check_goals
from tinyphysics.planner.target import checked
from tinyphysics.runtime.backend import ready
from tinyphysics.runtime.simulation import Simulation, checked_step
from tinyphysics.system import SLOTS, Family, Sum
from tinyphysics.tpir.precision import PRECISIONS
from tinyphysics.util import one_of

LATER_PRECISIONS = ("compensated", "mixed", "dd", "lattice")
CHECKS = ("on", "off", "strict")
SCALES = ("off", "auto")


def choice(name: str, value: Any, built: tuple[Any, ...], planned: tuple[Any, ...]) -> None:
    if value in built:
        return
    valid = one_of([str(v) for v in built])
    if value in planned:
        raise PlanError(f"{name}={value!r} does not exist yet", fix=f"{name} may be {valid}.")
    raise PlanError(f"there is no {name} {value!r}",
                    fix=f"{name} may be {valid}; later also {one_of([str(v) for v in planned])}.")  # fmt: skip


def check_sizes(system: Any, sizes: Mapping[str, int] | None) -> None:
    if sizes is not None and not isinstance(sizes, Mapping):
        raise InputError(f"sizes={sizes!r} is not a dict", fix='Pass sizes={"n": 16}.')
    letters = system.letters if isinstance(system, Family) else ()
    for letter, n in (sizes or {}).items():
        if letter not in letters:
            known = f"Its sizes are {one_of(letters)}." if letters else "Its shapes have no letters."
            raise InputError(f"`{system.name}` has no size `{letter}`", fix=known)
        if not isinstance(n, int) or n < 1:
            raise InputError(f"sizes={{{letter!r}: {n!r}}}", fix="A size is a positive integer.")


def checked_budget(approximate: Any, precision: str, scale: str) -> float:
    """A relative error that forces may have."""
    if isinstance(approximate, bool) or not isinstance(approximate, (int, float)) or not 0.0 < approximate < 1.0:
        raise InputError(f"approximate={approximate!r} is not a relative error", fix="Pass approximate=1e-3.")
    for name, value, plain in (("precision", precision, "float64"), ("scale", scale, "off")):
        if value != plain:
            raise PlanError(f"approximate= does not go with {name}={value!r}", fix=f"Leave {name}= out.")
    return float(approximate)


def compile(
    system: Any, dt: float | None = None, *, method: str = "auto", order: int | None = None,
    forbid: tuple[str, ...] = (), energy_drift: float | None = None, error: float | None = None,
    propagator: str | None = None, time: Any = None, kinetics: str = "newtonian",
    backend: str = "auto", precision: str = "float64", math: str = "exact",
    sizes: Mapping[str, int] | None = None, pilot: Any = None, checks: str = "on",
    approximate: float | None = None, inner: int | None = None, scale: str = "off",
) -> Simulation:  # fmt: skip
    """A system made ready to run: analysed, planned, lowered to TP-IR and verified; nothing has run yet.

    precision="float32" rounds states, parameters, constants and dt to float32 once and steps in float32 alone;
    frames are float32 arrays, times, energies and observables float64.

    energy_drift=1e-9, error=1e-6 are goals: the method, and the step if no dt is given, are found by pilots on the state
    of pilot={"q": ..., "p": ...}, or of the first run, and measured again in every run.

    approximate=1e-3 sums forces of c*m[i]*m[j]/r through a tree, whose relative error is measured where a run begins.
    """
    if isinstance(system, type):
        raise InputError(f"{system.__name__} is a class", fix=f"Compile an instance: {system.__name__}().")
    if isinstance(system, PhysicsSystem):
        system = system.traced()
    if not hasattr(system, "bind") and not isinstance(system, Sum):
        raise InputError(
            f"cannot compile a {type(system).__name__}",
            fix="Decorate the function: @tp.hamiltonian, @tp.forces or @tp.map.",
        )
    if isinstance(system, Sum):
        raise PlanError("sums of systems cannot be linked yet", fix="Write one energy with all terms.")
    later = {"time": time, "inner": inner}
    for name, value in later.items():
        if value is not None:
            raise PlanError(f"{name}= does not exist yet", fix="Choose dt and method= or order= yourself.")
    choice("propagator", propagator, (None, "loop"), ("method", "exact"))
    choice("kinetics", kinetics, ("newtonian",), ("relativistic",))
    choice("precision", precision, tuple(PRECISIONS), LATER_PRECISIONS)
    choice("math", math, ("exact",), ("fast",))
    if scale not in SCALES:
        raise InputError(f"scale={scale!r}", fix=f"scale is {one_of(SCALES)}.")
    if checks not in CHECKS:
        raise InputError(f"checks={checks!r}", fix=f"checks is {one_of(CHECKS)}.")
    if not isinstance(method, str):
        raise InputError(f"method={method!r} is not a name", fix='Pass method="leapfrog".')
    if method not in CHOICES:
        named(method)
    requested = checked(backend)
    if approximate is not None:
        approximate = checked_budget(approximate, precision, scale)
    ready(requested)
    source = system
    check_sizes(system, sizes)
    if not isinstance(system, Family) or sizes is not None:
        source = system.bind(sizes)
    if dt is not None:
        dt = checked_step(dt)
    if source.kind == "map":
        if dt is not None:
            raise InputError(f"`{source.name}` is a map and has no dt", fix="tp.compile(system) is enough.")
    forbidden = (forbid,) if isinstance(forbid, str) else tuple(forbid or ())
    if not all(isinstance(name, str) for name in forbidden):
        raise InputError(f"forbid={forbid!r} is not a list of names", fix='Pass forbid=["leapfrog_kdk"].')
    goal = Goal(dt, method, order, forbidden, precision, scale, approximate, energy_drift, error)
    if goal.is_accurate or pilot is not None:
        check_goals(source.kind, source.name, goal)
    if goal.is_accurate:
        goal = replace(goal, energy_drift=None if energy_drift is None else float(energy_drift),
                       error=None if error is None else float(error))  # fmt: skip
    elif dt is None and source.kind != "map":
        checked_step(dt)
    sim = Simulation(source, goal, requested, checks)
    if pilot is not None:
        SLOTS["piloted"](sim, pilot)
    return sim
