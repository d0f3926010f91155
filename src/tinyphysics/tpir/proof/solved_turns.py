"""Is what was solved for a step of a bracket?  The spherical midpoint, or the step of Cayley, of one declared term.

Known here and derived nowhere: that both keep the bracket for every energy (rules/formulas/solved_turns.py says where it is
shown). That a listing has these equations is derived: residuals, and what is made of their root, number by number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, elements, substitute, toposort
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.formulas.solved_turns import cayley, middle, rows_by_cayley, turned_by_cayley
from tinyphysics.tpir.proof.solutions import is_over_size
from tinyphysics.tpir.proof.units import DT
from tinyphysics.turning import Turning

Body = tuple[Turning, UOp, UOp | None]
Numbers = list[UOp]
ONE = UOp.const(1.0)


def root_in(values: Mapping[UOp, UOp]) -> UOp | None:
    """The one solution that values are made of."""
    found = {u: None for u in toposort(list(values.values())) if u.op is Ops.SOLVE}
    return next(iter(found)) if len(found) == 1 else None


class Equations:
    """What is solved, and what becomes of its root, as numbers of the states and of the unknown."""

    def __init__(self, bodies: Sequence[Body], values: Mapping[UOp, UOp], root: UOp, normal: Normal) -> None:
        self.bodies, self.normal = bodies, normal
        unknown = UOp.var(str(root.arg[0]), root.shape, root.dtype)
        _, self.scale, residual, *_ = root.src
        self.x = elements(unknown)
        (self.residual,) = unroll([residual])
        self.values = {u: unroll(substitute([v], {root: unknown}))[0] for u, v in values.items()}
        self.momenta = [L for _, L, _ in bodies]
        self.z = [e for L in self.momenta for e in elements(L)]

    def same(self, a: Sequence[UOp], b: Sequence[UOp]) -> bool:
        return len(a) == len(b) and all(map(self.normal.same, a, b))

    def at(self, functions: Sequence[UOp], z: Sequence[UOp]) -> Numbers:
        flat = [u for group in unroll(list(functions)) for u in group]
        return substitute(flat, dict(zip(self.z, z)))

    def ratio(self, a: Sequence[UOp], b: Sequence[UOp]) -> Fraction | None:
        """The number that one is of the other, in all places."""
        found = set()
        for u, v in zip(a, b):
            if self.normal.is_zero(v):
                if not self.normal.is_zero(u):
                    return None
                continue
            found.add(self.normal.ratio(u, v))
        return found.pop() if len(found) == 1 else None

    def rest(self) -> Numbers:
        """Of the residuals, what is not the way from the state to the unknown."""
        return [r - (x - z) for r, x, z in zip(self.residual, self.x, self.z)]

    def weight(self, slopes: Mapping[UOp, UOp], rates: Callable[..., Mapping[UOp, UOp]]) -> Fraction | None:
        """By how much of dt a term moves the bodies, whose slopes these are; None if these are no such equations."""
        if len(self.x) != len(self.z) or not is_over_size(self.scale):
            return None
        own = {L: slopes[L] for L in self.momenta}
        return self.on_the_sphere(own, rates) or self.by_cayley(own)

    def on_the_sphere(
        self, own: Mapping[UOp, UOp], rates: Callable[..., Mapping[UOp, UOp]]
    ) -> Fraction | None:
        ends = [e for L in self.momenta for e in self.values[L]]
        if any(x is not None for _, _, x in self.bodies) or not self.same(ends, self.x):
            return None
        moved = rates(own)
        f = self.at([moved[L] for L in self.momenta], middle(self.z, self.x))
        found = self.ratio(self.rest(), [DT * v for v in f])
        return None if found is None else -found

    def by_cayley(self, own: Mapping[UOp, UOp]) -> Fraction | None:
        if any(kind.sign < 0 for kind, _, _ in self.bodies):
            return None
        w = self.at([own[L] for L in self.momenta], self.x)
        back = substitute(self.rest(), {DT: -DT})
        odd = [a - b for a, b in zip(self.rest(), back)]
        plain = [a - x for a, x in zip(cayley(self.x, w, ONE), self.x)]
        back = [a - x for a, x in zip(cayley(self.x, w, -ONE), self.x)]
        weight = self.ratio(odd, [DT * (a - b) for a, b in zip(plain, back)])
        if weight is None:
            return None
        h = DT * UOp.const(float(weight))
        if not self.same(self.residual, [a - z for a, z in zip(cayley(self.x, w, h), self.z)]):
            return None
        ends = [e for L in self.momenta for e in self.values[L]]
        if not self.same(ends, cayley(self.x, w, -h)):
            return None
        return weight if all(self.carried(w, h)) else None

    def carried(self, w: Numbers, h: UOp) -> list[bool]:
        """Does what each body carries turn with it?"""
        out, at = [], 0
        for kind, L, x in self.bodies:
            own = w[at : at + L.size]
            at += L.size
            if x is not None:
                R = elements(x)
                new = turned_by_cayley(R, own, h) if kind.half else rows_by_cayley(R, own, h, L.size // 3)
                out.append(self.same(self.values[x], new))
        return out
