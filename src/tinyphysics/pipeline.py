"""The compiler on one screen: trace is done; analyse, choose, synthesise, lower, verify."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any

from tinyphysics.analysis.analyse import facts_of
from tinyphysics.analysis.divergence import check_field
from tinyphysics.analysis.hierarchy import hierarchy
from tinyphysics.analysis.interaction import interaction
from tinyphysics.analysis.masses import masses
from tinyphysics.analysis.separable import separable
from tinyphysics.context import CHECK
from tinyphysics.device import cache
from tinyphysics.errors import PlanError
from tinyphysics.facts import Facts
from tinyphysics.flows.adjoint import adjoint_step
from tinyphysics.ir import UOp
from tinyphysics.ir.origins import OriginNotes, Origins, originating
from tinyphysics.ir.reduction import COMPONENTS
from tinyphysics.ir.rewrite import EndlessRewrite
from tinyphysics.ir.spec import SHAPED, check
from tinyphysics.plan import Goal, Plan
from tinyphysics.planner import conflicts
from tinyphysics.planner.choice.choose import asked_for, choose
from tinyphysics.planner.choice.deletion import Choice, deleted, kept
from tinyphysics.planner.choice.goals import plan_of_pilots as of_pilots
from tinyphysics.planner.choice.goals import provisional
from tinyphysics.planner.choice.propagator import plan_jump
from tinyphysics.planner.conflicts import FIXED_STEP, OWN_STEPS, Ask, traits_of
from tinyphysics.planner.cost.cost import operations
from tinyphysics.planner.cost.target import choose_target, in_series, written_out
from tinyphysics.planner.explain import Built, explain
from tinyphysics.planner.methods.catalog import ALIASES, BY_NAME, CHOICES, is_adaptive, method_of
from tinyphysics.planner.methods.families.exact_flow import jump_of
from tinyphysics.planner.methods.meetings import between_events, cut
from tinyphysics.planner.methods.method import ORBITS, SYMPLECTIC, Job, not_taken, step_of
from tinyphysics.planner.methods.wraps import wrapped
from tinyphysics.planner.systems.scaling import in_best_units
from tinyphysics.report import Report, Row
from tinyphysics.rules.identities.exact import unrounded
from tinyphysics.step import JUMPS, SERIES, Step
from tinyphysics.step import OWN_STEPS as CHOOSES_STEPS
from tinyphysics.synth.coefficients import schemes
from tinyphysics.synth.methods.given_length import OfGivenLength
from tinyphysics.synth.methods.proposal import BESIDE as BESIDE
from tinyphysics.synth.methods.proposal import Proposal, check_legal, endless, proposed
from tinyphysics.system import System, in_words_of_users
from tinyphysics.target import Target
from tinyphysics.tpir.precision.lattice import even_states
from tinyphysics.tpir.precision.precision import in_precision
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.program.lower import lifted, lower
from tinyphysics.tpir.verifier import Certificate, Verdict, verify
from tinyphysics.util import without_collections

schemes.keep(cache.read, cache.write)
TANGENTS = "tangents"  # the option of a goal: a system has directions beside its states
SAMPLER = "sampler"  # the option of a goal: a step is a proposal, which is accepted or not


class Build(Built):
    @cached_property
    def report(self) -> Report:
        return explain(self)


@without_collections()
def build(system: System, goal: Goal, requested: str = "auto") -> Build:
    """The program of a system; a refusal speaks of complex states as their user does."""
    with in_words_of_users(system):
        return with_or_without_loop(system, goal, requested)


def with_or_without_loop(system: System, goal: Goal, requested: str) -> Build:
    """Which of them is the planner's to decide where propagator= is left out."""
    if goal.options.get(TANGENTS):
        return with_directions(system, goal, requested)
    if goal.options.get(SAMPLER):
        return with_proposals(system, goal, requested)
    if system.guards and goal.propagator is None:
        return built(system, replace(goal, propagator="loop"), requested)
    if goal.propagator is not None:
        return built(system, goal, requested)
    if system.kind == "hamiltonian":
        choice = deleted(system, all_facts(system, goal), goal)
        if choice is not None:
            return built(system, replace(goal, propagator=choice.way), requested, choice)
    loop = built(system, replace(goal, propagator="loop"), requested)
    count = sum(operations(loop.program.step, loop.program).values())
    return replace(loop, choice=kept(system, loop.facts, goal, count))


