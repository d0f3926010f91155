"""A machine that runs PTX on NumPy's lanes: every thread of a grid, bit for bit, with memory that complains.

Threads go together as far as they agree; those that do not are run from the earliest block on, so that they meet again.
That would hide threads that rely on each other without a barrier: who reads and who changes which number is watched.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import ptx_lanes
from ptx_lanes import FLOATS, SIGNED, UNSIGNED, Array, Lines
from ptx_lanes import Unknown as Unknown
from ptx_text import BadPtx as BadPtx
from ptx_text import Function, Instruction, Module, Variable
from ptx_text import parsed as parsed

LOCAL, SHARED = 1 << 44, 1 << 45  # where other addresses see these spaces
NEAR = 1 << 12  # the first address of either in its own
DEVICE = 0x7F00_0000_0000  # the first address of the device's memory
LINE = 256  # what memory is aligned to
NOTHING = 0xAB  # bytes that nobody has written
WARP = 32
NOBODY, SEVERAL = -1, -2
MOST = 1 << 31  # instructions of all threads of a launch: more is an endless loop


class Fault(Exception):
    """A thread touched memory that it may not; the driver's number for it is `code`."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


ILLEGAL, MISALIGNED = 700, 716


class Race(Exception):
    """A thread changed what another one touched since the last barrier."""


# --- memory -----------------------------------------------------------------------------------------------
@dataclass
class Block:
    address: int
    size: int
    data: Array  # bytes, up to a whole line
    constant: bool = False


