"""Do acts change a run between its steps as a loop of runs and maps by hand would?  Bit for bit, on every backend."""

import pickle

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.api.verify_store import replay

BACKENDS = ["python", "numpy", "llvm", "c"]
START = {"q": np.array([1.0, 0.2]), "p": np.array([0.1, 1.1])}


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def driven(q, p, t, a=0.3):
    return p**2 / 2 - tp.cos(q) + a * q * tp.cos(t)


@tp.hamiltonian
def chain(u: tp.Vec["n"], v: tp.Vec["n"]):
    r = np.roll(u, -1) - u
    return v @ v / 2 + (r**2 / 2 + r**4 / 4).sum()


def damped(p, q, mu):
    """Changes p, reads q and a parameter of the system."""
    return 0.9 * p + 0.01 * mu * q


@tp.map
def by_hand(p: tp.Vec[2], q: tp.Vec[2], mu: float = 1.0):
    return 0.9 * p + 0.01 * mu * q, q


@tp.map
def turned(q: tp.Vec["d"], p: tp.Vec["d"]):
    return p, -q


ACTS = {"damp": tp.act(every=10, map=damped), "turn": tp.act(every=15, map=turned)}


def loop(sim, start, steps, **more):
    """(q, p) after each step that is a multiple of five, by runs of five steps and maps between them."""
    maps = [(10, tp.compile(by_hand, backend=sim.requested)), (15, tp.compile(turned, backend=sim.requested))]
    state, out = dict(start), []
    for n in range(5, steps + 1, 5):
        last = sim.evolve(**state, **more, steps=5).final
        state = {"q": last.q, "p": last.p}
        for every, one in maps:
            if n % every == 0:
                given = more if one is maps[0][1] else {}
                last = one.evolve(**state, **given, steps=1).final
                state = {"q": last.q, "p": last.p}
        out.append(state)
    return {name: np.stack([s[name] for s in out]) for name in ("q", "p")}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_with_acts_is_a_loop_of_runs_and_maps(backend):
    """Runs of five steps are not runs of ten, whose kicks are merged: so all steps are compared through one step."""
    sim = tp.compile(kepler, dt=0.02, backend=backend, method="symplectic_euler")
    out = sim.evolve(**START, mu=1.1, steps=60, save_every=5, acts=ACTS)
    expected = loop(sim, START, 60, mu=1.1)
    assert np.array_equal(out.q[1:], expected["q"]) and np.array_equal(out.p[1:], expected["p"])
    assert list(out.acts) == ["damp", "turn"] and list(out.acts["turn"].steps) == [15, 30, 45, 60]
    assert np.array_equal(out.acts["turn"].t, 0.02 * out.acts["turn"].steps)


@pytest.mark.parametrize("backend", BACKENDS)
def test_stretches_end_by_final_and_begin_by_init(backend):
    """Of leapfrog: half kicks are merged within a stretch, and not across an act."""
    sim = tp.compile(kepler, dt=0.02, backend=backend, method="leapfrog")
    out = sim.evolve(**START, steps=40, frames=2, acts={"turn": tp.act(every=20, map=turned)})
    state = dict(START)
    for _ in range(2):
        last = sim.evolve(**state, steps=20).final
        state = {"q": last.p, "p": -last.q}
    assert np.array_equal(out.final.q, state["q"]) and np.array_equal(out.final.p, state["p"])


def test_the_order_is_that_of_the_dict():
    sim = tp.compile(kepler, dt=0.02)
    a = {"x": tp.act(every=5, map=lambda p: p + 1.0), "y": tp.act(every=5, map=lambda p: 2.0 * p)}
    b = dict(reversed(a.items()))
    first, second = (sim.evolve(**START, steps=5, acts=acts).final.p for acts in (a, b))
    plain = sim.evolve(**START, steps=5).final.p
    assert np.array_equal(first, 2.0 * (plain + 1.0)) and np.array_equal(second, 2.0 * plain + 1.0)


