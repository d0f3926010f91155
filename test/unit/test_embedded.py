"""Do steps with an estimate of their error follow the solution?  Dormand and Prince's pair, and Radau's points for stiff systems."""

import itertools
import logging
import math
from functools import cache

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import lane_engine
from tinyphysics.errors import InputError, PlanError
from tinyphysics.runtime.engines import adaptive, step_pace
from tinyphysics.runtime.engines.adaptive import AdaptiveEngine
from tinyphysics.runtime.engines.loaders import LlvmLoader
from tinyphysics.synth.coefficients import dormand_prince
from tinyphysics.synth.methods import radau
from tinyphysics.synth.methods.explicit_pair import EIGHT, powers
from tinyphysics.target import VectorShape

METHODS = ("dop853", "dopri5", "radau")


@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - tp.cos(q)


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    x, y = q
    return p @ p / 2 + (x * x + y * y) / 2 + x * x * y - y**3 / 3


@tp.ode
def van_der_pol(x, v, eps: float = 1e-6):
    return v, ((1 - x * x) * v - x) / eps


@tp.ode
def robertson(a, b, c):
    slow, middle, fast = 0.04 * a, 1e4 * b * c, 3e7 * b * b
    return -slow + middle, slow - middle - fast, fast


@tp.ode
def hires(y: tp.Vec[8]):
    a, b, c, d, e, f, g, h = y
    return tp.stack(
        [
            -1.71 * a + 0.43 * b + 8.32 * c + 0.0007,
            1.71 * a - 8.75 * b,
            -10.03 * c + 0.43 * d + 0.035 * e,
            8.32 * b + 1.71 * c - 1.12 * d,
            -1.745 * e + 0.43 * f + 0.43 * g,
            -280 * f * h + 0.69 * d + 1.71 * e - 0.43 * f + 0.69 * g,
            280 * f * h - 1.81 * g,
            -280 * f * h + 1.81 * g,
        ]
    )


# --- coefficients ------------------------------------------------------------------------------------------------
@cache
def trees(order):
    """Rooted trees as sorted tuples of trees."""
    if order == 1:
        return ((),)
    found = set()
    for parts in partitions(order - 1):
        for children in itertools.product(*(trees(n) for n in parts)):
            found.add(tuple(sorted(children)))
    return tuple(sorted(found))


def partitions(n, most=None):
    if n == 0:
        return [()]
    return [(k, *rest) for k in range(min(n, most or n), 0, -1) for rest in partitions(n - k, k)]


def size(tree):
    return 1 + sum(map(size, tree))


def density(tree):
    return size(tree) * math.prod(map(density, tree))


def elementary(tree, a):
    """Of each stage."""
    out = np.ones(len(a))
    for child in tree:
        out = out * (a @ elementary(child, a))
    return out


def tableau():
    """All sixteen slopes, and their places."""
    a = np.zeros((16, 16))
    rows = dormand_prince.STAGES | {EIGHT.end: dormand_prince.WEIGHTS} | dormand_prince.BETWEEN
    for i, row in rows.items():
        for j, w in row.items():
            a[i - 1, j - 1] = w
    return a, np.array([0.0] + [dormand_prince.PLACES[k] for k in range(2, 17)])


def weights_at(part):
    """Of the sixteen slopes, in the curve of dop853."""
    rows = [np.zeros(16) for _ in range(7)]
    for j, w in dormand_prince.WEIGHTS.items():
        rows[0][j - 1] = w
    rows[1] = np.eye(16)[0] - rows[0]
    rows[2] = 2 * rows[0] - np.eye(16)[0] - np.eye(16)[EIGHT.end - 1]
    for k, row in dormand_prince.CURVE.items():
        for j, w in row.items():
            rows[3 + k][j - 1] = w
    return sum(
        part ** (k + 1) * sum(w * rows[n] for n, w in found.items()) for k, found in enumerate(powers(7))
    )


def row_of(table):
    return np.array([table.get(k, 0.0) for k in range(1, 17)])


