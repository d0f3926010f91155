"""Do steps of their own lengths follow the solution, whoever looks and whoever runs beside it?"""

import math

import mpmath
import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import lane_engine
from tinyphysics.errors import InputError, PlanError, TraceError
from tinyphysics.runtime.engines.adaptive import AdaptiveEngine
from tinyphysics.runtime.engines.loaders import LlvmLoader
from tinyphysics.target import VectorShape


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
def arenstorf(x: tp.Vec[2], v: tp.Vec[2], mu: float = 0.012277471):
    a, b = x
    earth = ((a + mu) ** 2 + b * b) ** 1.5
    moon = ((a - (1 - mu)) ** 2 + b * b) ** 1.5
    return v, tp.stack(
        [
            a + 2 * v[1] - (1 - mu) * (a + mu) / earth - mu * (a - (1 - mu)) / moon,
            b - 2 * v[0] - (1 - mu) * b / earth - mu * b / moon,
        ]
    )


ARENSTORF = dict(x=[0.994, 0.0], v=[0.0, -2.00158510637908252240537862224])  # Hairer, Norsett, Wanner I, II.0
PERIOD = 17.0652165601579625588917206249
ECCENTRIC = dict(q=[0.1, 0.0], p=[0.0, math.sqrt(19.0)])


def exact_henon_heiles(start, until, digits=40, order=40, h=0.25):
    """By series of mpmath numbers, written out for this system alone."""
    with mpmath.workdps(digits):
        x, y, u, v = map(mpmath.mpf, start)
        for _ in range(round(until / h)):
            a, b, c, d = [x], [y], [u], [v]
            for k in range(order):
                square = sum(a[j] * a[k - j] - b[j] * b[k - j] for j in range(k + 1))
                mixed = sum(a[j] * b[k - j] for j in range(k + 1))
                a.append(c[k] / (k + 1)), b.append(d[k] / (k + 1))
                c.append((-a[k] - 2 * mixed) / (k + 1)), d.append((-b[k] - square) / (k + 1))
            x, y, u, v = (sum(z * mpmath.mpf(h) ** k for k, z in enumerate(row)) for row in (a, b, c, d))
        return [float(w) for w in (x, y, u, v)]


def test_henon_heiles_agrees_with_forty_digits():
    start = [0.1, 0.2, 0.3, 0.1]
    wanted = exact_henon_heiles(start, 10.0)
    out = tp.compile(henon_heiles, method="taylor").evolve(q=start[:2], p=start[2:], until=10.0)
    assert [*out.final.q, *out.final.p] == pytest.approx(wanted, rel=0, abs=3e-15)


def test_an_eccentric_orbit_comes_back():
    sim = tp.compile(kepler, dt=2 * math.pi, method="taylor")
    out = sim.evolve(**ECCENTRIC, steps=10, save_every=1)
    # a rounding at the pericentre, where all is fastest, moves the next one by 200 times as much
    assert np.abs(out.q - [0.1, 0.0]).max() < 2e-11 and out.drift("energy") < 4e-15


def test_the_orbit_of_arenstorf_closes():
    out = tp.compile(arenstorf).evolve(**ARENSTORF, until=PERIOD)
    assert np.abs(out.final.x - ARENSTORF["x"]).max() < 1e-10  # a deviation grows by a million in a period


def test_a_looser_tolerance_is_cheaper_and_as_accurate_as_it_says():
    work, errors = [], []
    best = tp.compile(pendulum, method="taylor").evolve(q=2.0, p=0.0, until=20.0)
    for tolerance in (1e-4, 1e-7, 1e-10, 1e-13):
        sim = tp.compile(pendulum, method="taylor", tolerance=tolerance)
        out = sim.evolve(q=2.0, p=0.0, until=20.0)
        work.append(sim.compiled.known.operations * out.metrics["substeps"])
        errors.append(max(abs(out.final.q - best.final.q), abs(out.final.p - best.final.p)))
    assert work == sorted(work)
    assert all(e < 300 * tolerance for e, tolerance in zip(errors, (1e-4, 1e-7, 1e-10, 1e-13)))
    assert all(a > 30 * b for a, b in zip(errors, errors[1:]))


