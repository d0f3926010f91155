"""Does what is carried to a GPU do the run, and does its launcher notice what is wrong?  The fake driver is the device here."""

import ast
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.device.cuda import driver as cuda, nvptx
from tinyphysics.errors import BackendError

TOOLS = Path(__file__).parents[2] / "tools"
STEPS, MEMBERS = 7, 5


@pytest.fixture
def tools(monkeypatch):
    """gpu_bundle, gpu_launch, gpu_programs and gpu_record, which lie beside each other."""
    monkeypatch.syspath_prepend(str(TOOLS))
    import gpu_bundle
    import gpu_launch
    import gpu_programs
    import gpu_record

    yield gpu_bundle, gpu_launch, gpu_programs, gpu_record
    for name in ("gpu_bundle", "gpu_launch", "gpu_programs", "gpu_record"):
        sys.modules.pop(name, None)


def few(programs, wanted):
    """Some programs of the list, short and with few members."""
    from dataclasses import replace

    return [
        replace(
            p,
            start={n: v[:MEMBERS] for n, v in p.start.items()},
            steps=60 if p.differs or p.name == "products" else STEPS,
        )
        for p in programs.ensembles()
        if p.name in wanted
    ]


def bundled(tools, folder, wanted):
    bundle, _, programs, _ = tools
    chosen = few(programs, wanted)
    assert len(chosen) == len(wanted) and bundle.bundle(folder, chosen) == []
    return chosen


def test_a_bundle_gives_the_hashes_of_this_processor_and_its_control_differs(tools, tmp_path, capsys):
    from fake_cuda import FakeDriver

    wanted = ("pendulum_float32", "arguments_huge", "a_parameter_for_each", "products", "products_contracted")
    bundled(tools, tmp_path, wanted)
    driver = FakeDriver()
    assert tools[1].main(["--json", str(tmp_path / "told.json")], driver, tmp_path) == 0
    told = json.loads((tmp_path / "told.json").read_text())
    assert [p["said"] for p in told["programs"]].count("equal") == 4 and driver.faults == []
    assert "differs as it must" in capsys.readouterr().out
    assert driver.used == 0, "memory was not given back"


def test_the_launcher_notices_a_bit_that_is_not_expected(tools, tmp_path, capsys):
    from fake_cuda import FakeDriver

    bundled(tools, tmp_path, ("one_member", "products_contracted"))
    about = json.loads((tmp_path / "expected.json").read_text())
    contracted = next(p for p in about["programs"] if p.get("differs"))
    contracted["differs"] = False  # as if contraction were what was packed
    (tmp_path / "expected.json").write_text(json.dumps(about))
    assert tools[1].main([], FakeDriver(), tmp_path) == 1
    assert "not as expected: products_contracted" in capsys.readouterr().out
    data = next((tmp_path / "data").iterdir())
    data.write_bytes(data.read_bytes()[:-1] + b"\x01")
    for path in (tmp_path / "programs").glob("*.json"):
        program = json.loads(path.read_text())
        program["calls"].append(["conjure", 1])
        path.write_text(json.dumps(program))
    assert tools[1].main(["--only", "one_member"], FakeDriver(), tmp_path) == 1
    assert "does not know the call conjure" in capsys.readouterr().out


def test_a_launcher_without_a_driver_says_so(tools, monkeypatch, capsys):
    monkeypatch.setattr(tools[1], "LIBRARY", "libcuda_that_is_not_there.so")
    assert tools[1].main([]) == 2
    assert "there is no NVIDIA driver here" in capsys.readouterr().out


def test_the_launcher_needs_the_standard_library_alone():
    tree = ast.parse((TOOLS / "gpu_launch.py").read_text())
    names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert {n.partition(".")[0] for n in names} <= set(sys.stdlib_module_names)


def test_with_the_cache_of_a_bundle_no_llvm_is_needed(tools, tmp_path, monkeypatch, fake_cuda, capsys):
    import ptx_lanes

    bundle = tools[0]
    chosen = bundled(tools, tmp_path, ("pendulum_float32",))
    made = {p.name for p in (tmp_path / "cache").iterdir()}
    assert made and all(name.endswith(".ptx") for name in made)
    monkeypatch.setattr(bundle, "programs", lambda with_large: chosen)
    ptx_lanes.fused()  # the fake driver has its own need of LLVM
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    with pytest.raises(BackendError, match="is not in the cache"):
        nvptx.compiled("")
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path / "cache"))
    assert bundle.check(tmp_path, "") == 0
    assert "all as expected" in capsys.readouterr().out and fake_cuda.launches


def test_what_is_recorded_is_the_run_and_nothing_is_left_of_the_recorder(tools):
    record = tools[3]
    with record.recorder() as r:
        assert cuda.device().name == record.NAME.decode()
        recording = r.begin()
        sim = tp.compile(tools[2].pendulum, dt=0.01, backend="cuda")
        sim.evolve(q=np.zeros(3), p=np.ones(3), steps=2)
        names = [call[2] for call in recording.calls if call[0] == "launch"]
        assert names.count("init") == 2 and "step" in names and "final" in names  # each carefully, too
        with pytest.raises(AttributeError, match="the recorder does not know cuNewFunction"):
            r.cuNewFunction()
    assert cuda.library.cache_info().currsize == 0


def test_contraction_joins_products_with_sums_and_nothing_else(tools):
    text = "\n{\n\tmul.rn.f64 \t%rd1, %rd2, %rd3;\n\tadd.rn.f64 \t%rd2, %rd4, %rd1;\n\tadd.rn.f64 \t%rd5, %rd4, %rd6;\n"
    out = tools[0].contracted(text)
    assert "fma.rn.f64 \t%rd2, %factor0, %factor1, %rd4;" in out and "add.rn.f64 \t%rd5, %rd4, %rd6;" in out
    assert ".reg .b64 \t%factor<2>;" in out and out.count("fma") == 1
    stale = text.replace("\tadd.rn.f64 \t%rd2", "$L1:\n\tadd.rn.f64 \t%rd2")
    assert "fma" not in tools[0].contracted(stale)  # another way may lead there


def test_a_kernel_that_was_made_before_is_not_written_out_again(fake_cuda, monkeypatch):
    from tinyphysics.emit.scalar import ptx
    from tinyphysics.runtime.engines import backend

    @tp.hamiltonian
    def swing(q, p):
        return p**2 / 2 - 1.75 * tp.cos(q)

    def run(**more):
        backend.engine_for.cache_clear()
        far = {"q": np.array([0.5, 1e9]), "p": np.array([1.0, -1.0])}  # the second needs care
        return tp.compile(swing, dt=0.01, backend="cuda", **more).evolve(steps=5, **far)

    first = run()
    assert (
        first.hash
        == tp.compile(swing, dt=0.01, backend="llvm")
        .evolve(steps=5, q=np.array([0.5, 1e9]), p=np.array([1.0, -1.0]))
        .hash
    )
    monkeypatch.setattr(ptx, "module", lambda *parts: pytest.fail("the kernel was written out"))
    again = run()
    assert again.hash == first.hash and again.metrics["cache"]["code"] == "disk"
    with pytest.raises(pytest.fail.Exception, match="written out"):
        run(precision="float32")  # another program is not in the cache
