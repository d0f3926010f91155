"""Pinned runs that end and go on: checkpoints, going back, runs that stop, frames, observables, ensembles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tinyphysics as tp
from pins import arrays, systems
from pins.runs import Case
from pins.starts import around, grid, numbers

zoo = tp.physics.zoo
PAIR = {"q": [0.125, 0.25], "p": [0.375, -0.125]}
SCALAR = {"q": 0.75, "p": 0.375}
ORBIT = {"q": [1.0, 0.0], "p": [0.0, 1.25]}
ROW = {"q": numbers(34), "p": numbers(34, seed=2)}
RUNNING = ("steps", "save_every", "hash_every", "seed", "progress", "observe", "observe_every", "t0")


def resumed(sim: Any, given: Mapping[str, Any], folder: Path) -> Any:
    """Half of the steps, a checkpoint, and the other half."""
    half = given["steps"] // 2
    sim.evolve(**{**given, "steps": half}, checkpoint=folder / "c")
    rest = {k: v for k, v in given.items() if k in ("progress", "observe", "observe_every", "frames")}
    return sim.evolve(resume=folder / "c", steps=given["steps"] - half, **rest)


def rewound(sim: Any, given: Mapping[str, Any], folder: Path) -> Any:
    """So many steps, and half of them back."""
    return sim.rewind(sim.evolve(**given), given["steps"] // 2)


def twice(sim: Any, given: Mapping[str, Any], folder: Path) -> Any:
    """Once more with the same simulation, from where the first run ended."""
    first = sim.evolve(**given)
    return sim.evolve(**{**given, **{name: first.final[name] for name in first.frames}})


def reloaded(sim: Any, given: Mapping[str, Any], folder: Path) -> Any:
    """Saved, read and run."""
    sim.evolve(**{**given, "steps": 0})
    sim.save(folder / "s")
    return tp.load(folder / "s").evolve(**given)


WATCH = {"radius": lambda q: tp.norm(q), "both": lambda q, p, t: tp.stack([q[0] * p[1], tp.sin(t)])}


# fmt: off
def cases() -> list[Case]:
    d, k = {"dt": 0.125}, {"dt": 0.0625}
    six, often = {"steps": 6}, {"steps": 7, "save_every": 2, "hash_every": 3}
    drop = {"q": grid(3, 1.5)[:12], "p": numbers(12, 3, seed=5) / 2}
    rows: list[tuple[str, str, Any, Any, Any, Any, Any]] = [
        ("resume", "pendulum", zoo.pendulum, d, SCALAR, six, resumed),
        ("resume", "pendulum-ensemble", zoo.pendulum, d, around(SCALAR, 3), often, resumed),
        ("resume", "kepler-compensated", systems.kepler, {**k, "precision": "compensated"}, ORBIT, six, resumed),
        ("resume", "kepler-dd", systems.kepler, {**k, "precision": "dd"}, ORBIT, six, resumed),
        ("resume", "henon_heiles-lattice", zoo.henon_heiles, {**d, "precision": "lattice"}, PAIR, six, resumed),
        ("resume", "takahashi_imada4", zoo.henon_heiles, {**d, "method": "takahashi_imada4"}, PAIR, six, resumed),
        ("resume", "curved", systems.curved, k, {"q": 0.5, "p": 0.5}, six, resumed),
        ("resume", "noise", systems.noisy, {}, {"x": 0.5, "y": 0.25}, {"steps": 6, "seed": 5}, resumed),
        ("resume", "fput-in-loops", arrays.fput, k, ROW, {"steps": 4}, resumed),
        ("resume", "liquid", arrays.liquid, {"dt": 2.0**-8}, drop, {"steps": 2}, resumed),
        ("resume", "kepler-taylor", systems.kepler, {**d, "method": "taylor", "tolerance": 1e-9}, ORBIT, {"steps": 4}, resumed),
        ("resume", "logarithmic", systems.kepler, {**d, "time": "logarithmic"}, ORBIT, six, resumed),
        ("resume", "paces", tp.fast(arrays.spring) + tp.slow(arrays.weak), {**d, "inner": 3}, {"q": [1.0], "p": [0.25]}, six,
         resumed),
        ("rewind", "henon_heiles-lattice", zoo.henon_heiles, {**d, "precision": "lattice"}, PAIR, {"steps": 8}, rewound),
        ("rewind", "henon_heiles", zoo.henon_heiles, d, PAIR, {"steps": 8}, rewound),
        ("rewind", "liquid-lattice", arrays.liquid, {"dt": 2.0**-8, "precision": "lattice"}, drop, {"steps": 2}, rewound),
        ("again", "kepler", systems.kepler, k, ORBIT, six, twice),
        ("again", "kepler-saved", systems.kepler, k, ORBIT, six, reloaded),
        ("again", "hoop-saved", systems.hoop, k, {"q": 1.0, "v": 0.25}, {"steps": 3}, reloaded),
        ("again", "logarithmic-saved", systems.kepler, {**d, "time": "logarithmic"}, ORBIT, six, reloaded),
        ("frames", "kepler-every-2", systems.kepler, k, ORBIT, often, None),
        ("frames", "kepler-observed", systems.kepler, k, ORBIT, {"steps": 9, "observe": WATCH, "observe_every": 4}, None),
        ("frames", "kepler-observed-float32", systems.kepler, {**k, "precision": "float32"}, ORBIT,
         {"steps": 9, "observe": WATCH, "observe_every": 4}, None),
        ("frames", "cluster-temperature", arrays.cluster, k,
         {"q": grid(4, 1.0)[:34], "p": numbers(34, 3), "m": 1.5 + numbers(34, seed=3) / 4},
         {"steps": 2, "observe": {"T": tp.physics.temperature(kB=1.0), "P": tp.physics.momentum()}}, None),
        ("frames", "no-step", systems.kepler, k, ORBIT, {"steps": 0}, None),
        ("ensembles", "pendulum-17", zoo.pendulum, d, around(SCALAR, 17), six, None),
        ("ensembles", "henon_heiles-9-float32", zoo.henon_heiles, {**d, "precision": "float32"}, around(PAIR, 9), six, None),
        ("ensembles", "kepler-parameters", systems.kepler, k, around(ORBIT, 5), {"steps": 6, "mu": 1 + numbers(5) / 4}, None),
        ("ensembles", "fput-of-two-in-loops", arrays.fput, k, around(ROW, 2), {"steps": 3}, None),
        ("ensembles", "fput-of-five", arrays.fput, k, around({"q": numbers(10), "p": numbers(10, seed=2)}, 5), {"steps": 3}, None),
        ("ensembles", "none", zoo.pendulum, d, {"q": numbers(0), "p": numbers(0)}, six, None),
        ("stops", "steep", systems.steep, {"dt": 0.5}, {"q": 2.0, "p": 2.0}, {"steps": 60, "save_every": 10}, None),
        ("stops", "steep-ensemble", systems.steep, {"dt": 0.5}, {"q": [2.0, 0.0, 3.0], "p": [2.0, 0.0, 1.0]}, {"steps": 60}, None),
        ("stops", "steep-lattice", systems.steep, {"dt": 0.5, "precision": "lattice"}, {"q": 2.0, "p": 2.0}, {"steps": 60}, None),
        ("stops", "not-solved", systems.curved, {"dt": 3.0}, {"q": 40.0, "p": 70.0}, {"steps": 6}, None),
        ("stops", "meeting", arrays.bodies, {"dt": 0.5, "sizes": {"n": 2}}, {"q": [[0.0, 0.0], [0.0, 0.0]], "p": numbers(2, 2), "m": 1.0},
         {"steps": 3}, None),
    ]
    return [Case(group, name, system, options, start, run, via) for group, name, system, options, start, run, via in rows]
# fmt: on
