"""Files that others read and write: extended XYZ, and GSD (which needs the package gsd: tinyphysics[io])."""

from tinyphysics.physics.io.frames import Frames as Frames
from tinyphysics.physics.io.hoomd import read_gsd as read_gsd
from tinyphysics.physics.io.hoomd import write_gsd as write_gsd
from tinyphysics.physics.io.xyz import read_xyz as read_xyz
from tinyphysics.physics.io.xyz import write_xyz as write_xyz
