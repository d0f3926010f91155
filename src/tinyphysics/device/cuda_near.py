"""How does a device see a list of neighbours?  Made on this machine (device/near.py), turned round, and sent there."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinyphysics.device import cuda
from tinyphysics.device.near import NearList
from tinyphysics.ir.near import BLOCK
from tinyphysics.ir.reduction import slabs

Turn = Callable[..., None]  # emit/list_columns.py


def turned(starts: Any, blocks: Any, n: int, turn: Turn) -> tuple[Any, Any]:
    """(where the rows of each block and slab begin, all rows)."""
    cuts = np.array(slabs(n, True))
    parts = len(cuts) - 1
    places = np.zeros(-(-n // BLOCK) * parts + 1, np.int64)
    rows = np.zeros(int(starts[n]) + 1, np.int32)
    turn(starts, blocks, n, parts, cuts, places, rows, 0)
    np.cumsum(places, out=places)
    turn(starts, blocks, n, parts, cuts, places.copy(), rows, 1)
    return places, rows


def shown(near: NearList, turn: Turn) -> dict[str, cuda.Buffer]:
    """A list as it was made last, on the device: by the names of its buffers."""
    n = near.spec.shape[0]
    columns, rows = turned(near.made["starts"], near.made["blocks"], n, turn)
    entries = max(int(near.made["starts"][n]), 1)
    arrays = near.made | {"columns": columns, "rows": rows, "blocks": near.made["blocks"][:entries]}
    return {near.spec.name(what): cuda.upload(a) for what, a in arrays.items()}
