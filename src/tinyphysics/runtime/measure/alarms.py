"""Did a run go wrong without a word?  Its energy at some frames, and its step beside the limit of its method.

A run is looked at when it is over, from what it has recorded: no bit of it changes. Short energies are functions of Python
that cost some microseconds; those of large systems are looked at where the run takes long anyway.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinyphysics.errors import PhysicsIntegrityError, PhysicsWarning
from tinyphysics.ir import UOp
from tinyphysics.ir.value import evaluate
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.planner.methods.method import Method
from tinyphysics.rules.formulas.overdamped import BROWNIAN
from tinyphysics.runtime.stages.compiled import Compiled
from tinyphysics.runtime.stages.energies import Look, computed, fastest
from tinyphysics.runtime.stages.execute import observe_states
from tinyphysics.runtime.stages.terms import CANCELLED, addends, bending, made_of
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import time_at
from tinyphysics.trajectory import Stop, Trajectory
from tinyphysics.util import frames_to_user

OFF = 0.05  # of the largest sum of |terms of H|: an energy that is further away is no error of a method that works
BETTER = 1e-3  # what the step that is proposed would have
SAFE = 0.2  # of a stability limit
LOST = 1e6  # omega*dt at the end of a run that blew up: its state says nothing about the step to take
BRIEF = 1e-3  # seconds: of many shorter runs of one simulation, not every one is looked at
FEW = 8  # frames that are looked at one by one
LAST = -1  # the row of the last frame, where no others are kept
LONG = 20_000  # steps of a run that more frames are looked at of
MEMBERS = 64  # of an ensemble that are looked at
WORTH = 0.2  # seconds of a run beside which the energy of a large system is computed
CALM = 0.5  # omega*dt below which every method is stable that ever is
OVERDAMPED = 2.0  # dt*omega**2/friction, the limit of a Brownian step


# --- after a run --------------------------------------------------------------------------------------
def chosen_frames(r: Run, record: Record, in_memory: bool) -> tuple[Mapping[str, Any], Sequence[int]]:
    """(states, which of their rows) of the frames that are looked at: the first, the last, and some between."""
    if not in_memory:  # frames were handed on, and their place may have been taken by others
        return {name: np.stack([r.given.states[name], v]) for name, v in record.final.items()}, (0, LAST)
    n = record.schedule.complete(record.last)
    if n <= 2:
        return {name: v[:n] for name, v in record.frames.items()}, range(n)
    count = min(n, FEW if record.last < LONG else max(FEW, record.last // 50))
    return record.frames, sorted({k * (n - 1) // (count - 1) for k in range(count)})


def drag_of(r: Run) -> float | None:
    """The largest friction of a Brownian step, whose fastest rate is omega**2 over it; None of other steps."""
    if r.system.bath != BROWNIAN:
        return None
    env = {name: np.ravel(v[0]).tolist() for name, v in r.given.params.items()}
    env |= {name: v[0] for name, v in env.items() if len(v) == 1}
    try:
        found = np.concatenate([np.ravel(x) for x in evaluate(r.system.heat[1:], env)])
    except KeyError:  # a function of time
        return math.inf
    return float(found.max())


def least_of(r: Run) -> float:
    """The slowest vibration for which a step may be too long."""
    drag = drag_of(r)
    return CALM / abs(r.dt) if drag is None else math.sqrt(CALM * drag / abs(r.dt))


def omegas_of(look: Look, at: Sequence[Sequence[float]], least: float) -> list[float]:
    """The fastest vibration at some states, where it may be too fast for a step."""
    if look.bends is None:
        return []
    return [fastest(computed(look.bends, x), look.count, least) for x in at]


def omegas_of_many(look: Look, flat: Mapping[str, Any], members: int, least: float) -> list[float]:
    """The fastest vibration of any member at the first and at the last frame, where one may be too fast for a step."""
    if look.bends is None:
        return []
    ends = {name: v[[0, -1]] for name, v in flat.items()}
    with np.errstate(all="ignore"):
        out = look.bends[1](*look.columns(ends))
        second = np.stack([np.broadcast_to(x, (2, members)) for x in out])
        half = len(second) // 2
        largest = 2.0 * np.sqrt((second[:half] ** 2).sum(0) * (second[half:] ** 2).sum(0))
    fast = largest >= least**2
    return [
        max((fastest(second[:, k, j].tolist(), look.count) for j in np.flatnonzero(fast[k])), default=0.0)
        for k in (0, 1)
    ]


def of_one(r: Run, record: Record, look: Look, in_memory: bool) -> tuple[float, int, Sequence[float]]:
    """(how far the energy is off at worst, at which frame, frequencies at the ends) of a run of one member."""
    kept, rows = chosen_frames(r, record, in_memory)
    at = look.of_one(kept if r.encoding.plain else r.encoding.values(kept), r.given.params, rows)
    seen = [computed(look.energy, x) for x in at]
    first, scale = seen[0][0], max(x[1] for x in seen)
    if not math.isfinite(first):
        return math.inf, rows[0], ()
    worst, frame = 0.0, 0
    for k, (e, _) in enumerate(seen):
        off = abs(e - first)
        if not off <= OFF * scale:
            off = off / scale if math.isfinite(e) and scale else math.inf
            if off > worst:
                worst, frame = off, rows[k]
    omegas = () if look.bends is None or r.jump is not None else omegas_of(look, (at[0], at[-1]), least_of(r))
    return worst, frame, omegas


def of_many(
    r: Run, record: Record, look: Look | None, members: Sequence[int], in_memory: bool
) -> tuple[float, int, list[float], int]:
    """The same of an ensemble, or of a large system, and of which member it is."""
    kept, rows = chosen_frames(r, record, in_memory)
    steps = [step_of(record, k) for k in rows]
    some = r.given.members > len(members)
    kept = {
        name: np.stack([v[k][members] for k in rows]) if some else v if len(v) == len(rows) else v[list(rows)]
        for name, v in kept.items()
    }
    params = {n: v[members] if some and len(v) > 1 else v for n, v in r.given.own.items()}
    omegas: list[float] = []
    if look is None:
        H = r.system.energy
        assert H is not None
        given = replace(r.given, params=r.given.params | params, members=len(members))
        values = {"value": H, "scale": UOp.sum_of(abs(x) for x in addends(H))}
        found = observe_states(replace(r, given=given), values, kept, steps)
        energies, scales = found["value"], found["scale"]
    else:
        shape = len(steps), len(members)
        flat = {n: np.asarray(v, np.float64).reshape(*shape, -1) for n, v in r.encoding.values(kept).items()}
        flat |= {n: np.broadcast_to(v.reshape(1, len(v), -1), (*shape, v[0].size)) for n, v in params.items()}
        with np.errstate(all="ignore"):
            out = look.energy[1](*look.columns(flat))
        energies, scales = (np.broadcast_to(x, shape) for x in out)
        omegas = omegas_of_many(look, flat, len(members), least_of(r))
    with np.errstate(all="ignore"):
        largest = np.fmax.reduce(scales, axis=0)
        off = np.abs(energies - energies[0]) / np.where(largest > 0, largest, 1.0)
    off = np.where(np.isfinite(energies), off, np.inf)
    k, j = np.unravel_index(int(np.argmax(off)), off.shape)
    return float(off[k, j]), rows[int(k)], omegas, members[int(j)]


def of_driven(
    r: Run, record: Record, look: Look, members: Sequence[int], in_memory: bool
) -> tuple[float, int, list[float], int]:
    """The same where H depends on t: it may go anywhere, but must be a number at both ends."""
    kept, rows = chosen_frames(r, record, in_memory)
    count = len(members)
    own = {n: v[members] if len(v) > 1 else v for n, v in r.given.own.items()}
    params = {n: np.broadcast_to(v.reshape(len(v), -1), (count, v[0].size)) for n, v in own.items()}
    for row in (rows[0], rows[-1]):
        words = {name: v[row][members] for name, v in kept.items()}
        flat = {n: np.asarray(v, np.float64).reshape(count, -1) for n, v in r.encoding.values(words).items()}
        flat |= params | {look.params[-1]: np.full((count, 1), time_at(step_of(record, row), r.dt, r.t0))}
        with np.errstate(all="ignore"):
            energies = np.broadcast_to(look.energy[1](*look.columns(flat))[0], (count,))
        if not np.isfinite(energies).all():
            return math.inf, row, [], members[int(np.argmin(np.isfinite(energies)))]
    return 0.0, rows[0], [], members[0]


def of_member(
    r: Run, record: Record, values: Mapping[str, UOp], member: int, in_memory: bool
) -> Mapping[str, Any]:
    """Functions of the state of a member, at the frames that are looked at."""
    kept, rows = chosen_frames(r, record, in_memory)
    states = {name: np.stack([v[k][[member]] for k in rows]) for name, v in kept.items()}
    params = {n: v[[member]] if len(v) > 1 else v for n, v in r.given.params.items()}
    own = {n: v[[member]] for n, v in r.given.states.items()}
    one = replace(r, given=replace(r.given, states=own, params=params, members=1))
    found = observe_states(one, values, states, [step_of(record, k) for k in rows])
    return {name: found[name][:, 0] for name in values}


def beside_slopes(r: Run, record: Record, worst: float, member: int, in_memory: bool) -> float:
    """How far the energy of a member is off at worst; where the terms of H cancel, relative to what they are made of."""
    H = r.system.energy
    assert H is not None
    values = {"energy": H, "scale": UOp.sum_of(abs(x) for x in addends(H))}
    values["size"] = made_of(H, [s.var for s in r.system.states])
    energy, scale, size = of_member(r, record, values, member, in_memory).values()
    if not all(np.isfinite(x).all() for x in (energy, scale, size)):
        return worst
    if scale.max() > CANCELLED * size.max():
        return 0.0 if at_rest(r, record, member, in_memory) else worst
    return float(np.abs(energy - energy[0]).max() / size.max())


def at_rest(r: Run, record: Record, member: int, in_memory: bool) -> bool:
    """Are all terms of H of a member what roundings of its state make of them, as at a minimum where H is zero?"""
    from tinyphysics.runtime.measure.checked import EPS
    from tinyphysics.runtime.measure.rounding import LOUDEST

    H = r.system.energy
    assert H is not None
    bent = bending(H, [s.var for s in r.system.states])
    if bent is None:
        return False
    values = {"scale": UOp.sum_of(abs(x) for x in addends(H)), "bent": bent}
    scale, second = of_member(r, record, values, member, in_memory).values()
    rounded = (LOUDEST * EPS.get(r.encoding.precision.name, EPS["float64"])) ** 2
    return bool(np.isfinite(second).all() and scale.max() <= rounded * second.max())


def begins_lost(r: Run, member: int) -> bool:
    """Is the energy of a first state no number?  As runs compute it: the function of Python may have divided by zero."""
    H = r.system.energy
    assert H is not None
    params = {n: v[[member]] if len(v) > 1 else v for n, v in r.given.params.items()}
    states = {n: v[[member]] for n, v in r.given.states.items()}
    one = replace(r, given=replace(r.given, states=states, params=params, members=1))
    found = observe_states(one, {"energy": H}, {n: v[None] for n, v in states.items()}, [r.schedule.first])
    return not np.isfinite(found["energy"]).all()


def step_of(record: Record, row: int) -> int:
    """The step of a frame."""
    return record.last if row == LAST else int(record.steps[row])


def proposed(dt: float) -> str:
    """A step in two digits, downwards."""
    digits = 10.0 ** (math.floor(math.log10(abs(dt))) - 1)
    return f"{math.floor(abs(dt) / digits) * digits:.2g}"


def unstable(omegas: Sequence[float], dt: float, method: Method | None) -> tuple[str, float] | None:
    """(what is wrong, the step to take) where a step is too long for small vibrations at an end of a run."""
    for omega, where in zip(omegas, ("first", "last")):
        x = abs(dt) * omega
        if x > CALM and method is not None and method.limit and x > method.limit:
            lost = x > LOST and (where == "last" or math.isinf(x))
            return (
                f"dt={dt:g} is beyond the stability limit of {method.name} at the {where} frame: omega*dt is {x:.3g}, "
                f"and {method.limit:.3g} at most",
                abs(dt) / 10 if lost else SAFE * method.limit / omega,
            )
    return None


def unstable_brownian(rates: Sequence[float], dt: float) -> tuple[str, float] | None:
    """The same of a Brownian step, by its rates."""
    for rate, where in zip(rates, ("first", "last")):
        x = abs(dt) * rate
        if x > OVERDAMPED:
            lost = x > LOST and (where == "last" or math.isinf(x))
            return (
                f"dt={dt:g} is beyond the stability limit of a Brownian step at the {where} frame: dt*omega**2/friction is "
                f"{x:.3g}, and {OVERDAMPED:g} at most",
                abs(dt) / 10 if lost else SAFE * OVERDAMPED / rate,
            )
    return None


def unstable_levels(r: Run, member: int) -> tuple[str, float] | None:
    """The same of fast and slow parts, by the linearised step where a run begins."""
    from tinyphysics.runtime.measure.autopsy import Examined

    place = Examined(r, Stop("", 0, 0.0, member)).first
    if not place.limit < place.pace < math.inf:
        return None
    kicks = " x ".join(map(str, r.inner))
    return (
        f"dt={r.dt:g} is beyond the stability limit of {kicks} fast kicks in a slow one at the first frame: the "
        f"linearised step grows; omega*dt is {place.pace:.3g}, and {place.limit:.3g} at most",
        SAFE * place.limit * abs(r.dt) / place.pace,
    )


def drifted(
    worst: float, step: int, dt: float, method: Method | None, member: str
) -> tuple[str, float] | None:
    """(what is wrong, the step to take) where an energy is far from where it began."""
    if not worst > OFF:
        return None
    if not math.isfinite(worst):
        return f"the energy{member} at step {step:,} is not finite", abs(dt) / 10
    order = method.order if method is not None and method.order else 2
    what = f"the energy{member} at step {step:,} is off by {100 * worst:.2g} % of the sizes of its terms"
    return what, abs(dt) * min(0.5, (BETTER / worst) ** (1 / order))


def applies(r: Run, record: Record, checks: str, approximate: float | None) -> bool:
    """Is there an energy that is kept, and something that moved?"""
    if checks == "off" or not r.keeps_energy or r.system.clock is not None or approximate is not None:
        return False
    if record.last == record.schedule.first or not r.given.members or r.given.there:
        return False
    # an act may change the energy; the first state is another run's; a stop was said
    return all(a.inside for a in r.acts) and r.begun is None and not record.stops


def seconds_of(r: Run, steps: int, compiled: Compiled) -> float:
    return steps * r.given.members * compiled.step_seconds


def passed_over(r: Run, steps: int, compiled: Compiled, checks: str) -> bool:
    """Is it one of many short runs that are not looked at?"""
    brief = BRIEF if r.given.members == 1 else 10 * BRIEF
    return checks == "on" and seconds_of(r, steps, compiled) < brief and not compiled.looked_at()


def look_at(
    r: Run, record: Record, out: Trajectory, compiled: Compiled, checks: str, in_memory: bool
) -> None:
    """A note in out.metrics, and a warning or an error, for a run that looks wrong."""
    small, one = compiled.look, r.given.members == 1
    takes = seconds_of(r, record.last - record.schedule.first, compiled)
    count = min(r.given.members, MEMBERS)
    members = [k * (r.given.members - 1) // max(count - 1, 1) for k in range(count)]
    omegas: Sequence[float]
    if r.system.driven:
        if small is None:
            return
        worst, frame, omegas, who = of_driven(r, record, small, members, in_memory)
    elif small is not None and one:
        (worst, frame, omegas), who = of_one(r, record, small, in_memory), 0
    elif small is None and takes < WORTH and not compiled.poles:
        return
    else:
        worst, frame, omegas, who = of_many(r, record, small, members, in_memory)
    if r.system.is_open and math.isfinite(worst):
        worst = 0.0  # energy goes on purpose
    if (drag := drag_of(r)) is not None:
        omegas = [x * x / drag for x in omegas]
    if not worst > OFF and not any(abs(r.dt) * x > CALM for x in omegas):
        return
    while OFF < worst < math.inf and not r.system.driven:
        worst = beside_slopes(r, record, worst, who, in_memory)
        members = [k for k in members if k != who]
        if worst > OFF or not members or one:
            break
        worst, frame, _, who = of_many(r, record, small, members, in_memory)  # it hides no other member
    method = BY_NAME.get(compiled.known.method)
    member = f" of member {who}" if r.given.is_ensemble else ""
    if math.isinf(worst) and step_of(record, frame) == record.schedule.first:
        if begins_lost(r, who):
            tell(r, out, f"the energy{member} is not finite where the run begins", None, checks)
        return
    if r.inner:
        long = unstable_levels(r, who)
    else:
        long = unstable(omegas, r.dt, method) if drag is None else unstable_brownian(omegas, r.dt)
    both = long, drifted(worst, step_of(record, frame), r.dt, method, member)
    if found := [x for x in both if x is not None]:
        what = "; ".join(what for what, _ in found)
        if both[1] is not None and compiled.poles and method is not None and method.limit:
            what += pole_on_the_way(r, who, record.last, method.limit, out)
        tell(
            r, out, what, min(dt for _, dt in found), checks, "" if both[1] is None else why_no_step_helps(r)
        )


def pole_on_the_way(r: Run, member: int, last: int, limit: float, out: Trajectory) -> str:
    """What is said of a member that went past a pole unwatched; out.metrics["singularity"] has the place."""
    from tinyphysics.runtime.measure.part_again import part_of
    from tinyphysics.runtime.measure.passed_pole import passed_pole, told

    p = passed_pole(part_of(r, [member]), last, limit)
    if p is None:
        return ""
    out.metrics["singularity"] = told(p)
    pair = "" if p.where is None else f" between particles {p.where[0]} and {p.where[1]}"
    of, such = (f" of member {member}", "such members") if r.given.is_ensemble else ("", "such a run")
    return (
        f"; step {p.step:,}{of} passes a pole of {p.term}{pair}, where omega*dt is {p.pace:.3g}: use "
        f'time="logarithmic" or a softening, or stop {such} with check_every='
    )


def why_no_step_helps(r: Run) -> str:
    """What to do about an energy that jumps, whose error no step makes small; empty if it is not seen to jump."""
    from tinyphysics.analysis.smooth import smooth

    fact = smooth(r.system.seen)
    if not fact.parts.get("jumps", False):
        return ""
    where = f" ({fact.site})" if fact.site is not None else ""
    return f"A shorter dt does not help if it crossed a jump: {fact.because}{where}."


def tell(r: Run, out: Trajectory, what: str, dt: float | None, checks: str, instead: str = "") -> None:
    """`dt` is the step to take; None where no step would help. `instead` is said where that may be so."""
    if instead:
        fix = instead
    elif dt is None:
        fix = "Begin where H is defined; if its numbers are too large for that, choose other units."
    elif r.jump is None and not r.adaptive and not r.system.driven:
        measured = "" if r.system.heat else "; sim.suggest_dt(...) measures one"
        fix = f"Compile with dt={proposed(dt)} or less{measured}."
    else:
        fix = "The trajectory may be far from the solution."
    out.metrics["notes"] = (*out.metrics["notes"], what)
    out._warned = (what,)
    if checks == "strict":
        raise PhysicsIntegrityError(what, out=out, fix=f"{fix} The run is in .out.")
    warnings.warn(PhysicsWarning(f"{r.system.name}: {what}. {fix}"), stacklevel=frames_to_user())
