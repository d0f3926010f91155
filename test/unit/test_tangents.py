"""Do directions move by the derivative of the step that runs, and do states not notice?"""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.device.engines import engine
from tinyphysics.device.engines.engine import LaneEngine
from tinyphysics.planner.methods.catalog import METHODS
from tinyphysics.runtime.measure.tangents import GROWTH, Wanted, run_with_directions
from tinyphysics.tpir.program.lower import DIRECTION


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    return (p @ p + q @ q) / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3


@tp.hamiltonian
def mixed(q, p):
    return p**2 * (1 + 0.1 * q**2) / 2 + tp.cos(q)


@tp.hamiltonian
def driven(q, p, t):
    return p**2 / 2 + q**2 * (1 + 0.2 * tp.sin(t)) / 2 + q**4 / 10


@tp.hamiltonian
def springs(q: tp.Vec[3], p: tp.Vec[3]):
    return p @ p / 2 + ((q[1:] - q[:-1]) ** 2).sum() + q @ q + (q**4).sum() / 20


@tp.hamiltonian
def gravity(q: tp.Array["n", 2], p: tp.Array["n", 2], m: tp.Vec["n"]):
    r = tp.sqrt(((q[:, None] - q[None, :]) ** 2).sum(-1) + 0.01)
    return ((p**2).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r)


@tp.ode
def lorenz(x, y, z, s=10.0, r=28.0, b=8 / 3):
    return s * (y - x), x * (r - z) - y, x * y - b * z


@tp.map
def standard(q, p, K=1.2):
    p = p + K * tp.sin(q)
    return q + p, p


HH = {"q": [0.1, -0.2], "p": [0.3, 0.1]}
CASES = {  # a system, its options, a state
    "kicks": (henon_heiles, {"method": "leapfrog"}, HH),
    "order 4": (henon_heiles, {"method": "yoshida4"}, HH),
    "force gradients": (henon_heiles, {"method": "chin4"}, HH),
    "a tableau": (lorenz, {"method": "rk4"}, {"x": 1.0, "y": 2.0, "z": 20.0}),
    "time": (driven, {"method": "yoshida4"}, {"q": 0.3, "p": 0.5}),
    "an exponential": (driven, {"method": "leapfrog"}, {"q": 0.3, "p": 0.5}),
    "stages": (mixed, {"method": "gauss4"}, {"q": 0.4, "p": 0.7}),
    "a midpoint": (mixed, {"method": "midpoint"}, {"q": 0.4, "p": 0.7}),
    "a generating function": (mixed, {"method": "stormer_verlet_implicit"}, {"q": 0.4, "p": 0.7}),
    "a discrete gradient": (mixed, {"method": "gonzalez"}, {"q": 0.4, "p": 0.7}),
    "copies": (mixed, {"method": "extended_phase_space"}, {"q": 0.4, "p": 0.7}),
    "oscillators": (henon_heiles, {"method": "interaction"}, HH),
    "a matrix": (springs, {"method": "interaction"}, {"q": [0.1, 0.2, -0.3], "p": [0.2, 0.1, 0.3]}),
    "a map": (standard, {}, {"q": 2.0, "p": 1.0}),
}


def compiled(name, **more):
    system, options, state = CASES[name]
    step = {} if system.kind == "map" else {"dt": 0.05}
    return tp.compile(
        system, **step, propagator=None if system.kind == "map" else "loop", **options, **more
    ), state


def flat(states, names):
    return np.concatenate([np.ravel(states[n]) for n in names])


def with_unit(sim, state, k, steps):
    """The run with one direction, along number k of the state."""
    names = list(state)
    first, at = {}, 0
    for n in names:
        v = np.zeros(np.shape(state[n]))
        if at <= k < at + v.size:
            v.flat[k - at] = 1.0
        first[DIRECTION.format(0, n)], at = v, at + v.size
    r = run_with_directions(sim, Wanted(), state, 0.0, 0, "a test", first)
    return r.setup.evolve(**r.given, steps=steps, frames=2).final


@pytest.mark.parametrize("name", CASES)
def test_a_direction_is_the_derivative_of_the_run(name):
    sim, state = compiled(name)
    names, steps, h = list(state), 7, 2.0**-14
    plain = sim.evolve(**state, steps=steps, frames=2).final
    z = flat(state, names)
    shapes = {n: np.shape(state[n]) for n in names}

    def at(z):
        given, i = {}, 0
        for n, shape in shapes.items():
            size = int(np.prod(shape))
            given[n], i = z[i : i + size].reshape(shape), i + size
        return flat(sim.evolve(**given, steps=steps, frames=2).final, names)

    for k in range(len(z)):
        end = with_unit(sim, state, k, steps)
        assert all(np.array_equal(end[n], plain[n]) for n in names)  # the states do not notice
        e = np.eye(len(z))[k] * h
        wide, narrow = ((at(z + s * e) - at(z - s * e)) / (2 * s * h) for s in (2.0, 1.0))
        slope = narrow + (narrow - wide) / 3  # of order h**4
        found = flat({n: end[DIRECTION.format(0, n)] for n in names}, names)
        assert np.allclose(found, slope, rtol=0, atol=2e-9 * max(1.0, np.abs(slope).max())), (name, k)


