"""Which loops are deleted by default, and has a run then the same bits everywhere?"""

import math

import mpmath
import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.errors import StoreError
from tinyphysics.planner.choice.deletion import pinned
from tinyphysics.planner.choice.propagator import few

BACKENDS = ("python", "numpy", "llvm", "c")


@tp.hamiltonian
def spring(q, p, k: float = 1.0, m: float = 1.0):
    return p**2 / (2 * m) + k * q**2 / 2


@tp.hamiltonian
def trap(q: tp.Vec[3], p: tp.Vec[3], k: tp.Vec[3]):
    return p @ p / 2 + (k * q * q).sum() / 2


@tp.hamiltonian
def thrown(q: tp.Vec[2], p: tp.Vec[2], g: float = 9.81, m: float = 2.0):
    return p @ p / (2 * m) + m * g * q[1]


@tp.hamiltonian
def two(q: tp.Vec[2], p: tp.Vec[2], k: float = 1.0, c: float = 0.25, m: tp.Vec[2] = (1.0, 2.0)):
    return (p * p / m).sum() / 2 + k * (q @ q) / 2 + c * (q[1] - q[0]) ** 2 / 2 + q[0] / 3 - p[1] / 7


@tp.hamiltonian
def molecule(q: tp.Vec[2], p: tp.Vec[2], k: float = 0.3, m: float = 1.0, M: float = 12.0):
    return p[0] ** 2 / (2 * m) + p[1] ** 2 / (2 * M) + k * (q[1] - q[0]) ** 2 / 2


@tp.hamiltonian
def hill(q, p, k: float = 0.5):
    return p**2 / 2 - k * q**2 / 2


SMALL = {
    "spring": (spring, dict(q=0.75, p=0.125), dict(k=1.3)),
    "trap": (trap, dict(q=[0.1, 0.7, -0.2], p=[0.3, 0.0, 1.0]), dict(k=[1.0, 0.1, 2.5])),
    "thrown": (thrown, dict(q=[0.0, 1.0], p=[1.0, 3.0]), dict(g=1.62)),
    "two": (two, dict(q=[0.1, 0.7], p=[0.3, -0.2]), dict(c=0.4)),
    "molecule": (molecule, dict(q=[0.0, 0.5], p=[0.25, 0.75]), dict(k=0.1)),
    "hill": (hill, dict(q=0.01, p=0.02), dict(k=0.2)),
}


def jumps(sim):
    return sim.compiled.known.way == "exact"


@tp.hamiltonian
def row(q: tp.Vec["n"], p: tp.Vec["n"], k: float = 1.0):
    return p @ p / 2 + k * (tp.diff(q) @ tp.diff(q)) / 2


@tp.hamiltonian
def apart(q: tp.Vec["n"], p: tp.Vec["n"]):
    return (p @ p + q @ q) / 2


@tp.hamiltonian
def driven(q, p, t):
    return (p**2 + q**2) / 2 - q * tp.cos(t)


