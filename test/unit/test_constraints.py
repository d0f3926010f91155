"""Do rods and joints hold?  Energies with constraints: order, bits, what a step keeps, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.errors import InputError, PhysicsIntegrityError, PlanError, TraceError
from tinyphysics.flows.solvers.elimination import eliminated, planned
from tinyphysics.ir import UOp
from tinyphysics.ir.value import evaluate
from tinyphysics.synth.methods import rattle
from tinyphysics.tpir.proof.readers import constraints
from tinyphysics.tpir.program.text import parse
from tinyphysics.tpir.verifier import verify


@tp.hamiltonian
def mass(q: tp.Vec[2], p: tp.Vec[2], m: float = 1.0, g: float = 1.0):
    return p @ p / (2 * m) + m * g * q[1]


@tp.constraint
def rod(q: tp.Vec[2], l: float = 1.0):  # noqa: E741
    return q @ q - l * l


@tp.hamiltonian
def masses(q: tp.Array[2, 2], p: tp.Array[2, 2]):
    return (p * p).sum() / 2 + q[:, 1].sum()


@tp.constraint
def rods(q: tp.Array[2, 2]):
    between = q[1] - q[0]
    return tp.stack([q[0] @ q[0] - 1, between @ between - 1])


def at(*angles):
    """Rods of length 1 at these angles from the vertical, one on the other."""
    return np.cumsum([[np.sin(a), -np.cos(a)] for a in angles], axis=0)


START = dict(q=at(2.0)[0], p=[0.0, 0.0])
BOTH = dict(q=at(2.0, 2.5), p=np.zeros((2, 2)))


def along(q, p):
    return q @ p


def worst_energy(out):
    _, values, _ = out.every_step("energy")
    return float(np.abs(values - values[0]).max())


def pendulum_at(t):
    """Of θ'' = -sin θ from rest at 2: Taylor's method, to rounding."""

    @tp.hamiltonian
    def plain(x, y):
        return y**2 / 2 - tp.cos(x)

    (angle,) = at(float(tp.compile(plain, method="taylor").evolve(x=2.0, y=0.0, until=t).final.x))
    return angle


# --- the physics --------------------------------------------------------------------------------------
@pytest.mark.requirement("S2-44")
@pytest.mark.parametrize(("dt", "energy", "off"), [(0.02, 2.419e-4, 1.169e-3), (0.01, 6.047e-5, 2.925e-4)])
def test_a_pendulum_on_a_rod_has_the_errors_of_rattle(dt, energy, off):
    out = tp.compile(mass + rod, dt=dt).evolve(
        **START, until=20.0, observe={"g": lambda q: q @ q - 1, "rate": along}
    )
    assert worst_energy(out) == pytest.approx(energy, rel=1e-3)
    assert np.abs(out.final.q - pendulum_at(20.0)).max() == pytest.approx(off, rel=1e-3)
    assert np.abs(out["g"]).max() < 1e-12 and np.abs(out["rate"]).max() < 1e-12


@pytest.mark.all
@pytest.mark.requirement("S2-44")
def test_a_rod_holds_over_a_million_steps():
    out = tp.compile(mass + rod, dt=0.01).evolve(
        **START, steps=1_000_000, frames=2, observe={"g": lambda q: q @ q - 1, "rate": along}
    )
    assert np.abs(out["g"]).max() < 1e-12 and np.abs(out["rate"]).max() < 1e-12
    assert worst_energy(out) < 6.1e-5


@pytest.mark.requirement("S2-44")
@pytest.mark.parametrize(("method", "bound"), [("rattle", 4e-3), ("rattle4", 5e-5)])
def test_a_double_pendulum_keeps_its_energy(method, bound):
    out = tp.compile(masses + rods, dt=0.01, method=method).evolve(**BOTH, until=1000.0, frames=2)
    assert out.stopped is None and worst_energy(out) <= bound


@pytest.mark.parametrize(("method", "order"), [("rattle", 2), ("rattle4", 4), ("rattle6", 6)])
def test_a_method_has_its_order(method, order):
    exact = pendulum_at(2.0)
    errors = [
        np.abs(tp.compile(mass + rod, dt=dt, method=method).evolve(**START, until=2.0).final.q - exact).max()
        for dt in (0.2, 0.1)
    ]
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.5


