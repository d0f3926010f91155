"""Quadratic parts that are solved, and a rest that kicks: what is found, proved, computed, said and refused."""

from __future__ import annotations

import logging
import math
import random
import re

import mpmath
import numpy as np
import pytest

import tinyphysics as tp
from here import HERE
from tinyphysics import tpir
from tinyphysics.analysis.analyse import facts_of
from tinyphysics.analysis.interaction import interaction
from tinyphysics.ir import Ops, UOp
from tinyphysics.ir.value import evaluate
from tinyphysics.plan import Goal
from tinyphysics.planner.methods.catalog import BY_NAME, BY_ORDER, METHODS
from tinyphysics.planner.choice.oscillator_resonance import grows, half_trace, resonance
from tinyphysics.planner.choice.stiff import stiffest
from tinyphysics.rules.functions.transcendental import lower

TURNING = [m.name for m in METHODS if m.family.kind == "interaction"]
ARCS = (Ops.HARMONIC_SIGN, Ops.HARMONIC_DRIFT, Ops.HARMONIC_KICK, Ops.HARMONIC_LAG)


@tp.hamiltonian
def trap(q, p, w: float = 1e4):
    return p**2 / 2 + w**2 * q**2 / 2 + q**4 / 4


@tp.hamiltonian
def swing(q, p, w: float = 3.0, e: float = 1.0):
    return p**2 / 2 + w**2 * q**2 / 2 + e * (1 - tp.cos(q))


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    x, y = q
    return p @ p / 2 + (x * x + y * y) / 2 + x * x * y - y**3 / 3


@tp.hamiltonian
def chain(q: tp.Vec["n"], p: tp.Vec["n"], k: tp.Vec["n"], m: float = 2.0):  # noqa: F821
    d = q[1:] - q[:-1]
    return (p * p).sum() / (2 * m) + (k * q * q / 2 + 0.1 * q).sum() + (d * d / 2).sum() + (d**4 / 4).sum()


@tp.hamiltonian
def driven(q, p, t, w: float = 30.0):
    return p**2 / 2 + w**2 * q**2 / 2 - q * tp.sin(3 * t) + 0.1 * tp.cos(q)


@tp.hamiltonian
def pulled(q, p, b: float = 1.0, f: float = 0.5, g: float = 0.25, a: float = 2.0):
    return a * p**2 / 2 + g * p + b * q**2 / 2 + f * q + 1e-300 * q**4


def duffing(w, t):
    """(q, p) of the trap after a time t from q = 1 at rest, in 40 digits."""
    with mpmath.workdps(40):
        fast = mpmath.sqrt(mpmath.mpf(w) ** 2 + 1)
        cn, sn, dn = (
            mpmath.ellipfun(name, fast * mpmath.mpf(t), m=1 / (2 * fast**2)) for name in ("cn", "sn", "dn")
        )
        return cn, -fast * sn * dn


def off(out, w, t=1.0):
    q, p = duffing(w, t)
    return float(max(abs(out.final.q - q), abs(out.final.p - p) / w))


def run(system, dt, method, steps, backend="auto", **given):
    return tp.compile(system, dt=dt, method=method, backend=backend).evolve(
        **given, steps=steps, progress=False
    )


# --- the flow of an oscillator ----------------------------------------------------------------------
def exact_arcs(a, b, h):
    """(sign, drift, kick, lag) of ir/harmonic.py, with all digits."""
    a, b, h = map(mpmath.mpf, (a, b, h))
    x = mpmath.sqrt(a * b) * h
    ratio = mpmath.re(mpmath.sin(x) / x) if x else mpmath.mpf(1)
    cos = mpmath.re(mpmath.cos(x))
    sign = -1 if cos < 0 else 1
    return sign, sign * h * ratio / (1 + abs(cos)), sign * h * ratio, (1 - ratio) / b if b else a * h * h / 6


