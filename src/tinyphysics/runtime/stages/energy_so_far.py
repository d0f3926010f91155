"""How far has the energy wandered so far?  From what a run has recorded anyway: observed values, or saved frames."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyphysics.ir import UOp
from tinyphysics.runtime.stages.execute import observe_states
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import Run

WAIT = 4.0  # seconds before the energy of a frame is computed: it may have to be compiled
FAR = 0.05  # of the first energy
SHARE = 0.02  # of the time, at most, goes into such energies


@dataclass
class EnergySoFar:
    """Largest |E - E0| of any member over the largest |E0|, up to a step, in words; None where it is not known.

    Frames alone may miss the worst, and the words say so.
    """

    run: Run
    record: Record
    values: Mapping[str, UOp]
    # not where forces go through a tree: the exact energy would take longer than many steps
    of_frames_too: bool = True
    worst: float = 0.0
    finite: bool = True
    seen: int = 0  # rows or frames that are counted already
    first: Any = None
    began: float = field(default_factory=time.monotonic)
    spent: float = 0.0  # seconds on energies of frames

    def __call__(self, n: int) -> str | None:
        energy, s = self.run.system.seen.energy, self.record.schedule
        if energy is None or not self.run.keeps_energy or self.run.system.seen.books:
            return None
        if self.run.given.members == 0:
            return None
        name = next((name for name, u in self.values.items() if u is energy), None)
        frames_only = name is None
        if name is not None and name in self.record.observed:
            rows = len(s.observed(n))
            new = self.record.observed[name][self.seen : rows]
        elif self.of_frames_too and (s.save_every is not None or s.marks is not None) and self.record.frames:
            rows = s.slot(s.last_saved(n)) + 1
            if rows == self.seen or self.spent > SHARE * (time.monotonic() - self.began - WAIT):
                return None if self.first is None else self.told(frames_only)
            new = self.of_frames(energy, rows)
        else:
            return None
        if self.first is None:
            self.first = np.array(new[0])
        self.seen = rows
        with np.errstate(invalid="ignore"):
            alone = self.run.given.members == 1  # of several, one that has stopped shows NaN
            self.finite = self.finite and bool(np.isfinite(new if alone else self.first).all())
            self.worst = float(np.fmax.reduce(np.abs(new - self.first), axis=None, initial=self.worst))
        return self.told(frames_only)

    def told(self, frames_only: bool) -> str:
        if not self.finite:
            return "energy not finite"
        first = float(np.abs(self.first).max())
        off, of = self.worst / (first or 1.0), " of that at the start" if first else ""
        far = ": dt may be too long" if off > FAR else ""
        what, where = ("off by", " in the frames") if frames_only else ("drift", "")
        return f"energy {what} {off:.1e}{of}{where}{far}"

    def of_frames(self, energy: UOp, rows: int) -> Any:
        """The first frame, if it was not counted, and the last one: not all between, which would take long."""
        r = self.record
        start = time.monotonic()
        parts = [self.run.given.states] * (self.seen == 0) + [r.frame_of(rows - 1)]
        frames = {name: np.stack([np.asarray(part[name]) for part in parts]) for name in r.frames}
        steps = [r.schedule.first] * (self.seen == 0) + [int(r.schedule.steps_of(rows - 1, rows)[0])]
        out = observe_states(self.run, {"energy": energy}, frames, steps)["energy"]
        self.spent += time.monotonic() - start
        return out
