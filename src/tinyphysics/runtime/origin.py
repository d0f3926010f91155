"""What can still be asked of a finished run?  Its energies, and by a bit-equal replay, every step."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, PlanError
from tinyphysics.ir import Ops, UOp
from tinyphysics.runtime.execute import Run, execute, looking
from tinyphysics.runtime.loop import shaped
from tinyphysics.runtime.schedule import Schedule, time_at


@dataclass(frozen=True, eq=False)
class Origin:
    run: Run
    frames: tuple[Mapping[str, Any], ...]
    steps: tuple[int, ...]
    last: int

    def energy(self) -> UOp:
        system = self.run.system
        if system.energy is None:
            raise PlanError(f"`{system.name}` is given by its {system.kind}: no energy is known for it",
                            fix="Write it as a Hamiltonian, or observe a function of your own.")  # fmt: skip
        return system.energy

    def energies(self) -> Any:
        """The energy of every frame."""
        look = looking(self.run, {"energy": self.energy()})
        view = shaped(self.run.given)
        return np.stack([view(look(f, n))["energy"] for f, n in zip(self.frames, self.steps)])

    def watched(self, name: str) -> dict[str, UOp]:
        if name != "energy":
            raise InputError(f"the drift of `{name}` is not defined", fix='drift("energy") is.')
        energy = self.energy()
        return {"value": energy, "scale": UOp.sum_of(abs(x) for x in addends(energy))}

    def series(self, name: str) -> tuple[Any, Any, Any]:
        """(times, values, scale) over every step: the run again, bit for bit, with one thing observed."""
        every = Schedule(self.last, None, 1, None)
        again, *_ = execute(self.run, every, self.watched(name), lambda n: None)
        values, scale = again.series("value"), np.fmax.reduce(again.series("scale"), axis=0)
        t = np.array([time_at(n, self.run.dt, self.run.t0) for n in again.observed_at])
        return (t, values, scale) if self.run.given.is_ensemble else (t, values[:, 0], scale[0])

    def drift(self, name: str) -> Any:
        """Largest |E - E0| / S over every step, per member; nothing but the extremes is kept."""
        first: Any = None
        worst: Any = 0.0
        scale: Any = 0.0

        def reduce(steps: list[int], values: Mapping[str, Any]) -> None:
            nonlocal first, worst, scale
            if first is None:
                first = values["value"][0].copy()
            with np.errstate(invalid="ignore"):
                worst = np.fmax(worst, np.fmax.reduce(np.abs(values["value"] - first), axis=0))
                scale = np.fmax(scale, np.fmax.reduce(values["scale"], axis=0))

        execute(self.run, Schedule(self.last, None, 1, None), self.watched(name), lambda n: None, reduce)
        out = worst / np.where(scale > 0, scale, 1.0)
        return out if self.run.given.is_ensemble else float(out[0])


def addends(u: UOp) -> list[UOp]:
    """The terms of a sum, without their signs; a number in front of a sum is a number in front of each."""
    match u.op, u.src:
        case (Ops.ADD | Ops.SUB), (a, b):
            return addends(a) + addends(b)
        case Ops.NEG, (a,):
            return addends(a)
        case Ops.DIV, (a, b) if not b.leaves:
            return [x / b for x in addends(a)]
        case Ops.MUL, (a, b) if not a.leaves or not b.leaves:
            factor, rest = (a, b) if not a.leaves else (b, a)
            return [factor * x for x in addends(rest)]
    return [u]
