"""How is a sum of several parts stepped, none of which commute?  Each by its exact flow, there and back again.

Half of the first part, half of the second, ..., all of the last, and back: Strang's product is symmetric and has order 2 for
any number of parts. Repeated by the factors of a composition it has the order of that. The last sub-flow of a step and the
first of the next are of one part, and merge.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache

from tinyphysics.flows.shears import ShearFlow, along
from tinyphysics.ir import UOp
from tinyphysics.step import Claims, ExactPart, Step, SubFlow, Term, Weight
from tinyphysics.synth.coefficients.clocks import whole
from tinyphysics.synth.coefficients.coefficients import COMPOSITION, DIGITS
from tinyphysics.synth.methods.derivative import derivative
from tinyphysics.system import System
from tinyphysics.util import in_order


def suzuki(order: int) -> tuple[Weight, ...]:
    """Five factors that raise a symmetric method from an even order to the next; Suzuki 1990, Phys. Lett. A 146, 319.

    >>> [round(w, 3) for w in suzuki(4)]
    [0.414, 0.414, -0.658, 0.414, 0.414]
    """
    root = DIGITS.power(Decimal(4), DIGITS.divide(Decimal(1), Decimal(order - 1)))
    exact = Fraction(DIGITS.divide(Decimal(1), DIGITS.subtract(Decimal(4), root)))
    w = Weight(float(exact), exact)
    return w, w, 1 - 4 * w, w, w


COMPOSED: dict[str, tuple[float, ...]] = {
    "strang": (1.0,),
    "strang4": suzuki(4),
    "strang6": COMPOSITION["kahan_li6"],
    "strang8": COMPOSITION["kahan_li8"],
}


Product = tuple[
    int, float, float
]  # a part, its weight, and the time that it sees, in steps after the beginning


def products(parts: int, weights: Sequence[float], timed: Container[int] = ()) -> list[Product]:
    """One step. Parts that read the time see the middle of each product, in whose two ends time advances (numerics: 13).

    >>> [(part, weight) for part, weight, _ in products(3, [1.0])]
    [(0, 0.5), (1, 0.5), (2, 1.0), (1, 0.5), (0, 0.5)]
    >>> products(2, [1.0], timed={1})
    [(0, 0.5, 0.0), (1, 1.0, 0.5), (0, 0.5, 0.0)]
    """
    out: list[Product] = []
    now = 0.0
    for w in weights:
        there = [(k, w / 2) for k in range(parts - 1)]
        for k, x in [*there, (parts - 1, w), *reversed(there)]:
            clock = whole(now + w / 2) if k in timed else 0.0
            if out and out[-1][0] == k and out[-1][2] == clock:
                x = x + out.pop()[1]
            out.append((k, x, clock))
        now += w
    return out


def moves(energy: UOp, system: System) -> list[tuple[UOp, UOp, str]]:
    """(state, covector, how J acts) of one part, in an order in which no state is read after it was moved."""
    held = [x for x in (*system.q, *system.p) if x in energy.leaves]
    flow = system.structure.flow(dict(zip(held, derivative(energy, held))))
    found = {moved: (g, kind) for moved, g, kind in flow}
    order = in_order(list(found), {s: g.leaves for s, (g, _) in found.items()})
    assert order is not None, "analysis/shears.py turns it down"
    return [(s, *found[s]) for s in order]


def in_shears(system: System, parts: Sequence[tuple[str, UOp]]) -> list[ExactPart]:
    """Parts that move no variable they depend on; a part is differentiated when its first flow is made."""

    def part(label: str, energy: UOp) -> ExactPart:
        moved = cache(lambda: moves(energy, system))
        return ExactPart(Term(label, energy), lambda weight: ShearFlow(along(moved(), weight)))

    return [part(*x) for x in parts]


def strang_step(
    name: str,
    system: System,
    parts: Sequence[ExactPart],
    weights: Sequence[float],
    claims: Claims,
    decay: Callable[[float], SubFlow] | None = None,
) -> Step:
    """The product of some parts; with friction, `decay` is one more."""
    kick = parts[0]
    terms = tuple(dict.fromkeys(part.term for part in parts))  # several parts may be of one term
    parts = sorted(
        parts, key=lambda part: part.timed
    )  # what is the same at all times merges with the next step
    if decay is not None:  # inside the first, whose halves merge: a force is evaluated once a step
        outside = int(len(parts) > 1 and not parts[0].timed)
        parts.insert(outside, ExactPart(kick.term, decay))
    timed = {k for k, part in enumerate(parts) if part.timed}

    def flow(k: int, weight: float, clock: float) -> SubFlow:
        return parts[k].flow(weight, clock) if k in timed else parts[k].flow(weight)

    if len(parts) == 1 and not parts[0].exact:  # two steps of it are not one of both lengths
        body = tuple(flow(0, w, 0.0) for w in weights)
        return Step.of(system, name, terms, claims, len(weights), body=body)
    once = products(len(parts), weights, timed)
    loop, first, last = once, once[0], once[-1]
    merged = len(once) > 2 and 0 not in timed
    if merged:
        loop = [*once[1:-1], (0, last[1] + first[1], 0.0)]
    init, body = (flow(*first),) if merged else (), tuple(flow(*x) for x in loop)
    final = (flow(0, -first[1], 0.0),) if merged else ()
    return Step.of(system, name, terms, claims, sum(parts[k] is kick for k, *_ in loop), init, body, final)
