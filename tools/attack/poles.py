"""Does a run stop where a drift passes a pole, nowhere else, and at the same step however it is cut?

The positions of a run with checks="off" are joined by straight lines. The point of each line that is nearest to a pole is
known from the pole's place, and dt*omega there from second differences of the user's energy in long doubles.
"""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tinyphysics as tp
from attack.case import Case
from attack.findings import Tally
from attack.passages import written
from attack.plain import Functions
from tinyphysics.planner.methods.catalog import BY_NAME

WIDE = np.longdouble
METHODS = (
    "leapfrog leapfrog leapfrog_dkd symplectic_euler yoshida4 blanes_moan4 kahan_li6 nystrom4 chin4".split()
)
BACKENDS = ("llvm", "llvm", "llvm", "numpy", "c", "python")
CLEAR = 0.03  # so much of the limit above or below it, dt*omega is not judged
CALM = 0.25  # of the limit, at the beginning of a run that may be stopped


@dataclass(frozen=True)
class Centre:
    """What is zero at a pole: rows of A q + b."""

    A: np.ndarray
    b: np.ndarray

    @property
    def place(self) -> list[list[float]]:
        """The same for all that vanish together: 2q + 1 is zero where q + 0.5 is."""
        rows = np.column_stack([self.A, self.b])
        first = np.abs(self.A).argmax(axis=1)
        return sorted((rows / self.A[np.arange(len(rows)), first][:, None]).tolist())

    @property
    def distance(self) -> str:
        parts = []
        for row, c in zip(self.A, self.b):
            sum_ = " + ".join(f"{a:g}*q[{k}]" for k, a in enumerate(row) if a) + f" + {c:g}"
            parts.append(f"({sum_})")
        return " + ".join(f"{x}*{x}" for x in parts)


def drawn(rng: random.Random, n: int) -> Centre:
    """A point, a line or a plane."""
    count = rng.randint(1, n)
    rows = np.zeros((count, n))
    for k, j in enumerate(rng.sample(range(n), count)):
        rows[k, j] = rng.choice([1.0, 1.0, 1.0, 2.0])
        if n > 1 and rng.random() < 0.2:
            rows[k, (j + 1) % n] += 0.5
    return Centre(rows, np.array([rng.choice([0.0, 0.0, 0.4, -0.7]) for _ in range(count)]))


def term(rng: random.Random, c: Centre) -> str:
    r2, k = f"({c.distance})", rng.choice([0.4, 1.0, 1.7])
    return rng.choice([
        f"-{k}/tp.sqrt{r2}", f"-{k}/tp.sqrt{r2}", f"{k}*tp.log{r2}/2", f"-{k}*{r2}**-0.75", f"-{k}/{r2}",
        f"0.01*{k}/{r2}", f"-{k}/(tp.sqrt{r2} + {r2})", f"-{k}*tp.exp(-tp.sqrt{r2})/tp.sqrt{r2}",
    ])  # fmt: skip


