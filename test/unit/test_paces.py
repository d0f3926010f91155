"""How many fast kicks, is a step safe, and which parts are fast?  Held against matrices that NumPy makes of the same motion."""

import logging
import math

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.errors import InputError, PlanError
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.planner.choice.multirate import FINEST, Piece, kicks, proposed
from tinyphysics.planner.choice import multirate_resonance as resonance
from tinyphysics.planner.choice.multirate_resonance import grid, radius


@tp.hamiltonian
def spring(q: tp.Vec[3], p: tp.Vec[3], m: tp.Vec[3], k: float = 1.0):
    return (p**2 / m).sum() / 2 + k * ((q[1] - q[0]) ** 2 + (q[2] - q[1]) ** 2) / 2


@tp.potential
def pull(q: tp.Vec[3], g: float = 0.2):
    return g * (q @ q) / 2 + g * q[0] * q[2] / 3


M = np.array([1.0, 2.0, 0.5])
START = dict(q=[0.1, 0.3, -0.2], p=[0.4, -0.2, 0.1], m=M)
FAST = np.array([[1.0, -1, 0], [-1, 2, -1], [0, -1, 1]])
SLOW = 0.2 * np.eye(3) + 0.2 / 3 * np.array([[0, 0, 1.0], [0, 0, 0], [1, 0, 0]])


def omega(H, m=M):
    return math.sqrt(np.linalg.eigvalsh(H / np.sqrt(m[:, None] * m))[-1])


def exact_step(dt, inner, fast=FAST, slow=SLOW, m=M):
    """The matrix of a whole step: half a slow kick, fast steps, half a slow kick."""
    n, one = len(m), np.eye(2 * len(m))

    def kick(H, h):
        out = one.copy()
        out[n:, :n] = -h * H
        return out

    drift = one.copy()
    drift[:n, n:] = dt / inner * np.diag(1 / m)
    small = kick(fast, dt / inner / 2) @ drift @ kick(fast, dt / inner / 2)
    return kick(slow, dt / 2) @ np.linalg.matrix_power(small, inner) @ kick(slow, dt / 2)


@pytest.mark.requirement("S2-09")
@pytest.mark.parametrize("dt, inner", [(0.3, 4), (1.45, 9), (1.6, 9)])
def test_the_spectral_radius_is_that_of_the_exact_linear_step(dt, inner):
    sim = tp.compile(tp.fast(spring) + tp.slow(pull), dt=dt, inner=inner, pilot=START)
    wanted = np.abs(np.linalg.eigvals(exact_step(dt, inner))).max()
    found, own = sim.paces.radius((inner,), dt)
    assert found == pytest.approx(wanted, rel=1e-7) and own == 1.0


def test_it_is_what_a_run_does():
    """The same matrix, from six runs of one step: the system is linear."""
    sim = tp.compile(tp.fast(spring) + tp.slow(pull), dt=0.7, inner=5, pilot=START)
    ends = sim.evolve(q=np.eye(6)[:, :3], p=np.eye(6)[:, 3:], m=M, steps=1).final
    columns = np.concatenate([ends.q, ends.p], axis=1).T
    assert columns == pytest.approx(exact_step(0.7, 5), abs=1e-14)
    assert np.abs(np.linalg.eigvals(columns)).max() == pytest.approx(sim.paces.radius((5,), 0.7)[0], rel=1e-7)


def test_a_composed_step_has_the_radius_of_its_product():
    w = 1 / (4 - 4 ** (1 / 3))
    for dt in (0.9, 2.2, 2.9):
        sim = tp.compile(tp.fast(spring) + tp.slow(pull), dt=dt, inner=6, order=4, pilot=START)
        steps = [exact_step(x * dt, 6) for x in (w, w, 1 - 4 * w, w, w)]
        wanted = np.abs(np.linalg.eigvals(np.linalg.multi_dot(steps))).max()
        assert sim.paces.radius((6,), dt)[0] == pytest.approx(wanted, rel=1e-7)
        model = np.linalg.multi_dot(
            [exact_step(x * dt, 6, np.eye(1), np.eye(1) * 0.2, np.ones(1)) for x in (w, w, 1 - 4 * w, w, w)]
        )
        found = radius([6], dt, [1.0, 0.2], [w, w, 1 - 4 * w, w, w])
        assert found == pytest.approx(np.abs(np.linalg.eigvals(model)).max(), rel=1e-6)


