"""Does the bench say who is missing, and do those who are there compute the same?  No times are looked at."""

import dataclasses
import importlib
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

BENCH = Path(__file__).parents[2] / "bench"
PEERS = ("numba", "jax", "heyoka", "rebound", "diffrax")


@pytest.fixture
def bench(monkeypatch):
    """The modules of bench/, which lie beside each other and not in a package."""
    monkeypatch.syspath_prepend(str(BENCH))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if (BENCH / f"{name}.py").is_file():
            del sys.modules[name]


def test_a_peer_that_is_not_installed_is_listed_by_name(bench, monkeypatch, capsys):
    peers, table, run, measure = (bench(name) for name in ("peers", "table", "run", "measure"))
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda package: None)
    found = run.peers("pendulums", np.zeros(1024), np.zeros(1024), 0.01, 1)
    assert found == {"numba": None, "jax": None, "heyoka": None, "REBOUND": None, "diffrax": None}
    table.show([measure.Row("pendulums", "ns", {"tinyphysics": 1.5, "C by hand": 1.0} | found)])
    lines = capsys.readouterr().out.splitlines()
    for name in found:
        assert any(name in line and "not installed" in line for line in lines), name
    assert any("tinyphysics" in line and "1.50" in line for line in lines)


def test_what_is_timed_is_what_evolve_computes(bench):
    import tinyphysics as tp

    w = bench("workloads")
    q, v, m = w.solar_system()
    p = m[:, None] * v
    timed = w.ours(w.planets, {"q": q[None], "p": p[None]}, 20, {"m": m}, dt=0.01)
    out = tp.compile(w.planets, dt=0.01).evolve(q=q, p=p, m=m, steps=20)
    assert np.array_equal(timed()[0], out.final.q) and np.array_equal(timed()[0], out.final.q)


@pytest.mark.parametrize("package", PEERS)
def test_a_peer_computes_what_we_compute(bench, package):
    pytest.importorskip(package)
    import tinyphysics as tp

    peer, w = bench(f"with_{package}"), bench("workloads")
    method = "leapfrog_dkd" if package == "rebound" else "leapfrog"  # REBOUND's begins with a drift
    q, p = (x[:1024].copy() for x in w.pendulums())
    wanted = tp.compile(w.pendulum, dt=0.01, method=method).evolve(q=q, p=p, steps=50).final.q
    for name, run in getattr(peer, "pendulums", nothing)(q, p, 0.01, 50).items():
        assert np.abs(run() - wanted).max() < 1e-12, name
    x, v, m = w.solar_system()
    wanted = (
        tp.compile(w.planets, dt=0.01, method=method).evolve(q=x, p=m[:, None] * v, m=m, steps=50).final.q
    )
    for name, run in getattr(peer, "planets", nothing)(x, v, m, 0.01, 50).items():
        assert np.abs(run() - wanted).max() < 1e-12, name
    wanted = tp.compile(w.pendulum, dt=0.05, order=8).evolve(q=q, p=p, until=10.0).final.q
    for name, solve in getattr(peer, "solvers", nothing)(10.0, w.WEIGHTS).items():
        assert np.abs(solve(q, p, getattr(peer, "RUNGS", (100,))[-1]) - wanted).max() < 1e-10, name


def nothing(*arguments):
    return {}


@pytest.mark.parametrize("source", ["kernels.c", "arrays.c"])
def test_fast_maths_of_a_contender_leaves_subnormals_to_the_others(bench, source):
    w = bench("workloads")
    tiny = float("1e-310")
    w.library(w.FAST, source)
    assert 1.5 * tiny > tiny > 0


def test_an_accuracy_costs_the_more_steps_the_smaller_it_is(bench, capsys):
    """Two of ours and a solver that chooses its steps, on a few orbits: the same orbits, and errors that fall."""
    wp = bench("workprecision")
    q, p = wp.orbits(32)
    exact = wp.tp.compile(wp.henon_heiles, dt=wp.T / 400, order=10).evolve(q=q, p=p, steps=400).final.q
    for settings in (wp.scheme("nystrom6", 13, 6), wp.scipy):
        points = wp.curve(itertools.islice(settings(q, p), 8), exact, 1)
        assert len(points) >= 4 and points[-1][0] < 1e-3 * points[0][0]
        assert wp.cheapest(points, 0.0) is None and wp.cheapest(points, 1.0)[1] in [
            words for _, _, words in points
        ]


# --- array systems ----------------------------------------------------------------------------------
SMALL = {"BODIES": 64, "CHAIN": 64, "FLUID": 32, "SHEET": 32}  # the C has chains of 64 and no other


