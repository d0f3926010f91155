"""Ensembles on other machines have the bits of one, whatever their blocks are; slices of time have those of slices in a row."""

import numpy as np
import pytest
from in_process import InProcess

import tinyphysics as tp
from tinyphysics.cluster.blocks import cut, equal, sizes
from tinyphysics.cluster.machines import Spread
from tinyphysics.cluster.scheduler import simulate
from tinyphysics.errors import BackendError, InputError, PlanError, StoreError

MEMBERS = 23


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + q @ q / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def spring(q: float, p: float, k: float = 1.0):
    return p**2 / 2 + k * q**2 / 2


@tp.hamiltonian
def chain(q: tp.Vec["n"], p: tp.Vec["n"]):
    return p @ p / 2 + ((q[1:] - q[:-1]) ** 4).sum() / 4 + q @ q / 2


@tp.map
def noisy(x: float, y: float):
    return 0.9 * x + 0.1 * tp.random.normal(), y + x


@tp.ode
def decay(x: tp.Vec[2], rate: float = 1.0):
    return -rate * x


def spread(blocks, **how):
    return Spread(lambda: InProcess(**how), blocks)


def numbers(*shape, seed=1, size=0.2):
    return np.random.default_rng(seed).uniform(-size, size, (MEMBERS, *shape))


def pair(*shape):
    return {"q": numbers(*shape), "p": numbers(*shape, seed=2)}


CASES = {
    "frames, observables and events": (
        henon_heiles, {"dt": 0.05}, pair(2),
        {"steps": 60, "save_every": 7, "hash_every": 20, "observe": {"r": lambda q: q @ q}, "events": {"x": lambda q: q[0]}},
    ),
    "one parameter a member": (
        kepler, {"dt": 0.01}, {"q": numbers(2) + [1.0, 0.0], "p": numbers(2) + [0.0, 1.2], "mu": 1.0 + numbers()},
        {"until": 0.333, "frames": 5},
    ),
    "steps of their own": (
        kepler, {"method": "taylor", "dt": 0.1}, {"q": numbers(2) + [1.0, 0.0], "p": numbers(2) + [0.0, 1.2]},
        {"steps": 10, "save_every": 4},
    ),
    "a jump": (spring, {"dt": 0.1}, pair(), {"steps": 1000, "frames": 3}),
    "noise": (noisy, {}, {"x": numbers(), "y": numbers()}, {"steps": 50, "seed": 5, "hash_every": 10}),
    "a bath": (henon_heiles, {"dt": 0.05, "temperature": 0.01}, pair(2), {"steps": 40, "seed": 3, "frames": 3}),
    "two words": (henon_heiles, {"dt": 0.05, "precision": "dd"}, pair(2), {"steps": 10, "hash_every": 5}),
    "a lattice": (henon_heiles, {"dt": 0.05, "precision": "lattice"}, pair(2), {"steps": 30, "hash_every": 10}),
    "loops": (chain, {"dt": 0.05}, pair(40), {"steps": 12, "save_every": 5}),
    "rates": (decay, {"dt": 0.1, "method": "rk4"}, {"x": numbers(2)}, {"save_at": [0.25, 0.7]}),
    "acts": (
        henon_heiles, {"dt": 0.05}, pair(2),
        {"steps": 40, "acts": {"turn": tp.act(every=9, map=lambda p: -p)}, "frames": 3},
    ),
    "another time": (
        kepler, {"dt": 0.02, "time": "logarithmic"}, {"q": numbers(2) + [1.0, 0.0], "p": numbers(2) + [0.0, 1.2]},
        {"steps": 30, "frames": 4},
    ),
}  # fmt: skip


def same(a, b):
    assert a.hash == b.hash
    assert a.hashes == b.hashes
    assert [(s.cause, s.step, s.member, s.where) for s in a.stops] == [
        (s.cause, s.step, s.member, s.where) for s in b.stops
    ]
    assert np.array_equal(a.t, b.t, equal_nan=True) and np.array_equal(a.steps, b.steps)
    for name in a.frames:
        assert np.array_equal(a.frames[name], b.frames[name], equal_nan=True), name
    for name in a.observed:
        assert np.array_equal(a[name], b[name], equal_nan=True), name
    for name in a.found:
        for what in ("t", "member", "rising"):
            assert np.array_equal(getattr(a.events(name), what), getattr(b.events(name), what))


