"""Does a run report what happened, and nothing else?  Frames, observables, hashes, ensembles, stops, wrong calls."""

import hashlib
import inspect
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import tinyphysics as tp
from tinyphysics.errors import InputError, PhysicsIntegrityError, PlanError, ShapeError, TinyPhysicsError
from tinyphysics.runtime.state.schedule import Schedule
from tinyphysics.tpir import vm

BACKENDS = ["python", "auto"]


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def pendulum(q, p, g=1.0):
    return p**2 / 2 - g * tp.cos(q)


@tp.hamiltonian
def driven(q, p, t, a=0.3):
    return p**2 / 2 - tp.cos(q) - a * q * tp.cos(1.3 * t)


@tp.hamiltonian
def steep(q, p):
    """Runs away: the force grows as q**3."""
    return p**2 / 2 - q**4 / 4


@tp.hamiltonian
def steep_pair(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 - q[1] ** 4 / 4 + q[0] ** 2


@tp.hamiltonian
def weighted(q: tp.Vec[2], p: tp.Vec[2], k: tp.Vec[2] = (1.0, 4.0)):
    return p @ p / 2 + (k * q**2).sum() / 2


@tp.hamiltonian
def gas(q: tp.Array["n", 2], p: tp.Array["n", 2]):
    return (p**2).sum() / 2 + (q**4).sum() / 4


@tp.hamiltonian
def needy(q, p, k: float):
    return p**2 / 2 + k * q**2 / 2


@tp.forces
def spring(q: tp.Vec[2]):
    return -q


@tp.map
def henon(x, y, a=1.4, b=0.3):
    return 1 - a * x**2 + y, b * x


@tp.map
def counter(x, t):
    return x + t


START = {
    "kepler": dict(q=[1.0, 0.0], p=[0.0, 1.2]),
    "pendulum": dict(q=0.5, p=0.1),
    "driven": dict(q=0.5, p=0.1),
    "spring": dict(q=[1.0, 0.5], p=[0.0, 0.3]),
    "henon": dict(x=0.1, y=0.2),
}


def compiled(system, dt=0.05, **options):
    return tp.compile(system, None if system.kind == "map" else dt, **options)


def same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


# --- frames (numerics.md, 8) ----------------------------------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "system, method",
    [
        (kepler, "leapfrog"),
        (kepler, "leapfrog_dkd"),
        (kepler, "yoshida4"),
        (kepler, "rk4"),
        (driven, "yoshida4"),
        (pendulum, "symplectic_euler"),
        (spring, "leapfrog"),
        (henon, "auto"),
    ],
    ids=lambda x: getattr(x, "name", x),
)
def test_frame_k_is_the_end_of_a_run_of_k_steps_bit_for_bit(system, method, backend):
    sim = compiled(system, method=method, backend=backend)
    start = START[system.name]
    ends = {}
    for save_every in (1, 7, 1000):
        out = sim.evolve(**start, steps=33, save_every=save_every, t0=0.7)
        assert out.steps.tolist() == sorted({*range(0, 34, save_every), 33})
        for n, *values in zip(out.steps.tolist(), *(getattr(out, name) for name in start)):
            if n not in ends:
                ends[n] = sim.evolve(**start, steps=n, t0=0.7).final
            for name, value in zip(start, values):
                assert same_bits(value, ends[n][name]), (n, name, save_every)


def test_a_thousand_steps_saved_every_thousand_are_two_frames():
    sim = compiled(kepler)
    out = sim.evolve(**START["kepler"], steps=2000, save_every=1000)
    assert out.steps.tolist() == [0, 1000, 2000]
    assert same_bits(out.q[1], sim.evolve(**START["kepler"], steps=1000).final.q)


def test_the_last_frame_is_always_there():
    sim = compiled(pendulum)
    for steps, save_every, frames in (
        (10, None, [*range(11)]),
        (10, 4, [0, 4, 8, 10]),
        (8, 4, [0, 4, 8]),
        (3, 7, [0, 3]),
    ):
        out = sim.evolve(**START["pendulum"], steps=steps, save_every=save_every)
        assert out.steps.tolist() == frames and out.q.shape == (len(frames),)
        assert same_bits(out.q[-1], out.final.q) and out.final.step == steps


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_step_returns_the_input_bits(backend):
    q, p = [0.1, -0.0], [1 / 3, 5e-324]
    out = compiled(kepler, backend=backend).evolve(q=q, p=p, steps=0, save_every=3)
    assert same_bits(out.final.q, np.array(q)) and same_bits(out.final.p, np.array(p))
    assert out.q.shape == (1, 2) and out.t.tolist() == [0.0] and out.stopped is None
    assert out.drift("energy") == 0.0 and out.energy.shape == (1,)


def test_times_come_from_the_integer_step():
    out = compiled(pendulum, dt=0.1).evolve(**START["pendulum"], steps=1000, save_every=1, t0=0.3)
    exact = [float(Fraction(n) * Fraction(0.1) + Fraction(0.3)) for n in range(1001)]
    assert out.t.tolist() == exact and out.final.t == exact[-1]


