"""Do Taylor series have the bits of the processor on a GPU?  Behind the fake driver: with steps of their own, whoever looks."""

import dataclasses
import gc
import importlib
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from ptx_mix import fused, objections
from ptx_text import parsed

import tinyphysics as tp
from test_taylor import arenstorf, bodies, in_loops, kepler, mixture, pendulum, some_bodies  # noqa: F401
from tinyphysics.runtime.stages import running
from tinyphysics.context import CUDA_DEVICE
from tinyphysics.device.cuda import driver as cuda, nvptx
from tinyphysics.device.engines import cuda_series
from tinyphysics.device.cuda.rows import SHARE
from tinyphysics.device.engines.cuda_series import SeriesStream
from tinyphysics.device.engines.series import SeriesEngine
from tinyphysics.device.engines.pieces import MemberBatches
from tinyphysics.emit.kinds.series.ptx_series import PtxSeriesWriter
from tinyphysics.flows.series import series_of
from tinyphysics.synth.methods.taylor import loop_parts, loop_plan

HERE = ("cuda", "llvm")
LOOSE = dict(dt=0.4, tolerance=1e-3)
EVENTS = {"zero": lambda x: x[2], "late": lambda t: t - 0.7}


@tp.hamiltonian
def double_pendulum(q: tp.Vec[2], p: tp.Vec[2]):
    a, b = q
    u, v = p
    return (
        (u * u + 2 * v * v - 2 * u * v * tp.cos(a - b)) / (2 * (1 + tp.sin(a - b) ** 2))
        - 2 * tp.cos(a)
        - tp.cos(b)
    )


def mixtures(members):
    x = np.linspace(-1.0, 1.5, 6) + 0.1 * np.arange(members)[:, None]
    return dict(x=x, v=np.linspace(0.4, -0.7, 6) + 0 * x, k=np.linspace(0.5, 0.7, members))


def same(there, ours):
    assert there.metrics["backend"] == {"requested": "cuda", "used": "cuda"} and there.metrics["launches"] > 0
    assert there.hash == ours.hash and there.hashes == ours.hashes and there.stops == ours.stops
    assert all(np.array_equal(there.frames[s], ours.frames[s], equal_nan=True) for s in ours.frames)
    assert np.array_equal(there.metrics["substeps"], ours.metrics["substeps"])
    return there


def both(compiled, system, options, start, **how):
    return same(*(compiled(system, backend=b, **options).evolve(**start, **how) for b in HERE))


def taylor(system, **options):
    return tp.compile(system, method="taylor", **options)


