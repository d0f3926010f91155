"""Kernels with named buffers, written as maps: add, diff_buf, diff_img, qfeat, qfeat_fp64, operator_step.

>>> import numpy as np
>>> op = REGISTRY["operator_step"].bind(D=2)
>>> b = op.new_buffers()
>>> b["w"][:], b["b"][:], b["z_curr"][:] = [[0.0, -1.0], [1.0, 0.0]], 0.5, [1.0, 2.0]
>>> op(b)
>>> b["z_next"].tolist()
[-1.5, 1.5]

An element of what is written is a member of the map: a thread of a GPU, a lane of a processor. Numbers that all elements read
are parameters. The registry is the only place that says which buffers an operator has: calls are checked with it, and
`header(language)` is printed from it.

`operator_step` computes W z + b, row by row. Nothing that looks at a state feeds back into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.front.spaces import Vec
from tinyphysics.front.trace import map_ as of_map
from tinyphysics.given import shown
from tinyphysics.given import whole as a_whole
from tinyphysics.runtime.api.compile import compile as compiled
from tinyphysics.runtime.api.taken_kernel import TakenKernel, refuse_names, refuse_no_names, same_grid, unfit
from tinyphysics.util import did_you_mean, digest, one_of, prod

VERSION = 1  # of buffers, bindings and constants
WORKGROUP = 256  # threads
READ, WRITE = "read", "write"
# Words that languages of shaders have for themselves: no buffer is called so.
RESERVED = frozenset(
    "in out inout buffer uniform shared sample filter input output half fixed texture image atomic_uint var let fn".split()
)

# --- the maps -------------------------------------------------------------------------------------------


@of_map
def add(a, b, result):  # type: ignore[no-untyped-def]
    return a, b, a + b


@of_map
def diff(a, b, result):  # type: ignore[no-untyped-def]
    return a, b, a - b


@of_map
def band_energy(z: Vec["n"], feat):  # type: ignore # noqa: F821, UP037
    return z, (z * z).sum()


@of_map
def row_times(w: Vec["n"], b, z_next, z_curr: Vec["n"]):  # type: ignore # noqa: F821, UP037
    return w, b, b + w @ z_curr


# --- the registry ---------------------------------------------------------------------------------------
Shape = tuple[str | int, ...]  # letters stand for constants


@dataclass(frozen=True)
class OperatorBuffer:
    """A buffer of an operator: its name, binding, shape, and whether it is read or written."""

    name: str
    binding: int
    shape: Shape
    access: str
    of: str = ""  # the state of the map that it is, or the parameter; its own name where it is left out


@dataclass(frozen=True)
class Operator:
    """What the registry says of an operator; `bind` makes it for some sizes."""

    name: str
    about: str
    system: Callable[[Mapping[str, int]], Any]  # the map
    buffers: tuple[OperatorBuffer, ...]
    constants: tuple[str, ...]  # uint32, in the order in which they are packed
    elements: Callable[[Mapping[str, int]], int]  # members of the map: threads that are needed
    type: str = "float64"
    shared: str = ""  # the buffer that all elements read
    padded: bool = False  # may the last element have fewer numbers than the others?
    version: int = VERSION

    def __post_init__(self) -> None:
        taken = [b.name for b in self.buffers if b.name in RESERVED]
        assert not taken, f"a shader cannot have a buffer named {taken}"
        assert [b.binding for b in self.buffers] == list(range(len(self.buffers)))

    def grid(self, **sizes: int) -> tuple[int, int, int]:
        """Workgroups of 256 threads."""
        return (-(-self.elements(sizes) // WORKGROUP), 1, 1)

    def header(self, language: str) -> str:
        """The buffers and constants of the operator as declarations: "c", "cuda", "glsl" or "wgsl"."""
        if language not in HEADERS:
            raise InputError(
                f"there is no header for {shown(language)}", fix=f"Languages: {one_of(list(HEADERS))}."
            )
        told = "//" if language != "c" else ""
        first = f"{self.name} {self.version}: {self.about}"
        return (f"{told} {first}\n" if told else f"/* {first} */\n") + HEADERS[language](self)

    def bind(self, backend: str = "c", **sizes: int) -> BoundOperator:
        """The operator for some sizes, run by a backend of this machine; it compiles now and not in a call."""
        refuse_names("a size", sizes, dict.fromkeys(self.constants))
        for name in self.constants:
            if name not in sizes:
                raise InputError(f"{self.name} needs {name}=", fix=f"Write bind({name}=256).")
            a_whole(name, sizes[name], 0)
        return BoundOperator(self, dict(sizes), backend)


@dataclass(frozen=True, eq=False)
class BoundOperator:
    """An operator for some sizes: `op(buffers)` runs it once on arrays that stay, and allocates nothing."""

    operator: Operator
    sizes: Mapping[str, int]
    backend: str
    kernel: TakenKernel | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        if n := self.operator.elements(self.sizes):
            sim = compiled(self.operator.system(self.sizes), precision=self.operator.type)
            object.__setattr__(self, "kernel", sim.kernel(self.backend, members=n))
            assert self._step is not None  # compiled now

    @property
    def grid(self) -> tuple[int, int, int]:
        return self.operator.grid(**self.sizes)

    @cached_property
    def hash(self) -> str:
        """Of what it computes and of all that a caller has to know."""
        made = "" if self.kernel is None else self.kernel.hash
        o = self.operator
        told = o.name, o.version, o.buffers, o.constants, o.type, sorted(self.sizes.items()), made
        return digest(repr(told).encode())

    def text(self, target: str) -> str:
        """The kernel for a target of `sim.kernel`, with its own buffers: rows of a state, as its first line says."""
        if self.operator.type == "float64" and target in SHORT:
            raise InputError(
                f"{self.operator.name} computes in float64, which kernels in {target.upper()} do not have here",
                fix=f"Take it as {one_of(sorted(set(HEADERS) - set(SHORT)))}, or choose an operator in float32.",
            )
        sim = compiled(self.operator.system(self.sizes), precision=self.operator.type)
        taken = sim.kernel(target, members=max(self.operator.elements(self.sizes), 1))
        if taken.text is None:
            raise InputError(f'"{target}" is no text', fix="bind(...).kernel.binary has the module.")
        return f"{COMMENT.get(target, '//')} {self._about(taken)}\n{taken.text}"

    def _about(self, taken: TakenKernel) -> str:
        """Where the numbers of each buffer are in the kernel as sim.kernel writes it."""
        rows = [name.partition(".")[0] for name in taken.buffers[0].rows]
        told = []
        for b in self.operator.buffers:
            of = b.of or b.name
            if b.name == self.operator.shared:
                told.append(f"{b.name}: the constants {of}.0, {of}.1, ...")
                continue
            first, count = rows.index(of), rows.count(of)
            told.append(
                f"{b.name}: row {first}" if count == 1 else f"{b.name}: rows {first} to {first + count - 1}"
            )
        o = self.operator
        return f"{o.name} {o.version}: {o.about}; {', '.join(told)}; an element is a member"

    def shape(self, b: OperatorBuffer) -> tuple[int, ...]:
        return tuple(self.sizes[x] if isinstance(x, str) else x for x in b.shape)

    def new_buffers(self) -> dict[str, Any]:
        """Arrays of zeros by name; those of one operator may be passed to another."""
        return {b.name: np.zeros(self.shape(b), self.operator.type) for b in self.operator.buffers}

    # --- calls ------------------------------------------------------------------------------------------
    @cached_property
    def _arrays(self) -> Mapping[str, Any]:
        assert self.kernel is not None
        return self.kernel.new_buffers()

    @cached_property
    def _uniform(self) -> Any:
        assert self.kernel is not None
        count = sum(c.type == "f64" for c in self.kernel.constants)
        return np.zeros(count, np.float64)

    @cached_property
    def _rows(self) -> Mapping[str, Any]:
        """Where each state of the map lies: (numbers, elements)."""
        assert self.kernel is not None
        names = [name.partition(".")[0] for name in self.kernel.buffers[0].rows]
        loop = self._arrays["loop"]
        return {n: loop[names.index(n) : names.index(n) + names.count(n)] for n in names}

    @cached_property
    def _step(self) -> Callable[..., Any]:
        assert self.kernel is not None
        step: Callable[..., Any] = self.kernel.function("step")
        return step

    def __call__(self, buffers: Mapping[str, Any], constants: bytes | None = None, grid: Any = None) -> None:
        """Runs once. `constants` are those of `packed()`, and `grid` that of the operator; both may be left out."""
        self._check(buffers, constants, grid)
        if self.kernel is None:
            return
        for b in self.operator.buffers:
            if b.access == READ:
                self._put(b, buffers[b.name])
        n = self.operator.elements(self.sizes)
        loop = self._arrays["loop"]
        self._step(loop, loop, self._uniform, None, self._arrays["flags"], None, 0, n, n, 0, 1, 1)
        for b in self.operator.buffers:
            if b.access == WRITE:
                buffers[b.name].reshape(-1)[...] = self._rows[b.of or b.name].reshape(-1)

    def packed(self) -> bytes:
        """The constants as a shader reads them: uint32, one after the other."""
        return np.array([self.sizes[name] for name in self.operator.constants], "<u4").tobytes()

    def _put(self, b: OperatorBuffer, a: Any) -> None:
        if b.name == self.operator.shared:
            self._uniform[: a.size] = a
            return
        rows = self._rows[b.of or b.name]
        flat, (numbers, elements) = a.reshape(-1), rows.shape
        whole = flat.size // numbers
        rows.T[:whole] = flat[: whole * numbers].reshape(whole, numbers)
        if whole < elements:  # the last one has fewer numbers: zeros behind them add nothing
            rows.T[whole:] = 0.0
            rest = flat.size - whole * numbers
            rows.T[whole, :rest] = flat[whole * numbers :]

    def _check(self, buffers: Mapping[str, Any], constants: bytes | None, grid: Any) -> None:
        refuse_no_names(buffers)
        known = {b.name: b for b in self.operator.buffers}
        for name in buffers:
            if name not in known:
                refuse_names("a buffer", buffers, known)
        for name, b in known.items():
            if name not in buffers:
                raise InputError(f"the buffer `{name}` is missing", fix="op.new_buffers() makes all of them.")
            a = buffers[name]
            if wrong := unfit(a, self.operator.type, self.shape(b), b.access == WRITE):
                raise InputError(
                    f"the buffer `{name}` {wrong}",
                    fix=f"It has to be a C-contiguous array, {self.operator.type} {self.shape(b)}.",
                )
        if constants is not None and constants != self.packed():
            raise InputError(
                f"the constants are not those of {dict(self.sizes)}", fix="Pass op.packed(), or nothing."
            )
        if grid is not None and not same_grid(grid, self.grid):
            raise InputError(
                f"grid={shown(grid)} does not cover it", fix=f"Leave it out, or pass {self.grid}."
            )


def of_bands(s: Mapping[str, int]) -> int:
    """How many bands there are; all numbers have to be in one of them, and every band has one at least."""
    if s["B"] and not (s["B"] - 1) * s["band_size"] < s["D"] <= s["B"] * s["band_size"]:
        raise InputError(
            f"{s['D']} numbers are not {s['B']} bands of {s['band_size']}",
            fix=f"Write B={-(-s['D'] // max(s['band_size'], 1))}.",
        )
    return s["B"]


def features(name: str, type: str) -> Operator:
    return Operator(
        name, "the sum of squares of each band of z", lambda s: band_energy.bind({"n": s["band_size"]}),
        (OperatorBuffer("z", 0, ("D",), READ), OperatorBuffer("feat", 1, ("B",), WRITE)),
        ("D", "B", "band_size"), of_bands, type, padded=True,
    )  # fmt: skip


def three(first: str, second: str, last: str, shape: Shape) -> tuple[OperatorBuffer, ...]:
    return (
        OperatorBuffer(first, 0, shape, READ, "a"),
        OperatorBuffer(second, 1, shape, READ, "b"),
        OperatorBuffer(last, 2, shape, WRITE, "result"),
    )


class Registry(dict[str, Operator]):
    """Operators by name; a name that is none of them is an InputError that lists them."""

    def __missing__(self, name: Any) -> Operator:
        raise InputError(
            f"there is no operator {shown(name)}",
            fix=f"{did_you_mean(str(name), list(self))}Operators: {one_of(list(self))}.",
        )


REGISTRY: dict[str, Operator] = Registry({
    o.name: o for o in (
        Operator("add", "result = a + b", lambda s: add, three("a", "b", "result", ("n",)), ("n",), lambda s: s["n"],
                 "float32"),
        Operator("diff_buf", "result = a - b; the standard one of the two differences", lambda s: diff,
                 three("a", "b", "result", ("n",)), ("n",), lambda s: s["n"], "float32"),
        Operator("diff_img", "result = curr - prev, of images with four channels", lambda s: diff,
                 three("curr", "prev", "result", ("h", "w", 4)), ("h", "w"), lambda s: 4 * s["h"] * s["w"], "float32"),
        features("qfeat", "float32"),
        features("qfeat_fp64", "float64"),
        Operator("operator_step", "z_next = W z_curr + b", lambda s: row_times.bind({"n": s["D"]}),
                 (OperatorBuffer("z_curr", 0, ("D",), READ), OperatorBuffer("z_next", 1, ("D",), WRITE),
                  OperatorBuffer("w", 2, ("D", "D"), READ), OperatorBuffer("b", 3, ("D",), READ)),
                 ("D",), lambda s: s["D"], shared="z_curr"),
    )
})  # fmt: skip


# --- headers --------------------------------------------------------------------------------------------
NUMBER = {"float32": "float", "float64": "double"}


def extent(b: OperatorBuffer) -> str:
    return "*".join(map(str, b.shape))


def c_header(o: Operator) -> str:
    number = NUMBER[o.type]
    constants = " ".join(f"uint32_t {name};" for name in o.constants)
    lines = [f"struct {o.name}_constants {{ {constants} }};"]
    lines += [
        f"/* binding {b.binding}: {'const ' * (b.access == READ)}{number} {b.name}[{extent(b)}] */"
        for b in o.buffers
    ]
    return "\n".join(["#include <stdint.h>", *lines]) + "\n"


def cuda_header(o: Operator) -> str:
    return f"#define {o.name.upper()}_WORKGROUP {WORKGROUP}\n" + c_header(o)


def glsl_header(o: Operator) -> str:
    number = NUMBER[o.type]
    wide = (
        ["#extension GL_EXT_shader_explicit_arithmetic_types_float64 : require"]
        if o.type == "float64"
        else []
    )
    lines = ["#version 450", *wide, f"layout(local_size_x = {WORKGROUP}) in;"]
    lines += [
        f"layout(set = 0, binding = {b.binding}, std430) {'readonly' if b.access == READ else 'writeonly'} "
        f"buffer {b.name}_buffer {{ {number} {b.name}[]; }};"
        for b in o.buffers
    ]
    constants = " ".join(f"uint {name};" for name in o.constants)
    return "\n".join([*lines, f"layout(push_constant) uniform {o.name}_constants {{ {constants} }};"]) + "\n"


def wgsl_header(o: Operator) -> str:
    if o.type == "float64":
        raise InputError(f"WGSL has no float64, which {o.name} computes in", fix='Write header("glsl").')
    lines = [
        f"@group(0) @binding({b.binding}) var<storage, {'read' if b.access == READ else 'read_write'}> "
        f"{b.name}: array<f32>;"
        for b in o.buffers
    ]
    constants = ", ".join(f"{name}: u32" for name in o.constants)
    lines.append(f"struct Constants {{ {constants} }}")
    lines.append(f"@group(0) @binding({len(o.buffers)}) var<uniform> constants: Constants;")
    return "\n".join(lines) + "\n"


SHORT = ("glsl", "wgsl")  # kernels whose numbers have 32 bits
COMMENT = {"llvm": ";"}
HEADERS: dict[str, Callable[[Operator], str]] = {
    "c": c_header, "cuda": cuda_header, "glsl": glsl_header, "wgsl": wgsl_header,
}  # fmt: skip


def bytes_of(o: Operator, sizes: Mapping[str, int]) -> dict[str, int]:
    """How many bytes each buffer has, for whoever allocates them on a device."""
    one = np.dtype(o.type).itemsize
    return {b.name: one * prod([sizes[x] if isinstance(x, str) else x for x in b.shape]) for b in o.buffers}


def names() -> Sequence[str]:
    return tuple(REGISTRY)
