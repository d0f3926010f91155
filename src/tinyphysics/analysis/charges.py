"""What does a system conserve?  Its continuous symmetries, each with the quantity that belongs to it and a proof.

Looked for: directions that no term of H sees, rotations in each plane, the phase rotation of all pairs, boosts, time, the
scaling of potentials of degree -2, Casimirs, and brackets of what was found. A proof is {F, H} + dF/dt = 0 in symbols, for
every value of the parameters; where that holds for equal parameters alone, the condition is part of it. Sums over bodies and
pairs are looked at for one body or pair (rules/calculus/items.py). A missed yes is possible, a wrong one is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

from tinyphysics.analysis.jumps import stays
from tinyphysics.analysis.masses import masses
from tinyphysics.analysis.phases import waves_and_phases
from tinyphysics.analysis.separable import separable
from tinyphysics.constrained import BRACKET as CONSTRAINED
from tinyphysics.ir import Ops, UOp, elements, substitute, toposort
from tinyphysics.ir.value import Value, evaluate
from tinyphysics.rules.calculus.brackets import bracket
from tinyphysics.rules.calculus.items import Items, NotFollowed, Place, Places, Total, add, scaled
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import Normal, Poly, chooses
from tinyphysics.rules.equality.probe import number
from tinyphysics.rules.identities.real import simplify
from tinyphysics.system import System

CLEARLY = 1e-6  # of the largest number on the way: no rounding
ROUNDED = 1e-11  # of the largest number on the way: rounding, unless the function is steep by accident
SMALL = 16  # positions of a system whose directions are looked for number by number
BODIES = 6  # the same of bodies in space, whose common directions are known
PLANES = 6  # numbers of one array that are turned into each other, pair by pair
LONG = 6_000  # nodes of a gradient, written out, beyond which directions are not looked for
PARAMETERS = 8  # numbers of parameters between which equalities are tried
ALWAYS = "for every value of the parameters"
IN_SPACE = ("energy", "translation", "rotation", "boost")
NO_TIME = "H does not depend on t"

Rule = Callable[[UOp, Places], "UOp | None"]


@dataclass(frozen=True, eq=False)
class Found:
    """A conserved quantity F = expression, whose generator moves the state by `rule`; dF/dt = `by_time`, if t is in it."""

    name: str
    expression: UOp
    generator: str
    proof: str
    rule: Rule | None = None  # None: the energy, or a function of others
    by_time: UOp | None = None
    condition: tuple[tuple[str, str], ...] = ()  # parameters that are equal where it is conserved
    kind: str = ""  # energy, translation, rotation, boost, phase, scaling, casimir, bracket


# --- which numbers are components in space -----------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Layout:
    """How the states of a system lie in space: pairs with as many dimensions as any, and which component a number is."""

    system: System
    dimensions: int
    pairs: tuple[tuple[UOp, UOp], ...]

    @property
    def positions(self) -> tuple[UOp, ...]:
        return tuple(q for q, _ in self.pairs)

    def component(self, u: UOp, places: Places) -> int | None:
        """Of a number of one of the pairs."""
        if u.shape == ():
            if self.dimensions == 1:
                return 0
            return next(k for k, (q, p) in enumerate(self.pairs) if u is q or u is p)
        if self.dimensions == 1:
            return 0
        last = places[-1]
        if not isinstance(last, int):
            raise NotFollowed
        return last

    def along(self, u: UOp, axis: int) -> UOp:
        """The components of an array along an axis, one for each body."""
        return u if self.dimensions == 1 or u.shape == () else u[..., axis]

    def total(self, of: Sequence[UOp], axis: int) -> UOp:
        """The sum over bodies of a component."""
        if self.of_scalars:
            return of[axis]
        return UOp.sum_of(self.along(u, axis).sum() for u in of)

    @property
    def of_scalars(self) -> bool:
        return self.dimensions > 1 and self.pairs[0][0].shape == ()

    def partner(self, u: UOp, axis: int) -> UOp:
        """The component along another axis, of the same body: the variable that holds it."""
        if not self.of_scalars:
            return u
        side = 0 if any(u is q for q, _ in self.pairs) else 1
        return self.pairs[axis][side]


def dimensions_of(q: UOp) -> int:
    if q.ndim == 1:
        return q.shape[0] if q.shape[0] in (2, 3) else 1
    return q.shape[-1] if q.shape and q.shape[-1] in (1, 2, 3) else 1


def layout_of(system: System) -> Layout:
    pairs = [(q, p) for q, p in system.pairs if q.shape == p.shape]
    if all(q.shape == () for q, _ in pairs):
        d = len(pairs) if len(pairs) in (2, 3) else 1
        return Layout(system, d, tuple(pairs))
    d = max((dimensions_of(q) for q, _ in pairs if q.shape), default=1)
    return Layout(system, d, tuple((q, p) for q, p in pairs if q.shape and dimensions_of(q) == d))


def at(u: UOp, places: Places, axis: int | None = None) -> UOp:
    """A number of a variable as Items names it; with another last index, if one is given."""
    if u.shape == ():
        return u
    where = places if axis is None else (*places[:-1], axis)
    return UOp.var(f"{u.arg}[{','.join(map(str, where))}]", (), u.dtype)


# --- proofs ----------------------------------------------------------------------------------------
def moving_of(system: System) -> frozenset[UOp]:
    return frozenset((*system.q, *system.p))


def residual(energy: UOp, rule: Rule, by_time: UOp | None, system: System) -> Total | None:
    """X(H) - dF/dt along the generator's motion X: nothing where F is conserved; None where it could not be followed."""
    items = Items(rule, moving_of(system))
    try:
        found = items.rate(energy)
        return found if by_time is None else add(found, scaled(items.total(by_time), UOp.const(-1.0)))
    except NotFollowed:
        return None