def test_initial_arrays_are_copied():
    """What was asked for later, an energy or a replay, must not see what the user did to the array since."""
    q, p, mu = np.array([1.0, 0.0]), np.array([0.0, 1.2]), np.array(1.0)
    sim = compiled(kepler)
    for steps in (0, 50):
        out, twin = (
            sim.evolve(q=a, p=b, mu=c, steps=steps) for a, b, c in ((q, p, mu), (q.copy(), p.copy(), 1.0))
        )
        q[:], p[:], mu[...] = 7.0, -7.0, 3.0
        assert same_bits(out.q, twin.q) and same_bits(out.final.q, twin.final.q)
        assert same_bits(out.energy, twin.energy) and out.drift("energy") == twin.drift("energy")
        q[:], p[:], mu[...] = [1.0, 0.0], [0.0, 1.2], 1.0


def test_lists_tuples_integers_and_other_layouts_mean_the_same():
    sim = compiled(kepler)
    base = sim.evolve(q=[1.0, 0.0], p=[0.0, 2.0], steps=20).hash
    wide = np.zeros((2, 4), order="F")
    wide[0, ::2], wide[1, ::2] = [1.0, 0.0], [0.0, 2.0]
    for q, p in (
        ((1, 0), (0, 2)),
        (np.array([1, 0], np.int32), np.array([0, 2], np.float32)),
        (wide[0, ::2], wide[1, ::2]),
        (np.array([1.0, 0.0], ">f8"), np.array([0.0, 2.0], ">f8")),
    ):
        assert sim.evolve(q=q, p=p, steps=20).hash == base


# --- time --------------------------------------------------------------------------------------------------
def test_until_counts_whole_steps_from_t0():
    sim = compiled(pendulum, dt=0.1)
    assert sim.evolve(**START["pendulum"], until=1.0).final.step == 10
    assert sim.evolve(**START["pendulum"], until=1.0, t0=0.4).final.step == 6
    assert sim.evolve(**START["pendulum"], until=0.3, t0=0.3).final.step == 0
    assert sim.evolve(**START["pendulum"], until=100.0).final.step == 1000
    assert compiled(pendulum, dt=-0.1).evolve(**START["pendulum"], until=-1.0).final.step == 10
    assert compiled(henon).evolve(**START["henon"], until=5).final.step == 5


@pytest.mark.parametrize("until, below", [(1.05, 10), (1.0 + 1e-7, 10), (0.99999, 9)])
def test_a_fraction_of_a_step_on_a_lattice_names_both_neighbours(until, below):
    with pytest.raises(InputError, match="the lattice has no part of a step") as caught:
        compiled(pendulum, dt=0.1, precision="lattice").evolve(**START["pendulum"], until=until)
    for n in (below, below + 1):
        assert f"steps={n}" in str(caught.value) and repr(float(Fraction(n) * Fraction(0.1))) in str(
            caught.value
        )


def test_rounding_of_until_is_forgiven():
    for dt, steps in ((0.1, 3), (0.01, 123457), (1 / 3, 1000), (1e-7, 10**6)):
        assert (
            Schedule
            and compiled(pendulum, dt=dt).evolve(**START["pendulum"], until=dt * steps).final.step == steps
        )


def test_t0_shifts_explicit_time():
    sim = compiled(driven, dt=0.05)
    whole = sim.evolve(**START["driven"], steps=40)
    first = sim.evolve(**START["driven"], steps=20)
    rest = sim.evolve(q=first.final.q, p=first.final.p, steps=20, t0=first.final.t)
    other = sim.evolve(q=first.final.q, p=first.final.p, steps=20)
    assert (
        rest.final.q == pytest.approx(whole.final.q, rel=1e-14) and abs(other.final.q - whole.final.q) > 1e-3
    )
    assert rest.t[-1] == whole.t[-1]


def test_dt_is_a_run_time_value():
    sim, other = compiled(kepler, dt=0.05), compiled(kepler, dt=0.025)
    assert (
        sim.evolve(**START["kepler"], dt=0.025, steps=30).hash
        == other.evolve(**START["kepler"], steps=30).hash
    )
    assert sim.evolve(**START["kepler"], dt=0.025, until=1.0).final.step == 40
    assert sim.evolve(**START["kepler"], steps=30).hash != other.evolve(**START["kepler"], steps=30).hash


def test_a_map_sees_the_step_number_as_t():
    out = compiled(counter).evolve(x=0.0, steps=5, save_every=1)
    assert out.x.tolist() == [0.0, 0.0, 1.0, 3.0, 6.0, 10.0]


# --- letters -----------------------------------------------------------------------------------------------
def test_letters_are_bound_by_the_first_run_and_stay():
    sim = tp.compile(gas, dt=0.01)
    assert "sizes still open" in repr(sim)
    out = sim.evolve(q=np.ones((3, 2)), p=np.zeros((3, 2)), steps=4)
    assert out.q.shape == (5, 3, 2) and "leapfrog" in str(sim.explain("full"))
    with pytest.raises(ShapeError, match="`n` is 3 since the first run"):
        sim.evolve(q=np.ones((4, 2)), p=np.zeros((4, 2)), steps=4)
    assert sim.evolve(q=np.ones((5, 3, 2)), p=np.zeros((3, 2)), steps=4).q.shape == (5, 5, 3, 2)


