"""Wrong calls of tp.compile, sim.ir and what looks at a simulation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tinyphysics as tp
from pins import arrays, systems

zoo = tp.physics.zoo
swing = partial(tp.compile, zoo.pendulum)
stars = partial(tp.compile, zoo.henon_heiles, dt=0.1)
curved = partial(tp.compile, systems.curved, dt=0.1)
orbit = partial(tp.compile, systems.kepler)


# fmt: off
CALLS: dict[str, Callable[[], Any]] = {
    # --- the system
    "a number": lambda: tp.compile(3, dt=0.1),
    "a function without decorator": lambda: tp.compile(lambda q, p: (p, -q), dt=0.1),
    "a class": lambda: tp.compile(systems.Cluster, dt=0.1),
    # --- dt
    "no dt": lambda: swing().evolve(q=1.0, p=0.0, steps=1),
    "dt=0": lambda: swing(dt=0),
    "dt=nan": lambda: swing(dt=float("nan")),
    "dt=text": lambda: swing(dt="fast"),
    "dt of a map": lambda: tp.compile(systems.standard, dt=0.1),
    "dt of a map, in a run": lambda: tp.compile(systems.standard).evolve(x=0.0, y=0.0, steps=1, dt=0.1),
    "negative dt of a series": lambda: tp.compile(systems.lorenz, dt=-0.1),
    # --- names
    "a misspelt method": lambda: swing(dt=0.1, method="leapfog"),
    "an unknown method": lambda: swing(dt=0.1, method="magic"),
    "a method that is a number": lambda: swing(dt=0.1, method=4),
    "an unknown backend": lambda: swing(dt=0.1, backend="fortran"),
    "a misspelt backend": lambda: swing(dt=0.1, backend="lvm"),
    "a backend of the future": lambda: swing(dt=0.1, backend="wgsl"),
    "an unknown precision": lambda: swing(dt=0.1, precision="float16"),
    "an unknown math": lambda: swing(dt=0.1, math="quick"),
    "an unknown scale": lambda: swing(dt=0.1, scale="on"),
    "an unknown check": lambda: swing(dt=0.1, checks="some"),
    "an unknown propagator": lambda: swing(dt=0.1, propagator="magic"),
    "unknown kinetics": lambda: swing(dt=0.1, kinetics="galilean"),
    "an unknown time": lambda: orbit(dt=0.1, time="proper"),
    # --- orders and methods that do not apply
    "order=0": lambda: stars(order=0),
    "order=12": lambda: stars(order=12),
    "order=2.5": lambda: stars(order=2.5),
    "leapfrog of what mixes": lambda: curved(method="leapfrog"),
    "symplectic of friction": lambda: tp.compile(systems.dragged, dt=0.1, method="symplectic"),
    "order 8 of what mixes": lambda: curved(order=8),
    "a force gradient of forces": lambda: tp.compile(systems.swirl, dt=0.1, method="chin4"),
    "a variational method of an energy": lambda: curved(method="galerkin4"),
    "a polynomial method of a cosine": lambda: swing(dt=0.1, method="avf"),
    "orbits of one body": lambda: orbit(dt=0.1, method="wisdom_holman"),
    "paces of one energy": lambda: swing(dt=0.1, method="respa"),
    "a series of what has a kink": lambda: tp.compile(systems.dragged),
    "interaction without a quadratic part": lambda: orbit(dt=0.1, method="interaction"),
    "mollified of coupled numbers": lambda: tp.compile(systems.anharmonic, dt=0.1, method="interaction_mollified"),
    "magnus of what is not linear": lambda: swing(dt=0.1, method="magnus4"),
    "strang of a clock": lambda: tp.compile(systems.driven, dt=0.1, method="strang"),
    "radau of a long system": lambda: tp.compile(arrays.fput, method="radau", sizes={"n": 40}),
    "a method of a map": lambda: tp.compile(systems.standard, method="leapfrog"),
    "everything forbidden": lambda: stars(order=2, forbid=("leapfrog_kdk", "leapfrog_dkd")),
    "forbid a number": lambda: stars(forbid=[3]),
    "forbid an unknown method": lambda: stars(forbid=["magic"]),
    # --- precisions
    "dd of a method that solves": lambda: curved(precision="dd"),
    "lattice of a map": lambda: tp.compile(systems.standard, precision="lattice"),
    "lattice of rk4": lambda: stars(method="rk4", precision="lattice"),
    "compensated of a series": lambda: orbit(method="taylor", precision="compensated"),
    "a unit without a lattice": lambda: stars(lattice=2.0**-30),
    "a unit that is no power of two": lambda: stars(precision="lattice", lattice=0.3),
    "a unit of an unknown state": lambda: stars(precision="lattice", lattice={"x": 2.0**-30}),
    "scale with a lattice": lambda: stars(precision="lattice", scale="auto"),
    # --- tolerances and goals
    "a loose tolerance": lambda: orbit(method="taylor", tolerance=0.1),
    "a tolerance of nothing": lambda: orbit(method="taylor", tolerance=0.0),
    "a tolerance of a splitting": lambda: stars(tolerance=1e-6),
    "absolute of a splitting": lambda: stars(absolute=1e-6),
    "absolute of a series": lambda: orbit(method="taylor", absolute=1e-6),
    "a negative goal": lambda: orbit(error=-1.0),
    "a goal of text": lambda: orbit(energy_drift="small"),
    "a goal of a map": lambda: tp.compile(systems.standard, error=1e-3),
    "an energy goal of forces": lambda: tp.compile(systems.swirl, energy_drift=1e-3),
    "a pilot without a state": lambda: orbit(error=1e-3, pilot={"q": [1.0, 0.0]}),
    "a pilot that is a number": lambda: orbit(error=1e-3, pilot=3),
    "a pilot of a series": lambda: orbit(method="taylor", pilot={"q": [1.0, 0.0], "p": [0.0, 1.0]}),
    "a goal in another time": lambda: orbit(dt=0.1, time="logarithmic", error=1e-3),
    # --- what does not go together
    "a budget without a tree": lambda: swing(dt=0.1, approximate=1e-3),
    "a budget of 2": lambda: tp.compile(tp.physics.particles.gravity, dt=0.1, approximate=2.0),
    "a budget in float32": lambda: tp.compile(tp.physics.particles.gravity, dt=0.1, approximate=1e-3, precision="float32"),
    "a tree on python": lambda: tp.compile(tp.physics.particles.gravity, dt=0.1, approximate=1e-3, sizes={"n": 70}, backend="python"),
    "inner of one energy": lambda: swing(dt=0.1, inner=3),
    "inner=0": lambda: tp.compile(tp.fast(arrays.spring) + tp.slow(arrays.weak), dt=0.1, inner=0),
    "exact of a cosine": lambda: swing(dt=0.1, propagator="exact"),
    "exact of what is held": lambda: tp.compile(zoo.oscillator, dt=0.1, propagator="exact", project="energy"),
    "hold what is unknown": lambda: orbit(dt=0.1, project="momentum"),
    "hold a number": lambda: orbit(dt=0.1, project=3),
    "hold the energy of forces": lambda: tp.compile(systems.swirl, dt=0.1, project="energy"),
    "relativistic forces": lambda: tp.compile(systems.swirl, dt=0.1, kinetics="relativistic"),
    "logarithmic time of forces": lambda: tp.compile(systems.swirl, dt=0.1, time="logarithmic"),
    "a series on C in loops": lambda: tp.compile(arrays.bodies, method="taylor", sizes={"n": 34}, backend="c"),
    # --- sizes
    "sizes that are a number": lambda: tp.compile(arrays.fput, dt=0.1, sizes=3),
    "a size of 0": lambda: tp.compile(arrays.fput, dt=0.1, sizes={"n": 0}),
    "a size that is not there": lambda: tp.compile(arrays.fput, dt=0.1, sizes={"m": 3}),
    "a size of a system without letters": lambda: swing(dt=0.1, sizes={"n": 3}),
    "one size of two": lambda: tp.compile(arrays.wave, dt=0.1, sizes={"n": 3}),
    "explain before sizes": lambda: tp.compile(arrays.fput, dt=0.1).explain("full"),
    # --- looking
    "an unknown level": lambda: swing(dt=0.1).ir("fortran"),
    "a level of the future": lambda: swing(dt=0.1).ir("wgsl"),
    "the step of a jump": lambda: tp.compile(zoo.oscillator, dt=0.1).suggest_dt(q=1.0, p=0.0),
    "the C program of a series": lambda: orbit(method="taylor").ir("c"),
    "the C program of fast math": lambda: orbit(dt=0.1, math="fast").ir("c"),
    "a monitor that is a number": lambda: swing(dt=0.1).monitor(3),
    "an attribute that is not there": lambda: tp.integrate,
    "load what is not there": lambda: tp.load("nowhere.json"),
}
# fmt: on
