"""Which chains are there?  Springs that are linear, Fermi-Pasta-Ulam-Tsingou or Toda, and their normal modes."""

# mypy: allow-untyped-defs, allow-incomplete-defs
# systems stand here as users write them: without types of what they return
from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.front.functions import diff, exp, roll
from tinyphysics.front.spaces import Vec
from tinyphysics.front.trace import hamiltonian
from tinyphysics.physics.portable import sine


@hamiltonian
def oscillators(q: Vec["n"], p: Vec["n"], coupling: float = 1.0, onsite: float = 0.0):
    """Linear springs between neighbours and to two walls, and to each one's own place."""
    stretch = diff(q, prepend=0.0, append=0.0)
    return p @ p / 2 + coupling * (stretch @ stretch) / 2 + onsite * (q @ q) / 2


@hamiltonian
def fput(q: Vec["n"], p: Vec["n"], alpha: float = 0.25, beta: float = 0.0):
    """Fermi, Pasta, Ulam & Tsingou 1955: springs with a quadratic and a cubic force, between two walls."""
    stretch = diff(q, prepend=0.0, append=0.0)
    return p @ p / 2 + (stretch**2 / 2 + alpha * stretch**3 / 3 + beta * stretch**4 / 4).sum()


@hamiltonian
def toda(q: Vec["n"], p: Vec["n"]):
    """Toda 1967: exponential springs on a ring; as many invariants as particles."""
    return p @ p / 2 + exp(q - roll(q, -1)).sum()


@hamiltonian
def toda_open(q: Vec["n"], p: Vec["n"]):
    """The same on a line with free ends: in the end all fly apart, freely."""
    return p @ p / 2 + exp(q[:-1] - q[1:]).sum()


# --- normal modes of a chain between walls --------------------------------------------------------------
def normal_mode(n: int, mode: int = 1, amplitude: float = 1.0) -> dict[str, Any]:
    """A start at rest: `mode` half waves of a sine between the walls."""
    return {"q": amplitude * sine(mode * np.arange(1, n + 1) / (2 * (n + 1))), "p": np.zeros(n)}


def mode_frequency(n: int, mode: Any, coupling: float = 1.0, onsite: float = 0.0) -> Any:
    """omega of a mode: omega**2 = onsite + 4 coupling sin(pi mode/(2(n + 1)))**2."""
    return np.sqrt(onsite + 4 * coupling * sine(np.asarray(mode) / (4 * (n + 1))) ** 2)


def mode_energies(q: Any, p: Any) -> Any:
    """The energy of each mode of the linear chain (coupling 1), along the last axis; modes 1, 2, ..., n."""
    n = np.shape(q)[-1]
    k = np.arange(1, n + 1)
    shape = np.sqrt(2 / (n + 1)) * sine(np.outer(k, k) / (2 * (n + 1)))
    return ((p @ shape) ** 2 + mode_frequency(n, k) ** 2 * (q @ shape) ** 2) / 2


# --- what the Toda chain keeps ----------------------------------------------------------------------
def lax_matrix(q: Any, p: Any, ring: bool = True) -> Any:
    """Flaschka 1974: a symmetric matrix whose eigenvalues do not change in time (n >= 3 on a ring)."""
    q, p = np.asarray(q), np.asarray(p)
    n = len(q)
    between = np.exp((q - np.roll(q, -1)) / 2)
    L = np.diag(p)
    for i in range(n if ring else n - 1):
        j = (i + 1) % n
        L[i, j] = L[j, i] = between[i]
    return L


def toda_invariants(q: Any, p: Any, ring: bool = True) -> Any:
    """The eigenvalues of the Lax matrix, in order; on a line they are the momenta after all have parted."""
    return np.linalg.eigvalsh(lax_matrix(q, p, ring))
