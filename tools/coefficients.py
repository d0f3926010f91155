"""Where do the numbers in rules/digits/coefficients.py come from?  Fits them again and prints that file.

    PYTHONPATH=src python tools/coefficients.py > src/tinyphysics/rules/digits/coefficients.py
    PYTHONPATH=src python tools/coefficients.py sin exp          # only these, with their errors

Each polynomial is the minimax one for its weight (Remez exchange on a fine grid), rounded greedily:
the lowest coefficient matters most, so it is rounded first and the rest are fitted again around it.
"""

from __future__ import annotations

import argparse
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath as mp

mp.mp.prec = 220  # monomials up to degree 20 lose some 60 bits on the way

Real = mp.mpf
Function = Callable[[Real], Real]


@dataclass(frozen=True)
class Fit:
    """f on [low, high], the error weighted to be relative to the function that is built from it."""

    f: Function
    weight: Function
    low: Real
    high: Real
    n64: int
    n32: int


def near_zero(f: Function, *taylor: Real) -> Function:
    """f, or its first Taylor terms where f itself is 0/0."""
    return lambda z: mp.polyval(taylor[::-1], z) if abs(z) < mp.mpf(2) ** -30 else f(z)


def of_square(f: Function) -> Function:
    return lambda z: f(mp.sqrt(z))


def atanh_ratio(s: Real) -> Real:
    return mp.atanh(s) / s


R = mp.mpf  # exact small rationals below
SLACK = 1 + R(2) ** -9  # k is rounded from a rounded product, so r may pass half a period
HALF_PI = mp.pi / 2
S_MAX = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * (1 + R(2) ** -20)  # s = (m-1)/(m+1), m in [1/sqrt2, sqrt2]
LN2_2 = mp.log(2) / 2 * SLACK

# fmt: off
FITS: dict[str, Fit] = {
    # sin r = r + r u P(u), u = r^2
    "sin": Fit(near_zero(of_square(lambda r: (mp.sin(r) - r) / r**3), -R(1) / 6, R(1) / 120),
               of_square(lambda r: r**3 / mp.sin(r)), R(0), (HALF_PI * SLACK) ** 2, 8, 5),
    # the same, shorter, for math="fast"
    "sin_short": Fit(near_zero(of_square(lambda r: (mp.sin(r) - r) / r**3), -R(1) / 6, R(1) / 120),
                     of_square(lambda r: r**3 / mp.sin(r)), R(0), (HALF_PI * SLACK) ** 2, 7, 4),
    # the same up to pi/4, and cos r = 1 - u/2 + u^2 P(u), for tan
    "sin_quarter": Fit(near_zero(of_square(lambda r: (mp.sin(r) - r) / r**3), -R(1) / 6, R(1) / 120),
                       of_square(lambda r: r**3 / mp.sin(r)), R(0), (HALF_PI / 2 * SLACK) ** 2, 6, 3),
    "cos_quarter": Fit(near_zero(of_square(lambda r: (mp.cos(r) - 1 + r**2 / 2) / r**4),
                                 R(1) / 24, -R(1) / 720),
                       of_square(lambda r: r**4 / mp.cos(r)), R(0), (HALF_PI / 2 * SLACK) ** 2, 6, 3),
    # e^r = 1 + r + r^2 P(r); the second with its error relative to e^r - 1
    "exp": Fit(near_zero(lambda r: (mp.expm1(r) - r) / r**2, R(1) / 2, R(1) / 6, R(1) / 24),
               lambda r: r**2 / mp.exp(r), -LN2_2, LN2_2, 10, 5),
    "expm1": Fit(near_zero(lambda r: (mp.expm1(r) - r) / r**2, R(1) / 2, R(1) / 6, R(1) / 24),
                 lambda r: r**2 / mp.expm1(r) if r else R(0), -LN2_2, LN2_2, 11, 6),
    # log m = 2s + s z P(z), z = s^2
    "log": Fit(near_zero(of_square(lambda s: (2 * atanh_ratio(s) - 2) / s**2), R(2) / 3, R(2) / 5),
               of_square(lambda s: s**2 / (2 * atanh_ratio(s)) if s else R(0)), R(0), S_MAX**2, 7, 3),
    # log m = 2s + s z (2/3 + z P(z)), for pow
    "log_tail": Fit(near_zero(of_square(lambda s: (2 * atanh_ratio(s) - 2 - 2 * s**2 / 3) / s**4),
                              R(2) / 5, R(2) / 7),
                    of_square(lambda s: s**4 / (2 * atanh_ratio(s)) if s else R(0)), R(0), S_MAX**2, 8, 3),
    # asin x = x + x z P(z), z = x^2
    "asin": Fit(near_zero(of_square(lambda x: (mp.asin(x) / x - 1) / x**2), R(1) / 6, R(3) / 40),
                of_square(lambda x: x**3 / mp.asin(x) if x else R(0)), R(0), R(1) / 4, 12, 5),
    # atan t = t + t z P(z), z = t^2
    "atan": Fit(near_zero(of_square(lambda t: (mp.atan(t) / t - 1) / t**2), -R(1) / 3, R(1) / 5),
                of_square(lambda t: t**3 / mp.atan(t) if t else R(0)), R(0), R(1), 20, 9),
    # erf x = x + x P(z), z = x^2, up to 1
    "erf": Fit(near_zero(of_square(lambda x: mp.erf(x) / x - 1),
                         2 / mp.sqrt(mp.pi) - 1, -2 / mp.sqrt(mp.pi) / 3),
               of_square(lambda x: x / mp.erf(x) if x else R(1)), R(0), R(1), 12, 7),
    # erf x = 1 - exp(P(x - 1)), from 1 to where it rounds to 1
    "erf_far": Fit(lambda t: mp.log(mp.erfc(1 + t)),
                   lambda t: mp.erfc(1 + t), R(0), R("4.95"), 19, 8),
}
# fmt: on


