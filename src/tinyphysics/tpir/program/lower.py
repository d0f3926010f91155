"""From a step to a program: the only bridge from the graph to TP-IR.

What no state changes is computed once, in `init`. The flows of a block are computed before its first
update. A value is recomputed only after a state that it reads was rewritten.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tinyphysics.errors import PlanError
from tinyphysics.ir import Ops, UOp, graph_rewrite, substitute, toposort
from tinyphysics.ir.ops import CHOSEN, ELEMENTWISE
from tinyphysics.rules.calculus.solve import unknown_of
from tinyphysics.rules.functions.random import ADDRESS
from tinyphysics.rules.identities.denominators import one_division
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.identities.factors import common_numbers
from tinyphysics.rules.identities.fuse import fuse, long_dots, short_dots
from tinyphysics.rules.identities.invariant import reciprocals, set_aside
from tinyphysics.rules.identities.pair_roots import pair_roots
from tinyphysics.rules.identities.quotients import shared_quotients
from tinyphysics.rules.identities.real import pairwise, products
from tinyphysics.step import AS_GIVEN, AS_WRITTEN, MEETS, OWN_STEPS, Coordinates, Step, SubFlow, inverse
from tinyphysics.structure import structure_of
from tinyphysics.system import Parameter, State
from tinyphysics.tpir.program.isa import (
    SECTIONS,
    Instruction,
    Operand,
    Param,
    ParamDecl,
    Pointer,
    Program,
    Register,
    StateDecl,
    Type,
    Word,
)
from tinyphysics.tpir.program.values import REDUCTIONS
from tinyphysics.util import Site

REDUCED_BY = {name: op for op, name in REDUCTIONS.items()}


HALF = 32  # bits


def type_of(u: UOp) -> Type:
    return Type(u.dtype, u.shape)


def is_long(u: UOp) -> bool:
    """Is it a whole number that float64 does not hold?"""
    return u.op is Ops.CONST and u.dtype.is_int and int(float(u.arg)) != u.arg


class Current(dict[UOp, Operand]):
    """What is in registers now, and which of it reads a variable: a step may have thousands of blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: dict[UOp, dict[UOp, None]] = {}

    def __setitem__(self, u: UOp, register: Operand) -> None:
        super().__setitem__(u, register)
        for v in u.leaves:
            self.readers.setdefault(v, {})[u] = None

    def forget(self, variable: UOp, kept: UOp | None = None) -> None:
        """All that reads a variable, but for one."""
        for u in self.readers.pop(variable, {}):
            if u is kept:
                self.readers[variable] = {u: None}
            else:
                self.pop(u, None)

    def clear(self) -> None:
        super().clear()
        self.readers.clear()


