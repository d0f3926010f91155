"""Which polynomials of the state does a system conserve?  The null space of F -> {F, H}, over the rationals.

The monomials are those of positions and momenta up to a degree; where H is no polynomial, its roots, exponentials and sines
join them. What is found so is proved: the bracket is zero term by term, in exact arithmetic, for the parameters given. Where
functions obey relations that no form here knows (sines and cosines, products of exponentials), the null space at states drawn
at random is looked at too, and what it adds is evidence, not a proof.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from tinyphysics.analysis.charges import independent
from tinyphysics.errors import InputError
from tinyphysics.ir import Ops, UOp, elements, substitute, toposort
from tinyphysics.ir.value import Value, evaluate
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import Monomial, Normal, Poly, TooLarge, add, snapped
from tinyphysics.rules.equality.probe import number
from tinyphysics.system import System

MOST_MONOMIALS = 20_000
MOST_SEEN = 600  # monomials among which evidence is looked for: the time grows as their cube
PRIME = 2**521 - 1  # large enough for products of floats to be read back as fractions
UNBOUNDED = -(10**15)  # work that a Normal may still do: what is asked here was asked for
FAINT = 1e-6  # of coefficients of such a combination
LOOKS = 16  # states at which a function is looked at, to see whether it is a number
EVIDENCE = 1e-9  # of singular values, relative to the largest: zero, as far as floats show
PROVED, SEEN = "proved", "numerical evidence"
TAKEN = "with its numbers taken for the simple fractions next to them"
CLOSED = {
    Ops.SIN: Ops.COS,
    Ops.COS: Ops.SIN,
    Ops.SINH: Ops.COSH,
    Ops.COSH: Ops.SINH,
}  # whose slopes need the other

Exponents = tuple[int, ...]
Vector = dict[int, Fraction]


@dataclass(frozen=True, eq=False)
class Invariant:
    expression: UOp  # of the numbers of the states
    degree: int
    how: str  # PROVED or SEEN


@dataclass(frozen=True, eq=False)
class Ring:
    """Polynomials of some functions of the state, and how fast those functions change."""

    normal: Normal
    functions: tuple[UOp, ...]  # first the numbers of the state
    forms: tuple[Poly, ...]
    rates: tuple[Poly, ...]
    rates_of: tuple[UOp, ...]
    back: Mapping[UOp, UOp]  # symbols of this file to numbers of the state
    plain: bool  # do no relations hold but those of roots?
    taken: bool  # were numbers of H taken for simple fractions that they are not?

    def monomials(self, degree: int) -> list[Exponents]:
        n = len(self.functions)
        check_count(n, degree)
        out = []
        for d in range(1, degree + 1):
            for chosen in combinations_with_replacement(range(n), d):
                e = [0] * n
                for k in chosen:
                    e[k] += 1
                out.append(tuple(e))
        return out

    def value(self, e: Exponents) -> Poly:
        out: Poly = {(): Fraction(1)}
        for k, times in enumerate(e):
            for _ in range(times):
                out = self.normal.multiply(out, self.forms[k])
        return out

    def rate(self, e: Exponents) -> Poly:
        """By the product rule."""
        out: Poly = {}
        for k, times in enumerate(e):
            if times and self.rates[k]:
                rest = self.value((*e[:k], times - 1, *e[k + 1 :]))
                out = add(out, self.normal.multiply(rest, self.rates[k]), Fraction(times))
        return out

    def expression(self, terms: Sequence[tuple[Exponents, Any]]) -> UOp:
        items = [
            ([f if k == 1 else f ** float(k) for f, k in zip(self.functions, e) if k], c) for e, c in terms
        ]
        (out,) = substitute([written(items)], dict(self.back))
        return out


def written(terms: Sequence[tuple[Sequence[UOp], Any]]) -> UOp:
    """A sum of products, each times its number, as one would write it."""
    out: UOp | None = None
    for factors, c in terms:
        below = [f.src[1] for f in factors if is_inverse(f)]
        above = [f for f in factors if not is_inverse(f)]
        size = abs(float(c))
        u = UOp.const(size) if size != 1 or not above else above.pop(0)
        for f in above:
            u = u * f
        for f in below:
            u = u / f
        if out is None:
            out = u if c > 0 else -u
        else:
            out = out + u if c > 0 else out - u
    return UOp.const(0.0) if out is None else out


def is_inverse(u: UOp) -> bool:
    return u.op is Ops.DIV and u.src[0].op is Ops.CONST and u.src[0].arg == 1


def power(u: UOp, e: Any) -> UOp:
    known = {
        Fraction(1, 2): lambda: u.sqrt(),
        Fraction(-1, 2): lambda: 1.0 / u.sqrt(),
        Fraction(-1): lambda: 1.0 / u,
    }
    return known[e]() if e in known else u ** float(e)


def check_count(n: int, degree: int) -> None:
    """An error where there are too many monomials."""
    count = math.comb(n + degree, degree) - 1
    if count <= MOST_MONOMIALS:
        return
    first = f"find_invariants(degree={degree}) of {n:,} functions has {count:,} monomials"
    if n > MOST_MONOMIALS:
        raise InputError(
            f"{first}, and {MOST_MONOMIALS:,} is the most",
            fix="See sim.conserved, which looks for symmetries.",
        )
    raise InputError(
        f"{first}, and {MOST_MONOMIALS:,} is the most",
        fix=f"Pass a smaller degree: find_invariants(degree={largest_degree(n)}).",
    )


def largest_degree(n: int) -> int:
    return max((d for d in range(1, 40) if math.comb(n + d, d) - 1 <= MOST_MONOMIALS), default=1)


# --- the functions -----------------------------------------------------------------------------------
def ring_of(system: System, parameters: Mapping[str, Sequence[float]], degree: int = 1) -> Ring:
    """Of the state of a system with these parameters, and of what H has beside polynomials."""
    assert system.energy is not None
    check_count(sum(v.size for v in (*system.q, *system.p)), degree)  # before anything is written out
    ((energy,),) = unroll([system.energy])
    table = {e: UOp.const(x) for v in system.parameters for e, x in zip(elements(v.var), parameters[v.name])}
    q, p = ([e for v in vs for e in elements(v)] for vs in (system.q, system.p))
    fresh = {e: UOp.var(f"z{k}") for k, e in enumerate([*q, *p])}
    (energy,) = substitute([energy], table | fresh)
    z = list(fresh.values())
    slopes = gradient(energy, z)
    n = len(q)
    speed = [*slopes[n:], *(-u for u in slopes[:n])]
    normal = Normal()
    normal.work = UNBOUNDED
    form = normal.form(energy)
    more = others(normal, form, z)
    functions = (*z, *more)
    rates_of = (*speed, *(jvp([u], z, speed)[0] for u in more))
    return Ring(
        normal,
        functions,
        tuple(simple(normal.form(u)) for u in functions),
        tuple(simple(normal.form(u)) for u in rates_of),
        rates_of,
        {v: e for e, v in fresh.items()},
        all(u.op in (Ops.POW, Ops.DIV, Ops.SQRT) for u in more),
        form != simple(form),
    )


def simple(p: Poly) -> Poly:
    """With 1/3 for the float that is nearest to it."""
    return {m: snapped(c) for m, c in p.items()}


def others(normal: Normal, energy: Poly, z: Sequence[UOp]) -> list[UOp]:
    """Roots, exponentials and the like in the energy: powers of sums, and functions that are no polynomials."""
    names = {a: name for name, a in normal.atoms.items()}
    own = {next(iter(normal.form(v)))[0][0]: v for v in z}
    out: dict[UOp, None] = {}

    def of_atom(a: int) -> UOp:
        if a in own:
            return own[a]
        if a in normal.sums:
            return of_poly(normal.sums[a])
        name = names[a]
        if isinstance(name[0], Ops) and len(name) == 4:  # an odd or even function: (op, None, shape, sources)
            return UOp(name[0], z[0].dtype, (), tuple(of_poly(dict(k)) for k in name[3]))
        if isinstance(name[0], Ops) and len(name) == 5:
            return UOp(name[0], name[2], name[3], tuple(of_poly(dict(k)) for k in name[4]), name[1])
        raise InputError(
            "find_invariants: H holds an operation whose derivative is not a polynomial of what H is made of",
            fix="Use sim.conserved, which looks for symmetries.",
        )

    def of_poly(p: Poly) -> UOp:
        return written(
            [([of_atom(a) if e == 1 else of_atom(a) ** float(e) for a, e in m], c) for m, c in p.items()]
        )

    for m in energy:
        for a, e in m:
            if a in own and e == int(e) and e > 0:
                continue
            u = of_atom(a)
            if a in own or a in normal.sums:
                part = e if e < 0 else e - int(e)
                out[power(u, part)] = None
                continue
            out[u] = None
            if u.op in CLOSED:
                out[UOp(CLOSED[u.op], u.dtype, (), u.src)] = None
    return list(out)


# --- exact linear algebra ------------------------------------------------------------------------------
def modular(x: Fraction) -> int:
    return x.numerator * pow(x.denominator, -1, PRIME) % PRIME


def fraction(x: int) -> Fraction | None:
    """The fraction with small terms that a residue is, if there is one."""
    bound = math.isqrt(PRIME // 2)
    a, b, s, t = PRIME, x % PRIME, 0, 1
    while b > bound:
        k = a // b
        a, b, s, t = b, a - k * b, t, s - k * t
    return Fraction(b, t) if t and abs(t) <= bound else None


class Echelon:
    """Rows over a finite field, each with a leading column that no other has."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[int, int]] = {}

    def reduce(self, row: dict[int, int]) -> dict[int, int]:
        row = dict(row)
        while row:
            lead = max(row)
            if lead not in self.rows:
                return row
            self.subtract(row, row[lead], self.rows[lead])
        return row

    @staticmethod
    def subtract(row: dict[int, int], factor: int, other: Mapping[int, int]) -> None:
        for k, x in other.items():
            y = (row.get(k, 0) - factor * x) % PRIME
            if y:
                row[k] = y
            else:
                row.pop(k, None)

    def join(self, row: dict[int, int]) -> bool:
        """Is it no combination of the others?  Then it becomes one of them."""
        row = self.reduce(row)
        if not row:
            return False
        lead = max(row)
        scale = pow(row[lead], -1, PRIME)
        self.rows[lead] = {k: x * scale % PRIME for k, x in row.items()}
        return True

    def finished(self) -> dict[int, dict[int, int]]:
        """Each row without the leading columns of the others."""
        done: dict[int, dict[int, int]] = {}
        for lead in sorted(self.rows):
            row = dict(self.rows[lead])
            for k in sorted((k for k in row if k != lead and k in done), reverse=True):
                if k in row:
                    self.subtract(row, row[k], done[k])
            done[lead] = row
        return done


