"""How do all states go along the Taylor series of their solution?  In loops over its coefficients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tinyphysics.ir import UOp
from tinyphysics.step import OWN_STEPS, SERIES, Step, SubFlow
from tinyphysics.tpir.program.lower import ProgramBuilder


@dataclass(frozen=True, eq=False)
class TaylorSeries(SubFlow):
    """All that a step does: rules/calculus/series.py has its series, an engine of its own runs it."""

    states: tuple[UOp, ...]
    rates: tuple[UOp, ...]  # the derivative of each state
    order: int
    traits = frozenset({SERIES, OWN_STEPS})
    declares_dt = False

    def writes(self) -> tuple[UOp, ...]:
        return self.states

    def expressions(self) -> tuple[UOp, ...]:
        return self.rates

    def lower(self, b: ProgramBuilder, section: str) -> None:
        rates = [b.operand(u, section) for u in self.rates]
        first = self.states[0]
        b.emit(section, "SERIES", b.state(first), *rates, (self.order,), u=first, note=" ")

    def field(self) -> Mapping[UOp, UOp]:
        return dict(zip(self.states, self.rates))


def series_of(step: Step) -> TaylorSeries:
    (found,) = step.body
    assert isinstance(found, TaylorSeries)
    return found
