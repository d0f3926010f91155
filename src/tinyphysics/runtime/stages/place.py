"""Where is a run done?  With the program, the place and all that decides its bits in one `Run`."""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.runtime.engines.backend import choose_place
from tinyphysics.runtime.engines.events import as_number
from tinyphysics.runtime.stages.bind import Bound
from tinyphysics.runtime.stages.check_scaling import check_units
from tinyphysics.runtime.stages.observed import traced
from tinyphysics.runtime.stages.resolve import Resolved
from tinyphysics.runtime.stages.schedule import Scheduled
from tinyphysics.runtime.stages.walls import speculated
from tinyphysics.runtime.state.run import Run

EXPLICIT = ("taylor", "dop853", "dopri5")  # with steps of their own, which stability may keep short
STIFF = 'method="radau" may take fewer'
STIFF_ARRAYS = 'method="rodas" may take fewer, or "rock4" if it is diffusion that keeps them short'


@dataclass(frozen=True, eq=False)
class Placed:
    run: Run
    why: str  # it is done there; empty where that was asked for


def place(r: Resolved, s: Scheduled, b: Bound) -> Placed:
    setup, compiled, members = r.setup, r.setup.compiled, b.given.members
    loops = compiled.in_loops(members)
    if r.arrays is None:
        apart = compiled.adaptive or compiled.jump is not None or loops  # only some engines can
        work = members, s.schedule.steps - r.first
        target, why = choose_place(setup.target, setup.requested, compiled.program, work, not apart)
    else:
        target, why = r.arrays.target, "the states are there"
    explicit = compiled.known.method in EXPLICIT and setup.system.kind == "ode"
    run = Run(
        compiled.program,
        setup.system,
        target,
        b.given,
        s.schedule,
        r.dt,
        float(r.t0),
        s.threads,
        compiled.encoding,
        loops,
        r.begun,
        compiled.jump,
        compiled.series,
        {n: as_number(traced(setup.system, f, n, "event")) for n, f in (r.request.events or {}).items()},
        compiled.adaptive,
        compiled.watching,
        (STIFF_ARRAYS if loops else STIFF) if explicit else "",
        r.gridless,
        b.acts,
        b.across,
        traits=compiled.known.traits,
        step=compiled.step if compiled.adaptive else None,
        clear=compiled.clear,
        speculate=speculated(setup.system, r.request.speculate),
        inner=tuple(setup.goal.inner or ()),
        until=None if setup.system.clock is None or r.until is None else float(r.until),
    )
    if s.schedule.steps and members:
        check_units(run, compiled.scales)
    return Placed(run, why)