def test_multipliers_are_those_of_the_motion_to_second_order():
    """q'' = -2 λ q - (0, g), so that λ = (|v|² - g y)/2 on the circle of radius 1."""
    errors = []
    for dt in (0.02, 0.01):
        out = tp.compile(mass + rod, dt=dt).evolve(**START, until=2.0, save_every=10)
        exact = ((out.p**2).sum(-1) - out.q[:, 1]) / 2
        errors.append(np.abs(out.multipliers("rod") - exact).max())
    assert errors[1] < 2e-4 and errors[0] / errors[1] == pytest.approx(4, rel=0.1)
    both = tp.compile(masses + rods, dt=0.01).evolve(**BOTH, steps=4, frames=3)
    assert both.multipliers("rods").shape == (3, 2)
    with pytest.raises(InputError, match=r"no constraint `rid`.*\n.*Did you mean `rod`"):
        out.multipliers("rid")


def test_what_moves_freely_on_a_circle_keeps_its_angular_momentum_and_no_momentum():
    @tp.hamiltonian
    def free(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2

    sim = tp.compile(free + rod, dt=0.01)
    assert [c.name for c in sim.conserved] == ["energy", "angular_momentum[0, 1]"]
    out = sim.evolve(
        q=[1.0, 0.0], p=[0.0, 1.0], steps=1000, observe={"L": lambda q, p: q[0] * p[1] - q[1] * p[0]}
    )
    assert np.abs(out["L"] - 1).max() < 1e-12
    assert out.multipliers("rod")[-1] == pytest.approx(0.5, abs=1e-4)  # the tension 2 l λ is m v²/l


# --- what is proved, and measured ----------------------------------------------------------------------
@pytest.mark.requirement("S2-44")
@pytest.mark.parametrize("method", ["rattle", "rattle4"])
def test_a_step_is_proved_and_measured_to_be_symplectic_on_the_constraints(method):
    sim = tp.compile(masses + rods, dt=0.05, method=method)
    assert list(sim.certificate) == ["symplectic", "symmetric", "reversible", "consistent"]
    assert all(sim.certificate.values()) and "g(q) = 0" in sim.certificate.symplectic.because
    found = sim.check(**sim.consistent(q=BOTH["q"], p=[[0.3, -0.1], [0.2, 0.5]]))
    assert (
        found.symplectic
        and found.reversible
        and found.order == pytest.approx(2 if method == "rattle" else 4, abs=0.2)
    )


def listing():
    text = tp.compile(mass + rod, dt=0.1).ir("tpir")
    return "\n".join(x for x in text.splitlines() if not x.startswith("claim"))


def test_a_drift_without_its_momenta_is_not_certified():
    assert all(verify(parse(listing())).values())
    without = re.sub(r"  CONSTRAIN S1.*\n", "", listing(), count=1)
    assert not any(verify(parse(without)).values())


def test_a_kick_of_half_the_weight_is_not_consistent():
    found = verify(parse(re.sub(r"(SYMP_STEP S1.*), \$dt", r"\1, T11", listing(), count=1)))
    assert found.symplectic and not found.consistent and "total weight 0.5" in found.consistent.because


def test_momenta_that_are_given_back_with_a_part_across_are_not_consistent():
    start, final = listing().split("final:\n")
    lines = [x for x in final.splitlines() if "CONSTRAIN" not in x]
    found = verify(parse(f"{start}final:\n" + "\n".join(lines)))
    assert found.symplectic and not found.consistent and "across the constraints" in found.consistent.because


def test_a_listing_that_holds_another_function_is_not_certified():
    """The declared g has a circle of radius 1, the equations one of radius 2."""
    energy, steps = listing().split("init:\n")
    declared = re.sub(r"(B0, .*)\$l", r"\1$g", energy)
    found = verify(parse(f"{declared}init:\n{steps}"))
    assert not found.symplectic and "declared constraints" in found.symplectic.because


def test_temperature_has_one_degree_of_freedom_less_for_each_constraint():
    hot = tp.physics.temperature(drift="kept")
    start = dict(q=at(0.3)[0], p=[np.cos(0.3), np.sin(0.3)])
    out = tp.compile(mass + rod, dt=0.01).evolve(**start, steps=1, observe={"T": hot})
    assert out["T"][0] == pytest.approx(1.0)  # 2K = 1, for one number that is free
    with pytest.raises(InputError, match="forces of its constraints"):
        tp.compile(mass + rod, dt=0.01).evolve(**start, steps=1, observe={"W": tp.physics.virial()})


# --- bits, ensembles, files ------------------------------------------------------------------------------
def test_backends_agree_to_the_last_bit():
    hashes = {
        tp.compile(masses + rods, dt=0.01, backend=b).evolve(**BOTH, steps=30).hash
        for b in ("python", "numpy", "llvm", "c")
    }
    assert len(hashes) == 1


@pytest.mark.slow("four backends compile a rod, in pairs of float64 too")
@pytest.mark.parametrize("precision, off", [("float32", 2e-7), ("dd", 1e-15)])
def test_other_precisions_hold_a_rod_with_the_same_bits_on_every_backend(precision, off):
    found = []
    for backend in ("llvm", "c", "numpy", "python"):
        sim = tp.compile(mass + rod, dt=0.05, precision=precision, backend=backend)
        out = sim.evolve(**START, steps=8)
        found.append(out.hash)
    assert len(set(found)) == 1 and sim.certificate.symplectic
    assert abs(float(np.sum(np.float64(out.final.q) ** 2)) - 1) < off
    plain = tp.compile(mass + rod, dt=0.05).evolve(**START, steps=8)
    assert np.abs(out.final.q - plain.final.q).max() < 10 * off
    assert out.multipliers("rod")[-1] == pytest.approx(plain.multipliers("rod")[-1], rel=1e3 * off)


def test_a_rod_in_pairs_of_float64_has_32_digits():
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(50):
        h, n = mpmath.mpf(0.0625), 8
        q, p = [[mpmath.mpf(x) for x in given] for given in ([0.6, -0.8], [0.4, 0.3])]
        for _ in range(n):
            p = [p[0], p[1] - h / 2]
            turned = [q[0] + h * p[0], q[1] + h * p[1]]
            # |turned - 2 h λ q|² = 1
            a, b, c = (
                4 * (q[0] ** 2 + q[1] ** 2),
                -4 * (turned[0] * q[0] + turned[1] * q[1]),
                turned[0] ** 2 + turned[1] ** 2 - 1,
            )
            push = (-b - mpmath.sqrt(b * b - 4 * a * c)) / (2 * a) / h
            p = [x - 2 * push * y for x, y in zip(p, q)]
            q = [x + h * y for x, y in zip(q, p)]
            p = [p[0], p[1] - h / 2]
            across = (p[0] * q[0] + p[1] * q[1]) / (q[0] ** 2 + q[1] ** 2)
            p = [x - across * y for x, y in zip(p, q)]
        out = tp.compile(mass + rod, dt=0.0625, precision="dd").evolve(q=[0.6, -0.8], p=[0.4, 0.3], steps=n)
        for name, exact in (("q", q), ("p", p)):
            high, low = out.final.words(name).arrays.values()
            for k in (0, 1):
                assert abs(mpmath.mpf(float(high[k])) + mpmath.mpf(float(low[k])) - exact[k]) < 1e-30


@pytest.mark.slow("two backends compile a chain in loops")
def test_a_chain_in_loops_runs_in_float32_and_says_why_not_in_pairs():
    n = 20
    level = dict(q=np.stack([np.arange(1.0, n + 1), np.zeros(n)], axis=1), p=np.zeros((n, 2)))
    sims = [tp.compile(chain + links, dt=0.01, precision="float32", backend=b) for b in ("llvm", "numpy")]
    outs = [sim.evolve(**level, steps=20) for sim in sims]
    assert outs[0].hash == outs[1].hash
    lengths = np.linalg.norm(np.diff(np.float64(outs[0].final.q), axis=0, prepend=0.0), axis=1)
    assert np.abs(lengths - 1).max() < 1e-5
    with pytest.raises(PlanError, match="equations of whole arrays are not supported with precision"):
        tp.compile(chain + links, dt=0.01, precision="dd").evolve(**level, steps=1)


def test_members_of_an_ensemble_have_the_bits_of_single_runs():
    q = np.array([at(a)[0] for a in (0.5, 1.0, 2.0)])
    sim = tp.compile(mass + rod, dt=0.02)
    many = sim.evolve(q=q, p=np.zeros((3, 2)), g=[1.0, 2.0, 3.0], steps=50)
    one = sim.evolve(q=q[1], p=[0.0, 0.0], g=2.0, steps=50)
    assert np.array_equal(many.final.q[1], one.final.q)
    assert many.multipliers("rod").shape == (len(many.t), 3)


def test_a_run_with_constraints_resumes_and_loads(tmp_path):
    sim = tp.compile(mass + rod, dt=0.02)
    whole = sim.evolve(**START, steps=40)
    sim.evolve(**START, steps=20, checkpoint=tmp_path / "c")
    assert sim.evolve(resume=tmp_path / "c", steps=20).hash == whole.hash
    sim.save(tmp_path / "s.json")
    again = tp.load(tmp_path / "s.json").evolve(**START, steps=40)
    assert again.hash == whole.hash and np.array_equal(again.multipliers("rod"), whole.multipliers("rod"))


def test_sizes_may_be_letters():
    out = tp.compile(chain + links, dt=0.01).evolve(q=at(1.0, 1.5, 2.0), p=np.zeros((3, 2)), steps=100)
    ends = np.concatenate([np.zeros((1, 2)), out.final.q])
    assert np.abs(np.linalg.norm(np.diff(ends, axis=0), axis=1) - 1).max() < 1e-14


# --- long chains -------------------------------------------------------------------------------------------
@tp.hamiltonian
def chain(q: tp.Array["n", 2], p: tp.Array["n", 2], g: float = 1.0):
    return (p * p).sum() / 2 + g * q[:, 1].sum()


@tp.constraint
def links(q: tp.Array["n", 2]):
    d = tp.concatenate([q[:1], q[1:] - q[:-1]])
    return (d * d).sum(-1) - 1


def level(n):
    return dict(q=np.stack([np.arange(1.0, n + 1), np.zeros(n)], axis=1), p=np.zeros((n, 2)))


@pytest.mark.requirement("S2-44")
def test_a_thousand_links_hold_to_rounding_and_are_certified():
    sim = tp.compile(chain + links, dt=0.01, sizes={"n": 1000})
    assert all(sim.certificate.values())
    out = sim.evolve(**level(1000), steps=1000, frames=2)
    d = np.diff(out.final.q, axis=0, prepend=0.0)
    assert np.abs(np.linalg.norm(d, axis=1) - 1).max() < 1e-12
    assert np.abs((d * np.diff(out.final.p, axis=0, prepend=0.0)).sum(-1)).max() < 1e-12
    assert out.drift("energy") < 1e-6


@pytest.mark.all
def test_a_chain_in_loops_moves_as_one_that_is_written_out(monkeypatch, tmp_path):
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path))
    start = dict(q=at(*np.linspace(0.5, 2.0, 8)), p=np.zeros((8, 2)))
    few = tp.compile(chain + links, dt=0.01, sizes={"n": 8}).evolve(**start, steps=100, frames=3)
    monkeypatch.setattr(rattle, "WRITTEN", 4)
    monkeypatch.setattr(constraints, "WRITTEN", 4)
    same = tp.constraint(links_of_another_name).bind({"n": 8})  # plans are kept by the names of systems
    sim = tp.compile(chain + same, dt=0.01)
    assert all(sim.certificate.values()) and any(i.op == "ROLL" or "roll" in str(i) for i in sim.tpir.step)
    many = sim.evolve(**start, steps=100, frames=3)
    assert np.abs(few.final.q - many.final.q).max() < 1e-13
    assert np.allclose(few.multipliers("links"), many.multipliers(same.name), atol=1e-9)


