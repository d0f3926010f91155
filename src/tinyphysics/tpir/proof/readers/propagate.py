"""What does a PROPAGATE conserve?  It stands for n steps of an energy of degree 2 or less, whose matrix is a constant."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tinyphysics.ir.uop import UOp, substitute
from tinyphysics.rules.calculus.degree import degrees
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.functions.random import draws
from tinyphysics.tpir.program.isa import Instruction, Program, Word
from tinyphysics.tpir.program.propagate import parts_of
from tinyphysics.tpir.program.symbolic import clocks, state_var
from tinyphysics.tpir.proof.units import DT

TOL = Fraction(1, 2**46)  # weights are sums of a few rounded coefficients
Said = tuple[bool, str]


def not_constant(program: Program, terms: Sequence[UOp]) -> str:
    """Why the matrix of an energy is not shown to be a constant; empty if it is."""
    if not terms:
        return "the program declares no energy"
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
