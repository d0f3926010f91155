"""How is a loop laid over a core, and how fast can it be at best?  Registers and ports, counted on the kernel."""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tinyphysics.ir.dtype import f32
from tinyphysics.ir.ops import COMPARE, Ops
from tinyphysics.ir.uop import toposort
from tinyphysics.planner.cost import describe
from tinyphysics.report import Row
from tinyphysics.target import Core, VectorShape
from tinyphysics.tpir.kernel import Section, early

# Vectors side by side: enough to hide latency, few enough that the state stays in registers and the loop in
# the cache of decoded operations. Measured on AVX2; on AVX-512 the first bound is the one that acts.
MOST_UNROLL = 6
GOOD_UNROLL = 4
LEAST_UNROLL = 2
MOST_CODE = 1_700  # operations in a loop body

FREE = (Ops.CONST, Ops.VAR, Ops.BITCAST)


@dataclass(frozen=True)
class Pressure:
    """Vector registers that one copy of a loop body would like to have."""

    state: int  # what goes round the loop
    adders: int  # of which only added to: they may wait in memory
    temporaries: int  # at most alive at once
    constants: int  # shared by all copies; those that do not fit are read from memory, which is cheap


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
    constants = {s for u in values for s in u.src if s.op is Ops.CONST or s.op is Ops.VAR and s not in changing}
    return Pressure(len(f.loads), len(f.accumulators), most, len(constants))


def kinds(f: Section) -> Counter[str]:
    """Operations of one step in the minimal set; a sign that goes into a fused multiply-add costs nothing."""
    out: Counter[str] = Counter()
    order = toposort([*f.roots, *f.guards])
    bare = {s for u in order if u.op is not Ops.FMA for s in u.src} | set(f.roots)
    for u in order:
        if u.op in FREE or u.op is Ops.NEG and u not in bare:
            continue
        out["compare" if u.op in COMPARE else u.op.value] += f.stages
    return out


def cycles(f: Section, core: Core, width: int) -> float:
    """The fewest cycles in which a core does one step of one member: whatever its latencies, its ports are busy."""
    n = kinds(f)
    multiply, add = n["mul"] + n["fma"], n["add"] + n["sub"] + n["compare"]
    own = (multiply / core.multiply, add / core.add) if core.add else ((multiply + add) / core.multiply,)
    divider = n["div"] * core.divide + n["sqrt"] * core.root
    if f.loads and f.loads[0].dtype is f32:
        divider /= 2  # half as many digits: no less than half the time
    return max(*own, sum(n.values()) / core.any, divider) / width


def shape_for(f: Section, members: int, core: Core, width: int) -> VectorShape:
    """One lane for one member; else full vectors, as many side by side as the registers hold.

    Where those are too few, a short step is written copy after copy, which needs the fewest registers: the core
    overlaps the copies itself. What is only added to then stays in memory, so that no value that others wait
    for has to: a store takes an issue slot from the fused multiply-adds of Zen 3, and reading it back is slow.
    """
    if members == 1:
        return VectorShape(1, 1)
    enough = -(-members // width)
    if not f.loops:
        return VectorShape(width, 1)
    p = pressure(f)
    fitting = min(core.registers // max(p.state, 1), MOST_CODE // max(f.code, 1))
    unroll = min(enough, max(LEAST_UNROLL, min(MOST_UNROLL, fitting)))
    few = unroll * p.state + p.constants > core.registers or unroll < GOOD_UNROLL
    if p.adders and few:
        room = (core.registers - p.constants - p.temporaries) // max(p.state - p.adders, 1)
        turns = min(enough, MOST_UNROLL, room)
        if turns >= unroll and turns * sum(kinds(f).values()) <= core.window * f.stages:
            return VectorShape(width, turns, in_turn=True)
    return VectorShape(width, unroll)


def rows(f: Section, shape: VectorShape, core: Core, width: int) -> list[Row]:
    """For `explain()`: what a step is made of, where it is kept, and what bounds its speed."""
    n, p = kinds(f), pressure(f)
    stages = f", {f.stages} stages in a loop" if f.stages > 1 else ""
    held = shape.unroll * (p.state - (p.adders if shape.in_turn else 0))
    order = "copy after copy" if shape.in_turn else "operation by operation"
    kept = f"{held} of state ({shape.unroll * p.adders} more in memory)" if shape.in_turn else f"{held} of state"
    return [
        Row("step", describe(n), f"in the minimal operator set{stages}"),
        Row("ensembles", f"{shape.width} lanes x {shape.unroll}", f"vectors interleaved {order}"),
        Row("registers", f"{core.registers}",
            f"wanted: {kept}, up to {p.temporaries} temporaries a copy, {p.constants} constants"),
        Row("port limit", f"{cycles(f, core, width):.3g} cycles", f"a member and step at best, on {core.name}"),
    ]  # fmt: skip
