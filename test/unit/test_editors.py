"""What do editors, type checkers and notebooks know?  Types of the README, names to complete, frames of an error."""

import copy
import inspect
import io
import pickle
import pydoc
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.context import FRAMES
from tinyphysics.front import spaces
from tinyphysics.front.editor import Symbol
from tinyphysics.ir import UOp
from tinyphysics.physics.chains import fput

from tools_of import tool

ROOT = Path(__file__).parents[2]

# as users write: letters, annotations as text, units, a class, one number for all, a name of the user's own
WRITTEN = """
from __future__ import annotations

from typing import Annotated

import numpy as np
import tinyphysics as tp
from tinyphysics import Array as Field, Vec


@tp.hamiltonian
def chain(q: Annotated[tp.Vec["n"], "m"], p: Field["n"], m: tp.Vec["n"], k: float = 1.0):
    apart = (q[1:] - q[:-1]) ** 2
    return (p * p / (2 * m)).sum() + k * np.sin(apart).sum() + q.T @ q + np.roll(q, 1).mean()


@tp.map
def cat(x, y):
    return (2 * x + y) % 1.0, (x + y) % 1.0


class Well(tp.PhysicsSystem):
    def energy(self, q: Vec["n"], p: Vec["n"]):
        if True:
            inner: tp.Array["n", 3] = q
        return p @ p / 2 + tp.sum(inner) + tp.abs(q).sum()


out = tp.compile(chain, dt=0.1).evolve(q=[1.0, 2.0], p=[0.0, 0.0], m=[1.0, 1.0], steps=3)
print(out.q, out.final.p, out.drift("energy"))
"""
ONE_FOR_ALL = """
import tinyphysics as tp

@tp.hamiltonian
def gas(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"] = 1.0):
    return ((p**2).sum(-1) / (2 * m)).sum() + q.nonsense
"""


