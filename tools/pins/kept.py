"""Checkpoints and simulations that an earlier version wrote: they go on to the bits that they went on to then."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import tinyphysics as tp
from pins import arrays, book, systems
from pins.starts import around, numbers
from pins.unit import Setting, Unit, message

zoo = tp.physics.zoo
ORBIT = {"q": [1.0, 0.0], "p": [0.0, 1.25]}
CHECKPOINTS: dict[str, tuple[Any, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "pendulum-ensemble": (
        zoo.pendulum,
        {"dt": 0.125},
        around({"q": 0.75, "p": 0.375}, 3),
        {"save_every": 2, "hash_every": 2},
    ),
    "kepler-dd": (systems.kepler, {"dt": 0.0625, "precision": "dd"}, ORBIT, {}),
    "henon_heiles-lattice": (
        zoo.henon_heiles,
        {"dt": 0.125, "precision": "lattice"},
        {"q": [0.125, 0.25], "p": [0.375, -0.125]},
        {},
    ),
    "fput-in-loops": (
        arrays.fput,
        {"dt": 0.0625, "precision": "compensated"},
        {"q": numbers(34), "p": numbers(34, seed=2)},
        {},
    ),
    "noise": (systems.noisy, {}, {"x": 0.5, "y": 0.25}, {"seed": 5}),
    "lorenz-taylor": (systems.lorenz, {"dt": 0.0625, "tolerance": 1e-9}, {"x": 1.0, "y": 1.0, "z": 1.0}, {}),
}
SIMULATIONS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "hoop": (systems.hoop, {"dt": 0.0625, "order": 4}, {"q": 1.0, "v": 0.25}),
    "logarithmic": (systems.kepler, {"dt": 0.125, "time": "logarithmic"}, ORBIT),
}
BEFORE, AFTER = 4, 3  # steps


def folder(base: Path = book.FOLDER) -> Path:
    return base / "kept"


def write_missing(base: Path = book.FOLDER) -> list[str]:
    """Writes those that are not there; one that is there is never written again."""
    folder(base).mkdir(parents=True, exist_ok=True)
    new = []
    for name, (system, options, start, run) in CHECKPOINTS.items():
        file = folder(base) / f"{name}.checkpoint"
        if not file.exists():
            tp.compile(system, **options).evolve(
                **start, **run, steps=BEFORE, checkpoint=file, progress=False
            )
            new.append(file.name)
    for name, (system, options, _) in SIMULATIONS.items():
        file = folder(base) / f"{name}.json"
        if not file.exists():
            tp.compile(system, **options).save(file)
            new.append(file.name)
    return new


def resumed(name: str, backend: str) -> Any:
    system, options, _, run = CHECKPOINTS[name]
    sim = tp.compile(system, backend=backend, **options)
    ends = {} if "save_every" in run else {"frames": 2}
    return sim.evolve(resume=folder() / f"{name}.checkpoint", steps=AFTER, progress=False, **ends)


def reloaded(name: str, backend: str) -> Any:
    start = SIMULATIONS[name][2]
    return tp.load(folder() / f"{name}.json").evolve(**start, steps=AFTER, frames=2, progress=False)


def compute(
    go_on: Callable[[str, str], Any], name: str, backends: tuple[str, ...], setting: Setting
) -> dict[str, str]:
    out = {}
    for backend in backends:
        try:
            run = go_on(name, backend)
            out[backend] = f"{run.hash[:16]} at step {run.final.step}"
        except tp.TinyPhysicsError as error:
            out[backend] = message(error)
    return {f"goes on, {backend}": text for backend, text in out.items()}


def units() -> list[Unit]:
    ours = ("llvm", "numpy", "c", "python")
    return [
        *(
            Unit("kept", f"{n}.checkpoint", partial(compute, resumed, n, ours), "test" if k else "quick")
            for k, n in enumerate(CHECKPOINTS)
        ),
        *(
            Unit("kept", f"{n}.json", partial(compute, reloaded, n, ("llvm",)), "test" if k else "quick")
            for k, n in enumerate(SIMULATIONS)
        ),
    ]
