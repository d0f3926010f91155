"""A real NVIDIA GPU for every test of this folder, or the reason why there is none."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import pytest

from tinyphysics.device.cuda import driver as cuda
from tinyphysics.errors import BackendError


@dataclass(frozen=True)
class Gpu:
    """The device, and how large runs on it may be."""

    name: str
    real: bool

    def members(self, many: int) -> int:
        """So many; behind the fake driver a few."""
        return many if self.real else min(many, 1 + many % 9)

    def steps(self, many: int) -> int:
        return many if self.real else min(many, 4)


@pytest.fixture
def gpu(request):
    if request.config.getoption("--fake-gpu"):
        request.getfixturevalue("fake_cuda")
        return Gpu(cuda.device().name, False)
    try:
        return Gpu(cuda.device().name, True)
    except BackendError as error:
        pytest.skip(f"no GPU: {error.what}")


@pytest.fixture
def other_library(gpu, monkeypatch):
    """A library by its name, if it is here, with arrays on the same GPU."""
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

    def imported(name):
        if not gpu.real:
            pytest.skip(f"{name} has no fake driver")
        library = pytest.importorskip(name, reason=f"{name} is not installed")
        if name == "jax":
            library.config.update("jax_enable_x64", True)
            importlib.import_module("jax.dlpack")
        return library

    return imported
