"""Lines of several fields and wide stencils, places with stiffness of their own: solvers against dense matrices."""

import numpy as np
import pytest
from here import HERE

import tinyphysics as tp
from tinyphysics.flows.solvers.banded import BandedMomenta, band_of, levels, reduced
from tinyphysics.flows.solvers.krylov import ConjugateGradients
from tinyphysics.flows.solvers.lines import LineElimination, LineMomenta
from tinyphysics.flows.solvers.solver import Slopes
from tinyphysics.flows.solvers.stencil import diagonals_of, local_part
from tinyphysics.ir import UOp
from tinyphysics.ir.value import evaluate
from tinyphysics.rules.calculus.jvp import jvp


def bend(u):
    return np.roll(u, 1) - 2 * u + np.roll(u, -1)


def ends(u):
    """The second difference of an open line."""
    d = u[1:] - u[:-1]
    return tp.concatenate([d, 0 * u[:1]]) - tp.concatenate([0 * u[:1], d])


LINES = {
    "two fields": (2, lambda u, v: [bend(u) - u * u * v, u * u * v + 3 * bend(v)]),
    "a wave": (2, lambda u, v: [v, bend(u) - v]),
    "the fourth difference": (1, lambda u: [-bend(bend(u)) - u**3]),
    "two places to one side": (1, lambda u: [np.roll(u, 2) * u - u]),
    "an open line": (2, lambda u, v: [ends(u) + v, ends(v) - u * v]),
    "an open line, the fourth difference": (1, lambda u: [-ends(ends(u))]),
}


def numbers(m, n, seed=0):
    """Values of the states, and their names."""
    rng = np.random.default_rng([seed, n])
    return [UOp.var(f"z{k}", (n,)) for k in range(m)], {
        f"z{k}": rng.normal(size=n).tolist() for k in range(m)
    }


def dense(slopes, states, env):
    """The Jacobian, column by column."""
    along = [UOp.var(f"along {k}", s.shape) for k, s in enumerate(states)]
    moved, columns = jvp(slopes, states, along), []
    sizes = [s.size for s in states]
    for e in np.eye(sum(sizes)):
        parts = np.split(e, np.cumsum(sizes)[:-1])
        found = evaluate(moved, env | {str(a.arg): x.tolist() for a, x in zip(along, parts)})
        columns.append(np.concatenate(found))
    return np.array(columns).T


@pytest.mark.parametrize("name", LINES)
def test_the_diagonals_are_those_of_the_jacobian(name):
    m, rates = LINES[name]
    n = 11
    states, env = numbers(m, n)
    slopes = rates(*states)
    found = np.zeros((m * n, m * n))
    for k, row in enumerate(diagonals_of(slopes, states)):
        for (state, (shift,)), c in row.items():
            (value,) = evaluate([c.expand((n,))], env)
            i = np.arange(n)
            found[k * n + i, state * n + (i + shift) % n] += value
    assert np.abs(found - dense(slopes, states, env)).max() < 1e-12


def test_sums_and_gathers_are_not_followed():
    u = UOp.var("u", (12,))
    assert diagonals_of([u * u.sum()], [u]) is None
    assert diagonals_of([u[::-1]], [u]) is None


@pytest.mark.parametrize("n", [9, 16, 31, 32, 33, 34, 35, 37])
@pytest.mark.parametrize("name", LINES)
def test_a_band_is_solved_to_rounding(name, n):
    m, rates = LINES[name]
    states, env = numbers(m, n)
    slopes, right = rates(*states), np.random.default_rng(n).normal(size=(m, n))
    band = band_of(Slopes(tuple(states), tuple(slopes), tuple(states)))
    given = [UOp.var(f"r{k}", (n,)) for k in range(m)]
    env |= {f"r{k}": row.tolist() for k, row in enumerate(right)}
    w = 0.1 if m == 2 else 0.05
    d = np.concatenate(evaluate(reduced(band, UOp.const(w), given, levels(band, n, 5)), env))
    J = dense(slopes, states, env)
    assert np.abs(d - w * J @ d - right.ravel()).max() < 1e-12 * max(1.0, np.abs(d).max())