def test_the_pair_satisfies_all_two_hundred_conditions_up_to_order_eight():
    a, c = tableau()
    assert np.abs(a.sum(axis=1) - c).max() < 1e-14
    b = row_of(dormand_prince.WEIGHTS)
    all_ = [t for n in range(1, 9) for t in trees(n)]
    assert len(all_) == 200
    assert max(abs(b @ elementary(t, a) - 1 / density(t)) for t in all_) < 3e-15
    assert max(abs(b @ elementary(t, a) - 1 / density(t)) for t in trees(9)) > 1e-8  # and not one order more


@pytest.mark.parametrize("row, order", [("FIFTH", 5), ("THIRD", 3)])
def test_the_estimates_have_their_orders(row, order):
    a, _ = tableau()
    error = row_of(getattr(dormand_prince, row))
    assert max(abs(error @ elementary(t, a)) for n in range(1, order + 1) for t in trees(n)) < 3e-15
    assert max(abs(error @ elementary(t, a)) for t in trees(order + 1)) > 1e-6


@pytest.mark.parametrize("part", [0.1, 0.37, 0.5, 0.9, 1.0])
def test_the_curve_within_a_step_has_order_seven(part):
    a, _ = tableau()
    b = weights_at(part)
    all_ = [t for n in range(1, 8) for t in trees(n)]
    assert max(abs(b @ elementary(t, a) - part ** size(t) / density(t)) for t in all_) < 2e-13


def test_the_points_of_radau():
    block = np.array([[radau.G, 0, 0], [0, radau.A, -radau.B], [0, radau.B, radau.A]])
    T, inverse, c = np.array(radau.T), np.array(radau.INVERSE), np.array(radau.PLACES)
    assert np.abs(T @ inverse - np.eye(3)).max() < 1e-15
    a = np.linalg.inv(T @ block @ inverse)
    for k in range(1, 4):
        assert np.abs(a @ c ** (k - 1) - c**k / k).max() < 2e-15
    assert np.abs([a[2] @ c ** (k - 1) - 1 / k for k in range(1, 6)]).max() < 2e-15  # order 5
    assert (
        abs(1 - a[2] @ np.linalg.solve(a, np.ones(3))) < 1e-14
    )  # L-stable: nothing is left of what is infinitely stiff
    for n, power in enumerate(np.array(radau.CUBIC)):  # through the points: c_i, c_i**2 and c_i**3 come back
        assert np.abs([power @ c**k - (k == n + 1) for k in range(1, 4)]).max() < 1e-13
    assert abs(sum(radau.QUARTIC)) == 0.0
    slopes = [sum((k + 1) * w * x**k for k, w in enumerate(radau.QUARTIC)) for x in (0.0, *c)]
    assert slopes == pytest.approx([1.0, 0.0, 0.0, 0.0], abs=1e-14)


# --- accuracy ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "method, order, tolerances",
    [
        ("dop853", 8, (1e-6, 1e-8, 1e-10)),
        ("dopri5", 5, (1e-4, 1e-7, 1e-10)),
        ("radau", 5, (1e-5, 1e-7, 1e-9)),
    ],
)
def test_the_error_falls_with_the_order_of_the_method(method, order, tolerances):
    start = dict(q=[0.1, 0.2], p=[0.3, 0.1], until=20.0)
    exact = tp.compile(henon_heiles, method="taylor").evolve(**start).final
    steps, errors = [], []
    for tolerance in tolerances:
        out = tp.compile(henon_heiles, method=method, tolerance=tolerance).evolve(**start)
        steps.append(out.metrics["substeps"])
        errors.append(max(np.abs(out.final.q - exact.q).max(), np.abs(out.final.p - exact.p).max()))
    slopes = [math.log(a / b) / math.log(n / m) for a, b, m, n in zip(errors, errors[1:], steps, steps[1:])]
    assert sum(slopes) / len(slopes) == pytest.approx(order, abs=1.0)
    assert all(e < 100 * tolerance for e, tolerance in zip(errors, tolerances))


@pytest.mark.parametrize("method, most", [("dop853", 100), ("radau", 1300)])
def test_frames_within_steps_are_as_good_as_their_ends(method, most):
    sim = tp.compile(pendulum, dt=0.05, method=method, tolerance=1e-9)
    out = sim.evolve(q=2.0, p=0.0, until=20.0, save_every=1)
    exact = tp.compile(pendulum, dt=0.05, method="taylor").evolve(q=2.0, p=0.0, until=20.0, save_every=1)
    assert out.metrics["substeps"] < most and np.abs(out.q - exact.q).max() < 3e-7