@pytest.mark.parametrize("case", CASES)
def test_blocks_of_members_have_the_bits_of_the_whole(case):
    system, options, given, call = CASES[case]
    sim = tp.compile(system, **options)
    whole = sim.evolve(**given, **call, progress=False)
    parts = sim.evolve(**given, **call, progress=False, on=spread(5))
    same(whole, parts)
    assert parts.metrics["cluster"]["blocks"] == 5


@pytest.mark.parametrize("blocks", [1, 2, 7, 23, 64, None])
def test_any_number_of_blocks_gives_one_hash(blocks):
    sim = tp.compile(henon_heiles, dt=0.05)
    given = pair(2)
    whole = sim.evolve(**given, steps=50, hash_every=25)
    same(whole, sim.evolve(**given, steps=50, hash_every=25, on=spread(blocks, seed=blocks or 0)))


def test_members_that_fail_stop_where_they_do_alone():
    sim = tp.compile(henon_heiles, dt=0.05, checks="off")
    given = pair(2)
    given["q"][[3, 4, 5, 6, 11]] = [5.0, 9.0]  # with 6 blocks of 4: one has no member left
    call = {"steps": 90, "save_every": 4, "hash_every": 30, "observe": {"r": lambda q: q @ q}}
    whole = sim.evolve(**given, **call)
    parts = sim.evolve(**given, **call, on=spread(6))
    assert len(whole.stops) == 5
    same(whole, parts)
    assert all(np.array_equal(getattr(whole.final, n), getattr(parts.final, n)) for n in ("q", "p"))


def test_all_members_that_fail_leave_what_there_was():
    sim = tp.compile(henon_heiles, dt=0.05, checks="off")
    given = {"q": np.full((6, 2), 5.0) + np.arange(6)[:, None], "p": np.zeros((6, 2))}
    call = {"steps": 200, "save_every": 3}
    same(sim.evolve(**given, **call), sim.evolve(**given, **call, on=spread(3)))


def test_a_run_goes_on_from_one_that_was_spread():
    sim = tp.compile(henon_heiles, dt=0.05)
    given = pair(2)
    whole, parts = sim.evolve(**given, steps=30), sim.evolve(**given, steps=30, on=spread(4))
    same(sim.evolve(resume=whole, steps=20), sim.evolve(resume=parts, steps=20, on=spread(3)))
    assert np.array_equal(whole.drift("energy"), parts.drift("energy"))


def test_with_on_ensembles_are_spread_and_single_runs_stay():
    sim = tp.compile(henon_heiles, dt=0.05)
    with tp.on(spread(3)):
        many = sim.evolve(**pair(2), steps=5)
        one = sim.evolve(q=[0.1, 0.0], p=[0.0, 0.1], steps=5)
    assert "cluster" in many.metrics and "cluster" not in one.metrics
    assert "cluster" not in sim.evolve(**pair(2), steps=5).metrics


def test_a_worker_that_computes_wrongly_is_named_and_does_no_more():
    sim, given = tp.compile(henon_heiles, dt=0.05), pair(2)
    whole = sim.evolve(**given, steps=20)
    wrong = sim.evolve(**given, steps=20, on=spread(7, wrong="b"))
    assert wrong.hash != whole.hash  # not asked, not found
    found = sim.evolve(**given, steps=20, on=spread(7, wrong="b"), verify=1)
    same(whole, found)
    assert found.metrics["cluster"]["liars"] == ["b"]


def test_a_worker_that_cannot_do_it_is_named_and_others_do():
    sim = tp.compile(henon_heiles, dt=0.05)
    whole = sim.evolve(**pair(2), steps=20)
    out = sim.evolve(**pair(2), steps=20, on=Spread(lambda: InProcess(unable="b"), 7))
    same(whole, out)
    assert out.metrics["cluster"]["refused"] == {"b": "backend='cuda': there is no GPU"}
    with pytest.raises(BackendError, match="no worker can do it. [abc]: backend='cuda'"):
        sim.evolve(**pair(2), steps=20, on=Spread(lambda: InProcess(unable="abc"), 7))