def test_backends_agree_and_the_program_is_that_of_the_step():
    runs = [
        tp.compile(kepler, dt=0.02, backend=b).evolve(**START, steps=50, acts=ACTS, hash_every=5)
        for b in BACKENDS
    ]
    assert len({out.hash for out in runs}) == 1 and len({str(out.hashes) for out in runs}) == 1
    plain = tp.compile(kepler, dt=0.02).evolve(**START, steps=50, hash_every=5)
    assert plain.metrics["program"] == runs[0].metrics["program"] and plain.hash != runs[0].hash
    assert plain.hashes[0] == runs[0].hashes[0] and plain.hashes[1] != runs[0].hashes[1]
    assert plain.acts == {}


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_observed_is_the_state_after_the_act_however_it_is_kept(backend):
    sim = tp.compile(kepler, dt=0.02, backend=backend)
    seen = {"p2": lambda p: p @ p}
    every = sim.evolve(**START, steps=40, save_every=1, acts=ACTS, observe=seen)  # frames of the loop itself
    some = sim.evolve(**START, steps=40, save_every=7, acts=ACTS, observe=seen, observe_every=5)
    assert np.array_equal(some.p[:-1], every.p[:-1:7]) and np.array_equal(some.p[-1], every.p[-1])
    assert np.array_equal(some["p2"], every["p2"][::5])
    assert np.allclose(every["p2"], (every.p**2).sum(axis=1), rtol=1e-15)
    steps, energies, _ = every.every_step("energy")
    assert np.array_equal(energies, every.energy)


@pytest.mark.parametrize("backend", BACKENDS)
def test_members_of_ensembles_have_the_bits_that_they_have_alone(backend):
    sim = tp.compile(kepler, dt=0.02, backend=backend)
    rng = np.random.default_rng(3)
    q, p, mu = 1.0 + 0.1 * rng.random((7, 2)), rng.random((7, 2)), 1.0 + rng.random(7)
    out = sim.evolve(q=q, p=p, mu=mu, steps=45, acts=ACTS)
    for k in range(7):
        alone = sim.evolve(q=q[k], p=p[k], mu=mu[k], steps=45, acts=ACTS)
        assert np.array_equal(out.q[:, k], alone.q) and np.array_equal(out.p[:, k], alone.p)


def test_large_ensembles_in_tiles():
    sim = tp.compile(kepler, dt=0.02)
    rng = np.random.default_rng(4)
    q, p = 1.0 + 0.1 * rng.random((300_000, 2)), rng.random((300_000, 2))
    out = sim.evolve(q=q, p=p, steps=12, frames=2, acts=ACTS)
    some = [0, 77_777, 299_999]
    few = sim.evolve(q=q[some], p=p[some], steps=12, frames=2, acts=ACTS)
    assert np.array_equal(out.final.q[some], few.final.q) and np.array_equal(out.final.p[some], few.final.p)


@pytest.mark.parametrize("backend", ["numpy", "llvm", "c"])
def test_arrays_in_loops(backend):
    n = 200
    sim = tp.compile(chain, dt=0.1, backend=backend, sizes={"n": n})
    start = {"u": np.sin(2 * np.pi * np.arange(n) / n), "v": np.zeros(n)}
    out = sim.evolve(**start, steps=20, save_every=5, acts={"stop": tp.act(every=10, map=lambda v: 0.5 * v)})
    state = dict(start)
    for k in (1, 2):
        last = sim.evolve(**state, steps=10).final
        state = {"u": last.u, "v": 0.5 * last.v}
        assert np.array_equal(out.u[2 * k], state["u"]) and np.array_equal(out.v[2 * k], state["v"])


@pytest.mark.parametrize("precision", ["float64", "float32", "dd", "compensated", "mixed", "lattice"])
def test_precisions_go_on_bit_for_bit_or_are_refused_with_words(precision, tmp_path):
    sim = tp.compile(kepler, dt=0.02, precision=precision)
    acts = {"turn": tp.act(every=10, map=turned)}
    try:
        out = sim.evolve(**START, steps=30, hash_every=5, acts=acts)
    except tp.PlanError as error:
        assert "acts['turn']" in str(error)
        return
    sim.evolve(**START, steps=20, hash_every=5, acts=acts, checkpoint=tmp_path / "c")
    again = sim.evolve(resume=tmp_path / "c", steps=10)
    assert again.hash == out.hash and again.hashes == out.hashes


