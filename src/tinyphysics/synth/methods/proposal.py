"""A step of a sampler: momenta drawn, a stretch of some steps, and an answer whether its end is taken.

The stretch is volume-preserving and undoes itself with the sign of the momenta (its certificate says so), so that a
proposal (q, p) -> (q', -p') is its own inverse with Jacobian 1. Accepted with min(1, exp(-(H' - H)/kT)) it leaves
exp(-H/kT) as it is, however long the steps are (Duane and others 1987). With `refresh` below 1 a part of the momenta is
kept, and turns round where a proposal is refused (Horowitz 1991).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.errors import PlanError
from tinyphysics.flows.map import Map
from tinyphysics.ir import UOp, substitute
from tinyphysics.rules.formulas.baths import stream_of
from tinyphysics.rules.functions.random import draw
from tinyphysics.step import AS_GIVEN, DRAWS, OWN_STEPS, Step, SubFlow
from tinyphysics.system import Parameter, State
from tinyphysics.tpir.proof.certificate import Certificate

BESIDE = "auxiliary"
KEPT, ENERGY, ACCEPTED, CHANCE, GROUP = (
    "kept_{}", "energy_before", "accepted", "chance", "group",
)  # fmt: skip
# no energy: the stretch has met a number that is none, or there was none yet
ENDLESS = {"float32": 1e30, "compensated": 1e30}


def endless(precision: str) -> float:
    return ENDLESS.get(precision, 1e300)


@dataclass(frozen=True)
class Proposal:
    """How a step of a method becomes one of a sampler."""

    temperature: str  # the name of the parameter
    refresh: float  # of the variance of momenta, how much is drawn anew
    steps: int  # that are written out one after the other
    groups: int  # of so many: a proposal takes groups * steps

    @property
    def parameter(self) -> Parameter:
        return Parameter(self.temperature, UOp.var(self.temperature), 1.0, sign="positive")

    @property
    def data(self) -> tuple[object, ...]:
        return self.temperature, self.refresh, self.steps, self.groups


LEGAL = ("volume-preserving", "reversible")


def check_legal(method: str, step: Step, certificate: Certificate) -> None:
    """An error if detailed balance is not shown of what a method proposes."""
    for name in LEGAL:
        if name not in certificate or not certificate[name]:
            why = certificate[name].because if name in certificate else "its certificate does not say so"
            raise PlanError(
                f"`{method}` makes no legal proposals: it is not shown to be {name}: {why}",
                fix='Choose a method that is, such as method="leapfrog" or "yoshida4".',
            )
    if step.coordinates is not AS_GIVEN or OWN_STEPS in step.traits or DRAWS in step.traits:
        raise PlanError(
            f"`{method}` makes no proposals: its step is more than a move of the states",
            fix='Choose a method of kicks and drifts, such as method="leapfrog" or "yoshida4".',
        )


def states_beside(own: Sequence[State]) -> tuple[State, ...]:
    """What a sampler remembers: where a proposal began, its energy, and how many were accepted."""
    kept = [State(name := KEPT.format(s.name), UOp.var(name, s.var.shape), BESIDE, start=0.0) for s in own]
    return (*kept, *(State(n, UOp.var(n), BESIDE, start=0.0) for n in (ENERGY, ACCEPTED, CHANCE, GROUP)))


def proposed(step: Step, inverse: Mapping[UOp, UOp], p: Proposal, most: float) -> Step:
    """The step of a sampler: p.steps of these, between what draws momenta and what accepts; `inverse` are 1/m."""
    own = step.states
    beside = states_beside(own)
    place = {s.name: s.var for s in beside}
    kept = {s.var: place[KEPT.format(s.name)] for s in own}
    energy = UOp.sum_of([t.energy for t in step.terms])
    group, kT = place[GROUP], UOp.var(p.temperature)
    first = None if p.groups == 1 else group < 0.5
    last = None if p.groups == 1 else group > p.groups - 1.5

    def only(when: UOp | None, new: UOp, old: UOp) -> UOp:
        return new if when is None else when.expand(new.shape).where(new, old)

    drawn = {}
    for k, (momentum, w) in enumerate(inverse.items()):
        noise = draw("normal", stream_of(k, 0), momentum.shape)
        width = (kT.expand(momentum.shape) / w.expand(momentum.shape)).sqrt()
        fresh = width * noise
        if p.refresh < 1.0:  # all of them where a chain begins
            part = momentum * math.sqrt(1 - p.refresh) + (width * math.sqrt(p.refresh)) * noise
            begins = place[ENERGY] >= UOp.const(most)
            fresh = begins.expand(momentum.shape).where(fresh, part)
        drawn[momentum] = only(first, fresh, momentum)
    (before,) = substitute([energy], drawn)
    begin = Map(
        (
            *drawn.items(),
            *((kept[s.var], only(first, drawn.get(s.var, s.var), kept[s.var])) for s in own),
            (place[ENERGY], only(first, before, place[ENERGY])),
        ),
        declares_dt=True,
    )

    well = abs(energy) < most
    drop = energy - place[ENERGY]
    chance = (drop <= 0.0).where(UOp.const(1.0), (-(drop / kT)).exp())
    chance = well.where(chance, UOp.const(0.0))
    taken = draw("uniform", stream_of(len(inverse), 0), ()) < chance
    ended = []
    for s in own:
        back = -kept[s.var] if s.var in inverse else kept[s.var]
        after = taken.expand(s.var.shape).where(s.var, back)
        # a stretch that is lost stays where it began until its end, where it is refused
        held = well.expand(s.var.shape).where(s.var, kept[s.var])
        ended.append((s.var, only(last, after, held)))
    one, zero = UOp.const(1.0), UOp.const(0.0)
    counts = [
        (place[ACCEPTED], place[ACCEPTED] + only(last, taken.where(one, zero), zero)),
        (place[CHANCE], place[CHANCE] + only(last, chance, zero)),
    ]
    if last is not None:
        counts += [
            (place[ENERGY], (well | last).where(place[ENERGY], UOp.const(-most))),
            (group, last.where(zero, group + 1.0)),
        ]
    end = Map((*ended, *counts), declares_dt=True)

    stretch: tuple[SubFlow, ...] = (*step.init, *(step.body * p.steps), *step.final)
    return replace(
        step,
        name=f"{step.name} proposals",
        states=(*own, *beside),
        parameters=(*step.parameters, p.parameter),
        claims=(),
        init=(),
        body=(begin, *stretch, end),
        final=(),
        evaluations=step.evaluations * p.steps + 1,
    )
