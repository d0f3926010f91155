"""Is what is called canonical canonical?  One step of a listing as a matrix and its noise; and moments of an ensemble.

Of a quadratic energy a step of Langevin's equation is z -> A z + B x with normal numbers x, and the canonical law has a
covariance S. So A S A' + B B' - S has to vanish faster than dt. Listings with other coefficients are judged alike. Of
other energies an ensemble begins with the canonical law, drawn by quadrature, and has to keep its moments.
"""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np

import tinyphysics as tp
from attack.case import Case
from attack.findings import Tally
from attack.listings import tampered
from attack.passages import written
from attack.plain import Functions
from tinyphysics import tpir

VARIANTS = 6
STEPS = (1e-2, 1e-3)  # of the two slopes of a law
SMALL = 1e-5  # of a slope in the shorter, where a step is canonical to O(dt^2)
MEMBERS, LENGTH = 4096, 60
SIGMAS = 6.0
NOISE = re.compile(r"^  NOISE (T\d+)(:\S+)?, normal,.*$", re.M)
WELLS = (
    "q**2/2", "q**4/4", "(q**2 - 1)**2/2", "tp.cosh(q) + 0.3*q", "q**2/2 + 0.7*tp.cos(2*q)", "tp.sqrt(1 + q**2) + 0.2*q**2",
)  # fmt: skip
BATHS = ("langevin", "langevin", "andersen", "bussi", "brownian", "trigger")
TIMED = ("bussi", "trigger")  # have a time where the others have a rate


def check(case: Case, t: Tally) -> None:
    t.shares["baths"] += 1
    linear(case, random.Random(f"baths {case.seed}"), t)
    sampled(case, random.Random(f"wells {case.seed}"), t)


# --- listings --------------------------------------------------------------------------------------------
def opened(text: str) -> tuple[str, list[str]]:
    """The listing with its normal numbers as parameters, and their names."""
    names: list[str] = []

    def parameter(m: re.Match[str]) -> str:
        names.append(f"xi{len(names)}")
        return f"  ELEM {m[1]}{m[2] or ''}, mul, ${names[-1]}, 1.0"

    new = NOISE.sub(parameter, text)
    declared = "".join(f"param ${name} f64[] = 0.0\n" for name in names)
    return new.replace("energy:", declared + "energy:", 1), names


def slope_of_law(text: str, covariance: np.ndarray, params: dict[str, float], h: float) -> float:
    """How fast a step moves the canonical law: the largest entry of (A S A' + B B' - S)/h."""
    new, names = opened(text)
    machine = tpir.vm.Machine(tpir.parse(new))

    def end(z: np.ndarray, x: np.ndarray) -> np.ndarray:
        loop = machine.start({"q": z[0], "p": z[1]}, params | dict(zip(names, x)), h, 0.0)
        machine.advance(loop, 1)
        out = machine.final(loop)
        return np.array([float(np.asarray(out[name])) for name in "qp"])

    zero, none = np.zeros(2), np.zeros(len(names))
    rest = end(zero, none)
    A = np.array([end(e, none) - rest for e in np.eye(2)]).T
    B = np.array([end(zero, e) - rest for e in np.eye(len(names))]).T.reshape(2, -1)
    return float(np.abs(A @ covariance @ A.T + B @ B.T - covariance).max() + np.abs(rest).max()) / h


def linear(case: Case, rng: random.Random, t: Tally) -> None:
    k, m, kT, g = (round(rng.uniform(a, b), 2) for a, b in ((0.4, 2.0), (0.5, 2.0), (0.3, 1.5), (0.2, 2.0)))
    method = rng.choice(["baoab", "obabo"])
    system = tp.hamiltonian(written(f"def system(q, p):\n    return p**2/(2*{m}) + {k}*q**2/2\n", "system"))
    sim = tp.compile(system, dt=0.1, temperature=kT, friction=g, method=method)
    text = str(sim.tpir)
    covariance, params = np.diag([kT / k, kT * m]), {"temperature": kT, "friction": g}
    rows = [(text, f"{method} of k={k}, m={m}")]
    for _ in range(VARIANTS):
        new, what = tampered(rng, text)
        rows += [(new, what)] if new else []
    for new, what in rows:
        try:
            c = tpir.verify(tpir.parse(new))
            if "canonical" not in c or not c["canonical"]:
                t.refused["bath: not called canonical"] += 1
                continue
            long, short = (slope_of_law(new, covariance, params, h) for h in STEPS)
        except tp.TinyPhysicsError as error:
            t.refused[f"bath listing: {type(error).__name__}"] += 1
            continue
        false = not short <= max(SMALL, 0.03 * long)
        t.check(
            case.seed, "canonical", false, what, f"the law moves by {long:.1e} and {short:.1e} a unit of time"
        )


# --- ensembles ---------------------------------------------------------------------------------------------
def drawn(
    V: Any, kT: float, rng: np.random.Generator, members: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(positions with the density exp(-V/kT), a grid, that density on it)."""
    grid = np.linspace(-9.0, 9.0, 20_001)
    values = V(grid)
    density = np.exp(-(values - values.min()) / kT)
    below = np.cumsum(density)
    return np.interp(rng.uniform(0, below[-1], members), below, grid), grid, density / density.sum()


def sampled(case: Case, rng: random.Random, t: Tally) -> None:
    well, bath, kT = rng.choice(WELLS), rng.choice(BATHS), round(rng.uniform(0.3, 1.5), 2)
    m, g = round(rng.uniform(0.6, 2.0), 2), round(rng.uniform(0.3, 3.0), 2)
    dt = 0.02 if bath == "brownian" else rng.choice([0.05, 0.1])
    V = eval(f"lambda q: {well}", {"tp": Functions, "np": np})
    system = tp.hamiltonian(written(f"def system(q, p):\n    return p**2/(2*{m}) + {well}\n", "system"))
    pace = {"tau": 1 / g} if bath in TIMED else {"friction": g}
    sim = tp.compile(system, dt=dt, temperature=kT, bath=bath, **pace)
    if not sim.certificate.canonical:
        t.refused["bath: not called canonical"] += 1
        return
    numbers = np.random.default_rng([case.seed, 77])
    q, grid, density = drawn(V, kT, numbers, MEMBERS)
    p = numbers.normal(0, np.sqrt(kT * m), MEMBERS)
    out = sim.evolve(q=q, p=p, steps=LENGTH, seed=case.seed, frames=2, progress=False)
    ends = np.asarray(out.final.q), np.asarray(out.final.p)
    if not all(np.isfinite(x).all() for x in ends):
        t.unclear["moments"] += 1
        return
    for name, true, seen in (
        ("q", density @ grid, ends[0]),
        ("q**2", density @ grid**2, ends[0] ** 2),
        ("V", density @ V(grid), V(ends[0])),
        ("p**2", kT * m, ends[1] ** 2),
    ):
        error = SIGMAS * seen.std() / np.sqrt(MEMBERS)
        off = abs(float(seen.mean() - true))
        told = f"{bath} in {well} at {kT}, dt={dt}"
        # the law of a step is another one by O(dt^2): what is curved by up to 10 moves by a quarter of 10 dt^2
        false = off > error + 2.5 * dt**2 * max(abs(true), 0.1)
        t.check(
            case.seed, "moments", false, told, f"<{name}> is {seen.mean():.4f}, not {true:.4f} ± {error:.4f}"
        )
