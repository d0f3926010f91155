"""How does a system move when it is fast?  With T = sqrt(p**2 c**2 + m**2 c**4) - m c**2 in the place of p**2/2m."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tinyphysics.analysis.masses import masses
from tinyphysics.analysis.separable import separable
from tinyphysics.errors import PlanError
from tinyphysics.ir import Ops, UOp
from tinyphysics.ir.ops import ELEMENTWISE
from tinyphysics.rules.equality.ranges import range_of
from tinyphysics.rules.formulas.relativity import relativistic_energy
from tinyphysics.rules.identities.real import simplify
from tinyphysics.system import Parameter, SizedFamily, System

SPACE = 3  # components of a last axis that is space; longer ones are particles on a line
LIGHT = "c"
FIX = "Write the energy yourself: tp.sqrt(p @ p * c**2 + m**2 * c**4) and the other terms."


def relativistic(system: System | SizedFamily) -> System | SizedFamily:
    """The same with fast particles; the speed of light is its parameter c, 1 if it has none."""
    if isinstance(system, SizedFamily):
        family = system
        return replace(
            family, build=lambda sizes: fast(family.build(sizes)), shapes={**family.shapes, LIGHT: ()}
        )
    return fast(system)


def refused(system: System, why: str, site: Any = None) -> PlanError:
    return PlanError(f'kinetics="relativistic" for `{system.name}`: {why}', site=site, fix=FIX)


def fast(system: System) -> System:
    if system.kind != "hamiltonian":
        raise refused(system, f"it is given by its {system.kind}")
    if system.motion is not None:
        raise refused(
            system, "it is given by its Lagrangian, whose velocities would not be those of fast particles"
        )
    if system.levels:
        raise refused(system, "it has fast and slow parts")
    split = separable(system)
    if not split:
        raise refused(system, f"its energy is not shown to be T(p) + V(q): {split.because}", split.site)
    if system.time is not None and system.time in split.T.leaves:
        raise refused(system, "its kinetic energy depends on time")
    found = masses(system, split.T)
    if not found:
        raise refused(system, found.because)
    if any(s.name == LIGHT for s in system.states):
        raise refused(system, f"`{LIGHT}`, the speed of light, is one of its states")
    own = next((x for x in system.parameters if x.name == LIGHT), None)
    light = Parameter(LIGHT, UOp.var(LIGHT), 1.0) if own is None else own
    if light.var.shape:
        raise refused(system, f"its parameter `{LIGHT}` is an array, and the speed of light is one number")
    terms = [of_particles(system, p, w, light.var) for p, w in zip(system.p, found.inverse)]
    V = [] if not split.V.leaves & frozenset(system.q) else [split.V]
    parameters = system.parameters if own is not None else (*system.parameters, light)
    signs = dict.fromkeys(weighing(system, found.inverse), "not negative") | {light.var: "positive"}
    signed = tuple(replace(x, sign=signs.get(x.var, x.sign)) for x in parameters)
    return replace(system, energy=UOp.sum_of([*terms, *V]), parameters=signed, function=None)


def weighing(system: System, inverse: Sequence[UOp]) -> list[UOp]:
    """The parameters that must not be negative so that no mass is; T of a negative one would be another energy."""
    out: list[UOp] = []
    for m in simplify([1.0 / w for w in inverse]):
        known = dict.fromkeys((x.var for x in system.parameters), (0.0, math.inf))
        if range_of(m, known)[0] < 0.0:
            raise refused(system, f"its mass {m} is not shown to be positive")
        for x in list(known):
            fewer = {y: r for y, r in known.items() if y is not x}
            known = fewer if range_of(m, fewer)[0] >= 0.0 else known
        out += known
    return out


def of_particles(system: System, p: UOp, w: UOp, c: UOp) -> UOp:
    """The energy of the particles whose momenta these are; w is 1/m for each number."""
    squares = p * p
    if p.shape and p.shape[-1] <= SPACE:
        first = of_rows(w)
        if first is None:
            raise refused(
                system,
                f"the components of {p.arg} are not shown to have one mass: they may not be one particle's",
            )
        squares, w = squares.sum(-1), first
    (m,) = simplify([1.0 / w])
    energies = relativistic_energy(squares, m.expand(squares.shape), c.expand(squares.shape))
    return energies.sum()


def of_rows(w: UOp) -> UOp | None:
    """w without its last axis, along which it is the same; None if that is not seen."""
    if w.op is Ops.CONST:
        return UOp.const(w.arg, w.dtype, w.shape[:-1])
    if w.op is Ops.EXPAND:
        s = w.src[0]
        if s.shape and s.shape[-1] != 1:
            return None
        return s.reshape(s.shape[:-1]).expand(w.shape[:-1]) if s.shape else s.expand(w.shape[:-1])
    if w.op is Ops.RESHAPE and w.shape[-1] == 1:
        return w.src[0].reshape(w.shape[:-1])
    if w.op in ELEMENTWISE:
        src = [of_rows(s) for s in w.src]
        known = tuple(s for s in src if s is not None)
        return UOp(w.op, w.dtype, w.shape[:-1], known, w.arg) if len(known) == len(src) else None
    return None
