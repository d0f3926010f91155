"""Does a long run show that it is alive?  A bar in a terminal or a notebook, elsewhere a line in the log a minute.

What is shown is read from what the run has recorded anyway, between two blocks: it cannot change a bit.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from tinyphysics.errors import InputError

PATIENCE = 1.0  # seconds before a bar appears
OFTEN = 0.1  # seconds between two pictures of a bar
MINUTE = 60.0  # seconds between two lines in the log
MODES = ("auto", "log", True, False, "on", "off")
LOG = logging.getLogger("tinyphysics")
now = time.monotonic

Drift = Callable[[int], str | None]  # what is known about the energy up to a step


def lasting(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> lasting(75), lasting(3600 * 30)
    ('1:15', '30:00:00')
    """
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def rate_of(steps_per_second: float) -> str:
    """
    >>> rate_of(1234.5), rate_of(2.5e6)
    ('1,234 steps/s', '2.5e+06 steps/s')
    """
    return f"{steps_per_second:,.0f} steps/s" if steps_per_second < 1e5 else f"{steps_per_second:.1e} steps/s"


@dataclass
class ProgressRate:
    """How fast a run goes, counted from its first block: before it there is compiling."""

    steps: int
    drift: Drift
    began: float = field(default_factory=lambda: now())
    first: tuple[float, int] | None = None

    def told(self, n: int) -> str:
        """Rate, remaining time and energy drift, as far as they are known."""
        out = []
        at, done = self.first or (self.began, 0)
        elapsed = now() - at
        if n > done and elapsed > 0:
            rate = (n - done) / elapsed
            out += [rate_of(rate), f"{lasting((self.steps - n) / rate)} left"]
        drift = self.drift(n)
        if drift is not None:
            out.append(drift)
        return ", ".join(out)

    def begin(self, n: int) -> None:
        if self.first is None:
            self.first = now(), n


def in_notebook() -> bool:
    """Is there a page to draw on?  IPython's other shells are terminals."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def progress_bar(
    mode: str | bool, name: str, steps: int, drift: Drift = lambda n: None
) -> Iterator[Callable[[int], None]]:
    """A function to be called with the number of steps done, as often as one likes."""
    if mode not in MODES:
        raise InputError(
            f"progress={mode!r} is not known", fix='progress may be "auto", "log", True or False.'
        )
    pace = ProgressRate(steps, drift)
    if mode in (False, "off"):
        yield lambda n: None
    elif mode == "log" or mode == "auto" and not sys.stderr.isatty() and not in_notebook():
        yield throttled(logged(name, pace), pace, MINUTE, MINUTE)
    else:
        shown, close = in_page(name, pace) if in_notebook() else in_terminal(name, pace)
        try:
            yield throttled(shown, pace, PATIENCE, OFTEN)
        finally:
            close()


def throttled(
    show: Callable[[int], None], pace: ProgressRate, patience: float, often: float
) -> Callable[[int], None]:
    """Not before its time, and not more often than it can be read."""
    last = pace.began + patience - often

    def tick(n: int) -> None:
        nonlocal last
        if now() - last >= often:
            show(n)
            last = now()
        pace.begin(n)

    return tick


def logged(name: str, pace: ProgressRate) -> Callable[[int], None]:
    def show(n: int) -> None:
        part = 100 * n / pace.steps
        LOG.info("%s: step %s of %s (%.0f %%), %s", name, f"{n:,}", f"{pace.steps:,}", part, pace.told(n))

    return show


def in_terminal(name: str, pace: ProgressRate) -> tuple[Callable[[int], None], Callable[[], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    name_of, told = TextColumn("{task.description}"), TextColumn("{task.fields[told]}")
    columns = (name_of, BarColumn(bar_width=30), TaskProgressColumn(), told)
    bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
    task = bar.add_task(name, total=pace.steps, told="")

    def show(n: int) -> None:
        bar.start()
        bar.update(task, completed=n, told=pace.told(n), refresh=True)

    return show, bar.stop


def in_page(name: str, pace: ProgressRate) -> tuple[Callable[[int], None], Callable[[], None]]:
    """One line of HTML, which is drawn again and empty in the end."""
    display: Any = import_module("IPython.display")  # the notebook brings it
    handle: list[Any] = []

    def draw(text: str) -> None:
        html = display.HTML(text)
        if handle:
            handle[0].update(html)
        else:
            handle.append(display.display(html, display_id=True))

    def show(n: int) -> None:
        draw(
            f'{name} <progress value="{n}" max="{pace.steps}"></progress> {100 * n / pace.steps:.0f} % {pace.told(n)}'
        )

    return show, lambda: draw("") if handle else None
