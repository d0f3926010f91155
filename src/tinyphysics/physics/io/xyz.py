"""How is extended XYZ read and written?  A count, a line of key=value, a line for each particle; frame after frame.

Numbers are written with as many digits as bring back their bits. Columns are named by Properties=name:type:width:...,
with the types S (word), R (real), I (integer) and L (T or F); the box by Lattice="..." with its edges one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, StoreError
from tinyphysics.physics.cells import cell
from tinyphysics.physics.io.frames import Frames, from_run, in_one_piece
from tinyphysics.trajectory import Trajectory

PLAIN = (("species", "S", 1), ("pos", "R", 3))  # of a file that does not say: plain XYZ
PAIR = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^\s="]+)(?:\s*=\s*("(?:[^"\\]|\\.)*"|\{[^}]*\}|\[.*\]|\S+))?')
TRUTH = dict.fromkeys(("T", "true", "True", "TRUE"), True) | dict.fromkeys(
    ("F", "false", "False", "FALSE"), False
)


# --- writing ----------------------------------------------------------------------------------------
def write_xyz(
    path: Any,
    out: Trajectory | Frames,
    *,
    species: Any = "X",
    box: Any = None,
    member: int | None = None,
    positions: str | None = None,
) -> None:
    """Writes all frames of a run, with momenta, energy, time and step; the file is complete or not written at all.

    `species` is a word for all or one for each; `box` one length, three, or edges as rows. What was read
    by read_xyz or read_gsd can be written again, and keeps its own.
    """
    frames = out if isinstance(out, Frames) else from_run(out, species, box, member, positions)[0]
    with in_one_piece(path) as part, open(part, "w", encoding="utf-8", newline="\n") as file:
        for k in range(len(frames)):
            file.writelines(line + "\n" for line in lines_of(frames, k))


def lines_of(f: Frames, k: int) -> Iterator[str]:
    columns: list[tuple[str, Any]] = [("species", np.array(f.species)), ("pos", f.q[k])]
    columns += [(name, np.asarray(v)[k]) for name, v in f.columns.items()]
    kinds = ":".join(f"{name}:{kind_of(name, v)}:{1 if v.ndim == 1 else v.shape[1]}" for name, v in columns)
    told = [] if f.box is None else [f'Lattice="{" ".join(map(repr, np.ravel(f.box[k]).tolist()))}"']
    told += [f"Properties={kinds}", f'pbc="{" ".join("FT"[p] for p in f.pbc)}"']
    told += [f"{name}={written(value)}" for name, value in (f.info[k] if f.info else {}).items()]
    yield str(len(f.species))
    yield " ".join(told)
    cells = [[shown(x) for x in v.reshape(len(v), -1).T.tolist()] for _, v in columns]
    yield from map(" ".join, zip(*(column for group in cells for column in group)))


def shown(column: list[Any]) -> list[str]:
    return ["FT"[x] if isinstance(x, bool) else x if isinstance(x, str) else repr(x) for x in column]


def kind_of(name: str, v: Any) -> str:
    kind = {"U": "S", "f": "R", "i": "I", "u": "I", "b": "L"}.get(v.dtype.kind)
    if kind is None or ":" in name or any(c.isspace() for c in name) or v.ndim > 2:
        raise InputError(
            f"the column `{name}` of {v.dtype}, shape {v.shape}, cannot be written",
            fix="A column holds words, reals, integers or truth values; its name has no space and no colon.",
        )
    if kind == "R" and not np.isfinite(v).all():
        raise InputError(f"the column `{name}` is not finite", fix="Leave the frame out.")
    return kind


def written(value: Any) -> str:
    """A value of the comment line: true words, numbers to the last bit, arrays as rows of numbers in quotes."""
    if isinstance(value, (bool, np.bool_)):
        return "FT"[bool(value)]
    if isinstance(value, (int, float, np.integer, np.floating)):
        return repr(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, np.ndarray):
        return '"' + " ".join(written(x) for x in value.ravel()) + '"'
    text = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{text}"'


# --- reading ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Place:
    """Where in a file, for what is wrong there."""

    path: str
    line: int  # from 1

    def wrong(self, what: str, fix: str = "") -> StoreError:
        return StoreError(f"{self.path}:{self.line}: {what}", fix=fix or None)


def located(path: Any) -> Path:
    """The path of a file, or what is wrong with it."""
    try:
        out = Path(path)
    except TypeError:
        raise InputError(f"{path!r} is not a path", fix='Pass the name of a file: "start.xyz".') from None
    if not out.exists():
        raise StoreError(
            f"`{path}` could not be read: No such file",
            fix=f"Check its name; relative paths start at {Path.cwd()}.",
        )
    if out.is_dir():
        raise StoreError(f"`{path}` is a directory", fix="Pass the name of a file in it.")
    return out


def text_of(path: Any, what: str, fix: str) -> str:
    """The text of a file; `fix` is what to try if it is not text."""
    try:
        return located(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise StoreError(f"`{path}` is not text, and {what} is: {error.reason}", fix=fix) from error
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(
            f"`{path}` could not be read: {error.strerror or error}", fix="Check its permissions."
        ) from error


@dataclass(frozen=True)
class XyzFrame:
    columns: dict[str, Any]
    kinds: tuple[tuple[str, str, int], ...]
    info: dict[str, Any]
    box: Any
    pbc: tuple[bool, ...]
    place: Place


def read_xyz(path: Any) -> Frames:
    """Reads all frames of an XYZ file; every frame must have the same particles in the same order."""
    text = text_of(path, "an XYZ file", "Is it GSD? Read it with read_gsd.")
    frames = list(each(str(path), text.split("\n")))
    if not frames:
        raise StoreError(f"`{path}` holds no frame", fix="The file is empty or incomplete.")
    first = frames[0]
    for f in frames[1:]:
        if f.kinds != first.kinds or not np.array_equal(f.columns["species"], first.columns["species"]):
            raise f.place.wrong(
                "this frame has other particles or columns than the first one", "Split the file there."
            )
        if (f.box is None) != (first.box is None) or f.pbc != first.pbc:
            raise f.place.wrong(
                "this frame has another kind of box than the first one", "Split the file there."
            )
    names = [name for name, _, _ in first.kinds if name not in ("species", "pos")]
    extra = {name: np.stack([f.columns[name] for f in frames]) for name in names}
    box = None if first.box is None else np.stack([f.box for f in frames])
    pbc = (first.pbc[0], first.pbc[1], first.pbc[2])
    return Frames(
        np.stack([f.columns["pos"] for f in frames]),
        tuple(first.columns["species"].tolist()),
        extra,
        box,
        pbc,
        tuple(f.info for f in frames),
    )


def each(path: str, lines: list[str]) -> Iterator[XyzFrame]:
    while lines and not lines[-1].strip():
        lines.pop()
    at = 0
    while at < len(lines):
        here = Place(path, at + 1)
        word = lines[at].strip()
        if not re.fullmatch(r"[0-9]+", word) or int(word) < 1:
            raise here.wrong(
                f"`{word[:40]}` is not a number of particles",
                "A frame begins with one, on a line of its own.",
            )
        n = int(word)
        if len(lines) < at + 2 + n:
            have = max(len(lines) - at - 2, 0)
            raise Place(path, len(lines)).wrong(
                f"the file ends here: the frame at line {at + 1} has {have} of {n} particles",
                "The file is incomplete: write it again.",
            )
        yield one(Place(path, at + 2), lines[at + 1], lines[at + 2 : at + 2 + n])
        at += 2 + n


def one(here: Place, comment: str, rows: list[str]) -> XyzFrame:
    info = pairs(comment)
    kinds = properties(here, info.pop("Properties", None))
    box = lattice(here, info.pop("Lattice", None))
    pbc = info.pop("pbc", None)
    flags = [box is not None] * 3 if pbc is None else [TRUTH.get(w) for w in str(pbc).split()]
    if len(flags) != 3 or None in flags:
        raise here.wrong(f'pbc="{pbc}" is not three of T and F', 'Expected pbc="T T F".')
    table = []
    width = sum(n for _, _, n in kinds)
    for k, row in enumerate(rows):
        words = row.split()
        if len(words) != width:
            raise Place(here.path, here.line + 1 + k).wrong(
                f"{len(words)} columns where Properties says {width}",
                f"Expected {', '.join(name if n == 1 else f'{n} of {name}' for name, _, n in kinds)}.",
            )
        table.append(words)
    columns, start = {}, 0
    for name, kind, n in kinds:
        found = [column(here, [row[c] for row in table], name, kind) for c in range(start, start + n)]
        columns[name] = np.stack(found, -1) if n > 1 else found[0]
        start += n
    values = {name: valued(value) for name, value in info.items()}
    return XyzFrame(columns, kinds, values, box, tuple(bool(x) for x in flags), here)


def pairs(comment: str) -> dict[str, Any]:
    """key=value ...; a key alone is true."""
    out: dict[str, Any] = {}
    for match in PAIR.finditer(comment):
        key, value = (bare(x) if x is not None else None for x in match.groups())
        if key:
            out[key] = "T" if value is None else value
    return out


def bare(word: str) -> str:
    if word[:1] == '"' and word[-1:] == '"' and len(word) > 1:
        return re.sub(r"\\(.)", r"\1", word[1:-1])
    return word[1:-1] if word[:1] == "{" and word[-1:] == "}" else word


def valued(text: str) -> Any:
    """A truth, a number, an array of numbers, or the text."""
    if text in TRUTH:
        return TRUTH[text]
    words = text.split()
    for kind in (int, float):
        try:
            numbers = [kind(w) for w in words]
        except ValueError:
            continue
        return numbers[0] if len(numbers) == 1 else np.array(numbers) if numbers else text
    return text


def properties(here: Place, text: str | None) -> tuple[tuple[str, str, int], ...]:
    if text is None:
        return PLAIN
    words = text.split(":")
    triples = [(words[k], words[k + 1], words[k + 2]) for k in range(0, len(words) - 2, 3)]
    known = all(kind in ("S", "R", "I", "L") and re.fullmatch("[1-9][0-9]{0,3}", n) for _, kind, n in triples)
    good = len(words) % 3 == 0 and known
    names = [name for name, _, _ in triples]
    if not good or len(set(names)) < len(names):
        raise here.wrong(
            f"Properties={text} is not name:type:width, each name once", "Types are S, R, I and L."
        )
    out = tuple((name, kind, int(n)) for name, kind, n in triples)
    if ("species", "S", 1) not in out or ("pos", "R", 3) not in out:
        raise here.wrong(
            "there is no species:S:1 and pos:R:3 among the Properties",
            "Expected Properties=species:S:1:pos:R:3.",
        )
    return out


NINE = 'Expected the three edges of the box, nine numbers: Lattice="5 0 0 0 5 0 0 0 5".'


def lattice(here: Place, text: str | None) -> Any:
    if text is None:
        return None
    try:
        numbers = [float(w) for w in text.split()]
        if len(numbers) != 9:
            raise ValueError("it has not nine numbers")
        return cell(np.reshape(numbers, (3, 3)))
    except InputError as error:
        raise here.wrong(f'Lattice="{text}": {error.what}', NINE) from None
    except ValueError as error:
        raise here.wrong(f'Lattice="{text}": {error}', NINE) from None


SUCH = {"R": "1.25", "I": "3", "L": "T"}


def column(here: Place, words: list[str], name: str, kind: str) -> Any:
    """One column as an array; what does not belong there is named with its line."""
    if kind == "S":
        return np.array(words)
    try:
        if kind == "L":
            return np.array([TRUTH[w] for w in words])
        if kind == "I":
            return np.array([int(w) for w in words], np.int64)
        out = np.array(words, dtype=np.float64)
        if np.isfinite(out).all():
            return out
    except (KeyError, ValueError, OverflowError):
        pass
    for k, w in enumerate(words):
        if not fits(w, kind):
            what = {"R": "finite number", "I": "whole number of 64 bits", "L": "truth, T or F"}[kind]
            raise Place(here.path, here.line + 1 + k).wrong(
                f"`{w[:40]}` in the column `{name}` is not a {what}", f"Expected one, such as {SUCH[kind]}."
            )
    raise AssertionError("a column that fits was not read")


def fits(word: str, kind: str) -> bool:
    if kind == "L":
        return word in TRUTH
    try:
        return bool(np.isfinite(float(word))) if kind == "R" else abs(int(word)) < 2**63
    except ValueError:
        return False
