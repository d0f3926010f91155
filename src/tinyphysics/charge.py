"""A quantity that a motion conserves: what it is, its symmetry, why it is conserved, and how well a run keeps it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NoReturn

from tinyphysics.errors import InputError
from tinyphysics.given import FROM_FRAME, no_number, unit_of
from tinyphysics.ir import UOp, substitute
from tinyphysics.ir.value import Prepared, Value
from tinyphysics.util import did_you_mean

EXACT = "to rounding"  # of `kept`: every part of a step keeps it


def flat(name: str, value: Any) -> list[float]:
    """The numbers of a value, row-major."""
    if isinstance(value, (list, tuple)):
        return [x for item in value for x in flat(name, item)]
    if unit_of(value) is None and hasattr(value, "tolist"):
        return flat(name, value.tolist())
    if word := no_number(value):
        raise InputError(
            f"`{name}` is not a number or an array of numbers: it is {word}",
            fix=f"Pass {name}=1.0, or an array of numbers.",
        )
    return [float(value)]


@lru_cache(maxsize=32)
def prepared(expression: UOp) -> Prepared:
    """A charge is evaluated at many states."""
    return Prepared([expression])


@dataclass(frozen=True, eq=False)
class Charge:
    """A conserved quantity: `name`, `expression`, the `generator` of its symmetry, its `proof`, and how a run has it `kept`.

    `charge(q=..., p=...)` or `charge(out.final)` is its value at a state; parameters that are not given have their defaults.
    `observe={"L": charge}` records it in a run.
    """

    name: str
    expression: UOp
    generator: str
    proof: str
    kept: str = ""
    takes: Mapping[str, UOp] = field(default_factory=dict, repr=False)  # states, parameters and t, by name
    defaults: Mapping[str, Any] = field(default_factory=dict, repr=False)
    # arguments with units as numbers, where the system has units
    in_numbers: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = field(default=None, repr=False)

    @property
    def names(self) -> list[str]:
        """What it is a function of."""
        return [name for name, var in self.takes.items() if var in self.expression.leaves]

    @property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature([inspect.Parameter(name, kind) for name in self.names])

    def __call__(self, state: Any = None, *more: Any, **given: Any) -> Any:
        known: dict[str, Any] = dict(self.defaults)
        if more or state is not None and not hasattr(state, "states") and not isinstance(state, Mapping):
            raise InputError(
                f"the charge `{self.name}` takes its arguments by name, or one frame of a run",
                fix=f"Write charge({', '.join(f'{name}=...' for name in self.names)}), or charge(out[-1]).",
            )
        state = given.pop(FROM_FRAME, state)  # of charge(**out.final)
        given = dict(self.in_numbers(given)) if self.in_numbers is not None else given
        if state is not None:
            own = getattr(state, "states", None)
            known |= (
                {"t": getattr(state, "t", 0.0), **getattr(state, "given", {}), **own} if own else dict(state)
            )
        known |= given
        for name in given:
            if name not in self.takes:
                raise InputError(
                    f"the charge `{self.name}` has no argument `{name}`",
                    fix=f"{did_you_mean(name, self.takes)}It is a function of {', '.join(self.names)}.",
                )
        if missing := [name for name in self.names if name not in known]:
            raise InputError(
                f"the charge `{self.name}` needs `{missing[0]}`",
                fix=f"Pass it: charge({', '.join(f'{name}=...' for name in self.names)}).",
            )
        if any(isinstance(known[name], UOp) for name in self.names):
            return substitute(
                [self.expression], {self.takes[n]: self.symbol(n, known[n]) for n in self.names}
            )[0]
        env: dict[str, Value] = {}
        for name in self.names:
            var, numbers = self.takes[name], flat(name, known[name])
            if len(numbers) == 1 and var.size > 1 and name in self.defaults:
                numbers *= var.size
            if len(numbers) != var.size:
                raise InputError(
                    f"the charge `{self.name}` takes one state: `{name}` has {len(numbers)} numbers, not {var.size}",
                    fix=f"Pass an array of shape {var.shape}; of a run, one frame: charge(out[-1]).",
                )
            env[str(var.arg)] = numbers if var.shape else numbers[0]
        (value,) = prepared(self.expression)(env)
        return float(value) if isinstance(value, (int, float)) else list(value)

    def symbol(self, name: str, value: Any) -> UOp:
        """A symbol in the place of an argument, of the same shape."""
        var = self.takes[name]
        found = value if isinstance(value, UOp) else UOp.const(float(value))
        return found.expand(var.shape) if found.shape != var.shape else found

    def __str__(self) -> str:
        kept = f"; {self.kept}" if self.kept else ""
        return f"{self.name} = {self.expression}: {self.generator}; {self.proof}{kept}"


class Charges(tuple[Charge, ...]):
    """The charges of a simulation; one is found by its number."""

    def __call__(self, *args: Any, **given: Any) -> NoReturn:
        raise InputError(
            "sim.conserved is a list of charges, not a function",
            fix="Write for charge in sim.conserved: print(charge). Each is a function of a state: charge(q=..., p=...).",
        )

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            raise InputError(
                f'sim.conserved is a list of charges, and "{key}" is no number of one',
                fix="Write next(c for c in sim.conserved if c.name == ...); it has "
                f"{', '.join(c.name for c in self) or 'none'}.",
            )
        return super().__getitem__(key)
