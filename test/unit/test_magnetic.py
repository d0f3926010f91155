"""Charges in magnetic fields: what each pusher keeps, what is proved of it, and what it never claims."""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tinyphysics as tp
from tinyphysics import plasma
from tinyphysics.runtime.measure.precise import arithmetic
from tinyphysics.tpir import parse, verify

pytestmark = pytest.mark.requirement("S2-24")


@tp.hamiltonian(bracket=tp.magnetic(lambda q: 1 + q[0] / 2 + q[1] ** 2 / 5))
def plane(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2


@tp.hamiltonian(bracket=tp.magnetic(lambda q: [q[1] * q[2], tp.sin(q[0]), 1 + q[0] * q[1]], charge="e"))
def space(q: tp.Vec[3], p: tp.Vec[3], e: float = 1.3, m: float = 0.7):
    return p @ p / (2 * m) + q @ q / 2


@tp.hamiltonian(bracket=tp.magnetic(lambda q, b: [0.0, 0.0, b]))
def crossed(q: tp.Vec[3], p: tp.Vec[3], b: float = 2.0, field: float = 0.3):
    return p @ p / 2 - field * q[0]


@tp.hamiltonian
def canonical(q: tp.Vec[2], p: tp.Vec[2]):
    """The field of `plane`, by A = (-y**3/15, x + x**2/4)."""
    x, y = q[0], q[1]
    u, v = p[0] + y**3 / 15, p[1] - x - x**2 / 4
    return (u**2 + v**2) / 2


@tp.hamiltonian(bracket=tp.magnetic(lambda q: [0.0, 0.0, 1.0]))
def force_free(q: tp.Vec[3], p: tp.Vec[3]):
    return p @ p / 2 - 0.9 * q[1]


@tp.hamiltonian(bracket="contact")
def decay(q, p, s, gamma: float = 0.1):
    return p**2 / 2 - tp.cos(q) + gamma * s


START = dict(q=[0.3, -0.2], p=[0.9, 0.4])
SPACE = dict(q=[0.3, -0.2, 0.5], p=[0.9, 0.4, -0.3])


def lorentz(t, z, e=1.3, m=0.7):
    q, p = z[:3], z[3:]
    B = np.array([q[1] * q[2], math.sin(q[0]), 1 + q[0] * q[1]])
    return [*(p / m), *(-q + e * np.cross(p / m, B))]


def in_space(until):
    start = [*SPACE["q"], *SPACE["p"]]
    return solve_ivp(lorentz, (0.0, until), start, method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1]


def error(system, truth, dt, until, start=SPACE, **options):
    out = tp.compile(system, dt=dt, **options).evolve(**start, until=until).final
    return float(np.abs(np.concatenate([np.ravel(out[n]) for n in start]) - truth).max())


# --- accuracy ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "order"), [("boris", 2), ("boris_exact", 2), ("axes", 2), ("axes4", 4), ("rk4", 4)]
)
def test_every_pusher_follows_the_lorentz_force(name, order):
    truth = in_space(4.0)
    coarse, fine = (error(space, truth, h, 4.0, method=name) for h in (0.05, 0.025))
    assert math.log2(coarse / fine) == pytest.approx(order, abs=0.25) and fine < 5e-3


def test_series_follow_it_to_rounding():
    assert error(space, in_space(4.0), 1.0, 4.0, method="taylor") < 1e-11


@pytest.mark.parametrize("dt", [0.1, 3.0])
@pytest.mark.parametrize("name", ["boris", "boris_exact"])
def test_charges_drift_with_E_cross_B_at_any_step(name, dt):
    """The drift is a fixed point of the momentum, so that a charge that begins with it keeps it."""
    out = tp.compile(crossed, dt=dt, method=name).evolve(q=[0.0] * 3, p=[0.0, -0.15, 0.0], steps=1000)
    assert np.abs(out.p - [0.0, -0.15, 0.0]).max() < 1e-14


