"""Pinned runs: neighbours, trees, series, sums, maps, equations, goals, jumps, other times, noise."""

from __future__ import annotations

from typing import Any

import tinyphysics as tp
from pins import arrays, systems
from pins.runs import Case
from pins.starts import around, grid, numbers

zoo = tp.physics.zoo
PAIR = {"q": [0.125, 0.25], "p": [0.375, -0.125]}
SCALAR = {"q": 0.75, "p": 0.375}
ORBIT = {"q": [1.0, 0.0], "p": [0.0, 1.25]}
NEAR = {"q": [0.25, 0.0], "p": [0.0, 2.5]}
LORENZ = {"x": 1.0, "y": 1.0, "z": 1.0}
DROP = {"q": grid(3, 1.5), "p": numbers(27, 3, seed=5) / 2}
SMALL = {"q": grid(3, 1.5)[:12], "p": numbers(12, 3, seed=5) / 2}
ROW = {"q": numbers(34), "p": numbers(34, seed=2)}
HEAD = {"q": [[float(k), 0.125 * (k % 2), 0.0] for k in range(6)], "p": numbers(6, 3, seed=3) / 4}
STARS = {"q": 4 * numbers(70, 3), "p": numbers(70, 3, seed=2) / 64, "m": 1.5 + numbers(70, seed=3) / 4}
PLEIADES = {
    "q": 4 * numbers(7, 2, seed=9),
    "p": numbers(7, 2, seed=8),
    "m": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
}
SHORT, STEPS = {"steps": 2}, {"steps": 6}
Row = tuple[str, Any, dict[str, Any], dict[str, Any], dict[str, Any]]


def angular(q, p):
    return q[0] * p[1] - q[1] * p[0]


