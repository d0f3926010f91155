"""Does an oscillation grow because kicks always meet it at the same place?  Where its turn in a step is near k pi.

About the place where the rest has the curvature c w**2, a step is a matrix of determinant 1: turns by weight * w dt, and
kicks by weight * dt * c w**2. It is bounded as long as |trace| <= 2 (its spectral radius is 1). Two oscillations that the
rest couples grow together where the sum of their turns is near 2 k pi; where the difference is, they only exchange energy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinyphysics.flows.harmonic import oscillators_of
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import toposort
from tinyphysics.ir.value import evaluate
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.planner.methods.families.interaction import turns_of
from tinyphysics.planner.methods.method import Method
from tinyphysics.report import Row
from tinyphysics.rules.formulas.oscillators import Oscillator
from tinyphysics.step import Step
from tinyphysics.system import Parameter

NEAR = 0.1  # radians to a multiple of pi, where the curvature of the rest is not known
MOST_NUMBERS = 4096  # of a system whose frequencies are looked at one by one
MOST_SUMS = 64  # frequencies that are added, each to each
ROUNDING = 1e-12  # of a trace
FINEST, FARTHEST = 1e-3, 0.25  # by which parts of dt a safe step is looked for, and how far


def flat(x: Any) -> Any:
    """A number, or the numbers of a nested list or array, row by row."""
    if hasattr(x, "tolist"):
        x = x.tolist()
    if not isinstance(x, (list, tuple)):
        return x
    parts = [flat(item) for item in x]
    return [y for part in parts for y in (part if isinstance(part, list) else [part])]


def defaults(parameters: Iterable[Parameter]) -> dict[str, Any]:
    """The numbers that parameters have if a run gives no others."""
    return {p.name: flat(p.default) for p in parameters if p.default is not None}


def curvatures(
    oscillators: Sequence[Oscillator], values: Mapping[str, Any]
) -> list[tuple[float, float]] | None:
    """(a, b) of every number; None where something is not known."""
    roots = [u for o in oscillators for u in (o.a, o.b)]
    known = all(v.op is not Ops.VAR or v.arg in values for v in toposort(roots))
    if not known or sum(u.size for u in roots) > 2 * MOST_NUMBERS:
        return None
    numbers = [x if isinstance(x, list) else [x] for x in evaluate(roots, values)]
    return [pair for a, b in zip(numbers[::2], numbers[1::2]) for pair in zip(a, b)]


def frequencies(pairs: Iterable[tuple[float, float]]) -> list[float]:
    """Of what vibrates, the slowest first, each once."""
    found = {math.sqrt(a * b) for a, b in pairs if a * b > 0 and math.isfinite(a * b)}
    return sorted(float(f"{w:.12g}") for w in found)


# --- one oscillation ---------------------------------------------------------------------------------------
def half_trace(m: Method, x: float, c: float) -> float:
    """Of the step matrix, where an oscillator turns by x and the rest has c times its curvature.

    >>> half_trace(BY_NAME["interaction"], math.pi / 2, 0.0) < 1e-15
    True
    """
    q, p = (1.0, 0.0), (0.0, 1.0)  # rows, p in units of w q
    for part, weight in turns_of(m):
        h = float(weight) * x
        if part == "L":
            cos, sin = math.cos(h), math.sin(h)
            q, p = (
                (cos * q[0] + sin * p[0], cos * q[1] + sin * p[1]),
                (cos * p[0] - sin * q[0], cos * p[1] - sin * q[1]),
            )
        else:
            mean = 1.0 if not m.family.mollified or not h else math.sin(h) / h
            k = h * c * mean * mean
            p = (p[0] - k * q[0], p[1] - k * q[1])
    return (q[0] + p[1]) / 2


def off(x: float, period: float = math.pi) -> float:
    """The distance to the nearest multiple of a period."""
    return abs(x - period * round(x / period))


@dataclass(frozen=True)
class Resonance:
    """What may grow, and the nearest step at which nothing does, if there is one."""

    omega: float
    other: float | None  # of a sum of two
    turn: float  # of a step, or the sum of two
    safe: float | None

    def __str__(self) -> str:
        what = (
            f"omega*dt = {self.turn:.6g}" if self.other is None else f"(omega + omega')*dt = {self.turn:.6g}"
        )
        period = math.pi if self.other is None else 2 * math.pi
        k = round(self.turn / period) * (1 if self.other is None else 2)
        safe = 'no step near by is safe: method="interaction_mollified"'
        if self.safe is not None:
            safe = f"the nearest safe step is dt = {self.safe:.6g}"
        return f"{what} is {off(self.turn, period):.2g} from {k} pi; {safe}"


Bends = tuple[float, float]  # the least and the largest curvature of the rest, in the metric of T


def grows(
    m: Method, omega: Sequence[float], dt: float, bends: Bends | None
) -> tuple[float, float | None] | None:
    """The first oscillation, or pair of them, that may grow.

    Where the curvature of the rest is not known, all that is near to a multiple of pi may.
    """
    h = abs(dt)
    for w in omega:
        x = w * h
        if x < math.pi / 2 and bends is None:
            continue
        if bends is None:
            unstable = not m.family.mollified and off(x) < NEAR
        else:
            # about x = 0 a trace above 2 is the motion away from a top of the potential, at any step
            traces = [half_trace(m, x, bend / (w * w)) for bend in bends]
            unstable = any((-y if x < math.pi / 2 else abs(y)) > 1 + ROUNDING for y in traces)
        if unstable:
            return w, None
    if m.family.mollified or len(omega) > MOST_SUMS:
        return None
    for k, w in enumerate(omega):
        for v in omega[:k]:
            x, width = (w + v) * h, NEAR if bends is None else max(map(abs, bends)) * h / math.sqrt(w * v)
            if x > math.pi and off(x, 2 * math.pi) < width:
                return w, v
    return None


def resonance(m: Method, omega: Sequence[float], dt: float, bends: Bends | None = None) -> Resonance | None:
    """What may grow at this step; None if nothing is known to."""
    found = grows(m, omega, dt, bends)
    if found is None:
        return None
    wider = None if bends is None else (2 * bends[0], 2 * bends[1])
    count = round(FARTHEST / FINEST)
    steps = [dt * (1 + sign * k * FINEST) for k in range(1, count + 1) for sign in (-1, 1)]
    safe = next((h for h in steps if grows(m, omega, h, wider) is None), None)
    w, v = found
    return Resonance(w, v, (w + (v or 0.0)) * abs(dt), safe)


# --- what is said -------------------------------------------------------------------------------------------
def rows(step: Step, dt: float | None) -> list[Row]:
    """How far the quadratic part turns in a step, with the parameters as they are if a run gives no others."""
    turning = oscillators_of(step)
    if turning is None:
        size = sum(s.var.size for s in step.states)
        made = "of each turn, two words of every number: made where a run begins, which then looks for resonances"
        return [Row("matrix", f"{size} x {size + 1}", made)]
    if dt is None or step.name not in BY_NAME:
        return []
    known = curvatures(turning, defaults(step.parameters))
    omega = [] if known is None else frequencies(known)
    if not omega:
        return []
    m = BY_NAME[step.name]
    found = resonance(m, omega, dt)
    x = omega[-1] * abs(dt)
    fastest = f"of the fastest oscillation, omega = {omega[-1]:.6g}; leapfrog's limit is 2"
    turn = Row("turn", f"omega*dt = {x:.4g}", fastest)
    if m.family.mollified:
        return [turn, Row("resonances", "mollified", "kicks see means of positions over a step: none grows")]
    if found is None:
        far = f"every turn is more than {NEAR:g} from a multiple of pi"
        looks = "a run looks at the curvature of the rest where one is near"
        return [turn, Row("resonances", "none near", f"{far}; {looks}")]
    return [turn, Row("resonances", "NEAR", str(found))]
