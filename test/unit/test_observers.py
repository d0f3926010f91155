"""What is handed out of a run: evolve(observer=...), `tp run`, `tp validate`."""

import json
import pickle
import re

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics import cli
from tinyphysics.errors import InputError, PlanError
from tinyphysics.runtime.measure.flags import FAILURE, FLAGS, INFORMATION, Case
from tinyphysics.runtime.state import stage_times
from tinyphysics.trajectory import Stop

START = {"q": [1.0, 0.0], "p": [0.0, 1.2]}
FILE = """
import tinyphysics as tp

@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.sqrt(q @ q)

start = dict(q=[1.0, 0.0], p=[0.0, 1.2])
dt = 0.01
steps = 400
"""


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.sqrt(q @ q)


@tp.ode
def rotor(u, v):
    return v, -u


@tp.map
def doubled(x):
    return 2.0 * x


@pytest.fixture(scope="module")
def sim():
    return tp.compile(kepler, dt=0.01, backend="llvm")


def crowd(n):
    rng = np.random.default_rng(1)
    return {"q": np.tile([1.0, 0.0], (n, 1)), "p": np.array([0.0, 1.2]) + 0.03 * rng.normal(size=(n, 2))}


@pytest.mark.parametrize("members", [1, 3000])
@pytest.mark.parametrize("backend", ["llvm", "python"])
def test_no_observer_changes_a_bit_and_each_reads_what_it_says(backend, members):
    sim = tp.compile(kepler, dt=0.01, backend=backend)
    if backend == "python":
        members = min(members, 3)
    start, steps = START if members == 1 else crowd(members), 40
    state = members * 4 * 8
    plain = sim.evolve(**start, steps=steps, hash_every=10)
    none = sim.evolve(**start, steps=steps, observer="none")
    assert none.metrics["bytes_read"] == 0 and none.final.step == steps
    assert none.hash == plain.hash and none.metrics["bytes_read"] == state
    assert (none.final.q == plain.final.q).all() and not none.final.q.flags.writeable
    few = sim.evolve(**start, steps=steps, observer="metrics", save_every=4)
    assert 0 < few.metrics["bytes_read"] <= 4096 * 11 and few.hash == plain.hash
    frames = sim.evolve(**start, steps=steps, observer="snapshots", save_every=4, hash_every=10)
    assert frames.metrics["bytes_read"] >= 10 * state and len(frames.q) == 11
    assert frames.hashes == plain.hashes and (frames.q[-1] == plain.q[-1]).all()
    frames = sim.evolve(**start, steps=steps, observer="snapshots", save_every=4)
    if members == 1:  # watches read what they look at, of many members now and then
        assert frames.metrics["bytes_read"] == 10 * state


@pytest.mark.parametrize("observer", ["none", "metrics"])
@pytest.mark.parametrize("members", [1, 3])
def test_the_part_of_a_step_at_the_end_is_done(sim, observer, members):
    start = START if members == 1 else crowd(members)
    plain, lean = sim.evolve(**start, until=0.505), sim.evolve(**start, until=0.505, observer=observer)
    assert plain.metrics["end"]["fraction"] == pytest.approx(0.5)
    assert lean.final.t == 0.505 and (lean.final.q == plain.final.q).all() and lean.hash == plain.hash


@pytest.mark.parametrize("backend", ["llvm", "python"])
@pytest.mark.filterwarnings("ignore::tinyphysics.PhysicsWarning")
def test_a_pole_stops_a_run_of_which_nothing_is_read(backend):
    sim = tp.compile(kepler, dt=0.01, backend=backend)
    start = {"q": [1.0, 0.0], "p": [0.0, 0.01]}
    plain = sim.evolve(**start, steps=200)
    assert plain.stopped.cause == "singularity"
    for observer in ("none", "metrics"):
        lean = sim.evolve(**start, steps=200, observer=observer)
        assert (lean.stopped.cause, lean.stopped.step) == ("singularity", plain.stopped.step)
        assert lean.hash == plain.hash and (lean.final.q == plain.final.q).all()
    assert len(lean["energy"]) == len(lean.times("energy")) == plain.stopped.step


