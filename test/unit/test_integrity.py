"""Is a run stopped at the step that breaks what it conserves, and is no healthy run stopped or changed?"""

from __future__ import annotations

import math
import warnings
from contextlib import nullcontext

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.device.engines.engine import LaneEngine
from tinyphysics.runtime.measure.shadow import every_step, first_term, next_term
from tinyphysics.runtime.measure.watched_charges import watch_charges
from tinyphysics.runtime.measure.watches import stride, watches
from tinyphysics.runtime.stages.origin import Origin

SINCE = 100


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def gravity(q: tp.Array["n", 3], p: tp.Array["n", 3], eps: float = 0.05):
    return (p * p).sum() / 2 - tp.pair_sum(1 / tp.sqrt(tp.pair_distance2(q) + eps**2))


@tp.hamiltonian
def pulled_apart(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + 0.1 * (q[0] - q[1])


@tp.hamiltonian
def free(q: tp.Vec[1], p: tp.Vec[1]):
    return p @ p / 2


def cluster(n: int = 4, *lead: int) -> dict[str, np.ndarray]:
    r = np.random.default_rng(1)
    return {"q": r.normal(size=(*lead, n, 3)), "p": r.normal(size=(*lead, n, 3))}


def faulty(**more) -> dict:
    return {"acts": {"flip": tp.fault("p", (3, 0), relative=1e-3, since=SINCE)}, **more}


# --- what is found ------------------------------------------------------------------------------------
@pytest.mark.requirement("S2-53")
@pytest.mark.parametrize(
    "options",
    [
        {"backend": "llvm"},
        {"backend": "c"},
        {"backend": "numpy"},
        {"backend": "llvm", "precision": "float32"},
        {"backend": "llvm", "precision": "mixed"},
        {"backend": "llvm", "precision": "compensated"},
        {"backend": "llvm", "precision": "dd"},
        {"backend": "llvm", "method": "yoshida4"},
    ],
    ids=lambda o: "-".join(o.values()),
)
def test_a_fault_stops_a_run_at_its_step(options):
    sim = tp.compile(gravity, dt=1e-3, check_every=64, **{"method": "leapfrog", **options})
    good = sim.evolve(**cluster(), steps=SINCE - 1)
    with pytest.warns(tp.PhysicsWarning, match=r"momentum\[0\] changed by .* at step 100"):
        out = sim.evolve(**cluster(), steps=160, save_every=1, **faulty())
    stop = out.stopped
    assert (stop.cause, stop.step, stop.where) == ("integrity", SINCE, ("p", 9))  # p[3, 0] is number 9
    assert out.steps[-1] == SINCE - 1
    assert (out.final.q == good.final.q).all() and (out.final.p == good.final.p).all()


def test_a_fault_is_found_in_python_too():
    sim = tp.compile(kepler, dt=0.02, method="leapfrog", check_every=16, backend="python")
    fault = {"flip": tp.fault("q", 1, relative=1e-3, since=20)}
    with pytest.warns(tp.PhysicsWarning, match=r"angular_momentum\[0, 1\] changed"):
        out = sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=40, acts=fault)
    assert (out.stopped.step, out.stopped.where) == (20, ("q", 1))


@pytest.mark.requirement("S2-53")
def test_strict_raises_with_quantity_size_band_place_and_checkpoint(tmp_path):
    sim = tp.compile(gravity, dt=1e-3, method="leapfrog", checks="strict", check_every=64)
    path = tmp_path / "run.checkpoint"
    more = {"checkpoint": path, "checkpoint_every": 32}
    with pytest.raises(tp.PhysicsIntegrityError) as found:
        sim.evolve(**cluster(), steps=160, **faulty(**more))
    told = str(found.value)
    for part in (
        "momentum[0] changed by",
        "at step 100 (t = 0.1)",
        "the smallest change that is noticed",
        "Act `flip` changed p[3, 0]",
        "run.checkpoint` has step 96",
    ):
        assert part in told
    assert found.value.out.stopped.step == SINCE


