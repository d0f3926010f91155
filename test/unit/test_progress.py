"""Progress: rate, time left and drift, in a terminal, a notebook or the log; and no bit is changed by looking."""

from __future__ import annotations

import io
import logging
import re
import sys
import types

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics.zoo import kepler, pendulum
from tinyphysics.runtime.stages import progress, energy_so_far as wander
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.schedule import Schedule


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by hand."""
    at = [0.0]
    monkeypatch.setattr(progress, "now", lambda: at[0])
    return at


class Screen(io.StringIO):
    def isatty(self):
        return True


class Page:
    """What a notebook would show: every picture in turn."""

    def __init__(self, monkeypatch):
        self.shown = []
        page = self

        class Handle:
            def update(self, html):
                page.shown.append(html)

        def display(html, display_id):
            page.shown.append(html)
            return Handle()

        class ZMQInteractiveShell:
            pass

        module = types.ModuleType("IPython")
        module.get_ipython = ZMQInteractiveShell
        monkeypatch.setitem(sys.modules, "IPython", module)
        monkeypatch.setitem(
            sys.modules, "IPython.display", types.SimpleNamespace(HTML=lambda text: text, display=display)
        )


def test_the_log_has_a_line_a_minute(clock, caplog):
    caplog.set_level(logging.INFO, logger="tinyphysics")
    with progress.progress_bar("log", "kepler", 1_000_000, lambda n: "energy drift 1.5e-08") as tick:
        for second in range(200):
            clock[0] = float(second)
            tick(1000 * (second + 1))
    told = [r.getMessage() for r in caplog.records]
    assert len(told) == 3 and {r.levelname for r in caplog.records} == {"INFO"}
    assert (
        told[0] == "kepler: step 61,000 of 1,000,000 (6 %), 1,000 steps/s, 15:39 left, energy drift 1.5e-08"
    )


def test_without_a_terminal_the_log_is_used(clock, caplog, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    caplog.set_level(logging.INFO, logger="tinyphysics")
    with progress.progress_bar("auto", "run", 100) as tick:
        clock[0] = 1.0
        tick(1)
        clock[0] = 61.0
        tick(61)
    assert [r.getMessage() for r in caplog.records] == ["run: step 61 of 100 (61 %), 1 steps/s, 0:39 left"]
    assert sys.stderr.getvalue() == ""


def test_a_terminal_has_a_bar_after_a_second(clock, monkeypatch):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    with progress.progress_bar("auto", "kepler", 1000, lambda n: "energy drift 2.0e-05") as tick:
        clock[0] = 0.5
        tick(10)
        assert screen.getvalue() == ""
        clock[0] = 2.5
        tick(510)
        assert "kepler" in screen.getvalue() and "51%" in screen.getvalue()
        assert "250 steps/s, 0:02 left, energy drift 2.0e-05" in screen.getvalue()
        before = len(screen.getvalue())
        clock[0] = 2.55
        tick(520)
        assert len(screen.getvalue()) == before  # too soon for another picture


def test_a_notebook_has_a_line_that_goes_away(clock, monkeypatch):
    page = Page(monkeypatch)
    with progress.progress_bar("auto", "kepler", 1000) as tick:
        clock[0] = 1.5
        tick(100)
        clock[0] = 2.5
        tick(200)
    assert page.shown[0].startswith('kepler <progress value="100" max="1000"></progress> 10 %')
    assert page.shown[1].endswith("100 steps/s, 0:08 left") and page.shown[-1] == ""


def test_a_short_run_shows_nothing_anywhere(clock, monkeypatch, caplog):
    page = Page(monkeypatch)
    tp.compile(kepler, 0.01).evolve(q=[1.0, 0.0], p=[0.0, 1.0], steps=100)
    assert page.shown == [] and not caplog.records


def test_off_is_off(clock, monkeypatch, caplog):
    page = Page(monkeypatch)
    for mode in (False, "off"):
        with progress.progress_bar(mode, "kepler", 10) as tick:
            clock[0] += 1000.0
            tick(5)
    assert page.shown == [] and not caplog.records


@pytest.fixture
def hasty(monkeypatch):
    """Everything is shown at once, and kept."""
    monkeypatch.setattr(progress, "MINUTE", 0.0)
    monkeypatch.setattr(wander, "WAIT", -1e9)


def drifts(caplog):
    told = [re.search(r"energy (?:drift|off by) (\S+)", r.getMessage()) for r in caplog.records]
    return [float(match[1]) for match in told if match]


@pytest.mark.parametrize(
    "options",
    [{"observe": {"E": "energy"}}, {"observe": {"E": "energy"}, "observe_every": 7}, {"save_every": 50}],
)
def test_the_drift_is_that_of_what_was_recorded_and_no_bit_changes(hasty, caplog, options):
    caplog.set_level(logging.INFO, logger="tinyphysics")
    start = dict(q=np.array([[1.0, 0.0], [0.5, 0.0]]), p=np.array([[0.0, 1.0], [0.0, 1.7]]))
    sim = tp.compile(kepler, 0.02, backend="numpy")
    out = sim.evolve(**start, steps=400, progress="log", **options)
    quiet = sim.evolve(**start, steps=400, progress=False, **options)
    assert out.hash == quiet.hash and np.array_equal(out.q, quiet.q)
    energy = out["E"] if "observe" in options else out.energy
    worst = np.abs(energy - energy[0]).max() / np.abs(energy[0]).max()
    seen = drifts(caplog)
    assert seen == sorted(seen) and seen
    assert ("in the frames" in caplog.records[-1].getMessage()) == ("save_every" in options)
    assert (
        seen[-1] == pytest.approx(worst, rel=0.06) if "observe" in options else 0 < seen[-1] <= worst * 1.05
    )


def test_without_a_recorded_energy_no_drift_is_told(hasty, caplog):
    caplog.set_level(logging.INFO, logger="tinyphysics")
    tp.compile(pendulum, 0.02, backend="numpy").evolve(q=1.0, p=0.0, steps=200, progress="log")
    tp.compile(pendulum, 0.02, backend="numpy").evolve(
        q=1.0, p=0.0, steps=200, progress="log", observe={"q2": lambda q: q * q}
    )
    assert "energy off by" in caplog.text and "of that at the start in the frames" in caplog.text
    assert "energy drift" not in caplog.text


def test_energies_of_frames_take_a_small_share_of_the_time(monkeypatch):
    at = [0.0]
    monkeypatch.setattr(wander, "time", types.SimpleNamespace(monotonic=lambda: at[0]))
    asked = []

    def slow(run, values, frames, steps):
        asked.append(at[0])
        at[0] += 3.0  # seconds for the energy of a frame
        return {"energy": np.ones((len(steps), 1))}

    monkeypatch.setattr(wander, "observe_states", slow)
    seen = types.SimpleNamespace(energy=object(), driven=False, books=())
    system = types.SimpleNamespace(seen=seen)
    given = types.SimpleNamespace(members=1, states={"q": np.zeros(1)})
    run = types.SimpleNamespace(system=system, given=given, keeps_energy=True)
    record = Record(Schedule(10_000, 1, None, None), {"q": np.zeros((10_000, 1))})
    w = wander.EnergySoFar(run, record, {}, began=0.0)
    for n in range(2000):
        at[0] += 1.0
        w(n)
    assert 5 < len(asked) and 3.0 * len(asked) < 0.03 * at[0] + 6.0
