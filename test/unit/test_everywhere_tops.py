"""Do the steps of tops, charges, contacts and friction hold everywhere: each precision, members, resumed runs, gradients, backends?"""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp

pytestmark = pytest.mark.requirement("S2-20", "S2-24", "S2-50", "S4-20")
LEANING = [0.8, 0.6, 0.0, 0.0]


@tp.hamiltonian
def top(R: tp.Rotor, L: tp.Vec[3], moments: tp.Vec[3] = (1.0, 2.0, 3.0), mgl: float = 1.0):
    return (L**2 / moments).sum() / 2 + mgl * tp.rotate(R, [0.0, 0.3, 1.0])[2]


@tp.hamiltonian(bracket="so3")
def free(L: tp.Vec[3], moments: tp.Vec[3] = (1.0, 2.0, 3.0)):
    return (L**2 / moments).sum() / 2 + 0.1 * L[0] * L[1] ** 2


@tp.hamiltonian
def shaken(R: tp.Rotor, L: tp.Vec[3], t, a: float = 0.5):
    swings, slow = 1 + a * tp.sin(2 * t), 1 + 0.3 * tp.cos(t)
    return slow * (L[0] ** 2 / 2 + L[1] ** 2 / 4 + L[2] ** 2 / 6) + swings * tp.rotate(R, [0.0, 0.3, 1.0])[2]


@tp.hamiltonian(bracket=tp.magnetic(lambda q, b: [q[1] * q[2], tp.sin(q[0]), b + q[0] * q[1]]))
def charge(q: tp.Vec[3], p: tp.Vec[3], b: float = 1.2):
    return p @ p / 2 + q @ q / 2 - 0.3 * q[1]


@tp.hamiltonian(bracket=tp.magnetic(lambda q, t: [q[1] * tp.cos(t), 0.0, 1 + 0.5 * tp.sin(2 * t) + q[0]]))
def induced(q: tp.Vec[3], p: tp.Vec[3], t, k: float = 1.0):
    return p @ p / 2 + k * q @ q / 2


@tp.hamiltonian(bracket="contact")
def decay(q, p, s, gamma: float = 0.1):
    return p**2 / 2 - tp.cos(q) + gamma * s


@tp.hamiltonian(bracket=lambda z: [[0.0, z[0] * z[1]], [-z[0] * z[1], 0.0]])
def hares(z: tp.Vec[2], a: float = 1.3):
    return z[0] - a * tp.log(z[0]) + z[1] - tp.log(z[1])


@tp.hamiltonian
def pendulum(q, p, g: float = 1.0):
    return p**2 / 2 - g * tp.cos(q)


TOP, SPACE = dict(R=LEANING, L=[0.3, 0.2, 2.0]), dict(q=[0.3, -0.2, 0.5], p=[0.9, 0.4, -0.3])
FAST = dict(kinetics="relativistic")
# by name: (system, first state, options)
STEPS = {
    "rotations": (top, TOP, dict(method="rotations")),
    "rotations4": (top, TOP, dict(method="rotations4")),
    "spherical_midpoint": (free, dict(L=[0.5, 1.1, 0.7]), dict(method="spherical_midpoint")),
    "lie_cayley": (top, TOP, dict(method="lie_cayley")),
    "boris": (charge, SPACE, dict(method="boris")),
    "boris_exact": (charge, SPACE, dict(method="boris_exact")),
    "boris_fast": (charge, SPACE, dict(method="boris", **FAST)),
    "higuera_cary": (charge, SPACE, dict(method="higuera_cary", **FAST)),
    "vay": (charge, SPACE, dict(method="vay", **FAST)),
    "axes": (charge, SPACE, dict(method="axes")),
    "contact": (decay, dict(q=2.0, p=0.1, s=0.2), dict(method="contact")),
    "pieces": (hares, dict(z=[1.25, 0.75]), dict(method="pieces")),
    "friction_of_pairs": (pendulum, dict(q=2.0, p=0.1), dict(method="leapfrog", friction=0.1)),
    "friction_of_charges": (charge, SPACE, dict(method="boris", friction=0.1)),
    "friction_of_bodies": (top, TOP, dict(method="rotations", friction=0.1)),
    "timed_turns": (shaken, TOP, dict(method="rotations")),
    "timed_fields": (induced, SPACE, dict(method="boris")),
}
PRECISIONS = ("float64", "float32", "dd")
# what is refused, and a word of the reason
SOLVED, ROUNDED = "solves equations", "known only as a float64"
REFUSED = {(name, p): SOLVED for name in ("spherical_midpoint", "lie_cayley") for p in ("float32", "dd")}
REFUSED["rotations4", "dd"] = ROUNDED
ROWS = [(name, p) for name in STEPS for p in PRECISIONS if (name, p) not in REFUSED]

