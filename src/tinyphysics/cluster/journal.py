"""Which blocks of a run are done?  Each is a file of arrays in a folder, written beside its place and renamed.

A run with the same folder takes what is there and computes the rest: after a client that died, too. Nothing in a file is
code. A block that is written twice has the same bytes.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.cluster.worker import Done, digest_of
from tinyphysics.errors import StoreError, TinyPhysicsError
from tinyphysics.runtime.engines.events import Found, Hits
from tinyphysics.runtime.state.record import Carried, Record
from tinyphysics.runtime.state.schedule import Schedule
from tinyphysics.trajectory import Stop

RUN = "run.json"
ARRAYS = ("frames", "observed", "final")
LISTS = ("substeps", "rejected")


@dataclass(frozen=True)
class Journal:
    """The folder of a run."""

    folder: Path
    key: str
    schedule: Schedule

    @classmethod
    def opened(cls, folder: Path, key: str, schedule: Schedule) -> Journal:
        """An error if the folder is of another run."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / RUN
            if file.exists():
                known = json.loads(file.read_text()).get("key")
                if known != key:
                    raise StoreError(
                        f"`{folder}` has the blocks of another run",
                        fix="Pass another folder, or the states, parameters and options of that run.",
                    )
            else:
                written(file, json.dumps({"key": key}).encode())
        except (OSError, ValueError) as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"`{folder}` cannot be used: {error}", fix="Pass another folder.") from error
        return cls(folder, key, schedule)

    def place(self, done: Done) -> Path:
        return self.folder / f"{done.first}-{done.first + done.members}.npz"

    def forget(self, done: Done) -> None:
        """A block that a worker computed wrongly."""
        self.place(done).unlink(missing_ok=True)

    def keep(self, done: Done) -> None:
        try:
            written(self.place(done), packed(done))
        except OSError as error:
            raise StoreError(
                f"a block could not be written into `{self.folder}`: {error}",
                fix="Free some space, and run it again with the same folder: what is there counts.",
            ) from error

    def remove(self) -> None:
        """All blocks are done, and the run is in a checkpoint: they are not needed any more."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def blocks(self) -> Iterator[Done]:
        """Those that are there, whole and as they were written; a damaged one is computed again."""
        for path in sorted(self.folder.glob("*.npz")):
            done = unpacked(path, self.schedule)
            if done is not None:
                yield done


def written(path: Path, data: bytes) -> None:
    """The file in one piece, or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


