"""Fourier transforms: NumPy's meaning, the same bits everywhere, small errors at every length, exact derivatives."""

import numpy as np
import pytest
import scipy.fft
from ptx_on_host import OnHost
from test_loops import LOADERS

import tinyphysics as tp
from tinyphysics.ir import Ops, UOp, evaluate, fourier
from tinyphysics.ir.dtype import f32, f64
from tinyphysics.ir.spec import SHAPED, check
from tinyphysics.ir.text import dump, parse
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import vjp
from tinyphysics.runtime.engines.loaders import LlvmLoops
from tinyphysics.tpir.kernels.loops import build_loops

BACKENDS = ("llvm", "numpy", "c", "python")
RNG = np.random.default_rng(7)


def spectrum(shape, axis=-1, function=np.fft.fft):
    """A map from a complex field to its transform, both in two parts."""

    @tp.map
    def transformed(u: tp.Array[shape], v: tp.Array[shape]):
        z = function(u + 1j * v, axis=axis)
        return z.real, z.imag

    return transformed


def numbers(shape, dtype=np.float64):
    return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(np.result_type(dtype, np.complex64))


def run(system, z, **options):
    out = tp.compile(system, **options).evolve(u=z.real, v=z.imag, steps=1)
    return out.final.u + 1j * out.final.v, out.hash


def node(n, part=0, sign=-1, shape=None, axis=0, dtype=f64):
    shape = (n,) if shape is None else shape
    return UOp(
        Ops.FOURIER,
        dtype,
        shape,
        (UOp.var("re", shape, dtype), UOp.var("im", shape, dtype)),
        (part, sign, axis),
    )


# --- the small transforms --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [1, 3, 7, 12, 97, 360, 1024])
def test_roots_of_one_are_correctly_rounded(n):
    import mpmath

    with mpmath.workdps(50):
        for k, root in enumerate(fourier.roots_of_one(n)):
            for x, f in zip(root, (mpmath.cos, mpmath.sin)):
                exact = f(2 * mpmath.pi * k / n)
                known = mpmath.mpf(0) if abs(exact) < 1e-40 else exact
                assert fourier.rounded(x, f64) == float(known)
                assert fourier.rounded(x, f32) == float(np.float32(float(known)))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 8, 11, 12, 13, 16, 30, 49, 64, 77])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_transform_written_out_is_the_sum_that_defines_it(n, sign):
    z, j = numbers(n), np.arange(n)
    exact = np.exp(sign * 2j * np.pi * (np.outer(j, j) % n) / n) @ z
    roots = [node(n, part, sign) for part in (0, 1)]
    check(roots, SHAPED)
    env = {"re": z.real.tolist(), "im": z.imag.tolist()}
    re, im = evaluate(roots, env)
    assert np.allclose(np.array(re) + 1j * np.array(im), exact, rtol=0, atol=3e-15 * n)
    assert evaluate([UOp.stack(x) for x in unroll(roots)], env) == [re, im]


def test_its_text_reads_back():
    u = node(12, 1, 1, (3, 12), 1)
    assert parse(dump([u])) == [u]


@pytest.mark.parametrize("n", [1, 17, 8192])
def test_a_length_without_stages_is_no_transform(n):
    with pytest.raises(AssertionError, match="length"):
        check([node(n)], SHAPED)


# --- error -----------------------------------------------------------------------------------------------------------
def error(n):
    z = numbers(n)
    found, _ = run(spectrum((n,)), z)
    exact = scipy.fft.fft(z.astype(np.clongdouble))
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize("n", [64, 1024, 4096, pytest.param(16384, marks=pytest.mark.all)])
def test_powers_of_two_are_right_to_a_rounding_a_stage(n):
    assert error(n) <= 1e-16 * np.sqrt(np.log2(n))


@pytest.mark.parametrize("n", [17, 101, 1009, pytest.param(4099, marks=pytest.mark.all)])
def test_primes_are_right_to_two(n):
    assert error(n) <= 2e-16 * np.sqrt(np.log2(n))


