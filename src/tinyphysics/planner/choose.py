"""Which method does this system get?  The first that applies, and why the others were turned down."""
from __future__ import annotations

from tinyphysics.errors import PlanError
from tinyphysics.facts import Facts
from tinyphysics.plan import Alternative, Goal, Plan
from tinyphysics.planner.catalog import (
    ALIASES,
    BY_NAME,
    CHOICES,
    FIRST,
    MAP,
    ORDERS,
    RESPA,
    Method,
    by_order,
    by_solving,
    names,
)
from tinyphysics.planner.needs import HIERARCHY, is_quadratic, objection, splits
from tinyphysics.planner.routes import route_of
from tinyphysics.synth.quality import told
from tinyphysics.system import System
from tinyphysics.util import did_you_mean

ON_ORBITS = "aba104"  # the one that is named where any of them might do


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
        return Plan(MAP.name, 0, route_of(system, facts).default)
    if goal.method not in CHOICES:
        m = named(goal.method)
        if goal.order not in (None, m.order):
            raise PlanError(f"`{m.name}` has order {m.order}, not {goal.order}",
                            fix="Leave order= out, or choose by order alone.")  # fmt: skip
        if m.name in forbidden:
            raise PlanError(f"`{m.name}` is asked for and forbidden", fix="Leave it out of forbid=.")
        if system.levels and m.name != RESPA.name:
            raise one_pace(m.name)
        why = objection(m, system, facts)
        if why and m.orbits is not None:
            raise PlanError(f"`{m.name}` does not apply to `{system.name}`: {why}", site=facts[HIERARCHY].site,
                            fix="A splitting into kicks and drifts needs no orbits: leave method= out, or choose order=4.")
        if why:
            raise PlanError(f"`{m.name}` does not apply to `{system.name}`: {why}",
                            site=facts["separable"].site if "separable" in facts else None,
                            fix="implicit_midpoint, gauss4 and gauss6 apply to any energy: leave method= out, or choose "
                            'order=. Without a certificate, method="rk4".')  # fmt: skip
        return at_paces(system, facts, goal) if system.levels else Plan(m.name, m.order, "asked for by name")
    if system.levels and (goal.order not in (None, RESPA.order) or RESPA.name in forbidden):
        raise one_pace(f"a method of order {goal.order}" if goal.order else "what is left")
    if system.levels:
        return at_paces(system, facts, goal)
    order = 2 if goal.order is None else goal.order
    if not isinstance(order, int) or not 1 <= order <= max(ORDERS):
        raise PlanError(f"there is no certified method of order {order}",
                        fix=f"Orders: {', '.join(map(str, ORDERS))}.")  # fmt: skip
    order = next(o for o in ORDERS if o >= order)
    quadratic = is_quadratic(system, facts)
    turned_down, chosen = [], None
    for m in of_order(order, quadratic, system, facts):
        why = "forbidden" if m.name in forbidden else objection(m, system, facts)
        if why:
            turned_down.append(Alternative(m.name, why))
        elif chosen is None:
            chosen = m
        else:
            turned_down.append(Alternative(m.name, second(m.name, chosen, quadratic)))
    if chosen is None:
        reasons = "\n  ".join(f"{a.method}: {a.because}" for a in turned_down)
        raise PlanError(
            f"no certified method of order {order} applies to `{system.name}`. Tried:\n  {reasons}",
            fix='Choose order=6 or less, or method="rk4", which applies to any energy without a certificate.',
        )
    best = [next((m for m in of_order(o, quadratic, system, facts) if not objection(m, system, facts)), None)
            for o in ORDERS if o != order]  # fmt: skip
    best = [m for m in dict.fromkeys(best) if m is not chosen]
    turned_down += [Alternative(m.name, f"order {m.order}, {'about ' if m.slopes else ''}{m.stages} force evaluation"
                                f"{'s' if m.stages > 1 else ''} a step; order {goal.order or order} was "
                                f"{'asked for' if goal.order else 'the default'}") for m in best if m]  # fmt: skip
    if HIERARCHY in facts and facts[HIERARCHY]:
        turned_down.append(Alternative(ON_ORBITS, "on Kepler orbits, by name only: the first state must be a hierarchy, and "
                                       "is not known yet"))  # fmt: skip
    return Plan(chosen.name, chosen.order, reason(system, facts, goal, chosen, quadratic), tuple(turned_down))


def of_order(order: int, quadratic: bool, system: System, facts: Facts) -> list[Method]:
    """What may be chosen at an order, the best first; equations are solved only where nothing splits."""
    return [*by_order(order, quadratic), *([] if splits(system, facts) else by_solving(order))]


def one_pace(what: str) -> PlanError:
    return PlanError(f"{what} kicks all parts at one pace, and some are said to be fast and slow",
                     fix="Leave tp.fast, tp.slow and inner= out, or method= and order=: order 2 has paces.")  # fmt: skip


def at_paces(system: System, facts: Facts, goal: Goal) -> Plan:
    """The plan for fast and slow parts."""
    why = objection(RESPA, system, facts)
    if why is not None:
        raise PlanError(f"`{RESPA.name}` does not apply to `{system.name}`: {why}",
                        fix="Leave tp.fast and tp.slow out: then all parts have one pace.")  # fmt: skip
    paces = len(system.levels)
    if len(goal.inner) != paces - 1:
        example = "10" if paces == 2 else f"({', '.join(['10', *['4'] * (paces - 2)])})"
        raise PlanError(f"`{system.name}` has {paces} paces, and inner= says how many kicks of each go into one of the next",
                        fix=f"Pass inner={example}.")  # fmt: skip
    kicks = " times ".join(map(str, goal.inner))
    return Plan(RESPA.name, RESPA.order, f"fast and slow parts: {kicks} fast kicks in a step")


def second(name: str, chosen: Method, quadratic: bool) -> str:
    """Why a method that applies is not the one."""
    if BY_NAME[name].slopes:
        return f"same order; {chosen.name} is the default"
    if chosen.order in FIRST:
        return f"same order and cost; {chosen.name} is the default"
    return told(name, quadratic)


def reason(system: System, facts: Facts, goal: Goal, chosen: Method, quadratic: bool) -> str:
    if not goal.order:
        return route_of(system, facts).default
    asked = f"order {goal.order} asked for"
    if goal.order != chosen.order:
        asked += f"; symmetric methods have even orders, so {chosen.order}"
    if chosen.order in FIRST or chosen.slopes:
        return asked
    return f"{asked}; of those that apply the best: {told(chosen.name, quadratic)}"