def links_of_another_name(q: tp.Array["n", 2]):
    d = tp.concatenate([q[:1], q[1:] - q[:-1]])
    return (d * d).sum(-1) - 1


@pytest.mark.parametrize(
    "backends", [("numpy", "llvm"), pytest.param(("python", "llvm", "c"), marks=pytest.mark.all)]
)
def test_a_chain_has_the_same_bits_on_every_backend_and_in_an_ensemble(backends):
    runs = [
        tp.compile(chain + links, dt=0.01, sizes={"n": 20}, backend=b).evolve(**level(20), steps=5)
        for b in backends
    ]
    assert len({out.hash for out in runs}) == 1
    both = {name: np.stack([v, v]) for name, v in level(20).items()}
    many = tp.compile(chain + links, dt=0.01, sizes={"n": 20}).evolve(**both, steps=5)
    assert np.array_equal(many.final.q[1], runs[0].final.q)


# --- rings, trees, molecules --------------------------------------------------------------------------------
@tp.constraint
def ring(q: tp.Array["n", 2]):
    d = q - np.roll(q, 1, axis=0)
    return (d * d).sum(-1) - 1


def circle(n):
    a = 2 * np.pi * np.arange(n) / n
    return 0.5 / np.sin(np.pi / n) * np.stack([np.cos(a), np.sin(a)], axis=1)


