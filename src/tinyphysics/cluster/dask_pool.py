"""How are blocks run by Dask?  This file alone imports `distributed`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import distributed
from distributed.scheduler import KilledWorker

from tinyphysics.cluster.ensemble import Answer
from tinyphysics.cluster.parcel import Block, Parcel
from tinyphysics.cluster.worker import Done, run_block
from tinyphysics.errors import BackendError, InputError, TinyPhysicsError

PATIENCE = 30.0  # seconds until there is a worker
LOST = (TimeoutError, OSError, distributed.client.FutureCancelledError)


def on_worker(parcel: Parcel, block: Block) -> tuple[str, Done | str]:
    """Who ran a block, and what became of it, or why it cannot."""
    address = distributed.get_worker().address
    try:
        return address, run_block(parcel, block)
    except BackendError as error:
        return address, error.what


def as_it_is(parcel: Parcel) -> Parcel:
    return parcel


def client_of(on: Any) -> tuple[distributed.Client, bool]:
    """(a client, is it ours to close?) of a client, a cluster or an address."""
    if isinstance(on, distributed.Client):
        if on.status != "running":
            raise InputError(
                "on=: this Dask client is closed", fix="Make another: distributed.Client(address)."
            )
        return on, False
    try:
        return distributed.Client(on, set_as_default=False, timeout=10), True
    except (OSError, TypeError, ValueError) as error:
        raise BackendError(
            f"on={on!r}: no Dask scheduler answers there ({error})",
            fix="Pass a Client, a cluster, or the address of a scheduler: on='tcp://127.0.0.1:8786'.",
        ) from error


class DaskPool:
    """The workers of a Dask scheduler."""

    def __init__(self, on: Any) -> None:
        self.client, self.own = client_of(on)
        self.name = f"the cluster at {self.client.scheduler.address}"
        self.parcel: Any = None
        self.numbers: dict[Any, int] = {}
        self.open: Any = None
        self.tries = 0

    @property
    def dashboard(self) -> str:
        return str(self.client.dashboard_link)

    def workers(self) -> Sequence[str]:
        try:
            self.client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            return []
        return sorted(self.client.scheduler_info(n_workers=-1)["workers"])

    def slots(self) -> int:
        return sum(w["nthreads"] for w in self.client.scheduler_info(n_workers=-1)["workers"].values())

    def busy(self) -> float:
        return float(self.client.run_on_scheduler(time.thread_time))  # its loop is one thread

    def send(self, parcel: Parcel) -> None:
        # a task, not scattered: what was scattered is lost with its worker, and a task is computed again
        self.parcel = self.client.submit(as_it_is, parcel, key=f"tinyphysics-{id(self):x}-parcel", pure=False)

    def submit(self, number: int, block: Block, only: Sequence[str] = ()) -> None:
        self.tries += 1
        future = self.client.submit(
            on_worker, self.parcel, block, key=f"tinyphysics-{id(self):x}-{number}-{self.tries}", pure=False,
            workers=list(only) or None, allow_other_workers=False,
        )  # fmt: skip
        self.numbers[future.key] = number
        if self.open is None:
            self.open = distributed.as_completed([future], raise_errors=False, loop=self.client.loop)
        else:
            self.open.add(future)

    def answers(self) -> Iterator[Answer]:
        for future in self.open or ():
            number = self.numbers.pop(future.key)
            try:
                worker, done = future.result()
            except KilledWorker as error:
                yield Answer(
                    number,
                    "",
                    None,
                    f"the workers that had this block died ({error.allowed_failures + 1} times)",
                )
            except TinyPhysicsError:
                raise
            except LOST as error:
                raise BackendError(
                    f"{self.name} is lost: its scheduler does not answer any more ({type(error).__name__})",
                    fix="Start it again: with checkpoint= or tp.on(..., keep=) it goes on with the blocks that are done.",
                ) from error
            else:
                if isinstance(done, str):
                    yield Answer(number, worker, None, refused=done)
                else:
                    yield Answer(number, worker, done)
            future.release()

    def retire(self, worker: str) -> None:
        self.client.retire_workers([worker], close_workers=True)

    def stop(self) -> None:
        """Nothing that was submitted goes on."""
        if self.open is not None:
            self.open.clear()
        self.open, self.parcel = None, None
        if self.own:
            self.client.close()
