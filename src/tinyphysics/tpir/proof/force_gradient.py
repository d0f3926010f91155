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
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.rewrite import graph_rewrite
from tinyphysics.ir.uop import UOp, substitute
from tinyphysics.rules.calculus.degree import degrees
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.equality.normal import Normal, chooses, quotient, snapped
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.identities.real import simplify
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.program.symbolic import state_var
from tinyphysics.tpir.proof.units import DT, everywhere, moving

FEW = 12  # numbers that are compared one by one, where sums over so few may have been written out
MOST_POWERS = 4  # of dt that may cancel in such a flow: it holds two
MOST_COMPONENTS = 6  # of flows that hold dt and are compared as they are: V'' A V' written out is long


@dataclass(frozen=True, eq=False)
class Even:
    """A flow as limit + factor * dt**2 * square."""

    limit: UOp
    square: UOp | None = None
    factor: Fraction = Fraction(0)

    def over(self, other: Even, normal: Normal) -> Fraction | None:
        """The number r with square = r * other's, factors included."""
        assert self.square is not None and other.square is not None
        r = Fraction(1) if self.square is other.square else normal.ratio(self.square, other.square)
        return None if r is None or not other.factor else r * self.factor / other.factor


def even(flow: UOp, normal: Normal) -> Even | None:
    """The two, where a flow is shown to be their sum; None where it depends on dt in any other way."""
    if DT not in flow.leaves:
        return Even(flow)
    if (found := as_written(flow, normal)) is not None:
        return found
    degree = degrees(flow, frozenset({DT}))[flow]
    if flow.size > MOST_COMPONENTS or degree is None or degree > MOST_POWERS:
        return None
    (limit,), (whole,) = (substitute([flow], {DT: UOp.const(x)}) for x in (0.0, 1.0))
    square = whole - limit
    shown = everywhere(normal.same, flow, limit + (DT * DT).expand(flow.shape) * square)
    return Even(limit, square, Fraction(1)) if shown else None


def as_written(flow: UOp, normal: Normal) -> Even | None:
    """The two where a flow is written as k*square + limit, with k a multiple of dt**2 and no dt elsewhere."""
    minus, u = False, flow
    while u.op is Ops.NEG:
        minus, u = not minus, u.src[0]
    if u.op is Ops.ADD and u.src[0].op is Ops.MUL:
        a, b, limit = *u.src[0].src, u.src[1]
    elif u.op is Ops.FMA:
        a, b, limit = u.src
    else:
        return None
    for k, square in ((a, b), (b, a)):
        if DT not in square.leaves and DT not in limit.leaves:
            factor = normal.ratio(k, (DT * DT).expand(k.shape))
            if factor is not None:
                return Even(-limit if minus else limit, square, -factor if minus else factor)
    return None


def double_bracket(
    program: Program, velocities: Sequence[UOp], slopes: Sequence[UOp], names: Sequence[UOp] | None = None
) -> list[UOp] | str:
    """V'' A V' for every position, given dT/dp and dV/dq by state; or why it is no gradient.

    With names for V', by state, it is V'' A name: the same where the names stand for V'.
    """
    variables = [state_var(program, i, 0) for i in range(len(program.states))]
    pairs = [(i, k) for k, s in enumerate(program.states) if (i := s.conjugate) is not None]
    q, p = ([variables[pair[side]] for pair in pairs] for side in (0, 1))
    drift, force = [velocities[k] for _, k in pairs], [slopes[i] for i, _ in pairs]
    if held := sorted({s for u in drift for s in moving(u)} - {k for _, k in pairs}):
        return f"dT/dp holds S{held[0]}"
    try:
        along = simplify(jvp(drift, p, [(names or slopes)[i] for i, _ in pairs]))
        if any(moving(u) & {k for _, k in pairs} for u in along):
            return "T is not shown to be quadratic in the momenta"
        found = simplify(jvp(force, q, along))
    except TraceError as error:  # an operation without a derivative
        return f"the force could not be differentiated: {error.what}"
    out = [UOp.const(0.0, v.dtype, v.shape) for v in variables]
    for (i, _), u in zip(pairs, found):
        out[i] = u
    return out


def named(covector: UOp, state: int, table: dict[UOp, UOp]) -> UOp:
    """A short name for a covector; the table is told what is to be called so: its numbers, without their signs.

    What is a coordinate or a number keeps its own name, since it occurs elsewhere too; what has a name has only one.
    """

    def name(u: UOp, text: str) -> UOp:
        base, minus = u, False
        while base.op is Ops.NEG:
            base, minus = base.src[0], not minus
        if not base.src or base.op is Ops.ELEMENT and not base.src[0].src:
            return u
        x = table.setdefault(base, UOp.var(text, u.shape, u.dtype))
        return -x if minus else x

    if covector.op is not Ops.STACK:
        return name(covector, f"slope{state}")
    return UOp.stack([name(u, f"slope{state}.{k}") for k, u in enumerate(covector.src)], covector.shape)


def one_factor(given: Sequence[Even], wanted: Sequence[UOp], table: dict[UOp, UOp], normal: Normal) -> bool:
    """Is every square the same multiple of what is wanted, after the table has named what it may?"""
    ratios: set[Fraction | None] = set()
    for e, v in zip(given, wanted):
        if e.square is None or normal.is_zero(v):
            if e.square is not None or not normal.is_zero(v):
                return False
            continue
        (u,) = substitute([e.square], table)
        r = multiple(u, v, normal)
        ratios.add(None if r is None else r * e.factor)
    return None not in ratios and len(ratios) <= 1


def multiple(u: UOp, v: UOp, normal: Normal) -> Fraction | None:
    """The number r with u = r*v: term by term, without a common denominator, which would be long."""
    r = quotient(normal.form(u), normal.form(v))
    in_pieces = u.size <= FEW or any(x.op is Ops.STACK for x in (u, v))
    if r is not None or not in_pieces or any(map(chooses, (u, v))):
        return r
    ratios = set()
    for x, y in zip(*(graph_rewrite(numbers, exact) for numbers in unroll([u, v]))):
        p, q = normal.form(x), normal.form(y)
        if p or q:
            r = quotient(p, q)
            if r is None:
                return None
            ratios.add(snapped(r))
    return ratios.pop() if len(ratios) == 1 else None
