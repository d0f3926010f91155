"""By which names do instructions call the operations of the graph?"""

from __future__ import annotations

from tinyphysics.ir.ops import ORBITS, Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.calculus.partials import partials
from tinyphysics.rules.formulas.relativity import NAME as RELATIVISTIC

assert RELATIVISTIC, "registered, so that a listing may name it"

FUNCTIONS: dict[str, Ops] = {op.value: op for op in Ops if op not in ORBITS | {Ops.FAR, Ops.SELDOM}} | {
    "sq": Ops.MUL
}
REDUCTIONS = {"SUM": "sum", "PAIRS": "pairs", "MAX": "max", "MIN": "min"}


def slope(u: UOp, k: int, name: str) -> UOp | None:
    """d u/d source k, None where it is zero; `sq` names its source once and uses it twice."""
    return 2.0 * u.src[0] if name == "sq" else partials(u)[k]
