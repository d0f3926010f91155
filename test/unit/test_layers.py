"""Do imports point down?  The layer table of the design, read against every import in the source."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
ROOT = "tinyphysics"

# fmt: off
LAYERS: list[dict[str, str]] = [  # unit (a package or a file): the package that it counts as
    dict.fromkeys(["errors", "context", "util", "philox", "version"], "layer 0"),
    {"ir": "ir"},
    dict.fromkeys(["system", "facts", "plan", "step", "target", "trajectory", "report"], "nouns"),
    {"rules": "rules"},
    {u: u for u in ("front", "analysis", "synth", "tpir")},
    {u: u for u in ("planner", "emit", "device", "view", "provenance", "physics")},
    {"pipeline": "pipeline"},
    {"runtime": "runtime"},
    {u: u for u in ("learn", "explorer", "cluster")},
    dict.fromkeys(["cli", "doctor", "kernel", "compat", "moved", "__init__", "__main__"], "the face"),  # what users import
]
# fmt: on
LAYER = {unit: n for n, layer in enumerate(LAYERS) for unit in layer}
PACKAGE = {unit: name for layer in LAYERS for unit, name in layer.items()}
STANDARD_LIBRARY_ONLY = {u for u, n in LAYER.items() if n <= 3} | {"front", "tpir"}
PHYSICS_SEES = {"front", "philox", "errors"}  # and NumPy; physics/io also the nouns and its extra


def sources(root: Path) -> dict[str, str]:
    """Module name to text; a package's __init__ has the package's name."""
    out = {}
    for path in sorted((root / ROOT).rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        out[name.removesuffix(".__init__")] = path.read_text()
    return out


def unit_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def imports(module: str, text: str, known: set[str]) -> list[str]:
    """Every module imported anywhere in the text: at the top, inside functions, under conditions."""
    out = []
    for node in ast.walk(ast.parse(text)):
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
        here = unit_of(module)
        if here not in LAYER:
            out.append(f"{module}: not in the table of layers")
            continue
        edges[module] = []
        for target in imports(module, text, known):
            if target.startswith("."):
                out.append(f"{module}: the relative import `{target}`")
            elif target.split(".")[0] != ROOT:
                package = target.split(".")[0]
                if here in STANDARD_LIBRARY_ONLY and package not in sys.stdlib_module_names:
                    out.append(f"{module}: imports {package}, not of the standard library")
                if here == "physics" and package not in {*sys.stdlib_module_names, "numpy"}:
                    if not module.startswith(f"{ROOT}.physics.io"):
                        out.append(f"{module}: physics imports {package}")
            else:
                edges[module].append(target)
                out += _between(module, here, unit_of(target), target)
    return out + [f"a cycle: {' -> '.join(c)}" for c in cycles(edges)]


def _between(module: str, here: str, there: str, target: str) -> list[str]:
    if there not in LAYER:
        return [f"{module}: imports {target}, which is not in the table"]
    nouns = LAYER[there] == 2 and module.startswith(f"{ROOT}.physics.io")
    if here == "physics" and there not in {*PHYSICS_SEES, "physics"} and not nouns:
        return [f"{module}: physics sees {target}"]
    if LAYER[there] < LAYER[here] or PACKAGE[there] == PACKAGE[here]:
        return []
    way = "up" if LAYER[there] > LAYER[here] else "sideways"
    return [f"{module}: imports {way}, {target}"]


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


@pytest.mark.slow("the architecture")
@pytest.mark.requirement("S0-03")
def test_imports_point_down_and_never_in_a_circle():
    assert complaints(sources(SOURCE)) == []


def test_the_table_is_read_against_a_tree_that_is_really_there():
    modules = sources(SOURCE)
    assert {"tinyphysics", "tinyphysics.ir.uop", "tinyphysics.front.trace", "tinyphysics.errors"} <= set(
        modules
    )
    assert imports("m", modules["tinyphysics.ir.uop"], set(modules))  # and its imports are seen


@pytest.mark.parametrize(
    ("modules", "complaint"),
    [
        ({"tinyphysics.ir.uop": "import tinyphysics.system", "tinyphysics.system": ""}, "imports up"),
        (
            {
                "tinyphysics.ir.uop": "def f():\n  from tinyphysics.rules import vjp",
                "tinyphysics.rules.calculus.vjp": "",
            },
            "up",
        ),
        (
            {"tinyphysics.front.a": "from tinyphysics.tpir.program.vm import run", "tinyphysics.tpir.vm": ""},
            "sideways",
        ),
        (
            {"tinyphysics.planner.a": "import tinyphysics.emit.scalar.c", "tinyphysics.emit.scalar.c": ""},
            "sideways",
        ),
        ({"tinyphysics.ir.a": "from . import b"}, "relative"),
        (
            {
                "tinyphysics.ir.a": "from tinyphysics.ir import b",
                "tinyphysics.ir.b": "import tinyphysics.ir.a",
            },
            "cycle",
        ),
        ({"tinyphysics.rules.a": "import numpy as np"}, "standard library"),
        ({"tinyphysics.front.a": "try:\n  import numpy\nexcept ImportError:\n  pass"}, "standard library"),
        ({"tinyphysics.tpir.a": "def f():\n  import rich"}, "standard library"),
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
