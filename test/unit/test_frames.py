"""Times and frames: any time can be asked for, and nothing that is asked for changes a bit of the run."""

from __future__ import annotations

import pickle
import signal
import warnings

import numpy as np
import pytest
from here import HERE

import tinyphysics as tp
from tinyphysics.device.engines.engine import LaneEngine
from tinyphysics.errors import InputError, PlanError, StoreError
from tinyphysics.runtime.api.verify_store import replay
from tinyphysics.runtime.stages import running
from tinyphysics.runtime.state import frames, windows
from tinyphysics.runtime.state.frames import most_frames, placed_at, stride_of
from tinyphysics.runtime.state.schedule import time_at, times_at


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def driven(q, p, t):
    return p**2 / 2 - tp.cos(q) - 0.3 * q * tp.cos(2 * t)


@tp.hamiltonian
def spring(q, p):
    return p**2 / 2 + q**2 / 2


@tp.hamiltonian
def cluster(q: tp.Array["n", 3], p: tp.Array["n", 3]):
    d = q[:, None] - q[None, :]
    return (p**2).sum() / 2 - tp.pair_sum(1 / np.sqrt((d**2).sum(axis=-1) + 0.01))


@tp.map
def henon(x, y, a=1.4, b=0.3):
    return 1 - a * x * x + y, b * x


RNG = np.random.default_rng(7)
ORBIT = {"q": [1.0, 0.0], "p": [0.0, 1.2]}
SCALAR = {"q": 1.0, "p": 0.25}
MANY = {
    "q": RNG.normal(size=(5, 2)) + [3.0, 0.0],
    "p": RNG.normal(size=(5, 2)),
    "mu": RNG.uniform(0.5, 1.0, 5),
}
STARS = {"q": RNG.normal(size=(24, 3)), "p": RNG.normal(size=(24, 3)) / 10}
AT = [0.0, 0.05, 0.123, 0.5, 0.501, 0.7, 0.9999]
# fmt: off
WAYS = {  # (system, options of compile, start, backends)
    "leapfrog":  (kepler,  {},                              ORBIT,  HERE),
    "ensemble":  (kepler,  {},                              MANY,   ["llvm", "python"]),
    "words":     (kepler,  {"precision": "compensated"},    ORBIT,  ["llvm", "python"]),
    "taylor":    (kepler,  {"method": "taylor"},            ORBIT,  ["llvm", "python"]),
    "flow":      (spring,  {"propagator": "exact"},         SCALAR, ["llvm", "python"]),
    "driven":    (driven,  {"method": "leapfrog"},          SCALAR, HERE),
    "float32":   (kepler,  {"precision": "float32"},        MANY,   ["llvm", "numpy", "c"]),
    "pairs":     (kepler,  {"precision": "dd"},             ORBIT,  ["llvm", "opencl"]),
    "order 4":   (kepler,  {"method": "yoshida4"},          MANY,   HERE),
    "implicit":  (kepler,  {"method": "implicit_midpoint"}, ORBIT,  ["llvm", "python"]),
    "project":   (kepler,  {"project": "energy"},           ORBIT,  ["llvm", "python"]),
    "loops":     (cluster, {},                              STARS,  ["llvm", "numpy", "c"]),
    "dop853":    (driven,  {"method": "dop853"},            SCALAR, ["llvm", "python"]),
    "power":     (spring,  {"propagator": "method"},        SCALAR, ["llvm", "python"]),
}
# fmt: on
ALL_WAYS = [way if k < 5 else pytest.param(way, marks=pytest.mark.all) for k, way in enumerate(WAYS)]
WHOLE = ("taylor", "dop853", "flow")  # which have their solution at any time, and take no part of a step


def same(a, b):
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)


