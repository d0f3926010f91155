"""The full report: what was found, chosen, proved, and which methods were not chosen."""

from __future__ import annotations

import math

from tinyphysics.facts import Facts
from tinyphysics.plan import Goal, Hierarchy, Plan
from tinyphysics.planner.choice.longest import asked, symplectic
from tinyphysics.planner.choice.oscillator_resonance import rows as resonance_rows
from tinyphysics.planner.choice.propagator import rows as propagator_rows
from tinyphysics.planner.cost.cost import describe, operations
from tinyphysics.planner.cost.fast import NOT_OF_BITS, fast_rows
from tinyphysics.planner.cost.loops import loop_rows
from tinyphysics.planner.cost.rounding import rounding_rows
from tinyphysics.planner.cost.target import in_loops
from tinyphysics.planner.methods.catalog import BY_NAME, method_of
from tinyphysics.planner.methods.method import Method, tolerance_of
from tinyphysics.report import Report, Row, Section
from tinyphysics.rules.functions.user_derivatives import trouble_in
from tinyphysics.step import JUMPS, SOLVES, TURNS, Step
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


def approximate_rows(error: float) -> list[Row]:
    return [
        Row(
            "approximate",
            f"{error:g}",
            "1/r forces from a tree code whose nodes have second moments; energies are exact sums",
        ),
        Row(
            "its error",
            "measured",
            "at the first force of a run, against the direct sum for up to 256 bodies; the run is refused unless the rms of "
            'their relative errors is below it; out.metrics["approximate"] has it',
        ),
        Row(
            "its price",
            "momentum",
            "neither linear nor angular momentum is conserved exactly: action and reaction differ by that error",
        ),
    ]


BOXED = 6  # arguments of a NEAR in a box: positions are short there, so that their images are exact
# what a program on a lattice is, whatever it computes: it was made of shears alone
LATTICE_ROWS = (
    Row(
        "bijective",
        "yes",
        "to the last bit: a sub-step adds a whole number computed from states it does not change",
    ),
    Row("rewinds", "yes", "to the last bit: the same whole numbers are subtracted again, the last one first"),
    Row(
        "the rest",
        "up to rounding",
        "the properties above hold in exact arithmetic; each update is rounded to a whole number",
    ),
)


def projection_rows(goal: Goal, headline: str) -> list[Row]:
    names = ", ".join(name for name, _ in goal.project)
    return [
        Row(
            "project",
            names,
            "every step ends with the initial values of these, to the residual of their equations: "
            "moved along their gradients, positions and momenta scaled by their sizes; where a gradient "
            "vanishes, nothing is moved",
        ),
        Row(
            "its price",
            headline,
            f"the structure of the method is lost: it is not {headline}, and momenta that are "
            "not named drift; conserving energy does not make the trajectory accurate: give error=, or halve dt and compare",
        ),
    ]


def lattice_rows(system: System, goal: Goal, program: Program) -> list[Row]:
    given = dict(goal.lattice)
    units = {s.name: given.get(s.name, given.get("", UNIT)) for s in system.states}
    told = ", ".join(f"{name} 2**{math.log2(unit):.0f}" for name, unit in units.items())
    boxed = any(i.op == "NEAR" and len(i.args) == BOXED for i in program.step)
    short = {s.name for s in system.states if boxed and s.role == "position"}
    reach = ", ".join(
        f"{name} {(EXACT if name in short else RANGE) * unit:g}" for name, unit in units.items()
    )
    rows = [
        Row(
            "units",
            told,
            f"beyond {reach} a run stops; initial values are first rounded to a whole number of units",
        )
    ]
    if any(i.op == "NEAR" for i in program.step):
        rows.append(
            Row(
                "pair forces",
                "rounded",
                "to a unit of force before they are summed, and a box to whole units: the "
                "order of a list changes no bit",
            )
        )
    return rows


def goal_rows(goal: Goal, plan: Plan) -> list[Row]:
    """What was asked, what was measured, and how far that reaches."""
    error, drift = asked(goal)
    wanted = {"error": error} if drift is None else {"energy_drift": drift, "error": error}
    note = (
        ""
        if goal.error is not None
        else ", the default: conserving energy does not make the trajectory accurate"
    )
    d = plan.decision
    if d is None:
        return [
            Row(
                name,
                f"{value:g}",
                f"a goal{note if name == 'error' else ''}; not measured yet: pass pilot= to "
                "compile, or run it",
            )
            for name, value in wanted.items()
        ]
    found = {"error": d.error, "energy_drift": d.drift}
    rows = []
    if goal.dt is None and d.tolerance is None:
        rows.append(
            Row(
                "dt",
                f"{d.dt:.6g}",
                "the longest that meets the goals; a run uses one that divides its length",
            )
        )
    rows += [
        Row(name, f"{value:g}", f"a goal{note if name == 'error' else ''}; {found[name]:.1e} in the pilot")
        for name, value in wanted.items()
    ]
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
    verdict = f"omega*dt = {x:.3g}"
    return [
        Row(
            "stability",
            verdict,
            f"the method's limit is {limit:.4g}; the fastest vibration at the state of the pilot "
            f"has omega = {frequency:.4g}{'' if x <= limit else ': TOO LONG, the motion will grow without bound'}",
        )
    ]