# --- the same bits -----------------------------------------------------------------------------------------------------
CASES = [
    ((36,), 0),
    ((5, 40), 1),
    ((40, 5), 0),
    ((40, 40), 0),
    ((3, 34, 7), 1),
    ((2, 37), 1),
    ((40, 6), 1),
    ((33, 13), 1),
]


@pytest.mark.parametrize("shape, axis", CASES)
def test_every_backend_has_the_bits_of_the_vm(shape, axis):
    z, system = numbers(shape), spectrum(shape, axis)
    found = [run(system, z, backend=b) for b in BACKENDS]
    assert len({h for _, h in found}) == 1
    assert np.allclose(found[0][0], np.fft.fft(z, axis=axis), rtol=0, atol=1e-13)


@pytest.mark.parametrize("shape, axis", CASES[:4])
def test_in_float32_too(shape, axis):
    z, system = numbers(shape, np.float32), spectrum(shape, axis)
    found = [run(system, z, backend=b, precision="float32") for b in BACKENDS]
    assert len({h for _, h in found}) == 1
    assert np.allclose(found[0][0], np.fft.fft(z, axis=axis), rtol=0, atol=1e-4)


@pytest.mark.parametrize("shape, axis", [((40, 36), 1), ((36, 40), 0), ((64,), 0), ((3, 120), 1)])
@pytest.mark.parametrize("loader", [*LOADERS, "threads of a GPU"])
def test_every_form_of_a_kernel_has_the_same_bits(shape, axis, loader):
    from test_loops import loops

    z = numbers(shape)
    sim, state = tp.compile(spectrum(shape, axis)), dict(u=z.real, v=z.imag)
    out, expected = (loops(sim, load(), state, {}, 2) for load in (LOADERS.get(loader, OnHost), LlvmLoops))
    assert all(np.array_equal(out[k], expected[k]) for k in state)


@pytest.mark.parametrize(
    "shape, axis, precision",
    [
        ((5, 48), 1, "float64"),  # several rows a block, the last one not full
        ((36, 40), 0, "float64"),  # rows beside each other
        ((3, 34, 7), 1, "float64"),
        ((70, 3), 0, "float32"),  # small transforms that are no whole number a thread
        (
            (2, 4096),
            1,
            "float64",
        ),  # real and imaginary parts go through the shared memory one after the other
        ((2, 37), 1, "float64"),
    ],
)
def test_a_gpu_has_them_too(fake_cuda, shape, axis, precision):
    z, system = numbers(shape, np.float32 if precision == "float32" else np.float64), spectrum(shape, axis)
    there, here = (run(system, z, backend=b, precision=precision)[1] for b in ("cuda", "llvm"))
    assert there == here


@pytest.mark.parametrize("n, rows, launches", [(256, 256 * 256, 1), (4096, 16, 1), (13, 40, 1)])
def test_all_stages_are_one_launch_where_rows_fit_in_shared_memory(n, rows, launches):
    nest = build_loops(tp.compile(spectrum((n, rows), 0)).tpir).sections["step"].nests[0]
    functions = nest.way.blocked(nest, None)
    assert len(functions) == launches and not any(f.workspace for f in functions)


def test_members_and_threads_change_no_bit():
    z, system = numbers((3, 64, 40)), spectrum((64, 40))
    sim = tp.compile(system)
    every = sim.evolve(u=z.real, v=z.imag, steps=1, threads=2)
    for k in range(3):
        alone = sim.evolve(u=z[k].real, v=z[k].imag, steps=1, threads=1)
        assert np.array_equal(every.final.u[k], alone.final.u)


def test_one_nest_does_both_parts_and_what_is_transformed_is_computed_in_it():
    kernel = build_loops(tp.compile(spectrum((40, 64))).tpir)
    (nest,) = kernel.sections["step"].nests
    assert nest.kind == "fft" and len(nest.pieces[0].stores) == 2


