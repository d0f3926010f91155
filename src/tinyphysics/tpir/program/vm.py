"""What does a program do?  The reference interpreter: plain numbers and lists, one instruction at a time.

It needs nothing but the standard library. Every backend is compared with it, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import Any

from tinyphysics.errors import InputError, PlanError, ShapeError, VerifyError
from tinyphysics.ir.dtype import as_number, f64, i64, u32
from tinyphysics.ir.neighbours import limit, skin_of
from tinyphysics.ir.ops import ELEMENTWISE, LEAVES, MINIMAL, ORBITS, Ops
from tinyphysics.ir.uop import Shape, UOp, elements, substitute, toposort
from tinyphysics.ir.value import NAN, Prepared, Value, cell_of, node, scalar
from tinyphysics.philox import checked, key_words
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.lines import values as line_values
from tinyphysics.rules.calculus.solve import (
    array_round,
    array_solution,
    named,
    one_round,
    outer_solution,
    product,
)
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.digits.floats import magnitude
from tinyphysics.rules.formulas import elliptic, jacobi, mesh
from tinyphysics.rules.functions.transcendental import guarded, lower
from tinyphysics.tpir.program.isa import (
    ADDRESS,
    GOING,
    MEMBER_BITS,
    Instruction,
    Operand,
    Param,
    Pointer,
    Program,
    Register,
    Type,
    Word,
)
from tinyphysics.tpir.program.propagate import propagated
from tinyphysics.tpir.program.symbolic import Given
from tinyphysics.tpir.program.values import instant
from tinyphysics.util import prod

Slots = list[Any]
Action = Callable[[Slots], None]
NOW, DT, T0 = 0, 1, 2  # slots of the clock: steps done, step, time at step 0
SEED, MEMBER = (3, 4), 5  # slots of what random numbers are addressed by
FIRST = 6  # slot of the program's own
INFINITE = float("inf")


def flatten(x: Any, type_: Type, name: str) -> Value:
    """A number, or a nested list, as the flat list of the declared shape."""
    if hasattr(x, "tolist"):
        x = x.tolist()
    if type_.shape == ():
        if isinstance(x, (list, tuple)):
            raise ShapeError(f"`{name}` is a scalar, not a list")
        return number(x, type_, name)
    flat = list(_leaves(x))
    if len(flat) != prod(type_.shape):
        raise ShapeError(
            f"`{name}` has {len(flat)} numbers, its shape {type_.shape} needs {prod(type_.shape)}"
        )
    return [number(v, type_, name) for v in flat]


def number(x: Any, type_: Type, name: str) -> Any:
    if isinstance(x, (int, float)):
        return as_number(x, type_.dtype)
    raise InputError(
        f"`{name}` holds {x!r}, which is not a number", fix=f"Pass {name}=1.0, or a list of numbers."
    )


def _leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, (list, tuple)):
        for item in x:
            yield from _leaves(item)
    else:
        yield x


def nested(flat: Value, shape: Shape) -> Any:
    if len(shape) < 2:
        return flat
    step = len(flat) // shape[0]
    return [nested(flat[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


def moved(now: Value, before: Value, points: Type) -> float:
    """The largest square of the ways that points have gone; NaN if there is one."""
    d = points.shape[1]
    less, times, on = (scalar(op, points.dtype, [points.dtype] * 3) for op in (Ops.SUB, Ops.MUL, Ops.FMA))
    worst = 0.0
    for i in range(0, len(now), d):
        way = [less(a, b) for a, b in zip(now[i : i + d], before[i : i + d])]
        square = times(way[0], way[0])
        for x in way[1:]:
            square = on(x, x, square)
        if square != square:
            return NAN
        worst = max(worst, square)
    return worst


@dataclass
class Loop:
    """The registers of a run between steps: unsynchronised, and all that a run needs to go on."""

    slots: Slots
    steps: int = 0

    def copy(self) -> Loop:
        return Loop(list(self.slots), self.steps)


def solved_expression(root: UOp, names: Sequence[UOp]) -> Callable[..., Value]:
    """An expression as a function of its variables; solutions of whole arrays in it are found round by round."""
    prepared: dict[tuple[UOp, ...], Prepared] = {}

    def f(*given: Value) -> Value:
        env, here = dict(zip((str(v.arg) for v in names), given)), root

        def evaluate(roots: Sequence[UOp], more: Mapping[UOp, Value]) -> list[Value]:
            plan = prepared.setdefault(tuple(roots), Prepared(list(roots)))
            return plan(env | {str(v.arg): x for v, x in more.items()})

        while (u := outer_solution([here])) is not None:
            value, _ = array_solution(u, evaluate)
            known = UOp.var(f"found {len(env)}", u.shape, u.dtype)
            env[str(known.arg)] = value
            (here,) = substitute([here], {u: known})
        return evaluate([here], {})[0]

    return f


class Machine:
    """A program made ready to run: each instruction a small function on numbered slots."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.slot: dict[Any, int] = {}
        self.constants: dict[int, Value] = {}
        # where the points are that a list of neighbours was made of
        self.lists: dict[str, tuple[int, Type]] = {}
        self.types: dict[Operand, Type] = {Param(p.name): p.type for p in program.params}
        for i, s in enumerate(program.states):
            self.types[Register("S", i)] = s.type
        self.actions = {
            name: self._actions(program.section(name)) for name in ("energy", "init", "step", "final")
        }
        # how much of a step says whether it changes anything; 0 if nothing does
        self.gate = next((n + 1 for n, i in enumerate(program.step) if i.dst == Pointer(GOING)), 0)

    # --- slots --------------------------------------------------------------------------------
    def _slot(self, key: Any) -> int:
        return self.slot.setdefault(key, len(self.slot) + FIRST)

    def _read(self, x: Operand, type_: Type) -> int:
        """The slot of an operand; a number stands for a constant of the wanted shape."""
        return self._constant(as_number(x, type_.dtype), type_) if isinstance(x, float) else self._slot(x)

    def _constant(self, value: Any, type_: Type) -> int:
        slot = self._slot((repr(value), type_))
        self.constants[slot] = [value] * prod(type_.shape) if type_.shape else value
        return slot

    def _type(self, x: Operand, like: Type) -> Type:
        if isinstance(x, float):
            return like
        if x not in self.types:
            raise VerifyError(f"`{x}` is read before it is written")
        return self.types[x]

    # --- instructions -------------------------------------------------------------------------
    def _actions(self, listing: Sequence[Instruction]) -> list[Action]:
        """The lines of a section; those between a SOLVE and its UNTIL are one action."""
        out: list[Action] = []
        opened: list[tuple[Instruction, list[Action]]] = []
        for i in listing:
            if i.row.kind == "open":
                self.types[i.dst] = i.type
                opened.append((i, []))
                continue
            into = opened[-1][1] if opened else out
            if i.row.kind == "close":
                first, body = opened.pop()
                into = opened[-1][1] if opened else out
                into.append(self._solve(first, body, i))
            else:
                into.append(self._action(i))
        return out

    def _solve(self, first: Instruction, body: list[Action], last: Instruction) -> Action:
        """Rounds until the correction no longer gets smaller; NaN if they are not enough."""
        *rest, most = last.args
        assert isinstance(most, tuple) and isinstance(most[0], int)
        if len(last.type.shape) > 1:
            return self._solve_arrays(first, body, last, most[0])
        n, rounds = last.type.shape[0], most[0]
        square = Type(last.type.dtype, (n, n))
        types = [last.type, *([square] if len(rest) == 3 else []), last.type]
        x, where = self._slot(last.dst), [self._read(r, t) for r, t in zip(rest, types)]
        start, f = self._read(first.args[0], first.type), round_of(n, len(rest) == 3)

        def act(r: Slots) -> None:
            r[x], before = list(r[start]), INFINITE
            for _ in range(rounds):
                for each in body:
                    each(r)
                *r[x], before, over = f(*r[x], before, *(v for k in where for v in r[k]))
                if over:
                    return
            r[x] = [NAN] * n

        return act

    def _solve_arrays(self, first: Instruction, body: list[Action], last: Instruction, rounds: int) -> Action:
        """The same of whole arrays, whose sizes are those of their largest numbers."""
        *rest, _ = last.args
        x, where = self._slot(last.dst), [self._read(r, last.type) for r in rest]
        start, f = self._read(first.args[0], first.type), array_round_of(last.type, len(rest))
        lost = [NAN] * prod(last.type.shape)

        def act(r: Slots) -> None:
            r[x], before = list(r[start]), INFINITE
            for _ in range(rounds):
                for each in body:
                    each(r)
                r[x], before, over = f(r[x], before, *(r[k] for k in where))
                if over:
                    return
            r[x] = lost

        return act

    def _action(self, i: Instruction) -> Action:
        if i.row.run in REFUSED:
            what, fix = REFUSED[i.row.run]
            raise PlanError(what, fix=fix)
        if i.row.run is not None:
            return HISTORIES[i.row.run](self, i)
        if i.row.value is None:
            return self._memory(i)
        named = Named(self)
        u = i.row.value(Given(named, i, f"`{i}`"))
        self.types[i.dst] = Type(u.dtype, u.shape)
        return self._compute(u, named, self._slot(i.dst))

    def _compute(self, u: UOp, named: Named, d: int) -> Action:
        """The value of a node, as ir/value.py defines it, from what its variables stand for."""
        f: Callable[..., Value]
        if u.op in (Ops.VAR, Ops.CONST):
            return copy(self._leaf(u, named), d)
        if u.op in ELEMENTWISE:
            one = of_one(u)
            leaves = [v for v in toposort([one]) if v.op is Ops.VAR]
            if one.op in MINIMAL and all(s.op in LEAVES for s in one.src):
                leaves, f = list(one.src), node(one)
            else:  # what it becomes may depend on a constant: x**2 is a product
                f = Expanded([one], [str(v.arg) for v in leaves]).first
            where = [self._leaf(v, named) for v in leaves]
            return call(each(f, [named.is_array(v) for v in leaves], u.size) if u.shape else f, d, where)
        if any(
            s.op not in LEAVES for s in u.src
        ):  # an expression of several arrays, such as a vector product
            arrays = tuple(v for v in toposort([u]) if v.op is Ops.VAR)
            return call(array_expression(u, arrays), d, [self._leaf(v, named) for v in arrays])
        names = tuple(UOp.var(f"x{k}", s.shape, s.dtype) for k, s in enumerate(u.src))
        plain = UOp(u.op, u.dtype, u.shape, names, u.arg)
        if u.op is Ops.LINE:
            return call(line_values(plain), d, [self._leaf(s, named) for s in u.src])
        if u.op is Ops.ELLIPTIC:
            solve = solved_expression(elliptic.expand(plain), names)
            return call(solve, d, [self._leaf(s, named) for s in u.src])
        if u.op is Ops.MESH:
            solve = solved_expression(mesh.expand(plain), names)
            return call(solve, d, [self._leaf(s, named) for s in u.src])
        f = array_expression(jacobi.expand(plain), names) if u.op in ORBITS else node(plain)
        return call(f, d, [self._leaf(s, named) for s in u.src])

    def _leaf(self, u: UOp, named: Named) -> int:
        if u.op is Ops.CONST:
            return self._constant(u.arg, Type(u.dtype, u.shape))
        return named.slots[str(u.arg)]

    def _near(self, i: Instruction) -> Action:
        """From the list of the run, made again if a point has gone too far since."""
        what, points, *rest, number = i.args
        assert isinstance(what, Word) and isinstance(number, tuple)
        q = self._type(points, i.type)
        types = [q, *(self._type(x, Type(q.dtype)) for x in rest)]
        sources = tuple(UOp.var(f"x{k}", t.shape, t.dtype) for k, t in enumerate(types))
        u = UOp(Ops.NEIGHBOURS, i.type.dtype, i.type.shape, sources, (what.text, *number))
        self.types[i.dst] = i.type
        d = self._slot(i.dst)
        at = [self._read(x, t) for x, t in zip(i.args[1:-1], types)]
        kept = self._slot(("list", number))
        self.lists[f"near{number[0]}"] = kept, q
        value = node(u)

        def look(r: Slots) -> None:
            now, *domain = (r[k] for k in at)
            cell = cell_of(u, domain[2:])
            far = limit(skin_of(domain[0], domain[1], cell))
            if r[kept] is None or moved(now, r[kept], q) > far:
                r[kept] = now
            r[d] = value(r[kept], *domain)

        return look

    def _memory(self, i: Instruction) -> Action:
        source = i.args[0]
        like = self.types.get(i.dst, i.type) if isinstance(source, float) else i.type
        if isinstance(i.dst, Pointer):  # what is stored has the type of the state
            self.types[i.dst] = like = self._type(source, i.type) if i.row.kind == "memory" else like
        return copy(self._read(source, like), self._slot(i.dst))

    def _propagate(self, i: Instruction) -> Action:
        states = [self._slot(Register("S", k)) for k in range(len(self.program.states))]
        params = {p.name: self._slot(Param(p.name)) for p in self.program.params}

        def jump(r: Slots) -> None:
            given = {name: r[k] if isinstance(r[k], list) else [r[k]] for name, k in params.items()}
            old = [r[k] if isinstance(r[k], list) else [r[k]] for k in states]
            for k, new, s in zip(
                states, propagated(self.program, i, old, given, r[DT], r[NOW]), self.program.states
            ):
                r[k] = new if s.type.shape else new[0]

        return jump

    # --- runs ---------------------------------------------------------------------------------
    def start(self, state: Mapping[str, Any], params: Mapping[str, Any], dt: float, t0: float = 0.0) -> Loop:
        """The registers after `init`."""
        slots: Slots = [None] * (len(self.slot) + FIRST)
        for slot, value in self.constants.items():
            slots[slot] = value
        slots[NOW], slots[DT], slots[T0] = 0, dt, t0
        low, high, below, above = (int(params.get(name, 0)) for name in ADDRESS)
        slots[SEED[0]], slots[SEED[1]], slots[MEMBER] = low, high, (above << MEMBER_BITS) + below
        for s in self.program.states:
            if s.name not in state:
                raise InputError(f"the state `{s.name}` is missing", fix=f"Pass {{{s.name!r}: ...}}.")
            slots[self._slot(Pointer(s.name))] = flatten(state[s.name], s.type, s.name)
        for p in self.program.params:
            value = dt if p.name == "dt" else params.get(p.name)
            if value is None:
                raise InputError(f"the parameter `{p.name}` is missing", fix=f"Pass {{{p.name!r}: ...}}.")
            if Param(p.name) in self.slot:
                slots[self.slot[Param(p.name)]] = flatten(value, p.type, p.name)
        loop = Loop(slots)
        self._run("init", loop)
        return loop

    def _run(self, section: str, loop: Loop) -> None:
        slots = loop.slots
        slots[NOW] = loop.steps
        for act in self.actions[section]:
            act(slots)

    def advance(self, loop: Loop, steps: int) -> None:
        actions, slots = self.actions["step"], loop.slots
        if not actions:  # a loop that was deleted
            loop.steps += steps
            return
        if self.gate:
            self._while(loop, steps)
            return
        for _ in range(steps):
            slots[NOW] = loop.steps
            for act in actions:
                act(slots)
            loop.steps += 1

    def _while(self, loop: Loop, steps: int) -> None:
        """Steps until they would change nothing; they are not counted: how many it takes is a number of the program's own."""
        actions, slots = self.actions["step"], loop.slots
        before, after = actions[: self.gate], actions[self.gate :]
        for _ in range(steps):
            for act in before:
                act(slots)
            if not slots[self.slot[Pointer(GOING)]]:
                return
            for act in after:
                act(slots)

    def state(self, loop: Loop) -> dict[str, Value]:
        """The loop's own state, flat: not synchronised."""
        return {s.name: loop.slots[self.slot[Register("S", i)]] for i, s in enumerate(self.program.states)}

    @property
    def outputs(self) -> dict[str, Type]:
        """What `final` stores or observes, by name."""
        return {i.dst.name: self.types[i.dst] for i in self.program.final if isinstance(i.dst, Pointer)}

    def final(self, loop: Loop) -> dict[str, Value]:
        """The outputs of a synchronised copy, flat; the loop goes on untouched."""
        copied = loop.copy()
        self._run("final", copied)
        return {name: copied.slots[self.slot[Pointer(name)]] for name in self.outputs}

    def energies(self, loop: Loop) -> list[float]:
        """The terms that the energy section declares, of a synchronised copy in the user's units."""
        copied = loop.copy()
        self._run("final", copied)
        self._run("energy", copied)
        count = sum(1 for i in self.program.energy if isinstance(i.dst, Register) and i.dst.kind == "E")
        return [copied.slots[self.slot[Register("E", k)]] for k in range(count)]


