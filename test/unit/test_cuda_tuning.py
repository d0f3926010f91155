"""How do members lie on a GPU?  Tried once before long runs, behind the fake driver; no bit depends on what is chosen."""

from __future__ import annotations

import numpy as np
import pytest
from fake_cuda import Card, FakeDriver, Refused, forget, installed

import tinyphysics as tp
from test_parity import ensemble, henon_heiles, kepler, pendulum
from tinyphysics.context import CUDA_DEVICE, CUDA_TUNE
from tinyphysics.device import cache
from tinyphysics.device.cuda import rows as cuda_rows
from tinyphysics.device.engines import cuda_lanes
from tinyphysics.device.cuda import tuning as cuda_tuning
from tinyphysics.device.cuda.tuning import BLOCKS, MEMBERS, ThreadLayout
from tinyphysics.errors import BackendError

SWING = dict(q=1.0, p=0.3)
TRAPPED = dict(q=[0.1, 0.2], p=[0.3, -0.1])
MANY = 101  # members: odd, so that every form but one has lanes that nobody asked for


class Timed(FakeDriver):
    """A driver whose clock goes by the form of the loop: all take the same time but one."""

    def __init__(self, *cards: Card) -> None:
        super().__init__(*cards)
        self.quick: tuple[int, int] | None = None  # (blocks, threads) of the form that takes half the time
        self.tries: list[tuple[int, int]] = []

    def _cuEventElapsedTime(self, out, a, b):
        blocks, threads = next(shape for name, *shape in reversed(self.launches) if name in ("step", "watch"))
        self.tries.append((blocks, threads))
        out._obj.value = 0.5 if (blocks, threads) == self.quick else 1.0


@pytest.fixture
def small_blocks(monkeypatch):
    """Forms for few members: blocks of 4, 8 and 16 threads, and every thread one of two processors."""
    monkeypatch.setattr(cuda_tuning, "BLOCKS", (4, 8, 16))
    monkeypatch.setattr(cuda_rows, "THREADS", 8)


@pytest.fixture
def driver(tmp_path, monkeypatch, small_blocks):
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path))
    tmp_path.chmod(0o700)
    with installed(Timed()) as d:
        yield d
    assert d.faults == []


def again(d):
    """As in another process: nothing is remembered but what is on the disk."""
    forget()
    d.tries.clear()
    d.launches.clear()


def run(system=pendulum, start=SWING, members=MANY, steps=6, **how):
    return tp.compile(system, dt=0.1, backend="cuda").evolve(**ensemble(start, members), steps=steps, **how)


def ours(system=pendulum, start=SWING, members=MANY, steps=6, **how):
    return tp.compile(system, dt=0.1, backend="llvm").evolve(**ensemble(start, members), steps=steps, **how)


# --- the choice -------------------------------------------------------------------------------------------
def test_the_fastest_is_chosen_and_an_estimate_that_is_hardly_slower_stays():
    forms = [ThreadLayout(1, 128), ThreadLayout(2, 128), ThreadLayout(4, 64)]
    assert cuda_tuning.fastest(forms, lambda f: 1 / f.members) == ThreadLayout(4, 64, "tuned")
    assert cuda_tuning.fastest(forms, lambda f: 1 - 0.004 * f.members) == ThreadLayout(1, 128, "tuned")


def test_a_form_that_cannot_be_built_is_left_out():
    def milliseconds(form):
        if form.members == 4:
            raise BackendError("no such kernel")
        return 1 / form.members

    assert cuda_tuning.fastest([ThreadLayout(n, 128) for n in MEMBERS], milliseconds) == ThreadLayout(
        2, 128, "tuned"
    )
    assert cuda_tuning.fastest([ThreadLayout(4, 128)], milliseconds) is None


def test_what_fails_in_a_later_round_is_left_out():
    calls = []

    def milliseconds(form):
        calls.append(form)
        if form.members == 2 and calls.count(form) > 2:
            raise BackendError("no more")
        return 1 / form.members

    assert cuda_tuning.fastest([ThreadLayout(1, 128), ThreadLayout(2, 128)], milliseconds) == ThreadLayout(
        1, 128, "tuned"
    )


def test_candidates_divide_the_lanes_and_give_every_processor_a_block():
    every = cuda_tuning.candidates(ThreadLayout(4, 128), 2**22, 2**22, 132)
    assert every[0] == ThreadLayout(4, 128) and set(every) == {
        ThreadLayout(n, b) for n in MEMBERS for b in BLOCKS
    }
    assert len(every) == len(set(every))
    few = cuda_tuning.candidates(ThreadLayout(1, 128), 20_000, 20_000, 132)
    assert {f.members for f in few} == {1}
    assert {f.members for f in cuda_tuning.candidates(ThreadLayout(1, 128), 2**22, 2**22 + 2, 132)} == {1, 2}


