"""The registry of kernels with named buffers: `tp.operators`."""

import gc
import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from here import need
from tinyphysics.errors import InputError
from tinyphysics.operators import HEADERS, REGISTRY, RESERVED, bytes_of

ROOT = Path(__file__).parents[2]
SIZES = {
    "add": {"n": 5}, "diff_buf": {"n": 5}, "diff_img": {"h": 2, "w": 3}, "operator_step": {"D": 4},
    "qfeat": {"D": 10, "B": 3, "band_size": 4}, "qfeat_fp64": {"D": 10, "B": 3, "band_size": 4},
}  # fmt: skip


def filled(op, seed=0):
    rng = np.random.default_rng(seed)
    out = op.new_buffers()
    for a in out.values():
        a[...] = rng.normal(size=a.shape)
    return out


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257])
def test_add_and_both_differences(n):
    for name, first, second, sign in (("add", "a", "b", 1), ("diff_buf", "a", "b", -1)):
        op = REGISTRY[name].bind(n=n)
        b = filled(op)
        op(b, op.packed(), op.grid)
        assert (b["result"] == b[first] + sign * b[second]).all() and op.grid == (-(-n // 256), 1, 1)
    image = REGISTRY["diff_img"].bind(h=n, w=3)
    b = filled(image)
    image(b)
    assert (b["result"] == b["curr"] - b["prev"]).all()


@pytest.mark.parametrize(("d", "bands", "size"), [(12, 3, 4), (10, 3, 4), (9, 3, 4), (5, 1, 5), (7, 7, 1)])
@pytest.mark.parametrize("name", ["qfeat", "qfeat_fp64"])
def test_bands_of_any_length_have_their_energies(name, d, bands, size):
    op = REGISTRY[name].bind(D=d, B=bands, band_size=size)
    b = filled(op)
    op(b)
    wanted = [(b["z"][k : k + size].astype(float) ** 2).sum() for k in range(0, d, size)]
    assert np.allclose(b["feat"], wanted, rtol=1e-6 if name == "qfeat" else 1e-15)


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_a_step_is_w_times_z_and_not_z_times_w(backend):
    op = REGISTRY["operator_step"].bind(D=7, backend=backend)
    b = filled(op)
    op(b)
    assert np.allclose(b["z_next"], b["z_curr"] @ b["w"].T + b["b"], rtol=1e-14, atol=1e-15)
    assert not np.allclose(b["z_next"], b["z_curr"] @ b["w"] + b["b"])


def test_the_bits_are_those_of_the_map_on_the_virtual_machine():
    op = REGISTRY["operator_step"].bind(D=7)
    b = filled(op)
    op(b)
    rows = tp.compile(tp.operators.row_times.bind({"n": 7}), backend="python")
    out = rows.evolve(w=b["w"], b=b["b"], z_next=np.zeros(7), z_curr=b["z_curr"], steps=1)
    assert (out.final.z_next == b["z_next"]).all()


def test_a_call_keeps_nothing_in_memory():
    op = REGISTRY["operator_step"].bind(D=128)  # a matrix has 131,072 bytes
    b = filled(op)
    tracemalloc.start()
    for _ in range(20):
        op(b)
    gc.collect()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(200):
        op(b)
    _, peak = tracemalloc.get_traced_memory()
    gc.collect()  # what describes arrays to C goes by itself
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 2048 and peak - before < 100_000


@pytest.mark.parametrize("name", REGISTRY)
def test_headers_have_what_the_registry_says(name):
    o = REGISTRY[name]
    assert not RESERVED & {b.name for b in o.buffers}
    for language in HEADERS:
        if language == "wgsl" and o.type == "float64":
            with pytest.raises(InputError, match="no float64"):
                o.header(language)
            continue
        text = o.header(language)
        for b in o.buffers:
            at = {"glsl": f"binding = {b.binding},", "wgsl": f"@binding({b.binding})"}.get(
                language, f"binding {b.binding}:"
            )
            line = next(line for line in text.splitlines() if at in line)
            assert f" {b.name}[" in line or f" {b.name}:" in line
        assert all(c in text for c in o.constants)
    op = o.bind(**SIZES[name])
    assert {n: a.nbytes for n, a in op.new_buffers().items()} == bytes_of(o, SIZES[name])
    assert len(op.packed()) == 4 * len(o.constants) and op.hash == o.bind(**SIZES[name]).hash
    first, rest = op.text("cuda").split("\n", 1)
    assert "section_step" in rest and all(f"{b.name}: " in first for b in o.buffers)
    assert o.header("cuda") not in op.text("cuda")  # which is for kernels with other buffers


@pytest.mark.skipif(shutil.which("glslangValidator") is None, reason="needs glslangValidator")
@pytest.mark.parametrize("name", REGISTRY)
def test_the_headers_of_shaders_compile(name, tmp_path):
    shader = tmp_path / "shader.comp"
    shader.write_text(REGISTRY[name].header("glsl") + "void main() {}\n")
    done = subprocess.run(
        ["glslangValidator", "-V", str(shader)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout


SHORT = [name for name, o in REGISTRY.items() if o.type == "float32"]


@pytest.mark.skipif(shutil.which("glslangValidator") is None, reason="needs glslangValidator")
@pytest.mark.parametrize("name", SHORT)
def test_the_text_of_glsl_is_a_whole_shader(name, tmp_path):
    shader = tmp_path / "kernel.comp"
    shader.write_text(REGISTRY[name].bind(**SIZES[name]).text("glsl"))
    done = subprocess.run(
        ["glslangValidator", "-V", str(shader)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", SHORT)
def test_the_text_of_wgsl_is_a_whole_shader(name):
    need("webgpu")
    from tinyphysics.device.webgpu.driver import machine

    machine().module(REGISTRY[name].bind(**SIZES[name]).text("wgsl"))


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("name", REGISTRY)
def test_the_text_of_c_compiles(name, tmp_path):
    source = tmp_path / "kernel.c"
    source.write_text(REGISTRY[name].bind(**SIZES[name]).text("c"))
    done = subprocess.run(["cc", "-O0", "-c", str(source)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.all
def test_the_text_of_cuda_compiles(tmp_path):
    source = tmp_path / "kernel.cu"
    source.write_text(REGISTRY["operator_step"].bind(D=4).text("cuda"))
    done = subprocess.run(["nvcc", "-ptx", str(source)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_headers_of_c_compile(tmp_path):
    source = tmp_path / "all.c"
    source.write_text("".join(o.header("c") for o in REGISTRY.values()) + "int main(void) { return 0; }\n")
    done = subprocess.run(
        ["cc", "-Wall", "-Werror", "-c", str(source)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_wrong_names_sizes_and_arrays_are_told():
    o = REGISTRY["operator_step"]
    op = o.bind(D=3)
    b = op.new_buffers()
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    wrong = {
        "is not a buffer": lambda: op({**b, "metrics": np.zeros(3)}),
        "`b` is missing": lambda: op({n: a for n, a in b.items() if n != "b"}),
        "the buffer `w` is float32": lambda: op({**b, "w": np.zeros((3, 3), np.float32)}),
        "not those of": lambda: op(b, b"0000"),
        "does not cover": lambda: op(b, None, (2, 1, 1)),
        "needs D=": lambda: o.bind(),
        "is not a size": lambda: o.bind(D=3, n=4),
        "are not 2 bands of 4": lambda: REGISTRY["qfeat"].bind(D=10, B=2, band_size=4),
        "no header": lambda: o.header("hlsl"),
        "no operator 'ad'": lambda: REGISTRY["ad"],
        "by their names, not as None": lambda: op(None),
        "by their names, not as \\[1, 2\\]": lambda: op([1, 2]),
        "grid=1 does not cover": lambda: op(b, grid=1),
        "`z_next` is read-only": lambda: op({**b, "z_next": frozen}),
        "`w` does not have its rows": lambda: op({**b, "w": np.asfortranarray(b["w"] + np.eye(3))}),
        "`w` is 3, which is no array": lambda: op({**b, "w": 3}),
        "computes in float64, which kernels in WGSL": lambda: op.text("wgsl"),
    }
    for says, call in wrong.items():
        with pytest.raises(InputError, match=says):
            call()


def test_targets_are_listed_with_what_was_tried(capsys):
    from tinyphysics.cli import main
    from tinyphysics.runtime.engines.emissions import EMISSIONS

    assert main(["targets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(EMISSIONS)
    rows = {line.split()[0]: line for line in lines[1:]}
    assert rows["llvm"].endswith("this processor") and rows["opencl"].endswith("-")


BLOCKED = """
import sys
class Never:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("numpy.fft", "scipy", "tinyphysics.fft", "tinyphysics.physics.fields", "tinyphysics.physics.fluids")):
            raise ImportError(name + " is not needed")
sys.meta_path.insert(0, Never())
import runpy
sys.argv = ["operator_loop.py", sys.argv[1]]
runpy.run_path("examples/operator_loop.py", run_name="__main__")
assert not [m for m in sys.modules if m.startswith(("numpy.fft", "scipy"))]
"""


@pytest.mark.all
@pytest.mark.parametrize("steps", ["2000", "100000"])
def test_the_loop_runs_without_transforms_and_grids(steps):
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, steps], env=env, cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert f"{int(steps):,} steps" in done.stdout
