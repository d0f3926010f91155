"""One step of a method, as expressions: what is added to which state, in which order.

A run of n steps is init, then body n times, then final on a copy. Splitting `init` off lets the last
sub-step of one step merge with the first of the next, and `final` take it back where someone looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from tinyphysics.ir import UOp
from tinyphysics.system import Parameter, State


def _of_both(operation: Callable[[Any, Any], Any]) -> Any:
    """Arithmetic on the float64 as ever, and on what it stands for."""

    def method(self: Weight, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return Weight(operation(float(self), float(other)), operation(self.exact, exactly(other)))

    return method


class Weight(float):
    """A coefficient of a method: a float64 that knows the number it stands for, for programs with more digits.

    The float64 is computed as ever, so that nothing changes where it is used alone.

    >>> third = Weight(1 / 3, Fraction(1, 3))
    >>> (1 - 2 * third).exact, 1 - 2 * third == 1 - 2 * (1 / 3)
    (Fraction(1, 3), True)
    """

    exact: Fraction

    def __new__(cls, value: float, exact: Fraction) -> Weight:
        self = super().__new__(cls, value)
        self.exact = exact
        return self

    def __reduce__(self) -> tuple[type[Weight], tuple[float, Fraction]]:
        return Weight, (float(self), self.exact)

    def __neg__(self) -> Weight:
        return Weight(-float(self), -self.exact)

    __add__ = _of_both(lambda a, b: a + b)
    __radd__ = _of_both(lambda a, b: b + a)
    __sub__ = _of_both(lambda a, b: a - b)
    __rsub__ = _of_both(lambda a, b: b - a)
    __mul__ = _of_both(lambda a, b: a * b)
    __rmul__ = _of_both(lambda a, b: b * a)
    __truediv__ = _of_both(lambda a, b: a / b)


def exactly(x: float) -> Fraction:
    """The number that a coefficient stands for: of a plain float64, itself."""
    return x.exact if isinstance(x, Weight) else Fraction(x)


@dataclass(frozen=True, eq=False)
class Shear:
    """state += weight * dt * J(covector)."""

    state: UOp
    covector: UOp
    kind: str  # pass: dH/dp moves q; negate: dH/dq moves p; force: a force that no energy is known for
    weight: float


@dataclass(frozen=True, eq=False)
class Shift:
    """state := value, which is the state plus what the state does not enter: a shear with its step inside."""

    state: UOp
    value: UOp
    note: str = ""


@dataclass(frozen=True, eq=False)
class Scale:
    """In the loop, `state` stands for factor times the user's state; no state enters the factor."""

    state: UOp
    factor: UOp


@dataclass(frozen=True, eq=False)
class Block:
    """Shears whose flows are all evaluated before the first of them is applied.

    `clock` is the time that its flows see, in steps after the beginning of the step. `works` are what it does to p_t, the
    momentum of explicit time: no part of a program, but of the one that watches H + p_t.
    """

    shears: tuple[Shear | Shift, ...]
    clock: float = 0.0
    works: tuple[Shear, ...] = ()


@dataclass(frozen=True, eq=False)
class Orbits:
    """Every body goes on along its Kepler orbit for weight * dt: an exact flow, in the coordinates of a frame."""

    weight: float


@dataclass(frozen=True, eq=False)
class Oscillator:
    """The energy of a pair of states, number by number: a*p*p/2 + g*p + b*q*q/2 + f*q, where no state enters these."""

    a: UOp
    b: UOp
    g: UOp | None = None
    f: UOp | None = None


@dataclass(frozen=True, eq=False)
class Turn:
    """Every pair goes on as its oscillator does for weight * dt: an exact flow."""

    weight: float


@dataclass(frozen=True, eq=False)
class Frame:
    """Jacobi coordinates: the loop keeps positions and velocities of bodies as seen from those within.

    A kick in them leaves out the pull of the centres, which `Orbits` has done.
    """

    q: UOp
    p: UOp
    masses: UOp
    order: tuple[int, ...]  # of the bodies, innermost first
    gm: UOp  # G times the mass within, each body's own included


