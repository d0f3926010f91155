"""Does a solution follow its Taylor series to thirty digits, on every backend alike?"""

import math

import mpmath
import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.errors import InputError, PlanError
from tinyphysics.ir import UOp
from tinyphysics.ir.value import evaluate
from tinyphysics.rules.digits.double_double import Pair
from tinyphysics.synth.methods.wide_taylor import dot, estimate, orders_in_pairs


@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - tp.cos(q)


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.ode
def driven(x, t):
    return x * tp.cos(t)


def in_full(words):
    return [mpmath.mpf(float(a)) + mpmath.mpf(float(b)) for a, b in zip(*map(np.ravel, words))]


def test_a_pendulum_agrees_with_elliptic_functions_to_thirty_digits():
    out = tp.compile(pendulum, method="taylor", precision="dd").evolve(q=2.0, p=0.0, until=10.0)
    with mpmath.workdps(45):
        k = mpmath.sin(1)
        sn, cn = (mpmath.ellipfun(f, mpmath.ellipk(k * k) - 10, m=k * k) for f in ("sn", "cn"))
        assert abs(in_full(out.final.words("q"))[0] - 2 * mpmath.asin(k * sn)) < 2e-30
        assert abs(in_full(out.final.words("p"))[0] + 2 * k * cn) < 2e-30
    assert out.metrics["precision"] == "dd" and out.metrics["substeps"] < 80


def test_an_orbit_agrees_with_the_equation_of_kepler():
    start, until = dict(q=[0.5, 0.0], p=[0.0, math.sqrt(3.0)]), 20.0
    out = tp.compile(kepler, method="taylor", precision="dd", tolerance=1e-27).evolve(**start, until=until)
    with mpmath.workdps(45):
        r, v = mpmath.mpf(0.5), mpmath.mpf(start["p"][1])
        a = 1 / (2 / r - v * v)
        e, n = 1 - r / a, a ** mpmath.mpf(-1.5)
        E = mpmath.findroot(lambda E: E - e * mpmath.sin(E) - n * until, n * until)
        wanted = a * (mpmath.cos(E) - e), a * mpmath.sqrt(1 - e * e) * mpmath.sin(E)
        assert all(abs(x - y) < 1e-26 for x, y in zip(in_full(out.final.words("q")), wanted))


def test_rates_see_the_time_in_two_words():
    out = tp.compile(driven, precision="dd").evolve(x=1.0, t0=0.1, until=3.0)
    with mpmath.workdps(45):
        wanted = mpmath.exp(mpmath.sin(3) - mpmath.sin(mpmath.mpf(0.1)))
        assert abs(in_full(out.final.words("x"))[0] - wanted) < 1e-30


@pytest.mark.parametrize("backend", ["c", "numpy", "python"])
def test_every_backend_has_the_same_bits(backend):
    start = dict(q=np.array([2.0, 0.5]), p=np.array([0.0, 1.0]))
    runs = [
        tp.compile(pendulum, dt=0.25, method="taylor", precision="dd", tolerance=1e-20, backend=b).evolve(
            **start, steps=2, save_every=1
        )
        for b in ("llvm", backend)
    ]
    assert runs[0].hash == runs[1].hash and (runs[0].words("q").arrays["q.low"] != 0.0).any()
    assert (runs[0].words("q").arrays["q.low"] == runs[1].words("q").arrays["q.low"]).all()


def test_who_looks_who_else_runs_and_where_it_stopped_changes_nothing(tmp_path):
    sim = tp.compile(pendulum, dt=0.5, method="taylor", precision="dd", tolerance=1e-20)
    often = sim.evolve(q=2.0, p=0.0, steps=12, save_every=1, observe={"speed": lambda p: p * p})
    once = sim.evolve(q=2.0, p=0.0, steps=12)
    many = sim.evolve(q=np.linspace(1.0, 2.0, 5), p=np.zeros(5), steps=12, threads=2)
    assert often.hash == once.hash
    assert all(many.final.words("q").arrays[w][-1] == once.final.words("q").arrays[w] for w in ("q", "q.low"))
    sim.evolve(q=2.0, p=0.0, steps=5, checkpoint=tmp_path / "run")
    assert sim.evolve(resume=tmp_path / "run", steps=7).hash == once.hash
    on = sim.evolve(q=once.final.words("q"), p=once.final.words("p"), steps=0)
    assert on.hash == once.hash
    assert once.drift("energy") < 1e-19


def test_events_are_found_with_the_digits_of_a_float64():
    found = [
        tp.compile(pendulum, method="taylor", precision=p, tolerance=1e-15)
        .evolve(q=1.0, p=0.0, until=10.0, events={"down": lambda q: q})
        .events("down")
        .t
        for p in ("float64", "dd")
    ]
    assert found[0] == pytest.approx(found[1], abs=1e-13) and len(found[0]) == 3


def test_what_a_later_term_rounds_is_within_the_tolerance():
    for tolerance, order in ((2.0**-104, 30), (1e-25, 25), (1e-12, 13)):
        last = orders_in_pairs(tolerance, order)
        assert math.exp(-2.5 * (last - 2)) * 2.0**-52 <= tolerance or last == order
    assert orders_in_pairs(2.0**-104, 12) == 12


def test_a_sum_of_products_that_cancels_keeps_the_digits_of_pairs():
    x = [Pair(*(UOp.var(f"{name}{k}") for name in "ab")) for k in range(6)]
    total = dot([(x[0], x[1]), (x[2], x[3]), (x[4], x[5])], None)
    values = [(1.0, 1e-17), (1e8, 3e-9), (-1e8, 2e-9), (1.0, 1e-17), (3.0, 1e-17), (1 / 3, 1e-18)]
    env = {f"{name}{k}": w for k, pair in enumerate(values) for name, w in zip("ab", pair)}
    high, low = evaluate([total.high, total.rest], env)
    with mpmath.workdps(60):
        full = [mpmath.mpf(a) + mpmath.mpf(b) for a, b in values]
        wanted = full[0] * full[1] + full[2] * full[3] + full[4] * full[5]
        assert abs(mpmath.mpf(high) + mpmath.mpf(low) - wanted) < 2e8 * 2.0**-104


def test_series_that_are_too_long_are_refused_before_they_are_written():
    @tp.hamiltonian
    def bodies(q: tp.Array["n", 2], p: tp.Array["n", 2]):
        d = q[:, None] - q[None, :]
        return (p * p).sum() / 2 - tp.pair_sum(1 / tp.sqrt((d * d).sum(2)))

    with pytest.raises(PlanError, match="pairs of float64 are about .* operations"):
        tp.compile(bodies, method="taylor", precision="dd", sizes={"n": 6})
    with pytest.raises(PlanError, match="precision='float32' cannot be combined"):
        tp.compile(pendulum, method="taylor", precision="float32")
    with pytest.raises(InputError, match="between 4.9e-32 and"):
        tp.compile(pendulum, method="taylor", precision="dd", tolerance=1e-40)


def test_the_estimate_counts_what_has_products():
    system = tp.compile(kepler, method="taylor").system
    (q,), (p,) = system.q, system.p
    assert estimate(system, [p, q * -2.0], 1e-30) == 0
    assert estimate(system, [p, q * q], 1e-30) > 1000