@pytest.mark.requirement("S2-09")
def test_the_first_state_says_how_many_fast_kicks_there_are():
    sim = tp.compile(tp.fast(spring) + tp.slow(pull), dt=0.05)
    assert "provisional" in str(sim.explain("full")) and sim.goal.inner == ()
    out = sim.evolve(**START, k=400.0, steps=20)
    fast, slow = 20 * omega(FAST), omega(SLOW)
    assert sim.paces.frequencies == pytest.approx((fast, slow), rel=1e-4)
    assert sim.goal.inner == (math.ceil(fast * 0.05 / FINEST),) == out.metrics["paces"]["inner"]
    told = str(sim.explain("full"))
    assert "automatic, from these frequencies" in told and "provisional" not in told
    said = tp.compile(tp.fast(spring) + tp.slow(pull), dt=0.05, inner=sim.goal.inner).evolve(
        **START, k=400.0, steps=20
    )
    assert out.hash == said.hash
    planned = tp.compile(tp.fast(spring) + tp.slow(pull), dt=0.05, pilot=START | {"k": 400.0})
    assert planned.goal.inner == sim.goal.inner


def test_the_plan_is_the_same_on_every_backend():
    found = {
        b: tp.compile(tp.fast(spring) + tp.slow(pull), dt=0.4, backend=b, pilot=START).paces.frequencies
        for b in ("llvm", "c", "numpy", "python")
    }
    assert len(set(found.values())) == 1


def test_three_levels_of_an_ensemble_are_as_fast_as_its_fastest_member():
    sums = tp.fast(spring) + tp.slow(pull) + tp.slow(pull.rename(g="g2"), 2)
    sim = tp.compile(sums, dt=0.05)
    given = dict(
        q=np.tile(START["q"], (3, 1)), p=np.zeros((3, 3)), m=M, k=[1.0, 4e4, 100.0], g=400.0, g2=1.0, steps=1
    )
    sim.evolve(**given)
    fast, middle, slow = (
        200 * omega(FAST),
        math.sqrt(400 / 0.2) * omega(SLOW),
        math.sqrt(1 / 0.2) * omega(SLOW),
    )
    assert sim.paces.frequencies == pytest.approx((fast, middle, slow), rel=1e-4)
    aim = max(slow * 0.05, FINEST)
    h = 0.05 / math.ceil(middle * 0.05 / aim)
    assert sim.goal.inner == (math.ceil(fast * h / aim), math.ceil(middle * 0.05 / aim))


def test_a_run_with_many_kicks_goes_on_from_a_checkpoint(tmp_path):
    sim = tp.compile(tp.fast(spring) + tp.slow(pull), dt=0.4)
    sim.evolve(**START, steps=5, checkpoint=tmp_path / "c")
    again = tp.compile(tp.fast(spring) + tp.slow(pull), dt=0.4).evolve(resume=tmp_path / "c", steps=5)
    assert again.hash == sim.evolve(**START, steps=10).hash


# --- resonance --------------------------------------------------------------------------------------------------
def test_the_model_grows_where_it_was_measured_to():
    """omega = 1, slow curvature 0.2: unstable from 2.63 = 0.84 pi on, up to pi (C-16)."""
    steps = np.linspace(2.0, 3.2, 1201)
    grows = [x for x in steps if radius([400], x, [1.0, 0.2]) > 1]
    assert min(grows) == pytest.approx(2.63, abs=0.01) and max(grows) == pytest.approx(math.pi, abs=0.002)


@pytest.mark.parametrize("inner", [[3], [2, 5]])
def test_the_model_is_the_radius_of_its_matrix(inner):
    curvatures = [1.0, 0.3, 0.1][: len(inner) + 1]
    for x in (0.7, 2.4, 2.9, 5.6):
        step, h = np.eye(2), x / math.prod(inner)
        step = np.array([[1, 0], [-h * curvatures[0], 1]]) @ np.array([[1, h], [0, 1]])
        for count, c in zip(inner, curvatures[1:]):
            h *= count
            step = np.array([[1, 0], [-h * c, 1]]) @ np.linalg.matrix_power(step, count)
        assert radius(inner, x, curvatures) == pytest.approx(np.abs(np.linalg.eigvals(step)).max(), rel=1e-6)


