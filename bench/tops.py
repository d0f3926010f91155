"""Heavy tops against C by hand: 65,536 of them, one thread each.

`python bench/tops.py` compiles bench/tops.c with gcc -O3 -march=native -ffast-math and runs both in turn; the smallest times
of CPU count. `evolve` is timed as a whole, with its first and last frame.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import tinyphysics as tp
from tinyphysics.physics import rigid

FLAGS = ("-O3", "-march=native", "-ffast-math", "-fopenmp-simd", "-shared", "-fPIC")
MOMENTS, MGL, DT = np.array([1.0, 1.0, 0.5]), 1.0, 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tops", type=int, default=65_536)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--times", type=int, default=5)
    asked = parser.parse_args()
    n, steps = asked.tops, asked.steps
    rng = np.random.default_rng(0)
    R = rng.normal(size=(n, 4))
    R /= np.linalg.norm(R, axis=1)[:, None]
    L = rng.normal(size=(n, 3))
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "tops.so"
        source = Path(__file__).with_suffix(".c")
        subprocess.run(["gcc", *FLAGS, "-o", str(made), str(source), "-lmvec", "-lm"], check=True)
        by_hand = ctypes.CDLL(str(made)).tops
    sim = tp.compile(rigid.heavy_top, dt=DT, checks="off")
    best = {"C by hand": np.inf, "tinyphysics": np.inf}
    for _ in range(asked.times):
        z = np.ascontiguousarray(np.concatenate([R, L], axis=1).T)
        began = time.process_time()
        by_hand(
            z.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(n), ctypes.c_long(steps), ctypes.c_double(DT),
            *(ctypes.c_double(1 / x) for x in MOMENTS), ctypes.c_double(MGL),
        )  # fmt: skip
        best["C by hand"] = min(best["C by hand"], time.process_time() - began)
        began = time.process_time()
        out = sim.evolve(R=R, L=L, steps=steps, frames=2, threads=1)
        best["tinyphysics"] = min(best["tinyphysics"], time.process_time() - began)
    off = np.abs(out.final.L - z[4:].T).max()
    for name, seconds in best.items():
        print(f"{name:12} {1e9 * seconds / (n * steps):7.2f} ns a top and step")
    print(f"ratio {best['tinyphysics'] / best['C by hand']:.2f}; momenta agree to {off:.0e}")


if __name__ == "__main__":
    main()