@tp.hamiltonian
def heavy(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + p[0] * p[1] / 4 + q @ q / 2


# fmt: off
LOOPS = {
    "method":            lambda: tp.compile(spring, 0.1, method="leapfrog"),
    "order":             lambda: tp.compile(spring, 0.1, order=4),
    "forbid":            lambda: tp.compile(spring, 0.1, forbid="yoshida4"),
    "loop":              lambda: tp.compile(spring, 0.1, propagator="loop"),
    "precision":         lambda: tp.compile(spring, 0.1, precision="float32"),
    "digits":            lambda: tp.compile(spring, 0.1, precision="dd"),
    "scale":             lambda: tp.compile(spring, 0.1, scale="auto"),
    "math":              lambda: tp.compile(spring, 0.1, math="fast"),
    "project":           lambda: tp.compile(spring, 0.1, project="energy"),
    "goal":              lambda: tp.compile(spring, error=1e-3),
    "adaptive":          lambda: tp.compile(spring, method="taylor"),
    "time":              lambda: tp.compile(driven, 0.1),
    "three are coupled": lambda: tp.compile(row, 0.1, sizes={"n": 3}),
    "masses":            lambda: tp.compile(heavy, 0.1),
    "many":              lambda: tp.compile(apart, 0.1, sizes={"n": 7}),
}
# fmt: on


@pytest.mark.requirement("S2-07")
@pytest.mark.parametrize("which", SMALL)
def test_a_small_energy_of_degree_2_jumps_by_default(which):
    sim = tp.compile(SMALL[which][0], 0.1)
    assert jumps(sim) and 'propagator="loop" steps' in str(sim.explain("full"))
    assert sim.tpir.hash == tp.compile(SMALL[which][0], 0.1, propagator="exact").tpir.hash
    assert jumps(tp.compile(SMALL[which][0], 0.1, method="symplectic"))


@pytest.mark.parametrize("which", LOOPS)
def test_a_loop_that_is_asked_for_stays(which):
    assert not jumps(LOOPS[which]())


def test_six_pairs_that_are_alone_jump_and_so_do_two_that_are_coupled():
    assert jumps(tp.compile(apart, 0.1, sizes={"n": 6})) and jumps(tp.compile(row, 0.1, sizes={"n": 2}))


def test_fast_and_slow_parts_ask_for_steps():
    @tp.hamiltonian
    def weak(q, p, c: float = 0.01, m: float = 1.0):
        return p**2 / (2 * m) + c * q**2 / 2

    sim = tp.compile(tp.fast(spring) + tp.slow(weak), 0.5, inner=4)
    assert "ask" in pinned(sim.system, sim.goal) and not jumps(sim)


@pytest.mark.requirement("S2-07")
def test_a_billion_steps_without_an_argument():
    out = tp.compile(spring, 0.01).evolve(q=1.0, p=0.0, steps=1e9)
    with mpmath.workdps(50):
        t = mpmath.mpf(0.01) * 10**9
        assert (out.final.q, out.final.p) == (float(mpmath.cos(t)), float(-mpmath.sin(t)))
    assert out.metrics["propagator"]["by"] == "modes" and out.metrics["propagator"]["phase_error"] < 1e-20


# --- against closed forms ---------------------------------------------------------------------------------------
def truth(system, state, given, t):
    """exp(t A) of the generator, with 60 digits, on (q, p, 1)."""
    from tinyphysics.rules.calculus.hessian import hessian

    params = {p.name: p.default for p in system.parameters} | given
    flat = {name: [float(x) for x in np.ravel(v)] for name, v in params.items()}
    a = hessian(system.energy, system.q, system.p, flat).generator()
    with mpmath.workdps(60):
        m = mpmath.matrix([[mpmath.mpf(x.numerator) / x.denominator for x in r] for r in a])
        z = mpmath.matrix([mpmath.mpf(float(x)) for name in "qp" for x in np.ravel(state[name])] + [1])
        return [float(x) for x in (mpmath.expm(m * t, method="taylor") * z)[:-1]]


@pytest.mark.parametrize("which", SMALL)
def test_jumps_are_right_to_the_last_digit(which):
    system, state, given = SMALL[which]
    for steps in (1, 7, 250):
        out = tp.compile(system, 0.125).evolve(**state, **given, steps=steps)
        found = np.concatenate([np.ravel(out.final.q), np.ravel(out.final.p)])
        wanted = truth(system, state, given, 0.125 * steps)
        assert np.abs(found - wanted).max() <= 2**-52 * np.abs(wanted).max()


def test_a_molecule_that_is_free_flies_for_a_billion_steps():
    """Its centre of mass has frequency 0, whatever its parameters are."""
    ks = np.array([0.1, 0.25, 7.0])
    start = dict(q=[[0.0, 1.0]] * 3, p=[[1.0, 1.0]] * 3)
    out = tp.compile(molecule, 0.01).evolve(**start, k=ks, steps=1e9)
    centre = (out.final.q @ [1.0, 12.0]) / 13
    t = 0.01 * 10**9
    assert np.abs(centre / (12 / 13 + t * 2 / 13) - 1).max() < 1e-15
    assert out.metrics["propagator"]["zero_modes"] == 1


def test_springs_that_cancel_exactly_do_not_bind():
    """Of one member the two springs add to nothing: that is decided in rational numbers."""

    @tp.hamiltonian
    def cancelling(q, p, a: float = 0.1, b: float = 0.2, c: float = 0.3):
        return p**2 / 2 + (a + b - c) * q**2 / 2

    sim, t = tp.compile(cancelling, 0.5, checks="off"), 2.0**30
    flies, turns = dict(a=0.125, b=0.125, c=0.25), dict(a=0.1, b=0.2, c=0.3)
    both = {name: np.array([flies[name], turns[name]]) for name in "abc"}
    out = sim.evolve(q=[1.0, 1.0], p=[1.0, 1.0], **both, steps=2**31)
    assert out.final.q[0] == 1 + t and out.final.q[1] < t / 2  # 0.1 + 0.2 - 0.3 is 2.8e-17, and not 0
    for k, given in enumerate((flies, turns)):
        assert sim.evolve(q=1.0, p=1.0, **given, steps=2**31).final.q == out.final.q[k]


# --- one hash -----------------------------------------------------------------------------------------------------
def ensemble(which, members=5):
    system, state, given = SMALL[which]
    rng = np.random.default_rng(3)
    many = {name: np.asarray(v) + rng.normal(size=(members, *np.shape(v))) / 8 for name, v in state.items()}
    own = {name: np.asarray(v) * rng.uniform(0.5, 2.0, (members, *np.shape(v))) for name, v in given.items()}
    return system, many, own


@pytest.mark.parametrize("which", SMALL)
def test_a_member_and_a_frame_have_the_bits_of_a_run_of_their_own(which):
    system, many, own = ensemble(which)
    sim = tp.compile(system, 0.1)
    out = sim.evolve(
        **many, **own, steps=90, save_every=10, observe={"first": lambda q: q * q}, observe_every=5
    )
    for k in (0, 4):
        for n in (0, 10, 90):
            alone = sim.evolve(
                **{name: v[k] for name, v in many.items()}, **{name: v[k] for name, v in own.items()}, steps=n
            )
            assert np.array_equal(alone.final.q, out.q[n // 10][k]) and np.array_equal(
                alone.final.p, out.p[n // 10][k]
            )
    assert np.array_equal(out["first"][::2], out.q * out.q)
    assert len({len(out.q), len(out.t), 10}) == 1


@pytest.mark.requirement("S2-01")
@pytest.mark.parametrize("which", ["two"])
def test_all_backends_have_one_hash(which, fake_cuda):
    system, many, own = ensemble(which)
    run = dict(steps=10**6, save_every=250_000, hash_every=500_000)
    outs = [tp.compile(system, 0.1, backend=b).evolve(**many, **own, **run) for b in (*BACKENDS, "cuda")]
    assert len({out.hash for out in outs}) == 1 and len({tuple(out.hashes) for out in outs}) == 1
    assert len({out.energy.tobytes() for out in outs}) == 1
    assert len({out.metrics["program"] for out in outs}) == 1


def test_opencl_has_that_hash():
    system, many, own = ensemble("two")
    try:
        there = tp.compile(system, 0.1, backend="opencl")
    except tp.BackendError as error:
        pytest.skip(error.what)
    assert (
        there.evolve(**many, **own, steps=999).hash
        == tp.compile(system, 0.1).evolve(**many, **own, steps=999).hash
    )


# --- the loop that was ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("level", ["kernel", "llvm", "asm", "c", "opencl", "ptx", "cuda"])
def test_the_kernel_of_the_loop_is_shown_and_labelled(level):
    text = tp.compile(spring, 0.1).ir(level)
    first, _, rest = text.partition("\n")
    assert "the loop was deleted" in first and 'propagator="loop"' in first
    assert rest == tp.compile(spring, 0.1, propagator="loop").ir(level)


def test_a_checkpoint_of_the_loop_is_resumed_by_the_loop(tmp_path):
    loop = tp.compile(spring, 0.1, propagator="loop")
    loop.evolve(q=1.0, p=0.0, steps=40, checkpoint=tmp_path / "c")
    with pytest.raises(StoreError, match='(?s)jumps by default.*propagator="loop"'):
        tp.compile(spring, 0.1).evolve(resume=tmp_path / "c", steps=60)
    assert loop.evolve(resume=tmp_path / "c", steps=60).hash == loop.evolve(q=1.0, p=0.0, steps=100).hash


def test_a_simulation_that_was_saved_before_loops_were_deleted_still_steps(tmp_path):
    loop = tp.compile(spring, 0.1, propagator="loop")
    loop.save(tmp_path / "sim.json")
    text = (tmp_path / "sim.json").read_text()
    (tmp_path / "sim.json").write_text(text.replace('"propagator": "loop"', '"propagator": null'))
    again = tp.load(tmp_path / "sim.json")
    assert again.evolve(q=1.0, p=0.0, steps=99).hash == loop.evolve(q=1.0, p=0.0, steps=99).hash


def test_a_jump_goes_on_from_its_checkpoint_and_is_rewound(tmp_path):
    sim = tp.compile(two, 0.1)
    start = dict(q=[0.1, 0.7], p=[0.3, -0.2])
    whole = sim.evolve(**start, steps=100, save_every=25)
    sim.evolve(**start, steps=40, checkpoint=tmp_path / "c")
    assert sim.evolve(resume=tmp_path / "c", steps=60).hash == whole.hash
    assert sim.rewind(whole, 50).hash == sim.evolve(**start, steps=50).hash
    sim.save(tmp_path / "sim.json")
    assert tp.load(tmp_path / "sim.json").evolve(**start, steps=100).hash == whole.hash


def test_where_phases_are_too_many_for_the_digits_another_way_is_taken():
    """Beyond 2**45 radians two words of a float are too few; other members of the ensemble do not notice."""
    sim = tp.compile(spring, 1.0)
    k = np.array([1.0, 1e8, 4.0])
    out = sim.evolve(q=[1.0] * 3, p=[0.0] * 3, k=k, steps=2**40)
    for j in range(3):
        alone = sim.evolve(q=1.0, p=0.0, k=k[j], steps=2**40)
        assert alone.final.q == out.final.q[j]
        with mpmath.workdps(60):
            assert abs(alone.final.q - float(mpmath.cos(mpmath.sqrt(k[j]) * 2**40))) < 1e-15


def test_a_state_that_settles_on_a_hill_is_not_lost_in_what_grows():
    """x - y grows by e**200, and is exactly 0: the state shrinks by as much."""
    out = tp.compile(hill, 0.125).evolve(q=[1.0, 0.0], p=[-1.0, 0.0], k=1.0, steps=1600)
    with mpmath.workdps(40):
        assert out.final.q[0] == float(mpmath.exp(-200)) == -out.final.p[0]
    assert out.final.q[1] == out.final.p[1] == 0.0


def test_a_member_without_numbers_stops_and_the_others_go_on():
    out = tp.compile(spring, 0.1).evolve(q=[1.0, 1.0], p=[0.0, 0.0], m=np.array([2.0, 0.0]), steps=10)
    assert [(s.member, s.step) for s in out.stops] == [(1, 1)] and np.isfinite(out.final.q[0])


def test_what_runs_away_stops_and_the_others_go_on():
    out = tp.compile(hill, 0.1).evolve(
        q=[1.0, 0.5, 1.0], p=[0.0, 0.0, 0.0], k=np.array([-1.0, 4.0, -2.0]), steps=9000, save_every=3000
    )
    assert [s.member for s in out.stops] == [1] and out.stops[0].cause == "not finite"
    assert np.isfinite(out.final.q).all() and np.isnan(out.q[-1][1])


def test_a_lagrangian_of_degree_2_jumps_too():
    @tp.lagrangian
    def swing(q, v, w: float = 2.0):
        return v**2 / 2 - w**2 * q**2 / 2

    out = tp.compile(swing, 0.01).evolve(q=1.0, v=0.5, steps=10**8)
    t = 0.01 * 10**8
    assert out.metrics["propagator"]["way"] == "exact"
    with mpmath.workdps(40):
        t = mpmath.mpf(0.01) * 10**8
        assert out.final.q == float(mpmath.cos(2 * t) + mpmath.sin(2 * t) / 4)


def test_what_decides_is_the_system_alone():
    assert few(tp.compile(spring, 0.1).system) is not None
    assert few(tp.compile(row, 0.1, sizes={"n": 2}).system).still([0, 1]) == 1
    sims = [tp.compile(spring, 0.1, backend=b) for b in BACKENDS]
    assert all(map(jumps, sims)) and len({sim.tpir.hash for sim in sims}) == 1
    assert math.isclose(sims[0].evolve(q=1.0, p=0.0, steps=1).final.q, math.cos(0.1), rel_tol=1e-15)


# --- energies that mix q and p ------------------------------------------------------------------------------------
@tp.hamiltonian
def twisted(q, p, b: float = 0.25, f: float = 0.125):
    return p**2 / 2 + q**2 / 2 + b * q * p + f * q - p / 7


@tp.hamiltonian
def carousel(q: tp.Vec[2], p: tp.Vec[2], w: float = 0.5):
    return p @ p / 2 + q @ q / 2 - w * (q[0] * p[1] - q[1] * p[0])


@tp.hamiltonian
def hills(q: tp.Vec[2], p: tp.Vec[2], w: float = 1.0, g: float = 0.0):
    """A satellite near another on a circle: it swings about an orbit that drifts."""
    turned = q[0] * p[1] - q[1] * p[0]
    return p @ p / 2 - w * turned + w**2 * (q[1] ** 2 - 2 * q[0] ** 2) / 2 - g * q[0]


@tp.hamiltonian
def charge(q: tp.Vec[2], p: tp.Vec[2], B: float = 1.0, E: float = 0.0):
    return ((p[0] + B * q[1] / 2) ** 2 + (p[1] - B * q[0] / 2) ** 2) / 2 - E * q[0]


PLANE = dict(q=[0.5, -0.25], p=[0.125, 0.75])
MIXED = {
    "twisted": (twisted, dict(q=0.5, p=-0.25), [dict(b=0.25), dict(b=1.0), dict(b=1.5, f=0.0)]),
    "carousel": (carousel, PLANE, [dict(w=0.5), dict(w=1.0), dict(w=1.5), dict(w=0.0)]),
    "hills": (hills, PLANE, [dict(w=1.0), dict(w=0.3, g=0.1)]),
    "charge": (charge, PLANE, [dict(B=1.0), dict(B=-0.7, E=0.3)]),
}


@pytest.mark.parametrize("which", MIXED)
def test_one_or_two_pairs_that_are_mixed_are_solved_too(which):
    """Definite or not, with drifts and resonances: against 60 digits, member by member and frame by frame."""
    system, state, cases = MIXED[which]
    sim = tp.compile(system, 0.125)
    assert jumps(sim)
    names = sorted({name for given in cases for name in given})
    default = {x.name: x.default for x in system.parameters}
    own = {name: np.array([given.get(name, default[name]) for given in cases]) for name in names}
    many = {name: np.array([v] * len(cases)) for name, v in state.items()}
    together = sim.evolve(**many, **own, steps=200, save_every=20)
    for k, given in enumerate(cases):
        for n in (20, 200):
            out = sim.evolve(**state, **given, steps=n)
            found = np.concatenate([np.ravel(out.final.q), np.ravel(out.final.p)])
            wanted = truth(system, state, given, 0.125 * n)
            assert np.abs(found - wanted).max() <= 2**-51 * np.abs(wanted).max()
            assert np.array_equal(out.final.q, together.q[n // 20][k])


def test_a_satellite_drifts_for_a_million_orbits():
    """The secular drift of Hill's equations is linear: a zero mode that is not a rest."""
    out = tp.compile(hills, 0.01).evolve(q=[1.0, 0.0], p=[0.0, -0.5], steps=1e9)
    with mpmath.workdps(60):
        x, y, t = mpmath.mpf(1), mpmath.mpf(0), mpmath.mpf(0.01) * 10**9
        u, v = y * 0, mpmath.mpf("-0.5") - x  # velocities: x' = p0 + y, y' = p1 - x
        wanted = y - (6 * x + 3 * v) * t - 2 * u + (6 * x + 4 * v) * mpmath.sin(t) + 2 * u * mpmath.cos(t)
    assert out.final.q[1] == pytest.approx(float(wanted), rel=1e-15)
    assert out.metrics["propagator"]["by"] == "modes" and out.metrics["propagator"]["zero_modes"] == 1


@pytest.mark.parametrize("way", [None, "method"])
@pytest.mark.parametrize("k", [1.3, 0.0, -1.0])
def test_a_jump_is_measured_to_be_symplectic(way, k):
    found = tp.assert_symplectic(tp.compile(spring, dt=0.1, propagator=way), q=0.75, p=0.125, k=k)
    assert found.dt == 0.1 and max(found.values) < 1e-29
    ensemble = {"q": [1.0, 2.0], "p": [0.0, 0.0]}
    with pytest.raises(tp.InputError, match="one member at a time"):
        tp.measure_symplectic(tp.compile(spring, dt=0.1, propagator=way), **ensemble)
