"""How is a charge stepped in a magnetic field?  Half a drift, half a kick, a turn about B, half a kick, half a drift.

Fields are evaluated once a step, in its middle. The turn of Boris (1970) is Cayley's transform of half the angle. Turned by
the true angle, the electric force across B must be longer by tan(x)/x, x half of the angle, or charges would drift at another
speed than E x B/B**2. For fast particles the mass in the turn is that of the momentum between both half kicks (Boris), or
that of Higuera and Cary (2017), with which a charge goes straight on where E = -v x B.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tinyphysics.charged import across
from tinyphysics.flows.gyration import GyrationFlow
from tinyphysics.flows.map import Map
from tinyphysics.flows.relax import RelaxFlow
from tinyphysics.flows.shears import Shear, ShearFlow, along
from tinyphysics.ir import UOp
from tinyphysics.ir.vectors import columns, from_columns
from tinyphysics.rules.formulas.gyration import SMALL, row_of, scaled, square
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, WORK, Claims, Step, SubFlow, Term
from tinyphysics.synth.methods.derivative import derivative, power
from tinyphysics.system import System

MIDDLE = 0.5  # of a step: where fields are evaluated


@dataclass(frozen=True, eq=False)
class Charges:
    """One pair of positions and kinetic momenta in a field."""

    q: UOp
    p: UOp
    field: UOp  # charge times B
    inverse_mass: Callable[[UOp], UOp]  # of each row, for a momentum
    light: UOp | None = None  # the speed of light, of fast particles
    mass: UOp | None = None  # of each row, of fast particles


def spread(w: UOp, b: UOp) -> UOp:
    """One number for each row, along its axes."""
    return w if w.shape == b.shape else w.reshape(*w.shape, 1).expand(b.shape)


def half_angle(c: Charges) -> UOp:
    """Half of the angle that a unit of time turns a momentum by, along B."""
    w = c.inverse_mass(c.p)
    return 0.5 * (c.field * spread(w, c.field))


def mean_gamma(c: Charges, u: UOp) -> UOp:
    """gamma**2 = (s + sqrt(s**2 + 4 (tau**2 + (u.tau)**2)))/2, with s = 1 + u**2 - tau**2, for momenta u."""
    assert c.mass is not None and c.light is not None
    light = c.light.expand(c.mass.shape)
    u2 = square(u) / (c.mass * c.mass * light * light)
    tau = 0.5 * (DT.expand(c.field.shape) * c.field) / spread(c.mass, c.field)
    tau2 = row_of(tau, u)
    along_field = UOp.const(0.0, tau2.dtype, tau2.shape)
    if u.shape[-1] == 3:
        dot = UOp.sum_of([x * y for x, y in zip(columns(u), columns(tau))]) / (c.mass * light)
        along_field = dot * dot
    s = (u2 + 1.0) - tau2
    return (0.5 * (s + (s * s + 4.0 * (tau2 + along_field)).sqrt())).sqrt()


def higuera_cary(c: Charges) -> UOp:
    """The same with the mass of Higuera and Cary: that of the mean momentum, solved for."""
    assert c.mass is not None
    return 0.5 * c.field / spread(mean_gamma(c, c.p) * c.mass, c.field)


def longer_across(slope: UOp, t: UOp) -> UOp:
    """A slope whose part across t is longer by tan|t|/|t|."""
    x2 = row_of(t, slope)
    small = x2 < SMALL
    x = small.where(UOp.const(1.0, x2.dtype, x2.shape), x2).sqrt()
    third = UOp.const(1.0 / 3.0, x2.dtype, x2.shape)
    k = small.where(third, (x.tan() / x - 1.0) / small.where(UOp.const(1.0, x2.dtype, x2.shape), x2))
    if slope.shape[-1] == 2:  # all of it is across
        return from_columns([g * (k * x2 + 1.0) for g in columns(slope)])
    along_t = UOp.sum_of([g * y for g, y in zip(columns(slope), columns(t))])
    return from_columns([g + k * (x2 * g - y * along_t) for g, y in zip(columns(slope), columns(t))])


def pushed(
    name: str,
    system: System,
    terms: Sequence[Term],
    V: UOp,
    charges: Sequence[Charges],
    drifts: Sequence[tuple[UOp, UOp, str]],
    claims: Claims,
    way: str = "cayley",
    about: Callable[[Charges], UOp] = half_angle,
    canonical: Sequence[tuple[UOp, UOp]] = (),
) -> Step:
    """The step; `canonical` has the vector potential of each momentum that is not kinetic to the user."""
    axes = [simplify([about(c)])[0] for c in charges]
    slopes = derivative(V, [c.q for c in charges])
    if way == "exact":
        slopes = [
            longer_across(
                g, scaled(a, UOp.const(1.0, a.dtype).expand(rows(a, c)) * DT.expand(rows(a, c)), c.p)
            )
            for g, a, c in zip(slopes, axes, charges)
        ]
    timed = system.time is not None and system.time in V.leaves
    powers = [-power(V, system.time)] if timed else []

    def drift(weight: float) -> SubFlow:
        return ShearFlow(tuple(replace(s, gathers=True) for s in along(drifts, weight)))

    def kick(weight: float) -> SubFlow:
        shears = tuple(Shear(c.p, g, "negate", weight) for c, g in zip(charges, slopes))
        return ShearFlow(shears, MIDDLE, tuple(Shear(WORK, u, "force", weight) for u in powers))

    turns: tuple[SubFlow, ...] = tuple(GyrationFlow(1.0, c.p, a, way, MIDDLE) for c, a in zip(charges, axes))
    if system.friction:
        half = RelaxFlow(tuple(zip(system.p, system.friction)), 0.5, terms[0].energy)
        turns = (half, *turns, half)
    still = not V.leaves & {c.q for c in charges}
    kicks = (lambda: ()) if still else (lambda: (kick(0.5),))
    enter = (Map(tuple((p, p - A) for p, A in canonical)),) if canonical else ()
    leave = (Map(tuple((p, p + A) for p, A in canonical)),) if canonical else ()
    init = (*enter, drift(0.5))
    body = (*kicks(), *turns, *kicks(), drift(1.0))
    return Step.of(system, name, terms, claims, 1, init, body, (drift(-0.5), *leave))


def rows(axis: UOp, c: Charges) -> tuple[int, ...]:
    return axis.shape[:-1] if c.p.shape[-1] == 3 else axis.shape


def vay_step(
    name: str,
    system: System,
    terms: Sequence[Term],
    V: UOp,
    charges: Sequence[Charges],
    drifts: Sequence[tuple[UOp, UOp, str]],
) -> Step:
    """Half a drift, the map of Vay (2008) for momenta, half a drift."""
    values = []
    for c, g in zip(charges, derivative(V, [c.q for c in charges])):
        h = DT.expand(c.p.shape)
        v = c.p * spread(c.inverse_mass(c.p), c.p)
        u = (
            c.p + 0.5 * h * across(v, c.field) - h * g
        )  # half a step of all, and another half of the electric force
        assert c.mass is not None
        t = 0.5 * DT.expand(c.field.shape) * c.field / spread(mean_gamma(c, u) * c.mass, c.field)
        along_t = UOp.sum_of([x * y for x, y in zip(columns(u), columns(t))]) if c.p.shape[-1] == 3 else None
        turned = u + across(u, t)
        if along_t is not None:
            turned = turned + t * spread(along_t, t)
        values.append((c.p, turned * spread(1.0 / (row_of(t, c.p) + 1.0), c.p)))
    init, final = (ShearFlow(along(drifts, w)) for w in (0.5, -0.5))
    new = zip((p for p, _ in values), simplify([u for _, u in values]))
    body = (Map(tuple(new), declares_dt=True), ShearFlow(along(drifts, 1.0)))
    return Step.of(system, name, terms, (), 1, (init,), body, (final,))
