"""How is a GROMACS .gro file read?  A title, a count, a line for each atom in columns, and a line for the box; nm and nm/ps.

Columns are five for the number and the name of the residue, for the name and the number of the atom, and then as wide as the
distance of the decimal points says. The format has no masses: elements are told by names, or masses are given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.physics.cells import cell
from tinyphysics.physics.io.atoms import Atoms, types_of
from tinyphysics.physics.io.elements import WEIGHTS, element_of
from tinyphysics.physics.io.reading import lines_of, number, whole
from tinyphysics.physics.io.xyz import Place

START = 20  # columns before the numbers
BOX = "Expected three lengths, or nine numbers: v1x v2y v3z v1y v1z v2x v2z v3x v3y."


def read_gro(path: Any, frame: int = 0, masses: Mapping[str, float] | None = None) -> Atoms:
    """Reads the atoms of a .gro file; `frame` is one of several frames, from 0, and -1 is the last.

    `masses` are in u by the name of the atom, {"CH2": 14.027}: for names that do not begin with their element, such as
    united atoms, and for virtual sites, which no system here can move.
    """
    lines = lines_of(path, "a .gro file")
    starts = frames_of(str(path), lines)
    if isinstance(frame, bool) or not isinstance(frame, int) or not -len(starts) <= frame < len(starts):
        raise InputError(
            f"frame={frame!r} of `{path}`, which has {len(starts)}", fix="Frames are counted from 0."
        )
    return one(str(path), lines, *starts[frame], dict(masses or {}))


def frames_of(path: str, lines: list[str]) -> list[tuple[int, int]]:
    """(line of the title from 0, atoms) of each frame."""
    out: list[tuple[int, int]] = []
    at = 0
    while at < len(lines) and (lines[at].strip() or not out):
        if at + 1 >= len(lines):
            raise Place(path, at + 1).wrong(
                "the file ends after a title", "Expected the number of atoms on the next line."
            )
        n = whole(Place(path, at + 2), lines[at + 1], "the number of atoms", 1)
        if at + 2 + n >= len(lines):
            have = max(len(lines) - at - 2, 0)
            raise Place(path, len(lines)).wrong(
                f"the file ends here, and {n} atoms and a box were announced at line {at + 2}: {have} lines are there",
                "It was not written to its end, or the number of atoms is wrong.",
            )
        out.append((at, n))
        at += n + 3
    return out


def one(path: str, lines: list[str], at: int, n: int, masses: dict[str, float]) -> Atoms:
    """One frame, whose title is line `at` from 0."""
    width = width_of(Place(path, at + 3), lines[at + 2])
    names, residues, species, weights, q, v = [], [], [], [], [], []
    for k in range(at + 2, at + 2 + n):
        line, place = lines[k].ljust(START), Place(path, k + 1)
        residue, name = line[5:10].strip(), line[10:15].strip()
        words = [line[START + c * width : START + (c + 1) * width] for c in range(6)]
        if not name or len(line.rstrip()) < START + 3 * width - width + 1:
            raise place.wrong(
                "this is not the line of an atom",
                f"Expected a name in columns 11 to 15 and x, y, z from column 21 on, {width} columns each.",
            )
        q.append([number(place, w, f"the coordinate {axis} in nm", "1.234") for w, axis in zip(words, "xyz")])
        if "".join(words[3:]).strip():
            v.append(
                [
                    number(place, w, f"the velocity v{axis} in nm/ps", "0.1234")
                    for w, axis in zip(words[3:], "xyz")
                ]
            )
        kind, mass = kind_of(place, name, residue, masses)
        names.append(name)
        residues.append(f"{residue} {line[:5].strip()}")
        species.append(kind)
        weights.append(mass)
    if v and len(v) != n:
        raise Place(path, at + 3).wrong(
            f"{len(v)} of {n} atoms have velocities", "Expected them for all or for none."
        )
    return Atoms(
        np.array(q),
        np.array(weights),
        tuple(species),
        v=np.array(v) if v else None,
        types=types_of(tuple(species)),
        names=tuple(names),
        residues=tuple(residues),
        box=box_of(Place(path, at + 3 + n), lines[at + 2 + n]),
        info={"title": lines[at].strip()} | time_of(lines[at]),
    )


def width_of(place: Place, line: str) -> int:
    """Columns of a number: from one decimal point to the next."""
    points = [k for k, c in enumerate(line) if c == "." and k >= START]
    if len(points) < 3 or points[1] - points[0] != points[2] - points[1]:
        raise place.wrong(
            "x, y and z are not in columns of one width",
            "Expected lines such as `    1SOL     OW    1   0.230   0.628   0.113`.",
        )
    return points[1] - points[0]


def kind_of(place: Place, name: str, residue: str, masses: dict[str, float]) -> tuple[str, float]:
    """The element or name of an atom, and its mass."""
    if name in masses:
        return name, number(place, str(masses[name]), f"the mass of {name}")
    element = element_of(name, residue)
    if element is None:
        raise place.wrong(
            f"the element of the atom `{name}` of {residue} is not known",
            f'Pass its mass in u: read_gro(path, masses={{"{name}": 14.027}}).',
        )
    return element, WEIGHTS[element]


def box_of(place: Place, line: str) -> Any:
    """The edges as rows; None if all are zero, which is how a file says that there is no box."""
    words = line.split()
    if len(words) not in (3, 9):
        raise place.wrong(f"{len(words)} numbers for the box", BOX)
    a = [number(place, w, "a length of the box", "1.82060") for w in words] + [0.0] * (9 - len(words))
    if not any(a):
        return None
    # v1x v2y v3z v1y v1z v2x v2z v3x v3y
    edges = np.array([[a[0], a[3], a[4]], [a[5], a[1], a[6]], [a[7], a[8], a[2]]])
    try:
        return cell(edges)
    except InputError as error:
        raise place.wrong(error.what, BOX) from None


def time_of(title: str) -> dict[str, float]:
    """`t= 0.0` in a title is the time in ps."""
    found = re.search(r"\bt=\s*([-+0-9.eE]+)", title)
    return {"time": float(found[1])} if found else {}
