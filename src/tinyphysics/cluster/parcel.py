"""What do the blocks of an ensemble take along to another machine?  Text and arrays: nothing in it is code.

A `Parcel` is what all blocks of one run have in common: the system and its goal as a file of `sim.save` has them, what is
observed and looked for as graphs in text, and the steps. A `Block` is some of the members. A worker compiles the system
again; it must find the same program, or it says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tinyphysics.errors import PlanError
from tinyphysics.ir import Ops, UOp, dump, toposort
from tinyphysics.runtime.stages.bind import Bound
from tinyphysics.runtime.stages.description import acts_data, described
from tinyphysics.runtime.stages.resolve import Resolved
from tinyphysics.runtime.stages.run import identity_of
from tinyphysics.runtime.state.digest import BITS
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.runtime.state.run import Checkpoint, Run
from tinyphysics.runtime.state.schedule import Schedule
from tinyphysics.runtime.storage.block_rows import BlockRows
from tinyphysics.system import System
from tinyphysics.util import Site, digest
from tinyphysics.version import __version__


@dataclass(frozen=True, eq=False)
class Parcel:
    """What all blocks of a run have in common."""

    key: str  # parcels with one key are one
    version: str
    bits: int
    described: Mapping[str, Any]  # as runtime/stages/description.py writes it
    lines: Sequence[
        tuple[int, str, int]
    ]  # (which node of its equations, file, line) of the user's text, for messages
    thresholds: Mapping[str, float]
    looks: int  # steps between two looks of watches; 0: there are none
    dt: float
    t0: float
    until: Any
    seed: int
    gridless: bool
    speculate: int | None
    schedule: Schedule
    values: Mapping[str, str]  # what is observed
    events: Mapping[str, str]  # what is looked for
    acts: Sequence[Any]
    is_ensemble: bool
    carries: bool = False  # is the loop state of the end wanted, for a checkpoint?
    rows: BlockRows | None = None  # of a store on the disk of the client, which a worker may see too


@dataclass(frozen=True, eq=False)
class Stretch:
    """Some steps of a loop: from its registers, `rows` looks `stride` steps apart, or `stride` steps without a look."""

    registers: Mapping[str, Any]
    step: int
    rows: int
    stride: int


@dataclass(frozen=True, eq=False)
class Block:
    """Some members of a run: which of all they are, their numbers, and where they go on from."""

    first: int
    given: Inputs
    begun: Checkpoint | None = None
    acts: Sequence[Mapping[str, Any]] = field(default_factory=list)  # parameters of their own
    stretch: Stretch | None = None  # some steps of a loop that is under way, instead of a run

    @property
    def members(self) -> int:
        return self.given.members


def parcel(r: Resolved, b: Bound, one: Run) -> Parcel:
    """The call that was resolved, without its members."""
    setup = r.setup
    for whole in (setup.system.equations, b.values.values(), one.events.values()):
        check_travels([*whole])
    said = described(setup.system, setup.goal, setup.requested, setup.checks, setup.compiled.known.program)
    parts: dict[str, Any] = dict(
        version=__version__,
        bits=BITS,
        described=said,
        lines=lines_of(setup.system),
        thresholds=dict(setup.thresholds),
        looks=one.watches[0].every if one.watches else 0,
        dt=one.dt,
        t0=one.t0,
        until=r.until,
        seed=int(r.seed),
        gridless=one.gridless,
        speculate=r.request.speculate,
        schedule=one.schedule,
        values={name: dump([u]) for name, u in b.values.items()},
        events={name: dump([u]) for name, u in one.events.items()},
        acts=acts_data(one.acts),
        is_ensemble=one.given.is_ensemble,
    )
    known = (
        identity_of(r, one).key,
        said,
        parts["values"],
        parts["events"],
        parts["acts"],
        steps_of(one.schedule),
    )
    return Parcel(key=digest(json.dumps(known, sort_keys=True, default=repr).encode()), **parts)


def lines_of(system: System) -> list[tuple[int, str, int]]:
    nodes = enumerate(toposort(system.equations))
    return [(k, site.file, site.line) for k, u in nodes if (site := system.sites.get(u)) is not None]


def with_lines(system: System, lines: Sequence[tuple[int, str, int]]) -> System:
    """A system that was read from text, with the lines that its nodes come from."""
    nodes = toposort(system.equations)
    return replace(system, sites={nodes[k]: Site(file, line) for k, file, line in lines})


def steps_of(s: Schedule) -> list[Any]:
    """A schedule as data: with the identity of a run it says which frames there are."""
    rows = None if s.marks is None else [s.marks.steps.tolist(), repr(s.marks.times.tolist())]
    return [s.steps, s.save_every, s.observe_every, s.hash_every, s.first, s.end, rows]


def check_travels(roots: Sequence[UOp]) -> None:
    """An error that names an operation of the user's: its rules are functions of this process."""
    own = next((u for u in toposort(roots) if u.op is Ops.CUSTOM), None)
    if own is not None:
        raise PlanError(
            f"on=: the operation `{own.arg}` of tp.op is a Python function, and cannot travel to other machines",
            fix="Write it with the functions of tinyphysics, or leave on= out.",
        )


def block(one: Run, here: slice) -> Block:
    """Some members of a run, numbered from 0, with the addresses of their random numbers."""
    i = one.given
    states = {name: v[here] for name, v in i.states.items()}
    given = Inputs(states, some(i.params, here), here.stop - here.start, i.is_ensemble)
    acts = [some(a.own, here) for a in one.acts]
    return Block(here.start, given, None if one.begun is None else begun_of(one.begun, here), acts)


def some(params: Mapping[str, Any], here: slice) -> dict[str, Any]:
    """Parameters of some members; those that are the same for all have one row."""
    return {name: v[here] if len(v) > 1 else v for name, v in params.items()}


def begun_of(c: Checkpoint, here: slice) -> Checkpoint:
    """The checkpoint of some members."""
    inside = [(row, k) for row, k in enumerate(c.stopped) if here.start <= k < here.stop]
    rows = [row for row, _ in inside]
    return replace(
        c,
        members=here.stop - here.start,
        params=some(c.params, here),
        start={name: v[here] for name, v in c.start.items()},
        registers={name: v[here] for name, v in c.registers.items()},
        hashes=[],
        stopped={k - here.start: c.stopped[k] for _, k in inside},
        last={name: v[rows] for name, v in c.last.items()},
    )