def test_rounding_does_not_add_up():
    out = tp.compile(kepler, method="dop853", tolerance=1e-14).evolve(
        q=[0.1, 0.0], p=[0.0, math.sqrt(19.0)], until=20 * math.pi
    )
    assert np.abs(out.final.q - [0.1, 0.0]).max() < 3e-9 and out.drift("energy") < 1e-13


@pytest.mark.parametrize("tolerance, allowed", [(1e-5, 2e-4), (1e-8, 2e-7)])
def test_van_der_pol(tolerance, allowed):
    """mu = 1000**2, in the time in which its cycles are of length 1; the reference is of the IVP test set."""
    out = tp.compile(van_der_pol, method="radau", tolerance=tolerance).evolve(x=2.0, v=0.0, until=2.0)
    assert out.final.x == pytest.approx(1.706167732170483, rel=allowed)
    assert out.final.v == pytest.approx(-0.8928097010247975, rel=allowed)


def test_robertson_goes_to_a_hundred_billion():
    out = tp.compile(robertson, method="radau", tolerance=1e-7).evolve(a=1.0, b=0.0, c=0.0, until=1e11)
    wanted = (0.2083340149701255e-7, 0.8333360770334713e-13, 0.9999999791665050)  # the IVP test set
    assert (out.final.a, out.final.b, out.final.c) == tuple(pytest.approx(w, rel=1e-6) for w in wanted)
    assert out.metrics["substeps"] < 1500


def test_hires():
    start = [1.0, 0, 0, 0, 0, 0, 0, 0.0057]
    out = tp.compile(hires, method="radau", tolerance=1e-8).evolve(y=start, until=321.8122)
    wanted = [
        0.7371312573325668e-3,
        0.1442485726316185e-3,
        0.5888729740967575e-4,
        0.1175651343283149e-2,
        0.2386356198831331e-2,
        0.6238968252742796e-2,
        0.2849998395185769e-2,
        0.2850001604814231e-2,
    ]
    assert out.final.y == pytest.approx(wanted, rel=1e-6)


def test_a_stiff_part_that_has_died_out_does_not_keep_steps_short():
    """Its ends of steps are right for any length; frames between them must be too."""

    @tp.ode
    def forced(x, t, rate: float = 1e9):
        return -rate * (x - tp.cos(t))

    out = tp.compile(forced, dt=0.1, method="radau").evolve(x=5.0, until=20.0, save_every=1)
    assert np.abs(out.x - np.cos(out.t))[1:].max() < 3e-6 and out.metrics["substeps"] < 250


def test_a_function_with_corners_is_followed_by_slopes():
    @tp.ode
    def dragged(x, v):
        return v, -x - 0.1 * abs(v) * v

    fine = tp.compile(dragged, dt=1e-3, method="rk4").evolve(x=1.0, v=0.0, until=10.0).final.x
    for method in METHODS:
        assert tp.compile(dragged, method=method).evolve(x=1.0, v=0.0, until=10.0).final.x == pytest.approx(
            fine, abs=2e-6
        )
    with pytest.raises(PlanError, match='method="dop853" applies'):
        tp.compile(dragged)


@pytest.mark.parametrize("method", METHODS)
def test_every_front_end_and_explicit_time(method):
    @tp.hamiltonian
    def driven(q, p, t, w: float = 1.3):
        return p**2 / 2 - tp.cos(q) - 0.5 * q * tp.cos(w * t)

    @tp.forces
    def force(q, t, w: float = 1.3):
        return -tp.sin(q) + 0.5 * tp.cos(w * t)

    @tp.ode
    def rates(q, p, t, w: float = 1.3):
        return p, -tp.sin(q) + 0.5 * tp.cos(w * t)

    exact = tp.compile(rates).evolve(q=1.0, p=0.0, t0=2.0, until=20.0).final.q
    for system in (driven, force, rates):
        out = tp.compile(system, method=method, tolerance=1e-9).evolve(q=1.0, p=0.0, t0=2.0, until=20.0)
        assert out.final.q == pytest.approx(exact, abs=1e-7)


