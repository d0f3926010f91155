"""How many registers would a loop body like to have?  Counted on a section, one copy of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tinyphysics.ir.ops import COMPARE, Ops
from tinyphysics.ir.uop import toposort
from tinyphysics.tpir.kernels.kernel import Section, early

FREE = (Ops.CONST, Ops.VAR, Ops.BITCAST)


@dataclass(frozen=True)
class Pressure:
    """Vector registers that one copy of a loop body would like to have, and how long it is."""

    state: int  # what goes round the loop
    adders: int  # of which only added to: they may wait in memory
    temporaries: int  # at most alive at once
    constants: int  # shared by all copies; those that do not fit are read from memory, which is cheap
    operations: int  # of one stage
    seeds: int = 0  # roots of math="fast": long chains of cheap operations
    beside: int = 0  # of what goes round the loop, all that nothing waits for


def pressure(f: Section) -> Pressure:
    order = early(f.roots, f.guards)
    last = {s: k for k, u in enumerate(order) for s in u.src}
    values = [u for u in order if u.op not in (Ops.CONST, Ops.VAR)]
    ends = set(f.roots)
    most = alive = 0
    for k, u in enumerate(order):
        if u.op not in FREE and u not in ends:
            alive += 1
            most = max(most, alive)
        alive -= sum(s.op not in FREE and s not in ends and last[s] == k for s in set(u.src))
    changing = {*f.loads, *f.weights}
    constants = {
        s for u in values for s in u.src if s.op is Ops.CONST or s.op is Ops.VAR and s not in changing
    }
    return Pressure(
        len(f.loads) - len(f.idle),
        len(f.accumulators),
        most,
        len(constants),
        sum(kinds(f).values()) // f.stages,
        sum(u.op is Ops.RSQRT_ESTIMATE for u in order),
        len(f.beside),
    )


def kinds(f: Section) -> Counter[str]:
    """Operations of one step in the minimal set; a sign that goes into a fused multiply-add costs nothing."""
    out: Counter[str] = Counter()
    order = toposort([*f.roots, *f.guards])
    bare = {s for u in order if u.op is not Ops.FMA for s in u.src} | set(f.roots)
    for u in order:
        if u.op in FREE or u.op is Ops.NEG and u not in bare:
            continue
        out["compare" if u.op in COMPARE else u.op.value] += f.stages
    for t in f.tails:
        for u in toposort([*t.roots, *t.guards]):
            if u.op not in FREE and u.op is not Ops.NEG:
                out["compare" if u.op in COMPARE else u.op.value] += f.stages // t.period
    return out
