"""Walls and events that change the motion: bounces with the order of the method, one set of bits, and an energy that is booked."""

import warnings

import numpy as np
import pytest

import tinyphysics as tp


@tp.hamiltonian
def rough(q, p):
    return p**2 / 2 + q + 0.3 * tp.sin(2 * q)


@tp.hamiltonian
def ball(q, p, g: float = 9.81):
    return p**2 / 2 + g * q


@tp.hamiltonian
def free(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2


FLOOR = tp.wall(lambda q: q, name="floor")
REST = 4.063712768871578  # sqrt(2/g) (1 + e)/(1 - e), of a ball from 1 with e = 0.8
EXACT = (0.825378280, 0.544737519)  # of the rough slope at t = 20, by steps that are ten times shorter

# errors at t = 20 after 7 bounces
KNOWN = {
    "leapfrog": {0.04: 1.34e-3, 0.02: 3.21e-4, 0.01: 7.97e-5},
    "yoshida4": {0.04: 5.7e-6, 0.02: 3.7e-7, 0.01: 2.3e-8},
}


def final(method, dt, **options):
    out = tp.compile(rough + FLOOR, dt=dt, method=method, **options).evolve(
        q=1.0, p=0.0, until=20.0, save_every=None
    )
    return out, (float(out.final.q), float(out.final.p))


@pytest.mark.requirement("S2-51")
@pytest.mark.parametrize("method", KNOWN)
def test_a_step_that_is_cut_at_the_wall_keeps_the_order_of_its_method(method):
    _, exact = final("yoshida4", 0.001)
    for dt, error in KNOWN[method].items():
        out, found = final(method, dt)
        assert len(out.events("floor")) == 7
        assert max(abs(a - b) for a, b in zip(found, exact)) == pytest.approx(error, rel=0.03)


BACKENDS = ("llvm", "c", "python", "numpy")


@pytest.mark.parametrize("precision", ("float64", "float32", "dd"))
def test_bounces_have_the_same_bits_on_every_backend(precision):
    found = {}
    for backend in BACKENDS[: 4 if precision == "float64" else 3]:
        sim = tp.compile(rough + FLOOR, dt=0.1, method="leapfrog", backend=backend, precision=precision)
        out = sim.evolve(q=1.0, p=0.0, steps=40)
        e = out.events("floor")
        found[backend] = (out.hash, tuple(e.t), tuple(np.ravel(e.p)))
    assert len(found["llvm"][1]) == 1 and len(set(found.values())) == 1


def test_members_have_the_bits_that_they_have_alone():
    sim = tp.compile(rough + FLOOR, dt=0.05, method="leapfrog")
    q = np.linspace(0.1, 2.0, 5)
    every = sim.evolve(q=q, p=np.zeros(5), until=10.0)
    for k in range(5):
        one = sim.evolve(q=q[k], p=0.0, until=10.0)
        e = every.events("floor")
        assert one.final.p == every.final.p[k] and (one.events("floor").t == e[e.member == k].t).all()


@pytest.mark.parametrize("method", ("leapfrog", "yoshida4", "rk4"))
def test_a_ball_comes_to_rest_in_one_record_and_its_energy_is_booked(method):
    sim = tp.compile(ball + tp.wall(lambda q: q, restitution=0.8, name="floor"), dt=0.01, method=method)
    out = sim.evolve(q=1.0, p=0.0, until=6.0)
    e = out.events("floor")
    assert e.rested.sum() == 1 and e.rested[-1]
    assert e.t[-1] == pytest.approx(REST, abs=1e-9)
    assert out.final.q == 0.0 and out.final.p == 0.0
    assert out.drift("energy") < 1e-14
    assert out.ledger["bounces"][-1] == pytest.approx(9.81)
    assert (np.asarray(out.q) >= -1e-15).all()


def test_a_body_at_rest_leaves_the_wall_where_its_multiplier_changes_sign():
    @tp.hamiltonian
    def cart(q: tp.Vec[2], p: tp.Vec[2]):  # pressed down while q[0] < 1, lifted beyond
        return p @ p / 2 + (1 - q[0]) * q[1]

    sim = tp.compile(cart + tp.wall(lambda q: q[1], 0.5, name="floor"), dt=0.01, method="leapfrog")
    out = sim.evolve(q=[0.0, 0.0], p=[1.0, 0.0], until=2.0)
    x, y = np.asarray(out.q).T
    assert np.abs(y[x < 0.999]).max() == 0.0
    # y'' = x - 1 and x'' = y beyond x = 1: y = t**3/6 + ...
    t = out.t[-1] - 1.0
    assert y[-1] == pytest.approx(t**3 / 6, rel=0.02)


@pytest.mark.requirement("S2-51")
def test_an_ellipse_keeps_energy_and_the_product_of_angular_momenta_about_its_foci():
    sim = tp.compile(free + tp.wall(lambda q: 1 - q[0] ** 2 / 4 - q[1] ** 2, name="ellipse"), dt=100.0)
    out = sim.evolve(q=[0.3, 0.2], p=[1.0, 0.5], steps=100)
    e = out.events("ellipse")
    assert len(e) > 5000
    (x, y), (px, py), c = e.q.T, e.p.T, np.sqrt(3.0)
    product = ((x - c) * py - y * px) * ((x + c) * py - y * px)
    assert np.abs(product / product[0] - 1).max() < 1e-11
    assert np.abs((e.p**2).sum(axis=1) / 1.25 - 1).max() < 1e-13
    assert np.abs(1 - x**2 / 4 - y**2).max() < 1e-12
    assert sim.certificate.symplectic and "billiard" in sim.certificate.symplectic.because


@pytest.mark.requirement("S2-51")
def test_a_thin_wall_and_a_double_crossing_in_one_step_are_caught():
    thin = tp.wall(lambda q: (q[0] - 1) ** 2 - 1e-12, name="thin")  # a slab, a millionth of a step thick
    sim = tp.compile(free + thin, dt=10.0)
    out = sim.evolve(q=[0.0, 0.0], p=[1.0, 0.0], steps=1)
    assert len(out.events("thin")) == 1 and out.final.q[0] == pytest.approx(-8.0, abs=1e-5)
    # a parabola that dips below the wall between two steps
    dip = tp.wall(lambda q: q[1] - 0.001, name="dip")

    @tp.hamiltonian
    def lifted(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 - q[1] + 0.1 * tp.sin(q[0])

    sim = tp.compile(lifted + dip, dt=0.5, method="leapfrog")
    out = sim.evolve(q=[0.0, 0.03], p=[0.0, -0.25], steps=1)
    assert len(out.events("dip")) == 1


def test_a_corner_is_a_tie_and_turns_the_velocity_around():
    box = tp.wall(lambda q: [q[0], q[1]], name="corner")
    sim = tp.compile(free + box, dt=2.0)
    out = sim.evolve(q=[1.0, 1.0], p=[-1.0, -1.0], steps=1)
    assert np.asarray(out.final.q) == pytest.approx([1.0, 1.0]) and (np.asarray(out.final.p) == 1.0).all()
    assert out.metrics["ties"] == 1


def test_walls_reflect_in_the_metric_of_the_masses():
    @tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])
    def two(x, px, y, py):
        return px**2 / 2 + py**2 / 6

    sim = tp.compile(two + tp.wall(lambda x, y: y - x, name="contact"), dt=10.0)
    out = sim.evolve(x=0.0, px=1.0, y=1.0, py=0.0, steps=1)
    # masses 1 and 3 meet: v1 = (1 - 3)/4, v2 = 2/4
    assert out.final.px == pytest.approx(-0.5) and out.final.py == pytest.approx(1.5)