class Memory:
    """The device's: pieces with gaps between them; nothing is used twice."""

    def __init__(self, begin: int = DEVICE) -> None:
        self.blocks: dict[int, Block] = {}
        self.starts: list[int] = []
        self.freed: dict[int, int] = {}
        self.next = begin

    def allocate(self, size: int, constant: bool = False) -> int:
        address = self.next
        room = -(-max(size, 1) // LINE) * LINE
        self.next += room + LINE
        self.blocks[address] = Block(address, size, np.full(room, NOTHING, np.uint8), constant)
        self.starts.append(address)
        return address

    def free(self, address: int) -> None:
        if address not in self.blocks:
            raise Fault(
                f"0x{address:x} is freed {'again' if address in self.freed else 'and was never allocated'}", 1
            )
        self.freed[address] = self.blocks.pop(address).size
        self.starts.remove(address)

    def find(self, address: int, size: int) -> tuple[Block, int]:
        """(the piece that so many bytes from an address lie in, where in it)."""
        k = bisect_right(self.starts, address) - 1
        block = self.blocks[self.starts[k]] if k >= 0 else None
        if block is None or address + size > block.address + block.size:
            raise Fault(f"{size} bytes at 0x{address:x}: {self.whose(address, block)}", ILLEGAL)
        return block, address - block.address

    def whose(self, address: int, below: Block | None) -> str:
        for start, size in self.freed.items():
            if start <= address < start + max(size, 1):
                return f"freed ({size} bytes at 0x{start:x})"
        return f"{address - below.address} bytes into {below.size}" if below else "nobody's"

    def bytes(self, address: int, size: int) -> Array:
        if not size:
            return np.empty(0, np.uint8)
        block, at = self.find(address, size)
        return block.data[at : at + size]

    def pieces(self, where: Array, size: int) -> list[tuple[Block, Any]]:
        """(a piece, which of the addresses lie in it)."""
        low, top = int(where.min()), int(where.max())
        block, _ = self.find(low, size)
        if top + size <= block.address + block.size:
            return [(block, slice(None))]
        owner = np.searchsorted(np.array(self.starts, np.uint64), where, side="right")
        out = []
        for k in np.unique(owner):
            here = np.flatnonzero(owner == k)
            block, _ = self.find(int(where[here].min()), size)
            self.find(int(where[here].max()), size)
            out.append((block, here))
        return out


# --- functions --------------------------------------------------------------------------------------------
@dataclass
class Compiled:
    """A function as Python, a function for each block."""

    source: Function
    blocks: list[Callable[[Frame, list[Any], Any], Any]]
    ends: list[Instruction | None]
    ops: list[tuple[str, ...]]
    slots: dict[str, int]
    text: str
    local: dict[str, int]  # places on the stack
    room: int


NAMES = {
    "np": np,
    **{f"U{n}": t for n, t in UNSIGNED.items()},
    **{f"S{n}": t for n, t in SIGNED.items()},
    **{f"F{n}": t for n, t in FLOATS.items()},
    **{
        n: getattr(ptx_lanes, n)
        for n in (
            "same fma extreme shift funnel high inverse inverse_root quotient field insert permuted logic3 counted leading "
            "reversed_bits converted"
        ).split()
    },
}


@lru_cache(maxsize=512)
def compiled(text: str, name: str) -> Compiled:
    module = parsed(text)
    if name not in module.functions or not module.functions[name].blocks:
        raise BadPtx(f"there is no function {name}")
    f = module.functions[name]
    slots = {r: k for k, r in enumerate(f.registers)}
    written = []
    for block in f.blocks:
        lines = Lines(f, module.variables, slots)
        ending = (
            block[-1]
            if block and block[-1].parts[0] in ("bra", "ret", "exit", "trap", "brx", "bar", "barrier")
            else None
        )
        for i in block[: len(block) - (ending is not None)]:
            lines.write(i)
        if ending is not None and ending.parts[0] == "bra" and ending.operands[0] not in f.labels:
            raise BadPtx(f"`{ending}`: there is no such label")
        back = "None"
        if ending is not None and ending.guard:
            back = lines.guard(ending)
        if ending is not None and ending.parts[0] == "brx":
            back = lines.register(ending.operands[0], "u32")
        written.append((lines, ending, back))
    carried = {r for lines, _, _ in written for r in lines.read_first}
    out, ends, ops = [], [], []
    for k, ((lines, ending, back), block) in enumerate(zip(written, f.blocks)):
        out += [f"def block{k}(lane, R, at):"]
        out += [
            f"    r{slots[r]} = R[{slots[r]}] if at is None else R[{slots[r]}][at]" for r in lines.read_first
        ]
        kept = [r for r in lines.written if r in carried]
        stored = [f"{lines.form(r, 'u')}" for r in kept]
        out += [f"    {line}" for line in lines.lines]
        if kept:
            out.append("    if at is None:")
            out += [f"        R[{slots[r]}] = {v}" for r, v in zip(kept, stored)]
            out.append("    else:")
            out += [f"        R[{slots[r]}][at] = {v}" for r, v in zip(kept, stored)]
        out.append(f"    return {back}")
        ends.append(ending)
        ops.append(tuple(i.op for i in block))
    body = "\n".join(out)
    scope: dict[str, Any] = dict(NAMES)
    exec(compile(body, f"<{name}>", "exec"), scope)
    local, room = places(v for v in f.variables.values() if v.space == "local")
    return Compiled(
        f, [scope[f"block{k}"] for k in range(len(f.blocks))], ends, ops, slots, body, local, room
    )


def places(variables: Any) -> tuple[dict[str, int], int]:
    """(where each lies, how much they need)."""
    out, at = {}, 0
    for v in variables:
        at = -(-at // max(v.align, 1)) * max(v.align, 1)
        out[v.name] = at
        at += v.size
    return out, -(-at // 16) * 16


Groups = dict[int, Any]  # lanes by the block that they are before; None: all
END = -1


class Frame:
    """One call of a function by some threads."""

    def __init__(
        self, launch: Launch, f: Compiled, threads: Array, params: dict[str, Any], base: int
    ) -> None:
        self.launch, self.f, self.threads, self.params, self.base = launch, f, threads, params, base
        self.n = self.count = len(threads)
        self.at: Any = None
        self.registers = [
            np.full(self.n, NOTHING, UNSIGNED[size]) if size else np.zeros(self.n, bool)
            for size in f.source.registers.values()
        ]
        self.results = {v.name: np.full((self.n, v.size), NOTHING, np.uint8) for v in f.source.results}
        self.sent: dict[str, Array] = {}
        launch.room(base + f.room)

    # --- where to go --------------------------------------------------------------------------------
    def run(self, groups: Groups) -> list[tuple[int, Any]]:
        """Until every lane has ended or waits: (the block after the barrier, lanes)."""
        waiting = []
        while groups:
            k = min(groups)
            lanes = groups.pop(k)
            if k == len(self.f.blocks):
                raise BadPtx(f"{self.f.source.name} runs past its end")
            self.at = None if lanes is None or len(lanes) == self.n else lanes
            self.count = self.n if self.at is None else len(lanes)
            self.launch.ran(self.f.ops[k], self.count)
            ending = self.f.ends[k]
            p = self.f.blocks[k](self, self.registers, self.at)
            for target, some in self.targets(k, ending, p):
                if target == END:
                    continue
                if ending is not None and ending.parts[0] in ("bar", "barrier"):
                    waiting.append((target, some))
                elif target in groups:
                    groups[target] = np.sort(np.concatenate([self.listed(groups[target]), self.listed(some)]))
                else:
                    groups[target] = some
        return waiting

    def listed(self, lanes: Any) -> Array:
        return np.arange(self.n) if lanes is None else lanes

    def targets(self, k: int, i: Instruction | None, p: Any) -> list[tuple[int, Any]]:
        if i is None:
            return [(k + 1, self.at)]
        labels, here = self.f.source.labels, self.at
        match i.parts[0]:
            case "bra":
                if set(i.parts[1:]) - {"uni"}:
                    raise Unknown(f"the instruction `{i}`")
                to = labels[i.operands[0]]
            case "ret" | "exit":
                to = END
            case "bar" | "barrier":
                barrier(i)
                return [(k + 1, here)]
            case "brx":
                table = [labels[x] for x in self.f.source.tables[i.operands[1]]]
                lanes = self.listed(here)
                return [(t, lanes[p == n]) for n, t in enumerate(table) if (p == n).any()]
            case _:
                raise Fault(f"a thread came to `{i}`", 719)
        if p is None:
            return [(to, here)]
        if p.all():
            return [(to, here)]
        if not p.any():
            return [(k + 1, here)]
        lanes = self.listed(here)
        return [(to, lanes[p]), (k + 1, lanes[~p])]

    # --- what the lines of a block ask for ----------------------------------------------------------
    def full(self, value: Any) -> Array:
        return value.copy() if np.ndim(value) else np.full(self.count, value)

    def who(self) -> Array:
        return self.threads if self.at is None else self.threads[self.at]

    def special(self, name: str, axis: str) -> Array:
        return self.launch.special(name, axis, self.who())

    def symbol(self, name: str) -> Any:
        if name in self.f.local:
            return np.uint64(NEAR + self.base + self.f.local[name])
        return np.uint64(self.launch.symbols[name])

    def cvta(self, x: Array, space: str, to: bool) -> Array:
        window = np.uint64({"local": LOCAL, "shared": SHARED}.get(space, 0))
        if to and window and (x < window).any():
            raise Fault(f"an address is not of the space {space}", 717)
        return x - window if to else x + window

    def param(self, name: str, offset: int, kind: str) -> Array:
        t = np.dtype(kind)
        if name in self.sent:
            rows = self.sent[name]
        elif isinstance(self.params[name], bytes):
            return np.full(self.count, np.frombuffer(self.params[name], t, 1, offset)[0])
        else:
            rows = self.params[name] if self.at is None else self.params[name][self.at]
        if offset + t.itemsize > rows.shape[1]:
            raise BadPtx(f"{t.itemsize} bytes at {offset} of the parameter {name}")
        return np.ascontiguousarray(rows[:, offset : offset + t.itemsize]).view(t)[:, 0]

    def put(self, name: str, offset: int, size: int, values: Sequence[Any]) -> None:
        if name in self.results:
            rows = self.results[name]
        else:
            if name not in self.sent:
                self.sent[name] = np.full((self.count, self.f.source.variables[name].size), NOTHING, np.uint8)
            rows = self.sent[name]
        for k, v in enumerate(values):
            at = offset + k * size
            if at + size > rows.shape[1]:
                raise BadPtx(f"{size} bytes at {at} of the parameter {name}")
            given = self.full(v).reshape(-1, 1).view(np.uint8)
            rows[slice(None) if name in self.sent or self.at is None else self.at, at : at + size] = given

    def call(self, name: str, given: Sequence[str], back: Sequence[str]) -> None:
        f = compiled(self.launch.text, name)
        params = {v.name: self.sent.pop(x) for v, x in zip(f.source.params, given)}
        if len(given) != len(f.source.params) or len(back) != len(f.source.results):
            raise BadPtx(f"{name} is called with {len(given)} arguments")
        at, count = self.at, self.count
        frame = Frame(self.launch, f, self.who(), params, self.base + self.f.room)
        if frame.run({0: None}):
            raise Unknown(f"a barrier in the function {name}")
        self.at, self.count = at, count
        self.sent.update(zip(back, frame.results.values()))

    def load(self, space: str, where: Array, kind: Any, many: int, mask: Any) -> list[Array]:
        size = np.dtype(kind).itemsize
        some = None if mask is None else np.flatnonzero(mask)
        at = where if some is None else where[some]
        out = []
        for k in range(many):
            got = self.launch.read(
                space, at + np.uint64(k * size), kind, self.who() if some is None else self.who()[some], many
            )
            if some is not None:
                whole = np.full(self.count, NOTHING, kind)
                whole[some] = got
                got = whole
            out.append(got)
        return out

    def store(self, space: str, where: Array, values: Sequence[Any], mask: Any) -> None:
        some = slice(None) if mask is None else np.flatnonzero(mask)
        for k, v in enumerate(values):
            given = np.broadcast_to(v, self.count)[some]
            at = where[some] + np.uint64(k * given.itemsize)
            self.launch.write(space, at, given, self.who()[some], len(values))

    def atom(self, space: str, where: Array, how: str, values: Sequence[Any], mask: Any) -> Array:
        lanes = range(self.count) if mask is None else np.flatnonzero(mask)
        given = [np.broadcast_to(v, self.count) for v in values]
        out = np.full(self.count, NOTHING, given[0].dtype)
        who = self.who()
        self.launch.watching = False
        for k in lanes:  # one after the other, in an order that nobody may rely on
            at, thread = where[k : k + 1], who[k : k + 1]
            old = self.launch.read(space, at, given[0].dtype.type, thread, 1)
            new = ATOMS[how](old, *[v[k : k + 1] for v in given])
            self.launch.write(space, at, new.astype(old.dtype), thread, 1)
            out[k] = old[0]
        self.launch.watching = True
        return out

    def ballot(self, said: Any, mask: Any) -> Array:
        """A bit for each thread of a warp that says so; all that are named must be here, and name the same."""
        who, masks = self.who(), np.broadcast_to(mask, self.count).astype(np.int64)
        inside = who % self.launch.each
        warp, lane = who // self.launch.each * self.launch.each + inside // WARP, inside % WARP
        named = (masks[:, None] >> np.arange(WARP)) & 1  # (thread, lane of its warp)
        rows, place = np.unique(warp, return_inverse=True)
        here = np.zeros((len(rows), WARP), bool)
        here[place, lane] = True
        theirs, votes = np.zeros((len(rows), WARP), np.int64), np.zeros((len(rows), WARP), np.int64)
        theirs[place, lane] = masks
        votes[place, lane] = np.broadcast_to(said, self.count)
        if (named.astype(bool) & (~here[place] | (theirs[place] != masks[:, None]))).any() or not named[
            np.arange(len(who)), lane
        ].all():
            raise Fault(f"{self.f.source.name}: threads of a warp vote without others that they name", 719)
        return ((votes[place] * named) << np.arange(WARP)).sum(1).astype(np.uint32)


ATOMS: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "exch": lambda a, b: b,
    "min": np.minimum,
    "max": np.maximum,
    "cas": lambda a, b, c: np.where(a == b, c, a),
}


def barrier(i: Instruction) -> None:
    known = {
        "bar.sync",
        "barrier.sync",
        "barrier.sync.aligned",
        "bar.cta.sync",
        "barrier.cta.sync",
        "barrier.cta.sync.aligned",
        "bar.warp.sync",
    }
    if i.op not in known or i.guard or (len(i.operands) != 1 and i.op != "bar.warp.sync"):
        raise Unknown(f"the instruction `{i}`")


# --- launches ---------------------------------------------------------------------------------------------
@dataclass
class Loaded:
    """A module with its variables in the device's memory."""

    text: str
    module: Module
    symbols: dict[str, int] = field(default_factory=dict)

    def forget(self, memory: Memory) -> None:
        for name, v in self.module.variables.items():
            if v.space in ("global", "const"):
                memory.free(self.symbols[name])


def load(text: str, memory: Memory) -> Loaded:
    m = parsed(text)
    out = Loaded(text, m)
    for v in m.variables.values():
        if v.space in ("global", "const"):
            out.symbols[v.name] = address = memory.allocate(v.size, v.space == "const")
            memory.bytes(address, v.size)[:] = np.frombuffer(v.start or bytes(v.size), np.uint8)
    return out


class Launch:
    """One kernel for all threads of a grid."""

    def __init__(
        self,
        loaded: Loaded,
        name: str,
        memory: Memory,
        params: Sequence[bytes],
        blocks: Sequence[int],
        threads: Sequence[int],
        shared: int = 0,
        warps: bool = False,
    ) -> None:
        self.text, self.memory, self.warps = loaded.text, memory, warps
        self.grid, self.block = tuple(blocks), tuple(threads)
        self.each = int(np.prod(self.block))  # threads of a block
        self.all = int(np.prod(self.grid)) * self.each
        self.f = compiled(loaded.text, name)
        given = {v.name: p for v, p in zip(self.f.source.params, params)}
        if len(params) != len(self.f.source.params) or any(
            v.size != len(given[v.name]) for v in self.f.source.params
        ):
            raise BadPtx(
                f"{name} takes {[v.size for v in self.f.source.params]} bytes, not {[len(p) for p in params]}"
            )
        in_shared = [
            v
            for v in (*loaded.module.variables.values(), *self.variables(loaded.module))
            if v.space == "shared"
        ]
        where, room = places(sorted(in_shared, key=lambda v: v.size == 0))  # what has no size comes last
        self.symbols = loaded.symbols | {n: NEAR + at for n, at in where.items()}
        self.spaces = {
            "shared": np.full(
                (self.all // self.each, room + shared + -(room + shared) % 16), NOTHING, np.uint8
            ),
            "local": np.full((self.all, 16), NOTHING, np.uint8),
        }
        self.sizes = {"shared": room + shared, "local": 0}
        self.watching = True
        self.watched: dict[
            int, tuple[Array, Array]
        ] = {}  # who changed, who read, since the last barrier, by the first byte
        self.given = given
        self.executed: Counter[str] = Counter()
        self.instructions = 0

    def variables(self, module: Module) -> list[Variable]:
        return [v for f in module.functions.values() for v in f.variables.values()]

    def run(self) -> None:
        with np.errstate(all="ignore"):
            frame = Frame(self, self.f, np.arange(self.all), self.given, 0)
            waiting: list[tuple[int, Any]] = [(0, None)]
            while waiting:
                waiting = self.met(frame, [w for some in self.turns(waiting) for w in frame.run(some)])

    def turns(self, waiting: list[tuple[int, Any]]) -> list[Groups]:
        """All threads at once, or one warp after another: then one does not see what another has not done yet."""
        if not self.warps:
            return [{k: lanes for k, lanes in waiting}]
        out = []
        for k, lanes in waiting:
            lanes = np.arange(self.all) if lanes is None else lanes
            cuts = np.flatnonzero(np.diff(lanes // WARP)) + 1
            out += [{k: part} for part in np.split(lanes, cuts)]
        return out[::-1]

    def met(self, frame: Frame, waiting: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
        """Those that wait at a barrier go on when their whole block is there."""
        self.watched.clear()
        by_target: dict[int, list[Any]] = {}
        for k, lanes in waiting:
            by_target.setdefault(k, []).append(frame.listed(lanes))
        out = [(k, np.sort(np.concatenate(parts))) for k, parts in by_target.items()]
        for _, lanes in out:
            counts = np.bincount(lanes // self.each, minlength=self.all // self.each)
            if ((counts != 0) & (counts != self.each)).any():
                raise Fault(
                    f"{self.f.source.name}: some threads of a block wait at a barrier that others do not come to",
                    719,
                )
        return out

    def ran(self, ops: Sequence[str], lanes: int) -> None:
        self.executed.update(ops)
        self.instructions += lanes * len(ops)
        if self.instructions > MOST:
            raise BadPtx(f"{self.f.source.name} does not end")

    def special(self, name: str, axis: str, who: Array) -> Array:
        where = "xyz".find(axis) if axis else 0
        if name in ("ntid", "nctaid"):
            return np.full(len(who), (self.block if name == "ntid" else self.grid)[where])
        inside = who % self.each
        if name == "laneid":
            return inside % WARP
        if name == "warpid":
            return inside // WARP
        flat, sizes = (inside, self.block) if name == "tid" else (who // self.each, self.grid)
        for k in range(where):
            flat = flat // sizes[k]
        return flat % sizes[where]

    # --- memory -------------------------------------------------------------------------------------
    def room(self, size: int) -> None:
        """So much of a stack for every thread."""
        have = self.spaces["local"]
        self.sizes["local"] = max(self.sizes["local"], size)
        if size > have.shape[1]:
            more = np.full((self.all, size - have.shape[1]), NOTHING, np.uint8)
            self.spaces["local"] = np.ascontiguousarray(np.concatenate([have, more], axis=1))

    def split(self, space: str, where: Array) -> list[tuple[str, Array, Any]]:
        """(space, addresses in it, which lanes): what has no space may be in any."""
        if space:
            return [(space, where, slice(None))]
        out = []
        for name, low, top in (
            ("global", 0, LOCAL),
            ("local", LOCAL, SHARED),
            ("shared", SHARED, 2 * SHARED),
            ("global", 2 * SHARED, 1 << 63),
        ):
            here = np.flatnonzero((where >= np.uint64(low)) & (where < np.uint64(top)))
            if len(here):
                out.append((name, where[here] - np.uint64(low if name != "global" else 0), here))
        return out

    def aligned(self, where: Array, size: int, many: int, who: Array) -> None:
        first = where & np.uint64(size - 1)  # of several, those after the first are as aligned as it is
        if first.any():
            k = int(np.flatnonzero(first)[0])
            raise Fault(
                f"thread {who[k]}: {size} bytes at 0x{int(where[k]):x}, which is not aligned", MISALIGNED
            )

    def read(self, space: str, where: Array, kind: Any, who: Array, many: int) -> Array:
        if not len(where):
            return np.empty(0, kind)
        size = np.dtype(kind).itemsize
        self.aligned(where, size, many, who)
        out = np.empty(len(where), kind)
        for name, at, lanes in self.split(space, where):
            if name in self.spaces:
                view, rows, places = self.cells(name, at, size, who[lanes], kind)
                out[lanes] = view[rows, places]
                if name == "shared":
                    self.look(view, rows * view.shape[1] + places, who[lanes], None)
                continue
            for block, here in self.found(at, size, who[lanes]):
                view, places = block.data.view(kind), (at[here] - np.uint64(block.address)) // np.uint64(size)
                out[lanes if isinstance(here, slice) else np.arange(len(where))[lanes][here]] = view[places]
                if not block.constant:
                    self.look(view, places, who[lanes][here], None)
        return out

    def write(self, space: str, where: Array, values: Array, who: Array, many: int) -> None:
        if not len(where):
            return
        size, kind = values.itemsize, values.dtype
        self.aligned(where, size, many, who)
        for name, at, lanes in self.split(space, where):
            if name in self.spaces:
                view, rows, places = self.cells(name, at, size, who[lanes], kind)
                if name == "shared":
                    self.look(view, rows * view.shape[1] + places, who[lanes], values[lanes])
                view[rows, places] = values[lanes]
                continue
            for block, here in self.found(at, size, who[lanes]):
                if block.constant or name == "const":
                    raise Fault(f"{self.f.source.name} writes to constants", ILLEGAL)
                view, places = block.data.view(kind), (at[here] - np.uint64(block.address)) // np.uint64(size)
                self.look(view, places, who[lanes][here], values[lanes][here])
                view[places] = values[lanes][here]

    def found(self, where: Array, size: int, who: Array) -> list[tuple[Block, Any]]:
        try:
            return self.memory.pieces(where, size)
        except Fault as fault:
            raise Fault(
                f"{self.f.source.name}, one of the threads {who[:4].tolist()}...: {fault}", fault.code
            ) from None

    def cells(self, space: str, where: Array, size: int, who: Array, kind: Any) -> tuple[Array, Array, Array]:
        view = self.spaces[space]
        at = where.astype(np.int64) - NEAR
        if (at < 0).any() or (at + size > self.sizes[space]).any():
            raise Fault(
                f"{self.f.source.name}: {size} bytes at {at.min()}..{at.max()} of {self.sizes[space]} {space} ones",
                ILLEGAL,
            )
        return view.view(kind), who if space == "local" else who // self.each, at // size

    def look(self, view: Array, places: Array, who: Array, new: Any) -> None:
        """Does a thread read what another changed, or change what another read or changed?  All the same value is no change."""
        if not self.watching:
            return
        flat, size = view.reshape(-1), view.itemsize
        at = places.astype(np.int64) * size
        key = flat.ctypes.data
        if key not in self.watched:
            self.watched[key] = np.full(flat.nbytes, NOBODY), np.full(flat.nbytes, NOBODY)
        changed, read = self.watched[key]
        by, to = changed[at], read[at]
        if new is None:
            wrong = (by != NOBODY) & (by != who)
            read[at] = np.where((to == NOBODY) | (to == who), who, SEVERAL)
            others = read[at] != who
            read[at[others]] = SEVERAL
        else:
            changes = flat[places] != new
            wrong = changes & ((by != NOBODY) & (by != who) | (to != NOBODY) & (to != who))
            changed[at[changes]] = who[changes]
            flat[places] = new
            wrong |= flat[places] != new  # two of them at once
        if wrong.any():
            n = int(np.flatnonzero(wrong)[0])
            other = by[n] if by[n] not in (NOBODY, who[n]) else to[n]
            raise Race(
                f"{self.f.source.name}: thread {who[n]} {'reads' if new is None else 'changes'} byte {at[n]} of {flat.nbytes}, "
                f"which {f'thread {other}' if other >= 0 else 'another one'} touched since the last barrier"
            )


def run(
    text: str,
    name: str,
    args: Sequence[Any],
    blocks: int = 1,
    threads: int = 1,
    shared: int = 0,
    warps: bool = False,
) -> Launch:
    """Runs a kernel of a text on arrays, which change in place, and numbers of NumPy."""
    memory = Memory()
    arrays = [(a, memory.allocate(a.nbytes)) for a in args if isinstance(a, np.ndarray) and a.ndim]
    for a, address in arrays:
        memory.bytes(address, a.nbytes)[:] = np.ascontiguousarray(a).reshape(-1).view(np.uint8)
    at = {id(a): np.uint64(address).tobytes() for a, address in arrays}
    params = [at[id(a)] if id(a) in at else a.tobytes() for a in args]
    launch = Launch(load(text, memory), name, memory, params, (blocks, 1, 1), (threads, 1, 1), shared, warps)
    launch.run()
    for a, address in arrays:
        a[...] = memory.bytes(address, a.nbytes).view(a.dtype).reshape(a.shape)
    return launch
