"""What may be asked as a goal, when is the plan made, what does it say, and is it the same every time?"""

import re
import json
import math
import pickle

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.analysis.analyse import facts_of
from tinyphysics.errors import InputError, PlanError, TinyPhysicsError
from tinyphysics.physics.particles import gravity, plummer
from tinyphysics.physics.zoo import driven_pendulum, henon, henon_heiles, kepler, oscillator, pendulum
from tinyphysics.plan import Goal
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.planner.choice.goals import candidates, decide, step_for
from tinyphysics.planner.choice.longest import Course, Measured, guess, longest
from tinyphysics.runtime.stages import pilot_cache as decisions
from tinyphysics.runtime.measure import pilot

ABLE = candidates(kepler, facts_of(kepler), Goal(None, error=1e-3))
START = {"q": [1.0, 0.0], "p": [0.0, 1.2]}


@tp.forces
def spring(q: tp.Vec[2], mass: float = 2.0):
    return -8 * q


@tp.hamiltonian
def free(q, p):
    return p**2 / 2


@tp.hamiltonian
def mixed(q, p):
    return p**2 * (1 + q**2) / 2 + q**2 / 2


# --- when the plan is made ------------------------------------------------------------------------------------
def test_with_a_pilot_the_plan_is_made_at_once_and_says_what_was_measured():
    sim = tp.compile(kepler, energy_drift=1e-7, error=1e-5, pilot=START)
    d, text = sim.goal.decision, str(sim.explain("full"))
    assert (
        d.error <= 1e-5 and d.drift <= 1e-7 and sim.compiled.known.method == d.method == sim.built.plan.method
    )
    assert "provisional" not in text and "the least work that was measured to meet the goals" in text
    rows = sim.explain("full").to_dict()["plan"]
    assert rows["dt"]["verdict"] == f"{d.dt:.6g}" and rows["error"]["because"].endswith(
        f"{d.error:.1e} in the pilot"
    )
    assert (
        rows["energy_drift"]["verdict"] == "1e-07"
        and rows["stability"]["verdict"] == f"omega*dt = {d.dt * d.frequency:.3g}"
    )
    assert {a["verdict"] for a in rows["not chosen"]} == {t.method for t in d.trials} - {d.method}


def test_without_one_it_is_provisional_until_the_first_run():
    sim = tp.compile(kepler, energy_drift=1e-7)
    assert (
        "provisional" in str(sim.explain("full"))
        and "not measured yet" in str(sim.explain("full"))
        and "provisional" in repr(sim)
    )
    assert sim.goal.decision is None and sim.certificate.symplectic
    out = sim.evolve(**START, until=10.0)
    assert "provisional" not in str(sim.explain("full")) and out.metrics["goals"]["met"]
    first = sim.goal.decision
    sim.evolve(q=[0.9, 0.0], p=[0.0, 1.1], until=20.0)
    assert sim.goal.decision != first  # of that run
    assert sim.evolve(**START, until=10.0).hash == out.hash and sim.goal.decision == first


def test_only_the_energy_asked_for_still_means_a_state_error_of_a_thousandth():
    sim = tp.compile(kepler, energy_drift=0.5, pilot=START)
    assert sim.goal.decision.error <= 1e-3
    assert "the default: conserving energy does not make the trajectory accurate" in str(sim.explain("full"))


def test_the_step_divides_the_time_of_the_run():
    sim = tp.compile(kepler, error=1e-4, pilot=START)
    for until in (1.0, 7.3, 19.99):
        out = sim.evolve(**START, until=until)
        dt = out.origin.run.dt
        assert out.t[-1] == pytest.approx(until, rel=1e-15) and dt <= sim.goal.decision.dt * (1 + 1e-9)
        assert dt * out.steps[-1] == pytest.approx(until, rel=1e-14)


def test_a_longer_run_than_was_planned_for_gets_a_shorter_step():
    sim = tp.compile(kepler, error=1e-6, method="yoshida4", pilot=START | {"until": 10.0})
    d = sim.goal.decision
    short, long = (step_for(d, t)[0] for t in (10.0, 160.0))
    assert short == pytest.approx(d.dt, rel=1e-12) and long == pytest.approx(
        d.dt / 2, rel=0.02
    )  # 16 times the time: order 4
    assert sim.evolve(**START, until=160.0).metrics["goals"]["met"]


