"""How does a run look at arrays, here or on a GPU, and how does Ctrl-C wait until a piece of work is done?"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tinyphysics.device.cuda.dlpack import DeviceArray
from tinyphysics.device.host import copies
from tinyphysics.runtime.state import device_arrays


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


def copy(source: Any, out: Any, threads: int) -> None:
    """The numbers of one array into another of its shape, here or on a GPU."""
    if isinstance(out, DeviceArray):
        out[...] = source
    else:
        copies.copy(source, out, threads)


def copy_all(pairs: Sequence[tuple[Any, Any]], threads: int, doubtful: Sequence[bool] = ()) -> list[bool]:
    """The same of several arrays, all here or all there. Which are finite, of those here that are doubtful?"""
    if pairs and isinstance(pairs[0][1], DeviceArray):
        for source, out in pairs:
            out[...] = source
        return [True] * len(pairs)
    return copies.copy_all(pairs, threads, doubtful)


def all_finite(a: Any, threads: int = 1) -> bool:
    """Without a temporary array of the size of the first."""
    return device_arrays.all_finite(a) if isinstance(a, DeviceArray) else copies.all_finite(a, threads)


def in_pieces(f: Callable[[Any], dict[str, Any]], a: Any, threads: int) -> dict[str, Any]:
    """f(a) of a function that makes arrays of each number of a."""
    return f(a) if isinstance(a, DeviceArray) else copies.in_pieces(f, a, threads)
