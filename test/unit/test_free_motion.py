"""The motion of a free rigid body in closed form, against published numbers and against steps."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics import rigid
from tinyphysics.physics.free_motion import orbit

MOMENTS, L0, ONE = [1.0, 2.0, 3.0], [0.5, 1.1, 0.7], [1.0, 0.0, 0.0, 0.0]


def off(a, b):
    """How far two attitudes are apart: R and -R are one."""
    return min(np.abs(np.asarray(a) - b).max(), np.abs(np.asarray(a) + b).max())


def test_a_free_top_after_ten_thousand_seconds_is_where_it_must_be():
    R, L = rigid.free_motion(ONE, L0, MOMENTS, 1e4)
    assert np.abs(L - [0.513202650691, 1.075403253341, 0.728100873525]).max() < 1e-11
    assert off(R, [0.644370790151, 0.269480793877, 0.596461899679, 0.395473878736]) < 1e-11
    o = orbit(np.array(L0), np.array(MOMENTS))
    assert 4 * o.quarter / o.rate == pytest.approx(22.0752803309777, rel=1e-14)


@pytest.mark.parametrize(
    "moments", [[1.0, 2.0, 3.0], [3.0, 1.0, 2.0], [1.0, 1.0, 0.5], [0.5, 1.0, 1.0], [1.0, 0.5, 1.0]]
)
def test_it_agrees_with_steps_whatever_the_order_of_the_moments(moments):
    R0 = np.array([0.5, -0.5, 0.5, 0.5])
    sim = tp.compile(rigid.free_body, dt=0.02, order=8)
    for L in ([0.5, 1.1, 0.7], [-1.0, 0.2, -0.3], [0.1, -0.2, 1.5]):
        out = sim.evolve(R=R0, L=L, moments=moments, steps=200).final
        R, now = rigid.free_motion(R0, L, moments, 4.0)
        assert np.abs(now - out.L).max() < 1e-12 and off(R, out.R) < 1e-12


def test_a_body_that_turns_about_one_axis_and_one_that_is_round():
    R, L = rigid.free_motion(ONE, [0.0, 0.0, 2.0], MOMENTS, np.array([0.0, 3.0]))
    assert np.allclose(R[1], [np.cos(1.0), 0.0, 0.0, np.sin(1.0)]) and np.allclose(L, [[0.0, 0.0, 2.0]] * 2)
    R, L = rigid.free_motion(ONE, [0.3, 0.0, 0.4], [1.0, 1.0, 1.0], 2.0)
    assert np.allclose(tp.rotate(R, L), [0.3, 0.0, 0.4], atol=1e-15)


def test_the_momentum_in_space_stays_over_a_million_turns():
    t = np.linspace(0.0, 1e6, 7)
    R, L = rigid.free_motion(ONE, L0, MOMENTS, t)
    assert np.abs(np.asarray(tp.rotate(R, L)) - L0).max() < 1e-14


def test_a_wrong_call_says_what_it_takes():
    with pytest.raises(tp.InputError, match="three positive moments"):
        rigid.free_motion(ONE, L0, [1.0, 1.0, 0.0], 1.0)
