"""Code for other processors, on this one: run where it can be, imitated where it cannot.

The LLVM IR for a processor differs from that for another in how wide its vectors are and in which instruction it begins
1/sqrt x with. Any host runs the first; of the second there is a model here, in LLVM IR as well, which is as wrong as the
manuals allow: too small for half of the numbers and too large for the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tinyphysics.context import PROCESSOR
from tinyphysics.device.host import llvm
from tinyphysics.device.host.llvm import host_cpu
from tinyphysics.device.host.processor import missing, named
from tinyphysics.runtime.engines import loaders
from tinyphysics.runtime.engines.backend import engine_for, series_engine
from tinyphysics.target import PROCESSORS

HERE = [name for name in PROCESSORS if not missing(named(name))]
OTHERS = [name for name in PROCESSORS if name not in HERE]

# digits that are kept, and whether numbers below the normal ones count as 0: Intel's manual, volume 2, on RSQRTPS and
# VRSQRT14PD; the PTX manual on rsqrt.approx.ftz
MODELS = [
    (r"x86\.(?:sse|avx)\.rsqrt\.ps(?:\.256)?", 12, True),
    (r"x86\.avx512\.rsqrt14\.p[sd]\.\d+", 14, False),
    (r"nvvm\.rsqrt\.approx\.ftz\.d", 20, True),
    (r"nvvm\.rsqrt\.approx\.ftz\.f", 23, True),
]
DECLARED = re.compile(r"^declare (<(\d+) x (float|double)>|float|double) @llvm\.(\S+)\((.*)\)$", re.M)
MODE = re.compile(r"^  call void @llvm\.x86\.sse\.(?:st|ld)mxcsr\(ptr .*\)$", re.M)


def model(name: str, vector: str, lanes: int, element: str, rest: str, digits: int, flush: bool) -> str:
    """1/sqrt x with few digits, as a function of LLVM IR with the arguments of the instruction."""
    size, mantissa, least = (
        (64, 52, "0x0010000000000000") if element == "double" else (32, 23, "0x3810000000000000")
    )
    integer = f"<{lanes} x i{size}>" if lanes else f"i{size}"

    def all_of(kind: str, value: str) -> str:
        return f"<{', '.join([f'{kind} {value}'] * lanes)}>" if lanes else value

    def whole(value: int) -> str:
        return all_of(f"i{size}", str(value))

    masked = f"%m{''.join(f', {t.strip()}' for t in rest.split(',')[1:])}"
    below = (1 << (mantissa - digits)) - 1
    flushed = [
        f"  %tiny = fcmp olt {vector} %size, {all_of(element, least)}",
        f"  %x = select {'i1' if not lanes else f'<{lanes} x i1>'} %tiny, {vector} %zero, {vector} %m",
    ]
    kind = {("double", 0): "f64", ("float", 0): "f32"}.get((element, lanes), f"v{lanes}f{size}")
    return "\n".join(
        [
            f"declare {vector} @llvm.sqrt.{kind}({vector})",
            f"declare {vector} @llvm.fabs.{kind}({vector})",
            f"declare {vector} @llvm.copysign.{kind}({vector}, {vector})",
            f"define internal {vector} @{name}({vector} {masked}) {{",
            f"  %size = call {vector} @llvm.fabs.{kind}({vector} %m)",
            f"  %zero = call {vector} @llvm.copysign.{kind}({vector} {all_of(element, '0.0')}, {vector} %m)",
            *(flushed if flush else [f"  %x = fadd {vector} %m, {all_of(element, '-0.0')}"]),
            f"  %root = call {vector} @llvm.sqrt.{kind}({vector} %x)",
            f"  %y = fdiv {vector} {all_of(element, '1.0')}, %root",
            f"  %bits = bitcast {vector} %y to {integer}",
            f"  %given = bitcast {vector} %x to {integer}",
            f"  %odd = and {integer} %given, {whole(1)}",
            f"  %less = sub {integer} {whole(0)}, %odd",
            f"  %up = and {integer} %less, {whole(below)}",
            f"  %raised = add {integer} %bits, %up",
            f"  %kept = and {integer} %raised, {whole(~below)}",
            f"  %out = bitcast {integer} %kept to {vector}",
            f"  ret {vector} %out",
            "}",
        ]
    )


def imitation(text: str) -> str:
    """A module without instructions that this processor may not have."""
    known: dict[str, None] = {}

    def replaced(m: re.Match[str]) -> str:
        for pattern, digits, flush in MODELS:
            if re.fullmatch(pattern, m[4]):
                known[f"@llvm.{m[4]}("] = None
                return model(f"model.{m[4]}", m[1], int(m[2] or 0), m[3] or m[1], m[5], digits, flush)
        return m[0]

    out = DECLARED.sub(replaced, text)
    for name in known:
        out = out.replace(name, name.replace("@llvm.", "@model."))
    if not host_cpu().x86:  # whose mode is the one wanted
        out = MODE.sub("", out)
    seen: set[str] = set()  # two models may need the same function
    lines = []
    for line in out.splitlines():
        if not line.startswith("declare") or line not in seen:
            lines.append(line)
        seen.add(line)
    return "\n".join(lines) + "\n"


@contextmanager
def imitated(name: str, monkeypatch, folder) -> Iterator[None]:
    """Runs have the kernels for a processor, compiled for this one; their objects are kept apart."""
    compiled = llvm.compile_text
    folder.mkdir(mode=0o700, exist_ok=True)
    with monkeypatch.context() as patch, PROCESSOR(name):
        patch.setenv("TINYPHYSICS_CACHE", str(folder))
        patch.setattr(loaders, "runs", lambda cpu: host_cpu())
        patch.setattr(llvm, "compile_text", lambda text, *rest: compiled(imitation(text), *rest))
        for engines in (engine_for, series_engine):
            engines.cache_clear()
        yield
    for engines in (engine_for, series_engine):
        engines.cache_clear()