def tree_of(parents):
    """Every body but the first hangs on another, which comes before it; the first is held at the origin."""

    @tp.constraint
    def branches(q: tp.Array["n", 2]):
        d = tp.concatenate([q[:1], q[1:] - q[np.array(parents[1:])]])
        return (d * d).sum(-1) - 1

    places = np.zeros((len(parents), 2))
    for k, angle in enumerate(np.random.default_rng(0).uniform(0, 6, len(parents))):
        places[k] = (places[parents[k]] if k else 0.0) + np.array([np.cos(angle), np.sin(angle)])
    return branches, places


def random_tree(n):
    rng = np.random.default_rng(n)
    return [0, *(int(rng.integers(max(0, k - 5), k)) for k in range(1, n))]


@tp.hamiltonian
def waters(q: tp.Array["m", 3, 3], p: tp.Array["m", 3, 3]):
    return (p[:, 0] * p[:, 0]).sum() / 32 + (p[:, 1:] * p[:, 1:]).sum() / 2 + q[:, :, 2].sum()


@tp.constraint
def triangle(q: tp.Array["m", 3, 3]):
    a, b, c = q[:, 1] - q[:, 0], q[:, 2] - q[:, 0], q[:, 1] - q[:, 2]
    sides = [(a * a).sum(-1) - 1, (b * b).sum(-1) - 1, (c * c).sum(-1) - 2.5]
    return tp.stack(sides, axis=1)


