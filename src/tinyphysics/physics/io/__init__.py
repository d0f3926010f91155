"""Files that others read and write: atoms, bodies, tables of initial states, and frames of a run.

XYZ, GROMACS, LAMMPS, Horizons and CSV need no other package; GSD needs gsd (tinyphysics[io]), PDB and mmCIF need gemmi
(tinyphysics[molecules]), Parquet needs pyarrow (tinyphysics[tables]), and asking Horizons astroquery (tinyphysics[planets]).
"""

from tinyphysics.physics.io.atoms import Atoms as Atoms
from tinyphysics.physics.io.comma_separated import read_csv as read_csv
from tinyphysics.physics.io.frames import Frames as Frames
from tinyphysics.physics.io.gromacs import read_gro as read_gro
from tinyphysics.physics.io.hoomd import read_gsd as read_gsd
from tinyphysics.physics.io.hoomd import write_gsd as write_gsd
from tinyphysics.physics.io.horizons import Bodies as Bodies
from tinyphysics.physics.io.horizons import query_horizons as query_horizons
from tinyphysics.physics.io.horizons import read_horizons as read_horizons
from tinyphysics.physics.io.lammps import read_lammps as read_lammps
from tinyphysics.physics.io.mmcif import read_mmcif as read_mmcif
from tinyphysics.physics.io.parquet import read_parquet as read_parquet
from tinyphysics.physics.io.pdb import read_pdb as read_pdb
from tinyphysics.physics.io.xyz import read_xyz as read_xyz
from tinyphysics.physics.io.xyz import write_xyz as write_xyz
