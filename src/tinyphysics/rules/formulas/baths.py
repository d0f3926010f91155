"""How does a bath change a momentum in a time h, so that Maxwell's law exp(-p²/2m k_B T) stays as it is?"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir import Ops, UOp
from tinyphysics.step import DT

LANGEVIN, ANDERSEN = "langevin", "andersen"
BATHS = (1 << 31) + (1 << 29)  # streams: above those of a map, below those of observables
EACH = 1 << 8  # streams of one momentum


def stream_of(momentum: int, piece: int, draws: int = 0) -> int:
    """Of a momentum by its number, and of the pieces of a bath in a step, each with some draws: no number is used twice."""
    return BATHS + EACH * momentum + 16 * piece + draws


def decay(rate: UOp, weight: float, dt: UOp, twice: bool = False) -> UOp:
    """The exponent -rate*h for h = weight*dt, or -2*rate*h."""
    h = dt if weight == 1.0 else weight * dt
    if rate.op is Ops.CONST:  # in a register: a number of the user's is no coefficient of the method
        rate = rate * UOp.const(1.0)
    u = -(rate * h.expand(rate.shape))
    return u + u if twice else u


def ornstein_uhlenbeck(
    p: UOp, rate: UOp, weight: float, kT: UOp, inverse: UOp, noise: UOp, dt: UOp = DT
) -> UOp:
    """c p + sqrt((1 - c²) k_B T m) ξ with c = exp(-rate*h), the solution of dp = -rate p dt + sqrt(2 rate k_B T m) dW.

    c² + (1 - c²) = 1: of a normal p with the variance m k_B T comes another one. 1 - c² by expm1, which loses no digits
    where rate*h is small.
    """
    c, rest = decay(rate, weight, dt).exp(), -decay(rate, weight, dt, twice=True).expm1()
    width = (rest.expand(p.shape) * kT.expand(p.shape) / inverse.expand(p.shape)).sqrt()
    return p.fma(c.expand(p.shape), width * noise)


def collisions(
    p: UOp, rate: UOp, weight: float, kT: UOp, inverse: UOp, noise: UOp, chance: UOp, dt: UOp = DT
) -> UOp:
    """sqrt(k_B T m) ξ with the probability 1 - exp(-rate*h), and p otherwise: both have Maxwell's law if p has it.

    `chance` is uniform in [0, 1), one number for each body: all numbers of a momentum are drawn anew, or none.
    """
    often = -decay(rate, weight, dt).expm1()
    if chance.shape != p.shape:
        chance = chance.reshape(*chance.shape, 1).expand(p.shape)
    width = (kT.expand(p.shape) / inverse.expand(p.shape)).sqrt()
    return (chance < often.expand(p.shape)).where(width * noise, p)


def shape_of_bodies(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The last axis of a momentum is space where it has two or three numbers; any other number is a body on a line."""
    return shape[:-1] if shape and shape[-1] in (2, 3) else shape


def in_bath(
    way: str, p: UOp, rate: UOp, weight: float, kT: UOp, inverse: UOp, drawn: Sequence[UOp], dt: UOp
) -> UOp | None:
    """What a bath makes of a momentum with these random numbers; None of other numbers than it draws."""
    kinds = [u.arg[0] for u in drawn]
    if way == LANGEVIN and kinds == ["normal"]:
        return ornstein_uhlenbeck(p, rate, weight, kT, inverse, drawn[0], dt)
    if way == ANDERSEN and kinds == ["normal", "uniform"]:
        return collisions(p, rate, weight, kT, inverse, drawn[0], drawn[1], dt)
    return None


def draws_of(way: str, shape: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """(kind, shape) of what a bath draws for a momentum, in order."""
    uniform = (("uniform", shape_of_bodies(shape)),) if way == ANDERSEN else ()
    return (("normal", shape), *uniform)
