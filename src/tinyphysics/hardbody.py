"""Hard discs and spheres that fly freely between collisions: from event to event, with cells and a queue."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyphysics.device.host.cc import compiler
from tinyphysics.device.host.hard_bodies import DONE, STILL, Bodies, InC, InPython
from tinyphysics.emit.modules.hard_bodies import SOURCE
from tinyphysics.errors import BackendError, InputError, StoreError
from tinyphysics.runtime.state.digest import state_hash
from tinyphysics.util import digest

__all__ = ["Gas", "HardTrajectory", "lattice"]
PATIENCE = 1000  # events without time, for each body: then it has collapsed
FRAMES = 101
FORMAT = "tinyphysics hard bodies 1"
LISTED = ("box", "walls", "nc", "size")  # of the state: lists
NAMES = {"r": "radius", "m": "mass", "box": "box", "walls": "walls", "e": "restitution"}


@dataclass(frozen=True, eq=False)
class HardTrajectory:
    """Frames of hard bodies: `t` (frames,), `q` and `v` (frames, bodies, d), and what was counted up to each.

    `compressibility` is PV/NkT from the impulses of all collisions; `lost` is the energy that restitution took.
    """

    t: Any
    q: Any
    v: Any
    energy: Any
    collisions: int
    compressibility: float
    lost: float
    hash: str
    stopped: str | None  # "collapse": collisions without end in no time
    state: Bodies = field(repr=False)  # of the loop: resume=out goes on with it


@dataclass(frozen=True, eq=False)
class Gas:
    """Bodies of some radii and masses in a box: `Gas(box=[10, 10], radius=0.5).evolve(q=q, v=v, collisions=1000)`.

    `radius` and `mass` are a number or one for each body; `walls` is True or False, or one for each axis: else the box is
    periodic. `restitution` is the part of the speed of approach that a collision leaves, from 0 to 1.
    """

    box: Any
    radius: Any = 0.5
    mass: Any = 1.0
    walls: Any = False
    restitution: float = 1.0

    def evolve(
        self,
        q: Any = None,
        v: Any = None,
        *,
        until: float | None = None,
        collisions: int | None = None,
        frames: int = FRAMES,
        backend: str = "auto",
        resume: HardTrajectory | str | os.PathLike[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> HardTrajectory:
        """Runs until a time, or for so many collisions.

        `resume` goes on from the end of another run, bit for bit, or from a file that `checkpoint` has written, which it does
        anew at each frame.
        """
        if (until is None) == (collisions is None):
            raise InputError("evolve needs until= or collisions=", fix="Pass one of them: collisions=1000.")
        if collisions is not None and (
            isinstance(collisions, bool) or int(collisions) != collisions or collisions < 1
        ):
            raise InputError(
                f"collisions={collisions} is not a number of collisions", fix="Pass collisions=1000."
            )
        if backend not in ("auto", "c", "python"):
            raise InputError(f"backend={backend!r}: hard bodies run on c and python", fix='Pass backend="c".')
        if resume is None:
            s = self.start(q, v)
        else:
            s = resume.state.copy() if isinstance(resume, HardTrajectory) else self.read(resume)
        loop: Any = (
            InC(s, SOURCE) if backend == "c" or (backend == "auto" and has_compiler()) else InPython(s)
        )
        if resume is None:
            loop.begin()
        if until is not None and not until > s.now:
            raise InputError(f"until={until:g} is not after t = {s.now:g}", fix="Pass a later time.")
        begin, work, before, K = s.now, s.work, s.collisions, energy_of(s)
        rows, stopped = [(s.now, s.positions(), s.v.copy(), K)], None
        most = max(int(frames) - 1, 1)
        for k in range(1, most + 1):
            if until is not None:
                end, left = begin + (until - begin) * (k / most) if k < most else float(until), 2**62
            else:
                assert collisions is not None
                end, left = np.inf, collisions * k // most - (s.collisions - before)
            found = loop.go(end, left, PATIENCE * s.n)
            if found == STILL:
                stopped = "collapse"
                break
            at = s if found == DONE else seen_at(s, end)
            rows.append((at.now, at.positions(), at.v.copy(), energy_of(at)))
            if checkpoint is not None:
                write(checkpoint, s)
        t, x, u, E = (np.array(list(part)) for part in zip(*rows))
        span = float(t[-1] - t[0])
        Z = 1.0 + (s.work - work) / (2.0 * K * span) if span > 0 and K > 0 else np.nan
        told = state_hash({"q": x[-1], "v": u[-1]})
        return HardTrajectory(t, x, u, E, s.collisions - before, float(Z), s.lost, told, stopped, s)

    def start(self, q: Any, v: Any) -> Bodies:
        box = np.atleast_1d(np.asarray(self.box, float))
        x, u = (np.array(a, float) if a is not None else None for a in (q, v))
        if x is None or u is None or x.ndim == 3 or u.ndim == 3:
            what = "an ensemble: one run has one box" if x is not None and x.ndim == 3 else "missing"
            raise InputError(
                f"q= or v= is {what}", fix="Pass q and v of shape (bodies, d); run members one by one."
            )
        if (
            x.ndim != 2
            or x.shape != u.shape
            or x.shape[1] != len(box)
            or len(box) not in (2, 3)
            or not len(x)
        ):
            raise InputError(
                f"q has shape {x.shape}, v {u.shape} and box {box.shape}",
                fix="Pass q and v of shape (bodies, d), box of shape (d,), with d = 2 or 3.",
            )
        n, d = x.shape
        r, m = self.sizes(n)
        if not (r > 0).all() or not (m > 0).all() or not np.isfinite(x).all() or not np.isfinite(u).all():
            raise InputError("radius and mass must be above zero, q and v finite", fix="Check these numbers.")
        if not 0.0 <= self.restitution <= 1.0:
            raise InputError(f"restitution={self.restitution} is not from 0 to 1", fix="1.0 is elastic.")
        if (box < 6 * r.max()).any():
            raise InputError(
                f"the box {box.tolist()} is less than three diameters wide",
                fix="Take a larger box, or smaller bodies.",
            )
        walls = np.broadcast_to(np.asarray(self.walls, bool), (d,))
        low, high = np.where(walls, r[:, None], 0.0), np.where(walls, box - r[:, None], box)
        x = np.where(walls, x, np.mod(x, box))
        if ((x < low) | (x > high)).any():
            who = int(np.argwhere((x < low) | (x > high))[0, 0])
            raise InputError(f"body {who} is behind a wall", fix="Start with all bodies inside the box.")
        s = Bodies(x, u, r, m, box, walls, self.restitution)
        if (pair := overlap(s)) is not None:
            raise InputError(
                f"bodies {pair[0]} and {pair[1]} overlap at the start", fix="Start with bodies apart."
            )
        return s

    def read(self, path: str | os.PathLike[str]) -> Bodies:
        """What a checkpoint has, of a run of this gas."""
        with reading(path) as file:
            if "format" not in file or str(file["format"]) != FORMAT:
                raise StoreError(
                    f"{path} is no checkpoint of hard bodies", fix="Pass a file that checkpoint= wrote."
                )
            found = {name: file[name] for name in file.files if name not in ("format", "digest")}
            if str(file["digest"]) != digest_of(found):
                raise StoreError(f"{path} was cut off or altered", fix="Go on from another checkpoint.")
        s = object.__new__(Bodies)
        s.__dict__ |= {name: v if v.ndim and name not in LISTED else v.tolist() for name, v in found.items()}
        own = Bodies(s.x, s.v, *self.sizes(s.n), *self.sides(s.d), self.restitution)
        for name in ("r", "m", "box", "walls", "e"):
            if not np.array_equal(getattr(own, name), getattr(s, name)):
                raise InputError(
                    f"{path} is of another gas: its {NAMES[name]} differs",
                    fix="Make the Gas with the numbers of the run that wrote it.",
                )
        return s

    def sizes(self, n: int) -> tuple[Any, Any]:
        """(radii, masses), one for each body."""
        r, m = (np.broadcast_to(np.asarray(a, float), (n,)).copy() for a in (self.radius, self.mass))
        return r, m

    def sides(self, d: int) -> tuple[Any, Any]:
        """(the box, on which axes it has walls)."""
        return np.atleast_1d(np.asarray(self.box, float)), np.broadcast_to(np.asarray(self.walls, bool), (d,))


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            yield file
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as e:
        if isinstance(e, StoreError):
            raise
        raise StoreError(f"{path} cannot be read: {e}", fix="Pass a file that checkpoint= wrote.") from None


def digest_of(numbers: dict[str, Any]) -> str:
    parts = [name.encode() + np.ascontiguousarray(numbers[name]).tobytes() for name in sorted(numbers)]
    return digest(b"".join(parts))


def write(path: str | os.PathLike[str], s: Bodies) -> None:
    """A checkpoint, which is there whole or not at all."""
    numbers: dict[str, Any] = {name: np.asarray(v) for name, v in s.__dict__.items()}
    part = f"{os.fspath(path)}.part"
    with open(part, "wb") as file:
        np.savez(file, format=FORMAT, digest=digest_of(numbers), **numbers)
    os.replace(part, path)


def has_compiler() -> bool:
    try:
        return bool(compiler())
    except BackendError:
        return False


def energy_of(s: Bodies) -> float:
    return float((s.m * (s.v * s.v).sum(-1)).sum() / 2)


def seen_at(s: Bodies, t: float) -> Bodies:
    """A copy at a time before the next event: what is looked at is not fed back."""
    other = s.copy()
    other.now = t
    return other


def overlap(s: Bodies) -> tuple[int, int] | None:
    """The first two bodies that overlap; cell by cell."""
    loop = InPython(s)
    for i in range(s.n):
        c = loop.places(i)
        for step in np.ndindex(*(3,) * s.d):
            o = [a + k - 1 for a, k in zip(c, step)]
            if any(w and not 0 <= a < n for a, n, w in zip(o, s.nc, s.walls)):
                continue
            shift = np.array([(a // n) * b for a, n, b in zip(o, s.nc, s.box)])
            j = int(s.head[np.ravel_multi_index([a % n for a, n in zip(o, s.nc)], s.nc)])
            while j >= 0:
                gap = s.x[j] + shift - s.x[i]
                both = s.r[i] + s.r[j]
                if j > i and gap @ gap < both * both * (1 - 1e-9):
                    return i, j
                j = int(s.next[j])  # type: ignore[attr-defined]
    return None


def lattice(
    n: int, packing: float, d: int = 2, radius: float = 0.5, seed: int = 0, kT: float = 1.0
) -> dict[str, Any]:
    """A square box of `n` bodies on a lattice that fill the part `packing` of it, with velocities at kT and no drift."""
    volume = n * (np.pi * radius**2 if d == 2 else 4 / 3 * np.pi * radius**3)
    side = float((volume / packing) ** (1 / d))
    k = int(np.ceil(n ** (1 / d) - 1e-9))
    if side / k < 2 * radius:
        raise InputError(
            f"packing={packing:g}: bodies on a simple lattice would overlap",
            fix="Take a packing below 0.7 (2-D), 0.5.",
        )
    places = np.stack(np.meshgrid(*[np.arange(k)] * d, indexing="ij"), -1).reshape(-1, d)[:n]
    rng = np.random.default_rng(seed)
    v = rng.normal(size=(n, d)) * np.sqrt(kT)
    return {"box": [side] * d, "q": (places + 0.5) * (side / k), "v": v - v.mean(0)}