def test_the_times_of_an_oscillator_are_right_to_a_few_ulp_for_every_sign_and_millions_of_turns():
    a, b, h = (UOp.var(name) for name in "abh")
    roots = lower([UOp(op, a.dtype, (), (a, b, h)) for op in ARCS])
    draw = random.Random(1)
    with mpmath.workprec(240):
        for _ in range(400):
            given = {
                "a": 10 ** draw.uniform(-3, 3),
                "b": draw.choice((1, 1, -1)) * 10 ** draw.uniform(-6, 10),
                "h": draw.choice((1, -1)) * 10 ** draw.uniform(-4, 1),
            }
            given["b"] *= draw.random() > 0.05
            x = math.sqrt(abs(given["a"] * given["b"])) * abs(given["h"])
            if given["b"] < 0 and x > 30:
                continue
            wanted = exact_arcs(**given)
            for k, (got, want) in enumerate(zip(evaluate(roots, given), wanted)):
                size = max(
                    abs(want), 1e-2 * abs(wanted[2]), 1e-3 * abs(given["h"]) / max(x, 1.0) if k != 3 else 0
                )
                assert abs(got - want) <= (12 + (3 * x if given["b"] < 0 else 0)) * 2.0**-53 * size, (
                    k,
                    given,
                )


@pytest.mark.parametrize("op", ARCS)
def test_the_definition_and_the_expansion_of_an_arc_agree(op):
    u = UOp(op, UOp.var("a").dtype, (), tuple(UOp.var(name) for name in "abh"))
    for a, b, h in ((1.0, 4.0, 0.7), (2.0, -3.0, 0.4), (0.5, 0.0, 2.0), (1.0, 9.0, 2.0), (0.0, 1.0, -1.5)):
        plain, small = evaluate([u, *lower([u])], {"a": a, "b": b, "h": h})
        assert plain == pytest.approx(small, rel=1e-13, abs=1e-14)
    assert all(math.isnan(x) for x in evaluate([u], {"a": math.nan, "b": 1.0, "h": 1.0}))


@pytest.mark.parametrize("b", [4.0, 0.0, -0.5])
def test_constant_forces_and_velocities_are_part_of_the_flow(b):
    """One step of any length is the affine flow: rest and all."""
    for dt in (0.3, 2.9, 17.0):
        if b < 0 and dt > 10:
            continue
        a, f, g, q0, p0 = 2.0, 0.5, 0.25, 0.7, -0.2
        out = run(pulled, dt, "interaction", 3, q=q0, p=p0, b=b).final
        with mpmath.workdps(30):
            generator = mpmath.matrix([[0, a, g], [-b, 0, -f], [0, 0, 0]])
            q, p, _ = mpmath.expm(generator * 3 * mpmath.mpf(dt), method="taylor") * mpmath.matrix(
                [q0, p0, 1]
            )
        assert abs(out.q - q) <= 1e-13 * (1 + abs(q)) and abs(out.p - p) <= 1e-13 * (1 + abs(p))


# --- what is found ----------------------------------------------------------------------------------
@tp.hamiltonian
def double_well(q, p):
    return p**2 / 2 + (q**2 - 1) ** 2


@tp.hamiltonian
def mixed(q, p):
    return p**2 / 2 + q**2 * p + q**4


@tp.hamiltonian
def rotor(q, p):
    return tp.cos(p) + q**2 / 2 + q**4


@tp.hamiltonian
def many_springs(q: tp.Vec[20], p: tp.Vec[20]):
    d = q[1:] - q[:-1]
    return p @ p / 2 + (d**2 / 2 + d**4).sum()


@tp.hamiltonian
def all_quadratic(q, p):
    return p**2 / 2 + q**2 / 2 + q


@tp.hamiltonian
def coupled_momenta(q: tp.Vec[9], p: tp.Vec[9]):
    return p.sum() ** 2 / 2 + q @ q / 2 + q[0] ** 4


@tp.forces
def forced(q):
    return -q


