"""Is a step one of two copies of the system, projected symmetrically?  Then it is symplectic in the space of the user.

The copies u and v begin at y + d and y - d. Flows of H(q of u, p of v) and of H(q of v, p of u), in turn, move them; d is
solved for so that u - v + 2 d vanishes, and y becomes (u + v)/2. Each flow is exact, so their product is symplectic in
the doubled space, and the projection brings that to the space itself (Jayawardana & Ohsawa 2023). Flow after flow is
looked for in the program: what is found gets a name, so that what is made of it stays short.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, elements, substitute, toposort
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.identities.real import simplify
from tinyphysics.tpir.program.isa import Program, Register
from tinyphysics.tpir.program.liveness import reads_before_writing
from tinyphysics.tpir.program.symbolic import Symbolic, clocks, state_of, state_var
from tinyphysics.tpir.proof.sizes import is_over_size
from tinyphysics.tpir.proof.units import DT, moving

MOST_FLOWS = 19


class NotCopies(Exception):
    """Why it is not shown."""


def values_of(program: Program) -> tuple[UOp, list[UOp]]:
    """(the solution, what every state becomes), as expressions of the states that a step begins with."""
    symbolic = Symbolic(program)
    root: UOp | None = None
    moved: dict[int, UOp] = {}
    for number, section, i in program.numbered():
        where = f"step {number} `{i}`"
        if section == "energy" or i.row.writes == "&":
            continue
        if i.op == "LOAD":
            assert isinstance(i.dst, Register)
            symbolic.load(i.dst.index)
        elif i.op == "MAP" and section == "step":
            assert isinstance(i.dst, Register)
            moved[i.dst.index] = symbolic.read(i.args[0], i.type, where)
            symbolic.load(i.dst.index)
        elif isinstance(i.dst, Register) and i.dst.kind == "S" or i.row.numbers == "drawn":
            raise NotCopies(f"{where} is no part of a step of two copies")
        else:
            value = symbolic.value(i, where)
            assert value is not None
            symbolic.env[i.dst] = value
            if value.op is Ops.SOLVE:
                if root is not None:
                    raise NotCopies(f"{where} is a second solution")
                root = value
    rewritten = {i.dst for i in program.step}
    for r in reads_before_writing((*program.step, *program.final)):
        if r.kind != "S" and (r in rewritten or moving(symbolic.env.get(r, UOp.const(0.0)))):
            raise NotCopies(f"{r} is carried from step to step")
    if root is None or len(moved) != len(program.states):
        raise NotCopies("not every state is moved by the solution")
    values = [moved[k] for k in range(len(program.states))]
    for u in (root, *values):
        if any(
            state_of(v) is not None and v is not state_var(program, state_of(v) or 0, 0) for v in u.leaves
        ):
            raise NotCopies("a state is read after another was moved")
    return root, values


def by_depth(roots: Sequence[UOp]) -> list[UOp]:
    """All nodes, those that are made of little first."""
    depth: dict[UOp, int] = {}
    for u in toposort(roots):
        depth[u] = 1 + max((depth[s] for s in u.src), default=0)
    return sorted(depth, key=depth.__getitem__)


class Copies:
    """The flows of a step of two copies, by their lengths in units of dt; NotCopies if it is none."""

    def __init__(self, program: Program, terms: Sequence[UOp], normal: Normal) -> None:
        self.program, self.normal = program, normal
        root, values = values_of(program)
        states = [state_var(program, k, 0) for k in range(len(program.states))]
        self.z = [e for s in states for e in elements(s)]
        self.momenta = [
            program.states[k].role == "momentum" for k, s in enumerate(states) for _ in range(s.size)
        ]
        if root.shape != (len(self.z),):
            raise NotCopies("there is not one unknown for each number of the state")
        unknown = UOp.var(root.arg[0], root.shape)
        start, scale, residual, *_ = root.src
        if not is_over_size(scale):
            raise NotCopies("the scale of its equations is not shown to be one over the size of the states")
        self.begins = all(
            normal.same(x, UOp.const(0.0)) for x in unroll([substitute([start], {DT: UOp.const(0.0)})[0]])[0]
        )
        parts = unroll([residual, *substitute(values, {root: unknown})])
        self.d = elements(unknown)
        self.roots = [x for group in parts for x in group]
        self.slopes = self.declared(terms, states)
        self.weights: list[Fraction] = []
        self.follow()

    def declared(self, terms: Sequence[UOp], states: list[UOp]) -> list[UOp]:
        energy = UOp.sum_of(terms)
        if clocks(energy):
            raise NotCopies("the energy depends on time explicitly")
        ((scalar,),) = unroll([energy])
        g = dict(zip(self.z, simplify(gradient(scalar, self.z))))
        out = []
        for k in range(len(states)):
            pair = self.program.conjugate(k)
            if pair is None:
                raise NotCopies(f"S{k} has no conjugate")
            sign = self.program.states[k].role == "momentum"
            out += [-g[e] if sign else g[e] for e in elements(states[pair])]
        return out

    def follow(self) -> None:
        """Flow after flow, until the residuals are those of the projection."""
        plus, minus = ({k: self.z[k] + sign * x for k, x in enumerate(self.d)} for sign in (1.0, -1.0))
        copies = (list(self.named(plus, "first").values()), list(self.named(minus, "second").values()))
        for stage in range(MOST_FLOWS):
            first, second = copies if stage % 2 == 0 else copies[::-1]
            self.flow(stage, first, second)
            if self.ends(*copies):
                return
        raise NotCopies(f"flows of copies are followed up to {MOST_FLOWS}, and it has more")

    def flow(self, stage: int, first: list[UOp], second: list[UOp]) -> None:
        """The flow of H at the positions of one copy and the momenta of the other: its slopes named, its length found."""
        at = dict(zip(self.z, (b if is_p else a for a, b, is_p in zip(first, second, self.momenta))))
        wanted = substitute(self.slopes, at)
        names: dict[int, UOp] = {}
        table: dict[UOp, UOp] = {}
        nodes = by_depth(self.roots)
        for k, g in enumerate(wanted):
            if not self.normal.form(g):
                continue
            names[k], reads = g, g.leaves  # as it is, where it is not found: a copy may be a slope itself
            for u in nodes:
                if u.op in (Ops.CONST, Ops.VAR) or u.shape or u.leaves != reads:
                    continue
                if (r := self.normal.ratio(u, g)) is not None:
                    names[k] = UOp.var(f"slope {stage}.{k}")
                    table[u] = names[k] if r == 1 else UOp.const(float(r)) * names[k]
                    break
        self.roots = substitute(self.roots, table)
        self.weights.append(self.length(names, first, second))
        h = UOp.const(float(self.weights[-1]))
        for copy, own in ((first, True), (second, False)):
            moved = {k: copy[k] + h * (DT * name) for k, name in names.items() if self.momenta[k] is own}
            for k, u in self.named(moved, f"copy {stage}").items():
                copy[k] = u

    def named(self, values: dict[int, UOp], prefix: str) -> dict[int, UOp]:
        """The values by names, where they are found in the program; what is made of them is short then."""
        nodes, out, table = by_depth(self.roots), dict(values), dict[UOp, UOp]()
        for k, value in values.items():
            found = next(
                (
                    u
                    for u in nodes
                    if u.op not in (Ops.CONST, Ops.VAR)
                    and not u.shape
                    and u.leaves == value.leaves
                    and self.normal.same(u, value)
                ),
                None,
            )
            if found is not None:
                out[k] = table[found] = UOp.var(f"{prefix}.{k}")
        self.roots = substitute(self.roots, table)
        return out

    def length(self, names: dict[int, UOp], first: list[UOp], second: list[UOp]) -> Fraction:
        for u in by_depth(self.roots):
            for k, name in names.items():
                old = first[k] if self.momenta[k] else second[k]
                if not u.shape and name.leaves <= u.leaves <= old.leaves | name.leaves | {DT}:
                    h = self.normal.ratio(u - old, DT * name)
                    if h is not None:
                        return h
        raise NotCopies("a flow of the copies by slopes of the declared energy is not found")

    def ends(self, u: list[UOp], v: list[UOp]) -> bool:
        n = len(self.z)
        half = UOp.const(0.5)
        wanted = [
            *(half * (a - b) + x for a, b, x in zip(u, v, self.d)),
            *(half * (a + b) for a, b in zip(u, v)),
        ]
        if len(self.roots) != 2 * n or any(r.leaves != w.leaves for r, w in zip(self.roots, wanted)):
            return False  # what reads something else is not looked at: it may be long
        return all(self.normal.same(r, w) for r, w in zip(self.roots, wanted))
