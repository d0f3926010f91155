"""Which frames of an error does a user see?  Those of the user's own files: what is inside tinyphysics explains nothing.

An error that tinyphysics raises on purpose leaves a public call without the frames of this package, and so do the
errors that it names as its cause. TINYPHYSICS_FRAMES=1 keeps them all. Errors that are our bugs always keep theirs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, cast

from tinyphysics.context import FRAMES
from tinyphysics.errors import PlanError, TinyPhysicsError
from tinyphysics.util import PACKAGE, PHYSICS

F = TypeVar("F", bound=Callable[..., Any])
LAST = 50  # frames in which a recursion shows whose it is


def is_ours(file: str) -> bool:
    """Is it a file of this package?  Its systems are written in the user's language, and their lines count as the user's."""
    return file.startswith((PACKAGE, "<frozen")) and not file.startswith(PHYSICS)


def of_user(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of this package."""
    kept = []
    while trace is not None:
        if not is_ours(trace.tb_frame.f_code.co_filename):
            kept.append(trace)
        trace = trace.tb_next
    out: TracebackType | None = None
    for entry in reversed(kept):
        out = TracebackType(out, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return out


def shorten(error: BaseException) -> None:
    """Takes the frames of this package out of an error and of what it was raised from."""
    seen: set[int] = set()
    now: BaseException | None = error
    while now is not None and id(now) not in seen:
        seen.add(id(now))
        now.__traceback__ = of_user(now.__traceback__)
        now = now.__cause__ or now.__context__


def is_too_deep(error: RecursionError) -> bool:
    """Did this package run out of stack, rather than a function of the user that calls itself?"""
    files: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    return sum(is_ours(file) for file in files[-LAST:]) > LAST // 2


def users_frames(function: F) -> F:
    """A public call: an error that leaves it shows the user's frames only.

    A bare `raise` adds no frame of its own to the traceback that was set (Python 3.11 and newer).
    """

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except TinyPhysicsError as error:
            if not FRAMES.value:
                shorten(error)
            raise
        except RecursionError as error:
            if not is_too_deep(error):
                raise
            raise PlanError(
                "an expression of this system is nested so deeply that Python's stack ends",
                fix="Write long sums and products over arrays, (a*b).sum(). "
                "import sys; sys.setrecursionlimit(100_000) before the call allows deeper ones.",
            ) from None

    return cast(F, call)