@pytest.mark.parametrize(
    "system, why",
    [
        (double_well, "no addend of V is quadratic"),
        (mixed, "mixes q and p"),
        (rotor, "not a polynomial of the momenta"),
        (many_springs, "couples positions"),
        (all_quadratic, 'propagator="exact"'),
        (coupled_momenta, "couples momenta"),
        (forced, "given by its forces"),
    ],
)
def test_what_is_not_an_oscillator_and_a_rest_is_refused_with_the_reason(system, why):
    assert why in interaction(system, facts_of(system)).because
    with pytest.raises(tp.PlanError, match="interaction") as error:
        tp.compile(system, dt=0.1, method="interaction")
    assert why in str(error.value)


def test_the_parts_are_found_in_sums_and_behind_factors():
    found = interaction(chain.bind({"n": 20}), facts_of(chain.bind({"n": 20})))
    (o,) = found.oscillators
    assert found and str(o.b) == "k" and o.f is not None and o.g is None
    assert "**4" in str(found.rest) and "0.1" not in str(found.rest)

    @tp.hamiltonian
    def scaled(q, p, k: float = 2.0, m: float = 3.0):
        return (p**2 / m + k * (q**2 + 0.5 * q**3)) / 2

    (o,) = interaction(scaled, facts_of(scaled)).oscillators
    assert evaluate([o.a, o.b], {"k": 2.0, "m": 3.0}) == [1 / 3, 2.0]


# --- what is proved ---------------------------------------------------------------------------------
@pytest.mark.parametrize("method", TURNING)
@pytest.mark.parametrize("system", [trap, henon_heiles, driven, chain.bind({"n": 40})], ids=lambda s: s.name)
def test_every_step_is_certified(system, method):
    c = tp.compile(system, dt=0.01, method=method).certificate
    assert c.symplectic and c.volume_preserving and c.symmetric and c.consistent
    assert bool(c.reversible) == (system is not driven)


LISTING = tp.compile(trap, dt=0.01, method="interaction").ir("tpir")


@pytest.mark.parametrize(
    "old, new, why",
    [
        ("arc_kick, 1.0, T6, $dt", "arc_kick, 1.0, T6, T7", "not shown to be the flow"),  # two times
        ("ELEM T6, mul, $w, $w", "ELEM T6, mul, $w, 2.0", "not shown to be the flow"),  # another curvature
        ("ROTATE S0", "MAP S0", "no part of a step"),
        ("SYMP_STEP S1, F1, $dt", "SYMP_STEP S1, F1, T7", "total weight 0.5"),
        ("GRAD_INIT G0, T19", "GRAD_INIT G0, S0", "not a multiple of the complete gradient"),
    ],
)
def test_a_program_that_does_something_else_is_refused(old, new, why):
    assert old in LISTING
    with pytest.raises(tp.VerifyError) as error:
        tpir.verify(tpir.parse(LISTING.replace(old, new)))
    assert why in str(error.value)


def test_kicks_by_other_means_are_other_parts():
    """A kick with means over dt does not undo one with means over half of it."""
    text = tp.compile(trap, dt=0.01, method="interaction_mollified").ir("tpir")
    assert tpir.verify(tpir.parse(text)).consistent
    lag, curvature = re.search(r"ELEM (T\d+), arc_lag, 1.0, (T\d+), \$dt", text).groups()
    less = re.search(rf"ELEM (T\d+), neg, {lag}\n", text)[1]
    kick = text[text.index("step:\n") + 6 : text.index("SYMP_STEP")]
    other = (
        f"  ELEM T901, mul, 0.5, $dt\n  ELEM T900, arc_lag, 1.0, {curvature}, T901\n  ELEM T902, neg, T900\n"
    )
    for names, same in (({}, True), ({lag: "T900", less: "T902"}, False)):
        first = re.sub(r"T\d+", lambda m, names=names: names.get(m[0], m[0]), kick)
        wrong = text.replace("step:\n", f"{other}{first}  SYMP_STEP S1, F1, $dt\nstep:\n", 1)
        wrong = wrong.replace(
            "final:\n", f"final:\n  ELEM T903, neg, $dt\n{kick}  SYMP_STEP S1, F1, T903\n", 1
        )
        found = tpir.verify(tpir.parse(wrong.replace("claim symplectic consistent symmetric\n", "")))
        assert found.symplectic and bool(found.consistent) == same


