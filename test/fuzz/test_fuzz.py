"""Random programs: the graph, its rewritten form, the VM's way, NumPy, C and LLVM give the same bits.

TINYPHYSICS_FUZZ=100000 runs as many; CI runs 2,000. C is compiled in batches; LLVM, which compiles one at a
time, runs every fifth.
"""
from __future__ import annotations

import os
import random
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
import tinyphysics as tp
from tinyphysics.context import QUICK
from tinyphysics.device.arrays import ArraysLoader
from tinyphysics.device.cc import build, load_library
from tinyphysics.runtime.loaders import LlvmLoader
from tinyphysics.device.engine import calling
from tinyphysics.device.llvm import SIGNATURE
from tinyphysics.emit import c as emit_c
from tinyphysics.target import VectorShape
from tinyphysics.ir import Ops, evaluate, f32, f64, graph_rewrite, toposort
from tinyphysics.ir.spec import LOWERED, check
from tinyphysics.rules.exact import exact
from tinyphysics.rules.transcendental import lower
from tinyphysics.tpir.kernel import Section

sys.path.insert(0, str(Path(__file__).parent))
from generate import expression, numbers, potential  # noqa: E402

PROGRAMS = int(os.environ.get("TINYPHYSICS_FUZZ", "2000"))
BATCH = 50
POINTS = 16
FLAGS = ("-O1", "-march=native", "-ffp-contract=off", "-fwrapv", "-fno-math-errno", "-std=c11", "-shared", "-fPIC")


def bits(values, dtype):
    kind = "<f" if dtype is f32 else "<d"
    return [b"nan" if v != v else struct.pack(kind, v) for v in values]


def columns(f, section, points, dtype):
    """A section called on columns of points."""
    with np.errstate(over="ignore"):
        source = np.array(points, np.float32 if dtype is f32 else np.float64).T.copy()
    out = np.empty((1, source.shape[1]), source.dtype)
    flags = np.zeros(source.shape[1], np.int8)
    f(source, out, np.zeros(1), None, flags, None, 0, source.shape[1], source.shape[1], 0, 1, 1)
    return out[0].tolist()


@pytest.mark.requirement("S4-06", "S0-23", "S0-30")
@pytest.mark.parametrize("batch", range(PROGRAMS // BATCH))
def test_random_expressions_agree_everywhere(batch):
    rng = random.Random(batch)
    dtype = f32 if batch % 4 == 3 else f64
    cases = []
    for k in range(BATCH):
        variables, root = expression(rng, rng.randint(1, 8), dtype)
        low = lower([root])
        check(low, LOWERED)
        short = graph_rewrite(low, exact)
        section = Section(f"f{k}", tuple(variables), tuple(short), (), {})
        points = numbers(rng, POINTS, dtype)
        if dtype is f32:
            with np.errstate(over="ignore"):
                points = np.array(points, np.float32).astype(float).tolist()
        called = Section(f"f{k}", tuple(variables), (root,), (), {}, careful=True)  # its functions not written out
        cases.append((low[0], short[0], section, called, points))
    source = emit_c.module([(c[2], VectorShape(16, 1)) for c in cases], (), ())
    library = load_library(build(source, FLAGS))
    llvm, arrays = LlvmLoader(shape=VectorShape(4, 2)), ArraysLoader()
    for k, (low, short, section, called, points) in enumerate(cases):
        env = [{"x0": p[0], "x1": p[1], "x2": p[2]} for p in points]
        expected = bits([evaluate([low], e)[0] for e in env], dtype)
        assert bits([evaluate([short], e)[0] for e in env], dtype) == expected, (k, low)
        results = {
            "numpy": columns(arrays.one(section, (), ()), section, points, dtype),
            "c": columns(calling(SIGNATURE((f"f{k}", library))), section, points, dtype),
        }
        if k % 5 == 0:
            results["llvm"] = columns(llvm.load([(section, VectorShape(4, 2))], (), ())[0], section, points, dtype)
            (quick,) = llvm.load([(called, VectorShape(1, 1))], (), (), quick=True)
            results["llvm, quick"] = columns(quick, called, points, dtype)
        for name, values in results.items():
            assert bits(values, dtype) == expected, (name, k, short)


@pytest.mark.parametrize("seed", range(20))
def test_random_hamiltonians_agree_on_every_backend(seed):
    rng = random.Random(seed)

    @tp.hamiltonian
    def system(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2 + potential(rng, q)

    start = dict(q=np.random.default_rng(seed).normal(size=(5, 3)), p=np.zeros((5, 3)))
    options = rng.choice([dict(), dict(order=4), dict(method="rk4"), dict(method="leapfrog_dkd")])
    runs = {b: tp.compile(system, dt=0.05, backend=b, **options).evolve(steps=6, **start)
            for b in ("python", "numpy", "c", "llvm")}  # fmt: skip
    with QUICK(0):
        runs["llvm, fast"] = tp.compile(system, dt=0.05, backend="llvm", **options).evolve(steps=6, **start)
    assert len({r.hash for r in runs.values()}) == 1, (seed, system.energy)


@pytest.mark.parametrize("seed", range(100, 160))
def test_random_hamiltonians_are_certified(seed):
    """A missed proof is no error, but it should be rare: here there is none."""
    rng = random.Random(seed)

    @tp.hamiltonian
    def system(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2 + potential(rng, q)

    sim = tp.compile(system, dt=0.05, order=rng.choice([1, 2, 4]))
    jumps = any(u.op is Ops.WHERE for u in toposort([system.energy]))  # that its branches meet is not shown
    assert sim.certificate.symplectic and bool(sim.certificate.consistent) != jumps, system.energy
