"""Does a long run show that it is alive?  In a terminal, after a second; never in a pipe."""
from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tinyphysics.errors import InputError

PATIENCE = 1.0  # seconds before a bar appears


@contextmanager
def progress_bar(mode: str | bool, name: str, steps: int) -> Iterator[Callable[[int], None]]:
    if mode not in ("auto", True, False, "on", "off"):
        raise InputError(f"progress={mode!r}", fix='progress is "auto", True or False.')
    if mode in (False, "off") or mode == "auto" and not sys.stderr.isatty():
        yield lambda n: None
        return
    from rich.console import Console
    from rich.progress import Progress

    began = time.monotonic()
    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(name, total=steps)
    started = False

    def tick(n: int) -> None:
        nonlocal started
        if not started and time.monotonic() - began > PATIENCE:
            bar.start()
            started = True
        bar.update(task, completed=n)

    try:
        yield tick
    finally:
        bar.stop()
