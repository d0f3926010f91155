"""What does a flow that holds dt do as dt goes to 0, and what besides?  The kicks of force-gradient steps.

A kick of V dt + c [V, [T, V]] dt**3 is dt times a flow f + dt**2 g. As dt goes to 0 it is the kick of V, which is what
consistency is about; for a fixed weight it is even in dt, which symmetry needs. With T quadratic in p, [V, [T, V]] is a
function of the positions alone, and its gradient is a multiple of V'' A V', where A is the Hessian of T. One-sided:
what is not shown to have this form has none.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tinyphysics.errors import TraceError
from tinyphysics.ir.uop import UOp, substitute
from tinyphysics.rules.jvp import jvp
from tinyphysics.rules.normal import Normal
from tinyphysics.rules.real import simplify
from tinyphysics.tpir.isa import Program
from tinyphysics.tpir.symbolic import state_var
from tinyphysics.tpir.units import DT, everywhere, moving


@dataclass(frozen=True, eq=False)
class Even:
    """A flow as limit + dt**2 * square."""

    limit: UOp
    square: UOp | None = None


def even(flow: UOp, normal: Normal) -> Even | None:
    """The two, where a flow is shown to be their sum; None where it depends on dt in any other way."""
    if DT not in flow.leaves:
        return Even(flow)
    (limit,), (whole,) = (substitute([flow], {DT: UOp.const(x)}) for x in (0.0, 1.0))
    square = whole - limit
    shown = everywhere(normal.same, flow, limit + (DT * DT).expand(flow.shape) * square)
    return Even(limit, square) if shown else None


def double_bracket(program: Program, velocities: Sequence[UOp], slopes: Sequence[UOp]) -> list[UOp] | str:
    """V'' A V' for every position, given dT/dp and dV/dq by state; or why it is no gradient."""
    variables = [state_var(program, i, 0) for i in range(len(program.states))]
    pairs = [(i, k) for k, s in enumerate(program.states) if (i := s.conjugate) is not None]
    q, p = ([variables[pair[side]] for pair in pairs] for side in (0, 1))
    drift, force = [velocities[k] for _, k in pairs], [slopes[i] for i, _ in pairs]
    if held := sorted({s for u in drift for s in moving(u)} - {k for _, k in pairs}):
        return f"dT/dp holds S{held[0]}"
    try:
        along = simplify(jvp(drift, p, force))
        if any(moving(u) & {k for _, k in pairs} for u in along):
            return "T is not shown to be quadratic in the momenta"
        found = simplify(jvp(force, q, along))
    except TraceError as error:  # an operation without a derivative
        return f"the force could not be differentiated: {error.what}"
    out = [UOp.const(0.0, v.dtype, v.shape) for v in variables]
    for (i, _), u in zip(pairs, found):
        out[i] = u
    return out


def one_factor(given: Sequence[UOp], wanted: Sequence[UOp], normal: Normal) -> bool:
    """Is every one of the given the same multiple of what is wanted?"""
    ratios: set[Fraction | None] = set()
    for u, v in zip(given, wanted):
        if not normal.form(v):
            if normal.form(u):
                return False
            continue
        ratios.add(normal.ratio(u, v))
    return None not in ratios and len(ratios) <= 1
