"""How are initial states read from a CSV file?  A header of names, then a row for each particle or each member of an
ensemble."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, StoreError
from tinyphysics.physics.io.reading import lines_of
from tinyphysics.physics.io.xyz import Place

INDEXED = re.compile(r"(\w+)\[(\d+)\]")  # q[0], q[1], ...: the components of q
Columns = Mapping[str, str | Sequence[str]]


def read_csv(path: Any, columns: Columns | None = None) -> dict[str, Any]:
    """Reads the columns of a CSV file as arrays by name, for `sim.evolve(**read_csv("states.csv"), ...)`.

    Columns named q[0], q[1], ... become one array q of shape (rows, components). `columns` chooses and renames:
    columns={"q": ("x", "y", "z"), "m": "mass"}. A row is a particle where the system has q: tp.Array["n", 3], and a
    member of an ensemble where it has q: tp.Vec[3]. Numbers stay in the units of the file. Lines that begin with #
    are comments.
    """
    lines = lines_of(path, "a CSV file")
    kept = [
        (k + 1, line) for k, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")
    ]
    if not kept:
        raise StoreError(
            f"`{path}` has no header", fix="Expected names in its first line: q[0],q[1],p[0],p[1]."
        )
    where, head = kept[0]
    delimiter = next((d for d in (",", ";", "\t") if d in head), ",")
    names = [name.strip() for name in fields(head, delimiter)]
    place = Place(str(path), where)
    if "" in names or len(set(names)) < len(names):
        twice = next((n for n in names if names.count(n) > 1), "")
        raise place.wrong(
            f"the column `{twice}` is there twice" if twice else "a column has no name",
            "Name each column once.",
        )
    if all(is_number(n) for n in names):
        raise place.wrong("the first line has numbers", "Expected a header of names: q[0],q[1],p[0],p[1].")
    table: dict[str, list[str]] = {name: [] for name in names}
    for at, line in kept[1:]:
        words = fields(line, delimiter)
        if len(words) != len(names):
            raise Place(str(path), at).wrong(
                f"{len(words)} columns, and the header has {len(names)}", f"Expected {', '.join(names[:6])}."
            )
        for name, word in zip(names, words):
            table[name].append(word.strip())
    if len(kept) < 2:
        raise place.wrong("there are no rows below the header", "Expected a row for each particle or member.")
    rows = [k for k, _ in kept[1:]]
    return arranged(
        {name: column(str(path), rows, name, words) for name, words in table.items()}, columns, str(path)
    )


def fields(line: str, delimiter: str) -> list[str]:
    return next(csv.reader(io.StringIO(line), delimiter=delimiter))


def is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def column(path: str, at: Sequence[int], name: str, words: Sequence[str]) -> Any:
    """Numbers, or words where no row has a number; a mixture is named with its line."""
    good = [is_number(w) for w in words]
    if all(good):
        return np.array([float(w) for w in words])
    if all(is_number(w.replace(",", ".")) for w in words):
        raise Place(path, at[good.index(False)]).wrong(
            f"`{words[good.index(False)][:40]}` in the column `{name}` has a decimal comma",
            "Expected a decimal point: 0.5.",
        )
    if not any(good) and all(words) and not any(w.lower() in ("nan", "inf", "-inf") for w in words):
        return np.array(words)
    k = good.index(False)
    raise Place(path, at[k]).wrong(
        f"`{words[k][:40]}` in the column `{name}` is not a finite number", "Expected a number in every row."
    )


def arranged(table: Mapping[str, Any], columns: Columns | None, path: str) -> dict[str, Any]:
    """The columns that are asked for, components joined; also of other tables."""
    if columns is not None:
        return {name: chosen(table, name, source, path) for name, source in columns.items()}
    joined: dict[str, list[tuple[int, str]]] = {}
    for name in table:
        if found := INDEXED.fullmatch(name):
            joined.setdefault(found[1], []).append((int(found[2]), name))
    out: dict[str, Any] = {}
    for name, value in table.items():
        found = INDEXED.fullmatch(name)
        if found is None:
            out[name] = value
        elif found[1] not in out:
            order = sorted(joined[found[1]])
            if [k for k, _ in order] != list(range(len(order))):
                raise StoreError(
                    f"`{path}` has the columns {', '.join(n for _, n in order)}",
                    fix=f"Components are counted from 0, none left out: {found[1]}[0], {found[1]}[1].",
                )
            out[found[1]] = np.stack([table[n] for _, n in order], -1)
    return out


def chosen(table: Mapping[str, Any], name: str, source: str | Sequence[str], path: str) -> Any:
    wanted = [source] if isinstance(source, str) else list(source)
    for column_ in wanted:
        if column_ not in table:
            raise InputError(
                f"`{path}` has no column `{column_}`, which columns= wants for {name}",
                fix=f"It has {', '.join(table)}.",
            )
    found = [table[c] for c in wanted]
    return found[0] if isinstance(source, str) else np.stack(found, -1)
