"""A run that is watched in a terminal: what is sent, what is shown, that no bit moves, and that the terminal comes back."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pyte
import pytest

import tinyphysics as tp
from tinyphysics.cli import main
from tinyphysics.errors import InputError, StoreError
from tinyphysics.runtime.api import watched
from tinyphysics.runtime.api.watched import StoredFrames
from tinyphysics.runtime.stages.live import Shown
from tinyphysics.view.canvas import plain
from tinyphysics.view.live import rows_of
from tinyphysics.view.moment import reach, state_of, wider
from tinyphysics.view.screen import ENTER, LEAVE, Screen
from tinyphysics.view.terminal import portrait
from tinyphysics.view.watching import Watching

pytestmark = pytest.mark.requirement("S0-39", "S0-40", "S0-42")

FILE = """
import tinyphysics as tp

@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return (p @ p) / 2 - mu / tp.sqrt(q @ q)

start = dict(q=[1.0, 0.0], p=[0.0, 1.2])
dt, steps = 0.01, 2000
"""


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return (p @ p) / 2 - mu / tp.sqrt(q @ q)


def film(out, system, first, last):
    """The rows of some frames, as a view draws them: one step a frame."""
    picture = portrait(out, system.seen)
    ranges = reach(picture)
    for k in range(first, last):
        told = f"energy off by {k // 15:.0e}"  # four times a second at 60 frames a second
        yield rows_of(state_of(picture, k, k - k % 15, out.t[k - k % 15], told, ranges), 80, 24)


@pytest.fixture(scope="module")
def orbit():
    sim = tp.compile(kepler, 0.01)
    return sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=1000, save_every=1), sim.system


@pytest.fixture(scope="module")
def cloud():
    sim = tp.compile(kepler, 0.01)
    p = np.array([0.0, 1.2]) + 0.03 * np.random.default_rng(0).standard_normal((1000, 2))
    return sim.evolve(q=np.tile([1.0, 0.0], (1000, 1)), p=p, steps=400, save_every=1), sim.system


# --- what is sent -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("which, most", [("orbit", 5_000), ("cloud", 60_000)])
def test_a_film_sends_little_more_than_the_cells_that_change(which, most, request):
    """Kepler with a trail of 250 steps in 80 by 24, one step a frame, 60 a second."""
    out, system = request.getfixturevalue(which)
    screen = Screen(80, 24)
    sent = [len(screen.changes(rows).encode()) for rows in film(out, system, 260, 400)]
    assert 60 * np.mean(sent[1:]) <= most
    assert min(sent[1:]) >= 0 and sum(sent[1:]) > 0


@pytest.mark.parametrize("which", ["orbit", "cloud"])
def test_after_every_frame_a_terminal_shows_what_a_full_redraw_shows(which, request):
    out, system = request.getfixturevalue(which)
    shown, stream = pyte.Screen(80, 24), None
    stream = pyte.Stream(shown)
    screen = Screen(80, 24)
    for k, rows in enumerate(film(out, system, 255, 300)):
        stream.feed(screen.changes(rows))
        whole = pyte.Screen(80, 24)
        pyte.Stream(whole).feed(Screen(80, 24).changes(rows))
        assert shown.display == whole.display, k
        colours = [
            [shown.buffer[r][c].fg for c in range(80) if shown.buffer[r][c].data != " "] for r in range(24)
        ]
        wanted = [
            [whole.buffer[r][c].fg for c in range(80) if whole.buffer[r][c].data != " "] for r in range(24)
        ]
        assert colours == wanted
    assert "●" in "".join(shown.display) or which == "cloud"


def test_rows_that_do_not_fit_are_cut_and_random_screens_come_out_right():
    rng = np.random.default_rng(3)
    shown = pyte.Screen(30, 6)
    stream, screen = pyte.Stream(shown), Screen(30, 6)
    for _ in range(200):
        rows = []
        for _ in range(rng.integers(0, 8)):
            text = "".join(rng.choice(list("ab  ⣿●"), size=rng.integers(0, 40)))
            rows.append([(text[:7], 1), (text[7:], int(rng.integers(0, 9)))])
        stream.feed(screen.changes(rows))
        wanted = [plain([row])[:30].ljust(30) for row in rows][:6]
        assert [x.ljust(30) for x in shown.display] == wanted + [" " * 30] * (6 - len(wanted))


# --- what is shown ----------------------------------------------------------------------------------------------
def test_what_a_view_reads_cannot_be_written_to(orbit):
    """One dictionary for every view (S0-42)."""
    state = Shown(*orbit).state(300)
    before = dict(state)
    with pytest.raises(TypeError):
        state["step"] = 3
    rows_of(state, 80, 24)
    assert dict(state) == before
    assert state["step"] == 300 and len(state["curves"][0][0]) == 251


def test_a_small_terminal_shows_the_line_and_one_without_braille_dots(orbit):
    state = Shown(*orbit).state(10)
    assert plain(rows_of(state, 12, 3)) == "step 10   t"
    assert (
        rows_of(state, 80, 24, ascii_only=True) and plain(rows_of(state, 80, 24, ascii_only=True)).isascii()
    )


def test_ranges_stay_while_all_fits():
    a = ((0.0, 1.0), (-1.0, 1.0))
    assert wider(None, a) == a and wider(a, ((0.2, 0.9), (-1.0, 1.0))) == a
    (low, high), _ = wider(a, ((0.0, 2.0), (-1.0, 1.0)))
    assert low == 0.0 and high > 2.0


# --- runs -------------------------------------------------------------------------------------------------------
class Paper:
    """An output that is no terminal, or says that it is one."""

    encoding = "utf-8"

    def __init__(self, terminal):
        self.text, self.terminal = "", terminal

    def write(self, text):
        self.text += text

    def flush(self):
        pass

    def isatty(self):
        return self.terminal


def test_watching_changes_no_bit_and_prints_one_picture_where_there_is_no_terminal(capsys):
    sim = tp.compile(kepler, 0.01)
    plain_run = sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=500)
    seen = sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=500, view="terminal")
    assert seen.hash == plain_run.hash and (seen.q == plain_run.q).all()
    told = capsys.readouterr().out
    assert "\x1b" not in told and told.count("step 500 ") == 1 and "q leaves" not in told


def test_a_key_ends_a_run_that_goes_on_and_what_there_is_comes_back():
    paper = Paper(terminal=True)
    view = Watching(paper, keyboard=SimpleNamespace(fileno=lambda: -1))
    view.keys.pressed = lambda seconds=0.0: "leave"
    sim = tp.compile(kepler, 0.01)
    with view:
        out = sim._run(request_of(sim, view, steps=50_000_000))
    assert out.stopped.cause == "interrupted" and 0 < out.final.step < 50_000_000 and len(out.q) > 1
    assert paper.text.startswith(ENTER) and LEAVE in paper.text


def request_of(sim, view, steps):
    from tinyphysics.runtime.stages.resolve import Request

    given = {"q": [1.0, 0.0], "p": [0.0, 1.2]}
    return Request(given, steps=steps, options={"view": view})


def test_the_terminal_comes_back_when_a_run_fails():
    paper = Paper(terminal=True)
    with pytest.raises(InputError), Watching(paper, keyboard=SimpleNamespace(fileno=lambda: -1)):
        raise InputError("no")
    assert paper.text.endswith(LEAVE)


def test_a_state_may_be_called_view(capsys):
    @tp.map
    def turned(view, other):
        return view * 0.5 + other, other

    sim = tp.compile(turned)
    assert float(sim.evolve(view=1.0, other=0.0, steps=2).final.view) == 0.25
    assert float(sim.evolve(view=1.0, other=0.0, steps=2, options={"view": "terminal"}).final.view) == 0.25
    assert "step 2 " in capsys.readouterr().out


@tp.ode
def decay(u):
    return -u


@tp.hamiltonian
def spring(q, p):
    return p * p / 2 + q**4 / 4


def of_numbers(*values):
    return {"q": np.array(values), "p": np.zeros(len(values))}


@pytest.mark.parametrize(
    "sim, given",
    [
        (lambda: tp.compile(decay, 0.1, method="rk4"), dict(u=1.0, steps=20)),  # one number and no momentum
        (lambda: tp.compile(spring, 0.1), dict(**of_numbers(), steps=5)),  # no member
        (lambda: tp.compile(spring, 5.0), dict(q=9.0, p=0.0, steps=50)),  # not finite in the end
        (lambda: tp.compile(spring, 0.1), dict(q=1.0, p=0.0, steps=0)),
        (lambda: tp.compile(spring, method="taylor"), dict(**of_numbers(1.0, 2.0), until=3.0)),
        (lambda: tp.compile(spring, 0.1, temperature=1.0), dict(**of_numbers(1.0, 2.0), steps=9, frames=2)),
    ],
)
@pytest.mark.filterwarnings("ignore::tinyphysics.PhysicsWarning")
def test_a_run_comes_back_whatever_can_be_drawn_of_it(sim, given, capsys):
    sim = sim()
    assert sim.evolve(**given, view="terminal").hash == sim.evolve(**given).hash
    assert capsys.readouterr().out


def test_a_run_that_has_no_picture_says_so_and_comes_back(monkeypatch, capsys):
    def refuse(out):
        raise tp.PlanError("the members are at different times", fix="Draw one.")

    monkeypatch.setattr(watched, "drawn", refuse)
    out = tp.compile(kepler, 0.01).evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=5, view="terminal")
    assert out.final.step == 5 and "no picture: the members are at different times" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", ["page", 3, True])
def test_another_view_is_refused_with_what_to_write(wrong):
    with pytest.raises(InputError, match='view="terminal"'):
        tp.compile(kepler, 0.01).evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=5, view=wrong)


# --- stores -----------------------------------------------------------------------------------------------------
def test_a_store_is_watched_while_it_grows(tmp_path, capsys):
    sim, path = tp.compile(kepler, 0.01), tmp_path / "run.zarr"
    mark = tmp_path / "run.checkpoint"
    sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=100, save=path, save_every=5, checkpoint=mark)
    frames = StoredFrames(path)
    assert frames.count() == 21 and frames.state(20)["step"] == 100
    sim.evolve(resume=mark, steps=50, save=path, checkpoint=mark)
    frames.looked = -1.0
    assert frames.again() and frames.count() == 31 and frames.state(30)["step"] == 150
    assert main(["watch", str(path)]) == 0
    assert "step 150 " in (told := capsys.readouterr().out) and "31 frames" in told


def test_what_is_no_store_is_refused(tmp_path, capsys):
    assert main(["watch", str(tmp_path / "none.zarr")]) == 2
    assert "none.zarr" in capsys.readouterr().err
    with pytest.raises(StoreError):
        StoredFrames(tmp_path)


# --- the command, in a terminal ---------------------------------------------------------------------------------
def test_tp_run_view_plays_in_a_terminal_and_q_leaves_it(tmp_path):
    """In a pseudo-terminal: the other screen is entered and left, and the summary of the run follows."""
    file = tmp_path / "kepler.py"
    file.write_text(FILE)
    here, there = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "LINES": "24", "COLUMNS": "80"}
    command = [sys.executable, "-m", "tinyphysics", "run", str(file), "--view"]
    child = subprocess.Popen(command, stdin=there, stdout=there, stderr=there, env=env, close_fds=True)
    os.close(there)
    sent, pressed, since = b"", False, time.monotonic()
    try:
        while time.monotonic() - since < 120:
            if select.select([here], [], [], 0.2)[0]:
                try:
                    part = os.read(here, 65536)
                except OSError:  # the other end is closed
                    break
                if not part:
                    break
                sent += part
            if not pressed and sent.count(b"\xe2\x97\x8f") > 3:  # the newest point was drawn some times
                os.write(here, b"q")
                pressed = True
            if child.poll() is not None and not select.select([here], [], [], 0.2)[0]:
                break
        assert child.wait(30) == 0
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        os.close(here)
    text = sent.decode()
    assert pressed and text.index(ENTER) < text.index(LEAVE) < text.index("[perf] rollout=")
    assert "leapfrog_kdk, 2,000 steps" in text
