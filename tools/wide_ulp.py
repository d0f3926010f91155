"""How wrong is each elementary function of pairs of float64 at worst, in units of 2**-104 of its value?

    PYTHONPATH=src python tools/wide_ulp.py                     # every function against mpmath: a table
    PYTHONPATH=src python tools/wide_ulp.py sin --count 10000   # one of them, more points

The high words are the points of tools/ulp.py, the low ones anything that may stand after them. Where a function crosses
zero far from 0, or a word is subnormal, the error is counted as `allowed` says.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import mpmath as mp

sys.path.insert(0, str(Path(__file__).parent))
import ulp  # noqa: E402
from tinyphysics.ir import UOp, f64, graph_rewrite  # noqa: E402
from tinyphysics.rules.digits.double_double import Pair  # noqa: E402
from tinyphysics.rules.digits.double_double_functions import BOUNDS  # noqa: E402
from tinyphysics.rules.functions.transcendental import lower  # noqa: E402
from tinyphysics.rules.functions.widen import widen  # noqa: E402
from tinyphysics.rules.identities.exact import exact  # noqa: E402
from tinyphysics.tpir.program.vm import Expression  # noqa: E402

NAMES = ("x", "x.low", "y", "y.low")
UNIT = mp.mpf(2) ** -104
PERIODIC = ("sin", "cos", "tan")
BY_PRODUCTS = (
    "add",
    "mul",
    "div",
    "sqrt",
    "rsqrt",
    "atan2",
)  # what is left of a product below 2**-900 underflows
Words = tuple[float, float]


@lru_cache(maxsize=64)
def compiled(name: str) -> Expression:
    """A function of two pairs as float64 operations; it gives two words."""
    x, y = UOp.var("x"), UOp.var("y")
    known = {v: Pair(v, UOp.var(f"{v.arg}.low")) for v in (x, y)}
    u = (
        x + y
        if name == "add"
        else x * y
        if name == "mul"
        else x / y
        if name == "div"
        else ulp.graph(name, f64)
    )
    (pair,) = widen([u], known)
    assert isinstance(pair, Pair)
    return Expression(graph_rewrite(lower(graph_rewrite([pair.high, pair.rest], exact)), exact), NAMES)


def second(high: float, draw: random.Random) -> float:
    """A word that may follow this one: at most half of its last place."""
    low = draw.uniform(-0.5, 0.5) * math.ulp(high) if abs(high) > 2.0**-900 else 0.0
    return low if high + low == high and draw.random() < 0.9 else 0.0


def points(name: str, count: int) -> list[tuple[Words, ...]]:
    draw = random.Random(name)
    columns = ulp.points(name if name in ulp.REFERENCE else "hypot", f64, count)
    rows = [[float(v) for v in row] for row in zip(*columns)]
    draw.shuffle(rows)
    least = 2.0**-900 if name in BY_PRODUCTS else 0.0
    good = [row for row in rows if all(math.isfinite(v) and (v == 0 or abs(v) > least) for v in row)][:count]
    return [tuple((h, second(h, draw)) for h in row) for row in good]


def value(w: Sequence[float]) -> mp.mpf:
    return mp.mpf(w[0]) + mp.mpf(w[1])


def reference(name: str, *x: mp.mpf) -> mp.mpf:
    plain = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b if b else mp.nan}
    return mp.mpmathify((plain | ulp.REFERENCE)[name](*x))


def allowed(name: str, x: Sequence[mp.mpf], y: mp.mpf) -> mp.mpf:
    """What one unit is: 2**-104 of the value, or of a large angle, or of the logarithm of a large power."""
    size = abs(y)
    if name in PERIODIC and abs(x[0]) > 1:
        size = 1 + y * y if name == "tan" else mp.mpf(1)
    if name == "pow" and x[0] > 0:
        size *= 1 + abs(x[1] * mp.log(x[0]))
    return size * UNIT + mp.mpf(2) ** -1070


def worst(name: str, count: int) -> tuple[float, tuple[Words, ...]]:
    """(the largest error in units, where)."""
    f, found, where = compiled(name), 0.0, ()
    with mp.workprec(1400 if name in PERIODIC else 400):
        for at in points(name, count):
            x = [value(w) for w in at]
            try:
                y = reference(name, *x)
            except (ValueError, ZeroDivisionError):
                continue
            if not mp.isfinite(y) or mp.im(y) or not 2.0**-960 < abs(y) < 2.0**1000 and y:
                continue
            words = f(*(w for pair in at for w in pair))
            if not all(map(math.isfinite, words)):
                if name in ("add", "mul", "div") and max(abs(v) for v in x) > mp.mpf(2) ** 960:
                    continue
                return math.inf, at
            error = float(abs(value(words) - y) / allowed(name, x, y))
            if error > found:
                found, where = error, at
    return found, where


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=list(BOUNDS))
    parser.add_argument("--count", type=int, default=2000)
    args = parser.parse_args()
    for name in args.names:
        error, at = worst(name, args.count)
        print(
            f"{name:6} {error:8.3f}  bound {BOUNDS[name]:4}  {len(compiled(name).work):5} operations  {at}",
            flush=True,
        )


if __name__ == "__main__":
    main()
