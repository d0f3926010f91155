"""Is what a user gave a number, a whole number, a name or a path?  Every option and state is asked here.

Python and NumPy make numbers of much that is none: `float("0.1")`, `float(True)`, `np.asarray("1.5", float)`, a
quantity without its unit, a masked array without its mask. Such a value is refused, with the line to write.
"""

from __future__ import annotations

import math
import operator
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from datetime import date, time, timedelta
from pathlib import Path
from typing import Any

from tinyphysics.errors import InputError, StoreError

PLAIN = (float, int)
# bytes: file systems give 255 to one name, and files are written beside their last name first
FROM_FRAME = "from_frame"  # the keyword by which a call is given a frame
LONGEST_NAME = 240
NO_UNITS = "Units are not converted here: pass the number in the unit of your system,"
ADDRESS = re.compile(r" at 0x[0-9a-f]+>")  # of a function: another in every process
SHOWN = 60  # characters of a value that a message repeats


def shown(value: Any) -> str:
    """A value in a message: its repr, in one line and not too long.

    >>> shown("0.1"), shown(list(range(100)))
    ("'0.1'", '[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 1...')
    """
    # its repr is another in each version
    if type(value).__module__ == "numpy" and not getattr(value, "shape", ()):
        value = value.item() if value.dtype.kind in "biuf" else str(value)
    text = ADDRESS.sub(">", " ".join(repr(value).split()))
    return text if len(text) <= SHOWN else f"{text[:SHOWN].rstrip()}..."


# --- quantities with units --------------------------------------------------------------------------
# fmt: off
QUANTITIES = (  # (attributes that such a quantity has, where its unit is, the number in another unit)
    (("magnitude", "units", "m_as"),    "units", 'm_as("{unit}")'),             # pint
    (("magnitude", "units"),            "units", 'rescale("{unit}").magnitude'),   # quantities
    (("unit", "to_value"),              "unit",  'to_value("{unit}")'),         # astropy
    (("units", "to_value"),             "units", 'to_value("{unit}")'),         # unyt
    (("unit", "value_in_unit"),         "unit",  "value_in_unit({unit})"),      # openmm
)
# fmt: on


def unit_of(value: Any) -> tuple[str, str] | None:
    """(its unit, how its number is read) of a quantity with a unit, by the attributes that libraries of units give it.

    Symbols and plain numbers have none of them.
    """
    kind = type(value)
    if kind in PLAIN or kind.__module__ == "numpy":
        return None
    for attributes, unit, line in QUANTITIES:
        if all(hasattr(value, name) for name in attributes):
            return str(getattr(value, unit)), line
    return None


def items(value: Any) -> Iterable[Any]:
    """The value, or what its lists hold."""
    if isinstance(value, (list, tuple)):
        if not set(map(type, value)) <= set(PLAIN):
            for x in value:
                yield from items(x)
    else:
        yield value


def quantity(value: Any) -> tuple[str, str] | None:
    """(what is wrong, what to write) if a value is a quantity with a unit, or a list that holds one."""
    for x in items(value):
        if (found := unit_of(x)) is not None:
            unit, line = found
            return f"a quantity in `{unit or 'dimensionless'}`", line.format(unit=unit)
    return None


# --- one number -------------------------------------------------------------------------------------
# fmt: off
NO_NUMBERS: tuple[tuple[tuple[type, ...], str], ...] = (  # what Python or NumPy would make a number of, or fail at
    ((str,),                            "text"),
    ((bytes, bytearray, memoryview),    "bytes"),
    ((bool,),                           "a truth value"),
    ((complex,),                        "complex"),
    ((date, time, timedelta),           "a date or a duration"),
    ((type(None),),                     "None"),
    ((Mapping,),                        "a dict"),
    ((list, tuple),                     "a list"),
    ((set, frozenset),                  "a set"),
)
OF_DTYPE = {"U": "text", "S": "bytes", "c": "complex", "M": "a date", "m": "a duration", "b": "a truth value",
            "V": "a record with fields"}  # of NumPy, by the kind of its dtype
# fmt: on


