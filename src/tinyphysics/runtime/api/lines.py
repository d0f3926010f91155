"""Where does each line of a listing come from?  `sim.lines(level)`: lines of the user, lines one level up, and rules.

The stages that made a program are run once more while origins are noted (ir/origins.py), which changes no instruction.
Below the kernel, lines are marked while they are written (emit/text/marks.py), and machine code has the line records that
LLVM carries through it (emit/text/records.py).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from tinyphysics.emit.text import marks, records
from tinyphysics.errors import InputError, PlanError
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.origins import Origins, originating
from tinyphysics.ir.text import dumped
from tinyphysics.ir.uop import UOp
from tinyphysics.line import Line
from tinyphysics.pipeline import remade, stepped
from tinyphysics.planner.cost.target import in_loops, in_sandbox
from tinyphysics.runtime.api.reports import explain
from tinyphysics.runtime.engines.listing import listing, recorded_listing, seed_at
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.system import SizedFamily
from tinyphysics.tpir.kernels.kernel import Section, made_anew
from tinyphysics.tpir.kernels.rows import in_rows
from tinyphysics.tpir.program.isa import Instruction, Program, Register
from tinyphysics.util import Site, did_you_mean, one_of

ABOVE = {
    "source": "", "uop": "source", "facts": "source", "plan": "facts", "tpir": "uop", "kernel": "tpir",
    "c": "kernel", "cuda": "kernel", "opencl": "kernel", "llvm": "kernel",
    "asm": "llvm", "ptx": "kernel", "wasm": "kernel", "wgsl": "kernel",
}  # fmt: skip
LEVELS = tuple(ABOVE)
TEXTS = ("c", "cuda", "opencl", "llvm", "wgsl")  # that are marked while they are written
MACHINE = ("asm", "ptx", "wasm")  # that LLVM makes of text with line records
LOOP = "a loop over members or steps, and what a call needs"
NOTHING: frozenset[int] = frozenset()
APART = (Ops.SLICE, Ops.RESHAPE, Ops.ELEMENT, Ops.PERMUTE)  # of an array, and no arithmetic
FUNCTION = re.compile(r"(?:void|__kernel void|fn) (?:section_)?(\w+)\(")
STATEMENT = re.compile(r".*[;{]")
HELPER = "a function that the machine does not have, in its own terms"
HARNESS = "what stands around a kernel: types, input, output, the hash"


class Tower:
    """The levels of one simulation, each made when it is first asked for."""

    def __init__(self, sim: Setup) -> None:
        if sim._compiled is None and isinstance(sim.source, SizedFamily):
            raise PlanError("sim.lines() needs to know its sizes", fix="Pass sizes= to tp.compile.")
        self.sim = sim
        self.built = sim.built if sim.compiled.known.way == "loop" else stepped(sim.built)
        self.known: dict[str, tuple[Line, ...]] = {}
        self.made: dict[tuple[Any, bool], tuple[Origins, list[Section], list[Section]]] = {}

    def level(self, name: str) -> tuple[Line, ...]:
        if name not in self.known:
            make: dict[str, Callable[[], Iterable[Line]]] = {
                "source": self.source, "uop": self.graph, "facts": self.facts, "plan": self.plan,
                "tpir": self.program, "kernel": self.kernel,
            }  # fmt: skip
            self.known[name] = tuple(make[name]() if name in make else self.text(name))
        return self.known[name]

    def of_above(self, name: str, above: Iterable[int]) -> dict[str, Any]:
        """The fields of a line that comes from these lines of the level above."""
        numbers, lines = tuple(sorted(set(above))), self.level(ABOVE[name])
        return {"above": numbers, "user": in_order(s for k in numbers for s in lines[k].user)}

    # --- what the user wrote -------------------------------------------------------------------------
    def source(self) -> list[Line]:
        system, places = self.built.system, dict[tuple[str, int], None]()
        for f in functions_of(system.function):
            try:
                text, first = inspect.getsourcelines(f)
            except (OSError, TypeError):
                continue
            file = inspect.getsourcefile(f) or f.__code__.co_filename
            places |= {(file, first + k): None for k in range(len(text))}
        sites = [*([system.site] if system.site else []), *system.sites.values()]
        places |= {(s.file, s.line): None for s in sites}
        found = sorted(places, key=lambda place: (place[0] != (sites[0].file if sites else ""), *place))
        return [Line(written(s := Site(*place)), (s,), (), "written by you") for place in found]

    def place(self, site: Site | None) -> tuple[int, ...]:
        """The number of a line of the user's in the source."""
        return tuple(
            k for k, line in enumerate(self.level("source")) if site is not None and line.user[0] == site
        )

    @property
    def defined(self) -> tuple[int, ...]:
        """Where states and parameters stand."""
        return self.place(self.built.system.site) or tuple(range(min(1, len(self.level("source")))))

    def graph(self) -> list[Line]:
        system = self.built.system
        out = []
        for text, u in dumped(system.equations, system.sites):
            above = self.place(system.sites.get(u)) if u is not None else ()
            if u is not None and not above and u.op is Ops.VAR:
                above = self.defined
            out.append(
                Line(
                    text,
                    rule="tracing" if u is not None else "what is returned",
                    above=above,
                    is_code=u is not None,
                )
            )
        nodes = [u for _, u in dumped(system.equations)]
        used: dict[UOp, set[int]] = {}
        for u, line in zip(reversed(nodes), reversed(out)):  # numbers have the lines that use them
            for s in () if u is None else u.src:
                used.setdefault(s, set()).update(line.above or used.get(u, ()) if u is not None else ())
        return [
            replace(line, **self.of_above("uop", line.above or (used.get(u, ()) if u is not None else ())))
            for u, line in zip(nodes, out)
        ]

    # --- what was found and decided --------------------------------------------------------------------
    def facts(self) -> list[Line]:
        body = {k for line in self.level("uop") for k in line.above}
        out = []
        for f in self.built.facts:
            verdict = "yes" if f else "no"
            above = self.place(f.site) or tuple(body)
            rule = f"shown at {f.site}" if f.site else "shown of the whole of it"
            out.append(Line(f"{f.name}  {verdict}  {f.because}", rule=rule, **self.of_above("facts", above)))
        return out

    def plan(self) -> list[Line]:
        report, facts = explain(self.sim, "full").only("plan"), list(self.built.facts)
        out = []
        for row in (r for s in report.sections for r in s.rows):
            text = f"{row.name}  {row.verdict}" + (f"  {row.because}" if row.because else "")
            named = [k for k, f in enumerate(facts) if f.name in f"{row.verdict} {row.because}"]
            if row.name == "method":
                named += [k for k, f in enumerate(facts) if f and f.name in DECIDING]
            rule = "not chosen" if row.name == "not chosen" else "chosen by the planner"
            out.append(Line(text, rule=rule, **self.of_above("plan", named)))
        return out

    # --- programs ---------------------------------------------------------------------------------------
    def program(self) -> list[Line]:
        program = self.built.program
        items, number = self.instructions(program), 0
        numbered = {n: i for n, _, i in program.numbered()}
        states = {s.name: k for k, s in enumerate(program.states)}
        variables = self.variables()
        out = []
        for text in str(program).splitlines():
            if text.startswith("  "):
                number += 1
                i = numbered[number]
                own = self.of_above("tpir", items[number])
                out.append(Line(text, rule=f"{i.op}: {i.row.meaning}", is_code=True, **own))
                continue
            word, _, rest = text.partition(" ")
            name = rest.split(" ")[1] if word == "state" else rest.split(" ")[0].lstrip("$")
            above = variables.get(name, ()) if word in ("state", "param") else ()
            rule = (
                "declared" if word in ("state", "param") else "section" if text.endswith(":") else "heading"
            )
            if word == "state" and not above and states.get(name) is not None:
                rule = "a state that the method or the precision adds"
            out.append(Line(text, rule=rule, **self.of_above("tpir", above)))
        return out

    def variables(self) -> dict[str, tuple[int, ...]]:
        """The lines of the graph with variables, by name, and those where they are taken apart."""
        out: dict[str, tuple[int, ...]] = {}
        for k, (_, u) in enumerate(dumped(self.built.system.equations)):
            x = u
            while x is not None and x.op in APART:
                x = x.src[0]
            if x is not None and x.op is Ops.VAR:
                out[str(x.arg)] = (*out.get(str(x.arg), ()), k)
        return out

    @property
    def whole(self) -> frozenset[int]:
        """The lines of the graph where the energy is put together of its terms."""
        system = self.built.system
        places = {u: k for k, (_, u) in enumerate(dumped(system.equations)) if u is not None}
        out: set[int] = set()
        waiting = [] if system.energy is None else [system.energy]
        while waiting:
            u = waiting.pop()
            if u in places:
                out.add(places[u])
            waiting += [
                s for s in u.src if u.op in (Ops.ADD, Ops.SUB) and system.sites.get(s) == system.sites.get(u)
            ]
        return frozenset(out)

    def instructions(self, program: Program) -> dict[int, frozenset[int]]:
        """The lines of the graph that each instruction comes from, by its number."""
        b, noted = self.built, dict[int, frozenset[int]]()
        graph = dumped(b.system.equations)
        known = {u: frozenset([k]) for k, (_, u) in enumerate(graph) if u is not None}
        made = remade(b, Origins({u: k for u, k in known.items() if u.src}))
        if made.hash == program.hash:
            for n, _, i in made.numbered():
                if i.note.startswith("@"):
                    noted[n] = frozenset(map(int, i.note[1:].split(",")))
        variables = self.variables()
        moved = {
            j: frozenset(k for k, (_, u) in enumerate(graph) if u is not None and u.src and reads(u, s.name))
            for j, s in enumerate(program.states)
        }
        own = {j: frozenset(variables.get(s.name, ())) for j, s in enumerate(program.states)}
        whole = self.whole
        out: dict[int, frozenset[int]] = {}
        last: dict[Any, frozenset[int]] = {}
        for n, _, i in program.numbered():
            found = noted.get(n, NOTHING)
            if i.op in ("LOAD", "STORE"):
                s = i.dst if i.op == "LOAD" else i.args[0]
                found = own.get(s.index, NOTHING) if isinstance(s, Register) else NOTHING
            found = found or NOTHING.union(*(self.operand(x, last, own, variables) for x in i.args))
            if i.op == "GRAD_INIT" and isinstance(i.dst, Register) and not (noted.get(n) or self.computed(i)):
                found = moved.get(i.dst.index, NOTHING) or found  # a derivative that is a state itself
            if i.op == "GRAD_INIT" or i.row.kind == "update":  # of the sum of all terms
                found |= whole
            out[n] = found
            last[i.dst] = found
        return self.for_users(program, out)

    @staticmethod
    def for_users(program: Program, found: dict[int, frozenset[int]]) -> dict[int, frozenset[int]]:
        """Weights of a method, which come from no line of the energy, have the lines of what they weigh."""
        out, made = dict(found), dict[Any, int]()
        users: dict[int, list[int]] = {}
        for n, _, i in program.numbered():
            for x in i.args:
                if x in made and isinstance(x, Register) and x.kind != "S":
                    users.setdefault(made[x], []).append(n)
            made[i.dst] = n
        for n in sorted(out, reverse=True):
            out[n] = out[n] or NOTHING.union(*(out[k] for k in users.get(n, ())))
        return out

    @staticmethod
    def computed(i: Instruction) -> bool:
        return isinstance(i.args[0], Register) and i.args[0].kind == "T"

    @staticmethod
    def operand(
        x: Any,
        last: dict[Any, frozenset[int]],
        own: dict[int, frozenset[int]],
        variables: dict[str, tuple[int, ...]],
    ) -> frozenset[int]:
        if isinstance(x, Register) and x.kind == "S":
            return own.get(x.index, NOTHING)
        if isinstance(x, Register):
            return last.get(x, NOTHING)
        return frozenset(variables.get(str(x).lstrip("$"), ())) if str(x).startswith("$") else NOTHING

    # --- kernels ----------------------------------------------------------------------------------------
    def kernel(self) -> list[Line]:
        in_sandbox(self.built.program, "wasm")  # refuses what is too long to be written out
        out = [Line(f"kernel {self.built.program.name}", rule="heading")]
        for f in self.sections(False, "kernel"):
            origins = self.origins_in(f, "kernel")
            for k, (text, u) in enumerate(f.listed):
                if u is None:
                    above = self.heading(f.name) if not k else ()
                    out.append(Line(text, rule="section" if not k else "", **self.of_above("kernel", above)))
                    continue
                rule = (
                    "a number that is read"
                    if u.op in (Ops.VAR, Ops.CONST)
                    else "written out number by number"
                )
                own = self.of_above("kernel", origins.get(u, NOTHING))
                out.append(Line(text, rule=rule, is_code=True, **own))
        return out

    def heading(self, section: str) -> tuple[int, ...]:
        """The line of the listing of TP-IR that a section begins with."""
        title = {"enter": "init", "leave": "final"}.get(section, section) + ":"
        return tuple(k for k, line in enumerate(self.level("tpir")) if line.text == title)

    def text_of(self, level: str) -> str:
        return listing(self.built.program, level, by_number=True)

    def sections(self, careful: bool, level: str) -> list[Section]:
        """The sections of the kernel, made anew with the origins of their nodes noted."""
        kept = self.made
        seed, bytes_too = seed_at(level), level not in ("cuda", "ptx")
        if (seed, bytes_too) not in kept:
            program = self.built.program
            at = {n: k for k, n in self.numbers()}
            items: dict[Any, frozenset[int]] = {}
            for n, _, i in program.numbered():
                items[id(i)] = frozenset([at[n]])
                items[i] = items.get(i, NOTHING) | items[id(i)]
            origins = Origins(items=items)
            with originating(origins):
                made = made_anew(program, seed)
                made = in_rows(made, [s.name for s in program.states], bytes_too)
                used = made.used
                carefully = [made.section(f.name, careful=True) for f in used]
            kept[seed, bytes_too] = origins, used, carefully
        _, used, carefully = kept[seed, bytes_too]
        return carefully if careful else used

    def origins_in(self, f: Section, level: str) -> dict[UOp, frozenset[int]]:
        """Of every node of a section the lines of TP-IR that it comes from."""
        seed, bytes_too = seed_at(level), level not in ("cuda", "ptx")
        origins = self.made[seed, bytes_too][0]
        everything = [*f.everything, *f.invariants.values(), *(u for row in f.weights.values() for u in row)]
        out = origins.everywhere(everything)
        declared, lines = {}, self.level("tpir")
        for k, line in enumerate(lines):
            if line.rule == "declared" or line.text.startswith(("state ", "param ")):
                words = line.text.split()
                declared[words[1] if words[0] == "state" else words[1]] = k
                if words[0] == "state":
                    declared[f"&{words[2]}"] = k
        for u in f.needed:
            if u.op is Ops.VAR:
                name = str(u.arg).partition(".")[0]
                if u in f.invariants:
                    out[u] = out.get(f.invariants[u], NOTHING)
                elif name in declared:
                    out[u] = frozenset([declared[name]])
        for v, u in f.invariants.items():
            out.setdefault(v, out.get(u, NOTHING))
        for u, rows in f.weights.items():
            out[u] = NOTHING.union(*(out.get(x, NOTHING) for x in rows))
        return out

    def numbers(self) -> list[tuple[int, int]]:
        """(the line of TP-IR, the number of its instruction)."""
        code = [k for k, line in enumerate(self.level("tpir")) if line.is_code]
        return [(k, n) for n, k in enumerate(code, 1)]

    # --- text in languages --------------------------------------------------------------------------------
    def text(self, level: str) -> list[Line]:
        self.level("kernel")
        written_nodes: list[UOp] = []
        with marks.marking(written_nodes):
            if level in TEXTS:
                text, machine = self.text_of(level), None
            else:
                text, machine = recorded_listing(self.built.program, level)
        lines = text.splitlines()
        comment = marks.LLVM if level in MACHINE or level == "llvm" else marks.C
        places = self.lines_of_nodes(lines, written_nodes, comment, level)
        if machine is None:
            plain = [marks.marked(line)[0] for line in lines]
            return [self.made_line(level, t, *p) for t, p in zip(plain, places)]
        if level == "asm":
            places = [
                (frozenset([k]) if code else at, code, rule) for k, (at, code, rule) in enumerate(places)
            ]
        out = []
        for t, k in zip(machine.text, machine.lines):
            code = records.is_instruction(t)
            at, _, rule = places[k - 1] if k else (NOTHING, False, "")
            out.append((t, at, code, rule if k else ""))
        result = []
        for (t, at, code, rule), within in zip(out, self.within(level, out)):
            own = (at or within) if code else NOTHING
            result.append(self.made_line(level, t, own, code, (rule or LOOP) if code else ""))
        return result

    def within(
        self, level: str, lines: Sequence[tuple[str, frozenset[int], bool, str]]
    ) -> list[frozenset[int]]:
        """For each line what its function is for: a section, or of a helper the first line that is known."""
        heads, out = [], [NOTHING] * len(lines)
        for k, (text, _, _, _) in enumerate(lines):
            if name := records.begins(text):
                heads.append((k, self.section_line(level, name)))
        for (first, found), (end, _) in zip(heads, [*heads[1:], (len(lines), NOTHING)]):
            found = found or next((at for _, at, code, _ in lines[first:end] if at and code), NOTHING)
            out[first:end] = [found] * (end - first)
        return out

    def section_line(self, level: str, name: str) -> frozenset[int]:
        """The line of the level above that a function begins with."""
        own = (f"{name}:", f"define void @{name}(")
        return frozenset(k for k, line in enumerate(self.level(ABOVE[level])) if line.text.startswith(own))

    def made_line(self, level: str, text: str, above: frozenset[int], code: bool, rule: str) -> Line:
        return Line(text, rule=rule, is_code=code, **self.of_above(level, above))

    def lines_of_nodes(
        self, lines: Sequence[str], nodes: Sequence[UOp], comment: str, level: str
    ) -> list[tuple[frozenset[int], bool, str]]:
        """For each line of a text: lines of the kernel, whether it is code, and what made it."""
        kernel, places = self.level("kernel"), dict[tuple[str, UOp], set[int]]()
        headings, everywhere, k = {}, dict[UOp, set[int]](), 1
        by_program: dict[tuple[str, int], set[int]] = {}
        for f in self.sections(False, "kernel"):
            headings[f.name] = k
            for j, (_, u) in enumerate(f.listed):
                if u is not None:
                    places.setdefault((f.name, u), set()).add(k + j)
                    everywhere.setdefault(u, set()).add(k + j)
                    for at in kernel[k + j].above:
                        by_program.setdefault((f.name, at), set()).add(k + j)
            k += len(f.listed)
        origins: dict[str, dict[UOp, frozenset[int]]] = {}
        for careful in (False, True):
            for f in self.sections(careful, level):
                origins.setdefault(f.name, {}).update(self.origins_in(f, level))
        out: list[tuple[frozenset[int], bool, str]] = [(NOTHING, False, HARNESS)] * len(lines)
        helpers: dict[str, list[int]] = {}
        calls: dict[str, set[int]] = {}
        for name, first, last in functions_in(lines, comment):
            if name not in headings:
                helpers[name] = list(range(first + 1, last))
                continue
            own = []
            for k in range(first, last):
                _, mark = marks.marked(lines[k])
                found: set[int] = set()
                if mark is not None:
                    u = nodes[mark]
                    found = places.get((name, u)) or everywhere.get(u) or set()
                    if not found:  # a form for rare arguments: the lines that come from the same instructions
                        for tp in origins.get(name, {}).get(u, NOTHING):
                            found |= by_program.get((name, tp), set())
                own.append(frozenset(found))
            own = marks.spread([marks.marked(t)[0] for t in lines[first:last]], own, comment)
            out[first] = (frozenset([headings[name]]), False, "section")
            for k, at_kernel in list(zip(range(first, last), own))[1:]:
                code = is_code(lines[k], comment)
                rule = (
                    "an operation of the kernel"
                    if marks.marked(lines[k])[1] is not None
                    else "addresses and copies"
                )
                if code and not at_kernel:
                    out[k] = (frozenset([headings[name]]), True, LOOP)
                else:
                    out[k] = (at_kernel if code else NOTHING, code, rule if code else "")
                for called in re.findall(r"(?:call \S+ @|\b)([a-z][\w.]*)\(", lines[k]) if code else ():
                    calls.setdefault(called, set()).update(at_kernel)
        for _ in helpers:  # functions that functions call
            for name, body in helpers.items():
                for k in body:
                    for called in re.findall(r"(?:call \S+ @|\b)([a-z][\w.]*)\(", lines[k]):
                        if called in helpers:
                            calls.setdefault(called, set()).update(calls.get(name, ()))
        for name, body in helpers.items():
            for k in body:
                code = is_code(lines[k], comment)
                own_at = frozenset(calls.get(name, ())) if code else NOTHING
                out[k] = (own_at, code and bool(own_at), HELPER if code else "")
        return out


