"""Is every row of planner/conflicts.py raised by a call, with its own words?"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from in_process import InProcess

import tinyphysics as tp
from tinyphysics import pipeline
from tinyphysics.cluster.machines import Spread
from tinyphysics.physics.particles import gravity, solar_system
from tinyphysics.plan import Goal
from tinyphysics.planner.conflicts import (
    CONFLICTS,
    DRAWS,
    NO_ENERGY,
    ON_A_GPU,
    STAGES,
    Ask,
    Conflict,
    check,
)
from tinyphysics.runtime.engines.caller_arrays import adopt_arrays
from tinyphysics.tpir.precision.precision import PRECISIONS


# --- what the calls speak of ------------------------------------------------------------------------
@tp.hamiltonian
def spring(q, p, k: float = 1.0):
    return p**2 / 2 + k * q**2 / 2


@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - tp.cos(q)


@tp.hamiltonian
def trap(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + q @ q / 2 + q[0] ** 4


@tp.hamiltonian
def driven(q, p, t):
    return p**2 / 2 + q**2 / 2 * (1 + 0.1 * tp.cos(t))


@tp.hamiltonian
def turning(q, p, t):
    return p**2 / 2 + (1 + t) * q * p + q**2


@tp.hamiltonian
def mixed(q, p):
    return (p * q + 1) ** 2 / 2 + q**4


@tp.hamiltonian
def in_parts(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + q @ q / 2 + q[0] * p[1] - q[1] * p[0]


@tp.hamiltonian
def stars(q: tp.Array[64, 3], p: tp.Array[64, 3]):
    d = q[:, None] - q[None, :]
    return (p * p).sum() / 2 - (1 / tp.sqrt((d * d).sum(-1) + 0.25)).sum() / 2


@tp.forces
def force(q):
    return -q


@tp.ode
def decay(x):
    return -x


@tp.map
def logistic(x):
    return 4 * x * (1 - x)


@tp.map
def counter(n: tp.Int8):
    return n + 1


@tp.hamiltonian
def free(q, p):
    return p**2 / 2


@tp.potential
def soft(q):
    return q**2 / 2


@tp.potential
def hard(q):
    return 50 * q**2


@tp.map
def noisy(x):
    return x + tp.random.normal()


@tp.constraint
def ring(q: tp.Vec[2]):
    return q @ q - 1


levels = free + tp.fast(hard) + tp.slow(soft)
START = {"q": 0.5, "p": 0.1}


def clock(q):
    return 1 + q * q


def build(system, **options):
    """Compiled up to the certificate."""
    return tp.compile(system, **{"dt": 0.01, **options}).certificate


def in_blocks(**call):
    """An ensemble of a bath, in blocks."""
    sim = tp.compile(pendulum, dt=0.01, temperature=1.0)
    return sim.evolve(q=np.ones(2), p=np.ones(2), steps=4, on=Spread(InProcess, 2), **call)


def in_time(**options):
    return tp.compile(spring, dt=0.01, time=clock).evolve(**START, **{"steps": 2, **options})


def orbits(**options):
    return tp.compile(gravity, dt=0.01, method="wisdom_holman", **options).evolve(**solar_system(), steps=2)


# fmt: off
WALL = tp.wall(lambda q: 10.0 - q, name="far")
FLOOR = tp.contact(lambda q: q)
KICK = {"kick": tp.act(every=2, map=lambda p: -p)}
CALLS = [
    lambda: build(trap + ring, project="energy"),
    lambda: build(trap + ring, propagator="exact"),
    lambda: tp.compile(trap + ring, 0.01).evolve(q=[1.0, 0.0], p=[0.0, 1.0], steps=4, acts=KICK),
    lambda: tp.compile(trap + ring, 0.01).minimise(q=[1.0, 0.0]),
    lambda: tp.compile(spring, order=4, target_order=2),
    lambda: tp.compile(spring, inner=4),
    lambda: tp.compile(spring, time=clock, energy_drift=1e-6),
    lambda: tp.compile(spring, time=clock, error=1e-6),
    lambda: tp.compile(spring, time=clock, pilot=START),
    lambda: tp.compile(spring, time=clock, propagator="exact"),
    lambda: tp.compile(spring, time=clock, approximate=1e-3),
    lambda: tp.compile(spring, time=clock, scale="auto"),
    lambda: tp.compile(spring, lattice=2**-40),
    lambda: tp.compile(spring, precision="lattice", scale="auto"),
    lambda: tp.compile(spring, approximate=1e-3, precision="dd"),
    lambda: tp.compile(spring, approximate=1e-3, scale="auto"),
    lambda: tp.compile(force, time=clock),
    lambda: tp.compile(levels, time=clock),
    lambda: tp.compile(trap + ring, time=lambda q: 1 + q @ q),
    lambda: tp.compile(logistic, dt=0.01),
    lambda: tp.compile(spring, dt=0.01, absolute=1e-9),
    lambda: tp.compile(decay, dt=-0.01),
    lambda: tp.compile(decay, pilot={"x": 1.0}),
    lambda: tp.compile(logistic, error=1e-6),
    lambda: tp.compile(decay, energy_drift=1e-6),
    lambda: tp.compile(decay, method="rk4", error=1e-6),
    lambda: tp.compile(decay, tolerance=1e-9, error=1e-6),
    lambda: tp.compile(force, energy_drift=1e-6),
    lambda: tp.compile(pendulum, precision="dd", error=1e-6),
    lambda: tp.compile(levels, inner=4, error=1e-6),
    lambda: tp.compile(pendulum, approximate=1e-3, error=1e-6),
    lambda: tp.compile(spring, dt=0.01, project="energy", propagator="exact"),
    lambda: tp.compile(spring, dt=0.01, project="energy", approximate=1e-3),
    lambda: tp.compile(spring, dt=0.01, project="energy", tolerance=1e-9),
    lambda: tp.compile(force, dt=0.01, project="energy"),
    lambda: tp.compile(driven, dt=0.01, project="energy"),
    lambda: build(pendulum, precision="dd", scale="auto"),
    lambda: build(pendulum, tolerance=1e-9),
    lambda: build(pendulum, method="dop853", precision="dd"),
    lambda: build(spring, method="radau", time=clock),
    lambda: build(decay, precision="mixed"),
    lambda: build(decay, scale="auto"),
    lambda: build(decay, approximate=1e-3),
    lambda: build(decay, propagator="exact"),
    lambda: build(levels, method="taylor", inner=4),
    lambda: build(pendulum, method="radau", energy_drift=1e-6),
    lambda: build(logistic, dt=None, order=4),
    lambda: build(counter, dt=None, precision="float32"),
    lambda: build(decay, order=4),
    lambda: build(levels, energy_drift=1e-6),
    lambda: build(force, propagator="exact"),
    lambda: build(pendulum, propagator="method"),
    lambda: build(driven, propagator="exact"),
    lambda: build(spring, propagator="exact", precision="float32"),
    lambda: build(spring, propagator="exact", scale="auto"),
    lambda: build(spring, propagator="exact", approximate=1e-3),
    lambda: build(levels, propagator="exact", inner=4),
    lambda: build(spring, propagator="exact", energy_drift=1e-6),
    lambda: build(spring, propagator="exact", error=1e-6),
    lambda: build(spring, propagator="exact", method="leapfrog"),
    lambda: build(spring, propagator="method", method="gauss4"),
    lambda: build(logistic, dt=None, approximate=1e-3),
    lambda: build(mixed, approximate=1e-3),
    lambda: build(stars, method="chin4", approximate=1e-3),
    lambda: build(in_parts, method="strang", scale="auto", propagator="loop"),
    lambda: build(in_parts, method="strang", precision="float32", propagator="loop"),
    lambda: build(turning, method="magnus4", precision="dd"),
    lambda: build(pendulum, method="dop853", project="energy"),
    lambda: pipeline.build(pendulum, Goal(0.01, project=(("energy", "x"),), backwards=True)),
    lambda: build(mixed, precision="mixed"),
    lambda: build(mixed, scale="auto"),
    lambda: build(trap, method="interaction", precision="mixed"),
    lambda: build(trap, method="interaction", scale="auto"),
    lambda: orbits(precision="mixed"),
    lambda: orbits(scale="auto"),
    lambda: build(pendulum, math="fast", precision="lattice"),
    lambda: build(spring, math="fast", propagator="exact"),
    lambda: build(decay, math="fast"),
    lambda: build(mixed, math="fast"),
    lambda: build(trap, method="interaction", math="fast"),
    lambda: orbits(math="fast"),
    lambda: build(pendulum, math="fast", backend="python"),
    lambda: check("step", Ask({"error": 1e-6}, traits={DRAWS: True}, by="noise")),
    lambda: check("step", Ask({"energy_drift": 1e-6}, traits={NO_ENERGY: True}, by="friction")),
    lambda: check("target", Ask({"math": "fast"}, by="python")),  # what no other backend runs is not fast either, so far
    lambda: check("jump", Ask.of(Goal(0.01, propagator="exact"), replace(spring, energy=noisy.update[0]),
        facts=pipeline.all_facts(spring, Goal(0.01)))),  # an energy that a decorator would not have taken
    lambda: in_time(save_every=1, save_at=[0.01]),
    lambda: in_time(save_every=1, frames=3),
    lambda: in_time(save_at=[0.01], frames=3),
    lambda: adopt_arrays({}, "run.checkpoint"),
    lambda: tp.compile(logistic).evolve(x=0.3, steps=2, dt=0.1),
    lambda: tp.compile(decay).evolve(x=1.0, until=0.1, save_every=1),
    lambda: tp.compile(decay).evolve(x=1.0, until=0.1, hash_every=1),
    lambda: tp.compile(decay).evolve(x=1.0, until=0.1, checkpoint="run.checkpoint", checkpoint_every=1),
    lambda: tp.compile(logistic).evolve(x=0.3, steps=2, events={"crossing": lambda x: x - 0.5}),
    lambda: tp.compile(pendulum, dt=0.01, precision="lattice").evolve(**START, steps=2, events={"crossing": lambda q: q}),
    lambda: tp.compile(pendulum + WALL, dt=0.01).evolve(**START, steps=2, events={"crossing": lambda q: q}),
    lambda: tp.compile(pendulum + WALL, dt=0.01).evolve(**START, steps=2, dt=-0.01),
    lambda: tp.compile(pendulum + FLOOR, dt=0.01).evolve(**START, steps=2, dt=-0.01),
    lambda: tp.compile(pendulum, temperature=1.0).evolve(**START, steps=2, dt=-0.01),
    lambda: tp.compile(pendulum, dt=0.01, friction=1.0, project="energy"),
    lambda: tp.compile(pendulum + FLOOR, dt=0.01).minimise(**START),
    lambda: tp.compile(pendulum, method="taylor").evolve(**START, until=1.0, acts=KICK),
    lambda: tp.compile(spring, dt=0.01).evolve(**START, steps=2, acts=KICK),
    lambda: in_time(acts=KICK),
    lambda: tp.compile(pendulum, dt=0.01, project="energy").evolve(**START, steps=2, acts=KICK),
    lambda: tp.compile(pendulum, error=1e-2).evolve(**START, until=1.0, acts=KICK),
    lambda: tp.compile(spring, dt=0.01, time=clock).evolve(q=np.ones(2), p=np.ones(2), until=0.02),
    lambda: in_time(until=1.0),
    lambda: in_time(save_at=[0.01]),
    lambda: in_time(save="run.zarr"),
    lambda: in_time(checkpoint_every=1),
    lambda: in_blocks(checkpoint="run.checkpoint", checkpoint_every=2),
    lambda: check("on", Ask({"on": 1}, traits={ON_A_GPU: True})),
    lambda: tp.compile(pendulum, dt=0.01, temperature=1.0, bath="nose_poincare").evolve(
        **START, steps=2, acts={"kick": tp.act(every=1, map=lambda p: p + 1.0)}),
    lambda: tp.compile(spring, dt=0.01, time=clock).minimise(**START),
    lambda: tp.compile(spring, dt=0.01, time=clock).suggest_dt(**START),
    lambda: tp.compile(spring, dt=0.01, time=clock).check(**START),
    lambda: tp.compile(spring, dt=0.01, time=clock).lyapunov(**START, until=10.0),
    lambda: tp.compile(spring, dt=0.01, time=clock).sensitivity(of="q", to="p", **START, until=1.0),
    lambda: in_time(observe={"Y": tp.chaos.megno}),
]
# fmt: on


# --- the table --------------------------------------------------------------------------------------
@cache
def refused(k: int) -> tuple[Conflict, str]:
    """The row that refuses a call, and what is said."""
    rows: list[Conflict] = []
    raised = Conflict.raised
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Conflict, "raised", lambda row, ask: rows.append(row) or raised(row, ask))
        with pytest.raises(tp.TinyPhysicsError) as caught:
            CALLS[k]()
    return rows[-1], str(caught.value)


@pytest.mark.parametrize("k", range(len(CALLS)))
def test_a_call_is_refused_by_the_error_of_its_row(k):
    row, said = refused(k)
    assert said.startswith(row.what.partition("{")[0]) and "{" not in said


def test_every_row_has_a_call():
    found = {id(refused(k)[0]) for k in range(len(CALLS))}
    assert [(row.at, row.one, row.other) for row in CONFLICTS if id(row) not in found] == []


def test_the_rows_of_a_stage_stand_together():
    assert [row for rows in STAGES.values() for row in rows] == list(CONFLICTS)


@pytest.mark.parametrize("option", ({"error": 1e-6}, {"math": "fast"}))
def test_a_new_precision_is_refused_until_its_row_says_otherwise(monkeypatch, option):
    new = replace(PRECISIONS["float64"], name="new", is_piloted=False, takes_fast=False)
    monkeypatch.setitem(PRECISIONS, "new", new)
    with pytest.raises(tp.PlanError, match=r"cannot be combined with precision='new'"):
        tp.compile(pendulum, None if "error" in option else 0.1, precision="new", **option).built  # noqa: B018
