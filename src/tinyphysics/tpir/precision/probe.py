"""How are observables computed?  By a program of their own, on a copy, so that watching changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyphysics.ir import Ops, UOp, f64, graph_rewrite, substitute, toposort
from tinyphysics.rules.digits.double_double import Pair
from tinyphysics.rules.functions.widen import Wide, widen
from tinyphysics.rules.identities.exact import exact, unrounded
from tinyphysics.rules.identities.real import products
from tinyphysics.system import Parameter, State
from tinyphysics.tpir.precision.double_double import clock_pair
from tinyphysics.tpir.precision.precision import FLOAT64, Precision
from tinyphysics.tpir.program.isa import ParamDecl, Pointer, Program, Register, StateDecl
from tinyphysics.tpir.program.lower import ProgramBuilder, type_of

REST = "rest of "  # before the name of a value: the second word of it, where values have two


def probe(
    states: Sequence[State],
    parameters: Sequence[Parameter],
    time: UOp,
    values: Mapping[str, UOp],
    precision: Precision = FLOAT64,
) -> Program:
    """A program whose `final` section loads a state and observes the values; conditions count as 1 and 0.

    The values are computed in float64 whatever the states are stored in: the energy of a float32 state in
    float32 would show its own rounding, and not what the run has done. Of pairs of float64 they are pairs too.
    """
    own = {p.var: UOp.var(str(p.var.arg), p.var.shape, precision.given) for p in parameters}
    kept = [word for s in states for word in precision.kept(s)]
    b = ProgramBuilder(kept, {})
    for i, s in enumerate(kept):
        b.emit("init", "LOAD", Register("S", i), Pointer(s.name), u=s.var)
    numbers = [u if u.dtype is f64 else u.cast(f64) for u in values.values()]
    if precision.wide:
        roots = in_words(
            list(values), numbers, time, {s.var: tuple(w.var for w in precision.kept(s)) for s in states}
        )
    else:
        read = {s.var: precision.value(s) for s in states} | {v: u.cast(f64) for v, u in own.items()}
        read[time] = UOp.var("@0.0")
        roots = graph_rewrite(substitute(numbers, read), products)
    for name, u in zip(values, roots):
        b.emit("final", "OBSERVE", Pointer(name), b.operand(u, "final"), u=u)
    return Program(
        "probe",
        (),
        tuple(declared(s, i) for i, s in enumerate(kept)),
        (ParamDecl("dt"), *(ParamDecl(p.name, type_of(own[p.var])) for p in parameters)),
        init=tuple(b.sections["init"]),
        final=tuple(b.sections["final"]),
    )


def in_words(
    names: Sequence[str], values: Sequence[UOp], time: UOp, states: Mapping[UOp, tuple[UOp, ...]]
) -> list[UOp]:
    """The values in pairs, of each the word that its name asks for."""
    with unrounded():
        roots = graph_rewrite(values, products)
    known: dict[UOp, Wide] = {low: Pair(low) for _, low in states.values()}
    known |= {time: clock_pair(0.0), **{s: Pair(*words) for s, words in states.items()}}
    # equations are solved in float64: of first words
    of_firsts = {s: words[0] for s, words in states.items()} | {time: UOp.var("@0.0")}
    solved = {u: substitute([u], of_firsts)[0] for u in roots if solves(u)}
    widened = iter(widen([u for u in roots if u not in solved], known))
    found = [solved[u] if u in solved else next(widened) for u in roots]
    pairs = [p if isinstance(p, Pair) else Pair(p) for p in found]
    return graph_rewrite(
        [p.rest if name.startswith(REST) else p.high for name, p in zip(names, pairs)], exact
    )


def solves(u: UOp) -> bool:
    return any(x.op is Ops.SOLVE for x in toposort([u]))


def declared(s: State, i: int) -> StateDecl:
    """The i-th state of a probe, in which nothing moves."""
    if s.role == "error":
        return StateDecl(s.name, "error", type_of(s.var), low_of=i - 1)
    return StateDecl(s.name, "field", type_of(s.var))
