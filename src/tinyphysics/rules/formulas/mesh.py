"""What are sums over the waves of a mesh made of?  Fourier transforms, there and back."""

from __future__ import annotations

from tinyphysics.ir.fourier import Complex
from tinyphysics.ir.mesh import AXES, CONVOLVE, ENERGY, INTERPOLATE, SPREAD
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.formulas.fourier import transform


def expand(u: UOp) -> UOp:
    """Such a node as what it is made of; any other as it is."""
    if u.op is not Ops.MESH or u.arg[0] in (SPREAD, INTERPOLATE):
        return u
    x, y = u.src
    if u.arg[0] == CONVOLVE:
        return convolved(x, y)
    (a, b), (c, d) = to_waves(x), to_waves(x if u.arg[0] == ENERGY else y)
    if u.arg[0] == ENERGY:
        return ((a * a + b * b) * y).sum() * 0.5
    return a * c + b * d


def to_waves(x: UOp) -> Complex:
    z: Complex = x, UOp.const(0.0, x.dtype, x.shape)
    for a in reversed(range(AXES)):
        z = transform(z, -1, a)
    return z


def convolved(x: UOp, waves: UOp) -> UOp:
    a, b = to_waves(x)
    z: Complex = a * waves, b * waves
    for k in range(AXES):
        z = transform(z, 1, k)
    return z[0]
