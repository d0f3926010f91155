"""One jump over n steps: the matrices of a system at given parameters, taken apart by the means that its plan names.

Everything that decides the bits of a jump is in its arguments: the program, the parameters, dt and n.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from threading import RLock
from typing import Any

import numpy as np

from tinyphysics.device.linear.modes import NoModes, Unstable
from tinyphysics.device.linear.rank import Undecided
from tinyphysics.errors import PlanError
from tinyphysics.facts import Facts
from tinyphysics.planner.choice.propagator import LOOP, Means, means
from tinyphysics.rules.calculus.affine import NotAffine
from tinyphysics.rules.calculus.matrices import TooMany
from tinyphysics.runtime.engines.propagators import BY, LinearProblem
from tinyphysics.step import Step
from tinyphysics.system import System

KEPT = 8  # propagators that a process remembers
LOCK = RLock()  # runs in several threads share what is remembered
TOGETHER = 1 << 20  # numbers of members that are jumped with at once
KEPT_JUMPS = 2  # and jumps of each: of a large field one is many megabytes


@dataclass(eq=False)
class Propagator:
    """Jumps of one system, at one set of parameters and one dt."""

    question: LinearProblem
    ways: list[Means]
    made: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    jumps: OrderedDict[tuple[int | Fraction, ...], tuple[Any, Any]] = field(default_factory=OrderedDict)

    def prepared(self, *n: int | Fraction) -> tuple[Any, Any]:
        """(what it is computed by, what it makes of n steps, of some frames)."""
        with LOCK:
            return self._prepared(n)

    def _prepared(self, n: tuple[int | Fraction, ...]) -> tuple[Any, Any]:
        if n in self.jumps:
            self.jumps.move_to_end(n)
            return self.jumps[n]
        reasons = []
        for m in self.ways:
            if m.objection or m.name in self.refused:
                reasons.append(f"{m.name}: {m.objection or self.refused[m.name]}")
                continue
            try:
                if m.name not in self.made:
                    self.made[m.name] = BY[m.name](self.question)
            except (NotAffine, NoModes, Undecided) as error:
                self.refused[m.name] = str(error)
                reasons.append(f"{m.name}: {error}")
                continue
            except Unstable as error:
                raise unstable(self.question, error) from error
            if len(n) > 1 and not self.made[m.name].together:
                raise Apart
            try:
                found = self.made[m.name], self.made[m.name].prepared(n)
            except (NoModes, TooMany) as error:  # of this jump, not of others
                reasons.append(f"{m.name}: {error}")
                continue
            except Unstable as error:
                raise unstable(self.question, error) from error
            if len(n) == 1:
                self.jumps[n] = found
            if len(self.jumps) > KEPT_JUMPS:
                self.jumps.popitem(last=False)
            return found
        if len(n) > 1:
            raise Apart
        told, count = "\n  ".join(reasons), n[0] if isinstance(n[0], int) else float(n[0])
        raise PlanError(
            f"`{self.question.system.name}` cannot jump over {count:,} steps. Tried:\n  {told}", fix=LOOP
        )

    def jump(self, states: Mapping[str, Any], steps: Sequence[int | Fraction]) -> dict[str, Any]:
        """States (members, shape...) after so many steps, of a flow any numbers: (frames, members, shape...)."""
        members = len(next(iter(states.values())))
        numbers = max(1, sum(v[:1].size for v in states.values()))
        out = {name: np.empty((len(steps), *v.shape), v.dtype) for name, v in states.items()}
        for frames, (by, change) in self.pieces(steps, max(1, TOGETHER // max(1, numbers * members))):
            size = max(1, TOGETHER // (numbers * (frames.stop - frames.start)))
            for first in range(0, members, size):  # a member's bits do not depend on those beside it
                here = slice(first, first + size)
                with np.errstate(over="ignore", invalid="ignore"):
                    new = by.apply(change, {name: v[here] for name, v in states.items()})
                for name, v in new.items():
                    there = out[name][frames, here]
                    there[...] = v.reshape(there.shape)
        return out

    def pieces(self, steps: Sequence[int | Fraction], along: int) -> Iterator[tuple[slice, tuple[Any, Any]]]:
        """Frames, and what they are computed by: so many at once where that can be."""
        for begin in range(0, len(steps), along):
            some = slice(begin, min(begin + along, len(steps)))
            try:
                found = [(some, self.prepared(*steps[some]))]
            except Apart:
                found = []
            yield from found
            for k in () if found else range(some.start, some.stop):
                yield slice(k, k + 1), self.prepared(steps[k])

    def told(self, n: int) -> dict[str, Any]:
        """What is known of a jump."""
        by, change = self.prepared(n)
        return {"by": by.name, **by.told(change, float(n * self.question.h))}


class Apart(Exception):
    """These frames are made one by one."""


def unstable(x: LinearProblem, error: Unstable) -> PlanError:
    return PlanError(
        f"{x.step.name} is not stable at dt = {float(x.h):g}: {error}",
        fix='Shorten dt, or ask for propagator="exact".',
    )


_propagators: OrderedDict[Any, Propagator] = OrderedDict()


def propagator(
    system: System, facts: Facts, step: Step, program: str, parameters: Mapping[str, Any], dt: float
) -> Propagator:
    """The one for these parameters, remembered."""
    key = program, dt, tuple((name, v.shape, v.tobytes()) for name, v in parameters.items())
    with LOCK:
        return _remembered(key, system, facts, step, parameters, dt)


def _remembered(
    key: Any, system: System, facts: Facts, step: Step, parameters: Mapping[str, Any], dt: float
) -> Propagator:
    if key not in _propagators:
        given = {name: [float(x) for x in v.reshape(-1)] for name, v in parameters.items()}
        question = LinearProblem(system, facts, step, given, Fraction(dt))
        _propagators[key] = Propagator(
            question, means(system, facts, "exact" if question.stages is None else "method", small=False)
        )
        if len(_propagators) > KEPT:
            _propagators.popitem(last=False)
    _propagators.move_to_end(key)
    return _propagators[key]
