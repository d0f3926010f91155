"""How do complex numbers go into a run and come out of it?  As the two real states or parameters that they are below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.given import no_number, shown
from tinyphysics.runtime.state.ensemble import number_array
from tinyphysics.system import ComplexNumbers
from tinyphysics.trajectory import Trajectory


def in_parts(complexes: Sequence[ComplexNumbers], given: Mapping[str, Any]) -> dict[str, Any]:
    """What was passed by name, with two real arrays for each complex one."""
    out = dict(given)
    for c in complexes:
        if c.name not in out:
            continue
        if twice := next((part for part in c.parts if part in out), None):
            raise InputError(
                f"`{c.name}` and its part `{twice}` are both given", fix=f"Pass {c.name}= alone."
            )
        z = complex_array(c.name, out.pop(c.name))
        if c.is_state and not np.isfinite(z).all():
            raise InputError(f"the initial `{c.name}` is not finite", fix="Check the initial values.")
        out |= dict(zip(c.parts, (z.real.copy(), z.imag * c.scale)))
    return out


def complex_array(name: str, value: Any) -> Any:
    """An array of complex numbers; what is no number is refused, as it is where real ones are expected."""
    if value is None:
        raise InputError(f"`{name}` is None", fix=f"Pass {name}=1j, or an array of complex numbers.")
    try:
        kind = np.asarray(value).dtype.kind
        if kind == "O":
            for x in np.ravel(np.asarray(value, object)):
                if (word := no_number(x)) and not isinstance(x, complex):
                    raise TypeError(word)
        elif kind != "c" or isinstance(value, np.ma.MaskedArray):
            if not isinstance(value, np.ma.MaskedArray) or np.ma.is_masked(value):
                number_array(name, value)  # says what is wrong with it
        return np.asarray(value, complex)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InputError) and isinstance(value, np.ma.MaskedArray):
            raise
        raise InputError(
            f"{name}={shown(value)} is not an array of complex numbers", fix=f"Pass {name}=np.exp(1j*x)."
        ) from None


def with_complex_names(complexes: Sequence[ComplexNumbers], names: Mapping[str, Any]) -> dict[str, Any]:
    """States and parameters with their defaults, complex ones in place of their parts."""
    first = {c.parts[0]: c for c in complexes}
    hidden = {c.parts[1] for c in complexes}
    out = {}
    for name, value in names.items():
        if (c := first.get(name)) is not None:
            im = names[c.parts[1]]
            plain = isinstance(value, (int, float)) and isinstance(im, (int, float))
            out[c.name] = complex(value, im / c.scale) if plain else value
        elif name not in hidden:
            out[name] = value
    return out


class WithComplex(Mapping[str, Any]):
    """Arrays by name, in which the complex ones are listed in place of their parts; these are found by their names, too."""

    def __init__(self, arrays: Mapping[str, Any], complexes: Sequence[ComplexNumbers]) -> None:
        self.arrays, self.complexes = arrays, tuple(complexes)
        self.made: dict[str, Any] = {}

    def _names(self) -> list[str]:
        first = {c.parts[0]: c.name for c in self.complexes}
        hidden = {c.parts[1] for c in self.complexes}
        return [first.get(name, name) for name in self.arrays if name not in hidden]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self.arrays or any(c.name == name for c in self.complexes)

    def __getitem__(self, name: str) -> Any:
        c = next((c for c in self.complexes if c.name == name), None)
        if c is None:
            return self.arrays[name]
        if name not in self.made:
            re, im = (np.asarray(self.arrays[part]) for part in c.parts)
            z = np.empty(re.shape, np.result_type(re.dtype, np.complex64))
            z.real, z.imag = re, im / c.scale
            self.made[name] = z
        return self.made[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return WithComplex, (self.arrays, self.complexes)


def joined(out: Trajectory, complexes: Sequence[ComplexNumbers]) -> Trajectory:
    """A trajectory whose complex states are seen as such."""
    own = [c for c in complexes if c.is_state]
    if not own or isinstance(out.frames, WithComplex):
        return out
    out.frames = WithComplex(out.frames, own)
    out.final = replace(out.final, states=WithComplex(out.final.states, own))
    out.found = {
        name: e if isinstance(e, InputError) else replace(e, states=WithComplex(e.states, own))
        for name, e in out.found.items()
    }
    return out
