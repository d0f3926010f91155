"""Do hard bodies fly and collide as they should?  Pressure, energy, bits, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tinyphysics import hardbody
from tinyphysics.errors import InputError, StoreError


def gas(n=64, packing=0.3, d=2, **more):
    start = hardbody.lattice(n, packing, d=d, seed=1)
    return hardbody.Gas(box=start.pop("box"), **more), start


@pytest.mark.requirement("S2-51", "S2-76")
@pytest.mark.parametrize(
    "how", [{}, {"walls": True, "restitution": 0.9}, {"d": 3, "packing": 0.2}, {"walls": [True, False]}]
)
def test_compiled_and_reference_agree_to_the_last_bit(how):
    bodies, start = gas(**how)
    compiled, reference = (bodies.evolve(**start, collisions=300, backend=b) for b in ("c", "python"))
    assert compiled.hash == reference.hash and compiled.collisions == reference.collisions == 300
    assert compiled.energy[-1] + compiled.lost == pytest.approx(compiled.energy[0], rel=1e-13)


def test_frames_and_resumed_runs_change_no_bit():
    bodies, start = gas()
    whole = bodies.evolve(**start, collisions=500)
    half = bodies.evolve(**start, collisions=200, frames=3)
    assert bodies.evolve(resume=half, collisions=300).hash == whole.hash
    few, many = (bodies.evolve(**start, until=1.0, frames=k) for k in (2, 40))
    assert few.hash == many.hash and few.t[-1] == 1.0 and len(many.t) == 40


def test_two_discs_exchange_their_velocities():
    pair = hardbody.Gas(box=[10.0, 10.0])
    out = pair.evolve(q=[[2.0, 5.0], [5.0, 5.0]], v=[[1.0, 0.0], [0.0, 0.0]], until=3.0, frames=4)
    assert np.allclose(out.v[-1], [[0, 0], [1, 0]], atol=1e-15) and np.allclose(out.q[-1], [[4, 5], [6, 5]])
    heavy = hardbody.Gas(box=[10.0, 10.0], mass=[1.0, 3.0], restitution=0.5)
    out = heavy.evolve(q=[[2.0, 5.0], [5.0, 5.0]], v=[[1.0, 0.0], [0.0, 0.0]], until=3.0)
    assert np.allclose(out.v[-1], [[-0.125, 0], [0.375, 0]]) and out.lost == pytest.approx(0.5 * 0.75 * 0.75)


def test_a_ball_between_walls_bounces_where_its_rim_touches():
    out = hardbody.Gas(box=[10.0, 10.0], walls=True).evolve(q=[[5.0, 5.0]], v=[[1.0, 0.0]], until=10.0)
    assert np.allclose(out.q[-1], [[4.0, 5.0]]) and out.v[-1, 0, 0] == -1.0


@pytest.mark.all
@pytest.mark.requirement("S2-51")
def test_the_pressure_of_hard_discs():
    bodies, start = gas(4096)
    calm = bodies.evolve(**start, collisions=100_000, frames=2)
    out = bodies.evolve(resume=calm, collisions=1_000_000, frames=2)
    assert out.compressibility == pytest.approx(2.0633, rel=5e-3)
    assert abs(out.energy[-1] / calm.energy[0] - 1) < 1e-11
    d = out.q[-1][:, None] - out.q[-1][None]
    d -= np.round(d / bodies.box) * bodies.box
    apart = (d * d).sum(-1)
    np.fill_diagonal(apart, 9.0)
    assert np.sqrt(apart.min()) > 1 - 1e-12


def test_discs_that_lose_energy_may_collapse_and_say_so():
    bodies = hardbody.Gas(box=[6.0, 6.0], radius=0.5, restitution=0.0)
    out = bodies.evolve(
        q=[[1.0, 3.0], [2.0, 3.0], [4.0, 3.0]], v=[[0.0, 0.0], [0.0, 0.0], [-1.0, 0.0]], until=5.0
    )
    assert out.stopped in (None, "collapse") and np.isfinite(out.q).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda g, s: g.evolve(**s), "until= or collisions="),
        (lambda g, s: g.evolve(**s, collisions=0), "not a number of collisions"),
        (lambda g, s: g.evolve(**s, collisions=1, backend="cuda"), "run on c and python"),
        (lambda g, s: g.evolve(q=[s["q"]], v=[s["v"]], collisions=1), "an ensemble"),
        (lambda g, s: g.evolve(q=s["q"], v=s["v"][:3], collisions=1), "has shape"),
        (lambda g, s: g.evolve(q=s["q"] * 0 + 1.0, v=s["v"], collisions=1), "overlap at the start"),
        (
            lambda g, s: hardbody.Gas(box=g.box, walls=True).evolve(q=s["q"] - 1, v=s["v"], until=1.0),
            "behind a wall",
        ),
        (lambda g, s: hardbody.Gas(box=g.box, restitution=2.0).evolve(**s, until=1.0), "not from 0 to 1"),
        (lambda g, s: hardbody.Gas(box=[2.0, 2.0]).evolve(**s, until=1.0), "three diameters"),
        (lambda g, s: hardbody.Gas(box=g.box, radius=0.0).evolve(**s, until=1.0), "above zero"),
    ],
)
def test_what_cannot_run_says_so(make, words):
    with pytest.raises(InputError, match=words):
        make(*gas())


def test_a_checkpoint_goes_on_bit_for_bit_and_wrong_files_are_refused(tmp_path):
    bodies, start = gas()
    whole, path = bodies.evolve(**start, collisions=500), tmp_path / "gas.npz"
    bodies.evolve(**start, collisions=200, frames=5, checkpoint=path)
    for backend in ("c", "python"):
        out = bodies.evolve(resume=path, collisions=300, backend=backend)
        assert out.hash == whole.hash and out.state.collisions == 500
    with pytest.raises(InputError, match="of another gas: its restitution differs"):
        hardbody.Gas(box=bodies.box, restitution=0.5).evolve(resume=path, collisions=1)
    data = path.read_bytes()
    (tmp_path / "cut.npz").write_bytes(data[: len(data) // 2])
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    for name, says in (
        ("cut.npz", "cannot be read"),
        ("other.npz", "is no checkpoint"),
        ("none.npz", "cannot be read"),
    ):
        with pytest.raises(StoreError, match=says):
            bodies.evolve(resume=tmp_path / name, collisions=1)
