"""Is everything that a run throws away listed, before it and after it, with an amount that a measurement confirms?"""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics.molecular import liquid, lorentz_berthelot, mixture
from tinyphysics.physics.particles import gravity, plummer
from tinyphysics.runtime.measure.losses import LOSSES
from tinyphysics.runtime.measure.pair_at_cutoff import NotKnown, largest_at

START = dict(q=[1.0, 0.0], p=[0.0, 1.2])


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def free(q: float, p: float):
    return p * p / 2


@tp.hamiltonian
def spring(q: tp.Vec[64], p: tp.Vec[64]):
    return (p @ p + q @ q) / 2


@tp.hamiltonian
def slope(q: tp.Vec[64], p: tp.Vec[64]):
    return p @ p / 2 + (q * q * q).sum() / 3


@tp.map
def root(x: float, y: float):
    return x, 1 / tp.sqrt(x)


def atoms(n, **how):
    @tp.hamiltonian
    def pairs(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"], eps: float = 1.0, rc: float = 2.5):
        s = 1 / tp.pair_distance2(q, box=10.0, cutoff=rc, **how) ** 3
        return (p * p).sum() / 2 + tp.pair_sum(4 * eps * m[:, None] * m[None, :] * (s * s - s))

    return tp.compile(pairs, dt=0.001, sizes={"n": n})


def grid(n, apart=2.4):
    return np.stack(np.meshgrid(*[np.arange(8) * apart] * 3), -1).reshape(-1, 3)[:n]


def lj(r, eps=1.0, sigma=1.0):
    return 4 * eps * ((sigma / r) ** 12 - (sigma / r) ** 6)


def before(sim):
    return sim.explain().to_dict().get("losses", {})


def sentences(sim):
    return [r.verdict for r in sim.explain().brief.rows if r.name == "loss"]


# --- none -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("precision", ["float64", "dd"])
def test_a_run_that_throws_nothing_away_has_no_losses(precision):
    sim = tp.compile(kepler, dt=0.01, precision=precision)
    out = sim.evolve(**START, steps=10)
    assert out.losses == ()
    assert "losses" not in sim.explain("full").to_dict() and not sentences(sim)


def test_losses_are_looked_for_when_they_are_read(monkeypatch):
    from tinyphysics.runtime.measure import losses

    asked = []
    monkeypatch.setattr(losses, "LOSSES", (lambda c: asked.append(c) or (),))
    out = tp.compile(kepler, dt=0.01).evolve(**START, steps=10)
    assert not asked
    assert out.losses == () and out.losses == () and len(asked) == 1


def test_a_known_plan_is_not_built_for_its_losses():
    for _ in range(2):
        sim = tp.compile(kepler, dt=0.01, precision="float32")
        out = sim.evolve(**START, steps=10)
    built = sim.compiled._built
    assert len(out.losses) == 2 and sim.compiled._built is built


# --- fewer digits -----------------------------------------------------------------------------------
DIGITS = {
    "float32": {"digits of the states": 2.0**-24, "digits of the forces": 2.0**-24},
    "mixed": {"digits of the forces": 2.0**-24},
    "compensated": {"digits of the states": 2.0**-48, "digits of the forces": 2.0**-24},
    "lattice": {"digits of the states": 2.0**-44},
}


@pytest.mark.parametrize("precision", DIGITS)
def test_lower_precisions_are_losses(precision):
    sim = tp.compile(kepler, dt=0.01, precision=precision)
    told = before(sim)
    assert {name: row["amount"] for name, row in told.items()} == DIGITS[precision]
    assert all(row["restores"] == 'precision="float64"' and "since" not in row for row in told.values())
    out = sim.evolve(**START, steps=10, t0=3.0)
    assert {x.what: x.amount for x in out.losses} == DIGITS[precision]
    assert all(x.since == 3.0 for x in out.losses)
    assert sentences(sim) == [str(x) for x in out.losses]


@pytest.mark.parametrize("precision", ["float32", "compensated", "lattice"])
def test_states_are_rounded_by_no_more_than_is_said(precision):
    q = np.random.default_rng(1).uniform(1.0, 2.0, 64)
    sim = tp.compile(spring, dt=0.01, precision=precision, method="leapfrog")
    out = sim.evolve(q=q, p=0 * q, steps=0)
    (amount,) = (x.amount for x in out.losses if x.what == "digits of the states")
    off = np.abs(out.final.q - q)
    error = off.max() / (amount / 2) if precision == "lattice" else (off / q).max() / amount
    assert 0.2 < error <= 1.0


def test_a_force_is_rounded_by_no_more_than_is_said():
    # of q*q, each factor is rounded where it enters, and the product is
    q = np.random.default_rng(2).uniform(1.0, 2.0, 64)
    runs = {
        p: tp.compile(slope, dt=2.0**-12, precision=p, method="leapfrog").evolve(q=q, p=0 * q, steps=1)
        for p in ("float64", "mixed")
    }
    (loss,) = runs["mixed"].losses
    exact = runs["float64"].final.p
    assert 0.2 * loss.amount < np.abs(runs["mixed"].final.p / exact - 1).max() <= 3.01 * loss.amount


def test_the_largest_unit_of_a_lattice_is_said():
    out = tp.compile(kepler, dt=0.01, precision="lattice", lattice={"q": 2.0**-30}).evolve(**START, steps=1)
    (loss,) = out.losses
    assert loss.amount == 2.0**-30 and "`q`" in loss.because
    assert (out.final.q / loss.amount % 1 == 0).all()


def test_pair_forces_on_a_lattice_are_rounded_too():
    sim = tp.compile(liquid, dt=0.002, sizes={"n": 64}, precision="lattice", lattice={"force": 2.0**-20})
    assert before(sim)["digits of the forces"]["amount"] == 2.0**-20
    sim = tp.compile(liquid, dt=0.002, sizes={"n": 64}, precision="lattice")
    assert before(sim)["digits of the forces"]["verdict"] == "not known"


def test_a_map_has_no_forces():
    out = tp.compile(root, precision="float32").evolve(x=2.0, y=0.0, steps=1)
    assert [x.what for x in out.losses] == ["digits of the states", "digits of the map"]


# --- math="fast" ------------------------------------------------------------------------------------
@pytest.mark.parametrize("precision, amount", [("float64", 3.5), ("float32", 12.0)])
def test_fast_functions_are_a_loss(precision, amount):
    sim = tp.compile(kepler, dt=0.01, math="fast", precision=precision)
    row = before(sim)["last digits of functions"]
    assert row["amount"] == amount and row["restores"] == 'math="exact"'
    assert sim.evolve(**START, steps=10).losses[0].amount == amount


def test_fast_functions_are_within_the_amount():
    x = np.random.default_rng(3).uniform(0.5, 2.0, 4096)
    out = tp.compile(root, math="fast").evolve(x=x, y=0 * x, steps=1)
    exact = 1 / np.sqrt(x.astype(np.longdouble))
    ulps = np.abs(out.final.y - exact) / np.spacing(exact.astype(float))
    assert 0.4 < ulps.max() <= out.losses[0].amount


# --- approximate= -----------------------------------------------------------------------------------
def test_the_far_field_of_a_tree_is_bounded_before_and_measured_after():
    n, dt = 200, 1e-6
    start = plummer(n, seed=1)
    sim = tp.compile(gravity, dt=dt, approximate=1e-3)
    out = sim.evolve(**start, softening=0.05, steps=1)
    row = before(sim)["far field of the tree"]
    assert row["amount"] == 1e-3 and row["restores"] == "leave approximate= out"
    (loss,) = out.losses
    assert 0.0 < loss.amount <= 1e-3 and loss.since == 0.0
    exact = tp.compile(gravity, dt=dt).evolve(**start, softening=0.05, steps=1)
    force, off = ((a.final.p - b) / dt for a, b in ((exact, start["p"]), (out, exact.final.p)))
    size = np.linalg.norm(force, axis=1)
    weak = 0.1 * np.sqrt((size**2).mean())
    rms = np.sqrt(((np.linalg.norm(off, axis=1) / np.maximum(size, weak)) ** 2).mean())
    assert loss.amount == pytest.approx(rms, rel=0.05)


def test_of_an_ensemble_of_trees_the_worst_counts():
    both = [plummer(100, seed=k) for k in (1, 2)]
    start = {name: np.stack([one[name] for one in both]) for name in ("q", "p")}
    sim = tp.compile(gravity, dt=0.01, approximate=1e-2)
    out = sim.evolve(**both[0] | start, softening=0.05, steps=2)
    found = out.metrics["approximate"]
    assert out.losses[0].amount == max(*found["rms"], *found["last_rms"])


# --- project= ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["leapfrog", "yoshida4", "implicit_midpoint"])
def test_a_projection_says_how_far_it_moved_a_step(method):
    sim = tp.compile(kepler, dt=0.05, project="energy", method=method)
    row = before(sim)["the method's own steps"]
    assert row["verdict"] == "not known" and row["restores"] == "leave project= out"
    assert "neither symplectic nor symmetric" in row["because"]
    out = sim.evolve(**START, steps=40, save_every=1)
    (loss,) = out.losses
    alone = tp.compile(kepler, dt=0.05, method=method).evolve(q=out.q, p=out.p, steps=1).final
    last = sim.evolve(**START, steps=41).final
    far = [
        np.abs(np.concatenate([rows[1:], [end]]) - own).max(1) / np.abs(own).max(1)
        for rows, end, own in ((out.q, last.q, alone.q), (out.p, last.p, alone.p))
    ]
    assert loss.amount == pytest.approx(np.max(far), rel=1e-3)


def test_of_many_projected_members_the_worst_counts():
    sim = tp.compile(kepler, dt=0.05, project="energy")
    slow, fast = (dict(q=[1.0, 0.0], p=[0.0, v]) for v in (1.0, 0.6))
    start = {name: [slow[name], fast[name]] for name in ("q", "p")}
    amounts = [sim.evolve(**s, steps=40, save_every=1).losses[0].amount for s in (slow, fast, start)]
    assert amounts[2] == max(amounts[:2]) > min(amounts[:2])


def test_without_members_no_step_is_looked_at():
    out = tp.compile(kepler, dt=0.05, project="energy").evolve(
        q=np.zeros((0, 2)), p=np.zeros((0, 2)), steps=3
    )
    assert out.losses[0].amount is None and "no finite frame" in out.losses[0].because
    assert out.metrics["solver"] == {"states": 0}


# --- cutoffs ----------------------------------------------------------------------------------------
WAYS = {"jumps": {}, "shifted": {"shift": True}, "switched": {"switch": 1.5}}


@pytest.mark.parametrize("n", [4, 40])
@pytest.mark.parametrize("way", WAYS)
def test_a_cutoff_says_what_a_pair_has_there(n, way):
    sim = atoms(n, **WAYS[way])
    row = before(sim)["pairs beyond the cutoff"]
    assert row["verdict"] == "not known" and "`m`" in row["because"] and way in row["because"]
    q = grid(n)
    out = sim.evolve(q=q, p=0 * q, m=np.r_[3.0, np.ones(n - 1)], rc=2.0, steps=1)
    (loss,) = out.losses
    assert loss.amount == pytest.approx(abs(3 * lj(2.0)), rel=1e-12)
    assert way in loss.because and loss.restores == "a larger cutoff"
    assert before(sim)["pairs beyond the cutoff"]["amount"] == loss.amount


def test_a_cutoff_with_defaults_is_known_before_a_run():
    sim = tp.compile(liquid, dt=0.002, sizes={"n": 500})
    assert before(sim)["pairs beyond the cutoff"]["amount"] == pytest.approx(abs(lj(2.5)), rel=1e-12)


def test_two_kinds_of_atoms_have_three_kinds_of_pairs():
    epsilon, sigma = lorentz_berthelot([1.0, 0.5], [1.0, 1.2])
    q = grid(200, 1.3)
    given = dict(q=q, p=0 * q, box=[10.4] * 3, epsilon=epsilon, sigma=sigma, types=np.arange(200) % 2)
    (loss,) = tp.compile(mixture, dt=0.002).evolve(**given, steps=1).losses
    assert loss.amount == pytest.approx(np.abs(lj(2.5, epsilon, sigma)).max(), rel=1e-12)


def test_a_kind_with_one_particle_has_no_pair_of_its_own():
    q = grid(4)
    out = atoms(4).evolve(q=q, p=0 * q, m=[5.0, 2.0, 1.0, 1.0], steps=1)
    assert out.losses[0].amount == pytest.approx(abs(10 * lj(2.5)), rel=1e-12)


def test_of_many_members_the_worst_cutoff_counts():
    q = np.stack([grid(4)] * 3)
    out = atoms(4).evolve(q=q, p=0 * q, m=np.ones(4), rc=[3.0, 1.9, 2.5], steps=1)
    assert out.losses[0].amount == pytest.approx(abs(lj(1.9)), rel=1e-12)


def test_a_cutoff_of_a_users_own_is_not_taken_for_one():
    @tp.hamiltonian
    def own(q: tp.Array[4, 3], p: tp.Array[4, 3]):
        d = q[:, None] - q[None, :]
        r2 = (d * d).sum(-1)
        return (p * p).sum() / 2 + tp.pair_sum(tp.where(r2 < 4.0, 4.0 - r2, 0.0))

    assert not before(tp.compile(own, dt=0.01))


def test_too_many_kinds_of_particles_are_not_guessed():
    u = tp.system.UOp.var("m", (100,))
    with pytest.raises(NotKnown, match="kinds"):
        largest_at(u[:, None] * u[None, :], {"m": np.arange(100.0)[None]})


# --- events -----------------------------------------------------------------------------------------
def crossings(at, apart):
    return {"both": lambda q: (q - at) * (q - at - apart)}


def test_events_are_found_unless_they_are_nearer_than_two_looks():
    sim = tp.compile(free, method="taylor")
    assert not before(sim)  # events are named in a run

    def run(events):
        return sim.evolve(q=0.0, p=1.0, until=20.0, frames=5, events=events)

    (loss,) = run(crossings(1.0, 1.0)).losses
    assert loss.what == "events close together" and loss.since == 0.0 and 0.0 < loss.amount < 20.0
    places = np.linspace(1.0, 18.0, 12)
    found = {
        part: [len(run(crossings(x, part * loss.amount)).events("both")) for x in places]
        for part in (1.01, 0.1)
    }
    assert found[1.01] == [2] * len(places)
    assert 0 in found[0.1]


# --- kept -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "options",
    [{"precision": "float32"}, {"project": "energy"}, {"math": "fast"}],
    ids=lambda o: next(iter(o)),
)
def test_a_resumed_run_has_the_losses_of_the_whole(tmp_path, options):
    sim = tp.compile(kepler, dt=0.01, **options)
    first = sim.evolve(**START, steps=10, t0=2.0, checkpoint=tmp_path / "run.ckpt", save_every=1)
    whole = sim.evolve(**START, steps=20, t0=2.0, save_every=1)
    for resume in (first, tmp_path / "run.ckpt"):
        found = sim.evolve(resume=resume, steps=10, save_every=1).losses
        assert [(x.what, x.since, x.restores) for x in found] == [
            (x.what, x.since, x.restores) for x in whole.losses
        ]
        assert all(0.0 < x.amount <= y.amount for x, y in zip(found, whole.losses))


