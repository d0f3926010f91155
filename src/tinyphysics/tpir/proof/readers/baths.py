"""What does a step at a temperature keep?  The law exp(-H/k_B T), to O(dt²) where its parts are a palindrome.

Between two pieces of the bath a program is read as one of shears (shears.py). A BATH is taken for a bath where the value is
shown to be exp(-rate*h) p + sqrt((1 - exp(-2 rate h)) k_B T/w) ξ (langevin), or sqrt(k_B T/w) ξ with the probability
1 - exp(-rate*h) and p otherwise (andersen), with a rate, a thermal energy and a w that no state enters, w p the velocity
that the declared energy gives, and random numbers that no other line of the program reads. Both keep exp(-p w p/2 k_B T)
whatever h is. Shears of the energy keep exp(-H̃/k_B T) of a modified energy H̃, whose terms of odd order in dt vanish in a
palindrome; so then the law of the whole is exp(-H/k_B T) (1 + O(dt²)). That there is only one such law (ergodicity) is
assumed and not shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.proof.blocks import applied
from tinyphysics.tpir.proof.certificate import Verdict
from tinyphysics.tpir.proof.heated import not_maxwell, off_times, seen_at
from tinyphysics.tpir.proof.readers.shears import ShearReader
from tinyphysics.tpir.proof.weights import Applied, merged, off_weight, symmetric, uneven

BATH = 20_000  # as a part, of the first momentum; those of shears count from 0
IN_Q = "; positions of a quadratic energy have it exactly"


class BathReader:
    """Shears, and momenta that a bath changes between them."""

    by_derivatives = False
    rank = 850  # before friction and shears, which do not know it

    def __init__(self, program: Program) -> None:
        self.program, self.shears = program, ShearReader(program, beside=("BATH",))
        self.blocks, self.walk, self.normal = self.shears.blocks, self.shears.walk, self.shears.normal

    @staticmethod
    def has(program: Program) -> bool:
        return any(i.op == "BATH" for _, _, i in program.numbered())

    def not_maxwell(self) -> str:
        """Why a piece of the bath does not keep Maxwell's law; empty if all do."""
        return not_maxwell(self.program, self.blocks.heated, self.normal, self.velocity)

    def velocity(self, momentum: int) -> UOp:
        """dH/dp, which moves its position."""
        return self.shears.slopes(-1)[momentum]

    # --- verdicts -----------------------------------------------------------------------------
    def flows(self) -> tuple[list[Applied], str]:
        """What a step does, in its order: blocks of shears, and the bath."""
        found, trouble = applied(self.blocks, self.normal)
        for h in self.blocks.heated:
            own, at = frozenset({h.update.state}), seen_at(h.kT, h.rate)
            if off_times(h.kT, h.rate):
                trouble = trouble or f"{h.update} reads more than one time"
            found.append(Applied(BATH + h.update.state, Fraction(h.weight), at, h.update, own, own))
        return sorted(found, key=lambda f: f.update.number), trouble

    def middle(self, flows: list[Applied]) -> bool:
        """Is the bath in the middle of two half drifts, and those between two half kicks?"""
        order = merged(flows)
        kinds = ["bath" if f.part >= BATH else str(sorted(f.moves)) for f in order]
        outer = [k for k in kinds if k != "bath"]
        inside = kinds[2:-2]
        return len(outer) == 4 and bool(inside) and set(inside) == {"bath"} and self.kicks(order[0])

    def kicks(self, f: Applied) -> bool:
        return all(self.program.states[s].role == "momentum" for s in f.moves)

    def canonical(self, symmetric: Verdict, consistent: Verdict, flows: list[Applied]) -> Verdict:
        symplectic = self.shears.symplectic(self.shears.volume())
        if not symplectic:
            return symplectic
        if why := self.not_maxwell():
            return Verdict(False, why)
        if any(u.times for u in self.blocks.updates):
            return Verdict(False, "H depends on t, so that no law exp(-H/kT) stays as it is")
        if not consistent:
            return consistent
        if not symmetric:
            return Verdict(False, f"the law is exp(-H/kT) to O(dt) only: {symmetric.because}")
        exact = IN_Q if self.middle(flows) else ""
        return Verdict(
            True,
            "canonical to O(dt²): H enters by symplectic parts of weight 1, the bath keeps Maxwell's law exactly, and they "
            f"are a palindrome{exact}",
        )

    def consistent(self, trouble: str) -> Verdict:
        shown = self.shears.consistent(trouble)
        if not shown:
            return shown
        for state in {h.update.state: h for h in self.blocks.heated}:
            own = [Fraction(h.weight) for h in self.blocks.heated if h.update.state == state]
            if why := off_weight(f"the bath of `{self.program.states[state].name}`", sum(own, Fraction(0))):
                return Verdict(False, why)
        return Verdict(True, f"{shown.because}; so does the bath")

    def verdicts(self) -> Mapping[str, Verdict]:
        volume = self.shears.volume()
        flows, trouble = self.flows() if volume else ([], volume.because)
        trouble = trouble or uneven(flows)
        palindrome, consistent = symmetric(flows, trouble), self.consistent(trouble)
        return {
            "canonical": self.canonical(palindrome, consistent, flows),
            "symmetric": palindrome,
            "consistent": consistent,
        }
