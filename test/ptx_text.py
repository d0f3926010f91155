"""What does a text of PTX say?  Modules, functions, blocks and instructions, as data.

Of PTX what LLVM writes and what a test writes by hand; anything else is an error that shows its line.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from functools import lru_cache

SIZE = {"pred": 0, **{f"{k}{n}": n // 8 for k in "bsuf" for n in (8, 16, 32, 64) if f"{k}{n}" != "f8"}}


class BadPtx(Exception):
    """A text that is no PTX, or more of it than is understood here."""


@dataclass(frozen=True)
class Instruction:
    op: str  # all of it: "add.rn.f64"
    operands: tuple[str, ...]
    guard: str = ""  # the predicate's register
    unless: bool = False  # runs where it is false

    @property
    def parts(self) -> list[str]:
        return self.op.split(".")

    def __str__(self) -> str:
        guard = f"@{'!' if self.unless else ''}{self.guard} " if self.guard else ""
        return f"{guard}{self.op} {', '.join(self.operands)}".rstrip()


@dataclass(frozen=True)
class Variable:
    """Memory with a name: bytes that it begins with, if it has some."""

    name: str
    space: str
    size: int
    align: int
    start: bytes = b""


@dataclass
class Function:
    name: str
    entry: bool
    params: list[Variable] = field(default_factory=list)
    results: list[Variable] = field(default_factory=list)
    registers: dict[str, int] = field(default_factory=dict)  # their bytes; a predicate has none
    variables: dict[str, Variable] = field(default_factory=dict)  # local, shared and param
    blocks: list[list[Instruction]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)  # the block that follows
    tables: dict[str, list[str]] = field(default_factory=dict)  # of brx.idx


@dataclass
class Module:
    version: str = ""
    target: str = ""
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)

    def instructions(self) -> list[Instruction]:
        return [i for f in self.functions.values() for b in f.blocks for i in b]

    @property
    def entries(self) -> list[str]:
        return [f.name for f in self.functions.values() if f.entry]


ENDS = ("bra", "ret", "exit", "trap", "brx", "bar", "barrier")  # what a block ends with


@lru_cache(maxsize=256)
def parsed(text: str) -> Module:
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"//[^\n]*", "", text)
    reader = Reader(text)
    return reader.module()


def split(text: str) -> list[str]:
    """At commas outside of brackets."""
    out, depth, now = [], 0, ""
    for c in text:
        depth += (c in "[{(") - (c in "]})")
        if c == "," and not depth:
            out.append(now.strip())
            now = ""
        else:
            now += c
    if now.strip():
        out.append(now.strip())
    return out


class Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def module(self) -> Module:
        m = Module()
        while word := self.peek():
            if word in (".version", ".target", ".address_size"):
                line = re.compile(r"\s*\.\w+\s+([^\n]*)").match(self.text, self.at)
                assert line
                self.at = line.end()
                value = line.group(1).strip()
                if word == ".version":
                    m.version = value
                elif word == ".target":
                    m.target = value.split(",")[0]
                elif value != "64":
                    raise BadPtx(f"addresses of {value} bits")
            elif re.compile(r"\s*(\.(visible|weak|extern)\s+)*\.(entry|func)\b").match(self.text, self.at):
                f = self.function()
                if f.blocks or f.name not in m.functions:
                    m.functions[f.name] = f
            else:
                v = variable(self.until(";"))
                m.variables[v.name] = v
        if not m.version or not m.target:
            raise BadPtx("a module begins with .version and .target")
        return m

    def peek(self) -> str:
        m = re.compile(r"\s*([.\w$%]+|\S)").match(self.text, self.at)
        return m.group(1) if m else ""

    def until(self, stops: str) -> str:
        """The text up to one of the characters outside of brackets; they are passed."""
        depth, begin = 0, self.at
        while self.at < len(self.text):
            c = self.text[self.at]
            if not depth and c in stops:
                self.at += 1
                return self.text[begin : self.at - 1].strip()
            depth += (c in "[{(") - (c in "]})")
            self.at += 1
        raise BadPtx(f"no `{stops}` after `{self.text[begin : begin + 60].strip()}`")

    def function(self) -> Function:
        head = ""
        while not head.endswith((";", "{")):
            c = self.text[self.at] if self.at < len(self.text) else None
            if c is None:
                raise BadPtx(f"no body after `{head.strip()[:60]}`")
            head += c
            self.at += 1
        m = re.match(r"\s*((?:\.\w+\s+)*)(\([^()]*\)\s*)?([\w$.]+)\s*(\((.*)\))?([^()]*)[;{]$", head, re.S)
        if m is None:
            raise BadPtx(f"not the head of a function: `{head.strip()[:80]}`")
        f = Function(m.group(3), ".entry" in m.group(1).split())
        f.results = [variable(p) for p in split((m.group(2) or "").strip()[1:-1])]
        f.params = [variable(p) for p in split(m.group(5) or "")]
        for extra in m.group(6).split("\n"):
            if extra.strip() and not re.match(
                r"\s*\.(maxntid|minnctapersm|maxnreg|reqntid|noreturn|pragma)\b", extra
            ):
                raise BadPtx(f"`{extra.strip()}` of {f.name}")
        if head.endswith("{"):
            self.body(f)
        return f

    def body(self, f: Function) -> None:
        f.variables |= {v.name: v for v in (*f.params, *f.results)}
        depth, now = 1, []
        f.blocks.append(now)
        while depth:
            word = self.peek()
            if word == "{":
                self.until("{")
                depth += 1
            elif word == "}":
                self.until("}")
                depth -= 1
            elif label := re.compile(r"\s*([\w$]+):").match(self.text, self.at):
                self.at = label.end()
                if now:
                    now = []
                    f.blocks.append(now)
                f.labels[label.group(1)] = len(f.blocks) - 1
                if self.peek() == ".branchtargets":
                    f.tables[label.group(1)] = split(self.until(";").split(None, 1)[1])
            elif word == ".reg":
                register(f, self.until(";"))
            elif word in (".param", ".local", ".shared"):
                v = variable(self.until(";"))
                f.variables[v.name] = v
            elif word in (".loc", ".file", ".pragma"):
                self.until("\n" if word != ".pragma" else ";")
            elif not word:
                raise BadPtx(f"{f.name} has no end")
            else:
                now.append(instruction(self.until(";")))
                if now[-1].op.split(".")[0] in ENDS:
                    now = []
                    f.blocks.append(now)


def register(f: Function, text: str) -> None:
    m = re.fullmatch(r"\.reg\s+\.(\w+)\s+(.*)", text, re.S)
    if m is None or m.group(1) not in SIZE:
        raise BadPtx(f"`{text}`")
    for name in split(m.group(2)):
        many = re.fullmatch(r"(%?[\w$]+)<(\d+)>", name)
        for one in [f"{many.group(1)}{k}" for k in range(int(many.group(2)))] if many else [name]:
            f.registers[one] = SIZE[m.group(1)]


def instruction(text: str) -> Instruction:
    m = re.fullmatch(r"(?:@(!?)\s*(%?[\w$]+)\s+)?([a-z][\w.:]*)\s*(.*)", text, re.S)
    if m is None:
        raise BadPtx(f"`{text}`")
    return Instruction(m.group(3), tuple(split(m.group(4))), m.group(2) or "", bool(m.group(1)))


def variable(text: str) -> Variable:
    """A declaration: `.global .align 8 .b8 tab[16] = {0, 1}`, `.param .u64 .ptr .align 1 k_param_0`."""
    head, _, start = text.partition("=")
    words = head.split()
    space = next((w[1:] for w in words if w in (".global", ".const", ".shared", ".local", ".param")), "")
    if ".ptr" in words and words[0] == ".param":
        space = "param"
    kind = next((w[1:] for w in words if w[1:] in SIZE and w.startswith(".")), "")
    name = re.fullmatch(r"([\w$%.]+?)\s*(?:\[\s*(\d*)\s*\])?", words[-1])
    if not space or not kind or name is None:
        raise BadPtx(f"not a variable: `{text}`")
    bytes_ = SIZE[kind]
    align = int(words[words.index(".align") + 1]) if ".align" in words and ".ptr" not in words else bytes_
    given = initial(start.strip(), kind)
    count = int(name.group(2)) if name.group(2) else 0 if name.group(2) == "" else 1
    size = count * bytes_
    return Variable(name.group(1), space, size, align, given.ljust(size, b"\0") if start else b"")


def initial(text: str, kind: str) -> bytes:
    if not text:
        return b""
    items = split(text[1:-1]) if text.startswith("{") else [text]
    return b"".join(bits(literal(x, kind), SIZE[kind]) for x in items)


def bits(value: int, size: int) -> bytes:
    return (value % (1 << 8 * size)).to_bytes(size, "little")


def literal(text: str, kind: str) -> int:
    """The bits of an immediate number."""
    if m := re.fullmatch(r"0[dD]([0-9a-fA-F]{16})", text):
        value = int(m.group(1), 16)
        if kind == "f32":
            return struct.unpack("<I", struct.pack("<f", struct.unpack("<d", struct.pack("<Q", value))[0]))[0]
        return value
    if m := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", text):
        value = int(m.group(1), 16)
        if kind == "f64":
            return struct.unpack("<Q", struct.pack("<d", struct.unpack("<f", struct.pack("<I", value))[0]))[0]
        return value
    if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", text) and not kind.startswith("f"):
        return int(text.rstrip("U"), 0)
    if re.fullmatch(r"-?\d+\.\d*([eE][-+]?\d+)?", text):
        form = "<f" if kind == "f32" else "<d"
        return int.from_bytes(struct.pack(form, float(text)), "little")
    raise BadPtx(f"`{text}` as a number of type {kind}")
