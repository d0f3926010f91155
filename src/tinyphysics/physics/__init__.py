"""Physics in the user's own language: only what tinyphysics.front offers, NumPy, and random bits."""

from importlib import import_module
from typing import Any

FILES = (
    "additions bonding cells chains correlations cosmology fields fluids io molecular observables orbits particles plasma "
    "rigid starts zoo"
).split()
# what is passed to observe= has its place here too: tp.physics.temperature(kB=1.0); correlations are of frames, after a run
BY_FILE = {
    "observables": "kinetic_energy potential_energy energy_terms temperature virial pressure velocity momentum "
    "angular_momentum centre_of_mass structure_factor",
    "orbits": "orbital_elements",
    "correlations": "msd vacf radial_distribution",
}
OBSERVABLES = {name: file for file, names in BY_FILE.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """`tp.physics.chains` imports the file, and NumPy, when it is first used."""
    if name in OBSERVABLES:
        return getattr(import_module(f"{__name__}.{OBSERVABLES[name]}"), name)
    if name not in FILES:
        raise AttributeError(f"tinyphysics.physics has no `{name}`")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *FILES, *OBSERVABLES})
