"""Which rigid bodies are there?  Free bodies, heavy tops, a gyroscope, and liquids of molecules with rigid sites."""

# mypy: allow-untyped-defs, allow-incomplete-defs
# systems stand here as users write them: without types of what they return
from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.front.bodies import rotate
from tinyphysics.front.pairs import pair_sum
from tinyphysics.front.spaces import Array, Rotor, Vec
from tinyphysics.front.trace import hamiltonian


@hamiltonian
def free_body(R: Rotor, L: Vec[3], moments: Vec[3] = (1.0, 2.0, 3.0)):
    """A body on which nothing acts, with its moments of inertia about its own axes."""
    return (L**2 / moments).sum() / 2


def free_motion(R: Any, L: Any, moments: Any, t: Any) -> tuple[Any, Any]:
    """The attitude (a unit quaternion) and the angular momentum of a free rigid body at the times `t`, exactly.

    `R` and `L` are those at t = 0, as for free_body; `moments` are its moments of inertia. It has no steps: t may be 10**6.
    """
    R, L, moments, t = (np.asarray(x, float) for x in (R, L, moments, t))
    if R.shape != (4,) or L.shape != (3,) or moments.shape != (3,) or not (moments > 0).all():
        raise InputError(
            "free_motion takes one quaternion, one momentum and three positive moments",
            fix="free_motion(R, L, moments, t).",
        )
    attitudes, momenta = np.empty((*t.shape, 4)), np.empty((*t.shape, 3))
    attitudes[t == 0.0], momenta[t == 0.0] = R, L
    sim = free_body.compile(1.0, propagator="exact", checks="off")
    for sign, there in ((1.0, t > 0.0), (-1.0, t < 0.0)):  # -L has the same past as L has a future
        if not there.any():
            continue
        times, place = np.unique(sign * t[there], return_inverse=True)
        out = sim.evolve(R=R, L=sign * L, moments=moments, until=times[-1], save_at=times)
        attitudes[there], momenta[there] = out.R[place], sign * out.L[place]
    return attitudes, momenta


@hamiltonian
def heavy_top(R: Rotor, L: Vec[3], moments: Vec[3] = (1.0, 1.0, 0.5), mgl: float = 1.0):
    """A top that spins on its point: its centre of mass lies on its third axis, at a distance l from the point."""
    return (L**2 / moments).sum() / 2 + mgl * rotate(R, [0.0, 0.0, 1.0])[2]


@hamiltonian
def heavy_tops(R: Rotor["n"], L: Array["n", 3], moments: Vec[3] = (1.0, 1.0, 0.5), mgl: float = 1.0):
    """Many of them, in one run."""
    return (L**2 / moments).sum() / 2 + mgl * rotate(R, [0.0, 0.0, 1.0])[:, 2].sum()


@hamiltonian
def gyroscope(
    R: Rotor,
    L: Vec[3],
    moments: Vec[3] = (1.0, 1.0, 0.5),
    centre: Vec[3] = (0.0, 0.0, 1.0),
    weight: float = 1.0,
):
    """A body that hangs or stands on a point, with its centre of mass anywhere in its own frame; weight is m*g."""
    return (L**2 / moments).sum() / 2 + weight * rotate(R, centre)[2]


def tilted(angle: float, spin: float = 0.0) -> dict[str, Any]:
    """A start: the third axis tilted from the vertical by an angle, and a spin (angular momentum) about it."""
    half = angle / 2
    return {"R": [float(np.cos(half)), float(np.sin(half)), 0.0, 0.0], "L": [0.0, 0.0, float(spin)]}


def rigid_liquid(sites: Any, pair_energy: Any, mass: float = 1.0, masses: Any = None) -> Any:
    """Molecules whose sites keep their places in them: an energy of every two sites of different molecules.

    `sites` are their places in a molecule, (s, 3), and `masses` their masses (equal, if left out); they are moved to the
    centre of mass and turned to the principal axes. `pair_energy(r2)` is the energy of two sites at the square of their
    distance. The states are x, p, R, L; `mass` is that of a molecule.
    """
    places = np.asarray(sites, float)
    weights = (
        np.full(len(places), mass / max(len(places), 1)) if masses is None else np.asarray(masses, float)
    )
    if places.ndim != 2 or places.shape[-1] != 3 or len(weights) != len(places) or not (weights > 0).all():
        raise InputError(
            f"sites of shape {places.shape} with {len(weights)} masses",
            fix="Give sites of shape (s, 3), each with a mass.",
        )
    own = places - (weights @ places) / weights.sum()
    inertia = np.einsum(
        "s,sij->ij", weights, (own**2).sum(-1)[:, None, None] * np.eye(3) - own[:, :, None] * own[:, None, :]
    )
    moments, axes = np.linalg.eigh(inertia)
    if moments[0] <= 1e-12 * moments[-1]:
        raise InputError(
            "all sites lie on one line, which has no moment of inertia about it",
            fix="Write it with n: tp.Axis instead.",
        )
    axes = axes * np.linalg.det(axes)
    own, total = (own @ axes).tolist(), float(weights.sum())

    def liquid(x: Array["n", 3], p: Array["n", 3], R: Rotor["n"], L: Array["n", 3]):
        """Molecules of rigid sites."""
        kinetic = (p**2).sum() / (2 * total) + (L**2 / np.array(moments)).sum() / 2
        at = [x + rotate(R, site) for site in own]
        pairs = [pair_energy(((a[:, None] - b[None, :]) ** 2).sum(-1)) for a in at for b in at]
        return kinetic + sum(pair_sum(energy) for energy in pairs)  # i < j: the sites of one body never meet

    return hamiltonian(liquid)