def test_half_of_a_turn_is_refused():
    lines = LISTING.splitlines()
    at = max(k for k, line in enumerate(lines) if "ROTATE S1" in line and k < lines.index("final:"))
    with pytest.raises(tp.VerifyError, match="part of a turn"):
        tpir.verify(tpir.parse("\n".join(lines[:at] + lines[at + 1 :])))
    assert tpir.verify(tpir.parse(LISTING)).symplectic


@pytest.mark.parametrize(
    "method", ["interaction", "interaction6", "interaction_mollified", "interaction_mollified4"]
)
def test_the_measured_step_is_symplectic(method):
    pytest.importorskip("mpmath")
    assert tp.measure_symplectic(tp.compile(trap, dt=0.3, method=method), q=1.0, p=0.3, w=30.0).symplectic
    assert tp.measure_symplectic(
        tp.compile(henon_heiles, dt=0.3, method=method), q=[0.1, 0.2], p=[0.3, 0.0]
    ).symplectic


# --- what is computed -------------------------------------------------------------------------------
rng = np.random.default_rng(0)
STARTS = {
    "trap": (trap, {"q": 1.0, "p": 0.0}),
    "henon_heiles": (henon_heiles, {"q": [0.1, 0.2], "p": [0.3, 0.0]}),
    "driven": (driven, {"q": 0.1, "p": 0.2}),
    "chain of 12": (
        chain,
        {"q": rng.normal(size=12), "p": rng.normal(size=12), "k": np.r_[rng.uniform(0, 100, 10), 0.0, -1.0]},
    ),
    "chain of 40": (
        chain,
        {"q": rng.normal(size=40), "p": rng.normal(size=40), "k": rng.uniform(0, 100, 40)},
    ),
    "ensemble": (
        trap,
        {"q": rng.normal(size=5), "p": rng.normal(size=5), "w": np.array([0.0, 1.0, 1e3, 1e6, 1e12])},
    ),
}


@pytest.mark.thin(rows=4)
@pytest.mark.parametrize(
    "name, method",
    [
        *((name, "interaction") for name in STARTS),
        *((name, "interaction_mollified") for name in ("trap", "driven", "chain of 40", "ensemble")),
        ("henon_heiles", "interaction4"),
        ("henon_heiles", "interaction_mollified4"),
    ],
)
def test_all_backends_give_the_same_bits(name, method):
    system, start = STARTS[name]
    found = {b: run(system, 0.05, method, 7, b, **start).hash for b in HERE}
    assert len(set(map(str, found.values()))) == 1, found


def test_a_member_has_the_bits_that_it_has_alone():
    system, start = STARTS["ensemble"]
    together = run(system, 0.05, "interaction4", 20, **start).final
    for k in range(5):
        alone = run(system, 0.05, "interaction4", 20, **{name: v[k] for name, v in start.items()}).final
        assert together.q[k] == alone.q and together.p[k] == alone.p


def test_frames_are_what_shorter_runs_end_with(tmp_path):
    sim = tp.compile(henon_heiles, dt=0.1, method="interaction4")
    start = {"q": [0.1, 0.2], "p": [0.3, 0.0]}
    out = sim.evolve(**start, steps=9, save_every=3, observe={"x": lambda q: q[0]}, progress=False)
    for k in range(4):
        assert (out.q[k] == sim.evolve(**start, steps=3 * k, progress=False).final.q).all()
    sim.evolve(**start, steps=4, checkpoint=tmp_path / "c", progress=False)
    again = sim.evolve(resume=tmp_path / "c", steps=5, progress=False)
    assert (again.final.q == out.final.q).all() and (again.final.p == out.final.p).all()
    assert out["x"][-1] == out.q[-1][0]


@pytest.mark.requirement("S2-10")
def test_a_stiff_trap_needs_a_hundred_times_fewer_kicks_than_leapfrog():
    """Leapfrog's phase error is w T (w dt)**2/24: 1e-6 at w = 1e4 takes two hundred million steps."""
    steps = 50
    assert off(run(trap, 1 / steps, "interaction", steps, q=1.0, p=0.0), 1e4) < 1e-6
    leapfrog = 1 / (math.sqrt(24e-6 / 1e4) / 1e4)
    assert leapfrog > 100 * steps
    n = 1 << 20  # so far it has not even begun to converge
    assert off(run(trap, 1 / n, "leapfrog", n, q=1.0, p=0.0), 1e4) > 1e-3