def test_events_change_states_or_stop_a_member():
    kick = tp.event(lambda q: q, lambda p: {"p": -0.5 * p}, direction=-1, name="kick")
    out = tp.compile(ball + kick, dt=0.01, method="leapfrog").evolve(q=1.0, p=0.0, until=1.0)
    t = np.sqrt(2 / 9.81)
    assert out.events("kick").t == pytest.approx([t, 2 * t]) and not out.events("kick").rising.any()
    stop = tp.event(lambda q: q, "stop", name="down")
    out = tp.compile(rough + stop, dt=0.05, method="yoshida4").evolve(q=[1.0, 0.5], p=np.zeros(2), until=5.0)
    assert [s.cause for s in out.stops] == ["event", "event"] and out.stops[0].where == "down"
    assert np.abs(out.final.q).max() < 1e-14
    assert sorted(s.t for s in out.stops) == pytest.approx(sorted(out.events("down").t))


def test_an_event_of_an_ode_sees_its_states():
    @tp.ode
    def decay(x):
        return -x

    full = tp.event(lambda x: x - 0.5, lambda x: {"x": 2.0 * x}, name="refill")
    out = tp.compile(decay + full, dt=0.01, method="rk4").evolve(x=1.0, until=3.0)
    assert out.events("refill").t == pytest.approx(np.log(2.0) * np.arange(1, 5), abs=1e-8)


def test_a_run_may_be_cut_anywhere(tmp_path):
    sim = tp.compile(rough + FLOOR, dt=0.05, method="leapfrog")
    whole = sim.evolve(q=1.0, p=0.0, steps=400)
    first = sim.evolve(q=1.0, p=0.0, steps=163)
    rest = sim.evolve(resume=first, steps=237)
    assert rest.hash == whole.hash
    t = [*first.events("floor").t, *rest.events("floor").t]
    assert t == list(whole.events("floor").t)
    assert sim.evolve(q=1.0, p=0.0, steps=400, save_every=7).final.q == whole.final.q
    path = tmp_path / "run.checkpoint"
    sim.evolve(q=1.0, p=0.0, steps=163, checkpoint=path)
    assert sim.evolve(resume=path, steps=237).hash == whole.hash


def test_a_saved_simulation_has_its_walls(tmp_path):
    sim = tp.compile(ball + tp.wall(lambda q: q, restitution=0.8, name="floor"), dt=0.01, method="leapfrog")
    sim.save(tmp_path / "ball.json")
    out = tp.load(tmp_path / "ball.json").evolve(q=1.0, p=0.0, until=1.0)
    assert out.hash == sim.evolve(q=1.0, p=0.0, until=1.0).hash


