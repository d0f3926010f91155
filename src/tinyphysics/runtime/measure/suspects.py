"""What is wrong with a system at one state?  Each function looks for one cause, and has evidence or says nothing."""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import numpy as np

from tinyphysics.errors import TinyPhysicsError
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.physics.draws import normal
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.functions.user_derivatives import look_at, trouble_with
from tinyphysics.runtime.measure.causes import (
    CURL,
    DERIVATIVE,
    LONG,
    MASSLESS,
    OVERFLOW,
    OVERLAP,
    POLE,
    ROOT,
    Finding,
)
from tinyphysics.runtime.measure.first_bad_node import finite, first_bad_node, overflows, own_pairs
from tinyphysics.runtime.measure.place import MOST, WORK, Place
from tinyphysics.runtime.stages.in_numpy import numbers

SAFE = 0.2  # of a limit: what is proposed
NEGATIVE = (Ops.SQRT, Ops.RSQRT, Ops.LOG, Ops.LOG1P, Ops.POW)
CLOSED = 1e-9  # relative: below it derivatives of forces are the same crosswise
DIRECTIONS = 3  # pairs of random ones along which large systems are looked at for a curl
POINTS = 64  # arguments at which an operation is looked at
NEAR = 0.5  # of the middle distance of neighbours: two that are nearer may overlap
OWN = 0.8  # of the fastest vibration: what two particles have of it that make it
ORBITS = 0.1  # of the square of the speed on a circle: below it two particles that attract each other fall together
SOFT = "add a softening, tp.sqrt(r2 + eps**2)"


def bad_operation(place: Place, when: str, at_start: bool) -> Finding | None:
    """A number that is not finite: the operation that made it says why."""
    if place.subject.work > WORK:
        return None
    u = first_bad_node(place.subject.roots, place.env)
    return None if u is None else of_operation(place, u, when, at_start)


def of_operation(place: Place, u: UOp, when: str, at_start: bool) -> Finding:
    system, term = place.system, place.term_of(u)
    arguments = [place.value(s) for s in u.src]
    if overflows(u, place.env):
        return Finding(
            OVERFLOW,
            f"{u.op.value} is beyond all floats {when}",
            "Choose units in which the numbers are near 1, or look for what makes them grow.",
            term,
        )
    own = own_pairs(u)
    first = arguments[0] if arguments else np.zeros(0)
    if own is not None and first.size == own.size:
        first = first[~own]
    if u.op in NEGATIVE and (first < 0).any():
        return Finding(
            ROOT,
            f"the argument of {u.op.value} is {float(first.min()):.3g} {when}",
            "Guard it, tp.where(x > 0, ..., 0.0), or keep the orbit where it is positive.",
            term,
        )
    zero = next(filter(None, (massless(place, u, p.name, p.var) for p in system.parameters)), "")
    if zero:
        return Finding(
            MASSLESS,
            f"the parameter `{zero}` is zero {when}, and it is divided by",
            f"Pass a positive `{zero}`; a fixed centre is a term of the energy, not a particle without mass.",
            term,
        )
    pair = together(place)
    if at_start and pair is not None:
        return Finding(
            OVERLAP,
            f"particles {pair[0]} and {pair[1]} are at the same place {when}",
            f"Move them apart, or {SOFT}.",
            term,
            pair,
        )
    fix = f'Compile with time="logarithmic", {SOFT}, or shorten dt.'
    return Finding(
        POLE,
        f"{u.op.value} is not finite {when}: the state is at a pole of the energy",
        "Start away from it." if at_start else fix,
        term,
        pair,
    )


def massless(place: Place, u: UOp, name: str, var: UOp) -> str:
    """Is a parameter why an operation is not finite: at other states too, and not if it were 1?"""
    if not any(var in s.leaves for s in u.src) or np.all(np.ravel(place.env[name])):
        return ""
    aside = {
        str(x.arg): place.state(x) + 0.1 + np.abs(normal(x.size, 3)[:, 0]).reshape(x.shape)
        for x in place.moving
    }
    ones = np.where(np.ravel(place.env[name]) == 0.0, 1.0, np.ravel(place.env[name]))
    elsewhere = place.moved(aside)
    filled = elsewhere.moved({name: ones if var.shape else ones[0]})
    return name if not finite(u, elsewhere.value(u)) and finite(u, filled.value(u)) else ""


def together(place: Place) -> tuple[int, int] | None:
    """The first two particles at one place."""
    for q in place.system.q:
        if len(q.shape) == 2:
            rows = place.state(q)
            for i in range(len(rows)):
                same = np.flatnonzero((rows[i + 1 :] == rows[i]).all(axis=1))
                if len(same):
                    return i, i + 1 + int(same[0])
    return None


def wrong_derivative(place: Place) -> Finding | None:
    """Of an operation of the user's own: compared with its definition at many points, and where the state is."""
    s = place.system
    roots = [u for us in s.roots.values() for u in us]
    for u in toposort(roots):
        if u.op is not Ops.CUSTOM:
            continue
        why = trouble_with(str(u.arg), len(u.src))
        if not why:
            columns = [place.value(x) for x in u.src]
            why = look_at(str(u.arg), list(islice(zip(*(c.tolist() for c in columns)), POINTS)))
        if why and "could not be compared" not in why:
            return Finding(
                DERIVATIVE,
                why,
                f"Mend the derivative of `{u.arg}`, or leave it out and write the definition as an expression.",
                place.term_of(u),
            )
    return None


