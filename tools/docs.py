"""What do the docs print, and is it true?  Tables come from the code; blocks and commands are run.

    python tools/docs.py print errors         one printed table, as Markdown
    python tools/docs.py check                run the python blocks of every page, compare what they print
    python tools/docs.py update               the same, and write what they print into the pages
    python tools/docs.py commands README.md   run the shell commands of a page

On a page, `<!-- printed: errors -->` stands for a table. A ```python block runs, all blocks of a page in
one namespace; an ```output block below it is what it prints. A file name in backticks on the line above a
block is the file that the block pretends to be. A block that cannot run says so: ```python no-run: why.
A page that only `make test-all` runs says so, with the libraries that it needs: <!-- runs in test-all: torch, jax -->.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import io
import linecache
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from tinyphysics.context import FLAGS  # noqa: E402
from tinyphysics.errors import ERRORS  # noqa: E402
from tinyphysics.ir.ops import MINIMAL, Ops  # noqa: E402
from tinyphysics.options import CALLS, SAME_AS  # noqa: E402
from tinyphysics.planner.choice.routes import FORMS, REQUESTS, ROUTES  # noqa: E402
from tinyphysics.planner.conflicts import CONFLICTS, GOALS, PLAIN  # noqa: E402
from tinyphysics.planner.methods.bibliography import BIBLIOGRAPHY  # noqa: E402
from tinyphysics.planner.methods.catalog import ALIASES, BY_ORDER, CHOICES, METHODS  # noqa: E402
from tinyphysics.planner.methods.method import Method  # noqa: E402
from tinyphysics.planner.methods.needs import NEEDS  # noqa: E402
from tinyphysics.planner.methods.stability import of_splitting  # noqa: E402
from tinyphysics.rules.digits.double_double_functions import BOUNDS as WIDE_BOUNDS  # noqa: E402
from tinyphysics.rules.functions.fast import BOUNDS as FAST_BOUNDS  # noqa: E402
from tinyphysics.rules.functions.transcendental import BOUNDS  # noqa: E402
from tinyphysics.synth.coefficients.quality import EFFECTIVE, WORK  # noqa: E402
from tinyphysics.synth.coefficients.schemes import SCHEMES, drifts_and_kicks  # noqa: E402
from tinyphysics.target import TARGETS, WEBGPU  # noqa: E402
from tinyphysics.tpir.program.isa import CLAIMS, FRAMES, ISA, JUMPS, POISSON_TYPES  # noqa: E402
from tinyphysics.version import __version__  # noqa: E402, F401

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

# --- tables that are printed from the code --------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines)


def code(text: str) -> str:
    return f"`{text}`"


def instructions() -> str:
    writes = {"&": "memory"}
    return table(
        ("instruction", "operands", "writes", "meaning"),
        [
            (code(op), code(row.operands), ", ".join(writes.get(k, k) for k in row.writes), row.meaning)
            for op, row in ISA.items()
        ],
    )


def words() -> str:
    """The words that a TP-IR program may use besides its instructions."""
    return table(
        ("word", "values"),
        [
            ("type of `POISSON_J`", ", ".join(map(code, POISSON_TYPES))),
            ("way of `JACOBI`", ", ".join(map(code, FRAMES))),
            ("way of `PROPAGATE`", ", ".join(map(code, JUMPS))),
            ("`claim`", ", ".join(map(code, CLAIMS))),
        ],
    )


def operations() -> str:
    minimal = [op.value for op in Ops if op in MINIMAL]
    others = [op.value for op in Ops if op not in MINIMAL and op is not Ops.RSQRT_ESTIMATE]
    return "\n\n".join(
        [
            f"{len(Ops)} operations. The minimal set, which a machine has to know ({len(minimal)}): "
            + ", ".join(map(code, minimal))
            + ".",
            "Rewritten to it before they reach a machine: " + ", ".join(map(code, others)) + ".",
            f'{code(Ops.RSQRT_ESTIMATE.value)} is an instruction of some machines, in kernels of `math="fast"` alone.',
        ]
    )


def errors() -> str:
    out = []
    for e in ERRORS:
        others = [b.__name__ for b in e.__bases__ if b.__name__ not in ("TinyPhysicsError", "Exception")]
        also = f" It is also a Python `{others[0]}`." if others else ""
        causes = "".join(f"\n- {c}" for c in e.causes)
        out.append(
            f"## {e.__name__}\n\n{summary(e.__doc__)}{also}"
            + (f"\n\nUsual causes:\n{causes}" if causes else "")
        )
    return "\n\n".join(out)


def summary(doc: str | None) -> str:
    return (doc or "").partition("\n\n")[0].replace("\n", " ").strip()


def methods() -> str:
    def name(m: Method) -> str:
        return " = ".join(
            map(code, [m.name, *(alias for alias, target in ALIASES.items() if target == m.name)])
        )

    rows = [
        (
            name(m),
            str(m.order),
            str(m.stages),
            ", ".join(m.requires) or "nothing",
            ", ".join(m.keeps) or "none: by name only",
            "" if m.limit is None else f"{m.limit:.3f}",
            m.summary,
            m.reference,
        )
        for m in METHODS
    ]
    head = (
        "name",
        "order",
        "force evaluations a step",
        "needs",
        "claims",
        "stable to ω dt",
        "a step is",
        "source",
    )
    orders = ", ".join(f"{order} is {code(name)}" for order, name in BY_ORDER.items())
    return "\n\n".join(
        [
            table(head, rows),
            f"Names that let the planner choose: {', '.join(map(code, CHOICES))}. By order: {orders}.",
            "What they need:",
            table(("need", "means"), [(name, need.means) for name, need in NEEDS.items()]),
        ]
    )


def routes() -> str:
    """What is found, and what is done then."""
    rows = [(r.name, r.finding, r.action, r.effect) for r in (*ROUTES, *REQUESTS, *FORMS)]
    return table(("route", "finding", "action", "effect"), rows)


def schemes() -> str:
    """Every composition that is known, with what it costs; those of other parts than drifts and kicks after them."""
    rows = []
    for s in SCHEMES:
        split = s.kind in ("composition", "splitting", "nystrom") and s.order > 2
        work = [f"{x:.0f}" for x in WORK[s.name]] if s.name in WORK else ["", "", ""]
        norms = [f"{x:.2f}" if math.isfinite(x) else "" for x in EFFECTIVE.get(s.name, (math.inf, math.inf))]
        limit = f"{of_splitting(drifts_and_kicks(s.name)):.2f}" if split else ""
        orders = str(s.order) if len(s.orders) == 1 else str(s.orders)
        rows.append(
            (
                code(s.name),
                s.kind,
                orders,
                str(s.kicks),
                *work,
                *norms,
                limit,
                BIBLIOGRAPHY[s.source].short if s.source in BIBLIOGRAPHY else s.source,
            )
        )
    head = (
        "name",
        "kind",
        "order",
        "kicks",
        "Hénon–Heiles",
        "Kepler",
        "pendulum",
        "error, T quadratic",
        "error, any T",
        "stable to ω dt =",
        "source",
    )
    return table(head, rows)


def backends() -> str:
    def contract(b: str, exact: bool) -> str:
        if b == WEBGPU.backend:
            return "where the adapter passes a probe"
        return "yes" if exact else "compared with a tolerance"

    rows = [(code(b), t.device, contract(b, t.bit_exact)) for b, t in TARGETS.items()]
    return table(("backend", "runs on", "in the contract"), rows)


def bounds() -> str:
    return table(
        ("function", "float64", "float32"),
        [(code(name), f"{a:g} ulp", f"{b:g} ulp") for name, (a, b) in BOUNDS.items()],
    )


def fast() -> str:
    return table(
        ("function", "float64", "float32"),
        [(code(name), f"{a:g} ulp", f"{b:g} ulp") for name, (a, b) in FAST_BOUNDS.items()],
    )


def wide() -> str:
    return table(("function", "error"), [(code(name), f"{a:g}") for name, a in WIDE_BOUNDS.items()])


def flags() -> str:
    return table(
        ("flag", "environment variable", "default", "meaning"),
        [
            (code(f.name), code(f"TINYPHYSICS_{f.name}"), code(f"{f.default}"), f.sentence)
            for f in FLAGS.values()
        ],
    )


def options(call: str) -> str:
    """The options of a call, with the words that other libraries have for them."""
    words: dict[str, list[str]] = {}
    for word, line in SAME_AS.items():
        words.setdefault(line.partition("=")[0], []).append(code(word))
    rows = [
        (code(name), code(repr(o.default).replace("'", '"')), o.sentence, ", ".join(words.get(name, ())))
        for name, o in CALLS[call].items()
    ]
    return table(("option", "default", "meaning", "called elsewhere"), rows)


class Anything:
    """Stands for a value that is not known yet, in the words of a conflict."""

    def __getitem__(self, key: str) -> Anything:
        return self

    __getattr__ = __getitem__

    def __format__(self, how: str) -> str:
        return "…"

    def __repr__(self) -> str:
        return "…"


def thing(noun: str) -> str:
    return code(f"{noun}=") if noun in PLAIN else noun.replace(GOALS, "`energy_drift=`, `error=`")


def conflicts() -> str:
    """What cannot be combined: for each option at a glance, then what is said."""
    near: dict[str, dict[str, list[str]]] = {name: {} for name in PLAIN}
    for n, row in enumerate(CONFLICTS, 1):
        pair = [("energy_drift", "error") if x == GOALS else (x,) for x in (row.one, row.other)]
        for ones, others in (pair, pair[::-1]):
            for one in ones:
                for other in others if one in near else ():
                    near[one].setdefault(other, []).append(f"[{n}](#conflict-{n})")
    glance = [
        (thing(one), ", ".join(f"{thing(other)} {' '.join(links)}" for other, links in others.items()))
        for one, others in near.items()
        if others
    ]
    said = []
    for n, row in enumerate(CONFLICTS, 1):
        what, fix = row.words(Anything())
        anchor = f'<a id="conflict-{n}"></a>{n}'
        said.append((anchor, thing(row.one), thing(row.other), what, fix, code(row.error.__name__)))
    return "\n\n".join(
        [
            table(("option", "cannot be combined, or not always, with"), glance),
            "What is said, where `…` stands for a name or a value:",
            table(("", "this", "with", "message", "what to write instead", "error"), said),
        ]
    )


@dataclass(frozen=True)
class Shown:
    """A test that shows a requirement."""

    requirement: str
    file: str
    test: str


def requirement_ids(nodes: Iterable[ast.AST]) -> list[str]:
    """The strings inside `pytest.mark.requirement(...)`, wherever it stands below the nodes."""
    out = []
    for node in (n for top in nodes for n in ast.walk(top)):
        if (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", getattr(node.func, "id", "")) == "requirement"
        ):
            out += [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return out


def shown(folder: Path = ROOT / "test") -> list[Shown]:
    """Read from the tests without importing them: marks of functions, of their class, of their module."""
    out = []
    for path in sorted(folder.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        module = requirement_ids(
            n
            for n in tree.body
            if isinstance(n, ast.Assign) and any(getattr(t, "id", "") == "pytestmark" for t in n.targets)
        )
        for owner, f in functions(tree):
            if f.name.startswith("test"):
                ids = [*module, *requirement_ids(owner), *requirement_ids(f.decorator_list)]
                out += [Shown(i, path.relative_to(ROOT).as_posix(), f.name) for i in dict.fromkeys(ids)]
    return out


def functions(tree: ast.Module) -> Iterator[tuple[list[ast.expr], ast.FunctionDef]]:
    """(decorators of the class, function) for every function of a module."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield [], node
        elif isinstance(node, ast.ClassDef):
            yield from ((node.decorator_list, f) for f in node.body if isinstance(f, ast.FunctionDef))


