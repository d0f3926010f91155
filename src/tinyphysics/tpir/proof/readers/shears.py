"""Which updates are shears of one scalar?  What a program of shears conserves, or which rule is broken.

A block of updates is symplectic when its flows are J times the complete gradient of one scalar G, with
one state-free h, and G holds nothing that the block writes. Freshness alone proves volume preservation
only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction

from tinyphysics.errors import TraceError
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, elements, substitute, toposort
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import chooses, snapped
from tinyphysics.rules.identities.real import simplify
from tinyphysics.structure import acted, word_of
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.program.symbolic import clocks, state_of, state_var
from tinyphysics.tpir.proof.blocks import Blocks, Group, applied, idle, is_literal, length
from tinyphysics.tpir.proof.certificate import Verdict, five
from tinyphysics.tpir.proof.force_gradient import MOST_COMPONENTS as MOST_WITH_DT
from tinyphysics.tpir.proof.force_gradient import double_bracket, even, named, one_factor
from tinyphysics.tpir.proof.units import DT, moving
from tinyphysics.tpir.proof.walk import jump_in
from tinyphysics.tpir.proof.weights import Update, not_symmetric, off_weight, symmetric, uneven

MOST_COMPONENTS = 24  # a curl is tested component by component up to here


class ShearReader:
    """Any program: what is not made of shears is said to be an explicit map."""

    by_derivatives = False
    rank = 1000  # it reads what no other reader has a rule for

    def __init__(self, program: Program, shifts: bool = False, beside: Collection[str] = ()) -> None:
        self.program, self.beside = program, beside  # lines that the reader of the whole has rules for
        self.blocks = Blocks(program, shifts)
        self.walk = self.blocks.walk
        self.groups, self.terms = self.blocks.groups, self.blocks.terms
        self.normal = self.blocks.normal
        self._gradients: dict[int, list[UOp]] = {}
        self._shares: dict[tuple[int, UOp], tuple[int, Fraction] | None] = {}

    @staticmethod
    def has(program: Program) -> bool:
        return True

    # --- derivatives of the declared energy ---------------------------------------------------
    def slopes(self, k: int) -> list[UOp]:
        """d(term k)/d(state), for every state; k = -1 is the sum of the terms."""
        if k not in self._gradients:
            energy = UOp.sum_of(self.terms) if k < 0 else self.terms[k]
            states = [state_var(self.program, i, 0) for i in range(len(self.program.states))]
            self._gradients[k] = simplify(gradient(energy, states))
        return self._gradients[k]

    def reference(self, state: int, k: int) -> UOp | None:
        """What the flow of a state is for term k: J times its gradient."""
        own, structure = state_var(self.program, state, 0), self.walk.structure
        by = structure.partner(own)
        if by is None:
            return None
        slope = self.slopes(k)[state_of(by) or 0]
        return structure.rates({by: slope})[own]

    def share(self, u: Update) -> tuple[int, Fraction] | None:
        """(term, factor) such that the flow of u is factor times that of the term; -1 is their sum."""
        if (u.state, u.timeless) not in self._shares:
            self._shares[u.state, u.timeless] = self._share(u)
        return self._shares[u.state, u.timeless]

    def _share(self, u: Update) -> tuple[int, Fraction] | None:
        flow = self.as_dt_vanishes(u)
        if not self.terms or flow is None:
            return None  # a later stage of a Runge–Kutta method
        for k in (-1, *range(len(self.terms))):
            reference = self.reference(u.state, k)
            if reference is None:
                return None
            if len(self.terms) > 2 and moving(reference) != moving(flow):
                continue  # another part moves this state by what the flow does not hold: comparing them would take long
            if (ratio := self.normal.ratio(flow, reference)) is not None:
                return k, ratio
        return None

    def as_dt_vanishes(self, u: Update) -> UOp | None:
        """The flow without what comes with dt**2; None if it depends on dt in any other way."""
        if DT not in u.flow.leaves or any(DT in term.leaves for term in self.terms):
            return u.timeless
        found = even(u.timeless, self.normal) if DT in u.h.leaves else None
        return None if found is None else found.limit

    def moved_by(self, state: int, k: int) -> bool:
        """Does term k move this state?"""
        reference = self.reference(state, k) if self.terms else None
        return reference is not None and not self.normal.is_zero(reference)

    # --- verdicts -----------------------------------------------------------------------------
    def volume(self) -> Verdict:
        if self.blocks.maps:
            return Verdict(False, self.blocks.maps[0])
        if why := self.blocks.besides(self.beside):
            return Verdict(False, why)
        for u in self.blocks.updates:
            if u.stale:
                return Verdict(False, u.stale)
            if u.state in moving(u.flow) and not self.blocks.apart(u):
                return Verdict(False, f"{u}: the flow depends on S{u.state}, which it updates")
            if moving(u.h):
                return Verdict(False, f"{u}: h depends on the state")
        if self.blocks.unsettled:
            return Verdict(False, self.blocks.unsettled)
        return Verdict(True, "every update is a shear: its flow does not depend on what it updates")

    def symplectic(self, volume: Verdict) -> Verdict:
        if not volume:
            return Verdict(False, volume.because)
        if self.blocks.mixing:
            return Verdict(False, self.blocks.mixing)
        if not self.groups:
            return Verdict(True, "nothing moves")
        for g in self.groups:
            if why := self.not_a_gradient(g):
                return Verdict(False, why)
        units = ", in the units of the user" if self.blocks.scaled else ""
        return Verdict(
            True, f"every block is J times the complete gradient of one scalar that it does not move{units}"
        )

    def not_a_gradient(self, g: Group) -> str:
        """Why a block is not the flow of one scalar; empty if it is."""
        first = g.updates[0]
        pairs = {self.program.conjugate(s) for s in g.written}
        if None in pairs:
            return f"{first}: S{first.state} has no conjugate"
        for u in g.updates:
            for s in sorted(moving(u.flow)):
                if s not in pairs:
                    other = self.program.conjugate(s)
                    name = f"S{other}" if other is not None else "nothing"
                    return (
                        f"{u}: the scalar it is a derivative of holds S{s}, "
                        f"so {name} must be updated in the same block with the same h"
                    )
        if len(g.updates) == 1 and first.flow.size == 1 and not tree_error([first.flow]):
            return ""  # one number, of one number: whatever it is, it is the derivative of its integral
        if all(not u.flow.leaves and self.normal.is_zero(u.flow) for u in g.updates):
            return ""  # nothing moves: the gradient of a constant
        if (error := tree_error([u.flow for u in g.updates])) is not None:
            return f"step {first.number}: a tree's force, to {error:g}: not the gradient of the energy, nor of another"
        shares = [self.share(u) for u in g.updates]
        if (
            shares[0] is not None
            and all(s == shares[0] for s in shares)
            and self.rest_is_a_gradient(g, shares[0])
        ):
            return ""  # all are derivatives of one declared energy, by one factor
        return self.curl(g)

    def rest_is_a_gradient(self, g: Group, share: tuple[int, Fraction]) -> bool:
        """Is what comes with dt**2, if anything does, a multiple of the gradient of [V, [T, V]], where V is one term?"""
        if all(self.as_dt_vanishes(u) is u.timeless for u in g.updates):
            return True
        found = [even(u.timeless, self.normal) for u in g.updates]
        pairs = [self.program.conjugate(u.state) for u in g.updates]
        parts = [x for x in found if x is not None]
        if len(parts) < len(found) or any(self.program.states[u.state].role != "momentum" for u in g.updates):
            return False
        table: dict[UOp, UOp] = {}
        names = list(self.slopes(share[0]))
        if snapped(share[1]) == 1:  # what the flows have computed of V' has a name in what they make of it
            for x, i in zip(parts, pairs):
                assert i is not None
                names[i] = named(x.limit.src[0] if x.limit.op is Ops.NEG else -x.limit, i, table)
        wanted = double_bracket(self.program, self.slopes(-1), self.slopes(share[0]), names)
        if isinstance(wanted, str):
            return False
        return one_factor(parts, [wanted[i] for i in pairs if i is not None], table, self.normal)

    def curl(self, g: Group) -> str:
        """Is the covector of the block closed?  Tested component by component."""
        covectors: list[UOp] = []
        components: list[UOp] = []
        size = sum(u.flow.size for u in g.updates)
        if size > (MOST_WITH_DT if any(DT in u.flow.leaves for u in g.updates) else MOST_COMPONENTS):
            return (
                f"step {g.updates[0].number}: no declared energy has this gradient, and "
                f"{size} components are too many to test for a curl"
            )
        if any(chooses(u.flow) for u in g.updates):
            return (
                f"step {g.updates[0].number}: no declared energy has this gradient, and an index that is not "
                "known chooses what it reads"
            )
        if (jump := jump_in(self.program, [u.flow for u in g.updates])) is not None:
            return (
                f"{g.updates[0]}: {jump} in the force may jump, where a curl would not be seen: no declared energy "
                "has this gradient"
            )
        for u in g.updates:
            pair, word = self.program.conjugate(u.state), word_of(self.program.states[u.state].role)
            assert pair is not None and word is not None
            covectors += unroll([acted(word, u.flow)])[0]  # J is its own inverse, but for the sign of both
            components += elements(state_var(self.program, pair, 0))
        try:
            rows = [gradient(c, components) for c in covectors]
        except TraceError as error:  # an operation without a derivative
            return f"step {g.updates[0].number}: the force could not be differentiated: {error.what}"
        for i in range(len(rows)):
            for j in range(i):
                if not self.normal.same(rows[i][j], rows[j][i]):
                    u = g.updates[0]
                    return (
                        f"{u}: the force has a curl: "
                        f"d/d{self.name(components[j])} of component {i} is not "
                        f"d/d{self.name(components[i])} of component {j}, so no energy has this "
                        "gradient"
                    )
        return ""

    def name(self, component: UOp) -> str:
        variable = component.src[0] if component.src else component
        index = int(str(variable.arg)[1:].partition("@")[0])
        suffix = f"[{component.arg}]" if component.src else ""
        return f"{self.program.states[index].name}{suffix}"

    # --- weights ------------------------------------------------------------------------------
    def totals(self) -> tuple[dict[tuple[int, int], Fraction], str]:
        """By which weight each term moves each state in one step, and what spoils it; term -1 is a force."""
        out: dict[tuple[int, int], Fraction] = {}
        forces: dict[int, UOp] = {}
        literal = is_literal(self.blocks)
        for u in self.blocks.updates:
            if u.section != "step" or idle(u, self.normal):
                continue
            h, share, terms = length(u, self.normal, literal), self.share(u), [-1]
            if h is None:
                return out, f"{u}: h is not shown to be a multiple of dt"
            if share is not None:
                terms = [*range(len(self.terms))] if share[0] < 0 else [share[0]]
            elif u.force and not self.moved_by(u.state, -1):  # the energy is silent: all forces must be one
                ratio = self.normal.ratio(u.timeless, forces.setdefault(u.state, u.timeless))
                share = None if ratio is None else (-1, ratio)
            if share is None and (error := tree_error([u.flow])) is not None:
                return (
                    out,
                    f"{u} is a tree's force: the derivative of the declared energy to {error:g}, as it was measured",
                )
            if share is None:
                return out, (
                    f"{u} is not a multiple of the derivative of the declared energy"
                    if self.terms
                    else "the program declares no energy"
                )
            for k in terms:
                out[k, u.state] = out.get((k, u.state), Fraction(0)) + share[1] * h
        return out, ""

    def consistent(self, trouble: str) -> Verdict:
        if self.blocks.maps:
            return Verdict(False, "an explicit map has no energy to be consistent with")
        if not self.terms and not self.blocks.updates:
            return Verdict(False, "the program declares no energy, and nothing moves")
        totals, spoilt = self.totals()
        if spoilt or trouble or self.blocks.unsettled:
            return Verdict(False, spoilt or trouble or self.blocks.unsettled)
        scale = Fraction(1)
        if is_literal(self.blocks):  # all must agree
            scale = next(iter(totals.values()), Fraction(1))
            if scale <= 0:
                return Verdict(False, f"the states move by {float(scale):g}, backwards in time")
        for i, s in enumerate(self.program.states):
            needed = [k for k in range(len(self.terms)) if self.moved_by(i, k)]
            for k in [*needed, *([-1] if (-1, i) in totals else [])]:
                total = totals.get((k, i), Fraction(0)) / scale
                if why := off_weight(f"the derivative that moves `{s.name}`", total):
                    return Verdict(False, why)
        if self.walk.jump:
            return Verdict(False, self.walk.jump)
        if any(k < 0 for k, _ in totals):
            jump = jump_in(self.program, [u.flow for u in self.blocks.updates if u.force])
            where = "" if jump is None else f", where it is continuous: {jump} in it may jump"
            return Verdict(True, f"every force enters with total weight 1{where}")
        besides = any(self.as_dt_vanishes(u) is not u.timeless for u in self.blocks.updates)
        return Verdict(
            True,
            "every term of the energy enters with total weight 1 and the sign of J"
            f"{'; what comes besides falls as dt**2' if besides else ''}",
        )

    def reversible(self, symmetric: Verdict) -> Verdict:
        if not symmetric:
            return Verdict(False, not_symmetric(symmetric))
        if any(u.times or clocks(u.h) for u in self.blocks.updates):
            return Verdict(False, "it depends on time explicitly")
        mirror = self.walk.mirror
        for u in self.blocks.updates:
            (flipped,) = substitute([u.flow], mirror)
            s = self.program.states[u.state]
            odd = state_var(self.program, u.state, 0) not in mirror
            shown = flipped is u.flow and not odd or self.normal.same(flipped, -u.flow if odd else u.flow)
            if not shown and self.normal.ratio(flipped, u.flow) != (-1 if odd else 1):
                return Verdict(
                    False,
                    f"the flow of `{s.name}` is not shown to be {'odd' if odd else 'even'} in the momenta",
                )
        if not self.blocks.updates:
            return Verdict(True, "nothing moves")
        return Verdict(True, "symmetric, and negating the momenta reverses every sub-flow")

    def verdicts(self) -> Mapping[str, Verdict]:
        volume = self.volume()
        symplectic = self.symplectic(volume)
        if volume and not self.groups:
            volume = Verdict(True, "nothing moves")
        if not volume:  # flows that are not fresh have no name: then nothing may move outside the steps
            outside = any(u.section != "step" for u in self.blocks.updates)
            palindrome = Verdict(False, volume.because)
            trouble = "updates outside the steps" if outside else ""
        else:
            flows, trouble = applied(self.blocks, self.normal)
            trouble = trouble or uneven(flows)
            palindrome = symmetric(flows, trouble)
            if palindrome and self.program.draws:
                palindrome = Verdict(False, "it draws random numbers: every step is another map")
        return five(symplectic, volume, palindrome, self.reversible(palindrome), self.consistent(trouble))


def tree_error(flows: list[UOp]) -> float | None:
    """The relative error of the tree that some flows are summed through, if they are."""
    return next((float(u.arg[0]) for u in toposort(flows) if u.op is Ops.TREE), None)
