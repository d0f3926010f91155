"""Where does the thermostat of Nosé and Poincaré begin?  Where its energy and that of the system are zero together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tinyphysics.analysis.masses import masses
from tinyphysics.analysis.separable import separable
from tinyphysics.ir import UOp
from tinyphysics.rules.formulas.thermostats import first_stretch
from tinyphysics.runtime.stages.execute import observe_states
from tinyphysics.runtime.state.ensemble import Inputs, inputs
from tinyphysics.runtime.state.run import Run
from tinyphysics.synth.methods.baths import thermostat_of
from tinyphysics.system import System
from tinyphysics.tpir.precision.probe import REST


def eta_of(system: System) -> tuple[str, UOp]:
    """The name of the state, and where it begins, as an expression of the others."""
    assert system.energy is not None
    bath = thermostat_of(system, masses(system, separable(system).T).inverse)
    return str(system.hidden[0].arg), first_stretch(bath, system.energy)


def begun_at_zero(r: Run, given: Mapping[str, Any], threads: int = 1) -> Inputs:
    """What a run begins with; an `eta` that is given is that of another run."""
    system, e = r.system, r.encoding
    eta, value = eta_of(system)
    if eta in given:
        return inputs(system, given, e, threads)
    own = inputs(system, {**given, eta: 0.0}, e, threads)
    values = {"eta": value} | ({f"{REST}eta": value} if e.precision.wide else {})
    found = observe_states(replace(r, given=own), values, {n: v[None] for n, v in own.states.items()}, [0])
    seen = {name: v[0] for name, v in found.items()}
    words = e.stored(eta, seen["eta"])
    if e.precision.wide:
        words = dict(zip(e.precision.names(eta), (seen["eta"], seen[f"{REST}eta"])))
    return replace(own, states={**own.states, **words})
