"""What does an engine have to know of a kernel whose code exists already?  Its outline, which can be kept as text.

The kernel itself is written out only where code has to be made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple
from functools import cached_property
from typing import Any

from tinyphysics.ir.dtype import DTYPES, DType
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.functions.transcendental import weight
from tinyphysics.target import CORES
from tinyphysics.tpir.kernels.kernel import LOOPS, Kernel, Section
from tinyphysics.tpir.kernels.pressure import Pressure, pressure

# operations of a stage; a longer one is never laid out in turn
SHORT = max(core.window for core in CORES.values())
SIMPLE = 8  # operations of a function; the constants of a longer one leave no registers for that either
Shapes = dict[str, tuple[DType, tuple[int, ...]]]


class SectionOutline:
    """A section by name: how long it is and what it loads; what else is asked, the section itself answers."""

    def __init__(
        self,
        key: str,
        name: str,
        careful: bool,
        loads: tuple[UOp, ...],
        sizes: tuple[int, int, int] | None,
        pressure: Pressure | None,
        written: Callable[[bool], Section],
    ) -> None:
        self.key, self.name, self.careful, self.loads, self.written = key, name, careful, loads, written
        self.pressure = pressure  # None of a section that is too long for it to matter
        self.loops = name in LOOPS
        if sizes is not None:
            self.operations, self.code, self.moving = sizes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.written(False), name)


class Outline:
    """A kernel as engines see it, from text or from the kernel; `make` writes the kernel out."""

    def __init__(self, key: str, data: dict[str, Any], make: Callable[[], Kernel]) -> None:
        """`data` is what `described` gave; anything else raises KeyError, TypeError or ValueError."""
        self.key, self.make = key, make
        self.sections: dict[tuple[str, bool], SectionOutline] = {}
        self.name = str(data["name"])
        self.inputs, self.params, self.carried, self.watched = (
            variables(data[part]) for part in ("inputs", "params", "carried", "watched")
        )
        self.outputs, self.observed = shapes(data["outputs"]), shapes(data["observed"])
        self.sizes = {str(name): (int(n), int(c), int(own)) for name, (n, c, own) in data["sizes"].items()}
        self.kinds = tuple(DTYPES[name] for name in data["kinds"])
        p = data["pressure"]
        self.pressure = None if p is None else Pressure(*(int(n) for n in p))

    @cached_property
    def kernel(self) -> Kernel:
        return self.make()

    def has(self, name: str) -> bool:
        return name in self.sizes

    def section(self, name: str, careful: bool = False) -> Any:
        if (name, careful) not in self.sections:
            self.sections[name, careful] = self.outlined(name, careful)
        return self.sections[name, careful]

    def outlined(self, name: str, careful: bool) -> SectionOutline:
        loads = self.inputs if name == "init" else self.carried
        sizes = None if careful else self.sizes[name]
        return SectionOutline(
            self.key,
            name,
            careful,
            loads,
            sizes,
            self.pressure,
            lambda short: self.kernel.section(name, careful, short),
        )


def described(k: Kernel) -> dict[str, Any]:
    """A kernel's outline as data that JSON can hold."""

    def named(us: Sequence[UOp]) -> list[list[str]]:
        return [[str(u.arg), u.dtype.name] for u in us]

    def sized(table: Shapes) -> dict[str, Any]:
        return {name: [dtype.name, list(shape)] for name, (dtype, shape) in table.items()}

    short = {name: k.section(name, short=True) for name in k.functions}
    step = short["step"]
    sizes = [weight(u) for u in toposort([*step.roots, *step.guards])]
    brief = sum(sizes) <= SHORT and max(sizes, default=0) <= SIMPLE
    return {
        "name": k.name,
        "inputs": named(k.inputs),
        "params": named(k.params),
        "carried": named(k.carried),
        "watched": [[f"watched{i}", u.dtype.name] for i, u in enumerate(k.watched)],
        "kinds": [d.name for d in k.kinds],
        "outputs": sized(k.outputs),
        "observed": sized(k.observed),
        "sizes": {name: [f.operations, f.code, f.moving] for name, f in short.items()},
        "pressure": list(astuple(pressure(k.section("step")))) if brief else None,
    }


def variables(rows: Any) -> tuple[UOp, ...]:
    return tuple(UOp.var(str(name), (), DTYPES[dtype]) for name, dtype in rows)


def shapes(table: Any) -> Shapes:
    return {
        str(name): (DTYPES[dtype], tuple(int(n) for n in shape)) for name, (dtype, shape) in table.items()
    }
