"""Moves every file into its room, and writes the new path wherever the old one stands.

    python tools/rooms.py            in a clean work tree; what it leaves behind is the whole change
    python tools/rooms.py --check    says what it would still do, and fails if there is anything

The table of moves is MOVED in src/tinyphysics/moved.py, the rooms are those of tools/layers.py. It can be run again on
a tree where files were added or changed meanwhile: what is in its place already stays as it is.

Rewritten are imports, module paths in strings, and paths of files in comments and pages. Names that code uses stay:
`from tinyphysics.runtime import there` becomes `from tinyphysics.runtime.engines import caller_arrays as there`.
Pins are left alone: what is printed, hashed or stored has no module paths in it, and must not change.
"""

from __future__ import annotations

import argparse
import re
import runpy
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "tinyphysics"
sys.path.insert(0, str(Path(__file__).resolve().parent))

from layers import ROOMS  # noqa: E402

# files of no release, so that moved.py need not know them; some are on branches that a tree may not have yet
NEW = {
    "device.interruptible": "device.host.interruptible",
    "device.processor": "device.host.processor",
    "emit.opencl_nests": "emit.modules.opencl_nests",
    "rules.smoothness": "rules.formulas.smoothness",
    "rules.user_derivatives": "rules.functions.user_derivatives",
    "runtime.alarms": "runtime.measure.alarms",
    "runtime.energies": "runtime.stages.energies",
    "runtime.run": "runtime.state.run",
    "runtime.terms": "runtime.stages.terms",
    "tpir.liveness": "tpir.program.liveness",
    "tpir.propagate_verdicts": "tpir.proof.readers.propagate",
    "tpir.written": "tpir.program.written",
}
TEXTS = {".py", ".md", ".toml", ".yml", ".sh", ".c", ".cu", ".h", ".cff"}
NAMED = {"Makefile", "run", "durations.json"}
AS_THEY_ARE = (  # they name old paths on purpose, or are pins
    "src/tinyphysics/moved.py",
    "tools/rooms.py",
    "test/unit/test_moved.py",
    "test/golden/",
    "CHANGELOG.md",
)
FACE = {"tpir.vm", "tpir.lower"}  # public names of tinyphysics.tpir that are also names of modules


# read without importing the package
MOVED: dict[str, str] = runpy.run_path(str(SOURCE / "moved.py"))["MOVED"] | NEW
NOW = set(MOVED.values())
PLACES = {new.rpartition(".")[0] for new in NOW}  # the rooms, by which new paths are told from old ones
PACKAGES = sorted({old.partition(".")[0] for old in MOVED})
PACKAGE = "|".join(PACKAGES)


# --- files --------------------------------------------------------------------------------------------
def path_of(module: str) -> Path:
    return SOURCE / (module.replace(".", "/") + ".py")


