"""sim.kernel: the code of a run with what it reads, called on arrays that stay; the bits are those of the run."""

import re
import shutil
import struct
import subprocess

import numpy as np
import pytest

import tinyphysics as tp
from here import need
from tinyphysics.device.cuda import nvptx
from tinyphysics.device.host import spirv
from tinyphysics.emit.scalar import ptx
from tinyphysics.emit.scalar import spirv as emit_spirv
from tinyphysics.errors import BackendError, InputError, PlanError
from tinyphysics.runtime.engines.emissions import EMISSIONS
from tinyphysics.target import VectorShape

RUN = [e.name for e in EMISSIONS.values() if e.executed]


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


START = {"q": [1.0, 0.0], "p": [0.0, 1.2]}


def precision_of(target):
    return "float32" if EMISSIONS[target].handed else "float64"


def begun(op, mu=1.0):
    b = op.new_buffers()
    for m in range(op.members):
        b["state"][:, m] = [1.0 + 0.01 * m, 0.0, 0.0, 1.2]
    op.init(b, {"mu": mu})
    return b


@pytest.mark.requirement("S1-80", "S1-81", "S1-83")
@pytest.mark.parametrize("target", RUN)
def test_a_kernel_has_the_bits_of_the_run_in_one_call_or_several(target):
    need(EMISSIONS[target].backend)
    if target == "wgsl":
        from tinyphysics.runtime.engines.webgpu import probed

        if not probed().claims_bits:
            pytest.skip(f"the adapter does not claim bits: {probed().why_not}")
    sim = tp.compile(kepler, 0.02, precision=precision_of(target))
    op = sim.kernel(target, members=3)
    q = np.array([[1.0 + 0.01 * m, 0.0] for m in range(3)])
    out = sim.evolve(q=q, p=[0.0, 1.2], mu=0.9, steps=70)
    b = begun(op, 0.9)
    for first, steps in ((0, 30), (30, 40)):
        op(b, {"mu": 0.9, "first": first, "steps": steps})
    loop = b["loop"].copy()
    op.final(b, {"mu": 0.9})
    assert b["state"][:2].T.tobytes() == out.final.q.tobytes()
    assert b["state"][2:].T.tobytes() == out.final.p.tobytes()
    assert (b["loop"] == loop).all()


@pytest.mark.parametrize("precision", ["float32", "dd", "lattice"])
def test_precisions_have_the_same_bits_as_c_and_as_webassembly(precision):
    need("wasm")
    seen = []
    for target in ("c", "wasm"):
        op = tp.compile(kepler, 0.02, precision=precision).kernel(target)
        b = op.new_buffers()
        b["state"][...] = (
            np.arange(1, len(b["state"]) + 1)[:, None] * (1 << 40 if precision == "lattice" else 1)
        ).astype(b["state"].dtype)
        op.init(b)
        op(b, {"steps": 50})
        op.final(b)
        seen.append(b["state"].tobytes())
    assert seen[0] == seen[1] and len(set(seen[0])) > 4


def test_arrays_of_webassembly_lie_in_its_memory_and_live_without_the_kernel():
    need("wasm")
    op = tp.compile(kepler, 0.02).kernel("wasm", members=4)
    b, own = begun(op), None
    own = {name: a.copy() for name, a in b.items()}  # elsewhere: copied there and back
    op(b, {"steps": 25})
    op(own, {"steps": 25})
    assert b["loop"].tobytes() == own["loop"].tobytes()
    del op
    assert np.isfinite(b["loop"]).all()


@pytest.mark.parametrize("target", EMISSIONS)
def test_a_kernel_says_what_it_is_given(target):
    sim = tp.compile(kepler, 0.02, precision=precision_of(target))
    op = sim.kernel(target, members=300)
    code = op.text.encode() if op.binary is None else op.binary
    assert all(f.encode() in code for f in op.functions) and (op.text is None) == (
        target in ("wasm", "spirv")
    )
    state, loop, flags = op.buffers
    assert (
        state.rows == ("q.0", "q.1", "p.0", "p.1") and state.bytes == 4 * 300 * np.dtype(state.type).itemsize
    )
    assert [b.binding for b in op.buffers] == [0, 1, 2] and flags.shape == (300,)
    assert op.grid[0] * op.grid[1] >= 300 or op.grid == (1, 1)
    offsets = [c.offset for c in op.constants]
    assert offsets == [8 * k for k in range(len(offsets))]
    mu = next(c for c in op.constants if c.name == "mu")
    assert struct.unpack_from("<d", op.packed({"mu": 0.5}), mu.offset) == (0.5,)
    again = sim.kernel(target, members=300)
    assert op.hash == again.hash != sim.kernel(target, members=301).hash


