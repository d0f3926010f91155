"""How do quantities of pint go into a run and come out of it?  In the units that a system was annotated with.

Numbers are converted where they are passed, so that a program and its hash are those without units. pint is imported for
what comes out alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tinyphysics.errors import BackendError, InputError, PlanError, UnitError
from tinyphysics.given import unit_of
from tinyphysics.rules.equality.measured_in import Units, units_of
from tinyphysics.system import SizedFamily, System
from tinyphysics.trajectory import Trajectory
from tinyphysics.units import LONG, Unit, in_unit, product
from tinyphysics.util import did_you_mean

TIMES = ("until", "t0", "save_at", "dt")  # options that are measured in the unit of t


def units_for(source: System | SizedFamily) -> Units | None:
    """Of a system, or of one of a family: they do not depend on its size."""
    return units_of((source.bind(source.sample) if isinstance(source, SizedFamily) else source).seen)


def has_unit(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(has_unit, value))
    found = unit_of(value)
    return found is not None and "m_as" in found[1]


def as_numbers(source: System | SizedFamily, given: Mapping[str, Any]) -> dict[str, Any]:
    """States, parameters and times that were passed as quantities of pint's, as numbers; what has no unit stays."""
    if not any(map(has_unit, given.values())):
        return dict(given)
    units = units_for(source)
    if units is None:
        return dict(given)  # refused with the line to write
    system = source if isinstance(source, System) else None
    own_time = system is not None and system.clock is not None
    out = {}
    for name, value in given.items():
        if not has_unit(value):
            out[name] = value
            continue
        of = "t" if name in TIMES and name not in units.of_name else name
        if of not in units.of_name or name == "dt" and own_time:
            out[name] = value
            continue
        found = units.unit(of)
        if found is None:
            raise UnitError(
                f"`{name}` is given in `{unit_of(value)[0] if unit_of(value) else 'units'}`, and its unit in "  # type: ignore[index]
                f"`{units.system.name}` is not known: nothing that is annotated says it",
                site=units.system.site,
                fix=f'Annotate it: {of}: Annotated[float, "..."].',
            )
        out[name] = in_unit(value, found, name)
    return out


def quantity(out: Trajectory, name: str) -> Any:
    """An array of a run with its unit."""
    origin = out.origin
    system = None if origin is None else origin.run.system.seen
    units = None if system is None else units_of(system)
    if units is None:
        raise PlanError(
            f"out.quantity({name!r}): this run has no units",
            fix='Annotate the states: q: Annotated[tp.Vec[3], "m"].',
        )
    found: Unit | None
    if name in out.observed:
        found = units.as_unit(units.of(origin.values[name]))
    elif name in (*out.frames, "t", "energy"):
        found = units.unit(name)
    else:
        known = [*out.frames, "t", "energy", *out.observed]
        raise InputError(
            f"out.quantity({name!r}): there is no such quantity",
            fix=f"{did_you_mean(name, known)}There are {', '.join(known)}.",
        )
    if found is None:
        raise UnitError(
            f"the unit of `{name}` is not known: nothing that is annotated says it",
            site=units.system.site,
            fix=f'Annotate it: {name}: Annotated[float, "..."].',
        )
    try:
        import pint
    except ImportError as error:
        raise BackendError(
            "out.quantity needs pint, which is not installed",
            fix='Install it: pip install "tinyphysics[units]".',
        ) from error
    registry: Any = pint.application_registry  # the one that users' own quantities are of
    values = out[name]
    if found.text:
        return registry.Quantity(values, found.text)
    base = product(found.powers, tuple(LONG.values())) or "dimensionless"
    return registry.Quantity(values * found.factor, base)
