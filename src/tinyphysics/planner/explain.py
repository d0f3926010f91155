"""What was found, chosen, proved and turned down, as a report."""
from __future__ import annotations

from tinyphysics.facts import Facts
from tinyphysics.plan import Goal, Plan
from tinyphysics.planner.catalog import BY_NAME, MAP, Method
from tinyphysics.planner.cost import describe, operations
from tinyphysics.planner.loops import loop_rows
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


def step_rows(method: Method, facts: Facts) -> list[Row]:
    """What is unusual about a step."""
    out = []
    if method.sequence is not None and method.gradients:
        count = sum(part == "W" for part, _ in method.sequence())
        out.append(Row("force gradients", str(count), "a step: of |dV/dq|**2 in the metric of T, along the force; no "
                       "Hessian is formed"))  # fmt: skip
    if method.processor is not None:
        out.append(Row("processor", plural(sum(part == "V" for part, _ in method.processor()), "kick"),
                       "before the first step, undone on the copy that a frame or an observable sees"))  # fmt: skip
    if method.splits and "explicit time" in facts and facts["explicit time"] and len(facts["explicit time"].inside) > 1:
        out.append(Row("time", "a third part", "T and V both depend on it: it advances between them"))
    return out


def explain(
    system: System, facts: Facts, goal: Goal, plan: Plan, step: Step, program: Program,
    certificate: Certificate, target: Target, why: str, units: tuple[Row, ...] = (),
) -> Report:  # fmt: skip
    method = BY_NAME.get(plan.method, MAP)
    chosen = [Row("method", plan.method, f"{method.summary}; {plan.because}")]
    if plan.order:
        rough = "smooth" in facts and not facts["smooth"]
        chosen.append(Row("order", f"{plan.order} where H is smooth" if rough else str(plan.order), method.source))
    chosen += step_rows(method, facts)
    if goal.dt is not None:
        chosen.append(Row("dt", f"{goal.dt:g}", "a run-time value: changing it does not recompile"))
    if system.kind == "map" and system.parameters:
        names = ", ".join(p.name for p in system.parameters)
        chosen.append(Row("parameters", names, "the map returns no new value for them: they stay as they are given"))
    if goal.precision != "float64":
        chosen.append(Row("precision", goal.precision, PRECISION_NOTE[goal.precision]))
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
