"""How is GSD, HOOMD-blue's format, read and written?  By the package gsd, in its schema "hoomd".

A GSD file holds float32 unless asked for double (gsd 5): positions are then rounded to seven digits. They are stored
inside the box, which is centred on 0, with the number of box lengths that each has travelled: what comes back is unwrapped.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.errors import InputError, StoreError
from tinyphysics.physics.io.frames import Frames, from_run, in_one_piece
from tinyphysics.physics.io.reading import package
from tinyphysics.physics.io.xyz import located
from tinyphysics.trajectory import Trajectory

OPEN = "tinyphysics/open"  # said of a frame whose box is only there because the format wants one
FLOATS = {"single": np.float32, "double": np.float64}


def library() -> Any:
    return package("gsd.hoomd", "GSD files need the package gsd", "io")


def opened(path: Any, mode: str, precision: str = "single") -> Any:
    hoomd = library()
    if precision == "single":
        return hoomd.open(name=str(path), mode=mode)
    try:
        return hoomd.open(name=str(path), mode=mode, precision=precision)
    except TypeError:
        raise StoreError(
            "this version of gsd writes float32 only", fix="Install gsd 5, or leave precision= out."
        ) from None


def write_gsd(
    path: Any,
    out: Trajectory | Frames,
    *,
    species: Any = "X",
    box: Any = None,
    mass: Any = None,
    member: int | None = None,
    positions: str | None = None,
    precision: str = "single",
) -> None:
    """Writes all frames of a run, with step, energy and time; the file is complete or not written at all.

    The format has velocities but no momenta: they are written if `mass` is given, one for all or one for each.
    A box has its first edge along x and its second in the plane z = 0; without one, a cube about everything is written.
    """
    if precision not in FLOATS:
        raise InputError(f"precision={precision!r}", fix='precision is "single" or "double".')
    frames = out if isinstance(out, Frames) else from_run(out, species, box, member, positions)[0]
    masses = None if mass is None else weights(mass, len(frames.species))
    sizes = None if frames.box is None else [hoomd_box(edges) for edges in frames.box]
    hoomd = library()
    kinds = sorted(set(frames.species))
    real = FLOATS[precision]
    with in_one_piece(path) as part:
        with opened(part, "w", precision) as file:
            for k in range(len(frames)):
                f = hoomd.Frame()
                q, turns, size = inside(frames, k, None if sizes is None else sizes[k])
                f.configuration.box = np.array(size, real)
                f.configuration.dimensions = 3 if sizes is None or frames.pbc[2] else 2
                f.particles.N = len(q)
                f.particles.types, f.particles.typeid = kinds, [kinds.index(w) for w in frames.species]
                f.particles.position, f.particles.image = np.asarray(q, real), turns
                if masses is not None:
                    f.particles.mass = np.asarray(masses, real)
                    if "momenta" in frames.columns:
                        f.particles.velocity = np.asarray(frames["momenta"][k] / masses[:, None], real)
                if "velocity" in frames.columns:
                    f.particles.velocity = np.asarray(frames["velocity"][k], real)
                info = frames.info[k] if frames.info else {}
                f.configuration.step = int(info.get("step", k))
                f.log = {
                    name: np.array([info[name]], np.float64) for name in ("energy", "time") if name in info
                }
                if sizes is None:
                    f.log[OPEN] = np.array([1], np.uint8)
                file.append(f)


def weights(mass: Any, n: int) -> Any:
    m = np.asarray(mass, float)
    if m.shape not in ((), (n,)) or not (np.isfinite(m).all() and (m > 0).all()):
        raise InputError(
            f"mass of shape {m.shape} for {n} particles, or not positive",
            fix="Pass one for all, or one for each.",
        )
    return np.broadcast_to(m, (n,))


def hoomd_box(edges: Any) -> list[float]:
    """Lx, Ly, Lz and the three tilts."""
    if np.abs(np.triu(edges, 1)).max() > 1e-12 * np.abs(edges).max():
        raise InputError(
            "a GSD box has its first edge along x and its second in the plane z = 0",
            fix="Rotate the system, or write XYZ, which allows any box.",
        )
    (x, _, _), (a, y, _), (b, c, z) = edges.tolist()
    return [x, y, z, a / y, b / z, c / z]


def edges_of(size: Any) -> Any:
    x, y, z, xy, xz, yz = (float(v) for v in size)
    return np.array([[x, 0.0, 0.0], [xy * y, y, 0.0], [xz * z, yz * z, z]])


def inside(f: Frames, k: int, size: list[float] | None) -> tuple[Any, Any, list[float]]:
    """(positions in the box about 0, how many edges away they really are, the box)."""
    q = f.q[k]
    if size is None:
        side = 2.0 * float(np.abs(q).max(initial=0.5)) * (1 + 1e-6)
        return q, np.zeros(q.shape, np.int32), [side, side, side, 0.0, 0.0, 0.0]
    edges = f.box[k]
    turns = np.floor(q @ np.linalg.inv(edges) + 0.5) * np.array(f.pbc)
    if np.abs(turns).max(initial=0.0) >= 2**31:
        raise InputError("a particle has travelled more than 2**31 box lengths", fix="Is the box right?")
    return q - turns @ edges, turns.astype(np.int32), size


def read_gsd(path: Any) -> Frames:
    """Reads all frames of a GSD file (schema hoomd) with the same particles in each; positions are unwrapped."""
    located(path)
    try:
        with opened(path, "r") as file:
            found = [file[k] for k in range(len(file))]
    except StoreError:
        raise
    except Exception as error:  # whatever gsd makes of a damaged file
        raise StoreError(
            f"`{path}` could not be read as GSD: {error}", fix="It is damaged, or another kind of file."
        ) from error
    if not found:
        raise StoreError(f"`{path}` holds no frame", fix="The file is incomplete: write it again.")
    for k, f in enumerate(found):
        checked(path, k, f, found[0])
    first = found[0]
    boxes = np.stack([edges_of(f.configuration.box) for f in found])
    open_ = all(OPEN in (f.log or {}) for f in found)
    turns = [np.zeros_like(f.particles.image) if open_ else f.particles.image for f in found]
    q = np.stack([f.particles.position.astype(np.float64) + t @ e for f, t, e in zip(found, turns, boxes)])
    columns = {
        "velocity": np.stack([f.particles.velocity for f in found]).astype(np.float64),
        "mass": np.stack([f.particles.mass for f in found]).astype(np.float64),
    }
    periodic = not open_
    info = tuple(said(f) for f in found)
    kinds = tuple(first.particles.types[i] for i in first.particles.typeid)
    flat = first.configuration.dimensions == 2
    return Frames(
        q, kinds, columns, None if open_ else boxes, (periodic, periodic, periodic and not flat), info
    )


def said(f: Any) -> dict[str, Any]:
    log = f.log or {}
    return {
        "step": int(f.configuration.step),
        **{name: float(log[name][0]) for name in ("energy", "time") if name in log},
    }


def checked(path: Any, k: int, f: Any, first: Any) -> None:
    """Nothing that is not a number, no type without a name, the particles of the first frame."""
    p = f.particles
    if p.N < 1 or p.N != first.particles.N or not np.array_equal(p.typeid, first.particles.typeid):
        raise StoreError(
            f"{path}: frame {k} has different particles than the first one", fix="Split the file there."
        )
    if len(p.typeid) and int(np.max(p.typeid)) >= len(p.types):
        at = int(np.argmax(p.typeid))
        raise StoreError(
            f"{path}: frame {k}, particle {at} has the type {p.typeid[at]}; there are {len(p.types)}",
            fix="The file is damaged: write it again.",
        )
    for name in ("position", "velocity", "mass"):
        bad = np.argwhere(~np.isfinite(getattr(p, name)))
        if len(bad):
            raise StoreError(
                f"{path}: frame {k}, particle {bad[0][0]}: the {name} is not finite",
                fix="Leave such frames out, or run again with a shorter step.",
            )
    size = np.asarray(f.configuration.box, float)
    if size.shape != (6,) or not np.isfinite(size).all() or not (size[:3] > 0).all():
        raise StoreError(
            f"{path}: frame {k} has the box {size.tolist()}",
            fix="Expected three positive lengths and three finite tilts.",
        )