@dataclass(frozen=True)
class Problem:
    text: str  # of the energy
    n: int
    centres: tuple[Centre, ...]
    terms: tuple[str, ...]  # the energy of each centre
    method: str
    backend: str
    dt: float
    steps: int

    def compiled(self, **more: Any) -> Any:
        head = f"def system(q: tp.Vec[{self.n}], p: tp.Vec[{self.n}]):\n    return {self.text}\n"
        given = {"dt": self.dt, "method": self.method, "backend": self.backend} | more
        return tp.compile(tp.hamiltonian(written(head, "system")), **given)

    def energy(self, q: Any, p: Any, of: str = "") -> Any:
        with np.errstate(all="ignore"):
            return eval(of or self.text, {"tp": Functions, "np": np, "q": q, "p": p})

    def own(self, c: Centre) -> str:
        """The terms that have this pole: differences beside one would reach another."""
        same = [d.place == c.place for d in self.centres]
        return " + ".join(x for x, yes in zip(self.terms, same) if yes)

    def pace(self, c: Centre, q: np.ndarray) -> float:
        """dt*omega in the direction in which the distance from a pole changes."""
        x = c.A @ q + c.b
        along = (c.A.T @ x).astype(WIDE)
        far = float(np.sqrt(along @ along))
        if np.sqrt(x @ x) < 1e-9:  # differences of an energy that is infinite
            return np.inf
        u = along / WIDE(far)
        change = c.A @ u.astype(float)
        h = WIDE(0.01 * np.sqrt(x @ x) / np.sqrt(change @ change))
        zero = np.zeros(self.n, WIDE)
        wide = q.astype(WIDE)
        ends = [self.energy(wide + k * h * u, zero, self.own(c)) for k in (-2, -1, 0, 1, 2)]
        bent = (-ends[0] + 16 * ends[1] - 30 * ends[2] + 16 * ends[3] - ends[4]) / (12 * h * h)
        mass = [self.energy(wide, k * u) for k in (-1, 0, 1)]
        light = mass[0] - 2 * mass[1] + mass[2]
        return float(self.dt * np.sqrt(abs(bent * light)))

    def passes(self, q: np.ndarray) -> np.ndarray:
        """The largest dt*omega, over all poles, at the nearest point of each line between two positions."""
        out = np.zeros(len(q) - 1)
        for c in self.centres:
            a, b = q[:-1] @ c.A.T + c.b, q[1:] @ c.A.T + c.b
            along = b - a
            with np.errstate(all="ignore"):
                part = np.nan_to_num(-(a * along).sum(1) / (along * along).sum(1))
            part = np.clip(part, 0.0, 1.0)[:, None]
            near = (1 - part) * q[:-1] + part * q[1:]
            out = np.maximum(out, [self.pace(c, x) for x in near])
        return out


def problem(seed: int) -> Problem:
    rng = random.Random(f"poles {seed}")
    n = rng.choice([1, 2, 2, 3])
    centres = tuple(drawn(rng, n) for _ in range(rng.choice([1, 1, 2])))
    mass = rng.choice(["1.0", "1.0", "2.5"])
    own = tuple(term(rng, c) for c in centres)
    terms = [f"tp.sum(p*p)/(2*{mass})", *own]
    if rng.random() < 0.5:
        terms.append(rng.choice(["0.5*tp.sum(q*q)", "0.3*q[0]", "0.1*tp.sum(q**4)", "-tp.cos(q[0])"]))
    dt, steps = rng.choice([0.005, 0.01, 0.02]), rng.choice([120, 200, 320])
    return Problem(
        " + ".join(terms), n, centres, own, rng.choice(METHODS), rng.choice(BACKENDS), dt, steps
    )  # fmt: skip


def ended(out: Any) -> tuple[int | None, str]:
    return None if out.stopped is None else out.stopped.step, out.hash


def check(case: Case, t: Tally) -> None:
    seed, x = case.seed, problem(case.seed)
    rng = np.random.default_rng([seed, 63])
    start = {"q": rng.uniform(-1.2, 1.2, x.n), "p": rng.uniform(-0.4, 0.4, x.n)}
    given = {**start, "progress": False}
    free = x.compiled(checks="off").evolve(**given, steps=x.steps, save_every=1)
    sim = x.compiled()
    whole = sim.evolve(**given, steps=x.steps)
    t.shares["poles"] += 1
    says = f"{x.text}, {x.method}, dt = {x.dt}, {x.backend}"
    true_stops(x, free, whole, seed, t, says)
    cuts(sim, x, given, whole, seed, t, says)


