"""What does math="fast" promise?  Errors that are stated, and bits of one machine and backend."""

from __future__ import annotations

from tinyphysics.report import Row
from tinyphysics.rules.functions.fast import BOUNDS

NOT_OF_BITS = Row(
    "arithmetic",
    "fast",
    "what is shown above is of exact arithmetic; this run departs from it by more "
    "roundings than an exact one, and not in the same way on every machine",
)


def fast_rows(precision: str) -> list[Row]:
    """The errors, and what they cost."""
    which = 0 if precision == "float64" else 1
    told = ", ".join(f"{name} {bounds[which]:g}" for name, bounds in BOUNDS.items())
    return [
        Row("math", "fast", f"largest errors in units in the last place: {told}; others as in exact runs"),
        Row(
            "its price",
            "bits",
            "a run repeats to the last bit on one machine and backend alone; out.hash says so",
        ),
    ]
