"""What do people measure while a system runs?  Temperature, pressure, momenta, structure: traced, fused with the step.

Each is a function of options, given to a run by name: `sim.evolve(..., observe={"T": temperature(kB=1.0)})`. It asks
the system for its positions, momenta and masses, so that it does not matter what they are called. An array of
shape (n, 1), (n, 2) or (n, 3) is n bodies; 2 or 3 numbers are one body; any other array is bodies on a line, one a
number; `dimensions=` says otherwise.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.front.dense import det
from tinyphysics.front.functions import absolute, concatenate, cos, cross, prod, reshape, sin, total
from tinyphysics.front.measure import Subject, measure

BOX = ("box", "cell")  # what the parameter that holds a periodic box is called by default


# --- reading a system -------------------------------------------------------------------------------
def dimensions_of(shape: tuple[int, ...]) -> int:
    """How many numbers of an array of this shape are one body."""
    if len(shape) == 1:
        return shape[0] if shape[0] in (2, 3) else 1
    return shape[-1] if shape and shape[-1] in (1, 2, 3) else 1


def bodies(s: Subject, arrays: Any, dimensions: int | None) -> Any:
    """One array for each canonical pair, as one of shape (bodies, dimensions)."""
    d = {dimensions or dimensions_of(a.shape) for a in arrays}
    if len(d) > 1 or any(a.size % next(iter(d)) for a in arrays):
        told = ", ".join(f"`{q.arg}` {q.shape}" for q in s.positions)
        raise InputError(
            f"the states of `{s.name}` are not all bodies in the same space: {told}",
            fix="Pass how many numbers describe one body: dimensions=3.",
        )
    rows = [reshape(a, (-1, next(iter(d)))) for a in arrays]
    return rows[0] if len(rows) == 1 else concatenate(rows)


def number(s: Subject, value: Any, what: str) -> Any:
    """A number as it is, or the parameter of this name."""
    if not isinstance(value, str):
        return value
    found = s.parameter(value)
    if found is None:
        raise InputError(
            f"`{s.name}` has no parameter `{value}`",
            fix=f"Pass {what}= a number, or the name of a parameter.",
        )
    return found


def box_of(s: Subject, box: str | None) -> Any:
    """The parameter that holds the periodic box; None if there is none and none was named."""
    if box is not None:
        return number(s, box, "box")
    return next((found for name in BOX if (found := s.parameter(name)) is not None), None)


def volume_of(box: Any, dimensions: int) -> Any:
    """Of one length (a cube), one for each direction, or three vectors as rows."""
    if box.shape == ():
        return prod([box] * dimensions)
    return prod(box) if box.ndim == 1 else absolute(det(box))


# --- energy -----------------------------------------------------------------------------------------
@measure
def kinetic_energy(s: Subject) -> Any:
    """The terms of H with momenta."""
    return sum(s.kinetic[1:], start=s.kinetic[0])


@measure
def potential_energy(s: Subject, term: int | None = None) -> Any:
    """The terms of H without momenta, or one of them, counted from 0 in the order in which they were written."""
    terms = s.potential
    if term is not None and not -len(terms) <= term < len(terms):
        raise InputError(
            f"`{s.name}` has {len(terms)} terms without momenta, and {term} is not one of them",
            fix="Terms are counted from 0 in the order in which they were written; energy_terms() lists them.",
        )
    if not terms:
        return 0.0
    return sum(terms[1:], start=terms[0]) if term is None else terms[term]


@measure
def energy_terms(s: Subject) -> Any:
    """All terms of H: first those with momenta, then the others, each as they were written."""
    return [*s.kinetic, *s.potential]


class HasTerms(Protocol):
    """A simulation, as far as its energy is concerned."""

    @property
    def subject(self) -> Subject: ...


def term_names(sim: HasTerms) -> list[str]:
    """What energy_terms() gives, as formulas."""
    s = sim.subject
    return [str(u) for u in (*s.kinetic, *s.potential)]


def thermal(
    s: Subject, drift: str | None, constraints: int, dimensions: int | None, momenta: Any = None
) -> tuple[Any, int, int, int]:
    """(twice the kinetic energy, degrees of freedom, bodies, dimensions), without the motion of the whole."""
    drift = ("kept" if s.heats_drift else "removed") if drift is None else drift
    if drift not in ("removed", "kept"):
        raise InputError(f"drift={drift!r}", fix='drift is "removed" (of the centre of mass) or "kept".')
    p, w = (
        bodies(s, s.momenta if momenta is None else momenta, dimensions),
        bodies(s, s.inverse_masses, dimensions),
    )
    n, d = p.shape
    freedom = n * d - (constraints or s.held) - (d if drift == "removed" else 0)
    if freedom < 1:
        raise InputError(
            f"`{s.name}` has {freedom} degrees of freedom after its drift is removed: no temperature",
            fix='Pass drift="kept" where momentum is not conserved.',
        )
    if drift == "kept":
        return total(w * p * p), freedom, n, d
    m = 1.0 / w
    v = w * p - (p.sum(0) / m.sum(0))[None, :]  # first the difference: K - P**2/2M would cancel
    return total(m * v * v), freedom, n, d


@measure
def temperature(
    s: Subject,
    kB: Any = 1.0,
    drift: str | None = None,
    constraints: int = 0,
    dimensions: int | None = None,
    at: str = "frame",
) -> Any:
    """2K/(g kB), with g = d(n - 1) degrees of freedom and K without the motion of the centre of mass.

    If external forces act on the system, momentum is not conserved: use drift="kept" and g = d n, which is the default in a
    bath that heats the motion of the whole. Every number that a constraint holds is one degree of freedom less.
    Momenta at frames of a bath are too small by O(dt²): <p²> of an oscillator by omega² dt²/4. at="bath" reads them where
    the bath has left them, half a step before, where Maxwell's law is exact if H is quadratic.
    """
    if at not in ("frame", "bath"):
        raise InputError(f"at={at!r}", fix='at is "frame" or "bath".')
    momenta = s.momenta_in_bath if at == "bath" else None
    twice, freedom, _, _ = thermal(s, drift, constraints, dimensions, momenta)
    return twice / (freedom * number(s, kB, "kB"))


@measure
def virial(s: Subject, box: str | None = None) -> Any:
    """W = -dV/ds at s = 1, where s multiplies every length: positions and the box. Without a box, the sum of q.F."""
    check_free(s, "virial")
    found = box_of(s, box)
    return s.work_of_scaling([] if found is None else [found])


def check_free(s: Subject, what: str) -> None:
    """An InputError for a system with constraints, whose forces are no part of its potential."""
    if s.held:
        raise InputError(
            f"the {what} of `{s.name}` does not count the forces of its constraints yet",
            fix='Compute it from out.multipliers("name"), or leave it out.',
        )


@measure
def pressure(
    s: Subject,
    box: str | None = None,
    drift: str = "removed",
    constraints: int = 0,
    dimensions: int | None = None,
) -> Any:
    """(n kB T + W/d)/volume, T as in temperature and W as in virial; the box is a parameter of the system."""
    check_free(s, "pressure")
    length = box_of(s, box)
    if length is None:
        raise InputError(
            f"the pressure of `{s.name}` needs its volume: it has no parameter {' or '.join(BOX)}",
            fix='Make the box a parameter, and name it: pressure(box="side").',
        )
    twice, freedom, n, d = thermal(s, drift, constraints, dimensions)
    return (n * twice / freedom + s.work_of_scaling([length]) / d) / volume_of(length, d)


# --- motion -----------------------------------------------------------------------------------------
@measure
def velocity(s: Subject, of: str | None = None) -> Any:
    """dH/dp, in the shape of the momentum: what a velocity autocorrelation is computed from."""
    names = [p.arg for p in s.momenta]
    if of is None and len(names) > 1 or of not in (None, *names):
        raise InputError(
            f"`{s.name}` has several velocities: which one is meant",
            fix=f"Pass of= one of its momenta: {', '.join(names)}.",
        )
    return s.velocities[0 if of is None else names.index(of)]


@measure
def momentum(s: Subject, dimensions: int | None = None) -> Any:
    """The sum of p, one number for each direction."""
    return bodies(s, s.momenta, dimensions).sum(0)


@measure
def centre_of_mass(s: Subject, dimensions: int | None = None) -> Any:
    """The sum of m q over the sum of m."""
    m = 1.0 / bodies(s, s.inverse_masses, dimensions)
    return (m * bodies(s, s.positions, dimensions)).sum(0) / m.sum(0)


@measure
def angular_momentum(s: Subject, about: str = "origin", dimensions: int | None = None) -> Any:
    """The sum of q x p: a vector in space, a number in the plane; about the origin or the centre of mass."""
    q, p = bodies(s, s.positions, dimensions), bodies(s, s.momenta, dimensions)
    if q.shape[1] not in (2, 3):
        raise InputError(
            f"`{s.name}` has no angular momentum: its bodies move in {q.shape[1]} dimension",
            fix="Pass how many numbers describe one body: dimensions=3.",
        )
    if about not in ("origin", "centre"):
        raise InputError(f"about={about!r}", fix='about is "origin" or "centre" (of mass).')
    if about == "centre":
        m = 1.0 / bodies(s, s.inverse_masses, dimensions)
        q = q - ((m * q).sum(0) / m.sum(0))[None, :]
        p = p - m * (p.sum(0) / m.sum(0))[None, :]
    return cross(q, p).sum(0)


# --- structure --------------------------------------------------------------------------------------
@measure
def structure_factor(s: Subject, k: Any, dimensions: int | None = None) -> Any:
    """|sum of exp(i k.q)|**2/n for each wave vector, a row of k; in a box they are whole multiples of 2 pi/L."""
    q, waves = bodies(s, s.positions, dimensions), np.atleast_2d(np.asarray(k, float))
    n, d = q.shape
    if waves.ndim != 2 or waves.shape[1] != d or not np.isfinite(waves).all():
        raise InputError(
            f"k has shape {np.shape(k)}; the bodies of `{s.name}` have {d} coordinates",
            fix=f"Pass finite wave vectors of shape (count, {d}).",
        )
    phase = sum((q[:, None, c] * waves[None, :, c] for c in range(d)), start=0.0)
    return (cos(phase).sum(0) ** 2 + sin(phase).sum(0) ** 2) / n
