"""Random programs as PTX: run thread by thread by test/ptx_machine.py, they have the bits of the graph.

TINYPHYSICS_FUZZ_PTX=10000 runs as many; CI runs 200.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import numpy as np
import ptx_machine
import pytest
from ptx_mix import objections

from tinyphysics.device.cuda import nvptx
from tinyphysics.emit.scalar import ptx as emit
from tinyphysics.ir import evaluate, f32, f64, graph_rewrite
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import Section

sys.path.insert(0, str(Path(__file__).parent))
from generate import expression, numbers  # noqa: E402
from test_fuzz import bits  # noqa: E402

PROGRAMS = int(os.environ.get("TINYPHYSICS_FUZZ_PTX", "200"))
BATCH, POINTS, THREADS = 20, 40, 8


def on_threads(text, section, points, dtype):
    """A kernel on columns of points, several for each thread."""
    with np.errstate(over="ignore"):
        source = np.array(points, np.float32 if dtype is f32 else np.float64).T.copy()
    count = source.shape[1]
    out, flags, none = np.empty((1, count), source.dtype), np.zeros(count, np.int8), np.zeros(1)
    numbers_ = [np.int64(n) for n in (0, count, count, 0, 1, 1)]
    ptx_machine.run(
        text, section.name, [source, out, none, none.copy(), flags, none.copy(), *numbers_], 1, THREADS
    )
    return out[0].tolist()


@pytest.mark.thin(rows=3)
@pytest.mark.parametrize("batch", range(PROGRAMS // BATCH))
def test_random_expressions_have_the_bits_of_the_graph(batch):
    rng = random.Random(f"ptx {batch}")
    dtype = f32 if batch % 3 == 2 else f64
    cases = []
    for k in range(BATCH):
        variables, root = expression(rng, rng.randint(1, 8), dtype)
        short = graph_rewrite(lower([root]), exact)
        points = numbers(rng, POINTS, dtype)
        if dtype is f32:
            with np.errstate(over="ignore"):
                points = np.array(points, np.float32).astype(float).tolist()
        cases.append((Section(f"f{k}", tuple(variables), tuple(short), (), {}), points))
    members = VectorShape(1, 1 + batch % 2)  # side by side in a thread
    text = nvptx.compiled(emit.module([(f, members) for f, _ in cases], (), ()))
    assert objections(ptx_machine.parsed(text)) == []
    for section, points in cases:
        expected = [evaluate([section.roots[0]], {"x0": p[0], "x1": p[1], "x2": p[2]})[0] for p in points]
        got = on_threads(text, section, points, dtype)
        assert bits(got, dtype) == bits(expected, dtype), (section.name, section.roots[0])
