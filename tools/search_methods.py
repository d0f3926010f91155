"""Which weights make the best method of an order?  Many starts, order conditions kept, the leading error made small.

    python tools/search_methods.py                       a demonstration: order 4, four kicks, half a minute
    python tools/search_methods.py 6 T 11 --starts 200   order 6 for quadratic T, drifts outside, 11 kicks a step

Every start is first brought onto the order conditions by Newton's method (corrections of least norm); from there the
errors of the next order are made small by Gauss-Newton steps along the conditions. What is printed is the best few:
the effective error (kicks times the norm of the leading errors to the power 1/order), the largest weight, and the
first half of the weights. The good ones of long runs are entries of tinyphysics/synth/schemes.py, where Newton's
method in 60 digits starts from them.
"""
from __future__ import annotations

import argparse
import ctypes
import math
import tempfile
import time
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.device.cc import build
from tinyphysics.synth.conditions import RKN, SPLITTING, Conditions, Structure

FLAGS = ("-O3", "-march=native", "-std=gnu11", "-Wno-psabi", "-shared", "-fPIC")
LANES = 32  # as in search_methods.c: a value and up to 31 derivatives


@cache
def compiled() -> ctypes.CDLL:
    library = Path(tempfile.mkdtemp(), "words.so")
    library.write_bytes(build(Path(__file__).with_suffix(".c").read_text(), FLAGS))
    return ctypes.CDLL(str(library))


class Family:
    """Palindromes of alternating parts with so many kicks; x is the first half, the middle included."""

    def __init__(self, structure: Structure, order: int, first: str, kicks: int) -> None:
        self.structure, self.order, self.first, self.kicks = structure, order, first, kicks
        self.length = 2 * kicks + 1
        self.half = kicks + 1
        self.parts = [("TV" if first == "T" else "VT")[k % 2] for k in range(self.length)]
        self.letters = np.array(["TV".index(part) for part in self.parts], np.int32)
        self.places = np.array([min(k, self.length - 1 - k) for k in range(self.length)], np.int32)

    @cached_property
    def readers(self) -> list[tuple[Any, Any]]:
        """(of the conditions, of the leading errors): weight n -> matrix on the words of n letters."""
        out = []
        for leading in (False, True):
            c = Conditions(self.structure, (self.order,), leading=leading)
            rows = {}
            for row, (name, (d, entries)) in enumerate(zip(c.names, c.rows)):
                matrix = rows.setdefault(len(name), np.zeros((len(c.names), 2 ** len(name))))
                for k, n in entries:
                    w = c.words[k]
                    matrix[row, int("".join(map(str, w)), 2)] = n / d
            goal = np.array([float(len(name) == 1) for name in c.names])
            out.append((rows, goal))
        return out

    def slopes(self, x: Any, kinds: int = 2) -> list[Any]:
        """Conditions and (of two kinds) leading errors at x, then the derivatives of each."""
        top = self.order - 1 if kinds == 1 else self.order + 1
        s = np.empty((2 ** (top + 1) - 1, LANES))
        arrays = (self.letters, self.places, np.ascontiguousarray(x), s)
        compiled().words(top, self.length, *(a.ctypes.data_as(ctypes.c_void_p) for a in arrays))
        found = [sum(m @ s[2**n - 1 : 2 ** (n + 1) - 1] for n, m in rows.items()) for rows, _ in self.readers[:kinds]]
        values = [f[:, 0] - goal for f, (_, goal) in zip(found, self.readers)]
        return values + [f[:, 1 : self.half + 1] for f in found]

    def effective(self, e: Any) -> float:
        return float(self.kicks * np.linalg.norm(e) ** (1 / self.order))


