"""Are derivatives stiff where a run begins?  The largest eigenvalue of their Jacobian, by powers of it, decides the method.

Products of the Jacobian with a vector are compiled as observables are, with equal bits everywhere, or evaluated by the
definition where there are few numbers. Sums are folded in an order of their own, and three digits are kept: a plan that
rests on them is the same on every backend and on every machine. A run that goes on from a checkpoint keeps its method.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tinyphysics.analysis.jacobian import JacobianProduct, jacobian_product
from tinyphysics.errors import TinyPhysicsError
from tinyphysics.ir import Ops, toposort
from tinyphysics.ir.value import Prepared
from tinyphysics.plan import Spectrum
from tinyphysics.planner.choice.stiff_rates import FEW_NUMBERS, fitted, stiff_method, worst
from tinyphysics.planner.methods.families.rates import rates_of
from tinyphysics.runtime.measure.descent import dot
from tinyphysics.runtime.measure.pilot import part, sample
from tinyphysics.runtime.stages.compiled import Compiled
from tinyphysics.runtime.stages.execute import observe_states
from tinyphysics.runtime.stages.resolve import Beginning, checked_step
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.encoding import FLOAT64
from tinyphysics.runtime.state.ensemble import Inputs, inputs
from tinyphysics.runtime.state.run import Checkpoint, Run
from tinyphysics.runtime.state.schedule import Schedule, checked_time
from tinyphysics.system import System
from tinyphysics.target import TARGETS

PRODUCTS = 14  # of the Jacobian with a vector
MORE = 4  # products than there are numbers, where there are few
MOST_MEMBERS = 4  # of an ensemble, that are looked at
DIGITS = 3  # of an eigenvalue that are kept
NOT_EVALUATED = frozenset({Ops.RANDOM, Ops.CUSTOM, Ops.NEIGHBOURS, Ops.TREE})
STIFF = ("rodas", "rock4", "rkc", "radau")

Product = Callable[[Any], Any]  # of (members, numbers)


def is_open(setup: Setup) -> bool:
    """Derivatives whose method was not named, before the first state was looked at."""
    goal = setup.goal
    if (
        goal.method != "auto"
        or goal.spectrum is not None
        or goal.decision is not None
        or goal.order is not None
    ):
        return False
    return setup.system.kind == "ode" and goal.precision == "float64"


def choose_by_stiffness(setup: Setup, at: Beginning) -> Any:
    """The step of the run stays what it is."""
    if at.begun is not None:
        go_on(setup, at.begun)
        return at.dt
    if at.dt is None and at.request.until is None:  # which is refused later
        return at.dt
    given = inputs(setup.system, at.on_host, setup.compiled.encoding)
    if given.members:
        decide(setup, given, checked_time(at.t0), span_of(at), at.dt is not None)
    return at.dt


def span_of(at: Beginning) -> float:
    """How long a method is not stopped: from one look to the next, or the whole run."""
    if at.dt is not None:
        return abs(checked_step(at.dt))
    return abs(checked_time(at.request.until) - checked_time(at.t0))


def decide(setup: Setup, given: Inputs, t0: float, span: float, each: bool = False) -> None:
    """From some members: the stiffest of them."""
    given = part(given, sample(given, MOST_MEMBERS))
    default = setup.compiled.known.method
    value, uniform = measured(setup.compiled, given, t0)
    found = stiff_method(setup.system, setup.goal, value, span, default, each, uniform)
    of = "dt" if each else "the run"
    spectrum = Spectrum(found if found != default else "", default, value.real, value.imag, span, of)
    setup.goal = replace(setup.goal, spectrum=spectrum)
    if found != default:
        setup.compile_again()


def go_on(setup: Setup, begun: Checkpoint) -> None:
    """The method that the program of a checkpoint says; the default where none does, and resume= says what is wrong."""
    default = setup.compiled.known
    if default.program == begun.run.program:
        return
    for name in STIFF:
        goal = replace(setup.goal, spectrum=Spectrum(name, default.method))
        try:
            tried = Compiled(setup.system, goal, setup.requested)
        except TinyPhysicsError:
            continue
        if tried.known.program == begun.run.program:
            setup.goal, setup._compiled = goal, tried
            return


# --- measured -------------------------------------------------------------------------------------------------
def measured(compiled: Compiled, given: Inputs, t0: float) -> tuple[complex, float]:
    """The eigenvalue of largest size, of a pair the one above the axis; and how large the change of uniform states is."""
    system = compiled.system
    try:
        numbers = sum(v.var.size for v in system.states)
        if compiled not in READY:
            READY[compiled] = ready(system, numbers)
        found = READY[compiled]
        if isinstance(found, Few):
            product = evaluated(found, compiled, given, t0)
        else:
            product = observed(found, compiled, given, t0)
        values = [rounded(z) for z in by_powers(product, start(given.members, numbers))]
        change = float(np.abs(product(uniform(given.members, [v.var.size for v in system.states]))).max())
        return worst(values), rounded(complex(change)).real
    except TinyPhysicsError:  # what has no derivative, or is too long to be written out, is not looked at
        return 0j, 0.0


@dataclass(frozen=True, eq=False)
class Few:
    """Products for a few numbers, as the definitions of operations have them."""

    s: JacobianProduct
    fixed: Prepared  # what no direction enters is the same in every product
    moving: Prepared


READY: WeakKeyDictionary[Compiled, JacobianProduct | Few] = (
    WeakKeyDictionary()
)  # the same in every run of a simulation


def ready(system: System, numbers: int) -> JacobianProduct | Few:
    rates = rates_of(system)[0]
    few = numbers <= FEW_NUMBERS and not any(u.op in NOT_EVALUATED for u in toposort(rates))
    s = jacobian_product(system, rates, short=not few)
    if not few:
        return s
    ways = [x.var for x in s.system.parameters if x.name in s.along]
    fixed = [u for u in toposort(list(s.changes)) if not any(w in u.leaves for w in ways)]
    return Few(s, Prepared(fixed), Prepared(s.changes, fixed))


def start(members: int, n: int) -> Any:
    """A vector in which every wave is: the fractions of k**2 times the golden ratio."""
    k = np.arange(1.0, n + 1.0)
    return np.broadcast_to((k * k * 0.6180339887498949) % 1.0 - 0.5, (members, n))


def uniform(members: int, sizes: list[int]) -> Any:
    """A vector with one number all over each state, 1 or less: what spreads does nothing to it."""
    return np.broadcast_to(
        np.repeat((-0.6180339887498949) ** np.arange(len(sizes)), sizes), (members, sum(sizes))
    )


def by_powers(product: Product, v: Any) -> list[complex]:
    size = np.sqrt(dot(v, v))
    with np.errstate(all="ignore"):
        for _ in range(min(PRODUCTS, v.shape[1] + MORE) - 2):
            v = product(v / np.where(size > 0, size, 1.0)[:, None])
            size = np.sqrt(dot(v, v))
        a = v / np.where(size > 0, size, 1.0)[:, None]
        b = product(a)
        c = product(b)
        sums = [dot(x, y).tolist() for x, y in ((a, a), (a, b), (b, b), (a, c), (b, c))]
    return [fitted(*row) for row in zip(*sums)]


def rounded(z: complex) -> complex:
    """To so many digits of its size; a part that is rounding beside the other is none."""
    size = abs(z)
    if not math.isfinite(size) or not size:
        return z
    unit = 10.0 ** (math.floor(math.log10(size)) + 1 - DIGITS)
    return complex(*(float(f"{round(x / unit) * unit:.{DIGITS}g}") for x in (z.real, z.imag)))


def evaluated(few: Few, compiled: Compiled, given: Inputs, t0: float) -> Product:
    """By the definition of every operation, member by member."""
    s = few.s
    states = compiled.encoding.values(given.states)
    values = {name: np.asarray(v, np.float64) for name, v in (states | given.own).items()}
    shapes = [v.var.shape for v in s.system.states]

    def plain(x: Any, shape: tuple[int, ...]) -> Any:
        flat = np.asarray(x, np.float64).ravel().tolist()
        return flat if shape else flat[0]

    kinds = {x.name: x.var.shape for x in s.system.states}
    kinds |= {x.name: x.var.shape for x in s.system.parameters}
    rows = []
    for k in range(given.members):
        row = {
            name: plain(v[k if len(v) > 1 else 0], kinds[name]) for name, v in values.items() if name in kinds
        }
        if s.system.time is not None:
            row[str(s.system.time.arg)] = t0
        rows.append(row)

    known = [few.fixed.values(row, {}) for row in rows]

    def product(v: Any) -> Any:
        out = []
        for same, member in zip(known, v):
            own, at = {}, 0
            for name, shape in zip(s.along, shapes):
                n = math.prod(shape)
                own[name], at = plain(member[at : at + n], shape), at + n
            found = few.moving(own, same)
            out.append([x for group in found for x in (group if isinstance(group, list) else [group])])
        return np.array(out, np.float64)

    return product


def observed(s: JacobianProduct, compiled: Compiled, given: Inputs, t0: float) -> Product:
    """By a program of its own, in loops."""
    values = {f"change.{k}": u for k, u in enumerate(s.changes)}
    states = {name: np.asarray(v, np.float64) for name, v in compiled.encoding.values(given.states).items()}
    params = {name: np.asarray(v, np.float64) for name, v in given.own.items()}
    frames = {name: v[None] for name, v in states.items()}
    target = TARGETS[compiled.known.backend]
    shapes = [states[v.name].shape for v in s.system.states]

    def product(v: Any) -> Any:
        own, at = {}, 0
        for name, shape in zip(s.along, shapes):
            n = math.prod(shape[1:])
            own[name], at = np.ascontiguousarray(v[:, at : at + n]).reshape(shape), at + n
        i = replace(given, states=states, params=params | own)
        r = Run(
            compiled.program, s.system, target, i, Schedule(0, None, None, None), 1.0, t0, None, FLOAT64, True
        )
        out = observe_states(r, values, frames, [0])
        return np.concatenate([out[name][0].reshape(len(v), -1) for name in values], axis=1)

    return product
