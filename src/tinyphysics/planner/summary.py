"""The short form of a report: what it is, what is conserved, the method and why, what is guaranteed, what it costs."""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.facts import Facts
from tinyphysics.front.walls import DRIFT
from tinyphysics.plan import Plan
from tinyphysics.planner.explain import Built
from tinyphysics.planner.methods.catalog import method_of
from tinyphysics.planner.methods.meetings import BETWEEN
from tinyphysics.planner.methods.method import Method
from tinyphysics.report import Report, Row, Section
from tinyphysics.step import JUMPS as JUMPING
from tinyphysics.step import NO_ENERGY
from tinyphysics.system import System
from tinyphysics.tpir.verifier import Certificate
from tinyphysics.util import plural

MORE = 'explain("full") gives the evidence, the other methods and the machine; sim.ir("tpir") the program'
NOT_CONSISTENT = (
    "nothing is claimed: the verifier does not show that the updates of a step are derivatives of the energy; "
    "an order given below is that of the method in theory"
)
JUMPS = "nothing is claimed: the energy may jump, and a jump exerts no force"
NOT_SHOWN = "not shown"  # of an order: a derivative is wrong
EXACT_WAYS = {"lattice": "; a run on a lattice can be rewound exactly"}


def known(facts: Facts, name: str) -> bool:
    return name in facts and bool(facts[name])


def what_it_is(system: System, facts: Facts) -> str:
    count = plural(sum(s.var.size for s in system.states), "number")
    match system.kind:
        case "map":
            return f"a map of {count}, run as written"
        case "ode":
            kind = f"a differential equation of {count}"
        case "forces":
            kind = f"equations of motion of {count}, given by forces"
        case _ if system.motion is not None:
            kind = f"a Hamiltonian of {count}, derived from a Lagrangian"
        case _:
            kind = f"a Hamiltonian of {count}"
    more = []
    if known(facts, "separable"):
        more.append("it separates into T(p) + V(q)")
    if known(facts, "quadratic"):
        more.append("it is quadratic")
    if known(facts, "explicit time"):
        more.append("it depends on time")
    if system.bracket == "magnetic":
        more.append("p is the kinetic momentum, mass times velocity")
    return "; ".join([kind, *more])


def conserved(b: Built, method: Method) -> str:
    """What a run keeps, and how well.  What is not shown is not said."""
    system, facts, goal, step, certificate = b.system, b.facts, b.goal, b.step, b.certificate
    if system.kind != "hamiltonian":
        given = {"forces": "the forces", "ode": "the rates of change", "map": "the map"}[system.kind]
        return f"nothing is claimed: no energy is given, only {given}"
    if known(facts, "explicit time"):
        return "the energy is not conserved: H depends on t"
    if system.heat:
        return "the energy less the heat that came in, which is booked: out.heat"
    if system.friction:
        return "the energy with what friction takes, which is booked: out.ledger"
    if any(c.location == DRIFT for c in system.crossings):
        return "the energy between bounces; each bounce moves it by a part of dt, to and fro: out.drift"
    if system.crossings:
        return "the energy between events, with what walls and events take, which is booked: out.ledger"
    if system.contacts:
        return "the energy with what contacts take, which is booked: out.ledger; nothing else is claimed"
    if not system.structure.keeps_energy:
        return "the energy is not conserved: H' = -H dH/ds"
    if NO_ENERGY in step.traits:
        return "the energy is not conserved: a step changes it on purpose"
    held = [name for name, _ in goal.project]
    if held:
        return f"{', '.join(held)}, to the residual of the equations that fix it"
    if JUMPING in step.traits and goal.propagator == "exact":
        return "the energy, to rounding: every frame is the exact solution"
    if method.family.conserves:
        return "the energy, to the residual of the equations that are solved in a step"
    headline = system.structure.headline
    if not certificate["consistent"]:
        jumps = certificate[headline] and "may jump" in certificate["consistent"].because
        return JUMPS if jumps else NOT_CONSISTENT
    if method.adaptive:
        return "the energy, to the tolerance of each step; these errors add up"
    size = f"an error of size dt**{method.order}" if method.order else "a small error"
    if certificate[headline] and known(facts, "smooth"):
        kept = system.structure.casimirs() if certificate.get("casimirs") else ()
        more = "".join(f"; and {name}, to rounding" for name in kept) + EXACT_WAYS.get(goal.precision, "")
        return f"the energy, with {size} that stays bounded while dt is short compared with the fastest motion{more}"
    if certificate[headline]:
        return f"the energy, with {size} where H is smooth; it can drift where H is not"
    return f"the energy, with {size} that grows with time: the step is not {headline}"


