"""Where does an ensemble run?  `evolve(..., on=client)`, or `with tp.on(client):` around several calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Token
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any, Self

import numpy as np

from tinyphysics.cluster.ensemble import Pool, checked_share, execute
from tinyphysics.errors import BackendError
from tinyphysics.given import whole
from tinyphysics.runtime.stages.bind import Bound
from tinyphysics.runtime.stages.elsewhere import HERE, Took
from tinyphysics.runtime.stages.resolve import Resolved
from tinyphysics.runtime.state.run import Run


@dataclass(eq=False)
class Spread:
    """An ensemble in blocks on other machines; made by tp.on."""

    pool: Callable[[], Pool]
    blocks: int | None = None
    share: float = 0.0
    _token: list[Token[Any]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._token.append(HERE.set(self))
        return self

    def __exit__(self, *failed: object) -> None:
        HERE.reset(self._token.pop())

    def execute(
        self, r: Resolved, b: Bound, one: Run, tick: Callable[[int], None], verify: float | None
    ) -> Took:
        share = self.share if verify is None else checked_share(verify)
        told, done = execute(self.pool(), r, b, one, tick, self.blocks, share)
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


def on(where: Any, *, blocks: int | None = None, verify: float | None = None) -> Spread:
    """Returns machines for ensembles, to be passed as `on=`, or for `with tp.on(client):` around calls of evolve.

    `where` is a Dask client, a cluster or the address of a scheduler. `blocks` is how many parts an ensemble has; by default
    they are measured. `verify` is the share of the blocks that a second worker computes too; if they differ, this
    process decides which worker is wrong, names it and does without it.
    """
    if isinstance(where, Spread):
        return where
    count = None if blocks is None else whole("blocks", blocks, 1)
    return Spread(lambda: dask_pool(where), count, checked_share(verify))


def dask_pool(where: Any) -> Pool:
    try:
        pool: Callable[[Any], Pool] = import_module("tinyphysics.cluster.dask_pool").DaskPool
    except ModuleNotFoundError as error:
        if error.name not in ("dask", "distributed"):
            raise
        raise BackendError(
            "on= needs Dask, which is not installed", fix='pip install "tinyphysics[cluster]"'
        ) from error
    return pool(where)


def places(where: Any) -> Sequence[str]:
    """The workers that `on=where` would use."""
    pool = on(where).pool()
    return list(pool.workers())
