"""Poisson's and Helmholtz's equation as expressions: the discrete operator's own inverse, gradients, the same bits."""

import numpy as np
import pytest
from ptx_on_host import OnHost
from test_loops import LOADERS, loops

import tinyphysics as tp
from tinyphysics.runtime.engines.loaders import LlvmLoops

BACKENDS = ("llvm", "numpy", "c", "python")
RNG = np.random.default_rng(7)
ENDS = ("periodic", "dirichlet", "neumann")


def difference_matrix(n, end, h):
    """Minus the second difference along a line, from its meaning at each node."""
    matrix = np.zeros((n, n))
    for i in range(n):
        for j in (i - 1, i + 1):
            if 0 <= j < n or end == "periodic":
                matrix[i, i] += 1
                matrix[i, j % n] -= 1
            elif end == "dirichlet":
                matrix[i, i] += 1
    return matrix / h**2


def operator(shape, ends, spacing, shift):
    out = shift * np.eye(int(np.prod(shape)))
    for a, _ in enumerate(shape):
        factors = [
            difference_matrix(n, e, h) if a == b else np.eye(n)
            for b, (n, e, h) in enumerate(zip(shape, ends, spacing))
        ]
        whole = np.eye(1)
        for m in factors:
            whole = np.kron(whole, m)
        out += whole
    return out


def solution(shape, **options):
    @tp.map
    def solved(u: tp.Array[shape]):
        return tp.poisson(u, **options)

    return solved


CASES = [
    ((9,), ("periodic",)), ((12,), ("dirichlet",)), ((10,), ("neumann",)), ((1,), ("dirichlet",)),
    ((6, 9), ("dirichlet", "periodic")), ((6, 7), ("neumann", "dirichlet")), ((6, 8), ("neumann", "periodic")),
    ((4, 5, 6), ("periodic", "neumann", "dirichlet")),
]  # fmt: skip


@pytest.mark.requirement("S2-22")
@pytest.mark.parametrize("shift", [0.0, 0.7, -0.3])
@pytest.mark.parametrize(("shape", "ends"), CASES)
def test_transforms_invert_the_discrete_operator_on_all_ends(shape, ends, shift):
    h, f = (0.5, 0.3, 0.2)[: len(shape)], RNG.normal(size=shape)
    matrix = operator(shape, ends, h, shift)
    own = np.linalg.eigvalsh(matrix)
    singular = abs(own).min() < 1e-10  # then of the u that are possible the one with the mean 0
    wanted = (np.linalg.pinv(matrix) if singular else np.linalg.inv(matrix)) @ f.ravel()
    out = tp.compile(solution(shape, spacing=h, shift=shift, boundary=ends)).evolve(u=f, steps=1)
    assert (
        abs(out.final.u.ravel() - wanted).max()
        <= 1e-15 * abs(own).max() / abs(own[abs(own) > 1e-10]).min() * abs(wanted).max()
    )


def test_a_solution_has_the_same_bits_everywhere():
    system = solution((8, 13), spacing=(0.1, 0.2), shift=0.3, boundary=("neumann", "dirichlet"))
    f = RNG.normal(size=(8, 13))
    assert len({tp.compile(system, backend=b).evolve(u=f, steps=2).hash for b in BACKENDS}) == 1


@pytest.mark.parametrize("loader", [*LOADERS, "threads of a GPU"])
def test_every_form_of_a_kernel_has_the_same_bits(loader):
    sim = tp.compile(solution((6, 7), shift=0.3, boundary=("neumann", "dirichlet")))
    state = dict(u=RNG.normal(size=(6, 7)))
    out, expected = (loops(sim, load(), state, {}, 2) for load in (LOADERS.get(loader, OnHost), LlvmLoops))
    assert np.array_equal(out["u"], expected["u"])


def test_a_gpu_has_them_too(fake_cuda):
    system, f = solution((8, 6), shift=0.3, boundary=("periodic", "dirichlet")), RNG.normal(size=(8, 6))
    ends = [tp.compile(system, backend=b).evolve(u=f, steps=1).hash for b in ("cuda", "llvm")]
    assert ends[0] == ends[1]