@pytest.mark.requirement("S2-10")
def test_the_error_does_not_grow_with_the_frequency():
    """A weak force at dt*w >> 1: what is wrong is of the size of the rest over w, and never more for a stiffer trap."""
    errors = [
        off(run(trap, 0.0101, "interaction", 99, q=1.0, p=0.0, w=w), w, 99 * 0.0101) for w in (1e4, 1e5, 1e6)
    ]
    assert errors[0] < 1e-6 and errors[1] < errors[0] and errors[2] < errors[1]


@pytest.mark.parametrize(
    "method, few, order",
    [
        ("interaction", 400, 2),
        ("interaction4", 160, 4),
        ("interaction6", 40, 6),
        ("interaction8", 20, 8),
        ("interaction_aba84", 80, 4),
        ("interaction_mollified", 400, 2),
        ("interaction_mollified4", 200, 4),
    ],
)
def test_orders_are_slopes_on_henon_heiles(method, few, order):
    start = {"q": [0.1, 0.2], "p": [0.3, 0.0]}
    true = run(henon_heiles, 20 / 4000, "nystrom8", 4000, **start).final
    errors = []
    for n in (few, 2 * few):
        out = run(henon_heiles, 20 / n, method, n, **start).final
        errors.append(max(np.abs(out.q - true.q).max(), np.abs(out.p - true.p).max()))
    assert order - 0.3 < math.log2(errors[0] / errors[1]) < order + 0.6


def test_time_is_seen_where_the_turns_have_come_to():
    """Order 4 with explicit time: with t frozen in a step it would be 1."""
    errors = [run(driven, 2 / n, "interaction4", n, q=0.1, p=0.2, w=3.0).final.q for n in (40, 80, 4000)]
    assert 3.7 < math.log2(abs(errors[0] - errors[2]) / abs(errors[1] - errors[2])) < 4.6


def test_rounding_has_no_direction():
    """Coefficients that are rounded once would change the amplitude of an oscillation by the same factor at every step."""
    out = run(pulled, 1.234, "interaction", 1_000_000, q=1.0, p=0.3, b=9.0, f=0.0, g=0.0)
    assert out.drift("energy") < 4e-13


# --- what is said -----------------------------------------------------------------------------------
def test_the_bands_of_instability_are_those_of_the_trace():
    m = BY_NAME["interaction"]
    grown = [x for x in np.linspace(1.0, 7.0, 6001) if abs(half_trace(m, x, 1 / x**2)) > 1]
    bands = [grown[0], max(x for x in grown if x < 4), min(x for x in grown if x > 4), grown[-1]]
    assert bands == pytest.approx([2.787, 3.141, 6.121, 6.283], abs=2e-3)
    assert all(
        abs(half_trace(BY_NAME["interaction_mollified"], x, 1 / x**2)) <= 1
        for x in np.linspace(1.0, 7.0, 601)
    )


def growth(method, w, dt=1.0):
    out = tp.compile(swing, dt=dt, method=method).evolve(
        q=1e-9, p=0.0, w=w, steps=300, save_every=1, progress=False
    )
    return np.abs(out.q).max() / 1e-9, out.metrics["resonance"]


@pytest.mark.parametrize("w", [2.8, 3.13, 6.13, 6.27])
def test_a_resonance_is_named_with_a_step_that_is_safe(w, caplog):
    with caplog.at_level(logging.WARNING, "tinyphysics"):
        size, told = growth("interaction", w)
    assert size > 1e3 and told["grows"] and f"dt = {told['safe_dt']:.6g}" in caplog.text
    assert growth("interaction", w, told["safe_dt"])[0] < 3


