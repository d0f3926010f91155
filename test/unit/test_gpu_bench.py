"""Do the contenders on a GPU compute the same?  Their CUDA is run by a C++ compiler, a thread after the other; no times are looked at."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
LAUNCH = "kernel<<<blocks, threads>>>(args...);"
ESTIMATE = re.compile(r'asm\("rsqrt\.approx\.ftz\.f\d+ %0, %1;" : "=[fd]"\(y\) : "[fd]"\(r2\)\);')
SIZES = {"ensembles": (2_048, 20), "gravity": (512, 2), "fluid": (256, 4)}  # gpu_rows.SMALL
APART = {"float64": 1e-11, "float32": 1e-5}


@pytest.fixture(scope="module")
def ours():
    """The sums of our own runs on this processor, by row and precision."""
    done = subprocess.run(
        [sys.executable, str(BENCH / "gpu_ours.py"), "--small", "--backend", "llvm"],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {(x["row"], x["precision"]): x["sum"] for x in found if x.get("variant") == "exact" and "sum" in x}


def on_this_machine(name, folder):
    """What a program of bench/cuda prints when a C++ compiler makes it."""
    for path in (BENCH / "cuda").iterdir():
        text = path.read_text()
        if path.suffix == ".cuh":
            assert LAUNCH in text
            text = text.replace(LAUNCH, "one_by_one(blocks, threads, [=] { kernel(args...); });")
        (folder / path.name).write_text(ESTIMATE.sub("y = estimate(r2);", text))
    barriers = ["-DBARRIERS", "-pthread"] if name == "gravity" else []
    flags = ["-std=c++20", "-O1", "-w", "-I", str(ROOT / "test" / "cuda_on_host"), *barriers]
    subprocess.run(
        ["g++", *flags, "-x", "c++", str(folder / f"{name}.cu"), "-o", str(folder / name)], check=True
    )
    done = subprocess.run(
        [str(folder / name), *map(str, SIZES[name]), "1"], check=True, capture_output=True, text=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.all
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("name", SIZES)
def test_cuda_by_hand_computes_what_we_compute(name, ours, tmp_path):
    lines = on_this_machine(name, tmp_path)
    assert len(lines) >= 8
    moved = [x for x in lines if not x["variant"].startswith("copy")]
    for x in moved:
        wanted = ours.get((x["row"], x["precision"]))
        if wanted is None:  # a row that we do not print
            assert (x["row"], x["precision"]) == ("henon_heiles", "float32")
            wanted = ours["henon_heiles", "float64"]
        assert abs(x["sum"] / wanted - 1) < APART[x["precision"]], x
        assert x["value"] > 0
    assert len(moved) == len(lines) or name == "fluid"


def test_the_table_has_ratios_to_the_fastest_cuda_by_hand(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import gpu

    def line(contender, variant, value, total=100.0, row="pendulum", precision="float64", **more):
        return {
            "row": row,
            "precision": precision,
            "contender": contender,
            "variant": variant,
            "value": value,
            "sum": total,
            **more,
        }

    text = gpu.table(
        [
            line("CUDA by hand", "blocks of 128", 2.0),
            line("CUDA by hand", "blocks of 256", 1.5),
            line("ours", "exact", 1.65),
            line("JAX", "", 9.0, total=101.0),
            {"contender": "torch.compile", "failed": "not installed"},
            line("CUDA by hand", "pull", 50.0, row="d2q9", precision="float32"),
            line("CUDA by hand", "copy", 60.0, total=1.0, row="d2q9", precision="float32"),
            line("ours", "exact", 48.0, row="d2q9", precision="float32"),
        ]
    )
    rows = {tuple(x.strip() for x in r.split("|")[1:3]): r for r in text.splitlines() if r.startswith("| ")}
    assert (
        "| 1.10 |" in rows["pendulum, float64", "ours, exact"]
        and "; met" in rows["pendulum, float64", "ours, exact"]
    )
    assert "blocks of 256" in rows["pendulum, float64", "CUDA by hand"]
    assert "| 6.00 |" in rows["pendulum, float64", "JAX"] and "is not 100" in rows["pendulum, float64", "JAX"]
    assert "| 1.04 |" in rows["d2q9, float32", "ours, exact"]
    assert (
        "80 % of the copy" in rows["d2q9, float32", "ours, exact"]
        and "not met" in rows["d2q9, float32", "ours, exact"]
    )
    assert "torch.compile: not installed" in text


def test_a_contender_that_fails_says_why_and_what_it_had(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCH))
    import gpu

    code = "print('{\"row\": \"pendulum\"}'); raise SystemExit('no such device')"
    assert gpu.lines_of([sys.executable, "-c", code], "somebody") == [
        {"row": "pendulum", "contender": "somebody"},
        {"contender": "somebody", "failed": "no such device"},
    ]
    assert "somebody: 2 lines" in capsys.readouterr().out


def test_numbers_to_start_from_are_those_of_the_launcher_one_by_one(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import gpu_rows
    from tools_of import tool

    assert (
        gpu_rows.uniform(5, -0.3, 2.0, 1000).tolist()
        == tool("gpu_launch").uniform(5, -0.3, 2.0, 1000).tolist()
    )
    take = next(gpu_rows.stream(7))
    assert [*take(3), *take(4)] == tool("gpu_launch").uniform(7, 0.0, 1.0, 7).tolist()
