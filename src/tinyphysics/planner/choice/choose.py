"""Which method does this system get?  The first that applies, and why the others were not chosen."""

from __future__ import annotations

from dataclasses import replace

from tinyphysics.analysis.phases import NAME as PHASES
from tinyphysics.constrained import BRACKET as CONSTRAINED
from tinyphysics.errors import PlanError
from tinyphysics.facts import Facts
from tinyphysics.plan import Alternative, Goal, Plan
from tinyphysics.planner.choice.lagrangian import by_cost
from tinyphysics.planner.choice.routes import ROUTES, route_of
from tinyphysics.planner.choice.stiff_rates import because, instead_of
from tinyphysics.planner.conflicts import Ask, check
from tinyphysics.planner.methods.catalog import (
    ALIASES,
    BY_NAME,
    BY_ORDER,
    CHOICES,
    FIRST,
    INTERACTION,
    MAP,
    METHODS,
    ORDERS,
    PACED,
    TAYLOR,
    by_order,
    by_solving,
    names,
    of_parts,
    of_phases,
)
from tinyphysics.planner.methods.families.embedded import has_long_axis
from tinyphysics.planner.methods.families.interaction import quadratic_part
from tinyphysics.planner.methods.families.lengths import TOLD
from tinyphysics.planner.methods.families.multirate import weights_of
from tinyphysics.planner.methods.families.orbits import HIERARCHY
from tinyphysics.planner.methods.families.rates import rates_of
from tinyphysics.planner.methods.families.taylor import series_length, too_long
from tinyphysics.planner.methods.method import BATH, LEVELS, ORBITS, SYMPLECTIC, Method, tolerance_of
from tinyphysics.planner.methods.method import INTERACTION as BY_TURNS
from tinyphysics.planner.methods.needs import is_quadratic, objection, splits
from tinyphysics.rules.calculus.jet import order_for
from tinyphysics.rules.identities.real import simplify
from tinyphysics.synth.coefficients.clocks import leapfrogs
from tinyphysics.synth.coefficients.quality import told
from tinyphysics.synth.methods.taylor import DECAY
from tinyphysics.system import System
from tinyphysics.tpir.precision.precision import PRECISIONS
from tinyphysics.util import nearest, one_of

ON_ORBITS = "aba104"  # the one that is named where any of them might do
# the order where t is a state: an orbit may be right and its period wrong, which low orders get
IN_ANOTHER_TIME = 6
UNKNOWN_HIERARCHY = (
    "on Kepler orbits, by name only: the first state must be a hierarchy, and is not known yet"
)
KEPT_ORBITS = "leapfrogs that begin with a drift stay on Kepler orbits, but for the time"
OFF_ORBITS = "leaves Kepler orbits"
FOR_RATES = (
    Alternative("dop853", "slopes alone; by name, where rates have corners"),
    Alternative("radau", "solves for its stages; by name, where many steps are short and little moves"),
)


IN_TOUCH = "impulses"
FEW_NUMBERS = 64  # of a state whose series are never too long
FEW_DIGITS = 1e-6  # a tolerance from which order 5 is cheaper than order 8
FOR_ARRAYS = "the default for derivatives of large arrays: it runs in loops"
FOR_EACH = "the default for derivatives with absolute=: it controls the error of each number"
NOT_FOR_EACH = "it compares errors with the largest number only, and absolute= is for each"
TOO_LONG = "its series would be written out number by number, and are too long for that"
ASK_FOR_A = (
    "Write the field by its vector potential, H = |p - A(q)|**2/2m + V(q), whose steps are symplectic; or leave method= out: "
    "boris keeps volumes."
)
NO_NEED = "A splitting into kicks and drifts does not need"
# what other libraries call a method, or one that is used for the same
ELSEWHERE = dict.fromkeys(("verlet", "velocity_verlet", "stormer_verlet"), "leapfrog")
ELSEWHERE |= {"position_verlet": "leapfrog_dkd", "forest_ruth": "yoshida4", "whfast": "wisdom_holman"}
ELSEWHERE |= {"rk45": "dopri5", "dop54": "dopri5", "runge_kutta": "rk4", "ias15": "taylor"}
ELSEWHERE |= dict.fromkeys(("bdf", "lsoda"), "radau")