def test_a_rod_bounces_with_its_normal_projected_on_the_constraint():
    @tp.hamiltonian
    def mass(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + q[1]

    @tp.constraint
    def rod(q: tp.Vec[2]):
        return q @ q - 1.0

    sim = tp.compile(mass + rod + tp.wall(lambda q: q[0] + 0.5, name="side"), dt=0.01)
    out = sim.evolve(q=[1.0, 0.0], p=[0.0, 0.0], until=8.0)
    assert len(out.events("side")) >= 2
    assert np.abs((out.q**2).sum(axis=1) - 1).max() < 1e-12
    assert np.abs((out.q * out.p).sum(axis=1)).max() < 1e-12
    assert out.q[:, 0].min() > -0.5 - 1e-12
    assert out.drift("energy") < 1e-4


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: tp.wall(lambda q: q, restitution=1.5), "restitution=1.5 is not from 0 to 1"),
        (lambda: tp.wall(3.0), "is not a function"),
        (lambda: tp.event(lambda q: q, then=3), 'is neither a function nor "stop"'),
        (lambda: tp.event(lambda q: q, direction=2), "is not -1, 0 or 1"),
        (lambda: tp.compile(ball + tp.wall(lambda p: p), dt=0.1), "depends on `p`, which is not a position"),
        (lambda: tp.compile(ball + tp.wall(lambda q: 1 + q * q), dt=0.1), "no state can reach the wall"),
        (lambda: tp.compile(ball + tp.wall(lambda q: -1 - q * q), dt=0.1), "every state is behind the wall"),
        (lambda: tp.compile(ball + tp.wall(lambda x: x), dt=0.1), "has an argument `x`"),
        (
            lambda: tp.compile(ball + tp.event(lambda q: q, lambda p: {"x": p}), dt=0.1),
            "returns `x`, which is neither a state nor a parameter",
        ),
        (
            lambda: tp.compile(ball + tp.event(lambda q: q, lambda p: {"p": [p, p]}), dt=0.1),
            r"of shape \(2,\)",
        ),
        (
            lambda: tp.compile(free + tp.event(lambda q: q[0], lambda p: {"p": 0.0}), dt=0.1),
            r"returns `p` of shape \(\), and it has \(2,\)",
        ),
        (
            lambda: tp.compile(free + tp.event(lambda q: q[0], lambda k: {"k": k}), dt=0.1),
            "has an argument `k`",
        ),
        (
            lambda: tp.compile(ball + tp.event(lambda q: q, lambda g: {"g": [g, g]}), dt=0.1),
            r"returns `g` of shape \(2,\)",
        ),
        (lambda: tp.compile(ball + FLOOR, dt=0.1).minimise(q=1.0), "minimise follows forces alone"),
        (lambda: tp.compile(ball + tp.event(lambda q: q, lambda p: p), dt=0.1), "not new values by name"),
        (
            lambda: tp.compile(ball + FLOOR + FLOOR, dt=0.1),
            "two walls or events of the sum are named `floor`",
        ),
        (lambda: tp.compile(ball + FLOOR, method="taylor"), "chooses its own steps"),
        (lambda: tp.compile(ball + FLOOR, dt=0.1, precision="lattice"), "does not go with `floor`"),
        (lambda: tp.compile(ball + FLOOR, dt=-0.1), "backwards in time"),
        (
            lambda: tp.compile(ball + FLOOR, dt=0.1).evolve(q=-1.0, p=0.0, steps=1),
            "begins behind the wall `floor`",
        ),
        (
            lambda: tp.compile(ball + FLOOR, dt=0.1).evolve(q=1.0, p=0.0, steps=1, events={"a": lambda q: q}),
            "events=",
        ),
    ],
)
def test_wrong_walls_and_events_are_refused_with_the_reason(make, says):
    with pytest.raises(tp.TinyPhysicsError, match=says):
        make()


def test_an_event_of_a_map_is_refused():
    @tp.map
    def logistic(x):
        return 3.9 * x * (1 - x)

    with pytest.raises(tp.PlanError, match="is a map"):
        tp.compile(logistic + tp.event(lambda x: x - 0.5, lambda x: {"x": x}))


@pytest.mark.parametrize("restitution", (1.0, 0.7))
def test_derivatives_along_a_direction_have_the_saltation_of_each_bounce(restitution):
    sim = tp.compile(rough + tp.wall(lambda q: q, restitution, name="floor"), dt=0.02, method="yoshida4")

    def end(q):
        out = sim.evolve(q=q, p=0.0, until=6.0, save_every=None)
        return np.array([out.final.q, out.final.p])

    found = sim.jvp({"q": 1.0}, q=1.0, p=0.0, until=6.0)
    slope = (end(1.0 + 1e-5) - end(1.0 - 1e-5)) / 2e-5
    assert np.array([found["q"], found["p"]]) == pytest.approx(slope, rel=1e-5)


def test_the_derivative_of_a_falling_ball_is_that_of_its_parabolas():
    sim = tp.compile(ball + FLOOR, dt=0.05, method="leapfrog")
    found = sim.jvp({"q": 1.0}, q=1.0, p=0.0, until=1.0)
    # q(t) = v s - g s**2/2 with v = sqrt(2 g h), s = t - sqrt(2 h/g), h = 1
    g, t = 9.81, 1.0
    v, s = np.sqrt(2 * g), t - np.sqrt(2 / g)
    dv, ds = g / v, -1 / v
    if s > 2 * v / g:
        raise AssertionError("one bounce alone")
    assert found["p"] == pytest.approx(dv - g * ds)
    assert found["q"] == pytest.approx(dv * s + v * ds - g * s * ds)


