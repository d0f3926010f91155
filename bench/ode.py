"""What do equations given by derivatives cost?  Our dop853 and radau beside SciPy's DOP853, Radau and LSODA, and heyoka.

    python bench/ode.py [arenstorf pleiades henon_heiles van_der_pol robertson hires] [--rounds 5]

The first three are those of bench/problems.py, and the table is made as it is there: the time of the cheapest setting that
meets an error. The other three are stiff problems of the IVP test set (Mazzia and Magherini), whose references are in many
digits; there the error is the largest of any number, relative to it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from problems import curve, measure, problems, table
from solvers import TOLERANCES, Setting, heyoka, installed, ours_embedded, ours_taylor, reference, scipy

import tinyphysics as tp


def of_van_der_pol(y: Any) -> list[Any]:
    return [y[1], ((1 - y[0] * y[0]) * y[1] - y[0]) / 1e-6]


def of_robertson(y: Any) -> list[Any]:
    slow, middle, fast = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] * y[1]
    return [-slow + middle, slow - middle - fast, fast]


def of_hires(y: Any) -> list[Any]:
    a, b, c, d, e, f, g, h = y
    return [
        -1.71 * a + 0.43 * b + 8.32 * c + 0.0007,
        1.71 * a - 8.75 * b,
        -10.03 * c + 0.43 * d + 0.035 * e,
        8.32 * b + 1.71 * c - 1.12 * d,
        -1.745 * e + 0.43 * f + 0.43 * g,
        -280 * f * h + 0.69 * d + 1.71 * e - 0.43 * f + 0.69 * g,
        280 * f * h - 1.81 * g,
        -280 * f * h + 1.81 * g,
    ]


@tp.ode
def van_der_pol(y: tp.Vec[2]):
    return tp.stack(of_van_der_pol(y))


@tp.ode
def robertson(y: tp.Vec[3]):
    return tp.stack(of_robertson(y))


@tp.ode
def hires(y: tp.Vec[8]):
    return tp.stack(of_hires(y))


@dataclass(frozen=True)
class Stiff:
    title: str
    system: Any
    rates: Callable[[Any], list[Any]]
    start: Any
    until: float
    end: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def series(self) -> tuple[Any, Mapping[str, Any]]:
        return self.system, {"y": self.start}


STIFF = {
    "van_der_pol": Stiff(
        "Van der Pol, mu = 1e6, to t = 2",
        van_der_pol,
        of_van_der_pol,
        [2.0, 0.0],
        2.0,
        [1.706167732170483, -0.8928097010247975],
    ),
    "robertson": Stiff(
        "Robertson's reactions to t = 1e11",
        robertson,
        of_robertson,
        [1.0, 0.0, 0.0],
        1e11,
        [0.2083340149701255e-7, 0.8333360770334713e-13, 0.9999999791665050],
    ),
    "hires": Stiff(
        "HIRES to t = 321.8122",
        hires,
        of_hires,
        [1.0, 0, 0, 0, 0, 0, 0, 0.0057],
        321.8122,
        [
            0.7371312573325668e-3,
            0.1442485726316185e-3,
            0.5888729740967575e-4,
            0.1175651343283149e-2,
            0.2386356198831331e-2,
            0.6238968252742796e-2,
            0.2849998395185769e-2,
            0.2850001604814231e-2,
        ],
    ),
}


def in_parts(p: Stiff, ladder: Iterator[Setting]) -> Iterator[Setting]:
    """Errors relative to each number: of what is 1 at the end."""
    for s in ladder:
        yield Setting(s.words, s.begin, s.go, lambda m, s=s: s.positions(m) / np.array(p.end))  # type: ignore[misc]


def by_scipy(p: Stiff, method: str) -> Iterator[Setting]:
    from scipy.integrate import solve_ivp

    smallest = 1e-6 * np.abs(p.end).min()  # what is asked of ours is relative to each number
    for tolerance in TOLERANCES[:9]:

        def go(_: Any, tolerance: float = tolerance) -> Any:
            return solve_ivp(
                lambda t, y: p.rates(y.tolist()),
                (0.0, p.until),
                p.start,
                method,
                rtol=tolerance,
                atol=smallest,
            )

        yield Setting(f"tolerance {tolerance:.0e}", lambda: None, go, lambda out: out.y[:, -1])


def contenders(name: str) -> tuple[str, Any, dict[str, Any]]:
    """(title, the state at the end, ladders)."""
    if name in STIFF:
        p = STIFF[name]
        rows = {"ours, radau": in_parts(p, ours_embedded(p, "radau"))}
        if installed("scipy"):
            rows |= {f"SciPy {m}": in_parts(p, by_scipy(p, m)) for m in ("Radau", "LSODA")}
        return f"{p.title}, relative", np.ones(len(p.end)), rows
    q = problems()[name]
    ladders: dict[str, Any] = {"ours, dop853": ours_embedded(q, "dop853"), "ours, taylor": ours_taylor(q)}
    ladders |= {
        who: ladder(q)
        for who, package, ladder in (("heyoka", "heyoka", heyoka), ("SciPy DOP853", "scipy", scipy))
        if installed(package)
    }
    return q.title, reference(q)[0], ladders


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = ["arenstorf", "pleiades", "henon_heiles", *STIFF]
    arguments.add_argument("problems", nargs="*", choices=[*known, []], help="these, or all")
    arguments.add_argument("--rounds", type=int, default=5)
    args = arguments.parse_args()
    for name in args.problems or known:
        title, end, ladders = contenders(name)
        curves = {who: curve(ladder, end) for who, ladder in ladders.items()}
        measure(curves, args.rounds)
        print("\n" + "\n".join(table(title, curves)), flush=True)


if __name__ == "__main__":
    main()
