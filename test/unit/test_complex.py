"""Complex states and parameters: what NumPy says of them, with the same bits everywhere, given and seen as complex numbers."""

import pickle

import numpy as np
import pytest

import tinyphysics as tp

BACKENDS = ("llvm", "numpy", "c", "python")
RNG = np.random.default_rng(11)


def noise(*shape):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


@tp.ode
def schroedinger(psi: tp.Complex["n"], g: float = 1.0, tilt: complex = 0.3 - 0.1j):
    k = np.fft.fftfreq(psi.shape[-1], 1 / psi.shape[-1])
    return -0.5j * np.fft.ifft(k**2 * np.fft.fft(psi)) + 1j * g * abs(psi) ** 2 * psi + 0.0 * tilt


FUNCTIONS = {
    "product": lambda z, c: z * c / (z + 3) - c,
    "conjugate": lambda z, c: np.conj(z) * c + z.conj(),
    "exponential": lambda z, c: np.exp(c * z),
    "logarithm": lambda z, c: np.log(z) * np.sqrt(z),
    "root": lambda z, c: np.sqrt(z * (1 + 0j)),
    "sines": lambda z, c: np.sin(z) + np.cos(z) * np.sinh(z) - np.cosh(c * z),
    "powers": lambda z, c: z**2 + z**-1 + z**0.5 + z**c,
    "matrix": lambda z, c: np.outer(np.arange(3.0), [1, 1j, 2.0]) @ z,
    "inner": lambda z, c: z * np.vdot(z, z) + z @ z,
    "rolled": lambda z, c: np.roll(z, 1) + np.where(z.real > 0, z, -z),
    "parts": lambda z, c: abs(z) + 1j * np.angle(z) + z.imag,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numpys_functions_on_complex_states(name):
    f = FUNCTIONS[name]

    @tp.map
    def step(z: tp.Complex[3], c: complex = 0.5 - 0.25j):
        return f(z, c)

    z = np.array([0.3 + 0.4j, -1.2 + 0.1j, -0.7 - 2.0j])
    out = tp.compile(step, backend="python").evolve(z=z, steps=1)
    assert np.allclose(out.final.z, f(z, 0.5 - 0.25j), rtol=1e-14, atol=1e-15)
    other = tp.compile(step, backend="python").evolve(z=z, c=2j, steps=1)
    assert np.allclose(other.final.z, f(z, 2j), rtol=1e-13, atol=1e-14)


def test_a_run_takes_and_shows_complex_numbers():
    sim = tp.compile(schroedinger, dt=1e-3, method="etdrk4")
    x = np.arange(16) * 2 * np.pi / 16
    start = 0.7 * np.exp(1j * x)
    out = sim.evolve(psi=start, until=0.1, observe={"norm": lambda psi: (abs(psi) ** 2).sum()}, frames=3)
    assert out.psi.shape == (3, 16) and out.psi.dtype == complex and list(out.frames) == ["psi"]
    assert np.allclose(out.final.psi, start * np.exp(-1j * (0.5 - 0.49) * 0.1), rtol=0, atol=1e-13)
    assert np.allclose(out["norm"], 16 * 0.49, rtol=1e-13) and np.array_equal(out["psi"][-1], out.final.psi)
    assert "psi" in str(__import__("inspect").signature(sim.evolve))


def test_runs_go_on_from_frames_checkpoints_and_files(tmp_path):
    sim, start = tp.compile(schroedinger, dt=1e-3, method="etdrk4"), noise(8)
    whole = sim.evolve(psi=start, steps=6, save_every=3, checkpoint=tmp_path / "c.npz")
    half = sim.evolve(psi=start, steps=3)
    assert np.array_equal(half.final.psi, whole[1].psi)
    assert np.array_equal(sim.evolve(**whole[1], steps=3).final.psi, whole.final.psi)
    assert np.array_equal(sim.evolve(**half.final, steps=3).final.psi, whole.final.psi)
    assert sim.evolve(resume=half, steps=3).hash == whole.hash
    assert np.array_equal(sim.evolve(psi=start, steps=0).final.psi, start)
    again = pickle.loads(pickle.dumps(whole))
    assert np.array_equal(again.psi, whole.psi) and np.array_equal(again.final.psi, whole.final.psi)
    sim.save(tmp_path / "s.json")
    loaded = tp.load(tmp_path / "s.json")
    assert np.array_equal(loaded.evolve(psi=start, steps=6).final.psi, whole.final.psi)


def test_members_of_an_ensemble():
    sim, start = tp.compile(schroedinger, dt=1e-3, method="etdrk4"), noise(3, 8)
    out = sim.evolve(psi=start, g=[0.0, 1.0, 2.0], steps=4)
    for k in range(3):
        assert np.array_equal(out.final.psi[k], sim.evolve(psi=start[k], g=float(k), steps=4).final.psi)


def test_every_backend_has_the_same_bits():
    start = noise(12)
    found = {
        tp.compile(schroedinger, dt=1e-2, method=m, backend=b).evolve(psi=start, steps=2).hash
        for m in ("etdrk4",)
        for b in BACKENDS
    }
    assert len(found) == 1


def test_derivatives_and_dealiasing_of_a_complex_field_are_those_of_its_parts():
    @tp.map
    def step(z: tp.Complex[12]):
        return tp.dx(z, length=3.0) + tp.dealias(z) + tp.dx(z, 0)

    @tp.map
    def of_parts(a: tp.Vec[12], b: tp.Vec[12]):
        return tuple(tp.dx(u, length=3.0) + tp.dealias(u) + u for u in (a, b))

    z = noise(12)
    out = tp.compile(step).evolve(z=z, steps=1)
    parts = tp.compile(of_parts).evolve(a=z.real, b=z.imag, steps=1)
    assert np.allclose(out.final.z, parts.final.a + 1j * parts.final.b, rtol=1e-13, atol=1e-13)


def test_a_soliton_of_the_nonlinear_schroedinger_equation():
    """H = ∫ |psi_x|² / 2 - |psi|⁴ / 2: a wave sech(x) exp(i(vx + ...)) moves with v and keeps its shape."""
    n, length, until = 64, 20.0, 0.5
    v = 2 * np.pi / length  # one wave of exp(ivx) in the period

    @tp.hamiltonian
    def nls(psi: tp.Complex["n"]):
        return (abs(tp.dx(psi, length=length)) ** 2 / 2 - abs(psi) ** 4 / 2).sum()

    def soliton(t):
        x = np.arange(n) * length / n - 10
        return np.exp(1j * (v * x + (1 - v**2) * t / 2)) / np.cosh(x - v * t)

    sim = tp.compile(nls, dt=0.005, method="implicit_midpoint", sizes={"n": n})
    out = sim.evolve(psi=soliton(0.0), until=until)
    assert np.abs(out.final.psi - soliton(until)).max() < 2e-3 and out.drift("energy") < 1e-9


def test_a_complex_number_is_a_canonical_pair():
    """i psi' = dH/d(conjugate of psi): w|psi|² turns by w; the energy is the one that was written."""

    @tp.hamiltonian
    def oscillators(psi: tp.Complex[2], w: tp.Vec[2] = (2.0, -0.5)):
        return (w * abs(psi) ** 2).sum()

    start = np.array([1 + 1j, -0.3j])
    sim = tp.compile(oscillators, dt=0.01)
    out = sim.evolve(psi=start, until=1.0)
    assert np.allclose(out.final.psi, start * np.exp(-1j * np.array([2.0, -0.5])), rtol=0, atol=1e-14)
    assert sim.certificate.symplectic and sim.certificate.consistent
    assert np.allclose(out.energy, 4.0 - 0.045) and [s.name for s in oscillators.states] == ["psi_q", "psi_p"]
    renamed = oscillators.rename(psi="phi")
    assert np.array_equal(tp.compile(renamed, dt=0.01).evolve(phi=start, until=1.0).final.phi, out.final.psi)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: tp.forces(lambda z: z), None),
        (lambda: tp.lagrangian(complex_lagrangian), "moves real numbers"),
        (lambda: tp.ode(clashing), "name of a part"),
        (lambda: tp.hamiltonian(not_real), "complex"),
        (lambda: tp.map(wrong_default), "not a complex number"),
        (lambda: tp.map(compared), "compared|complex"),
    ],
)
def test_what_cannot_be_is_said_in_words(make, words):
    if words is None:
        make()
        return
    with pytest.raises(tp.TinyPhysicsError, match=words) as error:
        make()
    assert error.value.fix


