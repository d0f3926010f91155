"""What a device can do, as data: renderers and planners read it, nothing subclasses for it."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    backend: str
    device: str
    dtypes: tuple[str, ...]
    bit_exact: bool  # inside the determinism contract


@dataclass(frozen=True)
class VectorShape:
    """How members are laid over a machine's lanes."""

    width: int  # lanes of a vector
    unroll: int  # vectors side by side

    @property
    def lanes(self) -> int:
        return self.width * self.unroll


PYTHON = Target("python", "the TP-IR virtual machine", ("f64", "f32", "i64", "i32", "u64", "u32"), True)
LLVM = Target("llvm", "this processor, through LLVM", ("f64", "f32", "i64", "i32", "u64", "u32"), True)
C = Target("c", "this processor, through a C compiler", LLVM.dtypes, True)
NUMPY = Target("numpy", "NumPy, an array at a time", LLVM.dtypes, True)
# the float32 of OpenCL need not divide or take roots to the last bit
OPENCL = Target("opencl", "an OpenCL device with float64", ("f64", "i64", "i32", "u64", "u32"), True)

BUILT: dict[str, Target] = {t.backend: t for t in (LLVM, C, NUMPY, PYTHON, OPENCL)}
PLANNED = ("cuda", "gpu", "jax", "torch", "wgsl")
