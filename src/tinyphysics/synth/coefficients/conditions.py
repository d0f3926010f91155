"""Which equations must the weights of a composition satisfy to have an order?  Made from the algebra, never typed in.

A step is a product S of exponentials. Multiplied out, S is a sum of words, and the map of Dynkin,
x1 x2 x3 -> [[x1, x2], x3] divided by the length, takes the words of weight n to the error of weight n as soon as all
lower errors vanish. So S has order p when the images of its words of weights 2 to p vanish and the letters of
weight 1 enter with total weight 1. Where brackets vanish (T quadratic in p) the images are taken without those.
A symmetric step has no errors of even weight.

Every number may be a float, a Fraction or a Decimal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

from tinyphysics.synth.coefficients.bch import exponential
from tinyphysics.synth.coefficients.lie import (
    NYSTROM,
    THREE,
    TWO,
    Alphabet,
    Poly,
    Word,
    bracket,
    independent,
    letter,
    modulo,
    nested,
    symmetric_powers,
)

Factor = tuple[str, Any]  # (move, number): ("V", b) is exp(b V)


@dataclass(frozen=True)
class Structure:
    """What a step is a product of.  A move with number x is the exponential of the sum of x**power times its elements."""

    name: str
    alphabet: Alphabet
    small: bool = False  # letter 1 is small: H = A + eps B

    def moves(self) -> dict[str, list[tuple[int, Poly]]]:
        letters = [letter(k) for k in range(len(self.alphabet.names))]
        if self.name == "composition":
            return {"S": [(w, y) for w, y in zip(self.alphabet.weights, letters)]}
        out = {name: [(1, x)] for name, x in zip(self.alphabet.names, letters)}
        if self.alphabet.nystrom:  # W = [V, [T, V]], a function of q as V is
            out["W"] = [(1, bracket(letters[1], bracket(letters[0], letters[1])))]
        return out


SPLITTING = Structure("splitting", TWO)
RKN = Structure("nystrom", NYSTROM)
THREE_PARTS = Structure("three parts", THREE)
NEAR_INTEGRABLE = Structure("near-integrable", Alphabet(("A", "B"), (1, 1)), small=True)


@cache
def composition(order: int) -> Structure:
    """Products of symmetric steps of order 2, whatever they are made of."""
    return Structure("composition", symmetric_powers(order))


@dataclass(frozen=True)
class Conditions:
    """The errors that are looked at.

    `orders` is (p,), or for H = A + eps B (n1, n2, ...): errors of eps**k up to h**n_k, the last for all higher powers.
    """

    structure: Structure
    orders: tuple[int, ...]
    symmetric: bool = True
    leading: bool = False  # the first errors that do not vanish, instead of those that do

    def wanted(self, w: Word) -> bool:
        n, k = self.structure.alphabet.weight(w), w.count(1)
        top = self.orders[min(max(k, 1), len(self.orders)) - 1] if self.structure.small else self.orders[0]
        if not self.leading:
            return n <= top and not (self.symmetric and n % 2 == 0)
        first = top + 1 + (self.symmetric and top % 2)
        return n == first and (not self.structure.small or k <= len(self.orders))

    @cached_property
    def names(self) -> tuple[Word, ...]:
        """One Lyndon word for each condition."""
        alphabet = self.structure.alphabet
        top = max(self.orders) + 2 * self.leading
        return tuple(w for n in range(1, top + 1) for w in independent(alphabet, n) if self.wanted(w))

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """Those that the conditions read, after all that they begin with."""
        degrees = {tuple(sorted(w)) for w in self.names}
        alphabet = self.structure.alphabet
        read = {
            w
            for n in {alphabet.weight(w) for w in self.names}
            for w in alphabet.words(n)
            if tuple(sorted(w)) in degrees
        }
        return tuple(sorted({w[:k] for w in read for k in range(len(w) + 1)}, key=lambda w: (len(w), w)))

    @cached_property
    def rows(self) -> list[tuple[int, list[tuple[int, int]]]]:
        """For each condition (denominator, [(place of a word, numerator)])."""
        place = {w: k for k, w in enumerate(self.words)}
        out: dict[Word, list[tuple[int, Fraction]]] = {w: [] for w in self.names}
        images: dict[Word, Poly] = {}
        for w in self.words[1:]:
            before = images.get(w[:-1])
            images[w] = (
                letter(w[0]) if len(w) == 1 else modulo(self.structure.alphabet, nested(before or {}, w[-1]))
            )
            for name, c in images[w].items():
                if name in out:
                    out[name].append((place[w], c / len(w)))
        rows = []
        for entries in out.values():
            common = math.lcm(*(c.denominator for _, c in entries))
            rows.append((common, [(k, int(c * common)) for k, c in entries]))
        return rows

    @cached_property
    def plans(self) -> dict[str, tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]]:
        """For each move ([(word, word that it goes on, slot)], [(power, numerator, denominator) of a slot])."""
        alphabet, place, out = self.structure.alphabet, {w: k for k, w in enumerate(self.words)}, {}
        top = max(map(alphabet.weight, self.words))
        for name, parts in self.structure.moves().items():
            series = _series(alphabet, parts, top)
            slots = list(dict.fromkeys(series.values()))
            slot = {s: k for k, s in enumerate(slots)}
            steps = [
                (place[w], place[w[:k]], slot[series[w[k:]]])
                for w in self.words
                for k in range(len(w))
                if w[k:] in series
            ]
            out[name] = steps, [(power, c.numerator, c.denominator) for power, c in slots]
        return out

    def coefficients(self, factors: Sequence[Factor]) -> list[Any]:
        """Of the words in the product of the exponentials."""
        kind = type(factors[0][1])
        s = [kind(1)] + [kind(0)] * (len(self.words) - 1)
        for move, x in factors:
            steps, slots = self.plans[move]
            values = [x**power * n / d for power, n, d in slots]
            grown = list(s)
            for target, source, k in steps:
                grown[target] += s[source] * values[k]
            s = grown
        return s

    def residuals(self, factors: Sequence[Factor]) -> list[Any]:
        """What is left of each condition: the errors themselves, as far as those below them vanish."""
        s = self.coefficients(factors)
        weights = self.structure.alphabet.weights
        return [
            sum(s[k] * n for k, n in entries) / d - (len(name) == 1 and weights[name[0]] == 1)
            for name, (d, entries) in zip(self.names, self.rows)
        ]


def _series(alphabet: Alphabet, parts: list[tuple[int, Poly]], top: int) -> dict[Word, tuple[int, Fraction]]:
    """The exponential of sum x**power * element: word -> (power of x, factor)."""
    total: Poly = {}
    power: dict[Word, int] = {}
    for k, element in parts:
        total |= element
        power |= dict.fromkeys(element, k)
    series = exponential(alphabet, total, top)
    if len(total) == len(parts):  # single letters
        return {w: (sum(power[(x,)] for x in w), c) for w, c in series.items() if w}
    ((k, element),) = parts  # one element of several words, all of one weight
    weight = alphabet.weight(next(iter(element)))
    return {w: (k * (alphabet.weight(w) // weight), c) for w, c in series.items() if w}


def count(structure: Structure, order: int, symmetric: bool = True) -> int:
    """How many conditions there are up to an order.

    >>> [count(RKN, p) for p in (2, 4, 6, 8)], [count(SPLITTING, p) for p in (2, 4, 6, 8)]
    ([2, 4, 8, 18], [2, 4, 10, 28])
    """
    return len(Conditions(structure, (order,), symmetric).names)
