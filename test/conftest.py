"""Options of the test run: tiers (test/tiers.py), and `--update-golden`, which writes the golden files."""

import os
import re
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest
import tiers

GOLDEN = Path(__file__).parent / "golden"

# a suite in the background is started with interrupts ignored, and so would be whatever it starts
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption(
        "--tier",
        choices=("quick", "test", "all"),
        default="all",
        help="leave out what is slower (test/tiers.py)",
    )
    parser.addoption("--record-durations", action="store_true", help=f"write {tiers.FILE.name}")
    parser.addoption(
        "--update-golden", action="store_true", help="write test/golden/ from what the compiler says now"
    )
    parser.addoption(
        "--fake-gpu",
        action="store_true",
        help="run test/gpu/ behind the fake driver, with few members: are the tests well?",
    )


def pytest_configure(config):
    if config.getoption("--tier") != "all":  # -O3 takes gcc twice as long; pinned runs and test-all have it
        os.environ.setdefault("TINYPHYSICS_C_LEVEL", "1")
    config.pluginmanager.register(tiers.Tiers(config))
    source = Path(__file__).parents[1] / "src" / "tinyphysics"
    # doctests import every file; some of these need their library
    for library, room in (
        ("torch", "learn"),
        ("jax", "learn"),
        ("distributed", "cluster"),
        ("mpi4py", "cluster"),
        ("anywidget", "explorer"),
    ):
        if find_spec(library) is None:
            needs = re.compile(rf"^(import|from) {library}\b", re.MULTILINE)
            files = [
                str(file)
                for file in (source / room).glob("*.py")
                if needs.search(file.read_text(encoding="utf-8"))
            ]
            config.option.ignore = [*(config.option.ignore or []), *files]


@pytest.fixture
def golden(request):
    """golden(name, text): the text is what the file says, or becomes it under --update-golden."""

    def check(name: str, text: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.write_text(text)
            return
        assert file.exists(), (
            f"{file.name} does not exist: run pytest --update-golden test/unit/test_golden.py"
        )
        assert text == file.read_text(), (
            f"{file.name} has changed: if that is meant, run pytest --update-golden"
        )

    return check


@pytest.fixture(scope="session")
def objects_of_the_fake(tmp_path_factory):
    """A folder where the fake driver's objects are kept, apart from those of real ones; all workers share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "objects"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@pytest.fixture
def fake_cuda(objects_of_the_fake, monkeypatch):
    """An NVIDIA driver that interprets PTX (test/fake_cuda.py); what went wrong in it fails the test."""
    from fake_cuda import FakeDriver, installed

    objects_of_the_fake.chmod(0o700)
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(objects_of_the_fake))
    with installed(FakeDriver()) as driver:
        yield driver
    assert driver.faults == [], "look at them in the test if they are meant, and clear the list"
