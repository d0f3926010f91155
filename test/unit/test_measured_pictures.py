"""Pictures of what is measured of a run: its energy with its band, its spectrum, its section, its cloud."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.errors import InputError
from tinyphysics.view.measured import cloud_of, energy_band, section, spectrum

pytest.importorskip("matplotlib")


@tp.hamiltonian
def pendulum(q, p, k: float = 1.0):
    return p**2 / 2 - k * tp.cos(q)


@tp.hamiltonian
def spring(q, p, w: float = 2.0):
    return p**2 / 2 + w**2 * q**2 / 2


@tp.hamiltonian
def henon(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + q @ q / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3


def swing(dt=0.1, **more):
    sim = tp.compile(pendulum, dt=dt, method="leapfrog")
    return sim.evolve(q=1.0, p=0.0, steps=600, save_every=1, **more)


def test_the_energy_of_leapfrog_stays_in_the_band_of_its_shadow_energy():
    out = swing()
    _, values, scale = out.every_step("energy")
    band = energy_band(out, scale)
    error = (values - values[0]) / scale
    assert band.low < band.high and band.high - band.low == pytest.approx(np.ptp(error), rel=0.02)
    assert band.outside < 0.02 * (band.high - band.low)
    finer = swing(dt=0.05)
    narrow = energy_band(finer, finer.every_step("energy")[2])
    assert (band.high - band.low) / (narrow.high - narrow.low) == pytest.approx(4.0, rel=0.05)
    ax = out.plot(kind="energy").axes[0]
    assert "band" in ax.get_title() and len(ax.patches) == 1


def test_a_method_without_a_shadow_energy_has_no_band():
    out = tp.compile(pendulum, dt=0.1, method="rk4").evolve(q=1.0, p=0.0, steps=60, save_every=1)
    assert energy_band(out, out.every_step("energy")[2]) is None
    assert "band" not in out.plot(kind="energy").axes[0].get_title()


def test_a_spectrum_finds_the_frequency_and_the_amplitude():
    w = 2 * np.pi * 0.5
    out = tp.compile(spring, dt=0.01).evolve(q=3.0, p=0.0, w=w, steps=8000, save_every=10)
    f, power = spectrum(out.t, np.asarray(out.q)[:, None])
    assert f[power[:, 0].argmax()] == pytest.approx(0.5, abs=f[0])
    assert power.max() == pytest.approx(9.0, rel=0.05)
    ax = out.plot(kind="spectrum").axes[0]
    assert ax.get_yscale() == "log" and ax.lines[0].get_xdata()[-1] == pytest.approx(5.0, rel=0.01)


def test_a_section_has_the_crossings_of_an_event_and_a_film_shows_those_that_have_passed():
    sim = tp.compile(henon, dt=0.05)
    out = sim.evolve(q=[0.0, 0.1], p=[0.4, 0.2], steps=4000, events={"plane": lambda q: q[0]})
    found = section(out, sim.system)
    assert found.names == ("q[1]", "p[1]") and (found.points[:, 0] == out.events("plane").q[:, 1]).all()
    fig = out.plot(kind="section")
    assert sum(len(c.get_offsets()) for c in fig.axes[0].collections) == len(found.t)
    fig, shown = out.animate(kind="section").drawn()
    shown.show(len(out.t) // 2)
    (dots,) = (line for line in shown.ax.lines if line in shown.moving)
    assert len(dots.get_xdata()) == (found.t <= out.t[len(out.t) // 2]).sum()


def test_a_cloud_is_of_members_or_of_bodies():
    sim = tp.compile(pendulum, dt=0.1)
    out = sim.evolve(q=np.linspace(-1, 1, 50), p=np.zeros(50), steps=20)
    points, names = cloud_of(out, sim.system)
    assert (
        points.shape == (len(out.t), 50, 2) and names == ["q", "p"] and (points[-1, :, 1] == out.p[-1]).all()
    )
    assert "50 points" in out.plot(kind="cloud").axes[0].get_title()


@pytest.mark.parametrize("kind", ["energy", "spectrum", "cloud"])
def test_each_kind_is_a_page_that_loads_nothing(kind, tmp_path):
    path = tmp_path / "run.html"
    swing().animate(path, kind=kind, seconds=0.4, dpi=50)
    text = path.read_text()
    assert "<script>" in text and "http" not in text and text.count("iVBOR") >= 10


@pytest.mark.parametrize(
    ("kind", "run", "says"),
    [
        ("section", lambda: swing(), "recorded none"),
        ("spectrum", lambda: tp.compile(pendulum, dt=0.1).evolve(q=1.0, p=0.0, steps=5), "at least 8 frames"),
        (
            "spectrum",
            lambda: tp.compile(pendulum, dt=0.1).evolve(q=1.0, p=0.0, until=9.0, save_at=list(np.arange(3.0) ** 2) + [5.0, 6.0, 7.0, 8.0, 8.5, 9.0]),
            "equal distances",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_says_what_to_pass(kind, run, says):
    with pytest.raises(InputError, match=says):
        run().plot(kind=kind)
