"""Wrong calls of sim.evolve and of what a run returns."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

import tinyphysics as tp
from pins import arrays, systems

zoo = tp.physics.zoo
ORBIT = {"q": [1.0, 0.0], "p": [0.0, 1.25]}


@lru_cache(maxsize=16)
def made(name: str) -> Any:
    """Simulations that several calls use."""
    return {
        "orbit": lambda: tp.compile(systems.kepler, dt=0.125, backend="numpy"),
        "series": lambda: tp.compile(systems.kepler, method="taylor", tolerance=1e-6),
        "grid": lambda: tp.compile(systems.kepler, dt=0.125, method="taylor", tolerance=1e-6),
        "map": lambda: tp.compile(systems.standard, backend="numpy"),
        "lattice": lambda: tp.compile(systems.kepler, dt=0.125, precision="lattice", backend="numpy"),
        "clock": lambda: tp.compile(systems.kepler, dt=0.125, time="logarithmic", backend="numpy"),
        "arms": lambda: tp.compile(systems.hoop, dt=0.125, backend="numpy"),
    }[name]()


def go(name: str = "orbit", **given: Any) -> Any:
    start = {"map": {"x": 0.0, "y": 0.0}, "arms": {"q": 1.0, "v": 0.0}}.get(name, ORBIT)
    return made(name).evolve(**{**start, "progress": False, **given})


@lru_cache(maxsize=4)
def out(name: str = "orbit") -> Any:
    return go(name, steps=2)


# fmt: off
CALLS: dict[str, Callable[[], Any]] = {
    # --- how long
    "neither steps nor until": lambda: go(),
    "steps and until": lambda: go(steps=1, until=1.0),
    "until between two steps": lambda: go("lattice", until=0.3),
    "save_at between two steps": lambda: go("map", steps=2, save_at=[0.5]),
    "save_at after the end": lambda: go(steps=1, save_at=[1.0]),
    "save_at in no order": lambda: go(steps=4, save_at=[0.3, 0.1]),
    "save_at of nan": lambda: go(steps=1, save_at=[float("nan")]),
    "save_at and save_every": lambda: go(steps=1, save_at=[0.0], save_every=1),
    "save_at with another time": lambda: go("clock", steps=1, save_at=[0.1]),
    "frames=0": lambda: go(steps=1, frames=0),
    "frames=True": lambda: go(steps=1, frames=True),
    "frames and save_every": lambda: go(steps=1, frames=3, save_every=1),
    "until before t0": lambda: go(until=-1.0),
    "until=nan": lambda: go(until=float("nan")),
    "steps=-1": lambda: go(steps=-1),
    "steps=1.5": lambda: go(steps=1.5),
    "steps=True": lambda: go(steps=True),
    "steps of text": lambda: go(steps="many"),
    "steps of a series without dt": lambda: go("series", steps=3),
    "save_every of a series without dt": lambda: go("series", until=1.0, save_every=2),
    "until before t0 of a series": lambda: go("series", until=-1.0),
    "t0 of text": lambda: go(steps=1, t0="now"),
    "t0=inf": lambda: go(steps=1, t0=float("inf")),
    "dt=0 in a run": lambda: go(steps=1, dt=0.0),
    # --- what with
    "no p": lambda: made("orbit").evolve(q=[1.0, 0.0], steps=1),
    "no state at all": lambda: made("orbit").evolve(steps=1),
    "an unknown name": lambda: go(steps=1, mass=1.0),
    "a misspelt option": lambda: go(steps=1, save_evry=1),
    "three numbers for two": lambda: go(steps=1, q=[1.0, 0.0, 0.0]),
    "a scalar for two": lambda: go(steps=1, q=1.0),
    "members that differ": lambda: go(steps=1, q=np.ones((3, 2)), p=np.ones((2, 2))),
    "a state of text": lambda: go(steps=1, q="here"),
    "a state of nan": lambda: go(steps=1, q=[float("nan"), 0.0]),
    "a complex state": lambda: go(steps=1, q=[1j, 0.0]),
    "a state that is too large": lambda: go(steps=1, q=[10**400, 0.0]),
    "a parameter of nan": lambda: go(steps=1, mu=float("nan")),
    "a parameter of another shape": lambda: go(steps=1, mu=np.ones((2, 3))),
    "a state and a velocity": lambda: go("arms", steps=1, p=1.0),
    "beyond a lattice": lambda: go("lattice", steps=1, q=[1e30, 0.0]),
    "a size of 0": lambda: tp.compile(arrays.fput, dt=0.1).evolve(q=[], p=[], steps=1),
    "two sizes": lambda: tp.compile(arrays.cluster, dt=0.1).evolve(q=np.ones((3, 3)), p=np.ones((3, 3)), m=np.ones(4), steps=1),
    # --- how
    "save_every=0": lambda: go(steps=1, save_every=0),
    "observe_every=0": lambda: go(steps=1, observe={"q": lambda q: q}, observe_every=0),
    "hash_every=-1": lambda: go(steps=1, hash_every=-1),
    "threads=0": lambda: go(steps=1, threads=0),
    "seed=-1": lambda: go(steps=1, seed=-1),
    "seed of text": lambda: go(steps=1, seed="lucky"),
    "observe a function alone": lambda: go(steps=1, observe=lambda q: q),
    "observe a number": lambda: go(steps=1, observe={"x": 3}),
    "observe what is not there": lambda: go(steps=1, observe={"x": lambda mass: mass}),
    "observe an unknown word": lambda: go(steps=1, observe={"x": "momentum"}),
    "observe the energy of a map": lambda: go("map", steps=1, observe={"x": "energy"}),
    "events of a map": lambda: go("map", steps=1, events={"x": lambda x: x}),
    "events on the lattice": lambda: go("lattice", steps=1, events={"x": lambda q: q[0]}),
    "events that are a list": lambda: go("series", until=1.0, events=[1]),
    "an event that cannot change sign": lambda: go("series", until=1.0, events={"x": lambda q: q[0] * q[0]}),
    "an event that is a number": lambda: go("series", until=1.0, events={"x": lambda q: 1.0}),
    "an event of two numbers": lambda: go("series", until=1.0, events={"x": lambda q: q}),
    "progress of text": lambda: go(steps=1, progress="loud"),
    # --- files
    "checkpoint_every without a checkpoint": lambda: go(steps=1, checkpoint_every=1),
    "a checkpoint that is a number": lambda: go(steps=1, checkpoint=3),
    "resume from a number": lambda: made("orbit").evolve(resume=3, steps=1),
    "resume from nowhere": lambda: made("orbit").evolve(resume="nowhere.checkpoint", steps=1),
    "save with another time": lambda: go("clock", steps=1, save="nowhere.zarr"),
    # --- what came out
    "an unknown attribute": lambda: out().velocity_,
    "an unknown observable": lambda: out()["height"],
    "an unknown event": lambda: out().events("apsis"),
    "an unknown state": lambda: out().words("x"),
    "an unknown state of a frame": lambda: out().final.x,
    "the energy of a map": lambda: out("map").energy,
    "the drift of what is unknown": lambda: out().drift("momentum"),
    "a drift rate of one step": lambda: go(steps=1).drift_rate("energy"),
    "rewind further than it ran": lambda: made("orbit").rewind(out(), 10),
    "rewind -1": lambda: made("orbit").rewind(out(), -1),
    "minimise a map": lambda: made("map").minimise(x=0.0, y=0.0),
    "minimise in another time": lambda: made("clock").minimise(**ORBIT),
    "suggest a step of a series": lambda: made("series").suggest_dt(error=1e-3, **ORBIT),
    "estimate a series": lambda: made("series").estimate(steps=10),
    "measure at a singularity": lambda: tp.measure_symplectic(made("orbit"), q=[0.0, 0.0], p=[0.0, 0.0]),
    "assert what is not symplectic": lambda: tp.assert_symplectic(tp.compile(systems.kepler, dt=0.125, method="rk4"), **ORBIT),
    "strict, and past a pole": lambda: tp.compile(systems.kepler, dt=0.01, method="leapfrog", checks="strict").evolve(
        q=[1.0, 0.0], p=[0.0, 0.0], steps=150, progress=False),
    "a fault of no number": lambda: go(steps=4, acts={"flip": tp.fault("p", 7, relative=1e-3, since=1)}),
    "strict, and not finite": lambda: tp.compile(systems.steep, dt=0.5, checks="strict").evolve(q=2.0, p=2.0, steps=60, progress=False),
}
# fmt: on
