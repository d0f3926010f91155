"""What does an engine have to know of a kernel whose code exists already?  Its outline, which can be kept as text.

The kernel itself is written out only where code has to be made from it.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from tinyphysics.ir.dtype import DTYPES, DType
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernel import Kernel, Section

Shapes = dict[str, tuple[DType, tuple[int, ...]]]


class SectionOutline:
    """A section by name: how long it is and what it loads; what else is asked, the section itself answers."""

    def __init__(
        self, key: str, name: str, careful: bool, loads: tuple[UOp, ...], operations: int | None,
        written: Callable[[bool], Section],
    ) -> None:  # fmt: skip
        self.key, self.name, self.careful, self.loads, self.written = key, name, careful, loads, written
        self.loops = name in ("step", "watch")
        if operations is not None:
            self.operations = operations

    def __getattr__(self, name: str) -> Any:
        return getattr(self.written(False), name)


class Outline:
    """A kernel as engines see it, from text or from the kernel; `make` writes the kernel out."""

    def __init__(self, key: str, data: dict[str, Any], make: Callable[[], Kernel]) -> None:
        """`data` is what `described` gave; anything else raises KeyError, TypeError or ValueError."""
        self.key, self.make = key, make
        self.name = str(data["name"])
        self.inputs, self.params, self.carried, self.watched = (
            variables(data[part]) for part in ("inputs", "params", "carried", "watched")
        )
        self.outputs, self.observed = shapes(data["outputs"]), shapes(data["observed"])
        self.operations = {str(name): int(count) for name, count in data["operations"].items()}

    @cached_property
    def kernel(self) -> Kernel:
        return self.make()

    def section(self, name: str, careful: bool = False) -> Any:
        loads = self.inputs if name == "init" else self.carried
        count = None if careful else self.operations[name]
        return SectionOutline(self.key, name, careful, loads, count,
                              lambda short: self.kernel.section(name, careful, short))  # fmt: skip


def described(k: Kernel) -> dict[str, Any]:
    """A kernel's outline as data that JSON can hold."""

    def named(us: Sequence[UOp]) -> list[list[str]]:
        return [[str(u.arg), u.dtype.name] for u in us]

    def sized(table: Shapes) -> dict[str, Any]:
        return {name: [dtype.name, list(shape)] for name, (dtype, shape) in table.items()}

    return {
        "name": k.name, "inputs": named(k.inputs), "params": named(k.params), "carried": named(k.carried),
        "watched": [[f"watched{i}", u.dtype.name] for i, u in enumerate(k.watched)],
        "outputs": sized(k.outputs), "observed": sized(k.observed),
        "operations": {name: k.section(name, short=True).operations for name in k.functions},
    }  # fmt: skip


def variables(rows: Any) -> tuple[UOp, ...]:
    return tuple(UOp.var(str(name), (), DTYPES[dtype]) for name, dtype in rows)


def shapes(table: Any) -> Shapes:
    return {str(name): (DTYPES[dtype], tuple(int(n) for n in shape)) for name, (dtype, shape) in table.items()}
