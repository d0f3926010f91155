"""Is an energy the same at every site of a periodic lattice?  Then one row of its Hessian says all.

Shown by a walk over the gradient: sites are only shifted (ROLL), combined element by element, and weighed by numbers
that are the same everywhere. What is not of that form is a no.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tinyphysics.facts import Fact
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.rules.calculus.affine import Affine, NotAffine, affine
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.system import System

Shift = tuple[int, ...]
ELEMENT_BY_ELEMENT = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.DIV, Ops.FMA, Ops.POW)


@dataclass(frozen=True)
class Stencils:
    """The energy's derivative by the field and by its momentum, at a site: {shift: weight} of each, and a number."""

    shape: Shift
    stiffness: dict[Shift, Fraction]  # of the field, in the derivative by the field
    inverse_mass: dict[Shift, Fraction]  # of the momentum, in the derivative by the momentum
    force: Fraction  # minus the constant force on a site
    drift: Fraction


def uniform(system: System) -> Fact:
    """A yes carries the derivatives."""
    assert system.energy is not None
    if len(system.q) != 1 or system.q[0].size < 2:
        return Fact.no(
            "uniform", "there is more than one field" if len(system.q) > 1 else "there is no lattice"
        )
    states = [*system.q, *system.p]
    shape = system.q[0].shape
    slopes = gradient(system.energy, states)
    for u in toposort(slopes):
        if any(u is s for s in states) or u.size == 1 and not u.leaves & frozenset(states):
            continue
        flat = u.op is Ops.CONST or u.op is Ops.EXPAND and u.src[0].size == 1
        if u.shape != shape or not (flat or u.op is Ops.ROLL or u.op in ELEMENT_BY_ELEMENT):
            return Fact.no(
                "uniform", f"{u.op.value} of shape {u.shape} treats sites differently", system.sites.get(u)
            )
    return Fact.yes("uniform", f"every site of {' x '.join(map(str, shape))} is treated alike", slopes=slopes)


def stencils(fact: Fact, system: System, parameters: Mapping[str, Sequence[float]]) -> Stencils:
    """The weights at given parameters, exactly; a NotAffine if they are not known, or mix the field and its momentum."""
    (q,), (p,) = system.q, system.p
    at_site = {u: one_site(u, q, p, parameters) for u in fact.slopes}
    parts: list[dict[Shift, Fraction]] = []
    for u, wanted in zip(fact.slopes, (0, 1)):
        weights, _ = at_site[u]
        if any(which != wanted for which, _ in weights):
            raise NotAffine("the energy mixes the field and its momentum")
        parts.append({shift: Fraction(c) for (_, shift), c in weights.items()})
    force, drift = (Fraction(at_site[u][1]) for u in fact.slopes)
    return Stencils(q.shape, parts[0], parts[1], force, drift)


def one_site(
    root: UOp, q: UOp, p: UOp, parameters: Mapping[str, Sequence[float]]
) -> tuple[dict[tuple[int, Shift], Any], Any]:
    """({(0 for q or 1 for p, shift): weight}, number) of an expression, at the site with shift 0."""
    shape = q.shape
    values: dict[UOp, Any] = {}
    keys: list[tuple[int, Shift]] = []
    index: dict[tuple[int, Shift], int] = {}

    def variable(which: int, shift: Shift) -> Affine:
        key = which, tuple((s + n // 2) % n - n // 2 for s, n in zip(shift, shape))
        if key not in index:
            index[key] = len(keys)
            keys.append(key)
        return Affine(0, {index[key]: 1})

    for u in toposort([root]):
        if u is q or u is p:
            values[u] = variable(int(u is p), (0,) * len(shape))
        elif u.size == 1:
            ((values[u],),) = affine([u], parameters)
        elif u.op is Ops.CONST:
            ((values[u],),) = affine([UOp.const(u.arg)], parameters)
        elif u.op is Ops.EXPAND:
            values[u] = values[u.src[0]]
        elif u.op is Ops.ROLL:
            old: Affine = values[u.src[0]]
            new = Affine(old.constant)
            for k, c in old.terms.items():
                which, at = keys[k]
                moved = list(at)
                for s, axis in u.arg:
                    moved[axis] -= s  # what is rolled by s comes from s sites before
                new = new + variable(which, tuple(moved)) * Affine(c)
            values[u] = new
        else:
            names = [UOp.var(f"x{i}") for i in range(len(u.src))]
            one = UOp(u.op, u.dtype, (), tuple(names), u.arg)
            ((values[u],),) = affine([one], {str(v.arg): [values[s]] for v, s in zip(names, u.src)})
    form: Affine = values[root]
    return {keys[k]: c for k, c in form.terms.items()}, form.constant