def vanishes(total: Total, equal: tuple[tuple[str, str], ...] = ()) -> bool:
    """Each item of each sum, where some parameters are equal."""
    table = {UOp.var(a): UOp.var(b) for a, b in equal}
    zero = UOp.const(0.0)
    if any(seen_to_be_something(item, equal) for item in total.values()):
        return False
    for item in total.values():
        (u,) = simplify(substitute([item], table)) if table else [item]
        if not Normal().same(u, zero):
            return False
    return True


def seen_to_be_something(item: UOp, equal: tuple[tuple[str, str], ...]) -> bool:
    """Is it far from zero, beside the largest number that it is made of, at two points drawn at random?"""
    nodes = toposort([item])
    same = dict(equal)
    for first in (1, 4001):
        env: dict[str, Value] = {}
        for k, u in enumerate(x for x in nodes if x.op is Ops.VAR):
            if u.dtype.is_float:
                env[str(u.arg)] = number(first + k) * (1.0 if number(7 * (first + k)) > 0.9 else -1.0)
            else:
                env[str(u.arg)] = 1
        env |= {a: env[b] for a, b in same.items() if a in env and b in env}
        floats = [u for u in nodes if u.dtype.is_float and u.op is not Ops.CONST]
        try:
            values = [abs(float(x)) for x in evaluate([*floats, item], env) if isinstance(x, (int, float))]
        except (ArithmeticError, ValueError, KeyError, TypeError):
            return False
        finite = [x for x in values if math.isfinite(x)]
        if len(finite) < len(values) or not finite or values[-1] <= CLEARLY * max(finite):
            return False
    return True


def conditions(total: Total, system: System) -> Iterator[tuple[tuple[str, str], ...]]:
    """Equalities between parameters: one, or two of them together."""
    own = {x.name for x in system.parameters}
    held = dict.fromkeys(
        str(u.arg)
        for item in total.values()
        for u in toposort([item])
        if u.op is Ops.VAR and u.dtype.is_float
    )
    names = sorted(n for n in held if n.partition("[")[0] in own and not {"i", "@"} & {*n.partition("[")[2]})
    if len(names) > PARAMETERS:
        return
    pairs = [(b, a) for a, b in combinations(names, 2)]
    yield from ((pair,) for pair in pairs)
    yield from (two for two in combinations(pairs, 2) if two[0][0] != two[1][0])


def proved(
    system: System, energy: UOp, rule: Rule, by_time: UOp | None = None, conditional: bool = False
) -> tuple[str, tuple[tuple[str, str], ...]] | None:
    """The proof in words, and what it is conditional on."""
    total = residual(energy, rule, by_time, system)
    if total is None or not stays(system, rule, vanishes):
        return None
    bracket_of = "{F, H} = 0" if by_time is None else "{F, H} + dF/dt = 0"
    if vanishes(total):
        return f"{bracket_of} {ALWAYS}" if system.parameters else bracket_of, ()
    if conditional:
        for equal in conditions(total, system):
            if vanishes(total, equal):
                told = " and ".join(f"{b} = {a}" for a, b in equal)
                return f"{bracket_of} if {told}", equal
    return None