def test_what_is_not_known_of_runs_with_walls_is_refused():
    sim = tp.compile(rough + FLOOR, dt=0.02, method="leapfrog")
    for options in (dict(error=1e-6), dict(dt=0.02, time=lambda q: 1 + q * q), dict(dt=0.02, friction=0.1)):
        with pytest.raises(tp.PlanError, match="do(es)? not go with"):
            tp.compile(rough + FLOOR, **options)
    assert "between events" in str(sim.explain())


def test_a_run_goes_back_and_a_stepper_follows_it():
    sim = tp.compile(rough + FLOOR, dt=0.05, method="leapfrog")
    out = sim.evolve(q=1.0, p=0.0, steps=100, save_every=1)
    assert sim.rewind(out, steps=10).final.q == out.q[-11]
    stepper = sim.stepper(q=1.0, p=0.0)
    stepper.step(60)
    assert stepper.q == out.q[60]


@pytest.mark.parametrize("precision", ("float64", "float32"))
def test_bounces_on_a_gpu_have_the_bits_of_the_processor(fake_cuda, precision):
    q = np.linspace(0.2, 1.5, 5)
    found = {}
    for backend in ("llvm", "cuda"):
        sim = tp.compile(rough + FLOOR, dt=0.1, method="leapfrog", backend=backend, precision=precision)
        out = sim.evolve(q=q, p=np.zeros(5), steps=30)
        e = out.events("floor")
        found[backend] = (out.hash, tuple(e.t), tuple(e.member), tuple(np.ravel(e.p)))
    assert found["cuda"] == found["llvm"] and len(found["llvm"][1]) >= 5


