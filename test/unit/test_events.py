"""Are events found where closed forms have them: by every method, on every backend, whoever looks and wherever a run is cut?"""

import numpy as np
import pytest
from here import need

import tinyphysics as tp
from tinyphysics.errors import InputError, PlanError
from tinyphysics.runtime.engines.roots import first_places

LOOK = {"down": lambda q: q, "fast": lambda p, t: p - 0.3 + 0.001 * t}
START = dict(q=[1.0, 2.0, 0.4], p=[0.0, 0.1, 0.9])
STEPS = {
    "leapfrog": {"dt": 0.1, "method": "leapfrog"},
    "yoshida4": {"dt": 0.2, "method": "yoshida4"},
    "rk4": {"dt": 0.2, "method": "rk4"},
    "midpoint": {"dt": 0.1, "method": "implicit_midpoint"},
    "taylor": {"dt": 0.5, "method": "taylor", "tolerance": 1e-10},
    "dop853": {"dt": 0.5, "method": "dop853"},
    "dopri5": {"dt": 0.5, "method": "dopri5"},
    "radau": {"dt": 0.5, "method": "radau"},
}


@tp.hamiltonian
def oscillator(q, p, w: float = 1.0):
    return (p * p + w * w * q * q) / 2


@tp.hamiltonian
def pendulum(q, p, g: float = 1.0):
    return p**2 / 2 - g * tp.cos(q)


@tp.hamiltonian
def free(q, p):
    return p * p / 2


@tp.hamiltonian
def chain(q: tp.Vec["n"], p: tp.Vec["n"]):
    d = tp.roll(q, -1) - q
    return p @ p / 2 + (d * d).sum() / 2 + (d**4).sum() / 4


@tp.ode
def decay(x):
    return -x


def same(a, b):
    return all(np.array_equal(getattr(a, n), getattr(b, n)) for n in ("t", "member", "rising", *a.states))


def found(out, names=LOOK):
    return [out.events(name) for name in names]


# --- roots ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("f", "root", "most"),
    [
        (lambda x: np.cos(3 * x) - 0.3, np.arccos(0.3) / 3, 14),
        (lambda x: x - 1 / 3, 1 / 3, 14),
        (lambda x: np.exp(20 * x) - 5, np.log(5) / 20, 20),
        (lambda x: np.where(x < 0.7, -1.0, 1.0), 0.7, 66),  # no slope to follow: halving
        (lambda x: (x - 0.5) ** 9, 0.5, 66),
        (lambda x: x, 0.0, 66),
    ],
)
def test_a_change_of_sign_is_found_to_rounding(f, root, most):
    calls = []

    def values(x):
        calls.append(x)
        return f(x)

    a, b = np.zeros(1), np.ones(1)
    place = first_places(lambda some: values, f(a), f(b), f(a) > 0)
    assert abs(place[0] - root) < 4e-16 and len(calls) <= most
    assert (f(place) > 0) != (f(a) > 0)


def test_brackets_do_not_know_of_each_other():
    shift = np.linspace(0.1, 0.9, 40)

    def places(s):
        def among(some):
            return lambda x: np.tanh(5 * (x - s[some])) + 0.1 * (x - s[some]) ** 2

        at_a, at_b = (among(slice(None))(0.0 * s + x) for x in (0.0, 1.0))
        return first_places(among, at_a, at_b, at_a > 0)

    assert np.array_equal(places(shift), np.concatenate([places(shift[k : k + 1]) for k in range(40)]))


# --- closed forms --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "off"),
    [
        ({"dt": 0.1}, 1e-14),  # it jumps
        ({"method": "taylor"}, 1e-13),
        ({"method": "dop853", "tolerance": 1e-13}, 1e-9),
        ({"dt": 0.1, "propagator": "loop"}, 2e-2),
        ({"dt": 0.1, "method": "yoshida4", "propagator": "loop"}, 2e-4),
        ({"dt": 0.1, "method": "rk4"}, 2e-4),
    ],
)
def test_an_oscillator_crosses_zero_when_its_cosine_does(options, off):
    events = {"zero": lambda q: q, "half": lambda q, w: q - 0.5 * w, "noon": lambda t: t - 12.0}
    out = tp.compile(oscillator, **options).evolve(q=1.0, p=0.0, until=20.05, events=events)
    zero = out.events("zero")
    assert np.abs(zero.t - np.pi * (np.arange(6) + 0.5)).max() < off
    assert zero.rising.tolist() == [False, True] * 3 and np.abs(zero.q).max() < 1e-14
    assert np.abs(np.abs(zero.p) - 1.0).max() < max(off, 1e-14)
    half = np.sort([2 * np.pi * k + s * np.pi / 3 for k in range(4) for s in (-1, 1)])[1:8]
    assert np.abs(out.events("half").t - half[half < 20.05]).max() < off
    assert out.events("noon").t.tolist() == pytest.approx([12.0], rel=3e-16)


