"""A graph as a physicist would write it: for messages and reports, not for reading back."""

from __future__ import annotations

from typing import Any

from tinyphysics.ir.indexed import TERM, indexed_sum
from tinyphysics.ir.ops import CHOSEN, COMPARE, Ops

LONGEST = 400  # characters; what is longer is cut with an ellipsis

SYMBOL = {  # Python's precedence: & and | bind tighter than a comparison
    Ops.EQ: ("==", 1),
    Ops.NE: ("!=", 1),
    Ops.LT: ("<", 1),
    Ops.LE: ("<=", 1),
    Ops.OR: ("|", 2),
    Ops.AND: ("&", 3),
    Ops.ADD: ("+", 4),
    Ops.SUB: ("-", 4),
    Ops.MUL: ("*", 5),
    Ops.DIV: ("/", 4.9),
    Ops.FLOORDIV: ("//", 4.9),
    Ops.MOD: ("%", 4.9),
    Ops.SAR: (">>", 3.5),
    Ops.POW: ("**", 7),
}
ATOM = 9


def number(x: Any) -> str:
    return str(int(x)) if isinstance(x, float) and x.is_integer() and abs(x) < 1e16 else repr(x)


def infix(u: Any) -> str:
    """u in Python's notation; broadcasting and reshaping are left to the reader.

    >>> from tinyphysics.ir import UOp
    >>> q = UOp.var("q", (2,))
    >>> str((q * q).sum() / 2 - q[1])
    'sum(q*q)/2 - q[1]'
    """
    return _infix(u)[0]


def _infix(u: Any) -> tuple[str, float]:
    memo: dict[int, tuple[str, float]] = {}
    stack = [u]
    while stack:
        x = stack[-1]
        missing = [s for s in x.src if id(s) not in memo]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        shown = (x.src[0], *map(written, x.src[1:])) if x.op in CHOSEN else x.src
        text, level = _render(x, [memo[id(s)] for s in shown])
        memo[id(x)] = (text, level) if len(text) <= LONGEST else ("(...)", ATOM)
    return memo[id(u)]


def written(i: Any) -> Any:
    """The index that the user wrote, below what makes a place of it (ir/uop.py, `places`)."""
    while i.op in (Ops.EXPAND, Ops.RESHAPE):
        i = i.src[0]
    if i.op is Ops.WHERE and i.src[0].op is Ops.LT and i.src[1].op is Ops.ADD:
        i = i.src[2]
    if i.op is Ops.WHERE and i.src[0].op is Ops.EQ and i.src[1].op is Ops.CAST:
        i = i.src[0].src[1]
    return i


def is_distance(u: Any) -> bool:
    """The squared distance of neighbours, as front/neighbours.py makes it."""
    square = u.src[0]
    if (
        u.arg[0] != "sum"
        or u.arg[1] != (2,)
        or square.op is not Ops.MUL
        or square.src[0] is not square.src[1]
    ):
        return False
    apart = square.src[0]
    return apart.op in (Ops.IMAGE, Ops.SUB) and any(_in_order(s) for s in apart.src[:2])


def _in_order(u: Any) -> bool:
    while u.op in (Ops.EXPAND, Ops.RESHAPE):
        u = u.src[0]
    return bool(u.op is Ops.GATHER and u.src[1].op is Ops.NEIGHBOURS)


def _wrap(part: tuple[str, float], level: float) -> str:
    return f"({part[0]})" if part[1] < level else part[0]


def _subscript(bounds: Any, shape: tuple[int, ...]) -> str:
    def one(start: int, stop: int, step: int, n: int) -> str:
        if stop - start == 1:
            return str(start)
        ends = f"{start or ''}:{'' if stop == n else stop}"
        return ends if step == 1 else f"{ends}:{step}"

    found = [one(b[0], b[1], b[2], n) for b, n in zip(bounds, shape)]
    while len(found) > 1 and found[-1] == ":":
        found.pop()
    return ", ".join(found)


def _shifts(u: Any) -> str:
    """By how much an array is rolled: the shorter way round, and along which axis where there are several."""

    def one(shift: int, axis: int) -> str:
        n = u.shape[axis]
        least = shift % n if 2 * (shift % n) <= n else shift % n - n
        return f"{least}" if u.ndim == 1 else f"{least} on {axis}"

    return ", ".join(one(s, a) for s, a in u.arg)


