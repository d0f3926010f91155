"""Does the system depend on time explicitly, and in which part?  Then energy is not conserved."""

from __future__ import annotations

from tinyphysics.facts import Fact
from tinyphysics.ir import UOp
from tinyphysics.system import System


def explicit_time(system: System, parts: dict[str, UOp]) -> Fact:
    """`parts` are the pieces of the system by name: T and V, or the whole."""
    if system.time is None:
        return Fact.no("explicit time", "there is no argument t")
    inside = [name for name, u in parts.items() if system.time in u.leaves]
    if not inside:
        return Fact.no("explicit time", "t is an argument, and nothing depends on it")
    return Fact.yes(
        "explicit time",
        f"{' and '.join(inside)} depends on t" if len(inside) == 1 else f"{' and '.join(inside)} depend on t",
        inside=inside,
    )
