"""How are observables computed?  By a program of their own, on a copy, so that watching changes nothing."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyphysics.ir import UOp, f64, graph_rewrite, substitute
from tinyphysics.rules.real import products
from tinyphysics.system import Parameter, State
from tinyphysics.tpir.isa import ParamDecl, Pointer, Program, Register, StateDecl
from tinyphysics.tpir.lower import Builder, type_of
from tinyphysics.tpir.precision import FLOAT64, Precision


def probe(
    states: Sequence[State], parameters: Sequence[Parameter], time: UOp, values: Mapping[str, UOp],
    precision: Precision = FLOAT64,
) -> Program:  # fmt: skip
    """A program whose `final` section loads a state and observes the values; conditions count as 1 and 0.

    The values are computed in float64 whatever the states are stored in: the energy of a float32 state in
    float32 would show its own rounding, and not what the run has done.
    """
    own = {p.var: UOp.var(str(p.var.arg), p.var.shape, precision.given) for p in parameters}
    kept = [word for s in states for word in precision.kept(s)]
    b = Builder(kept, {})
    for i, s in enumerate(kept):
        b.emit("init", "LOAD", Register("S", i), Pointer(s.name), u=s.var)
    read = {time: UOp.var("@0.0"), **{s.var: precision.value(s) for s in states}, **{v: u.cast(f64) for v, u in own.items()}}
    numbers = [u if u.dtype is f64 else u.cast(f64) for u in values.values()]
    roots = graph_rewrite(substitute(numbers, read), products)
    for name, u in zip(values, roots):
        b.emit("final", "OBSERVE", Pointer(name), b.operand(u, "final"), u=u)
    return Program(
        "probe", (), tuple(declared(s, i) for i, s in enumerate(kept)),
        (ParamDecl("dt"), *(ParamDecl(p.name, type_of(own[p.var])) for p in parameters)),
        init=tuple(b.sections["init"]), final=tuple(b.sections["final"]),
    )  # fmt: skip


def declared(s: State, i: int) -> StateDecl:
    """The i-th state of a probe, in which nothing moves."""
    return StateDecl(s.name, "error", type_of(s.var), low_of=i - 1) if s.role == "error" else \
        StateDecl(s.name, "field", type_of(s.var))  # fmt: skip
