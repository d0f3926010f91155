"""What does a step keep that turns momenta about a magnetic field?  Volumes; nothing more is shown of it.

Known here and derived nowhere: that rules/formulas/gyration.py turns a momentum about t and keeps its length, and that such a
turn keeps volumes where t lies along a field that the momentum does not enter, with a length that the turn does not change.
Both are derived: t x B is zero, and the derivative of t along p x t is zero, or t holds no momentum at all. Kicks and drifts
between turns are read as shears (shears.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tinyphysics.charged import Magnetic, across
from tinyphysics.ir.uop import UOp
from tinyphysics.ir.vectors import cross
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.program.symbolic import clocks, state_of, state_var
from tinyphysics.tpir.proof.blocks import Turned, applied
from tinyphysics.tpir.proof.certificate import Verdict
from tinyphysics.tpir.proof.readers.friction import FRICTION
from tinyphysics.tpir.proof.readers.shears import ShearReader
from tinyphysics.tpir.proof.units import DT, moving
from tinyphysics.tpir.proof.weights import Applied, off_weight, symmetric, uneven

TURN = 20_000  # as a part; those of shears count from 0
MOST = 24  # numbers of a momentum that are looked at one by one
NOT_A_FLOW = "a turn about B(q) is not the flow of a part of H in this bracket: volumes are all that is shown to be kept"
ONE_WAY = "negating the momenta does not lead back in a magnetic field: B would have to be negated too"


class PusherReader:
    """Kicks, drifts, and turns about a field."""

    by_derivatives = False
    rank = 46

    def __init__(self, program: Program) -> None:
        self.program, self.shears = (
            program,
            ShearReader(program, shifts=not program.bracket, beside=("GYRATE", "RELAX")),
        )
        self.blocks, self.walk, self.normal = self.shears.blocks, self.shears.walk, self.shears.normal

    @staticmethod
    def has(program: Program) -> bool:
        return any(i.row.reader == "pushers" for _, _, i in program.numbered())

    def field(self, x: Turned) -> UOp | None:
        """The declared field at the place of a momentum."""
        found = self.walk.structure
        p = state_var(self.program, x.update.state, 0)
        if not isinstance(found, Magnetic):
            return None
        return next((b for (_, own), b in zip(found.pairs, found.fields) if own is p), None)

    def is_nothing(self, u: UOp) -> bool:
        each = [u] if u.size > MOST else unroll([u])[0]
        return all(self.normal.is_zero(x) for x in simplify(each))

    def trouble(self, x: Turned) -> str:
        """Why a turn is not shown to keep volumes; empty if it is."""
        p, t = state_var(self.program, x.update.state, 0), x.about
        if x.update.state not in moving(t):
            return ""
        b = self.field(x)
        if b is None or x.update.state in moving(b):
            return f"{x.update}: no field is declared that the momentum does not enter"
        if p.shape[-1] == 3 and not self.is_nothing(cross(t, b)):
            return f"{x.update} does not turn about the declared field"
        (along,) = jvp([t], [p], [across(p, t)])
        return (
            ""
            if self.is_nothing(along)
            else f"{x.update}: the angle of the turn is not shown to stay what it is"
        )

    def volume(self) -> Verdict:
        shears = self.shears.volume()
        why = "" if shears else shears.because
        for x in self.blocks.turned:
            why = why or self.trouble(x)
        return Verdict(
            not why, why or "kicks and drifts are shears, and turns about a field keep the lengths of momenta"
        )

    def flows(self) -> tuple[list[Applied], str]:
        found, trouble = applied(self.blocks, self.normal)
        kinds: list[tuple[UOp, str]] = []
        for x in self.blocks.turned:
            times = clocks(x.about)
            key = (x.about, x.way)
            if key not in kinds:
                kinds.append(key)
            reads = frozenset(k for v in x.about.leaves if (k := state_of(v)) is not None) | {x.update.state}
            moves = frozenset({x.update.state})
            part = TURN + kinds.index(key)
            found.append(Applied(part, Fraction(1), next(iter(times), None), x.update, moves, reads))
        for u in self.blocks.relaxed:
            own = frozenset({u.state})
            found.append(
                Applied(FRICTION + u.state, self.normal.ratio(u.h, DT) or Fraction(0), None, u, own, own)
            )
        return sorted(found, key=lambda f: f.update.number), trouble

    def consistent(self, trouble: str) -> Verdict:
        if not self.program.bracket:
            return Verdict(
                False, "momenta are kinetic in the loop: the declared energy is not compared with it"
            )
        shown = self.shears.consistent(trouble)
        if not shown:
            return shown
        momenta = {s for s, d in enumerate(self.program.states) if d.role == "momentum"}
        total = {s: Fraction(0) for s in momenta}
        for x in self.blocks.turned:
            p, b = state_var(self.program, x.update.state, 0), self.field(x)
            (v,) = simplify(gradient(UOp.sum_of(self.walk.terms), [p]))
            if b is None or v.size > MOST:
                return Verdict(False, f"{x.update}: the declared field is not looked at number by number")
            wanted = across(v, b) * (0.5 * DT).expand(v.shape)
            own, other = unroll([across(p, x.about), wanted])
            ratios = {
                self.normal.ratio(a, c)
                for a, c in zip(simplify(own), simplify(other))
                if not self.normal.is_zero(c)
            }
            weight = ratios.pop() if len(ratios) == 1 else None
            if weight is None:
                return Verdict(False, f"{x.update} is not shown to turn as fast as charge*dH/dp x B does")
            total[x.update.state] += weight
        for u in self.blocks.relaxed:
            shares = [self.normal.ratio(x.h, DT) for x in self.blocks.relaxed if x.state == u.state]
            if why := off_weight("friction", sum((w or Fraction(0) for w in shares), Fraction(0))):
                return Verdict(False, why)
        for s, weight in total.items():
            if why := off_weight(f"the turn of `{self.program.states[s].name}`", weight):
                return Verdict(False, why)
        return Verdict(True, f"{shown.because}; so does the turn about B")

    def verdicts(self) -> Mapping[str, Verdict]:
        volume = self.volume()
        flows, trouble = self.flows() if volume else ([], volume.because)
        trouble = trouble or uneven(flows)
        no = Verdict(False, NOT_A_FLOW)
        palindrome = symmetric(flows, trouble)
        if not self.program.bracket:
            palindrome = Verdict(False, "kinetic momenta are made of canonical ones before the first step")
        found = (volume, palindrome, Verdict(False, ONE_WAY), self.consistent(trouble))
        claims = self.walk.structure.claims
        if self.blocks.relaxed:
            factor = f"{volume.because}; friction multiplies volumes by a factor that no state enters"
            return dict(
                zip(claims, (Verdict(volume.holds, factor if volume else volume.because), *found[1:]))
            )
        return {claims[0]: no} | dict(zip(claims[1:], found))
