"""What does a step with friction keep?  J up to a factor where all momenta decay at one rate; else volumes up to a factor.

Between two pieces of friction a program is read as one of shears (shears.py). A RELAX is taken for friction where the value
is shown to be the state times exp(-rate*h), and neither the rate nor h holds a state. The rate is the one that the
instruction declares; its weights must add up to 1 in a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tinyphysics.ir.uop import UOp
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.proof.blocks import applied
from tinyphysics.tpir.proof.certificate import Verdict
from tinyphysics.tpir.proof.readers.shears import ShearReader
from tinyphysics.tpir.proof.units import DT
from tinyphysics.tpir.proof.weights import Applied, Update, off_weight, symmetric, uneven
from tinyphysics.util import prod

FRICTION = 10_000  # as a part, of the first state that decays; those of shears count from 0
BACKWARDS = "friction takes energy in both directions of time: negated momenta do not bring it back"


@dataclass(frozen=True)
class Decay:
    """What a program does by friction: the updates, and the rate that each of them declares, by its number."""

    program: Program
    relaxed: Sequence[Update]
    rates: Mapping[int, UOp]
    normal: Normal

    def rate(self, u: Update) -> UOp:
        return self.rates[u.number]

    def weight(self, u: Update) -> Fraction:
        return self.normal.ratio(u.h, DT) or Fraction(0)

    @property
    def shown_rate(self) -> str:
        return str(self.rate(self.relaxed[0])).removeprefix("$")

    def one_rate(self, momenta: Sequence[int], others: Sequence[int]) -> bool:
        """Do all momenta decay together, each time by one number, with none of the other updates between them?"""
        first = self.rate(self.relaxed[0])
        if first.shape:
            return False
        groups: list[list[Update]] = []
        for u in self.relaxed:
            if not groups or u.state in [v.state for v in groups[-1]]:
                groups.append([])
            groups[-1].append(u)
        together = all(sorted(u.state for u in g) == sorted(momenta) for g in groups)
        same = all(u.h is g[0].h and self.normal.same(self.rate(u), first) for g in groups for u in g)
        return together and same and not any(g[0].number < n < g[-1].number for g in groups for n in others)

    def trouble(self) -> str:
        """Why a step does not have the friction that it declares; empty if it has."""
        rates: dict[int, UOp] = {}
        for u in self.relaxed:
            if not self.normal.same(self.rate(u), rates.setdefault(u.state, self.rate(u))):
                return f"{u} declares another rate of `{self.program.states[u.state].name}`"
        for state in rates:
            own = [self.weight(u) for u in self.relaxed if u.state == state and u.section == "step"]
            name = f"the friction of `{self.program.states[state].name}`"
            if why := off_weight(name, sum(own, Fraction(0))):
                return why
        return ""


class FrictionReader:
    """Shears, and momenta that decay between them."""

    by_derivatives = False
    rank = 900  # before shears, which do not know it

    def __init__(self, program: Program) -> None:
        self.program, self.shears = program, ShearReader(program, beside=("RELAX",))
        self.blocks, self.walk, self.normal = self.shears.blocks, self.shears.walk, self.shears.normal
        self.decay = Decay(program, self.blocks.relaxed, self.blocks.rates, self.normal)

    @staticmethod
    def has(program: Program) -> bool:
        return any(i.row.reader == "friction" for _, _, i in program.numbered())

    # --- verdicts -----------------------------------------------------------------------------
    def volume(self) -> Verdict:
        shears = self.shears.volume()
        if not shears:
            return shears
        rates = [
            f"{self.decay.rate(u)} for `{self.program.states[u.state].name}`" for u in self.first_of_each()
        ]
        told = (
            f"{self.factor}" if self.one_rate() else f"each number decays at its own rate: {', '.join(rates)}"
        )
        return Verdict(
            True,
            f"shears keep volumes, and friction multiplies them by a factor that no state enters: {told}",
        )

    def first_of_each(self) -> list[Update]:
        return list({u.state: u for u in reversed(self.blocks.relaxed)}.values())[::-1]

    @property
    def factor(self) -> str:
        """Of a volume in one step, where there is one rate."""
        numbers = sum(prod(s.type.shape) for s in self.program.states if s.role == "momentum")
        times = f"{numbers}*" if numbers > 1 else ""
        return f"exp(-{times}{self.decay.shown_rate} dt)"

    def one_rate(self) -> bool:
        momenta = [k for k, s in enumerate(self.program.states) if s.role == "momentum"]
        return self.decay.one_rate(momenta, [u.number for u in self.blocks.updates])

    def conformal(self, volume: Verdict) -> Verdict:
        if not volume:
            return Verdict(False, volume.because)
        if self.blocks.mixing:
            return Verdict(False, self.blocks.mixing)
        for g in self.shears.groups:
            if why := self.shears.not_a_gradient(g):
                return Verdict(False, why)
        if not self.one_rate():
            return Verdict(
                False, "the momenta do not all decay at one rate: only the factor of volumes is known"
            )
        return Verdict(
            True,
            f"DΦᵀ J DΦ = f J with f = exp(-{self.decay.shown_rate} dt): every block of shears keeps J, and friction "
            "multiplies all momenta by one number",
        )

    def flows(self) -> tuple[list[Applied], str]:
        """What a step does, in its order: blocks of shears, and friction."""
        found, trouble = applied(self.blocks, self.normal)
        for u in self.blocks.relaxed:
            own = frozenset({u.state})
            found.append(Applied(FRICTION + u.state, self.decay.weight(u), None, u, own, own))
        return sorted(found, key=lambda f: f.update.number), trouble

    def consistent(self, trouble: str) -> Verdict:
        shown = self.shears.consistent(trouble)
        if not shown:
            return shown
        if why := self.decay.trouble():
            return Verdict(False, why)
        return Verdict(True, f"{shown.because}; so does friction")

    def verdicts(self) -> Mapping[str, Verdict]:
        volume = self.volume()
        flows, trouble = self.flows() if volume else ([], volume.because)
        trouble = trouble or uneven(flows)
        found = (self.conformal(volume), volume, symmetric(flows, trouble), Verdict(False, BACKWARDS))
        return dict(zip(self.walk.structure.claims, (*found, self.consistent(trouble))))
