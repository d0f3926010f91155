"""What has been compiled before?  Plans and kernel outlines, found again by what decides them.

A key is made of the graph as traced, what was asked, the flags, and the text of this package: with equal keys,
analysing, planning, lowering and verifying would give what they gave before. Run-time values (dt, the defaults
of parameters) and places in the user's file are not in it, and nothing that depends on them is kept. What is
kept is JSON; whatever cannot be read as what it should be counts as not found.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from tinyphysics.context import BEGAN, CHECK, CUDA_TUNE, FLAGS
from tinyphysics.device import cache
from tinyphysics.errors import InputError
from tinyphysics.ir import Ops, UOp, dump, parse, toposort
from tinyphysics.pipeline import Build
from tinyphysics.plan import Goal
from tinyphysics.planner.cost.cost import operations
from tinyphysics.planner.cost.target import FEW_MEMBERS, in_loops
from tinyphysics.rules.formulas.relativity import NAME as RELATIVISTIC
from tinyphysics.step import DRAWS, OWN_STEPS, SERIES, SOLVES
from tinyphysics.system import System
from tinyphysics.target import TARGETS
from tinyphysics.tpir.kernels.kernel import Kernel
from tinyphysics.tpir.kernels.outline import Outline, described
from tinyphysics.util import PACKAGE, digest, without_collections

FORMAT = 2
MOST = 256  # plans remembered in this process


@dataclass(frozen=True)
class PlanSummary:
    """What a run has to know of a plan."""

    program: str  # the program's hash
    method: str
    backend: str
    timed: bool  # does a step ask for the time?
    loops: tuple[bool, bool]  # does a run of few members go in loops along its axes?  And one of many?
    operations: int  # of a step
    way: str  # loop, or exact, method: then one jump stands for it
    instead: str  # what would delete the loop, if something would
    slow: str  # why it runs instruction by instruction in Python, if that was not asked for
    scales: tuple[tuple[str, str], ...]  # (state, factor) where a run keeps other units
    traits: tuple[str, ...]  # of its step, in order: words of step.py

    @property
    def solves(self) -> bool:
        """Has it equations to solve, without which there is no step?"""
        return SOLVES in self.traits and OWN_STEPS not in self.traits

    @property
    def series(self) -> bool:
        """Is it a Taylor series in loops?"""
        return SERIES in self.traits

    @property
    def draws(self) -> bool:
        """Does a step draw random numbers?"""
        return DRAWS in self.traits


def loops_of(b: Build) -> tuple[bool, bool]:
    """Is it run in loops along its axes, by few members and by many?"""
    if b.target.backend == "python" or b.goal.propagator not in (None, "loop"):
        return False, False
    return in_loops(b.program, FEW_MEMBERS), in_loops(b.program, FEW_MEMBERS + 1)


@without_collections()
def known_of(b: Build) -> PlanSummary:
    scales = tuple((str(s.state.arg), dump([s.factor])) for s in b.step.coordinates.scales)
    timed = any(i.op == "TIME" for i in b.program.step)
    return PlanSummary(
        b.program.hash,
        b.plan.method,
        b.target.backend,
        timed,
        loops_of(b),
        sum(operations(b.program.step, b.program).values()),
        b.goal.propagator or "loop",
        "" if b.choice is None else b.choice.instead,
        b.why.removeprefix("auto: ") if b.target.backend == "python" and b.why.startswith("auto") else "",
        scales,
        tuple(sorted(b.step.traits)),
    )


def read(text: bytes) -> PlanSummary:
    """What `keep` wrote; anything else raises."""
    data = json.loads(text)
    scales = tuple((str(state), str(factor)) for state, factor in data.pop("scales"))
    few, many = data.pop("loops")
    traits = tuple(str(trait) for trait in data.pop("traits"))
    types = {
        "program": str,
        "method": str,
        "backend": str,
        "timed": bool,
        "operations": int,
        "way": str,
        "instead": str,
        "slow": str,
    }
    if data.keys() != types.keys() or any(type(data[name]) is not t for name, t in types.items()):
        raise ValueError("not a plan")
    if type(few) is not bool or type(many) is not bool:
        raise ValueError("not a plan")
    TARGETS[data["backend"]]
    for _, factor in scales:
        parse(factor)
    return PlanSummary(**data, loops=(few, many), scales=scales, traits=traits)


# --- keys -------------------------------------------------------------------------------------------
@lru_cache(maxsize=1)
def sources() -> str | None:
    """The text of this package, or None if it is not what was imported."""
    digests, folders = [], [PACKAGE]
    try:
        while folders:
            with os.scandir(folders.pop()) as entries:
                for e in entries:
                    if e.is_dir() and e.name != "__pycache__":
                        folders.append(e.path)
                    elif e.name.endswith(".py"):
                        if e.stat().st_mtime >= BEGAN:
                            return None
                        with open(e.path, "rb", buffering=0) as file:
                            digests.append(e.path.removeprefix(PACKAGE) + digest(file.read()))
    except OSError:
        return None
    return digest("".join(sorted(digests)).encode())


def key_of(kind: str, roots: list[UOp], rest: Any) -> str | None:
    """None where the same key might mean two things: user operations are code of the user's."""
    package = sources()
    if (
        package is None
        or CHECK.value
        or any(u.op is Ops.CUSTOM and u.arg != RELATIVISTIC for u in toposort(roots))
    ):
        return None
    # which decides nothing of a program
    flags = {name: f.told for name, f in FLAGS.items() if f is not CUDA_TUNE}
    return digest(repr([FORMAT, sys.version, sys.platform, package, flags, kind, dump(roots), rest]).encode())


