"""A graph as text that reads back: one node a line, sources by number, roots at the end."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tinyphysics.errors import InputError
from tinyphysics.ir.dtype import DTYPES
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.util import Site

LINE = re.compile(r"%(\d+) = (\w+) (\w+)\[([\d, ]*)\]((?: %\d+)*)(?: \{(.*)\})?\s*(?:;.*)?$")


def dump(roots: Sequence[UOp], sites: Mapping[UOp, Site] | None = None) -> str:
    """The graph below the roots; `parse` of it gives the same nodes.

    >>> print(dump([UOp.var("q") * 2.0]))
    %0 = var f64[] {'q'}
    %1 = const f64[] {2.0}
    %2 = mul f64[] %0 %1
    return %2
    """
    return "\n".join(line for line, _ in dumped(roots, sites))


def dumped(roots: Sequence[UOp], sites: Mapping[UOp, Site] | None = None) -> list[tuple[str, UOp | None]]:
    """The lines of `dump`, each with its node."""
    number: dict[UOp, int] = {}
    lines: list[tuple[str, UOp | None]] = []
    for u in toposort(roots):
        number[u] = len(number)
        shape = ", ".join(map(str, u.shape))
        src = "".join(f" %{number[s]}" for s in u.src)
        # repr of a float reads back exactly; inf and nan are names to `_read`
        arg = f" {{{u.arg!r}}}" if u.arg is not None else ""
        where = f"  ; {sites[u]}" if sites and u in sites else ""
        lines.append((f"%{number[u]} = {u.op.value} {u.dtype}[{shape}]{src}{arg}{where}", u))
    return [*lines, ("return " + " ".join(f"%{number[r]}" for r in roots), None)]


def _read(text: str) -> Any:
    if text in ("inf", "-inf", "nan"):
        return float(text)
    return ast.literal_eval(text)


def _node(line: str, nodes: dict[str, UOp]) -> tuple[str, UOp]:
    found = LINE.match(line)
    if found is None:
        raise ValueError("it is not `%n = op dtype[shape] %src {arg}`")
    name, op, dtype, shape, src, arg = found.groups()
    return f"%{name}", UOp(
        Ops(op),
        DTYPES[dtype],
        tuple(int(n) for n in shape.split(",") if n.strip()),
        tuple(nodes[s] for s in src.split()),
        _read(arg) if arg is not None else None,
    )


def parse(text: str) -> list[UOp]:
    """The roots of a graph printed by `dump`."""
    nodes: dict[str, UOp] = {}
    for i, line in enumerate(text.strip().splitlines(), 1):
        try:
            if line.startswith(";"):
                continue
            if line.startswith("return"):
                return [nodes[name] for name in line.split()[1:]]
            name, node = _node(line.strip(), nodes)
        except KeyError as missing:
            raise InputError(f"line {i} of the graph, `{line}`: {missing} is not known") from None
        except (ValueError, SyntaxError) as error:
            raise InputError(f"line {i} of the graph, `{line}`: {error}") from None
        nodes[name] = node
    raise InputError("the graph has no `return` line")