@pytest.mark.parametrize("backend", ["c", "numpy", "python"])
def test_every_backend_has_the_same_bits(backend):
    members = 1 if backend == "python" else 5
    q = np.stack([np.linspace(1.0, 1.4, members), np.zeros(members)], 1)
    p = np.stack([np.zeros(members), np.linspace(1.2, 0.9, members)], 1)
    runs = [
        tp.compile(kepler, dt=0.3, method="taylor", backend=b).evolve(q=q, p=p, steps=6, save_every=2)
        for b in ("llvm", backend)
    ]
    assert runs[0].hash == runs[1].hash and (runs[0].q == runs[1].q).all()
    assert (runs[0].metrics["substeps"] == runs[1].metrics["substeps"]).all()


@pytest.mark.parametrize("width, unroll", [(1, 1), (1, 3), (2, 1), (4, 2), (8, 1)])
def test_every_width_has_the_same_bits(width, unroll):
    sim = tp.compile(kepler, dt=0.5, method="taylor")
    q = np.stack([np.linspace(0.2, 1.0, 11), np.zeros(11)], 1)
    p = np.stack([np.zeros(11), np.linspace(1.2, 0.9, 11)], 1)
    wanted = sim.evolve(q=q, p=p, steps=7)
    inner = lane_engine(sim.built.program, LlvmLoader(shape=VectorShape(width, unroll)))
    engine = AdaptiveEngine(inner, ["q", "p"], None)
    m = engine.start({"q": q, "p": p}, {"mu": np.array([1.0])}, 11, 0.5, 0.0)
    engine.advance(m, 7)
    assert (engine.synchronised(m)["q"] == wanted.final.q).all()
    assert engine.taken(m).tolist() == wanted.metrics["substeps"].tolist()


def test_threads_do_not_change_a_bit():
    q, p = np.linspace(0.1, 3.0, 300), np.zeros(300)
    sim = tp.compile(pendulum, dt=1.0, method="taylor")
    assert sim.evolve(q=q, p=p, steps=50, threads=1).hash == sim.evolve(q=q, p=p, steps=50, threads=2).hash


def test_members_take_their_own_steps_and_have_the_bits_that_they_have_alone():
    q = np.array([[1.0, 0.0], [0.1, 0.0], [0.5, 0.0]])
    p = np.array([[0.0, 1.0], [0.0, math.sqrt(19.0)], [0.0, math.sqrt(3.0)]])
    sim = tp.compile(kepler, dt=1.0, method="taylor")
    out = sim.evolve(q=q, p=p, steps=9, save_every=3)
    alone = [sim.evolve(q=a, p=b, steps=9, save_every=3) for a, b in zip(q, p)]
    assert all((out.q[:, k] == one.q).all() for k, one in enumerate(alone))
    assert out.metrics["substeps"].tolist() == [one.metrics["substeps"] for one in alone]
    assert out.metrics["substeps"][1] > 1.5 * out.metrics["substeps"][0]


def test_who_looks_when_changes_nothing():
    sim = tp.compile(pendulum, dt=0.125, method="taylor")
    often = sim.evolve(q=2.0, p=0.0, steps=200, save_every=1, observe={"speed": lambda p: p * p})
    assert often["speed"].tolist() == (often.p * often.p).tolist()
    for k in (1, 7, 50, 200):
        once = sim.evolve(q=2.0, p=0.0, steps=k)
        assert once.final.q == often.q[k] and once.final.p == often.p[k]
    coarse = tp.compile(pendulum, dt=25.0, method="taylor").evolve(q=2.0, p=0.0, steps=1)
    assert coarse.final.q == often.final.q and coarse.metrics["substeps"] == often.metrics["substeps"]
    free = tp.compile(pendulum, method="taylor").evolve(q=2.0, p=0.0, until=25.0)
    assert free.final.q == often.final.q and free.t.tolist()[:: len(free) - 1] == [0.0, 25.0]
    assert free.metrics["substeps"] == often.metrics["substeps"] and len(free) == 500


def test_no_step_gives_the_input_back():
    out = tp.compile(pendulum, dt=0.1, method="taylor").evolve(q=0.1, p=0.3, steps=0)
    assert (out.final.q, out.final.p) == (0.1, 0.3)


