"""Is this tree ready to be released?  One check for each line of the checklist, and what to do where one fails.

    python tools/release.py --check                 all checks; builds the wheel
    python tools/release.py --check --tag v0.2.0    the same for a release: the changelog has to be closed, too
    python tools/release.py --check --bare          and installs the wheel in an empty environment and runs it there
    python tools/release.py --list                  the checklist

docs/releasing.md shows the list. `--only NAME` runs some of the checks, `--wheel FILE` looks at a wheel that was built.
"""

from __future__ import annotations

import argparse
import contextlib
import email
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.compile(r"\d+\.\d+\.\d+")
NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
# folders of one machine; /home/me/ is an example
LOCAL = re.compile(
    r"(?<![\w.~/-])/(?:home|root|Users|work|mnt|scratch)/(?!me/)\w[\w./-]*|[A-Z]:\\\\?Users\\\\?\w+"
)
TEXT = {
    ".py",
    ".md",
    ".toml",
    ".yml",
    ".cff",
    ".css",
    ".sh",
    ".c",
    ".txt",
    ".json",
    ".cif",
    ".pdb",
    ".gro",
    ".data",
    ".csv",
}
# what a user's first minute needs of an installed wheel
FIRST_MINUTE = """
import pathlib, sys
import tinyphysics as tp
assert pathlib.Path(tp.__file__).is_relative_to(sys.prefix), tp.__file__

@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)

out = tp.compile(kepler, dt=0.02).evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=1000)
assert out.drift("energy") < 1e-4
print(tp.__version__, out.hash)
"""


class Tree:
    """What is looked at: the files of the project, and the wheel, which is built when it is first asked for."""

    def __init__(self, root: Path = ROOT, wheel: Path | None = None, tag: str | None = None) -> None:
        self.root, self.tag, self.given = root, tag, wheel

    def text(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8")

    @cached_property
    def project(self) -> dict[str, Any]:
        return tomllib.loads(self.text("pyproject.toml"))

    @cached_property
    def version(self) -> str:
        found = re.search(r'^__version__ = "(.*)"$', self.text("src/tinyphysics/version.py"), re.MULTILINE)
        return found[1] if found else ""

    @cached_property
    def folder(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory()

    @cached_property
    def wheel(self) -> Path:
        if self.given is not None:
            return self.given
        call = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*call, "--wheel-dir", self.folder.name, str(self.root)], check=True)
        (built,) = Path(self.folder.name).glob("*.whl")
        return built

    @cached_property
    def contents(self) -> dict[str, bytes]:
        with zipfile.ZipFile(self.wheel) as archive:
            return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}

    @cached_property
    def metadata(self) -> Any:
        (name,) = [n for n in self.contents if n.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(self.contents[name])

    def tracked(self) -> list[Path]:
        """The files of the repository; of a tree without git, all that are text."""
        found = subprocess.run(["git", "ls-files", "-z"], cwd=self.root, capture_output=True, text=True)
        if found.returncode == 0 and found.stdout:
            return [self.root / name for name in found.stdout.split("\0") if name]
        return [
            p for p in self.root.rglob("*") if p.is_file() and not {"build", "dist", ".venv"} & set(p.parts)
        ]


# --- the checks: each gives what is wrong, or nothing ---------------------------------------------------
def one_version(t: Tree) -> Iterator[str]:
    """`src/tinyphysics/version.py` holds the version, of the form 1.2.3, and nothing else repeats it."""
    if not VERSION.fullmatch(t.version):
        yield f'version.py says "{t.version}": write __version__ = "1.2.3"'
    if t.project["project"].get("dynamic") != ["version"] or "version" in t.project["project"]:
        yield 'pyproject.toml: write dynamic = ["version"], and no version of its own'
    if t.metadata["Version"] != t.version:
        yield f"the wheel has the version {t.metadata['Version']}, and version.py {t.version}"


def changelog(t: Tree) -> Iterator[str]:
    """The head of `CHANGELOG.md` is this version with its date; between releases it is Unreleased, above this version."""
    heads = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d{2}-\d{2}))?$", t.text("CHANGELOG.md"), re.MULTILINE)
    if not heads:
        yield "CHANGELOG.md has no entry: write ## [1.2.3] - 2030-01-31"
        return
    released = [head for head in heads if head[0] != "Unreleased"]
    if t.tag is not None and heads[0][0] == "Unreleased":
        yield f"the head is still Unreleased: rename it to [{t.version}] with today's date"
    if not released or released[0][0] != t.version:
        yield f"the newest release is {released[0][0] if released else 'missing'}, and version.py says {t.version}"
    yield from (
        f"[{name}] has no date: write ## [{name}] - 2030-01-31" for name, date in released if not date
    )
    for entry in re.split(r"^## ", t.text("CHANGELOG.md"), flags=re.MULTILINE)[1:]:
        if "### Breaking changes" not in entry:
            yield f"{entry.splitlines()[0]} has no section Breaking changes"


