"""Does what newcomers of other tools type mean what they think, or is it answered with the line to write?"""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics import tpir
from tinyphysics.errors import TraceError, VerifyError
from tinyphysics.front.asked_pairs import belong, by_name


# --- which arguments are pairs ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    "names, pairs",
    [
        ("theta1 theta2 w1 w2", [("theta1", "w1"), ("theta2", "w2")]),
        ("x y px py", [("x", "px"), ("y", "py")]),
        ("q1 p1 q2 p2", [("q1", "p1"), ("q2", "p2")]),
        ("x y z vx vy vz m", [("x", "vx"), ("y", "vy"), ("z", "vz")]),
        ("r theta r_dot theta_dot", [("r", "r_dot"), ("theta", "theta_dot")]),
        ("theta1 theta2 w1 w2 m1 m2 l1 l2", [("theta1", "w1"), ("theta2", "w2")]),
        ("q p m k", None),
        ("q p m1 m2", None),
        ("x v k1 k2", None),
        ("q p", None),
    ],
)
def test_names_say_which_arguments_are_pairs(names, pairs):
    assert by_name(names.split()) == pairs


def test_a_pair_is_one_of_a_position_and_what_moves_it():
    assert belong("x", "vx") and belong("theta", "omega") and belong("q2", "p2")
    assert not belong("x", "x") and not belong("q1", "p2") and not belong("m", "k")


def test_a_double_pendulum_in_scalars_is_asked_back_and_runs_as_it_was_told():
    def dp(theta1, theta2, w1, w2):
        T = w1**2 + w2**2 / 2 + w1 * w2 * np.cos(theta1 - theta2)
        return T + 2 * np.cos(theta1) + np.cos(theta2)

    with pytest.raises(TraceError) as caught:
        tp.lagrangian(dp)
    assert '@tp.lagrangian(pairs=[("theta1", "w1"), ("theta2", "w2")])' in str(caught.value)
    system = tp.lagrangian(dp, pairs=[("theta1", "w1"), ("theta2", "w2")])
    assert [s.name for s in system.states] == ["theta1", "p_theta1", "theta2", "p_theta2"]


def test_parameters_that_a_run_must_give_are_still_parameters():
    spring = tp.hamiltonian(lambda q, p, m, k: p**2 / 2 / m + k * q**2 / 2)
    assert [x.name for x in spring.parameters] == ["m", "k"]


# --- arrays of symbols ------------------------------------------------------------------------------------
def test_np_array_is_np_stack_while_a_function_is_traced_and_only_then():
    own = np.array

    def energy(make):
        def H(q: tp.Vec[2], p: tp.Vec[2]):
            assert np.array([1, 2]).dtype == int  # without symbols it is NumPy's
            r = make([q[0] - 1.0, 2.0 * q[1]])
            return (
                p @ p / 2 + np.where(r > 0, r, 0.0).sum() + np.linalg.norm(make([[q[0], 1.0], [0.0, q[1]]]))
            )

        return tp.hamiltonian(H).energy

    assert energy(lambda x: np.array(x)) is energy(lambda x: np.asarray(x, dtype=float))
    rows = energy(lambda x: tp.stack([tp.stack(r) if isinstance(r, list) else r for r in x]))
    assert energy(lambda x: np.array(x)) is rows
    assert np.array is own


def test_another_thread_has_numpys_own_array_during_a_trace():
    seen = []

    def H(q, p):
        other = threading.Thread(target=lambda: seen.append(np.array([1.0, 2.0])))
        other.start()
        other.join()
        return p**2 / 2 + np.array([q, q]).sum()

    tp.hamiltonian(H)
    assert isinstance(seen[0], np.ndarray)


def test_rates_may_be_returned_as_one_array():
    turning = tp.ode(lambda x, y: np.array([y, -x]))
    assert [str(u) for u in turning.update] == ["y", "-x"]