# (name, system, options of compile, start, options of evolve), by group
# fmt: off
NEIGHBOURS: list[Row] = [
    *((f"liquid-{p}", arrays.liquid, {"dt": 2.0**-8, "precision": p}, DROP, SHORT)
      for p in ("float64", "float32", "compensated", "mixed", "lattice")),
    ("switched", arrays.switched, {"dt": 2.0**-8}, SMALL, SHORT),
    ("tilted", arrays.tilted, {"dt": 2.0**-8}, {**SMALL, "cell": [[8.0, 0.0, 0.0], [3.0, 7.5, 0.0], [-2.0, 2.5, 9.0]]}, SHORT),
    ("open_space", arrays.open_space, {"dt": 2.0**-8, "order": 4}, SMALL, SHORT),
    ("flat_liquid", arrays.flat_liquid, {"dt": 2.0**-6}, {"q": grid(5, 1.5, 2), "p": numbers(25, 2), "m": 1.5 + numbers(25) / 4},
     SHORT),
    ("long-enough-to-list-again", arrays.flat_liquid, {"dt": 0.125},
     {"q": grid(4, 2.0, 2), "p": 4 * numbers(16, 2), "m": 1.5 + numbers(16) / 4}, {"steps": 12}),
]
TREES: list[Row] = [
    (f"gravity-{budget:g}", tp.physics.particles.gravity, {"dt": 2.0**-8, "approximate": budget, **more},
     {**STARS, "softening": 0.0625}, SHORT) for budget, more in ((1e-2, {}), (1e-3, {}), (1e-3 / 2, {"order": 4}))
]
SERIES: list[Row] = [
    ("kepler", systems.kepler, {"method": "taylor"}, ORBIT, {"until": 1.0}),
    ("kepler-loose", systems.kepler, {"method": "taylor", "tolerance": 1e-6}, ORBIT, {"until": 1.0}),
    ("kepler-grid", systems.kepler, {"method": "taylor", "dt": 0.125, "tolerance": 1e-9}, ORBIT, {"steps": 5, "save_every": 2}),
    ("witch", systems.witch, {}, {"x": 1.0}, {"until": 1.0}),
    ("witch-dd", systems.witch, {"precision": "dd"}, {"x": 1.0}, {"until": 0.5}),
    ("lorenz-ensemble", systems.lorenz, {"tolerance": 1e-9}, around(LORENZ, 3), {"until": 0.25}),
    ("arenstorf", systems.arenstorf, {"tolerance": 1e-9}, {"x": [0.994, 0.0], "v": [0.0, -2.0]}, {"until": 0.0625}),
    ("pleiades", arrays.bodies, {"method": "taylor", "tolerance": 1e-9, "sizes": {"n": 7}}, PLEIADES, {"until": 0.0625}),
]
ODES: list[Row] = [
    ("dragged-dop853", systems.dragged, {"method": "dop853"}, {"x": 1.0, "v": 0.0}, {"until": 2.0}),
    ("dragged-absolute", systems.dragged, {"method": "dop853", "tolerance": 1e-6, "absolute": 1e-6}, {"x": 1.0, "v": 0.0},
     {"until": 2.0}),
    ("dragged-rk4", systems.dragged, {"method": "rk4", "dt": 0.125}, {"x": 1.0, "v": 0.0}, STEPS),
    ("van_der_pol-radau", systems.van_der_pol, {"method": "radau", "tolerance": 1e-4}, {"x": 2.0, "v": 0.0}, {"until": 0.25}),
    ("robertson-radau", systems.robertson, {"method": "radau", "tolerance": 1e-4}, {"a": 1.0, "b": 0.0, "c": 0.0},
     {"until": 1.0}),
    ("forced-radau", systems.forced, {"method": "radau", "dt": 0.125, "tolerance": 1e-4}, {"x": 5.0}, {"steps": 3}),
    ("lorenz-euler", systems.lorenz, {"method": "euler", "dt": 2.0**-7}, LORENZ, STEPS),
    ("heat-dopri5", systems.heat, {"method": "dopri5", "tolerance": 1e-4, "sizes": {"n": 80}}, {"u": numbers(80)},
     {"until": 0.5, "frames": 2}),
    ("heat-rkc", systems.heat, {"method": "rkc", "sizes": {"n": 80}}, {"u": numbers(80)}, {"until": 0.5, "frames": 2}),
    ("heat-rock4", systems.heat, {"method": "rock4", "sizes": {"n": 80}}, {"u": numbers(80)}, {"until": 0.5, "frames": 2}),
    ("heat-rodas", systems.heat, {"method": "rodas", "tolerance": 1e-4, "sizes": {"n": 200}}, {"u": numbers(200)},
     {"until": 0.5, "frames": 2}),
    ("heat-dop853", systems.heat, {"method": "dop853", "tolerance": 1e-4, "sizes": {"n": 80}}, {"u": numbers(80)},
     {"until": 0.5, "frames": 2}),
]
SOLVED: list[Row] = [
    ("fput-implicit_midpoint", arrays.fput, {"method": "implicit_midpoint", "dt": 0.25, "sizes": {"n": 120}},
     {"q": numbers(120), "p": numbers(120, seed=2)}, STEPS),
    ("wave-gauss4", arrays.wave, {"method": "gauss4", "dt": 0.25, "sizes": {"n": 9, "m": 40}},
     {"phi": numbers(9, 40), "pi": numbers(9, 40, seed=2)}, STEPS),
]
EVENTS: list[Row] = [
    ("apsides-taylor", systems.kepler, {"method": "taylor", "tolerance": 1e-9}, ORBIT,
     {"until": 10.0, "events": {"apsis": lambda q, p: q @ p}}),
    ("turns-dop853", systems.dragged, {"method": "dop853", "tolerance": 1e-6}, {"x": 1.0, "v": 0.0},
     {"until": 8.0, "events": {"turn": lambda v: v, "middle": lambda x: x}}),
    ("crossings-radau", systems.van_der_pol, {"method": "radau", "tolerance": 1e-4}, {"x": 2.0, "v": 0.0},
     {"until": 1.0, "events": {"zero": lambda x: x}}),
    ("ensemble-taylor", zoo.pendulum, {"method": "taylor", "tolerance": 1e-6}, around({"q": 1.0, "p": 0.0}, 3),
     {"until": 4.0, "events": {"down": lambda q: q}}),
    ("bounces-yoshida4", zoo.pendulum + tp.wall(lambda q: q + 0.25, 0.75, name="floor"),
     {"dt": 0.125, "method": "yoshida4"}, {"q": 1.0, "p": 0.0}, {"until": 10.0}),
    ("billiard", systems.drifting + tp.wall(lambda q: 1 - q[0] ** 2 / 4 - q[1] ** 2, name="ellipse"), {"dt": 4.0},
     {"q": [0.25, 0.25], "p": [1.0, 0.5]}, {"steps": 8}),
    ("apsides-leapfrog", systems.kepler, {"dt": 0.125}, ORBIT, {"until": 10.0, "events": {"apsis": lambda q, p: q @ p}}),
    ("ensemble-yoshida4", zoo.pendulum, {"dt": 0.25, "method": "yoshida4"}, around({"q": 1.0, "p": 0.0}, 3),
     {"until": 4.03, "events": {"down": lambda q: q, "slow": lambda p, t: p + 0.5 - 0.01 * t}}),
]
MAPS: list[Row] = [
    ("standard", systems.standard, {}, {"x": 0.125, "y": 0.25}, {"steps": 20, "save_every": 5}),
    ("standard-ensemble", systems.standard, {}, around({"x": 0.125, "y": 0.25}, 9), {"steps": 9, "k": numbers(9, seed=3)}),
    ("products", systems.products, {}, around({"x": 0.375, "y": 0.5}, 5), {"steps": 30}),
    ("products-float32", systems.products, {"precision": "float32"}, around({"x": 0.375, "y": 0.5}, 5), {"steps": 30}),
    ("fluid", tp.physics.fluids.fluid, {"sizes": {"h": 3, "w": 34}}, {"f": 0.125 + numbers(9, 3, 34) / 64}, {"steps": 2}),
]
NOISE: list[Row] = [
    ("noisy", systems.noisy, {}, {"x": 0.5, "y": 0.25}, {"steps": 9, "seed": 7}),
    ("noisy-ensemble", systems.noisy, {}, around({"x": 0.5, "y": 0.25}, 5), {"steps": 9, "seed": 2**40 + 1}),
    ("noisy-float32", systems.noisy, {"precision": "float32"}, {"x": 0.5, "y": 0.25}, {"steps": 9, "seed": 7}),
    ("walk", arrays.walk, {}, {"x": numbers(6, 2)}, {"steps": 3, "seed": 1}),
    ("walk-in-loops", arrays.walk, {"sizes": {"n": 40}}, {"x": numbers(40, 2)}, {"steps": 3, "seed": 1}),
    ("ising", arrays.ising, {"sizes": {"n": 34}}, {"spin": 1 - 2.0 * (numbers(34, 34) > 0), "flip": 1 - 2.0 * (numbers(34, 34) > 0)},
     {"steps": 2, "seed": 3}),
]
SUMS: list[Row] = [
    ("chain-trap", arrays.chain + arrays.trap, {"dt": 0.0625, "sizes": {"n": 6}}, {"q": numbers(6), "p": numbers(6, seed=2)},
     {"steps": 6, "k": 0.25}),
    ("chain-trap-in-loops", arrays.chain + arrays.trap, {"dt": 0.0625}, ROW, {"steps": 3, "k": 0.25}),
    ("chain-trap-lamps", arrays.chain + arrays.trap + arrays.lamps, {"dt": 0.0625, "order": 4, "sizes": {"n": 4}},
     {"q": numbers(4), "p": numbers(4, seed=2)}, STEPS),
    ("split", tp.split(zoo.kepler, systems.coriolis), {"dt": 0.0625}, ORBIT, STEPS),
    ("paces-inner", tp.fast(arrays.spring) + tp.slow(arrays.weak), {"dt": 0.5, "inner": 5}, {"q": [1.0], "p": [0.25]}, STEPS),
    ("paces-found", tp.fast(arrays.spring) + tp.slow(arrays.weak), {"dt": 0.5}, {"q": [1.0], "p": [0.25]}, STEPS),
    ("paces-order-4", tp.fast(arrays.spring) + tp.slow(arrays.weak), {"dt": 0.25, "inner": 3, "order": 4},
     {"q": [1.0], "p": [0.25]}, STEPS),
    ("one-pace", arrays.backbone + arrays.beads, {"dt": 2.0**-6}, HEAD, SHORT),
    ("gravity-oblateness", tp.physics.particles.gravity + tp.physics.additions.oblateness, {"dt": 0.0625, "sizes": {"n": 3}},
     {"q": 4 * numbers(3, 3, seed=6), "p": numbers(3, 3, seed=7), "m": [4.0, 1.0, 1.0], "J2": 0.0625, "radius": 0.25}, STEPS),
]
JUMPS: list[Row] = [
    *((f"oscillator-{way}", zoo.oscillator, {"dt": 0.125, "propagator": way}, {"q": 1.0, "p": 0.125}, {"steps": 10**9})
      for way in ("exact", "method")),
    ("oscillator-default", zoo.oscillator, {"dt": 0.125}, {"q": 1.0, "p": 0.125}, {"steps": 12, "save_every": 5}),
    ("oscillator-loop", zoo.oscillator, {"dt": 0.125, "propagator": "loop"}, {"q": 1.0, "p": 0.125}, {"steps": 12, "save_every": 5}),
    ("two_masses-ensemble", systems.two_masses, {"dt": 0.125}, around(PAIR, 3),
     {"steps": 10**6, "save_every": 10**5, "hash_every": 10**5, "k": [0.25, 0.5, 0.75]}),
    ("carousel", systems.carousel, {"dt": 0.125}, PAIR, {"steps": 12}),
    *((f"springs-{way}", systems.springs, {"dt": 0.125, "propagator": way}, {"q": numbers(4), "p": numbers(4, seed=2)},
       {"steps": 10**6}) for way in ("exact", "method", "loop") if way != "loop"),
    ("springs-loop", systems.springs, {"dt": 0.125, "propagator": "loop"}, {"q": numbers(4), "p": numbers(4, seed=2)}, STEPS),
    ("springs-dd", systems.springs, {"dt": 0.125, "propagator": "loop", "precision": "dd"},
     {"q": numbers(4), "p": numbers(4, seed=2)}, STEPS),
]
TURNS: list[Row] = [
    ("stiff_trap-default", systems.stiff_trap, {"dt": 0.03125}, SCALAR, STEPS),
    ("stiff_trap-order-4", systems.stiff_trap, {"dt": 0.03125, "method": "interaction", "order": 4}, SCALAR, STEPS),
    ("stiff_trap-ensemble", systems.stiff_trap, {"dt": 0.03125}, around(SCALAR, 3), {"steps": 6, "w": [50.0, 100.0, 200.0]}),
    ("swing-mollified-at-resonance", systems.swing, {"dt": 1.0, "method": "interaction_mollified"}, SCALAR, STEPS),
]
GOALS: list[Row] = [
    ("kepler-drift", systems.kepler, {"energy_drift": 1e-4}, ORBIT, {"until": 2.0}),
    ("kepler-error", systems.kepler, {"error": 1e-4}, ORBIT, {"until": 2.0}),
    ("pendulum-pilot", zoo.pendulum, {"error": 1e-4, "pilot": {**SCALAR, "until": 2.0}}, SCALAR, {"until": 2.0}),
    ("pendulum-step-given", zoo.pendulum, {"dt": 0.125, "pilot": SCALAR}, SCALAR, STEPS),
    ("curved-drift", systems.curved, {"energy_drift": 1e-3}, {"q": 0.5, "p": 0.5}, {"until": 1.0}),
]
CLOCKS: list[Row] = [
    ("logarithmic", systems.kepler, {"dt": 0.125, "time": "logarithmic"}, NEAR, STEPS),
    ("logarithmic-order-4", systems.kepler, {"dt": 0.125, "time": "logarithmic", "order": 4}, NEAR, {"steps": 4, "save_every": 2}),
    ("logarithmic-until", systems.kepler, {"dt": 0.125, "time": "logarithmic"}, NEAR, {"until": 0.25}),
    ("sundman", systems.kepler, {"dt": 0.125, "time": "sundman"}, NEAR, {"steps": 3}),
    ("own-function", systems.kepler, {"dt": 0.125, "time": lambda q: tp.norm(q) ** 1.5}, NEAR, {"steps": 3}),
    ("driven", systems.driven, {"dt": 0.125}, SCALAR, {"steps": 6, "t0": 2.0}),
    ("pumped", systems.pumped, {"dt": 0.125, "order": 4}, SCALAR, STEPS),
    ("pumped-dkd", systems.pumped, {"dt": 0.125, "method": "leapfrog_dkd"}, SCALAR, STEPS),
    ("backwards", systems.kepler, {"dt": -0.125}, ORBIT, STEPS),
]
HELD: list[Row] = [
    ("energy", systems.kepler, {"dt": 0.125, "project": "energy"}, ORBIT, STEPS),
    ("energy-and-momentum", systems.kepler, {"dt": 0.125, "project": {"energy": "energy", "L": angular}}, ORBIT, STEPS),
    ("energy-rk4", zoo.henon_heiles, {"dt": 0.125, "method": "rk4", "project": "energy"}, PAIR, STEPS),
]
WRITTEN: list[Row] = [
    ("swirl", systems.swirl, {"dt": 0.125}, PAIR, STEPS),
    ("swirl-order-4", systems.swirl, {"dt": 0.125, "order": 4}, PAIR, STEPS),
    ("gravity_force", systems.gravity_force, {"dt": 0.125}, {"q": [1.0, 0.0], "p": [0.0, 1.0]}, STEPS),
    ("cluster-class", systems.Cluster(), {"dt": 0.125}, {"q": numbers(3, 2), "p": numbers(3, 2, seed=2)}, STEPS),
    ("double_pendulum", systems.double_pendulum, {"dt": 2.0**-6}, {"q": [2.0, 2.5], "v": [0.0, 0.25]}, {"steps": 3}),
    ("hoop", systems.hoop, {"dt": 0.0625}, {"q": 1.0, "v": 0.25}, {"steps": 4}),
    ("hoop-momentum", systems.hoop, {"dt": 0.0625, "order": 4}, {"q": 1.0, "p": 0.25}, {"steps": 3}),
    ("relativistic", systems.kepler_mass, {"dt": 0.0625, "kinetics": "relativistic"}, ORBIT, {"steps": 6, "c": 8.0}),
    ("scaled", zoo.henon_heiles, {"dt": 0.125, "scale": "auto"}, PAIR, STEPS),
    ("lattice-units", zoo.henon_heiles, {"dt": 0.125, "precision": "lattice", "lattice": {"q": 2.0**-30, "p": 2.0**-40}}, PAIR, STEPS),
    ("bead", systems.bead, {"dt": 0.125}, SCALAR, {"steps": 4}),
    ("curved_row-in-loops", arrays.curved_row, {"dt": 0.0625, "sizes": {"n": 34}}, ROW, SHORT),
    ("forbid", zoo.henon_heiles, {"dt": 0.125, "forbid": ("leapfrog_kdk",)}, PAIR, STEPS),
    *((f"order-{n}", zoo.henon_heiles, {"dt": 0.125, "order": n}, PAIR, {"steps": 3}) for n in (1, 3, 6, 10)),
    ("symplectic", zoo.pendulum, {"dt": 0.125, "method": "symplectic"}, SCALAR, STEPS),
]
FAST: list[Row] = [
    ("kepler", systems.kepler, {"dt": 0.125, "math": "fast"}, ORBIT, STEPS),
    ("kepler-float32", systems.kepler, {"dt": 0.125, "math": "fast", "precision": "float32"}, ORBIT, STEPS),
    ("cluster", arrays.cluster, {"dt": 0.125, "math": "fast"}, {"q": grid(4, 1.0)[:34], "p": numbers(34, 3), "m": 1.5 + numbers(34) / 4},
     {"steps": 1}),
]
GROUPS: dict[str, list[Row]] = {
    "neighbours": NEIGHBOURS, "trees": TREES, "series": SERIES, "odes": ODES, "solved": SOLVED, "events": EVENTS, "maps": MAPS,
    "noise": NOISE, "sums": SUMS, "jumps": JUMPS, "turns": TURNS, "goals": GOALS, "clocks": CLOCKS, "held": HELD, "written": WRITTEN,
    "fast": FAST,
}
# fmt: on
OPENCL = (
    "jumps/oscillator-default",
    "jumps/two_masses-ensemble",
    "maps/products",
    "noise/noisy",
    "sums/chain-trap",
    "clocks/logarithmic",
    "written/scaled",
)
CUDA = (
    "jumps/oscillator-default",
    "jumps/two_masses-ensemble",
    "neighbours/switched",
    "series/kepler",
    "maps/standard",
    "noise/noisy",
    "sums/paces-inner",
    "clocks/driven",
    "trees/gravity-0.01",
)


def cases() -> list[Case]:
    return [
        Case(
            group, name, system, options, start, run,
            comparable=group != "fast",
            opencl=f"{group}/{name}" in OPENCL,
            fake_cuda=f"{group}/{name}" in CUDA,
        )
        for group, rows in GROUPS.items()
        for name, system, options, start, run in rows
    ]  # fmt: skip
