"""What is measured about every run?  A table: the order of its rows is the order of the keys of out.metrics.

What only some runs need (goals, resonances) is imported when it is needed: a first result does not wait for it.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyphysics.errors import PhysicsIntegrityError
from tinyphysics.plan import Goal
from tinyphysics.planner.methods.catalog import OSCILLATOR_METHODS
from tinyphysics.runtime.engines.backend import transferred
from tinyphysics.runtime.engines.caller_arrays import CallerArrays
from tinyphysics.runtime.engines.events import gathered, last_times, never_a_number
from tinyphysics.runtime.measure.alarms import applies, look_at, passed_over
from tinyphysics.runtime.measure.bias import biased
from tinyphysics.runtime.measure.boxes import boxes
from tinyphysics.runtime.measure.commutators import commutators
from tinyphysics.runtime.measure.convergence import check_converges
from tinyphysics.runtime.measure.grids import cycles_report, is_solved_by_cycles
from tinyphysics.runtime.measure.piled_up import tell_of_piles
from tinyphysics.runtime.measure.replicas import exchanged
from tinyphysics.runtime.measure.solver import solver_report
from tinyphysics.runtime.measure.watches import poles, watches
from tinyphysics.runtime.stages.diagnose import Diagnostic, Finished, Repeated
from tinyphysics.runtime.stages.origin import Origin
from tinyphysics.runtime.stages.outcome import jumped
from tinyphysics.runtime.stages.resolve import on_host
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.acts import Acted
from tinyphysics.runtime.state.digest import marked
from tinyphysics.runtime.state.encoding import Encoding
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import Run, made
from tinyphysics.runtime.state.schedule import time_at, times_at
from tinyphysics.trajectory import WRONG, Trajectory

if TYPE_CHECKING:
    from tinyphysics.loss import Loss

Found = Mapping[str, Any]


def mark_hashes(f: Finished, how: str) -> None:
    """That of the last state, and those along the run; a run that goes on brings some that are marked already."""
    f.out.hash_of = partial(marked, how, f.out.hash_of)
    f.out.hashes = [(n, h if h.startswith(f"{how}:") else f"{how}:{h}") for n, h in f.out.hashes]


def fast_math(f: Finished) -> Found:
    """So that no hash is compared with one from elsewhere."""
    mark_hashes(f, "fast")
    return {"math": "fast", "comparable": "with runs of this program, backend and machine alone"}


def adapter_begun(setup: Setup, run: Run) -> Found:
    """Counts what the processor does in the adapter's place from here on."""
    if run.target.backend == "webgpu":
        from tinyphysics.device.webgpu.driver import machine  # an extra

        machine().done_here, machine().off = 0, 0.0
    return {}


def adapter_bits(f: Finished) -> Found:
    """What the adapter rounds; where it has not the bits of others, no hash is to be compared with one from elsewhere."""
    from tinyphysics.device.webgpu.driver import machine  # an extra
    from tinyphysics.runtime.engines.webgpu import probed

    m, probe = machine(), probed()
    told = {"adapter": str(m.info), "probe": str(probe), "blocks_done_here": m.done_here}
    if probe.claims_bits:
        return {"webgpu": {**told, "bits": True}}
    mark_hashes(f, "webgpu")
    return {"webgpu": {**told, "bits": False, "off_at_first": m.off}}


def tree_errors(f: Finished) -> Found:
    """How far the forces of a tree code are from those of a direct sum."""
    measured = f.record.measured
    found = {name: [m[name] for m in measured] for name in measured[0]}
    one = {name: x if f.run.given.is_ensemble else x[0] for name, x in found.items()}
    return {"approximate": {"budget": f.setup.goal.approximate, **one}}


def sums_over_images(f: Finished) -> Found:
    """How sums over all images of a box were done."""
    long_range = f.run.system.long_range
    assert long_range is not None
    return {"long_range": long_range.settings.told()}


def own_steps(f: Finished) -> Found:
    """Of a method that chooses its own steps: how many it took, and how many it tried."""
    out: dict[str, Any] = {}
    for name, parts in (("substeps", f.record.substeps), ("rejected", f.record.rejected)):
        every = np.concatenate([np.zeros(0, np.int64), *parts])
        if len(every) or name == "substeps":
            out[name] = every if f.run.given.is_ensemble else int(every.sum())
    return out


