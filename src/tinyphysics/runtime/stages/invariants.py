"""What are the invariants that a run is held at?  Named where it is compiled, computed where it begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from tinyphysics.analysis.conserved import Numbers, Rate, conserved
from tinyphysics.errors import InputError, PlanError
from tinyphysics.ir import Ops, UOp, dump, elements, parse, substitute, toposort
from tinyphysics.plan import Goal
from tinyphysics.planner.conflicts import Ask, check
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.runtime.stages.execute import observe_states
from tinyphysics.runtime.state.ensemble import Inputs, number_array
from tinyphysics.runtime.state.run import Run
from tinyphysics.system import SizedFamily, System
from tinyphysics.tpir.kernels.kernel import Kernel
from tinyphysics.tpir.program.isa import kept_name
from tinyphysics.util import Site

MOST = 6  # invariants of one step
ASKED = 8  # members of an ensemble, and one, whose parameters are looked at


def checked_invariants(
    given: Any, system: System | SizedFamily, trace: Callable[[Any, str, str], UOp], pilot: Any = None
) -> tuple[tuple[str, str], ...]:
    """(name, expression) of each, of what was given as project=."""
    if isinstance(given, str):
        given = (given,)
    if isinstance(given, (tuple, list)):
        given = {name: name for name in given}
    if not isinstance(given, Mapping) or not given or not all(isinstance(name, str) for name in given):
        raise InputError(
            f"project={given!r} is not an invariant",
            fix='Pass project="energy", or {"L": lambda q, p: q[0] * p[1] - q[1] * p[0]}.',
        )
    if isinstance(system, SizedFamily):
        raise PlanError(
            f"project= needs the sizes of `{system.name}`, which are not known yet",
            fix='Pass sizes={"n": 3} too.',
        )
    check("invariants", Ask({"project": given}, system))
    if len(given) > MOST:
        raise PlanError(
            f"project= has {len(given)} invariants, and {MOST} is the most", fix="Leave some out."
        )
    states = frozenset(s.var for s in system.states)
    begun = {
        s.name: np.ravel(number_array(s.name, pilot[s.name])).tolist()
        for s in system.states
        if s.name in (pilot or {})
    }
    pilot_state = {s.name: begun[s.name] for s in system.states if len(begun.get(s.name, ())) == s.var.size}
    out = []
    for name, function in given.items():
        u = trace(function, name, "invariant")
        if u.shape or not u.leaves & states:
            raise InputError(
                f"project: `{name}` is not a single number computed from the state",
                fix="Pass a function of q and p for each invariant.",
            )
        if any(x.op is Ops.CUSTOM for x in toposort([u])):
            raise PlanError(
                f"project: `{name}` calls an operation that you defined, which cannot be stored as text",
                fix="Write it with functions of tp.",
            )
        check_conserved(name, u, system, pilot_state, getattr(function, "__code__", None))
        out.append((name, dump([u])))
    return tuple(out)


def check_conserved(name: str, u: UOp, system: System, pilot: Numbers, code: Any) -> None:
    """A PlanError unless a function is shown, or measured, to be constant along the motion."""
    if for_any_parameters(u, system).conserved:
        return
    usual = {x.name: np.ravel(x.default) for x in system.parameters if x.default is not None}
    if len(usual) == len(system.parameters):
        full = {x.name: np.broadcast_to(usual[x.name], x.var.size).tolist() for x in system.parameters}
        refuse_unless(conserved(u, system, full, [pilot] if pilot else []), name, system, code, "")
    # else a run says what its parameters are, and is asked then


@lru_cache(maxsize=64)
def for_any_parameters(u: UOp, system: System) -> Rate:
    return conserved(u, system)


def refuse_unless(rate: Rate, name: str, system: System, code: Any, where: str) -> None:
    if rate.conserved:
        return
    site = None if code is None else Site(code.co_filename, code.co_firstlineno)
    if rate.how == "not finite":
        raise PlanError(
            f"project: whether `{system.name}` conserves `{name}` could not be measured: its rate is not finite "
            "at states drawn at random",
            site=site,
            fix='Pass a state at which it is finite: pilot={"q": ..., "p": ...}.',
        )
    raise PlanError(
        f"project: `{system.name}` does not conserve `{name}`: its rate of change is {rate.value:.1e} of its terms "
        f"at a state drawn at random{where}",
        site=site,
        fix=f"Watch it instead: observe={{{name!r}: ...}}. To keep a length fixed, add a constraint, mass + rod with "
        "@tp.constraint, or choose a coordinate that cannot change it, such as an angle.",
    )


def check_parameters(system: System, i: Inputs, invariants: Mapping[str, UOp]) -> None:
    """What is conserved for some parameters alone is asked again for those of a run; of an ensemble, for some members."""
    members = max((len(v) for v in i.own.values()), default=1)
    for name, u in invariants.items():
        if for_any_parameters(u, system).conserved:
            continue
        for k in dict.fromkeys(j * (members - 1) // ASKED for j in range(ASKED + 1)):
            own = {n: tuple(np.ravel(v[min(k, len(v) - 1)]).tolist()) for n, v in i.own.items()}
            rate = for_parameters(u, system, tuple(own.items()))
            refuse_unless(
                rate, name, system, None, f" with the parameters of member {k}" if members > 1 else ""
            )


@lru_cache(maxsize=256)
def for_parameters(u: UOp, system: System, own: tuple[tuple[str, tuple[float, ...]], ...]) -> Rate:
    return conserved(u, system, dict(own))


def with_invariants(i: Inputs, start: Mapping[str, Any], goal: Goal, r: Run) -> Inputs:
    """The inputs of a run, with what its invariants are at its first state."""
    values = {kept_name(k): parse(text)[0] for k, (_, text) in enumerate(goal.project)}
    check_parameters(r.system, i, dict(zip((name for name, _ in goal.project), values.values())))
    first = replace(r, given=replace(i, states=dict(start)))
    seen = observe_states(first, values, {n: v[None] for n, v in start.items()}, [0])
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
