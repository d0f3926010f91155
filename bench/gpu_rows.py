"""What is measured on a GPU?  Sizes, starts and units of the rows; bench/cuda/*.cu begin from the same numbers.

A contender is a program that prints a line of JSON for each row it has: row, precision, variant, value, unit, n, steps, sum.
`sum` is that of the absolute values of what came out (positions, populations), so that all can be compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

DT, LEAP, SOFTENING, OMEGA = 0.01, 1e-3, 0.05, 1.25
CX, CY = (0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)
WEIGHTS = (4 / 9, *[1 / 9] * 4, *[1 / 36] * 4)
WARM, RUNS = 0.1, 7  # seconds before times count, and how many do
MULTIPLIER, INCREMENT = 6364136223846793005, 1442695040888963407


@dataclass(frozen=True)
class Sizes:
    systems: int = 1 << 22
    steps: int = 1_000
    bodies: int = 65_536
    leaps: int = 4
    side: int = 4_096
    updates: int = 100


SMALL = Sizes(2_048, 20, 512, 2, 256, 4)
UNITS = {
    "pendulum": "ps per system-step",
    "henon_heiles": "ps per system-step",
    "dipole": "ps per system-step",
    "gravity": "ps per ordered pair",
    "d2q9": "billion sites a second",
    "first": "seconds",
    "liquid": "million atom-steps a second",
}
ROWS = (
    ("pendulum", "float64"),
    ("pendulum", "float32"),
    ("henon_heiles", "float64"),
    ("dipole", "float64"),
    ("gravity", "float32"),
    ("gravity", "float64"),
    ("d2q9", "float32"),
    ("liquid", "float64"),
    ("first", "float64"),
)


# --- numbers --------------------------------------------------------------------------------------
def stream(seed: int) -> Iterator[Callable[[int], Any]]:
    """Numbers in [0, 1) of one linear congruence after the other: next(s)(count)."""
    state = seed

    def take(count: int) -> Any:
        nonlocal state
        powers = np.full(count + 1, MULTIPLIER, np.uint64)
        powers[0] = 1
        powers = np.multiply.accumulate(powers)  # modulo 2**64
        x = powers[1:] * np.uint64(state) + np.uint64(INCREMENT) * np.add.accumulate(powers[:-1])
        state = int(x[-1])
        return (x >> np.uint64(11)) * 2.0**-53

    while True:
        yield take


def uniform(seed: int, low: float, high: float, count: int) -> Any:
    return next(stream(seed))(count) * (high - low) + low


def pendulums(s: Sizes) -> tuple[Any, Any]:
    return uniform(1, -2.0, 2.0, s.systems), uniform(2, -1.0, 1.0, s.systems)


def stars(s: Sizes) -> Any:
    """x, y, px and py, a row each."""
    return np.stack([uniform(k, -0.1, 0.1, s.systems) for k in range(1, 5)])


def charges(s: Sizes) -> Any:
    """Positions and momenta of charges near a dipole, a row each."""
    places = [uniform(k, 1.5, 2.5, s.systems) for k in (1, 2, 3)]
    return np.stack([*places, *(uniform(k, -0.3, 0.3, s.systems) for k in (4, 5, 6))])


def bodies(s: Sizes) -> tuple[Any, Any, Any]:
    """(positions, velocities, masses)."""
    n, take = s.bodies, next(stream(1))
    x = take(4 * n).reshape(n, 4)
    return x[:, :3] * 2.0 - 1.0, take(3 * n).reshape(n, 3) * (0.1 - -0.1) + -0.1, (x[:, 3] * 1.0 + 1.0) / n


def populations(s: Sizes) -> Any:
    out, take = np.empty((9, s.side, s.side), np.float32), next(stream(1))
    for k in range(9):
        out[k] = (WEIGHTS[k] * (1 + (take(s.side**2) * (0.01 - -0.01) + -0.01))).reshape(s.side, s.side)
    return out


def collided(f: Any, om: float) -> list[Any]:
    """Nine populations after a collision: towards equilibrium by om (Bhatnagar, Gross & Krook)."""
    rho = f[0] + (f[1] + f[3]) + (f[2] + f[4]) + (f[5] + f[6]) + (f[7] + f[8])
    ux = ((f[1] - f[3]) + ((f[5] - f[7]) + (f[8] - f[6]))) / rho
    uy = ((f[2] - f[4]) + ((f[5] - f[7]) - (f[8] - f[6]))) / rho
    w1 = om * rho / 9
    w2, c1, ux3, uy3, ux2, uy2 = w1 / 4, 1 - om, 3 * ux, 3 * uy, 4.5 * ux * ux, 4.5 * uy * uy
    b = 1 - (ux2 + uy2) / 3
    px, py, qx, qy, bb, xy = w1 * (b + ux2), w1 * (b + uy2), w1 * ux3, w1 * uy3, b + ux2 + uy2, ux3 * uy3
    p5, p6, g5, g6 = w2 * (bb + xy), w2 * (bb - xy), w2 * (ux3 + uy3), w2 * (ux3 - uy3)
    return [
        c1 * f[0] + 4 * w1 * b,
        c1 * f[1] + (px + qx),
        c1 * f[2] + (py + qy),
        c1 * f[3] + (px - qx),
        c1 * f[4] + (py - qy),
        c1 * f[5] + (p5 + g5),
        c1 * f[6] + (p6 - g6),
        c1 * f[7] + (p5 - g5),
        c1 * f[8] + (p6 + g6),
    ]


# --- telling --------------------------------------------------------------------------------------
def median(seconds: Callable[[], float]) -> float:
    """Of several runs, each timed by itself, once the clocks of the device have risen."""
    spent, times = 0.0, []
    while len(times) < RUNS:
        t = seconds()
        if spent >= WARM:
            times.append(t)
        spent += max(t, 1e-4)
    return statistics.median(times)


def work_of(row: str, s: Sizes) -> float:
    """How many of its unit a run does."""
    if row in ("pendulum", "henon_heiles", "dipole"):
        return float(s.systems) * s.steps
    return float(s.bodies) * (s.bodies - 1) * s.leaps if row == "gravity" else float(s.side) ** 2 * s.updates


def tell(row: str, precision: str, variant: str, seconds: float, s: Sizes, what: Any, **more: Any) -> None:
    """A line for a row that has times."""
    work = work_of(row, s)
    value = work / seconds * 1e-9 if row == "d2q9" else seconds / work * 1e12
    total = float(np.abs(np.asarray(what, np.float64)).sum())
    say(row=row, precision=precision, variant=variant, value=value, unit=UNITS[row], sum=total, **more)


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def skipped(row: str, precision: str, variant: str, why: Any) -> None:
    say(
        row=row,
        precision=precision,
        variant=variant,
        skipped=(str(why).strip().splitlines() or [repr(why)])[0],
    )


def arguments(about: str | None, *extra: tuple[str, dict[str, Any]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--small", action="store_true", help="sizes of a test")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    for name, options in extra:
        parser.add_argument(name, **options)
    asked = parser.parse_args()
    asked.sizes = SMALL if asked.small else Sizes()
    return asked


def attempt(row: str, precision: str, variant: str, work: Callable[[], None]) -> None:
    """What fails says so and leaves the others alone."""
    try:
        work()
    except Exception as error:  # a contender may fail in any way
        skipped(row, precision, variant, f"{type(error).__name__}: {error}")
