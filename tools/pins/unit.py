"""One thing that is pinned: what is computed for it, as text by kind, and text made neutral."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

TIERS = ("quick", "test", "all")  # each has everything of those before it
BACKENDS = ("python", "numpy", "llvm", "c")  # on every machine
PLACE = re.compile(r"(?:[\w./<>-]*/)?[\w<>-]+\.py:\d+")
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
FOLDER = re.compile(r"(?:/[\w.-]+)+/(?=[\w.-]+)")  # of a file that is named with its folder


@dataclass(frozen=True)
class Setting:
    """On which backends runs are made, beside those of every machine."""

    backends: tuple[str, ...] = BACKENDS
    opencl: bool = False  # is it there?
    cuda: str = "no"  # "fake": twenty runs by the driver of test/fake_cuda.py; "device": all runs on a GPU


@dataclass(frozen=True, eq=False)
class Unit:
    """`compute` gives a text for each kind of pin: {"program": "1f3a...", "explain": "kepler: H = ..."}."""

    group: str  # the file that its pins are in
    name: str
    compute: Callable[[Setting], Mapping[str, str]]
    tier: str = "all"

    @property
    def key(self) -> str:
        return f"{self.group}/{self.name}"

    def is_in(self, tier: str) -> bool:
        return TIERS.index(self.tier) <= TIERS.index(tier)


def short(text: str | bytes) -> str:
    """Sixteen digits of a hash: enough to tell two texts apart."""
    data = text.encode() if isinstance(text, str) else text
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def neutral(text: str) -> str:
    """A message without what depends on the folder, the line of a file or the memory of this run."""
    text = PLACE.sub("file.py:line", text)
    return FOLDER.sub("", ADDRESS.sub(" at 0x0", text))


def message(error: BaseException) -> str:
    """An exception as its user reads it."""
    return neutral(f"{type(error).__name__}: {error}")
