"""What does a file of atoms hold?  Positions, masses, charges, bonds and a box, with the names and units that systems use.

Lengths are in nm, times in ps, masses in u, charges in e and energies in kJ/mol, as in
`tinyphysics.physics.molecular`; files in other units are converted where they are read. A file in reduced units
(LAMMPS `lj`) has no unit to convert: `units` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.physics.molecular import BOLTZMANN
from tinyphysics.physics.starts import maxwell
from tinyphysics.system import SizedFamily, Sum, System

UNITS = "nm, ps, u, e, kJ/mol"
REDUCED = "reduced: sigma, epsilon and m are 1"
NO_ROWS = {2: "bonds", 3: "angles", 4: "dihedrals"}


@dataclass(frozen=True, eq=False)
class Atoms:
    """The atoms of a file at one time: `atoms.q` is (n, 3), and `atoms.start(system)` is what evolve takes."""

    q: Any  # (n, 3)
    m: Any  # (n,)
    species: tuple[str, ...]  # the element or the type of each, as a word
    v: Any = None  # (n, 3); None: the file has no velocities
    charge: Any = None  # (n,); None: the file has no charges
    # (n,), counted from 0: those of the file, or the species in the order in which they occur
    types: Any = None
    names: tuple[str, ...] = ()  # of the atoms, as CA and OW
    residues: tuple[str, ...] = ()  # of each atom, as ALA 12 or SOL 3
    box: Any = None  # (3, 3), the edges as rows; None: open space
    # (b, 2) indices from 0, where the file has them; also angles (a, 3) and dihedrals (d, 4)
    bonds: Any = None
    angles: Any = None
    dihedrals: Any = None
    units: str = UNITS
    info: Mapping[str, Any] = field(default_factory=dict)  # title, and what was left out

    def __len__(self) -> int:
        return len(self.q)

    def __repr__(self) -> str:
        kinds = dict.fromkeys(self.species)
        count = ", ".join(f"{self.species.count(k)} {k}" for k in list(kinds)[:6]) + (
            ", ..." if len(kinds) > 6 else ""
        )
        box = "open" if self.box is None else f"box {np.linalg.norm(self.box, axis=1).round(4).tolist()}"
        return f"<Atoms: {count}; {box}; {self.units}>"

    def start(self, system: Any, *, temperature: float | None = None, seed: int = 0) -> dict[str, Any]:
        """Returns the states and parameters of a system that this file has, for `sim.evolve(**atoms.start(system), ...)`.

        `system` is a system or a simulation: its arguments named q, p, v, m, mass, charge, types, box, bonds, angles
        and dihedrals are filled. Momenta come from the velocities of the file. Without velocities they are drawn at a
        `temperature` in kelvin, with a `seed`; without either the atoms are at rest.
        """
        shapes = arguments(system)
        if "q" not in shapes:
            raise InputError(
                f"the system has no argument `q`; it has {', '.join(shapes)}",
                fix='Name its positions q: tp.Array["n", 3], or pass what you need by name: x=atoms.q.',
            )
        p = self.momenta(temperature, seed)
        have = {
            "q": self.q,
            "p": p,
            "v": p / self.m[:, None],
            "m": self.m,
            "mass": self.m,
            "charge": self.charge,
        }
        have |= {"types": self.types, "bonds": self.bonds, "angles": self.angles, "dihedrals": self.dihedrals}
        have["box"] = self.box if shapes.get("box") is None else self.box_as(shapes["box"])
        return {name: value for name, value in have.items() if name in shapes and value is not None}

    def momenta(self, temperature: float | None, seed: int) -> Any:
        """From the velocities of the file, or drawn at a temperature."""
        if temperature is None:
            return np.zeros_like(self.q) if self.v is None else self.m[:, None] * self.v
        if self.v is not None:
            raise InputError(
                "temperature= cannot be used: the file of these atoms already has velocities",
                fix="Leave it out, or draw momenta yourself: tp.physics.starts.maxwell.",
            )
        kB = BOLTZMANN if self.units == UNITS else 1.0
        return maxwell(len(self), temperature, self.m, seed, kB=kB)

    def box_as(self, shape: tuple[Any, ...]) -> Any:
        """The box as a system wants it: three lengths, or edges as rows."""
        if self.box is None or len(shape) == 2:
            return self.box
        if np.abs(self.box - np.diag(np.diag(self.box))).max() > 1e-9 * np.abs(self.box).max():
            raise InputError(
                "the box of the file is skewed, and the system takes three lengths",
                fix="Annotate its box as tp.Array[3, 3]; tp.pair_distance2 takes edges as rows.",
            )
        lengths = np.diag(self.box).copy()
        return lengths if shape else float(lengths[0])


def arguments(system: Any) -> dict[str, tuple[Any, ...]]:
    """The names of states and parameters of a system, with their shapes."""
    found = getattr(system, "source", system)  # of a simulation
    found = found.traced() if hasattr(found, "traced") else found
    if isinstance(found, Sum):
        return {name: shape for part in found.parts for name, shape in arguments(part).items()}
    if isinstance(found, SizedFamily):
        return dict(found.shapes)
    if isinstance(found, System):
        return {s.name: s.var.shape for s in found.states} | {x.name: x.var.shape for x in found.parameters}
    raise InputError(
        f"start() of {type(system).__name__}, which is not a system",
        fix="Pass the system or the simulation: atoms.start(molecular.liquid).",
    )


def types_of(species: tuple[str, ...]) -> Any:
    """A number for each, in the order in which kinds occur.

    >>> types_of(("O", "H", "H", "O")).tolist()
    [0, 1, 1, 0]
    """
    kinds = {kind: k for k, kind in enumerate(dict.fromkeys(species))}
    return np.array([kinds[s] for s in species], int)


def edges_from(a: float, b: float, c: float, alpha: float, beta: float, gamma: float) -> Any:
    """Edges as rows from lengths and angles in degrees: the first along x, the second in the plane z = 0."""
    cos = {
        angle: 0.0 if angle == 90.0 else float(np.cos(np.radians(angle))) for angle in (alpha, beta, gamma)
    }
    sin = 1.0 if gamma == 90.0 else float(np.sin(np.radians(gamma)))
    x, y = cos[beta], (cos[alpha] - cos[beta] * cos[gamma]) / sin
    z2 = 1.0 - x * x - y * y
    if sin <= 0 or z2 <= 0:
        raise InputError(
            f"angles {alpha:g}, {beta:g} and {gamma:g} do not make a box",
            fix="Check the line of the file with the box.",
        )
    return np.array([[a, 0.0, 0.0], [b * cos[gamma], b * sin, 0.0], [c * x, c * y, c * float(np.sqrt(z2))]])
