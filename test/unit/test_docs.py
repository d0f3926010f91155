"""Are the docs true?  Every block runs, every table is printed from the code, every citation is pinned."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tinyphysics as tp
from tinyphysics.context import FLAGS
from tinyphysics.errors import ERRORS
from tinyphysics.ir.ops import Ops
from tinyphysics.options import CALLS
from tinyphysics.planner.conflicts import CONFLICTS
from tinyphysics.planner.methods.catalog import METHODS, names
from tinyphysics.target import BUILT, SANDBOXED
from tinyphysics.tpir.program.isa import CLAIMS, ISA, POISSON_TYPES

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
PROSE = [*PAGES, ROOT / "CHANGELOG.md"]
HOSTS = r"(?:github\.com|raw\.githubusercontent\.com|gitlab\.com|codeberg\.org|bitbucket\.org|git\.sr\.ht)"


def load(name: str) -> ModuleType:
    """A file of tools/, which is not a package."""
    spec = importlib.util.spec_from_file_location(f"tinyphysics_tools_{name}", ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


docs = load("docs")


def page_id(page: Path) -> str:
    return page.name


# --- blocks ---------------------------------------------------------------------------------------


def when_it_runs(page: Path):
    return pytest.param(page, marks=[pytest.mark.all] if docs.runs_later(page) else [])


@pytest.mark.slow("a page that lies is worse than none")
@pytest.mark.parametrize("page", [when_it_runs(page) for page in PAGES], ids=page_id)
def test_every_python_block_runs_and_prints_what_the_page_shows(page):
    if lacks := docs.missing(page):
        pytest.skip(f"{', '.join(lacks)} is not installed")
    for ran in docs.run_page(page):
        where = f"{page.name}:{ran.block.line} (`python tools/docs.py update` rewrites it)"
        assert docs.portable(ran.printed) == docs.portable(ran.block.text), where


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_a_block_that_does_not_run_says_why(page):
    for block in docs.blocks(page.read_text(encoding="utf-8")):
        assert block.skip is None or len(block.skip) > 10, (
            f"{page.name}:{block.line} is not run, without a reason"
        )


def test_a_page_that_shows_something_else_is_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```output\n3\n```\n")
    (ran,) = docs.run_page(page)
    assert not ran.true
    docs.update_page(page)
    assert docs.run_page(page)[0].true and "2\n" in page.read_text()


def test_a_block_that_prints_has_to_show_it(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n")
    with pytest.raises(AssertionError, match="no output block"):
        docs.run_page(page)


def test_a_block_that_fails_is_named(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("text\n\n```python\nx = 1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as caught:
        docs.run_page(page)
    assert "page.md:4" in caught.value.__notes__[0]


def test_the_machine_section_may_differ_and_nothing_else_may():
    report = "kepler\nplan\n  order  2\nmachine\n  backend  llvm  on this one\n  lanes  8 wide\nq = 1\n"
    same, other = docs.portable(report), lambda a, b: docs.portable(report.replace(a, b))
    assert other("this one", "that one") == other("8 wide", "4 wide") == same
    for a, b in (("order  2", "order  4"), ("llvm", "c"), ("lanes", "threads"), ("q = 1", "q = 2")):
        assert other(a, b) != same


# --- commands -------------------------------------------------------------------------------------


IN_TESTS = [(page, c) for page in PAGES for c in docs.commands(page) if c.split()[0] in ("python", "tp")]


@pytest.mark.parametrize(("page", "command"), IN_TESTS, ids=[f"{page.name}: {c}" for page, c in IN_TESTS])
def test_the_commands_on_the_pages_work(page, command, tmp_path):
    docs.write_files(page, tmp_path)
    verb, *rest = command.split()
    call = [sys.executable, *(["-m", "tinyphysics"] if verb == "tp" else []), *rest]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        call, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_commands_that_tests_cannot_run_are_run_in_ci():
    assert {c.split()[0] for c in docs.commands(README)} <= {"python", "tp", "make", "pip", "."}
    assert docs.ACTIVATE in docs.commands(README)
    assert {c.split()[0] for page in PAGES[1:] for c in docs.commands(page)} <= {"python", "tp"}
    assert "tools/docs.py commands README.md" in (ROOT / ".ci" / "run").read_text()


# --- links and citations --------------------------------------------------------------------------


def unpinned(text: str) -> list[str]:
    """Links to code that do not name the commit that they were read at."""
    return [
        u
        for u in re.findall(rf"https?://{HOSTS}/[^\s)>\"'\]]+", text)
        if not re.search(r"\b[0-9a-f]{40}\b", u)
    ]


def moving(text: str) -> list[str]:
    return re.findall(r"\S*/(?:blob|tree|raw)/(?:master|main)/\S*", text)


@pytest.mark.requirement("S4-14")
@pytest.mark.parametrize("page", PROSE, ids=page_id)
def test_every_citation_of_code_is_pinned_to_a_commit(page):
    text = page.read_text(encoding="utf-8")
    assert unpinned(text) == [] and moving(text) == []


@pytest.mark.requirement("S4-14")
def test_comments_in_the_source_cite_pinned_code_too():
    for path in [
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "tools").glob("*.py"),
        *(ROOT / "examples").glob("*.py"),
    ]:
        text = path.read_text(encoding="utf-8")
        assert unpinned(text) == [] and moving(text) == [], path


@pytest.mark.requirement("S4-14")
def test_the_citation_lint_sees_what_it_is_for():
    host, commit = "https://github.com/a/b", "0123456789abcdef0123456789abcdef01234567"
    assert unpinned(f"[x]({host}/blob/{commit}/c.py#L3)") == []
    for link in (f"{host}/blob/master/c.py", f"{host}/blob/{commit[:12]}/c.py", f"{host}/tree/v1.2", host):
        assert unpinned(f"see ({link})") == [link]
    assert (
        moving(f"{host}/blob/master/c.py")
        and moving(f"{host}/tree/main/c")
        and not moving(f"{host}/blob/{commit}/c")
    )


@pytest.mark.requirement("S4-01")
def test_the_design_note_maps_the_concepts_of_the_model_ir():
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    note = text.partition("## How it relates to tinygrad's IR")[2]
    for concept in (
        "UOp",
        "hash-consing",
        "Ops",
        "UPat",
        "PatternMatcher",
        "graph_rewrite",
        "spec",
        "gradient",
    ):
        assert concept in note
    for ours in re.findall(r"`((?:\w+/)+\w+\.py)`", note):
        assert (ROOT / "src" / "tinyphysics" / ours).exists(), ours


@pytest.mark.parametrize("page", PROSE, ids=page_id)
def test_relative_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PROSE, ids=page_id)
def test_no_page_holds_a_path_of_the_machine_it_was_written_on(page):
    text = docs.fill(page.read_text(encoding="utf-8"))
    assert not re.search(r"(?<![\w.])/(?:home|root|Users|tmp|work|opt|mnt|var)/|[A-Z]:\\\\?\w", text)
    assert str(ROOT) not in text


# --- printed tables -------------------------------------------------------------------------------

# fmt: off
PRINTED = {  # page: what its tables have to hold
    "tpir.md":    [*ISA, *POISSON_TYPES, *CLAIMS, *(op.value for op in Ops), *(row.meaning for row in ISA.values())],
    "errors.md":  [*(e.__name__ for e in ERRORS), *(c for e in ERRORS for c in e.causes)],
    "methods.md": [*names(), *(m.summary for m in METHODS), *(m.reference for m in METHODS)],
    "options.md": [*(f"`{n}`" for table in CALLS.values() for n in table), *(o.sentence for t in CALLS.values() for o in t.values()),
                   *(text for row in CONFLICTS for text in row.words(docs.Anything()))],
    "flags.md":   [*FLAGS, *(f.sentence for f in FLAGS.values())],
    "design.md":  [*(f"`{p.name}/`" for p in (ROOT / "src" / "tinyphysics").iterdir() if (p / "__init__.py").exists()),
                   *(f"`{b}`" for b in BUILT), *(t.device for t in BUILT.values())],
}
# fmt: on


@pytest.mark.parametrize("name", PRINTED)
def test_a_printed_page_holds_every_row_of_its_table(name):
    source = (ROOT / "docs" / name).read_text(encoding="utf-8")
    page = docs.fill(source)
    assert "<!-- printed:" in source and "<!-- printed:" not in page
    assert [x for x in PRINTED[name] if x not in page] == []


def test_the_status_in_the_readme_names_the_backends_that_exist_and_how_many_methods():
    lines = README.read_text(encoding="utf-8").splitlines()
    backends, methods = (
        next(x for x in lines if x.startswith(f"| {row} |")) for row in ("backends", "methods")
    )
    assert set(re.findall(r"`(\w+)`", backends)) == {*BUILT, *SANDBOXED}
    assert f"| {len(METHODS)}, of order" in methods


def test_the_site_is_built_with_the_printed_tables():
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert load("mkdocs_hooks").on_page_markdown(page) == docs.fill(page)
    assert "tools/mkdocs_hooks.py" in (ROOT / "mkdocs.yml").read_text()


def test_a_slot_with_an_unknown_name_is_an_error():
    with pytest.raises(KeyError, match="there is"):
        docs.fill("<!-- printed: nothing -->\n")


def test_requirements_are_read_from_functions_classes_modules_and_parameters(tmp_path, monkeypatch):
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    (tmp_path / "test_a.py").write_text(
        "import pytest\n"
        "pytestmark = [pytest.mark.requirement('S1-01')]\n"
        "@pytest.mark.requirement('S2-01', 'S2-02')\ndef test_one(): ...\n"
        "@pytest.mark.requirement('S3-01')\nclass TestB:\n    def test_two(self): ...\n"
        "@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.requirement('S4-01'))])\n"
        "def test_three(x): ...\n"
        "@pytest.mark.requirement('S9-99')\ndef helper(): ...\n"
    )
    found = {(s.requirement, s.test) for s in docs.shown(tmp_path)}
    assert found == {
        ("S1-01", "test_one"),
        ("S2-01", "test_one"),
        ("S2-02", "test_one"),
        ("S1-01", "test_two"),
        ("S3-01", "test_two"),
        ("S1-01", "test_three"),
        ("S4-01", "test_three"),
    }


def test_the_coverage_page_lists_this_file():
    page = docs.fill((ROOT / "docs" / "requirements.md").read_text(encoding="utf-8"))
    assert "S4-14" in page and "every citation of code is pinned to a commit" in page


def test_the_reference_has_every_public_name():
    page = docs.PRINTED["reference"]()
    missing = [
        n for n in dir(tp) if not n.startswith("_") and f"### {n}\n" not in page and f"`tp.{n}" not in page
    ]
    assert not missing
    assert 'sim.explain(form: str = "short") -> Report' in page


def test_no_page_needs_a_network():
    """Fonts and scripts come with the site; the search runs from a disk."""
    settings = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in settings and "polyfills: [iframe-worker.js]" in settings
    assert (ROOT / "docs" / "iframe-worker.js").is_file() and "http" not in settings.replace(
        "https://tinyphysics", ""
    )
