"""out.plot(): the figure that suits the system, with its energy beside it, and without any window."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics import chains, fields, fluids, particles
from tinyphysics.physics.zoo import ZOO, henon, kepler, pendulum

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
RANDOM = np.random.default_rng(0)


def zoo(name, steps=60, every=2):
    d = ZOO[name]
    return tp.compile(d.system, d.dt).evolve(**d.start, steps=steps, save_every=every)


def axes(out):
    """The panels by what they are; a scale of colours is none."""
    fig = out.plot()
    assert isinstance(fig, Figure)
    fig.canvas.draw()  # whatever is wrong in it is wrong now
    return [a for a in fig.axes if a.get_label() != "<colorbar>"]


def test_one_degree_of_freedom_is_a_phase_portrait_a_course_and_an_energy():
    out = zoo("pendulum")
    portrait, course, energy = axes(out)
    assert (portrait.get_xlabel(), portrait.get_ylabel(), portrait.get_title()) == (
        "q",
        "p",
        "phase portrait",
    )
    assert np.array_equal(course.lines[0].get_ydata(), out.q) and np.array_equal(
        course.lines[0].get_xdata(), out.t
    )
    t, values, scale = out.every_step()
    drawn = energy.lines[-1]
    assert np.array_equal(drawn.get_xdata(), t) and np.array_equal(
        drawn.get_ydata(), (values - values[0]) / scale
    )
    assert f"{out.drift():.1e}" in energy.get_title()


@pytest.mark.parametrize("name", ["kepler", "galaxy", "henon_heiles"])
def test_orbits_have_equal_axes(name):
    portrait, energy = axes(zoo(name))
    assert portrait.get_aspect() == 1.0 and "orbit" in portrait.get_title() and "energy" in energy.get_title()


def test_a_chain_is_an_image_of_space_and_time():
    out = tp.compile(chains.fput, 0.1).evolve(**chains.normal_mode(12), steps=40, save_every=4)
    portrait, _ = axes(out)
    (mesh,) = portrait.collections
    assert np.array_equal(mesh.get_array().reshape(11, 12), out.q)
    assert mesh.norm.vmin == -mesh.norm.vmax or (out.q >= 0).all()  # 0 is white


def test_a_field_is_its_last_frame():
    u, v = fields.standing_wave((6, 8))
    out = tp.compile(fields.wave, 0.3).evolve(u=u, v=v, steps=10, save_every=5)
    portrait, _ = axes(out)
    assert np.array_equal(portrait.images[0].get_array(), out.u[-1]) and "t = 3" in portrait.get_title()


def test_populations_of_a_fluid_are_summed_to_a_density():
    out = tp.compile(fluids.fluid).evolve(f=fluids.taylor_green(8, 8), tau=1.0, steps=4)
    (portrait,) = axes(out)  # a map has no energy
    assert np.asarray(portrait.images[0].get_array()) == pytest.approx(out.f[-1].sum(0))


def test_particles_in_space_are_seen_from_above_with_their_height_as_colour():
    out = tp.compile(particles.gravity, 0.01).evolve(**particles.plummer(30, seed=1), softening=0.1, steps=4)
    portrait, _ = axes(out)
    order = np.argsort(out.q[-1, :, 2])
    assert np.array_equal(portrait.collections[0].get_offsets(), out.q[-1, order, :2])
    assert np.array_equal(portrait.collections[0].get_array(), out.q[-1, order, 2])


def test_a_map_shows_its_iterates():
    out = tp.compile(henon).evolve(x=0.1, y=0.1, steps=200, save_every=1)
    (portrait,) = axes(out)
    assert np.array_equal(portrait.collections[0].get_offsets(), np.stack([out.x, out.y], 1))

    @tp.map
    def logistic(x, r: float = 3.9):
        return r * x * (1 - x)

    (portrait,) = axes(tp.compile(logistic).evolve(x=0.3, steps=50, save_every=1))
    assert portrait.get_xlabel() == "step"


@pytest.mark.parametrize("members", [1, 5, 40, 25_000])
def test_ensembles_are_curves_then_points_then_a_density(members):
    out = tp.compile(pendulum, 0.1).evolve(
        q=RANDOM.normal(size=members), p=RANDOM.normal(size=members), steps=12, save_every=4
    )
    portrait, course, energy = axes(out)
    kinds = {type(c).__name__ for c in portrait.collections}
    assert (
        kinds
        == {1: {"LineCollection"}, 5: set(), 40: {"PathCollection"}, 25_000: {"PolyCollection"}}[members]
    )
    assert len(portrait.lines) == {1: 3, 5: 10}.get(members, 0)
    assert ("frames" in energy.get_title()) == (members == 25_000)  # a replay of every step would be long


def test_two_frames_say_how_to_get_more():
    out = tp.compile(kepler, 0.05).evolve(q=[1.0, 0.0], p=[0.0, 1.0], steps=50, save_every=50)
    assert "save_every" in out.plot().get_suptitle()
    assert "save_every" not in zoo("kepler").plot().get_suptitle()


def test_a_run_that_stopped_or_had_no_member_is_drawn_too():
    out = tp.compile(kepler, 0.05).evolve(
        q=[[1.0, 0.0], [0.0, 0.0]], p=[[0.0, 1.0], [0.0, 0.0]], steps=20, save_every=2
    )
    assert out.stopped is not None and axes(out)
    assert out.plot().axes
    none = tp.compile(kepler, 0.05).evolve(q=np.empty((0, 2)), p=np.empty((0, 2)), steps=3)
    assert "without members" in none.plot().get_suptitle()


# --- pictures that are asked for ------------------------------------------------------------------
@tp.ode
def lorenz(x, y, z, s=10.0, r=28.0, b=8 / 3):
    return s * (y - x), x * (r - z) - y, x * y - b * z


@pytest.fixture(scope="module")
def butterfly():
    return tp.compile(lorenz, 0.02).evolve(x=1.0, y=1.0, z=20.0, steps=50, save_every=1)


@pytest.fixture(scope="module")
def planet():
    return tp.compile(kepler, 0.05).evolve(
        q=[1.0, 0.0],
        p=[0.0, 1.2],
        steps=60,
        save_every=6,
        observe={"r": lambda q: tp.norm(q)},
        observe_every=2,
    )


def only(out, **asked):
    fig = out.plot(**asked)
    fig.canvas.draw()
    (ax,) = [a for a in fig.axes if a.get_label() != "<colorbar>"]
    return ax


def test_three_numbers_are_a_path_in_space_and_their_courses(butterfly):
    path, course = axes(butterfly)
    assert path.name == "3d" and [t.get_text() for t in course.get_legend().get_texts()] == ["x", "y", "z"]
    assert np.array_equal(np.stack(path.lines[0].get_data_3d()), [butterfly.x, butterfly.y, butterfly.z])


def test_a_point_in_space_is_a_path_and_three_sites_of_a_chain_are_courses():
    @tp.hamiltonian
    def well(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2 + q @ q / 2 + q[0] * q[1] * q[2]

    start = {"q": [0.1, 0.2, 0.3], "p": [0.0, 0.1, 0.0]}
    assert axes(tp.compile(well, 0.1).evolve(**start, steps=9, save_every=1))[0].name == "3d"
    assert axes(zoo("toda"))[0].get_xlabel() == "t"


def test_bodies_leave_the_plane_only_where_their_orbits_do():
    flat = particles.plummer(3, seed=1)
    sim = tp.compile(particles.gravity, 0.01)

    def run(q):
        return sim.evolve(**(flat | {"q": q}), softening=0.5, steps=6, save_every=1)

    assert axes(run(flat["q"]))[0].name == "3d"
    # no force and no velocity along the third axis
    flat["p"][:, 2] = 0.0
    assert axes(run(flat["q"] * [1, 1, 0]))[0].name == "rectilinear"


def test_one_number_without_a_momentum_is_drawn_over_time():
    @tp.ode
    def decay(x, k=1.0):
        return -k * x

    out = tp.compile(decay, 0.1).evolve(x=1.0, steps=9, save_every=1)
    (course,) = axes(out)
    assert np.array_equal(course.lines[0].get_ydata(), out.x)


def test_axes_are_named_by_states_with_indices_energy_observables_and_arrays(planet):
    ax = only(planet, x="q[0]", y="p[1]")
    assert np.array_equal(np.stack(ax.lines[0].get_data()), [planet.q[:, 0], planet.p[:, 1]])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("q[0]", "p[1]")
    ax = only(planet, y="r")  # at its own times, of which there are more than frames
    assert np.array_equal(np.stack(ax.lines[0].get_data()), [planet.times("r"), planet["r"]])
    ax = only(planet, x="r", y="energy")  # at those that both have
    assert np.array_equal(np.stack(ax.lines[0].get_data()), [planet["r"][::3], planet.energy])
    ax = only(planet, y=planet.q**2)
    assert np.array_equal(ax.lines[1].get_ydata(), planet.q[:, 1] ** 2)
    space = only(planet, x="q[0]", y="q[1]", z="t")
    assert np.array_equal(space.lines[0].get_data_3d()[2], planet.t)


def test_an_index_counts_from_the_state_of_each_member():
    q = RANDOM.normal(size=(4, 2)) + 2
    out = tp.compile(kepler, 0.05).evolve(q=q, p=np.zeros((4, 2)), steps=6, save_every=2)
    ax = only(out, y="q[1]")
    assert [np.array_equal(line.get_ydata(), out.q[:, k, 1]) for k, line in enumerate(ax.lines)] == [True] * 4


@pytest.mark.parametrize("kind", ["orbit", "phase", "time", "energy", "chain"])
def test_a_kind_is_one_picture(planet, kind):
    assert only(planet, kind=kind).has_data()


def test_a_phase_portrait_finds_the_momentum_of_a_component(planet):
    ax = only(planet, kind="phase", x="q[1]")
    assert ax.get_ylabel() == "p[1]" and np.array_equal(ax.lines[0].get_ydata(), planet.p[:, 1])


# fmt: off
@pytest.mark.parametrize(("asked", "told"), [
    ({"kind": "orbits"},              r"kind='orbits' is not a kind of picture.*\n.*`orbit`"),
    ({"kind": "field"},               r"cannot be drawn as kind='field'.*\n.*orbit"),
    ({"kind": "energy", "y": "q[0]"}, r"both choose the axes"),
    ({"x": "q[0]"},                   r"x= without y="),
    ({"z": "q[0]"},                   r"z= without x= and y="),
    ({"y": "w"},                      r"y='w' was not recorded in this run.*\n.*observe="),
    ({"y": "q[2]"},                   r"`q` has the shape \(2,\)"),
    ({"y": "energy[0]"},              r"`energy` is a single number"),
    ({"y": "q[p]"},                   r"not a name with an index"),
    ({"x": "q", "y": "p[0]"},         r""),
    ({"y": [1.0, 2.0]},               r"list with 2 rows, and the run has 11 frames"),
    ({"figure": "energy"},            r'out.plot\(kind="energy"\)'),
])
# fmt: on
def test_a_picture_that_cannot_be_drawn_is_refused_with_what_to_write(planet, asked, told):
    if not told:
        only(planet, **asked)  # one momentum against two positions: two curves
        return
    with pytest.raises(tp.InputError if "shape" not in told and "single" not in told else tp.ShapeError, match=told):
        planet.plot(**asked)


def test_a_figure_of_the_users_own_is_drawn_into():
    mine = Figure()
    assert zoo("kepler").plot(figure=mine) is mine and len(mine.axes) == 2


def test_a_notebook_gets_a_picture_and_nothing_opens_a_window():
    assert zoo("kepler").plot()._repr_png_()[:8] == b"\x89PNG\r\n\x1a\n"
    code = (
        "import sys, tinyphysics as tp; from tinyphysics.physics.zoo import kepler\n"
        "tp.compile(kepler, 0.1).evolve(q=[1.0, 0], p=[0, 1.0], steps=5, save_every=1).plot()\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    assert done.stdout.strip() == "False"


def test_without_matplotlib_one_is_told_what_to_install(monkeypatch):
    out = zoo("kepler")
    for name in [n for n in sys.modules if n.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "tinyphysics.view.figures", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(tp.BackendError, match=r"tinyphysics\[plot\]"):
        out.plot()


def test_drawing_changes_no_bit():
    out = zoo("galaxy")
    before = out.hash, out.q.copy()
    out.plot()
    assert out.hash == before[0] and np.array_equal(out.q, before[1])
