"""How is a Hamiltonian that does not split stepped?  By collocation: the stages of Gauss, found by solving for them.

The stages Y of a step satisfy Y_i = y + h sum a_ij f(Y_j), and y moves by h sum b_j f(Y_j). With the coefficients of
Gauss–Legendre quadrature this is symplectic and symmetric for every H, of order twice the number of stages, and keeps
quadratic invariants. Corrections are those of Newton, with the slopes at the middle of the step, as Euler's method
foresees it: one small linear system a step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tinyphysics.flows.implicit import ImplicitFlow
from tinyphysics.flows.map import Map
from tinyphysics.flows.shears import Shear, ShearFlow, along
from tinyphysics.ir import UOp, elements, substitute
from tinyphysics.rules.calculus.linear import ONE, ZERO, Rows, inverse, less, times
from tinyphysics.rules.calculus.solve import ROUNDS
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, WORK, Claims, Step, SubFlow, Term
from tinyphysics.structure import acted
from tinyphysics.synth.coefficients.clocks import palindrome
from tinyphysics.synth.methods.derivative import derivative, power
from tinyphysics.system import System

BY_NEWTON = 12  # unknowns, up to which the linear system is written out; beyond, residuals are the correction
TINY = 2.0**-1000  # a size that is not zero
NEGLIGIBLE = 2.0**-16  # of the largest position, or momentum
SHAKEN = (
    2.0**-30
)  # of each number, by which slopes are looked at: far above rounding, and no nearer to a pole
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
HUGE = 2.0**500


@dataclass(frozen=True)
class Collocation:
    """Coefficients of an implicit Runge–Kutta method, a_ij = mu_ij b_j: symplectic if mu_ij + mu_ji = 1.

    As floats that holds to the last bit here, where b_i a_ij + b_j a_ji = b_i b_j would not: rounded coefficients would be
    those of a method that is not symplectic (Antoñana, Makazaga & Murua 2017, Numer. Algor. 76, 861).
    """

    mu: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    c: tuple[float, ...]

    @property
    def stages(self) -> int:
        return len(self.b)

    @property
    def a(self) -> list[list[float]]:
        return [[m * b for m, b in zip(row, self.b)] for row in self.mu]


def gauss(stages: int) -> Collocation:
    """Kuntzmann 1961, Butcher 1964; up to three stages.

    >>> gauss(1)
    Collocation(mu=((0.5,),), b=(1.0,), c=(0.5,))
    """
    below, b, c = {
        1: ((), (1.0,), (0.5,)),
        2: ((0.5 + math.sqrt(3) / 3,), (0.5, 0.5), (0.5 - math.sqrt(3) / 6, 0.5 + math.sqrt(3) / 6)),
        3: (
            (0.5 + 0.15 * math.sqrt(15), 0.5 + 0.12 * math.sqrt(15), 0.5 + 0.15 * math.sqrt(15)),
            (5 / 18, 4 / 9, 5 / 18),
            (0.5 - math.sqrt(15) / 10, 0.5, 0.5 + math.sqrt(15) / 10),
        ),
    }[stages]
    mu = [[0.5] * stages for _ in range(stages)]
    places = [(i, j) for i in range(stages) for j in range(i)]
    for m, (i, j) in zip(below, places):
        mu[i][j], mu[j][i] = m, 1.0 - m  # exactly: m is between a half and 2
    return Collocation(tuple(map(tuple, mu)), b, c)


class VectorField:
    """The motion of a Hamiltonian as numbers: dz/dt for each component of each state, states in their order."""

    def __init__(self, system: System, energy: UOp) -> None:
        self.system, self.energy = system, energy
        self.states = system.structure.states
        self.z = [e for s in self.states for e in elements(s)]
        by = [x for pair in zip(system.p, system.q) for x in pair] or list(system.structure.by)
        if system.p:
            moves = system.structure.flow(dict(zip(by, unroll(derivative(energy, by)))))
        else:
            whole = system.structure.flow(dict(zip(by, derivative(energy, by))))
            moves = [(state, unroll([rate])[0], word) for state, rate, word in whole]
        self.words = {state: word for state, _, word in moves}
        self.slopes = simplify([acted(word, g) for _, group, word in moves for g in group])

    def at(self, z: Sequence[UOp], after: float = 0.0) -> list[UOp]:
        """The slopes at other numbers, a part of a step later."""
        return self.moved(self.slopes, z, after)

    def moved(self, roots: Sequence[UOp], z: Sequence[UOp], after: float) -> list[UOp]:
        table = dict(zip(self.z, z))
        t = self.system.time
        if t is not None and after:
            table[t] = t + after * DT
        return substitute(roots, table)

    def jacobian(self) -> list[list[UOp]]:
        # rows share most of their nodes
        entries = simplify([d for f in self.slopes for d in gradient(f, self.z)])
        width = len(self.z)
        return [entries[k : k + width] for k in range(0, len(entries), width)]

    def sizes(self, groups: Sequence[Sequence[UOp]]) -> list[UOp]:
        """One over the size of each number, positions and momenta apart."""
        out: dict[int, UOp] = {}
        for states in (self.system.q, self.system.p) if self.system.p else (self.states,):
            own = self.places(states)
            out |= zip(own, sizes_of(states, [[group[k] for k in own] for group in groups]))
        return [out[k] for k in range(len(self.z))]

    def shaken(self, h: UOp | float, jacobian: Rows | None = None) -> list[UOp]:
        """What a step makes of numbers of the state that are wrong by a part that is negligible.

        Near a rest, forces are what rounding of the positions leaves of them, and so are the momenta that a step makes: no
        round settles their digits, and none is asked to. By the slopes of slopes, where a step has them anyway.
        """
        if jacobian is not None:
            wrong = [z * (NEGLIGIBLE * part(k)) for k, z in enumerate(self.z)]
            rows = [[times(d, x) for d, x in zip(row, wrong) if d is not ZERO] for row in jacobian]
            return [h * UOp.sum_of(row) if row else ZERO for row in rows]
        moved = [z - z * (SHAKEN * part(k)) for k, z in enumerate(self.z)]
        return [less_known(h * (b - a)) for a, b in zip(self.at(self.z), self.at(moved))]

    def places(self, states: Sequence[UOp]) -> list[int]:
        """Where the numbers of some states are, in their order."""
        numbers = [s for s in self.states for _ in range(s.size)]
        return [k for k, s in enumerate(numbers) if any(s is x for x in states)]

    def works(self, z: Sequence[UOp], after: float, weight: float) -> list[Shear]:
        """What moves the energy of the clock, where there is one."""
        if not self.system.driven:
            return []
        ((lost,),) = unroll([-power(self.energy, self.system.time)])
        return [Shear(WORK, u, "force", weight) for u in self.moved([lost], z, after)]

    def covectors(self, z: Sequence[UOp], after: float) -> list[tuple[UOp, UOp, str]]:
        """(state, covector, how J acts) at other numbers."""
        flat, out = self.at(z, after), []
        for s in self.states:
            own, flat = flat[: s.size], flat[s.size :]
            word = self.words[s]
            values = simplify([-v for v in own]) if word == "negate" else own
            out.append((s, UOp.stack(values, s.shape) if s.shape else values[0], word))
        return out


def part(k: int) -> float:
    """Between a half and 1, for each number another: what moves as a whole would leave differences alone."""
    return 0.5 + 0.5 * ((k + 1) * GOLDEN % 1.0)


def less_known(change: UOp) -> UOp:
    """A change by SHAKEN as one by what is negligible; none where it has no value."""
    whole = change * (NEGLIGIBLE / SHAKEN)
    return (abs(whole) < HUGE).where(whole, UOp.const(0.0, whole.dtype, whole.shape))


def largest_of(items: Sequence[UOp]) -> UOp:
    out = items[0]
    for x in items[1:]:
        out = out.maximum(x)
    return out


def sizes_of(states: Sequence[UOp], groups: Sequence[Sequence[UOp]]) -> list[UOp]:
    """One over the size of each number: of the largest of its array, in any of the groups of numbers.

    A number that is nothing beside those of the other states, or nothing at all at rest, is as good as they need it: else
    what is left of it by rounding would never seem to settle.
    """
    own, at = [], 0
    for s in states:
        own.append(largest_of([abs(x) for group in groups for x in group[at : at + s.size]]))
        at += s.size
    least = largest_of(own) * NEGLIGIBLE
    return [1.0 / x.maximum(least).maximum(TINY) for s, x in zip(states, own) for _ in range(s.size)]


def solving(
    unknown: UOp,
    start: UOp | Sequence[UOp],
    residuals: Sequence[UOp],
    sizes: Sequence[UOp],
    moves: ShearFlow | Map,
    slopes: Rows | None = None,
    rounds: int = ROUNDS,
) -> ImplicitFlow:
    """Equations that are given number by number; `slopes` of the residuals make corrections by Newton's method."""
    n = unknown.shape
    begin = start if isinstance(start, UOp) else UOp.stack(list(start), n)
    residual, scale = (UOp.stack(list(x), n) for x in (residuals, sizes))
    matrix = None if slopes is None else UOp.stack([x for row in inverse(slopes) for x in row], n + n)
    return ImplicitFlow(unknown, begin, residual, scale, moves, matrix, rounds)