def test_poles_of_members_that_are_reduced_are_warned_of(sim):
    with pytest.warns(tp.PhysicsWarning, match="not looked at"):
        sim.evolve(**crowd(3), steps=10, observer="metrics")


@pytest.mark.parametrize("asked", [{"checks": "strict"}, {"checks": {"shadow": 0.01}}, {"check_every": 10}])
@pytest.mark.parametrize("observer", ["none", "metrics"])
def test_checks_that_were_asked_for_are_not_left_out(asked, observer):
    with pytest.raises(PlanError, match="reads none"):
        tp.compile(kepler, dt=0.01, **asked).evolve(**START, steps=10, observer=observer)


def test_metrics_of_one_run_are_its_energies_and_of_many_their_ends_and_mean(sim):
    seen = sim.evolve(**START, steps=500, observer="metrics")
    plain = sim.evolve(**START, steps=500, save_every=1)
    assert (seen["energy"] == plain.energy[:: 500 // (len(seen["energy"]) - 1)]).all()
    start = crowd(1000)
    many, plain = (
        sim.evolve(**start, steps=50, observer="metrics", save_every=5),
        sim.evolve(**start, steps=50, save_every=5),
    )
    assert list(many.observed) == ["energy_mean", "energy_least", "energy_greatest"]
    assert (many["energy_least"] == plain.energy.min(axis=1)).all()
    assert (many["energy_greatest"] == plain.energy.max(axis=1)).all()
    assert np.allclose(many["energy_mean"], plain.energy.mean(axis=1), rtol=1e-14)
    assert (many.times("energy_mean") == plain.t).all()
    assert many.metrics["flags"][INFORMATION]["REDUCED"]["count"] == 1


def test_tiles_of_a_large_ensemble_are_reduced_together(sim):
    start = crowd(200_000)
    many = sim.evolve(**start, steps=4, observer="metrics", save_every=2, threads=2)
    plain = sim.evolve(**start, steps=4, save_every=2)
    assert (many["energy_least"] == plain.energy.min(axis=1)).all() and many.hash == plain.hash
    assert np.allclose(many["energy_mean"], plain.energy.mean(axis=1), rtol=1e-13)


def test_what_has_no_energy_is_watched_by_its_size():
    seen = tp.compile(rotor, dt=0.01).evolve(u=3.0, v=4.0, steps=10, observer="metrics")
    assert set(seen.observed) == {"u_size", "v_size"} and seen["u_size"][0] == 3.0


def test_members_that_stop_leave_their_last_good_state():
    sim = tp.compile(doubled)
    start = {"x": np.array([1.0, 1e300, 2.0])}
    plain, none = sim.evolve(**start, steps=60), sim.evolve(**start, steps=60, observer="none")
    assert none.stopped.member == 1 and none.stopped.step == plain.stopped.step
    assert (none.final.x == plain.final.x).all() and none.hash == plain.hash
    assert none.metrics["flags"][FAILURE]["NOT_FINITE"]["count"] == 1


def test_what_was_not_handed_out_says_so(sim):
    out = sim.evolve(**START, steps=10, observer="none")
    for read in (lambda: out.q, lambda: out.energy, lambda: out.drift(), lambda: out.plot()):
        with pytest.raises(PlanError, match="hands out none"):
            read()
    assert "without frames" in repr(out) and len(out) == 0
    again = pickle.loads(pickle.dumps(out.final))
    assert (again.q == out.final.q).all()
    assert (sim.evolve(**out.final, steps=0).final.q == out.final.q).all()


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"observer": "all"}, InputError, "may be `none`"),
        ({"observer": "none", "observe": {"x": lambda q: q[0]}}, PlanError, "observe="),
        ({"observer": "none", "save_every": 2}, PlanError, "save_every="),
        ({"observer": "none", "save": "run.zarr"}, PlanError, "save="),
        ({"observer": "none", "observe_every": 4}, PlanError, "observe_every="),
        ({"observer": "metrics", "view": "terminal"}, PlanError, "view="),
        ({"observer": "visualize", "view": "page"}, InputError, "view='page'"),
        ({"observer": "metrics", "checkpoint": "run.checkpoint"}, PlanError, "checkpoint="),
        ({"observer": "metrics", "events": {"x": lambda q: q[0]}}, PlanError, "events="),
        ({"observer": "snapshots", "parallel": tp.Parareal(slices=2)}, PlanError, "parallel="),
        (
            {"observer": "metrics", "observe": {"x": lambda q: [q[0]] * 600}},
            InputError,
            "4,800 bytes",
        ),
    ],
)
def test_what_an_observer_cannot_do_is_refused(sim, options, error, says):
    with pytest.raises(error) as raised:
        sim.evolve(**START, steps=10, **options)
    assert says in str(raised.value)


