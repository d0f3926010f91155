"""Which past does a gradient use, and what will that take?  Decided from the step, the number of steps and the memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tinyphysics.errors import InputError, PlanError
from tinyphysics.flows.adjoint import irreversible
from tinyphysics.given import choice, whole
from tinyphysics.pipeline import with_tangents
from tinyphysics.report import Row
from tinyphysics.runtime.measure.past import ANCHORS, PASTS, cost
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.step import SOLVES, SubFlow

MEMORY = 256 << 20  # bytes for loop states, if nothing is said
UNBOUNDED = 1 << 62
JUMP = "jump"  # of a loop that was deleted
TOLD = "gradient"  # where a simulation keeps what was decided last, for explain()


@dataclass(frozen=True)
class Past:
    """How the past is known, as it was decided, and what that takes."""

    kind: str
    snapshots: int  # loop states that are kept at a time
    why: str
    steps: int
    state: int  # bytes of a loop state
    room: int = UNBOUNDED  # bytes of them in memory; the others are in files
    before: int = 0  # steps of runs before those, in which a method chooses its steps

    @property
    def forward_steps(self) -> int:
        """The first run and what is run again; in floating point a stretch that misses its anchor adds to that."""
        if self.kind == JUMP:
            return 0
        again = 1 + cost(self.steps, self.snapshots) if self.kind == "checkpoint" else self.steps
        return self.before + again

    @property
    def bytes(self) -> int:
        return min(self.state * self.snapshots, max(self.room, self.state))

    @property
    def row(self) -> Row:
        took = f"{self.forward_steps:,} steps forward for {self.steps:,}, {self.bytes:,} bytes"
        return Row("gradient", f'past="{self.kind}"', f"{self.why}; {took}")


def is_reversible(setup: Setup) -> bool:
    """Can its steps be taken back?  Not where they ask for the time or draw random numbers."""
    known = setup.compiled.known
    return irreversible(with_tangents(setup.built)) is None and not known.timed and not known.draws


def check_past(past: Any) -> None:
    choice("past", past, PASTS)


def room_of(memory: Any) -> int:
    """Bytes for loop states."""
    return MEMORY if memory is None else whole("memory", memory, 1)


def snapshots_of(state: int, room: int, snapshots: Any, steps: int, none: bool = False) -> int:
    """How many loop states are kept: as asked for, or as many as fit; `none` may be kept without an error."""
    count = room // max(state, 1) if snapshots is None else whole("snapshots", snapshots, 1)
    if count < 1 and not none:
        raise InputError(
            f"memory={room} bytes is less than one loop state of this run, which has {state}",
            fix=f"Pass memory={state} or more.",
        )
    return max(1, min(count, max(steps, 1)))


def choose_past(setup: Setup, steps: int, state: int, past: Any, memory: Any, snapshots: Any) -> Past:
    """The past that was asked for, or the cheapest that fits; `state` is the size of a loop state, in bytes."""
    check_past(past)
    room = room_of(memory)
    if setup.compiled.jump is not None:
        snapshots_of(0, 1, snapshots, steps)  # refused or not: nothing is kept
        return Past(JUMP, 1, "the loop is deleted: gradients are jumps too", steps, state)
    count = snapshots_of(state, room, snapshots, steps, past == "reverse")
    exact, can = setup.goal.precision == "lattice", is_reversible(setup)
    if past == "reverse" and not can:
        raise PlanError(
            f'past="reverse": the steps of this run cannot be taken back: {obstacle(setup)}',
            fix='Pass past="checkpoint".',
        )
    kept = {"reverse": 2 if exact else ANCHORS + 1, "store": steps + 1, "checkpoint": count}
    if past != "auto":
        found, why = past, "as asked for"
    elif can:
        found = "reverse"
        why = "every step is taken back to the last bit" if exact else "every sub-flow has an inverse"
    elif (steps + 1) * state <= room:
        found, why = "store", f"{obstacle(setup)}, and all states fit in {room:,} bytes"
    else:
        found, why = "checkpoint", f"{obstacle(setup)}, and {count:,} states fit in {room:,} bytes"
    bound = room if found == "checkpoint" and memory is not None else UNBOUNDED
    return Past(found, kept[found], why, steps, state, bound)


def no_way_back(method: str, flow: SubFlow) -> str:
    """Why a part of a step has no inverse."""
    if SOLVES in flow.traits:
        return f"`{method}` solves equations in a step, and those of the way back are others"
    return f"`{method}` makes new states of old ones in a way that has no inverse in closed form"


def obstacle(setup: Setup) -> str:
    """Why the steps cannot be taken back."""
    step = with_tangents(setup.built)
    if (found := irreversible(step)) is not None:
        return no_way_back(step.name, found)
    return f"`{setup.system.name}` asks for the time, or draws random numbers"
