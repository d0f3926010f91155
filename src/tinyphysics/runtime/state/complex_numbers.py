"""How do complex numbers go into a run and come out of it?  As the two real states or parameters that they are below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
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
        value = out.pop(c.name)
        try:
            z = np.asarray(value, complex)
        except (TypeError, ValueError):
            raise InputError(
                f"{c.name}={value!r} is not an array of complex numbers", fix=f"Pass {c.name}=np.exp(1j*x)."
            ) from None
        out |= dict(zip(c.parts, (z.real.copy(), z.imag * c.scale)))
    return out


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
    return out