def test_a_number_of_steps_that_is_no_round_one_is_compared_at_the_end():
    out = tp.compile(pendulum, dt=0.01, error=1e-3).evolve(q=1.0, p=0.0, steps=301)
    assert out.metrics["goals"]["met"] and 0 < out.metrics["goals"]["error"]["measured"] < 1e-3


def test_with_a_dt_of_the_users_the_method_is_chosen_for_it():
    sim = tp.compile(kepler, dt=0.05, energy_drift=1e-6, pilot=START)
    d = sim.goal.decision
    tried = [t for t in d.trials if "not piloted" not in t.verdict]
    assert d.dt == 0.05 and [t.method for t in tried if t.meets] == [d.method] and len(tried) > 1
    assert all(BY_NAME[t.method].stages <= BY_NAME[d.method].stages for t in tried)  # the others cost more
    out = sim.evolve(**START, steps=200)
    assert out.origin.run.dt == 0.05 and out.metrics["goals"]["met"]
    assert tp.compile(kepler, dt=0.05, error=0.5).evolve(**START, steps=20).metrics["goals"]["met"]


def test_a_pilot_without_a_goal_goes_with_everything_and_numbers_of_numpy_are_numbers():
    s = plummer(64, 1)
    assert (
        tp.compile(
            gravity, dt=0.01, approximate=1e-2, sizes={"n": 64}, pilot=s | {"softening": 0.1}
        ).frequency
        > 1
    )
    sim = tp.compile(pendulum, error=np.float32(1e-3), pilot={"q": 1.0, "p": 0.0, "until": 2.0})
    assert type(sim.goal.error) is float and sim.goal.decision.error < 1e-3


def test_pins_and_prohibitions_are_kept():
    assert (
        tp.compile(kepler, error=1e-6, method="leapfrog", pilot=START).goal.decision.method == "leapfrog_kdk"
    )
    assert BY_NAME[tp.compile(kepler, error=1e-4, order=4, pilot=START).goal.decision.method].order == 4
    chosen = tp.compile(kepler, error=1e-8, pilot=START).goal.decision.method
    assert tp.compile(kepler, error=1e-8, forbid=chosen, pilot=START).goal.decision.method != chosen
    assert (
        tp.compile(mixed, error=1e-4, method="rk4", pilot={"q": 0.5, "p": 0.5}).goal.decision.method == "rk4"
    )


def test_forces_explicit_time_ensembles_letters_and_float32():
    assert tp.compile(spring, error=1e-5).evolve(**START, until=5.0).metrics["goals"]["met"]
    driven = tp.compile(driven_pendulum, error=1e-4).evolve(q=3.0, p=0.0, t0=1.0, until=3.0)
    assert driven.metrics["goals"]["met"] and driven.t[0] == 1.0
    many = tp.compile(kepler, error=1e-4).evolve(
        q=[1.0, 0.0], p=[0.0, 1.2], mu=np.linspace(1.0, 2.0, 30), until=5.0
    )
    assert many.metrics["goals"]["met"] and len(many.metrics["goals"]["members"]) == pilot.MOST_MEMBERS
    few = tp.compile(gravity, error=1e-3, energy_drift=1e-4).evolve(**plummer(4, 1), softening=0.3, until=1.0)
    assert few.metrics["goals"]["met"]
    narrow = tp.compile(kepler, error=1e-3, precision="float32").evolve(**START, until=5.0)
    assert narrow.metrics["goals"]["met"] and narrow.q.dtype == np.float32


def test_a_member_alone_would_have_been_planned_for_as_the_worst_of_all():
    alone = tp.compile(oscillator, error=1e-6).evolve(q=1.0, p=0.0, k=25.0, until=5.0)
    among = tp.compile(oscillator, error=1e-6).evolve(q=1.0, p=0.0, k=[1.0, 25.0, 4.0], until=5.0)
    assert among.origin.run.dt == alone.origin.run.dt


# --- checks in the run ----------------------------------------------------------------------------------------
def test_checks_that_are_off_measure_nothing_in_the_run():
    assert "goals" not in tp.compile(kepler, error=1e-4, checks="off").evolve(**START, until=5.0).metrics