def test_without_the_longer_force_the_true_angle_would_drift_wrongly():
    """By (x/tan x), x half of the angle: what boris_exact must not do."""
    x = 0.5 * 2.0 * 1.0
    q, p = np.zeros(2), np.array([0.0, -0.15])
    turn = np.array([[math.cos(2 * x), math.sin(2 * x)], [-math.sin(2 * x), math.cos(2 * x)]])
    mean = np.zeros(2)
    for _ in range(2000):
        p = turn @ (p + [0.15, 0.0]) + [0.15, 0.0]
        mean += p / 2000
    assert mean[1] == pytest.approx(-0.15 * x / math.tan(x), rel=1e-2) and q is not None


def test_speeds_are_kept_without_an_electric_field():
    for name in ("boris", "boris_exact"):
        out = tp.compile(plane, dt=0.7, method=name).evolve(**START, steps=20_000)
        speeds = np.linalg.norm(out.p, axis=-1)
        assert np.abs(speeds / speeds[0] - 1).max() < 1e-12


def test_a_uniform_field_turns_by_the_true_angle():
    @tp.hamiltonian(bracket=tp.magnetic(lambda q: [0.0, 0.0, 1.0], charge=-2.0))
    def gyration(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2

    start = dict(q=[0.0] * 3, p=[1.0, 0.0, 0.0])
    exact, boris = (
        tp.compile(gyration, dt=0.5, method=m).evolve(**start, until=10.0).final.p
        for m in ("boris_exact", "boris")
    )
    truth = [math.cos(20.0), math.sin(20.0), 0.0]
    assert np.abs(exact - truth).max() < 1e-14
    angle = 40 * math.atan(0.5)  # 2 atan(x) for 2x, twenty times
    assert np.abs(boris - [math.cos(angle), math.sin(angle), 0.0]).max() < 1e-13


# --- proofs ----------------------------------------------------------------------------------------------------
def bracket_defect(sim, dt):
    """max |M P Mᵀ - P'| of one step, with its own numbers."""
    found = tp.measure_symplectic(sim, dt=dt, **START).of
    M, z, new = found.jacobians[0]
    structure = found.structure.evaluated(found.numbers_at(dt, arithmetic()))
    return max(
        abs(float(sum(products) - wanted))
        for _, _, products, wanted in structure.defect(M, found.places, z, new)
    )


def test_boris_keeps_volumes_and_is_never_called_symplectic():
    sim = tp.compile(plane, dt=0.2)
    c = sim.certificate
    assert sim.built.plan.method == "boris" and c.level == "volume-preserving"
    assert not c.poisson and c.symmetric and c.consistent and not c.reversible
    assert "symplectic" not in c and "volume only" in str(sim.explain("full"))
    assert "p is the kinetic momentum" in " ".join(
        str(tp.compile(plane, dt=0.2, method="axes").explain()).split()
    )
    assert bracket_defect(sim, 0.2) == pytest.approx(1.02e-3, rel=0.01)
    assert bracket_defect(sim, 0.1) == pytest.approx(1.29e-4, rel=0.01)
    assert sim.check(**START).volume_preserving


def test_axis_by_axis_the_bracket_is_kept():
    sim = tp.compile(plane, dt=0.2, method="symplectic")
    assert sim.built.plan.method == "axes" and sim.certificate.level == "poisson"
    assert bracket_defect(sim, 0.2) < 1e-12 and sim.check(**START).symplectic
    assert tp.compile(space, dt=0.1, method="symplectic", order=4).check(**SPACE).symplectic


def test_the_energy_of_axis_steps_has_no_trend():
    out = tp.compile(plane, dt=0.1, method="symplectic").evolve(**START, steps=50_000, frames=5001)
    off = np.abs(out.energy - out.energy[0])
    assert off[2500:].max() < 1.2 * off[:2500].max() < 3e-2


def test_a_line_integral_that_is_not_found_asks_for_A():
    @tp.hamiltonian(bracket=tp.magnetic(lambda q: 1 / (1 + q @ q)))
    def hill(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2

    assert tp.compile(hill, dt=0.1).certificate.volume_preserving
    with pytest.raises(tp.PlanError, match="no line integral of B along x") as found:
        tp.compile(hill, dt=0.1, method="symplectic")
    assert "vector potential" in str(found.value)


@pytest.mark.parametrize(
    ("old", "new", "verdict", "why"),
    [
        ("FMA T54, 0.25", "FMA T54, 0.26", "poisson", "derivative with respect to dt"),
        ("ELEM T33, add, T30, T32", "ELEM T33, sub, T30, T32", "poisson", "derivative with respect to dt"),
    ],
)
def test_an_axis_step_that_is_not_the_flow_is_seen(old, new, verdict, why):
    text = tp.compile(plane, dt=0.2, method="axes").ir("tpir")
    assert old in text
    found = verify(
        parse("\n".join(x for x in text.replace(old, new).splitlines() if not x.startswith("claim")))
    )
    assert not found[verdict] and why in found[verdict].because


def test_a_turn_that_is_no_turn_or_too_fast_is_seen():
    text = tp.compile(plane, dt=0.2).ir("tpir")
    plain = "\n".join(x for x in text.splitlines() if not x.startswith("claim"))
    longer = plain.replace("ELEM T28, div, 1.0, T27", "ELEM T28, div, 1.1, T27")
    assert longer != plain and not verify(parse(longer)).volume_preserving
    faster = plain.replace("ELEM T12, mul, $dt, 0.5", "ELEM T12, mul, $dt, 0.6")
    found = verify(parse(faster))
    assert found.volume_preserving and "weight 1.2" in found.consistent.because


@pytest.mark.parametrize(
    "arithmetic_of, dear, most", [("exact", {"sqrt": 1, "rcp": 2}, 35), ("fast", {"rcp": 1}, 42)]
)
def test_a_dipole_turns_with_as_few_operations_as_a_kernel_by_hand(arithmetic_of, dear, most):
    """bench/cuda/ensembles.cu has 40 products and sums, an inverse root and a division: 53 of a GPU's slots for float64."""
    from tinyphysics import plasma

    sim = tp.compile(plasma.System(B_field=plasma.dipole(60.0)), dt=0.01, math=arithmetic_of)
    step = sim.ir("ptx").partition(".entry step(")[2]
    loop = step[step.index("mov.b64", step.index("ld.global")) : step.rindex("st.global")].partition("bra")[0]
    counted = Counter(re.findall(r"\b(add|sub|mul|fma|sqrt|rcp|div)\.rn\.f64", loop))
    assert {op: n for op, n in counted.items() if op in ("sqrt", "rcp", "div")} == dear
    assert sum(counted[op] for op in ("add", "sub", "mul", "fma")) <= most


def test_a_drift_by_dt_over_the_mass_in_one_product_is_read_as_what_it_is():
    """q += (dt/m) p takes one product less than q += dt (p/m); a factor that is wrong, or a state in it, is seen."""
    from tinyphysics import plasma

    text = tp.compile(plasma.System(B_field=[0.0, 0.0, 1.0]), dt=0.1, method="boris").ir("tpir")
    plain = "\n".join(x for x in text.splitlines() if not x.startswith("claim"))
    (h,) = (
        x.split()[-1] for x in plain.partition("step:")[2].splitlines() if "SYMP_STEP S0" in x and "F0.1" in x
    )
    (line,) = (x for x in plain.splitlines() if x.split()[:2] == ["ELEM", f"{h},"])
    assert line.endswith("$dt") and verify(parse(plain)).consistent
    found = verify(parse(plain.replace(line, line.replace("$dt", "$mass"))))
    assert found.volume_preserving and not found.consistent and not found.symmetric
    twice = line.replace(line.split()[3], "$dt,")  # dt**2
    found = verify(parse(plain.replace(line, twice)))
    assert found.volume_preserving and not found.consistent and not found.symmetric


def test_a_field_with_sources_is_refused_with_its_divergence():
    @tp.hamiltonian(bracket=tp.magnetic(lambda q: [q[0] * q[1], 0.0, 1.0]))
    def source(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2

    with pytest.raises(tp.VerifyError, match=r"div B = q\[1\]"):
        tp.compile(source, dt=0.1)


# --- friction ------------------------------------------------------------------------------------------------
@pytest.mark.requirement("S2-50")
def test_friction_acts_on_the_kinetic_momentum_and_only_volumes_have_a_factor():
    sim = tp.compile(crossed, dt=0.1, friction=0.3, method="boris_exact")
    out = sim.evolve(q=[0.0] * 3, p=[1.0, 0.0, 0.5], field=0.0, until=5.0)
    f = math.exp(-1.5)
    assert np.abs(out.final.p - [f * math.cos(10.0), -f * math.sin(10.0), 0.5 * f]).max() < 1e-13
    assert list(sim.certificate) == ["volume-factor", "symmetric", "reversible", "consistent"]
    assert sim.certificate.volume_factor and tp.compile(crossed, dt=0.1, friction=0.3).certificate.symmetric
    assert out.drift("energy") < 1e-13 and out.ledger["friction"][-1] == pytest.approx(
        0.625 * (1 - f * f), rel=1e-12
    )


@pytest.mark.requirement("S2-50")
def test_friction_of_a_canonical_momentum_is_refused():
    with pytest.raises(tp.PlanError, match="tp.magnetic"):
        tp.compile(canonical, dt=0.1, friction=0.1)


# --- a vector potential inside H ---------------------------------------------------------------------------------
def test_boris_works_with_A_inside_H_and_momenta_stay_canonical():
    x, y = START["q"]
    A = np.array([-(y**3) / 15, x + x**2 / 4])
    sim = tp.compile(canonical, dt=0.1, method="boris")
    assert sim.certificate.level == "volume-preserving"
    out = sim.evolve(q=START["q"], p=np.array(START["p"]) + A, steps=50)
    kinetic = tp.compile(plane, dt=0.1).evolve(**START, steps=50)
    x, y = out.q.T
    assert np.abs(out.q - kinetic.q).max() < 1e-14
    assert np.abs(out.p - np.stack([-(y**3) / 15, x + x**2 / 4], axis=-1) - kinetic.p).max() < 1e-14
    assert np.array_equal(sim.evolve(q=out.q[0], p=out.p[0], steps=17).p[-1], out.p[17])
    assert tp.compile(canonical, dt=0.1).certificate.symplectic  # its own steps stay what they were


# --- fast particles ------------------------------------------------------------------------------------------------
def test_where_E_is_minus_v_cross_B_only_higuera_cary_and_vay_go_straight_on():
    u = 0.9 / math.sqrt(1 - 0.81)
    start, moved = dict(q=[0.0] * 3, p=[u, 0.0, 0.0]), {}
    for name in ("auto", "boris", "vay"):
        sim = tp.compile(force_free, dt=1.0, kinetics="relativistic", method=name, checks="off")
        moved[sim.built.plan.method] = float(np.abs(sim.evolve(**start, steps=200).final.p - [u, 0, 0]).max())
    assert moved["higuera_cary"] < 1e-13 and moved["vay"] < 1e-13
    assert moved["boris"] == pytest.approx(0.378, abs=1e-3)


def test_what_each_fast_pusher_keeps_is_proved_and_measured():
    z = dict(q=[0.1, 0.2, 0.3], p=[0.4, 0.5, 0.6])
    for name, keeps in (("higuera_cary", True), ("boris", True), ("vay", False)):
        sim = tp.compile(force_free, dt=0.5, kinetics="relativistic", method=name)
        assert bool(sim.certificate.volume_preserving) is keeps is sim.check(**z).volume_preserving
        assert sim.check(**z).order == pytest.approx(2, abs=0.1)


# --- contact ---------------------------------------------------------------------------------------------------------
@pytest.mark.requirement("S2-50")
def test_contact_steps_multiply_their_form():
    sim = tp.compile(decay, dt=0.1)
    c = sim.certificate
    assert c.level == "contact" and c.symmetric and c.consistent and sim.check(q=1.0, p=0.3, s=0.2).symplectic


@pytest.mark.requirement("S2-50")
@pytest.mark.parametrize(("name", "order"), [("contact", 2), ("contact4", 4)])
def test_contact_steps_have_their_order(name, order):
    def rates(t, z):
        q, p, s = z
        return [p, -math.sin(q) - 0.1 * p, p * p / 2 + math.cos(q) - 0.1 * s]

    start = dict(q=2.0, p=0.0, s=0.0)
    truth = solve_ivp(rates, (0, 10), [2.0, 0.0, 0.0], method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
    errors = [error(decay, truth, h, 10.0, start, method=name) for h in (0.1, 0.05)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)


def test_a_rate_that_is_a_number_is_proved_at_every_order():
    """0.1 times a weight of `contact4` is no float64."""

    @tp.hamiltonian(bracket="contact")
    def decaying(q, p, s):
        return p**2 / 2 - tp.cos(q) + 0.1 * s

    sim = tp.compile(decaying, dt=0.1, method="contact4")
    assert sim.certificate.contact and sim.certificate.symmetric and sim.certificate.consistent
    assert sim.check(q=2.0, p=0.1, s=0.2).symplectic


def test_a_contact_energy_decays_by_its_own_law():
    out = tp.compile(decay, dt=0.05, method="contact6").evolve(q=2.0, p=0.0, s=0.5, until=10.0)
    assert np.allclose(out.energy, out.energy[0] * np.exp(-0.1 * out.t), rtol=1e-8)  # H' = -H dH/ds


def test_what_mixes_s_and_q_is_refused():
    @tp.hamiltonian(bracket="contact")
    def mixed(q, p, s):
        return p**2 / 2 + q**2 * s

    with pytest.raises(tp.PlanError, match="more than one of q, p and s"):
        tp.compile(mixed, dt=0.1)


# --- the same bits -----------------------------------------------------------------------------------------------------
BITS = {
    "boris": (space, SPACE), "boris_exact": (space, SPACE), "axes": (plane, START),
    "contact": (decay, dict(q=2.0, p=0.0, s=0.0)),
}  # fmt: skip


@pytest.mark.parametrize(
    "precision", ["float64", "float32", "dd", pytest.param("mixed", marks=pytest.mark.all)]
)
@pytest.mark.parametrize("method", BITS)
def test_all_backends_have_the_same_bits(method, precision):
    system, start = BITS[method]
    many = {name: np.array([x, np.array(x) * 0.9]) for name, x in start.items()}
    hashes = {
        b: tp.compile(system, dt=0.1, method=method, backend=b, precision=precision)
        .evolve(**many, steps=10)
        .hash
        for b in ("python", "numpy", "llvm", "c")
    }
    assert len(set(hashes.values())) == 1, hashes


def test_many_charges_are_as_many_runs():
    @tp.hamiltonian(bracket=tp.magnetic(lambda q: tp.stack([0 * q[:, 0], 0 * q[:, 0], 1 + q[:, 0]], axis=-1)))
    def many(q: tp.Array["n", 3], p: tp.Array["n", 3]):  # noqa: F821
        return (p * p).sum() / 2

    @tp.hamiltonian(bracket=tp.magnetic(lambda q: [0.0, 0.0, 1 + q[0]]))
    def one(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2

    rng = np.random.default_rng(1)
    q, p = rng.normal(size=(2, 40, 3))
    outs = [tp.compile(many, dt=0.1, backend=b).evolve(q=q, p=p, steps=25) for b in ("llvm", "numpy")]
    single = tp.compile(one, dt=0.1).evolve(q=q, p=p, steps=25)
    assert outs[0].hash == outs[1].hash and np.abs(outs[0].final.p - single.final.p).max() < 1e-13


def test_checkpoints_and_directions(tmp_path):
    sim = tp.compile(space, dt=0.1)
    whole = sim.evolve(**SPACE, steps=30, save_every=1)
    sim.evolve(**SPACE, steps=17, checkpoint=tmp_path / "run")
    assert np.array_equal(sim.evolve(resume=tmp_path / "run", steps=13).p[-1], whole.p[-1])
    assert np.sum(sim.lyapunov(**SPACE, steps=300, spectrum="all").spectrum) == pytest.approx(0.0, abs=1e-10)
    axes = tp.compile(plane, dt=0.1, method="axes").lyapunov(**START, steps=300, spectrum="all")
    assert np.sum(axes.spectrum) == pytest.approx(0.0, abs=1e-10)


def test_a_field_may_depend_on_time():
    @tp.hamiltonian(bracket=tp.magnetic(lambda t: [0.0, 0.0, 1 + t]))
    def growing(q: tp.Vec[3], p: tp.Vec[3], t):
        return p @ p / 2

    out = tp.compile(growing, dt=0.01, method="boris_exact").evolve(q=[0.0] * 3, p=[1.0, 0, 0], until=2.0)
    angle = 2.0 + 2.0  # the integral of 1 + t, which the midpoint rule has exactly
    assert np.abs(out.final.p - [math.cos(angle), -math.sin(angle), 0.0]).max() < 1e-12


@tp.hamiltonian(bracket=tp.magnetic(lambda q, t: [q[1] * tp.cos(t), 0.0, 1 + 0.5 * tp.sin(2 * t) + q[0]]))
def induced(q: tp.Vec[3], p: tp.Vec[3], t, k: float = 1.0):
    return p @ p / 2 + k * (1 + 0.3 * tp.sin(t)) * (q @ q) / 2


@pytest.mark.parametrize(
    ("name", "kinetics"),
    [
        ("boris", "newtonian"),
        ("boris_exact", "newtonian"),
        ("boris", "relativistic"),
        ("higuera_cary", "relativistic"),
    ],
)
def test_pushers_keep_their_order_in_fields_of_q_and_t(name, kinetics):
    """With the field at the beginning of a step, or the end, the slope would be 1."""
    how = {} if kinetics == "newtonian" else dict(kinetics=kinetics)
    known = tp.compile(induced, dt=0.005, method="rk4", checks="off", **how).evolve(**SPACE, until=1.0).final
    errors = []
    for dt in (0.1, 0.05):
        sim = tp.compile(induced, dt=dt, method=name, checks="off", **how)
        out = sim.evolve(**SPACE, until=1.0)
        errors.append(max(np.abs(out.final[n] - known[n]).max() for n in SPACE))
        assert (
            out.drift("energy") < 0.5 * dt**2
        )  # with what the field and the potential give, which is booked
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.1)
    assert sim.gradcheck(lambda out: (out.final.q**3).sum(), **SPACE, steps=2).passed


@pytest.mark.parametrize("field", [3.0, (0.0, 0.0), "z", (0.0, 0.0, math.nan)])
def test_a_field_that_is_not_three_numbers_is_refused(field):
    for name in ("B_field", "E_field"):
        with pytest.raises(tp.InputError, match=f"{name}=.* is not three numbers"):
            plasma.System(**{name: field})


def test_a_field_of_two_numbers_in_space_is_refused():
    with pytest.raises(tp.InputError, match=r"B returns the shape \(2,\) for positions of shape \(3,\)"):
        tp.compile(plasma.System(B_field=lambda q: [1.0, 2.0]), dt=0.1)
