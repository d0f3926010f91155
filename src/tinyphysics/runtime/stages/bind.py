"""What does a run have in its hands when it begins?  Its first frame, what it observes, and parameters that no user gives.

Those parameters (the address of random numbers, invariants that are held, matrices of flows) come from `SUPPLIERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tinyphysics.device.cuda.dlpack import empty_like
from tinyphysics.device.host.cores import available
from tinyphysics.ir import UOp
from tinyphysics.planner.methods.catalog import OSCILLATOR_METHODS
from tinyphysics.rules.functions.random import draws
from tinyphysics.runtime.stages.acts import bind_acts
from tinyphysics.runtime.stages.bind_across import bind_across
from tinyphysics.runtime.stages.encode import Encoded, bare_run
from tinyphysics.runtime.stages.flow_matrices import flows_of, with_flows
from tinyphysics.runtime.stages.invariants import with_invariants
from tinyphysics.runtime.stages.observed import traced
from tinyphysics.runtime.stages.own_time import with_times
from tinyphysics.runtime.stages.resolve import Resolved
from tinyphysics.runtime.stages.schedule import Scheduled
from tinyphysics.runtime.state.across import Across
from tinyphysics.runtime.state.encoding import owner
from tinyphysics.runtime.state.ensemble import Inputs, addressed, not_finite
from tinyphysics.runtime.state.indices import check_indices, selects
from tinyphysics.runtime.state.record import Record, beginning
from tinyphysics.runtime.state.run import BoundAct, made
from tinyphysics.runtime.state.windows import fitting
from tinyphysics.runtime.state.workers import copy_all


@dataclass(frozen=True, eq=False)
class Bound:
    given: Inputs  # the states are those of the first frame
    record: Record
    values: Mapping[str, UOp]  # what is observed
    acts: tuple[BoundAct, ...] = ()
    across: Across | None = None


@dataclass(frozen=True)
class Supplier:
    """Parameters that a program reads and no user gives."""

    wanted: Callable[[Resolved, Bound], bool]
    supply: Callable[[Resolved, Bound], Inputs]


def bind(r: Resolved, e: Encoded, s: Scheduled) -> Bound:
    compiled, i = r.setup.compiled, e.words
    streams = r.request.save is not None and i.members > 0
    record = beginning(i, s.schedule, fitting(list(i.states.values())) if streams else None)
    begin = {name: empty_like(v[0]) if streams else v[0] for name, v in record.frames.items()}
    if r.begun is None:
        pairs = [(i.states[name], v) for name, v in begin.items()]
        good = copy_all(pairs, s.threads or available(), [name in e.doubtful for name in begin])
        for name, well in zip(begin, good):
            if not well:
                raise not_finite(compiled.encoding, owner(name))
    for name, v in begin.items() if r.begun is None else ():
        if r.arrays is None:
            v.flags.writeable = False  # energies and replays come from here
        if streams:
            record.frames[name][0] = v
    i = Inputs(begin, i.params, i.members, i.is_ensemble)
    system = r.setup.system
    values = with_times(system, {n: traced(system, f, n) for n, f in s.watched.items()})
    if compiled.selects or values and selects([*values.values()]):
        check_indices([*compiled.system.equations, *values.values()], i)
    acts = bind_acts(r, i) if r.request.acts is not None or r.begun is not None else ()
    bound = Bound(i, record, values, acts, bind_across(r, i))
    for supplier in SUPPLIERS:
        if supplier.wanted(r, bound):
            bound = replace(bound, given=supplier.supply(r, bound))
    return bound


# --- the suppliers ------------------------------------------------------------------------------------
def draws_numbers(r: Resolved, b: Bound) -> bool:
    return r.setup.compiled.known.draws or any(map(draws, b.values.values()))


def address(r: Resolved, b: Bound) -> Inputs:
    return addressed(b.given, int(r.seed), r.setup.compiled.encoding.precision.given)


def holds_invariants(r: Resolved, b: Bound) -> bool:
    return bool(r.setup.goal.project)


def invariants(r: Resolved, b: Bound) -> Inputs:
    start = b.given.states if r.begun is None else r.begun.start
    return with_invariants(b.given, start, r.setup.goal, bare_run(r))


def turns_by_matrices(r: Resolved, b: Bound) -> bool:
    compiled = r.setup.compiled
    return compiled.known.method in OSCILLATOR_METHODS and bool(flows_of(made(compiled.program)))


def matrices(r: Resolved, b: Bound) -> Inputs:
    return with_flows(b.given, made(r.setup.compiled.program), r.dt)


SUPPLIERS = (
    Supplier(draws_numbers, address),
    Supplier(holds_invariants, invariants),
    Supplier(turns_by_matrices, matrices),
)
