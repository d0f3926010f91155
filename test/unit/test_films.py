"""out.animate(): the frames of a run as a page, a GIF or an MP4, in real time or in as many seconds as asked for."""

from __future__ import annotations

import re
import shutil
import sys

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics import chains, fields
from tinyphysics.physics.zoo import ZOO, henon, kepler

pytest.importorskip("matplotlib")
from PIL import Image

from tinyphysics.view import films
from tinyphysics.view.scenes import scene

SMALL = {"dpi": 30, "fps": 10}


@pytest.fixture(scope="module")
def planet():
    return tp.compile(kepler, 0.1).evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=40, save_every=2)


def shown(film, k):
    """The figure of a film with frame k on it."""
    fig, made = film.drawn()
    made.show(k)
    return fig.axes[0]


def test_a_gif_lasts_as_long_as_asked_and_shows_every_frame(planet, tmp_path):
    film = planet.animate(tmp_path / "run.gif", seconds=2.1, **SMALL)
    with Image.open(tmp_path / "run.gif") as gif:
        assert gif.n_frames == 21 == len(planet.t) and gif.info["duration"] == 100 and gif.info["loop"] == 0
    assert "2.1 s" in repr(film)


def test_in_real_time_a_second_of_the_film_is_a_second_of_the_run(planet):
    film = planet.animate(speed=1.0, **SMALL)
    frames, wait = film.timing(".mp4")
    assert len(frames) * wait == pytest.approx(4.0) and frames[0] == 0 and frames[-1] == 20
    assert planet.animate(speed=2.0).seconds == pytest.approx(2.0)


def test_frames_at_uneven_times_are_shown_when_they_happen():
    film = films.Film(None, "", None, 1.0, 10.0, 30, (1, 1))
    object.__setattr__(film, "out", type("Run", (), {"t": np.array([0.0, 0.1, 0.2, 1.0])})())
    frames, wait = film.timing(".mp4")
    assert wait == 0.25 and frames.tolist() == [0, 2, 3, 3]  # at t = 0, 1/3, 2/3, 1


def test_a_page_plays_by_itself_and_loads_nothing(planet, tmp_path):
    planet.animate(tmp_path / "run.html", seconds=0.5, **SMALL)
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert page.count("iVBOR") == 5 + 1  # five pictures, the first shown at once
    assert not re.search(r"https?:|<link|src=\"(?!data:)", page)
    assert planet.animate(seconds=0.5, **SMALL)._repr_html_().startswith('<div class="tp-film"')


def test_a_point_leaves_a_trail_as_long_as_asked(planet):
    for trail, length in ((0.25, 6), (True, 16), (False, 1)):
        line, dot = shown(planet.animate(trail=trail, **SMALL), 15).lines
        assert len(line.get_xdata()) == length and np.array_equal(
            np.stack(dot.get_data(), -1)[0], planet.q[15]
        )
        assert line.get_xdata()[-1] == planet.q[15, 0]


def test_chains_fields_maps_and_courses_move():
    out = tp.compile(chains.fput, 0.1).evolve(**chains.normal_mode(12), steps=8, save_every=2)
    assert np.array_equal(shown(out.animate(**SMALL), 3).lines[0].get_ydata(), out.q[3])
    u, v = fields.standing_wave((6, 8))
    out = tp.compile(fields.wave, 0.3).evolve(u=u, v=v, steps=4, save_every=1)
    assert np.array_equal(shown(out.animate(**SMALL), 2).images[0].get_array(), out.u[2])
    out = tp.compile(henon).evolve(x=0.1, y=0.1, steps=9, save_every=1)
    assert len(shown(out.animate(**SMALL), 4).lines[0].get_xdata()) == 5
    assert len(shown(out.animate(y="x", **SMALL), 4).lines[0].get_xdata()) == 5


