"""What does an editor offer inside `sim.evolve(`?  The options, and this system's states and parameters by name.

The signature of such a method is that of one simulation: help(sim.evolve), inspect.signature and the completion of
IPython and Jupyter show q, p and mu where the function itself takes **given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, cast

from tinyphysics.tracebacks import users_frames

F = TypeVar("F", bound=Callable[..., Any])


class NamesItsInputs(Protocol):
    """What a method of this kind belongs to."""

    def takes(self) -> Mapping[str, Any]:
        """States and parameters by name, each with its default."""
        ...

    def in_numbers(self, given: dict[str, Any]) -> dict[str, Any]:
        """What was passed by name, quantities with units as numbers."""
        ...


class OfOne:
    """A method bound to one simulation; called, it does what the method does."""

    def __init__(self, function: Callable[..., Any], sim: NamesItsInputs) -> None:
        self.__func__, self.__self__ = function, sim
        self.__name__, self.__qualname__ = function.__name__, function.__qualname__
        self.__module__, self.__doc__ = function.__module__, function.__doc__

    @users_frames  # the last frame of ours that an error leaves
    def __call__(self, *args: Any, **given: Any) -> Any:
        return self.__func__(self.__self__, *args, **self.__self__.in_numbers(given))

    def __get__(self, instance: Any, owner: Any = None) -> OfOne:
        """Having this, it counts as a routine for help()."""
        return self

    @property
    def __signature__(self) -> inspect.Signature:
        listed = list(inspect.signature(self.__func__).parameters.values())[1:]
        taken = {p.name for p in listed}
        own = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in self.__self__.takes().items()
            if name not in taken
        ]
        options = [p for p in listed if p.kind is not p.VAR_KEYWORD]
        places = [p for p in options if p.kind is not p.KEYWORD_ONLY]
        return inspect.Signature([*places, *own, *(p for p in options if p.kind is p.KEYWORD_ONLY)])

    def __repr__(self) -> str:
        return f"<method {self.__qualname__} of {self.__self__!r}>"


class ByName:
    """The method as it stands in the class; from an instance it is bound, with the names of that simulation."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self.__wrapped__ = function

    def __get__(self, sim: NamesItsInputs | None, owner: Any = None) -> Any:
        return self.function if sim is None else OfOne(self.function, sim)


def takes_names(function: F) -> F:
    """A method that takes states and parameters of its simulation by name, and shows them in its signature."""
    return cast(F, ByName(function))
