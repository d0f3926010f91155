"""Options of the test run: `--update-golden` writes the golden files instead of comparing with them."""

import signal
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"

# a suite in the background is started with interrupts ignored, and so would be whatever it starts
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="write test/golden/ from what the compiler says now"
    )


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
