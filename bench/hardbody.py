"""A gas of hard discs against C by hand: 4,096 of them, packing 0.3, a million collisions; CPU time of one run.

`python bench/hardbody.py` compiles bench/hardbody.c with gcc -O3 -march=native -ffast-math and runs both in turn.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from tinyphysics import hardbody

FLAGS = ("-O3", "-march=native", "-ffast-math", "-shared", "-fPIC")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--discs", type=int, default=4096)
    parser.add_argument("--collisions", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=3)
    asked = parser.parse_args()
    start = hardbody.lattice(asked.discs, 0.3, seed=3)
    gas = hardbody.Gas(box=start.pop("box"))
    calm = gas.evolve(**start, collisions=100_000, frames=2)
    q, v = np.mod(calm.q[-1], gas.box), calm.v[-1]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "hardbody.so"
        subprocess.run(
            ["gcc", *FLAGS, "-o", str(made), str(Path(__file__).with_suffix(".c")), "-lm"], check=True
        )
        by_hand = ctypes.CDLL(str(made)).discs
    by_hand.restype = ctypes.c_double
    best = {"C by hand": np.inf, "tinyphysics": np.inf}
    for _ in range(asked.times):
        x, u = np.ascontiguousarray(q), np.ascontiguousarray(v)
        began = time.process_time()
        Z = by_hand(
            ctypes.c_int(asked.discs), ctypes.c_double(gas.box[0]), x.ctypes.data_as(ctypes.c_void_p),
            u.ctypes.data_as(ctypes.c_void_p), ctypes.c_long(asked.collisions),
        )  # fmt: skip
        best["C by hand"] = min(best["C by hand"], time.process_time() - began)
        began = time.process_time()
        out = gas.evolve(resume=calm, collisions=asked.collisions, frames=2)
        best["tinyphysics"] = min(best["tinyphysics"], time.process_time() - began)
    for name, seconds in best.items():
        print(f"{name:12} {1e6 * seconds / asked.collisions:6.3f} us a collision")
    print(f"ratio {best['tinyphysics'] / best['C by hand']:.2f}")
    print(
        f"PV/NkT {out.compressibility:.4f}, by hand {Z:.4f}; energy to {abs(out.energy[-1] / out.energy[0] - 1):.0e}"
    )


if __name__ == "__main__":
    main()
