"""What does a box that changed say when a run is over?  Its size at every frame, and the work that it has done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tinyphysics.runtime.stages.cells import Cells
from tinyphysics.runtime.stages.diagnose import Finished


def boxes(f: Finished) -> Mapping[str, Any]:
    """Adds the box to the frames of a run."""
    worker = f.record.worker
    if not isinstance(worker, Cells):
        return {}
    many, steps = f.run.given.is_ensemble, np.asarray(f.out.steps)

    def seen(values: Any) -> Any:
        values.flags.writeable = False
        return values if many else values[:, 0]

    sizes = seen(worker.sizes.at(steps))
    last = worker.sizes.values[-1]
    f.out.frames = {**f.out.frames, worker.name: sizes}
    f.out.final.states = {**f.out.final.states, worker.name: last if many else last[0]}
    f.out._later = {**f.out._later, "cell_work": lambda: seen(worker.works.at(steps))}
    share = worker.accepted / np.maximum(worker.tries, 1)
    told = {"barostat": worker.way, "every": worker.every, "acceptance": share if many else float(share[0])}
    if worker.kappa is not None:
        told["compressibility"] = worker.kappa if many else float(worker.kappa[0])
    return {"box": told}
