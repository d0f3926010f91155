"""Does a run begin on its constraints?  Residuals of g(q) = 0 and of its rate, the nearest state, and multipliers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from tinyphysics.analysis.separable import separable
from tinyphysics.constrained import BRACKET
from tinyphysics.device.host.arrays import Evaluator
from tinyphysics.errors import InputError
from tinyphysics.ir import UOp, elements, substitute
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.formulas.constraints import ArrayConstraints, Constraints
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.runtime.engines.caller_arrays import host_copies
from tinyphysics.runtime.stages.in_numpy import numbers
from tinyphysics.runtime.stages.redundant_rows import check_rows
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.step import DT
from tinyphysics.synth.methods.long_chains import arrays_of, plan_of
from tinyphysics.synth.methods.long_chains import multipliers as multipliers_of_chain
from tinyphysics.synth.methods.rattle import constraints_of, in_loops
from tinyphysics.synth.methods.rattle import multipliers as multipliers_of
from tinyphysics.system import System
from tinyphysics.util import did_you_mean, one_of

OFF = 1e-10  # of its own size, by which a constraint may be off at the start: a number of ten digits is
OFF_SHORT = 2.0**-21  # the same of states that are float32
DEPENDENT = 1e-7  # of a row, that is left without those before it, where it says nothing new
ROUNDS = 60  # to the nearest state
TINY = 2.0**-1000
ANYWHERE: ContextVar[bool] = ContextVar("anywhere", default=False)


def holds(system: System) -> bool:
    return system.bracket == BRACKET


def rows_of(system: System) -> list[str]:
    """What each row of the constraints is called."""
    return [
        f"`{name}`" if g.size == 1 else f"row {', '.join(map(str, np.unravel_index(k, g.shape)))} of `{name}`"
        for name, g in zip(system.held, system.tensor)
        for k in range(g.size)
    ]


@dataclass(frozen=True, eq=False)
class Numeric:
    """Constraints as functions of arrays of members."""

    of: Constraints
    evaluator: Evaluator  # of the numbers of states and parameters

    def at(self, i: Inputs, states: Mapping[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """(g, G, A, q, p) of every member."""
        env: dict[UOp, Any] = {}
        for name, v in (*states.items(), *i.own.items()):
            flat = np.asarray(v, np.float64).reshape(len(v), -1)
            env |= {UOp.var(f"{name}.{k}"): flat[:, k] for k in range(flat.shape[1])}
        with np.errstate(all="ignore"):
            found = [np.broadcast_to(v, i.members) for v in self.evaluator(env)]
        m, n = self.of.count, len(self.of.q)
        table = np.array(found).reshape(len(found), i.members).T
        g, G, A = (
            table[:, :m],
            table[:, m : m + m * n].reshape(-1, m, n),
            table[:, m + m * n :].reshape(-1, n, n),
        )
        return g, G, A, self.flat(states, self.of.positions), self.flat(states, self.of.momenta)

    def flat(self, states: Mapping[str, Any], some: Sequence[UOp]) -> Any:
        return np.concatenate(
            [np.asarray(states[str(s.arg)], float).reshape(len(states[str(s.arg)]), -1) for s in some], 1
        )

    def unflat(self, values: Any, some: Sequence[UOp]) -> dict[str, Any]:
        out, at = {}, 0
        for s in some:
            out[str(s.arg)] = values[:, at : at + s.size].reshape(-1, *s.shape)
            at += s.size
        return out


@dataclass(frozen=True, eq=False)
class NumericArrays:
    """Constraints of long arrays, member by member: G by its columns."""

    of: ArrayConstraints
    row: UOp
    expressions: tuple[UOp, ...]  # g, G T'(p), T'(p), then Gᵀ and A Gᵀ times a row of ones and zeros

    def env(self, i: Inputs, states: Mapping[str, Any], member: int) -> dict[str, Any]:
        every = {**states, **i.own}
        return {n: np.asarray(v[member if len(v) > 1 else 0], np.float64) for n, v in every.items()}

    def residuals(self, i: Inputs, states: Mapping[str, Any]) -> tuple[Any, Any, Any, Any]:
        """(g, its rate, a size of each) of every member; sizes are those of the largest row."""
        found: list[list[Any]] = [[], [], [], []]
        third = (np.arange(self.row.size) % 3 == 0).astype(float)
        for member in range(i.members):
            env = self.env(i, states, member)
            g, rate, v, push, _ = numbers(self.expressions, {**env, str(self.row.arg): third})
            steep = np.abs(push).max(initial=0.0)
            sizes = (np.abs(x).max(initial=0.0) * steep for x in (env[str(self.of.q.arg)], v))
            for into, value in zip(found, (g, rate, *sizes)):
                into.append(value)
        g, rate, size, speed = (np.array(x) for x in found)
        return g, rate, size[:, None], speed[:, None]

    def slopes(self, env: Mapping[str, Any]) -> tuple[Any, Any, Any, Any]:
        """(g, T'(p), G, A Gᵀ) of one member."""
        g, _, v, *_ = numbers(self.expressions, {**env, str(self.row.arg): np.zeros(self.row.shape)})
        columns = [
            numbers(self.expressions[3:], {**env, str(self.row.arg): unit}) for unit in np.eye(self.row.size)
        ]
        G, moved = (np.array([c[k].ravel() for c in columns]) for k in (0, 1))
        return g.ravel(), v.ravel(), G, moved.T

    def nearest(self, system: System, i: Inputs) -> dict[str, Any]:
        q, p = str(self.of.q.arg), str(self.of.p.arg)
        out: dict[str, list[Any]] = {q: [], p: []}
        for member in range(i.members):
            env = self.env(i, i.states, member)
            for _ in range(ROUNDS):
                g, _, G, moved = self.slopes(env)
                step = moved @ solved(system, G @ moved, g)
                env[q] = env[q] - step.reshape(self.of.q.shape)
                if not np.abs(step).max() > 1e-14 * np.abs(env[q]).max():
                    break
            for _ in range(2):
                _, v, G, moved = self.slopes(env)
                env[p] = env[p] - (G.T @ solved(system, G @ moved, G @ v)).reshape(self.of.p.shape)
            out[q].append(env[q])
            out[p].append(env[p])
        return {name: np.array(v) for name, v in out.items()}


@lru_cache(maxsize=8)
def numeric_arrays(system: System) -> NumericArrays | None:
    """None where constraints are few, and written out."""
    c = arrays_of(system, separable(system).T) if in_loops(system) else ""
    if isinstance(c, str):
        return None
    row = UOp.var("row of constraints", c.g.shape)
    push = c.pushed(row)
    return NumericArrays(c, row, (c.g, c.rates(c.p), c.v, push, c.moved(push)))


@lru_cache(maxsize=8)
def numeric(system: System) -> Numeric:
    c = constraints_of(system, separable(system).T)
    every = (*(s.var for s in system.states), *(p.var for p in system.parameters))
    table = {e: UOp.var(f"{v.arg}.{k}") for v in every for k, e in enumerate(elements(v))}
    roots = [*c.g, *(u for row in c.G for u in row), *(u for row in c.A for u in row)]
    return Numeric(c, Evaluator(lower(inline(substitute(roots, table)))))


@contextmanager
def anywhere() -> Iterator[None]:
    """Runs may begin off the constraints: those beside a run of which differences are taken."""
    token = ANYWHERE.set(True)
    try:
        yield
    finally:
        ANYWHERE.reset(token)


def check_start(system: System, i: Inputs) -> None:
    """An InputError where a member does not begin on the constraints, or some of them say nothing new there."""
    if not holds(system) or not i.members or ANYWHERE.get():
        return
    if i.there:
        i = replace(i, states=host_copies(i.states))
    if (long := numeric_arrays(system)) is not None:
        plan = plan_of(long.of)
        if not isinstance(plan, str):
            for member in some_members(i):
                check_rows(long.of, plan, long.env(i, i.states, member), rows_of(system))
        g, rate, size, speed = long.residuals(i, i.states)
    else:
        g, G, A, q, p = numeric(system).at(i, i.states)
        check_independent(system, i, G, A, g, q)
        v = np.einsum("mkl,ml->mk", A, p)
        rate = np.einsum("mjk,mk->mj", G, v)
        size, speed = (np.einsum("mjk,mk->mj", np.abs(G), np.abs(x)) for x in (q, v))
    named = rows_of(system)
    off = off_by(i)
    for values, scale, what in (
        (g, size, "is {value:.3g} at the start, not 0"),
        (rate, speed, "changes at the rate {value:.3g} at the start, not 0"),
    ):
        bad = ~(np.abs(values) <= off * scale + TINY)
        if bad.any():
            member, row = np.argwhere(bad)[0]
            whose = f" of member {member}" if i.is_ensemble else ""
            raise InputError(
                f"{named[row]}{whose} {what.format(value=values[member, row])}: the state is off the constraints",
                fix=f"Start from the nearest state on them: sim.evolve(**sim.consistent({given_as(system)}), ...).",
            )


def off_by(i: Inputs) -> float:
    """What rounding of the states may be of the size of a constraint."""
    first: Any = next(iter(i.states.values()))
    return OFF_SHORT if first.dtype == np.float32 else OFF


def given_as(system: System) -> str:
    return ", ".join(f"{s.name}=..." for s in system.states)


def some_members(i: Inputs) -> range:
    return range(0, i.members, max(1, i.members // 16))


def check_independent(system: System, i: Inputs, G: Any, A: Any, g: Any, q: Any) -> None:
    """An InputError that names a row which the others imply at the start, or contradict, or which vanishes there."""
    named = rows_of(system)
    for member in some_members(i):
        try:
            root = np.linalg.cholesky(A[member] + 0.0)
        except np.linalg.LinAlgError:
            root = np.full_like(A[member], np.nan)
        if not np.isfinite(root).all():
            raise InputError(
                "the kinetic energy is not positive and finite: constraints need masses above zero",
                fix="Check the masses.",
            )
        left = G[member] @ root
        for row, own in enumerate(left):
            size, rest = np.linalg.norm(own), own
            for _ in range(2):
                for unit in left[:row]:
                    rest = rest - (rest @ unit) * unit
            kept = np.linalg.norm(rest)
            if not kept > DEPENDENT * size:
                before = named[0] if row == 1 else "the rows before it"
                shares = (
                    np.linalg.lstsq(G[member, :row].T, G[member, row], rcond=None)[0] if row else np.zeros(0)
                )
                apart = np.abs(g[member, row] - shares @ g[member, :row])
                if size > 0 and apart > 1e-6 * (np.abs(G[member, row]) @ np.abs(q[member])) + TINY:
                    raise InputError(
                        f"{named[row]} is {g[member, row]:.3g} at the start, and no motion that keeps {before} "
                        "changes it: these constraints contradict each other",
                        fix="Leave one of them out, or give both the same length.",
                    )
                what = (
                    "has no slope at the start: nothing would hold it"
                    if not size > 0
                    else f"says nothing at the start that {before} {'does' if row == 1 else 'do'} not say: it is redundant"
                )
                raise InputError(
                    f"{named[row]} {what}", fix="Leave it out, or write it as a length that is not zero."
                )
            left[row] = rest / kept


def nearest(system: System, i: Inputs) -> dict[str, Any]:
    """The nearest positions on the constraints, in the metric of the masses, and momenta along them."""
    if (long := numeric_arrays(system)) is not None:
        there = long.nearest(system, i)
        check_start(system, replace(i, states=there))
        return there if i.is_ensemble else {name: v[0] for name, v in there.items()}
    n = numeric(system)
    g, G, A, wanted, p = n.at(i, i.states)
    check_independent(system, i, G, A, g, wanted)
    states, still, last = dict(i.states), 0, np.inf
    for _ in range(ROUNDS):
        g, G, _, q, _ = n.at(i, states)
        push = np.einsum("mkl,mjl->mkj", A, G)
        right = g + np.einsum("mjk,mk->mj", G, (wanted - q) if still == 0 else 0.0 * q)
        step = np.einsum("mkj,mj->mk", push, solved(system, G @ push, right))
        new = (wanted if still == 0 else q) - step
        change = float(np.abs(new - q).max(initial=0.0) / max(np.abs(q).max(initial=0.0), TINY))
        states |= n.unflat(new, n.of.positions)
        if not np.isfinite(change):
            break
        still += (
            still > 0 or change < 1e-12 or change >= last and change < 1e-6
        )  # then what is left is taken off
        last = change
        if still > 2:
            break
    g, G, A, q, _ = n.at(i, states)
    size = np.einsum("mjk,mk->mj", np.abs(G), np.abs(q))
    if not (np.abs(g) <= OFF * size + TINY).all():
        raise InputError(
            f"no state on the constraints was found near this one: {rows_of(system)[int(np.abs(g).max(axis=0).argmax())]} "
            f"is still {float(np.abs(g).max()):.3g}",
            fix="Start nearer to them.",
        )
    check_independent(system, i, G, A, g, q)
    for _ in range(2):
        v = np.einsum("mkl,ml->mk", A, p)
        push = np.einsum("mkl,mjl->mkj", A, G)
        p = p - np.einsum("mjk,mj->mk", G, solved(system, G @ push, np.einsum("mjk,mk->mj", G, v)))
    found = {**n.unflat(q, n.of.positions), **n.unflat(p, n.of.momenta)}
    return found if i.is_ensemble else {name: v[0] for name, v in found.items()}


def solved(system: System, matrix: Any, right: Any) -> Any:
    try:
        return np.linalg.solve(matrix, right[..., None])[..., 0]
    except np.linalg.LinAlgError:
        raise InputError(
            f"the constraints of `{system.name}` are redundant at this state",
            fix="Leave out those that others imply.",
        ) from None


def multipliers(system: System, method: str, dt: float, name: str) -> UOp:
    """The multipliers of a constraint as an expression of a state of a run."""
    if name not in system.held:
        known = one_of(system.held, "and") if system.held else "none"
        raise InputError(
            f"there is no constraint `{name}`", fix=f"{did_you_mean(name, system.held)}It has {known}."
        )
    split, weights = separable(system), BY_NAME[method].family.weights  # type: ignore[attr-defined]
    k = system.held.index(name)
    begin, g = sum(u.size for u in system.tensor[:k]), system.tensor[k]
    if (long := numeric_arrays(system)) is not None:
        (rows,) = substitute([multipliers_of_chain(long.of, split.V, weights[0])], {DT: UOp.const(dt)})
        return rows.slice([(begin, begin + g.size, 1)]).reshape(*g.shape)
    (every,) = substitute([multipliers_of(system, split.T, split.V, weights[0])], {DT: UOp.const(dt)})
    return UOp.stack(elements(every)[begin : begin + g.size], g.shape)