def test_letters_given_to_compile_and_found_in_a_run_are_the_same():
    ahead = tp.compile(gas, dt=0.01, sizes={"n": 3})
    later = tp.compile(gas, dt=0.01)
    start = dict(q=np.arange(6.0).reshape(3, 2) / 7, p=np.zeros((3, 2)), steps=9)
    assert ahead.evolve(**start).hash == later.evolve(**start).hash and ahead.tpir == later.tpir


# --- observables ----------------------------------------------------------------------------------------------
WATCH = {
    "radius": lambda q: tp.norm(q),
    "spin": lambda q, p: q[0] * p[1] - q[1] * p[0],
    "both": lambda q, p: tp.stack([q, p]),
    "clock": lambda t: t,
    "pull": lambda q, mu: mu / (q @ q),
    "constant": lambda: 2.5,
    "energy": "energy",
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_observables_have_values_times_and_shapes(backend):
    out = compiled(kepler, backend=backend).evolve(
        **START["kepler"], steps=20, save_every=1, observe=WATCH, t0=1.0, mu=1.1
    )
    assert {name: out[name].shape for name in WATCH} == {
        "radius": (21,),
        "spin": (21,),
        "both": (21, 2, 2),
        "clock": (21,),
        "pull": (21,),
        "constant": (21,),
        "energy": (21,),
    }
    assert all(same_bits(out.times(name), out.t) for name in WATCH)
    assert (
        same_bits(out["clock"], out.t)
        and same_bits(out["both"][:, 0], out.q)
        and same_bits(out["both"][:, 1], out.p)
    )
    assert out["radius"] == pytest.approx(np.linalg.norm(out.q, axis=1), rel=1e-15)
    assert out["pull"] == pytest.approx(1.1 / (out.q**2).sum(1), rel=1e-15)
    assert (out["constant"] == 2.5).all() and same_bits(out["energy"], out.energy)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "every, steps, at",
    [(1, 5, [0, 1, 2, 3, 4, 5]), (3, 10, [0, 3, 6, 9]), (100, 10, [0]), (5, 10, [0, 5, 10])],
)
def test_observables_are_taken_every_so_many_steps(backend, every, steps, at):
    sim = compiled(pendulum, backend=backend)
    full = sim.evolve(**START["pendulum"], steps=steps, save_every=1)
    for save_every in (None, 1, 4):
        out = sim.evolve(
            **START["pendulum"],
            steps=steps,
            observe={"angle": lambda q: q},
            observe_every=every,
            save_every=save_every,
        )
        assert same_bits(out["angle"], full.q[at]) and same_bits(out.times("angle"), full.t[at])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "system, method",
    [(kepler, "leapfrog"), (driven, "yoshida4"), (kepler, "rk4"), (henon, "auto")],
    ids=lambda x: getattr(x, "name", x),
)
def test_watching_changes_no_bit(system, method, backend):
    sim = compiled(system, method=method, backend=backend)
    start = START[system.name]
    name = next(iter(start))
    bare = sim.evolve(**start, steps=30)

    def reuses(**given):
        return sum((x * x * x).sum() for x in given.values())

    reuses.__signature__ = inspect.Signature(
        [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in start]
    )
    for options in (
        {"observe": {"cubes": reuses}},
        {"observe": {"cubes": reuses}, "observe_every": 7, "save_every": 2},
        {"hash_every": 3},
        {"save_every": 1, "hash_every": 1, "observe": {"cubes": reuses}},
    ):
        out = sim.evolve(**start, steps=30, **options)
        assert out.hash == bare.hash and same_bits(out.final[name], bare.final[name])
    if system.energy is not None:
        bare.energy, bare.drift("energy")
        assert sim.evolve(**start, steps=30, observe={"e": "energy"}).hash == bare.hash


def test_a_monitor_is_observed_in_every_run():
    sim = compiled(pendulum)
    sim.monitor(lambda q: q * 2, name="twice")

    def height(q):
        return 1 - tp.cos(q)

    sim.monitor(height)
    out = sim.evolve(**START["pendulum"], steps=3, observe={"thrice": lambda q: q * 3})
    assert set(out.observed) == {"twice", "height", "thrice"}
    assert sim.evolve(**START["pendulum"], steps=3)["twice"].shape == (4,)


@pytest.mark.parametrize("name", ["q", "p", "t", "energy", "final", "hash", "drift"])
def test_an_observable_cannot_have_a_name_that_reads_another_thing(name):
    with pytest.raises(tp.InputError, match=f"the observable `{name}` would be hidden"):
        compiled(pendulum).evolve(**START["pendulum"], steps=4, observe={name: lambda q: -q})


def test_the_energy_itself_may_be_observed_under_its_name():
    out = compiled(pendulum).evolve(**START["pendulum"], steps=4, save_every=1, observe={"energy": "energy"})
    assert same_bits(out["energy"], out.energy)


