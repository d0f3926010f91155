"""How fast are charges in a dipole, and friction?  Ensembles by tinyphysics and by C by hand, in one run, on one thread.

    python bench/pushers.py [repetitions]

CPU times of a step of one member, the least of some interleaved repetitions, and their ratio to the C of bench/pushers.c.
"""

from __future__ import annotations

import sys

import numpy as np
from measure import race
from workloads import c, library, ours

import tinyphysics as tp
from tinyphysics import plasma

MEMBERS, STEPS, DT = 16_384, 500, 0.01
FLAGS = (
    "-O3",
    "-march=native",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-fPIC",
)


@tp.hamiltonian
def quartic(q, p):
    return p**2 / 2 + q**2 / 2 + q**4 / 4


def starts() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    q = rng.normal(size=(MEMBERS, 3))
    return 3.0 * q / np.linalg.norm(q, axis=1, keepdims=True), 0.3 * rng.normal(size=(MEMBERS, 3))


def main(repeat: int) -> None:
    by_hand, (q, p) = library(FLAGS, "pushers.c"), starts()
    rng = np.random.default_rng(6)
    x, u = rng.normal(size=(2, MEMBERS))
    mass = {"charge": 1.0, "mass": 1.0}
    rows = [
        race(
            f"{MEMBERS:,} charges in a dipole, boris",
            {
                "tinyphysics": ours(plasma.System(B_field=plasma.dipole(60.0)), {"q": q, "p": p}, STEPS, mass, dt=DT),
                "C by hand": c(by_hand.boris_dipole, (q, p), 60.0, DT, MEMBERS, STEPS),
            },
            repeat, MEMBERS * STEPS, 3 * MEMBERS,
        ),
        race(
            f"{MEMBERS:,} quartic oscillators with friction, leapfrog",
            {
                "tinyphysics": ours(quartic, {"q": x, "p": u}, STEPS, dt=DT, friction=0.1, method="leapfrog_kdk"),
                "C by hand": c(by_hand.damped_quartic, (x, u), 0.1, DT, MEMBERS, STEPS),
            },
            repeat, MEMBERS * STEPS, MEMBERS,
        ),
    ]  # fmt: skip
    for row in rows:
        ratio = row.cost["tinyphysics"] / row.cost["C by hand"]
        print(
            row.workload,
            {n: round(v, 3) for n, v in row.cost.items()},
            "ns a member and step;",
            f"{ratio:.2f} of C",
        )
        print("  largest difference", row.away)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
