"""Loop nests by NumPy: the index space of a nest as arrays, node by node, exact to the last bit; slow."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinyphysics.device.host.arrays import operation
from tinyphysics.device.numbers import NUMPY_DTYPE
from tinyphysics.ir.dtype import DType
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import LANES, PAIR_LANES, identity, slabs
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.tpir.kernels.kernel import NOW
from tinyphysics.tpir.kernels.neighbours import FIRST
from tinyphysics.tpir.kernels.nests import LoopKernel, LoopSection, Nest, Piece, Round, Store
from tinyphysics.util import prod

Array = Any
CALL = ctypes.CFUNCTYPE(None)


AT_ONCE = 1 << 15  # pairs


class Interpreter:
    """One nest, on memory that a table of addresses points to."""

    def __init__(self, kernel: LoopKernel, nest: Nest) -> None:
        self.kernel, self.nest = kernel, nest
        self.slots = {name: k for k, name in enumerate(kernel.buffers)}

    def __call__(self, table: Array, uniform: Array, flags: Array, lo: int, hi: int, now: int) -> None:
        if lo > 0:  # all of a nest is done with its first part
            return
        used = {u.arg[0] for u in self.nest.loads()} | {s.buffer for p in self.nest.pieces for s in p.stores}
        self.table = table
        self.memory = {name: view(int(table[self.slots[name]]), self.kernel.buffers[name]) for name in used}
        env: dict[UOp, Array] = {
            p: np.array([uniform[k]], NUMPY_DTYPE[p.dtype.name]) for k, p in enumerate(self.kernel.params)
        }
        env[NOW] = np.array([float(now)])
        self.flags = flags
        if self.nest.kind == "pairs" and self.nest.near is not None:
            name = f"near{self.nest.near}."
            self.starts = view(int(table[self.slots[name + "starts"]]), self.kernel.buffers[name + "starts"])
            count = int(self.starts[self.nest.sizes[0]])
            address = int(table[self.slots[name + "blocks"]])
            self.blocks = np.ctypeslib.as_array((ctypes.c_int32 * count).from_address(address))
        with np.errstate(all="ignore"):
            self.nest.way.evaluate(self, env)

    def array(self, buffer: str) -> Array:
        """All numbers of a buffer, also of one that no expression reads."""
        return view(int(self.table[self.slots[buffer]]), self.kernel.buffers[buffer])

    def planes(self, buffer: str) -> Array:
        b = self.kernel.buffers[buffer]
        return self.array(buffer).reshape(b.planes, b.plane)

    def call(self, buffer: str) -> None:
        """The function whose address is in a buffer."""
        CALL(int(self.table[self.slots[buffer]]))()

    # --- values -------------------------------------------------------------------------------
    def place(self, buffer: str, plane: int, index: Sequence[Array]) -> Array:
        b = self.kernel.buffers[buffer]
        out = np.array([plane * b.plane])
        for k, i in enumerate(index):
            out = out + i * prod(b.axes[k + 1 :])
        return out

    def evaluate(self, roots: Sequence[UOp], env: Mapping[UOp, Array]) -> list[Array]:
        values = dict(env)
        for u in toposort(roots):
            if u in values:
                continue
            if u.op is Ops.CONST:
                values[u] = np.array([u.arg], NUMPY_DTYPE[u.dtype.name])
            elif u.op is Ops.LOAD:
                values[u] = self.memory[u.arg[0]][self.place(u.arg[0], u.arg[1], [values[s] for s in u.src])]
            else:
                values[u] = operation(u, [values[s] for s in u.src])
        return [values[r] for r in roots]

    def grid(self, p: Piece) -> dict[UOp, Array]:
        """The loop variables as arrays that broadcast against each other."""
        n = len(self.nest.sizes)
        out = {}
        for k, (v, size) in enumerate(zip(self.nest.variables, self.nest.sizes)):
            r = np.arange(p.lo, p.hi) if k == n - 1 else np.arange(size)
            out[v] = r.reshape([-1 if a == k else 1 for a in range(n)])
        return out

    def guards(self, p: Piece, env: Mapping[UOp, Array]) -> None:
        for g in self.evaluate(p.guards, env):
            if g.any():
                self.flags[0] = 1

    def combine(self, s: Store, a: Array, b: Array) -> Array:
        assert s.combine is not None
        if s.combine is Ops.ADD:
            return a + b
        x, y = UOp.var("a", (), s.value.dtype), UOp.var("b", (), s.value.dtype)
        return self.evaluate(lower([x.alu(s.combine, y)]), {x: a, y: b})[0]

    def join(self, s: Store, total: Array, env: Mapping[UOp, Array]) -> Array:
        """A sum with one more item, each in its place; a product joins it with one rounding where the store says so."""
        return self.with_term(s, total, self.factors(s, env))

    def factors(self, s: Store, env: Mapping[UOp, Array]) -> list[Array]:
        """A term: two factors of it where it joins its sum as a product, else itself."""
        if not s.joins:
            return self.evaluate([s.value], env)
        product = s.value.src if s.value.op is Ops.MUL else (s.value, UOp.const(1.0, s.value.dtype))
        return self.evaluate(product, env)

    def with_term(self, s: Store, total: Array, factors: Sequence[Array]) -> Array:
        """A sum with a term, given by its factors."""
        if not s.joins:
            return self.combine(s, total, factors[0])
        x = UOp.var("a", (), s.value.dtype)
        return operation(x.fma(x, x), [np.broadcast_to(v, total.shape) for v in (*factors, total)])

    def numbers(self, begin: int, end: int) -> Array:
        """The values of a variable that is summed over."""
        return np.arange(begin, end)

    def write(self, buffer: str, at: Array, value: Array, shape: Sequence[int]) -> None:
        self.memory[buffer][np.broadcast_to(at, shape)] = np.broadcast_to(value, shape)

    def blank(self, shape: Sequence[int], dtype: DType) -> Array:
        return np.zeros(shape, NUMPY_DTYPE[dtype.name])

    def nothing(self, s: Store, shape: Sequence[int]) -> Array:
        assert s.combine is not None
        return np.full(shape, identity(s.combine, s.value.dtype), NUMPY_DTYPE[s.value.dtype.name])

    def fold(self, s: Store, acc: Array) -> Array:
        """Lanes along the last axis, combined in halves."""
        while acc.shape[-1] > 1:
            half = acc.shape[-1] // 2
            acc = self.combine(s, acc[..., :half], acc[..., half:])
        return acc[..., 0]

    # --- kinds --------------------------------------------------------------------------------
    def join_lanes(self, s: Store, sums: Array, env: Mapping[UOp, Array], p: Piece) -> None:
        """The items of a piece of a long sum, each in its accumulator."""
        shape = [*self.nest.sizes[:-1], p.hi - p.lo]
        factors = [np.broadcast_to(v, shape) for v in self.factors(s, env)]
        at = p.lo
        while at < p.hi:
            first = at % LANES
            n = min(LANES - first, p.hi - at)
            here, items = slice(first, first + n), slice(at - p.lo, at - p.lo + n)
            sums[..., here] = self.with_term(s, sums[..., here], [v[..., items] for v in factors])
            at += n

    def add_in_order(self, stores: Sequence[Store], env: Mapping[UOp, Array], shape: Sequence[int]) -> None:
        """Items of one buffer where they belong, one after the other."""
        name = stores[0].buffer
        step = self.kernel.buffers[name].plane
        shifts = self.evaluate([s.shift for s in stores if s.shift is not None], env)
        places = [
            self.place(s.buffer, s.plane, self.evaluate(s.index, env)) + shift * step
            for s, shift in zip(stores, shifts)
        ]
        values = self.evaluate([s.value for s in stores], env)
        at, what = (np.stack([np.broadcast_to(a, shape) for a in x], -1).ravel() for x in (places, values))
        np.add.at(self.memory[name], at, what)  # one after the other, in this order

    def pairs(self, env: dict[UOp, Array]) -> None:
        (size,), (piece,) = self.nest.sizes, self.nest.pieces
        i_var, j_var = self.nest.variables
        cuts = slabs(size, self.nest.near is not None)
        for slab, (low, high) in enumerate(zip(cuts, cuts[1:])):
            columns = {}
            for s in piece.stores:
                if s.index[0] is j_var:
                    b = self.kernel.buffers[s.buffer]
                    begin = (slab * (b.planes // (len(cuts) - 1)) + s.plane) * b.plane
                    columns[s] = self.memory[s.buffer][begin : begin + size]
                    columns[s][:] = self.nothing(s, [size])
            rows = 1 if self.nest.near is not None else max(1, AT_ONCE // size)
            for i in range(low, high, rows):
                self.block(env, columns, np.arange(i, min(i + rows, high)))

    def block(self, env: dict[UOp, Array], columns: dict[Store, Array], rows: Array) -> None:
        """Some rows at once: what is no pair among them adds nothing."""
        (size,), (piece,) = self.nest.sizes, self.nest.pieces
        i_var, j_var = self.nest.variables
        js = self.partners(int(rows[0]), size)
        there = (js > rows[:, None]) & (js < size)
        if not len(js):  # rows without neighbours
            js, there = np.arange(PAIR_LANES), np.zeros((len(rows), PAIR_LANES), bool)
        here = env | {i_var: rows[:, None], j_var: np.minimum(js, size - 1)[None]}
        values = self.evaluate([s.value for s in piece.stores], here)
        for s, v in zip(piece.stores, values):
            x = np.where(there, v, self.nothing(s, [1]))
            if s in columns:
                inside = js < size
                own = js[inside]
                columns[s][own] = self.in_turn(s, np.concatenate([columns[s][None, own], x[:, inside]]))
                continue
            lanes = self.in_turn(s, np.moveaxis(x.reshape(len(rows), -1, PAIR_LANES), 1, 0))
            self.memory[s.buffer][self.place(s.buffer, s.plane, [rows])] = self.fold(s, lanes)
        for g in self.evaluate(piece.guards, here):
            if (g & there).any():
                self.flags[0] = 1

    def in_turn(self, s: Store, x: Array) -> Array:
        """Items along the first axis, one after the other."""
        if s.combine is Ops.ADD:
            return np.add.accumulate(x, axis=0)[-1]  # which is that by definition, as a sum is not
        out = x[0]
        for item in x[1:]:
            out = self.combine(s, out, item)
        return out

    def partners(self, i: int, size: int) -> Array:
        """Columns of a row in whole blocks: all from it on, or those of its blocks in a list."""
        if self.nest.near is None:
            first = (i + 1) // PAIR_LANES * PAIR_LANES
            return np.arange(first, -(-size // PAIR_LANES) * PAIR_LANES)
        starts, blocks = self.starts, self.blocks
        here = blocks[starts[i] : starts[i + 1], None].astype(np.int64) >> FIRST
        return (here * PAIR_LANES + np.arange(PAIR_LANES)).ravel()


def view(address: int, buffer: Any) -> Array:
    dtype = np.dtype(NUMPY_DTYPE[buffer.dtype.name])
    raw = (ctypes.c_char * (buffer.size * dtype.itemsize)).from_address(address)
    return np.frombuffer(raw, dtype)


class ArrayLoops:
    threads = False
    made = found = 0

    def load(self, kernel: LoopKernel, careful: bool) -> Mapping[str, Any]:
        out: dict[str, Any] = {}
        for section in (kernel.careful if careful else kernel.sections).values():
            parts = [Interpreter(kernel, nest) for nest in section.nests]
            out |= {f"part.{section.name}.{k}": part for k, part in enumerate(parts)}
            out[section.name] = self.driver(kernel, section, parts)
        return out

    def driver(self, kernel: LoopKernel, section: LoopSection, parts: Sequence[Interpreter]) -> Any:
        slots = list(kernel.buffers)

        def run(table: Array, uniform: Array, flags: Array, first: int, steps: int) -> None:
            for now in range(first, first + steps):

                def do(turn: Round, now: int = now) -> bool:
                    for part in parts[turn.begin : turn.end]:
                        part(table, uniform, flags, 0, part.nest.extent, now)
                    for a, b in turn.swaps:
                        i, j = slots.index(a), slots.index(b)
                        table[i], table[j] = table[j], table[i]
                    if not turn.going:
                        return True
                    return bool(view(int(table[slots.index(turn.going)]), kernel.buffers[turn.going])[0])

                if not section.run(do):
                    return

        return run
