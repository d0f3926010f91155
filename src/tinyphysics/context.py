"""Every flag, declared once: a name, a default, a sentence.

A flag is read from the environment as TINYPHYSICS_<NAME> and set in code with `with`:

>>> with CHECK(1):
...     CHECK.value
1
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

from tinyphysics.errors import InputError

WHOLE = re.compile(r"-?[0-9]+")
BEGAN = time.time()  # the code that runs is what the files held then


T = TypeVar("T", int, str)


class Flag(Generic[T]):
    """A whole number or a name, by what its default is."""

    def __init__(self, name: str, default: T, sentence: str) -> None:
        self.name, self.sentence = name, sentence
        self.default: T = default
        text = os.environ.get(f"TINYPHYSICS_{name}", str(default))
        self._unread: str | None = None  # what the environment says, where it is no value
        if isinstance(default, int) and not WHOLE.fullmatch(text):
            self._unread, text = text, str(default)
        self._var: ContextVar[T | None] = ContextVar(name, default=None)
        self._initial: T = type(default)(text)

    @property
    def value(self) -> T:
        """Of the innermost `with`, or of the environment: an error where that is no value, when it is asked for."""
        inner = self._var.get()
        if inner is not None:
            return inner
        if self._unread is not None:
            raise InputError(
                f"TINYPHYSICS_{self.name}={self._unread!r} is not a whole number",
                fix=f"Unset it, or set it to {self.default}.",
            )
        return self._initial

    @property
    def told(self) -> T | str:
        """The value, or what the environment says instead of one."""
        return self._unread if self._unread is not None and self._var.get() is None else self.value

    @contextmanager
    def __call__(self, value: T) -> Iterator[None]:
        token = self._var.set(value)
        try:
            yield
        finally:
            self._var.reset(token)


FLAGS: dict[str, Flag[int] | Flag[str]] = {}


def flag(name: str, default: T, sentence: str) -> Flag[T]:
    FLAGS[name] = new = Flag(name, default, sentence)
    return new


CHECK = flag("CHECK", 0, "check the graph against its stage's spec after every pass")
QUICK = flag(
    "QUICK", 1, "do short runs with code that compiles quickly; 0 always compiles the fast code, 2 never"
)
C_LEVEL = flag(
    "C_LEVEL", 3, "how far the C compiler optimises, -O0 to -O3: less compiles sooner, with the same bits"
)
CUDA_DEVICE = flag(
    "CUDA_DEVICE", 0, "which NVIDIA GPU runs, in the order of `tp doctor`; -1: all, each with its members"
)
CUDA_TUNE = flag(
    "CUDA_TUNE",
    1,
    "time several ways to place members on a GPU: 1 before long runs, 2 before all that fill it, 0 never",
)
WEBGPU_ADAPTER = flag("WEBGPU_ADAPTER", 0, "which WebGPU adapter runs, in the order of `tp doctor`")
OPENCL_DEVICE = flag(
    "OPENCL_DEVICE", 0, "which OpenCL device runs, of those with float64 in the order of `tp doctor`"
)
FRAMES = flag(
    "FRAMES",
    0,
    "1 shows every frame of an error's traceback, also those inside tinyphysics; 0 the user's only",
)
PROCESSOR = flag(
    "PROCESSOR",
    "",
    "make machine code for this processor instead of the host: a name in `target.PROCESSORS`, such as x86-64-v3",
)
REWRITE_LIMIT = flag("REWRITE_LIMIT", 200_000, "rules fired in one rewrite before it counts as endless")
