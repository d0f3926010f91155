"""Is the CUDA C of a kernel the kernel?  Compiled as C++, with what CUDA adds written down here, it prints the hash of the run."""

import re
import shutil
import subprocess

import pytest

import tinyphysics as tp
from tinyphysics.physics.zoo import ZOO

SHIM = r"""
#include <string.h>
#define __global__
#define __device__
#define __managed__
static struct { unsigned x; } blockIdx, blockDim, threadIdx;
enum { cudaSuccess };
static int cudaDeviceSynchronize() { return cudaSuccess; }
static long long __double_as_longlong(double x) { long long b; memcpy(&b, &x, 8); return b; }
static double __longlong_as_double(long long b) { double x; memcpy(&x, &b, 8); return x; }
static int __float_as_int(float x) { int b; memcpy(&b, &x, 4); return b; }
static float __int_as_float(int b) { float x; memcpy(&x, &b, 4); return x; }
"""


@tp.hamiltonian
def pendulum(q, p):
    return p * p / 2 - tp.cos(q)


@tp.hamiltonian
def mixed(q, p):
    return p * p / 2 + tp.exp(-q * q) + tp.log(1 + q * q) + tp.tanh(q) + (1 + q * q) ** 0.3


@tp.hamiltonian
def curved(q, p):
    return 0.5 * p * p * (1 + q * q) + q**4


CASES = [
    (pendulum, {}, 1.0),
    (pendulum, {}, 1e15),
    (pendulum, {"precision": "float32"}, 1.0),
    (pendulum, {"precision": "dd"}, 1.0),
    (pendulum, {"order": 8}, 1.0),
    (mixed, {}, 0.7),
    (curved, {"method": "gauss4"}, 0.5),
]


@pytest.mark.requirement("S3-21")
@pytest.mark.requirement("S3-24")
@pytest.mark.parametrize("system, options, q", CASES, ids=lambda x: getattr(x, "name", str(x)))
def test_a_complete_program_prints_the_hash_of_the_run(tmp_path, system, options, q):
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler is here: the text of CUDA C is read, and not run")
    sim = tp.compile(system, dt=0.01, **options)
    text = SHIM + sim.ir("cuda").replace("<<<1, 1>>>", "")
    (tmp_path / "run.cpp").write_text(text)
    command = [compiler, "-O2", "-march=native", "-ffp-contract=off", "-fwrapv", "run.cpp", "-o", "run"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    said = subprocess.run(
        ["./run", "300", "0.01", "0", repr(q), "0.3"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert said.stdout.split()[-1] == sim.evolve(q=q, p=0.3, steps=300).hash


@pytest.mark.requirement("S3-21")
def test_a_thread_has_a_member_and_a_bound_and_the_step_is_an_argument():
    d = ZOO["kepler"]
    text = tp.compile(d.system, dt=d.dt).ir("cuda")
    step = text[text.index("section_step") : text.index("section_final")]
    assert "blockIdx.x*blockDim.x + threadIdx.x" in step and "mine < stop" in step
    assert "p0 = uniform[0];  /* $dt */" in step and not re.search(r"flow\w*\[", step)