class ProgramBuilder:
    """Instructions of one program, section by section, with values that are still current."""

    def __init__(
        self,
        states: Sequence[State],
        sites: Mapping[UOp, Site],
        coordinates: Coordinates = AS_GIVEN,
        time: UOp | None = None,
        bracket: str = "",
        tensor: tuple[UOp, ...] = (),
    ) -> None:
        self.index = {s.var: i for i, s in enumerate(states)}
        self.sites = sites
        self.coordinates, self.time, self.structure = (
            coordinates,
            time,
            structure_of(states, bracket, tensor),
        )
        # stages of `init` are alike only without what is computed once
        self.first = "once" if coordinates.computes() else "init"
        self.sections: dict[str, list[Instruction]] = {name: [] for name in (*SECTIONS, "once")}
        self.temporaries = 0
        self.lists: dict[tuple[UOp, ...], int] = {}  # lists of neighbours, by what they are made of
        self.versions: dict[tuple[str, int], int] = {}
        self.matrices: dict[UOp, UOp] = {}  # that are handed in for turns, by their times
        self.invariant: dict[UOp, Operand] = {}  # computed in init, valid everywhere
        self.current = Current()  # valid until a state that they read is rewritten

    def emit(self, section: str, op: str, *operands: Operand, u: UOp | None = None, note: str = "") -> None:
        type_ = type_of(u) if u is not None else Type()
        if u is not None and not note and u in self.sites:
            note = str(self.sites[u])
        self.sections[section].append(Instruction(op, operands, type_, note))

    def temporary(self, kind: str = "T") -> Register:
        self.temporaries += 1
        return Register(kind, self.temporaries - 1)

    def versioned(self, kind: str, index: int) -> Register:
        n = self.versions.get((kind, index), -1) + 1
        self.versions[kind, index] = n
        return Register(kind, index, n)

    def moves(self, u: UOp) -> bool:
        """Does any state, or the clock, change it, or the rounds of a solution?"""
        return any(s in u.leaves for s in self.index) or any(str(v.arg)[0] in "@?" for v in u.leaves)

    def operand(self, u: UOp, section: str) -> Operand:
        """Where the value of u is, computing what is missing."""
        for x in self.known([u]):
            self.place(x, section)
        return self._find(u)

    def known(self, roots: Sequence[UOp]) -> list[UOp]:
        """What roots are made of, in order, without what only the rounds of a solution in them know."""
        every = toposort(roots)
        if not any(x.op is Ops.SOLVE for x in every):
            return every
        free: dict[UOp, frozenset[UOp]] = {}
        for x in every:
            own = frozenset([x]) if x.op is Ops.VAR and str(x.arg).startswith("?") else frozenset()
            free[x] = own.union(*(free[s] for s in x.src))
            if x.op is Ops.SOLVE:
                free[x] -= {unknown_of(x)}
        return [x for x in every if all(v in self.current for v in free[x])]

    def solution(
        self,
        unknown: UOp,
        start: UOp,
        residual: UOp,
        scale: UOp,
        by: Sequence[UOp],
        rounds: int,
        section: str,
    ) -> Register:
        """An unknown between SOLVE and UNTIL; what does not hold it is computed before."""
        for x in self.known([start, scale, residual, *by]):
            if unknown not in x.leaves:
                self.place(x, section)
        register, first, size = self.temporary(), self.operand(start, section), self.operand(scale, section)
        self.emit(section, "SOLVE", register, first, u=unknown, note=" ")
        self.current[unknown] = register
        operands = [self.operand(u, section) for u in (residual, *by)]
        self.emit(section, "UNTIL", register, *operands, size, (rounds,), u=unknown, note=" ")
        self.current.forget(unknown, unknown)
        return register

    def _find(self, u: UOp) -> Operand:
        if u.op is Ops.CONST and not is_long(u):
            return float(u.arg)
        return self.invariant[u] if u in self.invariant else self.current[u]

    def place(self, u: UOp, section: str) -> None:
        if is_long(u) and u not in self.invariant:  # an operand is a float: it is put together of two
            high, low = int(u.arg) >> HALF, int(u.arg) & ((1 << HALF) - 1)
            parts = [UOp.const(x, u.dtype, u.shape) for x in (high, HALF, low)]
            shifted = UOp(Ops.SHL, u.dtype, u.shape, (parts[0], parts[1]))
            for x in (shifted, UOp(Ops.OR, u.dtype, u.shape, (shifted, parts[2]))):
                self.invariant[x] = register = self.temporary()
                self.compute(x, register, self.first)
            self.invariant[u] = register
        if u.op is Ops.CONST or u in self.invariant or u in self.current:
            return
        if (u.src[0] if u.op is Ops.EXPAND else u) in ADDRESS:  # NOISE knows where it is
            return
        if u.op is Ops.VAR:
            self._place_variable(u, section)
            return
        if u.op is Ops.SOLVE:
            start, scale, residual, *by = u.src
            unknown = unknown_of(u)
            found = self.solution(unknown, start, residual, scale, by, u.arg[1], section)
            self.current.forget(unknown)
            self.current[u] = found
            return
        fixed = not self.moves(u) and section != "energy"
        where = self.first if fixed else section
        register = self.temporary()
        self.compute(u, register, where)
        (self.invariant if fixed else self.current)[u] = register

    def _place_variable(self, u: UOp, section: str) -> None:
        name = str(u.arg)
        if u in self.index:
            computed = None if section == "energy" else self.coordinates.seen(self, u, section)
            self.current[u] = self.state(u) if computed is None else computed
        elif name.startswith("@"):  # the time that a block sees
            register = self.temporary()
            after, *word = name[1:].split(",")  # @c, or @c,e,word of a pair
            parts = (float(word[0]), Word(word[1])) if word else ()
            self.emit(section, "TIME", register, float(after), *parts, note="t")
            self.current[u] = register
        else:
            self.invariant[u] = Param(name)

    def _array(self, u: UOp, section: str) -> Operand:
        """A constant array in a register: a number as an operand says nothing about its shape."""
        table, where = (self.current, section) if section == "energy" else (self.invariant, self.first)
        if u not in table:
            table[u] = register = self.temporary()
            self.emit(where, "MOVE", register, Word("expand"), float(u.arg), u=u)
        return table[u]

    def compute(self, u: UOp, dst: Register, section: str) -> None:
        if u.op is Ops.RANDOM:
            kind, *numbers = u.arg
            self.emit(section, "NOISE", dst, Word(kind), self._find(u.src[-1]), tuple(numbers), u=u)
            return
        moves = u.op not in ELEMENTWISE
        typed = u.op in CHOSEN  # an index that is a number must say that it is a whole one
        src = [
            self._array(s, section) if moves and s.op is Ops.CONST and (s.shape or typed) else self._find(s)
            for s in u.src
        ]
        if u.op is Ops.FMA:
            self.emit(section, "FMA", dst, *src, u=u)
        elif u.op is Ops.REDUCE:
            self.emit(section, REDUCED_BY[u.arg[0]], dst, *src, *u.arg[1:], u=u)
        elif u.op is Ops.FOURIER:
            self.emit(section, "FOURIER", dst, *src, u.arg, u=u)
        elif u.op is Ops.ELLIPTIC:
            self.emit(section, "ELLIPTIC", dst, *src, *u.arg, u=u)
        elif u.op is Ops.MESH:
            what, order, along, grid = u.arg
            self.emit(section, "MESH", dst, Word(what), *src, (order, *along, *grid), u=u)
        elif u.op is Ops.NEIGHBOURS:
            number = self.lists.setdefault(u.src, len(self.lists))
            self.emit(section, "NEAR", dst, Word(u.arg[0]), *src, (number, *u.arg[2:]), u=u)
        elif u.op is Ops.TREE:
            self.emit(section, "TREE", dst, *src, *u.arg, u=u)
        elif u.op is Ops.LINE:
            self.emit(section, "LINE", dst, *src, u.arg, u=u)
        elif u.op in ELEMENTWISE:
            name = f"custom.{u.arg}" if u.op is Ops.CUSTOM else u.op.value
            self.emit(section, "ELEM", dst, Word(name), *src, u=u)
        else:
            arg = () if u.arg is None else (u.arg if isinstance(u.arg, tuple) else (u.arg,),)
            self.emit(section, "MOVE", dst, Word(u.op.value), *src, *arg, u=u)

    def emit_term(self, e: Register, energy: UOp, label: str) -> None:
        for u in energy.src:
            self.operand(u, "energy")
        if energy.src:
            self.compute(energy, e, "energy")
        else:
            self.emit("energy", "ELEM", e, Word("mul"), self.operand(energy, "energy"), 1.0, u=energy)
        last = self.sections["energy"].pop()
        self.sections["energy"].append(Instruction(last.op, last.operands, last.type, label))

    def rewritten(self, state: UOp) -> None:
        """Forget what was computed from the old value."""
        computed = self.coordinates.computes()  # then its register is not what it is to the user
        self.current.forget(state, None if computed else state)

    # --- for flows ----------------------------------------------------------------------------
    def state(self, u: UOp) -> Register:
        return Register("S", self.index[u])

    def partner(self, state: UOp) -> UOp:
        """The state by which an energy is derived to move this one."""
        found = self.structure.partner(state)
        assert found is not None
        return found

    def at(self, u: UOp, clock: float) -> UOp:
        """u with explicit time replaced by the time that its flow sees."""
        if self.time is None or self.time not in u.leaves:
            return u
        return substitute([u], {self.time: UOp.var(f"@{clock!r}")})[0]


