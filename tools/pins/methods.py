"""Pinned runs: every method of the catalogue, on one or two systems that it applies to."""

from __future__ import annotations

from typing import Any

import tinyphysics as tp
from pins import arrays, systems
from pins.runs import Case
from pins.starts import numbers

zoo = tp.physics.zoo
PAIR = {"q": [0.125, 0.25], "p": [0.375, -0.125]}
SCALAR = {"q": 0.75, "p": 0.375}

STARS: tuple[Any, Any, Any] = (zoo.henon_heiles, {"dt": 0.125}, PAIR)
SWING: tuple[Any, Any, Any] = (zoo.pendulum, {"dt": 0.125}, SCALAR)
KEPLER: tuple[Any, Any, Any] = (zoo.kepler, {"dt": 0.0625}, {"q": [1.0, 0.0], "p": [0.0, 1.25]})
CURVED: tuple[Any, Any, Any] = (systems.curved, {"dt": 0.0625}, {"q": 0.5, "p": 0.5})
MAGNETIC: tuple[Any, Any, Any] = (systems.magnetic, {"dt": 0.0625}, {"q": [0.5, 0.125], "p": [0.25, 0.625]})
PLANETS: tuple[Any, Any, Any] = (
    tp.physics.particles.gravity,
    {"dt": 0.0625, "sizes": {"n": 3}},
    {
        "q": [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.5, 0.125]],
        "p": [[0.0, 0.0, 0.0], [0.0, 0.0009765625, 0.0], [-0.0009765625, 0.0, 0.0]],
        "m": [1.0, 0.0009765625, 0.001953125],
    },
)
STIFF: tuple[Any, Any, Any] = (systems.swing, {"dt": 0.125}, SCALAR)
TWO_STIFF: tuple[Any, Any, Any] = (systems.anharmonic, {"dt": 0.125}, PAIR)
ARMS: tuple[Any, Any, Any] = (systems.double_pendulum, {"dt": 0.03125}, {"q": [2.0, 2.5], "v": [0.0, 0.25]})
HOOP: tuple[Any, Any, Any] = (systems.hoop, {"dt": 0.0625}, {"q": 1.0, "v": 0.25})
CAROUSEL: tuple[Any, Any, Any] = (systems.carousel, {"dt": 0.0625, "propagator": "loop"}, PAIR)
ROTATING: tuple[Any, Any, Any] = (tp.split(zoo.kepler, systems.coriolis), {"dt": 0.0625}, KEPLER[2])
LINEAR: tuple[Any, Any, Any] = (systems.moving_trap, {"dt": 0.0625}, SCALAR)
LINEAR2: tuple[Any, Any, Any] = (systems.moving_pair, {"dt": 0.0625}, PAIR)
PACED: tuple[Any, Any, Any] = (
    tp.fast(arrays.spring) + tp.slow(arrays.weak),
    {"dt": 0.25, "inner": 4},
    {"q": [1.0], "p": [0.25]},
)
BEADS: tuple[Any, Any, Any] = (
    tp.fast(arrays.backbone) + tp.slow(arrays.beads),
    {"dt": 0.03125, "inner": 3, "sizes": {"n": 6}},
    {"q": [[float(k), 0.125 * (k % 2), 0.0] for k in range(6)], "p": numbers(6, 3, seed=3) / 4},
)
TOP: tuple[Any, Any, Any] = (systems.top, {"dt": 0.125}, {"L": [0.5, 1.125, 0.75], "I": [1.0, 2.0, 3.0]})
SHAKEN: tuple[Any, Any, Any] = (
    systems.shaken_top,
    {"dt": 0.125, "friction": 0.25},
    {"R": [0.8, 0.6, 0.0, 0.0], "L": [0.5, 1.125, 0.75]},
)
CHARGE: tuple[Any, Any, Any] = (
    systems.charge,
    {"dt": 0.125},
    {"q": [0.25, -0.125, 0.0], "p": [0.5, 0.25, 0.125]},
)
FAST: tuple[Any, Any, Any] = (systems.charge, {"dt": 0.125, "kinetics": "relativistic"}, CHARGE[2])
DAMPED: tuple[Any, Any, Any] = (systems.damped, {"dt": 0.125}, {"q": 1.0, "p": 0.25, "s": 0.0})
HARES: tuple[Any, Any, Any] = (systems.hares, {"dt": 0.125}, {"z": [1.25, 0.75]})
WARM: tuple[Any, Any, Any] = (systems.anharmonic, {"dt": 0.125, "temperature": 0.5}, PAIR)
RESCALED, CHAINED, BROWNIAN = (
    (systems.anharmonic, {"dt": 0.125, "temperature": 0.5, "bath": bath}, PAIR)
    for bath in ("bussi", "nose_hoover", "brownian")
)
POINCARE: tuple[Any, Any, Any] = (
    systems.anharmonic,
    {"dt": 0.125, "temperature": 0.5, "bath": "nose_poincare"},
    PAIR,
)
CONDENSATE: tuple[Any, Any, Any] = (
    systems.condensate,
    {"dt": 0.015625, "sizes": {"n": 16}},
    {"psi": [complex(a, b) for a, b in zip(numbers(16), numbers(16, seed=3))]},
)
WAVES: tuple[Any, Any, Any] = (
    systems.korteweg_de_vries,
    {"dt": 0.015625, "sizes": {"n": 16}},
    {"u": numbers(16)},
)
LEAVING: tuple[Any, Any, Any] = (
    tp.physics.fields.phi4,
    {"dt": 0.25, "sizes": {"n": 16}, "absorb": 4},
    {"u": numbers(16), "v": numbers(16)},
)
LANDS: tuple[Any, Any, Any] = (
    systems.weight + tp.contact(lambda q: q[1], slip=lambda v: v[0], friction=0.3, name="floor"),
    {"dt": 0.1},
    {"q": [0.0, 0.2], "p": [1.0, 0.0]},
)
HUNG: tuple[Any, Any, Any] = (
    systems.weight + systems.rod,
    {"dt": 0.0625},
    {"q": [1.0, 0.0], "p": [0.0, 0.25]},
)
WARM_TOP: tuple[Any, Any, Any] = (systems.heavy_top, {"dt": 0.125, "temperature": 0.5}, SHAKEN[2])
WARM_ROD: tuple[Any, Any, Any] = (HUNG[0], {"dt": 0.0625, "temperature": 0.5}, HUNG[2])

