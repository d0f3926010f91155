"""Does tools/release.py see what is not ready?  Each check on a small tree that passes it, and on one that does not."""

import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from tools_of import tool

release = tool("release")
ROOT = Path(__file__).parents[2]

PROJECT = """
[project]
name = "tinyphysics"
dynamic = ["version"]
readme = "README.md"
license = "MIT"
dependencies = []
[project.optional-dependencies]
plot = []
"""
METADATA = """Metadata-Version: 2.4
Name: tinyphysics
Version: 1.2.3
Summary: s
Author: a
Keywords: k
License-Expression: MIT
Requires-Python: >=3.11
Description-Content-Type: text/markdown
Classifier: Typing :: Typed
Classifier: Programming Language :: Python :: 3.11
Classifier: Development Status :: 3 - Alpha
Provides-Extra: plot

# tinyphysics

See [the changes](CHANGELOG.md).
"""
FILES = {
    "pyproject.toml": PROJECT,
    "src/tinyphysics/version.py": '__version__ = "1.2.3"\n',
    "src/tinyphysics/py.typed": "",
    "CHANGELOG.md": "# Changes\n\n## [1.2.3] - 2030-01-31\n\n### Breaking changes\n\nNone.\n",
    "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.3\nlicense: MIT\n",
    "LICENSE": "MIT License\n",
    "README.md": "# tinyphysics\n\nSee [the changes](CHANGELOG.md).\n",
}
INSIDE = {
    "tinyphysics/version.py": FILES["src/tinyphysics/version.py"],
    "tinyphysics/py.typed": "",
    "tinyphysics-1.2.3.dist-info/METADATA": METADATA,
    "tinyphysics-1.2.3.dist-info/licenses/LICENSE": "MIT License\n",
    "tinyphysics-1.2.3.dist-info/entry_points.txt": "[console_scripts]\ntp = tinyphysics.__main__:main\n",
}


@pytest.fixture
def tree(tmp_path):
    """A tree and a wheel that are ready, but for some files that are other ones; None takes one away."""

    def make(tag=None, inside=None, **others):
        root = tmp_path / "tree"
        changes = {
            name.replace("__", "/").replace("_md", ".md").replace("_cff", ".cff"): v
            for name, v in others.items()
        }
        for name, text in (FILES | changes).items():
            if text is not None:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
        wheel = tmp_path / "tinyphysics-1.2.3-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, text in (INSIDE | (inside or {})).items():
                if text is not None:
                    archive.writestr(name, text)
        return release.Tree(root, wheel, tag)

    return make


OFFLINE = [c for c in release.CHECKS if c.name not in ("extras", "bare")]


@pytest.mark.parametrize("check", OFFLINE, ids=lambda c: c.name)
def test_a_tree_that_is_ready_passes(tree, check):
    if check.name == "readme":
        pytest.importorskip("markdown")
    assert list(check.find(tree(tag="v1.2.3"))) == []


META = "tinyphysics-1.2.3.dist-info/METADATA"
WRONG = [
    ("version", dict(inside={META: METADATA.replace("1.2.3", "1.2.2")}), "the wheel has the version 1.2.2"),
    (
        "changelog",
        dict(CHANGELOG_md=FILES["CHANGELOG.md"].replace("1.2.3", "1.2.2")),
        "newest release is 1.2.2",
    ),
    (
        "changelog",
        dict(CHANGELOG_md="## [Unreleased]\n### Breaking changes\n" + FILES["CHANGELOG.md"]),
        "still Unreleased",
    ),
    ("changelog", dict(CHANGELOG_md="## [1.2.3]\n### Breaking changes\n"), "has no date"),
    ("changelog", dict(CHANGELOG_md="## [1.2.3] - 2030-01-31\n### Added\n"), "no section Breaking changes"),
    ("tag", dict(tag="1.2.3"), "write v1.2.3"),
    ("citation", dict(CITATION_cff="version: 1.2.2\nlicense: MIT\n"), "write version: 1.2.3"),
    (
        "licence",
        dict(inside={"tinyphysics-1.2.3.dist-info/licenses/LICENSE": None}),
        "the wheel has no LICENSE",
    ),
    (
        "metadata",
        dict(inside={META: METADATA.replace("Classifier: Typing :: Typed\n", "")}),
        "Typing :: Typed",
    ),
    ("metadata", dict(inside={META: METADATA.replace("Keywords: k\n", "")}), "the wheel has no Keywords"),
    ("wheel", dict(inside={"tinyphysics/py.typed": None}), "not in the wheel: tinyphysics/py.typed"),
    ("wheel", dict(inside={"tests/test_it.py": ""}), "not in src: tests/test_it.py"),
    ("readme", dict(README_md="# tinyphysics\n\n[gone](nowhere.md)\n"), "nowhere.md leads nowhere"),
    ("readme", dict(README_md="# tinyphysics\n\n```python\nx = 1\n"), "not closed"),
    ("readme", dict(README_md="# tinyphysics\ntext\n| a | b |\n"), "a table was not recognised"),
    ("local paths", dict(README_md="see " + "/".join(["", "home", "ann", "x.txt"])), "README.md"),
    (
        "local paths",
        dict(inside={"tinyphysics/version.py": "# " + "/".join(["", "Users", "ann", "x"])}),
        "the wheel",
    ),
]


@pytest.mark.parametrize(("name", "changes", "said"), WRONG)
def test_what_is_not_ready_is_named(tree, name, changes, said):
    if name == "readme":
        pytest.importorskip("markdown")
    (check,) = [c for c in release.CHECKS if c.name == name]
    found = list(check.find(tree(**{"tag": "v1.2.3"} | changes)))
    assert any(said in problem for problem in found), found


def test_between_releases_the_changelog_may_be_open(tree):
    open_ = "## [Unreleased]\n### Breaking changes\n" + FILES["CHANGELOG.md"]
    assert list(release.changelog(tree(CHANGELOG_md=open_))) == []


def test_a_tag_that_another_commit_has_is_seen(tree):
    t = tree(tag="v1.2.3")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(t.root)]
    for words in (
        ["init", "-q"],
        ["commit", "-q", "--allow-empty", "-m", "a"],
        ["tag", "v1.2.3"],
        ["tag", "1.0"],
    ):
        subprocess.run([*git, *words], check=True)
    assert list(release.tag(t)) == ["the tag 1.0 is not of the form v1.2.3"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "b"], check=True)
    assert any("another commit" in problem for problem in release.tag(t))


def test_the_list_on_the_page_is_the_list_that_is_checked():
    page = tool("docs").fill((ROOT / "docs" / "releasing.md").read_text(encoding="utf-8"))
    for c in release.CHECKS:
        assert c.sentence.endswith(".") and c.sentence.replace("|", "\\|") in page
    assert re.search(r"release\.py --check --bare", (ROOT / ".ci" / "run").read_text())


def test_the_docs_say_their_version():
    import tinyphysics

    config = tool("mkdocs_hooks").on_config({})
    assert tinyphysics.__version__ in config["copyright"]
