"""What does a PROPAGATE do?  It stands for n steps of an energy of degree 2 or less, or of free bodies.

Its meaning is that of exact arithmetic: matrices of rational numbers, their exponential or power in whole numbers, and
one rounding. A power of flows is the method's own; a flow is that of the whole energy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from tinyphysics.errors import PlanError
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.calculus.affine import NotAffine
from tinyphysics.rules.calculus.hessian import Hessian, hessian
from tinyphysics.rules.calculus.matrices import Fixed, TooMany, exponential, power, sheared
from tinyphysics.tpir.program.free_bodies import moved_bodies
from tinyphysics.tpir.program.isa import Instruction, Program, Register, Word
from tinyphysics.tpir.program.symbolic import Symbolic, state_var, structure_at

MOST_NUMBERS = 64  # of a state that is jumped with in whole numbers


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
    if i.args[0] == Word("bodies"):
        return bodies_moved(program, terms, states, params, n * Fraction(dt))
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
        if i.args[0] == Word("damped"):
            lost = hessian(terms[parts_of(i)[-1][0]], variables[:half], variables[half:], given)
            m = exponential(slowed(added(matrices[:-1]), lost), n * h)
        elif i.args[0] == Word("flow"):
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


def bodies_moved(
    program: Program,
    terms: Sequence[UOp],
    states: Sequence[Sequence[float]],
    params: Mapping[str, Sequence[float]],
    t: Fraction,
) -> list[list[float]]:
    """Free rigid bodies after a time t: by decimal numbers, rounded once."""
    variables = [state_var(program, k, 0) for k in range(len(program.states))]
    now = dict(zip(variables, states))
    given = {f"${name}": v for name, v in params.items()}
    new = moved_bodies(structure_at(program).turning, UOp.sum_of(list(terms)), now, given, t)
    return [[float(x) for x in new[v]] for v in variables]


def added(parts: Sequence[tuple[list[list[Fraction]], Fraction]]) -> list[list[Fraction]]:
    return [
        [sum((w * a[i][j] for a, w in parts), Fraction(0)) for j in range(len(parts[0][0]))]
        for i in range(len(parts[0][0]))
    ]


def slowed(generator: list[list[Fraction]], lost: Hessian) -> list[list[Fraction]]:
    """The generator with friction: momenta decay by the derivative of its function."""
    out = [list(row) for row in generator]
    for i in range(lost.pairs, 2 * lost.pairs):
        for k, x in lost.rows[i].items():
            out[i][k] -= Fraction(x)
    return out


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
