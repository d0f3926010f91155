"""Fourier transforms on one core, beside SciPy and FFTW (pip install pyfftw; measured plans): CPU seconds and ratios.

    python bench/fft.py [--only 1024x1024] [--repeat 5]

Ours goes through `evolve`: a step reads two real arrays and writes two. The others transform one complex array.
"""

import argparse
import os
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402
import scipy.fft  # noqa: E402

import tinyphysics as tp  # noqa: E402

CASES = {
    "1024x1024": ((1024, 1024), 1),
    "1024x1024, columns": ((1024, 1024), 0),
    "1000x1000": ((1000, 1000), 1),
    "128^3": ((128, 128, 128), 2),
    "64x4096": ((64, 4096), 1),
}


def ours(shape, axis, z, steps=10):
    def transformed(u: tp.Array[shape], v: tp.Array[shape]):
        w = np.fft.fft(u + 1j * v, axis=axis)
        return w.real, w.imag

    sim = tp.compile(tp.map(transformed))

    def seconds(n):
        began = time.process_time()
        sim.evolve(u=z.real, v=z.imag, steps=n, threads=1, save_every=max(n, 1))
        return time.process_time() - began

    seconds(1)
    return lambda: (seconds(steps + 1) - seconds(1)) / steps


def plain(call):
    def seconds():
        began = time.process_time()
        call()
        return time.process_time() - began

    return seconds


def peers(z, axis):
    found = {"scipy": plain(lambda: scipy.fft.fft(z, axis=axis, workers=1))}
    try:
        import pyfftw
    except ImportError:
        print("pyfftw is not installed: no FFTW")
        return found
    a, b = pyfftw.empty_aligned(z.shape, "complex128"), pyfftw.empty_aligned(z.shape, "complex128")
    plan = pyfftw.FFTW(a, b, axes=(axis,), threads=1, flags=("FFTW_MEASURE",))
    a[:] = z
    found["fftw"] = plain(plan.execute)
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--only", default="")
    p.add_argument("--repeat", type=int, default=5)
    a = p.parse_args()
    rng = np.random.default_rng(0)
    for name, (shape, axis) in CASES.items():
        if a.only not in name:
            continue
        z = (rng.normal(size=shape) + 1j * rng.normal(size=shape)) * 1e-40  # steps transform again and again
        runs = {"tinyphysics": ours(shape, axis, z), **peers(z, axis)}
        best = {who: min(run() for _ in range(a.repeat)) for who, run in runs.items()}
        rest = ", ".join(
            f"{who} {1e3 * s:.2f} ms, ratio {best['tinyphysics'] / s:.2f}" for who, s in best.items()
        )
        print(f"{name}: {rest}", flush=True)


if __name__ == "__main__":
    main()
