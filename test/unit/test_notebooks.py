"""Do the notebooks run from top to bottom, with pictures, and are they kept without outputs?"""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
NAMES = ["first_hour", "gpu_ensembles", "molecular_dynamics", "three_body"]


def cells(path, kind):
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == kind]


def test_there_are_four():
    assert [path.stem for path in NOTEBOOKS] == NAMES
    page = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    assert all(f"notebooks/{name}.ipynb" in page for name in NAMES)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_is_kept_without_outputs(path):
    """`jupyter nbconvert --clear-output --inplace docs/notebooks/*.ipynb` takes them out."""
    whole = json.loads(path.read_text(encoding="utf-8"))
    assert whole["nbformat"] == 4 and set(whole["metadata"]) == {"kernelspec", "language_info"}
    for cell in cells(path, "code"):
        assert cell["outputs"] == [] and cell["execution_count"] is None
        ast.parse("".join(cell["source"]))
    assert "".join(cells(path, "markdown")[0]["source"]).startswith("# ")


def run(path):
    """The notebook with its outputs, from a kernel of this interpreter and this source tree."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.read(path, 4)
    client = nbclient.NotebookClient(book, timeout=300, kernel_name="python3")
    client.execute(env=os.environ | {"PYTHONPATH": str(ROOT / "src")})
    return [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]


@pytest.mark.all
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs_and_shows_pictures(path):
    outputs = run(path)
    shown = [o.data for o in outputs if o.output_type in ("display_data", "execute_result")]
    printed = "".join(o.text for o in outputs if o.output_type == "stream")
    assert sum("image/png" in data for data in shown) >= (1 if path.stem == "gpu_ensembles" else 3)
    assert any("<svg" in data.get("text/html", "") for data in shown) or path.stem != "first_hour"
    if path.stem == "gpu_ensembles":  # where it runs is said, and the bits are the same
        assert "runs on the processor" in printed or "an NVIDIA GPU" in printed
        hashes = {
            line.split()[1]
            for line in printed.splitlines()
            if line.split()[:1] and len(line.split()[-1]) == 32
        }
        assert len(hashes) == 1
