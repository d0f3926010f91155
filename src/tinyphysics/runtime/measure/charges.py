"""What does a simulation conserve, and how well does its method keep it?  sim.conserved, sim.find_invariants.

A quantity is kept to rounding where every sub-flow of a step keeps it. Else the energy of a symplectic step oscillates, other
quantities turn slowly (they precess), and those of other methods drift.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tinyphysics.analysis.analyse import facts_of
from tinyphysics.analysis.charges import Found, charges_of, residual, vanishes
from tinyphysics.analysis.conserved import ROUNDING, measured
from tinyphysics.analysis.jumps import jumps
from tinyphysics.analysis.more_invariants import PROVED, Invariant, invariants_of
from tinyphysics.analysis.phases import NAME as PHASED
from tinyphysics.charge import EXACT, Charge, Charges
from tinyphysics.constrained import BRACKET as CONSTRAINED
from tinyphysics.errors import InputError
from tinyphysics.facts import Facts
from tinyphysics.given import FROM_FRAME, whole
from tinyphysics.ir import Ops, UOp, elements, substitute, toposort
from tinyphysics.plan import Goal
from tinyphysics.planner.methods.catalog import method_of
from tinyphysics.planner.methods.method import (
    COLLOCATION,
    DISCRETE_GRADIENT,
    EXACT_FLOW,
    LEVELS,
    MAGNUS,
    ORBITS,
    PARTS,
    PHASES,
    SPLITTING,
    TAYLOR,
    VARIATIONAL,
    Method,
)
from tinyphysics.rules.calculus.degree import degrees
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.equality.normal import same
from tinyphysics.rules.formulas.cutoffs import CUT, at_cutoffs
from tinyphysics.runtime.measure.fast_parts import shortened
from tinyphysics.runtime.state.ensemble import number_array
from tinyphysics.system import State, System
from tinyphysics.util import did_you_mean

OSCILLATES, PRECESSES, DRIFTS, UNKNOWN = "oscillates", "precesses", "drifts", "not shown"
TOLERANCE = "to the tolerance of the method"
BY_TREE = "broken by the tree: out.losses has its size"
BY_CUTOFF = "broken by the cutoff: out.losses has its size"
# what a sub-flow that is solved for keeps, by the degree of the quantity in the state
QUADRATIC = 2
FEW = 64  # numbers of a state at which a rate is measured


def system_of(system: System) -> System:
    """As it was written; an InputError if it has no energy."""
    seen = system.seen
    if seen.energy is None:
        raise InputError(
            f"`{seen.name}` is given by its {seen.kind}: what it conserves is not known without an energy",
            fix="Write it as a Hamiltonian, or measure a quantity of your own: observe={name: lambda q, p: ...}.",
        )
    return seen


# --- how well a method keeps it ---------------------------------------------------------------------
def parts_of(system: System, facts: Facts, method: Method) -> list[UOp] | None:
    """The energies whose exact flows a step is made of; None where that is not known here."""
    kind = method.family.kind
    if kind == PARTS and "shears" in facts and facts["shears"]:
        return [u for _, u in facts["shears"].parts["parts"]]
    if kind == PHASES and PHASED in facts and facts[PHASED]:
        return [u for _, u, _ in facts[PHASED].parts["parts"]]
    if kind not in (SPLITTING, LEVELS) or not facts["separable"]:
        return None
    split = facts["separable"]
    return [split.T, *system.levels] if kind == LEVELS and system.levels else [split.T, split.V]


def every_part_keeps(f: Found, system: System, parts: Sequence[UOp]) -> bool:
    """Along the motion that a quantity generates, does no part of the energy change?  Boosts move T by their momentum."""
    assert f.rule is not None
    for k, part in enumerate(parts):
        by_time = f.by_time if k == 0 else None  # T is the first part, and has the time
        total = residual(part, f.rule, by_time, system)
        if total is None or not vanishes(total, f.condition):
            return False
    return True


def kept(f: Found, system: System, facts: Facts, goal: Goal, method: Method) -> str:
    kind = method.family.kind
    if goal.approximate is not None:
        return BY_TREE
    if any(name == f.name or f.kind == "energy" and name == "energy" for name, _ in goal.project):
        return EXACT
    if kind == EXACT_FLOW or kind == MAGNUS and not system.driven:
        return EXACT
    if kind == TAYLOR or method.adaptive:
        return TOLERANCE
    degree = degrees(f.expression, frozenset((*system.q, *system.p)))[f.expression]
    if f.kind == "energy" and jumps(system) and not method.family.conserves:
        assert system.energy is not None
        found = jumps(system)[0]
        if any(kind == CUT for kind, *_ in at_cutoffs([system.energy])):
            return BY_CUTOFF
        return f"broken by the jump of {shortened(str(found.node))}: it exerts no force"
    if f.kind == "energy":
        if (
            method.family.conserves
            or kind == COLLOCATION
            and is_gauss(method)
            and degree is not None
            and degree <= 2
        ):
            return EXACT
        return OSCILLATES if method.family.symplectic else DRIFTS
    if kind == PHASES and f.kind == "phase":
        return EXACT  # analysis/phases.py: waves and numbers turn, and keep their sizes
    parts = parts_of(system, facts, method)
    if parts is not None and f.by_time is not None and kind == PARTS:
        return UNKNOWN  # which part has the time is not followed there
    if parts is not None and f.rule is not None and f.kind != "scaling":
        if every_part_keeps(f, system, parts):
            return EXACT
    elif (
        kind == COLLOCATION
        and f.by_time is None
        and degree is not None
        and degree <= (QUADRATIC if is_gauss(method) else 0)
    ):
        return EXACT
    elif kind in (ORBITS, VARIATIONAL) and f.kind in ("translation", "rotation"):
        return EXACT  # of gravity in Jacobi coordinates both parts are invariant; a discrete Lagrangian has the symmetry of L
    elif parts is None and not method.family.symplectic and kind != DISCRETE_GRADIENT:
        return EXACT if degree == 1 else DRIFTS  # a Runge–Kutta method keeps what is linear
    elif parts is None:
        return UNKNOWN
    if f.kind == "scaling":
        return OSCILLATES
    return PRECESSES if method.family.symplectic else DRIFTS


def is_gauss(method: Method) -> bool:
    return not getattr(method.family, "lengths", "")


# --- sim.conserved ------------------------------------------------------------------------------------
def arguments_of(system: System) -> dict[str, UOp]:
    return (
        {s.name: s.var for s in system.states}
        | {x.name: x.var for x in system.parameters}
        | {"t": UOp.var("t") if system.time is None else system.time}
    )


def usual(system: System) -> dict[str, Any]:
    return {x.name: x.default for x in system.parameters if x.default is not None}


def as_charge(f: Found, kept: str, system: System) -> Charge:
    return Charge(
        f.name, f.expression, f.generator, f.proof, kept, takes=arguments_of(system), defaults=usual(system)
    )


@lru_cache(maxsize=64)
def found_in(system: System) -> tuple[Found, ...]:
    return charges_of(system)


def conserved(system: System, goal: Goal, method: str) -> tuple[Charge, ...]:
    """All that was shown to be conserved, with how well a method keeps it."""
    seen = system_of(system)
    facts, named = facts_of(seen), method_of(method)
    return Charges(as_charge(f, kept(f, seen, facts, goal, named), seen) for f in found_in(seen))


def numbers_of(system: System, given: Mapping[str, Any], call: str) -> dict[str, list[float]]:
    """Of each parameter all its numbers: those given to a call, or the default."""
    out = {}
    for x in system.parameters:
        value = given.get(x.name, x.default)
        if value is None:
            raise InputError(
                f"{call} needs the parameter `{x.name}`, which has no default",
                fix=f"Pass it: sim.{call}({x.name}=1.0).",
            )
        array = number_array(x.name, value)
        if array.ndim > x.var.ndim or not all(
            a in (1, b) for a, b in zip(array.shape[::-1], x.var.shape[::-1])
        ):
            raise InputError(
                f"the parameter `{x.name}` has shape {array.shape}, not {x.var.shape}",
                fix=f"Pass {x.name} for one system, of shape {x.var.shape}, or one number for all.",
            )
        if not np.isfinite(array).all():
            raise InputError(f"the parameter `{x.name}` is not finite", fix=f"Pass {x.name}=1.0.")
        out[x.name] = np.broadcast_to(array, x.var.shape).ravel().tolist()
    return out


def find_invariants(
    system: System, goal: Goal, method: str, degree: int, given: Mapping[str, Any]
) -> tuple[Charge, ...]:
    """The charges that are known and do not depend on t, and what polynomials of a degree add to them."""
    seen = system_of(system)
    degree = whole("degree", degree, 1)
    if unknown := [name for name in given if name not in {x.name for x in seen.parameters}]:
        raise InputError(
            f"find_invariants: `{seen.name}` has no parameter `{unknown[0]}`",
            fix=f"It has {', '.join(x.name for x in seen.parameters) or 'none'}.",
        )
    if seen.contacts:
        raise InputError(
            f"find_invariants: `{seen.name}` has contacts, which conserve nothing",
            fix="Compile it without tp.contact.",
        )
    if seen.is_open:
        what = "friction" if seen.friction else "a bath"
        raise InputError(
            f"find_invariants: `{seen.name}` has {what}, which conserves nothing",
            fix=f"Compile it without {'friction' if seen.friction else 'temperature'}=.",
        )
    if seen.bracket == CONSTRAINED:
        raise InputError(
            f"find_invariants: `{seen.name}` has constraints, on which it does not look yet",
            fix="See sim.conserved for what symmetries conserve that keep the constraints.",
        )
    if seen.driven:
        raise InputError(
            f"find_invariants: the energy of `{seen.name}` depends on t, and only invariants without t are looked for",
            fix="See sim.conserved for what its symmetries conserve.",
        )
    if seen.energy is not None and any(u.op is Ops.NEIGHBOURS for u in toposort([seen.energy])):
        raise InputError(
            f"find_invariants: `{seen.name}` sums over neighbours, and no polynomial is looked for in such a sum",
            fix="See sim.conserved for what its symmetries conserve, or leave cutoff= out.",
        )
    if where := jumps(seen):
        raise InputError(
            f"find_invariants: `{shortened(str(where[0].node))}` of `{seen.name}` may jump, and what is constant on both "
            "sides of a jump is not constant across it",
            fix="See sim.conserved for what its symmetries conserve, or write it without the jump.",
        )
    known = [f for f in found_in(seen) if f.by_time is None and not f.condition]
    numbers = numbers_of(seen, given, "find_invariants")
    more = invariants_of(seen, degree, numbers, [f.expression for f in known])
    named, facts = method_of(method), facts_of(seen)
    out = [as_charge(f, kept(f, seen, facts, goal, named), seen) for f in known]
    vectors = runge_lenz(seen, numbers)
    new = []
    for k, i in enumerate(more):
        name, u = named_like(i, k, vectors)
        new.append(Found(name, u, "none in space", proof_of(i, seen, numbers)))
    new.sort(key=lambda f: f.name if f.name in vectors else "")
    return (*out, *(as_charge(f, kept(f, seen, facts, goal, named), seen) for f in new))


def proof_of(i: Invariant, system: System, numbers: Mapping[str, Sequence[float]]) -> str:
    if not i.how.startswith(PROVED):
        return f"{i.how}: its rate vanishes at states drawn at random; {{F, H}} could not be reduced"
    values = [f"{name} = {x[0]:g}" if len(set(x)) == 1 else f"{name} as given" for name, x in numbers.items()]
    return f"{i.how}: {{F, H}} = 0 term by term{' for ' + ', '.join(values) if values else ''}"


def runge_lenz(system: System, numbers: Mapping[str, Sequence[float]]) -> dict[str, UOp]:
    """p x L - mu q/r for one body of mass 1, as it would be if H were p**2/2 - mu/r; by name."""
    q, p = system.q[0], system.p[0]
    if len(system.q) > 1 or q.shape not in ((2,), (3,)) or system.energy is None:
        return {}
    d = q.shape[0]
    out = {}
    for k in range(d):
        turned = UOp.sum_of(p[j] * (q[k] * p[j] - q[j] * p[k]) for j in range(d) if j != k)
        pull = (system.energy - (p * p).sum() * 0.5) * q[k]
        out[f"laplace_runge_lenz[{k}]"] = turned + pull
    table = {e: UOp.const(x) for v in system.parameters for e, x in zip(elements(v.var), numbers[v.name])}
    flat = unroll(list(out.values()))
    return dict(zip(out, substitute([u for (u,) in flat], table)))


def named_like(i: Invariant, k: int, vectors: Mapping[str, UOp]) -> tuple[str, UOp]:
    """Its name, and itself with the sign that goes with that name."""
    for name, u in vectors.items():
        if same(u, i.expression):
            return name, i.expression
        if same(-u, i.expression):
            return name, -i.expression
    return f"invariant[{k}]", i.expression


# --- sim.verify_symmetries -----------------------------------------------------------------------------
LINES = {  # the kind of a charge: the symmetry, what it is counted by, and what is watched
    "translation": ("Translation", ("axis", "axes"), "Momentum"),
    "rotation": ("Rotation", ("plane", "planes"), "Angular Momentum"),
    "phase": ("Phase", ("", ""), "Norm"),
    "energy": ("Time", ("", ""), "Energy"),
}


def holds(f: Found, numbers: Mapping[str, Sequence[float]], system: System) -> bool:
    """The condition of a charge, at the parameters of a run."""
    shape = {x.name: x.var.shape for x in system.parameters}

    def value(name: str) -> float:
        stem, _, rest = name.partition("[")
        where = 0
        for i, n in zip(rest.rstrip("]").split(",") if rest else (), shape[stem]):
            where = where * n + int(i)
        return numbers[stem][where]

    return all(value(a) == value(b) for a, b in f.condition)


def one_state(s: State, value: Any) -> list[float]:
    """The numbers of a state of one system."""
    array = number_array(s.name, value)
    if array.shape != s.var.shape:
        raise InputError(
            f"`{s.name}` has shape {array.shape}, and one state of it has {s.var.shape}",
            fix=f"Pass one state: {s.name} of shape {s.var.shape}.",
        )
    out: list[float] = np.ravel(array).tolist()
    return out


def verify_symmetries(system: System, state: Mapping[str, Any]) -> list[str]:
    """A line for each kind of symmetry; what the rate at the state contradicts is left out."""
    seen = system_of(system)
    known = [*(s.name for s in seen.states), *(x.name for x in seen.parameters)]
    for name in state:
        if name not in known and name != FROM_FRAME:
            raise InputError(
                f"`{seen.name}` has no state or parameter `{name}`",
                fix=f"{did_you_mean(name, known)}It has {', '.join(known)}.",
            )
    numbers = numbers_of(seen, state, "verify_symmetries")
    at = {s.name: one_state(s, state[s.name]) for s in seen.states if s.name in state}
    size = sum(s.var.size for s in seen.states)
    found = []
    for f in found_in(seen):
        if f.kind not in LINES or not holds(f, numbers, seen):
            continue
        if f.by_time is None and f.kind != "energy" and size <= FEW and len(at) == len(seen.states):
            rate = measured(f.expression, seen, numbers, [at])
            if rate.how == "measured" and rate.value > ROUNDING and not f.condition:
                continue
        found.append(f)
    lines = []
    for kind, (symmetry, counted, watched) in LINES.items():
        own = [f for f in found if f.kind == kind]
        if not own:
            continue
        places = [f.name.partition("[")[2].rstrip("]") for f in own]
        told = ""
        if counted[0]:
            each = [f"({x})" if kind == "rotation" else x for x in places]
            told = f" ({counted[len(own) > 1]} {', '.join(each)})"
        lines.append(f"[Compiler] Detected {symmetry} Symmetry{told}. Watching {watched} Conservation.")
    return lines or ["[Compiler] Detected no continuous symmetry."]