def onto(family: Family, x: Any, limit: float) -> Any | None:
    """Newton's method of least norm from a start; None where it leads away or nowhere."""
    for _ in range(40):
        c, jc = family.slopes(x, kinds=1)
        if np.abs(c).max() < 1e-13:
            return x
        step = np.linalg.lstsq(jc, c, rcond=None)[0]
        x = x - step * min(1.0, 0.5 / max(np.abs(step).max(), 1e-300))
        if not np.all(np.isfinite(x)) or np.abs(x).max() > limit:
            return None
    return None


def descend(family: Family, x: Any, limit: float, most: int = 120) -> tuple[float, Any]:
    """Gauss-Newton along the conditions, damped as it must be: (effective error, where)."""
    damping = 1e-3
    c, e, jc, je = family.slopes(x)
    best = float(e @ e)
    for _ in range(most):
        _, sizes, vt = np.linalg.svd(jc)
        free = vt[(sizes > 1e-9 * sizes[0]).sum() :].T
        if not free.shape[1]:
            break
        back = -np.linalg.lstsq(jc, c, rcond=None)[0]
        along = je @ free
        scale = np.linalg.norm(along, 2)
        for _ in range(8):
            system = np.vstack([along, math.sqrt(damping) * scale * np.eye(free.shape[1])])
            z = np.linalg.lstsq(system, np.concatenate([-(e + je @ back), np.zeros(free.shape[1])]), rcond=None)[0]
            step = back + free @ z
            new = onto(family, x + step * min(1.0, 0.2 / np.abs(step).max()), limit)
            found = None if new is None else family.slopes(new)
            if found is not None and found[1] @ found[1] < best:
                break
            damping *= 8
        else:
            break
        gained = 1 - (found[1] @ found[1]) / best
        x, (c, e, jc, je), best = new, found, float(found[1] @ found[1])
        damping = max(damping / 6, 1e-9)
        if gained < 1e-6:
            break
    return family.effective(e), x


def search(family: Family, starts: int, seed: int, limit: float = 1.0, seconds: float = math.inf) -> list[tuple[float, Any]]:
    """The best of many starts, each once."""
    rng = np.random.default_rng(seed)
    found: list[tuple[float, Any]] = []
    began = time.perf_counter()
    for _ in range(starts):
        x = rng.normal(size=family.half) * 0.3
        for part in "TV":  # consistent from the beginning
            own = [k for k in range(family.half) if family.parts[k] == part]
            total = sum((1 if k == family.half - 1 else 2) * x[k] for k in own)
            x[own] += (1 - total) / sum(1 if k == family.half - 1 else 2 for k in own)
        x = onto(family, x, limit)
        if x is None:
            continue
        e, x = descend(family, x, limit)
        if not any(abs(e - other) < 1e-6 * e and np.abs(x - y).max() < 1e-4 for other, y in found):
            found.append((e, x))
        if time.perf_counter() - began > seconds:
            break
    return sorted(found, key=lambda f: f[0])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("order", nargs="?", type=int, default=4)
    arguments.add_argument("first", nargs="?", choices="TV", default="T", help="the part that begins and ends the step")
    arguments.add_argument("kicks", nargs="?", type=int, default=4, help="of the other part, a step")
    arguments.add_argument("--general", action="store_true", help="without what a quadratic T gives")
    arguments.add_argument("--starts", type=int, default=30)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--limit", type=float, default=1.0, help="the largest weight")
    arguments.add_argument("--seconds", type=float, default=math.inf, help="begin no start after that")
    arguments.add_argument("--show", type=int, default=5)
    args = arguments.parse_args()
    family = Family(SPLITTING if args.general else RKN, args.order, args.first, args.kicks)
    began = time.perf_counter()
    found = search(family, args.starts, args.seed, args.limit, args.seconds)
    print(f"order {args.order}, {args.first} outside, {args.kicks} kicks: {len(found)} solutions in "
          f"{time.perf_counter() - began:.0f} s")  # fmt: skip
    for e, x in found[: args.show]:
        print(f"  effective error {e:.5f}, largest weight {np.abs(x).max():.3f}:", *(f"{v:.17f}" for v in x))


if __name__ == "__main__":
    main()
