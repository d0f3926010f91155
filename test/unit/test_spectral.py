"""Exponential integrators: the part that is diagonal in Fourier space is found and solved, for rates written in any way."""

import mpmath
import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.analysis.spectral import spectral_part
from tinyphysics.ir import UOp, evaluate
from tinyphysics.rules.formulas.phi import phis

BACKENDS = ("llvm", "numpy", "c", "python")


@tp.ode
def kdv(u: tp.Vec["n"], L: float = 80.0):
    return -3 * tp.dx(tp.dealias(u) ** 2, length=L) - tp.dx(u, 3, length=L)


def two_solitons(x, t):
    """u = 2 d²/dx² ln(1 + e₁ + e₂ + e₁e₂/16): the fast one begins behind."""
    k, begin = (1.0, 0.6), (-12.0, -2.0)
    e = [np.exp(2 * a * (x.astype(np.longdouble) - b - 4 * a * a * t)) for a, b in zip(k, begin)]
    terms = [(1.0, e[0], 2 * k[0]), (1.0, e[1], 2 * k[1]), (1 / 16, e[0] * e[1], 2 * (k[0] + k[1]))]
    f, f1, f2 = (sum(c * v * s**d for c, v, s in terms) + (d == 0) for d in range(3))
    return (2 * (f2 * f - f1 * f1) / f**2).astype(float)


@pytest.mark.parametrize("z", [0.0, 1e-9, -0.3, 1.99, -2.0, -1e4, 2.5, -40.0])
@pytest.mark.parametrize("turn", [0.0, 1.0, 0.6])
def test_phi_functions_are_right_to_a_few_roundings(z, turn):
    """The series below 2, the quotient above, of real, imaginary and other numbers."""
    parts = (None if turn == 1 else UOp.const(z), None if turn == 0 else UOp.const(turn * z))
    found = phis(parts)
    with mpmath.workdps(60):
        w = mpmath.mpc(0 if turn == 1 else z, turn * z)
        exact = [mpmath.exp(w)]
        for k in range(3):
            exact.append((exact[-1] - 1 / mpmath.factorial(k)) / w if w else 1 / mpmath.factorial(k + 1))
        for k, (pair, e) in enumerate(zip(found, exact)):
            re, im = ((evaluate([p], {})[0] if p is not None else 0.0) for p in pair)
            error = abs(mpmath.mpc(float(np.ravel(re)[0]), float(np.ravel(im)[0])) - e)
            error /= max(abs(e), 1e-300)
            assert error < 3e-15 * (1 + abs(w) * (k == 0)), (k, z, turn)


@pytest.mark.parametrize("method, orders", [("etdrk4", (3.7, 4.9)), ("ifrk4", (3.7, 5.3))])
def test_two_solitons_pass_each_other(method, orders):
    """KdV, dt = 0.005 and 0.0025: with etdrk4 6.8e-5 and 2.7e-6; the fast one is shifted by 2 ln 2."""
    n, L = 512, 80.0
    x = np.arange(n) * L / n - L / 2
    exact = two_solitons(x, 6.0)
    errors = []
    for dt in (0.005, 0.0025):
        out = tp.compile(kdv, dt=dt, method=method).evolve(u=two_solitons(x, 0.0), until=6.0, frames=2)
        errors.append(np.abs(out.final.u - exact).max())
    assert orders[0] < np.log2(errors[0] / errors[1]) < orders[1]
    if method == "etdrk4":
        assert errors[0] < 6.9e-5 and errors[1] < 2.8e-6
        late = two_solitons(
            x, 6.0
        )  # the fast soliton has passed: at 4k²t + 2 ln 2 / 2k from where it would be alone
        top = np.argmax(out.final.u)
        fit = np.polyfit(x[top - 1 : top + 2], out.final.u[top - 1 : top + 2], 2)
        shift = -fit[1] / (2 * fit[0]) - (-12.0 + 4 * 6.0)
        assert shift == pytest.approx(2 * np.log(2), abs=0.02) and np.argmax(late) == top