def suggested(name: str) -> str:
    """The names that were probably meant, as a sentence."""
    if (same := ELSEWHERE.get(name.lower().replace("-", "_").replace(" ", "_"))) is not None:
        return f"Here it is `{same}`."
    found = nearest(name, names(), cutoff=0.5)
    return f"Did you mean {one_of(found)}?" if found else "Such a name is `leapfrog`, `yoshida4` or `rk4`."


def named(name: str) -> Method:
    if name not in names():
        raise PlanError(
            f"there is no method `{name}`", fix=f"{suggested(name)} All are listed in docs/methods.md."
        )
    if name in CHOICES:
        raise PlanError(
            f"`{name}` is not a single method: the planner chooses one",
            fix="Name a method, such as `leapfrog_kdk`. All are listed in docs/methods.md.",
        )
    return BY_NAME[ALIASES.get(name, name)]


def asked_for(goal: Goal) -> Method:
    """The method of a name, of the order that is asked for where the name has several: interaction, interaction4, ..."""
    m = named(goal.method)
    return BY_NAME.get(f"{m.name}{goal.order}", m)


def for_rates(system: System, goal: Goal) -> Method:
    """Taylor series, unless they are too long: of large arrays a pair of methods, which runs in loops.

    Where the first state has shown that a system is stiff, the method for that. An absolute error is that of each number,
    which a pair looks at and a series does not.
    """
    if goal.spectrum is not None and goal.spectrum.method:
        return BY_NAME[goal.spectrum.method]
    pair = BY_NAME["dopri5" if (goal.tolerance or 0.0) >= FEW_DIGITS else "dop853"]
    if goal.absolute is not None:
        return pair
    if goal.precision != "float64":
        return TAYLOR
    rates = simplify(rates_of(system)[0])
    few = sum(s.var.size for s in system.states) <= FEW_NUMBERS
    long = not few and goal.tolerance is not None and has_long_axis(system)
    slow = long and series_length(system, rates, 1) > TOLD
    if not slow and not too_long(system, rates, order_for(tolerance_of(TAYLOR, goal))):
        return TAYLOR
    return pair


