"""Sizes and maps: what is wrong is named, with what to write instead; and what looks wrong but is not, runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics.chains import fput
from tinyphysics.physics.fluids import fluid, still
from tinyphysics.physics.particles import gravity, plummer

START = plummer(3, seed=1)
HALF = {"q": START["q"], "p": START["p"]}


def weighted(q: tp.Vec["n"], p: tp.Vec["n"], w: tp.Vec["k"] = 1.0):
    return p @ p / 2 + w.sum() * (q @ q)


def mixed(q: tp.Vec["n"], p: tp.Vec["n"], w: tp.Vec["k"] = 1.0):
    return p @ p / 2 + (w * q).sum()


def square(u: tp.Array["n", "n"], v: tp.Array["n", "n"]):
    return (v**2).sum() / 2 + (u**2).sum() / 2


def one_plane(f: tp.Array[9, "h", "w"]):
    return f[0]


def planes(f: tp.Array[9, "h", "w"], tau: float = 1.0):
    return [np.roll(f[k], 1, 0) for k in range(9)]


def stacked(x: tp.Vec["n"], y: tp.Vec["n"]):
    return np.stack([x, y])


def named(x: tp.Vec["n"], y: tp.Vec["n"]):
    return {"x": y, "y": x}


def nothing(x: tp.Vec["n"]):
    x + 1


SMALL = {"h": 2, "w": 2}


@pytest.mark.parametrize(
    "call, what, remedy",
    [
        # a letter with two sizes
        (
            lambda: tp.compile(gravity, dt=0.1).evolve(**HALF, m=np.ones(4), steps=1),
            "`m` has n = 4, but `q` has n = 3",
            "one size",
        ),
        (
            lambda: tp.compile(fluid).evolve(f=still(2, 3), solid=np.zeros((3, 2)), steps=1),
            "`solid` has h = 3, but `f` has h = 2",
            "one size",
        ),
        (
            lambda: tp.compile(tp.hamiltonian(mixed), dt=0.1, sizes={"n": 3, "k": 4}),
            "shapes (4,) and (3,)",
            "x[:, None]",
        ),
        # a shape that is not the declared one
        (
            lambda: tp.compile(gravity, dt=0.1).evolve(q=np.ones((3, 2)), p=np.ones((3, 2)), steps=1),
            "declares (n, 3)",
            "One member: (n, 3)",
        ),
        (
            lambda: tp.compile(gravity, dt=0.1).evolve(q=np.ones(9), p=np.ones(9), steps=1),
            "declares (n, 3)",
            "(members, n, 3)",
        ),
        (lambda: tp.compile(fluid).evolve(f=still(2, 3)[:8], steps=1), "declares (9, h, w)", "One member"),
        (
            lambda: tp.compile(fluid).evolve(f=np.moveaxis(still(2, 3), 0, -1), steps=1),
            "shape (2, 3, 9); the system declares (9, h, w)",
            "",
        ),
        (
            lambda: tp.compile(tp.hamiltonian(square), dt=0.1).evolve(
                u=np.ones((2, 3)), v=np.ones((2, 3)), steps=1
            ),
            "declares (n, n)",
            "One member",
        ),
        (
            lambda: tp.compile(gravity, dt=0.1, sizes={"n": 2}).evolve(**START, steps=1),
            "declares shape (2, 3)",
            "(members, 2, 3)",
        ),
        (lambda: tp.compile(fput, dt=0.1).evolve(q=[], p=[], steps=1), "the size `n` is 0", "at least 1"),
        # a letter that nothing binds
        (lambda: tp.compile(gravity, dt=0.1).explain("full"), "its size n is unknown", "sizes={'n': 16}"),
        (
            lambda: tp.compile(gravity, dt=0.1).evolve(steps=1),
            "the size `n` cannot be determined",
            "Pass q=...",
        ),
        (
            lambda: tp.compile(tp.hamiltonian(weighted), dt=0.1).evolve(q=[1.0], p=[1.0], steps=1),
            "the size `k` cannot",
            "sizes={'n': 1, 'k': ...}",
        ),
        (lambda: tp.compile(fluid, sizes={"h": 3}), "the size `w` is not known", "sizes={'h': 3, 'w': 16}"),
        (lambda: tp.compile(gravity, dt=0.1, sizes={"N": 3}), "no size `N`", "`n`"),
        (lambda: tp.compile(gravity, dt=0.1, sizes=3), "not a dict", 'sizes={"n": 16}'),
        (lambda: tp.compile(gravity, dt=0.1, sizes={"n": 0}), "sizes={'n': 0}", "positive integer"),
        # a map whose results are not its states
        (
            lambda: tp.compile(tp.map(one_plane), sizes=SMALL),
            "returns shape (2, 2) for `f`, which has (9, 2, 2)",
            "np.stack",
        ),
        (
            lambda: tp.compile(tp.map(planes), sizes=SMALL),
            "returns 9 states but takes 2 arguments",
            "np.stack turns a list of arrays into one state",
        ),
        (
            lambda: tp.compile(tp.map(stacked), sizes={"n": 3}),
            "returns shape (2, 3) for `x`, which has (3,)",
            "one new value per state",
        ),
        (lambda: tp.compile(tp.map(named), sizes={"n": 3}), "returns a dict", "return x, y"),
        (lambda: tp.compile(tp.map(nothing), sizes={"n": 3}), "returns nothing", "return"),
        (lambda: tp.compile(fluid, dt=0.1), "is a map: it has no dt", "Leave dt= out: tp.compile(system)"),
        # starts
        (lambda: plummer(-1), "n=-1 does not fit", "from 0"),
        (lambda: plummer(2.5), "n=2.5 is not a whole number", "Pass n="),
        (lambda: plummer(3, seed=-1), "seed=-1 does not fit 64 bits", "from 0"),
    ],
)
def test_the_error_says_what_and_the_remedy(call, what, remedy):
    with pytest.raises(tp.TinyPhysicsError) as error:
        call()
    assert what in str(error.value) and remedy in str(error.value)


def test_sizes_bound_by_the_first_run_stay():
    sim = tp.compile(fput, dt=0.1)
    sim.evolve(q=[0.1, 0.2], p=[0.0, 0.0], steps=1)
    with pytest.raises(
        tp.ShapeError, match="`n` is 2 since the first run of this simulation; this run has 3"
    ):
        sim.evolve(q=[0.1, 0.2, 0.3], p=[0.0] * 3, steps=1)


def test_a_map_with_letters_needs_no_dt_before_its_sizes_are_known():
    sim = tp.compile(fluid)
    assert "sizes still open" in repr(sim)
    assert sim.evolve(f=still(2, 2), steps=1).final.f.shape == (9, 2, 2)
    with pytest.raises(tp.InputError, match="dt is missing"):
        tp.compile(gravity).evolve(q=[[1.0, 0.0, 0.0]], p=[[1.0, 0.0, 0.0]], steps=1)


def test_one_of_everything_runs():
    assert tp.compile(gravity, dt=0.1).evolve(q=[[1.0, 0.0, 0.0]], p=[[1.0, 0.0, 0.0]], steps=10).final.q[
        0, 0
    ] == pytest.approx(2)
    assert tp.compile(fput, dt=0.1).evolve(q=[0.1], p=[0.0], steps=1).stopped is None
    assert tp.compile(fluid).evolve(f=still(1, 1), steps=3).final.f == pytest.approx(still(1, 1))


def test_ensembles_of_arrays_are_the_members_alone():
    other = plummer(3, seed=2)
    sim = tp.compile(gravity, dt=0.1)
    both = sim.evolve(
        q=[START["q"], other["q"]], p=[START["p"], other["p"]], m=START["m"], softening=0.1, steps=20
    )
    for k, start in enumerate((START, other)):
        assert (both.final.q[k] == sim.evolve(**start, softening=0.1, steps=20).final.q).all()


# --- where it is ------------------------------------------------------------------------------------
def test_the_library_is_reached_by_name_and_costs_nothing_before():
    code = (
        "import sys, tinyphysics as tp; assert 'numpy' not in sys.modules; "
        "assert 'physics' in dir(tp); assert set(tp.physics.__dir__()) >= {'particles', 'chains', 'fields', 'fluids', 'zoo'}; "
        "assert 'numpy' not in sys.modules; print(tp.physics.particles.gravity.name)"
    )
    path = str(Path(tp.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.stdout.strip() == "gravity", done.stderr
    with pytest.raises(AttributeError, match="tinyphysics.physics has no `optics`"):
        tp.physics.optics


def test_the_page_of_systems_names_every_one():
    page = (Path(__file__).parents[2] / "docs" / "physics.md").read_text(encoding="utf-8")
    for file in ("particles", "chains", "fields", "fluids"):
        module = getattr(tp.physics, file)
        names = [n for n, v in vars(module).items() if type(v).__name__ in ("System", "SizedFamily")]
        assert len(names) >= 2 and [n for n in names if f"| `{n}`" not in page] == []