# --- candidates -------------------------------------------------------------------------------------
def translation(layout: Layout, axis: int) -> Rule:
    positions = frozenset(layout.positions)
    one = UOp.const(1.0)

    def rule(u: UOp, places: Places) -> UOp | None:
        return one if u in positions and layout.component(u, places) == axis else None

    return rule


def rotation(layout: Layout, a: int, b: int) -> Rule:
    own = frozenset(x for pair in layout.pairs for x in pair)

    def rule(u: UOp, places: Places) -> UOp | None:
        if u not in own or (c := layout.component(u, places)) not in (a, b):
            return None
        other = b if c == a else a
        value = at(layout.partner(u, other), places, None if layout.of_scalars else other)
        return -value if c == a else value

    return rule


def phase(pairs: Sequence[tuple[UOp, UOp, float]]) -> Rule:
    """Of pairs of which z = q + i p/scale is a complex number."""

    def rule(u: UOp, places: Places) -> UOp | None:
        for q, p, scale in pairs:
            if u is q:
                return at(p, places) if scale == 1.0 else at(p, places) * (1.0 / scale)
            if u is p:
                return -at(q, places) if scale == 1.0 else -at(q, places) * scale
        return None

    return rule


def scaled_pairs(system: System) -> list[tuple[UOp, UOp, float]]:
    """The pairs, and of those that are a complex state the scale of its imaginary part."""
    scales = {c.parts: c.scale for c in system.complexes}
    return [(q, p, scales.get((str(q.arg), str(p.arg)), 1.0)) for q, p in system.pairs]


def norm_of(pairs: Sequence[tuple[UOp, UOp, float]]) -> UOp:
    """What generates the phase rotation: of complex states the sum of abs(z)**2."""
    plain = [(q * q + p * p).sum() for q, p, scale in pairs if scale == 1.0]
    own = [(q * q + (p * (1 / s)) * (p * (1 / s))).sum() * (s / 2) for q, p, s in pairs if s != 1.0]
    return UOp.sum_of([*([UOp.sum_of(plain) * 0.5] if plain else []), *own])


def turned_fields(system: System) -> Iterator[Found]:
    """The norms of complex fields whose waves and numbers turn, each kept by itself."""
    fields = [x for x in scaled_pairs(system) if x[2] != 1.0]
    told = "every part of H turns phases of this field alone: its waves or its numbers"
    for q, p, s in fields:
        name = next(c.name for c in system.complexes if c.parts[0] == str(q.arg))
        label = "norm" if len(fields) == 1 else f"norm[{name}]"
        yield Found(
            label, norm_of([(q, p, s)]), f"phase rotation of {name}", told, phase([(q, p, s)]), kind="phase"
        )


def stretching(system: System) -> Rule:
    """Of q . p: positions grow as momenta shrink."""
    q = frozenset(system.q)

    def rule(u: UOp, places: Places) -> UOp | None:
        return at(u, places) if u in q else -at(u, places)

    return rule


def boosting(layout: Layout, axis: int, inverse: Sequence[UOp]) -> Rule:
    """Of the sum of m q: every momentum falls at the rate m."""
    mass = {p: w for (_, p), w in zip(layout.system.pairs, inverse)}
    own = frozenset(p for _, p in layout.pairs)
    items = Items(lambda u, places: None, frozenset())

    def rule(u: UOp, places: Places) -> UOp | None:
        if u not in own or layout.component(u, places) != axis:
            return None
        return -1.0 / items.value(mass[u], places)

    return rule


