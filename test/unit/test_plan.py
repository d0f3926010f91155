"""What may be asked of the planner, and what does it answer?  Names, orders, refusals, and what has not landed."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.errors import BackendError, InputError, PlanError, TinyPhysicsError
from tinyphysics.ir import parse
from tinyphysics.planner.methods.catalog import ALIASES, BY_NAME, BY_ORDER, CHOICES, names
from tinyphysics.tpir.precision.precision import PRECISIONS
from tinyphysics.target import BUILT
from tinyphysics.physics.zoo import pendulum


@tp.hamiltonian
def mixed(q, p):
    return p**2 * (1 + q**2) / 2


@tp.hamiltonian
def both_timed(q, p, t):
    return p**2 * (2 + tp.sin(t)) + q**2 * (2 + tp.cos(t))


@tp.forces
def spring(q: tp.Vec[2]):
    return -q


@tp.forces
def swirl(q: tp.Vec[2]):
    return tp.stack([-q[1], q[0]])


@tp.map
def henon(x, y, a=1.4, b=0.3):
    return 1 - a * x**2 + y, b * x


@tp.hamiltonian
def gas(q: tp.Array["n", 2], p: tp.Array["n", 2]):
    return (p**2).sum() / 2 + (q**2).sum() / 2


def refusal(kind, *args, **kwargs):
    with pytest.raises(kind) as caught:
        tp.compile(*args, **kwargs)
    assert caught.value.fix, f"no remedy in: {caught.value}"
    return str(caught.value)


# --- names and orders ---------------------------------------------------------------------------------
@pytest.mark.requirement("S2-42")
def test_the_names_of_the_interface_exist():
    for name in (
        "auto",
        "symplectic",
        "symplectic_euler",
        "leapfrog",
        "leapfrog_kdk",
        "leapfrog_dkd",
        "yoshida4",
        "euler",
        "midpoint",
        "rk4",
    ):
        assert name in names()
        sim = tp.compile(pendulum, dt=0.1, method=name)
        plan = sim.built.plan
        if name not in CHOICES:
            assert plan.method == ALIASES.get(name, name) and plan.because == "chosen by name"


def test_leapfrog_is_kick_drift_kick_and_the_default():
    for options in ({}, {"method": "auto"}, {"method": "leapfrog"}, {"order": 2}, {"method": "symplectic"}):
        assert tp.compile(pendulum, dt=0.1, **options).built.plan.method == "leapfrog_kdk"


@pytest.mark.parametrize("order", BY_ORDER)
def test_an_order_chooses_a_certified_method_of_that_order(order):
    sim = tp.compile(pendulum, dt=0.1, order=order)
    assert sim.built.plan.order == order == BY_NAME[sim.built.plan.method].order
    assert sim.certificate.symplectic and sim.built.plan.because.startswith(f"order {order} asked for")


@pytest.mark.parametrize("order", [0, 11, 40, -2])
def test_an_order_that_no_method_has_lists_those_that_exist(order):
    message = refusal(PlanError, pendulum, dt=0.1, order=order)
    assert "Orders: 1, 2, 4" in message


@pytest.mark.parametrize("order", [2.5, "4", [2], None.__class__])
def test_an_order_is_an_integer(order):
    assert "is not an integer" in refusal(InputError, pendulum, dt=0.1, order=order)


def test_a_name_and_another_order_contradict_each_other():
    assert "`yoshida4` has order 4, not 2" in refusal(PlanError, pendulum, dt=0.1, method="yoshida4", order=2)
    assert tp.compile(pendulum, dt=0.1, method="yoshida4", order=4).built.plan.method == "yoshida4"


@pytest.mark.requirement("S2-28")
def test_an_unknown_method_shows_the_three_nearest_and_where_all_are_listed():
    message = refusal(PlanError, pendulum, dt=0.1, method="leap_frog")
    assert "there is no method `leap_frog`" in message and "Did you mean `leapfrog`, `leapfrog_" in message
    assert "docs/methods.md" in message and sum(f"`{name}`" in message for name in names()) == 3


@pytest.mark.parametrize(
    "name, here", [("Verlet", "leapfrog"), ("velocity-verlet", "leapfrog"), ("RK45", "dopri5")]
)
def test_the_names_of_other_libraries_lead_to_ours(name, here):
    assert f"Here it is `{here}`." in refusal(PlanError, pendulum, dt=0.1, method=name)


@pytest.mark.requirement("S2-28")
def test_an_unknown_precision_or_backend_lists_the_valid_ones():
    message = refusal(PlanError, pendulum, dt=0.1, precision="float16")
    assert all(f"`{p}`" in message for p in PRECISIONS)
    message = refusal(BackendError, pendulum, dt=0.1, backend="fortran")
    assert all(f"`{b}`" in message for b in ("auto", *BUILT))
    assert "Did you mean `llvm`?" in refusal(BackendError, pendulum, dt=0.1, backend="lvm")


@pytest.mark.requirement("S2-28")
def test_a_physics_system_is_compiled_like_any_other():
    class Galaxy(tp.PhysicsSystem):
        softening = 0.1

        def energy(self, q: tp.Array[3, 2], p: tp.Array[3, 2]):
            pairs = [(i, j) for i in range(3) for j in range(i)]
            return (p**2).sum() / 2 - sum(
                1 / tp.sqrt(((q[i] - q[j]) ** 2).sum() + self.softening) for i, j in pairs
            )

    sim = Galaxy().compile(dt=0.1, backend="auto", precision="float64", method="symplectic")
    assert sim.certificate.symplectic and [p.name for p in sim.system.parameters] == ["softening"]


# --- forbid -------------------------------------------------------------------------------------------
def test_a_forbidden_default_gives_way_to_the_next_of_its_order():
    for forbid in (("leapfrog_kdk",), ["leapfrog"], "leapfrog"):
        plan = tp.compile(pendulum, dt=0.1, forbid=forbid).built.plan
        assert plan.method == "leapfrog_dkd"
        assert ("leapfrog_kdk", "forbidden") in [(a.method, a.because) for a in plan.not_chosen]


def test_forbidding_all_of_an_order_is_an_error_that_says_who_was_tried():
    message = refusal(PlanError, pendulum, dt=0.1, forbid=["leapfrog", "leapfrog_dkd"])
    assert "leapfrog_kdk: forbidden" in message and "leapfrog_dkd: forbidden" in message


def test_what_is_asked_for_cannot_be_forbidden():
    assert "both chosen and forbidden" in refusal(PlanError, pendulum, dt=0.1, method="rk4", forbid=["rk4"])


@pytest.mark.parametrize(
    "forbid, what",
    [
        (["leapfrg"], "Did you mean `leapfrog`, "),
        (["auto"], "the planner chooses one"),
        (["symplectic"], "the planner chooses one"),
        ([3], "not a list of names"),
    ],
)
def test_what_is_forbidden_must_be_a_method(forbid, what):
    assert what in refusal(TinyPhysicsError, pendulum, dt=0.1, forbid=forbid)


def test_alternatives_are_named_with_their_cost():
    turned = {a.method: a.because for a in tp.compile(pendulum, dt=0.1).built.plan.not_chosen}
    assert set(turned) == {"leapfrog_dkd", *BY_ORDER.values()} - {
        "leapfrog_kdk"
    }  # the best of every other order
    best = BY_NAME[BY_ORDER[4]]
    assert turned[best.name] == f"order 4, {best.stages} force evaluations a step; order 2 was the default"
    assert turned["symplectic_euler"].startswith("order 1, 1 force evaluation a step")


# --- what does not apply --------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["leapfrog", "symplectic_euler", "yoshida4"])
def test_a_splitting_of_an_energy_that_mixes_q_and_p_is_refused_with_the_term(method):
    message = refusal(PlanError, mixed, dt=0.1, method=method)
    assert "mixes q and p" in message and "test_plan.py:" in message and 'method="rk4"' in message


@pytest.mark.parametrize(
    "options, method",
    [
        ({}, "implicit_midpoint"),
        ({"method": "symplectic"}, "implicit_midpoint"),
        ({"order": 1}, "implicit_midpoint"),
        ({"order": 3}, "gauss4"),
        ({"order": 4}, "gauss4"),
        ({"order": 6}, "gauss6"),
        ({"forbid": ("leapfrog",)}, "implicit_midpoint"),
    ],
)
def test_an_energy_that_mixes_q_and_p_is_solved_for(options, method):
    sim = tp.compile(mixed, dt=0.1, **options)
    assert sim.built.plan.method == method and sim.certificate.symplectic and sim.certificate.symmetric


def test_beyond_order_6_nothing_is_left_for_an_energy_that_mixes_q_and_p():
    message = refusal(PlanError, mixed, dt=0.1, order=8)
    assert "no certified method" in message and "mixes q and p" in message and "order=6" in message


@pytest.mark.parametrize("method", ["euler", "midpoint", "rk4"])
def test_runge_kutta_applies_to_any_energy_and_certifies_nothing(method):
    assert tp.compile(mixed, dt=0.1, method=method).certificate.level == "none"


def test_time_in_both_parts_needs_a_composition_of_leapfrogs():
    assert tp.compile(both_timed, dt=0.1).certificate.symplectic
    assert "T and V both depend on t" in refusal(PlanError, both_timed, dt=0.1, method="chin4")


def test_symplectic_means_certified_symplectic():
    """For forces too: a curl-free one is shown to be, a swirl is only volume-preserving."""
    assert tp.compile(spring, dt=0.1, method="symplectic").certificate.symplectic
    assert tp.compile(swirl, dt=0.1).certificate.volume_preserving
    message = refusal(PlanError, swirl, dt=0.1, method="symplectic")
    assert "curl" in message and "@tp.hamiltonian" in message


def test_a_map_has_no_method_no_order_and_no_dt():
    assert tp.compile(henon).built.plan.method == "map"
    assert "explicit map" in refusal(PlanError, henon, method="leapfrog")
    assert "explicit map" in refusal(PlanError, henon, order=2)
    assert "is a map: it has no dt" in refusal(InputError, henon, dt=0.1)


# --- arguments --------------------------------------------------------------------------------------------
# fmt: off
WRONG = [
    (lambda: tp.compile(pendulum).evolve(q=1.0, p=0.0, steps=1),         "dt is missing"),
    (lambda: tp.compile(pendulum, dt=0),                                 "dt=0 is not a time step"),
    (lambda: tp.compile(pendulum, dt=float("nan")),                      "dt=nan is not a time step"),
    (lambda: tp.compile(pendulum, dt="fast"),                            "dt='fast' is not a time step"),
    (lambda: tp.compile(lambda q, p: (p, -q), dt=0.1),                   "without a decorator is read as an energy"),
    (lambda: tp.compile(3, dt=0.1),                                      "a number is not a system"),
    (lambda: tp.compile(pendulum, dt=0.1, method=4),                     "method=4 is not a name"),
    (lambda: tp.compile(pendulum, dt=0.1, checks="maybe"),               "checks='maybe'"),
    (lambda: tp.compile(pendulum, dt=0.1, propagator="magic"),           "there is no propagator 'magic'"),
    (lambda: tp.compile(pendulum, dt=0.1, math="sloppy"),                "there is no math 'sloppy'"),
    (lambda: tp.compile(pendulum, dt=0.1, kinetics="odd"),               "there is no kinetics 'odd'"),
    (lambda: tp.compile(gas, dt=0.1, sizes={"m": 3}),                    "has no size `m`"),
    (lambda: tp.compile(gas, dt=0.1, sizes={"n": 0}),                    "sizes={'n': 0}"),
    (lambda: tp.compile(gas, dt=0.1, sizes={"n": 2.5}),                  "sizes={'n': 2.5}"),
    (lambda: tp.compile(gas, dt=0.1, sizes={}),                          "the size `n` is not known yet"),
    (lambda: tp.compile(pendulum, dt=0.1, sizes={"n": 3}),               "has no size `n`"),
    (lambda: tp.compile(gas, dt=0.1).explain("full"),                          "its size n is unknown"),
    (lambda: tp.compile(gas, dt=0.1).ir("tpir"),                         "its size n is unknown"),
    (lambda: tp.compile(gas, dt=0.1).ir("llvm"),                         "its size n is unknown"),
    (lambda: tp.compile(pendulum, dt=0.1).ir("hex"),                     "there is no level `hex`"),
    (lambda: tp.compile(pendulum, dt=0.1).ir("wgsl"),                    "WebGPU has no numbers of 64 bits"),
]
# fmt: on


@pytest.mark.parametrize("call, what", WRONG, ids=[w for _, w in WRONG])
def test_a_wrong_compile_says_what_to_write(call, what):
    with pytest.raises(TinyPhysicsError) as caught:
        call()
    assert what in str(caught.value) and caught.value.fix


def test_before_its_size_is_known_a_system_shows_the_graph_of_a_sample():
    sim = tp.compile(gas, dt=0.1)
    text = sim.ir("uop")
    assert text.startswith("; gas(q[n, 2], p[n, 2]) for every n; this is the graph for n = 4\n")
    assert parse(text)[0] is gas.bind({"n": 4}).energy
    for level in ("tpir", "kernel", "c"):
        with pytest.raises(tp.ShapeError, match="its size n is unknown"):
            sim.ir(level)
    sim.evolve(q=np.ones((3, 2)), p=np.ones((3, 2)), steps=1)
    assert "f64[3, 2]" in sim.ir("uop")


def test_a_system_that_does_not_like_the_sample_says_why():
    @tp.hamiltonian
    def far(q: tp.Vec["n"], p: tp.Vec["n"]):
        return (p**2).sum() / 2 + q[7] ** 2

    text = tp.compile(far, dt=0.1).ir("uop")
    assert "it cannot be traced with that: index 7 is out of range" in text and "sizes=" in text


def test_what_a_system_has_only_with_a_size_is_named():
    with pytest.raises(
        AttributeError, match=r"no `energy` before its size n is known: write gas.bind\({'n': 16}\).energy"
    ):
        gas.energy  # noqa: B018
    assert not hasattr(gas, "nothing")


# --- levels of input (S2-49) --------------------------------------------------------------------------------
@pytest.mark.requirement("S2-49")
@pytest.mark.parametrize("system, level, by", [(spring, 0, "forces"), (pendulum, 1, "energy")])
def test_the_level_of_the_input_is_reported(system, level, by):
    report = tp.compile(system, dt=0.1).explain("full")
    assert system.level == level
    assert f"level {level}: given by its {by}" in str(report)
    assert report.to_dict()["cost"]["state"]["because"] == f"level {level}: given by its {by}"


def test_system_compile_is_tp_compile():
    assert (
        pendulum.compile(dt=0.1, method="yoshida4").tpir
        == tp.compile(pendulum, dt=0.1, method="yoshida4").tpir
    )


# --- reports ----------------------------------------------------------------------------------------------
def test_a_report_as_data_loses_nothing():
    """Three methods were not chosen; as data they are still three."""
    report = tp.compile(pendulum, dt=0.1).explain("full")
    data = report.to_dict()
    for section in report.sections:
        told = data[section.title]
        count = sum(len(v) if isinstance(v, list) else 1 for v in told.values())
        assert count == len(section.rows), section.title
    assert [a["verdict"] for a in data["plan"]["not chosen"]] == [
        r.verdict for s in report.sections for r in s.rows if r.name == "not chosen"
    ]
    assert data["certificate"]["symplectic"]["verdict"] == "yes" and data["title"].startswith(
        "pendulum: H = "
    )


def test_a_report_escapes_what_it_shows_as_html():
    html = tp.compile(pendulum, dt=0.1).explain("full")._repr_html_()
    assert "<table>" in html and "<Simulation" not in html and "pendulum: H = " in html


def test_the_machine_is_outside_the_portable_part():
    report = tp.compile(pendulum, dt=0.1).explain("full")
    assert "machine" in str(report) and "machine" not in str(report.portable())
    assert str(report.portable()) in str(report)


def test_the_source_of_a_method_can_be_cited():
    assert "Verlet 1967" in tp.compile(pendulum, dt=0.1).cite()[0]
    assert "Yoshida 1990" in tp.compile(pendulum, dt=0.1, method="yoshida4").cite()[0]
    assert tp.compile(pendulum, dt=0.1, method="euler").cite() == ()
