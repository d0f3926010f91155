"""Where do many particles start?  On a lattice or anywhere in a box, with the velocities of a temperature.

Positions come with their box, an array of its edges; momenta are those of the masses. A seed means one state: draws
by Philox, and +, *, / and sqrt alone, so that the bits do not depend on the machine.
"""

from __future__ import annotations

import itertools
import math
from operator import index
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.physics.draws import normal, uniform
from tinyphysics.physics.portable import cube_root, mean_of

VELOCITIES, POSITIONS = 16, 17  # streams of their own: one seed may serve both
ATTEMPTS = 1000  # places that are tried for one particle before the box counts as full
ROOT3 = math.sqrt(3.0)

# edges of a cell in units of its first, and the sites in it in units of its edges
# fmt: off
LATTICES: dict[str, tuple[tuple[float, ...], tuple[tuple[float, ...], ...]]] = {
    "cubic":     ((1, 1, 1),  ((0, 0, 0),)),
    "bcc":       ((1, 1, 1),  ((0, 0, 0), (0.5, 0.5, 0.5))),
    "fcc":       ((1, 1, 1),  ((0, 0, 0), (0.5, 0.5, 0), (0.5, 0, 0.5), (0, 0.5, 0.5))),
    "diamond":   ((1, 1, 1),  ((0, 0, 0), (0.5, 0.5, 0), (0.5, 0, 0.5), (0, 0.5, 0.5), (0.25, 0.25, 0.25),
                               (0.75, 0.75, 0.25), (0.75, 0.25, 0.75), (0.25, 0.75, 0.75))),
    "square":    ((1, 1),     ((0, 0),)),
    "hexagonal": ((1, ROOT3), ((0, 0), (0.5, 0.5))),
}
# fmt: on


def positive(name: str, value: Any) -> float:
    x = float(value) if isinstance(value, (int, float, np.number)) else math.nan
    if not 0 < x < math.inf:
        raise InputError(f"{name}={value!r} is not a positive number", fix=f"Pass {name}=1.0.")
    return x


def counted(name: str, value: Any, least: int = 1) -> int:
    if not hasattr(value, "__index__") or isinstance(value, bool) or index(value) < least:
        raise InputError(
            f"{name}={value!r} is not a whole number, {least} or larger", fix=f"Pass {name}={max(least, 10)}."
        )
    return index(value)


# --- positions --------------------------------------------------------------------------------------
def lattice(
    kind: str, cells: Any = None, *, count: int | None = None, density: float = 1.0
) -> tuple[Any, Any]:
    """(positions, box) of a lattice with so many particles per volume; `cells` along each axis, or particles in all.

    >>> q, box = lattice("fcc", 2, density=4.0)
    >>> q.shape, box.tolist()
    ((32, 3), [2.0, 2.0, 2.0])
    """
    if kind not in LATTICES:
        raise InputError(f"there is no lattice {kind!r}", fix=f"Lattices: {', '.join(LATTICES)}.")
    edges, sites = LATTICES[kind]
    d = len(edges)
    if (cells is None) == (count is None):
        raise InputError(
            "give either cells or count=",
            fix=f'lattice("{kind}", 5) or lattice("{kind}", count={len(sites) * 5**d}).',
        )
    if count is not None:
        cells = cells_for(kind, counted("count", count), len(sites), d)
    shape = tuple(counted("cells", n) for n in (cells if isinstance(cells, (tuple, list)) else (cells,) * d))
    if len(shape) != d:
        raise InputError(f"cells={cells!r} along {d} axes", fix=f"Pass one number, or {d}.")
    volume = len(sites) / (positive("density", density) * math.prod(edges))
    a = float(cube_root(volume)) if d == 3 else math.sqrt(volume)
    corners = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1).reshape(-1, 1, d)
    lengths = a * np.array(edges)
    return ((corners + np.array(sites)) * lengths).reshape(-1, d), np.array(shape) * lengths


def cells_for(kind: str, count: int, sites: int, d: int) -> int:
    """Cells along each axis that hold exactly so many particles."""
    n = 1
    while sites * (n + 1) ** d <= count:
        n += 1
    if sites * n**d != count:
        raise InputError(
            f"no {kind} lattice of equal edges has {count} sites",
            fix=f"The nearest sizes have {sites * n**d} and {sites * (n + 1) ** d}; or choose the cells "
            "along each axis.",
        )
    return n