def test_members_that_a_fault_does_not_change_go_on():
    """A momentum of zero stays zero, whatever it is multiplied by."""
    sim = tp.compile(free, dt=0.01, method="leapfrog", propagator="loop", check_every=8)
    fault = {"flip": tp.fault("p", 0, relative=1e-3, since=20)}
    p = np.array([[1.0], [0.0], [2.0]])
    with pytest.warns(tp.PhysicsWarning, match="2 members in all"):
        out = sim.evolve(
            q=np.zeros((3, 1)), p=p, steps=30, save_every=1, acts=fault, observe={"v": lambda p: p[0]}
        )
    assert [(s.member, s.step) for s in out.stops] == [(0, 20), (2, 20)]
    assert np.isnan(out.p[20:, 0]).all() and np.isfinite(out.p[:20]).all() and (out.p[:, 1] == 0).all()
    assert np.isnan(out["v"][20:, 2]).all() and np.isfinite(out["v"][:20]).all()


def test_digests_of_an_ensemble_do_not_depend_on_the_stride():
    fault = {"flip": tp.fault("p", 0, relative=1e-3, since=20)}
    start = {"q": np.zeros((2, 1)), "p": np.array([[1.0], [0.0]])}
    seen = []
    for every in (1, 4, 64):
        sim = tp.compile(free, dt=0.01, method="leapfrog", propagator="loop", check_every=every)
        with pytest.warns(tp.PhysicsWarning):
            seen.append(sim.evolve(**start, steps=64, hash_every=64, acts=fault).hashes)
    assert seen[0] == seen[1] == seen[2]


def test_a_run_that_goes_on_stops_where_the_whole_run_does(tmp_path):
    sim = tp.compile(gravity, dt=1e-3, method="leapfrog", check_every=64)
    path = tmp_path / "run.checkpoint"
    sim.evolve(**cluster(), steps=50, **faulty(checkpoint=path))
    with pytest.warns(tp.PhysicsWarning):
        out = sim.evolve(resume=path, steps=100)
    assert (out.stopped.cause, out.stopped.step) == ("integrity", SINCE)


def test_no_frame_of_a_bad_step_is_streamed(tmp_path):
    sim = tp.compile(gravity, dt=1e-3, method="leapfrog", check_every=64)
    with pytest.warns(tp.PhysicsWarning):
        out = sim.evolve(**cluster(), steps=160, save=tmp_path / "run.zarr", save_every=1, **faulty())
    assert out.steps[-1] == SINCE - 1 and np.isfinite(np.asarray(out.q)).all()


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    return (p @ p + q @ q) / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3


CHAOTIC = {"q": [0.0, -0.016], "p": [math.sqrt(0.25 - 0.016**2 - 2 * 0.016**3 / 3), 0.0]}  # of energy 1/8


@pytest.mark.parametrize(
    "options", [{}, {"backend": "numpy"}, {"precision": "float32"}, {"method": "leapfrog_dkd"}]
)
def test_the_shadow_energy_finds_a_fault_where_no_charge_is_kept(options):
    sim = tp.compile(henon_heiles, dt=0.1, check_every=64, **{"method": "leapfrog", **options})
    fault = {"flip": tp.fault("p", 0, relative=1e-3, since=SINCE)}
    with pytest.warns(tp.PhysicsWarning, match="shadow energy changed by .* at step 100"):
        out = sim.evolve(**CHAOTIC, steps=160, acts=fault)
    assert (out.stopped.step, out.stopped.where) == (SINCE, ("p", 0))
    assert out.stopped.error.evidence["where"] == "p[0]"


def test_what_is_left_of_the_shadow_energy_is_its_next_term():
    """H + dt**2 H2 varies by dt**4, with dt**4 H4 by dt**6."""
    left = []
    for dt in (0.1, 0.05):
        sim = tp.compile(henon_heiles, dt=dt, method="leapfrog")
        out = sim.evolve(**CHAOTIC, until=100.0)
        both = first_term(sim.system, ("V", "T", "V"), dt), next_term(sim.system, ("V", "T", "V"), dt)
        again = every_step(out.origin, {"shadow": both[0], "next": both[1]})
        shadow, after = again.series("shadow")[:, 0], again.series("next")[:, 0]
        left.append([np.ptp(shadow), np.ptp(shadow + after)])
        assert 0.5 < np.ptp(after) / np.ptp(shadow) < 2
    slopes = np.log2(np.array(left[0]) / left[1])
    assert slopes == pytest.approx([4.0, 6.0], abs=0.1)