@pytest.mark.requirement("S2-09")
def test_a_step_in_a_resonance_is_complained_about_and_grows(caplog):
    k = 1.0
    half = math.pi / omega(FAST)
    dt = 0.95 * half
    with caplog.at_level(logging.WARNING, "tinyphysics"):
        sim = tp.compile(tp.fast(spring) + tp.slow(pull), dt=dt, inner=40, pilot=START | {"k": k})
    (said,) = caplog.messages
    assert "0.95 of half the fast period" in said and "grows by" in said and "a resonance" in said
    out = sim.evolve(**START, steps=400)
    assert not out.metrics["paces"]["safe"] and out.metrics["paces"]["radius"] > 1.01
    assert np.abs(out.final.q).max() > 10  # it does grow
    assert len(caplog.messages) == 1  # once for a step
    told = sim.explain("full").to_dict()["paces"]
    assert (
        "UNSTABLE" in told["spectral radius"]["because"] and "TOO NEAR" in told["half fast period"]["because"]
    )


def test_a_safe_step_is_called_safe(caplog):
    sim = tp.compile(tp.fast(spring) + tp.slow(pull), dt=0.2, inner=4, pilot=START)
    out = sim.evolve(**START, steps=3)
    assert out.metrics["paces"]["safe"] and not caplog.messages
    assert sim.explain("full").to_dict()["paces"]["spectral radius"]["verdict"] == "1"


def test_what_runs_away_by_itself_is_no_resonance(caplog):
    @tp.potential
    def hill(q: tp.Vec[3]):
        return -2.0 * (q @ q)

    sim = tp.compile(tp.fast(spring) + tp.slow(hill), dt=0.05, pilot=START | {"k": 400.0})
    found, own = sim.paces.radius(sim.goal.inner, 0.05)
    away = np.linalg.eigvals(np.diag(1 / M) @ (400 * FAST - 4 * np.eye(3))).real.min()
    assert own == pytest.approx(math.exp(0.05 * math.sqrt(-away)), rel=1e-9) and found == pytest.approx(
        own, rel=1e-3
    )
    assert not caplog.messages and "no resonance" in str(sim.explain("full"))


@tp.hamiltonian
def free(q: tp.Vec[2], p: tp.Vec[2]):
    return (p @ p) / 2 - 0.02 * (q @ q)


@tp.potential
def stiff(q: tp.Vec[2]):
    return 50.0 * q[0] ** 2


@tp.potential
def walled(q: tp.Vec[2]):
    return 0.5 * np.arcsin(1.5 * q[0])


def test_without_a_fast_vibration_there_is_no_half_period_and_the_step_is_still_judged(caplog):
    """The fast part runs away and the slow one vibrates with omega 10: nothing to divide by, and no resonance."""
    start = dict(q=[0.1, 0.2], p=[0.0, 0.1])
    with caplog.at_level(logging.WARNING, "tinyphysics"):
        sim = tp.compile(tp.fast(free) + tp.slow(stiff), dt=0.5, inner=2, pilot=start)
    (said,) = caplog.messages
    assert sim.paces.fastest == 0 and "the fast part does not vibrate here" in said
    assert "grows by" in said and "Take dt=0.12" in said and "resonance" not in said
    assert "too long for the slow part" in str(sim.explain("full")) and "half fast" not in str(
        sim.explain("full")
    )
    assert not sim.evolve(**start, steps=1).metrics["paces"]["safe"]
    assert sim.evolve(**start, steps=1, dt=0.12).metrics["paces"]["safe"] and len(caplog.messages) == 1