# --- steps -------------------------------------------------------------------------------------------
@tp.ode
def brusselator(u: tp.Vec["n"], v: tp.Vec["n"], spread: float = 50.0):
    return 1 + u * u * v - 4 * u + spread * bend(u), 3 * u - u * u * v + spread * bend(v)


@tp.ode
def cahn_hilliard(u: tp.Vec["n"], k: float = 30.0):
    return k * bend(u**3 - u - 4 * bend(u))


def field(u, k):
    spread = sum(np.roll(u, s, axis) for s in (1, -1) for axis in (0, 1)) - 4 * u
    return -k * (u**3 - 1) + spread


@tp.ode
def reacting(u: tp.Array[12, 12], k: tp.Array[12, 12]):
    return field(u, k)


def ripples(n):
    x = 2 * np.pi * np.arange(n) / n
    return 1 + 0.3 * np.sin(x), 3 + 0.2 * np.cos(2 * x)


def test_two_fields_along_a_line_follow_an_explicit_method():
    u, v = ripples(20)
    out = tp.compile(brusselator, method="rodas", tolerance=1e-8, absolute=1e-9).evolve(u=u, v=v, until=2.0)
    other = tp.compile(brusselator, method="dop853", tolerance=1e-11, sizes={"n": 20})
    exact = other.evolve(u=u, v=v, until=2.0)
    assert np.abs(out.final.u - exact.final.u).max() < 2e-7


@pytest.mark.all
def test_a_fourth_derivative_is_followed_and_keeps_its_sum():
    u = 0.1 * np.random.default_rng(1).normal(size=21)
    sim = tp.compile(cahn_hilliard, method="rodas", tolerance=1e-7, absolute=1e-9, sizes={"n": 21})
    out = sim.evolve(u=u, until=3.0)
    exact = tp.compile(cahn_hilliard, method="dop853", tolerance=1e-11, sizes={"n": 21}).evolve(
        u=u, until=3.0
    )
    assert np.abs(out.final.u - exact.final.u).max() < 1e-5
    assert abs(out.final.u.sum() - u.sum()) < 1e-12  # what flows out of a place flows into the next


@pytest.mark.parametrize("system", [brusselator, pytest.param(cahn_hilliard, marks=pytest.mark.all)])
def test_bands_have_the_same_bits_on_every_backend(system):
    u, v = ripples(11)
    start = {"u": u, "v": v} if system is brusselator else {"u": u}
    options = dict(method="rodas", tolerance=1e-4, sizes={"n": 11})
    found = {b: tp.compile(system, backend=b, **options).evolve(**start, until=0.01).final for b in HERE}
    assert {f.u.tobytes() for f in found.values()} == {found["llvm"].u.tobytes()}


def test_members_have_the_bits_that_they_have_alone(tmp_path):
    u, v = ripples(20)
    sim = tp.compile(brusselator, method="rodas", tolerance=1e-5, sizes={"n": 20}, dt=0.1)
    out = sim.evolve(u=np.array([u, 1.1 * u]), v=np.array([v, v]), steps=4, save_every=1)
    alone = sim.evolve(u=1.1 * u, v=v, steps=2, checkpoint=tmp_path / "line")
    assert out.u[2, 1].tobytes() == alone.final.u.tobytes()
    assert sim.evolve(resume=tmp_path / "line", steps=2).final.u.tobytes() == out.u[4, 1].tobytes()


