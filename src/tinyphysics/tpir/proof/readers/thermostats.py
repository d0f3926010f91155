"""What does a step keep whose bath acts on all momenta together?  The law exp(-H/k_B T), and of a chain its measure.

Between two pieces of the bath a program is read as one of shears (shears.py). THERMO lines are taken for a bath where their
values are those of rules/formulas/thermostats.py, with masses that the declared energy gives. `bussi` keeps
exp(-p w p/2 k_B T) of g numbers whatever h is: K becomes what a random walk of g normal numbers would make of it, and the
direction of p stays. `nose_hoover` is made of exact flows in a palindrome, each of which adds to a number what it does not
enter, or multiplies n numbers by e^(-vh) and adds vh to one η: so det = e^(-(nΔη₁ + Δη₂ + ...)). It follows equations that
keep exp(-(H + energy of the chain)/k_B T) in that measure.

Where g counts less numbers than momenta have, the declared energy is shown to stay as it is where all bodies are shifted.
That there is only one such law (ergodicity) is assumed and not shown; of a chain of one link it is known to be wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tinyphysics.ir.uop import UOp
from tinyphysics.rules.formulas.thermostats import NOSE_HOOVER
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.proof.blocks import applied
from tinyphysics.tpir.proof.certificate import Verdict
from tinyphysics.tpir.proof.heated import not_kept, off_times, seen_at
from tinyphysics.tpir.proof.readers.baths import IN_Q
from tinyphysics.tpir.proof.readers.shears import ShearReader
from tinyphysics.tpir.proof.weights import Applied, merged, off_weight, symmetric, uneven

THERMO = 30_000  # as a part


class ThermostatReader:
    """Shears, and moves of a bath between them."""

    by_derivatives = False
    rank, line = 840, "THERMO"

    def __init__(self, program: Program) -> None:
        self.program, self.shears = program, ShearReader(program, beside=(self.line,))
        self.blocks, self.walk, self.normal = self.shears.blocks, self.shears.walk, self.shears.normal
        self.moves = self.blocks.together.moves

    @classmethod
    def has(cls, program: Program) -> bool:
        return any(i.op == cls.line for _, _, i in program.numbered())

    @property
    def chain(self) -> bool:
        return any(str(i.args[1]) == NOSE_HOOVER for i in self.program.step if i.op == "THERMO")

    def not_kept(self) -> str:
        """Why a move of the bath does not keep its law; empty if all do."""
        energy = UOp.sum_of(self.shears.terms)
        return not_kept(self.program, self.moves, self.normal, self.velocity, energy)

    def velocity(self, momentum: int) -> UOp:
        return self.shears.slopes(-1)[momentum]

    # --- verdicts -----------------------------------------------------------------------------
    def flows(self) -> tuple[list[Applied], str]:
        found, trouble = applied(self.blocks, self.normal)
        trouble = trouble or self.blocks.together.incomplete
        every = frozenset(range(len(self.program.states)))
        for m in self.moves:
            told = (m.kT,) if m.bath is None else (m.kT, m.bath.tau)
            if off_times(*told):
                trouble = trouble or f"{m.update} reads more than one time"
            found.append(Applied(THERMO, Fraction(m.weight), seen_at(*told), m.update, every, every))
        return sorted(found, key=lambda f: f.update.number), trouble

    def middle(self, flows: list[Applied]) -> bool:
        """Is the bath in the middle of two half drifts, and those between two half kicks?"""
        order = merged(flows)
        kicks = [all(self.program.states[s].role == "momentum" for s in f.moves) for f in order]
        return [f.part == THERMO for f in order] == [False, False, True, False, False] and kicks[0]

    def canonical(self, palindrome: Verdict, consistent: Verdict, flows: list[Applied]) -> Verdict:
        symplectic = self.shears.symplectic(self.shears.volume())
        if not symplectic:
            return symplectic
        if why := self.not_kept():
            return Verdict(False, why)
        if any(u.times for u in self.blocks.updates):
            return Verdict(False, "H depends on t, so that no law exp(-H/kT) stays as it is")
        if not consistent:
            return consistent
        if not palindrome:
            return Verdict(False, f"the law is exp(-H/kT) to O(dt) only: {palindrome.because}")
        return self.shown(flows)

    def shown(self, flows: list[Applied]) -> Verdict:
        (bath, *_) = [m.bath for m in self.moves if m.bath is not None]
        whole = ", of the motion relative to the centre of mass" if bath.axes else ""
        if not self.chain:
            exact = IN_Q if self.middle(flows) else ""
            return Verdict(
                True,
                f"canonical to O(dt²){whole}: H enters by symplectic parts of weight 1, the bath keeps Maxwell's law of g = "
                f"{bath.g:g} numbers exactly, and they are a palindrome{exact}",
            )
        length = bath.hidden[0].size
        if length == 1:
            return Verdict(
                False,
                "one thermostat alone is not ergodic for an oscillator: a chain of two or more is meant",
            )
        return Verdict(
            True,
            f"canonical to O(dt²){whole}, where the motion is ergodic: H enters by symplectic parts of weight 1, a chain of "
            f"{length} by exact flows that keep the measure, g is {bath.g:g}, and they are a palindrome",
        )

    def measure(self) -> Verdict:
        """Of a chain: e^(nη₁ + η₂ + ...) dq dp dη dp_η."""
        volume = self.shears.volume()
        if not volume:
            return volume
        bath = self.moves[0].bath if self.moves else None
        if bath is None:
            return Verdict(False, "no bath is shown")
        numbers = sum(p.size for p in bath.momenta) - len(set(bath.axes))
        for m in self.moves:
            if m.bath is None or m.bath.g != numbers or m.bath.axes != bath.axes:
                return Verdict(
                    False, f"{m.update}: {numbers} numbers are scaled, which is not the g of this line"
                )
        eta = self.program.states[self.moves[0].lines[len(bath.momenta)].update.state].name
        rest = "".join(f" + {eta}[{k}]" for k in range(1, bath.hidden[0].size))
        return Verdict(
            True,
            f"exp({bath.g:g}*{eta}[0]{rest}) times volume stays: shears keep volume, and so det DΦ = exp(-the change of that "
            "sum)",
        )

    def consistent(self, trouble: str) -> Verdict:
        shown = self.shears.consistent(trouble)
        if not shown:
            return shown
        total = sum((Fraction(m.weight) for m in self.moves), Fraction(0))
        if why := off_weight("the bath", total):
            return Verdict(False, why)
        return Verdict(True, f"{shown.because}; so does the bath")

    def reversible(self, palindrome: Verdict) -> Verdict:
        shown = self.shears.reversible(palindrome)
        if not shown:
            return shown
        if any(m.bath is not None and seen_at(m.kT, m.bath.tau) is not None for m in self.moves):
            return Verdict(False, "it depends on time explicitly: so does its bath")
        return Verdict(True, f"{shown.because}; of the chain p_eta is one of them")

    def verdicts(self) -> Mapping[str, Verdict]:
        volume = self.shears.volume()
        flows, trouble = self.flows() if volume else ([], volume.because)
        trouble = trouble or uneven(flows)
        palindrome, consistent = symmetric(flows, trouble), self.consistent(trouble)
        found = {
            "canonical": self.canonical(palindrome, consistent, flows),
            "symmetric": palindrome,
            "consistent": consistent,
        }
        if self.chain:
            found |= {"measure-preserving": self.measure(), "reversible": self.reversible(palindrome)}
        return found
