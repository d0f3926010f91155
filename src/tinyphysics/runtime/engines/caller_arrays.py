"""How does a run take arrays on a GPU that another library owns, and give such arrays back?

They go through the same run as NumPy's and stay where they are: frames are made there, hashed there
(runtime/state/device_arrays.py), and given back as arrays of that library. Observables, energies and stops come to this
machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tinyphysics.device.cuda import dlpack as exchange
from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda.dlpack import DeviceArray
from tinyphysics.errors import InputError, PlanError
from tinyphysics.planner.conflicts import ON_A_GPU, Ask, check
from tinyphysics.runtime.engines.backend import transferred
from tinyphysics.system import System
from tinyphysics.target import BUILT, Target
from tinyphysics.trajectory import Trajectory, Words


@dataclass(frozen=True)
class CallerArrays:
    """Where a run's states came from, and go back to."""

    like: Mapping[str, Any]  # an array of the user's, by its name
    target: Target = BUILT["cuda"]
    moved: Mapping[str, int] = field(default_factory=lambda: transferred(BUILT["cuda"]))  # until then


def adopt_arrays(given: Mapping[str, Any], resume: Any) -> tuple[dict[str, Any], CallerArrays]:
    """What was given, with arrays of other libraries as our own, where they are."""
    check("arrays", Ask({"resume": resume}, traits={ON_A_GPU: True}))
    if len(cuda.taken()) > 1:
        raise PlanError(
            "arrays on a GPU are not moved, and this run would use several GPUs",
            fix="Set TINYPHYSICS_CUDA_DEVICE to the number of one.",
        )
    out, like = dict(given), {}
    for name, value in given.items():
        if not exchange.is_there(value):
            continue
        if isinstance(value, Words):
            out[name] = Words({w: exchange.taken(name, v) for w, v in value.arrays.items()})
            like[name] = next(iter(value.arrays.values()))
        else:
            out[name], like[name] = exchange.taken(name, value), value
    return out, CallerArrays(like)


def check_arrays(
    system: System, given: Mapping[str, Any], arrays: CallerArrays
) -> tuple[dict[str, Any], CallerArrays | None]:
    """The same for what was compiled: states are there, parameters come here. With parameters alone it is a run of here."""
    velocities = () if system.motion is None else system.motion.v
    states = [
        name
        for name in (*(s.name for s in system.states), *(str(v.arg) for v in velocities))
        if given.get(name) is not None
    ]
    own = {name: value if name in states else exchange.here(value) for name, value in given.items()}
    like = {name: arrays.like[name] for name in states if name in arrays.like}
    if not like:
        return own, None
    if len(like) < len(states):
        raise InputError(
            f"`{next(iter(like))}` is on a GPU, but some other states are not",
            fix="Pass all states on the same GPU, or all as NumPy arrays.",
        )
    return own, replace(arrays, like=like)


def host_copies(given: Mapping[str, Any]) -> dict[str, Any]:
    """Copies on this machine, for what looks at a state before it runs."""
    words = {
        n: {w: exchange.here(v) for w, v in x.arrays.items()}
        for n, x in given.items()
        if isinstance(x, Words)
    }
    return {n: Words(words[n]) if n in words else exchange.here(x) for n, x in given.items()}


def return_arrays(out: Trajectory, arrays: CallerArrays, here: bool = False) -> None:
    """Frames and the final state as arrays of the library that they came from; what was made here is sent there first."""
    cuda.synchronise()

    def given_back(states: Mapping[str, Any]) -> dict[str, Any]:
        some = next(iter(arrays.like.values()))
        return {
            name: exchange.given_back(exchange.sent(v), arrays.like.get(name.partition(".")[0], some))
            if here or isinstance(v, DeviceArray)
            else v
            for name, v in states.items()
        }

    out.frames, out.kept = given_back(out.frames), given_back(out.kept)
    out.final.states, out.final.kept = given_back(out.final.states), given_back(out.final.kept)


def to_host(out: Trajectory) -> Trajectory:
    """The same, with frames that are elsewhere as copies."""
    if not any(map(exchange.is_there, out.frames.values())):
        return out
    return replace(out, frames={name: exchange.numbers(v) for name, v in out.frames.items()})
