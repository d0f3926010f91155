"""Is the table of methods true?  Stability measured by runs, sources that exist, needs and routes row by row."""

import ast
import math
import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.analysis.analyse import facts_of
from tinyphysics.errors import PlanError
from tinyphysics.physics.chains import fput
from tinyphysics.physics.particles import gravity
from tinyphysics.physics.zoo import (
    double_well,
    driven_pendulum,
    henon,
    henon_heiles,
    kepler,
    oscillator,
    pendulum,
)
from tinyphysics.planner.methods.bibliography import BIBLIOGRAPHY, BY_LINE, WORKS, work
from tinyphysics.planner.methods.catalog import BY_NAME, BY_ORDER, METHODS
from tinyphysics.planner.methods.method import ORBITS, ROUNDS, TABLEAU, Method
from tinyphysics.planner.methods.needs import NEEDS, objection
from tinyphysics.planner.choice.routes import FORMS, ROUTES, form_of, route_of
from tinyphysics.planner.methods.stability import half_trace, of_splitting
from tinyphysics.tpir.program.isa import CLAIMS

EXPLICIT = [m for m in METHODS if m.limit is not None and "a bath" not in m.needs]


# --- stability --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name, limit",
    [
        ("leapfrog_kdk", 2.0),
        ("leapfrog_dkd", 2.0),
        ("yoshida4", 1.573),
        ("rk4", 2 * math.sqrt(2)),
        ("euler", 0.0),
        ("midpoint", 0.0),
    ],
)
def test_known_limits_are_found_from_the_step(name, limit):
    assert BY_NAME[name].limit == pytest.approx(limit, abs=5e-4)


def farthest(name, dt, steps):
    out = tp.compile(oscillator, dt=dt, method=name, propagator="loop").evolve(
        q=1.0, p=0.0, steps=steps, save_every=steps // 400
    )
    return math.inf if out.stopped else float(np.abs(out.q).max())


def growing(m):
    """(a step just above the limit, after how many of them an oscillation is a million times as large)."""
    if m.limit == 0:
        return 0.5, 4000
    if m.family.kind == TABLEAU:
        return 1.01 * m.limit, 4000
    sequence = m.sequence()
    x = max((m.limit * (1 + k * 1e-5) for k in range(1, 1001)), key=lambda x: abs(half_trace(sequence, x)))
    return x, 400 + int(math.log(1e6) / math.acosh(abs(half_trace(sequence, x))))


@pytest.mark.parametrize("m", EXPLICIT, ids=lambda m: m.name)
def test_just_below_its_limit_a_method_stays_bounded_and_just_above_it_grows(m):
    """Above, at the worst step within a hundredth: a window of instability may be narrow."""
    dt, steps = growing(m)
    assert steps < 1_000_000
    if m.limit > 0:
        assert farthest(m.name, 0.999 * m.limit, 4000) < 100
    assert farthest(m.name, dt, steps) > 1e4


def test_a_narrow_window_of_instability_counts():
    """Of a composition whose trace passes -2 for a short while near pi only, the step must stay below that."""
    sequence = BY_NAME["kahan_li8"].sequence()
    limit = of_splitting(sequence)
    assert abs(half_trace(sequence, limit)) <= 1 < abs(half_trace(sequence, 1.001 * limit))
    assert all(abs(half_trace(sequence, limit * k / 997)) <= 1 + 1e-12 for k in range(1, 997))


def test_a_kick_by_the_gradient_of_the_force_counts():
    """Chin's 4A: with its W the trace is that of the exact flow up to order 6, without it up to 4."""
    chin = [("V", 1 / 6), ("T", 1 / 2), ("V", 2 / 3), ("W", 1 / 72), ("T", 1 / 2), ("V", 1 / 6)]
    with_it, without = (
        [abs(half_trace([part for part in chin if part[0] in parts], x) - math.cos(x)) for x in (0.2, 0.4)]
        for parts in ("TVW", "TV")
    )
    assert math.log2(with_it[1] / with_it[0]) > 5.8 and math.log2(without[1] / without[0]) < 4.2


# --- sources ----------------------------------------------------------------------------------------------
def test_every_source_is_in_the_bibliography_and_every_key_is_of_one_work():
    assert all(work(m.source).short == m.reference for m in METHODS if m.source)
    assert len(BIBLIOGRAPHY) == len(BY_LINE) == len(WORKS) and not set(BIBLIOGRAPHY) & set(BY_LINE)
    assert all(work(w.key) is work(w.short) is w for w in WORKS)