class Expression:
    """Scalar graphs as a function of their variables, compiled once and called often."""

    def __init__(self, roots: Sequence[UOp], names: Sequence[str]) -> None:
        order = toposort(roots)
        place = {u: k for k, u in enumerate(order)}
        self.inputs = [(place[u], names.index(u.arg)) for u in order if u.op is Ops.VAR]
        self.work = [(place[u], node(u), [place[s] for s in u.src]) for u in order if u.op is not Ops.VAR]
        self.size, self.roots = len(order), [place[r] for r in roots]

    def __call__(self, *values: Value) -> list[Value]:
        slots: Slots = [None] * self.size
        for slot, k in self.inputs:
            slots[slot] = values[k]
        for slot, f, where in self.work:
            slots[slot] = f(*(slots[w] for w in where))
        return [slots[r] for r in self.roots]


class Expanded:
    """Scalar graphs as the machines compute them: in the minimal operator set, fast path first."""

    def __init__(self, roots: Sequence[UOp], names: Sequence[str]) -> None:
        self.roots, self.names = inline(roots), names
        fast, guards = guarded(self.roots)
        self.fast = Expression([*fast, *guards], names)
        self.careful: Expression | None = None

    def __call__(self, *values: Value) -> list[Value]:
        out = self.fast(*values)
        if not any(out[len(self.roots) :]):
            return out[: len(self.roots)]
        if self.careful is None:
            self.careful = Expression(lower(self.roots), self.names)
        return self.careful(*values)

    def first(self, *values: Value) -> Value:
        return self(*values)[0]