def test_a_member_without_finite_forces_is_not_a_step_that_grows(caplog):
    """Of two members the arcsine of one is not a number: its own stop says so, and the step of the other is judged."""
    sim = tp.compile(tp.fast(free + walled) + tp.slow(stiff), dt=0.05, checks="on")
    with caplog.at_level(logging.WARNING, "tinyphysics"):
        out = sim.evolve(q=[[0.1, 0.2], [0.9, 0.2]], p=np.zeros((2, 2)), steps=1)
    assert [stop.member for stop in out.stops] == [1]
    assert math.isfinite(out.metrics["paces"]["radius"]) and len(sim.paces.members) == 1
    assert not any("grows" in x or "resonance" in x for x in caplog.messages)


def test_a_large_system_near_a_resonance_is_told_so_without_its_matrix(caplog, monkeypatch):
    monkeypatch.setattr("tinyphysics.runtime.measure.multirate.MOST_POSITIONS", 2)
    dt = 0.95 * math.pi / omega(FAST)
    with caplog.at_level(logging.WARNING, "tinyphysics"):
        sim = tp.compile(tp.fast(spring) + tp.slow(pull), dt=dt, inner=40, pilot=START)
    (said,) = caplog.messages
    assert "a resonance is near. Stay below" in said and "3 positions: a matrix" in str(sim.explain("full"))


def test_levels_whose_fastest_is_at_rest_are_counted_without_dividing_by_it():
    with pytest.raises(PlanError, match=r"omega = 1e\+06 .* kicks in a step of 0.1"):
        kicks("chain", [0.0, 1e6, 1.0], 0.1)


@pytest.mark.requirement("S2-09")
def test_the_picture_shows_the_tongues_and_this_step():
    sim = tp.compile(tp.fast(spring) + tp.slow(pull), dt=0.2, inner=8, pilot=START)
    rows = next(s for s in sim.explain("full").sections if s.title == "paces").rows
    picture = {r.name: r.verdict for r in rows if r.name[:2] in ("0.", "1.") and len(r.verdict) == 60}
    assert len(picture) == 12 and sum(line.count("X") for line in picture.values()) == 1
    right = 2.2
    for name, line in picture.items():
        y = float(name)
        for k, mark in enumerate(line):
            x = right * (k + 0.5) / 60
            if mark == ".":
                assert radius([8], x * math.pi, [1.0, y * y]) < 1.05  # labels have two digits
    strongest = list(picture.values())[0]
    assert strongest[int(0.95 / right * 60)] == "#" and strongest[int(0.3 / right * 60)] == "."


def test_a_grid_is_one_where_nothing_is_slow():
    assert grid([10], [], [0.2, 0.5, 0.9], [0.0]) == [[1.0, 1.0, 1.0]]


# --- which parts are fast? -----------------------------------------------------------------------------------------
def test_a_sum_is_told_which_of_its_parts_are_fast():
    sim = tp.compile(spring + pull, dt=0.005)
    split = sim.suggest_split(**START, k=400.0)
    assert [p.name for p in split.fast] == ["spring"] and [p.name for p in split.slow] == ["pull"]
    assert split.fast[0].frequency == pytest.approx(20 * omega(FAST), rel=1e-4)
    proposal = eval(split.expression, {"tp": tp, "spring": spring, "pull": pull})  # noqa: S307  what it says can be run
    paced = proposal.evolve(**START, k=400.0, steps=40)
    plain = sim.evolve(**START, k=400.0, steps=40 * split.inner)
    assert paced.t[-1] == pytest.approx(plain.t[-1]) and paced.drift("energy") < 5 * plain.drift("energy")
    assert split.expression in str(split) and "omega = " in str(split)
    assert sim.tpir.step == tp.compile(spring + pull, dt=0.005).tpir.step  # a proposal changes nothing
    assert split.expression in str(
        tp.compile(spring + pull, dt=0.005, pilot=START | {"k": 400.0}).explain("full")
    )


