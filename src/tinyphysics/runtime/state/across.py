"""What changes all members of a run together between two steps?  Swaps of replicas, and hills of a shared bias.

Such a change has a memory (which replica has which temperature, the hills so far). It goes into checkpoints, so that a run
in two parts has the bits of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.given import shown, whole
from tinyphysics.options import heeds

TOGETHER = "together: "  # the description of such a change begins with it
States = Mapping[str, Any]  # (members, shape...), word by word


class Worker(Protocol):
    """One run of a change: it begins with what the run is given, or with what a checkpoint has kept."""

    only_looks: bool  # does it leave the states as they are?

    @property
    def params(self) -> dict[str, Any]:
        """(members or 1, shape...) of parameters that it changes, as they are now."""

    def done(self, n: int, states: States, stopped: frozenset[int]) -> tuple[dict[str, Any], dict[int, str]]:
        """The states after step n, and members that stop there, with the cause."""

    def memory(self) -> dict[str, Any]:
        """All that it needs to go on."""

    def changed(self) -> Mapping[str, History]:
        """Of parameters that the energy depends on, what they were in this call."""


@dataclass(eq=False)
class History:
    """What a parameter of all members was: from the first step of a call on, and from each later step at which it changed."""

    steps: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)  # (members, shape...)

    def add(self, step: int, value: Any) -> None:
        self.steps.append(step)
        self.values.append(np.array(value))

    def at(self, steps: Any) -> Any:
        """(steps, members, shape...): a change of a step counts at that step."""
        rows = np.searchsorted(self.steps, np.asarray(steps), side="right") - 1
        return np.stack(self.values)[rows]


@dataclass(frozen=True, eq=False)
class Across:
    """A change of all members after every so many steps, ready to be done."""

    name: str
    every: int
    told: str  # two runs with the same are alike in this
    data: Any  # as JSON holds it
    start: Callable[[Any, Mapping[str, Any]], Worker]  # (the run, what a checkpoint has kept) -> a worker

    def due(self, n: int) -> bool:
        return n > 0 and n % self.every == 0

    def next(self, n: int) -> int:
        """The first step after n at which it is due."""
        return n - n % self.every + self.every


@dataclass(frozen=True)
class Exchange:
    """A parameter that neighbouring replicas exchange, after every so many steps; made by tp.exchange."""

    parameter: str
    every: int


@heeds("exchange", 'tp.exchange("k", every=100)')
def exchange(parameter: str, *, every: int) -> Exchange:
    """Says that neighbouring replicas exchange a parameter: `evolve(k=[1.0, 4.0], exchange=tp.exchange("k", every=100))`.

    Accepted with min(1, exp(-d)), where d is what the sum of H/kT of both would change by.
    """
    if not isinstance(parameter, str) or not parameter:
        raise InputError(
            f"tp.exchange({shown(parameter)}) is not the name of a parameter",
            fix='Write tp.exchange("k", every=100).',
        )
    return Exchange(parameter, whole("every", every, 1))


@dataclass(frozen=True, eq=False)
class Swaps:
    """What became of an exchange: out.exchange."""

    parameter: str
    values: Any  # of the parameter, in the order of the call
    every: int
    attempts: Any  # between neighbours k and k + 1, since the beginning of the run
    accepted: Any
    steps: Any  # of the exchanges of this call
    walker: Any  # (exchanges, replicas): which replica has the value k after each
    round_trips: Any  # of each replica, from the first value to the last and back, since the beginning

    @property
    def acceptance(self) -> Any:
        """Of each pair of neighbours."""
        return np.divide(
            self.accepted, self.attempts, out=np.full(len(self.accepted), np.nan), where=self.attempts > 0
        )

    def __repr__(self) -> str:
        shares = " ".join(f"{a:.2f}" for a in self.acceptance)
        trips = int(np.sum(self.round_trips))
        return (
            f"<{len(self.values)} replicas, an exchange of {self.parameter} every {self.every} steps: "
            f"acceptance {shares}, {trips} round trips>"
        )
