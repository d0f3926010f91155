"""Which matrices does a run turn by?  Those that its program names: the flows of a quadratic energy for some times.

Each is the exponential of rational numbers, taken in whole numbers with a bound (rules/calculus/matrices.py) and rounded
to two words of float64; so it is the same on every machine. An ensemble has one for each set of parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from tinyphysics.errors import PlanError
from tinyphysics.ir.value import evaluate
from tinyphysics.rules.calculus.affine import NotAffine
from tinyphysics.rules.calculus.hessian import hessian
from tinyphysics.rules.calculus.matrices import TooMany, exponential
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.tpir.program.isa import Instruction, Program, Register
from tinyphysics.tpir.program.propagate import declared
from tinyphysics.tpir.program.symbolic import Symbolic, state_var

MOST = 64  # sets of parameters in an ensemble, each with an exponential of its own
Values = tuple[tuple[str, tuple[float, ...]], ...]


def flows_of(program: Program) -> list[Instruction]:
    return [i for i in program.init if i.op == "FLOW"]


@lru_cache(maxsize=64)
def generator(program: Program, term: int, values: Values) -> Any:
    """A with (z, 1)' = A (z, 1), states in the order of the program."""
    positions = [k for k, s in enumerate(program.states) if s.role == "position"]
    order = [*positions, *(k for q in positions if (k := program.conjugate(q)) is not None)]
    variables = [state_var(program, k, 0) for k in order]
    half = len(positions)
    given = {f"${name}": list(v) for name, v in values}
    a = hessian(declared(program)[term], variables[:half], variables[half:], given).generator()
    begin, where = {}, 0
    for k, v in zip(order, variables):
        begin[k] = range(where, where + v.size)
        where += v.size
    rows = [n for k in sorted(begin) for n in begin[k]] + [where]
    return [[a[i][j] for j in rows] for i in rows]


@lru_cache(maxsize=64)
def matrix(program: Program, term: int, h: float, values: Values) -> Any:
    """(two words, rows, columns) of the flow for a time h."""
    try:
        m = exponential(generator(program, term, values), Fraction(h), 120)
    except (NotAffine, TooMany, ArithmeticError) as error:
        raise PlanError(
            f"the flow of the quadratic part of `{program.name}` cannot be computed exactly: {error}",
            fix="Leave method= out: then the whole potential is applied as kicks.",
        ) from error
    size = len(m.rows) - 1
    out = np.empty((2, size, size + 1))
    for i in range(size):
        for j in range(size + 1):
            x = m.fraction(i, j)
            out[0, i, j] = float(x)
            out[1, i, j] = float(x - Fraction(out[0, i, j]))
    return out


def time_of(program: Program, i: Instruction, dt: float) -> float:
    """The time of a FLOW, computed as the program does."""
    symbolic = Symbolic(program)
    for other in program.init:
        if other.op == "ELEM" and other.dst == i.args[2]:
            u = symbolic.value(other, f"`{other}`")
            assert u is not None
            symbolic.env[other.dst] = u
    (h,) = evaluate([symbolic.read(i.args[2], i.type, f"`{i}`")], {"$dt": dt})
    return float(h)


def with_flows(i: Inputs, program: Program, dt: float, of: Program | None = None) -> Inputs:
    """The inputs of a run, with the matrices that its program asks for; `of` declares the energies of an adjoint."""
    members = max((len(v) for v in i.own.values()), default=1)
    sets: list[Values] = [values_of(i.own, k) for k in range(members)]
    if len(set(sets)) > MOST:
        raise PlanError(
            f"{len(set(sets))} sets of parameters need one matrix each, and {MOST} is the most",
            fix="Run the members in parts, or leave method= out.",
        )
    if len(set(sets)) == 1:
        sets = sets[:1]
    own = {}
    for f in flows_of(program):
        energy = f.args[1]
        assert isinstance(energy, Register)
        h = time_of(program, f, dt)
        own[str(f.args[0])[1:]] = np.stack(
            [matrix(of or program, energy.index, h, values) for values in sets]
        )
    return replace(i, params=i.params | own)


def values_of(own: Mapping[str, Any], member: int) -> Values:
    return tuple(
        (name, tuple(np.asarray(v[member if len(v) > 1 else 0], np.float64).ravel().tolist()))
        for name, v in sorted(own.items())
    )