# gradients that are compiled fast, and one of each new kind
SHORT = {
    ("boris", "float64"),
    ("contact", "dd"),
    ("pieces", "float32"),
    ("friction_of_pairs", "dd"),
    ("timed_fields", "float64"),
}


def compiled(name, precision, backend="auto"):
    system, start, options = STEPS[name]
    return tp.compile(system, dt=0.1, precision=precision, backend=backend, checks="off", **options), start


def same(a, b):
    return np.asarray(a).tobytes() == np.asarray(b).tobytes()


def many(start):
    """Three members; attitudes keep their length."""
    sizes = (1.0, 0.9, 1.1)
    return {
        name: np.array([np.array(x) * (1.0 if name == "R" else k) for k in sizes])
        for name, x in start.items()
    }


@pytest.mark.parametrize(("name", "precision"), REFUSED)
def test_a_precision_that_a_step_does_not_have_is_refused_with_the_reason(name, precision):
    with pytest.raises(tp.PlanError, match=REFUSED[name, precision]):
        sim, start = compiled(name, precision)
        sim.evolve(**start, steps=1)


@pytest.mark.thin(rows=6)
@pytest.mark.parametrize("backend", ["python", "numpy"])
@pytest.mark.parametrize(("name", "precision"), ROWS)
def test_every_backend_has_the_bits_of_llvm(name, precision, backend):
    sims = [compiled(name, precision, b) for b in (backend, "llvm")]
    hashes = {sim.evolve(**many(start), steps=8).hash for sim, start in sims}
    assert len(hashes) == 1


@pytest.mark.thin(rows=6)
@pytest.mark.parametrize(("name", "precision"), ROWS)
def test_a_member_has_the_bits_that_it_has_alone(name, precision):
    sim, start = compiled(name, precision)
    together = many(start)
    out = sim.evolve(**together, steps=12).final
    for k in range(3):
        alone = sim.evolve(**{n: v[k] for n, v in together.items()}, steps=12).final
        assert all(same(alone[n], out[n][k]) for n in start)


@pytest.mark.thin(rows=6)
@pytest.mark.parametrize(("name", "precision"), ROWS)
def test_a_resumed_run_has_the_bits_of_the_whole(name, precision, tmp_path):
    sim, start = compiled(name, precision)
    whole = sim.evolve(**start, steps=20)
    sim.evolve(**start, steps=13, checkpoint=tmp_path / "c")
    again = sim.evolve(resume=tmp_path / "c", steps=7)
    assert all(same(whole.final[n], again.final[n]) for n in start) and again.hash == whole.hash


@pytest.mark.parametrize(
    ("name", "precision"),
    [row if row in SHORT else pytest.param(*row, marks=pytest.mark.all) for row in ROWS],
)
def test_a_gradient_is_that_of_differences_and_of_float64(name, precision):
    sim, start = compiled(name, precision)
    first = next(iter(start))
    weights = np.linspace(0.5, 1.0, np.size(start[first])).reshape(np.shape(start[first]))

    def loss(out):
        u = out.final[first]
        return (weights * u**3).sum() if np.ndim(weights) else u**3

    if precision == "float64":
        found = sim.gradcheck(loss, **start, steps=5)
        assert found.passed and found.duality < 1e-12
        return
    found = sim.grad(loss, **start, steps=5)
    known = compiled(name, "float64")[0].grad(loss, **start, steps=5)
    close = 2e-4 if precision == "float32" else 1e-11
    for key, value in known.items():
        np.testing.assert_allclose(found[key], value, rtol=close, atol=close)
