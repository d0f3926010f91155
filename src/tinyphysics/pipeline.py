"""The compiler on one screen: trace is done; analyse, choose, synthesise, lower, verify."""
from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tinyphysics.analysis.facts_of import facts_of
from tinyphysics.analysis.inverse_distance import FORM, inverse_distance
from tinyphysics.context import CHECK
from tinyphysics.device import cache
from tinyphysics.errors import PlanError
from tinyphysics.facts import Facts
from tinyphysics.ir import UOp
from tinyphysics.ir.reduction import FEW
from tinyphysics.ir.spec import SHAPED, check
from tinyphysics.plan import Goal, Plan
from tinyphysics.planner.catalog import BY_NAME
from tinyphysics.planner.choose import choose
from tinyphysics.planner.explain import explain
from tinyphysics.planner.target import choose_target
from tinyphysics.planner.units import in_best_units
from tinyphysics.report import Report, Row
from tinyphysics.step import Step
from tinyphysics.synth import schemes
from tinyphysics.synth.explicit import explicit_map
from tinyphysics.synth.rungekutta import runge_kutta
from tinyphysics.synth.splitting import Approximate, split_step
from tinyphysics.system import System
from tinyphysics.target import Target
from tinyphysics.tpir.isa import Program
from tinyphysics.tpir.lower import lower
from tinyphysics.tpir.precision import in_precision
from tinyphysics.tpir.verifier import Certificate, verify

schemes.keep(cache.read, cache.write)


@dataclass(frozen=True, eq=False)
class Build:
    system: System
    facts: Facts
    plan: Plan
    step: Step
    program: Program
    certificate: Certificate
    target: Target
    why: str  # this target
    goal: Goal
    units: tuple[Row, ...]  # what was said about other units

    @cached_property
    def report(self) -> Report:
        return explain(self.system, self.facts, self.goal, self.plan, self.step, self.program, self.certificate,
                       self.target, self.why, self.units)  # fmt: skip


def build(system: System, goal: Goal, requested: str = "auto") -> Build:
    if CHECK.value:
        check([u for u in (system.energy, *system.forces, *system.update) if u is not None], SHAPED)
    facts = facts_of(system)
    plan = choose(system, facts, goal)
    step = synthesise(system, facts, plan, goal.approximate)
    units: tuple[Row, ...] = ()
    if goal.scale == "auto":
        step, row = in_best_units(step)
        units = (row,)
    wanted = lower(step, system.sites, goal.dt, goal.precision)
    certificate = verify(replace(wanted, claims=()))
    shown = replace(wanted, claims=tuple(c for c in wanted.claims if certificate[c]))  # what is shown is claimed
    if goal.method == "symplectic" and not certificate.symplectic:
        raise PlanError(
            f"no method for `{system.name}` is certified symplectic: {certificate.symplectic.because}",
            fix="Give its energy to @tp.hamiltonian, or leave method= out.",
        )
    program = in_precision(shown, goal.precision)
    target, why = choose_target(program, requested)
    return Build(system, facts, plan, step, program, certificate, target, why, goal, units)


def kinetic(system: System) -> UOp:
    """p*p/(2 mass) for a system that is given by its forces."""
    (p,) = system.p
    mass: Any = next((x.var for x in system.parameters if x.name == "mass"), 1.0)
    if isinstance(mass, UOp) and mass.shape and mass.shape != p.shape:  # one mass per row of q
        mass = mass.reshape(mass.shape + (1,) * (p.ndim - mass.ndim)).expand(p.shape)
    return (p * p / (2.0 * mass)).sum()


def approximated(system: System, facts: Facts, plan: Plan, error: float) -> Approximate:
    """What a tree sums, or a PlanError that says what was looked for."""
    if system.kind != "hamiltonian" or not BY_NAME[plan.method].splits:
        what = f"the method {plan.method}" if system.kind == "hamiltonian" else f"a system given by its {system.kind}"
        raise PlanError(f"approximate= does not go with {what}",
                        fix="It goes with an energy T(p) + V(q) and a splitting, the default.")  # fmt: skip
    found = inverse_distance(system, facts["separable"].V)
    if not found:
        raise PlanError(f"approximate={error:g}, and no sum of this form was found in `{system.name}`:\n  {FORM}\n"
                        f"  {found.because}", site=found.site,
                        fix="Leave approximate= out: then all forces are exact.")  # fmt: skip
    bodies = system.q[0].shape[0]
    if bodies <= FEW:
        raise PlanError(f"approximate= for n = {bodies}",
                        fix="Leave it out: the direct sum over so few is faster, and exact.")  # fmt: skip
    return Approximate(found, error)


def synthesise(system: System, facts: Facts, plan: Plan, error: float | None = None) -> Step:
    approximate = None if error is None else approximated(system, facts, plan, error)
    if system.kind == "map":
        return explicit_map(system)
    method = BY_NAME[plan.method]
    T = kinetic(system) if system.kind == "forces" else None
    if method.tableau is not None:
        return runge_kutta(method.name, system, T, method.tableau)
    assert method.sequence is not None
    claims = ("consistent", "symmetric") if method.symmetric else ("consistent",)
    time = facts["explicit time"]
    if T is not None:
        return split_step(method.name, system, T, None, method.sequence(),
                          ("volume-preserving", *claims), "V" if time else None)  # fmt: skip
    split = facts["separable"]
    structure = "symplectic" if approximate is None else "volume-preserving"
    return split_step(method.name, system, split.T, split.V, method.sequence(),
                      (structure, *claims), time.inside[0] if time else None, approximate)  # fmt: skip
