"""How fast do nearby orbits part?  Lyapunov exponents with an error, and how long a computed orbit means something."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, PhysicsWarning
from tinyphysics.given import shown, whole
from tinyphysics.plan import Goal
from tinyphysics.planner.methods.catalog import method_of
from tinyphysics.planner.methods.method import tolerance_of
from tinyphysics.runtime.measure.indicators import growths
from tinyphysics.runtime.measure.tangents import Run, Wanted, run_with_directions
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.trajectory import Stop
from tinyphysics.util import frames_to_user

SHORT = ("float32", "mixed", "compensated")  # precisions whose forces are float32
EPSILON = dict.fromkeys(SHORT, 2.0**-23) | {"dd": 2.0**-104}  # of a precision; of any other 2**-52
# of a stride: the logarithm of what one direction may grow by (its square is a float), and by how much two of them may part
GROWS, PARTS = dict.fromkeys(SHORT, 30.0), dict.fromkeys(SHORT, 4.0)
PILOT, FEW = 128, 64  # steps that are looked at one by one, and members, to choose the stride
MOST_WRITTEN = 40_000  # operations that make directions orthonormal
ROWS, ROOM = 2048, 1 << 22  # of the history: at most so many, and numbers of all members together
FEWEST_ROWS, FEWEST_BLOCKS = 64, 8
LONGEST = 3  # levels of blocks that an error is read off: of 8 to 64 blocks
POWERS = 12.0  # directions of regular orbits grow by powers of the time, whose logarithm is less than that
FINER = 16.0  # by which a tolerance is smaller, to see what it does
MARGIN = 1.5  # by which the error of so few blocks differs by chance


@dataclass(frozen=True, eq=False)
class Lyapunov:
    """Lyapunov exponents of a run, per unit of time, the largest first; of an ensemble an array with a row for each member.

    Members of an ensemble that stopped have NaN.

    `value` is the largest and `error` its standard error; `spectrum` and `errors` are those of all directions that were asked
    for. `history` has the times and the exponents as they were measured up to then. `horizon` is the time after which a
    computed orbit has nothing to do with the true one, and `lost` the steps after which rounding alone has made it another
    one. `dimension` is that of Kaplan and Yorke, where the whole spectrum is known. `converged` is False where the error was
    still growing with the length of the blocks that it is estimated from.
    """

    value: Any
    error: Any
    spectrum: Any
    errors: Any
    history: Any
    horizon: Any
    lost: Any
    dimension: Any
    converged: Any
    time: float  # that was averaged over
    discarded: float
    stride: int = field(repr=False)

    def __repr__(self) -> str:
        if np.ndim(self.value):
            low, high = float(np.nanmin(self.value)), float(np.nanmax(self.value))
            told = "" if np.all(self.converged) else f", {int(np.sum(~self.converged))} of them not converged"
            return f"<Lyapunov exponents of {len(self.value)} members, {low:.4g} to {high:.4g}{told}>"
        told = "" if self.converged else ", not converged"
        return f"<Lyapunov exponent {self.value:.5g} ± {self.error:.2g}{told}>"

    def __str__(self) -> str:
        if np.ndim(self.value):
            return repr(self)
        lines = [
            f"Lyapunov exponent {self.value:.5g} ± {self.error:.2g} per unit of time, over {self.time:g}"
        ]
        if not self.converged:
            lines.append("not converged: the error still grows with the length of its blocks; run it longer")
        if len(self.spectrum) > 1:
            lines.append("spectrum " + ", ".join(f"{x:.5g}" for x in self.spectrum))
        if self.dimension is not None:
            lines.append(f"Kaplan-Yorke dimension {self.dimension:.4g}")
        if math.isfinite(self.horizon):
            lines.append(f"a computed orbit follows the true one for about {self.horizon:.4g}")
        return "\n".join(lines)


# --- errors -----------------------------------------------------------------------------------------
def block_errors(increments: Any) -> tuple[Any, Any]:
    """(the standard error of the mean of each column, is it converged) of correlated numbers.

    Neighbours are averaged in pairs again and again. The error of their mean settles when blocks are longer than what the
    numbers remember, so it is read off the longest blocks. Orbits that stick to an island remember long: there it still
    grows from level to level, is taken to grow as much once more, and is not converged.
    """
    x = np.asarray(increments, float)
    levels: list[Any] = []
    while len(x) >= FEWEST_BLOCKS:
        n = len(x)
        levels.append(x.std(axis=0, ddof=1) / math.sqrt(n) * quantile(n))
        x = 0.5 * (x[: n - n % 2 : 2] + x[1 : n - n % 2 + 1 : 2])
    if not levels:
        return np.full(x.shape[1:], np.inf), np.zeros(x.shape[1:], bool)
    longest = np.array(levels[-LONGEST:])
    worst = longest.max(axis=0)
    if len(levels) <= LONGEST:
        return worst, np.zeros(worst.shape, bool)
    shorter = np.maximum(levels[-LONGEST - 1], levels[-LONGEST])
    grows = np.divide(worst, shorter, out=np.ones_like(worst), where=shorter > 0.0)
    return worst * np.clip(grows, 1.0, 2.0), grows <= MARGIN


def quantile(n: int) -> float:
    """By how much two standard errors of n numbers are more than two: Student's t at 95 %, over 1.96."""
    v = n - 1
    return 1.0 + (1.96**2 + 1.0) / (4.0 * v) + (5.0 * 1.96**4 + 16.0 * 1.96**2 + 3.0) / (96.0 * v * v)