# --- hashes (api.md) -------------------------------------------------------------------------------------------
def hash_by_hand(*arrays):
    """blake2b-128 over dtype, shape and the digests of 64 KiB leaves, in declaration order."""
    outer = hashlib.blake2b(digest_size=16)
    for a in arrays:
        a = np.where(np.isnan(a), np.nan, a).astype("<f8")
        outer.update(f"<f8{a.shape}".encode())
        data = a.tobytes(order="C")
        for k in range(0, len(data), 65536):
            outer.update(hashlib.blake2b(data[k : k + 65536], digest_size=16).digest())
    return outer.hexdigest()


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_hash_is_what_the_interface_says(backend):
    out = compiled(kepler, backend=backend).evolve(**START["kepler"], steps=20)
    assert out.hash == hash_by_hand(out.final.q, out.final.p)
    many = compiled(kepler, backend=backend).evolve(
        q=np.ones((7, 2)), p=np.arange(14.0).reshape(7, 2) / 9, steps=20
    )
    assert many.hash == hash_by_hand(many.final.q, many.final.p)
    one = compiled(pendulum, backend=backend).evolve(**START["pendulum"], steps=20)
    assert one.hash == hash_by_hand(one.final.q, one.final.p)
    assert (
        one.hash != compiled(pendulum).evolve(q=[0.5], p=[0.1], steps=20).hash
    )  # another shape: an ensemble of one


def test_a_large_state_is_hashed_in_leaves():
    q = np.linspace(0, 1, 3 * 8192 + 5)
    out = compiled(pendulum).evolve(q=q, p=0.0, steps=1)
    assert out.final.q.nbytes > 3 * 65536 and out.hash == hash_by_hand(out.final.q, out.final.p)


def test_every_bit_counts_in_the_hash():
    sim = compiled(pendulum)
    seen = {
        sim.evolve(q=q, p=p, steps=0).hash
        for q, p in ((0.0, 0.0), (-0.0, 0.0), (5e-324, 0.0), (0.0, 5e-324), (1.0, 0.0))
    }
    assert len(seen) == 5


def test_hashes_form_a_chain():
    sim = compiled(kepler)
    out = sim.evolve(**START["kepler"], steps=20, hash_every=6)
    assert [n for n, _ in out.hashes] == [6, 12, 18]
    before = ""
    for n, h in out.hashes:
        state = sim.evolve(**START["kepler"], steps=n).hash
        before = hashlib.blake2b((before + state).encode(), digest_size=16).hexdigest()
        assert h == before
    assert sim.evolve(**START["kepler"], steps=20).hashes == []


# --- ensembles ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", ["leapfrog", "yoshida4", "rk4"])
def test_an_ensemble_is_its_members_run_alone_bit_for_bit(backend, method):
    rng = np.random.default_rng(3)
    q, p, mu = rng.normal(size=(5, 2)) + 2, rng.normal(size=(5, 2)), rng.uniform(0.5, 2, size=5)
    sim = compiled(kepler, method=method, backend=backend)
    out = sim.evolve(q=q, p=p, mu=mu, steps=15, save_every=4, observe={"r": lambda q: tp.norm(q)})
    assert out.q.shape == (5, 5, 2) and out["r"].shape == (16, 5) and out.energy.shape == (5, 5)
    for k in range(5):
        alone = sim.evolve(
            q=q[k], p=p[k], mu=mu[k], steps=15, save_every=4, observe={"r": lambda q: tp.norm(q)}
        )
        assert same_bits(out.q[:, k], alone.q) and same_bits(out.final.p[k], alone.final.p)
        assert same_bits(out["r"][:, k], alone["r"]) and same_bits(out.energy[:, k], alone.energy)
        assert out.drift("energy")[k] == alone.drift("energy")
        ours, theirs = out.drift_rate("energy")[k], alone.drift_rate("energy")
        assert ours.slope == pytest.approx(theirs.slope, rel=1e-9) and ours.error == pytest.approx(
            theirs.error, rel=1e-9
        )


def test_what_lacks_a_leading_axis_is_broadcast():
    sim = compiled(kepler)
    q = np.array([[1.0, 0.0], [1.1, 0.0], [1.2, 0.0]])
    out = sim.evolve(q=q, p=[0.0, 1.2], steps=10)
    full = sim.evolve(q=q, p=np.tile([0.0, 1.2], (3, 1)), mu=np.ones(3), steps=10)
    assert out.hash == full.hash and out.q.shape == (11, 3, 2)
    only = sim.evolve(**START["kepler"], mu=[1.0, 2.0], steps=10)
    assert only.q.shape == (11, 2, 2) and not same_bits(only.final.q[0], only.final.q[1])


def test_a_vector_of_parameters_is_one_value_and_a_matrix_one_per_member():
    sim = compiled(weighted)
    one = sim.evolve(q=[1.0, 1.0], p=[0.0, 0.0], k=[2.0, 3.0], steps=10)
    many = sim.evolve(q=[1.0, 1.0], p=[0.0, 0.0], k=[[2.0, 3.0], [1.0, 4.0]], steps=10)
    assert one.q.shape == (11, 2) and many.q.shape == (11, 2, 2)
    assert same_bits(many.final.q[0], one.final.q)
    assert same_bits(many.final.q[1], sim.evolve(q=[1.0, 1.0], p=[0.0, 0.0], steps=10).final.q)
    assert same_bits(
        sim.evolve(q=[1.0, 1.0], p=[0.0, 0.0], k=2.0, steps=10).final.q,
        sim.evolve(q=[1.0, 1.0], p=[0.0, 0.0], k=[2.0, 2.0], steps=10).final.q,
    )


