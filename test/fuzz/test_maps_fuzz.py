"""Random maps of whole numbers and of products, beside NumPy: the same bits, or the same to the roundings of a sum."""

from __future__ import annotations

import linecache
import random
import warnings

import numpy as np
import pytest

import tinyphysics as tp

WHOLE = {"int8": "Int8", "int16": "Int16", "int32": "Int32", "int64": "Int64"}
SPACES = {**WHOLE, "bool": "Bool", "float": "Array"}
FEW = range(6)
MANY = range(6, 80)


class Expressions:
    """Texts of expressions of some type, in states of some types."""

    def __init__(self, rng: random.Random, states: dict[str, str]) -> None:
        self.rng, self.states = rng, states

    def leaf(self, want: str) -> str:
        rng = self.rng
        own = [n for n, d in self.states.items() if d == want]
        if own and rng.random() < 0.8:
            return rng.choice(own)
        name, d = rng.choice(list(self.states.items()))
        if want == "bool":
            return name if d == "bool" else f"({name} > {rng.randint(-3, 3)}{'.0' if d == 'float' else ''})"
        if d == want:
            return name
        if want == "float":
            return f"{name}.astype(float)"
        return self.cast(name, want) if d == "float" else f"{name}.astype('{want}')"

    def cast(self, text: str, want: str) -> str:
        """Of a float within a range that every machine casts alike."""
        return f"np.minimum(np.maximum({text}, -100.0), 100.0).astype('{want}')"

    def of(self, want: str, depth: int) -> str:
        if depth == 0:
            return self.leaf(want)
        return {"bool": self.condition, "float": self.number}.get(want, self.whole)(want, depth - 1)

    def condition(self, want: str, depth: int) -> str:
        how, rng = self.rng.choice("< <= == != > >= & | ^ ~".split()), self.rng
        if how == "~":
            return f"(~{self.of('bool', depth)})"
        kind = "bool" if how in "&|^" else rng.choice([*WHOLE, "float"])
        return f"({self.of(kind, depth)} {how} {self.of(kind, depth)})"

    def number(self, want: str, depth: int) -> str:
        how, a, b = (
            self.rng.choice(["+", "-", "*", "cast", "where"]),
            *(self.of(want, depth) for _ in range(2)),
        )
        if how == "cast":
            return f"{self.of(self.rng.choice([*WHOLE, 'bool']), depth)}.astype(float)"
        return f"np.where({self.of('bool', depth)}, {a}, {b})" if how == "where" else f"({a} {how} {b})"

    def whole(self, want: str, depth: int) -> str:
        rng = self.rng
        a, b = (self.of(want, depth) for _ in range(2))
        how = rng.choice(
            "+ - * // % & | ^ << >> neg inv abs where min max clip roll cast narrow pow float".split()
        )
        if how in ("<<", ">>") and rng.random() < 0.4:
            b = str(rng.choice([0, 1, 3, 7, 9]))
        narrower = list(WHOLE)[: list(WHOLE).index(want) + 1]
        texts = {
            "neg": f"(-{a})",
            "inv": f"(~{a})",
            "abs": f"abs({a})",
            "where": f"np.where({self.of('bool', depth)}, {a}, {b})",
            "min": f"np.minimum({a}, {b})",
            "max": f"np.maximum({a}, {b})",
            "clip": f"np.clip({a}, {rng.randint(-9, 0)}, {rng.randint(1, 100)})",
            "roll": f"np.roll({a}, {rng.randint(-2, 2)}, 0)",
            "cast": f"{self.of(rng.choice([*WHOLE, 'bool']), depth)}.astype('{want}')",
            "narrow": f"({a} {rng.choice('+-*&|')} {self.of(rng.choice(narrower), depth)})",
            "pow": f"({a}**{rng.randint(0, 4)})",
            "float": self.cast(self.of("float", depth), want),
        }
        return texts.get(how) or f"({a} {how} {b})"


def function_of(text: str, name: str):
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"np": np, "tp": tp}
    exec(compile(text, name, "exec"), space)
    return space["f"]


def start_of(rng: random.Random, draw: np.random.Generator, d: str, shape: tuple[int, ...]):
    if d == "float":
        return draw.normal(size=shape) * rng.choice([1, 100])
    if d == "bool":
        return draw.random(shape) < 0.5
    ends, which = np.iinfo(d), draw.random(shape)
    any_ = draw.integers(ends.min, ends.max, shape, dtype=d, endpoint=True)
    out = np.where(which < 0.5, draw.integers(-5, 6, shape).astype(d), any_)
    return np.where(which < 0.05, ends.min, np.where(which > 0.95, ends.max, out)).astype(d)


