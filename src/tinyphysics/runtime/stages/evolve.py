"""How does a call become a trajectory?  By seven stages, each a function from what is known to what is known then."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tinyphysics.runtime.stages.bind import bind
from tinyphysics.runtime.stages.diagnose import Diagnostic, diagnose, examine, with_watches
from tinyphysics.runtime.stages.elsewhere import seen_elsewhere, trials
from tinyphysics.runtime.stages.encode import encode
from tinyphysics.runtime.stages.forms import MOST, Form, Pattern, form_of, pattern_of
from tinyphysics.runtime.stages.place import place
from tinyphysics.runtime.stages.resolve import Decider, Request, resolve
from tinyphysics.runtime.stages.run import run
from tinyphysics.runtime.stages.schedule import schedule
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.stages.short_runs import again
from tinyphysics.trajectory import Trajectory


def evolve(
    setup: Setup, request: Request, deciders: Sequence[Decider], diagnostics: Sequence[Diagnostic]
) -> Trajectory:
    began = time.perf_counter()
    form = form_of(setup, request)
    known = None if form is None else setup._forms.get(form)
    if known and known.holds(setup):
        short = again(known, setup, request, began)
        if short is not None:
            return short
    with trials(workers(setup, request)):
        resolved = resolve(setup, request, deciders)
    encoded = encode(resolved)
    scheduled = schedule(resolved, encoded)
    bound = bind(resolved, encoded, scheduled)
    placed = with_watches(setup, place(resolved, scheduled, bound), diagnostics)
    found = examine(setup, placed.run, diagnostics)
    ran = run(resolved, scheduled, bound, placed.run, began)
    placed = replace(placed, run=seen_elsewhere(placed.run, ran.took))
    out = diagnose(resolved, encoded, bound, placed, ran, found, diagnostics)
    if form is not None and known is not False:
        remember(
            setup, form, lambda: pattern_of(resolved, scheduled, bound, placed, ran, out, found, diagnostics)
        )
    return out


def workers(setup: Setup, request: Request) -> Any:
    """What on= says; of a system with a state or a parameter of that name, options= says it."""
    named = request.options.get("on") if isinstance(request.options, Mapping) else None
    return named if request.on is None or "on" in setup.own_names else request.on


def remember(setup: Setup, form: Form, pattern: Callable[[], Pattern | None]) -> None:
    """The pattern of a call that came for the second time, since most forms come once; False if it has none."""
    if form not in setup._forms and len(setup._forms) >= MOST:
        setup._forms.clear()
    setup._forms[form] = pattern() or False if form in setup._forms else None
