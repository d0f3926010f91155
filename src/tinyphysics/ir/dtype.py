"""The nine number types of the IR and what rounding to each of them means."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)  # one object for each type: compared and hashed by identity
class DType:
    name: str
    kind: str  # f, i, u, b
    bits: int

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        return named, (self.name,)  # also after pickling

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        return self.kind in "iu"

    @property
    def numpy(self) -> str:
        """Its name in NumPy, which users know."""
        if self.kind == "b":
            return "bool"
        return {"f": "float", "i": "int", "u": "uint"}[self.kind] + str(self.bits)

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest whole number."""
        if self.kind == "i":
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1


f64 = DType("f64", "f", 64)
f32 = DType("f32", "f", 32)
i64 = DType("i64", "i", 64)
i32 = DType("i32", "i", 32)
i16 = DType("i16", "i", 16)
i8 = DType("i8", "i", 8)
u64 = DType("u64", "u", 64)
u32 = DType("u32", "u", 32)
bool_ = DType("bool", "b", 1)

DTYPES: dict[str, DType] = {d.name: d for d in (f64, f32, i64, i32, i16, i8, u64, u32, bool_)}
PRIORITY = (bool_, i8, i16, i32, u32, i64, u64, f32, f64)  # the later one wins in a mixed expression


def named(name: str) -> DType:
    return DTYPES[name]


Number = float | int | bool


def promote(a: DType, b: DType) -> DType:
    return a if a is b else max(a, b, key=PRIORITY.index)


def round_f32(x: float) -> float:
    """The float32 nearest to x, as a Python float."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", x))[0])
    except OverflowError:  # rounds past the largest float32
        return float("inf") if x > 0 else float("-inf")


def wrap(x: int, dtype: DType) -> int:
    """x modulo 2**bits, in the range of dtype: what integer registers do."""
    x &= (1 << dtype.bits) - 1
    if dtype.kind == "i" and x >> (dtype.bits - 1):
        x -= 1 << dtype.bits
    return x


def round_to_odd(n: int) -> float:
    """n as a float64 with its last bit set where digits are lost: rounded again, it is rounded once."""
    lost = max(n.bit_length() - 53, 0)
    return math.ldexp((n >> lost) | bool(n & ((1 << lost) - 1)), lost)


def as_number(x: Number, dtype: DType) -> Number:
    """The value of dtype that x stands for; all NaNs are one."""
    if dtype is bool_:
        return bool(x)
    if dtype.is_int:
        return wrap(int(x), dtype) if isinstance(x, int) or math.isfinite(x) else 0
    if x != x:
        return math.nan
    if dtype is f32:
        return round_f32(round_to_odd(x) if isinstance(x, int) else float(x))
    return float(x)


FORMATS = {
    "f64": "<d",
    "f32": "<f",
    "i64": "<q",
    "i32": "<i",
    "i16": "<h",
    "i8": "<b",
    "u64": "<Q",
    "u32": "<I",
}


def bitcast(x: Number, source: DType, target: DType) -> Number:
    """The value of target whose bits are those of x."""
    value: Number = struct.unpack(FORMATS[target.name], struct.pack(FORMATS[source.name], x))[0]
    return value
