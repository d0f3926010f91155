"""What is asked for by temperature= and bath=?  A thermal energy k_B T and how fast momenta forget, both run-time values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tinyphysics.analysis.masses import masses
from tinyphysics.analysis.separable import separable
from tinyphysics.constrained import BRACKET as CONSTRAINED
from tinyphysics.errors import InputError, PlanError
from tinyphysics.given import shown
from tinyphysics.ir import UOp
from tinyphysics.planner.systems.friction import rate_of
from tinyphysics.rules.formulas.baths import ANDERSEN, LANGEVIN
from tinyphysics.structure import FIVE
from tinyphysics.system import Parameter, SizedFamily, System
from tinyphysics.util import did_you_mean, one_of

BATHS = (LANGEVIN, ANDERSEN)
TEMPERATURE, FRICTION = (
    "temperature",
    "friction",
)  # the names of its parameters, where a system has none of its own
RATE = 1.0  # of a bath, where none is asked for
WARM = "Pass a temperature above zero, in units of energy/kB: temperature=1.0."
COLD = "A bath at zero takes all of the energy: that is friction=1.0 alone, without temperature=."


def with_bath(
    system: System | SizedFamily, temperature: Any, bath: str | None, friction: Any, kB: float
) -> System | SizedFamily:
    """The same at a temperature."""
    if temperature is None:
        what = f"bath={shown(bath)}" if bath is not None else f"kB={shown(kB)}"
        raise InputError(
            f"{what} without a temperature", fix="Pass temperature=1.0 too: the bath is at that temperature."
        )
    if bath is not None and bath not in BATHS:
        raise PlanError(
            f"there is no bath {shown(bath)}", fix=f"{did_you_mean(bath, BATHS)}bath may be {one_of(BATHS)}."
        )
    if not kB > 0:
        raise InputError(f"kB={shown(kB)} is not above zero", fix="Leave kB= out, or pass kB=1.0.")
    if isinstance(system, SizedFamily):
        family, taken = system, tuple(system.shapes)
        added = {} if isinstance(temperature, str) else {free_name(taken, TEMPERATURE): ()}
        if not isinstance(friction, (str, dict)) and not np.ndim(friction):
            added[free_name(taken, FRICTION)] = ()
        return replace(
            family,
            build=lambda sizes: heated(family.build(sizes), temperature, bath, friction, kB),
            shapes={**family.shapes, **added},
        )
    return heated(system, temperature, bath, friction, kB)


def heated(system: System, temperature: Any, bath: str | None, friction: Any, kB: float) -> System:
    check_momenta(system)
    kinetic = separable(system).T if system.kind == "hamiltonian" else None
    if kinetic is not None and not (found := masses(system, kinetic)):
        raise PlanError(
            f"temperature= for `{system.name}`, whose kinetic energy is not a sum of p**2/2m: {found.because}",
            site=system.site,
            fix="Momenta in a bath have the law exp(-p**2/2mkT): write T as a sum of p**2/2m, with masses that may be "
            "parameters.",
        )
    made: list[Parameter] = []
    warm = temperature_of(system, temperature, made)
    kT = warm if kB == 1.0 else kB * warm
    rates = rates_of(system, RATE if friction is None else friction, made)
    signs = {warm: "positive"} | dict.fromkeys(rates, "not negative")
    own = tuple(replace(x, sign=signs.get(x.var, x.sign)) for x in (*system.parameters, *made))
    return replace(system, heat=(kT, *rates), bath=bath or LANGEVIN, parameters=own, function=None)


def check_momenta(system: System) -> None:
    if system.kind not in ("hamiltonian", "forces"):
        raise PlanError(
            f"temperature= for `{system.name}`, which is given by its {system.kind}: it has no momenta to heat",
            fix="Write it as an energy H(q, p), or write the noise into a @tp.map: tp.random.normal().",
        )
    if system.kind == "forces":
        raise PlanError(
            f"temperature= for `{system.name}`, which is given by its forces: without an energy there is no law exp(-H/kT)",
            fix="Write its energy: @tp.hamiltonian.",
        )
    if system.bracket == CONSTRAINED:
        raise PlanError(
            f"temperature= cannot be combined with the constraints of `{system.name}` yet",
            fix="Leave temperature= out, or write stiff springs in place of the constraints.",
        )
    if system.structure.headline != FIVE[0]:
        raise PlanError(
            f"temperature= for `{system.name}`, whose states are no pairs of positions and momenta alone",
            fix="Leave temperature= out.",
        )
    if system.levels or system.clock is not None or system.motion is not None:
        what = "fast and slow parts" if system.levels else "time=" if system.clock else "a Lagrangian"
        raise PlanError(f"temperature= cannot be combined with {what} yet", fix="Write an energy H(q, p).")
    if not (split := separable(system)):
        raise PlanError(
            f"temperature= for `{system.name}`, whose energy is not shown to be T(p) + V(q): {split.because}",
            site=split.site,
            fix="A bath acts on mass times velocity, which p is not here. Write H = p**2/2m + V(q).",
        )


def names_in(system: System) -> tuple[str, ...]:
    return (*(s.name for s in system.states), *(x.name for x in system.parameters))


def free_name(taken: tuple[str, ...], name: str) -> str:
    """The name of a parameter of the bath: its own, unless the system has it."""
    return name if name not in taken else f"bath_{name}"


def temperature_of(system: System, temperature: Any, made: list[Parameter]) -> UOp:
    """One number for a run, or one for each member: a parameter, which the system has or which is added to `made`."""
    if isinstance(temperature, str):
        own = {x.name: x.var for x in system.parameters}
        if temperature not in own:
            raise InputError(
                f'temperature="{temperature}": `{system.name}` has no parameter of that name',
                fix=f"{did_you_mean(temperature, own)}Add it to the function, or pass a number: temperature=1.0.",
            )
        if own[temperature].shape:
            raise InputError(
                f'temperature="{temperature}": the parameter has the shape {own[temperature].shape}',
                fix="A bath has one temperature; members of an ensemble may have one each.",
            )
        return own[temperature]
    if isinstance(temperature, (bool, np.bool_)):
        raise InputError(f"temperature={temperature} is not a temperature", fix=WARM)
    try:
        numbers = np.asarray(temperature, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"temperature={shown(temperature)} is not a temperature", fix=WARM) from None
    if numbers.ndim:
        raise InputError(
            f"temperature= has the shape {numbers.shape}",
            fix="Pass one number here; one for each member of an ensemble goes to evolve(temperature=[...]).",
        )
    number = checked(float(numbers))
    name = free_name(names_in(system), TEMPERATURE)
    made.append(Parameter(name, UOp.var(name), number))
    return made[-1].var


def rates_of(system: System, friction: Any, made: list[Parameter]) -> list[UOp]:
    """For each momentum the rate at which it forgets: one number for a run, or one for each number of the momentum."""
    if isinstance(friction, dict):
        known = [str(p.arg) for p in system.p]
        if unknown := next((name for name in friction if name not in known), None):
            raise InputError(
                f"friction= for `{unknown}`, which is no momentum", fix=f"It has {one_of(known)}."
            )
        return [rate_of(system, p, friction.get(str(p.arg), 0.0)) for p in system.p]
    found = [rate_of(system, p, friction) for p in system.p]
    if isinstance(friction, str) or np.ndim(friction):
        return found
    name = free_name(names_in(system), FRICTION)
    made.append(Parameter(name, UOp.var(name), float(friction)))
    return [made[-1].var] * len(found)


def checked(temperature: float) -> float:
    if not np.isfinite(temperature) or temperature <= 0:
        raise InputError(
            f"temperature={shown(temperature)} is not above zero", fix=COLD if temperature == 0 else WARM
        )
    return temperature


# --- the default of runs, which a simulation may change ----------------------------------------------
def parameter_of(system: System) -> Parameter | None:
    """What a run gives the temperature by."""
    warm = system.heat[0].leaves if system.heat else frozenset()
    return next((x for x in system.parameters if x.var in warm), None)


def without_bath(system: System, what: str) -> PlanError:
    return PlanError(
        f"{what}: `{system.name}` has no bath",
        fix="Compile it with one: sim = tp.compile(system, dt, temperature=300.0).",
    )


def default_temperature(system: System | SizedFamily) -> float:
    if isinstance(system, SizedFamily):
        raise PlanError(
            f"the temperature of `{system.name}` is known after its first run", fix="Pass sizes= to compile."
        )
    if (found := parameter_of(system)) is None:
        raise without_bath(system, "sim.temperature")
    return float(found.default)


def at_temperature(system: System | SizedFamily, temperature: Any) -> System | SizedFamily:
    """The same with another default."""
    what = f"sim.temperature = {shown(temperature)}"
    try:
        number = checked(float(temperature))
    except (TypeError, ValueError):
        raise InputError(f"{what} is not a temperature", fix=WARM) from None
    if isinstance(system, SizedFamily):
        family = system
        return replace(family, build=lambda sizes: at_temperature(family.build(sizes), number))  # type: ignore[arg-type,return-value]
    if (found := parameter_of(system)) is None:
        raise without_bath(system, what)
    new = tuple(replace(x, default=number) if x is found else x for x in system.parameters)
    return replace(system, parameters=new)
