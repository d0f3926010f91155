"""How far does rounding alone take the energy of a run?  Measured at states of the run, by the program as it runs.

At states along a run the energy is looked at for what rounding leaves there (roughness.py). Roundings of different steps are
independent as a rule, so that energy errors add up as a random walk; where 64 steps say otherwise, nothing is estimated.

Constants that are rounded once, to the float32 of forces, shift the energy that a run keeps. That error comes and goes with
the motion and does not grow: its rate is measured against steps with float64 forces, and how long it acts on the kinetic
energy, which comes and goes as well. What the method does to the energy is in neither, nor are errors of the phase.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.context import QUICK
from tinyphysics.errors import TinyPhysicsError
from tinyphysics.ir import UOp
from tinyphysics.ir.dtype import f32
from tinyphysics.physics.draws import uniform
from tinyphysics.planner.cost.rounding import NAME, NOT_ESTIMATED, roundings
from tinyphysics.planner.methods.method import ROUNDS
from tinyphysics.report import Row
from tinyphysics.runtime.measure.roughness import COPIES, FEW, Copies, advanced, backend_of, members
from tinyphysics.runtime.stages.compiled import Compiled
from tinyphysics.runtime.stages.execute import observe_states
from tinyphysics.runtime.stages.origin import CANCELLED, SLOPES, TERMS
from tinyphysics.runtime.stages.terms import addends
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.runtime.state.first_state import FirstState
from tinyphysics.synth.methods.derivative import derivative
from tinyphysics.tpir.precision.precision import PRECISIONS
from tinyphysics.util import plural

SAMPLES = 64  # states along a run
STEPS = 64  # that their copies go on
APART = 6.0  # a variance for each step, over few and over many of them, of roundings that are not independent
GOOD = 0.75  # of the samples must have a line on which rounding is seen
FRAMES = 16  # at which a pilot is looked at
PHASES = 64  # between two of them, of which each sample has one: frames may be a period apart
LONGEST, USUAL, LEAST = 100_000, 10_000, 256  # steps of a pilot; USUAL, where a run has not said how many
WORK = 2e8  # operations of all copies, or of a pilot: about a tenth of a second
LONG = 100  # operations of a step that is compiled quickly: good code takes longer to make than the pilots to run
QUICK_WORK = 4e7  # its WORK
MOST = 4_000  # operations of a step that is written out: beyond, the pilots take seconds to compile
MOST_SOLVED = 1_500  # of one that solves: its rounds are written out as well
TOO_MUCH = 16.0  # times WORK
LOOKED_AT = 64  # operations, about, that a number of a copy costs besides its steps
IN_LOOPS = 2_000  # frames of copies that run along their axes, one after the other: half a second
DRIFT = 0.5  # of the energy, in the pilot: beyond, energies are no sums of small errors
PERIODS = 16  # steps after which a state may be where it was: an oscillator with omega*dt = 1 is after six
NEAR = 256  # units in the last place: what is that near is rounded alike
LOUDEST = 2.0**12  # roundings of all that H is made of: no energy is off by more in a step
SEEN = 0.25  # of the variance of a pilot's walk: a constant error below it is not told


@dataclass(frozen=True)
class Rounding:
    """sqrt(constant**2 + walk**2 * n): the rms error of an energy after n steps, over a scale."""

    walk: float
    constant: float
    samples: int
    steps: int  # of the pilot
    scale: str

    @property
    def row(self) -> Row:
        told = f"expected energy error (rms) after n steps, by rounding alone, relative to the {self.scale}; "
        at = f"measured at {self.samples} states along {self.steps:,} steps"
        if not self.walk and not self.constant:
            return Row(NAME, "none", f"no rounding of the energy was seen, {at}")
        verdict = f"{self.walk:.0e} sqrt(n)"
        if self.constant:
            verdict = f"{self.constant:.0e} + {verdict}"
            at += "; the first part is of constants that float32 rounds, and does not grow"
        return Row(NAME, verdict, f"{told}a random walk, {at}")


def rounding_row(c: Compiled, began: FirstState) -> Row:
    """What explain() says once a state is known."""
    try:
        with QUICK(2 if c.known.operations > LONG else QUICK.value):
            found = estimate(c, began)
    except TinyPhysicsError as error:
        found = f"a pilot was refused: {error.what}"
    return Row(NAME, NOT_ESTIMATED, found) if isinstance(found, str) else found.row


def watched(c: Compiled) -> dict[str, UOp]:
    """The energy, the sizes that it is relative to, its slopes, and twice the kinetic energy."""
    H = c.system.energy
    assert H is not None
    states = [s.var for s in c.system.states]
    slopes = derivative(H, states)
    products = [(z * g).sum() for z, g in zip(states, slopes)]
    sizes = [abs(z * g).sum() for z, g in zip(states, slopes)]
    return {
        "energy": H,
        "terms": UOp.sum_of(abs(x) for x in addends(H)),
        "sizes": UOp.sum_of(sizes),
        "steepness": UOp.sum_of(abs(g).sum() for g in slopes),
        "moving": UOp.sum_of(x for x, s in zip(products, c.system.states) if s.role == "momentum"),
        **{f"slope.{s.name}": u for s, u in zip(c.system.states, slopes)},
    }


def affordable(c: Compiled) -> float:
    """Steps of one member that may be taken."""
    numbers = sum(s.var.size for s in c.system.states)
    operations = c.known.operations * (ROUNDS if c.known.solves else 1)
    return (QUICK_WORK if c.known.operations > LONG else WORK) / (operations + LOOKED_AT * numbers)


def estimate(c: Compiled, began: FirstState) -> Rounding | str:
    """The rounding of runs from a first state on, or why it is not estimated."""
    given, room, dt = replace(began.given, is_ensemble=True), affordable(c), began.dt
    shorter = PRECISIONS[c.goal.precision].lines
    each = room / (COPIES * len(shorter))  # states times steps
    if backend_of(c) is None:
        return "it takes some ten thousand steps, which are too slow in Python"
    longest = MOST_SOLVED if c.known.solves else MOST
    long = c.known.operations > longest and not all(c.known.loops)
    if long or each * TOO_MUCH < FEW:
        return f"a step has {c.known.operations:,} operations: to measure it would take seconds"
    looped = c.in_loops(COPIES)
    far = STEPS if each >= STEPS and not looped else FEW
    most_samples = IN_LOOPS // (2 * COPIES * len(shorter)) if looped else SAMPLES
    count = max(2, min(most_samples, int(each / far)))
    wanted = USUAL if began.steps is None else began.steps
    steps = int(min(max(wanted, LEAST), max(room / max(given.members, count / FRAMES), STEPS), LONGEST))
    stride = max(steps // FRAMES, 1)
    r, pilot = advanced(c, given, dt, steps, stride)
    if pilot.stops:
        return f"a pilot from the first state stopped at step {pilot.stops[0].step:,}"
    values = watched(c)
    seen = observe_states(r, values, pilot.frames, pilot.steps)
    scale, of = scale_of(seen)
    if scale is None:
        return of
    chosen = np.arange(count) * (FRAMES * given.members - 1) // max(count - 1, 1)
    at, who = chosen // given.members, chosen % given.members
    samples = replace(members(given, who), states={name: v[at, who] for name, v in pilot.frames.items()})
    _, between = advanced(c, samples, dt, stride, max(stride // PHASES, 1))
    phase = 1 + (uniform(count, 3)[:, 0] * (len(between.steps) - 1)).astype(int)
    states = {name: v[phase, range(count)] for name, v in between.frames.items()}
    samples = replace(samples, states=states)
    r, on = advanced(c, samples, dt, PERIODS, 1)
    if between.stops or on.stops:
        return f"a pilot from the first state stopped before step {steps + PERIODS:,}"
    if n := comes_back(c, on.frames):
        return f"a state is where it was after {plural(n, 'step')}, so that roundings repeat"
    of_states, of_forces = roundings(c.goal.precision, c.goal.lattice)
    most = LOUDEST * (max(of_states, of_forces) * seen["sizes"] + of_states * seen["steepness"]).max(axis=0)
    copies = Copies(c, samples, dt, on.frames, shorter, far)
    if copies.stopped:
        return "the program stopped next to a state of the run"
    average: list[float] = []
    for frame, n in ((1, FEW), (-1, far)):
        variance, good = copies.variance(values, frame, n, most[who])
        if good.mean() >= GOOD:
            average.append(float((variance / scale[who] ** 2)[good].mean()))
        elif not average:
            return "energies of neighbouring states are not smooth enough to tell rounding from them"
    early, late = average[0], average[-1]  # of many steps, where they can be told: chaos may bend every line
    if late and not 1 / APART <= early / late <= APART:
        more = math.sqrt(late / early) if early else math.inf
        return (
            f"errors do not add up as a random walk: {far} steps leave {more:.2g} times what {FEW} let expect"
        )
    p, constant = c.encoding.precision, 0.0
    if p.forces is f32 and (p.state is not f32 or p.low is not None):  # in float32 the walk is larger
        moving = seen["moving"] / scale
        rates = observe_states(
            r, {"moving": values["moving"]}, {n: v[[0, FEW]] for n, v in on.frames.items()}, [0, 0]
        )
        speed = rms((rates["moving"][1] - rates["moving"][0]) / scale[who] / FEW)
        found = rate_of_constants(copies, values, dt, scale[who])
        constant = found * rms(moving[len(moving) // 2 :] - moving[0]) / speed if speed else 0.0
        constant = constant if constant**2 > SEEN * late * steps else 0.0
    return Rounding(math.sqrt(late), constant, count, steps, of)


def rms(x: Any) -> float:
    return math.sqrt(float((x**2).mean()))


def comes_back(c: Compiled, frames: Mapping[str, Any]) -> int:
    """After how few steps half of the states are where they were, to some units in the last place; 0: they are not."""
    unit, encoding = roundings(c.goal.precision, c.goal.lattice)[0], c.encoding
    far: Any = 0.0
    for s in c.system.states:
        v = np.asarray(encoding.shown(s.name, frames), np.float64)
        v = v.reshape(*v.shape[:2], -1)
        size = np.abs(v).max(axis=(0, 2)) if encoding.precision.state.is_float else 1.0
        far = np.maximum(far, np.abs(v[1:] - v[0]).max(axis=2) / np.where(size > 0, size, 1.0))
    back = (far <= NEAR * unit).mean(axis=1) > 0.5
    return int(back.argmax()) + 1 if back.any() else 0


def scale_of(seen: Mapping[str, Any]) -> tuple[Any, str]:
    """(what energies are relative to, by member, and its name), as `drift` has it; or None and a reason."""
    energy, terms, sizes = (seen[name] for name in ("energy", "terms", "sizes"))
    if not (np.isfinite(energy).all() and np.isfinite(terms).all() and np.isfinite(sizes).all()):
        return None, "the energy is not finite at a state of the run"
    scale, of = terms.max(axis=0), TERMS
    cancels = scale <= CANCELLED * sizes.max(axis=0)
    if cancels.any():
        scale, of = np.where(cancels, sizes.max(axis=0), scale), SLOPES
    if not (scale > 0).all():
        return None, "the energy is zero at every state that was seen"
    drift = float((np.abs(energy - energy[0]) / scale).max())
    if drift > DRIFT:
        return None, f"the energy itself is off by {100 * drift:.2g} % in a pilot: errors do not just add up"
    return scale, of


def rate_of_constants(copies: Copies, values: Mapping[str, UOp], dt: float, scale: Any) -> float:
    """The rms change of the energy in a step that all copies have, beside the same steps with float64 forces."""
    c = copies.compiled
    goal = c.goal.by_method(c.known.method, precision="float64", propagator="loop")
    twin = Compiled(c.system, goal, c.requested)
    states = c.encoding.values(copies.given.states)
    given: Inputs = replace(copies.given, states={n: np.asarray(v, np.float64) for n, v in states.items()})
    _, record = advanced(twin, given, dt, FEW, FEW)
    if record.stops:
        return 0.0
    off = copies.energies(values, 1, {name: v[-1] for name, v in record.frames.items()})
    off = off[: copies.samples.members] / scale[:, None] / FEW  # of the longest lines
    common = off.mean(axis=1) ** 2 - off.var(axis=1, ddof=1) / COPIES
    return math.sqrt(max(float(common.mean()), 0.0))
