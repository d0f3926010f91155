"""Is every certificate of a kick with its force gradient true?  Attacks, each yes checked on numbers."""

import random
import re

import numpy as np
import pytest
from test_verifier import assert_true

import tinyphysics as tp
from tinyphysics.physics.zoo import henon_heiles
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.tpir import parse, verify

GRADIENTS = [name for name, m in BY_NAME.items() if m.gradients]
START = [0.3, -0.2, 0.25, 0.4]


def text_of(system, method):
    """The listing without its claims, as something to spoil."""
    return re.sub(r"claim.*\n", "", str(tp.compile(system, dt=0.05, method=method).tpir))


def spoilt(text, pattern, new, count=1):
    out, n = re.subn(pattern, new, text, count=count)
    assert n, pattern
    return parse(out)


@tp.hamiltonian
def skewed(q: tp.Vec[2], p: tp.Vec[2]):
    """A metric that is not diagonal."""
    return (
        p[0] ** 2
        + p[0] * p[1] / 2
        + p[1] ** 2 / 2
        + tp.sin(q[0]) * tp.cos(q[1])
        + q[0] ** 2 * q[1]
        + q[1] ** 4
    )


@tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])
def two_pairs(x, px, y, py, k=0.5):
    """Forces of one pair that hold the other, and one that is a coordinate."""
    return (px**2 + py**2) / 2 + x * y + k * x**3 + x**2 * y**4


