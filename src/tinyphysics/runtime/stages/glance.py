"""What can be said of a run's energy at a glance?  Its drift over some frames, where that takes well under a millisecond."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tinyphysics.runtime.stages.energies import look_of
from tinyphysics.runtime.state.run import Run

MOST = 512  # states that are looked at


def drift_over_frames(run: Run, frames: Mapping[str, Any]) -> float | None:
    """The largest |E - E0| over the largest sum of |terms of H|, of any member, over frames (frames, members, shape...).

    None where it is not known at once: of large systems, of energies that change, of frames in a file or on a GPU.
    """
    system, given = run.system, run.given
    if not run.keeps_energy or system.books or system.clock is not None or not 0 < given.members <= MOST:
        return None
    if not all(isinstance(v, np.ndarray) for v in frames.values()):
        return None
    look = look_of(system, None)
    if look is None:
        return None
    count = len(next(iter(frames.values())))
    rows = np.unique(np.linspace(0, count - 1, max(2, MOST // given.members)).astype(int))
    kept = {name: v[rows] for name, v in frames.items()}
    shape = len(rows), given.members
    flat = {n: np.asarray(v, np.float64).reshape(*shape, -1) for n, v in run.encoding.values(kept).items()}
    flat |= {n: np.broadcast_to(v.reshape(1, len(v), -1), (*shape, v[0].size)) for n, v in given.own.items()}
    with np.errstate(all="ignore"):
        energy, scale = (np.broadcast_to(x, shape) for x in look.energy[1](*look.columns(flat)))
        largest = np.fmax.reduce(scale, axis=0)
        off = np.abs(energy - energy[0]) / np.where(largest > 0.0, largest, 1.0)
    good = np.isfinite(energy)
    return float(off[good].max(initial=0.0)) if good.any() else None
