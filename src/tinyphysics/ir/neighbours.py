"""In which order are points taken so that neighbours are close together?  Columns, back and forth; a definition.

The order of a sum over neighbours follows it, so it is part of the meaning of NEAR: made of additions,
products, quotients, comparisons and integers, which every machine rounds alike. Space is cut into columns so wide
that eight points of a column are about a cube; columns follow each other like the furrows of a field, and so do
the points in them. The other order is that of Morton: the bits of the places along each axis in turn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinyphysics.errors import InputError

BLOCK = 8  # points that are looked at together
MOST_COLUMNS = 2048  # along one axis
INSIDE = math.nextafter(1.0, 0.0)
Row = Sequence[float]


def inverse(cell: Sequence[Row]) -> list[list[float]]:
    """The inverse of a cell of one to three vectors, by cofactors; of a diagonal one it is exact to a rounding."""
    d = len(cell)
    if d == 1:
        return [[1.0 / cell[0][0]]]
    if d == 2:
        (a, b), (c, e) = cell
        det = a * e - b * c
        return [[e / det, -b / det], [-c / det, a / det]]
    cofactors = [[cross(cell, i, j) for j in range(3)] for i in range(3)]
    det = determinant(cell)
    return [[cofactors[j][i] / det for j in range(3)] for i in range(3)]


def cross(m: Sequence[Row], i: int, j: int) -> float:
    r, s = (i + 1) % 3, (i + 2) % 3
    c, t = (j + 1) % 3, (j + 2) % 3
    return m[r][c] * m[s][t] - m[r][t] * m[s][c]


def determinant(cell: Sequence[Row]) -> float:
    """The volume of a cell; negative if it is left-handed."""
    d = len(cell)
    if d == 1:
        return cell[0][0]
    if d == 2:
        return cell[0][0] * cell[1][1] - cell[0][1] * cell[1][0]
    return sum(cell[0][j] * cross(cell, 0, j) for j in range(3))


def widths(cell: Sequence[Row]) -> list[float]:
    """The distances between opposite faces of a cell.

    >>> widths([[2.0, 0.0], [1.0, 2.0]])
    [1.7888543819998317, 2.0]
    """
    back = inverse(cell)
    return [1.0 / math.sqrt(sum(back[i][k] * back[i][k] for i in range(len(cell)))) for k in range(len(cell))]


def columns(lengths: Sequence[float], n: int) -> list[int]:
    """Into how many parts each axis but the last is cut; by multiplications alone, so that all agree on it."""
    long = [x for x in lengths if x > 0.0 and math.isfinite(x)]
    volume = BLOCK * math.prod(long) / max(n, 1)  # of a cube of points

    def fits(parts: int, length: float) -> bool:
        return volume * math.prod([parts - 0.5] * len(long)) <= math.prod([length] * len(long))

    out = []
    for x in lengths[:-1]:
        low, high = 1, MOST_COLUMNS + 1
        while x in long and high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle, x) else (low, middle)
        out.append(low)
    return out


def bits(parts: Sequence[int], n: int) -> tuple[int, int]:
    """(bits of an index, bits of a place within a column) in a key of 62 bits."""
    index = max(n - 1, 1).bit_length()
    return index, min(24, 62 - index - math.prod(parts).bit_length())


def fractions(
    points: Sequence[Row], cell: Sequence[Row] | None
) -> tuple[list[list[float]], list[list[float]], list[float]]:
    """(places between 0 and 1 along each axis; periods from the origin; lengths of the axes)."""
    d = len(points[0]) if points else 1
    whole = [[x if math.isfinite(x) else 0.0 for x in p] for p in points]
    if cell is None:
        low = [min((p[k] for p in whole), default=0.0) for k in range(d)]
        lengths = [max((p[k] for p in whole), default=0.0) - low[k] for k in range(d)]
        at = [[(p[k] - low[k]) / lengths[k] if lengths[k] > 0.0 else 0.0 for k in range(d)] for p in whole]
        return [[min(x, INSIDE) for x in p] for p in at], [[0.0] * d for _ in points], lengths
    back = inverse(cell)
    at = [[sum_in_turn([p[i] * back[i][k] for i in range(d)]) for k in range(d)] for p in whole]
    periods = [[float(math.floor(x)) for x in p] for p in at]
    inside = [[min(x - k, INSIDE) for x, k in zip(p, q)] for p, q in zip(at, periods)]
    return inside, periods, widths(cell)


def sum_in_turn(terms: Sequence[float]) -> float:
    out = terms[0]
    for x in terms[1:]:
        out = out + x
    return out


COLUMNS, MORTON = CURVES = (0, 1)  # ways through space


def levels(d: int, n: int) -> int:
    """Bits of a place along each axis in a key of Morton, behind which there is room for an index."""
    return min(16, (62 - max(n - 1, 1).bit_length()) // d)


def morton(p: Row, depth: int) -> int:
    """The bits of the places along each axis in turn.

    >>> morton([0.5, 0.25], 2)
    9
    """
    places = [int(x * 2.0**depth) for x in p]
    key = 0
    for level in reversed(range(depth)):
        for x in places:
            key = key << 1 | x >> level & 1
    return key


def arranged(
    points: Sequence[Row], cell: Sequence[Row] | None, curve: int = COLUMNS
) -> tuple[list[int], list[list[float]]]:
    """(the order of the points, by index; how many periods each is from the cell at the origin).

    >>> arranged([[0.9], [0.1], [0.5]], None)[0]
    [1, 2, 0]
    """
    n = len(points)
    at, periods, lengths = fractions(points, cell)
    parts = columns(lengths, n)
    index, depth = bits(parts, n)
    if curve == MORTON:
        by_bits = sorted(morton(p, levels(len(lengths), n)) << index | i for i, p in enumerate(at))
        return [k & ((1 << index) - 1) for k in by_bits], periods
    keys = []
    for i, p in enumerate(at):
        column = 0
        for x, c in zip(p, parts):
            k = min(int(x * c), c - 1)
            column = column * c + (c - 1 - k if column % 2 else k)
        z = int(p[-1] * 2.0**depth)
        keys.append((column << depth | (2**depth - 1 - z if column % 2 else z)) << index | i)
    return [k & ((1 << index) - 1) for k in sorted(keys)], periods


# --- lists ----------------------------------------------------------------------------------------
SKIN = 0.15  # of the cutoff, where none is given


def check_cell(cell: Sequence[Row]) -> None:
    """An InputError if the vectors of a box are none."""
    lengths = [row[k] for k, row in enumerate(cell)]
    straight = all(x == 0.0 for k, row in enumerate(cell) for j, x in enumerate(row) if j != k)
    if straight and not all(0.0 < x < math.inf for x in lengths):
        raise InputError(
            f"a box of {' x '.join(f'{x:g}' for x in lengths)}", fix="Its lengths are above zero, and finite."
        )
    if not all(math.isfinite(x) for row in cell for x in row) or not determinant(cell) > 0.0:
        what = "left-handed" if determinant(cell) < 0.0 else "singular"
        raise InputError(
            f"the cell {[list(row) for row in cell]} is {what}",
            fix="Its rows are the vectors of the box, right-handed; lengths are positive.",
        )


def skin_of(cutoff: float, skin: float, cell: Sequence[Row] | None) -> float:
    """The skin of a list, chosen if it is negative; an InputError if there is no room for it, or no list at all."""
    if not (math.isfinite(cutoff) and cutoff > 0.0):
        raise InputError(f"cutoff={cutoff:g} is not a distance", fix="A cutoff is positive and finite.")
    if cell is None:
        return SKIN * cutoff if skin < 0.0 else skin
    check_cell(cell)
    room = min(widths(cell)) / 2.0 - cutoff
    if room < max(skin, 0.0):
        more = f" + skin {skin:g}" if skin > 0.0 else ""
        raise InputError(
            f"cutoff {cutoff:g}{more} is over half the width of the box, {min(widths(cell)) / 2.0:g}",
            fix="A particle would interact with two images of another: enlarge the box or shorten the cutoff.",
        )
    return min(SKIN * cutoff, room) if skin < 0.0 else skin


def reach(cutoff: float, skin: float) -> float:
    """How far apart points may be when a list is made that may be neighbours before it is made again."""
    return (cutoff + skin) * (1.0 + 1e-12)


def limit(skin: float) -> float:
    """The square of the way that a point may go before the list is made again."""
    return 0.25 * skin * skin