def test_a_run_goes_on_from_a_checkpoint_bit_for_bit(tmp_path):
    sim = tp.compile(kepler, dt=0.7, method="taylor")
    whole = sim.evolve(**ECCENTRIC, steps=20, save_every=5)
    sim.evolve(**ECCENTRIC, steps=11, checkpoint=tmp_path / "orbit.checkpoint")
    rest = sim.evolve(resume=tmp_path / "orbit.checkpoint", steps=9)
    assert rest.hash == whole.hash and rest.metrics["substeps"] == whole.metrics["substeps"]
    assert (sim.rewind(whole, 5).final.q == whole.q[3]).all()


def test_a_collision_stops_the_run_before_it():
    out = tp.compile(kepler, dt=0.25, method="taylor").evolve(
        q=[1.0, 0.0], p=[0.0, 0.0], steps=10, save_every=1
    )
    assert out.stopped.cause == "not finite" and out.stopped.step == 5  # it falls for pi/sqrt(8) = 1.11
    assert np.isfinite(out.q).all() and len(out.q) == 5


def test_a_state_that_begins_at_zero_moves():
    @tp.ode
    def pushed(x, v, t):
        return v, t

    out = tp.compile(pushed).evolve(x=0.0, v=0.0, until=3.0)
    assert out.final.x == 4.5 and out.final.v == 4.5 and out.metrics["substeps"] <= 2


def test_explicit_time_is_part_of_the_series():
    @tp.hamiltonian
    def driven(q, p, t, w: float = 1.3):
        return p**2 / 2 - tp.cos(q) - 0.5 * q * tp.cos(w * t)

    @tp.forces
    def force(q, t, w: float = 1.3):
        return -tp.sin(q) + 0.5 * tp.cos(w * t)

    @tp.ode
    def rates(q, p, t, w: float = 1.3):
        return p, -tp.sin(q) + 0.5 * tp.cos(w * t)

    ends = [
        tp.compile(s, method="taylor").evolve(q=1.0, p=0.0, until=20.0).final.q.item()
        for s in (driven, force, rates)
    ]
    slow = tp.compile(rates, dt=0.002, method="rk4").evolve(q=1.0, p=0.0, until=20.0).final.q
    assert ends == pytest.approx([ends[0]] * 3, rel=1e-13) and slow == pytest.approx(ends[0], rel=1e-11)
    late = tp.compile(rates).evolve(q=1.0, p=0.0, t0=2.0, until=4.0).final.q
    assert late == pytest.approx(
        tp.compile(rates, dt=1e-3, method="rk4").evolve(q=1.0, p=0.0, t0=2.0, until=4.0).final.q, rel=1e-12
    )


def test_a_lagrangian_is_followed_by_its_energy():
    @tp.lagrangian
    def swing(q, v):
        return v**2 / 2 + tp.cos(q)

    ends = [
        tp.compile(s, method="taylor").evolve(q=1.0, until=5.0, **rest).final
        for s, rest in ((swing, dict(v=0.0)), (pendulum, dict(p=0.0)))
    ]
    assert (ends[0].q, ends[0].p) == (ends[1].q, ends[1].p)


def test_time_does_not_lose_digits_over_many_steps():
    @tp.ode
    def clock(x, t):
        return tp.cos(t)

    out = tp.compile(clock).evolve(x=0.0, until=2000 * math.pi)
    assert out.metrics["substeps"] > 1000 and abs(out.final.x - math.sin(2000 * math.pi)) < 2e-13


def test_an_ode_is_what_it_returns_and_nothing_is_certified():
    assert arenstorf.kind == "ode" and [s.name for s in arenstorf.states] == ["x", "v"]
    sim = tp.compile(arenstorf)
    assert not any(bool(v) for _, v in sim.certificate.items())
    assert "taylor" in str(sim.explain("full")) and "tolerance" in str(sim.explain("full"))
    with pytest.raises(PlanError, match="no energy is known"):
        _ = sim.evolve(**ARENSTORF, until=1.0).energy
    with pytest.raises(TraceError, match="returns 2 derivatives but takes 1 argument"):
        tp.ode(lambda x: (x, x))


