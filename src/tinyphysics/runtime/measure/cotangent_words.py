"""In which words are cotangents kept?  In those of the states: float32, float64, or pairs of them; on a lattice in float64.

Cotangents grow, so that a power of two is taken off before they leave the range of their format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.device.numbers import NUMPY_DTYPE
from tinyphysics.flows.cotangents import BAR, REST
from tinyphysics.ir.dtype import f32
from tinyphysics.runtime.measure.loop_numbers import HOST, Numbers
from tinyphysics.runtime.state.encoding import Encoding, owner
from tinyphysics.structure import COTANGENT
from tinyphysics.tpir.precision.lattice import FORCE, UNIT
from tinyphysics.tpir.precision.precision import FLOAT64, LOW, PRECISIONS, ROUNDING, Precision
from tinyphysics.tpir.precision.rewriter import Units
from tinyphysics.tpir.program.isa import Program

# how far what was taken back may be from an anchor, relative to the largest number of the state: some thousand roundings
# of a state; of float32, and where a float32 is added to two words, fewer
TOLERANCES = {
    "float64": 1e-12,
    "float32": 4e-6,
    "mixed": 1e-12,
    "compensated": 1e-8,
    "dd": 1e-28,
    "lattice": 0.0,
}


@dataclass(frozen=True)
class Range:
    """Powers of two that cotangents may have grown by, in all and between two looks."""

    most: float  # before they are scaled
    little: float  # then the next look may be later,
    much: float  # or has to be earlier


RANGES = {False: Range(256.0, 64.0, 256.0), True: Range(40.0, 12.0, 36.0)}  # is it float32?


def own_precision(precision: str) -> Precision:
    """Of cotangents: that of the states, where these are no whole numbers."""
    found = PRECISIONS[precision]
    return found if found.state.is_float else FLOAT64


def range_of(precision: str) -> Range:
    return RANGES[own_precision(precision).state is f32]


def rounding_of(precision: str, lattice: Units = ()) -> float:
    """The largest relative error of a step by rounding: that of its forces, or on a lattice half of its largest unit."""
    found = PRECISIONS[precision]
    if not found.state.is_float:
        return max([u for name, u in lattice if name != FORCE] or [UNIT]) / 2
    return ROUNDING[found.forces] ** (2 if found.wide else 1)


def beside(program: Program) -> list[str]:
    """The words of cotangents and of sums of gradients."""
    own = {s.name for s in program.states if s.role == COTANGENT}
    return [s.name for s in program.states if owner(s.name) in own]


def zeros(program: Program, members: int) -> dict[str, Any]:
    """They take no memory, and are not sent to a GPU."""
    own = set(beside(program))
    return {
        s.name: np.broadcast_to(np.zeros((), NUMPY_DTYPE[s.type.dtype.name]), (members, *s.type.shape))
        for s in program.states
        if s.name in own
    }


def split(precision: str, bars: Mapping[str, Any]) -> dict[str, Any]:
    """Cotangents of states as their words, from float64 numbers."""
    encoding = Encoding(own_precision(precision))
    return {k: v for x, bar in bars.items() for k, v in encoding.stored(f"{x}{BAR}", bar).items()}


def joined(words: Mapping[str, Any], name: str) -> Any:
    """A number of one or two words as float64."""
    high = np.asarray(here(words[name]), np.float64)
    low = words.get(f"{name}{LOW}")
    return high if low is None else high + np.asarray(here(low), np.float64)


def added(words: Mapping[str, Any], more: Mapping[str, Any], of: Numbers = HOST) -> dict[str, Any]:
    """Words of some numbers plus those of others; what is lost of a sum of gradients goes to its second word."""
    out = dict(words)
    for name, new in more.items():
        if name != owner(name):
            continue
        low, rest = f"{name}{LOW}", f"{name.removesuffix(BAR)}{REST}"
        if low in words:
            high, lost = of.two_sum(out[name], new)
            out[name], out[low] = of.two_sum(high, of.add(lost, of.add(out[low], more[low])))
        elif name.endswith(BAR) and rest in words:
            out[name], lost = of.two_sum(out[name], new)
            out[rest] = of.add(out[rest], lost)
        else:
            out[name] = of.add(out[name], new)
    return out


def pairs(
    found: Mapping[str, Any], other: Mapping[str, Any], names: Mapping[str, str], sizes: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    """Each state of two loop states, with their second words and how large numbers are; `names` has registers by words."""
    out = []
    for name, at in names.items():
        if name == owner(name):
            words = [at, *([names[f"{name}{LOW}"]] if f"{name}{LOW}" in names else [])]
            out.append((*(x[w] for w in words for x in (found, other)), sizes[at]))
    return out