def requirements() -> str:
    by_id: dict[str, list[Shown]] = {}
    for s in shown():
        by_id.setdefault(s.requirement, []).append(s)
    if not by_id:
        return "No test carries a requirement mark yet."
    rows = []
    for i in sorted(by_id):
        claims: dict[str, list[str]] = {}
        for s in by_id[i]:
            claims.setdefault(s.file, []).append(s.test.removeprefix("test_").replace("_", " "))
        rows.append((i, "<br>".join(f"{code(file)}: {'; '.join(tests)}" for file, tests in claims.items())))
    total = sum(map(len, by_id.values()))
    return f"{len(by_id)} requirements, {total} marks.\n\n" + table(("id", "tests that show it"), rows)


def release() -> str:
    """The checklist of tools/release.py."""
    spec = importlib.util.spec_from_file_location("tinyphysics_release", ROOT / "tools" / "release.py")
    assert spec is not None and spec.loader is not None
    sys.modules[spec.name] = module = importlib.util.module_from_spec(
        spec
    )  # its dataclasses look for it there
    spec.loader.exec_module(module)
    return table(("check", "what has to be true"), [(c.name, c.sentence) for c in module.CHECKS])


def reference() -> str:
    sys.path.insert(0, str(ROOT / "tools"))
    from reference import page

    return str(page())


