"""How is an mmCIF file read?  By gemmi; the atoms are the rows of _atom_site, and ångström become nm."""

from __future__ import annotations

from typing import Any

from tinyphysics.errors import StoreError
from tinyphysics.physics.io.atoms import Atoms
from tinyphysics.physics.io.pdb import from_structure, library
from tinyphysics.physics.io.reading import lines_of, number
from tinyphysics.physics.io.xyz import Place

WANTED = ("Cartn_x", "Cartn_y", "Cartn_z", "type_symbol")


def read_mmcif(path: Any, model: int = 1) -> Atoms:
    """Reads the atoms of an mmCIF file in nm, u and e; `model` is the number of one of several models, from 1.

    Alternative conformations and charges are treated as `read_pdb` does. The format has no list of all bonds.
    """
    lines = lines_of(path, "an mmCIF file")
    gemmi = library()
    try:
        document = gemmi.cif.read_string("\n".join(lines) + "\n")
    except (RuntimeError, ValueError) as error:
        where, _, why = str(error).removeprefix("string:").partition(": ")
        line = where.partition(":")[0]
        place = Place(str(path), int(line) if line.isdigit() else 1)
        raise place.wrong(
            f"this is not CIF: {why}", "Expected data_NAME, then tags and values or loop_."
        ) from error
    block = next((b for b in document if b.find_loop("_atom_site.Cartn_x")), None)
    if block is None:
        raise StoreError(
            f"`{path}` has no loop of atoms",
            fix="Expected loop_ with _atom_site.Cartn_x, as in files from the PDB.",
        )
    checked(str(path), block, lines)
    try:
        structure = gemmi.make_structure_from_block(block)
    except (RuntimeError, ValueError) as error:
        raise StoreError(
            f"`{path}` has an atom that is not as mmCIF has it: {error}",
            fix="Expected in every row of _atom_site the values that its tags name.",
        ) from error
    return from_structure(str(path), structure, model, {})


def checked(path: str, block: Any, lines: list[str]) -> None:
    """An error at the first row whose coordinates are no numbers, or if a column is missing."""
    table = block.find("_atom_site.", list(WANTED))
    first = next((k for k, line in enumerate(lines) if line.strip().startswith("_atom_site.")), 0)
    if not len(table):
        tags = [line.strip() for line in lines if line.strip().startswith("_atom_site.")]
        missing = [w for w in WANTED if f"_atom_site.{w}" not in tags]
        raise Place(path, first + 1).wrong(
            f"the loop of atoms has no {', '.join(missing)}",
            "Expected Cartn_x, Cartn_y, Cartn_z and type_symbol.",
        )
    rows = first
    while rows < len(lines) and lines[rows].strip().startswith("_atom_site."):
        rows += 1
    for k, row in enumerate(table):
        for axis in range(3):
            number(Place(path, rows + k + 1), row[axis], f"{WANTED[axis]} of an atom", "12.345")