def no_number(value: Any) -> str:
    """What a value is that is not one real number; empty if it is one."""
    if type(value) in PLAIN:
        return ""
    for kinds, word in NO_NUMBERS:
        if isinstance(value, kinds):
            return word
    if (found := unit_of(value)) is not None:
        return f"a quantity in `{found[0] or 'dimensionless'}`"
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind in OF_DTYPE:
        return OF_DTYPE[kind]
    if getattr(value, "shape", ()):
        return f"an array of shape {tuple(value.shape)}"
    if not hasattr(value, "__float__") and not hasattr(value, "__index__"):
        return with_article(type(value).__name__)
    return ""


def with_article(name: str) -> str:
    """As in `a list` and `an object`."""
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def because(word: str) -> str:
    return "" if word == "None" else f": it is {word}"


def number(name: str, value: Any, example: str, noun: str = "number") -> float:
    """A finite number, or an InputError with the line to write; `noun` is what it stands for."""
    if word := no_number(value):
        has_unit = quantity(value)
        fix = f"Pass {example}." if has_unit is None else f"{NO_UNITS} {name}=x.{has_unit[1]}."
        raise InputError(f"{name}={shown(value)} is not a {noun}{because(word)}", fix=fix)
    try:
        x = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name}={shown(value)} is not a {noun}", fix=f"Pass {example}.") from None
    if not math.isfinite(x):
        raise InputError(f"{name}={value!r} is not a {noun}: it is not finite", fix=f"Pass {example}.")
    return x


def whole(name: str, value: Any, least: int) -> int:
    """A whole number from `least` on; 1e6 is one."""
    if type(value) is int and value >= least:
        return value
    example = f"Pass {name}={1000 if least == 0 else max(least, 2)}."
    if word := no_number(value):
        raise InputError(f"{name}={shown(value)} is not a whole number{because(word)}", fix=example)
    try:
        n = operator.index(value)
    except TypeError:
        if not (isinstance(value, float) and value.is_integer()):
            raise InputError(f"{name}={shown(value)} is not a whole number", fix=example) from None
        n = int(value)
    if n < least:
        raise InputError(f"{name}={n} is less than {least}", fix=example)
    return n


def names(option: str, value: Any, example: str) -> list[str]:
    """One name, or several."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, (list, tuple, set, frozenset)) or not all(isinstance(x, str) for x in listed):
        raise InputError(f"{option}={shown(value)} is not a list of names", fix=f"Pass {example}.")
    return list(listed)


def choice(option: str, value: Any, known: Iterable[str]) -> str:
    """One of some words."""
    listed = list(known)
    if not isinstance(value, str) or value not in listed:
        some = ", ".join(f'"{x}"' for x in listed[:-1]) + f' or "{listed[-1]}"'
        raise InputError(f"{option}={shown(value)} is not known", fix=f"{option} may be {some}.")
    return value


def word(name: str, value: Any, example: str) -> str:
    """A name, such as that of a method."""
    if not isinstance(value, str):
        raise InputError(f"{name}={shown(value)} is not a name", fix=f"Pass {example}.")
    return value


# --- a place in the file system ---------------------------------------------------------------------
def path(option: str, value: Any, example: str) -> Path:
    """Text, bytes or a Path that a file system can have; an error before anything has run."""
    try:
        text = os.fsdecode(value)
    except TypeError:
        raise InputError(
            f"{option}={shown(value)} is not a path", fix=f"Pass {option}={example!r}."
        ) from None
    if not text:
        raise InputError(f"{option}='' names no file", fix=f"Pass {option}={example!r}.")
    if "\0" in text:
        raise InputError(
            f"{option}={shown(text)} contains a NUL character, which no file name can have",
            fix=f"Pass {option}={example!r}.",
        )
    long = next((part for part in Path(text).parts if len(os.fsencode(part)) > LONGEST_NAME), None)
    if long is not None:
        raise StoreError(
            f"{option}={shown(text)}: the name has {len(os.fsencode(long))} bytes, and at most {LONGEST_NAME} are allowed",
            fix=f"Pass a shorter one: {option}={example!r}.",
        )
    return Path(text)


def check_writable(folder: Path, option: str) -> None:
    """A StoreError now, instead of a run that cannot leave what it computed: a file is made there, and removed."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise StoreError(
            f"`{folder}` cannot be written to: {(error.strerror or str(error)).lower()}",
            fix=f"Pass another {option}=.",
        ) from None
