"""A run as a program of its own: `tp build FILE --static` makes a binary of a start, dt and a number of steps.

It prints the last state and its hash, which is the one of the run in Python; that is checked before it is handed over, on
the first steps if there are many. It steps: of a system whose loop Python deletes it has the hash of propagator="loop".
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.device.host.cc import executable
from tinyphysics.emit.modules.baked import BAKED, BAKED_LOOPS, baked
from tinyphysics.emit.modules.cloops import complete_loops
from tinyphysics.emit.scalar.cmain import complete_program
from tinyphysics.errors import BackendError, InputError, PlanError, StoreError
from tinyphysics.planner.cost.target import in_loops
from tinyphysics.runtime.api.simulation import Simulation
from tinyphysics.runtime.state.ensemble import Inputs, inputs
from tinyphysics.runtime.state.run import made
from tinyphysics.target import PORTABLE
from tinyphysics.tpir.kernels.kernel import build_kernel
from tinyphysics.tpir.kernels.loops import build_loops
from tinyphysics.tpir.kernels.rows import in_rows
from tinyphysics.tpir.program.isa import Program

CHECKED = 10_000  # steps that are run in Python and by the binary, to compare their hashes


@dataclass(frozen=True)
class Built:
    path: Path
    bytes: int
    steps: int
    checked: int  # steps after which the hash was compared with that of Python
    hash: str  # after those
    loop: bool  # Python's own run would delete the loop


def build(sim: Simulation, start: Mapping[str, Any], steps: int, target: Path, static: bool) -> Built:
    """Writes `target`, a program that runs `steps` steps from a start; an error if its hash is not that of Python."""
    if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        raise StoreError(f"`{target.parent}` is not a directory you can write to", fix="Pass another -o.")
    if target.is_dir():
        raise StoreError(f"`{target}` is a directory", fix=f"Pass another name: -o {target}.exe.")
    jumps = sim.compiled.known.way != "loop"
    if jumps:
        sim = Simulation(sim.source, replace(sim.goal, propagator="loop"), sim.requested, sim.checks)
    if sim.compiled.adaptive:
        raise PlanError(
            f"`{sim.compiled.known.method}` chooses its own steps, and a binary has steps of dt",
            fix="Pass --method leapfrog --dt 0.01, or for derivatives --method rk4.",
        )
    few = min(steps, CHECKED)
    out = sim.evolve(**start, steps=few, progress=False)
    r = out.origin.run
    if r.given.is_ensemble:
        raise InputError("a binary runs one member, and `start` has several", fix="Give it a single state.")
    given = r.given if r.loops else replace(r.given, states=numbers(sim, r, start))
    source = source_of(made(r.program), given, [str(steps), repr(r.dt), repr(r.t0)], target.name)
    executable(source, target, static)
    try:
        done = subprocess.run([target.resolve(), str(few)], capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BackendError(f"`{target}` was built and could not be run: {error}") from error
    printed = done.stdout.splitlines()[-1] if done.stdout else done.stderr.strip()
    if printed != out.hash:
        target.unlink(missing_ok=True)
        raise BackendError(
            f"the binary and Python give different hashes after {few} steps: {printed or 'nothing'}, not {out.hash}",
            fix="Try another compiler: CC=clang; and please report this.",
        )
    return Built(target, target.stat().st_size, steps, few, out.hash, jumps)


def source_of(program: Program, given: Inputs, arguments: Sequence[str], name: str) -> str:
    """A complete C program that has its start in it; `arguments` are steps, dt and t0."""
    if in_loops(program, 1):
        loops = build_loops(program, seed=PORTABLE)
        arrays = [
            given.params[n] if n in given.params else given.states[n] for n in (*loops.arrays, *loops.inputs)
        ]
        data = b"".join(np.ascontiguousarray(x[0]).tobytes() for x in arrays)
        words = parameter_words([str(p.arg)[1:] for p in loops.params], given)
        return baked(complete_loops(loops, program, BAKED_LOOPS), name, [*arguments, *words], data)
    kernel = in_rows(build_kernel(program, PORTABLE), [s.name for s in program.states])
    words = parameter_words([str(p.arg)[1:] for p in kernel.params], given)
    own = [s.name for s in program.states if s.low_of is None]
    numbers = [x for n in own for x in given.states[n][0].ravel().tolist()]
    states = [repr(int(x) if isinstance(x, bool) else x) for x in numbers]
    return baked(complete_program(kernel, program, BAKED), name, [*arguments, *words, *states])


def parameter_words(names: Sequence[str], given: Inputs) -> list[str]:
    """The values of parameters as they are written to a program: `m.2` is the third number of m."""
    out = []
    for name in names:
        if name in ("dt", "t0"):
            continue
        own, index = (name, "0") if name in given.params else name.rsplit(".", 1)
        out.append(repr(given.params[own][0].ravel()[int(index)].item()))
    return out


def numbers(sim: Simulation, r: Any, start: Mapping[str, Any]) -> dict[str, Any]:
    """What a written-out program reads: numbers as they were given, from which it makes error words itself."""
    if not r.encoding.precision.state.is_float:
        return dict(r.given.states)
    own = {s.name for s in sim.system.states}
    given = {name: value for name, value in start.items() if name in own}
    if len(given) == len(own):
        return dict(inputs(sim.system, given | {k: v[0] for k, v in r.given.own.items()}).states)
    return dict(r.given.states)
