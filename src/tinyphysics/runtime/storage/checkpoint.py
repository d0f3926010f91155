"""How does a run survive the end of its process?  Its loop state in one file, which is whole or not there at all.

The file is a line that says what it is, a header of JSON, arrays, and a checksum of all of it. What a loop
carries is defined by the program, so that a run may go on with another backend than it began with.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.errors import StoreError
from tinyphysics.runtime.state.run import Checkpoint, Identity
from tinyphysics.trajectory import Stop

MAGIC = b"tinyphysics checkpoint 1\n"
CHECKSUM = 32  # bytes
# numbers that a program may have, as files hold them
FORMATS = ("<f8", "<f4", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "|b1")
PLAIN = "version step save_every hash_every members is_ensemble".split()  # fields that JSON has as they are


# --- the file ---------------------------------------------------------------------------------------
def arrays_of(c: Checkpoint) -> dict[str, Any]:
    kinds = {"parameter": c.params, "start": c.start, "register": c.registers, "last": c.last}
    kinds["memory"] = c.memory
    return {f"{kind}.{name}": v for kind, arrays in kinds.items() for name, v in arrays.items()}


def written(c: Checkpoint) -> Iterator[Any]:
    """The file, piece by piece, without its checksum."""
    arrays = {name: np.ascontiguousarray(v, v.dtype.newbyteorder("<")) for name, v in arrays_of(c).items()}
    header = {
        "run": {name: v for name, v in vars(c.run).items() if name != "acts" or v},
        **{name: getattr(c, name) for name in PLAIN},
        "hashes": c.hashes,
        "stopped": [[k, s.cause, s.step, s.t, s.member, s.where] for k, s in c.stopped.items()],
        "arrays": [[name, v.dtype.str, v.shape] for name, v in arrays.items()],
        **({"acts": list(c.acts)} if c.acts else {}),
        **({"across": c.across} if c.across is not None else {}),
    }
    text = json.dumps(header).encode()
    yield MAGIC
    yield len(text).to_bytes(8, "little")
    yield text
    for v in arrays.values():
        yield v.reshape(-1).view(np.uint8).data


def write(c: Checkpoint, path: Path) -> None:
    """All of it or nothing: until the last step of this, the file is what it was before."""
    with replacing(path) as file:
        checksum = hashlib.blake2b(digest_size=CHECKSUM)
        for piece in written(c):
            file.write(piece)
            checksum.update(piece)
        file.write(checksum.digest())


@contextmanager
def replacing(path: Path) -> Iterator[Any]:
    """A file to write to, which takes the place of another when it is complete and on the disk."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        settle(path.parent)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise StoreError(
            f"`{path}` could not be written: {error.strerror or error}",
            fix="The file that was there before is unchanged.",
        ) from error


def settle(directory: Path) -> None:
    """The names in a directory, on the disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read(path: Path) -> Checkpoint:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"the checkpoint `{path}` could not be read: {error.strerror or error}",
            fix="Is it the path that was given as checkpoint=?",
        ) from error
    known = MAGIC[: MAGIC.rindex(b" ") + 1]
    if not data.startswith(known):
        raise StoreError(f"`{path}` is not a checkpoint", fix="Pass the path that was given as checkpoint=.")
    if not data.startswith(MAGIC):
        raise StoreError(
            f"`{path}` is a checkpoint in the format of another version of tinyphysics",
            fix="Continue with the version that wrote it, or run again.",
        )
    body = memoryview(data)[:-CHECKSUM]
    if (
        len(data) < len(MAGIC) + 8 + CHECKSUM
        or hashlib.blake2b(body, digest_size=CHECKSUM).digest() != data[-CHECKSUM:]
    ):
        raise StoreError(
            f"the checkpoint `{path}` is damaged: its checksum does not match its contents",
            fix="It was truncated or altered. Continue from an older one, or run again.",
        )
    return parsed(body)


def parsed(data: memoryview) -> Checkpoint:
    """What was written, known to be whole."""
    at = len(MAGIC) + 8
    length = int.from_bytes(data[len(MAGIC) : at], "little")
    h = json.loads(bytes(data[at : at + length]))
    at += length
    arrays: dict[str, dict[str, Any]] = {}
    for name, dtype, shape in h["arrays"]:
        assert dtype in FORMATS
        count = int(np.prod(shape, dtype=np.int64))
        kind, _, own = name.partition(".")
        here = np.frombuffer(data, dtype, count, at)
        arrays.setdefault(kind, {})[own] = here.astype(here.dtype.newbyteorder("=")).reshape(shape)
        at += here.nbytes
    stopped = {
        k: Stop(cause, step, t, member, tuple(where) if where else where)
        for k, cause, step, t, member, where in h["stopped"]
    }
    params, start, registers, last = (arrays.get(k, {}) for k in ("parameter", "start", "register", "last"))
    return Checkpoint(
        run=Identity(**h["run"]),
        **{name: h[name] for name in PLAIN},
        params=params,
        start=start,
        registers=registers,
        hashes=[(n, text) for n, text in h["hashes"]],
        stopped=stopped,
        last=last,
        acts=h.get("acts", ()),
        across=h.get("across"),
        memory=arrays.get("memory", {}),
    )