def with_directions(system: System, goal: Goal, requested: str) -> Build:
    """A system with directions among its states: the step of the others, and its derivative beside it."""
    own, beside = (tuple(s for s in system.states if (s.role == BESIDE) is which) for which in (False, True))
    rest = tuple((name, value) for name, value in goal.more if name != TANGENTS)
    b = built(replace(system, states=own), replace(goal, more=rest, propagator="loop"), requested)
    with unrounded() if goal.precision == "dd" else nullcontext(), of_bounded_length(b):
        exact = lower(b.step, system.sites, goal.dt, goal.precision, goal.backwards, beside=beside)
    exact, known = replace(exact, claims=()), b.step.weights
    signed = known | {
        -w: -meant for w, meant in known.items()
    }  # a kick of a direction has the sign in its weight
    program = replace(in_precision(exact, goal.precision, goal.lattice, signed), math=goal.math)
    target, why = aimed(program, b.step, b.goal, requested)
    return replace(
        b,
        system=system,
        exact=exact,
        program=program,
        target=target,
        why=why,
        goal=replace(b.goal, more=goal.more),
    )


def with_proposals(system: System, goal: Goal, requested: str) -> Build:
    """A system whose step is a proposal: of the method, which has to be certified for it."""
    own = tuple(s for s in system.states if s.role != BESIDE)
    rest = tuple((name, value) for name, value in goal.more if name != SAMPLER)
    p = Proposal(*goal.options[SAMPLER])
    params = tuple(x for x in system.parameters if x.name != p.temperature)
    bare = replace(system, states=own, parameters=params)
    b = built(bare, replace(goal, more=rest, propagator="loop"), requested)
    check_legal(b.plan.method, b.step, b.certificate)
    kinetic = separable(bare).T
    inverse = dict(zip(bare.p, masses(bare, kinetic).inverse))
    with unrounded() if goal.precision == "dd" else nullcontext():
        step = proposed(b.step, inverse, p, endless(goal.precision))
        exact = lower(step, system.sites, goal.dt, goal.precision)
    program = rewritten(exact, step, goal)
    target, why = aimed(program, step, b.goal, requested)
    more: dict[str, Any] = {
        "system": system,
        "step": step,
        "exact": exact,
        "program": program,
        "target": target,
    }
    return replace(b, **more, why=why, goal=replace(b.goal, more=goal.more))


def adjoint(b: Build, wrt: Sequence[UOp], reverse: bool, of_final: bool = False) -> Program:
    """The program that pulls cotangents back through the steps of another, and sums up gradients of parameters."""
    goal = b.goal
    assert not goal.backwards, "the steps of sim.rewind are inverses, whose adjoint is another"
    with unrounded() if goal.precision == "dd" else nullcontext(), of_bounded_length(b):
        step = adjoint_step(with_tangents(b), wrt, reverse, goal.precision, of_final)
        exact = lower(step, b.system.sites, goal.dt, goal.precision, ready=True)
    known = b.step.weights
    signed = known | {-w: -meant for w, meant in known.items()}
    even = tuple(exact.states[k].name for k in even_states(b.exact)) if goal.precision == "lattice" else ()
    return replace(in_precision(exact, goal.precision, goal.lattice, signed, even), math=goal.math)


@contextmanager
def of_bounded_length(b: Build) -> Iterator[None]:
    """A derivative whose short form is not found is refused: branches that are multiplied with each other grow too fast."""
    try:
        yield
    except EndlessRewrite as error:
        raise PlanError(
            f"the derivative of a step of `{b.plan.method}` for `{b.system.name}` has too many branches to be written out",
            fix="Take an explicit method, or write the energy with fewer tp.where, abs, minimum or maximum.",
        ) from error


def with_tangents(b: Build) -> Step:
    """The step, with the sub-flows that move tangents beside the states, if there are any."""
    if not b.goal.options.get(TANGENTS):
        return b.step
    return lifted(b.step, [s for s in b.system.states if s.role == BESIDE])


def of_given_length(b: Build) -> OfGivenLength | None:
    """The step of a method that chooses its own, with its length as a parameter; None where that is too long."""
    method = method_of(b.plan.method)
    return method.family.of_given_length(Job(b.system, b.facts, method, b.goal))


def lowered(b: Build, step: Step) -> Program:
    """The program of a step whose arithmetic is decided, in the precision of another."""
    exact = lower(step, b.system.sites, b.goal.dt, b.goal.precision, ready=True)
    return replace(in_precision(exact, b.goal.precision, b.goal.lattice, step.weights), math=b.goal.math)


def stepped(b: Build) -> Build:
    """The loop that was deleted, as propagator="loop" would compile it."""
    return built(b.system, replace(b.goal, propagator="loop"), b.target.backend)