@pytest.mark.parametrize("step", [5, 10, 15, 17, 20])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_that_goes_on_has_the_bits_of_one_that_never_ended(step, backend, tmp_path):
    sim = tp.compile(kepler, dt=0.02, backend=backend)
    whole = sim.evolve(
        **START, steps=40, save_every=1, hash_every=3, acts=ACTS, observe={"p2": lambda p: p @ p}
    )
    first = sim.evolve(**START, steps=step, save_every=1, hash_every=3, acts=ACTS, checkpoint=tmp_path / "c")
    for resume in (tmp_path / "c", first):
        for acts in (None, ACTS):
            out = sim.evolve(resume=resume, steps=40 - step, acts=acts, observe={"p2": lambda p: p @ p})
            assert np.array_equal(out.p, whole.p[step:]) and out.hashes == whole.hashes
            assert np.array_equal(out["p2"], whole["p2"][step:])
            assert list(out.acts["damp"].steps) == [n for n in (10, 20, 30, 40) if n > step]
            assert np.array_equal(
                out.every_step("energy")[1], whole.energy
            )  # a replay from the very beginning


def test_other_acts_do_not_go_on_with_a_run(tmp_path):
    sim = tp.compile(kepler, dt=0.02)
    sim.evolve(**START, steps=20, acts=ACTS, checkpoint=tmp_path / "c")
    for other in (
        {"damp": ACTS["damp"]},
        dict(reversed(ACTS.items())),
        {**ACTS, "damp": tp.act(every=11, map=damped)},
        {**ACTS, "turn": tp.act(every=15, map=lambda p: -p)},
    ):
        with pytest.raises(tp.StoreError, match=r"(?s)has the acts `damp every 10: .*Leave acts= out"):
            sim.evolve(resume=tmp_path / "c", steps=5, acts=other)
    plain = sim.evolve(**START, steps=20)
    with pytest.raises(tp.StoreError, match=r"has no acts, and this call has the acts `damp every 10"):
        sim.evolve(resume=plain, steps=5, acts=ACTS)


def test_stores_hold_the_acts_and_are_replayed_with_them(tmp_path):
    sim = tp.compile(kepler, dt=0.02)
    kept = sim.evolve(**START, steps=60, save_every=5, acts=ACTS)
    out = sim.evolve(**START, steps=60, save_every=5, acts=ACTS, save=tmp_path / "run.zarr")
    assert np.array_equal(out.q[:], kept.q) and out.hash == kept.hash
    found = replay(tmp_path / "run.zarr")
    assert found.difference is None and found.frames == 13


def test_rewinding_repeats_the_acts():
    for precision in ("float64", "lattice"):
        sim = tp.compile(kepler, dt=0.02, precision=precision)
        acts = {"turn": tp.act(every=15, map=turned)}
        try:
            out = sim.evolve(**START, steps=40, save_every=1, acts=acts)
        except tp.PlanError:
            continue
        back = sim.rewind(out, 12)
        assert np.array_equal(back.final.q, out.q[28]) and "replayed" in back.metrics["rewind"]


def test_a_pickled_run_keeps_its_acts():
    sim = tp.compile(kepler, dt=0.02)
    out = sim.evolve(**START, steps=40, save_every=1, acts={"turn": tp.act(every=15, map=turned)})
    again = pickle.loads(pickle.dumps(out))
    assert list(again.acts["turn"].steps) == [15, 30]
    assert np.array_equal(again.every_step("energy")[1], out.energy)


