"""How is a loop laid over a core, and how fast can it be at best?  Registers and ports, counted on the kernel."""

from __future__ import annotations

from dataclasses import replace

from tinyphysics.ir.dtype import f32
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import toposort
from tinyphysics.planner.cost.cost import describe
from tinyphysics.report import Row
from tinyphysics.target import CORES, Core, VectorShape
from tinyphysics.tpir.kernels.kernel import Section
from tinyphysics.tpir.kernels.outline import SectionOutline
from tinyphysics.tpir.kernels.pressure import Pressure, kinds, pressure

# Vectors side by side: enough to hide latency, few enough that the state stays in registers and the loop in
# the cache of decoded operations. Measured on AVX2; on AVX-512 the first bound is the one that acts.
MOST_UNROLL = 6
GOOD_UNROLL = 4
LEAST_UNROLL = 2
WIDE = 4  # doubles in a vector from which one system's bodies share it; measured, moves cost two lanes what they gain
SHORT = 50  # operations of which two groups of copies overlap; measured, longer steps are no faster for it
ROOMY = CORES[
    "an unknown AVX-512 core"
]  # a Zen 5, on which that costs 2.3 % of Kepler's steps, side by side 4.2
OVERLAP = 2  # times the window
MOST_CODE = 1_700  # operations in a loop body


def cycles(f: Section, core: Core, width: int) -> float:
    """The fewest cycles in which a core does one step of one member: whatever its latencies, its ports are busy."""
    n = kinds(f)
    multiply, add = n["mul"] + n["fma"], n["add"] + n["sub"] + n["compare"]
    own = (multiply / core.multiply, add / core.add) if core.add else ((multiply + add) / core.multiply,)
    divider = n["div"] * core.divide + n["sqrt"] * core.root
    if any(u.op in (Ops.DIV, Ops.SQRT) and u.dtype is f32 for u in toposort([*f.roots, *f.guards])):
        divider /= 3  # half as many digits: no less than a third of the time, also where some have all
    return max(*own, sum(n.values()) / core.any, divider) / width


def wanted(f: Section | SectionOutline) -> Pressure | None:
    """The pressure of a section; None if its outline says that it is too long to be written in turn."""
    return f.pressure if isinstance(f, SectionOutline) else pressure(f)


def shape_for(f: Section | SectionOutline, members: int, core: Core, width: int) -> VectorShape:
    """One lane for one member; else full vectors, as many side by side as the registers hold.

    Where those are too few, a short step is written copy after copy, which needs the fewest registers: the core
    overlaps the copies itself. What is only added to then stays in memory, so that no value that others wait
    for has to: a store takes an issue slot from the fused multiply-adds of Zen 3, and reading it back is slow.
    """
    if members == 1:
        return VectorShape(1, 1, bodies=width if f.loops and width >= WIDE else 0)
    enough = -(-members // width)
    if not f.loops:
        return VectorShape(width, 1)
    p = wanted(f)
    if p is not None and p.beside:
        without = replace(p, state=p.state - p.beside, beside=0)
        shape = laid_out(f, without, enough, core, width)
        # copy after copy, numbers go to memory and back while others divide
        turns = core is ROOMY and shape.unroll * p.operations <= OVERLAP * core.window
        return replace(shape, beside=True, in_turn=shape.in_turn or turns)
    return laid_out(f, p, enough, core, width)


def laid_out(
    f: Section | SectionOutline, p: Pressure | None, enough: int, core: Core, width: int
) -> VectorShape:
    """The same of a loop over many members, by its pressure."""
    state = len(f.loads) if p is None else p.state
    fitting = min(core.registers // max(state, 1), MOST_CODE // max(f.code, 1))
    unroll = min(enough, max(LEAST_UNROLL, min(MOST_UNROLL, fitting)))
    if p is None:
        return VectorShape(width, unroll)
    # chains so long that hiding them is worth more than registers; measured
    if p.seeds and 2 * state <= core.registers:
        return VectorShape(width, min(enough, MOST_UNROLL, max(1, MOST_CODE // max(f.code, 1))))
    if not p.adders:  # such as error words: groups that fill the registers, one after the other
        group = core.registers // max(state, 1)
        grouped = 2 <= group <= GOOD_UNROLL and enough >= 2 * group and p.operations <= SHORT
        return VectorShape(width * group, 2, in_turn=True) if grouped else VectorShape(width, unroll)
    if unroll * state + p.constants > core.registers or unroll < GOOD_UNROLL:
        room = (core.registers - p.constants - p.temporaries) // max(state - p.adders, 1)
        turns = min(enough, MOST_UNROLL, room)
        if turns >= unroll and turns * p.operations <= core.window:
            return VectorShape(width, turns, in_turn=True)
    return VectorShape(width, unroll)


def rows(f: Section, shape: VectorShape, core: Core, width: int) -> list[Row]:
    """For `explain()`: what a step is made of, where it is kept, and what bounds its speed."""
    n, p = kinds(f), pressure(f)
    if n["solved"]:  # how many rounds there are is not known here
        return []
    stages = f", {f.stages} stages in a loop" if f.stages > 1 else ""
    group = max(1, shape.width // width)  # copies side by side, where groups of them are in turn
    held, order = shape.unroll * p.state, "operation by operation"
    if shape.in_turn and group == 1:
        held, order = (p.state - p.adders) * shape.unroll, "copy after copy"
    elif shape.in_turn:
        held, order = group * p.state, f"in groups of {group}"
    more = f" ({shape.unroll * p.adders} more in memory)" if shape.in_turn and p.adders else ""
    wanted = f"{held} of state{more}, up to {p.temporaries} temporaries a copy, {p.constants} constants"
    lanes = f"{shape.width // group} lanes x {shape.unroll * group}"
    best = f"a member and step at best, on {core.name}"
    return [
        Row("step", describe(n), f"in the minimal operator set{stages}"),
        Row("ensembles", lanes, f"vectors interleaved {order}"),
        Row("registers", f"{core.registers}", f"wanted: {wanted}"),
        Row("port limit", f"{cycles(f, core, width):.3g} cycles", best),
    ]