def in_space(system: System, energy: UOp) -> Iterator[Found]:
    """Translations, rotations and boosts of all bodies together."""
    layout = layout_of(system)
    if not layout.pairs:
        return
    d = layout.dimensions
    momenta = [p for _, p in layout.pairs]
    shifted = []
    for axis in range(d):
        if (why := proved(system, energy, translation(layout, axis))) is not None:
            shifted.append(axis)
            yield Found(
                f"momentum[{axis}]", layout.total(momenta, axis), f"translation along axis {axis}", why[0],
                translation(layout, axis), condition=why[1], kind="translation",
            )  # fmt: skip
    for a, b in combinations(range(d), 2) if not in_a_box(system, energy) else ():
        rule = rotation(layout, a, b)
        if (why := proved(system, energy, rule, conditional=True)) is not None:
            yield Found(
                f"angular_momentum[{a}, {b}]", moment(layout, a, b), f"rotation in the plane ({a}, {b})", why[0],
                rule, condition=why[1], kind="rotation",
            )  # fmt: skip
    split = separable(system) if shifted else None
    fact = masses(system, split.T) if split else None
    for axis in shifted if fact else ():
        assert fact is not None
        rule, total = boosting(layout, axis, fact.inverse), layout.total(momenta, axis)
        why = proved(system, energy, rule, -total)
        if why is None:
            continue
        mass = {p: mass_of(system, w) for (_, p), w in zip(system.pairs, fact.inverse)}
        place = layout.total([mass[p] * q for q, p in layout.pairs], axis)
        yield Found(
            f"boost[{axis}]", place - UOp.var("t") * total, f"a change of velocity along axis {axis}", why[0],
            rule, -total, condition=why[1], kind="boost",
        )  # fmt: skip


def in_a_box(system: System, energy: UOp) -> bool:
    """Are positions counted in periods?  Then no rotation keeps the energy, and none is tried."""
    periods = (Ops.IMAGE, Ops.RINT, Ops.FLOOR)
    return any(u.op in periods and u.leaves & moving_of(system) for u in toposort([energy]))


def mass_of(system: System, inverse: UOp) -> UOp:
    """1/w, as the parameter that it is, if it is one."""
    for x in system.parameters:
        if x.var.ndim <= inverse.ndim:
            own = x.var.reshape(x.var.shape + (1,) * (inverse.ndim - x.var.ndim))
            fits = all(a in (1, b) for a, b in zip(own.shape, inverse.shape))
            if fits and Normal().same(
                inverse * own.expand(inverse.shape), UOp.const(1.0, inverse.dtype, inverse.shape)
            ):
                return own.expand(inverse.shape)
    (out,) = simplify([1.0 / inverse])
    return out


def moment(layout: Layout, a: int, b: int) -> UOp:
    if layout.of_scalars:
        (qa, pa), (qb, pb) = layout.pairs[a], layout.pairs[b]
        return qa * pb - qb * pa
    parts = []
    for q, p in layout.pairs:
        parts.append((q[..., a] * p[..., b] - q[..., b] * p[..., a]).sum())
    return UOp.sum_of(parts)


def of_pairs(system: System, energy: UOp) -> Iterator[Found]:
    """The phase rotation of all pairs, and the scaling of a potential of degree -2."""
    if not system.pairs:
        return
    if waves_and_phases(system):
        yield from turned_fields(system)
        return
    rule, norm = phase(scaled_pairs(system)), norm_of(scaled_pairs(system))
    if (why := proved(system, energy, rule, conditional=True)) is not None:
        yield Found(
            "norm", norm, "phase rotation of all (q, p)", why[0], rule, condition=why[1], kind="phase"
        )
    if system.driven:
        return
    rule = stretching(system)
    if (why := proved(system, energy, rule, energy * -2.0)) is not None:
        virial = UOp.sum_of((q * p).sum() for q, p in system.pairs)
        yield Found(
            "scaling", virial - 2.0 * energy * UOp.var("t"), "scaling of lengths by s and of times by s**2", why[0],
            rule, energy * -2.0, kind="scaling",
        )  # fmt: skip


# --- number by number -------------------------------------------------------------------------------
def written_out(system: System) -> tuple[UOp, list[UOp], list[UOp]] | None:
    """(H, positions, momenta), each number a symbol of its own; None where that is too much."""
    most = SMALL if all(q.ndim < 2 for q in system.q) else BODIES
    if sum(q.size for q in system.q) > most or system.energy is None or chooses(system.energy):
        return None
    ((energy,),) = unroll([system.energy])
    return energy, [e for q in system.q for e in elements(q)], [e for p in system.p for e in elements(p)]


