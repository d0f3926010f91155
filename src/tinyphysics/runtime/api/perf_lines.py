"""The lines about a run that scripts read, and its metrics as JSON: `tp run`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.errors import StoreError
from tinyphysics.trajectory import Trajectory


def lines(out: Trajectory, hash_every: int | None = None) -> list[str]:
    """[perf], [hash] and [decode], and a [perf warning] for each flag of the class failure.

    ns/step counts a step of all members as one. [decode] is the time in which frames were read.
    """
    m = out.metrics
    seconds, steps = m["seconds"]["run"], m["steps"]
    dtype = next(iter(np.asarray(v).dtype.name for v in out.final.states.values()))
    rates = f"ns/step={1e9 * seconds / max(steps, 1):.6g} steps/s={steps / seconds if seconds else 0:.6g}"
    told = [
        f"[perf] rollout={seconds:.6g}s {rates} backend={m['backend']['used']} fft={m['fft']['used'] or 'none'} "
        f"dtype={dtype} hash={out.hash}"
    ]
    if hash_every is not None:
        told.append(f"[hash] {len(out.hashes)} hashes (every {hash_every} steps)")
    total = m["stages"]["read"]["seconds"]
    if (snaps := len(out.t)) and total > 0.0:  # else the loop wrote the frames out itself
        told.append(f"[decode] total={total:.6g}s per_snap={1e3 * total / snaps:.6g} ms snaps={snaps}")
    return told


def warnings(out: Trajectory) -> list[str]:
    failed = out.metrics["flags"]["failure"]
    return [f"[perf warning] {name} ({flag['count']}): {flag['says']}" for name, flag in failed.items()]


def metrics_of(out: Trajectory) -> dict[str, Any]:
    """The metrics of a run as plain values; requested and used backends once more, flat, under short names."""
    m = out.metrics
    plain = {name: as_plain(m[name]) for name in dict.keys(m)}
    op, read, fft = m["stages"]["advance"], m["stages"]["read"], m["fft"]
    flat: dict[str, Any] = {}
    for name, part in (("op", op), ("decode", read)):
        for asked in ("requested", "used"):
            flat[f"{name}_backend_{asked}"] = part["backend"][asked]
        flat[f"{name}_device"] = part["device"]["used"]
        flat[f"{name}_s"] = part["seconds"]
    flat |= {"fft_backend_requested": fft["requested"], "fft_backend_used": fft["used"]}
    flat["fft_device"] = op["device"]["used"] if fft["used"] else None
    flat["rollout_s"] = m["seconds"]["run"]
    flat["decode_percent"] = 100 * read["seconds"] / m["wall"] if m["wall"] else 0.0
    hashes = [{"t": step, "hash": h} for step, h in out.hashes]
    return {**plain, **flat, "hash": out.hash, "hashes": hashes}


def as_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): as_plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_plain(v) for v in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def check_writable(path: Path) -> None:
    """Before a long run, not after it."""
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise StoreError(f"`{path}` cannot be written", fix="Pass another --metrics-json.")


def write_metrics(path: Path, out: Trajectory) -> str:
    try:
        path.write_text(json.dumps(metrics_of(out), indent=2) + "\n")
    except OSError as error:
        raise StoreError(
            f"`{path}` could not be written: {error}", fix="Pass another --metrics-json."
        ) from None
    return f"[metrics] wrote {path}"
