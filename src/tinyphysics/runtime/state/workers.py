"""Who does the work?  Threads that take pieces from one queue; Ctrl-C waits until all of them are done.

A slow core takes fewer pieces, so that it does not hold up the others.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from itertools import count
from typing import Any, TypeVar

import numpy as np

from tinyphysics.device.cuda.dlpack import DeviceArray
from tinyphysics.device.numbers import finite
from tinyphysics.runtime.state import device_arrays

T = TypeVar("T")
PIECE = 1 << 17  # numbers that are copied or looked at in one go: a megabyte


def spread(work: Callable[[int], T], pieces: int, threads: int) -> list[T]:
    """work(0), work(1), ... in up to so many threads, this one among them; the first error is raised."""
    if threads <= 1 or pieces <= 1:
        return [work(k) for k in range(pieces)]
    out: dict[int, T] = {}
    errors: list[BaseException] = []
    queue = count()

    def take() -> None:
        while not errors and (k := next(queue)) < pieces:  # next() of a count is one step of the interpreter
            try:
                out[k] = work(k)
            except BaseException as error:
                errors.append(error)

    others = [  # with the flags of this one
        threading.Thread(target=copy_context().run, args=(take,), daemon=True)
        for _ in range(min(threads, pieces) - 1)
    ]
    for thread in others:
        thread.start()
    take()
    for thread in others:
        thread.join()
    if errors:
        raise errors[0]
    return [out[k] for k in range(pieces)]


@contextmanager
def unbroken(wanted: bool = True) -> Iterator[None]:
    """Ctrl-C takes effect at the end, so that what is done inside is done whole."""
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):  # ignored, or not Python's
        yield
        return
    pressed: list[Any] = []
    signal.signal(signal.SIGINT, lambda *event: pressed.append(event))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        before(*pressed[0])


def pieces_of(a: Any) -> list[slice]:
    """Slices of the first axis, about a megabyte each."""
    if a.size <= PIECE:
        return [slice(None)]
    length = len(a)
    step = max(1, PIECE * length // max(a.size, 1))
    return [slice(k, min(k + step, length)) for k in range(0, length, step)]


def copy(source: Any, out: Any, threads: int) -> None:
    """The numbers of one array into another of its shape."""
    if out.size <= PIECE or isinstance(out, DeviceArray):
        out[...] = source
        return
    cuts = pieces_of(out)

    def one(k: int) -> None:
        out[cuts[k]] = source[cuts[k]]

    spread(one, len(cuts), threads)


def all_finite(a: Any) -> bool:
    """Without a temporary array of the size of the first."""
    if isinstance(a, DeviceArray):
        return device_arrays.all_finite(a)
    if a.size <= PIECE:
        return bool(np.count_nonzero(finite(a)) == a.size)  # sooner than .all(), of few
    return all(bool(finite(a[cut]).all()) for cut in pieces_of(a))
