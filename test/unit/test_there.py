"""Is a run on arrays of a GPU the run that it is on NumPy's?  Every number of it, and what was moved; by the fake driver."""

import numpy as np
import pytest

import tinyphysics as tp
from test_exchange import falls, pendulum, plane, spring, start, there
from test_loops import cluster, shifted, wave
from test_taylor import in_loops, mixture  # noqa: F401
from tinyphysics.device.cuda import driver as cuda, dlpack as exchange
from tinyphysics.device.engines.cuda_lanes import CudaEngine
from tinyphysics.device.engines.series import SeriesEngine
from tinyphysics.errors import InputError, PlanError
from tinyphysics.runtime.engines.caller_arrays import to_host


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 - 1 / tp.norm(q)


@tp.hamiltonian
def driven(q, p, t):
    return p * p / 2 + q * q / 2 + q * tp.cos(t)


@tp.hamiltonian
def stiff(q, p):
    return p * p / 2 + 50 * q * q + q**4


@tp.potential
def soft(q):
    return q**4


@tp.lagrangian
def swing(q, v):
    return v * v / 2 + tp.cos(q)


@tp.ode
def decay(x, y):
    return y - x, -x * y


@tp.map
def drunk(q, p):
    return q + tp.random.normal(), p


ORBITS = dict(q=np.array([[1.0, 0.0], [0.9, 0.1]]), p=np.array([[0.0, 1.2], [0.1, 1.0]]))
ALL = dict(save_every=3, hash_every=2, observe={"e": "energy", "q2": lambda q: q * q}, observe_every=2)
ONE = dict(q=np.array(0.3), p=np.array(-0.1))

# fmt: off
CASES = {  # the system, what it is compiled with, what it begins with, the options of the run
    "frames, hashes, observables": (pendulum, dict(dt=0.01),                        start(9),       dict(steps=8, **ALL)),
    "frames at every step":    (pendulum, dict(dt=0.01),                            start(5),       dict(steps=20, save_every=1)),
    "one member":              (pendulum, dict(dt=0.01),                            ONE,            dict(steps=8, **ALL)),
    "nothing to do":           (pendulum, dict(dt=0.01),                            start(5),       dict(steps=0)),
    "float32":                 (pendulum, dict(dt=0.01, precision="float32"),
                                {n: v.astype(np.float32) for n, v in start(5).items()},             dict(steps=8, save_every=3)),
    "mixed":                   (pendulum, dict(dt=0.01, precision="mixed"),         start(5),       dict(steps=8, save_every=3)),
    "compensated":             (pendulum, dict(dt=0.01, precision="compensated"),   start(5),       dict(steps=8, save_every=3)),
    "dd":                      (plane,    dict(dt=0.01, precision="dd"),            start(3, (2,)), dict(steps=4, save_every=3)),
    "lattice":                 (pendulum, dict(dt=0.01, precision="lattice"),       start(5),       dict(steps=8, save_every=3)),
    "members that fail":       (falls,    dict(dt=0.05),
                                dict(q=np.linspace(0.1, 3, 23), p=np.zeros(23)),                    dict(steps=60, save_every=7, hash_every=10)),
    "all fail":                (falls,    dict(dt=0.05),
                                dict(q=np.linspace(2.1, 3, 4), p=np.zeros(4)),                      dict(steps=60, save_every=5)),
    "the first step fails":    (falls,    dict(dt=5.0),
                                dict(q=np.array([0.1, 1e200]), p=np.zeros(2)),                      dict(steps=6)),
    "random numbers":          (drunk,    {},                                       start(5),       dict(steps=5, save_every=2, seed=4)),
    "a driven system":         (driven,   dict(dt=0.1),                             start(3),       dict(steps=5, save_every=2)),
    "its own time":            (kepler,   dict(dt=0.01, time=lambda q: tp.norm(q)), ORBITS,         dict(steps=5, save_every=2)),
    "projected":               (pendulum, dict(dt=0.01, project=["energy"]),        start(5),       dict(steps=4)),
    "scaled":                  (pendulum, dict(dt=0.01, scale="auto"),              start(5),       dict(steps=4)),
    "matrices":                (stiff,    dict(dt=0.01, method="interaction"),      start(5),       dict(steps=4)),
    "a goal":                  (pendulum, dict(energy_drift=1e-6),                  ONE,            dict(until=1.0)),
    "fast and slow":           (tp.fast(spring) + tp.slow(soft), dict(dt=0.01),     ONE,            dict(steps=5)),
    "velocities":              (swing,    dict(dt=0.1), dict(q=np.ones(3), v=np.linspace(0, 1, 3)), dict(steps=2)),
    "its own steps":           (pendulum, dict(method="taylor", dt=0.1),            start(3),
                                dict(until=0.6, save_every=2, hash_every=3, observe={"e": "energy"})),
    "an embedded pair":        (decay,    dict(method="dop853", dt=0.5), dict(x=np.ones(3), y=np.linspace(0, 1, 3)), dict(until=2.0)),
}
# fmt: on


