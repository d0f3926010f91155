"""Do bodies rest, push and rub where they touch?  tp.contact: forces, friction, books, bits, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.errors import InputError, PlanError, ShapeError


@tp.hamiltonian
def boxes(q: tp.Vec[3], p: tp.Vec[3], m: float = 1.0, g: float = 9.81):
    return p @ p / (2 * m) + m * g * q.sum()


@tp.hamiltonian
def block(q: tp.Vec[2], p: tp.Vec[2], m: float = 2.0, g: float = 9.81, mu: float = 0.3):
    return p @ p / (2 * m) + m * g * q[1]


def stack(q):
    return tp.concatenate([q[:1] - 0.5, q[1:] - q[:-1] - 1])


def floor(**more):
    return tp.contact(lambda q: q[1], slip=lambda v: v[0], friction=0.3, name="floor", **more)


STACKED = dict(q=[0.5, 1.5, 2.5], p=[0.0, 0.0, 0.0])
SLIDING = dict(q=[0.0, 0.0], p=[4.0, 0.0])
FALLING = dict(q=[0.0, 1.0], p=[1.0, 0.0])


# --- the physics --------------------------------------------------------------------------------------
@pytest.mark.requirement("S2-19")
def test_three_boxes_rest_on_each_other():
    out = tp.compile(boxes + tp.contact(stack), dt=0.01).evolve(**STACKED, steps=300, save_every=1)
    found = out.contacts("stack")
    assert np.allclose(found.force[-1] / 9.81, [3, 2, 1], rtol=1e-9)
    assert found.gap.min() > -1e-3 and found.rub is None
    assert np.abs(out.final.p).max() < 1e-12 and out.drift("energy") < 1e-12


@pytest.mark.requirement("S2-19")
@pytest.mark.parametrize("dt", [0.01, 0.001])
def test_a_block_slides_until_friction_has_stopped_it(dt):
    out = tp.compile(block + floor(), dt=dt).evolve(**SLIDING, until=1.0, save_every=1)
    moving = np.flatnonzero(np.abs(out.p[:, 0]) > 1e-12)
    assert out.t[moving[-1] + 1] == pytest.approx(2 / (0.3 * 9.81), abs=2 * dt)
    assert out.final.q[0] == pytest.approx(4 / (2 * 0.3 * 9.81), abs=1e-4)
    assert out.ledger["contacts"][-1] == pytest.approx(4.0) and out.drift("energy") < 1e-14


def test_a_body_that_falls_stays_where_it_lands():
    out = tp.compile(block + floor(), dt=0.01).evolve(**FALLING, until=2.0, save_every=1)
    assert abs(out.final.q[1]) < 1e-12 and np.abs(out.final.p).max() < 1e-12
    assert out.ledger["contacts"][-1] == pytest.approx(2 * 9.81 + 0.25)
    overlap, across = out.losses
    assert overlap.what == "overlap of bodies that touch" and overlap.amount < 1e-3 and 0 < across.amount < 10


def test_flight_has_second_order():
    spring = tp.hamiltonian(lambda q, p: p * p / 2 + (q - 2) ** 4 / 4)
    errors = []
    exact = tp.compile(spring, method="taylor").evolve(q=3.0, p=0.0, until=2.0).final.q
    for dt in (0.02, 0.01):
        out = tp.compile(spring + tp.contact(lambda q: q + 5, name="far"), dt=dt).evolve(
            q=3.0, p=0.0, until=2.0
        )
        errors.append(abs(out.final.q - exact))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.1)


def test_friction_is_within_a_cone_in_space():
    """A puck on a table slides straight, whatever its direction is."""
    puck = tp.hamiltonian(disc)
    table = tp.contact(lambda q: q[2], slip=lambda v: v[:2], friction=0.2, name="table")
    p = np.array([1.2, -0.9, 0.0])
    out = tp.compile(puck + table, dt=0.001).evolve(q=[0.0, 0.0, 0.0], p=p, until=1.0, save_every=1)
    assert np.allclose(out.final.q[:2], p[:2] / 1.5 * (1.5**2 / (2 * 0.2 * 9.81)), atol=1e-4)
    rub, force = out.contacts("table").rub, out.contacts("table").force
    assert (np.linalg.norm(rub, axis=1) <= 0.2 * force * (1 + 1e-12)).all()


def disc(q: tp.Vec[3], p: tp.Vec[3]):
    return p @ p / 2 + 9.81 * q[2]


def test_more_sweeps_overlap_less():
    worst = []
    for sweeps in (2, 10, 40):
        sim = tp.compile(boxes + tp.contact(stack, iterations=sweeps), dt=0.01)
        worst.append(-sim.evolve(**STACKED, steps=50, save_every=1).contacts("stack").gap.min())
    assert worst[0] > worst[1] > worst[2], worst


# --- bits, ensembles, files, gradients ------------------------------------------------------------------
def test_backends_agree_and_so_do_members_of_an_ensemble():
    runs = [
        tp.compile(block + floor(), dt=0.01, backend=b).evolve(**FALLING, steps=80)
        for b in ("python", "numpy", "llvm", "c")
    ]
    assert len({out.hash for out in runs}) == 1
    both = tp.compile(block + floor(), dt=0.01).evolve(q=[[0.0, 1.0], [0.0, 2.0]], p=[1.0, 0.0], steps=80)
    assert np.array_equal(both.final.q[0], runs[0].final.q)


@pytest.mark.parametrize("precision", ["float32", "dd", "mixed", "compensated"])
def test_other_precisions_land_as_well(precision):
    out = tp.compile(block + floor(), dt=0.01, precision=precision).evolve(**FALLING, until=2.0)
    assert out.stopped is None and abs(out.final.q[1]) < 1e-6 and np.abs(out.final.p).max() < 1e-6


def test_a_run_with_contacts_resumes_with_its_impulses_and_loads(tmp_path):
    sim = tp.compile(boxes + tp.contact(stack), dt=0.01)
    whole = sim.evolve(**STACKED, steps=6)
    sim.evolve(**STACKED, steps=3, checkpoint=tmp_path / "c")
    assert sim.evolve(resume=tmp_path / "c", steps=3).hash == whole.hash
    sim.save(tmp_path / "s.json")
    assert tp.load(tmp_path / "s.json").evolve(**STACKED, steps=6).hash == whole.hash


@pytest.mark.requirement("S2-19")
def test_gradients_go_through_the_sweeps():
    sim = tp.compile(
        block + tp.contact(lambda q: q[1], slip=lambda v: v[0], friction="mu", name="floor"), dt=0.01
    )

    def last(**more):
        return sim.evolve(**SLIDING, **more, steps=30).final.q[0]

    _, found = sim.value_and_grad(lambda out: out.final.q[0], wrt=["g", "mu"], **SLIDING, steps=30)
    for name, at in (("g", 9.81), ("mu", 0.3)):
        slope = (last(**{name: at + 1e-5}) - last(**{name: at - 1e-5})) / 2e-5
        assert found[name] == pytest.approx(slope, rel=1e-6)


def test_nothing_is_claimed():
    sim = tp.compile(block + floor(), dt=0.01)
    assert not any(sim.certificate.values()) and sim.conserved == ()
    assert "what contacts take" in str(sim.explain())
    with pytest.raises(InputError, match="has contacts"):
        sim.find_invariants()
    with pytest.raises(InputError, match="has contacts"):
        sim.check(**FALLING)
    with pytest.raises(InputError, match="has contacts"):
        sim.find_invariants()
    with pytest.raises(InputError, match="has contacts"):
        sim.check(**FALLING)
    assert "while" not in sim.ir("tpir").lower() and "SOLVE" not in sim.ir("tpir")  # unrolled


# --- what is refused --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: tp.contact(3.0), InputError, "gap=3.0 is not a function"),
        (lambda: tp.contact(stack, iterations=0), InputError, "not a number of sweeps"),
        (lambda: tp.contact(stack, friction=-1.0, slip=stack), InputError, "is negative"),
        (lambda: tp.contact(stack, friction=0.3), InputError, "without slip="),
        (lambda: tp.contact(stack, name="a b"), InputError, "is not a name"),
        (lambda: tp.compile(boxes + tp.contact(lambda q: 1.0), dt=0.1), InputError, "no position occurs"),
        (lambda: tp.compile(boxes + tp.contact(lambda x: x), dt=0.1), InputError, "argument `x`"),
        (lambda: tp.compile(block + tp.contact(lambda q: q[1], slip=lambda v: tp.stack([v, v])), dt=0.1), ShapeError, "its gap has"),
        (lambda: tp.compile(block + tp.contact(lambda q: q[1], slip=lambda q: q[0]), dt=0.1), InputError, "no velocity"),
        (
            lambda: tp.compile(block + tp.contact(lambda q: q[1], slip=lambda v: v[0], friction="nu"), dt=0.1),
            InputError, "no such number",
        ),
        (lambda: tp.compile(boxes + tp.contact(stack) + tp.contact(stack), dt=0.1), PlanError, "two contacts"),
        (lambda: tp.compile(boxes + tp.contact(stack) + tp.wall(lambda q: q[0]), dt=0.1), PlanError, "cannot be combined"),
        (lambda: tp.compile(boxes + tp.contact(stack), dt=0.1, method="leapfrog"), PlanError, "leapfrog"),
        (lambda: tp.compile(boxes + tp.contact(stack), dt=0.1, method="symplectic"), PlanError, "no method is certified"),
        (lambda: tp.compile(boxes + tp.contact(stack), dt=0.1, friction=0.1), PlanError, "friction="),
        (lambda: tp.compile(boxes, dt=0.1, method="impulses"), PlanError, "do not touch"),
        (lambda: tp.compile(tp.ode(lambda x: -x) + tp.contact(lambda x: x), dt=0.1), PlanError, "given by its ode"),
        (lambda: tp.compile(many(80) + tp.contact(lambda q: q), dt=0.1), PlanError, "64 at most"),
    ],
)  # fmt: skip
def test_what_cannot_touch_says_so(make, error, words):
    with pytest.raises(error, match=words):
        make()


def many(n):
    @tp.hamiltonian
    def free(q: tp.Vec["n"], p: tp.Vec["n"]):
        return p @ p / 2

    return free.bind({"n": n})


def test_a_start_behind_the_surface_is_an_error():
    with pytest.raises(InputError, match="`floor` overlaps by 0.5 at the start"):
        tp.compile(block + floor(), dt=0.01).evolve(q=[0.0, -0.5], p=[0.0, 0.0], steps=1)
