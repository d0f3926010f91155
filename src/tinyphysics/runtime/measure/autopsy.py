"""Why did a run stop?  Its last steps are done again with everything recorded, and a cause is named from the catalogue.

A healthy run records nothing for this. What is said follows from the energy or the forces at the last good states: which
operation gave no number, which condition changed, whether derivatives are right, and how long the step was beside the
fastest vibration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.ir import UOp
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.runtime.measure.autopsy_report import Autopsy, LastStep
from tinyphysics.runtime.measure.causes import IMAGE, LONG, OVERFLOW, POLE, UNSOLVED, Finding
from tinyphysics.runtime.measure.crossed import between
from tinyphysics.runtime.measure.last_steps import SHOWN, energy_lost, last_steps
from tinyphysics.runtime.measure.place import MOST as MOST
from tinyphysics.runtime.measure.place import WORK, Place, Subject, as_written
from tinyphysics.runtime.measure.suspects import bad_operation, curl, too_long, wrong_derivative
from tinyphysics.runtime.stages.origin import Origin
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import time_at
from tinyphysics.trajectory import Stop, Trajectory

LIMIT = 2.0  # omega*dt of leapfrog, where a method says nothing
ON_THE_WAY = 97  # places of the last drift that are looked at
BEYOND = 1.5  # of it: the kick before it, which a state between two steps does not show, makes it longer
NEARER = (0.99, 0.999)  # of the way to a pole, where an energy climbs or falls
NO_CAUSE = "no cause found"
FROM_A_POLE = 'Compile with time="logarithmic", add a softening, tp.sqrt(r2 + eps**2), or shorten dt.'
QUIET = {  # what is no failure of the numbers
    "interrupted": "The run was interrupted. Continue it: sim.evolve(resume=out, steps=...).",
    "store": "A file could not be written; `error` of the stop has the message.",
    "device": "A GPU failed; `error` of the stop has the message.",
}


def autopsy(stop: Stop) -> Autopsy:
    out = stop.of
    if stop.cause in QUIET:
        return Autopsy(stop.cause, QUIET[stop.cause], "The states up to there are good.", stop)
    if not isinstance(out, Trajectory) or not isinstance(out.origin, Origin):
        raise InputError(
            "this stop does not know the run that it belongs to",
            fix="Pass the run: out.stops[0].report(out), or ask for the first stop: out.stopped.report().",
        )
    with np.errstate(all="ignore"):  # numbers beyond all floats are what is looked for
        return Examined(out.origin.run, stop).verdict()


@dataclass(frozen=True, eq=False)
class Examined:
    """One member of a run that stopped."""

    run: Run
    stop: Stop

    @property
    def member(self) -> int:
        return 0 if self.stop.member is None else self.stop.member

    @cached_property
    def subject(self) -> Subject:
        return Subject(self.run.system.seen)

    def env(self, state: Mapping[str, Any], n: int) -> dict[str, Any]:
        r, k = self.run, self.member
        params = {name: np.asarray(v[k if len(v) > 1 else 0]) for name, v in r.given.own.items()}
        values = {**params, **{name: np.asarray(v, float) for name, v in state.items()}}
        out = {name: np.ravel(v).tolist() if v.ndim else float(v) for name, v in values.items()}
        return out | {"t": time_at(n, r.dt, r.t0)}

    def at(self, state: Mapping[str, Any], n: int) -> Place:
        place = Place(self.subject, self.env(state, n), self.run.dt, self.limit)
        if not self.run.inner:
            return place
        from tinyphysics.runtime.measure.multirate_limit import with_limit

        return with_limit(place, self.run, self.method)

    @cached_property
    def first(self) -> Place:
        given = self.run.encoding.values(self.run.given.states)
        return self.at({n: v[self.member] for n, v in given.items()}, 0)

    @cached_property
    def steps(self) -> list[tuple[int, dict[str, Any]]]:
        return last_steps(self.run, self.member, self.bad_step)

    @cached_property
    def bad_step(self) -> int:
        """The first bad step: where a run lost its energy, though its numbers were finite for some time after that."""
        if self.stop.cause != "not finite" or self.subject.work > WORK:
            return self.stop.step
        lost = energy_lost(self.run, self.member, self.stop.step - 1)
        return self.stop.step if lost is None else min(lost, self.stop.step)

    @property
    def limit(self) -> float:
        r = self.run
        if r.system.clock is not None or r.encoding.solves or r.jump is not None or r.adaptive:
            return math.inf  # steps in another time, implicit ones, and those that are as long as they may be
        method = BY_NAME.get(self.method)
        if method is None:
            return LIMIT
        return math.inf if method.limit is None else float(method.limit)

    @property
    def method(self) -> str:
        return str(getattr(getattr(self.run.program, "program", self.run.program), "name", ""))

    def omega(self, state: Mapping[str, Any], n: int) -> float:
        """The frequency of the fastest vibration at a state."""
        return self.at(state, n).omega

    # --- the verdict ------------------------------------------------------------------------------
    def verdict(self) -> Autopsy:
        found = self.finding()
        rows = [] if self.stop.step == 0 else self.rows()
        return Autopsy(
            found.cause,
            found.because,
            found.fix,
            self.stop,
            found.term,
            self.flow,
            tuple(rows),
            found.where,
            self.number,
        )

    @property
    def number(self) -> str:
        """The number of the state that was bad first, as users write it."""
        where = self.stop.where
        if not isinstance(where, tuple) or len(where) != 2 or not isinstance(where[0], str):
            return ""
        var = next((s.var for s in self.subject.system.states if s.name == where[0]), None)
        if var is None or len(var.shape) < 2:
            return f"{where[0]}[{where[1]}]"
        return f"{where[0]}[{', '.join(str(int(i)) for i in np.unravel_index(where[1], var.shape))}]"

    def finding(self) -> Finding:
        """The first of the catalogue for which there is evidence: what cannot be meant goes before what may be."""
        stop, first = self.stop, self.first
        if stop.cause == "overflow":
            return Finding(
                OVERFLOW,
                "a number left its lattice",
                "Choose a coarser unit, lattice=, or look for what makes the state grow.",
            )
        if self.subject.work <= WORK:
            found = bad_operation(first, "at the first state", True) or wrong_derivative(first)
            if found is not None:
                return found
        if stop.cause == "not solved":
            return Finding(
                UNSOLVED,
                "the iteration for the unknowns of a step did not converge",
                f"Shorten dt: {abs(self.run.dt) / 4:.2g} or less, or choose an explicit method.",
            )
        if stop.cause == "singularity":
            return self.at_a_pole()
        if self.subject.work > WORK:
            return Finding(NO_CAUSE, "a number of the state is not finite", "Shorten dt.")
        return self.of_the_steps() if stop.cause == "integrity" else self.not_finite()

    def not_finite(self) -> Finding:
        """Of a run whose numbers are no numbers any more."""
        system, first = self.subject.system, self.first
        names = [str(x.arg) for x in system.q] or [x.name for x in system.states]
        places = [(n, z) for n, z in reversed(self.steps) if all(np.isfinite(z[x]).all() for x in names)]
        before: tuple[int, dict[str, Any]] = next(((n, z) for n, z in places if n < self.stop.step), (0, {}))
        if (found := too_long(first, 0)) is not None:
            return found
        if self.bad_step < self.stop.step and (found := self.lost_before()) is not None:
            return found
        for n, z in places[:2]:  # where the step went, and where it began
            here = {name: v if np.isfinite(v).all() else before[1].get(name, v) for name, v in z.items()}
            found = bad_operation(self.at(here, n), f"at step {self.stop.step:,}", False)
            if found is not None and found.cause != OVERFLOW:
                return self.repelled(found, before, self.at(here, n))
        if before[1] and (met := self.on_the_way(*before)) is not None:
            return self.repelled(met[0], before, met[1])
        found = self.became_too_long() or curl(first) or self.crossing()
        if found is not None:
            return found
        grown = self.at(before[1], before[0]) if before[1] else first
        return Finding(
            OVERFLOW,
            "the state grows beyond all floats, and no vibration is too fast for the step: the energy has no lower bound"
            if self.subject.energy is not None
            else "the state grows beyond all floats",
            "Look at the sign of this term: is the potential meant to fall for ever?",
            grown.steepest,
        )

    def of_the_steps(self) -> Finding:
        """Of a run that lost what it conserves, with finite numbers."""
        found = (
            self.crossing()
            or self.met_a_pole()
            or too_long(self.first, 0)
            or self.became_too_long()
            or curl(self.first)
        )
        if found is not None:
            return found
        told, fix = (getattr(self.stop.error, name, None) or "" for name in ("what", "fix"))
        return Finding(
            NO_CAUSE,
            f"{told}. None of the twelve causes has left a trace in the last steps".lstrip(". "),
            fix
            or f"Shorten dt: {abs(self.run.dt) / 4:.2g}; if it is lost again, what changes the state between steps?",
            "" if told else self.first.steepest,
        )

    def lost_before(self) -> Finding | None:
        """Of a run that had lost its energy in some step before its numbers were none."""
        n, found = self.bad_step, self.crossing()
        if found is None and (long := self.became_too_long()) is not None:
            (k, a), (_, b) = self.steps[-2:] if len(self.steps) > 1 else (self.steps[0], self.steps[0])
            found = self.attracted(self.at(a, k), self.at(b, n)) or long
        if found is None:
            return None
        told = f"{found.because}; the energy was lost at step {n:,}, before numbers were beyond all floats"
        return Finding(found.cause, told, found.fix, found.term, found.where)

    def attracted(self, one: Place, two: Place) -> Finding | None:
        """A pole that a step passed by, into which the energy falls."""
        energy, q = self.subject.energy, self.subject.system.q
        if energy is None:
            return None
        ways = {str(x.arg): two.state(x) - one.state(x) for x in q}
        depths = [
            float(one.moved({str(x.arg): one.state(x) + s * ways[str(x.arg)] for x in q}).value(energy)[0])
            for s in np.linspace(0.0, 1.0, ON_THE_WAY)
        ]
        terms = sum(float(np.abs(one.value(x)).sum()) for x in self.subject.terms)
        if not min(depths) < depths[0] - terms / 2:
            return None
        because = f"step {self.bad_step:,} passes a pole of the energy, too near for its length"
        return Finding(POLE, because, FROM_A_POLE, one.steepest, self.pair)

    @property
    def pair(self) -> tuple[int, int] | None:
        where = self.stop.where
        return where if isinstance(where, tuple) and len(where) == 2 and isinstance(where[0], int) else None

    def became_too_long(self) -> Finding | None:
        """A step that is too long for the vibrations where the run went."""
        for n, z in self.steps:
            if all(np.isfinite(v).all() for v in z.values()):
                if (found := too_long(self.at(z, n), n, abs(self.run.dt) / 10)) is not None:
                    return found
        return None

    def crossing(self) -> Finding | None:
        """The largest jump of the energy or the force in the last steps, the bad one first."""
        good = [(n, z) for n, z in self.steps if all(np.isfinite(v).all() for v in z.values())]
        pairs = list(zip(good, good[1:]))[::-1]
        for (n, a), (m, b) in pairs:
            found = between(self.at(a, n), self.at(b, m))
            named = next((f for f in found if f.cause == IMAGE), found[0] if found else None)
            if named is not None:
                return Finding(
                    named.cause, f"{named.because}, at step {m:,}", named.fix, named.term, named.where
                )
        return None

    def at_a_pole(self) -> Finding:
        told = getattr(self.stop.of, "metrics", {}).get("singularity") or {}
        where = self.stop.where if isinstance(self.stop.where, tuple) else None
        apart = f" at a distance of {told['distance']:.3g}" if "distance" in told else ""
        return Finding(
            POLE,
            f"the drift of step {self.stop.step:,} comes so near to a pole of the energy{apart} that the method is not "
            "stable there",
            FROM_A_POLE,
            str(told.get("term", "")) or self.first.steepest,
            where if where is not None and isinstance(where[0], int) else None,
        )

    def met_a_pole(self) -> Finding | None:
        return self.at_a_pole() if getattr(self.stop.of, "metrics", {}).get("singularity") else None

    def on_the_way(self, n: int, z: Mapping[str, Any]) -> tuple[Finding, Place] | None:
        """The operation that fails along the last drift, and where: a step may begin and end beside a pole."""
        place, system = self.at(z, n), self.subject.system
        moving, rates = (system.q, self.subject.moves) if system.q else ((), [])
        if system.kind == "ode":
            moving, rates = tuple(s.var for s in system.states), list(system.update)
        speeds = [place.value(u) for u in rates]
        if not speeds or not all(np.isfinite(v).all() for v in speeds):
            return None
        for part in np.linspace(0.0, BEYOND, ON_THE_WAY):
            here = place.moved(
                {
                    str(q.arg): place.state(q) + (part * self.run.dt * v).reshape(q.shape)
                    for q, v in zip(moving, speeds)
                }
            )
            found = bad_operation(here, f"at step {self.stop.step:,}", False)
            if found is not None and found.cause != OVERFLOW:
                return found, here
        return None

    def repelled(self, found: Finding, before: tuple[int, dict[str, Any]], there: Place) -> Finding:
        """A pole that repels is not reached by the motion itself: the step that jumped onto it was too long."""
        energy, q = self.subject.energy, self.subject.system.q
        if found.cause != POLE or energy is None or not before[1]:
            return found
        last = self.at(before[1], before[0])
        ways = {str(x.arg): there.state(x) - last.state(x) for x in q}
        heights = [
            float(last.moved({str(x.arg): last.state(x) + s * ways[str(x.arg)] for x in q}).value(energy)[0])
            for s in (0.0, *NEARER)
        ]
        climbs = heights[-1] > heights[-2] > heights[0] and math.isfinite(heights[-1])
        if not climbs:
            return found
        return Finding(
            LONG,
            f"step {self.stop.step:,} ends at a pole that repels, where the motion itself does not go",
            f"Compile with dt={abs(self.run.dt) / 10:.2g} or less; sim.suggest_dt(...) measures one.",
            found.term,
            found.where,
        )

    @property
    def flow(self) -> str:
        """The sub-flow that failed, by the state that was bad first."""
        where, system = self.stop.where, self.run.system
        if not isinstance(where, tuple) or not isinstance(where[0], str) or not system.p:
            return ""
        if acts := [a.name for a in self.run.acts if a.due(self.stop.step)]:
            return f"act `{acts[0]}`"
        by = "-dH/dq" if system.energy is not None else "the force"
        if any(str(p.arg) == where[0] for p in system.p):
            return f"kick of `{where[0]}` by {by}"
        return f"drift of `{where[0]}` by dH/dp" if any(str(q.arg) == where[0] for q in system.q) else ""

    # --- the table --------------------------------------------------------------------------------
    def rows(self) -> list[LastStep]:
        out = []
        H, r = self.subject.energy, self.run
        known = r.system.clock is None and self.subject.work <= WORK
        for n, z in self.steps[-SHOWN - 1 :]:
            every = np.concatenate([np.ravel(np.asarray(v, float)) for v in z.values()])
            largest = float(np.abs(every).max())
            energy, pace = math.nan, math.nan
            if known and math.isfinite(largest):
                place = self.at(z, n)
                energy = float(place.value(H)[0]) if H is not None else math.nan
                pace = place.pace
            out.append(LastStep(n, time_at(n, r.dt, r.t0), largest, energy, pace, self.own(z)))
        return out

    def own(self, z: Mapping[str, Any]) -> float:
        """The number of the state that was bad first; of two particles, their distance."""
        where = self.stop.where
        if not isinstance(where, tuple) or len(where) != 2:
            return math.nan
        if isinstance(where[0], str):
            return (
                float(np.ravel(np.asarray(z[where[0]], float))[int(where[1])]) if where[0] in z else math.nan
            )
        q = next((q for q in self.subject.system.q if len(q.shape) == 2), None)
        rows = None if q is None else np.asarray(z[str(q.arg)], float)
        return math.nan if rows is None else float(np.linalg.norm(rows[where[0]] - rows[where[1]]))


def shown(u: UOp, sites: Mapping[UOp, Any]) -> str:
    """An expression with its line."""
    return as_written(u, sites)
