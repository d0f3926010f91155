"""Is every fact about a system true of the user's function?  Sampled: no expression of the compiler is looked at."""

from __future__ import annotations

import numpy as np

from attack.findings import Tally
from attack.subject import Subject
from attack.truth import WIDE

POINTS = 6
LINES = 4
GRID = 160


def values(s: Subject, points: np.ndarray, t: float | None = None) -> np.ndarray:
    """H at some states; of a Lagrangian L itself, with p in the place of v: it breaks where H does."""
    clock = s.case.t0 if t is None else t
    if s.truth.system.kind == "lagrangian":
        q, p = s.truth.indices("position"), s.truth.indices("momentum")
        wide = np.asarray(points, WIDE)
        return np.array([s.truth.lagrangian(z[q], z[p], clock) for z in wide], WIDE)
    return np.array([s.truth.energy(np.asarray(z, WIDE), clock) for z in points], WIDE)


def differs(off: np.ndarray, size: np.ndarray, tol: float = 1e-10) -> float:
    """The largest difference relative to what it is a difference of, where both are finite."""
    good = np.isfinite(off) & np.isfinite(size)
    rel = np.abs(off[good]) / np.maximum(1.0, np.abs(size[good]))
    return float(rel.max()) if len(rel) and rel.max() > tol else 0.0


def algebra(s: Subject, t: Tally) -> None:
    """separable, quadratic, polynomial, even in p, T quadratic, no explicit time."""
    case, q, p = s.case, s.truth.indices("position"), s.truth.indices("momentum")
    a, b = case.start(POINTS, salt=4), case.start(POINTS, salt=5)
    seed = case.seed
    if s.says("facts", "separable"):
        x, y = a.copy(), b.copy()
        x[:, p], y[:, p] = b[:, p], a[:, p]
        va, vb, vx, vy = (values(s, z) for z in (a, b, x, y))
        off = differs(va + vb - vx - vy, np.abs(va) + np.abs(vb))
        t.check(seed, "fact separable", off > 0, "separable", f"H mixes q and p by {off:.1e}")
    if s.says("facts", "even in p"):
        x = a.copy()
        x[:, p] *= -1
        va, vx = values(s, a), values(s, x)
        off = differs(va - vx, va)
        t.check(seed, "fact even in p", off > 0, "H(q, -p) = H(q, p)", f"they differ by {off:.1e}")
    for name, which, degree in (
        ("quadratic", [*q, *p], 2),
        ("T quadratic", p, 2),
        ("polynomial", [*q, *p], None),
    ):
        if not s.says("facts", name):
            continue
        if degree is None:
            degree = int(str(s.row("facts", name)["because"]).split()[1])
        if degree > 8:
            continue
        step = np.zeros_like(b)
        step[:, which] = b[:, which] / (degree + 1)
        total, size = WIDE(0) * a[:, 0], WIDE(0) * a[:, 0]
        c = 1
        for k in range(degree + 2):
            v = values(s, a + k * step)
            total = total + (-1) ** k * c * v
            size = size + c * np.abs(v)
            c = c * (degree + 1 - k) // (k + 1)
        off = differs(total, size)
        t.check(seed, f"fact {name}", off > 0, f"degree {degree}", f"difference {degree + 1} is {off:.1e}")
    if s.row("facts", "explicit time") and not s.says("facts", "explicit time"):
        va, vb = values(s, a, 0.1), values(s, a, 1.37)
        off = differs(va - vb, va)
        t.check(seed, "fact no explicit time", off > 0, "no explicit time", f"H changes with t by {off:.1e}")


def roughest(f: np.ndarray) -> int:
    """Where do third differences of a row of numbers stand out?"""
    d = np.abs(np.diff(f, 3))
    d = np.where(np.isfinite(d), d, 0.0)
    return int(np.argmax(d)) + 1


def break_on(s: Subject, z: np.ndarray, along: np.ndarray) -> tuple[int, float] | None:
    """(order of the derivative that jumps, by how much) on a line; nothing if it is smooth there.

    The grid closes in on the largest third difference. A jump of the k-th derivative shows as a difference of order
    k + 1 over the k-th power of the spacing that stays the same while the spacing falls.
    """
    low, high = WIDE(-1.2), WIDE(1.2)
    seen: list[list[float]] = []
    for _ in range(7):
        x = np.linspace(low, high, GRID if not seen else 25).astype(WIDE)
        f = values(s, z + x[:, None] * along)
        if not np.isfinite(f).all():
            if seen:
                return None
            f = np.where(np.isfinite(f), f, 0.0)
        d = x[1] - x[0]
        i = roughest(f)
        near = f[max(0, i - 4) : i + 5]
        if np.abs(near).max() > 1e4:
            return None
        seen.append([float(np.abs(np.diff(near, k + 1)).max() / d**k) for k in range(3)])
        low, high = x[max(0, i - 3)], x[min(len(x) - 1, i + 5)]
    for k in range(3):
        a, b, c = (row[k] for row in seen[-3:])
        if min(a, b, c) > 0.02 and max(a, b, c) < 1.25 * min(a, b, c):
            return k, c
    return None


def breaks(s: Subject) -> tuple[int, float] | None:
    """The first break that is found on random lines and on lines along each number."""
    n = s.truth.size
    rng = np.random.default_rng([s.case.seed, 7])
    lines = [(s.case.start(salt=8), np.eye(n)[i]) for i in rng.permutation(n)[:3]]
    lines += [(s.case.start(salt=9 + k), rng.normal(size=n) / np.sqrt(n)) for k in range(LINES - 3)]
    found = [b for z, along in lines if (b := break_on(s, z - along * (z @ along), along)) is not None]
    return min(found) if found else None


WHAT = ("H jumps", "its slope jumps", "its curvature jumps")


def smoothness(s: Subject, t: Tally) -> None:
    """smooth: no jump or kink on any line; and a consistent program has no jump of the energy."""
    smooth, consistent = s.says("facts", "smooth"), s.certificate.consistent
    if not smooth and not consistent or s.truth.size > 20:
        return
    found = breaks(s)
    if smooth:
        said = "smooth" if found is None else WHAT[found[0]]
        by = "" if found is None else f" by {found[1]:.2g}"
        t.check(s.case.seed, "fact smooth", found is not None, "smooth", f"{said}{by}")
    if consistent:
        jump = found is not None and found[0] == 0
        by = f"H jumps by {found[1]:.2g}" if found is not None else ""
        t.check(s.case.seed, "consistent without a jump", jump, consistent.because, by)


def check(s: Subject, t: Tally) -> None:
    if s.truth.system.kind not in ("hamiltonian", "lagrangian"):
        return
    if s.truth.system.kind == "hamiltonian":
        algebra(s, t)
    smoothness(s, t)
