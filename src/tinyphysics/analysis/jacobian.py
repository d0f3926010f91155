"""How do the rates of a system change along a direction?  The product of its Jacobian with a vector, as expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tinyphysics.analysis.stiff import directions
from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.identities.real import simplify
from tinyphysics.system import Parameter, System


@dataclass(frozen=True, eq=False)
class JacobianProduct:
    """Expressions of the states, the parameters and a direction, whose components are parameters too."""

    system: System  # with the directions among its parameters
    along: tuple[str, ...]  # a name for each state
    changes: tuple[UOp, ...]


def jacobian_product(system: System, rates: Sequence[UOp], short: bool = True) -> JacobianProduct:
    """As short as rules make it; of few numbers, making it short takes longer than evaluating it."""
    states = [s.var for s in system.states]
    along = directions(system, states)
    changes = jvp([u.expand(v.shape) for u, v in zip(rates, states)], states, along)
    own = tuple(Parameter(str(v.arg), v) for v in along)
    return JacobianProduct(
        replace(system, parameters=(*system.parameters, *own)),
        tuple(str(v.arg) for v in along),
        tuple(simplify(changes) if short else changes),
    )
