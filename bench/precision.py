"""What does each precision cost, and what does it keep?  Time of a step and energy error after many, as ratios to float64.

Times are CPU seconds of this thread, precisions interleaved, the smallest counts. Energies are those of a small
ensemble, looked at every 997 steps: the largest |E - E0| of each member, over the largest sum of |terms of H|.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.zoo import kepler, pendulum
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.state.ensemble import inputs

PRECISIONS = ("float64", "float32", "mixed", "compensated", "dd")
DT = 0.01
LOOK = 997  # steps; no divisor of a period


def orbits(n: int) -> dict[str, np.ndarray]:
    e = np.linspace(0.02, 0.5, n)
    return {"q": np.stack([1 - e, 0 * e], 1), "p": np.stack([0 * e, np.sqrt((1 + e) / (1 - e))], 1)}


def swings(n: int) -> dict[str, np.ndarray]:
    return {"q": np.linspace(-2.5, 2.5, n), "p": np.linspace(0.1, 0.3, n)}


# the system, where it begins, and the sum of the terms of H without their signs
SYSTEMS = {
    "pendulum": (pendulum, swings, lambda q, p: p * p / 2 + abs(tp.cos(q))),
    "kepler": (kepler, orbits, lambda q, p: p @ p / 2 + 1 / tp.norm(q)),
}


def times(name: str, members: int, steps: int, repeat: int) -> dict[str, float]:
    """Nanoseconds of a member and step."""
    system, start, _ = SYSTEMS[name]
    running = {}
    for precision in PRECISIONS:
        sim = tp.compile(system, dt=DT, precision=precision)
        i = inputs(sim.system, start(members), sim.compiled.encoding)
        engine = engine_for(sim.target, sim.tpir, None, 1, False)
        m = engine.start(i.states, i.params, members, DT, 0.0, 1)
        for _ in range(3):
            engine.advance(m, steps)  # compiles, the good code too
        running[precision] = engine, m
    best = dict.fromkeys(running, float("inf"))
    for _ in range(repeat):
        for precision, (engine, m) in running.items():
            began = time.thread_time()
            engine.advance(m, steps)
            best[precision] = min(best[precision], time.thread_time() - began)
    return {precision: 1e9 * t / (members * steps) for precision, t in best.items()}


def energies(name: str, members: int, steps: int) -> dict[str, float]:
    """The largest energy error, rms over the members; relative to the largest sum of |terms|."""
    system, start, terms = SYSTEMS[name]
    given, out = start(members), {}
    for precision in PRECISIONS:
        sim = tp.compile(system, dt=DT, precision=precision)
        watched = {"energy": "energy", "terms": terms}
        run = sim.evolve(**given, steps=steps, observe=watched, observe_every=LOOK, progress=False, frames=2)
        worst = np.abs(run["energy"] - run["energy"][0]).max(axis=0) / run["terms"].max(axis=0)
        out[precision] = float(np.sqrt((worst**2).mean()))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=16_384)
    parser.add_argument("--repeat", type=int, default=60)
    parser.add_argument("--steps", type=float, default=1e7, help="of the runs whose energies are compared")
    parser.add_argument("--few", type=int, default=32, help="their members")
    parser.add_argument("--json")
    args = parser.parse_args()
    rows = []
    for name in SYSTEMS:
        t, e = times(name, args.members, 50, args.repeat), energies(name, args.few, int(args.steps))
        rows.append({"workload": name, "ns": t, "energy error": e, "steps": int(args.steps)})
        for precision in PRECISIONS:
            print(
                f"{name:9s} {precision:12s} {t[precision]:6.3f} ns  {t[precision] / t['float64']:5.2f} of the time   "
                f"energy {e[precision]:.3e}  {e[precision] / e['float64']:6.3f} of the error"
            )
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
