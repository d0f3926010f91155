"""What does a run have while it is under way?  What it was asked, its tiles, and which members are still going."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import empty_like
from tinyphysics.ir import UOp
from tinyphysics.pipeline import BESIDE
from tinyphysics.runtime.engines.collisions import pair_sums
from tinyphysics.runtime.engines.engine import Distant, Engine, States
from tinyphysics.runtime.stages.acting import Acts
from tinyphysics.runtime.state.across import Across, Worker
from tinyphysics.runtime.state.encoding import FLOAT64, Encoding, owner
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import Checkpoint, NearPoles, Run, Watch, made
from tinyphysics.runtime.state.schedule import Schedule, time_at
from tinyphysics.runtime.state.tiles import Tile
from tinyphysics.runtime.state.windows import Windows
from tinyphysics.runtime.state.workers import copy_all
from tinyphysics.runtime.storage.resume import Keeps
from tinyphysics.system import System
from tinyphysics.trajectory import Stop

HASHED_THERE = 1 << 22  # bytes of a state on a GPU that are sooner hashed there than read
CARRIED = 16 << 20  # bytes of a state up to which a run keeps its loop state to go on from
# by members of a tile: why they stopped, and their last good states
Stopped = dict[int, tuple[Stop, States]]
Sink = Callable[[Mapping[str, Any], slice], None]  # takes observables of some members instead of the record


@dataclass
class Done:
    """One tile at the end of a block."""

    m: Any = None  # the loop state, if it is not kept elsewhere
    stopped: Stopped = field(default_factory=dict)
    leaves: dict[str, bytes] = field(default_factory=dict)
    registers: Mapping[str, Any] = field(default_factory=dict)  # where a checkpoint is due
    nearest: Any = None  # (poles, members) least squares of distances from poles, where members are not calm
    calm: bool = False  # is no member near one, as all have the parameters?


@dataclass
class Running:
    """One run: what it was asked, what it has, and who is still going."""

    engine: Engine
    given: Inputs
    schedule: Schedule
    dt: float
    t0: float
    record: Record
    sink: Sink | None = None
    # states that are observed in the loop: their frames
    fused: Mapping[str, str] = field(default_factory=dict)
    system: System | None = None
    encoding: Encoding = FLOAT64
    begun: Checkpoint | None = None  # from where a run goes on
    keeper: Keeps | None = None
    windows: Windows | None = None  # of a run that is streamed
    tiles: list[Tile] = field(default_factory=list)
    n: int = 0
    there: bool = False  # are the states, and so the frames, on a GPU?
    kept: int | None = None  # the step of the last checkpoint
    by_dt: Callable[[float], Mapping[str, Any]] = lambda dt: {}  # parameters that follow from dt
    carried: Mapping[str, Any] | None = None  # the loop state of the last step
    # the same by tiles, of a run that ends early
    parting: list[Mapping[str, Any]] = field(default_factory=list)
    acts: Acts | None = None  # what is done between two steps
    across: Across | None = None  # what changes all members together,
    worker: Worker | None = None  # and what it remembers
    threads: int = 1  # that copy a state
    watches: tuple[Watch, ...] = ()
    look: Callable[[Tile, States, int], dict[str, Any]] = lambda tile, state, n: {}  # the values of those
    program: Any = None  # of the step
    look_at_values: Callable[[Tile, States, int], dict[str, Any]] | None = None  # those that are observed
    begun_to_look: set[int] = field(default_factory=set)  # tiles whose first states the watches have seen
    looked: dict[str, int] = field(default_factory=dict)  # by watch: the step of its last look
    poles: NearPoles | None = None
    engine_beside: Callable[[NearPoles], Any] | None = (
        None  # another engine of this run, that keeps how near it comes to these
    )
    known_far: Any = None  # (poles, members) least squares of distances that are known to pass none
    passed_none: int | None = None  # up to this step
    # members for which the part of a step at the end failed
    bad_end: dict[int, Stop] = field(default_factory=dict)
    goes_on: bool = True  # may the loop state of the end be kept?

    @classmethod
    def of(cls, r: Run, engine: Engine, record: Record, **more: Any) -> Running:
        """Of what a run is done with."""
        more |= {"system": r.system, "encoding": r.encoding, "program": r.program}
        given = more.pop("given", r.given)
        return cls(engine, given, record.schedule, r.dt, r.t0, record, **more)

    def time(self, n: int) -> float:
        return time_at(n, self.dt, self.t0)

    @cached_property
    def pairs(self) -> list[UOp]:
        """The sums over pairs in which two particles may meet; derived only if something went wrong."""
        return [] if self.system is None else pair_sums(self.system)

    @cached_property
    def hashed(self) -> list[str]:
        """The words that a digest of the state is of: not directions beside it."""
        states = () if self.system is None else self.system.states
        beside = {s.name for s in states if s.role == BESIDE}
        return [name for name in self.given.states if owner(name) not in beside]

    @cached_property
    def init_reads_clock(self) -> bool:
        return any(i.op in ("TIME", "NOISE", "SOLVE", "NEAR") for i in made(self.program).init)

    @cached_property
    def init_makes_lists_alone(self) -> bool:
        """Of what reads the clock, is there nothing in `init` but lists of neighbours, which are made where it begins?"""
        return not any(i.op in ("TIME", "NOISE", "SOLVE") for i in made(self.program).init)

    @property
    def frozen(self) -> int:
        return sum(len(tile.frozen) for tile in self.tiles)

    @property
    def stride(self) -> int:
        """Steps from one look inside the loop to the next."""
        s = self.schedule
        strides = s.observe_every, s.save_every if self.fused else None
        return min(every for every in strides if every is not None)

    def keeps(self, n: int) -> bool:
        return self.keeper is not None and (n == self.schedule.steps or self.schedule.checkpoints(n))

    @property
    def carries(self) -> bool:
        """Is the loop state of the end kept in memory?  Of a large run it can be computed again."""
        whole = sum(v.nbytes for v in self.given.states.values())
        return self.goes_on and bool(self.record.frames) and not self.there and whole <= CARRIED

    @cached_property
    def many_leaves(self) -> bool:
        """Is a state that is not kept sooner hashed where it is?  A thread of a GPU takes long over a leaf."""
        whole = sum(v.nbytes for v in self.given.states.values())
        return isinstance(self.engine, Distant) and whole >= HASHED_THERE

    def acts_at(self, n: int) -> bool:
        return self.acts is not None and self.acts.due(n)

    def state_at(self, tile: Tile, m: Any, n: int, there: bool = False) -> dict[str, Any]:
        """The states of a tile at step n, after the acts of that step."""
        state = self.states_of(m, there or self.there)
        if self.acts is None or not self.acts.due(n):
            return state
        return self.acts.after(tile, state, n)

    def load(self, tile: Tile, n: int) -> Any:
        """The loop state from which step n is left, to be changed by the caller: after acts a new one begins."""
        m = tile.load(n)
        if self.acts is not None and self.acts.due_inside(n):
            return self.acts.inside(self.engine, tile, m, n)
        if not self.acts_at(n):
            return m
        new = self.begun_again(tile, self.state_at(tile, m, n), n)
        self.engine.hand_on(m, new)
        return new

    def begun_again(self, tile: Tile, state: States, n: int) -> Any:
        """A loop that begins at step n: its `init` reads the time of that step."""
        threads, params = None if tile.kept is None else 1, tile.params()
        m = self.engine.start(state, params, tile.members, self.dt, self.time(n), threads)
        registers = self.engine.registers(m)
        return self.engine.restored(registers, params, tile.members, self.dt, self.t0, n, threads)

    def synchronised(self, tile: Tile, state: States | None, stopped: Mapping[int, Any]) -> dict[str, Any]:
        """The states of a tile; of those that have stopped NaN, or where there is none, their last good state.

        Without a state all have stopped.
        """
        out = {n: empty_like(v) for n, v in tile.states().items()} if state is None else dict(state)
        for name, v in out.items() if tile.frozen or stopped else ():
            if v.dtype.kind == "f":
                v[[*tile.frozen, *stopped]] = np.nan
            else:
                for k, (_, last) in {**tile.frozen, **stopped}.items():
                    v[k] = last[name]
        return out

    def states_of(self, m: Any, there: bool) -> dict[str, Any]:
        if not there:
            return self.engine.synchronised(m)
        assert isinstance(self.engine, Distant)
        return self.engine.synchronised_there(m)

    def frame(self, tile: Tile, n: int, state: States) -> None:
        threads = self.threads if tile.kept is None else 1  # tiles are spread over the threads themselves
        copy_all([(state[name], v[tile.here]) for name, v in self.record.frame(n).items()], threads)