def null_space(columns: Sequence[Poly]) -> list[list[Fraction]]:
    """The rational combinations of polynomials that vanish: a basis, each vector with a 1 where the others have 0."""
    rows = [[c.get(m, Fraction(0)) for c in columns] for m in dict.fromkeys(m for c in columns for m in c)]
    n = len(columns)
    pivots: list[int] = []
    for k in range(n):
        done = len(pivots)
        best = next((i for i in range(done, len(rows)) if rows[i][k]), None)
        if best is None:
            continue
        rows[done], rows[best] = rows[best], rows[done]
        head = rows[done][k]
        rows[done] = [x / head for x in rows[done]]
        for i, row in enumerate(rows):
            if i != done and (f := row[k]):
                rows[i] = [x - f * y for x, y in zip(row, rows[done])]
        pivots.append(k)
    out = []
    for free in (k for k in range(n) if k not in pivots):
        vector = [Fraction(0)] * n
        vector[free] = Fraction(1)
        for i, k in enumerate(pivots):
            vector[k] = -rows[i][free]
        out.append(vector)
    return out


def in_span(vector: Sequence[Fraction], basis: Sequence[Sequence[Fraction]]) -> bool:
    columns: list[Poly] = [{((k, 1),): x for k, x in enumerate(v) if x} for v in (*basis, vector)]
    return any(v[-1] for v in null_space(columns))


def directions(system: System, energy: UOp, q: list[UOp], p: list[UOp]) -> list[list[Fraction]]:
    """Those in the space of all positions, then momenta, along which H does not change."""
    slopes = gradient(energy, [*q, *p])
    if len(toposort(slopes)) > LONG:
        return []
    normal = Normal()
    return null_space([normal.form(u) for u in simplify(slopes)])


def linear(system: System, vector: Sequence[Fraction], q: list[UOp], p: list[UOp], name: str) -> Found:
    """The quantity of a direction: what is conjugate to it."""
    n = len(q)
    terms = [(p[k], c) for k, c in enumerate(vector[:n]) if c] + [
        (q[k], -c) for k, c in enumerate(vector[n:]) if c
    ]
    parts = [u if c == 1 else -u if c == -1 else float(c) * u for u, c in terms]
    told = {
        (str(u.src[0].arg), u.arg) if u.op is Ops.ELEMENT else (str(u.arg), -1): c
        for u, c in zip([*q, *p], vector)
    }
    shape = {str(v.arg): v.shape for v in (*system.q, *system.p)}

    def rule(u: UOp, places: Places) -> UOp | None:
        where = -1
        if u.shape:
            if any(isinstance(i, Place) for i in places):
                raise NotFollowed
            where = 0
            for i, size in zip(places, shape[str(u.arg)]):
                where = where * size + int(i)  # type: ignore[arg-type]
        c = told.get((str(u.arg), where), Fraction(0))
        return UOp.const(float(c)) if c else None

    moved = [f"{u} += {'s' if c == 1 else f'{c} s'}" for u, c in zip([*q, *p], vector) if c]
    return Found(
        name, UOp.sum_of(parts), f"a shift: {', '.join(moved[:4])}{', ...' if len(moved) > 4 else ''}",
        f"no term of H sees it, {ALWAYS}" if system.parameters else "no term of H sees it", rule, kind="translation",
    )  # fmt: skip


def boost_along(
    system: System, energy: UOp, vector: Sequence[Fraction], q: list[UOp], p: list[UOp], name: str
) -> Found | None:
    """The sum of a m q less t times the momentum along a, where that is conserved; a is any direction."""
    split = separable(system)
    fact = masses(system, split.T) if split else None
    if not fact:
        return None
    inverse = [e for w in fact.inverse for e in unroll([w])[0]]
    mass = dict(
        zip(((str(u.src[0].arg), u.arg) if u.op is Ops.ELEMENT else (str(u.arg), -1) for u in p), inverse)
    )
    along = dict(zip(mass, vector))
    items = Items(lambda u, places: None, frozenset())

    def rule(u: UOp, places: Places) -> UOp | None:
        where = -1
        if u.shape:
            where = 0
            for i, size in zip(places, u.shape):
                if isinstance(i, Place):
                    raise NotFollowed
                where = where * size + i
        c = along.get((str(u.arg), where), Fraction(0))
        return float(-c) / items.value(mass[str(u.arg), where]) if c else None

    total = UOp.sum_of(float(c) * x for x, c in zip(p, vector) if c)
    why = proved(system, energy, rule, -total)
    if why is None:
        return None
    place = UOp.sum_of(float(c) * x / w for x, w, c in zip(q, inverse, vector) if c)
    (place, told) = simplify([place, total])
    return Found(
        name.replace("momentum", "boost"), place - UOp.var("t") * told, f"a change of the velocities of {name}", why[0],
        rule, -total, condition=why[1], kind="boost",
    )  # fmt: skip


