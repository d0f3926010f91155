"""Which backend does a program get when none is asked for, and in which form?  Compiled, number by number or in loops."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from tinyphysics.errors import BackendError, PlanError
from tinyphysics.ir.ops import HARMONIC
from tinyphysics.ir.reduction import COMPONENTS, FEW
from tinyphysics.planner.cost.cost import operations
from tinyphysics.target import BUILT, LIBRARIES, SANDBOXED, TARGETS, WEBGPU, Target
from tinyphysics.tpir.kernels.index import Unsupported
from tinyphysics.tpir.kernels.kernel import LARGEST
from tinyphysics.tpir.kernels.loops import components_of, few, follows, longest_axis, planned_loops
from tinyphysics.tpir.kernels.stages import rolled_up
from tinyphysics.tpir.precision.precision import PRECISIONS
from tinyphysics.tpir.program.isa import GOING, Operand, Pointer, Program, Word
from tinyphysics.tpir.program.written import lines
from tinyphysics.util import did_you_mean, one_of, prod

MOST_OPERATIONS = 3_000  # written out one by one, a step of this length compiles in some seconds
# with functions as what they are made of; the text that a compiler sees has most of them as calls
MOST_LINES = 12_000
IN_LOOPS = 1 << 40  # operations that stand for: neighbours are found and trees asked in loops only
SHORT = ("float32", "compensated")  # precisions whose loop is of 32 bits
WITHOUT_TREES = ("python", "opencl")  # a tree is a compiled function of this machine's
WITHOUT_LISTS = ("opencl",)
WITH_SERIES = ("llvm", "numpy", "cuda")
OF_AN_ARC = 50  # operations, of one of the three that a turn needs
OF_NUMBERS = 1.5  # operations for each instruction of a step whose arithmetic is that of numbers
FEW_MEMBERS = 3  # that leave most lanes of a vector empty


def approximates(program: Program) -> bool:
    return any(i.op == "TREE" for _, _, i in program.numbered())


def checked(backend: str) -> str:
    """The name of a backend that exists, "auto" or "gpu"; else an error: nothing is tried in its place."""
    if backend in ("auto", "gpu") or backend in TARGETS:
        return backend
    there = one_of(["auto", "gpu", *TARGETS])
    raise BackendError(
        f"there is no backend `{backend}`",
        fix=f"{did_you_mean(backend, list(TARGETS))}Backends: {there}.",
    )


def by_lists(program: Program) -> bool:
    """Does it sum over neighbours?"""
    return any(i.op == "NEAR" for i in program.step)


@dataclass(frozen=True)
class Written:
    """What would be written out number by number: of a step that repeats itself, one stage."""

    operations: int  # functions count as one
    lines: int  # and here by what they are made of
    part: str  # of what: a step or a stage
    most: int  # operations
    instructions: int

    @property
    def is_short(self) -> bool:
        """Does it compile in about a second?"""
        return self.operations <= self.most and self.lines <= MOST_LINES

    @property
    def is_of_numbers(self) -> bool:
        """Is it written out already, in instructions on single numbers, and compiles in about two seconds?"""
        return 0 < self.operations <= OF_NUMBERS * self.instructions and self.lines <= MOST_LINES

    @property
    def fits(self) -> bool:
        """May it be written out at all?"""
        return self.operations <= self.most and self.lines <= LARGEST


@lru_cache(maxsize=16)
def written(program: Program) -> Written:
    """Operations that would be written out."""
    if by_lists(program) or approximates(program):
        return Written(IN_LOOPS, IN_LOOPS, "step", MOST_OPERATIONS, 0)
    stages = rolled_up(program, lambda r: r.kind != "S")
    bodies = [program.step] if stages is None else [stages.body, *(t.body for t in stages.tails)]
    own = sum(n for body in bodies for n in operations(body, program).values())
    long = sum(lines(program, body) for body in bodies)
    once = arcs(program)
    most = MOST_OPERATIONS * FEW // few(program)
    of = "step" if stages is None else "stage"
    return Written(own + once, long + once, of, most, sum(map(len, bodies)))


def arcs(program: Program) -> int:
    """Operations for the coefficients of oscillators: a kernel computes them once, and has those that differ written out."""
    names = {op.value for op in HARMONIC}
    made = {i.dst: i for i in program.init if i.op == "MOVE"}

    def different(x: Operand, shape: tuple[int, ...]) -> int:
        how = made.get(x)
        if isinstance(x, float) or how is not None and how.args[0] == Word("expand"):
            return 1
        return len(set(how.args[1:])) if how is not None and how.args[0] == Word("stack") else prod(shape)

    return sum(
        OF_AN_ARC * max(different(x, i.type.shape) for x in i.args[1:3])
        for i in program.init
        if i.op == "ELEM" and str(i.args[0]) in names
    )


def loops_refuse(program: Program) -> str:
    """Why a program cannot run as loops along its axes; empty if it can."""
    if components_of(program) is None:
        return "it has no axis that is long enough for a loop"
    if follows(program):  # a plan of 40,000 instructions takes two seconds, and is made when it runs
        return ""
    try:
        planned_loops(program)
    except Unsupported as why:
        return f"loops do not follow {why}"
    return ""


def in_loops(program: Program, members: int) -> bool:
    """Is a run of so many members done in loops along the axes?  Otherwise it is written out number by number.

    This is decided here, once for the whole step: by the number of operations that would be written, and by the members
    of the run, which fill the lanes of vectors where all is written out. The bits are the same.
    """
    if any(i.op == "SERIES" for i in program.step):
        return False
    # a step of its own length says itself how it is written
    if any(i.dst == Pointer(GOING) for i in program.step):
        return on_arrays(program) and not loops_refuse(program)
    # equations of whole arrays
    if any(i.op == "SOLVE" and len(i.type.shape) > 1 or i.op in ("ELLIPTIC", "MESH") for i in program.step):
        return not loops_refuse(program)
    lanes_are_full = members > FEW_MEMBERS or longest_axis(program) <= COMPONENTS
    if written(program).is_short and (lanes_are_full or longest_axis(program) <= few(program)):
        return False
    if written(program).is_of_numbers:  # loops would be as many, of one number each
        return False
    return not loops_refuse(program)


def on_arrays(program: Program) -> bool:
    """Is arithmetic done with whole arrays?  Not where a step was written out number by number."""
    return any(i.op in ("ELEM", "FMA") and i.type.shape for i in program.step)


def in_series(program: Program, requested: str) -> tuple[Target, str]:
    """(the target, why) of a step in loops over the coefficients of its series."""
    refuse_libraries(requested, "Taylor series in loops")
    if requested not in ("auto", *WITH_SERIES):
        numbers = sum(math.prod(s.type.shape) for s in program.states)
        raise PlanError(
            f"the backend `{requested}` does not support Taylor series in loops, and this one, of {numbers:,} "
            "numbers, is too long to write out",
            fix=f"Choose {one_of(WITH_SERIES)}; or, on `{requested}`, a splitting method for an energy, "
            'method="dop853" for @tp.ode.',
        )
    return (BUILT["llvm"], "auto") if requested == "auto" else (BUILT[requested], "asked for")


def written_out(program: Program, requested: str) -> tuple[Target, str]:
    """(the target, why) of a step that chooses its length: in loops if it is of arrays, else written out."""
    if requested == WEBGPU.backend:
        refuse_libraries(requested, "methods that choose their own steps")
    if requested in LIBRARIES:
        refuse_libraries(requested, "methods that choose their own steps")
    if on_arrays(program):
        refuse_libraries(requested, "steps of whole arrays whose length is their own choice")
        if requested != "python" and (why := loops_refuse(program)):
            raise PlanError(
                f"`{program.name}` of these arrays runs in loops only, and {why}",
                fix='Write it with whole arrays: slices, np.roll, sums. Or choose method="rk4" and a dt.',
            )
        return choose_target(program, requested)
    count = written(program)
    if count.lines > LARGEST:
        raise PlanError(
            f"one step of `{program.name}` is {count.lines:,} operations when written out, more than {LARGEST:,}",
            fix='method="taylor" runs sums, products and roots in loops; so do splitting methods.',
        )
    return (BUILT["llvm"], "auto") if requested == "auto" else (TARGETS[requested], "asked for")


def refuse_libraries(requested: str, what: str) -> None:
    """An error for a backend that computes number by number, where that cannot be."""
    if requested in LIBRARIES or requested in SANDBOXED:
        raise BackendError(
            f"the backend `{requested}` does not support {what}", fix=f"Choose {one_of(list(BUILT))}."
        )


def in_library(program: Program, requested: str, precision: str) -> tuple[Target, str]:
    """(the target, why) of a step as array code of another library: number by number, members side by side."""
    if precision != "float64":
        refuse_libraries(requested, f'precision="{precision}"')
    refuse_loops(program, requested)
    return LIBRARIES[
        requested
    ], "asked for; its results agree with those of others to a tolerance, not in their bits"


def in_sandbox(program: Program, requested: str) -> tuple[Target, str]:
    """(the target, why) of a step for browsers: number by number."""
    refuse_loops(program, requested)
    return SANDBOXED[requested], "asked for"


def refuse_loops(program: Program, requested: str) -> None:
    """An error for what runs in loops only."""
    if approximates(program) or by_lists(program):
        refuse_libraries(requested, "trees" if approximates(program) else "neighbour lists")
    if any(i.op == "SOLVE" and len(i.type.shape) > 1 or i.op in ("ELLIPTIC", "MESH") for i in program.step):
        refuse_libraries(requested, "equations of whole arrays")
    count = written(program)
    if not count.fits:
        told = f"a {count.part} of {max(count.operations, count.lines):,} operations"
        refuse_libraries(requested, f"{told}: it computes number by number")


def choose_target(program: Program, requested: str, precision: str = "float64") -> tuple[Target, str]:
    """(the target, why)."""
    if requested in LIBRARIES:
        return in_library(program, requested, precision)
    if requested == WEBGPU.backend and precision not in SHORT:
        raise BackendError(
            f"WebGPU has no numbers of 64 bits, and `{precision}` needs them",
            fix=f'Pass precision={one_of(SHORT)}, or backend="wasm", which has float64 in a browser.',
        )
    if requested in SANDBOXED:
        return in_sandbox(program, requested)
    if requested in WITHOUT_TREES and approximates(program):
        raise PlanError(
            f"the backend `{requested}` does not support tree codes",
            fix="Leave approximate= out, or choose llvm, c, numpy or cuda.",
        )
    if requested != "auto":
        target = BUILT[requested]
        there = [p.name for p in PRECISIONS.values() if {d.name for d in p.formats} <= set(target.dtypes)]
        if precision not in there:
            raise PlanError(
                f"the backend `{requested}` does not run {precision}: its results there would differ "
                f"from those of the other backends",
                fix=f"Choose precision={one_of(there)}, or another backend.",
            )
        if requested in WITHOUT_LISTS and by_lists(program):
            raise BackendError(
                f"the backend `{requested}` does not support neighbour lists yet",
                fix="Choose another backend, or sum over all pairs: q[:, None] - q[None, :].",
            )
        return target, "asked for"
    count = written(program)
    if not count.fits and (why := loops_refuse(program)):
        told = f"a {count.part} of {max(count.operations, count.lines):,} operations is too long to be written out"
        return BUILT["python"], f"auto: {told}, and {why}"
    return BUILT["llvm"], "auto"