def test_the_share_that_is_verified_is_that_which_was_asked_for():
    sim, given = tp.compile(henon_heiles, dt=0.05), pair(2)
    out = [sim.evolve(**given, steps=20, on=spread(23), verify=v).metrics["cluster"] for v in (None, 0.5, 1)]
    assert out[0]["verified"] == 0 and 4 <= out[1]["verified"] <= 19 and out[2]["verified"] == 23


def test_members_whose_workers_died_stop_and_the_others_go_on():
    sim, given = tp.compile(henon_heiles, dt=0.05), pair(2)
    whole = sim.evolve(**given, steps=20, frames=2)
    out = sim.evolve(**given, steps=20, frames=2, on=spread(4, dying="b"))
    gone = sorted(s.member for s in out.stops)
    assert gone and {s.cause for s in out.stops} == {"worker"} and len(gone) < MEMBERS
    rest = [k for k in range(MEMBERS) if k not in gone]
    assert np.array_equal(out.final.q[rest], whole.final.q[rest])
    assert np.array_equal(out.final.q[gone], given["q"][gone])
    assert np.isnan(out.q[-1][gone]).all()


def test_a_worker_holds_the_block_that_runs_and_the_next_one():
    """What waits at a worker counts as there when it dies, so it waits here."""
    sim, pools = tp.compile(henon_heiles, dt=0.05), []

    def pool():
        pools.append(InProcess())
        return pools[-1]

    out = sim.evolve(**pair(2), steps=20, frames=2, on=Spread(pool, 20), verify=0.5)
    assert out.hash == sim.evolve(**pair(2), steps=20, frames=2).hash
    assert len(pools[-1].sent) > 20 and 3 < pools[-1].most <= 2 * 3 + 1  # one more while two are compared
    assert out.metrics["cluster"]["scheduler"] > 0


def test_blocks_that_are_kept_are_not_computed_again(tmp_path):
    """Also where members failed, events were found and states were hashed; a damaged file is no block."""
    sim, given = tp.compile(henon_heiles, dt=0.05, checks="off"), pair(2)
    given["q"][[3, 20]] = [5.0, 9.0]
    call = {
        "steps": 60,
        "save_every": 7,
        "hash_every": 20,
        "observe": {"r": lambda q: q @ q},
        "events": {"x": lambda q: q[0]},
    }
    whole = sim.evolve(**given, **call)

    class Killed(InProcess):
        def answers(self):
            for k, a in enumerate(super().answers()):
                yield a
                if k == 3:
                    raise SystemExit  # as a process that is killed: nothing is said

    with pytest.raises(SystemExit):
        sim.evolve(**given, **call, on=Spread(Killed, 8, keep=tmp_path / "run"))
    files = sorted((tmp_path / "run").glob("*.npz"))
    assert len(files) == 4
    files[0].write_bytes(files[0].read_bytes()[:200])
    pool = InProcess(seed=9)
    out = sim.evolve(**given, **call, on=Spread(lambda: pool, 8, keep=tmp_path / "run"))
    same(whole, out)
    assert out.metrics["cluster"]["kept"] == 3 and len(pool.sent) == 5
    same(sim.evolve(resume=whole, steps=5), sim.evolve(resume=out, steps=5))
    with pytest.raises(StoreError, match="another run"):
        sim.evolve(**pair(2), **call, on=Spread(InProcess, 8, keep=tmp_path / "run"))


def test_ctrl_c_keeps_the_blocks_that_are_done():
    class Impatient(InProcess):
        def answers(self):
            for k, a in enumerate(super().answers()):
                yield a
                if k == 1:
                    raise KeyboardInterrupt

    sim, given = tp.compile(henon_heiles, dt=0.05), pair(2)
    out = sim.evolve(**given, steps=20, on=Spread(Impatient, 4))
    assert {s.cause for s in out.stops} == {"interrupted"}
    gone = {s.member for s in out.stops}
    rest = [k for k in range(MEMBERS) if k not in gone]
    assert len(rest) in (11, 12)
    assert np.array_equal(out.final.q[rest], sim.evolve(**given, steps=20).final.q[rest])


@pytest.mark.parametrize(
    "call, error, words",
    [
        ({"checkpoint": "not_there.checkpoint", "checkpoint_every": 2}, PlanError, "resume="),
        ({"verify": 2}, InputError, "share"),
        ({"verify": True}, InputError, "share"),
    ],
)
def test_what_does_not_go_with_on_is_refused(call, error, words):
    sim = tp.compile(henon_heiles, dt=0.05)
    with pytest.raises(error, match=words):
        sim.evolve(**pair(2), steps=5, on=spread(2), **call)