# --- pairs of particles -----------------------------------------------------------------------------------
def test_distances_without_box_and_cutoff_are_those_of_all_pairs():
    def written(q: tp.Array[3, 2], p: tp.Array[3, 2]):
        d = q[:, None] - q[None, :]
        return (p**2).sum() / 2 - tp.pair_sum(1 / np.sqrt((d * d).sum(-1) + 0.1))

    def named(q: tp.Array[3, 2], p: tp.Array[3, 2]):
        return (p**2).sum() / 2 - tp.pair_sum(1 / np.sqrt(tp.pair_distance2(q) + 0.1))

    assert tp.hamiltonian(written).energy is tp.hamiltonian(named).energy

    def boxed(q: tp.Array[3, 2], p: tp.Array[3, 2]):
        return (p**2).sum() / 2 - tp.pair_sum(1 / np.sqrt(tp.pair_distance2(q, box=3.0)))

    with pytest.raises(TraceError, match="with 2 coordinates"):
        tp.hamiltonian(boxed)


# --- goals of methods that choose their own steps ---------------------------------------------------------
@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - np.cos(q)


def test_pilots_choose_the_tolerance_and_the_run_is_measured():
    start = dict(q=1.0, p=0.0)
    exact = 0.995800677124368  # of taylor, to rounding
    sim = tp.compile(pendulum, method="dop853", error=1e-6)
    out = sim.evolve(**start, until=20.0)
    assert out.metrics["goals"]["met"] and abs(out.final.q - exact) < 1e-6
    assert sim.goal.tolerance == sim.goal.decision.tolerance


@pytest.mark.all
def test_a_longer_run_gets_another_tolerance_and_a_plan_survives_a_file(tmp_path):
    sim = tp.compile(pendulum, method="dop853", error=1e-8, pilot=dict(q=1.0, p=0.0))
    first = sim.goal.tolerance
    out = sim.evolve(q=[1.0, 2.0], p=[0.0, 0.0], until=2000.0)
    assert sim.goal.tolerance < first and out.metrics["goals"]["met"]
    sim.save(tmp_path / "plan.json")
    assert tp.load(tmp_path / "plan.json").goal == sim.goal


@pytest.mark.all
def test_chaos_is_refused_where_no_tolerance_is_enough():
    lorenz = tp.ode(lambda x, y, z: (10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z))
    sim = tp.compile(lorenz, error=1e-6)
    assert sim.evolve(x=1.0, y=1.0, z=1.0, until=10.0).metrics["goals"]["met"]
    with pytest.raises(tp.PlanError, match="no tolerance of `taylor` keeps the state to 1e-06"):
        sim.evolve(x=1.0, y=1.0, z=1.0, until=100.0)


# --- maps -------------------------------------------------------------------------------------------------
def standard(theta, p, K=0.9):
    p = p + K * np.sin(theta)
    return theta + p, p


def coupled(x, y, px, py, b=0.1):
    px, py = px + np.sin(x) + b * np.sin(x + y), py + np.sin(y) + b * np.sin(x + y)
    return x + px, y + py, px, py


TWO = [("x", "px"), ("y", "py")]
MAPS = [
    (standard, [("theta", "p")], ""),
    (coupled, TWO, ""),
    (lambda q, p: (2 * q + p, q + p), [("q", "p")], ""),
    (lambda q, p: (q + p, 0.999999999999999 * p), [("q", "p")], "is not shown to be 0"),
    (lambda q, p: (1 - 1.4 * q * q + p, 0.3 * q), [("q", "p")], "is not shown to be 0"),
    (lambda q, p: (p, q), [("q", "p")], "is not shown to be 0"),
    (lambda q, p: ((q + p) % 1.0, p), [("q", "p")], "may jump"),
    (lambda q, p: (q + p, p + tp.random.normal()), [("q", "p")], "random"),
    (coupled, [("x", "py"), ("y", "px")], "is not shown to be 0"),
]


