"""A kernel to take away: its text or module, the buffers and constants that it reads, and a call that runs it in place."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.device.host.arrays import Evaluator
from tinyphysics.device.numbers import NUMPY_DTYPE
from tinyphysics.emit.scalar.shaders import written
from tinyphysics.emit.text.shading import WGSL
from tinyphysics.errors import BackendError, InputError, PlanError
from tinyphysics.given import number, shown, whole
from tinyphysics.ir.uop import UOp
from tinyphysics.pipeline import stepped
from tinyphysics.planner.cost.target import in_sandbox
from tinyphysics.runtime.engines.emissions import EMISSIONS, Emission, functions, plain
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.target import PORTABLE
from tinyphysics.tpir.kernels.kernel import Kernel, Section
from tinyphysics.tpir.kernels.rows import kernel_of
from tinyphysics.util import did_you_mean, digest, one_of, prod

VERSION = 1  # of the order of arguments, buffers and constants
SECTIONS = ("init", "enter", "step", "leave", "final")
WHOLE = ("begin", "members", "first", "steps")  # constants that are whole numbers


@dataclass(frozen=True)
class BufferSpec:
    """An array that a kernel works on: a row for each number, a column for each member."""

    name: str
    type: str  # of NumPy's names
    shape: tuple[int, ...]
    binding: int
    bytes: int
    rows: tuple[str, ...] = ()  # what each row is: `q.0`


@dataclass(frozen=True)
class ConstantSpec:
    """A number that all members share, and where it is among the packed ones."""

    name: str
    type: str
    offset: int
    value: float | int | None  # None: it has to be given


@dataclass(frozen=True, eq=False)
class TakenKernel:
    """Made by `sim.kernel(target=)`. `init` makes the loop state of a state, a call goes on with it, `final` gives the state.

    `text` or `binary` has these functions; `buffers`, `constants` and `grid` say what they are given, `hash` names all of it.
    """

    target: str
    text: str | None
    binary: bytes | None
    buffers: tuple[BufferSpec, ...]
    constants: tuple[ConstantSpec, ...]
    grid: tuple[int, int]  # blocks, threads of a block
    functions: tuple[str, ...]  # by their names in the text
    members: int
    version: int = VERSION
    emission: Emission = field(repr=False, kw_only=True)
    sections: tuple[Section, ...] = field(repr=False, kw_only=True)
    params: tuple[UOp, ...] = field(repr=False, kw_only=True)

    @cached_property
    def hash(self) -> str:
        """Of the code and of all that a caller has to know."""
        code = self.binary or (self.text or "").encode()
        layout = repr((self.version, self.target, self.buffers, self.constants, self.grid, self.functions))
        return digest(code + layout.encode())

    @cached_property
    def _loaded(self) -> tuple[dict[str, Any], Any]:
        if not self.emission.executed:
            raise BackendError(
                f'sim.kernel(target="{self.target}") is text to take away, and is not run here',
                fix=f"Run it where it is compiled; here runs {one_of([e.name for e in EMISSIONS.values() if e.executed])}.",
            )
        code = self.binary if self.binary is not None else self.text or ""
        calls, memory = functions(self.emission, code, self.sections, self.params)
        return {f.name: call for f, call in zip(self.sections, calls)}, memory

    def function(self, name: str) -> Any:
        """A section as it was compiled, for callers that check their arrays themselves: bench and registry."""
        return self._loaded[0][name]

    # --- arrays ------------------------------------------------------------------------------------
    def new_buffers(self) -> dict[str, Any]:
        """Arrays of zeros by name, where the kernel reads them without a copy."""
        memory = self._loaded[1]
        shapes = [(b.shape, np.dtype(b.type)) for b in self.buffers]
        made = [np.zeros(*s) for s in shapes] if memory is None else memory.arrays(shapes)
        return {b.name: a for b, a in zip(self.buffers, made)}

    def packed(self, given: Mapping[str, Any] | None = None) -> bytes:
        """The constants as they lie behind one another: float64 for parameters, then int64."""
        values = self._values(given or {})
        kinds = "".join("q" if c.type == "i64" else "d" for c in self.constants)
        return struct.pack(f"<{kinds}", *(values[c.name] for c in self.constants))

    def words(self, function: str, given: Mapping[str, Any] | None = None) -> bytes:
        """What a shader reads as `alike`, of its function's name: words that depend on the constants alone."""
        if not self.emission.handed:
            raise InputError(
                f'sim.kernel(target="{self.target}") reads its constants as they are',
                fix="`packed()` of this kernel has them.",
            )
        if function not in self.functions:
            raise InputError(f"there is no function `{function}`", fix=f"There are {one_of(self.functions)}.")
        f = self.sections[self.functions.index(function)]
        _, (handed,) = written(WGSL, [f], self.params, plain(self.params))
        if handed.clock:
            raise PlanError(
                "this kernel reads the time, which words do not hold", fix='Take it as target="c".'
            )
        values = self._values(given or {})
        env: dict[UOp, Any] = {
            p: np.array([values[c.name]], NUMPY_DTYPE[p.dtype.name])
            for p, c in zip(self.params, self.constants)
        }
        with np.errstate(all="ignore"):
            return b"".join(as_word(v) for v in Evaluator(handed.alike)(env))

    # --- calls -------------------------------------------------------------------------------------
    def init(self, buffers: Mapping[str, Any], constants: Mapping[str, Any] | None = None) -> None:
        """`loop` of the `state`."""
        self._run(("init", "enter"), buffers, constants or {}, "state", "loop")

    def __call__(
        self, buffers: Mapping[str, Any], constants: Mapping[str, Any] | None = None, grid: Any = None
    ) -> None:
        """So many `steps` of the `loop`, in place."""
        if grid is not None and not same_grid(grid, self.grid):
            raise InputError(
                f"grid={shown(grid)} does not cover {self.members} members",
                fix=f"Leave it out, or pass {self.grid}.",
            )
        self._run(("step",), buffers, constants or {}, "loop", "loop")

    def final(self, buffers: Mapping[str, Any], constants: Mapping[str, Any] | None = None) -> None:
        """The `state` of the `loop`, which stays as it is."""
        loop = buffers.get("loop")
        kept = None if loop is None or "leave" not in self._names else loop.copy()
        self._run(("leave",), buffers, constants or {}, "loop", "loop")
        self._run(("final",), buffers, constants or {}, "loop", "state")
        if kept is not None and loop is not None:
            loop[...] = kept

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.sections)

    def _run(
        self,
        names: Sequence[str],
        buffers: Mapping[str, Any],
        given: Mapping[str, Any],
        source: str,
        out: str,
    ) -> None:
        values, calls = self._values(given), self._loaded[0]
        checked = self._checked(buffers)
        uniform = np.array([values[c.name] for c in self.constants if c.type == "f64"], np.float64)
        own = {f.name for f in self.sections}
        for name in names:
            if name not in own:
                continue
            steps = values["steps"] if name == "step" else 1
            numbers = values["begin"], self.members, values["members"], values["first"], steps, 1
            calls[name](checked[source], checked[out], uniform, None, checked["flags"], None, *numbers)
            source = out

    def _checked(self, buffers: Mapping[str, Any]) -> Mapping[str, Any]:
        refuse_no_names(buffers)
        wanted = {b.name: b for b in self.buffers}
        refuse_names("a buffer", buffers, wanted)
        for name, b in wanted.items():
            if name not in buffers:
                raise InputError(f"the buffer `{name}` is missing", fix="op.new_buffers() makes all of them.")
            a = buffers[name]
            if wrong := unfit(a, b.type, b.shape, writes=True):
                raise InputError(
                    f"the buffer `{name}` {wrong}",
                    fix=f"It has to be a writable C-contiguous array, {b.type} {b.shape}; op.new_buffers() makes one.",
                )
        return buffers

    def _values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(given, Mapping):
            raise InputError(
                f"constants are given by their names, not as {shown(given)}", fix='Write {"dt": 0.01}.'
            )
        refuse_names("a constant", given, {c.name: c for c in self.constants})
        out = {c.name: given.get(c.name, c.value) for c in self.constants}
        for c in self.constants:
            if c.name in given:
                example = f"{c.name}={1 if c.value is None else c.value}"
                whole_one = c.type == "i64"
                out[c.name] = (
                    whole(c.name, out[c.name], 0) if whole_one else number(c.name, out[c.name], example)
                )
        missing = [name for name, value in out.items() if value is None]
        if missing:
            raise InputError(
                f"the constant `{missing[0]}` is missing", fix=f"op(buffers, {{{missing[0]!r}: 1.0}})."
            )
        return out


