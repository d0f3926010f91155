"""Where do force-gradient, processed and three-part steps apply, and do runs of them keep the promises of every run?"""

import itertools

import numpy as np
import pytest

import tinyphysics as tp
from here import HERE
from tinyphysics.errors import PlanError
from tinyphysics.physics.zoo import henon_heiles, kepler
from tinyphysics.planner.methods.catalog import BY_NAME, METHODS
from tinyphysics.synth.coefficients.clocks import palindrome
from tinyphysics.synth.coefficients.clocks import composed, joined, leapfrogs, timed

GRADIENTS = [name for name, m in BY_NAME.items() if m.gradients]
PROCESSED = [name for name, m in BY_NAME.items() if m.family.processed]
START = dict(q=[0.1, 0.3], p=[0.2, -0.4])


@tp.hamiltonian
def rotor(q, p):
    return tp.sqrt(1 + p**2) - tp.cos(q)


@tp.hamiltonian
def breathing(q, p, t):
    return p**2 / (2 + tp.cos(t)) + q**4 / 4


@tp.hamiltonian
def both(q, p, t):
    return p**2 / (2 + tp.cos(t)) + q**2 / 2 + q**4 / 4 - q * tp.sin(2 * t)


@tp.hamiltonian
def mixed(q, p):
    return p**2 * (1 + q**2) / 2


@tp.forces
def spring(q):
    return -q - q**3


def refusal(system, **options):
    with pytest.raises(PlanError) as caught:
        tp.compile(system, dt=0.05, **options)
    assert caught.value.fix
    return str(caught.value)


