"""Do the libraries and the compiler of others agree?  Arrays of torch, CuPy and JAX on the GPU, and nvcc on the CUDA C of kernels."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

import tinyphysics as tp
from test_cuda_nests_text import CASES as ARRAYS
from test_cuda_nests_text import begun, compiled, given, name_of
from test_cuda_text import CASES
from test_parity import ensemble, pendulum
from tinyphysics.emit.scalar.cuda import COMMAND

MEMBERS, STEPS = 1_000, 200
MAKE = {
    "torch": lambda library, a: library.tensor(a, device="cuda"),
    "cupy": lambda library, a: library.asarray(a),
    "jax": lambda library, a: library.numpy.asarray(a),
}


@pytest.mark.parametrize("name", MAKE)
def test_arrays_of_other_libraries_go_in_and_come_out_where_they_are(other_library, name):
    library = other_library(name)
    start = ensemble(dict(q=1.0, p=0.3), MEMBERS)
    sim = tp.compile(pendulum, dt=0.01, backend="cuda")
    here = sim.evolve(**start, steps=STEPS)
    given = {n: MAKE[name](library, np.asarray(v)) for n, v in start.items()}
    out = sim.evolve(**given, steps=STEPS)
    assert type(out.final.q) is type(given["q"]) and out.hash == here.hash
    assert out.metrics["bytes_moved"] < 1_000 and out.metrics["launches"] > 0
    assert np.array_equal(
        np.asarray(
            given["q"].get() if name == "cupy" else given["q"].cpu() if name == "torch" else given["q"]
        ),
        start["q"],
    )


@pytest.mark.parametrize("system, options, q", CASES, ids=lambda x: getattr(x, "name", str(x)))
def test_cuda_c_through_nvcc_prints_the_hash_of_the_run(gpu, tmp_path, system, options, q):
    if not gpu.real:
        pytest.skip("a program of nvcc has no fake driver")
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not here")
    sim = tp.compile(system, dt=0.01, **options)
    (tmp_path / "this.cu").write_text(sim.ir("cuda"))
    subprocess.run([*COMMAND.split(), "-o", "run"], cwd=tmp_path, check=True, capture_output=True)
    said = subprocess.run(
        ["./run", "300", "0.01", "0", repr(q), "0.3"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert said.stdout.split()[-1] == sim.evolve(q=q, p=0.3, steps=300).hash


@pytest.mark.parametrize("system, n, options", ARRAYS, ids=name_of)
def test_cuda_c_of_arrays_through_nvcc_prints_the_hash_of_the_run(gpu, tmp_path, system, n, options):
    if not gpu.real:
        pytest.skip("a program of nvcc has no fake driver")
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not here")
    sim, (state, params) = compiled(system, n, **options), begun(system, n)
    (tmp_path / "this.cu").write_text(sim.ir("cuda"))
    subprocess.run([*COMMAND.split(), "-o", "run"], cwd=tmp_path, check=True, capture_output=True)
    words, arrays = given(sim, state, params)
    for steps in (0, 20):
        said = subprocess.run(
            ["./run", str(steps), "0.01", "0.25", *words],
            cwd=tmp_path,
            input=arrays,
            check=True,
            capture_output=True,
        )
        assert said.stdout.decode().strip() == sim.evolve(**state, **params, steps=steps, t0=0.25).hash