def test_an_ensemble_of_one_keeps_its_axis():
    out = compiled(pendulum).evolve(q=[0.5], p=0.1, steps=4)
    assert out.q.shape == (5, 1) and out.final.q.shape == (1,) and out.drift("energy").shape == (1,)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("steps", [0, 10])
def test_an_empty_ensemble_is_legal(backend, steps):
    sim = compiled(kepler, backend=backend)
    out = sim.evolve(
        q=np.zeros((0, 2)),
        p=[0.0, 1.0],
        steps=steps,
        save_every=3,
        observe={"r": lambda q: tp.norm(q)},
        hash_every=5,
    )
    full = sim.evolve(
        q=np.ones((1, 2)),
        p=[0.0, 1.0],
        steps=steps,
        save_every=3,
        observe={"r": lambda q: tp.norm(q)},
        hash_every=5,
    )
    assert out.steps.tolist() == full.steps.tolist() and out.q.shape == (len(full.t), 0, 2)
    assert out.final.q.shape == (0, 2) and out.final.step == steps and out["r"].shape == (len(full["r"]), 0)
    assert out.stopped is None and [n for n, _ in out.hashes] == [n for n, _ in full.hashes]
    assert out.energy.shape == (len(full.t), 0) and out.drift("energy").shape == (0,)


# --- stops ---------------------------------------------------------------------------------------------------------
def last_good(sim, **start):
    """The last step at which everything is finite, one step at a time."""
    n = 1
    while sim.evolve(**start, steps=n).stopped is None:
        n += 1
    return n - 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_single_run_stops_at_the_first_bad_step(backend):
    sim = compiled(steep_pair, dt=0.1, backend=backend)
    start = dict(q=[0.5, 2.0], p=[0.0, 0.0])
    n = last_good(sim, **start)
    for options in (
        {},
        {"save_every": 1},
        {"save_every": 7},
        {"observe": {"x": lambda q: q[0]}},
        {"hash_every": 2},
    ):
        out = sim.evolve(**start, steps=1000, **options)
        stop = out.stopped
        assert (
            (stop.cause, stop.step, stop.member) == ("not finite", n + 1, None)
            and stop.where[0] in ("q", "p")
            and stop.where[1] == 1
        )
        assert stop.t == out.final.t + 0.1 or stop.t == pytest.approx(out.final.t + 0.1)
        assert (
            out.final.step == n == out.steps[-1]
            and np.isfinite(out.q).all()
            and np.isfinite(out.final.p).all()
        )
        assert same_bits(out.final.q, sim.evolve(**start, steps=n).final.q) and len(
            set(out.steps.tolist())
        ) == len(out.steps)
        for name in out.observed:
            assert out.times(name).tolist() == [k * 0.1 for k in range(n + 1)] or len(out[name]) == n + 1
        assert [k for k, _ in out.hashes] == [k for k in range(2, n + 1, 2) if options.get("hash_every")]


def test_a_run_that_is_bad_at_once_keeps_its_first_frame():
    sim = compiled(steep, dt=1e200)
    out = sim.evolve(q=1e200, p=0.0, steps=5, observe={"seen": lambda q: q})
    assert (
        out.stopped.step == 1 and out.steps.tolist() == [0] and out.final.step == 0 and out.final.q == 1e200
    )
    assert out["seen"].tolist() == [1e200]


@pytest.mark.parametrize("backend", BACKENDS)
def test_in_an_ensemble_the_member_stops_and_the_others_go_on(backend):
    sim = compiled(steep, dt=0.1, backend=backend)
    q = np.array([0.1, 3.0, 0.2, 2.0])
    alone = [sim.evolve(q=x, p=0.0, steps=40, save_every=5, observe={"x": lambda q: q * 2}) for x in q]
    assert [a.stopped is None for a in alone] == [True, False, True, False]
    out = sim.evolve(q=q, p=0.0, steps=40, save_every=5, observe={"x": lambda q: q * 2})
    assert out.steps.tolist() == list(range(0, 41, 5)) and out.metrics["not_finite"] == 2
    assert {s.member for s in out.stops} == {1, 3} and out.stopped == min(out.stops, key=lambda s: s.step)
    for k, a in enumerate(alone):
        assert same_bits(out.final.q[k], a.final.q) and same_bits(out.final.p[k], a.final.p)
        good = out.steps <= a.final.step
        assert same_bits(out.q[good, k], a.q[: good.sum()]) and np.isnan(out.q[~good, k]).all()
        assert same_bits(out["x"][: len(a["x"]), k], a["x"]) and np.isnan(out["x"][len(a["x"]) :, k]).all()
    for s in out.stops:
        assert (s.step, s.where, s.t) == (
            alone[s.member].stopped.step,
            alone[s.member].stopped.where,
            alone[s.member].stopped.t,
        )
    assert out.drift("energy")[0] == alone[0].drift("energy")


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_ensemble_whose_members_have_all_stopped_shows_each_until_its_end(backend):
    sim = compiled(steep, dt=0.1, backend=backend)
    q = np.array([2.0, 3.0])
    alone = [sim.evolve(q=x, p=0.0, steps=100) for x in q]
    out = sim.evolve(q=q, p=0.0, steps=100, save_every=4)
    for k, a in enumerate(alone):
        assert same_bits(out.final.q[k], a.final.q)
        for n, frame in zip(out.steps, out.q[:, k]):
            assert (
                np.isnan(frame)
                if n > a.final.step
                else same_bits(frame, sim.evolve(q=q[k], p=0.0, steps=int(n)).final.q)
            )