PRINTED: dict[str, Callable[[], str]] = {
    "instructions": instructions,
    "words": words,
    "operations": operations,
    "errors": errors,
    "methods": methods,
    "backends": backends,
    "flags": flags,
    "compile_options": lambda: options("compile"),
    "evolve_options": lambda: options("evolve"),
    "conflicts": conflicts,
    "requirements": requirements,
    "bounds": bounds,
    "routes": routes,
    "schemes": schemes,
    "wide": wide,
    "fast": fast,
    "release": release,
    "reference": reference,
}
SLOT = re.compile(r"^<!-- printed: (\w+) -->$", re.MULTILINE)


def fill(markdown: str) -> str:
    """The page with every slot filled, and the marks that only `check` needs taken off."""
    for name in SLOT.findall(markdown):
        if name not in PRINTED:
            raise KeyError(f"<!-- printed: {name} -->: there is {', '.join(PRINTED)}")
    markdown = SLOT.sub(lambda m: PRINTED[m[1]](), markdown)
    return re.sub(r"^```python no-run.*$", "```python", markdown, flags=re.MULTILINE)


# --- blocks that run ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int  # of its first line of code, from 1
    file: str | None = None  # the file it pretends to be
    skip: str | None = None  # why it does not run; "" if it does not say


def blocks(page: str) -> list[Block]:
    out: list[Block] = []
    lines = page.splitlines()
    i, before = 0, ""
    while i < len(lines):
        fence = re.match(r"```(\w*)(.*)$", lines[i])
        if fence is None:
            before = lines[i] or before
            i += 1
            continue
        end = next((k for k in range(i + 1, len(lines)) if lines[k].rstrip() == "```"), len(lines))
        skip = None
        if fence[2].strip().startswith("no-run"):
            skip = fence[2].strip().removeprefix("no-run").lstrip(": ")
        named = re.search(r"`([\w/]+\.py)`[^`]*$", before)
        text = "".join(f"{line}\n" for line in lines[i + 1 : end])
        out.append(Block(fence[1], text, i + 2, named[1] if named else None, skip))
        i, before = end + 1, ""
    return out


