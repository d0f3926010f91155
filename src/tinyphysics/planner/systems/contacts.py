"""How does a system get contacts?  Their functions are traced in its states; the impulses of the last step become states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tinyphysics.errors import InputError, PlanError, ShapeError
from tinyphysics.front.contacts import Contact
from tinyphysics.ir import Ops, UOp
from tinyphysics.ir.dtype import bool_
from tinyphysics.rules.formulas.smoothness import JUMP, roughest
from tinyphysics.system import Meeting, Parameter, State, System, Touch
from tinyphysics.touching import BRACKET, IMPULSE, RUB, velocity_of
from tinyphysics.util import did_you_mean, one_of

VELOCITY = "v"  # what functions of slips call it
MOST = 64  # gaps and slips: each is written out in every iteration


def with_contacts(system: System, met: Sequence[Meeting]) -> System:
    """A system with contacts."""
    if system.kind != "hamiltonian" or system.bracket or not system.q or system.time is not None:
        why = (
            "depends on t" if system.time is not None
            else "has constraints, a bracket or bodies that turn" if system.kind == "hamiltonian"
            else f"is given by its {system.kind}"
        )  # fmt: skip
        raise PlanError(
            f"`{met[0].name}` is a contact, and `{system.name}` {why}: contacts are not available for it yet",
            site=system.site,
            fix="Contacts go with energies p**2/2m + V(q) of positions and momenta.",
        )
    names = [x.name for x in met]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise PlanError(
            f'two contacts of the sum are named `{twice}`: out.contacts("{twice}") would mean both',
            fix='Give one of them another name: name="floor".',
        )
    whole = replace(system, name=" + ".join((system.name, *names)), bracket=BRACKET)
    for one in met:
        assert isinstance(one, Contact)
        whole = touched(whole, system, one)
    rows = sum(g.size for g in whole.gaps) + sum(s.size for s in whole.slips)
    if rows > MOST:
        raise PlanError(
            f"`{whole.name}` has {rows} gaps and slips, and {MOST} at most are written out in every iteration",
            fix="Watch fewer pairs of bodies, or use a short and stiff potential for many of them.",
        )
    return whole


def touched(whole: System, plain: System, one: Contact) -> System:
    known = {s.name: s.var for s in plain.states if s.role == "position"}
    known |= {p.name: p.symbol for p in plain.parameters}
    gap = one.gap(known)
    if gap.dtype is bool_ or not any(q in gap.leaves for q in plain.q):
        raise InputError(
            f"the gap of the contact `{one.name}` is `{gap}`, in which no position occurs as a distance",
            fix="Return a distance that is positive where the bodies are apart: lambda q: q[1].",
        )
    worst = roughest([gap], frozenset(plain.q))
    if worst is not None and worst.order == JUMP:
        raise InputError(
            f"the gap of the contact `{one.name}` jumps, at `{worst.node}`: no slope says which way to push",
            fix="Return a continuous distance: lambda q: q[1].",
        )
    slips: tuple[UOp, ...] = ()
    rubs: tuple[UOp, ...] = ()
    ways = 0
    if one.slip is not None:
        slip = slip_of(plain, one, known, gap)
        ways = slip.size // max(gap.size, 1)
        slips, rubs = (slip,), (coefficient(plain, one),)
    states = [State(one.name + IMPULSE, UOp.var(one.name + IMPULSE, gap.shape), "field", start=0.0)]
    if slips:
        states.append(State(one.name + RUB, UOp.var(one.name + RUB, slips[0].shape), "field", start=0.0))
    taken = {s.name for s in whole.states} | {p.name for p in whole.parameters}
    if clash := next((s.name for s in states if s.name in taken), None):
        raise PlanError(
            f"the contact `{one.name}` keeps its impulses as `{clash}`, a name that the system has",
            fix='Give the contact another name: name="floor".',
        )
    return replace(
        whole,
        states=(*whole.states, *states),
        gaps=(*whole.gaps, gap),
        slips=(*whole.slips, *slips),
        rubs=(*whole.rubs, *rubs),
        contacts=(*whole.contacts, Touch(one.name, gap.shape, ways, one.iterations)),
    )


def slip_of(system: System, one: Contact, known: dict[str, UOp], gap: UOp) -> UOp:
    """The velocity along the surface, with a variable for the velocity."""
    taken = {s.name for s in system.states} | {p.name for p in system.parameters}
    if VELOCITY in taken or len(system.q) > 1:
        why = f"has something named `{VELOCITY}`" if VELOCITY in taken else "has several positions"
        raise PlanError(
            f"slip= of the contact `{one.name}` is a function of the velocity `{VELOCITY}`, and `{system.name}` {why}",
            fix="Rename it: system.rename(v=...)." if VELOCITY in taken else "Write one array of positions.",
        )
    v = velocity_of(system.q[0])
    slip = one.slipping({**known, VELOCITY: v})
    assert slip is not None
    if v not in slip.leaves:
        raise InputError(
            f"slip= of the contact `{one.name}` is `{slip}`, in which no velocity occurs",
            fix="Return the velocity along the surface, of v: lambda v: v[0].",
        )
    fits = slip.shape == gap.shape or slip.shape[: gap.ndim] == gap.shape and slip.ndim == gap.ndim + 1
    if not fits:
        raise ShapeError(
            f"slip= of the contact `{one.name}` has shape {slip.shape}, and its gap has {gap.shape}",
            fix="Return one number for each gap, or one vector for each.",
        )
    return slip


def coefficient(system: System, one: Contact) -> UOp:
    if not isinstance(one.friction, str):
        return UOp.const(one.friction)
    found: dict[str, Parameter] = {p.name: p for p in system.parameters}
    if (
        one.friction not in found
        or found[one.friction].var.shape
        or found[one.friction].var.op is not Ops.VAR
    ):
        raise InputError(
            f'friction="{one.friction}" of the contact `{one.name}`: `{system.name}` has no such number as a parameter',
            fix=f"{did_you_mean(one.friction, found)}It has {one_of(list(found), 'and') if found else 'none'}.",
        )
    return found[one.friction].var
