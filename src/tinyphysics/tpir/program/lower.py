"""From a step to a program: the only bridge from the graph to TP-IR.

What no state changes is computed once, in `init`. The flows of a block are computed before its first
update. A value is recomputed only after a state that it reads was rewritten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tinyphysics.ir import Ops, UOp, graph_rewrite, substitute, toposort
from tinyphysics.ir.ops import CHOSEN, ELEMENTWISE
from tinyphysics.rules.formulas.coupled import flowed, matrix_shape
from tinyphysics.rules.formulas.harmonic import turned
from tinyphysics.rules.functions.random import ADDRESS
from tinyphysics.rules.identities.denominators import one_division
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.identities.fuse import fuse, short_dots
from tinyphysics.rules.identities.invariant import reciprocals, set_aside
from tinyphysics.rules.identities.pair_roots import pair_roots
from tinyphysics.rules.identities.quotients import shared_quotients
from tinyphysics.rules.identities.real import pairwise, products
from tinyphysics.step import (
    DT,
    Assign,
    Block,
    Frame,
    Orbits,
    Part,
    Shear,
    Shift,
    Solve,
    Step,
    Turn,
    inverse,
    moves_of,
)
from tinyphysics.system import State
from tinyphysics.tpir.program.isa import (
    FLOW,
    GOING,
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


def type_of(u: UOp) -> Type:
    return Type(u.dtype, u.shape)


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


class Builder:
    """Instructions of one program, section by section, with values that are still current."""

    def __init__(
        self, states: Sequence[State], sites: Mapping[UOp, Site], frame: Frame | None = None
    ) -> None:
        self.index = {s.var: i for i, s in enumerate(states)}
        self.sites = sites
        self.frame = frame
        self.first = (
            "init" if frame is None else "once"
        )  # stages of `init` are alike only without what is computed once
        self.sections: dict[str, list[Instruction]] = {
            "energy": [],
            "once": [],
            "init": [],
            "step": [],
            "final": [],
        }
        self.temporaries = 0
        self.lists: dict[tuple[UOp, ...], int] = {}  # lists of neighbours, by what they are made of
        self.versions: dict[tuple[str, int], int] = {}
        self.flows: dict[UOp, UOp] = {}  # the matrices of turns, by their times
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
        for x in toposort([u]):
            self._place(x, section)
        return self._find(u)

    def _find(self, u: UOp) -> Operand:
        if u.op is Ops.CONST:
            return float(u.arg)
        return self.invariant[u] if u in self.invariant else self.current[u]

    def _place(self, u: UOp, section: str) -> None:
        if u.op is Ops.CONST or u in self.invariant or u in self.current:
            return
        if (u.src[0] if u.op is Ops.EXPAND else u) in ADDRESS:  # NOISE knows where it is
            return
        if u.op is Ops.VAR:
            self._place_variable(u, section)
            return
        fixed = not self.moves(u) and section != "energy"
        where = self.first if fixed else section
        register = self.temporary()
        self.compute(u, register, where)
        (self.invariant if fixed else self.current)[u] = register

    def _place_variable(self, u: UOp, section: str) -> None:
        name = str(u.arg)
        if u in self.index and self.frame is not None and section != "energy":
            self.current[u] = register = self.temporary()
            way = "places" if u is self.frame.q else "momenta"
            self.emit(section, "JACOBI", register, *self.jacobi(way, self.state(u)), u=u, note=" ")
        elif u in self.index:
            self.current[u] = Register("S", self.index[u])
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
            self.emit(section, REDUCED_BY[u.arg[0]], dst, src[0], *u.arg[1:], u=u)
        elif u.op is Ops.NEAR:
            number = self.lists.setdefault(u.src, len(self.lists))
            self.emit(section, "NEAR", dst, Word(u.arg[0]), *src, (number, *u.arg[2:]), u=u)
        elif u.op is Ops.TREE:
            self.emit(section, "TREE", dst, *src, *u.arg, u=u)
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
        kept = state if self.frame is None else None  # where its register is not what it is to the user
        self.current.forget(state, kept)

    # --- bodies on their orbits ---------------------------------------------------------------
    def state(self, u: UOp) -> Register:
        return Register("S", self.index[u])

    def jacobi(self, way: str, source: Operand) -> tuple[Operand, ...]:
        """The operands that bring rows of bodies into the frame, or back."""
        assert self.frame is not None
        return Word(way), source, self.operand(self.frame.masses, "once"), self.frame.order

    def change(self, section: str, ways: tuple[str, str]) -> None:
        """Both states into the frame, or back."""
        assert self.frame is not None
        for u, way in zip((self.frame.q, self.frame.p), ways):
            self.emit(section, "JACOBI", self.state(u), *self.jacobi(way, self.state(u)), u=u, note=" ")

    def go_on(self, orbits: Orbits, section: str) -> None:
        assert self.frame is not None
        f = self.frame
        h, gm = (
            self.operand(orbits.weight * DT if orbits.weight != 1.0 else DT, section),
            self.operand(f.gm, section),
        )
        parts = [(u, self.temporary(), k) for k, u in enumerate((f.q, f.p))]
        for u, register, k in parts:
            self.emit(
                section, "KEPLER", register, self.state(f.q), self.state(f.p), gm, h, (k,), u=u, note=" "
            )
        for u, register, _ in parts:
            self.emit(section, "ORBIT", self.state(u), register, u=u, note=" ")
            self.rewritten(u)

    def framed(self, flow: Register, u: UOp, section: str) -> Register:
        """A flow of the momenta as one of Jacobi velocities, without what the orbits know of it."""
        assert self.frame is not None
        seen, left = (self.versioned("F", flow.index) for _ in range(2))
        self.emit(section, "JACOBI", seen, *self.jacobi("velocities", flow), u=u, note=" ")
        gm = self.operand(self.frame.gm, section)
        self.emit(section, "PULL", left, seen, self.state(self.frame.q), gm, u=u, note=" ")
        return left

    # --- oscillators --------------------------------------------------------------------------
    def turn(self, step: Step, turn: Turn, section: str) -> None:
        """All pairs go on as their oscillators do; what no state changes of that is computed once."""
        h = DT if turn.weight == 1.0 else turn.weight * DT
        if step.coupled:
            self.flow(step, h, section)
            return
        new = [(u, value) for q, p, o in step.oscillators for u, value in zip((q, p), turned(q, p, o, h))]
        simple = graph_rewrite([value for _, value in new], exact)
        for u, register in [(u, self.operand(value, section)) for (u, _), value in zip(new, simple)]:
            self.emit(section, "ROTATE", self.state(u), register, u=u, note=" ")
            self.rewritten(u)

    def flow(self, step: Step, h: UOp, section: str) -> None:
        """All positions and momenta go on by a matrix, one for each time; the momentum of t is no part of it."""
        states = [s.var for s in step.states if s.role != "auxiliary"]
        if h not in self.flows:
            name = f"{FLOW}{len(self.flows)}"
            self.flows[h] = matrix = UOp.var(name, matrix_shape(states))
            self.invariant[matrix] = register = self.temporary()
            self.emit(
                self.first,
                "FLOW",
                register,
                Param(name),
                Register("E", 0),
                self.operand(h, section),
                u=matrix,
            )
        for u, value in [
            (u, self.operand(v, section)) for u, v in zip(states, flowed(states, self.flows[h]))
        ]:
            self.emit(section, "ROTATE", self.state(u), value, u=u, note=" ")
            self.rewritten(u)


def clocked(u: UOp, time: UOp | None, clock: float) -> UOp:
    """u with explicit time replaced by the clock of its block."""
    if time is None or time not in u.leaves:
        return u
    return substitute([u], {time: UOp.var(f"@{clock!r}")})[0]


def lower_block(b: Builder, block: Block, section: str, step_time: UOp | None) -> None:
    flows: list[tuple[Register, Register, float]] = []
    for shear in block.shears:
        target = b.index[shear.state]
        if isinstance(shear, Shift):
            new = b.operand(clocked(shear.value, step_time, block.clock), section)
            assert isinstance(new, Register)
            flows.append((Register("S", target), new, 1.0))
            continue
        covector = clocked(shear.covector, step_time, block.clock)
        flow = b.versioned("F", target)
        if shear.kind == "force":
            value: Operand = b.operand(covector, section)
            if not isinstance(value, Register) or value.kind != "T":
                copy = b.temporary()
                b.emit(section, "ELEM", copy, Word("mul"), value, 1.0, u=covector)
                value = copy
        else:
            pair = b.index[conjugate(shear.state, b)]
            g = b.versioned("G", pair)
            if covector.op is Ops.FMA and covector not in b.current and b.moves(covector):
                for s in covector.src:
                    b.operand(s, section)
                b.compute(covector, g, section)
            else:
                b.emit(section, "GRAD_INIT", g, b.operand(covector, section), u=covector)
            value = g
        b.emit(section, "POISSON_J", flow, value, Word(shear.kind), u=shear.state, note=" ")
        if b.frame is not None:
            flow = b.framed(flow, shear.state, section)
        flows.append((Register("S", target), flow, shear.weight))
    for (state, flow, weight), shear in zip(flows, block.shears):
        if isinstance(shear, Shift):
            b.emit(section, "SHIFT", state, flow, u=shear.state, note=shear.note)
        else:
            h = b.operand(DT if weight == 1.0 else weight * DT, section)
            b.emit(section, "SYMP_STEP", state, flow, h, u=shear.state, note=" ")
        b.rewritten(shear.state)


def lower_solve(b: Builder, solve: Solve, section: str, time: UOp | None) -> None:
    """An unknown between SOLVE and UNTIL; what does not hold it is computed before."""
    clock = solve.moves.clock if isinstance(solve.moves, Block) else 0.0
    start, residual, scale, *matrix = (clocked(u, time, clock) for u in solve.expressions)
    for x in toposort([start, scale, residual, *matrix]):
        if solve.unknown not in x.leaves:
            b._place(x, section)
    register, first, size = b.temporary(), b.operand(start, section), b.operand(scale, section)
    b.emit(section, "SOLVE", register, first, u=solve.unknown, note=" ")
    b.current[solve.unknown] = register
    operands = [b.operand(u, section) for u in (residual, *matrix)]
    b.emit(section, "UNTIL", register, *operands, size, (solve.rounds,), u=solve.unknown, note=" ")
    b.current.forget(solve.unknown, solve.unknown)
    if isinstance(solve.moves, Block):
        lower_block(b, solve.moves, section, time)
    else:
        assign(b, solve.moves, section, time)
    b.current.forget(solve.unknown)


def assign(b: Builder, assigned: Sequence[Assign], section: str, time: UOp | None) -> None:
    """New values for states, all computed before the first is put in its place."""
    values = [b.operand(clocked(a.value, time, 0.0), section) for a in assigned]
    for k, (a, value) in enumerate(zip(assigned, values)):
        if isinstance(value, Register) and value.kind == "S":  # its old value, whatever is assigned first
            values[k] = copy = b.temporary()
            b.emit(section, "MOVE", copy, Word("reshape"), value, u=a.state)
    for a, value in zip(assigned, values):
        b.emit(section, "MAP", Register("S", b.index[a.state]), value, u=a.state)
        b.rewritten(a.state)


def conjugate(state: UOp, b: Builder) -> UOp:
    """States are declared as q, p, q, p, ...: the neighbour is the other half of the pair."""
    i = b.index[state]
    return next(v for v, k in b.index.items() if k == (i ^ 1))


def lower(
    step: Step,
    sites: Mapping[UOp, Site] | None = None,
    dt: float | None = None,
    precision: str = "float64",
    backwards: bool = False,
    works: str = "",
) -> Program:
    """The program of a step; what may be fused or hoisted is decided here, before anything watches.

    With `works`, p_t is a state of that name: nothing reads it, so that the others have the bits that they have without.
    """
    step = (
        decided(step, precision) if step.going is None else step
    )  # that one says itself what is fused, and what is lost
    if works:
        step = with_works(step, works)
    if backwards:  # after that: its flows are those of the step, to the last bit
        step = inverse(step)
    b = Builder(step.states, sites or {}, step.frame)
    for i, s in enumerate(step.states):
        b.emit("init", "LOAD", Register("S", i), Pointer(s.name), u=s.var, note=" ")
    energies = fuse(graph_rewrite([term.energy for term in step.terms], products))
    for k, (term, energy) in enumerate(zip(step.terms, energies)):
        b.emit_term(Register("E", k), clocked(energy, step.time, 0.0), term.label)
    b.current.clear()
    for scale in step.scales:
        factor = b.operand(scale.factor, "init")
        b.emit(
            "init",
            "SCALE",
            Register("S", b.index[scale.state]),
            Word("times"),
            factor,
            u=scale.state,
            note=" ",
        )
    if step.frame is not None:
        b.change("init", ("positions", "velocities"))
    for section, blocks in (("init", step.init), ("step", step.body), ("final", step.final)):
        b.current.clear()
        if section == "step" and step.going is not None:
            b.emit(section, "OBSERVE", Pointer(GOING), b.operand(step.going, section), u=step.going, note=" ")
        assign(b, [x for x in blocks if isinstance(x, Assign)], section, step.time)
        for block in blocks:
            if isinstance(block, Block):
                lower_block(b, block, section, step.time)
            elif isinstance(block, Solve):
                lower_solve(b, block, section, step.time)
            elif isinstance(block, Orbits):
                b.go_on(block, section)
            elif isinstance(block, Turn):
                b.turn(step, block, section)
    if step.loops is not None:
        b.current.clear()
        rates = [b.operand(u, "step") for u in step.loops.rates]
        b.emit(
            "step", "SERIES", Register("S", 0), *rates, (step.loops.order,), u=step.states[0].var, note=" "
        )
    if step.jump is not None:
        pairs = [x for k, w in step.jump.parts for x in (Register("E", k), float(w))]
        b.emit(
            "final",
            "PROPAGATE",
            Register("S", 0),
            Word(step.jump.way),
            *pairs,
            u=step.states[0].var,
            note=" ",
        )
    for scale in step.scales:
        factor = b.operand(scale.factor, "final")
        b.emit(
            "final",
            "SCALE",
            Register("S", b.index[scale.state]),
            Word("over"),
            factor,
            u=scale.state,
            note=" ",
        )
    if step.frame is not None:
        b.change("final", ("places", "momenta"))
    for i, s in enumerate(step.states):
        b.emit("final", "STORE", Pointer(s.name), Register("S", i), note=" ")
    b.sections["init"] = [*b.sections["once"], *b.sections["init"]]
    declared = []
    for i, s in enumerate(step.states):
        declared.append(StateDecl(s.name, s.role, type_of(s.var), i - 1 if s.role == "momentum" else None))
    params = [ParamDecl(p.name, type_of(p.var), p.default) for p in step.parameters]
    params += [ParamDecl(str(u.arg), type_of(u)) for u in b.flows.values()]
    if not any(isinstance(x, Assign) for x in step.body) and step.loops is None:
        params.insert(0, ParamDecl("dt", default=dt))
    return Program(
        step.name,
        step.claims,
        tuple(declared),
        tuple(params),
        *(tuple(_plain(i) for i in b.sections[s]) for s in ("energy", "init", "step", "final")),
    )


def _plain(i: Instruction) -> Instruction:
    return Instruction(i.op, i.operands, i.type, i.note.strip())


def shears_in(b: object) -> list[Shear]:
    return [s for s in b.shears if isinstance(s, Shear)] if isinstance(b, Block) else []


def is_written(b: object) -> bool:
    """Did a user write what it computes?  A map, forces, or rates; derivatives of an energy are ours."""
    return b.as_written if isinstance(b, Assign) else any(s.kind == "force" for s in shears_in(b))


def decided(step: Step, precision: str = "float64") -> Step:
    """The step with its products fused and its divisions made fewer or cheaper, once and for all; not what a user wrote."""
    states = (
        frozenset(s.var for s in step.states) | ADDRESS
    )  # random numbers change with every step, as states do
    groups = (step.init, step.body, step.final)
    solves = [b for blocks in groups for b in blocks if isinstance(b, Solve)]
    states |= {b.unknown for b in solves}

    written = [
        u
        for blocks in groups
        for b in blocks
        for u in ([b.value] if isinstance(b, Assign) else [s.covector for s in shears_in(b)])
        if is_written(b)
    ]  # by a user, to be run: operations in the order of the expression, each rounded once

    def read(b: Part | tuple[Assign, ...]) -> list[UOp]:
        if is_written(b):
            return []
        if isinstance(b, Solve):
            return [*b.expressions, *read(b.moves)]
        if isinstance(b, tuple):
            return [a.value for a in b]
        return (
            [b.value]
            if isinstance(b, Assign)
            else []
            if isinstance(b, (Orbits, Turn))
            else [s.covector for s in b.shears if isinstance(s, Shear)]
        )

    roots = [u for blocks in groups for b in blocks for u in read(b)]

    def divided(roots: Sequence[UOp]) -> list[UOp]:
        new = reciprocals(one_division(shared_quotients(graph_rewrite(roots, pairwise))), states)
        return pair_roots(new) if precision == "float64" else new  # what that is made of is float32

    new = dict(zip(roots, fuse(short_dots(divided(roots)))))
    as_written = dict(zip(written, graph_rewrite(written, products)))

    def shifted(b: Block) -> dict[UOp, UOp]:
        """The values of a block, for themselves: what another block computes is not the same after an update."""
        values = [s.value for s in b.shears if isinstance(s, Shift)]
        if not values:
            return {}
        moving = states if step.time is None else states | {step.time}
        work, once = set_aside(graph_rewrite(divided(values), exact), moving)
        return dict(zip(values, graph_rewrite(substitute(fuse(short_dots(work)), once), exact)))

    def rebuilt(blocks: Sequence[Part]) -> tuple[Part, ...]:
        out: list[Part] = []
        for b in blocks:
            if isinstance(b, (Orbits, Turn)):
                out.append(b)
            elif isinstance(b, Solve):
                moves = (
                    tuple(Assign(a.state, new[a.value]) for a in b.moves)
                    if isinstance(b.moves, tuple)
                    else rebuilt([b.moves])[0]
                )
                assert not isinstance(moves, (Orbits, Turn, Assign, Solve))
                out.append(
                    replace(
                        b,
                        start=new[b.start],
                        residual=new[b.residual],
                        scale=new[b.scale],
                        moves=moves,
                        matrix=None if b.matrix is None else new[b.matrix],
                    )
                )
            elif isinstance(b, Assign):
                out.append(Assign(b.state, (as_written if b.as_written else new)[b.value], b.as_written))
            else:
                own = as_written if is_written(b) else new
                values = shifted(b)
                shears = tuple(
                    replace(s, value=values[s.value])
                    if isinstance(s, Shift)
                    else replace(s, covector=own[s.covector])
                    for s in b.shears
                )
                out.append(Block(shears, b.clock, b.works))
        return tuple(out)

    return replace(step, init=rebuilt(step.init), body=rebuilt(step.body), final=rebuilt(step.final))


def with_works(step: Step, name: str) -> Step:
    """The step with the momentum of explicit time as one more state, whose own expressions are decided for themselves."""
    groups = (step.init, step.body, step.final)
    blocks = [b for parts in groups for part in parts for b in [moves_of(part)] if b is not None]
    old = [s.covector for b in blocks for s in b.works]
    new = dict(zip(old, fuse(short_dots(graph_rewrite(old, products)))))
    p_t = UOp.var(name)

    def joined(b: Part) -> Part:
        if isinstance(b, Solve) and isinstance(b.moves, Block):
            moves = joined(b.moves)
            assert isinstance(moves, Block)
            return replace(b, moves=moves)
        if not isinstance(b, Block):
            return b
        return replace(
            b, shears=(*b.shears, *(replace(s, state=p_t, covector=new[s.covector]) for s in b.works))
        )

    init, body, final = (tuple(map(joined, parts)) for parts in groups)
    return replace(
        step, states=(*step.states, State(name, p_t, "auxiliary")), init=init, body=body, final=final
    )
