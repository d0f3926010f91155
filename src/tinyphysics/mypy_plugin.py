"""Lets mypy read shapes: `tp.Vec[3]` and `tp.Array["n", 3]` are arrays; 3 and "n" are sizes and no types.

In pyproject.toml:

    [tool.mypy]
    plugins = ["tinyphysics.mypy_plugin"]

pyright and Pylance need nothing: they take `Vec.__class_getitem__` as it is. With `mypy --num-workers` letters are still
looked up as names, because no plugin is asked there before that happens.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

from mypy.nodes import (
    AssignmentStmt,
    Block,
    ClassDef,
    Decorator,
    ForStmt,
    FuncDef,
    IfStmt,
    Import,
    ImportAll,
    ImportFrom,
    MypyFile,
    OverloadedFuncDef,
    Statement,
    TryStmt,
    WhileStmt,
    WithStmt,
)
from mypy.plugin import AnalyzeTypeContext, Plugin, ReportConfigContext
from mypy.types import AnyType, CallableType, Type, TypeOfAny, UnboundType, UnionType

SHAPES = ("Vec", "Array", "Int8", "Int16", "Int32", "Int64", "Bool", "Rotor", "Rotation", "Axis")
PLACE = "tinyphysics.front.spaces"
FROM = ("tinyphysics", PLACE)
# the import or use of a shape, and then a bracket with a word in quotes: Vec["n"], under any name
LETTERS = re.compile(
    r"""\b(?:Vec|Array|Int8|Int16|Int32|Int64|Bool|Rotor|Rotation|Axis)\b(?s:.*)\[[^\]\n]*["']\w+["']"""
)


def written(file: MypyFile) -> set[str]:
    """The names that Vec, Array and the others have in a file: `tp.Vec` after `import tinyphysics as tp`."""
    out: set[str] = set()
    for line in file.imports:
        if isinstance(line, Import):
            modules = [name or module for module, name in line.ids if module in FROM]
            out |= {f"{module}.{shape}" for module in modules for shape in SHAPES}
        elif isinstance(line, ImportFrom) and line.id in FROM:
            out |= {name or shape for shape, name in line.names if shape in SHAPES}
        elif isinstance(line, ImportAll) and line.id in FROM:
            out |= set(SHAPES)
    return out


def strip(t: Type | None, names: set[str]) -> None:
    """Takes the sizes out of `Vec["n"]`, also inside `Annotated[...]` or a union."""
    if isinstance(t, CallableType):
        inside = [*t.arg_types, t.ret_type]
    elif isinstance(t, UnionType):
        inside = list(t.items)
    elif not isinstance(t, UnboundType):
        return
    elif t.name in names:
        t.args, inside = (), []
    else:
        inside = list(t.args)
    for part in inside:
        strip(part, names)


def without_sizes(lines: Iterable[Statement], names: set[str]) -> None:
    """Takes sizes out of the annotations of some lines. mypy looks letters up before it asks a plugin about a type."""
    for line in lines:
        if isinstance(line, (FuncDef, AssignmentStmt)):
            strip(line.type, names)
            strip(line.unanalyzed_type, names)
        without_sizes(inside_of(line), names)


def inside_of(line: Statement) -> list[Statement]:
    """The lines of a block, a definition or a branch."""
    if isinstance(line, Block):
        return list(line.body)
    if isinstance(line, FuncDef):
        return [line.body]
    if isinstance(line, Decorator):
        return [line.func]
    if isinstance(line, OverloadedFuncDef):
        return list(line.items)
    if isinstance(line, ClassDef):
        return [line.defs]
    if isinstance(line, IfStmt):
        return [*line.body, *([line.else_body] if line.else_body else [])]
    if isinstance(line, (ForStmt, WhileStmt)):
        return [line.body, *([line.else_body] if line.else_body else [])]
    if isinstance(line, WithStmt):
        return [line.body]
    if isinstance(line, TryStmt):
        ends = [end for end in (line.else_body, line.finally_body) if end]
        return [line.body, *line.handlers, *ends]
    return []


class Shapes(Plugin):
    """Answers mypy about Vec and Array, and about nothing else."""

    def report_config_data(self, ctx: ReportConfigContext) -> object:
        """Something new for a file with letters, so that mypy reads it in every run and does not keep it.

        A file that mypy keeps is parsed later if something that it imports has changed, and then nothing asks here.
        """
        try:
            text = Path(ctx.path).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None
        return secrets.token_hex(8) if "tinyphysics" in text and LETTERS.search(text) else None

    def get_additional_deps(self, file: MypyFile) -> list[tuple[int, str, int]]:
        """Called for every file before its names are looked up; there are no further modules to load."""
        if names := written(file):
            without_sizes(file.defs, names)
        return []

    def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
        """Called for every name of a type. A shape is Any, so that `m: tp.Vec["n"] = 1.0` may have one number for all."""
        if fullname not in {f"{PLACE}.{shape}" for shape in SHAPES}:
            return None
        return lambda context: AnyType(TypeOfAny.special_form)


def plugin(version: str) -> type[Plugin]:
    """What mypy calls first, with its own version."""
    return Shapes