@pytest.mark.parametrize("axis", [0, 1])
def test_what_waits_on_the_stack_is_bounded(axis):
    """Many long transforms in one nest; threads have stacks of some hundred kilobytes on some systems."""
    shape = (2048, 16) if axis == 0 else (16, 2048)

    @tp.map
    def many(u: tp.Array[shape], v: tp.Array[shape]):
        return u, sum(np.fft.fft(u * k, axis=axis).real * v for k in range(1, 7))

    sim = tp.compile(many)
    (nest,) = [n for n in build_loops(sim.tpir).sections["step"].nests if n.kind == "fft"]
    body = nest.way.tiled(nest, None, 8).body
    waiting = [s for s in body if type(s).__name__ == "Local"]
    assert 0 < sum(s.count * s.dtype.bits // 8 for s in waiting) <= 1 << 20
    x = numbers(shape)
    out = sim.evolve(u=x.real, v=x.imag, steps=1).final
    assert np.allclose(out.v, 21 * np.fft.fft(x.real, axis=axis).real * x.imag, rtol=0, atol=1e-9)


def test_both_parts_are_one_nest_whatever_is_done_with_them():
    @tp.map
    def scaled(u: tp.Array[40, 36], v: tp.Array[40, 36]):
        z = np.fft.fft(u + 1j * v, axis=0)
        return 0.5 * z.real, 0.5 * z.imag

    kinds = [n.kind for n in build_loops(tp.compile(scaled).tpir).sections["step"].nests]
    assert kinds.count("fft") == 1


# --- NumPy's names ------------------------------------------------------------------------------------------------------
REAL = {
    "rfft": lambda f, x: abs(f.rfft(x)) ** 2,
    "irfft": lambda f, x: f.irfft(f.rfft(x) * 1j, 12),
    "irfft odd": lambda f, x: f.irfft(f.rfft(x, axis=0), 5, axis=0),
    "fft n": lambda f, x: f.fft(x, 9).real,
    "ifft short": lambda f, x: f.ifft(x, 5, axis=-1).imag,
    "fft2": lambda f, x: f.fft2(x).imag,
    "ifftn": lambda f, x: abs(f.ifftn(x)),
    "rfft2": lambda f, x: f.irfft2(f.rfft2(x) * 2, (5, 12)),
    "rfftn": lambda f, x: f.irfftn(f.rfftn(x), (5, 12), (0, 1)),
    "ortho": lambda f, x: f.fft(x, norm="ortho").real,
    "forward": lambda f, x: f.ifft(x, norm="forward").real,
    "shift": lambda f, x: f.fftshift(x, 1) + f.ifftshift(x),
    "chain": lambda f, x: (f.ifft(np.exp(1j * x) * f.fft(x) / (2 + 1j)) ** 2).conj().imag,
}


@pytest.mark.parametrize("name", REAL)
def test_numpys_functions_mean_what_numpy_says(name):
    x, f = RNG.normal(size=(5, 12)), REAL[name]
    expected = f(np.fft, x)

    @tp.map
    def system(x: tp.Array[5, 12], y: tp.Array[expected.shape]):
        return x, f(np.fft, x)

    out = tp.compile(system).evolve(x=x, y=np.zeros(expected.shape), steps=1)
    assert np.allclose(out.final.y, expected, rtol=0, atol=1e-13)
    assert np.allclose(tp.fft.fftfreq(6), np.fft.fftfreq(6))


@pytest.mark.parametrize(
    "f, words",
    [
        (lambda u: np.fft.fft(u), "complex"),
        (lambda u: np.fft.fft(u) < 3, "complex"),
        (lambda u: np.arctan(1j * u), "arctan"),
        (lambda u: np.fft.fft(u, norm="both").real, "norm"),
        (lambda u: np.fft.rfft(np.fft.fft(u)).real, "rfft"),
        (lambda u: np.fft.fft(u[0]).real, "one number"),
        (lambda u: np.fft.fft(u, axis=3).real, "axis 3"),
        (lambda u: np.fft.hfft(u), "hfft"),
        (lambda u: tp.dx(u, 1.5), "order"),
        (lambda u: tp.dx(u, length=-1), "length"),
        (lambda u: np.fft.fft(u) ** 0.5, "complex"),
        (lambda u: np.fft.fft(u, 10007).real, "10007"),
        (lambda u: np.fft.fft(u, 2**15).real, "32768"),
    ],
)
def test_what_is_no_real_result_is_refused_in_words(f, words):
    def system(u: tp.Vec[8]):
        return f(u)

    with pytest.raises(tp.TinyPhysicsError, match=words) as error:
        tp.compile(tp.map(system))
    assert "test_fourier.py" in str(error.value) and error.value.fix


# --- derivatives -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("sign", [-1, 1])
def test_derivatives_are_those_of_the_sum(part, sign):
    n, shape = 6, (2, 6)
    re, im = UOp.var("re", shape), UOp.var("im", shape)
    out = UOp(Ops.FOURIER, f64, shape, (re, im), (part, sign, 1))
    g, d, e = (UOp.var(name, shape) for name in "gde")
    env = {name: RNG.normal(size=12).tolist() for name in ("re", "im", "g", "d", "e")}
    forward = jvp([out], [re, im], [d, e])
    back = vjp([out], [g], [re, im])
    f, a, b, gs, ds, es = (np.array(x) for x in evaluate([*forward, *back, g, d, e], env))
    w = np.exp(sign * 2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
    z = (ds + 1j * es).reshape(shape) @ w
    assert np.allclose(f, (z.imag if part else z.real).ravel(), atol=1e-13)
    assert gs @ f == pytest.approx(a @ ds + b @ es, abs=1e-13)


@tp.hamiltonian
def chain(q: tp.Vec["n"], p: tp.Vec["n"]):
    """A wave equation with a spectral slope."""
    return (p**2).sum() / 2 + (tp.dx(q) ** 2).sum() / 2 + (q**4).sum() / 40


@pytest.mark.parametrize("n", [12, 37, 48])
def test_a_spectral_energy_is_certified_and_kept(n):
    x = np.arange(n) * 2 * np.pi / n
    sim = tp.compile(chain, dt=0.01, sizes={"n": n})
    assert sim.certificate.symplectic and sim.certificate.consistent
    out = sim.evolve(q=np.sin(x), p=0 * x, steps=300)
    assert out.drift("energy") < 1e-4


@pytest.mark.parametrize("precision", ["float32", "mixed", "compensated", "lattice"])
def test_other_precisions_follow_the_same_motion(precision):
    x = np.arange(36) * 2 * np.pi / 36
    runs = [
        tp.compile(chain, dt=0.01, precision=p).evolve(q=np.sin(x), p=0 * x, steps=20)
        for p in ("float64", precision)
    ]
    assert np.allclose(
        runs[0].final.q, runs[1].final.q, rtol=0, atol=1e-4 if precision == "float32" else 1e-5
    )


def test_double_double_is_refused_in_words():
    with pytest.raises(tp.PlanError, match="fourier"):
        tp.compile(chain, dt=0.01, precision="dd", sizes={"n": 36}).certificate  # noqa: B018


def test_gradients_go_through_transforms():
    x = np.arange(36) * 2 * np.pi / 36
    sim = tp.compile(chain, dt=0.01)
    found = sim.gradcheck(lambda out: (out.final.q**2).sum(), q=np.sin(x), p=0 * x, steps=10)
    assert found, found


# --- periodic fields ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("order", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("n", [32, 35])
def test_derivatives_of_waves_are_exact(order, n):
    @tp.map
    def slope(u: tp.Vec[n], L: float = 3.0):
        return tp.dx(u, order, length=L)

    k, x = 2 * np.pi / 3.0, np.arange(n) * 3.0 / n
    u = np.sin(2 * k * x) + np.cos(5 * k * x)
    exact = (2 * k) ** order * np.sin(2 * k * x + order * np.pi / 2)
    exact += (5 * k) ** order * np.cos(5 * k * x + order * np.pi / 2)
    out = tp.compile(slope).evolve(u=u, steps=1)
    assert np.allclose(out.final.u, exact, rtol=0, atol=1e-14 * (n * k / 2) ** order)


def test_dealiasing_leaves_out_the_last_third():
    n = 24
    x = np.arange(n) * 2 * np.pi / n

    @tp.map
    def kept(u: tp.Vec[24]):
        return tp.dealias(u)

    u = sum(np.cos(k * x + k) for k in range(13))
    out = tp.compile(kept).evolve(u=u, steps=1)
    assert np.allclose(out.final.u, sum(np.cos(k * x + k) for k in range(8)), rtol=0, atol=1e-13)


@tp.ode
def kdv(u: tp.Vec["n"], L: float = 80.0):
    return -3 * tp.dx(tp.dealias(u) ** 2, length=L) - tp.dx(u, 3, length=L)


def test_a_soliton_travels_with_its_speed():
    n, L, c = 128, 40.0, 1.0
    x = np.arange(n) * L / n

    def soliton(t):
        return c / 2 / np.cosh(np.sqrt(c) / 2 * (x - 20 - c * t)) ** 2

    out = tp.compile(kdv, method="rk4", dt=0.002).evolve(u=soliton(0), L=L, until=1.0)
    assert np.abs(out.final.u - soliton(1.0)).max() < 1e-6


# --- what an index is in a range ----------------------------------------------------------------------------------------
def test_conditions_on_an_index_are_decided_where_it_is_in_a_range():
    from tinyphysics.ir.dtype import i64
    from tinyphysics.tpir.kernels.ranges import turning_points, within

    i = UOp.var("@t", (), i64)
    nine = UOp.const(9, i64)
    roots = [
        (i < nine).where(i, nine - i),
        (nine - i < i).where(UOp.const(1, i64), UOp.const(0, i64)),
        i.eq(nine).where(i, nine),
        ((i < nine) & (UOp.const(3, i64) <= i)).where(i, nine),
    ]
    cuts = turning_points(i, roots)
    assert {9, 10, 3} <= set(cuts)
    for lo, hi in ((0, 2), (3, 8), (4, 12), (9, 9), (10, 15)):
        simpler = within(i, lo, hi, roots)
        for k in range(lo, hi + 1):
            assert evaluate(simpler, {"@t": k}) == evaluate(roots, {"@t": k})
        decided = [u.op is not Ops.WHERE for u in simpler]
        assert not decided[0] if lo < 9 <= hi else decided[0]


def test_copies_of_a_run_share_what_no_step_writes(tmp_path):
    @tp.ode
    def heat(u: tp.Vec["n"], L: float = 1.0):
        return tp.dx(u, 2, length=L) - u**3

    sim = tp.compile(heat, method="etdrk4", dt=0.01, sizes={"n": 32})
    x = np.arange(32) * np.pi / 16
    whole = sim.evolve(u=np.sin(x), steps=6)
    kept = str(tmp_path / "half.tpc")
    sim.evolve(u=np.sin(x), steps=3, checkpoint=kept)
    assert sim.evolve(resume=kept, steps=3).hash == whole.hash
    every = sim.evolve(u=[np.sin(x), np.cos(x)], L=[1.0, 2.0], steps=6)
    for k, u in enumerate((np.sin(x), np.cos(x))):
        assert np.array_equal(sim.evolve(u=u, L=1.0 + k, steps=6).final.u, every.final.u[k])


@pytest.mark.parametrize("n", [36, 40, 64])
def test_transforms_of_a_row_that_have_more_or_fewer_numbers_stand_beside_each_other(n):
    """The first has a part that is 0 where the next one has numbers: names of one are not those of the other."""

    @tp.hamiltonian
    def waves(q: tp.Vec[n], p: tp.Vec[n]):
        return p @ p / 2 + (tp.dx(q) ** 2).sum() / 2 - (tp.dx(q, 2) * tp.cos(q)).sum() / 9

    start = {"q": 0.1 * np.sin(np.arange(n)), "p": 0.1 * np.cos(3.0 * np.arange(n))}
    runs = {b: tp.compile(waves, dt=1e-3, backend=b).evolve(**start, steps=5) for b in ("llvm", "numpy")}
    assert runs["llvm"].hash == runs["numpy"].hash
