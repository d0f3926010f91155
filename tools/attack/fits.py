"""Are fits what they are said to be?  SciPy fits the same data with differences for its Jacobian, from the same start.

The model is NumPy's own leapfrog of the user's energy, in long doubles. Its sum of squares at the values of the fit must have
no slope, its Jacobian there gives the covariance, and directions that the data do not determine must not change them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tinyphysics as tp
from attack.case import Case
from attack.findings import Tally
from attack.passages import written

SIGMA = 1e-3
Force = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of positions and parameters
Mass = Callable[[np.ndarray], Any]


@dataclass(frozen=True)
class Model:
    energy: str
    n: int  # positions
    params: tuple[str, ...]
    values: tuple[float, ...]
    force: Force
    mass: Mass = lambda k: 1.0


MODELS = (
    Model("p[0]**2/(2*m) + k*q[0]**2/2", 1, ("k", "m"), (1.3, 2.0), lambda q, k: -k[0] * q, lambda k: k[1]),
    Model("p[0]**2/2 - a*tp.cos(q[0])", 1, ("a",), (1.2,), lambda q, k: -k[0] * np.sin(q)),
    Model("p[0]**2/2 + a*q[0]**2/2 + b*q[0]**4/4", 1, ("a", "b"), (0.8, 0.5), lambda q, k: -k[0] * q - k[1] * q**3),
    Model("p @ p/2 - mu/tp.norm(q)", 2, ("mu",), (1.0,), lambda q, k: -k[0] * q / (q @ q) ** 1.5),
    Model("p @ p/2 + a*q @ q/2 + b*q[0]*q[1]", 2, ("a", "b"), (1.1, 0.3), lambda q, k: -k[0] * q - k[1] * q[::-1]),
    Model("p[0]**2/2 + a*b*q[0]**2/2", 1, ("a", "b"), (1.0, 1.5), lambda q, k: -k[0] * k[1] * q),
)  # fmt: skip
START = {1: ([0.6], [0.4]), 2: ([1.0, 0.1], [0.0, 1.1])}


@dataclass(frozen=True)
class Task:
    model: Model
    dt: float
    at: np.ndarray  # steps at which there are data
    of: str  # "q", or "q p"
    wrt: tuple[str, ...]
    data: np.ndarray
    start: np.ndarray  # q, p and parameters
    told: bool  # is sigma told?

    @property
    def free(self) -> list[int]:
        n = self.model.n
        places = {"q": range(n), "p": range(n, 2 * n)}
        places |= {name: range(2 * n + k, 2 * n + k + 1) for k, name in enumerate(self.model.params)}
        return [j for name in self.wrt for j in places[name]]

    def run(self, x: np.ndarray) -> np.ndarray:
        """The data that a beginning would give: kicks and drifts, as leapfrog has them."""
        m, h = self.model, np.longdouble(self.dt)
        full = self.start.astype(np.longdouble)
        full[self.free] = x
        q, p, k = full[: m.n].copy(), full[m.n : 2 * m.n].copy(), full[2 * m.n :]
        out, wanted = [], set(self.at.tolist())
        for step in range(1, int(self.at[-1]) + 1):
            p = p + h / 2 * m.force(q, k)
            q = q + h * p / m.mass(k)
            p = p + h / 2 * m.force(q, k)
            if step in wanted:
                out.append(np.concatenate([q, p]) if " " in self.of else q)
        return np.array(out).ravel()

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        h, x = np.longdouble(1e-5), x.astype(np.longdouble)
        moved = [
            [self.run(x + c * h * e) for c in (-2, -1, 1, 2)] for e in np.eye(len(x), dtype=np.longdouble)
        ]
        return np.array([(a - 8 * b + 8 * c - d) / (12 * h) for a, b, c, d in moved], float).T


def task(seed: int) -> Task:
    rng, draw = random.Random(f"fits {seed}"), np.random.default_rng([seed, 69])
    m = rng.choice(MODELS)
    of = rng.choice(["q", "q", "q p"])
    at = np.sort(draw.choice(np.arange(5, 120), 12, replace=False))
    names = ["q", "p", *m.params]
    wrt = tuple(sorted(rng.sample(names, rng.randint(1, len(names))), key=names.index))
    q, p = START[m.n]
    true = np.array([*q, *p, *m.values])
    blank = Task(m, rng.choice([0.02, 0.05]), at, of, wrt, np.zeros(0), true, rng.random() < 0.6)
    y = blank.run(true[blank.free]).astype(float)
    y = y + SIGMA * draw.normal(size=y.shape)
    begin = true.copy()
    begin[blank.free] *= 1 + 0.01 * draw.uniform(-1, 1, len(blank.free))
    return Task(m, blank.dt, at, of, wrt, y, begin, blank.told)


def fitted(x: Task) -> Any:
    m, width = x.model, x.model.n
    params = ", ".join(f"{name}={value}" for name, value in zip(m.params, m.values))
    text = f"def system(q: tp.Vec[{width}], p: tp.Vec[{width}], {params}):\n    return {m.energy}\n"
    sim = tp.compile(tp.hamiltonian(written(text, "system")), dt=x.dt, method="leapfrog", propagator="loop")
    rows = x.data.reshape(len(x.at), -1)
    data = {"q": rows[:, :width]} | ({"p": rows[:, width:]} if " " in x.of else {})
    start = {"q": x.start[:width], "p": x.start[width : 2 * width]}
    start |= dict(zip(m.params, x.start[2 * width :].tolist()))
    more = {"sigma": SIGMA} if x.told else {}
    return tp.fit(sim, data=data, t=x.at * x.dt, wrt=list(x.wrt), start=start, **more)


def check(case: Case, t: Tally) -> None:
    x = task(case.seed)
    found = fitted(x)
    t.shares["fits"] += 1
    says = f"{x.model.energy} by {x.wrt} from {x.of}"
    if not found.report.converged:
        t.unclear["fits"] += 1
        return
    values = np.concatenate([np.ravel(found.values[name]) for name in x.wrt]).astype(float)
    errors = np.concatenate([np.ravel(found.errors[name]) for name in x.wrt]).astype(float)
    J = x.jacobian(values) / SIGMA
    miss = np.asarray((x.run(values) - x.data) / SIGMA, float)
    flat = undetermined(J)
    slope = np.abs(J.T @ miss) / (np.linalg.norm(J, axis=0) * np.linalg.norm(miss) + 1e-300)
    where = f"the slope of the sum of squares is {slope.max():.1e}"
    t.check(case.seed, "a fit is a minimum", not slope.max() < 1e-6, says, where)
    sum_ = float(miss @ miss) * (1.0 if x.told else SIGMA**2)
    same = abs(found.chi2 - sum_) <= 1e-6 * max(sum_, 1e-300)
    t.check(case.seed, "chi2", not same, f"chi2 = {found.chi2:.6g} ({says})", f"it is {sum_:.6g}")
    seen = ~np.isfinite(errors)
    want = np.abs(flat).max(0) > 1e-4 if len(flat) else np.zeros(len(values), bool)
    count = len(found.report.undetermined) == len(flat) and (seen == want).all()
    t.check(
        case.seed,
        "what data determine",
        not count,
        f"{found.report.undetermined} ({says})",
        f"by the singular values of differences {np.round(flat, 3).tolist()}",
    )
    if len(flat):
        return
    known = np.linalg.inv(J.T @ J) * (1.0 if x.told else float(miss @ miss) / (len(miss) - len(values)))
    off = np.abs(np.asarray(found.covariance) - known).max() / np.abs(known).max()
    t.check(case.seed, "covariance", not off < 1e-4, says, f"that of differences is {off:.1e} away")


def undetermined(J: np.ndarray) -> np.ndarray:
    """Directions that do not change the data: rows, columns of J made of length 1."""
    size = np.linalg.norm(J, axis=0)
    if not (size > 0).all():
        return np.eye(len(size))[size == 0]
    _, s, v = np.linalg.svd(J / size, full_matrices=False)
    flat = v[s < 1e-8 * s[0]] / size
    return np.asarray(flat / np.abs(flat).max(1, initial=1e-300, keepdims=True))
