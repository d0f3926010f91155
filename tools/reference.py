"""The public names of tinyphysics with their signatures and docstrings, as one page of Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import tinyphysics as tp

# (heading, names): what is public and in no group here is an error, so that no name is forgotten
GROUPS = (
    (
        "Systems",
        "hamiltonian lagrangian potential constraint rigid_bonds wall event contact forces ode map split fast slow op Vec "
        "Array System PhysicsSystem".split(),
    ),
    ("Simulations", "compile load Simulation Stepper Report".split()),
    ("Results", "Trajectory Stop Loss measure_symplectic assert_symplectic".split()),
    ("Bodies and pairs", "pair_sum pair_distance2 separation".split()),
    ("Random numbers", "random".split()),
    (
        "Errors",
        "TinyPhysicsError InputError TraceError ShapeError PlanError VerifyError BackendError StoreError UnitError "
        "PhysicsIntegrityError PhysicsWarning".split(),
    ),
)
ELSEWHERE = {"physics": "[Systems](physics.md)"}
WIDTH = 96  # columns that a page shows without scrolling


def public() -> list[str]:
    return [n for n in dir(tp) if not n.startswith("_")]


def functions() -> list[str]:
    """Functions of numbers and arrays, which have one line each."""
    grouped = {n for _, names in GROUPS for n in names} | ELSEWHERE.keys()
    return [n for n in public() if n not in grouped]


def signature(name: str, value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return name
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)  # annotations are kept as text
    text = re.sub(r"tinyphysics(\.\w+)*\.", "", text).replace("typing.", "").replace("'", '"')
    return f"{name}{text}"


def wrapped(line: str) -> str:
    """A signature with a line for each argument where it is too long for the page."""
    if len(line) <= WIDTH:
        return line
    name, _, rest = line.partition("(")
    inside, _, after = rest.rpartition(") ->")
    lines = re.split(r", (?=\*,|\*{0,2}\w+: )", inside)
    return "\n".join([f"{name}(", *(f"    {part}," for part in lines), f") ->{after}"])


def docstring(value: Any) -> str:
    """The docstring with its examples as code, and its list of arguments as a table."""
    text = inspect.getdoc(value) or ""
    text = re.sub(r"(?m)^((?:>>>|\.\.\. ).*(?:\n(?!\n).*)*)", r"```pycon\n\1\n```", text)
    return ARGUMENTS.sub(arguments, text)


ARGUMENTS = re.compile(
    r"(?m)(?:^[a-z_]\w*  +\S.*(?:\n +\S.*)*(?:\n|\Z))+"
)  # name, two spaces or more, what it is


def arguments(found: re.Match[str]) -> str:
    rows = re.findall(r"(?m)^(\w+)  +(\S.*(?:\n +\S.*)*)", found[0])
    lines = [f"| `{name}` | {' '.join(what.split()).replace('|', '&#124;')} |" for name, what in rows]
    return "\n".join(["| argument | what it is |", "|---|---|", *lines, ""])


def first_line(value: Any) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0]


# what users call; the rest of these classes is for the compiler
MEMBERS = {
    "System": "compile rename",
    "PhysicsSystem": "compile rename",
    "Simulation": "evolve stepper explain ir certificate conserved find_invariants verify_symmetries suggest_dt "
    "suggest_split minimise monitor rewind save estimate cite",
    "Trajectory": "energy drift drift_rate times events words hash stopped losses plot animate to_xarray",
    "Stepper": "step t steps dt frame stopped stops",
    "Report": "to_dict only portable",
    "random": "uniform normal integers",
}


def members(value: type) -> Iterator[tuple[str, Any]]:
    for name in MEMBERS.get(value.__name__, "").split():
        yield name, inspect.getattr_static(value, name)


def entry(name: str, value: Any) -> Iterator[str]:
    yield f"### {name}"
    if inspect.ismodule(value):
        yield docstring(value)
        for n in MEMBERS[name].split():
            f = getattr(value, n)
            yield f"```python\n{wrapped(f'tp.{name}.{signature(n, f)}')}\n```"
            yield docstring(f)
        return
    if not inspect.isclass(value):  # users make no objects of these classes themselves
        yield f"```python\n{wrapped(f'tp.{signature(name, value)}')}\n```"
    yield docstring(value)
    if inspect.isclass(value) and not issubclass(value, BaseException):
        for n, f in members(value):
            yield f"#### .{n}"
            if not isinstance(f, property):
                shown = signature(n, f).replace("(self, ", "(").replace("(self)", "()")
                yield f"```python\n{wrapped(f'{instance(value)}.{shown}')}\n```"
            yield docstring(f)


def instance(value: type) -> str:
    """The name that the pages use for an object of a class."""
    return {"Simulation": "sim", "Stepper": "s", "Trajectory": "out", "Report": "report"}.get(
        value.__name__, "system"
    )


def page() -> str:
    out: list[str] = []
    for heading, names in GROUPS:
        out.append(f"## {heading}")
        for name in names:
            out += entry(name, getattr(tp, name))
    out += [
        "## Functions",
        "Inside an energy they take symbols and arrays; NumPy's functions of the same name work too.",
    ]
    rows = [f"| `tp.{signature(n, getattr(tp, n))}` | {first_line(getattr(tp, n))} |" for n in functions()]
    out.append("\n".join(["| function | what it is |", "|---|---|", *rows]))
    out += [f"`tp.{name}`: see {where}." for name, where in ELSEWHERE.items()]
    return "\n\n".join(out)
