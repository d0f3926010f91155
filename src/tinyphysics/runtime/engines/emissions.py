"""In which languages can a kernel be taken away, and what of that is compiled and run on this machine?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tinyphysics.device.cuda import nvptx
from tinyphysics.device.host.spirv import binary as spirv_made
from tinyphysics.device.wasm.module import binary
from tinyphysics.emit.scalar import c, cuda, opencl, ptx, shaders, spirv, wasm
from tinyphysics.emit.scalar.llvm import module as llvm_module
from tinyphysics.emit.text.shading import GLSL, WGSL
from tinyphysics.ir.uop import UOp
from tinyphysics.runtime.engines.backend import ready
from tinyphysics.runtime.engines.loaders import CLoader, LlvmLoader
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import Section

ONE = VectorShape(1, 1)
THREADS = 128  # of a block, on a GPU
Sections = Sequence[Section]
Params = Sequence[UOp]


def plain(params: Params) -> tuple[bool, ...]:
    """Of a kernel that is taken away, members share all parameters."""
    return (False,) * len(params)


@dataclass(frozen=True)
class Emission:
    """A target of `sim.kernel`: how the kernel is written for it, and what runs that here."""

    name: str
    emitted: str  # what it is, in words
    write: Callable[[Sections, Params], str | bytes]
    compiled: str = ""  # by what, on this machine; empty: here it is text
    executed: str = ""  # by what, on this machine; empty: it is taken elsewhere
    backend: str = ""  # that has to be there for it
    threads: int = 0  # of a block; 0: one call does all members
    prefix: str = ""  # of the names of its functions
    handed: bool = False  # does it read words that are computed from the constants (TakenKernel.words)?


def parts(sections: Sections) -> list[tuple[Section, VectorShape]]:
    return [(f, ONE) for f in sections]


def wasm_binary(sections: Sections, params: Params) -> bytes:
    return binary(wasm.module(sections, params, plain(params)), [f.name for f in sections])[0]


def ptx_text(sections: Sections, params: Params) -> str:
    return nvptx.compiled(ptx.module(parts(sections), params, plain(params), marked=False))


def spirv_binary(sections: Sections, params: Params) -> bytes:
    return spirv_made(spirv.module(sections, params, plain(params)))


def wgsl_text(sections: Sections, params: Params) -> str:
    return shaders.written(WGSL, sections, params, plain(params))[0]


def glsl_text(sections: Sections, params: Params) -> str:
    """All sections; which of them `main` is says a name that is defined before."""
    text = shaders.written(GLSL, sections, params, plain(params))[0]
    return f"#version 450\n#ifndef SECTION\n#define SECTION section_step\n#endif\n{text}void main() {{ SECTION(); }}\n"


EMISSIONS: dict[str, Emission] = {
    e.name: e for e in (
        Emission("c", "C11, a function for each section", lambda s, p: c.module(parts(s), p, plain(p)),
                 "the C compiler", "this processor", "c"),
        Emission("llvm", "LLVM IR of one lane", lambda s, p: llvm_module(parts(s), p, plain(p), LlvmLoader().cpu.x86),
                 "LLVM", "this processor", "llvm"),
        Emission("wasm", "a WebAssembly module", wasm_binary, "LLVM", "wasmtime", "wasm"),
        Emission("opencl", "OpenCL C, a work-item for each member", lambda s, p: opencl.module(parts(s), p, plain(p)),
                 threads=64, prefix="section_"),
        Emission("cuda", "CUDA C, a thread for each member", lambda s, p: cuda.module(parts(s), p, plain(p)),
                 threads=THREADS, prefix="section_"),
        Emission("wgsl", "WGSL, a call for each member; float32", wgsl_text, "wgpu", "a WebGPU adapter", "webgpu",
                 threads=64, prefix="section_", handed=True),
        Emission("glsl", "GLSL 4.50, a call for each member; float32", glsl_text, threads=64, prefix="section_",
                 handed=True),
        Emission("spirv", "a SPIR-V 1.2 module of OpenCL kernels", spirv_binary, "LLVM", threads=64),
        Emission("ptx", "PTX, a thread for each member", ptx_text, "LLVM", threads=THREADS),
    )
}  # fmt: skip


def functions(e: Emission, code: str | bytes, sections: Sections, params: Params) -> tuple[list[Any], Any]:
    """(the sections as functions of arrays, the memory that they want these arrays in or None)."""
    ready(e.backend)
    if e.name == "wasm":
        from tinyphysics.device.wasm.driver import Instance  # an extra

        assert isinstance(code, bytes)
        one = Instance(code)
        return [one.function(f.name) for f in sections], one
    if e.name == "wgsl":
        from tinyphysics.runtime.engines.webgpu import WebGpuLoader  # an extra

        return WebGpuLoader(everything=True).load(parts(sections), params, plain(params)), None
    loader = CLoader() if e.name == "c" else LlvmLoader(shape=ONE)
    return loader.load(parts(sections), params, plain(params)), None
