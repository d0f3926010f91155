"""Which parts of a system draw random numbers, and from which streams?"""

from __future__ import annotations

from tinyphysics.facts import Fact
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.system import System


def drawn(system: System, parts: dict[str, UOp]) -> Fact:
    found = {
        name: list(dict.fromkeys(u.arg[1] for u in toposort([part]) if u.op is Ops.RANDOM))
        for name, part in parts.items()
    }
    told = [
        f"{name} draws from {'stream' if len(streams) == 1 else 'streams'} {', '.join(map(str, streams))}"
        for name, streams in found.items()
        if streams
    ]
    if not told:
        return Fact.no("random numbers", "nothing draws any")
    site = next(
        (system.sites[u] for u in toposort(list(parts.values())) if u.op is Ops.RANDOM and u in system.sites),
        None,
    )
    return Fact.yes("random numbers", "; ".join(told), site)
