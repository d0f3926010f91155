"""Do all backends give the same bits?  And does a map do what its text says in Python?"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import numpy as np

import tinyphysics as tp
from attack.case import Case
from attack.findings import Tally
from attack.pace import slowness
from attack.plain import understood
from attack.subject import Subject, built

HOSTS = ("python", "numpy", "llvm", "c")
# CPU seconds of the run in Python, beyond which a backend is left out: `numpy` may take ten times as long, the
# interpreter of PTX thirty times, and both do not end before the slowest member does
PATIENCE = {"numpy": 2.0, "cuda": 0.6}
CONTRACT = ("float64", "dd", "lattice")  # of opencl


def wasm_here() -> bool:
    """Is there a WebAssembly runtime in this Python?"""
    return find_spec("wasmtime") is not None


def opencl_here() -> bool:
    """Is an OpenCL device here?"""
    try:
        import pyopencl

        return bool(pyopencl.get_platforms())
    except Exception:
        return False


@contextmanager
def interpreted() -> Iterator[None]:
    """An NVIDIA driver that interprets PTX, of the tests; its objects are kept apart."""
    helpers = str(Path(__file__).parents[2] / "test")
    if helpers not in sys.path:
        sys.path.append(helpers)
    from fake_cuda import FakeDriver, installed

    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, TINYPHYSICS_CACHE=folder):
        with installed(FakeDriver()) as driver:
            yield
        if driver.faults:
            raise RuntimeError(f"the driver found {driver.faults[:3]}")


def hash_of(case: Case, name: str, z: np.ndarray) -> tuple[str, str]:
    """(the program that ran, what came out of it)."""
    sim = tp.compile(built(case), **{**case.options, "backend": name})
    out = sim.evolve(**case.given(z), **case.params, steps=case.steps, t0=case.t0, progress=False)
    return str(sim.tpir.hash), str(out.hash)


def check(case: Case, t: Tally, opencl: bool, cuda: bool) -> None:
    precision = case.options.get("precision", "float64")
    wasm = ["wasm"] if wasm_here() else []  # number by number: what it is too long for, it refuses
    names = [
        *HOSTS,
        *wasm,
        *(["opencl"] if opencl and precision in CONTRACT else []),
        *(["cuda"] if cuda else []),
    ]
    z, hashes, refused, first, spent = case.start(3, salt=40), {}, {}, "", 0.0
    for name in names:
        if spent > PATIENCE.get(name, np.inf):
            t.shares[f"too long for {name}"] += 1
            continue
        try:
            began = time.process_time()
            with interpreted() if name == "cuda" else nullcontext():
                program, found = hash_of(case, name, z)
            if name == "python":
                spent = (time.process_time() - began) / slowness(0)
            first = first or program
            if program == first:
                hashes[name] = found
                t.shares[f"on {name}"] += 1
            else:  # some programs are for some backends: an energy of degree 2 is not stepped on a processor
                t.shares[f"another program on {name}"] += 1
        except tp.TinyPhysicsError as error:
            refused[name] = f"{type(error).__name__}: {error.what}"
    if not hashes:
        return
    t.shares["backends"] += 1
    odd = {n: h[:8] for n, h in hashes.items() if h != hashes.get("python", next(iter(hashes.values())))}
    t.check(case.seed, "same bits", bool(odd), "same bits everywhere", f"other bits on {odd}: {hashes}")
    if refused and "llvm" in refused:
        t.report(case.seed, "refused by one backend", f"runs on {', '.join(hashes)}", str(refused)[:300])
    for name in refused:
        t.refused[f"backend {name}"] += 1


def as_written(s: Subject, t: Tally) -> None:
    """A map of arithmetic alone: the bits of Python; any other: to a few units in the last place."""
    case, plain = s.case, understood(s.case.text)
    exact = "exact" in case.groups and s.precision == "float64"
    states = case.start(6, salt=41)
    if exact:
        rng = np.random.default_rng(case.seed)
        states *= 10.0 ** rng.integers(-1, 17, states.shape)
    ends = s.run(states, 1)
    worst = 0.0
    for z, end in zip(states, ends):
        given = {k: v.copy() if v.ndim else np.float64(v) for k, v in case.given(z).items()}
        with np.errstate(all="ignore"):
            value = plain.function(**given)
        parts = value if isinstance(value, tuple) else (value,)
        expected = np.concatenate([np.asarray(x, float).reshape(-1) for x in parts])
        if not np.isfinite(expected).all() or not np.isfinite(end).all():
            continue
        if exact:
            off = 0.0 if (expected == end).all() else float(np.abs(expected - end).max())
        else:
            off = float((np.abs(expected - end) / np.maximum(1.0, np.abs(expected))).max())
            off = off if off > 2e3 * s.eps else 0.0
        worst = max(worst, off)
    t.check(case.seed, "map as written", worst > 0, "run as written", f"Python differs by {worst:.3g}")
