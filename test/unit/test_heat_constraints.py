"""Rods at a temperature: the law on the constraints, degrees of freedom, Fixman's term, books, and the same bits."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import gamma, kstest

import tinyphysics as tp
from tinyphysics.tpir import parse, verify

pytestmark = pytest.mark.requirement("S2-59")


@tp.hamiltonian
def bodies(q: tp.Array["n", 3], p: tp.Array["n", 3], g: float = 0.0, m: float = 1.0):  # noqa: F821
    return (p**2).sum() / (2 * m) + g * q[:, 2].sum()


@tp.constraint
def links(q: tp.Array["n", 3]):  # noqa: F821
    d = tp.concatenate([q[:1], q[1:] - q[:-1]])
    return (d * d).sum(-1) - 1


@tp.constraint
def free_links(q: tp.Array["n", 3]):  # noqa: F821
    d = q[1:] - q[:-1]
    return (d * d).sum(-1) - 1


@tp.potential
def bonds(q: tp.Array["n", 3], k: float = 1000.0):  # noqa: F821
    d = tp.concatenate([q[:1], q[1:] - q[:-1]])
    return (k * (tp.norm(d, axis=-1) - 1) ** 2 / 2).sum()


BATHS = (
    {"bath": "langevin", "friction": 2.0}, {"bath": "bussi", "tau": 0.3}, {"bath": "nose_hoover", "tau": 0.4},
)  # fmt: skip


FEW = (*BATHS[:2], pytest.param(BATHS[2], marks=pytest.mark.all))


def started(sim, n, members, seed=0, temperature=1.0):
    rng = np.random.default_rng(seed)
    d = rng.normal(size=(members, n, 3))
    q = np.cumsum(d / np.linalg.norm(d, axis=-1, keepdims=True), axis=1)
    return sim.consistent(q=q, p=math.sqrt(temperature) * rng.normal(size=q.shape))


def row(sim, name):
    return next(r.verdict for s in sim.explain("full").sections for r in s.rows if r.name == name)


@pytest.mark.parametrize("how", FEW)
def test_a_pendulum_in_three_dimensions_has_the_law_of_its_height(how):
    """exp(-g z/T) on a sphere: <z> = T/g - coth(g/T); 2K/T is that of two degrees of freedom."""
    sim = tp.compile(bodies + links, 0.1, temperature=0.5, **how)
    out = sim.evolve(**started(sim, 1, 800, temperature=0.5), g=1.0, steps=450, seed=1, frames=2,
                     observe={"z": lambda q: q[0, 2], "T": tp.physics.temperature()})  # fmt: skip
    x = 1.0 / 0.5
    z = tp.statistics(np.asarray(out["z"])[100:], members=True)
    assert z.mean == pytest.approx(1 / x - 1 / math.tanh(x), abs=4 * z.error + 0.004) and z.error < 0.01
    twice = np.asarray(out["T"])[-1] * 2  # 2K
    assert kstest(twice / 2 / 0.5, gamma(1.0).cdf).pvalue > 1e-3
    assert row(sim, "degrees of freedom") == "2" and sim.certificate.canonical
    assert "on g(q) = 0" in sim.certificate.canonical.because


@pytest.mark.parametrize("fixman", [None, True])
def test_fixmans_term_takes_the_temperature_of_the_bath(fixman):
    """Two links: cos²θ has the weight √(2 - c²), and none with the term, as two stiff springs have."""
    sim = tp.compile(bodies + tp.rigid_bonds(bonds, fixman=fixman), 0.05, temperature=1.5, friction=2.0)

    def c2(q):
        return ((q[1] - q[0]) * q[0]).sum() ** 2

    out = sim.evolve(
        **started(sim, 2, 1500, temperature=1.5), steps=500, seed=1, frames=2, observe={"c2": c2}
    )
    want = 1 / 3
    if fixman is None:
        want = (
            quad(lambda c: c * c * math.sqrt(2 - c * c), -1, 1)[0]
            / quad(lambda c: math.sqrt(2 - c * c), -1, 1)[0]
        )
    found = tp.statistics(np.asarray(out["c2"])[20:], members=True)
    assert found.mean == pytest.approx(want, abs=4 * found.error + 0.001) and found.error < 0.004


def test_a_number_of_its_own_for_fixmans_term_is_refused_in_a_bath():
    for fixman, more, match in (
        (0.5, {"temperature": 1.0}, "another temperature"),
        (True, {}, "without a bath"),
    ):
        with pytest.raises(tp.PlanError, match=match):
            tp.compile(bodies + tp.rigid_bonds(bonds, fixman=fixman), 0.05, sizes={"n": 2}, **more)


def test_a_chain_of_thermostats_keeps_its_extended_energy_along_rods():
    """To O(dt²), from the same state."""
    start, errors = None, []
    for dt in (0.05, 0.025):
        sim = tp.compile(bodies + links, dt, temperature=1.0, **BATHS[2])
        start = start or started(sim, 2, 1)
        out = sim.evolve(**start, g=1.0, until=5.0, save_every=1)
        errors.append(np.abs(out.extended_energy - out.extended_energy[0]).max())
    assert errors[0] < 0.05 and 3.0 < errors[0] / errors[1] < 5.0
    assert "where the motion is ergodic" in sim.certificate.canonical.because
    with pytest.warns(tp.PhysicsWarning, match="not ergodic"):
        one = tp.compile(bodies + links, 0.05, temperature=1.0, bath=tp.nose_hoover(length=1), sizes={"n": 2})
    assert not one.certificate.canonical


def test_the_momentum_of_free_links_stays_with_bussi():
    """g = 9 - 2 - 2: the weight, which may be zero, keeps it along two axes alone."""
    sim = tp.compile(bodies + free_links, 0.05, temperature=1.0, **BATHS[1])
    out = sim.evolve(**started(sim, 3, 40), steps=100, seed=2, save_every=20)
    P = out.p.sum(-2)
    assert np.abs(P - P[0])[..., :2].max() < 1e-12 and row(sim, "degrees of freedom") == "5"
    assert (
        row(tp.compile(bodies + free_links, 0.05, temperature=1.0, sizes={"n": 3}), "degrees of freedom")
        == "7"
    )


@pytest.mark.parametrize("how", BATHS)
@pytest.mark.parametrize("n", [2, pytest.param(20, marks=pytest.mark.all)])
def test_rods_hold_and_books_add_up(how, n):
    """Few constraints are written out, many are kept in loops."""
    sim = tp.compile(bodies + links, 0.05, temperature=1.0, **how)
    out = sim.evolve(**started(sim, n, 3), g=0.5, steps=60, seed=3, save_every=10)
    assert sim.certificate.canonical and out.stopped is None
    lengths = np.linalg.norm(np.diff(out.q, axis=-2, prepend=0.0 * out.q[..., :1, :]), axis=-1)
    assert np.abs(lengths - 1).max() < 1e-12
    gap = out.energy - out.energy[0] - out.heat - out.shadow_work
    assert np.abs(gap).max() < 1e-12 * np.abs(out.energy).max() and np.abs(out.heat[-1]).min() > 0.01
    assert np.abs(out.shadow_work).max() < 0.1 * np.abs(out.heat).max()


@pytest.mark.parametrize("how", FEW)
@pytest.mark.parametrize("n", [1, pytest.param(20, marks=pytest.mark.all)])
def test_backends_have_the_same_bits(how, n):
    def run(where):
        sim = tp.compile(bodies + links, 0.05, temperature=1.0, backend=where, **how)
        return sim.evolve(**started(sim, n, 2), temperature=[0.5, 2.0], steps=3, seed=3).hash

    assert run("python") == run("numpy") == run("c") == run("llvm")


def test_resumed_runs_frames_and_members_change_no_bit(tmp_path):
    sim = tp.compile(bodies + links, 0.05, temperature=1.0)
    start = started(sim, 2, 5)
    whole = sim.evolve(**start, steps=30, seed=4)
    sim.evolve(**start, steps=11, seed=4, save_every=3, checkpoint=tmp_path / "run")
    assert sim.evolve(resume=tmp_path / "run", steps=19).hash == whole.hash
    few = sim.evolve(q=start["q"][:2], p=start["p"][:2], steps=30, seed=4)
    assert np.array_equal(few.final.q, whole.final.q[:2])
    assert np.array_equal(sim.rewind(whole, 10).final.q, sim.evolve(**start, steps=20, seed=4).final.q)


def test_a_gpu_has_the_same_bits(fake_cuda):
    def run(where):
        sim = tp.compile(bodies + links, 0.05, temperature=1.0, backend=where)
        return sim.evolve(**started(sim, 1, 4), steps=3, seed=3).hash

    assert run("cuda") == run("llvm")


def test_gradients_see_the_same_noise():
    sim = tp.compile(bodies + links, 0.05, temperature=1.0)
    start = {name: v[0] for name, v in started(sim, 1, 1).items()}
    assert sim.gradcheck(lambda out: out.final.q[0, 2], **start, steps=4, wrt=["g", "temperature"])


def listing():
    sim = tp.compile(bodies + links, 0.05, temperature=1.0, backend="python", sizes={"n": 1})
    return re.sub(r"^(claims?|certif\w*) .*\n", "", str(sim.tpir), flags=re.M)


def test_a_bath_that_is_another_is_not_canonical():
    text = listing()
    assert verify(parse(text)).canonical
    for old, new, why in (
        ("langevin, 1.0,", "langevin, 0.5,", "not shown to be what a bath makes"),
        (r"expm1, (T\d+)", r"exp, \1", "not shown to be what a bath makes"),
    ):
        changed, count = re.subn(old, new, text)
        found = verify(parse(changed))
        assert count and not found.canonical and why in found.canonical.because


@pytest.mark.parametrize("options, match", [
    ({"bath": "andersen"}, "gives one body a new momentum"),
    ({"bath": "brownian"}, "how rods share masses"),
    ({"bath": tp.gle(kernel=[(1.0, 1.0)])}, "would have to turn with the rods"),
    ({"friction": {"p": 1.0}}, "number by number"),
    ({"pressure": 1.0}, "stretch its rods"),
    ({"method": "baoab"}, "baoab"),
    ({"method": "rattle"}, "rattle"),
])  # fmt: skip
def test_what_does_not_go_with_rods_is_refused(options, match):
    with pytest.raises(tp.TinyPhysicsError, match=match):
        tp.compile(bodies + links, 0.05, temperature=1.0, sizes={"n": 2}, **options).built  # noqa: B018
    with pytest.raises(tp.InputError, match="rods turn the momenta"):
        sim = tp.compile(bodies + links, 0.05, temperature=1.0)
        sim.evolve(**started(sim, 1, 1), steps=1, observe={"T": tp.physics.temperature(at="bath")})
