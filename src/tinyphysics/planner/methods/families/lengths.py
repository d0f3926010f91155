"""Is a step too long to be written out?  Counted on arrays, before anything is built."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tinyphysics.errors import PlanError
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.ir.fourier import operations
from tinyphysics.ir.ops import ELEMENTWISE, MINIMAL
from tinyphysics.planner.methods.families.rates import rates_of
from tinyphysics.planner.methods.method import Job
from tinyphysics.synth.methods.derivative import MOST_COMPONENTS
from tinyphysics.system import System
from tinyphysics.tpir.kernels.kernel import LARGEST
from tinyphysics.util import plural

LOG = logging.getLogger("tinyphysics")
OF_A_FUNCTION = 30  # operations of sin, exp and the like, about
OF_AN_UNKNOWN = 20  # of a number that is solved for: its start, its size, its residual
OF_A_GRADIENT = 4  # times the operations of a scalar
TOLD = 8_000  # operations that take some seconds to compile


def once(rates: Sequence[UOp]) -> int:
    """Operations that rates are when they are written out, counted on arrays."""
    found = toposort(rates)
    sums = sum(u.src[0].size for u in found if u.op is Ops.REDUCE)
    for u in found:
        if u.op is Ops.FOURIER:
            n = u.shape[u.arg[2]]
            sums += u.size // n * operations(n) // 2
    return sums + sum(
        u.size * (1 if u.op in MINIMAL else OF_A_FUNCTION) for u in found if u.op in ELEMENTWISE
    )


def has_axis(system: System) -> bool:
    """Is there a state that loops can go along?"""
    return any(n > 1 for s in system.states for n in s.var.shape)


def in_steps(job: Job) -> str:
    """The line that steps arrays of any length in loops."""
    system = job.system
    dt = "dt=0.01" if job.goal.dt is None else f"dt={job.goal.dt:g}"
    splits = system.kind == "hamiltonian" and bool(job.facts["separable"])
    best = f"tp.compile({system.name}, {dt}) steps it by kicks and drifts. " if splits else ""
    if not has_axis(system):
        return (
            f'{best}Arrays run in loops: write its states as one array, tp.Vec["n"]; method="rk4" is shorter.'
        )
    pair = (
        "" if system.kind == "hamiltonian" else f'tp.compile({system.name}, method="dop853") runs in loops. '
    )
    return f'{best}{pair}tp.compile({system.name}, {dt}, method="rk4") runs in loops, without a certificate.'


def in_arrays(job: Job) -> str:
    """The line that solves equations of arrays of any length."""
    system = job.system
    dt = "dt=0.01" if job.goal.dt is None else f"dt={job.goal.dt:g}"
    return (
        f'tp.compile({system.name}, {dt}, method="gauss4") solves whole arrays of any size. {in_steps(job)}'
    )


def check_written(job: Job, count: int, most: int = LARGEST, fix: str = "") -> None:
    """What is far too long to be written out is refused before it is; what is long is told."""
    numbers = sum(s.var.size for s in job.system.states)
    told = (
        f"`{job.method.name}` is written out number by number, for the {plural(numbers, 'number')} of "
        f"`{job.system.name}` about {count:,} operations a step"
    )
    if count > most:
        raise PlanError(f"{told}, and at most {most:,} are allowed", fix=fix or in_steps(job))
    if count > TOLD:
        LOG.warning("%s: this takes some seconds to compile", told)


def check_solved(job: Job, slopes: int = 1, points: int = 1) -> None:
    """Of methods that solve equations: at the beginning, ahead, at every stage, and for the moves; each at some points."""
    system = job.system
    if system.kind == "hamiltonian" and system.motion is None:
        own = once(rates_of(system)[0])
    else:
        own = OF_A_GRADIENT * once([u for u in (system.energy,) if u is not None])
    numbers = sum(s.var.size for s in system.states)
    # of few numbers with a long energy the count is an estimate too rough to refuse by
    most = LARGEST if numbers > MOST_COMPONENTS else 50 * LARGEST
    one_shape = system.kind == "hamiltonian" and len({s.var.shape for s in system.states}) == 1
    fix = in_arrays(job) if one_shape and numbers > MOST_COMPONENTS else ""
    check_written(job, points * (slopes + 3) * own + OF_AN_UNKNOWN * numbers, most, fix)
