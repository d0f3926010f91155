"""The compiler on one screen: trace is done; analyse, choose, synthesise, lower, verify."""
from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tinyphysics.analysis.facts_of import facts_of
from tinyphysics.analysis.hierarchy import hierarchy
from tinyphysics.analysis.inverse_distance import FORM, inverse_distance
from tinyphysics.context import CHECK
from tinyphysics.device import cache
from tinyphysics.errors import PlanError
from tinyphysics.facts import Facts
from tinyphysics.ir import UOp
from tinyphysics.ir.reduction import COMPONENTS, FEW
from tinyphysics.ir.spec import SHAPED, check
from tinyphysics.plan import Goal, Plan
from tinyphysics.planner.catalog import ALIASES, BY_NAME, CHOICES, RESPA
from tinyphysics.planner.choose import choose
from tinyphysics.planner.explain import explain
from tinyphysics.planner.goals import decided, provisional
from tinyphysics.planner.needs import HIERARCHY
from tinyphysics.planner.propagator import plan_jump
from tinyphysics.planner.target import choose_target
from tinyphysics.planner.units import in_best_units
from tinyphysics.report import Report, Row
from tinyphysics.rules.exact import unrounded
from tinyphysics.step import Step
from tinyphysics.synth import schemes
from tinyphysics.synth.explicit import explicit_map
from tinyphysics.synth.multirate import multirate_step
from tinyphysics.synth.orbits import orbit_step
from tinyphysics.synth.propagate import FLOW, flow_step, power_step
from tinyphysics.synth.rungekutta import runge_kutta
from tinyphysics.synth.splitting import Approximate, split_step
from tinyphysics.system import System
from tinyphysics.target import Target
from tinyphysics.tpir.isa import Program
from tinyphysics.tpir.lower import lower
from tinyphysics.tpir.precision import in_precision
from tinyphysics.tpir.verifier import Certificate, verify
from tinyphysics.tpir.wide import in_pairs

schemes.keep(cache.read, cache.write)


@dataclass(frozen=True, eq=False)
class Build:
    system: System
    facts: Facts
    plan: Plan
    step: Step
    exact: Program  # before it was given its precision: what the certificate speaks of
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
    if goal.precision == "dd" and goal.scale != "off":
        raise PlanError(f'scale="{goal.scale}" does not go with precision="dd": other units round the weights of the method',
                        fix="Leave scale= out.")  # fmt: skip
    facts = all_facts(system, goal)
    jumps = goal.propagator != "loop"
    plan = (plan_jump(system, facts, goal, requested) if jumps else
            choose(system, facts, goal) if goal.decision is None else decided(goal.decision))  # fmt: skip
    if goal.is_accurate and goal.decision is None:
        plan = provisional(plan)
    units: tuple[Row, ...] = ()
    with unrounded() if goal.precision == "dd" else nullcontext():
        step = jump(system, facts, plan) if jumps else synthesise(system, facts, plan, goal)
        check_frame(step, goal)
        if goal.scale == "auto":
            step, row = in_best_units(step)
            units = (row,)
        wanted = lower(step, system.sites, goal.dt, goal.precision, goal.backwards)
    certificate = verify(replace(wanted, claims=()))
    shown = replace(wanted, claims=tuple(c for c in wanted.claims if certificate[c]))  # what is shown is claimed
    if goal.method == "symplectic" and not certificate.symplectic:
        raise PlanError(
            f"no method for `{system.name}` is certified symplectic: {certificate.symplectic.because}",
            fix="Give its energy to @tp.hamiltonian, or leave method= out.",
        )
    program = (in_pairs(shown, step.weights) if goal.precision == "dd" else
               in_precision(shown, goal.precision, goal.lattice))  # fmt: skip
    target, why = choose_target(program, requested, goal.precision)
    if jumps:
        why = f"{why}, for energies and observables: a jump is done on the host"
    return Build(system, facts, plan, step, shown, program, certificate, target, why, goal, units)


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
    if BY_NAME[plan.method].gradients:
        raise PlanError(f"approximate= does not go with the method {plan.method}: a tree gives no derivative of its force",
                        fix="Leave method= out, or choose one without force gradients.")  # fmt: skip
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


def jump(system: System, facts: Facts, plan: Plan) -> Step:
    """A step that stands for n of them."""
    if plan.method == FLOW:
        return flow_step(system, facts["separable"])
    method = BY_NAME[plan.method]
    assert method.sequence is not None
    return power_step(method.name, system, facts["separable"], method.sequence(), method.symmetric)


def on_orbits(goal: Goal) -> bool:
    """Is a method asked for that goes on Kepler orbits?  It needs to know more, and is compiled at the first state."""
    name = ALIASES.get(goal.method, goal.method)
    return name in BY_NAME and BY_NAME[name].orbits is not None


def all_facts(system: System, goal: Goal) -> Facts:
    """With the fact about orbits where a method needs it, or where it holds and would allow one."""
    facts = facts_of(system)
    if on_orbits(goal):
        return Facts((*facts, hierarchy(system, facts)))
    pairs = "pairs" in facts and facts["pairs"] and max(system.q[0].shape, default=0) <= COMPONENTS
    found = hierarchy(system, facts) if pairs and goal.method in CHOICES else None
    return facts if not found else Facts((*facts, found))


def check_frame(step: Step, goal: Goal) -> None:
    """What does not go with Jacobi coordinates is said, and not left out silently."""
    if step.frame is None:
        return
    if goal.precision != "float64":
        raise PlanError(f"`{step.name}` goes on Kepler orbits, which precision={goal.precision!r} does not do yet",
                        fix='Choose precision="float64".')  # fmt: skip
    if goal.scale == "auto":
        raise PlanError(f"`{step.name}` keeps bodies in Jacobi coordinates, and scale=\"auto\" looks for other units",
                        fix="Leave scale= out.")  # fmt: skip


def synthesise(system: System, facts: Facts, plan: Plan, goal: Goal) -> Step:
    approximate = None if goal.approximate is None else approximated(system, facts, plan, goal.approximate)
    if system.kind == "map":
        return explicit_map(system)
    method = BY_NAME[plan.method]
    T = kinetic(system) if system.kind == "forces" else None
    if method.tableau is not None:
        return runge_kutta(method.name, system, T, method.tableau)
    if plan.method == RESPA.name:
        claims = ("symplectic", "consistent", "symmetric")
        return multirate_step(method.name, system, facts["separable"].T, goal.inner, claims)
    if method.orbits is not None:
        if goal.hierarchy is None:
            raise PlanError(f"`{method.name}` orders the bodies of `{system.name}` by a state, and none is known yet",
                            fix="Run it first: sim.evolve(...); what was found is in sim.explain().")  # fmt: skip
        split = facts["separable"]
        return orbit_step(method.name, system, split.T, split.V, facts[HIERARCHY], goal.hierarchy.order, method.orbits(),
                          method.corrected)  # fmt: skip
    assert method.sequence is not None
    claims = tuple(c for c in method.keeps if c != "symplectic")
    time = facts["explicit time"]
    processor = None if method.processor is None else method.processor()
    if T is not None:
        return split_step(method.name, system, T, None, method.sequence(), ("volume-preserving", *claims),
                          ["V"] if time else [], None, processor)  # fmt: skip
    split = facts["separable"]
    structure = "symplectic" if approximate is None else "volume-preserving"
    return split_step(method.name, system, split.T, split.V, method.sequence(),
                      (structure, *claims), time.inside if time else [], approximate, processor)  # fmt: skip
