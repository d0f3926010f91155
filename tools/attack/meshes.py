"""Are equations on grids solved, energies with transforms stepped by their gradient, and 1/r summed over all boxes?

A dense matrix and NumPy's solver for `tp.poisson`; NumPy's transforms and differences of the energy for spectral energies;
Ewald's sum, written here with another split, for charges in a periodic box.
"""

from __future__ import annotations

import random

import numpy as np
from scipy.special import erfc

import tinyphysics as tp
from attack.case import Case
from attack.findings import Tally
from attack.passages import written

CLOSE = 1e-8  # of a solution, relative to its largest number; multigrid leaves 1e-10 of the residual
SAME_FORCE = 1e-6
EWALD = 1e-9
SPECTRAL = (
    ("(tp.dx(q)**2).sum()/2", lambda q: (slope(q) ** 2).sum() / 2),
    ("(abs(np.fft.fft(q))**2).sum()/{n}/2", lambda q: (np.abs(np.fft.fft(q)) ** 2).sum() / len(q) / 2),
    ("(tp.dx(q, 2)*tp.cos(q)).sum()/9", lambda q: (slope(q, 2) * np.cos(q)).sum() / 9),
    ("(tp.dealias(q)**3).sum()/3", lambda q: (dealiased(q) ** 3).sum() / 3),
    ("(q**4).sum()/4", lambda q: (q**4).sum() / 4),
)


def check(case: Case, t: Tally) -> None:
    t.shares["meshes"] += 1
    rng = random.Random(f"meshes {case.seed}")
    rng.choice([poisson, poisson, spectral, periodic])(case, rng, t)


# --- Poisson's equation ------------------------------------------------------------------------------------
def along(n: int, h: float, boundary: str, k: np.ndarray) -> np.ndarray:
    """-d/dx k d/dx of one axis of n nodes as a matrix; on a face k is the harmonic mean of both sides."""
    A = np.zeros((n, n))
    for i in range(n):
        for j in (i - 1, i + 1):
            inside = 0 <= j < n
            if not inside and boundary == "neumann":
                continue
            face = k[i] if not inside and boundary == "dirichlet" else 2 / (1 / k[i] + 1 / k[j % n])
            A[i, i] += face / h**2
            if inside or boundary == "periodic":
                A[i, j % n] -= face / h**2
    return A


def matrix(
    shape: tuple[int, ...], h: list[float], ends: list[str], k: np.ndarray, s: np.ndarray
) -> np.ndarray:
    size = int(np.prod(shape))
    A, index = np.diag(np.broadcast_to(s, shape).reshape(-1).astype(float)), np.arange(size).reshape(shape)
    for axis, n in enumerate(shape):
        lines, values = np.moveaxis(index, axis, -1).reshape(-1, n), np.moveaxis(k, axis, -1).reshape(-1, n)
        for at, own in zip(lines, values):
            A[np.ix_(at, at)] += along(n, h[axis], ends[axis], own)
    return A


def poisson(case: Case, rng: random.Random, t: Tally) -> None:
    shape = rng.choice([(8,), (12,), (32,), (40,), (6, 8), (8, 8), (4, 4, 6)])
    h = [round(rng.uniform(0.2, 1.0), 2) for _ in shape]
    ends = [rng.choice(["periodic", "dirichlet", "neumann"]) for _ in shape]
    numbers = np.random.default_rng([case.seed, 79])
    f = numbers.normal(size=shape)
    varies = rng.random() < 0.4
    k = numbers.uniform(0.5, 2.0, shape) if varies else np.full(shape, round(rng.uniform(0.5, 2.0), 2))
    s = rng.choice([0.0, 0.0, round(rng.uniform(0.1, 3.0), 2)])
    method = rng.choice(["auto", "auto", "multigrid"]) if not varies else "auto"
    own = ", k: tp.Array[SHAPE]" if varies else ""
    apart, at = (tuple(h), tuple(ends)) if len(shape) > 1 else (h[0], ends[0])
    text = (
        f"def rates(u: tp.Array[SHAPE], f: tp.Array[SHAPE]{own}):\n"
        f"    solved = tp.poisson(f, spacing={apart}, boundary={at!r}, "
        f"coefficient={'k' if varies else k.flat[0]}, shift={s}, method={method!r})\n"
        f"    return (solved, f{', k' if varies else ''})\n"
    ).replace("SHAPE", str(shape)[1:-1].rstrip(","))
    told = f"poisson of {shape}, {ends}, k {'varies' if varies else k.flat[0]}, shift {s}, {method}"
    given = {"u": np.zeros(shape), "f": f, **({"k": k} if varies else {})}
    sim = tp.compile(tp.map(written(text, "rates")))
    u = np.asarray(sim.evolve(**given, steps=1, progress=False).final.u)
    A = matrix(shape, h, ends, k, np.asarray(s))
    free = s == 0 and "dirichlet" not in ends
    right = (f - f.mean() if free else f).reshape(-1)
    true = np.linalg.lstsq(A, right, rcond=None)[0] if free else np.linalg.solve(A, right)
    true = (true - true.mean() if free else true).reshape(shape)
    off = float(np.abs(u - true).max() / np.abs(true).max())
    t.check(
        case.seed,
        "poisson solved",
        not off < CLOSE * max(1.0, np.linalg.cond(A) / 1e6 if not free else 1.0),
        told,
        f"off by {off:.1e}",
    )