# --- any time ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("way", ALL_WAYS)
def test_any_time_is_reached_without_changing_the_steps_beside_it(way):
    system, options, start, backends = WAYS[way]
    seen = set()
    for backend in [b for b in backends if b in HERE]:
        sim = tp.compile(system, dt=0.1, backend=backend, **options)
        steps = sim.evolve(**start, steps=20, save_every=1)
        out = sim.evolve(**start, save_at=AT, until=0.9999)
        ends = sim.evolve(**start, until=0.9999, save_every=1)
        assert out.t.tolist() == pytest.approx(AT) and len(out) == len(AT) and out.final.t == 0.9999
        for name in out.frames:
            assert same(ends[name][:10], steps[name][:10]) and same(out[name][-1], ends.final[name])
            assert same(out[name][[0, 3, 5]], steps[name][[0, 5, 7]])
        assert out.hash == ends.hash and len(ends) == 11
        # between two steps lies what a run of that length reaches
        near = sim.evolve(**steps[1], dt=0.023, steps=1).final if way not in WHOLE else None
        if near is not None:
            tiny = 1e-6 if way == "float32" else 1e-13
            assert np.asarray(out["q"][2]) == pytest.approx(np.asarray(near.q), rel=tiny, abs=tiny)
            assert out.metrics["fractions"] == pytest.approx([0, 0.5, 0.23, 0, 0.01, 0, 0.999])
            assert out.metrics["end"]["of_step"] == 10 and not out.metrics["end"]["fed_back"]
            assert "the last by 0.999 of a step" in repr(out)
        else:
            assert "fractions" not in out.metrics and "end" not in out.metrics
            once = sim.evolve(**start, until=0.123)
            assert all(same(once.final[name], out[name][2]) for name in out.frames)
        assert sim.evolve(resume=ends, steps=11).hash == steps.hash  # the part of a step is not fed back
        seen.add((out.hash, *(np.asarray(v).tobytes() for v in out.frames.values())))
    assert len(seen) == 1


def test_a_run_may_end_before_its_first_step():
    sim = tp.compile(kepler, dt=0.1)
    out = sim.evolve(**ORBIT, until=0.025)
    assert out.t.tolist() == [0.0, 0.025] and out.steps.tolist() == [0, 0]
    assert same(out.final.q, sim.evolve(**ORBIT, dt=0.025, steps=1).final.q)
    assert sim.evolve(resume=out, steps=7).hash == sim.evolve(**ORBIT, steps=7).hash


def test_a_part_of_a_step_is_as_accurate_as_a_step():
    """Of order 2 where the step is: the error falls by four where dt is halved, wherever the end lies in a step."""
    exact = tp.compile(kepler, method="taylor").evolve(**ORBIT, until=3.017).final.q
    off = [
        np.abs(tp.compile(kepler, dt=dt).evolve(**ORBIT, until=3.017).final.q - exact).max()
        for dt in (0.08, 0.04, 0.02)
    ]
    assert 3.5 < off[0] / off[1] < 4.5 and 3.5 < off[1] / off[2] < 4.5


def test_energies_of_a_driven_system_know_the_time_between_steps():
    sim = tp.compile(driven, dt=0.1, method="leapfrog")
    out = sim.evolve(**SCALAR, save_at=[0.234, 0.3, 0.871])
    for k, t in enumerate(out.t.tolist()):
        q, p = float(out.q[k]), float(out.p[k])
        assert out.energy[k] == pytest.approx(p**2 / 2 - np.cos(q) - 0.3 * q * np.cos(2 * t), rel=1e-14)


def test_times_run_backwards_with_dt():
    out = tp.compile(kepler, dt=-0.1).evolve(**ORBIT, until=-1.05, save_at=[-0.2, -0.55])
    assert out.t.tolist() == pytest.approx([-0.2, -0.55]) and out.final.t == -1.05
    assert out.metrics["fractions"] == pytest.approx([0.0, 0.5])


