"""How is a text file read, line by line, so that a mistake is named with its line?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tinyphysics.errors import StoreError
from tinyphysics.physics.io.xyz import Place, text_of


def lines_of(path: Any, what: str) -> list[str]:
    """The lines of a text file; a StoreError if it is not there, not text or empty."""
    text = text_of(path, what, "Is it compressed?")
    if not text.strip():
        raise StoreError(f"`{path}` is empty", fix=f"It should be {what}.")
    return text.splitlines()


def package(name: str, what: str, extra: str) -> Any:
    """An extra package; those who read other files need not have it."""
    try:
        return import_module(name)
    except ImportError:
        raise StoreError(what, fix=f'pip install "tinyphysics[{extra}]"') from None


def number(place: Place, word: str, what: str, example: str = "1.25") -> float:
    """A finite number, or an error that names the line and what was expected there."""
    try:
        value = float(word.replace("D", "E").replace("d", "e"))  # Fortran writes 1.0D+00
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise place.wrong(f"`{word.strip()[:40]}` is not {what}", f"Expected a number, such as {example}.")
    return value


def whole(place: Place, word: str, what: str, least: int = 0) -> int:
    """A whole number from `least` on, or an error that names the line."""
    try:
        value = int(word)
    except ValueError:
        value = least - 1
    if value < least:
        raise place.wrong(f"`{word.strip()[:40]}` is not {what}", f"Expected a whole number from {least} on.")
    return value


def numbers(place: Place, words: Sequence[str], what: str) -> list[float]:
    """Several numbers of one line."""
    return [number(place, word, what) for word in words]
