"""Is a Lagrangian stepped by its energy, or as it is?  By what costs less, where both give the same order.

The Legendre transform gives H: kicks and drifts where the mass matrix is constant, else the stages of Gauss, which divide by
that matrix in every round and solve for positions and momenta. A variational method solves for velocities alone, and divides
by nothing; in exact arithmetic it is the same map as those stages. Operations of both are counted on their programs.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass, replace

from tinyphysics.facts import Facts
from tinyphysics.plan import Alternative, Goal
from tinyphysics.planner.cost.cost import work
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.planner.methods.families.variational import velocities_of
from tinyphysics.planner.methods.method import COLLOCATION, VARIATIONAL, Job, Method, step_of
from tinyphysics.rules.identities.exact import unrounded
from tinyphysics.synth.methods.implicit import BY_NEWTON
from tinyphysics.system import System
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.program.lower import lower
from tinyphysics.tpir.verifier import verify

OF_L = {2: "variational_midpoint", 4: "galerkin4", 6: "galerkin6"}
SPLIT = "variational_trapezoidal"  # is leapfrog where the mass matrix is constant
# of a step, about, the last look included: velocities begin where Euler's method sees them, stages a power of dt nearer
ROUNDS = {COLLOCATION: 5, VARIATIONAL: 7}
# how much cheaper L must seem: rounds depend on the state, and counts for the machines of examples/ are off by up to half
MARGIN = 2
MOST_LINES = 5_000  # of a step: longer ones take half a second to prove, or to find that they are not


@dataclass(frozen=True)
class Choice:
    method: Method
    because: str  # the two numbers
    not_chosen: Alternative


def program_of(system: System, facts: Facts, goal: Goal, method: Method) -> Program:
    with unrounded() if method.family.unrounded else nullcontext():
        return lower(
            step_of(Job(system, facts, method, goal)), system.sites, goal.dt, goal.precision, goal.backwards
        )


def cost(program: Program, method: Method) -> int:
    return work(program, ROUNDS.get(method.family.kind, 1))


def by_cost(
    system: System, facts: Facts, goal: Goal, chosen: Method, forbidden: Collection[str]
) -> Choice | None:
    """The cheaper of the chosen method, which is one of H, and of that of L; None where there are no two."""
    other = BY_NAME.get(SPLIT if chosen.splits and chosen.order == 2 else OF_L.get(chosen.order, ""))
    plain = goal.precision == "float64" and goal.scale == "off"
    plain = plain and goal.approximate is None and system.clock is None
    if system.motion is None or other is None or other.name in forbidden or not plain:
        return None
    count = sum(x.size for x in system.q) * velocities_of(other)
    if count > BY_NEWTON:
        why = f"of L itself; operations are not counted beyond {BY_NEWTON} unknowns, and it has {count}"
        return Choice(chosen, "", Alternative(other.name, why))
    ours, theirs = (program_of(system, facts, goal, m) for m in (chosen, other))
    h, ell = cost(ours, chosen), cost(theirs, other)
    numbers = f"about {h:,} operations a step by H, {ell:,} by L"
    if ell >= h:
        return Choice(
            chosen, numbers, Alternative(other.name, f"of L itself, about {ell:,} operations a step")
        )
    half = ell * MARGIN <= h
    trouble = "" if half else doubt(ours)
    shown = (half or bool(trouble)) and certified(theirs)
    if shown:
        why = "twice as many or more" if half else trouble
        return Choice(other, numbers, Alternative(chosen.name, f"by H, about {h:,} operations a step, {why}"))
    why = "it is not certified" if half or trouble else "not half of what it costs by H"
    return Choice(
        chosen, numbers, Alternative(other.name, f"of L itself, about {ell:,} operations a step; {why}")
    )


def doubt(program: Program) -> str:
    """What speaks against a program that is not certified, or that is too long to find out; empty of one that is."""
    if len(program.step) > MOST_LINES:
        return f"{len(program.step):,} lines, too many to be proved for a choice"
    return "" if certified(program) else "and not certified"


def certified(program: Program) -> bool:
    shown = verify(program if not program.claims else replace(program, claims=()))
    return bool(shown.symplectic and shown.symmetric)