# --- a block as arrays --------------------------------------------------------------------------------
def packed(d: Done) -> bytes:
    r = d.record
    arrays: dict[str, Any] = {f"{part}.{n}": v for part in ARRAYS for n, v in getattr(r, part).items()}
    said: dict[str, Any] = {
        "names": {part: list(getattr(r, part)) for part in ARRAYS},
        "stops": [stop_data(s) for s in r.stops],
        "last": r.last,
        "alarms": r.alarms,
        "kept_nearest": r.kept_nearest,
        "came_near": r.came_near,
        "measured": r.measured,
        "unhashed": [],
        "found": [],
        "met": [len(part) for part in r.met],
        "done": {f.name: getattr(d, f.name) for f in fields(d) if f.name not in ("record", "gaps")},
        "gaps": d.gaps is not None,
        "carried": None,
        "checksum": digest_of(r),
    }
    for name in LISTS:
        arrays |= {f"{name}.{k}": v for k, v in enumerate(getattr(r, name))}
        said[name] = len(getattr(r, name))
    for n, parts in r.unhashed or ():
        said["unhashed"].append([n, [[dtype.str, list(shape)] for dtype, shape, _ in parts]])
        arrays |= {f"unhashed.{n}.{k}": np.frombuffer(data, np.uint8) for k, (*_, data) in enumerate(parts)}
    for k, found in enumerate(r.found):
        hits = [[h.name, list(h.words), h.rested is not None] for h in found.hits]
        said["found"].append([found.count, found.apart, sorted(found.numbers), hits])
        for j, h in enumerate(found.hits):
            own = {"member": h.member, "t": h.t, "rising": h.rising} | {
                f"word.{n}": v for n, v in h.words.items()
            }
            own |= {} if h.rested is None else {"rested": h.rested}
            arrays |= {f"found.{k}.{j}.{n}": np.asarray(v) for n, v in own.items()}
    arrays |= {f"met.{k}.{j}": np.asarray(v) for k, part in enumerate(r.met) for j, v in enumerate(part)}
    if d.gaps is not None:
        arrays |= {f"gaps.{k}": np.asarray(v) for k, v in enumerate(d.gaps)}
    if r.carried is not None:
        said["carried"] = [r.carried.step, list(r.carried.registers), sorted(r.carried.frozen)]
        arrays |= {f"register.{n}": v for n, v in r.carried.registers.items()}
    arrays["said"] = np.frombuffer(json.dumps(said).encode(), np.uint8)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def unpacked(path: Path, schedule: Schedule) -> Done | None:
    try:
        with np.load(path, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        said = json.loads(arrays["said"].tobytes())
        done, checksum = block_of(arrays, said, schedule), said["checksum"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return done if digest_of(done.record) == checksum else None


def block_of(arrays: dict[str, Any], said: dict[str, Any], schedule: Schedule) -> Done:
    named = {part: {n: arrays[f"{part}.{n}"] for n in said["names"][part]} for part in ARRAYS}
    record = Record(schedule, named["frames"], named["observed"])
    record.final, record.last = named["final"], said["last"]
    record.stops = [stop_of(s) for s in said["stops"]]
    record.alarms, record.kept_nearest, record.measured = (
        said["alarms"],
        said["kept_nearest"],
        said["measured"],
    )
    record.came_near = said["came_near"]
    record.substeps, record.rejected = ([arrays[f"{n}.{k}"] for k in range(said[n])] for n in LISTS)
    record.unhashed = [
        (
            n,
            [
                (np.dtype(d), tuple(s), arrays[f"unhashed.{n}.{k}"].tobytes())
                for k, (d, s) in enumerate(parts)
            ],
        )
        for n, parts in said["unhashed"]
    ]
    for k, (count, apart, numbers, hits) in enumerate(said["found"]):
        own = tuple(hits_of(arrays, f"found.{k}.{j}", *said_of) for j, said_of in enumerate(hits))
        record.found.append(Found(own, count, apart, frozenset(numbers)))
    record.met = [tuple(arrays[f"met.{k}.{j}"] for j in range(n)) for k, n in enumerate(said["met"])]
    if said["carried"] is not None:
        step, names, frozen = said["carried"]
        stops = {s.member: s for s in record.stops}
        last = {k: (stops[k], {n: v[k] for n, v in record.final.items()}) for k in frozen}
        record.carried = Carried(step, {n: arrays[f"register.{n}"] for n in names}, last)
    gaps = tuple(arrays[f"gaps.{k}"] for k in range(3)) if said["gaps"] else None
    return Done(record=record, gaps=gaps, **said["done"])


def hits_of(arrays: dict[str, Any], place: str, name: str, words: list[str], rested: bool) -> Hits:
    member, t, rising = (arrays[f"{place}.{what}"] for what in ("member", "t", "rising"))
    of_states = {n: arrays[f"{place}.word.{n}"] for n in words}
    return Hits(name, member, t, rising, of_states, arrays[f"{place}.rested"] if rested else None)


def stop_data(s: Stop) -> dict[str, Any]:
    data = asdict(replace(s, error=None, of=None))
    return data | {"error": None if s.error is None else str(s.error), "where": as_lists(s.where)}


def stop_of(data: dict[str, Any]) -> Stop:
    error = None if data["error"] is None else TinyPhysicsError(data["error"])
    return Stop(data["cause"], data["step"], data["t"], data["member"], as_tuples(data["where"]), error)


def as_lists(value: Any) -> Any:
    """What JSON can hold: NumPy's numbers are its own."""
    if isinstance(value, (tuple, list)):
        return [as_lists(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


def as_tuples(value: Any) -> Any:
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value
