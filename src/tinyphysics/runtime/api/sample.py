"""How is exp(-H/kT) sampled without an error of the step?  By stretches of a certified method, accepted or refused.

A draw is one step of a compiled program (synth/methods/proposal.py), so chains are members of an ensemble, and
random numbers have addresses of their own: a chain does not depend on those beside it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import FunctionType
from typing import Any

import numpy as np

from tinyphysics.analysis.masses import masses
from tinyphysics.analysis.separable import separable
from tinyphysics.errors import InputError, PlanError
from tinyphysics.front.trace import hamiltonian, potential
from tinyphysics.given import number, shown, whole
from tinyphysics.ir import UOp
from tinyphysics.options import heeds
from tinyphysics.physics.statistics import Statistics, statistics
from tinyphysics.pipeline import SAMPLER
from tinyphysics.planner.systems.heat import check_momenta, free_name, names_in
from tinyphysics.planner.systems.link import linked
from tinyphysics.runtime.api.compile import compile
from tinyphysics.runtime.api.simulation import Simulation
from tinyphysics.runtime.state.ensemble import sizes_from
from tinyphysics.synth.methods.proposal import (
    CHANCE,
    ENERGY,
    Proposal,
    check_legal,
    endless,
    states_beside,
)
from tinyphysics.system import SizedFamily, State, Sum, System
from tinyphysics.util import a_kind, did_you_mean

WRITTEN = 600  # operations of a draw that are written out; longer stretches go in groups of steps
IN_LOOPS = 4  # steps that are written out where a step goes over arrays
WINDOWS, LENGTH = 60, 8  # of tuning: so many stretches of so many draws
TARGET = 0.8  # acceptance that tuning aims at: Beskos and others 2013 find 0.65, and a long chain wants more
FAR, STRIDE = (0.2, 0.97), 0.4  # an acceptance that is far from it moves log dt by more, in the first half
SLOWER = 0.6  # log dt moves by k**-0.6 of what is missing (Robbins & Monro 1951); the second half is averaged
TEMPERATURE = "temperature"


@dataclass(frozen=True, eq=False)
class Draws:
    """What tp.sample returns: `out.q` has the draws of all chains, (draws, chains, ...), or (draws, ...) of one.

    `acceptance` is the mean of min(1, exp(-dH/kT)), `rhat` and `effective` say for each number of the positions whether
    chains agree and how many independent draws they are worth; `out.mean("q")` is an average with its error.
    """

    values: Mapping[str, Any]  # positions by name
    acceptance: float
    dt: float
    steps: int
    chains: int
    tuned: int  # draws before the first of these
    trajectory: Any = field(repr=False)
    _again: Callable[[Any, int], Any] = field(repr=False)
    is_ensemble: bool = field(default=True, repr=False)

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("values", {})
        if name in values:
            return values[name]
        raise AttributeError(f"draws have no `{name}`; positions: {', '.join(values)}")

    def __getitem__(self, name: str) -> Any:
        if name not in self.values:
            raise InputError(f"draws have no `{name}`", fix=f"Positions: {', '.join(self.values)}.")
        return self.values[name]

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))

    def mean(self, what: Any = "q") -> Any:
        """The average of a position, or of a function of the arrays of positions, with its error: a Statistics.

        A function gets the draws with their axes (draws, chains, ...) in front: `out.mean(lambda q: q**2)`.
        """
        if callable(what):
            names = list(inspect.signature(what).parameters)
            x = np.asarray(what(**{n: self[n] for n in names}))
        else:
            x = self[what]
        return statistics(x, members=self.is_ensemble)

    @cached_property
    def statistics(self) -> Mapping[str, Any]:
        return {name: statistics(v, members=self.is_ensemble) for name, v in self.values.items()}

    @property
    def effective(self) -> float:
        """How many independent draws they are worth: the least of all numbers of the positions."""
        return min(s.effective for v in self.statistics.values() for s in flat(v))

    @property
    def rhat(self) -> float:
        """How much wider all chains together are than each alone, halves of chains counted as chains: 1 if they agree.

        The largest of all numbers of the positions (Gelman and others 2013).
        """
        return max(split_rhat(v if self.is_ensemble else v[:, None]) for v in self.values.values())

    @property
    def trouble(self) -> str:
        """Why averages are not to be trusted; empty if they are."""
        if not self.rhat < 1.05:
            return f"chains differ, R-hat = {self.rhat:.2f}"
        return next((s.trouble for v in self.statistics.values() for s in flat(v) if s.trouble), "")

    def more(self, draws: int) -> Draws:
        """Goes on with further draws, bit for bit as if there had been no end."""
        new: Draws = self._again(self, whole("draws", draws, 1))
        return new

    def __str__(self) -> str:
        told = f" (not converged: {self.trouble})" if self.trouble else ""
        return (
            f"{len(self):,} draws of {self.chains} chain{'s' if self.chains > 1 else ''}, "
            f"acceptance {self.acceptance:.3f} with {self.steps} steps of {self.dt:.4g}; R-hat {self.rhat:.3f}, "
            f"{self.effective:,.0f} effective draws{told}"
        )


def flat(v: Any) -> list[Statistics]:
    return [v] if isinstance(v, Statistics) else list(np.ravel(v))


def split_rhat(x: Any) -> float:
    """Of (draws, chains, ...)."""
    half = len(x) // 2
    if half < 2:
        return math.inf
    x = np.asarray(x, float)
    parts = np.concatenate([x[:half], x[len(x) - half :]], axis=1)
    parts = parts.reshape(half, parts.shape[1], -1)
    within = parts.var(axis=0, ddof=1).mean(axis=0)
    between = parts.mean(axis=0).var(axis=0, ddof=1)
    whole_ = within * (half - 1) / half + between
    good = within > 0
    if not good.any():
        return math.inf
    return float(np.sqrt(whole_[good] / within[good]).max()) if good.all() else math.inf


@heeds("sample", "tp.sample(energy, q=..., draws=1000, dt=0.1, steps=10)")
def sample(
    energy: Any,
    *,
    draws: int,
    dt: float,
    steps: int,
    temperature: float = 1.0,
    kB: float = 1.0,
    method: str = "leapfrog",
    refresh: float = 1.0,
    tune: bool = True,
    seed: int = 0,
    precision: str = "float64",
    backend: str = "auto",
    threads: int | None = None,
    **given: Any,
) -> Draws:
    """Draws positions with the law exp(-V/kT), without an error of the step: Hamiltonian (hybrid) Monte Carlo.

    A draw takes new momenta, goes `steps` steps of `dt` by `method`, and is accepted with min(1, exp(-dH/kT)); where it
    is refused, the old position counts again. Any method may propose whose certificate says volume-preserving and
    reversible.

    energy       a potential, @tp.potential or a function V(q); or H(q, p) with T a sum of p**2/2m
    draws        how many, of each chain
    dt           the length of a step; where `tune` is true, the one that tuning begins with
    steps        of a stretch: dt * steps should be about a quarter of the slowest vibration
    temperature  in units of energy/kB
    kB           Boltzmann's constant
    method       that proposes
    refresh      how much of the variance of momenta is drawn anew: 1, all; below, the rest is kept, and turns round
                 where a proposal is refused
    tune         adapts dt to an acceptance of 0.8 before the first draw; false takes dt as it is
    seed         of the random numbers
    precision    as in tp.compile; all but "lattice"
    backend      where it runs, as in tp.compile
    threads      the number of threads; by default all
    given        positions and parameters by name: q=[0.0, 1.0], k=2.0; one more leading axis makes chains
    """
    count, length, seed = whole("draws", draws, 1), whole("steps", steps, 1), whole("seed", seed, 0)
    part = number("refresh", refresh, "refresh=1.0")
    if not 0.0 < part <= 1.0:
        raise InputError(
            f"refresh={shown(refresh)} is not above 0 and at most 1",
            fix="Pass refresh=1.0 to draw all momenta anew, or 0.1 to keep most of them.",
        )
    for name, value in (("temperature", temperature), ("kB", kB), ("dt", dt)):
        if not number(name, value, f"{name}=1.0") > 0:
            raise InputError(f"{name}={shown(value)} is not above zero", fix=f"Pass {name}=1.0.")
    if not isinstance(tune, (bool, np.bool_)):
        raise InputError(f"tune={shown(tune)} is neither True nor False", fix="Pass tune=False to keep dt.")
    if precision == "lattice":
        raise PlanError(
            'tp.sample with precision="lattice": random momenta are no bijection of the past',
            fix="Leave precision= out.",
        )
    system = with_momenta(energy, given)
    if unknown := next((n for n in given if n not in names_in(system)), None):
        near = did_you_mean(unknown, (*names_in(system), *OPTIONS)).strip()
        raise InputError(
            f"tp.sample received `{unknown}`, which is no option and which `{system.name}` does not have",
            fix=near or f"It has {', '.join(names_in(system))}; options are {', '.join(OPTIONS)}.",
        )
    sim, groups = sampler(system, float(dt), length, part, method, precision, backend, given)
    warm = next(n for n in sim.own_names if n.endswith(TEMPERATURE) and n not in names_in(system))
    values = {n: v for n, v in given.items() if v is not None}
    values |= starts(system, sim.system, values)
    values[warm] = float(temperature) * float(kB)
    values[ENERGY] = np.full_like(values[ENERGY], endless(precision))
    return drawn(sim, system, values, count, float(dt), length, groups, bool(tune), seed, threads)


OPTIONS = tuple(n for n, p in inspect.signature(sample).parameters.items() if p.kind is p.KEYWORD_ONLY)


def drawn(
    sim: Simulation,
    system: System,
    values: dict[str, Any],
    draws: int,
    dt: float,
    steps: int,
    groups: int,
    tune: bool,
    seed: int,
    threads: int | None,
) -> Draws:
    names = [str(q.arg) for q in system.q]
    shape = np.shape(values[names[0]])
    chained = len(shape) > len(system.q[0].shape)
    chains = shape[0] if chained else 1
    call: dict[str, Any] = {"seed": seed, "progress": False, "threads": threads}
    tuned = 0
    if tune:
        dt, values, tuned = tuned_step(sim, system, values, dt, groups, chains, call)

    def result(out: Any, count: int, length: float) -> Draws:
        steps_done = out.frames[CHANCE]
        done = np.asarray(steps_done[-1] - steps_done[0], float) / count
        return Draws(
            {n: out.frames[n][1:] for n in names}, float(done.mean()), length, steps, chains, tuned, out, again, chained
        )  # fmt: skip

    def again(last: Draws, count: int) -> Draws:
        out = sim.evolve(
            resume=last.trajectory, dt=last.dt, steps=groups * count, save_every=groups, progress=False
        )
        return result(out, count, last.dt)

    out = sim.evolve(**values, **call, dt=dt, steps=groups * draws, save_every=groups)
    return result(out, draws, dt)


def tuned_step(
    sim: Simulation, system: System, values: dict[str, Any], dt: float, groups: int, chains: int, call: Any
) -> tuple[float, dict[str, Any], int]:
    """The step with an acceptance of 0.8 on the average over chains, and the states that chains have reached.

    Each stretch of draws has a seed of its own, so that none of its random numbers comes again in the draws that count.
    """
    own = [s.name for s in system.states]
    now, found = math.log(dt), []
    for k in range(1, WINDOWS + 1):
        seed = (call["seed"] * 1_000_003 + k) ^ 0x5EED
        out = sim.evolve(
            **values, **(call | {"seed": seed}), dt=math.exp(now), steps=groups * LENGTH, save_every=groups * LENGTH
        )  # fmt: skip
        chance = float(np.mean(out.final[CHANCE] - values[CHANCE])) / LENGTH
        values = values | {n: out.final[n] for n in own}
        if k <= WINDOWS // 2 and not FAR[0] < chance < FAR[1]:
            now += STRIDE if chance > TARGET else -2 * STRIDE
        else:
            now += (chance - TARGET) * k**-SLOWER
        found.append(now)
    mean = float(np.mean(found[WINDOWS // 2 :]))
    return math.exp(mean), values, WINDOWS * LENGTH


# --- what is sampled --------------------------------------------------------------------------------
def with_momenta(energy: Any, given: Mapping[str, Any]) -> System:
    """The energy with a kinetic part: that of unit masses where it has none."""
    if isinstance(energy, FunctionType):
        free = [p for p in inspect.signature(energy).parameters.values() if p.default is p.empty]
        energy = hamiltonian(energy) if len(free) > 1 else potential(energy)
    if isinstance(energy, Sum):
        energy = linked(energy)
    if isinstance(energy, Simulation):
        raise InputError(
            "tp.sample takes the energy, not a simulation", fix="Pass the function: tp.sample(energy, ...)."
        )
    if isinstance(energy, SizedFamily):
        energy = energy.bind(sizes_from(energy, {n: v for n, v in given.items() if n in energy.shapes}))
    if not isinstance(energy, System):
        raise InputError(
            f"{a_kind(energy)} is no energy",
            fix="Pass a potential, @tp.potential def V(q), or an energy, @tp.hamiltonian def H(q, p).",
        )
    if energy.kind == "potential":
        return moving(energy)
    if energy.heat:
        raise PlanError(
            f"tp.sample of `{energy.name}`, which is in a bath already",
            fix="Pass the energy without a bath, and temperature= here.",
        )
    check_momenta(energy)
    if not (found := masses(energy, separable(energy).T)):
        raise PlanError(
            f"tp.sample of `{energy.name}`, whose kinetic energy is not a sum of p**2/2m: {found.because}",
            site=energy.site,
            fix="Pass its potential alone: positions have the same law with any kinetic energy.",
        )
    return timeless(energy)


def timeless(s: System) -> System:
    if s.time is not None and s.time in s.energy.leaves:  # type: ignore[union-attr]
        raise PlanError(
            f"tp.sample of `{s.name}`, which depends on t: there is no law exp(-H/kT) that stays as it is",
            fix="Make t a parameter.",
        )
    return s


def moving(s: System) -> System:
    """A potential with unit masses."""
    states: list[State] = []
    kinetic = []
    taken = set(names_in(s))
    for x in s.states:
        name = "p" if len(s.states) == 1 and "p" not in taken else f"p_{x.name}"
        while name in taken:
            name += "_"
        p = UOp.var(name, x.var.shape)
        square = p * p if not x.var.shape else (p * p).sum(tuple(range(len(x.var.shape))))
        kinetic.append(square * 0.5)
        states += [replace(x, role="position"), State(name, p, "momentum")]
    energy = UOp.sum_of([*kinetic, s.energy])  # type: ignore[list-item]
    return timeless(replace(s, kind="hamiltonian", states=tuple(states), energy=energy, function=None))


def sampler(
    system: System,
    dt: float,
    steps: int,
    refresh: float,
    method: str,
    precision: str,
    backend: str,
    given: Mapping[str, Any],
) -> tuple[Simulation, int]:
    """The simulation whose step is a proposal, or one of so many groups of steps of one."""
    base = compile(
        system, dt, method=method, precision=precision, backend=backend, propagator="loop", checks="off"
    )
    check_legal(base.built.plan.method, base.built.step, base.certificate)
    known = base.compiled.known
    most = IN_LOOPS if any(known.loops) else max(1, WRITTEN // max(known.operations, 1))
    written = max(n for n in range(1, min(steps, most) + 1) if steps % n == 0)
    p = Proposal(free_name(names_in(system), TEMPERATURE), refresh, written, steps // written)
    whole_ = replace(system, states=(*system.states, *states_beside(system.states)), axes={}, function=None)
    whole_ = replace(whole_, parameters=(*whole_.parameters, p.parameter))
    goal = base.goal.given(**{SAMPLER: p.data})
    return Simulation(whole_, goal, base.requested, "off"), p.groups


def starts(system: System, whole_: System, given: Mapping[str, Any]) -> dict[str, Any]:
    """Momenta of zero where none are given: they are drawn; and what a sampler remembers."""
    first = system.states[0]
    if first.name not in given:
        raise InputError(
            f"tp.sample needs {first.name}=, where the chains begin", fix=f"Pass {first.name}=0.0, or one for each chain."
        )  # fmt: skip
    lead = np.shape(given[first.name])[: max(np.ndim(given[first.name]) - len(first.var.shape), 0)]
    return {s.name: np.zeros((*lead, *s.var.shape)) for s in whole_.states if s.name not in given}
