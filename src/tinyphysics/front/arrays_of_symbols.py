"""np.array([x, y]) of symbols, while a function is traced: the same as np.stack([x, y]).

NumPy hands its other functions over to symbols, but not `array` and `asarray`. So while a function is traced these two
names of the numpy module are functions that look for symbols first. Calls without symbols, and those of other threads,
go to NumPy as they are. `from numpy import array` has the original, whose error says what to write.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import RLock
from typing import Any

from tinyphysics.front.functions import stack
from tinyphysics.ir import UOp, as_uop
from tinyphysics.ir.uop import RECORD

NAMES = ("array", "asarray")
LOCK = RLock()
OPEN: dict[str, Any] = {"traces": 0, "own": {}}  # how many are under way, and NumPy's own functions


def symbols_in(value: Any) -> bool:
    if isinstance(value, UOp):
        return True
    return isinstance(value, (list, tuple)) and any(map(symbols_in, value))


def stacked(value: Any) -> UOp:
    """A nested list as one array; rows that are arrays stay whole."""
    if isinstance(value, (list, tuple)) and symbols_in(value):
        rows: UOp = stack([stacked(item) for item in value])
        return rows
    return as_uop(value)


def is_float(dtype: Any) -> bool:
    return dtype is None or dtype is float or str(getattr(dtype, "__name__", dtype)) == "float64"


def looking(own: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(own)
    def array(value: Any, dtype: Any = None, *rest: Any, **options: Any) -> Any:
        if RECORD.get() is not None and is_float(dtype) and symbols_in(value):
            return stacked(value)
        return own(value, dtype, *rest, **options)

    return array


@contextmanager
def arrays_of_symbols() -> Iterator[None]:
    numpy = sys.modules.get("numpy")  # who has not imported it does not call it
    if numpy is None:
        yield
        return
    with LOCK:
        if not OPEN["traces"]:
            OPEN["own"] = {name: getattr(numpy, name) for name in NAMES}
            for name, own in OPEN["own"].items():
                setattr(numpy, name, looking(own))
        OPEN["traces"] += 1
    try:
        yield
    finally:
        with LOCK:
            OPEN["traces"] -= 1
            if not OPEN["traces"]:
                for name, own in OPEN["own"].items():
                    setattr(numpy, name, own)
