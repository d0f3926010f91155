"""How fast are array systems?  The rows of gravity, a chain, a fluid and waves; large ones, and on threads."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import array_systems as a
import numpy as np
from measure import Row, race
from workloads import Contender

Peers = Callable[..., dict[str, Contender | None]]
PAIRS, SITES = "ns per pair and step", "ns per site and step"
LEAP = 1e-3


def gravity(repeat: int, strict: Any, fast: Any, peers: Peers) -> Row:
    q, v, m = a.bodies(a.BODIES)
    n, steps = a.BODIES, 2
    state, rest = (q.T, v.T, np.zeros((3, n))), (a.at_lines(m), n, a.SOFTENING**2)
    read = lambda x: x.reshape(3, n).T  # noqa: E731
    rows = {
        "tinyphysics": bodies_of(n, 1, steps),
        "C by hand": a.leaping(strict.gravity_tiles, state, rest, LEAP, steps, read),
        "gcc fast-math, third law": a.leaping(fast.gravity_third, state, rest, LEAP, steps, read),
        "gcc fast-math, all pairs": a.leaping(fast.gravity_plain, state, rest, LEAP, steps, read),
        **peers("gravity", q, v, m, a.SOFTENING, LEAP, steps),
    }
    return race(
        f"gravity of {n:,} bodies, softened", rows, repeat, steps * n * (n - 1) / 2, q.size, unit=PAIRS
    )


def bodies_of(n: int, threads: int, steps: int) -> Any:
    q, v, m = a.bodies(n)
    state, params = {"q": q, "p": m[:, None] * v}, {"m": m, "eps": a.SOFTENING}
    return a.advancing(a.engine_of(a.gravity, n, threads, LEAP), state, steps, params, LEAP)


def chain(repeat: int, strict: Any, fast: Any, peers: Peers) -> Row:
    q, p = a.displaced(a.CHAIN)
    dt, steps = 0.05, 20_000
    c = lambda f: a.leaping(f, (q, p), (a.ALPHA,), dt, steps, lambda x: x)  # noqa: E731
    rows = {
        "tinyphysics": chain_of(a.CHAIN, 1, steps),
        "C by hand": c(strict.chain_shifts),
        "C, a stretch of chain in each lane": c(strict.chain_stretches),
        "C, plain loops": c(strict.chain_plain),
        "gcc fast-math, plain loops": c(fast.chain_plain),
        **peers("chain", q, p, a.ALPHA, dt, steps),
    }
    # after a thousand steps roundings have grown: 64 particles are not integrable
    return race(f"FPUT-alpha chain of {a.CHAIN}", rows, repeat, steps * a.CHAIN, q.size, unit=SITES)


def chain_of(n: int, threads: int, steps: int) -> Any:
    q, p = a.displaced(n)
    return a.advancing(
        a.engine_of(a.chain, n, threads, 0.05), {"q": q, "p": p}, steps, {"alpha": a.ALPHA}, 0.05
    )


def fluid(repeat: int, strict: Any, fast: Any, peers: Peers) -> Row:
    f = a.populations(a.FLUID)
    steps, params, back = 2, {"om": a.OMEGA}, lambda f: a.streamed(f, -1)
    rows = {
        "tinyphysics": a.advancing(
            a.engine_of(a.stream_collide, a.FLUID), {"f": f}, steps, params, read=lambda out: out["f"][0]
        ),
        "tinyphysics, collide then stream": a.advancing(
            a.engine_of(a.collide_stream, a.FLUID),
            {"f": a.streamed(f)},
            steps,
            params,
            read=lambda out: back(out["f"][0]),
        ),
        "C by hand": a.flowing(strict.fluid_vectors, f, 2, steps),
        "C, stores past the caches": a.flowing(strict.fluid_streams, f, 2, steps),
        "C, one lattice in place": a.flowing(strict.fluid_in_place, a.streamed(f), 1, steps, back),
        "C, plain loops": a.flowing(strict.fluid_plain, f, 2, steps),
        "gcc fast-math, plain loops": a.flowing(fast.fluid_plain, f, 2, steps),
        **peers("fluid", f, a.OMEGA, steps),
    }
    row = race(f"D2Q9 fluid, {a.FLUID:,} x {a.FLUID:,}", rows, repeat, steps * a.FLUID**2, f.size, unit=SITES)
    # a store fetches its line first, unless it goes past the caches; in place the line is there
    moved = {
        "C by hand": 216,
        "C, stores past the caches": 144,
        "C, one lattice in place": 144,
        "tinyphysics": 216,
    }
    return with_bandwidth(row, moved)


def wave(repeat: int, strict: Any, fast: Any, peers: Peers) -> Row:
    n, dt, steps = a.SHEET, 0.1, 4
    q, p = a.displaced(n, n)
    c = lambda f: a.leaping(f, (q, p), (n, n), dt, steps, lambda x: x)  # noqa: E731
    rows = {
        "tinyphysics": a.advancing(a.engine_of(a.waves, n, dt=dt), {"q": q, "p": p}, steps, {}, dt),
        "C by hand": c(strict.wave_rows),
        "C, plain loops": c(strict.wave_plain),
        "gcc fast-math, plain loops": c(fast.wave_plain),
        **peers("wave", q, p, dt, steps),
    }
    row = race(f"wave equation, {n:,} x {n:,}", rows, repeat, steps * n * n, q.size, unit=SITES)
    return with_bandwidth(row, {"tinyphysics": 32, "C by hand": 32, "gcc fast-math, plain loops": 48})


def with_bandwidth(row: Row, moved: dict[str, int]) -> Row:
    """What a contender moves between caches and memory, in bytes a site, as bandwidth."""
    return replace(
        row, settings={name: f"{b} B: {b / (row.cost[name] or np.inf):.1f} GB/s" for name, b in moved.items()}
    )


def large(repeat: int, *_: Any) -> Row:
    """A chain of a million and 65,536 bodies beside what they cost when small, and the memory of both."""
    pairs = {n: n * (n - 1) / 2 for n in (a.BODIES, a.MANY_BODIES)}
    runs = {
        f"chain of {a.CHAIN}": (chain_of(a.CHAIN, 1, 20_000), 20_000 * a.CHAIN, 16 * a.CHAIN),
        f"chain of {a.LONG_CHAIN:,}": (chain_of(a.LONG_CHAIN, 1, 4), 4 * a.LONG_CHAIN, 16 * a.LONG_CHAIN),
        f"gravity, {a.BODIES:,} bodies": (bodies_of(a.BODIES, 1, 2), 2 * pairs[a.BODIES], 56 * a.BODIES),
        f"gravity, {a.MANY_BODIES:,} bodies": (
            bodies_of(a.MANY_BODIES, 1, 1),
            pairs[a.MANY_BODIES],
            56 * a.MANY_BODIES,
        ),
    }
    cost: dict[str, float | None] = {}
    settings = {}
    for name, (run, work, state) in runs.items():
        run()
        cost[name] = 1e9 * min(timed(run) for _ in range(repeat)) / work
        settings[name] = f"memory {a.bytes_of(run) / state:.1f} x state"
    return Row("large, ours alone", "ns per site or pair and step", cost, settings=settings)


def timed(run: Contender) -> float:
    began = time.thread_time()
    run()
    return time.thread_time() - began


def threads(repeat: int, *_: Any) -> Row:
    """Seconds by the clock of gravity on one and two threads, and the bits with 1, 2, 3 and 7."""
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    runs = {k: bodies_of(a.BODIES, k, 2) for k in (1, 2, 3, 7)}
    bits = {k: hashlib.sha256(run()().tobytes()).hexdigest()[:12] for k, run in runs.items()}
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeat):
        for k, run in runs.items():
            began = time.perf_counter()
            run()
            best[k] = min(best[k], time.perf_counter() - began)
    os.sched_setaffinity(0, mine)
    cost = {f"{k} threads": 1e9 * best[k] / (a.BODIES * (a.BODIES - 1)) for k in runs}
    settings = {f"{k} threads": f"{best[1] / best[k]:.2f} x as fast, bits {bits[k]}" for k in runs}
    assert len(set(bits.values())) == 1, bits
    return Row(f"gravity of {a.BODIES:,} on threads", "ns by the clock", cost, settings=settings)


ROWS = (gravity, chain, fluid, wave, large, threads)