def test_hops_below_the_rounding_of_a_curved_wall_end_in_rest():
    @tp.hamiltonian
    def heavy(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + q[1]

    bowl = tp.wall(lambda q: 1 - q @ q, restitution=0.3, name="bowl")
    out = tp.compile(heavy + bowl, dt=0.01, method="leapfrog").evolve(q=[0.5, 0.5], p=[0.0, 0.0], until=6.0)
    met = out.events("bowl")
    assert out.stopped is None and met.rested.sum() == 1 and met.t[-1] == pytest.approx(2.3328466, abs=1e-7)
    assert np.abs(1 - (np.asarray(out.q)[out.t > 2.4] ** 2).sum(axis=1)).max() < 1e-14


def test_a_step_that_may_be_cut_is_not_measured():
    @tp.hamiltonian
    def ball(q, p, g: float = 9.81):
        return p**2 / 2 + g * q

    sim = tp.compile(ball + tp.wall(lambda q: q), dt=0.01)
    with pytest.raises(tp.InputError, match="walls or events"):
        sim.check(q=1e-4, p=-1.0)


@pytest.mark.parametrize("restitution", (1.0, 0.8))
@pytest.mark.parametrize("members", (None, 7))
def test_steps_that_are_tried_at_once_have_the_bits_of_steps_that_are_tested(restitution, members):
    sim = tp.compile(rough + tp.wall(lambda q: q, restitution, name="floor"), dt=0.05, method="leapfrog")
    q = 1.0 if members is None else np.linspace(0.1, 2.0, members)
    found = []
    for size in (0, 1, 100, None):
        out = sim.evolve(q=q, p=np.zeros(members or ()), until=30.0, speculate=size)
        e = out.events("floor")
        found.append((out.hash, tuple(e.t), tuple(e.member), out.energy[-1].tobytes()))
        rollbacks = np.asarray(out.metrics["rollbacks"])
        assert size is None or ((rollbacks > 0) == (size > 0)).all()
    assert len(set(found)) == 1


def test_speculate_is_about_walls_and_events():
    with pytest.raises(tp.PlanError, match="speculate= is about walls"):
        tp.compile(rough, dt=0.1).evolve(q=1.0, p=0.0, steps=1, speculate=100)
    with pytest.raises(tp.InputError, match="speculate=-1"):
        tp.compile(rough + FLOOR, dt=0.1).evolve(q=1.0, p=0.0, steps=1, speculate=-1)


def test_a_number_of_an_equation_is_changed_by_an_event():
    @tp.ode
    def spring(x, y, k):
        return y, -k * x, 0.0 * k

    stiffer = tp.event(lambda x: x, lambda k: {"k": 4.0 * k}, direction=-1, name="stiffer")
    out = tp.compile(spring + stiffer, dt=0.01, method="rk4").evolve(x=1.0, y=0.0, k=1.0, until=3.0)
    t = 3.0 - np.pi / 2
    assert out.final.k == 4.0 and out.final.x == pytest.approx(-np.sin(2 * t) / 2, abs=1e-8)


HALF = tp.event(lambda q: q - 0.5, lambda g: {"g": 0.5 * g}, direction=-1, name="half")


def test_an_event_changes_a_parameter_and_books_what_that_takes(tmp_path):
    sim = tp.compile(ball + FLOOR + HALF, dt=0.05)
    out = sim.evolve(q=1.0, p=0.0, until=3.0)
    fall = np.sqrt(2 * 0.5 / 9.81)
    assert out.events("half").t[0] == pytest.approx(fall, rel=1e-14)
    assert list(out.events("half").g) == [9.81 / 2, 9.81 / 4]
    assert out.g[0] == 9.81 and out.final.g == 9.81 / 4
    assert out.ledger["bounces"][-1] == pytest.approx(0.5 * 9.81 * 0.75) and out.drift("energy") < 1e-14
    assert "certain" in str(sim.explain("full"))  # nothing but events moves g
    pieces = sim.evolve(resume=sim.evolve(q=1.0, p=0.0, steps=17), steps=43)
    assert pieces.hash == out.hash
    sim.save(tmp_path / "ball.tp")
    assert tp.load(tmp_path / "ball.tp").evolve(q=1.0, p=0.0, until=3.0).hash == out.hash


@pytest.mark.slow("four backends and a gradient are compiled")
def test_parameters_that_change_belong_to_members_and_have_gradients():
    hashes = {
        b: tp.compile(ball + FLOOR + HALF, dt=0.05, backend=b).evolve(q=1.0, p=0.0, g=5.0, steps=40).hash
        for b in ("llvm", "c", "python", "numpy")
    }
    assert len(set(hashes.values())) == 1
    sim = tp.compile(ball + FLOOR + HALF, dt=0.05)
    every = sim.evolve(q=[1.0, 1.2], p=[0.0, 0.0], g=[5.0, 6.0], until=2.0)
    alone = sim.evolve(q=1.2, p=0.0, g=6.0, until=2.0)
    assert every.final.q[1] == alone.final.q and every.final.g[1] == alone.final.g
    assert sim.gradcheck(lambda out: out.final.q**2 + out.final.p, q=1.0, p=0.0, until=1.0)


@pytest.mark.parametrize("how", ("ode", "forces", "rod"))
def test_events_change_parameters_of_every_kind_of_system(how):
    if how == "ode":

        @tp.ode
        def decay(x, rate: float = 1.0):
            return -rate * x

        faster = tp.event(lambda x: x - 0.5, lambda rate: {"rate": 2 * rate})
        out = tp.compile(decay + faster, dt=0.01, method="rk4").evolve(x=1.0, until=1.0)
        assert out.final.x == pytest.approx(0.5 * np.exp(-2 * (1 - np.log(2))), rel=1e-8)
    elif how == "forces":

        @tp.forces
        def spring(q, k: float = 1.0):
            return -k * q

        stiffer = tp.event(lambda q: q, lambda k: {"k": 4 * k}, direction=-1)
        out = tp.compile(spring + stiffer, dt=0.002).evolve(q=1.0, p=0.0, until=3.0)
        assert out.final.q == pytest.approx(-np.sin(2 * (3 - np.pi / 2)) / 2, abs=1e-5)
    else:

        @tp.hamiltonian
        def mass(q: tp.Vec[2], p: tp.Vec[2], g: float = 1.0):
            return p @ p / 2 + g * q[1]

        @tp.constraint
        def rod(q: tp.Vec[2]):
            return q @ q - 1.0

        off = tp.event(lambda q: q[0], lambda g: {"g": 0.0 * g}, direction=-1)
        out = tp.compile(mass + rod + off, dt=0.01).evolve(q=[1.0, 0.0], p=[0.0, 0.0], until=4.0)
        assert out.final.g == 0.0 and out.drift("energy") < 1e-4
        assert out.final.p @ out.final.p == pytest.approx(
            2.0, rel=1e-4
        )  # what the fall gave; then it circles


ACTED = {}


@pytest.mark.parametrize("backend", ("llvm", "c", "python"))
def test_acts_go_with_walls_and_a_run_in_pieces_has_the_same_bits(backend):
    act = {"turn": tp.act(every=40, map=lambda p: -p)}
    sim = tp.compile(rough + FLOOR, dt=0.1, method="leapfrog", backend=backend)
    whole = sim.evolve(q=1.0, p=0.0, steps=100, acts=act)
    first = sim.evolve(q=1.0, p=0.0, steps=53, acts=act)
    assert sim.evolve(resume=first, steps=47, acts=act).hash == whole.hash
    by_hand, p, met = dict(q=1.0, p=0.0), 1.0, 0
    for steps in (40, 40, 20):
        out = sim.evolve(q=by_hand["q"], p=p * by_hand["p"], steps=steps)
        by_hand, p, met = out.final, -1.0, met + len(out.events("floor"))
    assert whole.final.q == out.final.q and whole.final.p == out.final.p
    ACTED[backend] = whole.hash, tuple(whole.events("floor").t)
    assert len(set(ACTED.values())) == 1 and len(ACTED[backend][1]) == met >= 3


def test_a_body_that_rests_is_lifted_by_an_act_and_one_that_is_put_behind_a_wall_stops():
    sim = tp.compile(rough + tp.wall(lambda q: q, 0.5, name="floor"), dt=0.05, method="leapfrog")
    lift = {"lift": tp.act(every=400, map=lambda q: q + 1.0)}
    out = sim.evolve(q=1.0, p=0.0, steps=600, save_every=1, acts=lift)
    assert out.q[399] == 0.0 and out.q[401] > 0.5 and out.events("floor").rested.sum() == 2
    sink = {"sink": tp.act(every=400, map=lambda q: q - 1.0)}
    with pytest.warns(
        tp.PhysicsWarning, match="`sink` has put the body behind the wall `floor` after step 400"
    ):
        out = sim.evolve(q=1.0, p=0.0, steps=600, acts=sink)
    assert out.stopped.step == 400
    down = tp.event(lambda q: q - 0.5, lambda q: {"q": q - 1.0}, direction=-1, name="down")
    out = tp.compile(rough + FLOOR + down, dt=0.05, method="leapfrog").evolve(q=1.0, p=0.0, until=3.0)
    assert out.stopped is not None and out.stopped.step == 22


def test_walls_that_would_push_bodies_to_and_fro_without_end_stop_the_run():
    @tp.hamiltonian
    def boxes(q: tp.Vec[2], p: tp.Vec[2], g: float = 9.81):
        return p @ p / 2 + g * q.sum()

    stack = tp.wall(lambda q: [q[0] - 0.5, q[1] - q[0] - 1], restitution=0.0, name="stack")
    out = tp.compile(boxes + stack, dt=0.01).evolve(q=[0.5, 2.0], p=[0.0, 0.0], until=1.0, save_every=1)
    assert out.stopped.t == pytest.approx(np.sqrt(2 * 0.5 / 9.81), abs=0.011)


def test_a_wall_of_a_part_has_the_bits_that_it_has_alone_and_one_between_parts_is_met():
    @tp.hamiltonian
    def spring(x, px):
        return px**2 / 2 + x**2 / 2

    alone = tp.compile(rough + FLOOR, dt=0.05, method="leapfrog").evolve(q=1.0, p=0.0, steps=100)
    linked = tp.compile(rough + FLOOR + spring, dt=0.05, method="leapfrog")
    both = linked.evolve(q=1.0, p=0.0, x=1.0, px=0.0, steps=100)
    assert both.final.q == alone.final.q and both.final.p == alone.final.p
    between = tp.wall(lambda q, x: q - x + 3, name="between")
    out = tp.compile(rough + spring + between, dt=0.02).evolve(q=1.0, p=0.0, x=1.0, px=3.0, until=20.0)
    assert len(out.events("between")) >= 5 and out.drift("energy") < 1e-4
    assert (np.asarray(out.q) - np.asarray(out.x) + 3).min() > -1e-12


def jacobian_of(sim, **call):
    found = sim.jacobian(**call)
    names = [x for x in found if x in ("q", "p")]
    return np.block([[np.asarray(found[a][b]) for b in names] for a in names])


@pytest.mark.requirement("S2-51")
def test_an_elastic_bounce_is_read_to_be_canonical_and_measured_to_be():
    ellipse = tp.wall(lambda q: 1 - q[0] ** 2 / 4 - q[1] ** 2, name="ellipse")
    J = np.kron([[0, 1], [-1, 0]], np.eye(2))
    call = dict(q=[0.3, 0.2], p=[1.0, 0.5], until=9.0)
    sim = tp.compile(free + ellipse, dt=1.0)
    assert sim.certificate.symplectic and "p moves along the normal" in sim.certificate.symplectic.because
    M = jacobian_of(sim, **call)
    assert len(sim.evolve(**call).events("ellipse")) >= 4
    assert np.abs(M.T @ J @ M - J).max() < 1e-12 * np.abs(M).max() ** 2
    lossy = tp.compile(free + tp.wall(ellipse.function, 0.9, name="ellipse"), dt=1.0)
    assert not lossy.certificate.symplectic
    M = jacobian_of(lossy, **call)
    assert np.abs(M.T @ J @ M - J).max() > 0.01


def test_a_bounce_that_turns_the_momentum_or_moves_the_energy_is_not_read_to_be_canonical():
    from tinyphysics.planner.methods.meetings import rates_in_order
    from tinyphysics.synth.methods.meetings import Meetings
    from tinyphysics.synth.methods.reflections import is_canonical

    system = tp.compile(
        free + tp.wall(lambda q: 1 - q[0] ** 2 / 4 - q[1] ** 2, name="ellipse"), dt=0.7
    ).system
    x, y, px, py = Meetings(system, tuple(rates_in_order(system))).z

    def read(jump=None):
        m = Meetings(system, tuple(rates_in_order(system)))
        if jump is not None:
            m.__dict__["jumps"] = [jump]
        return is_canonical(m, 0)

    assert read()
    assert not read([x, y, -py, px])  # keeps the energy, and turns the velocity by a right angle
    assert not read([x, y, -px, -py])  # sends it back where it came from
    assert not read([x, y, 0.99 * px, 0.99 * py])
    assert not read([x + 1e-3, y, px, py])


@pytest.mark.parametrize("method", ("leapfrog", "rk4"))
def test_a_body_that_rests_on_a_curved_wall_moves_along_it_to_second_order(method):
    @tp.hamiltonian
    def heavy(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + q[1]

    @tp.hamiltonian
    def pendulum(a, p):
        return p**2 / 2 - tp.cos(a)

    bowl = tp.wall(lambda q: 1 - q @ q, restitution=0.3, name="bowl")
    a = tp.compile(pendulum, dt=0.01, order=4).evolve(a=1.0, p=0.0, until=5.0).final.a
    off = []
    for dt in (0.04, 0.02):
        sim = tp.compile(heavy + bowl, dt=dt, method=method)
        out = sim.evolve(q=[np.sin(1), -np.cos(1)], p=[0.0, 0.0], until=5.0)
        off.append(np.abs(out.final.q - [np.sin(a), -np.cos(a)]).max())
        assert len(out.events("bowl")) == 1 and np.abs((out.q**2).sum(axis=1) - 1).max() < 1e-13
    assert off[0] / off[1] == pytest.approx(4.0, rel=0.05) and off[1] < 2e-4


@tp.hamiltonian
def disc(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + q @ q / 2


def test_an_event_that_sends_the_body_back_is_met_once():
    """It is met before its number has changed sign: behind it, the way back would be an event again, without end."""
    line = tp.event(lambda q: q[1] - 0.3 * q[0], then=lambda p: {"p": -p}, name="line")
    out = tp.compile(disc + line, dt=0.05).evolve(q=[1.0, 0.1], p=[0.0, 1.0], until=7.0)
    # sin t + 0.1 cos t = 0.3 cos t, and then back to it from the other side after half a turn
    first = np.arctan(0.2)
    want = first + np.pi * np.arange(3)
    assert np.allclose(out.events("line").t, want, atol=1e-3)
    assert np.allclose(out.final.p @ out.final.p + out.final.q @ out.final.q, 2.01, atol=1e-3)


def test_a_comparison_is_an_event_where_both_sides_are_equal():
    """A condition has no root to look for; what is larger than what has one."""
    times = [
        tp.compile(disc + tp.event(when, name="e"), dt=0.05)
        .evolve(q=[1.0, 0.0], p=[0.0, 0.0], until=4.0)
        .events("e")
        .t
        for when in (lambda q: q[0] < 0.5, lambda q: q[0] - 0.5)
    ]
    assert len(times[0]) == 1 and np.array_equal(*times)


DRIFT = tp.wall(lambda q: q, name="floor", location="drift")


def test_a_drift_that_reflects_is_of_first_order_and_not_what_a_step_that_is_cut_is():
    for dt, error in {0.04: 1.2, 0.02: 1.1, 0.01: 0.8}.items():
        out = tp.compile(rough + DRIFT, dt=dt).evolve(q=1.0, p=0.0, until=20.0)
        assert max(abs(out.final.q - EXACT[0]), abs(out.final.p - EXACT[1])) == pytest.approx(error, rel=0.01)
        assert len(out.events("floor")) == 7
    # one bounce, and no chaos yet; it is at some place of a step: the worst of several
    starts = dict(q=np.linspace(0.99, 1.01, 9), p=np.zeros(9), until=2.0, frames=2)
    exact = tp.compile(rough + FLOOR, dt=0.01, method="yoshida4").evolve(**starts).final.q
    errors = [
        np.abs(tp.compile(rough + DRIFT, dt=dt).evolve(**starts).final.q - exact).max()
        for dt in (0.02, 0.01, 0.005)
    ]
    assert all(1.6 < a / b < 2.5 for a, b in zip(errors, errors[1:]))


def by_hand(q, p, dt, steps):
    """Kick, flight with reflections, kick."""
    for _ in range(steps):
        p -= dt / 2 * (1 + 0.6 * np.cos(2 * q))
        left = dt
        while p < 0 and q / -p <= left:
            left, q, p = left + q / p, 0.0, -p
        q += left * p
        p -= dt / 2 * (1 + 0.6 * np.cos(2 * q))
    return q, p


def test_a_drift_that_reflects_is_a_kick_a_flight_and_a_kick_with_the_same_bits_everywhere():
    found = set()
    for backend in BACKENDS:
        out = tp.compile(rough + DRIFT, dt=0.2, backend=backend).evolve(q=1.0, p=0.0, steps=12, frames=2)
        found.add((out.hash, tuple(out.events("floor").t)))
    assert len(found) == 1 and len(out.events("floor")) == 1
    sim = tp.compile(rough + DRIFT, dt=0.1)
    whole = sim.evolve(q=1.0, p=0.0, steps=60)
    first = sim.evolve(q=1.0, p=0.0, steps=23)
    assert sim.evolve(resume=first, steps=37).hash == whole.hash
    assert (whole.final.q, whole.final.p) == pytest.approx(by_hand(1.0, 0.0, 0.1, 60), abs=1e-12)
    back = sim.evolve(q=whole.final.q, p=-whole.final.p, steps=60).final
    assert back.q == pytest.approx(1.0, abs=1e-11) and back.p == pytest.approx(0.0, abs=1e-11)


def test_a_drift_that_reflects_is_certified_symplectic_and_measured_to_be():
    @tp.hamiltonian
    def heavy(q: tp.Vec[2], p: tp.Vec[2], m: tp.Vec[2] = (1.0, 3.0)):
        return (p * p / m).sum() / 2 + 0.5 * q[0] + 0.2 * tp.cos(q[1])

    oval = tp.wall(lambda q: 1 - q[0] ** 2 / 4 - q[1] ** 2, name="oval", location="drift")
    sim = tp.compile(heavy + oval, dt=0.05)
    assert sim.certificate.symplectic and sim.certificate.symmetric
    start = dict(q=[0.3, 0.2], p=[1.0, 0.5], steps=150)
    assert len(sim.evolve(**start).events("oval")) >= 1
    with pytest.warns(tp.PhysicsWarning, match="a surrogate"):
        ways = [sim.jvp({"q": e[:2], "p": e[2:]}, **start) for e in np.eye(4)]
    M = np.array([[*w["q"], *w["p"]] for w in ways]).T
    J = np.kron([[0, 1], [-1, 0]], np.eye(2))
    assert np.abs(M.T @ J @ M - J).max() < 1e-12 * np.abs(M).max() ** 2
    with pytest.warns(tp.PhysicsWarning, match="a surrogate"):
        check = sim.gradcheck(
            lambda o: (o.final.q**2).sum() + o.final.p[0], **start, wrt=["q", "p", "m", "dt"]
        )
    assert check.differences < 1e-12


@pytest.mark.filterwarnings("ignore:.*a surrogate")
def test_the_derivative_of_a_drift_that_reflects_is_a_surrogate():
    for dt in (0.1, 0.01):
        found = [
            tp.compile(ball + w, dt=dt).jvp({"q": 1.0}, q=1.0, p=0.0, g=1.0, until=2.0)["q"]
            for w in (FLOOR, DRIFT)
        ]
        assert found == pytest.approx([2 * np.sqrt(2) - 3, -1.0], abs=1e-9)


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: tp.wall(lambda q: q, location="here"), 'neither "step" nor "drift"'),
        (lambda: tp.wall(lambda q: q, 0.5, location="drift"), "is for elastic walls"),
        (lambda: tp.compile(rough + DRIFT, dt=0.1, method="yoshida4"), "is stepped by `yoshida4`"),
        (
            lambda: tp.compile(rough + DRIFT + tp.wall(lambda q: 2 - q, name="top"), dt=0.1),
            "one or the other",
        ),
        (
            lambda: tp.compile(rough + DRIFT + tp.event(lambda q: q - 1, name="up"), dt=0.1),
            "reflects inside the drift, and `up` cuts the step",
        ),
        (
            lambda: tp.compile(rough + tp.wall(lambda q: tp.sin(q), name="wave", location="drift"), dt=0.1),
            "not shown to be polynomials of degree 2",
        ),
    ],
)
def test_drifts_that_cannot_reflect_are_refused(make, says):
    with pytest.raises(tp.TinyPhysicsError, match=says):
        make()