def test_strict_checks_raise_with_the_run_attached():
    sim = compiled(steep, dt=0.1, checks="strict")
    with pytest.raises(PhysicsIntegrityError) as caught:
        sim.evolve(q=2.0, p=0.0, steps=100)
    out = caught.value.out
    assert (
        out.stopped.step == out.final.step + 1
        and str(out.stopped.step) in str(caught.value)
        and caught.value.fix
    )
    assert sim.evolve(q=0.1, p=0.0, steps=10).stopped is None


# --- interruptions ---------------------------------------------------------------------------------------------------
class Impatient:
    """A virtual machine whose user presses Ctrl-C in the n-th call of one of its functions."""

    def __init__(self, monkeypatch, name, n):
        self.calls, real = 0, getattr(vm.Machine, name)

        def call(machine, *args, **kwargs):
            self.calls += 1
            if self.calls == n:
                raise KeyboardInterrupt
            return real(machine, *args, **kwargs)

        monkeypatch.setattr(vm.Machine, name, call)


@pytest.mark.parametrize(
    "name, n", [("advance", 1), ("advance", 4), ("advance", 90), ("final", 7), ("final", 29), ("final", 60)]
)
def test_ctrl_c_returns_whole_blocks(monkeypatch, name, n):
    sim = compiled(pendulum, backend="python")
    start = dict(q=[0.5, 0.6, 0.7], p=0.0)
    whole = sim.evolve(**start, steps=40, save_every=4, hash_every=4, observe={"x": lambda q: q})
    with monkeypatch.context() as patch:
        Impatient(patch, name, n)
        out = sim.evolve(**start, steps=40, save_every=4, hash_every=4, observe={"x": lambda q: q})
    stop = out.stopped
    assert (
        stop.cause == "interrupted"
        and isinstance(stop.error, KeyboardInterrupt)
        and stop.step == out.final.step < 40
    )
    assert stop.step % 4 == 0, "a block ends where someone looks"
    frames = len(out.t)
    assert out.steps.tolist() == list(range(0, stop.step + 1, 4))
    assert same_bits(out.q, whole.q[:frames]) and same_bits(out.final.q, whole.q[frames - 1])
    assert same_bits(out["x"], whole["x"][: stop.step + 1]) and len(out.times("x")) == stop.step + 1
    assert out.hashes == whole.hashes[: frames - 1]
    assert same_bits(out.drift("energy"), sim.evolve(**start, steps=stop.step).drift("energy"))


def test_the_last_frame_is_the_final_state_and_is_not_computed_twice(monkeypatch):
    sim = compiled(pendulum, backend="python")
    whole = sim.evolve(q=0.5, p=0.0, steps=40, save_every=10)
    with monkeypatch.context() as patch:
        Impatient(patch, "final", 5)  # four frames after the first; a fifth look would be interrupted
        out = sim.evolve(q=0.5, p=0.0, steps=40, save_every=10)
    assert out.stopped is None and out.final.step == 40
    assert out.hash == whole.hash and same_bits(out.q, whole.q)


def test_ctrl_c_at_the_very_end_of_a_run_that_failed_loses_nothing(monkeypatch):
    @tp.hamiltonian
    def falls(q, p):
        return p**2 / 2 - q**4

    sim = tp.compile(falls, dt=0.1, backend="python")
    whole = sim.evolve(q=1.0, p=1.0, steps=100, frames=2)
    with monkeypatch.context() as patch:
        Impatient(patch, "final", 2)  # one for the last good state, one for the end
        out = sim.evolve(q=1.0, p=1.0, steps=100, frames=2)
    assert {s.cause for s in out.stops} == {"not finite", "interrupted"}
    assert out.hash == whole.hash and same_bits(out.q, whole.q)


def test_ctrl_c_loses_at_most_one_block_of_a_long_run(monkeypatch):
    sim = compiled(pendulum, backend="python")
    with monkeypatch.context() as patch:
        Impatient(patch, "advance", 3)
        out = sim.evolve(q=0.5, p=0.0, steps=10**9)
    assert 0 < out.final.step == out.stopped.step <= 10**4 and out.steps.tolist() == [0, out.final.step]
    assert out.hash == sim.evolve(q=0.5, p=0.0, steps=out.final.step).hash


# --- energy and drift (numerics.md, 10) ---------------------------------------------------------------------------------
def test_drift_is_the_worst_over_every_step_relative_to_the_largest_sum_of_terms():
    sim = compiled(kepler)
    out = sim.evolve(**START["kepler"], steps=300, save_every=100)
    every = sim.evolve(**START["kepler"], steps=300, save_every=1)
    kinetic, potential = (every.p**2).sum(1) / 2, 1 / np.linalg.norm(every.q, axis=1)
    energy = kinetic - potential
    expected = abs(energy - energy[0]).max() / (kinetic + potential).max()
    assert out.drift("energy") == out.drift() == every.drift("energy") == pytest.approx(expected, rel=1e-9)
    assert abs(out.energy - out.energy[0]).max() < abs(energy - energy[0]).max()


