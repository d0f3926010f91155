"""Does every example run and hold what it asserts, and is every system of the zoo the physics it claims?"""

import importlib.util
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics.zoo import MASSES, ZOO, Galaxy

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def loaded(path):
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def brief(name, steps=200, **options):
    d = ZOO[name]
    return tp.compile(d.system, d.dt).evolve(**d.start, steps=steps, **options)


# --- examples ---------------------------------------------------------------------------------
def test_there_are_examples():
    names = {
        "kepler",
        "pendulum_ensemble",
        "henon_heiles",
        "standard_map",
        "forces",
        "observables",
        "custom_op",
    }
    assert names <= {path.stem for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_the_example_runs_prints_and_holds_its_assertions(path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.thin(rows=3)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_the_example_is_a_program_of_its_own(path):
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, str(path)], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_the_example_is_short_asserts_and_says_what_it_is(path):
    text = path.read_text()
    assert text.startswith('"""') and "assert " in text
    assert 15 <= len(text.splitlines()) <= 55


@pytest.mark.thin(rows=3)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_the_example_can_be_given_to_tp(path, capsys):
    from tinyphysics.cli import main

    assert main(["run", str(path), "--steps", "3"]) == 0
    assert "[perf]" in capsys.readouterr().out


# --- the zoo ----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ZOO)
def test_every_system_runs_and_is_described(name):
    d = ZOO[name]
    out = brief(name, steps=50)
    assert out.stopped is None and out.final.step == 50
    assert 10 < len(d.about) <= 60
    assert (d.dt is None) == (name == "henon")


@pytest.mark.parametrize("name", [n for n in ZOO if n not in ("henon", "driven_pendulum")])
def test_energy_is_kept_over_the_whole_demo(name):
    assert brief(name, steps=ZOO[name].steps).drift("energy") < 3e-3


def test_the_planet_comes_back_after_a_year():
    d = ZOO["kepler"]
    year = 2 * np.pi * (1 / (2 - 1.2**2)) ** 1.5
    out = tp.compile(d.system, year / 4000, order=4).evolve(**d.start, steps=4000)
    assert np.allclose(out.final.q, d.start["q"], atol=1e-8)


def test_the_pendulum_swings_and_does_not_turn_over():
    q = brief("pendulum", steps=1000, save_every=1).q
    assert 2.5 < np.abs(q).max() < np.pi


def test_henon_heiles_starts_at_energy_one_eighth():
    assert brief("henon_heiles", steps=0).energy[0] == pytest.approx(1 / 8, abs=1e-5)


def test_the_double_well_is_crossed():
    q = brief("double_well", steps=1000, save_every=1).q
    assert q.min() < -1 and q.max() > 1


def test_toda_keeps_the_invariant_that_makes_it_integrable():
    def third(q, p):
        """Henon 1974, for three particles on a ring: the cubic invariant."""
        a = [tp.exp(q[i] - q[(i + 1) % 3]) for i in range(3)]
        return p[0] * p[1] * p[2] - p[2] * a[0] - p[0] * a[1] - p[1] * a[2]

    wide, narrow = (
        np.ptp(
            tp.compile(ZOO["toda"].system, h).evolve(**ZOO["toda"].start, until=10.0, observe={"I": third})[
                "I"
            ]
        )
        for h in (0.02, 0.01)
    )
    assert wide < 1e-2 and wide / narrow == pytest.approx(
        4, rel=0.1
    )  # the invariant of the flow, missed by dt**2


def test_fput_has_fixed_walls():
    energy = brief("fput", steps=0).energy[0]
    q = np.concatenate([[0.0], ZOO["fput"].start["q"], [0.0]])
    stretch = np.diff(q)
    assert energy == pytest.approx((stretch**2 / 2 + 0.25 * stretch**3 / 3).sum(), rel=1e-14)


def test_the_shaken_pendulum_stays_upside_down_and_falls_without_the_shaking():
    d = ZOO["driven_pendulum"]
    sim = tp.compile(d.system, d.dt)
    assert np.abs(sim.evolve(**d.start, steps=d.steps, save_every=1).q - np.pi).max() < 0.5
    assert np.abs(sim.evolve(**d.start, shake=0.0, steps=d.steps, save_every=1).q - np.pi).max() > 3


def test_the_henon_map_stays_on_its_attractor():
    out = brief("henon", steps=3000, save_every=1)
    assert np.abs(out.x).max() < 1.3 and np.abs(out.y).max() < 0.4
    x, y = 0.1, 0.1
    for k in range(20):
        assert (out.x[k], out.y[k]) == pytest.approx((x, y), abs=1e-9)
        x, y = 1 - 1.4 * x**2 + y, 0.3 * x


@pytest.mark.requirement("S0-21")
def test_the_graph_of_the_galaxy_computes_what_its_class_computes():
    d = ZOO["galaxy"]
    q, p = (np.asarray(d.start[n]) for n in "qp")
    expected = (p**2 / (2 * MASSES[:, None])).sum()
    for i in range(len(MASSES)):
        for j in range(i):  # each pair once, no body with itself
            r = np.sqrt(((q[i] - q[j]) ** 2).sum() + 0.05**2)
            expected -= MASSES[i] * MASSES[j] / r
    assert brief("galaxy", steps=0).energy[0] == pytest.approx(expected, rel=1e-14)


def test_bodies_of_the_galaxy_attract_and_keep_their_total_momentum():
    q = np.array([[0.0, 0.0], [1.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
    out = tp.compile(Galaxy(np.ones(5)), 0.01).evolve(q=q, p=np.zeros((5, 2)), steps=10)
    assert out.final.q[1, 0] - out.final.q[0, 0] < 1.0
    assert np.abs(out.final.p.sum(axis=0)).max() < 1e-15


@pytest.mark.requirement("S2-28")
def test_a_model_compiles_itself_by_method_symplectic():
    sim = ZOO["galaxy"].system.compile(dt=0.01, method="symplectic")
    assert sim.certificate["symplectic"]
    for wrong in (dict(backend="abacus"), dict(precision="half"), dict(method="magic")):
        with pytest.raises(tp.TinyPhysicsError, match="Backends:|may be|docs/methods.md"):
            ZOO["galaxy"].system.compile(dt=0.01, **wrong)
