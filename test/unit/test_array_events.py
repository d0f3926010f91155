"""Arrays with steps of their own length, looked into: events and frames in loops, with the bits of the reference."""

import numpy as np
import pytest
from scipy.optimize import brentq

import tinyphysics as tp
from test_ode_arrays import bump, exact_heat, heat
from tinyphysics.device.engines.engine import LaneEngine
from tinyphysics.device.engines.loops import NestEngine
from tinyphysics.runtime.engines import adaptive_arrays

N = 70
LOOK = {
    "low": lambda u: u[35] - 0.9,
    "norm": lambda u: (u * u).sum() - 5.5,
    "noon": lambda t: t - 1.25,
    "never": lambda u: u[0] + 1.0,
}


def run(method="dopri5", backend="llvm", until=3.0, tolerance=1e-6, **how):
    sim = tp.compile(heat, method=method, sizes={"n": N}, backend=backend, tolerance=tolerance)
    return sim.evolve(**{"u": bump(N), "until": until, "save_at": [until], **how})


def same(a, b):
    for name in LOOK:
        one, two = a.events(name), b.events(name)
        assert np.array_equal(one.t, two.t) and np.array_equal(one.u, two.u)
        assert np.array_equal(one.rising, two.rising) and np.array_equal(one.member, two.member)


@pytest.mark.parametrize(
    "method, off", [("dop853", 1e-7), ("dopri5", 1e-6), pytest.param("rkc", 3e-5, marks=pytest.mark.all)]
)
def test_times_are_those_of_the_solution(method, off):
    out = run(method, tolerance=1e-5 if method == "rkc" else 1e-6, events=LOOK)
    wanted = {
        "low": brentq(lambda t: exact_heat(bump(N), t)[35] - 0.9, 0.0, 3.0, xtol=1e-13),
        "norm": brentq(lambda t: (exact_heat(bump(N), t) ** 2).sum() - 5.5, 0.0, 3.0, xtol=1e-13),
        "noon": 1.25,
    }
    for name, t in wanted.items():
        (found,) = out.events(name).t
        assert abs(found - t) < off and out.events(name).rising.tolist() == [name == "noon"]
    assert not len(out.events("never"))
    (u,) = out.events("low").u
    assert abs(u[35] - 0.9) < 1e-15 and np.abs(u - exact_heat(bump(N), wanted["low"])).max() < off


@pytest.mark.parametrize(
    "method, backend",
    [
        pytest.param("dopri5", "numpy", marks=pytest.mark.all),
        ("dopri5", "python"),
        pytest.param("dopri5", "c", marks=pytest.mark.all),
        pytest.param("dop853", "numpy", marks=pytest.mark.all),
        pytest.param("dop853", "python", marks=pytest.mark.all),
        pytest.param("rkc", "python", marks=pytest.mark.all),
        pytest.param("rkc", "c", marks=pytest.mark.all),
    ],
)
def test_every_backend_has_the_same_bits(method, backend):
    how = dict(tolerance=1e-4, events=LOOK, until=2.0, save_at=np.linspace(0.1, 2.0, 20))
    one, two = run(method, **how), run(method, backend, **how)
    assert one.hash == two.hash and np.array_equal(one.u, two.u)
    same(one, two)


def test_events_change_no_bit_and_nothing_changes_them(tmp_path):
    sim = tp.compile(heat, method="dopri5", sizes={"n": N}, dt=0.25, tolerance=1e-6)
    whole = sim.evolve(u=bump(N), steps=12, events=LOOK)
    assert whole.hash == sim.evolve(u=bump(N), steps=12).hash and len(whole.events("low")) == 1
    for how in ({"save_every": 1}, {"save_at": np.linspace(0.01, 2.99, 60)}, {"hash_every": 2}):
        out, plain = (sim.evolve(u=bump(N), steps=12, **how, **e) for e in ({"events": LOOK}, {}))
        assert out.hash == whole.hash and out.hashes == plain.hashes and np.array_equal(out.u, plain.u)
        same(out, whole)
    first = sim.evolve(u=bump(N), steps=5, events=LOOK, checkpoint=tmp_path / "heat")
    then = sim.evolve(resume=tmp_path / "heat", steps=7, events=LOOK)
    assert then.hash == whole.hash
    for name in LOOK:
        parts = np.concatenate([x.events(name).t for x in (first, then)])
        assert np.array_equal(parts, whole.events(name).t)