def choose(system: System, facts: Facts, goal: Goal) -> Plan:
    forbidden = {named(n).name for n in goal.forbid}
    check("choice", Ask.of(goal, system))
    if system.kind == "map":
        return Plan(MAP.name, 0, route_of(system, facts).default)
    if system.contacts and goal.method in CHOICES:
        if goal.method != "auto":
            raise PlanError(
                f"no method is certified for `{system.name}`: impulses at contacts keep no form",
                fix="Leave method= out, or bounce off walls with tp.wall.",
            )
        goal = replace(goal, method=IN_TOUCH)
        return replace(choose(system, facts, goal), because="the method for bodies that touch")
    if goal.method not in CHOICES or system.kind == "ode":
        m = for_rates(system, goal) if goal.method == "auto" else asked_for(goal)
        if goal.order is not None and m is TAYLOR:
            found = order_for(goal.tolerance or m.family.tolerance("float64"))
            raise PlanError(
                f"`taylor` chooses its order from tolerance=, {found} here",
                fix="Leave order= out; tolerance=1e-8 gives a lower order.",
            )
        if goal.order not in (None, m.order):
            raise PlanError(
                f"`{m.name}` has order {m.order}, not {goal.order}",
                fix="Leave order= out, or pass order= without method=.",
            )
        if m.name in forbidden:
            raise PlanError(f"`{m.name}` is both chosen and forbidden", fix="Leave it out of forbid=.")
        if system.levels and m.family.kind != LEVELS:
            raise one_pace(m.name)
        why = objection(m, system, facts)
        if why:
            site, fix = facts["separable"].site if "separable" in facts else None, instead(system, facts)
            if m.family.kind == BATH and not system.heat:
                fix = "Pass temperature=1.0, or leave method= out."
            elif m.family.kind == ORBITS:
                site, fix = facts[HIERARCHY].site, f"{NO_NEED} orbits: leave method= out, or choose order=4."
            elif m.family.kind == BY_TURNS:
                site, fix = (
                    quadratic_part(system, facts).site,
                    f"{NO_NEED} a quadratic part: leave method= out.",
                )
            raise PlanError(f"`{m.name}` does not apply to `{system.name}`: {why}", site=site, fix=fix)
        if system.levels:
            return multirate_plan(m, system, facts, goal)
        order = order_for(tolerance_of(m, goal), DECAY[goal.precision]) if m is TAYLOR else m.order
        if goal.method != "auto":
            return Plan(m.name, order, "chosen by name", ())
        if goal.spectrum is not None and goal.spectrum.method:
            return Plan(
                m.name,
                order,
                because(goal.spectrum),
                instead_of(goal.spectrum.default or TAYLOR.name, m.name),
            )
        if m is not TAYLOR:
            rest = (o for o in FOR_RATES if o.method != m.name)
            why, instead_of_it = (FOR_ARRAYS, TOO_LONG) if goal.absolute is None else (FOR_EACH, NOT_FOR_EACH)
            return Plan(m.name, order, why, (Alternative(TAYLOR.name, instead_of_it), *rest))
        return Plan(m.name, order, route_of(system, facts).default, FOR_RATES)
    if system.levels:
        paced = PACED.get(2 if goal.order is None else goal.order)
        if paced is None or paced.name in forbidden:
            raise one_pace(f"a method of order {goal.order}" if goal.order else "what is left")
        return multirate_plan(paced, system, facts, goal)
    if goal.stiff:
        return oscillator_plan(goal)
    order = (2 if system.clock is None else IN_ANOTHER_TIME) if goal.order is None else goal.order
    if not isinstance(order, int) or not 1 <= order <= max(ORDERS):
        raise PlanError(
            f"there is no certified method of order {order!r}", fix=f"Orders: {', '.join(map(str, ORDERS))}."
        )
    order = next(o for o in ORDERS if o >= order)
    quadratic = is_quadratic(system, facts)
    not_chosen, chosen = [], None
    for m in of_order(order, quadratic, system, facts, goal):
        why = "forbidden" if m.name in forbidden else objection(m, system, facts)
        if why:
            not_chosen.append(Alternative(m.name, why))
        elif chosen is None:
            chosen = m
        else:
            off = keeps_orbits(chosen) and logarithmic(system) and not keeps_orbits(m)
            not_chosen.append(Alternative(m.name, OFF_ORBITS if off else second(m, chosen, quadratic)))
    if chosen is None and not not_chosen:
        raise PlanError(
            f"no certified method of order {order} is made for `{system.name}`", fix=instead(system, facts)
        )
    if chosen is None:
        reasons = "\n  ".join(f"{a.method}: {a.because}" for a in not_chosen)
        raise PlanError(
            f"no certified method of order {order} applies to `{system.name}`. Tried:\n  {reasons}",
            fix=instead(system, facts)
            if system.is_open or system.bracket
            else 'Choose order=6 or less, or method="rk4", which applies to any energy without a certificate.',
        )
    compared = by_cost(system, facts, goal, chosen, forbidden)
    if compared is not None:
        chosen = compared.method
        named_there = (chosen.name, compared.not_chosen.method)
        not_chosen = [compared.not_chosen, *(a for a in not_chosen if a.method not in named_there)]
    others = [of_order(o, quadratic, system, facts, goal) for o in ORDERS if o != order]
    best = [next((m for m in able if not objection(m, system, facts)), None) for able in others]
    asked = f"order {goal.order or order} was {'asked for' if goal.order else 'the default'}"
    for m in dict.fromkeys(m for m in best if m is not None):
        if m is not chosen:
            work = f"{'about ' if m.solves else ''}{m.stages} force evaluation{'s' if m.stages > 1 else ''} a step"
            not_chosen.append(Alternative(m.name, f"order {m.order}, {work}; {asked}"))
    if HIERARCHY in facts and facts[HIERARCHY]:
        not_chosen.append(Alternative(ON_ORBITS, UNKNOWN_HIERARCHY))
    why = reason(system, facts, goal, chosen, quadratic)
    if compared is not None and compared.because:
        why = f"{why}; {compared.because}"
    return Plan(chosen.name, chosen.order, why, tuple(not_chosen))