def test_places_whose_reaction_is_fast_take_no_more_rounds():
    rng = np.random.default_rng(0)
    k = 10.0 ** rng.uniform(0, 7, (12, 12))
    u = 1 + 0.2 * rng.random((12, 12))
    sim = tp.compile(reacting, method="rodas", tolerance=1e-6, absolute=1e-8)
    out = sim.evolve(u=u, k=k, until=1.0)
    fine = tp.compile(reacting, method="rodas", tolerance=1e-8, absolute=1e-10).evolve(u=u, k=k, until=1.0)
    assert not out.stops and np.abs(out.final.u - fine.final.u).max() < 1e-5
    u = UOp.var("u", (12, 12))
    assert local_part(Slopes((u,), (field(u, UOp.var("k", (12, 12))),), (u,))) is not None
    assert local_part(Slopes((u,), (field(0 * u, 1.0) + 2 * u,), (u,))) is None  # the same everywhere


# --- energies -----------------------------------------------------------------------------------------
N = 50


@tp.hamiltonian
def second_neighbours(q: tp.Vec[N], p: tp.Vec[N], k: float = 0.3):
    near, far = q - tp.roll(q, 1), q - tp.roll(q, 2)
    return p @ p / 2 + near @ near / 2 + k * (far @ far) / 2


@tp.hamiltonian
def alloy(q: tp.Array[8, 8], p: tp.Array[8, 8], m: tp.Array[8, 8], k: tp.Array[8, 8]):
    x, y = q - tp.roll(q, 1, 0), q - tp.roll(q, 1, 1)
    return tp.sum(p * p / m) / 2 + tp.sum(x * x + y * y) / 2 + tp.sum(k * q * q) / 2


def test_a_stage_that_is_not_solved_is_an_attempt_that_fails():
    """Smooth waves of a sixth difference: the first length is far too long for the solver, and shorter ones follow."""

    @tp.ode
    def smoothing(u: tp.Vec["n"]):
        return 1e5 * bend(bend(bend(u)))

    n = 150
    waves = 1e5 * (2 * np.cos(2 * np.pi * np.fft.fftfreq(n)) - 2) ** 3
    u = np.sin(2 * np.pi * np.arange(n) / n) + 1e-3 * np.cos(2 * np.pi * 20 * np.arange(n) / n)
    out = tp.compile(smoothing, method="rodas", tolerance=1e-6).evolve(u=u, until=0.5, frames=2)
    assert out.stopped is None and out.metrics["rejected"]
    np.testing.assert_allclose(out.final.u, np.fft.ifft(np.fft.fft(u) * np.exp(waves * 0.5)).real, atol=2e-5)


def test_second_neighbours_step_by_the_cayley_transform():
    one, dt = np.eye(N), 5.0
    K = sum(w * (2 * one - np.roll(one, s, 0) - np.roll(one, -s, 0)) for s, w in ((1, 1.0), (2, 0.3)))
    sim = tp.compile(second_neighbours, dt=dt, method="implicit_midpoint")
    assert isinstance(sim.built.step.body[0].by, BandedMomenta)
    assert "a band of blocks for the momenta" in str(sim.explain("full"))
    q, p = np.random.default_rng(2).normal(size=(2, N))
    A = dt / 2 * np.block([[0 * one, one], [-K, 0 * one]])
    exact = np.linalg.solve(np.eye(2 * N) - A, (np.eye(2 * N) + A) @ np.concatenate([q, p]))
    out = sim.evolve(q=q, p=p, steps=1)
    assert np.abs(np.concatenate([out.final.q, out.final.p]) - exact).max() < 1e-12


@tp.hamiltonian
def third_neighbours(q: tp.Vec[210], p: tp.Vec[210]):
    parts = [q - tp.roll(q, k) for k in (1, 2, 3)]
    return p @ p / 2 + sum(w * d @ d for w, d in zip((0.5, 0.25, 0.125), parts))


@tp.hamiltonian
def leaning(q: tp.Vec[140], p: tp.Vec[140]):
    d, e = q - tp.roll(q, 1), q - tp.roll(q, 2)
    return p @ p / 2 + d @ d / 2 + 0.25 * e @ e + 0.2 * tp.sum(p * e)


