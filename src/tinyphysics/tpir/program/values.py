"""What does each instruction make of its operands?  One node, which the virtual machine, proofs, kernels and precisions read.

A wrong one is wrong everywhere alike, so each has numbers worked out by hand in test/unit/test_isa_rows.py. The functions
here see an instruction through `Operands`, and are the entries of a column of the table in isa.py.
"""

from __future__ import annotations

from typing import Any, Protocol

from tinyphysics.errors import VerifyError
from tinyphysics.ir.dtype import DType, f64, i64
from tinyphysics.ir.ops import ARITY, COMPARE, DRAWN, ELEMENTWISE, MOVEMENT, ORBITS, Ops
from tinyphysics.ir.uop import Shape, UOp
from tinyphysics.ir.value import CUSTOM
from tinyphysics.ir.vectors import cross
from tinyphysics.rules.calculus.partials import partials, times
from tinyphysics.rules.digits.double_double import time_words
from tinyphysics.rules.formulas.relativity import NAME as RELATIVISTIC
from tinyphysics.rules.functions.random import drawn
from tinyphysics.util import did_you_mean, one_of, plural

assert RELATIVISTIC, "registered, so that a listing may name it"

# by which names instructions call the operations of the graph
FUNCTIONS: dict[str, Ops] = {
    op.value: op
    for op in Ops
    if op not in ORBITS | {Ops.FOURIER, Ops.ELLIPTIC, Ops.MESH, Ops.KEPLER_SLOW, Ops.WHERE_RARELY, Ops.LINE}
} | {"sq": Ops.MUL}
REDUCTIONS = {"SUM": "sum", "DOT": "dot", "PAIRS": "pairs", "MAX": "max", "MIN": "min"}
FRAMES = ("positions", "velocities", "places", "momenta")
WAYS = ("times", "over")
LISTED = ("order", "inverse", "images")
MOVES = MOVEMENT | {Ops.RANGE}
KNOWN = {
    kind: {name: None for name, op in FUNCTIONS.items() if op in ops}
    for kind, ops in (("ELEM", ELEMENTWISE), ("MOVE", MOVES))
}  # functions, by the instruction that names them


class Operands(Protocol):
    """An instruction with its operands as nodes: expressions of the states, or variables that a machine has slots for."""

    @property
    def where(self) -> str: ...  # for errors
    @property
    def op(self) -> str: ...
    @property
    def args(self) -> tuple[Any, ...]: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def shape(self) -> Shape: ...
    @property
    def own(self) -> UOp:
        """What the destination holds before."""
        ...

    def read(self, k: int, dtype: DType | None = None, shape: Shape | None = None) -> UOp:
        """Operand k; where it is a number, in this type, or in that of the destination."""
        ...

    def made(self, u: UOp) -> UOp:
        """u, if it fits together."""
        ...

    def usage(self, op: str) -> str: ...
    def time(self) -> UOp: ...
    def address(self) -> tuple[UOp, ...]:
        """What random numbers are addressed by: two words of the seed, the step, the member."""
        ...


def source(o: Operands) -> UOp:
    return o.read(0)


def function(o: Operands) -> UOp:
    return applied(o, str(o.args[0]), list(range(1, len(o.args))))


