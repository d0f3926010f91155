"""What does a Brownian step keep?  The law exp(-V/k_B T) of positions, to O(dt²) by a theorem on its formula.

A program of nothing but DIFFUSE lines is taken where their values are those of rules/formulas/overdamped.py, with the force
-dH/dq and the masses that the declared energy gives, and a number of noise for each number of a momentum. Leimkuhler,
Matthews & Tretyakov (2014) show for that formula that averages of positions have errors of O(dt²), and none if V is
quadratic, though a single path is of first order. Momenta are drawn anew in every step.
"""

from __future__ import annotations

from collections.abc import Mapping

from tinyphysics.ir import i64
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.program.symbolic import clocks, state_var
from tinyphysics.tpir.proof.certificate import Verdict
from tinyphysics.tpir.proof.readers.shears import ShearReader


class BrownianReader:
    """Positions that diffuse."""

    by_derivatives = False
    rank = 845

    def __init__(self, program: Program) -> None:
        self.program, self.shears = program, ShearReader(program, beside=("DIFFUSE",))
        self.blocks, self.walk, self.normal = self.shears.blocks, self.shears.walk, self.shears.normal
        self.moves = self.blocks.together.moves

    @staticmethod
    def has(program: Program) -> bool:
        return any(i.op == "DIFFUSE" for _, _, i in program.numbered())

    def trouble(self) -> str:
        """Why this is not one Brownian step of all positions; empty if it is."""
        if self.blocks.maps:
            return self.blocks.maps[0]
        if why := self.blocks.besides(("DIFFUSE",)):
            return why
        if self.blocks.unsettled:
            return self.blocks.unsettled
        if self.blocks.updates or len(self.moves) != 1 or self.moves[0].update.section != "step":
            return "a Brownian step is all that a step does"
        (m,) = self.moves
        slopes = self.shears.slopes(-1)
        for k, (q, p) in enumerate(zip(m.lines[::2], m.lines[1::2])):
            name, own = self.program.states[q.update.state].name, state_var(self.program, p.update.state, 0)
            if self.normal.ratio(m.forces[k], slopes[q.update.state]) != -1:
                return (
                    f"{q.update}: the force on `{name}` is not shown to be minus the derivative of the energy"
                )
            if self.normal.ratio(slopes[p.update.state], m.inverse[k].expand(own.shape) * own) != 1:
                return f"{p.update}: 1/w is not shown to be the mass of `{name}`"
        return ""

    def canonical(self, consistent: Verdict) -> Verdict:
        if not consistent:
            return consistent
        (m,) = self.moves
        if any(clocks(u) for u in (m.kT, *m.rates, *m.forces)):
            return Verdict(False, "it depends on t, so that no law exp(-V/kT) stays as it is")
        streams = set()
        for x in m.drawn:
            index = UOp.range(x.arg[2]).reshape(x.shape) if x.shape else UOp.const(0, i64)
            if x.arg[0] != "normal" or x.src[-1] is not index or x.arg[1] in streams:
                return Verdict(False, f"{m.update}: its noise is not a normal number for each of its numbers")
            streams.add(x.arg[1])
        return Verdict(
            True,
            "canonical in the positions, to O(dt²), and exactly if V is quadratic; momenta are drawn anew in every step",
        )

    def verdicts(self) -> Mapping[str, Verdict]:
        why = self.trouble()
        consistent = Verdict(not why, why or "the force is that of the whole energy, and so is the noise")
        return {
            "canonical": self.canonical(consistent),
            "symmetric": Verdict(False, "a Brownian step is not its own inverse in any sense"),
            "consistent": consistent,
        }