def test_time_goes_on_and_a_map_may_read_it():
    sim = tp.compile(driven, dt=0.125)  # so that times are exact, and a run by hand has the same clock
    acts = {"push": tp.act(every=4, map=lambda p, t: p + 0.5 * t)}
    out = sim.evolve(q=0.3, p=0.0, t0=1.0, steps=12, acts=acts)
    q, p = 0.3, 0.0
    for k in range(3):
        last = sim.evolve(q=q, p=p, t0=1.0 + 0.5 * k, steps=4).final
        q, p = last.q, last.p + 0.5 * (1.5 + 0.5 * k)
    assert (out.final.q, out.final.p) == (q, p)


def test_a_part_of_a_step_begins_after_the_act():
    sim = tp.compile(kepler, dt=0.125)
    acts = {"turn": tp.act(every=4, map=turned)}
    out = sim.evolve(**START, until=1.0625, save_at=[0.5, 0.5625, 1.0, 1.0625], acts=acts)
    whole = sim.evolve(**START, steps=8, save_every=1, acts=acts)
    assert np.array_equal(out.q[0], whole.q[4]) and np.array_equal(out.q[2], whole.q[8])
    for row, n in ((1, 4), (3, 8)):
        part = sim.evolve(q=whole.q[n], p=whole.p[n], dt=0.0625, steps=1)
        assert np.array_equal(out.q[row], part.final.q)


def test_random_acts_have_a_stream_of_their_own():
    sim = tp.compile(kepler, dt=0.02)

    def kicked(p):
        return p + 0.01 * tp.random.normal(2)

    def run(members, seed=0, **acts):
        state = {name: np.repeat(v[None], members, axis=0) for name, v in START.items()}
        return sim.evolve(**state, steps=20, seed=seed, acts=acts).final.p

    a = tp.act(every=10, map=kicked)
    p = run(3, a=a)
    assert len(np.unique(p[:, 0])) == 3
    assert np.array_equal(run(2, a=a), p[:2]) and not np.array_equal(run(3, seed=1, a=a), p)
    assert not np.array_equal(run(3, b=a), p)  # another name, other numbers


def test_a_member_that_an_act_makes_infinite_stops_there():
    sim = tp.compile(kepler, dt=0.02)
    p = np.array([[0.0, 1.0], [0.5, 1.0], [0.0, 1.1]])
    q = np.tile(START["q"], (3, 1))
    acts = {"bad": tp.act(every=10, map=lambda q, p: (q / tp.where(p[0] > 0.0, 0.0, 1.0), p))}
    out = sim.evolve(q=q, p=p, steps=30, save_every=5, acts=acts, observe={"x": lambda q: q[0]})
    (stop,) = out.stops
    assert (stop.cause, stop.step, stop.member, stop.where[0]) == ("not finite", 10, 1, "q")
    assert (
        np.isnan(out.q[2:, 1]).all()
        and np.isnan(out["x"][10:, 1]).all()
        and np.isfinite(out.q[:, [0, 2]]).all()
    )
    before = sim.evolve(q=q[1], p=p[1], steps=10).final
    assert np.array_equal(out.final.q[1], before.q)
    with pytest.raises(tp.PhysicsIntegrityError, match="(?s)is not finite at step 10.*An act of that step"):
        strict = tp.compile(kepler, dt=0.02, checks="strict")
        strict.evolve(q=q[1], p=p[1], steps=30, acts=acts)


def test_a_kick_of_the_energy_is_no_alarm(recwarn):
    sim = tp.compile(kepler, dt=0.02)
    sim.evolve(**START, steps=1000, acts={"kick": tp.act(every=100, map=lambda p: 1.2 * p)})
    assert not [w for w in recwarn if issubclass(w.category, tp.PhysicsWarning)]


def test_reports_speak_of_the_stretches_between_acts():
    sim = tp.compile(kepler, dt=0.02)
    assert "between two acts" not in " ".join(str(sim.explain("full")).split())
    out = sim.evolve(**START, steps=30, acts=ACTS)
    assert out.metrics["acts"]["damp"] == {
        "every": 10,
        "times": 3,
        "program": out.metrics["acts"]["damp"]["program"],
    }
    assert "what is proved holds between two acts" in " ".join(str(sim.explain("full")).split())
    sim.evolve(**START, steps=30)
    assert "between two acts" not in " ".join(str(sim.explain("full")).split())