def applied(o: Operands, name: str, src: list[int]) -> UOp:
    """A function of some of the operands."""
    kind = "MOVE" if o.op == "MOVE" else "ELEM"
    arg: Any = None
    if src and isinstance(o.args[src[-1]], tuple):
        arg = o.args[src.pop()]
    if kind == "ELEM" and name.removeprefix("custom.") in CUSTOM:
        op, arg = Ops.CUSTOM, name.removeprefix("custom.")
    elif name in KNOWN[kind]:
        op = FUNCTIONS[name]
    else:
        raise VerifyError(
            f"{o.where} uses the unknown function `{name}`",
            fix=f"{did_you_mean(name, KNOWN[kind])}{kind} knows {', '.join(KNOWN[kind])}.",
        )
    if name == "sq":
        src = src * 2
    if len(src) != ARITY.get(op, max(len(src), 1)):
        raise VerifyError(
            f"{o.where} gives `{name}` {plural(len(src), 'source')}",
            fix=f"It takes {ARITY.get(op, 'some')}: {o.usage(kind)}.",
        )
    if op in (Ops.CONCAT, Ops.ELEMENT) and isinstance(arg, tuple):
        arg = arg[0]
    dtype, shape = o.dtype, o.shape
    if op in COMPARE:  # a constant has the type of what it is compared with; two constants are plain numbers
        compared = next((o.read(k) for k in src if not isinstance(o.args[k], float)), None)
        dtype, shape = (f64, shape) if compared is None else (compared.dtype, compared.shape)
    if op is Ops.STACK:  # puts scalars together
        shape = ()
    return o.made(UOp(op, o.dtype, o.shape, tuple(o.read(k, dtype, shape) for k in src), arg))


def multiply_add(o: Operands) -> UOp:
    return o.made(UOp(Ops.FMA, o.dtype, o.shape, (o.read(0), o.read(1), o.read(2))))


def dotted(o: Operands) -> UOp:
    return o.made(UOp(Ops.REDUCE, o.dtype, o.shape, (o.read(0), o.read(1)), ("dot", *o.args[2:])))


def reduced(o: Operands) -> UOp:
    return o.made(UOp(Ops.REDUCE, o.dtype, o.shape, (o.read(0),), (REDUCTIONS[o.op], *o.args[1:])))


def transformed(o: Operands) -> UOp:
    return o.made(UOp(Ops.FOURIER, o.dtype, o.shape, (o.read(0), o.read(1)), o.args[2]))


def elliptic(o: Operands) -> UOp:
    n = len(o.shape)
    *sources, tolerance, numbers = range(len(o.args))
    src = tuple(o.read(k, shape=o.shape if k in (0, n + 2) else ()) for k in sources)
    return o.made(UOp(Ops.ELLIPTIC, o.dtype, o.shape, src, (o.args[tolerance], o.args[numbers])))


def meshed(o: Operands) -> UOp:
    order, *numbers = o.args[3]
    arg = (str(o.args[0]), order, tuple(numbers[:3]), tuple(numbers[3:]))
    return o.made(UOp(Ops.MESH, o.dtype, o.shape, (o.read(1), o.read(2)), arg))


def listed(o: Operands) -> UOp:
    what, number = str(o.args[0]), o.args[-1]
    if what not in LISTED:
        raise VerifyError(f"{o.where} asks a list for `{what}`", fix=f"It gives {one_of(LISTED)}.")
    q = o.read(1)
    rest = (o.read(k, q.dtype, ()) for k in range(2, len(o.args) - 1))
    return o.made(UOp(Ops.NEIGHBOURS, o.dtype, o.shape, (q, *rest), (what, *number)))


def tree(o: Operands) -> UOp:
    one, *bars = (o.shape, *([(*o.shape[:1], 3)] if len(o.args) > 4 else []))
    first = (o.read(0, shape=bars[0] if bars else one), o.read(1, shape=o.shape[:1]), o.read(2, shape=()))
    sources = (*first, *(o.read(3, shape=shape) for shape in bars))
    return o.made(UOp(Ops.TREE, o.dtype, o.shape, sources, o.args[-1:]))


def line(o: Operands) -> UOp:
    n, _, *rest = o.shape if len(o.shape) > 2 else (0, 0)
    square = (n, n, *rest)
    sources = tuple(o.read(k, o.dtype, square) for k in range(3))
    return o.made(UOp(Ops.LINE, o.dtype, o.shape, (*sources, o.read(3)), tuple(o.args[4])))


def jacobi(o: Operands) -> UOp:
    way = str(o.args[0])
    if way not in FRAMES:
        raise VerifyError(f"{o.where} goes the way `{way}`", fix=f"The way is {one_of(FRAMES)}.")
    src = (o.read(1), o.read(2, shape=o.shape[:1]))
    return o.made(UOp(Ops.JACOBI, o.dtype, o.shape, src, (way, *o.args[3])))


