"""Where does the method come from?  The sources of what was chosen."""
from __future__ import annotations

from tinyphysics.plan import Plan
from tinyphysics.planner.catalog import BY_NAME


def cite(plan: Plan) -> tuple[str, ...]:
    method = BY_NAME.get(plan.method)
    return (method.source,) if method is not None and method.source else ()