@pytest.mark.parametrize("function, pairs, why", MAPS)
def test_a_map_of_pairs_is_certified_where_its_jacobian_is_shown_to_be_symplectic(function, pairs, why):
    sim = tp.compile(tp.map(function, pairs=pairs))
    assert bool(sim.certificate.symplectic) is bool(sim.certificate.volume_preserving) is (not why)
    assert why in sim.certificate.symplectic.because
    assert ("claim symplectic" in sim.ir()) is (not why)
    again = tpir.parse(sim.ir())
    assert tpir.verify(again) == sim.certificate and again.hash == sim.tpir.hash


def test_pairs_change_no_bit_of_a_map_and_a_false_claim_is_refused():
    start = dict(theta=1.0, p=0.3)
    plain, paired = tp.map(standard), tp.map(standard, pairs=[("theta", "p")])
    assert plain.compile().evolve(**start, steps=99).hash == paired.compile().evolve(**start, steps=99).hash
    henon = tp.map(lambda q, p: (1 - q * q + p, 0.3 * q), pairs=[("q", "p")]).compile().ir()
    with pytest.raises(VerifyError, match="is not shown to be 0"):
        tpir.verify(tpir.parse(henon.replace("state S0", "claim symplectic\nstate S0", 1)))


def test_any_map_can_be_measured():
    assert tp.assert_symplectic(standard, theta=1.0, p=0.3).symplectic
    assert tp.assert_symplectic(tp.map(standard), theta=1.0, p=0.3).dt is None
    assert tp.assert_symplectic(tp.map(coupled), pairs=TWO, x=1.0, y=0.2, px=0.0, py=0.3).symplectic
    assert tp.assert_symplectic(tp.kernel.compile(lambda q, p: p**2 / 2 + q**4), q=1.0, p=0.3).symplectic
    with pytest.raises(VerifyError, match="on its orbit"):
        tp.assert_symplectic(lambda q, p: (q + p, 0.99 * p), q=1.0, p=0.3)


# --- the calls that the project was born from --------------------------------------------------------------
class Galaxy(tp.PhysicsSystem):
    def energy(self, q: tp.Array["n", 3], p: tp.Array["n", 3]):
        return 0.5 * (p**2).sum() - tp.pair_sum(1 / np.sqrt(tp.pair_distance2(q) + 0.01))


@pytest.mark.requirement("S2-28")
def test_the_step_of_a_galaxy_comes_with_its_run():
    start = dict(q=np.eye(4, 3), p=np.zeros((4, 3)))
    options = dict(precision="mixed", method="symplectic")
    model = Galaxy()
    late = model.compile(**options).evolve(**start, steps=5, dt=0.01)
    assert late.hash == model.compile(0.01, **options).evolve(**start, steps=5).hash
    with pytest.raises(tp.InputError, match="dt is missing"):
        model.compile(**options).evolve(**start, steps=5)
    try:
        model.compile(backend="gpu", **options)
    except tp.BackendError as error:
        assert "no GPU was found" in str(error)


def test_a_step_that_comes_with_the_run_and_is_too_long_for_leapfrog_is_heeded():
    stiff = tp.hamiltonian(lambda q, p: p**2 / 2 + 1e6 * q**2 / 2 + q**4)
    start = dict(q=1.0, p=0.0, steps=10)
    assert tp.compile(stiff).evolve(**start, dt=0.1).hash == tp.compile(stiff, dt=0.1).evolve(**start).hash


@pytest.mark.requirement("S2-72")
def test_the_two_compilers_agree_on_plain_functions_and_on_dt():
    def H(q, p):
        return p**2 / 2 - np.cos(q)

    for step in (
        tp.kernel.compile(H, dt=0.02),
        tp.kernel.compile(H, 0.02),
        tp.kernel.compile(H, "leapfrog", 0.02),
    ):
        assert step(1.0, 0.0) == tp.kernel.compile(H)(1.0, 0.0, dt=0.02)
    out = tp.compile(H, method="leapfrog").evolve(q=1.0, p=0.0, steps=1, dt=0.01)
    assert np.allclose(tp.kernel.compile(H)(1.0, 0.0), (out.final.q, out.final.p), rtol=0, atol=1e-16)


