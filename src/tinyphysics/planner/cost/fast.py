"""What does math="fast" promise?  Errors that are stated, and bits of one machine and backend."""

from __future__ import annotations

from tinyphysics.report import Row
from tinyphysics.rules.functions.fast import BOUNDS
from tinyphysics.tpir.kernels.kinds.call import LEAST
from tinyphysics.tpir.kernels.library import handed_over
from tinyphysics.tpir.program.isa import Program
from tinyphysics.util import plural

NOT_OF_BITS = Row(
    "arithmetic",
    "fast",
    "what is shown above is of exact arithmetic; this run departs from it by more "
    "roundings than an exact one, and not in the same way on every machine",
)


def library_rows(program: Program, backend: str) -> list[Row]:
    """Products of matrices that a library does, or that it would do on another backend."""
    if products := handed_over(program, backend):
        why = f"{plural(len(products), 'large product')} of matrices: an order of sums of its own, and bits of one machine"
        return [Row("library call", "NumPy's BLAS", why)]
    if backend not in LEAST and handed_over(program, "c"):
        return [
            Row(
                "library call",
                "none",
                f"`{backend}` multiplies matrices itself; `c` and `numpy` call NumPy's BLAS",
            )
        ]
    return []


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