def some_waters(m):
    rng = np.random.default_rng(1)
    half = np.sqrt(2.5) / 2
    one = np.array([[0, 0, 0], [half, np.sqrt(1 - half**2), 0], [-half, np.sqrt(1 - half**2), 0]])
    turns = np.linalg.qr(rng.normal(size=(m, 3, 3)))[0]
    return dict(q=one @ turns + rng.normal(size=(m, 1, 3)) * 5, p=rng.normal(size=(m, 3, 3)))


def of_elimination(name):
    if name == "ring":
        return chain + ring, dict(q=circle(25), p=np.ones((25, 2)) * [[1.0, 0.2]])
    if name == "tree":
        parents = random_tree(24)
        branches, places = tree_of(parents)
        return chain + branches, dict(q=places, p=np.random.default_rng(2).normal(size=places.shape))
    if name == "waters":
        return waters + triangle, some_waters(7)
    return chain + links + closed, dict(q=circle(25)[1:] - circle(25)[0], p=np.zeros((24, 2)))


@tp.constraint
def closed(q: tp.Array["n", 2]):
    return q[-1] @ q[-1] - 1


@pytest.mark.requirement("S2-44")
@pytest.mark.parametrize(
    "name", ["ring", *(pytest.param(x, marks=pytest.mark.all) for x in ("tree", "waters", "several"))]
)
def test_rings_trees_and_molecules_are_held_in_loops_and_certified(name):
    system, start = of_elimination(name)
    sim = tp.compile(system, dt=0.01, backend="numpy", sizes=sizes_of(start))
    assert all(sim.certificate.values()) and "sparse matrix" in str(sim.explain("full"))
    start = sim.consistent(**start)
    out = sim.evolve(**start, steps=4, save_every=2)
    assert out.stopped is None and np.ptp(out.energy) < 1e-2
    again = sim.consistent(**{k: getattr(out.final, k) for k in ("q", "p")})
    assert np.abs(again["q"] - out.final.q).max() < 1e-13 and np.abs(again["p"] - out.final.p).max() < 1e-12
    if name == "several":
        assert out.multipliers("links").shape == (3, 24) and out.multipliers("closed").shape == (3,)


def sizes_of(start):
    return {"m" if np.ndim(start["q"]) == 3 else "n": len(start["q"])}


@pytest.mark.all
@pytest.mark.parametrize("name", ["ring", "tree", "waters"])
def test_elimination_has_the_same_bits_on_every_backend(name):
    system, start = of_elimination(name)
    runs = []
    for backend in ("numpy", "python", "llvm", "c"):
        sim = tp.compile(system, dt=0.01, backend=backend, sizes=sizes_of(start))
        runs.append(sim.evolve(**sim.consistent(**start), steps=5))
    assert len({out.hash for out in runs}) == 1