@pytest.mark.parametrize("method", ["leapfrog", "yoshida4"])
def test_times_are_as_accurate_as_the_method_is(method):
    exact = tp.compile(pendulum, method="taylor").evolve(q=2.0, p=0.1, until=12.0, events=LOOK)
    order, off = {"leapfrog": 2, "yoshida4": 4}[method], []
    for dt in (0.1, 0.05):
        out = tp.compile(pendulum, dt=dt, method=method).evolve(q=2.0, p=0.1, until=12.0, events=LOOK)
        off.append(max(np.abs(a.t - b.t).max() for a, b in zip(found(out), found(exact))))
    assert abs(np.log2(off[0] / off[1]) - order) < 0.3


# --- nothing else changes ------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", STEPS)
def test_events_change_no_bit_and_nothing_changes_them(name, tmp_path):
    sim = tp.compile(pendulum, **STEPS[name])
    whole = sim.evolve(**START, steps=40, events=LOOK)
    assert whole.hash == sim.evolve(**START, steps=40).hash and all(map(len, found(whole)))
    for how in (
        {"save_every": 1},
        {"save_every": 7, "hash_every": 5},
        {"frames": 2},
        {"save_at": [1.03, 2.2]},
    ):
        out = sim.evolve(**START, steps=40, events=LOOK, **how)
        plain = sim.evolve(**START, steps=40, **how)
        assert out.hash == whole.hash and out.hashes == plain.hashes
        assert np.array_equal(out.q, plain.q) and all(map(same, found(out), found(whole)))
    seen = {"energy_seen": "energy", "late": lambda q, t: q * t}
    out, plain = (
        sim.evolve(**START, steps=40, observe=seen, observe_every=3, **e) for e in ({"events": LOOK}, {})
    )
    assert all(np.array_equal(out[n], plain[n]) for n in seen) and all(map(same, found(out), found(whole)))
    sim.evolve(**START, steps=17, events=LOOK, checkpoint=tmp_path / "run", checkpoint_every=5)
    parts = [
        sim.evolve(**START, steps=17, events=LOOK),
        sim.evolve(resume=tmp_path / "run", steps=1, events=LOOK),
    ]
    parts.append(sim.evolve(resume=parts[-1], steps=22, events=LOOK))
    assert parts[-1].hash == whole.hash
    for one in LOOK:
        joined = [
            np.concatenate([getattr(p.events(one), n) for p in parts]) for n in ("member", "t", "q", "rising")
        ]
        order, all_ = np.lexsort((joined[1], joined[0])), whole.events(one)
        assert all(
            np.array_equal(a[order], b)
            for a, b in zip(joined, (all_.member, all_.t, all_.q, all_.rising), strict=True)
        )


@pytest.mark.parametrize("name", STEPS)
def test_a_member_has_the_events_that_it_has_alone(name):
    sim, g = tp.compile(pendulum, **STEPS[name]), [1.0, 1.1, 0.9]
    out = sim.evolve(**START, g=g, until=8.03, events=LOOK)
    for k in range(3):
        alone = sim.evolve(q=START["q"][k], p=START["p"][k], g=g[k], until=8.03, events=LOOK)
        for one, every in zip(found(alone), found(out)):
            mine = every[every.member == k]
            assert np.array_equal(mine.t, one.t) and np.array_equal(mine.q, one.q)
            assert np.array_equal(mine.rising, one.rising)


