"""Which rows of a table show every combination of so many values, at the least cost?

>>> rows = [(a, b, c) for a in range(3) for b in range(2) for c in range(2)]
>>> [rows[k] for k in covering(rows, strength=2)]
[(0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1), (2, 0, 1), (2, 1, 0)]
>>> covering(rows, strength=1)
[0, 7, 8]
>>> covering(rows, strength=1, costs=[1, 9, 9, 9, 1, 9, 9, 9, 9, 9, 9, 1])
[0, 4, 11]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations


def covering(rows: Sequence[tuple[int, ...]], strength: int = 2, costs: Sequence[float] = ()) -> list[int]:
    """Numbers of rows in which each combination of `strength` columns' values occurs that occurs in some row.

    Greedy: the row that shows the most that is new for its cost, then the one whose values were used least, then the first.
    """
    if not rows:
        return []
    columns = list(combinations(range(len(rows[0])), min(strength, len(rows[0]))))
    shows = [{(at, tuple(row[i] for i in at)) for at in columns} for row in rows]
    cost = list(costs) or [1.0] * len(rows)
    missing, used, taken = set().union(*shows), Counter[tuple[int, int]](), set[int]()
    while missing:
        best = max(
            (k for k in range(len(rows)) if k not in taken),
            key=lambda k: (len(shows[k] & missing) / cost[k], -sum(used[p] for p in enumerate(rows[k])), -k),
        )
        missing -= shows[best]
        used.update(enumerate(rows[best]))
        taken.add(best)
    return sorted(taken)
