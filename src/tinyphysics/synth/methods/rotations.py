"""How is an energy of bodies stepped by exact turns?  Kicks by torques and forces, drifts, and a turn about each axis."""

from __future__ import annotations

from functools import cache

from tinyphysics.facts import Facts
from tinyphysics.flows.cotangents import is_zero
from tinyphysics.flows.shears import ShearFlow, along
from tinyphysics.flows.turns import Body, TurnFlow, UnitFlow
from tinyphysics.ir import UOp
from tinyphysics.rules.formulas.turns import speeds
from tinyphysics.step import ExactPart, SubFlow, Term
from tinyphysics.synth.methods.derivative import derivative
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


def of_length_one(system: System) -> tuple[SubFlow, ...]:
    """Quaternions, which rounding takes from length 1, are brought back to it in every step."""
    found = tuple(x for kind in system.structure.turning if kind.half for _, x in kind.bodies)
    return (UnitFlow(found),) if found else ()


def kick(system: System, energy: UOp, label: str = "V") -> ExactPart:
    """What moves only what it does not hold: torques and forces, or positions."""

    @cache
    def moves() -> list[tuple[UOp, UOp, str]]:
        held = [s.var for s in system.states if s.var in energy.leaves]
        return system.structure.flow(dict(zip(held, derivative(energy, held))))

    def flow(weight: float) -> SubFlow:
        return ShearFlow(along(moves(), weight))

    return ExactPart(Term(label, energy), flow)


def about_axes(system: System, energy: UOp) -> list[ExactPart]:
    """A turn about each axis, of all bodies at once; their momenta are those of one term."""
    bodies = [(kind, L, x) for kind in system.structure.turning for L, x in kind.bodies]
    by = [L for _, L, _ in bodies]
    slopes = dict(zip(by, derivative(energy, by)))

    term = Term("T", energy)

    def part(axis: int, own: tuple[Body, ...]) -> ExactPart:
        return ExactPart(term, lambda weight: TurnFlow(weight, axis, own))

    out = []
    for axis in range(3):
        fast = speeds(slopes, axis)
        assert fast is not None, "analysis/turns.py has looked at it"
        if own := tuple(Body(kind, L, x, fast[L]) for kind, L, x in bodies if not is_zero(fast[L])):
            out.append(part(axis, own))
    return out
