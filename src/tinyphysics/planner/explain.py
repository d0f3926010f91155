"""What was found, chosen, proved and turned down, as a report."""
from __future__ import annotations

from tinyphysics.facts import Facts
from tinyphysics.plan import Goal, Plan
from tinyphysics.planner.catalog import BY_NAME, MAP
from tinyphysics.planner.cost import describe, operations
from tinyphysics.planner.loops import loop_rows
from tinyphysics.planner.rounding import rounding_rows
from tinyphysics.planner.target import in_loops
from tinyphysics.report import Report, Row, Section
from tinyphysics.step import Step
from tinyphysics.system import System
from tinyphysics.target import Target
from tinyphysics.tpir.isa import Program
from tinyphysics.tpir.verifier import Certificate
from tinyphysics.util import plural

PRECISION_NOTE = {
    "float32": "states, parameters and every operation of a step; energies and observables are float64",
    "mixed": "states, their differences and updates are float64; all else in a force is float32",
    "compensated": "states are pairs of float32, updated by TwoSum; forces, and dt where it multiplies them, are float32",
    "dd": "pairs of float64, about 32 digits: states and every operation of a step; parameters are float64 numbers",
}


def title(system: System) -> str:
    match system.kind:
        case "hamiltonian":
            return f"{system.name}: H = {system.energy}"
        case "forces":
            return f"{system.name}: force = {system.forces[0]}"
    names = ", ".join(s.name for s in system.states)
    return f"{system.name}: ({names}) -> ({', '.join(map(str, system.update))})"


def approximate_rows(error: float) -> list[Row]:
    return [
        Row("approximate", f"{error:g}", "forces of 1/r through a tree, nodes with second moments; energies are exact sums"),
        Row("its error", "measured", "at the first force of a run, against the direct sum for up to 256 bodies: the rms of "
            'their relative errors is below it, or nothing is run; in out.metrics["approximate"]'),
        Row("its price", "momentum", "not conserved exactly, nor is angular: action and reaction differ by that error"),
    ]  # fmt: skip


def explain(
    system: System, facts: Facts, goal: Goal, plan: Plan, step: Step, program: Program,
    certificate: Certificate, target: Target, why: str, units: tuple[Row, ...] = (),
) -> Report:  # fmt: skip
    method = BY_NAME.get(plan.method, MAP)
    chosen = [Row("method", plan.method, f"{method.summary}; {plan.because}")]
    if plan.order:
        rough = "smooth" in facts and not facts["smooth"]
        chosen.append(Row("order", f"{plan.order} where H is smooth" if rough else str(plan.order), method.source))
    if goal.dt is not None:
        chosen.append(Row("dt", f"{goal.dt:g}", "a run-time value: changing it does not recompile"))
    if system.kind == "map" and system.parameters:
        names = ", ".join(p.name for p in system.parameters)
        chosen.append(Row("parameters", names, "the map returns no new value for them: they stay as they are given"))
    if goal.precision != "float64":
        chosen.append(Row("precision", goal.precision, PRECISION_NOTE[goal.precision]))
    if system.kind != "map":
        chosen += rounding_rows(step, goal)
    if goal.approximate is not None:
        chosen += approximate_rows(goal.approximate)
    chosen += units
    chosen += [Row("turned down", a.method, a.because) for a in plan.turned_down]
    level = f"level {system.level}: given by its {system.kind if system.kind != 'hamiltonian' else 'energy'}"
    evaluations = [] if system.kind == "map" else [Row("force evaluations", str(step.evaluations), "a step")]
    cost = [
        *evaluations,
        Row("operations", describe(operations(program.step, program)), "a step"),
        Row("to synchronise", describe(operations(program.final, program)), "a frame"),
        Row("state", plural(sum(s.var.size for s in system.states), "number"), level),
    ]
    return Report(title(system), (
        Section("facts", tuple(
            Row(f.name, "yes" if f else "no", f.because, str(f.site) if f.site else "") for f in facts
        )),
        Section("plan", tuple(chosen)),
        Section("certificate", tuple(
            Row(name, "yes" if v else "not shown", v.because) for name, v in certificate.items()
        )),
        Section("cost", tuple(cost)),
        Section("machine", (
            Row("backend", target.backend, f"{why}; {target.device}"),
            Row("bits", "exact" if target.bit_exact else "not in the contract",
                f"program {program.hash}"),
            *(loop_rows(program) if target.backend != "python" and in_loops(program, 1) else []),
        ), machine=True),
    ))  # fmt: skip