@pytest.mark.parametrize("w", [2.7, 3.15, 6.10, 6.29])
def test_beside_a_resonance_nothing_is_said(w, caplog):
    size, told = growth("interaction", w)
    assert size < 3 and not told["grows"] and not caplog.records


@pytest.mark.requirement("S2-10")
@pytest.mark.parametrize("k", [1, 2, 5, 1000])
def test_mollified_kicks_stand_every_resonance(k):
    for method in ("interaction_mollified", "interaction_mollified4"):
        size, told = growth(method, k * math.pi)
        assert size < 1.5 and not told["grows"]


def test_sums_of_two_turns_are_looked_at_and_differences_are_not():
    m = BY_NAME["interaction"]
    two = [math.pi - 0.5, math.pi + 0.5]
    assert grows(m, two, 1.0, None) == (two[1], two[0])
    found = resonance(m, two, 1.0)
    assert found is not None and found.safe is not None and grows(m, two, found.safe, None) is None
    assert grows(m, [1.0, 1.0 + 2 * math.pi], 1.0, None) is None


def test_the_report_says_how_far_a_step_turns():
    near = str(tp.compile(trap, dt=50 * math.pi / 1e4, method="interaction").explain("full"))
    assert "omega*dt = 157.1" in near and "NEAR" in near and "the nearest safe step is dt = 0.0156" in near
    assert "none near" in str(tp.compile(trap, dt=0.01, method="interaction").explain("full"))
    assert "none grows" in str(tp.compile(trap, dt=0.01, method="interaction_mollified").explain("full"))


# --- what is chosen ---------------------------------------------------------------------------------
@tp.hamiltonian
def cancelled(q, p, k: float = 100.0):
    return p**2 / 2 + k * q**2 / 2 + k * (tp.cos(q) - 1)


def test_the_default_changes_only_where_leapfrog_is_shown_to_be_unstable():
    assert tp.compile(trap, dt=1.99e-4).built.plan.method == "leapfrog_kdk"
    b = tp.compile(trap, dt=2.01e-4).built
    assert b.plan.method == "interaction" and "above the limit of leapfrog_kdk, 2" in b.plan.because
    assert any(a.method == "leapfrog_kdk" and "unstable" in a.because for a in b.plan.not_chosen)
    assert tp.compile(trap, dt=0.1, method="leapfrog").built.plan.method == "leapfrog_kdk"
    assert tp.compile(cancelled, dt=1.0).built.plan.method == "leapfrog_kdk"  # the whole of V is flat there
    assert tp.compile(trap, dt=0.1, precision="dd").built.plan.method == "leapfrog_kdk"
    assert tp.compile(trap, dt=0.1, forbid="interaction").built.plan.method == "leapfrog_kdk"


@pytest.mark.parametrize("order", [4, 6, 8])
def test_an_order_is_kept_where_its_splitting_would_be_unstable(order):
    limit = BY_NAME[BY_ORDER[order]].limit
    assert tp.compile(trap, dt=0.99e-4 * limit, order=order).built.plan.method == BY_ORDER[order]
    assert tp.compile(trap, dt=1.01e-4 * limit, order=order).built.plan.method == f"interaction{order}"


def test_a_stable_step_has_the_program_that_it_had():
    assert stiffest(henon_heiles, Goal(0.1)) == 0.0
    assert tp.compile(trap, dt=1e-5).tpir.hash == tp.compile(trap, dt=1e-5, method="leapfrog").tpir.hash


def test_the_cache_of_plans_knows_which_step_was_asked_for():
    for dt, method in (
        (1e-5, "leapfrog_kdk"),
        (0.1, "interaction"),
        (1e-5, "leapfrog_kdk"),
        (0.2, "interaction"),
    ):
        assert tp.compile(trap, dt=dt).compiled.known.method == method


def test_an_order_and_the_name_are_one_method():
    assert tp.compile(trap, dt=0.1, method="interaction", order=6).built.plan.method == "interaction6"
    with pytest.raises(tp.PlanError, match="has order 2, not 10"):
        tp.compile(trap, dt=0.1, method="interaction", order=10)


