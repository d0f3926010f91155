"""What is done to a step that a method has made?  One row for each option that asks for something at its beginning or end."""

from __future__ import annotations

from collections.abc import Callable

from tinyphysics.ir import parse
from tinyphysics.planner.conflicts import BACKWARDS, Ask, check, traits_of
from tinyphysics.planner.methods.method import Job
from tinyphysics.step import Step
from tinyphysics.synth.methods.project import projected
from tinyphysics.tpir.program.isa import kept_name


def held(step: Step, job: Job) -> Step:
    """The step with a projection at its end, where there is an end of a step in the variables of the user."""
    goal = job.goal
    traits = {**traits_of(step), BACKWARDS: goal.backwards}
    check("projection", Ask.of(goal, job.system, traits, step.name))
    invariants = [parse(text)[0] for _, text in goal.project]
    return projected(step, job.system, invariants, [kept_name(k) for k in range(len(invariants))])


WRAPS: dict[str, Callable[[Step, Job], Step]] = {  # by the option, in the order in which they are applied
    "project": held,
}


def wrapped(step: Step, job: Job) -> Step:
    """The step with all that its goal asks for besides the method."""
    ask = Ask.of(job.goal, job.system)
    for option, wrap in WRAPS.items():
        if ask.has(option):
            step = wrap(step, job)
    return step