@pytest.mark.slow("two programs with an elimination, each compiled")
@pytest.mark.parametrize(
    ("system", "solver", "weights", "lean"),
    [(third_neighbours, LineMomenta, (1.0, 0.5, 0.25), 0.0), (leaning, LineElimination, (1.0, 0.5), 0.2)],
)
def test_blocks_that_are_too_large_for_cyclic_reduction_are_eliminated(system, solver, weights, lean):
    """By one step, which the Cayley transform of the linear motion gives."""
    sim = tp.compile(system, dt=20.0, method="implicit_midpoint")
    assert type(sim.built.step.body[0].by) is solver and "along the line, by elimination" in str(
        sim.explain("full")
    )
    n = sim.built.system.states[0].var.size
    q, p = np.random.default_rng(2).normal(size=(2, n))
    one = np.eye(n)
    apart = [one - np.roll(one, k, 0) for k in (1, 2, 3)]
    K, lean = sum(w * d.T @ d for w, d in zip(weights, apart)), lean * apart[1]
    A = 10.0 * np.block([[lean, one], [-K, -lean.T]])
    exact = np.linalg.solve(np.eye(2 * n) - A, (np.eye(2 * n) + A) @ np.concatenate([q, p]))
    out = sim.evolve(q=q, p=p, steps=1)
    assert np.abs(np.concatenate([out.final.q, out.final.p]) - exact).max() < 1e-11
    assert out.metrics["solver"]["rounds"] <= 4


@pytest.mark.all
@pytest.mark.parametrize("system", [third_neighbours, leaning])
def test_eliminated_blocks_have_the_same_bits_on_every_backend(system):
    n = {third_neighbours: 210, leaning: 140}[system]
    q, p = np.random.default_rng(2).normal(size=(2, n))
    found = {
        b: tp.compile(system, dt=2.0, method="implicit_midpoint", backend=b).evolve(q=q, p=p, steps=1).hash
        for b in HERE
    }
    assert len(set(found.values())) == 1, found


def test_an_alloy_is_preconditioned_by_its_diagonal():
    rng, dt = np.random.default_rng(3), 1.0
    m, k = 10.0 ** rng.uniform(-2, 1, (8, 8)), 10.0 ** rng.uniform(-2, 3, (8, 8))
    sim = tp.compile(alloy, dt=dt, method="implicit_midpoint")
    solver = sim.built.step.body[0].by
    assert type(solver) is ConjugateGradients and solver.diagonal is not None
    assert "preconditioned by the diagonal" in str(sim.explain("full"))
    q, p = 0.1 * rng.normal(size=(2, 8, 8))
    one = np.eye(64).reshape(64, 8, 8)
    K = sum(one - np.roll(one, s, axis) for s in (1, -1) for axis in (1, 2)).reshape(64, 64) + np.diag(
        k.ravel()
    )
    A = dt / 2 * np.block([[np.zeros((64, 64)), np.diag(1 / m.ravel())], [-K, np.zeros((64, 64))]])
    exact = np.linalg.solve(np.eye(128) - A, (np.eye(128) + A) @ np.concatenate([q.ravel(), p.ravel()]))
    out = sim.evolve(q=q, p=p, m=m, k=k, steps=1)
    found = np.concatenate([out.final.q.ravel(), out.final.p.ravel()])
    assert np.abs(found - exact).max() < 1e-10 * np.abs(exact).max() and not out.stops


@pytest.mark.parametrize(
    "method", ["avf", "gonzalez", "kick_midpoint4", "stormer_verlet_implicit", "extended_phase_space"]
)
def test_methods_that_write_their_equations_out_say_what_solves_arrays(method):
    @tp.hamiltonian
    def chain(q: tp.Vec[300], p: tp.Vec[300]):
        d = q - tp.roll(q, 1)
        return p @ p / 2 + d @ d / 2 + tp.sum(d**4) / 4

    with pytest.raises(tp.PlanError, match='method="gauss4"\\) solves whole arrays'):
        tp.compile(chain, dt=0.01, method=method)
