"""Is a run done here, or on other machines?  What `on=` names does the steps; all that comes before and after stays here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, cast

from tinyphysics import up
from tinyphysics.errors import InputError
from tinyphysics.options import INSIDE
from tinyphysics.planner.conflicts import ON_A_GPU, Ask, check
from tinyphysics.runtime.stages.bind import Bound
from tinyphysics.runtime.stages.resolve import Resolved
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.windows import Windows
from tinyphysics.runtime.storage.resume import Keeper


@dataclass(frozen=True, eq=False)
class Took:
    """What a run took, wherever it was done."""

    record: Record
    launches: int
    compiling: float
    code: str  # "made" now, or from the "disk" or "memory"
    gaps: Any = None  # of the shadow energy, where it was watched elsewhere
    told: Mapping[str, Any] = field(default_factory=dict)  # of the machines


@dataclass(frozen=True, eq=False)
class Left:
    """What a run leaves on the disk of this machine: checkpoints, and frames in a store."""

    keeper: Keeper | None = None
    windows: Windows | None = None


def seen_elsewhere(one: Run, took: Took) -> Run:
    """A run whose watches know what those of other machines have seen."""
    if took.gaps is None:
        return one
    watches = tuple(w if w.gaps is None else replace(w, gaps=lambda: took.gaps) for w in one.watches)
    return replace(one, watches=watches)


class Elsewhere(Protocol):
    """Machines that do the steps of a run."""

    ensembles: bool  # do they take ensembles, or single runs?
    trials: bool  # are they for trial runs?

    def for_trials(self) -> Elsewhere:
        """The same machines for other runs: what is kept is of one run."""
        ...

    def check(self, r: Resolved, one: Run) -> None:
        """An error if they cannot do a run, before it leaves anything on a disk."""
        ...

    def execute(
        self, r: Resolved, b: Bound, one: Run, tick: Callable[[int], None], verify: float | None, left: Left
    ) -> Took: ...


HERE: ContextVar[Elsewhere | None] = ContextVar("on", default=None)  # of `with tp.on(client):`


@dataclass(eq=False)
class Around:
    """Machines for all runs inside a `with`."""

    _tokens: list[Token[Elsewhere | None]] = field(default_factory=list, init=False, repr=False)

    def __enter__(self) -> Self:
        self._tokens.append(HERE.set(cast(Elsewhere, self)))
        return self

    def __exit__(self, *failed: object) -> None:
        HERE.reset(self._tokens.pop())


@contextmanager
def trials(on: Any) -> Iterator[None]:
    """Trial runs of ensembles are done on these machines, or on those around; what they find does not depend on it."""
    found: Elsewhere | None = HERE.get() if on is None else up.elsewhere(on)
    if found is None or not found.ensembles:
        yield
        return
    token = HERE.set(found.for_trials())
    try:
        yield
    finally:
        HERE.reset(token)


def elsewhere(r: Resolved, one: Run) -> Elsewhere | None:
    """The machines that a run is done on; None: this one. A single run inside `with tp.on(client):` stays here."""
    asked = r.request.on
    if asked is None and r.request.verify is not None:
        raise InputError("verify= needs on=", fix="Pass on=client too, or leave verify= out.")
    around = HERE.get()
    if (
        not one.given.members
        or asked is None
        and (around is None or around.ensembles != one.given.is_ensemble)
    ):
        return None
    call = r.request
    if asked is None and (
        hasattr(call.save, "put") or INSIDE.get() and around is not None and not around.trials
    ):
        return None  # replays, and runs that a measurement makes: their systems do not travel
    check("on", Ask(
        {"on": asked if asked is not None else around,
         "checkpoint_every": None if one.across is not None else call.checkpoint_every}, r.setup.system,
        {ON_A_GPU: r.arrays is not None or r.lent is not None},
    ))  # fmt: skip
    found: Elsewhere | None = around if asked is None else up.elsewhere(asked)
    if found is not None:
        found.check(r, one)
    return found