def accuracy(plan: Plan, method: Method, facts: Facts, report: Report) -> str:
    order = next((r for s in report.sections if s.title == "plan" for r in s.rows if r.name == "order"), None)
    if order is not None and order.verdict == NOT_SHOWN:
        return f"order not shown: {order.because}"
    if method.adaptive:
        return "the method chooses its own steps; see `tolerance` in the full report"
    if not plan.order:
        return ""
    where = "" if known(facts, "smooth") else " where it is smooth"
    return f"order {plan.order}{where}: halving dt divides the error by {2**plan.order}"


def guaranteed(certificate: Certificate) -> list[Row]:
    shown = [name for name, v in certificate.items() if v]
    between = [name for name, v in certificate.items() if v.because.startswith(BETWEEN)]
    rows = [Row("proved", ", ".join(shown) if shown else "nothing about the structure of a step")]
    if between:
        rows.append(Row("between", f"{', '.join(between)} between events; nothing of a step that is cut"))
    missing = [name for name, v in certificate.items() if not v and name not in between]
    if missing and shown:
        rows.append(Row("not shown", f"{', '.join(missing)}: {certificate[missing[0]].because}"))
    return rows


def cost(report: Report) -> str:
    found = {r.name: r for s in report.sections if s.title in ("cost", "machine") for r in s.rows}
    parts = []
    if "force evaluations" in found:
        r = found["force evaluations"]
        parts.append(f"{plural(int(r.verdict), 'force evaluation')} {r.because}")
    if "operations" in found:
        parts.append(f"{plural(int(found['operations'].verdict.split()[0]), 'operation')} a step")
    return ", ".join(parts) or "each frame is computed directly, however many steps come before it"


def speed(report: Report) -> str:
    """At best: what the ports of the core allow for a large ensemble."""
    found = {r.name: r for s in report.sections if s.machine for r in s.rows}
    backend = found["backend"]
    limit = found.get("port limit")
    fastest = limit.because.partition("at best")[2] if limit else ""
    if limit:
        fastest = f"; at best {limit.verdict} a step for each member of a large ensemble{fastest}"
    outside = any("not in the contract" in r.verdict for s in report.sections for r in s.rows)
    bits = "the last bits may differ on other machines" if outside else "the same bits on every backend"
    return f"{backend.verdict}: {backend.because.partition('; ')[2]}; {bits}{fastest}"


def warnings(facts: Facts, report: Report) -> list[Row]:
    out = []
    if "smooth" in facts and not facts["smooth"]:
        f = facts["smooth"]
        out.append(Row("warning", f"not shown to be smooth: {f.because}", where=str(f.site or "")))
    for s in report.sections:
        for r in s.rows:
            if r.name == "stability" and "TOO LONG" in r.because:
                out.append(Row("warning", f"dt is too long: {r.verdict}, {r.because.partition(';')[0]}"))
            if r.name == "its price" or r.name == "gives up":
                out.append(Row("price", f"{r.verdict}: {r.because}"))
    return out


def summarised(report: Report, b: Built, losses: Sequence[str] = ()) -> Section:
    """Ten to fifteen lines in plain words; `report` is the full form of the same simulation."""
    system, facts, goal, plan, method = b.system, b.facts, b.goal, b.plan, method_of(b.plan.method)
    rows = [Row("system", what_it_is(system, facts))]
    rows.append(Row("conserved", conserved(b, method)))
    if system.kind != "map":
        rows.append(Row("method", f"{plan.method}: {method.summary}; {plan.because}"))
    if goal.dt is not None and system.kind != "map":
        rows.append(Row("dt", f"{goal.dt:g}"))
    rows += [
        Row(r.name, f"{r.verdict}: {r.because}")
        for s in report.sections
        if s.title == "plan"
        for r in s.rows
        if r.name in ("error", "energy_drift", "precision")
    ]
    if text := accuracy(plan, method, facts, report):
        rows.append(Row("accuracy", text))
    rows += guaranteed(b.certificate)
    rows.append(Row("cost", cost(report)))
    rows.append(Row("runs on", speed(report)))
    rows += warnings(facts, report)
    rows += [Row("loss", told) for told in losses]
    rows.append(Row("more", MORE))
    return Section("summary", tuple(rows))
