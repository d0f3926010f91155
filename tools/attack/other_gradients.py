"""Do other ways to a gradient agree with it: every past, members side by side, a step's length, second derivatives?

By dt the attack's own differences decide, in double-double where the method has it; second derivatives are compared with
differences of gradients.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import tinyphysics as tp
from attack.certificates import STENCIL
from attack.findings import Tally
from attack.subject import Subject

LARGEST = 1e6  # derivatives beyond are not judged
SINGLE = 2e-2  # how far float32 may be off
Values = dict[str, Any]
ByWords = Callable[[Any, list[str], dict[str, np.ndarray], int], np.ndarray]


def flat(grads: Any, names: Any) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(grads[n], float)) for n in names])


def wrong(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max(initial=0.0)) / max(1.0, float(np.abs(b).max(initial=0.0)))


class Asked:
    """A gradient that was found, and how to ask for others."""

    def __init__(self, s: Subject, f: Any, given: Values, length: Values, mine: np.ndarray, t: Tally) -> None:
        self.s, self.f, self.given, self.length, self.mine, self.t = s, f, given, length, mine, t
        self.free = [n for n in given if n != "t0"]
        self.exact = s.eps < 1e-12

    def ask(self, what: str, of: Callable[[], Any]) -> Any:
        """None where it is refused in words."""
        try:
            return of()
        except tp.TinyPhysicsError as error:
            self.t.refused[f"{what}: {type(error).__name__}"] += 1
            return None

    def found(self, check: str, off: float, close: float, says: str) -> None:
        self.t.check(self.s.case.seed, check, not off < close, says, f"they differ by {off:.1e}")

    # --- the same number in other ways ---------------------------------------------------------
    def pasts(self, chosen: str) -> None:
        for past in ("store", "checkpoint", "reverse"):
            more = {"snapshots": 2} if past == "checkpoint" else {}
            if past == chosen or chosen == "jump":
                continue
            other = self.ask(
                "pasts",
                lambda p=past, m=more: self.s.sim.grad(self.f, **self.given, **self.length, past=p, **m),
            )
            if other is not None:
                close = 1e-9 if self.exact else SINGLE
                off = wrong(flat(other, self.free), self.mine)
                self.found("pasts", off, close, f"gradients by past={past!r} and by {chosen}")

    def members(self) -> None:
        """Two members with shared parameters: states of each, and sums whose terms are kept apart."""
        s = self.s
        states = [name for name, *_ in s.case.layout]
        two = {n: np.stack([self.given[n], 0.9 * np.asarray(self.given[n])]) for n in states}
        both = {**self.given, **two}
        each = self.ask(
            "members", lambda: s.sim.grad(self.f, **both, **self.length, per_member=True, past="store")
        )
        if each is None:
            return
        summed = s.sim.grad(self.f, **both, **self.length)
        close = 1e-9 if self.exact else SINGLE
        first = np.concatenate([np.ravel(np.asarray(each[n], float)[0]) for n in self.free])
        self.found(
            "members", wrong(first, self.mine), close, "the gradient of a member, and that of it alone"
        )
        for name in self.free:
            a, b = np.asarray(summed[name], float), np.asarray(each[name], float)
            b = b if name in states else b.sum(axis=0)
            self.found("members", wrong(np.ravel(a), np.ravel(b)), close, f"d/d{name}, and per_member=True")

    def rows(self, names: list[str], w: dict[str, np.ndarray]) -> None:
        """The Jacobian, from the left by a cotangent of the end."""
        J = self.ask("jacobian", lambda: self.s.sim.jacobian(**self.given, **self.length))
        if J is None:
            return
        pulled = self.s.sim.vjp(w, **self.given, **self.length)
        size = max(float(np.abs(x).max(initial=0.0)) for by in J.values() for x in by.values())
        for x in self.free:
            other = sum(np.tensordot(w[n], J[n][x], np.ndim(w[n])) for n in names)
            off = float(np.abs(np.asarray(other) - pulled[x]).max(initial=0.0)) / max(1.0, size)
            self.found(
                "jacobian", off, 1e-9 if self.exact else SINGLE, f"d/d{x} by sim.jacobian and by sim.vjp"
            )

    # --- other numbers ---------------------------------------------------------------------------
    def by_dt(self, sim: Any, wide: bool, names: list[str], w: dict[str, np.ndarray], words: ByWords) -> None:
        """`sim` is what differences are taken of: in double-double if `wide`."""
        if "steps" not in self.length or self.s.is_map:
            return
        grads = self.ask("by dt", lambda: self.s.sim.grad(self.f, **self.given, **self.length, wrt=["dt"]))
        if grads is None:
            return
        dt = self.s.case.dt
        sides = [
            self.difference(sim, names, w, words, dt, h) for h in ((2e-5, 1e-5) if wide else (4e-3, 2e-3))
        ]
        true, off = sides[1], abs(sides[1] - sides[0])
        size = max(1.0, abs(true))
        if not np.isfinite(true) or size > LARGEST or not off < (1e-9 if wide else 1e-6) * size:
            self.t.unclear["by dt"] += 1
            return
        close = (1e-8 if wide else 1e-5) if self.exact else SINGLE
        self.found("by dt", abs(float(grads["dt"]) - true) / size, close, "a gradient by dt, and differences")

    def difference(
        self, sim: Any, names: list[str], w: dict[str, np.ndarray], words: ByWords, dt: float, h: float
    ) -> float:
        total, mean = 0.0, 0.0
        for k, c in STENCIL:
            own = dt + k * h * dt
            out = sim.evolve(**self.given, **self.length, dt=own, progress=False, frames=2)
            if out.stops:
                return float("nan")
            total += c * float(words(out, names, w, 1)[0])
            mean += (own - dt) / k / len(STENCIL)
        return total / mean

    def second(self, rng: np.random.Generator) -> None:
        if not self.exact:
            return
        v = {n: rng.normal(size=np.shape(self.given[n])) for n in self.free}
        found = self.ask("hvp", lambda: self.s.sim.hvp(self.f, v, **self.given, **self.length))
        if found is None:
            return

        def along(h: float) -> np.ndarray:
            total = np.zeros(len(self.mine))
            for k, c in STENCIL:
                moved = {n: np.asarray(self.given[n], float) + k * h * v[n] for n in self.free}
                total += c * flat(
                    self.s.sim.grad(self.f, **{**self.given, **moved}, **self.length), self.free
                )
            return total / h

        two, one = along(1e-3), along(5e-4)
        size = max(1.0, float(np.abs(one).max()))
        if not np.isfinite(one).all() or size > LARGEST or not np.abs(one - two).max() < 1e-6 * size:
            self.t.unclear["hvp"] += 1
            return
        self.found("hvp", wrong(flat(found, self.free), one), 1e-5, "hvp, and differences of gradients")


def check(
    asked: Asked,
    chosen: str,
    sim: Any,
    wide: bool,
    names: list[str],
    w: dict[str, np.ndarray],
    words: ByWords,
) -> None:
    """Each of them for some cases: they take several runs."""
    rng = random.Random(f"other gradients {asked.s.case.seed}")
    if rng.random() < 0.5:
        asked.pasts(chosen)
    if rng.random() < 0.4:
        asked.members()
    if rng.random() < 0.2:
        asked.rows(names, w)
    if rng.random() < 0.7:
        asked.by_dt(sim, wide, names, w, words)
    if rng.random() < 0.5:
        asked.second(np.random.default_rng([asked.s.case.seed, 69]))
