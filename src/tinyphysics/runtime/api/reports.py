"""What does explain() say of a simulation?  The report of the compiler, with what was measured at a state since."""

from __future__ import annotations

from tinyphysics.errors import InputError
from tinyphysics.given import shown
from tinyphysics.planner.choice.multirate import split_rows
from tinyphysics.planner.choice.stiff_rates import spectrum_row
from tinyphysics.planner.cost.rounding import never
from tinyphysics.planner.explain import stability_rows
from tinyphysics.planner.summary import summarised
from tinyphysics.report import Report, Row, Section, Summary
from tinyphysics.runtime.engines.listing import layout, processor_rows
from tinyphysics.runtime.measure.losses import before_a_run
from tinyphysics.runtime.measure.plan_past import TOLD
from tinyphysics.runtime.stages.setup import Setup

BETWEEN = "of the last run: what is proved holds between two acts; an act is a map of your own"


def explain(sim: Setup, form: str) -> Report:
    """What `sim.explain(form)` returns."""
    if not isinstance(form, str) or form not in ("short", "full"):
        raise InputError(
            f"explain({shown(form)}): the form is not known", fix='Write explain() or explain("full").'
        )
    full, losses = full_report(sim), before_a_run(sim)
    if losses:
        full = full.with_section(Section("losses", tuple(x.row for x in losses)), "certificate")
    if form == "full":
        return full
    return Summary(full.title, full.sections, summarised(full, sim.built, [str(x) for x in losses]))


def full_report(sim: Setup) -> Report:
    report = sim.built.report
    for row in (about := processor_rows(sim.target)):
        report = report.with_row("machine", row)
    report = report.with_machine(tuple(r for r in about if r.name != "bits"))
    if sim._acts:
        acts = ", ".join(one.partition(":")[0] for one in sim._acts.split("; "))
        report = report.with_rows("certificate", (Row("acts", acts, BETWEEN),))
    if (past := sim._beside.get(TOLD)) is not None:
        report = report.with_rows("plan", (past.row,))
    if sim.goal.spectrum is not None:
        report = report.with_rows("plan", (spectrum_row(sim.goal.spectrum),))
    if sim.compiled.known.way != "loop" or sim.compiled.series is not None:
        return report
    if (found := rounding_row_of(sim)) is not None:
        report = report.with_row("plan", found)
    report = report.with_machine(layout(sim.target, sim.built.program))
    rows = stability_rows(sim.built.plan.method, sim.frequency, sim.goal.dt)
    told = [] if sim.commutators is None else [sim.commutators.row]
    split = [] if sim.split is None else split_rows(sim.split)
    report = report.with_rows("plan", (*told, *rows, *split))
    if not sim.system.levels:
        return report
    from tinyphysics.runtime.measure.multirate import multirate_section

    return report.with_section(multirate_section(sim, sim.goal.dt), "plan")


def rounding_row_of(sim: Setup) -> Row | None:
    """What is known of rounding at the first state: measured once, when it is first asked for."""
    of = sim.compiled, sim.began
    if sim.began is None or sim.compiled.adaptive:
        return None
    if never(sim.system, sim.goal, sim.built.facts, sim.compiled.known.traits):
        return None
    if sim._rounding is None or sim._rounding[0] != of:
        from tinyphysics.runtime.measure.rounding import rounding_row

        sim._rounding = of, rounding_row(sim.compiled, sim.began)
    return sim._rounding[1]