def test_a_step_of_the_users_in_a_run_is_measured_like_any_other(caplog):
    sim = tp.compile(kepler, error=1e-6, energy_drift=1e-8, pilot=START)
    out = sim.evolve(**START, dt=1.0, until=20.0)
    goals = out.metrics["goals"]
    assert not goals["met"] and not goals["error"]["met"] and not goals["energy_drift"]["met"]
    assert goals["energy_drift"]["measured"] == out.drift("energy") and "a goal was not met" in caplog.text


def test_looking_at_the_goals_changes_no_bit():
    sim = tp.compile(kepler, error=1e-5, pilot=START)
    out = sim.evolve(**START, until=10.0, save_every=3)
    plain = tp.compile(kepler, dt=out.origin.run.dt, method=sim.goal.decision.method)
    assert plain.evolve(**START, steps=int(out.steps[-1])).hash == out.hash


def test_a_run_with_goals_goes_on_from_a_checkpoint(tmp_path):
    sim = tp.compile(kepler, error=1e-5, pilot=START | {"until": 20.0})
    whole = sim.evolve(**START, until=20.0)
    half = int(whole.steps[-1]) // 2
    sim.evolve(**START, dt=whole.origin.run.dt, steps=half, checkpoint=tmp_path / "c")
    rest = sim.evolve(resume=tmp_path / "c", until=20.0)
    assert rest.hash == whole.hash and rest.metrics["goals"]["met"]
    with pytest.raises(InputError, match="before the plan for them is made"):
        tp.compile(kepler, error=1e-5).evolve(resume=tmp_path / "c", until=20.0)


# --- plans that are kept --------------------------------------------------------------------------------------
def test_planning_does_not_depend_on_the_backend():
    found = [
        tp.compile(pendulum, error=1e-3, backend=b, pilot={"q": 1.0, "p": 0.0, "until": 4.0}).goal.decision
        for b in ("llvm", "numpy", "python")
    ]
    assert found[0] == found[1] == found[2]


def test_planning_again_finds_the_same(monkeypatch):
    monkeypatch.setattr(decisions, "recall", lambda name: None)
    first, second = (
        tp.compile(henon_heiles, error=1e-5, pilot={"q": [0.1, 0.2], "p": [0.3, 0.0]}).goal.decision
        for _ in range(2)
    )
    assert first == second and first is not second


def test_a_decision_is_found_again_by_all_that_it_rests_on(monkeypatch):
    monkeypatch.setattr(
        decisions, "key_of", lambda kind, roots, rest: repr([kind, [str(r) for r in roots], rest])
    )
    ran = []
    own = pilot.Pilots.measure
    monkeypatch.setattr(pilot.Pilots, "measure", lambda self, *args: ran.append(args) or own(self, *args))

    def pilots(**changed):
        asked = {"error": 1e-3, "pilot": {"q": 1.0, "p": 0.0, "until": 3.0}} | changed
        ran.clear()
        tp.compile(pendulum, **asked)
        return len(ran)

    assert pilots() > 0 and pilots() == 0
    assert (
        pilots(error=1e-4) > 0
        and pilots(energy_drift=1e-4) > 0
        and pilots(order=2) > 0
        and pilots(forbid="yoshida4") > 0
    )
    assert (
        pilots(pilot={"q": 1.1, "p": 0.0, "until": 3.0}) > 0
        and pilots(pilot={"q": 1.0, "p": 0.0, "until": 4.0}) > 0
    )
    assert pilots(dt=0.01) > 0 and pilots() == 0


def test_a_decision_survives_a_file_and_a_pickle(tmp_path):
    sim = tp.compile(kepler, error=1e-5, pilot=START)
    out = sim.evolve(**START, until=9.0)
    sim.save(tmp_path / "sim.json")
    for copy in (tp.load(tmp_path / "sim.json"), pickle.loads(pickle.dumps(sim))):
        assert copy.goal == sim.goal and copy.evolve(**START, until=9.0).hash == out.hash
    json.loads(
        (tmp_path / "sim.json").read_text(), parse_constant=pytest.fail
    )  # nothing that JSON does not know
    assert (
        decisions.from_data(json.loads(json.dumps(decisions.as_data(sim.goal.decision)))) == sim.goal.decision
    )


