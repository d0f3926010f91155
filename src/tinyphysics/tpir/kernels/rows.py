"""How do numbers of several types lie in the rows of one array?  A kernel written out has a row for each number.

Where all numbers have one type, rows have it too. Conditions are bytes there. Beside other types, and beside floats that
a step computes, every number takes 64 bits: a whole number by its value, a float by its bits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from tinyphysics.ir.dtype import DTYPES, DType, bool_, i8, i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.target import PORTABLE, Seed
from tinyphysics.tpir.kernels.extremes import ExtremesOf, keeping_extremes
from tinyphysics.tpir.kernels.kernel import Kernel, Tail, build_kernel, recording, watching
from tinyphysics.tpir.kernels.nearest import NearestOf, keeping_nearest
from tinyphysics.tpir.program.isa import Program


def row_type(kinds: Iterable[DType], bytes_too: bool) -> DType | None:
    """The type of all rows, if it is not that of the numbers themselves; without `bytes_too`, short ones are 64 bits."""
    own = set(kinds)
    if len(own) < 2 and bool_ not in own and (bytes_too or all(d.bits >= 32 for d in own)):
        return None
    return i8 if own <= {bool_, i8} and bytes_too else i64


def into_row(u: UOp, row: DType) -> UOp:
    if u.dtype is bool_:
        return UOp(Ops.WHERE, row, (), (u, UOp.const(1, row), UOp.const(0, row)))
    return (u.bitcast(DTYPES[f"i{u.dtype.bits}"]) if u.dtype.is_float else u).cast(row)


def out_of_row(u: UOp, kind: DType) -> UOp:
    if kind is bool_:
        return u.ne(UOp.const(0, u.dtype))
    return u.cast(DTYPES[f"i{kind.bits}"]).bitcast(kind) if kind.is_float else u.cast(kind)


def in_rows(k: Kernel, states: Collection[str], bytes_too: bool = True) -> Kernel:
    """The kernel with rows of one type; `states` are names among what its `final` gives."""
    loops = [u for name, roots in k.functions.items() if name != "final" for u in roots]
    kinds = tuple(v.dtype for v in k.carried)
    floats = any(u.dtype.is_float for u in toposort(loops))
    row = row_type([*kinds, *(v.dtype for v in k.inputs)], bytes_too and not floats)
    if row is None:
        return k
    rows = {v: UOp.var(str(v.arg), (), row) for v in (*k.carried, *k.inputs)}
    read = {v: out_of_row(slot, v.dtype) for v, slot in rows.items()}
    gives = all(name in states for name in k.outputs)  # a probe gives what it has computed

    def put(roots: Iterable[UOp], into: bool) -> tuple[UOp, ...]:
        new = substitute(list(roots), read)
        return tuple(into_row(u, row) for u in new) if into else tuple(new)

    return replace(
        k,
        inputs=tuple(rows[v] for v in k.inputs),
        carried=tuple(rows[v] for v in k.carried),
        functions={name: put(roots, name != "final" or gives) for name, roots in k.functions.items()},
        going=None if k.going is None else put([k.going], False)[0],
        tails=tuple(Tail(t.period, put(t.roots, True), put(t.guards, False)) for t in k.tails),
        watched=put(k.watched, False),
        kinds=kinds,
        _cache={},
    )


def kernel_of(
    program: Program,
    probe: Program | None = None,
    seed: Seed = PORTABLE,
    extremes: ExtremesOf | None = None,
    record: bool = False,
    bytes_too: bool = True,
    nearest: tuple[Program, NearestOf] | None = None,
) -> Kernel:
    """The kernel of a program, with the observables of a probe fused into its loop, or where it can, their extremes.

    With `record` its loop keeps what it carries after every step; with `nearest` how near it came to the zeros of a probe's
    values, where it can.
    """
    kernel, states = build_kernel(program, seed), [s.name for s in program.states]
    if nearest is not None:
        kernel = keeping_nearest(kernel, build_kernel(nearest[0]), nearest[1]) or kernel
    if record:
        return recording(kernel)
    if probe is None:
        return in_rows(kernel, states, bytes_too)
    seen = build_kernel(probe)
    kept = None if extremes is None else keeping_extremes(kernel, seen, extremes)
    return in_rows(watching(kernel, seen) if kept is None else kept, states, bytes_too)