@pytest.mark.parametrize("w", WORKS, ids=lambda w: w.key)
def test_an_entry_is_bibtex(w):
    text = w.bibtex
    assert re.match(rf"% .+\n@(article|techreport){{{w.key},\n(  \w+ = {{.+}},?\n)+}}$", text)
    entry = text.partition("\n")[2]
    assert entry.count("{") == entry.count("}") and entry.isascii() and str(w.year) in w.short


def test_what_is_cited_is_what_was_chosen():
    sim = tp.compile(pendulum, dt=0.1, method="yoshida4")
    (entry,) = sim.cite()
    assert entry == BIBLIOGRAPHY["yoshida1990"].bibtex and str(sim.cite()) == entry
    assert (
        tp.compile(pendulum, dt=0.1, method="euler").cite() == ()
        and str(tp.compile(pendulum, dt=0.1, method="euler").cite()) == ""
    )


def test_a_tree_is_cited_too():
    sim = tp.compile(gravity, dt=0.01, sizes={"n": 64}, approximate=1e-2)
    assert [c.partition("\n")[0] for c in sim.cite()] == [
        f"% {BIBLIOGRAPHY[k].short}" for k in ("verlet1967", "barnes1986")
    ]


# --- needs and keeps --------------------------------------------------------------------------------------
@tp.hamiltonian
def mixed(q, p):
    return p**2 * (1 + q**2) / 2


@tp.hamiltonian
def both_timed(q, p, t):
    return p**2 * (2 + tp.sin(t)) + q**2 * (2 + tp.cos(t))


@pytest.mark.parametrize("need, system", [("separable", mixed), ("one clock", both_timed)])
def test_a_method_is_refused_for_what_it_needs(need, system):
    facts, method = facts_of(system), BY_NAME["blanes_moan4"]
    assert (
        NEEDS[need].lacking(method, system, facts)
        and NEEDS[need].lacking(method, pendulum, facts_of(pendulum)) is None
    )
    needing = [
        m
        for m in METHODS
        if need in m.requires and (need != "one clock" or m.family.kicks and "leapfrogs" not in m.summary)
    ]  # leapfrogs have three parts
    assert needing and all(objection(m, system, facts) for m in needing)
    assert objection(replace(BY_NAME["rk4"], needs=(need,)), system, facts)


def test_a_method_has_no_more_than_eight_fields_and_a_family_that_is_in_its_file():
    assert len(fields(Method)) <= 8
    for m in METHODS:
        assert type(m.family).__module__.startswith("tinyphysics.planner.methods.families.")


def test_no_method_is_named_where_steps_are_compiled_or_explained():
    source = Path(tp.__file__).parent
    for file in ("pipeline.py", "planner/explain.py", "planner/summary.py"):
        tree = ast.parse((source / file).read_text(encoding="utf-8"))
        words = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        assert not words & {*BY_NAME}, file
        longest = max(n.end_lineno - n.lineno + 1 for n in tree.body if isinstance(n, ast.FunctionDef))
        assert file != "pipeline.py" or longest <= 60


def test_every_need_and_every_claim_of_the_table_is_known():
    assert all(need in NEEDS for m in METHODS for need in m.requires)
    assert all(claim in CLAIMS for m in METHODS for claim in m.keeps)


ALONE = [
    m
    for m in METHODS
    if m.family.kind != ORBITS
    and not {
        "levels",
        "shears",
        "linear",
        "a Lagrangian",
        "bodies",
        "turning",
        "a magnetic field",
        "a contact energy",
        "a bracket J(z)",
        "constraints",
        "a bath",
        "a brownian bath",
        "contacts",
        "a part that is linear in Fourier space",
        "waves and phases",
        "absorbing layers",
    }
    & {*m.needs}
]


@pytest.mark.parametrize("m", ALONE, ids=lambda m: m.name)
def test_what_a_method_keeps_is_shown_for_it(m):
    certificate = tp.compile(henon_heiles, dt=0.1, method=m.name).certificate
    assert all(certificate[claim] for claim in m.keeps)
    assert m.keeps or not certificate.symplectic


def test_the_cost_in_the_table_is_that_of_the_step():
    for m in ALONE:
        rounds = ROUNDS if m.solves or m.family.conserves else 1
        assert tp.compile(henon_heiles, dt=0.1, method=m.name).built.step.evaluations == m.stages // rounds


# --- routes (S2-15, S2-29) ----------------------------------------------------------------------------------
@tp.forces
def spring(q: tp.Vec[2]):
    return -q


@tp.forces
def swirl(q: tp.Vec[2]):
    return tp.stack([-q[1], q[0]])


@tp.hamiltonian
def relativistic(q, p):
    return tp.sqrt(1 + p**2) + q**2 / 2


