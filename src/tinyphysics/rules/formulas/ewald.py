"""How is a sum over all images split into two that converge?  A near part by distance and a far part by waves: a table.

f(r) = near(r) + far(r) with far smooth, so that its Fourier transform falls like exp(-k²/4a²) (Ewald 1921; r^-6: Williams
1971; screened: Rosenfeld 1996). `a` is the inverse width of the split. For each form: what a user writes, the near part,
the far part at a distance, the far part at distance 0, half its Fourier transform as a function of k², that at k = 0, and
what a net charge adds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi

from tinyphysics.ir import UOp

COULOMB, SCREENED, GAUSSIAN, DISPERSION, SOFTENED = (
    "coulomb",
    "screened",
    "gaussian",
    "dispersion",
    "softened",
)
ROOT_PI = pi**0.5


@dataclass(frozen=True)
class Form:
    """Arrays of one shape in, one out: `a` the split, `b` the form's own parameter."""

    written: str
    value: Callable[[UOp, UOp], UOp]  # f, of r² and b
    near: Callable[[UOp, UOp, UOp], UOp]  # of r², a, b
    far: Callable[[UOp, UOp, UOp], UOp]  # of r², a, b
    at_zero: Callable[[UOp, UOp], UOp]  # far(0), of a, b
    waves: Callable[
        [UOp, UOp, UOp], UOp
    ]  # half the transform of far, not divided by the volume, of k² > 0, a, b
    uniform: Callable[[UOp, UOp], UOp] | None  # the same at k = 0; None: it is left out
    background: Callable[[UOp, UOp], UOp] | None = None  # of the square of the net charge over the volume
    charged: bool = True  # does 1/r reach to the edge of a sample: has it a term of the surface?


def narrower(a: UOp, b: UOp) -> UOp:
    """The split of erf(b r)/r: it is smooth already where b is below a."""
    return a.minimum(b)


def erf_over(r2: UOp, a: UOp) -> UOp:
    r = r2.sqrt()
    return (a * r).erf() / r


def erfc_over(r2: UOp, a: UOp) -> UOp:
    r = r2.sqrt()
    return (1.0 - (a * r).erf()) / r


def erfc(x: UOp) -> UOp:
    return 1.0 - x.erf()


def screened_far(r2: UOp, a: UOp, b: UOp) -> UOp:
    r, c = r2.sqrt(), b / (2.0 * a)
    return (((-b * r).exp() * erfc(c - a * r)) - (b * r).exp() * erfc(c + a * r)) * 0.5 / r


def screened_near(r2: UOp, a: UOp, b: UOp) -> UOp:
    r, c = r2.sqrt(), b / (2.0 * a)
    return ((b * r).exp() * erfc(a * r + c) + (-b * r).exp() * erfc(a * r - c)) * 0.5 / r


def dispersion_near(r2: UOp, a: UOp, b: UOp) -> UOp:
    x = a * a * r2
    return (-x).exp() * (1.0 + x + 0.5 * x * x) / (r2 * r2 * r2)


def dispersion_far(r2: UOp, a: UOp, b: UOp) -> UOp:
    x: UOp = a * a * r2
    return -((-x).expm1() + (-x).exp() * (x + 0.5 * x * x)) / (r2 * r2 * r2)


def dispersion_waves(k2: UOp, a: UOp, b: UOp) -> UOp:
    k = k2.sqrt()
    h = k / (2.0 * a)
    series = (0.5 / (h * h * h) - 1.0 / h) * (-h * h).exp()
    out: UOp = k2 * k * (ROOT_PI * erfc(h) + series) * (pi**1.5 / 24.0)
    return out


def coulomb_waves(k2: UOp, a: UOp) -> UOp:
    return (k2 * (-0.25 / (a * a))).exp() * (2.0 * pi) / k2


FORMS: dict[str, Form] = {
    COULOMB: Form(
        "1/np.sqrt(r2)",
        lambda r2, b: 1.0 / r2.sqrt(),
        lambda r2, a, b: erfc_over(r2, a),
        lambda r2, a, b: erf_over(r2, a),
        lambda a, b: a * (2.0 / ROOT_PI),
        lambda k2, a, b: coulomb_waves(k2, a),
        None,
        lambda a, b: -0.5 * pi / (a * a),
    ),
    SCREENED: Form(
        "np.exp(-k*np.sqrt(r2))/np.sqrt(r2)",
        lambda r2, b: (-b * r2.sqrt()).exp() / r2.sqrt(),
        screened_near,
        screened_far,
        lambda a, b: a * (2.0 / ROOT_PI) * (-0.25 * b * b / (a * a)).exp() - b * erfc(b / (2.0 * a)),
        lambda k2, a, b: coulomb_waves(k2 + b * b, a),
        lambda a, b: coulomb_waves(b * b, a),
        charged=False,
    ),
    GAUSSIAN: Form(
        "tp.erf(b*np.sqrt(r2))/np.sqrt(r2)",
        lambda r2, b: erf_over(r2, b),
        lambda r2, a, b: erf_over(r2, b) - erf_over(r2, narrower(a, b)),
        lambda r2, a, b: erf_over(r2, narrower(a, b)),
        lambda a, b: narrower(a, b) * (2.0 / ROOT_PI),
        lambda k2, a, b: coulomb_waves(k2, narrower(a, b)),
        None,
        lambda a, b: -0.5 * pi * (1.0 / (narrower(a, b) * narrower(a, b)) - 1.0 / (b * b)),
    ),
    DISPERSION: Form(
        "1/r2**3",
        lambda r2, b: 1.0 / (r2 * r2 * r2),
        dispersion_near,
        dispersion_far,
        lambda a, b: (a * a * a) * (a * a * a) * (1.0 / 6.0),
        dispersion_waves,
        lambda a, b: a * a * a * (pi**1.5 / 6.0),
        charged=False,
    ),
    SOFTENED: Form(
        "1/np.sqrt(r2 + e**2)",
        lambda r2, b: 1.0 / (r2 + b).sqrt(),
        lambda r2, a, b: 1.0 / (r2 + b).sqrt() - erf_over(r2, a),
        lambda r2, a, b: erf_over(r2, a),
        lambda a, b: a * (2.0 / ROOT_PI),
        lambda k2, a, b: coulomb_waves(k2, a),
        None,
        lambda a, b: -0.5 * pi / (a * a),
    ),
}