def null_vectors(columns: Sequence[Poly]) -> list[dict[int, int]]:
    """Combinations of polynomials that vanish, over the finite field.

    The shortest equation is solved first, for what is in the fewest others: few combinations commute with H, so that most
    unknowns are found to be zero one after another, and equations hardly grow (Markowitz 1957).
    """
    equations: dict[Monomial, dict[int, int]] = {}
    for k, column in enumerate(columns):
        for m, c in column.items():
            if x := modular(c):
                equations.setdefault(m, {})[k] = x
    rows = list(equations.values())
    holds: dict[int, set[int]] = {k: set() for k in range(len(columns))}
    for i, row in enumerate(rows):
        for k in row:
            holds[k].add(i)
    waiting = [(len(row), i) for i, row in enumerate(rows)]
    heapq.heapify(waiting)
    solved: list[tuple[int, dict[int, int]]] = []
    while waiting:
        length, i = heapq.heappop(waiting)
        row = rows[i]
        if length != len(row) or not row:
            continue  # it has been shortened, and waits elsewhere
        for k in row:
            holds[k].discard(i)
        lead = min(row, key=lambda k: len(holds[k]))
        inverse = pow(row[lead], -1, PRIME)
        row = {k: x * inverse % PRIME for k, x in row.items()}
        for j in holds[lead]:
            other = rows[j]
            factor = other[lead]
            for k, x in row.items():
                y = (other.get(k, 0) - factor * x) % PRIME
                if y:
                    other[k] = y
                    if k != lead:
                        holds[k].add(j)
                elif other.pop(k, None) is not None and k != lead:
                    holds[k].discard(j)
            heapq.heappush(waiting, (len(other), j))
        rows[i] = {}
        holds[lead] = set()
        solved.append((lead, row))
    pivots = {lead for lead, _ in solved}
    out = []
    for free in (k for k in range(len(columns)) if k not in pivots):
        vector = {free: 1}
        for lead, row in reversed(solved):
            if x := sum(c * vector[k] for k, c in row.items() if k in vector) % PRIME:
                vector[lead] = -x % PRIME
        out.append(vector)
    return out


