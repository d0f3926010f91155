"""Is the page of a run whole, small and offline, and does it say what the run itself says?"""

import re

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.view.charts import Chart, Curve, envelope, svg, ticks

pytestmark = pytest.mark.filterwarnings("ignore::tinyphysics.PhysicsWarning")


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu=1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def root(q, p):
    return p**2 / 2 + tp.sqrt(q)


@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - tp.cos(q)


@tp.ode
def lorenz(x, y, z, s=10.0, r=28.0, b=8 / 3):
    return s * (y - x), x * (r - z) - y, x * y - b * z


@tp.map
def cat(q, p):
    return (2 * q + p) % 1.0, (q + p) % 1.0


ORBIT = {"q": [1.0, 0.0], "p": [0.0, 1.2]}


def written(out, tmp_path):
    path = out.report(tmp_path / "run.html")
    text = path.read_text(encoding="utf-8")
    assert len(text) < 1_000_000
    # nothing is loaded: no address, no file, no script
    assert not re.search(r"https?:|src=|href=|@import|url\(|<script", text)
    return text


def test_a_page_has_charges_energy_plan_losses_and_a_portrait(tmp_path):
    out = tp.compile(kepler, dt=0.02, method="leapfrog").evolve(**ORBIT, steps=2000)
    text = written(out, tmp_path)
    for title in ("What is conserved", "Energy", "Portrait", "Plan and certificate", "What was thrown away"):
        assert f"<h2>{title}</h2>" in text
    row = next(iter(out.checks))
    assert f"<td>{row.deviation:.2e}</td><td>{row.band:.2e}</td><td>yes</td>" in text
    assert f"{out.drift('energy'):.1e}" in text and "leapfrog_kdk" in text and out.hash in text
    assert "nothing was found to be wrong" in text and "Why it stopped" not in text
    assert text.count("<svg") == 4  # angular momentum, energy, shadow gap, portrait


def test_the_page_of_a_run_that_stopped_has_its_autopsy(tmp_path):
    out = tp.compile(root, dt=0.01, method="leapfrog").evolve(q=0.1, p=-1.0, steps=200)
    text = written(out, tmp_path)
    assert "stopped at step 10 (t = 0.1)" in text and "root of a negative" in text
    assert "test_run_report.py:" in text and "class='verdict bad'" in text


def test_the_page_says_what_was_watched_and_what_a_fault_moved(tmp_path):
    sim, fault = tp.compile(kepler, dt=0.02, method="leapfrog"), tp.fault("p", (0,), relative=1e-3, since=40)
    text = written(sim.evolve(**ORBIT, steps=100, acts={"fault": fault}), tmp_path)
    assert "stopped at step 40 (t = 0.8): integrity" in text and "in the act `fault`" in text
    assert "Watched in the run" in text and "angular_momentum" in text and "1 alarm." in text


@pytest.mark.parametrize(
    "system, options, start",
    [
        (
            pendulum,
            {"dt": 0.05, "precision": "float32"},
            {"q": np.linspace(0.1, 3, 40), "p": np.zeros(40), "steps": 50},
        ),
        (lorenz, {"dt": 0.01, "method": "rk4"}, {"x": 1.0, "y": 1.0, "z": 20.0, "steps": 500}),
        (lorenz, {"method": "dop853"}, {"x": 1.0, "y": 1.0, "z": 20.0, "until": 2.0}),
        (cat, {}, {"q": 0.1, "p": 0.3, "steps": 100}),
        (kepler, {"dt": 0.02, "time": "logarithmic"}, {**ORBIT, "steps": 100}),
        (pendulum, {"dt": 0.05}, {"q": 1.0, "p": 0.0, "steps": 0}),
    ],
)
def test_every_kind_of_run_has_a_page(system, options, start, tmp_path):
    out = tp.compile(system, **options).evolve(**start)
    assert "Where it ran" in written(out, tmp_path)


def test_a_page_changes_nothing(tmp_path):
    sim = tp.compile(kepler, dt=0.02, method="leapfrog")
    out = sim.evolve(**ORBIT, steps=300)
    before = out.hash, out.q.copy()
    out.report(tmp_path / "run.html")
    assert out.hash == before[0] == sim.evolve(**ORBIT, steps=300).hash and (out.q == before[1]).all()


def test_a_wrong_path_says_what_to_write(tmp_path):
    out = tp.compile(pendulum, dt=0.05).evolve(q=1.0, p=0.0, steps=2)
    with pytest.raises(tp.InputError, match=r'out.report\("run.html"\)'):
        out.report(tmp_path / "run.pdf")
    with pytest.raises(tp.InputError, match="is not the name of a page"):
        out.report(3)
    with pytest.raises(tp.StoreError, match="could not be written"):
        out.report(tmp_path / "not there" / "run.html")


# --- charts -----------------------------------------------------------------------------------------
def test_a_spike_is_not_thinned_away():
    y = np.zeros(100_000)
    y[54_321] = 1.0
    x, few = envelope(np.arange(100_000), y)
    assert len(few) <= 502 and few.max() == 1.0 and x[few.argmax()] == 54_321


def test_ticks_are_round_and_inside():
    assert ticks(-0.03, 0.11) == [0.0, 0.05, 0.1] and ticks(1e-5, 9e-5) == [2e-5, 4e-5, 6e-5, 8e-5]
    assert ticks(2.0, 2.0) == [2.0]


def test_a_chart_of_nothing_is_still_a_chart():
    for log in (False, True):
        text = svg(Chart([Curve([0.0, 1.0], [np.nan, np.nan])], ("t", "x"), log=log))
        assert text.startswith("<svg") and "nan" not in text
    flat = svg(Chart([Curve([0.0, 1.0], [3.0, 3.0])], ("t", "x < y")))
    assert "nan" not in flat and "x &lt; y" in flat
