"""How do hard bodies move from event to event?  The loop in Python, which is its meaning, and as compiled C with its bits."""

from __future__ import annotations

import ctypes
import math
from functools import cache
from typing import Any

import numpy as np

from tinyphysics.device.host.cc import build, load_library

INT, REAL = ctypes.c_int64, ctypes.c_double
ARRAYS = ("x", "v", "t", "r", "m", "when")
LISTS = ("with_", "seen", "count", "cell", "next", "prev", "head", "heap", "place")
THERE, DONE, STILL = 0, 1, 2


class Layout(ctypes.Structure):
    _fields_ = [
        ("n", INT), ("d", INT), ("nc", INT * 3), ("walls", INT * 3), ("box", REAL * 3), ("size", REAL * 3), ("e", REAL),
        ("now", REAL), ("work", REAL), ("lost", REAL), ("collisions", INT), ("still", INT),
        *((name, ctypes.c_void_p) for name in (*ARRAYS, *LISTS)),
    ]  # fmt: skip


class Bodies:
    """The whole state of the loop: arrays, and the numbers now, work, lost, collisions, still."""

    def __init__(self, x: Any, v: Any, r: Any, m: Any, box: Any, walls: Any, e: float) -> None:
        self.n, self.d = x.shape
        self.box, self.walls, self.e = [float(b) for b in box], [int(w) for w in walls], float(e)
        self.now = self.work = self.lost = 0.0
        self.collisions = self.still = 0
        most = max(3, math.ceil(self.n ** (1 / self.d)))
        self.nc = [max(3, min(most, int(b / (2.0 * float(r.max()))))) for b in self.box]
        self.size = [b / k for b, k in zip(self.box, self.nc)]
        self.x, self.v, self.r, self.m = (np.array(a, np.float64) for a in (x, v, r, m))
        self.t, self.when = np.zeros(self.n), np.zeros(self.n)
        cells = int(np.prod(self.nc))
        for name in ("with_", "seen", "count", "next", "prev"):
            setattr(self, name, np.zeros(self.n, np.int64))
        self.head = np.full(cells, -1, np.int64)
        self.heap, self.place = np.arange(self.n), np.arange(self.n)
        places = np.minimum((self.x / self.size).astype(np.int64), np.array(self.nc) - 1)
        self.cell = np.ravel_multi_index(tuple(places.T), tuple(self.nc)).astype(np.int64)
        for i in range(self.n):
            c = self.cell[i]
            self.next[i], self.prev[i] = self.head[c], -1  # type: ignore[attr-defined]
            if self.head[c] >= 0:
                self.prev[self.head[c]] = i  # type: ignore[attr-defined]
            self.head[c] = i

    def positions(self) -> Any:
        """At the time that it is now; a copy."""
        return self.x + (self.now - self.t)[:, None] * self.v

    def copy(self) -> Bodies:
        other = object.__new__(Bodies)
        other.__dict__ |= {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in self.__dict__.items()}
        return other


# --- as C ---------------------------------------------------------------------------------------------------
@cache
def library(source: str) -> Any:
    made = load_library(build(source))
    made.begin.argtypes, made.begin.restype = [ctypes.POINTER(Layout)], None
    made.go.argtypes, made.go.restype = [ctypes.POINTER(Layout), REAL, INT, INT], INT
    return made


class InC:
    def __init__(self, s: Bodies, source: str) -> None:
        self.s, self.f = s, library(source)

    def called(self, do: Any) -> Any:
        s, at = self.s, Layout()
        at.n, at.d, at.e, at.now, at.work, at.lost = s.n, s.d, s.e, s.now, s.work, s.lost
        at.collisions, at.still = s.collisions, s.still
        for name in ("nc", "walls", "box", "size"):
            getattr(at, name)[: s.d] = getattr(s, name)
        for name in (*ARRAYS, *LISTS):
            setattr(at, name, getattr(s, name).ctypes.data)
        out = do(ctypes.byref(at))
        s.now, s.work, s.lost, s.collisions, s.still = at.now, at.work, at.lost, at.collisions, at.still
        return out

    def begin(self) -> None:
        self.called(self.f.begin)

    def go(self, until: float, collisions: int, patience: int) -> int:
        return int(self.called(lambda at: self.f.go(at, until, collisions, patience)))