DECIDING = ("separable", "T quadratic", "quadratic", "linear", "explicit time", "smooth")


def reads(u: UOp, name: str) -> bool:
    return any(v.arg == name for v in u.leaves)


def functions_of(f: Any) -> list[Any]:
    """Plain functions behind what a system was made of."""
    found = getattr(f, "function", f)
    while hasattr(found, "__wrapped__"):
        found = found.__wrapped__
    return [found] if inspect.isfunction(found) else []


def written(site: Site) -> str:
    import linecache

    return linecache.getline(site.file, site.line).rstrip("\n")


def in_order(sites: Iterable[Site]) -> tuple[Site, ...]:
    return tuple(sorted(dict.fromkeys(sites), key=lambda s: (s.file, s.line)))


def functions_in(lines: Sequence[str], comment: str) -> list[tuple[str, int, int]]:
    """(name, its first line, the line of its end) of the functions of a text."""
    out, name, first = [], "", 0
    for k, line in enumerate(lines):
        if not name and comment == marks.LLVM and line.startswith("define "):
            name, first = line[line.index("@") + 1 : line.index("(")], k
        elif not name and comment == marks.C and (found := FUNCTION.search(line)) and line.endswith("{"):
            name, first = found[1], k
        elif name and line.startswith("}"):
            out.append((name, first, k))
            name = ""
    return out


def is_code(line: str, comment: str) -> bool:
    """Does a line of a function compute or move something?"""
    text = marks.marked(line)[0].strip()
    if comment == marks.LLVM:
        return line.startswith("  ")
    return bool(STATEMENT.match(text)) and not text.startswith(("(void)", "}", "/*", "{"))


def lines_at(sim: Setup, level: str) -> tuple[Line, ...]:
    """What `sim.lines(level)` returns."""
    if level not in ABOVE:
        raise InputError(
            f"there is no level `{level}`", fix=f"{did_you_mean(str(level), LEVELS)}Levels: {one_of(LEVELS)}."
        )
    below = level in (*TEXTS, *MACHINE, "kernel") and level not in ("wasm", "wgsl")
    if below and (sim.compiled.series is not None or in_loops(sim.built.program, 1)):
        raise PlanError(
            f'sim.lines("{level}") knows kernels that are written out number by number, and this one runs in loops',
            fix='See sim.lines("tpir"), or sim.ir("' + level + '") for the text alone.',
        )
    return Tower(sim).level(level)
