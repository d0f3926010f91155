"""What did the user pass to a run?  Every state and parameter as an array with a member axis, or an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import DeviceArray, repeated
from tinyphysics.device.host.copies import PIECE
from tinyphysics.device.numbers import NUMPY_DTYPE
from tinyphysics.errors import InputError, ShapeError, TinyPhysicsError
from tinyphysics.given import NO_UNITS, no_number, quantity
from tinyphysics.ir.dtype import DType, f64
from tinyphysics.options import COMING, COMPILE, EVOLVE, LINES, MEANT, SAME_AS, called, unknown
from tinyphysics.philox import key_words
from tinyphysics.runtime.state.encoding import FLOAT64, Encoding
from tinyphysics.runtime.state.whole_numbers import check_whole, whole_array
from tinyphysics.runtime.state.workers import all_finite, copy, in_pieces
from tinyphysics.system import SIGNS, Parameter, SizedFamily, System
from tinyphysics.tpir.precision.precision import ROUNDING
from tinyphysics.tpir.program.isa import ADDRESS, FLOW, MEMBER_BITS
from tinyphysics.trajectory import Words
from tinyphysics.util import did_you_mean, plural


@dataclass(frozen=True)
class Inputs:
    states: dict[str, Any]  # (members, shape...), word by word
    params: dict[str, Any]  # (members or 1, shape...)
    members: int
    is_ensemble: bool

    @property
    def there(self) -> bool:
        """Are the states on a GPU?"""
        return isinstance(next(iter(self.states.values()), None), DeviceArray)

    @property
    def own(self) -> dict[str, Any]:
        """The parameters of the system, without what random numbers are addressed by, and matrices."""
        return own_of(self.params)


def shaped(i: Inputs) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Arrays as the user sees them: without a member axis if none was given."""
    return lambda s: s if i.is_ensemble else {n: v[0] for n, v in s.items()}


def own_of(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: v for name, v in params.items() if name not in ADDRESS and not name.startswith(FLOW)}


OF_ARRAYS = {
    "U": "it is text",
    "S": "it is bytes",
    "M": "it holds dates",
    "m": "it holds durations",
    "c": "it is complex",
    "V": "it is a record with fields",
}  # what np.asarray makes numbers of, or may, by the kind of its dtype


def no_array(name: str, value: Any, why: str, fix: str = "") -> InputError:
    return InputError(
        f"`{name}` is not a number or an array of numbers: {why}",
        fix=fix or f"Pass {name}=1.0, or an array of numbers.",
    )


def check_units_of(name: str, value: Any) -> None:
    """A quantity would lose its unit: 1 km and 1 m would be one number."""
    if (found := quantity(value)) is not None:
        raise no_array(name, value, f"it is {found[0]}", f"{NO_UNITS} {name}={name}.{found[1]}.")


def number_array(name: str, value: Any, dtype: DType = f64) -> Any:
    """The user's own array where it is one of these numbers; whoever keeps it makes a copy."""
    if isinstance(value, DeviceArray):
        return value
    if type(value) is not np.ndarray:
        check_units_of(name, value)
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            gone = int(np.sum(value.mask))
            raise no_array(
                name, value, f"{plural(gone, 'number')} {'is' if gone == 1 else 'are'} masked",
                f"Fill in the missing numbers: {name}={name}.filled(0.0), or leave those members out.",
            )  # fmt: skip
    try:
        a: Any = np.asarray(value)
        if dtype is f64 and a.dtype == np.float64:
            return a
        if a.dtype.kind in OF_ARRAYS:
            raise no_array(name, value, OF_ARRAYS[a.dtype.kind])
        if a.dtype.kind == "O":  # numbers of Python's, such as fractions; but not all that has a float()
            for x in a.ravel():
                check_units_of(name, x)
                if word := no_number(x):
                    raise no_array(name, value, f"it is {word}" if a.ndim == 0 else f"it holds {word}")
        with np.errstate(over="ignore", under="ignore"):
            out: Any = np.asarray(value, dtype=np.float64).astype(NUMPY_DTYPE[dtype.name], copy=False)
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        ragged = "inhomogeneous" in str(error)
        raise no_array(
            name, value, "its rows have different lengths" if ragged else str(error).rstrip(".")
        ) from error
    return out