def how_found(sim):
    return next(line for line in str(sim.explain("full")).splitlines() if "walls and events" in line)


def test_what_is_missed_between_two_looks_is_bounded_where_that_is_said():
    @tp.hamiltonian
    def lifted(q: tp.Vec[2], p: tp.Vec[2], b: float = 0.1):
        return p @ p / 2 - q[1] + b * tp.sin(q[0] + q[1])

    said = how_found(tp.compile(lifted + tp.wall(lambda q: q[1], name="floor"), dt=0.5))
    assert "bounded" in said and "at the defaults" in said
    bound = float(said.split("no deeper than ")[1].split()[0]) * 0.5**2
    assert bound == pytest.approx(1.1 * 0.25 / 8, rel=1e-2)
    rng = np.random.default_rng(1)
    q, p = (
        rng.uniform((-2.0, 0.0), (2.0, 0.03), (4000, 2)),
        rng.uniform((-1.0, -0.35), (1.0, -0.15), (4000, 2)),
    )
    path = tp.compile(lifted, dt=0.5 / 32).evolve(q=q, p=p, steps=32, save_every=1).q[..., 1]
    inside = (path[0] >= 0) & (path[-1] >= 0)
    depth = -path.min(axis=0)[inside]
    assert 0.7 * bound < depth.max() <= bound and (depth > 0).sum() > 50
    assert "nothing" not in said and "bounded: " in how_found(tp.compile(rough + FLOOR, dt=0.1))
    assert "no wall is reached and left" in how_found(tp.compile(rough + FLOOR, dt=0.1))
    disc = tp.wall(lambda q: 1 - q @ q, name="disc")
    assert "sampled: " in how_found(tp.compile(lifted + disc, dt=0.1))
    up = tp.event(lambda q: q[1] - 1, name="up")
    assert how_found(tp.compile(lifted + up, dt=0.5)).split("deeper")[1] == said.split("deeper")[1]


def test_events_whose_times_pile_up_are_told_of():
    half = tp.event(when=lambda q: q - 0.5, then=lambda p: {"p": -0.5 * p}, direction=-1, name="half")
    sim = tp.compile(ball + half, dt=0.05)
    with pytest.warns(
        tp.PhysicsWarning, match="pile up at t = 0.95782"
    ):  # the sum of the flights is 3*sqrt(1/9.81)
        out = sim.evolve(q=1.0, p=0.0, until=2.0)
    assert "pile up" in out.metrics["notes"][0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.evolve(q=1.0, p=0.0, until=0.95)
