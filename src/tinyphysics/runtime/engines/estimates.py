"""Do the estimates of a GPU serve for roots and quotients?  All of them are looked at once, and the answer is noted."""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np

from tinyphysics.device import cache
from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda import nvptx
from tinyphysics.emit.kinds import ptx_estimates
from tinyphysics.errors import BackendError
from tinyphysics.util import digest

THREADS, WAVES = 256, 64  # of a block; blocks for each processor
YES, NO = b"they serve", b"they do not"


@lru_cache(maxsize=16)
def serve(device: cuda.Device) -> bool:
    """What cannot be looked at does not serve: numbers have the same bits without, some sums over pairs take longer."""
    try:
        text, _ = nvptx.ptx(ptx_estimates.module(), device.capability)
    except BackendError:  # no LLVM here, and not in the cache
        return False
    # whose assembler decides what an estimate is
    made_by = (device.name, device.capability, cuda.driver_version())
    note = digest(repr([text, *made_by]).encode()) + ".note"
    known = cache.read(note)
    if known not in (YES, NO):
        known = YES if looked_at(text, device, ptx_estimates.FIRST, ptx_estimates.COUNT) else NO
        cache.write(note, known)
    return known == YES


def looked_at(text: str, device: cuda.Device, first: int, count: int) -> bool:
    """Do those of so many numbers serve, from the one with the bits `first` on?"""
    (kernel,), _ = cuda.load(text, [ptx_estimates.NAME])
    word = cuda.zero(cuda.Buffer(8))
    cuda.launch(
        kernel, device.processors * WAVES, THREADS, [word, ctypes.c_int64(first), ctypes.c_int64(count)]
    )
    return not cuda.read(word, np.zeros(8, np.int8)).any()