def with_axis(name: str, value: Any, shape: tuple[int, ...], dtype: DType) -> tuple[Any, int | None]:
    """(array with a leading axis, its length or None if the axis was not given)."""
    if value is None:
        fix = f"Pass {name}=... with shape {shape}." if shape else f"Pass {name}=1.0."
        raise InputError(f"`{name}` is None", fix=fix)
    return axis_of(name, number_array(name, value, dtype), shape)


def axis_of(name: str, a: Any, shape: tuple[int, ...]) -> tuple[Any, int | None]:
    if a.shape == shape:
        return a[None], None
    if a.shape[1:] == shape and a.ndim == len(shape) + 1:
        return a, a.shape[0]
    told = f"shape {shape}" if shape else "a scalar"
    raise ShapeError(
        f"`{name}` has shape {a.shape}; the system declares {told}",
        fix=f"One member: {shape}. An ensemble: {('members', *shape)}.".replace("'", ""),
    )


def in_format(dtype: DType) -> str:
    return "" if dtype is f64 else f" in {np.dtype(NUMPY_DTYPE[dtype.name]).name}"


def kept(
    encoding: Encoding, name: str, value: Any, shape: tuple[int, ...], threads: int = 1
) -> tuple[dict[str, Any], int | None]:
    """(the words of a state with a leading axis, its length or None if the axis was not given)."""
    if not isinstance(value, Words):
        if name in encoding.whole and value is not None:
            if type(value) is not np.ndarray or value.dtype.kind not in "biuf":
                number_array(name, value)  # an error of text, dates, units
            whole = whole_array(name, value, np.asarray(value), encoding.whole[name])
            a, n = axis_of(name, whole, shape)
            return {name: a}, n
        a, n = with_axis(name, value, shape, f64)
        return in_pieces(lambda x: encoding.stored(name, x), a, threads), n
    like = encoding.stored(name, np.zeros(()))
    same = value.arrays.keys() == like.keys() and all(
        value.arrays[w].dtype == v.dtype for w, v in like.items()
    )
    if not same:
        told = ", ".join(f"{w} {v.dtype}" for w, v in value.arrays.items())
        raise InputError(
            f"`{name}` is kept as {', '.join(f'{w} {v.dtype}' for w, v in like.items())}; given: {told}",
            fix=f"Pass its value, {name}=out.{name}[-1], or the words of a run in the same precision.",
        )
    found = {
        w: axis_of(name, v if isinstance(v, DeviceArray) else np.asarray(v), shape)
        for w, v in value.arrays.items()
    }
    if len({n for _, n in found.values()}) > 1:
        raise ShapeError(
            f"the words of `{name}` have different shapes", fix='Pass what out.words("...") gave.'
        )
    return {w: a for w, (a, _) in found.items()}, next(n for _, n in found.values())


def check_sign(p: Parameter, a: Any, is_ensemble: bool) -> None:
    """An InputError that names the first number of the wrong sign; `a` has a leading axis, which the user gave or not."""
    if not p.sign:
        return
    wrong = a < 0.0 if p.sign == "not negative" else a <= 0.0
    if wrong.any():
        member, *place = (int(k) for k in np.argwhere(wrong)[0])
        which = p.name + (f"[{', '.join(map(str, place))}]" if place else "")
        of = f" for member {member}" if is_ensemble else ""
        wanted = "positive" if p.sign == "moment" else p.sign
        raise InputError(
            f"the parameter `{which}` is {a[(member, *place)]:g}{of}, and must be {wanted}",
            fix=f"Pass {p.name}=... with numbers {SIGNS[p.sign]}.",
        )


def not_taken(system: System, name: str, known: list[str]) -> TinyPhysicsError:
    """What is said about a keyword of a run that is no state, parameter or option."""
    near = did_you_mean(name, known)
    what = f"`{system.name}` has no state or parameter `{name}`"
    if name == "t":
        return InputError(
            f"{what}: t is the time, which the run computes itself", fix="Pass t0=... for the initial time."
        )
    if name in COMPILE:
        return InputError(f"{name}= is an option of compile", fix=f"Write tp.compile(system, {name}=...).")
    call, options = called()
    other = {**COMING, **SAME_AS, **LINES, **EVOLVE}
    if name in other or (call, name) in MEANT or not near and did_you_mean(name, options):
        return unknown(call, name, options)
    return InputError(what, fix=f"{near}It has {', '.join(known)}.")