def test_wrong_names_shapes_and_targets_are_told():
    op = tp.compile(kepler, 0.02).kernel("c")
    b = begun(op)
    for call, told in [
        (lambda: op(b | {"speed": b["state"]}), "`speed` is not a buffer"),
        (lambda: op({"state": b["state"]}), "the buffer `loop` is missing"),
        (lambda: op(b, {"step": 3}), "`step` is not a constant"),
        (lambda: op(b | {"loop": b["loop"].astype(np.float32)}), "the buffer `loop` is float32"),
        (lambda: op(b, grid=(7, 7)), "does not cover 1 members"),
        (lambda: tp.compile(kepler, 0.02).kernel("fortran"), "there is no kernel for"),
        (lambda: tp.compile(kepler, 0.02).kernel(members=0), "is not a number of members"),
    ]:
        with pytest.raises(InputError, match=told):
            call()
    with pytest.raises(PlanError, match="chooses its own steps"):
        tp.compile(kepler, method="dop853").kernel("c")
    text = tp.compile(kepler, 0.02).kernel("cuda")
    with pytest.raises(BackendError, match="text to take away"):
        text.new_buffers()


def test_a_parameter_without_a_value_has_to_be_given():
    @tp.hamiltonian
    def spring(q, p, k: float):
        return p**2 / 2 + k * q**4 / 4

    op = tp.compile(spring, 0.1).kernel("c")
    with pytest.raises(InputError, match="the constant `k` is missing"):
        op.init(op.new_buffers())


def test_calls_allocate_no_array(monkeypatch):
    """Of the size of the state: the packed parameters are all that is made."""
    import tracemalloc

    op = tp.compile(kepler, 0.02).kernel("c", members=100_000)
    b = begun_of_zeros(op)
    op(b, {"steps": 1})
    tracemalloc.start()
    op(b, {"steps": 1})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


def begun_of_zeros(op):
    b = op.new_buffers()
    b["state"][...] = 1.0
    op.init(b)
    return b


def test_a_kernel_in_ptx_is_for_all_members_and_not_for_marked_ones():
    """It reads no byte: `flags` is written only."""
    op = tp.compile(kepler, 0.02).kernel("ptx")
    read = re.compile(r"\bld\.\S*8\b")
    params = (False,) * len(op.params)
    for_marked = nvptx.compiled(ptx.module([(f, VectorShape(1, 1)) for f in op.sections], op.params, params))
    assert read.search(for_marked) and not read.search(op.text)


def test_the_words_of_a_shader_are_those_of_its_text():
    op = tp.compile(kepler, 0.02, precision="float32").kernel("wgsl")
    dt, mu = np.float32(0.02), np.float32(0.5)
    init = np.frombuffer(op.words("section_init", {"mu": 0.5}), np.float32)
    step = np.frombuffer(op.words("section_step", {"mu": 0.5}), np.float32)
    assert set(init.tolist()) == {float(mu), float(dt / 2)} and set(step.tolist()) == {float(mu), float(dt)}
    for k, x in enumerate(step):
        assert f"alike[{k}]" in op.text.partition("fn section_step")[2], x
    with pytest.raises(InputError, match="no function `step`"):
        op.words("step")
    with pytest.raises(InputError, match="reads its constants as they are"):
        tp.compile(kepler, 0.02).kernel("c").words("step")


@pytest.mark.parametrize("section", ["init", "step", "final"])
def test_glsl_compiles(section, tmp_path):
    tool = shutil.which("glslangValidator")
    if tool is None:
        pytest.skip("glslangValidator is not installed")
    file = tmp_path / "kernel.comp"
    file.write_text(tp.compile(kepler, 0.02, precision="float32").kernel("glsl").text)
    made = tmp_path / "kernel.spv"
    call = [tool, "-V", f"-DSECTION=section_{section}", str(file), "-o", str(made)]
    ran = subprocess.run(call, capture_output=True, text=True)
    assert ran.returncode == 0 and made.read_bytes()[:4] == b"\x03\x02\x23\x07", ran.stdout


@pytest.mark.parametrize("precision", ["float64", "float32", "lattice"])
def test_spirv_is_valid(precision, tmp_path):
    op = tp.compile(kepler, 0.02, precision=precision).kernel("spirv")
    assert op.binary[:4] == b"\x03\x02\x23\x07" and op.text is None
    tool = shutil.which("spirv-val")
    if tool is None:
        pytest.skip("spirv-val is not installed")
    (tmp_path / "kernel.spv").write_bytes(op.binary)
    ran = subprocess.run(
        [tool, "--target-env", "opencl2.2", str(tmp_path / "kernel.spv")], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr


def test_what_llvm_does_not_write_as_spirv_is_refused_and_this_process_goes_on():
    text = f"""target triple = "{emit_spirv.TRIPLE}"
declare double @llvm.nvvm.rsqrt.approx.ftz.d(double)
define spir_kernel void @f(ptr addrspace(1) %a) {{
  %x = load double, ptr addrspace(1) %a
  %y = call double @llvm.nvvm.rsqrt.approx.ftz.d(double %x)
  store double %y, ptr addrspace(1) %a
  ret void
}}
"""
    with pytest.raises(
        PlanError, match='does not write this kernel as SPIR-V: .*\n.*sim.kernel\\("opencl"\\)'
    ):
        spirv.binary(text)


@pytest.mark.all
@pytest.mark.parametrize("precision", ["dd", "compensated"])
def test_results_of_a_module_have_numbers_of_their_own(precision):
    found = list(spirv.results(tp.compile(kepler, 0.02, precision=precision).kernel("spirv").binary))
    assert len(found) == len(set(found)) > 100
