"""How rough is the energy that a program computes?  Copies of a state on a short line go some steps on.

In exact arithmetic their energies would be a smooth function of the place on the line, a parabola as far as can be seen;
what is left beside that parabola is rounding. A line is as long as the way of a number in some steps, so that neighbours on
it are rounded as differently as successive states are; where it is curved there, a shorter one is taken. No other program and
no other precision is needed for that, and every method is measured as it runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from tinyphysics.ir import UOp
from tinyphysics.physics.draws import uniform
from tinyphysics.runtime.stages.compiled import Compiled
from tinyphysics.runtime.stages.execute import execute, observe_states
from tinyphysics.runtime.state.encoding import Encoding
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.runtime.state.record import Record, beginning
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import Schedule
from tinyphysics.target import TARGETS, Target

SHORT = 6_000  # operations of a step that LLVM compiles in about a second
COPIES = 16  # of a state, on a line
PLACES = 256  # on a line, of which copies take some
ODD = 16  # numbers move by odd multiples below it, so that no two are rounded together
FEW = 8  # steps in which a number goes as far as the longest line
CLOSE = 5  # no line is longer than 2**-5 of a number
BETTER = 2.0  # a curve that leaves less than 1/BETTER of the variance of another has seen more than rounding
FITTED = 2.0**-50  # of the largest energy of a line: what is left below it is rounding of the fit itself

Arrays = Mapping[str, Any]


def backend_of(c: Compiled) -> str | None:
    """Where pilots run: where runs do; not in Python, but in compiled code with the same bits, if it is soon there."""
    if c.known.backend not in ("python", "numpy"):
        return c.known.backend
    quick = (c.known.operations <= SHORT or any(c.known.loops)) and not c.known.slow
    return "llvm" if quick and find_spec("llvmlite") is not None else None


def target_of(c: Compiled) -> Target:
    backend = backend_of(c)
    assert backend is not None
    found = TARGETS[backend]
    return found if c.goal.math == "exact" else replace(found, bit_exact=False)


def advanced(c: Compiled, given: Inputs, dt: float, steps: int, every: int) -> tuple[Run, Record]:
    """A run from words as they are kept, with frames."""
    schedule, loops = Schedule(steps, every, None, None), c.in_loops(given.members)
    r = Run(c.program, c.system, target_of(c), given, schedule, dt, 0.0, None, c.encoding, loops)
    record = beginning(given, schedule)
    for name, v in given.states.items():
        record.frames[name][0] = v
    return r, execute(r, record, {}, lambda n: None)[0]


def members(i: Inputs, who: Any) -> Inputs:
    """Some members, as often as they are named."""
    params = {name: v[who] if len(v) > 1 else v for name, v in i.params.items()}
    return Inputs({name: v[who] for name, v in i.states.items()}, params, len(who), True)


# --- lines ------------------------------------------------------------------------------------------------
def places() -> Any:
    """Where copies lie on a line; the first is the state itself."""
    order = np.argsort(uniform(PLACES - 1, 2)[:, 0])
    return np.concatenate([[0], 1 + order[: COPIES - 1]]).astype(np.float64)


def moved_word(encoding: Encoding, name: str) -> str:
    """The word of a state that tells neighbours apart: in pairs of float64 the second, which is where they round."""
    names = encoding.precision.names(name)
    return names[-1] if encoding.precision.wide else names[0]


def along(v: Any, way: Any, shorter: int, odd: Any) -> Any:
    """(samples, copies, shape...): numbers on the way to zero, which every format has exactly."""
    size = np.abs(v).astype(np.float64)
    longest = np.minimum(np.ldexp(size, -CLOSE), way)
    unit = np.ldexp(1.0, np.frexp(longest)[1] - 1 - shorter - int(math.log2(ODD * PLACES)))
    smallest = np.spacing(np.abs(v)).astype(np.float64) if v.dtype.kind == "f" else 1.0
    step = (np.where(longest > 0, np.maximum(unit, smallest), 0.0) * -np.sign(v) * odd)[:, None]
    by = step * places().reshape(1, -1, *[1] * (v.ndim - 1))
    if v.dtype.kind == "i":
        return v[:, None] + by.astype(np.int64)
    return (v[:, None].astype(np.float64) + by).astype(v.dtype)


def lines(encoding: Encoding, states: Arrays, ways: Arrays, shorter: tuple[int, ...]) -> dict[str, Any]:
    """The words of all copies: (lines * samples * copies, shape...)."""
    out: dict[str, Any] = {}
    for name, v in states.items():
        if name in ways:
            drawn = uniform(v.size, 1, stream=len(out))[:, 0].reshape(v.shape)
            odd = 2 * np.floor(drawn * (ODD // 2)) + 1
            parts = [along(v, ways[name], k, odd) for k in shorter]
        else:
            parts = [np.repeat(v[:, None], COPIES, axis=1)] * len(shorter)
        out[name] = np.ascontiguousarray(np.stack(parts).reshape(-1, *v.shape[1:]))
    return out


def ways_of(c: Compiled, frames: Arrays) -> dict[str, Any]:
    """How far each number goes in some steps, in what its word counts; of second words, any length."""
    encoding, out = c.encoding, {}
    for s in c.system.states:
        word = moved_word(encoding, s.name)
        if encoding.precision.wide:
            out[word] = np.full(frames[word].shape[1:], np.inf)
        else:
            v = frames[word][: FEW + 1].astype(np.float64)
            out[word] = np.abs(v - v[0]).max(axis=0)
    return out


# --- what is left -----------------------------------------------------------------------------------------
def difference(encoding: Encoding, name: str, a: Arrays, b: Arrays) -> Any:
    """a - b of a state, from words that are close: exactly, or to float64's digits of it."""
    parts = [(a[n], b[n]) for n in encoding.precision.names(name)]
    if parts[0][0].dtype.kind == "i":
        return (parts[0][0] - parts[0][1]) * encoding.precision.unit(name)
    return sum(x.astype(np.float64) - y.astype(np.float64) for x, y in parts)


