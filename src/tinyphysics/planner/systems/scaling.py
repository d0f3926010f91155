"""Is a step shorter in other units?  Asked for by scale="auto", decided by counting the operations of the programs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tinyphysics.errors import VerifyError
from tinyphysics.flows.rescaled import scaled, searched
from tinyphysics.planner.cost.cost import describe, operations
from tinyphysics.report import Row
from tinyphysics.step import Step
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.program.lower import lower
from tinyphysics.tpir.verifier import Certificate, verify

MULTIPLIES = ("mul", "fma", "div")
MOST_SEARCHED = 4000  # operations, each component of a force counted alone: a second of searching
LONG = 1000  # instructions of a step: of longer ones only the cheapest other form is certified, each takes half a second
Price = tuple[int, int]  # operations, and those of them that multiply


def price(count: Counter[str]) -> Price:
    return sum(count.values()), sum(count[name] for name in MULTIPLIES)


def shown(certificate: Certificate) -> set[str]:
    return {name for name, verdict in certificate.items() if verdict}


def certified_as(program: Program, wanted: set[str]) -> bool:
    """Is as much shown of it?  Of a long program it may not even be shown that its units are undone."""
    try:
        return shown(verify(replace(program, claims=()))) >= wanted
    except VerifyError:
        return False


def in_best_units(step: Step) -> tuple[Step, Row]:
    """The step in the units where it has fewest operations, and what is said about it.

    Other units must remove operations, or multiplications and add none; and all that is shown of the step in
    the user's units must be shown there too.
    """
    if (count := searched(step)) > MOST_SEARCHED:
        return step, Row(
            "scaled",
            "no",
            f"the forces have {count:,} operations, each component counted alone; other units are looked for "
            f"up to {MOST_SEARCHED:,}",
        )
    plain = lower(step)
    before = operations(plain.step, plain)
    cheaper = []
    for other in scaled(step):
        program = lower(other)
        fewer = operations(program.step, program)
        if price(fewer) < price(before):
            cheaper.append((price(fewer), other, program, fewer))
    wanted = shown(verify(replace(plain, claims=()))) if cheaper else set()
    long = len(plain.step) > LONG
    for _, other, program, fewer in sorted(cheaper, key=lambda x: x[0])[: 1 if long else None]:
        if certified_as(program, wanted):
            return other, Row(
                "scaled",
                told(other),
                f"{describe(fewer)} a step instead of {describe(before)}; frames are in your variables",
            )
    why = "less could be certified in other units"
    if not cheaper:
        why = "no units were found with fewer operations"
    return step, Row("scaled", "no", why)


def told(step: Step) -> str:
    names = {s.var: s.name for s in step.states}
    return ", ".join(f"{names[s.state]} by {s.factor}" for s in step.coordinates.scales)