@pytest.mark.parametrize("dt, t0", [(0.1, 0.0), (0.01, 5.0), (1 / 3, -2.0), (1e-7, 0.0), (-0.1, 3.0)])
def test_a_time_of_a_step_is_that_step(dt, t0):
    n = np.array([0, 1, 2, 3, 10, 999, 12345, 10**6 + 1])
    for times in (times_at(n.tolist(), dt, t0), t0 + n * dt):
        steps, inside = placed_at(times, dt, t0)
        assert steps.tolist() == n.tolist() and np.isnan(inside).all()
    steps, inside = placed_at(t0 + (n + 0.25) * dt, dt, t0)
    assert steps.tolist() == n.tolist() and not np.isnan(inside).any()


def test_events_are_found_up_to_the_end_between_two_steps():
    start, look = {**ORBIT, "events": {"across": lambda q: q[1]}}, {}
    for name, options in (("grid", {"dt": 0.5}), ("free", {})):
        out = tp.compile(kepler, method="taylor", **options).evolve(**start, until=7.6)
        look[name] = out.events("across").t
        assert len(look[name]) == 1 and 7.5 > look[name][0] > 7.0 or len(look[name]) == 2
    assert same(look["grid"], look["free"])


# --- which frames --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("steps", [1, 2, 10, 499, 500, 1000, 1001, 12345, 10**6, 10**9 + 7])
@pytest.mark.parametrize("size", [16, 512, 3000, 50_000, 300_000, 5 << 20, 64 << 20])
def test_steps_and_sizes_alone_decide_how_many_frames_there_are(steps, size):
    most = most_frames(steps, size)
    assert 2 <= most <= 500 and (most == 2 or most * size <= 16 << 20)
    every = stride_of(steps, most)
    kept = len({*range(0, steps, every), steps})
    assert 2 <= kept <= most and (size > 512 or kept >= min(steps + 1, 250))
    assert size <= 512 or most <= max(11, steps // 64 + 1)


def test_the_frames_of_a_run_are_evenly_spaced_and_its_state_is_what_it_was():
    sim = tp.compile(kepler, dt=0.01)
    for steps, count in ((7, 8), (100, 101), (1000, 251), (1009, 338)):
        out, ends = sim.evolve(**ORBIT, steps=steps), sim.evolve(**ORBIT, steps=steps, frames=2)
        gaps = np.diff(out.steps)
        assert len(out) == count and len({*gaps.tolist()[:-1]}) <= 1 and gaps[-1] <= gaps[0]
        assert out.hash == ends.hash and ends.steps.tolist() == [0, steps]
        assert same(out.q[count // 2], sim.evolve(**ORBIT, steps=out.steps[count // 2]).final.q)


def test_members_count_in_the_size_of_a_frame():
    sim = tp.compile(kepler, dt=0.01)
    many = {"q": np.tile(ORBIT["q"], (100, 1)), "p": np.tile(ORBIT["p"], (100, 1))}
    assert len(sim.evolve(**many, steps=640)) == 11 and len(sim.evolve(**ORBIT, steps=640)) > 250
    huge = {"q": np.tile(ORBIT["q"], (300_000, 1)), "p": np.tile(ORBIT["p"], (300_000, 1))}
    assert len(sim.evolve(**huge, steps=3)) == 2


@pytest.mark.parametrize("count", [2, 3, 7, 400, 5000])
def test_a_number_of_frames_is_that_number(count):
    out = tp.compile(kepler, dt=0.01).evolve(**ORBIT, steps=1000, frames=count)
    gaps = np.diff(out.steps)
    assert len(out) == min(count, 1001) and gaps.max() - gaps.min() <= 1 and out.steps[-1] == 1000


@pytest.mark.parametrize("count", [2, 3, 7, 12, 13, 14, 99])
@pytest.mark.parametrize("dt, until", [(0.01, 0.1234), (-0.01, -0.1234)])
def test_a_number_of_frames_is_that_number_where_the_run_ends_between_two_steps(count, dt, until):
    sim = tp.compile(kepler, dt=dt)
    out, every = sim.evolve(**ORBIT, until=until, frames=count), sim.evolve(**ORBIT, until=until)
    assert len(out) == min(count, 14) and out.t[0] == 0.0 and out.t[-1] == until and out.hash == every.hash
    at = [list(every.t).index(t) for t in out.t]
    assert same(out.q, every.q[at]) and np.ptp(np.diff(at)) <= 1


def test_a_time_on_the_wrong_side_is_told_by_the_sign_of_dt():
    back = tp.compile(kepler, dt=-0.01)
    for asked in ({"until": 1.0}, {"save_at": [1.0]}):
        with pytest.raises(InputError, match="lies after t0=0, and dt is negative"):
            back.evolve(**ORBIT, **asked)


def test_a_method_with_its_own_steps_has_frames_evenly_spaced_in_time():
    sim = tp.compile(kepler, method="taylor")
    out = sim.evolve(**ORBIT, until=3.0)
    assert len(out) == 500 and np.diff(out.t) == pytest.approx(3 / 499) and out.final.t == 3.0
    assert out.hash == sim.evolve(**ORBIT, until=3.0, frames=2).hash
    assert len(sim.evolve(**ORBIT, until=3.0, frames=31)) == 31
    assert same(sim.evolve(**ORBIT, until=out.t[123]).final.q, out.q[123])


def test_equal_strides_by_their_times_run_as_strides():
    sim = tp.compile(kepler, dt=0.01)
    out = sim.evolve(**ORBIT, save_at=np.linspace(0.0, 2.0, 21))
    assert out.origin.run.schedule.save_every == 10 and out.steps.tolist() == list(range(0, 201, 10))
    some = sim.evolve(**ORBIT, save_at=np.linspace(0.5, 1.5, 11), until=2.0)
    assert some.steps.tolist() == list(range(50, 151, 10)) and some.final.t == 2.0 and len(some.energy) == 11


def test_an_option_takes_no_name_away_from_a_system():
    @tp.hamiltonian
    def film(q, p, frames: float = 1.0):
        return p**2 / 2 + frames * q**4

    sim = tp.compile(film, dt=0.1)
    stiff = sim.evolve(q=1.0, p=0.0, frames=3.0, steps=10)
    assert len(stiff) == 11 and stiff.final.q != sim.evolve(q=1.0, p=0.0, steps=10).final.q
    few = sim.evolve(q=1.0, p=0.0, frames=3.0, steps=10, options={"frames": 3})
    assert len(few) == 3 and few.hash == stiff.hash


# --- stores --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("room", [40, 4 << 20], ids=["one by one", "together"])
@pytest.mark.parametrize(
    "asked",
    [
        {"until": 2.05},
        {"save_at": [0.33, 1.0, 1.22, 1.25, 2.05]},
        {"steps": 20, "frames": 7},
        {"steps": 20},
        {"until": 2.05, "save_every": 3},
    ],
    ids=str,
)
def test_a_store_has_the_frames_and_they_come_out_again(tmp_path, monkeypatch, asked, room):
    monkeypatch.setattr(windows, "BYTES", room)
    sim = tp.compile(kepler, dt=0.1)
    kept, out = sim.evolve(**ORBIT, **asked), sim.evolve(**ORBIT, **asked, save=tmp_path / "run.zarr")
    rows = np.isin(np.asarray(out.t), kept.t)  # a store also has the first frame and the last whole step
    assert rows.sum() == len(kept) and len(rows) - len(kept) <= 2
    assert same(np.asarray(out.q)[rows], kept.q) and out.hash == kept.hash
    assert same(np.asarray(out.energy)[rows], kept.energy)
    assert replay(tmp_path / "run.zarr").difference is None


def test_a_store_goes_on_behind_the_last_whole_step(tmp_path):
    sim, store = tp.compile(kepler, dt=0.1), tmp_path / "run.zarr"
    first = sim.evolve(**ORBIT, until=1.05, save=store, checkpoint=tmp_path / "c")
    assert np.asarray(first.t)[-1] == 1.05
    out = sim.evolve(resume=tmp_path / "c", until=3.07, save=store)
    assert 1.05 not in np.asarray(out.t) and (np.diff(out.t) > 0).all() and out.final.t == 3.07
    assert out.hash == sim.evolve(**ORBIT, until=3.07).hash and replay(store).difference is None


# --- going on ------------------------------------------------------------------------------------------------
@pytest.mark.requirement("S1-48")
@pytest.mark.parametrize("way", ALL_WAYS)
def test_a_run_goes_on_from_its_end_with_the_bits_that_it_would_have_had(way):
    system, options, start, _ = WAYS[way]
    sim = tp.compile(system, dt=0.1, **options)
    whole = sim.evolve(**start, steps=30, save_every=5, hash_every=7)
    part = sim.evolve(**start, steps=13, save_every=5, hash_every=7)
    for out in (part, pickle.loads(pickle.dumps(part))):
        rest = sim.evolve(resume=out, steps=17)
        assert rest.hash == whole.hash and rest.hashes == whole.hashes
        assert rest.steps.tolist() == [13, 15, 20, 25, 30] and same(rest.q[1:], whole.q[3:])
    tiny = 1e-5 if way in ("float32", "words") else 1e-10 if way == "dop853" else 1e-12
    again = sim.evolve(**part.final, steps=17).final
    assert np.asarray(again.q) == pytest.approx(np.asarray(whole.final.q), rel=tiny, abs=tiny)
    assert again.t == pytest.approx(3.0)


def test_random_maps_and_lattices_go_on_too():
    @tp.map
    def noisy(x):
        return 0.9 * x + tp.random.normal()

    sim = tp.compile(noisy)
    assert (
        sim.evolve(resume=sim.evolve(x=0.5, steps=9, seed=3), steps=8).hash
        == sim.evolve(x=0.5, steps=17, seed=3).hash
    )
    grid = tp.compile(kepler, dt=0.1, precision="lattice")
    assert (
        grid.evolve(resume=grid.evolve(**ORBIT, steps=9), steps=8).hash == grid.evolve(**ORBIT, steps=17).hash
    )


def test_a_large_run_is_computed_again_to_go_on(monkeypatch):
    monkeypatch.setattr(running, "CARRIED", 8)
    sim = tp.compile(kepler, dt=0.1)
    out = sim.evolve(**MANY, steps=9)
    assert out.origin.carried is None
    assert sim.evolve(resume=out, steps=4).hash == sim.evolve(**MANY, steps=13).hash


@pytest.mark.parametrize("keeps", [False, True])
def test_an_interrupted_ensemble_in_tiles_goes_on(tmp_path, monkeypatch, keeps):
    """Its last frame lies where the loop state was, which is read before."""
    monkeypatch.setattr(LaneEngine, "room", 8192)
    monkeypatch.setattr(LaneEngine, "block", lambda self, members: 16)
    members = 2 * 8192 + 77
    start = {"q": RNG.normal(size=(members, 2)) + [4, 0], "p": RNG.normal(size=(members, 2))}
    sim = tp.compile(kepler, dt=0.02)
    real, calls = LaneEngine.advance, []

    def advance(self, m, steps):
        calls.append(m)
        if len(calls) == 4:
            signal.raise_signal(signal.SIGINT)
        real(self, m, steps)

    monkeypatch.setattr(LaneEngine, "advance", advance)
    file = {"checkpoint": tmp_path / "c"} if keeps else {}
    out = sim.evolve(**start, steps=64, frames=2, threads=1, **file)
    monkeypatch.setattr(LaneEngine, "advance", real)
    # some members have passed the centre before
    assert {s.cause for s in out.stops} <= {"interrupted", "singularity"}
    assert out.stops[-1].cause == "interrupted" and 0 < out.final.step < 64
    rest = sim.evolve(resume=tmp_path / "c" if keeps else out, until=1.28, frames=2)
    assert rest.hash == sim.evolve(**start, steps=64, frames=2).hash


def test_a_failed_run_says_how_to_begin_again():
    @tp.hamiltonian
    def falls(q, p):
        return p**2 / 2 - q**4

    out = tp.compile(falls, dt=0.1).evolve(q=1.0, p=1.0, steps=100)
    with pytest.raises(InputError, match="cannot be resumed") as found:
        tp.compile(falls, dt=0.1).evolve(resume=out, steps=1)
    assert "**out.final" in found.value.fix
    with pytest.raises(StoreError, match="`out` is a checkpoint of `falls`"):
        tp.compile(kepler, dt=0.1).evolve(
            resume=tp.compile(falls, dt=0.1).evolve(q=0.1, p=0.0, steps=2), steps=1
        )
    ends = tp.compile(falls, dt=1.0).evolve(q=1e150, p=0.0, until=0.5)
    assert ends.stopped.cause == "not finite" and ends.stopped.step == 1 and ends.final.q == 1e150


# --- a trajectory as a sequence ------------------------------------------------------------------------------
def test_a_trajectory_is_a_sequence_of_frames():
    out = tp.compile(kepler, dt=0.1).evolve(**ORBIT, steps=20, observe={"r": lambda q: tp.norm(q)})
    seen = list(out)
    assert len(seen) == len(out) == 21 and [f.t for f in seen] == out.t.tolist()
    assert all(same(f.q, out.q[k]) and f.step == out.steps[k] for k, f in enumerate(seen))
    assert same(out[-1].q, out.final.q) and same(out["q"], out.q) and same(out["energy"], out.energy)
    assert same(out.times("q"), out.t) and len(out["r"]) == 21
    assert {**out[3]}.keys() == {"q", "p", "from_frame"} and out[3]["from_frame"].t == out.t[3]
    for wrong in (21, "spin", slice(2, 3), 1.5):
        with pytest.raises(InputError):
            out[wrong]


def test_a_start_from_a_frame_has_its_parameters():
    sim = tp.compile(kepler, dt=0.1)
    out = sim.evolve(**ORBIT, mu=1.3, steps=10)
    rest = sim.evolve(**out.final, steps=5)
    assert out.final.given == rest.final.given == out[4].given == {"mu": 1.3} and rest.t[0] == 1.0
    other = sim.evolve(**out.final, mu=1.0, t0=0.0, steps=5)  # what is given goes before
    assert other.final.given == {} and other.t[0] == 0.0 and not same(other.final.q, rest.final.q)
    assert same(sim.evolve(from_frame=out.final, steps=5).final.q, rest.final.q)
    assert sim.suggest_dt(**out[4], error=1e-3) > 0 and sim.minimise(**out[4], steps=3).q.shape == (2,)
    with pytest.raises(InputError, match="is not a frame of a run"):
        sim.evolve(from_frame=out, steps=5)


def test_members_at_times_of_their_own_need_a_time_to_begin_at():
    sim = tp.compile(kepler, dt=0.05, time="logarithmic")
    out = sim.evolve(**MANY, steps=5)
    with pytest.raises(InputError, match="at different times"):
        sim.evolve(**out.final, steps=5)
    assert len(sim.evolve(**out.final, t0=0.0, steps=5)) == 6


def test_a_start_from_a_frame_has_its_time():
    sim = tp.compile(driven, dt=0.1, method="leapfrog")
    whole = sim.evolve(**SCALAR, steps=40, save_every=1)
    again = sim.evolve(**whole[15], steps=25)
    assert again.final.t == pytest.approx(4.0) and again.final.q == pytest.approx(whole.final.q, rel=1e-12)


# --- drift ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [{}, {"precision": "dd"}, {"method": "rk4"}], ids=str)
def test_the_drift_of_an_observable_is_over_every_step_and_relative_to_its_terms(options):
    look = {"L3": lambda q, p: q[0] * p[1] - q[1] * p[0], "both": lambda q, p: tp.stack([q[0], p[1]])}
    sim = tp.compile(kepler, dt=0.05, **options)
    out = sim.evolve(**ORBIT, steps=300, save_every=100, observe=look, observe_every=50)
    every = sim.evolve(**ORBIT, steps=300, save_every=1)
    q, p = every.q, every.p
    l3 = q[:, 0] * p[:, 1] - q[:, 1] * p[:, 0]
    scale = (np.abs(q[:, 0] * p[:, 1]) + np.abs(q[:, 1] * p[:, 0])).max()
    expected = np.abs(l3 - l3[0]).max() / scale
    assert out.drift("L3") == pytest.approx(expected, rel=1e-6, abs=4e-16)
    assert out.drift("L3") < 1e-14 or options == {"method": "rk4"}
    x = np.stack([q[:, 0], p[:, 1]], axis=1)
    assert out.drift("both") == pytest.approx(np.abs(x - x[0]).max() / np.abs(x).max(), rel=1e-12)
    assert abs(out.drift_rate("L3").slope) < 1e-4 and out.metrics["drift"]["of"].endswith("|terms of both|")


def test_the_drift_of_an_observable_is_one_for_each_member():
    out = tp.compile(kepler, dt=0.05).evolve(**MANY, steps=50, observe={"r": lambda q: tp.norm(q)})
    r = np.sqrt((tp.compile(kepler, dt=0.05).evolve(**MANY, steps=50, save_every=1).q ** 2).sum(-1))
    assert out.drift("r") == pytest.approx(np.abs(r - r[0]).max(axis=0) / r.max(axis=0))


def test_repr_tells_the_drift_and_runs_nothing(monkeypatch):
    small = tp.compile(kepler, dt=0.05).evolve(**ORBIT, steps=300)
    large = tp.compile(cluster, dt=0.001).evolve(**STARS, steps=20)
    for place in ("origin.execute", "origin.observe_states"):
        monkeypatch.setattr(f"tinyphysics.runtime.stages.{place}", None)
    assert (
        "energy drift" in repr(small)
        and "of its terms over its frames" in repr(small)
        and "drift" not in repr(large)
    )
    monkeypatch.undo()
    told = f"energy drift {small.drift():.1e} of its terms"
    assert told in repr(small) and "frames" not in repr(small).split("drift")[1]
    small.metrics["notes"] = ("a note",)
    assert "a note" in repr(small)


# --- what is refused -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "system, options, start",
    [(henon, {}, {"x": 0.0, "y": 0.0}), (kepler, {"dt": 0.5, "precision": "lattice"}, ORBIT)],
)
def test_maps_and_lattices_have_no_part_of_a_step(system, options, start):
    sim = tp.compile(system, **options)
    for asked in ({"until": 2.25}, {"save_at": [1.0, 2.25], "until": 3.0}):
        with pytest.raises(InputError, match="no part of a step") as found:
            sim.evolve(**start, **asked)
        assert "The neighbours are" in found.value.fix
    assert sim.evolve(**start, save_at=[1.0, 2.0], until=3.0).t.tolist() == [1.0, 2.0]


def test_times_of_its_own_refuse_save_at():
    with pytest.raises(PlanError, match="save_at= cannot be combined with time="):
        tp.compile(kepler, dt=0.05, time="logarithmic").evolve(**ORBIT, until=1.0, save_at=[0.5])


def test_all_of_this_is_quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = tp.compile(kepler, dt=0.01).evolve(**ORBIT, until=1.005)
    assert (
        repr(out).startswith("<Trajectory of 102 frames")
        and frames.MOST == 500
        and time_at(1, 0.01, 0.0) == 0.01
    )