def variables(system: System) -> list[Any]:
    states = [(s.name, s.role, str(s.var.dtype), s.var.shape, s.unit) for s in system.states]
    parameters = [(p.name, str(p.var.dtype), p.var.shape, p.unit) for p in system.parameters]
    return [states, parameters, None if system.time is None else system.time.arg]


def roots_of(system: System) -> list[UOp]:
    """All that a system holds; of a Lagrangian's motion the rest follows from L."""
    return [u for name, us in system.roots.items() for u in (us[:1] if name == "motion" else us)]


def plan_key(system: System, goal: Goal, requested: str) -> str | None:
    """Of all that `build` decides by."""
    roots = roots_of(system)
    asked = {name: value for name, value in goal.options.items() if name not in ("dt", "decision")}
    asked["stiff"] = bool(goal.stiff)  # so is the number itself
    asked["spectrum"] = goal.spectrum.method or None if goal.spectrum is not None else None
    # its other numbers are run-time values
    asked["decided"] = None if goal.decision is None else goal.decision.method
    clock = None if system.clock is None else [system.clock.way, dump([system.clock.rate])]
    # a map's program has the name of its function; numbers say which roots are which
    own = [system.kind, system.name, len(system.forces), len(system.levels), system.motion is None]
    counted = ("energy", "forces", "update", "levels", "motion")
    own += [(name, len(us)) for name, us in system.roots.items() if name not in counted]
    own += [system.bracket] if system.bracket else []
    # which are not met backwards
    own += [system.crossings, goal.dt is not None and goal.dt < 0.0] if system.crossings else []
    own += [system.bath] if system.bath else []
    own += [system.contacts] if system.contacts else []
    return key_of("plan", roots, [*own, clock, *variables(system), asked, requested])


def probe_key(program: str, system: System, values: Mapping[str, UOp]) -> str | None:
    """Of the program that observes values in runs of the program with a key."""
    return key_of("probe", list(values.values()), [program, *variables(system), list(values)])


# --- what is kept -----------------------------------------------------------------------------------
_plans: dict[str, PlanSummary] = {}


def forget() -> None:
    """Everything that this process remembers; the directory keeps what it has."""
    _plans.clear()


def find(key: str | None) -> tuple[PlanSummary | None, str]:
    """(the plan or None, where it was found)."""
    if key is None:
        return None, "made"
    if key in _plans:
        return _plans[key], "memory"
    try:
        known = read(cache.read(f"{key}.plan") or b"null")
    except (ValueError, TypeError, AttributeError, KeyError, InputError):
        return None, "made"
    remember(key, known)
    return known, "disk"


def keep(key: str | None, known: PlanSummary) -> None:
    if key is not None:
        remember(key, known)
        cache.write(f"{key}.plan", json.dumps(asdict(known)).encode())


def remember(key: str, known: PlanSummary) -> None:
    if len(_plans) >= MOST:
        _plans.clear()
    _plans[key] = known


def outline(key: str, make: Callable[[], Kernel]) -> Outline:
    """The outline of a kernel: as it was kept, or of the kernel made now."""
    name = f"{key}.kernel"
    try:
        return Outline(key, json.loads(cache.read(name) or b"null"), make)
    except (ValueError, TypeError, KeyError, AttributeError):
        kernel = make()
    data = described(kernel)
    cache.write(name, json.dumps(data).encode())
    return Outline(key, data, lambda: kernel)
