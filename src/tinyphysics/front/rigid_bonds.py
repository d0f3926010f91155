"""tp.rigid_bonds: stiff springs k g(q)²/2 as constraints g(q) = 0.

A potential is read as a sum of squares: factors without positions stand before one square g², or before a sum of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tinyphysics.constrained import BRACKET
from tinyphysics.errors import InputError
from tinyphysics.given import number, shown
from tinyphysics.ir import Ops, UOp
from tinyphysics.options import heeds
from tinyphysics.system import SizedFamily, System
from tinyphysics.util import one_of

OF_BATH = UOp.var("k_B T of the bath")
FORM = "Write its energy as a sum of squares: return (k*(r - length)**2/2).sum()."


def square_in(u: UOp, moving: frozenset[UOp], factor: UOp) -> tuple[UOp, UOp] | None:
    """(c, g) with u = sum(c g²); None where that is not how it is written."""
    if u.op is Ops.POW and u.src[1].op is Ops.CONST and u.src[1].arg == 2:
        return factor, u.src[0]
    if u.op is Ops.MUL and u.src[0] is u.src[1]:
        return factor, u.src[0]
    if u.op is Ops.REDUCE and u.arg[0] == "sum":
        return square_in(u.src[0], moving, factor)
    if u.op is Ops.DIV and not u.src[1].leaves & moving:
        return square_in(u.src[0], moving, factor / shared(u.src[1]))
    if u.op is Ops.MUL:
        for own, other in (u.src, u.src[::-1]):
            if not other.leaves & moving:
                return square_in(own, moving, factor * shared(other))
    return None


def shared(u: UOp) -> UOp:
    """One number for all, where an array is that."""
    return u.src[0] if u.op is Ops.EXPAND and not u.src[0].shape else u


def rigid(bonds: System, fixman: Any) -> System:
    """The constraints of a potential."""
    assert bonds.energy is not None
    moving = frozenset(s.var for s in bonds.states)
    found = square_in(bonds.energy, moving, UOp.const(2.0))
    if found is None or found[1].shape[: found[0].ndim] != found[0].shape and found[0].shape:
        raise InputError(
            f"rigid_bonds: `{bonds.name}` is not written as a sum of squares k g**2/2",
            site=bonds.site,
            fix=FORM,
        )
    stiffness, g = found
    if g.op is Ops.SUB and g.src[0].op is Ops.SQRT and not g.src[1].leaves & moving:
        # r - l is zero where r**2 - l**2 is, whose slope is 2 l times as steep there; it has no kink at r = 0
        squared, length = g.src[0].src[0], g.src[1]
        stiffness, g = stiffness / (4.0 * shared(length) * shared(length)), squared - length * length
    kT = () if fixman is None else (temperature_of(bonds, fixman),)
    return replace(
        bonds,
        kind="constraint",
        energy=None,
        tensor=(g,),
        bracket=BRACKET,
        stiffness=(stiffness.expand(g.shape),),
        fixman=kT,
    )


def temperature_of(bonds: System, fixman: Any) -> UOp:
    if fixman is True:
        return OF_BATH
    if isinstance(fixman, str):
        own = next((x.symbol for x in bonds.parameters if x.name == fixman and not x.var.shape), None)
        if own is None:
            known = one_of([x.name for x in bonds.parameters]) if bonds.parameters else "none"
            raise InputError(
                f"rigid_bonds: `{bonds.name}` has no scalar parameter {fixman!r}, which fixman= names",
                fix=f"Its parameters: {known}. Pass kT as a number, or the name of one of them.",
            )
        return own
    kT = number("fixman", fixman, "fixman=0.6", "thermal energy kT")
    if kT <= 0:
        raise InputError(
            f"rigid_bonds: fixman={shown(fixman)} is not a thermal energy", fix="Pass kT, above zero."
        )
    return UOp.const(kT)


@heeds("rigid_bonds", "tp.rigid_bonds(bonds, fixman=kT)")
def rigid_bonds(bonds: Any, *, fixman: Any = None) -> Any:
    """Makes stiff springs rigid: a potential k g(q)**2/2 becomes the constraint g(q) = 0, to be added to an energy.

    `bonds` is a potential made with @tp.potential, written as a sum of squares. `fixman` is the thermal energy kT, a number,
    the name of a parameter, or True for that of the bath (temperature= of compile): kT ln det(G M⁻¹ Gᵀ)/2 joins the
    potential, so that angles are distributed as with very stiff springs; without it they are not. out.losses has the
    frequencies and the heat capacity that are given up.
    """
    if isinstance(bonds, SizedFamily) and bonds.kind == "potential":
        family = bonds
        return replace(family, kind="constraint", build=lambda sizes: rigid(family.build(sizes), fixman))
    if not isinstance(bonds, System) or bonds.kind != "potential":
        raise InputError(
            f"rigid_bonds({shown(bonds)}): this is not a potential",
            fix=f"Make one with @tp.potential. {FORM}",
        )
    return rigid(bonds, fixman)
