"""What does a bath cost?  Double wells at a temperature beside C by hand, and a bath beside the same energy without one.

python bench/heat.py             prints nanoseconds of CPU time a member and step, on one thread
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import tinyphysics as tp

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


def main() -> None:
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
    ratio = rows["tinyphysics, langevin"] / rows["C by hand, langevin"]
    print(
        f"tinyphysics over C: {ratio:.2f}; the same noise, largest difference of q after {STEPS} steps {agree:.1e}"
    )


if __name__ == "__main__":
    main()
