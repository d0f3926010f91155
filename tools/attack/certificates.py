"""Is every yes of the certificate true of the map that runs?  Jacobians by differences, steps forth and back."""

from __future__ import annotations

import numpy as np

from attack.findings import Tally
from attack.subject import Subject, usable
from attack.truth import Unknown

POINTS = 3
STENCIL = ((1, 8 / 12), (-1, -8 / 12), (2, -1 / 12), (-2, 1 / 12))  # of fourth order
LARGEST = 1e3  # a Jacobian of larger entries is not measured


def jacobians(s: Subject, base: np.ndarray, steps: int, h: float) -> np.ndarray:
    """M of each base state, (points, numbers, numbers): columns are derivatives with respect to a number."""
    points, n = base.shape
    members = np.repeat(base, n * len(STENCIL), 0).reshape(points, n, len(STENCIL), n)
    for j in range(n):
        for k, (shift, _) in enumerate(STENCIL):
            members[:, j, k, j] += shift * h
    ends = s.run(members.reshape(-1, n), steps).reshape(points, n, len(STENCIL), n)
    weights = np.array([c for _, c in STENCIL]) / h
    return np.einsum("k,pjki->pij", weights, ends)


def measured(s: Subject, steps: int) -> list[tuple[np.ndarray, float]]:
    """(M, how well it is known) at random states, where two differences agree."""
    n = s.truth.size
    base = s.case.start(1 if n > 20 else POINTS, salt=1)
    h = {True: 2e-3, False: 0.06}[s.eps < 1e-12]
    if s.precision == "lattice":
        h = 0.01
    wide, narrow = jacobians(s, base, steps, h), jacobians(s, base, steps, h / 2)
    out = []
    for a, b in zip(wide, narrow):
        size = np.abs(b).max()
        if not np.isfinite(a).all() or not np.isfinite(b).all() or size > LARGEST:
            continue
        off = float(np.abs(a - b).max())
        if off < 2e-2 * max(1.0, size) * (1 if s.eps > 1e-12 else 1e-4):
            out.append((b, off + 40 * s.eps / h * max(1.0, size)))
    return out


def structure(s: Subject, t: Tally) -> None:
    """symplectic: M^T J M = J; volume-preserving: det M = 1."""
    c, seed, omega = s.certificate, s.case.seed, s.truth.omega()
    if not (c.symplectic or c.volume_preserving):
        return
    found = measured(s, s.case.steps)
    if not found:
        t.unclear["symplectic"] += bool(c.symplectic)
        t.unclear["volume-preserving"] += bool(c.volume_preserving)
        return
    tol = 1e-7 if s.eps < 1e-12 else 5e-3
    if c.symplectic:
        worst = max(
            (float(np.abs(m.T @ omega @ m - omega).max()) / max(1.0, float(np.abs(m).max()) ** 2) - 20 * off)
            for m, off in found
        )
        t.check(seed, "symplectic", worst > tol, c.symplectic.because, f"|M'JM - J| = {worst:.1e}")
    if c.volume_preserving:
        n = s.truth.size
        worst = max(
            abs(abs(np.linalg.det(m)) - 1.0) - 20 * n * off * max(1.0, np.abs(m).max() ** 2)
            for m, off in found
        )
        t.check(
            seed,
            "volume-preserving",
            worst > tol * n,
            c.volume_preserving.because,
            f"|det M| - 1 = {worst:.1e}",
        )