def true_stops(x: Problem, free: Any, whole: Any, seed: int, t: Tally, says: str) -> None:
    limit = BY_NAME[whole.metrics["method"] if "method" in whole.metrics else name_of(x.method)].limit
    stopped = whole.stopped is not None and whole.stopped.cause == "singularity"
    last = whole.stopped.step if whole.stopped is not None else x.steps
    q = np.asarray(free.q)[: last + 1]
    if not np.isfinite(q).all():
        t.unclear["a pole is passed"] += 1
        return
    pace = x.passes(q)
    begin = max(x.pace(c, q[0]) for c in x.centres)
    clear = (pace < limit * (1 - CLEAR)) | (pace > limit * (1 + CLEAR))
    if begin > CALM * limit * (1 - CLEAR) or not clear[: last + 1].all():
        t.unclear["a pole is passed"] += 1
        return
    over = np.flatnonzero(pace >= limit)
    if stopped:
        first = int(over[0]) + 1 if len(over) else None
        found = f"the first step beyond the limit is {first}, and dt*omega at most {pace.max():.3g} of {limit:.3g}"
        t.check(seed, "a pole is passed", first != last, f"step {last} passes a pole ({says})", found)
    elif whole.stopped is None:
        found = f"step {over[:1] + 1} has dt*omega = {pace.max():.3g}, of {limit:.3g}"
        t.check(seed, "no pole is passed", len(over) > 0, f"no pole is passed ({says})", found)


def name_of(method: str) -> str:
    return "leapfrog_kdk" if method == "leapfrog" else method


def cuts(sim: Any, x: Problem, given: dict[str, Any], whole: Any, seed: int, t: Tally, says: str) -> None:
    """The same run, saved, observed, watched and resumed in other ways."""
    rng, n = random.Random(f"cuts {seed}"), x.steps
    wanted = ended(whole)

    def same(what: str, out: Any) -> None:
        found = ended(out)
        t.check(
            seed,
            "stops alike",
            found != wanted,
            f"stops at {wanted[0]}, {wanted[1][:8]} ({says})",
            f"with {what} it stops at {found[0]}, {found[1][:8]}",
        )

    every = rng.choice([1, 3, 7, 40])
    same(f"save_every={every}", sim.evolve(**given, steps=n, save_every=every))
    same("an observable", sim.evolve(**given, steps=n, frames=2, observe={"r": lambda q: q[0] * q[0]}))
    same("an event", sim.evolve(**given, steps=n, events={"g": lambda p: p[0]}))
    stride = rng.choice([1, 16, 64, 1000])
    looked = x.compiled(check_every=stride).evolve(**given, steps=n)
    # check_every= also asks for looks at the shadow energy: one step that breaks it stops the run, and that is no pole
    if looked.stopped is None or looked.stopped.cause == "singularity":
        same(f"check_every={stride}", looked)
    other = "numpy" if x.backend != "numpy" else "llvm"
    same(f"backend={other}", x.compiled(backend=other).evolve(**given, steps=n))
    places = sorted(rng.sample(range(1, n), rng.choice([1, 2, 3])))
    if wanted[0] is not None and rng.random() < 0.5:
        places = sorted({min(n - 1, max(1, wanted[0] + rng.choice([-1, 0, 1]))), *places[1:]})
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "run.ckpt")
        out = sim.evolve(**given, steps=places[0], checkpoint=path)
        for a, b in zip(places, (*places[1:], n)):
            if out.stopped is None:
                out = sim.evolve(resume=path, steps=b - a, checkpoint=path, progress=False)
        same(f"cuts at {places}", out)
    moved = np.random.default_rng([seed, 64]).uniform(-1.2, 1.2, (2, x.n))
    rows = {k: np.stack([moved[0], v, moved[1]]) for k, v in given.items() if k in "qp"}
    many = sim.evolve(**rows, steps=n, progress=False)
    stops = {s.member: s.step for s in many.stops}
    alike = stops.get(1) == wanted[0] and all(
        np.array_equal(np.asarray(many.final[k])[1], np.asarray(whole.final[k])) for k in "qp"
    )
    found = f"as a member of an ensemble it stops at {stops.get(1)}, or has other bits"
    t.check(seed, "stops alike", not alike, f"stops at {wanted[0]} ({says})", found)
