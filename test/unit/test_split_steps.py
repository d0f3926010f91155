"""Split steps of complex fields: exact turns of waves and of numbers, certified; what is not shown to turn is refused."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics import tpir
from tinyphysics.analysis.phases import NAME, waves_and_phases
from tinyphysics.errors import PlanError
from tinyphysics.ir import UOp, evaluate
from tinyphysics.rules.formulas.waves import parity

BACKENDS = ("llvm", "c", "numpy", "python")


@tp.hamiltonian
def nls(psi: tp.Complex["n"], L: float = 40.0, g: float = -2.0):
    return (abs(tp.dx(psi, length=L)) ** 2 + g / 2 * abs(psi) ** 4).sum()


@tp.hamiltonian
def trapped(psi: tp.Complex["n", "m"], U: tp.Array["n", "m"], g: float = 1.0):
    slopes = sum(abs(tp.dx(psi, axis=a, length=8.0)) ** 2 for a in (0, 1)) / 2
    return (slopes + U * abs(psi) ** 2 + g / 2 * abs(psi) ** 4).sum()


@tp.hamiltonian
def two(a: tp.Complex["n"], b: tp.Complex["n"], g: float = 0.5):
    return (abs(tp.dx(a)) ** 2 + 2 * abs(tp.dx(b)) ** 2 + g * abs(a) ** 2 * abs(b) ** 2).sum()


@tp.hamiltonian
def attracting(psi: tp.Complex["n"], G: float = 2.0):
    """Each place feels all others: Schroedinger and Newton on a circle."""
    rho, n = abs(psi) ** 2, psi.shape[0]
    k = np.minimum(np.arange(n), n - np.arange(n))
    phi = np.fft.ifft(np.fft.fft(rho) * np.where(k > 0, -1 / np.maximum(k, 1) ** 2, 0)).real
    return (abs(tp.dx(psi)) ** 2 / 2 + 0.5 * G * rho * phi).sum()


@tp.hamiltonian
def drifting(psi: tp.Complex["n"], v: float = 1.5):
    return (abs(tp.dx(psi)) ** 2 + v * (psi.conj() * tp.dx(psi)).imag + abs(psi) ** 4).sum()


@tp.hamiltonian
def by_waves(psi: tp.Complex["n"], w: tp.Vec["n"]):
    return (w * abs(np.fft.fft(psi)) ** 2).sum() + abs(psi).sum()


def line(n, length=40.0):
    return np.arange(n) * length / n - length / 2


def at_rest(t, n=256):
    return np.exp(1j * t) / np.cosh(line(n)) + 0j


# --- the flow ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "method, order, steps", [("split_step", 2, (0.04, 0.02)), ("split_step4", 4, (0.05, 0.025))]
)
def test_a_soliton_has_an_error_that_falls_as_the_order_says(method, order, steps):
    off = []
    for dt in steps:
        out = tp.compile(nls, dt=dt, method=method, sizes={"n": 256}).evolve(psi=at_rest(0), until=1.0)
        off.append(np.abs(out.final.psi - at_rest(1.0)).max())
    assert abs(np.log2(off[0] / off[1]) - order) < 0.1 and off[1] < 5e-4


def test_order_6_beside_a_finer_run():
    start = dict(psi=np.exp(-(line(64, 10.0) ** 2)) * (1 + 0.3j), L=10.0)
    found = [
        tp.compile(nls, dt=dt, order=6, sizes={"n": 64}).evolve(**start, until=0.8).final.psi
        for dt in (0.04, 0.02, 0.005)
    ]
    assert np.log2(np.abs(found[0] - found[2]).max() / np.abs(found[1] - found[2]).max()) > 5.7


def test_a_step_is_what_numpy_makes_by_hand():
    n, m, dt, rng = 12, 8, 0.03, np.random.default_rng(4)
    psi, U = rng.normal(size=(n, m)) + 1j * rng.normal(size=(n, m)), rng.normal(size=(n, m))
    k = [np.fft.fftfreq(s, 1 / s) * 2 * np.pi / 8.0 for s in (n, m)]
    for a, s in zip(k, (n, m)):
        a[s // 2] = 0.0  # an odd slope has no last wave
    waves = np.exp(-0.5j * dt * (k[0][:, None] ** 2 + k[1] ** 2))

    def half(z):
        return z * np.exp(-0.5j * dt * (U + 1.5 * abs(z) ** 2))

    wanted = psi
    for _ in range(3):
        wanted = half(np.fft.ifft2(waves * np.fft.fft2(half(wanted))))
    out = tp.compile(trapped, dt=dt, sizes={"n": n, "m": m}).evolve(psi=psi, U=U, g=1.5, steps=3)
    assert np.allclose(out.final.psi, wanted, rtol=0, atol=1e-13)


def test_every_wave_alone_turns_at_its_rate():
    n = 16
    w = np.linspace(-1, 2, n)
    wave = 0.2 * np.exp(2j * np.pi * 3 * np.arange(n) / n)
    out = tp.compile(by_waves, dt=0.1, sizes={"n": n}).evolve(psi=wave, w=w, steps=20)
    rate = n * w[3] + 1 / (2 * 0.2)  # of |z| the slope by |z|**2 is 1/(2|z|)
    assert np.allclose(out.final.psi, wave * np.exp(-2j * rate), rtol=0, atol=1e-13)


def test_a_moving_frame_is_a_turn_of_waves_too():
    n, v, dt = 32, 1.5, 0.02
    x, k = line(n, 2 * np.pi), np.fft.fftfreq(n, 1 / n)
    k[n // 2] = 0.0
    waves = np.exp(-1j * dt * (k**2 + v * k))
    psi = np.exp(-(x**2)) * np.exp(1j * x)

    def half(z):
        return z * np.exp(-1j * dt * abs(z) ** 2)

    sim = tp.compile(drifting, dt=dt, sizes={"n": n})
    assert np.allclose(
        sim.evolve(psi=psi, steps=1).final.psi, half(np.fft.ifft(waves * np.fft.fft(half(psi)))), atol=1e-14
    )
    assert (
        sim.certificate.symplectic and not sim.certificate.reversible
    )  # waves k and -k turn by other angles


# --- what is proved -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "system, sizes",
    [(nls, {"n": 64}), (trapped, {"n": 16, "m": 12}), (two, {"n": 32}), (attracting, {"n": 64})],
)
def test_it_is_symplectic_symmetric_reversible_and_consistent(system, sizes):
    c = tp.compile(system, dt=0.01, sizes=sizes).certificate
    assert all(
        c[word] for word in ("symplectic", "volume-preserving", "symmetric", "reversible", "consistent")
    ), c


def test_the_jacobian_of_a_step_keeps_the_form():
    psi = np.linspace(0.3, 1.0, 6) * np.exp(1j * np.arange(6))
    for method in ("split_step", "split_step4"):
        sim = tp.compile(nls, dt=0.05, sizes={"n": 6}, method=method)
        assert tp.measure_symplectic(sim, psi_q=psi.real, psi_p=2 * psi.imag, L=6.0).symplectic


def test_the_norm_is_kept_to_rounding_and_the_energy_does_not_drift():
    sim = tp.compile(nls, dt=0.01, sizes={"n": 128})
    norm = next(c for c in sim.conserved if c.name == "norm")
    assert norm.kept == "to rounding"
    x = line(128, 20.0)
    start = dict(psi=(1 + 0.3 * np.cos(2 * np.pi * x / 20)) / np.cosh(x) + 0j, L=20.0)
    out = sim.evolve(**start, steps=4000, frames=41, observe={"norm": norm, "energy": "energy"})
    assert np.abs(out["norm"] / out["norm"][0] - 1).max() < 4000 * 4e-16
    off = out["energy"] / abs(out["energy"][0])
    thirds = np.array_split(off, 3)
    assert abs(thirds[2].mean() - thirds[0].mean()) < 0.3 * np.ptp(off) and np.ptp(off) < 1e-3


def test_each_of_two_fields_has_its_norm():
    names = {c.name: c.kept for c in tp.compile(two, dt=0.01, sizes={"n": 16}).conserved}
    assert names == {"energy": names["energy"], "norm[a]": "to rounding", "norm[b]": "to rounding"}


def test_the_norm_of_a_complex_state_is_that_of_its_numbers():
    @tp.hamiltonian
    def dimers(psi: tp.Complex[3], g: float = 0.7):
        hop = sum((psi[k].conj() * psi[k + 1]).real for k in (0, 1))
        return g * (abs(psi) ** 4).sum() + hop

    norm = next(c for c in tp.compile(dimers, dt=0.01).conserved if c.name == "norm")
    assert norm(psi_q=[1.0, 0.0, 2.0], psi_p=[2.0, 2.0, 0.0]) == 1 + 1 + 1 + 4


# --- what is not --------------------------------------------------------------------------------------
def by_hand(f):
    return tp.hamiltonian(f)


@by_hand
def of_the_real_part(psi: tp.Complex["n"]):
    return (abs(tp.dx(psi)) ** 2 + psi.real**4).sum()


@by_hand
def of_waves_and_sizes(psi: tp.Complex["n"]):
    return ((1 + abs(psi) ** 2) * abs(tp.dx(psi)) ** 2).sum()


@by_hand
def of_other_masses_for_both_parts(psi: tp.Complex["n"]):
    return (tp.dx(psi.real) ** 2 + 3 * tp.dx(psi.imag) ** 2 + abs(psi) ** 4).sum()


@by_hand
def of_currents(psi: tp.Complex["n"]):
    return (abs(tp.dx(psi)) ** 2 + abs(psi) ** 2 * (psi.conj() * tp.dx(psi)).imag).sum()


@by_hand
def of_a_mass_that_varies(psi: tp.Complex["n"], m: tp.Vec["n"]):
    return (m * abs(tp.dx(psi)) ** 2 + abs(psi) ** 4).sum()


@by_hand
def of_coupled_fields(a: tp.Complex["n"], b: tp.Complex["n"]):
    return (abs(tp.dx(a)) ** 2 + abs(tp.dx(b)) ** 2 + (a.conj() * b).real).sum()


@by_hand
def of_time(psi: tp.Complex["n"], t):
    return (abs(tp.dx(psi)) ** 2 + tp.sin(t) * abs(psi) ** 2).sum()


REFUSED = [
    (of_the_real_part, "no function of the sizes"),
    (of_waves_and_sizes, "not shown to turn by itself"),
    (of_other_masses_for_both_parts, "not shown to turn by itself"),
    (of_currents, "not shown to turn by itself"),
    (of_a_mass_that_varies, "not shown to turn by itself"),
    (of_coupled_fields, "no function of the sizes"),
    (of_time, "depends on t"),
]


@pytest.mark.parametrize("system, why", REFUSED, ids=lambda x: getattr(x, "name", ""))
def test_what_is_not_shown_to_turn_is_refused_with_the_term(system, why):
    with pytest.raises(PlanError, match=why):
        tp.compile(system, dt=0.01, sizes={"n": 16}, method="split_step")


def listing(system, **options):
    text = str(tp.compile(system, dt=0.1, sizes={"n": 16}, **options).tpir)
    return "\n".join(x for x in text.splitlines() if not x.startswith("claim")) + "\n"


def changed(text, old, new):
    assert old in text, text
    return tpir.verify(tpir.parse(text.replace(old, new, 1)))


def test_a_listing_that_was_changed_loses_its_yes():
    text = listing(nls)
    honest = tpir.verify(tpir.parse(text))
    assert honest["symplectic"] and honest["consistent"] and honest["reversible"]
    init = text[text.index("init:") :]
    lines = init.splitlines()
    cos = next(x for x in lines if ", cos, " in x)
    angle = next(x for x in lines if x.split(",")[0] == f"  ELEM {cos.split()[-1]}:f64[16]")
    rate = angle.split()[-2].rstrip(",")
    # the angle without the step, a cosine where the sine was, another transform, a turn that counts for another term
    assert not changed(text, angle, angle.replace(f", {rate}, ", ", 0.9, "))["symplectic"]
    assert not changed(text, cos, cos.replace("cos", "sin"))["symplectic"]
    step = text.index("step:")
    back = next(x for x in text[step:].splitlines() if "FOURIER" in x and "(0,1,0)" in x)
    assert not changed(text, back, back.replace("(0,1,0)", "(0,-1,0)"))["symplectic"]
    exact = next(x for x in text[step:].splitlines() if "EXACT" in x)
    assert not changed(text, exact, exact.replace("(1,)", "(0,)").replace("(0,)", "(1,)") if "(0,)" in exact
                       else exact.replace("(1,)", "(0,)"))["symplectic"]  # fmt: skip


def test_a_wave_too_much_is_no_turn():
    """A symbol with a real part lets waves grow: an energy has none, so a program that says so is wrong."""
    text = listing(nls)
    scaled = next(x for x in text.splitlines() if ", div, " in x and x.endswith("16.0"))
    assert not changed(text, scaled, scaled.replace("16.0", "16.5"))["symplectic"]


# --- even and odd --------------------------------------------------------------------------------------
def test_parity_of_symbols_is_shown_and_never_guessed():
    k = UOp.stack([UOp.const(float(x)) for x in np.fft.fftfreq(8, 1 / 8)])
    last = UOp.stack([UOp.const(float(x != -4)) for x in np.fft.fftfreq(8, 1 / 8)])
    c, w = UOp.var("c"), UOp.var("w", (8,))
    assert parity(k * k * c.expand((8,))) == 1
    assert parity(k) == 0 and parity(k * last) == -1 and parity(c.expand((8,)) * k * last) == -1
    assert parity(k * k + k * last) == 0 and parity(w) == 0 and parity(w * k * k) == 0
    assert parity((k * k).cos()) == 1 and parity((w * last).cos()) == 0
    two_d = (k * last).reshape(8, 1).expand((8, 8)) * (k * last).reshape(1, 8).expand((8, 8))
    assert parity(two_d) == 1 and parity(two_d * (k * last).reshape(1, 8).expand((8, 8))) == -1
    for u in (k * k, k * last, two_d):
        values = np.array(evaluate([u], {})[0]).reshape(u.shape)
        assert np.array_equal(np.roll(np.flip(values), (1,) * u.ndim, range(u.ndim)), parity(u) * values)


# --- everywhere ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "system, sizes, more",
    [(nls, {"n": 40}, {"L": 9.0}), (trapped, {"n": 10, "m": 6}, {"U": np.ones((10, 6))})],
)
def test_every_backend_has_the_same_bits(system, sizes, more):
    rng = np.random.default_rng(1)
    shape = tuple(sizes.values())
    psi = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    found = {
        tp.compile(system, dt=0.01, sizes=sizes, backend=b).evolve(psi=psi, **more, steps=4).hash
        for b in BACKENDS
    }
    assert len(found) == 1


def test_frames_resume_ensembles_and_threads_keep_the_bits():
    rng = np.random.default_rng(2)
    psi = rng.normal(size=(5, 48)) + 1j * rng.normal(size=(5, 48))
    sim = tp.compile(nls, dt=0.01, sizes={"n": 48})
    many = sim.evolve(psi=psi, steps=20, save_every=10)
    one = sim.evolve(psi=psi[3], steps=20)
    assert np.array_equal(many.final.psi[3], one.final.psi)
    assert np.array_equal(
        sim.evolve(psi=psi[3], steps=10).final.psi,
        many.psi[3, 1] if many.psi.shape[0] == 5 else many.psi[1, 3],
    )
    first = sim.evolve(psi=psi[3], steps=10)
    assert np.array_equal(sim.evolve(resume=first, steps=10).final.psi, one.final.psi)
    assert sim.evolve(psi=psi, steps=20, threads=2).hash == sim.evolve(psi=psi, steps=20, threads=1).hash


def test_in_float32_too():
    z = np.exp(-(line(32, 8.0) ** 2)) + 0j
    found = [
        tp.compile(nls, dt=0.01, sizes={"n": 32}, precision="float32", backend=b).evolve(
            psi=z, L=8.0, steps=5
        )
        for b in BACKENDS[:2]
    ]
    assert len({out.hash for out in found}) == 1
    exact = tp.compile(nls, dt=0.01, sizes={"n": 32}).evolve(psi=z, L=8.0, steps=5)
    assert np.allclose(found[0].final.psi, exact.final.psi, atol=1e-5)


def test_gradients_and_directions_go_through_turns():
    psi = np.exp(-(line(8, 8.0) ** 2)) * (1 + 0.2j)
    sim = tp.compile(nls, dt=0.02, sizes={"n": 8})
    found = sim.gradcheck(lambda out: (out.final["psi_q"] ** 3).sum(), psi=psi, L=8.0, steps=3)
    assert found.passed and found.duality < 1e-13


def test_explain_says_how_waves_turn():
    told = str(tp.compile(nls, dt=0.01, sizes={"n": 32}).explain("full"))
    assert "waves and phases" in told and "split_step" in told and "turns each wave" in told
    assert waves_and_phases(tp.compile(nls, dt=0.01, sizes={"n": 32}).system).name == NAME