def half(flow: VectorField, momenta: bool, weight: float, clock: float, name: str) -> ImplicitFlow:
    """A step by a generating function, for a time weight*dt: positions and momenta move by slopes at (q, P), or at (Q, p).

    p = P + h H_q(q, P), Q = q + h H_p(q, P) comes of F = q P + h H(q, P), and is solved for P; its adjoint for Q. The
    energy sees one time, `clock`.
    """
    states = flow.system.p if momenta else flow.system.q
    own = flow.places(states)
    n, h = len(own), weight * DT
    unknown = UOp.var(name, (n,))
    x = elements(unknown)

    def with_(values: Sequence[UOp]) -> list[UOp]:
        table = dict(zip(own, values))
        return [table.get(k, z) for k, z in enumerate(flow.z)]

    here = flow.at(flow.z, clock)
    start = [flow.z[k] + h * here[k] for k in own]
    slopes = flow.at(with_(x), clock)
    residuals = [x[i] - flow.z[k] - h * slopes[k] for i, k in enumerate(own)]
    rows = None
    if n <= BY_NEWTON:
        table = flow.moved([v for row in flow.jacobian() for v in row], with_(start), clock)
        rows = [
            [less(ONE if i == j else ZERO, times(table[k * len(flow.z) + m], h)) for j, m in enumerate(own)]
            for i, k in enumerate(own)
        ]
    shears = along(flow.covectors(with_(x), clock), weight)
    size = sizes_of(states, [[flow.z[k] for k in own], start])
    moves = ShearFlow(shears, work=tuple(flow.works(with_(x), clock, weight)))
    return solving(unknown, start, residuals, size, moves, rows)