def test_a_member_has_the_events_that_it_has_alone_and_waits_for_nobody(monkeypatch):
    starts = np.stack([bump(N), 2 * bump(N, 1.0), np.cos(np.arange(N))])
    rates = np.array([1.0, 0.3, 2.0])
    sim = tp.compile(heat, method="dopri5", sizes={"n": N}, tolerance=1e-5)
    together = sim.evolve(u=starts, d=rates, until=2.0, save_at=[1.0, 2.0], events=LOOK)
    taken = [
        sim.evolve(u=starts[k], d=rates[k], until=2.0, save_at=[1.0, 2.0], events=LOOK) for k in range(3)
    ]
    for k, alone in enumerate(taken):
        assert np.array_equal(together.u[:, k], alone.u)
        for name in LOOK:
            mine = together.events(name)[together.events(name).member == k]
            assert np.array_equal(mine.t, alone.events(name).t) and np.array_equal(
                mine.u, alone.events(name).u
            )
    advance = NestEngine.advance
    calls = []
    monkeypatch.setattr(
        NestEngine, "advance", lambda self, m, n: (calls.append(len(m.members)), advance(self, m, n))[1]
    )
    sim.evolve(u=starts, d=rates, until=2.0, save_at=[2.0], events=LOOK)
    assert set(calls) == {1}  # one member after the other


def test_frames_in_a_step_share_its_curve(monkeypatch):
    times = np.linspace(0.05, 3.0, 60)
    looked = []
    words = adaptive_arrays.ArrayCurves.words
    monkeypatch.setattr(
        adaptive_arrays.ArrayCurves, "words", lambda self, t: (looked.append(len(t)), words(self, t))[1]
    )
    many = run("dop853", save_at=times)
    assert sum(looked) > 50 > many.metrics["substeps"]
    monkeypatch.setattr(adaptive_arrays, "LEAST_TIMES", 10**9)
    looked.clear()
    one_by_one = run("dop853", save_at=times)
    assert not looked and np.array_equal(many.u, one_by_one.u) and many.hash == one_by_one.hash


def test_several_in_a_step_and_what_touches_zero():
    @tp.ode
    def turning(x: tp.Vec["n"], v: tp.Vec["n"]):
        return v, -x

    sim = tp.compile(turning, method="dop853", sizes={"n": 100}, tolerance=1e-10)
    look = {
        "down": lambda x: x[3],
        "both": lambda x, v: x[3] * v[3],
        "touch": lambda x: x[3] * x[4],  # never changes sign
        "at": lambda x: (
            x[3] - 1.0
        ),  # begins at zero, and falls: no event until it comes back, where it touches
    }
    out = sim.evolve(x=np.ones(100), v=np.zeros(100), until=9.0, save_at=[9.0], events=look)
    assert np.abs(out.events("down").t - np.pi * np.array([0.5, 1.5, 2.5])).max() < 1e-8
    assert np.abs(out.events("both").t - np.pi * np.array([0.5, 1.0, 1.5, 2.0, 2.5])).max() < 1e-8
    assert not len(out.events("touch")) and out.events("down").rising.tolist() == [False, True, False]


def test_members_that_have_arrived_are_not_recorded(monkeypatch):
    """Of an ensemble number by number: one slow member does not make the others be written down."""

    @tp.hamiltonian
    def spring(q, p, k: float = 1.0):
        return p**2 / 2 + k * q**2 / 2 + q**4 / 4

    look = {"down": lambda q: q}
    k = np.concatenate([np.full(63, 1.0), [1e5]])
    sim = tp.compile(spring, method="dop853", tolerance=1e-8)
    widths = []
    record = LaneEngine.record

    def recorded(self, m, rows):
        widths.append(m.members)
        return record(self, m, rows)

    monkeypatch.setattr(LaneEngine, "record", recorded)
    out = sim.evolve(q=np.ones(64), p=np.zeros(64), k=k, until=10.0, events=look, frames=20)
    assert widths[0] == 64 and widths[-1] < 32
    for j in (0, 63):
        alone = sim.evolve(q=1.0, p=0.0, k=k[j], until=10.0, events=look, frames=20)
        mine = out.events("down")[out.events("down").member == j]
        assert np.array_equal(mine.t, alone.events("down").t) and np.array_equal(out.q[:, j], alone.q)


@pytest.mark.parametrize("method", ["dop853", "taylor"])
def test_parameters_may_have_any_name(method):
    """What is computed once for a step has names of its own."""

    @tp.hamiltonian
    def spring(q, p, c0: float = 2.0, c1: float = 3.0):
        return p**2 / 2 + c0 * q**2 / 2

    out = tp.compile(spring, method=method, tolerance=1e-12).evolve(
        q=1.0, p=0.0, until=1.0, events={"x": lambda q, c0, c1: (c0 * c0 + c1) * q - c0 * c1 / 2}
    )
    (t,) = out.events("x").t
    assert abs(t - np.arccos(3 / 7) / np.sqrt(2.0)) < 1e-9