def events(f: Finished) -> Found:
    """What was found of the functions whose signs were watched: out.events."""
    r, found = f.run, f.record.found
    # without dt a "step" is all that lies between two frames, and what was found in it came before the end
    dated = r.gridless or r.system.clock is not None
    ends = last_times(f.record.stops, dated, lambda n: time_at(n, r.dt, r.t0))
    hits = [h for part in found for h in part.hits]
    names = [*r.events, *(c.name for c in r.system.crossings)]
    f.out.found = gathered(r.system, r.encoding, names, hits, ends, r.dt > 0)
    known = {name for part in found for name in part.numbers}
    for name in set(r.events) - known if any(part.apart for part in found) else ():
        f.out.found = {**f.out.found, name: never_a_number(name)}
    return {}


def met(f: Finished) -> Found:
    """Of walls and events: how often several were met at once, one was grazed, and a stretch of untested steps ended."""
    out = {}
    for name, parts in zip(("ties", "grazes", "rollbacks"), zip(*f.record.met)):
        every = np.concatenate(parts).astype(np.int64)
        out[name] = every if f.run.given.is_ensemble else int(every.sum())
    tell_of_piles(f)
    return out


def losses(f: Finished) -> Found:
    """Nothing for out.metrics: what was thrown away is looked for when out.losses is read."""
    record = f.record
    apart = [part.apart for part in record.found]
    r, clock = f.run, f.run.system.clock
    since = time_at(f.call.first, r.dt, r.t0) if clock is None else float(np.ravel(f.out.t)[0])
    method = f.setup.compiled.known.method
    f.out._losses = partial(looked_for, r, f.setup.goal, f.out.origin, since, record.measured, apart, method)
    return {}


def losses_again(f: Repeated) -> None:
    method = f.setup.compiled.known.method
    vars(f.out)["_losses"] = partial(looked_for, f.run, f.setup.goal, f.out.origin, method=method)


def looked_for(
    r: Run,
    goal: Goal,
    origin: Any,
    since: float | None = None,
    tree: Sequence[Mapping[str, float]] = (),
    apart: Sequence[float] = (),
    method: str = "",
) -> tuple[Loss, ...]:
    from tinyphysics.runtime.measure.losses import Case, losses
    from tinyphysics.tpir.kernels.library import handed_over

    return losses(
        Case(
            system=r.system,
            goal=goal,
            parameters=r.given.own,
            since=r.t0,
            origin=origin if isinstance(origin, Origin) else None,
            tree=tree,
            events=tuple(r.events),
            searched=since,
            apart=max(apart, default=None),
            called=handed_over(made(r.program), r.target.backend) if r.loops and goal.math == "fast" else (),
            own_steps=r.adaptive,
            method=method,
        )
    )


def answers(f: Finished) -> Found:
    """Nothing for out.metrics: what can be asked of the run by name is looked for when it is first read."""
    s = f.setup
    f.out._later = {**f.out._later, **asked_later(f.out.origin, s.goal, s.compiled.known.method)}
    return {}


def answers_again(f: Repeated) -> None:
    s = f.setup
    vars(f.out)["_later"] = asked_later(f.out.origin, s.goal, s.compiled.known.method)


def asked_later(origin: Any, goal: Goal, method: str) -> dict[str, Callable[[], Any]]:
    """out.checks, and the shadow energy."""
    if not isinstance(origin, Origin) or origin.run.system.energy is None:
        return {}
    asked = {name: partial(shadow_of, name, origin, goal, method) for name in ("shadow_energy", "shadow_gap")}
    by_order = partial(partial, shadow_of, "shadow", origin, goal, method)  # out.shadow(order=8)
    return {"checks": partial(checks_of, origin, goal, method), **asked, "shadow": by_order}


def shadow_of(name: str, origin: Origin, goal: Goal, method: str, *order: int, **by_name: int) -> Any:
    from tinyphysics.runtime.measure import shadow

    return getattr(shadow, name)(origin, goal, method, *order, **by_name)


def checks_of(origin: Origin, goal: Goal, method: str) -> Any:
    from tinyphysics.runtime.measure.checked import checks

    return checks(origin, goal, method)


def lattice(f: Finished) -> Callable[[], Any]:
    states = {s.name: f.given.get(s.name) for s in f.setup.system.states}
    return partial(rounding, f.run.encoding, states, f.call.arrays)


def rounding(encoding: Encoding, states: Mapping[str, Any], arrays: CallerArrays | None) -> dict[str, Any]:
    return encoding.rounding(on_host(states, arrays))


def neglected(f: Finished) -> Found:
    found = commutators(f.setup.built, f.run)
    f.setup.commutators = found if f.setup.commutators is None else f.setup.commutators
    return {} if found is None else {"commutators": found.told}