# --- what cannot be ---------------------------------------------------------------------------------------------
def test_goals_that_rounding_forbids_name_it_and_show_the_three_nearest_methods():
    with pytest.raises(PlanError) as caught:
        tp.compile(kepler, error=1e-15, pilot=START | {"until": 20.0})
    text = str(caught.value)
    assert text.count(", order ") == 3 and f"and {len(ABLE) - 3} others, further off" in text
    assert "rounding: no step brings error below about" in text
    assert "The rounding of float64 is in the way: ask for error=" in caught.value.fix
    least = float(caught.value.fix.split("error=")[1].split(" or")[0])
    assert 1e-15 < least < 1e-11
    tp.compile(kepler, error=5 * least, pilot=START | {"until": 20.0})  # what it says can be had


def test_goals_that_a_step_forbids_show_the_nearest_first():
    with pytest.raises(PlanError) as caught:
        tp.compile(kepler, dt=0.5, energy_drift=1e-12, pilot=START)
    text = str(caught.value)
    assert "keeps energy to 1e-12 and the state to 0.001 at dt=0.5" in text and "Leave dt= out" in text
    drifts = [float(x) for x in re.findall(r"energy drift ([\d.e+-]+)", text)]
    assert len(drifts) == 3 and drifts == sorted(drifts)


def test_a_step_beyond_the_limit_of_a_method_is_refused_for_goals():
    with pytest.raises(
        PlanError, match=r"leapfrog_kdk, order 2: dt = 3: unstable: omega\*dt = 3 is above its limit, 2"
    ):
        tp.compile(oscillator, dt=3.0, order=2, error=1e-3, pilot={"q": 1.0, "p": 0.0})


def test_a_step_beyond_the_limit_is_warned_about_without_goals(caplog):
    sim = tp.compile(oscillator, dt=2.5, propagator="loop", pilot={"q": 1.0, "p": 0.0})
    assert "omega*dt = 2.5 is above its limit, 2" in caplog.text
    row = sim.explain("full").to_dict()["plan"]["stability"]
    assert row["verdict"] == "omega*dt = 2.5" and "TOO LONG" in row["because"]
    caplog.clear()
    out = sim.evolve(q=1.0, p=0.0, dt=2.1, steps=10)
    assert out.metrics["stability"] == {"omega": 1.0, "omega_dt": 2.1, "limit": 2.0}
    assert "dt=2.1 is too long for leapfrog_kdk" in caplog.text
    caplog.clear()
    fine = tp.compile(oscillator, dt=0.5, propagator="loop", pilot={"q": 1.0, "p": 0.0})
    assert (
        not caplog.text
        and "TOO LONG" not in str(fine.explain("full"))
        and "omega*dt = 0.5" in str(fine.explain("full"))
    )


