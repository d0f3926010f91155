"""What does an instruction of PTX do to the lanes of a launch?  A line of Python on arrays for each.

Registers have no types: they are arrays of unsigned integers, viewed as what an instruction takes them for.
Only what says how it rounds is run: an `add.f64` may become part of an fma in the assembler, so it has no meaning here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection
from functools import cache as once
from typing import Any

import numpy as np
from ptx_text import SIZE, BadPtx, Function, Instruction, literal

from tinyphysics.device.host import llvm

Array = Any
UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
SIGNED: dict[int, Any] = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
FLOATS: dict[int, Any] = {4: np.float32, 8: np.float64}
CANONICAL = {4: np.uint32(0x7FFFFFFF), 8: np.uint64(0x7FFFFFFFFFFFFFFF)}  # not what any processor here makes


class Unknown(BadPtx):
    """An instruction that has no meaning here."""


def dtype(kind: str) -> Any:
    return {"f": FLOATS, "s": SIGNED}.get(kind[0], UNSIGNED)[SIZE[kind]]


# --- arithmetic -------------------------------------------------------------------------------------------
def same(x: Array) -> Array:
    """Results that are no number have one pattern, as on a device; tests must not depend on which."""
    total = x.sum()
    if total - total != 0:  # infinite, or not a number
        bad = x != x
        if bad.any():
            x = x.copy()
            x[bad] = CANONICAL[x.itemsize].view(x.dtype)
    return x


def fma(a: Array, b: Array, c: Array) -> Array:
    out: Any = np.empty(np.broadcast_shapes(np.shape(a), np.shape(b), np.shape(c)), a.dtype)
    given = [np.ascontiguousarray(np.broadcast_to(x, out.shape)) for x in (a, b, c)]
    fused()[out.itemsize](*(x.ctypes.data for x in (*given, out)), len(out))
    return same(out)


@once
def fused() -> dict[int, Any]:
    """This processor's fma, or its C library's: both round once."""
    texts = [FMA.format(t=t, f=f"f{8 * n}", n=n) for n, t in ((4, "float"), (8, "double"))]
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)
    made = llvm.link(
        llvm.compile_text("\n".join(texts), llvm.host_cpu()), {"fma4": signature, "fma8": signature}
    )
    return {4: made["fma4"], 8: made["fma8"]}


FMA = """
declare {t} @llvm.fma.{f}({t}, {t}, {t})
define void @fma{n}(ptr %a, ptr %b, ptr %c, ptr %o, i64 %count) {{
entry:
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %one, label %exit
one:
  %k = phi i64 [ 0, %entry ], [ %next, %one ]
  %a.at = getelementptr {t}, ptr %a, i64 %k
  %b.at = getelementptr {t}, ptr %b, i64 %k
  %c.at = getelementptr {t}, ptr %c, i64 %k
  %o.at = getelementptr {t}, ptr %o, i64 %k
  %x = load {t}, ptr %a.at
  %y = load {t}, ptr %b.at
  %z = load {t}, ptr %c.at
  %v = call {t} @llvm.fma.{f}({t} %x, {t} %y, {t} %z)
  store {t} %v, ptr %o.at
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %one, label %exit
exit:
  ret void
}}
"""


def extreme(a: Array, b: Array, least: bool) -> Array:
    """min and max: a number wins over none, and -0 lies below +0."""
    a, b = np.broadcast_arrays(a, b)
    first = (a < b) | ((a == b) & (np.signbit(a) >= np.signbit(b)))
    if not least:
        first = (a > b) | ((a == b) & (np.signbit(a) <= np.signbit(b)))
    return same(np.where((b != b) | first, a, b))


def shift(x: Array, n: Array, left: bool) -> Array:
    """Amounts beyond the width shift everything out; an x with a sign keeps it."""
    width = 8 * x.itemsize
    n = np.asarray(n)
    if x.dtype.kind == "i":
        return x >> np.minimum(n, width - 1).astype(x.dtype)
    moved = np.minimum(n, width - 1).astype(x.dtype)
    return np.where(n >= width, x.dtype.type(0), x << moved if left else x >> moved)


def funnel(low: Array, high: Array, n: Array, left: bool, wrap: bool) -> Array:
    n = np.asarray(n).astype(np.uint64)
    n = n & np.uint64(31) if wrap else np.minimum(n, np.uint64(32))
    both = (np.asarray(high).astype(np.uint64) << np.uint64(32)) | np.asarray(low).astype(np.uint64)
    out = both << n >> np.uint64(32) if left else both >> n
    return (out & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def flushed(x: Array) -> Array:
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(x.dtype.type(0), x), x)


def estimate(exact: Array) -> Array:
    """A float32 near a number: of two in three not the nearest, but within 2^-22.9, which is what PTX promises."""
    near = exact.astype(np.float32)
    moved = (near.view(np.int32) + (near.view(np.int32) % 3 - 1)).view(np.float32)
    return flushed(np.where(np.abs(moved - exact) <= np.abs(exact) * 2.0**-22.9, moved, near))


def inverse(x: Array) -> Array:
    """1/x: of float32 the nearest one; of float64 the upper half is left, and subnormals count as 0."""
    if x.dtype == np.float64:
        return ((1.0 / flushed(x)).view(np.int64) & ~((1 << 32) - 1)).view(np.float64)
    return flushed((1.0 / flushed(x).astype(np.float64)).astype(np.float32))


def inverse_root(x: Array) -> Array:
    """1/sqrt x cut off: of float64 the upper half is left, and subnormals count as 0."""
    x = flushed(x)
    if x.dtype == np.float32:
        return estimate(1.0 / np.sqrt(x.astype(np.float64)))
    return ((1.0 / np.sqrt(x)).view(np.int64) & ~((1 << 32) - 1)).view(np.float64)


def high(a: Array, b: Array) -> Array:
    """The upper half of a product; 64 bits by four of 32."""
    a, b = np.broadcast_arrays(a, b)
    if a.itemsize < 8:
        wide: Any = np.int64 if a.dtype.kind == "i" else np.uint64
        return (a.astype(wide) * b.astype(wide) >> wide(8 * a.itemsize)).astype(a.dtype)
    x, y, low, half = a.view(np.uint64), b.view(np.uint64), np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = (x0 * y0 >> half) + (x1 * y0 & low) + (x0 * y1 & low)
    out = x1 * y1 + (x1 * y0 >> half) + (x0 * y1 >> half) + (middle >> half)
    if a.dtype.kind == "i":
        out = out - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return out.view(a.dtype)


def quotient(a: Array, b: Array, rest: bool) -> Array:
    """Towards zero; nothing is defined where b is 0."""
    a, b = np.broadcast_arrays(a, b)
    if (b == 0).any():
        raise BadPtx("an integer is divided by zero")
    if a.dtype.kind == "u":
        return a % b if rest else a // b
    q = a // b
    r = a - q * b
    up = (r != 0) & ((r < 0) != (a < 0))
    q = q + up
    return a - q * b if rest else q


def field(x: Array, at: Array, length: Array) -> Array:
    """bfe: bits of x from a place, above which there are zeros, or copies of the sign."""
    width = 8 * x.itemsize
    at, length = np.asarray(at) & 255, np.asarray(length) & 255
    unsigned = x.view(UNSIGNED[x.itemsize])
    moved = shift(unsigned, at, False)
    one = unsigned.dtype.type(1)
    ones = np.where(
        length >= width, ~unsigned.dtype.type(0), shift(np.full_like(unsigned, one), length, True) - one
    )
    out = moved & ones
    if x.dtype.kind == "i":
        top = np.minimum(at + length - 1, width - 1)
        sign = (shift(unsigned, top, False) & one).astype(bool) & (length > 0)
        out = np.where(sign, out | ~ones, out)
    return out.view(x.dtype)


def insert(a: Array, b: Array, at: Array, length: Array) -> Array:
    """bfi: bits of a put into b."""
    a, b = np.broadcast_arrays(a, b)
    at, length = np.asarray(at) & 255, np.asarray(length) & 255
    one = a.dtype.type(1)
    ones = np.where(
        length >= 8 * a.itemsize, ~a.dtype.type(0), shift(np.full_like(a, one), length, True) - one
    )
    there = shift(ones, at, True)
    return (b & ~there) | (shift(a, at, True) & there)


def permuted(a: Array, b: Array, selector: Array) -> Array:
    a, b, selector = (np.asarray(x, np.uint32) for x in np.broadcast_arrays(a, b, selector))
    source = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)
    out = np.zeros_like(a)
    for k in range(4):
        which = selector >> np.uint32(4 * k) & np.uint32(15)
        byte = (source >> (which & np.uint32(7)).astype(np.uint64) * np.uint64(8) & np.uint64(255)).astype(
            np.uint32
        )
        sign = np.where(byte & np.uint32(128), np.uint32(255), np.uint32(0))
        out |= np.where(which & np.uint32(8), sign, byte) << np.uint32(8 * k)
    return out


def logic3(a: Array, b: Array, c: Array, table: int) -> Array:
    out = np.zeros_like(np.broadcast_arrays(a, b, c)[0])
    for k in range(8):
        if table >> k & 1:
            out |= (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
    return out


def counted(x: Array) -> Array:
    bytes_ = x.reshape(-1, 1).view(np.uint8)
    return np.unpackbits(bytes_, axis=1).sum(axis=1).astype(np.uint32)


def leading(x: Array) -> Array:
    bits = np.unpackbits(np.ascontiguousarray(x.reshape(-1, 1).view(np.uint8)[:, ::-1]), axis=1)
    return np.where(bits.any(axis=1), bits.argmax(axis=1), 8 * x.itemsize).astype(np.uint32)


def reversed_bits(x: Array) -> Array:
    bits = np.unpackbits(x.reshape(-1, 1).view(np.uint8), axis=1)  # bytes go up, bits in them down
    flipped = np.ascontiguousarray(np.packbits(bits[:, ::-1], axis=1))
    return flipped.view(x.dtype).reshape(-1)


ROUND = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def converted(x: Array, to: str, source: str, how: str) -> Array:
    """cvt: between widths, between integers and floating point, to whole numbers."""
    d = dtype(to)
    if to[0] == "f" and source[0] == "f":
        if how in ROUND:
            x = ROUND[how](x)
        elif (how == "rn") != (SIZE[to] < SIZE[source]):
            raise Unknown(f"cvt.{how}.{to}.{source}")
        return same(x.astype(d)) if d != x.dtype else same(x)
    if to[0] == "f":
        if how != "rn":
            raise Unknown(f"cvt.{how}.{to}.{source}")
        return x.astype(d)
    if source[0] != "f":
        if how:
            raise Unknown(f"cvt.{how}.{to}.{source}")
        return x.astype(d)
    whole = ROUND[how](x) if how in ROUND else None
    if whole is None:
        raise Unknown(f"cvt.{how}.{to}.{source}")
    least, beyond = int(np.iinfo(d).min), int(np.iinfo(d).max) + 1
    none = 1 << 8 * SIZE[to] - 1 if "64" in to + source else 0  # as PTX defines it
    out = np.where((whole >= float(least)) & (whole < float(beyond)), whole, 0).astype(d)
    out = np.where(whole < float(least), d(least), np.where(whole >= float(beyond), d(beyond - 1), out))
    return np.where(x != x, UNSIGNED[SIZE[to]](none).view(d), out)


COMPARE = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}
SPECIAL = ("tid", "ntid", "ctaid", "nctaid", "laneid", "warpid")
BINARY = {"add": "+", "sub": "-", "mul": "*"}
LOADS = {"nc", "volatile", "weak", "relaxed", "ca", "cg", "cs", "cv", "lu", "wb", "wt", "cta", "gpu"}
SPACES = ("global", "shared", "local", "const", "param")


class Lines:
    """The Python of one block, written instruction by instruction."""

    def __init__(self, f: Function, symbols: Collection[str], slots: dict[str, int]) -> None:
        self.f, self.symbols, self.slots = (
            f,
            symbols,
            slots,
        )  # names of the module's variables, places of registers
        self.lines: list[str] = []
        self.forms: dict[str, dict[str, str]] = {}  # of each register, its arrays by type
        self.read_first: dict[str, None] = {}
        self.written: dict[str, None] = {}

    # --- operands ---------------------------------------------------------------------------------------
    def register(self, name: str, kind: str) -> str:
        size = self.f.registers[name]
        forms = self.forms.get(name)
        if forms is None:
            self.read_first[name] = None
            forms = self.forms[name] = {"u": f"r{self.slots[name]}"}
        if kind == "pred":
            return forms["u"]
        t = kind[0] if kind[0] in "fs" else "u"
        if SIZE[kind] < size:  # the lower part
            return f"{self.form(name, 'u')}.astype(U{SIZE[kind]})" + (
                f".view({t.upper()}{SIZE[kind]})" if t != "u" else ""
            )
        if SIZE[kind] > size:
            raise BadPtx(f"{name} has {size} bytes, and is read as {kind}")
        return self.form(name, t)

    def form(self, name: str, t: str) -> str:
        forms, size = self.forms[name], self.f.registers[name]
        if t not in forms:
            source = next(iter(forms.values()))
            forms[t] = f"r{self.slots[name]}{t if t != 'u' else ''}"
            self.lines.append(f"{forms[t]} = {source}.view({t.upper()}{size})")
        return forms[t]

    def operand(self, text: str, kind: str) -> str:
        if text in self.f.registers:
            return self.register(text, kind)
        if text.startswith("!") or text.startswith("-%"):
            raise BadPtx(f"operand `{text}`")
        if kind == "pred":
            return {"0": "np.False_", "1": "np.True_"}[text]
        if text.startswith("%"):
            return self.special(text, kind)
        if text in self.symbols or text in self.f.variables:
            return self.symbol(text)
        value = literal(text, kind) % (1 << 8 * SIZE[kind])
        view = f".view({kind[0].upper()}{SIZE[kind]})" if kind[0] in "fs" else ""
        return f"U{SIZE[kind]}({value}){view}"

    def symbol(self, text: str) -> str:
        if text in self.f.variables and self.f.variables[text].space == "param":
            raise Unknown(f"the address of the parameter {text}")
        return f"lane.symbol({text!r})"

    def special(self, text: str, kind: str) -> str:
        name, _, axis = text[1:].partition(".")
        if name not in SPECIAL:
            raise Unknown(f"the register {text}")
        return f"lane.special({name!r}, {axis!r}).astype(U{SIZE[kind]})"

    def address(self, text: str) -> tuple[str, int]:
        """(name of a register or variable, bytes beyond it)."""
        name, sign, offset = text.strip()[1:-1].strip().partition("+")
        if not sign and "-" in name:
            name, sign, offset = name.partition("-")
            return name.strip(), -int(offset, 0)
        return name.strip(), int(offset.strip() or "0", 0)

    def put(self, i: Instruction, name: str, kind: str, value: str) -> None:
        """A value of a type into a register, where the guard lets it."""
        if name == "_":
            self.lines.append(value)
            return
        if name not in self.f.registers:
            raise BadPtx(f"`{i}` writes to {name}")
        size = self.f.registers[name]
        if kind != "pred" and SIZE[kind] != size:
            if SIZE[kind] > size:
                raise BadPtx(f"`{i}`: {name} has {size} bytes")
            wide = f"S{size}" if kind[0] == "s" else f"U{size}"
            value, kind = f"({value}).astype({wide})", ("s" if kind[0] == "s" else "u") + str(8 * size)
        t = "u" if kind == "pred" else kind[0] if kind[0] in "fs" else "u"
        var = f"r{self.slots[name]}{t if t != 'u' else ''}"
        if i.guard:
            old = self.register(name, kind)
            value = f"np.where({self.guard(i)}, {value}, {old})"
        self.lines.append(f"{var} = {value}")
        self.forms[name] = {t: var}
        self.written[name] = None

    def guard(self, i: Instruction) -> str:
        p = self.register(i.guard, "pred")
        return f"~{p}" if i.unless else p

    def full(self, value: str) -> str:
        """A number for every lane."""
        return f"lane.full({value})"

    # --- instructions -----------------------------------------------------------------------------------
    def write(self, i: Instruction) -> None:
        name = "i_" + i.parts[0]
        if not hasattr(self, name):
            raise Unknown(f"the instruction `{i}`")
        try:
            getattr(self, name)(i)
        except (ValueError, KeyError, IndexError) as error:
            raise BadPtx(f"`{i}` is not understood: {error}") from error

    def typed(self, i: Instruction, *modifiers: str) -> tuple[str, set[str]]:
        """(its type, which modifiers it has); any other modifier is not understood."""
        *given, kind = i.parts[1:] or [""]
        if kind not in SIZE or set(given) - set(modifiers):
            raise Unknown(f"the instruction `{i}`")
        return kind, set(given)

    def sources(self, i: Instruction, kind: str) -> list[str]:
        out = [self.operand(x, kind) for x in i.operands[1:]]
        if not any(x in self.f.registers or x.startswith("%") for x in i.operands[1:]):
            out[0] = self.full(out[0])
        return out

    def rounded(self, i: Instruction, value: str, kind: str, given: set[str]) -> None:
        if given != {"rn"}:
            raise Unknown(f"`{i}` does not say that it rounds to nearest; assemblers may contract it")
        self.put(i, i.operands[0], kind, f"same({value})")

    def arithmetic(self, i: Instruction) -> None:
        kind, given = self.typed(i, "rn", "lo")
        sign = BINARY[i.parts[0]]
        a, b = self.sources(i, kind)
        if kind[0] == "f":
            self.rounded(i, f"{a} {sign} {b}", kind, given)
        elif given == ({"lo"} if sign == "*" else set()):
            unsigned = "u" + kind[1:]
            a, b = self.sources(i, unsigned)
            self.put(i, i.operands[0], unsigned, f"{a} {sign} {b}")
        else:
            raise Unknown(f"the instruction `{i}`")

    i_add = i_sub = arithmetic

    def i_mul(self, i: Instruction) -> None:
        if "wide" in i.parts or "hi" in i.parts:
            kind, given = self.typed(i, "wide", "hi")
            a, b = self.sources(i, kind)
            if given == {"hi"}:
                self.put(i, i.operands[0], kind, f"high({a}, {b})")
            else:
                wide = f"{kind[0].upper()}{2 * SIZE[kind]}"
                self.put(
                    i,
                    i.operands[0],
                    f"{kind[0]}{16 * SIZE[kind]}",
                    f"{a}.astype({wide}) * {b}.astype({wide})",
                )
            return
        self.arithmetic(i)

    def i_mad(self, i: Instruction) -> None:
        kind, given = self.typed(i, "lo", "wide", "hi")
        target, x, y, z = i.operands
        a, b = self.operand(x, kind), self.operand(y, kind)
        if given == {"wide"}:
            wide, type_ = f"{kind[0].upper()}{2 * SIZE[kind]}", f"{kind[0]}{16 * SIZE[kind]}"
            self.put(i, target, type_, f"{a}.astype({wide}) * {b}.astype({wide}) + {self.operand(z, type_)}")
        elif given == {"lo"}:
            u = "u" + kind[1:]
            self.put(i, target, u, f"{self.operand(x, u)} * {self.operand(y, u)} + {self.operand(z, u)}")
        elif given == {"hi"}:
            self.put(i, target, kind, f"high({a}, {b}) + {self.operand(z, kind)}")
        else:
            raise Unknown(f"the instruction `{i}`")

    def i_fma(self, i: Instruction) -> None:
        kind, given = self.typed(i, "rn")
        self.rounded(i, f"fma({', '.join(self.sources(i, kind))})", kind, given)

    def i_div(self, i: Instruction) -> None:
        kind, given = self.typed(i, "rn")
        a, b = self.sources(i, kind)
        if kind[0] == "f":
            self.rounded(i, f"{a} / {b}", kind, given)
        else:
            self.put(i, i.operands[0], kind, f"quotient({a}, {b}, False)")

    def i_rem(self, i: Instruction) -> None:
        kind, _ = self.typed(i)
        a, b = self.sources(i, kind)
        self.put(i, i.operands[0], kind, f"quotient({a}, {b}, True)")

    def i_rcp(self, i: Instruction) -> None:
        kind, given = self.typed(i, "rn", "approx", "ftz")
        if given == {"approx", "ftz"}:
            self.put(i, i.operands[0], kind, f"inverse({self.sources(i, kind)[0]})")
            return
        self.rounded(i, f"F{SIZE[kind]}(1) / {self.sources(i, kind)[0]}", kind, given)

    def i_sqrt(self, i: Instruction) -> None:
        kind, given = self.typed(i, "rn")
        self.rounded(i, f"np.sqrt({self.sources(i, kind)[0]})", kind, given)

    def i_rsqrt(self, i: Instruction) -> None:
        """An instruction near 1/sqrt, of float64 with fewer digits than a device's."""
        kind, given = self.typed(i, "approx", "ftz")
        if given != {"approx", "ftz"}:
            raise Unknown(f"the instruction `{i}`")
        self.put(i, i.operands[0], kind, f"inverse_root({self.sources(i, kind)[0]})")

    def i_neg(self, i: Instruction) -> None:
        kind, _ = self.typed(i)
        self.put(i, i.operands[0], kind, f"-{self.sources(i, kind)[0]}")

    def i_abs(self, i: Instruction) -> None:
        kind, _ = self.typed(i)
        self.put(i, i.operands[0], kind, f"np.abs({self.sources(i, kind)[0]})")

    def i_copysign(self, i: Instruction) -> None:
        kind, _ = self.typed(i)
        a, b = self.sources(i, kind)
        self.put(i, i.operands[0], kind, f"np.copysign({b}, {a})")

    def i_min(self, i: Instruction) -> None:
        kind, _ = self.typed(i)
        least, (a, b) = i.parts[0] == "min", self.sources(i, kind)
        value = (
            f"extreme({a}, {b}, {least})"
            if kind[0] == "f"
            else f"np.{'minimum' if least else 'maximum'}({a}, {b})"
        )
        self.put(i, i.operands[0], kind, value)

    i_max = i_min

    def i_and(self, i: Instruction) -> None:
        kind, _ = self.typed(i)
        a, b = self.sources(i, kind)
        self.put(i, i.operands[0], kind, f"{a} {dict(and_='&', or_='|', xor_='^')[i.parts[0] + '_']} {b}")

    i_or = i_xor = i_and

    def i_not(self, i: Instruction) -> None:
        kind, _ = self.typed(i)
        self.put(i, i.operands[0], kind, f"~{self.sources(i, kind)[0]}")

    def i_shl(self, i: Instruction) -> None:
        kind, _ = self.typed(i)
        target, x, n = i.operands
        a, b = self.operand(x, kind), self.operand(n, "u32")
        if x not in self.f.registers:
            a = self.full(a)
        self.put(i, target, kind, f"shift({a}, {b}, {i.parts[0] == 'shl'})")

    i_shr = i_shl

    def i_shf(self, i: Instruction) -> None:
        _, way, mode, kind = i.parts
        if way not in "lr" or mode not in ("wrap", "clamp") or kind != "b32":
            raise Unknown(f"the instruction `{i}`")
        a, b, c = (self.operand(x, "u32") for x in i.operands[1:])
        self.put(i, i.operands[0], kind, f"funnel({a}, {b}, {c}, {way == 'l'}, {mode == 'wrap'})")

    def i_bfe(self, i: Instruction) -> None:
        kind, _ = self.typed(i)
        a, b, c = (self.operand(x, k) for x, k in zip(i.operands[1:], (kind, "u32", "u32")))
        self.put(i, i.operands[0], kind, f"field({a}, {b}, {c})")

    def i_bfi(self, i: Instruction) -> None:
        kind, _ = self.typed(i)
        a, b, c, d = (self.operand(x, k) for x, k in zip(i.operands[1:], (kind, kind, "u32", "u32")))
        self.put(i, i.operands[0], kind, f"insert({a}, {b}, {c}, {d})")

    def i_prmt(self, i: Instruction) -> None:
        kind, _ = self.typed(i)
        self.put(i, i.operands[0], kind, f"permuted({', '.join(self.sources(i, kind))})")

    def i_lop3(self, i: Instruction) -> None:
        kind, _ = self.typed(i)
        a, b, c = (self.operand(x, kind) for x in i.operands[1:4])
        self.put(i, i.operands[0], kind, f"logic3({a}, {b}, {c}, {int(i.operands[4], 0)})")

    def i_popc(self, i: Instruction) -> None:
        kind, _ = self.typed(i)
        self.put(i, i.operands[0], "u32", f"counted({self.operand(i.operands[1], kind)})")

    def i_clz(self, i: Instruction) -> None:
        kind, _ = self.typed(i)
        self.put(i, i.operands[0], "u32", f"leading({self.operand(i.operands[1], kind)})")

    def i_vote(self, i: Instruction) -> None:
        if i.parts[1:] != ["sync", "ballot", "b32"]:
            raise Unknown(f"the instruction `{i}`")
        said, mask = self.operand(i.operands[1], "pred"), self.operand(i.operands[2], "u32")
        self.put(i, i.operands[0], "u32", f"lane.ballot({said}, {mask})")

    def i_brev(self, i: Instruction) -> None:
        kind, _ = self.typed(i)
        self.put(i, i.operands[0], kind, f"reversed_bits({self.operand(i.operands[1], kind)})")

    def i_testp(self, i: Instruction) -> None:
        tests = {"finite": "np.isfinite", "infinite": "np.isinf", "notanumber": "np.isnan"}
        _, which, kind = i.parts
        if which not in tests:
            raise Unknown(f"the instruction `{i}`")
        self.put(i, i.operands[0], "pred", f"{tests[which]}({self.operand(i.operands[1], kind)})")

    def i_setp(self, i: Instruction) -> None:
        kind, given = self.typed(i, *COMPARE, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
        if len(given) != 1 or len(i.operands) != 3 or "|" in i.operands[0]:
            raise Unknown(f"the instruction `{i}`")
        how = given.pop()
        if how in ("lo", "ls", "hi", "hs"):
            kind = "u" + kind[1:]
        a, b = self.sources(i, kind)
        if how in ("num", "nan"):
            both = f"({a} == {a}) & ({b} == {b})"
            value = both if how == "num" else f"~({both})"
        elif kind[0] == "f" and how == "ne":  # false where one is no number
            value = f"({a} < {b}) | ({a} > {b})"
        elif how in COMPARE:
            value = f"{a} {COMPARE[how]} {b}"
        else:  # true where one is no number
            opposite = {
                "equ": f"({a} < {b}) | ({a} > {b})",
                "neu": f"{a} == {b}",
                "ltu": f"{a} >= {b}",
                "leu": f"{a} > {b}",
                "gtu": f"{a} <= {b}",
                "geu": f"{a} < {b}",
            }[how]
            value = f"~({opposite})"
        self.put(i, i.operands[0], "pred", value)

    def i_selp(self, i: Instruction) -> None:
        kind, _ = self.typed(i)
        u = "u" + kind[1:]
        a, b = (self.operand(x, u) for x in i.operands[1:3])
        self.put(i, i.operands[0], u, f"np.where({self.register(i.operands[3], 'pred')}, {a}, {b})")

    def i_mov(self, i: Instruction) -> None:
        kind, _ = self.typed(i)
        target, source = i.operands
        if target.startswith("{"):
            names = [x.strip() for x in target[1:-1].split(",")]
            part = SIZE[kind] // len(names)
            whole = self.operand(source, f"u{8 * SIZE[kind]}")
            for k, name in enumerate(names):
                if name != "_":
                    self.put(
                        i, name, f"u{8 * part}", f"({whole} >> U{SIZE[kind]}({8 * part * k})).astype(U{part})"
                    )
        elif source.startswith("{"):
            names = [x.strip() for x in source[1:-1].split(",")]
            part, w = SIZE[kind] // len(names), f"U{SIZE[kind]}"
            parts = [
                f"{self.operand(x, f'u{8 * part}')}.astype({w}) << {w}({8 * part * k})"
                for k, x in enumerate(names)
            ]
            self.put(i, target, f"u{8 * SIZE[kind]}", " | ".join(parts))
        elif kind == "pred":
            self.put(i, target, kind, f"lane.full({self.operand(source, kind)})")
        else:
            u = f"u{8 * SIZE[kind]}"
            value = literal(source, kind) if source[0] in "-0123456789" else None
            text = (
                self.operand(source, u)
                if value is None
                else f"U{SIZE[kind]}({value % (1 << 8 * SIZE[kind])})"
            )
            self.put(i, target, u, self.full(text))

    def i_cvt(self, i: Instruction) -> None:
        *how, to, source = i.parts[1:]
        if len(how) > 1 or to not in SIZE or source not in SIZE:
            raise Unknown(f"the instruction `{i}`")
        x = self.operand(i.operands[1], source)
        self.put(i, i.operands[0], to, f"converted({x}, {to!r}, {source!r}, {(how or [''])[0]!r})")

    def i_cvta(self, i: Instruction) -> None:
        parts = i.parts[1:]
        to = parts[0] == "to"
        space, kind = parts[to:]
        if space not in SPACES[:4] or kind not in ("u64", "s64", "b64"):
            raise Unknown(f"the instruction `{i}`")
        self.put(i, i.operands[0], "u64", f"lane.cvta({self.operand(i.operands[1], 'u64')}, {space!r}, {to})")

    # --- memory -----------------------------------------------------------------------------------------
    def access(self, i: Instruction) -> tuple[str, str, int]:
        """(space, type, how many)."""
        parts = i.parts[1:]
        kind, many, space = parts[-1], 1, ""
        for p in parts[:-1]:
            if p in ("v2", "v4"):
                many = int(p[1])
            elif p in SPACES:
                space = p
            elif p not in LOADS and "::" not in p:
                raise Unknown(f"the instruction `{i}`")
        if kind not in SIZE:
            raise Unknown(f"the instruction `{i}`")
        return space, kind, many

    def i_ld(self, i: Instruction) -> None:
        space, kind, many = self.access(i)
        base, offset = self.address(i.operands[1])
        names = [x.strip() for x in i.operands[0].strip("{}").split(",")]
        if len(names) != many:
            raise BadPtx(f"`{i}`")
        u = ("s" if kind[0] == "s" else "u") + kind[1:]
        if space == "param":
            for k, name in enumerate(names):
                self.put(
                    i, name, u, f"lane.param({base!r}, {offset + k * SIZE[kind]}, {dtype(u).__name__!r})"
                )
            return
        where = self.place(base, offset)
        mask = self.guard(i) if i.guard else "None"
        loaded = f"t{len(self.lines)}"
        self.lines.append(f"{loaded} = lane.load({space!r}, {where}, np.{dtype(u).__name__}, {many}, {mask})")
        for k, name in enumerate(names):
            self.put(i, name, u, f"{loaded}[{k}]")

    def place(self, base: str, offset: int) -> str:
        where = self.operand(base, "u64")
        if base not in self.f.registers:
            where = self.full(where)
        return f"{where} + U8({offset % (1 << 64)})" if offset else where

    def i_st(self, i: Instruction) -> None:
        space, kind, many = self.access(i)
        base, offset = self.address(i.operands[0])
        u = "u" + kind[1:]
        names = [x.strip() for x in i.operands[1].strip("{}").split(",")]
        if len(names) != many:
            raise BadPtx(f"`{i}`")
        given = []
        for x in names:
            if x in self.f.registers or x.startswith("%") or x in self.symbols or x in self.f.variables:
                given.append(self.operand(x, u))
            else:
                given.append(f"U{SIZE[kind]}({literal(x, kind) % (1 << 8 * SIZE[kind])})")
        values = ", ".join(given)
        if space == "param":
            if i.guard:
                raise Unknown(f"the instruction `{i}`")
            self.lines.append(f"lane.put({base!r}, {offset}, {SIZE[kind]}, ({values},))")
            return
        mask = self.guard(i) if i.guard else "None"
        self.lines.append(f"lane.store({space!r}, {self.place(base, offset)}, ({values},), {mask})")

    def i_atom(self, i: Instruction) -> None:
        parts = [
            p for p in i.parts[1:] if p not in LOADS and p not in ("acquire", "release", "acq_rel", "sys")
        ]
        space = parts.pop(0) if parts[0] in SPACES else ""
        how, kind = parts
        if kind[0] == "f":
            raise Unknown(f"`{i}`: the order of floating-point atomics is nobody's")
        red = i.parts[0] == "red"
        target, where, *values = (None, *i.operands) if red else i.operands
        base, offset = self.address(where)
        given = ", ".join(self.operand(v, kind) for v in values)
        mask = self.guard(i) if i.guard else "None"
        call = f"lane.atom({space!r}, {self.place(base, offset)}, {how!r}, ({given},), {mask})"
        if target is None:
            self.lines.append(call)
        else:
            self.put(i, target, kind, call)

    i_red = i_atom

    def i_membar(self, i: Instruction) -> None:
        """Every access is seen at once."""

    i_fence = i_membar

    def i_call(self, i: Instruction) -> None:
        results, name, args, *more = (
            *([] if i.operands[0].startswith("(") else ["()"]),
            *i.operands,
            "()",
            "()",
        )[:4]
        if more not in ([], ["()"]) or set(i.parts[1:]) - {"uni"}:
            raise Unknown(f"the instruction `{i}`")
        if i.guard:
            raise Unknown(f"the instruction `{i}`")
        given = [x.strip() for x in args.strip("()").split(",") if x.strip()]
        back = [x.strip() for x in results.strip("()").split(",") if x.strip()]
        self.lines.append(f"lane.call({name!r}, {given!r}, {back!r})")
