"""What is asked for by pressure= and barostat=?  A box whose size changes, so that states have the law exp(-(H + PV)/kT)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.constrained import BRACKET as CONSTRAINED
from tinyphysics.errors import InputError, PlanError
from tinyphysics.front.lattice_sums import is_lattice_sum, lattice_sum
from tinyphysics.given import number, shown, whole
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.options import heeds
from tinyphysics.planner.systems.heat import free_name, names_in
from tinyphysics.rules.formulas.cutoffs import rooms
from tinyphysics.rules.formulas.memory import GLE
from tinyphysics.rules.formulas.thermostats import BUSSI, NOSE_HOOVER
from tinyphysics.system import Parameter, SizedFamily, System
from tinyphysics.util import did_you_mean, one_of

RESCALE, MTK = BAROSTATS = ("rescale", "mtk")
GOES_WITH = {RESCALE: ("langevin", "andersen", BUSSI, GLE), MTK: (NOSE_HOOVER,)}
PRESSURE = "pressure"
BOX = ("box", "cell")  # what its parameter is called, where no sum over pairs says so
EVERY, TIME = 10, 1.0
WRITE = "Write the box as a parameter of the energy: tp.pair_distance2(q, box=box, cutoff=2.5), box: float = 10.0."


@dataclass(frozen=True)
class Barostat:
    """How a box changes; made by tp.barostat."""

    way: str
    tau: float
    every: int
    compressibility: float | None


@heeds("barostat", 'tp.barostat("rescale", tau=1.0)')
def barostat(
    way: str, *, tau: float = TIME, every: int = EVERY, compressibility: float | None = None
) -> Barostat:
    """How the box of a system at a pressure changes: `compile(..., pressure=1.0, barostat=tp.barostat("rescale", tau=0.5))`.

    way              "rescale" draws random numbers; "mtk" has a momentum of the box instead, and an extended energy
    tau              the time in which the volume forgets where it came from
    every            the number of steps between two changes of the box
    compressibility  of "rescale", which then takes that time; measured at the first state where it is left out
    """
    if way not in BAROSTATS:
        raise PlanError(
            f"there is no barostat {shown(way)}",
            fix=f"{did_you_mean(str(way), BAROSTATS)}barostat may be {one_of(BAROSTATS)}.",
        )
    size = number("tau", tau, "tau=1.0")
    if not size > 0:
        raise InputError(f"tp.barostat: tau={shown(tau)} is not above zero", fix="Pass tau=1.0.")
    if compressibility is not None:
        if way == MTK:
            raise PlanError(
                'tp.barostat("mtk") has no compressibility: its box has a mass, (g + d) kT tau**2',
                fix="Leave compressibility= out.",
            )
        compressibility = number("compressibility", compressibility, "compressibility=0.1")
        if not compressibility > 0:
            raise InputError(
                f"tp.barostat: compressibility={compressibility:g} is not above zero", fix="Leave it out."
            )
    return Barostat(way, size, whole("every", every, 1), compressibility)


def with_pressure(system: System | SizedFamily, pressure: Any, how: Any) -> System | SizedFamily:
    """The same in a box that changes its size."""
    if pressure is None:
        raise InputError(
            f"barostat={shown(how)} without a pressure", fix="Pass pressure=1.0 too, and temperature=1.0."
        )
    found = how if isinstance(how, Barostat) else barostat(RESCALE if how is None else how)
    if isinstance(system, SizedFamily):
        family = system
        more = {} if isinstance(pressure, str) else {free_name(tuple(family.shapes), PRESSURE): ()}
        return replace(
            family,
            build=lambda sizes: pressed(family.build(sizes), pressure, found),
            shapes={**family.shapes, **more},
        )
    return pressed(system, pressure, found)


def pressed(system: System, pressure: Any, how: Barostat) -> System:
    if not system.heat:
        raise PlanError(
            f"pressure= for `{system.name}` without a bath: a box that changes does work, and nothing takes it",
            fix="Compile it with temperature=1.0 too.",
        )
    if system.bath not in (goes := GOES_WITH[how.way]):
        raise PlanError(
            f"barostat={shown(how.way)} with bath={shown(system.bath)}",
            fix=f"It goes with {one_of([f'bath={x}' for x in goes])}.",
        )
    if system.bracket == CONSTRAINED:
        raise PlanError(
            f"pressure= with the constraints of `{system.name}`: a box that changes would stretch its rods",
            fix="Write stiff springs in place of the constraints.",
        )
    box = box_in(system)
    made: list[Parameter] = []
    name = pressure_of(system, pressure, made)
    dimensions_of(system, box)
    told = (how.way, box.name, name, how.tau, how.every, how.compressibility)
    own = tuple(replace(x, sign="positive") if x is box else x for x in system.parameters)
    return replace(system, barostat=told, parameters=(*own, *made), function=None)


def cells(energy: UOp) -> Iterator[UOp]:
    """The cells of sums over pairs."""
    for u in toposort([energy]):
        if is_lattice_sum(u):
            yield lattice_sum(u).cell
        elif u.op is Ops.NEIGHBOURS:
            yield from u.src[3:4]
    yield from (cell for _, cell in rooms([energy]))


def box_in(system: System) -> Parameter:
    """The parameter that holds the box."""
    assert system.energy is not None
    own = {x.var: x for x in system.parameters}
    found: dict[UOp, None] = {}
    for cell in cells(system.energy):
        if cell.op is Ops.CONST or not cell.leaves:
            if cell.op is Ops.CONST and cell.arg == 0.0:
                continue  # a sum in open space
            raise PlanError(f"pressure= for `{system.name}`, whose box is a number", fix=WRITE)
        while cell.op in (Ops.EXPAND, Ops.RESHAPE):
            cell = cell.src[0]
        if cell not in own:
            raise PlanError(
                f"pressure= for `{system.name}`, whose box is not a parameter but made of some: {cell}",
                fix=WRITE,
            )
        found[cell] = None
    if not found:
        found = {x.var: None for x in system.parameters if x.name in BOX[:1]} or {
            x.var: None for x in system.parameters if x.name in BOX
        }
    if len(found) != 1:
        what = f"several boxes, {one_of([str(u.arg) for u in found], 'and')}" if found else "no box"
        raise PlanError(f"pressure= for `{system.name}`, which has {what}", fix=WRITE)
    return own[next(iter(found))]


def dimensions_of(system: System, box: Parameter) -> int:
    """Of space, as positions and the box say it."""
    found = {1 if len(q.shape) < 2 else q.shape[-1] for q in system.q}
    if len(found) != 1 or box.var.shape not in ((), (d := next(iter(found)),), (d, d)):
        raise PlanError(
            f"pressure= for `{system.name}`, whose positions and box `{box.name}` have other dimensions",
            fix='Write the positions as one array, q: tp.Array["n", 3], and the box as one length or three.',
        )
    return next(iter(found))


def pressure_of(system: System, pressure: Any, made: list[Parameter]) -> str:
    """The name of its parameter: one that the system has, or one that is added to `made`."""
    if isinstance(pressure, str):
        own = {x.name: x for x in system.parameters}
        if pressure not in own or own[pressure].var.shape:
            raise InputError(
                f'pressure="{pressure}": `{system.name}` has no parameter of that name that is one number',
                fix=f"{did_you_mean(pressure, own)}Pass a number: pressure=1.0.",
            )
        return pressure
    fix = "Pass one number here; one for each member of an ensemble goes to evolve(pressure=[...])."
    try:
        value = float(pressure)
    except (TypeError, ValueError):
        raise InputError(f"pressure={shown(pressure)} is not a pressure", fix=fix) from None
    if isinstance(pressure, (bool, np.bool_)) or not np.isfinite(value):
        raise InputError(f"pressure={shown(pressure)} is not a pressure", fix=fix)
    name = free_name(names_in(system), PRESSURE)
    made.append(Parameter(name, UOp.var(name), value))
    return name


def reaches(system: System) -> list[UOp]:
    """Twice the cutoff and skin of every sum over pairs in a box: no width of it may be below."""
    assert system.energy is not None
    out = []
    for u in toposort([system.energy]):
        if u.op is Ops.NEIGHBOURS and len(u.src) > 3:
            out.append(2.0 * (u.src[1] + u.src[2].maximum(0.0)))
    return out + [2.0 * cutoff for cutoff, cell in rooms([system.energy]) if cell.op is not Ops.CONST]