# fmt: off
WRONG = [
    (lambda: tp.compile(kepler, error=-1e-6),                                  "error=-1e-06 is not a relative error"),
    (lambda: tp.compile(kepler, energy_drift=0),                               "energy_drift=0 is not a relative error"),
    (lambda: tp.compile(kepler, error="1e-6"),                                 "error='1e-6' is not a relative error"),
    (lambda: tp.compile(kepler, error=True),                                   "error=True is not a relative error"),
    (lambda: tp.compile(kepler, error=2),                                      "error=2 is not a relative error"),
    (lambda: tp.compile(kepler, error=1e-6, pilot={"q": [1.0, 0.0]}),          "the initial `p` is missing (in pilot"),
    (lambda: tp.compile(kepler, error=1e-6, pilot=START | {"v": 1.0}),         "no state or parameter `v` (in pilot"),
    (lambda: tp.compile(kepler, error=1e-6, pilot={"q": 1.0, "p": 1.0}),       "shape (2,) (in pilot"),
    (lambda: tp.compile(kepler, error=1e-6, pilot=[1.0, 2.0]),                 "pilot=[1.0, 2.0] is not a dict"),
    (lambda: tp.compile(kepler, error=1e-6, pilot=START | {"until": -1.0}),    "until=-1.0 does not lie after t0=0"),
    (lambda: tp.compile(kepler, error=1e-6, pilot={"q": np.ones((0, 2)), "p": np.ones((0, 2))}), "an empty ensemble"),
    (lambda: tp.compile(free, error=1e-6, pilot={"q": 0.0, "p": 1.0}),         "no time scale"),
    (lambda: tp.compile(henon, error=1e-6),                                    "`henon` is a map"),
    (lambda: tp.compile(henon, pilot={"x": 0.0, "y": 0.0}),                    "`henon` is a map"),
    (lambda: tp.compile(spring, energy_drift=1e-6),                            "given by its forces, and no energy is known"),
    (lambda: tp.compile(mixed, error=1e-6, order=8),                           "mixes q and p"),
    (lambda: tp.compile(gravity, error=1e-6, approximate=1e-3),                "goals cannot be combined with approximate="),
    (lambda: tp.compile(kepler, error=1e-6, method="rk5"),                     "there is no method `rk5`"),
    (lambda: tp.compile(kepler, error=1e-6).evolve(**START, steps=100),        "needs an end"),
    (lambda: tp.compile(kepler, error=1e-6).evolve(**START),                   "needs an end"),
    (lambda: tp.compile(kepler, error=1e-6).evolve(**START, steps=1, until=2), "evolve needs either steps= or until=, and not both"),
    (lambda: tp.compile(kepler, error=1e-6).evolve(**START, until=-1.0),       "does not lie after t0=0"),
    (lambda: tp.compile(kepler, dt=0.1).suggest_dt(error=-1.0, **START),       "is not a relative error"),
    (lambda: tp.compile(kepler, dt=0.1).suggest_dt(error=1e-3),                "`q` is missing (to suggest_dt)"),
    (lambda: tp.compile(henon).suggest_dt(error=1e-3, x=0.0, y=0.0),           "`henon` is a map"),
]
# fmt: on


@pytest.mark.parametrize("call, what", WRONG, ids=[w for _, w in WRONG])
def test_a_wrong_goal_says_what_to_write(call, what):
    with pytest.raises(TinyPhysicsError) as caught:
        call()
    assert what in str(caught.value) and caught.value.fix


def test_what_a_run_costs_is_known_with_its_method(caplog):
    with pytest.raises(PlanError, match="not known before its method is"):
        tp.compile(kepler, error=1e-6).estimate(steps=1000)
    assert tp.compile(kepler, error=1e-12, pilot=START | {"until": 1.0}).estimate(steps=1000)["seconds"] > 0
    assert not caplog.text  # a trial of some state or other has no goals


def test_no_step_is_a_run_of_no_error():
    out = tp.compile(kepler, dt=0.1, error=1e-3).evolve(**START, steps=0)
    assert out.final.q.tolist() == START["q"]


def test_what_frames_do_not_show_is_not_promised():
    """Two runs of a free particle are one: equal digits still say no more than that the digits are equal."""
    a = {"q": np.ones((2, 1)), "p": np.ones((2, 1))}
    assert pilot.apart(a, a) == 2.0**-52 and pilot.apart({"q": np.ones((2, 1), np.float32)}, a) == 2.0**-23
    with pytest.raises(PlanError, match="no method keeps the state to 1e-20"):
        tp.compile(free, error=1e-20, pilot={"q": 0.0, "p": 1.0, "until": 1.0})


# --- the search alone -----------------------------------------------------------------------------------------
def by_power(order, constant=1.0, floor=0.0):
    """Pilots of methods whose errors are constant*dt**order, and never below a floor."""
    return lambda m, dt, steps: Measured(max(constant * dt**order, floor), 0.0)


@pytest.mark.parametrize("m", ABLE, ids=lambda m: m.name)
@pytest.mark.parametrize("error", [1e-3, 1e-6])
def test_the_longest_step_is_found_where_the_error_is_a_power_of_it(m, error):
    course = Course(100.0, 100.0, 1.0)
    goal = Goal(None, error=error)
    t = longest(m, goal, course, by_power(m.order), 10, guess(m, goal, course, 1.0), float("inf"))
    exact = min(error ** (1 / m.order), m.limit or 9.0)
    assert t.meets and 0.75 * exact < t.dt <= exact * (1 + 1e-9)


