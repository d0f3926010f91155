"""Which energies turn phases only?  Those of |z|**2 of complex fields: each number keeps its size, and its rate.

Of a canonical pair z = q + i s p is a complex number, and V(|z|**2) moves it by z' = -2i s V'(|z|**2) z. No |z|**2 changes
meanwhile, so neither do the rates: after a time h it is z exp(-2i s V' h). V' may read |z|**2 at all other places too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import isqrt

from tinyphysics.ir import UOp, substitute, toposort
from tinyphysics.ir.ops import Ops
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.formulas.fourier import transform
from tinyphysics.rules.formulas.phi import Number, exponential, filled, times
from tinyphysics.rules.formulas.waves import Phase, nothing, parity, turned_waves
from tinyphysics.rules.identities.real import simplify
from tinyphysics.util import prod

Pairs = Sequence[tuple[UOp, UOp]]
Square = tuple[UOp, Fraction]  # c*x*x of a state x


def number(u: UOp) -> Fraction | None:
    """The constant that an array repeats."""
    while u.op in (Ops.EXPAND, Ops.RESHAPE):
        u = u.src[0]
    return Fraction(u.arg) if u.op is Ops.CONST and u.dtype.is_float and abs(u.arg) < float("inf") else None


def square(u: UOp, states: frozenset[UOp]) -> Square | None:
    """(x, c) with u = c*x*x."""
    c, found, waiting = Fraction(1), [], [u]
    while waiting:
        x = waiting.pop()
        if x in states:
            found.append(x)
        elif x.op is Ops.MUL:
            waiting += x.src
        elif x.op is Ops.NEG:
            c, waiting = -c, [*waiting, x.src[0]]
        elif x.op is Ops.POW and number(x.src[1]) == 2:
            waiting += [x.src[0]] * 2
        elif x.op is Ops.DIV and number(x.src[1]):
            c, waiting = c / (number(x.src[1]) or 1), [*waiting, x.src[0]]
        elif (known := number(x)) is not None:
            c *= known
        else:
            return None
        if len(found) > 2:
            return None
    return (found[0], c) if len(found) == 2 and found[0] is found[1] else None


def addends(u: UOp, minus: bool = False) -> Iterator[tuple[UOp, bool]]:
    """Those of a sum, and whether each is subtracted."""
    if u.op in (Ops.ADD, Ops.SUB):
        yield from addends(u.src[0], minus)
        yield from addends(u.src[1], minus != (u.op is Ops.SUB))
    elif u.op is Ops.FMA:
        yield u.src[0] * u.src[1], minus
        yield from addends(u.src[2], minus)
    else:
        yield u, minus


def root(x: Fraction) -> Fraction | None:
    """The positive rational whose square it is."""
    if x <= 0:
        return None
    a, b = isqrt(x.numerator), isqrt(x.denominator)
    return Fraction(a, b) if a * a == x.numerator and b * b == x.denominator else None


class Intensities:
    """Reads an energy as a function of q**2 + (s p)**2 of pairs."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = list(pairs)
        self.states = frozenset(x for pair in pairs for x in pair)
        self.scales: dict[int, Fraction] = {}  # of the pairs that were met
        self.seen = [UOp.var(f"size of {q.arg}", q.shape, q.dtype) for q, _ in self.pairs]

    def of(self, energy: UOp) -> UOp | None:
        """The energy with a variable for each |z|**2; None where something else of a state is in it."""
        new: dict[UOp, UOp] = {}
        for u in toposort([energy]):
            own = self.sum_of_squares(u, new) if u.op in (Ops.ADD, Ops.SUB, Ops.FMA) else None
            new[u] = u.replace(tuple(new[s] for s in u.src)) if own is None else own
        return None if new[energy].leaves & self.states else new[energy]

    def sum_of_squares(self, u: UOp, new: dict[UOp, UOp]) -> UOp | None:
        squares: dict[UOp, Fraction] = {}
        rest: list[tuple[UOp, bool]] = []
        for x, minus in addends(u):
            found = square(x, self.states)
            if found is None:
                rest.append((x, minus))
                continue
            state, c = found
            squares[state] = squares.get(state, Fraction(0)) + (-c if minus else c)
        out: list[UOp] = []
        for k, (q, p) in enumerate(self.pairs):
            a, b = squares.pop(q, None), squares.pop(p, None)
            if a is None and b is None:
                continue
            s = root(b / a) if a and b else None
            if s is None or self.scales.setdefault(k, s) != s or u.shape != q.shape:
                return None
            out.append(self.seen[k] if a == 1 else self.seen[k] * float(a or 0))
        if not out or squares or any(x not in new for x, _ in rest):
            return None
        total = UOp.sum_of(out)
        for x, minus in rest:
            total = total - new[x] if minus else total + new[x]
        return total


def turned_phases(energy: UOp, pairs: Pairs) -> list[Phase] | None:
    """The fields whose numbers an energy turns; None where it is not shown to be a function of their |z|**2."""
    sizes = Intensities(pairs)
    seen = sizes.of(energy)
    if seen is None:
        return None
    own = [k for k in sizes.scales if sizes.seen[k] in seen.leaves]
    slopes = gradient(seen, [sizes.seen[k] for k in own])
    back = {}
    for k in own:
        (q, p), s = sizes.pairs[k], float(sizes.scales[k])
        back[sizes.seen[k]] = q * q + (p * s) * (p * s)
    out = []
    for k, slope in zip(own, slopes):
        s = float(sizes.scales[k])
        (rate,) = simplify(substitute([slope * (-2.0 * s)], back))
        if not nothing(rate):
            out.append(Phase(sizes.pairs[k], s, rate))
    return out


SCALES = (0.5, 1.0)  # of p in z = q + i s p: of complex states, and of pairs that a user wrote


def turned_by_waves(energy: UOp, pairs: Pairs) -> list[Phase] | None:
    """The same wave by wave."""
    found = (turned_waves(energy, pairs, s) for s in SCALES)
    return next((x for x in found if x is not None), None)


def phase_turns(energy: UOp, pairs: Pairs) -> list[Phase] | None:
    """How an energy turns fields, number by number or wave by wave; None where neither is shown."""
    found = turned_phases(energy, pairs)
    return turned_by_waves(energy, pairs) if found is None else found


def is_even(t: Phase) -> bool:
    """Does a field turn as before where z is replaced by its conjugate?  Waves k and -k must turn alike."""
    return not t.axes or parity(t.rate) > 0


# --- the flow -------------------------------------------------------------------------------------------
def after(turns: Sequence[Phase], h: UOp) -> tuple[tuple[UOp, UOp], ...]:
    """(state, what it becomes) after a time."""
    return tuple(x for t in turns for x in turned(t, h))


def turned(t: Phase, h: UOp) -> tuple[tuple[UOp, UOp], ...]:
    (q, p), shape = t.pair, t.pair[0].shape
    z: Number = (q, p * t.scale)
    factor = exponential((None, filled(t.rate, shape) * h.expand(shape)))
    for a in reversed(t.axes):
        z = transform(both(z, shape), -1, a)
    if t.axes:  # divided where no state enters
        n = UOp.const(float(prod(shape[a] for a in t.axes)), q.dtype, shape)
        factor = tuple(None if x is None else x / n for x in factor)  # type: ignore[assignment]
    z = times(z, factor)
    for a in t.axes:
        z = transform(both(z, shape), 1, a)
    re, im = both(z, shape)
    return (q, re), (p, im * (1.0 / t.scale))


def both(z: Number, shape: tuple[int, ...]) -> tuple[UOp, UOp]:
    return filled(z[0], shape), filled(z[1], shape)
