"""The full report: what was found, chosen, proved, and which methods were not chosen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinyphysics.facts import Facts
from tinyphysics.plan import Goal, Hierarchy, Plan
from tinyphysics.planner.choice.deletion import Choice
from tinyphysics.planner.choice.longest import asked, symplectic
from tinyphysics.planner.choice.oscillator_resonance import rows as resonance_rows
from tinyphysics.planner.choice.propagator import rows as propagator_rows
from tinyphysics.planner.cost.cost import describe, operations
from tinyphysics.planner.cost.fast import NOT_OF_BITS, fast_rows, library_rows
from tinyphysics.planner.cost.loops import loop_rows
from tinyphysics.planner.cost.rounding import rounding_rows
from tinyphysics.planner.cost.target import in_loops
from tinyphysics.planner.methods.catalog import BY_NAME, method_of
from tinyphysics.planner.methods.method import Method, tolerance_of
from tinyphysics.planner.systems.long_range import Settings
from tinyphysics.report import Report, Row, Section
from tinyphysics.rules.functions.user_derivatives import trouble_in
from tinyphysics.step import JUMPS, SOLVES, TURNS, Step, SubFlow
from tinyphysics.system import Clock, System
from tinyphysics.target import Target
from tinyphysics.tpir.precision.lattice import EXACT, RANGE, UNIT
from tinyphysics.tpir.precision.precision import PRECISIONS
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.verifier import Certificate
from tinyphysics.util import plural

IN_SERIES = (
    "pairs of float64, about 32 digits: states, and all terms of a series but those below a rounding of float64; "
    "parameters are float64 numbers"
)


def title(system: System) -> str:
    match system.kind:
        case "hamiltonian" if system.clock is not None:
            return f"{system.name}: H = {system.seen.energy}, in another time: {system.energy}"
        case "hamiltonian":
            return f"{system.name}: H = {system.energy}"
        case "forces":
            return f"{system.name}: force = {system.forces[0]}"
        case "ode":
            rates = zip(system.states, system.update)
            return f"{system.name}: {', '.join(f'd{s.name}/dt = {u}' for s, u in rates)}"
    names = ", ".join(s.name for s in system.states)
    return f"{system.name}: ({names}) -> ({', '.join(map(str, system.update))})"


# --- what is said of an option, word for word -----------------------------------------------------------
# fmt: off
BY_TREE = (
    ("approximate", "", "1/r forces from a tree code whose nodes have second moments; energies are exact sums"),
    ("its error", "measured",
     "at the first force of a run, against the direct sum for up to 256 bodies; the run is refused unless the rms of "
     'their relative errors is below it; out.metrics["approximate"] has it'),
    ("its price", "momentum",
     "neither linear nor angular momentum is conserved exactly: action and reaction differ by that error"),
)
# what a program on a lattice is, whatever it computes: it was made of shears alone
LATTICE_ROWS = (
    Row("bijective", "yes", "to the last bit: a sub-step adds a whole number computed from states it does not change"),
    Row("rewinds", "yes", "to the last bit: the same whole numbers are subtracted again, the last one first"),
    Row("the rest", "up to rounding",
        "the properties above hold in exact arithmetic; each update is rounded to a whole number"),
)
PROJECTED = (
    "every step ends with the initial values of these, to the residual of their equations: moved along their gradients, "
    "positions and momenta scaled by their sizes; where a gradient vanishes, nothing is moved"
)
UNPROJECTED = (
    "and momenta that are not named drift; conserving energy does not make the trajectory accurate: give error=, or "
    "halve dt and compare"
)
# fmt: on
BOXED = 6  # arguments of a NEAR in a box: positions are short there, so that their images are exact


def images_rows(system: System) -> list[Row]:
    """How sums over all images of a box are done, and what would save time or digits."""
    if system.long_range is None:
        return []
    told = dict(system.long_range.settings.told())
    if system.long_range.settings.alone:
        return [Row("images", "a mesh alone", of_mesh_alone(system.long_range.settings, told))]
    error, goal = told.pop("force_error", None), told.pop("goal", None)
    words = ", ".join(f"{name} {value}" for name, value in told.items())
    if "waves" in told:
        return [
            Row(
                "images", "Ewald sum", f"{words}; a force takes n**2 pairs and every wave for every particle"
            ),
            Row("its price", "time", "force_error=1e-4 does the waves on a mesh: n log n"),
        ]
    if goal is not None and error is None:
        return [
            Row(
                "images",
                "mesh Ewald",
                "its parameters are chosen at the first state of a run, for force_error=",
            )
        ]
    right = (
        "their error is not measured: pass force_error=1e-4 too"
        if error is None
        else f"force error {error:.2g}"
    )
    how = "forces are the gradient of the energy on the mesh"
    if system.long_range.settings.by_waves:
        how = "forces are those of differentiated waves: they add up to zero and are no gradient, so energy may drift"
    return [
        Row("images", "mesh Ewald", f"{words}; {how}; {right}"),
    ]


def of_mesh_alone(s: Settings, told: dict[str, Any]) -> str:
    """From which distance on its forces are right: nearer pairs act as if they were clouds."""
    found, cells = told.pop("by_distance", None), told.pop("right_from", None)
    words = ", ".join(f"{name} {value}" for name, value in told.items() if name != "cutoff")
    if found is None:
        return f"{words}; from which distance on its forces are right is measured at the first state, for 1/r and erf(b*r)/r"
    near = ", ".join(f"{100 * e:.2g} % at {d:g}" for d, e in found.items() if d in (2.0, 3.0, 4.0, 6.0))
    right = f"right to 1 % from {cells:g} cells on" if cells else "not right to 1 % within 8 cells"
    return f"{words}; the force of a pair is {right} ({near} cells); nearer pairs act as clouds do"


def rows_with(value: str, words: tuple[tuple[str, str, str], ...]) -> list[Row]:
    """Rows of a table of words; the one without a verdict has this value."""
    return [Row(name, verdict or value, because) for name, verdict, because in words]


def box_row(way: str, box: str, pressure: str, tau: float, every: int, kappa: float | None) -> Row:
    why = f"every {every} steps, to the pressure {pressure} in the time {tau:g}; positions and momenta go with it"
    law = "each change is accepted so that the law exp(-(H + PV)/kT) stays exactly"
    if way == "mtk":
        law = "by a momentum of its own with a chain of 3; H + PV and what they have is conserved to O(dt²)"
    return Row("box", f"{way} of `{box}`", f"{why}; {law}")


def projection_rows(goal: Goal, headline: str) -> list[Row]:
    names = ", ".join(name for name, _ in goal.project)
    lost = f"the structure of the method is lost: it is not {headline}, {UNPROJECTED}"
    return [Row("project", names, PROJECTED), Row("its price", headline, lost)]


def lattice_rows(system: System, goal: Goal, program: Program) -> list[Row]:
    given = dict(goal.lattice)
    units = {s.name: given.get(s.name, given.get("", UNIT)) for s in system.states}
    told = ", ".join(f"{name} 2**{math.log2(unit):.0f}" for name, unit in units.items())
    boxed = any(i.op == "NEAR" and len(i.args) == BOXED for i in program.step)
    short = {s.name for s in system.states if boxed and s.role == "position"}
    reach = ", ".join(
        f"{name} {(EXACT if name in short else RANGE) * unit:g}" for name, unit in units.items()
    )
    stops = f"beyond {reach} a run stops; initial values are first rounded to a whole number of units"
    listed = "to a unit of force before they are summed, and a box to whole units: the order of a list changes no bit"
    has_list = any(i.op == "NEAR" for i in program.step)
    return [Row("units", told, stops), *([Row("pair forces", "rounded", listed)] if has_list else [])]


def goal_rows(goal: Goal, plan: Plan) -> list[Row]:
    """What was asked, what was measured, and how far that reaches."""
    error, drift = asked(goal)
    wanted = {"error": error} if drift is None else {"energy_drift": drift, "error": error}
    note = ", the default: conserving energy does not make the trajectory accurate"
    if goal.error is not None:
        note = ""
    d = plan.decision

    def goals(measured: Callable[[str], str]) -> list[Row]:
        because = {name: f"a goal{note if name == 'error' else ''}; {measured(name)}" for name in wanted}
        return [Row(name, f"{value:g}", because[name]) for name, value in wanted.items()]

    if d is None:
        return goals(lambda name: "not measured yet: pass pilot= to compile, or run it")
    found = {"error": d.error, "energy_drift": d.drift}
    rows = []
    if goal.dt is None and d.tolerance is None:
        longest = "the longest that meets the goals; a run uses one that divides its length"
        rows.append(Row("dt", f"{d.dt:.6g}", longest))
    rows += goals(lambda name: f"{found[name]:.1e} in the pilot")
    how = "linearly" if symplectic(BY_NAME[plan.method]) else "quadratically"
    grown = f", beyond which errors are assumed to grow {how}, up to {d.reach:g}" if d.reach > d.span else ""
    rows.append(
        Row("pilot", f"{d.span:g}", f"the length of the trial run{grown}; the run itself is measured too")
    )
    return rows + stability_rows(plan.method, d.frequency, goal.dt if goal.dt is not None else d.dt)


def stability_rows(method: str, frequency: float | None, dt: float | None) -> list[Row]:
    """The fastest vibration at a state that is known, against what the method stands."""
    limit = BY_NAME[method].limit if method in BY_NAME else None
    if frequency is None or limit is None or dt is None:
        return []
    x = abs(dt) * frequency
    grows = "" if x <= limit else ": TOO LONG, the motion will grow without bound"
    fastest = f"the fastest vibration at the state of the pilot has omega = {frequency:.4g}{grows}"
    return [Row("stability", f"omega*dt = {x:.3g}", f"the method's limit is {limit:.4g}; {fastest}")]


def orbit_rows(h: Hierarchy) -> list[Row]:
    centre, *others = h.order
    order = f"Jacobi coordinates, innermost first: {', '.join(map(str, others))}"
    ratio = "the largest ratio of the perturbing force on a body to the force that keeps it on its orbit"
    eps = Row("eps", f"{h.perturbation:.1e}", f"at the initial state, {ratio}")
    return [Row("centre", f"body {centre}", order), eps]


def clock_rows(c: Clock) -> list[Row]:
    states = f"`{c.time}` and its momentum `{c.momentum}`, which starts as -H, are states"
    proved = "the certificate below is for the system with these two states"
    price = "the errors of a step appear in t before they appear in the energy: halve dt and compare t"
    time = Row("time", c.way, f"dt/ds = {c.rate}; {states}: {proved}")
    return [time, Row("its price", "the time", price)]


def stepping(program: Program) -> list[Row]:
    return [
        Row("operations", describe(operations(program.step, program)), "a step"),
        Row("to synchronise", describe(operations(program.final, program)), "a frame"),
    ]


def tolerance_row(method: Method, goal: Goal) -> Row:
    of = "relative to the whole state"
    if method.family.each_number:
        more = "rounding of the largest" if goal.absolute is None else f"{goal.absolute:g}"
        of = f"relative to each number, and {more} beside it"
    size = f"{tolerance_of(method, goal):.2g}"
    return Row(
        "tolerance", size, f"the error of one step, {of}; the rounding errors of the states are carried along"
    )


def flow_rows(step: Step) -> list[Row]:
    """What the sub-flows say of themselves, the first of each kind."""
    kinds: dict[type, list[SubFlow]] = {}
    for f in step.body:
        kinds.setdefault(type(f), []).append(f)
    return [row for alike in kinds.values() for row in alike[0].rows(len(alike))]


@dataclass(frozen=True, eq=False)
class Built:
    """What the compiler has made of a system and a goal."""

    system: System
    facts: Facts
    plan: Plan
    step: Step
    exact: Program  # before it was given its precision: what the certificate speaks of
    program: Program
    certificate: Certificate
    target: Target
    why: str  # this target
    goal: Goal
    units: tuple[Row, ...]  # what was said about other units
    choice: Choice | None = None  # about the loop, if it was left to the planner


def explain(b: Built) -> Report:
    system, facts, goal, plan, step, program = b.system, b.facts, b.goal, b.plan, b.step, b.program
    method = method_of(plan.method)
    chosen = [Row("method", plan.method, f"{method.summary}; {plan.because}")]
    if plan.order:
        what = {"forces": "the forces are", "ode": "the derivatives are"}.get(system.kind, "H is")
        smooth = "smooth" in facts and facts["smooth"]
        told = str(plan.order) if smooth else f"{plan.order} where {what} smooth"
        # it steps another system, with that order
        wrong = "" if system.energy is None else trouble_in(system.energy)
        chosen.append(Row("order", "not shown", wrong) if wrong else Row("order", told, method.reference))
    chosen += method.family.rows(method, facts)
    chosen += flow_rows(step)
    if system.barostat:
        chosen.append(box_row(*system.barostat))
    if system.clock is not None:
        chosen += clock_rows(system.clock)
    if goal.dt is not None:
        of = "" if system.clock is None else "of s, not of t; "
        what = f"{of}a run-time value: changing it does not recompile"
        if method.adaptive:
            what = "the spacing of output times; the method chooses the lengths of its own steps"
        chosen.append(Row("dt", f"{goal.dt:g}", what))
    if method.adaptive:
        chosen.append(tolerance_row(method, goal))
    if goal.is_accurate:
        chosen += goal_rows(goal, plan)
    if system.unsafe:
        chosen.append(
            Row("unsafe", system.unsafe, "not meant to be symplectic: nothing is demanded of its pairs")
        )
    if system.kind == "map" and system.parameters:
        names = ", ".join(p.name for p in system.parameters)
        chosen.append(
            Row("parameters", names, "the map returns no new value for them, so they keep their values")
        )
    if goal.project:
        chosen += projection_rows(goal, system.structure.headline)
    if goal.precision != "float64":
        note = IN_SERIES if method.adaptive else PRECISIONS[goal.precision].note
        chosen.append(Row("precision", goal.precision, note))
    if goal.math == "fast":
        chosen += fast_rows(goal.precision) + library_rows(program, b.target.backend)
    if goal.precision == "lattice":
        chosen += lattice_rows(system, goal, program)
    if system.kind != "map" and JUMPS not in step.traits and not method.adaptive:
        chosen += rounding_rows(system, step, goal, facts)
    if goal.approximate is not None:
        chosen += rows_with(f"{goal.approximate:g}", BY_TREE)
    if goal.hierarchy is not None:
        chosen += orbit_rows(goal.hierarchy)
    if TURNS in step.traits:
        chosen += resonance_rows(step, goal.dt)
    if JUMPS in step.traits:
        chosen += propagator_rows(system, facts, goal)
    chosen += [*(() if b.choice is None else b.choice.rows), *b.units]
    chosen += images_rows(system)
    chosen += [Row("not chosen", a.method, a.because) for a in plan.not_chosen]
    given = "energy" if system.kind == "hamiltonian" else system.kind
    given = given if system.motion is None else "Lagrangian"
    level = f"level {system.level}: given by its {given}"
    none = system.kind == "map" or JUMPS in step.traits or method.adaptive
    solved = SOLVES in step.traits and not method.family.kicks_once
    often = "an iteration, and once more at the end" if solved else "a step"
    evaluations = [] if none else [Row("force evaluations", str(step.evaluations), often)]
    cost = [*evaluations, *([] if JUMPS in step.traits else stepping(program))]
    cost.append(Row("state", plural(sum(s.var.size for s in system.states), "number"), level))
    found = [Row(f.name, "yes" if f else "no", f.because, str(f.site) if f.site else "") for f in facts]
    proved = [Row(name, "yes" if v else "not shown", v.because) for name, v in b.certificate.items()]
    proved += LATTICE_ROWS if goal.precision == "lattice" else ()
    proved += (NOT_OF_BITS,) if goal.math == "fast" else ()
    target = b.target
    bits = "exact" if target.bit_exact else "not in the contract"
    machine = [
        Row("backend", target.backend, f"{b.why}; {target.device}"),
        Row("bits", bits, f"program {program.hash}"),
    ]
    if target.backend != "python" and JUMPS not in step.traits and in_loops(program, 1):
        machine += loop_rows(program)
    parts = {"facts": found, "plan": chosen, "certificate": proved, "cost": cost, "machine": machine}
    sections = (Section(name, tuple(rows), machine=name == "machine") for name, rows in parts.items())
    return Report(title(system), tuple(sections))
