"""How does one kick with its force gradient make a step of order 4?  With a processor (numerics: 17).

("W", c) stands beside a kick and adds c*dt**3*[V, [T, V]] to it. Where T is quadratic that is a function of the positions
alone, so that the kick is exact. Schemes that need no processor are in synth/coefficients/schemes.py.
"""

from __future__ import annotations

from fractions import Fraction

from tinyphysics.synth.coefficients.clocks import Sequence_
from tinyphysics.synth.coefficients.coefficients import rounded

# Takahashi and Imada 1984, J. Phys. Soc. Jpn. 53, 3765: order 4 for a trace, or with a processor
TAKAHASHI_IMADA: Sequence_ = [("T", 0.5), ("V", 1.0), ("W", rounded(Fraction(1, 24))), ("T", 0.5)]
# exp(-dt**2 [T, V]/24) up to dt**4: weights a and b with a*b = 1/96, so that what is left of order 3 cancels
A, B = rounded(Fraction(1, 12)), 1 / 8
PROCESSOR: Sequence_ = [("T", -A), ("V", B), ("T", 2 * A), ("V", -2 * B), ("T", -2 * A), ("V", B), ("T", A)]
