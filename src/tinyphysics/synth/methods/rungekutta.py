"""How does an explicit Runge–Kutta method step any system?  The references; never symplectic."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tinyphysics.flows.shears import Shear, ShearFlow
from tinyphysics.ir import UOp, substitute
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, WORK, Step, Term, Weight
from tinyphysics.structure import acted
from tinyphysics.synth.methods.derivative import derivative, power
from tinyphysics.system import System


@dataclass(frozen=True)
class Tableau:
    """a[i] are the weights of earlier slopes at stage i, b those of the result."""

    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]


EULER = Tableau(((),), (1.0,))
MIDPOINT = Tableau(((), (0.5,)), (0.0, 1.0))
SIXTH, THIRD = Weight(1 / 6, Fraction(1, 6)), Weight(1 / 3, Fraction(1, 3))
RK4 = Tableau(((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), (SIXTH, THIRD, THIRD, SIXTH))


def runge_kutta(name: str, system: System, T: UOp | None, tableau: Tableau) -> Step:
    """All slopes are functions of the state at the beginning of the step."""
    terms: tuple[Term, ...]
    if system.kind == "ode":
        moves, terms = [(s.var, u, "force") for s, u in zip(system.states, system.update)], ()
    elif system.energy is not None:
        by = system.structure.by
        moves = system.structure.flow(dict(zip(by, derivative(system.energy, by))))
        terms = (Term("H", system.energy),)
    else:
        assert T is not None
        moves = system.structure.flow(dict(zip(system.p, simplify(gradient(T, system.p)))))
        moves += [(p, u, "force") for p, u in zip(system.p, system.forces)]
        terms = (Term("T", T),)
    lost = {p: rate.expand(p.shape) * p for p, rate in zip(system.momenta, system.friction)}
    moves = [(s, acted(kind, g) - lost[s], "force") if s in lost else (s, g, kind) for s, g, kind in moves]
    states, covectors = [s for s, _, _ in moves], [g for _, g, _ in moves]
    timed = system.energy is not None and system.time is not None and system.time in system.energy.leaves
    work = [-power(system.energy, system.time)] if timed and system.energy is not None else []
    if system.friction and system.energy is not None:  # p' = ... - rate*p takes rate*p.dH/dp a unit of time
        slopes_of = derivative(system.energy, system.momenta)
        work = [UOp.sum_of([*work, *((lost[p] * v).sum() for p, v in zip(system.momenta, slopes_of))])]
    slopes: list[list[UOp]] = []  # per stage, the flow of each state
    shears: list[Shear] = []
    works: list[Shear] = []
    # what a user wrote is not fused, so that sums of slopes must be from the beginning
    written = system.energy is None
    for weights, b in zip(tableau.a, tableau.b):
        at = {
            s: _moved(s, [(w, k[i]) for w, k in zip(weights, slopes) if w], written)
            for i, s in enumerate(states)
        }
        if system.time is not None and any(weights):
            at[system.time] = system.time + sum(weights) * DT
        stage = substitute(covectors, at)
        slopes.append([acted(kind, g) for g, (_, _, kind) in zip(stage, moves)])
        if b:
            shears += [Shear(s, g, kind, b) for g, (s, _, kind) in zip(stage, moves)]
            works += [Shear(WORK, u, "force", b) for u in substitute(work, at)]
    body = (ShearFlow(tuple(shears), work=tuple(works)),)
    numbers = tuple(w for row in tableau.a for w in (*row, sum(row)))
    return Step.of(system, name, terms, (), len(tableau.b), body=body, coefficients=numbers)


def _moved(state: UOp, contributions: list[tuple[float, UOp]], fused: bool) -> UOp:
    out = state
    for weight, slope in contributions:
        h = weight * DT
        out = slope.fma(h.expand(slope.shape), out) if fused else out + slope * h
    return out