# fmt: off
TABLE: list[tuple[str, tuple[tuple[Any, Any, Any], ...]]] = [
    *((name, (STARS, SWING)) for name in (
        "symplectic_euler", "leapfrog_kdk", "leapfrog_dkd", "yoshida4", "suzuki4", "mclachlan4", "blanes_moan4",
        "blanes_moan_nystrom4", "nystrom4", "yoshida6", "kahan_li6", "blanes_moan6", "blanes_moan_nystrom6",
        "blanes_moan_nystrom6_14", "nystrom6", "kahan_li8", "nystrom8", "sofroniou_spaletta10",
        "chin4a", "chin4b", "chin4", "takahashi_imada4", "force_gradient6")),
    *((name, (BEADS, PACED)) for name in ("respa", "respa4")),
    *((name, (CAROUSEL, ROTATING)) for name in ("strang", "strang4", "strang6", "strang8")),
    *((name, (CURVED, MAGNETIC)) for name in ("implicit_midpoint", "gauss4", "stormer_verlet_implicit",
                                              "kick_midpoint", "extended_phase_space", "gonzalez", "itoh_abe")),
    *((name, (CURVED,)) for name in ("gauss6", "stormer_verlet_implicit4", "stormer_verlet_implicit6", "kick_midpoint4",
                                     "kick_midpoint6", "extended_phase_space4", "extended_phase_space6")),
    *((name, (HOOP, ARMS)) for name in ("variational_midpoint", "variational_trapezoidal", "galerkin4")),
    ("galerkin6", (HOOP,)),
    ("avf", (CURVED, STARS)),
    *((name, (KEPLER, (systems.swirl, {"dt": 0.125}, PAIR))) for name in ("euler", "midpoint", "rk4")),
    *((name, (PLANETS,)) for name in (
        "wisdom_holman", "wisdom_holman_c3", "wisdom_holman_c5", "wisdom_holman_c7", "wisdom_holman_c11",
        "wisdom_holman_c17", "saba2", "saba3", "saba4", "aba84", "aba864", "aba104", "aba1064")),
    *((name, (STIFF, TWO_STIFF)) for name in ("interaction", "interaction4")),
    *((name, (STIFF,)) for name in ("interaction6", "interaction8", "interaction_saba3", "interaction_aba84", "interaction_mollified",
                                    "interaction_mollified4")),
    *((name, (LINEAR, LINEAR2)) for name in ("magnus4", "magnus6")),
    *((name, (TOP, SHAKEN)) for name in ("rotations", "rotations4")),
    *((name, (TOP,)) for name in ("rotations6", "rotations8", "spherical_midpoint",
                                  "spherical_midpoint4", "spherical_midpoint6", "lie_cayley", "lie_cayley4", "lie_cayley6")),
    *((name, (CHARGE,)) for name in ("boris", "boris_exact", "axes", "axes4", "axes6")),
    *((name, (FAST,)) for name in ("higuera_cary", "vay")),
    *((name, (DAMPED,)) for name in ("contact", "contact4", "contact6")),
    *((name, (HARES,)) for name in ("pieces", "pieces4", "pieces6")),
    ("impulses", (LANDS,)),
    *((name, (HUNG,)) for name in ("rattle", "rattle4", "rattle6")),
    *((name, (WARM,)) for name in ("baoab", "obabo")),
    ("baoab", (RESCALED, CHAINED)),
    ("rattle_baoab", (WARM_ROD,)),
    ("rotations_bath", (WARM_TOP,)),
    ("brownian", (BROWNIAN,)),
    *((name, (WAVES,)) for name in ("etdrk4", "ifrk4")),
    *((name, (CONDENSATE,)) for name in ("split_step", "split_step4", "split_step6")),
    ("nose_poincare", (POINCARE,)),
    ("leapfrog_layers", (LEAVING,)),
]
# fmt: on
ADAPTIVE = ("taylor", "dop853", "dopri5", "rkc", "rock4", "rodas", "radau")
OWN_STEPS: tuple[tuple[Any, Any, Any], ...] = (
    (systems.lorenz, {}, {"x": 1.0, "y": 1.0, "z": 1.0}),
    (zoo.pendulum, {}, {"q": 2.0, "p": 0.0}),
)
OPENCL = (
    "yoshida4",
    "implicit_midpoint",
    "rk4",
    "interaction",
    "galerkin4",
    "strang",
    "gonzalez",
)
CUDA = ("yoshida4", "nystrom6", "chin4", "rk4", "gauss4")


def name_of(system: Any) -> str:
    return str(getattr(system, "name", "sum")).replace(" ", "-").replace("+", "and")


def cases() -> list[Case]:
    out = []
    for method, places in TABLE:
        for k, (system, options, start) in enumerate(places):
            out.append(
                Case(
                    "methods",
                    "-".join([method, *([options["bath"]] if "bath" in options else []), name_of(system)]),
                    system,
                    {**options, "method": method},
                    start,
                    {"steps": 6, "save_every": 3},
                    opencl=not k and method in OPENCL,
                    fake_cuda=not k and method in CUDA,
                )
            )
    for method in ADAPTIVE:
        for system, options, start in OWN_STEPS:
            out.append(
                Case(
                    "methods",
                    f"{method}-{name_of(system)}",
                    system,
                    {**options, "method": method},
                    start,
                    {"until": 0.5},
                )
            )
    return out
