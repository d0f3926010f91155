"""How many threads can run at once?  The processors that this process may use, and no more than its control group pays for.

A container or a batch job often sees all processors of its machine and may use the time of a few. More threads than that
would only wait for each other. The rest of a limit that is no whole number is worth a thread: 1.5 processors are 2 threads.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

ROOT = Path("/")  # where /proc and /sys are


def available(root: Path = ROOT) -> int:
    """The threads of a run that says nothing about them."""
    seen = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    paid = quota(root)
    return seen if paid is None else max(1, min(seen, math.ceil(paid)))


@lru_cache(maxsize=8)
def quota(root: Path = ROOT) -> float | None:
    """The processors whose time the control group of this process has, from version 1 or 2; None: no limit.

    A group has no more than those around it, so the least of them counts. It is read once in a process.
    """
    found = [limit for group in groups(root) if (limit := limit_of(group)) is not None]
    return min(found, default=None)


def groups(root: Path) -> Iterator[Path]:
    """The folders of the groups that this process is in, and of those around them.

    Inside a container the name of a group may be that of the machine outside: then only the uppermost folder is there.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux, or hidden
        return
    top = root / "sys/fs/cgroup"
    for line in lines:
        _, controllers, name = (line.split(":", 2) + ["", ""])[:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        tops = [top / controllers, top / "cpu"] if controllers else [top, top / "unified"]
        names = [part for part in name.split("/") if part not in ("", "..")]
        for base in tops:
            for depth in range(len(names), -1, -1):
                yield base.joinpath(*names[:depth])


def limit_of(group: Path) -> float | None:
    """The processors that one group may use: the time it has in a period, over the period."""
    try:
        if (group / "cpu.max").exists():
            time, period = (group / "cpu.max").read_text().split()
        else:
            time, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return int(time) / int(period) if time != "max" and int(time) > 0 and int(period) > 0 else None
    except (OSError, ValueError):
        return None
