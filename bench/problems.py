"""What does an accurate trajectory cost?  Six problems, our methods beside heyoka, SciPy, diffrax and REBOUND, on one core.

    python bench/problems.py [arenstorf pleiades henon_heiles double_pendulum dipole relativistic] [--rounds 5] [--json FILE]

Each contender runs one trajectory at a ladder of tolerances or steps. The call that steps is timed, of everybody alike: the
state is set before and read after, and compiling is not in it. Times are processor time of this thread, the shortest of
several rounds, contenders one after the other in each. The error is the largest of any coordinate at the end, against
heyoka in 80 bits at 1e-19, or where it is not installed our own series to rounding. What is printed is the cheapest
setting of each that meets an error, and how the best of ours compares with the best of the others.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from measure import spent
from solvers import PEERS, Setting, installed, ours_fixed, ours_taylor, reference
from workloads import henon_heiles

import tinyphysics as tp

ERRORS = (1e-4, 1e-6, 1e-8, 1e-10, 1e-12)
FLOOR = 3e-14  # errors below it are rounding: no smaller step is tried
PATIENCE = 0.25  # seconds: a run that takes longer is not run in every round


# --- the problems ---------------------------------------------------------------------------------
@tp.ode
def arenstorf(x: tp.Vec[2], v: tp.Vec[2], mu: float = 0.012277471):
    a, b = x
    earth, moon = ((a + mu) ** 2 + b * b) ** 1.5, ((a - (1 - mu)) ** 2 + b * b) ** 1.5
    return v, tp.stack(
        [
            a + 2 * v[1] - (1 - mu) * (a + mu) / earth - mu * (a - (1 - mu)) / moon,
            b - 2 * v[0] - (1 - mu) * b / earth - mu * b / moon,
        ]
    )


@tp.hamiltonian
def stars(q: tp.Array[7, 2], p: tp.Array[7, 2], m: tp.Vec[7]):
    d = q[:, None] - q[None, :]
    return ((p * p).sum(1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / tp.sqrt((d * d).sum(2)))


@tp.lagrangian
def double_pendulum(q: tp.Vec[2], v: tp.Vec[2]):
    """Two rods of length 1, a mass of 1 at the end of each, g = 1."""
    a, b = q
    return v[0] ** 2 + v[1] ** 2 / 2 + v[0] * v[1] * tp.cos(a - b) + 2 * tp.cos(a) + tp.cos(b)


@tp.hamiltonian
def swinging(q: tp.Vec[2], p: tp.Vec[2]):
    """The energy of the same, its mass matrix inverted by hand."""
    (a, b), (u, v) = q, p
    c = tp.cos(a - b)
    return (u * u / 2 + v * v - u * v * c) / (2 - c * c) - 2 * tp.cos(a) - tp.cos(b)


@tp.ode
def dipole(x: tp.Vec[3], v: tp.Vec[3]):
    """A charge at a magnetic dipole of moment 1 along -z (Størmer 1907); charge and mass are 1, and B is 1 at x = 1."""
    r2 = x @ x
    s = 3 * x[2] / (r2 * r2 * tp.sqrt(r2))
    b = tp.stack([-s * x[0], -s * x[1], 1 / (r2 * tp.sqrt(r2)) - s * x[2]])
    return v, tp.stack([v[1] * b[2] - v[2] * b[1], v[2] * b[0] - v[0] * b[2], v[0] * b[1] - v[1] * b[0]])


@tp.hamiltonian
def dipole_energy(q: tp.Vec[3], p: tp.Vec[3]):
    v = p - tp.stack([q[1], -q[0], 0 * q[2]]) / (q @ q) ** 1.5
    return v @ v / 2


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], c: float = 5.0):
    """With kinetics="relativistic" a charge at a nucleus (Sommerfeld 1916); c is the speed of light."""
    return p @ p / 2 - 1 / tp.norm(q)


# --- the same for everybody else: derivatives of positions and velocities (or momenta); f has sin, cos and sqrt --------
def of_arenstorf(s: Any, f: Any) -> list[Any]:
    mu, (x, y, u, v) = 0.012277471, s
    earth, moon = ((x + mu) ** 2 + y * y) ** 1.5, ((x - (1 - mu)) ** 2 + y * y) ** 1.5
    return [
        u,
        v,
        x + 2 * v - (1 - mu) * (x + mu) / earth - mu * (x - (1 - mu)) / moon,
        y - 2 * u - (1 - mu) * y / earth - mu * y / moon,
    ]


def of_stars(s: Any, f: Any) -> list[Any]:
    x, y = s[:14:2], s[1:14:2]
    pull: list[tuple[list[Any], list[Any]]] = [([], []) for _ in range(7)]
    for i in range(7):
        for j in range(i):
            d = x[i] - x[j], y[i] - y[j]
            r3 = (d[0] * d[0] + d[1] * d[1]) ** -1.5
            for c in range(2):
                pull[i][c].append(-MASSES[j] * (d[c] * r3))
                pull[j][c].append(MASSES[i] * (d[c] * r3))
    return [*s[14:], *(f.sum(pull[i][c]) for i in range(7) for c in range(2))]


def of_stars_as_arrays(s: Any, f: Any) -> Any:
    x = s[:14].reshape(7, 2)
    d = x[None] - x[:, None]
    r2 = (d * d).sum(2) + np.eye(7)
    return f.concatenate([s[14:], (MASSES[None, :, None] * d / (r2 * f.sqrt(r2))[:, :, None]).sum(1).ravel()])


def of_henon_heiles(s: Any, f: Any) -> list[Any]:
    x, y, u, v = s
    return [u, v, -x - 2 * x * y, -y - x * x + y * y]


def of_double_pendulum(s: Any, f: Any) -> list[Any]:
    """The textbook's accelerations: shorter than Hamilton's equations."""
    a, b, u, v = s
    sine, cosine = f.sin(a - b), f.cos(a - b)
    left, right = -v * v * sine - 2 * f.sin(a), u * u * sine - f.sin(b)
    det = 2 - cosine * cosine
    return [u, v, (left - cosine * right) / det, (2 * right - cosine * left) / det]


def of_dipole(s: Any, f: Any) -> list[Any]:
    x, y, z, u, v, w = s
    r2 = x * x + y * y + z * z
    r3 = 1 / (r2 * f.sqrt(r2))
    k = 3 * z * r3 / r2
    a, b, c = -k * x, -k * y, r3 - k * z
    return [u, v, w, v * c - w * b, w * a - u * c, u * b - v * a]


def of_relativistic(s: Any, f: Any) -> list[Any]:
    x, y, u, v = s
    gamma = f.sqrt(1 + (u * u + v * v) / 25.0)
    r2 = x * x + y * y
    r3 = r2 * f.sqrt(r2)
    return [u / gamma, v / gamma, -x / r3, -y / r3]


@dataclass(frozen=True)
class Problem:
    title: str
    until: float
    start: Any  # positions, then velocities (or momenta), of the equations below
    rates: Callable[[Any, Any], list[Any]]
    series: tuple[Any, Mapping[str, Any]]  # the system that Taylor series follow, and its start
    stepped: Mapping[
        str, tuple[Any, Mapping[str, Any], int]
    ]  # by method: a system, a start, the fewest steps tried
    options: Mapping[str, Any] = field(default_factory=dict)  # of both
    parameters: Mapping[str, Any] = field(default_factory=dict)
    masses: Any = None  # of bodies that do nothing but attract each other
    arrays: Callable[[Any, Any], Any] | None = None  # rates for those who would rather have arrays


MASSES = np.arange(1.0, 8.0)
PLACES = np.array([[3, 3], [3, -3], [-1, 2], [-3, 0], [2, 0], [-2, -4], [2, 4]], float)
SPEEDS = np.array([[0, 0], [0, 0], [0, 0], [0, -1.25], [0, 1], [1.75, 0], [-1.5, 0]])
ORBIT = np.array([0.994, 0.0, 0.0, -2.00158510637908252240537862224])
WELL = np.array([0.1, 0.2, 0.3, 0.1])
BENT = np.array([1.5, 1.0, 0.0, 0.0])  # released from rest
CHARGE = np.array([1.0, 0.0, 0.0, 0.03, 0.04, 0.05])
ELLIPSE = np.array([1.0, 0.0, 0.0, 0.8])


def halves(s: Any, *names: str) -> dict[str, Any]:
    return dict(zip(names, np.split(s, 2)))


def problems() -> dict[str, Problem]:
    together = dict(q=PLACES, p=MASSES[:, None] * SPEEDS)
    inside, hanging, ellipse = (halves(s, "q", "p") for s in (WELL, BENT, ELLIPSE))
    at_dipole = dict(q=CHARGE[:3], p=CHARGE[3:] - [0.0, 1.0, 0.0])  # p = v + A, and A is (0, -1, 0) there
    return {
        "arenstorf": Problem(
            "the orbit of Arenstorf, one period",
            17.0652165601579625588917206249,
            ORBIT,
            of_arenstorf,
            (arenstorf, halves(ORBIT, "x", "v")),
            {},
        ),
        "pleiades": Problem(
            "the Pleiades to t = 3",
            3.0,
            np.concatenate([PLACES.ravel(), SPEEDS.ravel()]),
            of_stars,
            (stars, together),
            {"nystrom8": (stars, together, 100)},
            parameters={"m": MASSES},
            masses=MASSES,
            arrays=of_stars_as_arrays,
        ),
        "henon_heiles": Problem(
            "Hénon–Heiles to t = 1000",
            1000.0,
            WELL,
            of_henon_heiles,
            (henon_heiles, inside),
            {
                m: (henon_heiles, inside, n)
                for m, n in (("force_gradient6", 600), ("nystrom6", 400), ("nystrom8", 300))
            },
        ),
        "double_pendulum": Problem(
            "a double pendulum to t = 200",
            200.0,
            BENT,
            of_double_pendulum,
            (swinging, hanging),
            {"galerkin6": (double_pendulum, hanging, 240), "gauss6": (swinging, hanging, 240)},
        ),
        "dipole": Problem(
            "a charge at a magnetic dipole to t = 500",
            500.0,
            CHARGE,
            of_dipole,
            (dipole, halves(CHARGE, "x", "v")),
            {"gauss6": (dipole_energy, at_dipole, 800)},
        ),
        "relativistic": Problem(
            "a relativistic orbit to t = 200",
            200.0,
            ELLIPSE,
            of_relativistic,
            (kepler, ellipse),
            {
                m: (kepler, ellipse, n)
                for m, n in (("blanes_moan6", 480), ("kahan_li8", 400), ("sofroniou_spaletta10", 240))
            },
            {"kinetics": "relativistic"},
            {"c": 5.0},
        ),
    }


# --- what it costs --------------------------------------------------------------------------------
@dataclass
class Point:
    error: float
    words: str
    setting: Setting
    seconds: float = math.inf


def contenders(p: Problem) -> dict[str, list[Setting] | Any]:
    """The ladders of settings, the coarsest first."""
    rows: dict[str, Any] = {"ours, taylor": ours_taylor(p)}
    rows |= {f"ours, {method}": ours_fixed(p, method) for method in p.stepped}
    for name, (package, ladder) in PEERS.items():
        if installed(package) and (package != "rebound" or p.masses is not None):
            rows[name] = ladder(p)
    return rows


def curve(ladder: Any, exact: Any) -> list[Point]:
    """The errors of its settings, until rounding stops them or smaller steps do not help."""
    out: list[Point] = []
    for setting in ladder:
        with np.errstate(all="ignore"):
            error = float(np.abs(setting.end() - exact).max())
        if not error < 1.0:
            continue
        if len(out) > 2 and 1e-9 > error > max(x.error for x in out[-2:]) and setting.words.endswith("steps"):
            break  # rounding adds up over more of them
        out.append(Point(error, setting.words, setting))
        if error < FLOOR:
            break
    return out


def measure(curves: Mapping[str, list[Point]], rounds: int) -> None:
    """The shortest time of each, one after the other in every round."""
    for k in range(rounds):
        for points in curves.values():
            for point in points:
                if k < 2 or point.seconds < PATIENCE:
                    again = 1 + (point.seconds < 1e-3) * 3
                    for _ in range(again):
                        m = point.setting.begin()
                        point.seconds = min(point.seconds, spent(lambda m=m, go=point.setting.go: go(m)))


def cheapest(points: list[Point], error: float) -> Point | None:
    return min((x for x in points if x.error <= error), key=lambda x: x.seconds, default=None)


def table(title: str, curves: Mapping[str, list[Point]]) -> list[str]:
    """Rows of a table in Markdown: µs at the cheapest setting, and ours to the best of the others."""
    lines = [
        f"| {title}, µs at an error of | " + " | ".join(f"{e:.0e}" for e in ERRORS) + " |",
        "|---" * 6 + "|",
    ]
    for name, points in curves.items():
        found = [cheapest(points, e) for e in ERRORS]
        lines.append(
            f"| {name} | " + " | ".join(f"{x.seconds * 1e6:,.0f}" if x else "–" for x in found) + " |"
        )
    ratios = [faster(curves, e) for e in ERRORS]
    last = " | ".join(f"{r:.2f}" if r else "–" for r in ratios)
    return [*lines, f"| the best of the others over the best of ours | {last} |"]


def faster(curves: Mapping[str, list[Point]], error: float) -> float | None:
    """The best of the others over the best of ours; None where nobody of one side meets the error."""
    found = {name: x.seconds for name, points in curves.items() if (x := cheapest(points, error))}
    mine = [s for name, s in found.items() if name.startswith("ours")]
    others = [s for name, s in found.items() if not name.startswith("ours")]
    return min(others) / min(mine) if mine and others else None


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("problems", nargs="*", help="these, or all")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--only", nargs="*", help="these contenders: a word of their names")
    arguments.add_argument("--json", help="write all points there")
    args = arguments.parse_args()
    known = problems()
    if unknown := set(args.problems) - set(known):
        arguments.error(f"no problem {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    for name, (package, _) in PEERS.items():
        if not installed(package):
            print(f"{name} is not installed here")
    every = {}
    for name in args.problems or known:
        p = known[name]
        exact, by = reference(p)
        curves = {}
        for who, ladder in contenders(p).items():
            if not args.only or any(word in who for word in args.only):
                curves[who] = curve(ladder, exact)
        measure(curves, args.rounds)
        print(f"\n(errors against {by})\n" + "\n".join(table(p.title, curves)), flush=True)
        every[name] = {who: [(x.error, x.seconds, x.words) for x in points] for who, points in curves.items()}
        if args.json:
            with open(args.json, "w") as file:
                json.dump(every, file)


if __name__ == "__main__":
    main()