@tp.hamiltonian
def equal_slopes(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 - tp.cos(q[0] + q[1])


@pytest.mark.requirement("S2-57", "S2-41")
@pytest.mark.parametrize("method", GRADIENTS)
@pytest.mark.parametrize("system", [henon_heiles, skewed, two_pairs, equal_slopes], ids=lambda s: s.name)
def test_a_force_gradient_step_is_what_its_certificate_says(system, method):
    certificate, found = assert_true(parse(text_of(system, method)), START, params={"k": 0.5})
    assert certificate.symplectic and certificate.consistent
    assert bool(certificate.symmetric) is BY_NAME[method].symmetric
    assert "falls as dt**2" in certificate.consistent.because


@pytest.mark.parametrize("seed", range(12))
def test_random_potentials_with_force_gradients(seed):
    rng = random.Random(seed)
    n = rng.choice([1, 2, 3])

    def energy(q, p):
        r = random.Random(seed)
        out = sum(p[k] ** 2 * r.choice([0.5, 1.0, 0.25]) for k in range(n)) + (
            p[0] * p[-1] / 8 if r.random() < 0.5 else 0.0
        )
        for _ in range(3):
            x, y = q[r.randrange(n)], q[r.randrange(n)]
            out = (
                out
                + r.choice(
                    [
                        lambda: tp.sin(x) * y,
                        lambda: tp.exp(-x * x),
                        lambda: x * x * y,
                        lambda: x**4 / 4,
                        lambda: tp.log(2 + x * x) * y,
                        lambda: 1 / tp.sqrt(2 + (x - y) ** 2),
                    ]
                )()
            )
        return out

    energy.__annotations__ = {"q": tp.Vec[n], "p": tp.Vec[n]}
    method = rng.choice(GRADIENTS)
    certificate, _ = assert_true(
        parse(text_of(tp.hamiltonian(energy), method)), [rng.uniform(-0.5, 0.5) for _ in range(2 * n)]
    )
    assert certificate.symplectic and certificate.consistent, f"{method}\n{certificate}"


# --- attacks --------------------------------------------------------------------------------------------
def test_a_gradient_that_comes_with_dt_is_symplectic_and_not_shown_to_be_even():
    program = spoilt(text_of(henon_heiles, "chin4a"), r"mul, \$dt, \$dt", "mul, $dt, 1.0")
    certificate, found = assert_true(program, START)
    assert certificate.symplectic and not certificate.symmetric and not certificate.consistent
    assert found["symmetric"] > 1e-6 and "depends on dt" in certificate.symmetric.because


@pytest.mark.parametrize(
    "pattern, new",
    [
        (r"FMA (T\d+), (T\d+), 2\.0, (T\d+)", r"FMA \1, \2, 2.5, \3"),
        (r"FMA (T\d+), -2\.0, (T\d+), (T\d+)", r"FMA \1, 2.0, \2, \3"),
    ],
)
def test_what_is_not_the_gradient_of_one_function_is_found(pattern, new):
    """One component of V'' V' altered: still a shear, and fresh."""
    program = spoilt(text_of(henon_heiles, "chin4a"), pattern, new)
    certificate, found = assert_true(program, START)
    assert not certificate.symplectic and certificate.volume_preserving and found["symplectic"] > 1e-7
    assert "curl" in certificate.symplectic.because


def test_gradients_that_differ_between_the_halves_are_no_palindrome():
    text = text_of(henon_heiles, "chin4b")
    scale = re.search(r"  (ELEM (T\d+), mul, (-0\.0\d+), T\d+)\n  (MOVE (T\d+):f64\[2\], expand, \2)\n", text)
    coefficient, array = scale.group(3), scale.group(5)
    other = (
        f"{scale.group(0)}  ELEM T900, mul, {2 * float(coefficient)!r}, $dt\n"
        "  ELEM T901, mul, T900, $dt\n  MOVE T902:f64[2], expand, T901\n"
    )
    head, _, tail = text.replace(scale.group(0), other).partition("\nstep:\n")
    at = tail.rindex(f", {array},")
    program = parse(head + "\nstep:\n" + tail[:at] + ", T902," + tail[at + len(f", {array},") :])
    certificate, found = assert_true(program, START)
    assert certificate.symplectic and certificate.consistent
    assert not certificate.symmetric and found["symmetric"] > 1e-8


def test_a_gradient_of_the_momenta_is_no_shear():
    text = text_of(henon_heiles, "chin4a")
    program = spoilt(
        text, r"(step:\n(?:.*\n)*?  MOVE T\d+:f64\[2\], stack, )(T\d+)(, T\d+\n  MOVE)", r"\1T777\3"
    )
    program = parse(str(program).replace("step:\n", "step:\n  MOVE T777, element, S1, (0,)\n", 1))
    certificate, found = assert_true(program, START)
    assert not certificate.volume_preserving and not certificate.symplectic


def test_a_step_written_as_a_number_is_not_shown_to_be_consistent_with_a_flow_that_holds_dt():
    text = re.sub(r"(ELEM T\d+, mul, [-\d.]+), \$dt\n", r"\1, 0.05\n", text_of(henon_heiles, "chin4a"))
    certificate = verify(parse(text))
    assert certificate.symplectic and not certificate.consistent and not certificate.symmetric


def test_a_weight_of_nine_tenths_is_found_behind_the_gradient():
    program = spoilt(text_of(henon_heiles, "chin4a"), r"mul, 0\.6666666666666666, \$dt", "mul, 0.6, $dt")
    certificate, _ = assert_true(program, START)
    assert certificate.symplectic and not certificate.consistent
    assert "total weight 0.93" in certificate.consistent.because


@pytest.mark.parametrize("n", [5, 40])
def test_a_wrong_gradient_of_many_bodies_is_not_certified(n):
    @tp.hamiltonian
    def stars(q: tp.Array[n, 3], p: tp.Array[n, 3], soft: float = 0.5):
        d = q[:, None] - q[None, :]
        return (p * p).sum() / 2 - (1 / tp.sqrt((d * d).sum(-1) + soft**2)).sum() / 2

    text = text_of(stars, "takahashi_imada4")
    assert verify(parse(text)).symplectic
    program = spoilt(text, r"(step:\n(?:.*\n)*?.*FMA T\d+:f64\[\d+, \d+\]), 2\.0,", r"\g<1>, 3.0,")
    certificate = verify(program)
    assert not certificate.symplectic and certificate.volume_preserving


def test_an_energy_that_holds_dt_is_not_taken_for_its_limit():
    text = text_of(henon_heiles, "chin4a").replace("energy:\n", "energy:\n  ELEM T800, mul, $dt, 1.0\n")
    text = re.sub(r"FMA E1, (.*), (T\d+)", r"FMA T801, \1, \2\n  FMA E1, T800, T800, T801", text)
    certificate = verify(parse(text))
    assert certificate.symplectic and not certificate.symmetric and not certificate.consistent


# --- processors -----------------------------------------------------------------------------------------
def test_a_processor_that_is_not_undone_is_found():
    text = text_of(henon_heiles, "takahashi_imada4")
    head, _, tail = text.partition("\nfinal:\n")
    lines = tail.splitlines()
    kicks = [k for k, line in enumerate(lines) if "SYMP_STEP S1" in line]
    del lines[kicks[0]]
    certificate, found = assert_true(parse(head + "\nfinal:\n" + "\n".join(lines)), START)
    assert certificate.symplectic and not certificate.consistent
    assert "is not undone by `init`" in certificate.consistent.because


def test_a_processor_makes_a_step_conjugate_to_a_palindrome_and_no_palindrome():
    certificate, found = assert_true(parse(text_of(henon_heiles, "takahashi_imada4")), START, dt=0.4)
    assert not certificate.symmetric and found["symmetric"] > 1e-9
    assert certificate.consistent and certificate.symplectic


# --- time -----------------------------------------------------------------------------------------------
@tp.hamiltonian
def both(q, p, t):
    return p**2 / (2 + tp.cos(t)) + q**2 / 2 + q**4 / 4 - q * tp.sin(2 * t)


@pytest.mark.parametrize(
    "method", ["symplectic_euler", "leapfrog_kdk", "leapfrog_dkd", "yoshida4", "kahan_li6"]
)
def test_time_as_a_third_part_is_what_its_certificate_says(method):
    certificate, _ = assert_true(parse(text_of(both, method)), [0.3, 0.4])
    assert certificate.symplectic and certificate.consistent
    assert bool(certificate.symmetric) is BY_NAME[method].symmetric and not certificate.reversible


@pytest.mark.parametrize(
    "method, old, new",
    [("leapfrog_kdk", "1.0", "0.5"), ("leapfrog_dkd", "0.5", "0.0"), ("yoshida4", "1.0", "0.75")],
)
def test_a_clock_that_is_off_breaks_the_palindrome_of_three_parts(method, old, new):
    head, _, tail = text_of(both, method).partition("\nstep:\n")
    at = tail.index("TIME ")
    program = parse(
        head + "\nstep:\n" + tail[:at] + re.sub(rf"(TIME T\d+, ){old}", rf"\g<1>{new}", tail[at:], count=1)
    )
    certificate, found = assert_true(program, [0.3, 0.4])
    assert not certificate.symmetric and found["symmetric"] > 1e-6


def test_a_drift_at_another_time_than_the_next_step_would_see_cannot_be_merged():
    """Both half drifts of C T V T C see the middle of their own step; of the next step it is another middle."""
    step = tp.compile(both, dt=0.1, method="leapfrog_dkd").built.step
    assert not step.init and not step.final and [b.clock for b in step.body] == [0.5, 0.5, 0.5]
    assert np.isclose(sum(s.weight for b in step.body for s in b.shears), 2.0)
