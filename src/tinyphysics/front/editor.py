"""What do editors and type checkers know about the arguments of a traced function?

At run time an annotation such as `tp.Vec[3]` is a shape, and the argument is a symbol of it. To pyright and mypy the
argument is a `Symbol`: an array with the operators and methods below. Symbol derives from Any, so that every function of
NumPy takes it. mypy also needs `tinyphysics.mypy_plugin`, because 3 and "n" are no types to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Symbol(Any):  # type: ignore[misc]  # strict mode wants to know that it is meant
    """An array of numbers that are not known yet: operators, indices and NumPy's functions build the expression."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """How many numbers there are."""
        raise NotImplementedError

    @property
    def T(self) -> Symbol:
        """The transposed array."""
        raise NotImplementedError

    def sum(self, axis: Any = None, keepdims: bool = False) -> Symbol:
        """The sum over all numbers, or along an axis."""
        raise NotImplementedError

    def mean(self, axis: Any = None, keepdims: bool = False) -> Symbol:
        """The mean of all numbers, or along an axis."""
        raise NotImplementedError

    def max(self, axis: Any = None, keepdims: bool = False) -> Symbol:
        """The largest number, or the largest along an axis."""
        raise NotImplementedError

    def min(self, axis: Any = None, keepdims: bool = False) -> Symbol:
        """The smallest number, or the smallest along an axis."""
        raise NotImplementedError

    def dot(self, other: Any) -> Symbol:
        """The product of two vectors or matrices, `self @ other`."""
        raise NotImplementedError

    def reshape(self, *shape: Any) -> Symbol:
        """The same numbers in another shape."""
        raise NotImplementedError

    def transpose(self, *axes: Any) -> Symbol:
        """The axes in another order; reversed if none is given."""
        raise NotImplementedError

    def astype(self, dtype: Any) -> Symbol:
        """The same numbers in another type: x.astype("int8"), x.astype(float)."""
        raise NotImplementedError

    def ravel(self) -> Symbol:
        """All numbers along one axis."""
        raise NotImplementedError

    def roll(self, shift: Any, axis: Any = None) -> Symbol:
        """The numbers moved along an axis; those that leave at one end come back at the other."""
        raise NotImplementedError

    def __getitem__(self, key: Any) -> Symbol:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Symbol]:
        raise NotImplementedError

    # fmt: off
    def __neg__(self) -> Symbol: raise NotImplementedError
    def __abs__(self) -> Symbol: raise NotImplementedError
    def __add__(self, other: Any) -> Symbol: raise NotImplementedError
    def __radd__(self, other: Any) -> Symbol: raise NotImplementedError
    def __sub__(self, other: Any) -> Symbol: raise NotImplementedError
    def __rsub__(self, other: Any) -> Symbol: raise NotImplementedError
    def __mul__(self, other: Any) -> Symbol: raise NotImplementedError
    def __rmul__(self, other: Any) -> Symbol: raise NotImplementedError
    def __truediv__(self, other: Any) -> Symbol: raise NotImplementedError
    def __rtruediv__(self, other: Any) -> Symbol: raise NotImplementedError
    def __mod__(self, other: Any) -> Symbol: raise NotImplementedError
    def __floordiv__(self, other: Any) -> Symbol: raise NotImplementedError
    def __pow__(self, other: Any) -> Symbol: raise NotImplementedError
    def __rpow__(self, other: Any) -> Symbol: raise NotImplementedError
    def __matmul__(self, other: Any) -> Symbol: raise NotImplementedError
    def __rmatmul__(self, other: Any) -> Symbol: raise NotImplementedError
    def __and__(self, other: Any) -> Symbol: raise NotImplementedError
    def __or__(self, other: Any) -> Symbol: raise NotImplementedError
    def __xor__(self, other: Any) -> Symbol: raise NotImplementedError
    def __invert__(self) -> Symbol: raise NotImplementedError
    def __lshift__(self, other: Any) -> Symbol: raise NotImplementedError
    def __rshift__(self, other: Any) -> Symbol: raise NotImplementedError
    def __lt__(self, other: Any) -> Symbol: raise NotImplementedError
    def __le__(self, other: Any) -> Symbol: raise NotImplementedError
    def __gt__(self, other: Any) -> Symbol: raise NotImplementedError
    def __ge__(self, other: Any) -> Symbol: raise NotImplementedError
    # fmt: on