# --- energies with transforms -------------------------------------------------------------------------------
def slope(q: np.ndarray, order: int = 1) -> np.ndarray:
    """The derivative of a field along a period of 2 pi; of the fastest wave, which has no sign, only even ones."""
    n = len(q)
    waves = np.fft.fftfreq(n, 1 / n) * 1j
    factor = waves**order
    if n % 2 == 0 and order % 2:
        factor[n // 2] = 0
    return np.fft.ifft(factor * np.fft.fft(q)).real


def dealiased(q: np.ndarray) -> np.ndarray:
    n = len(q)
    waves = np.abs(np.fft.fftfreq(n, 1 / n))
    return np.fft.ifft(np.where(waves * 3 >= n, 0, np.fft.fft(q))).real


def spectral(case: Case, rng: random.Random, t: Tally) -> None:
    n = rng.choice([8, 12, 16, 40])
    terms = rng.sample(SPECTRAL, rng.choice([1, 2, 3]))
    weights = [round(rng.uniform(-1, 1), 2) for _ in terms]
    V = " + ".join(f"{w}*({text.format(n=n)})" for w, (text, _) in zip(weights, terms))
    system = tp.hamiltonian(
        written(f"def system(q: tp.Vec[{n}], p: tp.Vec[{n}]):\n    return (p**2).sum()/2 + {V}\n", "system")
    )
    sim = tp.compile(system, dt=1e-3)
    q = np.random.default_rng([case.seed, 80]).uniform(-1, 1, n)
    out = sim.evolve(q=q, p=np.zeros(n), steps=1, progress=False)
    true = np.zeros(n)
    for w, (_, f) in zip(weights, terms):
        for j, e in enumerate(np.eye(n)):
            true[j] += (
                w * sum(c * f(q + x * 1e-3 * e) for c, x in ((8, 1), (-8, -1), (-1, 2), (1, -2))) / 12e-3
            )
    # leapfrog's momentum after a step is -dt times the mean of two forces, apart by O(dt^2)
    off = float(np.abs(np.asarray(out.final.p) / -1e-3 - true).max() / max(1.0, np.abs(true).max()))
    limit = SAME_FORCE + 1e-6 * n**2
    t.check(
        case.seed,
        "force of a transform",
        bool(sim.certificate.symplectic) and off > limit,
        V,
        f"forces are off by {off:.1e}",
    )
    value = float(out.energy[0]) - sum(w * f(q) for w, (_, f) in zip(weights, terms))
    t.check(
        case.seed, "energy with a transform", abs(value) > 1e-10 * n, V, f"the energy is off by {value:.1e}"
    )


# --- charges in a box ----------------------------------------------------------------------------------------
def ewald(q: np.ndarray, c: np.ndarray, box: np.ndarray) -> float:
    """Half the sum of c c'/r over all images, in tin foil, with a background where charges do not add up to zero."""
    a, V = 6.0 / box.min(), float(box.prod())
    total = -a / np.sqrt(np.pi) * float(c @ c) - np.pi * c.sum() ** 2 / (2 * V * a * a)
    for image in np.ndindex(3, 3, 3):
        d = q[:, None] - q[None, :] + (np.array(image) - 1) * box
        d -= np.round((q[:, None] - q[None, :]) / box) * box
        r = np.sqrt((d**2).sum(-1))
        r[r == 0] = np.inf
        total += 0.5 * float((c[:, None] * c[None, :] * erfc(a * r) / r).sum())
    m = np.arange(-14, 15)
    k = 2 * np.pi * np.stack(np.meshgrid(m, m, m, indexing="ij"), -1).reshape(-1, 3) / box
    k2 = (k**2).sum(1)
    k, k2 = k[k2 > 0], k2[k2 > 0]
    S = np.exp(1j * k @ q.T) @ c
    return total + float((2 * np.pi / V / k2 * np.exp(-k2 / (4 * a * a)) * np.abs(S) ** 2).sum())


def periodic(case: Case, rng: random.Random, t: Tally) -> None:
    n, numbers = rng.choice([5, 6, 8]), np.random.default_rng([case.seed, 81])
    box = numbers.uniform(1.5, 2.5, 3) if rng.random() < 0.5 else np.full(3, 2.0)
    q, c = numbers.uniform(0, 1, (n, 3)) * box, numbers.uniform(-1, 1, n)
    if rng.random() < 0.5:
        c -= c.mean()
    text = (
        f"def system(q: tp.Array[{n}, 3], p: tp.Array[{n}, 3], c: tp.Vec[{n}], L: tp.Vec[3]):\n"
        "    r2 = tp.pair_distance2(q, box=L)\n"
        "    return (p**2).sum()/2 + tp.pair_sum(c[:, None]*c[None, :]/np.sqrt(r2))\n"
    )
    sim = tp.compile(tp.hamiltonian(written(text, "system")), dt=1e-4)
    given = dict(p=np.zeros((n, 3)), c=c, L=box)
    out = sim.evolve(q=q, **given, steps=1, progress=False)
    true = ewald(q, c, box)
    told = f"1/r of {n} charges, sum {c.sum():.2f}, box {np.round(box, 2)}"
    off = abs(float(out.energy[0]) - true) / max(1.0, abs(true))
    t.check(case.seed, "sum over all boxes", off > EWALD, told, f"the energy is off by {off:.1e}")
    body, axis = rng.randrange(n), rng.randrange(3)
    slopes = 0.0
    for w, x in ((8, 1), (-8, -1), (-1, 2), (1, -2)):
        moved = q.copy()
        moved[body, axis] += x * 1e-3
        slopes += w * ewald(moved, c, box) / 12e-3
    force = float(np.asarray(out.final.p)[body, axis]) / -1e-4
    off = abs(force - slopes) / max(1.0, abs(slopes))
    t.check(case.seed, "force of all boxes", off > 1e-5, told, f"a force is off by {off:.1e}")
