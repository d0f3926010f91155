"""One step of a method, as expressions: what is added to which state, in which order.

A run of n steps is init, then body n times, then final on a copy. Splitting `init` off lets the last
sub-step of one step merge with the first of the next, and `final` take it back where someone looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

from tinyphysics.ir import UOp
from tinyphysics.ir.drawn import draws
from tinyphysics.report import Row
from tinyphysics.system import Parameter, State, System

Claims = tuple[str, ...]  # what a verifier is asked to show


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


class SubFlow(Protocol):
    """One part of a step. All that another file would ask about its kind, it answers itself: flows/ has one file for each."""

    @property
    def declares_dt(self) -> bool:
        """Is $dt a parameter of the program?"""
        return True

    @property
    def books(self) -> str:
        """What its works are: "drive", of an energy that depends on t, or "friction"."""
        return "drive"

    @property
    def clock(self) -> float:
        """The time that its expressions see, in steps after the beginning of the step."""
        return 0.0

    @property
    def traits(self) -> frozenset[str]:
        """What planner, explain and the table of conflicts may ask: words of those below."""

    def writes(self) -> tuple[UOp, ...]:
        """The states that it changes."""

    def reads(self) -> frozenset[UOp]:
        """The variables that its expressions hold."""
        return frozenset(v for u in (*self.expressions(), *self.private()) for v in u.leaves)

    def expressions(self) -> tuple[UOp, ...]:
        """In the order of lowering: divided and fused together with those of the whole step."""
        return ()

    def private(self) -> tuple[UOp, ...]:
        """Expressions that are decided for themselves."""
        return ()

    def works(self) -> tuple[UOp, ...]:
        """What it does to p_t, the momentum of explicit time: no part of a program, but of the one that watches H + p_t."""
        return ()

    def rebuilt(self, new: Mapping[UOp, UOp]) -> SubFlow:
        """With its expressions replaced."""
        return self

    def followed(self, p_t: UOp, new: Mapping[UOp, UOp]) -> SubFlow:
        """With what it does to p_t, as a state, its works replaced."""
        return self

    def weights(self) -> Iterator[float]:
        """Its coefficients, for double-double."""
        return iter(())

    def lower(self, b: Any, section: str) -> None:
        """Its instructions, written with the ProgramBuilder of tpir/program/lower.py: the only place that knows which."""

    def field(self) -> Mapping[UOp, UOp] | None:
        """For each state its rate in units of dt, as dt goes to 0; None of what is no flow."""
        return None

    def inverse(self) -> SubFlow | None:
        """What takes it back; None where that is not known."""
        return None

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...] | None:
        """What moves directions beside the states, with itself among them; None where its derivative is not known.

        A way has for each state its direction, which is a state too; it becomes the derivative of the flow times itself.
        """
        return None

    def beside(self, ways: int) -> tuple[State, ...]:
        """The states that its tangents keep besides so many directions, which no user sees."""
        return ()

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...] | None:
        """What pulls cotangents back through it, where the states are as they were before it; None if that is not known.

        `bars` has for each state its cotangent, which is a state too; `sums` for each parameter, and dt, what its gradient is
        added to.
        """
        return None

    @property
    def without_adjoint(self) -> str:
        """Why it has no adjoint, where more can be said than its name."""
        return ""

    def added(self) -> Iterator[tuple[UOp, UOp]]:
        """Of what pulls cotangents back: (cotangent or sum, what is added to it)."""
        raise TypeError(f"{type(self).__name__} pulls nothing back")

    def within(self, time: UOp, dt: UOp) -> SubFlow:
        """Of what pulls cotangents back: what it adds to the sum of the time goes to that of dt too, by its clock."""
        return self

    def joined(self, other: SubFlow) -> SubFlow:
        """This and another of its kind, side by side: both see the states as they were before."""
        raise TypeError(f"{type(self).__name__} is not what moves states after equations are solved")

    def updates(self) -> int:
        """How often a state is rounded in it."""
        return len(self.writes())

    def rows(self, alike: int, tried: bool = False) -> list[Row]:
        """What explain() says of it, the first of so many in a step, which may be tried and not taken."""
        return []


# traits of sub-flows
SHEARS, SOLVES, TURNS, ORBITS, JUMPS = "shears", "solves", "turns", "orbits", "jumps"
SERIES, OWN_STEPS = "series", "own steps"
PHASES = "phases"  # turns of complex fields, number by number or wave by wave
DRAWS = "draws"  # random numbers: of every flow whose expressions hold some
# changes it on purpose: an energy that moves is no sign of a step that is too long
NO_ENERGY = "keeps no energy"
# goes from event to event, in rounds: a step of a run is some of them
MEETS = "meets walls or events"
# by a user, to be run: operations in the order of the expression, each rounded once
AS_WRITTEN = "as written"


@dataclass(frozen=True, eq=False)
class Scale:
    """In the loop, `state` stands for factor times the user's state; no state enters the factor."""

    state: UOp
    factor: UOp


