"""Where are plans and objects kept between processes?  In a private directory, by content hash, or nowhere.

The directory holds machine code, so it must belong to the user alone. Files appear by an
atomic rename and carry a checksum: a torn, foreign or damaged file is ignored and written again.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path

LIMIT = 256 * 2**20  # bytes; the oldest files go first
TRIMS = 64  # looks at the whole directory while it fills once; which writes look, their content decides
CHECKSUM = 16  # bytes in front of the content


def directory() -> Path | None:
    """The cache directory, or None where there cannot be a safe one."""
    given = os.environ.get("TINYPHYSICS_CACHE")
    base = (
        Path(given)
        if given
        else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tinyphysics"
    )
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = base.stat()
    except (OSError, RuntimeError):
        return None
    if hasattr(os, "getuid") and (info.st_uid != os.getuid() or stat.S_IMODE(info.st_mode) & 0o022):
        return None
    return base


def read(key: str) -> bytes | None:
    folder = directory()
    if folder is None:
        return None
    try:
        data = (folder / key).read_bytes()
    except OSError:
        return None
    body = data[CHECKSUM:]
    if hashlib.blake2b(body, digest_size=CHECKSUM).digest() != data[:CHECKSUM]:
        return None
    return body


def write(key: str, body: bytes) -> None:
    """Best effort: a full or read-only disk costs the next process a compilation, nothing else."""
    folder = directory()
    if folder is None:
        return
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=".new")
        try:
            mark = hashlib.blake2b(body, digest_size=CHECKSUM).digest()
            with os.fdopen(handle, "wb") as file:
                file.write(mark + body)
            os.replace(name, folder / key)
        except BaseException:
            os.unlink(name)
            raise
        if int.from_bytes(mark[:4], "little") * (LIMIT // TRIMS) <= len(body) << 32:
            trim(folder)
    except OSError:
        return


def trim(folder: Path) -> None:
    files = []
    for path in folder.iterdir():
        try:
            info = path.stat()
        except OSError:  # another process was faster
            continue
        if stat.S_ISDIR(info.st_mode):  # a driver's own
            continue
        files.append((info.st_mtime, info.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= LIMIT:
            return
        path.unlink(missing_ok=True)
        total -= size