def tag(t: Tree) -> Iterator[str]:
    """The tag is v and the version, and no other commit has it; older tags have that form, too."""
    if t.tag is not None and t.tag != f"v{t.version}":
        yield f"the tag is {t.tag}: write v{t.version}"

    def git(*words: str) -> list[str]:
        return subprocess.run(["git", *words], cwd=t.root, capture_output=True, text=True).stdout.split()

    tags = git("tag", "--list")
    yield from (
        f"the tag {name} is not of the form v1.2.3"
        for name in tags
        if not re.fullmatch(rf"v{VERSION.pattern}", name)
    )
    if (
        t.tag is not None
        and f"v{t.version}" in tags
        and f"v{t.version}" not in git("tag", "--points-at", "HEAD")
    ):
        yield f"v{t.version} is the tag of another commit: raise the version"


def citation(t: Tree) -> Iterator[str]:
    """`CITATION.cff` names this version and the licence."""
    text = t.text("CITATION.cff")
    if f"\nversion: {t.version}\n" not in text:
        yield f"CITATION.cff: write version: {t.version}"
    if f"\nlicense: {t.project['project']['license']}\n" not in text:
        yield f"CITATION.cff: write license: {t.project['project']['license']}"


def licence(t: Tree) -> Iterator[str]:
    """The licence is MIT in `pyproject.toml`, in the wheel, and in the file `LICENSE`, which the wheel has."""
    if t.metadata["License-Expression"] != t.project["project"]["license"]:
        yield f"the wheel says the licence is {t.metadata['License-Expression']}"
    if "MIT License" not in t.text("LICENSE"):
        yield "LICENSE is not the MIT License"
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in t.contents):
        yield 'the wheel has no LICENSE: write license-files = ["LICENSE"]'


def metadata(t: Tree) -> Iterator[str]:
    """The wheel says what it is: a summary, Python versions, classifiers, authors, a README in Markdown."""
    for name in ("Name", "Summary", "Requires-Python", "Author", "Keywords", "Description-Content-Type"):
        if not t.metadata[name]:
            yield f"the wheel has no {name}"
    if t.metadata["Description-Content-Type"] != "text/markdown":
        yield f"the README is announced as {t.metadata['Description-Content-Type']}"
    given = set(t.metadata.get_all("Classifier") or [])
    least = str(t.metadata["Requires-Python"]).removeprefix(">=")
    for wanted in ("Typing :: Typed", f"Programming Language :: Python :: {least}", "Development Status"):
        if not any(c.startswith(wanted) for c in given):
            yield f"there is no classifier {wanted}"
    if any(c.startswith("License ::") for c in given):
        yield "a classifier repeats the licence: License-Expression says it"


def wheel_contents(t: Tree) -> Iterator[str]:
    """The wheel has every file of `src/tinyphysics`, what `pyproject.toml` adds, `py.typed` and `tp`, and nothing else."""
    source = t.root / "src"
    targets = t.project.get("tool", {}).get("hatch", {}).get("build", {}).get("targets", {})
    added = targets.get("wheel", {}).get("force-include", {})
    files = {
        p.relative_to(source).as_posix() for p in (source / "tinyphysics").rglob("*")
        if p.is_file() and p.suffix not in (".pyc", ".pyo")
    }  # fmt: skip
    for own, there in added.items():
        files |= {
            f"{there}/{p.relative_to(t.root / own).as_posix()}" for p in (t.root / own).rglob("*")
            if p.is_file() and p.suffix not in (".pyc", ".pyo")
        }  # fmt: skip
    inside = {name for name in t.contents if ".dist-info/" not in name}
    yield from (f"not in the wheel: {name}" for name in sorted(files - inside)[:5])
    yield from (f"in the wheel, and not in src: {name}" for name in sorted(inside - files)[:5])
    if "tinyphysics/py.typed" not in inside:
        yield "the wheel has no py.typed: type checkers would not read it"
    points = next((t.contents[n].decode() for n in t.contents if n.endswith("entry_points.txt")), "")
    if "tp = tinyphysics.__main__:main" not in points:
        yield "the wheel has no command tp"


def extras(t: Tree) -> Iterator[str]:
    """Every extra is in the wheel, and each package that it names exists for this Python in a version that fits."""
    declared = t.project["project"].get("optional-dependencies", {})
    inside = set(t.metadata.get_all("Provides-Extra") or [])
    if set(declared) != inside:
        yield f"extras of the wheel and of pyproject.toml differ: {', '.join(sorted(set(declared) ^ inside))}"
    every = {d for ds in (t.project["project"]["dependencies"], *declared.values()) for d in ds}
    yield from (problem for requirement in sorted(every) if (problem := unresolvable(requirement)))


def unresolvable(requirement: str) -> str | None:
    """Why a package cannot be installed here; None if it can, if it is installed, or if it is for other machines."""
    from packaging.requirements import Requirement  # pytest brings it

    r = Requirement(requirement)
    if r.marker is not None and not r.marker.evaluate():
        return None
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        if r.specifier.contains(importlib.metadata.version(r.name)):
            return None
    call = [sys.executable, "-m", "pip", "index", "versions", "--disable-pip-version-check", r.name]
    found = subprocess.run(call, capture_output=True, text=True)
    listed = re.search(r"Available versions: (.*)", found.stdout)
    if listed is None:
        return f"{r.name}: no version is known to the package index"
    if not any(r.specifier.contains(v.strip()) for v in listed[1].split(",")):
        return f"{requirement}: the newest version is {listed[1].partition(',')[0]}"
    return None