def random_liquid(
    n: int, density: float | None = None, distance: float = 0.0, seed: int = 0, *, box: Any = None
) -> tuple[Any, Any]:
    """(positions, box) of n particles anywhere in a periodic box, no two of them nearer than `distance`.

    One after the other, each at the first free place of its own sequence. Above a third of the volume or so
    (spheres of that diameter) no place is left: start from a lattice, or nearer and `sim.minimise`.
    """
    n = counted("n", n, 0)
    if (density is None) == (box is None):
        raise InputError(
            "give either density or box=", fix=f"random_liquid({n}, density=0.5) or box=[10.0, 10.0, 10.0]."
        )
    if density is not None:
        box = np.full(3, float(cube_root(n / positive("density", density))))
    box = np.array([positive("box", x) for x in np.atleast_1d(np.asarray(box, float)).tolist()])
    if distance and 2 * positive("distance", distance) > box.min():
        raise InputError(
            f"distance={distance} in a box of {box.tolist()}", fix="It can be at most half an edge."
        )
    trials: list[Any] = []  # the k-th place of every particle
    grid = Grid(box, distance)
    q = np.empty((n, len(box)))
    for i in range(n):
        for k in itertools.count():
            if k == ATTEMPTS:
                raise InputError(
                    f"found no free place for particle {i} of {n} at distance={distance} in a box of {box.tolist()}",
                    fix="Use a smaller distance and then sim.minimise, or start from a lattice.",
                )
            if k == len(trials):
                trials.append(anywhere(n, box, seed, k))
            if grid.takes(trials[k][i]):
                q[i] = trials[k][i]
                break
    return q, box


def anywhere(n: int, box: Any, seed: int, attempt: int) -> Any:
    """(n, d) places in a box; row i does not depend on n."""
    pairs = [uniform(n, seed, POSITIONS + k, attempt) for k in range((len(box) + 1) // 2)]
    return np.concatenate(pairs, axis=1)[:, : len(box)] * box


class Grid:
    """Points of a periodic box in cells, so that only neighbours are compared."""

    def __init__(self, box: Any, distance: float) -> None:
        self.box, self.least = box, distance * distance
        self.shape = [max(1, math.floor(x / distance)) if distance else 1 for x in box.tolist()]
        self.cells: dict[tuple[int, ...], list[list[float]]] = {}

    def takes(self, point: Any) -> bool:
        """Keeps the point unless another is too near."""
        x, edges = point.tolist(), self.box.tolist()
        at = [min(int(c * n / e), n - 1) for c, n, e in zip(x, self.shape, edges)]
        around = [sorted({(i + s) % n for s in (-1, 0, 1)}) for i, n in zip(at, self.shape)]
        for cell in itertools.product(*around) if self.least else ():
            for other in self.cells.get(cell, ()):
                apart = 0.0
                for a, b, edge in zip(x, other, edges):
                    d = abs(a - b)
                    d = min(d, edge - d)
                    apart += d * d
                if apart < self.least:
                    return False
        self.cells.setdefault(tuple(at), []).append(x)
        return True


# --- velocities -------------------------------------------------------------------------------------
def maxwell(
    n: int,
    temperature: float,
    m: Any = 1.0,
    seed: int = 0,
    *,
    kB: float = 1.0,
    dimensions: int = 3,
    drift: bool = False,
    exact: bool = False,
) -> Any:
    """(n, dimensions) momenta of n particles with masses m at a temperature, normal with variance m kB T.

    The drift of the centre of mass is taken out, which leaves dimensions*(n - 1) degrees of freedom; `drift=True`
    keeps it, and all dimensions*n. With exact=True the momenta are scaled so that 2K/(g kB) is the temperature itself.
    """
    n, d = counted("n", n, 0), counted("dimensions", dimensions)
    mass = np.broadcast_to(np.asarray(m, float), (n,)) if np.ndim(m) == 0 or np.shape(m) == (n,) else None
    if mass is None or not np.all((mass > 0) & np.isfinite(mass)):
        raise InputError(
            f"m={m!r} are not the masses of {n} particles", fix=f"Pass one positive number, or {n} of them."
        )
    hot = 0.0 if temperature == 0 else positive("temperature", temperature)
    unit = positive("kB", kB) * hot
    numbers = normal((n * d + 1) // 2, seed, VELOCITIES).ravel()[: n * d].reshape(n, d)
    p = np.sqrt(mass * unit)[:, None] * numbers
    if not drift:
        p = p - mass[:, None] * mean_of(p / mass[:, None], mass)
    free = d * (n if drift else n - 1)
    if exact and hot:
        if free < 1:
            raise InputError(
                f"{n} particles with their drift removed have no temperature",
                fix="Pass drift=True, or more particles.",
            )
        twice = math.fsum((p * p / mass[:, None]).ravel().tolist())  # the kinetic energy
        p = p * math.sqrt(free * unit / twice)
    return p
