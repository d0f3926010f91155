"""How does a box change its size?  After every so many steps, with all positions in it, so that exp(-(H + PV)/kT) stays.

Positions are multiplied by s, momenta relative to the motion of the whole by 1/s, and lengths of the box by s. `rescale`
makes a step of d ln V = -(κ/τ)(P - P_int)dt + √(2 k_BTκ/Vτ) dW (Bernetti & Bussi 2020) in √V, where its noise does not
depend on the place; whether it is accepted (Roberts & Tweedie 1996) makes the law exact, however long it is. `mtk`
(Martyna, Tobias & Klein 1994) gives ln V a momentum with a chain of thermostats of its own.
Where a bath leaves c axes of the momentum of the whole as they are, P_int gains (c/d) k_BT/V: the motion that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.analysis.masses import masses
from tinyphysics.analysis.separable import separable
from tinyphysics.device.cuda.dlpack import here
from tinyphysics.ir import UOp
from tinyphysics.ir.neighbours import determinant, widths
from tinyphysics.planner.systems.pressure import MTK, dimensions_of, reaches
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.formulas.baths import BATHS
from tinyphysics.rules.formulas.thermostats import TOGETHER, Thermostat
from tinyphysics.rules.functions.random import draw
from tinyphysics.rules.identities.real import simplify
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.stages.execute import observer_program
from tinyphysics.runtime.state.across import TOGETHER as ALL
from tinyphysics.runtime.state.across import Across, History
from tinyphysics.runtime.state.encoding import owner
from tinyphysics.runtime.state.host_exp import exp
from tinyphysics.runtime.state.run import Run, made
from tinyphysics.system import System

STREAM = BATHS + (1 << 28)  # beyond those of baths
SMALL = "box below 2(cutoff + skin)"  # why a member stops
WILD = "box changes too fast"
MOST = 1.0  # of ln of a length, in one move of `mtk`: beyond it its step is far too long
NEWTON = 40  # steps of a cube root, more than any needs
CHAIN = 3  # links of the chain of `mtk`
NEAR = 1e-3  # the change of lengths by which the compressibility is measured
States = dict[str, Any]


def cell_moves(system: System) -> Across:
    way, box, _, tau, every, kappa = system.barostat
    told = f"{ALL}{way} of {box} every {every}"
    return Across("box", every, told, ["box", way, every, tau, kappa], lambda run, memory: Cells(run, memory))


def root(x: Any, d: int) -> Any:
    """The d-th root, d up to 3, by sums, products and quotients alone: the same bits on every machine."""
    if d < 3:
        return np.sqrt(x) if d == 2 else np.array(x)
    y = 1.0 + (x - 1.0) / 3.0
    for _ in range(NEWTON):
        y = np.where(y > 0.0, y, 0.5 * x)
        y = y - (y - x / (y * y)) / 3.0
    return y


class Cells:
    """The boxes of all members of one run."""

    only_looks = False

    def __init__(self, run: Run, memory: Mapping[str, Any]) -> None:
        self.run, system = run, run.system
        self.way, self.name, self.pressure, self.tau, self.every, kappa = system.barostat
        box = next(x for x in system.parameters if x.name == self.name)
        self.d = dimensions_of(system, box)
        members, params = run.given.members, run.given.params
        self.words = [s.name for s in system.states if s.role == "position"]
        self.moved = [s.name for s in system.states if s.role == "momentum"]
        self.books = [s.name for s in system.states if s.role == "auxiliary"]
        looked = self.looks(system, box.var)
        loops = run.loops and run.target.backend != "python"
        self.engine = engine_for(run.target, observer_program(run, looked), None, run.threads, loops)
        self.dtype = params[self.name].dtype
        first = np.broadcast_to(params[self.name], (members, *box.var.shape))
        self.box = np.array(memory.get("box", first), np.float64)
        self.P = np.broadcast_to(np.asarray(params[self.pressure], np.float64), (members,))
        zeros = np.zeros(members)
        self.work = np.array(memory.get("work", zeros))  # energy that has come with the boxes
        self.tries, self.accepted = (np.array(memory.get(k, zeros)) for k in ("tries", "accepted"))
        self.p_box = np.array(memory.get("p_box", zeros))
        self.strain = np.array(memory.get("strain", zeros))  # ln V since the beginning
        self.chain = np.array(memory.get("chain", np.zeros((2, CHAIN, members))))
        given = None if kappa is None else np.full(members, kappa)
        self.kappa = memory.get("kappa", given)
        begun = 0 if run.begun is None else run.begun.step
        self.sizes, self.works = History(), History()
        self.remember(begun)

    def looks(self, system: System, box: UOp) -> dict[str, UOp]:
        """What is asked of a state: energies, what scaling does to them, the motion of the whole, two random numbers."""
        split, heat = separable(system), system.heat
        together = system.bath in TOGETHER
        axes = tuple(int(u.arg) for u in heat[3:]) if together else ()
        self.lost = len(axes)
        g = float(heat[2].arg) if together else float(sum(p.size for p in system.p))
        self.g = g
        x = Thermostat(system.p, masses(system, split.T).inverse, (), heat[0], UOp.const(1.0), g, axes)
        moving = [*system.q, box]
        V = split.V if split.V.leaves else UOp.const(0.0)
        (slope,) = simplify(jvp([V], moving, moving)) if V.leaves & set(moving) else (UOp.const(0.0),)
        out = {"U": V, "K": 0.5 * x.twice_kinetic, "W": -slope, "kT": heat[0]}
        limits = reaches(system)
        if limits:
            limit = limits[0]
            for u in limits[1:]:
                limit = limit.maximum(u)
            out["reach"] = limit
        if x.drift is not None:
            out |= {f"drift{k}": u for k, u in enumerate(x.drift)}
        if self.way != MTK:
            out |= {"xi": draw("normal", STREAM, ()), "u": draw("uniform", STREAM + 1, ())}
        return out

    # --- what a run asks of it --------------------------------------------------------------------------
    @property
    def params(self) -> dict[str, Any]:
        return {self.name: self.box.astype(self.dtype)}

    def changed(self) -> dict[str, History]:
        return {self.name: self.sizes}

    def remember(self, n: int) -> None:
        """Where frames are between this step and the one before; what no frame sees is forgotten."""
        s = self.run.schedule
        if len(self.sizes.steps) > 1 and not any(map(s.saves, range(self.sizes.steps[-1], n))):
            for h in (self.sizes, self.works):
                h.steps.pop()
                h.values.pop()
        self.sizes.add(n, self.box.astype(self.dtype))
        self.works.add(n, self.work)

    def memory(self) -> dict[str, Any]:
        kept = {"box": self.box, "work": self.work, "tries": self.tries, "accepted": self.accepted}
        if self.way == MTK:
            return kept | {"p_box": self.p_box, "strain": self.strain, "chain": self.chain}
        return kept if self.kappa is None else kept | {"kappa": self.kappa}

    @cached_property
    def wanted(self) -> tuple[set[str], set[str]]:
        program = made(self.engine.program)
        return {p.name for p in program.params}, {s.name for s in program.states}

    def looked(self, states: Mapping[str, Any], box: Any, n: int) -> dict[str, Any]:
        r, (params, words) = self.run, self.wanted
        others = {
            x.name for x in r.system.parameters
        } - params  # the rest are the addresses of random numbers
        own = {name: v for name, v in r.given.params.items() if name not in others}
        if self.name in own:
            own[self.name] = box.astype(self.dtype)
        seen = {k: v for k, v in states.items() if k in words}
        m = self.engine.start(seen, own, r.given.members, r.dt, r.t0, None)
        m.steps = n
        return {name: np.asarray(here(v), np.float64) for name, v in self.engine.synchronised(m).items()}

    def done(
        self, n: int, states: Mapping[str, Any], stopped: frozenset[int]
    ) -> tuple[dict[str, Any], dict[int, str]]:
        goes = np.ones(self.run.given.members, bool)
        goes[list(stopped)] = False
        now = self.looked(states, self.box, n)
        new, lost = (self.pushed if self.way == MTK else self.drawn)(n, states, now, goes)
        self.remember(n)
        return new, lost

    # --- volumes -----------------------------------------------------------------------------------------
    def volume(self, box: Any) -> Any:
        if box.ndim == 1:
            out = box
            for _ in range(self.d - 1):
                out = out * box
            return out
        if box.ndim == 2:
            return np.prod(box, axis=-1)
        return np.array([determinant(cell.tolist()) for cell in box])

    def narrow(self, box: Any, seen: Mapping[str, Any]) -> Any:
        """Which of these boxes have no room for their cutoffs."""
        if "reach" not in seen:
            return np.zeros(len(box), bool)
        if box.ndim == 3:
            least = np.array([min(widths(cell.tolist())) for cell in box])
        else:
            least = box if box.ndim == 1 else box.min(-1)
        return least < seen["reach"]

    def inside(self, seen: Mapping[str, Any], V: Any) -> Any:
        """P_int = (2K + W)/dV, and c/d k_BT/V for the motion of the whole that a bath leaves out."""
        return ((2.0 * seen["K"] + seen["W"]) / self.d + self.lost / self.d * seen["kT"]) / V

    def scaled(self, states: Mapping[str, Any], seen: Mapping[str, Any], s: Any, back: Any) -> States:
        """Positions times s, momenta beside that of the whole times `back`."""
        out = dict(states)
        for name, v in states.items():
            own = owner(name)
            if own in self.words:
                out[name] = v * by_member(s, v)
            elif own in self.moved:
                by = by_member(back, v)
                key = f"drift{self.moved.index(own)}"
                whole = seen[key].reshape(v.shape).astype(v.dtype) if key in seen and name == own else 0.0
                out[name] = whole + (v - whole) * by
        return out

    def larger(self, s: Any) -> Any:
        return self.box * by_member(s, self.box, np.float64)

    def booked(self, states: States, energy: Any) -> States:
        """Energy that has come with the boxes is no error of the steps: the books hold it."""
        self.work = self.work + energy
        for name in self.books:
            v = states[name]
            states[name] = v - energy.reshape(v.shape).astype(v.dtype)
        return states

    # --- by chance -----------------------------------------------------------------------------------------
    def drawn(
        self, n: int, states: Mapping[str, Any], now: Mapping[str, Any], goes: Any
    ) -> tuple[States, dict[int, str]]:
        if self.kappa is None:
            self.kappa = self.measured(n, states, now)
        kT, V = now["kT"], self.volume(self.box)
        width2 = kT * self.kappa * (0.5 * self.every * abs(self.run.dt) / self.tau)  # of √V in this time
        x = np.sqrt(V)

        def drift(at: Any, seen: Mapping[str, Any], V: Any) -> Any:
            return width2 * (at * (self.inside(seen, V) - self.P) / kT + 0.5 / at)

        ahead = drift(x, now, V)
        y = x + ahead + np.sqrt(width2) * now["xi"]
        possible = goes & (y > 0.0)
        ratio = np.where(possible, y / x, 1.0)
        s = np.where(possible, root(ratio * ratio, self.d), 1.0)
        box = self.larger(s)
        small = possible & self.narrow(box, now)
        possible &= ~small
        s = np.where(possible, s, 1.0)
        box = np.where(by_member(possible, box, bool), box, self.box)
        moved = self.scaled(states, now, s, 1.0 / s)
        then = self.looked(moved, box, n)
        W = self.volume(box)
        back = drift(y, then, W)
        way = ((y - x - ahead) ** 2 - (x - y - back) ** 2) / (2.0 * width2)
        change = then["U"] - now["U"] + (then["K"] - now["K"])
        a = way - (change + self.P * (W - V)) / kT
        power = np.ones_like(s)
        for _ in range(self.lost):
            power = power * s
        with np.errstate(invalid="ignore", over="ignore"):
            good = possible & (now["u"] < exp(np.clip(a, -800.0, 700.0)) * power * ratio)
        self.tries, self.accepted = self.tries + goes, self.accepted + good
        out = {name: np.where(by_member(good, v, bool), moved[name], v) for name, v in states.items()}
        self.box = np.where(by_member(good, box, bool), box, self.box)
        out = self.booked(out, np.where(good, change, 0.0))
        return out, {int(k): SMALL for k in np.flatnonzero(small)}

    def measured(self, n: int, states: Mapping[str, Any], now: Mapping[str, Any]) -> Any:
        """1/(-V dP_int/dV) at the first state, and not above that of an ideal gas."""
        found = []
        for s in (1.0 - NEAR, 1.0 + NEAR):
            by = np.full(len(self.box), s)
            box = self.larger(by)
            box = np.where(by_member(self.narrow(box, now), box, bool), self.box, box)
            by = np.where(self.narrow(self.larger(by), now), 1.0, by)
            found.append(
                (
                    box,
                    self.inside(
                        self.looked(self.scaled(states, now, by, 1.0 / by), box, n), self.volume(box)
                    ),
                )
            )
        (a, low), (b, high) = ((self.volume(box), P) for box, P in found)
        V = self.volume(self.box)
        width = np.where(b > a, b - a, 1.0)
        stiff = np.where(b > a, -V * (high - low) / width, 0.0)
        ideal = max(self.g / self.d, 1.0) * now["kT"] / V
        return 1.0 / np.where(stiff > ideal, stiff, ideal)

    # --- by a momentum --------------------------------------------------------------------------------------
    def pushed(
        self, n: int, states: Mapping[str, Any], now: Mapping[str, Any], goes: Any
    ) -> tuple[States, dict[int, str]]:
        """Chain, push, scale, push, chain: a palindrome, of the length of all steps since the last one."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.moved_by_momentum(n, states, now, goes)

    def moved_by_momentum(
        self, n: int, states: Mapping[str, Any], now: Mapping[str, Any], goes: Any
    ) -> tuple[States, dict[int, str]]:
        h, kT = self.every * self.run.dt, now["kT"]
        mass = (self.g + self.d) * kT * self.tau**2
        before = self.box.copy(), self.p_box.copy(), self.chain.copy(), self.strain.copy()
        own = self.energy(mass, kT)
        self.thermostat(0.5 * h, mass, kT)
        self.p_box = self.p_box + 0.5 * h * self.push(now, self.box)
        turned = h * self.p_box / mass
        wild = goes & ~(np.abs(turned) < MOST)
        turned = np.where(wild, 0.0, turned)
        s, back = exp(turned), exp(-(1.0 + self.d / self.g) * turned)
        small = goes & self.narrow(self.larger(s), now)
        goes = goes & ~small & ~wild
        s, back, turned = (np.where(goes, x, y) for x, y in ((s, 1.0), (back, 1.0), (turned, 0.0)))
        out = self.scaled(states, now, s, back)
        self.box = self.larger(s)
        self.strain = self.strain + self.d * turned
        then = self.looked(out, self.box, n)
        self.p_box = self.p_box + 0.5 * h * self.push(then, self.box)
        self.thermostat(0.5 * h, mass, kT)
        self.box, self.p_box, self.strain = (
            np.where(by_member(goes, new, bool), new, old)
            for new, old in zip((self.box, self.p_box, self.strain), (before[0], before[1], before[3]))
        )
        self.chain = np.where(goes, self.chain, before[2])
        self.tries, self.accepted = self.tries + goes, self.accepted + goes
        # the volume is in `strain` alone: P V changes by V (1 - e^(-d turned)), which no logarithm enters
        gained = (
            self.energy(mass, kT)
            - own
            + np.where(goes, self.P * (self.volume(self.box) - self.volume(before[0])), 0.0)
        )
        stops = {int(k): cause for bad, cause in ((small, SMALL), (wild, WILD)) for k in np.flatnonzero(bad)}
        return self.booked(out, -np.where(goes, gained, 0.0)), stops

    def push(self, seen: Mapping[str, Any], box: Any) -> Any:
        """d V (P_int - P) + (d/g) Σ p²/m."""
        V = self.volume(box)
        return self.d * V * (self.inside(seen, V) - self.P) + self.d / self.g * 2.0 * seen["K"]

    def energy(self, mass: Any, kT: Any) -> Any:
        """Of the momentum of the box and its chain, less c/d k_BT ln V: all that the box has but P V."""
        eta, p_eta = self.chain
        Q = kT * self.tau**2
        return (
            0.5 * self.p_box**2 / mass
            + (0.5 * p_eta**2 / Q + kT * eta).sum(0)
            - self.lost / self.d * kT * self.strain
        )

    def thermostat(self, h: float, mass: Any, kT: Any) -> None:
        """A chain on the momentum of the box for a time h, a palindrome of exact pieces."""
        eta, p_eta = ([*x] for x in self.chain)
        Q = kT * self.tau**2

        def force(k: int) -> Any:
            return (self.p_box**2 / mass if k == 0 else p_eta[k - 1] ** 2 / Q) - kT

        def scale(k: int, w: float) -> None:
            """What the link k acts on shrinks."""
            turn = w * p_eta[k] / Q
            eta[k] = eta[k] + turn
            if k:
                p_eta[k - 1] = p_eta[k - 1] * shrunk(turn)
            else:
                self.p_box = self.p_box * shrunk(turn)

        p_eta[-1] = p_eta[-1] + 0.5 * h * force(CHAIN - 1)
        for k in range(CHAIN - 2, -1, -1):
            scale(k + 1, 0.25 * h)
            p_eta[k] = p_eta[k] + 0.5 * h * force(k)
            scale(k + 1, 0.25 * h)
        scale(0, h)
        for k in range(CHAIN - 1):
            scale(k + 1, 0.25 * h)
            p_eta[k] = p_eta[k] + 0.5 * h * force(k)
            scale(k + 1, 0.25 * h)
        p_eta[-1] = p_eta[-1] + 0.5 * h * force(CHAIN - 1)
        self.chain = np.array([eta, p_eta])


def shrunk(turn: Any) -> Any:
    """exp(-turn); of a step that is far too long it is finite, and the box says so."""
    return exp(np.clip(np.nan_to_num(-turn), -700.0, 700.0))


def by_member(x: Any, like: Any, dtype: Any = None) -> Any:
    """One number for each member, in the shape of an array of all of them."""
    return np.asarray(x, like.dtype if dtype is None else dtype).reshape(-1, *[1] * (like.ndim - 1))
