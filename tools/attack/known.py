"""Which findings belong to an item that is still open?  The table is empty when there are none."""

from __future__ import annotations

from collections.abc import Callable

from attack.case import Case
from attack.findings import Finding

SMOOTHNESS = ("fact smooth", "consistent without a jump", "order", "consistent")


def rough(case: Case) -> bool:
    return bool({"kink", "jump", "wild", "operation"} & set(case.groups))


# (the item, does a finding belong to it?)
KNOWN: tuple[tuple[str, Callable[[Finding, Case], bool]], ...] = (
    ("item 0c: maps as written", lambda f, c: f.check == "map as written"),
    (
        "item 1: energies that are not finite",
        lambda f, c: (
            f.check == "drift of energies that are not finite"
            or f.check == "goal energy_drift"
            and "not finite" in f.found
        ),
    ),
    (
        "item 2: doubled phase space, reversible",
        lambda f, c: f.check == "reversible" and "extended_phase_space" in str(c.options.get("method")),
    ),
    ("item 3: user operations", lambda f, c: "wrong operation" in c.groups),
    ("item 3: jumps in forces", lambda f, c: f.check == "no work on loops" and "jump" in c.groups),
    ("item 4: smoothness", lambda f, c: f.check in SMOOTHNESS and rough(c)),
    ("item 5: goals beside jumps", lambda f, c: f.check.startswith("goal") and "jump" in c.groups),
)


def label(f: Finding, case: Case) -> str:
    return next((name for name, belongs in KNOWN if belongs(f, case)), "")
