"""Twenty-five programs as newcomers of different fields type them: each works, or fails with the sentence that helps.

A program ends with what it does: `# prints:` lines occur in what it prints, and `# says:` lines in the error that it ends with.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAMS = sorted(path for path in HERE.glob("*.py") if path.stem not in ("conftest", "test_first_hour"))
LONGEST = ("double_pendulum_with_pairs", "van_der_pol", "section", "lorenz", "figure_eight")


def expected(path: Path, word: str) -> list[str]:
    return re.findall(rf"^# {word}: (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)


def cases() -> list:
    out = []
    for path in PROGRAMS:
        marks = [pytest.mark.all] if path.stem in LONGEST else []
        out.append(pytest.param(path, id=path.stem, marks=marks))
    return out


def run(path: Path) -> tuple[str, str]:
    """(what a program prints, the error that it ends with)."""
    printed, said = io.StringIO(), ""
    with contextlib.redirect_stdout(printed):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
    return printed.getvalue(), said


@pytest.mark.parametrize("path", cases())
def test_a_program_works_or_says_what_to_write(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if find_spec("pint") is None:  # what a quantity of pint looks like
        monkeypatch.syspath_prepend(HERE / "stand_ins")
    printed, said = run(path)
    sys.modules.pop("pint", None)  # else the next test finds the stand-in
    wanted = expected(path, "says")
    assert bool(said) == bool(wanted), said or "it should have failed"
    for line in wanted:
        assert line in said
    for line in expected(path, "prints"):
        assert line in printed


def test_there_are_twenty_five_and_each_says_what_it_does():
    assert len(PROGRAMS) == 25
    assert all(expected(path, "says") or expected(path, "prints") for path in PROGRAMS)
