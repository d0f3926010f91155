"""Does a tier run what it says, and leave out only what repeats a claim?"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import tiers
from pairwise import covering


def row(*values, **marks):
    """One case of a test, with marks by name: their first argument, or their keywords."""
    found = {
        n: SimpleNamespace(args=(m,) if isinstance(m, str) else (), kwargs=m if isinstance(m, dict) else {})
        for n, m in marks.items()
    }
    out = SimpleNamespace(nodeid=f"f.py::t[{values}]" if values else "f.py::t", get_closest_marker=found.get)
    if values:
        out.callspec = SimpleNamespace(params=dict(enumerate(values)))
    return out


@pytest.mark.parametrize("strength", [1, 2, 3])
def test_every_combination_of_values_occurs(strength):
    from itertools import combinations, product

    rows = list(product(range(4), range(3), range(2)))
    taken = [rows[k] for k in covering(rows, strength)]
    for at in combinations(range(3), strength):
        assert {tuple(r[i] for i in at) for r in taken} == {tuple(r[i] for i in at) for r in rows}
    assert len(taken) <= {1: 4, 2: 14, 3: 24}[strength]


def test_a_long_test_runs_only_if_it_says_why():
    assert tiers.chosen([row()], [0.4]) == {0}
    assert tiers.chosen([row()], [3.0]) == set()
    assert tiers.chosen([row(slow="the contract")], [3.0]) == {0}
    assert tiers.chosen([row(slow=None)], [3.0]) == set(), "a mark without a reason"


def test_a_table_that_is_short_runs_whole_and_a_long_one_shows_every_value():
    rows = [row(a, b) for a in "xyz" for b in (1, 2)]
    assert tiers.chosen(rows, [0.06] * 6) == set(range(6))
    assert tiers.chosen(rows, [2.0] * 6) == set()
    kept = tiers.chosen(rows, [0.4] * 6)
    assert len(kept) == 3
    assert {v for k in kept for v in rows[k].callspec.params.values()} == {"x", "y", "z", 1, 2}


def test_of_one_column_the_cheapest_rows_run_and_quick_ones_always():
    rows = [row(v) for v in ("a", "b", "c", "d")]
    assert tiers.chosen(rows, [4.0, 0.45, 0.4, 5.0]) == {2}
    assert tiers.chosen(rows, [4.0, 0.14, 0.1, 0.04]) == {2, 3}


def test_marks_decide_how_many_rows():
    rows = [row(v, thin={"rows": 3}) for v in "abcdefg"]
    assert tiers.chosen(rows, [9.0] * 7) == {0, 3, 6}
    assert tiers.slower([row(all=None), row("a")], {}) == {"f.py::t"}
    pairs = [row(a, b, thin={"strength": 2}) for a in "xy" for b in "uv"]
    assert tiers.chosen(pairs, [9.0] * 4) == {0, 1, 2, 3}


def test_what_has_no_duration_runs():
    assert tiers.slower([row()], {}) == set()


def test_a_run_of_some_tests_does_not_forget_the_durations_of_others():
    known = {"a.py::left_out": 9.0, "a.py::faster_now": 1.0, "b.py::of_another_file": 2.0}
    measured = {"a.py::new": 0.456, "a.py::faster_now": 0.001}
    kept = {"a.py::new": 0.46, "b.py::of_another_file": 2.0}
    assert tiers.recorded(known, measured, whole=False) == kept | {"a.py::left_out": 9.0}
    assert tiers.recorded(known, measured, whole=True) == kept, (
        "a run of everything forgets tests that are gone"
    )


def test_durations_are_of_tests_that_are_there():
    files = {name.split("::")[0] for name in tiers.durations()}
    root = tiers.FILE.parents[1]
    assert [f for f in sorted(files) if not (root / f).exists()] == [], "make durations writes them anew"


PROBE = """
import pytest

@pytest.mark.all
def test_of_test_all(): pass

@pytest.mark.thin(rows=2)
@pytest.mark.parametrize("n", range(5))
def test_thin(n): pass
"""


@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["alone", "with a worker"])
def test_what_is_left_out_is_printed(tmp_path, workers):
    import subprocess
    import sys

    folder = tiers.FILE.parent
    (tmp_path / "test_probe.py").write_text(PROBE)
    (tmp_path / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {str(folder)!r})\nfrom conftest_of_the_project import *\n"
    )
    (tmp_path / "conftest_of_the_project.py").write_text((folder / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    all\n    thin\n    slow\n")
    call = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--tier",
        "test",
        "-p",
        "no:cacheprovider",
        *workers,
        str(tmp_path),
    ]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "left out of --tier test: 4 tests" in done.stdout and "make test-all" in done.stdout
    assert "test_probe.py 4" in done.stdout and "2 passed" in done.stdout