SLOW = {("taylor", "c"), ("taylor", "opencl"), ("dop853", "c"), ("dop853", "opencl"), ("midpoint", "opencl")}


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        pytest.param(name, backend, marks=[pytest.mark.all] if (name, backend) in SLOW else [])
        for name in ("leapfrog", "midpoint", "taylor", "dop853")
        for backend in ("c", "numpy", "python", "opencl")
    ],
)
def test_every_backend_has_the_same_bits(name, backend):
    need(backend)
    options = {**STEPS[name], **({"tolerance": 1e-5} if name == "taylor" else {})}
    runs = [
        tp.compile(pendulum, backend=b, **options).evolve(**START, until=2.03, events=LOOK, save_every=2)
        for b in ("llvm", backend)
    ]
    assert runs[0].hash == runs[1].hash and sum(map(len, found(runs[0]))) == 2
    assert all(map(same, found(runs[0]), found(runs[1])))


@pytest.mark.parametrize("name", ["leapfrog", "taylor"])
def test_a_gpu_has_the_same_bits(fake_cuda, name):
    start = {n: v[:2] for n, v in START.items()}
    options = {**STEPS[name], **({"tolerance": 1e-4} if name == "taylor" else {})}
    runs = [
        tp.compile(pendulum, backend=b, **options).evolve(
            **start, steps=20 if name == "leapfrog" else 4, events=LOOK
        )
        for b in ("llvm", "cuda")
    ]
    assert runs[1].metrics["launches"] > 0 and sum(map(len, found(runs[0]))) == 1
    assert runs[0].hash == runs[1].hash and all(map(same, found(runs[0]), found(runs[1])))


@pytest.mark.parametrize("backend", ["llvm", "c", "numpy"])
def test_loops_along_an_axis_are_searched_too(backend):
    n = 300
    q = np.sin(2 * np.pi * np.arange(n) / n * 3)
    sim = tp.compile(chain, dt=0.1, sizes={"n": n}, backend=backend)
    look = {"first": lambda q: q[0] - 0.05, "mean": lambda q, n=n: q.sum() - 0.03 * n}
    out = sim.evolve(q=q, p=0 * q + 0.01, steps=80, events=look)
    plain = sim.evolve(q=q, p=0 * q + 0.01, steps=80)
    mean = out.events("mean")
    assert out.hash == plain.hash and mean.q.shape == (1, n)
    assert mean.t[0] == pytest.approx(3.0, rel=1e-12)  # momentum is kept: the mean moves at 0.01
    assert out.events("first").q[0, 0] == pytest.approx(0.05, rel=1e-13)


@pytest.mark.parametrize("precision", ["float32", "mixed", "compensated", "dd"])
def test_other_precisions(precision):
    runs = [
        tp.compile(pendulum, dt=0.1, precision=precision, backend=b).evolve(**START, steps=60, events=LOOK)
        for b in ("llvm", "numpy")
    ]
    exact = tp.compile(pendulum, dt=0.1).evolve(**START, steps=60, events=LOOK)
    assert all(map(same, found(runs[0]), found(runs[1])))
    for one, wanted in zip(found(runs[0]), found(exact)):
        assert len(one) == len(wanted) and np.abs(one.t - wanted.t).max() < (
            1e-14 if precision == "dd" else 1e-5
        )


# --- ends, beginnings and what is none -----------------------------------------------------------------------
@pytest.mark.parametrize(
    "options",
    [{"dt": 0.125}, {"dt": 0.125, "propagator": "loop"}, {"method": "taylor"}, {"method": "dop853"}],
    ids=["jump", "loop", "taylor", "dop853"],
)
@pytest.mark.parametrize("p", [1.0, -1.0])
def test_a_zero_at_the_end_of_a_step_counts_once_and_one_at_the_beginning_not_at_all(options, p):
    look = {"one": lambda q: q - p, "beginning": lambda q: q, "both": lambda q: q * (q - 2 * p)}
    out = tp.compile(free, **options).evolve(q=0.0, p=p, until=4.0, events=look)
    assert out.events("one").t.tolist() == pytest.approx([1.0], rel=1e-14)
    assert out.events("beginning").t.tolist() == []
    assert out.events("both").t.tolist() == pytest.approx([2.0], rel=1e-14)


def test_a_run_may_end_within_a_step():
    sim = tp.compile(pendulum, dt=0.5)
    whole = sim.evolve(q=1.0, p=0.0, until=20.0, events=LOOK).events("down")
    for until in (whole.t[0] + 0.01, whole.t[0] - 0.01, 0.3):
        out = sim.evolve(q=1.0, p=0.0, until=until, events=LOOK).events("down")
        assert same(out, whole[whole.t <= until])


