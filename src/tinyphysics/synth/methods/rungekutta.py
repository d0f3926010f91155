"""How does an explicit Runge–Kutta method step any system?  The references; never symplectic."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tinyphysics.flows.shears import Shear, ShearFlow
from tinyphysics.ir import UOp, substitute
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, WORK, Step, Term, Weight
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
        covectors, kinds, terms = list(system.update), ["force"] * len(system.states), ()
    elif system.energy is not None:
        covectors = derivative(system.energy, [*system.p, *system.q])
        kinds = ["pass"] * len(system.q) + ["negate"] * len(system.p)
        terms = (Term("H", system.energy),)
    else:
        assert T is not None
        covectors = [*simplify(gradient(T, system.p)), *system.forces]
        kinds = ["pass"] * len(system.q) + ["force"] * len(system.p)
        terms = (Term("T", T),)
    states = [*system.q, *system.p] if system.kind != "ode" else [s.var for s in system.states]
    timed = system.energy is not None and system.time is not None and system.time in system.energy.leaves
    work = [-power(system.energy, system.time)] if timed and system.energy is not None else []
    slopes: list[list[UOp]] = []  # per stage, the flow of each state
    shears: list[Shear] = []
    works: list[Shear] = []
    written = (
        system.energy is None
    )  # what a user wrote is not fused, so that sums of slopes must be from the beginning
    for weights, b in zip(tableau.a, tableau.b):
        at = {
            s: _moved(s, [(w, k[i]) for w, k in zip(weights, slopes) if w], written)
            for i, s in enumerate(states)
        }
        if system.time is not None and any(weights):
            at[system.time] = system.time + sum(weights) * DT
        stage = substitute(covectors, at)
        slopes.append([-g if kind == "negate" else g for g, kind in zip(stage, kinds)])
        if b:
            shears += [Shear(s, g, kind, b) for s, g, kind in zip(states, stage, kinds)]
            works += [Shear(WORK, u, "force", b) for u in substitute(work, at)]
    return Step(
        name,
        system.states,
        system.parameters,
        system.time,
        terms,
        (),
        init=(),
        body=(ShearFlow(tuple(shears), work=tuple(works)),),
        final=(),
        evaluations=len(tableau.b),
        coefficients=tuple(w for row in tableau.a for w in (*row, sum(row))),
    )


def _moved(state: UOp, contributions: list[tuple[float, UOp]], fused: bool) -> UOp:
    out = state
    for weight, slope in contributions:
        h = weight * DT
        out = slope.fma(h.expand(slope.shape), out) if fused else out + slope * h
    return out
