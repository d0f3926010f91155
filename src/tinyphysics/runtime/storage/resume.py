"""May a run go on from a checkpoint, and when does it leave one?  What is given in the call has to agree with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tinyphysics.errors import StoreError
from tinyphysics.given import check_writable
from tinyphysics.runtime.state.digest import BITS, state_hash
from tinyphysics.runtime.state.encoding import Encoding, owner
from tinyphysics.runtime.state.ensemble import Inputs, inputs, own_of
from tinyphysics.runtime.state.record import Carried, Record
from tinyphysics.runtime.state.run import Checkpoint, Identity
from tinyphysics.runtime.state.schedule import Schedule
from tinyphysics.runtime.state.workers import copy_all
from tinyphysics.runtime.storage.checkpoint import read, write
from tinyphysics.system import SizedFamily, System
from tinyphysics.version import __version__


# --- going on ---------------------------------------------------------------------------------------
def as_given(c: Checkpoint) -> dict[str, Any]:
    """The initial states and the parameters as a user would give them."""
    params = {name: v if len(v) > 1 else v[0] for name, v in c.params.items()}
    return {name: v if c.is_ensemble else v[0] for name, v in c.start.items()} | params


def sizes_given(
    source: SizedFamily, c: Checkpoint | None, path: Path, given: Mapping[str, Any]
) -> dict[str, Any]:
    """What the sizes of a system can be read off."""
    if c is None:
        return dict(given)
    if c.run.system != source.name:
        raise StoreError(
            f"`{path}` is a checkpoint of `{c.run.system}`, not of `{source.name}`",
            fix="Continue it with the system of that run.",
        )
    return {**as_given(c), **given}


def check_program(
    c: Checkpoint, path: Path, system: System, program: str, is_of_its_loop: Callable[[str], bool]
) -> None:
    """Is it a checkpoint of this program?"""
    if c.run.program != program and is_of_its_loop(c.run.program):
        raise StoreError(
            f"`{path}` is a checkpoint of a loop over `{system.name}`, which now jumps by default",
            fix='Compile it with propagator="loop": that continues it, bit for bit.',
        )
    if c.run.program != program:
        other = f"`{c.run.system}`" if c.run.system != system.name else f"another form of `{system.name}`"
        raise StoreError(
            f"`{path}` is a checkpoint of {other}: its program is {c.run.program}, this one {program}",
            fix="Compile it with the method, order, precision, scale and sizes of that run.",
        )
    if c.run.bits != BITS:
        raise StoreError(
            f"`{path}` was written by version {c.version}, whose runs give different bits",
            fix=f"Continue with tinyphysics {c.version}, or run again.",
        )


def restored_inputs(
    system: System, c: Checkpoint, path: Path, given: Mapping[str, Any], e: Encoding
) -> Inputs:
    """The parameters of the checkpoint, and room for its states; an error where the call says something else."""
    told = dict(given)
    begun = as_given(c)
    start = {name: e.words(name, begun) for name in c.start if owner(name) == name}
    asked = inputs(system, {**{name: begun[name] for name in c.params}, **start, **told}, e)
    for name in told:
        if name in c.params:
            same = False
            if len(asked.params[name]) in (1, len(c.params[name])):
                same = np.array_equal(
                    np.broadcast_to(asked.params[name], c.params[name].shape), c.params[name]
                )
        else:
            words = {n: asked.states[n] for n in e.precision.names(name)}
            same = all(
                len(v) == c.members and state_hash({n: v if c.is_ensemble else v[0]}) == c.run.start[n]
                for n, v in words.items()
            )
        if not same:
            raise StoreError(
                f"`{name}` differs from the value that the run in `{path}` was started with",
                fix=f"Leave {name}= out: the checkpoint contains it.",
            )
    return Inputs(asked.states, dict(c.params), c.members, c.is_ensemble)


def agreed(option: str, value: Any, default: Any, kept: Any, path: Path) -> Any:
    """The value of the checkpoint; the call may leave it out or say the same."""
    if value == default or value == kept:
        return kept
    raise StoreError(
        f"{option}={value!r}, but the run in `{path}` has {option}={kept!r}",
        fix=f"Leave {option}= out, or pass {option}={kept!r}.",
    )


# --- leaving one behind -----------------------------------------------------------------------------
class Keeps(Protocol):
    """Takes the loop state of a run at a step."""

    def keep(self, at: Carried, record: Record) -> None: ...


@dataclass(frozen=True, eq=False)
class Keeper:
    """Writes the checkpoints of one run."""

    path: Path
    run: Identity
    given: Inputs
    start: Mapping[str, Any]  # the states at step 0
    acts: Sequence[Any] = ()  # as a checkpoint holds them
    across: Any = None

    def keep(self, at: Carried, record: Record) -> None:
        write(
            checkpoint_at(
                at, self.run, record.schedule, self.given, self.start, record.hashes, self.acts, self.across
            ),
            self.path,
        )


def checkpoint_at(
    at: Carried,
    run: Identity,
    s: Schedule,
    i: Inputs,
    start: Mapping[str, Any],
    hashes: Any,
    acts: Sequence[Any],
    across: Any = None,
) -> Checkpoint:
    """Of a run in this loop state that began with these states."""
    lost = at.frozen.values()
    last = {name: np.array([state[name] for _, state in lost]) for name in start if lost}
    stopped = {k: stop for k, (stop, _) in at.frozen.items()}
    every = s.save_every if s.told_every else None
    more: Any = {"registers": at.registers, "hashes": hashes, "stopped": stopped, "last": last, "acts": acts}
    more |= {"across": across, "memory": at.memory}
    own = i.members, i.is_ensemble, i.own
    return Checkpoint(run, __version__, at.step, every, s.hash_every, *own, start, **more)


def check_target(path: Path, resumed: Checkpoint | None) -> None:
    """Can checkpoints be written here, and would that destroy one of another run?"""
    if path.is_dir():
        raise StoreError(
            f"checkpoint={str(path)!r} is a directory", fix='Pass a file: checkpoint="run.checkpoint".'
        )
    if not path.parent.is_dir():
        raise StoreError(f"there is no directory `{path.parent}` for the checkpoint", fix="Create it first.")
    check_writable(path.parent, "checkpoint")
    if not path.exists():
        return
    there = read(path)  # an error if it is something else
    if resumed is None:
        raise StoreError(
            f"`{path}` is the checkpoint of a run that reached step {there.step:,}",
            fix=f"Continue it with resume={str(path)!r}, or remove it first.",
        )
    if there.run.key != resumed.run.key:
        raise StoreError(
            f"`{path}` is the checkpoint of another run, of `{there.run.system}` at step {there.step:,}",
            fix="Pass another checkpoint=, or remove it first.",
        )


def identity(
    system: System,
    program: str,
    dt: float,
    t0: float,
    seed: int,
    shown: Mapping[str, Any],
    params: Mapping[str, Any],
    acts: str = "",
) -> Identity:
    """Of a run that begins with these states, as the user sees them."""
    start = {name: state_hash({name: v}) for name, v in shown.items()}
    return Identity(system.name, program, BITS, dt, t0, seed, start, state_hash(own_of(params)), acts)


def joined(parts: Sequence[Mapping[str, Any]], threads: int = 1) -> dict[str, Any]:
    """The registers of all tiles, as of one."""
    if len(parts) == 1:
        return dict(parts[0])
    ends = np.cumsum([0, *(len(next(iter(p.values()), ())) for p in parts)]).tolist()
    out = {n: np.empty((ends[-1], *v.shape[1:]), v.dtype) for n, v in parts[0].items()}
    copy_all([(p[n], v[a:b]) for n, v in out.items() for p, a, b in zip(parts, ends, ends[1:])], threads)
    return out
