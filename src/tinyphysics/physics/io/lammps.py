"""How is a LAMMPS data file read?  A header of counts and bounds, then sections; its units become nm, ps, u, e.

The file says its units in its first line if `write_data` wrote it; else they are given, as `units real` of the input
script. So is the style of atoms, which stands behind `Atoms #`. Image flags are used: positions are unwrapped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, StoreError
from tinyphysics.physics.cells import cell
from tinyphysics.physics.io.atoms import REDUCED, UNITS, Atoms
from tinyphysics.physics.io.elements import WEIGHTS
from tinyphysics.physics.io.reading import lines_of, number, whole
from tinyphysics.physics.io.xyz import Place


@dataclass(frozen=True)
class Style:
    """One unit of a style in units of nm, ps, u and e."""

    length: float
    time: float
    mass: float
    charge: float


# fmt: off
STYLES = {
    "real":  Style(0.1, 1e-3, 1.0, 1.0),                                       # Å, fs, g/mol, e
    "metal": Style(0.1, 1.0, 1.0, 1.0),                                        # Å, ps, g/mol, e
    "nano":  Style(1.0, 1e3, 602214.076, 1.0),                                 # nm, ns, attogram, e
    "si":    Style(1e9, 1e12, 6.02214076e26, 1 / 1.602176634e-19),             # m, s, kg, C
    "lj":    Style(1.0, 1.0, 1.0, 1.0),                                        # reduced
}
# the columns of a line of Atoms; three image flags may follow
COLUMNS = {
    "atomic":    ("id", "type", "x", "y", "z"),
    "charge":    ("id", "type", "charge", "x", "y", "z"),
    "bond":      ("id", "molecule", "type", "x", "y", "z"),
    "angle":     ("id", "molecule", "type", "x", "y", "z"),
    "molecular": ("id", "molecule", "type", "x", "y", "z"),
    "full":      ("id", "molecule", "type", "charge", "x", "y", "z"),
}
COUNTS = ("atoms", "bonds", "angles", "dihedrals", "impropers", "atom types", "bond types", "angle types", "dihedral types",
          "improper types", "extra bond per atom", "extra angle per atom", "extra dihedral per atom",
          "extra improper per atom", "extra special per atom", "ellipsoids", "lines", "triangles", "bodies")
# fmt: on
TOPOLOGY = {"Bonds": 2, "Angles": 3, "Dihedrals": 4, "Impropers": 4}
SECTION = re.compile(r"[A-Z][A-Za-z]*(?: [A-Z]?[A-Za-z/]+)*")
NEAREST = 0.5  # of an element's weight in u within which a mass is taken for it


@dataclass
class Header:
    """What comes before the sections."""

    counts: dict[str, int] = field(default_factory=dict)
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    tilt: tuple[float, float, float] = (0.0, 0.0, 0.0)


Row = tuple[Place, list[str]]
Sections = Mapping[str, tuple[str, list[Row]]]  # for each the word behind its #, and its rows


def read_lammps(path: Any, units: str | None = None, style: str | None = None) -> Atoms:
    """Reads a LAMMPS data file, and converts it to nm, ps, u and e.

    `units` is the `units` of the input script: "real", "metal", "nano", "si" or "lj" (reduced, not converted); a file of
    `write_data` states it. `style` is the atom style, such as "full", if the line `Atoms` does not name it.
    """
    lines = lines_of(path, "a LAMMPS data file")
    chosen = units_of(str(path), lines[0], units)
    header, sections = parts(str(path), lines)
    if "Atoms" not in sections:
        raise StoreError(f"`{path}` has no section `Atoms`", fix=f"It has {', '.join(sections) or 'none'}.")
    return assembled(str(path), lines[0].strip(), chosen, STYLES[chosen], header, sections, style)


def units_of(path: str, title: str, given: str | None) -> str:
    """The style of units: given, or said by the first line."""
    found = re.search(r"\bunits\s*=\s*(\w+)", title)
    word = given if given is not None else found[1] if found else None
    if word is None:
        raise InputError(
            f"`{path}` does not state its units",
            fix='Pass units="real", or the value of `units` in the LAMMPS input script.',
        )
    if found and given is not None and found[1] != given:
        raise InputError(
            f'units="{given}", but line 1 of `{path}` says units = {found[1]}', fix="Leave units= out."
        )
    if word not in STYLES:
        raise InputError(f"units {word!r} of `{path}`", fix=f"Known are {', '.join(STYLES)}.")
    return word


def parts(path: str, lines: list[str]) -> tuple[Header, dict[str, tuple[str, list[Row]]]]:
    """The header, and for each section the word behind its # and its rows."""
    header = Header()
    sections: dict[str, tuple[str, list[Row]]] = {}
    now: list[Row] | None = None
    for k, line in enumerate(lines[1:], 2):  # the first line is a title, whatever it says
        text, _, comment = line.partition("#")
        words, place = text.split(), Place(path, k)
        if not words:
            continue
        name = " ".join(words)
        if SECTION.fullmatch(name) and not words[0][0].isdigit():
            if name in sections:
                raise place.wrong(f"the section `{name}` comes a second time", "A section comes once.")
            sections[name] = (comment.strip(), now := [])
        elif now is not None:
            now.append((place, words))
        else:
            heading(place, words, header)
    return header, sections


