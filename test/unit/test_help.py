"""Does help() of a public name read well?  A plain sentence first, and every parameter in the words that follow."""

import ast
import importlib
import inspect
import pydoc
import re
from pathlib import Path

import pytest

import tinyphysics as tp
from tinyphysics.physics import io
from tinyphysics.physics.molecular import liquid
from tinyphysics.physics.zoo import ZOO
from tinyphysics.runtime.api.measured import Measured
from tinyphysics.system import Summand
from tinyphysics.trajectory import Frame

PUBLIC = [name for name in dir(tp) if not name.startswith("_")]
CLASSES = (tp.Simulation, Measured, tp.Trajectory, Summand, tp.System, tp.Report, tp.PhysicsSystem, Frame)
# what the stages of a run ask of a simulation and of a trajectory; users do not call them
INSIDE = {
    *(
        "bare",
        "checkpointing",
        "decide",
        "identity",
        "in_numbers",
        "in_own_time",
        "not_set",
        "order_bodies",
        "own_names",
    ),
    *("takes", "traced", "watched", "windows", "with_machine", "with_row", "with_rows", "with_section"),
}


def members():
    for kind in CLASSES:
        for name, value in vars(kind).items():
            shown = inspect.isfunction(value) or isinstance(value, property) or hasattr(value, "__wrapped__")
            full = f"{kind.__name__}.{name}"
            if shown and not name.startswith("_") and name not in INSIDE and full != "Simulation.bind":
                yield full, getattr(kind, name)


READERS = {f"physics.io.{n}": v for n, v in vars(io).items() if n.startswith(("read_", "query_"))}
NAMES = {name: getattr(tp, name) for name in PUBLIC} | dict(members()) | READERS


def test_what_completes_after_tp_is_what_users_write():
    assert {"hamiltonian", "compile", "Vec", "physics", "random", "sqrt", "map", "load"} <= set(PUBLIC)
    assert not {"Any", "import_module", "TYPE_CHECKING", "RUNTIME", "util", "ir", "save", "piloted"} & set(
        PUBLIC
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_first_line_is_a_plain_sentence(name):
    value = NAMES[name]
    doc = value.__doc__ or ""
    lines = inspect.cleandoc(doc).splitlines()
    assert lines and not lines[0].startswith(f"{name}("), f"{name} has no docstring"
    first, paragraph = lines[0], inspect.cleandoc(doc).partition("\n\n")[0]
    assert first[0].isupper() or first[0] == "`", first
    assert paragraph.endswith((".", "?")), paragraph
    assert len(first) <= 126 and paragraph.count("`") % 2 == 0


@pytest.mark.parametrize("name", [n for n, v in NAMES.items() if inspect.isfunction(v)])
def test_every_parameter_is_explained(name):
    value = NAMES[name]
    words = set(re.findall(r"\w+", value.__doc__ or ""))
    missing = [p for p in inspect.signature(value).parameters if p not in words | {"self", "path"}]
    assert missing == [], f"{name} does not say what {', '.join(missing)} is"


def test_help_of_a_system_shows_its_own_words():
    assert liquid.__doc__.startswith("Lennard-Jones atoms of one kind")
    told = pydoc.render_doc(liquid, renderer=pydoc.plaintext)
    assert "Lennard-Jones atoms of one kind" in told
    assert tp.System.__doc__.startswith("A system as the compiler sees it")
    assert all(demo.about for demo in ZOO.values()), "demos are described in their table"


def functions_of(module):
    """Those that a file of physics offers: with their docstrings, and in its text before the first helper."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    return [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]


@pytest.mark.parametrize("file", tp.physics.FILES)
def test_what_physics_offers_has_a_sentence(file):
    module = importlib.import_module(f"tinyphysics.physics.{file}")
    assert inspect.cleandoc(module.__doc__).splitlines()[0].endswith((".", "?", ").")), file
    for node in functions_of(module):
        decorated = any(
            "hamiltonian" in ast.unparse(d) or "measure" in ast.unparse(d) for d in node.decorator_list
        )
        assert file == "zoo" or not decorated or ast.get_docstring(node), f"{file}.{node.name}"