def curl(place: Place) -> Finding | None:
    """Forces whose derivatives differ crosswise: dF[i]/dq[j] is not dF[j]/dq[i]."""
    s = place.system
    if s.kind != "forces":
        return None
    (q,), (f,) = s.q, s.forces
    fix = (
        "Check the signs and indices of the force, or write its energy: @tp.hamiltonian. If a curl is meant, no energy "
        "is conserved."
    )
    term = place.shown(f)
    try:
        if q.size <= MOST:
            J = place.matrix([f], [q])
            off, size = np.abs(J - J.T), np.abs(J).max(initial=0.0)
            if not np.isfinite(off).all() or off.max(initial=0.0) <= CLOSED * size:
                return None
            i, j = np.unravel_index(off.argmax(), off.shape)
            because = (
                f"d/d{named(q, int(j))} of the force on {named(q, int(i))} is {J[i, j]:.4g}, and "
                f"d/d{named(q, int(i))} of the force on {named(q, int(j))} is {J[j, i]:.4g}: no energy has this gradient"
            )
            return Finding(CURL, because, fix, term, (str(q.arg), int(min(i, j))))
        for k in range(DIRECTIONS):
            u, v = normal(q.size, 22 + k).T
            Ju, Jv = (along(place, f, q, w) for w in (u, v))
            off, size = abs(float(u @ Jv - v @ Ju)), float(np.abs(u * Jv).sum() + np.abs(v * Ju).sum())
            if math.isfinite(off) and off > CLOSED * size:
                because = (
                    f"along two random directions u and v, the derivative J of the force has u.Jv - v.Ju = {off:.3g}: no "
                    "energy has this gradient"
                )
                return Finding(CURL, because, fix, term)
    except TinyPhysicsError:  # an operation without a derivative
        pass
    return None


def along(place: Place, f: UOp, q: UOp, way: Any) -> Any:
    direction = UOp.stack([UOp.const(float(x)) for x in way], q.shape)
    return np.ravel(np.asarray(numbers(jvp([f], [q], [direction]), place.env)[0], float))


def named(q: UOp, k: int) -> str:
    return f"{q.arg}[{', '.join(map(str, np.unravel_index(k, q.shape)))}]" if q.shape else str(q.arg)


def too_long(place: Place, n: int, good: float | None = None) -> Finding | None:
    """A step beside the fastest vibration; two particles that overlap are another cause."""
    pace = place.pace
    if not place.limit < pace < math.inf:
        return None
    if n == 0 and (found := overlap(place)) is not None:
        return found
    dt = SAFE * place.limit * abs(place.dt) / pace if good is None else good
    return Finding(
        LONG,
        f"dt*omega is {pace:.3g} at step {n:,}, and the method is stable below {place.limit:.3g}",
        f"Compile with dt={dt:.2g} or less; sim.suggest_dt(...) measures one.",
        place.steepest,
    )


def overlap(place: Place) -> Finding | None:
    """Two particles much nearer than the others, which the fastest vibration moves, and which are in no orbit."""
    q = place.system.q[0] if place.system.q else None
    way = place.fastest
    if q is None or len(q.shape) != 2 or q.shape[0] < 2 or way is None:
        return None
    rows = place.state(q)
    apart = np.linalg.norm(rows[:, None] - rows[None, :], axis=-1)
    np.fill_diagonal(apart, np.inf)
    i, j = sorted(int(x) for x in np.unravel_index(apart.argmin(), apart.shape))
    beside = np.delete(
        apart.min(axis=1), [i, j]
    )  # of two particles alone: where the step would be short enough
    usual = float(np.median(beside) if len(beside) else apart[i, j] * (place.pace / place.limit) ** (2 / 3))
    others = f", where others have {usual:.3g} to their nearest" if len(beside) else ""
    weights = (way[: q.size].reshape(q.shape) ** 2).sum(axis=1)
    if not 0.0 < apart[i, j] < NEAR * usual or weights[[i, j]].sum() < OWN * weights.sum():
        return None
    along = (rows[i] - rows[j]) / apart[i, j]
    pushed, v = (x[0].reshape(q.shape) for x in (place.accelerations, place.velocities))
    push, speed = float((pushed[i] - pushed[j]) @ along), float(np.linalg.norm(v[i] - v[j]))
    if push < 0 and speed**2 > ORBITS * -push * apart[i, j]:
        return None  # they go around each other: the step is too long for that
    return Finding(
        OVERLAP,
        f"particles {i} and {j} are {apart[i, j]:.3g} apart at the first state{others}: dt*omega is {place.pace:.3g} "
        f"there, and the method is stable below {place.limit:.3g}",
        f"Move them apart, or {SOFT}.",
        place.steepest,
        (i, j),
    )


def out_of_range(place: Place, largest: float, precision: str) -> Finding | None:
    """An operation whose result a narrower precision has no number for."""
    if largest > 1e300 or place.subject.work > WORK:
        return None
    order = [u for u in toposort(place.subject.roots) if u.dtype.is_float and u.leaves]
    for u, v in zip(order, numbers(order, place.env)):
        x, own = np.ravel(np.asarray(v, float)), own_pairs(u)
        x = x[~own] if own is not None else x
        if x.size and np.isfinite(x).all() and np.abs(x).max() > largest:
            return Finding(
                OVERFLOW,
                f"{u.op.value} is {np.abs(x).max():.3g} at the first state, and the largest number of {precision} is "
                f"{largest:.3g}",
                'Choose units in which the numbers are near 1, or precision="float64".',
                place.term_of(u),
            )
    return None