@pytest.mark.parametrize("row", ["gravity", "chain", "fluid", "wave"])
def test_array_contenders_compute_the_same(bench, monkeypatch, row):
    rows, systems, run, w = (bench(name) for name in ("array_rows", "array_systems", "run", "workloads"))
    for name, size in SMALL.items():
        monkeypatch.setattr(systems, name, size)
    done = getattr(rows, row)(1, *(w.library(flags, "arrays.c") for flags in (w.STRICT, w.FAST)), run.peers)
    assert {"tinyphysics", "C by hand"} <= set(done.away)
    largest = {name: away for name, away in done.away.items() if away > 1e-11}
    assert not largest, largest


def test_an_array_contender_is_what_evolve_computes(bench):
    import tinyphysics as tp

    rows, systems = bench("array_rows"), bench("array_systems")
    run = rows.chain_of(64, 1, 30)
    q, p = systems.displaced(64)
    out = tp.compile(systems.chain, dt=0.05, sizes={"n": 64}).evolve(q=q, p=p, steps=30)
    assert np.array_equal(run()(), out.final.q) and not np.array_equal(run()(), out.final.q)


def test_pair_forces_at_two_paces_are_counted_in_what_runs(bench):
    """One sum over pairs in a step of either: the one with two paces takes fifteen fast steps in it."""
    import tinyphysics as tp

    m = bench("multirate")
    plain, start = tp.compile(m.backbone + m.pairs, dt=0.001), m.at_rest(12)
    plain.evolve(**start, p=np.zeros((12, 3)), steps=1)
    paced = tp.compile(
        tp.fast(m.backbone) + tp.slow(m.pairs), dt=m.DT, inner=15, sizes={"n": 12, "b": 11, "m": 2}
    )
    assert m.pair_forces(plain) == m.pair_forces(paced) == 1
    assert (
        m.largest(paced, start | {"p": np.ones((12, 3))}, m.DT, 3, 1) < 1e-6
    )  # the helix is nearly at rest, but for drifting


# --- work and precision ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", ["arenstorf", "pleiades", "henon_heiles", "double_pendulum", "dipole", "relativistic"]
)
def test_a_problem_is_the_same_for_every_contender(bench, name):
    """Our systems and the equations of the others are written down apart from each other: a thirtieth of the run, a few steps."""
    pytest.importorskip("scipy")
    problems, solvers = bench("problems"), bench("solvers")
    p = problems.problems()[name]
    short = {method: (system, start, 2 + steps // 10) for method, (system, start, steps) in p.stepped.items()}
    p = dataclasses.replace(p, until=p.until / 30, stepped=short)
    exact = list(solvers.scipy(p))[9].end()
    assert np.abs(exact - p.start[: len(exact)]).max() > 0.01
    assert np.abs(solvers.by_series(p, 1e-5).end() - exact).max() < 1e-5
    for method in short:
        assert np.abs(next(solvers.ours_fixed(p, method)).end() - exact).max() < 1e-3, method
    for who, (package, ladder) in solvers.PEERS.items():
        if solvers.installed(package) and (package != "rebound" or p.masses is not None):
            assert min(np.abs(s.end() - exact).max() for s in itertools.islice(ladder(p), 3, 5)) < 1e-5, who


def test_the_cheapest_setting_that_meets_an_error_is_what_counts(bench):
    problems = bench("problems")
    curves = {
        "ours, a": [problems.Point(1e-3, "", None, 1.0), problems.Point(1e-7, "", None, 4.0)],
        "ours, b": [problems.Point(1e-5, "", None, 3.0)],
        "theirs": [problems.Point(1e-9, "", None, 6.0)],
    }
    assert [problems.faster(curves, e) for e in (1e-2, 1e-4, 1e-6, 1e-8)] == [6.0, 2.0, 1.5, None]
    rows = problems.table("a problem", curves)
    assert rows[2].startswith("| ours, a | 4,000,000 | 4,000,000 | – |") and rows[-1].endswith(
        "| 2.00 | 1.50 | – | – | – |"
    )


@pytest.mark.parametrize("name", ["van_der_pol", "robertson", "hires"])
def test_stiff_problems_end_where_the_test_set_says(bench, name):
    _, end, ladders = bench("ode").contenders(name)
    (setting,) = itertools.islice(ladders["ours, radau"], 3, 4)  # a tolerance of 1e-6
    assert np.abs(setting.end() - end).max() < 1e-5
