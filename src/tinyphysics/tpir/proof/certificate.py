"""What was shown of a program: for each structure a verdict, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

from tinyphysics.errors import InputError
from tinyphysics.structure import FIVE


@dataclass(frozen=True)
class Verdict:
    holds: bool
    because: str

    def __bool__(self) -> bool:
        return self.holds


class Certificate(Mapping[str, Verdict]):
    """Verdicts by name, in order. Canonical programs have five; a reader of another structure may give others.

    >>> c = Certificate({"volume-preserving": Verdict(True, "a shear")})
    >>> c["volume-preserving"] is c.volume_preserving, c.level
    (True, 'volume-preserving')
    """

    def __init__(self, verdicts: Mapping[str, Verdict]) -> None:
        self._verdicts = dict(verdicts)

    def __getitem__(self, name: str) -> Verdict:
        return self._verdicts[name.replace("_", "-")]

    def __call__(self, *args: object, **given: object) -> NoReturn:
        raise InputError(
            "a certificate is no function", fix="Write print(sim.certificate), or sim.certificate.symplectic."
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._verdicts)

    def __len__(self) -> int:
        return len(self._verdicts)

    def __getattr__(self, name: str) -> Verdict:
        """c.volume_preserving is c["volume-preserving"]."""
        if name.startswith("_") or name.replace("_", "-") not in self._verdicts:
            raise AttributeError(f"a certificate has no verdict `{name}`", name=name, obj=self)
        return self[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name.replace("-", "_") for name in self)]

    def __or__(self, others: Mapping[str, Verdict]) -> Certificate:
        return Certificate({**self, **others})

    def __hash__(self) -> int:
        return hash(tuple(self.items()))

    def __repr__(self) -> str:
        verdicts = ", ".join(f"{name}={v!r}".replace("-", "_", name.count("-")) for name, v in self.items())
        return f"Certificate({verdicts})"

    @property
    def level(self) -> str:
        """The strongest structure that was shown."""
        return next((name for name, v in self.items() if v and name != "consistent"), "none")


def five(
    symplectic: Verdict, volume: Verdict, symmetric: Verdict, reversible: Verdict, consistent: Verdict
) -> dict[str, Verdict]:
    """What is asked of every program of canonical pairs."""
    return dict(zip(FIVE, (symplectic, volume, symmetric, reversible, consistent)))