def test_verify_needs_on_and_two_workers():
    sim = tp.compile(henon_heiles, dt=0.05)
    with pytest.raises(InputError, match="needs on="):
        sim.evolve(**pair(2), steps=5, verify=1)
    with pytest.raises(BackendError, match="second worker"):
        sim.evolve(**pair(2), steps=5, on=spread(2, names="a"), verify=1)
    with pytest.raises(BackendError, match="no workers"):
        sim.evolve(**pair(2), steps=5, on=spread(2, names=()))


def test_an_operation_of_the_users_cannot_travel():
    twice = tp.op("twice_here", lambda x: 2.0 * x, lambda x: (2.0,))

    @tp.hamiltonian
    def own(q: float, p: float):
        return p**2 / 2 + twice(q) ** 2

    sim = tp.compile(own, dt=0.1)
    with pytest.raises(PlanError, match="twice_here"):
        sim.evolve(q=numbers(), p=numbers(), steps=3, on=spread(2))


# --- blocks -------------------------------------------------------------------------------------------
def test_blocks_cover_the_members_once():
    for parts in (equal(23, 5), equal(3, 7), cut(0, 23, 4)):
        assert [k for part in parts for k in range(part.start, part.stop)] == list(range(parts[-1].stop))
    assert len(equal(3, 7)) == 3


def test_blocks_are_long_enough_for_the_scheduler_and_short_enough_for_the_end():
    found = sizes(1_000_000, 100, 0.01)  # 100 s of work for each worker
    assert not found.note and 0.2 <= found.seconds <= 5.0
    assert "idle" in sizes(200, 100, 1.0).note
    assert "scheduler" in sizes(10_000, 10_000, 0.01).note


# --- the scheduler ------------------------------------------------------------------------------------
@pytest.mark.requirement("S2-16")
@pytest.mark.parametrize("seconds, efficiency", [(1.0, 0.10), (10.0, 0.98), (60.0, 0.92)])
def test_ten_thousand_workers_with_one_scheduler(seconds, efficiency):
    found = simulate(workers=10_000, blocks=round(1e7 / seconds), seconds=seconds)
    assert abs(found.efficiency - efficiency) < 0.02


def test_the_simulation_is_that_of_a_queue():
    """Beside a loop over single events."""
    import heapq

    rng, free, work = np.random.default_rng(1), 0.0, 0.0
    ready = [0.0] * 50
    for _ in range(5000):
        free = max(free, heapq.heappop(ready)) + 1e-3
        takes = 0.07 * rng.lognormal(-np.log1p(0.04) / 2, np.sqrt(np.log1p(0.04)))
        work += takes
        heapq.heappush(ready, free + takes)
    found = simulate(workers=50, blocks=5000, seconds=0.07)
    assert abs(found.efficiency - work / (50 * max(ready))) < 0.02
    assert simulate(workers=50, blocks=5000, seconds=0.07, mtbf=10.0).efficiency < found.efficiency


# --- slices of time -----------------------------------------------------------------------------------
START = {"q": [1.0, 0.0], "p": [0.0, 1.2]}


def in_a_row(sim, count, steps):
    states = [{n: np.array(v) for n, v in START.items()}]
    for _ in range(count):
        out = sim.evolve(**states[-1], steps=steps, frames=2)
        states.append({"q": np.array(out.final.q), "p": np.array(out.final.p)})
    return {n: np.stack([s[n] for s in states]) for n in "qp"}


@pytest.mark.requirement("S2-16")
def test_sweeps_converge_as_known_and_first_slices_are_final():
    sim = tp.compile(kepler, dt=1e-3)
    true = in_a_row(sim, 20, 1000)
    for k, known in enumerate((8.0e-2, 2.0e-3, 1.7e-5, 8.4e-8, 2.5e-10)):
        plan = tp.Parareal(slices=20, coarse={"dt": 0.1}, sweeps=k, tolerance=0)
        out = sim.evolve(**START, steps=20_000, parallel=plan)
        off = max(np.abs(out.frames[n] - true[n]).max() for n in "qp")
        assert abs(off / known - 1) < 0.06
        assert all(np.array_equal(out.frames[n][: k + 1], true[n][: k + 1]) for n in "qp")
        told = out.metrics["parareal"]
        assert told["final"] == k and told["certificate"] == "none"
    assert abs(out.metrics["parareal"]["speedup"]["coarse/fine"] - 0.01) < 1e-12


