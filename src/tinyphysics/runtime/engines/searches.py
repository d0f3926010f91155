"""Which search finds the events of a run?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from tinyphysics.ir import UOp
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.engines.dense import Dense, look_program, scan_program
from tinyphysics.runtime.engines.dense_search import Curves, Searching
from tinyphysics.runtime.engines.events import check_events
from tinyphysics.runtime.engines.plans import probe_key
from tinyphysics.runtime.engines.series_curves import SeriesCurves
from tinyphysics.runtime.state.run import Recipe, Run
from tinyphysics.step import Step
from tinyphysics.synth.methods.taylor import CLOCK
from tinyphysics.tpir.program.isa import Program
from tinyphysics.util import digest


def dense_search(r: Run, time: UOp, inner: Any) -> partial[Searching]:
    """Of a run whose steps have curves: (parameters, members, since, is it fresh?) -> Searching."""
    check_events(r.events)
    names = [s.name for s in inner.states]
    registers = {name: f"S{k}" for k, name in enumerate(names)}
    clock = registers[CLOCK]
    curves: Curves
    if r.series is not None:
        size = sum(s.var.size for s in r.system.states)
        order, padded = inner.plan.order, inner.padded
        curves = SeriesCurves(r.system, time, r.events, "S0", order, padded)
        assert size <= padded
    else:
        scan, look = (programmed(r, time, make, r.events) for make in (scan_program, look_program))
        curves = Dense(
            *(engine_for(r.target, program, None, r.threads) for program in (scan, look)),
            registers,
            len(r.events),
        )
    return partial(begun, list(r.events), curves, clock)


def begun(
    names: list[str],
    curves: Curves,
    clock: str,
    params: Mapping[str, Any],
    members: int,
    since: float,
    fresh: bool,
) -> Searching:
    return Searching(names, curves, clock, params, members, since, np.full(members, fresh))


def programmed(r: Run, time: UOp, make: Any, events: Mapping[str, UOp]) -> Program | Recipe:
    """A program that looks into the steps of a run; made where its code is not there yet."""

    def now() -> Program:
        step = r.step() if r.step is not None else None
        assert isinstance(step, Step)
        made: Program = make(events, step, time)
        return made

    key = probe_key(r.program.key, r.system, events) if isinstance(r.program, Recipe) else None
    return now() if key is None else Recipe(digest(f"{key} {make.__name__}".encode()), now)
