"""What is asked for by boundary="periodic", box=L?  A sum over pairs in open space becomes one over all images of a box."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isfinite
from typing import Any

from tinyphysics.errors import InputError, PlanError
from tinyphysics.front.lattice_sums import all_images, over_images
from tinyphysics.front.neighbours import checked_box
from tinyphysics.given import shown
from tinyphysics.ir import Ops, UOp, as_uop, substitute, toposort
from tinyphysics.system import SizedFamily, System
from tinyphysics.util import did_you_mean

AXES = 3
PERIODIC = "periodic"
EXAMPLE = 'Pass boundary="periodic", box=10.0.'


def with_box(system: System | SizedFamily, boundary: Any, box: Any) -> System | SizedFamily:
    """The same in a periodic box."""
    if boundary is None:
        raise InputError("box= without a boundary", fix=EXAMPLE)
    if boundary != PERIODIC:
        raise PlanError(
            f"there is no boundary {shown(boundary)} yet",
            fix=f"{EXAMPLE} Without it pairs are in open space.",
        )
    if box is None:
        raise InputError('boundary="periodic" without a box', fix=EXAMPLE)
    checked(system, box)
    if isinstance(system, SizedFamily):
        family = system
        return replace(family, build=lambda sizes: in_box(family.build(sizes), box))
    return in_box(system, box)


def in_box(system: System, box: Any) -> System:
    if system.energy is None or system.kind != "hamiltonian":
        raise PlanError(
            f'boundary="periodic" for `{system.name}`, which is not an energy H(q, p)',
            fix="Write it into the sum: tp.pair_distance2(q, box=box).",
        )
    cell = cell_of(system, box)
    new = {u: over_images(x) for u, x in sums(system, cell)}
    if not new:
        raise PlanError(
            f'boundary="periodic" for `{system.name}`, which has no sum over all pairs of (n, 3) positions',
            fix="Write tp.pair_sum of d = q[:, None] - q[None, :], or tp.pair_distance2(q, box=box) yourself.",
        )
    (energy,) = substitute([system.energy], new)
    left = [q for q in system.q if differences(energy, q)]
    if left:
        raise PlanError(
            f"`{system.name}` has distances of `{left[0].arg}` outside of its sums over pairs, which no box moves",
            fix="Write them with tp.separation(a, b, box), and tp.pair_distance2(q, box=box) in the sum.",
        )
    return replace(system, energy=energy)


def checked(system: System | SizedFamily, box: Any) -> None:
    """An InputError for what is no length, no three of them, no three vectors and no parameter."""
    if isinstance(box, str):
        names = [*system.shapes] if isinstance(system, SizedFamily) else [p.name for p in system.parameters]
        if box not in names:
            raise InputError(
                f"box={box!r} is no parameter of `{system.name}`",
                fix=f"{did_you_mean(box, names)}Pass a length, or the name of a parameter.",
            )
        return
    sizes = as_numbers(box)
    if sizes is None:
        raise InputError(f"box={shown(box)} is not a box", fix=EXAMPLE)


def as_numbers(box: Any) -> list[float] | None:
    rows = box.tolist() if hasattr(box, "tolist") else box
    if not isinstance(rows, (list, tuple)):
        rows = [rows, rows, rows]
    flat = [x for row in rows for x in (row if isinstance(row, (list, tuple)) else [row])]
    if len(rows) != AXES or len(flat) not in (AXES, AXES * AXES):
        return None
    if any(isinstance(x, bool) or not isinstance(x, (int, float)) or not isfinite(x) for x in flat):
        return None
    return flat if len(flat) > AXES or min(flat) > 0 else None


def cell_of(system: System, box: Any) -> UOp:
    if not isinstance(box, str):
        return checked_box(as_uop(box), AXES)
    found = {p.name: p.var for p in system.parameters}
    if box not in found:
        raise InputError(f"box={box!r} is a state of `{system.name}`", fix="Pass a length, or a parameter.")
    return checked_box(found[box], AXES)


def sums(system: System, cell: UOp) -> Iterator[tuple[UOp, UOp]]:
    """(a sum over all pairs, what it sums with the distances of all images)."""
    assert system.energy is not None
    images: dict[UOp, UOp] = {}
    for q in system.q:
        for r2 in differences(system.energy, q):
            images[r2] = all_images(q, cell, ())
    for u in toposort([system.energy]):
        if u.op is Ops.REDUCE and u.arg[0] == "sum" and u.src[0].op is Ops.TRIU and not u.shape:
            inside = u.src[0].src[0]
            (x,) = substitute([inside], images)
            if x is not inside:
                yield u, x


def differences(energy: UOp, q: UOp) -> list[UOp]:
    """The squared distances of all pairs of these points, as they are written in an energy."""
    if q.ndim != 2 or q.shape[1] != AXES:
        return []
    d = q[:, None] - q[None, :]
    known = {(d * d).sum(-1), (d**2).sum(-1)}
    return [u for u in toposort([energy]) if u in known]