# --- the search ----------------------------------------------------------------------------------------
def invariants_of(
    system: System, degree: int, parameters: Mapping[str, Sequence[float]], known: Sequence[UOp]
) -> list[Invariant]:
    """Those that are no polynomials of the known ones, which are conserved expressions of the states without t."""
    ring = ring_of(system, parameters, degree)
    monomials = ring.monomials(degree)
    try:
        rates = ring.normal.cleared(*(ring.rate(e) for e in monomials))
        one, *values = ring.normal.cleared({(): Fraction(1)}, *(ring.value(e) for e in monomials))
    except TooLarge:
        one, rates, values = {}, [], []
    out: list[Invariant] = []
    if rates:
        space = Functions(ring, one, values, monomials)
        space.learn(known, system, parameters, degree)
        kept = Echelon()
        for vector in null_vectors(rates):
            kept.join(vector)
        for lead, row in sorted(kept.finished().items()):
            exact = {k: fraction(x) for k, x in row.items()}
            if any(c is None for c in exact.values()) or not space.is_new(row, sum(monomials[lead]), degree):
                continue
            terms = whole({k: c for k, c in exact.items() if c is not None}, lead)
            total: Poly = {}
            for k, c in terms.items():
                total = add(total, rates[k], c)
            if total:
                continue  # a fraction was not the one that was meant
            shown = [(monomials[k], c) for k, c in sorted(terms.items(), reverse=True)]
            u = ring.expression(shown)
            if not constant(u, system):
                out.append(Invariant(u, sum(monomials[lead]), f"{PROVED}, {TAKEN}" if ring.taken else PROVED))
    if not ring.plain or not rates:
        out += seen(ring, monomials, known, out, system)
    return out