def test_tangents_of_symplectic_steps_keep_the_two_form():
    sim, state = compiled("order 4")
    M = np.array(
        [
            flat({n: with_unit(sim, state, k, 200)[DIRECTION.format(0, n)] for n in state}, list(state))
            for k in range(4)
        ]
    ).T
    J = np.block([[np.zeros((2, 2)), np.eye(2)], [-np.eye(2), np.zeros((2, 2))]])
    assert np.abs(M.T @ J @ M - J).max() < 1e-12 * np.abs(M).max() ** 2


@pytest.mark.parametrize("backend", ["python", "numpy", "c"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_directions_have_the_same_bits_on_every_backend(backend, precision):
    runs = []
    for b in ("llvm", backend):
        sim, state = compiled("order 4", backend=b, precision=precision)
        many = {n: np.array([v, np.multiply(v, 0.9), np.multiply(v, -0.7)]) for n, v in state.items()}
        r = run_with_directions(sim, Wanted(2, volumes=True, means=True), many, 0.0, 3, "a test")
        runs.append(r.evolve(5, steps=33, frames=2))
        plain = sim.evolve(**many, steps=33, frames=2)
        assert all(np.array_equal(runs[-1].final[n], plain.final[n]) for n in state)
    one, other = runs
    assert one.final.states.keys() == other.final.states.keys()
    for n in one.final.states:
        assert np.array_equal(one.final[n], other.final[n]), n


@pytest.mark.parametrize("precision", ["dd", "compensated", "mixed"])
def test_other_precisions_move_directions_and_keep_the_states(precision):
    try:
        sim, state = compiled("order 4", precision=precision)
    except tp.PlanError:
        pytest.skip("this system has no such precision")
    r = run_with_directions(sim, Wanted(2), state, 0.0, 3, "a test")
    exact, _ = compiled("order 4")
    other = run_with_directions(exact, Wanted(2), state, 0.0, 3, "a test").evolve(5, steps=40, frames=2)
    out, plain = r.evolve(5, steps=40, frames=2), sim.evolve(**state, steps=40, frames=2)
    for n in state:
        assert all(np.array_equal(a, b) for a, b in zip(out.final.words(n), plain.final.words(n)))
    loose = 1e-13 if precision == "dd" else 1e-5
    assert np.allclose(out.final[GROWTH].sum(-1), other.final[GROWTH].sum(-1), rtol=0, atol=loose)


def test_arrays_in_loops_move_directions_beside_their_states():
    rng = np.random.default_rng(1)
    n = 24
    state = {"q": rng.normal(size=(n, 2)), "p": 0.1 * rng.normal(size=(n, 2)), "m": np.full(n, 1.0 / n)}
    h = 2.0**-12
    sim = tp.compile(gravity, dt=0.01, method="leapfrog", sizes={"n": n})
    r = run_with_directions(sim, Wanted(), state, 0.0, 0, "a test")
    out, plain = r.setup.evolve(**r.given, steps=20, frames=2), sim.evolve(**state, steps=20, frames=2)
    assert np.array_equal(out.final.q, plain.final.q)
    ends = []
    for sign in (1, -1):
        moved = {x: state[x] + sign * h * r.given[DIRECTION.format(0, x)] for x in ("q", "p")}
        ends.append(sim.evolve(**moved, m=state["m"], steps=20, frames=2).final.q)
    slope = (ends[0] - ends[1]) / (2 * h)
    assert np.allclose(out.final[DIRECTION.format(0, "q")], slope, rtol=0, atol=1e-5)


def test_what_is_done_between_steps_does_not_depend_on_tiles_or_threads():
    sim, state = compiled("kicks")
    rng = np.random.default_rng(0)
    many = {n: np.multiply(v, 1 + 0.1 * rng.normal(size=(300, 1))) for n, v in state.items()}
    r = run_with_directions(sim, Wanted(2), many, 0.0, 0, "a test")
    whole = r.evolve(8, steps=50, frames=2).final
    one = {n: v[17] if np.ndim(v) > 1 else v for n, v in r.given.items()}
    alone = r.setup.evolve(**one, steps=50, frames=2, acts=r.act(8)).final
    threads = r.evolve(8, steps=50, frames=2, threads=1).final
    for n in whole.states:
        assert np.array_equal(whole[n][17], alone[n]) and np.array_equal(whole[n], threads[n]), n


def test_a_checkpoint_between_two_strides_goes_on_bit_for_bit(tmp_path):
    sim, state = compiled("order 4")
    r = run_with_directions(sim, Wanted(2), state, 0.0, 0, "a test")
    whole = r.evolve(8, steps=40, frames=2).final
    for cut in (16, 21):
        r.evolve(8, steps=cut, frames=2, checkpoint=tmp_path / f"{cut}")
        later = r.setup.evolve(resume=tmp_path / f"{cut}", steps=40 - cut, frames=2).final
        assert all(np.array_equal(whole[n], later[n]) for n in whole.states), cut


@pytest.mark.all
def test_methods_without_a_derivative_say_so():
    known, unknown = [], []
    for m in METHODS:
        try:
            sim = tp.compile(henon_heiles, dt=0.05, method=m.name, propagator="loop")
        except tp.TinyPhysicsError:
            continue
        try:
            run_with_directions(sim, Wanted(), HH, 0.0, 0, "a test")
            known.append(m.name)
        except tp.PlanError as error:
            assert "the derivative of" in str(error) and "method=" in str(error)
            unknown.append(m.name)
    assert len(known) > 30 and set(unknown) <= {
        "taylor",
        "dop853",
        "dopri5",
        "radau",
        "rkc",
        "rock4",
        "rodas",
    }, unknown


def test_whole_numbers_and_lattices_have_no_directions():
    @tp.map
    def count(k: tp.Int64):
        return k + 1

    with pytest.raises(tp.PlanError, match="whole numbers"):
        tp.compile(count).lyapunov(k=1, steps=1000)
    with pytest.raises(tp.PlanError, match="project="):
        tp.compile(henon_heiles, dt=0.05, project="energy").lyapunov(**HH, until=100.0)
    with pytest.raises(tp.PlanError, match="lattice"):
        tp.compile(henon_heiles, dt=0.05, precision="lattice", lattice=2.0**-40).lyapunov(**HH, until=100.0)


def test_directions_on_a_gpu_have_the_bits_that_they_have_here(fake_cuda):
    ends = []
    for backend in ("llvm", "cuda"):
        sim, state = compiled("kicks", backend=backend)
        many = {n: np.array([v, np.multiply(v, 0.9), np.multiply(v, -0.7)]) for n, v in state.items()}
        r = run_with_directions(sim, Wanted(), many, 0.0, 3, "a test")
        ends.append(r.evolve(3, steps=7, frames=2).final)
    assert all(np.array_equal(ends[0][n], ends[1][n]) for n in ends[0].states)


@pytest.mark.parametrize("members", [0, 3])
def test_directions_are_made_orthonormal_on_the_gpu_itself(fake_cuda, monkeypatch, members):
    """Between two steps nothing of a loop is read back, and the indicators have the bits that they have here."""
    held = []
    monkeypatch.setattr(LaneEngine, "held", lambda *a, old=LaneEngine.held: held.append(1) or old(*a))
    start = {n: np.multiply(v, np.ones((members, 1))) if members else v for n, v in HH.items()}
    observe = {"Y": tp.chaos.megno, "G": tp.chaos.gali(2)}
    found = {}
    for backend in ("llvm", "cuda"):
        held.clear()
        out = tp.compile(henon_heiles, dt=0.05, order=4, checks="off", backend=backend).evolve(
            **start, steps=30, observe=observe, observe_every=10, seed=4, frames=2
        )
        found[backend] = [out[name].tobytes() for name in observe], len(held)
    assert found["llvm"][0] == found["cuda"][0] and found["cuda"][1] < 10 < found["llvm"][1]


@pytest.mark.filterwarnings("ignore::tinyphysics.PhysicsWarning")
@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_directions_made_orthonormal_inside_a_block_are_those_of_many_blocks(monkeypatch, backend):
    """Members that escape between two strides stop at the same steps, with the same last states."""

    @tp.hamiltonian
    def open_well(q: tp.Vec[2], p: tp.Vec[2]):
        return (p @ p + q @ q) / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3

    start = {"q": np.stack([np.zeros(12), np.linspace(0.1, 1.2, 12)], -1), "p": np.full((12, 2), 0.15)}
    sim = tp.compile(open_well, dt=0.05, method="leapfrog", checks="off", backend=backend)
    found = []
    for work in (2e8, 1.0):
        monkeypatch.setattr(engine, "BLOCK_WORK", work)
        monkeypatch.setattr(engine, "LEAST_BLOCK", 2)
        out = run_with_directions(sim, Wanted(), start, 0.0, 0, "a test").evolve(17, steps=700, frames=2)
        found.append(([(s.member, s.step, s.where) for s in out.stops], out.hash))
    assert found[0] == found[1] and 2 < len(found[0][0]) < 12
