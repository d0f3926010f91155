"""What does a loop nest do, statement by statement?  One small language between the kinds of nest and the printers.

Expressions are the scalar nodes of the graph, in the minimal operator set, with LOAD for memory. There is no second language
for them. A kind of nest writes statements, a printer writes them in a language, and neither knows the other.

A name is a variable node (VAR). It is bound by a loop, by `Let`, by a `Carry`, or it is `LO`, `HI` or a variable of
`Threads`. A loop with `lanes` goes by vectors: its variable stands for so many numbers in a row, and so does all that
depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tinyphysics.ir.dtype import DType, i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.util import prod

LO, HI = UOp.var("@lo", (), i64), UOp.var("@hi", (), i64)
FLAGS = "flags"  # where a guard leaves its mark: the block of steps is then done again
WORKSPACE = "workspace"  # where accumulators that several threads fill wait for each other


@dataclass(frozen=True, eq=False)
class Carry:
    """A number that goes round a loop: `first` before it, `next` after every turn, and its last value behind the loop."""

    name: UOp
    first: UOp
    next: UOp


@dataclass(frozen=True, eq=False)
class For:
    variable: UOp
    begin: UOp
    end: UOp
    body: tuple[Statement, ...]
    step: int = 1
    carried: tuple[Carry, ...] = ()
    lanes: int = 1
    independent: bool = False  # do its turns share no number?


@dataclass(frozen=True, eq=False)
class While:
    """Turns while `more` holds, which is asked before each of them."""

    carried: tuple[Carry, ...]
    more: UOp
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False)
class When:
    condition: UOp
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, eq=False)
class Let:
    """Values computed here, one operation beside the other, each with a name."""

    names: tuple[UOp, ...]
    values: tuple[UOp, ...]


@dataclass(frozen=True, eq=False)
class Local:
    """Numbers on the stack of this function, or that the threads of a block share; read by LOAD, written by Store."""

    name: str
    dtype: DType
    count: int
    shared: bool = False


@dataclass(frozen=True, eq=False)
class Store:
    buffer: str
    plane: int
    index: tuple[UOp, ...]
    value: UOp


@dataclass(frozen=True, eq=False)
class Woven:
    """Stores side by side: each at the index behind the one before it, and those of the next lane behind the last."""

    stores: tuple[Store, ...]


@dataclass(frozen=True, eq=False)
class Note:
    """The mark of a guard, if a condition holds in any lane."""

    condition: UOp


@dataclass(frozen=True, eq=False)
class Call:
    """A function of the host whose address is in a buffer; it takes nothing and gives nothing."""

    buffer: str


@dataclass(frozen=True, eq=False)
class Barrier:
    """All threads of a block come here before one goes on; in no loop and under no condition."""


Statement = For | While | When | Let | Local | Store | Woven | Note | Call | Barrier
Body = tuple[Statement, ...]


@dataclass(frozen=True)
class Range:
    """Called for a part of the outermost loop, from LO to HI."""


@dataclass(frozen=True)
class Threads:
    """A thread for each index; neighbours along the last variable are neighbouring threads."""

    variables: tuple[UOp, ...]
    sizes: tuple[int, ...]
    block: int = 128
    resident: int = 0  # blocks that a processor needs room for

    @property
    def count(self) -> int:
        return prod(self.sizes)


@dataclass(frozen=True)
class Function:
    body: Body
    shares: Range | Threads = Range()
    name: str = ""  # after that of its nest
    workspace: int = 0  # numbers that wait between this function and the next


# --- writing statements --------------------------------------------------------------------------------------------------
def number(k: int) -> UOp:
    return UOp.const(k, i64)


def load(buffer: str, dtype: DType, *index: UOp, plane: int = 0) -> UOp:
    return UOp(Ops.LOAD, dtype, (), index, (buffer, plane))


def shifted(i: UOp, k: int) -> UOp:
    """i + k, without an addition of nothing."""
    return i + number(k) if k else i


def replaced(roots: Sequence[UOp], table: dict[UOp, UOp]) -> list[UOp]:
    return substitute(list(roots), table) if table else list(roots)


def expressions(s: Statement) -> Iterator[UOp]:
    """Those of one statement, without the statements in it."""
    match s:
        case For():
            yield from (s.begin, s.end)
            yield from (u for c in s.carried for u in (c.first, c.next))
        case While():
            yield from (u for c in s.carried for u in (c.first, c.next))
            yield s.more
        case When() | Note():
            yield s.condition
        case Let():
            yield from s.values
        case Store():
            yield from (s.value, *s.index)


def within(s: Statement) -> Body:
    match s:
        case For() | While():
            return s.body
        case When():
            return (*s.then, *s.otherwise)
        case Woven():
            return s.stores
    return ()


def walk(body: Sequence[Statement]) -> Iterator[Statement]:
    for s in body:
        yield s
        yield from walk(within(s))


def bound(s: Statement) -> tuple[UOp, ...]:
    """The names that a statement gives to what is in it or behind it."""
    match s:
        case For():
            return (s.variable, *(c.name for c in s.carried))
        case While():
            return tuple(c.name for c in s.carried)
        case Let():
            return s.names
    return ()


def stored(body: Sequence[Statement]) -> dict[str, None]:
    """The buffers that statements write to."""
    return dict.fromkeys(s.buffer for s in walk(body) if isinstance(s, Store))


def unconditional(body: Sequence[Statement]) -> Body:
    """The statements that are done in every turn, and those of loops in it."""
    out: list[Statement] = []
    for s in body:
        out.append(s)
        if isinstance(s, For):
            out += unconditional(s.body)
        elif isinstance(s, Woven):
            out += s.stores
    return tuple(out)


def buffers_of(f: Function) -> list[str]:
    """The buffers that a function is given, in order."""
    own = locals_of(f.body)
    found: dict[str, None] = {}
    below: dict[UOp, None] = {}
    for s in walk(f.body):
        found |= dict.fromkeys(u.arg[0] for u in toposort(list(expressions(s)), below) if u.op is Ops.LOAD)
        if isinstance(s, Store | Call):
            found[s.buffer] = None
    return [name for name in found if name not in own]


class Reads(dict[UOp, frozenset[str]]):
    """The buffers that values are read from; each node is looked at once."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[UOp, None] = {}

    def __missing__(self, u: UOp) -> frozenset[str]:
        for x in toposort([u], self.seen):
            parts = {self[s] for s in x.src}
            own = frozenset((x.arg[0],)) if x.op is Ops.LOAD else frozenset[str]()
            self[x] = own.union(*parts) if own or len(parts) != 1 else next(iter(parts))
        return self[u]


def locals_of(body: Sequence[Statement]) -> dict[str, Local]:
    return {s.name: s for s in walk(body) if isinstance(s, Local)}


@lru_cache(maxsize=4096)
def affine(u: UOp) -> tuple[Mapping[UOp, int], int]:
    """An index as whole multiples of nodes, plus a number."""
    match u.op:
        case Ops.CONST:
            return {}, int(u.arg)
        case Ops.ADD | Ops.SUB:
            (a, m), (b, n) = (affine(s) for s in u.src)
            sign = 1 if u.op is Ops.ADD else -1
            out = dict(a)
            for x, k in b.items():
                out[x] = out.get(x, 0) + sign * k
            return {x: k for x, k in out.items() if k}, m + sign * n
        case Ops.MUL if u.src[1].op is Ops.CONST:
            terms, n = affine(u.src[0])
            k = int(u.src[1].arg)
            return {x: k * c for x, c in terms.items() if k * c}, n * k
    return {u: 1}, 0
