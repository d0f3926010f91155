"""What is the value of an expression in many digits?  Scalar graphs by mpmath, solutions of equations among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import not_, truediv
from typing import Any

from tinyphysics.errors import BackendError
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.ir.ops import FUNCTIONS
from tinyphysics.ir.value import COMPARISON, RING
from tinyphysics.rules.calculus.solve import equations, part

MOST_ROUNDS = 400  # of a solution


def arithmetic() -> Any:
    try:
        import mpmath
    except ImportError:
        raise BackendError("measuring a Jacobian needs mpmath", fix="pip install mpmath") from None
    return mpmath


def functions_of(mp: Any) -> dict[Ops, Any]:
    """Every operation on scalars, in the working precision."""
    by_name = FUNCTIONS - {Ops.RSQRT} | {Ops.SIGN, Ops.FLOOR, Ops.ATAN2, Ops.HYPOT}
    own = {op: getattr(mp, op.value) for op in by_name} | arcs_of(mp)
    return (
        RING
        | COMPARISON
        | own
        | {
            Ops.ABS: abs,
            Ops.RSQRT: lambda x: 1 / mp.sqrt(x),
            Ops.DIV: truediv,
            Ops.POW: mp.power,
            Ops.MIN: min,
            Ops.MAX: max,
            Ops.FMA: lambda a, b, c: a * b + c,
            Ops.WHERE: lambda c, a, b: a if c else b,
            Ops.CAST: lambda x: x,
            Ops.AND: lambda a, b: a and b,
            Ops.OR: lambda a, b: a or b,
            Ops.NOT: not_,
        }
    )


def arcs_of(mp: Any) -> dict[Ops, Any]:
    """The flow of an oscillator, as ir/harmonic.py says it."""

    def angle(a: Any, b: Any, h: Any) -> tuple[Any, Any, Any]:
        """(h sin(x)/x, cos(x), sin(x)/x) with x = sqrt(a b) h, which may be imaginary."""
        x = mp.sqrt(a * b) * h
        ratio = mp.re(mp.sin(x) / x) if x else mp.mpf(1)
        return h * ratio, mp.re(mp.cos(x)), ratio

    def sign(a: Any, b: Any, h: Any) -> Any:
        return mp.mpf(-1 if angle(a, b, h)[1] < 0 else 1)

    def kick(a: Any, b: Any, h: Any) -> Any:
        return sign(a, b, h) * angle(a, b, h)[0]

    def lag(a: Any, b: Any, h: Any) -> Any:
        return (1 - angle(a, b, h)[2]) / b if b else a * h * h / 6

    return {
        Ops.HARMONIC_SIGN: sign,
        Ops.HARMONIC_KICK: kick,
        Ops.HARMONIC_LAG: lag,
        Ops.HARMONIC_DRIFT: lambda a, b, h: kick(a, b, h) / (1 + abs(angle(a, b, h)[1])),
    }


def precise(roots: Sequence[UOp], env: Mapping[UOp, Any], mp: Any) -> list[Any]:
    """The values of scalar graphs in the working precision."""
    functions = functions_of(mp)
    values: dict[UOp, Any] = {}
    for u in toposort(roots):
        if u.op is Ops.CONST:
            values[u] = mp.mpf(u.arg)
        elif u.op is Ops.VAR:
            values[u] = mp.mpf(env[u])
        elif u.op is Ops.SOLVED:
            if part(u, -1) not in values:
                values[part(u, -1)] = precise_root(u, [values[s] for s in u.src], mp)
            values[u] = values[part(u, -1)][u.arg[0]]
        else:
            values[u] = functions[u.op](*(values[s] for s in u.src))
    return [values[r] for r in roots]


def precise_root(u: UOp, given: list[Any], mp: Any) -> list[Any]:
    """The unknowns of equations in the working precision: corrections until they are rounding there, too."""
    eq = equations(u)
    x, known = given[: eq.n], dict(zip(eq.given, given[2 * eq.n :]))
    last = mp.inf
    for _ in range(MOST_ROUNDS):
        found = precise(list(eq.corrections), dict(zip(eq.unknowns, x)) | known, mp)
        x = [a - c for a, c in zip(x, found)]
        size = sum(abs(c) * w for c, w in zip(found, given[eq.n : 2 * eq.n]))
        if not mp.isfinite(size) or size == 0 or size >= last and last < mp.mpf(2) ** -80:
            return x
        last = size
    return [mp.nan] * eq.n
