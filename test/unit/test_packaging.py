"""Is the package what pyproject.toml says?  Version, extras, entry point, types, and a light import."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tinyphysics

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src")}
HEAVY = (
    "llvmlite",
    "rich",
    "matplotlib",
    "scipy",
    "mpmath",
    "xarray",
    "zarr",
    "pint",
    "pyopencl",
    "jax",
    "torch",
    "dask",
)


def test_there_is_one_version():
    assert PROJECT["project"]["dynamic"] == ["version"]
    source = (ROOT / PROJECT["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    assert f'__version__ = "{tinyphysics.__version__}"' in source
    assert re.fullmatch(r"\d+\.\d+\.\d+", tinyphysics.__version__)


def test_the_citation_names_this_version():
    assert f"\nversion: {tinyphysics.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/design.md", "README.md"])
def test_the_files_that_a_page_names_are_there(name):
    """Paths in backquotes that begin with a folder of the source or of the project."""
    text = (ROOT / name).read_text(encoding="utf-8")
    source = ROOT / "src" / "tinyphysics"
    folders = [p.name for p in source.iterdir() if p.is_dir()]
    for path in re.findall(rf"`((?:{'|'.join(folders)}|src|test|tools|bench)/[\w/.]+)`", text):
        assert (ROOT / path).exists() or (source / path).exists(), f"{name} names {path}, which is not there"


def test_the_changelog_has_this_version_and_says_what_breaks():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)
    assert releases[0] in ("Unreleased", tinyphysics.__version__) and tinyphysics.__version__ in releases
    for entry in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        assert "### Breaking changes" in entry, entry.splitlines()[0]


def test_the_installed_version_is_the_one_imported():
    try:
        installed = importlib.metadata.version("tinyphysics")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("run from the source tree, not installed")
    assert installed == tinyphysics.__version__


def test_types_are_shipped():
    assert (ROOT / "src" / "tinyphysics" / "py.typed").exists()
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/tinyphysics"]


def test_importing_loads_nothing_heavy():
    code = f"import sys, tinyphysics; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_the_command_tp_is_a_function_that_exists():
    module, _, function = PROJECT["project"]["scripts"]["tp"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_python_m_tinyphysics_is_the_same_command():
    call = [sys.executable, "-m", "tinyphysics", "--version"]
    done = subprocess.run(call, env=ENVIRONMENT, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, f"tinyphysics {tinyphysics.__version__}")


def test_the_core_needs_three_packages():
    name = re.compile(r"[\w-]+")
    assert [name.match(d)[0] for d in PROJECT["project"]["dependencies"]] == ["numpy", "llvmlite", "rich"]


# Packages of an extra, and where they are imported or looked for. The last four are for people who work on it.
EXTRAS = {
    "plot": {"matplotlib": "src"},
    "io": {"xarray": "src", "zarr": "src", "gsd": "src"},
    "molecules": {"gemmi": "src"},
    "planets": {"astroquery": "src"},
    "tables": {"pyarrow": "src"},
    "units": {"pint": "src"},
    "analysis": {"pymbar": "src"},
    "cluster": {"distributed": "src"},
    "mpi": {"mpi4py": "src"},
    "fit": {"scipy": "src"},
    "torch": {"torch": "src"},
    "jax": {"jax": "src"},
    "measure": {"mpmath": "src"},
    "wasm": {"wasmtime": "src"},
    "webgpu": {"wgpu": "src"},
    "web": {"starlette": "src", "uvicorn": "src", "websockets": "src"},
    "opencl": {"pyopencl": "src"},
    "c": {"ziglang": "src"},
    "bench": dict.fromkeys(["numba", "jax", "heyoka", "rebound", "diffrax"], "bench"),
    "test": dict.fromkeys(
        ["hypothesis", "mpmath", "scipy", "gsd", "matplotlib", "xarray", "zarr", "nbclient", "ipykernel"],
        "test",
    )
    | {"pyopencl": "src", "gemmi": "test", "pyarrow": "test", "pint": "test", "pyte": "test"},
    "peers": {
        "openmm": "test",
        "pyright": "test",
        "torch": "test",
        "jax": "test",
        "wasmtime": "src",
        "wgpu": "src",
    },
    "docs": {},
}
PINNED = ("torch==2.13.0", "jax==0.10.*")  # of peers
TOOLS = {
    "pytest",
    "pytest-xdist",
    "ruff",
    "mypy",
    "mkdocs-material",
    "pocl-binary-distribution",
    "mpich",
}  # called, not imported


def test_an_extra_installs_what_is_imported_and_nothing_else():
    name = re.compile(r"[\w-]+")
    extras = PROJECT["project"]["optional-dependencies"]
    assert set(extras) == set(EXTRAS)
    for extra, folders in EXTRAS.items():
        packages = {name.match(d)[0] for d in extras[extra]}
        assert packages - TOOLS == set(folders), extra
        for package, folder in folders.items():
            text = "".join(p.read_text(encoding="utf-8") for p in (ROOT / folder).rglob("*.py"))
            looks = rf"^\s*(import|from) {package}\b|(importorskip|find_spec|import_module|package|needed)\(\"{package}|xarray.open_{package}\("
            assert re.search(looks, text, re.MULTILINE), f"{extra}: nothing in {folder}/ imports {package}"


def test_dependencies_have_lower_bounds_and_no_upper_ones():
    """But for the formatter, which may lay out the same code otherwise, and libraries whose rules for layers are pinned."""
    project = PROJECT["project"]
    every = [*project["dependencies"], *(d for ds in project["optional-dependencies"].values() for d in ds)]
    for dependency in every:
        pinned = dependency.startswith("ruff") or dependency in PINNED
        bound = "==" if pinned else ">="
        assert re.fullmatch(rf"[\w-]+{bound}[\d.]+[*]?(; sys_platform == .*)?", dependency), dependency


def test_every_file_is_strictly_typed():
    mypy = PROJECT["tool"]["mypy"]
    assert mypy["strict"] and not any(o.get("ignore_errors") for o in mypy["overrides"])


@pytest.mark.parametrize(
    "target",
    [
        "demo",
        "quick",
        "test",
        "test-all",
        "test-gpu",
        "replay",
        "durations",
        "docs",
        "bench",
        "lint",
        "types",
        "examples",
        "clean",
    ],
)
def test_make_knows(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_no_file_of_the_project_names_a_package_registry():
    for name in ("pyproject.toml", "Makefile", "mkdocs.yml", ".ci/run"):
        text = (ROOT / name).read_text()
        assert not re.search(r"index-url|find-links|/simple\b|pypi\.org|://[^\s\"']*@", text), name
