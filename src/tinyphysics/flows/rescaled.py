"""In which units is a step shortest?  With P = dt*c*p, where dT/dp = c*p, a drift is q + P and no more.

The square of dt that a kick then needs goes into the constants of the force, which are computed once. Where
the force is a polynomial, positions in units of dt or of dt*dt*c take it out of the highest terms as well:
for Hénon–Heiles nothing is left to multiply but x*y, x*x and y*y. What is decided here is part of the
program; the loop keeps its state in these units, and what anyone sees is in the user's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from tinyphysics.flows.shears import Groups, ScaledShear, Shear, ShearFlow, only_shears, shears_of
from tinyphysics.ir.ops import CHOSEN, MOVEMENT, Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.identities.fuse import fuse
from tinyphysics.rules.identities.invariant import set_aside
from tinyphysics.step import DT, Coordinates, Scale, Step
from tinyphysics.structure import structure_of
from tinyphysics.tpir.program.isa import Word
from tinyphysics.tpir.program.lower import ProgramBuilder


@dataclass(frozen=True, eq=False)
class Rescaled(Coordinates):
    """States in other units: multiplied before the loop, divided where one looks."""

    scales: tuple[Scale, ...] = ()

    def enter(self, b: ProgramBuilder) -> None:
        self.change(b, "init", "times")

    def leave(self, b: ProgramBuilder) -> None:
        self.change(b, "final", "over")

    def change(self, b: ProgramBuilder, section: str, way: str) -> None:
        for s in self.scales:
            factor = b.operand(s.factor, section)
            b.emit(section, "SCALE", b.state(s.state), Word(way), factor, u=s.state, note=" ")


@dataclass(frozen=True)
class Factor:
    """number * dt**dt * c**c: what no state changes, with powers that cancel exactly."""

    number: float = 1.0
    dt: int = 0
    c: int = 0

    def __mul__(self, other: Factor) -> Factor:
        return Factor(self.number * other.number, self.dt + other.dt, self.c + other.c)

    def __truediv__(self, other: Factor) -> Factor:
        return Factor(self.number / other.number, self.dt - other.dt, self.c - other.c)

    def power(self, n: int) -> Factor:
        return Factor(self.number**n, self.dt * n, self.c * n)

    def value(self, c: UOp) -> UOp:
        one = c.op is Ops.CONST and c.arg == 1
        up = [DT] * self.dt + [c] * (0 if one else self.c)
        down = [DT] * -self.dt + [c] * (0 if one else -self.c)
        out = UOp.const(self.number)
        for x in up:
            out = x if _is_one(out) else out * x
        for x in down:
            out = out / x
        return out


MOST_ADDENDS = 2  # of a force that are added to a momentum one by one: each rounds it once more
ONE = Factor()
STEP = Factor(dt=1)


def scaled(step: Step) -> Iterator[Step]:
    """The same step in other units, for each choice of units that may be worth it."""
    structure = structure_of(step.states, step.bracket, step.tensor)
    groups = only_shears(step) if len(structure.states) == len(step.states) else None
    if groups is None:
        return
    own = [s.var for s in step.states if s.role == "position"]
    pairs = [(q, p) for q in own if (p := structure.partner(q)) is not None]
    rates = [speed(step, groups, q, p) for q, p in pairs]
    if any(c is None for c in rates):
        return
    cs = [c for c in rates if c is not None]
    one_for_all = all(c is cs[0] for c in cs) and not cs[0].shape
    for unit in (ONE, STEP, *([Factor(1.0, 2, 1)] if one_for_all else [])):
        units = Units(step, groups, dict(pairs), dict(zip((p for _, p in pairs), cs)), unit)
        out = units.rewritten()
        if out is not None:
            yield out


def searched(step: Step) -> int:
    """How many operations the search looks at: of every component of a force alone, since units are chosen for it."""
    forces = {
        (s.state, s.weight, k): g
        for s in shears_of(step)
        if s.kind == "negate"
        for k, g in enumerate(s.covector.src if s.covector.op is Ops.STACK else (s.covector,))
    }
    sizes = {g: len(toposort([g])) for g in set(forces.values())}
    return sum(sizes[g] for g in forces.values())


def speed(step: Step, groups: Groups, q: UOp, p: UOp) -> UOp | None:
    """The c with dT/dp = c*p in every drift, made of parameters alone: one number, or one for each component."""
    parameters = frozenset(x.var for x in step.parameters)
    drifts = [s.covector for group in groups for f in group for s in f.plain if s.state is q]
    if not drifts or any(d is not drifts[0] for d in drifts):
        return None
    c = multiple(drifts[0], p)
    return c if c is not None and c.leaves <= parameters else None


def multiple(u: UOp, p: UOp) -> UOp | None:
    """The c with u = c*p; a scalar wherever one will do."""
    if u is p:
        return UOp.const(1.0)
    if u.op is Ops.NEG:
        c = multiple(u.src[0], p)
        return None if c is None else -c
    if u.op is Ops.MUL:
        for a, b in (u.src, u.src[::-1]):
            if b is p and p not in a.leaves:
                return narrow(a)
    if u.op is Ops.DIV and u.src[0] is p and p not in u.src[1].leaves:
        below = narrow(u.src[1])
        return UOp.const(1.0, below.dtype, below.shape) / below
    if u.op is Ops.STACK and u.shape == p.shape:
        parts = [multiple(x, p.element(k)) for k, x in enumerate(u.src)]
        if all(c is parts[0] for c in parts):
            return parts[0]
        known = [c for c in parts if c is not None]
        return UOp.stack(known, p.shape) if len(known) == len(parts) else None
    return None


def narrow(u: UOp) -> UOp:
    """An array of one number as that number."""
    if u.op is Ops.CONST:
        return UOp.const(u.arg, u.dtype)
    return u.src[0] if u.op is Ops.EXPAND and not u.src[0].shape else u


class Units:
    """Momenta as P = unit*dt*c*p, positions as Q = unit*q."""

    def __init__(
        self, step: Step, groups: Groups, pairs: dict[UOp, UOp], speeds: dict[UOp, UOp], unit: Factor
    ) -> None:
        self.step, self.groups, self.pairs, self.speeds, self.unit = step, groups, pairs, speeds, unit
        self.positions = frozenset(pairs)
        clock = () if step.time is None else (step.time,)
        self.moving = frozenset((*(s.var for s in step.states), *clock))
        self.c = next(iter(speeds.values()))
        self.memo: dict[tuple[UOp, Factor, UOp], UOp | None] = {}
        self.shifts: dict[tuple[UOp, Factor, UOp, UOp], UOp | None] = {}

    def rewritten(self) -> Step | None:
        groups = []
        for flows in self.groups:
            new = [self.block(f) for f in flows]
            if any(b is None for b in new):
                return None
            groups.append(tuple(b for b in new if b is not None))
        scales = []
        for q, p in self.pairs.items():
            if self.unit != ONE:
                scales.append(Scale(q, self.unit.value(self.c)))
            c = self.speeds[p]
            by = (self.unit * STEP).value(self.c) if c.shape else (self.unit * Factor(1.0, 1, 1)).value(c)
            scales.append(Scale(p, by.expand(c.shape) * c if c.shape else by))
        init, body, final = groups
        return replace(self.step, init=init, body=body, final=final, coordinates=Rescaled(tuple(scales)))

    def block(self, b: ShearFlow) -> ShearFlow | None:
        out = []
        for s in b.plain:
            shift = self.drift(s) if s.kind == "pass" else self.kick(s)
            if shift is None:
                return None
            out.append(shift)
        return ShearFlow(tuple(out), b.clock)

    def drift(self, s: Shear) -> ScaledShear:
        P = self.pairs[s.state]
        return ScaledShear(s.state, s.state + (P if s.weight == 1 else s.weight * P), "drift")

    def kick(self, s: Shear) -> ScaledShear | None:
        """P - weight*unit*dt*dt*c * dV/dq, where dV/dq is a function of q = Q/unit."""
        self.c = self.speeds[s.state]
        if self.c.shape:  # a constant for each component: it stays outside
            if self.unit != ONE:
                return None
            by = (s.weight * DT * DT).expand(s.state.shape) * self.c
            return ScaledShear(s.state, s.state - by * s.covector, "kick")
        factor = Factor(s.weight, 2, 1) * self.unit
        if s.covector.op is Ops.STACK:
            parts = [self.shortest(s.state.element(k), factor, g) for k, g in enumerate(s.covector.src)]
            known = [x for x in parts if x is not None]
            value = UOp.stack(known, s.state.shape) if len(known) == len(parts) else None
        else:
            value = self.shortest(s.state, factor, s.covector)
        return None if value is None else ScaledShear(s.state, value, "kick")

    # --- factors into a force -----------------------------------------------------------------
    def shortest(self, P: UOp, factor: Factor, g: UOp) -> UOp | None:
        """P - factor*g(Q/unit) in the fewest operations found."""
        if (key := (P, factor, g, self.c)) not in self.shifts:
            self.shifts[key] = self._shortest(P, factor, g)
        return self.shifts[key]

    def _shortest(self, P: UOp, factor: Factor, g: UOp) -> UOp | None:
        found = []
        if (inside := self.push(factor, g)) is not None:
            few = [t for t in (self.collected(inside), list(addends(inside))) if len(t) <= MOST_ADDENDS]
            found += [P - inside, *(less(P, terms) for terms in few)]
        number = Factor(factor.number)
        if factor.number != 1 and (inside := self.push(factor / number, g)) is not None:
            found.append(P - factor.number * inside)
        if self.unit == ONE:
            found.append(P - self.product(factor, g))
        return min(found, key=self.cost, default=None)

    def push(self, factor: Factor, u: UOp) -> UOp | None:
        """factor * u(Q/unit), the factor spread where it costs least; None where u is no polynomial."""
        if (u, factor, self.c) not in self.memo:
            self.memo[u, factor, self.c] = self._push(factor, u)
        return self.memo[u, factor, self.c]

    def _push(self, factor: Factor, u: UOp) -> UOp | None:
        if not u.leaves & self.positions:
            return self.product(factor, u)
        # in other units another item
        if u.op in CHOSEN and any(s.leaves & self.positions for s in u.src[1:]):
            return self.product(factor, u) if self.unit == ONE else None
        if simple(u) or closed(u):
            return self.product(factor / self.unit, u)
        match u.op:
            case Ops.NEG | Ops.ADD | Ops.SUB | Ops.STACK:
                return self.into(factor, u)
            case Ops.MUL:
                a, b = u.src
                return self.best([self.share(factor, a, b), self.share(factor, b, a)])
            case Ops.DIV if self.unit == ONE or not u.src[1].leaves & self.positions:
                above = self.push(factor, u.src[0])
                return None if above is None else above / u.src[1]
            case op if op in MOVEMENT:
                return self.into(factor, u)
            case Ops.REDUCE if u.arg[0] == "sum":
                outside = self.product(factor, u) if self.unit == ONE else None
                return self.best([outside, self.into(factor, u)])
        return self.product(factor, u) if self.unit == ONE else None

    def into(self, factor: Factor, u: UOp) -> UOp | None:
        """The factor in every source that is no index."""
        src = [s if k and u.op in CHOSEN else self.push(factor, s) for k, s in enumerate(u.src)]
        known = tuple(s for s in src if s is not None)
        return u.replace(known) if len(known) == len(src) else None

    def share(self, factor: Factor, a: UOp, b: UOp) -> UOp | None:
        """a*b where a gets what it needs to be free of factors, and b the rest."""
        degree = self.degrees.of(a)
        if degree is None:
            return None
        own = self.unit.power(degree)
        x, y = self.push(own, a), self.push(factor / own, b)
        if x is None or y is None:
            return None
        return y if _is_one(x) else x if _is_one(y) else x * y

    @cached_property
    def degrees(self) -> Degrees:
        return Degrees(self.positions, self.unit == ONE)

    def product(self, factor: Factor, u: UOp) -> UOp:
        if factor == ONE:
            return u
        if u.op is Ops.EXPAND:
            return self.product(factor, u.src[0]).expand(u.shape)
        if u.op is Ops.CONST:
            return (factor * Factor(float(u.arg))).value(self.c).expand(u.shape)
        return factor.value(self.c).expand(u.shape) * u

    # --- sums ---------------------------------------------------------------------------------
    def collected(self, e: UOp) -> list[tuple[UOp, bool]]:
        """(addend, is it subtracted?), f*x and x*z as x*(z + f) where f is fixed: an addition for a product."""
        out: list[tuple[UOp, bool]] = []
        terms = list(addends(e))
        for u, minus in terms:
            found = self.fixed_multiple(u)
            if found is None:
                out.append((u, minus))
                continue
            beside = (
                k for k, (v, _) in enumerate(terms) if v is not u and self.cofactor(v, found[1]) is not None
            )
            if (other := next(beside, None)) is None:
                out.append((u, minus))
                continue
            f, x = found
            v, sign = terms[other]
            z = self.cofactor(v, x)
            assert z is not None
            terms[other] = (x * (z + f if sign == minus else z - f), sign)
            out = [terms[other] if a is v else (a, m) for a, m in out]
        return out

    def fixed_multiple(self, u: UOp) -> tuple[UOp, UOp] | None:
        """u as f*x with a fixed f."""
        if u.op is Ops.MUL:
            for f, x in (u.src, u.src[::-1]):
                if not f.leaves & self.moving and x.leaves & self.moving:
                    return f, x
        return None

    def cofactor(self, u: UOp, x: UOp) -> UOp | None:
        """The moving z with u = x*z."""
        rest = list(factors(u))
        k = next((k for k, v in enumerate(rest) if v is x), None)
        if k is None or not any(v.leaves & self.moving for n, v in enumerate(rest) if n != k):
            return None
        del rest[k]
        out = rest[0]
        for v in rest[1:]:
            out = out * v
        return out

    def best(self, options: list[UOp | None]) -> UOp | None:
        found = list(dict.fromkeys(u for u in options if u is not None))
        return min(found, key=self.cost) if len(found) > 1 else next(iter(found), None)

    def cost(self, u: UOp) -> tuple[int, int, int]:
        """(operations, those that multiply, the longest chain of them)."""
        (fused,) = fuse(set_aside([u], self.moving)[0])
        work = [x for x in toposort([fused]) if x.leaves & self.moving and _counts(x)]
        return (
            sum(x.size for x in work),
            sum(x.size for x in work if x.op in (Ops.MUL, Ops.FMA)),
            depth(fused),
        )


class Degrees:
    """Polynomial degrees in the positions; where positions keep their units any function will do."""

    def __init__(self, positions: frozenset[UOp], any_function: bool) -> None:
        self.positions, self.any_function = positions, any_function
        self.memo: dict[UOp, int | None] = {}

    def of(self, root: UOp) -> int | None:
        if self.any_function:
            return 0
        for u in toposort([root]):
            if u not in self.memo:
                self.memo[u] = self._of(u)
        return self.memo[root]

    def _of(self, u: UOp) -> int | None:
        if not u.leaves & self.positions:
            return 0
        if u.op is Ops.VAR:
            return 1
        below = [self.memo[s] for s in u.src]
        known = [n for n in below if n is not None]
        if len(known) < len(below):
            return None
        if u.op is Ops.MUL:
            return sum(known)
        if u.op in MOVEMENT | {Ops.ADD, Ops.SUB, Ops.NEG, Ops.STACK}:
            return max(known)
        if u.op is Ops.REDUCE and u.arg[0] == "sum":
            return max(known)
        return known[0] if u.op is Ops.DIV and not u.src[1].leaves & self.positions else None


def simple(u: UOp) -> bool:
    """Numbers as they are kept, in whatever order."""
    while u.op in (Ops.NEG, Ops.ELEMENT, Ops.SLICE, Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.FLIP, Ops.ROLL):
        u = u.src[0]
    return u.op is Ops.VAR


def closed(u: UOp) -> bool:
    """A difference of positions, which may be exact: opened, it would be a cancelling sum."""
    return u.op in (Ops.ADD, Ops.SUB) and all(simple(s) or closed(s) for s in u.src)


def addends(u: UOp, minus: bool = False) -> Iterator[tuple[UOp, bool]]:
    match u.op:
        case _ if closed(u):
            yield u, minus
        case Ops.ADD | Ops.SUB:
            yield from addends(u.src[0], minus)
            yield from addends(u.src[1], minus != (u.op is Ops.SUB))
        case Ops.NEG:
            yield from addends(u.src[0], not minus)
        case _:
            yield u, minus


def factors(u: UOp) -> Iterator[UOp]:
    if u.op is Ops.MUL:
        yield from factors(u.src[0])
        yield from factors(u.src[1])
    else:
        yield u


def less(P: UOp, terms: list[tuple[UOp, bool]]) -> UOp:
    """P minus a sum, addend by addend, what is known first first: each product joins by one fma."""
    for u, minus in sorted(terms, key=lambda t: depth(t[0])):
        P = P + u if minus else P - u
    return P


def depth(root: UOp) -> int:
    """The longest chain of operations in it."""
    out: dict[UOp, int] = {}
    for u in toposort([root]):
        out[u] = max((out[s] for s in u.src), default=0) + _counts(u)
    return out[root]


def _counts(u: UOp) -> bool:
    return u.op not in (Ops.CONST, Ops.VAR, Ops.NEG, Ops.STACK, Ops.ELEMENT) and u.op not in MOVEMENT


def _is_one(u: UOp) -> bool:
    return u.op is Ops.CONST and u.arg == 1
