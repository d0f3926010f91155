"""Is what a user gave a state of whole numbers?  Nothing is converted: the error names the number and the line."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import DeviceArray
from tinyphysics.device.numbers import NUMPY_DTYPE
from tinyphysics.errors import InputError
from tinyphysics.ir.dtype import DType, bool_
from tinyphysics.system import Parameter

EXACT = 2**53  # parameters are kept as float64, which holds all whole numbers up to here
WIDER = {"int8": "tp.Int16", "int16": "tp.Int32", "int32": "tp.Int64"}


def whole_array(name: str, value: Any, plain: Any, dtype: DType) -> Any:
    """The array in the type of its state; `plain` is what NumPy makes of the value."""
    own = np.dtype(NUMPY_DTYPE[dtype.name])
    array = name if hasattr(value, "astype") else f"np.asarray({name})"
    cast = f'{array}.astype("{dtype.numpy}")'
    if isinstance(value, DeviceArray):
        raise InputError(
            f"`{name}` is {dtype.numpy} and was given as an array on a GPU",
            fix=f"Pass a NumPy array: {name}={name}.get(), or np.asarray({name}.cpu()).",
        )
    if plain.dtype == own:
        return plain
    if dtype is bool_ or plain.dtype.kind == "b":
        truth = f"{name}={array} != 0" if plain.ndim else f"{name}={name} != 0"
        line = truth if dtype is bool_ else f"{name}={cast}"
        given = "truth values" if plain.dtype.kind == "b" else f"numbers ({plain.dtype})"
        raise InputError(f"`{name}` is {dtype.numpy} and was given {given}", fix=f"Pass {line}.")
    if plain.dtype.kind == "f":
        wrong = odd_place(plain, ~np.isfinite(plain) | (plain != np.rint(plain)) | beyond(plain, dtype))
        line = f"{name}={cast}" if plain.ndim or array == name else f"{name}=int({name})"
        if wrong and np.isfinite(wrong[1]) and not beyond(wrong[1], dtype):
            line = f'{name}=np.rint({name}).astype("{dtype.numpy}")'
        told, first = (
            (f": {name}{wrong[0]} is {wrong[1]:g}", "Check that number, then p") if wrong else ("", "P")
        )
        raise InputError(f"`{name}` is {dtype.numpy} and was given floats{told}", fix=f"{first}ass {line}.")
    if wrong := odd_place(plain, beyond(plain, dtype)):
        low, high = dtype.limits
        wider = f"Annotate it {WIDER[dtype.numpy]}, or p" if dtype.numpy in WIDER else "P"
        raise InputError(
            f"{name}{wrong[0]} is {wrong[1]}, and {dtype.numpy} goes from {low} to {high}",
            fix=f"{wider}ass {name}={cast}, which wraps.",
        )
    return plain.astype(own)


def beyond(a: Any, dtype: DType) -> Any:
    low, high = dtype.limits
    return (a < low) | (a > high)


def odd_place(a: Any, wrong: Any) -> tuple[str, Any] | None:
    """(where, what) of the first number that is wrong."""
    found = np.argwhere(wrong)
    if not len(found):
        return None
    place = tuple(int(k) for k in found[0])
    return (f"[{', '.join(map(str, place))}]" if place else ""), a[place]


def check_whole(p: Parameter, a: Any) -> None:
    """An InputError that names the first number that a parameter of whole numbers cannot be."""
    if p.dtype.is_float:
        return
    low, high = p.dtype.limits
    low, high = max(low, -EXACT), min(high, EXACT)
    if wrong := odd_place(a, (a != np.rint(a)) | (a < low) | (a > high)):
        kind = "true or false" if p.dtype is bool_ else f"a whole number from {low} to {high}"
        raise InputError(
            f"the parameter `{p.name}` is {wrong[1]:g}, and must be {kind}",
            fix=f"Pass {p.name}={True if p.dtype is bool_ else 1}.",
        )
