"""The backends torch and jax: a step as array code of that library, an operation for each node, members side by side.

Products and sums are rounded as the library does it, so results agree with those of other backends to a tolerance, not in
their bits: an independent opinion. JAX compiles the loop over the steps; torch runs it node by node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from tinyphysics.device.numbers import NUMPY_DTYPE
from tinyphysics.device.protocols import Parts
from tinyphysics.errors import BackendError
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.calculus.solve import STRAYED, part
from tinyphysics.rules.functions.rounds import BEFORE, FIRST, rounds_of
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import NOW, Section

Array = Any
NAMES = {"torch": "PyTorch", "jax": "JAX"}


@dataclass(frozen=True)
class Library:
    """What is written differently in the two."""

    np: Any  # its functions, by NumPy's names
    array: Callable[[Any], Array]
    cast: Callable[[Array, str], Array]
    view: Callable[[Array, str], Array]
    numpy: Callable[[Array], Any]
    loop: Callable[[Any, Callable[[Any, Any], Any], Any], Any]  # (count, body(k, carry), carry)
    compiled: Callable[[Any], Any]  # a function of arrays and numbers
    kept: Callable[[Array], Array]  # a sum as it was rounded: a compiler must not take (x + c) - c for x


@lru_cache(maxsize=2)
def library(name: str) -> Library:
    """An error with the line that installs it, where it is missing."""
    try:
        found = import_module(name)
    except ModuleNotFoundError:
        raise BackendError(
            f"the backend `{name}` needs {NAMES[name]}", fix=f'pip install "tinyphysics[{name}]"'
        ) from None
    return in_torch(found) if name == "torch" else in_jax(found)


def in_torch(torch: Any) -> Library:
    def loop(count: int, body: Any, carry: Any) -> Any:
        for k in range(count):
            carry = body(float(k), carry)
        return carry

    def kind(name: str) -> Any:
        return getattr(torch, str(np.dtype(NUMPY_DTYPE[name])))

    return Library(
        torch,
        lambda a: torch.from_numpy(np.array(a)),
        lambda a, name: a.to(kind(name)),
        lambda a, name: a.contiguous().view(kind(name)),
        lambda a: a.numpy(),
        loop,
        lambda f: f,
        lambda a: a,
    )


def in_jax(jax: Any) -> Library:
    if not jax.config.jax_enable_x64:
        raise BackendError(
            "the backend `jax` needs float64, which JAX has turned off",
            fix='Call jax.config.update("jax_enable_x64", True) first, or set JAX_ENABLE_X64=1.',
        )
    import_module("jax.numpy")

    def loop(count: Any, body: Any, carry: Any) -> Any:
        return jax.lax.fori_loop(0, count, lambda k, x: body(k * 1.0, x), carry)

    return Library(
        jax.numpy,
        lambda a: jax.numpy.asarray(np.array(a)),
        lambda a, name: a.astype(NUMPY_DTYPE[name]),
        lambda a, name: jax.lax.bitcast_convert_type(a, NUMPY_DTYPE[name]),
        np.array,
        loop,
        jax.jit,
        jax.lax.optimization_barrier,
    )


BINARY: dict[Ops, Callable[[Array, Array], Array]] = {
    Ops.MUL: lambda a, b: a * b,
    Ops.DIV: lambda a, b: a / b,
    Ops.LT: lambda a, b: a < b,
    Ops.LE: lambda a, b: a <= b,
    Ops.EQ: lambda a, b: a == b,
    Ops.NE: lambda a, b: a != b,
    Ops.AND: lambda a, b: a & b,
    Ops.OR: lambda a, b: a | b,
    Ops.XOR: lambda a, b: a ^ b,
    Ops.SAR: lambda a, b: a >> b,
}


def operation(lib: Library, u: UOp, a: Sequence[Array]) -> Array:
    match u.op:
        case Ops.FMA:
            return lib.kept(a[0] * a[1] + a[2])
        case Ops.ADD:
            return lib.kept(a[0] + a[1])
        case Ops.SUB:
            return lib.kept(a[0] - a[1])
        case Ops.SQRT:
            return lib.np.sqrt(a[0])
        case Ops.NEG:
            return -a[0]
        case Ops.NOT:
            return ~a[0]
        case Ops.WHERE:
            return lib.np.where(a[0], a[1], a[2])
        case Ops.CAST:
            return lib.cast(a[0], u.dtype.name)
        case Ops.BITCAST:
            return lib.view(a[0], u.dtype.name)
        case Ops.SHL:
            return a[0] << a[1]
        case Ops.SHR if u.dtype.name.startswith("i"):  # zeros come in from the left
            kept = (1 << (u.dtype.bits - 1)) - 1
            shifted = (a[0] >> a[1]) & (kept >> (a[1] - 1))
            return lib.np.where(a[1] > 0, shifted, a[0])
    if u.op not in BINARY:
        raise BackendError(
            f"`{u.op.value}` is not there in array code of other libraries", fix='Choose backend="numpy".'
        )
    return BINARY[u.op](a[0], a[1])


class Evaluator:
    """Some roots as a function of arrays, node by node."""

    def __init__(self, lib: Library, roots: Sequence[UOp], careful: bool = False) -> None:
        self.lib, self.order, self.roots, self.careful = lib, toposort(roots), roots, careful

    def __call__(self, env: dict[UOp, Array]) -> list[Array]:
        values = dict(env)
        for u in self.order:
            if u in values:
                continue
            if u.op is Ops.CONST:
                values[u] = self.lib.array(np.array([u.arg], NUMPY_DTYPE[u.dtype.name]))
            elif u.op is Ops.SOLVED:
                which, n, *_ = u.arg
                call = part(u, -1)
                if call not in values:
                    values[call] = self.solved(u, [values[s] for s in u.src])
                values[u] = values[call][which] != 0 if which == n + STRAYED else values[call][which]
            elif u.op is not Ops.VAR:
                values[u] = operation(self.lib, u, [values[s] for s in u.src])
        return [values[r] for r in self.roots]

    def solved(self, u: UOp, given: Sequence[Array]) -> list[Array]:
        """All that a solution gives: every member goes on until it has arrived, for as many rounds as there may be."""
        k, xp = rounds_of(u, self.careful), self.lib.np
        a = xp.broadcast_arrays(*given) if hasattr(xp, "broadcast_arrays") else xp.broadcast_tensors(*given)
        known = dict(zip((*k.scale, *k.given), a[k.n :]))
        one = Evaluator(self.lib, k.roots, self.careful)
        zero, none = a[0] * 0.0, a[0] != a[0]
        carry = (list(a[: k.n]), zero + FIRST, zero, zero, none, ~none)

        def again(_: Any, carry: Any) -> Any:
            x, before, left, count, seen, active = carry
            values = one(dict(zip(k.x, x)) | known | {BEFORE: before})
            new = [xp.where(active, v, old) for v, old in zip(values[: k.n], x)]
            now, residual, over, *guards = values[k.n :]
            for g in guards:
                seen = seen | active & g
            after = active & ~over
            return new, now + zero, xp.where(active, residual, left), count + active * 1.0, seen, after

        x, _, left, count, seen, active = self.lib.loop(k.most, again, carry)
        return [*(xp.where(active, zero + np.nan, v) for v in x), seen, count, left]


class LibraryLoader:
    """Sections as functions that take NumPy's arrays and compute with those of a library."""

    threads = by_address = False
    passage: Any = None
    quick = None
    made = found = 0

    def __init__(self, name: str) -> None:
        self.lib = library(name)

    def shape(self, section: Section, members: int) -> VectorShape:
        return VectorShape(1, 1)

    def load(
        self, parts: Parts, params: Sequence[UOp], varying: tuple[bool, ...], quick: bool = False
    ) -> list[Any]:
        return [self.one(f, params, varying) for f, _ in parts]

    def one(self, f: Section, params: Sequence[UOp], varying: tuple[bool, ...]) -> Any:
        if f.going is not None:
            raise BackendError(
                "array code of other libraries has steps of one length", fix='Choose backend="numpy".'
            )
        lib, section = self.lib, SectionCode(self.lib, f, params)
        advance, look = lib.compiled(section.advance), lib.compiled(section.look)

        def call(
            source: Array,
            out: Array,
            uniform: Array,
            own: Array,
            flags: Array,
            series: Array,
            begin: int,
            end: int,
            members: int,
            first: int,
            rows: int,
            stride: int,
        ) -> None:
            here = slice(begin, end)
            given = [lib.array(own[k, here] if v else uniform[k : k + 1]) for k, v in enumerate(varying)]
            state = [lib.array(source[k, here]) for k in range(len(f.loads))]
            carry: Any = (state, lib.array(np.zeros(end - begin, bool)))
            if not f.watched:
                carry = advance(given, carry, first, rows * stride)
            for j in range(rows if f.watched else 0):
                carry = advance(given, carry, first + j * stride, stride)
                values, seen = look(given, carry, first + (j + 1) * stride)
                for k, v in enumerate(values):
                    series[j, k, here] = lib.numpy(v)
                carry = (carry[0], seen)
            seen = lib.numpy(carry[1])
            flags[here] = seen
            for k, v in enumerate(carry[0]):
                out[k, here][~seen] = lib.numpy(v)[~seen]

        return call


