"""Are the equations of a step solved, the same everywhere, and is it said where they are not?"""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics import tpir
from tinyphysics.errors import PhysicsIntegrityError, PlanError, VerifyError
from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.linear import inverse
from tinyphysics.synth.methods.implicit import gauss
from tinyphysics.tpir.kernels.kernel import build_kernel

METHODS = ("implicit_midpoint", "gauss4", "gauss6")
BACKENDS = ("python", "numpy", "llvm", "c")


@tp.hamiltonian
def curved(q, p):
    return (1 + q**2) * p**2 / 2 + q**4


@tp.hamiltonian
def rotating(q: tp.Vec[2], p: tp.Vec[2], omega: float = 0.3):
    return p @ p / 2 - omega * (q[0] * p[1] - q[1] * p[0]) + tp.cos(q[0]) * q[1] ** 2 + q @ q


@tp.hamiltonian
def arrays(q: tp.Vec[3], p: tp.Vec[3]):
    return (p * p * (1 + q * q)).sum() / 2 + (q * q).sum()


def bits(out):
    return out.final.q.tobytes() + out.final.p.tobytes()


# --- the same bits everywhere ----------------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "system, start",
    [
        (curved, {"q": np.linspace(-1, 1, 13), "p": np.linspace(0.2, 2, 13)}),
        (rotating, {"q": np.linspace(-1, 1, 26).reshape(13, 2), "p": np.linspace(2, -1, 26).reshape(13, 2)}),
    ],
)
def test_every_backend_has_the_same_bits(system, start, method):
    found = {
        b: bits(tp.compile(system, dt=0.1, method=method, backend=b).evolve(**start, steps=7))
        for b in BACKENDS
    }
    assert len(set(found.values())) == 1


def test_a_member_has_the_bits_that_it_has_alone():
    """Whoever shares its vector: a lane waits where it has arrived."""
    sim = tp.compile(curved, dt=0.2)
    q, p = np.geomspace(1e-9, 1.5, 11), np.linspace(-2, 2, 11)
    together = sim.evolve(q=q, p=p, steps=50)
    for k in range(11):
        alone = sim.evolve(q=q[k], p=p[k], steps=50)
        assert alone.final.q == together.final.q[k] and alone.final.p == together.final.p[k]


def test_a_slope_beyond_the_fast_path_of_a_function_is_done_carefully():
    """cos of a large argument has a path of its own, and a round may need it."""
    far = {"q": np.array([[1e7, 0.1], [0.1, 0.2]]), "p": np.zeros((2, 2))}
    found = {
        b: bits(tp.compile(rotating, dt=1e-3, method="implicit_midpoint", backend=b).evolve(**far, steps=3))
        for b in BACKENDS
    }
    assert len(set(found.values())) == 1


def test_a_run_that_is_resumed_has_the_bits_of_one_that_was_not(tmp_path):
    sim = tp.compile(rotating, dt=0.1, method="gauss4")
    start = {"q": [0.5, 0.1], "p": [0.0, 0.4]}
    whole = sim.evolve(**start, steps=40)
    sim.evolve(**start, steps=25, checkpoint=tmp_path / "run.checkpoint")
    assert bits(sim.evolve(steps=15, resume=tmp_path / "run.checkpoint")) == bits(whole)


# --- right -----------------------------------------------------------------------------------------------
@pytest.mark.requirement("S2-38")
@pytest.mark.parametrize("method, order", [*zip(METHODS, (2, 4, 6))])
def test_the_error_falls_as_the_order_says(method, order):
    start, until = {"q": [0.5, 0.1], "p": [0.0, 0.4]}, 4.0
    exact = tp.compile(rotating, dt=0.005, method="gauss6").evolve(**start, until=until).final.q
    coarse, fine = (
        np.linalg.norm(
            tp.compile(rotating, dt=dt, method=method).evolve(**start, until=until).final.q - exact
        )
        for dt in (0.2, 0.1)
    )
    assert order - 0.3 < np.log2(coarse / fine) < order + 0.5


@pytest.mark.requirement("S2-38")
@pytest.mark.parametrize("method", METHODS)
def test_a_solved_step_is_symplectic_where_it_is_measured(method):
    sim = tp.compile(curved, dt=0.05, method=method)
    out = sim.evolve(q=0.5, p=0.5, steps=100_000, save_every=20_000)
    assert (
        out.stopped is None
        and out.drift("energy") < {"implicit_midpoint": 6e-4, "gauss4": 2e-7, "gauss6": 4e-11}[method]
    )
    for q, p in zip(out.q, out.p):
        assert tp.measure_symplectic(sim, q=float(q), p=float(p)).symplectic


