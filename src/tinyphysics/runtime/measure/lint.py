"""What would go wrong in a run?  Every cause of the catalogue is looked for at the first state, and in a few steps."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.device.numbers import NUMPY_DTYPE
from tinyphysics.errors import InputError
from tinyphysics.runtime.measure.autopsy import NO_CAUSE, Examined
from tinyphysics.runtime.measure.causes import CAUSES, OVERFLOW, UNSOLVED, Finding
from tinyphysics.runtime.measure.crossed import near
from tinyphysics.runtime.measure.suspects import bad_operation, curl, out_of_range, too_long, wrong_derivative
from tinyphysics.runtime.stages.origin import Origin
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import sizes_from
from tinyphysics.runtime.state.run import Run
from tinyphysics.system import SizedFamily
from tinyphysics.trajectory import Stop

TRIAL = 8  # steps that are tried
A_MOMENT = 1e-9  # how long a run is tried whose step is not known
MEMBERS = 8  # of an ensemble that are looked at, evenly spaced


@dataclass(frozen=True)
class Lint:
    """What `sim.lint(...)` found: print it, go through it, or ask whether it is `clean`."""

    system: str
    findings: tuple[Finding, ...]

    @property
    def clean(self) -> bool:
        return not self.findings

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __bool__(self) -> bool:
        """Was something found?"""
        return bool(self.findings)

    def __str__(self) -> str:
        if self.clean:
            return f"{self.system}: none of the {len(CAUSES)} causes was found"
        return "\n".join([f"{self.system}: {len(self)} found", *map(str, self.findings)])


def lint(sim: Setup, given: Mapping[str, Any]) -> Lint:
    """What `sim.lint(**state)` returns."""
    if asked := [f"{name}=" for name in ("steps", "until") if name in given]:
        raise InputError(
            f"sim.lint takes a state and parameters, and no {asked[0]}",
            fix="Leave it out: lint looks at the first state and makes a few steps by itself.",
        )
    if isinstance(sim.source, SizedFamily):
        sim.bind(sim.source, sizes_from(sim.source, dict(given)))
    trial = type(sim)(sim.source, sim.goal, sim.requested, "off")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # where the step is to be found, by the method or by a goal, a moment is enough for what is looked at
        chosen = sim.goal.dt is None and sim.source.kind != "map"
        out = trial.evolve(**given, **({"until": A_MOMENT} if chosen else {"steps": TRIAL}))
    if not isinstance(out.origin, Origin):
        return Lint(sim.source.name, ())
    run, found = out.origin.run, dict[str, Finding]()
    with np.errstate(all="ignore"):
        for member in some_members(run):
            for f in at_first(run, member):
                found.setdefault(f.cause, f)
    if out.stopped is not None:
        said = out.stopped.report()
        unsure = said.cause in (UNSOLVED, OVERFLOW) and found  # what was found is why
        if said.cause in CAUSES and said.cause != NO_CAUSE and not unsure:
            found.setdefault(said.cause, Finding(said.cause, said.because, said.fix, said.term, said.where))
    return Lint(run.system.seen.name, tuple(found[c] for c in CAUSES if c in found))


def some_members(run: Run) -> list[int]:
    """Of an ensemble, some evenly spaced, and those with the smallest and largest numbers of each state and parameter."""
    count = min(run.given.members, MEMBERS)
    out = [k * (run.given.members - 1) // max(count - 1, 1) for k in range(count)]
    for values in (*run.encoding.values(run.given.states).values(), *run.given.own.values()):
        if len(values) == run.given.members > MEMBERS:
            rows = np.abs(np.asarray(values, float)).reshape(len(values), -1)
            out += [int(rows.min(axis=1).argmin()), int(rows.max(axis=1).argmax())]
    return list(dict.fromkeys(out))


def at_first(run: Run, member: int) -> Iterator[Finding]:
    """What is wrong with one member at its first state."""
    examined = Examined(run, Stop("", 0, 0.0, member))
    place = examined.first
    wrong = wrong_derivative(place)
    if wrong is not None:
        yield wrong
    if (bad := bad_operation(place, "at the first state", True)) is not None:
        yield bad
        return  # nothing else is known there
    precision = run.encoding.precision
    if precision.forces.is_float and precision.state.is_float:
        largest = min(float(np.finfo(NUMPY_DTYPE[d.name]).max) for d in (precision.forces, precision.given))
        if (narrow := out_of_range(place, largest, precision.name)) is not None:
            yield narrow
    for found in (curl(place), too_long(place, 0), *near(place)):
        if found is not None:
            yield found
