"""Which temperatures should replicas have?  As many as let neighbours exchange often enough, as pilots have shown."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.given import number, shown, whole
from tinyphysics.options import heeds
from tinyphysics.physics.observables import potential_energy
from tinyphysics.planner.systems.heat import boltzmann, default_temperature
from tinyphysics.runtime.stages.setup import Setup

PILOTS = 16  # temperatures at which energies are measured
MOST = 512  # rungs


@heeds("ladder", "tp.ladder(sim, 300.0, 600.0, acceptance=0.3, q=..., p=...)")
def ladder(
    sim: Any,
    low: float,
    high: float,
    *,
    acceptance: float = 0.3,
    steps: int = 2000,
    seed: int = 0,
    **given: Any,
) -> Any:
    """Returns temperatures from `low` to `high`, of which neighbours exchange with about this acceptance.

    Pilots of `steps` steps from the state `given` measure the mean and the variance of the potential energy at some
    temperatures; an exchange is then that of two normal laws.

    sim         a simulation with a bath
    low, high   the temperatures at the ends
    acceptance  of exchanges between neighbours, at least
    steps       of a pilot; its second half is measured
    seed        of the random numbers of the pilots
    given       states and parameters of one replica, by name
    """
    if not isinstance(sim, Setup):
        raise InputError(
            f"tp.ladder({shown(sim)}): this is no simulation",
            fix="Pass tp.compile(system, dt, temperature=1.0).",
        )
    default_temperature(sim.system)  # an error without a bath
    a, b = number("low", low, "low=1.0"), number("high", high, "high=2.0")
    if not 0 < a < b:
        raise InputError(
            f"tp.ladder from {a} to {b}", fix="Pass temperatures above zero, the lower one first."
        )
    share = number("acceptance", acceptance, "acceptance=0.3")
    if not 0 < share < 1:
        raise InputError(f"acceptance={share} is not between 0 and 1", fix="Pass acceptance=0.3.")
    count = whole("steps", steps, 64)
    at = np.geomspace(a, b, PILOTS)
    own = {s.name for s in sim.system.states}
    copies: dict[str, Any] = {
        n: np.broadcast_to(v, (PILOTS, *np.shape(v))).copy() if n in own else v for n, v in given.items()
    }
    out = sim.evolve(
        **copies, temperature=at, steps=count, frames=2, seed=seed, progress=False,
        observe={"U": potential_energy()}, observe_every=max(count // 1000, 1),
    )  # fmt: skip
    seen = np.asarray(out["U"])[len(out["U"]) // 2 :]
    constant = boltzmann(sim.system)
    mean, spread = seen.mean(0), seen.std(0)
    grid = np.log(at)

    def normal(T: float) -> tuple[float, float, float]:
        x = math.log(T)
        return 1.0 / (constant * T), float(np.interp(x, grid, mean)), float(np.interp(x, grid, spread))

    def rungs(target: float) -> list[float]:
        found = [a]
        while found[-1] < b and len(found) < MOST:
            left, right = found[-1], b
            if exchanges(normal(left), normal(right)) < target:
                for _ in range(60):
                    middle = math.sqrt(left * right)
                    if exchanges(normal(found[-1]), normal(middle)) < target:
                        right = middle
                    else:
                        left = middle
            found.append(right)
        return found

    first = rungs(share)
    if first[-1] < b:
        raise InputError(
            f"more than {MOST} temperatures from {a} to {b}",
            fix="Pass a lower acceptance, or ends that are closer.",
        )
    lo, hi = (
        share,
        1.0 - 1e-9,
    )  # the highest acceptance that needs no further rung: the last step is as long as the others
    for _ in range(40):
        middle = (lo + hi) / 2
        if len(rungs(middle)) <= len(first):
            lo = middle
        else:
            hi = middle
    return np.array(rungs(lo))


def exchanges(one: tuple[float, float, float], two: tuple[float, float, float]) -> float:
    """E min(1, exp(-x)) of a normal x = (b1 - b2)(U2 - U1)."""
    (b1, u1, s1), (b2, u2, s2) = one, two
    m, s = (b1 - b2) * (u2 - u1), abs(b1 - b2) * math.hypot(s1, s2)
    if s == 0.0:
        return math.exp(-max(m, 0.0))
    return min(1.0, below(-m / s) + math.exp(min(s * s / 2 - m, 700.0)) * below(m / s - s))


def below(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))
