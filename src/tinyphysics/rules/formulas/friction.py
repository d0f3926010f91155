"""What is friction?  Rayleigh's function: half of what it takes from the energy in a unit of time, as if masses were 1."""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir import UOp


def dissipation(momenta: Sequence[UOp], rates: Sequence[UOp]) -> UOp:
    """The sum of rate*p²/2, whose derivative by p is what p decays by."""
    return UOp.sum_of(
        [
            (rate.expand(p.shape) * (p * p)).sum() * 0.5 if p.shape else rate * (p * p) * 0.5
            for p, rate in zip(momenta, rates)
        ]
    )
