"""Does `tp` do what it says, and say what went wrong without a traceback?"""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.cli import main
from tinyphysics.physics.zoo import ZOO
from tinyphysics.target import BUILT
from tinyphysics.tpir import parse

from here import HERE, need

SOURCE = Path(__file__).parents[2] / "src"

SPRING = """
import tinyphysics as tp

@tp.hamiltonian
def spring(q, p, k=1.0):
    return p**2/2 + k*q**2/2

start = dict(q=1.0, p=0.0)
dt = 0.1
steps = 20
"""

SEVERAL = """
import numpy as np
import tinyphysics as tp

@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)

@tp.map
def cat(x, y):
    return (2*x + y) % 1.0, (x + y) % 1.0

@tp.hamiltonian
def chain(q: tp.Vec["n"], p: tp.Vec["n"]):
    return p @ p / 2 + (np.diff(q)**2).sum() / 2

class Well(tp.PhysicsSystem):
    def __init__(self):
        self.depth = 2.0
    def energy(self, q, p):
        return p**2/2 + self.depth * q**2
well = Well()
again = well
"""


@pytest.fixture
def file(tmp_path):
    def write(text, name="system.py"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def tp_(capsys, *argv):
    """(exit code, stdout, stderr)"""
    code = main([str(a) for a in argv])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return code, out, err


# --- run --------------------------------------------------------------------------------------
def test_run_takes_start_dt_and_steps_from_the_file(capsys, file):
    code, out, err = tp_(capsys, "run", file(SPRING))
    assert (code, err) == (0, "")
    assert "spring: exact_flow, 20 steps to t = 2" in out
    expected = tp.compile(ZOO["oscillator"].system, 0.1).evolve(q=1.0, p=0.0, steps=20)
    assert f"hash={expected.hash}" in out


def test_options_win_over_the_file(capsys, file):
    argv = ["--dt", "0.05", "--until", "1", "--method", "yoshida4", "--set", "q=2", "--set", "k=4"]
    code, out, _ = tp_(capsys, "run", file(SPRING), *argv)
    expected = tp.compile(ZOO["oscillator"].system, 0.05, method="yoshida4").evolve(
        q=2.0, p=0.0, k=4.0, steps=20
    )
    assert code == 0 and f"hash={expected.hash}" in out


def test_run_in_float32_writes_float32_frames(capsys, file, tmp_path):
    code, _, err = tp_(
        capsys, "run", file(SPRING), "--precision", "float32", "--out", tmp_path / "frames.npz"
    )
    assert (code, err) == (0, "") and np.load(tmp_path / "frames.npz")["q"].dtype == np.float32
    code, _, err = tp_(capsys, "run", file(SPRING), "--precision", "float16")
    assert code and "precision may be `float64`, `float32`" in err


@pytest.mark.requirement("S1-45")
@pytest.mark.parametrize("backend", BUILT)
def test_the_perf_line_adds_up(capsys, file, backend):
    need(backend)
    _, out, _ = tp_(capsys, "run", file(SPRING), "--steps", 500, "--backend", backend)
    line = next(line for line in out.splitlines() if line.startswith("[perf]"))
    number = r"([0-9.e+-]+)"
    found = re.fullmatch(
        rf"\[perf\] rollout={number}s ns/step={number} steps/s={number} backend=(\w+) fft=none dtype=(\w+) hash=([0-9a-f]{{32}})",
        line,
    )
    assert found is not None, line
    rollout, ns, rate = (float(x) for x in found.groups()[:3])
    assert ns * 1e-9 * 500 == pytest.approx(rollout, rel=0.01)
    assert rate * rollout == pytest.approx(500, rel=0.01)
    assert found[4] == backend and found[5] == "float64"


def test_vectors_matrices_and_ensembles_can_be_set(capsys, file):
    several = file(SEVERAL)
    code, out, _ = tp_(
        capsys, "run", f"{several}:kepler", "--dt", 0.02, "--steps", 5, "--set", "q=1,0", "--set", "p=0,1.2"
    )
    assert code == 0 and "-0.28 at the start" in out
    code, out, _ = tp_(
        capsys,
        "run",
        f"{several}:kepler",
        "--dt",
        0.02,
        "--steps",
        5,
        "--set",
        "q=[[1,0],[2,0]]",
        "--set",
        "p=0,1.2",
    )
    assert code == 0 and "energy of 2 members" in out


def test_a_family_takes_its_size_from_the_start(capsys, file):
    code, out, _ = tp_(
        capsys,
        "run",
        f"{file(SEVERAL)}:chain",
        "--dt",
        0.1,
        "--steps",
        3,
        "--set",
        "q=1,0,0,0",
        "--set",
        "p=0,0,0,0",
    )
    assert code == 0 and "chain" in out


def test_maps_run_without_a_step(capsys, file):
    code, out, _ = tp_(
        capsys, "run", f"{file(SEVERAL)}:cat", "--steps", 3, "--set", "x=0.1", "--set", "y=0.2"
    )
    assert code == 0 and "energy" not in out


def test_the_archive_holds_the_frames(capsys, file, tmp_path):
    target = tmp_path / "run.npz"
    code, out, _ = tp_(capsys, "run", file(SPRING), "--save-every", 5, "--out", target)
    assert code == 0 and "wrote" in out
    expected = tp.compile(ZOO["oscillator"].system, 0.1).evolve(q=1.0, p=0.0, steps=20, save_every=5)
    with np.load(target) as data:
        assert np.array_equal(data["q"], expected.q) and np.array_equal(data["t"], expected.t)
        assert np.array_equal(data["energy"], expected.energy) and str(data["hash"]) == expected.hash
    assert list(tmp_path.glob("*.partial")) == []


def test_two_frames_say_nothing_about_the_energy_between_them(capsys, file):
    assert "largest change" not in tp_(capsys, "run", file(SPRING), "--frames", 2)[1]
    for options in ([], ["--save-every", 1], ["--frames", 40]):
        assert "of that at the start, in 21 frames" in tp_(capsys, "run", file(SPRING), *options)[1]


def test_a_run_that_blows_up_says_where_and_exits_with_one(capsys, file):
    code, out, _ = tp_(capsys, "run", file(SPRING), "--dt", "1e200", "--method", "leapfrog")
    assert code == 1 and "stopped: not finite at step 1" in out and "[perf]" in out


def test_what_the_file_prints_does_not_mix_with_the_output(capsys, file):
    _, out, err = tp_(capsys, "ir", file("print('hello')\n" + SPRING))
    assert out.startswith("program") and "hello" in err


def test_a_file_may_import_its_neighbours(capsys, file):
    file("K = 3.0\n", "constants_of_mine.py")
    code, _, _ = tp_(capsys, "run", file("from constants_of_mine import K\n" + SPRING))
    assert code == 0


# --- explain, ir, demo, version ---------------------------------------------------------------
def test_explain_prints_the_report_with_the_lines_of_the_file(capsys, file):
    code, out, _ = tp_(capsys, "explain", "--full", f"{file(SEVERAL)}:kepler")
    assert code == 0 and out.startswith("kepler: H = ")
    assert "certificate\n  symplectic         yes" in out
    assert "is not a polynomial of the state  (system.py:7)" in out


def test_explain_and_ir_need_no_step(capsys, file):
    several = file(SEVERAL)
    for name in ("kepler", "cat", "well"):
        assert tp_(capsys, "explain", f"{several}:{name}")[0] == 0
    assert tp_(capsys, "explain", f"{several}:chain", "--size", "n=4")[0] == 0


def test_ir_prints_what_the_simulation_prints(capsys, file):
    sim = tp.compile(ZOO["oscillator"].system, 0.1)
    code, out, _ = tp_(capsys, "ir", file(SPRING))
    assert code == 0 and parse(out) == parse(sim.ir("tpir"))
    code, out, _ = tp_(capsys, "ir", file(SPRING), "--level", "uop")
    bare = [
        re.sub(r"\s+;.*", "", text) for text in (out, sim.ir("uop"))
    ]  # the files differ, the graph does not
    assert code == 0 and bare[0].split() == bare[1].split()


@pytest.mark.parametrize("name", ZOO)
def test_every_demo_explains_runs_draws_and_says_how_fast_it_is(capsys, name):
    code, out, err = tp_(capsys, "demo", name, "--seconds", "0.01")
    assert (code, err) == (0, "")
    assert ZOO[name].about in out and "proved" in out and "runs on" in out
    assert any(0x2800 < ord(c) <= 0x28FF for c in out)
    assert re.search(r"one run +[\d,]{5,} steps in .* a second, .* a step", out)
    assert re.search(r"4,096 runs +[\d,]{7,} steps in .* a second, on \d+ core", out)
    assert ("energy      off by" in out) == (name not in ("henon", "driven_pendulum"))


def test_the_demo_without_a_name_is_kepler_and_ends_with_what_to_type_next(capsys, monkeypatch, tmp_path):
    _, out, _ = tp_(capsys, "demo", "--seconds", "0.01")
    assert "def kepler" in out and "orbit" in out and "energy error" in out
    typed = out.partition("what to type next\n")[2]
    assert "tp demo --list" in typed and "tp demo henon_heiles" in typed
    monkeypatch.chdir(tmp_path)
    exec(textwrap.dedent(typed.partition("or, in Python:\n")[2]), {})
    assert (tmp_path / "kepler.png").read_bytes()[:4] == b"\x89PNG"


def test_the_demos_are_listed(capsys):
    code, out, _ = tp_(capsys, "demo", "--list")
    assert code == 0 and all(re.search(rf"^  {name} +{demo.about}$", out, re.M) for name, demo in ZOO.items())


def test_a_demo_is_timed_for_as_long_as_asked(capsys):
    code, _, err = tp_(capsys, "demo", "--seconds", "0")
    assert code == 2 and "--seconds 1" in err


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"tinyphysics {tp.__version__}\n"


# --- doctor -----------------------------------------------------------------------------------
def test_the_doctor_compares_every_backend(capsys):
    code, out, _ = tp_(capsys, "doctor")
    assert (
        code == 0
        and f"every backend{'' if len(HERE) == len(BUILT) else ' that is here'} gives the same bits" in out
    )
    hashes = {b: re.search(rf"^  {b}\s+([0-9a-f]{{32}})$", out, re.M) for b in HERE}
    assert all(hashes.values()) and len({h[1] for h in hashes.values()}) == 1
    for word in ("python", "platform", "cpu", "numpy", "llvmlite", "rich", "compilers", "cache"):
        assert word in out


def test_the_doctor_notices_a_backend_with_other_bits(capsys, monkeypatch):
    monkeypatch.setattr("tinyphysics.doctor.self_test", lambda: {b: f"{k:032x}" for k, b in enumerate(BUILT)})
    code, out, _ = tp_(capsys, "doctor")
    assert code == (1 if len(BUILT) > 1 else 0)
    assert ("NOT well" in out) == (len(BUILT) > 1)


def test_the_doctor_goes_on_when_a_backend_fails(capsys, monkeypatch):
    def broken(*args, **options):
        raise RuntimeError("no compiler")

    monkeypatch.setattr("tinyphysics.doctor.compiled", broken)
    code, out, _ = tp_(capsys, "doctor")
    assert code == 1 and "FAILED: RuntimeError: no compiler" in out


# --- what goes wrong --------------------------------------------------------------------------
WRONG = [
    ("", ["--steps", "3"], "no system at module level", "@tp.hamiltonian"),
    (
        "import tinyphysics as tp\nclass Well(tp.PhysicsSystem):\n  def energy(self, q, p): return p**2\n",
        [],
        "no system",
        "well = Well()",
    ),
    ("def f(:\n", [], "is not Python", "system.py:1"),
    ("import numpy\nx = 1/0\n", [], "ZeroDivisionError", "system.py:2"),
    ("import sys\nsys.exit(3)\n", [], "SystemExit: 3", "system.py:2"),
    (
        "import tinyphysics as tp\n@tp.hamiltonian\ndef f(q, p):\n    return p**2 if q < 1 else q\n",
        [],
        "truth value",
        "system.py:4",
    ),
    (SPRING + "start = [1, 2]\n", [], "`start`", "start = dict("),
    (SPRING.replace("dt = 0.1", ""), [], "the step of `spring` is missing", "--dt 0.01"),
    (SPRING.replace("steps = 20", ""), [], "how long", "--steps 1000"),
    (SPRING.replace("p=0.0)", ")"), [], "the initial `p` is missing", "--set p="),
    (SPRING, ["--set", "mu=3"], "no state or parameter `mu`", "q, p, k"),
    (SPRING, ["--set", "steps=3"], "no state or parameter `steps`", "q, p, k"),
    (SPRING, ["--set", "q=abc"], "--set q=abc", "--set mu=2"),
    (SPRING, ["--set", "q"], "--set q", "--set mu=2"),
    (SPRING, ["--frames", "1"], "frames=1 is less than 2", "frames=2"),
    (SPRING, ["--method", "leepfrog"], "no method `leepfrog`", "`leapfrog`"),
    (SPRING, ["--backend", "abacus"], "no backend `abacus`", "Backends:"),
    (SPRING, ["--out", "frames.txt"], "not a NumPy archive", "frames.npz"),
    (SPRING, ["--out", "/no/such/folder/frames.npz"], "not a directory", "/no/such/folder"),
    (SPRING, ["--steps", "-4"], "steps=-4", "0"),
]


@pytest.mark.parametrize(("text", "options", "what", "fix"), WRONG)
def test_errors_say_what_happened_and_what_to_write(capsys, file, text, options, what, fix):
    code, out, err = tp_(capsys, "run", file(text), *options)
    assert (code, out) == (2, "")
    assert what in err and fix in err


def test_a_missing_file_is_named(capsys):
    code, _, err = tp_(capsys, "explain", "nowhere.py:kepler")
    assert code == 2 and "there is no file `nowhere.py`" in err


def test_several_systems_are_listed_and_one_is_named(capsys, file):
    several = file(SEVERAL)
    code, _, err = tp_(capsys, "run", several)
    assert code == 2 and "4 systems" in err and "kepler, cat, chain, well" in err
    code, _, err = tp_(capsys, "run", f"{several}:kepller")
    assert code == 2 and "Did you mean `kepler`?" in err


def test_an_open_size_asks_for_it(capsys, file):
    code, _, err = tp_(capsys, "explain", f"{file(SEVERAL)}:chain")
    assert code == 2 and "--size n=16" in err


def test_unknown_demos_and_levels(capsys, file):
    code, _, err = tp_(capsys, "demo", "keppler")
    assert code == 2 and "Did you mean `kepler`?" in err
    code, _, err = tp_(capsys, "ir", file(SPRING), "--level", "tpri")
    assert code == 2 and "Levels:" in err


# --- as a process -----------------------------------------------------------------------------
def command(*argv, **options):
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.Popen(
        [sys.executable, "-m", "tinyphysics", *map(str, argv)],
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


@pytest.mark.slow("nothing is lost")
def test_ctrl_c_prints_what_the_run_has(file):
    process = command(
        "run", file("print('ready', flush=True)\n" + SPRING), "--steps", 10**15, "--method", "leapfrog"
    )
    try:
        assert process.stderr.readline() == "ready\n"
        time.sleep(
            3
        )  # the run begins after the file is read; what is tested does not depend on how far it comes
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()  # a run of 10**15 steps must not outlive its test
    assert process.returncode == 130 and "Traceback" not in err
    assert "stopped: interrupted at step" in out and "[perf]" in out


def test_a_reader_that_stops_early_is_not_an_error(file):
    process = command("ir", file(SPRING))
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()


def test_a_terminal_without_utf8_is_drawn_on_in_ascii():
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "tinyphysics", "demo", "henon", "--seconds", "0.01"],
        env=env,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert all(byte < 128 for byte in done.stdout) and b"x and y" in done.stdout


# --- long runs ------------------------------------------------------------------------------------
def hash_of(told):
    return re.search(r"hash=(\w+)", told).group(1)


def test_the_same_command_again_finishes_what_it_began(tmp_path, capsys):
    file = tmp_path / "spring.py"
    file.write_text(SPRING)
    code, whole, _ = tp_(capsys, "run", file, "--steps", 50, "--save-every", 7)
    common = [
        "run",
        file,
        "--save-every",
        7,
        "--checkpoint",
        tmp_path / "c",
        "--checkpoint-every",
        5,
        "--save",
        tmp_path / "run.zarr",
        "--resume",
    ]
    code, out, err = tp_(capsys, *common, "--steps", 20)
    assert code == 0 and "from the beginning" in err and "20 steps to t = 2" in out
    code, out, err = tp_(capsys, *common, "--steps", 50)
    assert (
        code == 0 and "from step 20" in err and hash_of(out) == hash_of(whole) and "50 steps to t = 5" in out
    )
    code, out, _ = tp_(capsys, *common, "--steps", 50)
    assert code == 0 and hash_of(out) == hash_of(whole)
    code, out, _ = tp_(capsys, *common, "--until", 6)
    assert code == 0 and "60 steps to t = 6" in out
    code, _, err = tp_(capsys, *common, "--steps", 20)
    assert code == 2 and "is already at step 60, beyond --steps 20" in err
    code, out, _ = tp_(capsys, "replay", tmp_path / "run.zarr")
    assert code == 0 and "all 10 frames to step 60" in out


@pytest.mark.parametrize(
    "arguments, what",
    [
        (["--resume"], "--resume needs --checkpoint"),
        (["--checkpoint-every", "5"], "checkpoint_every= needs checkpoint="),
        (["--checkpoint", "."], "is a directory"),
        (["--checkpoint", "spring.py"], "is not a checkpoint"),
        (["--save", "spring.py"], "is not the store of a run"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_gone_on_with_is_said(tmp_path, monkeypatch, capsys, arguments, what):
    monkeypatch.chdir(tmp_path)
    Path("spring.py").write_text(SPRING)
    code, _, err = tp_(capsys, "run", "spring.py", *arguments)
    assert code == 2 and what in err and Path("spring.py").read_text() == SPRING


NOT_SAID = SPRING.replace("start = dict(q=1.0, p=0.0)", "")
MISTAKES = {
    "a size that it has not": (SPRING, ["--size", "n=3"], "has no size `n`", "have no letters"),
    "a checkpoint to come": (NOT_SAID, ["--checkpoint", "no.checkpoint", "--resume"], "`q` and the initial `p` are missing", "--set q=1.0"),
    "a directory that is not": (SPRING, ["--out", "no/such/run.npz"], "not a directory you can write to", "another --out"),
    "a file that fails": ("1/0", [], "ZeroDivisionError", "See all of it: python"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_on_the_command_line_is_told_with_what_to_pass(capsys, file, name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    text, options, what, fix = MISTAKES[name]
    code, _, err = tp_(capsys, "run", file(text), *options)
    assert code == 2 and what in err and fix in err


def test_a_replay_of_nothing_says_how_a_store_is_written(capsys, tmp_path):
    code, _, err = tp_(capsys, "replay", str(tmp_path / "no.zarr"))
    assert code == 2 and "there is no store" in err and "save=" in err
