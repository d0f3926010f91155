"""What does a run start from?  What was given as arrays in the words of its precision, or the state of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from tinyphysics.constrained import BRACKET as CONSTRAINED
from tinyphysics.device.cuda.dlpack import sent
from tinyphysics.device.host.cores import available
from tinyphysics.rules.formulas.thermostats import NOSE_POINCARE
from tinyphysics.runtime.stages.momenta_of_velocities import given_momenta
from tinyphysics.runtime.stages.own_time import begun_in_time
from tinyphysics.runtime.stages.resolve import Resolved, on_host
from tinyphysics.runtime.state.ensemble import Inputs, inputs
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import Schedule, checked_time
from tinyphysics.runtime.storage.resume import agreed, check_program, restored_inputs


@dataclass(frozen=True, eq=False)
class Encoded:
    words: Inputs
    given: Mapping[str, Any]  # the states and parameters that they were made of
    doubtful: Set[str] = frozenset()  # words of which it is not known yet if they are finite


def encode(r: Resolved) -> Encoded:
    """States and parameters with a member axis; an error where they are missing, or differ from a checkpoint."""
    system, compiled = r.setup.system, r.setup.compiled
    if r.begun is not None:
        check_program(r.begun, r.path, system, compiled.known.program, compiled.is_of_its_loop)
        agreed("dt", r.dt, r.begun.run.dt, r.begun.run.dt, r.path)
        return Encoded(restored_inputs(system, r.begun, r.path, r.given, compiled.encoding), r.given)
    seen = r.given if system.motion is None else on_host(r.given, r.arrays)
    given = given_momenta(system.seen, seen, checked_time(r.t0))
    doubtful: set[str] = set()
    if system.bath == NOSE_POINCARE:
        from tinyphysics.runtime.stages.at_zero import begun_at_zero  # most systems have none

        i = begun_at_zero(bare_run(r), given, said_threads(r))
    elif system.clock is None:
        i = inputs(system, given, compiled.encoding, said_threads(r), doubtful)
    else:
        i = begun_in_time(bare_run(r), given)
    if system.bracket == CONSTRAINED:
        from tinyphysics.runtime.stages.constraints import check_start  # most systems have none

        check_start(system, i)
    if system.contacts:
        from tinyphysics.runtime.stages.overlaps import check_apart

        check_apart(system, i)
    if system.guards:
        from tinyphysics.runtime.stages.walls import check_start as check_inside

        check_inside(system, i)
    if r.arrays is not None:  # what was made of them here goes there, too
        i = replace(i, states={name: sent(v) for name, v in i.states.items()})
    return Encoded(i, given, doubtful)


def said_threads(r: Resolved) -> int:
    """The threads of a run; what is wrong with them is said when it is scheduled."""
    said = r.request.threads
    return said if type(said) is int and said > 0 else available()


def bare_run(r: Resolved) -> Run:
    """A run of no state yet, for values that are computed before there is one."""
    x, target = r.setup.compiled, r.setup.target if r.arrays is None else r.arrays.target
    return Run(
        x.program,
        x.system,
        target,
        Inputs({}, {}, 1, False),
        Schedule(0, None, None, None),
        r.dt,
        checked_time(r.t0),
        None,
        x.encoding,
        x.in_loops(1),
        watching=x.watching,
    )
