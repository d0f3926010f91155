"""Pure helpers that every layer may use: places in the user's files, products, digests, spelling."""

from __future__ import annotations

import gc
import hashlib
import linecache
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
PACKAGE = str(Path(__file__).parent) + os.sep
PHYSICS = PACKAGE + "physics" + os.sep  # written in the user's language: its lines count as the user's


@dataclass(frozen=True)
class Site:
    """A line of the user's file."""

    file: str
    line: int

    @property
    def text(self) -> str:
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


def user_site() -> Site | None:
    """The innermost line on the stack that is neither ours nor a library's."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        library = file.startswith((PACKAGE, "<frozen")) or "site-packages" in file
        if file.startswith(PHYSICS) or not library:
            return Site(file, frame.f_lineno)
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None


def frames_to_user() -> int:
    """The `stacklevel` of warnings.warn, called where this is, that names the user's line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def prod(numbers: Iterable[int]) -> int:
    out = 1
    for n in numbers:
        out *= n
    return out


def digest(data: bytes) -> str:
    """128 bits of blake2b, as hex: the one hash of this project."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def varied(record: T, **changes: Any) -> T:
    """dataclasses.replace for a frozen record without slots whose fields are all that it has: ten times sooner."""
    new = object.__new__(type(record))
    new.__dict__.update(record.__dict__)
    new.__dict__.update(changes)
    return new


def record_of(kind: type[T], fields: Mapping[str, Any]) -> T:
    """A frozen record without slots from all of its fields, by name: five times sooner than its constructor."""
    new = object.__new__(kind)
    new.__dict__.update(fields)
    return new


def one_of(names: Sequence[str], last: str = "or") -> str:
    """`a`, `b` or `c`, for messages."""
    quoted = [f"`{n}`" for n in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"


WITH_OTHERS = {
    name: "tp.floor(x + 0.5)" for name in ("round", "rint", "around")
}  # what has no function of its own


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """A suggestion that ends in a space, or nothing."""
    close = nearest(word, names, 1)
    return f"Did you mean `{close[0]}`? " if close else ""


def nearest(word: str, names: Iterable[str], most: int = 3, cutoff: float = 0.6) -> list[str]:
    """The names that are spelt most like a word, capitals or not."""
    import difflib  # a millisecond that only a misspelt name costs

    listed = list(names)
    same = [name for name in listed if name.lower() == word.lower()]
    return (same + [n for n in difflib.get_close_matches(word, listed, most, cutoff) if n not in same])[:most]


def a_kind(value: object) -> str:
    """What a value is, in words: a number, text, or the name of its type.

    >>> a_kind(3), a_kind("q"), a_kind(None), a_kind([1])
    ('a number', 'text', 'None', 'a list')
    """
    if value is None:
        return "None"
    for kinds, word in (((bool,), "a truth value"), ((int, float), "a number"), ((str,), "text")):
        if isinstance(value, kinds):
            return word
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def in_order(moved: Sequence[T], reads: Mapping[T, Set[T]]) -> list[T] | None:
    """What is moved, in an order in which nothing is read after it was moved; None if there is no such order.

    >>> in_order(["q", "p"], {"q": {"q"}, "p": {"q", "p"}})
    ['p', 'q']
    """
    out: list[T] = []
    left = list(moved)
    while left:
        k = next((k for k, s in enumerate(left) if not any(s in reads[x] for x in left if x is not s)), None)
        if k is None:
            return None
        out.append(left.pop(k))
    return out


@contextmanager
def without_collections() -> Iterator[None]:
    """Python does not look for cycles of garbage meanwhile.

    A graph has none, and while it grows it would be searched again and again: a quarter of a compilation.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
