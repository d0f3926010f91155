"""The map of the house, in docs/design.md: layers, rooms, the question that each answers, and how many files it has.

    python tools/house_map.py            prints it
    python tools/house_map.py --write    writes it into the page, between its two marks

Everything in it is read from tools/layers.py and from the source.
"""

from __future__ import annotations

import argparse
import ast
import sys
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "tinyphysics"
PAGE = ROOT / "docs" / "design.md"
BEGIN, END = "<!-- drawn by tools/house_map.py -->", "<!-- end of the drawing -->"
sys.path.insert(0, str(Path(__file__).resolve().parent))

from layers import ROOMS, UP, Room  # noqa: E402


def files(room: Room) -> int:
    if room.files:
        return len(room.files)
    folder = SOURCE / room.place.replace(".", "/")
    inside = {r.place for r in ROOMS if r.place.startswith(f"{room.place}.")}
    own = [p for p in folder.rglob("*.py") if ".".join(p.parent.relative_to(SOURCE).parts) not in inside]
    named = {f"{f}.py" for r in ROOMS if r.place == room.place for f in r.files}  # of another room
    return sum(p.name not in {"__init__.py", *named} for p in own)


def says(package: str) -> str:
    """The first line of a package."""
    text = (SOURCE / package / "__init__.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


def row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def names(room: Room) -> str:
    return " ".join(f"`{name}`" for name in room.name.split(" "))


def drawn() -> str:
    lines = [row("layer", "room", "answers", "files"), row(*["---"] * 4)]
    for package, group in groupby(ROOMS, key=lambda r: r.package):
        rooms = list(group)
        if len(rooms) > 1:
            lines.append(row(rooms[0].layer, f"**`{package}/`**", says(package), sum(map(files, rooms))))
        for room in rooms:
            lines.append(row(room.layer if len(rooms) == 1 else "", names(room), room.question, files(room)))
    total = sum(map(files, ROOMS))
    return "\n".join(
        [
            *lines,
            "",
            f"{total} files. No import points up. {len(UP)} functions of `up.py` are the only calls that do:",
            "",
            *(f"- `up.{name}` calls `{target}`: {why}." for name, (target, why) in UP.items()),
        ]
    )


def page() -> str:
    """The page with the map as it is now."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{PAGE.name} has no place for the map: {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{drawn()}\n\n{END}{after}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="into docs/design.md")
    if parser.parse_args().write:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(drawn())