def built(system: System, goal: Goal, requested: str, choice: Choice | None = None) -> Build:
    """Analyse, choose, synthesise, lower, prove, rewrite, aim; what does not go together is refused on the way."""
    if CHECK.value:
        check(system.equations, SHAPED)
    adapts = is_adaptive(system.kind, goal.method)
    ask = Ask.of(goal, system, {OWN_STEPS: adapts, FIXED_STEP: not adapts})
    conflicts.check("build", ask)
    check_field(system)
    facts = all_facts(system, goal)
    conflicts.check("facts", ask)
    plan = planned(system, facts, goal, choice)
    job = Job(system, facts, method_of(plan.method), goal)
    if why := not_taken(job.method, system):
        raise PlanError(
            f"`{plan.method}` does not apply to `{system.name}`: {why}",
            fix="Choose another method=."
            if goal.propagator == "loop"
            else "Leave propagator= out: it is stepped.",
        )
    with unrounded() if goal.precision == "dd" or job.method.family.unrounded else nullcontext():
        step, units = synthesised(job, requested)
        wanted = lower(step, system.sites, goal.dt, goal.precision, goal.backwards)
    certificate = of_images(of_friction(verify(replace(wanted, claims=())), system), system)
    shown = replace(wanted, claims=tuple(c for c in wanted.claims if certificate[c]))  # shown, so claimed
    check_promises(job, step, certificate)
    if system.guards:
        step = cut(job, step, wanted)
        certificate = between_events(certificate, job, step)
        shown = lower(step, system.sites, goal.dt, goal.precision)
    program = rewritten(shown, step, goal)
    target, why = aimed(program, step, goal, requested)
    conflicts.check("target", Ask.of(goal, system, by=target.backend))
    if goal.math == "fast":
        target = replace(target, bit_exact=False)
    return Build(system, facts, plan, step, shown, program, certificate, target, why, goal, units, choice)


def of_friction(shown: Certificate, system: System) -> Certificate:
    """The verdicts that have a meaning with friction: a step that follows its rates as they are does not know it has any."""
    claims = system.structure.claims
    if not system.friction or tuple(shown) == claims:
        return shown
    no = Verdict(False, "the rates are followed as they are: what such a step keeps is not shown")
    return Certificate({name: shown.get(name, no) for name in claims})


def of_images(shown: Certificate, system: System) -> Certificate:
    """The verdicts where sums over images are done on a mesh: they are of the energy that is evaluated there."""
    if system.long_range is None or system.long_range.settings.grid is None or "consistent" not in shown:
        return shown
    error = system.long_range.settings.error
    right = "an error that is not measured" if error is None else f"force error {error:.1e}"
    told = {"consistent": f"to {right}", "symplectic": "of the energy on the mesh"}
    return Certificate(
        {
            name: replace(v, because=f"{v.because}; {told[name]}") if v and name in told else v
            for name, v in shown.items()
        }
    )


def in_exact_constants(b: Build) -> Program:
    """The program with no constant rounded that rules make of others: the formulas that certificates are about.

    A third of a coefficient, or a product of two, is rounded in the one that runs: in each place by another amount.
    """
    with unrounded():
        step, _ = synthesised(Job(b.system, b.facts, method_of(b.plan.method), b.goal), "auto")
        return lower(step, b.system.sites, b.goal.dt, b.goal.precision, b.goal.backwards)


def remade(b: Build, origins: Origins) -> Program:
    """The program once more, with the origins of what passes make noted, and those of each instruction as its note."""
    with originating(origins):
        with unrounded() if b.goal.precision == "dd" else nullcontext():
            job = Job(b.system, b.facts, method_of(b.plan.method), b.goal)
            step, _ = synthesised(job, b.target.backend)
            notes = OriginNotes(origins)
            made = lower(step, notes, b.goal.dt, b.goal.precision, b.goal.backwards)
            if b.system.guards:
                step = cut(job, step, made)
                made = lower(step, notes, b.goal.dt, b.goal.precision)
        return rewritten(replace(made, claims=b.program.claims), step, b.goal)


def planned(system: System, facts: Facts, goal: Goal, choice: Choice | None) -> Plan:
    """The method, chosen here or by pilots; without a loop, how it is replaced."""
    if goal.propagator != "loop":
        plan = plan_jump(system, facts, goal, "" if choice is None else choice.because)
    else:
        plan = choose(system, facts, goal) if goal.decision is None else of_pilots(goal.decision)
    return provisional(plan) if goal.is_accurate and goal.decision is None else plan