@lru_cache(maxsize=64)
def round_of(n: int, by_matrix: bool) -> Expression:
    """(x..., before, residuals..., matrix..., scales...) to (x..., the size of the correction, whether it is over)."""
    x, r, m, w = (
        named(letter, count) for letter, count in (("x", n), ("r", n), ("m", n * n * by_matrix), ("w", n))
    )
    before = UOp.var("before")
    done = one_round(x, r, product(m, r) if by_matrix else r, [magnitude(s) for s in w], before)
    return Expression([*done.x, done.change, done.over], [str(v.arg) for v in (*x, before, *r, *m, *w)])


@lru_cache(maxsize=64)
def array_round_of(type_: Type, operands: int) -> Expression:
    """(x, before, residual, [correction], scale) to (x, the size of the correction, whether it is over)."""
    letters = ("x", "r", *("c" for _ in range(operands - 2)), "w")
    x, r, *c, w = (UOp.var(letter, type_.shape, type_.dtype) for letter in letters)
    before = UOp.var("before")
    done = array_round(x, r, c[0] if c else r, w, before)
    return Expression([*done.x, done.change, done.over], [str(v.arg) for v in (x, before, r, *c, w)])


@lru_cache(maxsize=64)  # a corrector has many stages that are alike
def array_expression(u: UOp, arrays: tuple[UOp, ...]) -> Callable[..., Value]:
    """An array expression of arrays, number by number."""
    (flat,) = unroll([u])
    given = [e for a in arrays for e in elements(a)]
    names = [f"y{k}" for k in range(len(given))]
    table = {e: UOp.var(name, (), e.dtype) for e, name in zip(given, names)}
    f = Expanded(substitute(flat, table), names)
    return lambda *arrays: f(*(x for a in arrays for x in (a if isinstance(a, list) else [a])))


