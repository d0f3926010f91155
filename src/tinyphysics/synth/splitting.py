"""How is H = T(p) + V(q) stepped by kicks and drifts?  As a palindrome, with neighbours merged.

Each sub-flow of a kick or a drift is exact, so every product of them is symplectic. The last sub-flow
of a step and the first of the next are of the same part and merge: one force evaluation a step for
leapfrog. `final` takes the half that was done too much back, on the copy that is looked at.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinyphysics.facts import Fact
from tinyphysics.ir import Ops, UOp
from tinyphysics.rules.real import simplify
from tinyphysics.step import Block, Shear, Step, Term
from tinyphysics.synth.derivative import derivative
from tinyphysics.system import System

Sequence_ = list[tuple[str, float]]  # (part, weight): ("V", 0.5) is half a kick


def palindrome(outer: str, inner: str, weights: Sequence[float]) -> Sequence_:
    """outer(w/2) inner(w) outer(w/2) for each weight, neighbouring outers merged.

    >>> palindrome("V", "T", [1.0])
    [('V', 0.5), ('T', 1.0), ('V', 0.5)]
    """
    out: Sequence_ = [(outer, weights[0] / 2)]
    for i, w in enumerate(weights):
        following = weights[i + 1] if i + 1 < len(weights) else 0.0
        out += [(inner, w), (outer, w / 2 + following / 2)]
    return out


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
    system: System, T: UOp, V: UOp | None, approximate: Approximate | None = None
) -> dict[str, list[tuple[UOp, UOp, str]]]:
    """For each part, (state that it moves, covector, how J acts)."""
    drift = list(zip(system.q, derivative(T, system.p), ["pass"] * len(system.q)))
    if V is None:  # a force that no energy is known for
        kick = list(zip(system.p, simplify(system.forces), ["force"] * len(system.p)))
    else:
        slopes = derivative(V, system.q) if approximate is None else approximate.derivative(*system.q)
        kick = list(zip(system.p, slopes, ["negate"] * len(system.p)))
    return {"T": drift, "V": kick}


def split_step(
    name: str,
    system: System,
    T: UOp,
    V: UOp | None,
    sequence: Sequence_,
    claims: tuple[str, ...],
    clocked: str | None,
    approximate: Approximate | None = None,
) -> Step:
    """The step that applies the sequence; `clocked` is the part that depends on t, if one does.

    Time advances inside the other part: what the clocked part sees is the sum of that part's weights.
    """
    moves = flows(system, T, V, approximate)
    ticking = {"T": "V", "V": "T"}.get(clocked or "")

    def block(part: str, weight: float, clock: float) -> Block:
        shears = tuple(Shear(s, g, kind, weight) for s, g, kind in moves[part])
        return Block(shears, clock if part == clocked else 0.0)

    first, last = sequence[0], sequence[-1]
    merged = len(sequence) > 2 and first[0] == last[0]
    loop = [*sequence[1:-1], (first[0], last[1] + first[1])] if merged else sequence
    # in a merged loop the first sub-flow has been applied before the loop begins
    now = first[1] if merged and first[0] == ticking else 0.0
    body = []
    for part, weight in loop:
        body.append(block(part, weight, now))
        now += weight if part == ticking else 0.0
    terms = (Term("T", T),) if V is None else (Term("T", T), Term("V", V))
    force = sum(part == "V" for part, _ in loop)
    return Step(
        name, system.states, system.parameters, system.time, terms, claims,
        init=(block(*first, 0.0),) if merged else (),
        body=tuple(_exact_end(b) for b in body),
        final=(block(first[0], -first[1], 0.0),) if merged else (),
        evaluations=force,
    )  # fmt: skip


def _exact_end(b: Block) -> Block:
    """A clock that should read 1 after the weights are added in floating point reads 1."""
    return Block(b.shears, 1.0) if abs(b.clock - 1.0) < 1e-12 else b
