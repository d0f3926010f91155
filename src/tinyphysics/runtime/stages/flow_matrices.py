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
from tinyphysics.ir.uop import elements
from tinyphysics.ir.value import evaluate
from tinyphysics.rules.calculus.affine import NotAffine
from tinyphysics.rules.calculus.hessian import hessian
from tinyphysics.rules.calculus.matrices import TooMany, exponential
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.tpir.program.isa import Instruction, Param, Program, Register
from tinyphysics.tpir.program.propagate import declared
from tinyphysics.tpir.program.symbolic import Symbolic, state_var

LARGEST = 64  # numbers of a state, whose matrix is derived by a parameter in some seconds
MOST = 64  # sets of parameters in an ensemble, each with an exponential of its own
Values = tuple[tuple[str, tuple[float, ...]], ...]
By = tuple[str, int]  # a parameter, and which of its numbers


def check_size(size: int, by: By) -> None:
    if size > LARGEST:
        raise PlanError(
            f"how the flow of {size} coupled numbers changes with `{by[0]}` is a matrix of {2 * size + 2} rows in whole "
            "numbers, which would take minutes",
            fix=f'Leave `{by[0]}` out of wrt, or choose method="leapfrog".',
        )


def flows_of(program: Program) -> list[Instruction]:
    return [i for i in program.init if i.op in ("FLOW", "FLOW_ALONG")]


@lru_cache(maxsize=64)
def generator(program: Program, term: int, values: Values, by: By | None = None) -> Any:
    """A with (z, 1)' = A (z, 1), states in the order of the program; or how it changes with a number of a parameter."""
    positions = [k for k, s in enumerate(program.states) if s.role == "position"]
    order = [*positions, *(k for q in positions if (k := program.conjugate(q)) is not None)]
    variables = [state_var(program, k, 0) for k in order]
    half = len(positions)
    given = {f"${name}": list(v) for name, v in values}
    energy = declared(program)[term]
    if by is not None:
        (param,) = (v for v in energy.leaves if str(v.arg) == f"${by[0]}")
        energy = elements(gradient(energy, [param])[0])[by[1]]
    a = hessian(energy, variables[:half], variables[half:], given).generator()
    begin, where = {}, 0
    for k, v in zip(order, variables):
        begin[k] = range(where, where + v.size)
        where += v.size
    rows = [n for k in sorted(begin) for n in begin[k]] + [where]
    return [[a[i][j] for j in rows] for i in rows]


@lru_cache(maxsize=64)
def matrix(program: Program, term: int, h: float, values: Values, by: By | None = None) -> Any:
    """(two words, rows, columns) of the flow for a time h; or how it changes with a number of a parameter.

    exp([[A, A'], [0, A]] h) = [[P, P'], [0, P]].
    """
    try:
        a = generator(program, term, values)
        size, first = len(a) - 1, len(a)
        if by is not None:
            check_size(size, by)
            change = generator(program, term, values, by)
            a = [[*x, *y] for x, y in zip(a, change)] + [[Fraction(0)] * len(a) + [*x] for x in a]
        m = exponential(a, Fraction(h), 120)
    except (NotAffine, TooMany, ArithmeticError) as error:
        raise PlanError(
            f"the flow of the quadratic part of `{program.name}` cannot be computed exactly: {error}",
            fix="Leave method= out: then the whole potential is applied as kicks.",
        ) from error
    begin = 0 if by is None else first
    out = np.empty((2, size, size + 1))
    for i in range(size):
        for j in range(size + 1):
            x = m.fraction(i, begin + j)
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
        found = [matrix(of or program, energy.index, h, values, by_of(f)) for values in sets]
        own[str(f.args[0])[1:]] = np.stack(found)
    return replace(i, params=i.params | own)


def by_of(f: Instruction) -> By | None:
    """What a matrix is derived by."""
    if f.op == "FLOW":
        return None
    param, number = f.args[3:]
    assert isinstance(param, Param) and isinstance(number, tuple) and isinstance(number[0], int)
    return param.name, number[0]


def values_of(own: Mapping[str, Any], member: int) -> Values:
    return tuple(
        (name, tuple(np.asarray(v[member if len(v) > 1 else 0], np.float64).ravel().tolist()))
        for name, v in sorted(own.items())
    )
