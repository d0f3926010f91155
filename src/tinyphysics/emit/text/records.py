"""Line records in LLVM IR: which line of it is an instruction of a machine?

A record changes no instruction. What LLVM writes with them is compared with what it writes without, line by line.
"""

from __future__ import annotations

import re

LOC = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")
# an instruction is indented, and neither ends a list of cases nor goes on with one
INSTRUCTION = re.compile(r"  [%a-z]")


def recorded(text: str, kind: str = "LineTablesOnly") -> str:
    """The text with the number of its line at each instruction."""
    out: list[str] = []
    records: list[str] = []
    scopes: list[str] = []

    def number(record: str) -> str:
        records.append(record)
        return f"!{len(records) - 1}"

    file = number('!DIFile(filename: "kernel.ll", directory: "")')
    unit = number(
        f'distinct !DICompileUnit(language: DW_LANG_C99, file: {file}, producer: "", isOptimized: true, '
        f"runtimeVersion: 0, emissionKind: {kind})"
    )
    shape = number("!DISubroutineType(types: !{})")
    version = number('!{i32 2, !"Debug Info Version", i32 3}')
    inside = ""
    for k, line in enumerate(text.split("\n"), 1):
        if line.startswith("define "):
            name = line[line.index("@") + 1 : line.index("(")]
            inside = number(
                f'distinct !DISubprogram(name: "{name}", scope: {file}, file: {file}, line: {k}, type: {shape}, '
                f"scopeLine: {k}, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {unit})"
            )
            scopes.append(inside)
            out.append(line.rstrip("{").rstrip() + f" !dbg {inside} {{")
        elif line == "}":
            inside = ""
            out.append(line)
        elif inside and INSTRUCTION.match(line):
            out.append(f"{line}, !dbg {number(f'!DILocation(line: {k}, scope: {inside})')}")
        else:
            out.append(line)
    named = [f"!llvm.dbg.cu = !{{{unit}}}", f"!llvm.module.flags = !{{{version}}}"]
    return "\n".join([*out, *named, *(f"!{k} = {r}" for k, r in enumerate(records))]) + "\n"


def lines_of(plain: str, with_records: str) -> list[int]:
    """For each line of what LLVM wrote the line of the text that it was made of, 0 where there is none."""
    wanted = plain.split("\n")
    out, at, k = [0] * len(wanted), 0, 0
    for line in with_records.split("\n"):
        if found := LOC.match(line):
            at = int(found[1])
        elif k < len(wanted) and bare(line) == bare(wanted[k]):
            if is_label(line) and not line.startswith((".L", "$L")):
                at = 0  # a function begins
            out[k] = at
            k += 1
    assert k == len(wanted), f"records changed the code: `{wanted[k]}` is missing"
    return out


def bare(line: str) -> str:
    """Without comments, which count what is around."""
    return re.split(r"\s*(?:#|//)", line)[0].rstrip() if "\t" in line or "#" in line or "//" in line else line


def is_label(line: str) -> bool:
    return line[:1] not in ("", "\t", " ") and line.rstrip().endswith(":")


def is_instruction(line: str) -> bool:
    """Of an assembler's text, or of WebAssembly's or PTX."""
    word = line.strip()
    return line[:1] in ("\t", " ", "@") and bool(word) and word[0] not in "./#}{" and not word.endswith(":")


def begins(line: str) -> str:
    """The name of the function that begins with a line."""
    if found := re.search(r"\.entry (\w+)\(", line):
        return found[1]
    return line.strip().rstrip(":") if is_label(line) and line[0] not in ".$" else ""
