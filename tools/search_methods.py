"""Which weights make the best method of an order?  Many starts, order conditions kept, the leading errors made small.

    python tools/search_methods.py                        a demonstration: order 4, four kicks, half a minute
    python tools/search_methods.py 6 T 11 --seconds 300   order 6 for quadratic T, drifts outside, 11 kicks a step
    python tools/search_methods.py 8 V 21 --seconds 900 --grow kahan_li8 --measured

Every start is first brought onto the order conditions by Newton's method (corrections of least norm); from there the
errors of the next order are made small by Gauss-Newton steps along the conditions. Starts are random, or grown from a
known scheme by kicks of weight zero (for order 8 random starts hardly ever arrive), or a step away from what was found.

The norm of the leading errors says little about a problem: brackets differ in size by orders of magnitude. `--measured`
runs what was found on the problems of tools/measure_methods.py, fits the linear map from leading errors to errors
of the state (it fits to a percent), and makes those small from then on: Hénon–Heiles, Kepler and pendulum, each relative
to the best that is published. The good ones of long runs are entries of tinyphysics/synth/coefficients/schemes.py, where
Newton's method in 60 digits starts from their first ten.
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

from measure_methods import PROBLEMS, exact, run
from tinyphysics.device.host.cc import build
from tinyphysics.planner.methods.catalog import METHODS
from tinyphysics.synth.coefficients.clocks import palindrome
from tinyphysics.synth.coefficients.conditions import RKN, SPLITTING, Conditions, Structure
from tinyphysics.synth.coefficients.schemes import BY_NAME as SCHEMES
from tinyphysics.synth.coefficients.schemes import sequence, steps

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
        self.metric: Any = None  # a matrix on the leading errors: what is made small
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
        found = [
            sum(m @ s[2**n - 1 : 2 ** (n + 1) - 1] for n, m in rows.items())
            for rows, _ in self.readers[:kinds]
        ]
        if self.metric is not None and kinds == 2:
            found[1] = self.metric @ found[1]
        values = [
            f[:, 0] - goal if k == 0 else f[:, 0] for k, (f, (_, goal)) in enumerate(zip(found, self.readers))
        ]
        return values + [f[:, 1 : self.half + 1] for f in found]

    def moves(self, x: Any) -> list[tuple[str, float]]:
        return [(part, float(x[place])) for part, place in zip(self.parts, self.places)]

    def effective(self, e: Any) -> float:
        """Without a metric the effective error; with one the work, in units of the best that is published."""
        return float((self.kicks if self.metric is None else 1) * np.linalg.norm(e) ** (1 / self.order))


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
            z = np.linalg.lstsq(
                system, np.concatenate([-(e + je @ back), np.zeros(free.shape[1])]), rcond=None
            )[0]
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


def random_start(family: Family, rng: Any) -> Any:
    """Consistent from the beginning."""
    x = rng.normal(size=family.half) * 0.3
    twice = np.array([2.0] * (family.half - 1) + [1.0])
    for part in "TV":
        own = [k for k in range(family.half) if family.parts[k] == part]
        x[own] += (1 - twice[own] @ x[own]) / twice[own].sum()
    return x


def grown(x: Any, kicks: int, rng: Any) -> Any:
    """With kicks and drifts of weight zero: one weight is cut in two around each."""
    while len(x) <= kicks:
        k, part = rng.integers(len(x)), rng.uniform(-0.3, 1.3)
        last = (1 - (2 if k == len(x) - 1 else 1) * part) * x[k]
        x = np.concatenate([x[:k], [part * x[k], 0.0, last], x[k + 1 :]])
    return x[: kicks + 1] + rng.normal(size=kicks + 1) * 0.003


def search(
    family: Family,
    seed: int = 0,
    starts: int = 30,
    seconds: float = math.inf,
    limit: float = 1.0,
    roots: list[Any] | None = None,
    found: list[tuple[float, Any]] | None = None,
    keep: int = 60,
) -> list[tuple[float, Any]]:
    """The best of many starts, each once; `roots` are halves of schemes to grow from."""
    rng = np.random.default_rng(seed)
    known = [x for _, x in found or []]
    found = []
    began = time.perf_counter()
    for _ in range(starts):
        if time.perf_counter() - began > seconds:
            break
        if known:
            x = known.pop(0)
        elif found and rng.random() < 0.5:
            near = found[min(int(rng.exponential(4)), len(found) - 1)][1]
            x = near + rng.normal(size=family.half) * rng.choice([0.01, 0.02, 0.05])
        else:
            x = (
                grown(roots[rng.integers(len(roots))], family.kicks, rng)
                if roots
                else random_start(family, rng)
            )
        x = onto(family, x, limit)
        if x is None:
            continue
        e, x = descend(family, x, limit)
        if not any(abs(e - other) < 1e-4 * e for other, _ in found):
            found = sorted([*found, (e, x)], key=lambda f: f[0])[:keep]
    return found


def metric(family: Family, found: list[tuple[float, Any]]) -> Any:
    """From leading errors to errors of the state on each problem, in units of the best published method's."""
    norms, misses = [], {p: [] for p in PROBLEMS}
    order, kicks = family.order, family.kicks
    per_time = {4: 16, 6: 8, 8: 5}[order]  # steps: errors that are small, and far above rounding
    for _, x in found:
        norms.append(Family.slopes(family, x)[1])
        for problem, (*_, until) in PROBLEMS.items():
            steps = round(per_time * until * (3 if problem == "Kepler" else 1))
            misses[problem].append(
                (run(family.moves(x), problem, steps) - exact(problem)) * (steps / until) ** order
            )
    c = np.array(norms)
    if len(c) < 1.5 * c.shape[1]:
        raise SystemExit(f"{len(c)} solutions are too few to fit {c.shape[1]} errors: search longer")
    rows = []
    for problem, y in misses.items():
        size = 1 / np.abs(np.array(y)).max(axis=1, keepdims=True)
        linear = np.linalg.lstsq(c * size, np.array(y) * size, rcond=None)[0].T
        print(f"  {problem}: fitted to {np.sqrt((((c @ linear.T) - np.array(y)) * size).var()):.1%}")
        best = min(
            published(linear, m.name, m.stages)
            for m in METHODS
            if m.order == order and m.source and m.symmetric
        )
        rows.append(linear * kicks**order / best)
    return np.linalg.qr(np.vstack(rows))[1] / math.sqrt(len(PROBLEMS))


