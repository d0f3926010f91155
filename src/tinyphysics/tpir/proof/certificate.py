"""What was shown of a program: for each structure a verdict, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    holds: bool
    because: str

    def __bool__(self) -> bool:
        return self.holds


@dataclass(frozen=True)
class Certificate:
    symplectic: Verdict
    volume_preserving: Verdict
    symmetric: Verdict
    reversible: Verdict
    consistent: Verdict

    def items(self) -> list[tuple[str, Verdict]]:
        return [(name.replace("_", "-"), v) for name, v in vars(self).items()]

    def __getitem__(self, name: str) -> Verdict:
        verdict: Verdict = getattr(self, name.replace("-", "_"))
        return verdict

    @property
    def level(self) -> str:
        """The strongest structure that was shown."""
        return next((name for name, v in self.items() if v and name != "consistent"), "none")