# --- bits --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("backend", ["c", "numpy", "python"])
def test_every_backend_has_the_same_bits(backend, method):
    q = np.stack([np.linspace(1.0, 1.4, 5), np.zeros(5)], 1)
    p = np.stack([np.zeros(5), np.linspace(1.2, 0.9, 5)], 1)
    runs = [
        tp.compile(kepler, dt=0.3, method=method, backend=b, tolerance=1e-7).evolve(
            q=q, p=p, steps=6, save_every=2
        )
        for b in ("llvm", backend)
    ]
    assert runs[0].hash == runs[1].hash and (runs[0].q == runs[1].q).all()
    assert (runs[0].metrics["substeps"] == runs[1].metrics["substeps"]).all()
    assert (runs[0].metrics["rejected"] == runs[1].metrics["rejected"]).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("width, unroll", [(1, 1), (1, 3), (2, 1), (4, 2), (8, 1)])
def test_every_width_has_the_same_bits(width, unroll, method):
    sim = tp.compile(van_der_pol, dt=0.25, method=method, tolerance=1e-4)
    x, v, eps = np.linspace(0.2, 2.0, 11), np.zeros(11), np.geomspace(1.0, 0.01, 11)
    wanted = sim.evolve(x=x, v=v, eps=eps, steps=7)
    inner = lane_engine(sim.built.program, LlvmLoader(shape=VectorShape(width, unroll)))
    engine = AdaptiveEngine(inner, ["x", "v"], None)
    m = engine.start({"x": x, "v": v}, {"eps": eps}, 11, 0.25, 0.0)
    engine.advance(m, 7)
    assert (engine.synchronised(m)["v"] == wanted.final.v).all()
    assert engine.taken(m).tolist() == wanted.metrics["substeps"].tolist()
    assert wanted.metrics["substeps"][-1] > 2 * wanted.metrics["substeps"][0]  # each has its own steps


@pytest.mark.parametrize("method", METHODS)
def test_members_have_the_bits_that_they_have_alone(method):
    x = np.array([2.0, 0.3, -1.0])
    sim = tp.compile(van_der_pol, dt=0.5, method=method, tolerance=1e-5)
    out = sim.evolve(x=x, v=np.zeros(3), eps=0.01, steps=6, save_every=2, threads=2)
    alone = [sim.evolve(x=a, v=0.0, eps=0.01, steps=6, save_every=2) for a in x]
    assert all((out.x[:, k] == one.x).all() for k, one in enumerate(alone))
    assert out.metrics["substeps"].tolist() == [one.metrics["substeps"] for one in alone]


@pytest.mark.parametrize("method", METHODS)
def test_who_looks_when_changes_nothing(method):
    sim = tp.compile(pendulum, dt=0.125, method=method, tolerance=1e-6)
    often = sim.evolve(q=2.0, p=0.0, steps=200, save_every=1, observe={"speed": lambda p: p * p})
    for k in (1, 7, 50, 200):
        once = sim.evolve(q=2.0, p=0.0, steps=k)
        assert once.final.q == often.q[k] and once.final.p == often.p[k]
    free = tp.compile(pendulum, method=method, tolerance=1e-6).evolve(q=2.0, p=0.0, until=25.0)
    assert free.final.q == often.final.q and free.metrics["substeps"] == often.metrics["substeps"]


@pytest.mark.parametrize("method", METHODS)
def test_a_run_goes_on_from_a_checkpoint_bit_for_bit(method, tmp_path):
    sim = tp.compile(kepler, dt=0.7, method=method, tolerance=1e-6)
    start = dict(q=[0.1, 0.0], p=[0.0, math.sqrt(19.0)])
    whole = sim.evolve(**start, steps=20, save_every=5)
    sim.evolve(**start, steps=11, checkpoint=tmp_path / "orbit.checkpoint")
    rest = sim.evolve(resume=tmp_path / "orbit.checkpoint", steps=9)
    assert rest.hash == whole.hash and rest.metrics["substeps"] == whole.metrics["substeps"]
    assert (sim.rewind(whole, 5).final.q == whole.q[3]).all()


def test_what_is_saved_compiles_to_the_same_program(tmp_path):
    sim = tp.compile(van_der_pol, method="radau", tolerance=1e-4, absolute=1e-7)
    sim.save(tmp_path / "sim.json")
    again = tp.load(tmp_path / "sim.json")
    assert again.compiled.known.program == sim.compiled.known.program
    assert (
        tp.compile(van_der_pol, method="radau", tolerance=1e-4).compiled.known.program
        != sim.compiled.known.program
    )


