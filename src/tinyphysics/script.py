"""What systems does a user's file define?  It is read without running what it runs.

`look` executes a file line by line: imports, definitions, constants. A line that compiles or runs, or that needs the
result of such a line, is left out, and so is a call that is there for its effect, such as plt.show() or main(). So
`tp explain FILE` answers at once, however long the file runs. `execute` runs the whole file, as Python does.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tinyphysics.errors import InputError, TinyPhysicsError
from tinyphysics.options import HELD
from tinyphysics.util import Site

# Calls of tinyphysics that do work. Decorators are not among them: they trace, which is what a look is for.
RUNS = frozenset(
    {"compile", "evolve", "minimise", "rewind", "suggest_dt", "suggest_split", "estimate", "load", "step"}
)
# Effects at module level that later lines may need; of other modules a call for its effect is left out.
NEEDED = tuple(
    "sys. warnings. logging. os.environ os.chdir random.seed np.random.seed numpy.random.seed".split()
)
WAITS = frozenset({"input", "exit", "quit", "breakpoint"})


class Running(BaseException):
    """Raised instead of a run; not an Exception, so that no `except Exception` of the file goes on with it."""


@dataclass(frozen=True, eq=False)
class Asked:
    """What the file gives to tp.compile: a system, and the options."""

    system: Any
    dt: Any
    options: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Script:
    """A file as a module, and what was left out of it."""

    path: Path
    module: types.ModuleType
    # names, and the lines that would have made them
    left_out: Mapping[str, Site] = field(default_factory=dict)
    asked: tuple[Asked, ...] = ()  # what the file compiles, in order

    def of(self, system: Any) -> Asked | None:
        """How the file compiles a system, the first time."""
        return next((a for a in self.asked if a.system is system), None)


NOT_PYTHON = "Give a Python file, in UTF-8."


def parsed(path: Path) -> ast.Module:
    """The file as a tree; an InputError that names the line where it is not Python."""
    try:
        return ast.parse(path.read_bytes(), str(path))
    except OSError as error:
        raise InputError(
            f"`{path}` cannot be read: {error.strerror}", fix="Check its permissions."
        ) from error
    except SyntaxError as error:
        site = Site(str(path), error.lineno or 1)
        raise InputError(
            f"`{path}` is not Python: {error.msg}",
            site=site,
            fix=f"Look at `{site.text}`." if site.text else NOT_PYTHON,
        ) from error
    except ValueError as error:
        raise InputError(f"`{path}` is not Python: {error}", fix=NOT_PYTHON) from error


@contextmanager
def as_module(path: Path) -> Iterator[types.ModuleType]:
    """A module of the file's own, which may import its neighbours; what it prints goes to stderr."""
    module = types.ModuleType(f"tp_file_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield module
    finally:
        sys.path.remove(str(path.resolve().parent))


def failed(path: Path, error: BaseException) -> InputError:
    """What went wrong in the file, with its line."""
    trace, line = error.__traceback__, 0
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == str(path) else line
        trace = trace.tb_next
    told = f"{type(error).__name__}: {error}".rstrip(": ")
    return InputError(
        f"`{path}` failed: {told}", site=Site(str(path), line), fix=f'See all of it: python "{path}".'
    )


def execute(path: Path) -> Script:
    """The file, run from its first line to its last."""
    tree = parsed(path)
    with as_module(path) as module:
        try:
            exec(compile(tree, str(path), "exec", dont_inherit=True), module.__dict__)
        except TinyPhysicsError:
            raise
        except (Exception, SystemExit) as error:
            raise failed(path, error) from error
    return Script(path, module)


def look(path: Path) -> Script:
    """The file without what it runs."""
    tree = parsed(path)
    futures = flags_of(tree)
    left_out: dict[str, Site] = {}
    asked: list[Asked] = []
    own = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}

    def held(call: str, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        if call not in RUNS:
            return
        if call == "compile":
            given = dict(zip(("system", "dt"), args)) | dict(options)
            asked.append(Asked(given.pop("system", None), given.pop("dt", None), given))
        raise Running

    with as_module(path) as module:
        scope = module.__dict__
        for node in tree.body:
            if for_its_effect(node, own, scope) or names(node, ast.Load) & set(left_out):
                leave_out(node, path, scope, left_out)
                continue
            token = HELD.set(held)
            try:
                exec(compile(ast.Module([node], []), str(path), "exec", futures, dont_inherit=True), scope)
                for name in names(node, ast.Store):
                    left_out.pop(name, None)  # bound anew, without a run
            except Running:
                leave_out(node, path, scope, left_out)
            except (Exception, SystemExit) as error:
                if wanted(error) in left_out:
                    leave_out(node, path, scope, left_out)
                elif isinstance(error, TinyPhysicsError):
                    raise
                else:
                    raise failed(path, error) from error
            finally:
                HELD.reset(token)
    return Script(path, module, left_out, tuple(asked))


def flags_of(tree: ast.Module) -> int:
    """Of `from __future__ import annotations`, which holds for every line behind it."""
    imports = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    names_of = [a.name for n in imports for a in n.names]
    out = 0
    for name in names_of:
        out |= getattr(__future__, name).compiler_flag
    return out


def leave_out(node: ast.stmt, path: Path, scope: dict[str, Any], left_out: dict[str, Site]) -> None:
    """The names that the line would have bound are not there."""
    for name in names(node, ast.Store):
        scope.pop(name, None)
        left_out[name] = Site(str(path), node.lineno)


def names(node: ast.stmt, kind: type[ast.expr_context]) -> set[str]:
    """The names that a line binds (Store) or reads (Load) where it stands: not those inside of what it defines."""
    out: set[str] = set()
    left: list[ast.AST] = [node]
    while left:
        at = left.pop()
        if isinstance(at, ast.Name) and isinstance(at.ctx, kind):
            out.add(at.id)
        if isinstance(at, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if kind is ast.Store:
                out.add(at.name)
                continue
            left += at.decorator_list
            left += (
                at.bases
                if isinstance(at, ast.ClassDef)
                else [*at.args.defaults, *filter(None, at.args.kw_defaults)]
            )
            continue
        if isinstance(at, (ast.Import, ast.ImportFrom)) and kind is ast.Store:
            out |= {(a.asname or a.name).partition(".")[0] for a in at.names}
        left += ast.iter_child_nodes(at)
    return out


def for_its_effect(node: ast.stmt, own: set[str], scope: Mapping[str, Any]) -> bool:
    """Is it a call that makes nothing which later lines need: plt.show(), main(), time.sleep(1)?

    A method of an object, bodies.append(x), may well be needed, and so may print, which tells the user something.
    """
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    calls = [c.func for c in ast.walk(node) if isinstance(c, ast.Call)]
    if any(isinstance(f, ast.Name) and f.id in own | WAITS for f in calls):
        return True
    text = ast.unparse(node.value.func)
    module = isinstance(scope.get(text.partition(".")[0]), types.ModuleType)
    return module and not text.startswith(NEEDED)


def wanted(error: BaseException | None) -> str | None:
    """The name that was not there, if that is what an error comes from."""
    while error is not None:
        if isinstance(error, NameError):
            return str(error.name)
        error = error.__cause__ or error.__context__
    return None
