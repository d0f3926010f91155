"""How did the equations of a step converge?  The step again from its state, with what every round leaves of the residual.

A kernel keeps only the last residual of its rounds. If all are asked for, or a step was not solved, the nests are
called one by one, which has the bits that the run had.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tinyphysics.device.engines.loops import NestEngine
from tinyphysics.errors import BackendError, PhysicsIntegrityError
from tinyphysics.runtime.engines.loaders import LlvmLoops, numpy_loops
from tinyphysics.tpir.kernels.index import Unsupported
from tinyphysics.tpir.kernels.loops import build_loops
from tinyphysics.tpir.kernels.nests import Round
from tinyphysics.tpir.kernels.rounds import LEFT, ON
from tinyphysics.tpir.program.isa import Program

SHOWN = 6  # residuals of a long history, at its beginning and at its end


def solves_arrays(program: object) -> bool:
    """Has a program equations of whole arrays?"""
    return isinstance(program, Program) and any(
        i.op == "SOLVE" and len(i.type.shape) > 1 for i in program.step
    )


@lru_cache(maxsize=4)
def engine_of(program: Program) -> NestEngine:
    loader: Any = LlvmLoops()
    try:
        return NestEngine(program, build_loops(program), loader, 1)
    except BackendError:
        loader = numpy_loops()
        return NestEngine(program, build_loops(program), loader, 1)


def residuals(
    program: Program, state: Mapping[str, Any], params: Mapping[str, Any], dt: float, t0: float, now: int
) -> list[float]:
    """What each round of a step of one member leaves, in parts of the size of the state; of its last solution."""
    try:
        e = engine_of(program)
    except Unsupported:
        return []
    loop = e.start(state, params, 1, dt, t0)  # it keeps the memory that a member shares with others
    (m,) = loop.members
    kernel, careful = e.kernel, False
    out: list[float] = []
    while True:
        section = (kernel.careful if careful else kernel.sections)["step"]
        f, flags, before = e.functions(careful), np.zeros(8, np.int8), m.copy()

        def do(turn: Round) -> bool:
            for k in range(turn.begin, turn.end):
                f[f"part.step.{k}"](m.table, m.uniform, flags, 0, section.nests[k].extent, now)  # noqa: B023
            for a, b in turn.swaps:
                i, j = e.slots[a], e.slots[b]
                m.table[i], m.table[j] = m.table[j], m.table[i]
            if not turn.going:
                return True
            left = turn.going.removesuffix(ON) + LEFT
            if left in e.slots:
                out.append(ctypes.c_double.from_address(int(m.table[e.slots[left]])).value)
            return bool(ctypes.c_int32.from_address(int(m.table[e.slots[turn.going]])).value)

        section.run(do)
        if careful or not flags[0]:
            return out
        m.put(before)
        out.clear()
        careful = True


def history(rounds: Sequence[float]) -> str:
    """Residuals as text, the middle of a long list left out."""
    texts = [f"{r:.1e}" for r in rounds]
    if len(texts) > 2 * SHOWN:
        texts = [*texts[:SHOWN], "...", *texts[-SHOWN:]]
    return ", ".join(texts)


def not_solved(
    program: object, state: Mapping[str, Any], params: Mapping[str, Any], dt: float, t0: float, now: int
) -> PhysicsIntegrityError | None:
    """What is to be said of a step that was not solved, from its last good state; None where it is not known."""
    if not solves_arrays(program):
        return None
    assert isinstance(program, Program)
    whole = {name: np.asarray(v)[None] for name, v in state.items()}
    rounds = residuals(program, whole, params, dt, t0, now)
    if not rounds:
        return None
    return PhysicsIntegrityError(
        f"the equations of a step are not solved after {len(rounds)} rounds: residuals, in parts of the state, are "
        f"{history(rounds)}",
        fix="Shorten dt; the state before that step is the last one of the run.",
    )