def compare(out, here, hashed=True):
    """`hashed` takes the fake driver seconds for every kilobyte."""
    assert out.hashes == here.hashes and out.stops == here.stops and (not hashed or out.hash == here.hash)
    assert np.array_equal(out.t, here.t) and np.array_equal(out.steps, here.steps)
    for name, v in here.frames.items():
        a, last = getattr(out, name), out.final[name]
        assert (
            isinstance(a, exchange.DeviceArray)
            and isinstance(last, exchange.DeviceArray)
            and a.dtype == v.dtype
        )
        assert np.array_equal(a.numpy(), v, equal_nan=True) and np.array_equal(last.numpy(), here.final[name])
    for name in here.observed:
        assert isinstance(out[name], np.ndarray) and np.array_equal(out[name], here[name], equal_nan=True)
        assert np.array_equal(out.times(name), here.times(name))
    if here.origin.run.system.seen.energy is not None:
        assert np.array_equal(out.energy, here.energy, equal_nan=True)
        with np.errstate(invalid="ignore"):
            assert np.array_equal(out.drift(), here.drift(), equal_nan=True)


@pytest.mark.parametrize("which", CASES)
def test_every_number_is_that_of_a_run_here(fake_cuda, which):
    system, options, state, run = CASES[which]
    here = tp.compile(system, backend="llvm", **options).evolve(**state, **run)
    out = tp.compile(system, backend="cuda", **options).evolve(
        **{n: there(v) for n, v in state.items()}, **run
    )
    compare(out, here)


# --- loops along axes ------------------------------------------------------------------------------------
def grid(*shape, seed=2):
    return np.random.default_rng(seed).normal(0.0, 0.3, shape)


LOOPS = {
    "fields": (wave, dict(phi=grid(2, 20, 20), pi=grid(2, 20, 20, seed=3)), {}),
    "bodies in three dimensions": (
        cluster,
        dict(q=grid(33, 3), p=grid(33, 3, seed=3)),
        dict(m=np.linspace(1, 2, 33) / 33),
    ),
    "components in front": (shifted, dict(x=grid(4, 18, 18), y=grid(18, 18, seed=3)), {}),
}


OBSERVED = {wave: lambda phi: phi.sum(), cluster: lambda q: (q * q).sum(), shifted: lambda y: y.sum()}


@pytest.mark.parametrize("which", LOOPS)
def test_loops_along_axes_begin_and_end_there(fake_cuda, which):
    system, state, given = LOOPS[which]
    dt = {} if system is shifted else {"dt": 0.01}
    run = dict(steps=3, save_every=2, observe={"first": OBSERVED[system]})
    here = tp.compile(system, backend="llvm", **dt).evolve(**state, **given, **run)
    sim = tp.compile(system, backend="cuda", **dt)
    out = sim.evolve(**{n: there(v) for n, v in state.items()}, **given, **run)
    assert sim.compiled.in_loops(1)
    compare(out, here, hashed=which.startswith("bodies"))


def test_frames_of_loops_move_no_state(fake_cuda):
    system, state, given = LOOPS["fields"]
    sim, there_too = tp.compile(system, dt=0.01, backend="cuda"), {n: there(v) for n, v in state.items()}
    bare, out = (
        sim.evolve(**there_too, **given, steps=3, **more).metrics
        for more in ({"save_every": 3}, {"save_every": 1})
    )
    assert (
        out["bytes_moved"] < 1000 < sum(v.nbytes for v in state.values())
        and out["launches"] > bare["launches"] > 0
    )


# --- steps of their own ----------------------------------------------------------------------------------
def oscillators(members):
    x = np.linspace(-1.0, 1.5, 6) + 0.1 * np.arange(members)[:, None]
    return dict(x=x, v=np.linspace(0.4, -0.7, 6) + 0 * x)


