"""Where does the method come from?  The sources of what was chosen, as BibTeX."""

from __future__ import annotations

from tinyphysics.plan import Goal, Plan
from tinyphysics.planner.methods.bibliography import work
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.system import Clock


class Citations(tuple[str, ...]):
    """One BibTeX entry each; printed, they are a .bib file."""

    def __str__(self) -> str:
        return "\n\n".join(self)


def cite(plan: Plan, goal: Goal, clock: Clock | None = None) -> Citations:
    method = BY_NAME.get(plan.method)
    keys = [] if method is None or not method.source else [method.source]
    if goal.approximate is not None:
        keys.append("barnes1986")
    if clock is not None and clock.way == "logarithmic":
        keys += ["mikkola1999", "preto1999"]
    return Citations(work(key).bibtex for key in keys)
