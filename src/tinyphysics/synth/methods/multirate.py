"""How are fast and slow forces stepped?  Each at its own pace: many fast kicks between two slow ones.

The reversible multiple-time-step method (r-RESPA) of Tuckerman, Berne and Martyna 1992: between two half kicks of a
slow part the rest is stepped as a system of its own, in so many steps. Kicks commute, so those that meet at one time
become neighbours, and each force is evaluated once for each of its own steps. The step is symmetric, so that it is
composed to a higher order as a leapfrog is.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tinyphysics.flows.shears import Shear, ShearFlow, along
from tinyphysics.ir import UOp
from tinyphysics.step import WORK, Claims, Step, Term
from tinyphysics.synth.coefficients.clocks import Sequence_
from tinyphysics.synth.coefficients.coefficients import rounded
from tinyphysics.synth.methods.derivative import derivative, power
from tinyphysics.system import System
from tinyphysics.util import prod


def nested(inner: Sequence[int]) -> Sequence_:
    """One step, from after its first kicks to its last: ("T", weight), and (level, weight) of the kicks.

    >>> nested([2])
    [('T', 0.5), ('0', 0.5), ('T', 0.5), ('0', 0.5), ('1', 1.0)]
    """
    weight = Fraction(1, prod(inner))
    out: Sequence_ = [("T", rounded(weight)), ("0", rounded(weight))]
    for level, count in enumerate(inner, 1):
        weight *= count
        out = out * count + [(str(level), rounded(weight))]
    return out


def composed(inner: Sequence[int], weights: Sequence[float]) -> Sequence_:
    """Several steps of such weights, one after the other: kicks that meet between two of them are one.

    >>> composed([1], [2.0, -1.0])
    [('T', 2.0), ('0', 0.5), ('1', 0.5), ('T', -1.0), ('0', 0.5), ('1', 0.5)]
    """
    loop, out = nested(inner), []
    last = max(k for k, (part, _) in enumerate(loop) if part == "T")
    for w, following in zip(weights, [*weights[1:], weights[0]]):
        met = (w + following) / 2
        out += [(part, weight * (w if k <= last else met)) for k, (part, weight) in enumerate(loop)]
    return out


def multirate_step(
    name: str, system: System, T: UOp, inner: Sequence[int], claims: Claims, weights: Sequence[float] = (1.0,)
) -> Step:
    """The step of a system with fast and slow levels, which are kicked at what T has reached of the time.

    `weights` are of the steps that it is composed of, a palindrome.
    """
    moved = system.structure.flow
    drift = moved(dict(zip(system.p, derivative(T, system.p))))
    kicks = {str(k): moved(dict(zip(system.q, derivative(V, system.q)))) for k, V in enumerate(system.levels)}

    def block(part: str, weight: float, clock: float) -> ShearFlow:
        moves = drift if part == "T" else kicks[part]
        timed = part != "T" and system.time is not None and system.time in system.levels[int(part)].leaves
        works = (
            (Shear(WORK, -power(system.levels[int(part)], system.time), "force", weight),) if timed else ()
        )
        return ShearFlow(along(moves, weight), clock if timed else 0.0, works)

    loop = nested(inner) if len(weights) == 1 else composed(inner, weights)
    ends = {part: weight for part, weight in loop if part != "T"}
    body, now = [], 0.0
    for k, (part, weight) in enumerate(loop):
        now += weight if part == "T" else 0.0
        at_end = all(later != "T" for later, _ in loop[k + 1 :])
        body.append(block(part, weight, 1.0 if at_end else now))
    terms = (Term("T", T), *(Term(f"V{k}", V) for k, V in enumerate(system.levels)))
    init = tuple(block(part, weight / 2, 0.0) for part, weight in ends.items())
    final = tuple(block(part, -weight / 2, 0.0) for part, weight in ends.items())
    forces = sum(part != "T" for part, _ in loop)
    return Step.of(system, name, terms, claims, forces, init, tuple(body), final)