@pytest.mark.parametrize(
    "options, what",
    [
        (dict(precision="float32"), "precision='float32'"),
        (dict(energy_drift=1e-6), "energy_drift=1e-06"),
        (dict(scale="auto"), "scale='auto'"),
        (dict(dt=-0.1), "forward in time"),
        (dict(pilot=dict(q=1.0, p=0.0)), "pilot="),
    ],
)
def test_what_does_not_go_with_it_is_said(options, what):
    with pytest.raises(PlanError, match=what):
        tp.compile(pendulum, method="taylor", **options)


def test_mistakes_are_told():
    with pytest.raises(PlanError, match="tolerance= needs a method that chooses"):
        tp.compile(pendulum, dt=0.1, tolerance=1e-8)
    with pytest.raises(InputError, match="is not a relative error"):
        tp.compile(pendulum, method="taylor", tolerance=1e-20)
    with pytest.raises(InputError, match="chooses its own steps"):
        tp.compile(pendulum, method="taylor").evolve(q=1.0, p=0.0, steps=10)
    with pytest.raises(PlanError, match=r"`abs` in it has no Taylor series .*test_taylor"):
        tp.compile(tp.ode(lambda x: -abs(x)))
    with pytest.raises(PlanError, match="no energy says what kicks"):
        tp.compile(arenstorf, dt=0.1, method="leapfrog")
    with pytest.raises(PlanError, match="chooses its own"):
        tp.compile(pendulum, method="taylor").ir("c")


# --- events ------------------------------------------------------------------------------------------------------
def test_events_are_found_to_rounding_and_change_nothing():
    sim = tp.compile(kepler, dt=1.0, method="taylor")
    start = dict(q=[1.0, 0.0], p=[0.0, 1.2])
    out = sim.evolve(
        **start, steps=60, save_every=1, events={"apsis": lambda q, p: q @ p, "late": lambda t: t - 33.3}
    )
    assert out.hash == sim.evolve(**start, steps=60, save_every=1).hash
    half = math.pi / (2 - 1.2**2) ** 1.5
    found = out.events("apsis")
    assert len(found) == 8 and np.abs(found.t - half * np.arange(1, 9)).max() < 2e-13
    assert found.rising.tolist() == [False, True] * 4  # away from the apocentre it falls
    assert np.abs(np.linalg.norm(found.q, axis=1) - [18 / 7, 1.0] * 4).max() < 1e-14
    assert out.events("late").t.tolist() == pytest.approx([33.3], rel=3e-16)


def test_members_have_their_own_events():
    sim = tp.compile(pendulum, method="taylor")
    out = sim.evolve(q=[1.0, 2.0], p=[0.0, 0.0], until=10.0, events={"down": lambda q: q})
    alone = [
        sim.evolve(q=q, p=0.0, until=10.0, events={"down": lambda q: q}).events("down").t for q in (1.0, 2.0)
    ]
    found = out.events("down")
    assert [found.t[found.member == k].tolist() for k in (0, 1)] == [t.tolist() for t in alone]
    assert alone[0].tolist() == pytest.approx(
        [float(mpmath.ellipk(mpmath.sin(0.5) ** 2)) * k for k in (1, 3, 5)], rel=1e-14
    )


def test_mistakes_with_events_are_told():
    out = tp.compile(pendulum, method="taylor").evolve(q=1.0, p=0.0, until=1.0)
    with pytest.raises(InputError, match="recorded no events named"):
        out.events("down")
    with pytest.raises(InputError, match="one number"):
        tp.compile(kepler, method="taylor").evolve(**ECCENTRIC, until=1.0, events={"all": lambda q: q})


