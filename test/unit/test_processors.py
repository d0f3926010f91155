"""Does a program have the same bits on every processor?  Code for named ones, run here or imitated here."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import astuple
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.context import PROCESSOR, QUICK
from tinyphysics.device.host import llvm
from tinyphysics.device.host.llvm import Cpu, host_cpu
from tinyphysics.device.host.processor import missing, named, processor, runs, seed_for
from tinyphysics.errors import BackendError, InputError
from tinyphysics.physics.zoo import henon_heiles, kepler, pendulum
from tinyphysics.runtime.engines.loaders import LlvmLoader
from tinyphysics.target import PORTABLE, PROCESSORS, RSQRT14, RSQRTPS, SSE_RSQRTPS

sys.path[:0] = [str(Path(__file__).parent)]
from processors import HERE, OTHERS, imitated  # noqa: E402


@tp.hamiltonian
def cluster(q: tp.Array["n", 3], p: tp.Array["n", 3]):
    r = np.sqrt(((q[:, None] - q[None, :]) ** 2).sum(-1))
    return (p**2).sum() / 2 - tp.pair_sum(1 / r) / 100


@tp.hamiltonian
def chain(q: tp.Vec["n"], p: tp.Vec["n"]):
    d = q[1:] - q[:-1]
    return (p @ p + d @ d) / 2 + (d**4).sum() / 4 + (1 - np.cos(q)).sum()


@tp.hamiltonian
def curved(q: float, p: float):
    return p * p * (1 + q * q) / 2 + q**4 / 4


def stars(n):
    g = np.random.default_rng(0)
    return {"q": 2 * g.normal(size=(n, 3)), "p": 0.1 * g.normal(size=(n, 3))}


def orbits(n):
    e = np.linspace(0.02, 0.5, n)
    return {"q": np.stack([1 - e, 0 * e], 1), "p": np.stack([0 * e, np.sqrt((1 + e) / (1 - e))], 1)}


SWINGS = {"q": np.linspace(-2, 2, 21), "p": np.linspace(0.1, 0.3, 21)}
WAVE = {"q": np.sin(np.arange(70.0)), "p": np.cos(np.arange(70.0)) / 4}
# what it is: system, options, start, steps
PROGRAMS = {
    "one orbit": (kepler, {}, {k: v[3] for k, v in orbits(5).items()}, 9),
    "an ensemble": (kepler, {}, orbits(29), 9),
    "an ensemble, float32": (kepler, {"precision": "float32"}, orbits(29), 9),
    "sines, float32": (pendulum, {"precision": "float32"}, SWINGS, 7),
    "compensated": (henon_heiles, {"precision": "compensated"}, {k: v / 5 for k, v in orbits(13).items()}, 7),
    "pairs": (cluster, {"sizes": {"n": 21}}, stars(21), 2),
    "pairs, float32": (cluster, {"sizes": {"n": 21}, "precision": "float32"}, stars(21), 2),
    "loops": (chain, {"sizes": {"n": 70}}, WAVE, 3),
    "an implicit solve": (curved, {"method": "implicit_midpoint"}, {"q": SWINGS["q"], "p": SWINGS["p"]}, 4),
}
FAST = ["an ensemble", "an ensemble, float32", "pairs", "pairs, float32"]


@pytest.fixture(autouse=True)
def no_name():
    """Whatever processor the suite itself is run for."""
    with PROCESSOR(""):
        yield


def ran(what, backend, math="exact"):
    system, options, start, steps = PROGRAMS[what]
    with QUICK(0):  # or a run as short as these would be of single lanes
        return tp.compile(system, dt=0.01, backend=backend, math=math, **options).evolve(**start, steps=steps)


@lru_cache(maxsize=32)
def meant(what):
    """What the VM makes of it, which has no processor of its own."""
    return ran(what, "python")


WAYS = pytest.mark.parametrize(
    ("name", "way"),  # x86-64 is x86-64-v2 without instructions that matter here
    [(n, "runs") for n in HERE if n != "x86-64"] + [(n, "imitated") for n in (*OTHERS, *HERE[-1:])],
)


@contextmanager
def made_for(name, way, monkeypatch, tmp_path):
    with PROCESSOR(name) if way == "runs" else imitated(name, monkeypatch, tmp_path / "objects"):
        yield


# --- runs ---------------------------------------------------------------------------------------------
@WAYS
def test_every_processor_has_the_bits_of_the_vm(name, way, monkeypatch, tmp_path):
    expected = {what: meant(what).hash for what in PROGRAMS}
    with made_for(name, way, monkeypatch, tmp_path):
        assert {what: ran(what, "llvm").hash for what in PROGRAMS} == expected


@WAYS
def test_every_processor_has_fast_runs_within_their_errors(name, way, monkeypatch, tmp_path):
    with made_for(name, way, monkeypatch, tmp_path):
        for what in FAST:
            near = 2e-14 if "float32" not in what else 1e-5  # some roundings of numbers up to 6, and steps
            assert np.abs(ran(what, "llvm", "fast").final.q - meant(what).final.q).max() < near, what


@WAYS
@pytest.mark.parametrize("size", [1e-103, 1e40])
def test_distances_that_leave_a_range_are_as_in_exact_runs(size, name, way, monkeypatch, tmp_path):
    """r^-3 of 1e-103 is no float64, and r^2 of 1e40 no float32."""
    start = {"q": np.array([[size, 0.0], [0.0, 2 * size]] * 5), "p": np.zeros((10, 2))}
    with made_for(name, way, monkeypatch, tmp_path), QUICK(0):
        a, b = (
            tp.compile(kepler, dt=1e-300, math=m, backend="llvm", checks="off").evolve(**start, steps=2)
            for m in ("exact", "fast")
        )
    assert [(x.cause, x.step, x.member) for x in a.stops] == [(x.cause, x.step, x.member) for x in b.stops]
    assert bool(a.stops) == (size == 1e-103)
    assert np.allclose(a.final.p, b.final.p, rtol=1e-14, atol=0)


@pytest.mark.parametrize("name", HERE)
def test_the_c_compiler_makes_code_for_it_too(name):
    with PROCESSOR(name):
        out = ran("an ensemble", "c")
    assert out.hash == meant("an ensemble").hash and out.metrics["processor"] == name


def test_a_processor_with_other_roundings_would_be_seen(monkeypatch, tmp_path):
    """The comparison can fail: with a model that rounds sums of products twice, bits differ."""
    name = "x86-64-v3"
    with imitated(name, monkeypatch, tmp_path / "objects"):
        compiled = llvm.compile_text
        monkeypatch.setattr(llvm, "compile_text", lambda text, *rest: compiled(unfused(text), *rest))
        assert ran("an ensemble", "llvm").hash != meant("an ensemble").hash


def unfused(text):
    """Every fused multiply-add of vectors as a product and a sum."""
    out, k = [], 0
    for line in text.splitlines():
        if " call <" in line and "@llvm.fma." in line:
            target, _, call = line.partition(" = call ")
            vector = call[: call.index(">") + 1]
            a, b, c = (x.split("> ")[-1] for x in call[call.index("(") + 1 : -1].split(f", {vector}"))
            out.append(f"  %unfused{k} = fmul {vector} {a.strip()}, {b.strip()}")
            line, k = f"{target} = fadd {vector} %unfused{k}, {c.strip()}", k + 1
        out.append(line)
    assert k
    return "\n".join(out) + "\n"


# --- text ---------------------------------------------------------------------------------------------
# name: doubles in a vector, fused multiply-add, what 1/sqrt x begins with, a word of its assembly
TABLE = {
    "x86-64": (2, False, SSE_RSQRTPS, "%xmm"),
    "x86-64-v2": (2, False, SSE_RSQRTPS, "%xmm"),
    "x86-64-v3": (4, True, RSQRTPS, "%ymm"),
    "x86-64-v4": (8, True, RSQRT14, "vrsqrt14pd\t%zmm"),
    "armv8-a": (2, True, PORTABLE, "fmla\tv"),
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_text_is_made_for_every_processor_whatever_this_one_is(name):
    width, fused, seed, word = TABLE[name]
    cpu = named(name)
    assert (cpu.width, cpu.has_fma, seed_for(cpu)) == (width, fused, seed)
    sims = {
        "lanes": tp.compile(kepler, dt=0.01, math="fast", backend="llvm"),
        "loops": tp.compile(cluster, dt=0.01, math="fast", backend="llvm", sizes={"n": 40}),
    }
    with PROCESSOR(name):
        for sim in sims.values():
            assert f"<{width} x double>" in sim.ir("llvm") and word in sim.ir("asm")
        assert ("rsqrt" in sims["lanes"].ir("asm")) == bool(seed.name)
        row = next(r for s in sims["lanes"].explain("full").sections for r in s.rows if r.name == "processor")
    assert name in astuple(row) and host_cpu().name in str(row)
    assert "named by" not in str(sims["lanes"].explain("full"))


# --- one place -----------------------------------------------------------------------------------------
def test_a_run_says_that_a_processor_was_named():
    assert "processor" not in ran("one orbit", "llvm").metrics
    with PROCESSOR(HERE[0]):
        assert ran("one orbit", "llvm").metrics["processor"] == HERE[0]
        assert "processor" not in ran("one orbit", "numpy").metrics  # whose code is NumPy's
    assert "processor" not in ran("one orbit", "llvm").metrics


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_code_that_this_processor_cannot_execute_is_refused(backend):
    name = OTHERS[0] if host_cpu().x86 else "x86-64"
    with PROCESSOR(name):
        with pytest.raises(BackendError, match=f"code for `{name}` does not run on this processor"):
            ran("an ensemble", backend)
        assert ran("an ensemble", "numpy").hash == meant("an ensemble").hash


def test_a_processor_lacks_what_its_host_has_not():
    older = Cpu("x86-64-v3", named("x86-64-v3").features, host_cpu().triple)
    both = Cpu("x86-64-v3", f"{older.features},+no-such-thing", host_cpu().triple)
    assert "no-such-thing" in missing(both) and missing(host_cpu()) == ()
    with pytest.raises(BackendError, match="lacks no-such-thing" if not missing(older) else "lacks"):
        runs(both)


def test_an_unknown_name_is_an_error_that_lists_the_known_ones():
    with PROCESSOR("pentium"), pytest.raises(InputError, match="no processor `pentium`.*\n.*`x86-64-v3`"):
        tp.compile(kepler, dt=0.01).ir("llvm")


def test_objects_of_two_processors_are_never_mixed(monkeypatch, tmp_path):
    folder = tmp_path / "objects"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(folder))
    names = {}
    for name in (*HERE, ""):
        before = set(os.listdir(folder))
        with PROCESSOR(name):
            ran("an ensemble", "llvm", "fast")
        names[name] = set(os.listdir(folder)) - before
        assert any(n.endswith(".o") for n in names[name]), name
    assert len(set.union(*names.values())) == sum(map(len, names.values()))


def test_the_environment_names_it_and_threads_keep_it():
    code = (
        "import tinyphysics as tp\n"
        "from tinyphysics.device.host.processor import processor\n"
        "from tinyphysics.context import PROCESSOR\n"
        "from tinyphysics.device.host.threads import spread\n"
        "print(processor().width)\n"
        "with PROCESSOR('x86-64-v4'):\n"
        "    print(*spread(lambda k: processor().width, 8, 4))\n"
    )
    env = {**os.environ, "TINYPHYSICS_PROCESSOR": "x86-64-v2", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", *["8"] * 8]


def test_a_loader_takes_the_processor_that_is_named():
    with PROCESSOR("x86-64-v4"):
        assert LlvmLoader().cpu == processor() == named("x86-64-v4") and LlvmLoader().core.registers == 32
    assert LlvmLoader().cpu == host_cpu()
