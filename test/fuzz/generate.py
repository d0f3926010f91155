"""Random expressions with every operation, random Hamiltonians, and the numbers to try them on."""

from __future__ import annotations

import random

from tinyphysics.ir import UOp, f32, f64
from tinyphysics.ir.dtype import DType

UNARY = [
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "exp",
    "expm1",
    "log",
    "log1p",
    "sqrt",
    "rsqrt",
    "cbrt",
    "erf",
    "sign",
    "floor",
    "__neg__",
    "__abs__",
]
BINARY = ["__add__", "__sub__", "__mul__", "__truediv__", "__pow__", "atan2", "hypot", "minimum", "maximum"]
CONSTANTS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, 1e-3, 1e9, 1e-300, 1e300, 5e-324, 0.1, 7.25]
NASTY = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0**31,
    -(2.0**40),
    1e-310,
    1e308,
    float("inf"),
    float("-inf"),
    float("nan"),
    3.141592653589793,
    1e22,
    1.5707963267948966,
]


def expression(rng: random.Random, size: int, dtype: DType = f64) -> tuple[list[UOp], UOp]:
    """(its variables, a random scalar graph of about `size` operations)."""
    variables = [UOp.var(f"x{k}", (), dtype) for k in range(3)]
    pool = [*variables, *(UOp.const(rng.choice(CONSTANTS), dtype) for _ in range(2))]
    for _ in range(size):
        a, b, c = (rng.choice(pool[-6:] + variables) for _ in range(3))
        kind = rng.random()
        if kind < 0.4:
            new = getattr(a, rng.choice(UNARY))()
        elif kind < 0.8:
            new = getattr(a, rng.choice(BINARY))(b)
        elif kind < 0.9:
            new = a.fma(b, c)
        else:
            test = rng.choice([a < b, a <= b, a.eq(b), a.ne(b)])
            new = test.where(b, c)
        pool.append(new)
    return variables, pool[-1]


def numbers(rng: random.Random, count: int, dtype: DType = f64) -> list[list[float]]:
    """Values for three variables: ordinary, nasty, and of every magnitude."""
    limit = 30 if dtype is f32 else 300

    def one() -> float:
        kind = rng.random()
        if kind < 0.5:
            return rng.gauss(0, 2)
        if kind < 0.75:
            return rng.choice(NASTY)
        return rng.choice([-1, 1]) * rng.random() * 10.0 ** rng.randint(-limit, limit)

    return [[one() for _ in range(3)] for _ in range(count)]


def potential(rng: random.Random, q: UOp) -> UOp:
    """A random smooth potential of an array of positions."""
    out = (q * q).sum() / 2
    for _ in range(rng.randint(1, 4)):
        i, j = rng.randrange(q.size), rng.randrange(q.size)
        x, y = q[i], q[j]
        out = (
            out
            + rng.choice(
                [
                    lambda: rng.uniform(-1, 1) * x.sin() * y.cos(),
                    lambda: (-(x * x) - y * y).exp(),
                    lambda: (2.0 + x * x).log() * y,
                    lambda: 1.0 / (1.5 + (x - y) * (x - y)).sqrt(),
                    lambda: (1.0 + x * x) ** rng.choice([0.5, 1.5, 2.0, 1.3, -1.0, -2.5]),
                    lambda: x.tanh() * rng.uniform(-2, 2),
                    lambda: (x < y).where(x * x, y * y * y),
                    lambda: x * x * y - y**3 / 3,
                ]
            )()
        )
    return out
