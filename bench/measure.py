"""What does a contender cost?  CPU time of steps, and of compiling and running for the first time."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from peers import PEERS, module_of
from workloads import Contender, c


@dataclass(frozen=True)
class Row:
    workload: str
    unit: str
    cost: Mapping[str, float | None]  # None: not installed, or the row makes no sense for it
    away: Mapping[str, float] = field(default_factory=dict)  # largest difference from the C by hand
    settings: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)  # the least that the ports of this core allow

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def spent(f: Contender) -> float:
    """CPU seconds of this thread, or of the process where a contender works on threads of its own."""
    thread, process = time.thread_time(), time.process_time()
    f()
    thread, process = time.thread_time() - thread, time.process_time() - process
    return thread if process < 1.05 * thread else process


def positions(f: Contender) -> Any:
    """What it returns, or what the function that it returns reads."""
    found = f()
    return found() if callable(found) else found


def race(
    workload: str,
    rows: Mapping[str, Contender | None],
    repeat: int,
    work: float,
    compared: int,
    works: Mapping[str, float] | None = None,
    settings: Mapping[str, str] | None = None,
    limits: Mapping[str, float] | None = None,
    unit: str = "",
) -> Row:
    """The smallest time of each, repetitions interleaved so that all see the same machine."""
    there = {name: f for name, f in rows.items() if f is not None}
    last = {
        name: np.ravel(positions(f))[:compared] for name, f in there.items()
    }  # what compiles at the first call does now
    reference = last["C by hand"]
    away = {name: float(np.abs(q - reference[: q.size]).max()) for name, q in last.items()}
    best = dict.fromkeys(there, float("inf"))
    for _ in range(repeat):
        for name, f in there.items():
            best[name] = min(best[name], spent(f))
    cost = {name: 1e9 * best[name] / (works or {}).get(name, work) if name in best else None for name in rows}
    usual = "ns per member and unit of time" if settings else "ns per member and step"
    return Row(workload, unit or usual, cost, away, settings or {}, limits or {})


def cycle(clock_chain: Any) -> float:
    """Nanoseconds of one, at the clock that this core runs at now."""
    n = 4_000_000
    run = c(clock_chain, (np.zeros(1),), n)
    return 1e9 * min(spent(run) for _ in range(5)) / (24 * n)


# --- starting up ------------------------------------------------------------------------------
OURS = """
import numpy as np, tinyphysics as tp
H = "def pendulum(q, p):\\n    return p**2/2 - tp.cos(q)*{c}\\n"
def once(c):
    space = {"tp": tp}
    exec(H.format(c=c), space)
    tp.compile(tp.hamiltonian(space["pendulum"]), dt=0.01).evolve(q=np.zeros(64), p=np.ones(64), steps=1, threads=1)
"""
TIMED = """
import time
def spent(c):
    began = time.process_time()
    once(c)
    return (time.process_time() - began) * 1e3
once(1.0)
print(min(spent(1 + k / 8) for k in range(1, 6)), min(spent(1.125) for _ in range(5)))
"""
IMPORT = "import time; t = time.process_time(); import {}; print((time.process_time() - t) * 1e3)"


def fresh(code: str) -> list[float]:
    """The numbers that code prints in a process of its own, where all caches on disk are empty."""
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {
            "TINYPHYSICS_CACHE": folder,
            "XDG_CACHE_HOME": folder,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
    return [float(word) for word in done.stdout.split()]


def start_up() -> list[Row]:
    """Compiling and running a system that the (warm) process has not seen; importing in a new process."""
    new, known = fresh(OURS + TIMED)
    first: dict[str, float | None] = {"tinyphysics": new, "tinyphysics, from its cache": known}
    imports: dict[str, float | None] = {
        "tinyphysics": min(fresh(IMPORT.format("tinyphysics"))[0] for _ in range(3))
    }
    for peer in PEERS:
        code = getattr(module_of(peer), "FIRST", None)
        first[peer] = fresh(code + TIMED)[0] if code else None
        there = module_of(peer) is not None
        imports[peer] = min(fresh(IMPORT.format(PEERS[peer]))[0] for _ in range(3)) if there else None
    return [Row("compile and first run, pendulum", "CPU ms", first), Row("import", "CPU ms", imports)]