def run_block(b: Block, page: str, namespace: dict[str, object]) -> str:
    """What the block prints. Lines in messages and reports are those of its file, or of the page."""
    source, name = (b.text, b.file) if b.file else ("\n" * (b.line - 1) + b.text, page)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source, name, "exec"), namespace)
    return out.getvalue()


def portable(text: str) -> str:
    """The text without what depends on the machine: the `runs on` of a short report, the rows of a `machine` section."""
    out, machine = [], False
    for line in re.sub(r"\n  runs on (?:.*)(?:\n   .*)*", "\n  runs on", text.rstrip()).splitlines():
        machine = line == "machine" or machine and line.startswith("  ")
        if machine and line != "machine":
            name, verdict = line.split()[:2]
            line = f"  {name}  {verdict if name in ('backend', 'bits') else ''}"
        out.append(line.rstrip())
    return "\n".join(out)


@dataclass(frozen=True)
class Ran:
    """An output block of a page, and what the blocks before it really print."""

    block: Block
    printed: str

    @property
    def true(self) -> bool:
        return portable(self.block.text) == portable(self.printed)


LATER = re.compile(r"<!-- runs in test-all:? ?([\w, ]*) -->")


def runs_later(path: Path) -> bool:
    """Does only `make test-all` run the page?"""
    return LATER.search(path.read_text(encoding="utf-8")) is not None