def heading(place: Place, words: list[str], header: Header) -> None:
    """One line of the header: `2048 atoms`, `0.0 25.0 xlo xhi` or `0.0 0.0 0.0 xy xz yz`."""
    if words[2:] in (["xlo", "xhi"], ["ylo", "yhi"], ["zlo", "zhi"]):
        low, high = (number(place, w, f"a bound of {words[2][0]}", "0.0") for w in words[:2])
        if high <= low:
            raise place.wrong(
                f"the box ends at {high:g}, before it begins at {low:g}", f"Expected {words[2]} < {words[3]}."
            )
        header.bounds[words[2][0]] = (low, high)
    elif words[3:] == ["xy", "xz", "yz"]:
        xy, xz, yz = (number(place, w, "a tilt of the box", "0.0") for w in words[:3])
        header.tilt = (xy, xz, yz)
    elif " ".join(words[1:]) in COUNTS:
        header.counts[" ".join(words[1:])] = whole(place, words[0], f"a number of {' '.join(words[1:])}")
    else:
        raise place.wrong(
            f"`{' '.join(words)[:60]}` is no line of a header",
            "Expected a count such as `2048 atoms`, bounds such as `0.0 25.0 xlo xhi`, or a section.",
        )


def assembled(
    path: str, title: str, units: str, unit: Style, header: Header, sections: Sections, style: str | None
) -> Atoms:
    said, rows = sections["Atoms"]
    columns = COLUMNS[style_of(path, said, style)]
    expected(path, "Atoms", rows, header.counts.get("atoms"))
    edges = edges_of(path, header)
    found: dict[int, dict[str, Any]] = {}
    for place, words in rows:
        one = atom(place, words, columns, edges)
        if one["id"] in found:
            raise place.wrong(f"atom {one['id']} comes a second time", "Every atom has a number of its own.")
        found[one["id"]] = one
    order = sorted(found)  # write_data leaves them in any order
    index = {number_: k for k, number_ in enumerate(order)}
    types = np.array([found[i]["type"] for i in order])
    by_type, words_of = masses_of(path, sections, header, types)
    charged = "charge" in columns
    moving = velocities(path, sections, index, unit)
    lists = {name: rows_of(path, sections, name, width, index, header) for name, width in TOPOLOGY.items()}
    return Atoms(
        unit.length * np.array([found[i]["q"] for i in order]),
        unit.mass * np.array([by_type[t] for t in types.tolist()]),
        tuple(words_of[t] for t in types.tolist()),
        v=moving,
        charge=unit.charge * np.array([found[i]["charge"] for i in order]) if charged else None,
        types=types - 1,
        residues=tuple(str(found[i]["molecule"]) for i in order) if "molecule" in columns else (),
        box=None if edges is None else unit.length * edges,
        bonds=lists["Bonds"],
        angles=lists["Angles"],
        dihedrals=lists["Dihedrals"],
        units=REDUCED if units == "lj" else UNITS,
        info={
            "title": title,
            "units of the file": units,
            "impropers": lists["Impropers"],
            "not read": [s for s in sections if s not in ("Atoms", "Velocities", "Masses", *TOPOLOGY)],
        },
    )


def style_of(path: str, said: str, given: str | None) -> str:
    """The style of atoms: given, or said behind `Atoms #`."""
    word = given if given is not None else said.split()[0] if said else None
    if word is None:
        raise InputError(
            f"`{path}` does not state its atom style",
            fix='Pass style="full", or the value of `atom_style` in the LAMMPS input script.',
        )
    if word not in COLUMNS:
        raise InputError(f"the atom style {word!r} of `{path}`", fix=f"Known are {', '.join(COLUMNS)}.")
    return word


def expected(path: str, name: str, rows: list[Row], count: int | None) -> None:
    if count is not None and len(rows) != count:
        at = rows[-1][0] if rows else Place(path, 1)
        raise at.wrong(
            f"the section `{name}` ends here with {len(rows)} lines; the header says {count}",
            "It was not written to its end, or the header is of another file.",
        )