# --- where they apply ---------------------------------------------------------------------------------------
@pytest.mark.requirement("S2-41")
@pytest.mark.parametrize(
    "system, reason",
    [
        (rotor, "T is not shown to be quadratic in p: sqrt"),
        (breathing, "T is not shown to be quadratic in p: T depends on t, which advances while V acts"),
        (
            both,
            "T and V both depend on t; then time is a third part, and only compositions of leapfrogs have three",
        ),
        (mixed, "H is not shown to be separable"),
        (spring, "the gradient of a force is that of an energy, and none is given"),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
@pytest.mark.parametrize("method", ["chin4", "takahashi_imada4"])
def test_a_force_gradient_is_refused_with_the_reason(system, reason, method):
    text = refusal(system, method=method)
    assert f"`{method}` does not apply" in text and reason in text


def test_a_list_of_neighbours_gives_no_force_gradient():
    @tp.hamiltonian
    def liquid(q: tp.Array[108, 3], p: tp.Array[108, 3], L: float = 9.0):
        r2 = tp.pair_distance2(q, box=L, cutoff=2.5, switch=2.0)
        return (p**2).sum() / 2 + tp.pair_sum(1 / r2**6)

    assert "a list of neighbours gives forces" in refusal(liquid, method="chin4")
    assert tp.compile(liquid, dt=0.004).built.plan.method == "leapfrog_kdk"


def test_a_tree_gives_no_force_gradient():
    @tp.hamiltonian
    def stars(q: tp.Array[64, 3], p: tp.Array[64, 3]):
        d = q[:, None] - q[None, :]
        return (p * p).sum() / 2 - (1 / tp.sqrt((d * d).sum(-1) + 0.25)).sum() / 2

    assert "a tree code gives no derivative of the force" in refusal(stars, method="chin4", approximate=1e-3)
    assert tp.compile(stars, dt=0.05, method="chin4").certificate.symplectic


def test_choosing_by_order_names_them_and_takes_none_of_them():
    plan = tp.compile(henon_heiles, dt=0.1, order=4).built.plan
    turned = {a.method: a.because for a in plan.not_chosen}
    assert not BY_NAME[plan.method].gradients and turned["chin4"] == "not compared with the others"
    plan = tp.compile(rotor, dt=0.1, order=4).built.plan
    assert "quadratic" in {a.method: a.because for a in plan.not_chosen}["chin4"]


def test_forbidding_the_default_chooses_one_of_them():
    without = [m.name for m in METHODS if m.order == 6 and m.splits and not m.gradients]
    sim = tp.compile(henon_heiles, dt=0.1, order=6, forbid=without)
    assert sim.built.plan.method == "force_gradient6" and sim.certificate.symplectic


def test_the_report_says_what_is_unusual():
    text = str(tp.compile(henon_heiles, dt=0.1, method="takahashi_imada4").explain("full"))
    assert "force gradients" in text and "no Hessian is formed" in text
    assert "processor" in text and "3 kicks" in text
    assert "a third part" in str(tp.compile(both, dt=0.1).explain("full"))
    plain = str(tp.compile(henon_heiles, dt=0.1).explain("full"))
    assert (
        "undone on the copy" in text and "undone on the copy" not in plain and "force gradients" not in plain
    )


# --- sequences ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("weights", [[1.0], [1.35, -1.7, 1.35], [0.3, 0.1, 0.2, 0.1, 0.3]])
@pytest.mark.parametrize("outer, inner", ["VT", "TV"])
def test_a_composition_of_leapfrogs_is_recognised(outer, inner, weights):
    assert leapfrogs(palindrome(outer, inner, weights)) == (outer, inner, weights)


@pytest.mark.parametrize(
    "sequence",
    [
        [("T", 1.0), ("V", 1.0)],
        [("T", 0.2), ("V", 0.5), ("T", 0.6), ("V", 0.5), ("T", 0.2)],
        [("V", 0.5), ("T", 1.0), ("V", 0.4)],
        [("V", 1 / 6), ("T", 1.0), ("V", 5 / 6)],
    ],
)
def test_what_is_none_is_not_taken_for_one(sequence):
    assert leapfrogs(sequence) is None


@pytest.mark.parametrize("name", ["leapfrog_kdk", "leapfrog_dkd", "yoshida4", "kahan_li6", "kahan_li8"])
def test_three_parts_apply_the_weights_of_two(name):
    sequence = BY_NAME[name].sequence()
    three = composed(sequence)
    for part in "TV":
        assert sum(f.weight for f in three if f.part == part) == pytest.approx(1, abs=1e-14)
        assert [f.clock for f in three if f.part == part] == pytest.approx(
            [1 - f.clock for f in reversed(three) if f.part == part]
        )


def test_the_clock_of_one_part_is_the_sum_of_the_other():
    flows = timed(joined([("V", 0.5), ("W", 0.1), ("T", 0.25), ("V", 0.5), ("T", 0.75)]), ["V"])
    assert [(f.part, f.gradient, f.clock) for f in flows] == [
        ("V", 0.1, 0.0),
        ("T", 0.0, 0.0),
        ("V", 0.0, 0.25),
        ("T", 0.0, 0.0),
    ]


# --- order conditions -----------------------------------------------------------------------------------------
def times(a, b, degree):
    """The product of two series in words of T and V, {word: coefficient}."""
    out = {}
    for u, x in a.items():
        for v, y in b.items():
            if len(u + v) <= degree:
                out[u + v] = out.get(u + v, 0) + x * y
    return out


def bracket(a, b, degree):
    out = times(a, b, degree)
    for w, y in times(b, a, degree).items():
        out[w] = out.get(w, 0) - y
    return out


def logarithm(sequence, degree):
    """log of exp(w1 A1) exp(w2 A2) ..., where W is [V, [T, V]]."""
    letters = {"T": {"T": 1.0}, "V": {"V": 1.0}}
    letters["W"] = bracket(letters["V"], bracket(letters["T"], letters["V"], 3), 3)
    out = {"": 1.0}
    for part, weight in sequence:
        term, total = {"": 1.0}, {"": 1.0}
        for k in range(1, degree + 1):
            term = {w: x * weight / k for w, x in times(term, letters[part], degree).items()}
            total |= {w: total.get(w, 0) + x for w, x in term.items()}
        out = times(out, total, degree)
    rest, power, log = out | {"": 0.0}, {"": 1.0}, {}
    for k in range(1, degree + 1):
        power = times(power, rest, degree)
        log |= {w: log.get(w, 0) - (-1) ** k * x / k for w, x in power.items()}
    return log


def residual(sequence, degree):
    """How far a sequence is from exp(T + V), degree by degree; [V, [V, [V, T]]] is zero where T is quadratic."""
    log, T, V = logarithm(sequence, degree), {"T": 1.0}, {"V": 1.0}
    vanish, worst = {4: [bracket(V, bracket(V, bracket(V, T, 4), 4), 4)]}, []
    for n in range(1, degree + 1):
        if n > 4:
            vanish[n] = [bracket(x, i, n) for x in (T, V) for i in vanish[n - 1]]
        words = ["".join(w) for w in itertools.product("TV", repeat=n)]
        z = np.array([log.get(w, 0.0) - (n == 1) for w in words])
        if n in vanish:
            ideal = np.array([[i.get(w, 0.0) for w in words] for i in vanish[n]]).T
            z = z - ideal @ np.linalg.lstsq(ideal, z, rcond=None)[0]
        worst.append(abs(z).max())
    return worst


@pytest.mark.requirement("S2-41")
@pytest.mark.parametrize("name", [*GRADIENTS, "yoshida4"])
def test_coefficients_satisfy_the_order_conditions(name):
    m = BY_NAME[name]
    before = m.family.processor() if m.family.processed else []
    after = [(part, -w) for part, w in reversed(before)]
    found = residual([*before, *m.sequence(), *after], m.order + 1)
    assert max(found[: m.order]) < 1e-14 and found[m.order] > 1e-6, found


# --- runs -----------------------------------------------------------------------------------------------------
CASES = [
    (henon_heiles, "takahashi_imada4", START),
    (henon_heiles, "force_gradient6", START),
    (kepler, "chin4", dict(q=[1.0, 0.0], p=[0.0, 1.2])),
    (both, "leapfrog_dkd", dict(q=0.4, p=0.3)),
    (both, "yoshida4", dict(q=0.4, p=0.3)),
]


@pytest.mark.requirement("S0-30")
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(
    "system, method, start", CASES, ids=lambda x: getattr(x, "name", x if isinstance(x, str) else "")
)
def test_every_backend_gives_the_same_bits(system, method, start, precision):
    hashes = {
        b: tp.compile(system, dt=0.05, method=method, precision=precision, backend=b)
        .evolve(**start, steps=40)
        .hash
        for b in HERE
        if b != "opencl"
    }
    assert len(set(hashes.values())) == 1, hashes


@pytest.mark.requirement("S0-30")
@pytest.mark.parametrize("n", [6, 18])
def test_sums_over_pairs_give_the_same_bits_everywhere(n):
    @tp.hamiltonian
    def stars(q: tp.Array[n, 3], p: tp.Array[n, 3], m: tp.Array[n]):
        d = q[:, None] - q[None, :]
        return (p * p / (2 * m[:, None])).sum() - (
            m[:, None] * m[None, :] / tp.sqrt((d * d).sum(-1) + 0.25)
        ).sum() / 2

    rng = np.random.default_rng(n)
    start = dict(q=rng.normal(size=(n, 3)), p=rng.normal(size=(n, 3)), m=rng.uniform(0.1, 1, n))
    hashes = {
        b: tp.compile(stars, dt=0.05, method="chin4", backend=b).evolve(**start, steps=2).hash
        for b in HERE
        if b != "opencl"
    }
    assert len(set(hashes.values())) == 1, hashes


@pytest.mark.parametrize("method", PROCESSED)
def test_frames_of_a_processed_run_are_the_ends_of_shorter_runs_and_watching_changes_no_bit(method):
    sim = tp.compile(henon_heiles, dt=0.1, method=method)
    out = sim.evolve(**START, steps=12, save_every=1, observe={"r": lambda q: tp.norm(q)})
    for k in (0, 1, 5, 12):
        end = sim.evolve(**START, steps=k).final
        assert np.array_equal(out.q[k], end.q) and np.array_equal(out.p[k], end.p)
    assert out.q[0].tolist() == START["q"] and out.p[0].tolist() == START["p"]
    assert out["r"] == pytest.approx(np.hypot(*out.q.T), rel=1e-15)
    assert out.hash == sim.evolve(**START, steps=12).hash


@pytest.mark.parametrize("method", PROCESSED)
@pytest.mark.parametrize("backend", [b for b in HERE if b != "opencl"])
def test_a_processed_run_that_was_interrupted_ends_with_the_same_bits(tmp_path, method, backend):
    sim = tp.compile(henon_heiles, dt=0.1, method=method, backend=backend)
    whole = sim.evolve(**START, steps=30)
    sim.evolve(**START, steps=13, checkpoint=tmp_path / "run")
    rest = sim.evolve(resume=tmp_path / "run", steps=17)
    assert rest.hash == whole.hash and np.array_equal(rest.final.q, whole.final.q)
    again = sim.evolve(q=whole.q[0], p=whole.p[0], steps=13).final
    anew = sim.evolve(q=again.q, p=again.p, steps=17).final  # from what was looked at: equal up to rounding
    assert np.allclose(anew.q, whole.final.q, atol=1e-12)


@pytest.mark.parametrize("method", GRADIENTS)
def test_other_units_are_only_taken_where_as_much_is_certified(method):
    plain, scaled = (tp.compile(henon_heiles, dt=0.1, method=method, scale=s) for s in ("off", "auto"))
    shown = [{name for name, v in sim.certificate.items() if v} for sim in (plain, scaled)]
    assert shown[1] >= shown[0]
    a, b = (sim.evolve(**START, steps=50).final.q for sim in (plain, scaled))
    assert np.allclose(a, b, atol=1e-12)


def test_members_of_an_ensemble_have_the_bits_of_single_runs():
    sim = tp.compile(henon_heiles, dt=0.1, method="takahashi_imada4")
    q, p = np.linspace(0.05, 0.2, 10).reshape(5, 2), np.linspace(-0.1, 0.3, 10).reshape(5, 2)
    out = sim.evolve(q=q, p=p, steps=20).final
    for k in range(5):
        assert np.array_equal(out.q[k], sim.evolve(q=q[k], p=p[k], steps=20).final.q)
