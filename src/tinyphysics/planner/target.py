"""Which backend does a program get when none is asked for?  Compiled code, unless it would be too long to write out."""
from __future__ import annotations

from tinyphysics.errors import BackendError
from tinyphysics.planner.cost import operations
from tinyphysics.target import BUILT, PLANNED, Target
from tinyphysics.tpir.isa import Program
from tinyphysics.tpir.stages import stages_of
from tinyphysics.util import did_you_mean, one_of

MOST_OPERATIONS = 3_000  # written out one by one, a step of this length compiles in some seconds


def checked(backend: str) -> str:
    """The name of a backend that exists, or "auto"; else an error: nothing is tried in its place."""
    if backend == "auto" or backend in BUILT:
        return backend
    there = one_of(["auto", *BUILT])
    if backend in PLANNED:
        raise BackendError(f"the backend `{backend}` does not exist yet", fix=f"Backends: {there}.")
    raise BackendError(f"there is no backend `{backend}`",
                       fix=f"{did_you_mean(backend, [*BUILT, *PLANNED])}Backends: {there}.")  # fmt: skip


def choose_target(program: Program, requested: str) -> tuple[Target, str]:
    """(the target, why)."""
    if requested != "auto":
        return BUILT[requested], "asked for"
    stages = stages_of(program, lambda r: r.kind != "S")
    part, name = (program.step, "step") if stages is None else (stages.body, "stage")
    count = sum(operations(part, program).values())
    if count > MOST_OPERATIONS:
        return BUILT["python"], f"auto: a {name} of {count:,} operations is too long to be written out for a compiler"
    return BUILT["llvm"], "auto"