def whole(vector: Vector, lead: int) -> Vector:
    """Times a number that makes its coefficients whole, unless they are long; the leading one is positive."""
    below = math.lcm(*(c.denominator for c in vector.values()))
    above = math.gcd(*(int(c * below) for c in vector.values()))
    scale = Fraction(below, above) / (1 if vector[lead] > 0 else -1)
    if max(abs(c * scale) for c in vector.values()) > 10**6:
        scale = 1 / vector[lead]
    return {k: c * scale for k, c in vector.items()}


class Functions:
    """Which functions are polynomials of those that are known?  Compared in one normal form over one denominator."""

    def __init__(self, ring: Ring, one: Poly, values: Sequence[Poly], monomials: Sequence[Exponents]) -> None:
        self.ring, self.values = ring, values
        self.number: dict[Monomial, int] = {}
        self.have = Echelon()
        self.generators: list[
            tuple[dict[int, int], int]
        ] = []  # in monomials of the ring, and of which degree
        self.at = {e: k for k, e in enumerate(monomials)}
        self.monomials = monomials
        self.have.join(self.row(one))  # constants are no invariants

    def row(self, p: Poly) -> dict[int, int]:
        return {self.number.setdefault(m, len(self.number)): modular(c) for m, c in p.items()}

    def function(self, vector: Mapping[int, int]) -> dict[int, int]:
        out: dict[int, int] = {}
        for k, c in vector.items():
            Echelon.subtract(out, -c, self.row(self.values[k]))
        return out

    def learn(
        self, known: Sequence[UOp], system: System, parameters: Mapping[str, Sequence[float]], degree: int
    ) -> None:
        """Known invariants, found again among the combinations of monomials."""
        table = {
            e: UOp.const(x) for v in system.parameters for e, x in zip(elements(v.var), parameters[v.name])
        }
        fresh = {e: v for v, e in self.ring.back.items()}
        for u in known:
            ((flat,),) = unroll([u])
            (flat,) = substitute([flat], table | fresh)
            vector = self.as_vector(simple(self.ring.normal.form(flat)))
            if vector is not None:
                self.take(vector, degree)

    def as_vector(self, p: Poly) -> dict[int, int] | None:
        """A polynomial of the functions of the ring, monomial by monomial; None where it is none that is plain to see."""
        single = {}
        for k, f in enumerate(self.ring.forms):
            (m,) = f if len(f) == 1 else [None]
            if m is not None and len(m) == 1:
                single[m[0]] = k
        out: dict[int, int] = {}
        for m, c in p.items():
            e = [0] * len(self.ring.functions)
            for a, times in m:
                if (a, times) in single:
                    e[single[a, times]] += 1
                elif (a, 1) in single and times == int(times) and times > 0:
                    e[single[a, 1]] += int(times)
                else:
                    return None
            if not m:
                continue
            place = self.at.get(tuple(e))
            if place is None:
                return None
            out[place] = modular(c)
        return out

    def take(self, vector: Mapping[int, int], degree: int) -> None:
        """It is known from here on, with its products with what is known."""
        own = max(sum(self.monomials[k]) for k in vector)
        self.generators.append((dict(vector), own))
        for product, _ in products(self.generators, degree, self):
            self.have.join(self.function(product))

    def is_new(self, vector: Mapping[int, int], own: int, degree: int) -> bool:
        if not self.have.reduce(self.function(vector)):
            return False
        self.take(vector, degree)
        return True


