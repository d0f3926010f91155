"""What does a step keep whose bath remembers?  The law exp(-H/k_B T) of momenta and of the numbers beside them.

MEMORY lines are taken for a bath where their values are those of rules/formulas/memory.py, which solve
(p, s)' = -A (p, s) + noise exactly. Where C is 1 and A + Aᵀ has no negative eigenvalue, which is shown by its minors in
fractions, that keeps exp(-(p² + s²) w/2k_B T); any other C is not canonical. Between its pieces a program is read as one of
shears.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

from tinyphysics.ir import i64
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.formulas.memory import Rows, noise_of, unit
from tinyphysics.tpir.program.symbolic import clocks, state_var
from tinyphysics.tpir.proof.certificate import Verdict
from tinyphysics.tpir.proof.readers.baths import IN_Q
from tinyphysics.tpir.proof.readers.thermostats import ThermostatReader
from tinyphysics.tpir.proof.weights import Applied


class MemoryReader(ThermostatReader):
    """Shears, and moves of a bath that remembers between them."""

    by_derivatives = False
    rank, line = 842, "MEMORY"

    @property
    def chain(self) -> bool:
        return False

    def not_kept(self) -> str:
        seen: set[object] = set()
        for m in self.moves:
            u = m.update
            assert m.matrices is not None
            A, C = m.matrices
            if u.section != "step":
                return f"{u}: the noise of a step would be drawn again outside of it"
            if clocks(m.kT):
                return f"{u}: the bath depends on time"
            if m.kT is not self.moves[0].kT:
                return f"{u}: another temperature than that of the first"
            if C != unit(len(A)):
                return f"{u}: C is not k_B T times 1, so that momenta have another law than Maxwell's"
            if not not_negative(noise_of(A, C)):
                return f"{u}: A + Aᵀ has a negative eigenvalue, and no noise makes up for that"
            for line, w in zip(m.lines[:: len(A)], m.inverse):
                own = state_var(self.program, line.update.state, 0)
                velocity = self.shears.slopes(-1)[line.update.state]
                if self.normal.ratio(velocity, w.expand(own.shape) * own) != 1:
                    name = self.program.states[line.update.state].name
                    return f"{line.update}: 1/w is not shown to be the mass of `{name}`"
            for x in m.drawn:
                index = UOp.range(x.arg[2]).reshape(x.shape) if x.shape else UOp.const(0, i64)
                if x.arg[0] != "normal" or x.src[-1] is not index or x.arg[1] in seen:
                    return f"{u}: its noise is not a normal number for each of its numbers"
                seen.add(x.arg[1])
        return ""

    def shown(self, flows: list[Applied]) -> Verdict:
        exact = IN_Q if self.middle(flows) else ""
        return Verdict(
            True,
            "canonical to O(dt²): H enters by symplectic parts of weight 1, the bath keeps Maxwell's law of momenta and of "
            f"the numbers beside them exactly, and they are a palindrome{exact}",
        )


def not_negative(m: Rows) -> bool:
    """Has a symmetric matrix no negative eigenvalue?  No principal minor is negative."""
    n = len(m)
    return all(
        determinant([[m[i][j] for j in some] for i in some]) >= 0
        for size in range(1, n + 1)
        for some in combinations(range(n), size)
    )


def determinant(m: list[list[Fraction]]) -> Fraction:
    if len(m) == 1:
        return m[0][0]
    rest = [[row[:k] + row[k + 1 :] for row in m[1:]] for k in range(len(m))]
    return sum(((-1) ** k * m[0][k] * determinant(x) for k, x in enumerate(rest)), Fraction(0))