def stability(f: Finished) -> Found:
    from tinyphysics.runtime.measure.accuracy import stability

    return stability(f.setup, f.run.dt)


def inner_steps(f: Finished) -> Found:
    from tinyphysics.runtime.measure.multirate import resonance

    return resonance(f.setup, f.run)


def turns(f: Finished) -> Found:
    from tinyphysics.runtime.measure.resonance import resonances

    return resonances(f.setup, f.run)


def goals(f: Finished) -> Found:
    from tinyphysics.runtime.measure.accuracy import judge_goals

    judge_goals(f.setup, f.out)
    return {}


def raise_failure(f: Finished) -> Found:
    """checks="strict": a run that has failed is an error."""
    s = f.out.stopped
    assert s is not None
    a, b = s.where
    what = s.where if isinstance(a, str) else f"the force between particles {a} and {b}"
    if s.cause == "not solved" and isinstance(s.error, PhysicsIntegrityError):
        raise PhysicsIntegrityError(s.error.what, out=f.out, fix=s.error.fix)
    if s.cause == "not solved":
        raise PhysicsIntegrityError(
            f"the equations of step {s.step} (t = {s.t:g}) could not be solved: the "
            "iteration did not converge, or a slope is not finite there",
            out=f.out,
            fix="Shorten dt; the run so far is in .out.",
        )
    if f.run.adaptive:
        raise PhysicsIntegrityError(
            f"{what} is lost before t = {s.t:g}: no step is short enough to go on",
            out=f.out,
            fix="The solution ends there, or a derivative is not a number; the run so far is in .out.",
        )
    told = "not finite" if f.run.encoding.precision.state.is_float else "no number of the lattice"
    raise PhysicsIntegrityError(
        f"{what} is {told} at step {s.step} (t = {s.t:g})",
        out=f.out,
        fix="An act of that step may have made it so; the run so far is in .out."
        if any(a.due(s.step) for a in f.run.acts)
        else "Shorten dt, or soften the potential; the run so far is in .out.",
    )


def acts(f: Finished) -> Found:
    """What was done between steps, and when: out.acts."""
    first, last, told = f.call.first, f.record.last, {}
    for a in f.run.acts:
        steps = np.arange(a.next(first), last + 1, a.every)
        acted = Acted(a.every, steps, times_at(steps, f.run.dt, f.run.t0), a.system)
        f.out._acts = {**f.out._acts, a.name: acted}
        told[a.name] = {"every": a.every, "times": len(steps), "program": a.hash}
    return {"acts": told}


def peak_memory(f: Finished) -> Found:
    """The most memory that this process has had until the end of the run, in bytes."""
    return {"peak_memory": most_memory()}


def peak_memory_again(f: Repeated) -> None:
    f.out.metrics["peak_memory"] = most_memory()


def most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def shadow_gap(f: Finished) -> Found:
    """Of a run whose shadow energy is watched: checks={"shadow": 1e-3}."""
    if not f.setup.thresholds:
        return {}
    from tinyphysics.runtime.measure.shadow_alarm import judge_shadow

    return judge_shadow(f.setup, f.out)


def shadow_gap_again(f: Repeated) -> None:
    if f.setup.thresholds:
        from tinyphysics.runtime.measure.shadow_alarm import judge_shadow

        f.out.metrics |= judge_shadow(f.setup, f.out)


def watched(f: Finished) -> Found:
    """What was watched, and how often; a word about members that stopped."""
    if any(s.cause in WRONG for s in f.record.stops):
        from tinyphysics.runtime.measure.integrity import tell

        tell(f.setup, f.run, f.out, f.call.request.checkpoint)
    if not f.run.watches:
        return {}
    told = {"every": f.run.watches[0].every, "watched": [n for w in f.run.watches for n in w.told]}
    return {"checks": {**told, "alarms": f.record.alarms}}  # members that looked wrong and were replayed


def alarms(f: Finished) -> Found:
    s, r, record = f.setup, f.run, f.record
    if applies(r, record, s.checks, s.goal.approximate):
        # a pole that the loop does not look for is seen in the energy of every run, and so is what came near one
        unseen = s.compiled.poles and (not record.kept_nearest or record.came_near)
        if unseen or not passed_over(r, record.last - record.schedule.first, s.compiled, s.checks):
            look_at(r, record, f.out, s.compiled, s.checks, f.ran.windows is None)
            beside_shadow(s, r, record, f.out, f.ran.windows is None)
    return {}


