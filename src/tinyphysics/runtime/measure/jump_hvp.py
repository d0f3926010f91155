"""How are second derivatives pulled back through a deleted loop?  By the jump of a state and of its direction, together.

How z(t) moves along a direction of z(0) and of parameters is the flow of a quadratic energy, too: of H'(z) dz + H'(theta)
dtheta, of twice as many states. The derivative of a loss along the direction is a loss of that flow, and its gradient is
pulled back through the jump as any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tinyphysics.errors import PlanError
from tinyphysics.runtime.measure.differentiate import HVP, value_and_grad, wanted_names
from tinyphysics.runtime.measure.gradients import Gradients
from tinyphysics.runtime.measure.jump_gradients import check_exact, with_way
from tinyphysics.runtime.measure.loss_function import Loss, Symbols, along, loss_of, traced_loss
from tinyphysics.runtime.stages.resolve import Request
from tinyphysics.runtime.stages.setup import Setup

WAY = "{}__direction"  # of a state or a parameter: the jump of both is differentiated by parameters once more


def jump_hvp(
    setup: Setup, loss: Any, ways: Mapping[str, Any], request: Request, wrt: Any, per_member: bool
) -> Gradients:
    """`ways` are the directions of all states, and of the parameters that have one."""
    system = setup.system
    check_exact(setup)
    if system.structure.turning or system.friction:
        kind = "friction" if system.friction else "free bodies"
        raise PlanError(
            f"hvp: the jump of a system with {kind} has no tangent yet",
            fix='Compile it with propagator="loop".',
        )
    names = wanted_names(setup, wrt)
    if "dt" in names:
        raise PlanError("hvp: second derivatives by dt are not there yet", fix="Leave dt out of wrt.")
    states = [s.name for s in system.states]
    both = together(setup, [p.name for p in system.parameters if p.name in ways])

    def derived(symbols: Symbols) -> Loss:
        own = replace(symbols, states={n: symbols.states[n] for n in states})
        return loss_of(along(traced_loss(loss, own), {n: WAY.format(n) for n in states}))

    given = {**request.given, **{WAY.format(n): v for n, v in ways.items()}}
    request = replace(request, given=given)
    return value_and_grad(both, derived, request, names, "auto", None, None, per_member, HVP)[1]


def together(setup: Setup, by: Sequence[str]) -> Setup:
    """The simulation of a state beside its direction, made once."""
    key = "jump beside its direction", *by
    if key not in setup._beside:
        goal = replace(setup.goal, propagator="exact")
        own = [p for p in setup.system.parameters if p.name in by]
        setup._beside[key] = type(setup)(
            with_way(setup.system, *own, along=WAY), goal, setup.requested, "off"
        )
    found: Setup = setup._beside[key]
    return found
