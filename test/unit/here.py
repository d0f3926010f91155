"""Which backends can run on this machine?"""

from __future__ import annotations

import pytest

from tinyphysics.errors import BackendError
from tinyphysics.runtime.engines.backend import ready
from tinyphysics.target import BUILT


def missing(backend: str) -> str:
    """Why a backend cannot run; empty if it can."""
    try:
        ready(backend)
    except BackendError as error:
        return error.what
    return ""


def need(backend: str) -> None:
    if why := missing(backend):
        pytest.skip(why)


HERE = [b for b in BUILT if not missing(b)]
