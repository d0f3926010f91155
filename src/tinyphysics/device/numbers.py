"""Which NumPy type does a number of a program have, and which numbers are lost?"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.tpir.precision.lattice import OVERFLOW

NUMPY_DTYPE = {
    "f64": np.float64,
    "f32": np.float32,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "u64": np.uint64,
    "u32": np.uint32,
    "bool": np.bool_,
}
LOST = int(OVERFLOW)  # a whole number that left the range of its state


def finite(a: Any) -> Any:
    """Which numbers are numbers: floats that are finite, whole numbers that have not left the range of their state."""
    return np.isfinite(a) if a.dtype.kind == "f" else a != LOST
