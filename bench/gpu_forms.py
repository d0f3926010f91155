"""What does trying gain?  Ensembles in every form (members of a thread, threads of a block) beside the estimate.

    python bench/gpu_forms.py [--members 4194304] [--steps 500]

Picoseconds a member and step by events of the device, the least of some rounds, without a cache: what trying costs is what it
costs a process that has not seen the program. device/cuda/tuning.py has the constants that this is for.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time

import numpy as np

import tinyphysics as tp
from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda import tuning as cuda_tuning
from tinyphysics.physics.zoo import ZOO
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.state.ensemble import inputs

NAMES, ROUNDS = ("pendulum", "henon_heiles", "kepler"), 5


def measured(name: str, precision: str, members: int, steps: int) -> None:
    d = ZOO[name]
    sim = tp.compile(d.system, dt=d.dt, backend="cuda", precision=precision)
    rng = np.random.default_rng(1)
    start = {n: np.asarray(v) * rng.uniform(0.99, 1.01, (members, *np.shape(v))) for n, v in d.start.items()}
    given = inputs(sim.system, start, sim.compiled.encoding)
    engine = engine_for(sim.target, sim.tpir)
    m = engine.start(given.states, given.params, members, d.dt, 0.0)
    engine.advance(m, steps)  # clocks rise, and the kernel of the estimate is there
    began = time.perf_counter()
    chosen = engine.tuner.tried(m, steps)
    cost = time.perf_counter() - began
    forms = cuda_tuning.candidates(m.form, members, m.carried.lanes, cuda.device().processors)
    trial, least = engine.trial(m, steps), dict.fromkeys(forms, float("inf"))
    for _ in range(ROUNDS):
        for form in forms:
            least[form] = min(least[form], trial(form))
    best = min(least, key=lambda form: least[form])
    print(f"{name} {precision}, {members:,} members, {steps} steps: tried in {cost:.2f} s")
    for form in sorted(forms, key=lambda f: (f.members, f.threads)):
        said = [
            what
            for what, f in (("estimate", m.form), ("chosen", chosen), ("best", best))
            if f is not None and (f.members, f.threads) == (form.members, form.threads)
        ]
        ps = 1e9 * least[form] / (members * steps)
        print(f"  {form.members} of a thread, {form.threads:3d} of a block: {ps:6.3f} ps {', '.join(said)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=1 << 22)
    parser.add_argument("--steps", type=int, default=500)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TINYPHYSICS_CACHE"] = folder
        for name in NAMES:
            for precision in ("float64", "float32"):
                measured(name, precision, args.members, args.steps)


if __name__ == "__main__":
    main()
