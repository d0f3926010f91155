"""Pinned runs: every precision, on the systems of `tp demo` and on systems in loops."""

from __future__ import annotations

from typing import Any

import tinyphysics as tp
from pins import arrays, systems
from pins.runs import Case
from pins.starts import around, grid, numbers

PRECISIONS = ("float64", "float32", "compensated", "mixed", "dd", "lattice")
CUDA = ("pendulum-float32", "pendulum-compensated", "pendulum-dd", "henon_heiles-lattice", "henon-float64")
LOOPS_ON_CUDA = ("fput-float64", "wave-float64", "cluster-float64")
PAIR = {"q": [0.375, 0.5], "p": [0.25, -0.75]}
FUNCTIONS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "trig": (systems.trig, {"dt": 0.0625}, PAIR),
    "growth": (systems.growth, {"dt": 0.0625, "method": "leapfrog_dkd"}, PAIR),
    "powers": (systems.powers, {"dt": 0.0625, "method": "symplectic_euler"}, PAIR),
    "torture": (systems.torture, {"dt": 2.0**-30}, {"q": 1.0, "p": 0.25}),
    "driven": (systems.driven, {"dt": 0.0625, "order": 4}, {"q": 1.0, "p": 0.125}),
}


def of_the_zoo() -> list[Case]:
    """Starts have few digits: those of the demonstrations are made by functions of a library."""
    starts = {
        "kepler": {"q": [1.0, 0.0], "p": [0.0, 1.1875]},
        "pendulum": {"q": 0.25, "p": 1.5},
        "henon_heiles": {"q": [0.0, -0.25], "p": [0.4375, 0.0]},
        "oscillator": {"q": 1.0, "p": 0.125},
        "double_well": {"q": -1.0, "p": 0.6875},
        "toda": {"q": [0.75, 0.0, -0.75], "p": [0.0, 0.5, -0.5]},
        "fput": {"q": numbers(8, seed=2), "p": numbers(8, seed=3)},
        "galaxy": {"q": numbers(5, 2, seed=4), "p": numbers(5, 2, seed=5) / 128},
        "driven_pendulum": {"q": 2.75, "p": 0.0},
        "henon": {"x": 0.125, "y": 0.125},
    }
    out = []
    for name, demo in tp.physics.zoo.ZOO.items():
        for precision in PRECISIONS[: -1 if demo.dt is None else None]:  # a map has no lattice
            options: dict[str, Any] = {"precision": precision, "propagator": "loop"}
            options |= {} if demo.dt is None else {"dt": 2.0**-4}
            label = f"{name}-{precision}"
            start = around(starts[name], 2) if name in ("pendulum", "kepler") else starts[name]
            run = {"steps": 5, "hash_every": 2}
            opencl = precision in ("float64", "dd") and name in (
                "pendulum",
                "kepler",
                "henon",
                "driven_pendulum",
            )
            out.append(
                Case("zoo", label, demo.system, options, start, run, opencl=opencl, fake_cuda=label in CUDA)
            )
    return out


def of_functions() -> list[Case]:
    return [
        Case(
            "functions",
            f"{name}-{p}",
            system,
            {**options, "precision": p},
            start,
            {"steps": 4},
            opencl=p == "float64",
        )
        for name, (system, options, start) in FUNCTIONS.items()
        for p in ("float64", "float32", "compensated", "dd")
    ]


N = 34  # an axis of 33 and more is a loop; shorter ones are written out
SHEET = (3, N)
LOOPS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "fput": (arrays.fput, {"n": N}, {"q": numbers(N), "p": numbers(N, seed=2)}),
    "wave": (arrays.wave, {"n": 3, "m": N}, {"phi": numbers(*SHEET), "pi": numbers(*SHEET, seed=2)}),
    "cluster": (
        arrays.cluster,
        {"n": N},
        {"q": grid(4, 1.0)[:N], "p": numbers(N, 3), "m": 1.5 + numbers(N, seed=3) / 4},
    ),
    "rotors": (
        arrays.rotors,
        {"n": 3},
        {"q": numbers(*SHEET), "p": numbers(*SHEET, seed=2), "k": 1.5 + numbers(*SHEET, seed=3) / 4},
    ),
    "mean_field": (arrays.mean_field, {"n": N}, {"q": numbers(N), "p": numbers(N, seed=2)}),
    "reversed_ends": (arrays.reversed_ends, {"n": N}, {"q": numbers(N), "p": numbers(N, seed=2)}),
    "in_a_row": (
        arrays.in_a_row,
        {"n": 2},
        {"q": numbers(2, 36), "p": numbers(2, 36, seed=2), "k": 1.5 + numbers(2, 36, seed=3) / 4},
    ),
    "ring": (
        arrays.ring,
        {"n": N},
        {"q": numbers(N), "p": numbers(N, seed=2), "m": 1.5 + numbers(N, seed=3) / 4},
    ),
    "pendulums": (arrays.pendulums, {"n": N}, {"q": numbers(N), "p": numbers(N, seed=2)}),
    "shifted": (arrays.shifted, {"n": 3, "m": N}, {"x": numbers(4, *SHEET), "y": numbers(*SHEET, seed=2)}),
    "carried": (arrays.carried, {"n": N}, {"u": numbers(N), "w": numbers(N, seed=2)}),
}


# too much for a check that is run often: minutes of compiling, for what other systems show as well
LEFT_OUT = {(name, "dd") for name in ("cluster", "rotors", "mean_field", "pendulums", "ring", "in_a_row")}
LEFT_OUT |= {(name, "lattice") for name in ("shifted", "carried")}  # a map has no lattice


def in_loops() -> list[Case]:
    out = []
    for name, (system, sizes, start) in LOOPS.items():
        for p in PRECISIONS:
            if (name, p) in LEFT_OUT:
                continue
            options: dict[str, Any] = {"precision": p, "sizes": sizes, "propagator": "loop"}
            options |= {"dt": 2.0**-5} if "phi" in start or "q" in start else {}
            label = f"{name}-{p}"
            opencl = p == "float64" and name in ("fput", "wave", "ring")
            out.append(
                Case(
                    "loops",
                    label,
                    system,
                    options,
                    start,
                    {"steps": 3},
                    opencl=opencl,
                    fake_cuda=label in LOOPS_ON_CUDA,
                )
            )
    return out


def cases() -> list[Case]:
    return [*of_the_zoo(), *of_functions(), *in_loops()]