@pytest.mark.parametrize("observer", ["none", "metrics"])
def test_a_run_without_frames_can_be_pickled(sim, observer):
    out = sim.evolve(**START, steps=50, observer=observer)
    again = pickle.loads(pickle.dumps(out))
    assert again.hash == out.hash and (again.final.q == out.final.q).all()
    assert again.metrics["bytes_read"] >= 32 and list(again.observed) == list(out.observed)
    with pytest.raises(PlanError, match="hands out"):
        again.q  # noqa: B018


def test_what_metrics_hand_out_is_named(sim):
    many = sim.evolve(**crowd(3), steps=100, observer="metrics")
    assert many.mean("energy_mean").mean == pytest.approx(many["energy_mean"].mean())
    for read in (lambda: many["energy"], lambda: many.drift(), lambda: many.mean("energy")):
        with pytest.raises(PlanError, match="`energy_mean`, `energy_least` and `energy_greatest`"):
            read()


def test_a_watched_run_with_an_observer_is_watched_once(sim, capsys):
    for observer in ("snapshots", "visualize"):
        assert len(sim.evolve(**START, steps=10, observer=observer, view="terminal").t) == 11
        assert "step 10" in capsys.readouterr().out


def test_how_often_to_look_says_nothing_without_checks():
    with pytest.raises(PlanError, match="looks at nothing"):
        tp.compile(kepler, dt=0.01, checks="off", check_every=10)


def test_a_state_may_be_called_observer():
    @tp.map
    def turned(observer, other):
        return observer * 0.5 + other, other

    sim = tp.compile(turned)
    assert float(sim.evolve(observer=1.0, other=0.0, steps=2).final.observer) == 0.25
    none = sim.evolve(observer=1.0, other=0.0, steps=2, options={"observer": "none"})
    assert none.metrics["bytes_read"] == 0 and float(none.final.observer) == 0.25


@pytest.mark.parametrize("observer", ["none", "metrics", "snapshots", "visualize"])
def test_the_stages_of_a_run_sum_to_the_whole(sim, observer, capsys):
    sim.evolve(**START, steps=2000, options={"observer": observer})
    m = sim.evolve(**crowd(300), steps=2000, threads=1, options={"observer": observer}).metrics
    took = {name: stage["seconds"] for name, stage in m["stages"].items()}
    assert min(took.values()) >= 0.0 and sum(took.values()) == pytest.approx(m["wall"], rel=0.05)
    assert m["stages"]["advance"]["backend"] == {"requested": "llvm", "used": "llvm"}
    assert m["stages"]["hash"]["backend"]["used"] == "python" and not m["gpu_hotloop_active"]
    assert m["stages"]["advance"]["device"]["used"] == "cpu"


