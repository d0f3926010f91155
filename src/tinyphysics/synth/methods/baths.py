"""What does a bath do in a part of a step?  One flow for each kind of bath, for energies with T = sum of p**2/2m."""

from __future__ import annotations

from fractions import Fraction

from tinyphysics.analysis.masses import masses
from tinyphysics.flows.baths import BathFlow, Coupled
from tinyphysics.flows.memory import MemoryFlow, Remembering
from tinyphysics.flows.thermostats import ThermostatFlow
from tinyphysics.ir import UOp
from tinyphysics.rules.formulas.baths import stream_of
from tinyphysics.rules.formulas.memory import GLE
from tinyphysics.rules.formulas.thermostats import TOGETHER, Thermostat
from tinyphysics.step import SubFlow
from tinyphysics.system import System


def of_bodies(system: System, kinetic: UOp, weight: float) -> SubFlow:
    """A bath of points and of bodies that turn: each angular momentum as a momentum, with moments of inertia as masses.

    It is in the middle of the step, and sees the time there.
    """
    kT, *rates = system.heat
    clock = 0.5 if depends_on_time(system) else 0.0
    inverse = masses(system, kinetic, system.momenta).inverse
    if system.bath in TOGETHER:
        told = thermostat_of(system, inverse)
        return ThermostatFlow(system.bath, told, weight, stream_of(0, 0), kinetic, clock)
    coupled = [
        Coupled(p, rate, w, stream_of(k, 0))
        for k, (p, rate, w) in enumerate(zip(system.momenta, rates, inverse))
    ]
    return BathFlow(system.bath, tuple(coupled), kT, weight, kinetic, clock)


def depends_on_time(system: System) -> bool:
    """Does the temperature, or how fast the bath works?"""
    return system.time is not None and any(system.time in u.leaves for u in system.heat)


def thermostat_of(system: System, inverse: tuple[UOp, ...]) -> Thermostat:
    """What a bath that acts on all momenta together is told, with 1/m of each."""
    kT, tau, g, *axes = system.heat
    return Thermostat(
        system.momenta, inverse, system.hidden, kT, tau, float(g.arg), tuple(int(k.arg) for k in axes)
    )


def in_bath(system: System, kinetic: UOp, weight: float, piece: int, clock: float = 0.0) -> SubFlow:
    """The flow of the bath for weight*dt, the piece of that number in a step, which sees the time `clock`."""
    kT, *more = system.heat
    inverse = masses(system, kinetic).inverse
    if not depends_on_time(system):
        clock = 0.0
    if system.bath in TOGETHER:
        told = thermostat_of(system, inverse)
        return ThermostatFlow(system.bath, told, weight, stream_of(0, piece), kinetic, clock)
    if system.bath == GLE:
        A, C = (
            tuple(tuple(Fraction(float(u.arg)) for u in m.src[n * i : n * (i + 1)]) for i in range(n))
            for m in more
            for n in m.shape[:1]
        )
        each = len(A) - 1
        remembering = tuple(
            Remembering((p, *system.hidden[each * k : each * (k + 1)]), w, stream_of(k, piece))
            for k, (p, w) in enumerate(zip(system.p, inverse))
        )
        return MemoryFlow(remembering, kT, A, C, weight, kinetic, clock)
    momenta = [
        Coupled(p, rate, w, stream_of(k, piece))
        for k, (p, rate, w) in enumerate(zip(system.p, more, inverse))
    ]
    return BathFlow(system.bath, tuple(momenta), kT, weight, kinetic, clock)
