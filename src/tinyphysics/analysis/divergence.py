"""May a system run in its magnetic field?  One that is seen to have sources has no bracket, and is refused."""

from __future__ import annotations

from tinyphysics.charged import Magnetic
from tinyphysics.errors import VerifyError
from tinyphysics.rules.formulas.divergence import divergence_free
from tinyphysics.system import System


def check_field(system: System) -> None:
    """A VerifyError for a field with sources; one that is merely not shown to have none runs uncertified."""
    structure = system.structure
    if not isinstance(structure, Magnetic):
        return
    found = divergence_free(structure)
    if not found and found.parts["seen"]:
        raise VerifyError(
            f"the magnetic field of `{system.name}` has sources: div B = {found.parts['residual']}, times the charge",
            site=system.site,
            fix="Write a field without them, such as the curl of a vector potential: B = curl A.",
        )