class Named:
    """The operands of one instruction as variables, with the slots that they are read from."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.names: dict[Any, UOp] = {}
        self.slots: dict[str, int] = {}

    def name(self, key: Any, slot: int, type_: Type) -> UOp:
        if key not in self.names:
            self.names[key] = UOp.var(f"x{len(self.names)}", type_.shape, type_.dtype)
            self.slots[str(self.names[key].arg)] = slot
        return self.names[key]

    def read(self, x: Operand, like: Type, where: str) -> UOp:
        if isinstance(x, float):
            return UOp.const(x, like.dtype, like.shape)
        return self.name(x, self.machine._slot(x), self.machine._type(x, like))

    def time(self, i: Instruction, where: str) -> UOp:
        n, dt, t0 = (self.name(k, k, t) for k, t in ((NOW, Type(i64)), (DT, Type()), (T0, Type())))
        return instant(n.cast(f64), dt, t0, i.type.dtype, *i.args)

    def address(self) -> tuple[UOp, ...]:
        types = zip((*SEED, NOW, MEMBER), (u32, u32, i64, i64))
        return tuple(self.name(k, k, Type(dtype)) for k, dtype in types)

    def made(self, u: UOp, where: str) -> UOp:
        return u

    def is_array(self, v: UOp) -> bool:
        return any(u.arg == v.arg and u.shape for u in self.names.values())


# rounds are many instructions: Machine._solve
HISTORIES = {"list": Machine._near, "jump": Machine._propagate}
REFUSED = {
    "tree": ("the virtual machine does not support tree codes", "Leave approximate= out."),
    "series": (
        "the virtual machine does not run Taylor series in loops",
        'Choose backend="llvm" or "numpy".',
    ),
}


def of_one(u: UOp) -> UOp:
    """An elementwise expression, for one of its numbers."""
    if u.op is Ops.EXPAND:
        return of_one(u.src[0])
    return UOp(u.op, u.dtype, (), tuple(map(of_one, u.src)), u.arg)


def each(f: Callable[..., Value], many: Sequence[bool], size: int) -> Callable[..., Value]:
    """f for every number of arrays, with what is one number beside them."""
    single = [k for k, m in enumerate(many) if not m]

    def all_of(*given: Value) -> Value:
        x = list(given)
        for k in single:
            x[k] = repeat(x[k], size)
        return list(map(f, *x))

    return all_of if single else lambda *x: list(map(f, *x))


def copy(source: int, dst: int) -> Action:
    def act(r: Slots) -> None:
        r[dst] = r[source]

    return act


def call(f: Callable[..., Value], d: int, where: Sequence[int]) -> Action:
    """f on slots, without a loop over the operands in the usual cases."""
    if len(where) == 1:
        a = where[0]

        def one(r: Slots) -> None:
            r[d] = f(r[a])

        return one
    if len(where) == 2:
        a, b = where

        def two(r: Slots) -> None:
            r[d] = f(r[a], r[b])

        return two
    if len(where) == 3:
        a, b, c = where

        def three(r: Slots) -> None:
            r[d] = f(r[a], r[b], r[c])

        return three

    def many(r: Slots) -> None:
        r[d] = f(*(r[w] for w in where))

    return many


def run(
    program: Program,
    state: Mapping[str, Any],
    steps: int,
    params: Mapping[str, Any] | None = None,
    dt: float | None = None,
    t0: float = 0.0,
    seed: int = 0,
) -> dict[str, Any]:
    """The synchronised state after some steps, as nested lists; no step returns the input itself.

    What `params` and `dt` leave out are the defaults that the program declares. `seed` is that of NOISE.

    >>> from tinyphysics.tpir import parse
    >>> program = parse('''
    ... program drift
    ... state S0 q position
    ... state S1 p momentum of S0
    ... init:
    ...   LOAD S0, &q
    ...   LOAD S1, &p
    ... step:
    ...   GRAD_INIT G1, S1
    ...   POISSON_J F0, G1, pass
    ...   SYMP_STEP S0, F0, 0.5
    ... final:
    ...   STORE &q, S0
    ...   STORE &p, S1
    ... ''')
    >>> run(program, {"q": 1.0, "p": 2.0}, steps=3)
    {'q': 4.0, 'p': 2.0}
    """
    if not isinstance(program, Program):
        raise InputError(
            f"vm.run takes a Program, not a {type(program).__name__}", fix="tpir.parse(text) makes one."
        )
    if not isinstance(steps, int):
        raise InputError(f"steps={steps!r} is not a whole number", fix="Pass steps=1000.")
    known = [s.name for s in program.states] + [p.name for p in program.params]
    unknown = [name for name in state if name not in known]
    if unknown:
        raise InputError(
            f"the program has no state `{unknown[0]}`",
            fix=f"It has {', '.join(s.name for s in program.states)}.",
        )
    if steps < 0:
        raise InputError(f"steps={steps}", fix="A run has 0 steps or more; a negative dt goes back.")
    checked(seed=seed)
    given = {p.name: p.default for p in program.params} | dict(params or {})
    given |= dict(zip(ADDRESS, key_words(int(seed))))
    step = dt if dt is not None else given.get("dt")
    if step is None and any(p.name == "dt" for p in program.params):
        raise InputError("the program has a parameter `dt`", fix="Pass dt=0.01.")
    machine = Machine(program)
    loop = machine.start(state, given, 1.0 if step is None else step, t0)
    if steps == 0:
        out = {s.name: flatten(state[s.name], s.type, s.name) for s in program.states}
    else:
        machine.advance(loop, steps)
        out = machine.final(loop)
    return {s.name: nested(out[s.name], s.type.shape) for s in program.states}