def edges_of(path: str, header: Header) -> Any:
    """The edges as rows in units of the file; None if the file has no bounds."""
    if not header.bounds:
        return None
    missing = [axis for axis in "xyz" if axis not in header.bounds]
    if missing:
        raise StoreError(
            f"`{path}` has no bounds of {missing[0]}",
            fix=f"Expected `0.0 25.0 {missing[0]}lo {missing[0]}hi`.",
        )
    x, y, z = (high - low for low, high in (header.bounds[axis] for axis in "xyz"))
    xy, xz, yz = header.tilt
    return cell(np.array([[x, 0.0, 0.0], [xy, y, 0.0], [xz, yz, z]]))


def atom(place: Place, words: list[str], columns: Sequence[str], edges: Any) -> dict[str, Any]:
    """One line of Atoms, its position unwrapped."""
    n = len(columns)
    if len(words) not in (n, n + 3):
        raise place.wrong(
            f"{len(words)} columns for an atom",
            f"Expected {n}, {' '.join(columns)}, and three image flags if there are any.",
        )
    out: dict[str, Any] = {"charge": 0.0}
    for name, word in zip(columns, words):
        if name in ("id", "type", "molecule"):
            out[name] = whole(place, word, f"the {name} of an atom", 0 if name == "molecule" else 1)
        else:
            out[name] = number(place, word, f"{name} of an atom")
    q = np.array([out["x"], out["y"], out["z"]])
    if len(words) == n + 3:
        turns = [int(number(place, w, "an image flag", "0")) for w in words[n:]]
        if edges is None and any(turns):
            raise place.wrong("image flags, but the file has no box", "Expected `xlo xhi` in the header.")
        q = q if edges is None else q + np.array(turns, float) @ edges
    return out | {"q": q}


def masses_of(
    path: str, sections: Sections, header: Header, types: Any
) -> tuple[dict[int, float], dict[int, str]]:
    """The mass of each type in units of the file, and its word: the comment, the element of that mass, or the number."""
    used = sorted(set(types.tolist()))
    if "Masses" not in sections:
        raise StoreError(
            f"`{path}` has no section `Masses`",
            fix="Add it: `1 12.011` for each type, in the units of the file. (In LAMMPS they may also "
            "be in the input script.)",
        )
    by_type: dict[int, float] = {}
    for place, words in sections["Masses"][1]:
        if len(words) != 2:
            raise place.wrong(
                f"{len(words)} columns for a mass", "Expected the type and its mass: `1 12.011`."
            )
        mass = number(place, words[1], "a mass", "12.011")
        if mass <= 0:
            raise place.wrong(f"the mass {mass:g}", "Expected a positive number.")
        by_type[whole(place, words[0], "a type of atoms", 1)] = mass
    expected(path, "Masses", sections["Masses"][1], header.counts.get("atom types"))
    for t in used:
        if t not in by_type:
            raise StoreError(
                f"`{path}` has atoms of type {t} and no mass for it", fix=f"Add `{t} 12.011` to Masses."
            )
    return by_type, {t: word_of(t, by_type[t]) for t in by_type}


def word_of(t: int, mass: float) -> str:
    """The element with that mass, or the number of the type."""
    near = min(WEIGHTS, key=lambda e: abs(WEIGHTS[e] - mass))
    return near if abs(WEIGHTS[near] - mass) < NEAREST * 0.1 else str(t)


def velocities(path: str, sections: Sections, index: Mapping[int, int], unit: Style) -> Any:
    """In nm/ps, in the order of the atoms; None without a section."""
    if "Velocities" not in sections:
        return None
    rows = sections["Velocities"][1]
    expected(path, "Velocities", rows, len(index))
    out = np.zeros((len(index), 3))
    for place, words in rows:
        if len(words) != 4:
            raise place.wrong(f"{len(words)} columns for a velocity", "Expected the atom and vx vy vz.")
        out[known(place, words[0], index)] = [number(place, w, "a velocity") for w in words[1:]]
    return unit.length / unit.time * out


def rows_of(
    path: str, sections: Sections, name: str, width: int, index: Mapping[int, int], header: Header
) -> Any:
    """Bonds, angles, dihedrals or impropers as rows of indices from 0."""
    rows = sections.get(name, ("", []))[1]
    expected(path, name, rows, header.counts.get(name.lower()))
    out = []
    for place, words in rows:
        if len(words) != width + 2:
            raise place.wrong(
                f"{len(words)} columns in `{name}`",
                f"Expected a number, a type and {width} atoms: {width + 2} columns.",
            )
        out.append([known(place, w, index) for w in words[2:]])
    return np.array(out, int).reshape(-1, width)


def known(place: Place, word: str, index: Mapping[int, int]) -> int:
    """The place of an atom by its number in the file."""
    n = whole(place, word, "the number of an atom", 1)
    if n not in index:
        raise place.wrong(f"there is no atom {n}", "Expected a number that is in the section Atoms.")
    return index[n]
