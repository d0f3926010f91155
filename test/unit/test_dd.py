"""What does a run with 32 digits mean?  The method of float64 in longer numbers, the same bits everywhere, and what is refused."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import lane_engine
from here import HERE
from test_parity import SUITE, ensemble
from tinyphysics import tpir
from tinyphysics.device.host.arrays import ArraysLoader
from tinyphysics.physics.chains import fput, normal_mode
from tinyphysics.physics.particles import gravity, plummer
from tinyphysics.physics.zoo import henon_heiles, kepler, pendulum
from tinyphysics.planner.methods.catalog import METHODS as ALL
from tinyphysics.runtime.measure.rounding import estimate
from tinyphysics.runtime.state.digest import state_hash
from tinyphysics.runtime.engines.loaders import LlvmLoader
from tinyphysics.step import Weight, exactly
from tinyphysics.synth.coefficients.coefficients import COMPOSITION
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels import kernel
from tinyphysics.tpir.precision.precision import in_precision

COMPILED = [b for b in HERE if b != "python"]
STARTS = {
    henon_heiles: dict(q=[0.1, 0.2], p=[0.3, -0.1]),
    kepler: dict(q=[1.0, 0.0], p=[0.0, 1.2]),
    pendulum: dict(q=1.0, p=0.5),
}


def wide(system, dt=0.05, **options):
    return tp.compile(system, dt=dt, precision="dd", **options)


def numbers(frame, *names):
    """Both words of states, as mpmath's."""
    high, low = (np.concatenate([np.ravel(list(frame.words(n))[k]) for n in names]) for k in range(2))
    return [mp.mpf(float(a)) + mp.mpf(float(b)) for a, b in zip(high, low)]


def apart(a, b):
    return float(max(abs(x - y) for x, y in zip(a, b)))


# --- the same method in 40 digits ----------------------------------------------------------------------
FORCES = {
    henon_heiles: lambda q: [-q[0] - 2 * q[0] * q[1], -q[1] - q[0] ** 2 + q[1] ** 2],
    kepler: lambda q: [-x / mp.sqrt(q[0] ** 2 + q[1] ** 2) ** 3 for x in q],
    pendulum: lambda q: [-mp.sin(q[0])],
}
WEIGHTS = {
    2: ("V", (1.0,)),
    4: ("V", COMPOSITION["yoshida4"]),
    6: ("T", COMPOSITION["kahan_li6"]),
    8: ("T", COMPOSITION["kahan_li8"]),
}


def in_forty_digits(system, order, dt, steps):
    start = STARTS[system]
    q, p = ([mp.mpf(x) for x in np.ravel(start[n])] for n in "qp")
    outer, weights = WEIGHTS[order]
    exact = [mp.mpf(f.numerator) / f.denominator for f in map(exactly, weights)]

    def kick(h):
        for i, f in enumerate(FORCES[system](q)):
            p[i] += h * f

    def drift(h):
        for i, v in enumerate(p):
            q[i] += h * v

    first, second = (kick, drift) if outer == "V" else (drift, kick)
    for _ in range(steps):
        for w in exact:
            first(w * mp.mpf(dt) / 2)
            second(w * mp.mpf(dt))
            first(w * mp.mpf(dt) / 2)
    return q + p


METHODS = {2: "leapfrog_kdk", 4: "yoshida4", 6: "kahan_li6", 8: "kahan_li8"}


@pytest.mark.requirement("S2-25")
@pytest.mark.parametrize("order", [2, 4, 6, 8])
@pytest.mark.parametrize("system", STARTS, ids=lambda s: s.name)
def test_a_run_agrees_with_one_in_forty_digits(system, order):
    out = wide(system, method=METHODS[order]).evolve(**STARTS[system], steps=40)
    with mp.workdps(45):
        assert apart(numbers(out.final, "q", "p"), in_forty_digits(system, order, 0.05, 40)) < 1e-29