def as_word(v: Any) -> bytes:
    return bytes(np.ascontiguousarray(v[0], np.uint32 if v.dtype.kind == "b" else v.dtype).tobytes())


def unfit(a: Any, type: str, shape: tuple[int, ...], writes: bool) -> str:
    """What is wrong with an array as a buffer; empty if nothing is."""
    if not hasattr(a, "dtype") or not hasattr(a, "flags"):
        return f"is {shown(a)}, which is no array"
    if a.dtype != type or tuple(a.shape) != shape:
        return f"is {a.dtype} {tuple(a.shape)}"
    if not a.flags.c_contiguous:
        return "does not have its rows one after the other in memory (it is transposed, strided or in Fortran's order)"
    return "is read-only, and the kernel writes it" if writes and not a.flags.writeable else ""


def same_grid(given: Any, grid: tuple[int, ...]) -> bool:
    return isinstance(given, (tuple, list)) and tuple(given) == grid


def refuse_no_names(buffers: Any) -> None:
    if not isinstance(buffers, Mapping):
        raise InputError(
            f"buffers are given by their names, not as {shown(buffers)}", fix="Write op(op.new_buffers())."
        )


def refuse_names(what: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name in given:
        if name not in known:
            near = did_you_mean(str(name), list(known))
            raise InputError(
                f"`{name}` is not {what} of this kernel", fix=f"{near}There are {one_of(list(known))}."
            )


def taken_kernel(sim: Setup, target: str, members: int) -> TakenKernel:
    """The kernel of a simulation for a target, for so many members."""
    if target not in EMISSIONS:
        raise InputError(
            f"there is no kernel for `{shown(target)}`",
            fix=f"{did_you_mean(str(target), list(EMISSIONS))}Targets: {one_of(list(EMISSIONS))}.",
        )
    if isinstance(members, bool) or not isinstance(members, int) or members < 1:
        raise InputError(f"members={shown(members)} is not a number of members", fix="Pass members=1000.")
    if sim.compiled.adaptive or sim.compiled.series is not None:
        raise PlanError(
            f"`{sim.compiled.known.method}` chooses its own steps, and a kernel to take away has steps of dt",
            fix='Pass method="leapfrog" and dt=0.01, or for derivatives method="rk4".',
        )
    program = sim.built.program if sim.compiled.known.way == "loop" else stepped(sim.built).program
    try:
        in_sandbox(program, "wasm")
    except BackendError as error:
        raise PlanError(
            f"a kernel to take away is written out number by number, and `{program.name}` is too long for that, or has "
            "sums that run in loops only",
            fix='sim.ir("c") is a complete program with its loops.',
        ) from error
    k, e = kernel_of(program, None, PORTABLE), EMISSIONS[target]
    sections = tuple(k.section(name, careful=True) for name in SECTIONS if k.has(name))
    code = e.write(sections, k.params)
    grid = (-(-members // e.threads), e.threads) if e.threads else (1, 1)
    return TakenKernel(
        target, code if isinstance(code, str) else None, code if isinstance(code, bytes) else None,
        buffers_of(k, members), constants_of(sim, k, members), grid,
        tuple(f"{e.prefix}{f.name}" for f in sections), members,
        emission=e, sections=sections, params=k.params,
    )  # fmt: skip


def buffers_of(k: Kernel, members: int) -> tuple[BufferSpec, ...]:
    def rows(variables: Sequence[UOp]) -> tuple[str, ...]:
        return tuple(str(v.arg).lstrip("&") for v in variables)

    state = NUMPY_DTYPE[(k.inputs or k.carried)[0].dtype.name]
    numbers = sum(prod(shape) for _, shape in k.outputs.values())
    assert numbers == len(k.inputs), "final gives the states that init reads"
    table = (
        ("state", state, rows(k.inputs)),
        ("loop", NUMPY_DTYPE[k.carried[0].dtype.name], rows(k.carried)),
    )
    out = []
    for binding, (name, kind, names) in enumerate(table):
        shape = (len(names), members)
        out.append(
            BufferSpec(
                name, np.dtype(kind).name, shape, binding, prod(shape) * np.dtype(kind).itemsize, names
            )
        )
    return (*out, BufferSpec("flags", "int8", (members,), len(out), members))


def constants_of(sim: Setup, k: Kernel, members: int) -> tuple[ConstantSpec, ...]:
    """Parameters in the order of their slots, then the whole numbers of a call."""
    defaults: dict[str, Any] = {p.name: p.default for p in sim.system.parameters}
    out = []
    for slot, p in enumerate(k.params):
        name, _, index = str(p.arg)[1:].partition(".")
        value = {"dt": sim.goal.dt, "t0": 0.0}.get(name, defaults.get(name))
        if value is not None:
            value = float(np.ravel(value)[int(index or 0)])
        out.append(ConstantSpec(str(p.arg)[1:], "f64", 8 * slot, value))
    values = {"begin": 0, "members": members, "first": 0, "steps": 1}
    whole = [ConstantSpec(n, "i64", 8 * (len(out) + j), values[n]) for j, n in enumerate(WHOLE)]
    return (*out, *whole)
