"""How is an energy of bodies stepped by exact turns?  Kicks by torques and forces, drifts, and a turn about each axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

from tinyphysics.facts import Facts
from tinyphysics.flows.cotangents import is_zero
from tinyphysics.flows.relax import RelaxFlow
from tinyphysics.flows.shears import Shear, ShearFlow, along
from tinyphysics.flows.turns import Body, TurnFlow, UnitFlow
from tinyphysics.ir import UOp, substitute
from tinyphysics.ir.vectors import columns, from_columns
from tinyphysics.rules.formulas.turns import speeds
from tinyphysics.step import WORK, ExactPart, SubFlow, Term
from tinyphysics.synth.methods.derivative import derivative, power
from tinyphysics.system import System


def in_turns(system: System, facts: Facts) -> list[ExactPart] | str:
    """The parts of H, the kick first; or why there are none."""
    found = facts["turns"]
    if not found:
        return found.because
    out = []
    if found.V is not None:
        out.append(kick(system, found.V))
    if found.K is not None:
        out.append(kick(system, found.K, "K"))
    return [*out, *about_axes(system, found.T)]


def decay(system: System, facts: Facts) -> Callable[[float], SubFlow]:
    """Momenta that decay, of points and of bodies; what is booked is the energy of both."""
    found = facts["turns"]
    rates = tuple((p, rate) for p, rate in zip(system.momenta, system.friction) if not is_zero(rate))
    energy = UOp.sum_of([u for u in (found.T, found.K) if u is not None])
    return lambda weight: RelaxFlow(rates, weight, energy)


def of_length_one(system: System) -> tuple[SubFlow, ...]:
    """Quaternions, which rounding takes from length 1, are brought back to it in every step."""
    found = tuple(x for kind in system.structure.turning if kind.half for _, x in kind.bodies)
    return (UnitFlow(found),) if found else ()


def kick(system: System, energy: UOp, label: str = "V") -> ExactPart:
    """What moves only what it does not hold: torques and forces, or positions."""

    @cache
    def moves() -> list[tuple[UOp, UOp, str]]:
        moved = frozenset(system.structure.states)
        held = [s.var for s in system.states if s.var in energy.leaves and s.var in moved]
        return system.structure.flow(dict(zip(held, derivative(energy, held))))

    timed = reads_time(system, energy)
    powers = (-power(energy, system.time),) if timed else ()

    def flow(weight: float, clock: float = 0.0) -> SubFlow:
        return ShearFlow(
            along(moves(), weight), clock, tuple(Shear(WORK, u, "force", weight) for u in powers)
        )

    return ExactPart(Term(label, energy), flow, timed=timed)


def reads_time(system: System, energy: UOp) -> bool:
    return system.time is not None and system.time in energy.leaves


def about_axes(system: System, energy: UOp) -> list[ExactPart]:
    """A turn about each axis, of all bodies at once; their momenta are those of one term."""
    bodies = [(kind, L, x) for kind in system.structure.turning for L, x in kind.bodies]
    by = [L for _, L, _ in bodies]
    slopes = dict(zip(by, derivative(energy, by)))

    term = Term("T", energy)

    def flow(
        weight: float, clock: float = 0.0, *, axis: int, own: tuple[Body, ...], work: UOp | None
    ) -> SubFlow:
        works = () if work is None else (Shear(WORK, work, "force", weight),)
        return TurnFlow(weight, axis, own, clock, works)

    still = about(
        energy, by, None
    )  # what no momentum enters counts once, with the first axis that reads the time

    def part(axis: int, own: tuple[Body, ...], first: bool) -> ExactPart:
        work = None
        if timed := any(reads_time(system, b.speed) for b in own):
            alone = about(energy, by, axis)
            work = -power(alone if first else alone - still, system.time)
        return ExactPart(term, partial(flow, axis=axis, own=own, work=work), timed=timed)

    out: list[ExactPart] = []
    for axis in range(3):
        fast = speeds(slopes, axis)
        assert fast is not None, "analysis/turns.py has looked at it"
        if own := tuple(Body(kind, L, x, fast[L]) for kind, L, x in bodies if not is_zero(fast[L])):
            out.append(part(axis, own, not any(p.timed for p in out)))
    return out


def about(energy: UOp, momenta: Sequence[UOp], axis: int | None) -> UOp:
    """An energy with the momenta about one axis alone: the others are zero; with None, all of them."""
    alone = {}
    for L in momenta:
        own = columns(L)
        alone[L] = from_columns(
            [x if k == axis else UOp.const(0.0, x.dtype, x.shape) for k, x in enumerate(own)]
        )
    return substitute([energy], alone)[0]