@pytest.mark.parametrize("seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.all) for seed in MANY)])
@pytest.mark.filterwarnings("ignore")
def test_whole_numbers_are_those_of_numpy(seed):
    """Overflow, division and remainder of negative numbers, shifts, casts, conditions, of every type."""
    rng, draw = random.Random(seed), np.random.default_rng(seed)
    n = rng.choice([1, 2, 3, 5, 17, 70, 300])
    axes = ("n", "n") if n < 20 and rng.random() < 0.3 else ("n",)
    states = {f"x{k}": rng.choice([*WHOLE, "bool", "float"]) for k in range(rng.randint(1, 3))}
    states["x0"] = rng.choice(list(WHOLE))
    write = Expressions(rng, states)
    values = ", ".join(write.of(d, rng.randint(1, 4)) for d in states.values())
    given = ", ".join(f"{name}: tp.{SPACES[d]}{list(axes)}" for name, d in states.items())
    f = function_of(f"def f({given}):\n    return {values}\n", f"<whole numbers {seed}>")
    start = {name: start_of(rng, draw, d, (n,) * len(axes)) for name, d in states.items()}
    wanted, steps = dict(start), rng.choice([1, 2, 3])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        for _ in range(steps):
            out = f(**wanted)
            out = out if isinstance(out, tuple) else (out,)
            wanted = {name: np.broadcast_to(np.asarray(v), (n,) * len(axes)) for name, v in zip(states, out)}
    system = tp.map(f)
    for backend in ("numpy", "python", "llvm") if seed in MANY else ("numpy", "llvm"):
        final = tp.compile(system, backend=backend, sizes={"n": n}).evolve(**start, steps=steps).final
        for name, d in states.items():
            assert np.array_equal(getattr(final, name), wanted[name], equal_nan=d == "float"), (backend, name)


SIZES = [1, 1, 2, 3, 5, 8, 9, 17, 31, 32, 33, 64, 65, 130]
FORMS = {
    "A @ z": ("k", {"A": "kk"}),
    "z @ A": ("k", {"A": "kk"}),
    "A @ z + 0 * z": ("mn", {"A": "mm"}),
    "A.T @ z": ("mn", {"A": "mm"}),
    "z + A @ B.T": ("mn", {"A": "mk", "B": "nk"}),
    "z + A.T @ B": ("mn", {"A": "km", "B": "kn"}),
    "A @ (B @ z)": ("mn", {"A": "mk", "B": "km"}),
    "z + (A[:, :, None] * B[None]).sum(1)": ("mn", {"A": "mk", "B": "kn"}),
    "(A @ z[:, :, None])[:, :, 0]": ("bk", {"A": "bkk"}),
    "np.roll(A @ z, 1, 0) + A[::-1] @ z": ("mn", {"A": "mm"}),
}


@pytest.mark.parametrize("seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.all) for seed in MANY)])
def test_products_are_those_of_numpy(seed):
    """Odd shapes, axes of size 1, transposes, batches and chains; the bits are equal on all backends."""
    rng, draw = random.Random(seed), np.random.default_rng(seed)
    size = {letter: rng.choice(SIZES) for letter in "mnk"} | {"b": rng.choice([1, 2, 3, 5])}
    text, (own, others) = rng.choice(list(FORMS.items()))
    shapes = {"z": own, **others}
    given = ", ".join(f"{name}: tp.Array{[size[c] for c in axes]}" for name, axes in shapes.items())
    f = function_of(f"def f({given}):\n    return {text}\n", f"<products {seed}>")
    arrays = {name: draw.normal(size=[size[c] for c in axes]) for name, axes in shapes.items()}
    wanted, bound = (f(**{name: g(v) for name, v in arrays.items()}) for g in (np.asarray, np.abs))
    system, found = tp.map(f), {}
    for backend in ("numpy", "python", "llvm") if seed in MANY else ("numpy", "llvm"):
        try:
            found[backend] = tp.compile(system, backend=backend).evolve(**arrays, steps=1).final.z
        except tp.PlanError as long:
            assert "operations when written out" in str(long)  # noqa: PT017
            pytest.skip("a long sum into short axes, which is not done in loops")
        assert np.all(np.abs(found[backend] - wanted) <= 1e-15 * (2 * sum(size.values()) + 8) * bound)
    first, *rest = found.values()
    assert all(first.tobytes() == other.tobytes() for other in rest)