def products(
    generators: Sequence[tuple[dict[int, int], int]], degree: int, space: Functions
) -> Iterator[tuple[dict[int, int], int]]:
    """Products with the last of some combinations of monomials, up to a degree."""
    last, own = generators[-1]
    waiting = [(last, own, len(generators) - 1)]
    while waiting:
        vector, d, most = waiting.pop()
        yield vector, d
        for k in range(most + 1):
            other, more = generators[k]
            if d + more <= degree:
                waiting.append((multiplied(vector, other, space), d + more, k))


def multiplied(a: Mapping[int, int], b: Mapping[int, int], space: Functions) -> dict[int, int]:
    out: dict[int, int] = {}
    for i, x in a.items():
        for j, y in b.items():
            e = tuple(m + n for m, n in zip(space.monomials[i], space.monomials[j]))
            k = space.at[e]
            out[k] = (out.get(k, 0) + x * y) % PRIME
    return {k: x for k, x in out.items() if x}


# --- evidence ------------------------------------------------------------------------------------------
# fmt: off
ON_ARRAYS: dict[Ops, Any] = {
    Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply, Ops.DIV: np.divide, Ops.NEG: np.negative,
    Ops.POW: np.power, Ops.SQRT: np.sqrt, Ops.RSQRT: lambda x: 1 / np.sqrt(x), Ops.EXP: np.exp, Ops.LOG: np.log,
    Ops.SIN: np.sin, Ops.COS: np.cos, Ops.TAN: np.tan, Ops.SINH: np.sinh, Ops.COSH: np.cosh, Ops.TANH: np.tanh,
    Ops.ABS: np.abs, Ops.SIGN: np.sign, Ops.EXPM1: np.expm1, Ops.LOG1P: np.log1p,
}
# fmt: on


def on_arrays(roots: Sequence[UOp], env: Mapping[str, Any]) -> list[Any] | None:
    """Values of scalar expressions at many states; None where an operation has no row above."""
    values: dict[UOp, Any] = {}
    with np.errstate(all="ignore"):
        for u in toposort(roots):
            if u.op is Ops.CONST:
                values[u] = float(u.arg)
            elif u.op is Ops.VAR:
                values[u] = env[str(u.arg)]
            elif u.op in ON_ARRAYS:
                values[u] = ON_ARRAYS[u.op](*(values[s] for s in u.src))
            else:
                return None
    return [values[r] for r in roots]


