"""One step of a method, as expressions: what is added to which state, in which order.

A run of n steps is init, then body n times, then final on a copy. Splitting `init` off lets the last
sub-step of one step merge with the first of the next, and `final` take it back where someone looks.
"""
from __future__ import annotations

from dataclasses import dataclass

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
class Propagate:
    """All states after the n steps of a run at once.

    `flow`: of the sum of the terms, for n*dt. `power`: the n-th power of the flows of terms one after the other, each
    for its weight times dt.
    """

    way: str
    parts: tuple[tuple[int, float], ...]  # (number of the term, weight)


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
    jump: Propagate | None = None  # then nothing else moves a state


DT = UOp.var("dt")
