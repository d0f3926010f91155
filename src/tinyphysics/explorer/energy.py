"""The energy of a state as one more section of a kernel, for what is drawn beside a run."""

from __future__ import annotations

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, elements, substitute
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.system import System
from tinyphysics.tpir.kernels.kernel import Section, scalars

NAME = "energy"


def energy_section(system: System, loads: tuple[UOp, ...]) -> Section | None:
    """The energy of a state and the sum of the sizes of its terms; None where there is no energy of the state alone."""
    if system.energy is None or system.time is not None and system.time in system.energy.leaves:
        return None
    known = {str(v.arg): v for v in loads}
    inputs = {v: UOp.var(f"&{v.arg}", v.shape, v.dtype) for v in (*system.q, *system.p)}
    params = {p.var: UOp.var(f"${p.name}", p.var.shape, p.var.dtype) for p in system.parameters}
    if not system.energy.leaves <= inputs.keys() | params.keys():
        return None
    terms = substitute(addends(system.energy), {**inputs, **params})
    size = UOp.sum_of([abs(x) for x in terms])
    values = lower(inline(scalars([*substitute([system.energy], {**inputs, **params}), size])))
    names: dict[UOp, UOp] = {}
    for v in (*inputs.values(), *params.values()):
        for e in elements(v):
            names[e] = UOp.var(f"{v.arg}.{e.arg}" if v.shape else str(v.arg), (), v.dtype)
    roots = substitute(values, names)
    if any(str(v.arg) not in known and not str(v.arg).startswith("$") for u in roots for v in u.leaves):
        return None
    return Section(NAME, loads, tuple(roots), (), {}, careful=True)


def addends(u: UOp) -> list[UOp]:
    """The terms of a sum."""
    return [x for s in u.src for x in addends(s)] if u.op in (Ops.ADD, Ops.SUB) else [u]