def test_time_may_run_back():
    sim = tp.compile(pendulum, dt=-0.1)
    back = sim.evolve(q=1.0, p=0.0, steps=100, events=LOOK).events("down")
    on = tp.compile(pendulum, dt=0.1).evolve(q=1.0, p=0.0, steps=100, events=LOOK).events("down")
    assert np.array_equal(back.t, -on.t) and np.array_equal(back.p, -on.p)


@pytest.mark.parametrize("name", ["leapfrog", "taylor", "dop853"])
def test_functions_that_never_change_sign_and_that_are_no_numbers(name):
    look = {
        "never": lambda q: q + 10,
        "lost": lambda q: tp.log(-1 - q * q),
        "partly": lambda q: tp.sqrt(q) - 0.5,
    }
    out = tp.compile(pendulum, **STEPS[name]).evolve(q=1.0, p=0.0, until=6.0, events=look)
    assert len(out.events("never")) == 0 and out.events("never").q.shape == (0,)
    assert out.events("partly").q == pytest.approx([0.25, 0.25][: len(out.events("partly"))], rel=1e-12)
    assert len(out.events("partly")) >= 1  # where q < 0 it is no number, and nothing happens there
    with pytest.raises(InputError, match="`lost` was not a number anywhere"):
        out.events("lost")


def test_some_of_what_was_found():
    hits = tp.compile(pendulum, dt=0.1).evolve(**START, steps=200, events=LOOK).events("down")
    up = hits[hits.rising]
    assert up.rising.all() and (up.p > 0).all() and 0 < len(up) < len(hits)
    assert len(hits[hits.member == 1]) + len(hits[hits.member != 1]) == len(hits)
    assert hits[0].t.tolist() == hits.t[:1].tolist() and len(hits[:3]) == 3


def test_a_member_that_stopped_has_the_events_before_that():
    @tp.hamiltonian
    def runaway(q, p):
        return p * p / 2 + q * q / 2 - q**4

    out = tp.compile(runaway, dt=0.05, checks="off").evolve(
        q=[0.1, 0.4], p=[0.0, 3.0], steps=400, events={"zero": lambda q: q, "far": lambda q: q - 2.0}
    )
    (stop,) = out.stops
    assert stop.member == 1
    zero, far = out.events("zero"), out.events("far")
    assert set(zero.member.tolist()) == {0} and far.member.tolist() == [1] and far.t[0] < stop.t


def test_acts_are_no_events():
    kick = {"kick": tp.act(every=10, map=lambda p: -p)}
    sim = tp.compile(pendulum, dt=0.1)
    out = sim.evolve(q=0.4, p=0.9, steps=40, acts=kick, events={"turn": lambda p: p, "zero": lambda q: q})
    assert out.hash == sim.evolve(q=0.4, p=0.9, steps=40, acts=kick).hash
    states = sim.evolve(q=0.4, p=0.9, steps=40, acts=kick, save_every=1)
    crossed = sum(
        (states.p[k] > 0) != (states.p[k + 1] > 0) for k in range(40) if (k + 1) % 10
    )  # between acts
    assert abs(len(out.events("turn")) - crossed) <= 4 and len(out.events("turn")) < 8


def test_mistakes_are_told():
    with pytest.raises(PlanError, match="is a map: between two of its steps"):
        tp.compile(tp.map(lambda x: 3.9 * x * (1 - x))).evolve(
            x=0.3, steps=3, events={"half": lambda x: x - 0.5}
        )
    with pytest.raises(PlanError, match="the lattice has none"):
        tp.compile(pendulum, dt=0.1, precision="lattice").evolve(q=1.0, p=0.0, steps=3, events=LOOK)
    with pytest.raises(InputError, match="one number"):
        tp.compile(chain, dt=0.1, sizes={"n": 3}).evolve(
            q=[1.0] * 3, p=[0.0] * 3, steps=1, events={"q": lambda q: q}
        )