@pytest.mark.all
@pytest.mark.parametrize("name", ["ring", "tree"])
def test_elimination_moves_as_what_is_written_out(name, monkeypatch, tmp_path):
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path))
    parents = random_tree(8)
    system = chain + (ring if name == "ring" else tree_of(parents)[0])
    start = dict(q=circle(8) if name == "ring" else tree_of(parents)[1], p=np.ones((8, 2)))
    few = tp.compile(system, dt=0.01, sizes={"n": 8})
    start = few.consistent(**start)
    one = few.evolve(**start, steps=50)
    monkeypatch.setattr(rattle, "WRITTEN", 4)
    monkeypatch.setattr(constraints, "WRITTEN", 4)
    many = tp.compile(system, dt=0.01, sizes={"n": 8}, backend="numpy").evolve(**start, steps=50)
    assert np.abs(one.final.q - many.final.q).max() < 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_elimination_solves_random_sparse_systems(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    full = np.diag(rng.uniform(3, 4, n))
    for k in range(1, n):
        for other in {int(rng.integers(0, k)), *([int(rng.integers(0, k))] if rng.random() < 0.1 else [])}:
            full[k, other], full[other, k] = rng.uniform(-0.5, 0.5, 2)
    plan = planned([frozenset(np.flatnonzero(row).tolist()) for row in full])
    right = rng.normal(size=n)

    def product(v):
        return UOp.stack(
            [UOp.sum_of([v.element(k) * float(x) for k, x in enumerate(row)]) for row in full], (n,)
        )

    x = eliminated(plan, product, UOp.stack([UOp.const(float(b)) for b in right], (n,)))
    assert np.allclose(evaluate([x], {})[0], np.linalg.solve(full, right), rtol=1e-12, atol=1e-13)


def test_a_redundant_row_of_many_is_named():
    @tp.constraint
    def twice(q: tp.Array["n", 2]):
        d = tp.concatenate([q[:1], q[1:] - q[:-1], q[4:5] - q[3:4]])
        return (d * d).sum(-1) - 1

    sim = tp.compile(chain + twice, dt=0.01, sizes={"n": 20}, backend="numpy")
    with pytest.raises(InputError, match="row (4|20) of `twice` says nothing that other rows do not say"):
        sim.evolve(**level(20), steps=1)


def test_what_is_too_dense_is_refused_and_so_is_a_bad_start():
    @tp.constraint
    def hub(q: tp.Array["n", 2]):
        return (q * q).sum(-1) + (q * q).sum() - 1

    with pytest.raises(PlanError, match="coupled so densely"):
        tp.compile(chain + hub, dt=0.01, sizes={"n": 80})
    sim = tp.compile(chain + links, dt=0.01, sizes={"n": 30})
    start = level(30)
    with pytest.raises(InputError, match="row 0 of `links` is 0.0201 at the start"):
        sim.evolve(q=start["q"] * 1.01, p=start["p"], steps=1)
    near = sim.consistent(q=start["q"] + 0.05 * np.sin(np.arange(60.0)).reshape(30, 2), p=np.ones((30, 2)))
    assert sim.evolve(**near, steps=5).stopped is None


def test_a_rod_that_turns_too_far_in_a_step_stops_with_the_dt_to_take():
    @tp.hamiltonian
    def free(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2

    fast = dict(q=[1.0, 0.0], p=[0.0, 15.0])
    out = tp.compile(free + rod, dt=0.1).evolve(**fast, steps=3)
    assert out.stopped.cause == "not solved" and re.search(
        r"`rod` turns by 1.50 rad in one step(.|\n)*dt=0.017 or less", str(out.stopped.error)
    )
    with pytest.raises(PhysicsIntegrityError, match="`rod` turns by 1.50 rad"):
        tp.compile(free + rod, dt=0.1, checks="strict").evolve(**fast, steps=3)
    assert tp.compile(free + rod, dt=0.017).evolve(**fast, steps=100).stopped is None


@pytest.mark.all
@pytest.mark.slow("the end of a chain of 1,000 links whips through at t = 44.5")
def test_a_whip_goes_through_with_the_dt_that_its_stop_asks_for():
    """The last link turns with 90.9 rad per unit of time there."""
    out = tp.compile(chain + links, dt=0.01, sizes={"n": 1000}).evolve(**level(1000), until=50.0, frames=2)
    assert 44.5 < out.stopped.t < 44.6 and "row 999 of `links` turns" in str(out.stopped.error)
    assert "dt=0.0032 or less" in str(out.stopped.error)
    out = tp.compile(chain + links, dt=0.003, sizes={"n": 1000}).evolve(**level(1000), until=50.0, frames=2)
    assert out.stopped is None


def test_gradients_go_through_a_chain_in_loops():
    sim = tp.compile(chain + links, dt=0.01, sizes={"n": 30})

    def last(g):
        return sim.evolve(**level(30), g=g, steps=20).final.q[3, 1]

    _, found = sim.value_and_grad(lambda out: out.final.q[3, 1], wrt=["g"], **level(30), steps=20)
    assert found["g"] == pytest.approx((last(1 + 1e-4) - last(1 - 1e-4)) / 2e-4, rel=1e-7)


@pytest.mark.slow("runs, tangents and cotangents are compiled, and differences in double-double")
@pytest.mark.parametrize("precision, off", [("float64", 1e-12), ("float32", 1e-5), ("dd", 1e-12)])
def test_gradients_of_a_rod_are_those_of_runs_beside_it(precision, off):
    sim = tp.compile(mass + rod, dt=0.05, precision=precision)
    check = sim.gradcheck(lambda o: o.final.q[0] ** 2 + o.final.p[1], q=[0.6, -0.8], p=[0.4, 0.3], steps=10)
    assert check.in_double_double and check.differences < off and check.duality < off


def test_gradients_go_through_the_multipliers():
    sim = tp.compile(mass + rod, dt=0.01)

    def last(**more):
        return sim.evolve(**START, steps=100, **more).final.q[0]

    _, found = sim.value_and_grad(lambda out: out.final.q[0], wrt=["g"], **START, steps=100)
    assert found["g"] == pytest.approx((last(g=1 + 1e-5) - last(g=1 - 1e-5)) / 2e-5, rel=1e-7)


# --- starts -------------------------------------------------------------------------------------------------
def test_a_start_off_the_constraints_is_refused_with_its_residual():
    sim = tp.compile(mass + rod, dt=0.01)
    with pytest.raises(InputError, match=r"`rod` is 0.01 at the start, not 0(.|\n)*sim.consistent"):
        sim.evolve(q=[1.0, 0.1], p=[0.0, 0.0], steps=1)
    with pytest.raises(InputError, match="`rod` of member 1 changes at the rate 0.6"):
        sim.evolve(q=[[1.0, 0.0], [1.0, 0.0]], p=[[0.0, 1.0], [0.3, 1.0]], steps=1)
    with pytest.raises(InputError, match="off the constraints"):
        sim.check(q=[1.0, 0.1], p=[0.0, 0.0])


def test_the_nearest_state_is_on_the_constraints_and_nearest():
    sim = tp.compile(mass + rod, dt=0.01)
    found = sim.consistent(q=[1.2, 0.5], p=[0.1, 0.4], l=2.0)
    assert np.allclose(found["q"], np.array([1.2, 0.5]) / 1.3 * 2, atol=1e-15) and found["l"] == 2.0
    assert abs(found["q"] @ found["p"]) < 1e-15 and sim.evolve(**found, steps=10).stopped is None
    both = tp.compile(masses + rods, dt=0.01).consistent(q=BOTH["q"] + 0.1, p=np.ones((2, 2)))
    assert np.abs(np.linalg.norm(np.diff(np.vstack([[0, 0], both["q"]]), axis=0), axis=1) - 1).max() < 1e-14
    with pytest.raises(InputError, match="has no constraints"):
        tp.compile(mass, dt=0.01).consistent(q=[1.0, 0.0], p=[0.0, 0.0])


def test_a_redundant_row_is_named():
    @tp.constraint
    def twice(q: tp.Array[2, 2]):
        return tp.stack([q[0] @ q[0] - 1, q[1] @ q[1] - 1, q[0] @ q[0] + q[1] @ q[1] - 2])

    sim = tp.compile(masses + twice, dt=0.01)
    with pytest.raises(
        InputError, match="row 2 of `twice` says nothing at the start that the rows before it"
    ):
        sim.evolve(q=np.eye(2), p=np.zeros((2, 2)), steps=1)
    with pytest.raises(InputError, match="redundant"):
        sim.consistent(q=1.1 * np.eye(2), p=np.zeros((2, 2)))


def test_constraints_that_contradict_each_other_say_so():
    @tp.constraint
    def short(q: tp.Array[2, 2]):
        return q[0] @ q[0] - 1

    @tp.constraint
    def long(q: tp.Array[2, 2]):
        return q[0] @ q[0] - 4

    sim = tp.compile(masses + short + long, dt=0.01)
    for call in (sim.consistent, lambda **s: sim.evolve(**s, steps=1)):
        with pytest.raises(InputError, match="`long` is -3 .* no motion that keeps `short` .*contradict"):
            call(q=np.eye(2), p=np.zeros((2, 2)))


# --- what is refused ------------------------------------------------------------------------------------------
@tp.hamiltonian
def fast(q: tp.Vec[2], p: tp.Vec[2]):
    return tp.sqrt(1 + p @ p) + q[1]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: tp.compile(rod, dt=0.1), PlanError, "only a constraint"),
        (lambda: tp.compile(fast + rod, dt=0.1), PlanError, "not shown to be quadratic"),
        (lambda: tp.compile(mass + rod, dt=0.1, method="rk4"), PlanError, "held by constraints"),
        (lambda: tp.compile(mass + rod, dt=0.1, friction=0.1), PlanError, "friction= cannot be combined"),
        (lambda: tp.compile(mass + rod, dt=0.1, precision="mixed"), PlanError, "does not support yet"),
        (lambda: tp.compile(mass + rod, dt=0.1, precision="lattice"), PlanError, "does not support yet"),
        (lambda: tp.compile(mass + rod + rod, dt=0.1), PlanError, "two constraints of the sum are named `rod`"),
        (lambda: tp.compile(mass, dt=0.1, method="rattle"), PlanError, "no constraint holds its positions"),
        (lambda: tp.constraint(lambda q, k: k - 1), TraceError, "no position occurs"),
        (lambda: tp.constraint(lambda q, t: q - t), TraceError, "depends on t"),
        (lambda: tp.compile(mass + tp.constraint(lambda r: r - 1), dt=0.1), PlanError, "constraint of `r`"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_constraints_says_so(make, error, words):
    with pytest.raises(error, match=words):
        make()


# --- rigid bonds ------------------------------------------------------------------------------------------------
@tp.hamiltonian
def atoms(q: tp.Array[3, 2], p: tp.Array[3, 2], bend: float = 0.0):
    a, b = q[0] - q[1], q[2] - q[1]
    return (p * p).sum() / 2 + bend * (a @ b) ** 2 / 2


@tp.potential
def bonds(q: tp.Array[3, 2], k: float = 1e4):
    d = q[1:] - q[:-1]
    return (k * (tp.sqrt((d * d).sum(-1)) - 1) ** 2 / 2).sum()


def bent(angle):
    return np.array([[1.0, 0.0], [0.0, 0.0], [np.cos(angle), np.sin(angle)]])


@pytest.mark.requirement("S2-45")
def test_the_energy_of_fixman_is_that_of_a_trimer():
    sim = tp.compile(atoms + tp.rigid_bonds(bonds, fixman=2.0), dt=0.01)
    assert all(sim.certificate.values())
    right, straight = (sim.evolve(q=bent(a), p=np.zeros((3, 2)), steps=1) for a in (np.pi / 2, np.pi))
    assert (right.energy[0] - straight.energy[0]) / 2.0 == pytest.approx(0.143841, abs=1e-6)
    frequency, heat = right.losses
    assert (
        frequency.amount == pytest.approx(np.sqrt(2e4)) and heat.amount == 2.0
    )  # at a right angle they do not couple
    plain = tp.compile(atoms + tp.rigid_bonds(bonds), dt=0.01).evolve(
        q=bent(2.0), p=np.zeros((3, 2)), steps=1
    )
    assert [x.what for x in plain.losses][-1] == "distribution of angles"


@pytest.mark.requirement("S2-45")
def test_a_rigid_molecule_bends_as_a_stiff_one():
    """The angle between two bonds swings about a right angle; springs are 1,000 times as stiff as the bend."""
    start = dict(q=bent(np.pi / 2 + 0.2), p=np.zeros((3, 2)), bend=10.0)
    turns = []
    for system, dt in ((atoms + bonds, 0.0005), (atoms + tp.rigid_bonds(bonds), 0.01)):
        sim = tp.compile(system, dt=dt)
        found = sim.evolve(
            **start, until=10.0, frames=2, events={"right": lambda q: (q[0] - q[1]) @ (q[2] - q[1])}
        )
        t = found.events("right").t
        turns.append((t[-1] - t[0]) / (len(t) - 1))
    assert turns[1] == pytest.approx(turns[0], rel=0.02)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tp.rigid_bonds(atoms), "not a potential"),
        (lambda: tp.rigid_bonds(tp.potential(lambda q: q**4)), "not written as a sum of squares"),
        (lambda: tp.rigid_bonds(bonds, fixman=-1.0), "not a thermal energy"),
        (lambda: tp.rigid_bonds(bonds, fixman="kT"), "has no scalar parameter"),
    ],
)
def test_what_cannot_be_made_rigid_says_so(make, words):
    with pytest.raises(InputError, match=words):
        make()