def test_systems_as_objects():
    from tinyphysics import AutoLinearizer, Compiler, HamiltonianSystem, LagrangianSystem

    def L(q, v):
        return 0.5 * (v**2).sum() - (1 - q.cos()).sum()

    step = LagrangianSystem(L).to_symplectic_step(dt=0.01)
    q, p = step(1.0, 0.0)
    other = HamiltonianSystem(lambda q, p: p**2 / 2 - q.cos()).to_symplectic_step(dt=0.01)(1.0, 0.0)
    assert np.allclose((q, p), other, atol=1e-6)
    assert tp.assert_symplectic(step, q=1.0, p=0.3).symplectic
    assert LagrangianSystem(L, (3,)).to_symplectic_step(dt=0.01)([1.0, 2.0, 3.0], np.zeros(3))[0].shape == (
        3,
    )
    with pytest.raises(tp.PlanError, match="is not shown to be symplectic"):
        HamiltonianSystem(lambda q, p: p**2 / 2 + q**2).to_symplectic_step(method="rk4")
    assert Compiler is tp.Compiler and AutoLinearizer is tp.AutoLinearizer


@pytest.mark.requirement("S2-41")
def test_both_spellings_of_the_order_are_accepted():
    quartic = tp.hamiltonian(lambda q, p: p**2 / 2 + q**4)
    programs = {tp.compile(quartic, dt=0.1, **{name: 6}).tpir.hash for name in ("order", "target_order")}
    assert len(programs) == 1


# --- the listing of sixteen lines ----------------------------------------------------------------------------
SIXTEEN = """
01 LOAD      S0, ptr_q
02 LOAD      S1, ptr_p
03 ELEM      T0, S0, sq
04 ELEM      T1, S1, sq
05 FMA       E0, T0, 0.5, 0
06 FMA       E1, T1, 0.5, E0
07 GRAD_INIT G1
08 FMA       G1, S1, 1.0
09 GRAD_INIT G0
10 FMA       G0, S0, 1.0
11 POISSON_J F0, G1, type=PASS
12 POISSON_J F1, G0, type=NEGATE
13 SYMP_STEP S0, F0, 0.01
14 SYMP_STEP S1, F1, 0.01
15 STORE     ptr_q, S0
16 STORE     ptr_p, S1
"""


@pytest.mark.requirement("S3-15", "S3-08", "S3-09")
def test_the_listing_as_it_is_printed_is_read_and_answered_with_the_corrected_one():
    program = tpir.parse(SIXTEEN)
    assert len([*program.numbered()]) == 16 and [s.name for s in program.states] == ["q", "p"]
    with pytest.raises(VerifyError) as caught:
        tpir.verify(program)
    told, _, listing = str(caught.value).partition("  The corrected listing:\n")
    assert "uses F1, computed from S0@0; S0 is now S0@1" in told and "Recompute dH/dq after the drift" in told
    mended = tpir.parse(listing)
    assert len([*mended.numbered()]) == 16
    certificate = tpir.verify(mended)
    assert certificate.symplectic and certificate.consistent
    out = tpir.vm.run(mended, {"q": 1.0, "p": 0.0}, steps=10_000)
    assert abs(out["q"] ** 2 + out["p"] ** 2 - 1) < 0.01  # the printed one has grown e times


def test_a_listing_without_loads_or_with_gaps_says_so():
    with pytest.raises(VerifyError, match="loads S1"):
        tpir.parse("LOAD S1, ptr_p\nSYMP_STEP S1, F1, 0.01")
    with pytest.raises(VerifyError, match="has no name"):
        tpir.parse("; nothing\n")
