"""Taylor series of the solution, written out or in loops over their coefficients."""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.errors import PlanError
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.ir.fourier import operations
from tinyphysics.ir.ops import ELEMENTWISE, MINIMAL, UNARY
from tinyphysics.planner.methods.families.lengths import LOG, TOLD, check_written, in_steps
from tinyphysics.planner.methods.families.rates import rates_of
from tinyphysics.planner.methods.method import TAYLOR, Family, Job, tolerance_of
from tinyphysics.rules.calculus.jet import order_for
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import Step
from tinyphysics.synth.methods.given_length import OfGivenLength, taylor_of_given_length
from tinyphysics.synth.methods.taylor import OF_A_NUMBER, TOLERANCE, taylor_step
from tinyphysics.synth.methods.wide_taylor import estimate, has_products, wide_taylor_step
from tinyphysics.system import System
from tinyphysics.tpir.kernels.kernel import LARGEST

TOLD_IN_LOOPS = 2_000  # of each order, as counted on arrays
# of series without products, where "rk4" is as good, and of others
MOST_LINEAR, MOST_IN_LOOPS = 6_000, 60_000
MOST_PULLED = 50_000  # operations of a series whose adjoint, about twice as long, is written out
NO_SERIES = 10**12
LEFT_WHEN_FUSED = 0.6  # of the operations of a series in pairs, at least: a product and a sum become one


class Taylor(Family):
    """The tolerance sets the order, and each step is as long as its last terms allow."""

    kind = TAYLOR
    takes = (*Family.takes, "tensor", "friction")
    adaptive = True

    def tolerance(self, precision: str) -> float:
        return TOLERANCE.get(precision, TOLERANCE["float64"])

    def step(self, job: Job) -> Step:
        rates, terms = rates_of(job.system)
        if any(u.op is Ops.ELLIPTIC for u in toposort(rates)):
            raise PlanError(
                f"`{job.method.name}`: the solution of Poisson's equation in `{job.system.name}` has no Taylor series here",
                fix=in_steps(job),
            )
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

    def of_given_length(self, job: Job) -> OfGivenLength | None:
        rates, _ = rates_of(job.system)
        if job.goal.precision == "dd":
            return None
        order = order_for(tolerance_of(job.method, job.goal))
        if series_length(job.system, rates, order) > MOST_PULLED:
            return None
        return taylor_of_given_length(job.method.name, job.system, simplify(rates), order)


def too_long(system: System, rates: Sequence[UOp], order: int) -> bool:
    """Would its series be refused, written out as well as in loops?"""
    if not has_loops(system, rates):
        return series_length(system, rates, order) > LARGEST
    return series_length(system, rates, 1) > most_lines(system, rates)


def check_pairs(job: Job, count: int) -> None:
    """A series in pairs that is too long is refused before it is lowered and verified."""
    if count > LARGEST:
        raise PlanError(
            f"the Taylor series of `{job.system.name}` in pairs of float64 are about {count:,} operations, "
            f"and at most {LARGEST:,} can be written out",
            fix='Choose precision="float64", whose long series run in loops, a larger tolerance=, or a method of '
            "kicks and drifts.",
        )


def series_length(system: System, rates: Sequence[UOp], order: int) -> int:
    """Operations of Taylor series that are written out, counted on arrays: sums of products, and what is linear."""
    moving = frozenset(s.var for s in system.states)
    total = order * OF_A_NUMBER * sum(s.var.size for s in system.states)
    for u in toposort(rates):
        if not u.leaves & moving:
            continue
        if u.op in ELEMENTWISE and has_products(u, moving):
            total += u.size * order**2 // (2 if u.op in MINIMAL or u.op is Ops.EXP else 1)  # sin needs cos
        elif u.op is Ops.FOURIER:
            n = u.shape[u.arg[2]]
            total += u.size // n * operations(n) // 2 * order
        elif u.op is Ops.ELLIPTIC:  # it has no series
            return NO_SERIES
        elif u.op in ELEMENTWISE or u.op is Ops.REDUCE:
            total += max(u.size, u.src[0].size) * order
    return total


def has_loops(system: System, rates: Sequence[UOp]) -> bool:
    """May their series run in loops over coefficients?  Sums, products, quotients, powers and roots do, transforms do not."""
    moving = frozenset(s.var for s in system.states)
    return system.time is None and not any(
        u.op in UNARY - MINIMAL | {Ops.FOURIER, Ops.ELLIPTIC} and u.leaves & moving for u in toposort(rates)
    )


def most_lines(system: System, rates: Sequence[UOp]) -> int:
    """Operations of each order that may be written."""
    moving = frozenset(s.var for s in system.states)
    linear = not any(u.op in ELEMENTWISE and has_products(u, moving) for u in toposort(rates))
    return MOST_LINEAR if linear else MOST_IN_LOOPS


def check_lines(job: Job, rates: Sequence[UOp]) -> None:
    """In loops over coefficients every number still has lines of its own, once for all orders."""
    system = job.system
    count, most = series_length(system, rates, 1), most_lines(system, rates)
    told = f"the Taylor series of `{system.name}` are about {count:,} operations of each order"
    if count > most:
        raise PlanError(f"{told}, and at most {most:,} are allowed", fix=in_steps(job))
    if count > TOLD:
        LOG.warning("%s: this takes some seconds to compile", told)
