"""One step of a method, as expressions: what is added to which state, in which order.

A run of n steps is init, then body n times, then final on a copy. Splitting `init` off lets the last
sub-step of one step merge with the first of the next, and `final` take it back where someone looks.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from tinyphysics.ir import UOp
from tinyphysics.system import Parameter, State


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

    `clock` is the time that its flows see, in steps after the beginning of the step.
    """

    shears: tuple[Shear | Shift, ...]
    clock: float = 0.0


@dataclass(frozen=True, eq=False)
class Assign:
    """state := value, all values evaluated before the first assignment: an explicit map."""

    state: UOp
    value: UOp


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
    init: tuple[Block | Assign, ...]
    body: tuple[Block | Assign, ...]
    final: tuple[Block | Assign, ...]
    evaluations: int  # of the force, in one body
    scales: tuple[Scale, ...] = ()


def inverse(step: Step) -> Step:
    """The step whose body takes that of another back: its blocks in reverse, by as much less.

    `init` and `final` are as they were: they lead from a state to the loop and back, which is where a body begins and ends.
    """

    def taken_back(b: Block | Assign) -> Block:
        assert isinstance(b, Block) and all(isinstance(s, Shear) for s in b.shears), "only shears are taken back"
        return Block(tuple(replace(s, weight=-s.weight) for s in b.shears if isinstance(s, Shear)), b.clock)

    return replace(step, body=tuple(map(taken_back, reversed(step.body))))


DT = UOp.var("dt")
