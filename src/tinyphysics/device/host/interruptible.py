"""Work in C that Ctrl-C ends: Python sees a signal between two of its own instructions, and a library has none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
LOOK = 0.1  # seconds between two looks at the keyboard


def interruptible(work: Callable[[], T]) -> T:
    """What the work returns or raises. It runs in a thread, so that the main one hears Ctrl-C at once.

    LLVM cannot be stopped on the way: after KeyboardInterrupt the thread finishes what it compiles, and its result is
    dropped. That is bounded, because nothing longer than tpir/kernels/kernel.py's LARGEST is written out. A process that
    ends meanwhile waits for it. In other threads, which get no signals, the work is done where it is.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    found: list[Any] = []

    def done() -> None:
        try:
            found.append((work(), None))
        except BaseException as error:  # it is raised where it was asked for
            found.append((None, error))

    thread = threading.Thread(target=done, name="tinyphysics compiles")
    thread.start()
    while thread.is_alive():
        thread.join(LOOK)
    value, error = found[0]
    if error is not None:
        raise error
    return value  # type: ignore[no-any-return]