def left_over(e: Any) -> tuple[Any, Any]:
    """Variances of (samples, copies) beside the best parabola, and beside the best curve of the fourth degree."""
    t = places() / PLACES
    q, _ = np.linalg.qr(np.stack([t**k for k in range(5)], axis=1))
    out = []
    for degree in (2, 4):
        basis = q[:, : degree + 1]
        off = e - (e @ basis) @ basis.T
        off = np.where(np.abs(off) > FITTED * np.abs(e).max(axis=1, keepdims=True), off, 0.0)
        out.append((off**2).sum(axis=1) / (COPIES - degree - 1))
    return out[0], out[1]


class Copies:
    """Copies of samples, gone some steps on; `kept` are their words, (frames, lines * samples * copies, shape...)."""

    def __init__(
        self, c: Compiled, samples: Inputs, dt: float, frames: Arrays, shorter: tuple[int, ...], far: int
    ) -> None:
        self.compiled, self.samples, self.lines = c, samples, len(shorter)
        self.every = np.tile(np.repeat(np.arange(samples.members), COPIES), self.lines)
        states = lines(c.encoding, samples.states, ways_of(c, frames), shorter)
        self.given = replace(members(samples, self.every), states=states)
        self.run, record = advanced(c, self.given, dt, far, FEW)
        self.kept, self.stopped = record.frames, bool(record.stops)

    def slopes(self, values: Mapping[str, UOp], frame: int) -> dict[str, Any]:
        """Of the energy, by state, where the first copy of each line is."""
        first = replace(self.run, given=members(self.samples, self.every[::COPIES]))
        here = {name: v[frame][None, ::COPIES] for name, v in self.kept.items()}
        found = observe_states(first, values, here, [0])
        return {s.name: found[f"slope.{s.name}"][0] for s in self.compiled.system.states}

    def energies(self, values: Mapping[str, UOp], frame: int, beside: Arrays | None = None) -> Any:
        """(lines * samples, copies): energies less that of the first copy, or less those of other words."""
        encoding, slopes = self.compiled.encoding, self.slopes(values, frame)
        total: Any = 0.0
        for s in self.compiled.system.states:
            names = encoding.precision.names(s.name)
            own = {n: self.kept[n][frame].reshape(-1, COPIES, *self.kept[n].shape[2:]) for n in names}
            other = {n: v[:, :1] for n, v in own.items()}
            if beside is None:
                off = difference(encoding, s.name, own, other)
            else:
                shown = encoding.shown(s.name, own)
                off = shown - beside[s.name].reshape(shown.shape)
            off = off * slopes[s.name][:, None]
            total = total + off.reshape(*off.shape[:2], -1).sum(axis=2)
        return total

    def variance(self, values: Mapping[str, UOp], frame: int, steps: int, most: Any) -> tuple[Any, Any]:
        """(of the energy, for each step, by sample; which samples have a line on which it is seen).

        `most` is what no rounding is above: on a line that is far too long, all curves are equally bad.
        """
        two, four = (v.reshape(self.lines, -1) / steps for v in left_over(self.energies(values, frame)))
        fits = (two <= BETTER * four) & (two <= most**2)
        # the longest that fits
        return two[fits.argmax(axis=0), range(self.samples.members)], fits.any(axis=0)
