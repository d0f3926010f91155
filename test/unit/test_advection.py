"""Semi-Lagrangian steps: the table of peaks, mass, order, bounds, bits, derivatives, and paths that cross."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.ir import UOp
from tinyphysics.runtime.stages.in_numpy import numbers


def along(scheme, n):
    @tp.map
    def moved(u: tp.Vec[n], cells: float = 1.0):
        return tp.advect(u, cells, 1.0, scheme=scheme)

    return moved


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize(
    ("scheme", "peak"), [("linear", 0.711), ("cubic", 0.9989), ("spline", 0.9999), ("conservative", 0.9989)]
)
def test_a_blob_keeps_its_peak_over_a_thousand_steps_of_a_hundred_cells(scheme, peak):
    n, sigma, cells = 512, 16, 100.5
    u = np.exp(-((np.arange(n) - 256.0) ** 2) / 2 / sigma**2)
    end = tp.compile(along(scheme, n)).evolve(u=u, cells=cells, steps=1000).final.u
    assert end.max() == pytest.approx(peak, abs=1e-4 if peak > 0.9 else 1e-3)
    assert np.argmax(end) == (256 + 100500) % n  # it arrives where it should
    assert abs(end.sum() / u.sum() - 1) < 1e-12
    if scheme == "linear":
        assert end.min() >= 0 and end.max() <= 1


@pytest.mark.requirement("S2-18")
def test_conservative_steps_keep_the_mass_where_a_flow_converges():
    n = 128
    h = 2 * np.pi / n
    x = np.arange(n) * h

    def moved(scheme):
        @tp.map
        def squeezed(u: tp.Vec[n]):
            return tp.advect(u, 1 + 0.5 * np.sin(x), 0.5, spacing=h, scheme=scheme)

        return tp.compile(squeezed).evolve(u=np.ones(n), steps=100).final.u

    assert abs(moved("conservative").mean() - 1) < 1e-12
    assert abs(moved("cubic") - 1).max() < 1e-12  # values are kept there, not the mass


def rotation(n, scheme, dt):
    """A quarter of a turn of a blob in a swirl of the square 2π, by steps dt: the error where it should be."""
    h = 2 * np.pi / n
    y, x = np.meshgrid(*[np.arange(n) * h] * 2, indexing="ij")
    flow = np.sin(y) * np.cos(x), -np.cos(y) * np.sin(x)  # its own stream function is kept along paths
    f = np.sin(x) * np.sin(y)
    u, k = UOp.var("u", (n, n)), np.exp
    step = tp.advect(u, list(flow), dt, spacing=h, scheme=scheme)
    now = k(2 * f)
    for _ in range(round(1 / dt)):
        (now,) = numbers([step], {"u": now})
    return abs(now - k(2 * f)).max()


@pytest.mark.parametrize(("scheme", "order"), [("linear", 0.9), ("cubic", 2.5), ("spline", 2.5)])
def test_errors_fall_with_grid_and_step(scheme, order):
    rates = [rotation(n, scheme, dt) for n, dt in ((24, 0.25), (48, 0.125))]
    assert np.log2(rates[0] / rates[1]) > order - 0.6


def test_mass_is_kept_in_two_dimensions():
    n = 16
    h = 2 * np.pi / n
    y, x = np.meshgrid(*[np.arange(n) * h] * 2, indexing="ij")
    u = UOp.var("u", (n, n))
    step = tp.advect(
        u, [0.5 * np.sin(x), 0.3 + 0.4 * np.cos(y) * np.sin(x)], 0.5, spacing=h, scheme="conservative"
    )
    now = 1 + 0.5 * np.sin(x + y)
    for _ in range(10):
        (now,) = numbers([step], {"u": now})
    assert abs(now.mean() - 1) < 1e-13 and abs(now - 1).max() > 0.1


@pytest.mark.parametrize("scheme", ["cubic", "conservative"])
def test_advection_has_the_same_bits_everywhere(scheme):
    u, v = np.random.default_rng(1).normal(size=(2, 12))

    @tp.map
    def moved(u: tp.Vec[12], v: tp.Vec[12]):
        return tp.advect(u, v, 0.3, scheme=scheme), v

    ends = {
        tp.compile(moved, backend=b).evolve(u=u, v=v, steps=2).hash for b in ("llvm", "numpy", "c", "python")
    }
    assert len(ends) == 1


def test_derivatives_by_the_field_and_the_flow():
    u, v = np.random.default_rng(1).normal(size=(2, 8))

    @tp.map
    def moved(u: tp.Vec[8], v: tp.Vec[8]):
        return tp.advect(u, v, 0.2), v

    assert tp.compile(moved).gradcheck(lambda out: (out.final.u**2).sum(), u=u, v=v, steps=2)


def test_paths_that_cross_are_no_numbers_and_stop_the_run():
    @tp.map
    def moved(u: tp.Vec[8], v: tp.Vec[8]):
        return tp.advect(u, v, 1.0), v

    v = np.zeros(8)
    v[3] = 0.99
    assert tp.compile(moved).evolve(u=np.ones(8), v=v, steps=1).stopped is None
    v[3] = 1.01
    assert tp.compile(moved).evolve(u=np.ones(8), v=v, steps=1).stopped is not None


def test_paths_cross_in_a_plane_where_no_slope_alone_reaches_one():
    """v = (x + y)*0.8 in both directions: 1 - dt*grad v is singular between, though each slope is 0.8."""
    x = np.arange(16.0)
    ramp = 0.4 * (np.minimum(x, 16 - x)[:, None] + np.minimum(x, 16 - x)[None])

    @tp.map
    def moved(u: tp.Array[16, 16], v: tp.Array[16, 16]):
        return tp.advect(u, [v, v], 1.0), v

    sim = tp.compile(moved)
    assert sim.evolve(u=np.ones((16, 16)), v=ramp, steps=1).stopped is None  # slopes add up to 0.8
    assert sim.evolve(u=np.ones((16, 16)), v=2 * ramp, steps=1).stopped is not None


def test_a_conservative_step_looks_at_each_component_along_its_own_axis():
    """Both components are one array, which is steep along the second axis alone."""
    steep = np.zeros((8, 8))
    steep[:, 3] = 1.5

    @tp.map
    def moved(u: tp.Array[8, 8], v: tp.Array[8, 8]):
        return tp.advect(u, [v, v], 1.0, scheme="conservative"), v

    assert tp.compile(moved).evolve(u=np.ones((8, 8)), v=steep, steps=1).stopped is not None

    @tp.map
    def sheared(u: tp.Array[8, 8], v: tp.Array[8, 8]):
        return tp.advect(u, [v, 0.0 * v], 1.0, scheme="conservative"), v

    assert tp.compile(sheared).evolve(u=np.ones((8, 8)), v=steep, steps=1).stopped is None


@pytest.mark.parametrize(
    ("velocity", "options", "told"),
    [
        (np.array([0.0, 3.0, 0.0, 0.0]), {}, "paths cross"),
        (1.0, dict(scheme="cubik"), "cubic"),
        ([1.0, 1.0], {}, "a component for each axis"),
        (1.0, dict(spacing=0.0), "above 0"),
        (1.0, dict(spacing=(1.0, 2.0)), "for each axis"),
    ],
)
def test_wrong_advection_is_refused_with_what_to_write(velocity, options, told):
    with pytest.raises(tp.TinyPhysicsError, match=told):
        tp.advect(UOp.var("u", (4,)), velocity, 1.0, **options)