# --- in Python ----------------------------------------------------------------------------------------------
class InPython:
    """The same, number by number."""

    def __init__(self, s: Bodies) -> None:
        self.s = s

    def begin(self) -> None:
        self.open()
        for i in range(self.s.n):
            self.predict(i)
        self.close()

    def open(self) -> None:
        """Arrays as lists: their numbers are floats of Python."""
        for name in (*ARRAYS, *LISTS):
            setattr(self.s, name, getattr(self.s, name).tolist())

    def close(self) -> None:
        for names, dtype in ((ARRAYS, np.float64), (LISTS, np.int64)):
            for name in names:
                setattr(self.s, name, np.array(getattr(self.s, name), dtype))

    def before(self, a: int, b: int) -> bool:
        w: Any = self.s.when
        return bool(w[a] < w[b] or (w[a] == w[b] and a < b))

    def put(self, k: int, i: int) -> None:
        self.s.heap[k], self.s.place[i] = i, k

    def sift(self, i: int) -> None:
        s, k = self.s, int(self.s.place[i])
        while k > 0 and self.before(i, int(s.heap[(k - 1) // 2])):
            self.put(k, int(s.heap[(k - 1) // 2]))
            k = (k - 1) // 2
        while True:
            c = 2 * k + 1
            if c >= s.n:
                break
            if c + 1 < s.n and self.before(int(s.heap[c + 1]), int(s.heap[c])):
                c += 1
            if not self.before(int(s.heap[c]), i):
                break
            self.put(k, int(s.heap[c]))
            k = c
        self.put(k, i)

    def move(self, i: int) -> None:
        s: Any = self.s
        h = s.now - s.t[i]
        for a in range(s.d):
            s.x[i][a] = s.x[i][a] + h * s.v[i][a]
        s.t[i] = s.now

    def places(self, i: int) -> list[int]:
        s, rest = self.s, int(self.s.cell[i])
        c = [0] * s.d
        for a in reversed(range(s.d)):
            c[a], rest = rest % s.nc[a], rest // s.nc[a]
        return c

    def at_wall(self, a: int, up: int, c: list[int]) -> bool:
        return bool(self.s.walls[a]) and (c[a] == self.s.nc[a] - 1 if up else c[a] == 0)

    def predict(self, i: int) -> None:
        s: Any = self.s
        best, who, d, c = math.inf, -1, s.d, self.places(i)
        for a in range(d):
            v, x = s.v[i][a], s.x[i][a]
            if v == 0.0:
                continue
            up = int(v > 0.0)
            wall = s.box[a] - s.r[i] if up else s.r[i]
            h = ((wall if self.at_wall(a, up, c) else float(c[a] + up) * s.size[a]) - x) / v
            h = 0.0 if h < 0.0 else h
            if s.now + h < best:
                best, who = s.now + h, -2 - 2 * a - up
        for k in range(3**d):
            rest, at, out, shift = k, 0, False, [0.0] * d
            for a in range(d):
                o = c[a] + rest % 3 - 1
                rest //= 3
                if o < 0 or o >= s.nc[a]:
                    out = out or bool(s.walls[a])
                    shift[a] = -s.box[a] if o < 0 else s.box[a]
                    o = o % s.nc[a]
                at = at * s.nc[a] + o
            j = -1 if out else s.head[at]
            while j >= 0:
                if j != i and (when := self.meeting(i, j, shift)) is not None and when < best:
                    best, who = when, j
                j = s.next[j]
        s.when[i], s.with_[i] = best, who
        s.seen[i] = s.count[who] if who >= 0 else 0
        self.sift(i)

    def meeting(self, i: int, j: int, shift: list[float]) -> float | None:
        s: Any = self.s
        h, b, w, g, both = s.now - s.t[j], 0.0, 0.0, 0.0, s.r[i] + s.r[j]
        for a in range(s.d):
            dx = ((s.x[j][a] + h * s.v[j][a]) - s.x[i][a]) + shift[a]
            dv = s.v[j][a] - s.v[i][a]
            b, w, g = b + dx * dv, w + dv * dv, g + dx * dx
        if not b < 0.0:
            return None
        g = g - both * both
        q = b * b - w * g
        if not q > 0.0:
            return None
        return float(s.now + (g / (math.sqrt(q) - b) if g > 0.0 else 0.0))

    def leave(self, i: int, to: int) -> None:
        s: Any = self.s
        if s.prev[i] >= 0:
            s.next[s.prev[i]] = s.next[i]
        else:
            s.head[s.cell[i]] = s.next[i]
        if s.next[i] >= 0:
            s.prev[s.next[i]] = s.prev[i]
        s.cell[i], s.prev[i], s.next[i] = to, -1, s.head[to]
        if s.next[i] >= 0:
            s.prev[s.next[i]] = i
        s.head[to] = i

    def go(self, until: float, collisions: int, patience: int) -> int:
        self.open()
        try:
            return self.run(until, collisions, patience)
        finally:
            self.close()

    def run(self, until: float, collisions: int, patience: int) -> int:
        s: Any = self.s
        while collisions > 0:
            i = s.heap[0]
            j = s.with_[i]
            if s.when[i] > until:
                return THERE
            s.still = 0 if s.when[i] > s.now else s.still + 1
            if s.still > patience:
                return STILL
            s.now = s.when[i]
            self.move(i)
            if j >= 0 and s.count[j] != s.seen[i]:
                self.predict(i)
            elif j < 0:
                self.cross(i, (-2 - j) // 2, (-2 - j) % 2)
                self.predict(i)
            else:
                self.move(j)
                self.collide(i, j)
                collisions -= 1
                self.predict(i)
                self.predict(j)
        return DONE

    def cross(self, i: int, a: int, up: int) -> None:
        s: Any = self.s
        c = self.places(i)
        if self.at_wall(a, up, c):
            v = s.v[i][a]
            w = -(s.e * v)
            s.lost = s.lost + 0.5 * s.m[i] * (v * v - w * w)
            s.v[i][a] = w
            s.count[i] += 1
            return
        c[a] += 1 if up else -1
        s.x[i][a] = float(c[a] if up else c[a] + 1) * s.size[a]
        if c[a] < 0:
            c[a], s.x[i][a] = c[a] + s.nc[a], s.box[a]
        elif c[a] >= s.nc[a]:
            c[a], s.x[i][a] = c[a] - s.nc[a], 0.0
        to = 0
        for k in range(s.d):
            to = to * s.nc[k] + c[k]
        self.leave(i, to)

    def collide(self, i: int, j: int) -> None:
        s: Any = self.s
        dx, g, b = [0.0] * s.d, 0.0, 0.0
        for a in range(s.d):
            dx[a] = s.x[j][a] - s.x[i][a]
            if not s.walls[a]:
                if dx[a] > 0.5 * s.box[a]:
                    dx[a] = dx[a] - s.box[a]
                elif dx[a] < -(0.5 * s.box[a]):
                    dx[a] = dx[a] + s.box[a]
            g, b = g + dx[a] * dx[a], b + dx[a] * (s.v[j][a] - s.v[i][a])
        mass = (s.m[i] * s.m[j]) / (s.m[i] + s.m[j])
        p = ((1.0 + s.e) * mass) * (b / g)
        for a in range(s.d):
            s.v[i][a] = s.v[i][a] + (p * dx[a]) / s.m[i]
            s.v[j][a] = s.v[j][a] - (p * dx[a]) / s.m[j]
        s.work = s.work - p * g
        s.lost = s.lost + 0.5 * mass * ((1.0 - s.e * s.e) * ((b * b) / g))
        s.count[i] += 1
        s.count[j] += 1
        s.collisions += 1