def constant(u: UOp, system: System) -> bool:
    """Has a function of the state one value, at states drawn at random?  exp(x)*exp(-x) has.

    One that has a value at one of them, or none, is not shown to be anything else.
    """
    fresh = {
        e: UOp.var(f"z{k}") for k, e in enumerate(e for v in (*system.q, *system.p) for e in elements(v))
    }
    points = {f"z{k}": drawn(LOOKS, k, 2.0).tolist() for k in range(len(fresh))}
    (flat,) = substitute([u], fresh)
    values = [value_at(flat, {name: x[i] for name, x in points.items()}) for i in range(LOOKS)]
    finite = [x for x in values if math.isfinite(x)]
    return len(finite) < 2 or max(finite) - min(finite) <= 1e-9 * (1.0 + max(map(abs, finite)))


def value_at(u: UOp, env: dict[str, Value]) -> float:
    """Of a scalar; NaN where it has none."""
    try:
        (found,) = evaluate([u], env)
        return float(found) if isinstance(found, (int, float)) else math.nan
    except (ArithmeticError, ValueError):
        return math.nan


def drawn(points: int, k: int, width: float) -> Any:
    return np.array([width * (2.0 * number(1009 * i + 17 * k + 1) - 2.1) for i in range(points)])


def seen(
    ring: Ring,
    monomials: Sequence[Exponents],
    known: Sequence[UOp],
    found: Sequence[Invariant],
    system: System,
) -> list[Invariant]:
    """Combinations whose rates vanish at states drawn at random, there and farther out, and that are not known."""
    if len(monomials) > MOST_SEEN:
        return []
    near, far = (looked(ring, monomials, 3 * len(monomials) // 2 + 20, width) for width in (1.5, 2.5))
    if near is None or far is None:
        return []
    size = np.abs(near[0]).max(axis=0)
    _, s, modes = np.linalg.svd(near[1] / size, full_matrices=False)
    null = modes[s < EVIDENCE * s[0]] / size
    out: list[Invariant] = []
    have = [*known, *(f.expression for f in found)]
    for row in echelon(null) if len(null) else ():
        left = far[1] @ row
        if np.abs(left).max() > EVIDENCE * (np.abs(far[1]) @ np.abs(row)).max():
            continue
        terms = [(monomials[k], float(c)) for k, c in reversed(list(enumerate(row))) if abs(c) > FAINT]
        u = ring.expression(terms)
        if not constant(u, system) and independent([u], have, system)[0]:
            have.append(u)
            out.append(Invariant(u, max(sum(e) for e, _ in terms), SEEN))
    return sorted(out, key=lambda f: f.degree)


def looked(ring: Ring, monomials: Sequence[Exponents], points: int, width: float) -> tuple[Any, Any] | None:
    """Values and rates of monomials, a row for each state drawn at random."""
    z = [u for u in ring.functions if u in ring.back]
    env = {str(v.arg): drawn(points, k, width) for k, v in enumerate(z)}
    numbers = on_arrays([*ring.functions, *ring.rates_of], env)
    if numbers is None:
        return None
    every = np.array([np.broadcast_to(x, points) for x in numbers]).T
    every = every[np.isfinite(every).all(axis=1)]
    w, r = every[:, : len(ring.functions)], every[:, len(ring.functions) :]
    e = np.array(monomials)
    values = np.stack([np.prod(w**row, axis=1) for row in e], axis=1)
    return (values, values * ((r / w) @ e.T)) if len(values) >= len(monomials) else None


def echelon(rows: Any) -> list[Any]:
    """With as few monomials of a high degree as there can be, in floats; simple numbers are taken for what they are."""
    a, done = np.array(rows)[:, ::-1].copy(), 0
    for k in range(a.shape[1]):
        if done == len(a):
            break
        best = done + int(np.argmax(np.abs(a[done:, k])))
        if abs(a[best, k]) < FAINT * np.abs(a).max():
            continue
        a[[done, best]] = a[[best, done]]
        a[done] /= a[done, k]
        for i in range(len(a)):
            if i != done:
                a[i] -= a[i, k] * a[done]
        done += 1
    near = np.rint(a * 24) / 24
    return [np.where(np.abs(x - y) < FAINT, y, x)[::-1] for x, y in zip(a[:done], near[:done])][::-1]