@pytest.mark.parametrize("most", [None, 2])
def test_series_in_loops_and_members_that_do_not_fit_at_once(fake_cuda, in_loops, monkeypatch, most):  # noqa: F811
    """With room for two members the loop states of the others wait on this machine; frames are there all the same."""
    run = dict(until=0.8, save_every=1, observe={"x0": lambda x: x[0]})
    state, options = oscillators(5), dict(dt=0.4, tolerance=1e-3)
    here = in_loops(mixture, backend="llvm", **options).evolve(**state, k=0.6, **run)
    if most is not None:
        monkeypatch.setattr(SeriesEngine, "room", property(lambda self: most * self.numbers))
    sim = in_loops(mixture, backend="cuda", **options)
    assert sim.compiled.series is not None
    compare(sim.evolve(**{n: there(v) for n, v in state.items()}, k=0.6, **run), here, hashed=False)


def test_clocks_of_members_are_compared_there(fake_cuda):
    """What comes here is how many steps each took, at the end: rows of a clock, however often it was looked at."""
    sim, state = tp.compile(pendulum, method="taylor", dt=0.1, backend="cuda"), start(40)
    few, many = (sim.evolve(**{n: there(v) for n, v in state.items()}, until=0.1 * n).metrics for n in (2, 6))
    assert (
        many["substeps"].sum() > few["substeps"].sum() and many["bytes_moved"] - few["bytes_moved"] < 40 * 8
    )


# --- what was moved --------------------------------------------------------------------------------------
def test_frames_and_hashes_move_no_state(fake_cuda):
    state = start(400)
    sim = tp.compile(pendulum, dt=0.01, backend="cuda")
    out = sim.evolve(**{n: there(v) for n, v in state.items()}, steps=4, save_every=1)
    assert out.q.shape == (5, 400) and out.metrics["bytes_moved"] < 200
    before = cuda.device().moved
    assert len(out.hash) == 32 and cuda.device().moved - before == 2 * 16


def test_observables_are_what_is_read(fake_cuda):
    """A number for each member at each time, and at the first: and no more."""
    state, members = start(2048), 2048
    given = {n: there(v) for n, v in state.items()}
    sim = tp.compile(pendulum, dt=0.01, backend="cuda")
    bare = sim.evolve(**given, steps=4)
    out = sim.evolve(**given, steps=4, observe={"e": "energy"}, observe_every=2)
    read = out.metrics["bytes_moved"] - bare.metrics["bytes_moved"]
    assert 3 * 8 * members <= read < 3 * 8 * members + 200


def test_what_looks_at_a_state_first_is_counted(fake_cuda):
    state = {n: there(v) for n, v in ONE.items()}
    out = tp.compile(tp.fast(spring) + tp.slow(soft), dt=0.01, backend="cuda").evolve(**state, steps=2)
    assert out.metrics["bytes_moved"] >= 16


# --- other ways in and out -------------------------------------------------------------------------------
def test_words_of_two_begin_a_run_where_they_are(fake_cuda):
    """A run in dd goes on as if it had not ended."""
    state = start(3, (2,))
    sim = tp.compile(plane, dt=0.01, precision="dd", backend="cuda")
    half = sim.evolve(**{n: there(v) for n, v in state.items()}, steps=2)
    whole = sim.evolve(q=half.final.words("q"), p=half.final.words("p"), steps=2)
    other = tp.compile(plane, dt=0.01, precision="dd", backend="llvm")
    first = other.evolve(**state, steps=2)
    assert whole.hash == other.evolve(q=first.final.words("q"), p=first.final.words("p"), steps=2).hash
    assert all(isinstance(w, exchange.DeviceArray) for w in half.words("q"))


def test_nobody_has_to_say_where_a_run_is_done(fake_cuda):
    state = start(5)
    out = tp.compile(pendulum, dt=0.01).evolve(**{n: there(v) for n, v in state.items()}, steps=4)
    assert out.metrics["backend"]["used"] == "cuda" and out.metrics["launches"] > 0
    assert out.hash == tp.compile(pendulum, dt=0.01, backend="llvm").evolve(**state, steps=4).hash


def test_parameters_may_be_there_and_sizes_are_read_off(fake_cuda):
    @tp.hamiltonian
    def oscillators(q: tp.Vec["n"], p: tp.Vec["n"], k: tp.Vec["n"]):
        return (p * p + k * q * q * q * q).sum() / 2

    a, k = np.linspace(0.1, 1.0, 12).reshape(4, 3), np.array([1.0, 2.0, 3.0])
    out = tp.compile(oscillators, dt=0.01, backend="cuda").evolve(q=there(a), p=there(a), k=there(k), steps=2)
    assert out.hash == tp.compile(oscillators, dt=0.01, backend="llvm").evolve(q=a, p=a, k=k, steps=2).hash


