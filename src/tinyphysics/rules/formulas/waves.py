"""What does a linear, translation-invariant expression do to each wave of a periodic field?  It multiplies it by its symbol.

A number of an expression that is linear in periodic fields, and treats all places alike, is the real part of
F_D(M_a u): the transform, along some axes D, of a field u each of whose waves was multiplied by a factor a(k), its
symbol. Transforms, sums, and products with what no state enters lead from such numbers to such numbers. Anything else,
an irregular grid or a factor that varies from place to place, is not linear in this sense: a missed yes costs long steps,
a wrong one would cost the solution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tinyphysics.ir import PatternMatcher, UOp, UPat, graph_rewrite, substitute, toposort
from tinyphysics.ir.ops import ELEMENTWISE, Ops
from tinyphysics.ir.value import evaluate
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.identities.real import simplify

MOST_NUMBERS = 1 << 14  # of an axis
Part = UOp | None  # None is zero
Symbol = tuple[Part, Part]  # real and imaginary part
ONE = UOp.const(1.0)


# --- arithmetic of symbols ------------------------------------------------------------------------------------------------
def add(a: Part, b: Part) -> Part:
    if a is None or b is None:
        return b if a is None else a
    return a - b.src[0] if b.op is Ops.NEG else a + b


def neg(a: Part) -> Part:
    """Signs stand outside, so that what is the same looks the same."""
    if a is None or a.op is Ops.NEG:
        return a if a is None else a.src[0]
    return -a


def mul(a: Part, g: UOp) -> Part:
    if g.op is Ops.CONST and g.arg < 0:
        return neg(mul(a, UOp.const(-g.arg, g.dtype, g.shape)))
    if a is None or a is ONE:
        return a if a is None else g
    return neg(mul(a.src[0], g)) if a.op is Ops.NEG else a * g


def plus(a: Symbol, b: Symbol) -> Symbol:
    return add(a[0], b[0]), add(a[1], b[1])


def minus(a: Symbol) -> Symbol:
    return neg(a[0]), neg(a[1])


def times_i(a: Symbol) -> Symbol:
    return neg(a[1]), a[0]


def scaled(a: Symbol, g: UOp) -> Symbol:
    return mul(a[0], g), mul(a[1], g)


def is_zero(a: Symbol) -> bool:
    return a[0] is None and a[1] is None


def same(a: Symbol, b: Symbol) -> bool:
    """Are they shown to be the same, part by part?"""
    for x, y in zip(a, b):
        if x is y:
            continue
        if x is None or y is None:
            return False
        (p, q) = simplify([x.expand(y.shape) if x.shape != y.shape else x, y])
        if p is not q and not Normal().same(p, q):
            return False
    return True


def reflected(u: UOp) -> UOp:
    """At -k, along all axes of an array."""
    axes = [a for a, n in enumerate(u.shape) if n > 1]
    return u.flip(axes).roll((1,) * len(axes), tuple(axes)) if axes else u


def of_real_field(a: Symbol, shape: tuple[int, ...]) -> Symbol:
    """The symbol of the real part of M_a u: half of a(k) and the conjugate of a(-k)."""
    re, im = a
    return re if re is ONE else even_part(re, 1.0, shape), even_part(im, -1.0, shape)


def even_part(u: Part, sign: float, shape: tuple[int, ...]) -> Part:
    """Half of it and of itself at -k; with the sign -1, of what is odd."""
    if u is None or u.op is Ops.CONST and sign > 0:
        return u
    if u.op is Ops.NEG:
        return neg(even_part(u.src[0], sign, shape))
    if known := parity(u):
        return u if known == sign else None
    u = u.expand(shape)
    return 0.5 * (u + reflected(u) if sign > 0 else u - reflected(u))


# --- even and odd ---------------------------------------------------------------------------------------------------------
BOTH = 2  # the parity of nothing, which is even and odd


@lru_cache(maxsize=256)
def parity(u: UOp) -> int:
    """1 of what is shown to be even in k, -1 of what is odd, 0 where neither is shown; k runs along all axes."""
    found: dict[UOp, int] = {}
    for x in toposort([u]):
        found[x] = parity_of(x, found)
    return 1 if found[u] == BOTH else found[u]


def parity_of(u: UOp, found: Mapping[UOp, int]) -> int:
    if u.op is Ops.CONST:
        return BOTH if u.arg == 0 else 1
    if not u.shape:
        return 1
    of = [found[s] for s in u.src]
    if (own := along_axis(u)) is not None:
        return parity_of_numbers(own[1])
    if u.op is Ops.EXPAND:
        return of[0]
    if u.op is Ops.RESHAPE:
        (old, new) = ([n for n in x.shape if n > 1] for x in (u.src[0], u))
        return of[0] if old == new else 0
    if u.op in (Ops.ADD, Ops.SUB):
        a, b = of
        return a if b == BOTH else b if a == BOTH or a == b else 0
    if u.op is Ops.MUL or as_product(u) is not None:
        return parity_of_product(u, found)
    if u.op is Ops.DIV:
        return of[0] if of[0] == BOTH else 0 if of[1] == BOTH else of[0] * of[1]
    if u.op is Ops.NEG:
        return of[0]
    if u.op in ELEMENTWISE and all(p in (1, BOTH) for p in of):
        return 1
    return 0


def along_axis(u: UOp) -> tuple[int, UOp] | None:
    """(axis, numbers) of an array that holds known numbers along one axis, and the same along the others."""
    if u.leaves or not u.dtype.is_float:
        return None
    x, before = u, 0
    while x.op is Ops.EXPAND:
        before += x.ndim - x.src[0].ndim
        x = x.src[0]
    long = [a for a, n in enumerate(x.shape) if n > 1]
    if len(long) != 1 or x.size > MOST_NUMBERS or x.op is Ops.CONST:
        return None
    return before + long[0], x.reshape(x.size)


def as_product(u: UOp) -> tuple[UOp, UOp] | None:
    """What is 0 where a known condition holds, or does not, as a mask and the rest."""
    if u.op is not Ops.WHERE or u.src[0].leaves or not u.leaves:
        return None
    where, this, that = u.src
    if nothing(this):
        return where.where(0.0, 1.0), that
    return (where.where(1.0, 0.0), this) if nothing(that) else None


def parity_of_product(u: UOp, found: Mapping[UOp, int]) -> int:
    """Of all numbers along one axis together: k and a factor that is 0 at the last wave are odd as a product alone."""
    numbers: dict[int, UOp] = {}
    out, waiting = 1, [u]
    while waiting:
        x = waiting.pop()
        if x.op is Ops.MUL:
            waiting += x.src
        elif (
            x.op is Ops.NEG
            or x.op is Ops.EXPAND
            and x.src[0].ndim == x.ndim
            and x.src[0].op is not Ops.RESHAPE
        ):
            waiting.append(x.src[0])
        elif (masked := as_product(x)) is not None:
            waiting += masked
        elif (own := along_axis(x)) is not None:
            axis, values = own
            numbers[axis] = numbers[axis] * values if axis in numbers else values
        else:
            known = found[x] if x in found else parity_of(x, {s: parity(s) for s in x.src})
            if known == BOTH:
                return BOTH
            out *= known
    for values in numbers.values():
        sign = parity_of_numbers(values)
        if sign == BOTH:
            return BOTH
        out *= sign
    return out


def parity_of_numbers(u: UOp) -> int:
    """Exactly: of known numbers along a circle."""
    values: Any = evaluate([u], {})[0]
    back = [values[-j] for j in range(len(values))]
    if not any(values):
        return BOTH
    return 1 if back == values else -1 if [-x for x in back] == values else 0


# --- waves -----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Wave:
    """The sum over fields u of the real parts of F_D(M_a u)."""

    axes: frozenset[int]
    symbols: Mapping[UOp, Symbol]

    def each(self, f: Callable[[Symbol], Symbol]) -> Wave:
        return Wave(self.axes, {s: f(a) for s, a in self.symbols.items()})


def varies_along(u: UOp, axis: int) -> bool:
    """May an array have other numbers at other places of an axis?"""
    if u.op in (Ops.CONST, Ops.VAR) and not u.shape:
        return False
    if u.op is Ops.CONST or u.shape[axis] == 1:
        return False
    if u.op is Ops.EXPAND:
        own = axis - (u.ndim - u.src[0].ndim)
        return own >= 0 and varies_along(u.src[0], own)
    if u.op is Ops.RESHAPE:
        old, new = u.src[0].shape, u.shape
        long = [a for a, n in enumerate(old) if n > 1]
        if [old[a] for a in long] != [n for n in new if n > 1]:
            return True
        place = [a for a, n in enumerate(new) if n > 1].index(axis)
        return varies_along(u.src[0], long[place])
    if u.op in ELEMENTWISE and all(s.shape in (u.shape, ()) for s in u.src):
        return any(s.shape and varies_along(s, axis) for s in u.src)
    return True


class Waves:
    """Reads expressions as waves of some fields."""

    def __init__(self, fields: Iterable[UOp], atoms: bool = False) -> None:
        self.fields = frozenset(fields)
        self.atoms = atoms  # are numbers that are no waves fields of their own?
        self.found: dict[UOp, Wave | None] = {}
        self.states = self.fields

    def free(self, u: UOp) -> bool:
        return not u.leaves & self.states

    def of(self, root: UOp) -> Wave | None:
        """The wave that an expression is, if it is shown to be one."""
        for u in toposort([root]):
            if u not in self.found:
                self.found[u] = None if self.free(u) else self.read(u)
        return self.found[root]

    def read(self, u: UOp) -> Wave | None:
        known = self.known(u)
        if known is None and self.atoms and u.shape:
            return Wave(frozenset(), {u: (ONE, None)})
        return known

    def known(self, u: UOp) -> Wave | None:
        if u in self.fields:
            return Wave(frozenset(), {u: (ONE, None)})
        if u.op is Ops.FOURIER:
            return self.transformed(u)
        if u.op is Ops.NEG:
            w = self.found[u.src[0]]
            return None if w is None else w.each(minus)
        if u.op in (Ops.ADD, Ops.SUB):
            a, b = (self.found[s] for s in u.src)
            if a is None or b is None or a.axes != b.axes:
                return None
            return joined(a, b if u.op is Ops.ADD else b.each(minus))
        if u.op is Ops.MUL:
            for k in (0, 1):
                if self.free(u.src[1 - k]):
                    return self.product(u.src[k], u.src[1 - k])
        if u.op is Ops.DIV and self.free(u.src[1]):
            return self.product(u.src[0], ONE / u.src[1])
        if u.op is Ops.WHERE and self.free(u.src[0]):
            where, this, that = u.src
            for x, other, g in ((this, that, where.where(1.0, 0.0)), (that, this, where.where(0.0, 1.0))):
                if nothing(other):
                    return self.product(x, g)
        return None

    def product(self, x: UOp, g: UOp) -> Wave | None:
        """Times an array that no state enters: the same at all places, and along D as it is."""
        w = self.found[x]
        if (
            w is None
            or g.shape
            and any(varies_along(g, a) for a in range(g.ndim) if g.shape[a] > 1 and a not in w.axes)
        ):
            return None
        return w.each(lambda a: scaled(a, g))

    def transformed(self, u: UOp) -> Wave | None:
        part, sign, axis = u.arg
        parts = [self.found[s] for s in u.src]
        if parts[0] is None and not (self.free(u.src[0]) and nothing(u.src[0])):
            return None
        if parts[1] is None and not (self.free(u.src[1]) and nothing(u.src[1])):
            return None
        known = [w for w in parts if w is not None]
        if not known or any(w.axes != known[0].axes for w in known):
            return None
        axes = known[0].axes
        if (axis in axes) is (
            sign < 0
        ):  # x + iy = i conj(y + ix), and so are their transforms of opposite signs
            parts, part, sign = parts[::-1], 1 - part, -sign
        out: dict[UOp, Symbol] = {}
        for s in dict.fromkeys(s for w in known for s in w.symbols):
            a, b = ((None, None) if w is None else w.symbols.get(s, (None, None)) for w in parts)
            if axes and not same(b, minus(times_i(a))):
                return None
            z = a if axes else plus(of_real_field(a, u.shape), times_i(of_real_field(b, u.shape)))
            if sign > 0:
                z = scaled(z, UOp.const(float(u.shape[axis])))
            out[s] = minus(times_i(z)) if part else z
        return Wave(axes | {axis} if sign < 0 else axes - {axis}, out)


def nothing(u: UOp) -> bool:
    while u.op in (Ops.EXPAND, Ops.RESHAPE):
        u = u.src[0]
    return u.op is Ops.CONST and u.arg == 0


def joined(a: Wave, b: Wave) -> Wave:
    out = dict(a.symbols)
    for s, x in b.symbols.items():
        out[s] = plus(out[s], x) if s in out else x
    return Wave(a.axes, out)


def linear_symbols(w: Wave | None, shape: tuple[int, ...]) -> dict[UOp, Symbol] | None:
    """Of a real field that is a wave, the symbol by which each field enters."""
    if w is None or w.axes:
        return None
    return {s: of_real_field(a, shape) for s, a in w.symbols.items()}


def own_symbol(found: Sequence[Mapping[UOp, Symbol]], fields: Sequence[UOp]) -> Symbol | None:
    """The symbol of fields that are multiplied as one real, or one complex number; None if they are not."""
    none: Symbol = (None, None)
    if len(fields) == 1:
        return found[0].get(fields[0], none) if set(found[0]) <= set(fields) else None
    if any(not set(f) <= set(fields) for f in found):
        return None
    (a, b), (c, d) = ([f.get(s, none) for s in fields] for f in found)
    if not (same(d, a) and same(b, minus(c))):
        return None
    return plus(a, times_i(c))


# --- sums of transforms ---------------------------------------------------------------------------------------------------
def summands(u: UOp, minus: bool = False) -> Iterator[tuple[UOp, bool]]:
    """Those of a sum, and whether each is subtracted."""
    if u.op in (Ops.ADD, Ops.SUB):
        yield from summands(u.src[0], minus)
        yield from summands(u.src[1], minus != (u.op is Ops.SUB))
    elif u.op is Ops.NEG:
        yield from summands(u.src[0], not minus)
    else:
        yield u, minus


def total(items: Sequence[tuple[UOp, bool]]) -> UOp:
    """A sum with signs; zeros are left out."""
    out: UOp | None = None
    for u, minus in items:
        if not nothing(u):
            out = (-u if minus else u) if out is None else out - u if minus else out + u
    return UOp.const(0.0, items[0][0].dtype, items[0][0].shape) if out is None else out


def paired(u: UOp) -> UOp | None:
    """The sum of transforms of one kind is that of their sum: Re F(x + iy), where Im F(x + iy) is Re F(y - ix)."""
    kinds: dict[tuple[int, int], list[tuple[UOp, bool]]] = {}
    rest: list[tuple[UOp, bool]] = []
    for x, minus in summands(u):
        if x.op is Ops.FOURIER:
            kinds.setdefault(x.arg[1:], []).append((x, minus))
        else:
            rest.append((x, minus))
    if all(len(own) < 2 for own in kinds.values()):
        return None
    for (sign, axis), own in kinds.items():
        if len(own) < 2:
            rest += own
            continue
        re = [(x.src[1], minus) if x.arg[0] else (x.src[0], minus) for x, minus in own]
        im = [(x.src[0], not minus) if x.arg[0] else (x.src[1], minus) for x, minus in own]
        rest.append((UOp(Ops.FOURIER, u.dtype, u.shape, (total(re), total(im)), (0, sign, axis)), False))
    return total(rest)


PAIRED = PatternMatcher([(UPat((Ops.ADD, Ops.SUB), name="u"), paired)])


def in_pairs(roots: Sequence[UOp]) -> list[UOp]:
    """Derivatives of spectral energies, with their sums of transforms of real arrays as transforms of complex ones.

    >>> x, y = UOp.var("x", (4,)), UOp.var("y", (4,))
    >>> a, b = (UOp(Ops.FOURIER, x.dtype, (4,), (u, UOp.const(0.0, x.dtype, (4,))), (k, -1, 0)) for u, k in ((x, 0), (y, 1)))
    >>> in_pairs([a - b])
    [fft(x, y).real]
    """
    return graph_rewrite(list(roots), PAIRED)


# --- complex fields that an energy turns wave by wave ---------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Phase:
    """A complex field q + i scale*p turns by exp(i rate t): number by number, or wave by wave along some axes."""

    pair: tuple[UOp, UOp]
    scale: float
    rate: UOp
    axes: tuple[int, ...] = ()


def turned_waves(energy: UOp, pairs: Sequence[tuple[UOp, UOp]], scale: float) -> list[Phase] | None:
    """The fields that a quadratic energy turns wave by wave; None where that is not shown.

    With z = q + i scale*p the motion q' = dH/dp, p' = -dH/dq is z' = M z, and M has a symbol without a real part.
    """
    flat = {p: UOp.var(f"{p.arg} times {scale:g}", p.shape, p.dtype) for _, p in pairs}
    (seen,) = simplify(substitute([energy], {p: x * (1.0 / scale) for p, x in flat.items()}))
    fields = [x for q, p in pairs for x in (q, flat[p])]
    slopes = dict(zip(fields, in_pairs(simplify(gradient(seen, fields)))))
    waves = Waves(fields)
    axes: dict[tuple[int, ...], set[int]] = {}
    for u in toposort(list(slopes.values())):
        if u.op is Ops.FOURIER:
            axes.setdefault(u.shape, set()).add(u.arg[2])
    out = []
    for q, p in pairs:
        rates = [slopes[flat[p]], -slopes[q]]
        if nothing(slopes[q]) and nothing(slopes[flat[p]]):
            continue
        found = [linear_symbols(waves.of(u), q.shape) for u in rates]
        if any(f is None for f in found):
            return None
        symbol = own_symbol([f for f in found if f is not None], (q, flat[p]))
        if symbol is None or symbol[0] is not None or symbol[1] is None:
            return None
        out.append(Phase((q, p), scale, symbol[1] * scale, tuple(sorted(axes.get(q.shape, ())))))
    return out
