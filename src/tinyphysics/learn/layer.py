"""What is a run to a library that differentiates?  A function of one row of numbers, with its products with derivatives.

y = F(x): x has the states and parameters that the library owns, y the states at the end, or those of the frames. Both have an
axis of members before the numbers. `pull` is J^T w, `push` is J v, `curve` the gradient of w . J v, and `bend` the second
derivative of F along two directions. What is built on them (learn/torch_module.py, learn/jax_function.py) needs no others.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from tinyphysics.errors import InputError, PlanError, ShapeError
from tinyphysics.given import shown, whole
from tinyphysics.runtime.measure.differentiate import vjp, wanted_names
from tinyphysics.runtime.measure.forward_mode import beside, jvp
from tinyphysics.runtime.stages.resolve import Request
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.tpir.program.lower import DIRECTION
from tinyphysics.util import did_you_mean, one_of

Names = tuple[str, ...]
Shape = tuple[int, ...]
NUMBERS = itertools.count()
LAYERS: WeakValueDictionary[int, Layer] = (
    WeakValueDictionary()
)  # by number: graphs of other libraries keep numbers


@dataclass(frozen=True, eq=False)
class Layer:
    """A simulation and how long it runs. `fixed` are states and parameters that are the same in every call."""

    sim: Setup
    wrt: Names
    fixed: Mapping[str, Any]
    steps: int | None
    until: float | None
    save_every: int | None
    t0: float
    seed: int
    past: Mapping[str, Any]  # how the past is known: past, memory, snapshots
    number: int = field(default_factory=lambda: next(NUMBERS))

    # --- shapes -------------------------------------------------------------------------------
    @property
    def states(self) -> dict[str, Shape]:
        return {s.name: s.var.shape for s in self.sim.system.seen.states}

    @property
    def shapes(self) -> dict[str, Shape]:
        """Of everything that a call may pass."""
        system = self.sim.system
        return self.states | {p.name: p.var.shape for p in system.parameters if p.var.dtype.is_float}

    @property
    def ends(self) -> dict[str, Shape]:
        """Of what a call returns, without the axis of members."""
        if self.save_every is None:
            return self.states
        assert self.steps is not None
        return {n: (self.steps // self.save_every + 1, *s) for n, s in self.states.items()}

    def size_in(self, names: Names) -> int:
        return sum(size(self.shapes[n]) for n in names)

    @property
    def size_out(self) -> int:
        return sum(map(size, self.ends.values()))

    # --- rows and names -----------------------------------------------------------------------
    def opened(self, x: Any, names: Names) -> dict[str, Any]:
        """A run's arguments; of one member without its axis."""
        parts = opened(x, {n: self.shapes[n] for n in names})
        return {**self.fixed, **(parts if len(x) > 1 else {n: v[0] for n, v in parts.items()})}

    def request(self, x: Any, names: Names) -> Request:
        return Request(
            given=self.opened(x, names),
            steps=self.steps,
            until=self.until,
            save_every=self.save_every,
            t0=self.t0,
            seed=self.seed,
        )

    def row_of_ends(self, found: Mapping[str, Any], members: int) -> Any:
        """(members, numbers) of states at the end, or of frames, whose first axis is that of the times."""
        parts = []
        for name, shape in self.ends.items():
            v = np.asarray(found[name], float)
            if self.save_every is not None and members > 1:
                v = np.moveaxis(v, 1, 0)
            parts.append(v.reshape(members, size(shape)))
        return np.concatenate(parts, axis=1)

    def ends_of_row(self, y: Any) -> dict[str, Any]:
        """The other way round."""
        out = {}
        for name, v in opened(y, self.ends).items():
            if len(y) == 1:
                v = v[0]
            elif self.save_every is not None:
                v = np.moveaxis(v, 0, 1)
            out[name] = np.array(v, order="C")
        return out

    def row_of_gradients(self, grads: Mapping[str, Any], names: Names, members: int) -> Any:
        out = np.zeros((members, self.size_in(names)))
        at = 0
        for name in names:
            n = size(self.shapes[name])
            if name in self.wrt:
                out[:, at : at + n] = np.asarray(grads[name], float).reshape(members, n)
            at += n
        return out

    # --- the function and its derivatives -----------------------------------------------------
    def run(self, x: Any, names: Names) -> Any:
        return self.row_of_ends(self.evolved(self.opened(x, names)), len(x))

    def evolved(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The states at the end, or frames, of a run."""
        kept = {"frames": 2} if self.save_every is None else {"save_every": self.save_every}
        how = {k: v for k, v in {"steps": self.steps, "until": self.until}.items() if v is not None}
        out = self.sim.evolve(**given, **how, **kept, t0=self.t0, seed=self.seed, progress=False)
        if out.stopped is not None:
            s = out.stopped
            member = "" if s.member is None else f" of member {s.member}"
            raise InputError(
                f"the run{member} stopped at step {s.step} (t = {s.t:g}): {s.cause}",
                fix="Shorten dt, or choose another state.",
            )
        found: Mapping[str, Any] = out.final.states if self.save_every is None else out.frames
        return found

    def pull(self, x: Any, w: Any, names: Names) -> Any:
        """J^T w."""
        by = [n for n in names if n in self.wrt]
        if not by:
            return np.zeros((len(x), self.size_in(names)))
        cotangents = self.ends_of_row(w)
        grads = vjp(self.sim, cotangents, self.request(x, names), by, **self.past, per_member=True)
        return self.row_of_gradients(grads, names, len(x))

    def push(self, x: Any, v: Any, names: Names) -> Any:
        """J v."""
        found = jvp(self.sim, self.tangents(v, names), self.request(x, names))
        return self.row_of_ends(found, len(x))

    def curve(self, x: Any, w: Any, v: Any, names: Names) -> Any:
        """The gradient of w . J v by x: what a run with a direction beside its states gives back for cotangents of it."""
        request = self.request(x, names)
        r, acts = beside(self.sim, self.tangents(v, names), request, "a second derivative")
        ends = {DIRECTION.format(0, n): bar for n, bar in self.ends_of_row(w).items()}
        by = [n for n in names if n in self.wrt]
        request = Request(**{**vars(request), "given": r.given, "t0": r.t0, "acts": acts})
        grads = vjp(r.setup, ends, request, by, **self.past, per_member=True)
        return self.row_of_gradients(grads, names, len(x))

    def bend(self, x: Any, v: Any, u: Any, names: Names) -> Any:
        """The second derivative along v and u, number by number: a member for each number of y."""
        m, members = self.size_out, len(x)
        every = np.tile(np.eye(m), (members, 1))
        rows = [np.repeat(a, m, axis=0) for a in (x, v, u)]
        return (self.curve(rows[0], every, rows[1], names) * rows[2]).sum(axis=1).reshape(members, m)

    def tangents(self, v: Any, names: Names) -> dict[str, Any]:
        parts = opened(v, {n: self.shapes[n] for n in names})
        own = parts if len(v) > 1 else {n: a[0] for n, a in parts.items()}
        return {n: a for n, a in own.items() if n in self.wrt}

    def batched(self, what: str, arrays: Sequence[Any], names: Names) -> Any:
        """One of the five, of rows with any axes before the numbers."""
        rows = [np.ascontiguousarray(np.asarray(a, float)) for a in arrays]
        batch = rows[0].shape[:-1]
        out_size = self.size_in(names) if what in ("pull", "curve") else self.size_out
        rows = [a.reshape(size(batch), a.shape[-1]) for a in rows]
        if not size(batch):
            return np.zeros((*batch, out_size))
        return np.ascontiguousarray(getattr(self, what)(*rows, names).reshape(*batch, out_size))

    # --- what a call passes -------------------------------------------------------------------
    def ordered(
        self, args: Sequence[Any], named: Mapping[str, Any], own: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Arguments of a call by name: states in their order, or anything by its name; `own` is not passed."""
        states = [n for n in self.states if n not in own]
        if len(args) > len(states):
            raise InputError(
                f"{len(args)} arguments were passed, and there are {len(states)} states",
                fix=f"Pass states in this order: {', '.join(states)}; parameters by name.",
            )
        out = dict(zip(states, args))
        for name, value in named.items():
            if name in out:
                raise InputError(f"`{name}` was passed twice", fix="Pass it once.")
            if name in own:
                raise InputError(
                    f"`{name}` is learnt: it is not passed", fix=f"Leave `{name}` out of the call."
                )
            if name not in self.shapes:
                known = list(self.shapes)
                raise InputError(
                    f"`{name}` is no state and no parameter of real numbers of `{self.sim.system.name}`",
                    fix=f"{did_you_mean(name, known)}It has {one_of(known)}.",
                )
            out[name] = value
        missing = [n for n in states if n not in out and n not in self.fixed]
        if missing:
            raise InputError(f"the state `{missing[0]}` is missing", fix=f"Pass {', '.join(missing)}.")
        return out

    def check_shape(self, name: str, actual: Shape) -> Shape:
        """The axes before those of a state or parameter."""
        want = self.shapes[name]
        if tuple(actual[len(actual) - len(want) :]) != want or len(actual) < len(want):
            raise ShapeError(
                f"`{name}` has shape {tuple(actual)}; the system declares {want}",
                fix=f"One run: {want}. A batch: (batch, ...) before it.",
            )
        return tuple(actual[: len(actual) - len(want)])


def renumbered(layer: Layer) -> Layer:
    """The same under a number that is not taken."""
    out = replace(layer, number=next(NUMBERS))
    LAYERS[out.number] = out
    return out


def size(shape: Shape) -> int:
    out = 1
    for n in shape:
        out *= n
    return out


def opened(x: Any, shapes: Mapping[str, Shape]) -> dict[str, Any]:
    out, at = {}, 0
    for name, shape in shapes.items():
        out[name] = np.ascontiguousarray(x[:, at : at + size(shape)]).reshape(len(x), *shape)
        at += size(shape)
    return out


def layer_of(
    what: str,
    sim: Any,
    wrt: Any,
    steps: Any,
    until: Any,
    save_every: Any,
    t0: float,
    seed: int,
    past: Any,
    memory: Any,
    snapshots: Any,
    given: Mapping[str, Any],
) -> Layer:
    """Checked, as far as that is possible before a run."""
    if not isinstance(sim, Setup):
        raise InputError(
            f"{what} takes a simulation, not {shown(sim)}", fix="Pass tp.compile(system, dt=0.01)."
        )
    system = sim.system  # an error while a size is open
    if (steps is None) == (until is None):
        raise InputError(f"{what} needs steps= or until=", fix=f"Write {what}(sim, steps=1000).")
    if save_every is not None:
        if steps is None or whole("save_every", save_every, 1) > steps or steps % save_every:
            raise InputError(
                f"save_every={shown(save_every)} does not divide steps={shown(steps)}",
                fix="Pass steps= and a save_every= that divides it.",
            )
    if not all(s.var.dtype.is_float for s in system.states):
        raise PlanError(f"`{system.name}` has states of whole numbers", fix=f"{what} needs real ones.")
    if sim.compiled.known.draws:
        raise PlanError(
            f"{what}: `{system.name}` draws random numbers, others for each member of a batch, and a library that repeats "
            "rows for a derivative would have others in each",
            fix="Take sim.value_and_grad(..., seed=), or compile it without temperature= and random numbers.",
        )
    names = wanted_names(sim, wrt)
    if "dt" in names:
        raise PlanError(f"{what}: the time step is that of the simulation", fix="Leave dt out of wrt.")
    known = [*(s.name for s in system.seen.states), *(p.name for p in system.parameters)]
    for name in given:
        if name not in known:
            raise InputError(
                f"`{system.name}` has no `{name}`", fix=f"{did_you_mean(name, known)}It has {one_of(known)}."
            )
    how = {"past": past, "memory": memory, "snapshots": snapshots}
    out = Layer(sim, tuple(names), dict(given), steps, until, save_every, float(t0), int(seed), how)
    LAYERS[out.number] = out
    return out