def minimax(f: Sequence[Real], w: Sequence[Real], x: Sequence[Real], n: int) -> list[Real]:
    """The n coefficients with the smallest maximum of |w (p - f)| on the grid x."""
    heavy = [i for i in range(len(x)) if w[i] > max(w) * R(2) ** -40]  # the others cannot be felt
    x, f, w = [x[i] for i in heavy], [f[i] for i in heavy], [w[i] for i in heavy]
    at = [round((len(x) - 1) * (1 - mp.cos(mp.pi * i / n)) / 2) for i in range(n + 1)]
    best: tuple[Real, list[Real]] | None = None
    for _ in range(12):
        system = mp.matrix(n + 1, n + 1)
        for row, i in enumerate(at):
            for column in range(n):
                system[row, column] = x[i] ** column
            system[row, n] = (-1) ** row / w[i]
        c = list(mp.lu_solve(system, mp.matrix([f[i] for i in at])))[:n]
        error = [wi * (mp.polyval(c[::-1], xi) - fi) for xi, fi, wi in zip(x, f, w)]
        worst = max(map(abs, error))
        if best is None or worst < best[0]:
            best = worst, c
        peaks: list[int] = []  # the largest error between two changes of its sign
        for i, e in enumerate(error):
            if not peaks or (e > 0) != (error[peaks[-1]] > 0):
                peaks.append(i)
            elif abs(e) > abs(error[peaks[-1]]):
                peaks[-1] = i
        if len(peaks) < n + 1:
            break
        while len(peaks) > n + 1:
            peaks.pop(0 if abs(error[peaks[0]]) < abs(error[peaks[-1]]) else -1)
        if peaks == at:
            break
        at = peaks
    assert best is not None
    return best[1]


def fitted(fit: Fit, n: int, rounding: Callable[[Real], float]) -> tuple[list[float], Real]:
    """The rounded coefficients and the largest weighted error that they leave."""
    size = 50 * n
    middle, radius = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2
    x = [middle - radius * mp.cos(mp.pi * (i + R(1) / 2) / size) for i in range(size)]
    f, w = [fit.f(t) for t in x], [abs(fit.weight(t)) for t in x]
    rest, weight, out = list(f), list(w), []
    for k in range(n):
        c = rounding(minimax(rest, weight, x, n - k)[0])
        out.append(c)
        rest = [(r - c) / t for r, t in zip(rest, x)]
        weight = [v * abs(t) for v, t in zip(weight, x)]
    error = max(v * abs(mp.polyval([R(c) for c in out[::-1]], t) - y) for t, y, v in zip(x, f, w))
    return out, error


def to_f64(x: Real) -> float:
    return float(x)


def to_f32(x: Real) -> float:
    return float(struct.unpack("<f", struct.pack("<f", float(x)))[0])


