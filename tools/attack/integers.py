"""Do maps of whole numbers give NumPy's bits?  Random expressions of several types, wrapped and cast, on every host."""

from __future__ import annotations

import linecache
import random
from types import SimpleNamespace
from typing import Any

import numpy as np

import tinyphysics as tp
from attack.case import Case
from attack.findings import Tally

TYPES = {"int8": "Int8", "int16": "Int16", "int32": "Int32", "int64": "Int64"}
HOSTS = ("llvm", "numpy", "c")
STEPS = 2
TABLE = np.array([3, -1, 7, 100, 2], np.int16)


class Writer:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"integers {seed}")
        n = self.rng.choice([1, 5, 8, 33, 40, 70])
        self.shape = (n, n) if self.rng.random() < 0.3 and n < 40 else (n,)
        self.type, self.other = self.rng.choice(list(TYPES)), self.rng.choice(list(TYPES))

    def number(self, depth: int) -> str:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.15:
            return rng.choice(["s", "s", "b"])
        a, b, k = (
            self.number(depth - 1),
            self.number(depth - 1),
            rng.choice([1, 2, 3, 5, 7, 100, -1, -3, 127]),
        )
        shift = rng.choice([0, 1, 3, 7, 8, 31, 63])
        return rng.choice([
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} // {k})", f"({a} % {k})", f"({a} // {b})", f"({a} % {b})",
            f"({a} & {b})", f"({a} | {b})", f"({a} ^ {b})", f"(~{a})", f"(-{a})", f"abs({a})", f"({a} << {shift})",
            f"({a} >> {shift})", f"np.roll({a}, {rng.choice([1, -1, 2])}, 0)",
            f"np.where({self.condition(depth - 1)}, {a}, {b})",
            f"np.minimum({a}, {b})", f"np.maximum({a}, {b})", f"np.clip({a}, -3, 5)",
            f"({self.condition(depth - 1)}).astype('int8')",
            f"({a}).astype('{rng.choice(list(TYPES))}')", f"({a})**{rng.choice([0, 1, 2, 3])}",
            f"({a} + {k})", f"({a})[::-1]",
            f"(({a} % 7).astype(float)*1.7).astype('{self.other}')", f"({a} >> ({b} & 7))", f"({a} + ({b}).sum())",
            f"({a} - ({b}).max())", f"np.sign({a})", f"tp.take(table, {a} % 5)",
        ])  # fmt: skip

    def condition(self, depth: int) -> str:
        a, b, k = self.number(depth - 1), self.number(depth - 1), self.rng.choice([0, 1, 2, -1, 5])
        plain = [f"({a} > {b})", f"({a} == {k})", f"({a} <= {k})", f"({a} != {b})"]
        if depth > 0:
            c, d = self.condition(depth - 1), self.condition(depth - 1)
            plain += [f"({c} & {d})", f"({c} | {d})", f"(~{c})", f"({c} ^ {d})"]
        return self.rng.choice(plain)

    def text(self) -> str:
        sizes = ", ".join(map(str, self.shape))
        return (
            f"@tp.map\ndef system(s: tp.{TYPES[self.type]}[{sizes}], b: tp.{TYPES[self.other]}[{sizes}]):\n"
            f"    return ({self.number(3)}).astype('{self.type}'), (b + s.astype('{self.other}')).astype('{self.other}')\n"
        )

    def start(self, seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng([seed, 60])

        def of(kind: str) -> np.ndarray:
            info = np.iinfo(kind)
            wide = rng.integers(info.min, info.max, self.shape, dtype=kind, endpoint=True)
            return np.where(rng.random(self.shape) < 0.5, wide, rng.integers(-4, 5, self.shape).astype(kind))

        return {"s": of(self.type), "b": of(self.other)}


class Annotation:
    def __class_getitem__(cls, item: Any) -> Any:
        return cls


def by_numpy(text: str, z: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same text with NumPy in the place of tp."""
    stand_in = SimpleNamespace(map=lambda f: f, take=np.take, **dict.fromkeys(TYPES.values(), Annotation))
    scope: dict[str, Any] = {"tp": stand_in, "np": np, "table": TABLE}
    exec(text, scope)
    with np.errstate(all="ignore"):
        for _ in range(STEPS):
            z = dict(zip(z, scope["system"](**z)))
    return z


def check(case: Case, t: Tally) -> None:
    w = Writer(case.seed)
    text, z = w.text(), w.start(case.seed)
    file = f"<integers {case.seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope: dict[str, Any] = {"tp": tp, "np": np, "table": TABLE}
    exec(compile(text, file, "exec"), scope)
    t.shares["integers"] += 1
    true = by_numpy(text, z)
    for host in HOSTS:
        out = tp.compile(scope["system"], backend=host).evolve(**z, steps=STEPS, progress=False)
        for name, expected in true.items():
            found = np.asarray(getattr(out.final, name))
            wrong = found.dtype != expected.dtype or not np.array_equal(found, expected)
            t.check(case.seed, "whole numbers", wrong, f"{host} runs {text!r}", f"NumPy has another `{name}`")