def test_goals_can_choose_it():
    sim = tp.compile(trap, error=1e-5, pilot={"q": 1.0, "p": 0.0, "w": 300.0, "until": 1.0})
    assert BY_NAME[sim.built.plan.method].family.kind == "interaction"
    out = sim.evolve(q=1.0, p=0.0, w=300.0, until=1.0, progress=False)
    assert out.metrics["goals"]["met"] and off(out, 300.0) < 1e-5


@pytest.mark.parametrize(
    "options",
    [
        {"precision": "float32"},
        {"precision": "dd"},
        {"precision": "lattice"},
        {"precision": "compensated"},
        {"precision": "mixed"},
        {"scale": "auto"},
        {"approximate": 1e-3},
    ],
)
def test_what_does_not_go_with_turns_is_refused(options):
    with pytest.raises(tp.PlanError):
        tp.compile(trap, dt=0.1, method="interaction", **options)


# --- numbers that are coupled -----------------------------------------------------------------------
@tp.hamiltonian
def springs(q: tp.Vec[3], p: tp.Vec[3], k: float = 1.0):
    d = tp.diff(q)
    return p @ p / 2 + (k * d**2 / 2 + d**4 / 4).sum() + q @ q / 2 + q[0] * 0.3


@tp.hamiltonian
def penning(q: tp.Array[2, 3], p: tp.Array[2, 3], B: float = 20.0, w: float = 3.0):
    """Two ions in a magnetic field and a quadrupole, which repel each other: H does not split."""
    x, y, z = q[:, 0], q[:, 1], q[:, 2]
    px, py, pz = p[:, 0], p[:, 1], p[:, 2]
    kinetic = ((px + B * y / 2) ** 2 + (py - B * x / 2) ** 2 + pz**2).sum() / 2
    return kinetic + w**2 * (z * z - (x * x + y * y) / 2).sum() / 2 + 1 / tp.norm(q[0] - q[1])


