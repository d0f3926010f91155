"""How far did an observable of a run go from where it began?  Over every step, relative to the sizes of its terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tinyphysics.tpir.precision.probe import REST


class Excursion:
    """What is kept of the values of every step: the largest |X - X0|, the largest terms, the first that is no number."""

    def __init__(self, members: int, wide: bool) -> None:
        self.wide, self.first, self.rest = wide, None, None
        self.worst, self.scale = np.zeros(members), np.zeros(members)
        self.bad, self.rows = np.full(members, np.iinfo(np.int64).max), np.zeros(members, np.int64)

    first: Any  # (members, shape...)
    rest: Any

    def add(self, values: Mapping[str, Any], here: slice) -> None:
        """Rows (steps, members, shape...) of some members; the first call is about step 0 and everyone."""
        x, terms = values["value"], values["scale"]
        if self.first is None:
            self.first = np.array(x[0])
            self.rest = np.array(values[f"{REST}value"][0]) if self.wide else None
        good = flat(np.isfinite(x) & np.isfinite(terms)).all(axis=2)
        if not good.all():
            first = np.where(good.all(axis=0), np.iinfo(np.int64).max, self.rows[here] + good.argmin(axis=0))
            np.minimum(self.bad[here], first, out=self.bad[here])
        self.rows[here] += len(x)
        with np.errstate(invalid="ignore"):
            off = x - self.first[here]
            off = np.abs(off + (values[f"{REST}value"] - self.rest[here]) if self.wide else off)
            for kept, rows in ((self.worst, off), (self.scale, terms)):
                np.fmax(kept[here], np.fmax.reduce(flat(rows), axis=(0, 2)), out=kept[here])

    def over(self, stopped: Mapping[int, int]) -> tuple[Any, int | None]:
        """(by member, the first step that is no number); NaN for members whose value was none before they stopped."""
        end = np.full(len(self.bad), np.iinfo(np.int64).max)
        for member, step in stopped.items():
            end[member] = step
        failed = self.bad < end
        out = self.worst / np.where(self.scale > 0.0, self.scale, 1.0)
        out[failed] = np.nan
        return out, int(self.bad[failed].min()) if failed.any() else None


def flat(rows: Any) -> Any:
    return rows.reshape(*rows.shape[:2], -1)
