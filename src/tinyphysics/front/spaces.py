"""What shape, type and unit does an argument have?  Its annotation says: none, tp.Vec[3], tp.Array["n", 3], tp.Int8["n"]."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from tinyphysics.errors import ShapeError, TinyPhysicsError, TraceError
from tinyphysics.ir.dtype import DType, bool_, f64, i8, i16, i32, i64
from tinyphysics.util import Site

if TYPE_CHECKING:
    from tinyphysics.front.editor import Symbol
else:
    Symbol = object  # editors alone ask what an argument can do

Size = int | str


@dataclass(frozen=True)
class Space:
    shape: tuple[Size, ...] = ()
    unit: str | None = None
    dtype: DType = f64
    body: str = ""  # of an attitude: rotor, rotation or axis
    is_complex: bool = False

    @property
    def letters(self) -> tuple[str, ...]:
        return tuple(n for n in self.shape if isinstance(n, str))

    def bound(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        for letter in self.letters:
            if letter not in sizes:
                given = "".join(f"{n!r}: {size}, " for n, size in sizes.items())
                raise ShapeError(
                    f"the size `{letter}` is not known yet",
                    fix=f"Pass sizes={{{given}{letter!r}: 16}} to compile, or run: evolve reads it from the state.",
                )
            if sizes[letter] < 1:
                raise ShapeError(
                    f"the size `{letter}` is {sizes[letter]}",
                    fix="Every size is at least 1; an empty ensemble has a leading axis of length 0.",
                )
        return tuple(sizes[n] if isinstance(n, str) else n for n in self.shape)


def _size(n: Any) -> Size:
    if isinstance(n, str) and n.isidentifier() or isinstance(n, int) and n > 0 and n is not True:
        return n
    raise ShapeError.here(
        f"{n!r} is not a size", 'A size is a positive integer or a letter: tp.Vec[3], tp.Vec["n"].'
    )


class Vec(Symbol):
    """Says in an annotation that an argument is a vector: `q: tp.Vec[3]`, or `q: tp.Vec["n"]` for every length n."""

    def __class_getitem__(cls, n: Any) -> Any:
        return Space((_size(n),))


class Array(Symbol):
    """Says in an annotation that an argument is an array: `q: tp.Array[9, 3]`, or `q: tp.Array["n", 3]` for every n."""

    def __class_getitem__(cls, shape: Any) -> Any:
        return Space(tuple(_size(n) for n in (shape if isinstance(shape, tuple) else (shape,))))


class Complex(Symbol):
    """Says in an annotation that an argument is complex: `psi: tp.Complex["n", "n"]`, or `z: tp.Complex` for one number.

    Below it are two real states. In `@tp.hamiltonian` a complex state is a canonical pair by itself: i psi' = dH/d(psi-bar).
    """

    def __class_getitem__(cls, shape: Any) -> Any:
        sizes = shape if isinstance(shape, tuple) else (shape,)
        return Space(tuple(_size(n) for n in sizes), is_complex=True)


class Attitude(Symbol):
    """What the annotations of attitudes have in common; without brackets they are those of one body."""

    own: ClassVar[tuple[int, ...]]
    body: ClassVar[str]

    def __class_getitem__(cls, shape: Any) -> Any:
        sizes = shape if isinstance(shape, tuple) else (shape,)
        return Space((*(_size(n) for n in sizes), *cls.own), body=cls.body)


class Rotor(Attitude):
    """Says in an annotation that an argument is an attitude as a unit quaternion (w, x, y, z), from the body to space.

    `R: tp.Rotor` is that of one body, `R: tp.Rotor["n"]` those of n. R and -R are one attitude: unit quaternions are the
    rotors of the even part of Cl(3,0). The argument after it is the angular momentum in the body's frame.
    """

    own, body = (4,), "rotor"


class Rotation(Attitude):
    """Says in an annotation that an argument is an attitude as a rotation matrix, from the body to space.

    `R: tp.Rotation` is that of one body, `R: tp.Rotation["n"]` those of n. The argument after it is the angular momentum in
    the body's frame.
    """

    own, body = (3, 3), "rotation"


class Axis(Attitude):
    """Says in an annotation that an argument is a unit vector: the direction of a dumbbell, which does not spin about it.

    `n: tp.Axis` is that of one body, `n: tp.Axis["n"]` those of several. The argument after it is the angular momentum in
    the frame of space, at right angles to it.
    """

    own, body = (3,), "axis"


class WholeNumber(Symbol):
    """What the annotations of whole numbers and conditions have in common; without brackets they are one number."""

    kind: ClassVar[DType]

    def __class_getitem__(cls, shape: Any) -> Any:
        sizes = shape if isinstance(shape, tuple) else (shape,)
        return Space(tuple(_size(n) for n in sizes), dtype=cls.kind)


class Int8(WholeNumber):
    """Says in an annotation that an argument of a map is a whole number of 8 bits, or an array: `x: tp.Int8["n", "n"]`."""

    kind = i8


class Int16(WholeNumber):
    """Says in an annotation that an argument of a map is a whole number of 16 bits, or an array: `x: tp.Int16["n"]`."""

    kind = i16


class Int32(WholeNumber):
    """Says in an annotation that an argument of a map is a whole number of 32 bits, or an array: `x: tp.Int32["n"]`."""

    kind = i32


class Int64(WholeNumber):
    """Says in an annotation that an argument of a map is a whole number of 64 bits, or an array: `x: tp.Int64["n"]`."""

    kind = i64


class Bool(WholeNumber):
    """Says in an annotation that an argument of a map is true or false, or an array of such: `x: tp.Bool["n", "n"]`."""

    kind = bool_


WHOLE = (Int8, Int16, Int32, Int64, Bool)


def space_of(annotation: Any, argument: str, site: Site | None) -> Space:
    if typing.get_origin(annotation) is typing.Annotated:
        inner, *notes = typing.get_args(annotation)
        unit = next((n for n in notes if isinstance(n, str)), None)
        return replace(space_of(inner, argument, site), unit=unit)
    if isinstance(annotation, Space):
        return annotation
    if isinstance(annotation, type) and issubclass(annotation, WholeNumber):
        return Space(dtype=annotation.kind)
    if isinstance(annotation, type) and issubclass(annotation, Attitude) and annotation is not Attitude:
        return Space(annotation.own, body=annotation.body)
    if annotation is Complex or annotation is complex:
        return Space(is_complex=True)
    if annotation in (inspect.Parameter.empty, None, float, int, Any):
        return Space()
    raise TraceError(
        f"the annotation `{annotation}` of `{argument}` is not a shape",
        site=site,
        fix='Write no annotation for a scalar, tp.Vec[3], tp.Array[9, 3], tp.Int8[9], or Annotated[tp.Vec[3], "m"].',
    )


def evaluated_annotations(function: Callable[..., Any], site: Site | None) -> dict[str, Any]:
    """Evaluated annotations, also under `from __future__ import annotations`."""
    module = sys.modules.get(function.__module__)
    scope = dict(vars(module)) if module else {}
    scope |= getattr(function, "__globals__", {})
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        with suppress(ValueError):  # a name that is bound only after the decorator has run
            scope[name] = cell.cell_contents
    out = {}
    for name, value in getattr(function, "__annotations__", {}).items():
        if isinstance(value, str) and name != "return":
            try:
                value = eval(value, scope)
            except Exception as error:
                why = error.what if isinstance(error, TinyPhysicsError) else error
                raise TraceError(
                    f"the annotation `{value}` of `{name}` cannot be read: {why}",
                    site=site,
                    fix="Write tp.Vec[3], tp.Array[9, 3], or a name that is global in the module of the function.",
                ) from error
        out[name] = value
    return out
