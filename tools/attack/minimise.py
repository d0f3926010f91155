"""The shortest program that still shows a finding: terms, options and numbers are taken away one by one."""

from __future__ import annotations

from collections.abc import Iterator

from attack.case import Case
from attack.findings import Tally
from attack.one import SHARE, attacked

EVERYTHING = frozenset({"certificates", "facts", *SHARE})


def shorter(case: Case) -> Iterator[Case]:
    """Cases with a little less."""
    if case.form == "sum":
        for i in range(len(case.terms)):
            if len(case.terms) > 1:
                yield case.without(terms=case.terms[:i] + case.terms[i + 1 :])
    for name in ("precision", "scale", "order", "propagator", "inner", "method"):
        if name in case.options:
            yield case.without(options={k: v for k, v in case.options.items() if k != name})
    if case.options.get("backend") != "python":
        yield case.without(options={**case.options, "backend": "python"})
    if case.steps > 1:
        yield case.without(steps=1)
    if case.t0:
        yield case.without(t0=0.0)
    if case.dt not in (0.1, -0.1) and "dt" in case.options:
        yield case.without(options={**case.options, "dt": 0.1})


def shows(t: Tally, wanted: set[str]) -> bool:
    return bool({f.check for f in t.findings} & wanted)


def minimised(case: Case, only: frozenset[str], limit: float) -> tuple[Case, Tally]:
    """(the shortest case that was found, its tally); the case itself if it shows nothing."""
    best = attacked(case, only or EVERYTHING, limit)
    wanted = {f.check for f in best.findings}
    if not wanted:
        return case, best
    going = True
    while going:
        going = False
        for new in shorter(case):
            t = attacked(new, only or EVERYTHING, limit)
            if shows(t, wanted):
                case, best, going = new, t, True
                break
    return case, best
