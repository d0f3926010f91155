"""Where does an orbit go through a surface?  A Poincaré section, by the events of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyphysics.errors import InputError
from tinyphysics.given import shown
from tinyphysics.options import heeds
from tinyphysics.runtime.engines.events import Events
from tinyphysics.runtime.stages.setup import Setup


@heeds("section", "tp.chaos.section(sim, lambda q: q[0], q=..., p=..., until=1000.0)")
def section(
    sim: Setup,
    surface: Callable[..., Any],
    *,
    rising: bool | None = True,
    steps: int | None = None,
    until: float | None = None,
    threads: int | None = None,
    **given: Any,
) -> Events:
    """Finds where a run goes through a surface: the states, times and members of a Poincaré section.

    `surface` is a function of the state that is zero on the surface; `rising` says which crossings count: those at which it
    becomes positive (True), negative (False), or all (None). The state and the parameters are `given` by name, the run
    takes `steps` steps or ends at `until`, on so many `threads`. A crossing is found to rounding by a shorter step, which
    is not fed back.
    """
    if not isinstance(sim, Setup):
        raise InputError(f"{shown(sim)} is not a simulation", fix="Pass sim = tp.compile(system, dt=0.01).")
    if not callable(surface):
        raise InputError(f"{shown(surface)} is not a function of the state", fix="Pass lambda q, p: q[0].")
    if rising not in (True, False, None):
        raise InputError(
            f"rising={shown(rising)} is not known", fix="rising may be True, False, or None for both."
        )
    out = sim.evolve(
        **given, steps=steps, until=until, threads=threads, frames=2, events={"section": surface}
    )
    found: Events = out.events("section")
    found = found if rising is None else found[found.rising == rising]
    if not len(found):
        way = {True: "upwards ", False: "downwards ", None: ""}[rising]
        raise InputError(
            f"the surface is never crossed {way}in this run, from t = {float(out.t[0]):g} to {float(out.t[-1]):g}",
            fix="Run it longer, or choose a surface that the orbit goes through.",
        )
    return found
