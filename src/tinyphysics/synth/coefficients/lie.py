"""What is there to the errors of a composition?  The free Lie algebra by degree, in a Lyndon basis over the rationals.

A Lie element is kept as the noncommutative polynomial that it is: word -> coefficient, [x, y] = xy - yx. The
bracket of a Lyndon word begins with that word and goes on with larger ones, so that coordinates are read off
from the smallest word up. Letters have weights: T and V count 1; the h**3 term of a leapfrog is a letter of weight 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

Word = tuple[int, ...]
Poly = dict[Word, Fraction]


@dataclass(frozen=True)
class Alphabet:
    """Letters are their places here."""

    names: tuple[str, ...]
    weights: tuple[int, ...]
    nystrom: bool = False  # letter 0 is a T that is quadratic in p, letter 1 a V of q alone

    def weight(self, word: Word) -> int:
        return sum(self.weights[k] for k in word)

    def words(self, weight: int) -> Iterator[Word]:
        """All words of a weight, in the order of a dictionary."""
        if weight == 0:
            yield ()
        for k, w in enumerate(self.weights):
            if w <= weight:
                yield from ((k, *rest) for rest in self.words(weight - w))


TWO = Alphabet(("T", "V"), (1, 1))
NYSTROM = Alphabet(("T", "V"), (1, 1), nystrom=True)
THREE = Alphabet(("A", "B", "C"), (1, 1, 1))


def symmetric_powers(order: int) -> Alphabet:
    """What a symmetric method is made of: exp(h Y1 + h**3 Y3 + ...), as far as the order sees."""
    odd = tuple(range(1, order + 2, 2))
    return Alphabet(tuple(f"Y{k}" for k in odd), odd)


# --- polynomials --------------------------------------------------------------------------------
def add(p: Poly, q: Poly, factor: Fraction | int = 1) -> Poly:
    out = dict(p)
    for w, c in q.items():
        if total := out.get(w, Fraction(0)) + factor * c:
            out[w] = total
        else:
            out.pop(w, None)
    return out


def multiply(p: Poly, q: Poly) -> Poly:
    out: Poly = {}
    for u, a in p.items():
        for v, b in q.items():
            out[u + v] = out.get(u + v, Fraction(0)) + a * b
    return {w: c for w, c in out.items() if c}


def bracket(p: Poly, q: Poly) -> Poly:
    return add(multiply(p, q), multiply(q, p), -1)


def letter(k: int) -> Poly:
    return {(k,): Fraction(1)}


# --- the basis ----------------------------------------------------------------------------------
def is_lyndon(w: Word) -> bool:
    """Is it smaller than each of its endings?

    >>> [w for w in TWO.words(4) if is_lyndon(w)]
    [(0, 0, 0, 1), (0, 0, 1, 1), (0, 1, 1, 1)]
    """
    return bool(w) and all(w < w[k:] for k in range(1, len(w)))


@cache
def basis(alphabet: Alphabet, weight: int) -> tuple[Word, ...]:
    return tuple(w for w in alphabet.words(weight) if is_lyndon(w))


@cache
def _expanded(w: Word) -> tuple[tuple[Word, Fraction], ...]:
    if len(w) == 1:
        return ((w, Fraction(1)),)
    cut = next(k for k in range(1, len(w)) if is_lyndon(w[k:]))  # the longest Lyndon word at the end
    return tuple(bracket(expanded(w[:cut]), expanded(w[cut:])).items())


def expanded(w: Word) -> Poly:
    """The bracket that stands for a Lyndon word, written out."""
    return dict(_expanded(w))


def coordinates(p: Poly) -> Poly:
    """A Lie polynomial in the Lyndon basis; what is no Lie polynomial leaves a rest and is an error.

    >>> a, b = letter(0), letter(1)
    >>> coordinates(bracket(b, bracket(b, a)))
    {(0, 1, 1): Fraction(1, 1)}
    """
    out: Poly = {}
    rest = dict(p)
    while rest:
        w = min(rest, key=lambda w: (len(w), w))
        if not is_lyndon(w):
            raise ValueError(f"not a Lie polynomial: {w} is left over")
        out[w] = rest[w]
        rest = add(rest, expanded(w), -out[w])
    return out


@cache
def _beside(w: Word, k: int) -> tuple[tuple[Word, Fraction], ...]:
    return tuple(coordinates(bracket(expanded(w), letter(k))).items())


def nested(v: Poly, k: int) -> Poly:
    """[v, letter k], both in the Lyndon basis."""
    out: Poly = {}
    for w, c in v.items():
        out = add(out, dict(_beside(w, k)), c)
    return out


# --- what vanishes ------------------------------------------------------------------------------
def degree_in_p(w: Word) -> int:
    """Of a bracket of T's (0) and V's (1) with T quadratic in p: a Poisson bracket takes one p and one q away."""
    return w.count(0) - w.count(1) + 1


@cache
def ideal(alphabet: Alphabet, weight: int) -> tuple[tuple[Word, tuple[tuple[Word, Fraction], ...]], ...]:
    """What vanishes because T is quadratic: brackets of negative degree in p, and brackets with them.

    [V, [V, [V, T]]] is the first. Reduced rows: (the word that a row removes, the row), each in the Lyndon basis.
    """
    if not alphabet.nystrom or weight < 2:
        return ()
    rows: list[Poly] = [{w: Fraction(1)} for w in basis(alphabet, weight) if degree_in_p(w) < 0]
    for _, known in ideal(alphabet, weight - 1):
        rows += [nested(dict(known), k) for k in range(len(alphabet.names))]
    reduced: dict[Word, Poly] = {}
    for row in rows:
        for pivot, other in reduced.items():
            if pivot in row:
                row = add(row, other, -row[pivot])
        if row:
            pivot = max(row)
            row = {w: c / row[pivot] for w, c in row.items()}
            reduced = {q: add(r, row, -r[pivot]) if pivot in r else r for q, r in reduced.items()} | {
                pivot: row
            }
    return tuple((pivot, tuple(row.items())) for pivot, row in sorted(reduced.items()))


def modulo(alphabet: Alphabet, v: Poly) -> Poly:
    """Coordinates of a homogeneous element with what vanishes removed."""
    if not v or not alphabet.nystrom:
        return v
    for pivot, row in ideal(alphabet, alphabet.weight(next(iter(v)))):
        if pivot in v:
            v = add(v, dict(row), -v[pivot])
    return v


@cache
def independent(alphabet: Alphabet, weight: int) -> tuple[Word, ...]:
    """A basis of what is left: its length is the number of order conditions of that weight.

    >>> [len(independent(TWO, n)) for n in range(1, 7)], [len(independent(NYSTROM, n)) for n in range(1, 7)]
    ([2, 1, 2, 3, 6, 9], [2, 1, 2, 2, 4, 5])
    """
    gone = {pivot for pivot, _ in ideal(alphabet, weight)}
    return tuple(w for w in basis(alphabet, weight) if w not in gone)