@pytest.mark.parametrize("steps, long", [(1000, False), (100_000, False), (10_000_000, True)])
def test_a_run_is_long_if_trying_costs_a_twentieth_of_it(steps, long):
    one_step = cuda_tuning.seconds(29, 2**22, 132)  # pendulums on an H200, where a step is 6.7 µs
    assert one_step < 6.7e-6, "a bound from below: nothing is tried too soon"
    assert cuda_tuning.is_long(one_step, steps) is long
    assert 0 < cuda_tuning.steps_of_a_try(one_step, 10**6) * one_step <= cuda_tuning.SPAN
    assert cuda_tuning.steps_of_a_try(10.0, 10**6) == 1 and cuda_tuning.steps_of_a_try(0.0, 7) == 7


# --- runs -------------------------------------------------------------------------------------------------
def test_small_runs_try_nothing_and_keep_nothing(driver, tmp_path):
    out = run()
    assert out.metrics["shape"] == {"interleave": 1, "block": 8, "chosen": "estimated"}
    assert not driver.tries and not [*tmp_path.glob("*.form")] and driver.counts["cuEventCreate"] == 0


def test_a_long_run_takes_what_was_faster_keeps_it_and_has_the_same_bits(driver, tmp_path):
    driver.quick = (13, 4)  # two members for each thread: 104 lanes are 52 threads in blocks of 4
    with CUDA_TUNE(2):
        out = run(frames=2)
    assert out.metrics["shape"] == {"interleave": 2, "block": 4, "chosen": "tuned"}
    assert len(set(driver.tries)) > 5 and len([*tmp_path.glob("*.form")]) == 1
    assert [x for x in driver.launches if x[0] == "step"][-1] == ("step", 13, 4)
    assert out.hash == ours().hash


def test_the_next_process_takes_it_from_the_disk_without_trying(driver, tmp_path):
    driver.quick = (13, 4)
    with CUDA_TUNE(2):
        first = run()
    (file,) = tmp_path.glob("*.form")
    written, made = file.stat().st_mtime_ns, len(driver.texts)
    again(driver)
    driver.quick = None
    with CUDA_TUNE(2):
        out = run()
    assert (
        out.metrics["shape"] == {"interleave": 2, "block": 4, "chosen": "cached"} and out.hash == first.hash
    )
    assert not driver.tries and file.stat().st_mtime_ns == written
    assert len(driver.texts) == made, "nor is anything assembled: the kernel that won was kept whole"
    again(driver)
    assert run().metrics["shape"]["chosen"] == "cached", "a small run takes what is known, too"


def test_a_run_that_is_long_by_its_work_tries(driver, monkeypatch):
    monkeypatch.setattr(cuda_tuning, "RATE", 1.0)  # operations a second
    driver.quick = (26, 4)
    assert run().metrics["shape"] == {"interleave": 1, "block": 4, "chosen": "tuned"}
    assert len(driver.tries) == 4 * len(set(driver.tries))


def test_once_in_a_process(driver):
    with CUDA_TUNE(2):
        run()
        tried = len(driver.tries)
        assert tried and run().metrics["shape"]["chosen"] == "tuned" and len(driver.tries) == tried


def test_the_flag_switches_it_off(driver, monkeypatch):
    driver.quick = (13, 4)
    with CUDA_TUNE(2):
        run()
    monkeypatch.setattr(cuda_tuning, "RATE", 1.0)
    tried = len(driver.tries)
    with CUDA_TUNE(0):
        assert run().metrics["shape"] == {"interleave": 1, "block": 8, "chosen": "estimated"}
    assert len(driver.tries) == tried


def test_too_few_members_for_a_choice_try_nothing(driver):
    with CUDA_TUNE(2):
        assert run(members=15).metrics["shape"]["chosen"] == "estimated"
    assert not driver.tries


@pytest.mark.parametrize(
    "damage", [b"", b"null", b"[3, 8]", b"[2, 5]", b"[2]", b"\xff", b'{"a": 1}', b"[[1], 8]", "torn"]
)
def test_a_damaged_entry_is_ignored_and_written_again(driver, tmp_path, damage):
    driver.quick = (13, 4)
    with CUDA_TUNE(2):
        first = run()
        (file,) = tmp_path.glob("*.form")
        good = file.read_bytes()
        if damage == "torn":
            file.write_bytes(good[:-3])
        else:
            cache.write(file.name, damage)
        again(driver)
        out = run()
    assert out.metrics["shape"] == first.metrics["shape"] and driver.tries and out.hash == first.hash
    assert file.read_bytes() == good


@pytest.mark.parametrize("which", ["launch", "assembly"])
def test_forms_that_the_driver_refuses_are_left_out(driver, monkeypatch, which):
    driver.quick, refused = (13, 4), []
    launch, link = driver._cuLaunchKernel, driver._cuLinkAddData_v2

    def launching(function, *rest):
        if which == "launch" and rest[3] == 4:
            refused.append(rest[:4])
            raise Refused(701)
        launch(function, *rest)

    def linking(state, kind, data, *rest):
        if which == "assembly" and len(driver.texts) > 1:  # of the run there are its kernels and the tools
            refused.append(data[:20])
            raise Refused(218)
        link(state, kind, data, *rest)

    monkeypatch.setattr(driver, "_cuLaunchKernel", launching)
    monkeypatch.setattr(driver, "_cuLinkAddData_v2", linking)
    with CUDA_TUNE(2):
        out = run()
    shape = out.metrics["shape"]
    assert (
        refused
        and shape["chosen"] == "tuned"
        and (shape["block"] != 4 if which == "launch" else shape["interleave"] == 1)
    )
    assert out.hash == ours().hash


