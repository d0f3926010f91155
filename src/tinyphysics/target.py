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
class Seed:
    """What a machine has for 1/sqrt x in one instruction: the largest |x y**2 - 1|, of float64 and of float32."""

    name: str
    double: float
    single: float
    silent: bool = False  # of a float64 beyond its range it is 0, where others are infinite or NaN


# rsqrtps: Intel and AMD promise a relative error of 1.5 * 2**-12; float64 goes through float32, and is not for all x.
# rsqrt14pd: 2**-14. rsqrt.approx.ftz.f64 of PTX: nothing is promised, some 20 bits are there; its f32: 2**-22.4.
RSQRTPS = Seed("rsqrtps", 3.01 * 2.0**-12, 3.01 * 2.0**-12, silent=True)
SSE_RSQRTPS = Seed("rsqrtps4", RSQRTPS.double, RSQRTPS.single, silent=True)  # four lanes: without AVX
RSQRT14 = Seed("rsqrt14", 2.01 * 2.0**-14, 2.01 * 2.0**-14)
PTX_RSQRT = Seed("ptx", 2.0**-18, 2.0**-21.4)
# a root and a division of float32, which every machine has
PORTABLE = Seed("", 2.0**-20, 2.0**-22)


@dataclass(frozen=True)
class VectorShape:
    """How members are laid over a machine's lanes."""

    width: int  # lanes of a vector
    unroll: int  # vectors side by side
    # copy after copy, not operation by operation; what is only added to stays on the stack
    in_turn: bool = False
    bodies: int = 0  # of one system that may share a vector, where its lanes are not members
    beside: bool = False  # is what a loop keeps beside its state in memory?  No step waits for it
    words: bool = (
        False  # is of the least numbers the first half of their bits kept?  It is no more than they are
    )
    steps: int = 1  # of one pass of a loop, at most

    @property
    def lanes(self) -> int:
        return self.width * self.unroll


@dataclass(frozen=True)
class Core:
    """What a processor core begins in a cycle, counted in double vectors of its full width."""

    name: str
    registers: int  # vector registers
    multiply: float  # products and fused multiply-adds
    add: float  # sums and comparisons on pipes of their own; 0 where they share those of the products
    any: float  # vector operations of all kinds together
    divide: float  # cycles that one division keeps the divider
    root: float  # cycles that one square root does
    window: int  # vector operations that may wait for their operands


# AMD: Software Optimization Guides 56665 (Zen 3) and 57647 (Zen 4: 512-bit operations take a pipe for two cycles).
# Intel: Optimization Reference Manual 248966, ports 0, 1 and 5. Dividers: Zen 3 measured (Zen 4 is taken as twice that,
# for twice the width), Intel from uops.info; the smaller number where there is a range, because this is a bound.
CORES: dict[str, Core] = {
    c.name: c for c in (
        Core("Zen 3",           16, 2, 2, 4,  4.5,  8.5, 128),
        Core("Zen 4",           32, 1, 1, 2,  9.0, 17.0, 128),
        Core("Skylake",         16, 2, 0, 3,  8.0,  9.0,  97),
        Core("Skylake-X",       32, 2, 0, 2, 16.0, 18.0,  97),
        Core("an unknown core", 16, 4, 0, 4,  2.0,  2.0,  64),  # faster than any: the bound stays one
        Core("an unknown AVX-512 core", 32, 2, 2, 4, 4.0, 4.0, 64),
    )
}  # fmt: skip
ZEN_3 = ("znver2", "znver3")
SKYLAKE_X = (
    "skylake-avx512",
    "cascadelake",
    "icelake-server",
    "sapphirerapids",
    "emeraldrapids",
    "graniterapids",
)
SKYLAKE = ("haswell", "broadwell", "skylake", "alderlake", "raptorlake")


def core_of(name: str, width: int) -> Core:
    """The class of a processor, by LLVM's name for it and the doubles in its vectors."""
    if width == 8:
        known = (
            "Skylake-X" if name in SKYLAKE_X else "Zen 4" if name == "znver4" else "an unknown AVX-512 core"
        )
    else:
        known = "Zen 3" if name in ZEN_3 else "Skylake" if name in SKYLAKE else "an unknown core"
    return CORES[known]


@dataclass(frozen=True)
class Processor:
    """A processor that machine code can be made for by name, whatever the host is; LLVM and C compilers know the name."""

    name: str
    machine: str  # the first word of LLVM's triple
    features: tuple[str, ...]  # by LLVM's names: what code for it may use


# the levels of the x86-64 psABI, each with all that is in the one before
X86_64 = ("cmov", "cx8", "fxsr", "mmx", "sse", "sse2")
X86_64_V2 = (*X86_64, "cx16", "popcnt", "sahf", "sse3", "ssse3", "sse4.1", "sse4.2")
X86_64_V3 = (*X86_64_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
X86_64_V4 = (*X86_64_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
PROCESSORS: dict[str, Processor] = {
    p.name: p for p in (
        Processor("x86-64",    "x86_64",  X86_64),
        Processor("x86-64-v2", "x86_64",  X86_64_V2),
        Processor("x86-64-v3", "x86_64",  X86_64_V3),
        Processor("x86-64-v4", "x86_64",  X86_64_V4),
        Processor("armv8-a",   "aarch64", ("fp-armv8", "neon")),
    )
}  # fmt: skip

PYTHON = Target("python", "the TP-IR virtual machine", ("f64", "f32", "i64", "i32", "u64", "u32"), True)
LLVM = Target("llvm", "this processor, through LLVM", ("f64", "f32", "i64", "i32", "u64", "u32"), True)
C = Target("c", "this processor, through a C compiler", LLVM.dtypes, True)
NUMPY = Target("numpy", "NumPy, an array at a time", LLVM.dtypes, True)
# the float32 of OpenCL need not divide or take roots to the last bit
OPENCL = Target("opencl", "an OpenCL device with float64", ("f64", "i64", "i32", "u64", "u32"), True)

CUDA = Target("cuda", "an NVIDIA GPU, through its driver", LLVM.dtypes, True)

# in a browser, and on this machine in a runtime that is an extra
WASM = Target("wasm", "WebAssembly, in a browser or through wasmtime", LLVM.dtypes, True)

# on a graphics processor without float64; whether it has the bits of float32 is found out, and said by runs and reports
WEBGPU = Target("webgpu", "a WebGPU adapter, in a browser or through wgpu", ("f32", "i32", "u32"), False)

BUILT: dict[str, Target] = {t.backend: t for t in (LLVM, C, NUMPY, PYTHON, OPENCL, CUDA)}
# another library's arithmetic: compared with a tolerance
TORCH = Target("torch", "PyTorch, an array of members at a time", ("f64",), False)
JAX = Target("jax", "JAX, an array of members at a time", ("f64",), False)
LIBRARIES: dict[str, Target] = {t.backend: t for t in (TORCH, JAX)}
SANDBOXED: dict[str, Target] = {WASM.backend: WASM, WEBGPU.backend: WEBGPU}
TARGETS = BUILT | SANDBOXED | LIBRARIES
INTERPRETED = ("python", "numpy")  # operation by operation: what only has to be found out runs on another
