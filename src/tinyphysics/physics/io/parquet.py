"""How are initial states read from a Parquet file?  By pyarrow: a column for each number, or lists for vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.errors import StoreError
from tinyphysics.physics.io.comma_separated import Columns, arranged
from tinyphysics.physics.io.reading import package
from tinyphysics.physics.io.xyz import located


def read_parquet(path: Any, columns: Columns | None = None) -> dict[str, Any]:
    """Reads the columns of a Parquet file as arrays by name, for `sim.evolve(**read_parquet("states.parquet"), ...)`.

    A column of lists of one length is an array of shape (rows, length). Names and `columns` mean what they mean to
    `read_csv`, and numbers stay in the units of the file.
    """
    reader = package("pyarrow.parquet", "Parquet files need the package pyarrow", "tables")
    place = located(path)
    try:
        table = reader.read_table(str(place))
    except (OSError, ValueError) as error:  # whatever pyarrow makes of another or a damaged file
        raise StoreError(
            f"`{path}` could not be read as Parquet: {str(error).splitlines()[0]}",
            fix="Is it CSV? Read it with read_csv.",
        ) from error
    if not table.num_rows:
        raise StoreError(f"`{path}` has no rows", fix="Expected a row for each particle or member.")
    found = {name: column(str(path), name, table.column(name)) for name in table.column_names}
    return arranged(found, columns, str(path))


def column(path: str, name: str, values: Any) -> Any:
    """One column as numbers, or as words; an error that names the first row that is not finite or not there."""
    rows = values.to_pylist()
    missing = next((k for k, x in enumerate(rows) if x is None), None)
    if missing is not None:
        raise StoreError(
            f"{path}: row {missing} of the column `{name}` is empty", fix="Expected a number in every row."
        )
    if all(isinstance(x, str) for x in rows):
        return np.array(rows)
    lengths = {len(x) for x in rows if isinstance(x, list)}
    if len(lengths) > 1:
        raise StoreError(
            f"{path}: the lists of the column `{name}` have the lengths {', '.join(map(str, sorted(lengths)))}",
            fix="Expected lists of one length: the components of a vector.",
        )
    try:
        out = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise StoreError(
            f"{path}: the column `{name}` holds {values.type}, which are not numbers",
            fix="Leave it out with columns=.",
        ) from None
    bad = np.argwhere(~np.isfinite(out))
    if len(bad):
        raise StoreError(
            f"{path}: row {bad[0][0]} of the column `{name}` is not a finite number",
            fix="Expected a number in every row.",
        )
    return out
