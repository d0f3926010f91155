"""Bodies on Kepler orbits: what is found, proved, computed and refused."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import lane_engine
from here import HERE
from tinyphysics.device.host.arrays import Evaluator
from tinyphysics.emit.scalar import llvm
from tinyphysics.emit.scalar.packed import columns
from tinyphysics.emit.scalar.packs import packs_of
from tinyphysics.ir import Ops, UOp
from tinyphysics.physics.particles import gravity, plummer, solar_system
from tinyphysics.pipeline import all_facts
from tinyphysics.plan import Goal
from tinyphysics.rules.formulas import jacobi
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.runtime.engines.loaders import LlvmLoader
from tinyphysics.synth.methods.wisdom_holman import CORRECTORS, NEAR_INTEGRABLE, corrector, residuals
from tinyphysics.tpir import parse, verify, vm
from tinyphysics.tpir.kernels.kernel import build_kernel

BACKENDS = [b for b in HERE if b != "opencl"]


def planets(eps, e=(0.1, 0.05), a=(1.0, 2.2)):
    """A star and two planets of masses eps and 2 eps."""
    m = np.array([1.0, eps, 2 * eps])
    q, v = np.zeros((3, 3)), np.zeros((3, 3))
    for k in (1, 2):
        r, s = a[k - 1] * (1 - e[k - 1]), np.sqrt((1 + e[k - 1]) / (1 - e[k - 1]) / a[k - 1])
        c, d, up, flat = np.cos(1.3 * k), np.sin(1.3 * k), np.sin(0.1 * k), np.cos(0.1 * k)
        q[k], v[k] = r * np.array([c, d * flat, d * up]), s * np.array([-d, c * flat, c * up])
    q -= (m[:, None] * q).sum(0) / m.sum()
    v -= (m[:, None] * v).sum(0) / m.sum()
    return {"q": q, "p": m[:, None] * v, "m": m}


@cache
def after(method, n, eps, T=12.0, **options):
    return tp.compile(gravity, T / n, method=method, **options).evolve(
        **planets(eps), steps=n, progress=False
    )


def error(method, n, eps):
    return np.abs(after(method, n, eps).final.q - after("kahan_li8", 3000, eps).final.q).max()


def slope(method, few, many, eps):
    return np.log(error(method, few, eps) / error(method, many, eps)) / np.log(many / few)


# --- coordinates ------------------------------------------------------------------------------------
def evaluated(way, rows, m, order):
    x, masses = UOp.var("x", rows.shape), UOp.var("m", m.shape)
    (flat,) = unroll([jacobi.change(way, x, masses, order)])
    env = {e: np.array([v]) for u, a in ((x, rows), (masses, m)) for e, v in zip(unroll([u])[0], a.ravel())}
    f = Evaluator(lower(flat))
    f.order = [u for u in f.order if u not in env and not (u.shape and not u.src)]
    return np.array([float(a[0]) for a in f(env)]).reshape(rows.shape)


def test_the_change_to_jacobi_coordinates_is_canonical_and_keeps_the_kinetic_energy():
    rng = np.random.default_rng(1)
    m, order, n = rng.uniform(0.1, 2, 5), (2, 0, 4, 1, 3), 5
    total = np.cumsum(m[list(order)])
    reduced = np.array([total[-1], *(m[order[k]] * total[k - 1] / total[k] for k in range(1, n))])
    unit = [np.repeat(np.eye(n)[:, k : k + 1], 3, axis=1) for k in range(n)]
    A = np.array([evaluated("positions", u, m, order)[:, 0] for u in unit]).T
    B = np.array([reduced * evaluated("velocities", u, m, order)[:, 0] for u in unit]).T
    assert np.abs(A @ B.T - np.eye(n)).max() < 1e-15 * 8  # the new momenta go with the new positions
    q, p = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    v = evaluated("velocities", p, m, order)
    assert (reduced[:, None] * v**2).sum() == pytest.approx((p**2 / m[:, None]).sum(), rel=1e-14)
    assert np.abs(evaluated("places", evaluated("positions", q, m, order), m, order) - q).max() < 1e-14
    assert np.abs(evaluated("momenta", v, m, order) - p).max() < 1e-14


# --- coefficients -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("wisdom_holman", 2),
        ("saba2", 4),
        ("saba3", 6),
        ("saba4", 8),
        ("aba84", 8),
        ("aba864", 8),
        ("aba104", 10),
        ("aba1064", 10),
    ],
)
def test_to_first_order_in_eps_kicks_are_a_quadrature_of_their_order(name, order):
    orbits, kicks = NEAR_INTEGRABLE[name]()
    assert len(orbits) == len(kicks) + 1 and orbits == orbits[::-1] and kicks == kicks[::-1]
    assert max(map(abs, residuals((orbits, kicks), order))) < 4e-16
    assert max(map(abs, residuals((orbits, kicks), order + 2))) > 1e-9


@pytest.mark.parametrize("order", CORRECTORS)
def test_a_corrector_takes_the_error_of_a_leapfrog_away(order):
    """Sum of b exp(t x) over its kicks b at times t is (1 - f(x))/x, f = (x/2)/sinh(x/2), up to its order."""
    orbits, kicks = corrector(order)
    times = np.cumsum(orbits)
    assert abs(times[-1]) < 1e-12 and len(times) == len(kicks) + 1

    def missing(x):
        left = sum(b * np.exp(-t * x) for b, t in zip(kicks, times))
        return left - (1 - (x / 2) / np.sinh(x / 2)) / x

    if order < 11:  # above that, rounding comes first
        assert np.log2(abs(missing(0.4) / missing(0.2))) == pytest.approx(order, abs=0.3)
    assert abs(missing(0.5)) < 0.5**order * 0.02


# --- physics ----------------------------------------------------------------------------------------
def test_wisdom_holman_errs_by_eps_h_squared():
    assert slope("wisdom_holman", 30, 60, 1e-3) == pytest.approx(2, abs=0.1)
    assert error("wisdom_holman", 60, 1e-3) / error("wisdom_holman", 60, 1e-5) == pytest.approx(100, rel=0.1)


def test_what_a_corrector_leaves_is_of_second_order_in_eps():
    small, large = (error("wisdom_holman_c11", 60, eps) for eps in (1e-5, 1e-3))
    assert large / small == pytest.approx(1e4, rel=0.3)
    assert large < error("wisdom_holman", 60, 1e-3) / 100


def test_aba84_errs_by_eps_h_to_the_eighth_and_eps_squared_h_to_the_fourth():
    assert slope("aba84", 24, 48, 1e-3) == pytest.approx(4, abs=0.3)
    assert slope("aba84", 12, 16, 1e-5) == pytest.approx(8, abs=0.4)
    assert error("aba84", 16, 1e-3) / error("aba84", 16, 1e-5) == pytest.approx(100, rel=0.15)


def test_the_higher_the_order_the_smaller_the_error():
    errors = [error(name, 16, 1e-5) for name in ("wisdom_holman", "saba2", "saba4", "aba104", "aba1064")]
    assert errors == sorted(errors, reverse=True) and errors[-1] < 1e-11


def test_energy_stays_and_the_centre_of_mass_goes_straight_on():
    start = planets(1e-3)
    start["p"] = start["p"] + start["m"][:, None] * np.array([0.3, -0.2, 0.1])  # all of it drifts
    out = tp.compile(gravity, 0.2, method="aba84").evolve(**start, steps=2000, save_every=500)
    assert out.drift("energy") < 1e-8
    centre = (start["m"][:, None] * out.q).sum(1) / start["m"].sum()
    straight = out.t[:, None] * np.array([0.3, -0.2, 0.1])
    assert np.abs(centre - straight).max() < 1e-12 * 400


def test_the_energy_error_of_many_orbits_is_a_random_walk():
    """No trend: over 30 times as many orbits it grows as their root; a bias of 1e-18 a step would show."""
    rng = np.random.default_rng(2)
    starts = [planets(1e-8, (rng.uniform(0.02, 0.2), 0.05)) for _ in range(24)]
    start = {name: np.stack([s[name] for s in starts]) for name in ("q", "p")} | {"m": starts[0]["m"]}
    sim = tp.compile(gravity, 2 * np.pi / 14.37, method="aba1064")

    def energy(f):
        q, p, m = f.q.astype(np.longdouble), f.p.astype(np.longdouble), start["m"]
        pairs = sum(
            m[i] * m[j] / np.sqrt(((q[:, i] - q[:, j]) ** 2).sum(-1)) for i in range(3) for j in range(i)
        )
        return (p**2 / (2 * m[:, None])).sum((1, 2)) - pairs

    few, many = 100, 3000
    first, *later = (energy(sim.evolve(**start, steps=int(14.37 * n)).final) for n in (0.1, few, many))
    rms = [float(np.sqrt((((e - first) / first) ** 2).mean())) for e in later]
    assert rms[1] < 2e-13 and rms[1] / rms[0] < 3 * np.sqrt(many / few)


# --- the certificate --------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def program():
    sim = tp.compile(gravity, 0.2, method="wisdom_holman")
    sim.evolve(**planets(1e-3), steps=1)
    return sim.ir("tpir")


def test_the_program_reads_back_and_is_certified(program):
    p = parse(program)
    assert str(p) == program
    shown = {name: bool(v) for name, v in verify(p).items()}
    assert all(shown.values()), shown


# fmt: off
WRONG = [
    ("PULL F1.2:f64[3, 3], F1.1, S0, T", "PULL F1.2:f64[3, 3], F1.1, S1, T", "not a kick in Jacobi coordinates"),
    ("JACOBI F1.1:f64[3, 3], velocities, F1,", "JACOBI F1.1:f64[3, 3], positions, F1,", "not a kick in Jacobi coordinates"),
    ("POISSON_J F1:f64[3, 3], G0, negate\n", "POISSON_J F1:f64[3, 3], G0, negate\n  ELEM T999:f64[3, 3], mul, F1, 0.9\n", None),
    ("SYMP_STEP S1:f64[3, 3], F1.2, $dt", "SYMP_STEP S1:f64[3, 3], F1.2, 0.1", "h is not shown to be a multiple of dt"),
    ("SYMP_STEP S1:f64[3, 3], F1.2, $dt", "SYMP_STEP S1:f64[3, 3], F1, $dt", "not a kick in Jacobi coordinates"),
    ("S0, S1, {gm}, $dt, (1,)", "S0, S1, {gm}, T{half}, (1,)", "not its part of KEPLER"),
    ("S0, S1, {gm}, $dt, (0,)", "S1, S0, {gm}, $dt, (0,)", "not its part of KEPLER"),
]
# fmt: on


@pytest.mark.parametrize("k", range(len(WRONG)))
def test_a_wrong_step_is_not_certified(program, k):
    old, new, why = WRONG[k]
    gm = re.search(r"KEPLER \S+ \S+ S0, S1, (T\d+), \$dt", program)[1]
    half = re.search(r"ELEM T(\d+), mul, 0.5, \$dt", program)[1]
    old, new = (x.replace("{gm}", gm).replace("{half}", half) for x in (old, new))
    assert program.count(old) == 1
    text = program.replace(old, new)
    if why is None:  # a computation that nobody reads is no harm
        verify(parse(text))
        return
    with pytest.raises(tp.VerifyError, match=re.escape(why)):
        verify(parse(text))


def test_half_a_step_is_symplectic_and_not_consistent(program):
    half = re.search(r"ELEM (T\d+), mul, 0.5, \$dt", program)[1]
    text = program.replace("F1.2, $dt", f"F1.2, {half}").replace(
        "claim symplectic consistent symmetric", "claim symplectic"
    )
    certificate = verify(parse(text))
    assert certificate.symplectic and not certificate.consistent
    assert "weight 0.5" in certificate.consistent.because


def test_states_that_stay_in_jacobi_coordinates_are_refused(program):
    text = re.sub(r"  JACOBI S0:f64\[3, 3\], places.*\n", "", program)
    with pytest.raises(tp.VerifyError, match="back in Jacobi coordinates"):
        verify(parse(text))


# --- bits -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["wisdom_holman_c3", "aba84"])
def test_all_backends_give_the_same_bits(method):
    hashes = {b: after(method, 24, 1e-3, backend=b).hash for b in BACKENDS}
    assert len(set(hashes.values())) == 1, hashes


def test_steps_of_half_an_orbit_take_the_slow_path_to_the_same_bits():
    start = {name: a[:2] for name, a in planets(1e-6).items()}
    runs = [
        tp.compile(gravity, 3.0, method="wisdom_holman", backend=b).evolve(**start, steps=4) for b in BACKENDS
    ]
    assert len({out.hash for out in runs}) == 1 and np.isfinite(runs[0].final.q).all()
    usual = tp.compile(gravity, 3.0 / 8, method="wisdom_holman").evolve(**start, steps=32)
    assert np.abs(runs[0].final.q - usual.final.q).max() < 1e-12  # of two bodies every step is exact


def test_members_of_an_ensemble_have_the_bits_that_they_have_alone_and_looking_changes_none():
    one, other = planets(1e-3), planets(1e-3, (0.2, 0.1))
    both = {name: np.stack([one[name], other[name]] * 3) for name in ("q", "p")}
    sim = tp.compile(gravity, 0.3, method="wisdom_holman_c5")
    out = sim.evolve(**both, m=one["m"], steps=20, save_every=5, observe={"E": "energy"}, observe_every=4)
    for k, start in enumerate((one, other)):
        alone = sim.evolve(**start, steps=20)
        assert np.array_equal(alone.final.q, out.final.q[k]) and np.array_equal(alone.final.p, out.final.p[k])
    assert np.array_equal(out.q[1], sim.evolve(**both, m=one["m"], steps=5).final.q)
    assert out["E"].shape[0] == 6 and np.ptp(out["E"][:, 0]) < 1e-6
    assert np.array_equal(sim.evolve(**one, steps=0).final.q, one["q"])


def test_the_virtual_machine_runs_the_listing(program):
    start = planets(1e-3)
    end = vm.run(
        parse(program),
        {"q": start["q"], "p": start["p"]},
        3,
        {"m": start["m"], "G": 1.0, "softening": 0.0},
        dt=0.2,
    )
    out = tp.compile(gravity, 0.2, method="wisdom_holman").evolve(**start, steps=3)
    assert np.array_equal(np.array(end["q"]), out.final.q)


def test_a_run_goes_on_and_a_simulation_is_read_back(tmp_path):
    start, sim = planets(1e-3), tp.compile(gravity, 0.2, method="wisdom_holman_c3")
    whole = sim.evolve(**start, steps=12)
    sim.evolve(**start, steps=5, checkpoint=tmp_path / "run")
    again = tp.compile(gravity, 0.2, method="wisdom_holman_c3").evolve(resume=tmp_path / "run", steps=7)
    assert again.hash == whole.hash
    sim.save(tmp_path / "sim.json")
    assert tp.load(tmp_path / "sim.json").evolve(**start, steps=12).hash == whole.hash


# --- what is found, and what is refused -------------------------------------------------------------
def test_the_report_names_the_centre_the_order_and_eps():
    start = planets(1e-3)
    turned = {name: start[name][[2, 0, 1]] for name in start}
    sim = tp.compile(gravity, 0.2, method="aba84")
    assert "not compiled" in str(pytest.raises(tp.ShapeError, sim.explain).value)
    sim.evolve(**turned, steps=1)
    plan = sim.explain("full").to_dict()["plan"]
    assert plan["centre"]["verdict"] == "body 1" and plan["centre"]["because"].endswith(
        "innermost first: 2, 0"
    )
    assert 1e-4 < float(plan["eps"]["verdict"]) < 1e-2
    assert "McLachlan" in sim.cite()[0]


def test_the_order_of_the_bodies_changes_the_digits_and_not_the_motion():
    start = planets(1e-3)
    turned = {name: start[name][[2, 0, 1]] for name in start}
    out = tp.compile(gravity, 0.2, method="aba84").evolve(**turned, steps=50)
    assert (
        np.abs(
            out.final.q[[1, 2, 0]]
            - tp.compile(gravity, 0.2, method="aba84").evolve(**start, steps=50).final.q
        ).max()
        < 1e-12
    )


@pytest.mark.parametrize(
    ("start", "why"),
    [
        (plummer(6, seed=1), "times the pull of its Kepler orbit"),
        (
            {"q": [[0, 0, 0], [1, 0, 0], [0.5, 0.9, 0]], "p": np.zeros((3, 3)), "m": [1.0, 1.0, 1.0]},
            "times the pull of its Kepler orbit",
        ),
        (
            {"q": [[0, 0, 0], [1, 0, 0], [3, 0, 0]], "p": np.zeros((3, 3)), "m": [1.0, 1e-3, 0.0]},
            "a mass is not positive",
        ),
        (
            {
                "q": [[0, 0, 0], [1, 0, 0], [3, 0, 0]],
                "p": np.zeros((3, 3)),
                "m": [1.0, 1e-3, 1e-3],
                "G": -1.0,
            },
            "do not attract",
        ),
    ],
)
def test_what_is_no_hierarchy_is_refused_with_the_reason(start, why):
    with pytest.raises(tp.PlanError, match=re.escape(why)):
        tp.compile(gravity, 0.01, method="aba84").evolve(**start, steps=1)


def test_a_later_state_is_measured_too():
    sim = tp.compile(gravity, 0.1, method="aba84")
    start = planets(1e-3)
    sim.evolve(**start, steps=1)
    with pytest.raises(tp.PlanError, match="not form a hierarchy"):
        sim.evolve(**planets(0.2, a=(1.0, 1.3)), steps=1)


def test_members_in_another_order_are_named():
    one, other = planets(1e-3), planets(1e-3, a=(3.0, 1.2))
    both = {name: np.stack([one[name], other[name]]) for name in ("q", "p")}
    with pytest.raises(tp.PlanError, match="member 1 are in another order"):
        tp.compile(gravity, 0.1, method="aba84").evolve(**both, m=one["m"], steps=1)


@tp.hamiltonian
def springs(q: tp.Array[3, 3], p: tp.Array[3, 3]):
    return (p**2).sum() / 2 + (q**2).sum() / 2


@tp.hamiltonian
def other_masses(q: tp.Array[3, 3], p: tp.Array[3, 3], m: tp.Vec[3], w: tp.Vec[3]):
    r = tp.sqrt(((q[:, None] - q[None, :]) ** 2).sum(-1))
    return ((p**2).sum(-1) / (2 * w)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r)


@pytest.mark.parametrize(
    ("system", "why"),
    [
        (springs, "no sum over pairs of -G"),
        (other_masses, "not shown to be those of p**2/2m"),
    ],
)
def test_another_form_is_refused_before_there_is_a_state(system, why):
    with pytest.raises(tp.PlanError, match=re.escape(why)):
        tp.compile(system, 0.1, method="wisdom_holman")


@pytest.mark.parametrize("options", [{"precision": "float32"}, {"scale": "auto"}])
def test_what_does_not_go_with_orbits_is_said(options):
    with pytest.raises(tp.PlanError, match="Kepler orbits|Jacobi coordinates"):
        tp.compile(gravity, 0.1, method="aba84", **options).evolve(**planets(1e-3), steps=1)


def test_a_potential_besides_gravity_is_a_perturbation():
    @tp.hamiltonian
    def oblate(q: tp.Array[3, 3], p: tp.Array[3, 3], m: tp.Vec[3], J: float = 1e-3):
        r = tp.sqrt(((q[:, None] - q[None, :]) ** 2).sum(-1))
        bulge = (m[0] * m[1:] * J / (((q[1:] - q[0]) ** 2).sum(-1)) ** 1.5).sum()
        return ((p**2).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r) - bulge

    assert all_facts(oblate.bind(), Goal(0.1, "aba84"))["orbits"]
    start = planets(1e-4)
    ends = [
        tp.compile(oblate, 12.0 / n, method=method).evolve(**start, steps=n).final.q
        for method, n in (("aba84", 150), ("kahan_li8", 3000))
    ]
    assert np.abs(ends[0] - ends[1]).max() < 1e-9


def test_the_solar_system_for_a_century():
    """Mercury to 1e-6 au in steps of twelve days: the same as by an eighth-order splitting in steps of one."""
    start, days = solar_system(), 365.25 * 10
    out = tp.compile(gravity, days / 292, method="aba104").evolve(**start, steps=292)
    other = tp.compile(gravity, days / 3652, method="kahan_li8").evolve(**start, steps=3652)
    assert np.linalg.norm(out.final.q - other.final.q, axis=1).max() < 1e-8


# --- bodies side by side in vectors -----------------------------------------------------------------
def test_vectors_of_bodies_have_the_bits_of_scalars(monkeypatch):
    """Of one member: without packs, and as a member of an ensemble, whose lanes are members."""
    sim = tp.compile(gravity, 0.3, method="aba84", backend="llvm")
    start = planets(1e-3)
    sim.evolve(**start, steps=1)

    def run():
        engine = lane_engine(sim.tpir, LlvmLoader(), threads=1)
        params = {"m": start["m"][None], "G": np.ones(1), "softening": np.zeros(1)}
        m = engine.start({name: start[name][None] for name in ("q", "p")}, params, 1, 0.3, 0.0)
        engine.advance(m, 40)
        return engine.synchronised(m)

    packed = run()
    with monkeypatch.context() as patch:
        patch.setattr(llvm, "layout_of", lambda *_: None)
        plain = run()
    assert all(np.array_equal(packed[name], plain[name]) for name in ("q", "p"))


def test_packs_hold_operations_that_are_alike_and_do_not_need_each_other():
    a, b, c = (UOp.var(n) for n in "abc")
    first, second = a * b, b * c
    chain = first + second
    packs = packs_of([(first, second)], [first, second, chain])
    assert packs.found() == [(first, second)]
    assert packs_of([(first, chain)], [first, chain]).found() == []  # the second needs the first
    assert packs_of([(first, a + c)], [first, a + c]).found() == []  # another operation


def test_packs_that_wait_for_each_other_are_taken_apart():
    a, b = UOp.var("a"), UOp.var("b")
    x, y = a * b, a + b
    u, v = y * a, x + b  # u needs y, v needs x
    packs = packs_of([(x, u), (y, v)], [x, y, u, v])
    assert len(packs.found()) == 1


def test_most_of_a_step_of_nine_bodies_is_in_vectors():
    sim = tp.compile(gravity, 4.0, method="wisdom_holman")
    sim.evolve(**solar_system(), steps=1)
    f = build_kernel(sim.tpir).section("step")
    rows = columns(f)
    assert [len(slots) for slots in rows] == [8] * 6
    packs = packs_of([tuple(f.roots[k] for k in slots) for slots in rows], [*f.roots, *f.guards])
    work = [u for u in packs.order if u.op not in (Ops.CONST, Ops.VAR)]
    assert sum(u in packs.lane for u in work) > 0.85 * len(work)
    assert not any(u.op in (Ops.DIV, Ops.SQRT) for u in work if u not in packs.lane)


# --- what is not so is not certified --------------------------------------------------------------------
def listing():
    sim = tp.compile(gravity, 4.0, method="wisdom_holman")
    sim.evolve(**solar_system(), steps=1)
    return str(sim.tpir)


def without_half_orbits(text):
    """Kick, then orbit: what `init` and `final` do beside the change of coordinates left out."""
    out, section = [], ""
    for line in text.splitlines():
        section = line if line in ("init:", "step:", "final:") else section
        if section == "step:" or not line.strip().startswith(("KEPLER", "ORBIT")):
            out.append(line)
    return "\n".join(out).replace("claim symplectic consistent symmetric", "claim symplectic") + "\n"


def test_half_a_wisdom_holman_step_is_not_symmetric():
    """An orbit and a kick do not commute; the product of one of each has order 1."""
    whole, half = (
        verify(replace(parse(text), claims=())) for text in (listing(), without_half_orbits(listing()))
    )
    assert whole.symmetric and whole.reversible
    assert not half.symmetric and not half.reversible and "palindrome" in half.symmetric.because


def test_a_centre_that_depends_on_dt_is_no_flow():
    text = listing()
    gm = re.search(r"KEPLER .*?, S0, S1, (T\d+),", text)[1]
    used = re.sub(rf"((?:KEPLER|PULL) .*, ){gm}\b", r"\g<1>T901", text)
    made = re.search(rf"  \S+ {gm}:(f64\[\d+\]),.*\n", used)
    more = f"  MOVE T900:{made[1]}, expand, $dt\n  ELEM T901:{made[1]}, mul, {gm}, T900\n"
    certificate = verify(replace(parse(used[: made.end()] + more + used[made.end() :]), claims=()))
    assert not any(certificate[name] for name in ("symplectic", "symmetric", "reversible", "consistent"))
