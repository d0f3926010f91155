"""Which part of a rate is diagonal in Fourier space?  The part that exponential integrators solve.

A number of an expression that is linear in periodic fields, and treats all places alike, is the real part of
F_D(M_a u): the transform, along some axes D, of a field u each of whose waves was multiplied by a factor a(k), its
symbol. Transforms, sums, and products with what no state enters lead from such numbers to such numbers. Anything else,
an irregular grid or a factor that varies from place to place, is not linear in this sense: a missed yes costs long steps,
a wrong one would cost the solution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tinyphysics.facts import Fact
from tinyphysics.ir import UOp, toposort
from tinyphysics.ir.fourier import has_stages
from tinyphysics.ir.ops import ELEMENTWISE, Ops
from tinyphysics.rules.identities.real import simplify
from tinyphysics.system import GIVEN_BY, System

NAME = "linear in Fourier space"
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
        if p is not q:
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
    u = u.expand(shape)
    return 0.5 * (u + reflected(u) if sign > 0 else u - reflected(u))


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
        if (axis in axes) is (sign < 0):
            return None
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


# --- what is solved, and what is left ------------------------------------------------------------------------------------
def addends(u: UOp) -> list[UOp]:
    """With their signs."""
    if u.op is Ops.ADD:
        return addends(u.src[0]) + addends(u.src[1])
    if u.op is Ops.SUB:
        return addends(u.src[0]) + [-x for x in addends(u.src[1])]
    if u.op is Ops.NEG:
        return [-x for x in addends(u.src[0])]
    return [u]


@dataclass(frozen=True, eq=False)
class Spectral:
    """Of a field, or two that are a complex one: its symbol, and the rates that are left."""

    fields: tuple[UOp, ...]
    symbol: Symbol
    rest: tuple[UOp, ...]
    solved: tuple[UOp, ...]  # the addends that the symbol stands for


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


def spectral_part(system: System) -> Fact:
    """For each field of an @tp.ode what is solved in Fourier space: the part `groups`, a Spectral each."""
    if system.kind != "ode":
        return Fact.no(
            NAME, f"it is given by its {GIVEN_BY[system.kind]}: write its rates with @tp.ode", system.site
        )
    rates = dict(zip((s.var for s in system.states), system.update))
    groups: list[Spectral] = []
    lines: list[str] = []
    for fields in groups_of(system):
        waves = Waves(rates)
        split = [addends(rates[s]) for s in fields]
        solved, symbol = solvable(waves, fields, split, system)
        gone = set(solved)
        left = [[x for x in own if x not in gone] for own in split]
        rest = tuple(UOp.sum_of(own) if own else 0.0 * s for s, own in zip(fields, left))
        groups.append(Spectral(fields, symbol, rest, tuple(solved)))
        lines += [str(u) for u in solved]
    if not any(g.solved for g in groups):
        why = "no addend of the rates is a constant multiple of each wave: tp.dx(u, 2), or a product in np.fft.fftn(u)"
        lengths = {n for s in system.states for n in s.var.shape if n > 1 and not has_stages(n)}
        if lengths and any(u.op is Ops.FOURIER for u in toposort(system.update)):
            n = min(lengths)
            why = f"a transform of {n} numbers is put together of others: take a length up to 4,096 of factors up to 13"
        return Fact.no(NAME, why, system.site)
    first = next(u for g in groups for u in g.solved)
    count = sum(len(g.solved) for g in groups)
    site = next((system.sites[u] for u in toposort([first])[::-1] if u in system.sites), None)
    return Fact.yes(
        NAME, f"{count} of the addends multiply each wave by a number of its own", site, groups=tuple(groups)
    )


def groups_of(system: System) -> list[tuple[UOp, ...]]:
    """Fields one by one, those that are the parts of a complex one together; numbers alone are fields of one place."""
    by_name = {s.name: s.var for s in system.states}
    pairs = [tuple(by_name[n] for n in c.parts) for c in system.complexes if c.parts[0] in by_name]
    paired = {u for pair in pairs for u in pair}
    return [*pairs, *((s.var,) for s in system.states if s.var not in paired)]


def solvable(
    waves: Waves, fields: tuple[UOp, ...], split: Sequence[Sequence[UOp]], system: System
) -> tuple[list[UOp], Symbol]:
    """The addends that are solved, and their symbol."""
    if not fields[0].shape:
        return [], (None, None)
    total: Symbol = (None, None)
    every = [x for own in split for x in own]
    timed = {x for x in every if system.time is not None and system.time in x.leaves}
    found = {
        x: s
        for x in every
        if x not in timed and (s := linear_symbols(waves.of(x), fields[0].shape)) is not None
    }
    if len(fields) == 1:
        solved = [x for x in split[0] if x in found and set(found[x]) == {fields[0]}]
        for x in solved:
            total = plus(total, found[x][fields[0]])
        return solved, total
    sums = []
    solved = []
    for own in split:
        row: dict[UOp, Symbol] = {}
        for x in own:
            if x in found and set(found[x]) <= set(fields):
                solved.append(x)
                for u, a in found[x].items():
                    row[u] = plus(row[u], a) if u in row else a
        sums.append(row)
    symbol = own_symbol(sums, fields)
    return (solved, symbol) if symbol is not None else ([], (None, None))
