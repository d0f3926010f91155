"""How do several systems become one?  States by name, kinetic energy once, potentials in the order of the sum.

Kicks of potentials commute, so that a sum is stepped as if its energy had been written by one hand, with the same bits.
What two parts say about the same momentum must be the same function: added, it would count twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tinyphysics.analysis.separable import separable, signed_sum, terms
from tinyphysics.constrained import BRACKET as CONSTRAINED
from tinyphysics.errors import PlanError, ShapeError
from tinyphysics.ir import Ops, UOp, substitute
from tinyphysics.planner.systems.contacts import with_contacts
from tinyphysics.planner.systems.crossings import with_crossings
from tinyphysics.rules.calculus.linear import determinant
from tinyphysics.rules.equality.normal import same
from tinyphysics.rules.formulas.constraints import WRITTEN, Constraints, dot
from tinyphysics.system import Meeting, Motion, Parameter, SizedFamily, State, Sum, System, roots_in
from tinyphysics.util import Site, one_of

WITH_ENERGY = ("hamiltonian", "potential")
WITHOUT_MOTION = ("potential", "constraint")
RULES = (
    "energy",
    "levels",
    "motion",
    "tensor",
)  # roots of a system that are put together by rules of their own


def linked(whole: Sum) -> System | SizedFamily:
    """The one system of a sum, or a family of them while sizes are open."""
    if whole.meetings:
        plain = linked(replace(whole, meetings=())) if len(whole.parts) > 1 else whole.parts[0]
        return met(plain, whole.meetings)
    check_kinds(whole.parts)
    known = sizes_in_common(whole.parts)

    def build(sizes: Mapping[str, int]) -> System:
        given = {n: size if isinstance(size, int) else sizes[size] for n, size in known.items()}
        return link([bound(part, given) for part in whole.parts], whole.ranks, whole.apart)

    letters = tuple(dict.fromkeys(n for n in known.values() if isinstance(n, str)))
    if not letters:
        return build({})
    shapes = {
        name: tuple(known.get(n, n) if isinstance(n, str) else n for n in shape)
        for part in reversed(whole.parts)
        for name, shape in shapes_of(part).items()
    }
    complexes = tuple(dict.fromkeys(c for part in whole.parts for c in part.complexes))
    return SizedFamily(whole.name, "hamiltonian", letters, build, shapes, complexes)


def met(plain: System | SizedFamily, meetings: Sequence[Meeting]) -> System | SizedFamily:
    """A system, or a family of them, with walls and events, or with contacts."""
    add = with_meetings(meetings)
    if isinstance(plain, System):
        return add(plain)
    name = " + ".join([plain.name, *(x.name for x in meetings)])
    return replace(plain, name=name, build=lambda sizes: add(plain.bind(sizes)))


def with_meetings(meetings: Sequence[Meeting]) -> Callable[[System], System]:
    touching = [x for x in meetings if x.kind == "contact"]
    if touching and len(touching) < len(meetings):
        other = next(x for x in meetings if x.kind != "contact")
        raise PlanError(
            f"`{touching[0].name}` is a contact and `{other.name}` {'a wall' if other.kind == 'wall' else 'an event'}: "
            "they cannot be combined yet",
            fix="Write the wall as a contact too: tp.contact(lambda q: q[1]).",
        )
    return lambda system: (with_contacts if touching else with_crossings)(system, meetings)


def bound(part: System | SizedFamily, sizes: Mapping[str, int]) -> System:
    return part.bind({n: sizes[n] for n in part.letters}) if isinstance(part, SizedFamily) else part


def shapes_of(part: System | SizedFamily) -> Mapping[str, tuple[int | str, ...]]:
    if isinstance(part, SizedFamily):
        return part.shapes
    return {s.name: s.var.shape for s in part.states} | {x.name: x.var.shape for x in part.parameters}


def sizes_in_common(parts: Sequence[System | SizedFamily]) -> dict[str, int | str]:
    """What each letter stands for: the size of an array that parts share, or the first of the letters for one size."""
    out: dict[str, int | str] = {}
    first: dict[str, tuple[int | str, ...]] = {}
    for part in parts:
        for name, shape in shapes_of(part).items():
            other = first.setdefault(name, shape)
            if len(shape) != len(other):
                raise ShapeError(
                    f"`{name}` has {len(shape)} axes in `{part.name}` and {len(other)} elsewhere in the sum",
                    fix=another_name(part, name),
                )
            for mine, theirs in zip(shape, other):
                size = out.get(theirs, theirs) if isinstance(theirs, str) else theirs
                if isinstance(mine, str):
                    out[mine] = size if mine not in out or isinstance(size, int) else out[mine]
                elif isinstance(theirs, str):
                    out[theirs] = mine
    return {n: out.get(size, size) if isinstance(size, str) else size for n, size in out.items()}


def check_kinds(parts: Sequence[System | SizedFamily]) -> None:
    for part in parts:
        if part.kind not in (*WITH_ENERGY, "constraint"):
            raise PlanError(
                f"`{part.name}` is given by its {part.kind}, and only energies can be added in a sum of systems",
                site=site_of(part),
                fix="Write its energy: @tp.hamiltonian or @tp.potential.",
            )
    if all(part.kind in WITHOUT_MOTION for part in parts):
        raise PlanError(
            f"without a kinetic energy nothing moves in `{' + '.join(x.name for x in parts)}`: a "
            f"{parts[0].kind} has no kinetic energy",
            site=site_of(parts[0]),
            fix="Add a system that moves: def free(q, p): return p @ p / 2.",
        )


def another_name(part: System | SizedFamily, name: str) -> str:
    return f'If they are two things, give one another name: {part.name}.rename({name}="{name}_2").'


def as_position(part: System, name: str) -> str:
    """How a potential says that an argument after the first is a position, too."""
    if part.kind != "potential":
        return ""
    own = ", ".join(f'"{s.name}"' for s in part.states)
    return f'If it is that position: @tp.potential(positions=[{own}, "{name}"]). '


def site_of(part: System | SizedFamily) -> Site | None:
    return part.site if isinstance(part, System) else None


def link(every: Sequence[System], ranks: Sequence[int | None], apart: bool = False) -> System:
    parts = [part for part in every if part.kind in WITH_ENERGY]
    ranks = [rank for part, rank in zip(every, ranks) if part.kind in WITH_ENERGY]
    moving = [part for part in parts if part.kind == "hamiltonian"]
    states = states_of(moving)
    for part in every:
        if part.kind in WITHOUT_MOTION:
            check_moved(part, states)
    parameters = parameters_of(every, states)
    added, counted, summed = kinetic_once(parts, apart)
    energy = added[0]
    for own in added[1:]:
        energy = energy + own
    times = [part.time for part in parts if part.time is not None]
    axes = {name: shape for part in reversed(every) for name, shape in part.axes.items()}
    whole = System(
        " + ".join(part.name for part in every),
        "hamiltonian",
        tuple(states.values()),
        tuple(parameters.values()),
        time=times[0] if times else None,
        energy=energy,
        sites={u: site for part in reversed(every) for u, site in part.sites.items()},
        site=every[0].site,
        axes=axes,
        complexes=tuple(dict.fromkeys(c for part in every for c in part.complexes)),
        linked=in_common(every, counted, summed),
        levels=levels_of(parts, ranks),
        motion=motion_of(parts),
        parts=tuple((part.name, signed_sum(V)) for part in parts if (V := potential_of(part))),
        **bracket_of(moving),
        **{name: roots_in(System)[name].put(us) for name, us in others(parts).items()},
    )
    return constrained(whole, [part for part in every if part.kind == "constraint"])


def constrained(system: System, rods: Sequence[System]) -> System:
    """A system of pairs whose positions are held by the constraints of other parts."""
    if not rods:
        return system
    if system.bracket or not system.q or len(system.q) + len(system.p) < len(system.states):
        raise PlanError(
            f"`{rods[0].name}` holds positions of `{system.name}`, which are not those of plain pairs of q and p",
            site=rods[0].site,
            fix="Constraints go with energies H(q, p) without bracket= and without bodies that turn.",
        )
    names = [part.name for part in rods]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise PlanError(
            f'two constraints of the sum are named `{twice}`: out.multipliers("{twice}") would mean both',
            site=rods[0].site,
            fix="Give one of the functions another name.",
        )
    held = tuple(g for part in rods for g in part.tensor)
    whole = replace(system, bracket=CONSTRAINED, tensor=held, held=tuple(names))
    if not any(part.stiffness for part in rods):
        return whole
    soft = [part.stiffness or (UOp.const(0.0, g.dtype, g.shape),) for part in rods for g in part.tensor[:1]]
    return with_fixman(replace(whole, stiffness=tuple(k for own in soft for k in own)), rods)


def with_fixman(system: System, rods: Sequence[System]) -> System:
    """With kT ln det(G M⁻¹ Gᵀ)/2 of all constraints in the potential, where bonds ask for it (Fixman 1974, PNAS 71, 3050)."""
    given = [part.fixman[0] for part in rods if part.fixman]
    if not given:
        return system
    if any(not same(kT, given[0]) for kT in given[1:]):
        raise PlanError(
            "the bonds of the sum have different fixman=: one system has one temperature",
            site=rods[0].site,
            fix="Pass the same kT to each rigid_bonds.",
        )
    split = separable(system)
    if not split:
        raise PlanError(
            f"fixman= needs an energy T(p) + V(q): {split.because}", site=split.site, fix="Leave fixman= out."
        )
    c = Constraints(system.q, system.p, system.tensor, split.T)
    matrix = [[dot(row, moved) for moved in c.AG] for row in c.G] if c.count <= WRITTEN else []
    found = determinant(matrix) if matrix else None
    if found is None:
        raise PlanError(
            f"fixman= of {c.count} constraints: their determinant is too long to be written out",
            site=rods[0].site,
            fix="Leave fixman= out; then angles are not distributed as with springs.",
        )
    assert system.energy is not None
    term = 0.5 * (given[0] * UOp(Ops.LOG, found.dtype, (), (found,)))
    return replace(
        system, energy=system.energy + term, parts=(*system.parts, ("Fixman", term)), fixman=(given[0],)
    )


def bracket_of(parts: Sequence[System]) -> dict[str, Any]:
    """The bracket that all parts have; potentials have none of their own."""
    first = parts[0]
    for part in parts[1:]:
        alike = part.bracket == first.bracket and len(part.tensor) == len(first.tensor)
        roles = {s.name: s.role for s in first.states}
        alike = alike and all(roles.get(s.name, s.role) == s.role for s in part.states)
        if not alike or not all(map(same, part.tensor, first.tensor)):
            raise PlanError(
                f"`{part.name}` and `{first.name}` move their states by different brackets",
                site=part.site,
                fix="Give both the same bracket=, or write one of them as a @tp.potential.",
            )
    return {"bracket": first.bracket, "tensor": first.tensor}


def others(parts: Sequence[System]) -> dict[str, list[UOp]]:
    """What parts hold that there is no rule for here: one part's after the other's."""
    out: dict[str, list[UOp]] = {}
    for part in parts:
        for name, us in part.roots.items():
            if name not in RULES:
                out.setdefault(name, []).extend(us)
    return out


def motion_of(parts: Sequence[System]) -> Motion | None:
    """Of one Lagrangian and potentials: a potential changes no momentum."""
    (first, *others) = sorted(parts, key=lambda part: part.kind == "potential")
    if first.motion is None or any(part.kind != "potential" for part in others):
        return None
    L = first.motion.lagrangian
    for part in others:
        assert part.energy is not None
        L = L - part.energy
    return replace(first.motion, lagrangian=L)


# --- states -----------------------------------------------------------------------------------------
def states_of(parts: Sequence[System]) -> dict[str, State]:
    """The states of all, in pairs; those of one name are one."""
    out: dict[str, State] = {}
    partner: dict[str, str] = {}
    for part in parts:
        for s in part.states:
            if s.role not in ("position", "momentum"):  # it is in no pair
                agree(s, out.setdefault(s.name, s), part)
        paired = [s for s in part.states if s.role in ("position", "momentum")]
        for q, p in zip(paired[::2], paired[1::2]):
            for s, other in ((q, p), (p, q)):
                if s.name not in out:
                    out[s.name], partner[s.name] = s, other.name
                    continue
                agree(s, out[s.name], part)
                if out[s.name].role != s.role or partner[s.name] != other.name:
                    raise PlanError(
                        f"`{s.name}` is the {s.role} that goes with `{other.name}` in `{part.name}`, and the "
                        f"{out[s.name].role} that goes with `{partner[s.name]}` elsewhere in the sum",
                        site=part.site,
                        fix=another_name(part, s.name),
                    )
    return out


def check_moved(part: System, states: dict[str, State]) -> None:
    positions = [s.name for s in states.values() if not s.role.endswith("momentum")]  # and attitudes
    for s in part.states:
        if s.name not in positions:
            raise PlanError(
                f"`{part.name}` is a {part.kind} of `{s.name}`, and no part of the sum has a kinetic energy for it",
                site=part.site,
                fix=f"Positions here: {one_of(positions)}. If it is one of them: "
                f'{part.name}.rename({s.name}="{positions[0]}").',
            )
        agree(s, states[s.name], part)


def agree(mine: State | Parameter, other: State | Parameter, part: System) -> None:
    if mine.var.shape != other.var.shape:
        raise ShapeError(
            f"`{mine.name}` has shape {mine.var.shape} in `{part.name}` and {other.var.shape} elsewhere "
            "in the sum",
            site=part.site,
            fix=another_name(part, mine.name),
        )
    if mine.unit != other.unit and mine.unit is not None and other.unit is not None:
        raise PlanError(
            f"`{mine.name}` is in {mine.unit} in `{part.name}` and in {other.unit} elsewhere in the sum",
            site=part.site,
            fix="Write both in one unit.",
        )


# --- parameters -------------------------------------------------------------------------------------
def parameters_of(parts: Sequence[System], states: dict[str, State]) -> dict[str, Parameter]:
    """The parameters of all; those of one name are one, and have one default."""
    out: dict[str, Parameter] = {}
    for part in parts:
        for x in part.parameters:
            if x.name in states:
                raise PlanError(
                    f"`{x.name}` is a parameter of `{part.name}` and a state elsewhere in the sum",
                    site=part.site,
                    fix=as_position(part, x.name) + another_name(part, x.name),
                )
            known = out.setdefault(x.name, x)
            agree(x, known, part)
            if None in (x.default, known.default):  # one of them wants it to be given
                out[x.name] = replace(known, default=None)
            elif x.default != known.default:
                raise PlanError(
                    f"`{x.name}` has the default {x.default} in `{part.name}` and {known.default} elsewhere "
                    "in the sum",
                    site=part.site,
                    fix=f"{another_name(part, x.name)} If they are the same parameter, give it the same default in both.",
                )
    return out


# --- kinetic energy ---------------------------------------------------------------------------------
def kinetic_once(parts: Sequence[System], apart: bool = False) -> tuple[list[UOp], list[str], list[str]]:
    """What the parts add, one after the other, the momenta that several say the same of, and those whose energies add.

    `apart`, what they say about a momentum may differ, and then adds up.
    """
    owners: dict[UOp, list[System]] = {}
    counted: dict[str, None] = {}
    added: list[UOp] = []
    for part in parts:
        assert part.energy is not None
        here = list(terms(part.energy, mixes(part)))
        again = [p for p in part.p if p in owners and once(p, owners[p], part, apart)]
        counted |= {str(p.arg): None for p in again}
        kept = [t for t in here if not any(p in t[0].leaves for p in again)]
        if not again:
            added.append(part.energy)
        elif kept:
            added.append(signed_sum(kept))
        for p in part.p:
            owners[p] = [*owners.get(p, []), *([] if p in again else [part])]
    return added, list(counted), [str(p.arg) for p, who in owners.items() if len(who) > 1]


def about(p: UOp, part: System) -> list[tuple[UOp, bool]]:
    """The terms of a part that speak of a momentum."""
    assert part.energy is not None
    return [t for t in terms(part.energy, mixes(part)) if p in t[0].leaves]


def once(p: UOp, owners: Sequence[System], part: System, apart: bool) -> bool:
    """Has another part said the same about a momentum?  A PlanError where it has said something else, and that may not be."""
    mine = about(p, part)
    for first in owners:
        theirs = about(p, first)
        if same(signed_sum(mine), signed_sum(theirs)):
            check_kinetic(signed_sum(mine), part)
            return True
        if not apart:
            raise PlanError(
                f"`{first.name}` and `{part.name}` move `{p.arg}` in different ways: {signed_sum(theirs)} and "
                f"{signed_sum(mine)} are not shown to be the same kinetic energy",
                site=part.site,
                fix=f"Write one of them as a @tp.potential. {another_name(part, str(p.arg))} If both are meant to add up: "
                f"tp.split({first.name}, {part.name}).",
            )
        both = next((x for x in mine for y in theirs if same(signed_sum([x]), signed_sum([y]))), None)
        if both is not None:
            raise PlanError(
                f"{signed_sum([both])} is in `{first.name}` and in `{part.name}`, which differ in other terms "
                f"with `{p.arg}`: it is ambiguous whether it counts once or twice",
                site=part.site,
                fix=f"Leave it out of `{part.name}`.",
            )
    return False


def check_kinetic(T: UOp, part: System) -> None:
    """A PlanError unless nothing is left of T without momenta: what several parts have once must hold no potential."""
    rest = substitute([T], {p: UOp.const(0.0, p.dtype, p.shape) for p in part.p})[0]
    if not same(rest, UOp.const(0.0)):
        raise PlanError(
            f"`{part.name}` shares a momentum with other parts of the sum, and {T} is not shown to vanish "
            "without that momentum: counted once, potential energy would be lost",
            site=part.site,
            fix="Write kinetic and potential energy as two terms: p @ p / 2 + V(q).",
        )


def mixes(system: System) -> Callable[[UOp], bool]:
    """Does an expression read positions and momenta?  Or several momenta, of which a sum may share some."""
    q, p = frozenset(system.q), frozenset(system.p)
    return lambda u: bool(u.leaves & p and u.leaves & q) or len(u.leaves & p) > 1


def potential_of(part: System) -> list[tuple[UOp, bool]]:
    """The terms without momenta, and whether each is subtracted."""
    assert part.energy is not None
    return [t for t in terms(part.energy, mixes(part)) if not t[0].leaves & frozenset(part.p)]


def levels_of(parts: Sequence[System], ranks: Sequence[int | None]) -> tuple[UOp, ...]:
    """The potentials by rank, the fastest first; none where all have one pace."""
    by_rank: dict[int, list[tuple[UOp, bool]]] = {}
    for part, rank in zip(parts, ranks):
        own = potential_of(part)
        if own and rank is None and any(r is not None for r in ranks):
            raise PlanError(
                f"`{part.name}` is marked neither fast nor slow, but other parts of the sum are",
                site=part.site,
                fix=f"Write tp.fast({part.name}) or tp.slow({part.name}).",
            )
        if own and rank is not None:
            by_rank.setdefault(rank, []).extend(own)
    return tuple(signed_sum(by_rank[r]) for r in sorted(by_rank)) if len(by_rank) > 1 else ()


def in_common(parts: Sequence[System], counted: Sequence[str], summed: Sequence[str]) -> str:
    """What explain() says of a sum."""

    def shared(names: Sequence[Sequence[str]]) -> list[str]:
        every = [n for group in names for n in group]
        return [n for n in dict.fromkeys(every) if every.count(n) > 1]

    said = [f"{' + '.join(part.name for part in parts)}"]
    if both := shared([[s.name for s in part.states] for part in parts]):
        said.append(f"{one_of(both, 'and')} shared")
    if counted:
        said.append(f"the kinetic energy of {one_of(counted, 'and')} counted once")
    if summed:
        said.append(f"what moves {one_of(summed, 'and')} added up")
    if both := shared([[x.name for x in part.parameters] for part in parts]):
        said.append(f"one value for the parameter{'s' if len(both) > 1 else ''} {one_of(both, 'and')}")
    return "; ".join(said)
