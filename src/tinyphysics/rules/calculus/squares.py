"""Is an energy a sum of squares, each times a coefficient that no state enters?  That of free rigid bodies is."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.affine import Affine, NotAffine, affine
from tinyphysics.rules.calculus.hessian import unknowns
from tinyphysics.rules.calculus.laurent import Laurent, lift
from tinyphysics.rules.calculus.vjp import gradient


def squares(energy: UOp, momenta: Sequence[UOp], parameters: Sequence[UOp]) -> list[Laurent] | str:
    """Twice the coefficient of every number's square, as functions of parameters; or why it is no such sum."""
    if other := sorted(str(x.arg) for x in energy.leaves - {*momenta, *parameters}):
        return f"it depends on `{other[0]}`"
    env = unknowns(momenta) | {
        str(u.arg): [Affine(Laurent({(((str(u.arg), k), 1),): Fraction(1)})) for k in range(u.size)]
        for u in parameters
    }
    try:
        forms = [form for part in affine(gradient(energy, list(momenta)), env) for form in part]
    except NotAffine as error:
        return str(error)
    for k, form in enumerate(forms):
        if lift(form.constant):
            return "it has a part that is linear in an angular momentum"
        if any(j != k and lift(x) for j, x in form.terms.items()):
            return "it has products of two numbers of angular momenta"
    return [lift(form.terms.get(k, 0)) for k, form in enumerate(forms)]
