"""A run whose states are arrays on a GPU, of the user's library: what is done with them that is done with NumPy's here.

They go through the same run (runtime/api/simulation.py, runtime/stages/loop.py) and stay where they are: frames are made
there, hashed there, and given back as arrays of that library. What somebody looks at (observables, energies, stops) comes
here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tinyphysics.device.cuda import dlpack as exchange
from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda.dlpack import DeviceArray
from tinyphysics.device.engines.cuda_lanes import KINDS, Rows, whole
from tinyphysics.device.numbers import LOST, NUMPY_DTYPE
from tinyphysics.errors import InputError, PlanError
from tinyphysics.ir.dtype import f32, f64
from tinyphysics.planner.conflicts import ON_A_GPU, Ask, check
from tinyphysics.planner.cost.target import choose_target, in_series
from tinyphysics.runtime.engines.backend import transferred
from tinyphysics.runtime.engines.cuda import hashing, moves, tools
from tinyphysics.runtime.state.encoding import Encoding
from tinyphysics.target import BUILT, Target
from tinyphysics.tpir.precision.lattice import RANGE
from tinyphysics.tpir.precision.precision import PRECISIONS
from tinyphysics.trajectory import Trajectory, Words

WARP = (
    32  # threads of a block that hashes: a thread has long to do, and blocks are on processors of their own
)


@dataclass(frozen=True)
class Back:
    """Where a run's states came from, and go back to."""

    like: Mapping[str, Any]  # an array of the user's, by its name
    target: Target = BUILT["cuda"]
    moved: Mapping[str, int] = field(default_factory=lambda: transferred(BUILT["cuda"]))  # until then


def brought(given: Mapping[str, Any], resume: Any) -> tuple[dict[str, Any], Back]:
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
    return out, Back(like)


def settled(sim: Any, given: Mapping[str, Any], back: Back) -> tuple[dict[str, Any], Back | None]:
    """The same for what was compiled: states are there, parameters come here. With parameters alone it is a run of here."""
    system = sim.system
    velocities = () if system.motion is None else system.motion.v
    states = [
        name
        for name in (*(s.name for s in system.states), *(str(v.arg) for v in velocities))
        if given.get(name) is not None
    ]
    own = {name: value if name in states else exchange.here(value) for name, value in given.items()}
    like = {name: back.like[name] for name in states if name in back.like}
    if not like:
        return own, None
    if len(like) < len(states):
        raise InputError(
            f"`{next(iter(like))}` is on a GPU, but some other states are not",
            fix="Pass all states on the same GPU, or all as NumPy arrays.",
        )
    return own, replace(back, like=like, target=target_of(sim))


def target_of(sim: Any) -> Target:
    """The GPU, if it was asked for or nothing was."""
    found: Target = sim.target
    if found.backend == "cuda":
        return found
    if sim.requested != "auto" or found.backend != "llvm" or not found.bit_exact:
        raise PlanError(
            f"a state is on a GPU, and this simulation runs on `{found.backend}`",
            fix='Compile it with backend="cuda", or pass NumPy arrays.',
        )
    if sim.compiled.series is not None:
        return in_series(sim.tpir, "cuda")[0]
    return choose_target(sim.tpir, "cuda", sim.goal.precision)[0]


def here(given: Mapping[str, Any]) -> dict[str, Any]:
    """Copies on this machine, for what looks at a state before it runs."""
    return {
        name: Words({w: exchange.here(v) for w, v in value.arrays.items()})
        if isinstance(value, Words)
        else exchange.here(value)
        for name, value in given.items()
    }