def test_a_stage_inside_another_is_counted_once_and_threads_share_their_time(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(stage_times, "now", lambda: float(next(clock)))
    times = stage_times.StageTimes()
    with times.stage("outer"), times.stage("inner"):  # 0, 1, 2, 3
        pass
    assert times.shares() == {"inner": 1.0, "outer": 2.0} and times.busy == 3.0
    times.own, times.busy = {"one": 6.0, "other": 2.0}, 4.0  # of two threads side by side
    assert times.shares() == {"one": 3.0, "other": 1.0} and times.shares(2.0) == {"one": 1.5, "other": 0.5}


def case(backend=("llvm", "llvm"), stops=(), observer="snapshots", reduced=False, launches=1):
    metrics = {"backend": dict(zip(("requested", "used"), backend)), "steps": 1, "launches": launches}
    return Case(metrics, [Stop(cause, 1, 0.0) for cause in stops], observer, reduced)


REACHED = {
    "NO_READBACK": case(observer="none"), "CHECKS_OFF": case(observer="metrics"), "REDUCED": case(reduced=True),
    "BACKEND_CHOSEN": case(("auto", "llvm")), "NOT_COMPILED": case(("python", "python")),
    "BACKEND_FALLBACK": case(("cuda", "llvm")), "GPU_NOT_USED": case(("cuda", "cuda"), launches=0),
    "NOT_FINITE": case(stops=["not finite"]), "NOT_SOLVED": case(stops=["not solved"]),
    "CHECK_FAILED": case(stops=["integrity"]), "INTERRUPTED": case(stops=["interrupted"]),
    "DEVICE_FAILED": case(stops=["device"]), "STORE_FAILED": case(stops=["store"]),
}  # fmt: skip


@pytest.mark.parametrize("flag", FLAGS, ids=lambda f: f.name)
def test_every_flag_is_reached_and_a_usual_run_has_none(flag):
    assert flag.count(REACHED[flag.name]) == 1 and flag.count(case()) == 0
    assert flag.kind in (INFORMATION, FAILURE)


def test_a_transform_is_named_where_one_is_executed():
    @tp.ode
    def heated(u: tp.Vec[1024]):
        return tp.fft.ifft(-1.0 * tp.fft.fft(u)).real

    sim = tp.compile(heated, dt=0.01, method="rk4")
    out = sim.evolve(u=np.ones(1024), steps=2, observer="snapshots")
    assert out.metrics["fft"]["used"] == out.metrics["backend"]["used"]
    assert (
        tp.compile(rotor, dt=0.01).evolve(u=1.0, v=0.0, steps=2, observer="none").metrics["fft"]["used"]
        is None
    )


# --- the command line ---------------------------------------------------------------------------------
@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kepler.py"
    path.write_text(FILE)
    return path


def test_run_prints_lines_that_scripts_read(file, tmp_path, capsys):
    written = tmp_path / "metrics.json"
    assert cli.main(["run", str(file), "--hash-every", "100", "--metrics-json", str(written)]) == 0
    text = capsys.readouterr().out
    perf = re.search(
        r"^\[perf\] rollout=(\S+)s ns/step=(\S+) steps/s=(\S+) backend=\w+ fft=none dtype=float64 hash=\w+$",
        text,
        re.M,
    )
    seconds, ns, rate = map(float, perf.groups())
    assert ns * 400 * 1e-9 == pytest.approx(seconds, rel=0.01) and rate * ns * 1e-9 == pytest.approx(
        1.0, rel=0.01
    )
    assert re.search(r"^\[hash\] 4 hashes \(every 100 steps\)$", text, re.M)
    assert re.search(r"^\[decode\] total=\S+s per_snap=\S+ ms snaps=\d+$", text, re.M)
    assert f"[metrics] wrote {written}" in text and "[perf warning]" not in text
    found = json.loads(written.read_text())
    assert found["op_backend_requested"] == "auto" and found["op_backend_used"] == "llvm"
    assert found["gpu_hotloop_active"] is False and found["fft_backend_used"] is None
    assert found["decode_device"] == "cpu" and found["flags"]["failure"] == {}
    assert [h["t"] for h in found["hashes"]] == [100, 200, 300, 400] and found["hash"] in text


def test_run_without_frames_still_prints_its_end(file, capsys):
    assert cli.main(["run", str(file), "--observer", "none"]) == 0
    text = capsys.readouterr().out
    assert "q = [" in text and "[perf]" in text and "[decode]" not in text


def test_a_failed_run_is_warned_of(tmp_path, capsys):
    path = tmp_path / "doubled.py"
    path.write_text(
        "import tinyphysics as tp\n@tp.map\ndef doubled(x):\n    return 2 * x\nstart = dict(x=1e300)\n"
    )
    assert cli.main(["run", str(path), "--steps", "100"]) == 1
    assert "[perf warning] NOT_FINITE (1)" in capsys.readouterr().out


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_validate_answers_six_questions(file, backend, capsys):
    assert cli.main(["validate", str(file), "--backend", backend]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:8] for line in lines] == [f"({c}) pass" for c in "ABCDEF"]