def inputs(
    system: System,
    given: Mapping[str, Any],
    encoding: Encoding = FLOAT64,
    threads: int = 1,
    doubtful: set[str] | None = None,
) -> Inputs:
    """States and parameters, rounded once to the precision of the run; many numbers by so many threads.

    States that are large are added to `doubtful`, if it is given: the caller copies them, and sees then if they are finite.
    """
    dtype = encoding.precision.given
    states = [s.name for s in system.states]
    known = [*states, *(p.name for p in system.parameters)]
    for name in given:
        if name not in known:
            raise not_taken(system, name, known)
    lengths: dict[str, int] = {}
    state_arrays: dict[str, Any] = {}
    param_arrays: dict[str, Any] = {}
    later: set[str] = set() if doubtful is None else doubtful
    for s in system.states:
        if s.name not in given and s.start is None:
            raise InputError(f"the initial `{s.name}` is missing", fix=f"Pass {s.name}=... to {called()[0]}.")
        value = given[s.name] if s.name in given else np.full(s.var.shape, s.start)
        words, n = kept(encoding, s.name, value, s.var.shape, threads)
        state_arrays |= words
        if n is not None:
            lengths[s.name] = n
        if s.name in encoding.whole:
            continue  # every whole number is good
        if doubtful is not None:
            later |= {w for w, a in words.items() if a.size > PIECE and not isinstance(a, DeviceArray)}
        if not all(all_finite(a, threads) for w, a in words.items() if w not in later):
            raise not_finite(encoding, s.name)
        if (wrong := off_length(s.role, words[next(iter(words))])) is not None:
            raise wrong_length(s.name, s.role, wrong)
    for p in system.parameters:
        value = given.get(p.name, p.default)
        if p.name in given and value is None:
            raise InputError(
                f"the parameter `{p.name}` is None",
                fix=f"Leave {p.name}= out: its default is {p.default}."
                if p.default is not None
                else f"Pass {p.name}=1.0, or an array of numbers.",
            )
        if value is None:
            returned = f"; if it is a state, return its new value after that of `{states[-1]}`"
            raise InputError(
                f"the parameter `{p.name}` has no default and was not given",
                fix=f"Pass {p.name}=... to {called()[0]}{returned if system.kind == 'map' else ''}.",
            )
        if np.ndim(value) == 0 and p.var.shape:
            value = np.full(p.var.shape, number_array(p.name, value))
        a, n = with_axis(p.name, value, p.var.shape, dtype)
        if not all_finite(a, threads):
            raise InputError(
                f"the parameter `{p.name}` is not finite{in_format(dtype)}", fix="Check its value."
            )
        exact = np.asarray(value, np.float64) if dtype is not f64 else a
        if exact is not a and (np.abs(a.astype(np.float64) - exact) > ROUNDING[dtype] * np.abs(exact)).any():
            raise InputError(
                f"the parameter `{p.name}` is too small{in_format(dtype)}",
                fix='Choose units in which it is nearer to 1, or precision="float64".',
            )
        check_sign(p, a, n is not None)
        check_whole(p, a)
        # what is asked of a run later must not see what becomes of the user's
        param_arrays[p.name] = np.empty_like(a)
        copy(a, param_arrays[p.name], threads)
        if n is not None:
            lengths[p.name] = n
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name}: {n}" for name, n in lengths.items())
        raise InputError(
            f"the leading (ensemble) axes have different lengths: {told}",
            fix="Give them all the same length.",
        )
    members = next(iter(lengths.values()), 1)
    full = {n: a if len(a) == members else spread_out(a, members) for n, a in state_arrays.items()}
    return Inputs(full, param_arrays, members, bool(lengths))


OFF = 1e-6  # how far an attitude may be from one: as far as one of float32 is


OF_LENGTH = ("rotor", "rotation", "axis")  # roles of states whose lengths are 1