def rates(f, shape=(12,)):
    def system(u: tp.Array[shape], nu: float = 0.3, L: float = 5.0):
        return f(u, nu, L)

    return tp.ode(system)


def symbol(f, shape=(12,)):
    """What the analysis says, as numbers: (re, im) of the factor of each wave."""
    found = spectral_part(rates(f, shape))
    if not found:
        return None
    values = []
    for part in found.groups[0].symbol:
        got = 0.0 if part is None else evaluate([part.expand(shape)], {"nu": 0.3, "L": 5.0})[0]
        values.append(np.broadcast_to(np.reshape(got, shape) if np.size(got) > 1 else got, shape))
    return values[0] + 1j * values[1]


K = 2 * np.pi / 5.0 * np.array([0, 1, 2, 3, 4, 5, -6, -5, -4, -3, -2, -1])
ODD = np.where(np.arange(12) == 6, 0, K)
SYMBOLS = {
    "dx": (lambda u, nu, L: -nu * tp.dx(u, length=L), -0.3j * ODD),
    "two": (lambda u, nu, L: nu * tp.dx(u, 2, length=L) - u / 4, -0.3 * K**2 - 0.25),
    "twice": (lambda u, nu, L: tp.dx(tp.dx(u, length=L), length=L), -(ODD**2)),
    "filtered": (lambda u, nu, L: tp.dealias(tp.dx(u, 3, length=L)), -1j * ODD**3 * (abs(K) < 4.0 * 2 * np.pi / 5)),
    "by hand": (
        lambda u, nu, L: np.fft.ifft(np.fft.fft(u) * (1j * np.arange(12) - 2.0)).real,
        (lambda a: (a + np.conj(np.roll(a[::-1], 1))) / 2)(1j * np.arange(12) - 2.0),
    ),
    "imaginary part": (
        lambda u, nu, L: np.fft.ifft(np.fft.fft(u) * np.arange(12.0)).imag,
        (lambda a: (a - np.roll(a[::-1], 1)) / 2j)(np.arange(12.0)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SYMBOLS)
def test_the_factor_of_each_wave_is_found(name):
    f, exact = SYMBOLS[name]
    assert np.allclose(symbol(f), exact, rtol=1e-13, atol=1e-12)


def test_the_real_part_of_a_filter_is_what_the_rate_does():
    """The symbol against the rate itself, on a field of noise, for a factor that is no derivative."""
    f = SYMBOLS["by hand"][0]
    u = np.random.default_rng(1).normal(size=12)
    direct = np.fft.ifft(np.fft.fft(u) * (1j * np.arange(12) - 2.0)).real
    assert np.allclose(np.fft.ifft(np.fft.fft(u) * symbol(f)), direct, atol=1e-13)


@pytest.mark.parametrize(
    "f",
    [
        lambda u, nu, L: tp.dx(u, length=L) * np.arange(12.0),  # differs from place to place
        lambda u, nu, L: tp.dx(u * u, length=L),
        lambda u, nu, L: np.fft.fft(u).real,  # no field in space
        lambda u, nu, L: np.fft.ifft(np.fft.fft(u).real * 1j).real,  # u at -x
        lambda u, nu, L: np.fft.ifft(np.fft.ifft(u)).real,
        lambda u, nu, L: tp.dx(u, length=L) ** 1.5,
    ],
)
def test_what_is_not_shown_is_not_solved(f):
    assert symbol(f) is None


def test_along_one_axis_of_two():
    f = lambda u, nu, L: nu * tp.dx(u, 2, axis=0, length=L) + np.arange(4.0) * tp.dx(u, axis=0, length=L)  # noqa: E731
    assert symbol(f, (12, 4)) is not None  # the second addend is not


def test_linear_rates_are_solved_exactly():
    """One step of any length."""
    n = 24
    x = np.arange(n) * 2 * np.pi / n

    @tp.ode
    def heat(u: tp.Vec["n"], nu: float = 0.1):
        return nu * tp.dx(u, 2) - tp.dx(u)

    for method in ("etdrk4", "ifrk4"):
        out = tp.compile(heat, dt=3.0, method=method).evolve(u=np.cos(2 * x) + 1, steps=2)
        assert np.allclose(out.final.u, np.exp(-0.1 * 4 * 6) * np.cos(2 * (x - 6.0)) + 1, rtol=0, atol=1e-14)


def test_the_time_of_stages_and_numbers_beside_a_field():
    """u' = u'' + a cos t with a number a that decays, which is no field: order 4 in both."""

    @tp.ode
    def driven(u: tp.Vec["n"], a, t):
        return tp.dx(u, 2) + a * np.cos(t) * tp.dx(u), -a * a

    x = np.arange(16) * 2 * np.pi / 16
    start = dict(u=np.sin(x) + np.cos(3 * x), a=1.0)
    fine = tp.compile(driven, method="dop853", error=None).evolve(**start, until=1.0).final
    errors = []
    for steps in (8, 16):
        end = tp.compile(driven, dt=1 / steps, method="etdrk4").evolve(**start, steps=steps).final
        errors.append(max(np.abs(end.u - fine.u).max(), abs(end.a - fine.a)))
    assert errors[1] < 2e-6 and np.log2(errors[0] / errors[1]) > 3.5


@pytest.mark.parametrize("method", ["etdrk4", "ifrk4"])
def test_every_backend_has_the_same_bits(method):
    x = np.arange(32) * 80.0 / 32
    runs = [
        tp.compile(kdv, dt=0.01, method=method, backend=b).evolve(u=np.sin(2 * np.pi * x / 80), steps=3).hash
        for b in BACKENDS
    ]
    assert len(set(runs)) == 1


def test_an_equation_without_such_a_part_is_refused_in_words():
    @tp.ode
    def bare(u: tp.Vec[8]):
        return -(u**3)

    with pytest.raises(tp.PlanError, match="no addend of the rates is a constant multiple of each wave"):
        tp.compile(bare, dt=0.1, method="etdrk4")


# --- flows -------------------------------------------------------------------------------------------------------------------
def grid(n):
    x = np.arange(n) * 2 * np.pi / n
    return np.meshgrid(x, x, indexing="ij")


def travelling(n, t, nu=0.05):
    y, x = grid(n)
    return 2 * np.cos(x - t) * np.cos(y - t / 2) * np.exp(-2 * nu * t)


@pytest.mark.all("54 kernels are compiled")
def test_travelling_vortices_are_exact_where_the_mean_flow_is_solved():
    from tinyphysics.physics.fluids import vorticity

    n = 16
    out = tp.compile(vorticity(), dt=0.1, method="etdrk4").evolve(
        w=travelling(n, 0), nu=0.05, U=1.0, V=0.5, until=2.0
    )
    assert np.abs(out.final.w - travelling(n, 2.0)).max() < 1e-13


def cube(n):
    x = np.arange(n) * 2 * np.pi / n
    return np.meshgrid(x, x, x, indexing="ij")


def values_of(system, n, **given):
    """Its rates at some fields, in NumPy."""
    from tinyphysics.runtime.stages.in_numpy import numbers

    traced = tp.compile(system, method="rk4", dt=0.1, sizes={"n": n}).system
    return numbers(list(traced.update), given)


@pytest.mark.parametrize("closure", [None, "smagorinsky"])
def test_rates_of_a_flow_in_space_are_those_of_numpy(closure):
    """Products of dealiased velocities, the closure div(2 nu_t S) and a force, projected; viscosity, drag, a mean flow."""
    from tinyphysics.physics.fluids import velocity

    n, rng = 8, np.random.default_rng(0)
    z, y, x = cube(n)
    now = rng.normal(size=(3, n, n, n))
    k1 = np.fft.fftfreq(n, 1 / n)
    K = np.meshgrid(k1, k1, k1, indexing="ij")[::-1]
    D = [np.where(abs(k) > n / 2 - 0.5, 0, k) for k in K]
    square, mask = sum(k * k for k in K), np.all([abs(k) * 3 < n for k in K], 0)
    over = np.where(square > 0, 1 / np.where(square > 0, square, 1), 0)

    def back(h):
        return np.fft.ifftn(h).real

    H = [np.fft.fftn(f) for f in now]
    seen = [back(h * mask) for h in H]
    T = [[-a * b for b in seen] for a in seen]
    if closure:
        g = [[back(1j * D[j] * H[i] * mask) for j in range(3)] for i in range(3)]
        S = [[(g[i][j] + g[j][i]) / 2 for j in range(3)] for i in range(3)]
        size = np.sqrt(2 * sum(s * s for row in S for s in row))
        T = [[T[i][j] + 2 * (0.17 * 2 * np.pi / n) ** 2 * size * S[i][j] for j in range(3)] for i in range(3)]
    force = [np.fft.fftn(np.broadcast_to(f, (n, n, n))) for f in (np.sin(y), np.cos(x + z), 0.0)]
    N = [force[i] + sum(1j * D[j] * np.fft.fftn(T[i][j]) for j in range(3)) * mask for i in range(3)]
    N = [N[i] - D[i] * over * sum(D[j] * N[j] for j in range(3)) for i in range(3)]
    mean = 0.3 * D[0] + 0.2 * D[1] - 0.4 * D[2]
    wanted = [back(N[i] - (0.1 * square + 0.05 + 1j * mean) * H[i]) for i in range(3)]
    system = velocity(closure=closure, forcing=lambda x, y, z, t: (np.sin(y), np.cos(x + z), 0.0 * x))
    given = dict(zip("uvw", now), t=0.0, nu=0.1, drag=0.05, U=0.3, V=0.2, W=-0.4, L=2 * np.pi, Cs=0.17)
    assert max(abs(a - b).max() for a, b in zip(values_of(system, n, **given), wanted)) < 1e-13


@pytest.mark.all("kernels of three fields in space are compiled")
def test_an_abc_flow_decays_and_does_nothing_else():
    from tinyphysics.physics.fluids import velocity

    z, y, x = cube(12)
    start = dict(
        u=np.sin(z) + 0.4 * np.cos(y), v=0.7 * np.sin(x) + np.cos(z), w=0.4 * np.sin(y) + 0.7 * np.cos(x)
    )
    out = tp.compile(velocity(), dt=0.1, method="etdrk4").evolve(**start, nu=0.1, steps=10)
    assert max(abs(out.final[k] - f * np.exp(-0.1)).max() for k, f in start.items()) < 1e-12


def test_a_spectrum_is_the_sum_over_shells_and_filters_do_what_they_say():
    from tinyphysics.physics.fluids import gaussian, sharp, spectrum
    from tinyphysics.runtime.stages.in_numpy import numbers

    n = 16
    w = np.random.default_rng(0).normal(size=(n, n))
    u = UOp.var("w", (n, n))
    shells, cut, smooth = numbers([spectrum(u), sharp(u, 3), gaussian(u, 0.7)], {"w": w})
    z, k = np.fft.fft2(w) / n**2, np.fft.fftfreq(n, 1 / n)
    number = np.hypot(*np.meshgrid(k, k))
    wanted = np.bincount(np.rint(number).astype(int).ravel(), 0.5 * abs(z.ravel()) ** 2)[: n // 2]
    assert abs(shells - wanted).max() < 1e-16
    inside = np.all([abs(x) < 3.5 for x in np.meshgrid(k, k)], 0)
    assert abs(np.fft.fft2(cut) - n**2 * z * inside).max() < 1e-12
    undone = np.fft.ifft2(np.fft.fft2(smooth) * np.exp((0.7 * number) ** 2 / 24)).real
    assert abs(undone - w).max() < 1e-12  # nothing is lost by it
