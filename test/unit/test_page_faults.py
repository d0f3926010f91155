"""Does a run stop where a step passes a pole of its energy, and nowhere else?"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.engines import cuda as cuda_engines
from tinyphysics.runtime.measure.part_again import part_of
from tinyphysics.runtime.measure.passed_pole import passed_pole
from tinyphysics.runtime.measure.pole_forms import forms_of
from tinyphysics.runtime.stages.terms import poles_of


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def soft(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 - 1 / tp.sqrt(q @ q + 0.01)


@tp.hamiltonian
def well(q, p):
    return p**2 / 2 - tp.log(abs(q))


@tp.hamiltonian
def bodies(q: tp.Array["n", 2], p: tp.Array["n", 2], m: tp.Array["n"]):
    return ((p * p).sum(-1) / m).sum() / 2 - tp.pair_sum(
        m[:, None] * m[None, :] / tp.sqrt(tp.pair_distance2(q))
    )


FALL = {"q": [1.0, 0.0], "p": [0.0, 0.0]}


@pytest.mark.requirement("S2-39")
@pytest.mark.parametrize("more", [{}, {"check_every": 50}, {"checks": "on", "check_every": 1}])
@pytest.mark.parametrize("backend", ["llvm", "numpy", "python"])
def test_a_fall_into_a_centre_stops_before_the_step_that_passes_it(backend, more):
    sim = tp.compile(kepler, dt=0.01, method="leapfrog", backend=backend, **more)
    with pytest.warns(tp.PhysicsWarning, match=r"step 111 \(t = 1.11\) passes a pole of mu/sqrt"):
        out = sim.evolve(**FALL, steps=150, save_every=1)
    assert (out.stopped.cause, out.stopped.step, out.steps[-1]) == ("singularity", 111, 110)
    free = tp.compile(kepler, dt=0.01, method="leapfrog", backend=backend, checks="off")
    assert np.array_equal(out.q, free.evolve(**FALL, steps=150, save_every=1).q[:111])


def test_it_stops_again_and_again():
    """Short runs of one form are not prepared anew, and most of them are not looked at."""
    sim = tp.compile(kepler, dt=0.01, method="leapfrog")
    sim.evolve(q=[1.0, 0.0], p=[0.0, 1.0], steps=150)
    for _ in range(20):
        sim.evolve(q=[1.0, 0.0], p=[0.0, 1.0], steps=150)
    with pytest.warns(tp.PhysicsWarning, match="step 111"):
        assert sim.evolve(**FALL, steps=150).stopped.step == 111
    assert sim.evolve(q=[1.0, 0.0], p=[0.0, 1.0], steps=150).stopped is None


def test_strict_raises_and_off_goes_on():
    strict = tp.compile(kepler, dt=0.01, method="leapfrog", checks="strict")
    with pytest.raises(tp.PhysicsIntegrityError, match='time="logarithmic"') as found:
        strict.evolve(**FALL, steps=150)
    assert found.value.out.stopped.step == 111 and found.value.evidence["step"] == 111
    off = tp.compile(kepler, dt=0.01, method="leapfrog", checks="off")
    assert off.evolve(**FALL, steps=150).stopped is None


def test_members_of_a_short_ensemble_stop_alone():
    start = dict(q=np.tile([1.0, 0.0], (3, 1)), p=np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.6]]))
    with pytest.warns(tp.PhysicsWarning, match="step 111 of member 1"):
        out = tp.compile(kepler, dt=0.01, method="leapfrog").evolve(**start, steps=150)
    off = tp.compile(kepler, dt=0.01, method="leapfrog", checks="off").evolve(**start, steps=150)
    assert [(s.member, s.step) for s in out.stops] == [(1, 111)]
    assert np.array_equal(out.final.q[[0, 2]], off.final.q[[0, 2]])


@pytest.mark.filterwarnings("ignore::tinyphysics.PhysicsWarning")
@pytest.mark.parametrize("cuts", [(80,), (110,), (111,), (1, 2, 109)])
def test_a_run_in_pieces_stops_where_the_whole_does(tmp_path, cuts):
    sim, file = tp.compile(kepler, dt=0.01, method="leapfrog"), tmp_path / "run"
    whole = sim.evolve(**FALL, steps=150, save_every=1)
    out = sim.evolve(**FALL, steps=cuts[0], checkpoint=file)
    for a, b in zip(cuts, (*cuts[1:], 150)):
        if out.stopped is None:
            out = sim.evolve(steps=b - a, resume=file, checkpoint=file)
    assert (out.stopped.cause, out.stopped.step, out.hash) == ("singularity", 111, whole.hash)


PAIR = {"q": [[0.0, 0.0], [1.0, 0.0], [5.0, 0.0]], "p": np.zeros((3, 2)), "m": [1.0, 1.0, 1.0]}


@pytest.mark.filterwarnings("ignore::tinyphysics.PhysicsWarning")
@pytest.mark.parametrize("system, start, method, backend", [
    (kepler, FALL, "leapfrog_dkd", "numpy"), (kepler, FALL, "blanes_moan4", "llvm"), (kepler, FALL, "leapfrog", "python"),
    (bodies, PAIR, "leapfrog", "llvm"), (bodies, PAIR, "nystrom4", "c"),
])  # fmt: skip
def test_it_stops_alike_whatever_else_is_asked(tmp_path, system, start, method, backend):
    given = {"dt": 0.01, "method": method, "backend": backend}
    sim, file = tp.compile(system, **given), tmp_path / "run"
    whole = sim.evolve(**start, steps=130)
    first = sim.evolve(**start, steps=60, checkpoint=file)
    rows = {k: np.stack([np.asarray(v, float) + d for d in (0.0, 0.1)]) for k, v in start.items()}
    member = sim.evolve(**rows, steps=130)
    runs = [
        sim.evolve(**start, steps=130, save_every=7, hash_every=10),
        sim.evolve(**start, steps=130, observe={"x": lambda q: (q * q).sum()}),
        tp.compile(system, **given, check_every=32).evolve(**start, steps=130),
        sim.evolve(steps=70, resume=file),
    ]
    assert whole.stopped.cause == "singularity" and first.stopped is None
    assert {(out.stopped.step, out.hash) for out in runs} == {(whole.stopped.step, whole.hash)}
    steps = {stop.member: stop.step for stop in member.stops}
    assert np.array_equal(member.final.q[0], whole.final.q) and steps[0] == whole.stopped.step


@pytest.mark.parametrize("zero, places", [
    ("q @ q", 1), ("(2*q[0])**2 + q[1]**2", 1), ("tp.sqrt(q @ q) + q @ q", 1), ("tp.hypot(q[0], q[1])", 1),
    ("q[0]*(q[1] - 1)", 0), ("3*(q[0] + 0.5*q[1] - d)", 1), ("tp.norm(q)*tp.exp(q[0])", 0), ("q @ q - 1", 0),
    ("q[0]**2 + q[0]*q[1] + q[1]**2", 0),
])  # fmt: skip
def test_which_poles_have_places(zero, places):
    """Whose terms depend on more than their distance, or whose zeros are curved, are left to the energy."""
    scope = {"tp": tp}
    exec(f"def system(q: tp.Vec[2], p: tp.Vec[2], d=0.3):\n    return p @ p/2 - 1/({zero})", scope)
    assert len(forms_of(tp.hamiltonian(scope["system"]))) == places


def test_a_pole_that_is_steeper_in_another_direction_is_found():
    """It begins on the x axis, where the same |x| is harmless, and passes the pole on the y axis."""

    @tp.hamiltonian
    def flat(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 - 0.01 / tp.sqrt(q[0] ** 2 + (30 * q[1]) ** 2)

    (form,) = forms_of(flat)
    assert not form.by_distance
    start = {"q": [1.5, -0.02], "p": [-1.0, 0.0133]}
    out = tp.compile(flat, dt=0.01, method="leapfrog", checks="off").evolve(**start, steps=200, save_every=1)
    with pytest.warns(tp.PhysicsWarning, match="passes a pole"):
        stop = tp.compile(flat, dt=0.01, method="leapfrog").evolve(**start, steps=200).stopped
    way = out.q[stop.step - 1 : stop.step + 1]
    assert (
        stop.step == passed_pole(part_of(out.origin.run, [0]), 200, 2.0).step and (way[0] * way[1]).min() < 0
    )


@pytest.mark.filterwarnings("ignore::tinyphysics.PhysicsWarning")
def test_what_only_frames_show_warns_and_does_not_stop(tmp_path):
    """A sphere is no such place: whether a short run stops may not depend on where it ends."""

    @tp.hamiltonian
    def shell(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 - 0.05 / (q @ q - 1)

    sim, file = tp.compile(shell, dt=0.01, method="leapfrog"), tmp_path / "run"
    start = {"q": [1.5, 0.0], "p": [-1.0, 0.0]}
    with pytest.warns(tp.PhysicsWarning, match="passes a pole of"):
        whole = sim.evolve(**start, steps=90)
    sim.evolve(**start, steps=40, checkpoint=file)
    assert whole.stopped is None and sim.evolve(steps=50, resume=file).hash == whole.hash


@pytest.mark.filterwarnings("ignore::tinyphysics.PhysicsWarning")
@pytest.mark.parametrize("n, method", [(4, "leapfrog"), pytest.param(3, "yoshida4", marks=pytest.mark.all)])
def test_pairs_that_meet_stop_alike_alone_in_ensembles_and_in_pieces(n, method, tmp_path):
    """Bodies that fall from rest: most of twenty such clusters meet within 150 steps."""
    q = np.random.default_rng(n).normal(size=(20, n, 2))
    sim, m = tp.compile(bodies, dt=0.01, method=method), np.ones(n)
    out = sim.evolve(q=q, p=0 * q, m=m, steps=150)
    alone = [sim.evolve(q=x, p=0 * x, m=m, steps=150).stopped for x in q]
    sim.evolve(q=q, p=0 * q, m=m, steps=60, checkpoint=tmp_path / "run")
    parts = sim.evolve(resume=tmp_path / "run", steps=90)
    stops = [sorted((s.member, s.step, s.where) for s in x.stops) for x in (out, parts)]
    assert stops[0] == stops[1] == [(k, s.step, s.where) for k, s in enumerate(alone) if s is not None]
    assert 10 < len(stops[0]) and out.hash == parts.hash
    assert all(0 <= i < j < n for _, _, (i, j) in stops[0])


@pytest.mark.filterwarnings("ignore::tinyphysics.PhysicsWarning")
def test_every_drift_is_looked_at_whatever_is_saved():
    """Passages whose energy comes back: neither frames nor strides of looks may decide whether a run stops."""
    r = np.random.default_rng(7)
    members = 400
    start = {"q": r.normal(size=(members, 2)), "p": 0.3 * r.normal(size=(members, 2))}
    sim = tp.compile(kepler, dt=0.02, method="leapfrog")
    runs = [
        sim.evolve(**start, steps=300, **more)
        for more in ({"frames": 2}, {"save_every": 1}, {"save_every": 7})
    ]
    stops = [sorted((s.member, s.step) for s in out.stops) for out in runs]
    assert 20 < len(stops[0]) < members and stops[0] == stops[1] == stops[2]
    alone = [sim.evolve(q=start["q"][k], p=start["p"][k], steps=300, frames=2).stopped for k in range(40)]
    assert [(k, s.step) for k, s in enumerate(alone) if s is not None] == [x for x in stops[0] if x[0] < 40]
    for k, step in stops[0][:8]:  # as the replay that samples the ways finds it
        free = tp.compile(kepler, dt=0.02, method="leapfrog", checks="off")
        out = free.evolve(q=start["q"][k], p=start["p"][k], steps=300)
        assert passed_pole(part_of(out.origin.run, [0]), 300, 2.0).step == step


@pytest.mark.filterwarnings("ignore::tinyphysics.PhysicsWarning")
def test_poles_of_another_place_are_found_by_the_loop_too():
    @tp.hamiltonian
    def two_centres(q: tp.Vec[3], p: tp.Vec[3], d: float = 1.0):
        aside = q[1] ** 2 + q[2] ** 2
        return p @ p / 2 - 1 / tp.sqrt((q[0] + d) ** 2 + aside) - 1 / tp.sqrt((q[0] - d) ** 2 + aside)

    sim = tp.compile(two_centres, dt=0.01, method="leapfrog")
    assert len(forms_of(two_centres)) == 2
    out = sim.evolve(q=[2.0, 0.0, 0.0], p=[0.0, 0.0, 0.0], steps=300)
    assert out.stopped.cause == "singularity" and abs(out.final.q[0] - 1.0) < 0.2


def test_a_jump_is_no_pole():
    @tp.hamiltonian
    def step(q, p):
        return p**2 / 2 + 0.1 * q / abs(q)

    assert not poles_of(step)
    with pytest.warns(
        tp.PhysicsWarning, match=r"A shorter dt does not help if it crossed a jump: .*q/abs\(q\)"
    ):
        assert tp.compile(step, dt=0.01, method="leapfrog").evolve(q=1.0, p=-1.0, steps=200).stopped is None


def test_a_member_stops_alone():
    sim = tp.compile(kepler, dt=0.01, method="leapfrog", check_every=40)
    p = np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.6]])
    with pytest.warns(tp.PhysicsWarning, match="step 111 of member 1"):
        out = sim.evolve(
            q=np.tile([1.0, 0.0], (3, 1)), p=p, steps=150, save_every=1, observe={"x": lambda q: q[0]}
        )
    assert [(s.member, s.step) for s in out.stops] == [(1, 111)]
    assert np.isfinite(out.q[:, [0, 2]]).all() and np.isnan(out.q[111:, 1]).all()
    assert np.isfinite(out.q[:111]).all() and np.isfinite(out.final.q).all()
    assert np.isnan(out["x"][111:, 1]).all() and np.isfinite(out["x"][:111, 1]).all()


@pytest.mark.parametrize("more", [{}, {"check_every": 40}])
def test_two_bodies_that_meet_between_two_steps_are_named(more):
    start = {"q": [[0.0, 0.0], [1.0, 0.0], [5.0, 0.0]], "p": np.zeros((3, 2)), "m": [1.0, 1.0, 1.0]}
    with pytest.warns(tp.PhysicsWarning, match="between particles 0 and 1"):
        out = tp.compile(bodies, dt=0.01, method="leapfrog", **more).evolve(**start, steps=120)
    assert (out.stopped.step, out.stopped.where) == (79, (0, 1))  # both fall for a time of pi/4


def test_bodies_of_many_masses_meet_too():
    """Fifty bodies, which are too many for a matrix of second derivatives; the heavy pair falls for pi/4."""
    r = np.random.default_rng(3)
    q = np.concatenate([[[0.0, 0.0], [1.0, 0.0]], 100 * r.normal(size=(48, 2))])
    m = np.concatenate([[1.0, 1.0], np.full(48, 1e-6)])
    sim = tp.compile(bodies, dt=0.01, method="leapfrog", check_every=64)
    with pytest.warns(tp.PhysicsWarning, match="between particles 0 and 1"):
        out = sim.evolve(q=q, p=np.zeros((50, 2)), m=m, steps=128)
    assert (out.stopped.step, out.stopped.where) == (79, (0, 1))


def test_a_segment_is_looked_at_between_its_ends():
    """At a speed of 300 a step of 3 leaps over the centre; only the way shows that."""
    sim = tp.compile(kepler, dt=0.01, method="leapfrog", checks="off")
    out = sim.evolve(q=[10.0, 1e-3], p=[-300.0, 0.0], steps=6)
    found = passed_pole(part_of(out.origin.run, [0]), 6, 2.0)
    assert found.step == 4 and found.distance < 0.02  # from 1 to -2


@pytest.mark.requirement("S2-39")
def test_the_limit_is_where_the_method_is_no_longer_stable():
    """r = (mu dt**2/2)**(1/3): orbits whose nearest point is above it pass, those below it stop."""
    limit = (0.01**2 / 2) ** (1 / 3)
    sim = tp.compile(kepler, dt=0.01, method="leapfrog", checks="off")
    near = 0
    for p in np.linspace(0.02, 0.5, 13):
        out = sim.evolve(q=[1.0, 0.0], p=[0.0, float(p)], steps=200, save_every=1)
        found = passed_pole(part_of(out.origin.run, [0]), 200, 2.0)
        ways = out.q[:-1, None] + np.linspace(0, 1, 200)[:, None] * np.diff(out.q, axis=0)[:, None]
        least = np.linalg.norm(ways, axis=-1).min(axis=1)
        inside = np.flatnonzero(least < limit)
        near += len(inside) > 0
        assert (found is None) == (len(inside) == 0)
        assert found is None or found.step == inside[0] + 1
    assert 0 < near < 13


def test_without_a_pole_there_is_no_alarm():
    with warnings.catch_warnings():
        warnings.simplefilter("error", tp.PhysicsWarning)
        for system, start in (
            (kepler, {"q": [1.0, 0.0], "p": [0.0, 0.6]}),
            (soft, {"q": [1.0, 0.0], "p": [0.0, 0.0]}),
        ):
            sim = tp.compile(system, dt=0.01, method="leapfrog", check_every=64, checks={"shadow": 0.1})
            out = sim.evolve(**start, steps=2000)
            assert out.stopped is None and "singularity" not in out.metrics


def test_a_softened_centre_is_no_pole():
    assert poles_of(kepler) and not poles_of(soft)


def test_a_step_that_is_too_long_everywhere_is_no_pole():
    sim = tp.compile(kepler, dt=5.0, method="leapfrog")
    with pytest.warns(tp.PhysicsWarning, match="beyond the stability limit"):
        assert sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=100).stopped is None


def test_a_logarithm_has_a_pole():
    sim = tp.compile(well, dt=0.01, method="leapfrog")
    with pytest.warns(tp.PhysicsWarning, match="passes a pole of log"):
        out = sim.evolve(q=1.0, p=-20.0, steps=30)
    assert out.stopped.cause == "singularity"


def test_a_time_that_is_stretched_goes_through():
    out = tp.compile(kepler, dt=0.01, time="logarithmic").evolve(q=[1.0, 0.0], p=[0.0, 0.01], until=3.0)
    assert out.stopped is None and out.drift("energy") < 1e-6


def flights(count: int) -> dict[str, np.ndarray]:
    """Falls, orbits and flights past a pole, some with steps that are longer than the distance."""
    r = np.random.default_rng(5)
    angle, near = r.uniform(0, 2 * np.pi, count), 10.0 ** r.uniform(-3, 0, count)
    speed = 10.0 ** r.uniform(-1, 2, count)
    along, across = (
        np.stack([np.cos(angle), np.sin(angle)], -1),
        np.stack([-np.sin(angle), np.cos(angle)], -1),
    )
    far = r.uniform(0.5, 3.0, count)[:, None]
    return {"q": near[:, None] * across - far * along, "p": speed[:, None] * along}


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_a_loop_that_looks_at_some_lengths_stops_where_every_segment_is_looked_at(backend):
    start = flights(160)
    found = {}
    for name in (backend, "python"):  # which looks at every segment
        sim = tp.compile(kepler, dt=0.02, method="leapfrog", backend=name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = sim.evolve(**start, steps=150)
        found[name] = [(s.cause, s.member, s.step) for s in out.stops]
    assert found[backend] == found["python"]
    assert 20 < len(found[backend]) < 140


@pytest.mark.parametrize("steps", [10, 1000])
def test_a_step_that_is_no_plain_drift_has_every_segment_looked_at(steps):
    """Projected, it is longer than its drift."""

    @tp.hamiltonian
    def kepler(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 - 1 / tp.norm(q)

    out = tp.compile(kepler, dt=0.01, project="energy").evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=steps)
    assert not out.stops and np.isfinite(out.final.q).all()


@pytest.mark.parametrize(
    "backend, many, steps, each", [("llvm", 160, 150, 0), ("cuda", 40, 70, 1), ("cuda", 40, 124, 2)]
)
def test_what_a_loop_keeps_is_no_more_than_how_near_a_way_comes(
    backend, many, steps, each, request, monkeypatch
):
    if backend == "cuda":  # with so many members in a thread
        request.getfixturevalue("fake_cuda")
        monkeypatch.setattr(cuda_engines, "FULL", many // each // 2)
    start = flights(many)
    kept = []
    sim = tp.compile(kepler, dt=0.02, method="leapfrog", backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = tp.compile(kepler, dt=0.02, method="leapfrog", checks="off").evolve(
            **start, steps=steps, frames=steps + 1
        )
        from tinyphysics.runtime.measure.near_poles import Nearness

        least = Nearness.least

        def noted(self, rows, near):
            bound = least(self, rows, near)
            if near.shape[1] == many and self.by_length:
                kept.append(bound)
            return bound

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Nearness, "least", noted)
            told = sim.evolve(**start, steps=steps).metrics
    assert kept and (not each or told["shape"]["interleave"] == each)
    a, b = out.q[:-1], out.q[1:]
    with np.errstate(all="ignore"):
        part = np.clip(-(a * (b - a)).sum(-1) / ((b - a) ** 2).sum(-1), 0.0, 1.0)[..., None]
    true = (((1 - part) * a + part * b) ** 2).sum(-1).min(axis=0)
    assert (kept[-1][0] <= 4 * true + 1e-12).all()  # of what a quarter of is asked for, too


@pytest.mark.parametrize("stride", [1, 16, 64])
def test_a_watch_that_stops_a_run_does_not_hide_an_earlier_pass(stride):
    """In Python poles are looked for at the end of long stretches: a look between them found the second pass alone."""

    @tp.hamiltonian
    def line(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 5 - 1 / tp.sqrt(4 * q[0] * q[0])

    start = {"q": [0.2918733259, 0.6337413939], "p": [-0.2813533312, 0.2337282178]}
    sim = tp.compile(line, dt=0.02, backend="python", check_every=stride)
    out = sim.evolve(**start, steps=120)
    assert (out.stopped.cause, out.stopped.step) == ("singularity", 18)


@pytest.mark.parametrize("precision", ["compensated", "dd", "mixed", "float32"])
def test_a_pass_is_named_where_numbers_have_other_words(precision):
    """Eight bodies of which two fall into each other: the loop does not look at so many, and a replay names the step."""

    def bodies(q: tp.Array[8, 2], p: tp.Array[8, 2]):
        return (p * p).sum() / 2 - tp.pair_sum(1 / tp.sqrt(tp.pair_distance2(q)))

    bodies.__annotations__ = {"q": tp.Array[8, 2], "p": tp.Array[8, 2]}
    q = np.array([[3.0 * k, float(k % 3)] for k in range(8)])
    q[1] = [0.4, 0.1]
    sim = tp.compile(tp.hamiltonian(bodies), dt=0.02, method="leapfrog", precision=precision)
    with pytest.warns(tp.PhysicsWarning, match="pole|singularity|energy|Shadow"):
        sim.evolve(q=q, p=np.zeros((8, 2)), steps=60)


def test_whoever_comes_near_and_goes_on_has_its_energy_looked_at_however_many_runs_there_were():
    """Force gradients turn the pull around beside a pole: nothing passes it, and the energy is lost all the same."""
    sim, went_on = tp.compile(kepler, 0.01, method="takahashi_imada4"), 0
    for k in range(40):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            out = sim.evolve(q=[1.0 + k / 200, 0.0], p=[0.0, 0.0], steps=150)
        lost = out.stopped is None and out.drift("energy") > 0.05
        went_on += lost
        assert not lost or "the energy" in str(said[0].message)
    assert went_on > 8  # of which not all would be looked at


def test_a_loop_for_which_lengths_say_too_little_keeps_distances_from_then_on(monkeypatch):
    """Orbits beside a pole are not done again in every block, and a fall that comes later stops where it does alone."""
    from tinyphysics.runtime.stages import looking

    changed, change = [], looking.keep_distances
    monkeypatch.setattr(looking, "keep_distances", lambda run: (changed.append(run.n), change(run)))
    q = np.array([[1.0, 0.0]] * 6 + [[20.0, 0.0]])
    p = np.stack([np.zeros(7), [0.42, 0.43, 0.44, 0.45, 0.46, 1.0, 0.0]], axis=1)
    run = dict(steps=12_000, frames=2, hash_every=1_000)
    out = tp.compile(kepler, 0.01, method="leapfrog").evolve(q=q, p=p, **run)
    off = tp.compile(kepler, 0.01, method="leapfrog", checks="off").evolve(q=q, p=p, **run)
    assert changed == [1_000] and [s.member for s in out.stops] == [6]
    assert np.array_equal(out.q[:, :6], off.q[:, :6]) and out.stopped.step > 5_000
    assert (
        tp.compile(kepler, 0.01, method="leapfrog").evolve(q=q[6], p=p[6], steps=12_000).stopped.step
        == out.stopped.step
    )


def test_many_steps_beside_a_pole_are_sifted_by_a_loop_before_they_are_done_again(monkeypatch):
    from tinyphysics.runtime.measure import near_poles

    monkeypatch.setattr(near_poles, "MUCH", 100)
    asked, replayed = [], near_poles.Nearness.replayed
    monkeypatch.setattr(
        near_poles.Nearness,
        "replayed",
        lambda self, who, *more: (asked.append(list(who)), replayed(self, who, *more))[1],
    )
    q, p = [[1.0, 0.0]] * 3, [[0.0, 0.42], [0.0, 1.0], [0.0, 0.0]]
    out = tp.compile(kepler, 0.01, method="leapfrog").evolve(q=q, p=p, steps=6_000, frames=2)
    assert [(s.member, s.step) for s in out.stops] == [(2, 111)]
    assert asked == [[2]]  # the first is near by the lengths of its steps, and not by its distances
