"""Is the CUDA C of an array program the program?  Compiled as C++, its threads one after the other, it prints the hash of the run."""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import pytest

import tinyphysics as tp
from test_cuda_text import SHIM
from test_loops import SYSTEMS, bonded, carried, cluster, pendulums, ring, shifted, start_of, wave
from test_multirate import beads, chain
from test_near import lennard_jones
from tinyphysics.emit.scalar.cuda import COMMAND
from tinyphysics.errors import PlanError
from tinyphysics.runtime.state.ensemble import inputs

# every thread of a launch, the last one first: none may need what another one does
THREADS = r"""
template <class F> static void launched(unsigned blocks, unsigned threads, F one) {
  blockDim.x = threads;
  for (blockIdx.x = blocks; blockIdx.x-- > 0;) for (threadIdx.x = threads; threadIdx.x-- > 0;) one();
}
"""
MEMORY = (
    "#include <stdlib.h>\nstatic int cudaMallocManaged(void **p, size_t n) { return !(*p = malloc(n)); }\n"
)
LAUNCH = re.compile(r"(\w+)<<<(\d+), (\d+)>>>(\(.*\));")
CX, CY = (0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)


@tp.map
def fluid(f: tp.Array[9, "n", "n"], om: float = 1.2):
    """D2Q9 with one relaxation time."""
    s = [np.roll(f[k], (CY[k], CX[k]), (0, 1)) for k in range(9)]
    rho = sum(s[1:], s[0])
    ux, uy = (sum(c[k] * s[k] for k in range(9) if c[k]) / rho for c in (CX, CY))
    out = []
    for k, w in enumerate([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4):
        cu = CX[k] * ux + CY[k] * uy
        out.append(s[k] + om * (w * rho * (1 + 3 * cu + 4.5 * cu * cu - 1.5 * (ux * ux + uy * uy)) - s[k]))
    return np.stack(out)


@tp.hamiltonian
def mean_squares(q: tp.Vec["n"], p: tp.Vec["n"]):
    """A sum over all in the force: what is observed of all is what moves each."""
    return (p * p).sum() / 2 + (q * q).sum() / 2 + tp.tanh((q * q).mean()) + (tp.cos(q).mean()) ** 2


@tp.potential
def repulsion(q: tp.Array["n", 3]):
    return tp.pair_sum(0.1 / np.sqrt(((q[:, None] - q[None, :]) ** 2).sum(-1)))


BONDED = bonded()
CASES = [
    *((s, 40, {}) for s in (*SYSTEMS, ring, pendulums, carried, BONDED, fluid)),
    (mean_squares, 300, {}),
    (mean_squares, 70_000, {}),
    (cluster, 300, {}),
    (cluster, 601, {}),
    (wave, 33, {}),
    (wave, 40, {"precision": "float32"}),
    (cluster, 40, {"precision": "float32"}),
    (fluid, 33, {"precision": "float32"}),
    (mean_squares, 300, {"precision": "float32"}),
    (ring, 60, {"order": 4}),
    (ring, 40, {"precision": "dd"}),
    (ring, 40, {"precision": "lattice"}),
]


def name_of(x):
    return getattr(x, "name", "") or (str(x) if not isinstance(x, dict) else "-".join(map(str, x.values())))


def begun(system, n):
    rng = np.random.default_rng(5)
    if system is BONDED:
        return (
            dict(q=rng.normal(size=(n, 3)), p=rng.normal(size=(n, 3))),
            dict(kind=rng.integers(0, 3, n).astype(float), k=rng.uniform(1, 2, (3, 3))),
        )
    if system is fluid:
        return dict(f=rng.uniform(0.9, 1.1, (9, n, n)) / 9), dict(om=1.2)
    if system is mean_squares:
        return dict(q=rng.normal(size=n), p=rng.normal(size=n)), {}
    return start_of(system, n)


def compiled(system, n, **options):
    timed = system not in (shifted, carried, fluid)
    return tp.compile(system, **({"dt": 0.01} if timed else {}), sizes={"n": n}, **options)


def given(sim, state, params):
    """(words, bytes of arrays) as the program takes them."""
    kept = inputs(sim.system, {**state, **params}, sim.compiled.encoding)
    words = [repr(float(v)) for v in params.values() if not np.ndim(v)]
    arrays = [kept.params[name] for name, v in params.items() if np.ndim(v)]
    return words, b"".join(np.ascontiguousarray(v[0]).tobytes() for v in (*arrays, *kept.states.values()))


def printed(tmp_path, compiler, text, steps, words, arrays, dt="0.01", t0="0.25"):
    """What the text says of a run on this processor."""
    (tmp_path / "run.cpp").write_text(on_this_processor(text))
    subprocess.run([*compiler, "run.cpp", "-o", "run"], cwd=tmp_path, check=True)
    said = [
        subprocess.run(
            ["./run", str(n), dt, t0, *words], cwd=tmp_path, input=arrays, check=True, capture_output=True
        )
        for n in steps
    ]
    return [x.stdout.decode().strip() for x in said]


def on_this_processor(text):
    text = LAUNCH.sub(r"launched(\2, \3, [&] { \1\4; });", text)
    assert "<<<" not in text
    return SHIM + MEMORY + THREADS + text


@pytest.fixture(scope="module")
def compiler():
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        pytest.skip("no C++ compiler is here: the text of CUDA C is read, and not run")
    return [
        found,
        "-O1",
        "-ffp-contract=off",
        "-fwrapv",
        "-fno-strict-aliasing",
        "-Wall",
        "-Wno-unused-function",
    ]


@pytest.mark.thin(rows=5)
@pytest.mark.requirement("S3-21")
@pytest.mark.requirement("S3-24")
@pytest.mark.parametrize("system, n, options", CASES, ids=name_of)
def test_a_complete_program_prints_the_hash_of_the_run(tmp_path, compiler, system, n, options):
    sim, (state, params) = compiled(system, n, **options), begun(system, n)
    words, arrays = given(sim, state, params)
    said = printed(tmp_path, compiler, sim.ir("cuda"), (0, 3), words, arrays)
    assert said == [sim.evolve(**state, **params, steps=n, t0=0.25).hash for n in (0, 3)]
    assert subprocess.run(["./run"], cwd=tmp_path, capture_output=True).returncode == 2
    assert (
        subprocess.run(
            ["./run", "1", "0.01", "0", *words], cwd=tmp_path, input=b"", capture_output=True
        ).returncode
        == 3
    )


def test_loops_in_loops(tmp_path, compiler):
    """Fast forces in every pass of a step, slow ones in the last."""
    numbers = chain(60)
    sim = tp.compile(tp.fast(beads) + tp.slow(repulsion), dt=0.002, inner=3, sizes={"n": 60, "b": 59})
    params = {p.name: numbers[p.name] for p in sim.system.parameters if p.name in numbers}
    state = {s.name: numbers[s.name] for s in sim.system.states}
    text = sim.ir("cuda")
    assert "for (int s = 1; s <= 3; s++)" in text and "if (s % 3 == 0)" in text
    words = [repr(float(p.default)) for p in sim.system.parameters if p.name not in numbers]
    said = printed(tmp_path, compiler, text, (4,), words, given(sim, state, params)[1], dt="0.002", t0="0")
    assert said == [sim.evolve(**numbers, steps=4).hash]


@pytest.mark.parametrize("system, n", [(cluster, 300), (mean_squares, 300), (fluid, 40)], ids=name_of)
def test_nvcc_takes_the_text_and_rounds_to_nearest(tmp_path, system, n):
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not here: the text of CUDA C is not given to it")
    (tmp_path / "this.cu").write_text(compiled(system, n).ir("cuda"))
    subprocess.run([*COMMAND.split(), "-ptx", "-arch=sm_90", "-o", "this.ptx"], cwd=tmp_path, check=True)
    text = (tmp_path / "this.ptx").read_text()
    assert ".entry part_step_0" in text
    done = set(re.findall(r"\t((?:add|sub|mul|div|fma|mad|sqrt|rcp|rsqrt)\.[a-z.]*f(?:32|64)) ", text))
    assert done and all(re.fullmatch(r"\w+\.rn\.f(32|64)", x) for x in done), done


def test_a_map_has_a_thread_for_each_index_and_a_sum_one_for_each_accumulator():
    text = compiled(mean_squares, 70_000).ir("cuda")
    assert re.search(r"part_step_\d+<<<547, 128>>>", text), "70,000 of 128"
    assert re.search(r"const int64_t lane = thread", text) and "_fold<<<1, 128>>>" in text
    assert "static __managed__ double workspace[" in text and "atomic" not in text


def test_the_text_names_the_command_and_the_arrays():
    text = compiled(cluster, 40).ir("cuda")
    assert (
        text.startswith(f"/* leapfrog_kdk: {COMMAND}\n   usage: STEPS DT T0 eps < arrays")
        and "m [40], q [40, 3]" in text
    )


def test_control_another_order_of_a_sum_is_another_hash(tmp_path, compiler):
    n = 300
    sim, (state, params) = compiled(cluster, n), begun(cluster, n)
    text = sim.ir("cuda")
    changed = text.replace("j & 7", "j & 3")
    assert changed != text
    said = printed(tmp_path, compiler, changed, (3,), *given(sim, state, params))
    assert said != [sim.evolve(**state, **params, steps=3, t0=0.25).hash]


def test_neighbours_and_trees_say_where_to_look():
    sizes = dict(sizes={"n": 2000})
    with pytest.raises(PlanError, match=r"sums over neighbours(?s:.*)sim.ir\(\"ptx\"\)"):
        tp.compile(lennard_jones, dt=0.005, **sizes).ir("cuda")
    with pytest.raises(PlanError, match=r"sums through a tree(?s:.*)sim.ir\(\"ptx\"\)"):
        tp.compile(cluster, dt=0.01, approximate=1e-3, **sizes).ir("cuda")