def test_without_memory_for_a_copy_the_estimate_runs(driver, monkeypatch):
    def none(self):
        raise BackendError("no memory")

    monkeypatch.setattr(cuda_rows.DeviceRows, "like", none)
    with CUDA_TUNE(2):
        out = run()
    assert out.metrics["shape"]["chosen"] == "estimated" and out.hash == ours().hash


@pytest.mark.thin(rows=5)
@pytest.mark.parametrize("quick", [(26, 4), (13, 4), (7, 4), (7, 16), (4, 8), (2, 16)])
@pytest.mark.parametrize(
    "how",
    [{}, dict(save_every=2, hash_every=3), dict(observe={"c": lambda q: tp.cos(q)}, observe_every=2)],
    ids=["final", "frames", "watched"],
)
def test_no_form_changes_a_bit(driver, quick, how):
    driver.quick = quick
    start = ensemble(SWING, MANY)
    start["q"][[3, 4, 50, 100]] = [1e12, -3e15, 1e22, 1e5]  # done again, carefully
    with CUDA_TUNE(2):
        there = tp.compile(pendulum, dt=0.1, backend="cuda").evolve(**start, steps=12, **how)
    here = tp.compile(pendulum, dt=0.1, backend="llvm").evolve(**start, steps=12, **how)
    assert there.metrics["shape"]["chosen"] == "tuned" and there.metrics["shape"]["block"] == quick[1]
    assert there.hash == here.hash and there.hashes == here.hashes
    assert all(np.array_equal(there[name], here[name]) for name in how.get("observe", {}))


def test_parameters_of_each_member_and_members_that_fail(driver):
    driver.quick = (7, 4)
    start = ensemble(dict(q=[1.0, 0.0], p=[0.0, 1.2]), MANY)
    for k in (1, 2, 77):
        start["q"][k], start["p"][k] = 0.0, 0.0
    how = dict(steps=9, save_every=3, mu=np.linspace(0.9, 1.1, MANY))
    with CUDA_TUNE(2):
        there = tp.compile(kepler, dt=0.02, backend="cuda").evolve(**start, **how)
    here = tp.compile(kepler, dt=0.02, backend="llvm").evolve(**start, **how)
    assert there.metrics["shape"] == {"interleave": 4, "block": 4, "chosen": "tuned"}
    assert there.hash == here.hash and there.stopped == here.stopped and there.metrics["not_finite"] == 3


def test_an_ensemble_in_parts(tmp_path, monkeypatch, small_blocks):
    """Tiles come from this machine's memory again after every block: each takes what was found for its size."""
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path))
    monkeypatch.setattr(cuda_lanes.CudaEngine, "room", 4 * 64)
    monkeypatch.setattr("tinyphysics.runtime.state.tiles.LEAF", 8 * 16)
    with installed(Timed()) as d, CUDA_TUNE(2):
        d.quick = (4, 4)
        there = run(henon_heiles, TRAPPED, members=70, steps=9, save_every=3)
    assert there.metrics["shape"]["chosen"] == "tuned"
    assert there.hash == ours(henon_heiles, TRAPPED, members=70, steps=9, save_every=3).hash


def test_every_card_tries_for_itself(tmp_path, monkeypatch, small_blocks):
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path))
    with installed(Timed(Card("one"), Card("other"))) as d, CUDA_DEVICE(-1), CUDA_TUNE(2):
        there = run(steps=4)
    assert there.metrics["shape"]["chosen"] == "tuned" and len([*tmp_path.glob("*.form")]) == 2
    assert there.hash == ours(steps=4).hash and d.faults == []


def test_a_checkpoint_goes_on_in_another_form(driver, tmp_path):
    whole = ours(steps=8)
    run(steps=4, checkpoint=tmp_path / "half")
    driver.quick = (7, 4)
    with CUDA_TUNE(2):
        on = tp.compile(pendulum, dt=0.1, backend="cuda").evolve(resume=tmp_path / "half", steps=4)
    assert on.metrics["shape"]["interleave"] == 4 and on.hash == whole.hash


def test_the_key_knows_the_program_the_device_its_driver_and_the_size():
    one = ("program", "step", (False,), 1000, "GPU", 13000)
    others = [
        ("other", *one[1:]),
        (*one[:1], "watch", *one[2:]),
        (*one[:2], (True,), *one[3:]),
        (*one[:3], 5000, *one[4:]),
        (*one[:4], "another", 13000),
        (*one[:5], 13010),
    ]
    names = {cuda_tuning.key(*x) for x in (one, *others)}
    assert len(names) == 7 and cuda_tuning.key(*one[:3], 1001, *one[4:]) in names