class SectionCode:
    """A section as functions of what it is given, of its state, and of the number of the first step."""

    def __init__(self, lib: Library, f: Section, params: Sequence[UOp]) -> None:
        self.lib, self.f, self.params = lib, f, params
        self.once = Evaluator(lib, list(f.invariants.values()), f.careful)
        self.step = Evaluator(lib, [*f.roots, *f.guards], f.careful)
        self.tails = [(t.period, Evaluator(lib, [*t.roots, *t.guards], f.careful)) for t in f.tails]
        self.watched = Evaluator(lib, [*f.watched, *f.watched_guards], f.careful)
        self.weights = [Evaluator(lib, [row[k] for row in f.weights.values()]) for k in range(f.stages)]

    def known(self, given: Sequence[Array]) -> dict[UOp, Array]:
        env = {p: self.lib.cast(v, p.dtype.name) for p, v in zip(self.params, given)}
        return env | dict(zip(self.f.invariants, self.once(env)))

    def evaluated(self, e: Evaluator, env: dict[UOp, Array], n: Any, count: int, carry: Any) -> Any:
        state, seen = carry
        now = self.lib.array(np.zeros(1)) + n
        values = e(env | {NOW: now} | dict(zip(self.f.loads, state)))
        for g in values[count:]:
            seen = seen | g
        return [self.lib.np.broadcast_to(v, seen.shape) for v in values[:count]], seen

    def advance(self, given: Sequence[Array], carry: Any, first: Any, steps: Any) -> Any:
        f, env = self.f, self.known(given)
        if not f.loops:
            return self.evaluated(self.step, env, first, len(f.roots), carry)
        stages = [env | dict(zip(f.weights, w(env))) for w in self.weights]

        def body(i: Any, carry: Any) -> Any:
            for k, stage in enumerate(stages, 1):
                carry = self.evaluated(self.step, stage, first + i, len(f.roots), carry)
                for period, tail in self.tails:
                    if k % period == 0:
                        carry = self.evaluated(tail, stage, first + i, len(f.roots), carry)
            return carry

        return self.lib.loop(steps, body, carry)

    def look(self, given: Sequence[Array], carry: Any, n: Any) -> Any:
        return self.evaluated(self.watched, self.known(given), n, len(self.f.watched), carry)
