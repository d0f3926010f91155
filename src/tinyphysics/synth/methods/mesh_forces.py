"""What do particles feel of a mesh whose waves are differentiated, not its splines?  Forces that add up to zero, no gradient.

The slope of each wave is the wave times i k: three transforms back instead of one. Action and reaction then differ by
rounding alone and a particle feels nothing of its own, but the forces are not those of any energy.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

from tinyphysics.errors import PlanError
from tinyphysics.ir import Ops, UOp, as_uop, substitute, toposort
from tinyphysics.ir.fourier import Complex
from tinyphysics.ir.mesh import AXES, CONVOLVE, INTERPOLATE
from tinyphysics.rules.calculus.mesh import interpolate
from tinyphysics.rules.formulas.fourier import transform
from tinyphysics.rules.formulas.mesh import to_waves
from tinyphysics.synth.methods.derivative import derivative


@dataclass(frozen=True, eq=False)
class DifferentiatedWaves:
    """The derivative of a potential, with slopes of splines replaced by slopes of waves."""

    potential: UOp

    def derivative(self, *q: UOp) -> list[UOp]:
        slopes = derivative(self.potential, list(q))
        return substitute(slopes, {u: by_waves(u) for u in toposort(slopes) if is_slope(u)})


def is_slope(u: UOp) -> bool:
    return u.op is Ops.MESH and u.arg[0] == INTERPOLATE and sum(u.arg[2]) > 0


def by_waves(u: UOp) -> UOp:
    _, order, along, grid = u.arg
    places, nodes = u.src
    if sum(along) != 1 or nodes.op is not Ops.MESH or nodes.arg[0] != CONVOLVE:
        raise PlanError(
            'long_range: "forces": "ik" for an energy whose mesh is not a plain sum over images',
            fix='Leave "forces" out: then they are the gradient of the energy.',
        )
    axis = along.index(1)
    n = grid[axis]
    # the wave of half the mesh has no real slope
    numbers = [0.0 if 2 * m == n else float(m if 2 * m < n else m - n) * 2.0 * pi / n for m in range(n)]
    k = as_uop(numbers).reshape(*(-1 if a == axis else 1 for a in range(AXES))).expand(grid)
    x, waves = nodes.src
    re, im = to_waves(x)
    weight = waves * k
    z: Complex = -(im * weight), re * weight
    for a in range(AXES):
        z = transform(z, 1, a)
    return interpolate(places, z[0], order)