def test_an_error_that_does_not_fall_is_called_rounding():
    m = BY_NAME["yoshida4"]
    t = longest(
        m, Goal(None, error=1e-9), Course(100.0, 100.0, 1.0), by_power(4, floor=3e-8), 10, 4096, float("inf")
    )
    assert not t.meets and t.rounded == "error" and t.error == 3e-8


def test_errors_of_a_pilot_are_extrapolated_to_the_run():
    m, goal = BY_NAME["leapfrog_kdk"], Goal(None, error=1e-4)
    near, far = (
        longest(m, goal, Course(100.0, reach, 1.0), by_power(2), 10, 1024, float("inf"))
        for reach in (100.0, 1600.0)
    )
    assert far.dt == pytest.approx(near.dt / 4, rel=0.2) and far.error <= 1e-4


@pytest.mark.parametrize("stiff", [0.01, 1.0, 30.0])
def test_the_cheapest_that_was_measured_to_meet_them_is_taken(stiff):
    """Errors that are powers of stiff*dt: the more accurate a goal, the higher the order."""
    facts, orders = facts_of(pendulum), []
    for error in (0.3, 1e-3, 1e-6, 1e-9):
        goal, course = Goal(None, error=error), Course(50.0, 50.0, 1.0)
        d = decide(
            pendulum,
            facts,
            goal,
            course,
            lambda m, dt, steps: Measured((stiff * dt) ** m.order, 0.0),
            lambda m: m.stages,
        )
        piloted = [t for t in d.trials if "not piloted" not in t.verdict]
        assert d.method == min((t for t in piloted if t.meets), key=lambda t: t.work).method
        assert d.error <= error and {t.method for t in d.trials} == {m.name for m in ABLE}
        orders.append(BY_NAME[d.method].order)
    assert orders == sorted(orders) and (stiff < 1 or orders[-1] > orders[0])


def test_pilots_that_come_nowhere_near_end():
    """Steps that take long to call count as more operations, in a pilot and in all of them together."""
    taken: list[tuple[str, int]] = []

    def hopeless(m, dt, steps):
        taken.append((m.name, steps))
        return Measured(0.5, 0.0)

    effort = 100_000
    course = Course(50.0, 50.0, 1.0, work=1e9)
    with pytest.raises(PlanError, match="no method keeps the state to 1e-06"):
        decide(
            pendulum,
            facts_of(pendulum),
            Goal(None, error=1e-6),
            course,
            hopeless,
            lambda m: 10,
            lambda m: effort,
        )
    assert max(steps for _, steps in taken) <= 1e9 / effort
    assert 4 * effort * sum(steps for _, steps in taken) < 2e10 and len({name for name, _ in taken}) < len(
        ABLE
    )


def test_a_state_that_is_nothing_wherever_one_looks_has_a_size_all_the_same():
    """After every eighth of eight periods the momentum of an oscillator is zero."""
    sim = tp.compile(oscillator, error=1e-6)
    out = sim.evolve(q=1.0, p=0.0, until=16 * math.pi)
    assert out.metrics["goals"]["met"] and out.metrics["goals"]["error"]["measured"] > 1e-9
    assert abs(out.final.q - 1) < 1e-6 and abs(out.final.p) < 1e-6
    loop = tp.compile(oscillator, dt=0.1, propagator="loop")
    dt = loop.suggest_dt(error=1e-4, q=1.0, p=0.0, until=16 * math.pi)
    assert dt == pytest.approx(
        math.sqrt(24 * 1e-4 / (16 * math.pi)), rel=0.3
    )  # leapfrog turns by dt**2/24 too much


def test_what_is_solved_has_no_step_to_suggest():
    with pytest.raises(PlanError, match='(?s)dt does not change its error.*propagator="loop"'):
        tp.compile(oscillator, dt=0.1).suggest_dt(q=1.0, p=0.0)
    piloted = tp.compile(oscillator, dt=50.0, pilot={"q": 1.0, "p": 0.0})
    assert piloted.evolve(q=1.0, p=0.0, steps=1).final.q == pytest.approx(math.cos(50.0), abs=1e-15)


@pytest.mark.parametrize("precision", ["compensated", "dd", "lattice"])
def test_precisions_that_goals_do_not_measure_are_refused(precision):
    with pytest.raises(PlanError, match="the trial runs are in float64"):
        tp.compile(kepler, error=1e-4, precision=precision)