def generated(name: str, system: System, weights: Sequence[float], claims: Claims) -> Step:
    """For each weight a step by a generating function and its adjoint: the method of Störmer and Verlet for any H."""
    assert system.energy is not None
    flow, done = VectorField(system, system.energy), 0.0
    body: list[SubFlow] = []
    for w in weights:
        for momenta in (True, False):
            body.append(half(flow, momenta, w / 2, done + w / 2, f"?{len(body)}"))
        done += w
    return Step.of(system, name, (Term("H", system.energy),), claims, 2 * len(weights), body=tuple(body))


def stages(flow: VectorField, method: Collocation, weight: float, name: str) -> ImplicitFlow:
    """The stages of a step of length weight*dt, and the moves that they are for."""
    n, s, h = len(flow.z), method.stages, DT if weight == 1.0 else weight * DT
    unknown = UOp.var(name, (n * s,))
    Y = [elements(unknown)[k * n : (k + 1) * n] for k in range(s)]
    f = flow.at(flow.z)
    ahead = [z + (0.5 * h) * v for z, v in zip(flow.z, f)]  # the middle of the step, as Euler sees it
    g = flow.at(ahead, 0.5)
    beyond = [z + h * v for z, v in zip(flow.z, g)]  # what is at rest in its place has moved there
    start = [z + (c * h) * ((1.0 - c) * v + c * w) for c in method.c for z, v, w in zip(flow.z, f, g)]
    at = [flow.at(y, c) for y, c in zip(Y, method.c)]
    residuals = [Y[0][k] - flow.z[k] - (0.5 * h) * at[0][k] for k in range(n)]
    if s > 1:
        moves = [[(b * h) * v for v in slopes] for b, slopes in zip(method.b, at)]
        residuals = [
            UOp.sum_of([Y[i][k] - flow.z[k], *(-method.mu[i][j] * moves[j][k] for j in range(s))])
            for i in range(s)
            for k in range(n)
        ]
    matrix: Rows | None = None
    slopes: Rows | None = None
    a = method.a
    if n * s <= BY_NEWTON:
        slopes = [flow.moved(row, ahead, 0.5) for row in flow.jacobian()]
        matrix = [
            [
                less(ONE if (i, k) == (j, m) else ZERO, times(slopes[k][m], a[i][j] * h))
                for j in range(s)
                for m in range(n)
            ]
            for i in range(s)
            for k in range(n)
        ]
    shears: list[Shear] = []
    for j in range(s):
        shears += along(flow.covectors(Y[j], method.c[j]), weight * method.b[j])
    works = [x for b, c, y in zip(method.b, method.c, Y) for x in flow.works(y, c, weight * b)]
    size = flow.sizes([flow.z, ahead, beyond, flow.shaken(h, slopes)])
    return solving(unknown, start, residuals, size * s, ShearFlow(tuple(shears), work=tuple(works)), matrix)


def collocate(name: str, system: System, method: Collocation, claims: Claims) -> Step:
    assert system.energy is not None
    solve = stages(VectorField(system, system.energy), method, 1.0, "?stages")
    return Step.of(system, name, (Term("H", system.energy),), claims, method.stages, body=(solve,))


def kicked(name: str, system: System, V: UOp, rest: UOp, weights: Sequence[float], claims: Claims) -> Step:
    """Half a kick by V, the midpoint rule for the rest, half a kick; neighbouring kicks merged. V is no part of a round."""
    moves = system.structure.flow(dict(zip(system.q, derivative(V, system.q))))
    flow = VectorField(system, rest)

    def kick(weight: float) -> ShearFlow:
        return ShearFlow(along(moves, weight))

    (_, first), *middle, (_, last) = palindrome("V", "R", weights)
    body: list[SubFlow] = [
        kick(w) if part == "V" else stages(flow, gauss(1), w, f"?{k}") for k, (part, w) in enumerate(middle)
    ]
    terms, loop = (Term("V", V), Term("R", rest)), (*body, kick(first + last))
    return Step.of(system, name, terms, claims, len(weights), (kick(first),), loop, (kick(-first),))