@tp.hamiltonian
def stiff_trap(q, p, w: float = 1e3):
    return p**2 / 2 + w**2 * q**2 / 2 + q**4 / 4


chain, cluster = fput.bind({"n": 300}), gravity.bind({"n": 64})


@tp.hamiltonian
def liquid(q: tp.Array[343, 3], p: tp.Array[343, 3], L=8.0):
    s = 1 / tp.pair_distance2(q, box=L, cutoff=2.5) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s * s - s))


@tp.hamiltonian
def turned(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + (q @ q) ** 2 - q[0] * p[1] + q[1] * p[0]


@tp.ode
def lotka_volterra(x, y):
    return x * (1 - y), y * (x - 1)


@tp.hamiltonian
def six(q: tp.Array[6, 2], p: tp.Array[6, 2]):
    d = q[:, None] - q[None, :]
    return (p * p).sum() / 2 - tp.pair_sum(1 / tp.sqrt((d * d).sum(2) + 0.01))


@tp.hamiltonian
def condensate(psi: tp.Complex[8]):
    return (abs(tp.dx(psi)) ** 2 + abs(psi) ** 4 / 2).sum()


ROUTED = {  # label: (system, what is asked)
    "henon": (henon, {}),
    "spring": (spring, {}),
    "swirl": (swirl, {}),
    "driven_pendulum": (driven_pendulum, {}),
    "kepler": (kepler, {}),
    "relativistic": (relativistic, {}),
    "pendulum": (pendulum, {}),
    "double_well": (double_well, {}),
    "henon_heiles, order 4": (henon_heiles, {"order": 4}),
    "henon_heiles, order 6": (henon_heiles, {"order": 6}),
    "oscillator": (oscillator, {}),
    "chain": (chain, {}),
    "cluster": (cluster, {}),
    "cluster, approximate": (cluster, {"approximate": 1e-2}),
    "liquid": (liquid, {}),
    "pendulum, leapfrog forbidden": (pendulum, {"forbid": "leapfrog"}),
    "pendulum, pinned": (pendulum, {"method": "rk4"}),
    "mixed, pinned": (mixed, {"method": "rk4"}),
    "mixed": (mixed, {}),
    "stiff_trap": (stiff_trap, {}),
    "both_timed": (both_timed, {}),
    "turned": (turned, {}),
    "turned, order 4": (turned, {"order": 4}),
    "condensate": (condensate, {}),
    "condensate, order 4": (condensate, {"order": 4}),
    "lotka_volterra": (lotka_volterra, {}),
    "six, taylor": (six, {"method": "taylor"}),
}


def routed(system, options):
    try:
        b = tp.compile(system, None if system.kind == "map" else 0.01, propagator="loop", **options).built
    except PlanError as error:
        return route_of(system, facts_of(system)).name, "refused", "", "", str(error).splitlines()[0]
    level = next((name for name, verdict in b.certificate.items() if verdict), "nothing shown")
    return route_of(system, b.facts).name, form_of(b.program).name, b.plan.method, level, b.plan.because


@pytest.mark.requirement("S2-29", "S2-15")
def test_systems_are_routed_as_they_were(golden):
    rows = [(label, *routed(*asked)) for label, asked in ROUTED.items()]
    assert len(rows) >= 12
    widths = [max(len(r[k]) for r in rows) for k in range(5)]
    golden(
        "routing.txt",
        "".join(
            ("  ".join(c.ljust(w) for c, w in zip(r, widths)) + f"  {r[5]}").rstrip() + "\n" for r in rows
        ),
    )


@pytest.mark.requirement("S2-15")
def test_every_row_of_the_tables_is_taken_by_some_system():
    taken = [routed(*asked) for asked in ROUTED.values()]
    assert {r[0] for r in taken} == {r.name for r in ROUTES}
    assert {r[1] for r in taken} - {"refused"} == {f.name for f in FORMS}


@pytest.mark.requirement("S2-15")
def test_the_reason_for_the_default_is_that_of_the_route():
    for system in (henon, spring, driven_pendulum, kepler):
        b = tp.compile(system, None if system.kind == "map" else 0.01).built
        assert b.plan.because == route_of(system, b.facts).default
        assert b.plan.because in str(b.report)


@pytest.mark.parametrize("order", BY_ORDER)
def test_the_route_of_an_order_can_be_forbidden(order):
    name = BY_ORDER[order]
    rest = [m.name for m in METHODS if m.splits and m.order == order and m.name != name]
    if rest:
        assert tp.compile(pendulum, dt=0.1, order=order, forbid=name).built.plan.method in rest
    else:
        with pytest.raises(PlanError, match=f"{name}: forbidden"):
            tp.compile(pendulum, dt=0.1, order=order, forbid=name)
