"""Where are the loop states and cotangents of a gradient run, and how are they computed with?  Where the run is.

On this machine they are NumPy's arrays. On a GPU they stay there (emit/scalar/ptx_cotangents.py): a few words are read to
decide how the sweep goes on, and gradients when it is over. Both have the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any, Protocol

import numpy as np

from tinyphysics.device.cuda import dlpack
from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda.dlpack import DeviceArray, here
from tinyphysics.device.cuda.rows import KINDS, Tools, is_blank, whole
from tinyphysics.emit.scalar import ptx_cotangents
from tinyphysics.runtime.state.device_arrays import place

Arrays = Mapping[str, Any]
Pairs = Sequence[
    tuple[Any, ...]
]  # two states, their second words where they have some, and how large numbers are
SHORT = 16  # numbers of a member
SLOTS = (1 << 14, 32)  # numbers that the largest of all members is found among; the last are read


class Numbers(Protocol):
    """Arithmetic on arrays (members, numbers); what it says of a member is a float64."""

    there: bool

    def registers(self, engine: Any, m: Any) -> dict[str, Any]: ...  # copies of all that a loop carries
    def synchronised(self, engine: Any, m: Any) -> dict[str, Any]: ...  # what users see of it
    def largest(self, arrays: Sequence[Any], so_far: Any = None) -> Any: ...  # of each member
    def most(self, sizes: Any) -> float: ...  # of all members
    def growth(self, now: Any, before: Any) -> float: ...  # the largest quotient of two sizes of a member
    def apart(self, pairs: Pairs) -> float: ...  # the largest difference in parts of a size
    def lowered(self, a: Any, exponent: Any) -> Any: ...  # a * 2**-exponent
    def add(self, a: Any, b: Any) -> Any: ...
    def two_sum(self, a: Any, b: Any) -> tuple[Any, Any]: ...  # the sum, and what it has lost

    # (exponents, what is taken off) where sizes are above 2**allowed
    def shifts(self, sizes: Any, exponent: Any, allowed: float) -> tuple[Any, Any]: ...


def zero_exponents(members: int) -> Any:
    """Of cotangents that no power of two was taken off yet: they take no memory."""
    return np.broadcast_to(np.int64(0), (members,))


def is_zero(exponent: Any) -> bool:
    return isinstance(exponent, np.ndarray) and not any(exponent.strides) and not exponent.flat[:1].any()


def of_members(a: Any) -> Any:
    """The largest number of each member, of numbers that are not negative; columns are sooner compared than short rows."""
    return a.max(axis=-1, initial=0.0) if not 0 < a.shape[-1] <= SHORT else reduce(np.maximum, a.T)


class OnHost:
    there = False

    def registers(self, engine: Any, m: Any) -> dict[str, Any]:
        return {name: np.array(v) for name, v in engine.registers(m).items()}

    def synchronised(self, engine: Any, m: Any) -> dict[str, Any]:
        return {name: np.array(v) for name, v in engine.synchronised(m).items()}

    def largest(self, arrays: Sequence[Any], so_far: Any = None) -> Any:
        parts = [of_members(np.abs(np.asarray(here(a), np.float64))) for a in arrays]
        most = reduce(np.maximum, parts if so_far is None else [*parts, so_far])
        return most if np.isfinite(self.most(most)) else np.where(np.isfinite(most), most, np.inf)

    def most(self, sizes: Any) -> float:
        return float(sizes.max(initial=0.0))

    def growth(self, now: Any, before: Any) -> float:
        with np.errstate(all="ignore"):
            return float(np.fmax.reduce(now / before, initial=0.0))

    def apart(self, pairs: Pairs) -> float:
        worst = 0.0
        for *words, sizes in pairs:
            a, b, *low = map(here, words)
            far = np.asarray(a - b, np.float64)
            if low:
                far = far + np.asarray(low[0] - low[1], np.float64)
            far = of_members(np.abs(far))
            with np.errstate(invalid="ignore", divide="ignore"):
                part = far / sizes
            most = float(part.max(initial=0.0))  # what is no number is the largest here
            if np.isnan(most):
                most = float(np.max(np.nan_to_num(part[far != 0], nan=np.inf, posinf=np.inf), initial=0.0))
            worst = max(worst, most)
        return worst

    def lowered(self, a: Any, exponent: Any) -> Any:
        return a if is_zero(exponent) else np.ldexp(a, -exponent.reshape(-1, *(1,) * (np.ndim(a) - 1)))

    def shifts(self, sizes: Any, exponent: Any, allowed: float) -> tuple[Any, Any]:
        power = np.where(np.isfinite(sizes), np.frexp(sizes)[1], 0)
        shift = np.where(power > allowed, power, 0)
        return exponent + shift, shift

    def add(self, a: Any, b: Any) -> Any:
        return here(a) + here(b)

    def two_sum(self, a: Any, b: Any) -> tuple[Any, Any]:
        s = a + b
        part = s - a
        return s, (a - (s - part)) + (b - part)


@lru_cache(maxsize=16)
def kernels(device: cuda.Device) -> Tools:
    return Tools(ptx_cotangents.module(), ptx_cotangents.NAMES)


class OnGpu:
    """The same on the device of a thread."""

    there = True

    def registers(self, engine: Any, m: Any) -> dict[str, Any]:
        found: dict[str, Any] = engine.registers_there(m)
        return found

    def synchronised(self, engine: Any, m: Any) -> dict[str, Any]:
        found: dict[str, Any] = engine.synchronised_there(m)
        return found

    def run(self, name: str, count: int, *given: Any) -> None:
        kernels(cuda.device()).launch(name, count, *given)

    def own(self, a: Any) -> DeviceArray:
        """An array there; one of this machine is sent."""
        if isinstance(a, DeviceArray):
            return a
        if not is_blank(a):
            return dlpack.sent(np.ascontiguousarray(a))
        out = dlpack.empty(a.shape, a.dtype)
        cuda.fill_at(out.pointer, 0, out.nbytes)
        return out

    def kind(self, a: DeviceArray) -> str:
        return KINDS[a.dtype.name]

    def zeros(self, members: int) -> DeviceArray:
        return self.own(np.broadcast_to(0.0, (members,)))

    def largest(self, arrays: Sequence[Any], so_far: Any = None) -> DeviceArray:
        every = [self.own(a) for a in arrays]
        out = self.zeros(len(every[0])) if so_far is None else self.own(so_far).copy()
        for a in every:
            members = len(a)
            self.run(
                f"largest_{self.kind(a)}", members, place(a), place(out), *whole(a.size // members, members)
            )
        return out

    def peak(self, name: str, *arrays: DeviceArray) -> float:
        """Of so many numbers at a time, then of what is left, then here."""
        for slots in SLOTS:
            count = arrays[0].size
            out = dlpack.empty((min(slots, count),), np.float64)
            self.run(name, out.size, *map(place, (*arrays, out)), *whole(count, out.size))
            name, arrays = "peak", (out,)
        return float(arrays[0].numpy().max(initial=0.0))

    def most(self, sizes: Any) -> float:
        return self.peak("peak", self.own(sizes))

    def growth(self, now: Any, before: Any) -> float:
        return self.peak("ratio", self.own(now), self.own(before))

    def apart(self, pairs: Pairs) -> float:
        out = None
        for *words, sizes in pairs:
            every, size = [self.own(w) for w in words], self.own(sizes)
            members = len(size)
            out = self.zeros(members) if out is None else out
            name = f"apart_{'low_' if len(every) > 2 else ''}{self.kind(every[0])}"
            numbers = whole(every[0].size // members, members)
            self.run(name, members, *map(place, (*every, size, out)), *numbers)
        return 0.0 if out is None else self.most(out)

    def lowered(self, a: Any, exponent: Any) -> Any:
        if is_zero(exponent):
            return a
        x, e = self.own(a), self.own(exponent)
        out = dlpack.empty(x.shape, x.dtype)
        numbers = whole(x.size // len(x), x.size)
        self.run(f"scaled_{self.kind(x)}", x.size, *map(place, (x, e, out)), *numbers)
        return out

    def shifts(self, sizes: Any, exponent: Any, allowed: float) -> tuple[Any, Any]:
        members, e = len(sizes), self.own(exponent)
        new, shift = (dlpack.empty((members,), np.int64) for _ in range(2))
        numbers = whole(int(allowed), members)
        self.run("shifts", members, *map(place, (self.own(sizes), e, new, shift)), *numbers)
        return new, shift

    def add(self, a: Any, b: Any) -> DeviceArray:
        x, y = self.own(a), self.own(b)
        out = dlpack.empty(x.shape, x.dtype)
        self.run(f"sum_{self.kind(x)}", x.size, *map(place, (x, y, out)), *whole(x.size))
        return out

    def two_sum(self, a: Any, b: Any) -> tuple[Any, Any]:
        x, y = self.own(a), self.own(b)
        out, lost = (dlpack.empty(x.shape, x.dtype) for _ in range(2))
        self.run(f"two_sum_{self.kind(x)}", x.size, *map(place, (x, y, out, lost)), *whole(x.size))
        return out, lost


HOST, GPU = OnHost(), OnGpu()


def numbers_of(engine: Any) -> Numbers:
    """Where an engine keeps what it carries, if it can be left there."""
    return GPU if getattr(engine, "keeps_there", False) else HOST