# --- written out ------------------------------------------------------------------------------------------------
ORBITS = dict(q=[[0.4, 0.0], [1.0, 0.0], [1.2, 0.1]], p=[[0.0, 1.4], [0.0, 0.9], [0.1, 0.9]])
SHORT = {
    "an orbit":          (kepler, dict(tolerance=1e-5), ORBITS, dict(mu=[1.0, 1.1, 0.9])),
    "a double pendulum": (double_pendulum, dict(tolerance=1e-4, dt=0.3), dict(q=[[2.0, 1.0], [0.1, -0.3]], p=np.zeros((2, 2))), {}),
    "Arenstorf":         (arenstorf, dict(tolerance=1e-4), dict(x=[[0.994, 0.0], [0.5, 0.1]], v=[[0.0, -2.0], [0.0, 1.0]]), {}),
    "twenty digits":     (pendulum, dict(tolerance=1e-18, precision="dd"), dict(q=[2.0, 0.1], p=[0.0, 1.0]), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", SHORT)
def test_short_series_are_written_out(fake_cuda, name):
    system, options, state, params = SHORT[name]
    start = {n: np.array(v) for n, v in (state | params).items()}
    out = both(taylor, system, dict(dt=0.05) | options, start, steps=4, save_every=2, hash_every=2)
    assert (
        len(set(np.ravel(out.metrics["substeps"]))) > 1 or out.metrics["precision"] == "dd"
    )  # each has its own


def test_what_begins_with_zeros_is_not_sent_and_no_series_comes_back(fake_cuda, monkeypatch):
    monkeypatch.setattr(running, "CARRIED", 0)  # for resume=out a small run brings its loop state back
    start = dict(q=np.linspace(-1.0, 1.0, 64), p=np.zeros(64))
    sim = taylor(pendulum, tolerance=1e-12, backend="cuda")
    kept = sum(int(np.prod(s.type.shape)) for s in sim.built.program.states)
    out = sim.evolve(**start, until=0.01, frames=2)
    assert kept > 30 and out.metrics["bytes_moved"] < 64 * 8 * kept / 2  # states and clocks, there and back


# --- in loops ---------------------------------------------------------------------------------------------------
@pytest.mark.requirement("S3-21")
def test_series_in_loops_with_frames_observables_and_events(fake_cuda, in_loops):  # noqa: F811
    start, how = (
        mixtures(4),
        dict(steps=3, save_every=1, observe={"sum": lambda x: x.sum()}, observe_every=1, hash_every=1),
    )
    there, ours = (in_loops(mixture, backend=b, **LOOSE).evolve(**start, **how, events=EVENTS) for b in HERE)
    assert "SERIES" in in_loops(mixture, **LOOSE).ir("tpir")
    same(there, ours)
    assert (
        np.array_equal(there["sum"], ours["sum"])
        and there.hash == in_loops(mixture, **LOOSE).evolve(**start, steps=3).hash
    )
    for name in EVENTS:
        found, wanted = (run.events(name) for run in (there, ours))
        assert len(wanted) > 2 and np.array_equal(found.t, wanted.t) and np.array_equal(found.x, wanted.x)
        assert (
            found.member.tolist() == wanted.member.tolist()
            and found.rising.tolist() == wanted.rising.tolist()
        )


@pytest.mark.parametrize("threads, resident, warps", [(32, 32, False), (64, 128, True)])
def test_neither_the_grid_nor_the_memory_of_its_threads_change_a_bit(
    fake_cuda,
    in_loops,  # noqa: F811
    monkeypatch,
    threads,
    resident,
    warps,
):
    """With 32 threads for 75 members each has some, one after the other, in the same memory."""
    monkeypatch.setattr(cuda_series, "THREADS", threads)
    monkeypatch.setattr(cuda_series, "RESIDENT", resident)
    fake_cuda.cards[0].processors, fake_cuda.warps = 1, warps
    both(in_loops, mixture, dict(tolerance=1e-2), mixtures(75), until=0.4)
    assert {(blocks, n) for name, blocks, n in fake_cuda.launches if name == "advance"} == {
        (min(75 // 32, resident // threads) or 1, threads)
    }


def test_what_threads_need_is_given_back(fake_cuda, in_loops, monkeypatch):  # noqa: F811
    taken, workspace = [], SeriesStream.workspace

    def noted(self, blocks, scratch):
        out = workspace(self, blocks, scratch)
        taken.append(out.size)
        return out

    monkeypatch.setattr(SeriesStream, "workspace", noted)
    sim, start = in_loops(mixture, backend="cuda", **LOOSE), mixtures(3)
    hashes = {sim.evolve(**start, steps=2).hash for _ in range(2)}
    gc.collect()
    cuda.release()
    assert len(hashes) == 1 and len(set(taken)) == 1 and fake_cuda.used < taken[0]


def test_bodies_that_share_their_masses(fake_cuda, in_loops):  # noqa: F811
    start = some_bodies(3)
    many = dict(q=np.stack([start["q"], 1.1 * start["q"]]), p=np.stack([start["p"]] * 2), m=start["m"])
    both(in_loops, bodies, dict(tolerance=1e-4, sizes={"n": 3}), many, until=1.0)
    both(in_loops, bodies, dict(tolerance=1e-4, sizes={"n": 3}), start, until=1.0)


def test_members_that_meet_a_singularity_stop_alone(fake_cuda, in_loops):  # noqa: F811
    start = some_bodies(3)
    many = {name: np.stack([v] * 4) for name, v in start.items()}
    for k in (1, 2):
        many["q"][k, 1] = many["q"][k, 0]
    out = both(in_loops, bodies, dict(dt=0.2, tolerance=1e-2, sizes={"n": 3}), many, steps=2, save_every=1)
    assert [s.member for s in out.stops] == [1, 2] and out.stopped.cause == "not finite"


def test_a_checkpoint_goes_on_there_and_here(fake_cuda, in_loops, tmp_path):  # noqa: F811
    start = mixtures(2)
    whole = in_loops(mixture, **LOOSE).evolve(**start, steps=3, save_every=1)
    for first in HERE:
        in_loops(mixture, backend=first, **LOOSE).evolve(**start, steps=1, checkpoint=tmp_path / first)
        for then in HERE:
            on = in_loops(mixture, backend=then, **LOOSE).evolve(
                resume=tmp_path / first, steps=2, save_every=1
            )
            assert on.hash == whole.hash and np.array_equal(on.x, whole.x[1:])  # its first frame, too


def test_an_interrupted_run_has_what_was_saved(fake_cuda, in_loops, monkeypatch):  # noqa: F811
    start, advance, calls = mixtures(2), SeriesEngine.advance, []
    whole = in_loops(mixture, **LOOSE).evolve(**start, steps=3, save_every=1)

    def stopping(self, m, count):
        calls.append(count)
        if len(calls) == 3:
            raise KeyboardInterrupt
        advance(self, m, count)

    monkeypatch.setattr(SeriesEngine, "advance", stopping)
    out = in_loops(mixture, backend="cuda", **LOOSE).evolve(**start, steps=3, save_every=1)
    assert out.stopped.cause == "interrupted" and out.steps.tolist() == [0, 1, 2]
    assert np.array_equal(out.x, whole.x[:3])


def test_a_device_that_fails_leaves_what_was_saved(fake_cuda, in_loops):  # noqa: F811
    start = mixtures(2)
    sim = in_loops(mixture, backend="cuda", **LOOSE)
    whole = sim.evolve(**start, steps=3, save_every=1)
    fake_cuda.counts.clear()
    sim.evolve(**start, steps=1, save_every=1)
    fake_cuda.fail("cuLaunchKernel", 719, fake_cuda.counts["cuLaunchKernel"] + 1)
    out = sim.evolve(**start, steps=3, save_every=1)
    assert out.stopped.cause == "device" and np.array_equal(out.x, whole.x[: len(out.x)]) and len(out.x) == 2
    assert sim.evolve(**start, steps=3).hash == whole.hash


def test_several_cards_have_their_own_members(in_loops, tmp_path, monkeypatch):  # noqa: F811
    from fake_cuda import Card, FakeDriver, installed

    tmp_path.chmod(0o700)
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path))
    with installed(FakeDriver(Card(), Card())) as driver, CUDA_DEVICE(-1):
        start = mixtures(3)
        there, ours = (
            in_loops(mixture, backend=b, **LOOSE).evolve(**start, steps=2, save_every=1, events=EVENTS)
            for b in HERE
        )
        same(there, ours)
        assert np.array_equal(there.events("zero").t, ours.events("zero").t)
        assert all(cuda.opened(place).launches > 0 for place in cuda.taken())
    assert driver.faults == []


@pytest.fixture
def cuts(monkeypatch):
    """Into how many pieces ensembles were cut."""
    seen, cut = [], MemberBatches.cut

    def counted(self, members):
        found = cut(self, members)
        seen.append(len(found))
        return found

    monkeypatch.setattr(MemberBatches, "cut", counted)
    return seen


@pytest.mark.parametrize("loops", [True, False])
def test_members_that_do_not_fit_on_a_card_run_in_pieces(
    fake_cuda,
    in_loops,  # noqa: F811
    monkeypatch,
    tmp_path,
    cuts,
    loops,
):
    monkeypatch.setattr(cuda, "available", lambda: 8 * SHARE * 250)  # bytes for two or three members
    start, events = mixtures(5), {"zero": EVENTS["zero"]}
    runs = []
    for b in HERE:
        sim = in_loops(mixture, loops, backend=b, dt=0.4, tolerance=1e-2)
        runs.append(
            sim.evolve(**start, steps=2, save_every=1, events=events, observe={"sum": lambda x: x.sum()})
        )
    same(*runs)
    assert np.array_equal(*(run["sum"] for run in runs)) and np.array_equal(
        *(run.events("zero").t for run in runs)
    )
    there = in_loops(mixture, loops, backend="cuda", dt=0.4, tolerance=1e-2)
    there.evolve(**start, steps=1, checkpoint=tmp_path / "first")
    on = there.evolve(resume=tmp_path / "first", steps=1, save_every=1)
    assert on.hash == runs[1].hash and np.array_equal(on.x, runs[1].x[1:]) and min(cuts) > 1


def test_members_that_stop_in_pieces(fake_cuda, in_loops, monkeypatch, cuts):  # noqa: F811
    monkeypatch.setattr(cuda, "available", lambda: 8 * SHARE * 400)
    many = {name: np.stack([v] * 4) for name, v in some_bodies(3).items()}
    for k in (1, 2):
        many["q"][k, 1] = many["q"][k, 0]
    out = both(in_loops, bodies, dict(dt=0.2, tolerance=1e-2, sizes={"n": 3}), many, steps=2, save_every=1)
    assert [s.member for s in out.stops] == [1, 2] and min(cuts) > 1


def test_what_a_card_has_no_memory_for_is_said(fake_cuda, in_loops):  # noqa: F811
    sim = in_loops(mixture, backend="cuda", **LOOSE)
    fake_cuda.outside = fake_cuda.cards[0].memory - (1 << 12)
    with pytest.raises(cuda.DeviceError, match="cannot allocate"):
        sim.evolve(**mixtures(3), steps=1)
    fake_cuda.outside = 0
    assert (
        sim.evolve(**mixtures(2), steps=1).hash
        == in_loops(mixture, **LOOSE).evolve(**mixtures(2), steps=1).hash
    )


# --- the text ---------------------------------------------------------------------------------------------------
def written(sim):
    step = sim.compiled.series
    plan = loop_plan(series_of(step))
    return PtxSeriesWriter(plan, *loop_parts(plan)).module()


@pytest.mark.parametrize(
    "system, options", [(mixture, {}), (bodies, dict(sizes={"n": 5}))], ids=["mixture", "bodies"]
)
def test_the_ptx_rounds_to_nearest_and_fuses_what_the_graph_fuses(in_loops, system, options):  # noqa: F811
    sim = in_loops(system, **options)
    llvm = written(sim)
    text = nvptx.compiled(llvm)
    assert text == sim.ir("ptx")
    module = parsed(text)
    asked = len(re.findall(r"call double @llvm\.fma\.f64\(", llvm)) + 4 * len(
        re.findall(r"call <4 x double> @llvm\.fma\.v4f64\(", llvm)
    )
    assert (
        objections(module) == [] and 0.8 * asked <= fused(module) <= asked
    )  # lanes that fill a quad up are done once
    assert not {"atom", "red"} & {i.parts[0] for i in module.instructions()} and "ld.global" in text


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas of the CUDA toolkit is not installed")
@pytest.mark.parametrize("capability", [(7, 0), (9, 0)], ids=["sm_70", "sm_90"])
def test_the_assembler_takes_the_text(in_loops, tmp_path, capability):  # noqa: F811
    file = tmp_path / "series.ptx"
    file.write_text(nvptx.compiled(written(in_loops(mixture)), capability))
    arch = f"-arch=sm_{max(capability[0] * 10 + capability[1], 75)}"
    done = subprocess.run(
        ["ptxas", arch, str(file), "-o", str(tmp_path / "out")], capture_output=True, text=True
    )
    assert done.returncode == 0 and not done.stderr.strip(), done.stderr


# --- the bench --------------------------------------------------------------------------------------------------
def test_the_bench_compares_hashes_and_says_who_waits(fake_cuda, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench"))
    bench = importlib.import_module("gpu_taylor")
    assert bench.busy(np.full(40, 7)) == 1.0 and bench.busy(np.arange(1, 33)) == 33 / 64
    monkeypatch.setattr(bench, "RUNS", 1)
    monkeypatch.setattr(bench, "TOLERANCE", 1e-3)
    bench.compare("orbits", dataclasses.replace(bench.ROWS["kepler in order"], few=3, until=0.1), True, True)
    said = capsys.readouterr().out
    assert said.count("the same hash") == 1 and "ANOTHER" not in said