@pytest.mark.parametrize("order, steps", [(2, (64, 128)), (4, (256, 512)), (6, (256, 512)), (8, (256, 512))])
@pytest.mark.parametrize("system", [henon_heiles, kepler], ids=lambda s: s.name)
def test_the_error_goes_on_falling_with_the_order(system, order, steps):
    """From one halving of dt to the next, by what the state changes."""
    ends = []
    with mp.workdps(45):
        for n in (*steps, 2 * steps[-1]):
            out = wide(system, dt=1 / n, method=METHODS[order]).evolve(**STARTS[system], steps=n)
            ends.append(numbers(out.final, "q", "p"))
        errors = [apart(a, b) for a, b in zip(ends, ends[1:])]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.05), errors
    assert errors[1] < {2: 1e-4, 4: 1e-11, 6: 1e-17, 8: 1e-26}[order]


def test_the_second_words_of_its_weights_are_in_a_run():
    built = wide(henon_heiles, method="kahan_li8", backend="python").built
    start = {**STARTS[henon_heiles], "q.low": [0.0, 0.0], "p.low": [0.0, 0.0]}
    near = {w: exact + Fraction(1, 2**80) for w, exact in built.step.weights.items()}
    ends = [
        tpir.vm.run(in_precision(built.exact, "dd", weights=weights), start, 5)
        for weights in (built.step.weights, near)
    ]
    off = max(
        abs((ends[0]["q"][k] - ends[1]["q"][k]) + (ends[0]["q.low"][k] - ends[1]["q.low"][k]))
        for k in range(2)
    )
    assert 1e-26 < off < 1e-22


def test_a_method_whose_weights_have_no_more_digits_is_refused():
    built = wide(henon_heiles, method="kahan_li8", backend="python").built
    with pytest.raises(tp.PlanError, match="of the method `kahan_li8` is known only as a float64"):
        in_precision(built.exact, "dd")


def test_a_weight_computes_as_a_float_and_knows_better():
    third = Weight(1 / 3, Fraction(1, 3))
    for x in (
        third + third,
        1 - third,
        third - 0.5,
        2 * third,
        third / 2,
        -third,
        third + 0.25,
        0.25 + third,
    ):
        assert isinstance(x, Weight) and float(x.exact) == pytest.approx(float(x), rel=1e-15)
    assert 1 - 2 * third == 1 - 2 * (1 / 3) and (1 - 2 * third).exact == Fraction(1, 3)
    assert pickle.loads(pickle.dumps(third)).exact == third.exact and repr(third) == repr(1 / 3)
    w = COMPOSITION["yoshida4"]
    assert abs(sum(exactly(x) for x in w) - 1) < Fraction(1, 10**50) > abs(sum(exactly(x) ** 3 for x in w))
    assert all(abs(float(exactly(x)) - x) <= 4 * math.ulp(x) for row in COMPOSITION.values() for x in row)


# --- the same bits ------------------------------------------------------------------------------------
@pytest.mark.requirement("S4-03")
@pytest.mark.parametrize("name", SUITE)
def test_every_backend_has_the_bits_of_the_virtual_machine(name):
    system, options, start = SUITE[name]
    start = ensemble(start, 3)
    many = name in (
        "trig",
        "growth",
        "powers",
        "torture",
    )  # functions: thousands of operations, which a C compiler takes long for
    backends = ("python", "llvm") if many else HERE
    runs = {
        b: tp.compile(system, backend=b, precision="dd", **options).evolve(steps=4, hash_every=2, **start)
        for b in backends
    }
    assert len({r.hash for r in runs.values()}) == 1, {b: r.hash for b, r in runs.items()}
    assert len({tuple(r.hashes) for r in runs.values()}) == 1


@pytest.mark.parametrize("system", [henon_heiles, pendulum], ids=lambda s: s.name)
def test_an_ensemble_is_its_members_run_alone(system):
    rng = np.random.default_rng(1)
    start = {n: np.asarray(v) + 0.1 * rng.normal(size=(100, *np.shape(v))) for n, v in STARTS[system].items()}
    sims = {b: wide(system, backend=b, order=2) for b in COMPILED}
    for members in (1, 2, 9, 100):
        some = {n: v[:members] for n, v in start.items()}
        runs = {(b, k): sim.evolve(**some, steps=5, threads=k) for b, sim in sims.items() for k in (1, 3)}
        assert len({r.hash for r in runs.values()}) == 1
    whole = runs["llvm", 1]
    for k in (0, 63, 99):
        alone = sims["llvm"].evolve(**{n: v[k] for n, v in start.items()}, steps=5)
        for n in start:
            assert all(np.array_equal(a, b[k]) for a, b in zip(alone.final.words(n), whole.final.words(n)))