def stored(encoding: Encoding, name: str, a: DeviceArray) -> dict[str, Any]:
    """The words of a state, as the run keeps them."""
    p = encoding.precision
    one = p.low is None and p.state.is_float
    takes = np.dtype(NUMPY_DTYPE[p.state.name] if one else np.float64)
    if a.dtype != takes:
        other = f', or choose precision="{a.dtype}"' if one and a.dtype.name in PRECISIONS else ""
        raise InputError(
            f"`{name}` is {a.dtype}, and a run in {p.name} takes {takes}", fix=f"Convert it{other}."
        )
    if one:
        return {name: a}
    if p.low is None:
        out = exchange.empty(a.shape, np.int64)
        if a.size:
            numbers = bits(1.0 / p.unit(name)), bits(RANGE), LOST, a.size
            moves(cuda.device()).launch("whole", a.size, place(a), place(out), *whole(*numbers))
        return {name: out}
    if (p.state, p.low) == (f64, f64):
        low = exchange.empty(a.shape, np.float64)
        cuda.fill_at(low.pointer, 0, low.nbytes)
        return dict(zip(p.names(name), (a, low)))
    assert (p.state, p.low) == (f32, f32)
    words = [exchange.empty(a.shape, np.float32) for _ in range(2)]
    if a.size:
        moves(cuda.device()).launch("split", a.size, *map(place, (a, *words)), *whole(a.size))
    return dict(zip(p.names(name), words))


def valued(n: DeviceArray, unit: float) -> DeviceArray:
    """What whole numbers of a unit are; of what is lost NaN."""
    out = exchange.empty(n.shape, np.float64)
    if out.size:
        moves(cuda.device()).launch(
            "value", out.size, place(n), place(out), *whole(bits(unit), LOST, out.size)
        )
    return out


def bits(x: float) -> int:
    return int(np.float64(x).view(np.int64))


def total(high: DeviceArray, low: DeviceArray) -> DeviceArray:
    """The value of two words."""
    out = exchange.empty(high.shape, np.float64)
    if out.size:
        kind = KINDS[high.dtype.name]
        moves(cuda.device()).launch(
            f"total_{kind}", out.size, *map(place, (high, low, out)), *whole(out.size)
        )
    return out


def all_finite(a: DeviceArray) -> bool:
    """One word is read."""
    if not a.size:
        return True
    t, word, marks = tools(cuda.device()), cuda.zero(cuda.Buffer(4)), cuda.Buffer(a.size)
    t.launch(f"bad_{KINDS[a.dtype.name]}", a.size, place(a), *whole(1, 0, a.size, LOST), marks, word)
    return not cuda.read(word, np.zeros(1, np.int32))[0]


def behind(rows: Rows, first: int, until: float, members: int) -> bool:
    """Does the step of any member end before a time?  By clocks that begin with this row; one word is read."""
    assert rows.dtype == np.float64
    at, word = ctypes.c_uint64(rows.buffer.pointer + 8 * first * rows.lanes), cuda.zero(cuda.Buffer(4))
    moves(cuda.device()).launch("behind", members, at, *whole(rows.lanes, bits(until), members), word)
    return bool(cuda.read(word, np.zeros(1, np.int32))[0])


def leaves(a: DeviceArray, leaf: int) -> bytes:
    """The digests of pieces of so many bytes (runtime/state/digest.py), of which each is 16 bytes that are read."""
    if not a.size:
        return b""
    kind, count = KINDS[a.dtype.name], -(-a.nbytes // leaf)
    out, (f,) = cuda.Buffer(16 * count), hashing(cuda.device(), kind).function.values()
    cuda.launch(
        f, -(-count // WARP), WARP, [place(a), *whole(a.size, leaf // a.itemsize), out, *whole(count)]
    )
    return bytes(cuda.read(out, np.empty(16 * count, np.uint8)).tobytes())


def place(a: DeviceArray) -> Any:
    return ctypes.c_uint64(a.pointer)


def hand_back(out: Trajectory, back: Back, here: bool = False) -> None:
    """Frames and the final state as arrays of the library that they came from; what was made here is sent there first."""
    cuda.synchronise()

    def given_back(states: Mapping[str, Any]) -> dict[str, Any]:
        some = next(iter(back.like.values()))
        return {
            name: exchange.given_back(exchange.sent(v), back.like.get(name.partition(".")[0], some))
            if here or isinstance(v, DeviceArray)
            else v
            for name, v in states.items()
        }

    out.frames, out.kept = given_back(out.frames), given_back(out.kept)
    out.final.states, out.final.kept = given_back(out.final.states), given_back(out.final.kept)


def on_this_machine(out: Trajectory) -> Trajectory:
    """The same, with frames that are elsewhere as copies."""
    if not any(map(exchange.is_there, out.frames.values())):
        return out
    return replace(out, frames={name: exchange.numbers(v) for name, v in out.frames.items()})
