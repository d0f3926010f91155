"""Is a group of lines the exact flow of a declared term?  It begins with the state, and moves as the term says at every time.

Of few numbers nothing about closed forms is known here. The values of the lines are functions of the states and of dt. At
dt = 0 they must be the states, and their derivative with respect to dt must be the field of the term at the values
themselves: both are shown number by number. A field with sources has no bracket: div B = 0 is shown too.

Of large arrays one kind of flow is known: that of terms which turn the phases of complex fields, number by number or wave by
wave (rules/formulas/phases.py). Which fields, by which rates and along which axes is derived from the declared term, and the
values of the lines must be those; that a transform and its inverse are a unitary change of coordinates is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tinyphysics.canonical import Canonical
from tinyphysics.charged import Magnetic
from tinyphysics.ir.uop import UOp, elements, substitute
from tinyphysics.rules.calculus.jacobi import identities
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.formulas.divergence import divergence_free
from tinyphysics.rules.formulas.phases import after, is_even, phase_turns
from tinyphysics.rules.formulas.waves import Phase, nothing
from tinyphysics.rules.functions.random import draws
from tinyphysics.rules.identities.real import simplify
from tinyphysics.tpir.program.isa import Instruction, Program, Register, Type
from tinyphysics.tpir.program.symbolic import clocks, state_var
from tinyphysics.tpir.proof.certificate import Verdict
from tinyphysics.tpir.proof.units import DT, moving
from tinyphysics.tpir.proof.walk import Walk, check_type
from tinyphysics.tpir.proof.weights import (
    Applied,
    Update,
    in_a_step,
    not_symmetric,
    off_weight,
    symmetric,
    uneven,
)
from tinyphysics.user_bracket import UserBracket

TIME = UOp.var("time of a flow")  # no name of a program has a space
MOST = 24  # numbers of a state that are looked at one by one
ONE_WAY = {
    "poisson": "negating the momenta does not lead back in a magnetic field: B would have to be negated too"
}


class ExactReader:
    """Groups of EXACT lines, each the flow of one term."""

    name, refusal, by_derivatives = "exact", "is no part of a step of exact flows", True
    rank = 47

    def __init__(self, program: Program) -> None:
        self.program, self.walk = program, Walk(program)
        self.symbolic, self.normal, self.terms = self.walk.symbolic, self.walk.normal, self.walk.terms
        self.states = [state_var(program, k, 0) for k in range(len(program.states))]
        self.group: dict[int, UOp] = {}
        self.of: tuple[int, UOp, Update] | None = None
        self.fields: dict[int, dict[UOp, UOp]] = {}
        self.phases: dict[int, list[Phase] | None] = {}
        self.walk.read(self)

    @staticmethod
    def has(program: Program) -> bool:
        return any(i.row.reader == "exact" for _, _, i in program.numbered())

    # --- reading the program ------------------------------------------------------------------
    def take(self, walk: Walk, i: Instruction) -> bool:
        if i.row.reader != "exact":
            if isinstance(i.dst, Register) and i.dst.kind == "S" and i.row.kind == "update":
                self.close_group()
            return False
        (value, time, number), where, dst = i.args, walk.where, i.dst
        assert isinstance(dst, Register) and isinstance(number, tuple)
        (term,) = number
        u, h = self.symbolic.read(value, i.type, where), self.symbolic.read(time, Type(i.type.dtype), where)
        check_type(u, i, where)
        if not isinstance(term, int) or not 0 <= term < len(self.terms):
            walk.refuse(f"{where} names no term of the energy")
            return True
        if self.of is not None and (dst.index in self.group or self.of[:2] != (term, h)):
            self.close_group()
        now = {state_var(self.program, k, v): self.states[k] for k, v in self.symbolic.version.items()}
        if any(str(v.arg)[0] == "S" and v not in now for v in u.leaves) or moving(h):
            walk.refuse(f"{where} is not made of the states as they are before the flow")
        self.group[dst.index] = substitute([u], now)[0]
        self.of = (term, h, walk.update(i, u, h))
        if self.complete():
            self.close_group()
        return True

    def complete(self) -> bool:
        """Are all states in the group that its term moves?"""
        assert self.of is not None
        return all(k in self.group for k in self.moved(self.of[0]))

    def field(self, term: int) -> dict[UOp, UOp]:
        if term not in self.fields:
            slopes = dict(zip(self.states, simplify(gradient(self.terms[term], self.states))))
            self.fields[term] = self.walk.structure.rates_by(self.terms[term], slopes)
        return self.fields[term]

    def moved(self, term: int) -> list[int]:
        found = self.field(term)
        return [k for k, s in enumerate(self.states) if s in found and not self.is_nothing(found[s])]

    def is_nothing(self, u: UOp) -> bool:
        return nothing(u) or u.size <= MOST and all(self.normal.is_zero(x) for x in simplify(unroll([u])[0]))

    def close(self, walk: Walk) -> None:
        self.close_group()
        for r in walk.carried if walk.section == "init" else []:
            walk.refuse(f"{r} is carried from step to step, and may depend on the state or on time")

    def close_group(self) -> None:
        if self.of is None:
            return
        (term, h, update), group = self.of, self.group
        self.of, self.group = None, {}
        weight = self.walk.step_of(h, str(update))
        if why := self.not_the_flow(term, group, h, weight):
            self.walk.refuse(f"{update} and those before it: {why}")
        for k in group:
            self.symbolic.load(k)
        reads = frozenset(moving(self.terms[term]))
        every = (
            frozenset(range(len(self.states))) if isinstance(self.walk.structure, Magnetic) else frozenset()
        )
        self.walk.applied.append(
            Applied(term, weight, None, update, frozenset(group), reads | frozenset(group) | every)
        )

    def not_the_flow(self, term: int, group: dict[int, UOp], h: UOp, weight: Fraction) -> str:
        """Why values are not the flow of a term for h = weight * dt; empty if they are."""
        if self.turns_phases(term, group, h):
            return ""
        if (
            any(s.size > MOST for s in self.states)
            or clocks(self.terms[term])
            or DT in self.terms[term].leaves
        ):
            return f"E{term} has too many numbers to look at, or depends on time or dt"
        if missing := [k for k in self.moved(term) if k not in group]:
            return f"E{term} moves S{missing[0]} too"
        time, share = DT, UOp.const(float(weight))
        of_h = substitute(list(group.values()), {h: TIME}) if DT in h.leaves else []
        if of_h and not any(
            DT in u.leaves for u in of_h
        ):  # weight times a number of the energy would be rounded
            time, share, group = TIME, UOp.const(1.0), dict(zip(group, of_h))
        old, new = [], []
        for k, s in enumerate(self.states):
            old += elements(s)
            new += unroll([group[k]])[0] if k in group else elements(s)
        table = dict(zip(old, new))
        start = simplify(substitute(new, {time: UOp.const(0.0)}))
        if not all(a is b or self.normal.same(a, b) for a, b in zip(start, old)):
            return "they are not the states at dt = 0"
        field = self.field(term)
        zeros = [UOp.const(0.0)]
        rates = [x for s in self.states for x in (unroll([field[s]])[0] if s in field else zeros * s.size)]
        wanted = substitute(simplify(rates), table)
        slopes = simplify(jvp(new, [time], [UOp.const(1.0)]))
        for a, b in zip(slopes, wanted):
            if not self.normal.same(a, share * b):
                return f"their derivative with respect to dt is not {float(weight):g} times what E{term} moves them by"
        return ""

    def turns_phases(self, term: int, group: dict[int, UOp], h: UOp) -> bool:
        """Are values the turns of complex fields, for a time h, that a term of the energy makes?"""
        energy, structure = self.terms[term], self.walk.structure
        if not isinstance(structure, Canonical) or clocks(energy) or DT in energy.leaves or draws(energy):
            return False
        if term not in self.phases:
            self.phases[term] = phase_turns(energy, structure.pairs)
        found = self.phases[term]
        if not found:
            return False
        wanted = dict(after(found, h))
        values = {self.states[k]: u for k, u in group.items()}
        return wanted.keys() == values.keys() and all(
            self.same_values(values[s], u) for s, u in wanted.items()
        )

    def same_values(self, u: UOp, v: UOp) -> bool:
        return u is v or self.normal.same(u, v)

    # --- verdicts -----------------------------------------------------------------------------
    def reversible(self, palindrome: Verdict) -> Verdict:
        """Canonical exact flows of what is even in p go back where the momenta are negated."""
        structure = self.walk.structure
        if not isinstance(structure, Canonical) or structure.headline != "symplectic":
            told = "not looked at: the energy moves s in one direction"
            return Verdict(False, ONE_WAY.get(structure.headline, told))
        if not palindrome:
            return Verdict(False, not_symmetric(palindrome))
        even = {k for k, found in self.phases.items() if found and all(map(is_even, found))}
        mirror, same = self.walk.mirror, self.normal.same
        for k, u in enumerate(self.terms):
            if k not in even and not same(substitute([u], mirror)[0], u):
                return Verdict(False, f"E{k} is not shown to be even in the momenta")
        return Verdict(True, "symmetric, and negating the momenta reverses every sub-flow")

    def verdicts(self) -> Mapping[str, Verdict]:
        structure, flows, why = self.walk.structure, self.walk.applied, self.walk.trouble
        if isinstance(structure, Magnetic) and not why and not (closed := divergence_free(structure)):
            why = f"div B = 0 is not shown: {closed.because}"
        if isinstance(structure, UserBracket) and not why:
            why = next((f"{what} is not shown to be zero" for what, _, u in identities(structure.J, structure.z)
                        if not self.normal.is_zero(u)), "")  # fmt: skip
        told = "every sub-flow is the exact flow of a declared part of the energy"
        factor = ", which multiplies ds - p.dq by exp(-dH/ds h)" if structure.headline == "contact" else ""
        kept = Verdict(not why, why or f"{told}{factor}")
        palindrome = symmetric(flows, why)
        totals = (
            uneven(flows)
            or why
            or next(
                (x for k in range(len(self.terms)) if (x := off_weight(f"E{k}", in_a_step(flows, {k})))), ""
            )
            or self.walk.jump
        )
        consistent = Verdict(not totals, totals or "every term of the energy enters with total weight 1")
        back = self.reversible(palindrome)
        found = {structure.headline: kept, "volume-preserving": kept, "symmetric": palindrome}
        if isinstance(structure, UserBracket):
            found |= dict.fromkeys(("casimirs", *structure.reads_as.values()), kept)
        return found | {"reversible": back, "consistent": consistent}
