"""What becomes of a step where its system has walls or events?  It is cut where they are met, or refused with the reason."""

from __future__ import annotations

from tinyphysics.errors import PlanError
from tinyphysics.front.walls import DRIFT
from tinyphysics.ir import UOp
from tinyphysics.planner.methods.families.rates import rates_of
from tinyphysics.planner.methods.method import Job
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.step import DRAWS, JUMPS, OWN_STEPS, SERIES, Step
from tinyphysics.synth.methods.cut_steps import cut_step, reflecting_step
from tinyphysics.synth.methods.event_rounds import FINE
from tinyphysics.synth.methods.meetings import Meetings, const
from tinyphysics.synth.methods.reflections import is_canonical
from tinyphysics.system import System
from tinyphysics.tpir.program.composed import composed
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.proof.certificate import Certificate, Verdict
from tinyphysics.util import one_of

BETWEEN = "shown between events"
LEAPFROG = [("V", 0.5), ("T", 1.0), ("V", 0.5)]
MOST = 64  # numbers of the states of a system that meets walls: its steps are written out


def cut(job: Job, step: Step, program: Program) -> Step:
    """The step as rounds that go from event to event."""
    check(job, step)
    if reflects(job.system):
        return reflecting_step(step, meetings(job), flight(job), job.goal.precision)
    return cut_step(step, composed(program), meetings(job), job.goal.precision)


def meetings(job: Job) -> Meetings:
    system = job.system
    held = system.tensor if system.held else ()
    return Meetings(system, tuple(rates_in_order(system)), held, job.method.order >= 2)


def reflects(system: System) -> bool:
    """Do drifts reflect, in place of steps that are cut?"""
    return any(c.location == DRIFT for c in system.crossings)


def flight(job: Job) -> Meetings:
    """The same without forces."""
    m = meetings(job)
    still = frozenset(m.p)
    return Meetings(job.system, tuple(const(0.0) if x in still else u for x, u in zip(m.z, m.rates)))


def between_events(shown: Certificate, job: Job, step: Step) -> Certificate:
    """What was shown of the steps of the method, as far as it holds for steps that are cut.

    A flight that is exact and ends at the exact root of walls whose bounces are read to be canonical is the flow of the
    billiard, which keeps dq∧dp and is its own mirror image. A step that is cut under other forces is the method's own
    steps of lengths that depend on the state: of these nothing is claimed.
    """
    m, walls = meetings(job), all(c.kind == "wall" for c in job.system.crossings)
    if m.flights is not None and walls and all(is_canonical(m, k) for k in range(len(m.guards))):
        why = (
            "flight is exact, and each wall is met at the exact root, where positions and the energy stay and p moves along "
            "the normal: the flow of a billiard, where nothing grazes"
        )
        return Certificate({name: Verdict(True, why) if v else v for name, v in shown.items()})
    if reflects(job.system) and all(is_canonical(m, k) for k in range(len(m.guards))):
        why = (
            "; a drift is free flight that ends at the exact root of each wall, where positions and the energy stay and p "
            "moves along the normal: the flow of a billiard, where nothing grazes"
        )
        return Certificate(
            {n: Verdict(True, v.because + why) if v and n != "consistent" else v for n, v in shown.items()}
        )
    kept = {
        name: Verdict(False, f"{BETWEEN} ({v.because}), and not of a step that is cut")
        if v and name != "consistent"
        else v
        for name, v in shown.items()
    }
    return Certificate(kept)


def rates_in_order(system: System) -> list[UOp]:
    """The derivative of each state, number by number."""
    rates, _ = rates_of(system)
    own = [s.var for s in system.states]
    found = dict(zip(system.structure.states if system.energy is not None else own, rates))
    still = {v: UOp.const(0.0, shape=v.shape) for v in own}  # parameters that events change
    return [u for group in unroll([(still | found)[v] for v in own]) for u in group]


def check(job: Job, step: Step) -> None:
    system, goal = job.system, job.goal
    met = one_of([c.name for c in system.crossings], "and")
    for traits, what, fix in (
        ({OWN_STEPS, SERIES}, "chooses its own steps", 'Choose a method with a dt: method="yoshida4".'),
        ({JUMPS}, "jumps over all its steps", 'Leave propagator= out, or pass propagator="loop".'),
        (
            {DRAWS},
            "draws random numbers in each step",
            "Leave the bath out, or write the wall as a potential.",
        ),
    ):
        if step.traits & traits:
            raise PlanError(f"`{step.name}` {what}, and {met} must be met between two of its steps", fix=fix)
    if goal.precision not in FINE:
        raise PlanError(
            f'precision="{goal.precision}" does not go with {met}: its states have no parts of a step',
            fix='precision may be "float64", "float32" or "dd".',
        )
    if goal.backwards or goal.dt is not None and goal.dt < 0:
        raise PlanError(
            f"{met} cannot be met backwards in time",
            fix="Use a positive dt; reverse the momenta of the start.",
        )
    if system.is_open:
        what = "friction=" if system.friction else "a bath"
        raise PlanError(f"{what} does not go with {met} yet", fix="Leave it out.")
    if goal.is_accurate:
        raise PlanError(
            f"energy_drift= and error= do not go with {met} yet: trial runs would not bounce",
            fix="Choose dt yourself.",
        )
    if goal.project:
        raise PlanError(f"project= does not go with {met} yet", fix="Leave project= out.")
    numbers = sum(s.var.size for s in system.states)
    if numbers > MOST:
        raise PlanError(
            f"`{system.name}` has {numbers} numbers, and steps with walls or events are written out for {MOST} at most",
            fix="Write the wall as a potential; hard discs and spheres are in tinyphysics.hardbody.",
        )
    if reflects(system):
        check_drift(job)
    walls = [c for c in system.crossings if c.kind == "wall"]
    if walls:
        if not meetings(job).quadratic:
            raise PlanError(
                f"the kinetic energy of `{system.name}` is not quadratic in the momenta: a wall would not know how "
                "much of the momentum it turns",
                site=system.site,
                fix="Write what happens as tp.event(when, then).",
            )


def check_drift(job: Job) -> None:
    """May the drift of this step reflect?"""
    system, leave = job.system, "Leave location= out: the step is cut at the wall, and keeps its order."
    if system.held or not job.method.splits or job.method.family.sequence() != LEAPFROG:
        raise PlanError(
            f'location="drift" reflects inside the drift of leapfrog, and `{system.name}` is stepped by `{job.method.name}`',
            fix=leave if system.held else f'Pass method="leapfrog". {leave}',
        )
    if flight(job).parabolas is None:
        raise PlanError(
            f'location="drift" needs the first root of each wall along a straight line, and those of `{system.name}` are not '
            "shown to be polynomials of degree 2 there",
            site=system.site,
            fix=leave,
        )