@dataclass(frozen=True, eq=False)
class Assign:
    """state := value, all values evaluated before the first assignment: an explicit map."""

    state: UOp
    value: UOp
    as_written: bool = False  # did a user write it, to be run?


@dataclass(frozen=True, eq=False)
class Solve:
    """A vector of unknowns that makes residuals vanish, found round by round; then states are moved by what it is.

    `start`, `scale` and `matrix` are functions of the states, residuals and moves of the unknown too. The matrix makes
    corrections of residuals; without one they are the correction. `scale` is one over the size of each unknown.
    """

    unknown: UOp  # a variable whose name begins with ?
    start: UOp
    residual: UOp
    scale: UOp
    moves: Block | tuple[Assign, ...]  # all evaluated before the first is applied
    matrix: UOp | None = None
    rounds: int = 50

    @property
    def expressions(self) -> list[UOp]:
        return [self.start, self.residual, self.scale, *([] if self.matrix is None else [self.matrix])]


Part = Block | Orbits | Turn | Assign | Solve


def moves_of(part: Part) -> Block | None:
    """The block of a part that moves states by what it computes."""
    block = part.moves if isinstance(part, Solve) else part
    return block if isinstance(block, Block) else None


@dataclass(frozen=True, eq=False)
class Propagate:
    """All states after the n steps of a run at once.

    `flow`: of the sum of the terms, for n*dt. `power`: the n-th power of the flows of terms one after the other, each
    for its weight times dt.
    """

    way: str
    parts: tuple[tuple[int, float], ...]  # (number of the term, weight)


@dataclass(frozen=True, eq=False)
class Loops:
    """All states along the Taylor series of their solution, in loops over its coefficients: rules/calculus/series.py."""

    rates: tuple[UOp, ...]  # the derivative of each state
    order: int


@dataclass(frozen=True, eq=False)
class Term:
    """A part of the energy that the method treats as one."""

    label: str
    energy: UOp


@dataclass(frozen=True, eq=False)
class Step:
    name: str
    states: tuple[State, ...]
    parameters: tuple[Parameter, ...]
    time: UOp | None
    terms: tuple[Term, ...]
    claims: tuple[str, ...]  # what the verifier is asked to show
    init: tuple[Part, ...]
    body: tuple[Part, ...]
    final: tuple[Part, ...]
    evaluations: int  # of the force, in one body
    scales: tuple[Scale, ...] = ()
    jump: Propagate | None = None  # then nothing else moves a state
    frame: Frame | None = None
    oscillators: tuple[tuple[UOp, UOp, Oscillator], ...] = ()  # (q, p, theirs), of a step that turns them
    coupled: bool = False  # then a turn is the flow of the first term, by a matrix that is handed in
    coefficients: tuple[
        float, ...
    ] = ()  # of a method whose expressions hold more than the weights of its updates
    loops: Loops | None = None  # then it is all that a step does
    going: UOp | None = None  # where it does not hold a body changes nothing, and a loop may end

    @property
    def weights(self) -> dict[float, Fraction]:
        """What the coefficients of the method stand for, by their float64: those of its updates, and of its clock."""
        return {float(w): exactly(w) for w in (*self._weights(), *self.coefficients)}

    def _weights(self) -> Iterator[float]:
        for part in (*self.init, *self.body, *self.final):
            if (block := moves_of(part)) is not None:
                yield block.clock
                yield from (s.weight for s in (*block.shears, *block.works) if isinstance(s, Shear))


def inverse(step: Step) -> Step:
    """The step whose body takes that of another back: its blocks in reverse, by as much less.

    `init` and `final` are as they were: they lead from a state to the loop and back, which is where a body begins and ends.
    """

    def taken_back(b: Part) -> Part:
        assert isinstance(b, Block) and all(isinstance(s, Shear) for s in b.shears), (
            "only shears are taken back"
        )
        shears, works = (
            tuple(replace(s, weight=-s.weight) for s in group if isinstance(s, Shear))
            for group in (b.shears, b.works)
        )
        return Block(shears, b.clock, works)

    return replace(step, body=tuple(map(taken_back, reversed(step.body))))


DT = UOp.var("dt")
WORK = UOp.var("p_t work")  # no name of a user's has a space
