"""Bodies that turn, step by step: exact turns about their axes, what they keep, and what is never certified."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.planner.cost.cost import operations
from tinyphysics.tpir import parse, verify, vm

MOMENTS, L0 = (1.0, 2.0, 3.0), (0.5, 1.1, 0.7)
# the solution of Euler's equations at t = 10, by mpmath.odefun in 30 digits
AT_10 = (0.6368125195347797, -0.766732847773632, -0.9780544745098314)


@tp.hamiltonian(bracket="so3")
def top(L: tp.Vec[3], moments: tp.Vec[3] = MOMENTS):
    return (L**2 / moments).sum() / 2


@tp.hamiltonian(bracket="se3")
def heavy(L: tp.Vec[3], G: tp.Vec[3], moments: tp.Vec[3] = (1.0, 1.0, 0.5), mgl=1.0):
    return (L**2 / moments).sum() / 2 + mgl * G[2]


@tp.hamiltonian(bracket="spin")
def chain(S: tp.Array["n", 3], J=1.0, B: tp.Vec[3] = (0.0, 0.0, 0.3)):  # noqa: F821
    return -J * (S * np.roll(S, 1, axis=0)).sum() - (S @ B).sum()


TILTED = dict(L=[0.0, 0.0, 3.0], G=[np.sin(0.5), 0.0, np.cos(0.5)])


def error(dt, **options):
    out = tp.compile(top, dt=dt, **{"method": "rotations"} | options).evolve(L=L0, steps=round(10 / dt))
    return np.abs(out.final.L - AT_10).max()


# --- errors -----------------------------------------------------------------------------------------------------
@pytest.mark.requirement("S3-20")
def test_turns_about_x_y_z_y_x_have_the_errors_of_the_table():
    assert error(0.1) == pytest.approx(4.158e-4, rel=1e-3)
    assert error(0.05) == pytest.approx(1.038e-4, rel=1e-3)


@pytest.mark.parametrize("order", [4, 6])
def test_turns_have_any_even_order(order):
    slope = np.log2(error(0.5, order=order) / error(0.25, order=order))
    assert slope == pytest.approx(order, abs=0.1)


def test_the_step_keeps_momentum_and_bounds_energy():
    out = tp.compile(top, dt=0.01, method="rotations").evolve(L=L0, steps=20_000, save_every=1_000)
    assert np.abs((out.L**2).sum(-1) / np.dot(L0, L0) - 1).max() < 1e-13
    assert out.drift("energy") < 4e-7


@pytest.mark.all
def test_a_million_steps_keep_momentum_and_bound_energy():
    out = tp.compile(top, dt=0.01, method="rotations").evolve(L=L0, steps=1_000_000, save_every=1_000)
    assert np.abs((out.L**2).sum(-1) / np.dot(L0, L0) - 1).max() < 1e-12
    assert out.drift("energy") == pytest.approx(3.67e-7, rel=0.01)
    rate = out.drift_rate("energy")
    assert abs(rate.slope) < 5 * rate.error


# --- certificates -----------------------------------------------------------------------------------------------
@pytest.mark.requirement("S3-13")
@pytest.mark.parametrize("system, start", [(top, dict(L=L0)), (heavy, TILTED)], ids=["so3", "se3"])
def test_turns_are_poisson_as_proved_and_as_measured(system, start):
    sim = tp.compile(system, dt=0.2)
    assert all(sim.certificate.values())
    assert sim.check(**start).symplectic
    other = tp.compile(system, dt=0.2, method="rk4")
    assert not other.certificate.poisson and not other.check(**start).symplectic


def listing(system=top, **options):
    return str(tp.compile(system, dt=0.1, propagator="loop", **options).tpir)


def test_a_listing_reads_back_and_is_proved_again():
    program = parse(listing())
    assert program.claims[0] == "poisson" and all(verify(program).values())


def changed(text, old, new):
    assert old in text
    return parse(text.replace(old, new))


def test_a_weight_of_nine_tenths_is_refused():
    text = listing()
    with pytest.raises(tp.VerifyError, match="weight|undone"):
        verify(changed(text, "mul, 0.5, $dt", "mul, 0.45, $dt"))


def test_a_turn_under_another_name_is_refused():
    with pytest.raises(tp.VerifyError, match="no part of a step that turns bodies|nothing is known"):
        verify(changed(listing(), "TURN S0:f64[3], ", "MAP S0:f64[3], "))


def test_a_turn_by_the_speed_of_another_axis_is_refused():
    """Numerics 2: an angle that is read from what the turn changes keeps |L| and is no flow."""
    text = listing(system=wobbly)
    found = [line for line in text.splitlines() if "element, S0, (0,)" in line and "T" in line.split(",")[0]]
    with pytest.raises(tp.VerifyError, match="is not shown to turn"):
        verify(changed(text, found[-1], found[-1].replace("(0,)", "(1,)")))


@tp.hamiltonian(bracket="so3")
def wobbly(L: tp.Vec[3]):
    return L[0] ** 2 / 2 + L[1] ** 2 / 4 + L[2] ** 2 / 6


@tp.hamiltonian(bracket="so3")
def coupled(L: tp.Vec[3]):
    return L @ L / 2 + L[0] * L[1] * L[2]


def test_an_energy_that_mixes_axes_is_not_turned_axis_by_axis():
    with pytest.raises(
        tp.PlanError, match="about the axis x is not shown to depend on momenta about x alone"
    ):
        tp.compile(coupled, dt=0.1, method="rotations")


def test_turns_are_for_bodies():
    with pytest.raises(tp.PlanError, match="no state of it turns"):
        tp.compile(tp.physics.zoo.pendulum, dt=0.1, method="rotations")


# --- the same on every machine ------------------------------------------------------------------------------------
@pytest.mark.parametrize("precision", ["float64", "float32", pytest.param("dd", marks=pytest.mark.all)])
def test_turns_have_the_same_bits_on_every_backend(precision):
    runs = [
        tp.compile(heavy, dt=0.1, precision=precision, backend=backend).evolve(**TILTED, steps=7).hash
        for backend in ("python", "numpy", "llvm", "c")
    ]
    assert len(set(runs)) == 1


def test_members_and_checkpoints_have_the_bits_of_one_run(tmp_path):
    sim = tp.compile(heavy, dt=0.1)
    one = sim.evolve(**TILTED, steps=40)
    many = sim.evolve(L=np.repeat([TILTED["L"]], 5, 0), G=np.repeat([TILTED["G"]], 5, 0), steps=40)
    assert all((many.final.L[k] == one.final.L).all() for k in range(5))
    sim.evolve(**TILTED, steps=20, checkpoint=tmp_path / "half.tp")
    again = sim.evolve(resume=tmp_path / "half.tp", steps=20)
    assert (again.final.L == one.final.L).all() and (again.final.G == one.final.G).all()


def test_turns_are_reversed_by_their_inverses():
    sim = tp.compile(heavy, dt=0.1)
    out = sim.evolve(**TILTED, steps=50)
    back = tp.compile(heavy, dt=-0.1).evolve(L=out.final.L, G=out.final.G, steps=50)
    assert np.abs(back.final.L - TILTED["L"]).max() < 1e-13


# --- spins ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [6, 300])
def test_coupled_spins_of_any_number_turn_axis_by_axis(n):
    S = np.random.default_rng(1).normal(size=(n, 3))
    S /= np.linalg.norm(S, axis=1)[:, None]
    sim = tp.compile(chain, dt=0.02, sizes={"n": n})
    assert sim.certificate.poisson and sim.certificate.consistent
    out, ref = (
        sim.evolve(S=S, steps=50),
        tp.compile(chain, dt=0.02, method="rk4", sizes={"n": n}).evolve(S=S, steps=50),
    )
    assert np.abs(np.linalg.norm(out.final.S, axis=1) - 1).max() < 1e-14
    assert np.abs(out.final.S - ref.final.S).max() < 2e-3


# --- listings by hand ---------------------------------------------------------------------------------------------
BY_HAND = """program euler
claim poisson
state S0 L f64[3] so3
param $dt f64[]
param $a f64[3]
energy:
  ELEM T0:f64[3], mul, S0, S0
  ELEM T1:f64[3], mul, T0, $a
  SUM T2, T1, (0,)
  ELEM E0, mul, T2, 0.5
