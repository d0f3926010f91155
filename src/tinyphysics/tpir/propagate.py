"""What does a PROPAGATE do, and what does it conserve?  It stands for n steps of an energy of degree 2 or less.

Its meaning is that of exact arithmetic: matrices of rational numbers, their exponential or power in whole numbers, and
one rounding. A power of flows is the method's own; a flow is that of the whole energy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from tinyphysics.errors import PlanError
from tinyphysics.ir.uop import UOp, substitute
from tinyphysics.rules.affine import NotAffine
from tinyphysics.rules.degree import degrees
from tinyphysics.rules.hessian import hessian
from tinyphysics.rules.matrices import Fixed, TooMany, exponential, power, sheared
from tinyphysics.rules.normal import Normal
from tinyphysics.rules.random import draws
from tinyphysics.tpir.isa import Instruction, Program, Register, Word
from tinyphysics.tpir.symbolic import Symbolic, clocks, state_var
from tinyphysics.tpir.units import DT

MOST_NUMBERS = 64  # of a state that is jumped with in whole numbers
TOL = Fraction(1, 2**46)  # weights are sums of a few rounded coefficients
Said = tuple[bool, str]


def jump_of(program: Program) -> Instruction | None:
    """The instruction that stands for all steps, if there is one."""
    return next((i for i in program.final if i.op == "PROPAGATE"), None)


def parts_of(i: Instruction) -> list[tuple[int, float]]:
    """(term of the energy, weight), in the order in which they act."""
    out = []
    for e, w in zip(i.args[1::2], i.args[2::2]):
        assert isinstance(e, Register) and isinstance(w, float)
        out.append((e.index, w))
    return out


def declared(program: Program) -> list[UOp]:
    """The terms of the energy as expressions of S0@0, S1@0, ... and $parameters."""
    symbolic, out = Symbolic(program), []
    for k in range(len(program.states)):
        symbolic.env[Register("S", k)] = state_var(program, k, 0)
    for i in program.energy:
        value = symbolic.value(i, f"`{i}`")
        assert value is not None
        symbolic.env[i.dst] = value
        if isinstance(i.dst, Register) and i.dst.kind == "E":
            out.append(value)
    return out


# --- what it conserves ------------------------------------------------------------------------------------
def not_constant(program: Program, terms: Sequence[UOp]) -> str:
    """Why the matrix of an energy is not shown to be a constant; empty if it is."""
    states = frozenset(state_var(program, k, 0) for k in range(len(program.states)))
    for k, u in enumerate(terms):
        degree = degrees(u, states)[u]
        if degree is None or degree > 2:
            return f"E{k} is not shown to be of degree 2 or less in the state"
        if clocks(u):
            return f"E{k} depends on time explicitly"
        if draws(u):
            return f"E{k} draws random numbers"
    unpaired = next((s.name for k, s in enumerate(program.states) if program.conjugate(k) is None), None)
    return "" if unpaired is None else f"`{unpaired}` has no conjugate"


def moves_itself(program: Program, u: UOp) -> bool:
    """Does an energy hold a position and its own momentum?"""
    held = {k for k in range(len(program.states)) if state_var(program, k, 0) in u.leaves}
    return any(program.conjugate(k) in held for k in held)


def jump_verdicts(program: Program, i: Instruction, terms: Sequence[UOp], normal: Normal) -> list[Said]:
    """(holds, because) for symplectic, volume-preserving, symmetric, reversible, consistent."""
    parts, flow = parts_of(i), i.args[0] == Word("flow")
    if why := not_constant(program, terms):
        return [(False, why)] * 5
    shears = next((k for k, _ in parts if moves_itself(program, terms[k])), None) if not flow else None
    if shears is not None:
        why = f"the flow of E{shears} is not a shear: it holds a position and its momentum"
        return [(False, why)] * 5
    what = (
        "exp(n dt J H'') with a constant H''"
        if flow
        else "a power of shears, each exp(w dt J H'') with a constant H''"
    )
    kept = (True, f"{what}; how far a run is from it is in its metrics")
    if flow or is_palindrome(parts):
        symmetric = (True, "the flow of one energy" if flow else "the sub-flows of a step are a palindrome")
    else:
        symmetric = (False, "its sub-flows are not a palindrome")
    mirror = {
        v: -v
        for k, s in enumerate(program.states)
        if s.role == "momentum"
        for v in [state_var(program, k, 0)]
    }
    odd = next((k for k, u in enumerate(terms) if not normal.same(substitute([u], mirror)[0], u)), None)
    reversible = (True, "symmetric, and every term of the energy is even in the momenta")
    if not symmetric[0]:
        reversible = (False, f"not shown to be symmetric: {symmetric[1]}")
    elif odd is not None:
        reversible = (False, f"E{odd} is not shown to be even in the momenta")
    if (holds := next((k for k, u in enumerate(terms) if DT in u.leaves), None)) is not None:
        return [kept, kept, *[(False, f"E{holds} itself depends on dt")] * 3]
    return [kept, kept, symmetric, reversible, consistent(parts, len(terms), flow)]


def is_palindrome(parts: Sequence[tuple[int, float]]) -> bool:
    return all(
        a == c and abs(Fraction(b) - Fraction(d)) <= TOL for (a, b), (c, d) in zip(parts, reversed(parts))
    )


def consistent(parts: Sequence[tuple[int, float]], terms: int, flow: bool) -> Said:
    for k in range(terms):
        total = sum((Fraction(w) for e, w in parts if e == k), Fraction(0))
        if abs(total - 1) > (0 if flow else TOL):
            return False, f"E{k} enters with total weight {float(total):g} instead of 1"
    return True, "every term of the energy enters with total weight 1 and the sign of J"


# --- what it does -----------------------------------------------------------------------------------------
def propagated(
    program: Program,
    i: Instruction,
    states: Sequence[Sequence[float]],
    params: Mapping[str, Sequence[float]],
    dt: float,
    n: int,
) -> list[list[float]]:
    """The states, flat, after n steps of dt: rounded once from an exact result."""
    terms = declared(program)
    order = [*(k for k, s in enumerate(program.states) if s.role == "position")]
    order += [k for p in order if (k := program.conjugate(p)) is not None]
    variables = [state_var(program, k, 0) for k in order]
    half, h = len(order) // 2, Fraction(dt)
    if (size := sum(u.size for u in variables)) > MOST_NUMBERS:
        raise PlanError(
            f"the virtual machine jumps with {MOST_NUMBERS} numbers at most, not with {size}",
            fix="Run it with tp.compile(...).evolve(...).",
        )
    given = {f"${name}": v for name, v in params.items()}
    try:
        matrices = [
            (hessian(terms[e], variables[:half], variables[half:], given).generator(), Fraction(w))
            for e, w in parts_of(i)
        ]
        if i.args[0] == Word("flow"):
            m = exponential(added(matrices), n * h)
        else:
            m = power([sheared(a, w * h) for a, w in matrices], n)
    except (NotAffine, TooMany) as error:
        raise PlanError(
            f"`{i}` has no exact result: {error}", fix='Run it step by step: propagator="loop".'
        ) from error
    old = [Fraction(x) for k in order for x in states[k]]
    new = applied(m, old)
    out, at = [list(s) for s in states], 0
    for k in order:
        out[k] = new[at : at + len(out[k])]
        at += len(out[k])
    return out


def added(parts: Sequence[tuple[list[list[Fraction]], Fraction]]) -> list[list[Fraction]]:
    return [
        [sum((w * a[i][j] for a, w in parts), Fraction(0)) for j in range(len(parts[0][0]))]
        for i in range(len(parts[0][0]))
    ]


def applied(m: Fixed, z: Sequence[Fraction]) -> list[Any]:
    """m (z, 1), without the last; infinite where it is out of range."""
    scale, full = 1 << m.bits, [*z, Fraction(1)]
    out = []
    for row in m.rows[:-1]:
        x = sum((c * v for c, v in zip(row, full)), Fraction(0)) / scale
        try:
            out.append(x.numerator / x.denominator)
        except OverflowError:
            out.append(math.inf if x > 0 else -math.inf)
    return out
