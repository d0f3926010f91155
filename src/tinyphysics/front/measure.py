"""What may a ready-made observable ask?  The system itself, so that it fits whatever its arguments are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Protocol

from tinyphysics.errors import InputError
from tinyphysics.ir import UOp, as_uop


class Subject(Protocol):
    """A system that is being observed, as far as it is understood; what is not shown raises an InputError."""

    @property
    def name(self) -> str: ...
    @property
    def positions(self) -> tuple[UOp, ...]: ...
    @property
    def momenta(self) -> tuple[UOp, ...]: ...
    @property
    def kinetic(self) -> list[UOp]:
        """The terms of H that hold momenta, in the order in which they were written."""
        ...

    @property
    def potential(self) -> list[UOp]:
        """The other terms of H."""
        ...

    @property
    def inverse_masses(self) -> tuple[UOp, ...]:
        """1/m for each number of each momentum, where the kinetic energy is shown to be the sum of p**2/2m."""
        ...

    @property
    def velocities(self) -> tuple[UOp, ...]:
        """dH/dp."""
        ...

    @property
    def held(self) -> int:
        """How many numbers constraints keep zero."""
        ...

    @property
    def heats_drift(self) -> bool:
        """Does a bath heat the motion of the whole too?"""
        ...

    @property
    def momenta_in_bath(self) -> tuple[UOp, ...]:
        """The momenta as the bath has left them in the step that ends here."""
        ...

    def parameter(self, name: str) -> UOp | None: ...

    def shown_equal(self, u: UOp, v: UOp) -> bool:
        """False also where it was merely not shown."""
        ...

    def work_of_scaling(self, lengths: Sequence[UOp]) -> UOp:
        """-dV/ds at s = 1, where s multiplies all positions and these lengths."""
        ...


@dataclass(frozen=True, eq=False)
class Measure:
    """An observable with its options; it becomes a graph when it meets a system."""

    factory: Callable[..., Measure]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def __name__(self) -> str:
        return self.factory.__name__

    def __call__(self, subject: Subject) -> UOp:
        return as_uop(self.factory.__wrapped__(subject, **self.options))  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"{self.__name__}({', '.join(f'{n}={v!r}' for n, v in self.options.items())})"


def measure(function: Callable[..., Any]) -> Callable[..., Measure]:
    """From f(subject, options...) to a function of the options alone, whose result can be observed."""
    of_subject = inspect.signature(function)
    options = of_subject.replace(parameters=list(of_subject.parameters.values())[1:])

    @wraps(function)
    def factory(*args: Any, **kwargs: Any) -> Measure:
        try:
            return Measure(factory, options.bind(*args, **kwargs).arguments)
        except TypeError as error:
            name = function.__name__
            takes = ", ".join(options.parameters) or "no arguments"
            raise InputError(
                f"{name}: {error}; it takes {takes}",
                fix=f'Observe it in a run: sim.evolve(..., observe={{"x": {name}}}).',
            ) from None

    factory.__signature__ = options  # type: ignore[attr-defined]
    factory.is_measure = True  # type: ignore[attr-defined]
    return factory


def as_measure(function: Any) -> Measure | None:
    """The measure that was passed as an observable; with its defaults, if it was not called."""
    if getattr(function, "is_measure", False):
        function = function()
    return function if isinstance(function, Measure) else None
