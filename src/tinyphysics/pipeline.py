"""The compiler on one screen: trace is done; analyse, choose, synthesise, lower, verify."""
from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property

from tinyphysics.analysis.facts_of import facts_of
from tinyphysics.analysis.hierarchy import hierarchy
from tinyphysics.context import CHECK
from tinyphysics.device import cache
from tinyphysics.errors import PlanError
from tinyphysics.facts import Facts
from tinyphysics.ir.reduction import COMPONENTS
from tinyphysics.ir.spec import SHAPED, check
from tinyphysics.plan import Goal, Plan
from tinyphysics.planner.catalog import ALIASES, BY_NAME, CHOICES, MAP
from tinyphysics.planner.choose import choose
from tinyphysics.planner.explain import explain
from tinyphysics.planner.families import Job, step_of
from tinyphysics.planner.goals import decided, provisional
from tinyphysics.planner.propagator import plan_jump
from tinyphysics.planner.target import choose_target
from tinyphysics.planner.units import in_best_units
from tinyphysics.report import Report, Row
from tinyphysics.rules.exact import unrounded
from tinyphysics.step import Solve, Step
from tinyphysics.synth import schemes
from tinyphysics.synth.propagate import FLOW, flow_step, power_step
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
    method = BY_NAME.get(plan.method, MAP)
    with unrounded() if goal.precision == "dd" or method.family == "variational" else nullcontext():
        step = jump(system, facts, plan) if jumps else step_of(Job(system, facts, method, goal))
        check_frame(step, goal)
        check_solve(step, goal)
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


def check_solve(step: Step, goal: Goal) -> None:
    """What does not go with equations that are solved in a step."""
    if not any(isinstance(part, Solve) for part in step.body):
        return
    if goal.precision != "float64":
        raise PlanError(f"`{step.name}` solves equations, which precision={goal.precision!r} does not do yet",
                        fix='Choose precision="float64".')  # fmt: skip
    if goal.scale == "auto":
        raise PlanError(f"`{step.name}` solves equations in your units, and scale=\"auto\" looks for others",
                        fix="Leave scale= out.")  # fmt: skip


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
