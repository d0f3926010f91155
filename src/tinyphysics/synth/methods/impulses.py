"""How are bodies stepped that touch?  Half a drift, a kick, impulses at the contacts, half a drift."""

from __future__ import annotations

from tinyphysics.flows.map import Map
from tinyphysics.flows.shears import ShearFlow, along
from tinyphysics.flows.touching import Surface, TouchFlow, touched, work_taken
from tinyphysics.ir import UOp
from tinyphysics.step import Step, SubFlow, Term
from tinyphysics.synth.methods.derivative import derivative
from tinyphysics.synth.methods.rotations import kick
from tinyphysics.system import System
from tinyphysics.touching import IMPULSE, RUB, velocity_of


def surfaces_of(system: System) -> list[Surface]:
    states = {s.name: s.var for s in system.states}
    out, at = [], 0
    for k, touch in enumerate(system.contacts):
        more: dict[str, UOp] = {}
        if touch.ways:
            more = {"slip": system.slips[at], "friction": system.rubs[at], "rub": states[touch.name + RUB]}
            at += 1
        out.append(Surface(system.gaps[k], states[touch.name + IMPULSE], touch.iterations, **more))
    return out


def impulses(name: str, system: System, T: UOp, V: UOp) -> Step:
    def drift(weight: float) -> SubFlow:
        return ShearFlow(along(system.structure.flow(dict(zip(system.p, derivative(T, system.p)))), weight))

    new = touched(system.q, system.p, T, velocity_of(system.q[0]), surfaces_of(system))
    values = tuple(
        (state, UOp.stack(numbers, state.shape) if state.shape else numbers[0]) for state, numbers in new
    )
    momenta = [dict(values)[p] for p in system.p]
    taken = work_taken(system.q, system.p, T, V, momenta)
    touch = TouchFlow(Map(values, declares_dt=True), taken)
    still = not any(q in V.leaves for q in system.q)
    kicks: tuple[SubFlow, ...] = () if still else (kick(system, V).flow(1.0),)
    terms = (Term("T", T), Term("V", V))
    return Step.of(system, name, terms, (), 1, (drift(0.5),), (*kicks, touch, drift(1.0)), (drift(-0.5),))
