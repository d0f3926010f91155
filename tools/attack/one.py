"""All checks of one case, in the order of their cost; what the compiler raises is judged here too."""

from __future__ import annotations

import logging
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import tinyphysics as tp
from attack import (
    amplitudes,
    backends,
    baths,
    bodies,
    certificates,
    charges,
    facts,
    fits,
    goals,
    integers,
    listings,
    meshes,
    orders,
    passages,
    poles,
    segments,
    slopes,
    solved,
    units,
    walls,
    watched,
)
from attack.case import Case
from attack.findings import Tally
from attack.known import label
from attack.pace import FRESH, slowness
from attack.programs import case_of
from attack.subject import Subject
from attack.truth import Unknown

LIMIT = 30  # CPU seconds of one case; these two are of the machine of attack/pace.py
SLOW = 2.0  # of one compilation
AGAIN = 0.5  # CPU seconds until a case that did not hear of its limit hears of it again
# one case in so many has this check; the first three are made for all
SHARE = {"orders": 3, "listings": 4, "segments": 8, "energies": 4, "backends": 8, "goals": 16} | {
    "charges": 13, "units": 7, "integers": 25, "solved": 61, "passages": 67,
    "poles": 27, "slopes": 9, "bodies": 11, "fits": 41,
    "baths": 19, "walls": 37, "amplitudes": 23, "meshes": 71,
}  # fmt: skip


class Hang(BaseException):
    """A case has used up its time."""


class Endless(BaseException):
    """A run has said that it will take very long, and why: no one waits for it without knowing."""


class Told(logging.Handler):
    """Listens to what is logged; nothing else of it is judged."""

    def emit(self, record: logging.LogRecord) -> None:
        if "more steps. The solution changes" in record.getMessage():
            raise Endless


@contextmanager
def listening() -> Iterator[None]:
    log, handler = logging.getLogger("tinyphysics"), Told()
    level, passes = log.level, log.propagate
    log.addHandler(handler)
    log.propagate = False
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = passes
        log.setLevel(level)


def expired(*_: Any) -> None:
    raise Hang


def guarded(t: Tally, seed: int, what: str, work: Callable[[], None]) -> bool:
    """Does the work end without an exception?  Errors of tinyphysics are refusals, all others findings."""
    try:
        work()
        return True
    except Endless:
        t.unclear[what] += 1
        t.shares["would take very long, and says so"] += 1
    except (
        tp.VerifyError
    ) as error:  # of the compiler's own program: tampered listings are judged where they are made
        t.report(seed, "refused by its own verifier", what, str(error)[:300])
    except tp.TinyPhysicsError as error:
        t.refused[f"{what}: {type(error).__name__}"] += 1
        if not str(error).strip():
            t.report(seed, "exception", type(error).__name__, "without a message")
    except Unknown:
        t.unclear[what] += 1
    except Exception as error:
        if inside_attack(error):
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        t.report(
            seed,
            "exception",
            type(error).__name__,
            f"{error!s:.200} ({what}, {place.filename.rsplit('/', 1)[-1]}:{place.lineno})",
        )
    return False


def judge_time(t: Tally, seed: int, what: str, spent: float) -> None:
    """Is it slow?  Beside a machine that is as slow as this one is now."""
    if spent > SLOW and spent > SLOW * (slow := slowness(times=3)):
        t.report(seed, "slow", what, f"{spent / slow:.1f} CPU s")


def inside_attack(error: Exception) -> bool:
    """Was it raised by our own lines?"""
    return Path(traceback.extract_tb(error.__traceback__)[-1].filename).parent == Path(__file__).parent


def attacked(case: Case, only: frozenset[str] = frozenset(), limit: float = LIMIT) -> Tally:
    """The tally of a case; `only` names the checks that are made, all that are due if none."""
    slow = slowness(every=FRESH)
    t, began = Tally(), time.process_time()
    t.cases[case.kind] += 1
    signal.signal(signal.SIGPROF, expired)
    # raised where Python ignores it, in a destructor, it is raised again
    signal.setitimer(signal.ITIMER_PROF, limit * slow, AGAIN)
    doing = "compile"
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), listening():
            warnings.simplefilter("ignore")
            subject: list[Subject] = []
            ok = guarded(t, case.seed, "compile", lambda: subject.append(Subject(case)))
            judge_time(t, case.seed, "compile", time.process_time() - began)
            for name, work in due(case, subject[0] if ok else None, only):
                at = time.process_time()
                if doing == "certificates":  # after a run a report may say more than before it
                    guarded(t, case.seed, "explain", lambda: str(subject[0].sim.explain("full")) and None)
                    judge_time(t, case.seed, "explain", time.process_time() - at)
                doing = name
                guarded(t, case.seed, name, lambda work=work: work(t))  # type: ignore[misc]
    except Hang:
        signal.setitimer(signal.ITIMER_PROF, 0)
        t.report(case.seed, "hang", doing, f"more than {limit:g} CPU s")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    t.seconds = time.process_time() - began
    t.findings = [replace(f, known=label(f, case)) for f in t.findings]
    return t


def due(case: Case, s: Subject | None, only: frozenset[str]) -> list[tuple[str, Callable[[Tally], None]]]:
    """The checks of a case: certificates and facts of all, the others by their share."""

    def wanted(name: str) -> bool:
        return (
            name in only
            if only
            else name not in SHARE or (case.seed // 7) % SHARE[name] == case.seed % SHARE[name]
        )

    out: list[tuple[str, Callable[[Tally], None]]] = []
    if s is not None:
        of_subject: tuple[tuple[str, Callable[[Subject, Tally], None]], ...] = (
            ("certificates", certificates.check),
            ("facts", facts.check),
            ("orders", orders.check),
            ("listings", listings.check),
            ("segments", segments.check),
            ("energies", watched.check),
            ("slopes", slopes.check),
        )
        if s.is_map:
            out.append(("map", lambda t: backends.as_written(s, t)))
        out += [(n, lambda t, f=f: f(s, t)) for n, f in of_subject if wanted(n)]  # type: ignore[misc]
        if wanted("backends"):
            opencl, cuda = backends.opencl_here(), size_of(case) < 12  # the interpreter of PTX is slow
            out.append(("backends", lambda t: backends.check(case, t, opencl, cuda)))
    of_case: tuple[tuple[str, Callable[[Case, Tally], None]], ...] = (
        ("goals", goals.check),
        ("charges", charges.check),
        ("units", units.check),
        ("integers", integers.check),
        ("solved", solved.check),
        ("passages", passages.check),
        ("poles", poles.check),
        ("bodies", bodies.check),
        ("fits", fits.check),
        ("baths", baths.check),
        ("walls", walls.check),
        ("amplitudes", amplitudes.check),
        ("meshes", meshes.check),
    )
    out += [(n, lambda t, f=f: f(case, t)) for n, f in of_case if wanted(n)]  # type: ignore[misc]
    return out


def size_of(case: Case) -> int:
    return sum(n for _, _, n, _ in case.layout)


def of_seed(seed: int, only: frozenset[str] = frozenset(), limit: float = LIMIT) -> Tally:
    return attacked(case_of(seed), only, limit)
