"""How does a program become kernels of a WebGPU adapter?  Text from emit/, run by device/, checked beside LLVM's.

A section that gives float64 (energies, observables) is of this processor: adapters have no such numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tinyphysics.device.host.arrays import Evaluator
from tinyphysics.device.numbers import NUMPY_DTYPE
from tinyphysics.device.protocols import Parts
from tinyphysics.device.webgpu.driver import Machine, OnMembers, machine
from tinyphysics.device.webgpu.probe import Probe
from tinyphysics.emit.scalar.shaders import Handed, probe_text, second_probe_text, section_name, written
from tinyphysics.emit.text.shading import WGSL
from tinyphysics.errors import BackendError
from tinyphysics.ir.dtype import f64
from tinyphysics.ir.uop import UOp
from tinyphysics.report import Row
from tinyphysics.runtime.engines.loaders import LlvmLoader
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import NOW, Section

ONE = VectorShape(1, 1)
MEMBERS, STEPS = 64, 64  # of the first block of a run, which are computed twice
Call = Callable[..., None]


def probed() -> Probe:
    """What the adapter of this process rounds."""
    return machine().probe(probe_text(WGSL), partial(second_probe_text, WGSL))


class WebGpuLoader:
    """A call for each member."""

    threads = by_address = False
    quick = None
    made = found = 0

    def __init__(self, everything: bool = False) -> None:
        self.everything = everything  # also what is for members that are marked

    def shape(self, section: Section, members: int) -> VectorShape:
        return ONE

    def load(
        self, parts: Parts, params: Sequence[UOp], varying: tuple[bool, ...], quick: bool = False
    ) -> list[Any]:
        return [self.one(f, params, varying) for f, _ in parts]

    def one(self, f: Section, params: Sequence[UOp], varying: tuple[bool, ...]) -> Call:
        if f.watched:
            if f.careful:
                return counted(here(f, params, varying))
            step = self.one(replace(f, name="step", watched=(), watched_guards=()), params, varying)
            assert isinstance(step, Begun)
            return watching(step, looked(f, params, varying), len(f.watched))
        if not f.loops and any(u.dtype is f64 for u in f.roots):
            return here(f, params, varying)
        if f.careful and not self.everything:  # a few members, now and then
            return counted(here(f, params, varying))
        m, probe = machine(), probed()
        text, (given,) = written(WGSL, [f], params, varying, probe.switches)
        pipeline = m.pipeline(m.module(text), section_name(f), {})
        self.made += 1
        most = 1 << (14 if given.clock else 24)  # numbers of the time are a table
        call = OnMembers(m, pipeline, handed(given, params, varying), f.operations, f.loops, most)
        return Begun(call, here(f, params, varying), m, probe, f.highs) if f.loops else call


def here(f: Section, params: Sequence[UOp], varying: tuple[bool, ...]) -> Call:
    """The section on this processor."""
    call: Call = LlvmLoader(shape=ONE).load([(f, ONE)], params, varying)[0]
    return call


def counted(call: Call) -> Call:
    """Members that are done by this processor, for the report."""

    def run(*given: Any) -> None:
        call(*given)
        machine().done_here += given[7] - given[6]

    return run


def looked(f: Section, params: Sequence[UOp], varying: tuple[bool, ...]) -> Call:
    """What is observed, of states."""
    roots = tuple(u.cast(f64) if u.dtype is not f64 else u for u in f.watched)
    one = Section("look", f.loads, roots, f.watched_guards, f.invariants, careful=f.careful)
    return here(one, params, varying)


def watching(step: Begun, look: Call, count: int) -> Call:
    """So many rows of what is observed, each after a stride of steps."""

    def call(
        source: Any, out: Any, uniform: Any, varying: Any, flags: Any, series: Any,
        begin: int, end: int, members: int, first: int, rows: int, stride: int,
    ) -> None:  # fmt: skip
        if first == 0:
            step.check(source, uniform, varying, begin, end, rows * stride)
        state, row = source, np.empty((count, source.shape[1]))
        seen = np.zeros(source.shape[1], np.int8)
        new = np.array(source)
        for j in range(rows):
            step.there(
                state, new, uniform, varying, flags, None, begin, end, members, first + j * stride, stride, 1
            )
            seen |= flags
            state = new
            look(
                state, row, uniform, varying, flags, None, begin, end, members, first + (j + 1) * stride, 1, 1
            )
            seen |= flags
            series[j, :, begin:end] = row[:, begin:end]
        flags[begin:end] = seen[begin:end]
        well = seen[begin:end] == 0
        out[:, begin:end][:, well] = new[:, begin:end][:, well]

    return call


def handed(
    given: Handed, params: Sequence[UOp], varying: tuple[bool, ...]
) -> Callable[[Any, Any, int, int], tuple[Any, Any, Any]]:
    """The words that are computed before a dispatch."""
    alike, own, clock = (Evaluator(roots) for roots in (given.alike, given.own, given.clock))

    def rows(e: Evaluator, env: dict[UOp, Any], count: int) -> Any:
        with np.errstate(all="ignore"):
            return np.array([words(np.broadcast_to(v, count)) for v in e(env)], np.uint32)

    def call(uniform: Any, each: Any, first: int, steps: int) -> tuple[Any, Any, Any]:
        same = {p: uniform[k : k + 1].astype(kind(p)) for k, p in enumerate(params) if not varying[k]}
        members = 1 if each is None else each.shape[1]
        apart = {p: each[k].astype(kind(p)) for k, p in enumerate(params) if varying[k]}
        times = {NOW: np.arange(first, first + steps, dtype=np.float64)} if given.clock else {}
        return rows(alike, same, 1), rows(own, same | apart, members), rows(clock, same | times, steps)

    return call


def kind(u: UOp) -> Any:
    return NUMPY_DTYPE[u.dtype.name]


def words(a: Any) -> Any:
    return a.astype(np.uint32) if a.dtype.kind == "b" else np.ascontiguousarray(a).view(np.uint32)


@dataclass(frozen=True)
class Begun:
    """A loop whose first block of a run is compared with that of this processor."""

    there: OnMembers
    reference: Call
    m: Machine
    probe: Probe
    highs: tuple[int, ...] = ()  # of error words the rows that they are added to

    def __call__(
        self, source: Any, out: Any, uniform: Any, varying: Any, flags: Any, series: Any,
        begin: int, end: int, members: int, first: int, rows: int, stride: int,
    ) -> None:  # fmt: skip
        if first == 0:
            self.check(source, uniform, varying, begin, end, rows)
        self.there(source, out, uniform, varying, flags, series, begin, end, members, first, rows, stride)

    def check(self, source: Any, uniform: Any, varying: Any, begin: int, end: int, steps: int) -> None:
        few, n = min(end - begin, MEMBERS), min(steps, STEPS)
        if not few or not n:
            return
        given = np.ascontiguousarray(source[:, begin : begin + few])
        own = None if varying is None else np.ascontiguousarray(varying[:, begin : begin + few])
        a, b, marks = np.zeros_like(given), np.zeros_like(given), np.zeros((2, few), np.int8)
        for call, out, seen in ((self.there, a, marks[0]), (self.reference, b, marks[1])):
            call(given, out, uniform, own, seen, None, 0, few, few, 0, n, 1)
        compare(a, b, marks, n, self.m, self.probe, self.highs)


def compare(
    a: Any, b: Any, marks: Any, steps: int, m: Machine, probe: Probe, highs: Sequence[int] = ()
) -> None:
    """An error where bits are claimed and differ; else the largest difference is kept for the report."""
    well = (marks == 0).all(axis=0) & np.isfinite(b).all(axis=0)
    same = (a.view(np.uint32) == b.view(np.uint32)).all(axis=0)
    if probe.claims_bits:
        if not same[well].all():
            member = int(np.flatnonzero(well & ~same)[0])
            raise BackendError(
                f"`{m.info}` passed the probe, but after {steps} steps member {member} has other bits than on this processor",
                fix='Leave backend= out, or choose backend="wasm".',
            )
        return
    with np.errstate(all="ignore"):
        x, y = (together(v[:, well], highs) for v in (a, b))
        size = np.abs(y).max(axis=1, keepdims=True, initial=0.0)
        far = float(np.max(np.abs(x - y) / np.where(size == 0, 1, size), initial=0.0))
    m.off = max(m.off, far)


def together(v: Any, highs: Sequence[int]) -> Any:
    """Numbers in float64, each with its error word; a row of error words alone says nothing."""
    out = v.astype(np.float64)
    lows = [k for k, high in enumerate(highs) if k != high]
    for k in lows:
        out[highs[k]] += out[k]
    out[lows] = 0.0
    return out


def machine_rows() -> tuple[Row, ...]:
    """What the report says of the adapter."""
    m, probe = machine(), probed()
    told = "the first block of a run is compared with llvm" if probe.claims_bits else probe.why_not
    bits = Row("bits", "exact" if probe.claims_bits else "not in the contract", told)
    return (Row("adapter", m.info.name, f"through {m.info.backend}: {probe}"), bits)


def note() -> str:
    """What a run says of its bits."""
    m, probe = machine(), probed()
    if probe.claims_bits:
        return f"webgpu: `{m.info}`: {probe}; the first {STEPS} steps are those of llvm"
    why = f"does not have the bits of llvm ({probe.why_not}); off by {m.off:.1e} in the first {STEPS} steps"
    return f"webgpu: `{m.info}` {why}"
