"""A definite energy in which q and p are mixed: after n steps, by the normal form of Williamson (1936).

With H'' = L L^T the state w = L^T z moves by w' = B w, where B = L^T J L is antisymmetric: -B**2 = G has no negative
eigenvalue, and exp(t B) = cos(sqrt(G) t) + B sin(sqrt(G) t)/sqrt(G).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tinyphysics.device.linear.double_double import DD, Sliced, as_dd, matmul, of_fractions
from tinyphysics.device.linear.eigen import eigen
from tinyphysics.device.linear.modes import Change, Modes, NoModes, flat


@dataclass(frozen=True, eq=False)
class NormalForm:
    modes: Modes  # of G
    into: Sliced  # z -> w
    back: Sliced
    turn: Sliced  # B
    rest: DD  # where nothing moves

    def apply(self, change: Change, z: Any) -> Any:
        """States of all members, (positions then momenta, frames*members), each rounded once."""
        rest = self.rest[:, None]
        v = self.modes.into[0] @ (self.into @ (as_dd(z) - rest))
        still, turned = (
            self.modes.back[0] @ flat(part[:, :, None] * v[:, None]) for part in (change.xx, change.xy)
        )
        return (self.back @ (still + self.turn @ turned) + rest).rounded()


def normal_form(s: Sequence[Sequence[Fraction]], b: Sequence[Fraction]) -> NormalForm:
    """Of z S z/2 + b.z; a NoModes if S is not shown to be definite."""
    size = len(s)
    n = size // 2
    e = eigen(of_fractions(s))
    least = float(e.values.high.min())
    if least <= 4.0 * e.wrong:
        raise NoModes(f"H is not shown to be definite: the least eigenvalue of its matrix is {least:.3g}")
    root = e.values.sqrt()
    L, inverse = e.vectors * root[None, :], e.vectors / root[None, :]  # the inverse, transposed
    J = DD(np.block([[np.zeros((n, n)), np.eye(n)], [-np.eye(n), np.zeros((n, n))]]))
    B = matmul(L.T(), matmul(J, L))
    B = (B - B.T()).scaled(0.5)
    G = matmul(B.T(), B)
    g = eigen((G + G.T()).scaled(0.5))
    whole = float(np.abs(G.high).sum(axis=1).max())
    wrong = g.wrong + whole * (4.0 * e.wrong / least + size * 2.0**-98)
    if float(g.values.high.min()) <= 8.0 * wrong:
        raise NoModes(f"the square of a frequency cannot be told from 0: it is known to {wrong:.0e}")
    nothing = DD(np.zeros(size))
    into, back = Sliced(g.vectors.T()), Sliced(g.vectors)
    modes = Modes(
        g.values,
        np.zeros(size, bool),
        DD(np.ones(size)),
        (into, into),
        (back, back),
        (nothing, nothing),
        wrong,
        skew=g.askew,
    )
    force = matmul(inverse.T(), of_fractions([[x] for x in b]))
    rest = -matmul(inverse, force)[:, 0]
    return NormalForm(modes, Sliced(L.T()), Sliced(inverse), Sliced(B), rest)