def test_after_all_sweeps_all_slices_have_their_bits():
    sim = tp.compile(kepler, dt=0.01)
    true = in_a_row(sim, 6, 50)
    out = sim.evolve(
        **START, steps=300, parallel=tp.Parareal(slices=6, coarse={"dt": 0.1}, tolerance=0), on=spread(3)
    )
    assert all(np.array_equal(out.frames[n], true[n]) for n in "qp")
    assert out.metrics["parareal"]["certificate"] == "that of its steps"


@pytest.mark.slow("pilots of the planner: what one method alone would cost")
def test_a_serial_method_that_is_faster_is_named_first():
    sim = tp.compile(kepler, dt=1e-3)
    told = tp.Parareal(slices=20, coarse={"dt": 0.1}).explain(sim, **START, steps=20_000)
    assert told.startswith("slices do not pay: ")
    count = int(told.split("alone needs ")[1].split()[0].replace(",", ""))
    assert count < 1000 and "20,000 forces" in told


@pytest.mark.parametrize(
    "plan, call, error, words",
    [
        ({"slices": 7}, {"steps": 100}, InputError, "98 or 105"),
        ({"coarse": {"dt": 0.03}}, {"steps": 160}, InputError, "whole number of coarse steps"),
        ({"slices": 4}, {"steps": 160, "save_every": 2}, PlanError, "ends of its slices"),
        ({"slices": 4}, {}, InputError, "needs steps="),
    ],
)
def test_slices_that_cannot_be_are_refused(plan, call, error, words):
    with pytest.raises(error, match=words):
        tp.compile(kepler, dt=0.01).evolve(**START, **call, parallel=tp.Parareal(**plan))


def test_what_has_no_slices_says_so():
    with pytest.raises(PlanError, match="random"):
        tp.compile(henon_heiles, dt=0.1, temperature=1.0).evolve(
            q=[0.1, 0.0], p=[0.0, 0.1], steps=160, parallel=True
        )
    with pytest.raises(PlanError, match="map"):
        tp.compile(noisy).evolve(x=0.0, y=0.0, steps=16, parallel=True)
    with pytest.raises(PlanError, match="one run"):
        tp.compile(henon_heiles, dt=0.1).evolve(**pair(2), steps=160, parallel=True)
    with pytest.raises(InputError, match="plan"):
        tp.compile(henon_heiles, dt=0.1).evolve(q=[0.1, 0.0], p=[0.0, 0.1], steps=160, parallel=3)


# --- sweeps -------------------------------------------------------------------------------------------
def test_a_sweep_has_an_axis_for_each_parameter():
    sim = tp.compile(kepler, dt=0.05)
    mu, e = [0.9, 1.0, 1.2], [0.0, 0.3]
    data = tp.sweep(
        sim,
        mu=mu,
        e=e,
        start=lambda e: {"q": [1.0, 0.0], "p": [0.0, (1 + e) ** 0.5]},
        steps=20,
        frames=2,
        on=spread(2),
    )
    assert data.sizes["mu"] == 3 and data.sizes["e"] == 2 and list(data.mu.values) == mu
    one = sim.evolve(q=[1.0, 0.0], p=[0.0, 1.3**0.5], mu=1.2, steps=20, frames=2)
    found = data.q.sel(mu=1.2, e=0.3).isel(time=-1).values
    assert np.array_equal(found, one.final.q)


def test_values_that_go_together_have_one_axis():
    sim = tp.compile(spring, dt=0.1)
    data = tp.sweep(sim, k=[1.0, 2.0], q=[1.0, 3.0], p=0.0, steps=10, frames=2, zip=True)
    assert data.sizes["sweep"] == 2 and list(data.k.values) == [1.0, 2.0]
    assert float(data.q.isel(time=-1, sweep=1)) == float(sim.evolve(q=3.0, p=0.0, k=2.0, steps=10).final.q)
    with pytest.raises(InputError, match="one length"):
        tp.sweep(sim, k=[1.0, 2.0], q=[1.0, 3.0, 4.0], p=0.0, steps=10, zip=True)


