"""Random programs: the graph, its rewritten form, the VM, NumPy, C and LLVM give the same bits.

TINYPHYSICS_FUZZ=100000 runs as many; CI runs 2,000. C and LLVM are compiled in batches, one module each.
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
from tinyphysics.device.host.arrays import ArraysLoader
from tinyphysics.device.host.cc import build, load_library
from tinyphysics.runtime.engines.loaders import LlvmLoader
from tinyphysics.device.engines.engine import calling
from tinyphysics.device.host.llvm import SIGNATURE
from tinyphysics.emit.scalar import c as emit_c
from tinyphysics.target import VectorShape
from tinyphysics.ir import Ops, evaluate, f32, f64, graph_rewrite, toposort
from tinyphysics.ir.spec import LOWERED, check
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.system import State
from tinyphysics.tpir.program.isa import Pointer, Program, Register, StateDecl
from tinyphysics.tpir.kernels.kernel import Section
from tinyphysics.tpir.program.lower import ProgramBuilder, type_of
from tinyphysics.tpir.program.vm import Machine

sys.path.insert(0, str(Path(__file__).parent))
from generate import expression, numbers, potential  # noqa: E402

PROGRAMS = int(os.environ.get("TINYPHYSICS_FUZZ", "2000"))
BATCH = 50
POINTS = 16
PLAIN, PAIRED = VectorShape(4, 1), VectorShape(4, 2)  # two vectors side by side take twice as long to compile
FLAGS = (
    "-O1",
    "-march=native",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-math-errno",
    "-std=c11",
    "-shared",
    "-fPIC",
)


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


def observing(variables, root):
    """The TP-IR program that loads the variables and observes the expression, functions not yet expanded."""
    states = [State(str(v.arg), v, "field") for v in variables]
    b = ProgramBuilder(states, {})
    for i, s in enumerate(states):
        b.emit("init", "LOAD", Register("S", i), Pointer(s.name), u=s.var)
    b.emit("final", "OBSERVE", Pointer("y"), b.operand(root, "final"), u=root)
    declared = tuple(StateDecl(s.name, "field", type_of(s.var)) for s in states)
    return Program("f", (), declared, (), init=tuple(b.sections["init"]), final=tuple(b.sections["final"]))


@pytest.mark.thin(rows=6)
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
        called = Section(
            f"f{k}", tuple(variables), (root,), (), {}, careful=True
        )  # its functions not written out
        cases.append((low[0], short[0], section, called, points, Machine(observing(variables, root))))
    sections, callers = [case[2] for case in cases], [case[3] for case in cases]
    library = load_library(build(emit_c.module([(f, VectorShape(16, 1)) for f in sections], (), ()), FLAGS))
    parts = [(f, PLAIN if k % 5 else PAIRED) for k, f in enumerate(sections)]
    llvm, arrays = LlvmLoader().load(parts, (), ()), ArraysLoader()
    quick = LlvmLoader().load([(f, VectorShape(1, 1)) for f in callers], (), (), quick=True)
    for k, (low, short, section, called, points, machine) in enumerate(cases):
        env = [{"x0": p[0], "x1": p[1], "x2": p[2]} for p in points]
        expected = bits([evaluate([low], e)[0] for e in env], dtype)
        results = {
            "rewritten": [evaluate([short], e)[0] for e in env],
            "python": [machine.final(machine.start(e, {}, 1.0, 0.0))["y"] for e in env],
            "numpy": columns(arrays.one(section, (), ()), section, points, dtype),
            "c": columns(calling(SIGNATURE((section.name, library))), section, points, dtype),
            "llvm": columns(llvm[k], section, points, dtype),
            "llvm, quick": columns(quick[k], called, points, dtype),
        }
        for name, values in results.items():
            assert bits(values, dtype) == expected, (name, k, short)


@pytest.mark.thin(rows=4)
@pytest.mark.parametrize("seed", range(20))
def test_random_hamiltonians_agree_on_every_backend(seed):
    rng = random.Random(seed)

    @tp.hamiltonian
    def system(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2 + potential(rng, q)

    start = dict(q=np.random.default_rng(seed).normal(size=(5, 3)), p=np.zeros((5, 3)))
    options = rng.choice([dict(), dict(order=4), dict(method="rk4"), dict(method="leapfrog_dkd")])
    for precision in dict.fromkeys(["float64", ("float32", "mixed", "compensated", "float64")[seed % 4]]):
        asked = dict(dt=0.05, precision=precision, **options)
        runs = {
            b: tp.compile(system, backend=b, **asked).evolve(steps=6, **start)
            for b in ("python", "numpy", "c", "llvm")
        }
        with QUICK(0):
            runs["llvm, fast"] = tp.compile(system, backend="llvm", **asked).evolve(steps=6, **start)
        assert len({r.hash for r in runs.values()}) == 1, (seed, precision, system.energy)


@pytest.mark.parametrize("seed", [0, 3, 14])
def test_random_hamiltonians_agree_in_pairs_of_float64(seed):
    rng = random.Random(seed)

    @tp.hamiltonian
    def system(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + potential(rng, q)

    start = dict(q=np.random.default_rng(seed).normal(size=(3, 2)), p=np.zeros((3, 2)))
    runs = {
        b: tp.compile(system, dt=0.05, precision="dd", backend=b).evolve(steps=4, **start)
        for b in ("python", "llvm")
    }
    assert len({r.hash for r in runs.values()}) == 1, (seed, system.energy)
    plain = tp.compile(system, dt=0.05).evolve(steps=4, **start)
    assert np.allclose(plain.final.q, runs["llvm"].final.q, rtol=1e-13, atol=1e-14)


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
