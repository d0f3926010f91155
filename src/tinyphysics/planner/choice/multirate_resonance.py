"""Is a step of several paces in a resonance?  The spectral radius of a linear step, and where in a picture of it we are.

The model is one oscillator that all levels pull at: curvature 1 from the fastest, less from the others. A slow kick every
half period of the fast motion feeds it, however fine the inner steps are (C-16): just below dt*omega = pi, 2 pi, ... lie
tongues in which powers of the step grow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinyphysics.report import Row
from tinyphysics.util import plural

NEAR = 0.8  # of half a period of the fastest motion, from which on a slow kick may meet a resonance
WIDTH, HEIGHT = 60, 12  # of the picture, in characters
LOOKS = 8  # at different steps in one cell of it
STRONG = 1.1  # growth in a step that is drawn as strong
BOUNDED = 1e-9  # |trace|/2 - 1 that is rounding, of a product of matrices


Matrix = tuple[float, float, float, float]
ONE: Matrix = (1.0, 0.0, 0.0, 1.0)


def radius(
    inner: Sequence[int], x: float, curvatures: Sequence[float], weights: Sequence[float] = (1.0,)
) -> float:
    """Of one step of length x, in which oscillators of these curvatures are kicked each at its pace, the fastest first.

    `weights` are of the steps that it is composed of.

    >>> radius([10], 2.5, [1.0, 0.2]), radius([100], 2.7, [1.0, 0.2]) > 1.05
    (1.0, True)
    """
    step = ONE
    for w in weights:
        # a weight as a float: one that is exact as well would make a fraction of thousands of digits of every product
        step = product(one_step(inner, float(w) * x, curvatures), step)
    half = abs(step[0] + step[3]) / 2
    if half <= 1 + BOUNDED:
        return 1.0
    return half + math.sqrt(half * half - 1) if half < 1e150 else math.inf


def one_step(inner: Sequence[int], x: float, curvatures: Sequence[float]) -> Matrix:
    """Half kicks of all, fast steps with slower kicks between them, and the half kicks of the end."""
    h = x / math.prod(inner)
    step, half = product((1.0, 0.0, -h * curvatures[0], 1.0), (1.0, h, 0.0, 1.0)), h * curvatures[0] / 2
    for count, curvature in zip(inner, curvatures[1:]):
        h *= count
        step, half = product((1.0, 0.0, -h * curvature, 1.0), power(step, count)), half + h * curvature / 2
    return product((1.0, 0.0, half, 1.0), product(step, (1.0, 0.0, -half, 1.0)))


def product(a: Matrix, b: Matrix) -> Matrix:
    return (
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
    )


def power(a: Matrix, n: int) -> Matrix:
    out = ONE
    while n:
        out, a, n = product(out, a) if n % 2 else out, product(a, a), n // 2
    return out


def grid(
    inner: Sequence[int],
    middle: Sequence[float],
    xs: Sequence[float],
    ys: Sequence[float],
    weights: Sequence[float] = (1.0,),
) -> list[list[float]]:
    """Spectral radii: a row for each y, the frequency of the slowest over the fastest; x is dt in half fast periods.

    `middle` are the frequencies of the levels between, over the fastest.
    """
    cell = (xs[-1] - xs[0]) / max(len(xs) - 1, 1)

    def largest(x: float, y: float) -> float:
        """In a cell of the picture: tongues are thin where the slow part is weak."""
        return max(
            radius(inner, (x + k * cell / LOOKS) * math.pi, [1.0, *(m * m for m in middle), y * y], weights)
            for k in range(-(LOOKS // 2), LOOKS // 2)
        )

    return [[largest(x, y) for x in xs] for y in ys]


def axes(x: float, y: float) -> tuple[list[float], list[float]]:
    """The middles of the cells of a picture that holds the point (x, y)."""
    right, top = max(2.2, 1.2 * x), max(0.6, 1.2 * y)
    return (
        [right * (k + 0.5) / WIDTH for k in range(WIDTH)],
        [top * (HEIGHT - k - 0.5) / HEIGHT for k in range(HEIGHT)],
    )


def tongue_rows(
    inner: Sequence[int],
    frequencies: Sequence[float],
    fastest: float,
    dt: float,
    weights: Sequence[float] = (1.0,),
) -> list[Row]:
    """The picture, row by row, and what is in it."""
    x, y = abs(dt) * fastest / math.pi, frequencies[-1] / fastest
    xs, ys = axes(x, y)
    middle = [f / fastest for f in frequencies[1:-1]]
    column = min(range(WIDTH), key=lambda k: abs(xs[k] - x))
    line = min(range(HEIGHT), key=lambda k: abs(ys[k] - y))
    rows = [
        Row(
            "tongues",
            f"X is this step; # grows by more than {STRONG:g} in a step, + by less, . is bounded: of an "
            "oscillator that both pull at",
        )
    ]
    for k, radii in enumerate(grid(inner, middle, xs, ys, weights)):
        marks = ["#" if r > STRONG else "+" if r > 1 else "." for r in radii]
        if k == line:
            marks[column] = "X"
        rows.append(Row(f"{ys[k]:.2f}", "".join(marks)))
    return [
        *rows,
        Row("dt", ruler(xs)),
        Row("", "dt over half the fast period; upwards, the slow frequency over the fast one"),
    ]


def ruler(xs: Sequence[float]) -> str:
    """Whole and half numbers under the columns that they belong to."""
    step = 0.5 if xs[-1] < 4 else 1.0 if xs[-1] < 8 else math.ceil(xs[-1] / 8)
    out = [" "] * (len(xs) + 4)
    for n in range(int(xs[-1] / step) + 1):
        at = min(range(len(xs)), key=lambda k: abs(xs[k] - n * step))
        label = f"{n * step:g}"
        out[at : at + len(label)] = label
    return "".join(out).rstrip()


def radius_row(found: float | None, own: float, positions: int, why_not: str, vibrates: bool = True) -> Row:
    """`vibrates` says it of the fast part: where it does not, slow kicks meet no resonance."""
    if found is None:
        return Row("spectral radius", "not measured", why_not)
    told = (
        f"1 + {found - 1:.1e}" if 1 + 5e-4 > found > 1 + 5e-7 else f"{found:.3f}" if found > 1 + 5e-7 else "1"
    )
    if grows(found, own):
        cause = "is in a resonance" if vibrates else "is too long for the slow part"
        verdict = f"UNSTABLE: this step {cause}, and the motion grows without bound"
    elif own > 1 + 5e-7:
        verdict = f"as the motion itself, which runs away here by {own:.4g} in a step: no resonance"
    else:
        verdict = "bounded"
    return Row(
        "spectral radius",
        told,
        f"of the step, linear about this state ({plural(positions, 'position')}): {verdict}",
    )


SMALL = 1e-5  # of a radius: zero modes are defective, and their eigenvalues known to the root of a rounding
# times the logarithm of the motion's own growth, which a step of finite length does not meet exactly
FREE = 1.2


def grows(found: float, own: float) -> bool:
    """Does a step make larger what the motion itself does not?"""
    return not math.log(found) <= FREE * math.log(own) + SMALL if math.isfinite(found) and found > 0 else True