def lower(
    step: Step,
    sites: Mapping[UOp, Site] | None = None,
    dt: float | None = None,
    precision: str = "float64",
    backwards: bool = False,
    works: str = "",
    books: str = "",
    beside: Sequence[State] = (),
    ready: bool = False,
) -> Program:
    """The program of a step; what may be fused or hoisted is decided here, before anything watches.

    With `works`, p_t is a state of that name: nothing reads it, so that the others have the bits that they have without.
    `books` says of which flows the works are followed: "drive", "friction"; all where it is empty.
    With `beside`, directions are moved beside the states, whose bits do not change either. A step that is `ready` has its
    arithmetic decided.
    """
    if beside:
        step = with_directions(step, beside, precision)
    elif not ready and OWN_STEPS not in step.traits:
        step = decided(step, precision)
    if works:
        step = with_time_momentum(step, works, books)
    if backwards:  # after that: its flows are those of the step, to the last bit
        step = inverse(step)
    b = ProgramBuilder(step.states, sites or {}, step.coordinates, step.time, step.bracket, step.tensor)
    for s in step.states:
        b.emit("init", "LOAD", b.state(s.var), Pointer(s.name), u=s.var, note=" ")
    energies = fuse(graph_rewrite([term.energy for term in step.terms], products))
    for k, (term, energy) in enumerate(zip(step.terms, energies)):
        b.emit_term(Register("E", k), b.at(energy, 0.0), term.label)
    for k, u in enumerate(fuse(graph_rewrite(list(step.tensor), products))):
        b.emit_term(Register("B", k), b.at(u, 0.0), step.bracket)
    b.current.clear()
    step.coordinates.enter(b)
    for section, flows in (("init", step.init), ("step", step.body), ("final", step.final)):
        b.current.clear()
        for flow in flows:
            flow.lower(b, section)
    step.coordinates.leave(b)
    for s in step.states:
        b.emit("final", "STORE", Pointer(s.name), b.state(s.var), note=" ")
    b.sections["init"] = [*b.sections["once"], *b.sections["init"]]
    declared = []
    for s in step.states:
        pair = b.index[b.partner(s.var)] if s.role == "momentum" else None
        declared.append(StateDecl(s.name, s.role, type_of(s.var), pair))
    params = [ParamDecl(p.name, type_of(p.var), p.default) for p in step.parameters]
    params += [ParamDecl(str(u.arg), type_of(u)) for u in b.matrices.values()]
    needed = ready or beside and any(f.declares_dt for f in step.body)
    if needed and all(p.name != "dt" for p in step.parameters) or all(f.declares_dt for f in step.body):
        params.insert(0, ParamDecl("dt", default=dt))
    return Program(
        step.name,
        step.claims,
        tuple(declared),
        tuple(params),
        *(tuple(replace(i, note=i.note.strip()) for i in b.sections[s]) for s in SECTIONS),
        bracket=step.bracket,
    )


