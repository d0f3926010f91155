"""Are units judged rightly?  An energy has units that agree if and only if it scales when its units do.

Each base unit, and the prefix of a thousand as one more, is made longer by some factor: then every number becomes smaller
by a power of it, and an energy whose terms agree becomes another by one factor, whatever the state.
"""

from __future__ import annotations

import random
from typing import Annotated, Any

import numpy as np

import tinyphysics as tp
from attack.case import Case
from attack.findings import Tally
from attack.plain import Functions

BASE = ("m", "kg", "s", "thousand")
Powers = tuple[int, ...]
NAMES: dict[str, Powers] = {
    "m": (1, 0, 0, 0), "km": (1, 0, 0, 1), "mm": (1, 0, 0, -1), "kg": (0, 1, 0, 0), "g": (0, 1, 0, -1), "s": (0, 0, 1, 0),
    "ms": (0, 0, 1, -1), "N": (1, 1, -2, 0), "J": (2, 1, -2, 0), "kJ": (2, 1, -2, 1), "W": (2, 1, -3, 0),
}  # fmt: skip
# {x}: a position; {L}: a length of its own; each is a pure number or a power of a length
SHAPES: tuple[tuple[str, int], ...] = (
    ("{x}**2", 2), ("{x}**4", 4), ("{x}", 1), ("tp.cos({x}/{L})", 0), ("tp.exp(-({x}/{L})**2)", 0), ("1/{x}", -1),
    ("tp.sqrt({x}**2 + {L}**2)", 1), ("tp.where({x} > {L}, {x}, {L})", 1), ("tp.log(1.0 + ({x}/{L})**2)", 0),
    ("tp.maximum({x}, {L})**2", 2), ("({x} - {L})**2", 2), ("tp.hypot({x}, {L})", 1), ("tp.arctan2({x}, {L})", 0),
    ("tp.abs({x} - {L})", 1), ("tp.tanh(({x} + {L})/{L})", 0), ("tp.minimum({x}, 0.0) - {L}", 1), ("{x}*{L}", 2),
    ("(2.5*{x} - {L}/3)**3", 3), ("tp.sign({x} - {L})", 0), ("({x}**2 + {L}*{x})/{L}", 1),
)  # fmt: skip
WRONG = ("m", "kg", "s", "km", "ms", "1", "N")


def text_of(powers: Powers) -> str:
    """A unit with these powers."""
    parts = [f"{name}**{x}" for name, x in zip(BASE, powers[:3]) if x]
    scale = f"km**{powers[3]}/m**{powers[3]} " if powers[3] else ""
    return scale + (" ".join(parts) or "1")


def minus(a: Powers, b: Powers, times: int = 1) -> Powers:
    return tuple(x - times * y for x, y in zip(a, b))


def drawn(seed: int) -> tuple[str, dict[str, Powers]]:
    """(an energy, the powers of all its arguments), with a mistake in one of two."""
    rng = random.Random(f"units {seed}")
    length = rng.choice([NAMES["m"], NAMES["km"], NAMES["mm"]])
    energy = rng.choice([NAMES["J"], NAMES["J"], NAMES["kJ"]])
    time = rng.choice([NAMES["s"], NAMES["ms"]])
    momentum = minus(energy, minus(length, time))
    units = {"q": length, "p": momentum}
    units["m"] = minus(tuple(2 * x for x in momentum), energy)
    terms = ["p**2/(2*m)"]
    for k in range(rng.randint(1, 3)):
        shape, power = rng.choice(SHAPES)
        units[f"L{k}"], units[f"k{k}"] = length, minus(energy, length, power)
        terms.append(f"k{k}*{shape.format(x='q', L=f'L{k}')}")
    if rng.random() < 0.5:
        name = rng.choice(sorted(set(units) - {"q"}))
        other = rng.choice(WRONG)
        units[name] = NAMES[other] if other != "1" and rng.random() < 0.5 else minus(
            units[name], NAMES.get(other, (0, 0, 0, 1)), rng.choice([1, -1])
        )  # fmt: skip
    return " + ".join(terms), units


def scales(text: str, units: dict[str, Powers]) -> bool:
    """Does the energy become another by one factor for each base unit, at every state?"""
    f = eval(f"lambda {', '.join(units)}: {text}", {"tp": Functions, "np": np})
    rng = np.random.default_rng(7)
    for base in range(len(BASE)):
        ratios = []
        for _ in range(40):
            given = {
                name: rng.uniform(0.3, 2.0) * (-1 if name == "q" and rng.random() < 0.4 else 1)
                for name in units
            }
            longer = 1.7
            moved = {name: x * longer ** -units[name][base] for name, x in given.items()}
            with np.errstate(all="ignore"):
                ratios.append(float(f(**moved)) / float(f(**given)))
        if np.ptp(ratios) > 1e-9 * np.abs(ratios).max():
            return False
    return True


def accepted(text: str, units: dict[str, Powers]) -> bool:
    """Does the compiler find no mistake?"""
    arguments = ", ".join(
        f"{n}: A[float, {text_of(u)!r}]{'' if n in 'qp' else ' = 1.0'}" for n, u in units.items()
    )
    scope: dict[str, Any] = {"tp": tp, "np": np, "A": Annotated}
    exec(f"def system({arguments}):\n    return {text}\n", scope)
    try:
        tp.hamiltonian(scope["system"])
        return True
    except tp.UnitError:
        return False


def check(case: Case, t: Tally) -> None:
    text, units = drawn(case.seed)
    t.shares["units"] += 1
    said, true = accepted(text, units), scales(text, units)
    told = ", ".join(f"{n} {text_of(u)}" for n, u in units.items())
    if said:
        t.check(
            case.seed, "units agree", not true, f"{text} has units that agree", f"it does not scale: {told}"
        )
    elif true:
        t.report(case.seed, "units differ", f"a UnitError for {text}", f"it scales: {told}")
    else:
        t.yes["units differ"] += 1