def by_numbers(system: System, known: Sequence[Found]) -> Iterator[Found]:
    """Directions that no term sees, and planes between the numbers of a short array, where they are none in space."""
    whole = written_out(system)
    if whole is None:
        return
    energy, q, p = whole
    n = len(q)
    spanned = []
    for f in known:
        if f.kind == "translation":
            spanned.append(of_linear(f, q, p))
    taken = {f.name for f in known}
    for vector in directions(system, energy, q, p):
        if in_span(vector, spanned):
            continue
        spanned.append(vector)
        stem = "momentum" if any(vector[:n]) else "position"
        name = next(name for k in range(2 * n + 1) if (name := f"{stem}[{k}]") not in taken)
        found = linear(system, vector, q, p, name)
        assert found.rule is not None
        if not stays(system, found.rule, vanishes):
            continue
        taken.add(name)
        yield found
        if not any(vector[n:]) and (more := boost_along(system, energy, vector, q, p, name)) is not None:
            yield more
    layout = layout_of(system)
    if layout.dimensions > 1 or not 2 <= n <= PLANES or len(q) != len(p):
        return
    index = {u: k for k, u in enumerate([*q, *p])}
    for a, b in combinations(range(n), 2):
        rule = plane(index, n, a, b)
        if (why := proved(system, energy, rule, conditional=True)) is not None:
            yield Found(
                f"angular_momentum[{a}, {b}]", q[a] * p[b] - q[b] * p[a], f"rotation in the plane ({q[a]}, {q[b]})",
                why[0], rule, condition=why[1], kind="rotation",
            )  # fmt: skip


def plane(index: dict[UOp, int], n: int, a: int, b: int) -> Rule:
    numbers = {number: u for u, number in index.items()}

    def number_of(u: UOp, places: Places) -> int:
        if not u.shape:
            return index[u]
        where = 0
        for i, size in zip(places, u.shape):
            if isinstance(i, Place):
                raise NotFollowed
            where = where * size + i
        return index[u.element(where)]

    def named(k: int) -> UOp:
        u = numbers[k]
        if u.op is not Ops.ELEMENT:
            return u
        shape, flat = u.src[0].shape, u.arg
        where: list[int] = []
        for size in reversed(shape):
            where.insert(0, flat % size)
            flat //= size
        return at(u.src[0], tuple(where))

    def rule(u: UOp, places: Places) -> UOp | None:
        k = number_of(u, places)
        side, c = divmod(k, n)
        if c == a:
            return -named(side * n + b)
        return named(side * n + a) if c == b else None

    return rule


def of_linear(f: Found, q: list[UOp], p: list[UOp]) -> list[Fraction]:
    """The direction of a linear quantity: how it changes with each number that is conjugate."""
    ((u,),) = unroll([f.expression])
    slopes = simplify(gradient(u, [*p, *q]))
    values = [Fraction(s.arg) if s.op is Ops.CONST else Fraction(0) for s in slopes]
    n = len(p)
    return [*values[:n], *(-v for v in values[n:])]


# --- what is new -------------------------------------------------------------------------------------
def independent(candidates: Sequence[UOp], known: Sequence[UOp], system: System) -> list[bool]:
    """Which of some functions are no functions of the known ones and of those before them, at two states drawn at random."""
    q, p = ([e for v in vs for e in elements(v)] for vs in (system.q, system.p))
    numbers = [*q, *p]
    scalars = [u for (u,) in unroll([*known, *candidates])]
    rows = [gradient(u, numbers) for u in scalars]
    verdicts = [False] * len(candidates)
    for first in (3, 4001):
        env: dict[str, Value] = {}
        at_ = first
        for v in dict.fromkeys(u for u in toposort([x for row in rows for x in row]) if u.op is Ops.VAR):
            signs = [1.0 if number(7 * (at_ + k)) > 0.9 else -1.0 for k in range(v.size)]
            own = v in moving_of(system)
            values = [number(at_ + k) * (s if own else 1.0) for k, s in enumerate(signs)]
            env[str(v.arg)] = values if v.shape else values[0]
            at_ += v.size
        try:
            found: list[Any] = evaluate([x for row in rows for x in row], env)
        except (ArithmeticError, ValueError):
            continue
        n = len(numbers)
        basis: list[list[float]] = []
        for k, row in enumerate(rows):
            slopes = [float(x) for x in found[k * n : (k + 1) * n]]
            if k >= len(known) and is_rounding(row, slopes, env):
                continue
            fresh = reduced(slopes, basis)
            if k >= len(known):
                verdicts[k - len(known)] |= fresh
    return verdicts


