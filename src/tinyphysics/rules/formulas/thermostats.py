"""How do baths change all momenta together?  By one factor, or where they are too hot (trigger).

All but the last act on the motion relative to the centre of mass along those axes along which an energy keeps the momentum of
the whole: g, the degrees of freedom that they thermalise, does not count that one, and it stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tinyphysics.ir import UOp
from tinyphysics.rules.formulas.baths import decay, ornstein_uhlenbeck
from tinyphysics.rules.formulas.gamma import SumOfSquares
from tinyphysics.step import Weight

BUSSI, NOSE_HOOVER, TRIGGER, NOSE_POINCARE = "bussi", "nose_hoover", "trigger", "nose_poincare"
TOGETHER = (BUSSI, NOSE_HOOVER, TRIGGER, NOSE_POINCARE)
ROOT = Fraction(
    "1.58740105196819947475170563927230826039149332789985300980828576182521650562421"
)  # the cube root of 4
SUZUKI = Weight(1 / (4 - 4 ** (1 / 3)), 1 / (4 - ROOT))
# of the palindromes that a chain is made of: order 4, and with shorter steps than the three that there may be
WEIGHTS = (SUZUKI, SUZUKI, 1 - 4 * SUZUKI, SUZUKI, SUZUKI)


@dataclass(frozen=True, eq=False)
class Thermostat:
    """What one is told: all momenta with 1/m of their numbers, its own states, and what it thermalises, how fast."""

    momenta: tuple[UOp, ...]
    inverse: tuple[UOp, ...]
    hidden: tuple[UOp, ...]
    kT: UOp
    tau: UOp
    g: float
    axes: tuple[int, ...]  # of space, along which the momentum of the whole stays

    @property
    def drift(self) -> tuple[UOp, ...] | None:
        """m P/M: of each momentum the part that moves with the whole."""
        if not self.axes:
            return None
        masses = [1.0 / w.expand(p.shape) for p, w in zip(self.momenta, self.inverse)]
        p, m = (UOp.sum_of(map(of_bodies, us)) for us in (self.momenta, masses))
        velocity = p / m
        if velocity.shape and len(self.axes) < velocity.size:
            kept = [UOp.const(float(k in self.axes)) for k in range(velocity.size)]
            velocity = velocity * UOp.stack(kept, velocity.shape)
        return tuple(m * velocity.expand(m.shape) for m in masses)

    @property
    def relative(self) -> tuple[UOp, ...]:
        drift = self.drift
        return self.momenta if drift is None else tuple(p - d for p, d in zip(self.momenta, drift))

    @property
    def twice_kinetic(self) -> UOp:
        return UOp.sum_of((w.expand(p.shape) * p * p).sum() for p, w in zip(self.relative, self.inverse))

    def scaled(self, factor: UOp) -> dict[UOp, UOp]:
        drift, own = self.drift, self.relative
        new = [factor.expand(p.shape) * p for p in own]
        return dict(zip(self.momenta, new if drift is None else [d + p for d, p in zip(drift, new)]))


def of_bodies(u: UOp) -> UOp:
    """The sum over bodies: of all axes but the last, where that is space."""
    return u.sum(tuple(range(u.ndim - 1))) if u.shape[-1] in (2, 3) else u.sum()


def draws_together(way: str, x: Thermostat) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """(kind, shape) of what one draws in a step, in order."""
    if way == TRIGGER:
        return tuple(("normal", p.shape) for p in x.momenta)
    return (("normal", ()), *SumOfSquares(int(x.g) - 1).draws) if way == BUSSI else ()


def together(way: str, x: Thermostat, weight: float, drawn: Sequence[UOp], dt: UOp) -> dict[UOp, UOp] | None:
    """New values of all momenta and of its own states; None of other numbers than it draws."""
    if [(u.arg[0], u.shape) for u in drawn] != list(draws_together(way, x)):
        return None
    if way == BUSSI:
        return rescaled(x, weight, drawn, dt)
    if way == TRIGGER:
        return above(x, weight, drawn, dt)
    if len(x.hidden) != 2:
        return None
    return chained(x, weight, dt) if way == NOSE_HOOVER else stretched(x, weight, dt)


def rescaled(x: Thermostat, weight: float, drawn: Sequence[UOp], dt: UOp) -> dict[UOp, UOp]:
    """K ← cK + (1 - c) k_BT/2 ΣRᵢ² + 2 R₁ √(c (1 - c) K k_BT/2), i = 1 … g, c = e^(-h/τ) (Bussi, Donadio & Parrinello 2007).

    The factor of momenta is √(K'/K), with the sign of √(cK) + R₁ √((1 - c) k_BT/2): for g = 1 that is what langevin does.
    Momenta that are all zero have no direction, and stay.
    """
    first, *rest = drawn
    twice = x.twice_kinetic
    moves = twice > 0.0
    rate = 1.0 / x.tau
    c = decay(rate, weight, dt).exp()
    share = -decay(rate, weight, dt).expm1() * x.kT / moves.where(twice, 1.0)  # (1 - c) k_BT/2K
    root = c.sqrt() + first * share.sqrt()
    square = root * root + share * SumOfSquares(int(x.g) - 1).value(rest)
    factor = (root < 0.0).where(-square.sqrt(), square.sqrt())
    return x.scaled(moves.where(factor, 1.0))


def above(x: Thermostat, weight: float, drawn: Sequence[UOp], dt: UOp) -> dict[UOp, UOp]:
    """Where 2K is above g k_BT a Langevin bath, elsewhere nothing."""
    hot = x.twice_kinetic > x.g * x.kT
    rate = 1.0 / x.tau
    new = [
        ornstein_uhlenbeck(p, rate, weight, x.kT, w, xi, dt) for p, w, xi in zip(x.momenta, x.inverse, drawn)
    ]
    return {p: hot.expand(p.shape).where(u, p) for p, u in zip(x.momenta, new)}


# --- chains -----------------------------------------------------------------------------------------
Piece = tuple[str, int, Weight]  # (kick or scale, of which link, weight)


def pieces(length: int) -> list[Piece]:
    """What a chain is made of in a step, each with an exact flow (Martyna, Tuckerman, Tobias & Klein 1996).

    (kick, k): p_η[k] grows by its force. (scale, k): what p_η[k] acts on shrinks, momenta or p_η[k - 1], and η[k] grows.
    """
    out: list[Piece] = []
    last = length - 1
    for w in WEIGHTS:
        half: list[Piece] = [("kick", last, w / 2)]
        for k in range(last - 1, -1, -1):
            half += [("scale", k + 1, w / 4), ("kick", k, w / 2), ("scale", k + 1, w / 4)]
        out += [*half, ("scale", 0, w), *reversed(half)]
    return out


def links(x: Thermostat, length: int) -> list[UOp]:
    """Q of each: g k_BT τ², then k_BT τ²."""
    rest = x.kT * x.tau * x.tau
    return [x.g * rest, *[rest] * (length - 1)]


def chained(x: Thermostat, weight: float, dt: UOp) -> dict[UOp, UOp]:
    """A chain for a time weight*dt: p' = -v₁p, p_η' = force - v p_η of the next link, η' = v = p_η/Q.

    The flow of `scale` multiplies n numbers by e^(-vh) and adds vh to η: det = e^(-nΔη), and nothing else changes volumes.
    """
    eta, p_eta = x.hidden
    length = eta.size
    each, moment = [eta[k] for k in range(length)], [p_eta[k] for k in range(length)]
    Q = links(x, length)
    factor, twice = None, x.twice_kinetic
    for kind, k, part in pieces(length):
        h = float(weight * part) * dt
        if kind == "kick":
            force = twice - x.g * x.kT if k == 0 else moment[k - 1] * moment[k - 1] / Q[k - 1] - x.kT
            moment[k] = moment[k] + h * force
            continue
        turned = h * (moment[k] / Q[k])
        each[k] = each[k] + turned
        shrunk = (-turned).exp()
        if k:
            moment[k - 1] = moment[k - 1] * shrunk
            continue
        factor = shrunk if factor is None else factor * shrunk
        twice = twice * shrunk * shrunk
    assert factor is not None
    return {**x.scaled(factor), eta: UOp.stack(each, eta.shape), p_eta: UOp.stack(moment, p_eta.shape)}


def energy_of_chain(x: Thermostat) -> UOp:
    """Σ p_η²/2Q + g k_BT η₁ + k_BT (η₂ + …): what H and it keep together."""
    eta, p_eta = x.hidden
    Q = links(x, eta.size)
    moving = [p_eta[k] * p_eta[k] / Q[k] for k in range(eta.size)]
    turned = [x.g * eta[0], *(eta[k] for k in range(1, eta.size))]
    return 0.5 * UOp.sum_of(moving) + x.kT * UOp.sum_of(turned)


# --- a thermostat whose energy is a Hamiltonian -----------------------------------------------------
# Nosé-Poincaré (Bond, Leimkuhler & Laird 1999): s (H(q, y/s) + p_η²/2Q + g k_BT ln s) of the pairs (q, y) and (s, p_η), with
# y = s p of the motion relative to the centre of mass. It begins at zero, and there its time is that of H. It is the sum of
# three parts with exact flows (Nosé 2001), here in p = y/s and η = ln s: s V kicks p and p_η, s (T + g k_BT η) drifts q and
# p_η, and s p_η²/2Q stretches s.
def stretched(x: Thermostat, weight: float, dt: UOp) -> dict[UOp, UOp]:
    """The flow of s p_η²/2Q: with u = 1 + h p_η/2Q, s becomes u² s, p_η/u is left of p_η, and p/u² of p."""
    eta, p_eta = x.hidden
    more = (0.5 * float(weight)) * dt * (p_eta / mass_of(x))
    u = 1.0 + more
    return {**x.scaled(1.0 / (u * u)), eta: eta + 2.0 * more.log1p(), p_eta: p_eta / u}


def mass_of(x: Thermostat) -> UOp:
    """Q = g k_BT τ²."""
    return x.g * (x.kT * x.tau * x.tau)


def pushes(x: Thermostat, potential: UOp) -> tuple[UOp, UOp]:
    """By what p_η changes in a unit of time beside a kick, and beside a drift."""
    return -potential, 0.5 * x.twice_kinetic - x.g * (x.kT * (1.0 + x.hidden[0]))


def energy_of_stretch(x: Thermostat) -> UOp:
    """p_η²/2Q + g k_BT η: what H and it keep together, at zero."""
    eta, p_eta = x.hidden
    return 0.5 * (p_eta * p_eta / mass_of(x)) + x.g * (x.kT * eta)


def first_stretch(x: Thermostat, energy: UOp) -> UOp:
    """The η with which H, of the motion relative to the centre of mass, and the energy of the thermostat are zero."""
    moving = UOp.sum_of((w.expand(p.shape) * p * p).sum() for p, w in zip(x.momenta, x.inverse))
    own = energy - 0.5 * moving + 0.5 * x.twice_kinetic if x.axes else energy
    p_eta = x.hidden[1]
    return -(own + 0.5 * (p_eta * p_eta / mass_of(x))) / (x.g * x.kT)
