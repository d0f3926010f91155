"""What do windows onto a simulation show?  One dictionary of plain values: texts with their lines, report, kernel, run."""

from __future__ import annotations

import base64
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.device.wasm.module import binary
from tinyphysics.emit.scalar import wasm
from tinyphysics.emit.scalar.shaders import probe_text, second_probe_text, section_name, written
from tinyphysics.emit.text.shading import WGSL
from tinyphysics.errors import BackendError, InputError, PlanError, TinyPhysicsError
from tinyphysics.explorer.energy import NAME as ENERGY
from tinyphysics.explorer.energy import energy_section
from tinyphysics.ir.dtype import bool_, f32, i32
from tinyphysics.ir.uop import UOp
from tinyphysics.planner.cost.target import SHORT
from tinyphysics.planner.methods.catalog import names
from tinyphysics.runtime.api.lines import ABOVE, Tower
from tinyphysics.runtime.api.simulation import Simulation
from tinyphysics.runtime.api.taken_kernel import TakenKernel
from tinyphysics.runtime.engines.emissions import plain
from tinyphysics.system import System
from tinyphysics.tpir.kernels.kernel import Section
from tinyphysics.util import prod
from tinyphysics.version import __version__

SHOWN = (
    "source",
    "uop",
    "facts",
    "plan",
    "tpir",
    "kernel",
    "c",
    "cuda",
    "llvm",
    "asm",
    "ptx",
    "wasm",
    "wgsl",
)
TITLES = {
    "source": "your file", "uop": "graph", "facts": "facts", "plan": "plan", "tpir": "TP-IR", "kernel": "kernel", "c": "C",
    "cuda": "CUDA", "llvm": "LLVM", "asm": "assembler", "ptx": "PTX", "wasm": "WebAssembly", "wgsl": "WGSL",
}  # fmt: skip
FRAMES = 600
HANDED = "handed"  # a section: what a step on an adapter is given
RUNS = ("float64", "float32", "int64")  # types of states that a page computes


def state_of(sim: Simulation, start: Mapping[str, Any], steps: int = FRAMES) -> dict[str, Any]:
    """Everything that a page shows of a simulation, and of a run from a start."""
    computed = computes(sim, start, steps)  # first: the report then knows this start
    tower = Tower(sim)
    system = tower.built.system
    return {
        "name": system.name, "question": question(system), "version": __version__, "backend": sim.built.target.backend,
        "method": tower.built.plan.method, "methods": [] if system.kind == "map" else list(dict.fromkeys(("auto", *names()))),
        "levels": levels(tower), "report": report(sim), **computed,
    }  # fmt: skip