init:
  LOAD S0:f64[3], &L
step:
  ELEM T3:f64[3], mul, S0, $a
  GRAD_INIT G0:f64[3], T3
  POISSON_J F0:f64[3], G0, lie
  SYMP_STEP S0:f64[3], F0, $dt
final:
  STORE &L, S0
"""


@pytest.mark.requirement("S3-20")
def test_a_lie_bracket_is_read_as_a_vector_product_and_counted_as_one():
    program = parse(BY_HAND.replace("claim poisson\n", ""))
    text = str(program)
    assert "LIE_CROSS F0:f64[3], S0, G0  ; P(L) as a vector product: 15 -> 9 flops a row" in text
    assert parse(text) == program
    (line,) = [i for i in program.step if i.op == "LIE_CROSS"]
    assert operations((line,), program) == {"mul": 6, "sub": 3}


def test_adding_a_lie_flow_is_refused_under_a_poisson_claim_and_grows_without():
    with pytest.raises(tp.VerifyError, match="leaves the sphere"):
        verify(parse(BY_HAND))
    machine = vm.Machine(parse(BY_HAND.replace("claim poisson\n", "")))
    loop = machine.start({"L": list(L0)}, {"a": [1.0, 0.5, 1 / 3]}, 0.01, 0.0)
    machine.advance(loop, 10_000)
    now = np.array(machine.final(loop)["L"])
    assert now @ now / np.dot(L0, L0) - 1 > 0.003  # C-06: it grows, where a turn keeps it to rounding
