"""What was thrown away or approximated, how much of it, and what would bring it back?"""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.report import Row


@dataclass(frozen=True)
class LossRow(Row):
    """A loss in a report; `to_dict()` has its fields by their names."""

    amount: float | None = None
    unit: str = ""
    since: float | None = None
    restores: str = ""


@dataclass(frozen=True)
class Loss:
    """Something that a run throws away or approximates: an entry of `out.losses`, and of `sim.explain()` before a run.

    `what` is lost; `amount` says how much in the words of `unit`, and is None where it is not known. The loss holds from the
    time `since` on, which is None before a run. `restores` is what to write so that nothing is lost. `because` says how the
    amount was measured or proved, or why it is not known.

    >>> print(Loss("digits of the states", 2.0**-24, "relative error of a rounding", 0.0, 'precision="float64"'))
    digits of the states: 6e-08 (relative error of a rounding). To restore: precision="float64".
    """

    what: str
    amount: float | None
    unit: str
    since: float | None
    restores: str
    because: str = ""

    def __str__(self) -> str:
        size = f"{self.amount:.2g} ({self.unit})" if self.amount is not None else f"not known: {self.because}"
        return f"{self.what}: {size}. To restore: {self.restores}."

    @property
    def row(self) -> LossRow:
        """The loss in the full form of a report."""
        size = "not known" if self.amount is None else f"{self.amount:.2g}"
        words = [self.unit, self.because, f"to restore: {self.restores}"]
        told = "; ".join(x for x in words if x)
        return LossRow(self.what, size, told, "", self.amount, self.unit, self.since, self.restores)
