"""Random bits by address: the published vectors, no address twice, the right statistics, the same bits in NumPy."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.philox import cos_sin, normal_pair, philox4x32, random_bits, uniform_pair
from tinyphysics.physics import draws, portable
from tinyphysics.util import digest

ONES = 0xFFFFFFFF
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)  # its binary digits


@pytest.mark.parametrize(
    "counter, key, rounds, words",
    [
        ((0, 0, 0, 0), (0, 0), 7, "5f6fb709 0d893f64 4f121f81 4f730a48"),
        ((0, 0, 0, 0), (0, 0), 10, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((ONES,) * 4, (ONES,) * 2, 10, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (*PI, 10, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_known_answers_of_the_published_generator(counter, key, rounds, words):
    """Random123's kat_vectors."""
    assert " ".join(f"{w:08x}" for w in philox4x32(counter, key, rounds)) == words


# --- addresses --------------------------------------------------------------------------------------
def test_no_two_addresses_have_the_same_bits():
    some = [0, 1, 2, 65_535, 65_536, 2**31, 2**32 - 1]
    large = [*some, 2**32, 2**47, 2**48 - 1]
    seen = {
        random_bits(seed, stream, step, index)
        for seed in (0, 1, 2**32, 2**64 - 1)
        for stream in some
        for step in large
        for index in large
    }
    assert len(seen) == 4 * len(some) * len(large) ** 2


@pytest.mark.parametrize("name", ["seed", "stream", "step", "index"])
@pytest.mark.parametrize(
    "value, what", [(-1, "does not fit"), (1 << 64, "does not fit"), (0.5, "whole"), (True, "whole")]
)
def test_an_address_out_of_range_is_refused(name, value, what):
    with pytest.raises(tp.InputError, match=f"{name}=.*{what}"):
        random_bits(**{"seed": 1} | {name: value})


def test_a_row_does_not_depend_on_how_many_are_drawn():
    assert (draws.uniform(10, 3, 2, 1) == draws.uniform(1000, 3, 2, 1)[:10]).all()
    assert draws.uniform(0, 3).shape == (0, 2)
    for n in (-1, 2.5):
        with pytest.raises(tp.InputError, match=f"n={n}"):
            draws.uniform(n, 3)


# --- numbers ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed, stream, step", [(0, 0, 0), (2**64 - 1, 2**32 - 1, 2**48 - 1), (7, 3, 5)])
def test_numpy_draws_the_same_bits_as_lists_do(seed, stream, step):
    n = 300
    for array, one in (
        (draws.uniform, uniform_pair),
        (draws.normal, normal_pair),
        (draws.words, random_bits),
    ):
        rows = np.array([one(seed, stream, step, i) for i in range(n)])
        drawn = array(n, seed, stream, step)
        assert ((np.stack(drawn, 1) if array is draws.words else drawn) == rows).all()


def test_the_bits_are_those_of_every_other_machine():
    """A change of one bit changes every seeded start."""
    assert digest(draws.normal(1000, 42).tobytes()) == "487f94c04e5d8585de96da76cf14b3e1"
    assert digest(draws.directions(1000, 42).tobytes()) == "ead0988cfe47484a6897e4c438737aa6"


def test_uniform_numbers_fill_the_unit_interval_in_steps_of_two_to_the_minus_53():
    u = draws.uniform(100_000, 1).ravel()
    assert u.min() >= 0 and u.max() < 1 and (u * 2.0**53 % 1 == 0).all() and (u * 2.0**53 % 2 == 1).any()
    counts = np.histogram(u, 100, (0, 1))[0]
    assert 60 < ((counts - 2000) ** 2 / 2000).sum() < 145  # chi-squared of 99 degrees: 99 +- 14
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.01


def test_normal_numbers_have_the_moments_and_tails_of_a_normal_distribution():
    x = draws.normal(100_000, 2).ravel()
    n = len(x)
    for power, moment, spread in (
        (1, 0, 1),
        (2, 1, math.sqrt(2)),
        (3, 0, math.sqrt(15)),
        (4, 3, math.sqrt(96)),
    ):
        assert abs((x**power).mean() - moment) < 4 * spread / math.sqrt(n)
    assert (np.abs(x) > 3).mean() == pytest.approx(math.erfc(3 / math.sqrt(2)), rel=0.2)
    assert abs(np.corrcoef(*draws.normal(100_000, 2).T)[0, 1]) < 0.013


def test_normal_numbers_are_right_to_a_few_last_bits():
    u, x = draws.uniform(500, 5), draws.normal(500, 5)
    for (a, b), pair in zip(u.tolist(), x.tolist()):
        r = mpmath.sqrt(-2 * mpmath.log(1 - mpmath.mpf(a)))
        for got, exact in zip(
            pair, (r * mpmath.cospi(2 * mpmath.mpf(b)), r * mpmath.sinpi(2 * mpmath.mpf(b)))
        ):
            assert abs(got - exact) <= 4 * 2.0**-52 * abs(exact)


def test_directions_are_unit_vectors_without_a_preferred_one():
    d = draws.directions(20_000, 1)
    assert np.abs((d**2).sum(1) - 1).max() < 1e-15
    assert np.abs(d.mean(0)).max() < 4 / math.sqrt(3 * 20_000)
    assert np.abs(d.T @ d / 20_000 - np.eye(3) / 3).max() < 0.01


# --- functions made of +, *, / and sqrt ---------------------------------------------------------------
def test_cosine_and_sine_of_turns_and_the_cube_root_are_right():
    turns = np.concatenate([np.linspace(-3, 3, 97), [1e-9, 12345.678]])
    c, s = portable.cos_sin(turns)
    assert [(a, b) for a, b in zip(c, s)] == [cos_sin(t) for t in turns.tolist()]
    with mpmath.workdps(30):
        for t, a, b in zip(turns.tolist(), c, s):
            assert (
                abs(a - mpmath.cospi(2 * mpmath.mpf(t))) < 3e-16
                and abs(b - mpmath.sinpi(2 * mpmath.mpf(t))) < 3e-16
            )
        x = 10.0 ** np.linspace(-300, 300, 61)
        for a, b in zip(x.tolist(), portable.cube_root(x).tolist()):
            assert abs(b / mpmath.cbrt(a) - 1) < 3e-16
    assert portable.cube_root(np.array([0.0, 1.0, 8.0, 27.0])).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_it_works_without_numpy():
    code = "import sys; sys.modules['numpy'] = None; from tinyphysics.philox import normal_pair; print(normal_pair(7, 1, 2, 3))"
    path = str(Path(tp.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.stdout.strip() == str(normal_pair(7, 1, 2, 3)), done.stderr
