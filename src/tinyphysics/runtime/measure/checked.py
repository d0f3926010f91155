"""Did a run keep what it conserves to rounding?  Each such quantity at every frame, against how far rounding takes it.

Every update rounds a number z to within half an ulp, at random: after n steps a quantity F has walked by about
0.42 eps sqrt(n sum((z dF/dz)**2)), eps half an ulp of 1. The band is WIDE of that, and a rounding of F itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.charge import EXACT, Charge
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.ir.ops import MOVEMENT
from tinyphysics.ir.value import source_index
from tinyphysics.plan import Goal
from tinyphysics.planner.methods.catalog import method_of
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.runtime.measure.charges import conserved, found_in
from tinyphysics.runtime.stages.origin import Origin
from tinyphysics.system import System

SPREAD = (
    0.42  # the rms of the rounding of a number, in half ulps of its power of two, over numbers of all sizes
)
WIDE = 10.0  # walks: beyond it is no rounding
ROUNDED = 8.0  # roundings of the quantity itself, where it is computed
STEADY = 8.0  # of a position that moves steadily: its roundings are alike for many steps
FORCES = 0.4  # the change of a momentum in a step, relative to it, times the roundings of a force between two bodies
EPS = {"float64": 2.0**-53, "float32": 2.0**-24, "compensated": 2.0**-46, "mixed": 2.0**-53, "dd": 2.0**-100}
OF_FORCES = EPS | {"mixed": 2.0**-24, "compensated": 2.0**-24}
WORDS = ("compensated", "dd")  # precisions whose numbers are more than the first word of a frame
FEW = 0.7  # after one look, so much more than what was seen may be the variance of a walk; a part of it later
LOOKS = 16  # frames at which sizes are taken
TITLES = {
    "momentum": "Momentum",
    "angular_momentum": "Angular momentum",
    "boost": "Centre of mass",
    "norm": "Norm",
}


@dataclass(frozen=True)
class Check:
    """How far quantities of one name went from where they began, over the frames of a run, and how far rounding goes."""

    name: str
    deviation: float
    band: float

    @property
    def holds(self) -> bool:
        return self.deviation <= self.band  # NaN does not

    def __str__(self) -> str:
        title = TITLES.get(self.name, self.name.capitalize())
        return f"{title} conserved: {'✅' if self.holds else '❌'} {self.deviation:.1e} of {self.band:.1e}"


@dataclass(frozen=True)
class Checks:
    """What `print(out.checks)` shows: a line for each kind of quantity that the method keeps to rounding."""

    rows: tuple[Check, ...]
    why_none: str = ""

    @property
    def hold(self) -> bool:
        return all(row.holds for row in self.rows)

    def __iter__(self) -> Iterator[Check]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> Check:
        return next(row for row in self.rows if row.name == name)

    def __str__(self) -> str:
        return "\n".join(map(str, self.rows)) or self.why_none


def updates_in_a_step(method: str) -> int:
    """How often each number is rounded: stages of a splitting, once of any other."""
    named = method_of(method)
    return max(named.stages, 1) if named.splits else 1


def not_compared(origin: Origin, precision: str) -> str:
    """Why no band is known for a run; empty if one is."""
    run = origin.run
    if precision not in EPS:
        return f"because no band is known in precision={precision!r}"
    if run.system.clock is not None:
        return "because it is stepped in a time of its own"
    if any(not a.inside and a.since is None for a in run.acts):  # a fault is what is looked for
        return "because acts changed its state"
    if not all(isinstance(v, np.ndarray) for v in origin.frames.values()):
        return "because its frames are not in memory"
    return ""


def checks(origin: Origin, goal: Goal, method: str) -> Checks:
    run = origin.run
    system: System = run.system.seen
    holding = [c for c in conserved(run.system, goal, method) if c.kept == EXACT and c.name != "energy"]
    conditional = {f.name for f in found_in(system) if f.condition}
    holding = [c for c in holding if c.name not in conditional]
    precision = goal.precision
    if why := not_compared(origin, precision):
        return Checks((), f"{system.name}: nothing is compared, {why}.")
    if not holding:
        return Checks((), f"{system.name}: no momentum or norm is kept to rounding by {method}.")
    frames = {name: np.asarray(v, float) for name, v in origin.frames.items()}
    columns = len(origin.steps) * run.given.members
    # (numbers of a state, frames and members)
    own = {s.name: frames[s.name].reshape(columns, -1).T for s in system.states}
    own |= {
        name: np.tile(spread_out(v, run.given.members).T, len(origin.steps))
        for name, v in run.given.own.items()
    }
    times = run.t0 + run.dt * np.asarray(origin.steps, float)
    if origin.between is not None:
        times = np.where(np.isnan(origin.between), times, origin.between)
    own["t"] = np.repeat(times, run.given.members)[None]
    if precision in WORDS:
        seen = origin.looked({str(k): c.expression for k, c in enumerate(holding)})
        values = [np.asarray(seen[str(k)], float) for k in range(len(holding))]
    else:
        values = [x.reshape(len(origin.steps), -1) for x in on_columns([c.expression for c in holding], own)]
    # frames of members that have stopped are no numbers, and say nothing of what they did before
    there = np.logical_and.reduce(
        [np.isfinite(v).reshape(len(v), run.given.members, -1).all(axis=2) for v in frames.values()]
    )
    some = np.unique(np.linspace(0, len(origin.steps) - 1, LOOKS).astype(int))
    pick = (some[:, None] * run.given.members + np.arange(run.given.members)).ravel()
    few = {name: v[:, pick] for name, v in own.items()}
    steps, updates = max(origin.last, 1), updates_in_a_step(method)
    t = abs(run.dt) * origin.last
    bodies = max((q.shape[0] for q in system.q if q.ndim > 1), default=0)
    per_kind: dict[str, list[tuple[float, float]]] = {}
    sigma: dict[str, Any] = {}
    for value, c in zip(values, holding):
        moved, forced, size = (x.reshape(len(some), -1) for x in on_columns(walks(c, system), few))
        eps, of_force = EPS[precision], OF_FORCES[precision]
        variance = updates * mean_where(there[some], moved) * (SPREAD * eps) ** 2
        if bodies or of_force > eps:
            variance = variance + max(bodies, 1) * mean_where(there[some], forced) * (FORCES * of_force) ** 2
        walk = np.sqrt(steps * variance)
        if c.name.startswith("boost"):  # the momentum that it moves by has walked, too
            walk = STEADY * walk + t * sigma.get(c.name.replace("boost", "momentum"), 0.0)
        sigma[c.name] = walk
        band = WIDE * walk + ROUNDED * eps * np.where(there[some], size, 0.0).max(axis=0)
        away = np.where(there, np.abs(value - value[:1]), 0.0).max(axis=0)
        worst = int(np.argmax(np.where(np.isfinite(away), away / np.maximum(band, 1e-300), math.inf)))
        stem = c.name.partition("[")[0]
        per_kind.setdefault(stem, []).append((float(away.ravel()[worst]), float(np.ravel(band)[worst])))
    rows = []
    for stem, found in per_kind.items():
        bad = [x for x in found if not x[0] <= x[1]]
        rows.append(Check(stem, *max(bad or found, key=lambda x: x[0])))
    return Checks(tuple(rows))


def mean_where(there: Any, x: Any) -> Any:
    """Means over frames (frames, members), of those that are there."""
    return np.where(there, x, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)


def spread_out(v: Any, members: int) -> Any:
    """The numbers of a parameter, a row for each member."""
    rows = np.asarray(v, float).reshape(len(v), -1)
    return np.broadcast_to(rows, (members, rows.shape[1])) if len(rows) == 1 else rows


def walks(c: Charge, system: System) -> list[UOp]:
    """What one rounding of every number does to a quantity, what one of every force does, and the sizes of its terms."""
    states = [*system.q, *system.p]
    own = [s * z for s, z in zip(gradient(c.expression, states), states)]
    n = len(system.q)
    return [
        UOp.sum_of((x * x).sum() for x in own),
        UOp.sum_of((x * x).sum() for x in own[n:]),
        UOp.sum_of(abs(x).sum() for x in own),
    ]


# fmt: off
ON_COLUMNS: dict[Ops, Any] = {
    Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply, Ops.DIV: np.divide, Ops.NEG: np.negative,
    Ops.ABS: np.abs, Ops.SQRT: np.sqrt, Ops.POW: np.power, Ops.SIN: np.sin, Ops.COS: np.cos, Ops.EXP: np.exp,
}
# fmt: on


def on_columns(roots: list[UOp], env: Mapping[str, Any]) -> list[Any]:
    """Values of expressions at many states in plain float64: arrays of (numbers of the expression, states)."""
    values: dict[UOp, Any] = {}
    with np.errstate(all="ignore"):
        for u in toposort(roots):
            src = [values[s] for s in u.src]
            if u.op is Ops.VAR:
                if str(u.arg) not in env:
                    raise NotImplementedError(f"nothing is known of `{u.arg}`")
                values[u] = env[str(u.arg)]
            elif u.op is Ops.CONST:
                values[u] = np.full((u.size, 1), float(u.arg))
            elif u.op in ON_COLUMNS:
                values[u] = ON_COLUMNS[u.op](*src)
            elif u.op is Ops.STACK:
                values[u] = np.concatenate(np.broadcast_arrays(*src))
            elif u.op is Ops.REDUCE and u.arg[0] == "sum":
                x = np.broadcast_to(src[0], (u.src[0].size, src[0].shape[1]))
                kept = x.reshape(*u.src[0].shape, -1).sum(axis=u.arg[1])
                values[u] = kept.reshape(u.size, -1)
            elif len(u.src) == 1 and u.op in MOVEMENT:
                x = np.broadcast_to(src[0], (u.src[0].size, src[0].shape[1]))
                at = source_index(u)
                hole = np.array([i is None for i in at])[:, None]
                values[u] = np.where(hole, 0.0, x[[0 if i is None else i for i in at]])
            else:
                raise NotImplementedError(u.op)
    return [
        np.broadcast_to(values[r], (values[r].shape[0], max(v.shape[1] for v in env.values()))) for r in roots
    ]
