"""Poisson's equation by cycles: against dense matrices, the factors that theory gives, symmetry, jumps, the same bits."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.ir import UOp, substitute
from tinyphysics.rules.calculus.elliptic import elliptic
from tinyphysics.rules.formulas.elliptic import expand
from tinyphysics.rules.formulas.grids import galerkin_grids, grids_of
from tinyphysics.rules.formulas.multigrid import SMOOTHERS, Cycle
from tinyphysics.runtime.stages.in_numpy import numbers, with_rounds

RNG = np.random.default_rng(3)
ENDS = ("periodic", "dirichlet", "neumann")


def dense(shape, ends, h, k, s):
    """The matrix of the equation, from its meaning at each node."""
    at = np.arange(np.prod(shape)).reshape(shape)
    out = np.diag(np.broadcast_to(s, shape).ravel().astype(float))
    for i in np.ndindex(*shape):
        for a, end in enumerate(ends):
            for step in (-1, 1):
                j = list(i)
                j[a] += step
                if end == "periodic":
                    j[a] %= shape[a]
                if 0 <= j[a] < shape[a]:
                    j = tuple(j)
                    flow = 2 * k[i] * k[j] / (k[i] + k[j]) / h[a] ** 2
                    out[at[i], at[i]] += flow
                    out[at[i], at[j]] -= flow
                elif end == "dirichlet":
                    out[at[i], at[i]] += k[i] / h[a] ** 2
    return out


def node(shape, **options):
    f, k = UOp.var("f", shape), UOp.var("k", shape)
    return tp.poisson(f, coefficient=k, method="multigrid", **options)


def solved(shape, f, k, **options):
    return with_rounds(expand(node(shape, **options)), {"f": f, "k": k})


def disc(n):
    x, y = np.meshgrid(*[(np.arange(n) + 1) / (n + 1)] * 2, indexing="ij")
    return (x - 0.5) ** 2 + (y - 0.45) ** 2 < 0.09


GRIDS = [
    ((7,), ("dirichlet",)), ((8,), ("periodic",)), ((9,), ("neumann",)), ((1,), ("dirichlet",)),
    ((6, 9), ("dirichlet", "periodic")), ((7, 7), ("dirichlet", "dirichlet")), ((5, 6), ("dirichlet", "neumann")),
    ((10, 12), ("periodic", "neumann")), ((4, 5, 6), ("periodic", "neumann", "dirichlet")),
]  # fmt: skip


@pytest.mark.requirement("S2-22")
@pytest.mark.parametrize("shift", [0.0, 0.7])
@pytest.mark.parametrize(("shape", "ends"), GRIDS)
def test_cycles_invert_the_operator_of_any_coefficient_on_all_ends(shape, ends, shift):
    h, f = (0.5, 0.3, 0.2)[: len(shape)], RNG.normal(size=shape)
    k = np.exp(2 * RNG.normal(size=shape))
    matrix = dense(shape, ends, h, k, shift)
    singular = "dirichlet" not in ends and not shift
    wanted = np.linalg.lstsq(matrix, (f - f.mean() * singular).ravel(), rcond=1e-13)[0]
    found, rounds = solved(shape, f, k, spacing=h, shift=shift, boundary=ends, tolerance=1e-12)
    assert abs(found.ravel() - wanted).max() < 1e-9 * abs(wanted).max() and rounds < 25


def factor(u, k, turns=15):
    """What a cycle leaves of a random error, at last."""
    e = elliptic(u)
    grids = grids_of(e)
    error = UOp.var("error", grids[0].shape)
    parts = [t for g in grids for t in (g.table, *(g.interpolation or {}).values())]
    arrays = list({a: None for t in parts for a in t.values() if a.shape and a.src})  # once, not in each turn
    env = {"f": np.zeros(u.shape), "k": k}
    names = {a: UOp.var(f"known {n}", a.shape) for n, a in enumerate(arrays)}
    env |= {str(v.arg): x for v, x in zip(names.values(), numbers(arrays, env))}
    symmetric = e.cycles > 0
    cycle = Cycle(grids, SMOOTHERS[e.smoother], False, symmetric)
    (left,) = substitute([error - cycle(grids[0].live(grids[0].applied(error)))], names)
    (x,) = numbers([grids[0].live(UOp.var("x", grids[0].shape))], {"x": RNG.normal(size=grids[0].shape)})
    for _ in range(turns):
        (x,) = numbers([left], env | {"error": x / np.linalg.norm(x)})
    return np.linalg.norm(x)


@pytest.mark.parametrize("n", [63, pytest.param(255, marks=pytest.mark.all("more of the same"))])
@pytest.mark.parametrize(
    ("smoother", "cycles", "most"),
    [("chebyshev", 1, 0.165), ("red-black", None, 0.125), ("red-black", 1, 0.29), ("jacobi", 1, 0.2)],
)
def test_a_cycle_of_rescaled_differences_leaves_what_theory_says(n, smoother, cycles, most):
    u = tp.poisson(
        UOp.var("f", (n, n)), spacing=1 / n, boundary="dirichlet", method="multigrid", smoother=smoother, cycles=cycles
    )  # fmt: skip
    assert most / 2 < factor(u, np.ones((n, n))) < most


@pytest.mark.parametrize("n", [63, pytest.param(255, marks=pytest.mark.all("more of the same"))])
def test_galerkin_operators_leave_less(n):
    assert factor(node((n, n), boundary="dirichlet", cycles=1), np.ones((n, n))) < 0.11


@pytest.mark.parametrize("jump", [1e3, 1e6])
@pytest.mark.parametrize("n", [63, pytest.param(127, marks=pytest.mark.all("more of the same"))])
def test_a_disc_of_another_material_is_no_trouble(n, jump):
    """The factor stays below 0.2, and conjugate gradients need 12 rounds at most for a residual of 1e-10."""
    k = np.where(disc(n), jump, 1.0)
    assert factor(node((n, n), boundary="dirichlet", cycles=1), k) < 0.2
    found, rounds = solved((n, n), np.ones((n, n)), k, spacing=1 / (n + 1), boundary="dirichlet")
    assert rounds - 1 <= 12  # the last finds that it is over


def test_even_noise_with_jumps_makes_no_cycle_grow():
    """Each node 1 or 10,000 by chance: slow, but no eigenvalue of the smoother is above 2, on any grid."""
    shape = (10, 12)
    k = np.where(RNG.random(shape) < 0.5, 1e4, 1.0)
    e = elliptic(node(shape, cycles=1))
    for grid in galerkin_grids(e):
        rows, d = numbers([UOp.sum_of([abs(a) for a in grid.table.values()]), grid.smoothed_by], {"k": k})
        assert (d > 0).all()
    assert factor(node(shape, boundary="dirichlet", cycles=1), k) < 1


@pytest.mark.parametrize("smoother", ["chebyshev", "jacobi", "red-black"])
def test_a_number_of_cycles_is_a_symmetric_positive_matrix(smoother):
    shape = (7, 3)
    f = UOp.var("f", shape)
    u = tp.poisson(f, boundary="dirichlet", shift=0.3, method="multigrid", cycles=2, smoother=smoother)
    columns = [numbers([expand(u)], {"f": row.reshape(shape)})[0].ravel() for row in np.eye(21)]
    matrix = np.array(columns)
    assert abs(matrix - matrix.T).max() < 1e-15 * abs(matrix).max()
    assert np.linalg.eigvalsh(matrix).min() > 0


K = np.ones(9)
K[3:6] = 1e3


@tp.hamiltonian
def medium(q: tp.Vec[9], p: tp.Vec[9], k: tp.Vec[9] = K, s: float = 0.2):
    u = tp.poisson(q, coefficient=k, shift=s, boundary="dirichlet")
    return (p**2).sum() / 2 + (q * u).sum() / 2 + (q**4).sum() / 4


@tp.hamiltonian
def by_two_cycles(q: tp.Vec[15], p: tp.Vec[15]):
    u = tp.poisson(q, boundary="dirichlet", method="multigrid", cycles=2, smoother="jacobi")
    return (p**2).sum() / 2 + (q * u).sum() / 2


@tp.hamiltonian
def plane(q: tp.Array[5, 6], p: tp.Array[5, 6], k: tp.Array[5, 6]):
    u = tp.poisson(q, coefficient=k, boundary=("dirichlet", "neumann"))
    return (p**2).sum() / 2 + (q * u).sum() / 2


START = dict(q=RNG.normal(size=9), p=RNG.normal(size=9))
LINE = dict(q=RNG.normal(size=15), p=RNG.normal(size=15))


def test_an_energy_with_a_tolerance_is_certified_to_its_residual():
    sim = tp.compile(medium, dt=0.02)
    assert "to the residual of tp.poisson, 1e-10" in sim.certificate.symplectic.because
    out = sim.evolve(**START, steps=20)
    found = out.metrics["poisson"]
    assert 2 <= found["cycles"] < 25 and found["residual"] < 1e-9 and found["factor"] < 0.3
    assert out.drift("energy") < 1e-3


def test_a_number_of_cycles_keeps_its_own_energy():
    """Two cycles are far from the inverse, and the energy that they make is kept all the same."""
    sim = tp.compile(by_two_cycles, dt=0.05)
    assert "residual" not in sim.certificate.symplectic.because
    drifts = [
        tp.compile(by_two_cycles, dt=dt).evolve(**LINE, until=8.0).drift("energy") for dt in (0.1, 0.05)
    ]
    assert 3.5 < drifts[0] / drifts[1] < 4.5
    found = sim.evolve(**LINE, steps=4).metrics["poisson"]
    assert found["cycles"] == 2 and 1e-8 < found["residual"] < 0.1


@pytest.mark.slow("nests of all grids are compiled in two languages")
def test_cycles_have_the_same_bits_everywhere():
    start = dict(q=RNG.normal(size=(5, 6)), p=np.zeros((5, 6)), k=np.exp(RNG.normal(size=(5, 6))))
    ends = {
        b: tp.compile(plane, dt=0.05, backend=b).evolve(**start, steps=1).hash
        for b in ("llvm", "numpy", "c", "python")
    }
    assert len(set(ends.values())) == 1, ends


def test_gradients_by_the_coefficient_the_shift_and_the_start():
    sim = tp.compile(medium, dt=0.1)
    assert sim.gradcheck(lambda out: (out.final.q**2).sum(), **START, steps=2)


def test_a_right_hand_side_that_is_no_number_has_no_solution():
    f = np.ones((7, 7))
    f[2, 2] = np.nan
    assert not np.isfinite(solved((7, 7), f, np.ones((7, 7)), boundary="dirichlet")[0]).any()


@pytest.mark.parametrize(
    ("shape", "options", "told"),
    [
        ((4, 22), {}, "such as 24"),
        ((4, 22), dict(smoother="red-black"), "power of 2"),
        ((7, 7), dict(boundary="dirichlet", smoother="red-black"), "a coefficient that is an array"),
    ],
)
def test_grids_that_cycles_do_not_follow_are_refused(shape, options, told):
    with pytest.raises(tp.TinyPhysicsError, match=told):
        node(shape, **options)


def test_derivatives_of_so_many_cycles_by_the_coefficient_are_refused():
    @tp.hamiltonian
    def moving(q: tp.Array[7], p: tp.Array[7]):
        k = 1 + q**2
        return (p**2).sum() / 2 + tp.poisson(q, coefficient=k, boundary="dirichlet", cycles=2).sum()

    with pytest.raises(tp.TraceError, match="tolerance="):
        tp.compile(moving, dt=0.1)