# --- events, ends and what is said -------------------------------------------------------------------------------
@pytest.mark.parametrize("method, tolerance, allowed", [("dop853", 1e-12, 1e-10), ("radau", 1e-9, 1e-6)])
def test_events_are_found_on_the_curve_and_change_nothing(method, tolerance, allowed):
    sim = tp.compile(kepler, dt=1.0, method=method, tolerance=tolerance)
    start = dict(q=[1.0, 0.0], p=[0.0, 1.2])
    out = sim.evolve(**start, steps=60, save_every=1, events={"apsis": lambda q, p: q @ p})
    assert out.hash == sim.evolve(**start, steps=60, save_every=1).hash
    half = math.pi / (2 - 1.2**2) ** 1.5
    found = out.events("apsis")
    assert len(found) == 8 and np.abs(found.t - half * np.arange(1, 9)).max() < allowed
    assert found.rising.tolist() == [False, True] * 4


@pytest.mark.parametrize("method", METHODS)
def test_a_collision_stops_the_run_before_it(method):
    out = tp.compile(kepler, dt=0.25, method=method).evolve(
        q=[1.0, 0.0], p=[0.0, 0.0], steps=10, save_every=1
    )
    assert out.stopped.cause == "not finite" and out.stopped.step == 5  # it falls for pi/sqrt(8) = 1.11
    assert np.isfinite(out.q).all() and len(out.q) == 5
    with pytest.raises(tp.PhysicsIntegrityError, match="no step is short enough"):
        tp.compile(kepler, method=method, checks="strict").evolve(q=[1.0, 0.0], p=[0.0, 0.0], until=2.0)


@pytest.mark.parametrize("method", METHODS)
def test_a_state_that_begins_at_zero_moves(method):
    @tp.ode
    def pushed(x, v, t):
        return v, t

    out = tp.compile(pushed, method=method).evolve(x=0.0, v=0.0, until=3.0)
    assert out.final.x == pytest.approx(4.5, rel=1e-9) and out.final.v == pytest.approx(4.5, rel=1e-9)


def test_very_many_steps_in_which_little_happens_are_told(monkeypatch, caplog):
    @tp.ode
    def forced(x, t):
        return -1e4 * (x - tp.cos(t))

    monkeypatch.setattr(step_pace, "MANY", 200)
    monkeypatch.setattr(adaptive, "PATIENCE", 1.0)
    with caplog.at_level(logging.WARNING, "tinyphysics"):
        tp.compile(forced).evolve(x=1.0, until=2.0)
    assert "steps up to t" in caplog.text and 'method="radau" may take fewer' in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "tinyphysics"):
        tp.compile(pendulum, method="taylor").evolve(q=1.0, p=0.0, until=2000.0)
        tp.compile(forced, method="radau").evolve(x=1.0, until=2.0)
    assert caplog.text == ""


def test_explain_says_what_was_chosen():
    told = str(tp.compile(van_der_pol, method="radau", absolute=1e-8).explain("full"))
    assert "Radau" in told and "6 unknowns" in told and "1e-06" in told and "and 1e-08 beside it" in told
    assert "own lengths" in told and "dt times the steepest" not in told
    told = str(tp.compile(van_der_pol, method="dop853").explain("full"))
    assert "Dormand" in told and "1e-10" in told and "relative to each number" in told
    assert not any(bool(v) for _, v in tp.compile(kepler, method="radau").certificate.items())


def test_an_absolute_error_is_cheaper_where_numbers_vanish():
    runs = [
        tp.compile(robertson, method="radau", **given).evolve(a=1.0, b=0.0, c=0.0, until=40.0)
        for given in ({}, dict(absolute=1e-6))
    ]
    assert runs[1].metrics["substeps"] < runs[0].metrics["substeps"]
    assert runs[1].final.a == pytest.approx(runs[0].final.a, abs=1e-4)