@pytest.mark.parametrize(
    "system, start", [(kepler, {"q": [1.0, 0.0], "p": [0.0, 1.2]}), (henon_heiles, CHAOTIC)]
)
def test_a_number_that_no_step_wrote_is_found_because_the_replay_has_other_bits(system, start, monkeypatch):
    """As if a bit of the memory had flipped after step 150."""
    sim = tp.compile(system, dt=0.05, method="leapfrog", check_every=64, backend="numpy")
    advance, count = LaneEngine.advance, [0]

    def flipped(self, m, steps):
        advance(self, m, steps)
        count[0] += steps
        if count[0] - steps < 150 <= count[0]:
            m.carried[2] = m.carried[2] * (1 + 2.0**-10)

    monkeypatch.setattr(LaneEngine, "advance", flipped)
    with pytest.warns(tp.PhysicsWarning, match="a number changed that no step wrote"):
        out = sim.evolve(**start, steps=256, frames=2)
    assert (out.stopped.cause, out.stopped.step) == ("integrity", 129)  # the look before was at step 128


# --- what is not --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "options",
    [{}, {"save_every": 3}, {"hash_every": 10}, {"observe": {"r": lambda q: q[0, 0]}}],
    ids=["plain", "frames", "digests", "observed"],
)
def test_checks_change_no_bit(options):
    on = tp.compile(gravity, dt=1e-3, method="leapfrog", check_every=7)
    off = tp.compile(gravity, dt=1e-3, method="leapfrog", checks="off")
    a, b = (sim.evolve(**cluster(4, 3), steps=100, **options) for sim in (on, off))
    assert a.stopped is None and a.hash == b.hash and a.hashes == b.hashes
    assert np.array_equal(a.q, b.q)
    assert "checks" not in b.metrics and a.metrics["checks"]["every"] == 7


def watched(sim, out):
    """The watch of a run that is over, at its last step."""
    r = out.origin.run
    assert isinstance(out.origin, Origin)
    found = watch_charges(sim, r, 1)
    assert found is not None
    one, w = found
    first, now = ({k: v[i] for k, v in out.origin.looked(w.values).items()} for i in (0, -1))
    one.begin(slice(0, r.given.members), first)
    return one, w, now


def test_roundings_with_a_bias_are_no_fault():
    """A constant force rounds alike for many steps: the sum of momenta leaves its walk, and no step jumps."""
    sim = tp.compile(pulled_apart, dt=0.01, method="leapfrog", propagator="loop")
    out = sim.evolve(q=[0.0, 0.0], p=[1.0, 300.0], steps=100_000, frames=2)
    one, w, now = watched(sim, out)
    assert one.bad(slice(0, 1), now, 100_000).all()  # far outside a random walk
    assert one.find([0], 0, 100_000) == {} and one.biased["momentum[0]"].all()
    assert not one.bad(slice(0, 1), now, 100_000).any()
    strict = tp.compile(pulled_apart, dt=0.01, method="leapfrog", propagator="loop", checks="strict")
    assert strict.evolve(q=[0.0, 0.0], p=[1.0, 300.0], steps=100_000, frames=2).stopped is None


def test_forces_that_balance_are_no_fault():
    """Bodies at rest on a ring with a charge in its middle: large forces cancel, and all momenta are their roundings."""

    @tp.hamiltonian
    def ring(q: tp.Array["n", 2], p: tp.Array["n", 2]):
        return (p * p).sum() / 2 + tp.pair_sum(1e3 * (tp.sqrt(tp.pair_distance2(q) + 1.0) - 1.0) ** 2)

    angles = 2 * np.pi * np.arange(6) / 6
    q = np.stack([np.cos(angles), np.sin(angles)], -1)
    sim = tp.compile(ring, dt=1e-4, method="leapfrog", checks="strict", check_every=256)
    assert sim.evolve(q=q, p=0 * q, steps=4096, frames=2).stopped is None