# with a product and a sum of one rounding; other precisions have rules for each
DOTS = ("float64", "float32")


def arithmetic(roots: Sequence[UOp], states: frozenset[UOp], precision: str) -> dict[UOp, UOp]:
    """Each expression with its products fused and its divisions made fewer or cheaper, all of them together."""
    dots = long_dots if precision in DOTS else list
    return dict(zip(roots, dots(fuse(short_dots(divided(roots, states, precision))))))


def divided(roots: Sequence[UOp], states: frozenset[UOp], precision: str) -> list[UOp]:
    new = reciprocals(one_division(shared_quotients(graph_rewrite(roots, pairwise))), states)
    return pair_roots(new) if precision == "float64" else new  # what that is made of is float32


def changing(step: Step, roots: Sequence[UOp]) -> frozenset[UOp]:
    """States; random numbers change with every step, as those do, and unknowns with every round."""
    unknown = frozenset(v for u in roots for v in u.leaves if str(v.arg).startswith("?"))
    return frozenset(s.var for s in step.states) | ADDRESS | unknown


def decisions(step: Step, precision: str) -> Callable[[SubFlow], Mapping[UOp, UOp]]:
    """For each flow of a step what becomes of its expressions, once and for all; not of what a user wrote."""
    written = [u for f in step.flows if AS_WRITTEN in f.traits for u in f.expressions()]
    roots = [u for f in step.flows if AS_WRITTEN not in f.traits for u in f.expressions()]
    states = changing(step, roots)
    moving = states if step.time is None else states | {step.time}
    dots = long_dots if precision in DOTS else list
    new = arithmetic(roots, states, precision)
    as_written = dict(zip(written, dots(graph_rewrite(written, products))))

    def alone(values: Sequence[UOp]) -> list[UOp]:
        work, once = set_aside(graph_rewrite(divided(values, states, precision), exact), moving)
        return graph_rewrite(substitute(dots(fuse(short_dots(work))), once), exact)

    def known(f: SubFlow) -> Mapping[UOp, UOp]:
        table = as_written if AS_WRITTEN in f.traits else new
        own = f.private()
        return ChainMap(dict(zip(own, alone(own))), table) if own else table

    return known


