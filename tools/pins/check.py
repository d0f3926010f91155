"""What has moved?  Everything is computed again and compared with its pins, kind by kind."""

from __future__ import annotations

import difflib
import multiprocessing
import re
import resource
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pins import book
from pins.everything import units
from pins.unit import Setting, Unit

OPTIONAL = ("state on opencl", "state on cuda")  # pins of drivers that not every machine has
SAME = "the same"
GONE = "(nothing)"


@dataclass(frozen=True)
class Moved:
    """A pin that is not what it was."""

    key: str  # group/name
    kind: str
    old: str
    new: str

    def __str__(self) -> str:
        if "\n" not in self.old + self.new:
            return f"{self.key}: {self.kind}\n  was {self.old}\n  is  {self.new}"
        lines = difflib.unified_diff(
            self.old.split("\n"), self.new.split("\n"), "was", "is", lineterm="", n=1
        )
        return "\n  ".join([f"{self.key}: {self.kind}", *lines])


def compared(key: str, pinned: Mapping[str, str], found: Mapping[str, str]) -> list[Moved]:
    """What differs. A pin of a driver that is not here is left alone; a state on one that has none must be the same."""
    out = []
    for kind in sorted({*pinned, *found}):
        if kind in OPTIONAL and kind not in found:
            continue
        usual = SAME if kind in OPTIONAL and pinned else GONE
        old, new = pinned.get(kind, usual), found.get(kind, GONE)
        if old != new:
            out.append(Moved(key, kind, old, new))
    return out


def checked(unit: Unit, setting: Setting, folder: Path = book.FOLDER) -> list[Moved]:
    """What moved in one unit."""
    return compared(unit.key, book.read(unit.group, folder).get(unit.name, {}), unit.compute(setting))


def disagrees(kind: str, text: str) -> bool:
    """Is it the state of a backend that has other bits than LLVM?  Such a pin is never written."""
    return kind.startswith("state on ") and re.fullmatch("[0-9a-f]{16}", text) is not None


# --- many, in several processes -----------------------------------------------------------------------
@dataclass(frozen=True)
class Found:
    """What was computed for one unit."""

    key: str
    pins: dict[str, str]
    wrong: str  # what went wrong; empty: nothing
    cost: float  # seconds of CPU, of the compilers that it called too


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def work(job: tuple[str, Setting]) -> Found:
    key, setting = job
    unit, began = units()[key], cpu_seconds()
    try:
        return Found(key, dict(unit.compute(setting)), "", cpu_seconds() - began)
    except Exception as error:  # the others are looked at all the same
        return Found(key, {}, f"{type(error).__name__}: {error}", cpu_seconds() - began)


def all_found(keys: Sequence[str], setting: Setting, jobs: int) -> Iterable[Found]:
    todo = [(key, setting) for key in keys]
    if jobs == 1:
        yield from map(work, todo)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(work, todo, chunksize=4)


def computed(keys: Sequence[str], setting: Setting, jobs: int) -> list[Found]:
    out = []
    for n, found in enumerate(all_found(keys, setting, jobs), 1):
        out.append(found)
        if sys.stderr.isatty():
            print(f"\r{n} of {len(keys)}", end="\r", file=sys.stderr, flush=True)
    return out


def moved(pins: Mapping[str, Mapping[str, str]], folder: Path = book.FOLDER) -> list[Moved]:
    """Of all that was computed, what differs from the files."""
    files = {group: book.read(group, folder) for group in {key.partition("/")[0] for key in pins}}
    out = []
    for key in sorted(pins):
        group, _, name = key.partition("/")
        out += compared(key, files[group].get(name, {}), pins[key])
    return out


def left_over(folder: Path = book.FOLDER) -> list[str]:
    """Pins of what is computed no more."""
    known = units()
    return [f"{g}/{n}" for g in book.groups(folder) for n in book.read(g, folder) if f"{g}/{n}" not in known]
