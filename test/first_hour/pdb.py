"""Read a molecule from a PDB file and look at its atoms."""

from pathlib import Path

import tinyphysics as tp

Path("water.pdb").write_text(
    "HETATM    1  O   HOH A   1       0.000   0.000   0.000  1.00  0.00           O  \n"
    "HETATM    2  H1  HOH A   1       0.957   0.000   0.000  1.00  0.00           H  \n"
    "HETATM    3  H2  HOH A   1      -0.240   0.927   0.000  1.00  0.00           H  \n"
    "END\n"
)
atoms = tp.physics.io.read_pdb("water.pdb")
print("atoms:", len(atoms.q))

# prints: atoms: 3
