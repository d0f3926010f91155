"""Charges in magnetic and electric fields: fields to use, systems made of them, and what stays almost the same in them."""

# mypy: allow-untyped-defs, allow-incomplete-defs
# systems stand here as users write them: without types of what they return
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.front.fields import magnetic
from tinyphysics.front.functions import cos, cross, sqrt, stack
from tinyphysics.front.spaces import Array, Vec
from tinyphysics.front.trace import hamiltonian

Field = Callable[..., Any]


# --- fields -------------------------------------------------------------------------------------------------
def uniform(B: Any = (0.0, 0.0, 1.0)) -> Field:
    """A field that is the same everywhere: `B` is three numbers."""
    x, y, z = three("B_field", B)

    def field(q):
        return stack([0.0 * q[..., 0] + b for b in (x, y, z)], axis=-1)

    return field


def dipole(moment: float = 1.0) -> Field:
    """The field of a dipole at the origin along -z, as that of the earth: at the equator, B = moment/r**3 along z."""

    def field(q):
        x, y, z = q[..., 0], q[..., 1], q[..., 2]
        r2 = x * x + y * y + z * z
        r5 = r2 * r2 * sqrt(r2)
        return stack(
            [-3 * moment * x * z / r5, -3 * moment * y * z / r5, moment * (r2 - 3 * z * z) / r5], axis=-1
        )

    return field


def mirror(b: float = 1.0, length: float = 1.0) -> Field:
    """A bottle along z: B_z = b (1 + z**2/length**2), which reflects charges where it has become strong enough."""
    c = b / length**2

    def field(q):
        x, y, z = q[..., 0], q[..., 1], q[..., 2]
        return stack([-c * x * z, -c * y * z, b + c * z * z], axis=-1)

    return field


# --- potentials of traps --------------------------------------------------------------------------------------
def penning(strength: float = 0.1) -> Field:
    """The quadrupole of a Penning trap, strength * (2 z**2 - x**2 - y**2)/4: it holds along z, and a uniform B across."""

    def potential(q):
        x, y, z = q[..., 0], q[..., 1], q[..., 2]
        return strength * (2 * z * z - x * x - y * y) / 4

    return potential


def paul(steady: float = 0.0, amplitude: float = 0.5, frequency: float = 5.0) -> Field:
    """The quadrupole of a Paul trap: (steady + amplitude * cos(frequency*t)) * (x**2 + y**2 - 2 z**2)/2."""

    def potential(q, t):
        x, y, z = q[..., 0], q[..., 1], q[..., 2]
        return (steady + amplitude * cos(frequency * t)) * (x * x + y * y - 2 * z * z) / 2

    return potential


# --- systems -----------------------------------------------------------------------------------------------------
def System(
    B_field: Any = None,
    E_field: Any = None,
    potential: Field | None = None,
    *,
    charge: float = 1.0,
    mass: float = 1.0,
    n: int | None = None,
):
    """Charges in fields: q' = p/mass, p' = charge * (E + v x B), with the kinetic momentum p.

    `B_field` and `potential` are functions of q, and of t if they depend on it; `B_field` may also be three numbers.
    `E_field` is three numbers, or a function of t alone; one that depends on q is given by its potential. `charge` and
    `mass` are the defaults of parameters of these names. With `n`, q and p are of shape (n, 3), one row for each charge.
    """
    B = B_field if callable(B_field) else uniform((0.0, 0.0, 1.0) if B_field is None else B_field)
    E = steady(E_field)
    timed = any(f is not None and "t" in inspect.signature(f).parameters for f in (B, E, potential))

    def energy(q: Any, p: Any, charge: Any, mass: Any, t: Any = None) -> Any:
        total = (p * p).sum() / (2 * mass)
        if potential is not None:
            V = called(potential, q, t)
            total = total + charge * (V.sum() if getattr(V, "shape", ()) else V)
        if E is not None:
            e = called(E, q, t)
            total = total - charge * sum(
                (q[..., k] * e[k]).sum() if q.ndim > 1 else q[k] * e[k] for k in range(3)
            )
        return total

    def driven(q: Any, p: Any, t: Any, charge: Any = charge, mass: Any = mass) -> Any:
        return energy(q, p, charge, mass, t)

    def charges(q: Any, p: Any, charge: Any = charge, mass: Any = mass) -> Any:
        return energy(q, p, charge, mass)

    made = driven if timed else charges
    spaces: Any = (Vec, Array)
    shape = spaces[0][3] if n is None else spaces[1][n, 3]
    made.__name__ = "charges"
    made.__annotations__ = {"q": shape, "p": shape}
    return hamiltonian(made, bracket=magnetic(B, charge="charge"))


def called(f: Field, q: Any, t: Any) -> Any:
    own = inspect.signature(f).parameters
    return f(**{name: u for name, u in (("q", q), ("t", t)) if name in own})


def steady(E: Any) -> Field | None:
    """An electric field that is the same everywhere, as a function."""
    if E is None:
        return None
    if callable(E):
        if "q" in inspect.signature(E).parameters:
            raise InputError(
                "E_field= depends on q: whether it has an energy is not known from that",
                fix="Pass its potential: potential=lambda q: q @ q.",
            )
        found: Field = E
        return found
    numbers = three("E_field", E)
    return lambda: numbers


def three(name: str, given: Any) -> list[float]:
    try:
        numbers = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        numbers = np.zeros(0)
    if numbers.shape != (3,) or not np.isfinite(numbers).all():
        raise InputError(f"{name}={given!r} is not three numbers", fix=f"Pass {name}=[0.0, 0.0, 1.0].")
    return [float(x) for x in numbers]


# --- what is measured ----------------------------------------------------------------------------------------------
def magnetic_moment(B_field: Field) -> Field:
    """m v_perp**2/2B of each charge, for observe=: it stays almost the same where B changes little over a turn."""

    def moment(q, p, mass):
        b = B_field(q)
        b2 = (b * b).sum(axis=-1)
        across = cross(p, b)
        return (across * across).sum(axis=-1) / (2 * mass * b2 * sqrt(b2))

    return moment
