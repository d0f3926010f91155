"""The files of test/replay/: pins as text, one block for each thing that is pinned, and the reasons of changes.

A block is a line [name], then a line "kind  text" for each kind of pin; text of several lines is indented below its kind.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "test" / "replay"
REASONS = "REASONS.md"
ENTRY = re.compile(r"^## ([0-9a-f]{16})$", re.MULTILINE)
MOST_NAMED = 40  # pins that a reason names one by one

Pins = dict[str, dict[str, str]]  # name -> kind -> text


def written(pins: Mapping[str, Mapping[str, str]]) -> str:
    """The text of a file."""
    lines: list[str] = []
    for name in sorted(pins):
        lines.append(f"[{name}]")
        for kind, text in sorted(pins[name].items()):
            if "\n" in text:
                lines += [kind, *(f"  {line}".rstrip() for line in text.split("\n"))]
            else:
                lines.append(f"{kind}  {text}".rstrip())
        lines.append("")
    return "\n".join(lines)


def parsed(text: str) -> Pins:
    """What `written` wrote."""
    pins: Pins = {}
    block: dict[str, list[str]] = {}
    kind = ""
    for line in text.split("\n"):
        if line.startswith("[") and line.endswith("]"):
            block = {}
            pins[line[1:-1]] = block  # type: ignore[assignment]
        elif line.startswith("  ") or not line:
            if block:
                block[kind].append(line[2:])
        else:
            kind, _, rest = line.partition("  ")
            block[kind] = [rest] if rest else []
    return {
        name: {kind: "\n".join(lines).rstrip("\n") for kind, lines in block.items()}
        for name, block in pins.items()
    }


def file_of(group: str, folder: Path) -> Path:
    return folder / f"{group}.pins"


def read(group: str, folder: Path = FOLDER) -> Pins:
    file = file_of(group, folder)
    return parsed(file.read_text(encoding="utf-8")) if file.exists() else {}


def write(group: str, pins: Mapping[str, Mapping[str, str]], folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file_of(group, folder).write_text(written(pins), encoding="utf-8")


def groups(folder: Path = FOLDER) -> list[str]:
    return sorted(p.stem for p in folder.glob("*.pins"))


# --- reasons ------------------------------------------------------------------------------------------
def digest(folder: Path = FOLDER) -> str:
    """Of every pin, and of the files that runs go on from."""
    outer = hashlib.blake2b(digest_size=8)
    files = [*folder.glob("*.pins"), *(folder / "kept").glob("*")]
    for file in sorted(files):
        outer.update(f"{file.relative_to(folder).as_posix()} {len(file.read_bytes())}\n".encode())
        outer.update(file.read_bytes())
    return outer.hexdigest()


def last_digest(folder: Path = FOLDER) -> str:
    """The digest that the last reason was given for."""
    file = folder / REASONS
    found = ENTRY.findall(file.read_text(encoding="utf-8")) if file.exists() else []
    return found[-1] if found else ""


def give_reason(reason: str, changed: Iterable[str], folder: Path = FOLDER) -> None:
    """Appends the reason of a change, with the names of the pins that changed and their digest."""
    names = sorted(changed)
    shown = [f"- {name}" for name in names[:MOST_NAMED]]
    if len(names) > MOST_NAMED:
        by_group: dict[str, int] = {}
        for name in names:
            by_group[name.partition("/")[0]] = by_group.get(name.partition("/")[0], 0) + 1
        shown = [f"- {group}: {n} pins" for group, n in sorted(by_group.items())]
    file = folder / REASONS
    old = file.read_text(encoding="utf-8") if file.exists() else HEAD
    file.write_text(
        f"{old}\n## {digest(folder)}\n\n{reason.strip()}\n\n" + "\n".join(shown) + "\n", encoding="utf-8"
    )


HEAD = """# Why pins changed

Written by `make replay-update REASON="..."`: the digest of all pins, the reason, and what changed. The last digest must be
that of the pins beside it (test/unit/test_replay_pins.py), so a pin and its reason are in one commit.
"""