def beside_shadow(s: Setup, r: Run, record: Record, out: Trajectory, in_memory: bool) -> None:
    """The shadow energy of a run about which nothing else was said."""
    if s.thresholds or out._warned:
        return
    from tinyphysics.runtime.measure.shadow_glance import glance

    glance(s, r, record, out, in_memory)


def alarms_again(f: Repeated) -> None:
    s = f.setup
    if f.run.system.energy is None or s.checks == "off" or s.goal.approximate is not None:
        return
    unseen = s.compiled.poles and f.poles is None
    if unseen or not passed_over(f.run, f.run.schedule.steps, s.compiled, s.checks):
        record, run = f.record(), f.whole
        look_at(run, record, f.out, s.compiled, s.checks, in_memory=True)
        beside_shadow(s, run, record, f.out, in_memory=True)


# fmt: off
DIAGNOSTICS: tuple[Diagnostic, ...] = (
    Diagnostic("magnus", before=lambda s, r: check_converges(r, s.compiled.known.method),
               applies=lambda f: f.found["magnus"], after=lambda f: f.found["magnus"]),
    Diagnostic("transfers", applies=lambda f: f.run.target.backend == "cuda",
               after=lambda f: {k: n - f.ran.moved[k] for k, n in transferred(f.run.target).items()}),
    Diagnostic("math", applies=lambda f: f.setup.goal.math == "fast", after=fast_math),
    Diagnostic("webgpu", before=adapter_begun, applies=lambda f: f.run.target.backend == "webgpu", after=adapter_bits),
    Diagnostic("shape", applies=lambda f: f.record.shape, after=lambda f: {"shape": dict(f.record.shape)}),
    Diagnostic("approximate", applies=lambda f: f.record.measured, after=tree_errors),
    Diagnostic("long_range", applies=lambda f: f.run.system.long_range is not None, after=sums_over_images),
    Diagnostic("substeps", applies=lambda f: f.run.adaptive, after=own_steps),
    Diagnostic("events", applies=lambda f: f.run.events or f.run.system.crossings, after=events),
    Diagnostic("met", applies=lambda f: f.record.met, after=met),
    Diagnostic("losses", after=losses, again=losses_again),
    Diagnostic("answers", after=answers, again=answers_again),
    Diagnostic("solver", applies=lambda f: f.setup.compiled.known.solves and isinstance(f.out.origin, Origin),
               later=lambda f: partial(solver_report, f.out.origin)),
    Diagnostic("poisson", applies=lambda f: isinstance(f.out.origin, Origin) and is_solved_by_cycles(f.run.system),
               later=lambda f: partial(cycles_report, f.out.origin)),
    Diagnostic("propagator", applies=lambda f: f.run.jump is not None, now=lambda f: not f.run.jump.quick,
               later=lambda f: partial(jumped, f.run, f.record.last, f.setup.compiled.known.way)),
    Diagnostic("lattice", applies=lambda f: not f.run.encoding.precision.state.is_float, later=lattice,
               now=lambda f: f.call.arrays is None),  # else the states would have to come here
    Diagnostic("commutators", applies=lambda f: f.setup.compiled.known.method == "strang" and f.call.begun is None,
               after=neglected),
    Diagnostic("stability", applies=lambda f: f.setup.frequency is not None or f.setup.goal.decision is not None,
               after=stability),
    Diagnostic("paces", applies=lambda f: f.setup.paces is not None and f.setup.goal.inner, after=inner_steps),
    Diagnostic("resonance", applies=lambda f: f.setup.compiled.known.method in OSCILLATOR_METHODS, after=turns),
    Diagnostic("goals", applies=lambda f: f.setup.goal.is_accurate, after=goals),
    Diagnostic("strict", applies=lambda f: f.setup.checks == "strict" and f.failed, after=raise_failure),
    Diagnostic("exchange", applies=lambda f: f.run.across is not None, after=exchanged),
    Diagnostic("box", applies=lambda f: f.run.system.barostat, after=boxes),
    Diagnostic("bias", applies=lambda f: f.run.system.biased_by, after=biased),
    Diagnostic("acts", applies=lambda f: f.run.acts, after=acts),
    Diagnostic("peak_memory", after=peak_memory, again=peak_memory_again),
    Diagnostic("alarms", after=alarms, again=alarms_again),
    Diagnostic("watches", watch=watches, poles=poles,
               applies=lambda f: f.run.watches or any(s.cause in WRONG for s in f.record.stops), after=watched),
    Diagnostic("shadow", after=shadow_gap, again=shadow_gap_again),
)
# fmt: on