def test_one_energy_is_told_which_of_its_terms_are_fast():
    @tp.hamiltonian
    def whole(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2 + 1e4 * (q[0] - q[1]) ** 2 + tp.cos(q[2])

    split = tp.compile(whole, dt=1e-3).suggest_split(q=[0.1, 0.2, 0.3], p=[0.0, 0.0, 0.0])
    assert "cos" in split.slow[0].name and split.slow[0].frequency == pytest.approx(
        math.sqrt(math.cos(0.3)), rel=1e-4
    )
    assert split.fast[0].frequency == pytest.approx(200.0) and not split.in_parts
    assert split.inner * 1e-3 * 200 / math.pi <= 0.8 and "fast_part" in str(split)


def test_parts_of_one_pace_stay_together():
    split = tp.compile(spring + pull, dt=0.01).suggest_split(**START, g=1.0)
    assert not split.pays and split.expression == "" and "one pace" in str(split)


def test_the_widest_gap_is_the_split():
    pieces = [Piece("a", 1.0), Piece("b", 100.0), Piece("c", 2.0), Piece("d", 70.0)]
    split = proposed(pieces, 1e-3, True)
    assert [p.name for p in split.fast] == ["b", "d"] and [p.name for p in split.slow] == ["c", "a"]
    assert (
        split.expression
        == "tp.compile(tp.fast(b) + tp.fast(d) + tp.slow(c) + tp.slow(a), dt=0.025, inner=25)"
    )
    assert proposed([Piece("a", 5.0), Piece("b", 0.0)], None, True).slow[0].name == "b"
    long = proposed(pieces, 1.0, True)  # a step that does not resolve the fast motion is no fast step
    assert long.inner == 6 and long.dt / long.inner == pytest.approx(0.004)


@pytest.mark.parametrize(
    "make, error, said",
    [
        (lambda: kicks("chain", [1e6, 1.0], 0.1), PlanError, "100,000|1,000,000 kicks"),
        (
            lambda: tp.compile(tp.fast(spring) + tp.slow(pull), dt=0.1, error=1e-3),
            PlanError,
            "goals cannot be combined with",
        ),
        (
            lambda: tp.compile(tp.fast(spring) + tp.slow(pull), dt=0.1).estimate(steps=10),
            PlanError,
            "the number of fast kicks",
        ),
        (
            lambda: tp.compile(tp.fast(spring) + tp.slow(pull), dt=0.1).suggest_dt(**START),
            PlanError,
            "fast and slow",
        ),
        (
            lambda: tp.compile(tp.fast(spring) + tp.slow(pull), dt=0.1).evolve(
                q=np.zeros((0, 3)), p=np.zeros((0, 3)), m=M, steps=1
            ),
            InputError,
            "empty ensemble",
        ),
    ],
)
def test_what_cannot_be_decided_is_refused(make, error, said):
    with pytest.raises(error, match=said):
        make()


def test_a_measured_step_is_symplectic_whoever_decided_its_kicks():
    sim = tp.compile(tp.fast(spring) + tp.slow(pull), dt=0.5)
    assert tp.measure_symplectic(sim, **START).symplectic and sim.goal.inner


def test_other_parameters_are_measured_again():
    sim = tp.compile(tp.fast(spring) + tp.slow(pull), dt=0.3, inner=4, pilot=START)
    first = sim.evolve(**START, steps=3).metrics["paces"]
    stiff = sim.evolve(**START, k=4.0, steps=3).metrics["paces"]
    assert first["omega"][0] == pytest.approx(omega(FAST), rel=1e-6)
    assert (
        stiff["omega"][0] == pytest.approx(omega(4 * FAST), rel=1e-6)
        and stiff["omega"][1] == first["omega"][1]
    )
    wanted = np.abs(np.linalg.eigvals(exact_step(0.3, 4, fast=4 * FAST))).max()
    assert stiff["radius"] == pytest.approx(wanted, rel=1e-7) and stiff["measured"] != first["measured"]
    once = sim.paces.elsewhere[0]
    sim.evolve(**START, k=4.0, steps=5)
    assert sim.paces.elsewhere == [once]  # the same parameters are not measured twice
    assert sim.evolve(**START, steps=3).metrics["paces"] == first


def test_a_picture_of_resonances_is_made_of_floats(monkeypatch):
    """The weights of a composed method are exact numbers too; with those, a report took ten seconds."""
    kinds, product = set(), resonance.product
    monkeypatch.setattr(resonance, "product", lambda a, b: kinds.update(map(type, a + b)) or product(a, b))
    radius([2], 3.0, [1.0, 0.4], BY_NAME["respa4"].family.weights)
    assert kinds == {float}
