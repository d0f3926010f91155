"""How do several processes run one large system?  `on="mpi"` under mpiexec: each does its rows, and all have the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from tinyphysics.device.engines.loops import NestEngine
from tinyphysics.device.engines.ranks import RankEngine, Ranks
from tinyphysics.errors import BackendError, InputError, PlanError
from tinyphysics.ir import UOp
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.stages.bind import Bound
from tinyphysics.runtime.stages.elsewhere import Around, Left, Took
from tinyphysics.runtime.stages.execute import execute, observer_program
from tinyphysics.runtime.stages.resolve import Resolved
from tinyphysics.runtime.stages.run import identity_of
from tinyphysics.runtime.state.run import Run


class World(Ranks, Protocol):
    def agree(self, word: str) -> bool: ...


@dataclass(eq=False)
class OnRanks(Around):
    """One system on all processes that mpiexec has started; made by tp.on("mpi")."""

    ranks: Callable[[], World]
    ensembles = trials = False

    def for_trials(self) -> OnRanks:
        return self

    def check(self, r: Resolved, one: Run) -> None:
        """An error for what processes do not do together, before any of them waits for another."""
        reason, fix = "", "Leave on= out."
        if one.given.is_ensemble:
            reason, fix = "it cuts one system, and an ensemble was given", "Pass on=client for its members."
        elif r.request.verify is not None:
            reason, fix = "verify= compares blocks of an ensemble", "Leave verify= out."
        elif r.request.save is not None or r.request.checkpoint is not None:
            reason = "save= and checkpoint= write files of one process"
            fix = "Leave them out: every process has the result, and the first one can write it."
        elif one.jump is not None:
            reason, fix = (
                "the loop was deleted: this run jumps",
                'Compile it with propagator="loop", or leave on= out.',
            )
        elif one.adaptive or one.series is not None:
            reason, fix = (
                "its method chooses its own steps",
                'Compile it with method="leapfrog" or another fixed step.',
            )
        elif one.events or one.system.guards:
            reason = "it looks for events inside steps"
        elif one.begun is not None:
            reason, fix = (
                "resume= goes on with one process",
                "Start from a state: sim.evolve(**out.final, ...).",
            )
        elif one.acts:
            reason = "acts= change the state between two steps"
        if reason:
            raise PlanError(f"on='mpi' cannot be used here: {reason}", fix=fix)

    def execute(
        self, r: Resolved, b: Bound, one: Run, tick: Callable[[int], None], verify: float | None, left: Left
    ) -> Took:
        ranks = self.ranks()
        if not ranks.agree(f"{r.setup.compiled.known.program} {identity_of(r, one).key} {one.schedule}"):
            raise InputError(
                "on='mpi': the processes were given different systems, states or options",
                fix="Let each run the same lines, with random numbers from one seed: np.random.default_rng(0).",
            )
        sent, messages = ranks.sent, ranks.messages
        took = execute(
            replace(one, engine_by=partial(engine_of, ranks)), b.record, b.values, tick, poles=one.poles
        )
        told = {"ranks": ranks.size, "rank": ranks.rank}
        told |= {"bytes": ranks.sent - sent, "messages": ranks.messages - messages}
        return Took(*took, told=told)

    def estimate(self, sim: Any, steps: int, members: int, seconds: float) -> list[dict[str, Any]]:
        raise PlanError(
            "sim.estimate(on='mpi'): what processes gain depends on the machine between them",
            fix="Run some steps with 1, 2 and 4 of them, and compare.",
        )


def engine_of(ranks: Ranks, r: Run, values: Mapping[str, UOp]) -> RankEngine:
    """The engine of a process that does its part of a run."""
    seen = observer_program(r, values) if values else None
    engine = engine_for(r.target, r.program, seen, 1, r.loops)
    if not isinstance(engine, NestEngine):
        raise PlanError(
            f"on='mpi': `{r.system.name}` has no long loops that processes could share",
            fix="Leave on= out; the members of an ensemble run on many machines by on=client.",
        )
    return RankEngine.of(engine, ranks)


def mpi_ranks() -> World:
    try:
        from tinyphysics.cluster.mpi_ranks import MpiRanks
    except (ImportError, RuntimeError) as error:
        raise BackendError(
            f"on='mpi' needs mpi4py and an MPI library ({error})", fix='pip install "tinyphysics[mpi]"'
        ) from error
    return MpiRanks()
