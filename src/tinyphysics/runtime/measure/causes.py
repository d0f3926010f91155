"""What can be wrong with a run?  Twelve causes, each with what it is; what is found before or after a run is one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LONG = "dt above the limit"
OVERLAP = "overlap at the start"
POLE = "pole"
CURL = "curl in @tp.forces"
DERIVATIVE = "wrong derivative in a tp.op"
MASSLESS = "mass zero"
CUTOFF = "jump at a cutoff"
IMAGE = "image jump in a box"
KINK = "kink"
ROOT = "root of a negative"
OVERFLOW = "overflow"
UNSOLVED = "equations not solved"

CAUSES = {
    LONG: "dt times the fastest frequency is above the stability limit of the method",
    OVERLAP: "two particles begin at one place, or much nearer to each other than all others",
    POLE: "a division by zero where the state is, or on the way of a drift",
    CURL: "the forces are the gradient of no energy: work along a closed way is not zero",
    DERIVATIVE: "the derivative that was given for an operation is not that of its definition",
    MASSLESS: "a parameter that is divided by is zero",
    CUTOFF: "the energy jumps where a condition changes, and a jump exerts no force",
    IMAGE: "the energy or the force jumps where another periodic image becomes the nearest",
    KINK: "the force jumps where a condition, |x|, a minimum or a maximum changes",
    ROOT: "the argument of a root, a logarithm or a power is negative",
    OVERFLOW: "numbers grow beyond all floats of the precision",
    UNSOLVED: "the iteration for the unknowns of an implicit step did not converge",
}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, with its evidence and what to write instead."""

    cause: str  # a key of CAUSES
    because: str
    fix: str
    term: str = ""  # of the energy or the force, with the line where it was written
    where: Any = None  # (i, j) of two particles, or (state, index) of a number

    def __str__(self) -> str:
        lines = [f"{self.cause}: {self.because}"]
        if self.term:
            lines.append(f"  term: {self.term}")
        if self.where is not None and isinstance(self.where[0], int):
            lines.append(f"  between particles {self.where[0]} and {self.where[1]}")
        return "\n".join([*lines, f"  {self.fix}"])