class Coordinates(Protocol):
    """In what a loop keeps the states. `b` is the ProgramBuilder of tpir/program/lower.py, registers are those of TP-IR."""

    @property
    def scales(self) -> tuple[Scale, ...]:
        """Units in which states are kept: their values are checked before a run."""
        return ()

    def enter(self, b: Any) -> None:
        """From the user's states, in `init`."""
        return None

    def leave(self, b: Any) -> None:
        """To the user's states, in `final`."""
        return None

    def seen(self, b: Any, state: UOp, section: str) -> Any:
        """The register of a user's state, where it is not that of the state; else None."""
        return None

    def carried(self, b: Any, flow: Any, state: UOp, section: str) -> Any:
        """The flow of a user's state as one of these coordinates."""
        return flow

    def computes(self) -> bool:
        """Is a user's state computed wherever it is read?"""
        return False

    def as_seen(self, flow: SubFlow) -> SubFlow:
        """What a flow does to the user's states, where these coordinates have a part in that."""
        return flow


class AsGiven(Coordinates):
    """The states as the user has them."""


AS_GIVEN = AsGiven()


@dataclass(frozen=True, eq=False)
class Term:
    """A part of the energy that the method treats as one."""

    label: str
    energy: UOp


@dataclass(frozen=True, eq=False)
class ExactPart:
    """A term whose flow is known exactly, for weight * dt; or a symmetric step for it, if it is not `exact`.

    One that reads the time is `timed`: its flow takes the clock besides, in steps after the beginning of the step.
    """

    term: Term
    flow: Callable[..., SubFlow]
    exact: bool = True
    timed: bool = False


@dataclass(frozen=True, eq=False)
class Step:
    name: str
    states: tuple[State, ...]
    parameters: tuple[Parameter, ...]
    time: UOp | None
    terms: tuple[Term, ...]
    claims: Claims
    init: tuple[SubFlow, ...]
    body: tuple[SubFlow, ...]
    final: tuple[SubFlow, ...]
    evaluations: int  # of the force, in one body
    coordinates: Coordinates = AS_GIVEN
    coefficients: tuple[float, ...] = ()  # in its expressions, besides the weights of its flows
    bracket: str = ""  # as the system declares it
    tensor: tuple[UOp, ...] = ()

    @classmethod
    def of(
        cls,
        system: System,
        name: str,
        terms: Sequence[Term],
        claims: Claims,
        evaluations: int,
        init: tuple[SubFlow, ...] = (),
        body: tuple[SubFlow, ...] = (),
        final: tuple[SubFlow, ...] = (),
        **more: Any,
    ) -> Step:
        """Of the states and parameters of a system."""
        given = (system.states, system.parameters, system.time)
        declared = {"bracket": system.bracket, "tensor": system.tensor}
        return cls(name, *given, tuple(terms), claims, init, body, final, evaluations, **declared | more)

    @property
    def flows(self) -> tuple[SubFlow, ...]:
        return (*self.init, *self.body, *self.final)

    @property
    def traits(self) -> frozenset[str]:
        """Those of all its flows."""
        own = frozenset(trait for f in self.flows for trait in f.traits)
        roots = {u for f in self.flows for u in (*f.expressions(), *f.private())}
        return own | {DRAWS} if any(map(draws, roots)) else own

    @property
    def weights(self) -> dict[float, Fraction]:
        """What the coefficients of the method stand for, by their float64: those of its updates, and of its clock."""
        own = (w for f in self.flows for w in f.weights())
        return {float(w): exactly(w) for w in (*own, *self.coefficients)}

    def each(self, change: Callable[[SubFlow], SubFlow]) -> Step:
        """The step with every flow changed."""
        init, body, final = (tuple(map(change, part)) for part in (self.init, self.body, self.final))
        return replace(self, init=init, body=body, final=final)


def inverse(step: Step) -> Step:
    """The step whose body takes that of another back: the inverses of its flows, the last one first.

    `init` and `final` are as they were: they lead from a state to the loop and back, which is where a body begins and ends.
    """
    back = [f.inverse() for f in reversed(step.body)]
    known = tuple(f for f in back if f is not None)
    assert len(known) == len(back), "only what has an inverse is taken back"
    return replace(step, body=known)


DT = UOp.var("dt")
WORK = UOp.var("p_t work")  # no name of a user's has a space
