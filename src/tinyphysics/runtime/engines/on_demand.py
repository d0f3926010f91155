"""Engines whose state is made when it is read: what is asked of any of them is asked of that state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from tinyphysics.device.cuda.dlpack import DeviceArray, here, stacked
from tinyphysics.device.protocols import PlainEngine
from tinyphysics.runtime.state.workers import all_finite

# observables of frames (frames, members, ...) at steps
Look = Callable[[Mapping[str, Any], list[int]], dict[str, Any]]
ROOM = 1 << 26  # bytes of states that are observed together


class Begun(Protocol):
    start: dict[str, Any]
    steps: int


M = TypeVar("M", bound=Begun)


class OnDemandEngine(PlainEngine, ABC, Generic[M]):
    look: Look | None

    @abstractmethod
    def state(self, m: M) -> dict[str, Any]:
        """At the step that the members have come to, (members, shape...)."""

    @abstractmethod
    def advance(self, m: M, steps: int) -> None: ...

    @abstractmethod
    def snapshot(self, m: M) -> M: ...

    def block(self, members: int) -> int:
        return 1 << 62

    def rows(self, m: M) -> int:
        return max(1, ROOM // max(1, sum(int(v.nbytes) for v in m.start.values())))

    @abstractmethod
    def between(self, m: M, t: float) -> dict[str, Any]:
        """The state at a time between the step that the members have come to and the next one."""

    def between_many(self, m: M, times: Sequence[float]) -> dict[str, Any]:
        """The states at some such times, in their order: (times, members, shape...)."""
        seen = [self.between(m, t) for t in times]
        return {name: stacked([v[name] for v in seen]) for name in seen[0]}

    def found_until(self, m: M, later: M) -> None:
        """What was looked for up to a time after the last step, by the same members, counts."""

    def bad(self, m: M) -> list[int]:
        states = self.state(m)
        if isinstance(next(iter(states.values())), DeviceArray):  # they come here only if some are bad
            if all(all_finite(v) for v in states.values()):
                return []
            states = {name: here(v) for name, v in states.items()}
        good = {name: np.isfinite(v) for name, v in states.items()}
        if all(np.count_nonzero(v) == v.size for v in good.values()):
            return []
        finite = [v.reshape(len(v), -1).all(axis=1) for v in good.values()]
        return [int(k) for k in np.flatnonzero(~np.logical_and.reduce(finite))]

    def first_bad(self, m: M, k: int) -> tuple[str, int] | None:
        for name, v in self.state(m).items():
            wrong = np.flatnonzero(~np.isfinite(here(v[k]).reshape(-1)))
            if len(wrong):
                return name, int(wrong[0])
        return None

    def synchronised(self, m: M) -> dict[str, Any]:
        return {
            name: v.numpy() if isinstance(v, DeviceArray) else v.copy() for name, v in self.state(m).items()
        }

    def synchronised_there(self, m: M) -> dict[str, Any]:
        """The same where they are, of a run whose states are on a GPU."""
        return {name: v.copy() for name, v in self.state(m).items()}