def test_a_band_is_six_to_twenty_walks_of_the_angular_momentum():
    n, members = 4096, 64
    start = {
        "q": np.tile([1.0, 0.0], (members, 1)),
        "p": np.stack([np.zeros(members), np.linspace(0.8, 1.2, members)], -1),
    }
    sim = tp.compile(kepler, dt=0.02, method="leapfrog")
    out = sim.evolve(**start, steps=n, save_every=64)
    one, w, _ = watched(sim, out)
    seen = out.origin.looked(w.values)
    for k in range(1, len(out.steps)):
        now = {name: v[k] for name, v in seen.items()}
        assert not one.bad(slice(0, members), now, int(out.steps[k])).any()
    name = "angular_momentum[0, 1]"
    mean = one.variance[name] / (one.looks + 1)
    band = one.band(name, n, mean, now[f"{name} moved"], False)
    sigma = 0.52 * 2.0**-53 * math.sqrt(n)
    assert (6 * sigma < band).all() and (band < 20 * sigma).all()


@pytest.mark.parametrize("looks", [1, 2, 3, 7])
@pytest.mark.parametrize("fault", [False, True])
def test_looks_at_the_nodes_of_a_tilted_orbit_raise_no_alarm(looks, fault):
    """There a component of the angular momentum has no roundings, and elsewhere it has."""

    @tp.hamiltonian
    def kepler(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2 - 1 / tp.norm(q)

    members, half = 8, 256
    tilts = np.linspace(0.1, 1.5, members)
    start = {"q": np.tile([1.0, 0.0, 0.0], (members, 1))}
    start["p"] = np.stack([0 * tilts, np.cos(tilts), np.sin(tilts)], -1)
    sim = tp.compile(kepler, dt=np.pi / half, method="leapfrog", check_every=16 * half)
    at = 16 * half * (looks - 1) + 1000
    acts = {"fault": tp.fault("p", (2,), relative=1e-9, since=at)} if fault else None
    out = sim.evolve(**start, steps=16 * half * looks, frames=2, acts=acts)
    if fault:
        assert {s.step for s in out.stops} == {at} and len(out.stops) == members
    else:
        assert out.metrics["checks"]["alarms"] == 0 and not out.stops


@pytest.mark.parametrize("p, dt", [(0.6, 0.02), (0.3, 0.01), (0.6, 0.1), (1.2, 0.3)])
def test_an_orbit_that_begins_far_out_has_its_error_ahead_of_it(p, dt):
    """At apocentre the next term is 5e-6 of what it is later: a band from the first stretch would cry wolf."""
    sim = tp.compile(kepler, dt=dt, method="leapfrog", check_every=16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # steps as long as these are complained about
        out = sim.evolve(q=[1.0, 0.0], p=[0.0, p], steps=4000)
    assert out.stopped is None


def lennard_jones(q, p):
    s = 1 / (q @ q) ** 3
    return p @ p / 2 + 4 * (s * s - s)


# by name: the energy, how many numbers q has, how widely q and p are spread, and where around
# fmt: off
POTENTIALS = {
    "kepler":    (lambda q, p: p @ p / 2 - 1 / tp.norm(q), 2, 0.3, 0.7, 1.0),
    "chaotic":   (lambda q, p: (p @ p + q @ q) / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3, 2, 0.15, 0.2, 0.0),
    "pendulum":  (lambda q, p: p @ p / 2 - tp.cos(q[0]), 1, 1.0, 1.0, 0.0),
    "quartic":   (lambda q, p: p @ p / 2 + (q @ q) ** 2 / 4 + q[0] * q[1] ** 2, 2, 0.6, 0.6, 0.0),
    "morse":     (lambda q, p: p @ p / 2 + (1 - tp.exp(-q[0])) ** 2, 1, 0.4, 0.5, 0.0),
    "lennard":   (lennard_jones, 2, 0.1, 0.3, 1.3),
    "yukawa":    (lambda q, p: p @ p / 2 - tp.exp(-tp.norm(q)) / tp.norm(q), 3, 0.2, 0.5, 1.0),
    "two wells": (lambda q, p: p @ p / 2 + q[0] ** 4 / 4 - q[0] ** 2 / 2, 1, 1.0, 0.5, 0.0),
    "fast":      (lambda q, p: tp.sqrt(1 + p @ p) + q @ q / 2, 1, 1.0, 1.0, 0.0),
    "isochrone": (lambda q, p: p @ p / 2 - 1 / (1 + tp.sqrt(1 + q @ q)), 2, 1.0, 0.3, 0.0),
}
# fmt: on


@pytest.mark.filterwarnings("ignore::tinyphysics.PhysicsWarning")
@pytest.mark.parametrize(
    "name, method, dt",
    [
        pytest.param(name, method, dt, marks=() if (k + 2 * j + i) % 13 == 0 else pytest.mark.all)
        for k, name in enumerate(POTENTIALS)
        for j, method in enumerate(("leapfrog", "leapfrog_dkd"))
        for i, dt in enumerate((0.005, 0.02, 0.05, 0.1, 0.2, 0.4))
    ],
)
def test_only_a_step_that_breaks_the_energy_for_good_is_one_however_long_it_is(name, method, dt):
    """Orbits of all shapes, many of them with steps that are far too long: some pass poles, some gain or lose energy."""
    energy, size, wide, fast, middle = POTENTIALS[name]
    r = np.random.default_rng(7)
    q, p = wide * r.normal(size=(64, size)), fast * r.normal(size=(64, size))
    q[:, 0] += middle
    energy.__annotations__ = {"q": tp.Vec[size], "p": tp.Vec[size]}
    system = tp.hamiltonian(energy)
    sim = tp.compile(system, dt=dt, method=method, propagator="loop", check_every=100)
    out = sim.evolve(q=q, p=p, steps=1000, frames=2)
    stops = [s for s in out.stops if s.cause == "integrity"]
    if name not in (
        "kepler",
        "lennard",
        "yukawa",
    ):  # nothing is steep enough there, but for a well that is left at 0.4
        assert len(stops) <= (name == "two wells" and dt == 0.4)
    if stops:
        free = tp.compile(system, dt=dt, method=method, propagator="loop", checks="off")
        seen = free.evolve(q=q, p=p, steps=1000, save_every=1).energy
    for s in stops:
        before, after = seen[max(0, s.step - 100) : s.step, s.member], seen[s.step : s.step + 100, s.member]
        moved = abs(np.median(after) - np.median(before)) / abs(seen[0, s.member])
        assert not moved < 0.05  # more than a twentieth of its energy, or all of it


@tp.hamiltonian
def softened(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 - 1 / tp.sqrt(q @ q + 1e-4)


@tp.hamiltonian
def by_name(q: tp.Vec[2], p: tp.Vec[2], eps: float = 0.01):
    return p @ p / 2 - 1 / tp.sqrt(q @ q + eps**2)


@pytest.mark.requirement("S2-53")
@pytest.mark.parametrize(
    "options",
    [{"check_every": 1}, {"check_every": 64}, {"check_every": 111}, {"check_every": 50, "backend": "c"}],
)
def test_a_step_that_breaks_the_energy_by_itself_stops(options):
    """A fall past a softened centre, which is no pole, with steps that are too long for it by a factor of thirty."""
    fall = {"q": [1.0, 0.0], "p": [0.0, 0.02]}
    sim = tp.compile(softened, dt=0.01, method="leapfrog", **options)
    with pytest.warns(tp.PhysicsWarning, match="energy changed by 27 at step 111 .* shorter dt"):
        out = sim.evolve(**fall, steps=500)
    assert (out.stopped.cause, out.stopped.step) == ("integrity", 111)
    assert "1/sqrt" in out.stopped.error.evidence["term"]
    many = {"q": np.tile([1.0, 0.0], (3, 1)), "p": np.array([[0.0, 1.0], [0.0, 0.02], [0.0, 0.9]])}
    with pytest.warns(tp.PhysicsWarning):
        assert [(s.member, s.step) for s in sim.evolve(**many, steps=500).stops] == [(1, 111)]
    with pytest.warns(
        tp.PhysicsWarning
    ):  # a length that is given by name: it has no pole unless that is zero
        out = tp.compile(by_name, dt=0.01, method="leapfrog", check_every=64).evolve(**fall, steps=500)
    assert (out.stopped.cause, out.stopped.step) == ("integrity", 111)
    with pytest.warns(tp.PhysicsWarning):  # no shadow energy is known there: H itself is watched
        out = tp.compile(softened, dt=0.03, method="yoshida4", check_every=64).evolve(**fall, steps=500)
    assert out.stopped.cause == "integrity" and 30 < out.stopped.step < 45
    short = tp.compile(softened, dt=1e-4, method="leapfrog", check_every=64)
    assert short.evolve(**fall, steps=20_000, frames=2).stopped is None


@pytest.mark.requirement("S2-53")
@pytest.mark.parametrize("method, dt", [("leapfrog", 0.01), ("yoshida4", 0.03)])
def test_unasked_such_a_run_is_warned_about_and_goes_on_as_its_pieces_do(monkeypatch, method, dt):
    """Only long runs are watched unasked: a stop there would be none of the pieces."""
    monkeypatch.setattr("tinyphysics.runtime.measure.watches.WORTH", 0.0)
    monkeypatch.setattr("tinyphysics.runtime.measure.watches.MOST", 64)  # steps between two looks
    fall = {"q": [1.0, 0.0], "p": [0.0, 0.02]}
    sim = tp.compile(softened, dt=dt, method=method)
    with pytest.warns(tp.PhysicsWarning, match="too large for the curvature|energy") as found:
        whole = sim.evolve(**fall, steps=512, frames=2)
    assert len(found) == 1 and whole.stopped is None
    watched = whole.metrics["checks"]["watched"]
    assert whole.metrics["checks"]["every"] == 64 and ("shadow energy" in watched) == (method == "leapfrog")
    plain = tp.compile(softened, dt=dt, method=method, checks="off").evolve(**fall, steps=512, frames=2)
    assert whole.hash == plain.hash
    for asked in ({"checks": "strict"}, {"checks": {"shadow": 1e-3}}, {"check_every": 64}):
        one = tp.compile(softened, dt=dt, method=method, **asked)
        with pytest.warns(tp.PhysicsWarning) if asked.get("checks") != "strict" else nullcontext():
            try:
                out = one.evolve(**fall, steps=512, frames=2)
            except tp.PhysicsIntegrityError as error:
                out = error.out
        assert out.stopped.cause == "integrity"


@pytest.mark.all
def test_a_thousand_chaotic_orbits_raise_no_alarm():
    members = 1000
    y = np.linspace(-0.25, 0.25, members)
    x = np.sqrt(0.25 - y**2 + 2 * y**3 / 3)
    sim = tp.compile(henon_heiles, dt=0.1, method="leapfrog", checks="strict", check_every=64)
    start = {"q": np.stack([0 * y, y], -1), "p": np.stack([x, 0 * x], -1)}
    out = sim.evolve(**start, steps=100_000, frames=2)
    assert out.stopped is None and out.metrics["checks"]["alarms"] == 0


@pytest.mark.all
@pytest.mark.requirement("S2-53")
def test_a_thousand_healthy_runs_of_a_million_steps_raise_no_alarm():
    members = 1000
    start = {
        "q": np.tile([1.0, 0.0], (members, 1)),
        "p": np.stack([np.zeros(members), np.linspace(0.8, 1.2, members)], -1),
    }
    sim = tp.compile(kepler, dt=0.02, method="leapfrog", checks="strict")
    out = sim.evolve(**start, steps=1_000_000, frames=2)
    assert out.stopped is None and out.metrics["checks"]["alarms"] == 0


@pytest.mark.all
@pytest.mark.filterwarnings("ignore::tinyphysics.PhysicsWarning")
@pytest.mark.parametrize("name", POTENTIALS)
def test_no_orbit_with_short_steps_is_stopped_in_a_million_of_them(name):
    """Those whose shadow energy stays within a thousandth of H, by three methods: 2,661 in all."""
    energy, size, wide, fast, middle = POTENTIALS[name]
    energy.__annotations__ = {"q": tp.Vec[size], "p": tp.Vec[size]}
    system = tp.hamiltonian(energy)
    r = np.random.default_rng(11)
    q, p = wide * r.normal(size=(100, size)), fast * r.normal(size=(100, size))
    q[:, 0] += middle
    for method, dt in (("leapfrog", 0.01), ("leapfrog_dkd", 0.01), ("yoshida4", 0.02)):
        options = {"dt": dt, "propagator": "loop"}
        first = tp.compile(system, method="leapfrog", checks="off", **options)
        seen = first.evolve(q=q, p=p, steps=3000, save_every=1)
        gap = np.where(np.isfinite(seen.shadow_gap), seen.shadow_gap, 1.0).max(axis=0)
        good = gap < 1e-3
        assert good.sum() >= 30
        sim = tp.compile(system, method=method, check_every=1024, **options)
        out = sim.evolve(q=q[good], p=p[good], steps=1_000_000, frames=2)
        assert "checks" in out.metrics and not [s for s in out.stops if s.cause == "integrity"]


def test_what_a_loop_keeps_beside_a_state_does_not_shorten_its_blocks(monkeypatch):
    """Its operations wait for nothing: a block of half the steps took 2 % longer."""
    blocks, block = {}, LaneEngine.block
    for checks in ("on", "off"):
        monkeypatch.setattr(
            LaneEngine,
            "block",
            lambda self, m, c=checks: blocks.setdefault(c, block(self, m)) and block(self, m),
        )
        sim = tp.compile(kepler, dt=0.02, method="leapfrog", checks=checks)
        sim.evolve(q=np.tile([1.0, 0.0], (4096, 1)), p=np.tile([0.0, 1.0], (4096, 1)), steps=8, frames=2)
    assert 0.8 * blocks["off"] < blocks["on"] <= blocks["off"]


# --- when ---------------------------------------------------------------------------------------------
def test_the_stride_is_a_power_of_two_and_grows_where_steps_are_short():
    def every(system, start):
        sim = tp.compile(system, dt=1e-3, method="leapfrog")
        return stride(sim, sim.evolve(**start, steps=1).origin.run)

    one = every(kepler, {"q": [1.0, 0.0], "p": [0.0, 1.0]})
    bodies = every(gravity, cluster(100))
    assert one > bodies >= 64 and one & (one - 1) == 0 and bodies & (bodies - 1) == 0


def test_short_runs_are_not_watched_unasked():
    sim = tp.compile(kepler, dt=0.02, method="leapfrog")
    out = sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=10)
    assert watches(sim, out.origin.run) == () and "checks" not in out.metrics


def test_acts_that_are_meant_change_what_they_like():
    sim = tp.compile(gravity, dt=1e-3, method="leapfrog", check_every=8, checks="strict")
    out = sim.evolve(**cluster(), steps=32, acts={"kick": tp.act(every=8, map=lambda p: p * 1.5)})
    assert out.stopped is None and "checks" not in out.metrics


# --- wrong calls --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "fault, told",
    [
        (lambda: tp.fault("p", (3, 0), relative=0.0, since=1), "changes nothing"),
        (lambda: tp.fault("p", (3, 0), relative=1e-3, since=0), "since"),
        (lambda: tp.fault(3, (3, 0), relative=1e-3, since=1), "not the name of a state"),
        (lambda: tp.fault("p", (3, 0), since=1), "missing its argument `relative`"),
    ],
)
def test_a_fault_is_described_by_names_and_numbers(fault, told):
    with pytest.raises(tp.TinyPhysicsError, match=told):
        fault()


@pytest.mark.parametrize(
    "fault, told",
    [
        (tp.fault("v", (0, 0), relative=1e-3, since=1), "no state `v`"),
        (tp.fault("p", (9, 0), relative=1e-3, since=1), r"p\[9, 0\] is no number of `p`"),
        (tp.fault("p", 0, relative=1e-3, since=1), r"p\[0\] is no number of `p`"),
    ],
)
def test_a_fault_is_of_a_number_that_there_is(fault, told):
    sim = tp.compile(gravity, dt=1e-3, method="leapfrog")
    with pytest.raises(tp.TinyPhysicsError, match=told):
        sim.evolve(**cluster(), steps=1, acts={"flip": fault})