def complex_lagrangian(q: tp.Complex[2], v: tp.Complex[2]):
    return (v * v).sum().real


def clashing(z: tp.Complex, z_im: float = 0.0):
    return z


def not_real(psi: tp.Complex[2]):
    return (psi * psi).sum()


def wrong_default(z: tp.Complex, c: complex = "i"):
    return z * c


def compared(z: tp.Complex):
    return z if z < 1 else -z


def test_wrong_values_are_refused():
    sim = tp.compile(schroedinger, dt=1e-3, method="etdrk4")
    with pytest.raises(tp.InputError, match="not an array of complex numbers"):
        sim.evolve(psi=["a", "b"], steps=1)
    with pytest.raises(tp.InputError, match="both given"):
        sim.evolve(psi=noise(4), psi_re=np.ones(4), steps=1)


@tp.ode
def turning(z: tp.Complex):
    return 1j * z


def test_events_and_steppers_show_complex_states():
    sim = tp.compile(turning, dt=0.01, method="rk4")
    met = sim.evolve(z=1.0, until=7.0, events={"upright": lambda z: z.real}).events("upright")
    assert np.allclose(met.z, [1j, -1j, 1j][: len(met)], atol=1e-8) and np.array_equal(met[:1].z, met.z[:1])
    s = sim.stepper(z=1.0)
    s.step(10)
    assert s.z == sim.evolve(z=1.0, steps=10).final.z == complex(s.z_re, s.z_im)
    s.z = 2j
    s.step(5)
    assert np.isclose(s.z, 2j * np.exp(0.05j))


def test_a_product_with_zero_has_the_shape_of_its_factors():
    @tp.ode
    def still(z: tp.Complex[3], c: complex = 1j):
        return 0j * z + c

    out = tp.compile(still, method="rk4", dt=0.5).evolve(z=np.zeros(3), steps=2)
    assert np.allclose(out.final.z, [1j, 1j, 1j])