def readme(t: Tree) -> Iterator[str]:
    """The README renders: fences are closed, tables are even, and every file that it links is there."""
    import markdown  # mkdocs brings it

    text = t.text(t.project["project"]["readme"])
    if text.count("\n```") % 2:
        yield "a fence ``` is not closed"
    html = markdown.markdown(text, extensions=["tables", "fenced_code"])
    bare = re.sub(r"<pre>.*?</pre>", "", html, flags=re.DOTALL)
    if "```" in bare:
        yield "a block of code was not recognised: leave an empty line before it"
    if re.search(r"^\|.*\|$", re.sub(r"<[^>]+>", "", bare), re.MULTILINE):
        yield "a table was not recognised: leave an empty line before it"
    for link in re.findall(r'(?:href|src)="([^"#]+)', html):
        if "://" not in link and not (t.root / link).exists():
            yield f"the link {link} leads nowhere"
    if t.metadata.get_payload(decode=True).decode("utf-8").strip() != text.strip():
        yield "the wheel has another README"


def local_paths(t: Tree) -> Iterator[str]:
    """No file names a folder of one machine, neither in the repository nor in the wheel."""
    own = [str(t.root), str(Path.home())]
    for path in t.tracked():
        if path.suffix in TEXT and path.is_file() and path != Path(__file__).resolve():
            yield from (
                f"{path.relative_to(t.root)}: {found}"
                for found in named_in(path.read_text("utf-8", "replace"), own)
            )
    for name, data in t.contents.items():
        yield from (f"the wheel, {name}: {found}" for found in named_in(data.decode("utf-8", "replace"), own))


def named_in(text: str, own: Sequence[str]) -> list[str]:
    """The first path of one machine in a text."""
    found = LOCAL.search(text)
    mine = next((p for p in own if len(p) > 5 and p in text), None)
    return [mine or found[0]] if mine or found else []  # type: ignore[index]


def bare_environment(t: Tree) -> Iterator[str]:
    """The wheel, installed alone in a new environment, brings what it needs: it imports, compiles, runs, and `tp` answers."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(Path(folder) / "bare", with_pip=True)
        bin_ = Path(folder) / "bare" / ("Scripts" if os.name == "nt" else "bin")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
        calls = [
            [
                str(bin_ / "python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                str(t.wheel),
            ],
            [str(bin_ / "python"), "-I", "-c", FIRST_MINUTE],
            [str(bin_ / "tp"), "--version"],
            [str(bin_ / "tp"), "demo", "oscillator"],
        ]
        for call in calls:
            done = subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True)
            if done.returncode:
                yield f"{' '.join(call[1:3])} failed: {done.stderr.strip().splitlines()[-1:]}"
                return


@dataclass(frozen=True)
class Check:
    """One line of the checklist."""

    name: str
    find: Callable[[Tree], Iterator[str]]

    @property
    def sentence(self) -> str:
        return (self.find.__doc__ or "").strip()


# fmt: off
CHECKS = (
    Check("version",     one_version),
    Check("changelog",   changelog),
    Check("tag",         tag),
    Check("citation",    citation),
    Check("licence",     licence),
    Check("metadata",    metadata),
    Check("wheel",       wheel_contents),
    Check("extras",      extras),
    Check("readme",      readme),
    Check("local paths", local_paths),
    Check("bare",        bare_environment),
)
# fmt: on
SLOW = ("bare",)  # asked for by name, or by --bare


def check(t: Tree, chosen: Sequence[Check]) -> int:
    """Prints the list with what is wrong; the number of checks that failed."""
    failed = 0
    for c in chosen:
        problems = list(c.find(t))
        failed += bool(problems)
        print(f"{'NOT YET' if problems else 'ok     '}  {c.name:<12} {c.sentence}", flush=True)
        for problem in problems:
            print(f"{'':9}{'':12} - {problem}")
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="run the checks; 1 if one fails")
    parser.add_argument("--list", action="store_true", help="print the checklist")
    parser.add_argument("--tag", help="the tag that is about to be made, v1.2.3")
    parser.add_argument("--wheel", type=Path, help="a wheel that is built already")
    parser.add_argument("--bare", action="store_true", help="install the wheel in an empty environment, too")
    parser.add_argument(
        "--only", action="append", choices=[c.name for c in CHECKS], help="run this check alone"
    )
    given = parser.parse_args(arguments)
    if given.list or not given.check:
        for c in CHECKS:
            print(f"{c.name:<12} {c.sentence}")
        return 0
    chosen = [c for c in CHECKS if (c.name in given.only if given.only else c.name not in SLOW or given.bare)]
    failed = check(Tree(wheel=given.wheel, tag=given.tag), chosen)
    print("ready" if not failed else f"{failed} of {len(chosen)} checks failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
