"""Averages with error bars: of series whose error is known, and of series that say that theirs is not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

import tinyphysics as tp


def series(rho, n, seed, copies=1):
    """x' = rho x + noise, with variance 1 from the beginning on."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(n, copies)) * np.sqrt(1 - rho**2)
    noise[0] = rng.normal(size=copies)
    return lfilter([1.0], [1.0, -rho], noise, axis=0)


def error_of_mean(rho, n):
    return np.sqrt((1 + rho) / (1 - rho) / n)


def found(rho, n, seeds):
    return [tp.statistics(series(rho, n, seed)[:, 0]) for seed in range(seeds)]


def check(rho, n, seeds, low, high, rel):
    all_ = found(rho, n, seeds)
    truth = error_of_mean(rho, n)
    assert np.mean([s.error for s in all_]) == pytest.approx(truth, rel=rel)
    covered = np.mean([abs(s.mean) < 1.96 * s.error for s in all_])
    assert low <= covered <= high
    assert np.mean([s.converged for s in all_]) > 0.9


def test_the_error_of_a_mean_is_that_of_correlated_numbers():
    check(0.9, 4000, 60, 0.85, 1.0, 0.06)


@pytest.mark.all("400 series of 100,000 numbers")
def test_the_row_of_the_table():
    assert error_of_mean(0.99, 100_000) == pytest.approx(0.04461, abs=1e-5)
    check(0.99, 100_000, 400, 0.92, 0.97, 0.03)


@pytest.mark.all("1,600 series of 100,000 numbers")
def test_intervals_are_neither_too_wide_nor_too_narrow():
    """Of 400 intervals that are right 95 in 100 times, more than 388 hold the truth in one set of fifty: four sets at once."""
    check(0.99, 100_000, 1600, 0.935, 0.965, 0.01)


def test_independent_numbers_have_half_a_correlation_time():
    s = tp.statistics(series(0.0, 20_000, 1)[:, 0])
    assert s.tau == pytest.approx(0.5, rel=0.1) and s.effective == pytest.approx(20_000, rel=0.1)
    assert s.error == pytest.approx(1 / np.sqrt(20_000), rel=0.1) and s.start == 0 and s.converged


def test_a_series_that_is_too_short_is_not_converged():
    s = tp.statistics(np.cumsum(series(0.0, 500, 1)[:, 0]))
    assert not s.converged and "not converged" in str(s)


def test_what_has_not_settled_is_left_out():
    x = series(0.9, 8000, 3)[:, 0] + 30 * np.exp(-np.arange(8000) / 200)
    s = tp.statistics(x)
    assert 400 <= s.start <= 2400 and abs(s.mean) < 4 * s.error + 0.1


def test_copies_are_one_average_and_copies_that_differ_are_told():
    x = series(0.9, 2000, 5, copies=50)
    s = tp.statistics(x, members=True)
    assert s.error == pytest.approx(error_of_mean(0.9, 2000) / np.sqrt(50), rel=0.1) and s.converged
    stuck = tp.statistics(x + np.repeat([-1.0, 1.0], 25), members=True)
    assert not stuck.converged


def test_numbers_that_do_not_change_have_no_error():
    s = tp.statistics(np.full(100, 2.5))
    assert (s.mean, s.error, s.converged) == (2.5, 0.0, True)


def test_arrays_have_one_for_each_place():
    s = tp.statistics(series(0.5, 500, 2, copies=3))
    assert s.shape == (3,) and s[1] == tp.statistics(series(0.5, 500, 2, copies=3)[:, 1])


@pytest.mark.parametrize("x", [[1.0, 2.0], np.full(100, np.nan)])
def test_what_has_no_error_is_refused(x):
    with pytest.raises(tp.InputError):
        tp.statistics(x)


def test_a_run_has_means_with_errors():
    @tp.hamiltonian
    def spring(q, p):
        return p**2 / 2 + q**2 / 2

    sim = tp.compile(spring, 0.5, temperature=1.0)
    zeros = np.zeros(200)
    out = sim.evolve(q=zeros, p=zeros, steps=1500, observe={"q2": lambda q: q**2}, seed=3)
    s = out.mean("q2")
    assert abs(s.mean - 1.0) < 4 * s.error < 0.06 and s.converged
    assert out.mean("energy").mean == pytest.approx(1.0 - 0.5**2 / 8, rel=0.1)
    one = sim.evolve(q=0.0, p=0.0, steps=4000, observe={"q2": lambda q: q**2}).mean("q2")
    assert one.error > 3 * s.error