def test_systems_may_have_something_of_that_name():
    @tp.map
    def counted(acts, x=1.0):
        return acts + x

    sim = tp.compile(counted)
    assert sim.evolve(acts=1.0, steps=3).final["acts"] == 4.0
    double = {"double": tp.act(every=3, map=lambda acts: 2 * acts)}
    out = sim.evolve(acts=1.0, steps=3, options={"acts": double})
    assert out.final["acts"] == 8.0 and out.acts[-1] == 8.0


@pytest.mark.parametrize(
    ("options", "acts", "message"),
    [
        ({"method": "taylor"}, ACTS, "acts= needs steps of dt, and `taylor` chooses its own steps"),
        ({"project": "energy"}, ACTS, "acts= cannot be combined with project="),
        ({"time": "logarithmic"}, ACTS, "acts= cannot be combined with time="),
        ({}, [ACTS["damp"]], "is not a dict of acts"),
        ({}, {"damp": damped}, r"acts\['damp'\] is .*, which is not an act.*tp.act\(every=100"),
        ({}, {"": ACTS["damp"]}, "acts= has '' as a name"),
        (
            {},
            {"x": tp.act(every=5, map=lambda r: -r)},
            "changes `r`, which is not a state of `kepler`.*`q` and `p`",
        ),
        (
            {},
            {"x": tp.act(every=5, map=lambda p, g: g * p)},
            "takes `g`, which is neither a state nor a parameter",
        ),
        ({"precision": "dd"}, ACTS, "only reads `q`, whose words in precision='dd' are not one number"),
        ({}, {"x": tp.act(every=5, map=lambda p: p[0])}, r"acts\['x'\]: .*returns shape \(\) for `p`"),
    ],
)
def test_what_does_not_go_is_said(options, acts, message):
    sim = tp.compile(kepler, dt=0.02, **options)
    with pytest.raises(tp.TinyPhysicsError, match=f"(?s){message}"):
        sim.evolve(**START, steps=20, acts=acts)


def test_jumps_and_goals_are_refused():
    @tp.hamiltonian
    def spring(q, p):
        return p**2 / 2 + q**2 / 2

    acts = {"stop": tp.act(every=5, map=lambda p: 0.0 * p)}
    with pytest.raises(tp.PlanError, match=r'(?s)the loop over them was deleted.*propagator="loop"'):
        tp.compile(spring, dt=0.1).evolve(q=1.0, p=0.0, steps=10, acts=acts)
    out = tp.compile(spring, dt=0.1, propagator="loop").evolve(q=1.0, p=0.0, steps=10, acts=acts)
    assert out.final.p == 0.0
    with pytest.raises(tp.PlanError, match="acts= cannot be combined with goals"):
        tp.compile(kepler, error=1e-3).evolve(**START, until=1.0, acts=acts)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"every": 0, "map": damped}, "every=0"),
        ({"every": 1.5, "map": damped}, "every=1.5"),
        ({"every": 5, "map": 3}, "map=3 is not a map"),
        ({"every": 5, "map": kepler}, "an act needs a map of states"),
        ({"every": 5}, "missing its argument `map`"),
        ({"evry": 5, "map": damped}, "no option `evry`"),
    ],
)
def test_an_act_is_checked_where_it_is_written(given, message):
    with pytest.raises(tp.InputError, match=message):
        tp.act(**given)


def test_arrays_on_a_gpu(fake_cuda):
    sim = tp.compile(kepler, dt=0.02, backend="cuda")
    q, p = np.tile(START["q"], (5, 1)) + np.arange(5.0)[:, None], np.tile(START["p"], (5, 1))
    out = sim.evolve(q=q, p=p, steps=30, save_every=5, acts=ACTS)
    here = tp.compile(kepler, dt=0.02).evolve(q=q, p=p, steps=30, save_every=5, acts=ACTS)
    assert out.hash == here.hash and np.array_equal(out.q, here.q)
