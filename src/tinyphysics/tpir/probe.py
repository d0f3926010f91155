"""How are observables computed?  By a program of their own, on a copy, so that watching changes nothing."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tinyphysics.ir import DType, UOp, f64, graph_rewrite, substitute
from tinyphysics.rules.real import products
from tinyphysics.system import Parameter, State
from tinyphysics.tpir.isa import ParamDecl, Pointer, Program, Register, StateDecl
from tinyphysics.tpir.lower import Builder, type_of


def probe(
    states: Sequence[State], parameters: Sequence[Parameter], time: UOp, values: Mapping[str, UOp], stored: DType = f64
) -> Program:
    """A program whose `final` section loads a state and observes the values; conditions count as 1 and 0.

    The values are computed in float64 whatever the states are stored in: the energy of a float32 state in
    float32 would show its own rounding, and not what the run has done.
    """
    given = [*(s.var for s in states), *(p.var for p in parameters)]
    own = {v: UOp.var(str(v.arg), v.shape, stored) for v in given}
    states = [replace(s, var=own[s.var]) for s in states]
    b = Builder(states, {})
    for i, s in enumerate(states):
        b.emit("init", "LOAD", Register("S", i), Pointer(s.name), u=s.var)
    read = {time: UOp.var("@0.0"), **{v: u.cast(f64) for v, u in own.items()}}
    numbers = [u if u.dtype.is_float else u.cast(f64) for u in values.values()]
    roots = graph_rewrite(substitute(numbers, read), products)
    for name, u in zip(values, roots):
        b.emit("final", "OBSERVE", Pointer(name), b.operand(u, "final"), u=u)
    return Program(
        "probe", (), tuple(StateDecl(s.name, "field", type_of(s.var)) for s in states),
        (ParamDecl("dt"), *(ParamDecl(p.name, type_of(own[p.var])) for p in parameters)),
        init=tuple(b.sections["init"]), final=tuple(b.sections["final"]),
    )  # fmt: skip
