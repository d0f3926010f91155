"""Where does the thermostat of Nosé and Poincaré begin?  Where its energy and that of the system are zero together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tinyphysics.analysis.masses import masses
from tinyphysics.analysis.separable import separable
from tinyphysics.rules.formulas.thermostats import first_stretch
from tinyphysics.runtime.stages.execute import observe_states
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.runtime.state.run import Run
from tinyphysics.synth.methods.baths import thermostat_of
from tinyphysics.tpir.precision.probe import REST


def begun_at_zero(r: Run, given: Mapping[str, Any], own: Inputs) -> Inputs:
    """What a run begins with, and `eta` of it where that was not given."""
    system, e = r.system, r.encoding
    eta = str(system.hidden[0].arg)
    if eta in given:  # the states of another run
        return own
    assert system.energy is not None
    bath = thermostat_of(system, masses(system, separable(system).T).inverse)
    values = {"eta": first_stretch(bath, system.energy)}
    if e.precision.wide:
        values[f"{REST}eta"] = values["eta"]
    found = observe_states(replace(r, given=own), values, {n: v[None] for n, v in own.states.items()}, [0])
    seen = {name: v[0] for name, v in found.items()}
    words = e.stored(eta, seen["eta"])
    if e.precision.wide:
        words = dict(zip(e.precision.names(eta), (seen["eta"], seen[f"{REST}eta"])))
    return replace(own, states={**own.states, **words})
