"""What does a loss read of a run, and how does it change with that?  A function of a run, traced once.

`out.final.q`, the frames `out.q`, observables `out["name"]` and the times `out.t` are symbols while the loss is traced.
Its value and its derivatives are computed by a program of their own, like observables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from inspect import signature
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import DeviceArray, here
from tinyphysics.errors import InputError, PlanError, TraceError
from tinyphysics.front.random import of_observable
from tinyphysics.front.trace import Definition, run
from tinyphysics.ir import Ops, UOp, as_uop, toposort
from tinyphysics.planner.cost.target import in_loops, loops_refuse
from tinyphysics.rules.calculus.vjp import vjp
from tinyphysics.rules.identities.real import simplify
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.system import State
from tinyphysics.target import NUMPY, Target
from tinyphysics.tpir.precision.probe import probe
from tinyphysics.tpir.program.isa import Program
from tinyphysics.util import Site, a_kind, did_you_mean

Shape = tuple[int, ...]
FINAL, FRAMES, SEEN, TIMES = "final", "frames", "seen", "t"
MANY = 1 << 14  # numbers on a GPU that are sooner computed with there than brought here
STEPS = (Ops.SIGN, Ops.FLOOR, Ops.RINT, Ops.FLOORDIV, Ops.CAST, Ops.BITCAST)  # what jumps has no derivative


@dataclass(frozen=True, eq=False)
class Symbols:
    """What a loss may read: shapes of states, of observables, and how many frames there are."""

    states: Mapping[str, Shape]
    observed: Mapping[str, Shape]  # of one value
    frames: int
    rows: int  # of observed values

    def final(self, name: str) -> UOp:
        return UOp.var(f"{FINAL}.{name}", self.states[name])

    def frame(self, name: str) -> UOp:
        return UOp.var(f"{FRAMES}.{name}", (self.frames, *self.states[name]))

    def series(self, name: str) -> UOp:
        return UOp.var(f"{SEEN}.{name}", (self.rows, *self.observed[name]))

    @property
    def times(self) -> UOp:
        return UOp.var(TIMES, (self.frames,))


class FinalSymbol:
    """The last state, while a loss is traced."""

    def __init__(self, symbols: Symbols) -> None:
        self._symbols = symbols

    def __getattr__(self, name: str) -> UOp:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._symbols.states:
            raise unknown(f"out.final.{name}", name, list(self._symbols.states))
        return self._symbols.final(name)

    def __getitem__(self, name: str) -> UOp:
        return self.__getattr__(name)


class OutSymbol:
    """A run, while a loss is traced: what a Trajectory has of it."""

    def __init__(self, symbols: Symbols) -> None:
        self._symbols = symbols
        self.final = FinalSymbol(symbols)

    @property
    def t(self) -> UOp:
        return self._symbols.times

    def __getattr__(self, name: str) -> UOp:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._symbols.states:
            raise unknown(f"out.{name}", name, [*self._symbols.states, "final", "t"])
        return self._symbols.frame(name)

    def __getitem__(self, name: str) -> UOp:
        if name in self._symbols.observed:
            return self._symbols.series(name)
        if name in self._symbols.states:
            return self._symbols.frame(name)
        known = [*self._symbols.observed, *self._symbols.states]
        raise InputError(
            f'the loss reads out["{name}"], which is not observed in this run',
            fix=f'{did_you_mean(str(name), known)}Pass observe={{"{name}": lambda q, p: ...}}.',
        )


def unknown(said: str, name: str, known: list[str]) -> InputError:
    return InputError(
        f"the loss reads {said}, and a run has no `{name}` for a loss",
        fix=f"{did_you_mean(name, known)}It has {', '.join(known)}, and observables as out[name].",
    )


@dataclass(frozen=True, eq=False)
class Loss:
    """A scalar of a run, with its derivatives by what it reads."""

    value: UOp
    reads: tuple[UOp, ...]  # in a fixed order
    slopes: tuple[UOp, ...] = field(default=())

    def __call__(
        self, given: Mapping[str, Any], members: int, target: Target = NUMPY
    ) -> tuple[Any, dict[str, Any]]:
        """(the value, the derivatives by name) of every member; derivatives stay where the target is."""
        wanted = {"value": self.value} | {f"d.{v.arg}": u for v, u in zip(self.reads, self.slopes)}
        found = evaluate(wanted, {str(v.arg): given[str(v.arg)] for v in self.reads}, members, target)
        return here(found["value"]), {str(v.arg): found[f"d.{v.arg}"] for v in self.reads}


def traced_loss(function: Callable[..., Any], symbols: Symbols) -> Loss:
    if not callable(function):
        raise InputError("loss is not a function", fix="Pass lambda out: out.final.q @ out.final.q.")
    try:
        signature(function).bind(None)
    except (TypeError, ValueError) as error:
        if isinstance(error, TypeError):
            raise InputError(
                f"the loss takes one argument, the run, and not what it is written with: {error}",
                fix="Write lambda out: out.final.q @ out.final.q.",
            ) from None
    d = Definition("loss", (), lambda s: function(OutSymbol(symbols)), None, function)
    value, sites = run(d, {}, of_observable("loss"))
    if value is None:
        raise InputError("the loss returns nothing", fix="End it with `return <a number>`.")
    if isinstance(value, str | bytes | Mapping):
        raise InputError(
            f"the loss returns {a_kind(value)}, and a gradient is that of one number",
            fix="Write lambda out: out.final.q @ out.final.q.",
        )
    u = as_uop(value)
    if 0 in u.shape:
        raise InputError(
            "the loss reads frames, and this run keeps none",
            fix="Pass save_every=, save_at= or frames=, or read out.final.",
        )
    if u.shape:
        raise InputError(
            f"the loss is of shape {u.shape}, and a gradient is that of one number",
            fix="Sum it up: return (...).sum().",
        )
    if not u.dtype.is_float:
        raise InputError(
            "the loss is a condition or a whole number, and a gradient is that of a real one",
            fix="Return a float: tp.where(condition, a, b) chooses between two.",
        )
    if not any(v.op is Ops.VAR for v in u.leaves):
        raise InputError(
            f"the loss is {u}, whatever the run does: it reads nothing of it",
            fix="Read the run: lambda out: out.final.q @ out.final.q.",
        )
    for x in toposort([u]):
        if x.op in STEPS:
            raise TraceError(
                f"the loss is not differentiable: `{x.op.value}` jumps",
                site=site_of(x, sites),
                fix="Write it with smooth functions.",
            )
    return loss_of(u)


def along(loss: Loss, ways: Mapping[str, str]) -> UOp:
    """The derivative of a loss where what it reads of states moves along directions, which are states too."""
    parts = []
    for v, slope in zip(loss.reads, loss.slopes):
        kind, _, name = str(v.arg).partition(".")
        if kind == SEEN:
            raise PlanError(
                f'hvp: the loss reads the observable "{name}", whose second derivative is not there yet',
                fix="Write it in the loss, of frames: out.q.",
            )
        if kind in (FINAL, FRAMES):
            way = UOp.var(f"{kind}.{ways[name]}", v.shape)
            parts.append((slope * way).sum() if v.shape else slope * way)
    return UOp.sum_of(parts)


def loss_of(u: UOp) -> Loss:
    """A scalar with its derivatives."""
    reads = tuple(sorted((v for v in u.leaves if v.op is Ops.VAR), key=lambda v: str(v.arg)))
    return Loss(u, reads, tuple(simplify(vjp([u], [UOp.const(1.0)], reads))))


def site_of(u: UOp, sites: Any) -> Site | None:
    found: Site | None = sites.table.get(u) if hasattr(sites, "table") else None
    return found


WRITTEN = 1000  # numbers that a loss reads, up to which it may be written out


# --- evaluating -------------------------------------------------------------------------------------
@lru_cache(maxsize=64)
def program_of(names: tuple[str, ...], values: tuple[UOp, ...], reads: tuple[UOp, ...]) -> Program:
    states = [State(f"v{k}", v, "field") for k, v in enumerate(reads)]
    return probe(states, (), UOp.var("no time"), dict(zip(names, values)))


def evaluate(
    values: Mapping[str, UOp], given: Mapping[str, Any], members: int, target: Target = NUMPY
) -> dict[str, Any]:
    """Expressions of arrays (members, shape...) by the names of their variables, with a NumPy operation for each node.

    Many numbers that are all on a GPU stay there: `target` computes with them, to the same bits.
    """
    roots = tuple(values.values())
    reads = tuple(sorted({v for u in roots for v in u.leaves if v.op is Ops.VAR}, key=lambda v: str(v.arg)))
    if not reads:
        reads = (UOp.var("nothing"),)
        given = {**given, "nothing": np.zeros(members)}
    program = program_of(tuple(values), roots, reads)
    own = [given[str(v.arg)] for v in reads]
    if all(isinstance(v, DeviceArray) for v in own) and sum(v.size for v in own) >= MANY:
        engine = engine_for(target, program, None, None, in_loops(program, members))
        there = {f"v{k}": a.reshape(members, *v.shape) for k, (v, a) in enumerate(zip(reads, own))}
        found = engine.synchronised_there(engine.start(there, {}, members, 1.0, 0.0))
        return {name: found[name].reshape(members, *u.shape) for name, u in values.items()}
    loops = in_loops(program, members)
    if (
        not loops and sum(v.size for v in reads) > WRITTEN
    ):  # on many short axes, which a step could have in registers
        loops = not loops_refuse(program)
    engine = engine_for(NUMPY, program, None, None, loops)
    state = {
        f"v{k}": np.ascontiguousarray(np.asarray(here(a), float).reshape(members, *v.shape))
        for k, (v, a) in enumerate(zip(reads, own))
    }
    m = engine.start(state, {}, members, 1.0, 0.0)
    found = engine.synchronised(m)
    return {name: np.asarray(found[name]).reshape(members, *u.shape) for name, u in values.items()}
