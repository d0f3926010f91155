"""How fast does every state change?  The right-hand side of a system, however it was given."""

from __future__ import annotations

from typing import Any

from tinyphysics.errors import PlanError
from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import Term
from tinyphysics.synth.methods.derivative import derivative
from tinyphysics.system import System


def kinetic(system: System) -> UOp:
    """p*p/(2 mass) for a system that is given by its forces."""
    p: UOp = system.p[0]
    mass: Any = next((x.var for x in system.parameters if x.name == "mass"), 1.0)
    if isinstance(mass, UOp) and mass.shape and mass.shape != p.shape:  # one mass per row of q
        mass = mass.reshape(mass.shape + (1,) * (p.ndim - mass.ndim)).expand(p.shape)
    energies: UOp = p * p / (2.0 * mass)
    return energies.sum()


def with_friction(system: System, rates: dict[UOp, UOp]) -> dict[UOp, UOp]:
    """The rates of all states, those of momenta with what friction adds to them."""
    lost = {p: rate.expand(p.shape) * p for p, rate in zip(system.momenta, system.friction)}
    return {x: u - lost[x] if x in lost else u for x, u in rates.items()}


def rates_of(system: System) -> tuple[list[UOp], tuple[Term, ...]]:
    """The derivatives of all states, in their order, and the energies that are known; what a user wrote as it is."""
    terms: tuple[Term, ...] = ()
    if system.kind == "ode":
        rates = list(system.update)
    elif system.energy is not None:
        by = system.structure.by
        found = with_friction(
            system, system.structure.rates_by(system.energy, dict(zip(by, derivative(system.energy, by))))
        )
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
        moved = with_friction(system, dict(zip(system.p, system.forces)))
        rates, terms = [velocity, *moved.values()], (Term("T", T),)
    return rates if system.energy is None else simplify(rates), terms
