"""The rows of a GPU with backend="cuda": steps alone, state and kernels on the device. Times are those of CUDA events.

--fill FOLDER runs nothing: a driver that computes nothing stands in, and the PTX of every row is left in the folder, where
a machine without LLVM finds it by TINYPHYSICS_CACHE.
--backend llvm runs on this processor, to compare what comes out.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import gpu_rows as rows
import numpy as np

import tinyphysics as tp
from tinyphysics import plasma
from tinyphysics.device.cuda import driver as cuda
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.state.ensemble import inputs

FAST = {"math": "fast"}


@tp.hamiltonian
def swing(q, p):
    return p**2 / 2 - tp.cos(q)


@tp.hamiltonian
def star(q: tp.Vec[2], p: tp.Vec[2]):
    x, y = q
    return p @ p / 2 + (x * x + y * y) / 2 + x * x * y - y**3 / 3


@tp.hamiltonian
def pull(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"], eps: float = rows.SOFTENING):
    d = q[:, None] - q[None, :]
    r = np.sqrt((d**2).sum(-1) + eps**2)
    return ((p**2).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r)


@tp.hamiltonian
def atoms(q: tp.Array["n", 3], p: tp.Array["n", 3], L: float, rc: float = 2.5):
    s6 = 1 / tp.pair_distance2(q, box=L, cutoff=rc) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s6 * s6 - s6))


@tp.map
def stream_collide(f: tp.Array[9, "n", "n"], om: float = rows.OMEGA):
    return np.stack(rows.collided([np.roll(f[k], (rows.CY[k], rows.CX[k]), (0, 1)) for k in range(9)], om))


class Clock:
    """Seconds on the device, or of this thread where there is none."""

    def __init__(self, backend: str) -> None:
        self.timer = cuda.Timer() if backend == "cuda" else None

    def __call__(self, work: Callable[[], None]) -> float:
        if self.timer is None:
            began = time.thread_time()
            work()
            return time.thread_time() - began
        with self.timer:
            work()
        return self.timer.milliseconds / 1e3


class Ours:
    def __init__(self, backend: str, sizes: rows.Sizes, fill: bool) -> None:
        self.backend, self.sizes, self.fill = backend, sizes, fill

    def run(
        self,
        row: str,
        precision: str,
        variant: str,
        system: Any,
        start: Mapping[str, Any],
        steps: int,
        read: Any,
        **options: Any,
    ) -> None:
        """A variant of a row; one that cannot run says so and leaves the others alone."""
        work = partial(self.timed, row, precision, variant, system, start, steps, read, options)
        rows.attempt(row, precision, variant, work)

    def timed(
        self,
        row: str,
        precision: str,
        variant: str,
        system: Any,
        start: Mapping[str, Any],
        steps: int,
        read: Any,
        options: Mapping[str, Any],
    ) -> None:
        sim = tp.compile(system, backend=self.backend, precision=precision, **options)
        given = inputs(sim.system, dict(start), sim.compiled.encoding)
        loops = sim.compiled.in_loops(given.members)
        engine = engine_for(sim.target, sim.tpir, None, None, loops)
        first = engine.start(given.states, given.params, given.members, options.get("dt", 1.0), 0.0)
        m = engine.snapshot(first) if not loops else first
        engine.advance(m, steps)
        out = read(engine.synchronised(m))
        if self.fill:
            return
        clock = Clock(self.backend)

        def seconds() -> float:
            nonlocal m
            m = engine.snapshot(first) if not loops else m
            return clock(lambda: engine.advance(m, steps))

        rows.tell(row, precision, variant, rows.median(seconds), self.sizes, out)

    def pendulum(self, precision: str) -> None:
        q, p = rows.pendulums(self.sizes) if not self.fill else np.zeros((2, self.sizes.systems))
        for variant, more in (("exact", {}), ("fast", FAST)):
            self.run(
                "pendulum",
                precision,
                variant,
                swing,
                {"q": q, "p": p},
                self.sizes.steps,
                lambda out: out["q"],
                dt=rows.DT,
                **more,
            )

    def henon_heiles(self, precision: str) -> None:
        x = rows.stars(self.sizes) if not self.fill else np.zeros((4, self.sizes.systems))
        start = {"q": x[:2].T.copy(), "p": x[2:].T.copy()}
        for variant, more in (
            ("exact", {"scale": "off"}),
            ("exact, scaled", {"scale": "auto"}),
            ("fast", FAST),
        ):
            self.run(
                "henon_heiles",
                precision,
                variant,
                star,
                start,
                self.sizes.steps,
                lambda out: out["q"][:, 0],
                dt=rows.DT,
                **more,
            )

    def dipole(self, precision: str) -> None:
        """Charges in the field of a dipole, by Boris' step."""
        x = rows.charges(self.sizes) if not self.fill else np.ones((6, self.sizes.systems))
        start = {"q": x[:3].T.copy(), "p": x[3:].T.copy(), "charge": 1.0, "mass": 1.0}
        for variant, more in (("exact", {}), ("fast", FAST)):
            self.run(
                "dipole",
                precision,
                variant,
                plasma.System(B_field=plasma.dipole(60.0)),
                start,
                self.sizes.steps,
                lambda out: out["q"][:, 0],
                dt=rows.DT,
                **more,
            )

    def gravity(self, precision: str) -> None:
        q, v, m = rows.bodies(self.sizes)
        start = {"q": q, "p": m[:, None] * v, "m": m}
        for variant, more in (("exact", {}), ("fast", FAST)):
            self.run(
                "gravity",
                precision,
                variant,
                pull,
                start,
                self.sizes.leaps,
                lambda out: out["q"][0],
                dt=rows.LEAP,
                sizes={"n": self.sizes.bodies},
                **more,
            )

    def d2q9(self, precision: str) -> None:
        n = self.sizes.side
        f = rows.populations(self.sizes) if not self.fill else np.ones((9, n, n), np.float32)
        self.run(
            "d2q9",
            precision,
            "exact",
            stream_collide,
            {"f": f},
            self.sizes.updates,
            lambda out: out["f"][0],
            sizes={"n": n},
        )

    def liquid(self, precision: str) -> None:
        """Atoms in a box near the triple point, lists of neighbours included; chaotic, so that nothing is compared."""
        cells, steps = (63, 100) if self.sizes != rows.SMALL else (6, 10)  # 1,000,188 atoms
        edge = (4 / 0.8442) ** (1 / 3)
        corner = np.stack(np.meshgrid(*[np.arange(cells)] * 3, indexing="ij"), -1).reshape(-1, 1, 3)
        q = ((corner + np.array([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])) * edge).reshape(
            -1, 3
        )
        p = 1.2 * (rows.uniform(1, -1.0, 1.0, q.size) * 3**0.5).reshape(q.shape)
        given = {"q": q, "p": p - p.mean(0), "L": cells * edge}
        sim = tp.compile(atoms, backend=self.backend, precision=precision, dt=0.004, sizes={"n": len(q)})
        sim.evolve(steps=steps, progress=False, **given, frames=2)
        if self.fill:
            return
        out = sim.evolve(
            steps=steps, progress=False, **given, frames=2
        )  # compiled and melted: by the host's clock, all included
        value = len(q) * steps / out.metrics["seconds"]["run"] * 1e-6
        rows.say(row="liquid", precision=precision, variant="exact", value=value, unit=rows.UNITS["liquid"])

    def first(self, precision: str) -> None:
        """A system that this process has not seen, in a context that is there, as a user runs it: compile and evolve."""
        kept = Path(os.environ.get("TINYPHYSICS_CACHE", ""))

        def once(k: int) -> float:
            began = time.perf_counter()
            sim = tp.compile(tp.hamiltonian(named(k)), dt=rows.DT, backend=self.backend)
            sim.evolve(q=np.zeros(1024), p=np.ones(1024), steps=100, progress=False, frames=2)
            return time.perf_counter() - began

        once(0)  # the tools that all runs share
        if self.fill:
            for k in range(1, 4):
                once(k)
            return
        with tempfile.TemporaryDirectory() as folder:
            here = importlib.util.find_spec("llvmlite") is not None
            for path in kept.glob("*.ptx") if kept.is_dir() and not here else ():
                shutil.copyfile(path, Path(folder, path.name))
            os.environ["TINYPHYSICS_CACHE"] = folder
            cold = min(once(k) for k in range(1, 4))
            engine_for.cache_clear()
            known = min(once(k) for k in range(1, 4))
        os.environ["TINYPHYSICS_CACHE"] = str(kept)
        words = "all made anew" if here else "PTX kept, assembled by the driver"
        rows.say(row="first", precision=precision, variant=words, value=cold, unit="seconds")
        rows.say(row="first", precision=precision, variant="machine code kept", value=known, unit="seconds")


def named(k: int) -> Any:
    space: dict[str, Any] = {"tp": tp}
    exec(f"def swing{k}(q, p):\n    return p**2/2 - {1 + k / 8}*tp.cos(q)\n", space)
    return space[f"swing{k}"]


def main() -> None:
    asked = rows.arguments(__doc__, ("--backend", {"default": "cuda"}), ("--fill", {"metavar": "FOLDER"}))
    ours = Ours(asked.backend, asked.sizes, bool(asked.fill))
    with filling(asked.fill) if asked.fill else contextlib.nullcontext():
        for row, precision in rows.ROWS:
            if asked.only in row:
                rows.attempt(row, precision, "exact", partial(getattr(ours, row), precision))


@contextlib.contextmanager
def filling(folder: str) -> Iterator[None]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
    from gpu_bundle import kept_in
    from gpu_record import recorder

    with kept_in(Path(folder)), recorder():
        yield


if __name__ == "__main__":
    main()
