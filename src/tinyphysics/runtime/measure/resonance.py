"""Does a run turn an oscillation by k pi in a step, so that kicks make it grow?  Looked at with the run's own numbers.

Where no turn is near to a multiple of pi nothing is computed. Else the curvature of the rest at the first state decides,
by the spectral radius of the linearised step; what may grow is said, with the nearest step at which nothing does.
"""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np

from tinyphysics.facts import Fact, Facts
from tinyphysics.planner.choice.oscillator_resonance import Bends, curvatures, frequencies, off, resonance
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.planner.methods.families.interaction import quadratic_part
from tinyphysics.planner.methods.method import INTERACTION
from tinyphysics.runtime.measure.frequency import frequency
from tinyphysics.runtime.measure.pilot import part, sample
from tinyphysics.runtime.stages.flow_matrices import generator
from tinyphysics.runtime.stages.flow_matrices import values_of as members_values
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.runtime.state.run import Run, made

LOG = logging.getLogger("tinyphysics")
WIDE = 0.5  # radians to a multiple of pi beyond which only a rest as stiff as the quadratic part would make anything grow


def values_of(i: Inputs, member: int) -> dict[str, Any]:
    """The parameters of one member, as flat lists and numbers."""
    out = {}
    for name, v in i.own.items():
        row = np.asarray(v[member if len(v) > 1 else 0], np.float64)
        out[name] = row.ravel().tolist() if row.shape else float(row)
    return out


def resonances(sim: Setup, r: Run) -> dict[str, Any]:
    """What is said of a run that turns oscillators: out.metrics["resonance"]."""
    m = BY_NAME.get(sim.compiled.known.method)
    if m is None or m.family.kind != INTERACTION or sim.checks == "off" or not r.given.members:
        return {}
    facts = sim.built.facts
    found = quadratic_part(sim.system, facts)
    i = part(r.given, sample(r.given))
    omega: set[float] = set()
    for k in range(i.members):
        pairs = curvatures(found.oscillators, values_of(i, k))
        if pairs is None:
            return {}
        omega |= set(frequencies(pairs)) if found.oscillators else of_matrix(sim, i, k)
    if not omega:
        return {}
    turns = sorted(omega)
    fastest = turns[-1] * abs(r.dt)
    near = [w for w in turns if w * abs(r.dt) > math.pi / 2 and off(w * abs(r.dt)) < WIDE]
    sums = [(w, (w + v) * abs(r.dt)) for k, w in enumerate(turns[:64]) for v in turns[:k]]
    near += [w for w, x in sums if x > math.pi and off(x, 2 * math.pi) < WIDE]
    if m.family.mollified or not near:
        return {"resonance": {"omega_dt": fastest, "grows": False}}
    if not facts["separable"]:
        worst = resonance(m, turns, r.dt)
    else:
        worst = resonance(m, turns, r.dt, bends_of(sim, facts, found, i, r.t0))
    if worst is None:
        return {"resonance": {"omega_dt": fastest, "grows": False}}
    LOG.warning("%s: dt=%g is in a resonance of %s; %s", sim.system.name, r.dt, m.name, worst)
    return {"resonance": {"omega_dt": worst.turn, "grows": True, "safe_dt": worst.safe, "note": str(worst)}}


def of_matrix(sim: Setup, i: Inputs, member: int) -> set[float]:
    """The frequencies of a quadratic part that is solved as one matrix."""
    a = np.array(generator(made(sim.compiled.program), 0, members_values(i.own, member)), float)[:-1, :-1]
    found = np.abs(np.linalg.eigvals(a).imag)
    return {float(f"{w:.9g}") for w in found if w > 1e-9 * found.max(initial=0.0)}


def bends_of(sim: Setup, facts: Facts, found: Fact, i: Inputs, t0: float) -> Bends | None:
    """The least and the largest curvature of the rest at a state; None if it is not finite."""
    rest = Facts((Fact.yes("separable", "", T=facts["separable"].T, V=found.rest),))
    bend = frequency(sim.compiled, rest, i, t0)
    if not math.isfinite(bend.rate):
        return None
    return -(bend.rate**2) if bend.rate > bend.fastest else 0.0, bend.fastest**2