def decided(step: Step, precision: str = "float64") -> Step:
    """The step with its arithmetic as programs have it."""
    known = decisions(step, precision)
    return step.each(lambda f: f.rebuilt(known(f)))


def with_directions(step: Step, beside: Sequence[State], precision: str) -> Step:
    """The step with directions as more states, each with a way of its own beside those of the step.

    What moves a state is what it was, to the last bit; what moves a direction is decided for itself.
    """
    known, moved = decisions(step, precision), tangents_of(step, beside)
    own = [
        u for f, found in moved.items() for g in found if g is not f for u in (*g.expressions(), *g.private())
    ]
    shorter = dict(zip(own, common_numbers(own)))
    made = arithmetic(list(shorter.values()), changing(step, own) | {s.var for s in beside}, precision)
    new = {u: made[x] for u, x in shorter.items()}

    def rebuilt(f: SubFlow) -> Iterator[SubFlow]:
        table = known(f)
        yield from (g.rebuilt(table if g is f else ChainMap(dict(table), new)) for g in moved[f])

    def each(part: tuple[SubFlow, ...]) -> tuple[SubFlow, ...]:
        return tuple(g for f in part for g in rebuilt(f))

    init, body, final = each(step.init), each(step.body), each(step.final)
    states = (*step.states, *beside, *more_beside(step, beside))
    return replace(step, states=states, init=init, body=body, final=final)


def ways_in(step: Step, beside: Sequence[State]) -> list[dict[UOp, UOp]]:
    # what a search remembers has no direction
    own = [s for s in step.states if MEETS not in step.traits or s.role != "auxiliary"]
    return ways_of(own, beside, step.parameters)


def more_beside(step: Step, beside: Sequence[State]) -> tuple[State, ...]:
    """What flows keep beside directions."""
    count = len(ways_in(step, beside))
    return tuple(s for f in step.flows for s in f.beside(count))


def tangents_of(step: Step, beside: Sequence[State]) -> dict[SubFlow, tuple[SubFlow, ...]]:
    """For each flow of a step what moves directions beside the states, with the flow itself."""
    ways = ways_in(step, beside)
    moved: dict[SubFlow, tuple[SubFlow, ...]] = {}
    for f in step.flows:
        seen = step.coordinates.as_seen(f)
        found = seen.tangent(ways)
        if found is None:
            raise PlanError(
                f"the derivative of `{step.name}` along a direction is not known",
                fix='Choose a method of kicks and drifts, or a Runge-Kutta method: method="leapfrog", method="rk4".',
            )
        moved[f] = tuple(f if g is seen else g for g in found)
    return moved


def lifted(step: Step, beside: Sequence[State]) -> Step:
    """The step with directions as more states, its arithmetic still to be decided."""
    moved = tangents_of(step, beside)
    init, body, final = (
        tuple(g for f in part for g in moved[f]) for part in (step.init, step.body, step.final)
    )
    states = (*step.states, *beside, *more_beside(step, beside))
    return replace(step, states=states, init=init, body=body, final=final)


DIRECTION = "d{}_{}"  # the name of a direction of a state


def ways_of(
    states: Sequence[State], beside: Sequence[State], parameters: Sequence[Parameter] = ()
) -> list[dict[UOp, UOp]]:
    """The directions among some states, a way each: one for every state, and for the parameters that have one."""
    known = {s.name: s.var for s in beside}
    ways: list[dict[UOp, UOp]] = []
    while all(DIRECTION.format(len(ways), s.name) in known for s in states):
        own = {s.name: s.var for s in states} | {p.name: p.var for p in parameters}
        every = {v: DIRECTION.format(len(ways), name) for name, v in own.items()}
        ways.append({v: known[name] for v, name in every.items() if name in known})
    return ways


def with_time_momentum(step: Step, name: str, books: str = "") -> Step:
    """The step with the momentum of explicit time as one more state, whose own expressions are decided for themselves."""
    old = [u for f in step.flows for u in f.works()]
    new = dict(zip(old, fuse(short_dots(graph_rewrite(old, products)))))
    p_t = UOp.var(name)
    followed = step.each(lambda f: f.followed(p_t, new) if books in ("", f.books) else f)
    return replace(followed, states=(*step.states, State(name, p_t, "auxiliary")))
