"""The modes of a small system at the parameters of all members, made together.

What a system is made of, which pairs are coupled and which directions have no stiffness, is found once from its energy.
Coefficients are computed in double-double with a bound of their error; where that does not tell a number from 0, they are
computed again in rational numbers. A member that is left out here is jumped with by itself (propagator.py).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np

from tinyphysics.device.linear.bounded import LARGEST, SMALLEST, Bounded
from tinyphysics.device.linear.damped_modes import DampedModes
from tinyphysics.device.linear.double_double import DD, ROUNDING, of_fraction, where
from tinyphysics.device.linear.few_modes import RELATIVE, FewModes, turned
from tinyphysics.device.linear.mixed_modes import MixedModes, eigenvalues
from tinyphysics.ir.ops import Ops
from tinyphysics.planner.choice.propagator import friction_rates
from tinyphysics.rules.calculus.affine import NotAffine
from tinyphysics.rules.calculus.hessian import Hessian, hessian
from tinyphysics.rules.calculus.laurent import Curvatures, Laurent, invariants
from tinyphysics.rules.formulas.friction import dissipation
from tinyphysics.system import System

Entry = tuple[str, int, int]  # the name of a matrix or a vector, row and column


class Few:
    """A small system, whatever its parameters are: its coefficients."""

    def __init__(self, system: System, entries: Mapping[Entry, Laurent]) -> None:
        self.system = system
        self.entries = {entry: x for entry, x in entries.items() if x}
        self.parameters = sorted({name for x in self.entries.values() for name in names(x)})

    def modes(self, params: Mapping[str, Any]) -> FewModes | MixedModes:
        """At the parameters of each member, (members or 1, shape...)."""
        width = max((len(params[name]) for name in self.parameters), default=1)
        with np.errstate(all="ignore"):
            values, zero, good, lost = self.coefficients(params, width)
            return self.solved(Table(values, zero, width), good, lost)

    @abstractmethod
    def solved(self, x: Table, good: Any, lost: Any) -> FewModes | MixedModes: ...

    @abstractmethod
    def exact_entries(self, h: Hessian) -> Mapping[Entry, Any]:
        """The same coefficients from rational numbers."""

    def exact_rates(self, own: Mapping[str, Any]) -> Mapping[Entry, Any]:
        """Those of friction."""
        return {}

    def coefficients(
        self, params: Mapping[str, Any], width: int
    ) -> tuple[dict[Entry, Bounded], dict[Entry, Any], Any, Any]:
        """(values (width,), where they are exactly 0, which members are known, and which have no numbers), by entries."""
        seen: dict[Any, Bounded] = {}
        values, zero, good = {}, {}, np.ones(width, bool)
        unknown, lost = np.zeros((2, width), bool)
        for entry, x in self.entries.items():
            found = evaluated(x, params, seen)
            unknown |= ~found.known
            high, low, off = np.empty((3, width))
            high[:], low[:], off[:] = found.value.high, found.value.low, found.off
            values[entry], zero[entry] = Bounded(DD(high, low), off), np.zeros(width, bool)
        for m in np.flatnonzero(unknown).tolist():
            exact = self.exactly(params, m)
            good[m], lost[m] = exact is not None, exact is None
            for entry, c in (exact or {}).items():
                values[entry].value[m] = DD(*of_fraction(c))
                values[entry].off[m] = abs(float(c)) * ROUNDING
                zero[entry][m] = c == 0
                good[m] &= c == 0 or SMALLEST < abs(c) < LARGEST
        return values, zero, good, lost

    def exactly(self, params: Mapping[str, Any], member: int) -> dict[Entry, Fraction] | None:
        """The coefficients of one member, in rational numbers; None where they are no numbers, such as 1/0."""
        s = self.system
        own = {
            name: [float(x) for x in v[member if len(v) > 1 else 0].reshape(-1)] for name, v in params.items()
        }
        assert s.energy is not None
        try:
            found = {**self.exact_entries(hessian(s.energy, s.q, s.p, own)), **self.exact_rates(own)}
        except NotAffine:
            return None
        return {entry: Fraction(found[entry]) for entry in self.entries}


class FewMixed(Few):
    """One or two pairs whose q and p are mixed."""

    def __init__(self, system: System, found: Curvatures) -> None:
        self.size = 2 * found.pairs
        a, g = found.generator()
        self.forced = any(g)
        trace, det = invariants(a)
        super().__init__(system, {**matrix_entries(a, g), ("t", 0, 0): trace, ("d", 0, 0): det})

    def exact_entries(self, h: Hessian) -> Mapping[Entry, Any]:
        rows = h.generator()[:-1]
        a = [row[:-1] for row in rows]
        trace, det = invariants(a)
        return {**matrix_entries(a, [row[-1] for row in rows]), ("t", 0, 0): trace, ("d", 0, 0): det}

    def solved(self, x: Table, good: Any, lost: Any) -> MixedModes:
        rows = np.arange(self.size)
        parts = [x.lines("a", rows, np.full(self.size, j))[0] for j in rows]
        a = DD(*(np.stack([getattr(part, word) for part in parts], axis=1) for word in ("high", "low")))
        g = x.lines("g", rows, np.zeros(self.size, int))[0] if self.forced else None
        one = np.zeros(1, int)
        if self.size == 2:
            m, zero = x.lines("t", one, one)
            return MixedModes(a, g, -m, zero, good, lost)
        no_det = x.lines("d", one, one)[1][0]
        values, known = eigenvalues(x.whole("t"), x.whole("d"), no_det)
        zero = np.stack([np.zeros_like(no_det), no_det])
        return MixedModes(a, g, -values, zero, good & known, lost)


def matrix_entries(a: Sequence[Sequence[Any]], g: Sequence[Any]) -> dict[Entry, Any]:
    return {("a", i, j): x for i, row in enumerate(a) for j, x in enumerate(row)} | {
        ("g", i, 0): x for i, x in enumerate(g)
    }


class FewSprings(Few):
    """Pairs that are alone, and pairs that are coupled two by two."""

    def __init__(self, system: System, found: Curvatures) -> None:
        components = found.components()
        self.single = np.array([c[0] for c in components if len(c) == 1], int)
        pairs = [c for c in components if len(c) == 2]
        assert len(self.single) + 2 * len(pairs) == found.pairs
        self.coupled = np.array(pairs, int).reshape(-1, 2).T
        self.still = np.array([found.still(c) for c in pairs], int)
        rows = {"k": found.stiffness, "w": found.inverse_mass}
        entries = {
            (name, i, j): x
            for name, part in rows.items()
            for i, row in enumerate(part)
            for j, x in row.items()
        }
        for name, line in (("f", found.force), ("b", found.drift)):
            entries |= {(name, i, 0): x for i, x in enumerate(line)}
        super().__init__(system, entries)
        self.forced = any(name in "fb" for name, _, _ in self.entries)

    def exact_entries(self, h: Hessian) -> Mapping[Entry, Any]:
        n, out = h.pairs, {}
        for name, i, j in self.entries:
            row = i + n * (name in "wb")
            out[name, i, j] = h.linear[row] if name in "fb" else h.rows[row].get(j + n * (name == "w"), 0)
        return out

    def solved(self, x: Table, good: Any, lost: Any) -> FewModes:
        """The modes of single pairs, and of those that are coupled two by two."""
        w, no_w = x.lines("w", self.single)
        k, no_k = x.lines("k", self.single)
        value = k * w
        parts = {"w": [w], "k": [k], "values": [value]}
        zeros, wrong = [no_w | no_k], [np.abs(value.high) * RELATIVE]
        lines = {name: [x.lines(name, self.single)[0]] for name in "fb"} if self.forced else {}
        nothing = DD(np.zeros((2, 2, 0, x.width)))
        back = nothing, nothing
        if self.coupled.size:
            w, stiff = (x.both(name, self.coupled) for name in "wk")
            good = good & (w.high > 0.0).all(axis=(0, 1))
            scale = where(w.high > 0.0, w, DD(np.ones_like(w.high))).sqrt()
            values, vectors, off = turned(w * stiff, x.lines("k", *self.coupled)[0] * (scale[0] * scale[1]))
            near, size = np.abs(values.high) <= off, np.abs(values.high)
            known = (near | (size >= 8.0 * off)).all(axis=0) & (near.sum(axis=0) == self.still[:, None])
            good = good & (known & np.isfinite(off)).all(axis=0)
            back = vectors * scale[:, None], vectors * (DD(1.0) / scale)[:, None]
            values = where(near, DD(np.zeros_like(size)), values)
            parts["w"] += [DD(np.ones_like(off))] * 2
            parts["k"] += [values[0], values[1]]
            parts["values"] += [values[0], values[1]]
            zeros += [*near]
            wrong += [off, off]
            for name, matrix in zip("fb", back) if self.forced else ():
                seen = matrix * x.both(name, self.coupled)[:, None]
                seen = seen[0] + seen[1]
                lines[name] += [seen[0], seen[1]]
        return FewModes(
            self.single,
            self.coupled,
            back,
            joined(parts["w"]),
            joined(parts["k"]),
            joined(lines["f"]) if self.forced else None,
            joined(lines["b"]) if self.forced else None,
            np.concatenate(zeros),
            joined(parts["values"]),
            np.concatenate(wrong),
            good,
            lost,
        )


class FewDamped(FewSprings):
    """The same with friction: one rate for each pair, the same for both of two that are coupled."""

    def __init__(self, system: System, found: Curvatures, rates: Sequence[Laurent]) -> None:
        super().__init__(system, found)
        self.entries |= {("g", i, 0): x for i, x in enumerate(rates) if x}
        self.parameters = sorted({name for x in self.entries.values() for name in names(x)})

    def exact_entries(self, h: Hessian) -> Mapping[Entry, Any]:
        own, self.entries = self.entries, {e: x for e, x in self.entries.items() if e[0] != "g"}
        try:
            return super().exact_entries(h)
        finally:
            self.entries = own

    def exact_rates(self, own: Mapping[str, Any]) -> Mapping[Entry, Any]:
        s = self.system
        rows = hessian(dissipation(s.p, s.friction), s.q, s.p, own).rows
        n = len(rows) // 2
        return {("g", i, 0): rows[n + i].get(n + i, 0) for i in range(n)}

    def solved(self, x: Table, good: Any, lost: Any) -> DampedModes:
        plain = super().solved(x, good, lost)
        rates = [x.lines("g", self.single)[0]] if len(self.single) else []
        if self.coupled.size:
            rates += [x.lines("g", self.coupled[0])[0]] * 2
        return DampedModes(**{f.name: getattr(plain, f.name) for f in fields(plain)}, g=joined(rates))


class Table:
    """Coefficients of all members; those that are not there are 0."""

    def __init__(self, values: Mapping[Entry, Bounded], zero: Mapping[Entry, Any], width: int) -> None:
        self.values, self.zero, self.width = values, zero, width

    def lines(self, name: str, rows: Any, columns: Any = None) -> tuple[DD, Any]:
        """(numbers, where they are exactly 0) of some pairs, (pairs, width)."""
        columns = (rows if name in "kw" else np.zeros_like(rows)) if columns is None else columns
        high, low = np.zeros((2, len(rows), self.width))
        zero = np.ones((len(rows), self.width), bool)
        for at, entry in enumerate((name, i, j) for i, j in zip(rows.tolist(), columns.tolist())):
            if entry in self.values:
                high[at], low[at], zero[at] = (
                    self.values[entry].value.high,
                    self.values[entry].value.low,
                    self.zero[entry],
                )
        return DD(high, low), zero

    def whole(self, name: str) -> Bounded:
        """A number of its own, with what it may be off by."""
        found = self.values.get((name, 0, 0))
        return Bounded(DD(np.zeros(self.width)), np.zeros(self.width)) if found is None else found

    def both(self, name: str, pairs: Any) -> DD:
        """(2, components, width), of pairs that are coupled."""
        found = self.lines(name, pairs.reshape(-1))[0]
        return DD(*(v.reshape(*pairs.shape, self.width) for v in (found.high, found.low)))


def joined(parts: list[DD]) -> DD:
    if len(parts) == 1:
        return parts[0]
    return DD(np.concatenate([x.high for x in parts]), np.concatenate([x.low for x in parts]))


def few_of(system: System, found: Curvatures) -> Few:
    if system.friction:
        rates = friction_rates(system)
        assert rates is not None
        return FewDamped(system, found, rates)
    return FewMixed(system, found) if found.mixed else FewSprings(system, found)


# --- coefficients -------------------------------------------------------------------------------------------
def names(x: Laurent) -> set[str]:
    """The parameters in it."""
    out: set[str] = set()
    for product in x.terms:
        for atom, _ in product:
            if isinstance(atom[0], str):
                out.add(atom[0])
            else:
                out |= names(inside(atom))
    return out


def inside(atom: Any) -> Laurent:
    """What a function is of."""
    return Laurent(dict(atom[1]))


def evaluated(x: Laurent, params: Mapping[str, Any], seen: dict[Any, Bounded]) -> Bounded:
    """At the parameters of all members."""
    if (key := x.key) in seen:
        return seen[key]
    out: Bounded | None = None
    for product, c in x.terms.items():
        term = None if c == 1 and product else Bounded.of(c)
        for atom, n in product:
            factor = power(atom, n, params, seen)
            term = factor if term is None else term * factor
        assert term is not None
        out = term if out is None else out + term
    seen[key] = Bounded.of(Fraction(0)) if out is None else out
    return seen[key]


def power(atom: Any, n: int, params: Mapping[str, Any], seen: dict[Any, Bounded]) -> Bounded:
    if (key := (atom, n)) in seen:
        return seen[key]
    if n < 0:
        out = power(atom, -n, params, seen).inverse()
    elif n > 1:
        out = power(atom, n - 1, params, seen) * power(atom, 1, params, seen)
    elif isinstance(atom[0], str):
        name, k = atom
        v = params[name]
        out = Bounded(DD(v.reshape(len(v), -1)[:, k]))
    else:
        own = evaluated(inside(atom), params, seen)
        out = own.root() if atom[0] is Ops.SQRT else own.inverse()
    seen[key] = out
    return out
