"""Do complex states move as their equation says?  SciPy's DOP853 on complex numbers, NumPy's own functions, the same text.

An energy of a complex state has i psi' = dH/d conj(psi): its derivative is taken by differences of the parts. Of a certified
step the Jacobian is measured in the parts, where it has to be symplectic.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import tinyphysics as tp
from attack.case import Case
from attack.findings import Tally
from attack.passages import written

UNTIL = 0.6
RATES = (
    "-1j*{w}*psi", "-1j*{w}*abs(psi)**2*psi", "{w}*np.conj(psi)", "1j*np.exp(1j*psi.real)*{w}", "-{w}*psi*psi.imag",
    "np.sin(psi)*{w}j", "{w}*(1 - abs(psi)**2)*psi", "1j*{w}*np.roll(psi, 1)", "{w}*psi.sum()/4 + 0*psi",
    "(0.3 + {w}j)*np.exp(-abs(psi)**2)",
)  # fmt: skip
ENERGIES = (
    "{w}*(abs(psi)**2).sum()", "{w}*(abs(psi)**4).sum()/2", "{w}*(np.conj(psi)*np.roll(psi, 1)).sum().real",
    "{w}*(psi.real**2*psi.imag).sum()", "{w}*np.cos(psi.real).sum()", "{w}*(psi**3).sum().imag/3",
)  # fmt: skip


def check(case: Case, t: Tally) -> None:
    t.shares["amplitudes"] += 1
    rng = random.Random(f"amplitudes {case.seed}")
    n = rng.choice([1, 2, 3, 5])
    numbers = np.random.default_rng([case.seed, 82])
    z = numbers.uniform(-0.8, 0.8, n) + 1j * numbers.uniform(-0.8, 0.8, n)
    (energy if rng.random() < 0.5 else rates)(case, rng, n, z, t)


def drawn(rng: random.Random, texts: tuple[str, ...]) -> str:
    some = rng.sample(texts, rng.choice([1, 2, 3]))
    return " + ".join(text.format(w=round(rng.uniform(0.2, 1.2), 2)) for text in some)


def solution(f: Any, z: np.ndarray) -> np.ndarray | None:
    out = solve_ivp(lambda _, y: f(y), (0, UNTIL), z, "DOP853", rtol=1e-12, atol=1e-13)
    return out.y[:, -1] if out.success and np.abs(out.y).max() < 20 else None


def judge(
    case: Case, t: Tally, name: str, told: str, ends: list[np.ndarray], true: np.ndarray, order: int
) -> None:
    """Runs of a step and of half of it: the second is nearer, as the order says, or right to rounding."""
    off = [float(np.abs(e - true).max()) for e in ends]
    slope = np.log2(off[0] / off[1]) if off[1] > 0 else np.inf
    false = off[1] > 1e-9 and slope < order - 0.6 and off[1] > 1e-6 or not off[1] < 0.05
    t.check(case.seed, name, bool(false), told, f"off by {off[0]:.1e} and {off[1]:.1e}")


def rates(case: Case, rng: random.Random, n: int, z: np.ndarray, t: Tally) -> None:
    text = drawn(rng, RATES)
    plain = eval(f"lambda psi: {text}", {"np": np})
    true = solution(lambda y: np.broadcast_to(plain(y), y.shape), z)
    if true is None:
        t.unclear["complex rates"] += 1
        return
    system = tp.ode(written(f"def system(psi: tp.Complex[{n}]):\n    return {text}\n", "system"))
    if rng.random() < 0.4:
        out = tp.compile(system, method="dop853", tolerance=1e-11).evolve(psi=z, until=UNTIL, progress=False)
        off = float(np.abs(np.asarray(out.final.psi) - true).max())
        t.check(case.seed, "complex rates", off > 1e-7, f"dop853 of {text}", f"off by {off:.1e}")
        return
    ends = []
    for h in (0.05, 0.025):
        sim = tp.compile(system, method="rk4", dt=h, backend=rng.choice(["llvm", "python"]))
        ends.append(np.asarray(sim.evolve(psi=z, until=UNTIL, progress=False).final.psi))
    judge(case, t, "complex rates", f"rk4 of {text}", ends, true, 4)


def energy(case: Case, rng: random.Random, n: int, z: np.ndarray, t: Tally) -> None:
    text = drawn(rng, ENERGIES)
    H = eval(f"lambda psi: {text}", {"np": np})

    def slope(y: np.ndarray) -> np.ndarray:
        """-i dH/d conj(psi), with d/d conj(psi) = (d/dx + i d/dy)/2 of psi = x + i y."""
        out = np.zeros(n, complex)
        for k, e in enumerate(np.eye(n)):
            dx, dy = (
                sum(c * H(y + s * 1e-3 * unit * e) for c, s in ((8, 1), (-8, -1), (-1, 2), (1, -2))) / 12e-3
                for unit in (1, 1j)
            )
            out[k] = -0.5j * (dx + 1j * dy)
        return out

    true = solution(slope, z)
    if true is None:
        t.unclear["complex energy"] += 1
        return
    system = tp.hamiltonian(written(f"def system(psi: tp.Complex[{n}]):\n    return {text}\n", "system"))
    method = rng.choice([None, None, "implicit_midpoint", "gauss4"])
    options = {} if method is None else {"method": method}
    sims = [tp.compile(system, dt=h, **options) for h in (0.05, 0.025)]
    ends = [np.asarray(s.evolve(psi=z, until=UNTIL, progress=False).final.psi) for s in sims]
    told = f"{method or 'the default'} of {text}"
    judge(case, t, "complex energy", told, ends, true, 2)
    value = float(sims[0].evolve(psi=z, steps=1, progress=False).energy[0])
    t.check(
        case.seed,
        "energy of complex states",
        abs(value - H(z)) > 1e-12 * max(1, abs(H(z))),
        told,
        f"{value} for {H(z)}",
    )
    if not sims[0].certificate.symplectic:
        t.refused["complex: not called symplectic"] += 1
        return
    rows = []
    for unit in (1, 1j):
        for e in np.eye(n):
            moved = np.array([z + s * 1e-3 * unit * e for s in (1, -1, 2, -2)])
            out = np.asarray(sims[0].evolve(psi=moved, steps=2, progress=False).final.psi)
            d = (np.array([8, -8, -1, 1]) @ out) / 12e-3
            rows.append(np.concatenate([d.real, d.imag]))
    M, J = np.array(rows).T, np.kron([[0, 1], [-1, 0]], np.eye(n))
    off = float(np.abs(M.T @ J @ M - J).max())
    t.check(
        case.seed,
        "symplectic of complex states",
        off > 1e-6 * max(1, np.abs(M).max() ** 2),
        told,
        f"|M'JM - J| = {off:.1e}",
    )