def missing(path: Path) -> list[str]:
    """Libraries that the page needs and that are not installed."""
    said = LATER.search(path.read_text(encoding="utf-8"))
    names = [] if said is None else [name.strip() for name in said[1].split(",") if name.strip()]
    return [name for name in names if importlib.util.find_spec(name) is None]


def run_page(path: Path) -> list[Ran]:
    """Runs the page from top to bottom; whatever a block prints has to be shown below it."""
    namespace: dict[str, object] = {"__name__": "__docs__"}
    out, printed, line = [], "", 0
    for b in [*blocks(path.read_text(encoding="utf-8")), Block("python", "", 0)]:
        if b.language == "output":
            out.append(Ran(b, printed))
            printed = ""
        elif b.language == "python" and b.skip is None:
            if printed.strip():
                raise AssertionError(
                    f"the block at {path.name}:{line} prints, and no output block shows it:\n{printed}"
                )
            try:
                printed, line = run_block(b, path.name, namespace), b.line
            except Exception as error:
                error.add_note(f"in the block at {path.name}:{b.line}")
                raise
    return out


def update_page(path: Path) -> int:
    """Writes what was printed into the page; the number of blocks that changed."""
    lines = path.read_text(encoding="utf-8").splitlines()
    wrong = [r for r in run_page(path) if r.block.text.rstrip() != r.printed.rstrip()]
    for r in reversed(wrong):
        start = r.block.line - 1
        lines[start : start + r.block.text.count("\n")] = r.printed.rstrip().splitlines()
    if wrong:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(wrong)


# --- commands that run ----------------------------------------------------------------------------


def commands(path: Path) -> list[str]:
    """The lines of the page's sh blocks, without comments."""
    text = "\n".join(
        b.text for b in blocks(path.read_text(encoding="utf-8")) if b.language == "sh" and b.skip is None
    )
    lines = (re.sub(r"\s+#.*", "", line).strip() for line in text.replace("\\\n", " ").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def write_files(path: Path, folder: Path) -> list[Path]:
    """The page's python blocks that are files, written into a folder."""
    out = []
    for b in blocks(path.read_text(encoding="utf-8")):
        if b.language == "python" and b.file and not (folder / b.file).exists():
            (folder / b.file).write_text(b.text, encoding="utf-8")
            out.append(folder / b.file)
    return out


ACTIVATE = ". .venv/bin/activate"


def run_commands(path: Path, skip: Sequence[str]) -> int:
    """make and pip run in the repository, everything else beside the page's files. 0 if all went well.

    An environment is activated as the page says: until that line, `python` is the one of the system.
    """
    with tempfile.TemporaryDirectory() as folder:
        write_files(path, Path(folder))
        path_variable = os.environ.get("PATH", "")
        for command in commands(path):
            if command in skip:
                continue
            print(f"$ {command}", flush=True)
            if command == ACTIVATE:
                scripts = (ROOT / os.environ.get("VENV", ".venv") / "bin").resolve()
                if not (scripts / "activate").is_file():
                    print(f"{scripts / 'activate'} is not there")
                    return 1
                path_variable = os.pathsep.join([str(scripts), path_variable])
                continue
            here = ROOT if command.split()[0] in ("make", "pip") else folder
            done = subprocess.run(command, shell=True, cwd=here, env=os.environ | {"PATH": path_variable})
            if done.returncode:
                return done.returncode
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("print").add_argument("name", choices=sorted(PRINTED))
    for verb in ("check", "update"):
        verbs.add_parser(verb).add_argument("pages", nargs="*", type=Path, default=PAGES)
    run = verbs.add_parser("commands")
    run.add_argument("page", type=Path)
    run.add_argument("--skip", action="append", default=[], help="a command that was run already")
    given = parser.parse_args(arguments)
    if given.verb == "print":
        print(PRINTED[given.name]())
        return 0
    if given.verb == "commands":
        return run_commands(given.page, given.skip)
    bad = 0
    for page in given.pages:
        if lacks := missing(page):
            print(f"{page.name} is left out: {', '.join(lacks)} is not installed")
            continue
        if given.verb == "update":
            print(f"{page.name}: {update_page(page)} blocks rewritten")
            continue
        for r in run_page(page):
            if not r.true:
                bad += 1
                print(f"{page.name}:{r.block.line} shows\n{r.block.text}\nand prints\n{r.printed}")
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
