"""How far does rounding alone take the energy of a run?  Measured at states of the run, by the program as it runs.

Copies of a state that lie on a short line go some steps on. In exact arithmetic their energies would be a smooth function
of the place on the line, a parabola as far as can be seen; what is left beside that parabola is rounding. Lines have several
lengths: on a short one neighbours may be rounded alike, a long one is curved; the longest is taken on which a curve of the
fourth degree is no better than the parabola. Roundings of different steps are independent as a rule, so that energy errors
add up as a random walk; where they grow otherwise over 64 steps, nothing is estimated.

Constants that are rounded once, to the float32 of forces, shift the energy that a run keeps: that error does not grow, is
the same for all copies, and is measured apart, against the same run with float64 forces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.errors import TinyPhysicsError
from tinyphysics.ir import UOp
from tinyphysics.ir.dtype import f32
from tinyphysics.physics.draws import uniform
from tinyphysics.planner.cost.rounding import NAME, NOT_ESTIMATED, roundings
from tinyphysics.report import Row
from tinyphysics.runtime.api.simulation import Simulation
from tinyphysics.runtime.stages.execute import execute, looking
from tinyphysics.runtime.stages.origin import CANCELLED, SLOPES, TERMS
from tinyphysics.runtime.stages.terms import addends
from tinyphysics.runtime.state.encoding import Encoding
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.runtime.state.first_state import FirstState
from tinyphysics.runtime.state.record import Record, beginning
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import Schedule
from tinyphysics.synth.methods.derivative import derivative
from tinyphysics.util import plural

COPIES = 16  # of a state, on a line
PLACES = 256  # on a line, of which copies take some
ODD = 16  # numbers move by odd multiples below it, so that no two are rounded together
SAMPLES = 64  # states along a run
STEPS, FEW = 64, 8  # that copies go on, and after how many they are looked at first
LENGTHS = {  # of lines, as powers of 2 of a number: its leading word, or the second word of a pair of float64
    "float32": (5, 8, 11),
    "compensated": (5, 8, 11),
    "mixed": (5, 8, 11, 15, 20, 28, 36),
    "float64": (5, 10, 15, 20, 28, 36),
    "lattice": (5, 10, 15, 20, 28),
    "dd": (5, 20),
}
SHORTEST = 2  # lengths that are left where H has kinks: a long line would cross one
BETTER = 2.0  # a curve that leaves less than 1/BETTER of the variance of another has seen more than rounding
APART = 6.0  # the same of a variance for each step, over few and over many steps
GOOD = 0.75  # of the samples must have a line on which rounding is seen
FRAMES = 16  # at which a pilot is looked at
PHASES = 64  # between two of them, of which each sample has one: they may be a period apart
LONGEST, USUAL, LEAST = (
    100_000,
    10_000,
    256,
)  # steps of a pilot: at most, of a run of unknown length, at least
WORK = 2e8  # operations of all copies, or of a pilot: about a tenth of a second
IN_PYTHON = 1e-3  # of that, where there is no compiled code
TOO_MUCH = 16.0  # times WORK
DRIFT = 0.5  # of the energy, in the pilot: beyond, energies are no sums of small errors
PERIODS = (
    16  # steps after which a state may be where it was, as an oscillator is after six steps of dt = 1/omega
)
NEAR = 256  # units in the last place: what is that near is rounded alike
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
        told = f"rms energy error after n steps by rounding alone, over the {self.scale}: a random walk, "
        at = f"measured at {self.samples} states of {self.steps:,} steps"
        if not self.walk and not self.constant:
            return Row(NAME, "none", f"no rounding of the energy was seen, {at}")
        verdict = f"{self.walk:.0e} sqrt(n)"
        if self.constant:
            verdict = f"{self.constant:.0e} + {verdict}"
            at += "; the first number is of constants that float32 rounds, and does not grow"
        return Row(NAME, verdict, told + at)


def rounding_row(sim: Simulation) -> Row | None:
    """What explain() says once a state is known; None where what it says without one still holds."""
    if sim.began is None:
        return None
    try:
        found = estimate(sim, sim.began)
    except TinyPhysicsError as error:
        found = f"a pilot was refused: {error.what}"
    return Row(NAME, NOT_ESTIMATED, found) if isinstance(found, str) else found.row


# --- runs -------------------------------------------------------------------------------------------------
def advanced(sim: Simulation, given: Inputs, dt: float, steps: int, every: int) -> tuple[Run, Record]:
    """A run from words as they are kept, with frames."""
    c = sim.compiled
    schedule = Schedule(steps, every, None, None)
    r = Run(
        c.program, c.system, sim.target, given, schedule, dt, 0.0, None, c.encoding, c.in_loops(given.members)
    )
    record = beginning(given, schedule)
    for name, v in given.states.items():
        record.frames[name][0] = v
    return r, execute(r, record, {}, lambda n: None)[0]


def watched(sim: Simulation) -> dict[str, UOp]:
    """The energy, the sizes that it is relative to, and its slopes."""
    H = sim.system.energy
    assert H is not None
    states = [s.var for s in sim.system.states]
    slopes = dict(zip([s.name for s in sim.system.states], derivative(H, states)))
    sizes = UOp.sum_of((abs(z * g)).sum() if z.shape else abs(z * g) for z, g in zip(states, slopes.values()))
    terms = UOp.sum_of(abs(x) for x in addends(H))
    return {
        "energy": H,
        "terms": terms,
        "sizes": sizes,
        **{f"slope.{name}": u for name, u in slopes.items()},
    }


def members(i: Inputs, who: Any) -> Inputs:
    """Some members, as often as they are named."""
    params = {name: v[who] if len(v) > 1 else v for name, v in i.params.items()}
    return Inputs({name: v[who] for name, v in i.states.items()}, params, len(who), True)


# --- lines ------------------------------------------------------------------------------------------------
def moved_word(encoding: Encoding, name: str) -> str:
    """The word of a state that tells neighbours apart: in pairs of float64 the second, which is where they round."""
    names = encoding.precision.names(name)
    return names[-1] if encoding.precision.wide else names[0]


def along(v: Any, length: int, odd: Any, places: Any) -> Any:
    """(samples, copies, shape...): numbers on the way to zero, which every format has exactly."""
    size = np.abs(v).astype(np.float64)
    unit = np.ldexp(1.0, np.frexp(size)[1] - 1 - length - int(math.log2(ODD * PLACES)))
    smallest = np.spacing(np.abs(v)).astype(np.float64) if v.dtype.kind == "f" else 1.0
    step = (np.where(size > 0, np.maximum(unit, smallest), 0.0) * -np.sign(v) * odd)[:, None]
    way = step * places.reshape(1, -1, *[1] * (v.ndim - 1))
    if v.dtype.kind == "i":
        return v[:, None] + way.astype(np.int64)
    return (v[:, None].astype(np.float64) + way).astype(v.dtype)


def lines(encoding: Encoding, states: Mapping[str, Any], lengths: tuple[int, ...], places: Any) -> Any:
    """The words of all copies: (lengths * samples * copies, shape...)."""
    out: dict[str, Any] = {}
    for name in states:
        v = states[name]
        owner = name.partition(".")[0]
        if name != moved_word(encoding, owner):
            parts = [np.repeat(v[:, None], len(places), axis=1)] * len(lengths)
        else:
            drawn = uniform(v.size, 1, stream=len(out))[:, 0].reshape(v.shape)
            odd = 2 * np.floor(drawn * (ODD // 2)) + 1
            parts = [along(v, length, odd, places) for length in lengths]
        out[name] = np.ascontiguousarray(np.stack(parts).reshape(-1, *v.shape[1:]))
    return out


def differences(encoding: Encoding, name: str, kept: Mapping[str, Any]) -> Any:
    """What copies, along axis 1, differ by from the first: of words that are close, exactly."""
    parts = [kept[n] for n in encoding.precision.names(name)]
    if parts[0].dtype.kind == "i":
        return (parts[0] - parts[0][:, :1]) * encoding.precision.unit(name)
    wide = [v.astype(np.float64) for v in parts]
    return sum(v - v[:, :1] for v in wide)


def left_over(e: Any, places: Any) -> tuple[Any, Any]:
    """Variances of (samples, copies) beside the best parabola, and the best curve of the fourth degree."""
    t = places / PLACES
    q, _ = np.linalg.qr(np.stack([t**k for k in range(5)], axis=1))
    out = []
    for degree in (2, 4):
        basis = q[:, : degree + 1]
        off = e - (e @ basis) @ basis.T
        out.append((off**2).sum(axis=1) / (len(places) - degree - 1))
    return out[0], out[1]


# --- the estimate -----------------------------------------------------------------------------------------
def affordable(sim: Simulation) -> float:
    """Steps of one member that may be taken."""
    slow = IN_PYTHON if sim.target.backend in ("python", "numpy") else 1.0
    return WORK * slow / max(sim.compiled.known.operations, 1)


def estimate(sim: Simulation, began: FirstState) -> Rounding | str:
    """The rounding of a simulation from its first state on, or why it is not estimated."""
    given, encoding, room = replace(began.given, is_ensemble=True), sim.compiled.encoding, affordable(sim)
    wanted = USUAL if began.steps is None else began.steps
    steps = int(min(max(wanted, LEAST), max(room / given.members, STEPS), LONGEST))
    lengths = LENGTHS[sim.goal.precision]
    if "smooth" in sim.built.facts and not sim.built.facts["smooth"]:
        lengths = lengths[-SHORTEST:]
    each = room / (COPIES * len(lengths))  # states times steps
    if each * TOO_MUCH < FEW:
        return (
            f"a step has {sim.compiled.known.operations:,} operations, too many to take some hundred at once"
        )
    far = STEPS if each >= STEPS else FEW
    count = max(2, min(SAMPLES, int(each / far)))
    stride = max(steps // FRAMES, 1)
    r, pilot = advanced(sim, given, began.dt, steps, stride)
    if pilot.stops:
        return f"a pilot from the first state stopped at step {pilot.stops[0].step:,}"
    values = watched(sim)
    scale, of = scale_of(looking(r, values, pilot.frames, pilot.steps))
    if scale is None:
        return of
    all_of_them = (len(pilot.steps) - 1) * given.members
    chosen = np.array([k * (all_of_them - 1) // max(count - 1, 1) for k in range(count)])
    at, who = chosen // given.members, chosen % given.members
    samples = replace(members(given, who), states={name: v[at, who] for name, v in pilot.frames.items()})
    _, between = advanced(sim, samples, began.dt, stride, max(stride // PHASES, 1))
    if between.stops:
        return f"a pilot from the first state stopped before step {steps:,}"
    phase = 1 + (uniform(count, 3)[:, 0] * (len(between.steps) - 1)).astype(int)
    states = {name: v[phase, range(count)] for name, v in between.frames.items()}
    samples = replace(samples, states=states)
    if n := comes_back(sim, samples, began.dt):
        return f"a state is where it was after {plural(n, 'step')}, so that roundings repeat"
    found = spread_of(sim, samples, began.dt, lengths, far, values)
    if found is None:
        return "the program stopped next to a state of the run"
    average = []
    for v in found:
        fits = v[0] <= BETTER * v[1]
        good = fits.any(axis=0)
        if good.mean() < GOOD:
            return "energies of neighbouring states are not smooth enough to tell rounding from them"
        longest = v[0][fits.argmax(axis=0), range(count)]
        average.append(float((longest[good] / scale[who[good]] ** 2).mean()))
    early, late = average
    if late and not 1 / APART <= early / late <= APART:
        more = math.sqrt(late / early) if early else math.inf
        return (
            f"roundings of successive steps are not independent: in {far} steps the energy goes {more:.2g} times "
            f"as far as {FEW} let expect"
        )
    p, constant = encoding.precision, 0.0
    if p.forces is f32 and (p.state is not f32 or p.low is not None):  # in float32 the walk is larger
        constant = constant_error(sim, replace(began, given=given), steps, scale, late)
    return Rounding(math.sqrt(late), constant, count, steps, of)


def comes_back(sim: Simulation, samples: Inputs, dt: float) -> int:
    """After how few steps half of the states are where they were, to some units in the last place; 0: they are not."""
    _, record = advanced(sim, samples, dt, PERIODS, 1)
    unit, encoding = roundings(sim.goal.precision, sim.goal.lattice)[0], sim.compiled.encoding
    far = np.zeros((PERIODS, samples.members))
    for s in sim.system.states:
        v = np.asarray(encoding.shown(s.name, record.frames), np.float64)
        v = v.reshape(PERIODS + 1, samples.members, -1)
        size = np.abs(v).max(axis=(0, 2)) if encoding.precision.state.is_float else 1.0
        off = np.abs(v[1:] - v[0]).max(axis=2) / np.where(size > 0, size, 1.0)
        far = np.maximum(far, off)
    back = (far <= NEAR * unit).mean(axis=1) > 0.5
    return int(back.argmax()) + 1 if back.any() else 0


def spread_of(
    sim: Simulation, samples: Inputs, dt: float, lengths: tuple[int, ...], far: int, values: Mapping[str, UOp]
) -> list[tuple[Any, Any]] | None:
    """Variances of energies for each step, (lengths, samples), beside curves of degree 2 and 4: over few and many steps."""
    encoding, count = sim.compiled.encoding, samples.members
    places = np.concatenate([[0], 1 + np.argsort(uniform(PLACES - 1, 2)[:, 0])[: COPIES - 1]]).astype(float)
    every = np.tile(np.repeat(np.arange(count), COPIES), len(lengths))
    copies = replace(members(samples, every), states=lines(encoding, samples.states, lengths, places))
    r, record = advanced(sim, copies, dt, far, FEW)
    if record.stops:
        return None
    first = replace(r, given=members(samples, every[::COPIES]))
    out = []
    for frame, n in ((1, FEW), (-1, far)):
        kept = {name: v[frame] for name, v in record.frames.items()}
        slopes = looking(first, values, {name: v[None, ::COPIES] for name, v in kept.items()}, [0])
        e: Any = 0.0
        for s in sim.system.states:
            names = encoding.precision.names(s.name)
            words = {w: kept[w].reshape(-1, COPIES, *kept[w].shape[1:]) for w in names}
            off = differences(encoding, s.name, words) * slopes[f"slope.{s.name}"][0][:, None]
            e = e + off.reshape(*off.shape[:2], -1).sum(axis=2)
        two, four = left_over(e, places)
        out.append((two.reshape(len(lengths), count) / n, four.reshape(len(lengths), count) / n))
    return out


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


def constant_error(sim: Simulation, began: FirstState, steps: int, scale: Any, walk: float) -> float:
    """The rms difference of energies to those of float64 forces, less that of a walk; 0 where nothing is left."""
    goal = replace(
        sim.goal,
        precision="float64",
        method=sim.compiled.known.method,
        order=None,
        forbid=(),
        energy_drift=None,
        error=None,
        decision=None,
    )
    twin = Simulation(sim.system, goal, sim.requested, "off")
    values = sim.compiled.encoding.values(began.given.states)
    exact = replace(began.given, states={name: np.asarray(v, np.float64) for name, v in values.items()})
    every = max(steps // FRAMES, 1)
    off = []
    energies = {"energy": watched(sim)["energy"]}
    for s, given in ((sim, began.given), (twin, exact)):
        r, record = advanced(s, given, began.dt, steps, every)
        if record.stops:
            return 0.0
        off.append(looking(r, energies, record.frames, record.steps)["energy"])
    n = np.array(record.steps)[1:, None]
    rest = float((((off[0] - off[1])[1:] / scale) ** 2 - walk * n).mean())
    return math.sqrt(rest) if rest > SEEN * walk * steps else 0.0
