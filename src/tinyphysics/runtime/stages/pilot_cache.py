"""What have pilots shown before?  Decisions, found again by the system, the goals, the state and the time of a run."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from tinyphysics.device import cache
from tinyphysics.plan import Decision, Goal, Trial
from tinyphysics.runtime.engines.plans import key_of, roots_of, variables
from tinyphysics.runtime.state.digest import state_hash
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.system import System

MOST = 256  # remembered in this process
_decisions: dict[str, Decision] = {}


def as_data(d: Decision) -> dict[str, Any]:
    """For JSON, which has no infinities."""
    return asdict(d) | {
        "trials": [asdict(t) | {"error": str(t.error), "work": str(t.work)} for t in d.trials]
    }


def from_data(data: Any) -> Decision:
    """What `as_data` wrote; anything else raises."""
    trials = tuple(
        Trial(**t | {"error": float(t["error"]), "work": float(t["work"])}) for t in data["trials"]
    )
    return Decision(**data | {"trials": trials})


def key(system: System, goal: Goal, given: Inputs, t0: float, reach: float | None) -> str | None:
    """Of all that pilots decide by; they have the same bits on every backend."""
    state = [state_hash(given.states), state_hash(given.own), given.members]
    return key_of(
        "decision", roots_of(system), [system.kind, *variables(system), goal.options, state, t0, reach]
    )


def recall(name: str | None) -> Decision | None:
    if name is None or name in _decisions:
        return _decisions.get(name or "")
    try:
        found = from_data(json.loads(cache.read(f"{name}.decision") or b"null"))
    except (ValueError, TypeError, KeyError):
        return None
    _decisions[name] = found
    return found


def remember(name: str | None, d: Decision) -> None:
    if name is None:
        return
    if len(_decisions) >= MOST:
        _decisions.clear()
    _decisions[name] = d
    cache.write(f"{name}.decision", json.dumps(as_data(d)).encode())
