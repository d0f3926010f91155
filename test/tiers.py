"""Which tests run?  `make quick`, `make test` and `make test-all` choose by measured time and by marks.

`make test-all` runs everything. `make test` has seven minutes, so it runs each claim and leaves out what repeats it:

- a test that takes at most SINGLE seconds; a longer one if it says why it is worth it, `@pytest.mark.slow("...")`;
- of a table of cases, no longer row either; every row that is in `make quick`, and all rows if they take at most TABLE
  seconds together; else rows in which every value of every column occurs, the cheapest ones, or, where there is one
  column, the cheapest rows up to ROWS seconds, at least one.
  `thin(strength=2)` asks for every pair of values instead, `thin(rows=8)` for eight rows, evenly spaced;
- nothing marked `all`: peers, long runs.

`make quick` runs what of it takes at most QUICK seconds, or is marked `quick`. What was left out is printed. A test of which no duration is
known runs. `--record-durations` writes `test/durations.json`: seconds of processor time, those of child processes
included, because the clock of a shared machine says little. With `--tier test` it keeps those of the rows that were left out.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pairwise import covering

FILE = Path(__file__).parent / "durations.json"
QUICK, SINGLE, TABLE, ROWS = 0.05, 0.5, 0.5, 0.25  # seconds of processor time, on a Zen 4
LEAST = 0.02  # below it a duration is not kept: it counts as this
COMMANDS = {"quick": "make test", "test": "make test-all"}


def durations() -> dict[str, float]:
    """Processor seconds of every test that takes some, by its name."""
    found: dict[str, float] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return found


def spent() -> float:
    """Processor seconds of this process and of the children it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def slower(items: list[pytest.Item], known: dict[str, float]) -> set[str]:
    """Names of the tests that only `make test-all` runs."""
    tables: dict[str, list[Any]] = {}
    for item in items:
        tables.setdefault(item.nodeid.split("[")[0], []).append(item)
    out: set[str] = set()
    for rows in tables.values():
        costs = [known.get(item.nodeid, LEAST) for item in rows]
        kept = chosen(rows, costs)
        out |= {item.nodeid for k, item in enumerate(rows) if k not in kept or item.get_closest_marker("all")}
    return out


def chosen(rows: list[Any], costs: list[float]) -> set[int]:
    """Numbers of the rows of one test that `make test` runs, if they are not marked `all`."""
    every, thin = set(range(len(rows))), rows[0].get_closest_marker("thin")
    reason = rows[0].get_closest_marker("slow")
    if reason is not None and reason.args:
        return every
    columns = [tuple(map(id, r.callspec.params.values())) if hasattr(r, "callspec") else () for r in rows]
    if thin and "rows" in thin.kwargs:
        count = min(thin.kwargs["rows"], len(rows))
        return {round(k * (len(rows) - 1) / max(count - 1, 1)) for k in range(count)}
    if thin:
        return set(covering(columns, thin.kwargs["strength"]))
    if sum(costs) <= TABLE:
        return every
    cheap = {k for k, cost in enumerate(costs) if cost <= QUICK}
    short = [k for k, cost in enumerate(costs) if cost <= SINGLE]
    if len({c[:1] for c in columns}) < len(rows):  # several columns
        return cheap | {short[k] for k in covering([columns[k] for k in short], 1, [costs[k] for k in short])}
    kept, spent_so_far = set(), 0.0
    for cost, k in sorted((costs[k], k) for k in short):
        if kept and spent_so_far + cost > ROWS:
            break
        kept.add(k)
        spent_so_far += cost
    return cheap | kept


def skip_reasons(reporter: Any) -> Iterator[str]:
    """Of every test, or file of tests, that was skipped."""
    for report in reporter.stats.get("skipped", ()):
        if isinstance(report.longrepr, tuple):
            yield str(report.longrepr[2]).removeprefix("Skipped: ")


def recorded(known: dict[str, float], measured: dict[str, float], whole: bool) -> dict[str, float]:
    """What is known after a run: its own durations, and those of tests that it had no reason to run.

    These are tests of other files and, unless the run was `whole`, rows that its tier leaves out.
    """
    ran = {name.split("::")[0] for name in measured}
    kept = {
        name: seconds
        for name, seconds in known.items()
        if name not in measured and not (whole and name.split("::")[0] in ran)
    }
    return kept | {name: round(seconds, 2) for name, seconds in measured.items() if seconds >= LEAST}


class Tiers:
    """Leaves tests out, and says at the end how many of which file."""

    def __init__(self, config: pytest.Config) -> None:
        self.tier: str = config.getoption("--tier")
        self.record: bool = config.getoption("--record-durations")
        self.known = durations()
        self.left_out: Counter[str] = Counter()
        self.seconds_left_out = 0.0
        self.measured: dict[str, float] = {}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if self.tier == "all":
            return
        kept, left_out, later = [], [], slower(items, self.known)
        for item in items:
            long = self.known.get(item.nodeid, 0.0) > QUICK and item.get_closest_marker("quick") is None
            wait = item.nodeid in later or (self.tier == "quick" and long)
            (left_out if wait else kept).append(item)
        self.left_out = Counter(item.nodeid.split("::")[0] for item in left_out)
        self.seconds_left_out = sum(self.known.get(item.nodeid, 0.0) for item in left_out)
        if left_out:
            config.hook.pytest_deselected(items=left_out)
        items[:] = kept

    # --- what the workers of pytest-xdist left out is told by one of them ---
    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        told = getattr(node, "workeroutput", {}).get("left_out")
        if told:
            self.left_out, self.seconds_left_out = Counter(told[0]), told[1]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["left_out"] = (dict(self.left_out), self.seconds_left_out)
        elif self.record:
            self.write()

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.left_out:
            write = terminalreporter.write_line
            write("")
            write(
                f"left out of --tier {self.tier}: {self.left_out.total():,} tests, about "
                f"{self.seconds_left_out / 60:.0f} min of processor time; `{COMMANDS[self.tier]}` runs them"
            )
            rows = self.left_out.most_common()
            write("  " + ", ".join(f"{Path(file).name} {n}" for file, n in rows[:12]))
            if len(rows) > 12:
                write(f"  and {sum(n for _, n in rows[12:]):,} more in {len(rows) - 12} files")

        missing = Counter(why for why in skip_reasons(terminalreporter) if "is not installed" in why)
        if self.tier != "all" and missing:
            each = ", ".join(f"{why} ({n})" for why, n in sorted(missing.items()))
            terminalreporter.write_line(
                f"left out for lack of a library: {each}; `make test-all` installs it"
            )

    # --- durations ---
    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.began = spent()
        yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: object) -> Iterator[None]:
        outcome: Any = yield
        outcome.get_result().processor_seconds, self.began = spent() - self.began, spent()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = getattr(report, "processor_seconds", 0.0)
        self.measured[report.nodeid] = self.measured.get(report.nodeid, 0.0) + seconds

    def write(self) -> None:
        now = recorded(self.known, self.measured, whole=self.tier == "all")
        lines = (f"  {json.dumps(name)}: {s}" for name, s in sorted(now.items()))
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