def off_length(role: str, value: Any) -> float | None:
    """The worst length of a unit quaternion, a unit vector or a row of a rotation; None if all are 1, or not asked."""
    if role not in OF_LENGTH or isinstance(value, DeviceArray):
        return None
    a = np.asarray(value, np.float64)
    if role == "rotation":
        product = a @ np.swapaxes(a, -1, -2)
        off = np.abs(product - np.eye(3)).max(axis=(-1, -2)) + np.abs(np.linalg.det(a) - 1.0)
        return None if (off < OFF).all() else float(off.max())
    length = np.sqrt((a * a).sum(-1))
    off = np.abs(length - 1.0)
    return None if (off < OFF).all() else float(length.flat[off.argmax()])


def wrong_length(name: str, role: str, found: float) -> InputError:
    if role == "rotation":
        return InputError(
            f"`{name}` is not a rotation matrix: R Rᵀ and its determinant are off by {found:.3g}",
            fix="Its columns are the axes of the body, of length 1 and at right angles, right-handed.",
        )
    what = "unit quaternion (w, x, y, z)" if role == "rotor" else "unit vector"
    scale = f"Divide it: {name}/np.linalg.norm({name}, axis=-1, keepdims=True)."
    nothing = (
        "A length of zero says nothing about an attitude: [1.0, 0.0, 0.0, 0.0] is that of the frame of space."
    )
    return InputError(
        f"`{name}` has length {found:.6g}, and is to be a {what}",
        fix=scale if found else nothing if role == "rotor" else "Give the direction of the body.",
    )


def not_finite(encoding: Encoding, name: str) -> InputError:
    told = encoding.beyond(name) or f"not finite{in_format(encoding.precision.state)}"
    return InputError(f"the initial `{name}` is {told}", fix="Check the initial values.")


def spread_out(a: Any, members: int) -> Any:
    """One for all members."""
    return repeated(a, members) if isinstance(a, DeviceArray) else np.broadcast_to(a, (members, *a.shape[1:]))


def addressed(i: Inputs, seed: int, dtype: DType) -> Inputs:
    """With what random numbers are addressed by, for programs that draw: the seed, and who is who."""
    own = NUMPY_DTYPE[dtype.name]
    who = np.arange(i.members if i.is_ensemble else 1)
    words: list[Any] = [np.full(1, float(k)) for k in key_words(seed)]
    words += [(who & ((1 << MEMBER_BITS) - 1)).astype(own), (who >> MEMBER_BITS).astype(own)]
    return replace(i, params=i.params | dict(zip(ADDRESS, words)))


def fits(shape: tuple[int | str, ...], actual: tuple[int, ...]) -> bool:
    """Can an array have the shape as annotated, or that of an ensemble?"""
    own = actual[-len(shape) :]
    same = all(n == (own[shape.index(k)] if isinstance(k, str) else k) for k, n in zip(shape, own))
    return same and len(actual) - len(shape) in (0, 1)


def sizes_from(family: SizedFamily, given: Mapping[str, Any]) -> dict[str, int]:
    """The letters of a family, read off the shapes of what a run was given."""
    sizes: dict[str, int] = {}
    said: dict[str, str] = {}  # by which argument
    for name, value in given.items():
        shape = family.shapes.get(name)
        if not shape or value is None:
            continue
        whole = next(iter(value.arrays.values())) if isinstance(value, Words) else number_array(name, value)
        actual = whole.shape
        if not actual:  # one number for all says nothing about how many
            continue
        if not fits(shape, actual):
            declared = f"({', '.join(map(str, shape))})"
            raise ShapeError(
                f"`{name}` has shape {actual}; the system declares {declared}",
                fix=f"One member: {declared}. An ensemble: (members, {declared[1:]}.",
            )
        for letter, n in zip(shape, actual[-len(shape) :]):
            if isinstance(letter, str) and sizes.setdefault(letter, n) != n:
                raise ShapeError(
                    f"`{name}` has {letter} = {n}, but `{said[letter]}` has {letter} = {sizes[letter]}",
                    fix="One letter stands for one size.",
                )
            said.setdefault(str(letter), name)
    missing = [n for n in family.letters if n not in sizes]
    if missing:
        owner = next(name for name, shape in family.shapes.items() if missing[0] in shape)
        every = ", ".join(f"{n!r}: {sizes.get(n, '...')}" for n in family.letters)
        raise InputError(
            f"the size `{missing[0]}` cannot be determined from what was given",
            fix=f"Pass {owner}=... with all its axes, or sizes={{{every}}} to compile.",
        )
    return sizes
