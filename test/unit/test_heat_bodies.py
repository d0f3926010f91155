"""Bodies that turn at a temperature: laws of angular momenta and of directions, books, and the same bits everywhere."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scipy.stats import gamma, kstest

import tinyphysics as tp
from tinyphysics.errors import VerifyError
from tinyphysics.tpir import parse, verify

pytestmark = pytest.mark.requirement("S2-59")


@tp.hamiltonian
def top(R: tp.Rotor, L: tp.Vec[3], moments: tp.Vec[3] = (1.0, 2.0, 0.5), mgl: float = 1.0):
    """A heavy top, which hangs from its end: the height of its axis is R₃₃."""
    w, x, y, z = R[0], R[1], R[2], R[3]
    return (L * L / (2 * moments)).sum() + mgl * (w * w - x * x - y * y + z * z)


@tp.hamiltonian
def frame(R: tp.Rotation, L: tp.Vec[3], mgl: float = 1.0):
    return (L * L).sum() / 2 + mgl * R[2, 2]


@tp.hamiltonian
def molecules(
    q: tp.Array["n", 3],
    p: tp.Array["n", 3],
    R: tp.Rotor["n"],
    L: tp.Array["n", 3],
    g: float = 1.0,  # noqa: F821
):
    """Rotors that are held by springs, with a field along z."""
    height = R[:, 0] ** 2 - R[:, 1] ** 2 - R[:, 2] ** 2 + R[:, 3] ** 2
    return (p**2).sum() / 4 + (L**2).sum() / 2 + (q**2).sum() / 2 + g * (height * (1 + 0.2 * q[:, 2])).sum()


def attitudes(members, seed=0):
    R = np.random.default_rng(seed).normal(size=(members, 4))
    return R / np.linalg.norm(R, axis=-1, keepdims=True)


def height(R):
    return R[..., 0] ** 2 - R[..., 1] ** 2 - R[..., 2] ** 2 + R[..., 3] ** 2


def langevins(x):
    """<cos> with the weight exp(-x cos)."""
    return 1 / x - 1 / math.tanh(x)


@pytest.mark.parametrize("bath", ["langevin", "andersen"])
def test_a_top_has_the_law_of_its_momenta_and_of_its_height(bath):
    sim = tp.compile(top, 0.05, temperature=0.5, bath=bath, friction=2.0)
    n = 4000
    L = np.random.default_rng(1).normal(size=(n, 3))
    out = sim.evolve(R=attitudes(n), L=L, steps=300, seed=2, frames=2)
    for k, inertia in enumerate((1.0, 2.0, 0.5)):
        assert kstest(out.final.L[:, k] / math.sqrt(0.5 * inertia), "norm").pvalue > 1e-3
    z = height(out.final.R)
    assert z.mean() == pytest.approx(langevins(2.0), abs=4 * z.std() / math.sqrt(n) + 0.002)
    assert np.abs(np.linalg.norm(out.final.R, axis=-1) - 1).max() < 1e-14
    assert sim.certificate.canonical and "angular momenta exactly" in sim.certificate.canonical.because
    g = next(
        r.verdict for s in sim.explain("full").sections for r in s.rows if r.name == "degrees of freedom"
    )
    assert g == "3"


@tp.hamiltonian
def tilted(R: tp.Rotor, L: tp.Vec[3], moments: tp.Vec[3] = (1.0, 2.0, 0.5)):
    """A body in fields along three axes: nothing but its energy stays."""
    w, x, y, z = R[0], R[1], R[2], R[3]
    first = (w * w + x * x - y * y - z * z) ** 2
    return (
        (L * L / (2 * moments)).sum() + (w * w - x * x - y * y + z * z) + 0.8 * first + 0.7 * (x * y + w * z)
    )


def test_one_factor_for_all_angular_momenta_has_their_law():
    """bussi: K is Γ(3/2) k_BT, each number of L is normal, and so is the height of the body that of exp(-V/k_BT)."""
    sim = tp.compile(tilted, 0.05, temperature=0.5, bath="bussi", tau=0.3)
    n, kT = 1500, 0.5
    L = np.random.default_rng(7).normal(size=(n, 3)) * np.sqrt([0.5, 1.0, 0.25])
    out = sim.evolve(R=attitudes(n, 9), L=L, steps=2500, seed=12, save_every=250)
    moments = np.array([1.0, 2.0, 0.5])
    K = (out.L[-1] ** 2 / (2 * moments)).sum(-1)
    assert kstest(K / kT, gamma(1.5).cdf).pvalue > 1e-3
    for k in range(3):
        assert kstest(out.L[-1][:, k] / math.sqrt(kT * moments[k]), "norm").pvalue > 1e-3
    A = attitudes(400_000, 5)
    w, x, y, z = A.T
    V = height(A) + 0.8 * (w * w + x * x - y * y - z * z) ** 2 + 0.7 * (x * y + w * z)
    wanted = np.average(height(A), weights=np.exp(-V / kT))
    assert height(out.R[2:]).mean() == pytest.approx(wanted, abs=0.02)
    assert np.abs(out.energy - out.energy[0] - out.heat - out.shadow_work).max() < 1e-12
    verdict = sim.certificate.canonical
    assert verdict and "angular momenta exactly" in verdict.because
    g = next(
        r.verdict for s in sim.explain("full").sections for r in s.rows if r.name == "degrees of freedom"
    )
    assert g == "3"


def test_a_factor_for_points_and_bodies_is_one_for_all():
    sim = tp.compile(molecules, 0.05, temperature=0.7, bath="bussi", tau=0.3, sizes={"n": 2})
    text = str(sim.tpir)
    assert sim.certificate.canonical and verify(parse(text)).canonical
    lines = [line for line in text.splitlines() if not line.startswith("claim")]
    told = [k for k, line in enumerate(lines) if line.startswith("  THERMO")]
    assert len(told) == 2  # p and L
    for change in (
        lambda x: x.replace("bussi, 1.0", "bussi, 0.5"),
        lambda x: x.replace(", 12.0, ()", ", 11.0, ()"),
        lambda x: x.replace("$temperature", "$tau"),
        lambda x: x.replace("  THERMO", "  MAP").partition(", bussi")[0],
    ):
        changed = [change(line) if k in told else line for k, line in enumerate(lines)]
        assert changed != lines
        try:
            assert not verify(parse("\n".join(changed))).get("canonical")
        except VerifyError:
            pass
    alone = [line for k, line in enumerate(lines) if k != told[1]]
    assert not verify(parse("\n".join(alone))).get("canonical")


def test_a_rotation_matrix_has_the_same_law():
    sim = tp.compile(frame, 0.05, temperature=0.5, friction=2.0)
    n = 2000
    out = sim.evolve(R=np.broadcast_to(np.eye(3), (n, 3, 3)), L=np.zeros((n, 3)), steps=500, seed=2, frames=2)
    z = out.final.R[:, 2, 2]
    assert z.mean() == pytest.approx(langevins(2.0), abs=4 * z.std() / math.sqrt(n) + 0.002)


def test_bodies_with_places_are_in_one_bath():
    sim = tp.compile(molecules, 0.05, temperature=0.7, friction=1.5)
    n, m = 300, 2
    rng = np.random.default_rng(3)
    R = attitudes(n * m).reshape(n, m, 4)
    out = sim.evolve(q=rng.normal(size=(n, m, 3)), p=rng.normal(size=(n, m, 3)), R=R, L=rng.normal(size=(n, m, 3)),
                     steps=300, seed=1, frames=2)  # fmt: skip
    assert out.final.p.var() == pytest.approx(2 * 0.7, rel=0.1) and out.final.L.var() == pytest.approx(
        0.7, rel=0.1
    )
    gap = out.energy - out.energy[0] - out.heat - out.shadow_work
    assert np.abs(gap).max() < 1e-12 * np.abs(out.energy).max() and np.abs(out.shadow_work).max() < 0.2
    assert np.abs(out.heat[-1]).max() > 1.0 and sim.certificate.canonical


def start(n=3):
    return dict(R=attitudes(n), L=np.random.default_rng(1).normal(size=(n, 3)), steps=12, seed=4)


@pytest.mark.parametrize("precision", ["float64", pytest.param("float32", marks=pytest.mark.all)])
def test_backends_have_the_same_bits(precision):
    def run(where):
        return (
            tp.compile(top, 0.1, temperature=0.7, backend=where, precision=precision).evolve(**start()).hash
        )

    assert run("python") == run("numpy") == run("c") == run("llvm")


def test_a_gpu_has_the_same_bits(fake_cuda):
    def run(where):
        return tp.compile(top, 0.1, temperature=0.7, backend=where).evolve(**start()).hash

    assert run("cuda") == run("llvm")


def test_resumed_runs_and_other_members_change_no_bit(tmp_path):
    sim = tp.compile(top, 0.1, temperature=0.7)
    given = start(6) | {"steps": 40}
    whole = sim.evolve(**given)
    sim.evolve(**given | {"steps": 17}, save_every=5, checkpoint=tmp_path / "run")
    assert sim.evolve(resume=tmp_path / "run", steps=23).hash == whole.hash
    few = sim.evolve(R=given["R"][:2], L=given["L"][:2], steps=40, seed=4)
    assert np.array_equal(few.final.L, whole.final.L[:2])


def listing():
    text = str(tp.compile(top, 0.1, temperature=1.0, backend="python").tpir)
    return re.sub(r"^(claims?|certif\w*) .*\n", "", text, flags=re.M)


@pytest.mark.parametrize("old, new, why", [
    ("langevin, 1.0,", "langevin, 0.5,", "not shown to be what a bath makes"),
    (r"expm1, (T\d+)", r"exp, \1", "not shown to be what a bath makes"),
    (r"normal, (T\d+)", r"uniform, \1", "noise|normal|what a bath makes"),
])  # fmt: skip
def test_a_bath_that_is_another_is_not_canonical(old, new, why):
    text = listing()
    assert verify(parse(text)).canonical
    changed, count = re.subn(old, new, text)
    found = verify(parse(changed))
    assert count and not found.canonical and re.search(why, found.canonical.because)


@tp.hamiltonian
def adrift(q: tp.Array[2, 3], p: tp.Array[2, 3], R: tp.Rotor, L: tp.Vec[3]):
    return (p**2).sum() / 2 + (L**2).sum() / 2 + ((q[0] - q[1]) ** 2).sum() / 2 + R[0] ** 2


@tp.hamiltonian(bracket="spin")
def spins(S: tp.Array["n", 3]):  # noqa: F821
    return -(S[1:] * S[:-1]).sum()


@tp.hamiltonian
def dumbbell(n: tp.Axis, L: tp.Vec[3], E: float = 1.0):
    return (L * L).sum() / 2 - E * n[2]


@tp.hamiltonian
def slanted(R: tp.Rotor, L: tp.Vec[3]):
    return (L * L).sum() / 2 + L[0] * L[1] / 4


@pytest.mark.parametrize("system, options, match", [
    (adrift, {"bath": "bussi"}, "keep the momentum of the whole"),
    (top, {"bath": tp.gle(kernel=[(1.0, 0.5)])}, "whose bodies turn"),
    (top, {"temperature": 0.0}, "not above zero"),
    (spins, {"sizes": {"n": 3}}, "spins have no kinetic energy"),
    (dumbbell, {}, "spin bodies about their axes"),
    (slanted, {}, "not shown|proportional"),
    (top, {"method": "rotations"}, "rotations"),
])  # fmt: skip
def test_what_has_no_temperature_is_refused(system, options, match):
    with pytest.raises(tp.TinyPhysicsError, match=match):
        tp.compile(system, 0.1, **({"temperature": 1.0} | options)).built  # noqa: B018


# --- chains, and temperatures that depend on t --------------------------------------------------------------
@tp.hamiltonian
def three_tops(R: tp.Rotor[3], L: tp.Array[3, 3]):
    """Tops that feel each other, in a field without an axis of symmetry: a chain can be ergodic there."""
    w, x, y, z = R[:, 0], R[:, 1], R[:, 2], R[:, 3]
    h, s = w * w - x * x - y * y + z * z, 2 * (x * z + w * y)
    moments = np.array([1.0, 2.0, 0.5])
    return (L * L / (2 * moments)).sum() + h.sum() + 0.8 * (s**2).sum() + (h[0] * s[1] + s[0] * h[2]) / 2


def tops(members, kT):
    spread = np.sqrt(kT * np.array([1.0, 2.0, 0.5]))
    R = attitudes(3 * members).reshape(members, 3, 4)
    return {"R": R, "L": spread * np.random.default_rng(1).normal(size=(members, 3, 3))}


def test_a_chain_of_bodies_has_the_law_of_a_langevin_bath():
    seen = {
        "height": lambda R: (R[:, 0] ** 2 - R[:, 1] ** 2 - R[:, 2] ** 2 + R[:, 3] ** 2).mean(),
        "L2": lambda L: (L * L / np.array([1.0, 2.0, 0.5])).mean(),
    }
    found = {}
    for bath in ("langevin", "nose_hoover"):
        sim = tp.compile(three_tops, 0.05, temperature=0.5, bath=bath)
        out = sim.evolve(**tops(150, 0.5), steps=1000, frames=2, seed=1, observe_every=5, observe=seen)
        found[bath] = {k: np.asarray(out[k])[40:].mean(0) for k in seen}  # of each member
    for k in seen:
        a, b = (found[bath][k] for bath in found)
        assert abs(a.mean() - b.mean()) < 4 * math.hypot(a.std(), b.std()) / math.sqrt(150)
    assert found["nose_hoover"]["L2"].mean() == pytest.approx(0.5, abs=0.01)
    assert "where the motion is ergodic" in sim.certificate.canonical.because and sim.certificate.canonical
    alone = tp.nose_hoover(length=1)
    with pytest.warns(tp.PhysicsWarning, match="not ergodic"):
        assert not tp.compile(three_tops, 0.05, temperature=0.5, bath=alone).certificate.canonical


def test_the_extended_energy_of_a_chain_of_bodies_falls_as_dt_squared():
    start, worst = {k: v[0] for k, v in tops(1, 0.5).items()}, []
    for dt in (0.1, 0.05, 0.025):
        out = tp.compile(three_tops, dt, temperature=0.5, bath="nose_hoover").evolve(
            **start, until=10.0, save_every=1
        )
        worst.append(np.abs(out.extended_energy - out.extended_energy[0]).max())
    assert np.log2(worst[0] / worst[1]) == pytest.approx(2.0, abs=0.15)
    assert np.log2(worst[1] / worst[2]) == pytest.approx(2.0, abs=0.15)


def test_a_chain_of_bodies_has_the_same_bits_everywhere():
    sim = {
        b: tp.compile(three_tops, 0.05, temperature=0.5, bath="nose_hoover", backend=b)
        for b in ("python", "llvm", "numpy", "c")
    }
    assert len({s.evolve(**tops(2, 0.5), steps=4).hash for s in sim.values()}) == 1


@pytest.mark.parametrize("bath", ["langevin", "andersen", "bussi", "nose_hoover"])
def test_bodies_follow_a_temperature_that_falls_and_see_the_middle_of_a_step(bath):
    sim = tp.compile(three_tops, 0.05, temperature=lambda t: 1.0 - 0.02 * t, bath=bath)
    assert sim.certificate.symmetric and "depends on time" in sim.certificate.canonical.because
    text = "\n".join(x for x in str(sim.tpir).splitlines() if not x.startswith("claim"))
    (clock,) = re.findall(r"TIME (T\d+), 0\.5", text)
    assert verify(parse(text)).symmetric
    for other in ("0.0", "0.75"):  # the temperature of another time is of first order
        late = text.replace(f"TIME {clock}, 0.5", f"TIME {clock}, {other}")
        assert "sees the time" in verify(parse(late)).symmetric.because
    out = sim.evolve(**tops(200, 1.0), until=25.0, frames=2, seed=2,
                     observe={"L2": lambda L: (L * L / np.array([1.0, 2.0, 0.5])).mean()})  # fmt: skip
    assert np.asarray(out["L2"])[-40:].mean() == pytest.approx(0.52, abs=0.04)
