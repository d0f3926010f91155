"""What happens in one step, forward and back?  Its residuals and cotangents, operation by operation, with the user's lines.

The step runs on the virtual machine from the loop state that the run has there, which every backend has bit by bit. Then the
adjoint of the step pulls cotangents back. An entry ends where a state is written; equal micro-steps of a fast part are one
entry, a frame, which opens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, PlanError
from tinyphysics.flows.cotangents import BAR, REST
from tinyphysics.given import whole
from tinyphysics.runtime.measure.cotangent_words import joined
from tinyphysics.runtime.measure.course import Course, Pullback
from tinyphysics.runtime.measure.differentiate import prepared
from tinyphysics.runtime.measure.forward_mode import is_adaptive
from tinyphysics.runtime.stages.resolve import Request
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.encoding import owner
from tinyphysics.runtime.state.run import made
from tinyphysics.runtime.state.schedule import time_at
from tinyphysics.tpir.program.isa import Instruction, Program, Register
from tinyphysics.tpir.program.vm import Machine
from tinyphysics.util import did_you_mean, one_of

SHOWN = 4  # numbers of an array that are printed
PLACE = re.compile(r"\S+\.\w+:\d+")  # a line of a user's file, in the note of an instruction


@dataclass(frozen=True, eq=False)
class Operation:
    """An instruction and what it wrote."""

    text: str
    value: Any
    line: str  # of the user's file, where one is known

    def __str__(self) -> str:
        return f"{self.text:<45} {numbers(self.value)}" + (f"  ; {self.line}" if self.line else "")


@dataclass(frozen=True, eq=False)
class Entry:
    """Operations up to the one that writes a state; or a frame, which has entries of its own."""

    title: str
    lines: tuple[str, ...]  # of the terms of the energy that it moves by
    operations: tuple[Operation, ...] = ()
    inside: tuple[Entry, ...] = ()

    def open(self) -> str:
        """The entries of a frame, or the operations of this one."""
        if self.inside:
            return "\n".join(e.open() for e in self.inside)
        return "\n".join([self.head, *(f"  {o}" for o in self.operations)])

    @property
    def head(self) -> str:
        return self.title + (f"  ; {', '.join(self.lines)}" if self.lines else "")

    def __str__(self) -> str:
        return self.head if self.inside else self.open()


@dataclass(frozen=True, eq=False)
class Tape:
    """One step of a run: `print(tape)`, `tape.forward[0].open()`, `tape.cotangents["q"]`."""

    name: str
    step: int
    t: float
    forward: tuple[Entry, ...]
    backward: tuple[Entry, ...]
    seeds: Mapping[str, Any]  # cotangents of the state after the step
    cotangents: Mapping[str, Any]  # of the state before it, and of parameters

    def __str__(self) -> str:
        return "\n".join(
            [
                f"step {self.step} of {self.name}, from t = {self.t:g}",
                "forward: what it computes",
                *indented(self.forward),
                f"backward: cotangents, from {told(self.seeds)}",
                *indented(self.backward),
                f"cotangents before the step: {told(self.cotangents)}",
            ]
        )

    __repr__ = __str__


def indented(entries: Sequence[Entry]) -> Iterator[str]:
    for k, e in enumerate(entries):
        first, *rest = str(e).splitlines()
        yield f"  {k}: {first}"
        yield from (f"  {line}" for line in rest)


def told(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{n} = {numbers(v)}" for n, v in values.items())


def numbers(value: Any) -> str:
    flat = np.ravel(value)
    some = ", ".join(f"{v:.12g}" for v in flat[:SHOWN].tolist())
    more = f", ... {flat.size} numbers" if flat.size > SHOWN else ""
    return f"[{some}{more}]" if np.ndim(value) else some


# --- recording ------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Recorder:
    """A program on the virtual machine, one section of it operation by operation."""

    program: Program

    @cached_property
    def machine(self) -> Machine:
        return Machine(self.program)

    def at(
        self, words: Mapping[str, Any], params: Mapping[str, Any], state: Mapping[str, Any], run: Any, n: int
    ) -> Any:
        """The loop before step n, whose registers are known."""
        loop = self.machine.start(words, params, run.dt, run.t0)
        loop.steps = n
        for name, value in state.items():
            slot = self.machine.slot[Register("S", int(name[1:]))]
            flat = np.ravel(value).tolist()
            loop.slots[slot] = flat if isinstance(loop.slots[slot], list) else flat[0]
        return loop

    def entries(
        self, loop: Any, named: Mapping[str, str], terms: Mapping[str, tuple[str, ...]]
    ) -> list[Entry]:
        """Runs one step."""
        machine, slots = self.machine, loop.slots
        slots[0] = loop.steps
        out: list[Entry] = []
        held: list[Operation] = []
        read: set[str] = set()
        for group, act in zip(grouped(self.program.step), machine.actions["step"]):
            act(slots)
            for i in group:
                read |= {owner(named[str(x)]) for x in i.args if isinstance(x, Register) and x.kind == "S"}
            last = group[-1]
            value = slots[machine.slot[last.dst]]
            text = str(last) if len(group) == 1 else f"{group[0]} ... {last}"
            where = PLACE.search(last.note)
            held.append(
                Operation(
                    text, np.array(value) if isinstance(value, list) else value, where[0] if where else ""
                )
            )
            if isinstance(last.dst, Register) and last.dst.kind == "S":
                lines = dict.fromkeys(line for s in sorted(read) for line in terms.get(s, ()))
                out.append(Entry(f"writes {named[str(last.dst)]}", tuple(lines), tuple(held)))
                held, read = [], set()
        if held:
            out.append(Entry("the rest", (), tuple(held)))
        return out


def grouped(listing: Sequence[Instruction]) -> Iterator[list[Instruction]]:
    """Instructions as the machine runs them: equations from SOLVE to UNTIL are one."""
    open_, held = 0, list[Instruction]()
    for i in listing:
        held.append(i)
        open_ += (i.row.kind == "open") - (i.row.kind == "close")
        if not open_:
            yield held
            held = []


def lines_of(program: Program) -> dict[str, tuple[str, ...]]:
    """For each state the lines of the terms of the energy that read it."""
    reads: dict[str, set[str]] = {}
    lines: dict[str, dict[str, None]] = {}
    out: dict[str, dict[str, None]] = {}
    for i in program.energy:
        own, at = set[str](), dict[str, None]()
        for x in i.sources:
            key = str(x)
            own |= {key} if isinstance(x, Register) and x.kind == "S" else reads.get(key, set())
            at |= lines.get(key, {})
        if found := PLACE.search(i.note):
            at[found[0]] = None
        reads[str(i.dst)], lines[str(i.dst)] = own, at
        if isinstance(i.dst, Register) and i.dst.kind == "E":
            for s in own:
                out.setdefault(s, {}).update(at)
    return {s.name: tuple(sorted(out.get(f"S{k}", ()))) for k, s in enumerate(program.states)}


def framed(entries: list[Entry]) -> list[Entry]:
    """Equal micro-steps that follow each other as one entry: same titles, same instructions but for their registers."""
    marks = [(e.title, tuple(o.text.split()[0] for o in e.operations), e.lines) for e in entries]
    out, k = list[Entry](), 0
    while k < len(entries):
        best = (1, 1)  # (entries of a micro-step, how many)
        for period in range(1, (len(entries) - k) // 2 + 1):
            count = 1
            while marks[k : k + period] == marks[k + count * period : k + (count + 1) * period]:
                count += 1
            if count > 1 and period * count > best[0] * best[1]:
                best = (period, count)
        period, count = best
        if count == 1:
            out.append(entries[k])
        else:
            inside = tuple(entries[k : k + period * count])
            lines = tuple(dict.fromkeys(line for e in inside for line in e.lines))
            what = f"frame of {count} micro-steps, {period} entries each: .open() shows them"
            out.append(Entry(what, lines, (), inside))
        k += period * count
    return out


def tape(setup: Setup, step: Any, cotangents: Any, request: Request) -> Tape:
    n = whole("step", step, 0)
    if is_adaptive(setup, request):
        raise PlanError(
            f"`{setup.compiled.known.method}` chooses its own steps, and a tape is that of a step of a length that is known",
            fix='Compile it with dt=..., method="leapfrog" or method="rk4".',
        )
    request = Request(**{**vars(request), "steps": n + 1})
    course, names, _ = prepared(setup, request, None, "tape")
    if course.members > 1 or course.run.given.is_ensemble:
        raise PlanError("a tape is that of one run", fix="Pass the state of one member.")
    if course.run.jump is not None:
        raise PlanError(
            f"the loop of `{setup.system.name}` is deleted: it has no steps",
            fix='Compile it with propagator="loop".',
        )
    m = course.begin()
    course.advance(m, n)
    state = course.kept(m)
    course.advance(m, 1)
    course.check(m, n + 1)
    after = course.kept(m)
    words = {name: np.array(v) for name, v in course.engine.synchronised(m).items()}
    return recorded(course, n, state, after, words, seeds_of(setup, cotangents), names)


def seeds_of(setup: Setup, cotangents: Any) -> dict[str, Any]:
    """Of the state after the step: ones, if nothing is said."""
    shapes = {s.name: s.var.shape for s in setup.system.states}
    if cotangents is None:
        return {n: np.ones(shape) for n, shape in shapes.items()}
    if not isinstance(cotangents, Mapping):
        raise InputError(
            "cotangents are a dict of states", fix='Pass cotangents={"q": ...}, of the shape of q.'
        )
    out = {n: np.zeros(shape) for n, shape in shapes.items()}
    for name, value in cotangents.items():
        if name not in shapes:
            raise InputError(
                f"cotangents have `{name}`, which is no state",
                fix=f"{did_you_mean(str(name), shapes)}They may have {one_of(list(shapes))}.",
            )
        a = np.asarray(value, float)
        if a.shape != shapes[name]:
            raise InputError(
                f"the cotangent of `{name}` has shape {a.shape}",
                fix=f"It has the shape of `{name}`: {shapes[name]}.",
            )
        out[name] = a
    return out


def recorded(
    course: Course,
    n: int,
    state: Mapping[str, Any],
    after: Mapping[str, Any],
    words: Mapping[str, Any],
    seeds: Mapping[str, Any],
    names: Sequence[str],
) -> Tape:
    setup, run = course.setup, course.run
    program = made(run.program)
    first = {name: np.asarray(v)[0] for name, v in course.first().items()}
    params = {name: np.asarray(v)[0] for name, v in run.given.params.items()}
    terms = lines_of(setup.built.exact)
    forward = Recorder(program)
    loop = forward.at(first, params, state, run, n)
    ahead = forward.entries(loop, {f"S{k}": s.name for k, s in enumerate(program.states)}, terms)
    lattice = setup.goal.precision == "lattice"
    pull: Pullback = course.adjoint(lattice)
    begin = pull.seeded(after, words, {k: v[None] for k, v in seeds.items()}, n + 1)
    begin |= {pull.own[at]: v for at, v in (after if lattice else state).items()}
    back = Recorder(pull.program)
    named = {f"S{k}": s.name for k, s in enumerate(pull.program.states)}
    start = {
        s.name: np.zeros(s.type.shape, int if lattice and s.name in first else float)
        for s in pull.program.states
    }
    own = {name: np.asarray(v)[0] for name, v in pull.params.items()}  # it has matrices of its own
    other = back.at(start | first, own, begin, run, n)
    behind = back.entries(other, named, terms)
    end = {name: np.array(v, float) for name, v in back.machine.final(other).items()}
    shapes = {s.name: s.type.shape for s in pull.program.states}
    found = {
        name: (joined(end, f"{name}{BAR}") + end.get(f"{name}{REST}", 0.0)).reshape(shapes[f"{name}{BAR}"])
        for name in names
        if f"{name}{BAR}" in end
    }
    fast = bool(setup.system.levels)
    t = time_at(n, run.dt, run.t0)
    return Tape(
        f"{setup.system.name} ({setup.compiled.known.method})",
        n,
        t,
        tuple(framed(ahead) if fast else ahead),
        tuple(framed(behind) if fast else behind),
        seeds,
        found,
    )
