"""How is a PDB file read?  By gemmi, after a look at the columns that must hold numbers; ångström become nm.

Of alternative conformations the first one of each residue is kept. Charges are the formal charges of columns 79 and 80, most
often none: partial charges come from a force field. Bonds are those of CONECT records.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.errors import InputError, StoreError
from tinyphysics.physics.cells import cell
from tinyphysics.physics.io.atoms import Atoms, edges_from, types_of
from tinyphysics.physics.io.elements import WEIGHTS
from tinyphysics.physics.io.reading import lines_of, number, package
from tinyphysics.physics.io.xyz import Place

ANGSTROM = 0.1  # in nm
CELL = (("a", 6, 15), ("b", 15, 24), ("c", 24, 33), ("alpha", 33, 40), ("beta", 40, 47), ("gamma", 47, 54))
COORDINATES = (("x", 30, 38), ("y", 38, 46), ("z", 46, 54))  # columns 31 to 54, eight for each


def library() -> Any:
    return package("gemmi", "PDB and mmCIF files are read by the package gemmi", "molecules")


def read_pdb(path: Any, model: int = 1) -> Atoms:
    """Reads the atoms of a PDB file in nm, u and e; `model` is the number of one of several models, from 1.

    >>> read_pdb("protein.pdb")  # doctest: +SKIP
    <Atoms: 12 C, 3 N, 4 O; box [3.0, 3.0, 3.0]; nm, ps, u, e, kJ/mol>
    """
    lines = lines_of(path, "a PDB file")
    checked(str(path), lines)
    gemmi = library()
    try:  # gemmi counts columns in bytes
        structure = gemmi.read_pdb_string("\n".join(lines).encode("ascii", "replace").decode() + "\n")
    except (RuntimeError, ValueError) as error:
        raise StoreError(
            f"`{path}` is not PDB: {error}",
            fix="Every field has its own columns; see wwpdb.org, file format 3.3.",
        ) from error
    bonds: dict[int, set[int]] = {serial: set(others) for serial, others in structure.conect_map.items()}
    return from_structure(str(path), structure, model, bonds)


def checked(path: str, lines: list[str]) -> None:
    """An error at the first line of an atom or of the cell that is not as the format has it; gemmi reads on in silence."""
    atoms = 0
    if next((line for line in lines if line.strip()), "").startswith("data_"):
        raise Place(path, 1).wrong("this is mmCIF, not PDB", "Read it with read_mmcif.")
    for k, line in enumerate(lines):
        place, record = Place(path, k + 1), line[:6].rstrip()
        if record in ("ATOM", "HETATM"):
            atoms += 1
            if len(line.rstrip()) < 54:
                raise place.wrong(
                    f"the {record} record ends at column {len(line.rstrip())}",
                    "Expected x, y and z in columns 31 to 54, eight columns each.",
                )
            for axis, first, end in COORDINATES:
                what = f"the coordinate {axis}, which is in columns {first + 1} to {end}"
                number(place, line[first:end], what, "  12.345")
        elif record == "CRYST1":
            for name, first, end in CELL:
                what = f"{name} of the cell, in columns {first + 1} to {end}"
                number(place, line[first:end], what, "25.000")
    if not atoms:
        raise StoreError(
            f"`{path}` has no ATOM or HETATM record", fix="Is it mmCIF? Read it with read_mmcif."
        )


def from_structure(path: str, structure: Any, model: int, bonds: dict[int, set[int]]) -> Atoms:
    """The atoms of one model of gemmi's structure; bonds by serial number."""
    count = len(structure)
    if isinstance(model, bool) or not isinstance(model, int) or not 1 <= model <= count:
        raise InputError(
            f"model={model!r} of `{path}`, which has {count}", fix=f"Models are counted from 1 to {count}."
        )
    before = sum(1 for _ in structure[model - 1].all())
    structure.remove_alternative_conformations()
    found = list(structure[model - 1].all())
    if not found:
        raise StoreError(f"`{path}` has no atoms in model {model}", fix="Pass another model=.")
    species = tuple(element(path, a) for a in found)
    index = {a.atom.serial: k for k, a in enumerate(found)}
    pairs = sorted({(min(i, j), max(i, j)) for s, others in bonds.items() if s in index
                    for o in others if o in index for i, j in [(index[s], index[o])] if i != j})  # fmt: skip
    return Atoms(
        ANGSTROM * np.array([a.atom.pos.tolist() for a in found]),
        np.array([WEIGHTS[s] for s in species]),
        species,
        charge=np.array([float(a.atom.charge) for a in found]),
        types=types_of(species),
        names=tuple(a.atom.name for a in found),
        residues=tuple(f"{a.residue.name} {a.residue.seqid} {a.chain.name}".strip() for a in found),
        box=box_of(structure.cell),
        bonds=np.array(pairs, int).reshape(-1, 2),
        info={"title": structure.name or "", "models": count, "alternatives left out": before - len(found)},
    )


def element(path: str, a: Any) -> str:
    """The symbol of an atom's element, or an error that names the atom."""
    symbol = str(a.atom.element.name).capitalize()
    if symbol not in WEIGHTS:
        raise StoreError(
            f"{path}: the atom {a.atom.name} {a.atom.serial} of {a.residue.name} {a.residue.seqid} has no element",
            fix="Write its symbol in columns 77 and 78 of its line (PDB), or in _atom_site.type_symbol (mmCIF).",
        )
    return symbol


def box_of(unit_cell: Any) -> Any:
    """The edges in nm; None where the file has no cell, or the one of 1 Å that stands for none."""
    lengths = (unit_cell.a, unit_cell.b, unit_cell.c)
    if max(lengths) <= 1.0 or not unit_cell.is_crystal():
        return None
    a, b, c = (ANGSTROM * x for x in lengths)
    return cell(edges_from(a, b, c, unit_cell.alpha, unit_cell.beta, unit_cell.gamma))