def kepler(o: Operands) -> UOp:
    src = (o.read(0), o.read(1), o.read(2, shape=o.shape[:1]), o.read(3, shape=()))
    return o.made(UOp(Ops.KEPLER, o.dtype, o.shape, src, o.args[4]))


def kepler_along(o: Operands) -> UOp:
    orbit = (o.read(0), o.read(1), o.read(2, shape=o.shape[:1]), o.read(3, shape=()))
    way = (o.read(4, shape=o.shape), o.read(5, shape=o.shape), o.read(6, shape=o.shape[:1]))
    return o.made(UOp(Ops.KEPLER_ALONG, o.dtype, o.shape, (*orbit, *way), o.args[7]))


def pull(o: Operands) -> UOp:
    src = (o.read(0), o.read(1), o.read(2, shape=o.shape[:1]))
    return o.made(UOp(Ops.PERTURBATION, o.dtype, o.shape, src))


def flow(o: Operands) -> UOp:
    return -o.read(0) if str(o.args[1]) == "negate" else o.read(0)


def crossed(o: Operands) -> UOp:
    """The vector product, row by row."""
    a, b = o.read(0), o.read(1)
    if a.shape[-1:] != (3,) or a.shape != b.shape:
        raise VerifyError(
            f"{o.where} multiplies shapes {a.shape} and {b.shape}", fix="Both have a last axis of length 3."
        )
    return cross(a, b)


def moved(o: Operands) -> UOp:
    f = o.read(0)
    return f.fma(o.read(1).expand(f.shape), o.own)


def scaled(o: Operands) -> UOp:
    """The factor is one number, or one for each of the destination's."""
    u, way = o.own, str(o.args[0])
    if way not in WAYS:
        raise VerifyError(f"{o.where} goes the way `{way}`", fix=f"The way is {one_of(WAYS)}.")
    factor = o.read(1, shape=())
    if factor.shape not in ((), o.shape):
        raise VerifyError(
            f"{o.where} has a factor of shape {factor.shape}",
            fix=f"It is one number, or of shape {o.shape}.",
        )
    return u * factor.expand(u.shape) if way == "times" else u / factor.expand(u.shape)


def slope(u: UOp, k: int, name: str) -> UOp | None:
    """d u/d source k, None where it is zero; `sq` names its source once and uses it twice."""
    return 2.0 * u.src[0] if name == "sq" else partials(u)[k]


def accumulated(o: Operands) -> UOp:
    name, k, count = str(o.args[1]), o.args[2], len(o.args) - 3
    of = applied(o, name, list(range(3, len(o.args))))
    if k not in range(count):
        raise VerifyError(f"{o.where} asks for source {k:g} of {count}", fix="Sources count from 0.")
    d, old = slope(of, int(k), name), o.own
    if d is None:
        return old
    more = times(o.read(0), d)
    return o.made(more.src[0].fma(more.src[1], old) if more.op is Ops.MUL else old + more)  # rounded once


def noise(o: Operands) -> UOp:
    kind, numbers = str(o.args[0]), o.args[2]
    if kind not in DRAWN or len(numbers) != 2:
        raise VerifyError(
            f"{o.where} draws `{kind}` with {numbers}",
            fix=f"The kind is {one_of(DRAWN)}, the numbers are (stream, count).",
        )
    return o.made(drawn(kind, numbers, o.dtype, o.read(1, i64), o.address()))


def instant(n: UOp, dt: UOp, t0: UOp, dtype: DType, c: Any, e: Any = None, word: object = None) -> UOp:
    """t0 + (n + c)*dt, in float64, which counts further than any state needs, and rounded then; or a word of two."""
    if e is None:
        steps = n if not isinstance(c, UOp) and c == 0 else n + c
        return steps.fma(dt, t0).cast(dtype)
    t = time_words(n, n.lift(c), n.lift(e), dt, t0)
    return t.high if str(word) == "high" else t.rest
