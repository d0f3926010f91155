"""Do imports point down?  The tables of tools/layers.py, read against every import in the source."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import pytest
from tools_of import tool

SOURCE = Path(__file__).parents[2] / "src"
ROOT = "tinyphysics"
ROOMS, UPWARD, UP = tool("layers").ROOMS, tool("layers").UPWARD, tool("layers").UP
PACKAGES = {room.package for room in ROOMS if room.place}
STANDARD_LIBRARY_ONLY = {"front", "tpir"}  # and layers 0 to 3
PHYSICS_SEES = {"front", "philox", "errors"}  # and NumPy; physics/io also the nouns and its extra


def sources(root: Path) -> dict[str, str]:
    """Module name to text; a package's __init__ has the package's name."""
    out = {}
    for path in sorted((root / ROOT).rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        out[name.removesuffix(".__init__")] = path.read_text()
    return out


@cache
def room_of(module: str) -> int | None:
    """The number of its room in the table, or None.

    The __init__ of a package, which may show names of all its rooms, counts as its last room.
    """
    own = module.removeprefix(ROOT).removeprefix(".") or "__init__"
    place, _, file = own.rpartition(".")
    for number, room in enumerate(ROOMS):
        if room.place == place and (file in room.files or place and not room.files):
            return number
        if room.place == own and not room.files:
            return number
    if own in PACKAGES:
        return max(n for n, room in enumerate(ROOMS) if room.package == own)
    folders = [n for n, room in enumerate(ROOMS) if "." not in room.place and not room.files]
    return next((n for n in folders if own.startswith(f"{ROOMS[n].place}.")), None)  # physics/io


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def imports(module: str, text: str, known: set[str]) -> list[str]:
    """Every module imported anywhere in the text: at the top, inside functions, under conditions.

    The types that up.py names are none of what it imports.
    """
    if module == f"{ROOT}.up":
        return []
    out = []
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Import):
            out += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                out.append("." * node.level + (node.module or ""))
                continue
            assert node.module is not None
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                out.append(full if full in known else node.module)
    return list(dict.fromkeys(out))


def complaints(modules: dict[str, str]) -> list[str]:
    """What breaks the table, in words; empty if nothing does."""
    known, out, edges = set(modules), [], {}
    for module, text in modules.items():
        here = room_of(module)
        if here is None:
            out.append(f"{module}: not in the table of rooms")
            continue
        edges[module] = []
        for target in imports(module, text, known):
            if target.startswith("."):
                out.append(f"{module}: the relative import `{target}`")
            elif target.split(".")[0] != ROOT:
                out += _foreign(module, ROOMS[here], target.split(".")[0])
            else:
                edges[module].append(target)
                out += _between(module, target)
    return out + [f"a cycle: {' -> '.join(c)}" for c in cycles(edges)]


def _foreign(module: str, room: object, package: str) -> list[str]:
    if package in sys.stdlib_module_names:
        return []
    if room.layer <= 3 or room.package in STANDARD_LIBRARY_ONLY:
        return [f"{module}: imports {package}, not of the standard library"]
    if room.package == "physics" and package != "numpy" and not module.startswith(f"{ROOT}.physics.io"):
        return [f"{module}: physics imports {package}"]
    return []


def _between(module: str, target: str) -> list[str]:
    a, b = room_of(module), room_of(target)
    if b is None:
        return [f"{module}: imports {target}, which is not in the table"]
    here, there = ROOMS[a], ROOMS[b]
    nouns = there.layer == 2 and module.startswith(f"{ROOT}.physics.io")
    own = target.removeprefix(f"{ROOT}.")
    if here.package == "physics" and not nouns and own.split(".")[0] not in {*PHYSICS_SEES, "physics"}:
        return [f"{module}: physics sees {target}"]
    if here.package == there.package:
        return [] if b <= a else [f"{module}: imports up, {target}"]
    if there.layer < here.layer:
        return []
    return [f"{module}: imports {'up' if there.layer > here.layer else 'sideways'}, {target}"]


def cycles(edges: dict[str, list[str]]) -> list[list[str]]:
    """One path for each way back to where a walk came from."""
    out: list[list[str]] = []
    done: set[str] = set()

    def walk(module: str, path: list[str]) -> None:
        if module in path:
            out.append([*path[path.index(module) :], module])
        elif module not in done:
            for target in edges.get(module, []):
                walk(target, [*path, module])
            done.add(module)

    for module in edges:
        walk(module, [])
    return out


# --- what is imported by a name in a string -----------------------------------------------------------------
def by_name(text: str) -> dict[str, str]:
    """Function to the module that it imports by name: import_module with a word, or with a constant of the file."""
    tree, out = parsed(text), {}
    words = {n.targets[0].id: n.value.value for n in tree.body if constant(n)}
    for function in (n for n in tree.body if isinstance(n, ast.FunctionDef)):
        for c in (c for c in ast.walk(function) if isinstance(c, ast.Call)):
            if getattr(c.func, "id", getattr(c.func, "attr", "")) == "import_module":
                out[function.name] = words.get(getattr(c.args[0], "id", ""), getattr(c.args[0], "value", "?"))
    return out


def constant(n: ast.stmt) -> bool:
    named = isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)
    return named and isinstance(n.value, ast.Constant)


def short(module: str) -> str:
    return module.removeprefix(f"{ROOT}.")


# --- claims ------------------------------------------------------------------------------------------------
@pytest.mark.slow("the architecture")
@pytest.mark.requirement("S0-03")
def test_imports_point_down_but_for_those_that_are_named_and_never_in_a_circle():
    named = [f"{ROOT}.{a}: imports up, {ROOT}.{b}" for a, b in UPWARD]
    assert sorted(complaints(sources(SOURCE))) == sorted(named)  # also: none is named that is not there


def test_the_functions_of_up_are_the_only_calls_that_point_up():
    modules = sources(SOURCE)
    assert by_name(modules[f"{ROOT}.up"]) == {name: f"{ROOT}.{target}" for name, (target, _) in UP.items()}
    below = [m for m in modules if ROOMS[room_of(m)].layer < 11 and m != f"{ROOT}.up"]
    assert [m for m in below if any(x.startswith(ROOT) for x in by_name(modules[m]).values())] == []


def test_each_exception_has_a_reason():
    assert all(len(why.split()) > 3 for why in [*UPWARD.values(), *(why for _, why in UP.values())])


def test_what_is_imported_by_name_is_seen():
    text = (
        'X = "tinyphysics.a"\ndef f():\n  return import_module(X)\ndef g():\n  import_module("tinyphysics.b")'
    )
    assert by_name(text) == {"f": "tinyphysics.a", "g": "tinyphysics.b"}


def test_the_table_is_read_against_a_tree_that_is_really_there():
    modules = sources(SOURCE)
    assert {"tinyphysics", "tinyphysics.ir.uop", "tinyphysics.front.trace", "tinyphysics.errors"} <= set(
        modules
    )
    assert imports("m", modules["tinyphysics.ir.uop"], set(modules))  # and its imports are seen


def test_every_room_is_there_and_says_what_the_table_says():
    for room in ROOMS:
        folder = SOURCE / ROOT / room.place.replace(".", "/")
        assert all((folder / f"{f}.py").is_file() for f in room.files), room
        if "." in room.place and not room.files:
            assert (folder / "__init__.py").read_text() == f'"""{room.question}"""\n'


@pytest.mark.parametrize(
    ("modules", "complaint"),
    [
        ({"tinyphysics.ir.uop": "import tinyphysics.system", "tinyphysics.system": ""}, "imports up"),
        (
            {
                "tinyphysics.ir.uop": "def f():\n  from tinyphysics.rules.calculus import vjp",
                "tinyphysics.rules.calculus.vjp": "",
            },
            "up",
        ),
        (
            {
                "tinyphysics.front.a": "from tinyphysics.tpir.program.vm import run",
                "tinyphysics.tpir.program.vm": "",
            },
            "sideways",
        ),
        (
            {
                "tinyphysics.planner.cost.loops": "import tinyphysics.emit.scalar.c",
                "tinyphysics.emit.scalar.c": "",
            },
            "sideways",
        ),
        ({"tinyphysics.rules.digits.a": "import tinyphysics.rules.calculus.b"}, "imports up"),
        ({"tinyphysics.tpir.proof.a": "import tinyphysics.tpir.proof.readers.b"}, "imports up"),
        ({"tinyphysics.device.cache": "import tinyphysics.device.host.tree"}, "imports up"),
        ({"tinyphysics.tpir.program.a": "import tinyphysics.tpir", "tinyphysics.tpir": ""}, "imports up"),
        ({"tinyphysics.rules.helpers": ""}, "not in the table"),
        ({"tinyphysics.rules.other.a": ""}, "not in the table"),
        ({"tinyphysics.tpir.proof.other.a": ""}, "not in the table"),
        ({"tinyphysics.ir.a": "from . import b"}, "relative"),
        (
            {
                "tinyphysics.ir.a": "from tinyphysics.ir import b",
                "tinyphysics.ir.b": "import tinyphysics.ir.a",
            },
            "cycle",
        ),
        ({"tinyphysics.rules.calculus.a": "import numpy as np"}, "standard library"),
        ({"tinyphysics.front.a": "try:\n  import numpy\nexcept ImportError:\n  pass"}, "standard library"),
        ({"tinyphysics.tpir.proof.a": "def f():\n  import rich"}, "standard library"),
        ({"tinyphysics.errors": "import typing_extensions"}, "standard library"),
        ({"tinyphysics.physics.zoo": "import tinyphysics.ir.uop", "tinyphysics.ir.uop": ""}, "physics sees"),
        ({"tinyphysics.physics.zoo": "import tinyphysics as tp", "tinyphysics": ""}, "physics sees"),
        ({"tinyphysics.physics.zoo": "import scipy"}, "physics imports scipy"),
        ({"tinyphysics.helpers": ""}, "not in the table"),
    ],
)
def test_each_way_of_breaking_the_table_is_seen(modules, complaint):
    assert any(complaint in c for c in complaints(modules))


@pytest.mark.parametrize(
    "modules",
    [
        {"tinyphysics.errors": "import tinyphysics.util", "tinyphysics.util": ""},
        {"tinyphysics.plan": "from tinyphysics.facts import Fact", "tinyphysics.facts": ""},
        {"tinyphysics.ir.a": "from tinyphysics.ir import b", "tinyphysics.ir.b": ""},
        {"tinyphysics.synth.methods.a": "import tinyphysics.tpir.program.isa"},
        {"tinyphysics.rules.calculus.a": "import tinyphysics.rules.digits.b, tinyphysics.rules.calculus.c"},
        {"tinyphysics.device.host.tree": "import tinyphysics.device.cache"},
        {"tinyphysics.tpir": "import tinyphysics.tpir.program.vm, tinyphysics.tpir.verifier"},
        {
            "tinyphysics.physics.zoo": "import numpy\nfrom tinyphysics.front import trace",
            "tinyphysics.front.trace": "",
        },
        {
            "tinyphysics.physics.io": "from tinyphysics.trajectory import T\nimport xarray",
            "tinyphysics.trajectory": "",
        },
    ],
)
def test_what_the_table_allows_is_allowed(modules):
    assert complaints(modules) == []
