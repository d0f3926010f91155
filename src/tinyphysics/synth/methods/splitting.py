"""How is H = T(p) + V(q) stepped by kicks and drifts?  As a palindrome, with neighbours merged.

Each sub-flow of a kick or a drift is exact, so every product of them is symplectic. The last sub-flow
of a step and the first of the next are of the same part and merge: one force evaluation a step for
leapfrog. `final` takes the half that was done too much back, on the copy that is looked at, and undoes a processor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tinyphysics.facts import Fact
from tinyphysics.flows.relax import RelaxFlow
from tinyphysics.flows.shears import Shear, ShearFlow, is_zero
from tinyphysics.ir import Ops, UOp
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, WORK, Claims, Step, SubFlow, Term
from tinyphysics.synth.coefficients.clocks import (
    EXACT,
    FRICTION,
    Sequence_,
    TimedPart,
    composed,
    damped,
    joined,
    timed,
)
from tinyphysics.synth.methods.baths import in_bath
from tinyphysics.synth.methods.derivative import derivative, force_gradient, power, power_of_gradient
from tinyphysics.synth.methods.mesh_forces import DifferentiatedWaves
from tinyphysics.system import System


@dataclass(frozen=True, eq=False)
class Approximate:
    """A sum of the potential whose derivative a tree gives, to a relative error: analysis/inverse_distance.py."""

    sum: Fact
    error: float

    def derivative(self, q: UOp) -> list[UOp]:
        n, masses = q.shape[0], self.sum.masses
        tree = UOp(Ops.TREE, q.dtype, q.shape, (q, masses, self.sum.softening), (self.error,))
        charge = (self.sum.factor.expand((n,)) * masses).reshape(n, 1).expand(q.shape)
        rest = [] if self.sum.rest is None else derivative(self.sum.rest, [q])
        return simplify([UOp.sum_of([charge * tree, *rest])])


def flows(
    system: System,
    T: UOp,
    V: UOp | None,
    approximate: Approximate | DifferentiatedWaves | None = None,
    gradients: bool = False,
) -> dict[str, list[tuple[UOp, UOp, str]]]:
    """For each part, (state that it moves, covector, how J acts)."""
    velocities = derivative(T, system.p)
    moved = system.structure.flow
    drift = moved(dict(zip(system.p, velocities)))
    if V is None:  # a force that no energy is known for
        kick = list(zip(system.p, system.forces, ["force"] * len(system.p)))
        return {"T": drift, "V": kick}
    slopes = derivative(V, system.q) if approximate is None else approximate.derivative(*system.q)
    moves = {"T": drift, "V": moved(dict(zip(system.q, slopes)))}
    if gradients:
        along = force_gradient(slopes, velocities, system.q, system.p)
        moves["W"] = moved(dict(zip(system.q, along)))
    return moves


def arrivals(sequence: Sequence_) -> Iterator[float]:
    """For each part of a bath how far the drifts before it have gone, in steps."""
    now = 0.0
    for part, weight in sequence:
        now += weight if part == "T" else 0.0
        if part == FRICTION:
            yield now


def split_step(
    name: str,
    system: System,
    T: UOp,
    V: UOp | None,
    sequence: Sequence_,
    claims: Claims,
    inside: Sequence[str] = (),
    approximate: Approximate | DifferentiatedWaves | None = None,
    processor: Sequence_ | None = None,
) -> Step:
    """The step that applies the sequence; `inside` are the parts that depend on t.

    A processor is applied before the first step, and undone on the copy that is looked at.
    """
    before = timed(joined(processor or []), inside)
    assert abs(sum(f.weight for f in before if f.part == "T")) < EXACT, "a processor leaves the time as it is"
    gradients = any(part == "W" for part, _ in [*sequence, *(processor or [])])
    moves = flows(system, T, V, approximate, gradients)

    factors: list[float] = []  # of force gradients
    both = {} if V is None else {"T": T, "V": V}
    powers = {part: power(u, system.time) for part, u in both.items() if part in inside}
    if gradients and "V" in powers:
        slopes, velocities = ([g for _, g, _ in moves[part]] for part in "VT")
        powers["W"] = power_of_gradient(slopes, velocities, system.time, system.p)

    def works(f: TimedPart) -> tuple[Shear, ...]:
        """What a sub-flow does to p_t: that of H is moved by -dH/dt."""
        if f.part not in powers:
            return ()
        plain = [Shear(WORK, -powers[f.part], "force", f.weight)] if f.weight else []
        extra = [Shear(WORK, -(DT * DT * powers["W"]), "force", -2 * f.gradient)] if f.gradient else []
        return (*plain, *extra)

    def block(f: TimedPart) -> SubFlow:
        if f.part == FRICTION and system.heat:
            return in_bath(system, T, f.weight, *next(pieces))
        if f.part == FRICTION:
            rates = tuple((p, rate) for p, rate in zip(system.p, system.friction) if not is_zero(rate))
            return RelaxFlow(rates, f.weight, T)
        shears = []
        weight = f.weight or f.gradient
        if f.gradient:
            factors.append(-2 * f.gradient / weight)  # [V, [T, V]] is -g.A.g
        for k, (state, covector, kind) in enumerate(moves[f.part]):
            if f.gradient:
                along = moves["W"][k][1]
                extra = (factors[-1] * (DT * DT)).expand(along.shape) * along
                covector = covector + extra if f.weight else extra
            shears.append(Shear(state, covector, kind, weight))
        return ShearFlow(tuple(shears), f.clock, works(f))

    # of the bath in a step: each has its own random numbers, and sees the time at which drifts have arrived
    pieces = enumerate(arrivals(sequence))
    if system.friction:
        sequence = damped(sequence) or sequence
    once = timed(composed(sequence) if len(inside) > 1 else joined(sequence), inside)
    first, last = once[0], once[-1]
    merged = (
        len(once) > 2
        and first.part == last.part != (FRICTION if system.heat else "")
        and last.clock - first.clock == (first.part in inside)
    )
    # in a merged loop the first sub-flow has been applied before the loop begins
    loop = [*once[1:-1], first.before(last)] if merged else once
    early = [first] if merged else []
    if merged and first.part == FRICTION and once[1].part == "V":  # both kicks around friction have one force
        early, loop = [*early, loop[0]], [*loop[1:], replace(loop[0], clock=once[-2].clock)]
    terms = (Term("T", T),) if V is None else (Term("T", T), Term("V", V))
    ends = [f.undone for f in reversed(early)]
    parts = ([*before, *early], loop, [*ends, *(f.undone for f in reversed(before))])
    flows_of = [tuple(map(block, part)) for part in parts]  # which fills `factors`, in this order
    parts_of = "".join(f.part for f in loop)
    kicks = parts_of.count("V") - parts_of.count("VFV")  # which have one force
    return Step.of(system, name, terms, claims, kicks, *flows_of, coefficients=tuple(factors))
