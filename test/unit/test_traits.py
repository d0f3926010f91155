"""Do seeds, alarms and reports ask about the step, and not about the system?"""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, replace

import pytest

import tinyphysics as tp
from tinyphysics.facts import Facts
from tinyphysics.flows.shears import ShearFlow
from tinyphysics.plan import Goal
from tinyphysics.planner.cost.rounding import never
from tinyphysics.runtime.engines.plans import read
from tinyphysics.step import AS_WRITTEN, DRAWS, NO_ENERGY, OWN_STEPS, SERIES, SHEARS, SOLVES


@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - tp.cos(q)


@tp.map
def walk(x):
    return x + tp.random.normal()


@pytest.mark.parametrize(
    "system, options, traits",
    (
        (pendulum, dict(dt=0.1), {SHEARS}),
        (pendulum, dict(dt=0.1, method="gauss4"), {SOLVES}),
        (pendulum, dict(dt=0.1, method="radau"), {SOLVES, OWN_STEPS}),
        (tp.ode(lambda x: -x), {}, {OWN_STEPS}),
        (walk, {}, {AS_WRITTEN, DRAWS}),
    ),
)
def test_what_is_known_of_a_plan_has_the_traits_of_its_step(system, options, traits):
    sim = tp.compile(system, **options)
    known = sim.compiled.known
    assert sim.built.step.traits == traits == {*known.traits} and known.traits == tuple(sorted(traits))
    assert read(json.dumps(asdict(known)).encode()) == known
    solves = any(i.op == "SOLVE" for i in sim.tpir.step)
    assert (known.draws, known.series, known.solves) == (
        sim.tpir.draws,
        SERIES in traits,
        solves and OWN_STEPS not in traits,
    )


def test_no_alarm_is_raised_by_a_step_that_changes_the_energy_on_purpose():
    sim = tp.compile(pendulum, 1.9)
    with pytest.warns(tp.PhysicsWarning, match="the energy"):
        sim.evolve(q=2.0, p=1.0, steps=50)
    known = sim.compiled.known
    sim.compiled.known = replace(known, traits=(*known.traits, NO_ENERGY))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.evolve(q=2.0, p=1.0, steps=50)


def test_the_report_says_that_a_step_changes_the_energy(monkeypatch):
    monkeypatch.setattr(ShearFlow, "traits", frozenset({SHEARS, NO_ENERGY}))
    burning = tp.hamiltonian(lambda q, p: p**2 / 2 - 1.0625 * tp.cos(q))  # of no other test: plans are kept
    report = tp.compile(burning, 0.1, method="yoshida4").explain()
    assert "the energy is not conserved: a step changes it on purpose" in str(report)


def test_rounding_is_not_estimated_where_steps_draw():
    said = {trait: never(pendulum, Goal(0.1), Facts(()), {trait}) for trait in (DRAWS, NO_ENERGY, SHEARS)}
    assert "at random" in said[DRAWS] and "on purpose" in said[NO_ENERGY] and said[SHEARS] == ""