def files(tmp_path, **texts):
    """The README's Python as a file, and other texts beside it."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = [b.text for b in tool("docs").blocks(page) if b.language == "python"]
    assert blocks
    for name, text in {"readme": "\n".join(blocks), **texts}.items():
        (tmp_path / f"{name}.py").write_text(text)


@pytest.mark.all
def test_the_code_of_the_readme_passes_pyright(tmp_path):
    pytest.importorskip("pyright")
    files(tmp_path, written=WRITTEN, wrong="import tinyphysics as tp\ntp.compile(3, nonsense=1)\n")
    (tmp_path / "pyrightconfig.json").write_text(
        f'{{"extraPaths": ["{ROOT / "src"}"], "pythonVersion": "3.11", "reportPrivateImportUsage": "error"}}'
    )
    call = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--project", str(tmp_path)]
    done = subprocess.run(call, capture_output=True, text=True)
    wrong = [line.strip() for line in done.stdout.splitlines() if " - error: " in line]
    assert len(wrong) == 1 and "wrong.py:2" in wrong[0] and "nonsense" in wrong[0], done.stdout + done.stderr


@pytest.mark.all
def test_the_code_of_the_readme_passes_mypy_with_the_plugin(tmp_path):
    files(tmp_path, written=WRITTEN, one_for_all=ONE_FOR_ALL)
    (tmp_path / "pyproject.toml").write_text('[tool.mypy]\nplugins = ["tinyphysics.mypy_plugin"]\n')
    call = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--check-untyped-defs"]
    call += ["--cache-dir", str(tmp_path / "cache"), "readme.py", "written.py", "one_for_all.py"]
    env = {"PYTHONPATH": str(ROOT / "src"), "MYPYPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_plugin_names_the_shapes_that_exist():
    plugin = pytest.importorskip("tinyphysics.mypy_plugin")
    for name in plugin.SHAPES:
        assert getattr(tp, name) is getattr(spaces, name) and getattr(spaces, name).__module__ == plugin.PLACE
    assert plugin.plugin("2.0") is plugin.Shapes


def test_what_an_editor_offers_on_a_symbol_is_what_a_symbol_has():
    """Symbol is written for editors alone, so that it could say more than there is."""
    own = {name for name, value in vars(Symbol).items() if callable(value) or isinstance(value, property)}
    assert {"sum", "T", "__matmul__", "__getitem__"} <= own
    assert [name for name in own if not hasattr(UOp, name)] == []
    for name in ("sum", "mean", "max", "min", "dot", "reshape", "transpose", "roll"):
        assert (
            list(inspect.signature(getattr(Symbol, name)).parameters)
            == list(inspect.signature(getattr(UOp, name)).parameters)
            or name == "dot"
        )


def test_a_type_checker_sees_every_public_name():
    """An import under another name is private to type checkers; those of tp are assigned or imported as themselves."""
    text = (ROOT / "src" / "tinyphysics" / "__init__.py").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("from tinyphysics") and " as " in line:
            name, alias = line.partition(" import ")[2].split(" as ")
            assert alias.startswith("_") or alias == name, line


# --- completion -----------------------------------------------------------------------------------
@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.lagrangian
def pendulum(theta, w, length=1.0):
    return length**2 * w**2 / 2 + length * np.cos(theta)


@pytest.fixture(scope="module")
def run():
    sim = tp.compile(kepler, dt=0.02)
    return sim, sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=5, observe={"r2": lambda q: q @ q})


def test_evolve_lists_states_and_parameters_before_its_options(run):
    names = inspect.signature(run[0].evolve).parameters
    assert list(names)[:3] == ["q", "p", "mu"] and {"steps", "until", "save"} <= set(names)
    assert names["mu"].default == 1.0 and names["q"].default is inspect.Parameter.empty
    assert not any(p.kind is p.VAR_KEYWORD for p in names.values())
    assert {"q", "p", "mu", "force"} <= set(inspect.signature(run[0].minimise).parameters)
    assert {"q", "p", "mu", "error"} <= set(inspect.signature(run[0].suggest_dt).parameters)


def test_a_family_lists_its_arguments_before_its_size_is_known():
    assert list(inspect.signature(tp.compile(fput, dt=0.1).evolve).parameters)[:2] == ["q", "p"]


def test_a_lagrangian_lists_its_velocity():
    names = list(inspect.signature(tp.compile(pendulum, dt=0.1).evolve).parameters)
    assert {"theta", "w", "length"} <= set(names)


def test_a_bound_method_is_still_a_method(run):
    sim, out = run
    assert sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=5).hash == out.hash
    assert tp.Simulation.evolve(sim, q=[1.0, 0.0], p=[0.0, 1.2], steps=5).hash == out.hash
    assert pickle.loads(pickle.dumps(sim)).evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=5).hash == out.hash
    assert copy.copy(sim).evolve.__self__ is not sim
    told = pydoc.render_doc(sim.evolve, renderer=pydoc.plaintext)
    assert (
        "evolve(*, q, p, mu=1.0, steps" in told
        and inspect.getdoc(tp.Simulation.evolve).splitlines()[0] in told
    )


def test_a_run_and_a_frame_list_their_states(run):
    _, out = run
    assert {"q", "p", "t", "energy", "drift"} <= set(dir(out))
    assert {"q", "p", "t", "step"} <= set(dir(out.final))
    assert {"q", "p", "r2"} == set(out._ipython_key_completions_())
    assert out.final._ipython_key_completions_() == ["q", "p"]
    motion = tp.compile(pendulum, dt=0.1).evolve(theta=1.0, w=0.0, steps=2)
    assert "w" in dir(motion) and len(motion.w) == len(motion.t)


# --- tracebacks -----------------------------------------------------------------------------------
PACKAGE = str(Path(tp.__file__).parent)


def files_of(error):
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


def refused(call):
    """The error of a call, with its traceback as a user sees it."""
    with pytest.raises(tp.TinyPhysicsError) as found:
        call()
    return found.value


def inside(x):
    return 1.0 if x < 1 else 2.0


def wall(q, p):
    return p**2 / 2 + inside(q)


def rolling(q, v):
    return v**2 / 2 - inside(q)


class Wall(tp.PhysicsSystem):
    def energy(self, q, p):
        return p**2 / 2 + inside(q)


def rows(q: tp.Vec["n"], p: tp.Vec["n"]):
    return p @ p / 2 + inside(q[0])


# fmt: off
TRACED = {
    "decorator":              lambda: tp.hamiltonian(wall),
    "decorator with options": lambda: tp.hamiltonian(pairs=[("q", "p")])(wall),
    "lagrangian":             lambda: tp.lagrangian(pairs=[("q", "v")])(rolling),
    "class":                  lambda: Wall().compile(0.1),
    "class, tp.compile":      lambda: tp.compile(Wall(), 0.1),
    "sum":                    lambda: Wall() + kepler,
    "size at compile":        lambda: tp.hamiltonian(rows).compile(0.1, sizes={"n": 3}),
    "size at evolve":         lambda: tp.compile(tp.hamiltonian(rows), 0.1).evolve(q=[1.0, 2.0], p=[0.0, 0.0], steps=1),
    "observable":             lambda: tp.compile(kepler, 0.1).evolve(q=[1.0, 0.0], p=[0.0, 1.0], steps=1, observe={"x": lambda q: inside(q[0])}),
}
# fmt: on


@pytest.mark.parametrize("how", TRACED)
def test_a_traceback_while_tracing_shows_the_users_frames_only(how):
    error = refused(TRACED[how])
    assert isinstance(error, tp.TraceError)
    found = files_of(error)
    assert not [f for f in found if f.startswith(PACKAGE)], found
    assert traceback.extract_tb(error.__traceback__)[-1].name == "inside"


def test_what_python_raised_is_shown_without_our_frames_too():
    def division(q, p):
        return p**2 / 2 + q / (1 // 0)

    error = refused(lambda: tp.hamiltonian(division))
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert traceback.extract_tb(error.__cause__.__traceback__)[-1].name == "division"
    text = io.StringIO()
    traceback.print_exception(error, file=text)
    assert PACKAGE not in text.getvalue()


def test_a_call_that_is_refused_ends_at_the_users_line(run):
    error = refused(lambda: run[0].evolve(q=[1.0, 0.0], p=[0.0], steps=1))
    assert [frame.name for frame in traceback.extract_tb(error.__traceback__)][-1] == "<lambda>"
    assert not [f for f in files_of(error) if f.startswith(PACKAGE)]


def test_a_flag_shows_every_frame():
    with FRAMES(1):
        error = refused(TRACED["decorator"])
    assert any(f.startswith(PACKAGE) for f in files_of(error))


def test_a_warning_names_the_users_line():
    sim = tp.compile(kepler, dt=0.5)
    with pytest.warns(tp.PhysicsWarning) as found:
        sim.evolve(q=[0.1, 0.0], p=[0.0, 1.2], steps=50)
    assert found[0].filename == __file__
