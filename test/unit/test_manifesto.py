"""Is every analogy of the manifesto backed by a module and a test that exist?"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "manifesto.md"
# what the project set out with, and the page may not leave out
ANALOGIES = (
    "source code", "parser", "intermediate representation", "code generation", "binary", "type checker", "linker",
    "garbage collection", "debugger", "instruction set", "virtual memory", "just-in-time compilation", "checksums",
    "fuzzing", "introspection",
)  # fmt: skip


def rows() -> list[list[str]]:
    """The cells of the table, without its head."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def exists(test: str) -> bool:
    path, _, name = test.partition("::")
    text = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
    return re.search(rf"^def {name}\(", text, re.MULTILINE) is not None


@pytest.mark.requirement("S2-54")
def test_every_analogy_names_a_module_and_a_test_that_exist():
    assert set(ANALOGIES) <= {row[0] for row in rows()}
    for analogy, _, module, test in rows():
        assert find_spec(f"tinyphysics.{module.strip('`')}") is not None, f"{analogy}: no module {module}"
        assert exists(test.strip("`")), f"{analogy}: no test {test}"


def test_a_row_without_its_test_would_be_found():
    assert not exists("test/unit/test_manifesto.py::test_that_nobody_wrote")
    assert not exists("test/unit/test_that_is_no_file.py::test_anything")
    assert all(re.fullmatch(r"`[\w/]+\.py::test_\w+`", row[3]) for row in rows())
