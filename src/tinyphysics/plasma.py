"""Charges in magnetic fields: systems, fields of dipoles, bottles and traps, and the magnetic moment."""

from tinyphysics.physics.plasma import System as System
from tinyphysics.physics.plasma import dipole as dipole
from tinyphysics.physics.plasma import magnetic_moment as magnetic_moment
from tinyphysics.physics.plasma import mirror as mirror
from tinyphysics.physics.plasma import paul as paul
from tinyphysics.physics.plasma import penning as penning
from tinyphysics.physics.plasma import uniform as uniform

__all__ = ["System", "dipole", "magnetic_moment", "mirror", "paul", "penning", "uniform"]
