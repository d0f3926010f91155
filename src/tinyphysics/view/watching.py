"""How is a run watched in a terminal?  On its other screen, moment by moment; keys stop, go back and forth, and leave.

The newest moment is drawn and older ones are dropped: nothing is queued, and a run never waits for a picture.
"""

from __future__ import annotations

import os
import select
import shutil
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

from tinyphysics.view.canvas import plain
from tinyphysics.view.live import rows_of
from tinyphysics.view.moment import State
from tinyphysics.view.screen import ENTER, LEAVE, Screen

RATE = 60.0  # moments a second where frames are played
WHILE = 1 / 20  # seconds between two pictures of a run that goes on
LONGEST = 20.0  # seconds that playing takes: of more frames some are left out
HELP = "q leaves, space stops, arrows step"
KEYS = {
    "q": "leave",
    "\x1b": "leave",
    " ": "stop",
    "\x1b[C": "next",
    "\x1b[D": "back",
    "\x1b[H": "first",
    "\x1b[F": "last",
}


class Frames(Protocol):
    """Moments that can be shown in any order."""

    def count(self) -> int: ...

    def state(self, k: int) -> State: ...


class Keyboard:
    """Keys as they are pressed; none where the input is no terminal."""

    def __init__(self, stream: Any = None) -> None:
        self.stream = sys.stdin if stream is None else stream
        self.before: Any = None

    def __enter__(self) -> Keyboard:
        try:
            import termios
            import tty

            self.file = self.stream.fileno()
            self.before = termios.tcgetattr(self.file)
            tty.setcbreak(self.file)
        except (ImportError, OSError, ValueError, AttributeError):  # a pipe, a notebook, Windows
            self.before = None
        except Exception as error:  # termios.error is an Exception of its own
            if type(error).__name__ != "error":
                raise
            self.before = None
        return self

    def __exit__(self, *_: object) -> None:
        if self.before is not None:
            import termios

            termios.tcsetattr(self.file, termios.TCSADRAIN, self.before)

    def pressed(self, seconds: float = 0.0) -> str:
        """What a key means that is pressed within a time; empty if none is."""
        if self.before is None:
            time.sleep(seconds)
            return ""
        if not select.select([self.file], [], [], seconds)[0]:
            return ""
        return KEYS.get(os.read(self.file, 8).decode(errors="replace"), "")


class Watching:
    """A terminal while something is watched in it; where the output is no terminal, one picture at the end."""

    def __init__(self, out: Any = None, keyboard: Any = None) -> None:
        self.out = sys.stdout if out is None else out
        self.keys = Keyboard(keyboard)
        self.ascii_only = not (getattr(self.out, "encoding", None) or "utf").lower().startswith("utf")
        self.on_screen = bool(getattr(self.out, "isatty", lambda: False)())
        self.screen: Screen | None = None
        self.newest: State | None = None
        self.drawn = -WHILE
        self.left = False  # by a key
        self.told = ""  # why there is no picture

    def __enter__(self) -> Watching:
        if self.on_screen:
            self.keys.__enter__()
            self.out.write(ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self.on_screen:
            self.out.write(LEAVE)
            self.keys.__exit__()
        if self.newest is not None and kind is None:  # what was seen last stays
            width, height = self.size()
            rows = rows_of({**self.newest, "help": ""}, width, min(height, 24), self.ascii_only)
            self.out.write(plain(rows) + "\n")
        if self.told:
            self.out.write(f"no picture: {self.told}\n")
        self.out.flush()

    def size(self) -> tuple[int, int]:
        found = shutil.get_terminal_size((80, 24))
        return max(found.columns, 1), max(found.lines, 1)

    def show(self, state: State) -> None:
        """Brings the terminal to a moment."""
        self.newest = state
        if not self.on_screen:
            return
        width, height = self.size()
        if self.screen is None or (self.screen.width, self.screen.height) != (width, height):
            self.screen = Screen(width, height)
            self.out.write("\x1b[0m\x1b[2J")
        self.out.write(self.screen.changes(rows_of(state, width, height, self.ascii_only)))
        self.out.flush()

    # --- a run that goes on -----------------------------------------------------------------------
    def glance(self, state: Callable[[], State | None]) -> None:
        """Draws what is newest if it is time to; a key that leaves ends the run, which keeps what it has."""
        if not self.on_screen:
            return
        if self.keys.pressed() == "leave":
            self.left = True
            raise KeyboardInterrupt
        now = time.monotonic()
        if now - self.drawn >= WHILE and (newest := state()) is not None:
            self.show(newest)
            self.drawn = now

    # --- frames that are there ------------------------------------------------------------------------
    def play(self, frames: Frames, follow: Callable[[], bool] | None = None) -> None:
        """From the first frame to the last, or as keys say. Where frames are added, it follows them until a key leaves."""
        last = frames.count() - 1
        if last < 0:
            return
        if not self.on_screen or self.left:
            self.show(frames.state(last))
            return
        k, running = 0, True
        while True:
            self.show(frames.state(k))
            stride = max(1, round(frames.count() / (LONGEST * RATE)))
            if running and k >= last:
                if follow is None:
                    return
                key = self.keys.pressed(WHILE)
                if not follow() and not key:
                    continue
            else:
                key = self.keys.pressed(1 / RATE if running else WHILE)
            last = frames.count() - 1
            if key == "leave":
                return
            if key == "stop":
                running = not running
            elif key:
                running = False
                k = {"next": k + 1, "back": k - 1, "first": 0, "last": last}[key]
            elif running:
                k += stride
            k = max(0, min(k, last))