def is_rounding(slopes: Sequence[UOp], values: Sequence[float], env: Mapping[str, Value]) -> bool:
    """Are slopes nothing beside the numbers that they are made of?  Then a function that should vanish is left."""
    nodes = [u for u in toposort(slopes) if u.dtype.is_float and u.shape == () and u.op is not Ops.CONST]
    try:
        inner = [abs(float(x)) for x in evaluate(nodes, env) if isinstance(x, (int, float))]
    except (ArithmeticError, ValueError):
        return False
    return max(map(abs, values)) <= ROUNDED * max((x for x in inner if math.isfinite(x)), default=0.0)


def reduced(row: list[float], basis: list[list[float]]) -> bool:
    """Is a row no combination of others?  Then it joins them, at right angles."""
    size = sum(x * x for x in row) ** 0.5
    if not 0.0 < size < float("inf"):
        return False
    rest = [x / size for x in row]
    for _ in range(2):
        for b in basis:
            along = sum(x * y for x, y in zip(rest, b))
            rest = [x - along * y for x, y in zip(rest, b)]
    left = sum(x * x for x in rest) ** 0.5
    if left < 1e-8:
        return False
    basis.append([x / left for x in rest])
    return True


def brackets_of(system: System, known: Sequence[Found]) -> Iterator[Found]:
    """What brackets of conserved quantities add: they are conserved, by the identity of Jacobi."""
    if sum(q.size for q in system.q) > SMALL:
        return
    sure = [f for f in known if not f.condition]
    have = [f.expression for f in sure]
    moving = moving_of(system)
    for f, g in combinations(sure, 2):
        if f.kind in IN_SPACE and g.kind in IN_SPACE:
            continue  # those of the motions of space are among them
        if "energy" in (f.name, g.name) and f.by_time is None and g.by_time is None:
            continue
        u = bracket(f.expression, g.expression, system.pairs)
        if not u.leaves & moving or not independent([u], have, system)[0]:
            continue
        have.append(u)
        name = f"{{{f.name}, {g.name}}}"
        yield Found(name, u, f"the commutator of those of {f.name} and {g.name}",
                    "a bracket of two conserved quantities", kind="bracket")  # fmt: skip


def charges_of(system: System) -> tuple[Found, ...]:
    """Everything that was shown to be conserved, the energy first."""
    energy = system.energy
    assert energy is not None
    found: list[Found] = []
    if system.is_open or not system.structure.keeps_energy:
        return ()
    if not system.driven:
        found.append(Found("energy", energy, "time", NO_TIME, kind="energy"))
    found += in_space(system, energy)
    found += by_numbers(system, found)
    for f in of_pairs(system, energy):
        if f.kind == "phase" and known_already(f, found, system):
            continue
        found.append(f)
    for name, u in system.structure.casimirs().items():
        found.append(Found(name, u, "none: a Casimir", "every energy keeps it", kind="casimir"))
    if system.bracket == CONSTRAINED:
        found = [f for f in found if f.kind == "energy" or keeps_constraints(f, system)]
    found += brackets_of(system, found)
    return tuple(found)


def keeps_constraints(f: Found, system: System) -> bool:
    """Does the motion that a quantity generates leave every constraint as it is?  Then no multiplier changes it."""
    if any(u.size > SMALL for u in (*system.tensor, *system.q)):
        return False  # not looked at number by number
    normal, ways = Normal(), gradient(f.expression, list(system.p))
    moved = unroll(jvp(list(system.tensor), list(system.q), ways))
    return all(normal.is_zero(x) for x in simplify([u for group in moved for u in group]))


def known_already(f: Found, known: Sequence[Found], system: System) -> bool:
    """Is it a function of the others, as the norm of an oscillator is of its energy?"""
    others = [g.expression for g in known if g.by_time is None and not g.condition]
    if f.condition or not others:
        return False
    if sum(q.size for q in system.q) <= SMALL:
        return not independent([f.expression], others, system)[0]
    return known[0].kind == "energy" and Normal().ratio(known[0].expression, f.expression) is not None
