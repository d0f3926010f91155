"""How are observables computed?  By a program of their own, on a copy, so that watching changes nothing."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyphysics.ir import UOp, f64, graph_rewrite, substitute
from tinyphysics.rules.real import products
from tinyphysics.system import Parameter, State
from tinyphysics.tpir.isa import ParamDecl, Pointer, Program, Register, StateDecl
from tinyphysics.tpir.lower import Builder, type_of


def probe(
    states: Sequence[State], parameters: Sequence[Parameter], time: UOp, values: Mapping[str, UOp]
) -> Program:
    """A program whose `final` section loads a state and observes the values; conditions count as 1 and 0."""
    b = Builder(states, {})
    for i, s in enumerate(states):
        b.emit("init", "LOAD", Register("S", i), Pointer(s.name), u=s.var)
    clock = {time: UOp.var("@0.0")}
    numbers = [u if u.dtype.is_float else u.cast(f64) for u in values.values()]
    roots = graph_rewrite(substitute(numbers, clock), products)
    for name, u in zip(values, roots):
        b.emit("final", "OBSERVE", Pointer(name), b.operand(u, "final"), u=u)
    return Program(
        "probe", (), tuple(StateDecl(s.name, "field", type_of(s.var)) for s in states),
        (ParamDecl("dt"), *(ParamDecl(p.name, type_of(p.var)) for p in parameters)),
        init=tuple(b.sections["init"]), final=tuple(b.sections["final"]),
    )  # fmt: skip
