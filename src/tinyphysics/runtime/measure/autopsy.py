"""Why did a run stop?  Its last steps are done again with everything recorded, and a cause is named from a short list.

A healthy run records nothing for this. What is said follows from the energy at the last good states: which of its terms is
not a number, which operation made it so, and how long the step was beside the fastest vibration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, TinyPhysicsError
from tinyphysics.ir import Ops, UOp, evaluate, toposort
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.measure.autopsy_report import Autopsy, LastStep
from tinyphysics.runtime.measure.first_bad_node import first_bad_node, overflows
from tinyphysics.runtime.stages.origin import Origin
from tinyphysics.runtime.stages.terms import addends
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import time_at
from tinyphysics.trajectory import Stop, Trajectory

SHOWN = 8  # steps before the bad one
MOST = 48  # numbers of a state whose vibrations are looked at
LIMIT = 2.0  # omega*dt of leapfrog, where a method says nothing
ON_THE_WAY = 65  # places of the last drift that are looked at
SAFE = 0.2  # of a limit: what is proposed
NEGATIVE = (Ops.SQRT, Ops.RSQRT, Ops.LOG, Ops.LOG1P, Ops.POW)
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
            "this stop does not know the run that it belongs to", fix="Ask the run: out.stopped.report()."
        )
    return Examined(out.origin.run, stop).verdict()


# --- the run again ----------------------------------------------------------------------------------
def last_steps(r: Run, member: int, step: int) -> list[tuple[int, dict[str, Any]]]:
    """(step, state) of the steps before the bad one, and of that one; of a run whose steps are not its own only the first."""
    given = {n: v[member : member + 1] for n, v in r.given.states.items()}
    first = [(0, {n: v[0] for n, v in r.encoding.values(given).items()})]
    if r.jump is not None or r.adaptive or r.series is not None or r.acts:
        return first
    params = {n: v[member : member + 1] if len(v) > 1 else v for n, v in r.given.params.items()}
    engine = engine_for(r.target, r.program, None, 1, r.loops)
    m = engine.start(given, params, 1, r.dt, r.t0, 1)
    begin = max(0, step - SHOWN)
    if begin:
        engine.advance(m, begin)
    out = []
    for n in range(begin, step + 1):
        state = given if n == 0 else engine.synchronised(m)
        out.append((n, {name: v[0] for name, v in r.encoding.values(state).items()}))
        if n < step:
            engine.advance(m, 1)
    return out


@dataclass(frozen=True, eq=False)
class Examined:
    """One member of a run that stopped."""

    run: Run
    stop: Stop

    @property
    def member(self) -> int:
        return 0 if self.stop.member is None else self.stop.member

    def env(self, state: Mapping[str, Any], n: int) -> dict[str, Any]:
        r, k = self.run, self.member
        params = {name: np.asarray(v[k if len(v) > 1 else 0]) for name, v in r.given.own.items()}
        values = {**params, **{name: np.asarray(v, float) for name, v in state.items()}}
        out = {name: np.ravel(v).tolist() if v.ndim else float(v) for name, v in values.items()}
        return out | {"t": time_at(n, r.dt, r.t0)}

    def verdict(self) -> Autopsy:
        r, stop, system = self.run, self.stop, self.run.system.seen
        if stop.cause == "not solved":
            return self.told(
                "equations not solved",
                "the iteration for the unknowns of a step did not converge",
                f"Shorten dt: {abs(r.dt) / 4:.2g} or less, or choose an explicit method.",
            )
        if stop.cause == "overflow":
            return self.told(
                "overflow",
                "a number left its lattice",
                "Choose a coarser unit, lattice=, or look for what makes the state grow.",
            )
        steps = last_steps(r, self.member, stop.step)
        first = {n: v[self.member] for n, v in r.encoding.values(r.given.states).items()}
        H = system.energy
        size = sum(s.var.size for s in system.states)
        if H is None or size > MOST or r.system.clock is not None:
            return self.told("not finite", "a number of the state is not finite", "Shorten dt.", steps=steps)
        roots = [H, *simplify(gradient(H, list(system.q))), *simplify(gradient(H, list(system.p)))]
        start = self.env(first, 0)
        if (bad := first_bad_node(roots, start)) is not None:
            return self.of_node(bad, start, True, steps)
        *before, (_, after) = steps
        places = [
            (n, z) for n, z in reversed(steps) if all(np.isfinite(z[str(q.arg)]).all() for q in system.q)
        ]
        for n, z in places[:2]:  # where the step went, and where it began
            here = {name: v if np.isfinite(v).all() else before[-1][1][name] for name, v in z.items()}
            if (bad := first_bad_node(roots, self.env(here, n))) is not None and not overflows(
                bad, self.env(here, n)
            ):
                return self.of_node(bad, self.env(here, n), False, steps)
        if (met := self.on_the_way(roots, before[-1])) is not None:
            return self.of_node(*met, False, steps)
        rows = self.rows(steps)
        limit = self.limit
        at_start = abs(r.dt) * self.omega(first, 0)
        fast = next((row for row in rows if limit < row.pace < math.inf), None)
        if at_start > limit or fast is not None:
            pace, n = (at_start, 0) if at_start > limit else (fast.pace, fast.step)  # type: ignore[union-attr]
            good = SAFE * limit * abs(r.dt) / pace if at_start > limit else abs(r.dt) / 10
            return self.told(
                "dt above the limit",
                f"dt*omega is {pace:.3g} at step {n:,}, and the method is stable below {limit:.3g}",
                f"Compile with dt={good:.2g} or less; sim.suggest_dt(...) measures one.",
                self.steepest(first if at_start > limit else before[-1][1], 0),
                rows,
            )
        return self.told(
            "overflow",
            "the state grows beyond all floats, and no vibration is too fast for the step: the energy has no lower bound",
            "Look at the sign of this term: is the potential meant to fall for ever?",
            self.steepest(before[-1][1], before[-1][0]),
            rows,
        )

    def on_the_way(self, roots: Sequence[UOp], last: tuple[int, Mapping[str, Any]]) -> tuple[UOp, Any] | None:
        """The operation that fails along the last drift, and where: a step may begin and end beside a pole."""
        n, z = last
        system, env = self.run.system.seen, self.env(z, n)
        speeds = evaluate(roots[1 + len(system.q) :], env)
        if not all(np.isfinite(np.ravel(v)).all() for v in speeds):
            return None
        for part in np.linspace(0.0, 1.0, ON_THE_WAY):
            here = dict(env)
            for q, v in zip(system.q, speeds):
                new = np.ravel(env[str(q.arg)]) + part * self.run.dt * np.ravel(v)
                here[str(q.arg)] = new.tolist() if q.shape else float(new[0])
            bad = first_bad_node(roots, here)
            if bad is not None and not overflows(bad, here):
                return bad, here
        return None

    def told(
        self,
        cause: str,
        because: str,
        fix: str,
        term: str = "",
        rows: Sequence[LastStep] = (),
        steps: Sequence[tuple[int, Mapping[str, Any]]] = (),
        flow: str = "",
    ) -> Autopsy:
        rows = rows or (self.rows(steps) if steps else ())
        return Autopsy(cause, because, fix, self.stop, term, flow or self.flow, tuple(rows))

    @property
    def flow(self) -> str:
        """The sub-flow that failed, by the state that was bad first."""
        where, system = self.stop.where, self.run.system
        if not isinstance(where, tuple) or not isinstance(where[0], str) or system.energy is None:
            return ""
        if any(str(p.arg) == where[0] for p in system.p):
            return f"kick of `{where[0]}` by -dH/dq"
        return f"drift of `{where[0]}` by dH/dp" if any(str(q.arg) == where[0] for q in system.q) else ""

    @property
    def limit(self) -> float:
        step = self.run
        name = getattr(getattr(step.program, "program", step.program), "name", "")
        method = BY_NAME.get(name)
        return LIMIT if method is None or method.limit is None else float(method.limit)

    # --- what is said of an operation -------------------------------------------------------------
    def of_node(self, u: UOp, env: Mapping[str, Any], at_start: bool, steps: Any) -> Autopsy:
        """The cause, from the operation that first gave no finite number."""
        system = self.run.system.seen
        term = self.term_of(u)
        arguments = [np.ravel(evaluate([s], env)[0]) for s in u.src]
        when = "at the first state" if at_start else f"at step {self.stop.step:,}"
        rows: tuple[LastStep, ...] = () if at_start else tuple(self.rows(steps))
        if u.op in NEGATIVE and (arguments[0] < 0).any():
            return self.told(
                "root of a negative",
                f"the argument of {u.op.value} is {float(arguments[0].min()):.3g} {when}",
                "Guard it, tp.where(x > 0, ..., 0.0), or keep the orbit where it is positive.",
                term,
                rows,
            )
        zero = [
            p.name
            for p in system.parameters
            if any(p.var in s.leaves for s in u.src) and not np.all(np.ravel(env[p.name]))
        ]
        if zero and at_start:
            return self.told(
                "mass zero", f"the parameter `{zero[0]}` is zero {when}, and the energy divides by it",
                f"Pass a positive `{zero[0]}`; a fixed centre is a term of the energy, not a particle without mass.", term,
            )  # fmt: skip
        pair = self.together(env)
        if at_start and pair is not None:
            return self.told(
                "overlap at the start",
                f"particles {pair[0]} and {pair[1]} are at the same place {when}",
                "Move them apart, or add a softening: tp.sqrt(r2 + eps**2).",
                term,
            )
        fix = (
            "Start away from it." if at_start else
            'Compile with time="logarithmic", add a softening, tp.sqrt(r2 + eps**2), or shorten dt.'
        )  # fmt: skip
        return self.told(
            "pole",
            f"{u.op.value} is not finite {when}: the state is at a pole of the energy",
            fix,
            term,
            rows,
        )

    def together(self, env: Mapping[str, Any]) -> tuple[int, int] | None:
        """The first two particles at one place."""
        for q in self.run.system.seen.q:
            if len(q.shape) == 2:
                rows = np.reshape(env[str(q.arg)], q.shape)
                for i in range(len(rows)):
                    same = np.flatnonzero((rows[i + 1 :] == rows[i]).all(axis=1))
                    if len(same):
                        return i, i + 1 + int(same[0])
        return None

    def term_of(self, u: UOp) -> str:
        """The addend of the energy that an operation is in, with its line."""
        system = self.run.system.seen
        assert system.energy is not None
        leaves = u.leaves
        for x in addends(system.energy):
            if u in dict.fromkeys(toposort([x])):
                return shown(x, system.sites)
        near = [x for x in addends(system.energy) if leaves <= x.leaves]
        return shown(near[0], system.sites) if near else ""

    def steepest(self, state: Mapping[str, Any], n: int) -> str:
        """The addend whose slope is the largest at a state."""
        system = self.run.system.seen
        assert system.energy is not None
        env, best, found = self.env(state, n), -1.0, ""
        for x in addends(system.energy):
            if not x.leaves & {*system.q}:
                continue
            slopes = evaluate(gradient(x, list(system.q)), env)
            size = max(float(np.abs(np.ravel(s)).max(initial=0.0)) for s in slopes)
            if not size <= best:
                best, found = size, shown(x, system.sites)
        return found

    # --- the table --------------------------------------------------------------------------------
    def rows(self, steps: Sequence[tuple[int, Mapping[str, Any]]]) -> list[LastStep]:
        out = []
        H, r = self.run.system.seen.energy, self.run
        for n, z in steps[-SHOWN - 1 :]:
            largest = float(
                np.abs(np.concatenate([np.ravel(np.asarray(v, float)) for v in z.values()])).max()
            )
            energy, pace = math.nan, math.nan
            if H is not None and math.isfinite(largest) and r.system.clock is None:
                energy = float(evaluate([H], self.env(z, n))[0])
                pace = abs(r.dt) * self.omega(z, n)
            out.append(LastStep(n, time_at(n, r.dt, r.t0), largest, energy, pace))
        return out

    def omega(self, state: Mapping[str, Any], n: int) -> float:
        """The frequency of the fastest vibration at a state."""
        system = self.run.system.seen
        count = sum(q.size for q in system.q)
        if 2 * count > MOST or system.energy is None:
            return math.nan
        try:
            V, T = (self.second(list(xs), self.env(state, n)) for xs in (system.q, system.p))
            with np.errstate(all="ignore"):
                product = T @ V
            if not np.isfinite(product).all():
                return math.inf
            square = float(np.linalg.eigvals(product).real.max())
        except (TinyPhysicsError, ArithmeticError, np.linalg.LinAlgError):
            return math.nan
        return math.sqrt(square) if square > 0 else 0.0

    @cached_property
    def by_numbers(self) -> UOp:
        """The energy with its sums over pairs written out: a particle and itself are no pair, also in derivatives."""
        H = self.run.system.seen.energy
        assert H is not None
        return simplify(unroll([H])[0])[0]

    def second(self, xs: list[UOp], env: Mapping[str, Any]) -> Any:
        slopes, n, columns = gradient(self.by_numbers, xs), sum(x.size for x in xs), []
        for k in range(n):
            ways, at = [], 0
            for x in xs:
                unit = [UOp.const(float(at + i == k)) for i in range(x.size)]
                ways.append(UOp.stack(unit, x.shape) if x.shape else unit[0])
                at += x.size
            columns.append(np.concatenate([np.ravel(v) for v in evaluate(jvp(slopes, xs, ways), env)]))
        return np.array(columns).T


def shown(u: UOp, sites: Mapping[UOp, Any]) -> str:
    site = next((sites[x] for x in reversed(toposort([u])) if x in sites), None)
    return f"{u}" + (f" ({site})" if site is not None else "")
