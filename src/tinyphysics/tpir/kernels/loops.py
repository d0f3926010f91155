"""A program as loop nests: the other form of a kernel, for arrays too long to be written out number by number.

The same meaning, bit for bit: instructions are replaced by what they mean, and what every number is
follows from the index of a loop instead of being written down for each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain

from tinyphysics.ir.dtype import f64
from tinyphysics.ir.ops import CHOSEN, ELEMENTWISE, MINIMAL, MOVEMENT, Ops
from tinyphysics.ir.reduction import COMPONENTS, FEW
from tinyphysics.ir.rewrite import graph_rewrite
from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.functions import fast
from tinyphysics.rules.functions.power import is_inverse_cube
from tinyphysics.rules.functions.transcendental import guarded, lower
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.identities.fast_products import fewer
from tinyphysics.target import PORTABLE, Seed
from tinyphysics.tpir.kernels.at_index import MOST_SCALARS, Home, planes
from tinyphysics.tpir.kernels.every_kind import read_beside
from tinyphysics.tpir.kernels.failure_sums import Plane, sums_that_show_failure
from tinyphysics.tpir.kernels.index import Unsupported
from tinyphysics.tpir.kernels.kernel import Meaning, carried_registers, implicit, input_of, unchanging
from tinyphysics.tpir.kernels.layout import long_axes
from tinyphysics.tpir.kernels.materialise import cost, is_stored, weight
from tinyphysics.tpir.kernels.neighbours import ListSpec, asked, shift_of, specs
from tinyphysics.tpir.kernels.nests import (
    Buffer,
    Later,
    LoopKernel,
    LoopSection,
    Nest,
    Piece,
    Round,
    Turn,
    kept_as,
)
from tinyphysics.tpir.kernels.rounds import RoundsInLoops
from tinyphysics.tpir.kernels.schedule import Marks, Schedule, schedule
from tinyphysics.tpir.kernels.stages import RolledStep, rolled_up
from tinyphysics.tpir.kernels.tree import tree_of
from tinyphysics.tpir.program.isa import GOING, Instruction, Operand, Param, Pointer, Program, Register, Word
from tinyphysics.tpir.program.liveness import reads_before_writing
from tinyphysics.tpir.program.written import axes_of, lines, numbers_of, shapes_of
from tinyphysics.util import prod, without_collections

GATE = "going"  # the buffer of a condition under which a step is done
DEAR = 4  # operations for which an array of parameters alone is computed before the loop


def updates(
    meaning: Meaning, instructions: Sequence[Instruction]
) -> tuple[list[tuple[str, UOp]], dict[str, UOp]]:
    """(what becomes of each state, in order; what is stored or observed)."""
    marks: list[tuple[str, UOp]] = []
    stored: dict[str, UOp] = {}
    for i in instructions:
        out = meaning.run([i])
        stored |= {p.name: u for p, u in out.items() if isinstance(p, Pointer)}
        if i.row.kind == "update":
            marks.append((str(i.dst), meaning.env[i.dst]))
    return marks, stored


def within(roots: Sequence[UOp], lists: dict[int, ListSpec], near: int | None) -> list[UOp]:
    """The roots where all pairs of a block reach across the edge of a cell alike, or none does."""
    straight = near is not None and lists[near].is_straight
    new = {}
    for u in toposort(roots):
        if u.op is Ops.IMAGE:
            a, b, _ = u.src
            new[u] = (a - shift_of(a) if straight else a) - b
    return substitute(list(roots), new) if new else []


def expanded(
    roots: Sequence[UOp], seed: Seed | None, seen: Collection[UOp] = ()
) -> tuple[list[UOp], list[UOp]]:
    """(in the minimal operator set, conditions that forbid it): exactly, or with the functions of math="fast"."""
    return guarded(roots, seen) if seed is None else fast.guarded(roots, seed, seen)


PLAIN = MINIMAL - {Ops.SOLVED} | {Ops.LOAD}  # operations that are written as they are


def is_plain(nest: Nest, made: Nest) -> bool:
    """Is there but one form of it in the minimal operator set?  Then nothing is forbidden, and nothing was expanded."""
    values = [s.value for p in nest.pieces for s in p.stores]
    guards = any(p.guards or p.plain for p in made.pieces)
    return not guards and all(u.op in PLAIN for u in toposort(values))


def finished(
    nest: Nest,
    careful: bool,
    sums: Mapping[Plane, Collection[UOp]],
    lists: dict[int, ListSpec],
    seed: Seed | None,
) -> Nest:
    """The bodies in the minimal operator set; `sums` are those that show a failure, with what they show."""
    pieces = []
    for p in nest.pieces:
        plain = inline([s.value for s in p.stores])
        seen = dict.fromkeys(u for s in p.stores for u in sums.get((s.buffer, s.plane), ()))
        values, guards = (lower(plain), []) if careful else expanded(plain, seed, seen)
        guards += (
            [] if careful or nest.kind != "map" else [(u - u).ne(0.0) for u in p.loads() if u.arg in sums]
        )
        flat = graph_rewrite([*values, *guards], exact)
        stores = tuple(s.kept(v) for s, v in zip(p.stores, flat))
        near = within(plain, lists, nest.near) if nest.kind == "pairs" and not guards else []
        inside = graph_rewrite(lower(near) if careful or seed is None else expanded(near, seed)[0], exact)
        pieces.append(Piece(p.lo, p.hi, stores, tuple(flat[len(values) :]), tuple(inside)))
    return replace(nest, pieces=tuple(pieces))


def dear_parameters(roots: Sequence[UOp], homes: dict[UOp, Home]) -> list[UOp]:
    """Arrays of parameters alone that are worth computing once: 1/m, but no table of all pairs."""
    params = frozenset(u for u in toposort(roots) if u.op is Ops.VAR and str(u.arg).startswith("$"))
    # beside what is in memory anyway, such as a transform, an array of its size is no larger than what is there
    largest = max((v.size for v in (*homes, *(u for u in toposort(roots) if is_stored(u)))), default=0)
    found: dict[UOp, None] = {}

    def fixed(u: UOp) -> bool:
        return bool(u.leaves) and u.leaves <= params

    def worth(u: UOp) -> bool:
        return (
            u.op in ELEMENTWISE and bool(u.shape) and u.size <= largest and fixed(u) and cost(u, {}) >= DEAR
        )

    for u in toposort(roots):
        if fixed(u) and (worth(u) or u.op in MOVEMENT - CHOSEN):
            continue
        for s in u.src:
            while s.op in MOVEMENT and len(s.src) == 1:
                s = s.src[0]
            if worth(s) and (s.dtype.is_int or any(weight(x) >= DEAR for x in toposort([s]))):
                found[s] = None
    return list(found)


MOST_CHOICES = 4  # between components of a table; a larger one lies flat in a buffer of its own


def constant_arrays(roots: Sequence[UOp], components: int) -> list[UOp]:
    """Lists of numbers that are too long to be written into a loop."""
    found = toposort(roots)
    every = toposort([*found, *(x for u in found for x in read_beside(u))])
    return [
        u
        for u in every
        if u.op is Ops.STACK and long_axes(u.shape, components) and all(s.op is Ops.CONST for s in u.src)
    ]


def large_tables(roots: Sequence[UOp], params: Sequence[UOp], components: int) -> list[UOp]:
    """Parameters whose components are chosen by indices, more than a few choices would do."""
    tables = dict.fromkeys(
        u.src[0]
        for u in toposort(roots)
        if u.op is Ops.GATHER and planes(u.src[0].shape[: len(u.src) - 1], components) > MOST_CHOICES
    )
    return [u for u in params if u in tables]


FEW_OF_PAIRS = (
    3  # components in a program where each number is a pair of float64: written out, all is 20 times as long
)


LEAST = 1  # then every axis is a loop
MOST_LINES = 500  # operations in the bodies of all nests, functions by what they are made of
MOST_TIMES = (
    16  # or so many times as many as if every axis were a loop: three components of a vector stay together
)
MOST_WRITTEN = (
    4000  # in all, unless they are those of vectors: stages of a stiff method on 8 x 32 took ten seconds
)
VECTOR = 3


def in_pairs(program: Program) -> bool:
    """Is each number of a state a pair of float64?"""
    return any(s.low_of is not None and s.type.dtype is f64 for s in program.states)


def few(program: Program) -> int:
    """How long an axis is written out, if none is longer than COMPONENTS."""
    return FEW_OF_PAIRS if in_pairs(program) else FEW


def longest_axis(program: Program) -> int:
    """Of the states."""
    return max((n for s in program.states for n in s.type.shape), default=1)


@lru_cache(maxsize=64)
def components_of(program: Program) -> int | None:
    """How long an axis is written out where the others are loops: as long as bodies stay short; None if no axis is longer.

    Decided once for the whole program: an axis of 32 beside one of 33 is a loop if 32 times the rest would be too long.
    """
    longest = max(axes_of(program), default=1)
    every = (*program.init, *program.step, *program.final)
    # lists have components of their own; the rounds of equations are long enough without those of an axis of 32
    few_only = any(i.op == "NEAR" or i.op == "SOLVE" for i in every)
    if any(i.op == "ELLIPTIC" for i in every):  # its coarse grids have axes of all lengths
        return LEAST if longest > LEAST else None
    widest = [] if few_only or longest_axis(program) <= COMPONENTS else [COMPONENTS]
    # a sum over pairs is a loop over one axis, that of the bodies: four of them are components, and written out
    pairs = [i.type.shape for i in every if i.op == "PAIRS"]
    ways = [
        n
        for n in dict.fromkeys((*widest, few(program), FEW_OF_PAIRS, LEAST))
        if n < longest and all(sum(k > n for k in shape) == 1 for shape in pairs)
    ]
    least = lines(program, every, LEAST)
    most = min(max(MOST_LINES, MOST_TIMES * least), max(MOST_WRITTEN, VECTOR * least))
    meshes = [i for i in every if i.op == "MESH"]
    if meshes:  # nodes and particles are loops
        numbers = shortest_of_meshes(program, meshes)
        ways = [n for n in ways if n < numbers]
    return next((n for n in ways if lines(program, every, n) <= most), None)


def shortest_of_meshes(program: Program, meshes: Sequence[Instruction]) -> int:
    """The shortest axis along which particles or nodes of a mesh lie."""
    shapes = shapes_of(program)
    along = [n for i in meshes for n in numbers_of(i.args[3])[4:]]
    return min([*along, *(shapes[i.args[1]][0] for i in meshes if shapes.get(i.args[1]))])


MAPS_IN_A_ROW = (
    12  # stages that are maps alone: written out, so many may stay in registers or follow each other by rows
)
APART = ("summed", "listed")  # what is a nest of its own


def in_passes(
    program: Program, start: Mapping[Operand, UOp], others: Sequence[Register]
) -> RolledStep | None:
    """The stages of a step that is run as a loop over nests, if it is: those must be the same in every pass."""
    fixed = unchanging(program, start)
    found = None if others else rolled_up(program, lambda r: r in start and fixed(r))
    if found is None or not found.tails or found.weights or any(i.op == "TREE" for i in program.step):
        return None
    maps = not any(
        i.row.numbers in APART or i.op == "MOVE" and i.args[0] in (Word("gather"), Word("scatter"))
        for i in program.step
    )
    return None if maps and found.count <= MAPS_IN_A_ROW else found


def build_loops(program: Program, components: int | None = None, seed: Seed = PORTABLE) -> LoopKernel:
    """The nests of a program, for a machine with some seed; `Unsupported` if loops do not follow its long axes."""
    return _built(program, components, seed if program.math == "fast" else PORTABLE)


@lru_cache(maxsize=16)
@without_collections()
def _built(program: Program, components: int | None, seed: Seed) -> LoopKernel:
    return planned_loops(program, components, seed)()


def follows(program: Program) -> bool:
    """Do loops follow it, as its instructions show?  If not, a plan says whether they do, and why not.

    Movements that they do not follow are of more numbers than are chosen between, or scatter them.
    """
    if any(
        i.op in ("JACOBI", "SOLVE") or i.op == "MOVE" and i.args[0] == Word("scatter")
        for _, _, i in program.numbered()
    ):
        return False
    return all(prod(shape) <= MOST_SCALARS for shape in shapes_of(program).values())


def planned_loops(
    program: Program, components: int | None = None, seed: Seed = PORTABLE
) -> Callable[[], LoopKernel]:
    """The same before its bodies are in the minimal operator set, which takes longest; calling it finishes them."""
    return _planned(program, components, seed)  # one key for a question, however it is asked


@lru_cache(maxsize=16)
def _planned(program: Program, components: int | None, seed: Seed) -> Callable[[], LoopKernel]:
    roots_by = seed if program.math == "fast" else None
    if components is None:
        components = components_of(program)
    if components is None:
        raise Unsupported("a program without axes")
    if any(i.op == "JACOBI" for i in program.init):
        raise Unsupported("Kepler orbits")
    if any(i.op == "SOLVE" and len(i.type.shape) == 1 for _, _, i in program.numbered()):
        raise Unsupported("equations that are written out number by number")
    start = Meaning(program)
    init_marks, _ = updates(start, program.init)
    needed = reads_before_writing((*program.step, *program.final))
    states = [Register("S", i) for i in range(len(program.states))]
    others = carried_registers(program, start.env)[len(states) :]
    arrays = {p.name: start.env[Param(p.name)] for p in program.params if p.type.shape}
    given = {u: Home(f"${name}") for name, u in arrays.items()}
    inputs = {s.name: f"S{i}" for i, s in enumerate(program.states)}
    buffers: dict[str, Buffer] = {}

    def declare(name: str, u: UOp) -> None:
        axes = long_axes(u.shape, components)
        buffers[name] = Buffer(name, planes(u.shape, components), axes, kept_as(u.dtype))

    for name, u in arrays.items():
        declare(f"${name}", u)
    for i in range(len(program.states)):
        declare(f"S{i}", input_of(program, i))

    shaped: dict[Operand, UOp] = {
        r: UOp.var(str(r), start.env[r].shape, start.env[r].dtype) for r in [*states, *others]
    }
    kept: dict[Operand, UOp] = {
        r: u for r, u in start.env.items() if isinstance(r, Param) or r in needed and r not in shaped
    }
    here = given | {u: Home(str(r)) for r, u in shaped.items()}
    end = Meaning(program)
    end.env |= kept | shaped
    stages = in_passes(program, start.env, others)
    bodies = [program.step] if stages is None else [stages.body, *(t.body for t in stages.tails)]
    steps: list[list[tuple[str, UOp]]] = []  # of a step that is a loop itself, what each of its turns does
    gates: list[tuple[str, UOp]] = []  # what is looked at before a step: a run may have arrived
    for body in bodies:
        loop = Meaning(program)
        loop.env |= kept | shaped
        moves, seen = updates(loop, body)
        steps.append(moves)
        gates += [(GATE, seen[GOING])] if GOING in seen else []
    steps[0] += [(str(r), loop.env[r]) for r in others if loop.env[r] is not shaped[r]]
    _, stored = updates(end, program.final)
    final_marks = [(f"&{name}", u) for name, u in stored.items()]
    first_marks = [*init_marks, *((str(r), start.env[r]) for r in others)]
    near = specs([u for _, u in (*first_marks, *chain(*steps), *final_marks)])
    if near:
        first_marks, final_marks, *steps = (
            list(zip([name for name, _ in marks], asked([u for _, u in marks], near)))
            for marks in (first_marks, final_marks, *steps)
        )
    if roots_by is not None:
        first_marks, final_marks, *steps = (
            list(zip([name for name, _ in marks], fewer(inline([u for _, u in marks]))))
            for marks in (first_marks, final_marks, *steps)
        )
    step_marks = list(chain(*steps))
    for one in near.values():
        buffers |= {b.name: b for b in one.buffers()}
        here[one.reference] = given[one.reference] = Home(one.name("ref"))
    tree = tree_of([[u for _, u in marks] for marks in (first_marks, step_marks, final_marks)])
    if tree is not None:
        buffers |= {b.name: b for b in tree.buffers()}
    dear = dear_parameters([u for _, u in (*step_marks, *final_marks)], here)
    constants = {u: Home(f"K{k}") for k, u in enumerate(dear)}
    everything = [u for _, u in (*first_marks, *step_marks, *final_marks)]
    literals = constant_arrays(everything, components)
    lists = {u: Home(f"list.{k}") for k, u in enumerate(literals)}
    flat = {u: f"flat.{str(u.arg)[1:]}" for u in large_tables(everything, list(arrays.values()), components)}
    for u, home in lists.items():
        declare(home.buffer, u)
    for u, name in flat.items():
        buffers[name] = Buffer(name, 1, u.shape, kept_as(u.dtype))

    first = given | lists | {input_of(program, i): Home(f"S{i}") for i in range(len(program.states))}
    before: Marks = [*first_marks, *((home.buffer, u) for u, home in constants.items())]
    planned: dict[str, list[tuple[Schedule, Mapping[Plane, Collection[UOp]]]]] = {}
    turns_of: dict[str, list[Turn]] = {}
    periods = (1,) if stages is None else (1, *(t.period for t in stages.tails))
    assert not gates or stages is None, "a step that chooses its own length has no stages"
    for name, parts, homes in (
        ("init", [before], first),
        ("step", [gates, *steps] if gates else steps, here | lists | constants),
        ("final", [final_marks], here | lists | constants),
    ):
        planned[name], turns = [], turns_of.setdefault(name, [])

        def scheduled(marks: Marks, homes: Mapping[UOp, Home], prefix: str, name: str = name) -> Schedule:
            # a curve remakes all stages of a step in `init`: once, so that memory costs less than computing again
            apart = bool(gates) or name == "init"
            return schedule(marks, dict(homes), components, prefix, flat, apart)

        def done(s: Schedule, name: str = name) -> int:
            """The number of its first nest."""
            for b in s.buffers.values():
                buffers.setdefault(b.name, b)
            sums = sums_that_show_failure(s.nests, is_inverse_cube if roots_by is None else fast.is_root)
            first = sum(len(other.nests) for other, _ in planned[name])
            planned[name].append((s, sums))
            return first

        rounds = RoundsInLoops(scheduled, done, name)
        for k, marks in enumerate(parts):
            prefix = f"{name}.{f'after{k}.' if k else ''}"
            *before_it, last = rounds.turns(marks, homes, GATE if marks is gates else "", prefix)
            assert isinstance(last, Round)
            period = periods[k] if stages is not None and name == "step" else 1
            turns += [*before_it, replace(last, period=period)]
    scalars = [u for p in program.params if not (u := start.env[Param(p.name)]).shape]

    both: dict[Nest, Nest] = {}  # those without functions that have a fast path: both forms are one

    def section(name: str, careful: bool) -> LoopSection:
        nests = []
        for s, sums in planned[name]:
            for n in s.nests:
                nests.append(both[n] if n in both else finished(n, careful, sums, near, roots_by))
                if roots_by is None and not careful and is_plain(n, nests[-1]):
                    both[n] = nests[-1]
        passes = stages.count if stages is not None and name == "step" else 1
        return LoopSection(name, tuple(nests), tuple(turns_of[name]), passes)

    def kernel() -> LoopKernel:
        return LoopKernel(
            program.name,
            tuple(dict.fromkeys([*scalars, *implicit(program)])),
            buffers,
            {name: section(name, careful=False) for name in planned},
            Later(planned, lambda: {name: section(name, careful=True) for name in planned}),
            inputs,
            {name: f"${name}" for name in arrays},
            {name: (f"&{name}", u.dtype, u.shape) for name, u in stored.items()},
            components,
            {home.buffer: u for u, home in lists.items()},
            near,
            {str(u.arg)[1:]: name for u, name in flat.items()},
            tree,
            tuple(f"S{i}" for i, s in enumerate(program.states) if s.counts),
            contracts=roots_by is not None,
        )

    return kernel
