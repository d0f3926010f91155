"""How does a section become a function?  Rendered as text by emit/, compiled and loaded by device/."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tinyphysics.device import cache
from tinyphysics.device.engines.engine import calling, pointer
from tinyphysics.device.host import llvm
from tinyphysics.device.host.cc import build, for_processor, load_library
from tinyphysics.device.host.llvm import SIGNATURE, Cpu
from tinyphysics.device.host.nests import ArrayLoops
from tinyphysics.device.host.processor import processor, runs
from tinyphysics.device.host.tree_nodes import Functions
from tinyphysics.device.protocols import Code, Parts
from tinyphysics.emit.kinds import cnests as emit_cnests
from tinyphysics.emit.kinds.neighbours import list_builder as emit_lists
from tinyphysics.emit.kinds.series.series import SeriesWriter
from tinyphysics.emit.kinds.trees import tree_functions as emit_tree
from tinyphysics.emit.modules import nests as emit_nests
from tinyphysics.emit.modules import passage as emit_passage
from tinyphysics.emit.modules import team as emit_team
from tinyphysics.emit.scalar import c as emit_c
from tinyphysics.emit.scalar import llvm as emit_llvm
from tinyphysics.ir.uop import UOp
from tinyphysics.planner.cost.machine import shape_for
from tinyphysics.rules.calculus.series import SeriesPlan
from tinyphysics.runtime.engines.tiers import LONG_NESTS, PER_LINE_OF_NESTS, OnArrays, Tiers
from tinyphysics.target import VectorShape, core_of
from tinyphysics.tpir.kernels.kernel import Section
from tinyphysics.tpir.kernels.nests import LoopKernel
from tinyphysics.tpir.kernels.outline import SectionOutline
from tinyphysics.tpir.kernels.wavefront import wavefront
from tinyphysics.util import digest

OBJECT = re.compile(r"[0-9a-f]{32}\.o")  # names that `object_name` gives


def per_double(section: Section) -> int:
    """How many of its numbers take the room of one double."""
    return 64 // section.loads[0].dtype.bits if section.loads else 1


TEAM = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
SECTION = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)
PART = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)


@lru_cache(maxsize=4)
def team_for(cpu: Cpu) -> Any:
    """What each of several threads calls."""
    text = emit_team.llvm(cpu.x86)
    code, _ = llvm.stored(llvm.object_name(text, cpu), text, cpu)
    return llvm.link(code, {"team": TEAM})["team"]


@lru_cache(maxsize=4)
def passage_for(cpu: Cpu) -> Any:
    """What they do with the members of a tile."""
    text = emit_passage.llvm()
    code, _ = llvm.stored(llvm.object_name(text, cpu), text, cpu)
    return llvm.link(code, {"passage": PART})["passage"]


@lru_cache(maxsize=1)
def c_team() -> Any:
    return TEAM(("team", load_library(build(emit_team.C))))


@lru_cache(maxsize=1)
def c_passage() -> Any:
    return PART(("passage", load_library(build(emit_passage.C))))


class LlvmLoader:
    """For the processor that code is made for, with vectors as wide as it has."""

    threads = by_address = True

    def __init__(self, cpu: Cpu | None = None, shape: VectorShape | None = None) -> None:
        self.cpu = processor() if cpu is None else cpu
        self.core = core_of(self.cpu.name, self.cpu.width)
        self.fixed = shape
        self.quick = VectorShape(1, 1) if shape is None else None
        self.made = self.found = 0  # modules compiled, and taken from the cache

    @property
    def passage(self) -> Any:
        return team_for(runs(self.cpu)), passage_for(runs(self.cpu))

    def width(self, section: Section) -> int:
        """Numbers of a section in one vector."""
        return self.cpu.width * per_double(section)

    def shape(self, section: Section, members: int) -> VectorShape:
        if self.fixed is not None:
            return self.fixed
        return shape_for(section, members, self.core, self.width(section))

    def load(
        self, parts: Parts, params: Sequence[UOp], varying: tuple[bool, ...], quick: bool = False
    ) -> list[Any]:
        level, cpu = llvm.QUICK if quick else llvm.OPTIMISATION, runs(self.cpu)
        note = self.note(parts, varying, level, cpu)
        name = (cache.read(note) or b"").decode("ascii", "replace") if note else ""
        code = cache.read(name) if OBJECT.fullmatch(name) else None
        found = code is not None
        if code is None:
            whole = [(f.written(quick) if isinstance(f, SectionOutline) else f, shape) for f, shape in parts]
            text = emit_llvm.module(whole, params, varying, self.cpu.x86)
            named = llvm.object_name(text, cpu, level)
            code, found = llvm.stored(named, text, cpu, level)
            if note:
                cache.write(note, named.encode())
        self.found += found
        self.made += not found
        return [calling(f) for f in llvm.link(code, {f.name: SIGNATURE for f, _ in parts}).values()]

    def note(self, parts: Parts, varying: tuple[bool, ...], level: int, cpu: Cpu) -> str | None:
        """Where it is noted which object these sections became; None for sections without a key."""
        known = [(f.key, f.name, f.careful, shape) for f, shape in parts if isinstance(f, SectionOutline)]
        if len(known) < len(parts):
            return None
        return digest(repr([known, varying, level, llvm.llvm_version(), cpu]).encode()) + ".note"


class CLoader:
    """Through the C compiler that is there."""

    threads = by_address = True
    quick = None
    made = found = 0
    passage = property(lambda self: (c_team(), c_passage()))

    def __init__(self) -> None:
        self.march = for_processor()

    def shape(self, section: Section, members: int) -> VectorShape:
        return VectorShape(1, 1) if members == 1 else VectorShape(emit_c.CHUNK * per_double(section), 1)

    def load(
        self, parts: Parts, params: Sequence[UOp], varying: tuple[bool, ...], quick: bool = False
    ) -> list[Any]:
        library = load_library(build(emit_c.module(parts, params, varying), march=self.march))
        return [calling(SIGNATURE((f.name, library))) for f, _ in parts]


def on_arrays(f: Any, owner: Any) -> Any:
    """A C function as one that takes arrays; it keeps alive what its code lives in."""

    def call(table: Any, uniform: Any, flags: Any, *numbers: int) -> None:
        f(pointer(table), pointer(uniform), pointer(flags), *numbers)

    call.owner, call.at = owner, ctypes.cast(f, ctypes.c_void_p).value  # type: ignore[attr-defined]
    return call


def function_names(kernel: LoopKernel) -> dict[str, Any]:
    """Every function of a kernel's module, with its signature."""
    out: dict[str, Any] = {}
    for section in kernel.sections.values():
        out[section.name] = SECTION
        out |= {f"part.{section.name}.{k}": PART for k in range(len(section.nests))}
        if wavefront(section, kernel.buffers) is not None:
            out |= {f"part.{half}.{section.name}": PART for half in ("sweep", "edge")}
    return out


