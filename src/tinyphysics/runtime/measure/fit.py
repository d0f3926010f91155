"""Which states and parameters fit the data best, and how well are they known?  Least squares with the Jacobian of the run.

The Jacobian is that of the steps that run, by tangents or by cotangents, whichever take fewer runs. SciPy's `least_squares`
does the search. What the data do not determine is named with the direction along which they do not change.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.errors import BackendError, InputError, PlanError
from tinyphysics.given import choice, number, shown
from tinyphysics.options import heeds
from tinyphysics.runtime.measure.differentiate import vjp, wanted_names
from tinyphysics.runtime.measure.forward_mode import jvp
from tinyphysics.runtime.stages.resolve import Request
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import inputs, number_array, sizes_from
from tinyphysics.runtime.state.frames import placed_at
from tinyphysics.runtime.state.schedule import time_at
from tinyphysics.system import SizedFamily
from tinyphysics.util import did_you_mean, one_of

LOSSES = ("linear", "soft_l1", "huber", "cauchy", "arctan")
EXAMPLE = 'tp.fit(sim, data={"q": y}, t=times, sigma=1e-3, wrt=["q", "p", "mu"], start={"q": ..., "p": ...})'
TOLERANCE = 1e-12  # of the search: relative changes of the sum, of the values, and of its slope
FLAT = 1e-10  # of the largest singular value, columns of length 1: rounding of a Jacobian of many steps is below it
PART = 1e-6  # of a direction: what has less of it is determined


@dataclass(frozen=True)
class NullDirection:
    """A change of the values that the data do not see: largest part 1, the smallest ones left out."""

    parts: Mapping[str, float]

    def __str__(self) -> str:
        return " ".join(f"{v:+.3g} {name}" for name, v in self.parts.items())

    __repr__ = __str__


@dataclass(frozen=True)
class FitReport:
    """How a fit was found, and what it does not know."""

    converged: bool
    message: str  # of SciPy
    runs: int  # of the simulation alone
    jacobians: int
    by: str  # "jvp" or "vjp": how Jacobians were computed
    undetermined: tuple[NullDirection, ...]
    at_bounds: tuple[str, ...]  # held there: no error bar of theirs, and errors of the others for that value

    def __str__(self) -> str:
        lines = [
            f"{'converged' if self.converged else 'NOT converged'}: {self.message}",
            f"{self.runs} runs, {self.jacobians} Jacobians by {self.by}",
        ]
        lines += [f"the data do not determine {d}" for d in self.undetermined]
        lines += [f"{name} is at its bound and has no error bar" for name in self.at_bounds]
        return "\n".join(lines)

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Fit:
    """What fits best: `values["mu"]` with `errors["mu"]`, one standard deviation; NaN where the data determine none.

    `covariance` has a row for each of `names`.
    """

    values: Mapping[str, Any]
    errors: Mapping[str, Any]
    covariance: Any
    names: tuple[str, ...]
    chi2: float
    dof: int
    report: FitReport

    def __str__(self) -> str:
        flat = [
            np.concatenate([np.ravel(part[name]) for name in self.values])
            for part in (self.values, self.errors)
        ]
        rows = [
            f"{name} = {v:.8g} " + (f"+- {e:.2g}" if math.isfinite(e) else "(no error bar)")
            for name, v, e in zip(self.names, *flat)
        ]
        return "\n".join(
            [*rows, f"chi2 = {self.chi2:.4g} for {self.dof} degrees of freedom", str(self.report)]
        )

    __repr__ = __str__


# --- the problem --------------------------------------------------------------------------------------
@dataclass(eq=False)
class Problem:
    """Data and the run that they are compared with, as functions of one vector of unknowns."""

    setup: Setup
    given: Mapping[str, Any]  # states and parameters where it begins
    shapes: Mapping[str, tuple[int, ...]]  # of what is fitted
    data: Mapping[str, Any]  # (times, shape...)
    weights: Mapping[str, Any]  # 1/sigma; 0 leaves a value out
    times: Any  # each once, in their order
    rows: Any  # of the data: which of the times each has
    t0: float
    runs: int = 0
    jacobians: int = 0
    by: str = ""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the unknowns, one by one."""
        return tuple(
            f"{name}[{', '.join(map(str, at))}]" if shape else name
            for name, shape in self.shapes.items()
            for at in np.ndindex(*shape)
        )

    @cached_property
    def kept(self) -> Any:
        """Which of the data count, in one row."""
        return np.concatenate([np.ravel(w) for w in self.weights.values()]) > 0

    def unpacked(self, x: Any) -> dict[str, Any]:
        out, at = {}, 0
        for name, shape in self.shapes.items():
            size = math.prod(shape)
            part = np.asarray(x)[..., at : at + size].reshape((*np.shape(x)[:-1], *shape))
            out[name], at = part, at + size
        return out

    def packed(self, values: Mapping[str, Any]) -> Any:
        wide = {n: np.broadcast_to(np.asarray(values[n], float), s) for n, s in self.shapes.items()}
        return np.concatenate([np.ravel(v) for v in wide.values()])

    @property
    def more(self) -> dict[str, Any]:
        return {"t0": self.t0, "until": float(self.times[-1]), "save_at": self.times}

    def residuals(self, x: Any) -> Any:
        """(model - data)/sigma, in one row; NaN where the run stops, so that the search takes a shorter step."""
        self.runs += 1
        out = self.setup.evolve(**{**self.given, **self.unpacked(x)}, **self.more)
        if out.stopped is not None:
            return np.full(np.count_nonzero(self.kept), np.nan)
        return self.row({n: np.asarray(out.frames[n])[self.rows] - y for n, y in self.data.items()})

    def row(self, values: Mapping[str, Any]) -> Any:
        """Weighted values beside each other; before the axis of times there may be others."""
        parts = []
        for name, w in self.weights.items():
            v = np.where(w > 0, values[name], 0.0) * w
            parts.append(v.reshape(*v.shape[: v.ndim - w.ndim], -1))
        return np.concatenate(parts, axis=-1)[..., self.kept]

    def jacobian(self, x: Any) -> Any:
        """Of the residuals, (data, unknowns)."""
        self.jacobians += 1
        if self.setup.compiled.known.draws:  # members of an ensemble would draw other numbers
            self.by = "jvp"
            return self.one_by_one(x)
        if not self.by:
            self.by = self.cheaper()
            try:
                return self.computed(x)
            except PlanError as first:  # a lattice has no tangents, and other runs have no cotangents yet
                self.by = "vjp" if self.by == "jvp" else "jvp"
                try:
                    return self.computed(x)
                except PlanError:
                    raise first from None
        return self.computed(x)

    def computed(self, x: Any) -> Any:
        return self.by_tangents(x) if self.by == "jvp" else self.by_cotangents(x)

    def cheaper(self) -> str:
        """A run for each unknown, or a run forward and back for each number that is compared."""
        return "jvp" if len(self.names) <= np.count_nonzero(self.kept) else "vjp"

    def members(self, x: Any, count: int) -> dict[str, Any]:
        """As many equal members: their states have an axis more, parameters are shared."""
        own = {**self.given, **self.unpacked(x)}
        states = {s.name: s.var.shape for s in self.setup.system.states}
        return {n: np.broadcast_to(v, (count, *states[n])) if n in states else v for n, v in own.items()}

    def request(self, given: dict[str, Any]) -> Request:
        return Request(given=given, **self.more)

    def by_tangents(self, x: Any) -> Any:
        """A member for each unknown."""
        count = len(self.names)
        moved = jvp(self.setup, self.unpacked(np.eye(count)), self.request(self.members(x, count)))
        return self.row({n: np.moveaxis(moved[n], 0, 1)[:, self.rows] for n in self.data}).T

    def one_by_one(self, x: Any) -> Any:
        """A run for each unknown, all with the random numbers of that which is compared."""
        request = self.request({**self.given, **self.unpacked(x)})
        ways = (jvp(self.setup, self.unpacked(way), request) for way in np.eye(len(self.names)))
        return np.stack([self.row({n: moved[n][self.rows] for n in self.data}) for moved in ways], axis=1)

    def by_cotangents(self, x: Any) -> Any:
        """A member for each number that is compared."""
        kept, count = np.flatnonzero(self.kept), int(np.count_nonzero(self.kept))
        cotangents, at = {}, 0
        for name, w in self.weights.items():
            seeds = np.zeros((count, w.size))
            own = (kept >= at) & (kept < at + w.size)
            seeds[np.flatnonzero(own), kept[own] - at] = np.ravel(w)[kept[own] - at]
            frames = np.zeros((len(self.times), count, *w.shape[1:]))
            np.add.at(frames, self.rows, np.moveaxis(seeds.reshape(count, *w.shape), 0, 1))
            cotangents[name], at = frames, at + w.size
        request = self.request(self.members(x, count))
        grads = vjp(self.setup, cotangents, request, list(self.shapes), "auto", None, None, True)
        return np.concatenate([np.asarray(grads[n]).reshape(count, -1) for n in self.shapes], axis=1)


