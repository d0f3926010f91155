"""What is added to an energy so that rare events come soon?  Hills on a grid, or springs on collective variables.

`bias=tp.metadynamics(...)` and `bias=tp.umbrella(...)` are read here. The energy that a step follows has the bias in it; the
one that a user sees, System.seen, has not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, PlanError, ShapeError
from tinyphysics.given import number, shown, whole
from tinyphysics.ir import UOp
from tinyphysics.options import heeds
from tinyphysics.rules.formulas.splines import BESIDE, spline
from tinyphysics.system import Parameter, SizedFamily, System

GRID, CENTRE, STIFF = "bias_grid", "umbrella_centre", "umbrella_k"
HILLS, SPRINGS = "metadynamics", "umbrella"
LEAST = 2.0  # cells that a hill is wide, so that a spline follows it
MOST = 3  # collective variables
CV = "Write a function of positions that returns a number: tp.metadynamics(lambda q: q[0], ...)."


@dataclass(frozen=True, eq=False)
class Metadynamics:
    """Made by tp.metadynamics."""

    cv: tuple[Callable[..., Any], ...]
    width: tuple[float, ...]
    height: float
    every: int
    grid: tuple[tuple[float, float, int], ...]
    periodic: tuple[bool, ...]
    bias_factor: float


@dataclass(frozen=True, eq=False)
class Umbrella:
    """Made by tp.umbrella."""

    cv: Callable[..., Any]
    centre: Any  # a number, or one for each member
    k: Any
    period: float | None


@heeds("metadynamics", "tp.metadynamics(lambda q: q, width=0.1, height=0.5, every=100, grid=(-2, 2, 100))")
def metadynamics(
    cv: Any,
    *,
    width: Any,
    height: float,
    every: int,
    grid: Any,
    bias_factor: float = 10.0,
    periodic: Any = False,
) -> Metadynamics:
    """A bias of hills where the system has been: `compile(..., temperature=1.0, bias=tp.metadynamics(...))`.

    cv           a function of positions that returns a number, or one to three of them
    width        of a hill, in each of them: at least two cells of the grid
    height       of the first hill, an energy; later ones are lower where there are hills already
    every        the number of steps between two hills
    grid         (low, high, cells), for each of them
    bias_factor  f: hills are h exp(-V/((f - 1) kT)), and F = -f/(f - 1) V. math.inf keeps their height, and does not converge
    periodic     whether low and high are the same place, for each of them
    """
    functions = tuple(cv) if isinstance(cv, (list, tuple)) else (cv,)
    if not 1 <= len(functions) <= MOST or not all(map(callable, functions)):
        raise InputError(f"tp.metadynamics: cv={shown(cv)} is not one to {MOST} functions", fix=CV)
    n = len(functions)
    grid = grid.tolist() if isinstance(grid, np.ndarray) else grid
    rows = isinstance(grid, (list, tuple)) and any(isinstance(g, (list, tuple)) for g in grid)
    grids = tuple(tuple(g) if isinstance(g, (list, tuple)) else () for g in (grid if rows else (grid,)))
    widths = tuple(number("width", w, "width=0.1") for w in for_each("width", width, n))
    wraps = for_each("periodic", periodic, n)
    if not all(isinstance(x, (bool, np.bool_)) for x in wraps):
        raise InputError(
            f"tp.metadynamics: periodic={shown(periodic)} is neither True nor False",
            fix="Pass periodic=True.",
        )
    if len(grids) != n or any(len(g) != 3 for g in grids):
        raise InputError(
            f"tp.metadynamics: grid={shown(grid)} for {n} collective variable{'s' if n > 1 else ''}",
            fix="Pass grid=(low, high, cells) for each.",
        )
    found = []
    for (low, high, cells), w in zip(grids, widths):
        lo, hi, count = (
            number("low", low, "low=0.0"),
            number("high", high, "high=1.0"),
            whole("cells", cells, 4),
        )
        if not lo < hi:
            raise InputError(f"tp.metadynamics: a grid from {lo} to {hi}", fix="Pass the lower end first.")
        if not w >= LEAST * (hi - lo) / count:
            raise InputError(
                f"tp.metadynamics: width={w} is below two cells of the grid, {2 * (hi - lo) / count:.4g}",
                fix=f"Pass {math.ceil(LEAST * (hi - lo) / w) if w > 0 else 100} cells or more, or wider hills.",
            )
        found.append((lo, hi, count))
    size, factor = number("height", height, "height=0.5"), bias_factor
    if not size > 0:
        raise InputError(f"tp.metadynamics: height={size} is not above zero", fix="Pass height=0.5.")
    if not (isinstance(factor, (int, float)) and factor > 1):
        raise InputError(
            f"tp.metadynamics: bias_factor={shown(factor)} is not above 1",
            fix="Pass bias_factor=10, or math.inf.",
        )
    return Metadynamics(
        functions, widths, size, whole("every", every, 1), tuple(found), wraps, float(factor)
    )  # fmt: skip


@heeds("umbrella", "tp.umbrella(lambda q: q, centre=[-1.0, 0.0, 1.0], k=50.0)")
def umbrella(cv: Any, centre: Any, k: Any, *, period: float | None = None) -> Umbrella:
    """A bias k (cv - centre)²/2 of each member: `compile(..., temperature=1.0, bias=tp.umbrella(...))`.

    cv      a function of positions that returns a number
    centre  of the spring: a number, or one for each member
    k       its stiffness, likewise
    period  of a cv that is an angle: 2*math.pi
    """
    if not callable(cv):
        raise InputError(
            f"tp.umbrella: cv={shown(cv)} is not a function",
            fix="Write a function of positions that returns a number: tp.umbrella(lambda q: q[0], centre=0.0, k=50.0).",
        )
    for name, value in (("centre", centre), ("k", k)):
        x = np.array([number(name, v, f"{name}=1.0") for v in np.ravel(np.asarray(value, object))])
        x = x.reshape(np.shape(value))
        if x.ndim > 1 or not np.isfinite(x).all() or name == "k" and not (x >= 0).all():
            raise InputError(
                f"tp.umbrella: {name}={shown(value)}",
                fix=f"Pass a number, or one for each member: {name}=1.0.",
            )
    if period is not None and not number("period", period, "period=6.28") > 0:
        raise InputError(f"tp.umbrella: period={period} is not above zero", fix="Leave it out.")
    return Umbrella(cv, centre, k, period)


def for_each(name: str, value: Any, n: int) -> tuple[Any, ...]:
    """One for each collective variable: one for all, or as many as there are."""
    if not isinstance(value, (list, tuple, np.ndarray)) or np.ndim(value) == 0:
        return (value,) * n
    if len(value) != n:
        raise InputError(
            f"tp.metadynamics: {name}={shown(value)} for {n} collective variable{'s' if n > 1 else ''}",
            fix="Pass one, or one for each.",
        )
    return tuple(value)


def with_bias(system: Any, bias: Any, trace: Callable[[System, Any], UOp]) -> Any:
    """The system with a bias; `trace` reads a function of its state as an expression."""
    if not isinstance(bias, (Metadynamics, Umbrella)):
        raise InputError(
            f"bias={shown(bias)} is no bias", fix="Pass bias=tp.metadynamics(...) or bias=tp.umbrella(...)."
        )
    if isinstance(system, SizedFamily):
        family = system
        own = [GRID] if isinstance(bias, Metadynamics) else [CENTRE, STIFF]
        shapes = {**family.shapes, **{name: shape_of(bias) if name == GRID else () for name in own}}
        return replace(family, build=lambda sizes: biased(family.build(sizes), bias, trace), shapes=shapes)
    return biased(system, bias, trace)


def shape_of(bias: Any) -> tuple[int, ...]:
    return (math.prod(n + BESIDE for _, _, n in bias.grid),)


def biased(system: System, bias: Any, trace: Callable[[System, Any], UOp]) -> System:
    if not system.heat:
        raise PlanError(
            f"bias= for `{system.name}` without a bath: there is no temperature to explore at",
            fix="Compile it with temperature=1.0 too.",
        )
    if system.structure.turning:
        raise PlanError(
            f"bias= cannot be combined with the bodies of `{system.name}` yet, which turn",
            fix="Leave bias= out; exchange= takes such bodies over barriers.",
        )
    functions = bias.cv if isinstance(bias, Metadynamics) else (bias.cv,)
    cvs = [checked(system, trace(system, f)) for f in functions]
    taken = {s.name for s in system.states} | {p.name for p in system.parameters}
    if isinstance(bias, Metadynamics):
        name = free(GRID, taken)
        grid = UOp.var(name, shape_of(bias))
        axes = tuple((*g, p) for g, p in zip(bias.grid, bias.periodic))
        energy = spline(grid, cvs, axes)
        made = [Parameter(name, grid, np.zeros(grid.shape).tolist())]
        how: tuple[Any, ...] = (HILLS, name, axes, bias.width, bias.height, bias.every, bias.bias_factor)
    else:
        names = free(CENTRE, taken), free(STIFF, taken)
        centre, k = (UOp.var(n) for n in names)
        x = cvs[0] - centre
        if bias.period is not None:
            from tinyphysics.front.functions import floor

            x = x - bias.period * floor(x * (1.0 / bias.period) + 0.5)
        energy = 0.5 * k * x * x
        made = [Parameter(n, v, None) for n, v in zip(names, (centre, k))]
        given = tuple(np.asarray(v, float).tolist() for v in (bias.centre, bias.k))
        how = (SPRINGS, names, tuple(tuple(v) if isinstance(v, list) else v for v in given), bias.period)
    assert system.energy is not None
    return replace(
        system,
        energy=system.energy + energy,
        bias=(system.energy, energy, *cvs),
        biased_by=how,
        parameters=(*system.parameters, *made),
        function=None,
    )


def checked(system: System, cv: UOp) -> UOp:
    if cv.shape:
        raise ShapeError(f"a collective variable of shape {cv.shape} is no number", fix=CV)
    if moved := next((str(v.arg) for v in cv.leaves if v in set(system.p)), None):
        raise PlanError(f"a collective variable that depends on the momentum `{moved}`", fix=CV)
    if not cv.leaves & set(system.q):
        raise PlanError("a collective variable that depends on no position", fix=CV)
    return cv


def free(name: str, taken: set[str]) -> str:
    return name if name not in taken else free(f"{name}_", taken)


def springs_of(system: Any) -> dict[str, Any]:
    """Parameters of an umbrella, one for each member, as a run is given them."""
    how: Sequence[Any] = getattr(system, "biased_by", ()) or ()
    if not how or how[0] != SPRINGS:
        return {}
    return {name: np.asarray(v, float) for name, v in zip(how[1], how[2])}
