"""How do replicas exchange a parameter?  Neighbours in turn, accepted so that the law of all replicas together stays.

Of two replicas i and j with parameters a and b, exchanged with min(1, exp(-d)), where d is what the sum of H/k_B T
changes by (Swendsen & Wang 1986, Sugita & Okamoto 1999). Where it is the temperature, arrays stay where they are,
temperatures move, and momenta are scaled by sqrt(T_new/T_old), so that kinetic energies cancel. The decisions are made
with float64 energies on this machine, by an exp of our own: backends agree in their energies, and so in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.analysis.separable import separable
from tinyphysics.device.cuda.dlpack import here
from tinyphysics.errors import PlanError
from tinyphysics.ir import Ops, UOp
from tinyphysics.philox import key_words, philox4x32, unit_interval
from tinyphysics.planner.systems.heat import parameter_of
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.stages.execute import observer_program
from tinyphysics.runtime.state.across import TOGETHER, Across, Exchange, History, Swaps
from tinyphysics.runtime.state.encoding import owner
from tinyphysics.runtime.state.host_exp import exp
from tinyphysics.runtime.state.run import Run, made
from tinyphysics.system import System
from tinyphysics.util import digest

AT_ONCE = 64  # turns whose random numbers are drawn together
STREAM = (1 << 31) + (1 << 29) + (1 << 28)  # beyond those of baths


def swaps(system: System, x: Exchange, seed: int, values: Any) -> Across:
    told = f"{TOGETHER}exchange of {x.parameter} every {x.every}"
    own = int(digest(f"{seed} exchange".encode())[:15], 16)
    return Across(
        "exchange",
        x.every,
        told,
        ["exchange", x.parameter, x.every],
        lambda run, memory: Replicas(run, x, own, memory),
    )


def is_multiple(kT: UOp, parameter: UOp | None) -> bool:
    """Is k_B T the parameter, or a constant times it?"""
    return (
        kT is parameter or kT.op is Ops.MUL and parameter in kT.src and any(u.op is Ops.CONST for u in kT.src)
    )


class Replicas:
    """Which replica has which value, and what was accepted so far."""

    only_looks = False

    def __init__(self, run: Run, x: Exchange, seed: int, memory: Mapping[str, Any]) -> None:
        self.run, self.x, self.seed = run, x, seed
        bath = parameter_of(run.system)
        self.by_heat = bath is not None and bath.name == x.parameter
        members, given = run.given.members, run.given.params
        self.ladder = np.array(given[x.parameter])  # in the order of the call
        self.moved = np.array([s.name for s in run.system.states if s.role == "momentum"])
        self.books = [s.name for s in run.system.states if s.role == "auxiliary"]
        kT = run.system.heat[0]
        energy = run.system.energy
        assert energy is not None
        parts = separable(run.system)
        looked: dict[str, UOp] = {"U": parts.V, "K": parts.T} if self.by_heat else {"U": energy}
        # is one look at energies enough?  Where neither depends on the value, and k_B T is a multiple of it
        own = None if bath is None else bath.var
        self.plain = self.by_heat and own not in parts.V.leaves and is_multiple(kT, own)
        if bath is not None and self.by_heat and own in parts.T.leaves:
            raise PlanError(
                f"exchange= of `{bath.name}`, which is in the kinetic energy of `{run.system.name}` too",
                fix=f'Give the bath a parameter of its own: leave temperature="{bath.name}" out.',
            )
        loops = run.loops and run.target.backend != "python"
        self.engine = engine_for(
            run.target, observer_program(run, looked | {"kT": kT}), None, run.threads, loops
        )
        self.wanted = {p.name for p in made(self.engine.program).params}
        self.at = np.array(memory.get("at", np.arange(members)))  # the replica with the value k
        self.attempts = np.array(memory.get("attempts", np.zeros(members - 1)))
        self.accepted = np.array(memory.get("accepted", np.zeros(members - 1)))
        self.way = np.array(memory.get("way", np.zeros(members)))  # up 1, down -1, neither yet 0
        self.trips = np.array(memory.get("trips", np.zeros(members)))
        self.drawn: tuple[int, Any] = (-1, None)
        self.history: list[Any] = []
        self.steps: list[int] = []
        self.own = History()
        self.own.add(0 if run.begun is None else run.begun.step, self.values())

    @property
    def params(self) -> dict[str, Any]:
        return {self.x.parameter: self.values()}

    def values(self) -> Any:
        """Of the parameter, by replica."""
        out = np.empty_like(self.ladder)
        out[self.at] = self.ladder
        return out

    def looked(self, states: Mapping[str, Any], params: dict[str, Any], n: int) -> dict[str, Any]:
        """Energies of all replicas with these parameters."""
        r = self.run
        own = {name: v for name, v in r.given.params.items() if name in self.wanted} | params
        m = self.engine.start(dict(states), own, r.given.members, r.dt, r.t0, None)
        m.steps = n
        return {name: np.asarray(here(v), float) for name, v in self.engine.synchronised(m).items()}

    def done(
        self, n: int, states: Mapping[str, Any], stopped: frozenset[int]
    ) -> tuple[dict[str, Any], dict[int, str]]:
        members, turn = self.run.given.members, n // self.x.every
        seen = {k: v for k, v in states.items() if k in self.engine_states}
        old = self.values()
        now = self.looked(seen, {self.x.parameter: old}, n)
        k = np.arange((turn - 1) % 2, members - 1, 2)  # of each pair the first of the two values
        i, j = self.at[k], self.at[k + 1]
        if stopped:
            gone = np.array([int(a) in stopped or int(b) in stopped for a, b in zip(i, j)], bool)
            k, i, j = k[~gone], i[~gone], j[~gone]
        beta, energy = 1.0 / now["kT"], now["U"]
        if self.plain:
            change = (beta[i] - beta[j]) * (energy[j] - energy[i])
        else:
            other = old.copy()
            other[i], other[j] = old[j], old[i]
            there = self.looked(seen, {self.x.parameter: other}, n)
            swapped, by = there["U"], 1.0 / there["kT"]
            change = by[i] * swapped[i] - beta[i] * energy[i] + (by[j] * swapped[j] - beta[j] * energy[j])
            if not self.by_heat:  # of one thermal energy differences are exact
                same = (by[i] == beta[i]) & (by[j] == beta[j])
                plainly = beta[i] * (swapped[i] - energy[i]) + beta[j] * (swapped[j] - energy[j])
                change = np.where(same, plainly, change)
        taken = (change <= 0.0) | (self.chances(turn)[k] < exp(-np.maximum(change, 0.0)))
        self.attempts[k] += 1
        self.accepted[k[taken]] += 1
        self.at[k[taken]], self.at[k[taken] + 1] = j[taken], i[taken]
        self.walk()
        new = self.values()
        self.history.append(self.at.copy())
        self.steps.append(n)
        self.own.add(n, new)
        if not self.by_heat:
            return self.with_work(states, np.where(new == old, 0.0, swapped - energy)), {}
        squares, work = new / old, np.zeros(len(old))
        if not self.plain:
            moved = new != old
            squares = np.where(moved, now["kT"] * by, 1.0) ** -1.0
            work = np.where(moved, swapped - energy, 0.0)
        ratio = np.sqrt(squares)
        out = {}
        for name, v in states.items():
            if owner(name) in self.moved:
                v = v * ratio.reshape(-1, *[1] * (v.ndim - 1)).astype(v.dtype)
            elif owner(name) in self.books and name == owner(name):  # what comes with the temperature is heat
                v = v - (now["K"] * (squares - 1.0) + work).reshape(v.shape).astype(v.dtype)
            out[name] = v
        return out, {}

    def with_work(self, states: Mapping[str, Any], work: Any) -> dict[str, Any]:
        """What comes with another value of a parameter is booked as heat too: it is energy that no step has made."""
        return {
            name: v - work.reshape(v.shape).astype(v.dtype)
            if owner(name) in self.books and name == owner(name)
            else v
            for name, v in states.items()
        }

    def changed(self) -> dict[str, History]:
        return {self.x.parameter: self.own}

    def chances(self, turn: int) -> Any:
        """A uniform number of its own for each exchange and pair; many turns are drawn at once."""
        block, row = divmod(turn, AT_ONCE)
        if self.drawn[0] != block:
            members = self.run.given.members
            turns, pairs = np.arange(block * AT_ONCE, (block + 1) * AT_ONCE), np.arange(members)
            index = (turns[:, None] * members + pairs).astype(np.uint64)
            zero = np.zeros_like(index)
            a, b, _, _ = philox4x32((index, zero, zero, zero + STREAM), key_words(self.seed))
            self.drawn = block, unit_interval(a, b)
        return self.drawn[1][row]

    @cached_property
    def engine_states(self) -> set[str]:
        return {s.name for s in made(self.engine.program).states}

    def walk(self) -> None:
        """From the first value to the last and back is a round trip."""
        low, high = self.at[0], self.at[-1]
        if self.way[low] == -1:
            self.trips[low] += 1
        self.way[low] = 1
        if self.way[high] == 1:
            self.way[high] = -1

    def memory(self) -> dict[str, Any]:
        return {
            "at": self.at.astype(np.int64),
            "attempts": self.attempts,
            "accepted": self.accepted,
            "way": self.way,
            "trips": self.trips,
        }

    def told(self) -> Swaps:
        walker = np.array(self.history, np.int64).reshape(len(self.history), len(self.at))
        return Swaps(
            self.x.parameter,
            self.ladder,
            self.x.every,
            self.attempts,
            self.accepted,
            np.array(self.steps),
            walker,
            self.trips,
        )
