"""A run on arrays whose steps have their own lengths, looked into: by the curve through the step that a member is at.

Members go one after the other, each as far as it is asked to: who has arrived does nothing while others go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.device.protocols import StepRows
from tinyphysics.runtime.engines.adapted import Adapted
from tinyphysics.runtime.engines.adaptive import AdaptiveEngine
from tinyphysics.runtime.engines.array_curves import ArrayCurves
from tinyphysics.runtime.engines.dense_search import Searching
from tinyphysics.runtime.engines.engine import States
from tinyphysics.runtime.engines.events import Found
from tinyphysics.runtime.engines.step_rows import covered, steps_ahead
from tinyphysics.synth.methods.taylor import UNTIL

LEAST_TIMES = 8  # that are looked at step by step
FIRST = np.zeros(1, np.int64)  # of one member
TELL = 64  # steps between two looks at the pace of a run


@dataclass(eq=False)
class ArraySearching:
    """How far the steps of each member were searched, and what was found."""

    each: list[Searching]

    @property
    def found(self) -> Found:
        out = Found()
        for k, one in enumerate(self.each):
            hits = [replace(h, member=np.full(len(h), k)) for h in one.found.hits]
            out = out.with_hits(hits, one.found.apart, sorted(one.found.numbers))
        return out

    def copy(self) -> ArraySearching:
        return ArraySearching([one.copy() for one in self.each])


class ArraysAdaptive(AdaptiveEngine):
    """`curves` makes what looks into steps, of the names of events; `at_once`: many times are looked at."""

    def __init__(self, *given: Any, curves: Any, events: list[str]) -> None:
        super().__init__(*given)
        self.made_curves, self.event_names = curves, events
        self._curves: ArrayCurves | None = None

    @property
    def curves(self) -> ArrayCurves:
        """Made when a frame or an event lies in a step."""
        if self._curves is None:
            self._curves = self.made_curves()
        return self._curves

    def searching(self, params: States, members: int, since: float, fresh: bool) -> Any:
        if not self.event_names:
            return None
        return ArraySearching(
            [
                Searching(self.event_names, self.curves, self.clock, own, 1, since, np.full(1, fresh))
                for own in (one_of(params, k) for k in range(members))
            ]
        )

    def cover(self, m: Adapted, until: float) -> None:
        if m.events is None:
            return super().cover(m, until)
        for k in range(m.members):
            for _ in self.steps_of(m, k, until):
                pass
        self.inner.tell(m.inner, str(UNTIL.arg), until)
        self.count_times(m, 1, until)

    def steps_of(self, m: Adapted, k: int, until: float) -> Iterator[tuple[Any, StepRows]]:
        """A member goes on until it has a step that covers this time: its loop and its clock, step by step.

        The step that it is at comes first. Events are searched in them.
        """
        one, events = self.inner.only(m.inner, k), m.events
        search = events.each[k] if isinstance(events, ArraySearching) else None
        params = one_of(m.params, k) if search is None else search.params
        self.inner.tell(one, str(UNTIL.arg), until)
        if search is not None:
            search.begin()
        steps = 0
        while True:
            rows = StepRows.of({self.clock: self.inner.register(one, self.clock)})
            high, low, h = rows.table[:3, 0, 0].tolist()
            self.curves.point(self.inner, one, params)
            if search is not None:
                search.steps(rows, until, FIRST)
                search.locate()
            yield one, rows
            if not (until - high) - low > h:
                break
            self.inner.advance(one, 1)
            steps += 1
            if steps % TELL == 0:
                self.tell(m, until)
        if search is not None:
            search.finish(until)

    def states_at(self, m: Adapted, times: Any) -> dict[str, Any]:
        """By the curve where several times lie in a step, else as the loop itself shows them."""
        if m.there or not m.members or m.events is None and not self.often(m, times):
            return super().states_at(m, times)
        out: dict[str, Any] = {}
        for k in range(m.members):
            done = np.zeros(1, np.int64)
            for one, rows in self.steps_of(m, k, float(times[-1])):
                which = covered(rows.table, times, done, FIRST)[0]
                if not len(which):
                    continue
                seen = self.seen_from(one, rows, times[which])
                self.inner.tell(one, str(UNTIL.arg), float(times[-1]))
                for name, v in seen.items():
                    if name not in out:
                        out[name] = np.empty((len(times), m.members, *v.shape[1:]))
                    out[name][which, k] = v
        self.inner.tell(m.inner, str(UNTIL.arg), float(times[-1]))
        self.count_times(m, len(times), float(times[-1]))
        return out

    def often(self, m: Adapted, times: Any) -> bool:
        """Are there more times than steps, as far as that is known?"""
        if not self.at_once or len(times) < LEAST_TIMES:
            return False
        if not self.clocks(m)[3].any():  # the first of them takes steps, which tell it
            self.cover(m, float(times[0]))
        return len(times) > steps_ahead(self.clocks(m), 1, m.t0, float(times[-1]))

    def seen_from(self, one: Any, rows: StepRows, times: Any) -> dict[str, Any]:
        """The states of a member at some times in its step."""
        if len(times) == 1:
            self.inner.tell(one, str(UNTIL.arg), float(times[0]))
            shown = self.inner.named(one, self.words)
            return {name: shown[name] for name in self.words}
        high, low = rows.table[:2, 0, 0]
        seen = self.curves.words((times - high) - low)
        return {name: seen[f"word {name}"] for name in self.words}


def one_of(params: Mapping[str, Any], k: int) -> dict[str, Any]:
    """The parameters of one member."""
    return {name: v[k : k + 1] if len(v) > 1 else v for name, v in params.items()}
