"""Whole numbers against C by hand: the game of life, a lattice gas and a counter of 16 bits, one thread each.

`python bench/integers.py` compiles bench/integers.c with gcc -O3 -march=native and runs both in turn; the smallest times of
CPU count. A step is one pass over all cells; `evolve` is timed as a whole, with its frames and its hash.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import tinyphysics as tp

HERE = Path(__file__).parent
FLAGS = ("-O3", "-march=native", "-fwrapv", "-shared", "-fPIC")


@tp.map
def life(x: tp.Int8["n", "n"]):
    around = sum(np.roll(x, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    return ((around == 3) | ((around == 2) & (x == 1))).astype("int8")


@tp.map
def life_of_conditions(x: tp.Bool["n", "n"]):
    ones = x.astype("int8")
    around = sum(np.roll(ones, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    return (around == 3) | ((around == 2) & x)


@tp.map
def gas(x: tp.Int8["n", "n"]):
    x = np.where((x == 5) | (x == 10), x ^ 15, x)
    return np.roll(x & 1, 1, 1) | np.roll(x & 4, -1, 1) | np.roll(x & 2, 1, 0) | np.roll(x & 8, -1, 0)


@tp.map
def count(x: tp.Int16["n", "n"]):
    return 3 * x + (np.roll(x, 1, 1) ^ np.roll(x, -1, 1))


# system, what C calls it, cells that it begins with
ROWS: dict[str, tuple[Any, str, Any, int]] = {
    "life, int8": (life, "life", np.int8, 2),
    "life, bool": (life_of_conditions, "life", np.bool_, 2),
    "gas, int8": (gas, "gas", np.int8, 16),
    "count, int16": (count, "count", np.int16, 1000),
}


def built(folder: str) -> ctypes.CDLL:
    library = Path(folder) / "integers.so"
    subprocess.run(["gcc", *FLAGS, "-o", str(library), str(HERE / "integers.c")], check=True)
    return ctypes.CDLL(str(library))


def by_hand(library: ctypes.CDLL, name: str, cells: Any, steps: int) -> tuple[float, Any]:
    """(CPU seconds of a step, the cells after all of them)."""
    a = cells.astype(np.int8) if cells.dtype == bool else cells.copy()
    b = np.zeros_like(a)
    run = getattr(library, f"run_{name}")
    began = time.thread_time()
    run(ctypes.c_void_p(a.ctypes.data), ctypes.c_void_p(b.ctypes.data), *map(ctypes.c_int64, (len(a), steps)))
    return (time.thread_time() - began) / steps, a if steps % 2 == 0 else b


def ours(sim: Any, cells: Any, steps: int) -> tuple[float, Any]:
    began = time.thread_time()
    out = sim.evolve(x=cells, steps=steps, frames=2, threads=1, progress=False)
    return (time.thread_time() - began) / steps, out.final.x


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--n", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        library = built(folder)
        for title, (system, name, dtype, most) in ROWS.items():
            cells = np.random.default_rng(0).integers(0, most, (args.n, args.n)).astype(dtype)
            sim = tp.compile(system, backend="llvm", sizes={"n": args.n})
            ours(sim, cells, 2)  # compiles
            rows = []
            for _ in range(args.repeat):
                (here, x), (there, y) = (
                    ours(sim, cells, args.steps),
                    by_hand(library, name, cells, args.steps),
                )
                assert np.array_equal(x, y), f"{title}: other cells than C's"
                rows.append((here, there))
            us, c = (min(column) for column in zip(*rows))
            found[title] = {"us": 1e6 * us, "c_us": 1e6 * c, "ratio": us / c}
            if not args.json:
                print(
                    f"{title:14} {1e6 * us:8.1f} us a step, C {1e6 * c:8.1f} us, ratio {us / c:.2f}",
                    flush=True,
                )
    if args.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
