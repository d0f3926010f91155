"""How is a field stepped whose linear part is known wave by wave?  That part by its exponential, the rest by Runge and Kutta.

u' = Lu + N(u), with L a factor for each wave. `etdrk4` integrates polynomials through N against exp(Lt), by the functions phi
(Cox and Matthews 2002; Kassam and Trefethen 2005 have the stages as here). `ifrk4` steps exp(-Lt)u by the classical method
(Lawson 1967). Fields are transformed where a step begins; what N needs of them, slopes and filtered fields, is made from the
transforms that exist, and what is linear behind its products stays in Fourier space: a product costs one transform.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tinyphysics.analysis.spectral import Spectral
from tinyphysics.flows.map import Map
from tinyphysics.ir import Ops, UOp, substitute, toposort
from tinyphysics.rules.formulas.fourier import transform
from tinyphysics.rules.formulas.phi import Number, filled, phis, scaled, sum_of, times
from tinyphysics.rules.formulas.waves import Symbol, Waves, linear_symbols
from tinyphysics.step import DT, Step
from tinyphysics.system import System
from tinyphysics.util import prod

TOGETHER = 8  # numbers of a vector
Fields = list[Number]  # of each group, its transform
Rates = Callable[[Fields, float], Fields]  # N at some fields, so many steps after the beginning


@dataclass(frozen=True, eq=False)
class Problem:
    system: System
    groups: tuple[Spectral, ...]

    # --- transforms ---------------------------------------------------------------------------------------
    @cached_property
    def axes(self) -> dict[tuple[int, ...], tuple[int, ...]]:
        """Along which axes the fields of a shape are transformed: all along which any rate transforms them."""
        found: dict[tuple[int, ...], set[int]] = {}
        for u in toposort(self.system.update):
            if u.op is Ops.FOURIER:
                found.setdefault(u.shape, set()).add(u.arg[2])
        return {shape: tuple(sorted(axes)) for shape, axes in found.items()}

    def along(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self.axes.get(shape, ())

    def forward(self, z: Number, shape: tuple[int, ...]) -> Number:
        for a in reversed(self.along(shape)):
            z = transform((filled(z[0], shape), filled(z[1], shape)), -1, a)
        return z

    def back(self, z: Number, shape: tuple[int, ...]) -> Number:
        axes = self.along(shape)
        z = scaled(z, 1.0 / prod(shape[a] for a in axes))
        for a in axes:
            z = transform((filled(z[0], shape), filled(z[1], shape)), 1, a)
        return z

    # a real field has the wave -k from k: of the last axis that is transformed, half of the waves are kept
    def half_of(self, z: Number, shape: tuple[int, ...]) -> Number:
        """Numbers of all waves, of those that are kept."""
        axis, n = self.along(shape)[-1], shape[self.along(shape)[-1]]
        kept = [(0, waves_kept(n) if a == axis else k, 1) for a, k in enumerate(shape)]
        re, im = (p if p is None or not p.shape else p.expand(shape).slice(kept) for p in z)
        return re, im

    def forward_real(self, u: UOp, shape: tuple[int, ...]) -> Number:
        *others, last = self.along(shape)
        z: Number = self.half_of(transform((u.expand(shape), filled(None, shape)), -1, last), shape)
        for a in reversed(others):
            z = transform(both(z), -1, a)
        return z

    def back_real(self, fields: Sequence[Number], shape: tuple[int, ...]) -> list[UOp]:
        """One real field, or two: they are the parts of one complex transform along the last axis."""
        *others, last = self.along(shape)
        n = shape[last]
        size = tuple(waves_kept(n) if a == last else k for a, k in enumerate(shape))
        found: list[tuple[UOp, UOp]] = []
        for z in fields:
            z = scaled(z, 1.0 / prod(shape[a] for a in self.along(shape)))
            z = filled(z[0], size), filled(z[1], size)
            for a in others:
                z = transform(both(z), 1, a)
            found.append(both(z))
        half = [(0, n // 2 + 1 if a == last else k, 1) for a, k in enumerate(size)]
        inner = [(1, (n + 1) // 2, 1) if a == last else (0, k, 1) for a, k in enumerate(size)]
        (re, im), *more = found
        there, back = (re, im), (re, -im)
        for second in more:  # i times the other, and of the waves -k its conjugate
            there, back = (re - second[1], im + second[0]), (re + second[1], second[0] - im)

        def whole(x: UOp, y: UOp) -> UOp:
            first = x.slice(half)
            if n < 3:
                return first
            return UOp(Ops.CONCAT, x.dtype, shape, (first, y.slice(inner).flip((last,))), last)

        z = whole(there[0], back[0]), whole(there[1], back[1])
        return list(transform(both(z), 1, last))[: len(fields)]

    def symbol_of(self, g: Spectral) -> Number:
        """Of the waves that are kept."""
        shape = g.fields[0].shape
        return self.half_of(g.symbol, shape) if self.is_real(g) else g.symbol

    def is_real(self, g: Spectral) -> bool:
        return len(g.fields) == 1 and bool(self.along(g.fields[0].shape))

    def begin(self) -> Fields:
        return [
            self.forward_real(g.fields[0], g.fields[0].shape)
            if self.is_real(g)
            else self.forward((g.fields[0], g.fields[1] if len(g.fields) == 2 else None), g.fields[0].shape)
            for g in self.groups
        ]

    def end(self, fields: Fields) -> list[tuple[UOp, UOp]]:
        out: list[tuple[UOp, UOp]] = []
        for g, z in zip(self.groups, fields):
            shape = g.fields[0].shape
            if self.is_real(g):
                out.append((g.fields[0], self.back_real([z], shape)[0]))
                continue
            out += [(s, filled(p, shape)) for s, p in zip(g.fields, self.back(z, shape))]
        return out

    # --- what is not solved -------------------------------------------------------------------------------
    @cached_property
    def inner(self) -> Waves:
        return Waves(s for g in self.groups for s in g.fields)

    @cached_property
    def alone(self) -> dict[UOp, int]:
        """The real fields, and which group each is."""
        return {g.fields[0]: k for k, g in enumerate(self.groups) if len(g.fields) == 1}

    def products(self, g: Spectral) -> list[tuple[UOp, Symbol]] | None:
        """A real rate as fields that are multiplied wave by wave; None where it is one as it stands."""
        (rest,) = g.rest
        w = Waves((s for x in self.groups for s in x.fields), atoms=True).of(rest)
        found = linear_symbols(w, rest.shape)
        return None if found is None else list(found.items())

    def made(self, u: UOp) -> dict[int, Symbol] | None:
        """A real field that is made of transforms which exist: by which symbol, of which group."""
        if u.op not in (Ops.FOURIER, Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.DIV) and u not in self.alone:
            return None
        found = linear_symbols(self.inner.of(u), u.shape)
        if found is None or any(s not in self.alone or s.shape != u.shape for s in found):
            return None
        return {self.alone[s]: a for s, a in found.items()}

    def wanted(self, roots: Sequence[UOp]) -> list[UOp]:
        """The largest parts of some expressions that are made of transforms."""
        found: dict[UOp, None] = {}
        seen: set[UOp] = set()
        stack = list(reversed(roots))
        while stack:
            u = stack.pop()
            if u in seen or not u.leaves:
                continue
            seen.add(u)
            if self.made(u) is not None:
                found[u] = None
            else:
                stack += reversed(u.src)
        return list(found)

    def rates(self, fields: Fields, after: float) -> Fields:
        plans = [
            self.products(g) if len(g.fields) == 1 and self.along(g.fields[0].shape) else None
            for g in self.groups
        ]
        roots = [
            u
            for g, plan in zip(self.groups, plans)
            for u in (g.rest if plan is None else [p for p, _ in plan])
        ]
        table = self.real_fields(roots, fields)
        if self.system.time is not None and after:
            table[self.system.time] = self.system.time + after * DT
        new = dict(zip(roots, substitute(roots, table)))
        out: Fields = []
        for g, plan in zip(self.groups, plans):
            shape = g.fields[0].shape
            if plan is None and self.is_real(g):
                out.append(self.forward_real(new[g.rest[0]], shape))
            elif plan is None:
                own = [new[u] for u in g.rest]
                out.append(self.forward((own[0], own[1] if len(own) == 2 else None), shape))
            else:
                waves = ((self.half_of(a, shape), self.forward_real(new[p], shape)) for p, a in plan)
                out.append(sum_of(*(times(a, z) for a, z in waves)))
        return out

    def real_fields(self, roots: Sequence[UOp], fields: Fields) -> dict[UOp, UOp]:
        """What expressions need of fields, in space; two real fields are one complex transform."""
        wanted = [u for u in self.wanted(roots) if self.along(u.shape)]
        table: dict[UOp, UOp] = {}
        by_shape: dict[tuple[int, ...], list[UOp]] = {}
        for u in wanted:
            by_shape.setdefault(u.shape, []).append(u)
        for shape, own in by_shape.items():
            spectra = [
                sum_of(*(times(self.half_of(a, shape), fields[k]) for k, a in (self.made(u) or {}).items()))
                for u in own
            ]
            for k in range(0, len(own), 2):
                table |= dict(zip(own[k : k + 2], self.back_real(spectra[k : k + 2], shape)))
        for g, z in zip(self.groups, fields):
            shape = g.fields[0].shape
            if len(g.fields) == 2 or not self.along(shape):
                table |= dict(zip(g.fields, (filled(p, shape) for p in self.back(z, shape))))
        return table


def waves_kept(n: int) -> int:
    """Half of them, and so many more that vectors are full."""
    return min(n, (n // 2 // TOGETHER + 1) * TOGETHER)


def both(z: Number) -> tuple[UOp, UOp]:
    """A number with both of its parts."""
    re, im = z
    known = re if re is not None else im
    assert known is not None
    return filled(re, known.shape), filled(im, known.shape)


def etdrk4(p: Problem) -> list[tuple[UOp, UOp]]:
    v, h = p.begin(), DT
    symbols = [p.symbol_of(g) for g in p.groups]
    whole = [phis(scaled(symbol, h)) for symbol in symbols]
    half = [phis(scaled(symbol, 0.5 * h), 1) for symbol in symbols]
    E = [f[0] for f in whole]
    E2 = [f[0] for f in half]
    Q = [scaled(f[1], 0.5 * h) for f in half]
    first = [scaled(sum_of(a, scaled(b, -3.0), scaled(c, 4.0)), h) for _, a, b, c in whole]
    middle = [scaled(sum_of(scaled(b, 2.0), scaled(c, -4.0)), h) for _, _, b, c in whole]
    last = [scaled(sum_of(scaled(b, -1.0), scaled(c, 4.0)), h) for _, _, b, c in whole]

    def moved(by: list[Number], at: Fields, rates: Fields) -> Fields:
        return [sum_of(times(e, x), times(q, n)) for e, x, q, n in zip(by, at, Q, rates)]

    n0 = p.rates(v, 0.0)
    a = moved(E2, v, n0)
    n1 = p.rates(a, 0.5)
    b = moved(E2, v, n1)
    n2 = p.rates(b, 0.5)
    c = moved(E2, a, [sum_of(scaled(y, 2.0), scaled(x, -1.0)) for x, y in zip(n0, n2)])
    n3 = p.rates(c, 1.0)
    return p.end(
        [
            sum_of(times(e, x), times(f1, k0), times(f2, sum_of(k1, k2)), times(f3, k3))
            for e, x, f1, f2, f3, k0, k1, k2, k3 in zip(E, v, first, middle, last, n0, n1, n2, n3)
        ]
    )


def ifrk4(p: Problem) -> list[tuple[UOp, UOp]]:
    v, h = p.begin(), DT
    symbols = [p.symbol_of(g) for g in p.groups]
    E, E2 = ([phis(scaled(symbol, k), 0)[0] for symbol in symbols] for k in (h, 0.5 * h))
    n0 = p.rates(v, 0.0)
    a = [times(e, sum_of(x, scaled(k, 0.5 * h))) for e, x, k in zip(E2, v, n0)]
    n1 = p.rates(a, 0.5)
    b = [sum_of(times(e, x), scaled(k, 0.5 * h)) for e, x, k in zip(E2, v, n1)]
    n2 = p.rates(b, 0.5)
    c = [sum_of(times(e, x), scaled(times(f, k), h)) for e, f, x, k in zip(E, E2, v, n2)]
    n3 = p.rates(c, 1.0)
    return p.end(
        [
            sum_of(
                times(e, sum_of(x, scaled(k0, h / 6.0))),
                scaled(times(f, sum_of(k1, k2)), h / 3.0),
                scaled(k3, h / 6.0),
            )
            for e, f, x, k0, k1, k2, k3 in zip(E, E2, v, n0, n1, n2, n3)
        ]
    )


METHODS: dict[str, Callable[[Problem], list[tuple[UOp, UOp]]]] = {"etdrk4": etdrk4, "ifrk4": ifrk4}


def exponential_step(name: str, system: System, groups: tuple[Spectral, ...]) -> Step:
    values = METHODS[name](Problem(system, groups))
    order = {s.var: k for k, s in enumerate(system.states)}
    values = sorted(values, key=lambda x: order[x[0]])
    return Step.of(system, name, (), (), 4, body=(Map(tuple(values), declares_dt=True),))
