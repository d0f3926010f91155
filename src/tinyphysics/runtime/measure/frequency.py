"""How fast is the fastest vibration at a state?  The largest eigenvalue of M^-1 V'', by Lanczos on compiled products.

Sums are folded in an order of their own and the start is drawn by Philox: a plan that rests on the number is the same
on every machine. Of an ensemble every member is asked, all at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.analysis.stiff import Stiffness, stiffness
from tinyphysics.facts import Facts
from tinyphysics.ir import UOp
from tinyphysics.physics.draws import uniform
from tinyphysics.planner.methods.families.rates import kinetic
from tinyphysics.runtime.measure.descent import dot
from tinyphysics.runtime.stages.compiled import Compiled
from tinyphysics.runtime.stages.execute import observe_states
from tinyphysics.runtime.state.encoding import FLOAT64
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import Schedule
from tinyphysics.target import TARGETS

MOST_PRODUCTS = 32  # with a vector; the ends of a spectrum are found long before its middle
DIGITS = 6  # of a frequency that are kept: more are not found, and the last bits mean nothing
SETTLING = 16  # products of a power iteration before its growth counts

Product = Callable[[Any, Any], tuple[Any, Any]]  # (along q, along p) -> (bends, moves), a row for each member


@dataclass(frozen=True)
class Frequency:
    fastest: float  # of what vibrates; 0 if nothing does
    rate: float  # of what vibrates or runs away: one over the shortest time in which something happens


def frequency(compiled: Compiled, facts: Facts, given: Inputs, t0: float, V: UOp | None = None) -> Frequency:
    """The largest of all members; of a part V of the potential alone, if one is given. Without pairs nothing is known."""
    system = compiled.system
    if not system.pairs:
        return Frequency(math.nan, math.nan)
    T = kinetic(system) if system.kind == "forces" else facts["separable"].T if facts["separable"] else None
    if V is None:
        V = facts["separable"].V if system.kind != "forces" and T is not None else None
    s = stiffness(system, T, V)
    n = sum(q.size for q in system.q)
    start = np.broadcast_to(uniform(n, 0)[:, 0] - 0.5, (given.members, n))
    product = products(s, compiled, given, t0)
    found = lanczos(product, start) if s.splits and system.kind != "forces" else None
    low, high = growth(product, start, s.splits) if found is None else found
    if not (math.isfinite(low) and math.isfinite(high)):
        return Frequency(math.nan, math.nan)
    return Frequency(rounded(math.sqrt(max(high, 0.0))), rounded(math.sqrt(max(high, -low, 0.0))))


def rounded(x: float) -> float:
    return float(f"{x:.{DIGITS}g}")


def products(s: Stiffness, compiled: Compiled, given: Inputs, t0: float) -> Product:
    """V'' and T'' at the state, times vectors."""
    values = {
        **{f"bend.{k}": u for k, u in enumerate(s.bends)},
        **{f"move.{k}": u for k, u in enumerate(s.moves)},
    }
    states = {name: np.asarray(v, np.float64) for name, v in compiled.encoding.values(given.states).items()}
    params = {name: np.asarray(v, np.float64) for name, v in given.own.items()}
    frames = {name: v[None] for name, v in states.items()}
    program, target, loops = (
        compiled.program,
        TARGETS[compiled.known.backend],
        compiled.in_loops(given.members),
    )

    def cut(row: Any, names: tuple[str, ...], of: Mapping[str, Any]) -> dict[str, Any]:
        out, at = {}, 0
        for name, like in zip(names, of.values()):
            size = math.prod(like.shape[1:])
            out[name], at = np.ascontiguousarray(row[:, at : at + size]).reshape(like.shape), at + size
        return out

    q = {str(v.arg): states[str(v.arg)] for v in s.system.q}
    p = {str(v.arg): states[str(v.arg)] for v in s.system.p}

    def product(along_q: Any, along_p: Any) -> tuple[Any, Any]:
        own = cut(along_q, s.along_q, q) | cut(along_p, s.along_p, p)
        i = replace(given, states=states, params=params | own)
        r = Run(program, s.system, target, i, Schedule(0, None, None, None), 1.0, t0, None, FLOAT64, loops)
        out = {
            name: v[0].reshape(given.members, -1)
            for name, v in observe_states(r, values, frames, [0]).items()
        }
        bends = np.concatenate([out[f"bend.{k}"] for k in range(len(s.bends))], axis=1)
        return bends, np.concatenate([out[f"move.{k}"] for k in range(len(s.moves))], axis=1)

    return product


def lanczos(product: Product, start: Any) -> tuple[float, float] | None:
    """(lowest, highest) eigenvalue of V'' T'', which T'' makes symmetric; None where T'' is not positive."""
    u, n = start.copy(), start.shape[1]
    w = product(u, u)[1]
    size = dot(u, w)
    if not (size > 0).all():
        return None
    u, w = u / np.sqrt(size)[:, None], w / np.sqrt(size)[:, None]
    basis = [(u, w)]
    diagonal: list[Any] = []
    beside: list[Any] = []
    for _ in range(min(n, MOST_PRODUCTS)):
        r = product(w, u)[0]
        diagonal.append(dot(r, w))
        # what rounding leaves of the earlier directions grows, if it is not taken out
        for _twice in range(2):
            for a, b in basis:
                r = r - dot(r, b)[:, None] * a
        s = product(r, r)[1]
        size = dot(r, s)
        scale = np.abs(diagonal[-1]) + np.abs(np.sum(beside, axis=0) if beside else 0.0)
        on = size > (1e-10 * scale) ** 2
        norm = np.sqrt(np.where(on, size, 1.0))
        beside.append(np.where(on, norm, 0.0))
        if not on.any():
            break
        u, w = (np.where(on[:, None], x / norm[:, None], 0.0) for x in (r, s))
        basis.append((u, w))
    rows = [
        (np.array(diagonal)[:, k].tolist(), np.array(beside)[: len(diagonal) - 1, k].tolist())
        for k in range(len(u))
    ]
    ends = [(-largest_of([-a for a in d], b), largest_of(d, b)) for d, b in rows]
    return min(low for low, _ in ends), max(high for _, high in ends)


def largest_of(diagonal: list[float], beside: list[float]) -> float:
    """The largest eigenvalue of a symmetric tridiagonal matrix, by counting those above a number."""
    if not all(map(math.isfinite, (*diagonal, *beside))):
        return math.nan
    around = [abs(a) + abs(b) for a, b in zip([*beside, 0.0], [0.0, *beside])]
    low, high = min(d - a for d, a in zip(diagonal, around)), max(d + a for d, a in zip(diagonal, around))
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if some_above(diagonal, beside, middle) else (low, middle)
    return high


def some_above(diagonal: list[float], beside: list[float], x: float) -> bool:
    """Has x - matrix a negative pivot?"""
    pivot = 1.0
    for d, b in zip(diagonal, [0.0, *beside]):
        pivot = x - d - (b * b / pivot if b else 0.0)
        if pivot < 0:
            return True
        pivot = pivot or 1e-300
    return False


def growth(product: Product, start: Any, splits: bool) -> tuple[float, float]:
    """(0, rate**2) by powers of the linearised flow: where nothing makes it symmetric."""
    q, p = start, start
    total, count = np.zeros(len(q)), 0
    for k in range(2 * MOST_PRODUCTS):
        bends, moves = product(q, p)
        q, p = (moves, -bends) if splits else (bends, moves)
        size = np.sqrt(dot(q, q) + dot(p, p))
        if not np.isfinite(size).all():
            return math.nan, math.nan
        if not size.all():
            return 0.0, 0.0
        q, p = q / size[:, None], p / size[:, None]
        if k >= SETTLING:
            total, count = total + np.log(size), count + 1
    rate = float(np.exp(total / count).max())
    return 0.0, rate * rate