def kaplan_yorke(spectrum: Any) -> float:
    """The dimension in which the exponents begin to add up to less than zero."""
    sums = np.cumsum(spectrum)
    if sums[0] < 0.0:
        return 0.0
    below = np.flatnonzero(sums < 0.0)
    if not len(below):
        return float(len(sums))
    j = int(below[0])
    return float(j + sums[j - 1] / abs(spectrum[j]))


# --- the measurement --------------------------------------------------------------------------------
def checked_spectrum(spectrum: Any, numbers: int) -> int:
    if spectrum is None:
        return 1
    most = max(1, min(numbers, math.isqrt(MOST_WRITTEN // (2 * numbers))))
    count = numbers if isinstance(spectrum, str) and spectrum == "all" else spectrum
    if type(count) is int and most < count <= numbers:
        work = 2 * count**2 * numbers
        raise InputError(
            f"{count} exponents of {numbers} numbers take about {work:,} operations each time that directions are made "
            f"orthonormal, and they are written out up to {MOST_WRITTEN:,}",
            fix=f"Pass spectrum={most}, or fewer.",
        )
    if count is not spectrum:
        return numbers
    if isinstance(spectrum, bool) or not isinstance(spectrum, int) or not 1 <= spectrum <= numbers:
        raise InputError(
            f"spectrum={shown(spectrum)} is not a number of exponents",
            fix=f'Pass spectrum=1 to {numbers}, or "all".',
        )
    return spectrum


def steps_of(r: Run, steps: Any, until: Any) -> int:
    if (steps is None) is (until is None):
        raise InputError(
            "lyapunov needs either steps= or until=, and not both", fix="Write lyapunov(..., until=1e4)."
        )
    n = steps if until is None else math.floor((float(until) - r.t0) / r.dt + 1e-9)
    if isinstance(n, bool) or int(n) != n or n < FEWEST_ROWS:
        raise InputError(
            f"{n} steps are too few for an exponent",
            fix=f"Pass at least {FEWEST_ROWS} steps; an error needs some thousands.",
        )
    return int(n)


def growth(r: Run, every: int, steps: int, rows_every: int, **more: Any) -> tuple[Any, Any]:
    """(times, the logarithm of what each direction has grown by: (rows, members, directions)) of a run."""
    out = r.evolve(every, steps=steps, frames=2, observe={"grown": growths}, observe_every=rows_every, **more)
    if (s := out.stopped) is not None and (
        not r.is_ensemble or len(out.stops) >= r.members or s.error is not None
    ):
        raise stopped_early(r, s)
    values = np.asarray(out["grown"])
    return np.asarray(out.times("grown")), values.reshape(len(values), r.members, -1)


def stopped_early(r: Run, s: Stop) -> InputError:
    """The error of a run that ended before its exponents were known."""
    own = {x.name for x in r.plain.system.states}
    at = s.where[0] if s.where else ""
    if s.cause == "not finite" and at and at not in own:
        return InputError(
            f"every direction has shrunk to nothing at step {s.step} (t = {s.t:g}): the step takes states near by to one "
            "state, and its largest exponent is minus infinity",
            fix="Nothing is wrong with the run: evolve it, and look where it goes.",
        )
    other = "Choose another state" if r.plain.system.kind == "map" else "Shorten dt, or choose another state"
    return InputError(
        f"the run stopped at step {s.step} (t = {s.t:g}): {s.cause}{f' at {at}' if at else ''}",
        fix=f"{other}: evolve(...).stopped.report() says why.",
    )


def stride_of(r: Run, steps: int, rows: int, more: Mapping[str, Any]) -> int:
    """How many steps directions go on before they are made orthonormal: as long as they stay apart and finite."""
    n, some = min(steps, PILOT), r.some(FEW)
    _, g = growth(some, 1, n, 1, **more)
    d = np.diff(g, axis=0)
    d = d[:, np.isfinite(d).all(axis=(0, 2))]
    precision, k = r.setup.goal.precision, r.wanted.count
    fastest = float(np.abs(d).max(initial=0.0))
    limit = GROWS.get(precision, 250.0) / max(fastest, 1e-12)
    if k > 1:
        apart = float((d.max(axis=2) - d.min(axis=2)).max(initial=0.0))
        limit = min(limit, PARTS.get(precision, 10.0) / max(apart, 1e-12))
    return max(1, min(int(limit), steps // rows))


def lyapunov(
    setup: Setup,
    given: Mapping[str, Any],
    steps: Any,
    until: Any,
    t0: Any,
    spectrum: Any,
    discard: Any,
    seed: Any,
    threads: Any = None,
    progress: Any = "auto",
) -> Lyapunov:
    more = {"threads": threads, "seed": seed, "progress": False}
    seed = whole("seed", seed, 0)
    first = run_with_directions(setup, Wanted(), given, t0, seed, "lyapunov")
    numbers = sum(s.var.size for s in setup.system.states)
    count = checked_spectrum(spectrum, numbers)
    r = first if count == 1 else run_with_directions(setup, Wanted(count), given, t0, seed, "lyapunov")
    n = steps_of(r, steps, until)
    rows = max(FEWEST_ROWS, min(ROWS, n, ROOM // max(1, r.members * count)))
    stride = stride_of(r, n, rows, more)
    every = stride * max(1, n // stride // rows)
    n -= n % every
    times, g = growth(r, stride, n, every, **{**more, "progress": progress})
    skipped = discarded_rows(discard, times)
    with np.errstate(invalid="ignore"):  # members that stopped have no exponent: NaN
        found = exponents_of(times[skipped:], g[skipped:], r, n, stride)
    if setup.checks != "off" and np.isfinite(np.min(found.lost)):
        by_method = float(np.min(found.horizon)) < float(np.min(found.lost)) * abs(r.dt) - abs(r.dt)
        tell(
            float(np.nanmax(found.value)), int(np.min(found.lost)), float(np.min(found.horizon)), by_method, n
        )
    return found


def exponents_of(times: Any, g: Any, r: Run, steps: int, stride: int) -> Lyapunov:
    """What follows from how directions have grown: (rows, members, directions) at these times."""
    eps, span = EPSILON.get(r.setup.goal.precision, 2.0**-52), times[-1] - times[0]
    exponents = (g[-1] - g[0]) / span
    errors, converged = block_errors(np.diff(g, axis=0) / (times[1] - times[0]))
    converged |= errors <= math.sqrt(eps) * np.abs(exponents)  # a rate that does not change
    order = np.argsort(-exponents, axis=1, kind="stable")
    exponents, errors, converged = (np.take_along_axis(x, order, 1) for x in (exponents, errors, converged))
    so_far = (g[1:] - g[0]) / (times[1:] - times[0])[:, None, None]
    value = exponents[:, 0]
    chaotic = (value > 2.0 * errors[:, 0]) & (value * abs(span) > POWERS)
    rate = np.where(chaotic, value, 1.0)
    delta = max(eps, truncation(r, float(np.nanmax(value)), steps)) if chaotic.any() else eps
    whole = r.wanted.count == sum(s.var.size for s in r.plain.system.states) > 1

    def of(x: Any) -> Any:
        return x if r.is_ensemble else x[0] if x.ndim > 1 else x[0].item()

    return Lyapunov(
        value=of(value),
        error=of(errors[:, 0]),
        spectrum=of(exponents),
        errors=of(errors),
        history=(times[1:], so_far if r.is_ensemble else so_far[:, 0]),
        horizon=of(np.where(chaotic, math.log(1.0 / min(delta, 0.5)) / rate, np.inf)),
        lost=of(np.where(chaotic, np.ceil(math.log(1.0 / eps) / rate / abs(r.dt)), np.inf)),
        dimension=of(np.array([kaplan_yorke(row) for row in exponents])) if whole else None,
        converged=of(converged[:, 0]),
        time=float(abs(span)),
        discarded=float(abs(times[0] - r.t0)),
        stride=stride,
    )


def discarded_rows(discard: Any, times: Any) -> int:
    """How many rows belong to what is left out: the time that is said, or a tenth."""
    span = abs(times[-1] - times[0])
    if discard is None:
        discard = 0.1 * span
    if isinstance(discard, bool) or not isinstance(discard, (int, float)) or not 0.0 <= discard < span:
        raise InputError(
            f"discard={shown(discard)} is not a time within the run, which takes {span:g}",
            fix="Pass discard=100.0.",
        )
    found = int(np.searchsorted(np.abs(times - times[0]), discard * (1 - 1e-12)))
    return min(found, len(times) - 2)


def truncation(r: Run, value: float, steps: int) -> float:
    plain = {name: v for name, v in r.given.items() if name in r.plain.own_names}
    return method_error(r.plain, plain, r.dt, r.t0, value, steps, not r.is_ensemble)


def method_error(
    setup: Setup, given: Mapping[str, Any], dt: float, t0: float, value: float, steps: int, single: bool
) -> float:
    """The relative error of the method while errors grow by a factor e: steps of dt against those of half the length."""
    if setup.system.kind == "map" or value <= 0.0:
        return 0.0
    count = max(1, min(steps, math.ceil(1.0 / (value * abs(dt)))))
    ends = []
    for parts in (1, 2):
        sim = setup.variant(setup.goal if parts == 1 else closer(setup))
        out = sim.evolve(**given, t0=t0, dt=dt / parts, steps=count * parts, frames=2)
        if out.stops and single:
            return 1.0
        ends.append(np.concatenate([np.ravel(out.final[s.name]) for s in setup.system.states]))
    order = setup.built.plan.order
    share = 2.0**order / (2.0**order - 1.0) if order > 0 else 2.0
    with np.errstate(invalid="ignore"):
        return float(share * np.nanmax(np.abs(ends[0] - ends[1])) / max(np.nanmax(np.abs(ends[1])), 1e-300))


def closer(setup: Setup) -> Goal:
    """Halving dt is enough, but where a method chooses its own steps: then they are those of a smaller tolerance."""
    if not setup.compiled.adaptive:
        return setup.goal
    own = tolerance_of(method_of(setup.built.plan.method), setup.goal)
    return replace(setup.goal, tolerance=max(own / FINER, min(own, 2.0**-52)))


def tell(value: float, lost: int | None, horizon: float, by_method: bool, steps: int) -> None:
    """The sentences about a run that is longer than its numbers mean something; statistics may outlive that."""
    if lost is None or steps <= lost:
        return
    cause = "the error of the method" if by_method else "rounding"
    warnings.warn(
        PhysicsWarning(
            f"Warning: Lyapunov Exponent = {value:.3g}. Floating point precision lost after {lost} steps.\n"
            f"The true orbit is lost after t = {horizon:.3g}, by {cause}; averages over a long run may still be right."
        ),
        stacklevel=frames_to_user(),
    )