def test_a_common_factor_does_not_hide_the_terms_of_an_energy():
    """(p**2 - 2/r)/2 has the terms of p**2/2 - 1/r; divided by |E| instead, a drift near E = 0 would explode."""

    @tp.hamiltonian
    def factored(q: tp.Vec[2], p: tp.Vec[2]):
        return (p @ p - 2 / tp.norm(q)) / 2

    @tp.hamiltonian
    def scaled(q: tp.Vec[2], p: tp.Vec[2]):
        return -0.5 * (2 / tp.norm(q) - p @ p)

    plain = compiled(kepler).evolve(**START["kepler"], steps=100).drift("energy")
    for system in (factored, scaled):
        assert compiled(system).evolve(**START["kepler"], steps=100).drift("energy") == pytest.approx(
            plain, rel=1e-6
        )


def test_drift_rate_is_a_fitted_slope_with_its_standard_error():
    out = compiled(kepler, dt=0.1, method="rk4").evolve(**START["kepler"], steps=500, t0=3.0)
    t, energy, _ = out.every_step("energy")
    fit = stats.linregress(t, energy)
    rate = out.drift_rate("energy")
    assert (rate.slope, rate.error) == pytest.approx((fit.slope, fit.stderr), rel=1e-9)
    with pytest.raises(InputError) as caught:
        compiled(kepler).evolve(**START["kepler"], steps=1).drift_rate("energy")
    assert caught.value.fix


def test_energies_are_those_of_the_frames():
    out = compiled(driven).evolve(**START["driven"], steps=10, save_every=2, t0=0.4, a=0.7)
    expected = out.p**2 / 2 - np.cos(out.q) - 0.7 * out.q * np.cos(1.3 * out.t)
    assert out.energy == pytest.approx(expected, rel=1e-14)


def test_frames_and_energies_are_synchronised():
    """Half a kick too much would be an energy error of order dt: slope 1 instead of 2."""
    worst = []
    for dt in (0.1, 0.05, 0.025):
        out = compiled(kepler, dt=dt).evolve(**START["kepler"], until=2.0, save_every=1)
        worst.append(abs(out.energy - out.energy[0]).max())
    assert np.log2(np.divide(worst[:-1], worst[1:])) == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("system", [spring, henon], ids=lambda s: s.name)
def test_without_an_energy_the_error_says_why(system):
    out = compiled(system).evolve(**START[system.name], steps=5)
    for ask in (lambda: out.energy, lambda: out.drift("energy"), lambda: out.drift_rate("energy")):
        with pytest.raises(PlanError, match="no energy is known") as caught:
            ask()
        assert "Hamiltonian" in str(caught.value) and caught.value.fix


# --- metrics -----------------------------------------------------------------------------------------------------------------
def test_metrics_say_what_was_asked_and_what_ran():
    out = compiled(kepler, backend="python").evolve(q=np.ones((3, 2)), p=[0.0, 1.0], steps=7, seed=5)
    assert out.metrics["backend"] == {"requested": "python", "used": "python"}
    assert (out.metrics["steps"], out.metrics["members"], out.metrics["seed"]) == (7, 3, 5)
    assert out.metrics["program"] == compiled(kepler).tpir.hash and out.metrics["bits"] >= 1
    assert compiled(kepler).evolve(**START["kepler"], steps=1).metrics["backend"]["requested"] == "auto"


# --- wrong calls ---------------------------------------------------------------------------------------------------------------
def evolve(system=kepler, **given):
    start = dict(START[system.name]) if system.name in START else {}
    return compiled(system).evolve(**{**start, "steps": 5, **given})


class Odd:
    pass