def test_events_of_a_resumed_run_are_looked_for_since_then():
    sim = tp.compile(free, dt=0.5, method="taylor")
    first = sim.evolve(q=0.0, p=1.0, steps=4)
    out = sim.evolve(resume=first, steps=4, events=crossings(3.0, 0.5))
    assert out.losses[0].since == 2.0


@pytest.mark.parametrize(
    "options", [{"precision": "compensated"}, {"project": "energy"}], ids=["digits", "held"]
)
def test_losses_survive_a_pickle_and_a_store(tmp_path, options):
    sim = tp.compile(kepler, dt=0.01, **options)
    out = sim.evolve(**START, steps=10)
    again = pickle.loads(pickle.dumps(out))
    assert again.losses == out.losses != ()
    assert pickle.loads(pickle.dumps(again)).losses == out.losses  # read before
    assert sim.evolve(**START, steps=10, save=tmp_path / "run.zarr").losses == out.losses


def test_a_saved_simulation_has_the_same_losses(tmp_path):
    sim = tp.compile(kepler, dt=0.01, precision="mixed")
    sim.save(tmp_path / "kepler.json")
    assert before(tp.load(tmp_path / "kepler.json")) == before(sim) != {}


def test_a_rewound_run_has_its_losses():
    sim = tp.compile(kepler, dt=0.01, precision="lattice")
    out = sim.evolve(**START, steps=10)
    assert sim.rewind(out, 5).losses == out.losses


def test_a_report_with_losses_is_data():
    sim = tp.compile(kepler, dt=0.01, precision="float32", math="fast")
    told = sim.explain().to_dict()["losses"]
    assert json.loads(json.dumps(told)) == told
    assert sorted(told) == ["digits of the forces", "digits of the states", "last digits of functions"]
    titles = [s.title for s in sim.explain("full").sections]
    assert titles.index("losses") == titles.index("certificate") + 1


def test_every_loss_is_one_row():
    assert len(LOSSES) == len(set(LOSSES)) == 13


def test_a_state_cannot_hide_the_losses():
    with pytest.raises(tp.TraceError, match="out.losses"):

        @tp.hamiltonian(pairs=[("losses", "p")])
        def hidden(losses: float, p: float):
            return p * p / 2 + losses**2
