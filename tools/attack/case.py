"""One case of the attack: a program as text, how it is compiled, and where it starts."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Layout = tuple[str, tuple[int, ...], int, str]  # of a state: name, shape, how many numbers, role


@dataclass(frozen=True)
class Case:
    seed: int
    kind: str  # which writer of programs.py made it
    head: str  # the text before the function: user operations
    signature: str  # the decorator and the line `def system(...)`
    terms: tuple[str, ...]  # their sum is returned; of forces, rates and maps, one line for each component
    tail: str  # the text after it: what is added to the system
    layout: tuple[Layout, ...]
    params: dict[str, float]
    options: dict[str, Any]  # of tp.compile
    groups: tuple[str, ...] = ()  # of the terms: smooth, kink, jump, wild, timed
    steps: int = 3
    t0: float = 0.0
    form: str = "sum"  # or "list": terms are components; or "tuple": terms are states
    checks: tuple[str, ...] = field(default=())

    @property
    def text(self) -> str:
        """The program."""
        if self.form == "sum":
            value = "    return (\n        " + "\n        + ".join(self.terms) + "\n    )"
        elif self.form == "stack":
            value = f"    return tp.stack([{', '.join(self.terms)}])"
        elif self.form == "tuple":
            value = "    return " + ", ".join(self.terms)
        else:
            value = f"    return {self.terms[0]}"
        return f"{self.head}{self.signature}\n{value}\n{self.tail}"

    @property
    def dt(self) -> float:
        return float(self.options.get("dt") or 0.1)

    def start(self, members: int = 0, salt: int = 0) -> np.ndarray:
        """Random states as rows (members, numbers); or one."""
        size = sum(n for _, _, n, _ in self.layout)
        rng = np.random.default_rng([self.seed, salt])
        return rng.uniform(-1.1, 1.1, (members, size) if members else size)

    def given(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """The arguments of evolve for states as rows, or for one."""
        out, at = {}, 0
        for name, shape, n, _ in self.layout:
            out[name] = z[..., at : at + n].reshape((*z.shape[:-1], *shape))
            at += n
        return out

    def flat(self, out: Any) -> np.ndarray:
        """The final states of a run as rows."""
        parts = []
        for name, shape, n, _ in self.layout:
            x = np.asarray(getattr(out.final, name), float)
            parts.append(x.reshape((*x.shape[: x.ndim - len(shape)], n)))
        return np.concatenate(parts, -1)

    def file(self) -> str:
        """A small Python file that runs the case."""
        options = "".join(f", {k}={v!r}" for k, v in self.options.items())
        start = ", ".join(f"{k}={np.round(v, 3).tolist()}" for k, v in self.given(self.start()).items())
        params = "".join(f", {k}={v}" for k, v in self.params.items())
        clock = f", t0={self.t0}" if self.t0 else ""
        return (
            f"# tools/attack.py --seed {self.seed}\n"
            "import numpy as np\nimport tinyphysics as tp\n\n\n"
            f"{self.text}\n\n"
            f"sim = tp.compile(system{options})\n"
            f"out = sim.evolve({start}, steps={self.steps}{clock}{params})\n"
            "print(sim.explain())\nprint(out.final)\n"
        )

    def key(self) -> str:
        return json.dumps([self.text, self.options, self.params, self.steps, self.t0], sort_keys=True)

    def without(self, **changes: Any) -> Case:
        return replace(self, **changes)


def rng_of(seed: int) -> random.Random:
    return random.Random(f"attack {seed}")
