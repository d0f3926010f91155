"""Which energy does a splitting conserve?  H plus a series in dt**2: its first term, or all of it, from consecutive steps.

Kick-drift-kick is the flow of H + dt**2 (v V'' v/12 - F T'' F/24) + O(dt**4), drift-kick-drift that of
H + dt**2 (-v V'' v/24 + F T'' F/12) + O(dt**4), with v = dT/dp and F = dV/dq. For any splitting into kicks and drifts a
number beta is carried along, to which kicks add h (q . V_q - 2 V) and drifts h (p . T_p - 2 T): the shadow energy is then
(q' . p - p' . q - beta')/2, with derivatives by central differences over consecutive synchronised steps (Skeel and Hardy
2001). The series is asymptotic: where a step is too long for it, no order helps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np

from tinyphysics.analysis.separable import separable
from tinyphysics.errors import InputError, PlanError
from tinyphysics.facts import Fact
from tinyphysics.given import whole
from tinyphysics.ir import UOp, substitute
from tinyphysics.plan import Goal
from tinyphysics.planner.methods.catalog import method_of
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify
from tinyphysics.runtime.measure.part_again import compiled
from tinyphysics.runtime.stages.execute import execute
from tinyphysics.runtime.stages.origin import Origin, addends
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.schedule import Schedule, times_at
from tinyphysics.system import System

FIRST_TERM = {  # of v V'' v and of F T'' F, by the parts of a step
    ("V", "T", "V"): (1 / 12, -1 / 24),
    ("T", "V", "T"): (-1 / 24, 1 / 12),
}
# The next term, dt**4, by nested brackets: of A = the outer part and B = the inner one, "AAB" is [A, [A, [B, [A, B]]]]
NEXT_TERM = {"AAA": 7 / 5760, "AAB": 1 / 480, "ABB": -1 / 360, "BAA": 1 / 360, "BAB": 1 / 120, "BBB": 1 / 720}
ORDER = 8  # of the differences, where none is asked for
LARGEST_ORDER = 16
MOST = 100_000_000  # numbers of states at every step


def refusal(system: System, goal: Goal, method: str) -> str:
    """Why a run has no shadow energy that is known here; empty if it has one."""
    named = method_of(method)
    if system.energy is None or not system.p:
        return f"`{system.name}` is given by its {system.kind}, and has no energy"
    if system.clock is not None or system.driven:
        return "its energy depends on time, or it is stepped in another time"
    if system.is_open:
        takes = (
            "friction takes"
            if system.friction
            else "contacts take"
            if system.contacts
            else "a bath gives and takes"
        )
        return f"{takes} energy"
    if system.crossings:
        return "steps are cut at walls and events"
    if goal.approximate is not None or goal.project:
        return "its forces are approximate, or its steps are projected"
    if goal.propagator not in (None, "loop") and goal.propagator != "method":
        return "the exact flow conserves H itself"
    if (
        not named.splits
        or any(part not in ("T", "V") for part, *_ in named.sequence())
        or named.family.processed
    ):
        return f"{named.name} is not made of kicks and drifts alone"
    if not splits(system):
        return "H does not split into T(p) + V(q)"
    return ""


@lru_cache(maxsize=64)
def splits(system: System) -> bool:
    return bool(separable(system))


def check(system: System, goal: Goal, method: str) -> None:
    if why := refusal(system, goal, method):
        raise PlanError(
            f"this run has no shadow energy: {why}", fix='Use method="leapfrog" or another splitting.'
        )


def sequence_of(method: str) -> list[tuple[str, float]]:
    """Kicks and drifts of one step from one synchronised state to the next."""
    return [(part, float(weight)) for part, weight in method_of(method).sequence()]


@lru_cache(maxsize=32)
def first_change(system: System, parts: tuple[str, ...]) -> UOp | None:
    """H2 of leapfrog, the first term of what it conserves beside H, without its dt**2; None of other splittings."""
    if parts not in FIRST_TERM:
        return None
    split, (q, p) = separable(system), (list(system.q), list(system.p))
    v, force = simplify(gradient(split.T, p)), simplify(gradient(split.V, q))
    along, across = FIRST_TERM[parts]
    second = [
        UOp.const(along) * jvp(jvp([split.V], q, v), q, v)[0],
        UOp.const(across) * jvp(jvp([split.T], p, force), p, force)[0],
    ]
    (change,) = simplify([UOp.sum_of(second)])
    return change


def first_term(system: System, parts: tuple[str, ...], dt: float) -> UOp | None:
    """H + dt**2 H2 of leapfrog; None of other splittings."""
    change = first_change(system, parts)
    if change is None:
        return None
    assert system.energy is not None
    return system.energy + UOp.const(dt * dt) * change


@lru_cache(maxsize=32)
def next_term(system: System, parts: tuple[str, ...], dt: float) -> UOp | None:
    """dt**4 H4 of leapfrog, what H + dt**2 H2 leaves out; None of other splittings."""
    if parts not in FIRST_TERM:
        return None
    split, (q, p) = separable(system), (list(system.q), list(system.p))
    v = simplify(gradient(split.T, p))
    minus_force = [-g for g in simplify(gradient(split.V, q))]

    def along(part: str, f: UOp) -> UOp:
        """How f changes along the flow of T or V: their bracket."""
        (out,) = simplify(jvp([f], q, v) if part == "T" else jvp([f], p, minus_force))
        return out

    letters = {"A": parts[0], "B": parts[1]}
    first = along(letters["A"], split.T if letters["B"] == "T" else split.V)
    found = []
    for word, weight in NEXT_TERM.items():
        f = first
        for letter in reversed(word):
            f = along(letters[letter], f)
        found.append(UOp.const(weight) * f)
    return UOp.const(dt**4) * UOp.sum_of(found)


def increments(system: System, split: Fact, sequence: Sequence[tuple[str, float]], dt: float) -> UOp:
    """What one step adds to beta, as a function of the state that it begins with."""
    q, p = list(system.q), list(system.p)
    kick, drift = simplify(gradient(split.V, q)), simplify(gradient(split.T, p))
    of_kick = UOp.sum_of((x * g).sum() for x, g in zip(q, kick)) - 2.0 * split.V
    of_drift = UOp.sum_of((x * g).sum() for x, g in zip(p, drift)) - 2.0 * split.T
    here = dict(zip([*q, *p], [*q, *p]))
    parts = []
    for part, weight in sequence:
        h = weight * dt
        rule, moved, by, sign = (of_kick, p, kick, -1.0) if part == "V" else (of_drift, q, drift, 1.0)
        added, *slopes = substitute([rule, *by], here)
        parts.append(h * added)
        here |= {x: here[x] + UOp.const(sign * h).expand(x.shape) * g for x, g in zip(moved, slopes)}
    return UOp.sum_of(parts)


@cache
def weights(count: int, at: int) -> tuple[float, ...]:
    """Of values at 0, 1, ..., count - 1, for the derivative at one of them: exact for polynomials."""
    out = []
    for j in range(count):
        others = [k for k in range(count) if k != j]
        below = Fraction(1)
        for k in others:
            below *= j - k
        total = Fraction(0)
        for left in others:
            product = Fraction(1)
            for k in others:
                if k != left:
                    product *= at - k
            total += product
        out.append(float(total / below))
    return tuple(out)


@dataclass(frozen=True, eq=False)
class Shadow:
    """The shadow energy at every step of a run: `t`, `energy`, and how far it went, `variation`.

    The first and the last `order`/2 steps have fewer neighbours on one side and are left out.
    """

    t: Any
    energy: Any
    order: int

    @property
    def variation(self) -> Any:
        return self.energy.max(axis=0) - self.energy.min(axis=0)


def every_step(origin: Origin, values: dict[str, UOp]) -> Record:
    """Values at every step of a run, by a replay that has its bits."""
    nothing = Record(Schedule(origin.last, None, 1, None), {})
    out, *_ = execute(compiled(origin.run), nothing, values, lambda n: None, None)
    out.raise_error()
    return out


def shadow(origin: Origin, goal: Goal, method: str, order: int = ORDER) -> Shadow:
    """Of a run, by differences of an even order."""
    run = origin.run
    system = run.system
    check(system, goal, method)
    order = whole("order", order, 2)
    if order % 2 or order > LARGEST_ORDER:
        raise InputError(
            f"shadow(order={order}): not an even order up to {LARGEST_ORDER}", fix="Pass order=8."
        )
    if origin.last <= order:
        raise InputError(
            f"shadow(order={order}) needs more than {order} steps, and the run has {origin.last}",
            fix=f"Run longer, or pass order={max(2, (origin.last - 1) // 2 * 2)}.",
        )
    numbers = sum(s.var.size for s in system.states) * run.given.members * (origin.last + 1)
    if numbers > MOST or run.jump is not None:
        raise InputError(
            "the shadow energy by differences needs every step of the run"
            + (f", which are {numbers:,} numbers" if run.jump is None else ", and its loop was deleted"),
            fix='Run fewer steps or members, or compile with propagator="loop".',
        )
    split = separable(system)
    values = {str(s.var.arg): s.var for s in system.states}
    taken = next(name for name in ("beta", "beta_", "beta__") if name not in values)
    values[taken] = increments(system, split, sequence_of(method), run.dt)
    again = every_step(origin, values)
    series = {name: np.asarray(again.series(name), float) for name in values}
    return from_series(series, taken, system, run.dt, run.t0, order, run.given.is_ensemble)


def from_series(
    series: dict[str, Any], beta: str, system: System, dt: float, t0: float, order: int, ensemble: bool
) -> Shadow:
    half = order // 2
    w = weights(order + 1, half)
    count = len(series[beta]) - order
    middle = slice(half, half + count)
    total = np.zeros((count, *series[beta].shape[1:]))
    for q, p in system.pairs:
        x, y = (series[str(v.arg)].reshape(len(series[beta]), series[beta].shape[1], -1) for v in (q, p))
        for j, c in enumerate(w):
            if c:
                shifted = slice(j, j + count)
                total += c * (x[shifted] * y[middle] - y[shifted] * x[middle]).sum(axis=-1)
    for i in range(order):  # the sum over j > i of what was added between the first state and the j-th
        total -= sum(w[i + 1 :]) * series[beta][i : i + count]
    energy = total / (2.0 * dt)
    t = times_at(np.arange(half, half + count), dt, t0)
    return Shadow(t, energy if ensemble else energy[:, 0], order)


# --- at frames -------------------------------------------------------------------------------------------
def shadow_energy(origin: Origin, goal: Goal, method: str) -> Any:
    """At every frame: by the first term of its series for leapfrog, by differences for other splittings."""
    system = origin.run.system
    check(system, goal, method)
    term = first_term(system, tuple(part for part, _ in sequence_of(method)), origin.run.dt)
    if term is not None:
        return origin.seen(origin.looked({"shadow": term})["shadow"])
    found = shadow(origin, goal, method)
    half = found.order // 2
    steps = np.asarray(origin.steps if origin.rows is None else np.asarray(origin.steps)[origin.rows])
    return found.energy[np.clip(steps - half, 0, len(found.energy) - 1)]


def shadow_gap(origin: Origin, goal: Goal, method: str) -> Any:
    """|shadow energy - H| at every frame, relative to the largest sum of |terms of H| so far."""
    energy = origin.energy()
    sizes = UOp.sum_of(abs(x) for x in addends(energy))
    seen = origin.looked({"H": energy, "scale": sizes})
    scale = np.maximum.accumulate(np.fmax(origin.seen(seen["scale"]), 0.0), axis=0)
    away = np.abs(shadow_energy(origin, goal, method) - origin.seen(seen["H"]))
    return away / np.where(scale > 0, scale, 1.0)