TOGETHER = {
    "springs": (springs, {"q": rng.normal(size=3), "p": rng.normal(size=3), "k": 100.0}),
    "penning": (penning, {"q": rng.normal(size=(2, 3)), "p": rng.normal(size=(2, 3))}),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_coupled_numbers_turn_by_a_matrix_with_the_same_bits_everywhere(name):
    system, start = TOGETHER[name]
    found = {b: str(run(system, 0.01, "interaction4", 5, b, **start).hash) for b in HERE}
    assert len(set(found.values())) == 1, found
    c = tp.compile(system, dt=0.01, method="interaction4").certificate
    assert c.symplectic and c.symmetric and c.consistent and bool(c.reversible) == (system is springs)
    assert tp.measure_symplectic(tp.compile(system, dt=0.1, method="interaction"), **start).symplectic


def test_a_magnetic_field_is_solved():
    system, start = TOGETHER["penning"]
    out = run(system, 0.005, "interaction8", 200, **start)
    true = run(system, 1e-4, "rk4", 10_000, **start)
    assert np.abs(out.final.q - true.final.q).max() < 1e-11 and out.drift("energy") < 1e-11


def test_the_matrix_of_a_turn_keeps_an_oscillation_over_many_steps():
    out = run(springs, 0.37, "interaction", 200_000, q=[1e-3, 0.0, 0.0], p=[0.0, 0.0, 0.0], k=100.0)
    assert out.drift("energy") < 1e-6  # what the rest does; a matrix in one word drifts by as many roundings


def test_members_may_have_matrices_of_their_own():
    k, q, p = np.array([1.0, 50.0, 400.0]), rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
    sim = tp.compile(springs, dt=0.05, method="interaction")
    together = sim.evolve(q=q, p=p, k=k, steps=20, progress=False).final
    for i in range(3):
        assert (sim.evolve(q=q[i], p=p[i], k=k[i], steps=20, progress=False).final.q == together.q[i]).all()
    with pytest.raises(tp.PlanError, match="70 sets of parameters"):
        sim.evolve(q=np.ones((70, 3)), p=np.ones((70, 3)), k=np.arange(70.0), steps=1, progress=False)


def test_a_run_with_matrices_goes_on_from_a_checkpoint(tmp_path):
    sim = tp.compile(springs, dt=0.05, method="interaction4")
    start = TOGETHER["springs"][1]
    sim.evolve(**start, steps=8, checkpoint=tmp_path / "c", progress=False)
    again, whole = (
        sim.evolve(resume=tmp_path / "c", steps=12, progress=False),
        sim.evolve(**start, steps=20, progress=False),
    )
    assert (again.final.q == whole.final.q).all() and (again.final.p == whole.final.p).all()


@pytest.mark.parametrize(
    "old, new",
    [
        (r", \$flow__1, E0, \$dt", ", $flow__1, E1, $dt"),  # of another term
        (r", \$flow__1, E0, \$dt", ", $flow__0, E0, $dt"),  # one matrix for two times
        (r"ROTATE S1:f64\[3\], (T\d+)\nfinal", "ROTATE S1:f64[3], S0\nfinal"),
        (r"concat, S0, S1", "concat, S1, S0"),
    ],
)
def test_a_matrix_of_something_else_is_refused(old, new):
    text = tp.compile(springs, dt=0.05, method="interaction").ir("tpir")
    wrong = re.sub(old, new, text)
    assert wrong != text and tpir.verify(tpir.parse(text)).symplectic
    with pytest.raises(tp.VerifyError):
        tpir.verify(tpir.parse(wrong))


def test_means_of_coupled_numbers_are_refused():
    with pytest.raises(tp.PlanError, match="couples them"):
        tp.compile(springs, dt=0.1, method="interaction_mollified")


def test_a_sum_of_systems_has_its_stiff_part_solved():
    @tp.hamiltonian
    def free(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2

    @tp.potential
    def stiff(q: tp.Vec[3], w: float = 50.0):
        return w**2 * (q @ q) / 2

    @tp.potential
    def bump(q: tp.Vec[3]):
        return (q**4).sum() / 4

    assert tp.compile(free + stiff + bump, dt=0.1).built.plan.method == "interaction"
    assert tp.compile(free + stiff + bump, dt=0.001).built.plan.method == "leapfrog_kdk"


def test_an_energy_that_jumps_is_not_shown_to_be_consistent():
    @tp.hamiltonian
    def step(q, p):
        return p * p / 2 + 4.5 * q * q + 0.1 * q**4 + tp.where(q < 0.3, 0.0, 1.0)

    certificate = tp.compile(step, dt=0.01, method="interaction").certificate
    assert not certificate.consistent and "may jump" in certificate.consistent.because


@pytest.mark.parametrize("dt", [0.2, 0.01, 0.001])
def test_motion_away_from_the_top_of_a_potential_is_no_resonance(dt):
    """The rest is an inverted parabola that is stronger than the quadratic part: it grows at any step, as it should."""

    @tp.hamiltonian
    def hill(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + q[0] ** 2 / 2 + 0.7 * q[1] ** 2 + 2 * tp.cos(q[0])

    sim = tp.compile(hill, dt=dt, method="interaction")
    assert not sim.evolve(q=[0.1, 0.2], p=[0.0, 0.0], steps=5).metrics["resonance"]["grows"]
    assert grows(BY_NAME["interaction"], [1.0, 1.2], dt, (-2.0, 0.0)) is None


@pytest.mark.parametrize("method", ["interaction", "interaction4"])
def test_a_driven_pair_of_coupled_oscillators_has_a_drift(method):
    """The replay that watches H + p_t has one more state than the matrix of the quadratic part turns."""

    @tp.hamiltonian
    def driven(q: tp.Vec[2], p: tp.Vec[2], t):
        return p @ p / 2 + q @ q / 2 - 0.7 * q[0] * q[1] + 0.4 * tp.cos(0.72 * t) * q[0]

    found = []
    for dt in (0.1, 0.05):
        sim = tp.compile(driven, dt=dt, method=method)
        found.append(sim.evolve(q=[0.1, 0.2], p=[0.3, 0.4], until=2.0).drift("energy"))
    assert 0 < found[1] < found[0] / 3 and found[0] < 1e-3