def test_mistakes_are_told():
    with pytest.raises(PlanError, match="absolute= needs a method that controls"):
        tp.compile(pendulum, method="taylor", absolute=1e-8)
    with pytest.raises(PlanError, match="which `auto` does not do"):
        tp.compile(pendulum, dt=0.01, absolute=1e-8)
    with pytest.raises(InputError, match="absolute=-1.0 is not an absolute error"):
        tp.compile(pendulum, method="radau", absolute=-1.0)
    with pytest.raises(PlanError, match="`taylor` chooses its order from tolerance=, 11 here"):
        tp.compile(pendulum, method="taylor", order=4, tolerance=1e-8)
    with pytest.raises(PlanError, match="`dop853` has order 8, not 4"):
        tp.compile(pendulum, method="dop853", order=4)
    with pytest.raises(InputError, match="save_every=1 counts output times dt apart"):
        tp.compile(pendulum, method="taylor").evolve(q=1.0, p=0.0, until=1.0, save_every=1)
    with pytest.raises(InputError, match="the event `down` has an argument `x`"):
        tp.compile(pendulum, method="dop853").evolve(q=1.0, p=0.0, until=1.0, events={"down": lambda x: x})
    with pytest.raises(InputError, match=r"events\['down'\] is not a function"):
        tp.compile(pendulum, method="dop853").evolve(q=1.0, p=0.0, until=1.0, events={"down": 3})
    with pytest.raises(InputError, match="the invariant `L` has an argument `x`"):
        tp.compile(pendulum, dt=0.1, project={"L": lambda x: x})
    with pytest.raises(InputError, match="the function `time` has an argument `x`"):
        tp.compile(kepler, dt=0.1, time=lambda x: x)
    with pytest.raises(
        PlanError,
        match="`dop853` is written out number by number, .* of `long` about .* operations a step, and at most 10,000",
    ):
        tp.compile(long, method="dop853")
    with pytest.raises(PlanError, match="elimination of 20 numbers"):
        tp.compile(chain, method="radau", sizes={"n": 20})


@tp.ode
def long(x):
    return sum(tp.sin(x * k) for k in range(1, 500))


@tp.ode
def chain(x: tp.Vec["n"]):
    return tp.roll(x, 1) - x


@pytest.mark.parametrize("method", ["dop853", "radau"])
def test_more_digits_than_they_have_are_refused(method):
    @tp.ode
    def turning(x, v):
        return v, -x

    with pytest.raises(tp.PlanError, match="more digits"):
        tp.compile(turning, method=method, precision="dd")


@pytest.mark.parametrize("method", ["dop853", "radau"])
@pytest.mark.parametrize("t0", [0.0, 7.0])
def test_a_driven_solution_that_runs_away_ends_where_it_does(method, t0):
    """Times are rounded to float64: an attempt of 3 ulp that failed was tried again for ever."""

    @tp.ode
    def runaway(x, t):
        return x * x * (1 + 0.1 * tp.sin(t))

    out = tp.compile(runaway, dt=0.5, method=method).evolve(x=1.0, steps=8, t0=t0, progress=False)
    assert out.stopped.cause == "not finite" and out.stopped.t <= t0 + 1.5


def test_a_run_whose_steps_become_endless_says_so(caplog, monkeypatch):
    class Enough(Exception):
        pass

    @tp.ode
    def beat(x, t):
        return tp.cos(1e12 * t)

    def seen(record):
        raise Enough(record.getMessage())

    sim = tp.compile(beat, dt=1.0, method="dop853")
    monkeypatch.setattr(caplog.handler, "emit", seen)
    with pytest.raises(Enough, match=r"steps up to t = .*: at this pace, t = 1 takes .* more steps"):
        sim.evolve(x=0.0, steps=1, progress=False)


def test_an_absolute_error_goes_to_the_method_that_is_chosen():
    """A pair, which looks at each number; Taylor series compare with the largest number only."""
    for tolerance, method in ((1e-9, "dop853"), (1e-3, "dopri5")):
        by_itself, named = (
            tp.compile(van_der_pol, method=m, tolerance=tolerance, absolute=1e-7) for m in ("auto", method)
        )
        assert method in str(by_itself.explain()) and "absolute=" in str(by_itself.explain("full"))
        start = dict(x=2.0, v=0.0, eps=1.0, until=1.0)
        assert by_itself.evolve(**start).hash == named.evolve(**start).hash
