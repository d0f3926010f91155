"""What does the adjoint of a simulation look like?  Its program at every level, as sim.ir shows that of the steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinyphysics.errors import InputError, PlanError
from tinyphysics.flows.adjoint import irreversible
from tinyphysics.given import choice, shown
from tinyphysics.pipeline import adjoint as adjoint_program
from tinyphysics.runtime.engines.listing import listing
from tinyphysics.runtime.measure.differentiate import wanted_names
from tinyphysics.runtime.measure.past import PASTS
from tinyphysics.runtime.measure.plan_past import no_way_back
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.step import DT
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.verifier import Certificate, verify
from tinyphysics.util import one_of

LEVELS = ("tpir", "kernel", "llvm", "asm", "c", "opencl", "ptx", "cuda")


@dataclass(frozen=True, eq=False)
class Adjoint:
    """The adjoint of a simulation, made by `sim.adjoint()`.

    Its states are those of the simulation at the end of a run, their cotangents (`q.bar`) and the sums of the gradients of
    parameters in two words (`mu.bar`, `mu.rest`); its steps lead back to the beginning.
    """

    program: Program

    @property
    def certificate(self) -> Certificate:
        """What was shown about the program."""
        return verify(self.program)

    def ir(self, level: str = "tpir") -> str:
        """Returns the program as text, at the levels of sim.ir."""
        if level not in LEVELS:
            raise InputError(
                f"there is no level {shown(level)} of an adjoint", fix=f"Levels: {one_of(LEVELS)}."
            )
        return str(self.program) if level == "tpir" else listing(self.program, level)

    def __repr__(self) -> str:
        return f"<Adjoint: {self.program.name}, {len(self.program.step)} instructions a step>"


def adjoint(setup: Setup, wrt: Sequence[str] | None, past: str) -> Adjoint:
    choice("past", past, PASTS)
    c, step = setup.compiled, setup.built.step
    if c.jump is not None or c.adaptive:
        why = "its loop is deleted" if c.jump is not None else f"`{c.known.method}` chooses its own steps"
        raise PlanError(
            f"`{setup.system.name}` has no adjoint program yet: {why}",
            fix='Compile it with method="leapfrog", or propagator="loop".',
        )
    found = irreversible(step)
    if past == "reverse" and found is not None:
        raise PlanError(
            f'past="reverse": the steps cannot be taken back: {no_way_back(step.name, found)}',
            fix='Pass past="checkpoint".',
        )
    own = {s.name for s in setup.system.states}
    parameters = {p.name: p.var for p in setup.system.parameters}
    names = [n for n in wanted_names(setup, wrt) if n not in own]
    reverse = found is None and past in ("auto", "reverse")
    return Adjoint(adjoint_program(setup.built, [DT if n == "dt" else parameters[n] for n in names], reverse))
