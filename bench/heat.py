"""What does a bath cost?  Double wells at a temperature beside C by hand, and a bath beside the same energy without one.

python bench/heat.py             prints nanoseconds of CPU time a member and step, on one thread
python bench/heat.py atoms       the same an atom and step, of 4,000 Lennard-Jones atoms
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.starts import lattice

MEMBERS, STEPS, DT, RATE, SEED, TRIES = 65_536, 200, 0.05, 1.0, 7, 5
FLAGS = ("-Ofast", "-march=native", "-fopenmp-simd", "-shared", "-fPIC")


@tp.hamiltonian
def wells(q, p):
    return p**2 / 2 + (q**2 - 1) ** 2


def by_hand() -> Any:
    source = Path(__file__).with_name("heat.c")
    folder = tempfile.mkdtemp()
    subprocess.run(["cc", *FLAGS, str(source), "-o", f"{folder}/heat.so", "-lmvec", "-lm"], check=True)
    f = ctypes.CDLL(f"{folder}/heat.so").wells
    f.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_long] * 2 + [ctypes.c_double] * 3 + [ctypes.c_uint32]
    f.restype = None
    return f


def least(run: Any) -> float:
    """Nanoseconds of CPU time a member and step, the best of some."""
    found = []
    for _ in range(TRIES):
        began = time.process_time()
        run()
        found.append(time.process_time() - began)
    return min(found) / MEMBERS / STEPS * 1e9


BATHS: dict[str, dict[str, Any]] = {
    "no bath": {},
    "langevin": {"temperature": 1.0},
    "andersen": {"temperature": 1.0, "bath": "andersen"},
    "bussi": {"temperature": 1.0, "bath": "bussi"},
    "nose_hoover": {"temperature": 1.0, "bath": "nose_hoover"},
    "gle, one number": {"temperature": 1.0, "bath": tp.gle(kernel=[(1.0, 0.5)])},
    "brownian": {"temperature": 1.0, "bath": "brownian"},
}


@tp.hamiltonian
def liquid(q: tp.Array["n", 3], p: tp.Array["n", 3], box: float = 1.0):  # noqa: F821
    s = 1 / tp.pair_distance2(q, box=box, cutoff=2.5, skin=0.3) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s * s - s))


def atoms() -> None:
    """4,000 atoms from one start; runs take turns, so that all baths see the same machine."""
    q, box = lattice("fcc", 10, density=0.8)
    p = np.random.default_rng(1).normal(size=q.shape)
    start = dict(q=q, p=p - p.mean(0), box=float(box[0]))
    warm = tp.compile(liquid, 0.004, checks="off").evolve(**start, steps=200, frames=2, threads=1).final
    start |= {"q": warm.q, "p": warm.p}
    sims = {
        name: tp.compile(liquid, 2e-5 if name == "brownian" else 0.004, checks="off", **more)
        for name, more in BATHS.items()
    }
    found: dict[str, list[float]] = {name: [] for name in sims}
    for _ in range(TRIES):
        for name, sim in sims.items():
            began = time.process_time()
            sim.evolve(**start, steps=100, frames=2, threads=1, progress=False)
            found[name].append(time.process_time() - began)
    least_of = {name: min(ts) / len(q) / 100 * 1e9 for name, ts in found.items()}
    for name, ns in least_of.items():
        print(f"{name:20}{ns:7.1f} ns an atom and step, {ns / least_of['no bath']:.3f} of no bath")


def main() -> None:
    if "atoms" in sys.argv:
        return atoms()
    start = dict(q=np.linspace(-1.0, 1.0, MEMBERS), p=np.zeros(MEMBERS))
    options = dict(steps=STEPS, frames=2, threads=1, progress=False)
    warm, cold = tp.compile(wells, DT, temperature=1.0, checks="off"), tp.compile(wells, DT, checks="off")
    ours = warm.evolve(**start, **options, seed=SEED)
    cold.evolve(**start, **options)
    hand = by_hand()
    q, p = start["q"].copy(), start["p"].copy()
    hand(q.ctypes.data, p.ctypes.data, MEMBERS, STEPS, DT, 1.0, RATE, SEED)
    agree = float(np.abs(q - ours.final.q).max())

    def again() -> None:
        x, y = start["q"].copy(), start["p"].copy()
        hand(x.ctypes.data, y.ctypes.data, MEMBERS, STEPS, DT, 1.0, RATE, SEED)

    rows = {
        "tinyphysics, langevin": least(lambda: warm.evolve(**start, **options, seed=SEED)),
        "C by hand, langevin": least(again),
        "tinyphysics, no bath": least(lambda: cold.evolve(**start, **options)),
    }
    for name, ns in rows.items():
        print(f"{name:24}{ns:7.2f} ns a member and step")
    for name, more in BATHS.items():
        sim = tp.compile(wells, DT, checks="off", **more)
        run = partial(sim.evolve, **(start | {"p": 0.5 + 0 * start["q"]}), **options, seed=SEED)
        run()
        print(f"{name:24}{least(run):7.2f} ns a member and step")
    ratio = rows["tinyphysics, langevin"] / rows["C by hand, langevin"]
    print(
        f"tinyphysics over C: {ratio:.2f}; the same noise, largest difference of q after {STEPS} steps {agree:.1e}"
    )


if __name__ == "__main__":
    main()
