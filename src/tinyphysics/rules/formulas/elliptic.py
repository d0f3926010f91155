"""How is -div(k grad u) + s*u = f solved?  By transforms where k and s are numbers, else by multigrid (multigrid.py).

Waves that fit the ends diagonalise differences: exponentials between periodic ends, sines where u is zero one spacing beyond
the ends, cosines where nothing flows half a spacing beyond them. Sines and cosines are parts of a Fourier transform of a
row with zeros behind it.
"""

from __future__ import annotations

from functools import lru_cache

from tinyphysics.ir.dtype import DType
from tinyphysics.ir.fourier import ONE, Complex, roots_of_one, rounded
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.calculus.elliptic import (
    DIRICHLET,
    NEUMANN,
    PERIODIC,
    TRANSFORMS,
    Elliptic,
    cut,
    elliptic,
    padded,
)
from tinyphysics.rules.formulas.fourier import table, transform
from tinyphysics.rules.formulas.multigrid import by_cycles


def expand(u: UOp) -> UOp:
    """Such a node as what it is made of; any other as it is."""
    if u.op is not Ops.ELLIPTIC:
        return u
    e = elliptic(u)
    return by_transforms(e) if e.method == TRANSFORMS else by_cycles(e)


def by_transforms(e: Elliptic) -> UOp:
    axes = range(e.f.ndim)
    x, periodic = e.f, [a for a in axes if e.ends[a] == PERIODIC]
    for a in axes:
        x = to_waves(x, a, e.ends[a])
    own = eigenvalues(e)
    over = own.eq(0.0).where(0.0, 1.0 / own) if e.is_singular else 1.0 / own
    if not periodic:
        x = x * over
    else:
        z: Complex = x, UOp.const(0.0, x.dtype, x.shape)
        for a in periodic:
            z = transform(z, -1, a)
        z = z[0] * over, z[1] * over
        for a in reversed(periodic):
            z = transform(z, 1, a)
        x = z[0]
    for a in reversed(axes):
        x = from_waves(x, a, e.ends[a])
    return x


def eigenvalues(e: Elliptic) -> UOp:
    """Of A, times what transforms there and back multiply by: an array with an axis for each of f's."""
    n, count = e.f.ndim, 1.0
    own = e.shift.reshape((1,) * n)
    for a, w in enumerate(e.weights):
        m = e.f.shape[a]
        t = curvatures(m, e.ends[a], e.f.dtype)
        own = own + (w * t).reshape(tuple(m if b == a else 1 for b in range(n)))
        count *= 0.5 * (m + 1) if e.ends[a] == DIRICHLET else m
    return own * count


@lru_cache(maxsize=64)
def curvatures(n: int, end: int, dtype: DType) -> UOp:
    """The eigenvalues of minus the second difference, each rounded once: 2 - 2 cos(turn k/N)."""
    first, whole = {PERIODIC: (0, n), DIRICHLET: (1, 2 * (n + 1)), NEUMANN: (0, 2 * n)}[end]
    roots = roots_of_one(whole)
    return UOp.stack(
        [UOp.const(rounded(2 * (ONE - roots[k][0]), dtype), dtype) for k in range(first, first + n)]
    )


def to_waves(x: UOp, axis: int, end: int) -> UOp:
    """How much of each sine or cosine is in x."""
    n = x.shape[axis]
    if end == PERIODIC:
        return x
    if end == DIRICHLET:
        return sines(x, axis)
    row = padded(x, axis, 0, n)
    re, im = transform((row, UOp.const(0.0, x.dtype, row.shape)), -1, axis)
    cos, sin = (along(w, axis, x.ndim) for w in quarter_turns(n, x.dtype))
    return cut(re, axis, 0, n) * cos + cut(im, axis, 0, n) * sin


def from_waves(x: UOp, axis: int, end: int) -> UOp:
    """The transpose, which is the inverse but for factors: the cosine of the mean has half the weight of the others."""
    n = x.shape[axis]
    if end == PERIODIC:
        return x
    if end == DIRICHLET:
        return sines(x, axis)
    cos, sin = (along(w, axis, x.ndim) for w in quarter_turns(n, x.dtype))
    first = along(UOp.range(n).eq(UOp.const(0, UOp.range(n).dtype)).where(1.0, 2.0), axis, x.ndim)
    y = x * first
    row: Complex = padded(y * cos, axis, 0, n), padded(y * sin, axis, 0, n)
    return cut(transform(row, 1, axis)[0], axis, 0, n)


def sines(x: UOp, axis: int) -> UOp:
    """The sum over j of x[j] sin(half turn (j+1)(k+1)/(n+1)): its own inverse, but for a factor."""
    n = x.shape[axis]
    row = padded(x, axis, 1, n + 1)
    im = transform((row, UOp.const(0.0, x.dtype, row.shape)), 1, axis)[1]
    return cut(im, axis, 1, n + 1)


@lru_cache(maxsize=64)
def quarter_turns(n: int, dtype: DType) -> Complex:
    """cos and sin of a half turn times k/2n."""
    return table(roots_of_one(4 * n)[:n], dtype, (n,))


def along(x: UOp, axis: int, ndim: int) -> UOp:
    """A list along one of several axes."""
    return x.reshape(tuple(x.shape[0] if a == axis else 1 for a in range(ndim)))
