"""What is in a file of particles?  Frames of one set of particles; and how a run becomes such frames."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, StoreError
from tinyphysics.physics.cells import cell
from tinyphysics.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class Frames:
    """Particles at some times: `frames.q` is (frames, n, 3); `frames["momenta"]` a column of the file."""

    q: Any
    species: tuple[str, ...]  # one word for each particle
    columns: Mapping[str, Any] = field(default_factory=dict)  # (frames, n) or (frames, n, k)
    box: Any = None  # (frames, 3, 3), the edges as rows; None: open
    pbc: tuple[bool, bool, bool] = (False, False, False)
    info: tuple[Mapping[str, Any], ...] = ()  # what is said about each frame: energy, time, step

    def __getitem__(self, name: str) -> Any:
        if name not in self.columns:
            raise InputError(
                f"the file has no column `{name}`", fix=f"It has {', '.join(self.columns) or 'none but q'}."
            )
        return self.columns[name]

    def __len__(self) -> int:
        return len(self.q)

    def said(self, name: str) -> Any:
        """One number or word of every frame: `frames.said("energy")`."""
        if any(name not in i for i in self.info) or not self.info:
            known = sorted(set().union(*self.info)) if self.info else []
            raise InputError(
                f"not every frame has its `{name}`",
                fix=f"Given in some frames: {', '.join(known) or 'nothing'}.",
            )
        return np.array([i[name] for i in self.info])


def from_run(
    out: Trajectory, species: Any, box: Any, member: int | None, positions: str | None
) -> tuple[Frames, str | None]:
    """The frames of a run in three dimensions, and the name of the state that goes with the positions, if there is one."""
    names = [*out.frames]
    name = names[0] if positions is None else positions
    if name not in names:
        raise InputError(f"the run has no state `{name}`", fix=f"positions= is one of {', '.join(names)}.")
    q = of_member(out.frames[name], name, member)
    following = names.index(name) + 1
    partner = names[following] if following < len(names) else None
    if partner is not None and np.shape(out.frames[partner]) != np.shape(out.frames[name]):
        partner = None
    n, d = q.shape[1:]
    columns = (
        {} if partner is None else {"momenta": in_space(of_member(out.frames[partner], partner, member))}
    )
    edges = None if box is None else boxed(box, d)
    # members may have times of their own
    times = np.asarray(out.t)[:, member] if np.ndim(out.t) > 1 else out.t
    info = [{"step": int(k), "time": float(t)} for k, t in zip(out.steps, times)]
    for told, value in zip(info, energies(out, member)):
        told["energy"] = float(value)
    whole = None if edges is None else np.broadcast_to(edges, (len(q), 3, 3))
    periodic = edges is not None
    frames = Frames(
        in_space(q), words(species, n), columns, whole, (periodic, periodic, periodic and d == 3), tuple(info)
    )
    return frames, partner


def of_member(a: Any, name: str, member: int | None) -> Any:
    """(frames, n, d) of one member, and finite."""
    a = np.asarray(a, float)
    if member is not None:
        if a.ndim != 4 or not -a.shape[1] <= member < a.shape[1]:
            raise InputError(
                f"member={member} of `{name}`, which has shape {a.shape}",
                fix="Leave member= out, or choose another.",
            )
        a = a[:, member]
    if a.ndim == 4:
        raise InputError(f"`{name}` has {a.shape[1]} members; a file holds one", fix="Pass member=0.")
    if a.ndim != 3 or a.shape[2] not in (1, 2, 3):
        raise InputError(
            f"`{name}` of shape {a.shape} is not frames of particles", fix="Its shape is (frames, n, 3)."
        )
    bad = np.argwhere(~np.isfinite(a))
    if len(bad):
        raise InputError(
            f"`{name}` is not finite in frame {bad[0][0]}, particle {bad[0][1]}: the run stopped there",
            fix="Run for fewer steps, or with a shorter one.",
        )
    return a


def in_space(a: Any) -> Any:
    """Three coordinates; those that a plane or a line does not have are 0."""
    return np.concatenate([a, np.zeros((*a.shape[:2], 3 - a.shape[2]))], 2)


def boxed(box: Any, d: int) -> Any:
    """The edges in three dimensions; a plane gets a third one of length 1."""
    edges = np.eye(3)
    edges[:d, :d] = cell(box, d)
    return edges


def energies(out: Trajectory, member: int | None) -> Any:
    """Of every frame; none if the system has no energy, or the run was loaded without its program."""
    origin = out.origin
    if origin is None or origin.run.system.energy is None:
        return []
    return out.energy if member is None else out.energy[:, member]


def words(species: Any, n: int) -> tuple[str, ...]:
    """One word for each of n particles; a single word is for all."""
    given: Sequence[Any] = [species] * n if isinstance(species, str) else list(species)
    if len(given) != n:
        raise InputError(
            f"species has {len(given)} words for {n} particles",
            fix='Pass one for each, or one for all: species="Ar".',
        )
    for w in given:
        if not isinstance(w, str) or not w or any(c.isspace() or c in '"=' for c in w):
            raise InputError(
                f"species {w!r} is not a word", fix='A species is a word such as "Ar", without spaces.'
            )
    return tuple(given)


@contextmanager
def in_one_piece(path: Any) -> Iterator[Path]:
    """A file to write to, which takes its name only when it is whole; what was there before stays until then."""
    target = Path(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        raise StoreError(
            f"`{path}` could not be written: {error}", fix="Choose a directory that you may write to."
        ) from error
    try:
        yield part
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"`{path}` could not be written: {error}", fix="Nothing was changed.") from error
    finally:
        part.unlink(missing_ok=True)
