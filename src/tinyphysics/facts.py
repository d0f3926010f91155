"""What has been shown about a system, with its evidence.  What is not shown does not hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tinyphysics.util import Site


@dataclass(frozen=True, eq=False)
class Fact:
    name: str
    holds: bool
    because: str
    parts: dict[str, Any] = field(default_factory=dict)
    site: Site | None = None

    @staticmethod
    def yes(name: str, because: str, site: Site | None = None, **parts: Any) -> Fact:
        return Fact(name, True, because, parts, site)

    @staticmethod
    def no(name: str, because: str, site: Site | None = None, **parts: Any) -> Fact:
        return Fact(name, False, because, parts, site)

    def __bool__(self) -> bool:
        return self.holds

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["parts"][name]
        except KeyError:
            raise AttributeError(f"the fact has no part `{name}`") from None


@dataclass(frozen=True, eq=False)
class Facts:
    facts: tuple[Fact, ...]
    unasked: str = ""  # why what was not asked does not hold; empty where to look for it is a mistake

    def __getitem__(self, name: str) -> Fact:
        found = next((f for f in self.facts if f.name == name), None)
        if found is None and not self.unasked:
            raise KeyError(f"nothing was asked about `{name}`")
        return Fact.no(name, self.unasked) if found is None else found

    def plus(self, *more: Fact) -> Facts:
        return replace(self, facts=(*self.facts, *more))

    def __iter__(self) -> Iterator[Fact]:
        return iter(self.facts)

    def __contains__(self, name: str) -> bool:
        return any(f.name == name for f in self.facts)