def orbit_rows(h: Hierarchy) -> list[Row]:
    centre, *others = h.order
    return [
        Row(
            "centre", f"body {centre}", f"Jacobi coordinates, innermost first: {', '.join(map(str, others))}"
        ),
        Row(
            "eps",
            f"{h.perturbation:.1e}",
            "at the initial state, the largest ratio of the perturbing force on a body to "
            "the force that keeps it on its orbit",
        ),
    ]


def clock_rows(c: Clock) -> list[Row]:
    return [
        Row(
            "time",
            c.way,
            f"dt/ds = {c.rate}; `{c.time}` and its momentum `{c.momentum}`, which starts as -H, are states: "
            "the certificate below is for the system with these two states",
        ),
        Row(
            "its price",
            "the time",
            "the errors of a step appear in t before they appear in the energy: halve dt and compare t",
        ),
    ]


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


def equation_rows(step: Step) -> list[Row]:
    """What is solved for in a step, and how."""
    solves = [f for f in step.body if SOLVES in f.traits]
    return solves[0].rows(len(solves)) if solves else []


def explain(
    system: System,
    facts: Facts,
    goal: Goal,
    plan: Plan,
    step: Step,
    program: Program,
    certificate: Certificate,
    target: Target,
    why: str,
    units: tuple[Row, ...] = (),
    loop: tuple[Row, ...] = (),
) -> Report:
    method = method_of(plan.method)
    chosen = [Row("method", plan.method, f"{method.summary}; {plan.because}")]
    if plan.order:
        what = {"forces": "the forces are", "ode": "the derivatives are"}.get(system.kind, "H is")
        smooth = "smooth" in facts and facts["smooth"]
        told = str(plan.order) if smooth else f"{plan.order} where {what} smooth"
        wrong = (
            "" if system.energy is None else trouble_in(system.energy)
        )  # it steps another system, with that order
        chosen.append(Row("order", "not shown", wrong) if wrong else Row("order", told, method.reference))
    chosen += method.family.rows(method, facts)
    chosen += equation_rows(step)
    if system.clock is not None:
        chosen += clock_rows(system.clock)
    if goal.dt is not None:
        of = "" if system.clock is None else "of s, not of t; "
        what = (
            "the spacing of output times; the method chooses the lengths of its own steps"
            if method.adaptive
            else (f"{of}a run-time value: changing it does not recompile")
        )
        chosen.append(Row("dt", f"{goal.dt:g}", what))
    if method.adaptive:
        chosen.append(tolerance_row(method, goal))
    if goal.is_accurate:
        chosen += goal_rows(goal, plan)
    if system.kind == "map" and system.parameters:
        names = ", ".join(p.name for p in system.parameters)
        chosen.append(
            Row("parameters", names, "the map returns no new value for them, so they keep their values")
        )
    if goal.project:
        chosen += projection_rows(goal, system.structure.headline)
    if goal.precision != "float64":
        chosen.append(
            Row(
                "precision", goal.precision, IN_SERIES if method.adaptive else PRECISIONS[goal.precision].note
            )
        )
    if goal.math == "fast":
        chosen += fast_rows(goal.precision)
    if goal.precision == "lattice":
        chosen += lattice_rows(system, goal, program)
    if system.kind != "map" and JUMPS not in step.traits and not method.adaptive:
        chosen += rounding_rows(system, step, goal, facts)
    if goal.approximate is not None:
        chosen += approximate_rows(goal.approximate)
    if goal.hierarchy is not None:
        chosen += orbit_rows(goal.hierarchy)
    if TURNS in step.traits:
        chosen += resonance_rows(step, goal.dt)
    if JUMPS in step.traits:
        chosen += propagator_rows(system, facts, goal)
    chosen += [*loop, *units]
    chosen += [Row("not chosen", a.method, a.because) for a in plan.not_chosen]
    given = (
        "Lagrangian"
        if system.motion is not None
        else "energy"
        if system.kind == "hamiltonian"
        else system.kind
    )
    level = f"level {system.level}: given by its {given}"
    none = system.kind == "map" or JUMPS in step.traits or method.adaptive
    often = "an iteration, and once more at the end" if SOLVES in step.traits else "a step"
    evaluations = [] if none else [Row("force evaluations", str(step.evaluations), often)]
    cost = [
        *evaluations,
        *([] if JUMPS in step.traits else stepping(program)),
        Row("state", plural(sum(s.var.size for s in system.states), "number"), level),
    ]
    return Report(
        title(system),
        (
            Section(
                "facts",
                tuple(
                    Row(f.name, "yes" if f else "no", f.because, str(f.site) if f.site else "") for f in facts
                ),
            ),
            Section("plan", tuple(chosen)),
            Section(
                "certificate",
                tuple(Row(name, "yes" if v else "not shown", v.because) for name, v in certificate.items())
                + (LATTICE_ROWS if goal.precision == "lattice" else ())
                + ((NOT_OF_BITS,) if goal.math == "fast" else ()),
            ),
            Section("cost", tuple(cost)),
            Section(
                "machine",
                (
                    Row("backend", target.backend, f"{why}; {target.device}"),
                    Row(
                        "bits",
                        "exact" if target.bit_exact else "not in the contract",
                        f"program {program.hash}",
                    ),
                    *(
                        loop_rows(program)
                        if target.backend != "python" and JUMPS not in step.traits and in_loops(program, 1)
                        else []
                    ),
                ),
                machine=True,
            ),
        ),
    )
