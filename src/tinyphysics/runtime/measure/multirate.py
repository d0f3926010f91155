"""How fast is each level of fast and slow parts at a state, and is the step safe there?  Measured where a run begins.

Frequencies are those of the levels' own Hessians, by Lanczos, with equal bits everywhere: the plan rests on them. The
spectral radius is that of the whole step with the Hessians at the state, where they are small enough to be written down;
no plan rests on it, but what it shows is said.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.analysis.stiff import stiffness
from tinyphysics.errors import InputError, PlanError
from tinyphysics.ir import UOp
from tinyphysics.planner.choice.multirate import kicks
from tinyphysics.planner.choice.multirate_resonance import NEAR, grows, radius_row, tongue_rows
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.planner.methods.families.multirate import weights_of
from tinyphysics.report import Row, Section
from tinyphysics.runtime.measure.frequency import frequency, products
from tinyphysics.runtime.measure.pilot import part
from tinyphysics.runtime.stages.compiled import Compiled
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import Inputs, inputs
from tinyphysics.runtime.state.run import Checkpoint, Run

LOG = logging.getLogger("tinyphysics")
MOST_POSITIONS = 256  # of a state whose step is written down as a matrix: its eigenvalues in a second
MOST_MEMBERS = 4  # whose steps are
MOST_HALVINGS = 12  # of a step that grows, in the search for one that does not
ELSEWHERE = "at the first state that had these parameters"


@dataclass(frozen=True, eq=False)
class Linear:
    """The energy about one state: T'' and the V'' of every level, the fastest first."""

    mobility: Any
    hessians: tuple[Any, ...]

    def step(self, inner: Sequence[int], dt: float, weights: Sequence[float] = (1.0,)) -> Any:
        """The matrix of a step, which is composed of steps with such weights."""
        out = np.eye(2 * len(self.mobility))
        for w in weights:
            out = self.one(inner, w * dt) @ out
        return out

    def one(self, inner: Sequence[int], dt: float) -> Any:
        """Half kicks of all levels, fast steps with slower kicks between them, and the half kicks of the end."""
        n = len(self.mobility)

        def kick(level: int, h: float) -> Any:
            out = np.eye(2 * n)
            out[n:, :n] = -h * self.hessians[level]
            return out

        h = dt / math.prod(inner)
        out = np.eye(2 * n)
        out[:n, n:] = h * self.mobility
        out, first, last = kick(0, h) @ out, kick(0, h / 2), kick(0, -h / 2)
        for level, count in enumerate(inner, 1):
            h *= count
            out = kick(level, h) @ np.linalg.matrix_power(out, count)
            first, last = kick(level, h / 2) @ first, kick(level, -h / 2) @ last
        return last @ out @ first

    @cached_property
    def is_finite(self) -> bool:
        """Without it nothing is known of a step from here: it is not one that grows."""
        return all(bool(np.isfinite(x).all()) for x in (self.mobility, *self.hessians))

    def radius(self, inner: Sequence[int], dt: float, weights: Sequence[float] = (1.0,)) -> float:
        """The spectral radius of a step; infinite if it is too large for a number."""
        matrix = self.step(inner, dt, weights)
        return float(np.abs(np.linalg.eigvals(matrix)).max()) if np.isfinite(matrix).all() else math.inf

    @cached_property
    def escape(self) -> float:
        """How fast the motion itself runs away: the root of the most negative eigenvalue; infinite if that is not finite."""
        product = self.mobility @ sum(self.hessians)
        if not np.isfinite(product).all():
            return math.inf
        return math.sqrt(max(0.0, -float(np.linalg.eigvals(product).real.min())))


@dataclass(frozen=True, eq=False)
class Paces:
    """What was measured of a state."""

    frequencies: tuple[float, ...]  # of each level, the fastest first: of what vibrates or runs away by it
    fastest: float  # vibration of the fastest level
    members: tuple[Linear, ...]  # of some members, if their matrices are small enough and finite
    positions: int
    automatic: bool  # was `inner` decided by them?
    weights: tuple[float, ...] = (1.0,)  # of the steps that a step is composed of
    params: Mapping[str, Any] = field(default_factory=dict)  # of the system, with which it was measured
    elsewhere: list[Paces] = field(default_factory=list)  # what was measured last with others
    warned: set[float] = field(default_factory=set)  # steps that were complained about
    known: dict[Any, tuple[float | None, float]] = field(default_factory=dict)  # radii, by (inner, dt)

    def radius(self, inner: Sequence[int], dt: float) -> tuple[float | None, float]:
        """(of the step, of the motion itself) for the worst member."""
        key = tuple(inner), dt
        if key not in self.known:  # eigenvalues take longer than many a run
            own = [math.exp(min(m.escape * abs(dt), 700.0)) for m in self.members]
            found = [(m.radius(inner, dt, self.weights), x) for m, x in zip(self.members, own)]
            more = [math.log(r) - math.log(x) if r > 0 else 0.0 for r, x in found]
            self.known[key] = found[more.index(max(more))] if found else (None, 1.0)
        return self.known[key]

    def share(self, dt: float) -> float:
        """Of half a period of the fastest vibration; 0 if the fast part does not vibrate."""
        return abs(dt) * self.fastest / math.pi

    def unsafe(self, inner: Sequence[int], dt: float) -> bool:
        """Does the linearised step make larger what the motion itself does not?"""
        radius, own = self.radius(inner, dt)
        return radius is not None and grows(radius, own)

    def calm(self, inner: Sequence[int], dt: float) -> float | None:
        """A step that meets no resonance: below half a fast period, or halved until it does not grow; None: none found."""
        if self.fastest:
            return NEAR * math.pi / self.fastest
        shorter = (abs(dt) / 2**k for k in range(1, MOST_HALVINGS + 1))
        return next((h for h in shorter if not self.unsafe(inner, h)), None)

    @property
    def why_not(self) -> str:
        """For a step whose matrix was not written down."""
        if self.positions > MOST_POSITIONS:
            return f"{self.positions} positions: a matrix is written down for {MOST_POSITIONS} at most"
        return "the slopes of the forces are not finite at this state"


# --- measured ------------------------------------------------------------------------------------------------
def kinetic_of(compiled: Compiled) -> UOp:
    fact = compiled.built.facts["separable"]
    if not fact:
        raise PlanError(
            f"`{compiled.system.name}` has no fast and slow terms that can be separated: {fact.because}",
            site=fact.site,
            fix="Write its energy as T(p) + V(q).",
        )
    T: UOp = fact.T
    return T


def linear(compiled: Compiled, levels: Sequence[UOp], one: Inputs, t0: float) -> Linear:
    """At the state of one member: a product with every direction, all at once."""
    T = kinetic_of(compiled)
    n = sum(q.size for q in compiled.system.q)
    many = replace(one, states={name: np.repeat(v, n, axis=0) for name, v in one.states.items()}, members=n)
    found = [
        products(stiffness(compiled.system, T, V), compiled, many, t0)(np.eye(n), np.eye(n)) for V in levels
    ]
    return Linear(symmetric(found[0][1]), tuple(symmetric(bends) for bends, _ in found))


def symmetric(a: Any) -> Any:
    return (a + a.T) / 2


def measured(compiled: Compiled, i: Inputs, t0: float, automatic: bool) -> Paces:
    system = compiled.system
    found = [frequency(compiled, compiled.built.facts, i, t0, V) for V in system.levels]
    if not all(math.isfinite(f.rate) for f in found):
        raise PlanError(
            f"the forces of `{system.name}` are not finite at the state where its time scales are measured",
            fix="Start away from the singularity, or pass inner=10 yourself.",
        )
    n = sum(q.size for q in system.q)
    who = range(min(i.members, MOST_MEMBERS)) if n <= MOST_POSITIONS else ()
    looked = (linear(compiled, system.levels, part(i, [k]), t0) for k in who)
    members = tuple(one for one in looked if one.is_finite)
    rates, weights = tuple(f.rate for f in found), weights_of(BY_NAME[compiled.known.method])
    return Paces(rates, found[0].fastest, members, n, automatic, weights, i.own)


def with_parameters(sim: Setup, r: Run) -> tuple[Paces, str]:
    """(what was measured with the parameters of a run, at which state): with others than before it is measured again."""
    first = sim.paces
    assert isinstance(first, Paces)
    params = r.given.own
    for known, where in (
        (first, "at the first state, with its parameters"),
        *((p, ELSEWHERE) for p in first.elsewhere),
    ):
        if all(np.array_equal(v, known.params[name]) for name, v in params.items()) or not r.given.members:
            return known, where
    first.elsewhere[:] = [measured(sim.compiled, replace(r.given, params=params), r.t0, first.automatic)]
    return first.elsewhere[0], ELSEWHERE


# --- decided --------------------------------------------------------------------------------------------------
def choose_inner_steps(
    sim: Setup, given: Mapping[str, Any], dt: float | None, t0: float, c: Checkpoint | None
) -> None:
    """What a run of fast and slow parts without inner= does: its first state decides how many kicks there are."""
    compiled = sim.compiled
    if c is not None:
        i, dt, t0 = Inputs(dict(c.start), dict(c.params), c.members, c.is_ensemble), c.run.dt, c.run.t0
    else:
        i = inputs(compiled.system, given, compiled.encoding)
    if not i.members:
        raise InputError(
            "an empty ensemble has no state from which the speed of its parts could be measured",
            fix="Pass inner=10, or members.",
        )
    decide(sim, i, dt, t0)


def decide(sim: Setup, i: Inputs, dt: float | None, t0: float) -> Paces:
    """Measures the levels at a state, and says how many kicks there are if that was left open."""
    compiled, left_open = sim.compiled, not sim.goal.inner
    if left_open and dt is None:
        raise InputError(
            "dt is missing: the number of fast kicks in a step depends on it",
            fix="Pass dt=0.01, or inner=10.",
        )
    sim.paces = found = measured(compiled, i, t0, left_open or sim._asked is not None)
    if left_open:
        assert dt is not None
        sim.goal = replace(sim.goal, inner=kicks(compiled.system.name, found.frequencies, dt))
        sim.compile_again()
    return found


# --- said -----------------------------------------------------------------------------------------------------
def resonance(sim: Setup, r: Run) -> dict[str, Any]:
    """What is known of the step of a run, for out.metrics."""
    paces, where = with_parameters(sim, r)
    return {"paces": {**judged(sim, paces, r.dt), "measured": where}}


def judged(sim: Setup, paces: Paces, dt: float) -> dict[str, Any]:
    """What is known of a step; one that is not safe is complained about, once."""
    inner = sim.goal.inner
    radius, own = paces.radius(inner, dt)
    share, unsafe = paces.share(dt), paces.unsafe(inner, dt)
    if (unsafe or share > NEAR) and dt not in paces.warned:
        paces.warned.add(dt)
        LOG.warning("%s: %s", sim.system.name, warning(paces, inner, dt))
    return {
        "omega": paces.frequencies,
        "inner": inner,
        "half_periods": share,
        "radius": radius,
        "radius_of_motion": own,
        "safe": not unsafe and share <= NEAR,
    }


def warning(paces: Paces, inner: Sequence[int], dt: float) -> str:
    """What is wrong with a step, and the step to take."""
    radius, own = paces.radius(inner, dt)
    calm = paces.calm(inner, dt)
    grown = "" if radius is None else f"the linearised step grows by {radius:.4g} each time"
    if not paces.fastest:  # there is no fast period: what grows is a slow part, kicked too rarely
        more = f", the motion itself by {own:.4g}" if own > 1 + 5e-7 else ""
        fix = (
            f"Shorter ones, down to {abs(dt) / 2**MOST_HALVINGS:.2g}, grow as well"
            if calm is None
            else f"Take dt={calm:.2g}"
        )
        return f"the fast part does not vibrate here; with dt={dt:g} {grown}{more}: the slow part needs shorter steps. {fix}"
    told = "a resonance is near" + ("; at this state it does not grow" if radius is not None else "")
    if paces.unsafe(inner, dt):
        told = f"{grown}: a resonance"
    half = f"{paces.share(dt):.3g} of half the fast period, {math.pi / paces.fastest:g}"
    return f"dt={dt:g} is {half}; {told}. Stay below {NEAR:.3g} of it: dt={calm:.2g}"


def multirate_section(sim: Setup, dt: float | None) -> Section:
    """For explain(): frequencies, the safety of the step, and the picture of where it lies."""
    paces, inner = sim.paces, sim.goal.inner
    if not isinstance(paces, Paces):
        how = "decided at the first state" if not inner else "given by inner="
        pilot = 'a state says it: pass pilot={"q": ..., "p": ...} to compile'
        radius_open = Row("spectral radius", "not measured", pilot)
        return Section("paces", (Row("inner", str(inner or "open"), how), radius_open))
    counts, h = [*inner, 1], 0.0 if dt is None else abs(dt) / math.prod(inner)
    rows = []
    for k, (omega, count) in enumerate(zip(paces.frequencies, counts)):
        word = "fast" if k == 0 else "slow" if k == len(inner) else "between"
        each = f"{count} kicks per kick of the next slower part; " if k < len(inner) else "one kick a step; "
        rows.append(Row(f"{word} omega", f"{omega:.6g}", f"{each}omega*h = {omega * h:.3g}"))
        h *= count
    how = "automatic, from these frequencies at the first state" if paces.automatic else "given by inner="
    rows.append(Row("inner", ", ".join(map(str, inner)), how))
    if dt is None:
        return Section("paces", tuple(rows))
    if paces.fastest:
        share = paces.share(dt)
        near = f"slow kicks meet a resonance from about {NEAR:g} on{': TOO NEAR' if share > NEAR else ''}"
        period = f"{math.pi / paces.fastest:.4g}"
        rows.append(Row("half fast period", period, f"dt is {share:.3g} of it; {near}"))
    radius, own = paces.radius(inner, dt)
    rows.append(radius_row(radius, own, paces.positions, paces.why_not, paces.fastest > 0))
    if paces.fastest:
        rows += tongue_rows(inner, paces.frequencies, paces.fastest, dt, paces.weights)
    return Section("paces", tuple(rows))