def test_quadratic_energies_are_kept_to_rounding():
    @tp.hamiltonian
    def turning(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + q @ q - 0.5 * (q[0] * p[1] - q[1] * p[0])

    out = tp.compile(turning, dt=0.3, method="implicit_midpoint", propagator="loop").evolve(
        q=[1.0, 0.0], p=[0.0, 0.5], steps=10_000
    )
    assert out.drift("energy") < 1e-13


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_the_coefficients_of_gauss_are_symplectic_to_the_last_bit(stages):
    g = gauss(stages)
    assert all(g.mu[i][j] + g.mu[j][i] == 1.0 for i in range(stages) for j in range(stages))
    for k in range(2 * stages):  # a quadrature of order twice the stages, and collocation
        assert abs(sum(b * c**k for b, c in zip(g.b, g.c)) - 1 / (k + 1)) < 1e-15
    for row, c in zip(g.a, g.c):
        for k in range(stages):
            assert abs(sum(a * x**k for a, x in zip(row, g.c)) - c ** (k + 1) / (k + 1)) < 1e-15


def test_an_inverse_is_written_out():
    rng = np.random.default_rng(3)
    a = np.eye(5) + 0.1 * rng.normal(size=(5, 5))
    names = [[UOp.var(f"a{i}{k}") for k in range(5)] for i in range(5)]
    env = {f"a{i}{k}": float(a[i, k]) for i in range(5) for k in range(5)}
    found = tpir.vm.Expression([x for row in inverse(names) for x in row], list(env))(*env.values())
    assert np.abs(np.array(found).reshape(5, 5) @ a - np.eye(5)).max() < 1e-14


# --- what is not solved ------------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_that_is_too_long_is_not_accepted(backend):
    sim = tp.compile(curved, dt=3.0, backend=backend)
    out = sim.evolve(q=np.array([0.1, 40.0]), p=np.array([0.1, 70.0]), steps=20)
    assert out.stopped.cause == "not solved" and out.stopped.member == 1
    assert np.isfinite(out.final.q).all()


def test_strict_checks_say_that_it_was_not_solved():
    with pytest.raises(PhysicsIntegrityError, match="could not be solved"):
        tp.compile(curved, dt=3.0, checks="strict").evolve(q=40.0, p=70.0, steps=20)


def test_what_does_not_go_with_a_solution_is_refused():
    for options in (
        {"precision": "float32"},
        {"precision": "dd"},
        {"precision": "lattice"},
        {"scale": "auto"},
    ):
        with pytest.raises(PlanError, match="solves equations"):
            tp.compile(curved, dt=0.1, **options)
    with pytest.raises(PlanError, match="not given by an energy"):
        tp.compile(tp.forces(lambda q: -q), dt=0.1, method="gauss4")


# --- the program -------------------------------------------------------------------------------------------
def test_a_program_that_solves_reads_back():
    for method in METHODS:
        program = tp.compile(curved, dt=0.1, method=method).tpir
        assert tpir.parse(str(program)) == program and program.hash == tpir.parse(str(program)).hash


def listing(method="implicit_midpoint"):
    return str(tp.compile(curved, dt=0.1, method=method).tpir)


def test_a_residual_of_another_energy_is_not_certified():
    """The unknown is found all the same: the certificate is about what it is the root of."""
    text = listing().replace("claim symplectic consistent symmetric\n", "")
    body = text[text.index("SOLVE") : text.index("UNTIL")]
    changed = text.replace(body, body.replace("mul, 4.0,", "mul, 4.5,"))
    assert changed != text
    verdict = tpir.verify(tpir.parse(changed)).symplectic
    assert not verdict and "is not that of a stage" in verdict.because


def test_a_move_by_another_slope_is_not_certified():
    text = listing().replace("claim symplectic consistent symmetric\n", "")
    before, _, after = text.partition("UNTIL")
    changed = before + "UNTIL" + after.replace("mul, 4.0,", "mul, 4.5,")
    verdict = tpir.verify(tpir.parse(changed)).symplectic
    assert not verdict and "slope of the declared energy at a stage" in verdict.because


def test_other_coefficients_are_not_symplectic():
    """Halfway between the middle and the end: stages of f, but no symplectic ones, nor symmetric."""
    text = listing().replace("claim symplectic consistent symmetric\n", "")
    text = text.replace("mul, 0.5, $dt", "mul, 0.75, $dt")
    certificate = tpir.verify(tpir.parse(text))
    assert not certificate.symplectic and "b_i a_ij" in certificate.symplectic.because
    assert not certificate.symmetric and certificate.consistent


def test_an_unknown_that_starts_elsewhere_is_not_consistent():
    text = listing()
    i = text.index("SOLVE T")
    name = text[i:].split()[1].split(":")[0]
    start = text[i:].splitlines()[0].split(", ")[1]
    changed = text.replace("claim symplectic consistent symmetric\n", "").replace(
        f"  SOLVE {name}:f64[2], {start}",
        f"  ELEM T999:f64[2], mul, {start}, 3.0\n  SOLVE {name}:f64[2], T999",
    )
    assert changed.count("T999") == 2
    certificate = tpir.verify(tpir.parse(changed))
    assert (
        certificate.symplectic
        and not certificate.consistent
        and "another root" in certificate.consistent.because
    )


@tp.hamiltonian
def trapped(q, p):
    return (1 + q**2) * p**2 / 2 + 3.0 * q**4


CHANGES = {  # of a kick beside equations: what is changed, what is lost, and why
    "half a kick that is not taken back": (
        "mul, -0.5, $dt",
        "mul, -0.4, $dt",
        "symplectic",
        "not taken back in `final`",
    ),
    "a force of no energy": ("mul, 12.0,", "mul, 11.0,", "symplectic", "is not a kick by a term"),
    "a kick that is too long": (
        "SYMP_STEP S1, F1.2, $dt",
        "SYMP_STEP S1, F1.2, 0.2",
        "symplectic",
        "not shown to be a multiple of dt",
    ),
}


@pytest.mark.parametrize("old, new, lost, why", CHANGES.values(), ids=CHANGES)
def test_a_kick_beside_equations_is_held_against_the_energy(old, new, lost, why):
    text = str(tp.compile(trapped, dt=0.1, method="kick_midpoint").tpir)
    assert tpir.verify(tpir.parse(text)).symplectic and old in text, text
    changed = "\n".join(x for x in text.replace(old, new).splitlines() if not x.startswith("claim"))
    verdict = tpir.verify(tpir.parse(changed))[lost]
    assert not verdict and re.search(why, verdict.because), verdict.because


def test_a_generating_function_alone_is_symplectic_and_not_symmetric():
    text = str(tp.compile(trapped, dt=0.1, method="stormer_verlet_implicit").tpir)
    head, step, rest = text.partition("step:\n")
    body, final, end = rest.partition("final:\n")
    first = body.splitlines(keepends=True)
    last = [k for k, x in enumerate(first) if x.strip().startswith("SYMP_STEP")][1]
    program = tpir.parse(re.sub("claim.*\n", "", head) + step + "".join(first[: last + 1]) + final + end)
    certificate = tpir.verify(program)
    assert certificate.symplectic and not certificate.symmetric
    assert not certificate.consistent and "total weight 0.5" in certificate.consistent.because


COPIES = {  # of two copies: what is changed, and what is said
    "a projection that is not symmetric": ("mul, 0.5,", "mul, 0.25,", "."),
    "a slope of another energy": (
        "mul, 12.0,",
        "mul, 11.0,",
        "slopes of the declared energy|flows of copies",
    ),
}


@pytest.mark.parametrize("old, new, why", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("method", ["extended_phase_space", "extended_phase_space4"])
def test_a_step_of_two_copies_is_held_against_the_energy(method, old, new, why):
    text = str(tp.compile(trapped, dt=0.1, method=method).tpir)
    certificate = tpir.verify(tpir.parse(text))
    assert (
        certificate.symplectic and certificate.symmetric and certificate.consistent and certificate.reversible
    )
    head, line, rest = text.partition("SOLVE")
    changed = re.sub("claim.*\n", "", head) + line + rest.replace(old, new, 1 if "slope" in why else -1)
    assert changed.count(new) > 0
    verdict = tpir.verify(tpir.parse(changed)).symplectic
    assert not verdict and re.search(why, verdict.because), verdict.because


def test_an_energy_that_jumps_is_not_consistent():
    @tp.hamiltonian
    def stepped(q, p):
        return (1 + q**2) * p**2 / 2 + tp.where(q < 0.3, 0.0, 1.0)

    certificate = tp.compile(stepped, dt=0.1).certificate
    assert not certificate.consistent and "may jump" in certificate.consistent.because


WRONG = {
    "UNTIL T1:f64[2], T0, T0, (50,)": "does not end the last SOLVE",
    "SOLVE T1:f64[2], T0": "has no UNTIL",
    "SOLVE T1:f64[2], T0\n  MAP S0:f64[2], T1\n  UNTIL T1:f64[2], T1, T0, (50,)": "more than once",
    "SOLVE T1:f64[2], T0\n  UNTIL T1:f64[2], T1, T1, T0, (50,)": "equations that do not fit",
    "SOLVE T1:f64[2], T0\n  ELEM T2:f64[2], mul, T1, T1\n  UNTIL T1:f64[2], T2, T0, (50,)\n  MAP S0:f64[2], T2": "nothing has written",
}


@pytest.mark.parametrize("lines", WRONG, ids=WRONG.values())
def test_a_malformed_solution_is_refused(lines):
    text = f"""program p
state S0 x f64[2] field
init:
  LOAD S0:f64[2], &x
step:
  ELEM T0:f64[2], mul, S0, 1.0
  {lines}
final:
  STORE &x, S0
"""
    with pytest.raises(VerifyError, match=WRONG[lines]):
        tpir.verify(tpir.parse(text))


def test_a_solution_of_any_equation_can_be_written():
    """x**2 = a, by the rule of Newton: the virtual machine and the kernel find the same root."""
    text = """program root
state S0 a f64[1] field
init:
  LOAD S0:f64[1], &a
step:
  ELEM T0:f64[1], div, 1.0, S0
  SOLVE T1:f64[1], S0
  ELEM T2:f64[1], neg, S0
  FMA T3:f64[1], T1, T1, T2
  ELEM T4:f64[1], div, 0.5, T1
  MOVE T5:f64[1, 1], reshape, T4
  UNTIL T1:f64[1], T3, T5, T0, (50,)
  MAP S0:f64[1], T1
final:
  STORE &a, S0
"""
    program = tpir.parse(text)
    tpir.verify(program)
    assert tpir.vm.run(program, {"a": [2.0]}, 1) == {"a": [2.0**0.5]}
    assert np.isnan(tpir.vm.run(program, {"a": [-2.0]}, 1)["a"][0])
    assert build_kernel(program).section("step").operations > 0


def test_arrays_of_states_are_read_number_by_number():
    sim = tp.compile(arrays, dt=0.05, order=4)
    assert sim.certificate.symplectic and sim.certificate.consistent and sim.certificate.reversible
    out = sim.evolve(q=[0.1, 0.2, 0.3], p=[1.0, 0.5, 0.2], steps=100)
    assert out.drift("energy") < 1e-6


def test_a_round_does_not_read_what_the_round_before_has_left():
    @tp.hamiltonian
    def curved(q, p):
        return (1 + q * q) * p * p / 2

    text = tp.compile(curved, dt=0.05, method="implicit_midpoint").ir("tpir")
    solve = next(line for line in text.splitlines() if "SOLVE" in line)
    carried = f"{solve}\n  ELEM T998, add, T999, S0\n  ELEM T999, mul, S0, 0.1"
    with pytest.raises(tp.VerifyError, match="what the round before has left"):
        tpir.verify(tpir.parse(text.replace(solve, carried)))


@pytest.mark.parametrize("method", ["implicit_midpoint", "gauss4", "gauss6", "gonzalez", "itoh_abe"])
@pytest.mark.parametrize(("system", "q"), [("pendulum", math.pi), ("morse", 1.1 + 1e-14)])
def test_a_rest_that_rounding_has_moved_is_solved(method, system, q):
    """The force is what rounding of q leaves of it, and so is p: its digits are not asked to settle."""
    V = {"pendulum": lambda q: -tp.cos(q), "morse": lambda q: (1 - tp.exp(-(q - 1.1))) ** 2}[system]
    sim = tp.compile(tp.hamiltonian(lambda q, p: p**2 / 2 + V(q)), dt=0.05, method=method)
    out = sim.evolve(q=q, p=0.0, steps=100)
    assert out.stopped is None and abs(out.q - q).max() < 1e-12
    # an unstable rest is left as cosh(t) leaves it, a stable one not at all
    assert system == "morse" or abs(out.final.q - q) < 10 * 1.3e-16 * math.cosh(5.0)