def computes(sim: Simulation, start: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """The kernel and a run to compare with; or why a page does not compute this one."""
    try:
        op = sim.kernel("wasm")
    except PlanError as error:
        return {"kernel": None, "run": None, "why": " ".join(str(error).split())}
    whole = not all(s.var.dtype.is_float for s in sim.system.states)
    if (
        whole
        or op.buffers[0].type not in RUNS
        or len(op.buffers[0].rows) != sum(prod(s[1]) for s in words(sim, op))
    ):
        why = f"a page computes runs in {' and '.join(RUNS)}, and this one is in {sim.goal.precision}"
        return {"kernel": None, "run": None, "why": why}
    return {"kernel": kernel(op, sim), "run": run(sim, start, steps)}


def question(system: System) -> str:
    """The first sentence of the file that a system is from."""
    function = system.function
    module = inspect.getmodule(function) if function is not None else None
    text = (
        getattr(module, "__doc__", None) or (function.__doc__ if function is not None else None) or ""
    ).strip()
    return text.partition("\n\n")[0].replace("\n", " ")


def levels(tower: Tower) -> list[dict[str, Any]]:
    """Texts with numbers of the lines above; lines of the source have their number in the file."""
    out, is_short = [], tower.sim.goal.precision in SHORT
    for name in SHOWN if is_short else SHOWN[:-1]:
        try:
            lines = tower.level(name)
        except TinyPhysicsError as error:
            out.append(
                {
                    "name": name,
                    "title": TITLES[name],
                    "above": ABOVE[name],
                    "why": " ".join(str(error).split()),
                }
            )
            continue
        rules = list(dict.fromkeys(line.rule for line in lines))
        level: dict[str, Any] = {
            "name": name, "title": TITLES[name], "above": ABOVE[name], "rules": rules,
            "lines": [[line.text, list(line.above), rules.index(line.rule), int(line.is_code)] for line in lines],
        }  # fmt: skip
        if name == "source":
            level["numbers"] = [line.user[0].line for line in lines]
            level["files"] = sorted({Path(line.user[0].file).name for line in lines})
        out.append(level)
    return out


def report(sim: Simulation) -> list[dict[str, Any]]:
    """Sections of the full report, with their rows."""
    found = sim.explain("full")
    return [
        {
            "title": s.title,
            "rows": [[r.name, r.verdict, r.because, r.where] for r in s.rows],
        }
        for s in found.sections
    ]


def words(sim: Simulation, op: TakenKernel) -> list[tuple[str, list[int], str, str, float]]:
    """(name, shape, type, role, unit) of each word of a state, as a run keeps it.

    The unit is what 1 is worth; of a second word 0: it is added to the first one.
    """
    precision, out = sim.compiled.encoding.precision, []
    kind = np.dtype(op.buffers[0].type).str
    for s in sim.system.states:
        unit = 1.0 if precision.state.is_float else float(precision.unit(s.name))
        for k, name in enumerate(precision.names(s.name)):
            out.append((name, list(s.var.shape), kind, "word" if k else s.role, 0.0 if k else unit))
    return out


def kernel(op: TakenKernel, sim: Simulation) -> dict[str, Any]:
    """The module of a run, its layout, and the energy as one more function."""
    system, kept = sim.system, words(sim, op)
    sections = list(op.sections)
    extra = energy_section(system, op.sections[0].loads) if op.buffers[0].type == "float64" else None
    if extra is not None:
        sections.append(extra)
    gpu = on_adapter(op)
    if gpu is not None:
        sections.append(gpu[1])
    code, _ = binary(wasm.module(sections, op.params, plain(op.params)), [f.name for f in sections])
    return {
        "module": base64.b64encode(code).decode(),
        "functions": [f.name for f in sections],
        "energy": ENERGY if extra is not None else None,
        "state": {"type": op.buffers[0].type, "rows": list(op.buffers[0].rows)},
        "loop": {"type": op.buffers[1].type, "rows": len(op.buffers[1].rows)},
        "constants": [[c.name, c.value] for c in op.constants if c.type == "f64"],
        "states": [[name, shape, kind, role] for name, shape, kind, role, _ in kept],
        "units": [unit for _, shape, _, _, unit in kept for _ in range(prod(shape))],
        "hash": op.hash,
        "gpu": None if gpu is None else gpu[0],
    }


def on_adapter(op: TakenKernel) -> tuple[dict[str, Any], Section] | None:
    """The step in WGSL with what an adapter is asked, and the words that it is given as one more section; float32 alone."""
    if op.buffers[0].type != "float32":
        return None
    step = next(f for f in op.sections if f.name == "step")
    try:
        text, (given,) = written(WGSL, [step], op.params, plain(op.params))
    except BackendError:
        return None
    if given.own or given.clock:
        return None
    roots = tuple(as_float(u) for u in given.alike)
    handed = Section(HANDED, step.loads, roots or step.loads[:1], (), {}, careful=True)
    told = {"text": text, "entry": section_name(step), "handed": HANDED, "alike": len(given.alike)}
    return {**told, "probe": probe_text(WGSL), "second": second_probe_text(WGSL, None)}, handed


def as_float(u: UOp) -> UOp:
    """The bits of a word as a float: all rows of a section have one type."""
    if u.dtype is bool_:
        u = u.where(UOp.const(1, i32), UOp.const(0, i32))
    return u if u.dtype is f32 else u.bitcast(f32)


def run(sim: Simulation, start: Mapping[str, Any], steps: int) -> dict[str, Any] | None:
    """A run in Python, to be compared with that of the page: where it begins, and the hash of its end."""
    rows = {str(name): value for name, value in start.items()}
    states = [s.name for s in sim.system.states]
    if any(name not in rows for name in states):
        missing = next(name for name in states if name not in rows)
        raise InputError(
            f"the start has no `{missing}`",
            fix=f"Write start = dict({', '.join(f'{n}=...' for n in states)}).",
        )
    for s in sim.system.states:
        if np.ndim(rows[s.name]) > len(s.var.shape):
            raise InputError(
                f"a page shows one start, and `{s.name}` has several members", fix="Give one state."
            )
    out = sim.evolve(**start, steps=steps, frames=2)
    values: list[Any] = []
    for v in out.kept.values():  # numbers of 63 bits as text, since those of JavaScript have 53
        first = np.ravel(np.asarray(v[0]))
        values += map(str, first.tolist()) if first.dtype.kind == "i" else first.astype(float).tolist()
    given = {n: float(v) for n, v in rows.items() if n not in states and np.ndim(v) == 0}
    return {
        "start": values, "steps": steps, "given": given, "hash": out.hash,
        "stopped": None if out.stopped is None else [out.stopped.cause, out.stopped.step],
    }  # fmt: skip
