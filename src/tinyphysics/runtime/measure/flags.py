"""Which named flags does a run have?  Information, which is as expected; failure, after which no number is to be used.

A table: the name of a flag, its class, what it says, and how often it applies to a run. A run has one line for each flag,
however often.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinyphysics.trajectory import WRONG, Stop

INFORMATION, FAILURE = "information", "failure"


@dataclass(frozen=True)
class Case:
    metrics: Mapping[str, Any]
    stops: Sequence[Stop]
    observer: str
    reduced: bool  # were the values of an ensemble reduced to a few numbers?


@dataclass(frozen=True)
class Flag:
    name: str
    kind: str
    says: str
    count: Callable[[Case], int]


def fell_back(c: Case) -> int:
    """Was it done elsewhere than was asked for?  auto asks for nothing."""
    b = c.metrics["backend"]
    return int(b["requested"] not in ("auto", b["used"]))


def lean(c: Case) -> int:
    return int(c.observer in ("none", "metrics"))


def asked_for(backend: str) -> Callable[[Case], int]:
    return lambda c: int(c.metrics["backend"]["requested"] == backend)


def used(backend: str) -> Callable[[Case], int]:
    return lambda c: int(c.metrics["backend"]["used"] == backend)


def stopped(*causes: str) -> Callable[[Case], int]:
    return lambda c: sum(s.cause in causes for s in c.stops)


def nothing_launched(c: Case) -> int:
    m = c.metrics
    return int(m["backend"]["used"] == "cuda" and m["steps"] > 0 and not m["launches"])


# fmt: off
FLAGS: tuple[Flag, ...] = (
    Flag("NO_READBACK",      INFORMATION, "no frame was read, as the observer says", lean),
    Flag("CHECKS_OFF",       INFORMATION, "nothing watched what the run conserves: that reads states", lean),
    Flag("REDUCED",          INFORMATION, "of members, least, mean and greatest were kept", lambda c: int(c.reduced)),
    Flag("BACKEND_CHOSEN",   INFORMATION, 'backend="auto" chose where it runs', asked_for("auto")),
    Flag("NOT_COMPILED",     INFORMATION, "it ran in Python, with the same bits", used("python")),
    Flag("BACKEND_FALLBACK", FAILURE,     "it ran on another backend than was asked for", fell_back),
    Flag("GPU_NOT_USED",     FAILURE,     "the backend is a GPU, and nothing was launched there", nothing_launched),
    Flag("NOT_FINITE",       FAILURE,     "numbers of members are not finite", stopped("not finite", "overflow")),
    Flag("NOT_SOLVED",       FAILURE,     "members stopped at equations that were not solved", stopped("not solved")),
    Flag("CHECK_FAILED",     FAILURE,     "members stopped where what the method conserves was lost", stopped(*WRONG)),
    Flag("INTERRUPTED",      FAILURE,     "the run was interrupted", stopped("interrupted")),
    Flag("DEVICE_FAILED",    FAILURE,     "the device failed", stopped("device")),
    Flag("STORE_FAILED",     FAILURE,     "a file could not be written", stopped("store")),
)
# fmt: on


def flags_of(metrics: Mapping[str, Any], stops: Sequence[Stop], observation: Any) -> dict[str, Any]:
    """{class: {name: {"count": how often, "says": what}}}."""
    summary = getattr(observation, "summary", None)
    case = Case(metrics, stops, observation.observer, summary is not None and summary.is_ensemble)
    out: dict[str, Any] = {INFORMATION: {}, FAILURE: {}}
    for f in FLAGS:
        if count := f.count(case):
            out[f.kind][f.name] = {"count": count, "says": f.says}
    return out