# fmt: off
WRONG = [
    (lambda: evolve(steps=None),                                     "steps",         "evolve needs either steps= or until=, and not both"),
    (lambda: evolve(until=1.0),                                      "until",         "evolve needs either steps= or until=, and not both"),
    (lambda: evolve(steps=-1),                                       "steps",         "steps=-1 is less than 0"),
    (lambda: evolve(steps=2.5),                                      "steps",         "steps=2.5 is not a whole number"),
    (lambda: evolve(steps="many"),                                   "steps",         "steps='many' is not a whole number"),
    (lambda: evolve(steps=None, until=-1.0),                         "until",         "lies before t0"),
    (lambda: evolve(steps=None, until="noon"),                       "until",         "until='noon' is not a time"),
    (lambda: evolve(steps=None, until=math.inf),                     "until",         "until=inf is not a time"),
    (lambda: evolve(steps=None, until=[1.0, 2.0]),                   "until",         "is not a time"),
    (lambda: evolve(t0="now"),                                       "t0",            "t0='now' is not a time"),
    (lambda: evolve(t0=math.nan),                                    "t0",            "t0=nan is not a time"),
    (lambda: evolve(dt=0),                                           "dt",            "dt=0 is not a time step"),
    (lambda: evolve(dt="short"),                                     "dt",            "dt='short' is not a time step"),
    (lambda: evolve(dt=None),                                        "dt",            "dt is missing"),
    (lambda: evolve(save_every=0),                                   "save_every",    "save_every=0 is less than 1"),
    (lambda: evolve(save_every=1.5),                                 "save_every",    "save_every=1.5 is not a whole number"),
    (lambda: evolve(observe={"r": lambda q: q}, observe_every=0),    "observe_every", "observe_every=0 is less than 1"),
    (lambda: evolve(hash_every=-3),                                  "hash_every",    "hash_every=-3 is less than 1"),
    (lambda: evolve(q=None),                                         "q",             "`q` is None"),
    (lambda: compiled(kepler).evolve(p=[0.0, 1.0], steps=5),         "q",             "the initial `q` is missing"),
    (lambda: evolve(q=[1.0, 2.0, 3.0]),                              "q",             "`q` has shape (3,)"),
    (lambda: evolve(q=1.0),                                          "q",             "`q` has shape ()"),
    (lambda: evolve(q=np.ones((2, 3, 2))),                           "q",             "`q` has shape (2, 3, 2)"),
    (lambda: evolve(q=[1.0, math.nan]),                              "q",             "the initial `q` is not finite"),
    (lambda: evolve(q=["left", "right"]),                            "q",             "`q` is not a number"),
    (lambda: evolve(q=[[1.0], [2.0, 3.0]]),                          "q",             "`q` is not a number"),
    (lambda: evolve(q=np.array([1.0 + 2.0j, 0.0])),                  "q",             "`q` is not a number"),
    (lambda: evolve(q=Odd()),                                        "q",             "`q` is not a number"),
    (lambda: evolve(mu="heavy"),                                     "mu",            "`mu` is not a number"),
    (lambda: evolve(mu=[[1.0, 2.0]]),                                "mu",            "`mu` has shape (1, 2)"),
    (lambda: evolve(nu=2.0),                                         "nu",            "no state or parameter `nu`"),
    (lambda: evolve(Q=[1.0, 0.0]),                                   "Q",             "no state or parameter `Q`"),
    (lambda: evolve(q=np.ones((3, 2)), p=np.ones((4, 2))),           "p",             "(ensemble) axes have different lengths"),
    (lambda: evolve(q=np.ones((3, 2)), mu=np.ones(2)),               "mu",            "(ensemble) axes have different lengths"),
    (lambda: evolve(needy, q=1.0, p=0.0),                            "k",             "`k` has no default"),
    (lambda: evolve(observe={"r": lambda x: x}),                     "r",             "has an argument `x`"),
    (lambda: evolve(observe={"r": 3}),                               "r",             "is not a function"),
    (lambda: evolve(observe={"r": "speed"}),                         "r",             "observe['r'] = 'speed'"),
    (lambda: evolve(observe=[lambda q: q]),                          "observe",       "is not a dict"),
    (lambda: evolve(observe={"r": lambda q: None}),                  "r",             "the observable `r` returns nothing"),
    (lambda: evolve(observe={"r": lambda q: float(q[0])}),           "q",             "needs a number"),
    (lambda: evolve(spring, observe={"e": "energy"}),                "e",             "no energy"),
    (lambda: evolve(progress="loud"),                                "progress",      "progress='loud'"),
    (lambda: evolve(threads=0),                                      "threads",       "threads=0 is less than 1"),
    (lambda: evolve(threads="all"),                                  "threads",       "threads='all' is not a whole number"),
    (lambda: evolve(checkpoint=3),                                   "checkpoint",    "checkpoint=3 is not a path"),
    (lambda: evolve(checkpoint_every=5),                             "checkpoint_every", "checkpoint_every= needs checkpoint="),
    (lambda: evolve(checkpoint="nowhere/run.checkpoint"),            "checkpoint",    "no directory `nowhere`"),
    (lambda: evolve(resume="no.checkpoint"),                         "checkpoint",    "could not be read"),
    (lambda: evolve(henon, dt=0.1),                                  "dt",            "is a map: it has no dt"),
    (lambda: evolve()["speed"],                                      "speed",         "`speed` was not observed"),
    (lambda: evolve().times("speed"),                                "speed",         "`speed` was not observed"),
    (lambda: evolve().drift("spin"),                                 "spin",          "the drift of `spin` is not known"),
    (lambda: tp.compile(gas, dt=0.1).evolve(q=np.ones((2, 2)), p=np.ones((3, 2)), steps=1), "p",             "but `q` has n = 2"),
    (lambda: tp.compile(gas, dt=0.1).evolve(q=np.ones(2), p=np.ones(2), steps=1),           "q",             "`q` has shape (2,)"),
    (lambda: tp.compile(gas, dt=0.1).evolve(steps=1),                "n",             "the size `n` cannot be determined"),
]
# fmt: on


@pytest.mark.parametrize("call, argument, what", WRONG, ids=[f"{k}-{w}" for k, (_, _, w) in enumerate(WRONG)])
def test_a_wrong_call_names_the_argument_and_says_what_to_write(call, argument, what):
    with pytest.raises(TinyPhysicsError) as caught:
        call()
    error = caught.value
    assert what in str(error) and re.search(rf"\b{argument}\b", error.what) and error.fix, str(error)


def test_a_misspelt_attribute_names_the_near_one():
    out = evolve()
    with pytest.raises(AttributeError, match="Did you mean `energy`"):
        out.enrgy
    with pytest.raises(AttributeError, match="this system has q, p"):
        out.final.velocity
