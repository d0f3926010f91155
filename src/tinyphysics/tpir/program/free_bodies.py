"""What does a PROPAGATE of bodies do?  It stands for n steps of free rigid bodies, in exact arithmetic and rounded once.

The energy is a sum of squares of angular momenta about the axes of bodies, each times a coefficient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from tinyphysics.errors import PlanError
from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.affine import NotAffine
from tinyphysics.rules.calculus.hessian import hessian
from tinyphysics.rules.digits.decimals import GUARD, Decimals, digits
from tinyphysics.rules.formulas.free_body import (
    Start,
    axes,
    begun,
    carried,
    elliptic,
    once_over,
    orbit,
    relative,
    separatrix,
    turned,
)
from tinyphysics.turning import Turning

DIGITS = 40  # of a state, before it is rounded
AWAY = Fraction(1, 10**35)  # by which a number is moved, where a derivative is computed
PAIRS = ((0, 1), (1, 2), (2, 0))
Number = float | Fraction
Four = tuple[Any, Any, Any, Any]


def size_of(x: Fraction) -> int:
    """How many digits a number has before its point; negative where it begins with zeros."""
    return 0 if not x else (abs(x.numerator).bit_length() - x.denominator.bit_length()) * 3 // 10


def free_turn(
    a: Sequence[Fraction], L: Sequence[Number], t: Fraction, more: int = 0
) -> tuple[list[Any], Four, Decimals]:
    """(the momentum, the turn of the body as a quaternion, the kind of numbers they are) after a time t.

    With so many digits more than what is rounded to floats needs.
    """
    exact = [Fraction(x) for x in L]
    order, signs, side, gap = axes(a, exact)
    length2 = sum(x * x for x in exact)
    speed = max(abs(x) for x in a) * (length2 or 1) * max(t * t, Fraction(1))
    near = max(0, -size_of(gap / (max(abs(a[0] - a[2]), abs(a[0] - a[1])) * length2))) if gap else 0
    with digits(DIGITS + more + 2 * near + max(0, size_of(speed))) as kit:
        if not any((a[i] - a[j]) * exact[i] * exact[j] for i, j in PAIRS):
            return steady(kit, a, exact, t)
        own = [kit.of(a[k]) for k in order]
        momenta = [s * kit.of(exact[k]) for s, k in zip(signs, order)]
        time = kit.of(t)
        if gap:
            o = orbit(kit, own, momenta, side, kit.of(gap))
            start = begun(kit, o, momenta)
            waves = start.wave, turned(start.wave, kit.wave(o.speed * time))
            count = terms(kit, start.nome)
            first, now = (elliptic(start, wave, count) for wave in waves)
        else:
            o, tanh = separatrix(kit, own, momenta, side)
            start = Start(o.sizes, o.length, side, (tanh, tanh))
            first, now = (once_over(kit, start, tanh, u) for u in (o.speed * 0, o.speed * time))
        by = relative(kit, start, first, now, kit.wave(o.half * time))
        momentum, turn = [kit.pi] * 3, [kit.pi] * 3
        for s, k, x, y in zip(signs, order, now[0], by[1:]):
            momentum[k], turn[k] = s * x, s * y
        return momentum, (by[0], turn[0], turn[1], turn[2]), kit


def terms(kit: Decimals, nome: Any) -> int:
    """How many terms the series need: the n-th is at most nome**(n(n-1))."""
    n, power, last = 1, nome * 0 + 1, nome * 0 + 1
    while last.adjusted() > -kit.count - GUARD:
        n, power = n + 1, power * nome * nome
        last = last * power
    return n


def steady(
    kit: Decimals, a: Sequence[Fraction], L: Sequence[Fraction], t: Fraction
) -> tuple[list[Any], Four, Decimals]:
    """A body that turns about one axis for ever."""
    w = [kit.of(x * y) for x, y in zip(a, L)]
    speed = kit.root(sum(x * x for x in w))
    c, s = kit.wave(speed * kit.of(t) / 2)
    x, y, z = (v / speed * s if speed else v for v in w)
    return [kit.of(v) for v in L], (c, x, y, z), kit


def moved_bodies(
    kinds: Sequence[Turning],
    energy: UOp,
    now: Mapping[UOp, Sequence[Number]],
    given: Mapping[str, Sequence[Number]],
    t: Fraction,
    more: int = 0,
) -> dict[UOp, list[Any]]:
    """The numbers of all states of bodies after a time t, in decimals."""
    momenta = [L for kind in kinds for L, _ in kind.bodies]
    try:
        found = hessian(energy, momenta, (), given)  # type: ignore[arg-type]
    except NotAffine as error:
        raise PlanError(
            f"the coefficients of the energy are not known exactly: {error}",
            fix='Run it step by step: propagator="loop".',
        ) from error
    a = [Fraction(row.get(k, 0)) for k, row in enumerate(found.rows)]
    out: dict[UOp, list[Any]] = {}
    for kind in kinds:
        for L, x in kind.bodies:
            own, a = [kind.sign * n for n in a[: L.size]], a[L.size :]
            held = [] if x is None else list(now[x])
            each, width = 3 * len(held) // L.size, 4 if kind.half else 3
            out |= {L: []} if x is None else {L: [], x: []}
            for k in range(0, L.size, 3):
                momentum, by, kit = free_turn(own[k : k + 3], list(now[L])[k : k + 3], t, more)
                out[L] += momentum
                if x is None:
                    continue
                with digits(kit.count):
                    for j in range(k // 3 * each, (k // 3 + 1) * each, width):
                        out[x] += carried(kind.half, [kit.of(n) for n in held[j : j + width]], by)
    return out


def jacobian_of_bodies(
    kinds: Sequence[Turning],
    energy: UOp,
    now: Mapping[UOp, Sequence[float]],
    given: Mapping[str, Sequence[float]],
    t: Fraction,
    by: Sequence[tuple[UOp | str, int]],
) -> list[list[Any]]:
    """How all numbers of the states after a time t move with numbers at first, or with parameters: a column for each.

    By differences, in decimals of twice as many digits: they are right to 30 digits.
    """
    columns = []
    for name, k in by:
        first = now[name][k] if isinstance(name, UOp) else given[name][k]
        away = AWAY * max(Fraction(1), abs(Fraction(first)))
        ends = []
        for sign in (1, -1):
            states: dict[Any, list[Number]] = {x: list(v) for x, v in now.items()}
            params: dict[Any, list[Number]] = {x: list(v) for x, v in given.items()}
            own = states if isinstance(name, UOp) else params
            own[name][k] = Fraction(first) + sign * away
            ends.append(moved_bodies(kinds, energy, states, params, t, 2 * DIGITS))
        with digits(2 * DIGITS) as kit:
            width = kit.of(2 * away)
            columns.append([(p - m) / width for x in now for p, m in zip(ends[0][x], ends[1][x])])
    return columns