def _render(u: Any, src: list[tuple[str, float]]) -> tuple[str, float]:
    match u.op:
        case Ops.CONST:
            return number(u.arg), ATOM if not str(u.arg).startswith("-") else 6
        case Ops.VAR:
            return u.arg, ATOM
        case Ops.RANGE:
            return f"range({u.shape[0]})", ATOM
        case Ops.EXPAND | Ops.RESHAPE | Ops.CAST:
            return src[0]
        case Ops.NEG:
            return f"-{_wrap(src[0], 6)}", 6
        case Ops.SLICE:
            return f"{_wrap(src[0], ATOM)}[{_subscript(u.arg, u.src[0].shape)}]", ATOM
        case Ops.ELEMENT:
            if u.src[0].ndim == 1:
                return f"{_wrap(src[0], ATOM)}[{u.arg}]", ATOM
            left, where = u.arg, []
            for n in reversed(u.src[0].shape):
                left, i = divmod(left, n)
                where.append(str(i))
            return f"{_wrap(src[0], ATOM)}[{', '.join(reversed(where))}]", ATOM
        case Ops.STACK | Ops.CONCAT:
            return f"[{', '.join(s[0] for s in src)}]", ATOM
        case Ops.REDUCE if is_distance(u):
            return "r2", ATOM
        case Ops.TRIU if len(u.arg) > 2 and u.src[0].op is Ops.WHERE:  # what lies beyond a cutoff is left out
            return f"near({infix(u.src[0].src[1])})", ATOM
        case Ops.REDUCE if (
            u.src[0].op is Ops.TRIU and len(u.src[0].arg) > 2 and u.src[0].src[0].op is Ops.WHERE
        ):
            return f"sum_{{near pairs}} {_wrap(_infix(u.src[0].src[0].src[1]), TERM + 0.4)}", TERM
        case Ops.REDUCE if (sum_ := indexed_sum(u, _render)) is not None:
            return sum_
        case Ops.REDUCE:
            kind, axes, *_ = u.arg
            axis = "" if len(axes) == u.src[0].ndim else f", axis={axes if len(axes) > 1 else axes[0]}"
            return f"{kind}({', '.join(s[0] for s in src)}{axis})", ATOM
        case Ops.ROLL:
            return f"roll({src[0][0]}, {_shifts(u)})", ATOM
        case Ops.NEIGHBOURS if u.arg[0] == "images2":
            return "r2", ATOM
        case Ops.NEIGHBOURS if u.arg[0] == "image_sum":
            return (
                f"sum_{{all images}} {_wrap(src[3], ATOM)}*{src[2][0]}[i]*{src[2][0]}[j]*{u.arg[2]}(r)",
                TERM,
            )
        case Ops.NEIGHBOURS:
            return f"{u.arg[0]}({src[0][0]})", ATOM
        case Ops.GATHER if u.src[1].op is Ops.NEIGHBOURS:
            return src[0]
        case Ops.GATHER:
            return f"{_wrap(src[0], ATOM)}[{', '.join(s[0] for s in src[1:])}]", ATOM
        case Ops.FOURIER:
            name = "fft" if u.arg[1] < 0 else f"{u.shape[u.arg[2]]}*ifft"
            inside = (
                src[0][0] if u.src[1].op is Ops.CONST and not u.src[1].arg else f"{src[0][0]}, {src[1][0]}"
            )
            return f"{name}({inside}).{'imag' if u.arg[0] else 'real'}", ATOM
        case Ops.MESH:
            return f"{u.arg[0]}({', '.join(s[0] for s in src)})", ATOM
        case Ops.ELLIPTIC:
            return f"poisson({src[0][0]})", ATOM
        case Ops.PERMUTE | Ops.FLIP | Ops.PAD:
            return f"{u.op.value}({src[0][0]})", ATOM
        case Ops.RANDOM:
            return f"{u.arg[0]}({'' if not u.shape else u.shape[0] if u.ndim == 1 else u.shape})", ATOM
        case Ops.SOLVE | Ops.SOLVED:
            return f"{u.op.value}({src[0][0]}, ...)", ATOM
        case Ops.CUSTOM:
            return f"{u.arg}({', '.join(s[0] for s in src)})", ATOM
    if u.op in (Ops.EQ, Ops.NE) and src[0] == src[1] and src[0][0].startswith("range("):  # row and column
        return ("~" if u.op is Ops.NE else "") + src[0][0].replace("range", "eye"), ATOM
    if u.op in SYMBOL:
        sign, level = SYMBOL[u.op]
        left_level, right_level = level, level + 0.5 * (u.op in (Ops.SUB, Ops.FLOORDIV, Ops.MOD, Ops.SAR))
        if u.op in (Ops.MUL, Ops.DIV):  # a/b*c reads from the left; a*(b/c) and a/(b*c) need brackets
            left_level, right_level = 4.9, 5 if u.op is Ops.MUL else 6
        if u.op is Ops.POW:
            left_level, right_level = level + 1, level - 1
        if u.op in COMPARE:  # a < b == c would be a chain
            left_level = right_level = level + 1
        gap = " " if level <= 4 else ""
        return f"{_wrap(src[0], left_level)}{gap}{sign}{gap}{_wrap(src[1], right_level)}", level
    return f"{u.op.value}({', '.join(s[0] for s in src)})", ATOM
