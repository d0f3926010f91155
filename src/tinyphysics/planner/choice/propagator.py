"""May the loop be deleted, and by which means is it then computed?  What each would cost, and why not the others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from tinyphysics.analysis.free_bodies import free_bodies
from tinyphysics.analysis.stencil import uniform
from tinyphysics.errors import PlanError, TinyPhysicsError
from tinyphysics.facts import Facts
from tinyphysics.ir import toposort
from tinyphysics.plan import Alternative, Goal, Plan
from tinyphysics.planner import conflicts
from tinyphysics.planner.choice.choose import choose
from tinyphysics.planner.conflicts import NAMED, NOT_SPLIT
from tinyphysics.planner.methods.catalog import BY_NAME, CHOICES
from tinyphysics.report import Row
from tinyphysics.rules.calculus.laurent import Curvatures, Laurent, curvatures
from tinyphysics.rules.calculus.squares import squares
from tinyphysics.rules.formulas.friction import dissipation
from tinyphysics.synth.methods.propagate import FLOW
from tinyphysics.system import System

PROPAGATORS = ("exact", "method", "loop")
MOST_MODES = 512  # pairs whose modes are found in double-double
WAVES_FROM = 129  # sites of a lattice that are transformed rather than diagonalised
MOST_SPARSE = 1 << 17  # pairs whose matrix is looked at row by row
FEW_EACH = 8  # numbers for each pair, that an array of such an energy has at most
MOST_WHOLE = 24  # pairs whose matrix is raised to a power in whole numbers
LOOP = 'Run it step by step: propagator="loop".'

# seconds on one core of a machine of 2022, by the number N of pairs; the limits above decide what is used, and these whether
STEP = 0.5e-9  # a pair in one step of a loop; a step takes 3e-9 at least
OPERATION = 0.2e-9  # of a step, where they are counted

# As bench/deletion.py measures it, a run of one member with new parameters that keeps 500 frames takes 0.5 ms more than the
# loop, 0.2 ms more for each pair of q and p, and 0.8 ms more where two of them are coupled: at most 2 ms with these numbers.
FRAMES = 500
MOST_PAIRS = 6
MOST_MIXED = 2  # where q and p are mixed
COUPLED = 4  # pairs that cost as much as a coupling of two


@dataclass(frozen=True)
class Means:
    """One way to compute a jump."""

    name: str
    what: str
    build: float  # seconds, once
    apply: float  # seconds, for each frame
    objection: str = ""
    bits: str = "exact"  # or why its last bits are not in the contract


def not_sparse(system: System) -> str:
    """Why an energy is not shown to couple each with a few."""
    assert system.energy is not None
    n = pairs_of(system)
    if n > MOST_SPARSE:
        return f"{n:,} pairs, {MOST_SPARSE:,} at most"
    large = next((u for u in toposort([system.energy]) if u.size > FEW_EACH * n), None)
    return "" if large is None else f"an array of shape {large.shape} may couple all with all"


def pairs_of(system: System) -> int:
    return sum(u.size for u in system.q)


@lru_cache(maxsize=64)
def few(system: System) -> Curvatures | None:
    """The second derivatives of an energy, if it is small enough to be solved with all members and frames at once."""
    if system.energy is None or pairs_of(system) > MOST_PAIRS:
        return None
    found = curvatures(system.energy, system.q, system.p, [x.var for x in system.parameters])
    if found is None or not found.mixed and not found.masses_apart():
        return None
    if system.friction and (found.mixed or not fit(found, friction_rates(system))):
        return None
    if found.mixed:
        return found if found.pairs <= MOST_MIXED and found.has_invariants() else None
    sizes = [len(component) for component in found.components()]
    small = max(sizes) <= 2 and found.pairs + COUPLED * sizes.count(2) <= MOST_PAIRS
    return found if small else None


@lru_cache(maxsize=64)
def friction_rates(system: System) -> list[Laurent] | None:
    """The rate of every number of the momenta, as functions of parameters; None where one is no such sum."""
    parameters = [x.var for x in system.parameters]
    found = squares(dissipation(system.p, system.friction), system.p, parameters)
    return None if isinstance(found, str) else found


def fit(found: Curvatures, rates: list[Laurent] | None) -> bool:
    """Have pairs that are coupled the same rate?  Then modes decay one by one."""
    return rates is not None and all(
        rates[i].key == rates[component[0]].key for component in found.components() for i in component
    )


def means(system: System, facts: Facts, way: str, small: bool = True) -> list[Means]:
    """What there is, in the order of preference, by structure and size alone; without what only `small` systems have."""
    if system.structure.turning:
        return [of_bodies(system, way)]
    n, split = pairs_of(system), bool(facts["separable"])
    small = small and way == "exact" and few(system) is not None
    same = uniform(system)
    mixed = "" if split else f"q and p are mixed: {facts['separable'].because}"
    too_many = f"{n:,} pairs, {MOST_MODES} at most" if n > MOST_MODES else ""
    if system.friction:
        mixed = mixed or "friction: modes of larger systems, and of unequal rates, are not taken apart"
    log = math.log2(max(n, 2))
    library = "LAPACK begins the refinement: a library's last bits"
    build, apply = (
        (5e-4 + 1e-4 * n, 2e-7 * n) if small else (7e-3 + 2.5e-4 * n + 2e-7 * n**3, 1e-6 * n + 5e-9 * n * n)
    )
    many = f"{n:,} pairs, {MOST_MODES // 2} at most" if n > MOST_MODES // 2 else ""
    dense = "a power of the method has as many factors as the loop" if way == "method" else not_sparse(system)
    # fmt: off
    out = [
        Means("modes", "eigenvectors and phases in double-double", build, apply,
              "" if small else mixed or too_many, library if n > 96 else "exact"),
        Means("waves", "Fourier transform, frequencies and phases in double-double", 1e-6 * n, 4e-9 * n * log,
              mixed or ("" if same else same.because), "the transform is a library's"),
        Means("normal form", "of a definite H, in double-double", 0.02 + 3e-6 * n**3, 2e-6 * n + 2e-8 * n * n,
              mixed if system.friction else "q and p are not mixed" if split else many, library if n > 48 else "exact"),
        Means("whole numbers", "the matrix itself, with a bound of its error", 3e-5 * (2 * n + 1) ** 3, 1e-4 + 2e-7 * n * n,
              f"{n:,} pairs, {MOST_WHOLE} at most" if n > MOST_WHOLE else ""),
        Means("polynomials", "of the matrix, in floats: a term for each two radians of the fastest mode", 2e-5 * n, 1e-8 * n,
              mixed or dense),
    ]
    # fmt: on
    if n >= WAVES_FROM:  # a transform is cheaper, where sites are alike
        out[:2] = out[1::-1]
    return out


def of_bodies(system: System, way: str) -> Means:
    """Of free rigid bodies; as bench/tops.py measures it, each costs 0.4 ms once, and 2 us a frame."""
    found = free_bodies(system)
    n = 1 if isinstance(found, str) else len(found) // 3
    what = "Jacobi's functions, with phases in double-double"
    objection = found if isinstance(found, str) else ""
    if way == "method":
        objection = "a power of turns about several axes is no jump"
    return Means("bodies", what, 8e-4 * min(n, 16) + 1e-5 * n, 2e-6 * n, objection)


def refusal(system: System, facts: Facts, goal: Goal) -> TinyPhysicsError | None:
    """Why the loop cannot be deleted."""
    named = {NAMED: goal.method not in CHOICES}
    return conflicts.refusal("jump", conflicts.Ask.of(goal, system, named, facts=facts))


def plan_jump(system: System, facts: Facts, goal: Goal, chosen: str = "") -> Plan:
    """What stands for the loop; `chosen` is why, if it was not asked for."""
    if (error := refusal(system, facts, goal)) is not None:
        raise error
    assert goal.propagator is not None
    found = means(system, facts, goal.propagator)
    if all(m.objection for m in found):
        reasons = "\n  ".join(f"{m.name}: {m.objection}" for m in found)
        raise PlanError(
            f"no way is known to replace the loop over steps of `{system.name}` by a jump. Tried:\n  {reasons}",
            fix=LOOP,
        )
    if goal.propagator == "exact":
        because = "asked for: no step, and no error of one"
        instead = chosen or 'propagator="exact" was asked for'
        if chosen and (facts["separable"] or system.structure.turning):
            instead = 'propagator="loop" steps'
        return Plan(FLOW, 0, chosen or because, (Alternative("loop", instead),))
    plan = choose(system, facts, goal)
    m = BY_NAME[plan.method]
    other = {NOT_SPLIT: not m.splits or m.gradients or m.family.processed}
    conflicts.check("power", conflicts.Ask.of(goal, system, other, plan.method))
    return plan


def seconds(x: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if x >= size:
            return f"{float(f'{x / size:.2g}'):g} {unit}"
    return f"{float(f'{x / 1e-9:.2g}'):g} ns"


def loop_seconds(pairs: int, operations: int = 0) -> float:
    """Of one step."""
    return max(3e-9, STEP * pairs, OPERATION * operations)


def sooner_from(m: Means, step: float) -> str:
    return f"{max(1, math.ceil((m.build + m.apply) / step)):,} steps"


def cost_rows(found: list[Means], step: float, chosen: Means | None = None) -> list[Row]:
    """What each of the means would cost, with the loop as the last."""
    out = []
    for m in found:
        first = next(x for x in found if not x.objection)
        verdict = (
            "chosen" if m is chosen else "it would be" if m is first else "if the methods above do not apply"
        )
        each = (
            f"frame, faster than a loop from {sooner_from(m, step)} on" if m.name != "polynomials" else "term"
        )
        price = f"{verdict}: {m.what}; {seconds(m.build)} once and {seconds(m.apply)} a {each}"
        out.append(Row("by", m.name, f"no: {m.objection}" if m.objection else price))
    return [*out, Row("by", "loop", f"{'chosen' if chosen is None else 'no'}: about {seconds(step)} a step")]


def rows(system: System, facts: Facts, goal: Goal) -> list[Row]:
    """The comparison, for the report of a loop that was deleted."""
    assert goal.propagator is not None
    found = means(system, facts, goal.propagator)
    chosen = next(m for m in found if not m.objection)
    same = ("exact", "the same on every machine")
    bits = same if chosen.bits == "exact" else ("not in the contract", chosen.bits)
    what = {
        "exact": "the exact flow of H: its error does not grow with dt",
        "method": "n steps of the method in exact arithmetic; refused where omega*dt is beyond its limit",
    }
    return [
        Row("propagator", goal.propagator, what[goal.propagator]),
        *cost_rows(found, loop_seconds(pairs_of(system)), chosen),
        Row("its bits", *bits),
        Row(
            "frames",
            "jumps",
            "each frame is computed from t0 in one jump; the energy drift is measured at frames, not at every step",
        ),
    ]