LIST = ctypes.CFUNCTYPE(
    ctypes.c_int64,
    ctypes.c_void_p,
    *[ctypes.c_int64] * 2,
    *[ctypes.c_void_p] * 3,
    *[ctypes.c_int64] * 3,
    *[ctypes.c_void_p] * 7,
    *[ctypes.c_int64] * 3,
)


def list_builder(d: int, periodic: bool, straight: bool) -> Any:
    """What makes lists of neighbours, for every backend: which blocks they hold is no part of a result."""
    return builder_for(runs(processor()), d, periodic, straight)


@lru_cache(maxsize=16)
def builder_for(cpu: Cpu, d: int, periodic: bool, straight: bool) -> Any:
    text = emit_lists.module(d, periodic, straight)
    code, _ = llvm.stored(llvm.object_name(text, cpu), text, cpu)
    return llvm.link(code, {"build": LIST})["build"]


ARGUMENT = {"p": ctypes.c_void_p, "i": ctypes.c_int64, "d": ctypes.c_double}


def taking(kinds: str, result: Any = None) -> Any:
    return ctypes.CFUNCTYPE(result, *(ARGUMENT[k] for k in kinds))


TREE = {
    "keys": taking("piipp"),
    "direct": taking("piippiidp"),
    "walk": taking("pipiiipddpiipppp", ctypes.c_int64),
    "back": taking("pipiiipddpiipppppppp", ctypes.c_int64),
}


def tree_functions() -> Functions:
    """What sums through a tree, for every backend: one piece of code, so that their bits agree."""
    return tree_for(runs(processor()))


@lru_cache(maxsize=4)
def tree_for(cpu: Cpu) -> Functions:
    text = emit_tree.module()
    code, _ = llvm.stored(llvm.object_name(text, cpu), text, cpu)
    return Functions(**llvm.link(code, TREE))


SERIES = taking("ppppdi")


def series_code(plan: SeriesPlan, parts: Any) -> Code:
    """A Taylor series in loops."""
    w, cpu = SeriesWriter(plan, *parts), runs(processor())
    tiers = Tiers(w.module(cpu.x86), cpu, {"advance": SERIES, "look": SERIES})

    def calling_(f: Any) -> Any:
        return lambda state, constants, tables, scratch, until, count: f(
            *(pointer(a) for a in (state, constants, tables, scratch)), until, count
        )

    advance, look = calling_(tiers.function("advance")), calling_(tiers.function("look"))
    return Code(advance, look, w.scratch, tiers.made, tiers.found)


def numpy_loops() -> ArrayLoops:
    """Loop nests by NumPy, the independent check."""
    return ArrayLoops()


class LlvmLoops:
    """Loop nests for the processor that code is made for."""

    threads = True

    def __init__(self, cpu: Cpu | None = None, width: int | None = None) -> None:
        self.cpu = processor() if cpu is None else cpu
        self.width = self.cpu.width if width is None else width
        self.made = self.found = 0

    @property
    def team(self) -> Any:
        return team_for(runs(self.cpu))

    def load(self, kernel: LoopKernel, careful: bool) -> dict[str, Any]:
        text = emit_nests.module(kernel, careful, self.width, self.cpu.x86)
        names = function_names(kernel)
        tiers = Tiers(text, runs(self.cpu), names, LONG_NESTS, PER_LINE_OF_NESTS)
        self.found += tiers.found
        self.made += tiers.made
        return {
            name: OnArrays(tiers, name) if tiers.waits else on_arrays(f, f)
            for name, f in tiers.functions.items()
        }


class CLoops:
    """Loop nests through the C compiler that is there."""

    threads = True
    team = property(lambda self: c_team())
    made = found = 0

    def __init__(self) -> None:
        self.march = for_processor()

    def load(self, kernel: LoopKernel, careful: bool) -> dict[str, Any]:
        library = load_library(build(emit_cnests.module(kernel, careful), march=self.march))
        return {
            n: on_arrays(signature((n.replace(".", "_"), library)), library)
            for n, signature in function_names(kernel).items()
        }
