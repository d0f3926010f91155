"""Where does an ensemble run?  `evolve(..., on=client)`, or `with tp.on(client):` around several calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.cluster.ensemble import Pool, checked_share, execute
from tinyphysics.cluster.forecast import forecast
from tinyphysics.cluster.mpi import OnRanks, mpi_ranks
from tinyphysics.cluster.together import run_together
from tinyphysics.errors import BackendError, InputError, PlanError
from tinyphysics.given import path, shown, whole
from tinyphysics.runtime.stages.bind import Bound
from tinyphysics.runtime.stages.elsewhere import Around, Left, Took
from tinyphysics.runtime.stages.resolve import Resolved
from tinyphysics.runtime.state.run import Run

NOTHING = (type(None), bool, int, float, list, tuple, dict)  # no machines: Dask would start workers for some


@dataclass(eq=False)
class Spread(Around):
    """An ensemble in blocks on other machines; made by tp.on."""

    pool: Callable[[], Pool]
    blocks: int | None = None
    share: float = 0.0
    keep: Path | None = None
    ensembles = True
    trials: bool = False

    def for_trials(self) -> Spread:
        return replace(self, blocks=None, share=0.0, keep=None, trials=True)

    def check(self, r: Resolved, one: Run) -> None:
        """Whatever else a run needs can be had."""

    def execute(
        self, r: Resolved, b: Bound, one: Run, tick: Callable[[int], None], verify: float | None, left: Left
    ) -> Took:
        share = self.share if verify is None else checked_share(verify)
        if one.across is not None:
            about, took = run_together(self.pool, r, b, one, tick, self.blocks, share, left)
            return Took(*took, told=asdict(about))
        told, done = execute(self.pool, r, b, one, tick, self.blocks, share, self.keep, left)
        code = next((c for c in ("made", "disk") if any(d.code == c for d in done)), "memory")
        gaps = [d.gaps for d in done if d.gaps is not None]
        return Took(
            b.record,
            sum(d.launches for d in done),
            max((d.compiling for d in done), default=0.0),
            code,
            None if len(gaps) != len(done) or not gaps else tuple(np.concatenate(v) for v in zip(*gaps)),
            asdict(told),
        )

    def estimate(self, sim: Any, steps: int, members: int, seconds: float) -> list[dict[str, Any]]:
        """What a run would take on more and more workers."""
        return forecast(sim, self.pool, Spread, steps, members, seconds)


def on(
    where: Any, *, blocks: int | None = None, verify: float | None = None, keep: Any = None
) -> Spread | OnRanks:
    """Returns machines for ensembles, to be passed as `on=`, or for `with tp.on(client):` around calls of evolve.

    `where` is a Dask client, a cluster or the address of a scheduler; or "mpi", for one large system on the processes that
    mpiexec has started. `blocks` is how many parts an ensemble has; by default
    they are measured. `verify` is the share of the blocks that a second worker computes too; if they differ, this
    process decides which worker is wrong, names it and does without it. `keep` is a folder into which every block is written
    when it is done: the same call with the same folder goes on from there, after this process died, too.
    """
    if isinstance(where, Spread):
        return where
    if isinstance(where, OnRanks):
        return where
    if isinstance(where, str) and where == "mpi":
        for name, value in (("blocks", blocks), ("verify", verify), ("keep", keep)):
            if value is not None:
                raise PlanError(
                    f"tp.on('mpi'): {name}= is for the members of an ensemble", fix=f"Leave {name}= out."
                )
        return OnRanks(mpi_ranks)
    if isinstance(where, str) and "://" not in where or isinstance(where, NOTHING):
        raise InputError(
            f"on={shown(where)} is neither a Dask client, nor a cluster, nor an address",
            fix="Pass on=client, or on='tcp://127.0.0.1:8786'; a GPU is chosen by backend='gpu' in compile.",
        )
    count = None if blocks is None else whole("blocks", blocks, 1)
    folder = None if keep is None else path("keep", keep, "run.blocks")
    return Spread(lambda: dask_pool(where), count, checked_share(verify), folder)


def dask_pool(where: Any) -> Pool:
    try:
        from tinyphysics.cluster.dask_pool import DaskPool
    except ModuleNotFoundError as error:
        if error.name not in ("dask", "distributed"):
            raise
        raise BackendError(
            "on= needs Dask, which is not installed", fix='pip install "tinyphysics[cluster]"'
        ) from error
    return DaskPool(where)
