"""Other names for the same things: `Compiler(H).emit()`, and methods as words in capitals."""
from __future__ import annotations

from typing import Any

from tinyphysics.kernel import traced
from tinyphysics.runtime.compile import compile as compiled
from tinyphysics.tpir.isa import Instruction, Program

SymplecticEuler = "symplectic_euler"
Leapfrog = "leapfrog"
Yoshida4 = "yoshida4"


class Compiler:
    """From a Hamiltonian to its list of TP-IR instructions.

    >>> listing = Compiler(lambda q, p: p**2/2 + q**2/2).emit()
    >>> print(*(str(i) for i in listing[6:12]), sep="\\n")
    GRAD_INIT G1, S1
    POISSON_J F0, G1, pass
    SYMP_STEP S0, F0, $dt
    GRAD_INIT G0, S0
    POISSON_J F1, G0, negate
    SYMP_STEP S1, F1, $dt
    """

    def __init__(self, H: Any, dt: float = 0.01, method: str = SymplecticEuler) -> None:
        self.program: Program = compiled(traced(H), dt, method=method).tpir

    def emit(self) -> list[Instruction]:
        """Every instruction, in the order of the listing: energy, init, step, final."""
        return [instruction for _, _, instruction in self.program.numbered()]