@tp.hamiltonian
def screened(q: tp.Array["n", "m"], p: tp.Array["n", "m"], k: float = 2.0, kappa: float = 0.5):
    u = tp.poisson(q, spacing=0.2, coefficient=k, shift=kappa, boundary=("dirichlet", "neumann"))
    return (p**2).sum() / 2 + (q * u).sum() / 2 + (q**4).sum() / 4


START = dict(q=RNG.normal(size=(6, 5)), p=RNG.normal(size=(6, 5)))


@pytest.mark.requirement("S2-22")
def test_the_force_of_a_self_energy_is_one_solution_and_certified():
    sim = tp.compile(screened, dt=0.05, sizes={"n": 6, "m": 5})
    assert sum(i.op == "ELLIPTIC" for i in sim.tpir.step) == 1
    assert sim.certificate.symplectic and sim.certificate.consistent and sim.certificate.reversible
    drifts = [tp.compile(screened, dt=dt).evolve(**START, until=4.0).drift("energy") for dt in (0.1, 0.05)]
    assert drifts[1] < drifts[0] / 3


def test_gradients_of_a_run_with_a_solution_in_it_agree_with_other_ways_to_them():
    sim = tp.compile(screened, dt=0.1, sizes={"n": 6, "m": 5})
    assert sim.gradcheck(lambda out: (out.final.q**2).sum(), **START, steps=5)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (dict(boundary="dirichlett"), "dirichlet"),
        (dict(boundary=("neumann",)), "boundary"),
        (dict(method="sor"), "multigrid"),
        (dict(spacing=0.0), "spacing=0"),
        (dict(spacing=(1.0, 1.0, 1.0)), "spacing"),
        (dict(coefficient=-1.0), "above 0"),
        (dict(coefficient=np.ones(3)), "one for each node"),
        (dict(coefficient=np.ones((4, 4)), method="fft"), "multigrid"),
        (dict(shift=-1.0, method="multigrid"), 'method="fft"'),
        (dict(tolerance=0.0), "tolerance"),
        (dict(cycles=0, method="multigrid"), "from 1 on"),
        (dict(cycles=3, method="fft"), "multigrid"),
        (dict(smoother="sor"), "chebyshev"),
    ],
)
def test_wrong_equations_are_refused_with_what_to_write(options, told):
    with pytest.raises(tp.TinyPhysicsError, match=told):
        tp.compile(solution((4, 4), **options), sizes={})


def test_a_solution_of_one_number_is_refused():
    with pytest.raises(tp.TinyPhysicsError, match="1 to 3"):
        tp.compile(solution((), spacing=1.0))


def test_a_field_of_few_numbers_is_stepped_as_a_large_one_is():
    """The dense inverse by NumPy says what the force is; analyses that write a system out leave the solution whole."""
    n, h, s = 8, 0.5, 0.1
    matrix = (2 * np.eye(n) - np.roll(np.eye(n), 1, 0) - np.roll(np.eye(n), -1, 0)) / h**2 + s * np.eye(n)

    @tp.hamiltonian
    def waves(q: tp.Vec[8], p: tp.Vec[8]):
        return (p**2).sum() / 2 + (q * tp.poisson(q, spacing=0.5, shift=0.1)).sum() / 2

    @tp.ode
    def relaxing(u: tp.Vec[8]):
        return -tp.poisson(u, spacing=0.5, shift=0.1)

    force = np.linalg.inv(matrix)
    q, p, dt = np.arange(n) * 0.1, np.ones(n), 0.05
    out = tp.compile(waves, dt=dt, method="leapfrog_dkd").evolve(q=q, p=p, steps=1).final
    half = q + dt / 2 * p
    assert np.allclose(out.p, p - dt * force @ half, rtol=0, atol=1e-12)
    assert tp.compile(waves, dt=dt).certificate.symplectic
    u = tp.compile(relaxing).evolve(u=q, until=1.0).final.u
    w, v = np.linalg.eigh(force)
    assert np.allclose(u, v @ (np.exp(-w) * (v.T @ q)), rtol=0, atol=1e-6)


def test_a_step_that_is_written_out_says_which_one_is_not():
    @tp.hamiltonian
    def waves(q: tp.Vec[8], p: tp.Vec[8]):
        return (p**2).sum() / 2 + (q * tp.poisson(q, spacing=0.5, shift=0.1)).sum() / 2

    with pytest.raises(tp.PlanError, match="leapfrog"):
        tp.compile(waves, dt=0.1, method="implicit_midpoint")