def words(x: Real, n: int, rounding: Callable[[Real], float]) -> list[float]:
    """x > 0 as an unevaluated sum of n floats, none of them negative.

    So that fma(0, -word, -0.0) is -0.0 for each of them, and sin(-0.0) is.
    """
    out: list[float] = []
    for _ in range(n):
        word = rounding(x)
        if R(word) > x:
            mantissa, exponent = mp.frexp(x)
            bits = 53 if rounding is to_f64 else 24
            word = rounding(mp.ldexp(mp.floor(mp.ldexp(mantissa, bits)), int(exponent) - bits))
        out.append(word)
        x -= R(word)
    return out


def nearest(x: Real, n: int, rounding: Callable[[Real], float]) -> list[float]:
    """x as a sum of n floats, each the nearest to what is left."""
    out: list[float] = []
    for _ in range(n):
        out.append(rounding(x))
        x -= R(out[-1])
    return out


def short(x: Real, bits: int, rounding: Callable[[Real], float]) -> list[float]:
    """x as a first word of few bits, whose product with a small integer is exact, and the rest."""
    first = mp.ldexp(mp.floor(mp.ldexp(x, bits)), -bits)
    return [rounding(first), rounding(x - first)]


def constants(rounding: Callable[[Real], float], exponent_bits: int, mantissa: int) -> dict[str, list[float]]:
    return {
        "pi": words(mp.pi, 3, rounding),
        "half_pi": words(mp.pi / 2, 3, rounding),
        "inverse_pi": nearest(1 / mp.pi, 1, rounding),
        "inverse_half_pi": nearest(2 / mp.pi, 1, rounding),
        "log2_e": nearest(1 / mp.log(2), 1, rounding),
        "ln2": nearest(mp.log(2), 2, rounding),
        "ln2_short": short(mp.log(2), mantissa - exponent_bits, rounding),
        "two_thirds": nearest(R(2) / 3, 2, rounding),
    }


HEADER = '''"""The numbers that the elementary functions are made of.

Printed by tools/coefficients.py, which says what each polynomial approximates; the comment beside it is
the largest relative error that it leaves in its function. Change the tool, not this file.
"""

from __future__ import annotations


def numbers(text: str) -> tuple[float, ...]:
    """Floats by their bits: hexadecimal, one behind the other."""
    return tuple(map(float.fromhex, text.split()))


'''
IN_A_ROW = 4  # numbers


def table(name: str, rounding: Callable[[Real], float], constant: dict[str, list[float]], n: str) -> None:
    print(f"{name}: dict[str, tuple[float, ...]] = {{")
    for key, fit in FITS.items():
        out, error = fitted(fit, getattr(fit, n), rounding)
        show(key, out, f"  # 2**{float(mp.log(error, 2)):.1f}")
    for key, out in constant.items():
        show(key, out, "")
    print("}")


def show(key: str, numbers: Sequence[float], comment: str) -> None:
    words = [c.hex() for c in numbers]
    rows = [" ".join(words[k : k + IN_A_ROW]) for k in range(0, len(words), IN_A_ROW)]
    if len(rows) == 1 and not comment:
        print(f'    "{key}": numbers("{rows[0]}"),')
        return
    print(f'    "{key}": numbers({comment}')
    for row in rows[:-1]:
        print(f'        "{row} "')
    print(f'        "{rows[-1]}"),')


def main(only: Sequence[str]) -> None:
    if only:
        for key in only:
            for count, rounding in ((FITS[key].n64, to_f64), (FITS[key].n32, to_f32)):
                out, error = fitted(FITS[key], count, rounding)
                print(f"{key} {count}: 2**{float(mp.log(error, 2)):.1f}", *(c.hex() for c in out))
        return
    print(HEADER, end="")
    print("# fmt: off")
    table("F64", to_f64, constants(to_f64, 11, 53), "n64")
    table("F32", to_f32, constants(to_f32, 8, 24), "n32")
    with mp.workprec(1400):
        bits = int(mp.floor(mp.ldexp(1 / (2 * mp.pi), 1280)))
    print("\n# the first 1,280 bits of 1/(2 pi) after the point")
    print("INVERSE_TURN = int(")
    text = f"{bits:0320x}"
    for i in range(0, len(text), 80):
        print(f'    "{text[i : i + 80]}"')
    print("    , 16)")
    print("# fmt: on")


if __name__ == "__main__":
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "only", nargs="*", choices=[*FITS, []], metavar="function", help=f"one of {', '.join(FITS)}"
    )
    main(options.parse_args().only)
