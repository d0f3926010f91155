"""Is a step one of two copies of the system, projected symmetrically?  Then it is symplectic in the space of the user.

The copies u and v begin at y + d and y - d. Flows of H(q of u, p of v) and of H(q of v, p of u), in turn, move them; d is
solved for so that u - v + 2 d vanishes, and y becomes (u + v)/2. Each flow is exact, so their product is symplectic in
the doubled space, and the projection brings that to the space itself (Jayawardana & Ohsawa 2023). Flow after flow is
looked for in the program: what is found gets a name, so that what is made of it stays short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from tinyphysics.errors import TraceError
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, elements, substitute, toposort
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import TooLarge
from tinyphysics.rules.identities.real import simplify
from tinyphysics.tpir.program.isa import Instruction, Program, Register
from tinyphysics.tpir.program.symbolic import clocks, state_of, state_var
from tinyphysics.tpir.proof.blocks import Blocks
from tinyphysics.tpir.proof.certificate import Verdict, five
from tinyphysics.tpir.proof.solutions import (
    RESIDUAL,
    energy_reversible,
    has_own_steps,
    is_over_size,
    numbers_moved,
    refused,
    solved_alike,
    solves,
    too_much,
)
from tinyphysics.tpir.proof.units import DT
from tinyphysics.tpir.proof.walk import NotShown, Walk
from tinyphysics.tpir.proof.weights import TOL

MOST_FLOWS = 19


def by_depth(roots: Sequence[UOp]) -> list[UOp]:
    """All nodes, those that are made of little first."""
    depth: dict[UOp, int] = {}
    for u in toposort(roots):
        depth[u] = 1 + max((depth[s] for s in u.src), default=0)
    return sorted(depth, key=depth.__getitem__)


class DoubledReader:
    """The flows of a step of two copies, by their lengths in units of dt."""

    name, refusal, by_derivatives = "", "is no part of a step of two copies", True
    rank = 20

    def __init__(self, program: Program) -> None:
        self.program = program
        self.walk = Walk(program, Blocks(program).terms)  # malformed lines are said first
        self.normal = self.walk.normal
        self.root: UOp | None = None
        self.moved: dict[int, UOp] = {}
        self.weights: list[Fraction] = []
        try:
            self.walk.read(self)
            self.understand(*self.values())
        except NotShown as why:
            self.walk.trouble = f"it is not read as a step of two copies, nor of stages: {why}"
        except (TooLarge, TraceError) as error:
            self.walk.trouble = too_much(error)

    @staticmethod
    def has(program: Program) -> bool:
        return solves(program) and not has_own_steps(program) and any(i.op == "MAP" for i in program.step)

    # --- reading the program ------------------------------------------------------------------
    def take(self, walk: Walk, i: Instruction) -> bool:
        if i.row.kind == "memory":
            return False
        if i.op == "MAP" and walk.section == "step":
            assert isinstance(i.dst, Register)
            self.moved[i.dst.index] = walk.symbolic.read(i.args[0], i.type, walk.where)
            walk.symbolic.load(i.dst.index)
        elif isinstance(i.dst, Register) and i.dst.kind == "S" or i.row.numbers == "drawn":
            raise NotShown(f"{walk.where} {self.refusal}")
        elif i.row.kind == "close":
            if self.root is not None:
                raise NotShown(f"{walk.where} is a second solution")
            self.root = walk.value(i)
        else:
            return False
        return True

    def close(self, walk: Walk) -> None:
        if walk.section == "final":
            for r in walk.carried:
                raise NotShown(f"{r} is carried from step to step")

    def values(self) -> tuple[UOp, list[UOp]]:
        """(the solution, what every state becomes), as expressions of the states that a step begins with."""
        root, moved, program = self.root, self.moved, self.program
        if root is None or len(moved) != len(program.states):
            raise NotShown("not every state is moved by the solution")
        values = [moved[k] for k in range(len(program.states))]
        for u in (root, *values):
            if any(
                state_of(v) is not None and v is not state_var(program, state_of(v) or 0, 0) for v in u.leaves
            ):
                raise NotShown("a state is read after another was moved")
        return root, values

    # --- its flows ----------------------------------------------------------------------------
    def understand(self, root: UOp, values: list[UOp]) -> None:
        program, normal = self.program, self.normal
        states = [state_var(program, k, 0) for k in range(len(program.states))]
        self.z = [e for s in states for e in elements(s)]
        self.momenta = [
            program.states[k].role == "momentum" for k, s in enumerate(states) for _ in range(s.size)
        ]
        if root.shape != (len(self.z),):
            raise NotShown("there is not one unknown for each number of the state")
        unknown = UOp.var(root.arg[0], root.shape)
        start, scale, residual, *_ = root.src
        if not is_over_size(scale):
            raise NotShown("the scale of its equations is not shown to be one over the size of the states")
        self.begins = all(
            normal.same(x, UOp.const(0.0)) for x in unroll([substitute([start], {DT: UOp.const(0.0)})[0]])[0]
        )
        parts = unroll([residual, *substitute(values, {root: unknown})])
        self.d = elements(unknown)
        self.roots = [x for group in parts for x in group]
        self.slopes = self.declared(self.walk.terms, states)
        self.follow()

    def declared(self, terms: Sequence[UOp], states: list[UOp]) -> list[UOp]:
        energy = UOp.sum_of(terms)
        if clocks(energy):
            raise NotShown("the energy depends on time explicitly")
        ((scalar,),) = unroll([energy])
        return numbers_moved(self.program, states, dict(zip(self.z, simplify(gradient(scalar, self.z)))))

    def follow(self) -> None:
        """Flow after flow, until the residuals are those of the projection."""
        plus, minus = ({k: self.z[k] + sign * x for k, x in enumerate(self.d)} for sign in (1.0, -1.0))
        copies = (list(self.named(plus, "first").values()), list(self.named(minus, "second").values()))
        for stage in range(MOST_FLOWS):
            first, second = copies if stage % 2 == 0 else copies[::-1]
            self.flow(stage, first, second)
            if self.ends(*copies):
                return
        raise NotShown(f"flows of copies are followed up to {MOST_FLOWS}, and it has more")

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
            able = (u for u in nodes if not u.shape and u.leaves == value.leaves)
            own = (u for u in able if u.op not in (Ops.CONST, Ops.VAR))
            found = next((u for u in own if self.normal.same(u, value)), None)
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
        raise NotShown("a flow of the copies by slopes of the declared energy is not found")

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

    # --- verdicts -----------------------------------------------------------------------------
    def verdicts(self) -> Mapping[str, Verdict]:
        """What is known of exact flows of two copies that are projected symmetrically."""
        if self.walk.trouble:
            return refused(self.walk.trouble)
        symplectic = Verdict(True, f"flows of two copies, and a symmetric projection, {RESIDUAL}")
        palindrome = all(abs(x - y) <= TOL for x, y in zip(self.weights, reversed(self.weights)))
        symmetric = Verdict(True, "its flows are a palindrome, and its projection symmetric")
        if not palindrome or len(self.weights) % 2 == 0:
            symmetric = Verdict(False, "its flows are not a palindrome")
        symmetric = solved_alike(self.walk, symmetric)
        return five(
            symplectic, symplectic, symmetric, energy_reversible(self.walk, symmetric), self.consistent()
        )

    def consistent(self) -> Verdict:
        totals = [sum(self.weights[k::2], Fraction(0)) for k in (0, 1)]
        if any(abs(x - 1) > TOL for x in totals):
            return Verdict(
                False, f"the slopes enter with total weights {float(totals[0]):g} and {float(totals[1]):g}"
            )
        if not self.begins:
            return Verdict(False, "the copies are not shown to begin together as dt vanishes")
        if self.walk.jump:
            return Verdict(False, self.walk.jump)
        return Verdict(
            True, "the slopes of the energy enter with total weight 1 and the sign of J, for both copies"
        )