def published(linear: Any, name: str, kicks: int) -> float:
    """The error of a scheme on a problem at equal work, up to a common factor."""
    moves = next(m for m in METHODS if m.name == name).sequence()
    family = Family(RKN, next(m for m in METHODS if m.name == name).order, moves[0][0], kicks)
    x = np.array([w for _, w in moves[: family.half]])
    return float(kicks**family.order * np.linalg.norm(linear @ family.slopes(x)[1]))


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("order", nargs="?", type=int, default=4)
    arguments.add_argument(
        "first", nargs="?", choices="TV", default="T", help="the part that begins and ends the step"
    )
    arguments.add_argument("kicks", nargs="?", type=int, default=4, help="a step")
    arguments.add_argument("--general", action="store_true", help="without what a quadratic T gives")
    arguments.add_argument(
        "--measured", action="store_true", help="then make errors of the test problems small"
    )
    arguments.add_argument("--grow", metavar="NAME", help="begin with a scheme of fewer kicks")
    arguments.add_argument("--starts", type=int, default=10**9)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--limit", type=float, default=1.0, help="the largest weight")
    arguments.add_argument("--seconds", type=float, default=25.0, help="begin no start after that")
    arguments.add_argument("--show", type=int, default=5)
    args = arguments.parse_args()
    family = Family(SPLITTING if args.general else RKN, args.order, args.first, args.kicks)
    roots = []
    if args.grow:
        whole = SCHEMES[args.grow].kind == "composition"  # of leapfrogs with either part outside
        moves = (
            palindrome(args.first, "TV".replace(args.first, ""), steps(args.grow))
            if whole
            else sequence(args.grow)
        )
        if moves[0][0] != args.first:
            raise SystemExit(f"`{args.grow}` begins with {moves[0][0]}")
        roots = [np.array([w for _, w in moves[: (len(moves) + 1) // 2]])]
    began = time.perf_counter()
    options = dict(starts=args.starts, limit=args.limit, roots=roots)
    found = search(family, args.seed, seconds=args.seconds / (2 if args.measured else 1), **options)
    if args.measured:
        family.metric = metric(family, found)
        found = search(family, args.seed + 1, seconds=args.seconds / 2, found=found, **options)
    print(
        f"order {args.order}, {args.first} outside, {args.kicks} kicks: {len(found)} solutions in "
        f"{time.perf_counter() - began:.0f} s"
    )
    what = "work, best published = 1," if args.measured else "effective error"
    for e, x in found[: args.show]:
        print(f"  {what} {e:.4f}, largest weight {np.abs(x).max():.3f}:", *(f"{v:.10f}" for v in x))


if __name__ == "__main__":
    main()