def test_parameters_alone_do_not_take_a_run_there(fake_cuda):
    state, k = start(5), np.linspace(1, 2, 5)
    out = tp.compile(pendulum, dt=0.01).evolve(**state, k=there(k), steps=2)
    assert isinstance(out.q, np.ndarray) and out.metrics["backend"]["used"] == "llvm"
    assert out.hash == tp.compile(pendulum, dt=0.01).evolve(**state, k=k, steps=2).hash


def test_a_name_that_is_not_known_is_said_as_ever(fake_cuda):
    with pytest.raises(InputError, match="has no state or parameter `g`"):
        tp.compile(pendulum, dt=0.01).evolve(**{n: there(v) for n, v in start(5).items()}, g=1.0, steps=2)


def test_what_was_compiled_for_a_processor_is_looked_at_again(fake_cuda, monkeypatch):
    """There may be things that a GPU does not do: with backend="cuda" they are refused when they are compiled."""

    def refuse(program, backend, precision):
        raise PlanError(f"the backend `{backend}` does not run {precision}")

    monkeypatch.setattr("tinyphysics.runtime.stages.resolve.choose_target", refuse)
    with pytest.raises(PlanError, match="`cuda` does not run float64"):
        tp.compile(pendulum, dt=0.01).evolve(**{n: there(v) for n, v in start(5).items()}, steps=2)


def test_one_state_for_many_parameters(fake_cuda):
    k = np.linspace(1, 2, 6)
    out = tp.compile(pendulum, dt=0.01, backend="cuda").evolve(
        **{n: there(v) for n, v in ONE.items()}, k=k, steps=3
    )
    assert (
        out.q.shape == (4, 6)
        and out.hash == tp.compile(pendulum, dt=0.01, backend="llvm").evolve(**ONE, k=k, steps=3).hash
    )


def test_files_hold_what_they_hold_of_a_run_here(fake_cuda, tmp_path):
    state = start(5)
    sim = tp.compile(pendulum, dt=0.01, backend="cuda")
    given = {n: there(v) for n, v in state.items()}
    out = sim.evolve(
        **given, steps=6, save_every=2, save=tmp_path / "run.zarr", checkpoint=tmp_path / "run.checkpoint"
    )
    here = tp.compile(pendulum, dt=0.01, backend="llvm").evolve(**state, steps=6, save_every=2)
    assert (
        np.array_equal(out.q[:], here.q)
        and isinstance(out.final.q, exchange.DeviceArray)
        and out.hash == here.hash
    )
    more = tp.compile(pendulum, dt=0.01, backend="llvm").evolve(resume=tmp_path / "run.checkpoint", steps=4)
    assert more.hash == tp.compile(pendulum, dt=0.01, backend="llvm").evolve(**state, steps=10).hash


def test_an_interrupted_run_ends_with_its_last_block(fake_cuda, monkeypatch):
    state = start(5)
    sim = tp.compile(pendulum, dt=0.01, backend="cuda")
    given = {n: there(v) for n, v in state.items()}
    calls, advance = [], CudaEngine.advance

    def pressed(self, m, steps):
        calls.append(steps)
        if len(calls) == 3:
            raise KeyboardInterrupt
        advance(self, m, steps)

    monkeypatch.setattr(CudaEngine, "advance", pressed)
    out = sim.evolve(**given, steps=8, save_every=2)
    monkeypatch.undo()
    assert out.stopped.cause == "interrupted" and out.final.step == 4 and out.q.shape == (3, 5)
    assert np.array_equal(out.final.q.numpy(), sim.evolve(**state, steps=4).final.q)


def test_pictures_are_of_copies(fake_cuda):
    """What draws, and what makes datasets, has NumPy arrays."""
    state = start(5)
    out = tp.compile(pendulum, dt=0.01, backend="cuda").evolve(
        **{n: there(v) for n, v in state.items()}, steps=4
    )
    seen = to_host(out)
    assert (
        isinstance(seen.q, np.ndarray)
        and np.array_equal(seen.q, out.q.numpy())
        and isinstance(out.q, exchange.DeviceArray)
    )
    here = tp.compile(pendulum, dt=0.01).evolve(**state, steps=4)
    assert to_host(here) is here


@pytest.mark.parametrize("precision", ["float64", "lattice"])
def test_a_rewound_run_is_there_too(fake_cuda, precision):
    state = start(5)
    sim = tp.compile(pendulum, dt=0.01, precision=precision, backend="cuda")
    out = sim.evolve(**{n: there(v) for n, v in state.items()}, steps=6)
    assert np.array_equal(exchange.numbers(sim.rewind(out, 2).final.q), sim.evolve(**state, steps=4).final.q)
