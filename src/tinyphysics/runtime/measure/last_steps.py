"""Which states did the last steps of a run have?  They are done again, bit for bit, with everything recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.ir import UOp
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.measure.part_again import begun_at, every_step, part_of
from tinyphysics.runtime.stages.terms import addends
from tinyphysics.runtime.state.run import Run

SHOWN = 8  # steps before the bad one
MOST_STEPS = 1_000_000  # of a run whose energy is looked at in every step
LOST = 0.5  # of the sum of |terms of H| until then: an energy that changes by more in one step is lost


def last_steps(r: Run, member: int, step: int) -> list[tuple[int, dict[str, Any]]]:
    """(step, state) of the steps before the bad one, and of that one; of a run whose steps are not its own only the first."""
    given = {n: v[member : member + 1] for n, v in r.given.states.items()}
    first = [(0, {n: v[0] for n, v in r.encoding.values(given).items()})]
    if r.jump is not None or r.adaptive or r.series is not None:
        return first
    if r.acts or r.begun is not None or r.system.guards:
        return with_acts(r, member, step)
    params = {n: v[member : member + 1] if len(v) > 1 else v for n, v in r.given.params.items()}
    engine = engine_for(r.target, r.program, None, 1, r.loops)
    m = engine.start(given, params, 1, r.dt, r.t0, 1)
    begin = max(0, step - SHOWN)
    if begin:
        engine.advance(m, begin)
    out = []
    for n in range(begin, step + 1):
        state = given if n == 0 else engine.synchronised(m)
        out.append((n, {name: v[0] for name, v in r.encoding.values(state).items()}))
        if n < step:
            engine.advance(m, 1)
    return out


def with_acts(r: Run, member: int, step: int) -> list[tuple[int, dict[str, Any]]]:
    """The same of a run whose state is changed between steps, or that goes on from another."""
    one = part_of(r, [member])
    begin = max(0 if r.begun is None else r.begun.step, step - SHOWN)
    seen = every_step(begun_at(one, begin), step, {s.name: s.var for s in r.system.states})
    return [(begin + k, {name: v[k, 0] for name, v in seen.items()}) for k in range(step - begin + 1)]


def energy_lost(r: Run, member: int, last: int) -> int | None:
    """The first step after which the energy is not what it was; None if there is none, or if it is not known."""
    H = r.system.energy
    plain = r.jump is None and not r.adaptive and r.series is None and not r.acts and r.begun is None
    if H is None or not plain or r.system.clock is not None or r.system.driven or not 1 < last <= MOST_STEPS:
        return None
    sizes = UOp.sum_of(abs(x) for x in addends(H))
    seen = every_step(part_of(r, [member]), last, {"H": H, "S": sizes})
    energy, scale = seen["H"][:, 0], np.maximum.accumulate(seen["S"][:, 0])
    with np.errstate(all="ignore"):
        away = np.abs(np.diff(energy)) > LOST * scale[:-1]
    return 1 + int(away.argmax()) if away.any() else None
