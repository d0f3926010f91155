"""How does an energy move its states?  What @tp.hamiltonian(bracket=...) takes: a word, or a function of the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tinyphysics.errors import ShapeError
from tinyphysics.given import shown
from tinyphysics.ir import UOp, as_uop
from tinyphysics.util import did_you_mean

Tensor = tuple[UOp, ...]


def nothing(value: Any, states: Sequence[UOp]) -> Tensor:
    return ()


@dataclass(frozen=True)
class Bracket:
    """z' = P(z) dH, as a user asks for it; structure.py says what follows from it."""

    name: str  # by which the user asks for it
    roles: tuple[str, ...]  # of the first arguments of the energy, in order
    begins: str  # how the energy begins, for errors
    trouble: Callable[[Sequence[UOp]], str]  # what is wrong with these states; empty if nothing
    word: str = ""  # of its structure, where the roles do not say it
    field: Callable[..., Any] | None = (
        None  # what P is made of besides the states: arguments are matched by name
    )
    tensor: Callable[[Any, Sequence[UOp]], Tensor] = nothing  # of what `field` returns


def wrong_shapes(*shapes: tuple[int | None, ...]) -> Callable[[Sequence[UOp]], str]:
    """Whether the last axes of the states are as they must be; None is any length."""

    def trouble(states: Sequence[UOp]) -> str:
        for u, wanted in zip(states, shapes):
            own = u.shape[len(u.shape) - len(wanted) :]
            if len(own) != len(wanted) or any(w not in (None, n) for n, w in zip(own, wanted)):
                return f"`{u.arg}` has shape {u.shape}, and its last axis must be of length {wanted[-1]}"
        first = states[0].shape[:-1]
        other = next((u for u in states if u.shape[:-1] != first), None)
        return "" if other is None else f"`{states[0].arg}` and `{other.arg}` have different numbers of rows"

    return trouble


def not_one_number(states: Sequence[UOp]) -> str:
    q, p, s = states
    if q.shape != p.shape:
        return f"`{q.arg}` has shape {q.shape} and `{p.arg}` has {p.shape}"
    return f"`{s.arg}` has shape {s.shape}, and is one number" if s.shape else ""


# fmt: off
WORDS: dict[str, Bracket] = {
    "so3":  Bracket("so3",  ("so3",),  "L: tp.Vec[3]", wrong_shapes((3,))),
    "spin": Bracket("spin", ("spin",), "S: tp.Vec[3]", wrong_shapes((3,))),
    "se3":  Bracket("se3",  ("se3", "se3_vector"), "L: tp.Vec[3], G: tp.Vec[3]", wrong_shapes((3,), (3,))),
    "contact": Bracket("contact", ("position", "momentum", "action"), "q, p, s", not_one_number, "contact"),
}
# fmt: on


def bracket_of(asked: Any) -> Bracket | tuple[str, str]:
    """What is meant by bracket=; or what is wrong with it, and what to write."""
    if isinstance(asked, Bracket):
        return asked
    if isinstance(asked, str) and asked in WORDS:
        return WORDS[asked]
    if callable(asked):
        name = getattr(asked, "__name__", "J")
        begins = "z: tp.Vec[3]"
        return Bracket(f"{name}(z)", ("poisson",), begins, not_a_vector, "poisson", asked, matrix)
    known = ", ".join(f'"{word}"' for word in WORDS)
    near = did_you_mean(asked, WORDS) if isinstance(asked, str) else ""
    return (
        f"bracket={shown(asked)} is not a bracket",
        f"{near}Write {known}, tp.magnetic(B), or a function J(z) of the state.",
    )


def not_a_vector(states: Sequence[UOp]) -> str:
    (z,) = states
    return "" if z.ndim == 1 else f"`{z.arg}` has shape {z.shape}, and must be a vector"


def matrix(value: Any, states: Sequence[UOp]) -> Tensor:
    """What a user's function returns, as a square matrix."""
    (z,) = states
    n = z.size
    J = as_uop(value)
    if J.shape != (n, n):
        raise ShapeError.here(
            f"the bracket has shape {J.shape}, and the state {n} numbers",
            f"Return a matrix of {n} rows of {n}.",
        )
    return (J,)
