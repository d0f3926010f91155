"""How does a bias grow?  After every so many steps each walker leaves a hill where it is; all walkers share them.

A hill is a Gaussian, added to a grid as the numbers of its spline (rules/formulas/splines.py), which is the energy that
steps follow. Well-tempered (Barducci, Bussi & Parrinello 2008): a hill is lower by exp(-V/((f - 1) k_B T)) where the bias
is V already, so that it comes to rest at -(1 - 1/f) F. Walkers of one turn see the bias before it and are summed in the
order of their index, with arithmetic that has the same bits on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.rules.formulas.splines import BESIDE, cubics
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.stages.execute import observer_program
from tinyphysics.runtime.state.across import TOGETHER, Across, History
from tinyphysics.runtime.state.host_exp import exp
from tinyphysics.runtime.state.run import Run, made
from tinyphysics.system import System

Axes = Sequence[tuple[float, float, int, bool]]
OFF = "off the grid"  # why a member stops


def hills(system: System) -> Across:
    _, name, axes, width, height, every, factor = system.biased_by
    told = f"{TOGETHER}hills every {every}"
    return Across("hills", every, told, ["hills", every], lambda run, memory: Hills(run, memory))


def on_axis(s: Any, axis: tuple[float, float, int, bool]) -> Any:
    """A place in cells from the lower end."""
    low, high, n, periodic = axis
    x = (s - low) * (n / (high - low))
    return x - n * np.floor(x * (1.0 / n)) if periodic else x


@dataclass(frozen=True, eq=False)
class Located:
    """Places (many, cvs) on a grid: the flat index and the weight of each of the numbers that a spline reads there."""

    good: Any  # which are on the grid, ends included
    index: Any  # (4**cvs, many)
    weights: Any

    def read(self, grid: Any) -> Any:
        """The spline there; NaN off the grid."""
        terms = grid[self.index] * self.weights
        out = terms[0]
        for term in terms[1:]:  # in this order on every machine
            out = out + term
        return np.where(self.good, out, np.nan)


def located(s: Any, axes: Axes) -> Located:
    good = np.isfinite(s).all(-1)
    index, weights = np.zeros((1, len(s)), np.int64), np.ones((1, len(s)))
    for k, axis in enumerate(axes):
        x, n = on_axis(s[:, k], axis), axis[2]
        good = good & (x >= 0) & (x <= n)
        x = np.where(good, x, 0.0)
        cell = np.minimum(np.floor(x), n - 1)
        own = np.stack(cubics(x - cell))
        places = cell.astype(np.int64) + np.arange(4)[:, None]
        index = (index[:, None] * (n + BESIDE) + places).reshape(-1, len(s))
        weights = (weights[:, None] * own).reshape(-1, len(s))
    return Located(good, index, weights)


def spline_at(grid: Any, s: Any, axes: Axes) -> Any:
    """The spline at places (many, cvs); NaN off the grid."""
    return located(s, axes).read(grid)


def hill(s: Any, width: Sequence[float], axes: Axes) -> Any:
    """The numbers of the spline of a Gaussian of height 1 at one place."""
    found = []
    for x, w, (low, high, n, periodic) in zip(s, width, axes):
        cell = (high - low) / n
        away = low + cell * np.arange(-2, n + BESIDE) - x
        if periodic:
            away = away - (high - low) * np.floor(away / (high - low) + 0.5)
        g = exp(-0.5 * (away / w) ** 2)
        found.append(g[1:-1] - (g[2:] - 2.0 * g[1:-1] + g[:-2]) * (1 / 6))
    out = found[0]
    for one in found[1:]:
        out = out[..., None] * one
    return out.reshape(-1)


class Hills:
    """The bias of one run."""

    only_looks = True

    def __init__(self, run: Run, memory: Mapping[str, Any]) -> None:
        self.run = run
        _, self.name, self.axes, self.width, self.height, self.every, self.factor = run.system.biased_by
        _, _, *cvs = run.system.bias
        looked = {f"s{k}": u for k, u in enumerate(cvs)} | {"kT": run.system.heat[0]}
        loops = run.loops and run.target.backend != "python"
        self.engine = engine_for(run.target, observer_program(run, looked), None, run.threads, loops)
        self.count = len(cvs)
        first = run.given.params[self.name]
        self.grid = np.array(memory.get("grid", first[0]), np.float64)
        self.jumps = np.array(
            memory.get("jumps", np.zeros(run.given.members))
        )  # of the bias, where walkers were
        self.added = int(memory["added"][0]) if "added" in memory else 0
        self.dtype = first.dtype
        self.loop: Any = None  # of the engine that looks
        self.places: list[Any] = []  # (walkers, cvs) of each turn of this call, NaN of those that left none
        self.heights: list[Any] = []
        self.steps: list[int] = []
        self.before = self.grid.copy(), self.jumps.copy()  # as the call began

    @property
    def params(self) -> dict[str, Any]:
        return {self.name: self.grid.astype(self.dtype)[None]}

    @cached_property
    def wanted(self) -> tuple[set[str], set[str]]:
        program = made(self.engine.program)
        return {p.name for p in program.params}, {s.name for s in program.states}

    def looked(self, states: Mapping[str, Any], n: int) -> tuple[Any, Any]:
        """Collective variables (walkers, cvs), and the thermal energy of each walker."""
        r, (params, words) = self.run, self.wanted
        own = {name: v for name, v in r.given.params.items() if name in params}
        seen_by = {k: v for k, v in states.items() if k in words}, own, r.given.members, r.dt, r.t0
        m = self.loop = (
            self.engine.start(*seen_by) if self.loop is None else self.engine.begin_again(self.loop, *seen_by)
        )
        m.steps = n
        seen = {name: np.asarray(here(v), np.float64) for name, v in self.engine.synchronised(m).items()}
        return np.stack([seen[f"s{k}"] for k in range(self.count)], -1), seen["kT"]

    def done(
        self, n: int, states: Mapping[str, Any], stopped: frozenset[int]
    ) -> tuple[dict[str, Any], dict[int, str]]:
        s, kT = self.looked(states, n)
        at = located(s, self.axes)
        lost = {k: OFF for k in np.flatnonzero(~at.good).tolist() if k not in stopped}
        left = at.good.copy()
        left[list(stopped)] = False
        heights = np.where(left, self.height_at(at.read(self.grid), kT), 0.0)
        added = self.together(s, heights, left)
        self.grid, self.added = self.grid + added, self.added + int(left.sum())
        self.jumps = self.jumps + np.where(left, at.read(added), 0.0)
        self.places.append(np.where(left[:, None], s, np.nan))
        self.heights.append(heights)
        self.steps.append(n)
        return dict(states), lost

    def together(self, s: Any, heights: Any, left: Any) -> Any:
        """The hills of one turn, in the order of walkers."""
        out = np.zeros(self.grid.shape)
        for k in np.flatnonzero(left).tolist():
            out = out + heights[k] * hill(s[k], self.width, self.axes)
        return out

    def height_at(self, there: Any, kT: Any) -> Any:
        if math.isinf(self.factor):
            return np.full(len(there), self.height)
        there = np.where(np.isfinite(there), np.maximum(there, 0.0), 0.0)
        return self.height * exp(-there / ((self.factor - 1.0) * kT))

    def changed(self) -> dict[str, History]:
        return {}  # energies are those without the bias

    def memory(self) -> dict[str, Any]:
        return {"grid": self.grid, "jumps": self.jumps, "added": np.array([self.added], np.int64)}