def test_a_sweep_of_nothing_or_of_what_is_not_there_says_so():
    sim = tp.compile(spring, dt=0.1)
    with pytest.raises(InputError, match="nothing to vary"):
        tp.sweep(sim, q=1.0, p=0.0, steps=10)
    with pytest.raises(InputError, match="start= does not take it"):
        tp.sweep(sim, q=1.0, p=0.0, stiffness=[1.0, 2.0], steps=10)


def test_an_estimate_says_what_more_workers_would_do():
    sim = tp.compile(henon_heiles, dt=0.05)
    found = sim.estimate(steps=2000, members=50_000, on=spread(None, names=("a", "b")))
    rows = {row["workers"]: row for row in found["workers"]}
    assert rows[1]["measured"] == 1.0 and rows[2]["measured"] > 0.0 and rows[4]["measured"] is None
    assert 0.9 < rows[1]["efficiency"] < 1.1  # block times are drawn
    assert rows[10_000]["efficiency"] < 0.1  # a run of a few seconds cannot feed them


# --- what is left of a run that was cut short ----------------------------------------------------------
def test_a_run_that_goes_on_and_loses_workers_keeps_where_it_was():
    sim, given = tp.compile(henon_heiles, dt=0.05), pair(2)
    before = sim.evolve(**given, steps=30)
    out = sim.evolve(resume=before, steps=20, save_every=5, on=spread(4, dying="b"))
    gone = sorted({s.member for s in out.stops})
    assert gone and np.array_equal(out.final.q[gone], before.final.q[gone])
    assert np.array_equal(out.q[0], before.final.q) and np.isnan(out.q[-1][gone]).all()


def test_what_a_wrong_worker_left_in_the_folder_is_taken_out(tmp_path):
    sim, given = tp.compile(henon_heiles, dt=0.05), pair(2)
    whole = sim.evolve(**given, steps=20)
    wrong = Spread(lambda: InProcess(wrong="b", seed=4), 12, 0.3, tmp_path / "run")
    found = sim.evolve(**given, steps=20, on=wrong)
    assert found.metrics["cluster"]["liars"] == ["b"]
    same(whole, found)
    again = sim.evolve(**given, steps=20, on=Spread(InProcess, 12, keep=tmp_path / "run"))
    assert again.metrics["cluster"]["kept"] == 12
    same(whole, again)


def test_members_that_pass_a_pole_say_so_wherever_they_ran():
    sim = tp.compile(kepler, dt=0.01)
    given = {"q": np.tile([1.0, 0.0], (9, 1)), "p": np.linspace(0.0, 1.2, 9)[:, None] * [0.0, 1.0]}
    whole, parts = sim.evolve(**given, steps=300), sim.evolve(**given, steps=300, on=spread(4))
    assert whole.stops and {s.cause for s in whole.stops} == {"singularity"}
    same(whole, parts)
    assert [str(s.error) for s in whole.stops] == [str(s.error) for s in parts.stops]


def test_the_shadow_energy_is_that_of_the_same_members():
    given = {"q": np.tile([1.0, 0.0], (8, 1)), "p": np.linspace(0.4, 1.2, 8)[:, None] * [0.0, 1.0]}
    out = []
    for on in (None, spread(4, seed=3)):
        sim = tp.compile(kepler, dt=0.02, checks={"shadow": 1e-3}, check_every=64)
        with pytest.warns(tp.PhysicsWarning):
            out.append(sim.evolve(**given, steps=400, on=on))
    assert np.array_equal(out[0].shadow_gap, out[1].shadow_gap, equal_nan=True)
    assert out[0].metrics["shadow"] == out[1].metrics["shadow"]


def test_an_empty_ensemble_and_no_step_are_no_errors():
    sim = tp.compile(henon_heiles, dt=0.05)
    none = sim.evolve(q=np.zeros((0, 2)), p=np.zeros((0, 2)), steps=5, on=spread(3))
    assert none.q.shape[1:] == (0, 2) and "cluster" not in none.metrics
    same(sim.evolve(**pair(2), steps=0), sim.evolve(**pair(2), steps=0, on=spread(3)))


@pytest.mark.parametrize("where", [None, 3, True, [], "gpu"])
def test_what_is_no_cluster_is_refused_before_anything_starts(where):
    with pytest.raises((InputError, PlanError), match="on="):
        tp.on(where)