# --- series in loops over their coefficients -------------------------------------------------------------------
@tp.hamiltonian
def bodies(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"], G: float = 1.0):
    d = q[:, None] - q[None, :]
    return ((p * p).sum(1) / (2 * m)).sum() - G * tp.pair_sum(
        m[:, None] * m[None, :] / tp.sqrt((d * d).sum(2))
    )


@tp.ode
def mixture(x: tp.Vec[6], v: tp.Vec[6], k: float = 0.5):
    """Quotients, roots, powers, products and numbers that do not move."""
    y = tp.roll(x, 1)
    return v, -x / (1 + y * y) - k * tp.sqrt(1 + x * x) * y - (2 + y * y) ** -0.75 + 0.1


def some_bodies(n, seed=3):
    rng = np.random.default_rng(seed)
    return dict(q=3 * rng.normal(size=(n, 3)), p=0.3 * rng.normal(size=(n, 3)), m=rng.uniform(0.5, 1.5, n))


@pytest.fixture
def in_loops(monkeypatch):
    """Compiles in loops what would be written out."""
    from tinyphysics.runtime.engines import plans
    from tinyphysics.synth.methods import taylor

    monkeypatch.setattr(plans, "sources", lambda: None)

    def compiled(system, loops=True, **options):
        monkeypatch.setattr(taylor, "WRITTEN", -1 if loops else 10**9)
        return tp.compile(system, method="taylor", **options)

    return compiled


@pytest.mark.parametrize("tolerance", [None, 1e-7])
def test_loops_and_what_is_written_out_agree(in_loops, tolerance):
    start = dict(x=np.linspace(-1.0, 1.5, 6), v=np.linspace(0.4, -0.7, 6))
    a, b = (in_loops(mixture, loops, dt=0.5, tolerance=tolerance) for loops in (True, False))
    assert "SERIES" in a.ir("tpir") and "SERIES" not in b.ir("tpir")
    one, two = (sim.evolve(**start, steps=8, save_every=1) for sim in (a, b))
    assert np.abs(one.x - two.x).max() < 2e-14 and one.metrics["substeps"] == two.metrics["substeps"]


def test_loops_have_the_same_bits_with_numpy(in_loops):
    start = dict(x=np.linspace(-1.0, 1.5, 6), v=np.linspace(0.4, -0.7, 6), k=[0.5, 0.7])
    runs = [
        in_loops(mixture, dt=0.4, tolerance=1e-9, backend=b).evolve(**start, steps=4, save_every=1)
        for b in ("llvm", "numpy")
    ]
    assert runs[0].hash == runs[1].hash and (runs[0].x == runs[1].x).all()
    start = some_bodies(3)
    runs = [
        in_loops(bodies, dt=0.4, tolerance=1e-6, backend=b, sizes={"n": 3}).evolve(**start, steps=1)
        for b in ("llvm", "numpy")
    ]
    assert runs[0].hash == runs[1].hash


def test_many_bodies_are_stepped_in_loops_and_keep_what_they_should(tmp_path):
    sim = tp.compile(bodies, dt=0.25, method="taylor", sizes={"n": 6})
    start = some_bodies(6)
    assert "SERIES" in sim.ir("tpir") and "advance" in sim.ir("llvm")
    out = sim.evolve(**start, steps=12, save_every=3, observe={"momentum": lambda p: p.sum(0)})
    assert out.drift("energy") < 5e-15 and np.ptp(out["momentum"], axis=0).max() < 1e-14
    assert (sim.evolve(**start, steps=6).final.q == out.q[2]).all()
    sim.evolve(**start, steps=5, checkpoint=tmp_path / "bodies.checkpoint")
    assert sim.evolve(resume=tmp_path / "bodies.checkpoint", steps=7).hash == out.hash
    seen = sim.evolve(
        **start, steps=12, events={"meeting": lambda q: q[0, 0] - q[1, 0], "noon": lambda t: t - 1.25}
    )
    assert seen.hash == out.hash and seen.events("noon").t.tolist() == pytest.approx([1.25], rel=3e-16)
    both = {name: np.stack([v, 1.1 * v]) for name, v in start.items()}
    pair = sim.evolve(**both, steps=12, threads=2)
    assert (pair.final.q[0] == out.final.q).all()
    assert pair.hash == sim.evolve(**both, steps=12, threads=1).hash


def test_a_backend_without_loops_says_so():
    for backend in ("c", "python"):
        with pytest.raises(PlanError, match="does not support Taylor series in loops"):
            tp.compile(bodies, method="taylor", sizes={"n": 6}, backend=backend)


def test_a_corner_inside_an_operation_of_the_users_own_is_refused_in_words():
    bent = tp.op("bent", lambda x: abs(x) * x, lambda x: (2.0 * abs(x),))

    @tp.hamiltonian
    def system(q, p):
        return p**2 / 2 + bent(q)

    with pytest.raises(tp.PlanError, match="has no Taylor series where it turns or jumps"):
        tp.compile(system, method="taylor")
