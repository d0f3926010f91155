"""Do old module paths work?  Each gives the module that moved, and says what to write instead."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from tools_of import tool

import tinyphysics as tp
from tinyphysics import moved
from tinyphysics.ir import Ops

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tinyphysics"
OLD_PICKLE = (
    ROOT / "test" / "golden" / "before_the_rooms.pickle"
)  # a simulation, its run and an error, of 0.1.0
FACE = {"tpir.vm", "tpir.lower"}  # public names of tinyphysics.tpir
PLAIN = sorted(set(moved.MOVED) - moved.ROOMS - FACE)


def forget() -> None:
    for old in PLAIN:
        package, _, name = old.rpartition(".")
        if sys.modules.pop(f"tinyphysics.{old}", None) is not None:
            vars(sys.modules[f"tinyphysics.{package}"]).pop(name, None)


@pytest.fixture
def forgotten():
    """No old path has been used, and after the test none has been."""
    forget()
    yield
    forget()


def told(code: str, name: str = "somebody") -> tuple[list[str], dict]:
    """What the code warns of, and what it defines."""
    space: dict = {"__name__": name}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(code, "script.py", "exec"), space)
    assert all(w.category is DeprecationWarning and w.filename == "script.py" for w in caught)
    return [str(w.message) for w in caught], space


def test_every_old_path_is_the_module_itself(forgotten):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for old in PLAIN:
            new = importlib.import_module(f"tinyphysics.{moved.MOVED[old]}")
            assert importlib.import_module(f"tinyphysics.{old}") is new, old
            assert new.__spec__.name == new.__name__ == f"tinyphysics.{moved.MOVED[old]}"


def test_old_paths_that_are_rooms_now_have_every_public_name_they_had():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for old in moved.ROOMS:
            room = importlib.import_module(f"tinyphysics.{old}")
            new = importlib.import_module(f"tinyphysics.{moved.MOVED[old]}")
            own = [n for n, v in vars(new).items() if getattr(v, "__module__", "") == new.__name__]
            assert own and all(getattr(room, name) is getattr(new, name) for name in own), old


@pytest.mark.parametrize(
    ("line", "new", "name"),
    [
        ("from tinyphysics.rules.exact import exact as it", "tinyphysics.rules.identities.exact", "exact"),
        ("from tinyphysics.rules import jet as it", "tinyphysics.rules.calculus.jet", None),
        ("import tinyphysics.runtime.there as it", "tinyphysics.runtime.engines.caller_arrays", None),
        ("import tinyphysics.device.near\nit = tinyphysics.device.near", "tinyphysics.device.host.neighbours", None),
        ("from importlib import import_module as f\nit = f('tinyphysics.rules.jvp')", "tinyphysics.rules.calculus.jvp", None),
        ("from tinyphysics.device.cuda import DeviceError as it", "tinyphysics.device.cuda.driver", "DeviceError"),
        ("import tinyphysics.device.cuda as cuda\nit = cuda.DeviceError", "tinyphysics.device.cuda.driver", "DeviceError"),
        ("from tinyphysics.device.host import LOST as it", "tinyphysics.device.numbers", "LOST"),
        ("from tinyphysics.planner.cost import operations as it", "tinyphysics.planner.cost.cost", "operations"),
    ],
)  # fmt: skip
def test_an_old_line_works_and_shows_the_new_one(forgotten, line, new, name):
    warned, space = told(line)
    module = importlib.import_module(new)
    assert space["it"] is (module if name is None else getattr(module, name))
    (message,) = warned
    assert f"from {new} import" in message and f"goes away in {moved.GONE}" in message


def test_a_new_line_warns_of_nothing():
    lines = "from tinyphysics.device.cuda import driver, tuning\nfrom tinyphysics.planner.cost import loops\n"
    warned, space = told(
        lines + "from tinyphysics.tpir import vm, lower, verify\nimport tinyphysics.device.host"
    )
    assert warned == [] and space["driver"].__name__ == "tinyphysics.device.cuda.driver"
    assert space["loops"].__name__ == "tinyphysics.planner.cost.loops" and callable(space["lower"])


@pytest.mark.parametrize(
    "line",
    [
        "from tinyphysics.tpir.propagate import declared, not_constant",
        "from tinyphysics.tpir.kernel import Section, reads_before_writing",
        "from tinyphysics.synth.splitting import split_step, palindrome",
        "from tinyphysics.emit.opencl import module, nests_module, part_name",
        "from tinyphysics.device.engine import KernelEngine, Parts",
        "from tinyphysics.device.series import SeriesEngine, CLOCK, Code",
        "from tinyphysics.device.host import Host, NUMPY_DTYPE, finite",
        "from tinyphysics.runtime.execute import Run, execute",
        "from tinyphysics.runtime.plans import Known, Recipe, made",
        "from tinyphysics.runtime.checkpoint import Checkpoint, Identity, read",
    ],
)
def test_names_of_a_module_that_was_taken_apart_are_found(forgotten, line):
    assert told(line)[0]


def test_the_public_face_of_tpir_stays_what_it_was(forgotten):
    warned, space = told(
        "import tinyphysics.tpir.lower, tinyphysics.tpir.vm\nfrom tinyphysics.tpir import lower, vm"
    )
    assert space["lower"] is importlib.import_module("tinyphysics.tpir.program.lower").lower
    assert space["vm"] is importlib.import_module("tinyphysics.tpir.program.vm")


def test_a_name_that_never_was_is_still_an_error(forgotten):
    with pytest.raises(ImportError, match="nothing_like_this"):
        told("from tinyphysics.device.cuda import nothing_like_this")
    with pytest.raises(ImportError, match="nothing_like_this"):
        told("from tinyphysics.rules.exact import nothing_like_this")
    with pytest.raises(ModuleNotFoundError, match="tinyphysics.rules.nothing_like_this"):
        told("import tinyphysics.rules.nothing_like_this")


@pytest.mark.parametrize("load", ["pickle.loads", "pickle._loads"])  # in C, and in Python
def test_a_pickle_of_before_is_read_without_a_warning_and_goes_on_to_the_same_bits(forgotten, load):
    warned, space = told(
        f"import pickle\nsim, out, error = {load}(data)".replace("data", repr(OLD_PICKLE.read_bytes()))
    )
    assert warned == []
    sim, out, error = space["sim"], space["out"], space["error"]
    assert isinstance(sim, tp.Simulation) and str(error).startswith("it failed")
    assert sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=8).hash == out.hash
    assert pickle.loads(pickle.dumps(out)).hash == out.hash


def test_a_class_of_before_is_found_and_the_new_line_is_shown():
    for module, names in moved.RENAMED.items():
        for old, new in names.items():
            warned, space = told(f"from tinyphysics.{module} import {old}")
            place, _, name = new.rpartition(".")
            assert f"from tinyphysics.{place} import {name}" in warned[0]
            assert space[old] is vars(importlib.import_module(f"tinyphysics.{place}"))[name]


def test_the_table_says_what_is_there():
    def there(module):
        return (SOURCE / (module.replace(".", "/") + ".py")).is_file()

    assert [new for new in (*moved.MOVED.values(), *moved.PARTED.values()) if not there(new)] == []
    assert [old for old in moved.MOVED if there(old)] == []
    assert len(set(moved.MOVED.values())) == len(moved.MOVED) and set(moved.PARTED) <= set(moved.MOVED)
    assert {old for old in moved.MOVED if (SOURCE / old.replace(".", "/")).is_dir()} == moved.ROOMS


def test_nothing_in_the_tree_names_an_old_path():
    """Else: python tools/rooms.py."""
    assert tool("rooms").rewrite(write=False) == [] and tool("rooms").homeless() == []


def test_importing_the_package_uses_no_old_path():
    code = "import sys, tinyphysics as tp; tp.compile, tp.physics; from tinyphysics import moved\n"
    code += "print(*[m for m in moved.MOVED if 'tinyphysics.' + m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", "-c", code],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) <= moved.ROOMS | FACE


def test_operations_keep_their_old_names_and_texts():
    assert getattr(Ops, "NEAR") is Ops.NEIGHBOURS and getattr(Ops, "ARC_LAG") is Ops.HARMONIC_LAG  # noqa: B009
    assert Ops("near") is Ops.NEIGHBOURS and Ops.NEIGHBOURS.name == "NEIGHBOURS"
