"""Which findings belong to an item that is still open?  The table is empty when there are none."""

from __future__ import annotations

from collections.abc import Callable

from attack.case import Case
from attack.findings import Finding

# (the item, does a finding belong to it?)
KNOWN: tuple[tuple[str, Callable[[Finding, Case], bool]], ...] = ()


def label(f: Finding, case: Case) -> str:
    return next((name for name, belongs in KNOWN if belongs(f, case)), "")
