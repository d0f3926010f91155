"""Which runs have no gradient?  One table: what errors say, and what docs/gradients.md lists.

A row holds for a simulation and a call, or names what a method has not; those are found where its step is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyphysics.errors import PlanError
from tinyphysics.planner.cost.target import approximates
from tinyphysics.planner.systems.bias import HILLS
from tinyphysics.runtime.stages.resolve import Request
from tinyphysics.runtime.stages.setup import Setup


@dataclass(frozen=True)
class NoGradient:
    what: str  # as a user writes it
    why: str  # after "because"
    fix: str
    holds: Callable[[Setup, Request], bool] | None = None  # None: found where a step is differentiated


def tree_elsewhere(setup: Setup, request: Request) -> bool:
    if not approximates(setup.compiled.built.program):
        return False
    return bool(request.acts or setup.system.crossings) or setup.target.backend == "cuda"


def changes_together(setup: Setup, request: Request) -> bool:
    moves = setup.system.biased_by[:1] == (HILLS,) or bool(setup.system.barostat)
    return request.exchange is not None or moves


def acts_and_more(setup: Setup, request: Request) -> bool:
    system = setup.system
    return bool(request.acts) and bool(system.crossings or system.clock is not None or setup.goal.project)


# fmt: off
ROWS = (
    NoGradient('`scale="auto"`', 'scale="auto" keeps the states in other units',
               "Leave scale= out.", lambda s, r: s.goal.scale == "auto"),
    NoGradient("`acts=` with walls and events, with `time=` and with `project=`",
               "acts change the state between steps that are cut, or that follow from their first state",
               "Leave acts= out.", acts_and_more),
    NoGradient("`sim.hvp` with `time=` or `project=`, and frames of `sim.jvp` with these and by dt",
               "what they do to a state has cotangents alone",
               "Leave them out; sim.grad, sim.vjp and the end of sim.jvp go with them."),
    NoGradient("`sim.hvp` by dt, and along it", "how the length of steps moves states has cotangents alone",
               "Leave dt out; sim.grad and the end of sim.jvp go by it."),
    NoGradient("`sim.jvp` with `time=`, `project=` or by dt, of more than 4,096 numbers",
               "it takes a cotangent for each of them", "Take sim.vjp or sim.grad, which go back once."),
    NoGradient("`exchange=`, hills and `pressure=`", "swaps, hills and boxes change all members between two steps",
               "Leave exchange=, bias=tp.metadynamics(...) and pressure= out.", changes_together),
    NoGradient("`events=`", "events= are searched in it, and a loss cannot read their times",
               "Leave events= out.", lambda s, r: r.events is not None),
    NoGradient("states of whole numbers", "it has states of whole numbers",
               "Declare them as floats.", lambda s, r: not all(x.var.dtype.is_float for x in s.system.states)),
    NoGradient("`approximate=` (trees) on a GPU, with `acts=`, and with walls and events",
               "cotangents go through a tree on the processor, with the angle that the run chose at its first step",
               'Choose backend="llvm", or leave out acts and walls or approximate=.', tree_elsewhere),
    NoGradient("`sim.jvp` and `sim.hvp` with `approximate=`", "a sum through a tree has its cotangents alone",
               "Leave approximate= out: all pairs are summed, without a table of them."),
    NoGradient("`sim.hvp` of orbit methods (`wisdom_holman`, ...)", "Kepler orbits have no second derivatives here",
               'Choose method="leapfrog".'),
    NoGradient("`interaction*` methods with more than 32 coupled pairs, by parameters of these",
               "how their matrix changes with each takes minutes in whole numbers",
               'Leave them out of wrt, or choose method="leapfrog".'),
    NoGradient("`sim.hvp` along parameters of coupled oscillators in `interaction*` methods",
               "how these move along their parameters is not pulled back", 'Choose method="leapfrog".'),
    NoGradient("implicit steps of more than 24 equations that are written out number by number",
               "the transposed equations would be too long", "Write the system with arrays."),
    NoGradient("`sim.hvp` of discrete gradients (`gonzalez`) of energies with branches",
               "branches that are multiplied with each other are too many to be written out",
               "Take an explicit method, or write the energy with fewer tp.where, abs, minimum or maximum."),
    NoGradient('`bath="nose_poincare"`',
               "its `eta` begins with the energy of the first state, whose derivative is not followed",
               "Choose bath=tp.nose_hoover()."),
    NoGradient("`rodas` on arrays", "its stages are solved by matrices of blocks", 'Choose method="gauss4".'),
    NoGradient("Taylor series of more than some 30 numbers", "written out, a step is too long",
               'Choose a method with steps of one length: dt=..., method="leapfrog".'),
    NoGradient("`sim.hvp` of a Lagrangian whose run begins with velocities",
               "how its momenta follow from these is differentiated once", "Pass the momenta: p=..."),
    NoGradient("`sim.hvp` of walls and events",
               "the derivatives of their cuts are not there yet", 'Choose method="leapfrog" or method="rk4".'),
    NoGradient("deleted loops by parameters where that takes minutes: from a dozen numbers and 64 pairs on",
               "above 12 pairs each number takes an exponential of a matrix in whole numbers",
               'Leave parameters out of wrt, or compile with propagator="loop".'),
    NoGradient("`sim.jvp` and `sim.hvp` of jumps with friction and of free bodies",
               "a jump has its cotangents, and tangents only of quadratic energies",
               'Compile it with propagator="loop".'),
)
# fmt: on


def check_gradient(setup: Setup, request: Request, what: str) -> None:
    """An error where the run has no adjoint."""
    for row in ROWS:
        if row.holds is not None and row.holds(setup, request):
            raise PlanError(
                f"{what}: the adjoint of this run is not there yet, because {row.why}", fix=row.fix
            )


def table() -> str:
    """For the page on gradients."""
    rows = [f"| {row.what} | {row.why} | {row.fix} |" for row in ROWS]
    return "\n".join(["| what | why | instead |", "|---|---|---|", *rows])
