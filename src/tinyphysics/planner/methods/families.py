"""How is a step made of a method?  By its family: one row for each, and a new family is a new row."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tinyphysics.analysis.inverse_distance import FORM, inverse_distance
from tinyphysics.analysis.lone_potential import apart
from tinyphysics.errors import PlanError
from tinyphysics.facts import Facts
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.ir.ops import ELEMENTWISE, MINIMAL, UNARY
from tinyphysics.ir.reduction import FEW
from tinyphysics.plan import Goal
from tinyphysics.planner.conflicts import EXPONENTIAL, GRADIENTS, NOT_SPLIT, SHEARS, Ask, check
from tinyphysics.planner.methods.catalog import Method, tolerance_of
from tinyphysics.planner.methods.needs import HIERARCHY, quadratic_part
from tinyphysics.rules.calculus.jet import order_for
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import Step, Term
from tinyphysics.synth.coefficients.coefficients import COMPOSITION
from tinyphysics.synth.methods.as_written import explicit_map
from tinyphysics.synth.methods.derivative import MOST_COMPONENTS, derivative
from tinyphysics.synth.methods.discrete_gradient import energy_step
from tinyphysics.synth.methods.dop853 import dop853
from tinyphysics.synth.methods.embedded import Tolerance
from tinyphysics.synth.methods.extended_phase_space import doubled
from tinyphysics.synth.methods.implicit import collocate, gauss, generated, kicked
from tinyphysics.synth.methods.interaction import interaction_step
from tinyphysics.synth.methods.magnus import magnus_step
from tinyphysics.synth.methods.multirate import multirate_step
from tinyphysics.synth.methods.parts import shear_step
from tinyphysics.synth.methods.radau import radau
from tinyphysics.synth.methods.rungekutta import runge_kutta
from tinyphysics.synth.methods.splitting import Approximate, split_step
from tinyphysics.synth.methods.taylor import OF_A_NUMBER, taylor_step
from tinyphysics.synth.methods.variational import variational
from tinyphysics.synth.methods.wide_taylor import estimate, has_products, wide_taylor_step
from tinyphysics.synth.methods.wisdom_holman import orbit_step
from tinyphysics.system import System
from tinyphysics.tpir.kernels.kernel import LARGEST
from tinyphysics.util import plural

LOG = logging.getLogger("tinyphysics")
OF_A_FUNCTION = 30  # operations of sin, exp and the like, about
OF_AN_ATTEMPT = 160  # operations of a number in an attempt of dop853, beside the rates
OF_AN_UNKNOWN = 20  # of a number that is solved for: its start, its size, its residual
OF_A_GRADIENT = 4  # times the operations of a scalar
MOST_TRIED = 10_000  # operations of an attempt
TOLD = 8_000  # operations that take some seconds to compile
TOLD_IN_LOOPS = 2_000  # of each order, as counted on arrays
MOST_LINEAR, MOST_IN_LOOPS = (
    6_000,
    60_000,
)  # of series without products, where "rk4" is as good, and of others
MOST_SOLVED = (
    14  # numbers, of which a matrix of pairs is eliminated in every attempt: 3*n**3 operations if it is full
)


@dataclass(frozen=True, eq=False)
class Job:
    """A system, what is known about it, the method that was chosen, and what was asked for."""

    system: System
    facts: Facts
    method: Method
    goal: Goal


def kinetic(system: System) -> UOp:
    """p*p/(2 mass) for a system that is given by its forces."""
    p: UOp = system.p[0]
    mass: Any = next((x.var for x in system.parameters if x.name == "mass"), 1.0)
    if isinstance(mass, UOp) and mass.shape and mass.shape != p.shape:  # one mass per row of q
        mass = mass.reshape(mass.shape + (1,) * (p.ndim - mass.ndim)).expand(p.shape)
    energies: UOp = p * p / (2.0 * mass)
    return energies.sum()


def approximated(job: Job, error: float) -> Approximate:
    """What a tree sums, or a PlanError that says what was looked for."""
    system, facts = job.system, job.facts
    found = inverse_distance(system, facts["separable"].V)
    if not found:
        raise PlanError(
            f"approximate={error:g}, and no sum of this form was found in `{system.name}`:\n  {FORM}\n"
            f"  {found.because}",
            site=found.site,
            fix="Leave approximate= out: then all forces are exact.",
        )
    bodies = system.q[0].shape[0]
    if bodies <= FEW:
        raise PlanError(
            f"approximate= for n = {bodies}",
            fix="Leave it out: for so few bodies the direct sum is faster, and exact.",
        )
    return Approximate(found, error)


def of_map(job: Job) -> Step:
    return explicit_map(job.system)


def of_tableau(job: Job) -> Step:
    assert job.method.tableau is not None
    T = kinetic(job.system) if job.system.kind == "forces" else None
    return runge_kutta(job.method.name, job.system, T, job.method.tableau)


def rates_of(system: System) -> tuple[list[UOp], tuple[Term, ...]]:
    """The derivatives of all states, in their order, and the energies that are known; what a user wrote as it is."""
    terms: tuple[Term, ...] = ()
    if system.kind == "ode":
        rates = list(system.update)
    elif system.energy is not None:
        by = [*system.p, *system.q]
        found = system.structure.rates(dict(zip(by, derivative(system.energy, by))))
        rates = [found[s] for s in system.structure.states]
        terms = (Term("H", system.energy),)
    elif system.kind != "forces":
        raise PlanError(
            f"`{system.name}` is given by its {system.kind}, and its time derivatives are not known",
            fix="Write it as an energy, as forces or with @tp.ode.",
        )
    else:
        T = kinetic(system)
        (velocity,) = simplify(gradient(T, system.p))
        rates, terms = [velocity, *system.forces], (Term("T", T),)
    return rates if system.energy is None else simplify(rates), terms


LEFT_WHEN_FUSED = 0.6  # of the operations of a series in pairs, at least: a product and a sum become one


def of_series(job: Job) -> Step:
    rates, terms = rates_of(job.system)
    rates = simplify(rates)  # recurrences of their series are ours, whoever wrote them
    tolerance = tolerance_of(job.method, job.goal)
    if job.goal.precision != "dd":
        order = order_for(tolerance)
        if not has_loops(job.system, rates):
            check_written(job, series_length(job.system, rates, order))
        elif series_length(job.system, rates, 1) > TOLD_IN_LOOPS:
            check_lines(job, rates)
        return taylor_step(job.method.name, job.system, terms, rates, tolerance)
    check_pairs(job, estimate(job.system, rates, tolerance))
    step = wide_taylor_step(job.method.name, job.system, terms, rates, tolerance)
    values = [u for f in step.body for u in f.expressions()]
    found = sum(u.size for u in toposort(values) if u.op in ELEMENTWISE)
    check_pairs(job, int(LEFT_WHEN_FUSED * found))
    return step


def check_pairs(job: Job, count: int) -> None:
    """A series in pairs that is too long is refused before it is lowered and verified."""
    if count > LARGEST:
        raise PlanError(
            f"the Taylor series of `{job.system.name}` in pairs of float64 are about {count:,} operations, "
            f"and at most {LARGEST:,} can be written out",
            fix='Choose precision="float64", whose long series run in loops, a larger tolerance=, or a method of '
            "kicks and drifts.",
        )


def with_estimate(job: Job) -> Step:
    rates, terms = rates_of(job.system)
    check_length(job, rates)
    tolerance = Tolerance(tolerance_of(job.method, job.goal), job.goal.absolute)
    make = radau if job.method.kind == "collocated" else dop853
    return make(job.method.name, job.system, terms, rates, tolerance)


def once(rates: Sequence[UOp]) -> int:
    """Operations that rates are when they are written out, counted on arrays."""
    found = toposort(rates)
    sums = sum(u.src[0].size for u in found if u.op is Ops.REDUCE)
    return sums + sum(
        u.size * (1 if u.op in MINIMAL else OF_A_FUNCTION) for u in found if u.op in ELEMENTWISE
    )


def in_steps(job: Job) -> str:
    """The line that steps arrays of any length in loops."""
    system = job.system
    dt = "dt=0.01" if job.goal.dt is None else f"dt={job.goal.dt:g}"
    splits = system.kind == "hamiltonian" and bool(job.facts["separable"])
    best = f"tp.compile({system.name}, {dt}) steps it by kicks and drifts. " if splits else ""
    return f'{best}tp.compile({system.name}, {dt}, method="rk4") runs in loops, without a certificate.'


def check_written(job: Job, count: int, most: int = LARGEST) -> None:
    """What is far too long to be written out is refused before it is; what is long is told."""
    numbers = sum(s.var.size for s in job.system.states)
    told = (
        f"`{job.method.name}` is written out number by number, for the {plural(numbers, 'number')} of "
        f"`{job.system.name}` about {count:,} operations a step"
    )
    if count > most:
        raise PlanError(f"{told}, and at most {most:,} are allowed", fix=in_steps(job))
    if count > TOLD:
        LOG.warning("%s: this takes some seconds to compile", told)


def check_length(job: Job, rates: list[UOp]) -> None:
    """Of methods that estimate their error."""
    numbers = sum(s.var.size for s in job.system.states)
    if job.method.kind == "collocated" and numbers > MOST_SOLVED:
        raise PlanError(
            f"`{job.method.name}` writes out a Gaussian elimination of {numbers} numbers; it can do {MOST_SOLVED} at most",
            fix='method="dop853" needs no elimination; use it if the system is not stiff.'
            if numbers * OF_AN_ATTEMPT < MOST_TRIED
            else in_steps(job),
        )
    check_written(job, once(rates) * job.method.stages + numbers * OF_AN_ATTEMPT, MOST_TRIED)


def series_length(system: System, rates: Sequence[UOp], order: int) -> int:
    """Operations of Taylor series that are written out, counted on arrays: sums of products, and what is linear."""
    moving = frozenset(s.var for s in system.states)
    total = order * OF_A_NUMBER * sum(s.var.size for s in system.states)
    for u in toposort(rates):
        if not u.leaves & moving:
            continue
        if u.op in ELEMENTWISE and has_products(u, moving):
            total += u.size * order**2 // (2 if u.op in MINIMAL or u.op is Ops.EXP else 1)  # sin needs cos
        elif u.op in ELEMENTWISE or u.op is Ops.REDUCE:
            total += max(u.size, u.src[0].size) * order
    return total


def has_loops(system: System, rates: Sequence[UOp]) -> bool:
    """May their series run in loops over coefficients?  Sums, products, quotients, powers and roots do."""
    moving = frozenset(s.var for s in system.states)
    return system.time is None and not any(
        u.op in UNARY - MINIMAL and u.leaves & moving for u in toposort(rates)
    )


def check_lines(job: Job, rates: Sequence[UOp]) -> None:
    """In loops over coefficients every number still has lines of its own, once for all orders."""
    system = job.system
    moving = frozenset(s.var for s in system.states)
    count = series_length(system, rates, 1)
    linear = not any(u.op in ELEMENTWISE and has_products(u, moving) for u in toposort(rates))
    most = MOST_LINEAR if linear else MOST_IN_LOOPS
    told = f"the Taylor series of `{system.name}` are about {count:,} operations of each order"
    if count > most:
        raise PlanError(f"{told}, and at most {most:,} are allowed", fix=in_steps(job))
    if count > TOLD:
        LOG.warning("%s: this takes some seconds to compile", told)


def by_solving(job: Job) -> None:
    """Of methods that solve equations: at the beginning, ahead, at every stage, and for the moves."""
    system, stages = job.system, max(job.method.slopes, 1)
    own = (
        once(rates_of(system)[0])
        if system.kind == "hamiltonian" and system.motion is None
        else OF_A_GRADIENT * once([u for u in (system.energy,) if u is not None])
    )
    numbers = sum(s.var.size for s in system.states)
    # of few numbers with a long energy the count is an estimate too rough to refuse by
    most = LARGEST if numbers > MOST_COMPONENTS else 50 * LARGEST
    check_written(job, (stages + 3) * own + OF_AN_UNKNOWN * numbers, most)


def at_paces(job: Job) -> Step:
    inner = job.goal.inner or (1,) * (
        len(job.system.levels) - 1
    )  # open: what runs is decided at the first state
    T = job.facts["separable"].T
    return multirate_step(job.method.name, job.system, T, inner, job.method.keeps, job.method.weights)


def on_orbits(job: Job) -> Step:
    system, method = job.system, job.method
    assert method.orbits is not None
    if job.goal.hierarchy is None:
        raise PlanError(
            f"`{method.name}` orders the bodies of `{system.name}` by their initial state, which is not known yet",
            fix="Run it first: sim.evolve(...); then sim.explain() shows the order.",
        )
    split = job.facts["separable"]
    return orbit_step(
        method.name,
        system,
        split.T,
        split.V,
        job.facts[HIERARCHY],
        job.goal.hierarchy.order,
        method.orbits(),
        method.corrected,
    )


def in_turns(job: Job) -> Step:
    method = job.method
    assert method.turns is not None
    found = quadratic_part(job.system, job.facts)
    if method.mollified and not found.oscillators:
        raise PlanError(
            f"`{method.name}` needs independent oscillators, one for each number of q; `{job.system.name}` couples them",
            fix='method="interaction" solves coupled oscillators with one matrix.',
        )
    return interaction_step(method.name, job.system, found, method.turns(), method.keeps, method.mollified)


def of_splitting(job: Job) -> Step:
    system, method, time = job.system, job.method, job.facts["explicit time"]
    assert method.sequence is not None
    claims = tuple(c for c in method.keeps if c != "symplectic")
    processor = None if method.processor is None else method.processor()
    if system.kind == "forces":
        return split_step(
            method.name,
            system,
            kinetic(system),
            None,
            method.sequence(),
            ("volume-preserving", *claims),
            ["V"] if time else [],
            None,
            processor,
        )
    approximate = None if job.goal.approximate is None else approximated(job, job.goal.approximate)
    split = job.facts["separable"]
    structure = "symplectic" if approximate is None else "volume-preserving"
    return split_step(
        method.name,
        system,
        split.T,
        split.V,
        method.sequence(),
        (structure, *claims),
        time.inside if time else [],
        approximate,
        processor,
    )


def of_shears(job: Job) -> Step:
    return shear_step(job.method.name, job.system, job.facts["shears"].parts["parts"], job.method.keeps)


def of_exponential(job: Job) -> Step:
    return magnus_step(
        job.method.name,
        job.system,
        job.facts["quadratic"],
        job.method.order,
        job.method.keeps,
        job.goal.precision,
    )


def by_collocation(job: Job) -> Step:
    method = job.method
    by_solving(job)
    if "a potential apart" in method.needs:
        found = apart(job.system)
        return kicked(method.name, job.system, found.V, found.rest, COMPOSITION[method.lengths], method.keeps)
    if method.lengths:
        return generated(method.name, job.system, COMPOSITION[method.lengths], method.keeps)
    return collocate(method.name, job.system, gauss(method.slopes), method.keeps)


def of_copies(job: Job) -> Step:
    return doubled(job.method.name, job.system, COMPOSITION[job.method.lengths], job.method.keeps)


def of_lagrangian(job: Job) -> Step:
    method = job.method
    return variational(method.name, job.system, gauss(method.points) if method.points else None)


def by_discrete_gradient(job: Job) -> Step:
    if job.system.clock is not None:
        raise PlanError(
            f"`{job.method.name}` would conserve a different energy than H with time=", fix="Leave time= out."
        )
    polynomial = job.facts["polynomial"]
    by_solving(job)
    return energy_step(job.method.name, job.system, polynomial.degree if polynomial else None)


FAMILIES: dict[str, Callable[[Job], Step]] = {
    "map": of_map,
    "splitting": of_splitting,
    "Runge–Kutta": of_tableau,
    "Taylor": of_series,
    "embedded": with_estimate,
    "collocated": with_estimate,
    "paces": at_paces,
    "orbits": on_orbits,
    "shears": of_shears,
    "exponential": of_exponential,
    "collocation": by_collocation,
    "doubled": of_copies,
    "interaction": in_turns,
    "variational": of_lagrangian,
    "discrete gradient": by_discrete_gradient,
}


def step_of(job: Job) -> Step:
    method, family = job.method, job.method.family
    traits = {
        NOT_SPLIT: not method.splits,
        GRADIENTS: method.gradients,
        SHEARS: family == "shears",
        EXPONENTIAL: family == "exponential",
    }
    check("family", Ask.of(job.goal, job.system, traits, method.name))
    return FAMILIES[family](job)