def instead(system: System, facts: Facts) -> str:
    """What to write where a method does not apply."""
    if system.energy is None:
        return 'method="dop853" applies, with steps of its own, and "rk4" with a dt.'
    if system.friction and system.structure.turning:
        return 'rotations and lie_cayley, of any order, follow friction of bodies. Without a certificate, method="rk4".'
    if system.friction and system.bracket == "magnetic":
        return (
            'boris and boris_exact follow friction in a magnetic field. Without a certificate, method="rk4".'
        )
    if system.friction:
        return 'leapfrog, yoshida4 and other splittings of T(p) + V(q) follow friction. Without a certificate, method="rk4".'
    if system.bracket == "magnetic":
        return ASK_FOR_A
    if system.bracket == CONSTRAINED:
        return "rattle, rattle4 and rattle6 step constraints of an energy p**2/2m + V(q) without t."
    if system.contacts:
        return "`impulses` steps p**2/2m + V(q) with contacts: leave method= out, and baths too."
    if own := system.structure.families:
        made = [
            m.name for m in METHODS if m.family.kind in own and m.keeps and not objection(m, system, facts)
        ]
        plain = (
            ' Without a certificate, method="rk4".' if not objection(BY_NAME["rk4"], system, facts) else ""
        )
        if not made:
            return f"No method that is made for such states is shown to apply to this energy.{plain}"
        are = "is" if len(made) == 1 else "are"
        return f"{one_of(made, 'and')} {are} made for it: leave method= out.{plain}"
    return (
        "implicit_midpoint, gauss4 and gauss6 apply to any energy: leave method= out, or choose "
        'order=. Without a certificate, method="rk4".'
    )


def logarithmic(system: System) -> bool:
    return system.clock is not None and system.clock.way == "logarithmic"


def keeps_orbits(m: Method) -> bool:
    """With the logarithmic Hamiltonian, leapfrogs that begin with a drift have an error in the time of an orbit alone."""
    found = leapfrogs(m.sequence()) if m.splits else None
    return found is not None and found[0] == "T"


def of_order(order: int, quadratic: bool, system: System, facts: Facts, goal: Goal) -> list[Method]:
    """What may be chosen at an order, the best first; where nothing splits, shears, and equations are solved at last.

    A structure with methods of its own has these.
    """
    if own := system.structure.families:
        made = [m for m in METHODS if m.order == order and m.family.kind in own]
        made = [m for m in made if m.keeps or m.family.conserves]
        made.sort(key=lambda m: own.index(m.family.kind))
        return [m for m in made if goal.method != SYMPLECTIC or SYMPLECTIC in m.keeps]
    splittings = by_order(order, quadratic)
    if PHASES in facts and facts[PHASES]:
        splittings = [*of_phases(order), *splittings]
    if logarithmic(system):
        splittings = sorted(splittings, key=lambda m: not keeps_orbits(m))
    if splits(system, facts):
        return splittings
    parts = of_parts(order) if PRECISIONS[goal.precision].takes_shears and goal.scale == "off" else []
    return [*splittings, *parts, *by_solving(order)]


