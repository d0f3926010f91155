"""The rows of a GPU with torch.compile: some steps in a kernel, and those again and again. Times are those of CUDA events."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gpu_rows as rows
import torch

HERE = "cuda" if torch.cuda.is_available() else "cpu"
UNROLLED = 20  # steps that are written out into one kernel
TYPES = {"float64": torch.float64, "float32": torch.float32}


def sent(x: Any, precision: str) -> Any:
    return torch.as_tensor(x).to(HERE, TYPES[precision])


def timed(row: str, precision: str, variant: str, s: rows.Sizes, run: Callable[[], Any]) -> None:
    """What `run` returns is its result; it begins anew at each call."""
    with torch.no_grad():
        out = run()

        def seconds() -> float:
            if HERE == "cpu":
                began = time.perf_counter()
                run()
                return time.perf_counter() - began
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
            run()
            events[1].record()
            events[1].synchronize()
            return events[0].elapsed_time(events[1]) / 1e3

        rows.tell(row, precision, variant, rows.median(seconds), s, out.cpu().numpy())


def leaping(force: Any, q: Any, p: Any, dt: float, n: int) -> Callable[[], Any]:
    """The positions after n steps; half kicks merged, the last one left out: it moves nothing."""

    @torch.compile
    def begin(q: Any, p: Any) -> Any:
        return p + dt / 2 * force(q)

    @torch.compile
    def steps(q: Any, p: Any) -> Any:
        for _ in range(UNROLLED):
            q = q + dt * p
            p = p + dt * force(q)
        return q, p

    def run() -> Any:
        x, v = q, begin(q, p)
        for _ in range(n // UNROLLED):
            x, v = steps(x, v)
        return x

    assert n % UNROLLED == 0
    return run


def pendulum(precision: str, s: rows.Sizes) -> None:
    q, p = (sent(x, precision) for x in rows.pendulums(s))
    run = leaping(lambda x: -torch.sin(x), q, p, rows.DT, s.steps)
    timed("pendulum", precision, f"{UNROLLED} steps in a kernel", s, run)


def henon_heiles(precision: str, s: rows.Sizes) -> None:
    x, y, u, v = (sent(r, precision) for r in rows.stars(s))
    dt = rows.DT

    def kick(x: Any, y: Any, u: Any, v: Any, h: float) -> Any:
        return u - h * (x * (1 + 2 * y)), v - h * (x * x + y * (1 - y))

    @torch.compile
    def begin(x: Any, y: Any, u: Any, v: Any) -> Any:
        return kick(x, y, u, v, dt / 2)

    @torch.compile
    def steps(x: Any, y: Any, u: Any, v: Any) -> Any:
        for _ in range(UNROLLED):
            x, y = x + dt * u, y + dt * v
            u, v = kick(x, y, u, v, dt)
        return x, y, u, v

    def run() -> Any:
        state = (x, y, *begin(x, y, u, v))
        for _ in range(s.steps // UNROLLED):
            state = steps(*state)
        return state[0]

    timed("henon_heiles", precision, f"{UNROLLED} steps in a kernel", s, run)


def gravity(precision: str, s: rows.Sizes) -> None:
    q, v, m = (sent(x, precision) for x in rows.bodies(s))
    q, v = q.T.contiguous(), v.T.contiguous()

    @torch.compile
    def force(q: Any) -> Any:
        d = [q[k][None, :] - q[k][:, None] for k in range(3)]
        r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + rows.SOFTENING**2
        f = m[None, :] * torch.rsqrt(r2) / r2
        return torch.stack([(f * x).sum(1) for x in d])

    def run() -> Any:
        x, w, h = q, v, rows.LEAP / 2
        for _ in range(s.leaps):
            w = w + h * force(x)
            x, h = x + rows.LEAP * w, rows.LEAP
        return x

    timed("gravity", precision, "all pairs in a reduction", s, run)


def d2q9(precision: str, s: rows.Sizes) -> None:
    start = sent(rows.populations(s), precision)

    @torch.compile
    def step(f: Any) -> Any:
        return torch.stack(
            rows.collided([torch.roll(f[k], (rows.CY[k], rows.CX[k]), (0, 1)) for k in range(9)], rows.OMEGA)
        )

    def run() -> Any:
        f = start
        for _ in range(s.updates):
            f = step(f)
        return f

    timed("d2q9", precision, "", s, run)


def first(precision: str, s: rows.Sizes) -> None:
    """Of a program that this process has not seen, with a context that is there."""
    q = torch.zeros(1024, device=HERE, dtype=TYPES[precision])

    def once(c: float) -> float:
        began = time.perf_counter()
        leaping(lambda x: -c * torch.sin(x), q, q + 1, rows.DT, 100)()
        if HERE == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    once(1.0)
    rows.say(
        row="first",
        precision=precision,
        variant="",
        value=min(once(1 + k / 8) for k in (1, 2)),
        unit="seconds",
    )


if __name__ == "__main__":
    asked = rows.arguments(__doc__)
    for row, precision in rows.ROWS:
        if row in globals() and asked.only in row:
            torch._dynamo.reset()  # or what a row compiled would count against the next one
            rows.attempt(row, precision, "", partial(globals()[row], precision, asked.sizes))