def files() -> list[Path]:
    """What git has and what it would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = (ROOT / line for line in sorted(set(listed.stdout.splitlines())))
    return [p for p in paths if p.is_file()]


def move() -> list[str]:
    """Moves what is not in its place yet; (a line for each)."""
    tracked = {p.resolve() for p in files()}
    out = []
    for old, new in MOVED.items():
        there, here = path_of(old), path_of(new)
        if not there.is_file():
            if not here.is_file() and old not in NEW:
                raise SystemExit(f"neither {there} nor {here} is there")
            continue
        if here.exists():
            raise SystemExit(f"{there} and {here} are both there")
        here.parent.mkdir(parents=True, exist_ok=True)
        git = there.resolve() in tracked
        subprocess.run(["git", "mv", there, here] if git else ["mv", there, here], cwd=ROOT, check=True)
        out.append(f"{old} -> {new}")
    return out


def make_rooms() -> list[str]:
    """An __init__.py of one line for each room that has none."""
    out = []
    for room in ROOMS:
        path = SOURCE / room.place.replace(".", "/") / "__init__.py"
        if "." in room.place and not room.files and not path.exists():
            path.write_text(f'"""{room.question}"""\n', encoding="utf-8")
            subprocess.run(["git", "add", "--intent-to-add", path], cwd=ROOT, check=True)
            out.append(f"{room.place}/__init__.py")
    return out


def homeless() -> list[str]:
    """Files of a package with rooms that lie beside the rooms, and are none of those that may."""
    out = []
    whole = {room.place for room in ROOMS if not room.files}  # these are rooms themselves
    for package in {room.package for room in ROOMS if "." in room.place} - whole:
        kept = {f for room in ROOMS if room.place == package for f in room.files} | {"__init__"}
        out += [f"{package}/{p.name}" for p in sorted((SOURCE / package).glob("*.py")) if p.stem not in kept]
    return out


# --- text ---------------------------------------------------------------------------------------------
def room_follows(old: str, after: str) -> bool:
    """Is a path that is both an old module and a room meant as the room?  What follows it says so."""
    if old not in PLACES:
        return False
    named = re.match(r"\.(\w+)", after) or re.match(r"\s+import\s+\(?\s*(\w+)", after)
    return named is not None and (f"{old}.{named[1]}" in NOW or path_of(f"{old}.{named[1]}").is_file())


def dotted(text: str) -> str:
    """tinyphysics.rules.exact, in imports and in strings."""

    def new(m: re.Match[str]) -> str:
        old = f"{m[1]}.{m[2]}"
        after = m.string[m.end() :]
        if old not in MOVED or room_follows(old, after):
            return m[0]
        if old in FACE and not re.match(r"\s+import\b|\.\w|\s+as\b", after):
            return m[0]
        return f"tinyphysics.{MOVED[old]}"

    return re.sub(rf"\btinyphysics\.({PACKAGE})\.([a-z_0-9]+)\b", new, text)


def from_packages(text: str, face: bool) -> str:
    """from tinyphysics.rules import exact, jet: a line for each room; `face`: public names stay."""

    def new(m: re.Match[str]) -> str:
        lead, package, names, note = m[1], m[2], m[3], m[4]
        asked = [tuple(x.split(" as ")) for x in re.sub(r"[()\n]", " ", names).split(",") if x.strip()]
        lines: dict[str, list[str]] = {}
        for words in asked:
            name, known = words[0].strip(), words[-1].strip()
            old = f"{package}.{name}"
            place, _, now = (
                (package, "", name)
                if old not in MOVED or old in FACE and (face or name != "vm")
                else MOVED[old].rpartition(".")
            )
            again = " as " in " as ".join(words) and len(words) > 1
            lines.setdefault(place, []).append(now if now == known and not again else f"{now} as {known}")
        if list(lines) == [package]:
            return m[0]
        return (
            f"{note}\n".join(f"{lead}from tinyphysics.{p} import {', '.join(n)}" for p, n in lines.items())
            + note
        )

    names = r"(\([\w\s,]*\)|\w+(?: as \w+)?(?:, \w+(?: as \w+)?)*)"
    return re.sub(
        rf"^([ \t]*(?:>>> |\.\.\. )?)from tinyphysics\.({PACKAGE}) import {names}([ \t]*(?:#.*)?)$",
        new,
        text,
        flags=re.MULTILINE,
    )


def paths(text: str) -> str:
    """rules/exact.py, with or without what is before it, and src/tinyphysics/rules/exact in a list of files."""

    def new(m: re.Match[str]) -> str:
        old = f"{m[2]}.{m[3]}"
        return f"{m[1]}{MOVED[old].replace('.', '/')}" if old in MOVED else m[0]

    text = re.sub(rf"(?<![\w/.-])((?:src/)?(?:tinyphysics/)?)({PACKAGE})/(\w+)(?=\.py\b)", new, text)
    return re.sub(rf"(src/tinyphysics/)({PACKAGE})/(\w+)(?=[,}}])", new, text)


def rewritten(text: str, face: bool) -> str:
    return paths(dotted(from_packages(text, face)))


def texts() -> Iterable[Path]:
    for p in files():
        name = p.relative_to(ROOT).as_posix()
        if (p.suffix in TEXTS or p.name in NAMED) and not name.startswith(AS_THEY_ARE):
            yield p


def rewrite(write: bool) -> list[str]:
    out = []
    for p in texts():
        text = p.read_text(encoding="utf-8")
        new = rewritten(text, face=SOURCE not in p.parents)
        if new != text:
            out.append(p.relative_to(ROOT).as_posix())
            if write:
                p.write_text(new, encoding="utf-8")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="say what is left to do, and fail if there is any"
    )
    if parser.parse_args().check:
        left = [f"move {old}" for old in MOVED if path_of(old).is_file()]
        left += [f"rewrite {name}" for name in rewrite(write=False)]
        raise SystemExit("\n".join(left) or 0)
    moved = move()
    made = make_rooms()
    if lost := homeless():
        raise SystemExit(f"no room is named for {', '.join(lost)}: add it to NEW in tools/rooms.py")
    changed = rewrite(write=True)
    ruff = [sys.executable, "-m", "ruff"]
    subprocess.run([*ruff, "check", "--quiet", "--select", "I", "--fix", "."], cwd=ROOT, check=True)
    subprocess.run([*ruff, "format", "--quiet", "."], cwd=ROOT, check=True)
    print(f"{len(moved)} files moved, {len(made)} rooms made, {len(changed)} files rewritten")


if __name__ == "__main__":
    main()
