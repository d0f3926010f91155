"""Cosine and sine transforms are SciPy's, of all four types, and each has its inverse and its derivative."""

import numpy as np
import pytest
import scipy.fft

import tinyphysics as tp
from tinyphysics.errors import InputError, ShapeError
from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.runtime.stages.in_numpy import numbers


@pytest.mark.parametrize("name", ["dct", "dst"])
@pytest.mark.parametrize("type", [1, 2, 3, 4])
def test_cosine_and_sine_transforms_are_those_of_scipy(name, type):
    for shape, axis in (((7,), 0), ((2,), 0), ((3, 12), -1), ((10, 3), 0)):
        x = np.random.default_rng(0).normal(size=shape)
        u = UOp.var("x", shape)
        there = getattr(tp.fft, name)(u, type, axis=axis)
        back = getattr(tp.fft, f"i{name}")(there, type, axis=axis)
        found, same = numbers([there, back], {"x": x})
        assert np.allclose(found, getattr(scipy.fft, name)(x, type, axis=axis), atol=1e-13)
        assert np.allclose(same, x, atol=1e-14)


def test_a_cosine_transform_runs_with_the_same_bits_and_has_a_slope():
    def smoothed(u: tp.Vec[12]):
        return tp.fft.idct(tp.fft.dct(u) * np.exp(-0.1 * np.arange(12)))

    x = np.random.default_rng(0).normal(size=12)
    runs = [
        tp.compile(tp.map(smoothed), backend=b).evolve(u=x, steps=3) for b in ("llvm", "c", "numpy", "python")
    ]
    assert len({out.hash for out in runs}) == 1
    step = scipy.fft.idct(scipy.fft.dct(x) * np.exp(-0.1 * np.arange(12)))
    assert np.allclose(runs[0].u[1], step, atol=1e-14)
    u = UOp.var("u", (12,))
    (slope,) = numbers(gradient((tp.fft.dst(u, 4) ** 2).sum(), [u]), {"u": x})
    assert np.allclose(slope, 2 * scipy.fft.dst(scipy.fft.dst(x, 4), 4), atol=1e-12)


def test_what_is_no_cosine_transform_is_refused():
    with pytest.raises(InputError, match="type is 1, 2, 3 or 4"):
        tp.fft.dct(UOp.var("x", (4,)), 5)
    with pytest.raises(ShapeError, match="needs 2 at least"):
        tp.fft.dct(UOp.var("x", (1,)), 1)
    with pytest.raises(InputError, match="norm="):
        tp.fft.dst(UOp.var("x", (4,)), norm="ortho")
