"""Which terms may an energy, a force or a rate be made of?  Random expressions, as Python text.

Terms are grouped by how smooth they are, so that a case knows what it was made of; the checks do not rely on it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

SMOOTH = (
    "{c}*tp.sin({x})",
    "{c}*tp.cos({x}*{y})",
    "{c}*tp.exp(-{x}**2)",
    "{c}*tp.log(2.0 + {x}**2)",
    "{c}*tp.log1p({x}**2)*{y}",
    "{c}*tp.sqrt(1.5 + ({x} - {y})**2)",
    "{c}*tp.tanh({x})",
    "{c}*tp.sinh(0.5*{x})",
    "{c}*tp.cosh(0.7*{x})",
    "{c}*tp.tan(0.3*{x})",
    "{c}*tp.arctan({x})*{y}",
    "{c}*tp.arcsin(0.4*tp.sin({x}))",
    "{c}*tp.arccos(0.4*tp.tanh({x}))",
    "{c}*tp.erf({x})",
    "{c}*tp.expm1(0.4*{x})",
    "{c}*(1.2 + {x}**2)**{r}",
    "{c}*{x}**3",
    "{c}*{x}**4",
    "{c}*{x}**2*{y}",
    "{c}*{x}*{y}",
    "{c}*{x}**2",
    "{c}*({x} - {y})**4/4",
    "{c}*tp.hypot({x}, 1.0 + {y}**2)",
    "{c}*tp.cbrt(2.0 + {x}**2)",
    "{c}*tp.arctan2({x}, 2.0 + {y}**2)",
    "{c}/(1.5 + {x}**2)",
    "{c}*tp.exp(tp.sin({x})*{y})",
    "{c}*tp.sin({x})**2*tp.cos({y})",
    "{c}*({x} + {y})*({x} - {y})",
    "-{c}*tp.log(tp.cosh({x}))",
)
KINKS = (
    "{c}*tp.abs({x})",
    "{c}*tp.sqrt({x}**2)",
    "{c}*({x}**4)**0.25",
    "{c}*tp.hypot({x}, 0.0)",
    "{c}*tp.cbrt({x})**2",
    "{c}*tp.maximum({x}, {y})",
    "{c}*tp.minimum({x}, 0.3)",
    "{c}*tp.where({x} < 0.3, {x}, 0.3)",
    "{c}*tp.arccos(tp.cos(3.0*{x}))",
    "{c}*tp.arcsin(tp.sin(3.0*{x}))",
    "{c}*tp.abs({x})**1.5",
    "{c}*{x}*tp.abs({x})",
    "{c}*tp.clip({x}, -0.5, 0.5)",
    "{c}*tp.maximum({x}, 0.0)**2",
    "{c}*tp.where({x} > 0.2, ({x} - 0.2)**3, 0.0)",
    "{c}*tp.abs({x} - {y})",
    "{c}*tp.maximum({x}, {y})**2",
)
JUMPS = (
    "{c}*tp.sign({x})",
    "{c}*tp.floor(2.0*{x})",
    "tp.where({x} < 0.3, 0.0, {c})",
    "{c}*tp.arctan2({y}, {x})",
    "{c}*tp.arctan(tp.tan(2.0*{x}))",
    "{c}*tp.arctan(1.0/{x})",
    "{c}*tp.tanh(1.0/{x})",
    "{c}*{x}/tp.sqrt({x}**2)",
    "tp.where({x} > {y}, {x}**2, {c}*{y})",
    "{c}*tp.sign({x})*{y}",
    "{c}*tp.floor({x} + {y})*{x}",
)
WILD = (
    "{c}/{x}",
    "{c}*tp.log({x})",
    "{c}*tp.sqrt({x})",
    "{c}*{x}**-2",
    "{c}*{x}**0.5",
    "{c}*tp.arccos({x})",
    "{c}*tp.arcsin(1.5*{x})",
    "{c}*tp.log1p({x})",
    "{c}*tp.exp(4.0*{x}**2)",
)
TIMED = (
    "{c}*{x}*tp.cos({w}*t)",
    "(1.0 + 0.3*tp.sin({w}*t))*{x}**2/2",
    "{c}*tp.exp(-0.2*t)*{x}**2",
    "{c}*tp.sin({x} - {w}*t)",
    "{c}*t*{x}",
)
GROUPS = {"smooth": SMOOTH, "kink": KINKS, "jump": JUMPS, "wild": WILD, "timed": TIMED}


def number(rng: random.Random, low: float = -1.0, high: float = 1.0) -> str:
    """A short decimal that is not 0."""
    return repr(round(rng.choice([rng.uniform(low, high), 0.5, 1.0, -0.7 if low < 0 else 0.7]), 2) or 0.3)


def atom(rng: random.Random, names: Sequence[str]) -> str:
    """A variable, or a short combination of two."""
    a, b = rng.choice(names), rng.choice(names)
    kind = rng.random()
    if kind < 0.7 or a == b:
        return a
    if kind < 0.85:
        return f"({a} - {number(rng, 0.2, 1.2)}*{b})"
    return f"({a} + {b})" if kind < 0.95 else f"({a} - 0.35)"


def term(rng: random.Random, names: Sequence[str], group: str = "smooth") -> str:
    """One term of a group; the variables in it are taken from `names`."""
    template = rng.choice(GROUPS[group])
    return template.format(
        c=number(rng),
        x=atom(rng, names),
        y=atom(rng, names),
        r=rng.choice(["0.5", "1.5", "-1.0", "-2.5", "1.3", "2.0"]),
        w=number(rng, 0.5, 3.0),
    )


def kinetic(rng: random.Random, momenta: Sequence[str]) -> list[str]:
    """Terms of a kinetic energy in which every momentum occurs."""
    kind = rng.random()
    if kind < 0.6:
        return [f"{p}**2/{rng.choice(['2', '2', '(2*1.7)', '0.9'])}" for p in momenta]
    if kind < 0.7:
        return [f"tp.sqrt(1.0 + {' + '.join(p + '**2' for p in momenta)})"]
    out = [f"{p}**2/2" for p in momenta]
    extra = ["{c}*{p}**4/4", "{c}*{p}**3", "tp.cosh({p})", "{c}*{p}*{r}", "{c}*{p}", "{c}*tp.cos({p})"]
    return [*out, rng.choice(extra).format(c=number(rng), p=rng.choice(momenta), r=rng.choice(momenta))]