@pytest.mark.parametrize("more", [["--steps", "0"], ["--steps", "5"], ["--set", "p=0,0.01"]])
@pytest.mark.filterwarnings("ignore::tinyphysics.PhysicsWarning")
def test_validate_passes_what_is_healthy_and_says_what_it_skips(file, more, capsys):
    assert cli.main(["validate", str(file), *more]) == 0
    lines = capsys.readouterr().out.splitlines()
    skipped = [line[1] for line in lines if " skip " in line]
    assert skipped == (["B", "D", "E"] if "0" in more else []) and len(lines) == 6


def test_validate_knows_a_loop_that_was_deleted(tmp_path, capsys):
    path = tmp_path / "spring.py"
    path.write_text(
        "import tinyphysics as tp\n@tp.hamiltonian\ndef spring(q, p):\n    return p * p / 2 + q * q / 2\n"
        "start = dict(q=1.0, p=0.0)\ndt = 0.01\n"
    )
    assert cli.main(["validate", str(path)]) == 0
    assert "the loop was deleted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--observer", "none", "--out", "x.npz"], "--out writes frames"),
        (["--metrics-json", "nowhere/a.json"], "cannot be written"),
        (["--observer", "metrics", "--view"], "view="),
    ],
)
def test_what_cannot_be_written_is_said_before_the_run(file, options, says, monkeypatch, capsys):
    def refused(*_, **__):
        raise AssertionError("it ran")

    monkeypatch.setattr(cli.Simulation, "_run", refused)
    assert cli.main(["run", str(file), *options]) == 2
    assert says in capsys.readouterr().err


def test_metrics_are_printed(file, capsys):
    assert cli.main(["run", str(file), "--observer", "metrics"]) == 0
    assert re.search(r"^  energy = -0\.\d+, -0\.28 at the start$", capsys.readouterr().out, re.M)


def test_validate_finds_a_backend_whose_bits_differ(file, monkeypatch, capsys):
    from tinyphysics.runtime.api import validate

    usual = validate.Item
    assert usual("A", "x", True, "y").passed
    monkeypatch.setattr(validate, "REFERENCE", "llvm")
    monkeypatch.setattr(validate, "FEW", 30)
    good = cli.Simulation.evolve

    def other(self, **options):
        if options.get("steps") == 30 and self.requested == "llvm":
            options["p"] = np.nextafter(options["p"], 2.0)
        return good(self, **options)

    monkeypatch.setattr(cli.Simulation, "evolve", other)
    assert cli.main(["validate", str(file), "--backend", "numpy"]) == 1
    assert "(B) FAIL" in capsys.readouterr().out