# --- what a user gives --------------------------------------------------------------------------------
def numbers(name: str, value: Any) -> Any:
    """An array of real numbers, all of which are there; they may be NaN and inf."""
    try:
        return np.asarray(number_array(name, value), float)
    except InputError as error:
        raise InputError(
            error.what, fix=error.fix if np.ma.is_masked(value) else f"Write {EXAMPLE}."
        ) from None


def a_dict(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not value:
        raise InputError(f"{name}={shown(value)} is not a dict by name", fix=f"Write {EXAMPLE}.")
    return value


OWN_STEPS = "stepped by a method that chooses its own steps"


def own_steps(name: str, why: str = OWN_STEPS) -> PlanError:
    return PlanError(
        f"fit: derivatives of `{name}` at times are not there yet: it is {why}",
        fix='Compile a flow with steps of one length: tp.compile(system, dt=0.01, method="leapfrog").',
    )


def problem_of(setup: Setup, data: Any, t: Any, sigma: Any, wrt: Any, start: Any, t0: float) -> Problem:
    """Everything checked that does not need a search."""
    start, data = dict(a_dict("start", start)), a_dict("data", data)
    if isinstance(setup.source, SizedFamily):
        setup.bind(setup.source, sizes_from(setup.source, start))
    if setup._compiled is not None and setup.compiled.adaptive:
        raise own_steps(setup.system.name)
    if setup.system.clock is not None:
        raise PlanError(
            f"fit: data are at times, and with time= no step of `{setup.system.name}` ends at one",
            fix="Compile it without time=.",
        )
    if missing := [s.name for s in setup.system.states if s.name not in start and s.start is None]:
        raise InputError(f"start has no `{missing[0]}`", fix=f'Pass start={{"{missing[0]}": ..., ...}}.')
    setup.evolve(**start, t0=t0, steps=0, frames=2)  # what a first state decides, and whether it is one
    setup = setup.settled()
    system = setup.system
    if system.kind == "map" or setup.compiled.adaptive:
        raise own_steps(system.name, "a map" if system.kind == "map" else OWN_STEPS)
    if inputs(system, {n: v for n, v in start.items() if n != "dt"}).is_ensemble:
        raise PlanError("fit is that of one run, and start has several members", fix="Fit them one by one.")
    names = wanted_names(setup, wrt)
    if not names:
        raise InputError("fit: wrt names nothing that is fitted", fix='Pass wrt=["q", "mu"].')
    if "dt" in names:
        raise InputError("fit: wrt names dt, but data are at fixed times", fix="Leave dt out of wrt.")
    states = {s.name: s.var.shape for s in system.states}
    known = states | {p.name: p.var.shape for p in system.parameters}
    defaults = {p.name: p.default for p in system.parameters}
    for name in names:
        if name not in start and defaults.get(name) is None:
            raise InputError(f"start has no `{name}`, which is fitted", fix=f'Pass start={{"{name}": ...}}.')
    at = {n: start.get(n, defaults.get(n)) for n in names}
    times, rows = steps_of(t, float(start.get("dt", setup.goal.dt)), t0)
    ys = {name: of_data(name, y, states, len(rows)) for name, y in data.items()}
    weights = {name: weights_of(name, sigma, y) for name, y in ys.items()}
    shapes = {n: known[n] for n in names}
    return Problem(setup, {**start, **at}, shapes, ys, weights, times, rows, t0)


def steps_of(t: Any, dt: float, t0: float) -> tuple[Any, Any]:
    """(the times of steps, each once; which of them each row of the data has)."""
    times = numbers("t", t)
    if times.ndim != 1 or not times.size or not np.isfinite(times).all():
        raise InputError(f"t={shown(t)} is not a list of times", fix="Pass t=[1.0, 2.0, 3.0].")
    steps, between = placed_at(times, dt, t0)
    if (inside := np.flatnonzero(~np.isnan(between))).size:
        k = int(inside[0])
        near = time_at(round((times[k] - t0) / dt), dt, t0)
        raise InputError(
            f"t[{k}]={times[k]:.10g} lies between two steps of dt={dt:g}",
            fix=f"Pass a time that is a whole number of steps, such as {near:.10g}, or compile with a dt that divides it.",
        )
    k = int(np.argmin(steps))
    if steps[k] < 0:
        raise InputError(
            f"t[{k}]={times[k]:g} lies before the run begins, at t0={t0:g}", fix="Pass an earlier t0=."
        )
    found, rows = np.unique(steps, return_inverse=True)
    return np.array([time_at(int(n), dt, t0) for n in found]), np.ravel(rows)


def of_data(name: str, y: Any, states: Mapping[str, tuple[int, ...]], count: int) -> Any:
    if name not in states:
        raise InputError(
            f"data have `{name}`, which is no state",
            fix=f"{did_you_mean(str(name), states)}They may have {one_of(list(states))}.",
        )
    out, shape = numbers(f'data["{name}"]', y), (count, *states[name])
    if out.shape != shape:
        raise InputError(
            f'data["{name}"] has shape {out.shape}',
            fix=f"It has a row for each time, of the shape of `{name}`: {shape}.",
        )
    return out


def weights_of(name: str, sigma: Any, y: Any) -> Any:
    if isinstance(sigma, Mapping) and name not in sigma:
        raise InputError(f"sigma has no `{name}`, which data have", fix=f'Pass sigma={{"{name}": 1e-3}}.')
    own = 1.0 if sigma is None else sigma[name] if isinstance(sigma, Mapping) else sigma
    s = numbers("sigma", own)
    try:
        s = np.broadcast_to(s, y.shape)
    except ValueError:
        raise InputError(
            f'sigma has shape {s.shape}, and data["{name}"] {y.shape}',
            fix="Pass one number, or an array of the shape of the data.",
        ) from None
    if not (s > 0).all():
        raise InputError(
            f"sigma={shown(own)} has a number that is not above zero",
            fix="Pass the standard deviation of each value; np.inf leaves a value out.",
        )
    if not np.isfinite(y[np.isfinite(s)]).all():
        raise InputError(
            f'data["{name}"] has a value that is not finite',
            fix="Pass sigma= as an array with np.inf at values that are missing.",
        )
    return 1.0 / s


def bounds_of(p: Problem, bounds: Any, first: Any) -> tuple[Any, Any]:
    low, high = np.full(first.shape, -np.inf), np.full(first.shape, np.inf)
    if bounds is None:
        return low, high
    lows, highs = ({n: np.full(s, v) for n, s in p.shapes.items()} for v in (-np.inf, np.inf))
    for name, pair in a_dict("bounds", bounds).items():
        if name not in p.shapes:
            raise InputError(
                f"bounds have `{name}`, which is not fitted",
                fix=f"{did_you_mean(str(name), p.shapes)}They may have {one_of(list(p.shapes))}.",
            )
        try:
            least, most = pair
            lows[name], highs[name] = (
                np.broadcast_to(np.asarray(v, float), p.shapes[name]) for v in (least, most)
            )
        except (TypeError, ValueError):
            raise InputError(
                f'bounds["{name}"]={shown(pair)} is not (least, most)',
                fix=f'Pass bounds={{"{name}": (0.5, 2.0)}}.',
            ) from None
    low, high = p.packed(lows), p.packed(highs)
    for k, name in enumerate(p.names):
        if not low[k] < high[k] or not low[k] <= first[k] <= high[k]:
            raise InputError(
                f"{name} starts at {first[k]:g}, and its bounds are {low[k]:g} and {high[k]:g}",
                fix="Pass a start between the bounds, the smaller bound first.",
            )
    return low, high


# --- what is known ------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Known:
    """What a Jacobian says about the unknowns."""

    covariance: Any  # NaN where nothing is known
    rank: int
    null: tuple[NullDirection, ...]


def known_from(J: Any, names: Sequence[str], free: Any) -> Known:
    """(J^T J)^-1 of the free unknowns; those that have a part in a null direction are left out."""
    n = J.shape[1]
    out = np.full((n, n), np.nan)
    own = J[:, free]
    lengths = np.linalg.norm(own, axis=0)
    scale = np.where(lengths > 0, lengths, 1.0)  # so that units do not matter
    _, s, vt = np.linalg.svd(own / scale, full_matrices=True)
    s = np.concatenate([s, np.zeros(len(vt) - len(s))])
    seen = s > FLAT * s.max(initial=0.0)
    flat = vt[~seen]
    open_ = np.abs(flat).max(axis=0, initial=0.0) > PART
    half = vt[seen] / s[seen, None] / scale
    cov = half.T @ half
    cov[open_] = cov[:, open_] = np.nan
    out[np.ix_(free, free)] = cov
    called = [names[k] for k in free]
    return Known(out, int(seen.sum()), tuple(null_direction(v, scale, called) for v in flat))


def null_direction(v: Any, scale: Any, names: Sequence[str]) -> NullDirection:
    parts = np.where(np.abs(v) > PART, v, 0.0) / scale
    parts = parts / parts[np.argmax(np.abs(parts))]
    return NullDirection({name: float(x) for name, x in zip(names, parts) if x})


# --- the search ---------------------------------------------------------------------------------------
def least_squares() -> Any:
    try:
        from scipy.optimize import least_squares as found
    except ImportError:
        raise BackendError("tp.fit needs SciPy", fix='pip install "tinyphysics[fit]"') from None
    return found


@heeds("fit", EXAMPLE)
def fit(
    sim: Setup,
    data: Mapping[str, Any],
    *,
    t: Any,
    start: Mapping[str, Any],
    sigma: Any = None,
    wrt: Sequence[str] | None = None,
    bounds: Mapping[str, Any] | None = None,
    loss: str = "linear",
    t0: float = 0.0,
) -> Fit:
    """Fits initial states and parameters to data: `tp.fit(sim, data={"q": y}, t=times, sigma=1e-3, start=...)`.

    data    states by name, with a row for each time
    t       times of the data: steps of the run, in any order
    start   states and parameters where the search begins; what is not in wrt stays as it is
    sigma   standard deviations of the data: one number, an array of their shape, or a dict by name; np.inf leaves a value
            out. If it is not given, errors are scaled by what is left over: chi2/dof
    wrt     names of what is fitted; by default all states and parameters
    bounds  {"mu": (least, most)}
    loss    "linear", or "soft_l1", "huber", "cauchy", "arctan": how values many sigma away count less
    t0      the time of the start
    """
    search = least_squares()
    if not isinstance(sim, Setup):
        raise InputError(f"fit takes a simulation, not {shown(sim)}", fix="Pass tp.compile(system, dt=0.01).")
    choice("loss", loss, LOSSES)
    if loss != "linear" and sigma is None:
        raise InputError(
            f'loss="{loss}" needs sigma=: it says which values are far away',
            fix="Pass sigma=1e-3, or the linear loss.",
        )
    p = problem_of(sim, data, t, sigma, wrt, start, number("t0", t0, "t0=0.0", "time"))
    first = p.packed({n: p.given[n] for n in p.shapes})
    low, high = bounds_of(p, bounds, first)
    count = int(np.count_nonzero(p.kept))
    if not count:
        raise InputError(
            "no value of the data counts: sigma is infinite everywhere", fix="Pass finite sigmas."
        )
    if not np.isfinite(p.residuals(first)).all():
        raise InputError("the run from start stops before the last time", fix="Begin with another state.")
    end = search(
        p.residuals,
        np.clip(first, np.nextafter(low, np.inf), np.nextafter(high, -np.inf)),  # SciPy begins inside
        p.jacobian,
        bounds=(low, high),
        loss=loss,
        x_scale="jac",
        ftol=TOLERANCE,
        xtol=TOLERANCE,
        gtol=TOLERANCE,
    )
    if end.status <= 0:
        warnings.warn(f"fit has not converged: {end.message}", RuntimeWarning, stacklevel=3)
    return found_fit(p, end, loss, sigma is None, count)


def found_fit(p: Problem, end: Any, loss: str, scaled: bool, count: int) -> Fit:
    free = np.flatnonzero(end.active_mask == 0)
    r = p.residuals(end.x)
    w = np.sqrt(slope_of(loss, r * r))
    known = known_from(p.jacobian(end.x) * w[:, None], p.names, free)
    chi2, dof = 2.0 * float(end.cost), count - known.rank
    covariance = known.covariance
    if scaled:
        covariance = covariance * (chi2 / dof if dof > 0 else np.nan)
    errors = np.sqrt(np.diag(covariance))
    report = FitReport(
        end.status > 0,
        str(end.message),
        p.runs,
        p.jacobians,
        p.by,
        known.null,
        tuple(p.names[k] for k in np.flatnonzero(end.active_mask)),
    )

    def by_name(x: Any) -> dict[str, Any]:
        return {n: v if v.ndim else float(v) for n, v in p.unpacked(x).items()}

    return Fit(by_name(end.x), by_name(errors), covariance, p.names, chi2, dof, report)


def slope_of(loss: str, z: Any) -> Any:
    """The derivative of SciPy's loss by the square of a residual: the weight that it has where the search ended."""
    if loss == "huber":
        return np.where(z <= 1, 1.0, 1.0 / np.sqrt(np.maximum(z, 1.0)))
    slopes = {"linear": np.ones_like(z), "soft_l1": 1 / np.sqrt(1 + z), "cauchy": 1 / (1 + z)}
    return slopes[loss] if loss in slopes else 1 / (1 + z * z)
