"""How stiff is a system?  Second derivatives along a direction, as expressions: no Hessian is ever formed.

The fastest small vibration about a state has the square of its frequency as the largest eigenvalue of M^-1 V'', where
M^-1 is the second derivative of T. Both products with a vector are derivatives of a gradient along it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify
from tinyphysics.system import Parameter, System


@dataclass(frozen=True, eq=False)
class Stiffness:
    """Expressions of the states, the parameters and a direction, whose components are parameters too."""

    system: System  # with the directions among its parameters
    along_q: tuple[str, ...]
    along_p: tuple[str, ...]
    bends: tuple[UOp, ...]  # V'' times the direction of q; of a flow that does not split, how q' changes
    moves: tuple[UOp, ...]  # T'' times the direction of p; or how p' changes
    splits: bool


def stiffness(system: System, T: UOp | None, V: UOp | None) -> Stiffness:
    """Of H = T + V; of forces, if there is no V; of the whole flow of an energy, if there is no T."""
    along_q, along_p = directions(system, system.q), directions(system, system.p)
    if T is None:
        assert system.energy is not None
        slopes = gradient(system.energy, [*system.p, *system.q])
        changes = simplify(jvp(slopes, [*system.q, *system.p], [*along_q, *along_p]))
        count = len(system.q)
        bends, moves = changes[:count], [-u for u in changes[count:]]
    else:
        pulls = [-f for f in system.forces] if V is None else gradient(V, list(system.q))
        bends = simplify(jvp(pulls, list(system.q), along_q))
        moves = simplify(jvp(gradient(T, list(system.p)), list(system.p), along_p))
    own = tuple(Parameter(str(v.arg), v) for v in (*along_q, *along_p))
    return Stiffness(
        replace(system, parameters=(*system.parameters, *own)),
        tuple(str(v.arg) for v in along_q),
        tuple(str(v.arg) for v in along_p),
        tuple(bends),
        tuple(moves),
        T is not None,
    )


def directions(system: System, states: Sequence[UOp]) -> list[UOp]:
    """A variable like each state, under a name that nothing else has."""
    taken = {s.name for s in system.states} | {p.name for p in system.parameters}
    out = []
    for s in states:
        name = f"along_{s.arg}"
        while name in taken:
            name += "_"
        out.append(UOp.var(name, s.shape))
    return out