def test_vector_widths_and_interleaving_change_nothing():
    program = wide(kepler, order=4, backend="python").tpir
    rng = np.random.default_rng(2)
    q, p = (np.array(v) + 0.1 * rng.normal(size=(29, 2)) for v in STARTS[kepler].values())
    state = {"q": q, "q.low": np.zeros((29, 2)), "p": p, "p.low": np.zeros((29, 2))}
    found = {}
    loaders = {s: LlvmLoader(shape=VectorShape(*s)) for s in ((1, 1), (2, 3), (8, 1))} | {
        "numpy": ArraysLoader()
    }
    for name, loader in loaders.items():
        engine = lane_engine(program, loader)
        m = engine.start(state, {"mu": np.array([1.0])}, 29, 0.05, 0.0)
        engine.advance(m, 4)
        found[name] = state_hash(engine.synchronised(m))
    assert len(set(found.values())) == 1, found


ARRAYS = {
    "chain of 64": (fput, normal_mode(64), 4),
    "9 bodies": (gravity, plummer(9), 2),
    "40 bodies": (gravity, plummer(40), 1),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_have_the_bits_of_the_virtual_machine(name):
    system, start, steps = ARRAYS[name]
    backends = ("llvm", "python") if name == "40 bodies" else HERE
    runs = {b: wide(system, dt=0.01, order=2, backend=b).evolve(**start, steps=steps) for b in backends}
    assert len({r.hash for r in runs.values()}) == 1, {b: r.hash for b, r in runs.items()}


def test_a_chain_of_64_is_right_to_its_last_digits():
    start, dt = normal_mode(64), 0.1
    out = wide(fput, dt=dt, order=2).evolve(**start, steps=20)
    with mp.workdps(45):
        q, p, h = [mp.mpf(float(x)) for x in start["q"]], [mp.mpf(0)] * 64, mp.mpf(dt)

        def kick(w):
            d = [b - a for a, b in zip([mp.mpf(0), *q], [*q, mp.mpf(0)])]
            f = [x + x * x / 4 for x in d]
            for i in range(64):
                p[i] += w * (f[i + 1] - f[i])

        for _ in range(20):
            kick(h / 2)
            q[:] = [a + h * b for a, b in zip(q, p)]
            kick(h / 2)
        assert apart(numbers(out.final, "q", "p"), q + p) < 1e-30


@pytest.mark.parametrize("n", [9, 33])
def test_bodies_are_right_to_their_last_digits(n):
    start, dt = plummer(n), 0.01
    out = wide(gravity, dt=dt, order=2, backend="llvm").evolve(**start, steps=3)
    with mp.workdps(45):
        q, p = ([[mp.mpf(float(x)) for x in row] for row in start[name]] for name in "qp")
        m = [mp.mpf(float(x)) for x in np.broadcast_to(start.get("m", 1.0), n)]

        def kick(w):
            for i in range(n):
                for j in range(i):
                    d = [a - b for a, b in zip(q[i], q[j])]
                    f = m[i] * m[j] / mp.sqrt(sum(x * x for x in d)) ** 3
                    for k in range(3):
                        p[i][k] -= w * f * d[k]
                        p[j][k] += w * f * d[k]

        h = mp.mpf(dt)
        for _ in range(3):
            kick(h / 2)
            for i in range(n):
                q[i] = [a + h * b / m[i] for a, b in zip(q[i], p[i])]
            kick(h / 2)
        want = [x for rows in (q, p) for row in rows for x in row]
        assert apart(numbers(out.final, "q", "p"), want) < 1e-29


def test_neighbours_are_right_to_their_last_digits_and_have_the_bits_of_the_virtual_machine():
    """A list is made of first words, forces of both; in a box, across whose edge there are neighbours."""

    @tp.hamiltonian
    def near(q: tp.Array[27, 2], p: tp.Array[27, 2], box: tp.Vec[2] = (9.0, 9.0), rc: float = 2.0):
        return (p * p).sum() / 2 + tp.pair_sum(1 / tp.pair_distance2(q, box=box, cutoff=rc) ** 3)

    rng = np.random.default_rng(3)
    grid = np.stack(np.meshgrid(np.arange(9.0), np.arange(3.0) * 3), -1).reshape(-1, 2)
    start, dt = dict(q=grid + 0.1 * rng.normal(size=(27, 2)), p=0.1 * rng.normal(size=(27, 2))), 0.01
    runs = {b: wide(near, dt=dt, order=2, backend=b).evolve(**start, steps=2) for b in ("llvm", "python")}
    assert runs["llvm"].hash == runs["python"].hash
    with mp.workdps(45):
        q, p = ([[mp.mpf(float(x)) for x in row] for row in start[name]] for name in "qp")

        def kick(w):
            for i in range(27):
                for j in range(i):
                    d = [a - b - 9 * mp.nint((a - b) / 9) for a, b in zip(q[i], q[j])]
                    r2 = sum(x * x for x in d)
                    for k in range(2) if r2 < 4 else ():
                        p[i][k] += w * 6 * d[k] / r2**4
                        p[j][k] -= w * 6 * d[k] / r2**4

        h = mp.mpf(dt)
        for _ in range(2):
            kick(h / 2)
            q = [[a + h * b for a, b in zip(x, v)] for x, v in zip(q, p)]
            kick(h / 2)
        want = [x for rows in (q, p) for row in rows for x in row]
        assert apart(numbers(runs["llvm"].final, "q", "p"), want) < 1e-29


# --- what a run shows -------------------------------------------------------------------------------------
def test_states_have_two_words_and_are_shown_as_one_number():
    out = wide(kepler).evolve(**STARTS[kepler], steps=10, save_every=5)
    high, low = out.words("q")
    assert high.shape == low.shape == out.q.shape == (3, 2) and out.q.dtype == np.float64
    assert (
        np.array_equal(out.q, high)
        and np.all(high + low == high)
        and np.all(low[0] == 0)
        and np.any(low[1:] != 0)
    )
    zero = wide(kepler).evolve(**STARTS[kepler], steps=0)
    assert np.array_equal(zero.final.q, STARTS[kepler]["q"]) and not np.any(list(zero.final.words("q"))[1])


def test_a_run_goes_on_from_the_words_of_another():
    """Unlike from its value, which has lost the second one; to the rounding of the halves of a step."""
    sim = wide(kepler, order=2)
    whole = sim.evolve(**STARTS[kepler], steps=20)
    half = sim.evolve(**STARTS[kepler], steps=10).final
    on = sim.evolve(q=half.words("q"), p=half.words("p"), steps=10)
    lost = sim.evolve(q=half.q, p=half.p, steps=10)
    with mp.workdps(45):
        end = numbers(whole.final, "q", "p")
        assert (
            apart(numbers(on.final, "q", "p"), end)
            < 1e-30
            < 1e-18
            < apart(numbers(lost.final, "q", "p"), end)
        )


def test_a_checkpoint_keeps_both_words(tmp_path):
    sim, file = wide(kepler, order=4), tmp_path / "half"
    whole = sim.evolve(**STARTS[kepler], steps=20)
    sim.evolve(**STARTS[kepler], steps=10, checkpoint=file)
    assert sim.evolve(steps=10, resume=file).hash == whole.hash


def test_drift_is_measured_in_pairs():
    """Far below what float64 could tell apart; it falls as dt**8, and the same on every backend."""
    found = {}
    for n in (32, 64):
        for backend in ("llvm", "python"):
            out = wide(henon_heiles, dt=1 / n, method="kahan_li8", backend=backend).evolve(
                **STARTS[henon_heiles], steps=n
            )
            found[n, backend] = out.drift("energy")
    assert found[32, "llvm"] == found[32, "python"] and found[64, "llvm"] == found[64, "python"]
    assert 0 < found[64, "llvm"] < 1e-19 and math.log2(
        found[32, "llvm"] / found[64, "llvm"]
    ) == pytest.approx(8, abs=0.3)
    assert abs(out.drift_rate().slope) < 1e-19 and out.energy.dtype == np.float64


def test_the_expected_rounding_is_the_measured_one_to_a_factor_of_four():
    """Of the energy of Kepler orbits, against leapfrog in 45 digits."""
    dt, steps, e = 0.05, 120, np.linspace(0.05, 0.4, 6)
    start = dict(q=np.stack([1 - e, 0.1 + 0 * e], 1), p=np.stack([0 * e, np.sqrt((1 + e) / (1 - e))], 1))
    sim = wide(kepler, dt=dt, order=2)
    out = sim.evolve(**start, steps=steps)
    off = []
    with mp.workdps(45):
        for k in range(len(e)):
            q, p = ([mp.mpf(x) for x in start[n][k]] for n in "qp")
            for _ in range(steps):
                p = [v + mp.mpf(dt) / 2 * f for v, f in zip(p, FORCES[kepler](q))]
                q = [x + mp.mpf(dt) * v for x, v in zip(q, p)]
                p = [v + mp.mpf(dt) / 2 * f for v, f in zip(p, FORCES[kepler](q))]
            own = [
                [mp.mpf(float(a)) + mp.mpf(float(b)) for a, b in zip(*(w[k] for w in out.final.words(n)))]
                for n in "qp"
            ]
            parts = [
                ((v[0] ** 2 + v[1] ** 2) / 2, 1 / mp.sqrt(x[0] ** 2 + x[1] ** 2)) for x, v in ((q, p), own)
            ]
            off.append(float(((parts[1][0] - parts[1][1]) - (parts[0][0] - parts[0][1])) / sum(parts[0])))
    expected = estimate(sim.compiled, sim.began).walk * steps**0.5
    assert expected / 4 < np.sqrt(np.mean(np.square(off))) < 4 * expected, (off, expected)
    assert "2**-104 times dt" in str(wide(kepler).explain("full"))


def test_watching_changes_nothing():
    sim = wide(kepler, order=4)
    plain = sim.evolve(**STARTS[kepler], steps=30)
    seen = sim.evolve(
        **STARTS[kepler], steps=30, save_every=1, observe={"r": lambda q: tp.norm(q), "e": "energy"}
    )
    assert plain.hash == seen.hash and seen["r"][-1] == pytest.approx(np.hypot(*seen.q[-1]), rel=1e-15)


def test_time_has_two_words():
    """In dp/dt = t at t0 = 2**40 the second word of a time is 2**-40 of the first; p is exact here."""

    @tp.hamiltonian
    def pushed(q, p, t):
        return p * p / 2 - q * t

    start, dt = 2.0**40, 0.1
    for backend in HERE:
        sim = wide(
            pushed, dt=dt, method="symplectic_euler", backend=backend
        )  # drifts, then kicks at the end of the step
        out = sim.evolve(q=0.0, p=0.0, steps=7, t0=start)
        with mp.workdps(50):
            want = sum(mp.mpf(dt) * (mp.mpf(start) + k * mp.mpf(dt)) for k in range(1, 8))
            assert abs(numbers(out.final, "p")[0] - want) < 1e-18, backend


def test_a_constant_beside_a_step_is_the_users():
    """A constant force in a Runge-Kutta step: 9.81 is not a coefficient of the method, 1/6 is."""

    @tp.hamiltonian
    def falling(q, p, t):
        return p * p / 2 + 9.81 * q + q * t / 7

    sim = wide(falling, dt=0.1, method="rk4")
    out = sim.evolve(q=0.0, p=0.0, steps=1)
    with mp.workdps(45):  # the exact solution is a cubic
        h = mp.mpf(0.1)
        assert abs(numbers(out.final, "q")[0] + mp.mpf(9.81) * h**2 / 2 + h**3 / 42) < 1e-33
        assert abs(numbers(out.final, "p")[0] + mp.mpf(9.81) * h + h**2 / 14) < 1e-32


def test_random_numbers_are_those_of_float64():
    @tp.map
    def walk(x):
        return x + tp.random.normal() / 3

    runs = {b: tp.compile(walk, precision="dd", backend=b).evolve(x=0.0, steps=20, seed=5) for b in HERE}
    assert len({r.hash for r in runs.values()}) == 1
    plain = tp.compile(walk).evolve(x=0.0, steps=20, seed=5)
    assert runs["llvm"].final.x == pytest.approx(plain.final.x, rel=1e-13)


# --- the program -----------------------------------------------------------------------------------------
def test_the_program_is_an_ordinary_one():
    program = wide(kepler, order=4).tpir
    assert tpir.parse(str(program)) == program and tpir.parse(str(program)).hash == program.hash
    assert [s.name for s in program.states] == ["q", "q.low", "p", "p.low"]
    assert {i.op for _, _, i in program.numbered()} <= {"LOAD", "STORE", "ELEM", "FMA", "MOVE", "MAP"}
    ends = tpir.vm.run(
        program,
        {"q": [1.0, 0.0], "q.low": [0.0, 0.0], "p": [0.0, 1.2], "p.low": [0.0, 0.0]},
        5,
        params={"mu": 1.0},
    )
    out = wide(kepler, order=4, backend="llvm").evolve(**STARTS[kepler], steps=5)
    assert [ends["q"], ends["q.low"]] == [w.tolist() for w in out.final.words("q")]


def test_equal_stages_stay_a_loop():
    assert "17 stages in a loop" in str(
        wide(henon_heiles, method="kahan_li8", backend="llvm").explain("full")
    )


def test_the_certificate_is_that_of_the_step():
    sim = wide(kepler, order=4)
    assert (
        sim.certificate.symplectic
        and sim.certificate.reversible
        and "pairs of float64" in str(sim.explain("full"))
    )


def test_a_users_constant_is_the_float64_that_was_written():
    @tp.hamiltonian
    def tenth(q, p):
        return p * p / 2 + 0.1 * q * q / 3

    out = wide(tenth, dt=0.5, method="symplectic_euler").evolve(q=1.0, p=0.0, steps=1)
    with mp.workdps(45):
        assert abs(numbers(out.final, "p")[0] + mp.mpf(0.5) * 2 * mp.mpf(0.1) / 3) < 1e-32


# --- what is refused --------------------------------------------------------------------------------------
def test_other_units_are_refused():
    with pytest.raises(tp.PlanError, match='scale="auto" cannot be combined with precision="dd"'):
        wide(henon_heiles, scale="auto")


def test_an_overflow_stops_the_run():
    @tp.map
    def grows(x):
        return x * x

    out = tp.compile(grows, precision="dd").evolve(x=1e100, steps=5)
    assert out.stopped is not None and out.stopped.cause == "not finite" and out.stopped.step == 2


@pytest.mark.parametrize("m", [m for m in ALL if m.splits and m.order in (6, 8)], ids=lambda m: m.name)
def test_a_method_keeps_its_order_beyond_float64(m):
    """Whose weights, those of force gradients too, have more digits than float64 has."""
    sim, ends = tp.compile(henon_heiles, dt=1.0, method=m.name, precision="dd"), []
    for n in (96, 192, 384):
        ends.append(
            [*sim.evolve(q=[0.1, 0.2], p=[0.3, -0.1], dt=1 / n, steps=n).final.words("q").arrays.values()]
        )
    coarse, fine = (np.abs((a[0] - b[0]) + (a[1] - b[1])).max() for a, b in zip(ends, ends[1:]))
    assert fine < 2e-16 and abs(np.log2(coarse / fine) - m.order) < 0.1


def test_a_kernel_is_written_out_once(monkeypatch):
    """A run, its drift and the report of a program all read the same one; of long programs that is most of the time."""
    made, real = [], kernel.Meaning.__init__
    monkeypatch.setattr(kernel.Meaning, "__init__", lambda self, p: made.append(p) or real(self, p))
    sim = tp.compile(pendulum, dt=0.0371, precision="dd")
    out = sim.evolve(q=0.5, p=0.1, steps=3)
    kernel.build_kernel(sim.tpir)
    count = sum(p is sim.tpir for p in made)
    out.drift()
    sim.explain("full")
    assert count > 0 and sum(p is sim.tpir for p in made) == count
