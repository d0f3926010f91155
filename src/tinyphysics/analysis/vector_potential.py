"""Is H = |p - A(q)|**2/2m + V(q)?  Then p - A is the kinetic momentum of a charge, and curl A is the field that turns it."""

from __future__ import annotations

from tinyphysics.facts import Fact
from tinyphysics.ir import UOp, elements, substitute
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.identities.real import simplify
from tinyphysics.system import System

NAME = "vector potential"
MOST = 24  # numbers of positions: it is looked for number by number


def vector_potential(system: System) -> Fact:
    """A yes carries A, the field curl A, V, and 1/m for each row."""
    if system.energy is None or len(system.pairs) != 1:
        return Fact.no(NAME, "one pair of positions and momenta is looked at")
    q, p = system.pairs[0]
    axes = q.shape[-1] if q.shape else 0
    if axes not in (2, 3) or q.size > MOST:
        return Fact.no(
            NAME, f"`{q.arg}` has shape {q.shape}: its last axis is space, and {MOST} numbers are looked at"
        )
    if system.time is not None and system.time in system.energy.leaves:
        return Fact.no(NAME, "H depends on t")
    own, places, normal = elements(p), elements(q), Normal()
    ((H,),) = unroll([system.energy])
    at_rest = {x: UOp.const(0.0) for x in own}
    v = simplify(gradient(H, own))
    w = simplify([gradient(slope, [x])[0] for slope, x in zip(v, own)])
    rows = [w[k : k + axes] for k in range(0, len(w), axes)]
    if any(p in u.leaves or q in u.leaves for u in w):
        return Fact.no(NAME, "dH/dp is not shown to be (p - A(q))/m")
    if any(not normal.same(x, row[0]) for row in rows for x in row):
        return Fact.no(NAME, "the masses along the axes are not shown to be one")
    A = simplify([-slope / m for slope, m in zip(substitute(v, at_rest), w)])
    kinetic = UOp.sum_of(0.5 * (m * (x - a) * (x - a)) for m, x, a in zip(w, own, A))
    (V,) = simplify(substitute([H - kinetic], at_rest))
    if not normal.same(H, kinetic + V):
        return Fact.no(NAME, "H is not shown to be |p - A(q)|**2/2m + V(q)")
    fields: list[UOp] = []
    for k in range(0, len(A), axes):
        slopes = [gradient(a, places[k : k + axes]) for a in A[k : k + axes]]  # slopes[i][j] is dA_i/dq_j
        turned = ((1, 2), (2, 0), (0, 1)) if axes == 3 else ((0, 1),)
        fields += [slopes[j][i] - slopes[i][j] for i, j in turned]
    fields = simplify(fields)
    one = len(fields) == 1
    field = fields[0] if one else UOp.stack(fields, q.shape if axes == 3 else q.shape[:-1])
    mass = w[0] if len(rows) == 1 else UOp.stack([row[0] for row in rows], q.shape[:-1])
    because = "p - A is the kinetic momentum"
    return Fact.yes(NAME, because, A=UOp.stack(A, p.shape), field=field, V=V, inverse_mass=mass)
