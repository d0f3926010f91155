"""A box at a pressure: volumes in closed form and by quadrature, the equation of a move, books, bits, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinyphysics as tp

RATES = {"langevin": {"friction": 5.0}, "andersen": {"friction": 5.0}, "bussi": {"tau": 0.1}}


@tp.hamiltonian
def gas(q: tp.Array["n", 3], p: tp.Array["n", 3], box: float = 2.2):  # noqa: F821
    return (p**2).sum() / 2


@tp.hamiltonian
def ring(q: tp.Array[2, 1], p: tp.Array[2, 1], box: float = 3.0, a: float = 2.0, b: float = 1.5):
    """Two bodies on a ring whose coupling and own energy depend on its length."""
    return (p**2).sum() / 2 + a / box * (1 - tp.cos(2 * math.pi / box * (q[0, 0] - q[1, 0]))) + b / box


@tp.hamiltonian
def liquid(q: tp.Array["n", 3], p: tp.Array["n", 3], box: float = 1.0):  # noqa: F821
    s = 1 / tp.pair_distance2(q, box=box, cutoff=2.5, switch=2.0, skin=0.3) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s * s - s))


def at_pressure(system, dt=0.05, bath="langevin", how="rescale", tau=0.2, every=4, **more):
    rates = RATES.get(bath, {"tau": 0.4})
    own = tp.barostat(how, tau=tau, every=every)
    return tp.compile(system, dt, temperature=1.0, bath=bath, pressure=1.0, barostat=own, **(rates | more))


def momenta(shape, whole=True, seed=0):
    p = np.random.default_rng(seed).normal(size=shape)
    return p if whole else p - p.mean(-2, keepdims=True)


def volumes(sim, members, steps, n=10, whole=True, skip=50):
    start = dict(q=np.random.default_rng(1).random((members, n, 3)), p=momenta((members, n, 3), whole))
    out = sim.evolve(**start, box=np.full(members, 2.2), steps=steps, save_every=8)
    assert not out.stops
    return np.asarray(out.box)[skip:] ** 3


# --- volumes ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("bath", ["langevin", "bussi"])
def test_an_ideal_gas_has_its_volume(bath):
    """<V> = Var V = (N + 1) kT/P, whether the motion of the whole is heated (langevin) or left out (bussi)."""
    V = volumes(at_pressure(gas, bath=bath), 200, 1600, whole=bath != "bussi")
    assert V.mean() == pytest.approx(11, rel=0.02) and V.var() == pytest.approx(11, rel=0.06)


@pytest.mark.all("1 %: four million volumes")
@pytest.mark.requirement("S2-59")
@pytest.mark.parametrize("bath", ["langevin", "bussi", "andersen"])
def test_the_row_of_the_table(bath):
    V = volumes(at_pressure(gas, bath=bath), 2000, 8000, whole=bath != "bussi")
    assert V.mean() == pytest.approx(11, rel=0.01) and V.var() == pytest.approx(11, rel=0.01)


def of_the_ring():
    """<L> and Var L by quadrature: the angle between the bodies gives a Bessel function."""
    L, angle = np.linspace(1e-3, 60, 20001), np.linspace(0, 2 * math.pi, 401)[:-1]
    inner = np.exp(-2.0 / L[:, None] * (1 - np.cos(angle))).mean(1)
    w = L**2 * np.exp(-L - 1.5 / L) * inner
    mean = (w * L).sum() / w.sum()
    return mean, (w * L * L).sum() / w.sum() - mean**2


@pytest.mark.parametrize(
    "bath, how, every", [("langevin", "rescale", 4), ("bussi", "rescale", 4), ("nose_hoover", "mtk", 2)]
)
def test_an_energy_that_depends_on_the_box_has_its_lengths(bath, how, every):
    sim = at_pressure(ring, bath=bath, how=how, tau=0.7 if how == "mtk" else 0.3, every=every)
    p = momenta((500, 2, 1), bath == "langevin")
    q = np.random.default_rng(2).random((500, 2, 1))
    out = sim.evolve(q=q, p=p, box=np.full(500, 3.0), steps=1600, save_every=8)
    L, (mean, variance) = np.asarray(out.box)[40:], of_the_ring()
    assert L.mean() == pytest.approx(mean, rel=0.02) and L.var() == pytest.approx(variance, rel=0.08)


def test_moves_that_are_much_too_long_have_the_same_law():
    """Whether a move is accepted makes the law exact: here it is fifteen times its own time."""
    V = volumes(at_pressure(gas, every=20, tau=0.2 / 3), 400, 6000, skip=300)
    assert V.mean() == pytest.approx(11, rel=0.03)


def test_a_short_move_is_that_of_the_equation():
    """d ln V = -(κ/τ)(P - P_int) dt + √(2 kT κ/Vτ) dW: mean and variance of the first move of many copies."""
    members, kappa, tau, h, V0, P = 10_000, 0.3, 2.0, 1e-3, 8.0, 4.0
    how = tp.barostat("rescale", tau=tau, every=1, compressibility=kappa)
    sim = tp.compile(gas, h, temperature=1.0, friction=0.0, pressure=P, barostat=how)
    p = np.broadcast_to(momenta((10, 3)), (members, 10, 3))
    out = sim.evolve(q=0 * p, p=p, box=np.full(members, 2.0), steps=1, seed=3)
    change = np.log(np.asarray(out.box)[-1] ** 3 / V0)
    inside = (p[0] ** 2).sum() / 3 / V0
    variance = 2 * kappa * h / (V0 * tau)
    assert out.metrics["box"]["acceptance"].mean() > 0.99
    assert change.var() == pytest.approx(variance, rel=0.06)
    want = -kappa / tau * (P - inside) * h
    assert change.mean() == pytest.approx(want, abs=4 * math.sqrt(variance / members))


def test_pressures_may_differ_by_member():
    sim, P = at_pressure(gas), np.repeat([1.0, 2.0, 4.0], 100)
    q = np.random.default_rng(1).random((300, 10, 3))
    out = sim.evolve(
        q=q, p=momenta((300, 10, 3)), pressure=P, box=(11 / P) ** (1 / 3), steps=1600, save_every=8
    )
    V = (np.asarray(out.box)[50:] ** 3).reshape(-1, 3, 100).mean((0, 2))
    assert V * [1.0, 2.0, 4.0] == pytest.approx([11, 11, 11], rel=0.05)


def test_a_gas_without_forces_is_canonical_however_large():
    one = tp.compile(gas, 0.05, temperature=1.0, sizes={"n": 400}, pressure=2.0)
    assert one.certificate["canonical"].holds
    assert "rescale of `box`" in str(one.explain("full"))


# --- books --------------------------------------------------------------------------------------------
def drop(how="rescale", bath="bussi", dt=0.004, every=5, **more):
    own = tp.barostat(how, tau=1.0, every=every)
    return tp.compile(liquid, dt, temperature=1.0, bath=bath, tau=0.5, pressure=1.0, barostat=own, **more)


def crystal(side=3, density=0.9):
    from tinyphysics.physics.starts import lattice

    q, box = lattice("fcc", side, density=density)
    return dict(q=q, p=momenta(q.shape, False), box=float(box[0]))


def test_the_energy_is_heat_and_the_work_of_the_box():
    start = crystal(4)
    out = drop().evolve(**start, steps=70, save_every=7)
    change = out.energy - out.energy[0]
    assert np.abs(out.cell_work).max() > 1.0
    assert np.abs(change - out.heat - out.cell_work - out.shadow_work).max() < 1e-9
    assert np.abs(out.shadow_work).max() < 0.05 * np.abs(change).max()
    assert out.drift("energy") < 1e-3


def test_frames_energies_and_observables_are_those_of_the_box_of_their_time():
    out = drop().evolve(
        **crystal(4), steps=60, save_every=7, observe={"V": lambda box: box**3}, observe_every=7
    )
    assert len(set(np.asarray(out.box).tolist())) > 5 and np.allclose(out["V"], out.box[:-1] ** 3)
    still = tp.compile(liquid, 0.004)
    for k in range(len(out.t)):
        one = still.evolve(q=out.q[k], p=out.p[k], box=out.box[k], steps=0)
        assert out.energy[k] == pytest.approx(one.energy[0], rel=1e-12)
    assert np.abs(np.asarray(out.p).sum(1)).max() < 1e-12
    assert out[3].box == out.box[3]


@pytest.mark.parametrize("bath", ["nose_hoover"])
def test_the_extended_energy_of_a_box_with_a_momentum_has_order_two(bath):
    worst = []
    for h in (0.05, 0.025, 0.0125):
        sim = at_pressure(ring, h, bath, "mtk", tau=0.7, every=2)
        out = sim.evolve(q=[[0.1], [0.9]], p=[[0.7], [-0.7]], box=3.0, until=10.0, save_every=2)
        e = np.asarray(out.extended_energy)
        worst.append(np.abs(e - e[0]).max())
    slopes = np.log2(np.array(worst[:-1]) / worst[1:])
    assert slopes == pytest.approx([2.0, 2.0], abs=0.2), worst


# --- bits -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", ["python", "numpy", pytest.param("c", marks=pytest.mark.all)])
@pytest.mark.parametrize("bath, how", [("langevin", "rescale"), ("bussi", "rescale"), ("nose_hoover", "mtk")])
def test_boxes_have_the_same_bits_on_every_backend(backend, bath, how):
    start = dict(q=np.array([[[0.1], [0.9]], [[0.3], [2.0]]]), p=momenta((2, 2, 1), False), steps=24, seed=3)
    one, two = (at_pressure(ring, bath=bath, how=how, backend=b).evolve(**start) for b in ("llvm", backend))
    assert one.hash == two.hash and np.array_equal(one.box, two.box) and len(set(one.box[:, 0])) > 2


@pytest.mark.parametrize("how, bath", [("rescale", "langevin"), ("mtk", "nose_hoover")])
def test_a_run_in_two_pieces_has_the_bits_of_the_whole(how, bath, tmp_path):
    sim = at_pressure(ring, bath=bath, how=how, tau=0.7)
    start = dict(q=np.array([[[0.1], [0.9]], [[0.3], [2.0]]]), p=momenta((2, 2, 1), False), seed=3)
    whole = sim.evolve(**start, steps=50, save_every=1)
    part = sim.evolve(**start, steps=22, checkpoint=tmp_path / "c")
    for resumed in (sim.evolve(resume=part, steps=28), sim.evolve(resume=tmp_path / "c", steps=28)):
        assert resumed.hash == whole.hash and np.array_equal(resumed.final.box, whole.final.box)
        assert np.array_equal(resumed.box[0], whole.box[22])
        assert resumed.cell_work[-1] == pytest.approx(whole.cell_work[-1], rel=1e-12)
    alone = sim.evolve(q=start["q"][:1], p=start["p"][:1], seed=3, steps=50, save_every=50)
    assert np.array_equal(alone.final.box, whole.final.box[:1])


def test_a_run_goes_on_from_its_last_frame():
    sim = at_pressure(ring)
    out = sim.evolve(q=[[0.1], [0.9]], p=[[0.5], [-0.7]], steps=40)
    more = sim.evolve(**out.final, steps=8)
    assert more.box[0] == out.box[-1] != out.box[0]
    assert more.energy[0] == out.energy[-1]


@pytest.mark.parametrize("precision", ["float32", "mixed", "compensated", "dd"])
def test_boxes_in_every_precision(precision):
    out = at_pressure(ring, precision=precision).evolve(q=[[0.1], [0.9]], p=[[0.5], [-0.7]], steps=40)
    assert not out.stops and len(set(np.asarray(out.box).tolist())) > 3
    assert abs(out.shadow_work[-1]) < 0.1


# --- what is refused --------------------------------------------------------------------------------------
def test_a_step_that_is_too_long_for_a_box_with_a_momentum_stops():
    out = at_pressure(ring, bath="nose_hoover", how="mtk", tau=0.01).evolve(
        q=[[0.1], [0.9]], p=[[0.5], [-0.5]], steps=80
    )
    assert out.stopped is not None and out.stopped.cause == "box changes too fast"


def test_a_box_without_room_stops_its_member_and_the_others_go_on():
    start = crystal(4, 0.9)
    two = {name: np.stack([np.asarray(v)] * 2) for name, v in start.items()}
    out = drop(every=1).evolve(**two, pressure=np.array([1.0, 4000.0]), steps=60, frames=2)
    (stop,) = out.stops
    assert stop.member == 1 and "2(cutoff + skin)" in stop.cause
    assert out.final.box[1] >= 5.6


@tp.hamiltonian
def open_space(q: tp.Array[2, 3], p: tp.Array[2, 3]):
    return (p**2).sum() / 2 + ((q[0] - q[1]) ** 2).sum()


@tp.hamiltonian
def numbered(q: tp.Array[8, 3], p: tp.Array[8, 3]):
    return (p**2).sum() / 2 + tp.pair_sum(1 / tp.pair_distance2(q, box=9.0, cutoff=2.5) ** 6)


@pytest.mark.parametrize("system, options, match", [
    (gas, {"pressure": 1.0}, "without a bath"),
    (gas, {"temperature": 1.0, "barostat": "mtk"}, "without a pressure"),
    (gas, {"temperature": 1.0, "pressure": math.nan}, "not a pressure"),
    (gas, {"temperature": 1.0, "pressure": [1.0, 2.0]}, "not a pressure"),
    (gas, {"temperature": 1.0, "pressure": "q"}, "no parameter of that name"),
    (gas, {"temperature": 1.0, "pressure": 1.0, "barostat": "berendsen"}, "no barostat"),
    (gas, {"temperature": 1.0, "pressure": 1.0, "barostat": "mtk"}, "goes with `bath=nose_hoover`"),
    (gas, {"temperature": 1.0, "bath": "nose_hoover", "pressure": 1.0}, "goes with `bath=langevin`"),
    (gas, {"temperature": 1.0, "bath": "brownian", "pressure": 1.0}, "goes with `bath="),
    (open_space, {"temperature": 1.0, "pressure": 1.0}, "no box"),
    (numbered, {"temperature": 1.0, "pressure": 1.0}, "whose box is a number"),
])  # fmt: skip
def test_what_has_no_pressure_is_refused(system, options, match):
    with pytest.raises(tp.TinyPhysicsError, match=match):
        tp.compile(system, dt=0.01, sizes={"n": 4} if system is gas else None, **options)


@pytest.mark.parametrize("way, options, match", [
    ("rescale", {"tau": 0.0}, "not above zero"),
    ("rescale", {"compressibility": -1.0}, "not above zero"),
    ("mtk", {"compressibility": 1.0}, "no compressibility"),
    ("rescale", {"every": 0}, "every"),
])  # fmt: skip
def test_wrong_barostats_are_refused(way, options, match):
    with pytest.raises(tp.TinyPhysicsError, match=match):
        tp.barostat(way, **options)


def test_replicas_in_boxes_are_refused():
    with pytest.raises(tp.PlanError, match="exchange="):
        at_pressure(ring).evolve(
            q=np.zeros((2, 2, 1)), p=np.ones((2, 2, 1)), temperature=[1.0, 2.0], exchange=10, steps=20
        )
