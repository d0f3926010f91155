"""Which method does this system get?  The first that applies, and why the others were turned down."""
from __future__ import annotations

from tinyphysics.errors import PlanError
from tinyphysics.facts import Facts
from tinyphysics.plan import Alternative, Goal, Plan
from tinyphysics.planner.catalog import ALIASES, BY_NAME, BY_ORDER, CHOICES, MAP, METHODS, Method, names
from tinyphysics.system import System
from tinyphysics.util import did_you_mean

HIERARCHY = "orbits"  # the fact that analysis/hierarchy.py gives
ON_ORBITS = "aba104"  # the one that is named where any of them might do


def objection(m: Method, system: System, facts: Facts) -> str | None:
    """Why a method does not apply, or None."""
    if m.orbits is not None:
        fact = facts[HIERARCHY] if HIERARCHY in facts else None
        return None if fact else f"no bodies on orbits are shown: {fact.because if fact is not None else 'not looked for'}"
    if not m.splits:
        return None
    if system.kind == "hamiltonian":
        if not facts["separable"]:
            return f"H is not shown to be separable: {facts['separable'].because}"
        time = facts["explicit time"]
        if time and len(time.inside) > 1:
            return "T and V both depend on t; a splitting advances time inside exactly one of them"
    return None


def named(name: str) -> Method:
    if name not in names():
        raise PlanError(f"there is no method `{name}`",
                        fix=f"{did_you_mean(name, names())}Methods: {', '.join(names())}.")  # fmt: skip
    if name in CHOICES:
        raise PlanError(f"`{name}` is not one method: it lets the planner choose",
                        fix=f"Methods: {', '.join(BY_NAME)}.")  # fmt: skip
    return BY_NAME[ALIASES.get(name, name)]


def choose(system: System, facts: Facts, goal: Goal) -> Plan:
    forbidden = {named(n).name for n in goal.forbid}
    if system.kind == "map":
        if goal.method != "auto" or goal.order is not None:
            raise PlanError(f"`{system.name}` is an explicit map and is run as it is written",
                            fix="Leave method= and order= out.")  # fmt: skip
        return Plan(MAP.name, 0, "an explicit map is run as it is written")
    if goal.method not in CHOICES:
        m = named(goal.method)
        if goal.order not in (None, m.order):
            raise PlanError(f"`{m.name}` has order {m.order}, not {goal.order}",
                            fix="Leave order= out, or choose by order alone.")  # fmt: skip
        if m.name in forbidden:
            raise PlanError(f"`{m.name}` is asked for and forbidden", fix="Leave it out of forbid=.")
        why = objection(m, system, facts)
        if why and m.orbits is not None:
            raise PlanError(f"`{m.name}` does not apply to `{system.name}`: {why}", site=facts[HIERARCHY].site,
                            fix="A splitting into kicks and drifts needs no orbits: leave method= out, or choose order=4.")
        if why:
            raise PlanError(f"`{m.name}` does not apply to `{system.name}`: {why}",
                            site=facts["separable"].site if "separable" in facts else None,
                            fix="rk4 applies to any energy, without a certificate: method=\"rk4\".")  # fmt: skip
        return Plan(m.name, m.order, "asked for by name")
    order = 2 if goal.order is None else goal.order
    if not isinstance(order, int) or order not in BY_ORDER:
        raise PlanError(f"there is no certified method of order {order}",
                        fix=f"Orders: {', '.join(map(str, BY_ORDER))}.")  # fmt: skip
    wanted = [BY_ORDER[order], *(m.name for m in METHODS if m.order == order and m.splits)]
    turned_down, chosen = [], None
    for m in (BY_NAME[n] for n in dict.fromkeys(wanted)):
        why = "forbidden" if m.name in forbidden else objection(m, system, facts)
        if why:
            turned_down.append(Alternative(m.name, why))
        elif chosen is None:
            chosen = m
        else:
            turned_down.append(Alternative(m.name, f"same order and cost; {chosen.name} is the default"))
    if chosen is None:
        reasons = "\n  ".join(f"{a.method}: {a.because}" for a in turned_down)
        raise PlanError(
            f"no certified method of order {order} applies to `{system.name}`. Tried:\n  {reasons}",
            fix='method="rk4" applies to any energy, without a certificate.',
        )
    others = [m for m in METHODS if m.splits and m.order != order and not objection(m, system, facts)]
    turned_down += [Alternative(m.name, f"order {m.order}, {m.stages} force evaluation"
                                f"{'s' if m.stages > 1 else ''} a step; order {order} was "
                                f"{'asked for' if goal.order else 'the default'}") for m in others]  # fmt: skip
    if HIERARCHY in facts and facts[HIERARCHY]:
        turned_down += [Alternative(m.name, "on Kepler orbits, by name only: the first state must be a hierarchy, and is not "
                                    "known yet") for m in METHODS if m.name == ON_ORBITS]  # fmt: skip
    because = f"order {order} asked for" if goal.order else "the default where H splits"
    if system.kind == "forces":
        because = f"order {order} asked for" if goal.order else "the default for forces of position"
    return Plan(chosen.name, chosen.order, because, tuple(turned_down))
