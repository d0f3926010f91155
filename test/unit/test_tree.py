"""Forces of 1/r through a tree: how far they are off, what they cost, what is still claimed, and the same bits everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.analysis.analyse import facts_of
from tinyphysics.analysis.inverse_distance import inverse_distance
from tinyphysics.context import PROCESSOR
from tinyphysics.device.host.tree import GROUP, TreePull, angles, planted
from tinyphysics.errors import InputError, PlanError
from tinyphysics.ir import Ops, UOp
from tinyphysics.ir.dtype import f64
from tinyphysics.ir.spec import SHAPED, check
from tinyphysics.ir.value import evaluate
from tinyphysics.physics.particles import cold_sphere, coulomb, gravity, plummer
from tinyphysics.runtime.stages import progress, energy_so_far as wander
from tinyphysics.runtime.engines.loaders import tree_functions
from tinyphysics.tpir.kernels.tree import MASS, MASSES, POINTS, TreeSpec, pull_of
import processors

BACKENDS = ("numpy", "c", "llvm")
STARTS = {"plummer": plummer, "cold sphere": cold_sphere}


def pull(q, m, softening=0.0, who=None):
    """The direct sum, for all or some."""
    who = np.arange(len(q)) if who is None else who
    d = q[None] - q[who, None]
    r2 = (d**2).sum(-1) + softening**2
    r2[np.arange(len(who)), who] = np.inf
    return (m[None, :, None] * d / r2[..., None] ** 1.5).sum(1)


def tree_of(q, m, softening=0.0, budget=1e-3, threads=1, functions=None):
    """(the pull on every point, the tree that has summed it)."""
    n = len(q)
    own = {POINTS: q.T.copy().ravel(), MASSES: m.copy(), pull_of(0): np.empty(3 * n)}
    spec = TreeSpec((n, 3), UOp.const(softening**2), budget, 1)
    tree = TreePull(spec, softening**2, own, functions or tree_functions(), threads)
    tree.make(pull_of(0))
    return own[pull_of(0)].reshape(3, n).T, tree


# --- the sum --------------------------------------------------------------------------------------
@pytest.mark.parametrize("softening", (0.0, 0.05))
@pytest.mark.parametrize("budget", (1e-2, 1e-3, 1e-4))
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.requirement("S2-31")
def test_forces_are_within_the_budget_of_the_direct_sum(start, budget, softening):
    s = STARTS[start](2000, seed=3)
    found, tree = tree_of(s["q"], s["m"], softening, budget)
    exact = pull(s["q"], s["m"], softening)
    strength = np.linalg.norm(exact, axis=1)
    off = np.linalg.norm(found - exact, axis=1) / np.maximum(strength, 0.1 * np.sqrt((strength**2).mean()))
    rms = np.sqrt((off**2).mean())
    assert tree.error[0] <= budget
    assert 0.5 * tree.error[0] < rms < 1.5 * budget  # of all points, where the sample has 256
    assert tree.angle == angles()[0] or rms > 0.05 * budget  # and no angle is narrower than it must be


def test_a_narrower_angle_makes_a_smaller_error():
    s = plummer(1500, seed=1)
    exact = pull(s["q"], s["m"])
    tree = planted(s["q"].T, s["m"], tree_functions())
    _, one = tree_of(s["q"], s["m"])
    errors = []
    for angle in (0.8, 0.4, 0.2, 0.1):
        out, _ = one.walked(tree, np.arange(-(-1500 // GROUP)), angle)
        errors.append(np.abs(out[:, :1500].T - exact[tree.order]).max())
    assert all(b < a / 3 for a, b in zip(errors, errors[1:]))


@pytest.mark.parametrize("n", (1, 2, 7, 8, 9, 63, 64, 65, 513))
def test_every_point_is_counted_once(n):
    rng = np.random.default_rng(n)
    q, m = rng.normal(size=(n, 3)), rng.uniform(0.5, 2.0, n)
    found, tree = tree_of(q, m, budget=1e-6)
    exact = pull(q, m)
    assert np.abs(found - exact).max() <= 1e-5 * max(np.abs(exact).max(), 1.0)
    planted_tree = planted(q.T, m, tree_functions())
    assert sorted(planted_tree.order) == list(range(n))
    assert planted_tree.nodes[MASS, : planted_tree.leaves].sum() == pytest.approx(m.sum(), rel=1e-14)


@pytest.mark.parametrize(
    "q",
    [
        np.zeros((40, 3)),
        np.repeat(np.eye(3), 20, 0),
        np.linspace(0, 1, 50)[:, None] * [1.0, 0.0, 0.0],
        np.concatenate([np.random.default_rng(0).normal(size=(50, 3)), [[1e12, 0, 0]]]),
        1e9 + np.random.default_rng(1).normal(size=(60, 3)),
    ],
    ids=("one place", "three places", "a line", "one far away", "far from the origin"),
)
def test_points_that_lie_badly_are_summed_too(q):
    m = np.ones(len(q))
    found, _ = tree_of(q, m, softening=0.1, budget=1e-3)
    assert np.abs(found - pull(q, m, 0.1)).max() <= 1e-2 * np.abs(pull(q, m, 0.1)).max() + 1e-12


def test_points_without_mass_pull_nobody_and_are_pulled():
    s = plummer(300, seed=2)
    m = np.where(np.arange(300) % 3, s["m"], 0.0)
    found, _ = tree_of(s["q"], m, budget=1e-4)
    assert np.allclose(found, pull(s["q"], m), rtol=2e-3, atol=1e-4)


@pytest.mark.requirement("S2-31")
def test_what_a_point_meets_grows_with_the_logarithm_of_their_number():
    met = {}
    for n in (1000, 4000, 16000, 64000):
        s = cold_sphere(n, seed=1)
        _, one = tree_of(s["q"][:1000], s["m"][:1000])
        tree = planted(s["q"].T, s["m"], tree_functions())
        groups = np.arange(0, n // GROUP, 25)
        met[n] = one.walked(tree, groups, 0.6)[1] / len(groups)
    steps = [met[4000] - met[1000], met[16000] - met[4000], met[64000] - met[16000]]
    assert (
        steps[2] < 1.5 * steps[1] < 3 * steps[0]
    )  # a constant for every factor of four; a power would multiply them
    assert met[64000] < 0.03 * 64000


@pytest.mark.parametrize("name", processors.HERE)
def test_other_vectors_make_the_same_bits(name):
    s = plummer(700, seed=5)
    with PROCESSOR(name):
        functions = tree_functions()
    assert functions is not tree_functions()
    narrow, _ = tree_of(s["q"], s["m"], functions=functions)
    assert np.array_equal(narrow, tree_of(s["q"], s["m"])[0])


def test_a_budget_that_no_angle_meets_is_an_error():
    s = cold_sphere(20000, seed=1)
    with pytest.raises(PlanError, match="approximate=1e-14 cannot be met"):
        tree_of(s["q"], s["m"], budget=1e-14)


# --- runs -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ("leapfrog", "leapfrog_dkd", "yoshida4"))
@pytest.mark.parametrize("n", (9, 200))
def test_every_backend_makes_the_same_bits(method, n):
    s = plummer(n, seed=1)
    runs = [
        tp.compile(gravity, dt=0.02, approximate=1e-3, method=method, backend=b).evolve(
            **s, softening=0.1, steps=6, save_every=2
        )
        for b in BACKENDS
    ]
    assert len({r.hash for r in runs}) == 1
    assert all(np.array_equal(r.q, runs[0].q) and np.array_equal(r.p, runs[0].p) for r in runs)
    assert all(r.metrics["approximate"] == runs[0].metrics["approximate"] for r in runs)


def test_any_number_of_threads_makes_the_same_bits():
    s = plummer(6500, seed=1)
    sim = tp.compile(gravity, dt=0.02, approximate=1e-2)
    runs = [sim.evolve(**s, softening=0.1, steps=2, threads=k) for k in (1, 2, 3)]
    assert len({r.hash for r in runs}) == 1


def test_what_is_looked_at_changes_no_bit():
    s = plummer(150, seed=4)
    sim = tp.compile(gravity, dt=0.02, approximate=1e-3, method="leapfrog_dkd")
    plain = sim.evolve(**s, softening=0.1, steps=12, save_every=None)
    looked = sim.evolve(**s, softening=0.1, steps=12, save_every=1, observe={"x": lambda q, p: q.sum()})
    assert np.array_equal(plain.final.q, looked.final.q) and np.array_equal(plain.final.p, looked.final.p)
    assert plain.metrics["approximate"] == looked.metrics["approximate"]


def test_the_error_is_in_the_metrics_and_below_the_budget():
    s = plummer(1000, seed=1)
    out = tp.compile(gravity, dt=0.02, approximate=1e-3).evolve(**s, softening=0.05, steps=1)
    found = out.metrics["approximate"]
    assert (
        found["budget"] == 1e-3
        and 0 < found["rms"] <= 1e-3
        and found["rms"] <= found["max"]
        and 0 < found["angle"] <= 1
    )
    assert 0 < found["last_rms"] <= found["last_max"] and found["last_rms"] != found["rms"]
    assert "approximate" not in tp.compile(gravity, dt=0.02).evolve(**s, softening=0.05, steps=1).metrics


def test_energy_drifts_about_as_much_as_with_the_direct_sum():
    s = plummer(256, seed=2)
    span = dict(softening=0.1, steps=425, save_every=25)  # three crossing times
    near = tp.compile(gravity, dt=0.02, approximate=1e-3).evolve(**s, **span)
    exact = tp.compile(gravity, dt=0.02).evolve(**s, **span)
    assert near.drift("energy") < 3 * exact.drift("energy") + 1e-4
    assert abs(near.final.p.sum(0)).max() < 1e-3  # of a total of about 0.7


def test_one_body_in_many_members_has_its_own_tree():
    starts = [plummer(60, seed=k) for k in (1, 2)]
    both = {name: np.stack([s[name] for s in starts]) for name in ("q", "p")}
    sim = tp.compile(gravity, dt=0.02, approximate=1e-3)
    out = sim.evolve(**both, m=starts[0]["m"], softening=0.1, steps=5)
    alone = [sim.evolve(**s, softening=0.1, steps=5) for s in starts]
    assert all(np.array_equal(out.final.q[k], a.final.q) for k, a in enumerate(alone))
    assert out.metrics["approximate"]["rms"] == [a.metrics["approximate"]["rms"] for a in alone]


@pytest.mark.parametrize("method", ("leapfrog", "leapfrog_dkd"))
def test_a_resumed_run_keeps_its_angle_and_its_bits(tmp_path, method):
    s = cold_sphere(300, seed=1)  # falls together: another angle would do later
    sim = tp.compile(gravity, dt=0.05, approximate=3e-3, method=method)
    whole = sim.evolve(**s, softening=0.05, steps=24)
    sim.evolve(**s, softening=0.05, steps=20, checkpoint=tmp_path / "c")
    again = sim.evolve(resume=tmp_path / "c", steps=4)
    assert (
        np.array_equal(again.final.q, whole.final.q)
        and again.metrics["approximate"] == whole.metrics["approximate"]
    )


def test_a_run_can_be_saved_and_replayed_with_its_budget(tmp_path):
    sim = tp.compile(gravity, dt=0.02, approximate=1e-3, sizes={"n": 50})
    sim.save(tmp_path / "sim.json")
    assert tp.load(tmp_path / "sim.json").goal.approximate == 1e-3


@pytest.mark.parametrize("approximate", (None, 1e-3))
def test_progress_sums_over_all_pairs_only_if_the_forces_do(monkeypatch, approximate):
    asked = []
    monkeypatch.setattr(progress, "MINUTE", 0.0)
    monkeypatch.setattr(wander, "WAIT", -1e9)
    observe = wander.observe_states
    monkeypatch.setattr(wander, "observe_states", lambda *given: asked.append(1) or observe(*given))
    sim = tp.compile(gravity, dt=0.02, approximate=approximate)
    sim.evolve(**plummer(40, seed=1), softening=0.1, steps=4, save_every=2, progress="log")
    assert bool(asked) == (approximate is None)


# --- what is claimed ------------------------------------------------------------------------------
def test_a_tree_is_not_symplectic_and_the_report_says_why():
    sim = tp.compile(gravity, dt=0.02, approximate=1e-3, sizes={"n": 100})
    certificate = sim.built.certificate
    assert not certificate.symplectic and "tree" in certificate.symplectic.because
    assert not certificate.consistent and "0.001" in certificate.consistent.because
    assert certificate.volume_preserving and certificate.symmetric
    text = str(sim.explain("full"))
    assert "approximate" in text and "momentum" in text and "is conserved exactly" in text
    assert "symplectic" not in sim.built.program.claims
    assert (
        sim.built.program.hash
        != tp.compile(gravity, dt=0.02, approximate=1e-2, sizes={"n": 100}).built.program.hash
    )


def test_a_program_with_a_tree_prints_and_parses_back():
    text = tp.compile(gravity, dt=0.02, approximate=1e-3, sizes={"n": 40}).ir("tpir")
    assert "TREE" in text and str(tp.tpir.parse(text)) == text


def test_a_tree_has_no_meaning_on_numbers_but_by_compiled_code():
    tree = UOp(Ops.TREE, f64, (2, 3), (UOp.var("q", (2, 3)), UOp.var("m", (2,)), UOp.const(0.0)), (1e-3,))
    check([tree], SHAPED)
    with pytest.raises(PlanError, match="need a compiled backend"):
        evaluate([tree], {"q": [0.0] * 6, "m": [1.0, 1.0]})
    program = tp.compile(gravity, dt=0.02, approximate=1e-3, sizes={"n": 40}).built.program
    with pytest.raises(PlanError, match="the virtual machine does not support tree codes"):
        tp.tpir.vm.run(program, {"q": [0.0] * 120, "p": [0.0] * 120}, 1)


# --- what is recognised ---------------------------------------------------------------------------
def found_in(potential):
    @tp.hamiltonian
    def system(
        q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"] = 1.0, k: float = 1.0, e: float = 0.1
    ):
        d = q[:, None] - q[None, :]
        return (p**2).sum() / 2 + potential(q, (d**2).sum(-1), m[:, None], m[None, :], k, e)

    bound = system.bind({"n": 12})
    return inverse_distance(bound, facts_of(bound)["separable"].V)


YES = {
    "plain": lambda q, r2, a, b, k, e: tp.pair_sum(1 / tp.sqrt(r2)),
    "power": lambda q, r2, a, b, k, e: -k * tp.pair_sum(a * b * (r2 + e**2) ** -0.5),
    "factor inside": lambda q, r2, a, b, k, e: tp.pair_sum(3 * k * a * b / tp.sqrt(r2 + e)),
    "with a field": lambda q, r2, a, b, k, e: (q**2).sum() - tp.pair_sum(a * b / tp.sqrt(r2 + e * e)) / k,
}
NO = {
    "sum of masses": lambda q, r2, a, b, k, e: tp.pair_sum((a + b) / tp.sqrt(r2)),
    "another power": lambda q, r2, a, b, k, e: tp.pair_sum(a * b / r2),
    "screened": lambda q, r2, a, b, k, e: tp.pair_sum(a * b * tp.exp(-tp.sqrt(r2)) / tp.sqrt(r2)),
    "softened by masses": lambda q, r2, a, b, k, e: tp.pair_sum(a * b / tp.sqrt(r2 + a * b)),
    "squashed": lambda q, r2, a, b, k, e: tp.pair_sum(a * b / tp.sqrt(2 * r2)),
    "product of sums": lambda q, r2, a, b, k, e: tp.pair_sum(a * b / tp.sqrt(r2)) ** 2,
    "two": lambda q, r2, a, b, k, e: tp.pair_sum(a * b / tp.sqrt(r2)) + tp.pair_sum(1 / tp.sqrt(r2 + e)),
    "a missed yes": lambda q, r2, a, b, k, e: tp.pair_sum((a * b) ** 2 / tp.sqrt(r2)),
    "the largest": lambda q, r2, a, b, k, e: np.max(np.triu(a * b / np.sqrt(r2 + 1), 1)),
    "a field over pairs": lambda q, r2, a, b, k, e: (q**2).sum() * tp.pair_sum(a * b / tp.sqrt(r2)),
    "no pairs": lambda q, r2, a, b, k, e: (q**2).sum(),
}


@pytest.mark.parametrize("name", YES)
def test_a_sum_of_inverse_distances_is_found(name):
    fact = found_in(YES[name])
    assert fact, fact.because
    assert (fact.rest is None) == (name != "with a field")


@pytest.mark.parametrize("name", NO)
def test_anything_else_is_not(name):
    assert not found_in(NO[name])


@pytest.mark.parametrize("name", YES)
def test_what_is_found_is_stepped_as_the_exact_sum_is(name):
    @tp.hamiltonian
    def system(
        q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"] = 1.0, k: float = 1.3, e: float = 0.1
    ):
        d = q[:, None] - q[None, :]
        return (p**2).sum() / 2 + YES[name](q, (d**2).sum(-1), m[:, None], m[None, :], k, e)

    rng = np.random.default_rng(1)
    start = dict(q=rng.normal(size=(80, 3)), p=np.zeros((80, 3)), m=rng.uniform(0.5, 1.5, 80))
    near, exact = (
        tp.compile(system, dt=1e-3, approximate=x).evolve(**start, steps=1).final.p for x in (1e-4, None)
    )
    assert np.abs(near - exact).max() < 1e-3 * np.abs(exact).max()


# --- mistakes -------------------------------------------------------------------------------------
@tp.hamiltonian
def plane(q: tp.Array["n", 2], p: tp.Array["n", 2]):
    d = q[:, None] - q[None, :]
    return (p**2).sum() / 2 - tp.pair_sum(1 / tp.sqrt((d**2).sum(-1) + 0.01))


@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - tp.cos(q)


@tp.forces
def pushed(q: tp.Array[40, 3]):
    return -q


# fmt: off
WRONG = [
    (gravity,  dict(approximate=0.0),                        InputError, "approximate=0.0 is not a relative error"),
    (gravity,  dict(approximate=1.0),                        InputError, "Pass approximate=1e-3"),
    (gravity,  dict(approximate=float("nan")),               InputError, "is not a relative error"),
    (gravity,  dict(approximate="1e-3"),                     InputError, "is not a relative error"),
    (gravity,  dict(approximate=True),                       InputError, "is not a relative error"),
    (gravity,  dict(precision="float32"),                    PlanError,  "cannot be combined with precision='float32'"),
    (gravity,  dict(scale="auto"),                           PlanError,  "cannot be combined with scale='auto'"),
    (gravity,  dict(method="rk4"),                           PlanError,  "cannot be combined with the method rk4"),
    (gravity,  dict(method="symplectic"),                    PlanError,  "a tree's force"),
    (gravity,  dict(backend="python"),                       PlanError,  "`python` does not support tree codes"),
    (gravity,  dict(sizes={"n": 8}),                         PlanError,  "approximate= for n = 8"),
    (plane,    {},                                           PlanError,  "not points in space"),
    (pendulum, dict(sizes=None),                             PlanError,  "no sum of this form was found"),
    (pushed,   dict(sizes=None),                             PlanError,  "a system given by its forces"),
]
# fmt: on


@pytest.mark.parametrize("system, options, error, text", WRONG)
def test_what_a_tree_cannot_do_is_said(system, options, error, text):
    with pytest.raises(error) as found:
        tp.compile(system, **({"dt": 0.1, "approximate": 1e-3, "sizes": {"n": 40}} | options)).explain("full")
    assert text in str(found.value)


def test_masses_are_not_negative():
    s = plummer(40, seed=1)
    charge = np.where(np.arange(40) % 2, 1.0, -1.0)
    with pytest.raises(InputError, match="the mass of body 0 is -1"):
        tp.compile(coulomb, dt=0.01, approximate=1e-3).evolve(q=s["q"], p=s["p"], charge=charge, steps=1)


def test_two_bodies_in_one_place_stop_a_run_as_with_the_direct_sum():
    s = plummer(40, seed=1)
    s["q"][7] = s["q"][31]
    out = tp.compile(gravity, dt=0.01, approximate=1e-3).evolve(**s, steps=3)
    direct = tp.compile(gravity, dt=0.01).evolve(**s, steps=3)
    assert (
        out.stopped is not None
        and out.stopped.step == direct.stopped.step
        and out.stopped.where == direct.stopped.where
    )
