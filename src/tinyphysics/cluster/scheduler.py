"""What would a cluster do?  An event simulation of workers that get their blocks from one scheduler, one after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.given import number, whole
from tinyphysics.options import heeds

RESTART = 10.0  # seconds until a worker that died is there again
MOST = 50_000_000  # blocks


@dataclass(frozen=True)
class Prediction:
    """What a run would take."""

    seconds: float  # from the first block to the last
    efficiency: float  # work over the time of all workers
    idle_tail: float  # share of the run in which some worker had nothing left to do
    scheduler: float  # share of the run in which the scheduler was busy
    deaths: int  # of workers, with a block in hand


@heeds("simulate", "tp.cluster.simulate(workers=10_000, blocks=1_000_000, seconds=10.0)")
def simulate(
    *,
    workers: int,
    blocks: int,
    seconds: float,
    scheduler: float = 1e-3,
    spread: float = 0.2,
    mtbf: float | None = None,
    seed: int = 0,
) -> Prediction:
    """Predicts how long so many blocks take on so many workers with one scheduler.

    A block takes `seconds` on average; block times are lognormal with the relative standard deviation `spread`. The
    scheduler needs `scheduler` seconds to hand out a block, and hands out one at a time. A worker dies every `mtbf`
    seconds on average, loses its block, and is there again after ten seconds.
    """
    w, left = whole("workers", workers, 1), whole("blocks", blocks, 1)
    mean, cost = positive("seconds", seconds), number("scheduler", scheduler, "1e-3")
    wide = number("spread", spread, "0.2")
    if cost < 0 or wide < 0:
        raise InputError("scheduler= and spread= are not negative", fix="Pass scheduler=1e-3, spread=0.2.")
    if left > MOST:
        raise InputError(f"blocks={blocks:,} are more than {MOST:,}", fix="Pass fewer and longer blocks.")
    rate = 0.0 if mtbf is None else 1.0 / positive("mtbf", mtbf)
    sigma = math.sqrt(math.log1p(wide**2))
    rng = np.random.Generator(np.random.PCG64(seed))
    asks = np.zeros(w)  # when each worker wants its next block
    free, work, deaths = 0.0, 0.0, 0
    done = np.zeros(0)
    while left:
        asks.sort()
        n = min(left, len(asks))
        takes = mean * rng.lognormal(-(sigma**2) / 2, sigma, n)
        begins = handed_out(asks[:n], free, cost)
        fails = rng.exponential(1 / rate, n) if rate else np.full(n, np.inf)
        ends = begins + np.minimum(takes, fails)
        # those who ask before anyone of these is ready again are in the right order
        sure = int(np.searchsorted(asks[:n], ends.min(), "right")) or 1
        died = fails[:sure] < takes[:sure]
        free = float(begins[sure - 1])
        work += float(takes[:sure][~died].sum())
        left, deaths = left - sure + int(died.sum()), deaths + int(died.sum())
        done = ends[:sure]
        asks = np.concatenate([asks[sure:], done + np.where(died, RESTART, 0.0)])
    last = float(asks.max())
    return Prediction(
        last,
        work / (last * w),
        float((last - asks.min()) / last),
        min(1.0, cost * (blocks + deaths) / last),
        deaths,
    )


def handed_out(asks: Any, free: float, cost: float) -> Any:
    """When each of these, in order, has its block: begin_k = max(begin_{k-1}, ask_k) + cost."""
    own = cost * np.arange(1, len(asks) + 1)
    return own + np.maximum(free, np.maximum.accumulate(asks - own + cost))


def positive(name: str, value: Any) -> float:
    out = number(name, value, "10.0")
    if not out > 0:
        raise InputError(f"{name}={value!r} is not above zero", fix=f"Pass {name}=10.0.")
    return float(out)
