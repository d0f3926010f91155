"""What are the invariants that a run is held at?  Named where it is compiled, computed where it begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, PlanError
from tinyphysics.ir import Ops, UOp, dump, elements, parse, substitute, toposort
from tinyphysics.plan import Goal
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.runtime.stages.execute import looking
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.runtime.state.run import Run
from tinyphysics.system import Family, System
from tinyphysics.tpir.kernels.kernel import Kernel
from tinyphysics.tpir.program.isa import kept_name

MOST = 6  # invariants of one step


def checked_invariants(
    given: Any, system: System | Family, trace: Callable[[Any, str, str], UOp]
) -> tuple[tuple[str, str], ...]:
    """(name, expression) of each, of what was given as project=."""
    if isinstance(given, str):
        given = (given,)
    if isinstance(given, (tuple, list)):
        given = {name: name for name in given}
    if not isinstance(given, Mapping) or not given or not all(isinstance(name, str) for name in given):
        raise InputError(
            f"project={given!r}",
            fix='Pass project="energy", or {"L": lambda q, p: q[0] * p[1] - q[1] * p[0]}.',
        )
    if isinstance(system, Family):
        raise PlanError(
            f"project=, and the sizes of `{system.name}` are not known yet", fix='Pass sizes={"n": 3} too.'
        )
    if system.kind != "hamiltonian" or system.time is not None or system.clock is not None:
        what = "depends on t" if system.kind == "hamiltonian" else f"is given by its {system.kind}"
        raise PlanError(
            f"project= holds what a Hamiltonian without t keeps, and `{system.name}` {what}",
            fix="Leave project= out.",
        )
    if len(given) > MOST:
        raise PlanError(f"project= of {len(given)} invariants, {MOST} at most", fix="Leave some out.")
    states = frozenset(s.var for s in system.states)
    out = []
    for name, function in given.items():
        u = trace(function, name, "invariant")
        if u.shape or not u.leaves & states:
            raise InputError(
                f"project: `{name}` is not one number made of the state",
                fix="Give a function of q and p for each number that is to be held.",
            )
        if any(x.op is Ops.CUSTOM for x in toposort([u])):
            raise PlanError(
                f"project: `{name}` calls an operation of yours, which is not known by its text",
                fix="Write it with functions of tp.",
            )
        out.append((name, dump([u])))
    return tuple(out)


def with_invariants(i: Inputs, start: Mapping[str, Any], goal: Goal, r: Run) -> Inputs:
    """The inputs of a run, with what its invariants are at its first state."""
    values = {kept_name(k): parse(text)[0] for k, (_, text) in enumerate(goal.project)}
    first = replace(r, given=replace(i, states=dict(start)))
    seen = looking(first, values, {n: v[None] for n, v in start.items()}, [0])
    return replace(i, params=i.params | {name: np.asarray(v[0], np.float64) for name, v in seen.items()})


def own_invariants(goal: Goal, system: System, kernel: Kernel) -> dict[UOp, UOp]:
    """What the invariants are held at, as functions of the state that a kernel begins with: a map of all states."""
    params = {str(p.arg)[1:]: p for p in kernel.params}
    table = dict(zip([e for s in system.states for e in elements(s.var)], kernel.inputs))
    for x in system.parameters:
        for k, e in enumerate(elements(x.var)):
            name = f"{x.name}.{k}" if x.var.shape else x.name
            table |= {e: params[name]} if name in params else {}
    out = {}
    for k, (_, text) in enumerate(goal.project):
        ((u,),) = unroll(parse(text)[:1])
        out[params[kept_name(k)]] = substitute([u], table)[0]
    return out
