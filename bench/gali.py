"""How often is the slope of GALI_2 near zero on a torus, whatever the code?  By SciPy, from a fundamental matrix.

    python bench/gali.py [--pairs 4000] [--until 20000]

The orbit of Hénon and Heiles from q = (0, 0.55), p = (0.2417, 0), and four directions that make the identity: DOP853 at
1e-11, nothing of this package. Directions are moved linearly, so GALI of any first directions follows from that matrix.
Slopes are those of bench/debugger.py: equally spaced looks, every 20 in time, from t = 200 on; and from later on.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.integrate import solve_ivp

START = [0.0, 0.55, 0.2417, 0.0]
SPACING = 20.0
FROM = (200.0, 2_000.0, 5_000.0)


def rates(t, z):
    x, y, u, v = z[:4]
    w = z[4:].reshape(4, 4)
    moved = np.empty((4, 4))
    moved[:2] = w[2:]
    moved[2] = -(1 + 2 * y) * w[0] - 2 * x * w[1]
    moved[3] = -2 * x * w[0] - (1 - 2 * y) * w[1]
    return np.concatenate([[u, v, -x - 2 * x * y, -y - x * x + y * y], moved.ravel()])


def main() -> None:
    told = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    told.add_argument("--pairs", type=int, default=4_000)
    told.add_argument("--until", type=float, default=2e4)
    a = told.parse_args()
    t = np.arange(SPACING, a.until + SPACING / 2, SPACING)
    z = np.concatenate([START, np.eye(4).ravel()])
    found = solve_ivp(rates, (0.0, t[-1]), z, "DOP853", t_eval=t, rtol=1e-11, atol=1e-13)
    matrices = found.y[4:].T.reshape(-1, 4, 4)
    random = np.random.default_rng(1)
    for k in (2, 3, 4):
        first = np.linalg.qr(random.normal(size=(a.pairs, 4, k)))[0]
        logs = np.empty((len(t), a.pairs))
        for j, m in enumerate(matrices):
            w = m @ first
            w /= np.linalg.norm(w, axis=1, keepdims=True)
            logs[j] = np.log(np.linalg.svd(w, compute_uv=False).prod(axis=1))
        told_of = []
        for begin in FROM:
            late = t > begin
            slope = np.polyfit(np.log(t[late]), logs[late], 1)[0]
            near = np.mean(np.abs(slope + 2 * (k - 2)) < 0.1)
            told_of.append(f"t > {begin:g}: median {np.median(slope):.3f}, {100 * near:.0f} % within 0.1")
        print(f"GALI_{k} of {a.pairs:,} first directions: " + "; ".join(told_of), flush=True)


if __name__ == "__main__":
    main()
