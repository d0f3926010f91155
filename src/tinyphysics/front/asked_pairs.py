"""Does a function with several plain arguments mean several canonical pairs?  Then it is asked back, with the line to write.

`def dp(theta1, theta2, w1, w2)` means two angles and two rates. Read by position alone, theta2 would be the momentum of
theta1 and w1 a parameter, and such a run can look reasonable. Names say so (`x, y, px, py`, `q1, p1, q2, p2`), or the
energy does: a parameter that stands beside the states and never with them moves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tinyphysics.errors import TraceError
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.util import Site

Pairs = list[tuple[str, str]]
MARKS = ("p", "v", "w", "u", "l", "d", "omega", "vel", "mom", "momentum", "velocity", "dot", "t", "prime")
WITH = {  # a position and what is usually written beside it
    *((q, p) for q in ("q", "x", "r", "y", "z", "theta", "phi", "s") for p in ("p", "v", "dot")),
    *((angle, rate) for angle in ("theta", "phi", "alpha", "psi") for rate in ("omega", "w", "l", "L")),
}


def belong(q: str, p: str) -> bool:
    """Is p named as the momentum or velocity of q: px of x, theta_dot of theta, w1 of theta1?

    >>> belong("x", "px"), belong("theta1", "w1"), belong("theta", "theta_dot"), belong("q", "m"), belong("q1", "p2")
    (True, True, True, False, False)
    """
    if q == p:
        return False
    if any(p in (f"{m}{q}", f"{m}_{q}", f"{q}{m}", f"{q}_{m}") for m in MARKS):
        return True
    a, b = (re.fullmatch(r"([^\W\d]\w*?)_?(\d*)", name) for name in (q, p))
    if a is None or b is None or a[2] != b[2]:
        return False
    return (a[1], b[1]) in WITH or bool(a[2]) and a[1] != b[1]


def by_name(names: Sequence[str]) -> Pairs | None:
    """The pairs that the first names spell, all positions first or pair by pair; None if there are not two."""
    for n in range(2, len(names) // 2 + 1):
        halves = list(zip(names[:n], names[n : 2 * n]))
        turns = list(zip(names[: 2 * n : 2], names[1 : 2 * n : 2]))
        for pairs in (halves, turns):
            if all(belong(q, p) for q, p in pairs):
                return pairs
    return None


def terms(u: UOp) -> list[UOp]:
    """What is added up to u; of products only those with numbers are opened."""
    out, left = [], [u]
    while left:
        x = left.pop()
        held = [s for s in x.src if s.leaves]
        if x.op in (Ops.ADD, Ops.SUB, Ops.NEG):
            left += x.src
        elif len(held) == 1 and (x.op is Ops.MUL or x.op is Ops.DIV and held[0] is x.src[0]):
            left += held
        else:
            out.append(x)
    return out


def beside(energy: UOp, states: Sequence[UOp], others: Sequence[UOp]) -> list[UOp]:
    """Which of the others occur, and never in one term with a state: a derivative has nothing of them."""
    known = frozenset(states)
    mixed = frozenset().union(*(t.leaves for t in terms(energy) if t.leaves & known))
    present = frozenset(u for u in toposort([energy]) if u.op is Ops.VAR)
    return [u for u in others if u in present and u not in mixed]


def ask(
    name: str, pairs: Pairs, first: tuple[str, str], second: str, why: str, site: Site | None
) -> TraceError:
    """Which of its arguments are pairs?"""
    kind = "hamiltonian" if second == "momentum" else "lagrangian"
    written = ", ".join(f'("{q}", "{p}")' for q, p in pairs)
    return TraceError(
        f"`{name}`: which arguments are pairs? {why}; without pairs= only `{first[0]}` and `{first[1]}` are a pair",
        site=site,
        fix=f"Write @tp.{kind}(pairs=[{written}]). "
        f'If the others are parameters, give them defaults or write pairs=[("{first[0]}", "{first[1]}")].',
    )