def oscillator_plan(goal: Goal) -> Plan:
    """The plan where the splitting into kicks and drifts would not stay bounded."""
    order = goal.order or INTERACTION.order
    own = BY_NAME[f"{INTERACTION.name}{order if order > INTERACTION.order else ''}"]
    other = BY_NAME[BY_ORDER[order]]
    why = f"omega*dt = {goal.stiff:.4g} of the quadratic part is above the limit of {other.name}, {other.limit:.4g}"
    others = [
        Alternative(m.name, f"order {m.order}, {m.stages} force evaluations a step; by name")
        for m in METHODS
        if m.family.kind == BY_TURNS and m.order > own.order and not m.family.mollified
    ]
    unstable = f"unstable: omega*dt = {goal.stiff:.4g} at the centre of the quadratic part"
    mollified = Alternative("interaction_mollified", "by name: where a turn of omega*dt = k pi must be stood")
    not_chosen = (Alternative(other.name, unstable), *others, mollified)
    return Plan(own.name, own.order, f"{why}, so it is solved, not stepped", not_chosen)


def one_pace(what: str) -> PlanError:
    orders = " and ".join(map(str, PACED))
    return PlanError(
        f"{what} applies all kicks with the same step, but some parts are marked fast and slow",
        fix=f"Leave tp.fast and tp.slow out, or method= and order=: orders {orders} have methods for fast and slow parts.",
    )


def multirate_plan(method: Method, system: System, facts: Facts, goal: Goal) -> Plan:
    """The plan for fast and slow parts."""
    why = objection(method, system, facts)
    if why is not None:
        raise PlanError(
            f"`{method.name}` does not apply to `{system.name}`: {why}",
            fix="Leave tp.fast and tp.slow out: then all parts have the same step.",
        )
    paces = len(system.levels)
    check("levels", Ask.of(goal, system))
    if not goal.inner:
        open_ = "provisional: the first state says how many fast kicks there are in a step"
        return Plan(method.name, method.order, f"fast and slow parts; {open_}")
    if len(goal.inner) != paces - 1:
        example = "10" if paces == 2 else f"({', '.join(['10', *['4'] * (paces - 2)])})"
        raise PlanError(
            f"`{system.name}` has {paces} parts of different speed, and inner= needs the number of "
            f"kicks of each part per kick of the next slower one",
            fix=f"Pass inner={example}.",
        )
    kicks = " times ".join(map(str, goal.inner))
    each = "a step" if len(weights_of(method)) == 1 else "each of the steps that it is composed of"
    return Plan(method.name, method.order, f"fast and slow parts: {kicks} fast kicks in {each}")


def second(m: Method, chosen: Method, quadratic: bool) -> str:
    """Why a method that applies is not the one."""
    if m.solves:
        return f"about {m.stages} force evaluations a step; {chosen.name} has {chosen.stages}"
    if chosen.order in FIRST:
        return f"same order and cost; {chosen.name} is the default"
    return told(m.name, quadratic)


def reason(system: System, facts: Facts, goal: Goal, chosen: Method, quadratic: bool) -> str:
    if logarithmic(system) and keeps_orbits(chosen):
        return f"{f'order {goal.order} asked for' if goal.order else 'the default in another time'}; {KEPT_ORBITS}"
    if not goal.order and system.structure.families:
        return f"the default: {system.structure.unasked}"
    if not goal.order:
        return (ROUTES[-1] if chosen.solves else route_of(system, facts)).default
    asked = f"order {goal.order} asked for"
    if goal.order != chosen.order:
        asked += f"; symmetric methods have even orders, so {chosen.order}"
    if chosen.order in FIRST or not chosen.splits:
        return asked
    return f"{asked}; of those that apply the best: {told(chosen.name, quadratic)}"
