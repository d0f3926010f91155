"""All that is pinned, in one list."""

from __future__ import annotations

from functools import lru_cache

from pins import continued, defaults, imports, kept, kernels, kinds, messages, methods, precisions
from pins.runs import Case
from pins.unit import Unit


@lru_cache(maxsize=1)
def cases() -> tuple[Case, ...]:
    """The runs."""
    return tuple(c for module in (methods, precisions, kinds, continued) for c in module.cases())


@lru_cache(maxsize=1)
def units() -> dict[str, Unit]:
    """By group/name."""
    every = [c.unit for c in cases()]
    for module in (kernels, messages, defaults, imports, kept):
        every += module.units()
    found = {u.key: u for u in every}
    assert len(found) == len(every), "two things have one name"
    return found


def chosen(tier: str, patterns: tuple[str, ...] = ()) -> list[Unit]:
    """Those of a tier whose group/name has one of the patterns in it."""
    return [
        u for u in units().values() if u.is_in(tier) and (not patterns or any(p in u.key for p in patterns))
    ]