def test_a_film_in_space_and_one_of_many_bodies(planet):
    ax = shown(planet.animate(x="q[0]", y="q[1]", z="t", **SMALL), 5)
    assert ax.name == "3d" and ax.lines[1].get_data_3d()[2][0] == planet.t[5]
    start = {"q": np.full((30, 2), 1.0) + np.arange(60).reshape(30, 2) / 60, "p": np.zeros((30, 2))}
    out = tp.compile(kepler, 0.05).evolve(**start, steps=4, save_every=1)
    assert np.array_equal(np.stack(shown(out.animate(**SMALL), 2).lines[0].get_data(), -1), out.q[2])


# fmt: off
@pytest.mark.parametrize(("asked", "told"), [
    ({"seconds": 1.0, "speed": 1.0}, "both set the speed"),
    ({"seconds": -1.0},              "not a number above zero"),
    ({"trail": 2.0},                 "fraction of the run"),
    ({"path": "run.avi"},            "not a film format that can be written"),
    ({"kind": "orbit", "y": "q[0]"}, "both choose what is drawn"),
])
# fmt: on
def test_a_film_that_cannot_be_made_is_refused(planet, asked, told):
    with pytest.raises(tp.InputError, match=told):
        planet.animate(**asked)


def test_two_frames_are_no_film_and_thousands_of_pictures_no_page(planet):
    out = tp.compile(kepler, 0.1).evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=1)
    with pytest.raises(tp.InputError, match="save_every="):
        out.animate()
    long = tp.compile(kepler, 0.1).evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=700, save_every=1)
    with pytest.raises(tp.InputError, match=r"714 pictures.*600.*\n.*seconds=24"):
        long.animate("run.gif", seconds=100.0)


def test_without_ffmpeg_one_is_told_what_to_install(planet, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(tp.BackendError, match="imageio-ffmpeg"):
        planet.animate(tmp_path / "run.mp4")
    assert not list(tmp_path.iterdir())


def test_ffmpeg_gets_every_picture(planet, tmp_path, monkeypatch):
    """A program in its place keeps what it is given: frames of one size, in the order of the film."""
    fake = tmp_path / "ffmpeg"
    fake.write_text(f'#!/bin/sh\nfor last; do :; done\ncat > "$last"\necho "$@" > {tmp_path}/said\n')
    fake.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(fake))
    planet.animate(tmp_path / "run.mp4", seconds=0.5, **SMALL)
    said = (tmp_path / "said").read_text()
    width, height = map(int, re.search(r"-s (\d+)x(\d+)", said).groups())
    assert (tmp_path / "run.mp4").stat().st_size == 5 * width * height * 4 and "-framerate 10" in said


@pytest.mark.all
def test_a_film_changes_no_bit(planet):
    before = planet.hash, planet.q.copy()
    planet.animate(seconds=0.2, **SMALL)._repr_html_()
    assert planet.hash == before[0] and np.array_equal(planet.q, before[1])


@pytest.mark.all
def test_every_demo_has_a_scene():
    from matplotlib.figure import Figure

    for d in ZOO.values():
        out = tp.compile(d.system, d.dt).evolve(**d.start, steps=6, save_every=2)
        kind = films.choose_kind(out, out.origin.run.system.seen, None)
        scene(Figure(), out, out.origin.run.system.seen, kind, {}, 0.2).show(1)


WRONG = {
    "a size that is a number": (dict(size=5), "is not a width and a height"),
    "a size of nothing": (dict(size=(0, 0)), "is not a width and a height"),
    "three sizes": (dict(size=(1, 2, 3)), "is not a width and a height"),
    "a picture for years": (dict(speed=1e-9), "each picture would be shown for"),
    "a path that is a number": (dict(path=3), "is not a path"),
    "a directory that is not there": (dict(path="no/such/run.gif"), "could not be written"),
    "half an index": (dict(x="q[0.5]", y="t"), "is not a name with an index"),
    "words": (dict(x=["a"] * 21, y="t"), "not of real numbers"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_film_that_cannot_be_made_is_told_what_to_write(planet, name, tmp_path):
    asked, what = WRONG[name]
    with pytest.raises(tp.TinyPhysicsError, match=what) as error:
        planet.animate(**{"path": tmp_path / "run.gif", **asked}, **SMALL)
    assert error.value.fix
