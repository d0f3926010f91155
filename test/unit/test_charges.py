"""What is conserved: symmetries with their charges, polynomials that commute with H, and how well a run keeps them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.analysis.charges import charges_of
from tinyphysics.physics import particles


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])
def henon_heiles(x, px, y, py):
    return (px**2 + py**2 + x**2 + y**2) / 2 + x**2 * y - y**3 / 3


@tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])
def separable_cubic(x, px, y, py):
    return (px**2 + py**2 + x**2 + y**2) / 2 + x**2 * y + y**3 / 3


@tp.hamiltonian
def in_a_box(q: tp.Array["n", 3], p: tp.Array["n", 3], box: float = 10.0):
    r2 = tp.pair_distance2(q, box=box, cutoff=2.5)
    return (p * p).sum() / 2 + tp.pair_sum(4 * (r2**-6 - r2**-3))


@tp.hamiltonian
def lattice_schrodinger(q: tp.Vec["n"], p: tp.Vec["n"], g: float = 1.0):
    r = q * q + p * p
    return (g * r * r / 4).sum() - (q * tp.roll(q, 1, 0) + p * tp.roll(p, 1, 0)).sum()


@tp.hamiltonian
def inverse_square(q: tp.Vec["n"], p: tp.Vec["n"], g: float = 1.0):
    return (p * p).sum() / 2 + tp.pair_sum(g / (q[:, None] - q[None, :]) ** 2)


def names(system) -> list[str]:
    return [f.name for f in charges_of(system)]


def moving_bracket(charge, system, at: dict, t: float = 0.7, eps: float = 1e-5) -> tuple[float, float]:
    """(dF/dt along the motion, the size of its terms), from values of F and H alone, by differences."""
    H = tp.compile(system, 0.1).conserved[0]
    assert H.expression is system.energy

    def slope(f, name, k, **more):
        out = []
        for sign in (1, -1):
            moved = {n: np.array(v, float) for n, v in at.items()}
            moved[name].flat[k] += sign * eps
            out.append(f(**moved, **more))
        return (out[0] - out[1]) / (2 * eps)

    with_t = {"t": t} if "t" in charge.names else {}
    products = []
    for q, p in zip(system.q, system.p):
        for k in range(q.size):
            a, b = str(q.arg), str(p.arg)
            products += [
                slope(charge, a, k, **with_t) * slope(H, b, k),
                -slope(charge, b, k, **with_t) * slope(H, a, k),
            ]
    if with_t:
        products.append((charge(**at, t=t + eps) - charge(**at, t=t - eps)) / (2 * eps))
    return sum(products), sum(map(abs, products))


# --- which -------------------------------------------------------------------------------------------
@pytest.mark.requirement("S2-67")
@pytest.mark.parametrize("n", [2, 3, 1000])
def test_bodies_in_space_have_ten_charges(n):
    assert names(particles.gravity.bind({"n": n})) == [
        "energy", *(f"momentum[{k}]" for k in range(3)),
        "angular_momentum[0, 1]", "angular_momentum[0, 2]", "angular_momentum[1, 2]",
        *(f"boost[{k}]" for k in range(3)),
    ]  # fmt: skip


@pytest.mark.parametrize("n", [8, 500])
def test_a_box_breaks_rotations(n):
    assert names(in_a_box.bind({"n": n})) == [
        "energy", *(f"momentum[{k}]" for k in range(3)), *(f"boost[{k}]" for k in range(3))
    ]  # fmt: skip


@pytest.mark.parametrize("n", [2, 5])
def test_every_charge_commutes_with_the_energy_by_differences(n):
    system, rng = particles.gravity.bind({"n": n}), np.random.default_rng(1)
    at = {"q": rng.normal(size=(n, 3)), "p": rng.normal(size=(n, 3)), "m": rng.uniform(1, 2, n)}
    for charge in tp.compile(system, 0.1).conserved[1:]:
        rate, size = moving_bracket(charge, system, at)
        assert abs(rate) < 1e-7 * size, charge


def test_a_weak_field_and_a_difference_are_no_symmetries_of_each_particle():
    @tp.hamiltonian
    def uniform(q: tp.Vec[3], p: tp.Vec[3], g: float = 1e-3):
        return p @ p / 2 + g * q[2]

    @tp.hamiltonian
    def difference(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + q[0] - q[1]

    assert "momentum[2]" not in names(uniform) and "momentum[0]" in names(uniform)
    found = charges_of(difference)
    assert [f.name for f in found] == ["energy", "momentum[0]", "boost[0]"]
    assert [str(f.expression) for f in found[1:]] == ["p[0] + p[1]", "q[0] + q[1] - t*(p[0] + p[1])"]


def test_a_boost_along_a_direction_has_its_masses():
    @tp.hamiltonian
    def pair(q: tp.Vec[2], p: tp.Vec[2], m: tp.Vec[2] = 1.0):
        return (p * p / m).sum() / 2 + (q[0] - q[1]) ** 4

    boost = next(c for c in tp.compile(pair, 0.1).conserved if c.name == "boost[0]")
    at = {"q": [0.3, -0.8], "p": [1.0, 0.4], "m": [2.0, 5.0]}
    assert boost(**at, t=0.7) == pytest.approx(2 * 0.3 - 5 * 0.8 - 0.7 * 1.4, rel=1e-14)
    rate, size = moving_bracket(boost, pair, at)
    assert abs(rate) < 1e-7 * size and boost.kept == "to rounding"


def test_a_faint_coupling_is_no_symmetry():
    @tp.hamiltonian
    def nearly_free(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + 1e-20 * q[0] ** 2

    assert "momentum[0]" not in names(nearly_free) and "momentum[1]" in names(nearly_free)


def test_a_rotation_that_needs_equal_masses_says_so():
    @tp.hamiltonian
    def planar(q: tp.Vec[2], p: tp.Vec[2], m: tp.Vec[2] = 1.0):
        return (p * p / m).sum() / 2 + (q @ q) ** 2

    found = next(f for f in charges_of(planar) if f.kind == "rotation")
    assert found.proof == "{F, H} = 0 if m[0] = m[1]"


def test_two_equal_stiffnesses_and_masses_are_two_conditions():
    @tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])
    def trap(x, px, y, py, m1: float = 1.0, m2: float = 1.0, k1: float = 1.0, k2: float = 1.0):
        return px**2 / (2 * m1) + py**2 / (2 * m2) + (k1 * x**2 + k2 * y**2) / 2

    found = next(f for f in charges_of(trap) if f.kind == "rotation")
    assert found.proof == "{F, H} = 0 if k1 = k2 and m1 = m2"


@pytest.mark.parametrize("n", [6, 100])
def test_the_phase_of_a_lattice_conserves_its_norm(n):
    assert names(lattice_schrodinger.bind({"n": n})) == ["energy", "norm"]


def test_the_norm_of_an_oscillator_is_its_energy():
    @tp.hamiltonian
    def oscillator(q: tp.Vec[2], p: tp.Vec[2]):
        return (p @ p + q @ q) / 2

    assert names(oscillator) == ["energy", "angular_momentum[0, 1]"]


def test_a_potential_of_degree_minus_two_has_a_charge_of_scaling():
    assert names(inverse_square.bind({"n": 50})) == ["energy", "momentum[0]", "boost[0]", "scaling"]
    assert "scaling" not in names(kepler)
    small = inverse_square.bind({"n": 3})
    scaling = tp.compile(small, 0.1).conserved[-1]
    at = {"q": np.array([0.0, 1.3, 3.1]), "p": np.array([0.4, -0.2, 0.7])}
    rate, size = moving_bracket(scaling, small, at)
    assert scaling.name == "scaling" and abs(rate) < 1e-7 * size


def test_chains_keep_their_momentum_where_their_ends_are_free():
    @tp.hamiltonian
    def free(q: tp.Vec["n"], p: tp.Vec["n"]):
        d = q[1:] - q[:-1]
        return (p * p).sum() / 2 + (d**2 / 2 + d**3 / 3).sum()

    @tp.hamiltonian
    def held(q: tp.Vec["n"], p: tp.Vec["n"]):
        d = q[1:] - q[:-1]
        return (p * p).sum() / 2 + (d**2 / 2 + d**3 / 3).sum() + q[0] ** 2 / 2

    assert names(free.bind({"n": 64})) == ["energy", "momentum[0]", "boost[0]"]
    assert names(held.bind({"n": 64})) == ["energy"]


def test_a_product_of_sums_does_not_mix_up_its_indices():
    @tp.hamiltonian
    def squared(q: tp.Vec["n"], p: tp.Vec["n"]):
        return (p * p).sum() / 2 + (q * q.sum()).sum()  # (sum q)**2: no momentum is conserved

    assert names(squared.bind({"n": 50})) == ["energy"]


def test_a_driven_energy_is_none_and_its_momenta_may_be():
    @tp.hamiltonian
    def driven(q: tp.Vec[2], p: tp.Vec[2], t):
        return p @ p / 2 + q[0] * tp.cos(t)

    assert names(driven) == ["momentum[1]", "boost[1]"]


def test_what_has_no_energy_is_refused():
    @tp.map
    def turn(x, y):
        return y, -x

    with pytest.raises(tp.InputError, match="not known without an energy"):
        _ = tp.compile(turn).conserved


# --- how well it is kept -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("method", "kept"),
    [
        ("leapfrog", ["oscillates", "to rounding"]),
        ("yoshida4", ["oscillates", "to rounding"]),
        ("gauss4", ["oscillates", "to rounding"]),
        ("rk4", ["drifts", "drifts"]),
    ],
)
def test_what_a_method_keeps(method, kept):
    assert [c.kept for c in tp.compile(kepler, 0.02, method=method).conserved] == kept


def test_a_tree_breaks_momenta():
    sim = tp.compile(particles.gravity.bind({"n": 200}), 0.01, approximate=1e-3)
    assert {c.kept for c in sim.conserved} == {"broken by the tree: out.losses has its size"}


def test_a_splitting_that_mixes_pairs_keeps_no_norm():
    sim = tp.compile(lattice_schrodinger.bind({"n": 6}), 0.01, method="implicit_midpoint")
    assert [c.kept for c in sim.conserved] == ["oscillates", "to rounding"]  # a quadratic invariant


def test_parts_that_break_a_rotation_one_by_one_do_not_keep_it():
    @tp.hamiltonian
    def turning(q: tp.Vec[2], p: tp.Vec[2], w: float = 0.5):
        return p @ p / 2 + q @ q / 2 - w * (q[0] * p[1] - q[1] * p[0])

    sim = tp.compile(turning, 0.01, method="strang")
    assert [(c.name, c.kept) for c in sim.conserved] == [
        ("energy", "oscillates"),
        ("angular_momentum[0, 1]", "precesses"),
    ]
    out = sim.evolve(q=[1.0, 0.0], p=[0.0, 0.5], steps=2000, observe={"L": sim.conserved[1]})
    assert np.ptp(out["L"]) > 1e-8  # far above rounding


# --- values, and runs ------------------------------------------------------------------------------------
def test_a_charge_is_called_on_a_state():
    sim = tp.compile(kepler, 0.02)
    energy, moment = sim.conserved
    out = sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=10, observe={"L": moment})
    assert moment(q=[1.0, 0.0], p=[0.0, 1.2]) == 1.2 == pytest.approx(moment(out.final), rel=1e-15)
    assert energy(out.final) == pytest.approx(out.energy[-1], rel=1e-15)
    assert energy(out.final, mu=2.0) < energy(out.final)
    assert out["L"][0] == 1.2
    with pytest.raises(tp.InputError, match="needs `p`"):
        moment(q=[1.0, 0.0])
    with pytest.raises(tp.InputError, match="no argument `mo`"):
        energy(out.final, mo=2.0)


@pytest.mark.requirement("S2-68")
def test_symmetries_are_printed_axis_by_axis(capsys):
    @tp.hamiltonian
    def above_a_wall(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2 + q[2] ** 4

    tp.compile(above_a_wall, 0.1).verify_symmetries([0.0, 0.0, 1.0], [1.0, 0.0, 0.0])
    assert capsys.readouterr().out.splitlines()[:2] == [
        "[Compiler] Detected Translation Symmetry (axes 0, 1). Watching Momentum Conservation.",
        "[Compiler] Detected Rotation Symmetry (plane (0, 1)). Watching Angular Momentum Conservation.",
    ]


def test_a_conditional_symmetry_is_printed_where_its_condition_holds(capsys):
    @tp.hamiltonian
    def planar(q: tp.Vec[2], p: tp.Vec[2], m: tp.Vec[2] = 1.0):
        return (p * p / m).sum() / 2 + (q @ q) ** 2

    sim = tp.compile(planar, 0.1)
    sim.verify_symmetries(q=[1.0, 0.0], p=[0.0, 1.0], m=[1.0, 2.0])
    assert "Rotation" not in capsys.readouterr().out
    sim.verify_symmetries(q=[1.0, 0.0], p=[0.0, 1.0], m=[2.0, 2.0])
    assert "Rotation" in capsys.readouterr().out


def test_the_band_of_angular_momentum_is_that_of_its_random_walk():
    sim, n, members = tp.compile(kepler, 0.02, method="leapfrog"), 20_000, 64
    p = np.stack([np.zeros(members), np.linspace(0.8, 1.2, members)], axis=1)
    out = sim.evolve(q=np.tile([1.0, 0.0], (members, 1)), p=p, steps=n)
    L = out.q[..., 0] * out.p[..., 1] - out.q[..., 1] * out.p[..., 0]
    sigma = 0.52 * 2.0**-53 * math.sqrt(n)
    assert 0.7 * sigma < (L[-1] - L[0]).std() < 1.4 * sigma
    check = out.checks["angular_momentum"]
    assert check.holds and 6 * sigma < check.band < 20 * sigma
    assert str(out.checks) == f"Angular momentum conserved: ✅ {check.deviation:.1e} of {check.band:.1e}"


@pytest.mark.parametrize("precision", ["float64", "float32", "compensated", "mixed", "dd"])
def test_healthy_bodies_pass_their_checks(precision):
    start = particles.plummer(6, seed=3)
    out = tp.compile(particles.gravity, 0.002, precision=precision).evolve(**start, softening=0.1, steps=200)
    assert [c.name for c in out.checks] == ["momentum", "angular_momentum", "boost"]
    assert out.checks.hold, str(out.checks)


def test_a_kicked_run_fails_its_check():
    """A charge that a system is wrongly said to have: the frames of a run under another force."""
    sim = tp.compile(kepler, 0.02, method="leapfrog")
    out = sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=500)
    frames = dict(out.origin.frames)
    frames["p"] = frames["p"].copy()
    frames["p"][len(frames["p"]) // 2 :] *= 1 + 1e-9  # a fault of 1e-9 in a run of 500 steps
    from dataclasses import replace

    from tinyphysics.runtime.measure.checked import checks

    found = checks(replace(out.origin, frames=frames), sim.goal, "leapfrog_kdk")
    assert not found.hold and "❌" in str(found)


def test_a_fault_fails_its_check_and_what_stopped_before_it_passes():
    run = dict(q=[1.0, 0.0], p=[0.0, 1.2], steps=500, save_every=10)
    fault = {"fault": tp.fault("p", (1,), relative=1e-9, since=200)}
    gone_on = tp.compile(kepler, 0.02, method="leapfrog", checks="off").evolve(**run, acts=fault)
    assert str(gone_on.checks).startswith("Angular momentum conserved: ❌")
    stopped = tp.compile(kepler, 0.02, method="leapfrog", check_every=64).evolve(**run, acts=fault)
    assert stopped.stopped.step == 200 and stopped.checks.hold and len(stopped.checks) == 1


def test_a_member_that_stopped_kept_its_charges_until_then():
    sim = tp.compile(kepler, 0.02, method="leapfrog")
    out = sim.evolve(q=[[1.0, 0.0]] * 2, p=[[0.0, 1.2], [0.0, 0.0]], steps=300)
    assert (
        out.stopped.member == 1 and out.checks.hold and 0.0 < out.checks["angular_momentum"].deviation < 1e-13
    )


def test_what_cannot_be_compared_says_why():
    sim = tp.compile(kepler, 0.02, method="leapfrog")
    out = sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=20, acts={"kick": tp.act(every=5, map=lambda p: -p)})
    assert str(out.checks) == "kepler: nothing is compared, because acts changed its state."
    assert "is kept to rounding by rk4" in str(
        tp.compile(kepler, 0.02, method="rk4").evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=5).checks
    )


def test_bodies_far_from_the_origin_keep_their_centre_of_mass():
    """Positions that move steadily are rounded alike for many steps."""
    start = particles.plummer(64, seed=2)
    start |= {"q": start["q"] + 100.0, "p": start["p"] + 3 * start["m"][:, None]}
    out = tp.compile(particles.gravity, 0.001).evolve(**start, softening=0.02, steps=500)
    assert out.checks.hold, str(out.checks)


# --- polynomials ------------------------------------------------------------------------------------------
def expressions(sim, degree) -> list[str]:
    return [str(c.expression) for c in sim.find_invariants(degree=degree)]


def test_henon_heiles_has_its_energy_alone():
    assert [c.name for c in tp.compile(henon_heiles, 0.1).find_invariants(degree=4)] == ["energy"]


def test_the_other_sign_has_a_second_invariant_of_degree_three():
    found = tp.compile(separable_cubic, 0.1).find_invariants(degree=3)
    assert [c.name for c in found] == ["energy", "invariant[0]"]
    at = {"x": 0.3, "px": -0.7, "y": 1.1, "py": 0.2}
    x, px, y, py = at.values()
    assert found[1](**at) == pytest.approx(x**3 + 3 * x * y**2 + 3 * x * y + 3 * px * py, rel=1e-14)
    assert found[1].proof == "proved: {F, H} = 0 term by term"


def test_a_third_written_as_a_float_is_a_third_and_the_proof_says_so():
    @tp.hamiltonian
    def cubic(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + q @ q / 2 + q[0] ** 2 * q[1] + (1 / 3) * q[1] ** 3

    found = tp.compile(cubic, 0.1).find_invariants(degree=3)
    assert len(found) == 2 and "simple fractions" in found[1].proof


def test_an_integrable_case_with_a_quartic_invariant():
    @tp.hamiltonian
    def quartic(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + q @ q / 2 + q[0] ** 2 * q[1] + 2 * q[1] ** 3

    (_, found) = tp.compile(quartic, 0.1).find_invariants(degree=4)
    (x, y), (px, py) = (0.3, -0.4), (0.2, 0.9)
    # Grammaticos, Dorizzi and Padjen 1982, with A = B = 1
    textbook = x**4 + 4 * x**2 * y**2 - 4 * px * (px * y - py * x) + 4 * x**2 * y + 3 * (px**2 + x**2)
    assert found(q=[x, y], p=[px, py]) == pytest.approx(textbook, rel=1e-14)


def test_the_oscillator_has_its_tensor():
    @tp.hamiltonian
    def oscillator(q: tp.Vec[2], p: tp.Vec[2]):
        return (p @ p + q @ q) / 2

    sim = tp.compile(oscillator, 0.1)
    assert expressions(sim, 2)[2:] == ["p[0]**2 + q[0]**2", "p[0]*p[1] + q[0]*q[1]"]
    assert expressions(sim, 4)[2:] == expressions(sim, 2)[2:]  # products of these are left out


def test_kepler_has_the_vector_of_laplace_runge_and_lenz_which_precesses():
    sim = tp.compile(kepler, 0.02, method="leapfrog")
    found = sim.find_invariants(degree=4)
    assert [c.name for c in found] == [
        "energy", "angular_momentum[0, 1]", "laplace_runge_lenz[0]", "laplace_runge_lenz[1]"
    ]  # fmt: skip
    x, y = found[2:]
    assert x.kept == y.kept == "precesses" and "for mu = 1" in x.proof
    assert (x(q=[1.0, 0.0], p=[0.0, 1.2]), y(q=[1.0, 0.0], p=[0.0, 1.2])) == (pytest.approx(0.44), 0.0)
    period = 2 * math.pi * (1 / (2 - 1.44)) ** 1.5
    orbits = 100
    out = sim.evolve(
        q=[1.0, 0.0], p=[0.0, 1.2], steps=round(orbits * period / 0.02), observe={"x": x, "y": y}
    )
    angle = np.unwrap(np.arctan2(out["y"], out["x"]))
    assert np.polyfit(out.times("x"), angle, 1)[0] * period == pytest.approx(-2.205e-4, rel=1e-3)


def test_toda_has_a_cubic_invariant():
    @tp.hamiltonian
    def toda(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2 + tp.exp(q[0] - q[1]) + tp.exp(q[1] - q[2]) + tp.exp(q[2] - q[0])

    found = tp.compile(toda, 0.1).find_invariants(degree=3)
    assert [c.name for c in found] == ["energy", "momentum[0]", "invariant[0]"]  # boosts depend on t
    q, p = [0.1, -0.4, 0.3], [0.5, -1.0, 0.2]
    e = [math.exp(q[0] - q[1]), math.exp(q[1] - q[2]), math.exp(q[2] - q[0])]
    cubic = p[0] * p[1] * p[2] - p[2] * e[0] - p[0] * e[1] - p[1] * e[2]
    assert found[2](q=q, p=p) == pytest.approx(cubic, rel=1e-14)


def test_what_only_states_drawn_at_random_show_is_called_evidence(monkeypatch):
    from tinyphysics.analysis import more_invariants

    @tp.hamiltonian
    def apart(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + tp.exp(q[0]) + tp.exp(-q[1])

    sim = tp.compile(apart, 0.1)
    assert sim.find_invariants(degree=2)[1].proof.startswith("proved")
    monkeypatch.setattr(more_invariants, "null_vectors", lambda columns: [])
    (_, found) = sim.find_invariants(degree=2)
    assert found.proof.startswith("numerical evidence")
    first = found(q=[0.3, 0.0], p=[0.7, 0.0]) - found(q=[0.0, 0.0], p=[0.0, 0.0])
    second = found(q=[0.0, 0.4], p=[0.0, 0.9]) - found(q=[0.0, 0.0], p=[0.0, 0.0])
    parts = 0.7**2 / 2 + math.exp(0.3) - 1, 0.9**2 / 2 + math.exp(-0.4) - 1
    assert min(abs(first / parts[0]), abs(second / parts[1])) < 1e-6 < max(abs(first), abs(second))


def test_too_many_monomials_are_refused_with_a_degree_that_fits():
    sim = tp.compile(particles.gravity.bind({"n": 3}), 0.1)
    with pytest.raises(tp.InputError, match=r"monomials, and 20,000 is the most.*\n.*degree=\d"):
        sim.find_invariants(degree=9)
    with pytest.raises(tp.InputError, match="no parameter `nu`"):
        tp.compile(kepler, 0.02).find_invariants(nu=1.0)


def test_no_polynomial_is_looked_for_in_a_sum_over_neighbours():
    sim = tp.compile(in_a_box, dt=0.01, sizes={"n": 30})
    with pytest.raises(tp.InputError, match=r"sums over neighbours(.|\n)*sim.conserved"):
        sim.find_invariants(degree=2)


def test_bodies_without_pairs_have_no_charge_of_pairs():
    """A quantifier over no pairs is true of everything, and says nothing."""

    @tp.hamiltonian(bracket="so3")
    def body(L: tp.Vec[3]):
        return L[0] ** 2 + L[1] ** 2 / 2 + L[2] ** 2 / 3

    sim = tp.compile(body, dt=0.1)
    assert [x.name for x in sim.conserved] == ["energy", "|L|"]
    with pytest.raises(tp.PlanError, match="has no positions"):
        sim.minimise(L=[0.1, 0.2, 0.3])


def test_invariants_of_a_top_are_refused_in_words():
    @tp.hamiltonian
    def top(R: tp.Rotor, L: tp.Vec[3]):
        return (L**2).sum() / 2 + tp.rotate(R, [0.0, 0.0, 1.0])[2]

    with pytest.raises(tp.TinyPhysicsError, match="find_invariants"):
        tp.compile(top, dt=0.1).find_invariants(degree=2)


def test_what_is_not_kept_names_what_breaks_it_and_what_is_missing_names_the_call():
    @tp.hamiltonian
    def fluid(q: tp.Array[4, 3], p: tp.Array[4, 3], m: float, box: float = 9.0):
        s = 1 / tp.pair_distance2(q, box=box, cutoff=2.5) ** 3
        return (p * p).sum() / (2 * m) + tp.pair_sum(4 * (s * s - s))

    sim = tp.compile(fluid, dt=0.005, method="leapfrog")
    kept = {c.name: c.kept for c in sim.conserved}
    assert kept["energy"] == "broken by the cutoff: out.losses has its size" and len(kept) == 7
    with pytest.raises(tp.InputError, match="verify_symmetries needs the parameter `m`"):
        sim.verify_symmetries()
