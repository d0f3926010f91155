"""How does a gradient run go on that was interrupted on its way back?  From a file with its cotangents and where they were.

The run itself is done again, which gives the same bits, and the sweep goes on from there: its gradients have the bits of one
that was not interrupted. Nothing is kept before the run has come to its end.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, StoreError
from tinyphysics.given import path as a_path
from tinyphysics.util import digest

LOG = logging.getLogger("tinyphysics")
EVERY = 60.0  # seconds between two writes of a sweep that is not interrupted
FORMAT = "tinyphysics gradient sweep 1"


@dataclass(frozen=True, eq=False)
class Mark:
    """A sweep at a step: all numbers that it goes on with, by name."""

    n: int
    numbers: Mapping[str, Any]


def identity(parts: Any) -> str:
    """Of arrays and words, in their order: what a sweep must have in common with the one that it goes on with."""
    told = []
    for x in parts:
        told.append(x.encode() if isinstance(x, str) else np.ascontiguousarray(x).tobytes())
    return digest(b"|".join(told))


class SweepFile:
    """Writes marks to a file, and reads the one that a sweep goes on from."""

    def __init__(self, checkpoint: Any, resume: Any) -> None:
        self.path = None if checkpoint is None else a_path("checkpoint", checkpoint, "gradient.npz")
        self.source = None if resume is None else a_path("resume", resume, "gradient.npz")
        self.read = None if self.source is None else loaded(self.source)
        self.own, self.last, self.written = "", None, time.monotonic()
        if self.path is not None and not self.path.parent.is_dir():
            raise InputError(
                f"checkpoint={str(self.path)!r}: there is no folder {str(self.path.parent)!r}",
                fix="Make it, or pass another path.",
            )

    @property
    def is_none(self) -> bool:
        return self.path is None and self.source is None

    own: str
    last: Mark | None

    def begins(self, own: str) -> Mark | None:
        """The sweep is at the end of its run, which is known now; where it goes on from, if it was asked to."""
        self.own = own
        if self.read is None:
            return None
        found, mark = self.read
        if found != own:
            raise StoreError(
                f"`{self.source}` is of another gradient run: its states, parameters, steps, loss or wrt differ",
                fix="Pass the arguments of the run that was interrupted, or leave resume= out.",
            )
        return mark

    def mark(self, n: int, numbers: Mapping[str, Any]) -> None:
        if self.path is None:
            return
        self.last = Mark(n, numbers)
        if time.monotonic() - self.written > EVERY:
            self.write()

    def write(self) -> None:
        if self.path is None or self.last is None:
            return
        arrays: dict[str, Any] = {f"n.{name}": np.asarray(v) for name, v in self.last.numbers.items()}
        temporary = self.path.with_name(self.path.name + ".part")
        with open(temporary, "wb") as f:
            np.savez(f, format=FORMAT, own=self.own, step=self.last.n, **arrays)
        os.replace(temporary, self.path)
        self.written = time.monotonic()

    def interrupted(self) -> None:
        """What there is is kept."""
        self.write()
        if self.path is not None and self.last is not None:
            LOG.warning(
                "the gradient run was interrupted on its way back, at step %s; resume=%r goes on with it",
                f"{self.last.n:,}",
                str(self.path),
            )


def loaded(path: Path) -> tuple[str, Mark]:
    try:
        with np.load(path, allow_pickle=False) as f:
            if str(f["format"]) != FORMAT:
                raise ValueError
            numbers = {name.removeprefix("n."): f[name] for name in f.files if name.startswith("n.")}
            return str(f["own"]), Mark(int(f["step"]), numbers)
    except FileNotFoundError:
        raise StoreError(f"there is no file `{path}`", fix="Pass the path that checkpoint= had.") from None
    except (ValueError, KeyError, OSError, EOFError):
        raise StoreError(
            f"`{path}` is not the checkpoint of a gradient run", fix="Pass the path that checkpoint= had."
        ) from None