def there_and_back(s: Subject, t: Tally) -> None:
    """symmetric: steps of h, then of -h; reversible: steps, p -> -p, steps, p -> -p."""
    c, case, steps = s.certificate, s.case, s.case.steps
    if not (c.symmetric or c.reversible):
        return
    z = case.start(8, salt=2)
    s = s.decided(z)
    ahead = s.run(z, steps)
    good = usable(ahead)
    z, ahead = z[good], ahead[good]
    if not len(z):
        t.unclear["symmetric"] += 1
        return
    tol = max(1e-8, 3e3 * s.eps)
    for name, verdict in (("symmetric", c.symmetric), ("reversible", c.reversible)):
        if not verdict:
            continue
        if name == "symmetric":
            back = s.run(ahead, steps, -case.dt, case.t0 + steps * case.dt)
        else:
            sign = np.ones(s.truth.size)
            sign[s.truth.indices("momentum")] = -1.0
            back = sign * s.run(sign * ahead, steps)
        off = np.abs(back - z).max(-1)
        off = off[np.isfinite(off)]
        # near a kink or a jump, or in chaos, rounding is magnified: most members must come back
        worst = float(np.median(off)) if len(off) else 0.0
        t.check(case.seed, name, worst > tol, verdict.because, f"it comes back to {worst:.1e}")


def consistency(s: Subject, t: Tally) -> None:
    """consistent: the slope of a short step is the true vector field."""
    verdict, case = s.certificate.consistent, s.case
    if not verdict:
        return
    states, fields = [], []
    for z in case.start(4, salt=3):
        try:
            fields.append(s.truth.rates(z, case.t0).astype(float))
            states.append(z)
        except Unknown:
            continue
    if not states:
        t.unclear["consistent"] += 1
        return
    z, f = np.array(states), np.array(fields)
    scale = np.maximum(1.0, np.abs(f).max(-1))
    # where digits allow it by steps so short that what is left of their own error hides nothing
    long, short, share = (1e-3, 1e-5, 0.05) if s.eps < 1e-12 else (1e-2, 1e-3, 0.3)
    off = {h: np.abs((s.run(z, 1, h) - z) / h - f).max(-1) / scale for h in (long, short)}
    floor = 1e-6 + 60 * s.eps / short
    bad = (off[short] > floor) & (off[short] > share * off[long])
    bad &= np.isfinite(off[short])
    t.check(
        case.seed,
        "consistent",
        bool(bad.sum() > len(z) / 2),
        verdict.because,
        f"the slope of a step of {short:g} is off by {np.nanmax(off[short]):.1e}, of {long:g} by {np.nanmax(off[long]):.1e}",
    )


def loops(s: Subject, t: Tally) -> None:
    """symplectic forces: the work around any loop is 0, also where the loop crosses a jump."""
    verdict, case = s.certificate.symplectic, s.case
    if not verdict or s.truth.system.kind != "forces":
        return
    n = len(s.truth.indices("position"))
    rng = np.random.default_rng(case.seed)
    count, worst = 600, 0.0
    for _ in range(2):
        centre = rng.uniform(-0.3, 0.3, n)
        a, b = rng.normal(size=(2, n))
        angle = np.arange(count) * 2 * np.pi / count + rng.uniform(0, 1e-2)
        work = size = 0.0
        for x in angle:
            q = centre + a * np.cos(x) + b * np.sin(x)
            z = np.zeros(s.truth.size)
            z[s.truth.indices("position")] = q
            force = s.truth.rates(z, case.t0)[s.truth.indices("momentum")].astype(float)
            if not np.isfinite(force).all() or np.abs(force).max() > 1e3:
                t.unclear["no work on loops"] += 1
                return
            along = force @ (-a * np.sin(x) + b * np.cos(x)) * 2 * np.pi / count
            work, size = work + along, size + abs(along)
        worst = max(worst, abs(work) / max(size, 1.0))
    t.check(
        case.seed,
        "no work on loops",
        worst > 0.02,
        verdict.because,
        f"the work around a loop is {worst:.2g} of its terms",
    )


def check(s: Subject, t: Tally) -> None:
    if s.is_map:
        return
    if s.case.kind == "ode":  # its states have no partners
        for name in ("symplectic", "reversible"):
            if verdict := s.certificate[name]:
                t.report(s.case.seed, f"{name} ode", verdict.because, "an ode has no momenta")
    else:
        structure(s, t)
        there_and_back(s, t)
        loops(s, t)
    consistency(s, t)
