"""Which states and parameters does each term read?"""

from __future__ import annotations

from tinyphysics.facts import Fact
from tinyphysics.ir import UOp
from tinyphysics.system import System


def reads(system: System, parts: dict[str, UOp]) -> Fact:
    order = [s.var for s in system.states] + [x.var for x in system.parameters]
    if system.time is not None:
        order.append(system.time)
    table = {name: [v.arg for v in order if v in u.leaves] for name, u in parts.items()}
    text = "; ".join(f"{name} reads {', '.join(names) or 'nothing'}" for name, names in table.items())
    return Fact.yes("reads", text, table=table)