def synthesised(job: Job, requested: str) -> tuple[Step, tuple[Row, ...]]:
    """The step, held to its invariants and in other units where that is asked for, and what is said about units."""
    system, goal = job.system, job.goal
    step = step_of(job) if goal.propagator == "loop" else jump_of(job)
    step = wrapped(step, job)
    made = traits_of(step, job.method.adaptive)
    conflicts.check("step", Ask.of(goal, system, made, step.name, backend=requested))
    if goal.scale != "auto":
        return step, ()
    step, row = in_best_units(step)
    return step, (row,)


def rewritten(program: Program, step: Step, goal: Goal) -> Program:
    """The program in its precision; a step of its own length has it already."""
    if CHOOSES_STEPS not in step.traits:
        program = in_precision(program, goal.precision, goal.lattice, step.weights)
    return replace(program, math=goal.math)


def aimed(program: Program, step: Step, goal: Goal, requested: str) -> tuple[Target, str]:
    """Where it runs, and why there."""
    if SERIES in step.traits:
        return in_series(program, requested)
    if CHOOSES_STEPS in step.traits:
        return written_out(program, requested)
    target, why = choose_target(program, requested, goal.precision)
    if JUMPS in step.traits:
        why = f"{why}, for energies and observables: a jump is done on the host"
    return target, why


def check_promises(job: Job, step: Step, certificate: Certificate) -> None:
    """What was asked for by its property is shown."""
    if job.goal.is_accurate:
        check_promised(job.system, job.facts, step, certificate)
    headline = job.system.structure.headline
    if job.goal.method == SYMPLECTIC and not certificate[headline]:
        raise PlanError(
            f"no method for `{job.system.name}` is certified {headline}: {certificate[headline].because}",
            fix="Give its energy to @tp.hamiltonian, or leave method= out.",
        )


def check_promised(system: System, facts: Facts, step: Step, certificate: Certificate) -> None:
    """No accuracy is promised of a program that does not follow the energy: halving its step would show nothing of that.

    The certificate of a Lagrangian looks at H, whose mass matrix is not shown to have an inverse; the fact looks at L.
    """
    smooth = facts["smooth"] if "smooth" in facts else None
    if smooth is not None and system.energy is not None and smooth.parts.get("jumps", False):
        why, site = smooth.because, smooth.site
    elif "consistent" in step.claims and not certificate.consistent and system.motion is None:
        why, site = certificate.consistent.because, None
    else:
        return
    raise PlanError(
        f"energy_drift= and error= for `{system.name}`, which is not consistent with its energy: {why}",
        site=site,
        fix="Mend the energy, or leave the goals out and choose dt yourself.",
    )


def follows_time_momentum(b: Build) -> bool:
    """Does its step say what it does to the momentum of explicit time, and what friction takes?"""
    return any(f.works() for f in b.step.body)


def with_time_momentum(b: Build, name: str, books: str = "") -> Program:
    """The program with what is booked beside the energy as one more state, of that name: all, or that of one kind.

    Where H depends on t that is the momentum of explicit time, p_t; friction adds what it takes.
    """
    if not follows_time_momentum(b):
        has = "depends on t, so H + p_t is the conserved quantity"
        has = "has friction" if b.system.friction else "has a bath" if b.system.heat else has
        booked = "book what that takes" if b.system.is_open else "compute p_t"
        raise PlanError(
            f"`{b.system.name}` {has}, and `{b.plan.method}`"
            f"{' in other units' if b.step.coordinates.scales else ''} does not {booked}",
            fix='Use H itself: out.every_step("energy").',
        )
    with unrounded() if b.goal.precision == "dd" else nullcontext():
        program = lower(
            b.step, b.system.sites, b.goal.dt, b.goal.precision, b.goal.backwards, works=name, books=books
        )
    return rewritten(program, b.step, b.goal)


def on_orbits(goal: Goal) -> bool:
    """Is a method asked for that goes on Kepler orbits?  It needs to know more, and is compiled at the first state."""
    name = ALIASES.get(goal.method, goal.method)
    return name in BY_NAME and BY_NAME[name].family.kind == ORBITS


def all_facts(system: System, goal: Goal) -> Facts:
    """With those that only some methods need: the one that is asked for, or what would allow one."""
    facts = facts_of(system)
    named = goal.method not in CHOICES
    more = asked_for(goal).family.more(system, facts) if named else ()
    if goal.stiff and not more:
        more = (interaction(system, facts),)
    pairs = "pairs" in facts and facts["pairs"] and max(system.q[0].shape, default=0) <= COMPONENTS
    if pairs and not named and not more:
        more = tuple(f for f in (hierarchy(system, facts),) if f)
    return facts.plus(*more) if more else facts
