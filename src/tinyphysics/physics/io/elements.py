"""What does an atom weigh?  Standard atomic weights by element, and the element of an atom by its name in a file."""

from __future__ import annotations

# IUPAC 2021, abridged to five digits, in u; of elements without stable isotopes the mass number of the longest-lived one
# fmt: off
WEIGHTS = {
    "H": 1.008, "D": 2.0141, "He": 4.0026, "Li": 6.94, "Be": 9.0122, "B": 10.81, "C": 12.011, "N": 14.007, "O": 15.999,
    "F": 18.998, "Ne": 20.180, "Na": 22.990, "Mg": 24.305, "Al": 26.982, "Si": 28.085, "P": 30.974, "S": 32.06,
    "Cl": 35.45, "Ar": 39.95, "K": 39.098, "Ca": 40.078, "Sc": 44.956, "Ti": 47.867, "V": 50.942, "Cr": 51.996,
    "Mn": 54.938, "Fe": 55.845, "Co": 58.933, "Ni": 58.693, "Cu": 63.546, "Zn": 65.38, "Ga": 69.723, "Ge": 72.630,
    "As": 74.922, "Se": 78.971, "Br": 79.904, "Kr": 83.798, "Rb": 85.468, "Sr": 87.62, "Y": 88.906, "Zr": 91.224,
    "Nb": 92.906, "Mo": 95.95, "Tc": 98.0, "Ru": 101.07, "Rh": 102.91, "Pd": 106.42, "Ag": 107.87, "Cd": 112.41,
    "In": 114.82, "Sn": 118.71, "Sb": 121.76, "Te": 127.60, "I": 126.90, "Xe": 131.29, "Cs": 132.91, "Ba": 137.33,
    "La": 138.91, "Ce": 140.12, "Pr": 140.91, "Nd": 144.24, "Pm": 145.0, "Sm": 150.36, "Eu": 151.96, "Gd": 157.25,
    "Tb": 158.93, "Dy": 162.50, "Ho": 164.93, "Er": 167.26, "Tm": 168.93, "Yb": 173.05, "Lu": 174.97, "Hf": 178.49,
    "Ta": 180.95, "W": 183.84, "Re": 186.21, "Os": 190.23, "Ir": 192.22, "Pt": 195.08, "Au": 196.97, "Hg": 200.59,
    "Tl": 204.38, "Pb": 207.2, "Bi": 208.98, "Po": 209.0, "At": 210.0, "Rn": 222.0, "Fr": 223.0, "Ra": 226.0,
    "Ac": 227.0, "Th": 232.04, "Pa": 231.04, "U": 238.03, "Np": 237.0, "Pu": 244.0, "Am": 243.0, "Cm": 247.0,
}
# fmt: on
# Residues of one atom: an ion, whose name is the element. Elsewhere CA is the alpha carbon, not calcium.
# fmt: off
NAMES_OF_IONS = {
    "Na": "NA NA+ SOD", "Cl": "CL CL- CLA", "K": "K K+ POT", "Li": "LI LI+", "Rb": "RB", "Cs": "CS CES",
    "F": "F", "Br": "BR", "I": "I", "Mg": "MG MG2+", "Ca": "CA CAL CA2+", "Zn": "ZN ZN2+", "Fe": "FE",
    "Cu": "CU", "Mn": "MN", "Ar": "AR", "Kr": "KR", "Xe": "XE", "Ne": "NE", "He": "HE",
}
# fmt: on
IONS = {name: element for element, names in NAMES_OF_IONS.items() for name in names.split()}
ORGANIC = ("H", "C", "N", "O", "S", "P", "F", "I", "K", "B")  # what a name may begin with


def element_of(name: str, residue: str = "") -> str | None:
    """The element of an atom by its name, as files without a column for it have it; None where it does not say.

    >>> element_of("CA", "ALA"), element_of("CA", "CA"), element_of("1HB", "ALA"), element_of("OW", "SOL")
    ('C', 'Ca', 'H', 'O')
    """
    bare = name.strip().upper()
    if residue.strip().upper() in IONS and IONS.get(bare) == IONS[residue.strip().upper()]:
        return IONS[bare]
    letters = bare.lstrip("0123456789'\"*+-")
    if letters[:2] in ("CL", "BR") and residue.strip().upper() not in ("ALA", "GLY"):
        return letters[:2].capitalize()
    return letters[0] if letters[:1] in ORGANIC else None
