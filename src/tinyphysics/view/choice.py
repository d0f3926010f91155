"""Which picture suits a run, and which others can be drawn of it?"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.ir import Ops, toposort
from tinyphysics.system import State, System
from tinyphysics.trajectory import Trajectory
from tinyphysics.util import did_you_mean

# fmt: off
KINDS = {
    "orbit":  "the paths of points in a plane",
    "3d":     "the paths of points in space",
    "phase":  "positions against momenta",
    "chain":  "one number for each site, over time",
    "field":  "a grid at the last frame",
    "map":    "the points that a map visits",
    "time":   "each number over time",
    "energy": "the energy error at every step, and the band that a constant shadow energy leaves it",
    "spectrum": "the power of each number over frequency",
    "section": "the states at an event, a position against its momentum",
    "cloud":  "all members, or all bodies, in a plane",
}
# fmt: on
AUTO = "auto"
FEW = 10  # more bodies or members than this are a cloud
# of curves
COLOURS = tuple("#2f6db5 #d9632a #3a9a6b #a34fa0 #c9a227 #4fb0c6 #b23a48 #6b6b6b #8a6d3b #5b5bd6".split())
FLAT = 0.05  # of the longest side: orbits that leave a plane by less are drawn in it
# what an energy that compares neighbouring sites is made of
NEIGHBOURS = (Ops.ROLL, Ops.SLICE, Ops.PAD, Ops.CONCAT)


def visible(system: System) -> list[State]:
    """The states that are places: all but momenta."""
    return [s for s in system.states if s.role != "momentum" or system.kind == "map"]


def is_chain(system: System) -> bool:
    """Are the numbers of the first state sites in a row, rather than the coordinates of one point?

    They are where neighbours are compared: `np.diff(q)`, `np.roll(q, 1)`, `q[1:] - q[:-1]`.
    """
    # a slice of one number is a component
    return any(u.op in NEIGHBOURS and u.size > 1 for u in toposort(system.equations))


def suiting(system: System) -> list[str]:
    """The kinds of picture that can be drawn of a system, the best first."""
    states = visible(system)
    shape = states[0].var.shape
    scalars = sum(s.var.shape == () for s in states)
    if shape == () and system.kind == "map":
        out = ["map"]
    elif shape == ():
        flat = ["orbit"] * (scalars >= 2) + ["3d"] * (scalars >= 3)
        out = flat[::-1] if scalars == 3 else flat
    elif shape == (3,) and not is_chain(system):
        out = ["3d", "orbit", "chain"]
    elif shape == (2,):
        out = ["orbit", "chain"]
    elif len(shape) == 1:
        out = ["chain"] + ["3d"] * (shape == (3,))
    elif len(shape) == 2 and shape[1] in (2, 3):
        out = ["orbit", *["3d"] * (shape[1] == 3), "field"]
    else:
        out = ["field"]
    if system.p:
        out.append("phase")
    drawn = ["cloud"] if system.pairs or shape and shape[-1] in (2, 3) or scalars >= 2 else []
    more = ["energy"] * (system.energy is not None) + ["spectrum"] + ["section"] * bool(system.pairs) + drawn
    return out + ["time"] + more


def choose_kind(out: Trajectory, system: System, asked: Any) -> str:
    """The kind that was asked for, or the one that suits the system and the run."""
    suits = suiting(system)
    if asked is None or asked == AUTO:
        return "3d" if suits[:2] == ["orbit", "3d"] and leaves_the_plane(out, system) else suits[0]
    if not isinstance(asked, str) or asked not in KINDS:
        raise InputError(
            f"kind={asked!r} is not a kind of picture",
            fix=f"{did_you_mean(str(asked), KINDS)}This run can be drawn as {', '.join(suits)}.",
        )
    if asked not in suits:
        raise InputError(
            f"`{system.name}` cannot be drawn as kind={asked!r}: {KINDS[asked]}",
            fix=f"It can be drawn as {', '.join(suits)}; or name the axes: x=..., y=....",
        )
    return str(asked)


def leaves_the_plane(out: Trajectory, system: System) -> bool:
    """Do a few bodies need the third axis?  Many are a cloud, seen from above."""
    q = np.asarray(out.frames[visible(system)[0].name])
    if q.ndim < 3 or q.shape[-1] != 3 or q[0].size // 3 > FEW:
        return False
    with np.errstate(invalid="ignore"):
        low, high = (f(q.reshape(-1, 3), axis=0) for f in (np.nanmin, np.nanmax))
        return bool((high - low)[2] > FLAT * (high - low).max())
