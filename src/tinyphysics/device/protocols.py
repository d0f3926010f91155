"""What do engines and the code that they run agree on?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import Section

Parts = Sequence[tuple[Section, VectorShape]]  # sections that are compiled together, each for its shape


class Memory(Protocol):
    """What is done with rows of numbers, a column for each member: device/host/rows.py, and on a GPU device/cuda/rows.py."""

    def empty(self, shape: Sequence[int], dtype: Any) -> Any: ...
    def put(self, a: Any) -> Any: ...  # what is here, there
    def get(self, rows: Any, first: int = 0, end: int | None = None) -> Any: ...  # some rows, here
    def copy(self, rows: Any) -> Any: ...
    def take(self, rows: Any, members: Sequence[int]) -> Any: ...
    def fill(self, rows: Any, members: Sequence[int], well: int) -> None: ...  # as copies of one that is well
    def bad(self, rows: Any, members: int) -> list[int]: ...  # those with a number that is none
    # (rows,) the smallest or the largest number of each of some rows that have none below zero
    def extremes(self, rows: Any, first: int, end: int, members: int, largest: Any) -> Any: ...

    there: bool  # is it the memory of a device?

    # arrays (members, shape...) that stay there; `mixed`: rows have another type than the numbers in them
    def arrays(
        self, rows: Any, outputs: Mapping[str, Any], members: int, mixed: bool = False
    ) -> dict[str, Any]: ...

    # arrays (members, shape...) to rows and back; `mixed`: rows have another type than the numbers in them
    def encode(
        self, arrays: Mapping[str, Any], numbers: int, members: int, lanes: int, dtype: Any
    ) -> Any: ...
    def decode(
        self, rows: Any, outputs: Mapping[str, Any], members: int, names: Collection[str], mixed: bool
    ) -> dict[str, Any]: ...


class Launcher(Protocol):
    """How code runs on members: by threads of this machine (device/engines/series.py), or on a GPU (cuda_series.py)."""

    faster: int  # products in the time that a core of a processor has for one
    alone: int  # members that take no longer than one

    @property
    def room(self) -> int: ...  # numbers in the loop states that fit at once; 0: as many as there are
    def lanes(self, members: int) -> int: ...  # columns for so many members

    # a function on every member of a state, so many steps; `scratch`: numbers that it needs for one of them
    def run(self, f: Any, scratch: int, m: Any, tables: Any, count: int, out: Any) -> None: ...


class PlainEngine:
    """What an engine answers about itself and a run, unless it knows more."""

    shows_states = False  # does its loop give the states of every row by itself?
    free_steps = False  # does a step cost nothing, however far away it is?
    forgets = 0  # rows, the last of a loop, that begin anew in each block of time
    advance: Callable[[Any, int], None]
    registers: Callable[[Any], dict[str, Any]]
    restored: Callable[..., Any]
    start: Callable[..., Any]
    snapshot: Callable[[Any], Any]
    named: Callable[[Any, Sequence[str]], dict[str, Any]]

    def expect(self, members: int, steps: int) -> None:
        """A run of so many steps is about to begin."""

    def told(self, members: int) -> dict[str, Any]:
        """How so many members lay on a device last, for out.metrics."""
        return {}

    def synchronised_into(self, m: Any, out: Mapping[str, Any]) -> bool:
        """The states into arrays (members, shape...), where they would else be copied twice; False: not by this engine."""
        return False

    def fresh(self, members: int) -> list[Any]:
        """What these are at the beginning of a block."""
        return []

    def nearest(self, m: Any) -> Any:
        """Least squares of distances from poles, where its loop keeps them."""
        return None

    def nearest_of_all(self, m: Any) -> Any:
        """The same of the member for which they are least."""
        return None

    def findings(self, m: Any) -> Mapping[str, Iterable[Any]]:
        """What it found out in a run, by the names that a record has for it."""
        return {}

    def ended(self, m: Any, k: int) -> tuple[str, float, dict[str, Any]] | None:
        """Which event stopped a member, when, and its states there."""
        return None

    def again(self, m: Any, state: Mapping[str, Any]) -> None:
        """A loop of one member begins again with some other states; all else that it began with holds."""
        raise AssertionError("only an engine of arrays begins again")

    def only(self, m: Any, k: int) -> Any:
        """The loop of one member: what it does is done to the loop of all."""
        raise AssertionError("only an engine that goes member by member has loops of one")

    def record(self, m: Any, rows: int) -> StepRows:
        """So many steps, and the registers after each of them."""
        seen = []
        for _ in range(rows):
            self.advance(m, 1)
            seen.append(StepRows.of(self.registers(m)))
        return StepRows(np.concatenate([one.table for one in seen], axis=1), seen[0].places)

    def named_at(
        self, rows: StepRows, params: Mapping[str, Any], dt: float, t0: float, names: Sequence[str]
    ) -> dict[str, Any]:
        """What `final` gives of registers that lie side by side, one step of one member each."""
        lanes = rows.table.shape[1]
        own = {name: rows[name].T for name in rows.places}
        found: dict[str, Any] = self.named(self.restored(own, params, lanes, dt, t0, 0), names)
        return found

    def held(self, m: Any) -> Any:
        raise AssertionError("only the engine itself can keep its loop")

    def resume(self, *given: Any, **more: Any) -> Any:
        raise AssertionError("only the engine itself can keep its loop")

    def hand_on(self, m: Any, to: Any) -> None:
        """A loop begins again with other states; what was found in the old one counts."""

    def begin_again(
        self, m: Any, state: Mapping[str, Any], params: Mapping[str, Any], members: int, dt: float, t0: float
    ) -> Any:
        """A loop of the same run from other states and with other parameters; `m` itself is over, and may become it."""
        new = self.start(state, params, members, dt, t0, None)
        self.hand_on(m, new)
        return new

    def lent(self, m: Any) -> Any:
        """A loop to go on with, beside one that stays where it is."""
        return self.snapshot(m)

    def quiet(self, m: Any) -> Any:
        """A loop in which nothing is looked for."""
        return m

    def search_until(self, m: Any, t: float) -> None:
        """A run ends at a time after its last step; what is looked for is looked for up to there."""

    def rows_of(self, m: Any, name: str) -> Any:
        """Where a register of all members is on a device; None if it is nowhere in one piece."""
        return None


@dataclass(frozen=True, eq=False)
class StepRows:
    """What loops carried after some steps: numbers in rows, then steps, then members; or only steps of some members."""

    table: Any  # (numbers, steps, members) or (numbers, steps)
    places: Mapping[str, slice]  # the rows of each register

    @classmethod
    def of(cls, registers: Mapping[str, Any]) -> StepRows:
        """Registers of all members, (members, ...), as they are at one step."""
        parts = [v.reshape(len(v), -1).T for v in registers.values()]
        ends = np.cumsum([len(part) for part in parts]).tolist()
        places = {name: slice(end - len(v), end) for name, v, end in zip(registers, parts, ends)}
        return cls(np.concatenate(parts)[:, None], places)

    def __getitem__(self, register: str) -> Any:
        return self.table[self.places[register]]

    def some(self, lanes: Any) -> StepRows:
        """Some steps of some members, side by side; they are counted as `table` lies."""
        flat = self.table.reshape(len(self.table), -1)
        whole = len(lanes) == flat.shape[1] and bool((lanes[1:] > lanes[:-1]).all())
        if flat.flags.c_contiguous:
            return StepRows(flat if whole else np.take(flat, lanes, axis=1), self.places)
        steps = flat.T if whole else np.take(flat.T, lanes, axis=0)
        return StepRows(np.ascontiguousarray(steps.T), self.places)


# --- a Taylor step in loops: device/engines/series.py ---------------------------------------------------
CLOCK = 4  # numbers: time in two words, the length of the next step, steps done
Function = Callable[[Any, Any, Any, Any, float, int], None]  # state, constants, tables, scratch, until, count


@dataclass(frozen=True)
class Code:
    """What a backend makes of a plan."""

    advance: Any  # a Function, or a kernel of a GPU
    look: Any  # the states at a time, into the scratch
    scratch: int  # numbers of it, of a thread
    made: int = 0  # modules compiled for it
    found: int = 0