@pytest.mark.parametrize("options", [{"dt": 0.1}, {"method": "dop853"}], ids=["steps", "curves"])
def test_a_function_that_cannot_change_its_sign_is_refused(options):
    sim = tp.compile(pendulum, **options)
    for function, why in (
        (lambda q: q * q, "never negative"),
        (lambda q: q**2, "never negative"),
        (lambda p: abs(p), "never negative"),
        (lambda q: 1 + q * q, "is positive whatever the state is"),
        (lambda p: -abs(p), "never positive"),
        (lambda g: g - 3, "depends neither on a state nor on t"),
        (lambda q: 2.0, "depends neither on a state nor on t"),
    ):
        with pytest.raises(InputError, match=why):
            sim.evolve(q=1.0, p=0.0, until=1.0, events={"never": function})
    out = sim.evolve(q=1.0, p=0.0, until=8.0, events={"above": lambda q: q > 0.5, "level": lambda q: q - 0.5})
    above, level = out.events("above"), out.events("level")
    assert (
        len(level) == 3 and np.abs(above.t - level.t).max() < 1e-14
    )  # a condition is positive where it holds


# --- dense output --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["taylor", "dop853", "radau"])
def test_frames_of_a_block_are_those_of_runs_that_end_there(method):
    sim = tp.compile(pendulum, dt=0.3, method=method)
    out = sim.evolve(**START, steps=90, save_every=1, observe={"late": lambda q, t: q * t}, observe_every=2)
    for k in (1, 2, 17, 64, 65, 90):
        assert (
            sim.evolve(**START, steps=k, frames=2).hash
            == tp.compile(pendulum, dt=0.3, method=method).evolve(**START, steps=k, save_every=1).hash
        )
        assert np.array_equal(out.q[k], sim.evolve(**START, steps=k, frames=2).final.q)
    assert np.array_equal(out["late"], out.q[::2] * out.t[::2, None])
    at = [0.1, 0.77, 5.0, 13.13]
    free_ = tp.compile(pendulum, method=method).evolve(**START, until=27.0, save_at=at)
    assert np.array_equal(free_.q[3], sim.evolve(**START, until=13.13, frames=2).final.q)


def test_frames_after_a_solution_has_ended_are_nan():
    @tp.ode
    def blows_up(x):
        return x * x

    out = tp.compile(blows_up, dt=0.01, method="taylor").evolve(x=[1.0, 0.1], steps=200, save_every=1)
    assert out.stopped.member == 0 and 0.9 < out.stopped.t < 1.02
    assert np.isnan(out.x[-1, 0]) and np.isfinite(out.x[out.t < 0.99]).all()
    assert np.abs(out.x[:, 1] - 0.1 / (1 - 0.1 * out.t)).max() < 1e-14


def test_observables_of_a_run_without_dt_are_stored_with_its_frames(tmp_path):
    sim = tp.compile(pendulum, method="taylor")
    seen = {"late": lambda q, t: q * t, "speed": lambda p: p * p}
    kept, stored = (
        sim.evolve(**START, until=9.0, frames=40, observe=seen, **how)
        for how in ({}, {"save": tmp_path / "run.zarr"})
    )
    assert len(kept.times("late")) == 40
    assert np.array_equal(np.asarray(stored.times("late")), kept.times("late"))
    assert all(np.array_equal(np.asarray(stored[name]), kept[name]) for name in seen)


@pytest.mark.parametrize("method", ["taylor", "dop853"])
def test_a_run_without_dt_that_blows_up_keeps_its_earlier_events(method):
    """x' = x**2 ends at t = 1/x(0); the members after it have their own events, and only those."""

    @tp.ode
    def blows_up(x: float, y: float, t):
        return x * x, tp.cos(20 * t)

    sim, seen = tp.compile(blows_up, method=method), {"up": lambda y: y - 0.01}
    alone = sim.evolve(x=1.0, y=0.0, until=2.0, events=seen)
    before = sim.evolve(x=1.0, y=0.0, until=0.9, events=seen).events("up").t
    assert alone.stopped.cause == "not finite" and len(before) == 6
    found = alone.events("up")
    assert np.array_equal(found.t[:6], before) and found.t[-1] < 1.0
    assert np.isfinite(found.x).all()
    start = dict(x=np.array([1.0, -1.0]), y=np.zeros(2))
    both = sim.evolve(**start, until=4.0, save_at=[1.5, 2.0, 4.0], events=seen).events("up")
    assert np.array_equal(both[both.member == 0].t, found.t)
    assert both[both.member == 1].t[-1] > 3.5
