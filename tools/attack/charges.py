"""Is what a simulation says it conserves conserved?  Brackets by differences, motions along a charge, and runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from attack.case import Case
from attack.findings import Tally
from attack.subject import BOUND, Subject, usable
from attack.truth import Truth, Unknown, gradient

MOST = 12  # numbers of a state
CHARGES = 8  # of one system that are looked at
POINTS = 2
STENCIL = ((1, 8 / 12), (-1, -8 / 12), (2, -1 / 12), (-2, 1 / 12))
STEP = 1e-3
FALSE = 1e-6  # of the sizes of what is added up in a bracket
MOTIONS = ("translation", "rotation", "phase", "a shift")  # generators that are followed, for a time of ALONG
ALONG, PARTS, JUMPED = 1.5, 12, 1e-3
RUN, WALK = 200, 1e-11  # steps; what rounding may do to a charge that is kept, in parts of the sizes in it
NUMBERS = ("float64", "dd")

Charge = Any
Values = Callable[[np.ndarray, float], float]

SPACE = (
    "k*tp.sum(q**2)/2",
    "k*((q**2).sum(-1)**2).sum()/4",
    "-g/tp.norm(q[0])",
    "g*tp.cos((q[0]*q[0]).sum())",
    "k*tp.sum(q.sum(0)**2)",
    "tp.where((q[0]**2).sum() < 1.0, k, g)",
    "tp.where((q[0]**2).sum() < 1.0, (1 - (q[0]**2).sum())**3, 0.0)",
    "g*q[0, 0]*q[0, 1]",
    "k*(q[0, 0]**2 - q[0, 1]**2)",
    "k*q[0, 0]**2 + g*q[0, 1]**2",
    "g*tp.sin(q[0, 0] - q[0, 1])",
    "tp.log(1 + (q**2).sum())",
    "k*tp.maximum((q**2).sum(), 1.0)",
    "k*(q[0, 0]*p[0, 1] - q[0, 1]*p[0, 0])",
    "tp.floor(q[0, 0])",
    "tp.sign(q[0, 1])",
    "tp.where(q[0, 0] > 0.2, g, k)",
    "k*(q*p).sum()",
    "g*tp.abs(q[0, 0])",
    "1/(q**2).sum()",
    "k*(p.sum(0)**2).sum()",
    "k*(q.sum())**2",
    "q[0, 0]",
)
BETWEEN = (
    "tp.pair_sum(k/tp.sqrt(r2 + 0.3))",
    "k*tp.pair_sum(r2**2)",
    "tp.pair_sum(tp.exp(-r2))",
    "k*((q[0] - q[1])**2).sum()/2",
    "k*(q[0, 0] - q[1, 0])**2",
    "tp.pair_sum(tp.where(r2 < 1.0, (1 - r2)**3, 0.0))",
    "tp.pair_sum(tp.where(r2 < 1.0, k, 0.0))",
    "g*tp.cos(q[0, 0] - 2*q[1, 0])",
    "tp.maximum(q[0, 0], q[1, 0])",
    "tp.sign(q[0, 0] - q[1, 0])",
    "(q[0] @ q[1])*k",
)


def symmetric(seed: int) -> Case:
    """Bodies in space with terms that have symmetries, some of them broken by another term."""
    rng = random.Random(f"charges {seed}")
    n, d = rng.choice([(1, 2), (1, 3), (2, 2), (2, 2), (2, 3), (3, 2)])
    masses = [rng.choice([1.0, 1.0, 0.7, 1.9]) for _ in range(n)]
    kinetic = rng.choice(["((p**2).sum(-1)/(2*m)).sum()"] * 4 + ["tp.sum(tp.sqrt(1.0 + (p**2).sum(-1)))"])
    terms = rng.sample(SPACE + (BETWEEN * 2 if n > 1 else ()), rng.randint(1, 2))
    return Case(
        seed=seed,
        kind="symmetric",
        head=f"m = np.array({masses})\nk, g = {rng.choice([0.4, 1.3])}, {rng.choice([0.7, -0.5])}\n\n\n",
        signature=f"@tp.hamiltonian\ndef system(q: tp.Array[{n}, {d}], p: tp.Array[{n}, {d}]):\n"
        "    r2 = ((q[:, None] - q[None, :])**2).sum(-1)",
        terms=(kinetic, *terms),
        tail="",
        layout=(("q", (n, d), n * d, "position"), ("p", (n, d), n * d, "momentum")),
        params={},
        options={"dt": 0.02, "method": rng.choice(["leapfrog", "yoshida4", "implicit_midpoint", "rk4"])},
    )


def slopes(f: Values, z: np.ndarray, t: float, step: float = STEP) -> np.ndarray:
    out = np.zeros(len(z))
    for i in range(len(z)):
        for shift, c in STENCIL:
            x = z.copy()
            x[i] += shift * step
            out[i] += c * f(x, t) / step
    return out


def known_slopes(f: Values, z: np.ndarray, t: float) -> np.ndarray:
    """Those of a charge, or Unknown."""
    a, b = slopes(f, z, t), slopes(f, z, t, 2 * STEP)
    if not np.isfinite(a).all() or np.abs(a - b).max() > 1e-8 * max(1.0, float(np.abs(a).max())):
        raise Unknown("a charge that is not smooth here")
    return a


def bracket(truth: Truth, f: Values, z: np.ndarray, t: float) -> tuple[float, float]:
    """({F, H} + dF/dt, the sizes of what it is the sum of)."""
    g = known_slopes(f, z, t)
    rates = (truth.omega() @ gradient(lambda x: truth.energy(x, t), np.asarray(z, np.longdouble))).astype(
        float
    )
    clock = sum(c * f(z, t + shift * STEP) for shift, c in STENCIL) / STEP
    return float(g @ rates + clock), float(np.abs(g) @ np.abs(rates) + abs(clock))


def along(truth: Truth, f: Values, z: np.ndarray, t: float) -> float:
    """How H changes along the motion that a charge generates: a jump that no derivative shows, too."""
    first, h = float(truth.energy(z, t)), ALONG / PARTS
    worst, omega, x = 0.0, truth.omega(), z.copy()

    def rate(y: np.ndarray) -> np.ndarray:
        return np.asarray(omega @ slopes(f, y, t))

    for _ in range(PARTS):
        a = rate(x)
        b = rate(x + h / 2 * a)
        c = rate(x + h / 2 * b)
        x = x + h / 6 * (a + 2 * b + 2 * c + rate(x + h * c))
        worst = max(worst, abs(float(truth.energy(x, t)) - first) / (1.0 + abs(first)))
    if not np.isfinite(worst) or np.abs(x).max() > BOUND:
        raise Unknown("leaves every bound")
    return worst


def value_of(case: Case, charge: Charge) -> Values:
    """A charge as a function of the numbers of a state, and of t."""

    def value(z: np.ndarray, at: float) -> float:
        return float(charge(**case.given(z), **case.params, t=at))

    return value


def look(s: Subject, charge: Charge, t: Tally) -> None:
    case, seed, value = s.case, s.case.seed, value_of(s.case, charge)
    at = case.t0 + 0.3
    for z in case.start(POINTS, salt=90):
        try:
            rate, size = bracket(s.truth, value, z, at)
        except Unknown:
            t.unclear["conserved"] += 1
            continue
        t.check(seed, "conserved", abs(rate) > FALSE * max(size, 1e-6),
                f"{charge.name}: {charge.proof}", f"{{F, H}} + dF/dt = {rate:.1e} of {size:.1e}")  # fmt: skip
    if not charge.generator.startswith(MOTIONS):
        return
    for z in case.start(POINTS, salt=91):
        try:
            off = along(s.truth, value, z, at)
        except Unknown:
            t.unclear["symmetry"] += 1
            continue
        t.check(
            seed, "symmetry", off > JUMPED, f"{charge.name}: {charge.generator}", f"H changes by {off:.1e}"
        )


def kept(s: Subject, charges: list[Charge], t: Tally) -> None:
    """Charges that are said to be kept to rounding, along a run."""
    case, own = s.case, [c for c in charges if c.kept == "to rounding"]
    if not own or s.precision not in NUMBERS:
        return
    z = case.start(salt=92)
    out = s.sim.evolve(**case.given(z), **case.params, steps=RUN, save_every=1, t0=case.t0, progress=False)
    times = np.asarray(out.t, float)
    rows = np.concatenate(
        [np.asarray(getattr(out, n), float).reshape(len(times), k) for n, _, k, _ in case.layout], 1
    )
    if out.stopped is not None or not usable(rows).all():
        t.unclear["kept to rounding"] += 1
        return
    for c in own:
        value = value_of(case, c)
        values = np.array([value(x, at) for x, at in zip(rows, times)])
        some = zip(rows[:: RUN // 4], times[:: RUN // 4])
        sizes = [float(np.abs(x) @ np.abs(slopes(value, x, at))) for x, at in some]
        off = float(np.abs(values - values[0]).max()) / max(1.0, *sizes)
        t.check(case.seed, "kept to rounding", off > WALK, f"{c.name}: {c.kept} ({s.sim.built.plan.method})",
                f"it moves by {off:.1e} of its sizes in {RUN} steps")  # fmt: skip


def check(case: Case, t: Tally) -> None:
    """Of a case with symmetries of its own, or of the program of this seed."""
    chosen = symmetric(case.seed) if case.seed % 3 else case
    if sum(n for _, _, n, _ in chosen.layout) > MOST or not chosen.signature.startswith("@tp.hamiltonian"):
        chosen = symmetric(case.seed)
    s = Subject(chosen)
    found = [c for c in s.sim.conserved if " if " not in c.proof][:CHARGES]
    t.shares["charges"] += 1
    for charge in found:
        look(s, charge, t)
    kept(s, found, t)
    if sum(n for _, _, n, _ in chosen.layout) <= 4 and case.seed % 2:
        more = s.sim.find_invariants(degree=2)[len(found) :]
        for charge in (c for c in more if c.proof.startswith("proved")):
            look(s, charge, t)
